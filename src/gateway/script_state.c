/*
 * script_state.c - the scripts of this backend: how far each was played and
 * what was sent, undone with whatever transaction or savepoint set it.
 *
 * Each fake server has a stack of versions, newest on top, each marked with the
 * subtransaction that made it.  Whoever changes something makes sure that the
 * top belongs to the current subtransaction, by pushing a copy where it does
 * not (copy on write, a few integers).  A subtransaction that aborts pops its
 * version, one that commits hands it to its parent, where it replaces the
 * parent's own (so do those that a call takes back inside of itself); at the end of the transaction one version remains, marked with
 * no subtransaction at all.  PREPARE keeps the state, as it keeps settings: the
 * backend never learns what becomes of a prepared transaction.
 *
 * Versions share the script, which is immutable, and the log of requests, which
 * is a list from the newest to the oldest, so that a copy of it is one pointer.
 * Both live in the script's context; the last version that refers to it frees it.
 *
 * All of it is private to this process.  The log may hold requests of several
 * tenants (a pooled connection): mw_fake_requests shows those alone for which
 * the calling role may act.
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "gateway/script.h"
#include "util/json.h"
#include "util/spi.h"

/* A request that was sent, for mw_fake_requests */
typedef struct SentRequest
{
	struct SentRequest *older;
	int			n;
	char	   *tenant;
	char	   *session;		/* NULL: none */
	char	   *request_id;
	int			call_no;
	int			attempt;
	char	   *model;
	char	   *answered;
	char	   *body;
} SentRequest;

typedef struct Version
{
	struct Version *below;
	SubTransactionId subid;		/* invalid: of an earlier transaction */
	MwScript   *script;			/* NULL: none is set */
	SentRequest *newest;
	int			nanswers;
	int			used[FLEXIBLE_ARRAY_MEMBER];	/* steps played of each list */
} Version;

typedef struct FakeServer
{
	dlist_node	node;
	Oid			serverid;
	Version    *top;
} FakeServer;

static dlist_head servers = DLIST_STATIC_INIT(servers);
static bool callbacks_registered = false;

/* ---------- versions ---------- */

static void
script_unref(MwScript *script)
{
	if (script != NULL && --script->refs == 0)
		MemoryContextDelete(script->cxt);
}

/* Take the top off; what it alone had logged goes too */
static void
pop_version(FakeServer *s)
{
	Version    *v = s->top;
	SentRequest *kept = NULL;

	s->top = v->below;
	if (v->below != NULL && v->below->script == v->script)
		kept = v->below->newest;
	if (v->script != NULL && v->script->refs > 1)
	{
		while (v->newest != kept && v->newest != NULL)
		{
			SentRequest *older = v->newest->older;

			pfree(v->newest);
			v->newest = older;
		}
	}
	script_unref(v->script);
	pfree(v);
}

/* The top's content replaces the version below it */
static void
merge_version(FakeServer *s)
{
	Version    *below = s->top->below;

	s->top->below = below->below;
	script_unref(below->script);
	pfree(below);
}

static void
forget_if_empty(FakeServer *s)
{
	if (s->top == NULL || (s->top->below == NULL && s->top->script == NULL))
	{
		while (s->top != NULL)
			pop_version(s);
		dlist_delete(&s->node);
		pfree(s);
	}
}

static void
script_xact_callback(XactEvent event, void *arg)
{
	dlist_mutable_iter iter;

	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_PREPARE && event != XACT_EVENT_ABORT)
		return;
	dlist_foreach_modify(iter, &servers)
	{
		FakeServer *s = dlist_container(FakeServer, node, iter.cur);

		if (event == XACT_EVENT_ABORT)
		{
			while (s->top != NULL && s->top->subid != InvalidSubTransactionId)
				pop_version(s);
		}
		else
		{
			while (s->top->below != NULL)
				merge_version(s);
			s->top->subid = InvalidSubTransactionId;
		}
		forget_if_empty(s);
	}
}

bool		(*mw_script_inside) (void) = NULL;

/* Whether a subtransaction of a call that goes on: its requests stay, unless it set the script they were sent to */
static bool
stays(const Version *v)
{
	return mw_script_inside != NULL && mw_script_inside() && v->below != NULL && v->below->script == v->script;
}

static void
script_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	dlist_foreach_modify(iter, &servers)
	{
		FakeServer *s = dlist_container(FakeServer, node, iter.cur);

		if (s->top->subid != subid)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB && !stays(s->top))
		{
			pop_version(s);
			if (s->top == NULL)
				forget_if_empty(s);
		}
		else
		{
			s->top->subid = parent;
			if (s->top->below != NULL && s->top->below->subid == parent)
				merge_version(s);
		}
	}
}

