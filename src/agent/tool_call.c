/*
 * tool_call.c - tools by hand: what a model is told of one, and a call of it.
 *
 * For whoever writes a tool and wants to know what it does before a model calls
 * it, and for tests of tools: the same look-up, checks, limits and rights as in a
 * run.
 */
#include "mw.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "agent/tool.h"
#include "policy/admin.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/json_push.h"

PG_FUNCTION_INFO_V1(mw_describe_tool);
PG_FUNCTION_INFO_V1(mw_call_tool);

/* A tool that the caller may use for the tenant; MW101, MW001 */
static MwTool *
find(const char *tenant, const char *name)
{
	MwTool	   *tool;
	StringInfoData names;
	ListCell   *lc;

	mw_require_may_act(tenant);
	tool = mw_tool_find(tenant, name);
	if (tool)
		return tool;
	initStringInfo(&names);
	foreach(lc, mw_tool_names(tenant))
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", (char *) lfirst(lc));
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("tool \"%s\" does not exist", name),
			names.len > 0 ? errhint("There are: %s.", names.data) :
			errhint("An administrator types: SELECT mw_create_tool(%s, 'schema.function');", quote_literal_cstr(name)));
}

Datum
mw_describe_tool(PG_FUNCTION_ARGS)
{
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	MwTool	   *tool = find(tenant, mw_arg_text(fcinfo, 1, "tool"));
	Jsonb	   *schemas = mw_tools_schemas(list_make1(tool));

	PG_RETURN_JSONB_P(mw_json_value_jsonb(getIthJsonbValueFromContainer(&schemas->root, 0)));
}

/* As much of a run as a tool needs: who it is for, and under which rules */
static MwRun *
bare_run(const char *tenant)
{
	MwRun	   *run = palloc0(sizeof(MwRun));
	MwCall	   *base = palloc0(sizeof(MwCall));

	base->cxt = run->cxt = CurrentMemoryContext;
	base->tenant = run->tenant = tenant;
	base->policy = mw_policy_get(tenant);
	base->redact = base->policy->redact;
	base->guardrail = base->policy->guardrail;
	base->purpose = "model";
	base->cache_mode = "off";
	run->base = base;
	mw_pii_map_init(&run->map, run->cxt);
	return run;
}

Datum
mw_call_tool(PG_FUNCTION_ARGS)
{
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	MwTool	   *tool = find(tenant, mw_arg_text(fcinfo, 1, "tool"));
	Jsonb	   *args = mw_arg_object(fcinfo, 2, "args");
	MwToolOutcome *outcome;
	JsonbParseState *st = NULL;

	mw_call_enter(tenant);
	outcome = mw_tool_outcome(bare_run(tenant), tool, args);
	mw_call_leave();

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	if (outcome->parts != NULL)
		push_json(&st, "content", outcome->parts);
	else
		push_member(&st, "content", outcome->content);
	push_member(&st, "status", outcome->failed ? "error" : "success");
	if (outcome->update)
	{
		push_key(&st, "update");
		mw_push_jsonb(&st, WJB_VALUE, outcome->update);
	}
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
}
