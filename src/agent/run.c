/*
 * run.c - the beginning of a leg of a run: who, which agent, what is asked.
 *
 * Everything that can be wrong with what the caller wrote is said in
 * mw_run_make, before anything is claimed or read.  mw_run_begin then takes the
 * session, reads its thread and state, and puts the caller's messages into it,
 * redacted: a thread holds placeholders only.
 *
 * A leg either begins a run, or goes on with one: after a pause (approval.c), or
 * where a run ended for tools that the application executes and "messages"
 * brings their results.  Limits count over all legs.
 */
#include "mw.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "agent/approval.h"
#include "agent/context.h"
#include "agent/frame.h"
#include "agent/pii.h"
#include "agent/run.h"
#include "agent/structured.h"
#include "policy/reviewers.h"
#include "policy/session_lock.h"
#include "stage/redact.h"
#include "util/duration.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/json_push.h"

static List *read_input(MwRun *run);
static List *redacted(MwRun *run, List *msgs, bool raw);

/* ---------- options of a run ---------- */

void
mw_run_option_wrong(const char *option, const char *must_be)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("option \"%s\" must be %s", option, must_be),
			 errhint("Options of a run: context and state (objects), on_error (raise or return), session_busy (wait or error), memory, interrupt_on,"
					 " limits ({\"turns\", \"calls\", \"tokens\", \"cost\", \"wall\"}).")));
}

static const char *
word_option(Jsonb *options, const char *option, const char *first, const char *second)
{
	JsonbValue *v = mw_json_get(options, option);
	char	   *word;

	if (v == NULL)
		return first;
	word = mw_json_get_text(options, option);
	if (word == NULL || (strcmp(word, first) != 0 && strcmp(word, second) != 0))
		mw_run_option_wrong(option, psprintf("\"%s\" or \"%s\"", first, second));
	return word;
}

Jsonb *
mw_run_option_object(Jsonb *options, const char *option)
{
	JsonbValue *v = mw_json_get(options, option);
	Jsonb	   *json = mw_json_value_jsonb(v);

	if (v != NULL && !mw_json_is_object(json))
		mw_run_option_wrong(option, "an object");
	return json;
}

/* ---------- making ---------- */

static _Noreturn void
no_such_agent(const char *tenant, const char *name)
{
	char	   *names = mw_agent_names(tenant);

	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("there is no agent \"%s\"", name),
			 names[0] != '\0' ? errhint("Agents that can be named here: %s.", names) :
			 errhint("SELECT mw_create_agent(%s, '{\"model\": \"server:model\", \"tools\": []}');", quote_literal_cstr(name))));
}

/* What a leg is given, added to what its run was begun with; of gates none is taken away */
static Jsonb *
with_begun(Jsonb *begun, Jsonb *now)
{
	if (begun == NULL || (now != NULL && !mw_json_is_object(now)))
		return now;
	now = mw_hitl_options(begun, now);
	return now == NULL ? begun : DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(begun), JsonbPGetDatum(now)));
}

MwRun *
mw_run_make(const MwInvokeArgs *args, MwCallUse use)
{
	MwInvokeArgs whole = *args;
	MwCall	   *base;
	MemoryContext old;
	MwRun	   *run;
	JsonbValue *memory;

	whole.options = with_begun(args->begun, args->options);
	base = mw_call_make(&whole, use == MW_USE_EXPLAIN ? MW_USE_EXPLAIN_BASE : MW_USE_BASE);
	old = MemoryContextSwitchTo(base->cxt);
	run = palloc0(sizeof(MwRun));
	run->cxt = base->cxt;
	run->base = base;
	run->use = use;
	run->args = args;
	run->tenant = args->tenant;
	run->session = args->session;
	run->run_id = base->run_id;
	mw_run_id_text(run->run_id_text, &run->run_id);
	run->id_seed = pg_prng_uint64(&pg_global_prng_state);
	run->options = whole.options != NULL && JB_ROOT_COUNT(whole.options) > 0 ? whole.options : NULL;
	run->role = GetUserId();
	run->through = mw_outer_role();
	run->place = palloc0(sizeof(MwPlace));
	run->cache = MW_CACHE_OFF;
	run->return_errors = strcmp(word_option(run->options, "on_error", "raise", "return"), "return") == 0;
	run->busy_fails = strcmp(word_option(run->options, "session_busy", "wait", "error"), "error") == 0;
	run->context = mw_run_option_object(run->options, "context");
	(void) mw_run_option_object(run->options, "state");
	memory = mw_json_get(run->options, "memory");
	run->memory = args->agent != NULL || (memory != NULL && memory->val.boolean);
	if (run->memory && run->session == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("%s needs a session", args->agent != NULL ? "an agent" : "memory"),
				 errdetail("The thread is kept under the session's name."),
				 errhint("Name the conversation in the argument session.")));
	if (args->agent != NULL && memory != NULL && !memory->val.boolean)
		mw_run_option_wrong("memory", "true with an agent: its thread is kept");

	mw_pii_map_init(&run->map, run->cxt);
	MemoryContextSwitchTo(old);
	return run;
}

