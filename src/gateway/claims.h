/*
 * claims.h - who works on a request_id: one transaction at a time.
 */
#ifndef MW_CLAIMS_H
#define MW_CLAIMS_H

#include "mw.h"

extern void mw_claims_shmem_request(void);	/* from shm.c's hooks */
extern void mw_claims_shmem_startup(void);	/* AddinShmemInitLock is held */

/*
 * Claim a key (of tenant and request_id, in this database) until the end of
 * this transaction; waits for the transaction that has it, and says whether it did.
 */
extern bool mw_claims_take(const MwKey *key);

#endif
