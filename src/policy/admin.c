/*
 * admin.c - administration: tenants, grants, purges.
 *
 * EXECUTE on these functions makes an administrator; no other right is asked
 * for.  They read and write as the owner, and the statement triggers on the
 * tables tell all processes.  A drop or a purge writes an epoch that look-ups
 * honour at once; the rows that belong to the gateway are deleted by it after
 * the commit, because a table has one writer.
 */
#include "mw.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "gateway/gateway.h"
#include "policy/admin.h"
#include "policy/redaction.h"
#include "policy/session_lock.h"
#include "policy/settings.h"
#include "policy/vault.h"
#include "policy/watch.h"
#include "util/json.h"
#include "util/spi.h"

PG_FUNCTION_INFO_V1(mw_create_tenant);
PG_FUNCTION_INFO_V1(mw_alter_tenant);
PG_FUNCTION_INFO_V1(mw_drop_tenant);
PG_FUNCTION_INFO_V1(mw_grant_tenant);
PG_FUNCTION_INFO_V1(mw_revoke_tenant);
PG_FUNCTION_INFO_V1(mw_purge_cache);

/* ---------- arguments ---------- */

/* What can be given instead of NULL, by the argument's name */
static const struct
{
	const char *name;
	const char *hint;
}			arguments[] = {
	{"tenant", "SELECT tenant FROM mw.tenant; lists the tenants."},
	{"settings", "'{}' is no setting at all."},
	{"options", "'{}' is no option at all."},
	{"grantee", "SELECT rolname FROM pg_roles; lists the roles."},
	{"unit", "Allowed are: requests, tokens, cost."},
	{"per", "Allowed are: forever, minute, hour, day, month."},
	{"model", "Write server:model; SELECT model FROM mw.model; lists the catalogue."},
	{"pii_type", "SELECT tenant, pii_type FROM mw.recognizer; lists the types."},
	{"guard", "SELECT tenant, guard FROM mw.guard; lists the guards."},
	{"tool", "SELECT tenant, tool FROM mw.tool; lists the tools."},
	{"function", "Write schema.name, with its argument types where several functions have that name."},
	{"args", "'{}' is no argument at all."},
	{"pattern", "Patterns are Perl-compatible regular expressions (PCRE2)."}
};

static void
null_argument(const char *name)
{
	const char *hint = NULL;

	for (int i = 0; i < lengthof(arguments); i++)
	{
		if (strcmp(arguments[i].name, name) == 0)
			hint = arguments[i].hint;
	}
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("argument \"%s\" must not be null", name),
			hint ? errhint("%s", hint) : 0);
}

char *
mw_arg_text(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		null_argument(name);
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

Jsonb *
mw_arg_object(FunctionCallInfo fcinfo, int n, const char *name)
{
	Jsonb	   *jb;

	if (PG_ARGISNULL(n))
		null_argument(name);
	jb = PG_GETARG_JSONB_P(n);
	if (!mw_json_is_object(jb))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("argument \"%s\" must be a JSON object", name),
				errhint("'{}' is an empty one."));
	return jb;
}

const MwPolicy *
mw_arg_policy(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return mw_policy_default();
	return mw_policy_get(text_to_cstring(PG_GETARG_TEXT_PP(n)));
}

void
mw_admin_name(const char *name, const char *what, int max)
{
	if (name[0] == '\0')
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s must not be empty", what),
				errhint("Allowed are 1 to %d bytes without control characters.", max));
	if (strlen(name) > max)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s is too long", what),
				errdetail("It has %zu bytes.", strlen(name)),
				errhint("Allowed are 1 to %d bytes without control characters.", max));
	for (const char *c = name; *c; c++)
	{
		if ((unsigned char) *c < 0x20 || *c == 0x7f)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("%s must not contain control characters", what),
					errhint("Allowed are 1 to %d bytes without control characters.", max));
	}
}

/* create: what was asked for makes sense for a new tenant, so that making it may be what was forgotten */
static void
no_such_tenant(const char *tenant, bool create)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("tenant \"%s\" does not exist", tenant),
			create ? errhint("SELECT mw_create_tenant(%s);", quote_literal_cstr(tenant)) :
			errhint("SELECT tenant FROM mw.tenant; lists them."));
}

