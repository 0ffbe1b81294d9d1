/*
 * guard_admin.c - administration: guards.
 *
 * A guard is one row: a pattern, a function, a question to a model, or one of
 * the library's own checks.  What it asks is checked before it is stored, so
 * that a mistake is an error of the administrator and not of every call after:
 * a pattern is compiled, a function is looked up (not yet run, and by nobody's
 * search_path), a model is spelt server:model.
 *
 * Built-in rows stay as they are (catalog.c says why); an altered one is a row
 * beside it, which wins, and dropping that brings the built-in one back.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "policy/admin.h"
#include "policy/settings.h"
#include "policy/userfunc.h"
#include "policy/watch.h"
#include "util/json.h"
#include "util/regex.h"
#include "util/spi.h"

#define MAX_WEIGHT	1000.0		/* a text is blocked at a score of 1 */
#define MAX_QUESTION 4096		/* bytes */

PG_FUNCTION_INFO_V1(mw_create_guard);
PG_FUNCTION_INFO_V1(mw_alter_guard);
PG_FUNCTION_INFO_V1(mw_drop_guard);

static const char *const modes[] = {"off", "log", "block", NULL};
static const char *const sources[] = {"user", "tool", "document", "output", NULL};
static const char *const keys[] = {"function", "model", "question", "category", "weight", "threshold", "sources", "mode", NULL};
static const char *const alter_keys[] = {"pattern", "function", "model", "question", "category", "weight", "threshold", "sources", "mode", NULL};

/* A member that is a number in a range, or its default */
static double
number_of(Jsonb *options, const char *key, double min, double max, double absent, const char *hint)
{
	JsonbValue *v = mw_json_get(options, key);
	double		d = absent;

	if (v && v->type != jbvNull)
	{
		if (v->type == jbvNumeric)
			d = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));
		if (v->type != jbvNumeric || !(d >= min && d <= max))
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("setting \"%s\" must be a number from %g to %g", key, min, max),
					errhint("%s", hint));
	}
	return d;
}

static double
weight_of(Jsonb *options)
{
	return number_of(options, "weight", 0, MAX_WEIGHT, 1,
					 "A text is blocked when the weights of the guards that match it add up to the tenant's threshold, which is 1.");
}

static double
threshold_of(Jsonb *options)
{
	return number_of(options, "threshold", 0.000001, 1, 0.5,
					 "A guard that gives a number from 0 to 1 matches from its threshold on.");
}

static char *
category_of(Jsonb *options)
{
	char	   *category = mw_settings_text(options, "category");

	if (category == NULL)
		return pstrdup("injection");
	mw_admin_name(category, "setting \"category\"", 63);
	return category;
}

/* A text[] of some of the sources */
static Datum
sources_of(Jsonb *options)
{
	JsonbValue *v = mw_json_get(options, "sources");
	Datum		elems[lengthof(sources)];
	int			n = 0;

	if (v == NULL || v->type == jbvNull)
	{
		for (n = 0; n < 3; n++)
			elems[n] = CStringGetTextDatum(sources[n]);
	}
	else
	{
		Jsonb	   *list = v->type == jbvBinary ? mw_json_value_jsonb(v) : NULL;

		if (list && mw_json_is_array(list) && JB_ROOT_COUNT(list) > 0)
		{
			uint32		found = 0;

			for (int i = 0; sources[i]; i++)
			{
				JsonbValue	k;

				k.type = jbvString;
				k.val.string.val = unconstify(char *, sources[i]);
				k.val.string.len = strlen(sources[i]);
				if (findJsonbValueFromContainer(&list->root, JB_FARRAY, &k) == NULL)
					continue;
				elems[n++] = CStringGetTextDatum(sources[i]);
				found++;
			}
			if (found != JB_ROOT_COUNT(list))
				n = 0;
		}
		if (n == 0)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("setting \"sources\" must be an array of where texts come from"),
					errhint("Allowed are: user, tool, document, output; each once."));
	}
	return PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
}

static char *
question_of(Jsonb *options)
{
	char	   *question = mw_settings_text(options, "question");

	if (question)
		mw_admin_name(question, "setting \"question\"", MAX_QUESTION);
	return question;
}

static char *
model_of(Jsonb *options)
{
	char	   *model = mw_settings_text(options, "model");

	if (model)
	{
		mw_admin_name(model, "setting \"model\"", MW_MODEL_MAX);
		mw_check_model_name(model, "setting \"model\"");
	}
	return model;
}

