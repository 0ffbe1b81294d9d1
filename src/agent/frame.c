/*
 * frame.c - what of a user's runs inside a run, and what it may not catch.
 *
 * Hooks are functions in any language, and all of them can swallow an error: a
 * PL/pgSQL block with WHEN OTHERS, a Python except.  A pause for approval, a
 * cancel, a termination and a call that is not what was approved (MW605) must
 * not end there.  So where an error passes the border between our code and a
 * user's (mw_next, below), one of those is noted as sticky, and once the user's
 * function has come back, whatever it returned, the note is raised again.  From
 * then on nothing of the run is started, so a hook that tries again gets the
 * same error.
 *
 * A middleware of ours that catches errors does so with mw_try_*, in a
 * subtransaction, and never sees the sticky ones.
 *
 * An error keeps its SQLSTATE and message on its way out, since hooks match and
 * print them.  Who raised it first is noted beside it (mw_fault_from), and only
 * run.c, where it leaves the run, makes MW701 or MW702 of it.
 *
 * mw_frame is the one static of src/agent.  It points into the C stack; each
 * push has its pop in a PG_FINALLY, so an ERROR unwinds it.
 */
#include "mw.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "agent/frame.h"
#include "agent/hooks.h"
#include "agent/values.h"
#include "agent/tool.h"
#include "util/json.h"

MwFrame    *mw_frame = NULL;

void
mw_frame_push(MwFrame *frame, MwRun *run, MwFrameKind kind)
{
	memset(frame, 0, sizeof(*frame));
	frame->outer = mw_frame;
	frame->run = run;
	frame->kind = kind;
	mw_frame = frame;
}

void
mw_frame_pop(const MwFrame *frame)
{
	mw_frame = frame->outer;
}

/* ---------- what must not be caught ---------- */

bool
mw_frame_must_pass(const ErrorData *edata)
{
	switch (edata->sqlerrcode)
	{
		case ERRCODE_MW_PAUSED:
		case ERRCODE_MW_NOT_APPROVED:
		case ERRCODE_MW_NOT_YOUR_TENANT:
		case ERRCODE_MW_OTHER_REQUEST:
		case ERRCODE_MW_OUTCOME_UNKNOWN:
		case ERRCODE_QUERY_CANCELED:
		case ERRCODE_ADMIN_SHUTDOWN:
		case ERRCODE_CRASH_SHUTDOWN:
		case ERRCODE_CANNOT_CONNECT_NOW:
		case ERRCODE_DATABASE_DROPPED:
		case ERRCODE_T_R_SERIALIZATION_FAILURE:
		case ERRCODE_T_R_DEADLOCK_DETECTED:
		case ERRCODE_OUT_OF_MEMORY:
			return true;
		default:
			return false;
	}
}

/*
 * In a PG_CATCH: keep a copy of an error that may not end in a user's hands.
 * The error itself goes on.
 */
void
mw_frame_note(MwRun *run)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);
	ErrorData  *edata = CopyErrorData();

	if (run->sticky == NULL && mw_frame_must_pass(edata))
		run->sticky = edata;
	MemoryContextSwitchTo(old);
}

void
mw_frame_check(MwRun *run)
{
	if (run->sticky != NULL)
		ReThrowError(run->sticky);
}

/* ---------- who raised it ---------- */

void
mw_fault_from(MwRun *run, MwFaultKind kind, const char *who, const char *where, const ErrorData *edata)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);

	run->fault.kind = kind;
	run->fault.who = pstrdup(who);
	run->fault.where = where != NULL ? pstrdup(where) : NULL;
	run->fault.sqlstate = edata->sqlerrcode;
	run->fault.message = pstrdup(edata->message != NULL ? edata->message : "");
	MemoryContextSwitchTo(old);
}

bool
mw_fault_of(MwRun *run, const ErrorData *edata, MwFaultKind *kind, const char **who, const char **where)
{
	if (run->fault.kind == MW_FAULT_NONE || run->fault.sqlstate != edata->sqlerrcode ||
		edata->message == NULL || strcmp(run->fault.message, edata->message) != 0)
		return false;
	*kind = run->fault.kind;
	*who = run->fault.who;
	*where = run->fault.where;
	return true;
}

/* ---------- trying ---------- */

typedef struct Try
{
	MwRun	   *run;
	int			level;
	const MwModelRequest *model;
	const MwToolRequest *tool;
	MwModelResponse *model_response;
	MwToolResponse *tool_response;
	MwMsg	   *msg;
} Try;

static void
do_model(Try *t)
{
	t->model_response = mw_next_model(t->run, t->level, t->model);
}

