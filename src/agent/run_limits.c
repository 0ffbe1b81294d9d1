/*
 * run_limits.c - how far a run may go: turns, calls, time, tokens, money.
 *
 * The agent's limits and the call's hold both, the lesser of each.  They count
 * over all legs of a run but for time, which is this leg's.  A run that a tool or
 * a hook calls is within its caller's calls, tokens, money and time too: a limit
 * that a tool could get round by asking a model itself would be none.
 */
#include "mw.h"

#include <math.h>

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "agent/run.h"
#include "util/json.h"
#include "util/money.h"

/* A limit that is the lesser of the agent's and the call's; 0 for none */
static int64
count_limit(Jsonb *agent, Jsonb *call, const char *key)
{
	Jsonb	   *both[2] = {agent, call};
	int64		limit = 0;

	for (int i = 0; i < 2; i++)
	{
		JsonbValue *v = mw_json_get(both[i], key);
		double		n;

		if (v == NULL)
			continue;
		n = v->type == jbvNumeric ? DatumGetFloat8(DirectFunctionCall1(numeric_float8, NumericGetDatum(v->val.numeric))) : -1;
		if (n < 1 || n > PG_INT32_MAX || n != floor(n))
			mw_run_option_wrong(psprintf("limits.%s", key), "a whole number from 1");
		limit = limit == 0 ? (int64) n : Min(limit, (int64) n);
	}
	return limit;
}

void
mw_run_read_limits(MwRun *run)
{
	Jsonb	   *call = mw_run_option_object(run->options, "limits");
	Jsonb	   *agent = run->agent->limits;
	Jsonb	   *both[2] = {agent, call};
	int64		turns = count_limit(agent, call, "turns");
	char	   *exit = mw_json_get_text(agent, "exit_behavior");

	run->max_turns = turns == 0 ? run->agent->max_turns : Min(run->agent->max_turns, turns);
	run->max_calls = count_limit(agent, call, "calls");
	run->max_tokens = count_limit(agent, call, "tokens");
	run->max_cost = run->base->run_cost;
	run->limit_ends = exit != NULL && strcmp(exit, "end") == 0;
	if (agent != NULL && mw_json_get(agent, "cost") != NULL)
	{
		JsonbValue *v = mw_json_get(agent, "cost");
		MwMoney		cost;

		if (v->type != jbvNumeric || !mw_money_read(v->val.numeric, MW_MONEY_DECIMALS, &cost) || cost < 0)
			mw_run_option_wrong("limits.cost", "an amount of money from 0, with 12 decimals at most");
		run->max_cost = run->max_cost < 0 ? cost : Min(run->max_cost, cost);
	}
	for (int i = 0; i < 2; i++)
	{
		JsonbValue *v = mw_json_get(both[i], "wall");
		int			ms;

		if (v == NULL)
			continue;
		ms = mw_duration_of(v, "limits.wall");
		if (run->wall_ms == 0 || ms < run->wall_ms)
			run->wall_ms = ms;
	}
	run->wall = mw_after_ms(run->wall_ms > 0 ? run->wall_ms : PG_INT32_MAX);
}

/* ---------- limits ---------- */

/* What a run that is over one of its limits does: it ends, or it is an error */
static bool
over_limit(MwRun *run, const char *limit, const char *detail)
{
	if (run->limit_ends)
	{
		run->ended_by = limit;
		return true;
	}
	ereport(ERROR,
			(errcode(ERRCODE_MW_RUN_EXCEEDED),
			 errmsg("the run has reached its limit of %s", limit),
			 errdetail("%s", detail),
			 errhint("Raise \"%s\" of the agent's limits or of options.limits, or let the run end there: \"exit_behavior\": \"end\".",
					 strcmp(limit, "turns") == 0 ? "max_turns" : limit)));
	return false;				/* not reached */
}

static bool
calls_are_up(const MwRun *run)
{
	return run->max_calls > 0 && run->calls + run->inner_calls >= run->max_calls;
}

static char *
calls_detail(const MwRun *run)
{
	return psprintf("It had %d model calls%s, and " INT64_FORMAT " are allowed.", run->calls + run->inner_calls,
					run->inner_calls > 0 ? " with those of its tools and hooks" : "", run->max_calls);
}

bool
mw_run_may_turn(MwRun *run)
{
	if (run->turn >= run->max_turns)
		return !over_limit(run, "turns", psprintf("It had %d turns, and %d are allowed.", run->turn, run->max_turns));
	if (calls_are_up(run))
		return !over_limit(run, "calls", calls_detail(run));
	return !mw_run_is_late(run);
}

/* Asked between the calls of one message too: they may be many */
bool
mw_run_is_late(MwRun *run)
{
	return mw_ms_until(run->wall) <= 0 &&
		over_limit(run, "wall", psprintf("%d ms have passed since this leg of it began.", run->wall_ms));
}

/* A call inside of a turn: a middleware's retry, a summary, a call of a tool's own */
void
mw_run_may_call(MwRun *run)
{
	for (; run != NULL; run = run->outer)
		if (calls_are_up(run))
			ereport(ERROR,
					(errcode(ERRCODE_MW_RUN_EXCEEDED),
					 errmsg("the run has reached its limit of calls"),
					 errdetail("%s", calls_detail(run)),
					 errhint("Raise \"calls\" of the agent's limits or of options.limits.")));
}

/* What is left to the call of this run's limits, if that is less than what it has */
static void
limit_by(const MwRun *run, int64 max_tokens, MwCall *call)
{
	long		left = mw_ms_until(run->wall);

	if (max_tokens > 0)
	{
		int64		tokens = max_tokens - run->usage.input_tokens - run->usage.output_tokens - run->replayed_tokens - run->inner_tokens;

		tokens = Max(tokens, 1);
		call->run_tokens = call->run_tokens > 0 ? Min(call->run_tokens, tokens) : tokens;
	}
	if (run->max_cost >= 0)
	{
		MwMoney		cost = run->max_cost - run->cost - run->replayed_cost - run->inner_cost;

		cost = Max(cost, 0);
		call->run_cost = call->run_cost >= 0 ? Min(call->run_cost, cost) : cost;
	}
	if (run->wall_ms > 0 && mw_ms_until(call->deadline) > left)
		call->deadline = mw_after_ms(Max(left, 0));
}

void
mw_run_limit_call(MwRun *run, MwCall *call)
{
	limit_by(run, run->max_tokens == 0 && call->session == NULL ? MW_DEFAULT_SESSION_TOKENS : run->max_tokens, call);
	for (run = run->outer; run != NULL; run = run->outer)
		limit_by(run, run->max_tokens, call);
}
