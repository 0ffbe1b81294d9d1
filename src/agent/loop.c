/*
 * loop.c - LangChain's loop: where a run stands, and where it goes from there.
 *
 *   before_agent -> before_model -> model -> after_model -+-> tools -> before_model
 *                                                         +-> after_agent -> end
 *
 * before_* go up the list of middlewares and after_* down it; a jump leaves the
 * hooks of its phase and outranks what routing would say.  "model" is the first
 * before_model, "end" the after_agent hooks.  Each node is a step: it returns
 * what is to change, and only then is it applied, in memory and as rows.  With
 * on_error = return every step is a subtransaction, so what had finished before
 * an error stays; else the caller's transaction decides about all of it.
 */
#include "mw.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "agent/approval.h"
#include "agent/context.h"
#include "agent/frame.h"
#include "agent/hooks.h"
#include "agent/values.h"
#include "agent/run.h"
#include "agent/structured.h"
#include "agent/trace.h"

/* ---------- routing ---------- */

MwMsg *
mw_last_answer(MwRun *run, MwMsg ***results)
{
	int			at = mw_msgs_last(run->msgs, "assistant");

	*results = at < 0 ? NULL : mw_results_of(run->msgs, at);
	return at < 0 ? NULL : list_nth(run->msgs, at);
}

static MwPlace
at(MwNode node, int i)
{
	return (MwPlace) {node, i};
}

static MwPlace
loop_entry(void)
{
	return at(MW_NODE_BEFORE_MODEL, 0);
}

static MwPlace
the_end(MwRun *run)
{
	return at(MW_NODE_AFTER_AGENT, run->agent->nmiddleware - 1);
}

/*
 * LangChain's graph of an agent without tools has no node that runs any, whatever
 * its model calls, unless a middleware wraps tool calls and may know some.
 */
static bool
has_tool_node(const MwRun *run)
{
	if (run->tools != NIL)
		return true;
	for (int i = 0; i < run->agent->nmiddleware; i++)
		if (run->agent->middleware[i]->kind->wrap_tool != NULL)
			return true;
	return false;
}

static MwPlace
after_model(MwRun *run)
{
	MwMsg	  **results;
	MwMsg	   *answer = mw_last_answer(run, &results);

	if (!has_tool_node(run))
		return mw_structured_again(run) ? loop_entry() : the_end(run);
	if (answer == NULL || answer->ncalls == 0)
		return the_end(run);
	for (int i = 0; i < answer->ncalls; i++)
	{
		if (results[i] == NULL && !mw_structured_is(run, answer->calls[i].name))
			return at(MW_NODE_TOOLS, 0);
	}
	if (run->structured != NULL)
		return the_end(run);
	return loop_entry();		/* a middleware has answered every call */
}

static MwPlace
after_tools(MwRun *run)
{
	MwMsg	  **results;
	MwMsg	   *answer = mw_last_answer(run, &results);
	bool		direct = false;

	if (answer == NULL)
		return loop_entry();
	for (int i = 0; i < answer->ncalls; i++)
	{
		MwMsg	   *result = results[i];
		MwTool	   *tool = result != NULL && result->name != NULL ? mw_run_tool(run, result->name) : NULL;

		if (tool == NULL)
			tool = mw_run_tool(run, answer->calls[i].name);
		if (tool == NULL)
			continue;
		if (!tool->return_direct)
			return mw_structured_done(run, answer, results) ? the_end(run) : loop_entry();
		direct = true;
	}
	return direct || mw_structured_done(run, answer, results) ? the_end(run) : loop_entry();
}

static MwPlace
jumped(MwRun *run, MwJump jump, MwNode from)
{
	switch (jump)
	{
		case MW_JUMP_END:
			return from == MW_NODE_AFTER_AGENT ? at(MW_NODE_END, 0) : the_end(run);
		case MW_JUMP_TOOLS:
			return at(MW_NODE_TOOLS, 0);
		default:
			return loop_entry();
	}
}

/* From a node that has run to the next one */
static MwPlace
next_of(MwRun *run, MwPlace from, const MwNodeResult *result)
{
	int			last = run->agent->nmiddleware - 1;

	if (result->patch.jump != MW_JUMP_NONE)
		return jumped(run, result->patch.jump, from.node);
	switch (from.node)
	{
		case MW_NODE_BEFORE_AGENT:
			return from.i < last ? at(MW_NODE_BEFORE_AGENT, from.i + 1) : loop_entry();
		case MW_NODE_BEFORE_MODEL:
			return from.i < last ? at(MW_NODE_BEFORE_MODEL, from.i + 1) : at(MW_NODE_MODEL, 0);
		case MW_NODE_MODEL:
			return at(MW_NODE_AFTER_MODEL, last);
		case MW_NODE_AFTER_MODEL:
			return from.i > 0 ? at(MW_NODE_AFTER_MODEL, from.i - 1) : after_model(run);
		case MW_NODE_TOOLS:
		case MW_NODE_AFTER_TOOLS:
			return after_tools(run);
		case MW_NODE_AFTER_AGENT:
			return from.i > 0 ? at(MW_NODE_AFTER_AGENT, from.i - 1) : at(MW_NODE_END, 0);
		case MW_NODE_END:
			break;
	}
	return at(MW_NODE_END, 0);
}

/* ---------- steps ---------- */

static const char *const hook_words[] = {
	[MW_NODE_BEFORE_AGENT] = "before_agent", [MW_NODE_BEFORE_MODEL] = "before_model",
	[MW_NODE_AFTER_MODEL] = "after_model", [MW_NODE_AFTER_AGENT] = "after_agent"
};

