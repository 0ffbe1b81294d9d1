/*
 * session_lock.c - whose a session's thread is until the transaction ends.
 *
 * A run writes its thread when it ends, so whoever deletes rows of a session has
 * to wait for its run, or the run would bring back what was erased.  A run holds
 * its session exclusively and all sessions of its tenant together with other
 * runs; whoever erases holds one or the other exclusively.
 *
 * Whatever else is locked of a session (its placeholders, its interrupts, the
 * newest row of its log) is locked by who has the session, after it.  So two
 * transactions that name one session each never wait for each other; who names
 * several has chosen an order.
 *
 * They are locks of PostgreSQL's lock manager, of the kind of advisory locks but
 * in a class that SQL cannot take: they are interrupted, find deadlocks, follow
 * PREPARE, and the gateway never waits for one.  A run's last as long as the
 * transaction, not the subtransaction: what it has paid for goes on.
 */
#include "mw.h"

#include "access/xact.h"
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
lock(const char *what, const char *tenant, const char *session, LOCKMODE mode, bool wait)
{
	LOCKTAG		tag;
	uint32		half[2];
	MwHash		h;
	MwKey		key;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, what);
	mw_hash_text(&h, tenant);
	mw_hash_text(&h, session);
	key = mw_hash_end(&h);
	memcpy(half, key.b, sizeof(half));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, half[0], half[1], LOCK_CLASS);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

static bool
lock_both(const char *tenant, const char *session, bool wait)
{
	return lock("sessions", tenant, NULL, ShareLock, wait) && lock("session", tenant, session, ExclusiveLock, wait);
}

bool
mw_session_claim(const char *tenant, const char *session, bool wait)
{
	ResourceOwner owner = CurrentResourceOwner;
	bool		got;

	/* the end of a subtransaction does not end it; an error here unwinds the owner too */
	CurrentResourceOwner = TopTransactionResourceOwner;
	got = lock_both(tenant, session, wait);
	CurrentResourceOwner = owner;
	return got;
}

void
mw_session_hold(const char *tenant, const char *session)
{
	(void) lock_both(tenant, session, true);
}

bool
mw_session_look(const char *tenant, const char *session)
{
	static TimestampTz refused;	/* the transaction in which another one was met */
	TimestampTz now = GetCurrentTransactionStartTimestamp();

	if (refused == now)
		return false;
	if (!lock("look", tenant, session, ExclusiveLock, false))
	{
		refused = now;
		return false;
	}
	return lock_both(tenant, session, false);
}

void
mw_session_stop(const char *tenant, const char *session)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = TopTransactionResourceOwner;
	(void) lock(session != NULL ? "session" : "sessions", tenant, session, ExclusiveLock, true);
	CurrentResourceOwner = owner;
}
