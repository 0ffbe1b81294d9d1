/*
 * worker.c - the gateway's loop: queue, transfers, rounds.
 *
 * One process a database owns the network and all durable writes about money.
 * Each turn of the loop takes what callers have queued and what transfers have
 * ended, and puts all of it into one transaction, a round: attempt rows for the
 * new, outcomes for the ended.  After its commit, and not before, requests leave
 * and answers are handed out.  A round that cannot commit is done again item by
 * item, so that an ERROR fails the request that caused it and no other.
 *
 * Nothing in the loop waits: the only sleep is on the latch, libcurl's
 * descriptor and the postmaster together.
 *
 * An MwFlight is this process's own record of a request and lives in a context
 * that outlasts rounds; its slot and payload are ours from TAKEN to DONE.
 */
#include "mw.h"

#include <math.h>

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
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/http.h"
#include "gateway/shm.h"
#include "guc.h"
#include "util/faults.h"
#include "util/json.h"

#define SWEEP_EVERY_MS	60000
#define UNLOCK_AFTER_MS	200		/* how long an idle gateway keeps DROP EXTENSION waiting */

PGDLLEXPORT void mw_gateway_main(Datum arg);

static MwGate *gate;
static List *flights;			/* of MwFlight: all that we have taken and not answered */
static MemoryContext flight_cxt;
static MemoryContext round_cxt;

MemoryContext
mw_round_context(void)
{
	return round_cxt;
}

/* ---------- replies ---------- */

/*
 * Hand a flight's reply to its caller, or, where that has left, clear up after
 * it.  What is still reserved goes back to the caller with the reply.
 */
static void
reply(MwFlight *f)
{
	MwSlot	   *s = &mw_shared->slots[f->slot];
	Size		size = sizeof(MwWireReply) + Max(f->body_len, 0) + 1;
	dsa_pointer p;
	dsa_pointer request = InvalidDsaPointer;
	MwWireReply *r;
	bool		gone;
	MwSlot		was;

	f->reply.kind = f->kind;
	f->reply.usage = f->usage;
	f->reply.body_len = f->body ? f->body_len : -1;
	p = dsa_allocate_extended(mw_dsa(), size, DSA_ALLOC_NO_OOM);
	if (!DsaPointerIsValid(p))
	{
		/* recorded all the same: a repeat of its request_id gets it */
		f->reply.refused = true;
		f->reply.sqlstate = ERRCODE_OUT_OF_MEMORY;
		strlcpy(f->reply.error, "no shared memory is left for the answer", sizeof(f->reply.error));
		f->reply.body_len = -1;
		f->body = NULL;
		p = dsa_allocate(mw_dsa(), sizeof(MwWireReply) + 1);
	}
	r = dsa_get_address(mw_dsa(), p);
	*r = f->reply;
	if (f->body)
	{
		memcpy(mw_reply_body(r), f->body, f->body_len);
		mw_reply_body(r)[f->body_len] = '\0';
	}

	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	was = *s;
	gone = s->abandoned;
	if (gone)
	{
		request = s->request;
		s->request = InvalidDsaPointer;
		s->state = MW_SLOT_FREE;
		s->next = mw_shared->free;
		mw_shared->free = f->slot;
	}
	else
	{
		s->reply = p;
		s->state = MW_SLOT_DONE;
		SetLatch(s->owner);
	}
	LWLockRelease(mw_shared->lock);

	if (gone)
	{
		mw_counters_settle(was.scope, was.limited, was.nscopes, was.tokens, was.requests, 0, 0);
		dsa_free(mw_dsa(), request);
		dsa_free(mw_dsa(), p);
	}
	flights = list_delete_ptr(flights, f);
	list_free(f->followers);
	pfree(f);
}

static void
refuse(MwFlight *f, int sqlstate, const char *why)
{
	f->kind = MW_OUTCOME_NOT_SENT;
	f->reply.refused = true;
	f->reply.sqlstate = sqlstate;
	strlcpy(f->reply.error, why, sizeof(f->reply.error));
	f->body = NULL;
	reply(f);
}

