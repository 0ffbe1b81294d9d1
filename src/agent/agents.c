/*
 * agents.c - agents as rows: mw_create_agent, mw_alter_agent, mw_drop_agent.
 *
 * Each change is a new version, and no version is ever written again: a run that
 * was paused goes on with the one that it began with, also where the agent was
 * dropped since.  What is stored has been read once in full (config.c), and
 * holds functions by their whole signatures: names that the creator's
 * search_path found are found no other way later.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "agent/agent.h"
#include "agent/definitions.h"
#include "agent/values.h"
#include "policy/admin.h"
#include "policy/userfunc.h"
#include "util/json.h"
#include "util/names.h"
#include "util/spi.h"

#define MAX_NAME	255

/* ---------- finding ---------- */

/* owner: whose row; NULL: the newest version of the one that wins */
static MwAgent *
read_agent(const char *tenant, const char *owner, const char *name, int version, MwAs as)
{
	static MwStmt newest = {
		"SELECT a.version, a.config, a.tenant FROM mw.agent AS a"
		" WHERE a.tenant OPERATOR(pg_catalog.=) ANY (ARRAY[$1, '*']) AND a.agent OPERATOR(pg_catalog.=) $2 AND a.current"
		" ORDER BY a.tenant OPERATOR(pg_catalog.=) '*' LIMIT 1",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt exact = {
		"SELECT a.version, a.config, a.tenant FROM mw.agent AS a"
		" WHERE a.tenant OPERATOR(pg_catalog.=) $1 AND a.agent OPERATOR(pg_catalog.=) $2 AND a.version OPERATOR(pg_catalog.=) $3",
		3, {TEXTOID, TEXTOID, INT4OID}
	};
	MemoryContext cxt = CurrentMemoryContext;
	Datum		values[3] = {CStringGetTextDatum(owner != NULL ? owner : tenant), CStringGetTextDatum(name), Int32GetDatum(version)};
	Jsonb	   *config = NULL;
	MwAgent    *agent;

	SPI_connect();
	if (mw_spi_read(owner == NULL ? &newest : &exact, as, values, NULL, 1) > 0)
	{
		bool		isnull;
		MemoryContext old;

		version = DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
		old = MemoryContextSwitchTo(cxt);
		config = DatumGetJsonbPCopy(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull));
		owner = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 3);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	if (config == NULL)
		return NULL;
	agent = mw_agent_read(tenant, name, version, config);
	agent->owner = owner;
	return agent;
}

static void *
read_newest(const char *tenant, const char *name, int version, bool *keep)
{
	return read_agent(tenant, NULL, name, version, MW_AS_CALLER);
}

static void *
read_own(const char *tenant, const char *name, int version, bool *keep)
{
	return read_agent(tenant, tenant, name, version, MW_AS_CALLER);
}

static void *
read_everybodys(const char *tenant, const char *name, int version, bool *keep)
{
	return read_agent(tenant, "*", name, version, MW_AS_CALLER);
}

const MwAgent *
mw_agent_find(const char *tenant, const char *owner, const char *name, int version)
{
	return mw_definition(owner == NULL ? read_newest : strcmp(owner, "*") == 0 ? read_everybodys : read_own, tenant, name, version);
}

MwAgent *
mw_agent_of_run(const char *tenant, const char *owner, const char *name, int version)
{
	return read_agent(tenant, owner, name, version, MW_AS_OWNER);
}

char *
mw_agent_names(const char *tenant)
{
	static MwStmt stmt = {
		"SELECT pg_catalog.string_agg(DISTINCT a.agent, ', ' ORDER BY a.agent) FROM mw.agent AS a"
		" WHERE a.tenant OPERATOR(pg_catalog.=) ANY (ARRAY[$1, '*']) AND a.current",
		1, {TEXTOID}
	};
	MemoryContext cxt = CurrentMemoryContext;
	Datum		values[1] = {CStringGetTextDatum(tenant)};
	char	   *names = NULL;

	SPI_connect();
	if (mw_spi_read(&stmt, MW_AS_CALLER, values, NULL, 1) > 0)
	{
		char	   *all = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		if (all != NULL)
			names = MemoryContextStrdup(cxt, all);
	}
	SPI_finish();
	return names != NULL ? names : MemoryContextStrdup(cxt, "");
}

/* ---------- changing ---------- */