static FakeServer *
find_server(Oid serverid)
{
	dlist_iter	iter;

	dlist_foreach(iter, &servers)
	{
		FakeServer *s = dlist_container(FakeServer, node, iter.cur);

		if (s->serverid == serverid)
			return s;
	}
	return NULL;
}

static Version *
new_version(MwScript *script)
{
	int			nlists = script ? script->nlists : 0;
	Version    *v;

	v = MemoryContextAllocZero(TopMemoryContext, offsetof(Version, used) + sizeof(int) * Max(nlists, 1));
	v->subid = GetCurrentSubTransactionId();
	v->script = script;
	if (script != NULL)
		script->refs++;
	return v;
}

/* The version that the current subtransaction may change; there is a script */
static Version *
own_version(FakeServer *s)
{
	Version    *v = s->top;
	Version    *copy;

	if (v->subid == GetCurrentSubTransactionId())
		return v;
	copy = new_version(v->script);
	copy->newest = v->newest;
	copy->nanswers = v->nanswers;
	memcpy(copy->used, v->used, sizeof(int) * v->script->nlists);
	copy->below = v;
	s->top = copy;
	return copy;
}

/* Set (or with NULL forget) the script of a server in the current subtransaction */
static void
set_script(Oid serverid, MwScript *script)
{
	FakeServer *s = find_server(serverid);
	Version    *v;

	if (!callbacks_registered)
	{
		RegisterXactCallback(script_xact_callback, NULL);
		RegisterSubXactCallback(script_subxact_callback, NULL);
		callbacks_registered = true;
	}
	if (s == NULL)
	{
		if (script == NULL)
			return;
		s = MemoryContextAllocZero(TopMemoryContext, sizeof(FakeServer));
		s->serverid = serverid;
		v = new_version(script);
		dlist_push_tail(&servers, &s->node);
	}
	else
		v = new_version(script);
	if (script != NULL)
		MemoryContextSetParent(script->cxt, TopMemoryContext);
	v->below = s->top;
	s->top = v;
	if (v->below != NULL && v->below->subid == v->subid)
		merge_version(s);
}

/* ---------- the breaker ---------- */

/*
 * It belongs to the script, and so to every level of the transaction: a failed
 * call that a savepoint takes back has told it something all the same, as it
 * would have told a real server's.  With the script it goes.
 */
static MwBreaker *
scripted_find(Oid serverid)
{
	FakeServer *s = find_server(serverid);

	return s != NULL && s->top != NULL && s->top->script != NULL ? &s->top->script->breaker : NULL;
}

static void
scripted_done(void)
{
}

const MwBreakerStore mw_breakers_scripted = {
	.find = scripted_find,
	.done = scripted_done,
};

/* ---------- what the transport asks ---------- */

static char *
keep_string(char **at, const char *s)
{
	char	   *kept = *at;

	if (s == NULL)
		return NULL;
	strcpy(kept, s);
	*at += strlen(s) + 1;
	return kept;
}

/* One allocation a request, so that a rollback frees it whole */
static SentRequest *
log_request(Version *v, const MwAttempt *attempt, const char *answered)
{
	Size		size = sizeof(SentRequest);
	SentRequest *r;
	char	   *at;

	size += strlen(attempt->tenant) + strlen(attempt->request_id) + strlen(attempt->model) +
		strlen(answered) + (attempt->session ? strlen(attempt->session) : 0) + attempt->body_len + 6;
	r = MemoryContextAllocHuge(v->script->cxt, size);
	at = (char *) (r + 1);
	r->older = v->newest;
	r->n = v->newest ? v->newest->n + 1 : 1;
	r->call_no = attempt->call_no;
	r->attempt = attempt->attempt;
	r->tenant = keep_string(&at, attempt->tenant);
	r->session = keep_string(&at, attempt->session);
	r->request_id = keep_string(&at, attempt->request_id);
	r->model = keep_string(&at, attempt->model);
	r->answered = keep_string(&at, answered);
	r->body = at;
	memcpy(at, attempt->body, attempt->body_len);
	at[attempt->body_len] = '\0';
	return r;
}

/*
 * Play the next step for this request and log it.  The response is in the
 * current context.  A server without a script is an error with the statement
 * that sets one: an answer out of nothing would make tests pass that test nothing.
 */
MwScripted *
mw_script_answer(const MwAttempt *attempt)
{
	FakeServer *s = find_server(attempt->serverid);
	Version    *v;
	Jsonb	   *request;
	const MwStep *step;
	MwScripted *played;
	SentRequest *sent;
	char	   *why = NULL;
	int			list;

	if (s == NULL || s->top->script == NULL)
	{
		ForeignServer *server = GetForeignServer(attempt->serverid);

		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("fake server \"%s\" has no script in this session", server->servername),
				 errdetail("A server with api 'fake' answers what mw_fake told it in the same session; a rollback undoes that."),
				 errhint("SELECT mw_fake(%s, '{\"*\": [{\"text\": \"hello\"}]}');",
						 quote_literal_cstr(server->servername))));
	}

	request = mw_json_parse(attempt->body, attempt->body_len, &why);
	if (request == NULL)
		elog(ERROR, "request to a fake server is not JSON: %s", why);
	step = mw_script_choose(s->top->script, s->top->used, request, attempt->model, &list);
	played = mw_script_play(step, request, s->top->nanswers + 1);

	/* nothing may raise between the change of the version and its end */
	v = own_version(s);
	sent = log_request(v, attempt, played->answered);
	v->newest = sent;
	if (step != NULL)
		v->used[list]++;
	if (played->numbered)
		v->nanswers++;
	return played;
}

