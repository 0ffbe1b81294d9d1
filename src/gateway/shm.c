/*
 * shm.c - asks for the shared memory of mw at server start and lays it out.
 *
 * Sizes are computed in the request hook, when every setting has its value.
 * The DSA is made in place by the postmaster, pinned, and attached by each
 * process at first use, as PostgreSQL does for its statistics.
 */
#include "mw.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "gateway/breaker.h"
#include "gateway/claims.h"
#include "gateway/counters.h"
#include "gateway/shm.h"
#include "guc.h"

MwShared   *mw_shared;

static char *dsa_place;			/* where the area was made */
static dsa_area *area;			/* this process's attachment */

static shmem_request_hook_type next_shmem_request_hook;
static shmem_startup_hook_type next_shmem_startup_hook;

static Size
shared_size(void)
{
	return add_size(offsetof(MwShared, slots),
					mul_size(mw_guc_max_calls, sizeof(MwSlot)));
}

static void
shmem_request(void)
{
	if (next_shmem_request_hook)
		next_shmem_request_hook();

	RequestAddinShmemSpace(MAXALIGN(shared_size()));
	RequestAddinShmemSpace(MAXALIGN(MW_DSA_INITIAL));
	RequestNamedLWLockTranche("mw", 1);
	RequestNamedLWLockTranche("mw_payload", 1);
	mw_counters_shmem_request();
	mw_claims_shmem_request();
	mw_breaker_shmem_request();
}

static void
shmem_startup(void)
{
	bool		found;

	if (next_shmem_startup_hook)
		next_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mw_shared = ShmemInitStruct("mw", shared_size(), &found);
	if (!found)
	{
		memset(mw_shared, 0, shared_size());
		mw_shared->lock = &GetNamedLWLockTranche("mw")->lock;
		ConditionVariableInit(&mw_shared->changed);
		for (int i = 0; i < MW_DECIDED; i++)
			ConditionVariableInit(&mw_shared->decided[i]);
		mw_shared->nslots = mw_guc_max_calls;
		for (int i = 0; i < mw_shared->nslots; i++)
			mw_shared->slots[i].next = i + 1 < mw_shared->nslots ? i + 1 : -1;
		mw_shared->free = 0;
		for (int i = 0; i < MW_MAX_GATES; i++)
			mw_shared->gates[i].head = mw_shared->gates[i].tail = -1;
	}

	dsa_place = ShmemInitStruct("mw payloads", MW_DSA_INITIAL, &found);
	if (!found)
	{
		dsa_area   *made = dsa_create_in_place(dsa_place, MW_DSA_INITIAL,
											   GetNamedLWLockTranche("mw_payload")->lock.tranche, NULL);

		dsa_pin(made);
		dsa_detach(made);		/* every process attaches for itself */
	}

	mw_counters_shmem_startup();
	mw_claims_shmem_startup();
	mw_breaker_shmem_startup();
	LWLockRelease(AddinShmemInitLock);
}

void
mw_shm_init(void)
{
	next_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	next_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}

void
mw_require_preload(const char *what)
{
	if (mw_shared != NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_NOT_AVAILABLE),
			 errmsg("%s needs mw in shared_preload_libraries", what),
			 errdetail("Budgets and calls in flight live in shared memory, which has to be reserved when the server starts."),
			 errhint("ALTER SYSTEM SET shared_preload_libraries = 'mw'; (beside what is preloaded already), then restart the server. A server with api 'fake' works without.")));
}

dsa_area *
mw_dsa(void)
{
	if (area == NULL)
	{
		MemoryContext old;

		mw_require_preload("what goes through the gateway");
		old = MemoryContextSwitchTo(TopMemoryContext);
		area = dsa_attach_in_place(dsa_place, NULL);
		dsa_pin_mapping(area);
		MemoryContextSwitchTo(old);
	}
	return area;
}

uint32
mw_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = MW_WAIT_EVENT_NEW("MwGateway");
	return event;
}
