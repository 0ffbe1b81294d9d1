/*
 * watch.h - has anything changed in the tables that processes keep copies of?
 */
#ifndef MW_WATCH_H
#define MW_WATCH_H

#include "mw.h"

#define MW_SESSION_MAX 255	/* bytes of a session's name */
#define MW_MODEL_MAX 319		/* bytes of server:model in the catalogue */

extern void mw_watch_init(void);	/* callbacks, once a process */
extern void mw_rights_init(void);	/* rights.c: the stack of calls follows transactions */

/* Before reading the tables: from now on their changes are noticed.  Cheap when it was done. */
extern void mw_watch_start(void);

/* Generations: whoever keeps something keeps the number with it, and reads again when it is another */
extern uint64 mw_watch_rights(void);	/* tenants, grants, reviewers, roles and memberships */
extern uint64 mw_watch_policy(void);	/* tenants, limits, models, recognisers, guards, purges, the key */
extern uint64 mw_watch_definitions(void);	/* agents, tools, functions and their schemas, and all that counts for rights or policy */
extern uint64 mw_watch_servers(void);	/* foreign servers, their wrappers */

#endif
