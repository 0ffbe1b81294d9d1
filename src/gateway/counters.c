/*
 * counters.c - the shared-memory counters of budgets.
 *
 * One entry a scope (a tenant of a database, or a session of a tenant) holds
 * what was settled and what is reserved, for ever and in the present minute,
 * hour, day and month; limits are not here, they come with each admission from
 * the caller's policy.  All windows of a scope are one entry: one look-up and one
 * lock, whatever is limited, and nothing to load where a limit is added.
 *
 * The hash table is divided into MW_NPARTS parts, each under an LWLock of its
 * own, chosen by the first byte of the key (a BLAKE2b, so evenly).  Whoever needs
 * several scopes locks their parts in ascending order, so no two callers can
 * deadlock; nothing is called under a lock but the hash table itself.
 *
 * Only the gateway puts entries in, from the sums that it keeps in mw.spent; it
 * is also the only one that changes those, and adds to an entry after the
 * commit of the same amount, by the same arithmetic (spent.c).  So an entry's
 * "settled" equals its row at every moment that somebody can look, and eviction
 * loses nothing; only that an entry begins a new window with the first admission
 * in it, and the row with the first outcome.  An entry with anything reserved is
 * never evicted; one with hits booked in advance only where nothing else makes
 * room (its tenant loses the unused ones, as in a crash).
 *
 * When a window begins anew, what is reserved in the old one goes with it: a
 * reservation remembers the generation of each window that it is in, and what
 * ends in another generation changes nothing there.  Generations are numbered
 * through the whole table, so that an entry that was evicted and came back is
 * not taken for its former self.
 */
#include "mw.h"

#include "common/pg_prng.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "gateway/counters.h"
#include "guc.h"

#define MW_NPARTS 16

typedef struct MwCounterWindow
{
	TimestampTz start;
	uint32		generation;
	MwAmounts	settled;
	MwAmounts	reserved;
} MwCounterWindow;

typedef struct MwCounter
{
	MwKey		key;			/* must be first */
	Oid			db;
	int			hits_left;		/* booked in advance: counted as settled for ever, not yet used */
	MwCounterWindow window[MW_NWINDOWS];
} MwCounter;

static HTAB *counters;
static LWLockPadded *locks;
static pg_atomic_uint32 *generations;	/* the last one given out */

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
	RequestAddinShmemSpace(add_size(hash_estimate_size(mw_guc_max_counters, sizeof(MwCounter)),
									MAXALIGN(sizeof(pg_atomic_uint32))));
	RequestNamedLWLockTranche("mw_counters", MW_NPARTS);
}

void
mw_counters_shmem_startup(void)
{
	HASHCTL		ctl = {0};
	bool		found;

	generations = ShmemInitStruct("mw generations", sizeof(pg_atomic_uint32), &found);
	if (!found)
		pg_atomic_init_u32(generations, 0);
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
	for (uint32 left = set; left != 0; left &= left - 1)
		LWLockAcquire(lock_of(pg_rightmost_one_pos32(left)), LW_EXCLUSIVE);
	return set;
}

static void
unlock_parts(uint32 set)
{
	for (; set != 0; set &= set - 1)
		LWLockRelease(lock_of(pg_rightmost_one_pos32(set)));
}

/* ---------- limits ---------- */

void
mw_refusal_none(MwRefusal *why)
{
	why->scope = -1;
	why->answer_left = -1;
}

/* How many tokens of an answer fit into what is left of a limit; -1 where its length does not matter */
static int64
answer_that_fits(const MwReservation *r, MwUnit unit, MwMoney left)
{
	MwMoney		each = unit == MW_TOKENS ? 1 : r->price.output;
	MwMoney		tokens;

	if (unit == MW_REQUESTS || each == 0)
		return -1;
	tokens = left - (unit == MW_TOKENS ? r->prompt_tokens : mw_price_bound(&r->price, r->prompt_tokens, 0));
	tokens /= each;
	return tokens > 0 ? (int64) Min(tokens, PG_INT32_MAX) : 0;
}

