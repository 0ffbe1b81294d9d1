/*
 * breaker.c - a server that is down is left alone: its circuit breaker, and the
 * retry budget beside it.
 *
 * Closed, it lets everything pass and counts failures in a row: connections that
 * could not be made, 5xx, answers that stalled or broke off.  A server that
 * answers at all, be it 401 or 429 to one tenant, is well; a caller's own short
 * deadline tells nothing.  So many failures open it: attempts are refused at once
 * until retry_at.  Then the first one is a probe, and all others are refused
 * until it has told: an answer closes the breaker, a failure opens it for twice
 * as long.  A probe that tells nothing (cancelled, killed, past its deadline) is
 * given back, so that the next attempt is one.
 *
 * An outcome counts only for the state in which its attempt was admitted, which
 * the generation tells: what was sent before the breaker opened, and ends after
 * it closed, says nothing new.
 *
 * Retries of all callers together come out of one bucket a server: each call
 * adds a share, time adds the reserve once a minute.  So a server that fails
 * gets at most that many attempts on top of its calls, however many callers
 * there are and however often each would try.
 *
 * The state of real servers lies in a small table in shared memory, under one
 * LWLock (MwBreakers.lock) that is held for a few dozen instructions, by
 * backends when they send and by gateways when an exchange ends.  A server's
 * place is found by hashing; where all that it could have are taken, the one
 * used least recently makes room, and its server begins closed.
 */
#include "mw.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "gateway/breaker.h"
#include "gateway/held.h"

#define MAX_BREAKERS	1024
#define PLACES			8		/* that a server can have */

typedef struct Entry
{
	Oid			db;				/* InvalidOid: free */
	Oid			serverid;
	MwInstant	used_at;
	MwBreaker	breaker;
} Entry;

typedef struct MwBreakers
{
	LWLock	   *lock;
	Entry		entries[MAX_BREAKERS];
} MwBreakers;

static MwBreakers *breakers;	/* NULL where mw was not preloaded */

/* ---------- the state of one, its store being locked ---------- */

static void
change(MwBreaker *b, MwBreakerState state)
{
	b->state = state;
	if (++b->generation == 0)
		b->generation = 1;		/* 0 is nobody's */
}

static void
begin(MwBreaker *b, const MwBreakerRules *rules)
{
	change(b, MW_BREAKER_CLOSED);
	b->failures = 0;
	b->opened_at = 0;
	b->rules = *rules;
	b->cooldown_ms = rules->cooldown_ms;
	b->retries = rules->retry_reserve;
	b->refilled_at = mw_now();
}

static void
open_up(MwBreaker *b)
{
	change(b, MW_BREAKER_OPEN);
	if (b->opened_at == 0)
		b->opened_at = GetCurrentTimestamp();	/* failed probes prolong it */
	b->retry_at = mw_after_ms(b->cooldown_ms);
}

static void
close_again(MwBreaker *b)
{
	change(b, MW_BREAKER_CLOSED);
	b->failures = 0;
	b->opened_at = 0;
	b->cooldown_ms = b->rules.cooldown_ms;
}

static MwBreaker *
find(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules)
{
	MwBreaker  *b = store->find(serverid);

	if (b != NULL && (b->generation == 0 || b->rules.version != rules->version))
		begin(b, rules);
	return b;
}

/* ---------- a probe that its backend holds ---------- */

typedef struct Probe
{
	const MwBreakerStore *store;
	Oid			serverid;
	uint32		generation;
} Probe;

/* Where it has told nothing by now, the next attempt is the probe */
static void
give_back(void *what)
{
	Probe	   *p = what;
	MwBreaker  *b = p->store->find(p->serverid);

	if (b != NULL)
	{
		if (b->state == MW_BREAKER_HALF_OPEN && b->generation == p->generation)
		{
			change(b, MW_BREAKER_OPEN);
			b->retry_at = mw_now();
		}
		p->store->done();
	}
	pfree(p);
}

/* ---------- attempts ---------- */

bool
mw_breaker_admit(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules,
				 MwInstant deadline, MwPass *pass)
{
	Probe	   *probe;
	MwBreaker  *b;
	bool		admitted = true;

	memset(pass, 0, sizeof(*pass));
	if (!rules->on)
		return true;
	probe = MemoryContextAlloc(TopMemoryContext, sizeof(Probe));	/* before: once it is a probe, nothing may fail */
	b = find(store, serverid, rules);
	if (b != NULL)
	{
		if (b->state != MW_BREAKER_CLOSED && mw_passed(b->retry_at))
		{
			change(b, MW_BREAKER_HALF_OPEN);
			b->retry_at = mw_earlier(deadline, mw_after_ms(b->cooldown_ms));
			pass->probe = true;
		}
		else if (b->state != MW_BREAKER_CLOSED)
		{
			admitted = false;
			pass->probing = b->state == MW_BREAKER_HALF_OPEN;
			pass->failures = b->failures;
			pass->opened_at = b->opened_at;
			pass->retry_at = b->retry_at;
		}
		pass->generation = b->generation;
		store->done();
	}

	if (pass->probe)
	{
		*probe = (Probe) {store, serverid, pass->generation};
		pass->held = mw_held_take(give_back, probe);
		pass->what = probe;
	}
	else
		pfree(probe);
	return admitted;
}

