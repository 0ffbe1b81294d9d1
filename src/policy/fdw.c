/*
 * fdw.c - the options of CREATE SERVER and CREATE USER MAPPING for mw.
 *
 * PostgreSQL calls the validator with the whole list that would be stored,
 * whether the statement is a CREATE or an ALTER, and does not say which server
 * it is for.
 *
 * Options that decide where the key and the prompt go, or which file of the
 * server is read, are for superusers.  An owner who is none may still alter the
 * others: the list that results is then accepted if the privileged part of it
 * is, word for word, that of a server that this role owns already.  So nobody
 * gets a combination that a superuser did not write, and to take a part of it
 * away is refused as well.
 *
 * A wrong option is MW001 like every bad argument of mw.  Values are never
 * quoted in errors: one of them is a key.
 */
#include "mw.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "gateway/transport.h"
#include "policy/url.h"
#include "provider/provider.h"
#include "util/duration.h"

#define MAX_KEY_BYTES		8192
#define MAX_RESPONSE_BYTES	(256 * 1024 * 1024) /* what a text may hold, with room for its copies */

typedef const char *(*Check) (const char *value);	/* NULL, or what it must be */

typedef struct Option
{
	const char *name;
	Oid			catalog;		/* of what: a server or a user mapping */
	bool		privileged;
	Check		check;
	const char *example;		/* a value, for hints */
} Option;

static const char *
check_api(const char *value)
{
	return mw_provider_find(value) ? NULL : "must be one of: openai, presidio, fake";
}

static const char *
check_base_url(const char *value)
{
	MwUrl		url;
	const char *why = mw_url_parse(value, &url);

	if (why)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("option \"base_url\" is not usable"),
				errdetail("%s", why),
				errhint("For example base_url 'https://api.openai.com/v1'."));
	return NULL;
}

static const char *
check_field(const char *value)
{
	size_t		len = strlen(value);

	return len >= 1 && len <= 63 &&
		strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len ?
		NULL : "must be the name of a field";
}

static const char *
check_bool(const char *value)
{
	bool		b;

	return parse_bool(value, &b) ? NULL : "must be true or false";
}

static const char *
check_path(const char *value)
{
	return is_absolute_path(value) ? NULL : "must be an absolute path of a file on the server";
}

static const char *
check_proxy(const char *value)
{
	MwUrl		url;

	return mw_url_parse(value, &url) == NULL ? NULL : "must be a URL";
}

static const char *
check_seconds(const char *value)
{
	int64		ms = mw_duration_ms(value, "the duration");

	return ms >= 1 && ms <= 3600 * 1000 ? NULL : "must be an interval or a number of seconds, at most an hour";
}

static const char *
check_few_bytes(const char *value)
{
	return strspn(value, "0123456789") == strlen(value) && strlen(value) >= 1 && strlen(value) <= 7 && atol(value) >= 1 ?
		NULL : "must be a number of bytes from 1 to 9999999";
}

static const char *
check_tls(const char *value)
{
	return strcmp(value, "1.2") == 0 || strcmp(value, "1.3") == 0 ? NULL : "must be one of: 1.2, 1.3";
}

static const char *
check_share(const char *value)
{
	char	   *end;
	double		s = strtod(value, &end);

	return strspn(value, "0123456789.") == strlen(value) && end != value && *end == '\0' && s <= 1 ?
		NULL : "must be a share from 0 to 1";
}

static const char *
check_count(const char *value)
{
	return strspn(value, "0123456789") == strlen(value) && strlen(value) >= 1 && strlen(value) <= 4 ?
		NULL : "must be a whole number from 0 to 9999";
}

static const char *
check_failures(const char *value)
{
	return check_count(value) == NULL && atoi(value) > 0 ? NULL : "must be a whole number from 1 to 9999";
}

static const char *
check_bytes(const char *value)
{
	return strspn(value, "0123456789") == strlen(value) && strlen(value) >= 4 && strlen(value) <= 9 &&
		atol(value) >= 1024 && atol(value) <= MAX_RESPONSE_BYTES ?
		NULL : "must be a number of bytes from 1024 to 268435456";
}

static const char *
check_key(const char *value)
{
	size_t		len = strlen(value);

	/* it becomes a header: a line end in it would begin another */
	for (const char *c = value; *c; c++)
	{
		if ((unsigned char) *c <= 0x20 || (unsigned char) *c >= 0x7f)
			return "must be printable ASCII without spaces";
	}
	return len >= 1 && len < MAX_KEY_BYTES ? NULL : "must not be empty";
}