static char *
function_of(Jsonb *options)
{
	static const Oid args[] = {TEXTOID};
	static const Oid results[] = {BOOLOID, FLOAT8OID, InvalidOid};
	char	   *function = mw_settings_text(options, "function");

	return function ? mw_userfunc_signature(function, "setting \"function\"", 1, args, results) : NULL;
}

Datum
mw_create_guard(PG_FUNCTION_ARGS)
{
	static MwStmt there = {
		"SELECT FROM mw.guard AS g"
		" WHERE g.tenant OPERATOR(pg_catalog.=) $1 AND g.guard OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt insert = {
		"INSERT INTO mw.guard (tenant, guard, kind, pattern, function, model, question, category, weight, threshold, sources, mode)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
		12, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, FLOAT8OID, FLOAT8OID, TEXTARRAYOID, TEXTOID}
	};
	char	   *guard = mw_arg_text(fcinfo, 0, "guard");
	char	   *pattern = PG_ARGISNULL(1) ? NULL : mw_arg_text(fcinfo, 1, "pattern");
	Jsonb	   *options = mw_arg_object(fcinfo, 2, "options");
	char	   *tenant = mw_arg_text(fcinfo, 3, "tenant");
	char	   *function;
	char	   *model;
	char	   *question;
	Datum		values[12];
	char		nulls[13] = "            ";

	mw_admin_name(guard, "the name of a guard", 63);
	mw_json_check_keys(options, "option", "a guard", keys);
	if (pattern)
		mw_admin_pattern(pattern, MW_REGEX_CASELESS, "argument \"pattern\"");
	function = function_of(options);
	model = model_of(options);
	question = question_of(options);
	if ((pattern != NULL) + (function != NULL) + (model != NULL) != 1 || (model != NULL) != (question != NULL))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("a guard is one of a pattern, a function, and a model with a question"),
				errhint("SELECT mw_create_guard(%s, 'a pattern'); or with NULL for the pattern and the options '{\"function\": \"my_schema.my_guard(text)\"}' or '{\"model\": \"server:model\", \"question\": \"Does it …?\"}'.",
						quote_literal_cstr(guard)));

	SPI_connect();
	mw_admin_tenant(tenant, true);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(guard);
	if (mw_spi_read(&there, MW_AS_OWNER, values, NULL, 1) > 0)
		mw_admin_is_there("guard", guard, tenant, "mw_alter_guard");
	values[2] = CStringGetTextDatum(pattern ? "pattern" : function ? "function" : "model");
	values[3] = mw_spi_text(pattern, &nulls[3]);
	values[4] = mw_spi_text(function, &nulls[4]);
	values[5] = mw_spi_text(model, &nulls[5]);
	values[6] = mw_spi_text(question, &nulls[6]);
	values[7] = CStringGetTextDatum(category_of(options));
	values[8] = Float8GetDatum(weight_of(options));
	values[9] = Float8GetDatum(threshold_of(options));
	values[10] = sources_of(options);
	values[11] = CStringGetTextDatum(mw_settings_word(options, "mode", modes, "block"));
	if (mw_spi_write(&insert, MW_AS_OWNER, values, nulls) == 0)
		mw_admin_is_there("guard", guard, tenant, "mw_alter_guard");
	SPI_finish();
	PG_RETURN_VOID();
}

