/*
 * tool_admin.c - administration: tools.
 *
 * Everything of a tool that can be checked is checked before it is stored, so
 * that a mistake is an error of the administrator and not of a run later: the
 * name as providers take it, the function by its signature, the schema word by
 * word, options, fixed arguments against their types.  The function is not run.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/regproc.h"

#include "agent/values.h"
#include "agent/tool.h"
#include "policy/admin.h"
#include "policy/settings.h"
#include "policy/userfunc.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/spi.h"

PG_FUNCTION_INFO_V1(mw_create_tool);
PG_FUNCTION_INFO_V1(mw_alter_tool);
PG_FUNCTION_INFO_V1(mw_drop_tool);

#define MAX_NAME		64		/* as the providers have it */
#define MAX_DESCRIPTION	16384	/* bytes */

#define FUNCTION_HINT "Write schema.name, with argument types where several functions have that name; \\df lists functions."

static const char *const alter_keys[] = {
	"approval", "description", "fixed", "function", "max_bytes", "max_rows", "parameters", "return_direct", "reveal", "timeout", "writes", NULL
};

static void
check_name(const char *tool)
{
	int			len = strlen(tool);

	if (len < 1 || len > MAX_NAME ||
		strspn(tool, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != len)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the name of a tool cannot be used"),
				errdetail("It has %d bytes.", len),
				errhint("Providers take 1 to %d letters, digits, \"_\" and \"-\".", MAX_NAME));
}

static char *
signature_of(const char *function)
{
	return format_procedure_qualified(mw_userfunc_find(function, "the function of a tool", FUNCTION_HINT));
}

/* Fixed arguments are arguments of the function, and values that they may have; with "parameters" the model must not be asked for them */
static void
check_fixed(const MwTool *tool, const MwToolFunction *f)
{
	Jsonb	   *asked = mw_json_get_jsonb(tool->parameters, "properties");
	MwJsonEach	each;
	char	   *breach;

	if (tool->fixed == NULL)
		return;
	each = mw_json_each(&tool->fixed->root);
	while (mw_json_next(&each))
	{
		char	   *name = mw_value_string(&each.key);

		if (tool->typed && mw_tool_arg(f, name, strlen(name)) == NULL)
			mw_tool_bad_option("fixed", "The function has no argument \"%s\".", name);
		if (!tool->typed && asked && mw_json_get(asked, name))
			mw_tool_bad_option("fixed", "The argument \"%s\" stands in \"parameters\" as well, so that a model would be asked for it.", name);
	}
	if (tool->typed)
	{
		JsonbParseState *st = NULL;
		Jsonb	   *all = mw_json_get_jsonb(mw_tool_schema(f, NULL), "properties");

		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_key(&st, "properties");
		mw_push_jsonb(&st, WJB_VALUE, all);
		breach = mw_schema_breach(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)), tool->fixed);
		if (breach)
			mw_tool_bad_option("fixed", "%s.", breach);
	}
}

/* Whatever of a row can be checked before somebody's run depends on it; inside SPI */
static void
check_row(const MwToolRow *row)
{
	MwToolFunction *f;
	MwTool	   *tool;
	char	   *fault;

	if (row->description && strlen(row->description) > MAX_DESCRIPTION)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the description of a tool is too long"),
				errdetail("It has %zu bytes.", strlen(row->description)),
				errhint("Allowed are %d; a model reads it in every call.", MAX_DESCRIPTION));
	if (row->parameters)
	{
		char	   *type = mw_json_is_object(row->parameters) ? mw_json_get_text(row->parameters, "type") : NULL;

		fault = mw_schema_fault(row->parameters);
		if (fault == NULL && (type == NULL || strcmp(type, "object") != 0))
			fault = "Its \"type\" must be \"object\": arguments have names.";
		if (fault)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("argument \"parameters\" is no JSON schema of arguments"),
					errdetail("%s", fault),
					errhint("Such as {\"type\": \"object\", \"properties\": {\"email\": {\"type\": \"string\"}}, \"required\": [\"email\"]}; NULL takes it from the function's own arguments."));
	}
	tool = mw_tool_make(row, &f);
	check_fixed(tool, f);
	mw_reveal_check(tool->reveal, "a tool");
}

Datum
mw_create_tool(PG_FUNCTION_ARGS)
{
	static MwStmt there = {
		"SELECT FROM mw.tool AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.tool OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt insert = {
		"INSERT INTO mw.tool (tenant, tool, function, description, parameters, options)"
		" VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
		6, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID}
	};
	MwToolRow		row;
	char	   *tenant;
	Datum		values[6];
	char		nulls[7] = "      ";

	row.tool = mw_arg_text(fcinfo, 0, "tool");
	check_name(row.tool);
	row.function = signature_of(mw_arg_text(fcinfo, 1, "function"));
	row.description = PG_ARGISNULL(2) ? NULL : mw_arg_text(fcinfo, 2, "description");
	row.parameters = PG_ARGISNULL(3) ? NULL : PG_GETARG_JSONB_P(3);
	row.options = mw_arg_object(fcinfo, 4, "options");
	tenant = mw_arg_text(fcinfo, 5, "tenant");

	SPI_connect();
	mw_admin_tenant(tenant, true);
	check_row(&row);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(row.tool);
	values[2] = CStringGetTextDatum(row.function);
	values[3] = mw_spi_text(row.description, &nulls[3]);
	values[4] = mw_spi_jsonb(row.parameters, &nulls[4]);
	values[5] = JsonbPGetDatum(row.options);
	if (mw_spi_read(&there, MW_AS_OWNER, values, NULL, 1) > 0 || mw_spi_write(&insert, MW_AS_OWNER, values, nulls) == 0)
		mw_admin_is_there("tool", row.tool, tenant, "mw_alter_tool");
	SPI_finish();
	PG_RETURN_VOID();
}

