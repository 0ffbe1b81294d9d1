/*
 * definitions.h - agents and tools as this process keeps them.
 */
#ifndef MW_DEFINITIONS_H
#define MW_DEFINITIONS_H

#include "mw.h"

/*
 * Reads a definition in the current memory context, where tenant (or whatever
 * else belongs to the name) and name live too; NULL where there is none.  *keep, true before, is made false for what may
 * change without a sign of it (policy/watch.h): that is read each time.
 */
typedef void *(*MwDefinitionRead) (const char *tenant, const char *name, int version, bool *keep);

/* What it reads or has read, for the current role.  Not to be changed; lives until the outermost call has ended, at least. */
extern void *mw_definition(MwDefinitionRead read, const char *tenant, const char *name, int version);

#endif