/* Alphabetical in each catalogue: hints print them in this order */
static const Option options[] = {
	{"allow_private", ForeignServerRelationId, true, check_bool, "true"},
	{"api", ForeignServerRelationId, false, check_api, "openai"},
	{"base_url", ForeignServerRelationId, true, check_base_url, "https://api.openai.com/v1"},
	{"breaker", ForeignServerRelationId, false, check_bool, "off"},
	{"breaker_cooldown", ForeignServerRelationId, false, check_seconds, "30"},
	{"breaker_failures", ForeignServerRelationId, false, check_failures, "5"},
	{"breaker_max_cooldown", ForeignServerRelationId, false, check_seconds, "300"},
	{"ca_file", ForeignServerRelationId, true, check_path, "/etc/ssl/certs/own-ca.pem"},
	{"client_cert", ForeignServerRelationId, true, check_path, "/etc/postgresql/mw-client.pem"},
	{"client_key", ForeignServerRelationId, true, check_path, "/etc/postgresql/mw-client.key"},
	{"connect_timeout", ForeignServerRelationId, false, check_seconds, "10"},
	{"max_response", ForeignServerRelationId, false, check_bytes, "16777216"},
	{"max_tokens_field", ForeignServerRelationId, false, check_field, "max_completion_tokens"},
	{"min_tls", ForeignServerRelationId, true, check_tls, "1.3"},
	{"proxy", ForeignServerRelationId, true, check_proxy, "http://proxy.example.com:3128"},
	{"retry_reserve", ForeignServerRelationId, false, check_count, "10"},
	{"retry_share", ForeignServerRelationId, false, check_share, "0.2"},
	{"retry_unknown", ForeignServerRelationId, false, check_bool, "true"},
	{"stall_bytes", ForeignServerRelationId, false, check_few_bytes, "1"},
	{"stall_timeout", ForeignServerRelationId, false, check_seconds, "60"},
	{"api_key", UserMappingRelationId, false, check_key, "sk-..."},
	{"api_key_file", UserMappingRelationId, true, check_path, "/path/to/key"}
};

static const Option *
find_option(Oid catalog, const char *name)
{
	for (int i = 0; i < lengthof(options); i++)
	{
		if (options[i].catalog == catalog && strcmp(options[i].name, name) == 0)
			return &options[i];
	}
	return NULL;
}

static void
unknown_option(Oid catalog, const char *name)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(options); i++)
	{
		if (options[i].catalog == catalog)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", options[i].name);
	}
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("invalid option \"%s\"", name),
			list.len > 0 ? errhint("Allowed are: %s.", list.data) :
			errhint("mw has options for servers and user mappings only."));
}

static bool
same_privileged(List *a, List *b)
{
	for (int i = 0; i < lengthof(options); i++)
	{
		const char *x;
		const char *y;

		if (options[i].catalog != ForeignServerRelationId || !options[i].privileged)
			continue;
		x = mw_server_option(a, options[i].name);
		y = mw_server_option(b, options[i].name);
		if ((x == NULL) != (y == NULL) || (x && strcmp(x, y) != 0))
			return false;
	}
	return true;
}

/* Does this role own a model server with the privileged options of this list? */
static bool
owns_such_a_server(List *list)
{
	Relation	rel = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	Oid			fdw = get_foreign_data_wrapper_oid("mw", true);
	HeapTuple	tup;
	bool		found = false;

	while (!found && HeapTupleIsValid(tup = systable_getnext(scan)))
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tup);
		bool		isnull;
		Datum		stored = heap_getattr(tup, Anum_pg_foreign_server_srvoptions, RelationGetDescr(rel), &isnull);

		found = form->srvfdw == fdw && !isnull &&
			has_privs_of_role(GetUserId(), form->srvowner) &&
			same_privileged(untransformRelOptions(stored), list);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

static void
superusers_only(const char *name)
{
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("option \"%s\" may be set by superusers only", name),
			errhint("It decides where prompts and keys go, or which file is read. A superuser types the statement; USAGE on the server is enough to call it."));
}

PG_FUNCTION_INFO_V1(mw_fdw_validator);
Datum
mw_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *list;
	Oid			catalog;
	const char *privileged = NULL;
	ListCell   *lc;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("argument 2 of mw.fdw_validator must not be null"));
	catalog = PG_GETARG_OID(1);
	list = PG_ARGISNULL(0) ? NIL : untransformRelOptions(PG_GETARG_DATUM(0));

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const Option *option = find_option(catalog, def->defname);
		const char *must;

		if (option == NULL)
			unknown_option(catalog, def->defname);
		must = option->check(defGetString(def));
		if (must)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("option \"%s\" %s", option->name, must),
					errhint("For example OPTIONS (%s '%s').", option->name, option->example));
		if (option->privileged)
			privileged = option->name;
	}

	if (privileged && !superuser() &&
		!(catalog == ForeignServerRelationId && owns_such_a_server(list)))
		superusers_only(privileged);

	if (catalog == ForeignServerRelationId)
	{
		const char *api = mw_server_option(list, "api");

		if (api == NULL)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("a model server needs the option \"api\""),
					errhint("OPTIONS (api 'openai', base_url 'https://api.openai.com/v1'), or OPTIONS (api 'fake') for tests."));
		if (strcmp(api, "fake") != 0 && mw_server_option(list, "base_url") == NULL)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("a model server with api \"%s\" needs the option \"base_url\"", api),
					errhint("OPTIONS (api '%s', base_url 'https://api.openai.com/v1')", api));
		if (mw_server_option(list, "client_key") != NULL && mw_server_option(list, "client_cert") == NULL)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("option \"client_key\" is of no use without \"client_cert\""),
					errhint("OPTIONS (ADD client_cert '/path/to/certificate.pem')"));
	}
	else if (catalog == UserMappingRelationId && list_length(list) > 1)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("\"api_key\" and \"api_key_file\" exclude each other"),
				errhint("ALTER USER MAPPING FOR PUBLIC SERVER name OPTIONS (DROP api_key, ADD api_key_file '/path');"));

	PG_RETURN_VOID();
}
