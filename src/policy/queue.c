/*
 * queue.c - the rows of mw.queue: requests in the gateway's hands, as far as
 * the current role may act for their tenants.
 *
 * Payloads of other backends are copied under the lock that guards the slots:
 * a payload is freed only by who has taken it out of its slot under the same
 * lock, exclusively.  Rights are checked after the lock is let go, since that
 * may read tables.
 */
#include "mw.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "gateway/gateway.h"
#include "policy/policy.h"
#include "util/spi.h"

typedef struct QueueRow
{
	char	   *tenant;
	char	   *session;
	char	   *request_id;
	char	   *model;
	pg_uuid_t	run_id;
	const char *state;
	TimestampTz queued_at;
	MwInstant	deadline;
	int			pid;
} QueueRow;

#define copied(w, field)	(mw_wire_string(w, field) ? pstrdup(mw_wire_string(w, field)) : NULL)

static List *
rows(void)
{
	List	   *result = NIL;
	dsa_area   *area = mw_dsa();

	LWLockAcquire(mw_shared->lock, LW_SHARED);
	for (int i = 0; i < mw_shared->nslots; i++)
	{
		MwSlot	   *s = &mw_shared->slots[i];
		MwWire	   *w;
		QueueRow   *r;

		if (s->state == MW_SLOT_FREE || s->db != MyDatabaseId || !DsaPointerIsValid(s->request))
			continue;
		w = dsa_get_address(area, s->request);
		if (w->work != MW_WORK_CALL)
			continue;
		r = palloc0(sizeof(QueueRow));
		r->tenant = copied(w, tenant);
		r->session = copied(w, session);
		r->request_id = copied(w, request_id);
		r->model = copied(w, model);
		r->run_id = w->run_id;
		r->state = s->state == MW_SLOT_QUEUED ? "queued" : s->state == MW_SLOT_TAKEN ? "in flight" : "answered";
		r->queued_at = s->queued_at;
		r->deadline = w->deadline;
		r->pid = s->abandoned ? 0 : s->owner_pid;
		result = lappend(result, r);
	}
	LWLockRelease(mw_shared->lock);
	return result;
}

PG_FUNCTION_INFO_V1(mw_queue_rows);

/*
 * mw.queue_rows() → one row a request in flight: tenant, session, request_id,
 * run_id, model, state, queued_at, deadline, pid (NULL where its caller has
 * left).  No rows where mw is not preloaded.
 */
Datum
mw_queue_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	if (mw_shared == NULL)
		return (Datum) 0;
	foreach(lc, rows())
	{
		QueueRow   *r = lfirst(lc);
		Datum		values[9];
		bool		nulls[9] = {false};

		if (!mw_may_act(r->tenant))
			continue;
		values[0] = CStringGetTextDatum(r->tenant);
		values[1] = mw_out_text(r->session, &nulls[1]);
		values[2] = CStringGetTextDatum(r->request_id);
		values[3] = UUIDPGetDatum(&r->run_id);
		values[4] = CStringGetTextDatum(r->model);
		values[5] = CStringGetTextDatum(r->state);
		values[6] = TimestampTzGetDatum(r->queued_at);
		values[7] = TimestampTzGetDatum(mw_wall_clock(r->deadline));
		nulls[8] = r->pid == 0;
		values[8] = Int32GetDatum(r->pid);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(mw_bench_record);

/* mw.bench_record(tenant, n): see its COMMENT */
Datum
mw_bench_record(PG_FUNCTION_ARGS)
{
	char	   *tenant = text_to_cstring(PG_GETARG_TEXT_PP(0));
	pg_uuid_t	run_id;

	mw_require_may_act(tenant);
	for (int i = 0; i < PG_GETARG_INT32(1); i++)
	{
		if (!pg_strong_random(run_id.data, UUID_LEN))
			elog(ERROR, "could not generate random values");
		mw_gateway_record(tenant, &run_id);
	}
	PG_RETURN_VOID();
}
