/*
 * spi.c - mw's own SQL: saved plans, whose role, which snapshot.
 *
 * Plans.  One saved plan for each (statement, role): row-level security makes a
 * plan depend on the role that it was made for, and PostgreSQL replans a plan
 * whenever the role flips (15 to 60 us).  Plans are generic from the first
 * execution: our statements look up by primary key.  PostgreSQL does not notice
 * when a role gains or loses BYPASSRLS or SUPERUSER under a saved plan, so a
 * change in pg_authid makes all plans stale here.  A stale or evicted plan may
 * still be running further up the stack (a policy calls may_act, which reads),
 * so it is retired and freed when the transaction ends.  What is read as the caller
 * is found by index: columns with callers' text have no statistics, for which
 * the planner would take a bitmap, at twice the price of an index scan, and a
 * generic plan of a small table would go on scanning it while it grows.
 *
 * Search path.  Statements are written qualified, but operators and functions
 * in them resolve through search_path, and a plan is redone when the path is
 * another than at its making.  So the path is pinned for making and for every
 * execution: by an override before PostgreSQL 17 (which the transaction's abort
 * pops), by the setting, saved, since then (which the abort restores).  What a
 * caller has set besides, row_security = off, would turn filtering into an
 * error, so it is fixed too.
 *
 * Snapshots.  Reads and writes use the latest snapshot at every isolation
 * level.  It holds the commands of this transaction that were finished by a
 * command counter increment, which every write here ends with.  During a
 * parallel query no new snapshot may be taken, so the one of the query serves;
 * only may_act gets there.  Under SERIALIZABLE such a read takes predicate locks
 * as any other does, so that what callers write (results, threads, sums of the
 * test double) is read by row.c, which takes none; here are read what
 * administrators write, approvals, and what the gateway writes, which works at
 * READ COMMITTED and so never makes a caller fail by them.
 *
 * All state here belongs to the process; nothing is shared.
 */
#include "mw.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "util/spi.h"

/* Plans kept at the end of a transaction: some 30 statements for 30 roles, each about 10 kB */
#define MAX_PLANS 1024

typedef struct SavedPlanKey
{
	MwStmt	   *stmt;
	Oid			role;
} SavedPlanKey;

typedef struct SavedPlan
{
	SavedPlanKey		key;
	uint64		generation;		/* of pg_authid, when it was made */
	SPIPlanPtr	plan;
} SavedPlan;

/* What is fixed for one of our statements, and undone after it */
typedef struct Pinned
{
	int			guc_level;		/* 0: none opened */
	bool		path;			/* an override was pushed */
} Pinned;

int			mw_spi_depth;

static HTAB *plans;
static List *retired;			/* of SPIPlanPtr, in TopMemoryContext */
static uint64 authid_generation = 1;

static Oid	owner_relid;		/* mw.tenant; its owner is the one who writes */
static Oid	owner = InvalidOid;
static Oid	extension_schema = InvalidOid;	/* never another while the extension is there: it is not relocatable */

static void
authid_changed(Datum arg, int cacheid, uint32 hash)
{
	authid_generation++;
}

static void
relation_changed(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == owner_relid)
		owner = extension_schema = InvalidOid;
}

/* At any end of a transaction nothing of ours runs any more: free what was retired, and all when it is too much. */
static void
transaction_ended(XactEvent event, void *arg)
{
	ListCell   *lc;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}

	mw_spi_depth = 0;
	if (plans && hash_get_num_entries(plans) > MAX_PLANS)
	{
		HASH_SEQ_STATUS seq;
		SavedPlan	   *p;

		hash_seq_init(&seq, plans);
		while ((p = hash_seq_search(&seq)) != NULL)
		{
			if (p->plan)
				SPI_freeplan(p->plan);
			hash_search(plans, &p->key, HASH_REMOVE, NULL);
		}
	}

	foreach(lc, retired)
		SPI_freeplan((SPIPlanPtr) lfirst(lc));
	list_free(retired);
	retired = NIL;
}