/*
 * Carry an outcome that was committed over to shared memory.  In the slot stands
 * what remains reserved, so that every later reader sees it spent once.
 */
static void
settle(MwFlight *f)
{
	MwSlot	   *s = &mw_shared->slots[f->slot];
	MwWire	   *w = f->w;
	bool		used = f->kind == MW_OUTCOME_OK || f->kind == MW_OUTCOME_UNKNOWN;
	int64		tokens = used ? w->reserved_tokens : 0;
	int64		requests = used || f->billed_requests > 0 ? w->reserved_requests : 0;

	mw_counters_settle(w->scope, w->limited, w->nscopes, tokens, requests, f->billed_tokens, f->billed_requests);
	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	s->tokens -= tokens;
	s->requests -= requests;
	LWLockRelease(mw_shared->lock);
	f->reply.reservation_used = used;
	f->reply.counted = f->billed_requests > 0;
}

/* ---------- taking requests ---------- */

/* An equal miss in flight, or the very call of an earlier run of the same request_id */
static MwFlight *
leader_for(MwFlight *f)
{
	MwWire	   *w = f->w;
	ListCell   *lc;

	foreach(lc, flights)
	{
		MwFlight   *other = lfirst(lc);
		MwWire	   *o = other->w;

		if (other == f || other->leader != NULL || o->work != MW_WORK_CALL ||
			strcmp(mw_wire_given(w, tenant), mw_wire_given(o, tenant)) != 0)
			continue;
		if (w->request_named && o->request_named && w->nth == o->nth &&
			memcmp(&w->call_key, &o->call_key, sizeof(MwKey)) == 0 &&
			strcmp(mw_wire_given(w, request_id), mw_wire_given(o, request_id)) == 0)
		{
			f->same_call = true;
			return other;
		}
		if (w->share && o->cacheable && w->cache_epoch == o->cache_epoch &&
			memcmp(&w->cache_key, &o->cache_key, sizeof(MwKey)) == 0 &&
			w->serverid == o->serverid && w->roleid == o->roleid)
			return other;
	}
	return NULL;
}

/* Everything queued for us becomes a flight; those that join another wait for it, the rest is returned. */
static List *
take_queue(void)
{
	List	   *taken = NIL;
	List	   *todo = NIL;
	ListCell   *lc;
	MemoryContext old = MemoryContextSwitchTo(flight_cxt);

	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	while (gate->head >= 0)
	{
		MwSlot	   *s = &mw_shared->slots[gate->head];
		MwFlight   *f = MemoryContextAllocExtended(flight_cxt, sizeof(MwFlight), MCXT_ALLOC_ZERO | MCXT_ALLOC_NO_OOM);

		if (f == NULL)
			break;				/* it stays queued */
		f->slot = gate->head;
		gate->head = s->next;
		if (gate->head < 0)
			gate->tail = -1;
		s->state = MW_SLOT_TAKEN;
		f->w = dsa_get_address(mw_dsa(), s->request);
		taken = lappend(taken, f);
	}
	LWLockRelease(mw_shared->lock);

	foreach(lc, taken)
	{
		MwFlight   *f = lfirst(lc);

		flights = lappend(flights, f);
		f->reply.retry_after_ms = -1;
		if (f->w->work == MW_WORK_CALL && (f->leader = leader_for(f)) != NULL)
			f->leader->followers = lappend(f->leader->followers, f);
		else
			todo = lappend(todo, f);
	}
	list_free(taken);
	MemoryContextSwitchTo(old);
	return todo;
}

/* ---------- ends of transfers ---------- */

/* Our own count of a bill that says nothing usable */
static void
estimate(MwFlight *f)
{
	f->usage = f->outcome.usage;
	if (f->outcome.has_usage)
		return;
	memset(&f->usage, 0, sizeof(f->usage));
	f->usage.input_tokens = f->w->prompt_tokens;
	f->usage.output_tokens = 1 + f->body_len / 4;
	f->usage.estimated = true;
}