/* The agent, at the newest version or at the one that a run was begun with */
void
mw_run_use_agent(MwRun *run, const char *owner, const char *name, int version)
{
	MwAgent    *own = mw_agent_ad_hoc();

	if (name != NULL)
	{
		const MwAgent *kept = mw_agent_find(run->tenant, owner, name, version);

		if (kept == NULL)
			no_such_agent(run->tenant, name);
		*own = *kept;
	}
	mw_hitl_add(own, run->tenant, run->options);	/* of this run alone */
	run->agent = own;
	mw_run_read_limits(run);
	mw_run_choose_model(run);
	mw_models_use(run->base, run->first_model, run->use);
	mw_run_find_tools(run);
	mw_approval_keep(run);
	if (run->base->redact)
		run->base->policy = mw_pii_tighten(run->base->policy, run->agent);
	run->format = mw_format_read(run->agent->response_format, run->first_model);
	if (run->agent->context_schema != NULL && run->context != NULL)
	{
		char	   *breach = mw_schema_breach(run->agent->context_schema, run->context);

		if (breach != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("option \"context\" does not fit the agent's context_schema"),
					 errdetail("%s", breach)));
	}
}

/* How often a request was met, for whoever counts: in memory that outlives what is rolled back inside of the run */
int *
mw_run_times(MwRun *run, MwSeenList *list, const MwKey *request)
{
	for (int i = 0; i < list->n; i++)
		if (memcmp(&list->seen[i].key, request, sizeof(MwKey)) == 0)
			return &list->seen[i].times;
	if (list->seen == NULL)
		list->seen = MemoryContextAlloc(run->cxt, sizeof(MwSeen) * 8);
	else if (list->n >= 8 && (list->n & (list->n - 1)) == 0)
		list->seen = repalloc(list->seen, sizeof(MwSeen) * list->n * 2);
	list->seen[list->n] = (MwSeen) {.key = *request};
	return &list->seen[list->n++].times;
}

/*
 * A run inside of one that records and names no request of its own: its answers
 * are recorded, too, by an id that a repeat of the outer request makes again, from
 * that one's id and from what is asked and how often it was before.  It is not
 * claimed, since the outer one is, and its result is not kept: what its tools do
 * belongs to the outer run, which is repeated as a whole.
 */
void
mw_run_inside(MwRun *run)
{
	MwRun	   *outer = run->outer;
	MemoryContext old;
	MwHash		h;
	MwKey		key;
	pg_uuid_t	id;
	int			nth;

	if (outer == NULL || !outer->base->recorded || run->base->request_named)
		return;
	old = MemoryContextSwitchTo(run->cxt);
	key = mw_request_fingerprint(run->base, run->args);
	nth = (*mw_run_times(outer, &outer->inside, &key))++;
	mw_hash_start(&h, NULL);
	mw_hash_text(&h, "inside");
	mw_hash_text(&h, outer->base->request_id);
	mw_hash_part(&h, &key, sizeof(key));
	mw_hash_part(&h, &nth, sizeof(nth));
	key = mw_hash_end(&h);
	StaticAssertStmt(sizeof(MwKey) == sizeof(pg_uuid_t), "a key is a UUID");
	memcpy(&id, &key, sizeof(id));
	run->base->request_id = mw_make_request_id(run->base->policy, &id);
	run->base->recorded = true;
	run->base->resend_unknown |= outer->base->resend_unknown;
	MemoryContextSwitchTo(old);
}