/* Once a process, at first use: nothing here is needed before */
static void
init(void)
{
	HASHCTL		ctl = {.keysize = sizeof(SavedPlanKey), .entrysize = sizeof(SavedPlan)};

	plans = hash_create("mw plans", 128, &ctl, HASH_ELEM | HASH_BLOBS);
	RegisterXactCallback(transaction_ended, NULL);
	CacheRegisterSyscacheCallback(AUTHOID, authid_changed, (Datum) 0);
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}

int
mw_row_security_on(int level)
{
	if (row_security)
		return level;
	if (level == 0)
		level = NewGUCNestLevel();
	(void) set_config_option("row_security", "on", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

static inline void
pin(Pinned *p)
{
	p->guc_level = 0;
	p->path = false;

#ifdef MW_SEARCH_PATH_OVERRIDE
	{
		OverrideSearchPath path = {.schemas = NIL, .addCatalog = true, .addTemp = false};

		PushOverrideSearchPath(&path);
		p->path = true;
	}
#else
	/* unless it is already what RestrictSearchPath would make it */
	if (strcmp(namespace_search_path, "pg_catalog, pg_temp") != 0)
	{
		p->guc_level = NewGUCNestLevel();
		RestrictSearchPath();
	}
#endif

	p->guc_level = mw_row_security_on(p->guc_level);
}

static inline void
unpin(const Pinned *p)
{
	if (p->guc_level != 0)
		AtEOXact_GUC(true, p->guc_level);
#ifdef MW_SEARCH_PATH_OVERRIDE
	if (p->path)
		PopOverrideSearchPath();
#endif
}

/* The plan of a statement for the role that is current now; the path is pinned already */
static SPIPlanPtr
plan_for(MwStmt *stmt)
{
	SavedPlanKey		key;
	SavedPlan	   *p;
	bool		found;

	MemSet(&key, 0, sizeof(key));
	key.stmt = stmt;
	key.role = GetUserId();
	p = hash_search(plans, &key, HASH_ENTER, &found);
	if (!found)
		p->plan = NULL;

	if (p->plan && p->generation != authid_generation)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		retired = lappend(retired, p->plan);
		MemoryContextSwitchTo(old);
		p->plan = NULL;
	}

	if (p->plan == NULL)
	{
		SPIPlanPtr	plan;
		uint64		generation = authid_generation;

		plan = SPI_prepare_cursor(stmt->sql, stmt->nargs, stmt->types, CURSOR_OPT_GENERIC_PLAN);
		if (plan == NULL)
			elog(ERROR, "mw: could not prepare a statement: %s", SPI_result_code_string(SPI_result));
		if (SPI_keepplan(plan) != 0)
			elog(ERROR, "mw: could not keep a plan");

		/* preparing may have entered others */
		p = hash_search(plans, &key, HASH_ENTER, &found);
		p->plan = plan;
		p->generation = generation;
	}
	return p->plan;
}

/*
 * Planning, and planning again, happens inside SPI's execution; it is told what
 * it may use where it is about to happen.  A message that comes in between is
 * missed: that plan is only slower.
 */
static bool
is_planned(SPIPlanPtr plan)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));

	return source->is_valid && source->gplan != NULL && source->gplan->is_valid;
}

static void
plan_by_index(Pinned *p)
{
	static const char *const avoided[] = {"enable_bitmapscan", "enable_seqscan"};

	if (p->guc_level == 0)
		p->guc_level = NewGUCNestLevel();
	for (int i = 0; i < lengthof(avoided); i++)
		(void) set_config_option(avoided[i], "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

static uint64
run(MwStmt *stmt, MwAs as, Datum *values, const char *nulls, bool read_only, long limit)
{
	MwRoleSave	save;
	Pinned		pinned;
	SPIPlanPtr	plan;
	Snapshot	snapshot;
	int			rc;

	if (plans == NULL)
		init();

	if (as == MW_AS_OWNER)
		mw_become_owner(&save);
	pin(&pinned);

	plan = plan_for(stmt);
	if (((as == MW_AS_CALLER && read_only) || stmt->by_index) && !is_planned(plan))
		plan_by_index(&pinned);
	mw_spi_depth++;
	snapshot = IsInParallelMode() ? GetActiveSnapshot() : GetLatestSnapshot();
	rc = SPI_execute_snapshot(plan, values, nulls, snapshot, InvalidSnapshot, read_only, true, limit);
	if (rc < 0)
		elog(ERROR, "mw: could not run a statement: %s", SPI_result_code_string(rc));
	mw_spi_depth--;

	unpin(&pinned);
	if (as == MW_AS_OWNER)
		mw_become_caller(&save);
	return SPI_processed;
}

uint64
mw_spi_read(MwStmt *stmt, MwAs as, Datum *values, const char *nulls, long limit)
{
	return run(stmt, as, values, nulls, true, limit);
}

uint64
mw_spi_write(MwStmt *stmt, MwAs as, Datum *values, const char *nulls)
{
	return run(stmt, as, values, nulls, false, 0);
}

/* ---------- the extension ---------- */

static void
not_installed(void)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("extension \"mw\" is not installed in this database"),
			errhint("CREATE EXTENSION mw;"));
}

