/*
 * catalog.c - administration: models and recognisers (guards: guard_admin.c).
 *
 * Built-in recognisers and guards are rows that CREATE EXTENSION writes and
 * that stay as they are: a dump leaves them out, so a changed one would be lost
 * or collide at restore.  What an administrator makes of them is a row beside
 * them (builtin false), which wins; dropping it brings the built-in one back.
 * To switch a built-in guard off there is mode 'off'; a recogniser's pattern can
 * be made to match nothing, '(?!)'.
 *
 * Patterns are compiled before they are stored, so that a mistake is an error
 * of the administrator and not of every call after.
 */
#include "mw.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "policy/admin.h"
#include "policy/settings.h"
#include "policy/watch.h"
#include "util/json.h"
#include "util/regex.h"
#include "util/spi.h"
#include "util/validate.h"

#define MAX_PATTERN	16384		/* bytes */

PG_FUNCTION_INFO_V1(mw_set_model);
PG_FUNCTION_INFO_V1(mw_alter_model);
PG_FUNCTION_INFO_V1(mw_drop_model);
PG_FUNCTION_INFO_V1(mw_create_recognizer);
PG_FUNCTION_INFO_V1(mw_alter_recognizer);
PG_FUNCTION_INFO_V1(mw_drop_recognizer);

static const char *const strategies[] = {"mask", "placeholder", "hash", "redact", "block", NULL};
static const char *const recognizer_keys[] = {"strategy", "validator", "context", "priority", NULL};
static const char *const recognizer_alter_keys[] = {"pattern", "strategy", "validator", "context", "priority", NULL};

void
mw_admin_no_such(const char *kind, const char *name, const char *tenant, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			tenant ? errmsg("%s \"%s\" of tenant \"%s\" does not exist", kind, name, tenant) :
			errmsg("%s \"%s\" does not exist", kind, name),
			errhint("%s", hint));
}

void
mw_admin_is_there(const char *kind, const char *name, const char *tenant, const char *alter)
{
	ereport(ERROR,
			errcode(ERRCODE_DUPLICATE_OBJECT),
			errmsg("%s \"%s\" of tenant \"%s\" already exists", kind, name, tenant),
			errhint("SELECT %s(%s, '{...}', %s); changes it; another tenant may have its own.",
					alter, quote_literal_cstr(name), quote_literal_cstr(tenant)));
}

static bool
has(Jsonb *jb, const char *key)
{
	return getKeyJsonValueFromContainer(&jb->root, key, strlen(key), NULL) != NULL;
}

void
mw_admin_pattern(const char *pattern, int flags, const char *what)
{
	char	   *why = NULL;
	MwRegex    *re;
	int			from,
				to;

	mw_admin_name(pattern, what, MAX_PATTERN);
	re = mw_regex_get(pattern, flags, &why);
	if (re == NULL)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s is no regular expression", what),
				errdetail("%s.", why ? why : "It could not be compiled"),
				errhint("Patterns are Perl-compatible regular expressions (PCRE2)."));
	if (mw_regex_find(re, "", 0, 0, &from, &to) > 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s matches the empty text", what),
				errhint("It would match everywhere; ask for at least one character."));
}

/* ---------- models ---------- */

static void
check_model(const char *model)
{
	mw_admin_name(model, "the name of a model", MW_MODEL_MAX);
	mw_check_model_name(model, "argument \"model\"");
}

Datum
mw_set_model(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"INSERT INTO mw.model (tenant, model, settings) VALUES ('*', $1, $2)"
		" ON CONFLICT (tenant, model) DO UPDATE SET settings = excluded.settings",
		2, {TEXTOID, JSONBOID}
	};
	char	   *model = mw_arg_text(fcinfo, 0, "model");
	Jsonb	   *settings = mw_settings_merge(NULL, mw_arg_object(fcinfo, 1, "settings"));
	MwModel		check;
	Datum		values[2];

	check_model(model);
	mw_settings_model(settings, &check);
	SPI_connect();
	values[0] = CStringGetTextDatum(model);
	values[1] = JsonbPGetDatum(settings);
	mw_spi_write(&stmt, MW_AS_OWNER, values, NULL);
	SPI_finish();
	PG_RETURN_VOID();
}

