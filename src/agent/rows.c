/*
 * rows.c - what a run leaves behind: its row in mw.run, and mw.session.
 *
 * Both are written once a leg, at its end, by the caller's transaction.  A
 * session knows its newest run; that is the one that can be resumed, or that
 * goes on with results of tools that the application ran.
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "agent/thread.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/row.h"
#include "util/table.h"

static const char *const nodes[] = {
	[MW_NODE_BEFORE_AGENT] = "before_agent", [MW_NODE_BEFORE_MODEL] = "before_model", [MW_NODE_MODEL] = "model",
	[MW_NODE_AFTER_MODEL] = "after_model", [MW_NODE_TOOLS] = "tools", [MW_NODE_AFTER_TOOLS] = "after_tools",
	[MW_NODE_AFTER_AGENT] = "after_agent", [MW_NODE_END] = "end"
};

List *
mw_text_list(Datum array)
{
	List	   *texts = NIL;
	Datum	   *elems;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &n);
	for (int i = 0; i < n; i++)
		texts = lappend(texts, TextDatumGetCString(elems[i]));
	return texts;
}

Datum
mw_text_array(List *texts)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(1, list_length(texts)));
	ListCell   *lc;
	int			n = 0;

	foreach(lc, texts)
		elems[n++] = CStringGetTextDatum(lfirst(lc));
	return PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
}

static MwNode
node_of(const char *name)
{
	for (int i = 0; i < lengthof(nodes); i++)
		if (strcmp(nodes[i], name) == 0)
			return (MwNode) i;
	elog(ERROR, "mw.run has the unknown node \"%s\"", name);
}

static char *
text_at(MwRow *row, AttrNumber n)
{
	bool		isnull;
	Datum		d = mw_row_get(row, n, &isnull);

	return isnull ? NULL : TextDatumGetCString(d);
}

static Jsonb *
jsonb_at(MwRow *row, AttrNumber n)
{
	bool		isnull;
	Datum		d = mw_row_get(row, n, &isnull);

	return isnull ? NULL : DatumGetJsonbPCopy(d);
}

static int
int_at(MwRow *row, AttrNumber n)
{
	bool		isnull;

	return DatumGetInt32(mw_row_get(row, n, &isnull));
}

/* The highest number of a message of the session; 0: there is none */
static int64
last_seq(const Datum *key)
{
	static MwRowTable table = {.name = "thread",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ},.backwards = true};
	MwRow		row;
	int64		last = 0;
	bool		isnull;

	if (mw_row_open(&row, &table, key))
		last = DatumGetInt64(mw_row_get(&row, THREAD_SEQ, &isnull));
	mw_row_close(&row);
	return last;
}

static void
read_run(MwSaved *saved, MwRow *row)
{
	bool		isnull;

	saved->agent = text_at(row, RUN_AGENT);
	saved->owner = text_at(row, RUN_AGENT_TENANT);
	saved->version = int_at(row, RUN_VERSION);
	saved->request_id = text_at(row, RUN_REQUEST_ID);
	saved->role = DatumGetObjectId(mw_row_get(row, RUN_ROLE, &isnull));
	saved->role_name = DatumGetCString(DirectFunctionCall1(regroleout, ObjectIdGetDatum(saved->role)));
	saved->status = text_at(row, RUN_STATUS);
	saved->place.node = node_of(text_at(row, RUN_NODE));
	saved->place.i = int_at(row, RUN_NODE_INDEX);
	saved->turn = int_at(row, RUN_TURN);
	saved->calls = int_at(row, RUN_CALLS);
	saved->last_no = int_at(row, RUN_LAST_NO);
	saved->scratch = jsonb_at(row, RUN_SCRATCH);
	saved->batch = mw_text_list(mw_row_get(row, RUN_BATCH, &isnull));
	saved->options = jsonb_at(row, RUN_OPTIONS);
}

/* The newest run of the session; found is false where the session has none yet */
MwSaved *
mw_saved_read(MwRun *run)
{
	static MwRowTable sessions = {.name = "session",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ}};
	static MwRowTable runs = {.name = "run",.nkeys = 2,.equal = {F_TEXTEQ, F_UUID_EQ}};
	MwSaved    *saved = palloc0(sizeof(MwSaved));
	MemoryContext old;
	pg_uuid_t	run_id;
	MwRow		row;
	Datum		key[2];
	bool		isnull;

	saved->status = "completed";
	if (!run->memory)
		return saved;
	old = MemoryContextSwitchTo(run->cxt);
	key[0] = CStringGetTextDatum(run->tenant);
	key[1] = CStringGetTextDatum(run->session);
	if (mw_row_open(&row, &sessions, key))
	{
		saved->found = true;
		saved->step = int_at(&row, SESSION_STEP);
		saved->state = jsonb_at(&row, SESSION_STATE);
		run_id = *DatumGetUUIDP(mw_row_get(&row, SESSION_RUN_ID, &isnull));
	}
	mw_row_close(&row);
	if (saved->found)
	{
		saved->last_seq = last_seq(key);
		key[1] = UUIDPGetDatum(&run_id);
		if (mw_row_open(&row, &runs, key))	/* a branch of another session has none */
		{
			saved->run_id = run_id;
			read_run(saved, &row);
		}
		mw_row_close(&row);
	}
	MemoryContextSwitchTo(old);
	return saved;
}

/*
 * A leg that was rolled back, raised or died has left its attempts with the
 * gateway, under the numbers that the leg which repeats it will give.
 */
