/*
 * tool_run.c - one call of a function that is a tool.
 *
 * In this order: placeholders become values (as far as the tool may see them),
 * the arguments are checked against the schema, and then, in a subtransaction, by
 * the caller's own role, without its search_path and settings, read-only unless
 * the tool writes, and within its time: conversion and the function itself.  What
 * comes back is cut to the tool's limits, redacted with the run's placeholders
 * and judged, in that order, before anybody sees it.
 *
 * The function is called by its OID through a plan of one expression: named
 * arguments and DEFAULTs are PostgreSQL's, no name is looked up again, and a set
 * is read row by row, so that a tool that returns without end is stopped at its
 * limit of rows.  Function and plans are kept (definitions.c), since to look it up
 * and to plan it costs more than most tools do.
 *
 * An ERROR undoes the subtransaction, and with it role, settings and snapshot;
 * it then goes on as it was raised.  Two are told apart: one of the conversion
 * means that the model was wrong, which it is told; a cancel that this tool's own
 * timer caused is an error of the tool's.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "agent/definitions.h"
#include "agent/tool.h"
#include "agent/values.h"
#include "policy/userfunc.h"
#include "util/json.h"

#define MAX_SHOWN 2000			/* bytes of arguments in an error */

/* ---------- calling it ---------- */

#define MAX_PLANS 16			/* of one function: models leave out the same arguments again */

/* The plan of a call with these arguments; it says nothing of their values */
typedef struct CallPlan
{
	Bitmapset  *given;
	PlannedStmt *plan;
} CallPlan;

void
mw_plan_run(PlannedStmt *plan, const char *text, ParamListInfo params, DestReceiver *dest, uint64 count)
{
	QueryDesc  *desc;

	PushActiveSnapshot(GetTransactionSnapshot());
	desc = CreateQueryDesc(plan, text, GetActiveSnapshot(), InvalidSnapshot, dest, params, NULL, 0);
	ExecutorStart(desc, 0);
	MW_EXECUTOR_RUN(desc, count);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	PopActiveSnapshot();
}

/* Values by place; those that are given */
static ParamListInfo
values_of(const MwTool *tool, const MwToolFunction *f, Jsonb *args, Bitmapset **given)
{
	ParamListInfo params = makeParamList(Max(1, f->nargs));
	Datum	   *values = palloc0(sizeof(Datum) * Max(1, f->nargs));
	bool	   *nulls = palloc0(sizeof(bool) * Max(1, f->nargs));
	bool	   *absent = palloc0(sizeof(bool) * Max(1, f->nargs));

	*given = NULL;
	if (tool->typed)
		mw_tool_values(f, args, values, nulls, absent);
	else
		values[0] = JsonbPGetDatum(args);
	for (int i = 0; i < f->nargs; i++)
	{
		if (absent[i])
			continue;
		*given = bms_add_member(*given, i);
		params->params[i] = (ParamExternData) {
			.value = values[i], .isnull = nulls[i], .pflags = PARAM_FLAG_CONST, .ptype = f->args[i].type
		};
	}
	return params;
}

/* SELECT f(…) */
static PlannedStmt *
plan_call(const MwTool *tool, const MwToolFunction *f, const Bitmapset *given, const char *text)
{
	List	   *args = NIL;
	FuncExpr   *expr;
	Query	   *query = makeNode(Query);

	for (int i = -1; (i = bms_next_member(given, i)) >= 0;)
	{
		Param	   *param = makeNode(Param);

		param->paramkind = PARAM_EXTERN;
		param->paramid = i + 1;
		param->paramtype = f->args[i].type;
		param->paramtypmod = -1;
		param->paramcollid = get_typcollation(f->args[i].type);
		param->location = -1;
		if (tool->typed)
		{
			NamedArgExpr *arg = makeNode(NamedArgExpr);

			arg->arg = (Expr *) param;
			arg->name = pstrdup(f->args[i].name);
			arg->argnumber = i;
			arg->location = -1;
			args = lappend(args, arg);
		}
		else
			args = lappend(args, param);
	}
	expr = makeFuncExpr(f->fn, f->result, args, get_typcollation(f->result), DEFAULT_COLLATION_OID, COERCE_EXPLICIT_CALL);
	expr->funcretset = f->returns_set;
	expr->funcvariadic = f->variadic;
	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->jointree = makeFromExpr(NIL, NULL);
	query->targetList = list_make1(makeTargetEntry((Expr *) expr, 1, pstrdup("result"), false));
	query->hasTargetSRFs = f->returns_set;
	return pg_plan_query(query, text, 0, NULL);
}

