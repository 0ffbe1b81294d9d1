/*
 * claims.c - a table in shared memory that says which transaction works on a
 * request_id.
 *
 * An entry holds the virtual transaction id of its owner and nothing else.  A
 * second comer reads it, lets go of the table and waits for that transaction's
 * end with VirtualXactLock: interruptible, seen by the deadlock detector, right
 * for prepared transactions, which go on under the virtual id of the backend
 * that has long gone.  So an entry is never trusted, only asked about: one
 * whose transaction has ended is free for whoever finds it.  That is what keeps
 * it right after PREPARE, where no callback of ours runs at the end, and makes
 * the removal at the end of a transaction mere tidiness.
 *
 * A claim lasts as long as its transaction, through the end of the
 * subtransaction that took it: what a savepoint undoes can be asked for again
 * by the same transaction, and nobody else before it is over.
 *
 * The LWLock "mw_claims" guards the table.  It is held for one look-up, or for
 * a sweep of ended transactions where the table is full; never across a wait.
 * The list of this transaction's claims belongs to this process.
 */
#include "mw.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "gateway/claims.h"
#include "gateway/shm.h"

/*
 * A transaction can hold many (a batch that names an id a row), so the number
 * of backends is no measure.  72 bytes each.
 */
#define CLAIMS 16384

typedef struct ClaimTag
{
	Oid			db;
	MwKey		key;
} ClaimTag;

typedef struct Claim
{
	ClaimTag	tag;			/* hash key: no padding in it */
	VirtualTransactionId owner;
} Claim;

static HTAB *claims;
static LWLock *lock;

/* what this transaction has claimed */
static ClaimTag *mine;
static int	nmine;
static int	mine_cap;

StaticAssertDecl(sizeof(ClaimTag) == sizeof(Oid) + sizeof(MwKey), "a hash key has no padding");

void
mw_claims_shmem_request(void)
{
	RequestAddinShmemSpace(hash_estimate_size(CLAIMS, sizeof(Claim)));
	RequestNamedLWLockTranche("mw_claims", 1);
}

void
mw_claims_shmem_startup(void)
{
	HASHCTL		ctl = {
		.keysize = sizeof(ClaimTag),
		.entrysize = sizeof(Claim)
	};

	claims = ShmemInitHash("mw claims", CLAIMS, CLAIMS, &ctl,
						   HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	lock = &GetNamedLWLockTranche("mw_claims")->lock;
}

/*
 * Tidy up.  Both ends come after the transaction has left the list of running
 * ones, so whoever claims next sees its stored result.  A prepared transaction
 * keeps its claims, which are swept or taken over once it has ended.
 */
static void
claims_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;

	if (nmine > 0 && event != XACT_EVENT_PREPARE)
	{
		VirtualTransactionId me;

		GET_VXID_FROM_PGPROC(me, *MyProc);
		LWLockAcquire(lock, LW_EXCLUSIVE);
		for (int i = 0; i < nmine; i++)
		{
			Claim	   *claim = hash_search(claims, &mine[i], HASH_FIND, NULL);

			if (claim != NULL && VirtualTransactionIdEquals(claim->owner, me))
				hash_search(claims, &mine[i], HASH_REMOVE, NULL);
		}
		LWLockRelease(lock);
	}
	nmine = 0;

	/* one batch should not keep its memory for ever */
	if (mine_cap > 1024)
	{
		pfree(mine);
		mine = NULL;
		mine_cap = 0;
	}
}

/* Room for one more in the list, before anything is claimed */
static void
remember_space(void)
{
	static bool registered = false;

	if (!registered)
	{
		RegisterXactCallback(claims_xact_callback, NULL);
		registered = true;
	}
	if (nmine == mine_cap)
	{
		int			cap = mine_cap == 0 ? 16 : mine_cap * 2;

		if (mine == NULL)
			mine = MemoryContextAlloc(TopMemoryContext, cap * sizeof(ClaimTag));
		else
			mine = repalloc(mine, cap * sizeof(ClaimTag));
		mine_cap = cap;
	}
}

/* Drop the entries of transactions that have ended; the lock is held */
static void
sweep(void)
{
	HASH_SEQ_STATUS seq;
	Claim	   *claim;

	hash_seq_init(&seq, claims);
	while ((claim = hash_seq_search(&seq)) != NULL)
	{
		if (VirtualXactLock(claim->owner, false))
			hash_search(claims, &claim->tag, HASH_REMOVE, NULL);
	}
}

bool
mw_claims_take(const MwKey *key)
{
	ClaimTag	tag;
	VirtualTransactionId me;
	VirtualTransactionId ended;
	bool		waited = false;

	mw_require_preload("a request_id on a real server");

	tag.db = MyDatabaseId;
	tag.key = *key;
	GET_VXID_FROM_PGPROC(me, *MyProc);
	remember_space();

	for (;;)
	{
		Claim	   *claim;
		VirtualTransactionId other;
		bool		found;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		claim = hash_search(claims, &tag, HASH_ENTER_NULL, &found);
		if (claim == NULL)
		{
			sweep();
			claim = hash_search(claims, &tag, HASH_ENTER_NULL, &found);
		}
		if (claim == NULL)
		{
			LWLockRelease(lock);
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("too many request_ids are in use at one time"),
					 errdetail("Transactions that are open now have claimed %d of them.", CLAIMS),
					 errhint("Commit more often, or name fewer request_ids in a transaction.")));
		}
		if (found && VirtualTransactionIdEquals(claim->owner, me))
		{
			LWLockRelease(lock);
			return false;		/* this transaction's own */
		}
		if (!found || (waited && VirtualTransactionIdEquals(claim->owner, ended)))
		{
			claim->owner = me;
			mine[nmine++] = tag;
			LWLockRelease(lock);
			return waited;
		}
		other = claim->owner;
		LWLockRelease(lock);

		VirtualXactLock(other, true);
		ended = other;
		waited = true;
	}
}
