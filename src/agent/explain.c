/*
 * explain.c - mw_explain: what a call or a run would do.
 *
 * For a run: the stack of middlewares in order, a row each with what of it takes
 * part, then the six stages of its first model call, as it would be sent if no
 * hook changed it.  Hooks are listed and not run, nobody is called and nothing
 * is written, so it works in a read-only transaction; the session is not claimed.
 */
#include "mw.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "agent/frame.h"
#include "agent/run.h"
#include "agent/structured.h"
#include "util/json.h"
#include "util/json_push.h"

/* Where a middleware takes part, and what it brings */
static Jsonb *
parts_of(MwMiddleware *m)
{
	const MwMiddlewareType *k = m->kind;
	const struct
	{
		const char *name;
		bool		there;
	}			hooks[] = {
		{"before_agent", k->before_agent != NULL}, {"before_model", k->before_model != NULL},
		{"wrap_model_call", k->wrap_model != NULL}, {"after_model", k->after_model != NULL},
		{"wrap_tool_call", k->wrap_tool != NULL}, {"after_agent", k->after_agent != NULL},
	};
	JsonbParseState *st = NULL;
	List	   *own = k->hooks_of != NULL ? k->hooks_of(m) : NIL;
	ListCell   *lc;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "type", k->type);
	push_key(&st, "hooks");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	if (k->hooks_of != NULL)
	{
		foreach(lc, own)
			push_string(&st, WJB_ELEM, lfirst(lc), strlen(lfirst(lc)));
	}
	else
	{
		for (int i = 0; i < lengthof(hooks); i++)
			if (hooks[i].there)
				push_string(&st, WJB_ELEM, hooks[i].name, strlen(hooks[i].name));
	}
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	if (k->tools != NULL)
	{
		push_key(&st, "tools");
		pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
		foreach(lc, k->tools(m))
		{
			MwTool	   *tool = lfirst(lc);

			push_string(&st, WJB_ELEM, tool->name, strlen(tool->name));
		}
		pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

static void
explain_run(const MwInvokeArgs *args, ReturnSetInfo *set)
{
	MwRun	   *run = mw_run_make(args, MW_USE_EXPLAIN);
	MemoryContext old = MemoryContextSwitchTo(run->cxt);
	MwCall	   *call;

	mw_call_enter(run->tenant);
	mw_run_use_agent(run, NULL, args->agent, 0);
	mw_run_peek(run);
	for (int i = 0; i < run->agent->nmiddleware; i++)
	{
		MwMiddleware *m = run->agent->middleware[i];
		Datum		values[5];
		bool		nulls[5] = {false, false, false, true, false};

		values[0] = CStringGetTextDatum(m->name);
		values[1] = CStringGetTextDatum("listed");
		values[2] = JsonbPGetDatum(parts_of(m));
		values[3] = (Datum) 0;
		values[4] = Int64GetDatum(0);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	run->turn = 1;
	call = mw_request_call(run, mw_structured_request(run, mw_first_request(run, run->msgs)));
	call->map = run->map;
	MemoryContextSwitchTo(call->cxt);
	mw_explain_stages(call, set);
	MemoryContextSwitchTo(old);
	mw_call_leave();
	MemoryContextDelete(run->cxt);
}

PG_FUNCTION_INFO_V1(mw_explain);

Datum
mw_explain(PG_FUNCTION_ARGS)
{
	MwInvokeArgs args;

	mw_loghide_statement();
	InitMaterializedSRF(fcinfo, 0);
	mw_invoke_args(fcinfo, &args);
	args.function = "mw_explain()";
	if (mw_is_run(&args))
		explain_run(&args, (ReturnSetInfo *) fcinfo->resultinfo);
	else
		mw_explain_once(&args, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
