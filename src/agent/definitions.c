/*
 * definitions.c - agents and tools as this process keeps them.
 *
 * To read a definition, rows, functions and schemas and all, costs more than a
 * turn does.  So what was read is kept, in a memory context of its own, with the
 * generation (watch.h) that it was read at, and read again when that has moved
 * on.  It is kept for each role: what a role sees is a matter of its rights.
 *
 * Runs hold plain pointers.  So, as with policies, what is outdated or crowded
 * out is retired, and freed when the next one is asked for while no call runs.
 *
 * All of it belongs to the process; no lock.
 */
#include "mw.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "agent/definitions.h"
#include "policy/policy.h"
#include "policy/watch.h"

#define MAX_DEFINITIONS 1024	/* of some kB each */
#define MAX_NAME	255			/* bytes; longer names are read each time */

typedef struct Key
{
	MwDefinitionRead read;
	Oid			role;
	int			version;
	char		tenant[MW_TENANT_MAX + 1];
	char		name[MAX_NAME + 1];
} Key;

typedef struct Definition
{
	Key			key;
	uint64		generation;
	MemoryContext cxt;
	void	   *what;
} Definition;

static HTAB *definitions;
static List *retired;			/* of MemoryContext */

static void
retire(Definition *d)
{
	MemoryContext old = MemoryContextSwitchTo(CacheMemoryContext);

	retired = lappend(retired, d->cxt);
	MemoryContextSwitchTo(old);
	(void) hash_search(definitions, &d->key, HASH_REMOVE, NULL);
}

static void
free_retired(void)
{
	ListCell   *lc;

	foreach(lc, retired)
		MemoryContextDelete(lfirst(lc));
	list_free(retired);
	retired = NIL;
}

static void
make_room(void)
{
	HASH_SEQ_STATUS seq;
	Definition *d;

	hash_seq_init(&seq, definitions);
	while ((d = hash_seq_search(&seq)) != NULL)
		retire(d);
}

void *
mw_definition(MwDefinitionRead read, const char *tenant, const char *name, int version)
{
	Key			key;
	Definition *d;
	MemoryContext cxt;
	MemoryContext old;
	uint64		generation;
	bool		keep = true;
	void	   *what;

	if (strlen(tenant) > MW_TENANT_MAX || strlen(name) > MAX_NAME)
		return read(tenant, name, version, &keep);
	if (retired != NIL && mw_call_depth() == 0)
		free_retired();
	if (definitions == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(Key), .entrysize = sizeof(Definition)};

		definitions = hash_create("mw definitions", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	MemSet(&key, 0, sizeof(key));
	key.read = read;
	key.role = GetUserId();
	key.version = version;
	strlcpy(key.tenant, tenant, sizeof(key.tenant));
	strlcpy(key.name, name, sizeof(key.name));
	d = hash_search(definitions, &key, HASH_FIND, NULL);
	if (d != NULL && d->generation == mw_watch_definitions())
		return d->what;
	if (d != NULL)
		retire(d);

	mw_watch_start();
	generation = mw_watch_definitions();
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mw definition", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(cxt);
	what = read(pstrdup(tenant), pstrdup(name), version, &keep);
	MemoryContextSwitchTo(old);
	if (what == NULL || !keep)
		return what;

	if (hash_get_num_entries(definitions) >= MAX_DEFINITIONS)
		make_room();
	/* reading may have read others, and this one too */
	d = hash_search(definitions, &key, HASH_FIND, NULL);
	if (d != NULL)
		retire(d);
	d = hash_search(definitions, &key, HASH_ENTER, NULL);
	d->generation = generation;
	d->what = what;
	d->cxt = cxt;
	MemoryContextSetParent(cxt, CacheMemoryContext);
	return what;
}