/* Judge what came back (invariant 5) and what it costs */
static void
judge(MwFlight *f, MwHttpResult *h)
{
	MwWire	   *w = f->w;
	bool		success;

	f->http_status = h->status;
	f->reply.retry_after_ms = h->retry_after_ms;
	f->reply.retry_forbidden = h->retry_forbidden;
	f->reply.timed_out = h->timed_out;
	f->reply.connect_failed = h->connect_failed;
	strlcpy(f->reply.error, h->error, sizeof(f->reply.error));
	memset(&f->outcome, 0, sizeof(f->outcome));

	if (h->body != NULL)
	{
		int			len = (int) h->len;
		char	   *copy = MemoryContextAllocExtended(round_cxt, len + 1, MCXT_ALLOC_HUGE);
		MemoryContext old = MemoryContextSwitchTo(round_cxt);

		memcpy(copy, h->body, len);
		copy[len] = '\0';
		f->body = mw_json_sanitize(copy, &len);
		f->body_len = len;
		MemoryContextSwitchTo(old);
	}

	switch (h->kind)
	{
		case MW_HTTP_NOT_SENT:
			f->kind = MW_OUTCOME_NOT_SENT;
			break;
		case MW_HTTP_UNKNOWN:
			f->kind = MW_OUTCOME_UNKNOWN;
			f->body = NULL;
			f->usage.input_tokens = w->prompt_tokens;
			f->usage.output_tokens = Max(w->reserved_tokens - w->prompt_tokens, 0);
			f->usage.estimated = true;
			f->billed_tokens = w->reserved_tokens;
			f->billed_requests = w->reserved_requests;
			break;
		case MW_HTTP_COMPLETE:
			if (f->body != NULL)
				f->provider->outcome(f->body, f->body_len, h->status, &f->outcome);
			success = h->status >= 200 && h->status < 300;
			if (f->outcome.error[0])
				strlcpy(f->reply.error, f->outcome.error, sizeof(f->reply.error));
			else if (!success && !f->reply.error[0])
				snprintf(f->reply.error, sizeof(f->reply.error), "HTTP status %d", h->status);
			if (f->outcome.inner_status)
				f->http_status = f->outcome.inner_status;
			f->kind = success && f->outcome.usable && !f->outcome.inner_status ? MW_OUTCOME_OK : MW_OUTCOME_FAILED;
			if (f->kind == MW_OUTCOME_OK || (success && !f->outcome.inner_status))
				estimate(f);	/* a complete 2xx is paid for, usable or not */
			else if (f->outcome.has_usage)
				f->usage = f->outcome.usage;
			f->billed_tokens = f->usage.input_tokens + f->usage.output_tokens;
			f->billed_requests = w->reserved_requests;
			if (h->status == 401)
				mw_route_forget();
			break;
	}
	f->reply.http_status = f->http_status;
	f->excess_tokens = Max(f->billed_tokens - w->reserved_tokens, 0);
	f->in_flight = false;
	f->transfer = NULL;
	f->ended = true;
}

static List *
take_ended(void)
{
	List	   *ended = NIL;
	MwHttpResult result;
	MemoryContext old = MemoryContextSwitchTo(round_cxt);

	while (mw_http_next(&result))
	{
		MwFlight   *f = result.owner;

		judge(f, &result);
		free(result.body);
		ended = lappend(ended, f);
	}
	MemoryContextSwitchTo(old);
	return ended;
}

/* ---------- rounds ---------- */

/* One transaction for all of "work" */
static void
write_round(List *work)
{
	ListCell   *lc;
	bool		calls = false;

	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	mw_record_reset();
	mw_route_round();

	foreach(lc, work)
		calls |= ((MwFlight *) lfirst(lc))->w->work != MW_WORK_LOAD;
	if (calls)
		mw_record_lock_tables(true);

	/* sums are read before this round adds to them: the counters get it after the commit */
	foreach(lc, work)
	{
		MwFlight   *f = lfirst(lc);

		if (f->w->work == MW_WORK_LOAD)
			mw_record_load(f);
	}
	foreach(lc, work)
	{
		MwFlight   *f = lfirst(lc);

		f->send = f->resolved = false;
		if (f->ended)
			mw_record_outcome(f);
		else if (f->w->work == MW_WORK_BOOK)
			mw_record_booking(f);
		else if (f->w->work == MW_WORK_RECORD)
			mw_record_bare(f);
		else if (f->w->work == MW_WORK_CALL)
		{
			f->route = mw_route_find(f->w->serverid, f->w->roleid);
			if (f->route->error != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("%s", f->route->error)));
			f->provider = f->route->provider;
			mw_record_attempt(f);
		}
	}
	mw_record_sums();
	mw_fault("commit");

	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
	gate->commits++;
}