void
mw_refusal_check(MwRefusal *why, const MwReservation *r, int scope, MwPeriod w,
				 const MwAmounts *settled, const MwAmounts *reserved)
{
	const MwAmounts *limit = &r->scopes[scope].limits->limit[w];

	for (MwUnit unit = 0; unit < MW_NUNITS; unit++)
	{
		MwMoney		used = mw_amount(settled, unit) + mw_amount(reserved, unit);
		MwMoney		wanted = mw_amount(&r->hold.amount, unit);
		int64		fits;

		if (!mw_limited(limit, unit) || wanted == 0 || used + wanted <= mw_amount(limit, unit))
			continue;
		fits = answer_that_fits(r, unit, mw_amount(limit, unit) - used);
		if (mw_refused(why) && why->answer_left <= fits)
			continue;
		*why = (MwRefusal) {
			scope, w, unit, mw_amount(limit, unit), mw_amount(settled, unit), mw_amount(reserved, unit), fits
		};
	}
}

void
mw_reservation_ask(MwReservation *r, int64 prompt_tokens, int64 answer_tokens)
{
	r->prompt_tokens = prompt_tokens;
	r->answer_tokens = answer_tokens;
	r->hold.amount.requests = r->counted ? 0 : 1;
	r->hold.amount.tokens = prompt_tokens + answer_tokens;
	r->hold.amount.cost = mw_price_bound(&r->price, prompt_tokens, answer_tokens);
}

/* ---------- reserving ---------- */

static void
begin_window(MwCounterWindow *cw, TimestampTz start)
{
	cw->start = start;
	cw->generation = pg_atomic_add_fetch_u32(generations, 1);
	cw->settled = cw->reserved = (MwAmounts) {0};
}

/* Requests are what is short, and all of them were counted for ever: then hits in advance can still be taken */
static bool
hits_left(const MwReservation *r, const MwRefusal *why, const MwCounter *e)
{
	return why->unit == MW_REQUESTS && r->scopes[why->scope].limits->requests == 1 << MW_FOREVER && e->hits_left > 0;
}

/* In all windows that are limited in a scope; false where the gateway has to set one back first */
static bool
meet_windows(MwCounter *e, const MwReservation *r, int scope, TimestampTz now)
{
	uint8		windows = r->scopes[scope].limits->windows;

	for (int w = MW_MINUTE; w < MW_NWINDOWS; w++)
	{
		if (!(windows & 1 << w))
			continue;
		switch (mw_window_meet(w, e->window[w].start, r->when.start[w], now, now))
		{
			case MW_MEET_NEW:
				begin_window(&e->window[w], r->when.start[w]);
				break;
			case MW_MEET_BACK:
				return false;
			default:
				break;
		}
	}
	return true;
}