static void
no_such_model(const char *model)
{
	mw_admin_no_such("model", model, NULL,
			"SELECT model FROM mw.model; lists them; mw_set_model makes one.");
}

Datum
mw_alter_model(PG_FUNCTION_ARGS)
{
	static MwStmt lock = {
		"SELECT m.settings FROM mw.model AS m"
		" WHERE m.tenant OPERATOR(pg_catalog.=) '*' AND m.model OPERATOR(pg_catalog.=) $1 FOR NO KEY UPDATE",
		1, {TEXTOID}
	};
	static MwStmt update = {
		"UPDATE mw.model AS m SET settings = $2"
		" WHERE m.tenant OPERATOR(pg_catalog.=) '*' AND m.model OPERATOR(pg_catalog.=) $1",
		2, {TEXTOID, JSONBOID}
	};
	char	   *model = mw_arg_text(fcinfo, 0, "model");
	Jsonb	   *patch = mw_arg_object(fcinfo, 1, "settings");
	Jsonb	   *settings;
	MwModel		check;
	Datum		values[2];
	bool		isnull;

	SPI_connect();
	values[0] = CStringGetTextDatum(model);
	if (mw_spi_write(&lock, MW_AS_OWNER, values, NULL) == 0)
		no_such_model(model);
	settings = mw_settings_merge(DatumGetJsonbP(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull)), patch);
	mw_settings_model(settings, &check);
	values[1] = JsonbPGetDatum(settings);
	mw_spi_write(&update, MW_AS_OWNER, values, NULL);
	SPI_finish();
	PG_RETURN_VOID();
}

Datum
mw_drop_model(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"DELETE FROM mw.model AS m"
		" WHERE m.tenant OPERATOR(pg_catalog.=) '*' AND m.model OPERATOR(pg_catalog.=) $1",
		1, {TEXTOID}
	};
	char	   *model = mw_arg_text(fcinfo, 0, "model");
	Datum		arg;

	SPI_connect();
	arg = CStringGetTextDatum(model);
	if (mw_spi_write(&stmt, MW_AS_OWNER, &arg, NULL) == 0)
		no_such_model(model);
	SPI_finish();
	PG_RETURN_VOID();
}

/* ---------- recognisers ---------- */

/* Types are spelled in capitals; LangChain's names mean the same */
static char *
type_of(char *given)
{
	static const struct
	{
		const char *alias;
		const char *type;
	}			aliases[] = {
		{"email", "EMAIL"}, {"credit_card", "CC"}, {"ip", "IP"}, {"mac_address", "MAC"}, {"url", "URL"}
	};
	char	   *c = given;

	for (int i = 0; i < lengthof(aliases); i++)
	{
		if (strcmp(given, aliases[i].alias) == 0)
			return pstrdup(aliases[i].type);
	}

	if (*c >= 'A' && *c <= 'Z')
		c += strspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	if (given[0] == '\0' || *c != '\0' || strlen(given) > 63)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("\"pii_type\" is no name of a type of personal data"),
				errhint("A type is spelled in capitals, digits and underscores, at most 63, for example EMAIL or CUSTOMER_ID."));
	return given;
}

static char *
validator_of(Jsonb *options)
{
	char	   *name = mw_settings_text(options, "validator");

	if (name && mw_validator_find(name) == NULL)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("validator \"%s\" does not exist", name),
				errhint("Allowed are: %s.", mw_validator_names()));
	return name;
}

