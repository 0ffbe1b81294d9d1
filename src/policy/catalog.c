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
#include "policy/analyzer.h"
#include "policy/redaction.h"
#include "policy/settings.h"
#include "policy/userfunc.h"
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
static const char *const recognizer_keys[] = {"strategy", "validator", "context", "priority", "on_demand", "function",
	"type", "server", "entities", "language", "score_threshold", "timeout", "on_error", NULL};
static const char *const recognizer_alter_keys[] = {"pattern", "strategy", "validator", "context", "priority", "on_demand", "function",
	"type", "server", "entities", "language", "score_threshold", "timeout", "on_error", NULL};

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

bool
mw_admin_has(Jsonb *options, const char *key)
{
	return getKeyJsonValueFromContainer(&options->root, key, strlen(key), NULL) != NULL;
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

/*
 * A pattern that backtracks without end on some dozens of characters is refused
 * here; one that only does so on texts nobody thought of stops at the limit of
 * the search (util/regex.c), as an error and never as a value that was missed.
 */
static void
probe_pattern(const char *pattern, const char *what)
{
	MwRegex    *re = mw_regex_get(pattern, 0, NULL);
	static const char *const baits[] = {"a", "A", "1", " ", "a1", "1 ", "1-", "a.", "a@", ".", "-", "_", "\n", "é", "aaaa "};
	char		text[2001];

	for (int i = 0; i < lengthof(baits); i++)
	{
		int			n = strlen(baits[i]);
		int			len = 0;
		int			from,
					to;

		while (len + n < 2000)
		{
			memcpy(text + len, baits[i], n);
			len += n;
		}
		/* and something at the end that spoils it */
		for (int end = 0; end < 2; end++)
		{
			int			at = 0;
			int			rc;

			if (end == 1)
				text[len++] = '!';
			text[len] = '\0';
			while ((rc = at > len ? 0 : mw_regex_find(re, text, len, at, &from, &to)) == 1)
			{
				at = Max(to, at + 1);
				while (at < len && ((unsigned char) text[at] & 0xc0) == 0x80)
					at++;
			}
			if (rc < 0)
				ereport(ERROR,
						errcode(ERRCODE_MW_BAD_ARGUMENT),
						errmsg("%s takes too long", what),
						errdetail("On 2000 characters of \"%s\" it goes back and forth beyond its limit.", baits[i]),
						errhint("Give every repetition a bound, such as {1,64}, and let none stand inside another, as in (a+)+."));
		}
	}
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
	static const char *const small[] = {"email", "ip", "url"};
	char	   *c = given;
	char	   *type = mw_pii_type_name(given);

	for (int i = 0; i < lengthof(small); i++)
		if (strcmp(given, small[i]) == 0)
			return type;
	/* other people's names */
	if (pg_strcasecmp(type, given) != 0)
		return type;

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
	if (mw_value_is_array(v))
	{
		MwJsonEach	each = mw_json_each(v->val.binary.data);
		StringInfoData buf;

		/* a list of words (stage/context.c) */
		initStringInfo(&buf);
		while (mw_json_next(&each))
		{
			JsonbValue	word = each.value;

			if (word.type != jbvString || word.val.string.len == 0 || memchr(word.val.string.val, '|', word.val.string.len))
				ereport(ERROR,
						errcode(ERRCODE_MW_BAD_ARGUMENT),
						errmsg("setting \"context\" must be a regular expression or a list of words"),
						errhint("Such as {\"context\": [\"badge\", \"employee number\"]}; a phrase has three words at most."));
			appendStringInfoChar(&buf, buf.len == 0 ? '=' : '|');
			appendBinaryStringInfo(&buf, word.val.string.val, word.val.string.len);
		}
		return buf.len > 0 ? buf.data : NULL;
	}
	else
		pattern = mw_settings_text(options, "context");

	if (pattern && pattern[0] == '=')
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("setting \"context\" must not begin with an equals sign"),
				errhint("A list of words is written as an array, such as [\"badge\", \"employee number\"]."));
	if (pattern)
		mw_admin_pattern(pattern, MW_REGEX_CASELESS, "setting \"context\"");
	return pattern;
}