static PlannedStmt *
find_plan(const MwTool *tool, MwToolFunction *f, const Bitmapset *given, const char *text)
{
	PlannedStmt *plan;
	CallPlan   *kept;
	MemoryContext old;
	ListCell   *lc;

	foreach(lc, f->plans)
	{
		kept = lfirst(lc);
		if (bms_equal(kept->given, given))
			return kept->plan;
	}
	PushActiveSnapshot(GetTransactionSnapshot());
	plan = plan_call(tool, f, given, text);
	PopActiveSnapshot();
	if (list_length(f->plans) >= MAX_PLANS)
		return plan;
	old = MemoryContextSwitchTo(f->cxt);
	kept = palloc(sizeof(CallPlan));
	kept->given = bms_copy(given);
	kept->plan = copyObject(plan);
	f->plans = lappend(f->plans, kept);
	MemoryContextSwitchTo(old);
	return kept->plan;
}

static void
call_function(const MwTool *tool, MwToolFunction *f, Jsonb *args, bool *converting, MwToolReturn *result)
{
	static const char text[] = "mw tool";
	Bitmapset  *given;
	ParamListInfo params;

	*converting = true;
	params = values_of(tool, f, args, &given);
	*converting = false;
	CommandCounterIncrement();
	mw_plan_run(find_plan(tool, f, given, text), text, params, &result->pub, 0);
	CommandCounterIncrement();
}

/* ---------- errors ---------- */

static _Noreturn void
took_too_long(const MwTool *tool)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_TOOL_FAILED),
			 errmsg("tool \"%s\" took longer than its timeout", tool->name),
			 errdetail("Its timeout is %g seconds; what it had done was undone.", tool->timeout_ms / 1000.0),
			 errhint("SELECT mw_alter_tool(%s, '{\"timeout\": ...}'); changes it.", quote_literal_cstr(tool->name))));
}

/* What mw restricts a tool by is not known to whoever wrote it: say how to mend it */
static void
add_hint(const MwTool *tool, ErrorData *edata)
{
	if (edata->sqlerrcode == ERRCODE_READ_ONLY_SQL_TRANSACTION && !tool->writes && edata->hint == NULL)
		edata->hint = psprintf("The tool is registered as reading only: SELECT mw_alter_tool(%s, '{\"writes\": true}');",
							   quote_literal_cstr(tool->name));
	else if (edata->sqlerrcode == ERRCODE_UNDEFINED_TABLE || edata->sqlerrcode == ERRCODE_UNDEFINED_FUNCTION ||
			 edata->sqlerrcode == ERRCODE_UNDEFINED_OBJECT)
		edata->hint = psprintf("%s%sA tool runs with the search_path of its own schema, not the caller's: qualify names of others, or ALTER FUNCTION %s SET search_path = ...;",
							   edata->hint ? edata->hint : "", edata->hint ? "\n" : "", tool->signature);
}

/* Errors of a conversion that say that the value is none of its type */
static bool
is_no_value(const ErrorData *edata)
{
	switch (ERRCODE_TO_CATEGORY(edata->sqlerrcode))
	{
		case ERRCODE_DATA_EXCEPTION:
		case ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION:
			return true;
		default:
			return false;
	}
}

/* ---------- one call ---------- */

/* As the caller, within all limits.  False: *why says what is wrong with the arguments. */
static bool
run_function(MwRun *run, const MwTool *tool, MwToolFunction *f, Jsonb *args, MwToolReturn *result, char **why)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool converting = false;
	volatile bool late = false;
	MwToolTimer timer;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	mw_tool_timer_start(&timer, tool->timeout_ms);
	PG_TRY();
	{
		MwUserFrame frame;

		mw_userfunc_enter(&frame, f->path);
		/* an application's own policies can go by it */
		(void) set_config_option("mw.tenant", run->tenant, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
		/* the end of the subtransaction takes it back */
		if (!tool->writes)
			XactReadOnly = true;
		call_function(tool, f, args, unvolatize(bool *, &converting), result);
		mw_userfunc_leave(&frame);
		late = mw_tool_timer_stop(&timer, false);
		if (late)
			took_too_long(tool);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *edata;
		bool		canceled;

		MemoryContextSwitchTo(cxt);
		edata = CopyErrorData();
		FlushErrorState();
		canceled = mw_tool_timer_cut(edata);
		if (!late)
			late = mw_tool_timer_stop(&timer, canceled) && canceled;
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		if (converting && is_no_value(edata))
		{
			*why = edata->message;
			return false;
		}
		if (late && canceled)
			took_too_long(tool);
		add_hint(tool, edata);
		ReThrowError(edata);
	}
	PG_END_TRY();
	return true;
}

