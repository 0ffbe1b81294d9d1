/*
 * launch.c - the gateway of a database: started when it is needed, asked to
 * leave before anything that wants the database to itself.
 *
 * A gate is the seat of one database's gateway in shared memory.  Whoever finds
 * it empty marks it "starting" and registers a dynamic worker; others wait for
 * their answer as if it ran.  A worker that dies is not restarted by the
 * postmaster: the next caller starts another, so a database that nobody uses
 * has none.  mw_shared->lock guards the gates.
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "commands/defrem.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "tcop/utility.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/shm.h"
#include "gateway/tell.h"
#include "util/spi.h"

#define START_TIMEOUT_MS	10000	/* a worker that has not come by then never will */
#define LEAVE_TIMEOUT_MS	10000

static object_access_hook_type next_object_access;
static ProcessUtility_hook_type next_ProcessUtility;
static bool sweep_wanted;
static bool listens;			/* this transaction has said LISTEN to a channel of ours */

static MwGate *
find_gate(Oid db)
{
	for (int i = 0; i < MW_MAX_GATES; i++)
		if (mw_shared->gates[i].db == db)
			return &mw_shared->gates[i];
	return NULL;
}

/* A seat for this database, the lock being held; a seat is free where no worker and no queue is */
static MwGate *
seat(Oid db)
{
	MwGate	   *g = find_gate(db);

	for (int i = 0; g == NULL && i < MW_MAX_GATES; i++)
	{
		MwGate	   *candidate = &mw_shared->gates[i];

		if (OidIsValid(candidate->db) && (candidate->pid != 0 || candidate->starting || candidate->head >= 0))
			continue;
		g = candidate;
		memset(g, 0, sizeof(*g));
		g->db = db;
		g->head = g->tail = -1;
	}
	return g;
}

static bool
register_worker(int gate)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle;
	volatile bool registered = false;

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "mw", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "mw_gateway_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "mw gateway of database %u", MyDatabaseId);
	strlcpy(worker.bgw_type, "mw gateway", sizeof(worker.bgw_type));
	worker.bgw_main_arg = Int32GetDatum(gate);
	worker.bgw_notify_pid = MyProcPid;
	memcpy(worker.bgw_extra, &MyDatabaseId, sizeof(Oid));

	PG_TRY();
	{
		registered = RegisterDynamicBackgroundWorker(&worker, &handle);
	}
	PG_FINALLY();
	{
		/* after an error too, or others would wait for a worker that does not come; of two that come the second leaves */
		if (!registered)
		{
			LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
			mw_shared->gates[gate].starting = false;
			LWLockRelease(mw_shared->lock);
		}
	}
	PG_END_TRY();
	return registered;
}

/* The gate of this database, NULL where no seat is free; *start: it is for the caller to register its worker */
static MwGate *
take_seat(bool *start)
{
	MwGate	   *g;

	*start = false;
	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	g = seat(MyDatabaseId);
	if (g != NULL && g->pid == 0)
	{
		if (!g->starting || mw_ms_since(g->starting_since) >= START_TIMEOUT_MS)
		{
			g->starting = *start = true;
			g->leave = false;
			g->starting_since = mw_now();
		}
	}
	LWLockRelease(mw_shared->lock);
	return g;
}

void
mw_gateway_wish(void)
{
	MwGate	   *g;
	bool		start;

	if (mw_shared == NULL || !IsUnderPostmaster)
		return;
	g = take_seat(&start);
	if (start)
		(void) register_worker(g - mw_shared->gates);
}

void
mw_gateway_look(Oid db)
{
	MwGate	   *g;

	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	g = find_gate(db);
	if (g != NULL)
	{
		g->look = true;
		if (g->latch != NULL)
			SetLatch(g->latch);
	}
	LWLockRelease(mw_shared->lock);
}

MwGate *
mw_gateway_ensure(void)
{
	MwGate	   *g;
	bool		start;

	mw_require_preload("a call to a real model server");
	if (!IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_AVAILABLE),
				 errmsg("no gateway can run in single-user mode"),
				 errdetail("A call to a real model server needs a background worker."),
				 errhint("Start the server in the ordinary way. A server with api 'fake' works here.")));
	g = take_seat(&start);
	if (g == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_AVAILABLE),
				 errmsg("too many databases have a gateway"),
				 errdetail("At most %d databases of a server can call models at a time.", MW_MAX_GATES),
				 errhint("A gateway leaves after mw.gateway_idle without work.")));
	if (start && !register_worker(g - mw_shared->gates))
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_AVAILABLE),
				 errmsg("no background worker slot is free for the gateway of this database"),
				 errdetail("max_worker_processes is %d, and all of them are in use.", max_worker_processes),
				 errhint("Raise max_worker_processes (one for each database that calls models) and restart the server.")));
	return g;
}

/* ---------- asked to leave ---------- */