void
mw_breaker_done(MwPass *pass)
{
	if (pass->held == NULL)
		return;
	mw_held_drop(pass->held);
	pass->held = NULL;
	give_back(pass->what);
}

bool
mw_breaker_holds(const MwBreakerStore *store, Oid serverid, uint32 generation)
{
	MwBreaker  *b;
	bool		holds;

	if (generation == 0 || (b = store->find(serverid)) == NULL)
		return true;
	holds = b->generation == generation;
	store->done();
	return holds;
}

void
mw_breaker_tell(const MwBreakerStore *store, Oid serverid, uint32 generation, MwHealth health)
{
	MwBreaker  *b;

	if (generation == 0 || health == MW_HEALTH_NOTHING || (b = store->find(serverid)) == NULL)
		return;
	if (b->generation == generation)
	{
		if (health == MW_HEALTH_ALIVE && b->state == MW_BREAKER_HALF_OPEN)
			close_again(b);
		else if (health == MW_HEALTH_ALIVE)
			b->failures = 0;
		else
		{
			b->failures++;
			if (b->state == MW_BREAKER_HALF_OPEN)
			{
				b->cooldown_ms = Min(b->cooldown_ms * 2, Max(b->rules.max_cooldown_ms, b->rules.cooldown_ms));
				open_up(b);
			}
			else if (b->failures >= b->rules.failures)
				open_up(b);
		}
	}
	store->done();
}

/* ---------- retries of all ---------- */

/* So many are kept: the reserve, and one where there is but a share */
static double
capacity(const MwBreakerRules *rules)
{
	return Max(rules->retry_reserve, rules->retry_share > 0 ? 1 : 0);
}

static void
refill(MwBreaker *b)
{
	MwInstant	now = mw_now();

	b->retries += (now.us - b->refilled_at.us) / 60e6 * b->rules.retry_reserve;
	b->refilled_at = now;
	b->retries = Min(b->retries, capacity(&b->rules));
}

void
mw_breaker_count_call(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules)
{
	MwBreaker  *b = find(store, serverid, rules);

	if (b == NULL)
		return;
	refill(b);
	b->retries = Min(b->retries + rules->retry_share, capacity(rules));
	store->done();
}

bool
mw_breaker_take_retry(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules)
{
	MwBreaker  *b = find(store, serverid, rules);
	bool		taken;

	if (b == NULL)
		return true;
	refill(b);
	taken = b->retries >= 1;
	if (taken)
		b->retries -= 1;
	store->done();
	return taken;
}

/* ---------- for administrators ---------- */

bool
mw_breaker_look(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules, MwBreaker *copy)
{
	MwBreaker  *b = find(store, serverid, rules);

	if (b == NULL)
		return false;
	refill(b);
	*copy = *b;
	store->done();
	return true;
}

const char *
mw_breaker_state_name(const MwBreaker *b)
{
	return b->state == MW_BREAKER_CLOSED ? "closed" : b->state == MW_BREAKER_OPEN ? "open" : "half-open";
}

/* Closed at once, with its full reserve of retries; what is in flight tells nothing any more */
void
mw_breaker_reset(const MwBreakerStore *store, Oid serverid)
{
	MwBreaker  *b = store->find(serverid);

	if (b == NULL)
		return;
	if (b->generation != 0)
		begin(b, &b->rules);
	store->done();
}

/* ---------- the table in shared memory ---------- */

void
mw_breaker_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(MwBreakers)));
	RequestNamedLWLockTranche("mw_breaker", 1);
}

void
mw_breaker_shmem_startup(void)
{
	bool		found;

	breakers = ShmemInitStruct("mw breakers", sizeof(MwBreakers), &found);
	if (found)
		return;
	memset(breakers, 0, sizeof(MwBreakers));
	breakers->lock = &GetNamedLWLockTranche("mw_breaker")->lock;
}

static MwBreaker *
shared_find(Oid serverid)
{
	uint32		at = hash_combine(murmurhash32(MyDatabaseId), murmurhash32(serverid));
	Entry	   *oldest = NULL;

	if (breakers == NULL)
		return NULL;
	LWLockAcquire(breakers->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PLACES; i++)
	{
		Entry	   *e = &breakers->entries[(at + i) % MAX_BREAKERS];

		if (e->db == MyDatabaseId && e->serverid == serverid)
		{
			e->used_at = mw_now();
			return &e->breaker;
		}
		if (oldest == NULL || (oldest->db != InvalidOid && (e->db == InvalidOid || e->used_at.us < oldest->used_at.us)))
			oldest = e;
	}
	oldest->db = MyDatabaseId;
	oldest->serverid = serverid;
	oldest->used_at = mw_now();
	oldest->breaker.rules.version = 0;	/* no server's: begins afresh, its generation going on */
	return &oldest->breaker;
}

static void
shared_done(void)
{
	LWLockRelease(breakers->lock);
}

const MwBreakerStore mw_breakers_shared = {
	.find = shared_find,
	.done = shared_done,
};
