/*
 * doctor.c - mw_doctor(): what is wrong with this installation, a row a check.
 *
 * Each check is one function that finds fault or not, in the order of the table
 * at the end.  It looks as the owner, so that an administrator who is no
 * superuser gets the same answer, and shows names of servers, roles and tables
 * only: no key, no text of a caller.  It changes nothing and calls nobody.
 */
#include "mw.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "gateway/address.h"
#include "gateway/shm.h"
#include "gateway/transport.h"
#include "guc.h"
#include "policy/url.h"
#include "policy/vault.h"
#include "stage/guardrail.h"
#include "util/spi.h"

#define SHOWN 5					/* names in a detail; the rest is a number */

typedef struct Finding
{
	const char *status;			/* ok, warning, error */
	char	   *detail;
	char	   *hint;			/* NULL where there is nothing to do */
} Finding;

typedef void (*CheckFn) (Finding *f);

static void
found(Finding *f, const char *status, char *detail, char *hint)
{
	f->status = status;
	f->detail = detail;
	f->hint = hint;
}

static char *
first_column(uint64 row)
{
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1);
}

/* The first column of a query's rows, as a list for a detail; NULL when there are none */
static char *
listed(MwStmt *stmt)
{
	uint64		n = mw_spi_read(stmt, MW_AS_OWNER, NULL, NULL, 0);
	StringInfoData buf;

	if (n == 0)
		return NULL;
	initStringInfo(&buf);
	for (uint64 i = 0; i < Min(n, SHOWN); i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", first_column(i));
	if (n > SHOWN)
		appendStringInfo(&buf, " and " UINT64_FORMAT " more", n - SHOWN);
	return buf.data;
}

/* What a query lists is amiss; nothing listed is ok */
typedef struct Listing
{
	MwStmt		stmt;
	char	   *ok;
	const char *status;
	const char *amiss;			/* with the list as its %s */
	char	   *hint;
} Listing;

static void
check_listing(Finding *f, Listing *l)
{
	char	   *names = listed(&l->stmt);

	if (names == NULL)
		found(f, "ok", l->ok, NULL);
	else
		found(f, l->status, psprintf(l->amiss, names), l->hint);
}

static const char *
setting(const char *name)
{
	return GetConfigOption(name, true, false);
}

/* ---------- the installation ---------- */

static void
check_preload(Finding *f)
{
	static MwStmt real = {
		"SELECT s.srvname FROM pg_catalog.pg_foreign_server AS s"
		" JOIN pg_catalog.pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw AND w.fdwname = 'mw'"
		" WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_options_to_table(s.srvoptions) AS o"
		"  WHERE o.option_name = 'api' AND o.option_value = 'fake')",
		0, {0}
	};

	if (mw_shared != NULL)
		found(f, "ok", "The library is preloaded.", NULL);
	else
		found(f, listed(&real) ? "error" : "warning",
			  "The library is not preloaded: no call can reach a real model server.",
			  "ALTER SYSTEM SET shared_preload_libraries = 'mw'; (beside what is preloaded already), then restart the server.");
}

static void
check_version(Finding *f)
{
	static MwStmt stmt = {"SELECT e.extversion FROM pg_catalog.pg_extension AS e WHERE e.extname = 'mw'", 0, {0}};
	char	   *script = listed(&stmt);

	if (script && strcmp(script, MW_VERSION) == 0)
		found(f, "ok", psprintf("Library and extension have version %s.", script), NULL);
	else
		found(f, "error",
			  psprintf("The library has version %s, the extension in this database %s.", MW_VERSION, script ? script : "none"),
			  psprintf("ALTER EXTENSION mw UPDATE TO '%s'; or restart the server if the library was replaced.", MW_VERSION));
}

static void
check_owner(Finding *f)
{
	Oid			owner = mw_extension_owner();

	if (superuser_arg(owner))
		found(f, "ok", psprintf("The tables belong to %s, a superuser.", GetUserNameFromId(owner, false)), NULL);
	else
		found(f, "error",
			  psprintf("The tables belong to %s, who is no superuser: row-level security hides their rows from mw itself.",
					   GetUserNameFromId(owner, false)),
			  psprintf("ALTER ROLE %s SUPERUSER; or REASSIGN OWNED to a superuser.", quote_identifier(GetUserNameFromId(owner, false))));
}

static void
check_encoding(Finding *f)
{
	if (GetDatabaseEncoding() == PG_UTF8)
		found(f, "ok", "The encoding of this database is UTF8.", NULL);
	else
		found(f, "error", psprintf("The encoding of this database is %s.", GetDatabaseEncodingName()),
			  "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0; and install mw there.");
}

static void
check_key(Finding *f)
{
	static MwStmt stmt = {"SELECT 'one' FROM mw.secret", 0, {0}};

	if (listed(&stmt))
		found(f, "ok", "The key of this database is there.", NULL);
	else
		found(f, "error", "The key of this database is missing: calls with a request_id and channels fail.",
			  "Restore mw.secret from a dump of this database.");
}

static void
check_workers(Finding *f)
{
	/* a worker's type is its own word; everything else that has a row is known by name */
	static MwStmt stmt = {
		"SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity AS a WHERE a.backend_type NOT IN ("
		"'client backend', 'autovacuum launcher', 'autovacuum worker', 'background writer', 'checkpointer',"
		" 'walwriter', 'walsender', 'walreceiver', 'walsummarizer', 'startup', 'archiver', 'logger',"
		" 'standalone backend', 'slotsync worker', 'io worker')",
		0, {0}
	};
	int			used = atoi(listed(&stmt));

	if (used < max_worker_processes)
		found(f, "ok", psprintf("%d of %d worker slots are used; mw needs one a database.", used, max_worker_processes), NULL);
	else
		found(f, "warning", psprintf("All %d worker slots are used; the gateway of a database needs one.", max_worker_processes),
			  psprintf("ALTER SYSTEM SET max_worker_processes = %d; and restart the server.", max_worker_processes + 8));
}

static void
check_recovery(Finding *f)
{
	if (!RecoveryInProgress())
		found(f, "ok", "This server accepts writes.", NULL);
	else
		found(f, "warning", "This server is a standby: calls are refused (25006).", "Call the primary server.");
}

static void
check_jit(Finding *f)
{
	uint32_t	jit = 0;

	(void) pcre2_config(PCRE2_CONFIG_JIT, &jit);
	if (jit)
		found(f, "ok", "PCRE2 compiles patterns to machine code.", NULL);
	else
		found(f, "warning", "PCRE2 was built without its JIT: redaction and guards are several times slower.",
			  "Install a PCRE2 that was configured with --enable-jit.");
}

static void
check_learned(Finding *f)
{
	const char *version;
	const char *wrong = mw_learned_trouble(&version);

	if (wrong == NULL)
		found(f, "ok", psprintf("The learned guard has its weights, version %s.", version), NULL);
	else
		found(f, "error", psprintf("The learned guard finds nothing: %s.", wrong),
			  "Install mw anew (make install), then restart the server, which reads the file when it starts.");
}

/* ---------- rights ---------- */

static Listing row_security = {
	{
		"SELECT c.oid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_class AS c"
		" JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = 'mw'"
		" WHERE c.relkind IN ('r', 'p') AND NOT (c.relrowsecurity AND c.relforcerowsecurity)"
		" AND EXISTS (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped)"
		" ORDER BY 1",
		0, {0}
	},
	"Every table with a tenant forces row-level security.",
	"error", "Row-level security is off or not forced on %s.",
	"ALTER TABLE ... ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; for each."
};

static Listing triggers = {
	{
		"SELECT t.name FROM pg_catalog.unnest(ARRAY['secret', 'tenant', 'tenant_grant', 'budget', 'model', 'recognizer', 'guard', 'purge']) AS t(name)"
		" WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS g"
		"  JOIN pg_catalog.pg_class AS c ON c.oid = g.tgrelid AND c.relname = t.name"
		"  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = 'mw'"
		"  WHERE g.tgname = 'invalidate' AND g.tgenabled = 'A')",
		0, {0}
	},
	"Changes of policies reach every process.",
	"error", "The trigger \"invalidate\" is missing or not ALWAYS on mw.%s: other sessions keep old policies and rights.",
	"ALTER TABLE mw.... ENABLE ALWAYS TRIGGER invalidate; for each."
};

static Listing roles = {
	{
		"SELECT pg_catalog.quote_ident(r.rolname) FROM pg_catalog.pg_roles AS r"
		" WHERE (r.rolsuper OR r.rolbypassrls) AND r.rolcanlogin AND r.oid <> 10"
		" AND r.oid <> (SELECT e.extowner FROM pg_catalog.pg_extension AS e WHERE e.extname = 'mw') ORDER BY 1",
		0, {0}
	},
	"No role but the installation's own sees past row-level security.",
	"warning", "These roles see every tenant's rows: %s.",
	"ALTER ROLE ... NOSUPERUSER NOBYPASSRLS; for what an application logs in as."
};

static Listing grants = {
	{
		"SELECT pg_catalog.quote_literal(t.tenant) FROM mw.tenant AS t WHERE NOT EXISTS (SELECT FROM mw.tenant_grant AS g"
		" JOIN pg_catalog.pg_roles AS r ON r.oid = g.grantee::pg_catalog.oid"
		" WHERE g.tenant IN (t.tenant, '*')) ORDER BY 1",
		0, {0}
	},
	"Every tenant was granted to a role.",
	"warning", "Nobody may act for these tenants: %s.",
	"SELECT mw_grant_tenant(tenant, role);"
};

/* DROP ROLE knows nothing of these rows; they mean nobody, until a role gets that number again */
static Listing dropped_roles = {
	{
		"SELECT pg_catalog.quote_literal(g.tenant) FROM mw.tenant_grant AS g"
		" WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.oid = g.grantee::pg_catalog.oid)"
		" UNION SELECT pg_catalog.quote_literal(v.tenant) FROM mw.reviewer AS v"
		" WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.oid = v.grantee::pg_catalog.oid) ORDER BY 1",
		0, {0}
	},
	"Every role that was granted something is there.",
	"warning", "Grants of these tenants name roles that were dropped: %s.",
	"SELECT mw_revoke_tenant(tenant, grantee) FROM mw.tenant_grant WHERE grantee::oid NOT IN (SELECT oid FROM pg_roles); "
	"SELECT mw_revoke_reviewer(tenant, grantee) FROM mw.reviewer WHERE grantee::oid NOT IN (SELECT oid FROM pg_roles);"
};

/* ---------- servers and models ---------- */

/* name, base_url, allow_private, has a mapping */
#define SERVERS_SQL \
	"SELECT pg_catalog.quote_ident(s.srvname)," \
	" (SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.srvoptions) AS o WHERE o.option_name = 'base_url')," \
	" EXISTS (SELECT FROM pg_catalog.pg_options_to_table(s.srvoptions) AS o WHERE o.option_name = 'allow_private'" \
	"  AND o.option_value IN ('true', 'on', 'yes', '1'))," \
	" EXISTS (SELECT FROM pg_catalog.pg_user_mapping AS m WHERE m.umserver = s.oid)" \
	" FROM pg_catalog.pg_foreign_server AS s" \
	" JOIN pg_catalog.pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw AND w.fdwname = 'mw'" \
	" WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_options_to_table(s.srvoptions) AS o WHERE o.option_name = 'api' AND o.option_value = 'fake')" \
	" ORDER BY 1"

typedef struct ServerList
{
	StringInfoData clear_text;
	StringInfoData no_mapping;
	const char *first_clear;	/* the names that the hints begin with */
	const char *first_unmapped;
} ServerList;

static void
look_at_servers(ServerList *list)
{
	static MwStmt stmt = {SERVERS_SQL, 0, {0}};
	uint64		n = mw_spi_read(&stmt, MW_AS_OWNER, NULL, NULL, 0);

	initStringInfo(&list->clear_text);
	initStringInfo(&list->no_mapping);
	list->first_clear = list->first_unmapped = NULL;
	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		char	   *name = SPI_getvalue(row, desc, 1);
		char	   *base_url = SPI_getvalue(row, desc, 2);
		bool		inside;
		bool		mapped;
		bool		isnull;
		MwUrl		url;

		if (base_url == NULL || mw_url_parse(base_url, &url) != NULL)
			continue;
		inside = (url.literal && mw_address_kind_text(url.host) == MW_ADDRESS_PRIVATE) ||
			DatumGetBool(SPI_getbinval(row, desc, 3, &isnull));
		mapped = DatumGetBool(SPI_getbinval(row, desc, 4, &isnull));

		if (!url.https && !inside)
		{
			appendStringInfo(&list->clear_text, "%s%s", list->first_clear != NULL ? ", " : "", name);
			list->first_clear = list->first_clear != NULL ? list->first_clear : name;
		}
		if (!mapped && !inside)
		{
			appendStringInfo(&list->no_mapping, "%s%s", list->first_unmapped != NULL ? ", " : "", name);
			list->first_unmapped = list->first_unmapped != NULL ? list->first_unmapped : name;
		}
	}
}

