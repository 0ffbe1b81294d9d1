/*
 * counters.c - the shared-memory counters of budgets.
 *
 * One entry a scope (a tenant of a database, or a session of a tenant) holds
 * what was settled and what is reserved; limits are not here, they come with
 * each admission from the caller's policy.  The hash table is divided into
 * MW_NPARTS parts, each under an LWLock of its own, chosen by the first byte of
 * the key (a BLAKE2b, so evenly).  Whoever needs several scopes locks their
 * parts in ascending order, so no two callers can deadlock; nothing is called
 * under a lock but the hash table itself.
 *
 * Only the gateway puts entries in, from the sums that it keeps in mw.spent; it
 * is also the only one that changes those, and adds to an entry after the
 * commit of the same amount.  So an entry's "settled" equals its row at every
 * moment that somebody can look, and eviction loses nothing.  An entry with
 * anything reserved is never evicted; one with hits booked in advance only where
 * nothing else makes room (its tenant loses the unused ones, as in a crash).
 */
#include "mw.h"

#include <math.h>

#include "common/pg_prng.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "gateway/counters.h"
#include "guc.h"

#define MW_NPARTS 16

typedef struct MwCounter
{
	MwKey		key;			/* must be first */
	Oid			db;
	int64		settled_tokens;
	int64		reserved_tokens;
	int64		settled_requests;
	int64		reserved_requests;
	int64		hits_left;		/* booked in advance: counted in settled_requests, not yet used */
} MwCounter;

static HTAB *counters;
static LWLockPadded *locks;

#define part_of(key)	((key)->b[0] % MW_NPARTS)
#define lock_of(part)	(&locks[part].lock)

/*
 * The table is partitioned by a hash of our own, so that the part of a key is
 * known without asking dynahash, which wants the low bits of the hash value to
 * name the partition.
 */
static uint32
counter_hash(const void *key, Size keysize)
{
	const MwKey *k = key;
	uint32		h;

	memcpy(&h, k->b + 4, sizeof(h));
	return (h & ~(uint32) (MW_NPARTS - 1)) | part_of(k);
}

void
mw_counters_shmem_request(void)
{
	RequestAddinShmemSpace(hash_estimate_size(mw_guc_max_counters, sizeof(MwCounter)));
	RequestNamedLWLockTranche("mw_counters", MW_NPARTS);
}

void
mw_counters_shmem_startup(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(MwKey);
	ctl.entrysize = sizeof(MwCounter);
	ctl.hash = counter_hash;
	ctl.num_partitions = MW_NPARTS;
	counters = ShmemInitHash("mw counters", mw_guc_max_counters, mw_guc_max_counters, &ctl,
							 HASH_ELEM | HASH_FUNCTION | HASH_PARTITION | HASH_FIXED_SIZE);
	locks = GetNamedLWLockTranche("mw_counters");
}

static MwCounter *
find(const MwKey *key)
{
	return hash_search_with_hash_value(counters, key, counter_hash(key, sizeof(*key)), HASH_FIND, NULL);
}

/* Lock the parts of n keys in ascending order; returns the set to unlock. */
static uint32
lock_parts(const MwKey *keys, int n)
{
	uint32		set = 0;

	for (int i = 0; i < n; i++)
		set |= 1u << part_of(&keys[i]);
	for (int p = 0; p < MW_NPARTS; p++)
		if (set & (1u << p))
			LWLockAcquire(lock_of(p), LW_EXCLUSIVE);
	return set;
}

static void
unlock_parts(uint32 set)
{
	for (int p = MW_NPARTS - 1; p >= 0; p--)
		if (set & (1u << p))
			LWLockRelease(lock_of(p));
}

/* The limited scopes of a reservation */
static int
limited_of(MwReservation *r, MwScope **scopes, MwKey *keys)
{
	int			n = 0;

	for (int i = 0; i < r->nscopes; i++)
		if (r->scopes[i].limited)
		{
			scopes[n] = &r->scopes[i];
			keys[n++] = r->scopes[i].key;
		}
	return n;
}

