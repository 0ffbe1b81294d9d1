/*
 * hook_model.c - wrap_model_call of users: requests and responses as jsonb.
 *
 * What the hook is given is built here from ours, and what it passes to mw_next
 * or returns is checked here and nowhere else.  A hook that hands its request
 * on unchanged is the common case: where the bytes that it was given come back,
 * the lists behind them are used again.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "agent/hooks.h"
#include "agent/values.h"
#include "agent/run.h"
#include "util/json.h"
#include "util/json_push.h"

/* ---------- requests ---------- */

static Jsonb *
tools_json(List *tools)
{
	JsonbValue *values = palloc(sizeof(JsonbValue) * Max(list_length(tools), 1));
	ListCell   *lc;
	int			n = 0;

	foreach(lc, tools)
		values[n++] = mw_json_value(mw_hook_tool_json(lfirst(lc)));
	return mw_json_pack_array(values, n);
}

Jsonb *
mw_hook_request_json(MwRun *run, const MwModelRequest *req)
{
	MwJsonMember m[8];
	int			n = 0;

	m[n++] = mw_json_member("model", mw_json_text(req->model));
	if (req->system_prompt != NULL)
		m[n++] = mw_json_member("system_prompt", mw_json_text(req->system_prompt));
	m[n++] = mw_json_member("messages", mw_json_value(mw_msgs_json(req->messages)));
	m[n++] = mw_json_member("tools", mw_json_value(tools_json(req->tools)));
	if (req->tool_choice != NULL)
		m[n++] = mw_json_member("tool_choice", *req->tool_choice);
	if (run->agent->response_format != NULL && req->format != NULL)
		m[n++] = mw_json_member("response_format", mw_json_value(run->agent->response_format));
	if (req->model_settings != NULL)
		m[n++] = mw_json_member("model_settings", mw_json_value(req->model_settings));
	m[n++] = mw_json_member("state", mw_json_value(mw_state_json(run)));
	return mw_json_pack_object(m, n);
}

static bool
same_json(Jsonb *a, Jsonb *b)
{
	return VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0;
}

/* The messages that a hook asks for: those it was given where they are the same ones */
static List *
read_messages(MwRun *run, JsonbValue *value, List *given, const char *who)
{
	List	   *msgs = NIL;
	MwJsonEach	each;
	ListCell   *at = list_head(given);

	if (!mw_value_is_array(value))
		bad_hook(who, "The messages of its request are no array.");
	each = mw_json_each(value->val.binary.data);
	while (mw_json_next(&each))
	{
		Jsonb	   *json = JsonbValueToJsonb(&each.value);
		MwMsg	   *known = NULL;

		for (ListCell *lc = at; lc != NULL; lc = lnext(given, lc))
		{
			MwMsg	   *msg = lfirst(lc);

			if (same_json(msg->json, json))
			{
				known = msg;
				at = lnext(given, lc);
				break;
			}
		}
		msgs = lappend(msgs, known != NULL ? known : mw_run_redacted(run, mw_msg_read(run, json, who)));
	}
	return msgs;
}

static List *
read_tools(MwRun *run, JsonbValue *value, const char *who)
{
	List	   *tools = NIL;
	MwJsonEach	each;

	if (!mw_value_is_array(value))
		bad_hook(who, "The tools of its request are no array.");
	each = mw_json_each(value->val.binary.data);
	while (mw_json_next(&each))
	{
		char	   *name = NULL;
		MwTool	   *tool;

		if (each.value.type == jbvString)
			name = mw_value_string(&each.value);
		else if (each.value.type == jbvBinary)
			name = mw_json_get_text(JsonbValueToJsonb(&each.value), "name");
		if (name == NULL)
			bad_hook(who, "A tool of its request has no name.");
		tool = mw_run_tool(run, name);
		if (tool == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_HOOK_FAILED),
					 errmsg("%s added the tool \"%s\", which the agent does not have", who, name),
					 errhint("List it among the agent's tools, or among those of the middleware: {\"type\": \"custom\", \"tools\": [\"%s\"], ...}.", name)));
		tools = lappend(tools, tool);
	}
	return tools;
}

/* LangChain's short forms: the name of a tool, and "any" */
static JsonbValue *
tool_choice(const MwModelRequest *req, JsonbValue *v)
{
	char	   *word;
	ListCell   *lc;

	if (v == NULL || v->type != jbvString)
		return v;
	word = mw_value_string(v);
	foreach(lc, req->tools)
	{
		JsonbParseState *st = NULL;

		if (strcmp(((MwTool *) lfirst(lc))->name, word) != 0)
			continue;
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "type", "function");
		push_key(&st, "function");
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "name", word);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
		v = palloc(sizeof(JsonbValue));
		*v = mw_json_value(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
		return v;
	}
	if (strcmp(word, "any") == 0)
	{
		v->val.string.val = pstrdup("required");
		v->val.string.len = strlen("required");
	}
	return v;
}