/* Do it; false, with the reason, where it cannot be committed */
static bool
try_round(List *work, int *sqlstate, char *why, size_t whylen)
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

		MemoryContextSwitchTo(round_cxt);
		e = CopyErrorData();
		FlushErrorState();
		HOLD_INTERRUPTS();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
		*sqlstate = e->sqlerrcode;
		strlcpy(why, e->message, whylen);
		ereport(LOG, (errcode(e->sqlerrcode),
					  errmsg("mw gateway: a round of %d could not be recorded: %s", list_length(work), e->message)));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	return done;
}

/* What followed a flight: it shares what that has ended with, or goes on alone */
static List *
release_followers(MwFlight *f, bool share)
{
	List	   *alone = NIL;
	List	   *followers = f->followers;
	ListCell   *lc;

	f->followers = NIL;
	foreach(lc, followers)
	{
		MwFlight   *g = lfirst(lc);
		bool		good = f->kind == MW_OUTCOME_OK;

		g->leader = NULL;
		if (share && (g->same_call ? good || f->kind == MW_OUTCOME_UNKNOWN
					  : good ? f->outcome.cacheable : f->kind != MW_OUTCOME_UNKNOWN))
		{
			g->kind = f->kind;
			g->reply = f->reply;
			g->reply.reservation_used = g->reply.counted = false;
			g->reply.shared = !g->same_call;
			g->reply.recorded = g->same_call && good;
			if (g->same_call && !good)
			{
				g->kind = MW_OUTCOME_NOT_SENT;
				g->reply.unknown_before = true;
			}
			memset(&g->usage, 0, sizeof(g->usage));
			if (good)
				g->usage = f->usage;
			g->body = f->body;
			g->body_len = f->body_len;
			reply(g);
			continue;
		}
		g->w->share = false;	/* that answer was for its caller alone */
		g->same_call = false;
		alone = lappend(alone, g);
	}
	list_free(followers);
	return alone;
}

/* False where it could not even begin: it has ended then */
static bool
start_transfer(MwFlight *f)
{
	MwWire	   *w = f->w;
	TimestampTz now = GetCurrentTimestamp();
	char		why[256] = "";
	MwHttpRequest req = {
		.url = f->route->url,
		.auth_header = f->route->auth_header,
		.body = mw_wire_string(w, body),
		.body_len = w->body_len,
		.timeout_ms = Max((w->deadline - now) / 1000, 1),
		.connect_timeout_ms = f->route->connect_timeout_ms,
		.max_response = f->route->max_response,
		.allow_private = f->route->allow_private,
		.ca_file = f->route->ca_file,
		.proxy = f->route->proxy,
		.owner = f,
	};

	mw_fault("gateway_send");
	f->transfer = mw_http_start(&req, why, sizeof(why));
	f->in_flight = f->transfer != NULL;
	if (!f->in_flight)
	{
		MwHttpResult h = {.kind = MW_HTTP_NOT_SENT, .retry_after_ms = -1};

		strlcpy(h.error, why, sizeof(h.error));
		judge(f, &h);
	}
	return f->in_flight;
}