MwAdmission
mw_counters_reserve(MwReservation *r, MwFigures *why)
{
	MwKey		keys[MW_MAX_SCOPES] = {0};
	MwScope    *scopes[MW_MAX_SCOPES];
	MwCounter  *entry[MW_MAX_SCOPES];
	int			n = limited_of(r, scopes, keys);
	MwAdmission verdict = MW_ADMITTED;
	uint32		set = lock_parts(keys, n);

	for (int i = 0; i < n && verdict != MW_NOT_LOADED; i++)
		if ((entry[i] = find(&keys[i])) == NULL)
			verdict = MW_NOT_LOADED;

	for (int i = 0; i < n && (verdict == MW_ADMITTED || verdict == MW_HITS_ONLY); i++)
	{
		MwCounter  *e = entry[i];
		MwScope    *s = scopes[i];
		double		tokens = (double) e->settled_tokens + (double) e->reserved_tokens;
		double		requests = (double) e->settled_requests + (double) e->reserved_requests;

		if (tokens + (double) r->tokens > s->limit_tokens)
		{
			double		left = s->limit_tokens - tokens;

			verdict = MW_REFUSED;
			why->scope = s - r->scopes;
			why->unit = "tokens";
			why->settled = e->settled_tokens;
			why->reserved = e->reserved_tokens;
			why->tokens_left = left > 0 ? (int64) left : 0;
		}
		else if (requests + (r->counted ? 0 : 1) > s->limit_requests)
		{
			verdict = e->hits_left > 0 ? MW_HITS_ONLY : MW_REFUSED;
			why->scope = s - r->scopes;
			why->unit = "requests";
			why->settled = e->settled_requests;
			why->reserved = e->reserved_requests;
			why->tokens_left = -1;
		}
	}

	if (verdict == MW_ADMITTED || verdict == MW_HITS_ONLY)
	{
		r->requests = verdict == MW_ADMITTED && !r->counted ? 1 : 0;
		r->held = true;
		for (int i = 0; i < n; i++)
		{
			entry[i]->reserved_tokens += r->tokens;
			entry[i]->reserved_requests += r->requests;
		}
	}
	unlock_parts(set);
	return verdict;
}

bool
mw_counters_peek(const MwKey *key, int64 *settled_tokens, int64 *reserved_tokens,
				 int64 *settled_requests, int64 *reserved_requests)
{
	MwCounter  *e;

	LWLockAcquire(lock_of(part_of(key)), LW_SHARED);
	if ((e = find(key)) != NULL)
	{
		*settled_tokens = e->settled_tokens;
		*reserved_tokens = e->reserved_tokens;
		*settled_requests = e->settled_requests;
		*reserved_requests = e->reserved_requests;
	}
	LWLockRelease(lock_of(part_of(key)));
	return e != NULL;
}

void
mw_counters_settle(const MwKey *keys, const bool *limited, int n,
				   int64 unreserve_tokens, int64 unreserve_requests,
				   int64 spent_tokens, int64 spent_requests)
{
	uint32		set = lock_parts(keys, n);

	for (int i = 0; i < n; i++)
	{
		MwCounter  *e = find(&keys[i]);

		if (e == NULL)
			continue;			/* nothing was reserved in it: its row has the sum */
		if (limited[i])
		{
			e->reserved_tokens -= unreserve_tokens;
			e->reserved_requests -= unreserve_requests;
		}
		e->settled_tokens += spent_tokens;
		e->settled_requests += spent_requests;
		Assert(e->reserved_tokens >= 0 && e->reserved_requests >= 0);
	}
	unlock_parts(set);
}

bool
mw_counters_take_hit(const MwKey *keys, int n)
{
	uint32		set = lock_parts(keys, n);
	MwCounter  *entry[MW_MAX_SCOPES];
	bool		all = true;

	for (int i = 0; i < n; i++)
	{
		entry[i] = find(&keys[i]);
		if (entry[i] == NULL || entry[i]->hits_left <= 0)
			all = false;
	}
	for (int i = 0; all && i < n; i++)
		entry[i]->hits_left--;
	unlock_parts(set);
	return all;
}

/*
 * A block is for one scope only: in two at once the rest of it could not be
 * told apart.  It is taken while four of them are left, so that the last hits
 * before a limit are booked one by one.
 */
int64
mw_counters_hold_block(const MwKey *keys, const double *limits, int n)
{
	uint32		set;
	MwCounter  *e;
	int64		extra = 0;

	if (n != 1)
		return 0;
	set = lock_parts(keys, n);
	e = find(&keys[0]);
	if (e != NULL && limits[0] - (double) e->settled_requests - (double) e->reserved_requests >= 4 * MW_HIT_BLOCK)
	{
		extra = MW_HIT_BLOCK - 1;
		e->reserved_requests += extra;
	}
	unlock_parts(set);
	return extra;
}

