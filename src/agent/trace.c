/*
 * trace.c - what a run did, step by step: mw.trace.
 *
 * Each hook, model call and tool call of a run is a row, inside of which it
 * stands by its depth, with its time and what it cost.  Rows are gathered in
 * memory, where an error does not take them back, and written once a leg, in the
 * caller's transaction, with the thread that they explain.  "trace": "full" of
 * an agent keeps what went in and came out too, with placeholders inside; "off"
 * keeps nothing.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "agent/thread.h"
#include "agent/trace.h"
#include "policy/policy.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/money.h"
#include "util/row.h"
#include "util/spi.h"

typedef struct Step
{
	int			depth;
	int			turn;
	const char *kind;			/* hook, wrap, model, tool */
	const char *name;
	TimestampTz started_at;
	instr_time	start;
	int64		us;				/* -1: an error left it */
	int64		input_tokens;
	int64		output_tokens;
	Numeric		cost;			/* NULL: not a model call, or without a price */
	Jsonb	   *input;
	Jsonb	   *output;
} Step;

typedef struct MwTrace
{
	Step	   *steps;
	int			n;
	int			cap;
	int			depth;
} MwTrace;

int
mw_trace_begin(MwRun *run, const char *kind, const char *name)
{
	MwTrace    *t = run->trace;
	Step	   *s;

	if (run->agent->trace == MW_TRACE_OFF || !run->memory)
		return -1;
	if (t == NULL)
		t = run->trace = MemoryContextAllocZero(run->cxt, sizeof(MwTrace));
	if (t->n == t->cap)
	{
		t->cap = Max(32, t->cap * 2);
		t->steps = t->steps == NULL ? MemoryContextAlloc(run->cxt, sizeof(Step) * t->cap) :
			repalloc_huge(t->steps, sizeof(Step) * t->cap);
	}
	s = &t->steps[t->n];
	memset(s, 0, sizeof(*s));
	s->depth = t->depth++;
	s->turn = run->turn;
	s->kind = kind;
	s->name = MemoryContextStrdup(run->cxt, name);
	s->started_at = GetCurrentTimestamp();
	INSTR_TIME_SET_CURRENT(s->start);
	s->us = -1;
	return t->n++;
}

void
mw_trace_end(MwRun *run, int step, Jsonb *input, Jsonb *output)
{
	Step	   *s;
	instr_time	now;

	if (step < 0)
		return;
	s = &run->trace->steps[step];
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, s->start);
	s->us = INSTR_TIME_GET_MICROSEC(now);
	run->trace->depth = s->depth;	/* whatever an error inside has left open */
	if (run->agent->trace == MW_TRACE_FULL)
	{
		s->input = input;
		s->output = output;
	}
}

void
mw_trace_cost(MwRun *run, int step, const MwUsage *usage, MwMoney cost, bool priced)
{
	MemoryContext old;
	Step	   *s;

	if (step < 0)
		return;
	s = &run->trace->steps[step];
	s->input_tokens = usage->input_tokens;
	s->output_tokens = usage->output_tokens;
	if (!priced)
		return;
	old = MemoryContextSwitchTo(run->cxt);
	s->cost = mw_money_numeric(cost);
	MemoryContextSwitchTo(old);
}

static void
push_step(JsonbParseState **st, const Step *s, int seq)
{
	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	push_int(st, "seq", seq);
	push_int(st, "depth", s->depth);
	push_int(st, "turn", s->turn);
	push_member(st, "kind", s->kind);
	push_member(st, "name", s->name);
	push_member(st, "started_at", DatumGetCString(DirectFunctionCall1(timestamptz_out, TimestampTzGetDatum(s->started_at))));
	if (s->us >= 0)
		push_int(st, "microseconds", s->us);
	if (strcmp(s->kind, "model") == 0)
	{
		push_int(st, "input_tokens", s->input_tokens);
		push_int(st, "output_tokens", s->output_tokens);
	}
	if (s->cost != NULL)
	{
		JsonbValue	v;

		v.type = jbvNumeric;
		v.val.numeric = s->cost;
		push_key(st, "cost");
		pushJsonbValue(st, WJB_VALUE, &v);
	}
	if (s->input != NULL)
	{
		push_key(st, "input");
		mw_push_jsonb(st, WJB_VALUE, s->input);
	}
	if (s->output != NULL)
	{
		push_key(st, "output");
		mw_push_jsonb(st, WJB_VALUE, s->output);
	}
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
}

#define TRACE_SEQ	4			/* column of mw.trace */

/* The number of the last step that earlier legs of the run left; 0: none */
static int
last_step(MwRun *run)
{
	static MwRowTable table = {.name = "trace",.nkeys = 2,.equal = {F_TEXTEQ, F_UUID_EQ},.backwards = true};
	MwRoleSave	save;
	MwRow		row;
	Datum		key[2] = {CStringGetTextDatum(run->tenant), UUIDPGetDatum(&run->run_id)};
	int			last = 0;
	bool		isnull;

	mw_become_owner(&save);
	if (mw_row_open(&row, &table, key))
		last = DatumGetInt32(mw_row_get(&row, TRACE_SEQ, &isnull));
	mw_row_close(&row);
	mw_become_caller(&save);
	return last;
}

void
mw_trace_write(MwRun *run)
{
	static MwStmt stmt = {
		"INSERT INTO mw.trace (tenant, session, run_id, seq, depth, turn, kind, name, started_at, microseconds, input_tokens, output_tokens, cost, input, output)"
		" SELECT $1, $2, $3, $5 OPERATOR(pg_catalog.+) r.seq, r.depth, r.turn, r.kind, r.name, r.started_at, r.microseconds,"
		" r.input_tokens, r.output_tokens, r.cost, r.input, r.output"
		" FROM pg_catalog.jsonb_to_recordset($4) AS r (seq pg_catalog.int4, depth pg_catalog.int4, turn pg_catalog.int4, kind pg_catalog.text, name pg_catalog.text,"
		" started_at pg_catalog.timestamptz, microseconds pg_catalog.int8, input_tokens pg_catalog.int8, output_tokens pg_catalog.int8, cost pg_catalog.numeric,"
		" input pg_catalog.jsonb, output pg_catalog.jsonb)",
		5, {TEXTOID, TEXTOID, UUIDOID, JSONBOID, INT4OID}
	};
	MwTrace    *t = run->trace;
	JsonbParseState *st = NULL;
	Datum		values[5];

	if (t == NULL || t->n == 0)
		return;
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < t->n; i++)
		push_step(&st, &t->steps[i], i + 1);
	values[0] = CStringGetTextDatum(run->tenant);
	values[1] = CStringGetTextDatum(run->session);
	values[2] = UUIDPGetDatum(&run->run_id);
	values[3] = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_ARRAY, NULL)));
	mw_require_may_act(run->tenant);
	values[4] = Int32GetDatum(last_step(run));
	SPI_connect();
	(void) mw_spi_write(&stmt, MW_AS_OWNER, values, NULL);
	SPI_finish();
}
