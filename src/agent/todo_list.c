/*
 * todo_list.c - the middleware that gives a model a list of tasks to keep.
 *
 * The list is the state field "todos"; the tool write_todos replaces it whole.
 * So two calls in one message would contradict each other: they are answered
 * with an error, and the model is asked again.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "agent/agent.h"
#include "agent/registry.h"
#include "agent/texts.h"
#include "util/json.h"
#include "util/json_push.h"

#define TOOL_NAME "write_todos"

typedef struct TodoList
{
	const char *prompt;
	const char *description;
} TodoList;

static const char *const option_names[] = {"system_prompt", "tool_description", NULL};

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	TodoList   *c = palloc0(sizeof(TodoList));

	m->conf = c;
	c->prompt = mw_opt_text(m, options, "system_prompt", mw_text_todo_system_prompt);
	c->description = mw_opt_text(m, options, "tool_description", mw_text_todo_tool_description);
}

static List *
fields(MwMiddleware *m)
{
	MwField    *field = palloc0(sizeof(MwField));

	field->name = "todos";
	field->owner = m->name;
	field->no_input = true;
	return list_make1(field);
}

static MwToolResponse *
write_todos(MwRun *run, const MwTool *tool, MwToolCall *call)
{
	MwToolResponse *resp = palloc0(sizeof(MwToolResponse));
	Jsonb	   *todos = mw_json_get_jsonb(call->args, "todos");
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "todos");
	pushJsonbValue(&st, WJB_VALUE, mw_json_get(call->args, "todos"));
	resp->update = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	resp->msg = mw_msg_tool(run, call, psprintf("Updated todo list to %s", mw_json_canonical(todos)), false);
	return resp;
}

static List *
tools(MwMiddleware *m)
{
	static const char parameters[] =
		"{\"type\": \"object\", \"required\": [\"todos\"], \"properties\": {\"todos\": {\"type\": \"array\", \"items\": "
		"{\"type\": \"object\", \"description\": \"One task and its state.\", \"required\": [\"content\", \"status\"], \"properties\": "
		"{\"content\": {\"type\": \"string\"}, \"status\": {\"type\": \"string\", \"enum\": [\"pending\", \"in_progress\", \"completed\"]}}}}}}";
	MwTool	   *tool = palloc0(sizeof(MwTool));

	tool->name = TOOL_NAME;
	tool->description = ((TodoList *) m->conf)->description;
	tool->parameters = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(parameters)));
	tool->kind = MW_TOOL_BUILTIN;
	tool->run = write_todos;
	tool->owner = m;
	return list_make1(tool);
}

static MwModelResponse *
wrap_model(MwRun *run, MwMiddleware *m, const MwModelRequest *req, int level)
{
	const TodoList *c = m->conf;
	MwModelRequest *more = mw_request_copy(req);

	more->system_prompt = req->system_prompt == NULL ? c->prompt : psprintf("%s\n\n%s", req->system_prompt, c->prompt);
	return mw_next_model(run, level, more);
}

static MwPatch *
after_model(MwRun *run, MwMiddleware *m)
{
	int			at = mw_msgs_last(run->msgs, "assistant");
	MwMsg	   *last = at < 0 ? NULL : list_nth(run->msgs, at);
	MwPatch    *patch;
	int			n = 0;

	for (int i = 0; last != NULL && i < last->ncalls; i++)
		n += strcmp(last->calls[i].name, TOOL_NAME) == 0;
	if (n < 2)
		return NULL;

	patch = mw_patch_new();
	for (int i = 0; i < last->ncalls; i++)
		if (strcmp(last->calls[i].name, TOOL_NAME) == 0)
			mw_patch_put(patch, mw_msg_tool(run, &last->calls[i],
											"Error: The `write_todos` tool should never be called multiple times in parallel. "
											"Please call it only once per model invocation to update the todo list.", true));
	return patch;
}

const MwMiddlewareType mw_todo_list = {
	.type = "todo_list",
	.options = option_names,
	.read = read_options,
	.fields = fields,
	.tools = tools,
	.wrap_model = wrap_model,
	.after_model = after_model,
};