static void
check_clear_text(Finding *f)
{
	ServerList	list;

	look_at_servers(&list);
	if (list.clear_text.len == 0)
		found(f, "ok", "No model server outside is called by plain http.", NULL);
	else
		found(f, "warning", psprintf("Prompts and keys travel in clear text to %s.", list.clear_text.data),
			  psprintf("ALTER SERVER %s OPTIONS (SET base_url 'https://...'); for each.", list.first_clear));
}

static void
check_mappings(Finding *f)
{
	ServerList	list;

	look_at_servers(&list);
	if (list.no_mapping.len == 0)
		found(f, "ok", "Every model server outside has a user mapping.", NULL);
	else
		found(f, "warning", psprintf("Requests go without a key to %s.", list.no_mapping.data),
			  psprintf("CREATE USER MAPPING FOR PUBLIC SERVER %s OPTIONS (api_key_file '/path/of/the/key');", list.first_unmapped));
}

/* The file of each mapping, as the gateway would read it: a backend is the same user of the system */
static void
check_key_files(Finding *f)
{
	static MwStmt stmt = {
		"SELECT pg_catalog.quote_ident(s.srvname), o.option_value,"
		" CASE m.umuser WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(m.umuser)) END"
		" FROM pg_catalog.pg_user_mapping AS m"
		" JOIN pg_catalog.pg_foreign_server AS s ON s.oid = m.umserver"
		" JOIN pg_catalog.pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw AND w.fdwname = 'mw',"
		" pg_catalog.pg_options_to_table(m.umoptions) AS o WHERE o.option_name = 'api_key_file' ORDER BY 1, 3",
		0, {0}
	};
	uint64		n = mw_spi_read(&stmt, MW_AS_OWNER, NULL, NULL, 0);
	StringInfoData buf;
	char	   *hint = NULL;

	initStringInfo(&buf);
	for (uint64 i = 0; i < n; i++)
	{
		char	   *server = first_column(i);
		char	   *role = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 3);
		char	   *why = mw_key_file_problem(SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2));

		if (why == NULL)
			continue;
		appendStringInfo(&buf, "%s%s for %s: %s", buf.len > 0 ? "; " : "", server, role, why);
		if (hint == NULL)
			hint = psprintf("Let the user that PostgreSQL runs as read it (chmod 600, owner postgres), or name another: "
							"ALTER USER MAPPING FOR %s SERVER %s OPTIONS (SET api_key_file '/path/of/the/key');", role, server);
	}
	if (buf.len == 0)
		found(f, "ok", "The key file of each user mapping can be read.", NULL);
	else
		found(f, "error", psprintf("Calls fail, since a key cannot be read (%s).", buf.data), hint);
}

