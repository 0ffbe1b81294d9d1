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
/*
 * The same for what is done to a session without running it: values that are given
 * numbers, interrupts that are claimed and decided.  Waits, and ends with the
 * subtransaction where that is rolled back.
 */
extern void mw_session_hold(const char *tenant, const char *session);
/*
 * ... and for what looks and writes that down, which waits for nobody: false where
 * another transaction has the session.  Two that look at the same sessions would each
 * have some of them, and wait for each other when they decide; so where another one
 * looks, this transaction looks no more.
 */
extern bool mw_session_look(const char *tenant, const char *session);
/* Waits for the runs of a session, or, with session NULL, for those of all sessions of the tenant, and lets none begin until the transaction ends */
extern void mw_session_stop(const char *tenant, const char *session);

#endif
