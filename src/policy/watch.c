/*
 * watch.c - has anything changed in the tables that processes keep copies of?
 *
 * Rights, policies, the catalogue of models, the key of the database, the
 * options of servers, agents and tools are read rarely and asked for in every call.  Each process
 * keeps them beside a generation number from here; invalidation messages of the
 * relation cache (sent by the triggers of 20_policy.sql) and of the system
 * caches count the numbers up.  Callbacks run at awkward moments and may not
 * read anything: they count, no more.
 *
 * Belongs to the process; no lock.
 */
#include "mw.h"

#include "catalog/namespace.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "policy/watch.h"

#define RIGHTS	0x1
#define POLICY	0x2

static const struct
{
	const char *table;
	int			counts;			/* for these; all count for definitions */
}			watched[] = {
	{"tenant", RIGHTS | POLICY},
	{"tenant_grant", RIGHTS | POLICY},
	{"reviewer", RIGHTS | POLICY},
	{"budget", POLICY},
	{"model", POLICY},
	{"price", POLICY},
	{"recognizer", POLICY},
	{"guard", POLICY},
	{"purge", POLICY},
	{"secret", POLICY},
	{"agent", 0},
	{"tool", 0}
};

static Oid	relids[lengthof(watched)];
static bool started;			/* relids are known */
static bool recheck;			/* ... but one of the tables may have been dropped and made again */
static uint64 rights_generation = 1;
static uint64 policy_generation = 1;
static uint64 servers_generation = 1;
static uint64 definitions_generation = 1;

static void
relation_changed(Datum arg, Oid relid)
{
	if (relid == InvalidOid)
	{
		rights_generation++;
		policy_generation++;
		definitions_generation++;
		started = false;
		return;
	}
	if (!started)
		return;
	for (int i = 0; i < lengthof(watched); i++)
	{
		if (relids[i] == relid)
		{
			definitions_generation++;
			if (watched[i].counts & POLICY)
				policy_generation++;
			if (watched[i].counts & RIGHTS)
				rights_generation++;
			recheck = true;
			return;
		}
	}
}

static void
roles_changed(Datum arg, int cacheid, uint32 hash)
{
	rights_generation++;
	definitions_generation++;
}

static void
functions_changed(Datum arg, int cacheid, uint32 hash)
{
	definitions_generation++;
}

static void
servers_changed(Datum arg, int cacheid, uint32 hash)
{
	servers_generation++;
}

void
mw_watch_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, roles_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, roles_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(DATABASEOID, roles_changed, (Datum) 0);	/* its owner is a member of pg_database_owner */
	CacheRegisterSyscacheCallback(PROCOID, functions_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, functions_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, servers_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, servers_changed, (Datum) 0);
}

void
mw_watch_start(void)
{
	Oid			schema;
	Oid			found[lengthof(watched)];

	if (started && !recheck)
		return;

	/* look-ups may process messages and so come back to the callback: until the end the old relids count */
	recheck = false;
	schema = get_namespace_oid("mw", true);
	for (int i = 0; i < lengthof(watched); i++)
		found[i] = OidIsValid(schema) ? get_relname_relid(watched[i].table, schema) : InvalidOid;
	memcpy(relids, found, sizeof(relids));
	started = OidIsValid(schema);
}

uint64
mw_watch_rights(void)
{
	return rights_generation;
}

uint64
mw_watch_policy(void)
{
	return policy_generation;
}

uint64
mw_watch_servers(void)
{
	return servers_generation;
}

uint64
mw_watch_definitions(void)
{
	return definitions_generation;
}