static Listing inline_keys = {
	{
		"SELECT pg_catalog.quote_ident(s.srvname) FROM pg_catalog.pg_foreign_server AS s"
		" JOIN pg_catalog.pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw AND w.fdwname = 'mw'"
		" WHERE EXISTS (SELECT FROM pg_catalog.pg_user_mapping AS m, pg_catalog.pg_options_to_table(m.umoptions) AS o"
		"  WHERE m.umserver = s.oid AND o.option_name = 'api_key') ORDER BY 1",
		0, {0}
	},
	"No user mapping holds a key itself.",
	"warning", "User mappings of %s hold their key: pg_dump prints it, and so does the log when such a statement fails.",
	"ALTER USER MAPPING ... OPTIONS (DROP api_key, ADD api_key_file '/path/of/the/key');"
};

static Listing models = {
	{
		"SELECT pg_catalog.quote_literal(x.model) FROM ("
		" SELECT pg_catalog.current_setting('mw.default_model', true) AS model"
		" UNION SELECT t.settings OPERATOR(pg_catalog.->>) 'model' FROM mw.tenant AS t"
		") AS x WHERE x.model <> '' AND NOT EXISTS (SELECT FROM pg_catalog.pg_foreign_server AS s"
		" JOIN pg_catalog.pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw AND w.fdwname = 'mw'"
		" WHERE s.srvname = pg_catalog.split_part(x.model, ':', 1)) ORDER BY 1",
		0, {0}
	},
	"The models of mw.default_model and of the tenants' settings have a server.",
	"error", "No server has these models, which mw.default_model or a tenant's settings name: %s.",
	"CREATE SERVER ... FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url '...'); or change the setting."
};