/* A regular expression, or a list of words, which becomes one */
static char *
context_of(Jsonb *options)
{
	JsonbValue *v = mw_json_get(options, "context");
	char	   *pattern;

	if (v == NULL || v->type == jbvNull)
		return NULL;
	if (v->type == jbvBinary && JsonContainerIsArray(v->val.binary.data))
	{
		JsonbIterator *it = JsonbIteratorInit(v->val.binary.data);
		JsonbIteratorToken tok;
		JsonbValue	word;
		StringInfoData buf;
		int			n = 0;

		initStringInfo(&buf);
		appendStringInfoString(&buf, "(?<!\\w)(?:");
		(void) JsonbIteratorNext(&it, &word, true);
		while ((tok = JsonbIteratorNext(&it, &word, true)) == WJB_ELEM)
		{
			if (word.type != jbvString || word.val.string.len == 0)
				ereport(ERROR,
						errcode(ERRCODE_MW_BAD_ARGUMENT),
						errmsg("setting \"context\" must be a regular expression or a list of words"),
						errhint("Such as {\"context\": [\"badge\", \"employee number\"]}."));
			if (n++ > 0)
				appendStringInfoChar(&buf, '|');
			for (int i = 0; i < word.val.string.len; i++)
			{
				unsigned char c = word.val.string.val[i];

				if (c < 0x80 && !isalnum(c) && c != ' ' && c != '_')
					appendStringInfoChar(&buf, '\\');
				appendStringInfoChar(&buf, c);
			}
		}
		appendStringInfoString(&buf, ")(?!\\w)");
		pattern = n > 0 ? buf.data : NULL;
	}
	else
		pattern = mw_settings_text(options, "context");

	if (pattern)
		mw_admin_pattern(pattern, MW_REGEX_CASELESS, "setting \"context\"");
	return pattern;
}

static char *
tenant_arg(FunctionCallInfo fcinfo, int n)
{
	return mw_arg_text(fcinfo, n, "tenant");
}

Datum
mw_create_recognizer(PG_FUNCTION_ARGS)
{
	static MwStmt there = {
		"SELECT FROM mw.recognizer AS r"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.pii_type OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt insert = {
		"INSERT INTO mw.recognizer (tenant, pii_type, pattern, validator, context, priority, strategy)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
		7, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, TEXTOID}
	};
	char	   *type = type_of(mw_arg_text(fcinfo, 0, "pii_type"));
	char	   *pattern = mw_arg_text(fcinfo, 1, "pattern");
	Jsonb	   *options = mw_arg_object(fcinfo, 2, "options");
	char	   *tenant = tenant_arg(fcinfo, 3);
	char	   *validator;
	char	   *context;
	Datum		values[7];
	char		nulls[8] = "       ";

	mw_admin_pattern(pattern, 0, "argument \"pattern\"");
	mw_json_check_keys(options, "option", "a recognizer", recognizer_keys);
	validator = validator_of(options);
	context = context_of(options);

	SPI_connect();
	mw_admin_tenant(tenant, true);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(type);
	if (mw_spi_read(&there, MW_AS_OWNER, values, NULL, 1) > 0)
		mw_admin_is_there("recognizer", type, tenant, "mw_alter_recognizer");
	values[2] = CStringGetTextDatum(pattern);
	values[3] = validator ? CStringGetTextDatum(validator) : (Datum) 0;
	nulls[3] = validator ? ' ' : 'n';
	values[4] = context ? CStringGetTextDatum(context) : (Datum) 0;
	nulls[4] = context ? ' ' : 'n';
	values[5] = Int32GetDatum((int32) mw_settings_int(options, "priority", -1000000, 1000000, 0));
	values[6] = CStringGetTextDatum(mw_settings_word(options, "strategy", strategies, "placeholder"));
	if (mw_spi_write(&insert, MW_AS_OWNER, values, nulls) == 0)
		mw_admin_is_there("recognizer", type, tenant, "mw_alter_recognizer");
	SPI_finish();
	PG_RETURN_VOID();
}

