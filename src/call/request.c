/*
 * request.c - the arguments of mw_invoke into an MwCall.
 *
 * Everything that can be wrong with what the caller wrote is said here, before
 * the first stage: nothing is reserved, claimed or sent by then.  The order is
 * that of cost and of rights.  Sizes come first, read off the toast pointers,
 * so that a prompt that is too large is never detoasted; then whether this
 * transaction may write; then the tenant, so that a role learns nothing more
 * about one that is not its own; then model, options, tools and messages.
 *
 * The call lives in a memory context of its own under the caller's current one:
 * whoever ends the statement, or unwinds it by an error, frees it.
 */
#include "mw.h"

#include "access/detoast.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/pg_prng.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "call/call.h"
#include "call/request.h"
#include "guc.h"
#include "policy/watch.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/spi.h"

#define MAX_NAME	255			/* bytes of a request_id */

/* ---------- arguments ---------- */

void
mw_check_prompt_size(Size bytes)
{
	if (bytes <= (Size) mw_guc_max_prompt_kb * 1024)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("the prompt is larger than mw.max_prompt"),
			 errdetail("Prompt, messages, tools and options have %zu kB together, and %d kB are allowed.",
					   (bytes + 1023) / 1024, mw_guc_max_prompt_kb),
			 errhint("Send less, or let a superuser raise mw.max_prompt.")));
}

static char *
text_arg(FunctionCallInfo fcinfo, int n, int *len)
{
	text	   *t;
	char	   *s;
	int			bytes;

	if (PG_ARGISNULL(n))
		return NULL;
	t = PG_GETARG_TEXT_PP(n);
	bytes = VARSIZE_ANY_EXHDR(t);
	s = palloc(bytes + 1);
	memcpy(s, VARDATA_ANY(t), bytes);
	s[bytes] = '\0';
	if (len != NULL)
		*len = bytes;
	return s;
}

static Jsonb *
jsonb_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : PG_GETARG_JSONB_P(n);
}

/* (tenant, session, prompt, tools, agent, model, request_id, options, messages) */
void
mw_invoke_args(FunctionCallInfo fcinfo, MwInvokeArgs *args)
{
	static const int large[] = {2, 3, 7, 8};
	Size		bytes = 0;

	for (int i = 0; i < lengthof(large); i++)
	{
		if (!PG_ARGISNULL(large[i]))
			bytes += toast_raw_datum_size(PG_GETARG_DATUM(large[i])) - VARHDRSZ;
	}
	mw_check_prompt_size(bytes);

	memset(args, 0, sizeof(*args));
	args->tenant = text_arg(fcinfo, 0, NULL);
	args->session = text_arg(fcinfo, 1, NULL);
	args->prompt = text_arg(fcinfo, 2, &args->prompt_len);
	args->tools = jsonb_arg(fcinfo, 3);
	args->agent = text_arg(fcinfo, 4, NULL);
	args->model = text_arg(fcinfo, 5, NULL);
	args->request_id = text_arg(fcinfo, 6, NULL);
	args->options = jsonb_arg(fcinfo, 7);
	args->messages = jsonb_arg(fcinfo, 8);
}

/* A call writes its records: the server's own words for why it cannot, and what can be done */
static void
check_may_write(const char *function)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", function),
				 errhint("Call it on the primary server; mw_explain works here.")));
	if (XactReadOnly)
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s in a read-only transaction", function),
				 errhint("BEGIN READ WRITE; mw_explain works here.")));
	PreventCommandIfParallelMode(function);
	mw_extension_hold();
}

/* ---------- names ---------- */

static void
check_tenant(const char *tenant)
{
	if (tenant != NULL && tenant[0] != '\0')
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("the tenant is %s", tenant == NULL ? "NULL" : "empty"),
			 errhint("The first argument names the tenant that the call is for: SELECT mw_ask('acme', …).")));
}

static void
check_session(const char *session)
{
	if (session == NULL)
		return;
	if (session[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the session is empty"),
				 errhint("NULL makes a call without a session.")));
	if (strcmp(session, "*") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the session cannot be named \"*\""),
				 errdetail("That name stands for each session of a tenant."),
				 errhint("NULL makes a call without a session.")));
	if (strlen(session) > MW_SESSION_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the session's name is too long"),
				 errdetail("It has %zu bytes, and at most %d are allowed.", strlen(session), MW_SESSION_MAX),
				 errhint("Name it by its hash: md5(name).")));
}