/* LangChain's words for arguments that cannot be used, which are shown as the model gave them */
static char *
misused(const MwTool *tool, Jsonb *given, const char *why)
{
	char	   *args = mw_json_canonical(given);

	if (strlen(args) > MAX_SHOWN)
		args = psprintf("%.*s ...", pg_mbcliplen(args, strlen(args), MAX_SHOWN), args);
	return psprintf("Error invoking tool '%s' with kwargs %s with error:\n %s\n Please fix the error and try again.",
					tool->name, args, why);
}

static void *
read_function(const char *tool, const char *signature, int typed, bool *keep)
{
	MwToolFunction *f = mw_tool_function(mw_userfunc_open(signature, psprintf("tool \"%s\"", tool)));
	char	   *hint;
	char	   *fault = mw_tool_function_fault(f, typed, &hint);

	if (fault)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the function of tool \"%s\" cannot be used any more", tool),
				 errdetail("%s: %s", signature, fault),
				 hint ? errhint("%s", hint) : 0));
	f->path = mw_userfunc_path(f->fn);
	f->cxt = CurrentMemoryContext;
	return f;
}

/* The function of a tool, as it is now and for this role */
static MwToolFunction *
open_function(const MwTool *tool)
{
	return mw_definition(read_function, tool->name, tool->signature, tool->typed);
}

/* Arguments as the function gets them but for their types; *why: what breaks the schema, or NULL */
static Jsonb *
checked(MwRun *run, const MwTool *tool, const MwToolFunction *f, Jsonb *given, char **why)
{
	Jsonb	   *args = mw_reveal_show(run, tool->reveal, given);

	args = tool->typed ? mw_tool_lenient(f, args) : mw_tool_forgiven(tool->parameters, args);
	*why = mw_schema_breach(tool->parameters, args);
	return args;
}

/* mw_tool_outcome is a whole call but for the message. */
MwToolOutcome *
mw_tool_outcome(MwRun *run, const MwTool *tool, Jsonb *given)
{
	MwToolOutcome *outcome = palloc0(sizeof(MwToolOutcome));
	MwToolFunction *f = open_function(tool);
	char	   *why;
	Jsonb	   *args = checked(run, tool, f, given, &why);
	MwToolReturn *result = mw_tool_return(tool, f);

	if (why || !run_function(run, tool, f, mw_tool_merge(args, tool->fixed), result, &why))
	{
		outcome->failed = true;
		outcome->content = misused(tool, given, mw_tool_redact_text(run, why, strlen(why)));
		return outcome;
	}
	outcome->content = mw_tool_shown(run, result, &outcome->parts);
	mw_tool_judge(run, outcome->content);
	if (result->update)
		outcome->update = mw_tool_redact_json(run, result->update);
	return outcome;
}

MwToolResponse *
mw_tool_misused(MwRun *run, const MwTool *tool, MwToolCall *call)
{
	MwToolResponse *response;
	char	   *why;

	if (tool->kind == MW_TOOL_FUNCTION)
		(void) checked(run, tool, open_function(tool), call->args, &why);
	else
		why = mw_schema_breach(tool->parameters, call->args);
	if (why == NULL)
		return NULL;
	response = palloc0(sizeof(MwToolResponse));
	response->msg = mw_msg_tool(run, call, misused(tool, call->args, mw_tool_redact_text(run, why, strlen(why))), true);
	return response;
}

MwToolResponse *
mw_tool_run(MwRun *run, const MwTool *tool, MwToolCall *call)
{
	MwToolOutcome *outcome = mw_tool_outcome(run, tool, call->args);
	MwToolResponse *response = palloc0(sizeof(MwToolResponse));

	response->msg = outcome->parts != NULL ? mw_msg_tool_parts(run, call, outcome->parts, outcome->failed) :
		mw_msg_tool(run, call, outcome->content, outcome->failed);
	response->update = outcome->update;
	return response;
}

MwToolResponse *
mw_tool_result(MwRun *run, const MwToolCall *call, const char *content, bool failed)
{
	MwToolResponse *response = palloc0(sizeof(MwToolResponse));
	char	   *text = mw_tool_redact_text(run, pstrdup(content), strlen(content));

	mw_tool_judge(run, text);
	response->msg = mw_msg_tool(run, call, text, failed);
	return response;
}
