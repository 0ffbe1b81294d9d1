/*
 * run_tools.c - which tools and which model a run has.
 *
 * An agent's tools are looked up when a run begins, as the caller may use them;
 * those of its middlewares come first, as in LangChain's requests.  A caller
 * narrows the list and adds nothing; without an agent the list is his own.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "agent/run.h"
#include "util/json.h"

/* ---------- tools ---------- */

MwTool *
mw_tools_find(List *tools, const char *name)
{
	ListCell   *lc;

	foreach(lc, tools)
	{
		MwTool	   *tool = lfirst(lc);

		if (strcmp(tool->name, name) == 0)
			return tool;
	}
	return NULL;
}

char *
mw_tools_list(List *tools)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, tools)
		appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "", ((MwTool *) lfirst(lc))->name);
	return buf.data;
}

MwTool *
mw_run_tool(MwRun *run, const char *name)
{
	return mw_tools_find(run->tools, name);
}

static _Noreturn void
no_such_tool(const char *tenant, const char *name)
{
	List	   *known = mw_tool_names(tenant);
	StringInfoData names;
	ListCell   *lc;

	initStringInfo(&names);
	foreach(lc, known)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", (char *) lfirst(lc));
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("there is no tool \"%s\"", name),
			 names.len > 0 ? errhint("Tools that can be named here: %s.", names.data) :
			 errhint("SELECT mw_create_tool(%s, 'schema.function');", quote_literal_cstr(name))));
}

/* A tool of a list: a name, or an OpenAI-style schema that the application executes */
static MwTool *
tool_of_item(MwRun *run, JsonbValue *item, int n)
{
	MwTool	   *tool;

	if (item->type == jbvString)
	{
		char	   *name = mw_value_string(item);

		tool = mw_tool_find(run->tenant, name);
		if (tool == NULL)
			no_such_tool(run->tenant, name);
		return tool;
	}
	if (item->type != jbvBinary)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("tool %d is neither a name nor a schema", n + 1)));
	return mw_tool_client(JsonbValueToJsonb(item));
}

static List *
tools_of_list(MwRun *run, Jsonb *list)
{
	List	   *tools = NIL;
	MwJsonEach	each;

	if (list == NULL)
		return NIL;
	if (!mw_json_is_array(list))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("tools must be a JSON array"),
				 errhint("Such as '[\"lookup_invoice\"]', or a list of OpenAI-style schemas.")));
	each = mw_json_each(&list->root);
	while (mw_json_next(&each))
		tools = lappend(tools, tool_of_item(run, &each.value, list_length(tools)));
	return tools;
}

/* With an agent, the caller's tools narrow the list */
static bool
is_named(Jsonb *names, const char *name)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, name);
	v.val.string.len = strlen(name);
	return findJsonbValueFromContainer(&names->root, JB_FARRAY, &v) != NULL;
}

static void
check_narrowing(MwRun *run, List *own)
{
	Jsonb	   *names = run->args->tools;
	MwJsonEach	each;

	if (!mw_json_is_array(names))
		ereport(ERROR, (errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("tools must be a JSON array")));
	each = mw_json_each(&names->root);
	while (mw_json_next(&each))
	{
		char	   *name = each.value.type == jbvString ? mw_value_string(&each.value) : NULL;
		ListCell   *lc;
		bool		found = false;

		foreach(lc, own)
			found |= name != NULL && strcmp(((MwTool *) lfirst(lc))->name, name) == 0;
		if (!found)
			ereport(ERROR,
					(errcode(ERRCODE_MW_TOOL_REFUSED),
					 name != NULL ?
					 errmsg("agent \"%s\" has no tool \"%s\"", run->agent->name, name) :
					 errmsg("the tools of a call with an agent are names"),
					 errhint("With an agent, tools narrows the agent's own list.")));
	}
}

void
mw_run_find_tools(MwRun *run)
{
	List	   *own = NIL;
	List	   *brought = NIL;
	ListCell   *lc;

	if (run->agent->name == NULL)
		own = tools_of_list(run, run->args->tools);
	else
	{
		own = tools_of_list(run, run->agent->tools);
		if (run->args->tools != NULL)
			check_narrowing(run, own);
	}
	for (int i = 0; i < run->agent->nmiddleware; i++)
	{
		MwMiddleware *m = run->agent->middleware[i];

		if (m->kind->tools != NULL)
			brought = list_concat(brought, m->kind->tools(m));
	}
	/* those of middlewares come first, as in LangChain's requests */
	run->tools = brought;
	foreach(lc, own)
	{
		MwTool	   *tool = lfirst(lc);

		if (run->agent->name != NULL && run->args->tools != NULL && !is_named(run->args->tools, tool->name))
			continue;
		if (mw_run_tool(run, tool->name) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("there are two tools with the name \"%s\"", tool->name)));
		run->tools = lappend(run->tools, tool);
	}
	run->offered = list_copy(run->tools);
}

/* ---------- models ---------- */

const char *
mw_run_model(MwRun *run, const char *given)
{
	const char *colon = strchr(run->first_model, ':');

	/* a bare name is another model of the same server */
	if (strchr(given, ':') != NULL || colon == NULL)
		return given;
	return psprintf("%.*s:%s", (int) (colon - run->first_model), run->first_model, given);
}

void
mw_run_choose_model(MwRun *run)
{
	const MwAgent *agent = run->agent;
	const char *model = agent->model;

	if (run->args->model != NULL)
	{
		ListCell   *lc;
		bool		allowed = agent->name == NULL;

		model = run->args->model;
		foreach(lc, agent->allow_model)
			allowed |= strcmp(lfirst(lc), model) == 0 || strcmp(lfirst(lc), "*") == 0;
		if (!allowed && (agent->model == NULL || strcmp(agent->model, model) != 0))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("agent \"%s\" does not let its caller choose the model \"%s\"", agent->name, model),
					 errhint("SELECT mw_alter_agent(%s, '{\"allow_model\": [\"%s\"]}');", quote_literal_cstr(agent->name), model)));
	}
	run->first_model = mw_model_choose(run->base, model, &run->first_settings);
	if (run->first_model == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("no model is named"),
				 errdetail("Neither the call, its agent, the tenant's settings nor mw.default_model names one."),
				 errhint("Name it in the call, model => 'server:model', or in the agent's \"model\".")));
	if (agent->model_settings != NULL)
		run->first_settings = run->first_settings == NULL ? agent->model_settings :
			DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(agent->model_settings), JsonbPGetDatum(run->first_settings)));
}
