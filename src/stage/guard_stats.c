/*
 * guard_stats.c - how often guards matched, and what was refused or would have been.
 *
 * One entry a tenant, guard and source, counted where a guard matches, which is
 * rare: a text that passes without a hit costs nothing here.  Entries live in shared
 * memory since the server's start (mw.guard_stats says since when), or in the
 * process where mw is not preloaded.  One lock guards them; when they are used up
 * the rest is not counted, and the view says so.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "policy/watch.h"
#include "stage/guardrail.h"

#define MAX_ENTRIES		4096
#define MAX_GUARD_NAME	64

typedef struct Entry
{
	Oid			db;
	char		tenant[MW_TENANT_MAX + 1];
	char		guard[MAX_GUARD_NAME];
	MwGuardSource source;
	int64		matched;		/* texts that the guard matched in */
	int64		refused;		/* of these that were refused */
	int64		would_refuse;	/* and those that would have been, were all its modes block */
	TimestampTz last;
} Entry;

typedef struct GuardStats
{
	LWLock	   *lock;			/* NULL in a process's own */
	TimestampTz since;
	int64		lost;			/* not counted for want of entries */
	int			n;
	Entry		entries[MAX_ENTRIES];
} GuardStats;

static GuardStats *stats = NULL;

PG_FUNCTION_INFO_V1(mw_guard_stats_rows);

static shmem_request_hook_type next_shmem_request_hook;
static shmem_startup_hook_type next_shmem_startup_hook;

static void
stats_request(void)
{
	if (next_shmem_request_hook)
		next_shmem_request_hook();
	RequestAddinShmemSpace(MAXALIGN(sizeof(GuardStats)));
	RequestNamedLWLockTranche("mw_guard_stats", 1);
}

static void
stats_startup(void)
{
	bool		found;

	if (next_shmem_startup_hook)
		next_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	stats = ShmemInitStruct("mw guard stats", sizeof(GuardStats), &found);
	if (!found)
	{
		memset(stats, 0, sizeof(GuardStats));
		stats->lock = &GetNamedLWLockTranche("mw_guard_stats")->lock;
		stats->since = GetCurrentTimestamp();
	}
	LWLockRelease(AddinShmemInitLock);
}

/* mw_guard_stats_init asks for the shared memory, while preloading. */
void
mw_guard_stats_init(void)
{
	next_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = stats_request;
	next_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = stats_startup;
}

static void
use_stats(void)
{
	if (stats == NULL)
	{
		stats = MemoryContextAllocZero(TopMemoryContext, sizeof(GuardStats));
		stats->since = GetCurrentTimestamp();
	}
}

/* The entry, made where it is new; NULL where there is no room */
static Entry *
find_entry(const char *tenant, const char *guard, MwGuardSource source)
{
	Entry	   *e;
	int			i;

	for (i = 0; i < stats->n; i++)
	{
		e = &stats->entries[i];
		if (e->source == source && e->db == MyDatabaseId && strcmp(e->guard, guard) == 0 && strcmp(e->tenant, tenant) == 0)
			return e;
	}
	if (stats->n == MAX_ENTRIES)
		return NULL;
	e = &stats->entries[stats->n++];
	e->db = MyDatabaseId;
	strlcpy(e->tenant, tenant, sizeof(e->tenant));
	strlcpy(e->guard, guard, sizeof(e->guard));
	e->source = source;
	return e;
}

/* mw_guard_count counts a verdict's hits for the policy's tenant. */
void
mw_guard_count(const MwPolicy *policy, MwGuardSource source, const MwVerdict *v)
{
	TimestampTz now = GetCurrentTimestamp();
	int			i;

	use_stats();
	if (stats->lock)
		LWLockAcquire(stats->lock, LW_EXCLUSIVE);
	for (i = 0; i < v->nhits; i++)
	{
		Entry	   *e = find_entry(policy->tenant, v->hits[i].guard->guard, source);

		if (e == NULL)
		{
			stats->lost++;
			continue;
		}
		e->matched++;
		if (v->verdict == MW_GUARD_BLOCK)
			e->refused++;
		else if (v->verdict == MW_GUARD_LOG)
			e->would_refuse++;
		e->last = now;
	}
	if (stats->lock)
		LWLockRelease(stats->lock);
}

/* mw.guard_stats_rows(): tenant, guard, source, matched, refused, would_refuse, last_matched_at, since, not_counted */
Datum
mw_guard_stats_rows(PG_FUNCTION_ARGS)
{
	static const char *const sources[] = {"user", "tool", "document", "output"};
	ReturnSetInfo *rsi = (ReturnSetInfo *) fcinfo->resultinfo;
	Entry	   *copy;
	int64		lost;
	TimestampTz since;
	int			n;
	int			i;

	InitMaterializedSRF(fcinfo, 0);
	use_stats();
	/* rights are asked for without the lock */
	if (stats->lock)
		LWLockAcquire(stats->lock, LW_SHARED);
	n = stats->n;
	lost = stats->lost;
	since = stats->since;
	if (stats->lock)
		LWLockRelease(stats->lock);
	copy = palloc(sizeof(Entry) * Max(1, n));
	if (stats->lock)
		LWLockAcquire(stats->lock, LW_SHARED);
	memcpy(copy, stats->entries, sizeof(Entry) * n);
	if (stats->lock)
		LWLockRelease(stats->lock);

	for (i = 0; i < n; i++)
	{
		Entry	   *e = &copy[i];
		Datum		values[9];
		bool		nulls[9] = {false};

		if (e->db != MyDatabaseId || e->tenant[0] == '\0' || !mw_may_act(e->tenant))
			continue;
		values[0] = CStringGetTextDatum(e->tenant);
		values[1] = CStringGetTextDatum(e->guard);
		values[2] = CStringGetTextDatum(sources[e->source]);
		values[3] = Int64GetDatum(e->matched);
		values[4] = Int64GetDatum(e->refused);
		values[5] = Int64GetDatum(e->would_refuse);
		values[6] = TimestampTzGetDatum(e->last);
		values[7] = TimestampTzGetDatum(since);
		values[8] = Int64GetDatum(lost);
		tuplestore_putvalues(rsi->setResult, rsi->setDesc, values, nulls);
	}
	return (Datum) 0;
}
