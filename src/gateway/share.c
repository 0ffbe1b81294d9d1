/*
 * share.c - one exchange for equal calls: who joins whom, who leads next.
 *
 * Two kinds of call join one in flight instead of being sent.  An equal miss of
 * the same tenant, server and role shares the answer where that may be cached,
 * and counts as a hit.  The very call of an earlier run of the same request_id,
 * which outlived its caller, is what that run already pays for.
 *
 * A leader's failure is not its followers'.  What a complete response refused
 * for now (429, 5xx) or what was not sent, its own caller will try again after a
 * while: the followers are parked until then and join that attempt; where it
 * does not come in time, since the caller left or gave up, the first of them
 * leads.  After an unknown outcome the first leads at once.  What will not change
 * (400, 401) all get; an answer that may not be cached is its caller's alone,
 * and each of the others is sent for itself.
 *
 * A miss can also come just after its answer: looked up before the commit,
 * queued after it.  The last keys stored are remembered here, so that such a
 * caller is told to look again.
 *
 * All of it is this process's own memory, but for the slots that replies go to.
 */
#include "mw.h"

#include "miscadmin.h"

#include "gateway/gateway.h"
#include "gateway/shm.h"

#define PARK_MS		100			/* how long followers wait for their leader's next attempt, beyond the provider's wish */
#define NRECENT		256

typedef struct Recent
{
	MwKey		key;
	int64		epoch;
} Recent;

static Recent recent[NRECENT];
static int	nrecent;

static bool
same_key(const MwKey *a, const MwKey *b)
{
	return memcmp(a, b, sizeof(MwKey)) == 0;
}

static bool
equal_miss(const MwWire *a, const MwWire *b)
{
	return a->cache_epoch == b->cache_epoch && same_key(&a->cache_key, &b->cache_key) &&
		a->serverid == b->serverid && a->roleid == b->roleid &&
		strcmp(mw_wire_given(a, tenant), mw_wire_given(b, tenant)) == 0;
}

static bool
same_call(const MwWire *a, const MwWire *b)
{
	return a->request_named && b->request_named && a->nth == b->nth &&
		same_key(&a->call_key, &b->call_key) &&
		strcmp(mw_wire_given(a, request_id), mw_wire_given(b, request_id)) == 0 &&
		strcmp(mw_wire_given(a, tenant), mw_wire_given(b, tenant)) == 0;
}

static void
follow(MwFlight *f, MwFlight *leader)
{
	MemoryContext old = MemoryContextSwitchTo(mw_flight_context());

	f->leader = leader;
	f->parked_until.us = 0;
	leader->followers = lappend(leader->followers, f);
	MemoryContextSwitchTo(old);
}

/* f leads: whoever is parked for an equal call waits for it */
static void
lead(MwFlight *f)
{
	dlist_iter	iter;

	f->leader = NULL;
	f->parked_until.us = 0;
	if (!f->w->cacheable)
		return;
	dlist_foreach(iter, mw_flights())
	{
		MwFlight   *other = dlist_container(MwFlight, node, iter.cur);

		if (other != f && other->parked_until.us != 0 && equal_miss(other->w, f->w))
			follow(other, f);
	}
}

static bool
stored_just_now(const MwWire *w)
{
	for (int i = 0; i < Min(nrecent, NRECENT); i++)
		if (recent[i].epoch >= w->cache_epoch && same_key(&recent[i].key, &w->cache_key))
			return true;
	return false;
}

/* Nothing was sent for it: its backend looks into the cache again, and asks the breaker again */
static void
send_back(MwFlight *f)
{
	f->bill.kind = MW_OUTCOME_NOT_SENT;
	f->reply.look_again = true;
	mw_flight_reply(f);
}

/*
 * A call that was just taken: true where it needs no exchange of its own now,
 * since it waits for another or was told to look into the cache again.
 */
bool
mw_share_join(MwFlight *f)
{
	MwWire	   *w = f->w;
	dlist_iter	iter;

	dlist_foreach(iter, mw_flights())
	{
		MwFlight   *other = dlist_container(MwFlight, node, iter.cur);

		if (other->w == NULL)
			break;				/* taken after f */
		if (other == f || other->leader != NULL || other->parked_until.us != 0 || other->w->work != MW_WORK_CALL)
			continue;
		f->same_call = same_call(w, other->w);
		if (f->same_call || (w->share && other->w->cacheable && equal_miss(w, other->w)))
		{
			follow(f, other);
			return true;
		}
	}
	if (w->share && stored_just_now(w))
	{
		send_back(f);
		return true;
	}
	lead(f);
	return false;
}

/* ---------- the leader's end ---------- */

static void
hand_on(MwFlight *to, const MwFlight *from)
{
	bool		good = from->bill.kind == MW_OUTCOME_OK;

	to->leader = NULL;
	to->bill.kind = from->bill.kind;
	to->reply = from->reply;
	to->reply.reservation_used = to->reply.counted = false;
	to->reply.shared = !to->same_call;
	to->reply.recorded = to->same_call && good;
	if (to->same_call && from->bill.kind == MW_OUTCOME_UNKNOWN)
	{
		to->bill.kind = MW_OUTCOME_NOT_SENT;
		to->reply.unknown_before = true;
	}
	to->bill.usage = from->bill.usage;
	to->body = from->body;
	to->body_len = from->body_len;
	mw_flight_reply(to);
}

