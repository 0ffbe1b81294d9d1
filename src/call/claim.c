/*
 * claim.c - one transaction at a time for a request_id.
 *
 * The second caller of an id has to wait for the end of the first one's
 * transaction, and only then can say whether there is a result to hand out
 * (invariant 5).  For a real server the claim is an entry of the shared table
 * in gateway/claims.c.  The test double has to do without preloading, and its
 * claim is a lock of PostgreSQL's own lock manager, of the kind of advisory
 * locks but in a class that SQL cannot take: it waits, is interrupted, finds
 * deadlocks and follows PREPARE in the same way, at every isolation level, and
 * leaves no row behind.  The shared table spares the lock manager, which all
 * users share, a batch that names thousands of ids in a transaction.
 *
 * Both last as long as the transaction, not the subtransaction.
 */
#include "mw.h"

#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/resowner.h"

#include "call/call.h"
#include "gateway/claims.h"
#include "policy/policy.h"
#include "util/faults.h"
#include "util/hash.h"

/* pg_advisory_lock uses 1 and 2; this is "mw" */
#define CLAIM_CLASS 0x6d77

static bool
lock_key(const MwKey *key)
{
	LOCKTAG		tag;
	bool		waits;
	ResourceOwner owner = CurrentResourceOwner;
	uint32		half[2];

	memcpy(half, key->b, sizeof(half));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, half[0], half[1], CLAIM_CLASS);

	/* the end of a subtransaction does not end it; an error here unwinds the owner too */
	CurrentResourceOwner = TopTransactionResourceOwner;
	waits = LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL;
	if (waits)
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
	CurrentResourceOwner = owner;
	return waits;
}

bool
mw_claim_request(MwCall *call)
{
	MwHash		h;
	MwKey		key;
	bool		waited;

	/* keyed: pg_locks shows the tag of a lock to every role, and names can be guessed */
	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "claim");
	mw_hash_text(&h, call->tenant);
	mw_hash_text(&h, call->request_id);
	key = mw_hash_end(&h);
	waited = call->transport == &mw_transport_fake ? lock_key(&key) : mw_claims_take(&key);
	mw_fault("idem_claim");
	return waited;
}
