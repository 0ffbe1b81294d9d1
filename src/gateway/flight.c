/*
 * flight.c - one exchange, from the queue to the reply: what came back, what it
 * costs, who gets the answer.
 *
 * An MwFlight is the gateway's own record of a request and lives in a context
 * that outlasts rounds; its slot and payload are the gateway's from TAKEN to
 * DONE.  Here shared memory is changed, under mw_shared->lock for slots and the
 * counters' own locks for budgets; nothing here touches a table.
 */
#include "mw.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "gateway/bill.h"
#include "gateway/breaker.h"
#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/http.h"
#include "gateway/shm.h"
#include "util/json.h"

/*
 * All that we have taken and not answered.  A flight is linked in here under the
 * lock that takes its slot, with nothing that could fail: should this process
 * end now, its caller gets an answer (mw_flights_lost).
 */
static dlist_head flights = DLIST_STATIC_INIT(flights);
static MemoryContext flight_cxt;

MemoryContext
mw_flight_context(void)
{
	if (flight_cxt == NULL)
		flight_cxt = AllocSetContextCreate(TopMemoryContext, "mw flights", ALLOCSET_DEFAULT_SIZES);
	return flight_cxt;
}

/* All flights, for the loop's own look-arounds; not to be changed */
dlist_head *
mw_flights(void)
{
	return &flights;
}

/* ---------- replies ---------- */

/*
 * Shared memory for a reply, or InvalidDsaPointer.  That no segment can be made
 * (a small /dev/shm is full) is an ERROR even for DSA_ALLOC_NO_OOM, and one that
 * flew from here would take every other call of the database down with it.
 */
static dsa_pointer
reply_memory(Size size)
{
	static bool asking;
	volatile dsa_pointer p = InvalidDsaPointer;
	MemoryContext old = CurrentMemoryContext;

	/* while a process exits no error can be caught: one that got this far has no second try */
	if (asking)
		return p;
	asking = true;
	PG_TRY();
	{
		p = dsa_allocate_extended(mw_dsa(), size, DSA_ALLOC_NO_OOM);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		FlushErrorState();
		LWLockReleaseAll();		/* those of the area; we hold none */
	}
	PG_END_TRY();
	asking = false;
	return p;
}

/*
 * Hand a flight's reply to its caller, or, where that has left, clear up after
 * it.  What is still reserved goes back to the caller with the reply.  Never
 * raises: where there is no memory for a reply the caller is told so by its
 * absence.
 */
void
mw_flight_reply(MwFlight *f)
{
	MwSlot	   *s = &mw_shared->slots[f->slot];
	Size		size = sizeof(MwWireReply) + Max(f->body_len, 0) + 1;
	dsa_pointer p;
	dsa_pointer request = InvalidDsaPointer;
	bool		gone;
	MwSlot		was;

	f->reply.kind = f->bill.kind;
	f->reply.usage = f->bill.usage;
	f->reply.priced = f->bill.priced;
	f->reply.cost = f->bill.cost;
	f->reply.body_len = f->body ? f->body_len : -1;
	p = reply_memory(size);
	if (!DsaPointerIsValid(p))
	{
		/* recorded all the same: a repeat of its request_id gets it */
		f->reply.refused = true;
		f->reply.sqlstate = ERRCODE_OUT_OF_MEMORY;
		strlcpy(f->reply.error, "no shared memory is left for the answer", sizeof(f->reply.error));
		strlcpy(f->reply.hint, "Where the call named a request_id, its answer is recorded: repeat it.", sizeof(f->reply.hint));
		f->reply.body_len = -1;
		f->body = NULL;
		p = reply_memory(sizeof(MwWireReply) + 1);
	}
	if (DsaPointerIsValid(p))
	{
		MwWireReply *r = dsa_get_address(mw_dsa(), p);

		*r = f->reply;
		if (f->body)
		{
			memcpy(mw_reply_body(r), f->body, f->body_len);
			mw_reply_body(r)[f->body_len] = '\0';
		}
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
	}
	LWLockRelease(mw_shared->lock);

	if (!gone)
		SetLatch(was.owner);	/* not under the lock, which it would wait for at once */
	else
	{
		if (was.owns)
			mw_counters_settle(&was.hold, &was.hold.amount, NULL, NULL, 0);
		dsa_free(mw_dsa(), request);
		if (DsaPointerIsValid(p))
			dsa_free(mw_dsa(), p);
	}
	dlist_delete(&f->node);
	list_free(f->followers);
	pfree(f);
}