static MwPatch *
call_hook(MwRun *run, MwMiddleware *m, MwNode node)
{
	switch (node)
	{
		case MW_NODE_BEFORE_AGENT:
			return m->kind->before_agent != NULL ? m->kind->before_agent(run, m) : NULL;
		case MW_NODE_BEFORE_MODEL:
			return m->kind->before_model != NULL ? m->kind->before_model(run, m) : NULL;
		case MW_NODE_AFTER_MODEL:
			return m->kind->after_model != NULL ? m->kind->after_model(run, m) : NULL;
		case MW_NODE_AFTER_AGENT:
			return m->kind->after_agent != NULL ? m->kind->after_agent(run, m) : NULL;
		default:
			return NULL;
	}
}

static MwPatch *
run_hook(MwRun *run, MwMiddleware *m, MwNode node)
{
	MwPatch    *patch;

	run->at = m;
	patch = call_hook(run, m, node);
	run->at = NULL;
	return patch;
}

static bool
has_hook(const MwMiddleware *m, MwNode node)
{
	switch (node)
	{
		case MW_NODE_BEFORE_AGENT:
			return m->kind->before_agent != NULL;
		case MW_NODE_BEFORE_MODEL:
			return m->kind->before_model != NULL;
		case MW_NODE_AFTER_MODEL:
			return m->kind->after_model != NULL;
		case MW_NODE_AFTER_AGENT:
			return m->kind->after_agent != NULL;
		default:
			return false;
	}
}

static void
apply(MwRun *run, MwNodeResult *result)
{
	ListCell   *lc;

	if (result->patch.msgs != NIL)
		mw_thread_apply(run, result->patch.msgs);
	if (result->patch.fields != NULL)
		mw_state_apply(run, result->patch.fields);
	if (result->structured != NULL)
		run->structured = result->structured;
	foreach(lc, result->updates)
	{
		MwPatch    *patch = mw_patch_read(run, lfirst(lc), "an update", NIL);

		if (patch == NULL)
			continue;
		if (patch->msgs != NIL)
			mw_thread_apply(run, patch->msgs);
		if (patch->fields != NULL)
			mw_state_apply(run, patch->fields);
	}
	mw_thread_flush(run);
}

static void
step(MwRun *run, MwNodeResult *result)
{
	MwPlace		place = *run->place;

	switch (place.node)
	{
		case MW_NODE_MODEL:
			if (!mw_run_may_turn(run))
			{
				result->patch.jump = MW_JUMP_END;
				break;
			}
			run->turn++;
			mw_approval_turn(run);
			run->structured = NULL;
			mw_model_node(run, result);
			break;
		case MW_NODE_TOOLS:
			mw_tool_node(run, result);
			break;
		default:
			{
				MwMiddleware *m = run->agent->middleware[place.i];
				int			traced = mw_trace_begin(run, "hook", psprintf("%s of %s%s", hook_words[place.node], m->name, mw_reveal_word(m)));
				MwPatch    *patch = run_hook(run, m, place.node);

				mw_trace_end(run, traced, NULL, patch != NULL ? patch->fields : NULL);
				if (run->paused != NULL)
				{
					mw_approval_note(run);
					result->paused = true;
					return;
				}
				if (patch != NULL)
					result->patch = *patch;
				if (result->patch.jump == MW_JUMP_END)
					run->ended_by = run->agent->middleware[place.i]->name;
			}
	}
	mw_frame_check(run);
	apply(run, result);
}

/*
 * A step whose effects go with it when it fails; false: the run ends here, with
 * an error or a text instead of it.  Each tool call is a step of its own: where
 * one has failed, the results of its siblings are in the thread.
 */
static bool
step_apart(MwRun *run, MwNodeResult *result)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	List	   *msgs = run->msgs;
	Jsonb	   *state = run->state;
	Jsonb	   *structured = run->structured;
	ErrorData  *volatile edata = NULL;
	const char *text;
	const char *ended_by;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		step(run, result);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(run->cxt);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	if (edata == NULL && result->failed == NULL)
		return true;
	if (edata == NULL)
	{
		mw_run_failed(run, result->failed, false);
		return false;
	}

	run->msgs = msgs;
	run->state = state;
	run->structured = structured;
	text = run->sticky == NULL ? mw_run_ending(run, edata, &ended_by) : NULL;
	if (text != NULL)
		mw_run_end_with(run, text, ended_by);
	else if (run->return_errors && !mw_frame_must_pass(edata))
		mw_run_failed(run, edata, true);
	else
		ReThrowError(edata);
	return false;
}

/* Nodes where nobody has anything to do cost nothing */
static bool
is_empty(MwRun *run)
{
	MwPlace		p = *run->place;

	switch (p.node)
	{
		case MW_NODE_MODEL:
		case MW_NODE_TOOLS:
			return false;
		case MW_NODE_AFTER_TOOLS:
			return true;
		default:
			return p.i < 0 || p.i >= run->agent->nmiddleware || !has_hook(run->agent->middleware[p.i], p.node);
	}
}

void
mw_loop(MwRun *run)
{
	bool		apart = run->return_errors || run->agent->on_budget_end != NULL || run->agent->on_guardrail_end != NULL ||
		run->base->policy->guardrail_end != NULL;

	while (run->place->node != MW_NODE_END)
	{
		MwNodeResult result = {0};

		CHECK_FOR_INTERRUPTS();
		if (!is_empty(run))
		{
			if (!apart)
				step(run, &result);
			else if (!step_apart(run, &result))
				return;
			if (result.paused)
			{
				run->interrupted = true;
				return;
			}
			if (result.clients)
			{
				*run->place = at(MW_NODE_AFTER_TOOLS, 0);
				run->waits_for_client = true;
				return;
			}
		}
		*run->place = next_of(run, *run->place, &result);
	}
}