Datum
mw_alter_recognizer(PG_FUNCTION_ARGS)
{
	static MwStmt copy = {
		"INSERT INTO mw.recognizer (tenant, pii_type, pattern, validator, context, priority, strategy, prefilter, builtin, id)"
		" SELECT r.tenant, r.pii_type, r.pattern, r.validator, r.context, r.priority, r.strategy, r.prefilter, false, r.id"
		" FROM mw.recognizer AS r"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.pii_type OPERATOR(pg_catalog.=) $2 AND r.builtin"
		" AND NOT EXISTS (SELECT FROM mw.recognizer AS o WHERE o.tenant OPERATOR(pg_catalog.=) $1"
		"  AND o.pii_type OPERATOR(pg_catalog.=) $2 AND NOT o.builtin)",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt update = {
		"UPDATE mw.recognizer AS r SET"
		" pattern = COALESCE($3, r.pattern),"
		" prefilter = CASE WHEN $3 IS NULL THEN r.prefilter END,"
		" validator = CASE WHEN $4 THEN $5 ELSE r.validator END,"
		" context = CASE WHEN $6 THEN $7 ELSE r.context END,"
		" priority = CASE WHEN $8 THEN $9 ELSE r.priority END,"
		" strategy = CASE WHEN $10 THEN $11 ELSE r.strategy END"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.pii_type OPERATOR(pg_catalog.=) $2 AND NOT r.builtin",
		11, {TEXTOID, TEXTOID, TEXTOID, BOOLOID, TEXTOID, BOOLOID, TEXTOID, BOOLOID, INT4OID, BOOLOID, TEXTOID}
	};
	char	   *type = type_of(mw_arg_text(fcinfo, 0, "pii_type"));
	Jsonb	   *options = mw_arg_object(fcinfo, 1, "options");
	char	   *tenant = tenant_arg(fcinfo, 2);
	char	   *pattern;
	char	   *validator;
	char	   *context;
	Datum		values[11];
	char		nulls[12] = "           ";
	uint64		n;

	mw_json_check_keys(options, "option", "a recognizer", recognizer_alter_keys);
	pattern = mw_settings_text(options, "pattern");
	if (pattern)
		mw_admin_pattern(pattern, 0, "setting \"pattern\"");
	validator = validator_of(options);
	context = context_of(options);

	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(type);
	mw_spi_write(&copy, MW_AS_OWNER, values, NULL);

	values[2] = pattern ? CStringGetTextDatum(pattern) : (Datum) 0;
	nulls[2] = pattern ? ' ' : 'n';
	values[3] = BoolGetDatum(has(options, "validator"));
	values[4] = validator ? CStringGetTextDatum(validator) : (Datum) 0;
	nulls[4] = validator ? ' ' : 'n';
	values[5] = BoolGetDatum(has(options, "context"));
	values[6] = context ? CStringGetTextDatum(context) : (Datum) 0;
	nulls[6] = context ? ' ' : 'n';
	values[7] = BoolGetDatum(has(options, "priority"));
	values[8] = Int32GetDatum((int32) mw_settings_int(options, "priority", -1000000, 1000000, 0));
	values[9] = BoolGetDatum(has(options, "strategy"));
	values[10] = CStringGetTextDatum(mw_settings_word(options, "strategy", strategies, "placeholder"));
	n = mw_spi_write(&update, MW_AS_OWNER, values, nulls);
	if (n == 0)
		mw_admin_no_such("recognizer", type, tenant,
				psprintf("SELECT mw_create_recognizer(%s, '...', '{}', %s); SELECT tenant, pii_type FROM mw.recognizer; lists them.",
						 quote_literal_cstr(type), quote_literal_cstr(tenant)));
	if (n > 1 && pattern)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("recognizer \"%s\" has several patterns", type),
				errdetail("It has %d, and one was given.", (int) n),
				errhint("SELECT mw_create_recognizer(%s, '...', '{}', tenant); replaces all of them for a tenant.",
						quote_literal_cstr(type)));
	SPI_finish();
	PG_RETURN_VOID();
}

/* What is left of a name after the delete of an administrator's row: it was built in, or it never was */
void
mw_admin_not_dropped(MwStmt *builtin, Datum *values, const char *kind, const char *name, const char *tenant, const char *off)
{
	if (mw_spi_read(builtin, MW_AS_OWNER, values, NULL, 1) > 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s \"%s\" is built in and cannot be dropped", kind, name),
				errhint("%s", off));
	mw_admin_no_such(kind, name, tenant, psprintf("SELECT * FROM mw.%s; lists them.", kind));
}

Datum
mw_drop_recognizer(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"DELETE FROM mw.recognizer AS r"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.pii_type OPERATOR(pg_catalog.=) $2 AND NOT r.builtin",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt builtin = {
		"SELECT FROM mw.recognizer AS r"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.pii_type OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	char	   *type = type_of(mw_arg_text(fcinfo, 0, "pii_type"));
	char	   *tenant = tenant_arg(fcinfo, 1);
	Datum		values[2];

	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(type);
	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		mw_admin_not_dropped(&builtin, values, "recognizer", type, tenant,
						psprintf("A tenant's own recognizer replaces it; SELECT mw_alter_recognizer(%s, '{\"pattern\": \"(?!)\"}'); lets it match nothing.",
								 quote_literal_cstr(type)));
	SPI_finish();
	PG_RETURN_VOID();
}
