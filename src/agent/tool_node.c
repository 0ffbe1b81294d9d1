/*
 * tool_node.c - the tool calls of one message, in order.
 *
 * Each call is a step of its own with a subtransaction around it and around its
 * wrap hooks.  All see the state from before the batch; their results are put
 * into the thread together, in the order of the calls.  A call that pauses takes
 * back what its hooks wrote and does not stop its siblings: its own result comes
 * later, and is put before those of the calls behind it.
 *
 * Texts for a model that named a tool or arguments wrongly are LangChain's,
 * since prompts and evaluations rest on them.
 */
#include "mw.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "agent/approval.h"
#include "agent/frame.h"
#include "agent/values.h"
#include "agent/run.h"
#include "agent/trace.h"
#include "util/faults.h"
#include "util/json.h"
#include "util/names.h"

/* ---------- one call, inside all hooks ---------- */

static MwToolResponse *
respond(MwRun *run, const MwToolCall *call, const char *text, bool failed)
{
	MwToolResponse *resp = palloc0(sizeof(MwToolResponse));

	resp->msg = mw_msg_tool(run, call, text, failed);
	return resp;
}

/* The tool itself; an error of its own is noted as that and leaves as it is */
static MwToolResponse *
execute(MwRun *run, const MwTool *tool, MwToolCall *call)
{
	MwToolResponse *volatile resp = NULL;
	MwFrame		barrier;

	mw_fault("tool_before");
	mw_frame_push(&barrier, run, MW_FRAME_PLAIN);
	PG_TRY();
	{
		resp = tool->run != NULL ? tool->run(run, tool, call) : mw_tool_run(run, tool, call);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		mw_frame_pop(&barrier);
		mw_frame_note(run);
		MemoryContextSwitchTo(run->cxt);
		edata = CopyErrorData();
		if (!mw_errcode_is_ours(edata->sqlerrcode))
			mw_fault_from(run, MW_FAULT_TOOL, tool->name, "tool", edata);
		mw_approval_ran(run, call, true);
		PG_RE_THROW();
	}
	PG_END_TRY();
	mw_frame_pop(&barrier);
	mw_approval_ran(run, call, false);
	mw_fault("tool_after");
	return resp;
}

static MwToolResponse *
run_tool(MwRun *run, const MwToolRequest *req)
{
	MwToolCall *call = req->call;
	const MwTool *tool = req->tool;
	MwToolResponse *refused;

	if (tool == NULL)
		return respond(run, call, psprintf("Error: %s is not a valid tool, try one of [%s].", call->name, mw_tools_list(run->tools)), true);
	/* nobody is asked to approve what cannot be run */
	refused = mw_tool_misused(run, tool, call);
	if (refused == NULL)
		refused = mw_approval_check(run, tool, call);
	return refused != NULL ? refused : execute(run, tool, call);
}

MwToolResponse *
mw_next_tool(MwRun *run, int level, const MwToolRequest *req)
{
	const MwMiddleware *outer = run->at;
	MwToolResponse *resp;
	int			i = level;

	mw_frame_check(run);
	while (i < run->agent->nmiddleware && run->agent->middleware[i]->kind->wrap_tool == NULL)
		i++;
	if (i < run->agent->nmiddleware)
	{
		MwMiddleware *m = run->agent->middleware[i];

		int			traced = mw_trace_begin(run, "wrap", psprintf("wrap_tool_call of %s%s", m->name, mw_reveal_word(m)));

		run->at = m;
		resp = m->kind->wrap_tool(run, m, req, i + 1);
		mw_trace_end(run, traced, NULL, NULL);
	}
	else
	{
		run->at = NULL;
		resp = run_tool(run, req);
	}
	run->at = outer;
	return resp;
}

/* ---------- the batch ---------- */

/*
 * Whether the siblings of a call that failed so still run.  They do where the
 * error is returned, as in LangChain, where they run at the same time; an error
 * that speaks of the run itself stops them.
 */
