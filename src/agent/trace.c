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
#include "util/money.h"
#include "util/row.h"
#include "util/table.h"

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
mw_trace_left(MwRun *run, int step)
{
	if (step >= 0)
		run->trace->depth = run->trace->steps[step].depth;
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

/* Columns of mw.trace */
enum
{
	TRACE_TENANT = 1, TRACE_SESSION, TRACE_RUN_ID, TRACE_SEQ, TRACE_DEPTH, TRACE_TURN, TRACE_KIND, TRACE_NAME, TRACE_STARTED_AT, TRACE_MICROSECONDS,
	TRACE_INPUT_TOKENS, TRACE_OUTPUT_TOKENS, TRACE_COST, TRACE_INPUT, TRACE_OUTPUT, TRACE_COLUMNS = TRACE_OUTPUT
};

static void
set_if(Datum *values, bool *nulls, int column, bool there, Datum value)
{
	nulls[column - 1] = !there;
	values[column - 1] = value;
}

static void
make_row(const Step *s, Datum *values, bool *nulls)
{
	bool		model = strcmp(s->kind, "model") == 0;

	values[TRACE_DEPTH - 1] = Int32GetDatum(s->depth);
	values[TRACE_TURN - 1] = Int32GetDatum(s->turn);
	values[TRACE_KIND - 1] = CStringGetTextDatum(s->kind);
	values[TRACE_NAME - 1] = CStringGetTextDatum(s->name);
	values[TRACE_STARTED_AT - 1] = TimestampTzGetDatum(s->started_at);
	set_if(values, nulls, TRACE_MICROSECONDS, s->us >= 0, Int64GetDatum(s->us));
	set_if(values, nulls, TRACE_INPUT_TOKENS, model, Int64GetDatum(s->input_tokens));
	set_if(values, nulls, TRACE_OUTPUT_TOKENS, model, Int64GetDatum(s->output_tokens));
	set_if(values, nulls, TRACE_COST, s->cost != NULL, NumericGetDatum(s->cost));
	set_if(values, nulls, TRACE_INPUT, s->input != NULL, JsonbPGetDatum(s->input));
	set_if(values, nulls, TRACE_OUTPUT, s->output != NULL, JsonbPGetDatum(s->output));
}

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

	if (!run->goes_on)
		return 0;
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
	static MwTable table = {
		.name = "trace",.nkeys = 3,.equal = {F_TEXTEQ, F_UUID_EQ, F_INT4EQ},
		.ncolumns = TRACE_COLUMNS,.columns = {
			"tenant", "session", "run_id", "seq", "depth", "turn", "kind", "name", "started_at", "microseconds", "input_tokens", "output_tokens", "cost", "input", "output"
		}
	};
	MwTrace    *t = run->trace;
	Datum	   *values;
	bool	   *nulls;
	Datum		tenant;
	Datum		session;
	int			before;

	if (t == NULL || t->n == 0)
		return;
	mw_require_may_act(run->tenant);
	before = last_step(run);
	values = palloc_extended(sizeof(Datum) * t->n * TRACE_COLUMNS, MCXT_ALLOC_HUGE);
	nulls = palloc_extended(sizeof(bool) * t->n * TRACE_COLUMNS, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	tenant = CStringGetTextDatum(run->tenant);
	session = CStringGetTextDatum(run->session);
	for (int i = 0; i < t->n; i++)
	{
		Datum	   *row = &values[i * TRACE_COLUMNS];

		row[TRACE_TENANT - 1] = tenant;
		row[TRACE_SESSION - 1] = session;
		row[TRACE_RUN_ID - 1] = UUIDPGetDatum(&run->run_id);
		row[TRACE_SEQ - 1] = Int32GetDatum(before + i + 1);
		make_row(&t->steps[i], row, &nulls[i * TRACE_COLUMNS]);
	}
	mw_table_add(&table, t->n, values, nulls);
}