static void
check_request_id(const char *id)
{
	if (id[strspn(id, " \t\r\n\v\f")] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the request_id is %s", id[0] == '\0' ? "empty" : "blank"),
				 errhint("NULL lets mw make one, for a call that is not to be repeated.")));
	if (strlen(id) > MAX_NAME)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the request_id is too long"),
				 errdetail("It has %zu bytes, and at most %d are allowed.", strlen(id), MAX_NAME),
				 errhint("A UUID will do: gen_random_uuid()::text, kept for the repeat.")));
}

/* ---------- ids ---------- */

/*
 * The id of a run: a UUID of version 7, whose time keeps the newest rows of the
 * ledger together in its index.  It names and guards nothing, so the process's
 * own generator (strongly seeded) will do, which costs no system call.
 */
static void
make_run_id(pg_uuid_t *id)
{
	uint64		ms = (GetCurrentTimestamp() +
					  (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY) / 1000;
	uint64		random[2];

	random[0] = pg_prng_uint64(&pg_global_prng_state);
	random[1] = pg_prng_uint64(&pg_global_prng_state);
	for (int i = 0; i < 6; i++)
		id->data[i] = (ms >> (40 - 8 * i)) & 0xff;
	memcpy(&id->data[6], random, 10);
	id->data[6] = (id->data[6] & 0x0f) | 0x70;
	id->data[8] = (id->data[8] & 0x3f) | 0x80;
}

/*
 * A request_id that mw makes is mw-RUN_ID-TAG, the tag being keyed with the
 * tenant's name and the database's secret.  So one that comes back from a caller
 * is known without a look-up, in whatever database the dump was restored, and
 * nobody's own ids are refused because they look similar.
 */
#define MADE_PREFIX		"mw-"
#define TAG_CHARS		16
#define MADE_LEN		(3 + MW_RUN_ID_CHARS + 1 + TAG_CHARS)

static const char hex[] = "0123456789abcdef";

void
mw_run_id_text(char *to, const pg_uuid_t *run_id)
{
	for (int i = 0; i < UUID_LEN; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		*to++ = hex[run_id->data[i] >> 4];
		*to++ = hex[run_id->data[i] & 15];
	}
	*to = '\0';
}

static void
append_tag(char *to, const MwPolicy *policy, const char *id, int len)
{
	unsigned char tag[crypto_shorthash_BYTES];

	StaticAssertStmt(sizeof(MwKey) == crypto_shorthash_KEYBYTES && TAG_CHARS == 2 * crypto_shorthash_BYTES, "SipHash fits");
	crypto_shorthash(tag, (const unsigned char *) id, len, policy->tag_key.b);
	for (int i = 0; i < crypto_shorthash_BYTES; i++)
	{
		*to++ = hex[tag[i] >> 4];
		*to++ = hex[tag[i] & 15];
	}
	*to = '\0';
}

char *
mw_make_request_id(const MwPolicy *policy, const pg_uuid_t *run_id)
{
	char	   *id = palloc(MADE_LEN + 1);
	char	   *p = id;

	memcpy(p, MADE_PREFIX, 3);
	p += 3;
	mw_run_id_text(p, run_id);
	p += MW_RUN_ID_CHARS;
	*p++ = '-';
	append_tag(p, policy, id, p - id);
	return id;
}

static void
refuse_made_id(const MwPolicy *policy, const char *id)
{
	char		tag[TAG_CHARS + 1];

	if (strlen(id) != MADE_LEN || strncmp(id, MADE_PREFIX, 3) != 0)
		return;
	append_tag(tag, policy, id, MADE_LEN - TAG_CHARS);
	if (strcmp(tag, id + MADE_LEN - TAG_CHARS) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_OTHER_REQUEST),
				 errmsg("this request_id was made by mw for another run"),
				 errdetail("A run whose caller named no request_id cannot be repeated by itself."),
				 errhint("Name a request_id of your own before the first try.")));
}

/* ---------- the call ---------- */

/*
 * The memory of the last call, empty: one of some kB of prompt fits into its
 * first block, so that the next call asks malloc for nothing and finds it warm.
 */
static MemoryContext spare;

#define CALL_BLOCK	(32 * 1024)

