/*
 * pipeline.c - the six stages in their one order, and how a call runs down
 * them and back.
 *
 * A stage is one function that does its part, calls mw_next in the middle and
 * sees the answer on its way back; so what it opens and what it closes stand
 * on one screen, and the answer passes the stages in reverse without a second
 * table.  mw_next may be called none, one or several times: cache does not call
 * it on a hit, retry calls it once an attempt.
 *
 * A hit of the cache runs the first four and has some forty microseconds for all
 * of them, most of which is memory that went cold since the last call.  So on
 * that way nobody runs a statement, makes a system call, builds jsonb, goes
 * through recognisers, guards or limits one by one, or passes over the text
 * once more than it must: what depends on rules is made ready with the policy,
 * and what is rare is found out by a look that is cheap.
 *
 * The order is the table below and nothing else.  The rules that it must keep
 * are data in order.c, asserted there while compiling and here at load.
 */
#include "mw.h"

#include "portability/instr_time.h"

#include "call/call.h"
#include "stage/stages.h"

const MwStage mw_stages[MW_NSTAGES] = {
	[MW_STAGE_REDACT] = {"redact", mw_redact_run, mw_redact_explain},
	[MW_STAGE_GUARDRAIL] = {"guardrail", mw_guardrail_run, mw_guardrail_explain},
	[MW_STAGE_BUDGET] = {"budget", mw_budget_run, mw_budget_explain},
	[MW_STAGE_CACHE] = {"cache", mw_cache_run, mw_cache_explain},
	[MW_STAGE_RETRY] = {"retry", mw_retry_run, mw_retry_explain},
	[MW_STAGE_MODEL] = {"model", mw_model_run, mw_model_explain}
};

StaticAssertDecl(lengthof(mw_stages) == MW_NSTAGES, "every stage has its row");

/* The table as it was linked: whole, and in an order that breaks no rule. */
void
mw_pipeline_init(void)
{
	MwStageId	order[MW_NSTAGES];
	StringInfoData broken;

	for (int i = 0; i < MW_NSTAGES; i++)
	{
		if (mw_stages[i].name == NULL || mw_stages[i].run == NULL || mw_stages[i].explain == NULL)
			elog(ERROR, "stage %d of mw is not complete", i);
		order[i] = (MwStageId) i;
	}

	initStringInfo(&broken);
	if (mw_order_violations(order, &broken) != 0)
		elog(ERROR, "the stages of mw stand in a wrong order: %s", broken.data);
	pfree(broken.data);
}

/*
 * Run the next stage in, and charge its time to it: what it took, less what the
 * stages that it called took.  Until the pipeline ends stage_us counts
 * nanoseconds, since six roundings of a hit would be most of its time.
 */
static inline void
run_next(MwCall *call)
{
	int			i = call->at;
	instr_time	start;
	instr_time	end;
	int64		ns;

	if (i < 0 || i >= MW_NSTAGES)
		elog(ERROR, "there is no stage after the last one");

	call->at = i + 1;
	INSTR_TIME_SET_CURRENT(start);
	mw_stages[i].run(call);
	INSTR_TIME_SET_CURRENT(end);
	call->at = i;

	INSTR_TIME_SUBTRACT(end, start);
	ns = (int64) (INSTR_TIME_GET_DOUBLE(end) * 1e9);
	call->stage_us[i] += ns;
	if (i > 0)
		call->stage_us[i - 1] -= ns;
}

/* The same, but the stages end after "last": an answer without anything in it goes back. */
static inline void
run_next_until(MwCall *call, MwStageId last)
{
	if (call->at <= last)
		run_next(call);
	else if (call->answer == NULL)
	{
		call->answer = MemoryContextAllocZero(call->cxt, sizeof(MwAnswer));
		call->answer->finish = "stop";
	}
}

static void
next_of_all(MwCall *call)
{
	run_next(call);
}

static void
next_of_redact(MwCall *call)
{
	run_next_until(call, MW_STAGE_REDACT);
}

static void
next_of_judge(MwCall *call)
{
	run_next_until(call, MW_STAGE_GUARDRAIL);
}

static void
run_from_first(MwCall *call, void (*next) (MwCall *))
{
	memset(call->stage_us, 0, sizeof(call->stage_us));
	call->at = 0;
	call->next = next;
	mw_next(call);
	for (int i = 0; i < MW_NSTAGES; i++)
		call->stage_us[i] = (call->stage_us[i] + 500) / 1000;
}

void
mw_pipeline_run(MwCall *call)
{
	run_from_first(call, next_of_all);
	if (call->answer == NULL)
		elog(ERROR, "the stages of mw came back without an answer");
}

void
mw_pipeline_redact(MwCall *call)
{
	run_from_first(call, next_of_redact);
	call->answer = NULL;
}

void
mw_pipeline_judge(MwCall *call)
{
	run_from_first(call, next_of_judge);
	call->answer = NULL;
}