/* After the commit: shared memory follows, requests leave, answers are handed out */
static List *
carry_out(MwFlight *f)
{
	MwWire	   *w = f->w;
	MwKey		keys[MW_MAX_SCOPES];
	double		limits[MW_MAX_SCOPES];
	List	   *next = NIL;

	switch (w->work)
	{
		case MW_WORK_LOAD:
			f->kind = MW_OUTCOME_OK;
			for (int i = 0; i < w->nscopes; i++)
				if (w->limited[i])
					(void) mw_counters_load(&w->scope[i], MyDatabaseId, f->load_tokens[i], f->load_requests[i]);
			reply(f);
			break;
		case MW_WORK_RECORD:
			f->kind = MW_OUTCOME_OK;
			reply(f);
			break;
		case MW_WORK_BOOK:
			{
				int			n = mw_booking_scopes(w, keys, limits);
				MwSlot	   *s = &mw_shared->slots[f->slot];

				mw_counters_booked(keys, n, f->booked);
				mw_counters_settle(w->scope, w->limited, w->nscopes, 0, w->reserved_requests, 0, 0);
				if (isinf(w->limit_requests[0]) && n > 0)	/* the session's, which the tenant's sum includes */
					mw_counters_settle(w->scope, w->limited, 1, 0, 0, 0, f->booked);
				LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
				s->requests = 0;
				LWLockRelease(mw_shared->lock);
				f->kind = MW_OUTCOME_OK;
				reply(f);
				break;
			}
		case MW_WORK_CALL:
			if (f->ended)
			{
				settle(f);
				next = release_followers(f, true);
				reply(f);
			}
			else if (f->resolved)
			{
				next = release_followers(f, false);
				reply(f);
			}
			else if (!start_transfer(f))
				next = lappend(next, f);
			break;
	}
	return next;
}

/* Record and carry out a list of flights; what has to be done next because of it comes back */
static List *
do_round(List *work)
{
	int			sqlstate;
	char		why[256];
	List	   *next = NIL;
	ListCell   *lc;

	gate->rounds++;
	gate->records += list_length(work);
	if (try_round(work, &sqlstate, why, sizeof(why)))
	{
		foreach(lc, work)
			next = list_concat(next, carry_out(lfirst(lc)));
	}
	else if (list_length(work) > 1)
	{
		foreach(lc, work)
			next = list_concat(next, do_round(list_make1(lfirst(lc))));
	}
	else
	{
		/*
		 * This one cannot be recorded.  What has not left is refused; what
		 * has left and ended stays charged at its reservation, in memory here
		 * and, since its row says "running", in the table at the next start.
		 */
		MwFlight   *f = linitial(work);

		next = release_followers(f, false);
		if (f->ended)
		{
			f->kind = MW_OUTCOME_UNKNOWN;
			f->billed_tokens = f->w->reserved_tokens;
			f->billed_requests = f->w->reserved_requests;
			settle(f);
			f->body = NULL;
		}
		refuse(f, sqlstate, why);
	}
	return next;
}

/* ---------- coming and going ---------- */

static void
gone(int code, Datum arg)
{
	ListCell   *lc;
	List	   *left = list_copy(flights);

	/*
	 * What we had taken: charged at its reservation where it may have left,
	 * which is what the next gateway will write; refused where it has not.
	 */
	foreach(lc, left)
	{
		MwFlight   *f = lfirst(lc);

		if (f->in_flight || f->ended)
		{
			f->kind = MW_OUTCOME_UNKNOWN;
			f->billed_tokens = f->w->reserved_tokens;
			f->billed_requests = f->w->reserved_requests;
			strlcpy(f->reply.error, "the gateway ended while the call was in flight", sizeof(f->reply.error));
			f->body = NULL;
			settle(f);
			reply(f);
		}
		else
			refuse(f, ERRCODE_ADMIN_SHUTDOWN, "the gateway ended before the request left; nothing was sent");
	}

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

	foreach(lc, flights)
	{
		MwFlight   *f = lfirst(lc);
		MwHttpResult h = {.kind = MW_HTTP_UNKNOWN, .retry_after_ms = -1};

		if (!f->in_flight)
			continue;
		mw_http_abort(f->transfer);
		strlcpy(h.error, "the gateway was asked to leave while the call was in flight", sizeof(h.error));
		judge(f, &h);
		work = lappend(work, f);
	}
	if (work != NIL)
	{
		List	   *rest = do_round(work);

		foreach(lc, rest)
			refuse(lfirst(lc), ERRCODE_ADMIN_SHUTDOWN, "the gateway was asked to leave; nothing was sent");
	}
	mw_http_close();
	proc_exit(0);
}