/* Followers whose callers are still there; the others are cleared away, so that nothing is sent for them */
static List *
still_there(List *followers)
{
	List	   *there = NIL;
	ListCell   *lc;

	foreach(lc, followers)
	{
		MwFlight   *g = lfirst(lc);
		bool		gone;

		LWLockAcquire(mw_shared->lock, LW_SHARED);
		gone = mw_shared->slots[g->slot].abandoned;
		LWLockRelease(mw_shared->lock);
		g->leader = NULL;
		if (gone)
			mw_flight_reply(g);
		else
			there = lappend(there, g);
	}
	return there;
}

/*
 * The first of them leads, the rest follow it.  Who passed the server's breaker
 * before it opened asks it again: waiting here is no way round it.
 */
static List *
succeed(List *waiting)
{
	List	   *followers = NIL;
	MwFlight   *first;
	ListCell   *lc;

	foreach(lc, waiting)
	{
		MwFlight   *g = lfirst(lc);

		if (mw_breaker_holds(&mw_breakers_shared, g->w->serverid, g->w->breaker))
			followers = lappend(followers, g);
		else
			send_back(g);
	}
	if (followers == NIL)
		return NIL;
	first = linitial(followers);
	foreach(lc, followers)
		if (lfirst(lc) != first)
			follow(lfirst(lc), first);
	lead(first);
	return list_make1(first);
}

/*
 * f has ended (settled), or cannot be recorded (not settled): its followers are
 * answered, parked, or returned to be sent.
 */
List *
mw_share_end(MwFlight *f, bool settled)
{
	List	   *followers = f->followers;
	List	   *alone = NIL;
	List	   *rest = NIL;
	MwOutcomeKind kind = f->bill.kind;
	bool		good = kind == MW_OUTCOME_OK;
	bool		again = kind == MW_OUTCOME_NOT_SENT ||
		(kind == MW_OUTCOME_FAILED && mw_status_retryable(f->bill.http_status) && !f->reply.retry_forbidden);
	ListCell   *lc;

	f->followers = NIL;
	if (settled && good && f->w->cacheable && f->bill.outcome.cacheable)
		recent[nrecent++ % NRECENT] = (Recent) {f->w->cache_key, f->w->cache_epoch};

	foreach(lc, still_there(followers))
	{
		MwFlight   *g = lfirst(lc);

		if (g->same_call && settled && (good || kind == MW_OUTCOME_UNKNOWN))
			hand_on(g, f);
		else if (g->same_call)
		{
			g->same_call = false;
			alone = lappend(alone, g);
		}
		else if (settled && good && !f->bill.outcome.cacheable)
		{
			g->w->share = false;
			alone = lappend(alone, g);
		}
		else if (settled && (good || (kind == MW_OUTCOME_FAILED && !again)))
			hand_on(g, f);
		else
			rest = lappend(rest, g);
	}
	list_free(followers);

	if (rest != NIL && settled && again)
	{
		MwInstant	until = mw_after_ms(PARK_MS + Max(f->reply.retry_after_ms, 0));

		foreach(lc, rest)
			((MwFlight *) lfirst(lc))->parked_until = until;
		return alone;
	}
	return list_concat(alone, succeed(rest));
}

/* ---------- time ---------- */

/*
 * Followers past their own deadline are answered, parked ones whose time has
 * come are returned to be sent (one of each kind).  *next: milliseconds until
 * somebody's time comes, -1 for nobody's.
 */
List *
mw_share_due(long *next)
{
	List	   *waiting = NIL;
	List	   *due = NIL;
	ListCell   *lc;
	dlist_iter	iter;

	*next = -1;
	dlist_foreach(iter, mw_flights())
	{
		MwFlight   *f = dlist_container(MwFlight, node, iter.cur);

		if (f->leader != NULL || f->parked_until.us != 0)
			waiting = lappend(waiting, f);
	}
	foreach(lc, waiting)
	{
		MwFlight   *f = lfirst(lc);
		MwInstant	when = f->w->deadline;
		long		ms;

		if (f->leader == NULL && f->parked_until.us == 0)
			continue;			/* has joined one that leads since a moment ago */
		if (f->parked_until.us != 0)
			when = mw_earlier(when, f->parked_until);
		ms = mw_ms_until(when);
		if (ms > 0)
			*next = *next < 0 ? ms : Min(*next, ms);
		else if (mw_passed(f->w->deadline))
		{
			if (f->leader != NULL)
				f->leader->followers = list_delete_ptr(f->leader->followers, f);
			f->leader = NULL;
			f->bill.kind = MW_OUTCOME_NOT_SENT;
			f->reply.timed_out = true;
			mw_flight_reply(f);
		}
		else
			due = list_concat(due, succeed(still_there(list_make1(f))));
	}
	list_free(waiting);
	return due;
}
