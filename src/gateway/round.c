/*
 * round.c - what one turn of the gateway's loop does: record, then carry out.
 *
 * All work of a turn is one transaction; after its commit, and not before,
 * requests leave and answers are handed out.  A round that cannot commit is done
 * again item by item, so that an ERROR fails the request that caused it and no
 * other.
 */
#include "mw.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/http.h"
#include "gateway/shm.h"
#include "util/faults.h"

/* One transaction for all of "work" */
static void
write_round(List *work)
{
	ListCell   *lc;
	bool		calls = false;

	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	mw_sums_reset();
	mw_route_round();

	foreach(lc, work)
	{
		MwWork		what = ((MwFlight *) lfirst(lc))->w->work;

		calls |= what != MW_WORK_LOAD && what != MW_WORK_ASK;
	}
	if (calls)
		mw_record_lock_tables(true);

	/* sums are read before this round adds to them: the counters get it after the commit */
	foreach(lc, work)
	{
		MwFlight   *f = lfirst(lc);

		f->send = f->resolved = false;
		if (f->w->work == MW_WORK_LOAD)
			mw_sums_load(f);
		else if (f->ended)
		{
			if (f->w->work == MW_WORK_CALL)
				mw_record_outcome(f);
		}
		else if (f->w->work == MW_WORK_BOOK)
			mw_record_booking(f);
		else if (f->w->work == MW_WORK_RECORD)
			mw_record_bare(f);
		else
		{
			f->route = mw_route_find(f->w->serverid, f->w->roleid);
			if (f->route->error != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("%s", f->route->error), errhint("%s", f->route->hint)));
			f->provider = f->route->provider;
			if (f->w->work == MW_WORK_CALL)
				mw_record_attempt(f);
			else
				f->send = true;
		}
	}
	mw_sums_write();
	mw_fault("commit");

	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
	mw_sums_committed();
}