/* Whether the session is this transaction's; false where another one has it and wait is false */
static bool
hold_session(MwRun *run, bool wait)
{
	mw_run_require_session(run);
	/* the claim is this transaction's, so it does not keep a run from its own tools */
	for (MwRun *outer = run->outer; outer != NULL && run->memory; outer = outer->outer)
		if (outer->memory && strcmp(outer->session, run->session) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("the session is busy"),
					 errdetail("A tool or a hook of its own run has called for it."),
					 errhint("Name another session, or none.")));
	return !run->memory || mw_session_claim(run->tenant, run->session, wait);
}

static _Noreturn void
session_is_busy(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("the session is busy"),
			 errdetail("Another transaction has a run of it, or decides in it."),
			 errhint("Without options.session_busy = 'error' the call waits for its end.")));
}

static Jsonb *
kept_result(MwRun *run)
{
	Jsonb	   *stored = mw_result_stored(run->base, &run->fingerprint);

	if (stored != NULL)
	{
		/* it is restored from what its caller says now, and from what the session issued; a resume says nothing */
		if (run->memory)
			mw_pii_session_load(&run->map, run->tenant, run->session, false);
		if (run->args->prompt != NULL || run->args->messages != NULL)
			(void) redacted(run, read_input(run), true);
	}
	return stored;
}

#define LETS_GO_MS	1000

/*
 * The session before the request_id: a transaction that has the session already, since
 * it has decided or said something there, would wait for one that waits for it.
 * Where the caller does not want to wait for the session, it waits for whoever makes
 * the same request all the same, since that one's result is its own.
 */
Jsonb *
mw_run_claim(MwRun *run)
{
	Jsonb	   *stored;
	bool		held;
	bool		waited;

	mw_fault("args");
	if (!run->base->request_named)
		return NULL;
	run->fingerprint = mw_request_fingerprint(run->base, run->args);
	if ((stored = kept_result(run)) != NULL)
		return stored;
	held = hold_session(run, !run->busy_fails);
	waited = mw_claim_request(run->base);
	if ((stored = kept_result(run)) != NULL)
		return stored;
	/* a transaction that has ended lets go of its claims and of its session one after the other */
	for (int ms = waited ? LETS_GO_MS : 0; !held && !(held = hold_session(run, false)); ms--)
	{
		if (ms <= 0)
			session_is_busy();
		mw_wait_ms(1);
	}
	return NULL;
}

/* ---------- what is asked ---------- */

/* Messages as the thread keeps them; raw: of somebody who has not seen our placeholders */
static List *
redacted(MwRun *run, List *msgs, bool raw)
{
	MwMessage  *m = palloc0(sizeof(MwMessage) * Max(1, list_length(msgs)));
	List	   *kept = NIL;
	ListCell   *lc;
	int			n = 0;

	if (!run->base->redact || !mw_policy_detects(run->base->policy))
		return msgs;
	foreach(lc, msgs)
	{
		MwMsg	   *msg = lfirst(lc);

		m[n++] = (MwMessage) {.role = msg->role, .json = msg->json, .from_caller = true};
	}
	mw_redact_messages(run->base->policy, &run->map, m, n, raw, mw_after_ms(run->base->timeout_ms), &run->notices);
	n = 0;
	foreach(lc, msgs)
	{
		MwMsg	   *msg = lfirst(lc);

		kept = lappend(kept, m[n].json == msg->json ? msg : mw_msg_kept(m[n].json));
		n++;
	}
	return kept;
}

/*
 * A message that a hook has made: its values go, and the placeholders in it are
 * those that it was given, which is why it may name them.
 */
MwMsg *
mw_run_redacted(MwRun *run, MwMsg *msg)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);

	msg = linitial(redacted(run, list_make1(msg), false));
	MemoryContextSwitchTo(old);
	return msg;
}

Jsonb *
mw_run_redacted_json(MwRun *run, Jsonb *json)
{
	MwMessage	m = {.role = "tool", .from_caller = true};
	JsonbParseState *st = NULL;

	if (json == NULL || !run->base->redact || !mw_policy_detects(run->base->policy))
		return json;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_json(&st, "content", json);
	m.json = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	mw_redact_messages(run->base->policy, &run->map, &m, 1, false, mw_after_ms(run->base->timeout_ms), &run->notices);
	return mw_json_get_jsonb(m.json, "content");
}

