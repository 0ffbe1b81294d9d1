/*
 * worker.c - the gateway's process: comes, loops, goes.
 *
 * One process a database owns the network and all durable writes about money.
 * Each turn of the loop takes what callers have queued and what transfers have
 * ended (flight.c) and puts it into one round (round.c).  Nothing in the loop
 * waits: the only sleep is on the latch, libcurl's descriptor and the postmaster
 * together.  It leaves when it has been idle and no expiry is to be told, when it is asked to (a command
 * wants the database to itself) and at shutdown, in the last two cases after it
 * has recorded what is in flight as unknown.
 */
#include "mw.h"

#include "access/xact.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/http.h"
#include "gateway/shm.h"
#include "gateway/tell.h"
#include "guc.h"

#define SWEEP_EVERY_MS	60000
#define RECOVER_EVERY_MS	1000
#define UNLOCK_AFTER_MS	200		/* how long an idle gateway keeps DROP EXTENSION waiting */

PGDLLEXPORT void mw_gateway_main(Datum arg);

static MwGate *gate;
static MemoryContext round_cxt;

MemoryContext
mw_round_context(void)
{
	return round_cxt;
}

/* ---------- coming and going ---------- */

/* Nobody waits for us in vain.  An ERROR may have come from under a lock, which nothing else gives up before this. */
static void
answer_all(int code, Datum arg)
{
	LWLockReleaseAll();
	mw_flights_lost();
}

static void
gone(int code, Datum arg)
{
	mw_flights_lost();			/* whom answer_all() did not come to, since an error ended it */
	/* outside a transaction nothing takes a session's locks at exit: the process that gets our place would have them */
	mw_record_lock_tables(false);
	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	gate->pid = 0;
	gate->latch = NULL;
	gate->starting = false;
	gate->leave = false;
	LWLockRelease(mw_shared->lock);
	ConditionVariableBroadcast(&mw_shared->changed);
}

/* Record everything in flight as unknown, in one last round, then go */
static void
wind_down(void)
{
	List	   *work = NIL;
	ListCell   *lc;
	dlist_iter	iter;

	dlist_foreach(iter, mw_flights())
	{
		MwFlight   *f = dlist_container(MwFlight, node, iter.cur);
		MwHttpResult h = {.kind = MW_HTTP_UNKNOWN, .retry_after_ms = -1};

		if (!f->in_flight)
			continue;
		mw_http_abort(f->transfer);
		strlcpy(h.error, "the gateway was asked to leave while the call was in flight", sizeof(h.error));
		mw_flight_judge(f, &h);
		work = lappend(work, f);
	}
	if (work != NIL)
	{
		List	   *rest = mw_round_do(gate, work);

		foreach(lc, rest)
			mw_flight_refuse(lfirst(lc), ERRCODE_ADMIN_SHUTDOWN, "the gateway was asked to leave; nothing was sent", "Try again.");
	}
	mw_http_close();
	proc_exit(0);
}

/* It ends before it has sat down, for lack of memory say: the next caller starts another at once */
static void
not_come(int code, Datum arg)
{
	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	if (gate->db == DatumGetObjectId(arg) && gate->pid == 0)
		gate->starting = false;
	LWLockRelease(mw_shared->lock);
}

static void
sit_down(void)
{
	bool		taken;

	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	taken = gate->db != MyDatabaseId || gate->pid != 0;
	if (!taken)
	{
		gate->pid = MyProcPid;
		gate->latch = MyLatch;
		gate->starting = false;
	}
	LWLockRelease(mw_shared->lock);
	if (taken)
		proc_exit(0);
	before_shmem_exit(gone, 0);
	before_shmem_exit(answer_all, 0);	/* the last one is the first to run */
	ConditionVariableBroadcast(&mw_shared->changed);
}

