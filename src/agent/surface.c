/*
 * surface.c - mw_invoke and mw_ask: a call from its arguments to its result.
 *
 * A call that names no agent and no registered tool, and keeps no memory, is one
 * model call and stays on the short way (call/invoke.c).  All else is a run: its
 * life stands in leg() below.
 *
 * An error leaves as it was raised, with the ids of the run in its detail.  What
 * a tool or a hook raised becomes MW701 or MW702 here, at the border, and not
 * before: inside, hooks match the codes and messages of the tools' own errors.
 * With options.on_error = return it becomes a result with status error instead.
 */
#include "mw.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "agent/approval.h"
#include "agent/frame.h"
#include "agent/run.h"
#include "agent/trace.h"
#include "stage/redact.h"
#include "util/faults.h"
#include "util/json.h"

/* ---------- which way ---------- */

static bool
names_a_tool(Jsonb *tools)
{
	MwJsonEach	each;

	if (!mw_json_is_array(tools))
		return false;
	each = mw_json_each(&tools->root);
	while (mw_json_next(&each))
		if (each.value.type == jbvString)
			return true;
	return false;
}

bool
mw_is_run(const MwInvokeArgs *args)
{
	static const char *const of_runs[] = {"context", "interrupt_on", "on_error", "session_busy", "state"};
	static const char *const limits[] = {"calls", "turns", "wall"};
	JsonbValue *memory;
	Jsonb	   *given;

	if (args->agent != NULL || names_a_tool(args->tools))
		return true;
	if (args->options == NULL || JB_ROOT_COUNT(args->options) == 0)
		return false;			/* nearly always */
	for (int i = 0; i < lengthof(of_runs); i++)
		if (mw_json_get(args->options, of_runs[i]) != NULL)
			return true;
	memory = mw_json_get(args->options, "memory");
	if (memory != NULL && memory->type == jbvBool && memory->val.boolean)
		return true;
	given = mw_json_get_jsonb(args->options, "limits");
	for (int i = 0; i < lengthof(limits); i++)
		if (mw_json_get(given, limits[i]) != NULL)
			return true;
	return false;
}

/* ---------- a leg ---------- */

/* From where the run stands until it ends, pauses or fails: the status of the leg */
static const char *
run_on(MwRun *run)
{
	if (!run->interrupted)		/* a resume that nobody has decided for */
		mw_loop(run);
	if (run->error != NULL)
		return "error";
	if (run->interrupted)
		return "interrupted";
	return run->waits_for_client ? "tool_calls" : "completed";
}

static Jsonb *
leg(MwRun *run, MwLegBegin begin, void *arg)
{
	Jsonb	   *result = begin(run, arg);
	const char *status;

	if (result == NULL)
	{
		status = run_on(run);
		mw_pii_session_save(&run->map, run->base->policy);	/* what tools and hooks have said since */
		mw_gates_write(run);
		mw_saved_write(run, status, *run->place);
		mw_trace_write(run);
		result = mw_run_result(run, status);
		if (run->base->request_named && run->error == NULL && (run->ended_by == NULL || strcmp(run->ended_by, "budget") != 0))
			mw_result_store(run->base, &run->fingerprint, result);
	}
	return mw_run_restore(run, result);
}

typedef struct Outcome
{
	bool		as_text;
	MemoryContext outer;
	Datum		value;
	bool		isnull;
} Outcome;

static void
hand_out(Outcome *out, const MwRun *run, Jsonb *result)
{
	MemoryContext old = MemoryContextSwitchTo(out->outer);

	if (!out->as_text)
	{
		Jsonb	   *copy = palloc(VARSIZE(result));

		memcpy(copy, result, VARSIZE(result));
		out->value = JsonbPGetDatum(copy);
	}
	else
	{
		char	   *status = mw_json_get_text(result, "status");
		char	   *output = mw_json_get_text(result, "output");

		out->isnull = output == NULL;
		if (output != NULL)
			out->value = CStringGetTextDatum(output);
		if (strcmp(status, "completed") != 0)
			ereport(WARNING,
					(errmsg("the run ended with status \"%s\" and has no answer yet", status),
					 errdetail("request_id: %s", run->base->request_id),
					 errhint("mw_invoke shows what it asks for."),
					 errhidestmt(true),
					 errhidecontext(true)));
	}
	MemoryContextSwitchTo(old);
}

bool
mw_leg(const MwInvokeArgs *args, bool as_text, MwLegBegin begin, void *arg, Datum *value)
{
	Outcome		out = {.as_text = as_text, .outer = CurrentMemoryContext};
	MwRun	   *volatile run = NULL;
	MwFrame    *frame = mw_frame;

	PG_TRY();
	{
		MwRun	   *r = mw_run_make(args, MW_USE_RUN);

		run = r;
		r->outer = frame != NULL ? frame->run : NULL;
		mw_run_inside(r);
		mw_call_enter(r->tenant);
		mw_frame = NULL;		/* hooks of an outer run have no next one in this */
		MemoryContextSwitchTo(r->cxt);
		hand_out(&out, r, leg(r, begin, arg));
		mw_fault("return");
		MemoryContextSwitchTo(out.outer);
		mw_frame = frame;
		mw_call_leave();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		mw_frame = frame;
		MemoryContextSwitchTo(out.outer);
		if (run == NULL)
			PG_RE_THROW();
		edata = CopyErrorData();
		FlushErrorState();
		mw_run_dress(run, edata);
		ReThrowError(edata);
	}
	PG_END_TRY();
	MemoryContextDelete(run->cxt);
	*value = out.value;
	return !out.isnull;
}

/* A result that is kept for the request_id, or NULL: then the thread is open and holds what the caller said */
static Jsonb *
begin_new(MwRun *run, void *arg)
{
	Jsonb	   *stored;

	mw_run_use_agent(run, NULL, run->args->agent, 0);
	stored = mw_run_claim(run);
	if (stored == NULL)
		mw_run_begin(run);
	return stored;
}

static Datum
invoke(FunctionCallInfo fcinfo, bool as_text)
{
	MwInvokeArgs args;
	Datum		value;

	mw_loghide_statement();
	mw_invoke_args(fcinfo, &args);
	args.function = as_text ? "mw_ask()" : "mw_invoke()";
	/* inside of a run it is one, too, since that one's limits hold for it */
	if (mw_frame == NULL && !mw_is_run(&args))
		return mw_invoke_once(fcinfo, &args, as_text);
	if (!mw_leg(&args, as_text, begin_new, NULL, &value))
		PG_RETURN_NULL();
	return value;
}

/* ---------- SQL ---------- */

PG_FUNCTION_INFO_V1(mw_invoke);

Datum
mw_invoke(PG_FUNCTION_ARGS)
{
	return invoke(fcinfo, false);
}

PG_FUNCTION_INFO_V1(mw_ask);

Datum
mw_ask(PG_FUNCTION_ARGS)
{
	return invoke(fcinfo, true);
}