static void
do_tool(Try *t)
{
	t->tool_response = mw_next_tool(t->run, t->level, t->tool);
}

static void
do_ask(Try *t)
{
	t->msg = mw_model_ask(t->run, t->model);
}

static MwError *
try(Try *t, void (*fn) (Try *))
{
	MwRun	   *run = t->run;
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	MwFrame    *frame = mw_frame;
	const MwMiddleware *at = run->at;
	MwError    *volatile err = NULL;

	run->http_status = 0;
	run->retry_after_ms = -1;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		fn(t);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(run->cxt);
		edata = CopyErrorData();
		FlushErrorState();
		mw_frame = frame;
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		if (run->sticky != NULL || mw_frame_must_pass(edata))
			ReThrowError(edata);
		err = MemoryContextAllocZero(run->cxt, sizeof(MwError));
		err->edata = edata;
		err->at = run->at != NULL ? run->at : at;
		run->at = at;
		err->http_status = run->http_status;
		err->retry_after_ms = run->retry_after_ms;
	}
	PG_END_TRY();
	return err;
}

MwModelResponse *
mw_try_model(MwRun *run, int level, const MwModelRequest *req, MwError **err)
{
	Try			t = {.run = run, .level = level, .model = req};

	*err = try(&t, do_model);
	return *err == NULL ? t.model_response : NULL;
}

MwToolResponse *
mw_try_tool(MwRun *run, int level, const MwToolRequest *req, MwError **err)
{
	Try			t = {.run = run, .level = level, .tool = req};

	*err = try(&t, do_tool);
	return *err == NULL ? t.tool_response : NULL;
}

MwMsg *
mw_try_ask(MwRun *run, const MwModelRequest *req, MwError **err)
{
	Try			t = {.run = run, .model = req};

	*err = try(&t, do_ask);
	return *err == NULL ? t.msg : NULL;
}

void
mw_rethrow(MwRun *run, MwError *err)
{
	run->http_status = err->http_status;
	run->at = err->at;
	ReThrowError(err->edata);
}

/* ---------- SQL: what a user's function can ask ---------- */

static Jsonb *
copy_out(MemoryContext cxt, Jsonb *jb)
{
	Jsonb	   *copy = MemoryContextAlloc(cxt, VARSIZE(jb));

	memcpy(copy, jb, VARSIZE(jb));
	return copy;
}

/* (request jsonb): the next one in, with this request */
PG_FUNCTION_INFO_V1(mw_next_sql);

Datum
mw_next_sql(PG_FUNCTION_ARGS)
{
	MemoryContext outer = CurrentMemoryContext;
	MwFrame    *frame = mw_frame;
	Jsonb	   *volatile result = NULL;

	if (frame == NULL || frame->kind == MW_FRAME_PLAIN)
		ereport(ERROR,
				(errcode(ERRCODE_MW_HOOK_FAILED),
				 errmsg("mw_next can be called only inside a wrap hook"),
				 errhint("wrap_model_call and wrap_tool_call have a next one; node hooks and tools have none.")));
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_MW_HOOK_FAILED),
				 errmsg("mw_next got no request"),
				 errhint("Pass the request that the hook was given, or a changed one.")));
	mw_frame_check(frame->run);

	/* what it calls has limits of its own */
	mw_tool_timer_pause(frame->timer);
	/* what is made lives as long as the run, not as long as the hook's statement */
	MemoryContextSwitchTo(frame->run->cxt);
	PG_TRY();
	{
		result = frame->kind == MW_FRAME_MODEL ?
			mw_hook_next_model(frame, PG_GETARG_JSONB_P_COPY(0)) :
			mw_hook_next_tool(frame, PG_GETARG_JSONB_P_COPY(0));
	}
	PG_CATCH();
	{
		mw_tool_timer_go_on(frame->timer);
		mw_frame_note(frame->run);
		PG_RE_THROW();
	}
	PG_END_TRY();
	mw_tool_timer_go_on(frame->timer);
	MemoryContextSwitchTo(outer);
	PG_RETURN_JSONB_P(copy_out(outer, result));
}

/* (): the run that this function is called in; NULL outside of one */
PG_FUNCTION_INFO_V1(mw_runtime);

Datum
mw_runtime(PG_FUNCTION_ARGS)
{
	if (mw_frame == NULL)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(mw_runtime_json(mw_frame->run));
}

/* (): its state, messages included; NULL outside of one */
PG_FUNCTION_INFO_V1(mw_state);

Datum
mw_state(PG_FUNCTION_ARGS)
{
	if (mw_frame == NULL)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(mw_reveal_show(mw_frame->run, mw_frame->reveal, mw_state_json(mw_frame->run)));
}