/* Locks the row against a drop, so that nothing is written for a tenant that is going */
static void
lock_tenant(const char *tenant, bool all, bool create)
{
	static MwStmt stmt = {
		"SELECT FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 FOR KEY SHARE",
		1, {TEXTOID}
	};
	Datum		arg;

	if (strcmp(tenant, "*") == 0)
	{
		if (all)
			return;
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("'*' stands for all tenants and is not a tenant"),
				errhint("Name one; SELECT tenant FROM mw.tenant; lists them."));
	}
	mw_admin_name(tenant, "the name of a tenant", MW_TENANT_MAX);
	arg = CStringGetTextDatum(tenant);
	if (mw_spi_write(&stmt, MW_AS_OWNER, &arg, NULL) == 0)
		no_such_tenant(tenant, create);
}

void
mw_admin_tenant(const char *tenant, bool all)
{
	lock_tenant(tenant, all, true);
}

/* ---------- tenants ---------- */

Datum
mw_create_tenant(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"INSERT INTO mw.tenant (tenant, settings) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		2, {TEXTOID, JSONBOID}
	};

	/* what only the gateway erases; the cache needs no look, its epoch is the purge's */
	static MwStmt remains = {
		"SELECT WHERE EXISTS (SELECT FROM mw.attempt AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1)"
		" OR EXISTS (SELECT FROM mw.spent AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1)"
		" OR EXISTS (SELECT FROM mw.pruned AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1)"
		" OR EXISTS (SELECT FROM mw.answer AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1)",
		1, {TEXTOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Jsonb	   *settings = mw_settings_merge(NULL, mw_arg_object(fcinfo, 1, "settings"));
	MwPolicy	check = {0};
	Datum		values[2];

	mw_admin_name(tenant, "the name of a tenant", MW_TENANT_MAX);
	if (strcmp(tenant, "*") == 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("'*' stands for all tenants and cannot be the name of one"),
				errhint("Give it a name of its own: SELECT mw_create_tenant('acme');"));
	mw_settings_tenant(settings, &check);

	SPI_connect();
	mw_redaction_check(tenant, check.redaction, NULL);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = JsonbPGetDatum(settings);
	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		ereport(ERROR,
				errcode(ERRCODE_DUPLICATE_OBJECT),
				errmsg("tenant \"%s\" already exists", tenant),
				errhint("SELECT mw_alter_tenant(%s, '{...}'); changes its settings.", quote_literal_cstr(tenant)));
	if (mw_spi_read(&remains, MW_AS_OWNER, values, NULL, 1) > 0)
	{
		if (mw_shared != NULL)
			(void) mw_gateway_ensure();	/* it sweeps when it starts */
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_IN_USE),
				errmsg("rows of an earlier tenant \"%s\" are not erased yet", tenant),
				errdetail("Its ledger and its recorded answers would become the new tenant's."),
				errhint("Try again in a moment: the gateway erases them after mw_drop_tenant (where mw is preloaded)."));
	}
	SPI_finish();
	PG_RETURN_VOID();
}