static Listing breakers = {
	{
		"SELECT b.server FROM mw.breaker_rows() AS b WHERE b.state OPERATOR(pg_catalog.=) ANY ('{open,half-open}') ORDER BY 1",
		0, {0}
	},
	"No circuit breaker is open.",
	"warning", "The circuit breakers of these servers are open, and calls to them are refused: %s.",
	"mw.breaker says until when and mw.ledger why. Where the cause is mended: SELECT mw_reset_breaker('...');"
};

static Listing tools = {
	{
		"SELECT DISTINCT t.tool FROM mw.tool AS t WHERE pg_catalog.to_regprocedure(t.function) IS NULL ORDER BY 1",
		0, {0}
	},
	"The function of each tool exists.",
	"error", "The functions of these tools are gone, and runs that have them fail: %s.",
	"Create them again, or SELECT mw_alter_tool('...', '{\"function\": \"...\"}'); mw.tool says which they were."
};

/* ---------- what sessions remember ---------- */

static void
check_pii_key(Finding *f)
{
	char	   *hint;
	char	   *why = mw_pii_key_problem(&hint);

	if (why)
		found(f, "error", psprintf("The file of mw.pii_key_file cannot be used, and calls of sessions that remember fail: %s.", why), hint);
	else if (mw_guc_pii_key_file[0] == '\0')
		found(f, "warning", "mw.pii_key_file is not set: sessions remember no values, and placeholders of earlier turns are not restored.",
			  "Write a file with a line \"1 KEY\", KEY being 64 hexadecimal digits; then ALTER SYSTEM SET mw.pii_key_file = '/path'; SELECT pg_reload_conf();");
	else if (mw_pii_key_exposed())
		found(f, "warning", "The file of mw.pii_key_file can be read or written by others than its owner.", "chmod 600 on it.");
	else
		found(f, "ok", psprintf("What sessions remember is sealed by key %d.", mw_pii_key_newest()->version), NULL);
}

