/*
 * invoke.c - a single call of mw_invoke or mw_ask: from its arguments to its result.
 *
 * The whole life of a call stands in run() below.  A call whose caller named a
 * request_id is claimed first, may end with a kept result, and keeps its own;
 * one without runs down the stages and back and leaves nothing but what the
 * stages' carrier recorded.
 *
 * There is nothing to clean up when an error leaves: the memory context goes
 * with the caller's, the stack of calls is unwound by the abort of the
 * (sub)transaction, and what is held in shared memory by gateway/held.c.  The
 * error is caught only to be told which run it ended.
 *
 * mw_ask of a call without an id never builds the jsonb result: a cache hit has
 * about ten microseconds in all.
 */
#include "mw.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "call/call.h"
#include "stage/redact.h"
#include "stage/stages.h"
#include "util/faults.h"
#include "util/json.h"

typedef struct Outcome
{
	bool		as_text;		/* mw_ask: the output alone */
	MemoryContext outer;		/* where it has to live */
	Datum		value;
	bool		isnull;
} Outcome;

static void
hand_out_text(Outcome *out, const char *s, int len)
{
	MemoryContext old = MemoryContextSwitchTo(out->outer);

	out->value = PointerGetDatum(cstring_to_text_with_len(s, len));
	MemoryContextSwitchTo(old);
}

static void
hand_out_nothing(Outcome *out, const MwCall *call, const char *status)
{
	out->isnull = true;
	ereport(WARNING,
			(errmsg("the run ended with status \"%s\" and has no answer yet", status),
			 errdetail("request_id: %s", call->request_id),
			 errhint("mw_invoke shows what it asks for."),
			 errhidestmt(true),
			 errhidecontext(true)));
}

static void
hand_out_jsonb(Outcome *out, const Jsonb *result)
{
	out->value = PointerGetDatum(MemoryContextAlloc(out->outer, VARSIZE(result)));
	memcpy(DatumGetPointer(out->value), result, VARSIZE(result));
}

/* A result, kept or new: its placeholders are put back, and it leaves the call's memory */
static void
hand_out(Outcome *out, MwCall *call, Jsonb *result)
{
	result = mw_result_restore(call, result);
	if (out->as_text)
	{
		char	   *status = mw_json_get_text(result, "status");
		JsonbValue *output = mw_json_get(result, "output");

		if (status == NULL || strcmp(status, "completed") != 0)
			hand_out_nothing(out, call, status != NULL ? status : "unknown");
		else if (output != NULL && output->type == jbvString)
			hand_out_text(out, output->val.string.val, output->val.string.len);
		else
			out->isnull = true;
		return;
	}
	hand_out_jsonb(out, result);
}

/* The answer of a run that is not kept: the values are put back first, and a result is made once if at all */
static void
hand_out_answer(Outcome *out, MwCall *call)
{
	MwAnswer   *answer = call->answer;

	if (answer->text != NULL && call->map.n > 0)
		answer->text = mw_restore_text(&call->map, answer->text, answer->len, &answer->len, NULL);
	if (!out->as_text)
		hand_out_jsonb(out, mw_result_make(call));
	else if (answer->text == NULL)
		hand_out_text(out, "", 0);
	else
		hand_out_text(out, answer->text, answer->len);
}

static void
run(MwCall *call, const MwInvokeArgs *args, Outcome *out)
{
	MwKey		fingerprint;
	Jsonb	   *result;

	if (call->request_named)
	{
		mw_claim_request(call);
		fingerprint = mw_request_fingerprint(call, args);
		result = mw_result_stored(call, &fingerprint);
		if (result != NULL)
		{
			mw_pipeline_redact(call);
			hand_out(out, call, result);
			return;
		}

		/* the wait for another transaction is not part of the call */
		call->deadline = mw_after_ms(call->timeout_ms);
	}

	mw_pipeline_run(call);

	/* what stands in tool calls is restored leaf by leaf */
	if (!call->request_named && call->answer->ntool_calls == 0)
	{
		hand_out_answer(out, call);
		return;
	}
	if (!call->request_named && out->as_text)
	{
		hand_out_nothing(out, call, "tool_calls");
		return;
	}

	result = mw_result_make(call);
	if (call->request_named && call->ended_by == NULL)	/* nothing was paid for: a repeat may find money */
		mw_result_store(call, &fingerprint, result);
	hand_out(out, call, result);
}

/* The error that ended a run, with the run's id in its detail */
static _Noreturn void
rethrow(const MwCall *call)
{
	ErrorData  *edata = CopyErrorData();

	FlushErrorState();
	if (call != NULL && call->failures != NIL)
		edata->detail = edata->detail == NULL ? mw_fallback_story(call) :
			psprintf("%s\n%s", edata->detail, mw_fallback_story(call));
	if (call != NULL && call->request_id != NULL)
		edata->detail = edata->detail == NULL ?
			psprintf("request_id: %s", call->request_id) :
			psprintf("%s\nrequest_id: %s", edata->detail, call->request_id);
	edata->hide_stmt = true;
	edata->hide_ctx = true;
	ReThrowError(edata);
}

Datum
mw_invoke_once(FunctionCallInfo fcinfo, MwInvokeArgs *args, bool as_text)
{
	MwCall	   *volatile call = NULL;
	Outcome		out = {.as_text = as_text, .outer = CurrentMemoryContext};

	PG_TRY();
	{
		mw_fault("args");
		call = mw_call_make(args, MW_USE_RUN);
		mw_call_enter(call->tenant);
		MemoryContextSwitchTo(call->cxt);
		run(call, args, &out);
		mw_fault("return");
		MemoryContextSwitchTo(out.outer);
		mw_call_leave();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(out.outer);
		rethrow(call);
	}
	PG_END_TRY();

	mw_call_free(call);
	fcinfo->isnull = out.isnull;
	return out.isnull ? (Datum) 0 : out.value;
}