Datum
mw_alter_tenant(PG_FUNCTION_ARGS)
{
	static MwStmt lock = {
		"SELECT t.settings FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 FOR NO KEY UPDATE",
		1, {TEXTOID}
	};
	static MwStmt update = {
		"UPDATE mw.tenant AS t SET settings = $2 WHERE t.tenant OPERATOR(pg_catalog.=) $1",
		2, {TEXTOID, JSONBOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Jsonb	   *patch = mw_arg_object(fcinfo, 1, "settings");
	Jsonb	   *settings;
	MwPolicy	before = {0};
	MwPolicy	check = {0};
	Datum		values[2];
	bool		isnull;

	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	if (mw_spi_write(&lock, MW_AS_OWNER, values, NULL) == 0)
		no_such_tenant(tenant, false);
	settings = DatumGetJsonbP(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	mw_settings_tenant(settings, &before);
	settings = mw_settings_merge(settings, patch);
	mw_settings_tenant(settings, &check);
	mw_redaction_check(tenant, check.redaction, before.redaction);
	values[1] = JsonbPGetDatum(settings);
	mw_spi_write(&update, MW_AS_OWNER, values, NULL);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * The newest purge of a tenant, or of each; rows of an older epoch are never
 * answers again.  Epochs come from the clock: those of a purge that was rolled
 * back are never given out again, though a call in its transaction may have
 * stored an answer under it.
 */
static uint64
bump_epoch(const char *tenant)
{
	static MwStmt stmt = {
		"INSERT INTO mw.purge AS p (tenant, epoch)"
		" SELECT t.tenant, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8"
		" FROM mw.tenant AS t"
		" WHERE t.tenant OPERATOR(pg_catalog.=) $1 OR $1 OPERATOR(pg_catalog.=) '*'"
		" ON CONFLICT (tenant) DO UPDATE SET epoch = GREATEST(p.epoch OPERATOR(pg_catalog.+) 1, excluded.epoch), purged_at = pg_catalog.now()",
		1, {TEXTOID}
	};
	Datum		arg = CStringGetTextDatum(tenant);

	return mw_spi_write(&stmt, MW_AS_OWNER, &arg, NULL);
}

Datum
mw_drop_tenant(PG_FUNCTION_ARGS)
{
	/* whatever callers' transactions write, besides what is remembered of sessions; mw.purge stays, so that the next tenant of this name inherits no answer */
	static MwStmt erase[] = {
		{"DELETE FROM mw.tenant_grant AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.budget AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.model AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.recognizer AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.guard AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.tool AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.agent AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.reviewer AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.approval_log AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.fake_attempt AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.fake_spent AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.fake_answer AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.fake_cache AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
		{"DELETE FROM mw.tenant AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}}
	};
	static MwStmt lock = {
		"SELECT FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 FOR UPDATE",
		1, {TEXTOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Datum		arg;

	if (strcmp(tenant, "*") == 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("'*' stands for all tenants and cannot be dropped"),
				errhint("Drop one tenant at a time; SELECT tenant FROM mw.tenant; lists them."));

	SPI_connect();
	arg = CStringGetTextDatum(tenant);
	mw_session_stop(tenant, NULL);	/* before its row, which a run may want */
	if (mw_spi_write(&lock, MW_AS_OWNER, &arg, NULL) == 0)
		no_such_tenant(tenant, false);
	bump_epoch(tenant);
	mw_erase_tenant(tenant);
	for (int i = 0; i < lengthof(erase); i++)
		mw_spi_write(&erase[i], MW_AS_OWNER, &arg, NULL);
	SPI_finish();
	mw_gateway_sweep_at_commit();
	PG_RETURN_VOID();
}

/* ---------- grants ---------- */

Datum
mw_grant_tenant(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"INSERT INTO mw.tenant_grant (tenant, grantee) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		2, {TEXTOID, REGROLEOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Datum		values[2];

	if (PG_ARGISNULL(1))
		null_argument("grantee");
	if (!SearchSysCacheExists1(AUTHOID, PG_GETARG_DATUM(1)))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("role with OID %u does not exist", PG_GETARG_OID(1)),
				errhint("SELECT rolname FROM pg_roles; lists the roles."));

	SPI_connect();
	mw_admin_tenant(tenant, true);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = PG_GETARG_DATUM(1);
	mw_spi_write(&stmt, MW_AS_OWNER, values, NULL);
	SPI_finish();
	PG_RETURN_VOID();
}

/* Works for a tenant or role that is gone, so that what is left of it can be taken away */
Datum
mw_revoke_tenant(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"DELETE FROM mw.tenant_grant AS g"
		" WHERE g.tenant OPERATOR(pg_catalog.=) $1 AND g.grantee::pg_catalog.oid OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, OIDOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Datum		values[2];

	if (PG_ARGISNULL(1))
		null_argument("grantee");
	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	values[1] = PG_GETARG_DATUM(1);
	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		ereport(WARNING,
				errcode(ERRCODE_WARNING_PRIVILEGE_NOT_REVOKED),
				errmsg("tenant \"%s\" was not granted to this role", tenant),
				errhint("SELECT * FROM mw.tenant_grant; lists what is granted."));
	SPI_finish();
	PG_RETURN_VOID();
}

/* ---------- purges ---------- */

Datum
mw_purge_cache(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"tenant", "model", "agent", "age"};
	static MwStmt fake = {
		"DELETE FROM mw.fake_cache AS c"
		" WHERE c.tenant OPERATOR(pg_catalog.=) $1 OR $1 OPERATOR(pg_catalog.=) '*'",
		1, {TEXTOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Datum		arg;

	for (int i = 1; i < lengthof(names); i++)
	{
		if (!PG_ARGISNULL(i))
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("a purge by %s is not supported", names[i]),
					errhint("SELECT mw_purge_cache(%s); purges all cached answers of the tenant.",
							quote_literal_cstr(tenant)));
	}

	SPI_connect();
	lock_tenant(tenant, true, false);
	bump_epoch(tenant);
	arg = CStringGetTextDatum(tenant);
	mw_spi_write(&fake, MW_AS_OWNER, &arg, NULL);
	SPI_finish();
	mw_gateway_sweep_at_commit();
	PG_RETURN_VOID();
}