static void
check_pii_versions(Finding *f)
{
	static MwStmt stmt = {"SELECT DISTINCT p.key_version::pg_catalog.text FROM mw.pii AS p WHERE p.key_version > 0 AND p.lookup IS NOT NULL ORDER BY 1", 0, {0}};
	uint64		n;
	char	   *hint;
	StringInfoData missing;
	bool		older = false;

	/* a file that cannot be used is the other check's finding */
	if (mw_pii_key_problem(&hint) != NULL)
	{
		found(f, "ok", "No version of the key can be looked for.", NULL);
		return;
	}
	n = mw_spi_read(&stmt, MW_AS_OWNER, NULL, NULL, 0);
	initStringInfo(&missing);
	for (uint64 i = 0; i < n; i++)
	{
		const MwPiiKey *newest = mw_pii_key_newest();
		char	   *version = first_column(i);

		if (mw_pii_key(atoi(version)) == NULL)
			appendStringInfo(&missing, "%s%s", missing.len > 0 ? ", " : "", version);
		else if (atoi(version) != newest->version)
			older = true;
	}
	if (missing.len > 0)
		found(f, "error", psprintf("Values of sessions were sealed by keys that are not there: %s. Their placeholders are not restored.", missing.data),
			  "Put the lines of these versions back into the file of mw.pii_key_file, then SELECT mw_rotate_pii_key();");
	else if (older)
		found(f, "warning", "Some values of sessions are sealed by an older key.", "SELECT mw_rotate_pii_key();");
	else
		found(f, "ok", "Every sealed value was sealed by the newest key.", NULL);
}

