/*
 * resume.c - mw_resume: a paused run goes on.
 *
 * It goes on as the role whose run it is, with the agent's version and the
 * options that it began with.  Decisions that are given are recorded first,
 * under the lock of their rows; what is undecided is handed out as it was, or,
 * with "wait", waited for.  That is before anything is locked, so that a reviewer
 * decides and a new prompt is said meanwhile.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "agent/approval.h"
#include "agent/context.h"
#include "agent/frame.h"
#include "agent/run.h"
#include "gateway/tell.h"
#include "policy/policy.h"
#include "stage/redact.h"
#include "util/duration.h"
#include "util/json.h"
#include "util/row.h"

#define LOOK_MS			100		/* where nobody can wake us */
#define MAX_WAIT_MS		(24 * 3600 * INT64CONST(1000))

typedef struct Resume
{
	MwInvokeArgs *args;			/* run->args */
	Jsonb	   *decisions;
	char	   *interrupt_id;
	int64		wait_ms;
	bool		found;			/* the session has a run ... */
	pg_uuid_t	run_id;			/* ... which is the one that is meant */
} Resume;

static bool
any_with(List *gates, MwGateStatus status)
{
	ListCell   *lc;

	foreach(lc, gates)
	{
		if (((MwGate *) lfirst(lc))->status == status)
			return true;
	}
	return false;
}

/* Until the newest run of the session has nothing left that could still be decided, and then no longer */
static void
wait_for_decisions(MwRun *run, int64 wait_ms)
{
	MwInstant	until = mw_after_ms(wait_ms);
	uint32		session = mw_session_hash(run->tenant, run->session);

	for (;;)
	{
		MwSaved    *saved;
		TimestampTz now;
		int64		left = mw_ms_until(until);
		bool		open = false;
		ListCell   *lc;

		mw_tell_wait_begin(session);
		saved = mw_saved_read(run);
		now = GetCurrentTimestamp();
		if (left > 0 && saved->found && strcmp(saved->status, "interrupted") == 0)
		{
			foreach(lc, mw_gates_read(run->tenant, run->session, &saved->run_id, false))
			{
				MwGate	   *gate = lfirst(lc);

				if (gate->status != MW_GATE_OPEN || gate->expires_at <= now)
					continue;
				open = true;
				if (gate->expires_at != DT_NOEND)
					left = Min(left, TimestampDifferenceMilliseconds(now, gate->expires_at) + 1);
			}
		}
		if (!open)
			break;
		if (!mw_tell_wait(session, left))
			mw_wait_ms(Min(left, LOOK_MS));
		CHECK_FOR_INTERRUPTS();
	}
	mw_tell_wait_end();
}

static void
require_role(MwRun *run, const MwSaved *saved)
{
	if (run->role == saved->role || run->agent->resume_any)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_NOT_YOUR_DECISION),
			 errmsg("role \"%s\" may not resume this run", GetUserNameFromId(run->role, false)),
			 errdetail("It belongs to role \"%s\": its tools run with that role's rights.", saved->role_name),
			 GetUserNameFromId(saved->role, true) == NULL ? errhint("That role is gone. A new prompt abandons what waits.") :
			 errhint("Record a verdict with mw_decide, and let role %s resume. Runs of an agent with \"resume_as\": \"any\", if they begin after it was set, are resumed by others, too.", saved->role_name)));
}

/* Some gate ran out of time, and its agent says that the run ends there */
static bool
ends_by_expiry(List *gates)
{
	ListCell   *lc;

	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);

		if (gate->status == MW_GATE_EXPIRED && strcmp(gate->on_expiry, "end") == 0)
			return true;
	}
	return false;
}

/* The agent, model, tools and gates that the session's newest run was begun with, and what is stored for its next leg */
static Jsonb *
take_up(MwRun *run, Resume *r, const MwSaved *saved)
{
	Jsonb	   *call;

	if (!saved->found)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NO_INTERRUPT),
				 errmsg("no interrupt is waiting"),
				 errdetail("none: the session has no run."),
				 errhint("SELECT session, status FROM mw.session;")));
	call = mw_json_get_jsonb(saved->options, "call");
	r->args->model = call != NULL ? mw_json_get_text(call, "model") : NULL;
	r->args->tools = call != NULL ? mw_json_get_jsonb(call, "tools") : NULL;
	/* another leg may have added a gate since these were read */
	run->options = mw_hitl_options(saved->options, run->options);
	mw_run_use_agent(run, saved->owner, saved->agent, saved->version);
	return mw_run_claim(run);
}

static bool
same_begin(const MwSaved *a, const MwSaved *b)
{
	return b->found && memcmp(&a->run_id, &b->run_id, sizeof(pg_uuid_t)) == 0 &&
		(a->options == NULL) == (b->options == NULL) &&
		(a->options == NULL || (VARSIZE(a->options) == VARSIZE(b->options) && memcmp(a->options, b->options, VARSIZE(a->options)) == 0));
}

