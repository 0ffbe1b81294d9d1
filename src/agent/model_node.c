/*
 * model_node.c - a model call of a run: the middlewares around it, and the six
 * stages inside.
 *
 * mw_next_model goes one middleware in; behind the last one stands execute(),
 * which makes an MwCall of the request and runs it down the stages.  A call of a
 * middleware's own (a summary, a selection) enters at execute(): it passes the
 * same stages, is numbered and billed as a call of the run, and no hook sees it.
 *
 * What a call cost is added to the run in every case, also where it raises:
 * money does not roll back.  So are the placeholders that redact has issued.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/memutils.h"

#include "agent/frame.h"
#include "agent/values.h"
#include "agent/run.h"
#include "agent/structured.h"
#include "agent/trace.h"
#include "call/request.h"
#include "stage/stages.h"
#include "util/json.h"
#include "util/json_push.h"

/* ---------- requests and responses ---------- */

MwModelRequest *
mw_request_copy(const MwModelRequest *req)
{
	MwModelRequest *copy = palloc(sizeof(MwModelRequest));

	*copy = *req;
	return copy;
}

MwMsg *
mw_response_answer(const MwModelResponse *resp)
{
	ListCell   *lc;

	foreach(lc, resp->messages)
	{
		MwMsg	   *msg = lfirst(lc);

		if (mw_msg_is(msg, "assistant"))
			return msg;
	}
	return NULL;
}

MwModelResponse *
mw_response_of(MwMsg *msg)
{
	MwModelResponse *resp = palloc0(sizeof(MwModelResponse));

	resp->messages = list_make1(msg);
	return resp;
}

/* ---------- one call ---------- */

/*
 * How many answers to the same bytes this run has had, or may have had: they were
 * recorded under these numbers, those that could not be used too.
 */
static int
answers_to(const MwCall *call)
{
	MwRun	   *run = call->run;

	return *mw_run_times(run, &run->seen, &call->call_key);
}

static void
count_answer(MwRun *run, const MwCall *call)
{
	if (call->had)				/* else nothing was recorded */
		*mw_run_times(run, &run->seen, &call->call_key) = call->nth + 1;
}