/* Functions of hooks and options by their whole signatures */
static char *
resolve_leaf(char *s, int len, int *newlen, const MwJsonPlace *place, void *arg)
{
	const char *key = place->depth > 0 ? place->path[place->depth - 1] : NULL;
	const char *above = place->depth > 1 ? place->path[place->depth - 2] : NULL;
	char	   *whole;

	*newlen = len;
	if (place->is_key || key == NULL ||
		!(strcmp(key, "function") == 0 || (above != NULL && strcmp(above, "hooks") == 0)))
		return s;
	whole = mw_userfunc_hook(pnstrdup(s, len), psprintf("\"%s\" of agent \"%s\"", key, (char *) arg));
	*newlen = strlen(whole);
	return whole;
}

/* Is it an element of a list of tools: a name, or a schema that has it? */
static bool
is_tool_of(Jsonb *tools, const char *name)
{
	for (uint32 i = 0; i < JB_ROOT_COUNT(tools); i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(&tools->root, i);
		Jsonb	   *schema;
		char	   *its = NULL;

		if (v->type == jbvString)
			its = mw_value_string(v);
		else if (v->type == jbvBinary)
		{
			schema = JsonbValueToJsonb(v);
			if (mw_json_get(schema, "function") != NULL)
				schema = mw_json_get_jsonb(schema, "function");
			its = mw_json_get_text(schema, "name");
		}
		if (its != NULL && strcmp(its, name) == 0)
			return true;
	}
	return false;
}

/* Names of registered tools; an agent of everybody may name one that only some tenants have */
static void
check_tools(const MwAgent *agent, const char *tenant)
{
	static MwStmt stmt = {
		"SELECT pg_catalog.bool_or(t.tool OPERATOR(pg_catalog.=) $1), pg_catalog.string_agg(DISTINCT t.tool, ', ' ORDER BY t.tool) FROM mw.tool AS t"
		" WHERE t.tenant OPERATOR(pg_catalog.=) ANY (ARRAY[$2, '*']) OR $2 OPERATOR(pg_catalog.=) '*'",
		2, {TEXTOID, TEXTOID}
	};
	MwJsonEach	each;

	if (agent->tools == NULL)
		return;
	each = mw_json_each(&agent->tools->root);
	while (mw_json_next(&each))
	{
		char	   *tool = each.value.type == jbvString ? mw_value_string(&each.value) : NULL;
		Datum		values[2] = {CStringGetTextDatum(tool != NULL ? tool : ""), CStringGetTextDatum(tenant)};
		char	   *make;
		char	   *known;
		bool		isnull;

		if (tool == NULL)
			continue;
		(void) mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1);
		if (DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull)) && !isnull)
			continue;
		make = psprintf("SELECT mw_create_tool(%s, 'schema.function', tenant => %s);", quote_literal_cstr(tool), quote_literal_cstr(tenant));
		known = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("\"tools\" of agent \"%s\" names \"%s\", which is no tool", agent->name, tool),
				 known != NULL ? errhint("Tools that can be named here: %s. Another one: %s", known, make) : errhint("%s", make)));
	}
}

/* A name that no tool of the agent has yet may be of one that comes later, or a slip: the agent is made, with a warning */
static void
warn_of_tools(const MwAgent *agent)
{
	List	   *brought = NIL;
	ListCell   *lc;

	for (int i = 0; i < agent->nmiddleware; i++)
	{
		MwMiddleware *m = agent->middleware[i];

		if (m->kind->tools != NULL)
			foreach(lc, m->kind->tools(m))
				brought = lappend(brought, unconstify(char *, ((MwTool *) lfirst(lc))->name));
	}
	for (int i = 0; i < agent->nmiddleware; i++)
	{
		MwMiddleware *m = agent->middleware[i];

		foreach(lc, m->named_tools)
		{
			const MwNamedTool *named = lfirst(lc);

			if (!mw_lists(brought, named->tool) && (agent->tools == NULL || !is_tool_of(agent->tools, named->tool)))
				ereport(WARNING,
						(errmsg("option \"%s\" of middleware \"%s\" names \"%s\", which is no tool of the agent",
								named->key, m->name, named->tool)));
		}
	}
}

/* Who sees personal data is told to the server's log, where whoever grants it cannot take it back */
static void
check_reveal(const MwAgent *agent, const char *tenant)
{
	for (int i = 0; i < agent->nmiddleware; i++)
	{
		const MwMiddleware *m = agent->middleware[i];

		if (m->reveal == NULL)
			continue;
		mw_reveal_check(m->reveal, "an agent");
		ereport(LOG,
				(errmsg("hooks of middleware \"%s\" of agent \"%s\" (tenant \"%s\") are shown personal data", m->name, agent->name, tenant),
				 errdetail("Role \"%s\" says so.", GetUserNameFromId(GetOuterUserId(), false)),
				 errhidestmt(true),
				 errhidecontext(true)));
	}
}