void
mw_flight_refuse(MwFlight *f, int sqlstate, const char *why, const char *hint)
{
	f->bill.kind = MW_OUTCOME_NOT_SENT;
	f->reply.refused = true;
	f->reply.sqlstate = sqlstate;
	strlcpy(f->reply.error, why, sizeof(f->reply.error));
	strlcpy(f->reply.hint, hint, sizeof(f->reply.hint));
	f->body = NULL;
	mw_flight_reply(f);
}

/*
 * Carry an outcome that was committed over to shared memory.  In the slot stands
 * what remains reserved, so that every later reader sees it spent once.
 */
void
mw_flight_settle(MwFlight *f)
{
	MwSlot	   *s = &mw_shared->slots[f->slot];
	MwWire	   *w = f->w;
	bool		used = f->bill.kind == MW_OUTCOME_OK || f->bill.kind == MW_OUTCOME_UNKNOWN;
	MwAmounts	ended = {0};

	if (used)
		ended = w->hold.amount;
	else if (f->bill.billed.requests > 0)
		ended.requests = w->hold.amount.requests;
	mw_counters_settle(&w->hold, &ended, &f->bill.billed, &w->when, f->settled_at);
	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	mw_amounts_subtract(&s->hold.amount, &ended);
	LWLockRelease(mw_shared->lock);
	f->reply.reservation_used = used;
	f->reply.counted = f->bill.billed.requests > 0;
}

void
mw_flight_unhold(MwFlight *f)
{
	if (f->extra > 0)
		mw_counters_unhold_block(mw_booking_key(f->w), f->extra);
	f->extra = 0;
}

/* ---------- taking requests ---------- */

/* Everything queued for us becomes a flight; those that join another wait for it, the rest is returned. */
List *
mw_flights_queued(MwGate *gate)
{
	MemoryContext cxt = mw_flight_context();
	dlist_node *last = dlist_is_empty(&flights) ? NULL : dlist_tail_node(&flights);
	List	   *todo = NIL;

	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	while (gate->head >= 0)
	{
		MwSlot	   *s = &mw_shared->slots[gate->head];
		MwFlight   *f = MemoryContextAllocExtended(cxt, sizeof(MwFlight), MCXT_ALLOC_ZERO | MCXT_ALLOC_NO_OOM);

		if (f == NULL)
			break;				/* it stays queued */
		f->slot = gate->head;
		f->reply.retry_after_ms = -1;
		gate->head = s->next;
		if (gate->head < 0)
			gate->tail = -1;
		s->state = MW_SLOT_TAKEN;
		dlist_push_tail(&flights, &f->node);
	}
	LWLockRelease(mw_shared->lock);

	/* one after another: each may join those before it, and be answered and gone */
	for (;;)
	{
		MwFlight   *f;

		if (last != NULL ? !dlist_has_next(&flights, last) : dlist_is_empty(&flights))
			break;
		f = dlist_container(MwFlight, node, last != NULL ? dlist_next_node(&flights, last) : dlist_head_node(&flights));
		f->w = dsa_get_address(mw_dsa(), mw_shared->slots[f->slot].request);
		if (f->w->work == MW_WORK_CALL && mw_share_join(f))
		{
			/* it follows, or has been answered and is gone */
			if (last != NULL ? dlist_has_next(&flights, last) && dlist_next_node(&flights, last) == &f->node :
				!dlist_is_empty(&flights) && dlist_head_node(&flights) == &f->node)
				last = &f->node;
			continue;
		}
		last = &f->node;
		todo = lappend(todo, f);
	}
	return todo;
}

/* ---------- ends of transfers ---------- */

