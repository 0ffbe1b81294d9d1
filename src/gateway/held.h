/*
 * held.h - what a backend holds in shared memory on behalf of a running call,
 * and gives back when the (sub)transaction that took it aborts: by ERROR,
 * cancel, terminate.  No PG_TRY is needed around a wait.
 */
#ifndef MW_HELD_H
#define MW_HELD_H

#include "postgres.h"

typedef void (*MwHeldRelease) (void *what);
extern void mw_held_init(void); /* from _PG_init: transaction callbacks, once a process */
extern void *mw_held_take(MwHeldRelease release, void *what);	/* handle */
extern void mw_held_drop(void *handle); /* it was given back in the ordinary way */

#endif