/* The row that a statement has locked: function, description, parameters, options */
static MwToolRow *
locked_row(const char *tool)
{
	MwToolRow  *row = palloc0(sizeof(MwToolRow));
	HeapTuple	tup = SPI_tuptable->vals[0];
	TupleDesc	desc = SPI_tuptable->tupdesc;
	bool		isnull;
	Datum		d;

	row->tool = pstrdup(tool);
	row->function = TextDatumGetCString(SPI_getbinval(tup, desc, 1, &isnull));
	d = SPI_getbinval(tup, desc, 2, &isnull);
	row->description = isnull ? NULL : TextDatumGetCString(d);
	d = SPI_getbinval(tup, desc, 3, &isnull);
	row->parameters = isnull ? NULL : DatumGetJsonbPCopy(d);
	row->options = DatumGetJsonbPCopy(SPI_getbinval(tup, desc, 4, &isnull));
	return row;
}

/* What alter's argument says beside options: a text, or null for the default */
static char *
altered_text(Jsonb *patch, const char *key, char *old)
{
	return mw_json_get(patch, key) ? mw_settings_text(patch, key) : old;
}

static Jsonb *
without_key(Jsonb *jb, const char *key)
{
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(jb), CStringGetTextDatum(key)));
}

static void
alter_row(MwToolRow *row, Jsonb *patch)
{
	JsonbValue *v = mw_json_get(patch, "function");

	if (v)
	{
		char	   *function = mw_settings_text(patch, "function");

		if (function == NULL)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("a tool must have a function"),
					errhint("SELECT mw_drop_tool(%s); drops the tool.", quote_literal_cstr(row->tool)));
		row->function = signature_of(function);
	}
	row->description = altered_text(patch, "description", row->description);
	v = mw_json_get(patch, "parameters");
	if (v)
		row->parameters = v->type == jbvNull ? NULL : mw_json_value_jsonb(v);
	patch = without_key(without_key(without_key(patch, "function"), "description"), "parameters");
	row->options = mw_settings_merge(row->options, patch);
}

Datum
mw_alter_tool(PG_FUNCTION_ARGS)
{
	static MwStmt copy = {
		"INSERT INTO mw.tool (tenant, tool, function, description, parameters, options)"
		" SELECT $1, t.tool, t.function, t.description, t.parameters, t.options FROM mw.tool AS t"
		" WHERE t.tenant OPERATOR(pg_catalog.=) '*' AND t.tool OPERATOR(pg_catalog.=) $2 ON CONFLICT DO NOTHING",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt lock = {
		"SELECT t.function, t.description, t.parameters, t.options FROM mw.tool AS t"
		" WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.tool OPERATOR(pg_catalog.=) $2 FOR UPDATE",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt update = {
		"UPDATE mw.tool AS t SET function = $3, description = $4, parameters = $5, options = $6"
		" WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.tool OPERATOR(pg_catalog.=) $2",
		6, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID}
	};
	char	   *tool = mw_arg_text(fcinfo, 0, "tool");
	Jsonb	   *patch = mw_arg_object(fcinfo, 1, "options");
	char	   *tenant = mw_arg_text(fcinfo, 2, "tenant");
	MwToolRow  *row;
	Datum		values[6];
	char		nulls[7] = "      ";

	mw_json_check_keys(patch, "option", "a tool", alter_keys);
	SPI_connect();
	mw_admin_tenant(tenant, true);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(tool);
	mw_spi_write(&copy, MW_AS_OWNER, values, NULL);
	if (mw_spi_write(&lock, MW_AS_OWNER, values, NULL) == 0)
		mw_admin_no_such("tool", tool, tenant,
						 psprintf("SELECT mw_create_tool(%s, 'schema.function', tenant => %s); SELECT tenant, tool FROM mw.tool; lists them.",
								  quote_literal_cstr(tool), quote_literal_cstr(tenant)));
	row = locked_row(tool);
	alter_row(row, patch);
	check_row(row);
	values[2] = CStringGetTextDatum(row->function);
	values[3] = mw_spi_text(row->description, &nulls[3]);
	values[4] = mw_spi_jsonb(row->parameters, &nulls[4]);
	values[5] = JsonbPGetDatum(row->options);
	mw_spi_write(&update, MW_AS_OWNER, values, nulls);
	SPI_finish();
	PG_RETURN_VOID();
}

Datum
mw_drop_tool(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"DELETE FROM mw.tool AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.tool OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	char	   *tool = mw_arg_text(fcinfo, 0, "tool");
	char	   *tenant = mw_arg_text(fcinfo, 1, "tenant");
	Datum		values[2];

	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(tool);
	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		mw_admin_no_such("tool", tool, tenant, "SELECT tenant, tool FROM mw.tool; lists them.");
	SPI_finish();
	PG_RETURN_VOID();
}