/* Judge what came back: from here on it has ended, and waits for its record */
void
mw_flight_judge(MwFlight *f, MwHttpResult *h)
{
	MwWire	   *w = f->w;

	f->body = NULL;
	f->body_len = 0;
	if (h->body != NULL && h->kind == MW_HTTP_COMPLETE)
	{
		int			len = (int) h->len;
		char	   *copy = MemoryContextAllocExtended(mw_round_context(), len + 1, MCXT_ALLOC_HUGE);
		MemoryContext old = MemoryContextSwitchTo(mw_round_context());

		memcpy(copy, h->body, len);
		free(h->body);			/* it may be large: one of it is enough */
		h->body = NULL;
		copy[len] = '\0';
		f->body = mw_json_sanitize(copy, &len);
		f->body_len = len;
		MemoryContextSwitchTo(old);
	}
	mw_bill_make(&f->bill, h->kind, h->status, f->body, f->body_len, h->error, f->provider,
				 w->prompt_tokens, &w->price, mw_wire_reserved(w));
	if (f->body != NULL && f->bill.kind != MW_OUTCOME_OK)
	{
		/* judged, and of no use to anybody: neither handed out nor kept */
		f->body = NULL;
		f->body_len = 0;
	}
	f->reply.retry_after_ms = h->retry_after_ms;
	f->reply.retry_forbidden = h->retry_forbidden || f->bill.outcome.hopeless;
	f->reply.timed_out = h->timed_out;
	f->reply.connect_failed = h->connect_failed;
	f->reply.private_host = h->private_host;
	f->reply.http_status = f->bill.http_status;
	strlcpy(f->reply.error, f->bill.error, sizeof(f->reply.error));
	if (h->status == 401)
		mw_route_forget();
	mw_breaker_tell(&mw_breakers_shared, w->serverid, w->breaker,
					h->kind == MW_HTTP_COMPLETE && f->bill.http_status < 500 ? MW_HEALTH_ALIVE :
					h->kind == MW_HTTP_COMPLETE || h->server_fault ? MW_HEALTH_FAILED : MW_HEALTH_NOTHING);
	f->recorded = false;
	f->in_flight = false;
	f->transfer = NULL;
	f->ended = true;
	f->settled_at = mw_calendar_now();
}

/* Judging needs memory of the size of the answer; without it the outcome of this one is unknown, and nobody else's */
static void
judge_or_lose(MwFlight *f, MwHttpResult *h)
{
	MemoryContext old = CurrentMemoryContext;

	PG_TRY();
	{
		mw_flight_judge(f, h);
	}
	PG_CATCH();
	{
		MwHttpResult lost = {.kind = MW_HTTP_UNKNOWN, .retry_after_ms = -1};

		MemoryContextSwitchTo(old);
		FlushErrorState();
		strlcpy(lost.error, "out of memory for the answer", sizeof(lost.error));
		mw_flight_judge(f, &lost);
	}
	PG_END_TRY();
}

List *
mw_flights_ended(void)
{
	List	   *ended = NIL;
	MwHttpResult result;
	MemoryContext old = MemoryContextSwitchTo(mw_round_context());

	while (mw_http_next(&result))
	{
		MwFlight   *f = result.owner;

		judge_or_lose(f, &result);
		free(result.body);
		ended = lappend(ended, f);
	}
	MemoryContextSwitchTo(old);
	return ended;
}

/* ---------- the end ---------- */

/*
 * The process ends with these in its hands: in memory only, no table can be
 * written any more.  What a round had committed is handed out; what may have
 * left, or has a row that says so, is charged at its reservation, which is what
 * the next gateway will write; the rest is refused.
 */
void
mw_flights_lost(void)
{
	while (!dlist_is_empty(&flights))
	{
		MwFlight   *f = dlist_head_element(MwFlight, node, &flights);
		bool		done = f->recorded && !f->send;

		f->followers = NIL;		/* they are here too */
		if (done)
		{
			mw_flight_reply(f);
			continue;
		}
		mw_flight_unhold(f);
		if (f->in_flight || f->ended || f->recorded)
		{
			mw_bill_unknown(&f->bill, f->w->prompt_tokens, &f->w->price, mw_wire_reserved(f->w));
			f->settled_at = mw_calendar_now();
			strlcpy(f->reply.error, "the gateway ended while the call was in flight", sizeof(f->reply.error));
			f->body = NULL;
			mw_flight_settle(f);
			f->recorded = true;	/* once, should the next line not come back */
			f->send = false;
			mw_flight_reply(f);
		}
		else
			mw_flight_refuse(f, ERRCODE_ADMIN_SHUTDOWN, "the gateway ended before the request left; nothing was sent", "Try again.");
	}
}