Oid
mw_extension_owner(void)
{
	HeapTuple	tup;
	Oid			schema;

	if (OidIsValid(owner))
		return owner;

	if (plans == NULL)
		init();

	/* the catalogue look-ups below may process invalidations: the owner is entered after them */
	schema = get_namespace_oid("mw", true);
	owner_relid = OidIsValid(schema) ? get_relname_relid("tenant", schema) : InvalidOid;
	if (!OidIsValid(owner_relid))
		not_installed();
	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(owner_relid));
	if (!HeapTupleIsValid(tup))
		not_installed();
	owner = ((Form_pg_class) GETSTRUCT(tup))->relowner;
	ReleaseSysCache(tup);
	return owner;
}

/*
 * A call reads and writes tables in an order of its own, DROP EXTENSION locks
 * them in another: beside calls that do not stop coming that would be one deadlock
 * after another.  So a call begins with a lock on one table, and DROP EXTENSION
 * too (mw_extension_claim): whoever comes second waits for the other's end.  It
 * is a relation's lock because those of this strength go by the fast path.
 */
void
mw_extension_hold(void)
{
	for (;;)
	{
		Oid			relid;

		(void) mw_extension_owner();
		relid = owner_relid;
		LockRelationOid(relid, AccessShareLock);
		if (OidIsValid(owner) && owner_relid == relid)
			return;
		/* what came while it waited was heard of with the lock: that may be another table, or none */
		UnlockRelationOid(relid, AccessShareLock);
	}
}

void
mw_extension_claim(void)
{
	Oid			schema = get_namespace_oid("mw", true);
	Oid			relid = OidIsValid(schema) ? get_relname_relid("tenant", schema) : InvalidOid;

	if (OidIsValid(relid))
		LockRelationOid(relid, AccessExclusiveLock);
}

static Oid
find_extension_schema(void)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tup;
	Oid			schema = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("mw"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tup = systable_getnext(scan);
	if (HeapTupleIsValid(tup))
		schema = ((Form_pg_extension) GETSTRUCT(tup))->extnamespace;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return schema;
}

const char *
mw_extension_schema(void)
{
	char	   *name;

	/* what is remembered is forgotten with the owner, so that is asked for first */
	(void) mw_extension_owner();
	if (!OidIsValid(extension_schema))
		extension_schema = find_extension_schema();
	name = OidIsValid(extension_schema) ? get_namespace_name(extension_schema) : NULL;
	if (name == NULL)
		not_installed();
	return quote_identifier(name);
}

bool
mw_tables_spread(void)
{
	/* it works where its library is loaded at the start alone, so that nobody else reads pg_extension for it */
	return GetConfigOption("citus.shard_count", true, false) != NULL && OidIsValid(get_extension_oid("citus", true));
}

/* ---------- roles ---------- */

void
mw_become_role(Oid role, MwRoleSave *save)
{
	GetUserIdAndSecContext(&save->userid, &save->sec);
	SetUserIdAndSecContext(role, save->sec | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	save->guc_level = NewGUCNestLevel();
}

void
mw_become_owner(MwRoleSave *save)
{
	mw_become_role(mw_extension_owner(), save);
}

void
mw_become_caller(const MwRoleSave *save)
{
	AtEOXact_GUC(false, save->guc_level);
	SetUserIdAndSecContext(save->userid, save->sec);
}
