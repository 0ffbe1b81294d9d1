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
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "agent/thread.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/spi.h"

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
text_at(HeapTuple row, TupleDesc desc, int n)
{
	return SPI_getvalue(row, desc, n);
}

static Jsonb *
jsonb_at(HeapTuple row, TupleDesc desc, int n)
{
	bool		isnull;
	Datum		d = SPI_getbinval(row, desc, n, &isnull);

	return isnull ? NULL : DatumGetJsonbPCopy(d);
}

static int
int_at(HeapTuple row, TupleDesc desc, int n)
{
	bool		isnull;

	return DatumGetInt32(SPI_getbinval(row, desc, n, &isnull));
}

/* The newest run of the session; found is false where the session has none yet */
MwSaved *
mw_saved_read(MwRun *run)
{
	static MwStmt stmt = {
		"SELECT s.step, s.state, r.run_id, r.agent, r.version, r.status, r.node, r.node_index, r.turn, r.calls,"
		" r.role::pg_catalog.oid, r.role::pg_catalog.text, r.request_id, r.scratch, r.options, r.tenant IS NOT NULL, r.batch, r.last_no, r.agent_tenant,"
		" (SELECT pg_catalog.max(t.seq) FROM mw.thread AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.session OPERATOR(pg_catalog.=) $2)"
		" FROM mw.session AS s LEFT JOIN mw.run AS r ON r.tenant OPERATOR(pg_catalog.=) s.tenant AND r.run_id OPERATOR(pg_catalog.=) s.run_id"
		" WHERE s.tenant OPERATOR(pg_catalog.=) $1 AND s.session OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	MwSaved    *saved = palloc0(sizeof(MwSaved));
	Datum		values[2];

	saved->status = "completed";
	if (!run->memory)
		return saved;
	values[0] = CStringGetTextDatum(run->tenant);
	values[1] = CStringGetTextDatum(run->session);
	SPI_connect();
	if (mw_spi_read(&stmt, MW_AS_CALLER, values, NULL, 1) > 0)
	{
		HeapTuple	row = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MemoryContext old = MemoryContextSwitchTo(run->cxt);
		Datum		d;
		bool		isnull;

		saved->found = true;
		saved->step = int_at(row, desc, 1);
		saved->state = jsonb_at(row, desc, 2);
		d = SPI_getbinval(row, desc, 20, &isnull);
		saved->last_seq = isnull ? 0 : DatumGetInt64(d);
		if (DatumGetBool(SPI_getbinval(row, desc, 16, &isnull)))
		{
			saved->run_id = *DatumGetUUIDP(SPI_getbinval(row, desc, 3, &isnull));
			saved->agent = text_at(row, desc, 4);
			saved->version = int_at(row, desc, 5);
			saved->status = text_at(row, desc, 6);
			saved->place.node = node_of(text_at(row, desc, 7));
			saved->place.i = int_at(row, desc, 8);
			saved->turn = int_at(row, desc, 9);
			saved->calls = int_at(row, desc, 10);
			saved->last_no = int_at(row, desc, 18);
			saved->role = DatumGetObjectId(SPI_getbinval(row, desc, 11, &isnull));
			saved->role_name = text_at(row, desc, 12);
			saved->request_id = text_at(row, desc, 13);
			saved->scratch = jsonb_at(row, desc, 14);
			saved->options = jsonb_at(row, desc, 15);
			saved->batch = mw_text_list(SPI_getbinval(row, desc, 17, &isnull));
			saved->owner = text_at(row, desc, 19);
		}
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
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

void
mw_saved_write(MwRun *run, const char *status, MwPlace place)
{
	static MwStmt stmt = {
		"WITH run AS ("
		" INSERT INTO mw.run (tenant, run_id, session, agent, version, request_id, role, status, node, node_index, turn, calls, scratch, options, batch, last_no, agent_tenant)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $17, $18, $19)"
		" ON CONFLICT (tenant, run_id) DO UPDATE SET request_id = excluded.request_id, status = excluded.status, node = excluded.node,"
		" node_index = excluded.node_index, turn = excluded.turn, calls = excluded.calls, last_no = excluded.last_no, scratch = excluded.scratch, batch = excluded.batch, options = excluded.options,"
		" updated_at = pg_catalog.now())"
		" INSERT INTO mw.session (tenant, session, agent, run_id, status, state, step)"
		" VALUES ($1, $3, $4, $2, $8, $15, $16)"
		" ON CONFLICT (tenant, session) DO UPDATE SET agent = excluded.agent, run_id = excluded.run_id, status = excluded.status,"
		" state = excluded.state, step = excluded.step, updated_at = pg_catalog.now()",
		19, {TEXTOID, UUIDOID, TEXTOID, TEXTOID, INT4OID, TEXTOID, REGROLEOID, TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, JSONBOID, JSONBOID, JSONBOID, INT4OID, TEXTARRAYOID, INT4OID, TEXTOID}
	};
	Datum		values[19];
	char		nulls[19];
	Jsonb	   *options;

	if (!run->memory)
		return;
	options = kept_options(run);
	mw_require_may_act(run->tenant);
	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(run->tenant);
	values[1] = UUIDPGetDatum(&run->run_id);
	values[2] = CStringGetTextDatum(run->session);
	if (run->agent->name != NULL)
	{
		values[3] = CStringGetTextDatum(run->agent->name);
		values[18] = CStringGetTextDatum(run->agent->owner);
	}
	else
		nulls[3] = nulls[18] = 'n';
	values[4] = Int32GetDatum(run->agent->version);
	values[5] = CStringGetTextDatum(run->base->request_id);
	values[6] = ObjectIdGetDatum(run->role);
	values[7] = CStringGetTextDatum(status);
	values[8] = CStringGetTextDatum(nodes[place.node]);
	values[9] = Int32GetDatum(place.i);
	values[10] = Int32GetDatum(run->turn);
	values[11] = Int32GetDatum(run->calls);
	values[12] = JsonbPGetDatum(mw_state_part(run, MW_STATE_RUN));
	if (options != NULL)
		values[13] = JsonbPGetDatum(options);
	else
		nulls[13] = 'n';
	values[14] = JsonbPGetDatum(mw_state_part(run, MW_STATE_THREAD));
	values[15] = Int32GetDatum(run->step);
	values[16] = mw_text_array(run->batch);
	values[17] = Int32GetDatum(run->last_no);
	SPI_connect();
	(void) mw_spi_write(&stmt, MW_AS_OWNER, values, nulls);
	SPI_finish();
}