/* Ask it to go and wait for that */
static void
leave(Oid db)
{
	MwInstant	until = mw_after_ms(LEAVE_TIMEOUT_MS);

	if (mw_shared == NULL)
		return;
	ConditionVariablePrepareToSleep(&mw_shared->changed);
	for (;;)
	{
		MwGate	   *g;
		bool		there = false;

		LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
		g = find_gate(db);
		if (g != NULL && (g->pid != 0 || g->starting))
		{
			there = true;
			g->leave = true;
			if (g->latch)
				SetLatch(g->latch);
		}
		LWLockRelease(mw_shared->lock);
		if (!there || mw_passed(until))
			break;				/* the command says itself who is still connected */
		ConditionVariableTimedSleep(&mw_shared->changed, 100, mw_wait_event());
	}
	ConditionVariableCancelSleep();
}

/* The database that a utility statement wants to itself, or InvalidOid */
static Oid
database_wanted(Node *stmt)
{
	const char *name = NULL;
	ListCell   *lc;

	switch (nodeTag(stmt))
	{
		case T_DropdbStmt:
			name = castNode(DropdbStmt, stmt)->dbname;
			break;
		case T_RenameStmt:
			if (castNode(RenameStmt, stmt)->renameType == OBJECT_DATABASE)
				name = castNode(RenameStmt, stmt)->subname;
			break;
		case T_AlterDatabaseStmt:
			foreach(lc, castNode(AlterDatabaseStmt, stmt)->options)
				if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
					name = castNode(AlterDatabaseStmt, stmt)->dbname;
			break;
		case T_CreatedbStmt:
			name = "template1";
			foreach(lc, castNode(CreatedbStmt, stmt)->options)
				if (strcmp(lfirst_node(DefElem, lc)->defname, "template") == 0 && lfirst_node(DefElem, lc)->arg)
					name = defGetString(lfirst_node(DefElem, lc));
			break;
		default:
			break;
	}
	return name ? get_database_oid(name, true) : InvalidOid;
}

/* DROP EXTENSION mw */
static bool
drops_us(Node *stmt)
{
	ListCell   *lc;

	if (!IsA(stmt, DropStmt) || castNode(DropStmt, stmt)->removeType != OBJECT_EXTENSION)
		return false;
	foreach(lc, castNode(DropStmt, stmt)->objects)
		if (strcmp(strVal(lfirst(lc)), "mw") == 0)
			return true;
	return false;
}

/*
 * What counters knew is void with the sums they came from, whatever drops these: DROP EXTENSION, of
 * a schema or of all that a role owns.  Where that is rolled back they are fetched again; until then nobody
 * can, since whoever drops has locked the sums.
 */
static void
object_access(ObjectAccessType access, Oid class, Oid object, int sub, void *arg)
{
	if (next_object_access)
		next_object_access(access, class, object, sub, arg);
	if (access == OAT_DROP && class == ExtensionRelationId && mw_shared != NULL && object == get_extension_oid("mw", true))
		mw_counters_forget(MyDatabaseId);
}

/*
 * LISTEN to a tenant's channel: whoever does it wants to be told of expiries, and
 * after a restart of the server nothing else may start a gateway for a long time.
 * Nobody listens across a restart, so none is told in vain before that.
 */
static bool
listens_to_us(Node *stmt)
{
	const char *channel = IsA(stmt, ListenStmt) ? castNode(ListenStmt, stmt)->conditionname : NULL;

	return mw_shared != NULL && channel != NULL && strncmp(channel, MW_CHANNEL_PREFIX, strlen(MW_CHANNEL_PREFIX)) == 0 &&
		strlen(channel) == strlen(MW_CHANNEL_PREFIX) + 2 * sizeof(MwKey) && OidIsValid(get_extension_oid("mw", true));
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Oid			db = database_wanted(pstmt->utilityStmt);

	/* whether the role may do it is the command's own business: leaving costs a restart at the next call */
	if (OidIsValid(db) && db != MyDatabaseId)
		leave(db);
	/* of the roles that may, those that are asked for: nobody else's DROP keeps calls waiting */
	if (drops_us(pstmt->utilityStmt) && superuser())
		mw_extension_claim();

	if (next_ProcessUtility)
		next_ProcessUtility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params, env, dest, qc);

	/* another database may be given the number of one that was dropped */
	if (mw_shared != NULL && IsA(pstmt->utilityStmt, DropdbStmt) && OidIsValid(db))
		mw_counters_forget(db);
	listens |= listens_to_us(pstmt->utilityStmt);
}

/* ---------- when a transaction ends ---------- */

static void
at_commit(XactEvent event, void *arg)
{
	bool		wanted = sweep_wanted;
	MwGate	   *g;

	if (event == XACT_EVENT_PRE_COMMIT && listens)
		mw_gateway_wish();
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	sweep_wanted = false;
	listens = false;
	if (event != XACT_EVENT_COMMIT || !wanted)
		return;

	/* errors are impossible here: a gateway that does not run sweeps when it starts */
	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	g = find_gate(MyDatabaseId);
	if (g != NULL && g->latch != NULL)
	{
		g->sweep = true;
		SetLatch(g->latch);
	}
	LWLockRelease(mw_shared->lock);
}

void
mw_gateway_sweep_at_commit(void)
{
	sweep_wanted = mw_shared != NULL;
}

void
mw_launch_init(void)
{
	next_object_access = object_access_hook;
	object_access_hook = object_access;
	next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(at_commit, NULL);
}