static Jsonb *
begin(MwRun *run, void *arg)
{
	Resume	   *r = arg;
	MwSaved    *first;
	MwSaved    *saved;
	Jsonb	   *stored;
	MwDecisionTexts texts = {.map = &run->map, .as = run->role, .notices = &run->notices};
	List	   *gates;
	ListCell   *lc;
	bool		batch_waits = false;

	run->memory = true;
	if (r->wait_ms > 0 && r->decisions == NULL)
		wait_for_decisions(run, r->wait_ms);

	/*
	 * A result that is kept for the request_id is handed out without a wait for the
	 * session.  So what the session waits for is looked at before it is ours, and
	 * again where it has changed meanwhile.
	 */
	mw_run_require_session(run);
	first = mw_saved_read(run);
	stored = take_up(run, r, first);
	if (stored != NULL)
		return stored;
	saved = mw_run_open(run);
	if (!same_begin(first, saved) && (stored = take_up(run, r, saved)) != NULL)
		return stored;
	if (strcmp(saved->status, "interrupted") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NO_INTERRUPT),
				 errmsg("no interrupt is waiting"),
				 errdetail("done: the session's newest run has status %s.", saved->status),
				 errhint("Say something new with mw_invoke.")));
	if (r->found && memcmp(&r->run_id, &saved->run_id, sizeof(pg_uuid_t)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NO_INTERRUPT),
				 errmsg("no interrupt is waiting"),
				 errdetail("abandoned: something new was said in the session meanwhile."),
				 errhint("Resume again for what waits now.")));
	require_role(run, saved);

	gates = mw_gates_read(run->tenant, run->session, &saved->run_id, true);
	if (gates == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NO_INTERRUPT),
				 errmsg("no interrupt is waiting"),
				 errdetail("none: the session was erased meanwhile."),
				 errhint("Say something new with mw_invoke.")));
	texts.policy = run->base->redact && mw_policy_detects(run->base->policy) ? run->base->policy : NULL;
	mw_gates_genuine(run->tenant, gates);
	mw_gates_expire(run->tenant, gates);
	if (r->decisions != NULL)
		mw_gates_decide(run->tenant, gates, run->agent, r->decisions, r->interrupt_id, NULL, &texts, NULL);
	mw_approval_load(run, gates);
	mw_run_go_on(run, saved);
	if (ends_by_expiry(gates))
	{
		foreach(lc, gates)
			((MwGate *) lfirst(lc))->outcome = "not_run";
		mw_pairs_close(run, NIL, "was not run: nobody decided in time");
		mw_run_end_with(run, "The run has ended: nobody decided in time.", "expiry");
		return NULL;
	}
	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);

		batch_waits |= gate->batched && gate->status == MW_GATE_OPEN;
	}
	run->interrupted = batch_waits || (!any_with(gates, MW_GATE_DECIDED) && !any_with(gates, MW_GATE_EXPIRED));
	return NULL;
}

/* The session's newest run, and the options that it was begun with, for whoever may see it */
static void
read_begun(Resume *r)
{
	static MwRowTable sessions = {.name = "session",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ}};
	static MwRowTable runs = {.name = "run",.nkeys = 2,.equal = {F_TEXTEQ, F_UUID_EQ}};
	MwRow		row;
	Datum		key[2] = {CStringGetTextDatum(r->args->tenant), CStringGetTextDatum(r->args->session)};
	bool		isnull;
	bool		there;

	there = mw_row_open(&row, &sessions, key);
	if (there)
		r->run_id = *DatumGetUUIDP(mw_row_get(&row, SESSION_RUN_ID, &isnull));
	mw_row_close(&row);
	if (!there)
		return;
	key[1] = UUIDPGetDatum(&r->run_id);
	r->found = mw_row_open(&row, &runs, key);
	if (r->found)
	{
		Datum		options = mw_row_get(&row, RUN_OPTIONS, &isnull);

		if (!isnull)
			r->args->begun = DatumGetJsonbPCopy(DirectFunctionCall2(jsonb_delete, options, CStringGetTextDatum("call")));
	}
	mw_row_close(&row);
}

static int64
wait_ms_of(const Interval *wait)
{
	int64		ms = wait->time / 1000 + ((int64) wait->day + (int64) wait->month * DAYS_PER_MONTH) * SECS_PER_DAY * 1000;

	if (ms < 0 || ms > MAX_WAIT_MS)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("argument \"wait\" must be from 0 to a day"),
				 errhint("A resume that waits holds its connection; come back later for what takes longer.")));
	return ms;
}

/* (tenant, session, decisions, interrupt_id, request_id, options, wait) */
PG_FUNCTION_INFO_V1(mw_resume);

Datum
mw_resume(PG_FUNCTION_ARGS)
{
	MwInvokeArgs args = {.function = "mw_resume()"};
	Resume		r = {0};
	Datum		value;

	mw_loghide_statement();
	for (int i = 0; i < 2; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR, (errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("argument \"%s\" must not be null", i == 0 ? "tenant" : "session")));
	r.args = &args;
	args.tenant = text_to_cstring(PG_GETARG_TEXT_PP(0));
	args.session = text_to_cstring(PG_GETARG_TEXT_PP(1));
	args.decisions = r.decisions = PG_ARGISNULL(2) ? NULL : PG_GETARG_JSONB_P(2);
	r.interrupt_id = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	args.request_id = PG_ARGISNULL(4) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(4));
	args.options = PG_ARGISNULL(5) ? NULL : PG_GETARG_JSONB_P(5);
	r.wait_ms = PG_ARGISNULL(6) ? 0 : wait_ms_of(PG_GETARG_INTERVAL_P(6));
	read_begun(&r);
	if (!mw_leg(&args, false, begin, &r, &value))
		PG_RETURN_NULL();
	return value;
}