static void
own_settings(void)
{
	SetConfigOption("search_path", "pg_catalog", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", "500ms", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("statement_timeout", "0", PGC_USERSET, PGC_S_OVERRIDE);
	if (GetConfigOption("transaction_timeout", true, false) != NULL)	/* since 17 */
		SetConfigOption("transaction_timeout", "0", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("jit", "off", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("synchronous_commit",
					mw_guc_synchronous_commit == SYNCHRONOUS_COMMIT_OFF ? "off" :
					mw_guc_synchronous_commit == SYNCHRONOUS_COMMIT_LOCAL_FLUSH ? "local" : "on",
					PGC_USERSET, PGC_S_OVERRIDE);
}

/* A transaction of our own that must not take the process down; false where it failed */
static bool
in_transaction(bool (*what) (void), bool *result)
{
	volatile bool ok = false;

	PG_TRY();
	{
		StartTransactionCommand();
		SPI_connect();
		PushActiveSnapshot(GetTransactionSnapshot());
		*result = what();
		SPI_finish();
		PopActiveSnapshot();
		CommitTransactionCommand();
		mw_sums_committed();
		ok = true;
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		HOLD_INTERRUPTS();
		AbortCurrentTransaction();
		mw_record_locks_lost();
		RESUME_INTERRUPTS();
		mw_sums_reset();
	}
	PG_END_TRY();
	return ok;
}

static bool
recover(void)
{
	mw_record_recover();
	return true;
}

static bool
installed(void)
{
	if (!OidIsValid(get_extension_oid("mw", true)))
		return false;
	mw_record_recover();
	return true;
}

/*
 * lock_timeout sends this signal, and so does whoever cancels all that pg_stat_activity
 * shows.  There is no statement to cancel here, and callers of others in the round.
 */
static void
cancel_lock_wait(SIGNAL_ARGS)
{
	if (get_timeout_indicator(LOCK_TIMEOUT, false))
		StatementCancelHandler(postgres_signal_arg);
}

/* Ready to work: connected, registered, with libcurl and what there is to wait for */
static WaitEventSet *
begin(int place)
{
	WaitEventSet *waits;
	Oid			db;
	char		why[256];
	bool		result = false;

	memcpy(&db, MyBgworkerEntry->bgw_extra, sizeof(Oid));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, cancel_lock_wait);
	BackgroundWorkerUnblockSignals();
	gate = &mw_shared->gates[place];
	before_shmem_exit(not_come, ObjectIdGetDatum(db));
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, 0);

	sit_down();
	round_cxt = AllocSetContextCreate(TopMemoryContext, "mw round", ALLOCSET_DEFAULT_SIZES);
	own_settings();
	if (!mw_http_init(why, sizeof(why)))
		ereport(FATAL, (errcode(ERRCODE_MW_NOT_AVAILABLE), errmsg("mw gateway cannot use libcurl: %s", why)));
	mw_route_init();
	if (!in_transaction(installed, &result) || !result)
		ereport(FATAL, (errcode(ERRCODE_MW_NOT_AVAILABLE), errmsg("mw gateway: extension mw is not in this database")));

	waits = MW_CREATE_WAIT_SET(3);
	AddWaitEventToSet(waits, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(waits, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(waits, WL_SOCKET_READABLE, mw_http_fd(), NULL, NULL);
	return waits;
}

/* Of two times in ms; negative: never */
static long
sooner(long a, long b)
{
	return a < 0 ? b : b < 0 ? a : Min(a, b);
}

void
mw_gateway_main(Datum arg)
{
	WaitEventSet *waits = begin(DatumGetInt32(arg));
	MwInstant	last_work = mw_now();
	MwInstant	last_sweep = {0};
	MwInstant	recover_at = {0};
	bool		more_to_sweep = true;
	bool		result = false;

	mw_expiry_begin();

	for (;;)
	{
		List	   *work;
		long		timeout;
		long		ms;
		WaitEvent	event;

		ResetLatch(MyLatch);
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(round_cxt);
		MemoryContextSwitchTo(round_cxt);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			own_settings();
		}
		if (ShutdownRequestPending || gate->leave)
			wind_down();

		mw_http_drive();
		work = list_concat(mw_flights_ended(), mw_flights_queued(gate));
		work = list_concat(work, mw_share_due(&ms));
		while (work != NIL)
		{
			last_work = mw_now();
			work = mw_round_do(gate, work);
			if (work == NIL)
				work = mw_share_due(&ms);
		}
		pgstat_report_stat(false);

		if (gate->sweep || more_to_sweep || mw_ms_since(last_sweep) >= SWEEP_EVERY_MS)
		{
			gate->sweep = false;
			last_sweep = mw_now();
			more_to_sweep = in_transaction(mw_sweep, &result) && result;
			/* of its own, so that a tenant's setting that makes no sense stops nothing else */
			more_to_sweep |= in_transaction(mw_sweep_ledger, &result) && result;
			if (mw_sweep_took_sums())
				mw_counters_forget(MyDatabaseId);
		}

		if (gate->look)
		{
			gate->look = false;
			last_work = mw_now();
			mw_expiry_look();
		}
		if (mw_expiry_ms() == 0 && !in_transaction(mw_expiry_tell, &result))
			mw_expiry_failed();

		if (mw_sums_something_to_tell() && in_transaction(mw_sums_tell, &result))
			mw_sums_told();

		/* what an idle gateway does: make good, let go of its locks, leave */
		timeout = sooner(mw_http_timeout_ms(), ms);
		if (mw_expiry_pending())
			timeout = sooner(timeout, mw_expiry_ms());
		if (dlist_is_empty(mw_flights()) && mw_round_unrecorded())
		{
			/* until it can be written: a disk that was full has room again some day */
			if (mw_passed(recover_at))
			{
				recover_at = mw_after_ms(RECOVER_EVERY_MS);
				if (in_transaction(recover, &result))
					mw_round_recovered();
			}
			if (mw_round_unrecorded())
				timeout = sooner(timeout, mw_ms_until(recover_at));
		}
		if (dlist_is_empty(mw_flights()))
		{
			long		idle = mw_ms_since(last_work);
			long		limit = mw_guc_gateway_idle_s * 1000L;

			if (idle >= UNLOCK_AFTER_MS)
				mw_record_lock_tables(false);
			if (idle >= limit && !mw_expiry_pending())
			{
				bool		empty;

				LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
				if ((empty = gate->head < 0 && !gate->look))
					gate->pid = 0, gate->latch = NULL;
				LWLockRelease(mw_shared->lock);
				if (empty)
				{
					mw_http_close();
					proc_exit(0);
				}
				continue;
			}
			ms = idle < UNLOCK_AFTER_MS ? UNLOCK_AFTER_MS - idle : limit - idle;
			if (ms > 0)
				timeout = sooner(timeout, ms);
		}
		timeout = sooner(timeout, more_to_sweep ? 0 : Max(SWEEP_EVERY_MS - mw_ms_since(last_sweep), 0));
		MemoryContextSwitchTo(TopMemoryContext);
		if (timeout != 0)		/* what has just been recorded leaves in the next turn */
			WaitEventSetWait(waits, timeout, &event, 1, mw_wait_event());
	}
}