MwAdmission
mw_counters_reserve(MwReservation *r, MwRefusal *why)
{
	MwKey		keys[MW_MAX_SCOPES] = {0};
	int			scopes[MW_MAX_SCOPES];
	MwCounter  *entry[MW_MAX_SCOPES] = {0};
	int			n = 0;
	MwAdmission verdict = MW_ADMITTED;
	bool		windowed = false;
	uint32		set;

	mw_refusal_none(why);
	for (int i = 0; i < r->hold.n; i++)
	{
		r->hold.windows[i] = 0;
		if (r->scopes[i].limits->windows == 0)
			continue;
		windowed |= r->scopes[i].limits->windows != 1 << MW_FOREVER;
		scopes[n] = i;
		keys[n++] = r->hold.key[i];
	}
	set = lock_parts(keys, n);

	/* the moment of admission is one that nobody else's can come before who has the lock after us */
	if (windowed)
		r->when.admitted_at = mw_calendar_now();
	for (int i = 0; i < n && verdict == MW_ADMITTED; i++)
	{
		entry[i] = find(&keys[i]);
		if (entry[i] == NULL || (windowed && !meet_windows(entry[i], r, scopes[i], r->when.admitted_at)))
			verdict = MW_NOT_LOADED;
	}
	for (int i = 0; i < n && verdict == MW_ADMITTED; i++)
	{
		for (int w = 0; w < MW_NWINDOWS; w++)
			if (r->scopes[scopes[i]].limits->windows & 1 << w)
				mw_refusal_check(why, r, scopes[i], w, &entry[i]->window[w].settled, &entry[i]->window[w].reserved);
	}
	if (verdict == MW_ADMITTED && mw_refused(why))
	{
		verdict = MW_REFUSED;
		for (int i = 0; i < n; i++)
			if (scopes[i] == why->scope && hits_left(r, why, entry[i]))
				verdict = MW_HITS_ONLY;
	}

	if (verdict == MW_ADMITTED || verdict == MW_HITS_ONLY)
	{
		r->hits_only = verdict == MW_HITS_ONLY;
		if (r->hits_only)		/* which cost nothing */
			r->hold.amount = (MwAmounts) {0};
		r->held = true;
		for (int i = 0; i < n; i++)
		{
			r->hold.windows[scopes[i]] = r->scopes[scopes[i]].limits->windows;
			for (int w = 0; w < MW_NWINDOWS; w++)
			{
				if (!(r->hold.windows[scopes[i]] & 1 << w))
					continue;
				mw_amounts_add(&entry[i]->window[w].reserved, &r->hold.amount);
				r->hold.generation[scopes[i]][w] = entry[i]->window[w].generation;
			}
		}
	}
	unlock_parts(set);
	return verdict;
}

/* ---------- settling ---------- */

void
mw_counters_begin(const MwHold *hold, const MwWhen *when, TimestampTz now)
{
	uint32		set = lock_parts(hold->key, hold->n);

	for (int i = 0; i < hold->n; i++)
	{
		MwCounter  *e = find(&hold->key[i]);

		for (int w = MW_MINUTE; e != NULL && w < MW_NWINDOWS; w++)
			if (mw_window_meet(w, e->window[w].start, when->start[w], when->admitted_at, now) == MW_MEET_NEW)
				begin_window(&e->window[w], when->start[w]);
	}
	unlock_parts(set);
}

static void
spend(MwCounter *e, const MwAmounts *spent, const MwWhen *when, TimestampTz now)
{
	for (int w = 0; w < MW_NWINDOWS; w++)
	{
		MwCounterWindow *cw = &e->window[w];

		switch (mw_window_meet(w, cw->start, when->start[w], when->admitted_at, now))
		{
			case MW_MEET_LATE:
				continue;
			case MW_MEET_NEW:
				begin_window(cw, when->start[w]);
				break;
			case MW_MEET_BACK:
				cw->start = when->start[w];
				break;
			case MW_MEET_ADD:
				break;
		}
		mw_amounts_add(&cw->settled, spent);
	}
}

void
mw_counters_settle(const MwHold *hold, const MwAmounts *unreserve,
				   const MwAmounts *spent, const MwWhen *when, TimestampTz now)
{
	bool		spends = spent != NULL && !mw_amounts_zero(spent);
	MwKey		keys[MW_MAX_SCOPES] = {0};
	int			n = 0;
	uint32		set;

	/* a hit has nothing to settle where nothing was limited, and waits for nobody there */
	for (int i = 0; i < hold->n; i++)
		if (hold->windows[i] != 0 || spends)
			keys[n++] = hold->key[i];
	set = lock_parts(keys, n);

	for (int i = 0; i < hold->n; i++)
	{
		MwCounter  *e;

		if (hold->windows[i] == 0 && !spends)
			continue;
		if ((e = find(&hold->key[i])) == NULL)
			continue;			/* nothing is reserved in it: its row has the sum */
		for (int w = 0; unreserve != NULL && w < MW_NWINDOWS; w++)
		{
			MwCounterWindow *cw = &e->window[w];

			if (!(hold->windows[i] & 1 << w) || cw->generation != hold->generation[i][w])
				continue;
			mw_amounts_subtract(&cw->reserved, unreserve);
			Assert(cw->reserved.tokens >= 0 && cw->reserved.requests >= 0 && cw->reserved.cost >= 0);
		}
		if (spends)
			spend(e, spent, when, now);
	}
	unlock_parts(set);
}

