/*
 * outcome.c - what a leg of a run hands out.
 *
 * As with a call without an agent, the result is made with placeholders inside,
 * which is the form that is kept for its request_id; the values are put back
 * last, from the map of the run.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "agent/approval.h"
#include "agent/frame.h"
#include "agent/run.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/money.h"

static const char *
cache_word(MwCacheStatus cache)
{
	static const char *const words[] = {
		[MW_CACHE_OFF] = "off", [MW_CACHE_MISS] = "miss", [MW_CACHE_HIT] = "hit", [MW_CACHE_SHARED] = "shared"
	};

	return words[cache];
}

static void
push_client_calls(MwRun *run, JsonbParseState **st)
{
	MwMsg	  **results;
	MwMsg	   *answer = mw_last_answer(run, &results);

	push_key(st, "tool_calls");
	pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; answer != NULL && i < answer->ncalls; i++)
	{
		MwToolCall *call = &answer->calls[i];
		MwTool	   *tool = mw_run_tool(run, call->name);

		if (tool == NULL || tool->kind != MW_TOOL_CLIENT)
			continue;
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "id", call->id);
		push_member(st, "name", call->name);
		push_key(st, "args");
		mw_push_jsonb(st, WJB_VALUE, call->args);
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(st, WJB_END_ARRAY, NULL);
}

/* ---------- errors ---------- */

/* What leaves the run: whose fault it was, and which run */
void
mw_run_dress(MwRun *run, ErrorData *e)
{
	MwFaultKind kind;
	const char *who;
	const char *where;
	char	   *said = NULL;

	/* a cancel stays a cancel, and what the whole transaction has to do again is told by its own code */
	if (!mw_frame_must_pass(e) && !mw_errcode_is_ours(e->sqlerrcode) && mw_fault_of(run, e, &kind, &who, &where))
	{
		if (kind == MW_FAULT_TOOL)
			said = psprintf("Tool \"%s\" failed with SQLSTATE %s.", who, unpack_sql_state(e->sqlerrcode));
		else if (where == NULL)
			said = psprintf("The function of %s failed with SQLSTATE %s.", who, unpack_sql_state(e->sqlerrcode));
		else
			said = psprintf("Hook %s of middleware \"%s\" failed with SQLSTATE %s.", where, who, unpack_sql_state(e->sqlerrcode));
		e->sqlerrcode = kind == MW_FAULT_TOOL ? ERRCODE_MW_TOOL_FAILED : ERRCODE_MW_HOOK_FAILED;
		if (kind == MW_FAULT_TOOL && e->hint == NULL)
			e->hint = "A tool_error or tool_retry middleware makes such an error a message for the model.";
	}
	if (e->detail != NULL && said != NULL)
		said = psprintf("%s\n%s", e->detail, said);
	else if (said == NULL)
		said = e->detail;
	e->detail = said == NULL ? psprintf("request_id: %s", run->base->request_id) :
		psprintf("%s\nrequest_id: %s", said, run->base->request_id);
	e->hide_stmt = true;
	e->hide_ctx = true;
}

static void
push_error(MwRun *run, JsonbParseState **st)
{
	const ErrorData *e = run->error;

	push_key(st, "error");
	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	push_member(st, "sqlstate", unpack_sql_state(e->sqlerrcode));
	push_member(st, "message", e->message != NULL ? e->message : "");
	if (e->detail != NULL)
		push_member(st, "detail", e->detail);
	if (e->hint != NULL)
		push_member(st, "hint", e->hint);
	if (run->http_status > 0)
		push_int(st, "status", run->http_status);
	if (run->at != NULL)
		push_member(st, "middleware", run->at->name);
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
}

Jsonb *
mw_run_result(MwRun *run, const char *status)
{
	JsonbParseState *st = NULL;
	List	   *new = mw_thread_new(run);	/* but what its caller said */
	MwMsg	   *last = run->msgs != NIL ? llast(run->msgs) : NULL;
	bool		completed = strcmp(status, "completed") == 0;
	Jsonb	   *state = mw_state_part(run, MW_STATE_SHOWN);
	JsonbValue	v;
	ListCell   *lc;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "status", status);
	if (completed && run->ended_by != NULL)
		push_member(&st, "ended_by", run->ended_by);
	if (completed && last != NULL && !mw_msg_is(last, "user") && !mw_msg_is(last, "system"))
		push_member(&st, "output", last->text);
	if (run->structured != NULL)
	{
		push_key(&st, "structured_response");
		mw_push_jsonb(&st, WJB_VALUE, run->structured);
	}
	push_key(&st, "messages");
	mw_push_jsonb(&st, WJB_VALUE, mw_msgs_json(new));
	if (JB_ROOT_COUNT(state) > 0)
	{
		push_key(&st, "state");
		mw_push_jsonb(&st, WJB_VALUE, state);
	}
	if (strcmp(status, "interrupted") == 0)
	{
		push_key(&st, "interrupts");
		mw_push_jsonb(&st, WJB_VALUE, mw_approval_interrupts(run));
	}
	if (strcmp(status, "tool_calls") == 0)
		push_client_calls(run, &st);

	push_key(&st, "usage");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_int(&st, "input_tokens", run->usage.input_tokens);
	push_int(&st, "output_tokens", run->usage.output_tokens);
	push_int(&st, "total_tokens", run->usage.input_tokens + run->usage.output_tokens);
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	push_key(&st, "cost");
	v.type = jbvNull;
	if (!run->unpriced)
	{
		v.type = jbvNumeric;
		v.val.numeric = mw_money_numeric(run->cost);
	}
	pushJsonbValue(&st, WJB_VALUE, &v);
	push_member(&st, "cache", cache_word(run->cache));
	push_member(&st, "request_id", run->base->request_id);
	push_member(&st, "run_id", run->run_id_text);
	push_member(&st, "model", run->model != NULL ? run->model : run->first_model);
	push_key(&st, "notices");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, run->notices)
		push_string(&st, WJB_ELEM, lfirst(lc), strlen(lfirst(lc)));
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	push_key(&st, "timings");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < MW_NSTAGES; i++)
		push_int(&st, mw_stages[i].name, run->stage_us[i]);
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	if (run->error != NULL)
		push_error(run, &st);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

Jsonb *
mw_run_restore(MwRun *run, Jsonb *result)
{
	run->base->map = run->map;
	return mw_result_restore(run->base, result);
}
