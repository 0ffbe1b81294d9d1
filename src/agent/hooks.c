/*
 * hooks.c - the middleware of users: six hooks that are SQL functions.
 *
 * Type "custom": which functions it has, what state and tools it brings.  How a
 * function is called and what it may change stands in hook_call.c, what wrap
 * hooks see in hook_model.c and hook_tool.c.
 */
#include "mw.h"

#include "agent/hooks.h"
#include "agent/registry.h"
#include "agent/run.h"
#include "agent/thread.h"
#include "policy/userfunc.h"
#include "util/json.h"

typedef enum Hook
{
	BEFORE_AGENT, BEFORE_MODEL, AFTER_MODEL, AFTER_AGENT, WRAP_MODEL_CALL, WRAP_TOOL_CALL, NHOOKS
} Hook;

static const char *const hook_names[NHOOKS + 1] = {
	"before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call", NULL
};

typedef struct Custom
{
	char	   *signature[NHOOKS];	/* NULL: it has no such hook */
	List	   *can_jump_to;	/* of char * */
	List	   *tool_names;
	List	   *fields;
} Custom;

/* ---------- hooks ---------- */

static MwPatch *
node_hook(MwRun *run, MwMiddleware *m, Hook hook)
{
	Custom	   *c = m->conf;
	MwFrame		frame;
	Jsonb	   *result;
	MwPatch    *patch;

	mw_frame_push(&frame, run, MW_FRAME_PLAIN);
	frame.reveal = m->reveal;
	result = mw_hook_call(run, &frame, c->signature[hook], m->name, hook_names[hook], mw_state_json(run));
	patch = mw_patch_read(run, result, psprintf("hook %s of middleware \"%s\"", hook_names[hook], m->name), c->can_jump_to);
	if (patch != NULL && m->reveal != NULL)
		patch->fields = mw_run_redacted_json(run, patch->fields);
	return patch;
}

static MwPatch *
before_agent(MwRun *run, MwMiddleware *m)
{
	return node_hook(run, m, BEFORE_AGENT);
}

static MwPatch *
before_model(MwRun *run, MwMiddleware *m)
{
	return node_hook(run, m, BEFORE_MODEL);
}

static MwPatch *
after_model(MwRun *run, MwMiddleware *m)
{
	return node_hook(run, m, AFTER_MODEL);
}

static MwPatch *
after_agent(MwRun *run, MwMiddleware *m)
{
	return node_hook(run, m, AFTER_AGENT);
}

static MwModelResponse *
wrap_model(MwRun *run, MwMiddleware *m, const MwModelRequest *req, int level)
{
	return mw_hook_wrap_model(run, m, ((Custom *) m->conf)->signature[WRAP_MODEL_CALL], req, level);
}

static MwToolResponse *
wrap_tool(MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level)
{
	return mw_hook_wrap_tool(run, m, ((Custom *) m->conf)->signature[WRAP_TOOL_CALL], req, level);
}

/* ---------- the middleware type ---------- */

static const char *const custom_options[] = {"can_jump_to", "hooks", "state", "tools", NULL};
static const char *const jumps[] = {"end", "model", "tools", NULL};

/* A type of its own, with the hooks that it has: what is not there is not called, and no step of a trace */
static void
keep_own_hooks(MwMiddleware *m)
{
	Custom	   *c = m->conf;
	MwMiddlewareType *own = palloc(sizeof(MwMiddlewareType));

	*own = *m->kind;
	if (c->signature[BEFORE_AGENT] == NULL)
		own->before_agent = NULL;
	if (c->signature[BEFORE_MODEL] == NULL)
		own->before_model = NULL;
	if (c->signature[AFTER_MODEL] == NULL)
		own->after_model = NULL;
	if (c->signature[AFTER_AGENT] == NULL)
		own->after_agent = NULL;
	if (c->signature[WRAP_MODEL_CALL] == NULL)
		own->wrap_model = NULL;
	if (c->signature[WRAP_TOOL_CALL] == NULL)
		own->wrap_tool = NULL;
	m->kind = own;
}

static void
custom_read(MwMiddleware *m, Jsonb *options)
{
	Custom	   *c = palloc0(sizeof(Custom));
	Jsonb	   *hooks = mw_json_get_jsonb(options, "hooks");
	ListCell   *lc;

	m->conf = c;
	if (m->name == m->kind->type)
		mw_opt_wrong(m, "name", "given: LangChain takes it from the class");
	c->tool_names = mw_opt_texts(m, options, "tools");
	if (hooks == NULL ? c->tool_names == NIL && mw_json_get(options, "state") == NULL : !mw_json_is_object(hooks))
		mw_opt_wrong(m, "hooks", "an object, such as {\"before_model\": \"schema.function\"}");
	if (hooks != NULL)
		mw_json_check_keys(hooks, "hook", "a middleware", hook_names);
	for (int i = 0; i < NHOOKS; i++)
	{
		char	   *name = mw_json_get_text(hooks, hook_names[i]);

		if (name != NULL)
			c->signature[i] = mw_userfunc_hook(name, psprintf("hook %s of middleware \"%s\"", hook_names[i], m->name));
		else if (mw_json_get(hooks, hook_names[i]) != NULL)
			mw_opt_wrong(m, hook_names[i], "the name of a function");
	}
	c->can_jump_to = mw_opt_texts(m, options, "can_jump_to");
	foreach(lc, c->can_jump_to)
	{
		bool		known = false;

		for (int i = 0; jumps[i]; i++)
			known |= strcmp(lfirst(lc), jumps[i]) == 0;
		if (!known)
			mw_opt_wrong(m, "can_jump_to", "a list of end, model and tools");
	}
	c->fields = mw_fields_read(mw_json_get_jsonb(options, "state"), m->name);
	keep_own_hooks(m);
}

/* Each with its function */
static List *
custom_hooks(MwMiddleware *m)
{
	Custom	   *c = m->conf;
	List	   *hooks = NIL;

	for (int i = 0; i < NHOOKS; i++)
		if (c->signature[i] != NULL)
			hooks = lappend(hooks, psprintf("%s: %s", hook_names[i], c->signature[i]));
	return hooks;
}

static List *
custom_fields(MwMiddleware *m)
{
	return ((Custom *) m->conf)->fields;
}

static List *
custom_tools(MwMiddleware *m)
{
	List	   *tools = NIL;
	ListCell   *lc;

	foreach(lc, ((Custom *) m->conf)->tool_names)
	{
		MwTool	   *tool = mw_tool_find(m->tenant, lfirst(lc));

		if (tool == NULL)
			mw_opt_wrong(m, "tools", psprintf("a list of registered tools, and \"%s\" is none: SELECT mw_create_tool(...)", (char *) lfirst(lc)));
		tools = lappend(tools, tool);
	}
	return tools;
}

const MwMiddlewareType mw_custom = {
	.type = "custom", .options = custom_options,
	.read = custom_read, .fields = custom_fields, .tools = custom_tools, .hooks_of = custom_hooks,
	.before_agent = before_agent, .before_model = before_model, .after_model = after_model, .after_agent = after_agent,
	.wrap_model = wrap_model, .wrap_tool = wrap_tool,
};