int
mw_attempts_before(MwRun *run)
{
	static MwStmt stmt = {
		"SELECT pg_catalog.max(a.attempt) FROM mw.attempt AS a WHERE a.tenant OPERATOR(pg_catalog.=) $1"
		" AND a.run_id OPERATOR(pg_catalog.=) $2 AND a.call OPERATOR(pg_catalog.>) $3",
		3, {TEXTOID, UUIDOID, INT4OID}
	};
	Datum		values[3] = {CStringGetTextDatum(run->tenant), UUIDPGetDatum(&run->run_id), Int32GetDatum(run->last_no)};
	bool		isnull;
	Datum		d;

	SPI_connect();
	(void) mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1);
	d = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	SPI_finish();
	return isnull ? 0 : DatumGetInt32(d);
}

/* What later legs of the run need of its first call: its options, and the model and tools that it named */
static Jsonb *
kept_options(MwRun *run)
{
	const MwInvokeArgs *args = run->args;
	JsonbParseState *st = NULL;
	Jsonb	   *call;

	if (args->model == NULL && args->tools == NULL)
		return run->options;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "call");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	if (args->model != NULL)
		push_member(&st, "model", args->model);
	if (args->tools != NULL)
	{
		push_key(&st, "tools");
		mw_push_jsonb(&st, WJB_VALUE, args->tools);
	}
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	call = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	return run->options == NULL ? call :
		DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(run->options), JsonbPGetDatum(call)));
}

static void
write_run(MwRun *run, const char *status, MwPlace place)
{
	static MwTable table = {
		.name = "run",.nkeys = 2,.equal = {F_TEXTEQ, F_UUID_EQ},
		.ncolumns = RUN_COLUMNS,.columns = {
			"tenant", "run_id", "session", "agent", "agent_tenant", "version", "request_id", "role", "status", "node", "node_index",
			"turn", "calls", "last_no", "scratch", "batch", "options", "started_at", "updated_at"
		},
		/* what a run began with, whoever goes on with it */
		.stays = 1 << (RUN_SESSION - 1) | 1 << (RUN_AGENT - 1) | 1 << (RUN_AGENT_TENANT - 1) | 1 << (RUN_VERSION - 1) | 1 << (RUN_ROLE - 1) | 1 << (RUN_STARTED_AT - 1)
	};
	Jsonb	   *options = kept_options(run);
	Datum		values[RUN_COLUMNS];
	bool		nulls[RUN_COLUMNS] = {0};

	values[RUN_TENANT - 1] = CStringGetTextDatum(run->tenant);
	values[RUN_ID - 1] = UUIDPGetDatum(&run->run_id);
	values[RUN_SESSION - 1] = CStringGetTextDatum(run->session);
	nulls[RUN_AGENT - 1] = nulls[RUN_AGENT_TENANT - 1] = run->agent->name == NULL;
	if (run->agent->name != NULL)
	{
		values[RUN_AGENT - 1] = CStringGetTextDatum(run->agent->name);
		values[RUN_AGENT_TENANT - 1] = CStringGetTextDatum(run->agent->owner);
	}
	values[RUN_VERSION - 1] = Int32GetDatum(run->agent->version);
	values[RUN_REQUEST_ID - 1] = CStringGetTextDatum(run->base->request_id);
	values[RUN_ROLE - 1] = ObjectIdGetDatum(run->role);
	values[RUN_STATUS - 1] = CStringGetTextDatum(status);
	values[RUN_NODE - 1] = CStringGetTextDatum(nodes[place.node]);
	values[RUN_NODE_INDEX - 1] = Int32GetDatum(place.i);
	values[RUN_TURN - 1] = Int32GetDatum(run->turn);
	values[RUN_CALLS - 1] = Int32GetDatum(run->calls);
	values[RUN_LAST_NO - 1] = Int32GetDatum(run->last_no);
	values[RUN_SCRATCH - 1] = JsonbPGetDatum(mw_state_part(run, MW_STATE_RUN));
	values[RUN_BATCH - 1] = mw_text_array(run->batch);
	nulls[RUN_OPTIONS - 1] = options == NULL;
	values[RUN_OPTIONS - 1] = JsonbPGetDatum(options);
	values[RUN_STARTED_AT - 1] = values[RUN_UPDATED_AT - 1] = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	mw_table_put(&table, values, nulls);
}

static void
write_session(MwRun *run, const char *status)
{
	static MwTable table = {
		.name = "session",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ},
		.ncolumns = SESSION_COLUMNS,.columns = {"tenant", "session", "agent", "run_id", "status", "state", "step", "created_at", "updated_at"},
		.stays = 1 << (SESSION_CREATED_AT - 1)
	};
	Datum		values[SESSION_COLUMNS];
	bool		nulls[SESSION_COLUMNS] = {0};

	values[SESSION_TENANT - 1] = CStringGetTextDatum(run->tenant);
	values[SESSION_SESSION - 1] = CStringGetTextDatum(run->session);
	nulls[SESSION_AGENT - 1] = run->agent->name == NULL;
	if (run->agent->name != NULL)
		values[SESSION_AGENT - 1] = CStringGetTextDatum(run->agent->name);
	values[SESSION_RUN_ID - 1] = UUIDPGetDatum(&run->run_id);
	values[SESSION_STATUS - 1] = CStringGetTextDatum(status);
	values[SESSION_STATE - 1] = JsonbPGetDatum(mw_state_part(run, MW_STATE_THREAD));
	values[SESSION_STEP - 1] = Int32GetDatum(run->step);
	values[SESSION_CREATED_AT - 1] = values[SESSION_UPDATED_AT - 1] = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	mw_table_put(&table, values, nulls);
}

void
mw_saved_write(MwRun *run, const char *status, MwPlace place)
{
	if (!run->memory)
		return;
	mw_require_may_act(run->tenant);
	write_run(run, status, place);
	write_session(run, status);
}
