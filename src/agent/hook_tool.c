/*
 * hook_tool.c - wrap_tool_call of users: requests and responses as jsonb.
 *
 * A tool call and its result, as a hook sees and changes them.  Which call it is
 * that a result answers is not the hook's to change.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "agent/hooks.h"
#include "agent/values.h"
#include "agent/run.h"
#include "util/json.h"
#include "util/json_push.h"

/* ---------- requests ---------- */

Jsonb *
mw_hook_tool_json(const MwTool *tool)
{
	MwJsonMember m[3];
	int			n = 0;

	m[n++] = mw_json_member("name", mw_json_text(tool->name));
	if (tool->description != NULL)
		m[n++] = mw_json_member("description", mw_json_text(tool->description));
	m[n++] = mw_json_member("parameters", mw_json_value(tool->parameters));
	return mw_json_pack_object(m, n);
}

static Jsonb *
tool_request_json(MwRun *run, const MwToolRequest *req)
{
	MwJsonMember call[3] = {
		mw_json_member("id", mw_json_text(req->call->id)),
		mw_json_member("name", mw_json_text(req->call->name)),
		mw_json_member("args", mw_json_value(req->call->args)),
	};
	MwJsonMember m[3];
	int			n = 0;

	m[n++] = mw_json_member("tool_call", mw_json_value(mw_json_pack_object(call, lengthof(call))));
	if (req->tool != NULL)
		m[n++] = mw_json_member("tool", mw_json_value(mw_hook_tool_json(req->tool)));
	m[n++] = mw_json_member("state", mw_json_value(mw_state_json(run)));
	return mw_json_pack_object(m, n);
}

static MwToolRequest *
read_tool_request(MwRun *run, const MwToolRequest *given, Jsonb *json, const char *who)
{
	static const char *const known[] = {"state", "tool", "tool_call", NULL};
	MwToolRequest *req = palloc0(sizeof(MwToolRequest));
	Jsonb	   *call;

	if (!mw_json_is_object(json))
		bad_hook(who, "The request that it passes to mw_next is no object.");
	mw_json_check_keys(json, "member", "a request", known);
	call = mw_json_get_jsonb(json, "tool_call");
	if (call == NULL || !mw_json_is_object(call) || mw_json_get_text(call, "name") == NULL)
		bad_hook(who, "The request that it passes to mw_next has no tool_call.");
	req->call = palloc0(sizeof(MwToolCall));
	req->call->id = given->call->id;	/* what it answers is not the hook's to change */
	req->call->name = mw_json_get_text(call, "name");
	req->call->args = mw_json_get_jsonb(call, "args");
	if (req->call->args == NULL)
		req->call->args = mw_json_parse("{}", 2, NULL);
	if (!mw_json_is_object(req->call->args))
		bad_hook(who, "The arguments of its tool_call are no object.");
	req->tool = strcmp(req->call->name, given->call->name) == 0 ? given->tool : mw_run_tool(run, req->call->name);
	return req;
}

/* ---------- responses ---------- */

/* A message of the tool's; what says whose it is may be left out */
static MwToolResponse *
read_tool_response(MwRun *run, const MwToolCall *call, Jsonb *json, Jsonb *inner_update, const char *who)
{
	MwToolResponse *resp = palloc0(sizeof(MwToolResponse));
	JsonbParseState *st = NULL;
	MwJsonEach	each;
	bool		has_name = false;

	resp->update = inner_update;
	if (json != NULL && JB_ROOT_IS_SCALAR(json))
	{
		JsonbValue *only = getIthJsonbValueFromContainer(&json->root, 0);

		if (only->type == jbvString)
		{
			resp->msg = mw_run_redacted(run, mw_msg_tool(run, call, mw_value_string(only), false));
			return resp;
		}
	}
	if (!mw_json_is_object(json))
		bad_hook(who, "It is no message of a tool.");

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "role", "tool");
	push_member(&st, "tool_call_id", call->id);
	each = mw_json_each(&json->root);
	while (mw_json_next(&each))
	{
		char	   *name = mw_value_string(&each.key);

		if (strcmp(name, "update") == 0)
			resp->update = mw_json_value_jsonb(&each.value);
		else if (strcmp(name, "role") != 0 && strcmp(name, "tool_call_id") != 0 && each.value.type != jbvNull)
		{
			has_name |= strcmp(name, "name") == 0;
			pushJsonbValue(&st, WJB_KEY, &each.key);
			pushJsonbValue(&st, WJB_VALUE, &each.value);
		}
	}
	if (!has_name)
		push_member(&st, "name", call->name);
	resp->msg = mw_run_redacted(run, mw_msg_read(run, JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)), who));
	return resp;
}

/* ---------- the hook ---------- */

Jsonb *
mw_hook_next_tool(MwFrame *frame, Jsonb *request)
{
	MwRun	   *run = frame->run;
	MwToolRequest *req = read_tool_request(run, frame->tool_request, mw_reveal_hide(run, frame->reveal, request), "a wrap_tool_call hook");
	MwToolResponse *resp;

	frame->update = NULL;
	resp = mw_next_tool(run, frame->level, req);
	frame->update = resp->update;
	return mw_reveal_show(run, frame->reveal, resp->msg->json);
}

MwToolResponse *
mw_hook_wrap_tool(MwRun *run, MwMiddleware *m, const char *signature, const MwToolRequest *req, int level)
{
	MwFrame		frame;
	Jsonb	   *result;

	mw_frame_push(&frame, run, MW_FRAME_TOOL);
	frame.level = level;
	frame.tool_request = req;
	frame.reveal = m->reveal;
	result = mw_hook_call(run, &frame, signature, m->name, "wrap_tool_call", tool_request_json(run, req));
	return read_tool_response(run, req->call, result, frame.update, psprintf("hook wrap_tool_call of middleware \"%s\"", m->name));
}
