/*
 * session_lock.c - whose a session's thread is until the transaction ends.
 *
 * A run writes its thread when it ends, so whoever deletes rows of a session has
 * to wait for its run, or the run would bring back what was erased.  A run holds
 * its session exclusively and all sessions of its tenant together with other
 * runs; whoever erases holds one or the other exclusively.
 *
 * They are locks of PostgreSQL's lock manager, of the kind of advisory locks but
 * in a class that SQL cannot take: they are interrupted, find deadlocks, follow
 * PREPARE, and the gateway never waits for one.  Both last as long as the
 * transaction, not the subtransaction.
 */
#include "mw.h"

#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/resowner.h"

#include "policy/policy.h"
#include "policy/session_lock.h"
#include "util/hash.h"

/* pg_advisory_lock uses 1 and 2 */
#define LOCK_CLASS 0x6d76

/* keyed: pg_locks shows the tag of a lock to every role, and names can be guessed */
static bool
lock(const char *tenant, const char *session, LOCKMODE mode, bool wait)
{
	LOCKTAG		tag;
	ResourceOwner owner = CurrentResourceOwner;
	uint32		half[2];
	MwHash		h;
	MwKey		key;
	bool		got;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, session != NULL ? "session" : "sessions");
	mw_hash_text(&h, tenant);
	mw_hash_text(&h, session);
	key = mw_hash_end(&h);
	memcpy(half, key.b, sizeof(half));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, half[0], half[1], LOCK_CLASS);

	/* the end of a subtransaction does not end it; an error here unwinds the owner too */
	CurrentResourceOwner = TopTransactionResourceOwner;
	got = LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
	CurrentResourceOwner = owner;
	return got;
}

bool
mw_session_claim(const char *tenant, const char *session, bool wait)
{
	return lock(tenant, NULL, ShareLock, wait) && lock(tenant, session, ExclusiveLock, wait);
}

void
mw_session_stop(const char *tenant, const char *session)
{
	(void) lock(tenant, session, ExclusiveLock, true);
}
