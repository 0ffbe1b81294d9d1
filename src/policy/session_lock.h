/*
 * session_lock.h - whose a session's thread is until the transaction ends.
 */
#ifndef MW_SESSION_LOCK_H
#define MW_SESSION_LOCK_H

#include "mw.h"

/*
 * One run of a session at a time: until the transaction ends the session is its.
 * False where another transaction has it and wait is false.
 */
extern bool mw_session_claim(const char *tenant, const char *session, bool wait);
/* Waits for the runs of a session, or, with session NULL, for those of all sessions of the tenant, and lets none begin until the transaction ends */
extern void mw_session_stop(const char *tenant, const char *session);

#endif