static bool
on_demand_of(Jsonb *options)
{
	JsonbValue *v = mw_json_get(options, "on_demand");

	if (v == NULL || v->type == jbvNull)
		return false;
	if (v->type != jbvBool)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("setting \"on_demand\" must be true or false"),
				errhint("With true, the type is only looked for where a call or a tenant names it."));
	return v->val.boolean;
}

static char *
function_of(Jsonb *options)
{
	static const Oid args[] = {TEXTOID};
	static const Oid results[] = {JSONBOID, InvalidOid};
	char	   *given = mw_settings_text(options, "function");

	return given ? mw_userfunc_signature(given, "setting \"function\"", 1, args, results) : NULL;
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
		"INSERT INTO mw.recognizer (tenant, pii_type, pattern, validator, context, priority, strategy, on_demand, function, analyzer)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
		10, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, TEXTOID, BOOLOID, TEXTOID, JSONBOID}
	};
	char	   *type = type_of(mw_arg_text(fcinfo, 0, "pii_type"));
	Jsonb	   *options = mw_arg_object(fcinfo, 2, "options");
	char	   *tenant = mw_arg_text(fcinfo, 3, "tenant");
	char	   *function;
	char	   *pattern;
	char	   *validator;
	char	   *context;
	Jsonb	   *analyzer;
	Datum		values[10];
	char		nulls[11] = "          ";

	mw_json_check_keys(options, "option", "a recognizer", recognizer_keys);
	function = function_of(options);
	analyzer = mw_analyzer_part(options);
	pattern = function || analyzer ? NULL : mw_arg_text(fcinfo, 1, "pattern");
	if (((function || analyzer) && !PG_ARGISNULL(1)) || (function && analyzer))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("a recognizer has a pattern, a function or a server, one of them"),
				errhint("With \"function\", or \"type\" and \"server\", the argument \"pattern\" is NULL."));
	if (pattern)
	{
		mw_admin_pattern(pattern, 0, "argument \"pattern\"");
		probe_pattern(pattern, "argument \"pattern\"");
	}
	validator = validator_of(options);
	context = context_of(options);
	if ((function || analyzer) && (validator || context))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("a %s needs no validator and no context", function ? "function" : "server"),
				errhint("It sees the whole text and answers with what it found."));
	if (analyzer)
		analyzer = mw_analyzer_check(mw_settings_merge(NULL, analyzer), type);

	SPI_connect();
	mw_admin_tenant(tenant, true);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(type);
	if (mw_spi_read(&there, MW_AS_OWNER, values, NULL, 1) > 0)
		mw_admin_is_there("recognizer", type, tenant, "mw_alter_recognizer");
	values[2] = mw_spi_text(pattern, &nulls[2]);
	values[3] = mw_spi_text(validator, &nulls[3]);
	values[4] = mw_spi_text(context, &nulls[4]);
	values[5] = Int32GetDatum((int32) mw_settings_int(options, "priority", -1000000, 1000000, 0));
	values[6] = CStringGetTextDatum(mw_settings_word(options, "strategy", strategies, "placeholder"));
	values[7] = BoolGetDatum(on_demand_of(options));
	values[8] = mw_spi_text(function, &nulls[8]);
	values[9] = mw_spi_jsonb(analyzer, &nulls[9]);
	if (mw_spi_write(&insert, MW_AS_OWNER, values, nulls) == 0)
		mw_admin_is_there("recognizer", type, tenant, "mw_alter_recognizer");
	SPI_finish();
	PG_RETURN_VOID();
}