/* What the caller's options, the request and the run's limits say to the stages */
static Jsonb *
options_of(MwRun *run, const MwModelRequest *req)
{
	JsonbParseState *st = NULL;
	MwJsonEach	each;
	Jsonb	   *format = req->format != NULL && !req->format->by_tool ? mw_format_option(req->format) : NULL;
	bool		own = strcmp(req->purpose, "model") == 0;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	if (run->options != NULL)
	{
		each = mw_json_each(&run->options->root);
		while (mw_json_next(&each))
		{
			char	   *key = mw_value_string(&each.key);

			/* a helper's request is not the caller's: what he wanted of the answer does not hold for it */
			bool		keep = own ? strcmp(key, "tool_choice") != 0 || req->tool_choice == NULL :
				strcmp(key, "tool_choice") != 0 && strcmp(key, "response_format") != 0 && strcmp(key, "stop") != 0 &&
				strcmp(key, "parallel_tool_calls") != 0 && strcmp(key, "max_tokens") != 0 && strcmp(key, "temperature") != 0;

			keep = keep && (format == NULL || strcmp(key, "response_format") != 0) && strcmp(key, "limits") != 0;
			/* what speaks of tools is left out where a request has none */
			keep = keep && (req->tools != NIL || (strcmp(key, "tool_choice") != 0 && strcmp(key, "parallel_tool_calls") != 0));
			if (keep)
			{
				pushJsonbValue(&st, WJB_KEY, &each.key);
				pushJsonbValue(&st, WJB_VALUE, &each.value);
			}
		}
	}
	if (req->tool_choice != NULL && req->tools != NIL)
	{
		push_key(&st, "tool_choice");
		pushJsonbValue(&st, WJB_VALUE, req->tool_choice);
	}
	if (format != NULL)
	{
		push_key(&st, "response_format");
		mw_push_jsonb(&st, WJB_VALUE, format);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* Tools as a call takes them; those that each turn offers are made once */
static Jsonb *
tools_of(MwRun *run, List *tools)
{
	MemoryContext old;

	if (tools == NIL || tools != run->offered)
		return mw_tools_read(mw_tools_schemas(tools));
	if (run->offered_json == NULL)
	{
		old = MemoryContextSwitchTo(run->cxt);
		run->offered_json = mw_tools_read(mw_tools_schemas(tools));
		MemoryContextSwitchTo(old);
	}
	return run->offered_json;
}

MwCall *
mw_request_call(MwRun *run, const MwModelRequest *req)
{
	int			n = list_length(req->messages);
	Jsonb	  **messages = palloc(sizeof(Jsonb *) * Max(n, 1));
	bool	   *answered = palloc(Max(n, 1));
	MwCallStep	step = {
		.model = req->model, .settings = req->model_settings, .system_prompt = req->system_prompt,
		.messages = messages, .answered = answered, .nmessages = n, .quote_at = req->quote_at, .quote_len = req->quote_len, .tools = tools_of(run, req->tools), .options = options_of(run, req),
		.turn = run->turn, .last_no = &run->last_no, .attempts_before = run->attempts_before, .purpose = req->purpose, .use = run->use, .refresh = req->fresh, .once = run->agent->retries || req->once,
	};
	MwCall	   *call;
	ListCell   *lc;
	int			i = 0;

	foreach(lc, req->messages)
	{
		messages[i] = ((MwMsg *) lfirst(lc))->json;
		answered[i++] = ((MwMsg *) lfirst(lc))->answered;
	}
	call = mw_call_step(run->base, &step);
	call->run = run;
	call->nth_of = answers_to;
	mw_run_limit_call(run, call);
	return call;
}

static void
add_cost(MwRun *run, const MwCall *call)
{
	run->cost += call->cost;
	for (MwRun *outer = run->outer; outer != NULL; outer = outer->outer)
		outer->inner_cost += call->cost;
	run->unpriced |= call->unpriced;
	run->map = call->map;
}

static void
add_usage(MwRun *run, const MwUsage *usage)
{
	run->usage.input_tokens += usage->input_tokens;
	run->usage.output_tokens += usage->output_tokens;
	for (MwRun *outer = run->outer; outer != NULL; outer = outer->outer)
		outer->inner_tokens += usage->input_tokens + usage->output_tokens;
}

/* What an answer out of the record had used: it is not paid again, and counts in the run's limits as it did */
static void
add_replayed(MwRun *run, const MwUsage *used, MwMoney cost)
{
	run->replayed_tokens += used->input_tokens + used->output_tokens;
	run->replayed_cost += cost;
	for (MwRun *outer = run->outer; outer != NULL; outer = outer->outer)
	{
		outer->inner_tokens += used->input_tokens + used->output_tokens;
		outer->inner_cost += cost;
	}
}

/* The answer of the six stages to one request */
static MwMsg *
execute(MwRun *run, const MwModelRequest *req)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);
	MwCall	   *call;
	MwMsg	   *msg;
	MwFrame		barrier;
	MwUsage		used;
	MwMoney		cost;
	int			traced;

	mw_frame_check(run);
	mw_run_may_call(run);
	call = mw_request_call(run, req);
	run->calls++;
	for (MwRun *outer = run->outer; outer != NULL; outer = outer->outer)
		outer->inner_calls++;
	traced = mw_trace_begin(run, "model", strcmp(req->purpose, "model") == 0 ? req->model : psprintf("%s for %s", req->model, req->purpose));
	call->map = run->map;
	mw_frame_push(&barrier, run, MW_FRAME_PLAIN);
	PG_TRY();
	{
		MemoryContextSwitchTo(call->cxt);
		mw_pipeline_run(call);
		MemoryContextSwitchTo(run->cxt);
		mw_frame_pop(&barrier);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(run->cxt);
		mw_frame_pop(&barrier);
		add_cost(run, call);
		count_answer(run, call);
		run->http_status = call->reply != NULL ? call->reply->http_status : 0;
		run->retry_after_ms = call->reply != NULL ? call->reply->retry_after_ms : -1;
		mw_frame_note(run);
		PG_RE_THROW();
	}
	PG_END_TRY();

	add_cost(run, call);
	/* those of a call that failed are not settled */
	for (int i = 0; i < MW_NSTAGES; i++)
		run->stage_us[i] += call->stage_us[i];
	count_answer(run, call);
	add_usage(run, &call->failed_usage);
	if (call->cache != MW_CACHE_HIT && call->cache != MW_CACHE_SHARED)
		add_usage(run, &call->answer->usage);
	if (strcmp(req->purpose, "model") == 0)
	{
		run->cache = call->cache;
		run->model = pstrdup(call->model);
		if (call->ended_by != NULL)
			run->ended_by = pstrdup(call->ended_by);
	}
	{
		ListCell   *lc;

		foreach(lc, call->notices)
			run->notices = lappend(run->notices, pstrdup(lfirst(lc)));
	}
	used = mw_answer_used(call, &cost);
	if (call->replayed)
		add_replayed(run, &used, cost);
	msg = mw_msg_of_answer(run, call->answer);
	/* as its provider reported it, whether that is paid for now or was before (LangChain's usage_metadata) */
	if (!used.estimated)
	{
		StringInfoData usage;

		initStringInfo(&usage);
		appendStringInfo(&usage, "{\"input_tokens\": " INT64_FORMAT ", \"output_tokens\": " INT64_FORMAT ", \"total_tokens\": " INT64_FORMAT "}",
						 used.input_tokens, used.output_tokens, used.input_tokens + used.output_tokens);
		msg = mw_msg_with_metadata(run, msg, "usage", mw_json_parse(usage.data, usage.len, NULL));
	}
	/* arguments and texts of the answer lie in the call's memory */
	msg = mw_msg_kept(msg->json);
	msg->answered = true;
	mw_trace_cost(run, traced, &call->answer->usage, call->cost, !call->unpriced);
	mw_trace_end(run, traced, req->messages != NIL ? ((MwMsg *) llast(req->messages))->json : NULL, msg->json);
	MemoryContextDelete(call->cxt);
	MemoryContextSwitchTo(old);
	return msg;
}

