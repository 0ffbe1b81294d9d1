/*
 * inbox.c - what a reviewer does with an interrupt before it is decided: claims.
 *
 * A claim is two columns of the interrupt's rows, taken under the locks that a
 * decision takes, and nothing else: it ends by itself, and decide refuses others
 * until then.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "agent/approval.h"
#include "policy/admin.h"
#include "policy/policy.h"
#include "policy/reviewers.h"
#include "policy/session_lock.h"
#include "util/spi.h"

#define MAX_CLAIM_MS	(24 * 3600 * INT64CONST(1000))

static int64
claim_ms(Interval *timeout)
{
	int64		ms;

	if (timeout == NULL)
		return 0;
	ms = timeout->time / 1000 + ((int64) timeout->day + (int64) timeout->month * DAYS_PER_MONTH) * SECS_PER_DAY * 1000;
	if (ms < 0 || ms > MAX_CLAIM_MS)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("argument \"timeout\" must be from 0 to a day")));
	return ms;
}

static Oid
oid_at(HeapTuple row, TupleDesc desc, int n)
{
	bool		isnull;
	Datum		d = SPI_getbinval(row, desc, n, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(d);
}

static _Noreturn void
nothing_waits(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_NO_INTERRUPT),
			 errmsg("no such interrupt is waiting for a decision"),
			 errhint("SELECT * FROM mw.inbox; shows what waits.")));
}

/* An interrupt stays with its session, whose lock comes before those of its rows */
static char *
hold_session_of(const char *tenant, Datum *values)
{
	static MwStmt stmt = {
		"SELECT i.session FROM mw.interrupt AS i WHERE i.tenant OPERATOR(pg_catalog.=) $1 AND i.interrupt_id OPERATOR(pg_catalog.=) $2 LIMIT 1",
		2, {TEXTOID, TEXTOID}
	};

	char	   *session;

	if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) == 0)
		nothing_waits();
	session = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	mw_session_hold(tenant, session);
	return session;
}

/* (tenant, interrupt_id, timeout) */
PG_FUNCTION_INFO_V1(mw_claim_interrupt);

Datum
mw_claim_interrupt(PG_FUNCTION_ARGS)
{
	static MwStmt look = {
		"SELECT i.tool, i.middleware, i.requested_by::pg_catalog.oid, i.status OPERATOR(pg_catalog.=) 'open'"
		" AND coalesce(i.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp(), true), i.claimed_by::pg_catalog.oid,"
		" coalesce(i.claimed_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp(), false), i.requested_through::pg_catalog.oid, i.place, i.decisions"
		" FROM mw.interrupt AS i WHERE i.tenant OPERATOR(pg_catalog.=) $1 AND i.interrupt_id OPERATOR(pg_catalog.=) $2"
		" ORDER BY i.place FOR UPDATE",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt take = {
		"UPDATE mw.interrupt SET claimed_by = $3, claimed_until = $4"
		" WHERE tenant OPERATOR(pg_catalog.=) $1 AND interrupt_id OPERATOR(pg_catalog.=) $2 AND status OPERATOR(pg_catalog.=) 'open'",
		4, {TEXTOID, TEXTOID, REGROLEOID, TIMESTAMPTZOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	char	   *interrupt_id = mw_arg_text(fcinfo, 1, "interrupt_id");
	int64		ms = claim_ms(PG_ARGISNULL(2) ? NULL : PG_GETARG_INTERVAL_P(2));
	Datum		values[4];
	char		nulls[4] = {' ', ' ', ms > 0 ? ' ' : 'n', ms > 0 ? ' ' : 'n'};
	char	   *session;
	bool		free = true;
	bool		open = false;
	uint64		n;

	if (!mw_may_act(tenant) && !mw_may_review(tenant, NULL))
		mw_require_may_act(tenant);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(interrupt_id);
	values[2] = ObjectIdGetDatum(GetUserId());
	SPI_connect();
	session = hold_session_of(tenant, values);
	n = mw_spi_write(&look, MW_AS_OWNER, values, NULL);
	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MwGate		gate = {.interrupt_id = interrupt_id};
		MwReviewRight right;
		bool		isnull;

		if (!DatumGetBool(SPI_getbinval(row, desc, 4, &isnull)))
			continue;
		open = true;
		gate.call.name = SPI_getvalue(row, desc, 1);
		gate.middleware = SPI_getvalue(row, desc, 2);
		gate.requested_by = oid_at(row, desc, 3);
		gate.requested_through = oid_at(row, desc, 7);
		gate.place = DatumGetInt32(SPI_getbinval(row, desc, 8, &isnull));
		gate.decisions = DatumGetJsonbP(SPI_getbinval(row, desc, 9, &isnull));
		right = mw_review_right(tenant, gate.call.name);
		if (gate.middleware != NULL && !right.named)
			mw_require_may_see(tenant, session);
		if (!mw_waits_for_me(tenant, &gate))
			ereport(ERROR,
					(errcode(ERRCODE_MW_NOT_YOUR_DECISION),
					 errmsg("role \"%s\" may not decide this interrupt", GetUserNameFromId(GetUserId(), false)),
					 right.may ? errhint("It asked for it, or has approved it already. Let another reviewer decide.") :
					 errhint("SELECT mw_grant_reviewer(%s, %s);", quote_literal_cstr(tenant),
							 quote_literal_cstr(quote_identifier(GetUserNameFromId(GetUserId(), false))))));
		free &= !DatumGetBool(SPI_getbinval(row, desc, 6, &isnull)) || has_privs_of_role(GetUserId(), oid_at(row, desc, 5)) ||
			!mw_could_decide(oid_at(row, desc, 5), tenant, gate.call.name, gate.middleware != NULL);
	}
	if (!open)
		nothing_waits();
	values[3] = TimestampTzGetDatum(TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms));
	if (free)
		(void) mw_spi_write(&take, MW_AS_OWNER, values, nulls);
	SPI_finish();
	PG_RETURN_BOOL(free);
}