static List *
read_input(MwRun *run)
{
	const MwInvokeArgs *args = run->args;
	List	   *input = NIL;

	if (args->messages != NULL)
	{
		JsonbIterator *it;
		JsonbIteratorToken tok;
		JsonbValue	item;

		if (!mw_json_is_array(args->messages))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("messages must be a JSON array"),
					 errhint("Such as '[{\"role\": \"user\", \"content\": \"…\"}]'.")));
		it = JsonbIteratorInit(&args->messages->root);
		while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
		{
			if (tok != WJB_ELEM)
				continue;
			CHECK_FOR_INTERRUPTS();
			input = lappend(input, mw_msg_read(run, JsonbValueToJsonb(&item), "the argument messages"));
		}
	}
	if (args->prompt != NULL && args->prompt_len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the prompt is empty"),
				 errhint("Where messages say everything, the prompt is NULL.")));
	if (args->prompt != NULL)
		input = lappend(input, mw_msg_text(run, "user", args->prompt));
	if (input == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is nothing to ask"),
				 errdetail("The prompt is NULL and messages is NULL or empty."),
				 errhint("Give a prompt, or messages, or both.")));
	return input;
}

/* Results of tools alone: what a run that ended with tool_calls goes on with */
static bool
only_results(List *input)
{
	ListCell   *lc;

	foreach(lc, input)
	{
		if (!mw_msg_is(lfirst(lc), "tool"))
			return false;
	}
	return true;
}

static void
go_on_with(MwRun *run, const MwSaved *saved)
{
	run->goes_on = true;
	run->run_id = saved->run_id;
	run->base->run_id = saved->run_id;
	mw_run_id_text(run->run_id_text, &run->run_id);
	run->turn = saved->turn;
	run->calls = saved->calls;
	run->last_no = saved->last_no;
	run->attempts_before = mw_attempts_before(run);
	run->batch = saved->batch;
	*run->place = saved->place;
	mw_structured_restore(run);
}

static void
add_input(MwRun *run, List *input)
{
	MwPatch    *patch = mw_patch_new();
	ListCell   *lc;

	foreach(lc, redacted(run, input, true))
		mw_patch_put(patch, lfirst(lc));
	mw_pii_session_save(&run->map, run->base->policy);
	mw_thread_apply(run, patch->msgs);
	mw_thread_flush(run);
	run->input = list_copy_tail(run->msgs, list_length(run->msgs) - list_length(input));
}

/* What a call says of the state: declared fields that are not private */
static void
add_state(MwRun *run)
{
	Jsonb	   *given = mw_run_option_object(run->options, "state");
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	key;
	JsonbValue	value;

	if (given == NULL)
		return;
	it = JsonbIteratorInit(&given->root);
	while ((tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		MwField    *field;
		char	   *name;

		if (tok != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &value, true);
		name = pnstrdup(key.val.string.val, key.val.string.len);
		field = mw_field_find(run->agent->fields, name);
		if (field == NULL || field->private || field->no_input)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("option \"state\" names the field \"%s\", which %s", name, field == NULL ? "nobody declares" : field->private ? "is private" : "its middleware alone writes"),
					 errhint("Fields are declared in the agent's \"state\" or in that of a middleware.")));
	}
	mw_state_apply(run, given);
}

/* What something new is said to instead of a decision, or of results, does not come back: its calls are answered, so that the thread waits for nobody */
static void
close_paused(MwRun *run, const MwSaved *saved, List *input)
{
	if (strcmp(saved->status, "interrupted") == 0)
		mw_pairs_close(run, input, "was not run: a new message came first");
	else if (strcmp(saved->status, "tool_calls") == 0)	/* mw cannot know what the application did with it */
		mw_pairs_close(run, input, "was not completed: a new message came first");
}

void
mw_run_require_session(const MwRun *run)
{
	if (run->memory && run->base->policy->session_policy != NULL)
		mw_require_may_see(run->tenant, run->session);
}

/*
 * Ids of messages are the same where a named request is made again, and those of
 * no other: of other requests by the name, and of the same name, which may come
 * again when its result is older than the retention, by the thread's step.
 */
static void
seed_ids(MwRun *run)
{
	const char *parts[] = {run->tenant, run->session != NULL ? run->session : "", run->base->request_id};

	if (!run->base->recorded)
		return;
	run->id_seed = run->step;
	for (int i = 0; i < lengthof(parts); i++)
		run->id_seed = hash_bytes_extended((const unsigned char *) parts[i], strlen(parts[i]), run->id_seed);
}

/* The session is this transaction's, and its thread is read */
MwSaved *
mw_run_open(MwRun *run)
{
	MwSaved    *saved;

	if (!hold_session(run, !run->busy_fails))
		session_is_busy();
	saved = mw_saved_read(run);
	run->step = saved->step;
	seed_ids(run);
	mw_thread_open(run, saved);
	if (run->memory && run->base->redact)
		mw_pii_session_load(&run->map, run->tenant, run->session, true);
	return saved;
}