/* ---------- SQL ---------- */

PG_FUNCTION_INFO_V1(mw_fake);
PG_FUNCTION_INFO_V1(mw_fake_requests);

/* A server with api 'fake' that the current role may use */
static Oid
fake_server_arg(text *name)
{
	char	   *servername = text_to_cstring(name);
	ForeignServer *server;
	ForeignDataWrapper *fdw;
	const char *api = NULL;

	server = GetForeignServerByName(servername, true);
	if (server == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("server \"%s\" does not exist", servername),
				 errhint("CREATE SERVER %s FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');",
						 quote_identifier(servername))));
	if (!DatumGetBool(DirectFunctionCall2(has_server_privilege_id,
										  ObjectIdGetDatum(server->serverid),
										  PointerGetDatum(cstring_to_text("USAGE")))))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for foreign server %s", servername),
				 errhint("GRANT USAGE ON FOREIGN SERVER %s TO %s;",
						 quote_identifier(servername),
						 quote_identifier(GetUserNameFromId(GetUserId(), false)))));

	fdw = GetForeignDataWrapper(server->fdwid);
	api = mw_server_option(server->options, "api");
	if (strcmp(fdw->fdwname, "mw") != 0 || api == NULL || strcmp(api, "fake") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("server \"%s\" is not a fake server", servername),
				 errdetail("Only a server with api 'fake' answers from a script."),
				 errhint("CREATE SERVER fake FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');")));
	return server->serverid;
}

static text *
server_name_arg(FunctionCallInfo fcinfo, const char *function)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the server of %s must not be null", function),
				 errhint("Name a server that was made with CREATE SERVER ... FOREIGN DATA WRAPPER mw OPTIONS (api 'fake').")));
	return PG_GETARG_TEXT_PP(0);
}

Datum
mw_fake(PG_FUNCTION_ARGS)
{
	Oid			serverid = fake_server_arg(server_name_arg(fcinfo, "mw_fake"));

	set_script(serverid, PG_ARGISNULL(1) ? NULL : mw_script_make(PG_GETARG_JSONB_P(1)));
	PG_RETURN_VOID();
}

/* Whether the calling role may see what was sent for a tenant: the rule that all policies ask */
static bool
may_act(const char *tenant)
{
	static MwStmt stmt = {"SELECT mw.may_act($1)", 1, {TEXTOID}};
	Datum		args[1] = {CStringGetTextDatum(tenant)};
	bool		isnull;
	bool		may = false;

	if (mw_spi_read(&stmt, MW_AS_CALLER, args, NULL, 1) == 1)
		may = DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull)) && !isnull;
	return may;
}

Datum
mw_fake_requests(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FakeServer *s = find_server(fake_server_arg(server_name_arg(fcinfo, "mw_fake_requests")));
	List	   *sent = NIL;
	ListCell   *lc;
	const char *asked = NULL;
	bool		may = false;

	InitMaterializedSRF(fcinfo, 0);
	if (s == NULL)
		return (Datum) 0;
	for (SentRequest *r = s->top->newest; r != NULL; r = r->older)
		sent = lcons(r, sent);

	SPI_connect();
	foreach(lc, sent)
	{
		SentRequest *r = lfirst(lc);
		Datum		values[9];
		bool		nulls[9] = {0};
		char	   *why;
		Jsonb	   *body;

		if (asked == NULL || strcmp(asked, r->tenant) != 0)
			may = may_act(r->tenant);
		asked = r->tenant;
		if (!may)
			continue;
		body = mw_json_parse(r->body, strlen(r->body), &why);
		values[0] = Int32GetDatum(r->n);
		values[1] = CStringGetTextDatum(r->model);
		nulls[2] = body == NULL;
		values[2] = body ? JsonbPGetDatum(body) : (Datum) 0;
		values[3] = CStringGetTextDatum(r->answered);
		values[4] = CStringGetTextDatum(r->tenant);
		values[5] = mw_out_text(r->session, &nulls[5]);
		values[6] = CStringGetTextDatum(r->request_id);
		values[7] = Int32GetDatum(r->call_no);
		values[8] = Int32GetDatum(r->attempt);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	SPI_finish();
	return (Datum) 0;
}