void
mw_counters_used(const MwKey *key, const MwWhen *when, MwAmounts *used)
{
	MwCounter  *e;

	memset(used, 0, sizeof(MwAmounts) * MW_NWINDOWS);
	LWLockAcquire(lock_of(part_of(key)), LW_SHARED);
	if ((e = find(key)) != NULL)
	{
		for (int w = 0; w < MW_NWINDOWS; w++)
			if (mw_window_meet(w, e->window[w].start, when->start[w], when->admitted_at, when->admitted_at) != MW_MEET_NEW)
				used[w] = e->window[w].settled;
	}
	LWLockRelease(lock_of(part_of(key)));
}

/* ---------- hits in advance ---------- */

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
 * told apart; and for a limit for ever, since what is left of it would be
 * another window's.  It is taken while four of them are left, so that the last
 * hits before a limit are booked one by one.
 */
int64
mw_counters_hold_block(const MwKey *key, int64 limit)
{
	uint32		set = lock_parts(key, 1);
	MwCounter  *e = find(key);
	int64		extra = 0;

	if (e != NULL && limit - e->window[MW_FOREVER].settled.requests - e->window[MW_FOREVER].reserved.requests >= 4 * MW_HIT_BLOCK)
	{
		extra = MW_HIT_BLOCK - 1;
		e->window[MW_FOREVER].reserved.requests += extra;
	}
	unlock_parts(set);
	return extra;
}

void
mw_counters_unhold_block(const MwKey *key, int64 extra)
{
	uint32		set = lock_parts(key, 1);
	MwCounter  *e = find(key);

	if (e != NULL)
		e->window[MW_FOREVER].reserved.requests -= extra;
	unlock_parts(set);
}

void
mw_counters_booked(const MwKey *key, int64 extra)
{
	uint32		set = lock_parts(key, 1);
	MwCounter  *e = find(key);

	if (e != NULL)
	{
		e->window[MW_FOREVER].reserved.requests -= extra;
		e->hits_left += extra;
	}
	unlock_parts(set);
}

/* ---------- coming and going ---------- */

static bool
idle(const MwCounter *e)
{
	for (int w = 0; w < MW_NWINDOWS; w++)
		if (!mw_amounts_zero(&e->window[w].reserved))
			return false;
	return true;
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
		if (idle(e) && (booked_too || e->hits_left == 0) &&
			pg_prng_uint32(&pg_global_prng_state) % 8 == 0)
			hash_search_with_hash_value(counters, &e->key, counter_hash(&e->key, sizeof(MwKey)), HASH_REMOVE, NULL);
	}
	for (int p = MW_NPARTS - 1; p >= 0; p--)
		LWLockRelease(lock_of(p));
}

bool
mw_counters_load(const MwKey *key, Oid db, const MwSpent *spent, uint8 windows, const MwWhen *when, TimestampTz now)
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
			e->hits_left = 0;
			for (int w = 0; w < MW_NWINDOWS; w++)
			{
				begin_window(&e->window[w], spent->start[w]);
				e->window[w].settled = spent->used[w];
			}
		}
		else if (e != NULL)
		{
			for (int w = MW_MINUTE; w < MW_NWINDOWS; w++)
				if (windows & 1 << w && mw_window_meet(w, e->window[w].start, when->start[w], now, now) == MW_MEET_BACK)
					e->window[w].start = when->start[w];
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
		if (e->db == db && idle(e))
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
		MwCounterRow *row = &rows[*n];

		if (e->db != db)
			continue;
		row->key = e->key;
		row->named = false;
		for (int w = 0; w < MW_NWINDOWS; w++)
		{
			row->start[w] = e->window[w].start;
			row->settled[w] = e->window[w].settled;
			row->reserved[w] = e->window[w].reserved;
		}
		(*n)++;
	}
	for (int p = MW_NPARTS - 1; p >= 0; p--)
		LWLockRelease(lock_of(p));
	return rows;
}