void
mw_run_peek(MwRun *run)
{
	MwPatch    *patch = mw_patch_new();
	List	   *input = read_input(run);
	MwSaved    *saved;
	ListCell   *lc;

	mw_run_require_session(run);
	saved = mw_saved_read(run);
	mw_thread_open(run, saved);
	if (run->memory && run->base->redact)
		mw_pii_session_load(&run->map, run->tenant, run->session, false);
	mw_state_begin(run, saved->state, NULL);
	add_state(run);
	close_paused(run, saved, input);
	foreach(lc, redacted(run, input, true))
		mw_patch_put(patch, lfirst(lc));
	mw_thread_apply(run, patch->msgs);
}

void
mw_run_begin(MwRun *run)
{
	List	   *input;
	MwSaved    *saved;

	saved = mw_run_open(run);
	input = read_input(run);
	mw_state_begin(run, saved->state, NULL);
	if (strcmp(saved->status, "tool_calls") == 0 && only_results(input))
	{
		if (saved->agent != NULL ? run->args->agent == NULL || strcmp(saved->agent, run->args->agent) != 0 : run->args->agent != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("the session waits for results of tools of another agent"),
					 errhint("Name the agent that the run was begun with, or say something new in the prompt.")));
		run->options = mw_hitl_options(saved->options, run->options);
		mw_run_use_agent(run, saved->owner, saved->agent, saved->version);
		mw_state_begin(run, saved->state, saved->scratch);
		go_on_with(run, saved);
	}
	else
	{
		if (strcmp(saved->status, "interrupted") == 0)
			mw_approval_abandon(run, saved);
		close_paused(run, saved, input);
		*run->place = (MwPlace) {MW_NODE_BEFORE_AGENT, 0};
	}
	add_state(run);
	add_input(run, input);
	mw_thread_mark(run);
}

/* A leg that goes on with the paused run of the session */
void
mw_run_go_on(MwRun *run, const MwSaved *saved)
{
	mw_run_use_agent(run, saved->owner, saved->agent, saved->version);
	mw_state_begin(run, saved->state, saved->scratch);
	go_on_with(run, saved);
	mw_thread_mark(run);
}

/* ---------- ends ---------- */

const char *
mw_run_ending(MwRun *run, const ErrorData *e, const char **ended_by)
{
	if (e->sqlerrcode == ERRCODE_MW_BUDGET_EXHAUSTED && run->agent->on_budget_end != NULL)
	{
		*ended_by = "budget";
		return run->agent->on_budget_end;
	}
	if (e->sqlerrcode == ERRCODE_MW_GUARD_REFUSED)
	{
		*ended_by = "guardrail";
		return run->agent->on_guardrail_end ? run->agent->on_guardrail_end : run->base->policy->guardrail_end;
	}
	return NULL;
}

/* Refused text does not stay in a thread: every later turn would be refused for it */
static void
forget_input(MwRun *run, MwPatch *patch)
{
	ListCell   *lc;

	foreach(lc, run->input)
	{
		if (list_member_ptr(run->msgs, lfirst(lc)))
			mw_patch_remove(patch, ((MwMsg *) lfirst(lc))->id);
	}
}

void
mw_run_end_with(MwRun *run, const char *text, const char *ended_by)
{
	MwPatch    *patch = mw_patch_new();

	if (strcmp(ended_by, "guardrail") == 0)
		forget_input(run, patch);
	mw_patch_put(patch, mw_msg_text(run, "assistant", text));
	mw_thread_apply(run, patch->msgs);
	mw_thread_flush(run);
	run->ended_by = ended_by;
	*run->place = (MwPlace) {MW_NODE_END, 0};
}

/* After an error that is returned and not raised; all_undone: with what the step's approved calls did */
void
mw_run_failed(MwRun *run, ErrorData *edata, bool all_undone)
{
	mw_run_dress(run, edata);
	run->error = edata;
	mw_approval_failed(run, all_undone);
	if (edata->sqlerrcode == ERRCODE_MW_GUARD_REFUSED)
	{
		MwPatch    *patch = mw_patch_new();

		forget_input(run, patch);
		mw_thread_apply(run, patch->msgs);
		mw_thread_flush(run);
	}
}