static void
sit_down(int index)
{
	bool		taken;

	gate = &mw_shared->gates[index];
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
	ConditionVariableBroadcast(&mw_shared->changed);
}

static void
own_settings(void)
{
	SetConfigOption("search_path", "pg_catalog", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", "500ms", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("statement_timeout", "0", PGC_USERSET, PGC_S_OVERRIDE);
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
		ok = true;
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		HOLD_INTERRUPTS();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	return ok;
}

static bool
installed(void)
{
	if (!OidIsValid(get_extension_oid("mw", true)))
		return false;
	mw_record_recover();
	return true;
}

/* Milliseconds until a follower's own deadline; those past it are answered */
static long
expire_followers(void)
{
	TimestampTz now = GetCurrentTimestamp();
	long		next = -1;
	ListCell   *lc;

	foreach(lc, flights)
	{
		MwFlight   *f = lfirst(lc);
		long		ms;

		if (f->leader == NULL)
			continue;
		ms = (f->w->deadline - now) / 1000;
		if (ms <= 0)
		{
			f->leader->followers = list_delete_ptr(f->leader->followers, f);
			f->leader = NULL;
			f->kind = MW_OUTCOME_NOT_SENT;
			f->reply.timed_out = true;
			reply(f);			/* changes the list: look again at once */
			return 0;
		}
		next = next < 0 ? ms : Min(next, ms);
	}
	return next;
}

void
mw_gateway_main(Datum arg)
{
	WaitEventSet *waits;
	Oid			db;
	char		why[256];
	TimestampTz last_work;
	TimestampTz last_sweep = 0;
	bool		more_to_sweep = true;
	bool		result = false;

	memcpy(&db, MyBgworkerEntry->bgw_extra, sizeof(Oid));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, 0);

	sit_down(DatumGetInt32(arg));
	flight_cxt = AllocSetContextCreate(TopMemoryContext, "mw flights", ALLOCSET_DEFAULT_SIZES);
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
	last_work = GetCurrentTimestamp();

	for (;;)
	{
		List	   *work;
		long		timeout;
		long		ms;
		WaitEvent	event;

		ResetLatch(MyLatch);
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
		work = list_concat(take_ended(), take_queue());
		while (work != NIL)
		{
			last_work = GetCurrentTimestamp();
			work = do_round(work);
		}
		ms = expire_followers();
		pgstat_report_stat(false);

		/* what can wait: locks of an idle gateway, rows that nobody needs, leaving */
		timeout = mw_http_timeout_ms();
		if (ms >= 0)
			timeout = timeout < 0 ? ms : Min(timeout, ms);
		if (flights == NIL)
		{
			TimestampTz now = GetCurrentTimestamp();
			long		idle = (now - last_work) / 1000;
			long		limit = mw_guc_gateway_idle_s * 1000L;

			if (idle >= UNLOCK_AFTER_MS)
				mw_record_lock_tables(false);
			if (gate->sweep || more_to_sweep || (now - last_sweep) / 1000 >= SWEEP_EVERY_MS)
			{
				gate->sweep = false;
				last_sweep = now;
				more_to_sweep = in_transaction(mw_record_sweep, &result) && result;
			}
			if (idle >= limit)
			{
				bool		empty;

				LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
				if ((empty = gate->head < 0))
					gate->pid = 0, gate->latch = NULL;
				LWLockRelease(mw_shared->lock);
				if (empty)
				{
					mw_http_close();
					proc_exit(0);
				}
				continue;
			}
			ms = idle < UNLOCK_AFTER_MS ? UNLOCK_AFTER_MS - idle : Min(limit - idle, SWEEP_EVERY_MS);
			if (more_to_sweep)
				ms = 0;
			timeout = timeout < 0 ? ms : Min(timeout, ms);
		}
		MemoryContextSwitchTo(TopMemoryContext);
		WaitEventSetWait(waits, timeout, &event, 1, mw_wait_event());
	}
}