static bool
siblings_go_on(const MwRun *run, const ErrorData *edata)
{
	switch (edata->sqlerrcode)
	{
		case ERRCODE_MW_GUARD_REFUSED:
		case ERRCODE_MW_BUDGET_EXHAUSTED:
		case ERRCODE_MW_RUN_EXCEEDED:
			return false;
		default:
			return run->return_errors && run->sticky == NULL && !mw_frame_must_pass(edata);
	}
}

/* One call with its hooks in a subtransaction; NULL where it paused, or failed and its siblings go on */
static MwToolResponse *
call_one(MwRun *run, MwToolCall *call, ErrorData **failed)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	MwToolRequest req = {.call = call, .tool = mw_run_tool(run, call->name)};
	MwToolResponse *volatile resp = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		resp = mw_next_tool(run, 0, &req);
		mw_frame_check(run);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(run->cxt);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		resp = NULL;
		if (run->paused != NULL)
		{
			/* recorded by the loop, after the hooks have unwound */
			mw_approval_undone(run, call->id);
			mw_approval_note(run);
			run->sticky = NULL;
		}
		else if (siblings_go_on(run, edata))
			*failed = edata;
		else
			ReThrowError(edata);
	}
	PG_END_TRY();
	return resp;
}

/*
 * The id of the first result whose call comes after the i-th and ran in an
 * earlier leg: this one's belongs before it; NULL: at the end.  What a middleware
 * has answered by itself stays where that put it.
 */
static const char *
later_result(const MwRun *run, const MwMsg *answer, MwMsg **results, int i)
{
	if (run->batch == NIL)
		return NULL;
	for (int k = i + 1; k < answer->ncalls; k++)
	{
		if (results[k] != NULL && mw_lists(run->batch, answer->calls[k].id))
			return results[k]->id;
	}
	return NULL;
}

void
mw_tool_node(MwRun *run, MwNodeResult *result)
{
	MwMsg	  **results;
	List	   *ran = NIL;
	MwMsg	   *answer = mw_last_answer(run, &results);
	struct MwFault fault = {0};

	if (answer == NULL)
		return;
	for (int i = 0; i < answer->ncalls; i++)
	{
		ErrorData  *failed = NULL;
		MwToolCall *call = &answer->calls[i];
		MwTool	   *tool = mw_run_tool(run, call->name);
		MwToolResponse *resp;
		int			traced;

		if (results[i] != NULL)
			continue;
		if (tool != NULL && tool->kind == MW_TOOL_CLIENT)
		{
			result->clients = true;
			continue;
		}

		CHECK_FOR_INTERRUPTS();
		if (mw_run_is_late(run))
		{
			mw_patch_put_before(&result->patch,
								mw_msg_tool(run, call, psprintf("Tool call %s was not run: the time of the run is up.", call->name), true),
								later_result(run, answer, results, i));
			continue;
		}
		traced = mw_trace_begin(run, "tool", call->name);
		resp = call_one(run, call, &failed);
		if (failed != NULL)
		{
			mw_trace_left(run, traced);
			/* the first one is what the run fails with */
			if (result->failed == NULL)
			{
				result->failed = failed;
				fault = run->fault;
			}
			continue;
		}
		mw_trace_end(run, traced, call->args, resp != NULL ? resp->msg->json : NULL);
		if (resp == NULL)
		{
			result->paused = true;
			continue;
		}
		ran = lappend(ran, call->id);
		mw_patch_put_before(&result->patch, resp->msg, later_result(run, answer, results, i));
		if (resp->update != NULL)
			result->updates = lappend(result->updates, resp->update);
	}

	if (result->failed != NULL)
	{
		run->fault = fault;
		/* nobody is asked about a run that has failed */
		if (result->paused)
			ReThrowError(result->failed);
	}

	/* while a sibling waits, which ones have run is kept with the run */
	if (result->paused)
		run->batch = list_concat(run->batch, ran);
	else
		run->batch = NIL;
}