static MemoryContext
call_memory(void)
{
	MemoryContext cxt = spare;

	if (cxt == NULL)
		return AllocSetContextCreate(CurrentMemoryContext, "mw call", CALL_BLOCK, CALL_BLOCK, ALLOCSET_DEFAULT_MAXSIZE);
	spare = NULL;
	MemoryContextSetParent(cxt, CurrentMemoryContext);
	return cxt;
}

void
mw_call_free(MwCall *call)
{
	MemoryContext cxt = call->cxt;

	if (spare != NULL)
	{
		MemoryContextDelete(cxt);
		return;
	}
	MemoryContextReset(cxt);
	MemoryContextSetParent(cxt, TopMemoryContext);
	spare = cxt;
}

MwCall *
mw_call_make(const MwInvokeArgs *args, MwCallUse use)
{
	MemoryContext cxt;
	MemoryContext old;
	MwCall	   *call;
	bool		key_only = use == MW_USE_KEY;

	if (use == MW_USE_RUN || use == MW_USE_BASE)
		check_may_write(args->function);

	if (!key_only || args->tenant != NULL)
		check_tenant(args->tenant);
	if (!key_only)
	{
		check_session(args->session);
		if (args->request_id != NULL)
			check_request_id(args->request_id);
	}

	cxt = call_memory();
	old = MemoryContextSwitchTo(cxt);
	call = palloc0(sizeof(MwCall));
	call->cxt = cxt;
	call->tenant = args->tenant;
	call->session = args->session;
	call->purpose = "model";
	call->turn = 1;
	call->last_no = palloc0(sizeof(int));
	mw_call_number(call, 1);

	if (args->tenant != NULL)
		call->policy = mw_policy_get(args->tenant);
	else
		call->policy = mw_policy_default();

	if (use == MW_USE_BASE || use == MW_USE_EXPLAIN_BASE)
		mw_options_read(call, args->options, NULL);
	else
	{
		call->tools = mw_tools_read(args->tools);
		mw_models_choose(call, args, use);
		mw_messages_read(call, args->messages, args->prompt, args->prompt_len, !key_only);
	}

	if (!key_only)
	{
		make_run_id(&call->run_id);
		call->request_named = args->request_id != NULL;
		call->recorded = call->request_named;
		if (call->request_named)
		{
			refuse_made_id(call->policy, args->request_id);
			call->request_id = args->request_id;
		}
		else
			call->request_id = mw_make_request_id(call->policy, &call->run_id);
		call->deadline = mw_after_ms(call->timeout_ms);
	}

	MemoryContextSwitchTo(old);
	return call;
}

/*
 * A call of a run: who, ids and policy are the run's, the rest is its own.  Its
 * memory is a child of the run's, and goes when the call has been booked.
 */
MwCall *
mw_call_step(const MwCall *base, const MwCallStep *step)
{
	MemoryContext cxt = AllocSetContextCreate(base->cxt, "mw call", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MwCall	   *call = palloc0(sizeof(MwCall));
	MwInvokeArgs args = {0};

	call->cxt = cxt;
	call->tenant = base->tenant;
	call->session = base->session;
	call->policy = base->policy;
	call->run_id = base->run_id;
	call->request_id = base->request_id;
	call->request_named = base->request_named;
	call->recorded = base->recorded;
	call->resend_unknown = base->resend_unknown;
	call->purpose = step->purpose;
	call->turn = step->turn;
	call->last_no = step->last_no;
	mw_call_number(call, *step->last_no + 1);
	call->attempts_before = step->attempts_before;
	call->once = step->once;

	args.options = step->options;
	args.model = unconstify(char *, step->model);
	if (step->settings != NULL)
	{
		StringInfoData both;

		initStringInfo(&both);
		appendStringInfoString(&both, "{\"model\": ");
		mw_json_string(&both, step->model, strlen(step->model));
		appendStringInfo(&both, ", \"model_settings\": %s}", mw_json_canonical(step->settings));
		args.model = both.data;
	}
	call->tools = step->tools;
	mw_models_choose(call, &args, step->use);
	if (step->refresh && strcmp(call->cache_mode, "on") == 0)
		call->cache_mode = "refresh";
	mw_messages_take(call, step->system_prompt, step->messages, step->answered, step->nmessages);
	if (step->quote_len > 0)
		mw_messages_quote(call, step->quote_at, step->quote_len);
	call->deadline = mw_after_ms(call->timeout_ms);
	MemoryContextSwitchTo(old);
	return call;
}