/* Do it; false, with the reason, where it cannot be committed */
static bool
try_round(List *work, int *sqlstate, char *why, size_t whylen, char *hint, size_t hintlen)
{
	volatile bool done = false;
	MemoryContext old = CurrentMemoryContext;

	PG_TRY();
	{
		write_round(work);
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *e;

		MemoryContextSwitchTo(mw_round_context());
		e = CopyErrorData();
		FlushErrorState();
		HOLD_INTERRUPTS();
		AbortCurrentTransaction();
		mw_record_locks_lost();
		RESUME_INTERRUPTS();
		mw_sums_reset();
		*sqlstate = e->sqlerrcode;
		strlcpy(why, e->message, whylen);
		strlcpy(hint, e->hint ? e->hint : "", hintlen);
		ereport(LOG, (errcode(e->sqlerrcode),
					  errmsg("mw gateway: a round of %d could not be recorded: %s", list_length(work), e->message)));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	return done;
}

/* False where it could not even begin: it has ended then */
static bool
start_transfer(MwFlight *f)
{
	MwWire	   *w = f->w;
	char		why[256] = "";
	MwHttpRequest req = {
		.url = f->route->url,
		.auth_header = f->route->auth_header,
		.body = mw_wire_string(w, body),
		.body_len = w->body_len,
		.timeout_ms = Max(mw_ms_until(w->deadline), 1),
		.connect_timeout_ms = f->route->connect_timeout_ms,
		.stall_ms = f->route->stall_ms,
		.stall_bytes = f->route->stall_bytes,
		.max_response = f->route->max_response,
		.allow_private = f->route->allow_private,
		.ca_file = f->route->ca_file,
		.client_cert = f->route->client_cert,
		.client_key = f->route->client_key,
		.tls13 = f->route->tls13,
		.proxy = f->route->proxy,
		.afresh = w->afresh,
		.owner = f,
	};

	PG_TRY();
	{
		mw_fault("gateway_send");
		f->transfer = mw_http_start(&req, why, sizeof(why));
	}
	PG_CATCH();
	{
		/* nothing left, and no transaction is open: this one alone fails */
		ErrorData  *e;

		MemoryContextSwitchTo(mw_round_context());
		e = CopyErrorData();
		FlushErrorState();
		strlcpy(why, e->message, sizeof(why));
		f->transfer = NULL;
		ereport(LOG, (errcode(e->sqlerrcode), errmsg("mw gateway: a request could not be sent: %s", e->message)));
	}
	PG_END_TRY();
	f->in_flight = f->transfer != NULL;
	if (!f->in_flight)
	{
		MwHttpResult h = {.kind = MW_HTTP_NOT_SENT, .retry_after_ms = -1};

		strlcpy(h.error, why, sizeof(h.error));
		mw_flight_judge(f, &h);
	}
	return f->in_flight;
}

/*
 * The commit has happened: shared memory says the same.  For the whole round
 * before anything else is done, and with nothing that could fail, so that the two
 * never differ, whatever happens to this process from here on.
 */
static void
follow_commit(MwFlight *f)
{
	MwWire	   *w = f->w;

	switch (w->work)
	{
		case MW_WORK_LOAD:
			f->bill.kind = MW_OUTCOME_OK;
			for (int i = 0; i < w->hold.n; i++)
				if (w->hold.windows[i])
					(void) mw_counters_load(&w->hold.key[i], MyDatabaseId, &f->load[i], w->hold.windows[i], &w->when, f->settled_at);
			break;
		case MW_WORK_RECORD:
			f->bill.kind = MW_OUTCOME_OK;
			break;
		case MW_WORK_ASK:
			break;
		case MW_WORK_BOOK:
			{
				MwSlot	   *s = &mw_shared->slots[f->slot];
				MwAmounts	booked = {.requests = f->booked};
				MwHold		counted = w->hold;

				/* first what is settled, then what is no longer reserved: in between the sum is too high, never too low */
				counted.n = w->counts_requests & 1 << 1 ? 2 : 1;
				mw_counters_settle(&counted, NULL, &booked, &w->when, f->settled_at);
				if (f->extra > 0)
					mw_counters_booked(mw_booking_key(w), f->extra);
				mw_counters_settle(&w->hold, &w->hold.amount, NULL, NULL, 0);
				f->extra = 0;
				LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
				s->hold.amount = (MwAmounts) {0};
				LWLockRelease(mw_shared->lock);
				f->bill.kind = MW_OUTCOME_OK;
				break;
			}
		case MW_WORK_CALL:
			if (f->ended)
				mw_flight_settle(f);
			else if (f->send)
				mw_counters_begin(&w->hold, &w->when, f->settled_at);
			break;
	}
	f->recorded = true;
}

/* And then: requests leave, answers are handed out */
static List *
carry_out(MwFlight *f)
{
	List	   *next = NIL;

	if (f->send)
	{
		if (!start_transfer(f))
			next = lappend(next, f);
		return next;
	}
	if (f->w->work == MW_WORK_CALL)
		next = mw_share_end(f, f->ended);
	mw_flight_reply(f);
	return next;
}

static bool unrecorded;

/* Whether outcomes are waiting for mw_record_recover */
bool
mw_round_unrecorded(void)
{
	return unrecorded;
}

void
mw_round_recovered(void)
{
	unrecorded = false;
}

/*
 * Loads come first, in the tables and in memory: where a call ends that its
 * scope had no limit for when it began, the scope's counter must be there
 * before it is added to, and hold the sum of before.
 */
static List *
loads_first(List *work)
{
	List	   *loads = NIL;
	List	   *rest = NIL;
	ListCell   *lc;

	foreach(lc, work)
	{
		if (((MwFlight *) lfirst(lc))->w->work == MW_WORK_LOAD)
			loads = lappend(loads, lfirst(lc));
		else
			rest = lappend(rest, lfirst(lc));
	}
	return list_concat(loads, rest);
}

/* Record and carry out a list of flights; what has to be done next because of it comes back */
List *
mw_round_do(MwGate *gate, List *work)
{
	int			sqlstate;
	char		why[256];
	char		hint[MW_MAX_HINT];
	List	   *next = NIL;
	ListCell   *lc;

	work = loads_first(work);
	gate->rounds++;
	gate->records += list_length(work);
	if (try_round(work, &sqlstate, why, sizeof(why), hint, sizeof(hint)))
	{
		gate->commits++;
		foreach(lc, work)
			follow_commit(lfirst(lc));
		foreach(lc, work)
			next = list_concat(next, carry_out(lfirst(lc)));
	}
	else if (list_length(work) > 1)
	{
		foreach(lc, work)
			mw_flight_unhold(lfirst(lc));
		foreach(lc, work)
			next = list_concat(next, mw_round_do(gate, list_make1(lfirst(lc))));
	}
	else
	{
		/*
		 * This one cannot be recorded.  What has not left is refused; what
		 * has left and ended is unknown, charged at its reservation: in memory
		 * here, and in the table, where its row says "running", by
		 * mw_record_recover as soon as nothing is in flight.
		 */
		MwFlight   *f = linitial(work);

		mw_flight_unhold(f);
		next = mw_share_end(f, false);
		if (f->ended)
		{
			mw_bill_unknown(&f->bill, f->w->prompt_tokens, &f->w->price, mw_wire_reserved(f->w));
			mw_flight_settle(f);
			f->body = NULL;
			snprintf(f->reply.error, sizeof(f->reply.error), "its outcome could not be recorded: %s", why);
			unrecorded = true;
			mw_flight_reply(f);
		}
		else
			mw_flight_refuse(f, sqlstate, why, hint);
	}
	return next;
}
