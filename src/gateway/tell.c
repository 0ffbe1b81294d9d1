/*
 * tell.c - who is told of decisions and expiries, and when.
 *
 * A resume that waits for a decision sleeps on a condition variable in shared
 * memory, one of a few by a hash of the session, and is woken when a decision has
 * committed.  It looks again by itself now and then: a decision may come by ways
 * that wake nobody (COMMIT PREPARED), and without preloading there is no shared
 * memory.
 *
 * Expiry is a fact of expires_at and needs nobody.  The gateway only tells of it,
 * once: what it has told is marked on the row, in the transaction of the NOTIFY.
 * Callers write these rows too, so only rows that nobody has a lock on are
 * marked; the others are looked at again.  A gateway is started, if need be, when
 * an interrupt with an expiry commits and when somebody listens to a channel of
 * ours (launch.c), and stays while one is to be told.
 */
#include "mw.h"

#include "access/xact.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "gateway/gateway.h"
#include "gateway/shm.h"
#include "gateway/tell.h"

#define LOOK_FIRST_MS	100		/* from a gateway's start: who started it listens by then */
#define LOOK_MS			1000	/* how long nobody relies on being woken */
#define LOOK_LOCKED_MS	1000	/* an expired row that somebody had a lock on */
#define LOOK_AT_LEAST_MS	60000	/* the wall clock may be set */
#define MAX_FAILURES	10		/* in a row */
#define TELL_ROWS		1000	/* as in the statement, which test/checks reads */

char	   *(*mw_channel_name) (const char *tenant);

/* What this transaction has to tell when it commits */
static uint64 decided;			/* a bit a condition variable */
static bool expires;

static MwInstant look_at;		/* the gateway: when the next expiry is to be told */
static bool pending = true;		/* ... if there is one; it looks once when it comes */
static int	failures;

/* ---------- callers ---------- */

void
mw_tell_decided(uint32 session)
{
	decided |= UINT64CONST(1) << session % MW_DECIDED;
}

void
mw_tell_expiry(void)
{
	expires = true;
}

bool
mw_tell_wait(uint32 session, int64 ms)
{
	if (mw_shared == NULL)
		return false;
	(void) ConditionVariableTimedSleep(&mw_shared->decided[session % MW_DECIDED], Min(ms, LOOK_MS), mw_wait_event());
	return true;
}

void
mw_tell_wait_begin(uint32 session)
{
	if (mw_shared != NULL)
		ConditionVariablePrepareToSleep(&mw_shared->decided[session % MW_DECIDED]);
}

void
mw_tell_wait_end(void)
{
	if (mw_shared != NULL)
		ConditionVariableCancelSleep();
}

static void
transaction_ends(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (expires)
				mw_gateway_wish();
			break;
		case XACT_EVENT_COMMIT:
			for (int i = 0; decided != 0 && i < MW_DECIDED; i++)
				if ((decided >> i) & 1)
					ConditionVariableBroadcast(&mw_shared->decided[i]);
			if (expires)
				mw_gateway_look(MyDatabaseId);
			decided = 0;
			expires = false;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			decided = 0;
			expires = false;
			break;
		default:
			break;
	}
}

void
mw_tell_init(void)
{
	RegisterXactCallback(transaction_ends, NULL);
}

/* ---------- the gateway ---------- */

bool
mw_expiry_pending(void)
{
	return pending;
}

long
mw_expiry_ms(void)
{
	return pending ? mw_ms_until(look_at) : -1;
}

void
mw_expiry_begin(void)
{
	look_at = mw_after_ms(LOOK_FIRST_MS);
}

void
mw_expiry_look(void)
{
	pending = true;
	failures = 0;
	look_at = mw_now();
}

/* A gateway whose extension was dropped has nothing to stay for */
void
mw_expiry_failed(void)
{
	look_at = mw_after_ms(LOOK_LOCKED_MS);
	pending = ++failures < MAX_FAILURES;
}

/* Inside a transaction of the gateway's; true, as the next one is known */
bool
mw_expiry_tell(void)
{
	static MwStatement mark = {
		"UPDATE mw.interrupt AS i SET expiry_told = true WHERE i.ctid = ANY (ARRAY(SELECT o.ctid FROM mw.interrupt AS o "
		"WHERE o.status = 'open' AND NOT o.expiry_told AND o.expires_at <= pg_catalog.clock_timestamp() "
		"ORDER BY o.expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)) RETURNING i.tenant, i.interrupt_id"
	};
	static MwStatement next = {
		"SELECT pg_catalog.min(o.expires_at) FROM mw.interrupt AS o WHERE o.status = 'open' AND NOT o.expiry_told AND o.expires_at IS NOT NULL"
	};
	uint64		n = mw_statement_run(&mark, NULL, NULL);
	SPITupleTable *rows = SPI_tuptable;
	Datum		due;
	bool		isnull;
	int64		ms;

	for (uint64 i = 0; i < n; i++)
		Async_Notify(mw_channel_name(SPI_getvalue(rows->vals[i], rows->tupdesc, 1)),
					 mw_interrupt_payload("expiry", SPI_getvalue(rows->vals[i], rows->tupdesc, 2)));
	(void) mw_statement_run(&next, NULL, NULL);
	due = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	pending = !isnull;
	failures = 0;
	if (isnull)
		return true;
	ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), DatumGetTimestampTz(due));
	if (ms == 0)
		ms = n == TELL_ROWS ? 0 : LOOK_LOCKED_MS;
	look_at = mw_after_ms(Min(ms + 1, LOOK_AT_LEAST_MS));
	return true;
}

/* Whoever listens learns that something is to be looked at, and its opaque id: anybody can listen */
char *
mw_interrupt_payload(const char *kind, const char *interrupt_id)
{
	return psprintf("{\"kind\": \"%s\", \"id\": \"%s\"}", kind, interrupt_id);
}