static void
add_version(const char *tenant, const char *name, Jsonb *config)
{
	static MwStmt retire = {
		"UPDATE mw.agent SET current = false WHERE tenant OPERATOR(pg_catalog.=) $1 AND agent OPERATOR(pg_catalog.=) $2 AND current",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt add = {
		"INSERT INTO mw.agent (tenant, agent, version, config)"
		" SELECT $1, $2, coalesce(pg_catalog.max(a.version), 0) OPERATOR(pg_catalog.+) 1, $3 FROM mw.agent AS a"
		" WHERE a.tenant OPERATOR(pg_catalog.=) $1 AND a.agent OPERATOR(pg_catalog.=) $2",
		3, {TEXTOID, TEXTOID, JSONBOID}
	};
	Datum		values[3] = {CStringGetTextDatum(tenant), CStringGetTextDatum(name)};
	MwAgent    *agent;

	config = mw_json_map(config, 0, resolve_leaf, unconstify(char *, name));
	agent = mw_agent_read(tenant, name, 1, config);
	check_tools(agent, tenant);
	warn_of_tools(agent);
	check_reveal(agent, tenant);
	values[2] = JsonbPGetDatum(config);
	(void) mw_spi_write(&retire, MW_AS_OWNER, values, NULL);
	(void) mw_spi_write(&add, MW_AS_OWNER, values, NULL);
}

/* The configuration of the current version, or NULL */
static Jsonb *
current_config(const char *tenant, const char *name)
{
	static MwStmt stmt = {
		"SELECT a.config FROM mw.agent AS a"
		" WHERE a.tenant OPERATOR(pg_catalog.=) $1 AND a.agent OPERATOR(pg_catalog.=) $2 AND a.current",
		2, {TEXTOID, TEXTOID}
	};
	Datum		values[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(name)};
	bool		isnull;

	if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) == 0)
		return NULL;
	return DatumGetJsonbPCopy(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/* (agent, config, tenant) */
PG_FUNCTION_INFO_V1(mw_create_agent);

Datum
mw_create_agent(PG_FUNCTION_ARGS)
{
	char	   *name = mw_arg_text(fcinfo, 0, "agent");
	Jsonb	   *config = mw_arg_object(fcinfo, 1, "config");
	char	   *tenant = mw_arg_text(fcinfo, 2, "tenant");

	mw_admin_name(name, "the agent's name", MAX_NAME);
	SPI_connect();
	mw_admin_tenant(tenant, true);
	if (current_config(tenant, name) != NULL)
		mw_admin_is_there("agent", name, tenant, "mw_alter_agent");
	add_version(tenant, name, config);
	SPI_finish();
	PG_RETURN_VOID();
}

/* (agent, config, tenant): merged key by key; null removes one */
PG_FUNCTION_INFO_V1(mw_alter_agent);

Datum
mw_alter_agent(PG_FUNCTION_ARGS)
{
	char	   *name = mw_arg_text(fcinfo, 0, "agent");
	Jsonb	   *changes = mw_arg_object(fcinfo, 1, "config");
	char	   *tenant = mw_arg_text(fcinfo, 2, "tenant");
	Jsonb	   *config;
	MwJsonEach	each;

	SPI_connect();
	mw_admin_tenant(tenant, true);
	config = current_config(tenant, name);
	if (config == NULL)
		mw_admin_no_such("agent", name, tenant, psprintf("SELECT mw_create_agent(%s, '{...}');", quote_literal_cstr(name)));
	config = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(config), JsonbPGetDatum(changes)));
	each = mw_json_each(&changes->root);
	while (mw_json_next(&each))
		if (each.value.type == jbvNull)
			config = DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(config), CStringGetTextDatum(mw_value_string(&each.key))));
	add_version(tenant, name, config);
	SPI_finish();
	PG_RETURN_VOID();
}

/* (agent, tenant): its versions stay for runs that are paused */
PG_FUNCTION_INFO_V1(mw_drop_agent);

Datum
mw_drop_agent(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"UPDATE mw.agent SET current = false WHERE tenant OPERATOR(pg_catalog.=) $1 AND agent OPERATOR(pg_catalog.=) $2 AND current",
		2, {TEXTOID, TEXTOID}
	};
	char	   *name = mw_arg_text(fcinfo, 0, "agent");
	char	   *tenant = mw_arg_text(fcinfo, 1, "tenant");
	Datum		values[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(name)};

	SPI_connect();
	mw_admin_tenant(tenant, true);
	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		mw_admin_no_such("agent", name, tenant, "SELECT DISTINCT agent FROM mw.agent WHERE current;");
	SPI_finish();
	PG_RETURN_VOID();
}