static MwModelRequest *
read_request(MwRun *run, const MwModelRequest *given, Jsonb *json, const char *who)
{
	static const char *const known[] = {
		"messages", "model", "model_settings", "response_format", "state", "system_message", "system_prompt", "tool_choice", "tools", NULL
	};
	MwModelRequest *req = mw_request_copy(given);
	JsonbValue *v;
	char	   *model;

	if (!mw_json_is_object(json))
		bad_hook(who, "The request that it passes to mw_next is no object.");
	mw_json_check_keys(json, "member", "a request", known);

	v = mw_json_get(json, "model");
	if (v != NULL && v->type == jbvBinary)
	{
		Jsonb	   *both = JsonbValueToJsonb(v);

		model = mw_json_get_text(both, "model");
		req->model_settings = mw_json_get_jsonb(both, "model_settings");
	}
	else
	{
		model = mw_json_get_text(json, "model");
		req->model_settings = mw_json_get_jsonb(json, "model_settings");
	}
	if (model == NULL)
		bad_hook(who, "The request that it passes to mw_next names no model.");
	req->model = mw_run_model(run, model);
	req->system_prompt = mw_json_get_text(json, "system_prompt");
	if (req->system_prompt == NULL)
		req->system_prompt = mw_json_get_text(json, "system_message");

	v = mw_json_get(json, "messages");
	if (v != NULL)
	{
		Jsonb	   *now = JsonbValueToJsonb(v);

		if (!same_json(now, mw_msgs_json(given->messages)))
			req->messages = read_messages(run, v, given->messages, who);
	}
	else
		req->messages = NIL;
	v = mw_json_get(json, "tools");
	if (v == NULL)
		req->tools = NIL;
	else if (!same_json(JsonbValueToJsonb(v), tools_json(given->tools)))
		req->tools = read_tools(run, v, who);
	req->tool_choice = tool_choice(req, mw_json_get(json, "tool_choice"));
	if (mw_json_get(json, "response_format") == NULL)
		req->format = NULL;
	return req;
}

/* ---------- responses ---------- */

static Jsonb *
response_json(const MwModelResponse *resp)
{
	MwJsonMember m[2];
	int			n = 0;

	m[n++] = mw_json_member("result", mw_json_value(mw_msgs_json(resp->messages)));
	if (resp->structured != NULL)
		m[n++] = mw_json_member("structured_response", mw_json_value(resp->structured));
	return mw_json_pack_object(m, n);
}

/* {"result": [...], "structured_response", "update"}, or a bare message */
static MwModelResponse *
read_response(MwRun *run, Jsonb *json, List *inner_updates, const char *who)
{
	static const char *const known[] = {"result", "structured_response", "update", NULL};
	MwModelResponse *resp = palloc0(sizeof(MwModelResponse));
	JsonbValue *v;
	Jsonb	   *update;

	if (!mw_json_is_object(json))
		bad_hook(who, "It is neither {\"result\": [message, ...]} nor a message.");
	resp->updates = list_copy(inner_updates);
	if (mw_json_get(json, "role") != NULL)
	{
		resp->messages = list_make1(mw_run_redacted(run, mw_msg_read(run, json, who)));
		return resp;
	}
	mw_json_check_keys(json, "member", "a response", known);
	v = mw_json_get(json, "result");
	if (v == NULL || v->type != jbvBinary)
		bad_hook(who, "Its result is missing.");
	if (JsonContainerIsObject(v->val.binary.data))
		resp->messages = list_make1(mw_run_redacted(run, mw_msg_read(run, JsonbValueToJsonb(v), who)));
	else
		resp->messages = read_messages(run, v, NIL, who);
	if (mw_response_answer(resp) == NULL)
		bad_hook(who, "Its result holds no message of the assistant's.");
	resp->structured = mw_json_value_jsonb(mw_json_get(json, "structured_response"));
	update = mw_json_get_jsonb(json, "update");
	if (update != NULL)
		resp->updates = lappend(resp->updates, update);
	return resp;
}

/* ---------- the hook ---------- */

Jsonb *
mw_hook_next_model(MwFrame *frame, Jsonb *request)
{
	MwRun	   *run = frame->run;
	MwModelRequest *req = read_request(run, frame->model_request, mw_reveal_hide(run, frame->reveal, request), "a wrap_model_call hook");
	MwModelResponse *resp;

	frame->updates = NIL;
	resp = mw_next_model(run, frame->level, req);
	frame->updates = resp->updates;
	return mw_reveal_show(run, frame->reveal, response_json(resp));
}

MwModelResponse *
mw_hook_wrap_model(MwRun *run, MwMiddleware *m, const char *signature, const MwModelRequest *req, int level)
{
	MwFrame		frame;
	Jsonb	   *result;

	mw_frame_push(&frame, run, MW_FRAME_MODEL);
	frame.level = level;
	frame.model_request = req;
	frame.reveal = m->reveal;
	result = mw_hook_call(run, &frame, signature, m->name, "wrap_model_call", mw_hook_request_json(run, req));
	return read_response(run, result, frame.updates, psprintf("hook wrap_model_call of middleware \"%s\"", m->name));
}