void
mw_counters_unhold_block(const MwKey *keys, int n, int64 extra)
{
	bool		limited[MW_MAX_SCOPES] = {true, true};

	mw_counters_settle(keys, limited, n, 0, extra, 0, 0);
}

/* The caller's own request is settled by the caller of this */
void
mw_counters_booked(const MwKey *keys, int n, int64 extra)
{
	uint32		set = lock_parts(keys, n);

	for (int i = 0; i < n; i++)
	{
		MwCounter  *e = find(&keys[i]);

		if (e == NULL)
			continue;
		e->reserved_requests -= extra;
		e->settled_requests += extra;
		e->hits_left += extra;
	}
	unlock_parts(set);
}

bool
mw_counters_loaded(const MwKey *key)
{
	bool		found;

	LWLockAcquire(lock_of(part_of(key)), LW_SHARED);
	found = find(key) != NULL;
	LWLockRelease(lock_of(part_of(key)));
	return found;
}

/*
 * Make room: an eighth of the entries in which nothing is reserved go, chosen
 * at random (callers invent names at will, so that the order of use says
 * little).  A scan of the whole table, so rare.  All parts are locked.
 */
static void
evict(bool booked_too)
{
	HASH_SEQ_STATUS scan;
	MwCounter  *e;

	for (int p = 0; p < MW_NPARTS; p++)
		LWLockAcquire(lock_of(p), LW_EXCLUSIVE);
	hash_seq_init(&scan, counters);
	while ((e = hash_seq_search(&scan)) != NULL)
	{
		if (e->reserved_tokens == 0 && e->reserved_requests == 0 && (booked_too || e->hits_left == 0) &&
			pg_prng_uint32(&pg_global_prng_state) % 8 == 0)
			hash_search_with_hash_value(counters, &e->key, counter_hash(&e->key, sizeof(MwKey)), HASH_REMOVE, NULL);
	}
	for (int p = MW_NPARTS - 1; p >= 0; p--)
		LWLockRelease(lock_of(p));
}

bool
mw_counters_load(const MwKey *key, Oid db, int64 tokens, int64 requests)
{
	for (int attempt = 0; attempt < 4; attempt++)
	{
		MwCounter  *e;
		bool		found;

		LWLockAcquire(lock_of(part_of(key)), LW_EXCLUSIVE);
		e = hash_search_with_hash_value(counters, key, counter_hash(key, sizeof(*key)), HASH_ENTER_NULL, &found);
		if (e != NULL && !found)
		{
			e->db = db;
			e->settled_tokens = tokens;
			e->settled_requests = requests;
			e->reserved_tokens = e->reserved_requests = e->hits_left = 0;
		}
		LWLockRelease(lock_of(part_of(key)));
		if (e != NULL)
			return true;
		evict(attempt > 0);
	}
	return false;
}

void
mw_counters_forget(Oid db)
{
	HASH_SEQ_STATUS scan;
	MwCounter  *e;

	for (int p = 0; p < MW_NPARTS; p++)
		LWLockAcquire(lock_of(p), LW_EXCLUSIVE);
	hash_seq_init(&scan, counters);
	while ((e = hash_seq_search(&scan)) != NULL)
	{
		if (e->db == db && e->reserved_tokens == 0 && e->reserved_requests == 0)
			hash_search_with_hash_value(counters, &e->key, counter_hash(&e->key, sizeof(MwKey)), HASH_REMOVE, NULL);
	}
	for (int p = MW_NPARTS - 1; p >= 0; p--)
		LWLockRelease(lock_of(p));
}

MwCounterRow *
mw_counters_dump(Oid db, int *n)
{
	MwCounterRow *rows = MemoryContextAllocExtended(CurrentMemoryContext, sizeof(MwCounterRow) * (mw_guc_max_counters + 1), MCXT_ALLOC_HUGE);
	HASH_SEQ_STATUS scan;
	MwCounter  *e;

	*n = 0;
	for (int p = 0; p < MW_NPARTS; p++)
		LWLockAcquire(lock_of(p), LW_SHARED);
	hash_seq_init(&scan, counters);
	while ((e = hash_seq_search(&scan)) != NULL)
	{
		if (e->db == db)
			rows[(*n)++] = (MwCounterRow) {
				e->key, e->settled_tokens, e->reserved_tokens, e->settled_requests, e->reserved_requests
			};
	}
	for (int p = MW_NPARTS - 1; p >= 0; p--)
		LWLockRelease(lock_of(p));
	return rows;
}