Datum
mw_alter_guard(PG_FUNCTION_ARGS)
{
	static MwStmt copy = {
		"INSERT INTO mw.guard (tenant, guard, kind, pattern, function, model, question, category, weight, threshold, sources, mode)"
		" SELECT $1, g.guard, g.kind, g.pattern, g.function, g.model, g.question, g.category, g.weight, g.threshold, g.sources, g.mode"
		" FROM mw.guard AS g"
		" WHERE g.tenant OPERATOR(pg_catalog.=) '*' AND g.guard OPERATOR(pg_catalog.=) $2"
		" AND NOT EXISTS (SELECT FROM mw.guard AS o WHERE o.tenant OPERATOR(pg_catalog.=) $1"
		"  AND o.guard OPERATOR(pg_catalog.=) $2 AND NOT o.builtin)"
		" ORDER BY g.builtin LIMIT 1",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt update = {
		"UPDATE mw.guard AS g SET"
		" pattern = COALESCE($3, g.pattern),"
		" function = COALESCE($4, g.function),"
		" model = COALESCE($5, g.model),"
		" question = COALESCE($6, g.question),"
		" category = CASE WHEN $7 THEN $8 ELSE g.category END,"
		" weight = CASE WHEN $9 THEN $10 ELSE g.weight END,"
		" threshold = CASE WHEN $11 THEN $12 ELSE g.threshold END,"
		" sources = CASE WHEN $13 THEN $14 ELSE g.sources END,"
		" mode = CASE WHEN $15 THEN $16 ELSE g.mode END"
		" WHERE g.tenant OPERATOR(pg_catalog.=) $1 AND g.guard OPERATOR(pg_catalog.=) $2 AND NOT g.builtin"
		" AND ($3 IS NULL OR g.kind OPERATOR(pg_catalog.=) 'pattern') AND ($4 IS NULL OR g.kind OPERATOR(pg_catalog.=) 'function')"
		" AND (($5 IS NULL AND $6 IS NULL) OR g.kind OPERATOR(pg_catalog.=) 'model')",
		16, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, BOOLOID, TEXTOID, BOOLOID, FLOAT8OID, BOOLOID, FLOAT8OID,
		BOOLOID, TEXTARRAYOID, BOOLOID, TEXTOID}
	};
	static MwStmt there = {
		"SELECT g.kind FROM mw.guard AS g"
		" WHERE g.tenant OPERATOR(pg_catalog.=) $1 AND g.guard OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	char	   *guard = mw_arg_text(fcinfo, 0, "guard");
	Jsonb	   *options = mw_arg_object(fcinfo, 1, "options");
	char	   *tenant = mw_arg_text(fcinfo, 2, "tenant");
	char	   *pattern;
	Datum		values[16];
	char		nulls[17] = "                ";
	bool		isnull;

	mw_json_check_keys(options, "option", "a guard", alter_keys);
	pattern = mw_settings_text(options, "pattern");
	if (pattern)
		mw_admin_pattern(pattern, MW_REGEX_CASELESS, "setting \"pattern\"");

	SPI_connect();
	mw_admin_tenant(tenant, true);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(guard);
	mw_spi_write(&copy, MW_AS_OWNER, values, NULL);

	values[2] = mw_spi_text(pattern, &nulls[2]);
	values[3] = mw_spi_text(function_of(options), &nulls[3]);
	values[4] = mw_spi_text(model_of(options), &nulls[4]);
	values[5] = mw_spi_text(question_of(options), &nulls[5]);
	values[6] = BoolGetDatum(mw_admin_has(options, "category"));
	values[7] = CStringGetTextDatum(category_of(options));
	values[8] = BoolGetDatum(mw_admin_has(options, "weight"));
	values[9] = Float8GetDatum(weight_of(options));
	values[10] = BoolGetDatum(mw_admin_has(options, "threshold"));
	values[11] = Float8GetDatum(threshold_of(options));
	values[12] = BoolGetDatum(mw_admin_has(options, "sources"));
	values[13] = sources_of(options);
	values[14] = BoolGetDatum(mw_admin_has(options, "mode"));
	values[15] = CStringGetTextDatum(mw_settings_word(options, "mode", modes, "block"));
	if (mw_spi_write(&update, MW_AS_OWNER, values, nulls) == 0)
	{
		if (mw_spi_read(&there, MW_AS_OWNER, values, NULL, 1) > 0)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("guard \"%s\" is of another kind", guard),
					errdetail("Its kind is \"%s\".",
							  TextDatumGetCString(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull))),
					errhint("A pattern, a function, and a model with its question are three kinds; mw_create_guard makes another guard."));
		mw_admin_no_such("guard", guard, tenant,
						 psprintf("SELECT mw_create_guard(%s, '...', '{}', %s); SELECT tenant, guard FROM mw.guard; lists them.",
								  quote_literal_cstr(guard), quote_literal_cstr(tenant)));
	}
	SPI_finish();
	PG_RETURN_VOID();
}

Datum
mw_drop_guard(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"DELETE FROM mw.guard AS g"
		" WHERE g.tenant OPERATOR(pg_catalog.=) $1 AND g.guard OPERATOR(pg_catalog.=) $2 AND NOT g.builtin",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt builtin = {
		"SELECT FROM mw.guard AS g"
		" WHERE g.tenant OPERATOR(pg_catalog.=) $1 AND g.guard OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	char	   *guard = mw_arg_text(fcinfo, 0, "guard");
	char	   *tenant = mw_arg_text(fcinfo, 1, "tenant");
	Datum		values[2];

	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(guard);
	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		mw_admin_not_dropped(&builtin, values, "guard", guard, tenant,
							 psprintf("SELECT mw_alter_guard(%s, '{\"mode\": \"off\"}'); switches it off.",
									  quote_literal_cstr(guard)));
	SPI_finish();
	PG_RETURN_VOID();
}