/* What an analyzer's options become when some of them change; inside SPI */
static Jsonb *
altered_analyzer(Datum *values, const char *type, Jsonb *part)
{
	static MwStmt stmt = {
		"SELECT r.analyzer FROM mw.recognizer AS r"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.pii_type OPERATOR(pg_catalog.=) $2 AND NOT r.builtin FOR NO KEY UPDATE",
		2, {TEXTOID, TEXTOID}
	};
	bool		isnull = true;
	Datum		d = (Datum) 0;

	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		return NULL;			/* the update finds that there is none */
	d = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	if (isnull)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("recognizer \"%s\" is not found by a server", type),
				errhint("SELECT mw_create_recognizer(%s, NULL, '{\"type\": \"presidio\", \"server\": \"...\"}', tenant); makes one for a tenant that is.",
						quote_literal_cstr(type)));
	return mw_analyzer_check(mw_settings_merge(DatumGetJsonbP(d), part), type);
}

Datum
mw_alter_recognizer(PG_FUNCTION_ARGS)
{
	static MwStmt copy = {
		"INSERT INTO mw.recognizer (tenant, pii_type, pattern, validator, context, priority, strategy, prefilter, on_demand, builtin, id)"
		" SELECT r.tenant, r.pii_type, r.pattern, r.validator, r.context, r.priority, r.strategy, r.prefilter, r.on_demand, false, r.id"
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
		" strategy = CASE WHEN $10 THEN $11 ELSE r.strategy END,"
		" on_demand = CASE WHEN $12 THEN $13 ELSE r.on_demand END,"
		" function = COALESCE($14, r.function),"
		" analyzer = COALESCE($15, r.analyzer)"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.pii_type OPERATOR(pg_catalog.=) $2 AND NOT r.builtin",
		15, {TEXTOID, TEXTOID, TEXTOID, BOOLOID, TEXTOID, BOOLOID, TEXTOID, BOOLOID, INT4OID, BOOLOID, TEXTOID, BOOLOID, BOOLOID, TEXTOID, JSONBOID}
	};
	char	   *type = type_of(mw_arg_text(fcinfo, 0, "pii_type"));
	Jsonb	   *options = mw_arg_object(fcinfo, 1, "options");
	char	   *tenant = mw_arg_text(fcinfo, 2, "tenant");
	char	   *pattern;
	char	   *validator;
	char	   *context;
	Jsonb	   *analyzer;
	Datum		values[15];
	char		nulls[16] = "               ";
	uint64		n;

	mw_json_check_keys(options, "option", "a recognizer", recognizer_alter_keys);
	pattern = mw_settings_text(options, "pattern");
	if (pattern)
	{
		mw_admin_pattern(pattern, 0, "setting \"pattern\"");
		probe_pattern(pattern, "setting \"pattern\"");
	}
	validator = validator_of(options);
	context = context_of(options);

	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(type);
	mw_spi_write(&copy, MW_AS_OWNER, values, NULL);

	values[2] = mw_spi_text(pattern, &nulls[2]);
	values[3] = BoolGetDatum(mw_admin_has(options, "validator"));
	values[4] = mw_spi_text(validator, &nulls[4]);
	values[5] = BoolGetDatum(mw_admin_has(options, "context"));
	values[6] = mw_spi_text(context, &nulls[6]);
	values[7] = BoolGetDatum(mw_admin_has(options, "priority"));
	values[8] = Int32GetDatum((int32) mw_settings_int(options, "priority", -1000000, 1000000, 0));
	values[9] = BoolGetDatum(mw_admin_has(options, "strategy"));
	values[10] = CStringGetTextDatum(mw_settings_word(options, "strategy", strategies, "placeholder"));
	values[11] = BoolGetDatum(mw_admin_has(options, "on_demand"));
	values[12] = BoolGetDatum(on_demand_of(options));
	values[13] = mw_spi_text(function_of(options), &nulls[13]);
	analyzer = mw_analyzer_part(options);
	if (analyzer)
		analyzer = altered_analyzer(values, type, analyzer);
	values[14] = mw_spi_jsonb(analyzer, &nulls[14]);
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
	char	   *tenant = mw_arg_text(fcinfo, 1, "tenant");
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