/* ---------- what crashes ---------- */

/* The gateway counts them the same way, see left_by_earlier_run() in record.c */
static Listing crashes = {
	{
		"SELECT pg_catalog.quote_literal(a.tenant) OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) pg_catalog.quote_literal(a.request_id)"
		" FROM mw.attempt AS a WHERE a.outcome = 'unknown' AND a.error = '" MW_LOST_IN_CRASH "' AND a.request_named"
		" GROUP BY a.tenant, a.request_id, a.call_key, a.nth HAVING pg_catalog.count(*) >= 2 ORDER BY 1",
		0, {0}
	},
	"No request was running in two crashes of the server.",
	"warning", "These requests (tenant/request_id) were running in two crashes of the server and are not sent any more: %s.",
	"Look into the server's log for what ended it; a new request_id sends such a request anew."
};

/* ---------- what the log and the activity views would tell ---------- */

static void
check_logs(Finding *f)
{
	static const struct
	{
		const char *name;
		const char *harmless;	/* the value at which no statement is printed */
	}			settings[] = {
		{"log_statement", "none"},	/* ddl: CREATE TABLE ... AS SELECT mw_ask(...); mod: INSERT ... SELECT mw_ask(...) */
		{"log_min_duration_statement", "-1"},
		{"log_min_duration_sample", "-1"},
		{"log_transaction_sample_rate", "0"},
		{"log_parameter_max_length_on_error", "0"},
		{"auto_explain.log_min_duration", "-1"}
	};
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < lengthof(settings); i++)
	{
		const char *value = setting(settings[i].name);

		if (value && strcmp(value, settings[i].harmless) != 0)
			appendStringInfo(&buf, "%s%s = %s", buf.len > 0 ? ", " : "", settings[i].name, value);
	}

	if (buf.len == 0)
		found(f, "ok", "The server's log prints no statement that holds a prompt.", NULL);
	else
		found(f, "warning", psprintf("The server's log prints statements or their parameters, and with them raw prompts: %s.", buf.data),
			  "Log none of the roles that call models: ALTER ROLE ... SET log_statement = 'none'; and likewise for the others.");
}

static void
check_activity(Finding *f)
{
	if (pgstat_track_activities)
		found(f, "ok", "pg_stat_activity shows a running statement, with its prompt, to the same role, its members and pg_read_all_stats.", NULL);
	else
		found(f, "ok", "track_activities is off: pg_stat_activity shows no statement.", NULL);
}

/* ---------- SQL ---------- */

static const struct
{
	const char *name;
	CheckFn		check;
	Listing    *list;			/* where check is NULL */
}			checks[] = {
	{"preload", check_preload},
	{"version", check_version},
	{"owner", check_owner},
	{"encoding", check_encoding},
	{"key", check_key},
	{"worker slots", check_workers},
	{"recovery", check_recovery},
	{"pcre2 jit", check_jit},
	{"learned guard", check_learned},
	{"row security", .list = &row_security},
	{"invalidation", .list = &triggers},
	{"roles", .list = &roles},
	{"grants", .list = &grants},
	{"dropped roles", .list = &dropped_roles},
	{"models", .list = &models},
	{"breakers", .list = &breakers},
	{"tools", .list = &tools},
	{"user mappings", check_mappings},
	{"key files", check_key_files},
	{"inline keys", .list = &inline_keys},
	{"clear text", check_clear_text},
	{"pii key", check_pii_key},
	{"pii key versions", check_pii_versions},
	{"crashes", .list = &crashes},
	{"log", check_logs},
	{"activity", check_activity}
};

PG_FUNCTION_INFO_V1(mw_doctor);
Datum
mw_doctor(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	for (int i = 0; i < lengthof(checks); i++)
	{
		Finding		f = {0};
		Datum		values[4];
		bool		nulls[4] = {false, false, false, false};

		if (checks[i].check)
			checks[i].check(&f);
		else
			check_listing(&f, checks[i].list);
		values[0] = CStringGetTextDatum(checks[i].name);
		values[1] = CStringGetTextDatum(f.status);
		values[2] = CStringGetTextDatum(f.detail);
		values[3] = mw_out_text(f.hint, &nulls[3]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	SPI_finish();
	return (Datum) 0;
}