MwMsg *
mw_model_ask(MwRun *run, const MwModelRequest *req)
{
	const MwMiddleware *outer = run->at;
	MwMsg	   *msg;

	run->at = NULL;
	msg = execute(run, req);
	run->at = outer;
	return msg;
}

/* ---------- the middlewares around it ---------- */

MwModelResponse *
mw_next_model(MwRun *run, int level, const MwModelRequest *req)
{
	const MwMiddleware *outer = run->at;
	MwModelResponse *resp;
	int			i = level;

	mw_frame_check(run);
	while (i < run->agent->nmiddleware && run->agent->middleware[i]->kind->wrap_model == NULL)
		i++;
	if (i < run->agent->nmiddleware)
	{
		MwMiddleware *m = run->agent->middleware[i];

		int			traced = mw_trace_begin(run, "wrap", psprintf("wrap_model_call of %s%s", m->name, mw_reveal_word(m)));

		run->at = m;
		resp = m->kind->wrap_model(run, m, req, i + 1);
		mw_trace_end(run, traced, NULL, NULL);
	}
	else
	{
		run->at = NULL;
		resp = mw_structured_response(run, req, execute(run, mw_structured_request(run, req)));
	}
	run->at = outer;
	return resp;
}

/*
 * A malformed tool call is answered before the model is asked again, in the
 * request and in the thread, right after the message that made it.
 */
static List *
repaired(MwRun *run)
{
	List	   *msgs = NIL;
	ListCell   *lc;
	bool		any = false;

	foreach(lc, run->msgs)
	{
		MwMsg	   *msg = lfirst(lc);

		msgs = lappend(msgs, msg);
		for (int i = 0; i < msg->ninvalid; i++)
		{
			MwToolCall *call = &msg->invalid[i];
			ListCell   *at;
			bool		answered = false;

			foreach(at, run->msgs)
			{
				MwMsg	   *other = lfirst(at);

				answered |= other->tool_call_id != NULL && strcmp(other->tool_call_id, call->id) == 0;
			}
			if (answered)
				continue;
			any = true;
			msgs = lappend(msgs, mw_msg_tool(run, call,
											 psprintf("Tool call %s with id %s could not be executed - arguments were malformed or truncated.",
													  call->name, call->id), true));
		}
	}
	return any ? msgs : run->msgs;
}

MwModelRequest *
mw_first_request(MwRun *run, List *messages)
{
	MwModelRequest *req = palloc0(sizeof(MwModelRequest));

	req->model = run->first_model;
	req->model_settings = run->first_settings;
	req->system_prompt = run->agent->system_prompt;
	req->messages = messages;
	req->tools = run->offered;
	req->format = run->format;
	req->purpose = "model";
	return req;
}

void
mw_model_node(MwRun *run, MwNodeResult *result)
{
	List	   *msgs = repaired(run);
	MwModelResponse *resp;
	ListCell   *lc;

	run->structured = NULL;
	run->ended_by = NULL;
	resp = mw_next_model(run, 0, mw_first_request(run, msgs));

	if (msgs != run->msgs)
	{
		mw_patch_remove_all(&result->patch);
		foreach(lc, msgs)
			mw_patch_put(&result->patch, lfirst(lc));
	}
	foreach(lc, resp->messages)
		mw_patch_put(&result->patch, lfirst(lc));
	result->structured = resp->structured;
	result->updates = resp->updates;
}
