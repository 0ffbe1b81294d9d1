/*
 * tool_catalog.c - registered tools: from a row to a tool, and looking them up.
 *
 * A tool is a row: a function by its signature, and what an administrator says
 * about it.  Reading a row for a run and checking it when it is stored are one
 * piece of code (tool_admin.c calls it), so that what was accepted is what is
 * obeyed.  Schema and description come from the function each time where the row
 * has none, so that a function that was replaced tells its own.
 *
 * Rows are read as the caller, so that nobody names another tenant's tools.
 */
#include "mw.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/regproc.h"

#include "agent/definitions.h"
#include "agent/values.h"
#include "agent/tool.h"
#include "guc.h"
#include "policy/redaction.h"
#include "policy/settings.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/row.h"
#include "util/spi.h"

#define DEFAULT_BYTES	65536	/* of a result: some 16,000 tokens */
#define MAX_BYTES		(64 * 1024 * 1024)
#define DEFAULT_ROWS	1000
#define MAX_ROWS		1000000
#define MAX_APPROVALS	100
#define MAX_EXPIRES_MS	(INT64CONST(366) * 86400 * 1000)

static const char *const option_keys[] = {
	"approval", "fixed", "max_bytes", "max_rows", "return_direct", "reveal", "timeout", "writes", NULL
};
static const char *const approval_keys[] = {"allowed_decisions", "approvals", "expires_in", NULL};
static const char *const decisions[] = {"approve", "edit", "reject", "respond", NULL};

/* columns of mw.tool */
enum
{
	TOOL_FUNCTION = 3, TOOL_DESCRIPTION, TOOL_PARAMETERS, TOOL_OPTIONS
};

/* ---------- options ---------- */

/* An array of texts, each of which is looked at */
static List *
texts_of(JsonbValue *v, const char *key)
{
	List	   *texts = NIL;
	MwJsonEach	each;

	if (!mw_value_is_array(v) || JsonContainerSize(v->val.binary.data) == 0)
		mw_tool_bad_option(key, "It must be an array with something in it.");
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
	{
		if (each.value.type != jbvString)
			mw_tool_bad_option(key, "It must be an array of texts.");
		texts = lappend(texts, mw_value_string(&each.value));
	}
	return texts;
}

static void
read_reveal(JsonbValue *v, MwTool *tool)
{
	JsonbValue	all = {.type = jbvBool, .val.boolean = true};

	if (!mw_reveal_read(v != NULL && v->type != jbvNull ? v : &all, &tool->reveal))
		mw_tool_bad_option("reveal", "It must be true, false or an array of types of personal data.");
}

static void
read_approval(Jsonb *approval)
{
	JsonbValue *v;
	ListCell   *lc;

	mw_json_check_keys(approval, "option", "\"approval\"", approval_keys);
	(void) mw_settings_int(approval, "approvals", 1, MAX_APPROVALS, 1);
	(void) mw_settings_duration(approval, "expires_in", 1000, MAX_EXPIRES_MS, 0);
	v = mw_json_get(approval, "allowed_decisions");
	if (v == NULL || v->type == jbvNull)
		return;
	foreach(lc, texts_of(v, "approval"))
	{
		bool		known = false;

		for (int i = 0; decisions[i]; i++)
			known |= strcmp(decisions[i], lfirst(lc)) == 0;
		if (!known)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("\"%s\" is no decision of \"allowed_decisions\"", (char *) lfirst(lc)),
					errhint("Allowed are: approve, edit, reject, respond."));
	}
}

static void
read_options(Jsonb *options, MwTool *tool)
{
	JsonbValue *v;

	mw_json_check_keys(options, "option", "a tool", option_keys);
	tool->writes = mw_settings_bool(options, "writes", false);
	tool->return_direct = mw_settings_bool(options, "return_direct", false);
	tool->timeout_ms = mw_settings_duration(options, "timeout", 1, MW_MAX_TIMEOUT_MS, 0);
	tool->max_bytes = mw_settings_int(options, "max_bytes", 64, MAX_BYTES, DEFAULT_BYTES);
	tool->max_rows = mw_settings_int(options, "max_rows", 1, MAX_ROWS, DEFAULT_ROWS);
	read_reveal(mw_json_get(options, "reveal"), tool);

	v = mw_json_get(options, "fixed");
	if (v && v->type != jbvNull)
	{
		if (!mw_value_is_object(v))
			mw_tool_bad_option("fixed", "It must be an object of arguments and their values.");
		tool->fixed = mw_json_value_jsonb(v);
	}

	v = mw_json_get(options, "approval");
	if (v && v->type == jbvBool && v->val.boolean)
		tool->approval = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	else if (v && v->type != jbvNull && v->type != jbvBool)
	{
		tool->approval = v->type == jbvBinary ? mw_json_value_jsonb(v) : NULL;
		if (tool->approval == NULL || !mw_json_is_object(tool->approval))
			mw_tool_bad_option("approval", "It must be true, false or an object.");
		read_approval(tool->approval);
	}
}

/* ---------- a tool from its row ---------- */

static void
not_a_tool(const MwToolRow *row, const char *fault, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("the function of tool \"%s\" cannot be used", row->tool),
			errdetail("%s: %s", row->function, fault),
			hint ? errhint("%s", hint) : 0);
}

MwTool *
mw_tool_make(const MwToolRow *row, MwToolFunction **function)
{
	MwTool	   *tool = palloc0(sizeof(MwTool));
	Datum		fn;
	MwToolFunction *f;
	char	   *fault;
	char	   *hint;
	LOCAL_FCINFO(fcinfo, 1);

	tool->name = row->tool;
	tool->kind = MW_TOOL_FUNCTION;
	tool->signature = row->function;
	tool->typed = row->parameters == NULL;
	read_options(row->options, tool);

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = CStringGetTextDatum(row->function);
	fcinfo->args[0].isnull = false;
	fn = to_regprocedure(fcinfo);
	if (fcinfo->isnull)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the function of tool \"%s\" does not exist", row->tool),
				errdetail("It was %s.", row->function),
				errhint("Create it again, or name another: SELECT mw_alter_tool(%s, '{\"function\": \"...\"}');", quote_literal_cstr(row->tool)));
	f = mw_tool_function(DatumGetObjectId(fn));
	fault = mw_tool_function_fault(f, tool->typed, &hint);
	if (fault)
		not_a_tool(row, fault, hint);

	tool->description = row->description ? row->description : GetComment(f->fn, ProcedureRelationId, 0);
	tool->commented = row->description ? InvalidOid : f->fn;
	tool->parameters = row->parameters ? row->parameters : mw_tool_schema(f, tool->fixed);
	if (function)
		*function = f;
	return tool;
}

/* ---------- looking up ---------- */

/* The row of one tenant, or of '*'; NULL */
static MwToolRow *
find_row(const char *tenant, const char *name)
{
	static MwRowTable table = {.name = "tool", .nkeys = 2, .equal = {F_TEXTEQ, F_TEXTEQ}};
	MwToolRow  *row = NULL;
	MwRow		stored;
	Datum		key[2];
	Datum		d;
	bool		isnull;

	key[0] = CStringGetTextDatum(tenant);
	key[1] = CStringGetTextDatum(name);
	if (mw_row_open(&stored, &table, key))
	{
		row = palloc0(sizeof(MwToolRow));
		row->tool = pstrdup(name);
		row->function = TextDatumGetCString(mw_row_get(&stored, TOOL_FUNCTION, &isnull));
		d = mw_row_get(&stored, TOOL_DESCRIPTION, &isnull);
		row->description = isnull ? NULL : TextDatumGetCString(d);
		d = mw_row_get(&stored, TOOL_PARAMETERS, &isnull);
		row->parameters = isnull ? NULL : DatumGetJsonbPCopy(d);
		row->options = DatumGetJsonbPCopy(mw_row_get(&stored, TOOL_OPTIONS, &isnull));
	}
	mw_row_close(&stored);
	return row;
}

/* What makes the schema of a user's type (its labels, checks, attributes, comments) changes without a sign */
static bool
has_own_types(const MwToolFunction *f)
{
	for (int i = 0; i < f->nargs; i++)
		if (f->args[i].type >= FirstNormalObjectId)
			return true;
	return false;
}

static void *
read_tool(const char *tenant, const char *name, int version, bool *keep)
{
	MwToolRow  *row = find_row(tenant, name);
	MwToolFunction *f;
	MwTool	   *tool;

	if (row == NULL)
		row = find_row("*", name);
	if (row == NULL)
		return NULL;
	tool = mw_tool_make(row, &f);
	*keep = !tool->typed || !has_own_types(f);
	return tool;
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

MwTool *
mw_tool_find(const char *tenant, const char *name)
{
	MwTool	   *tool = mw_definition(read_tool, tenant, name, 0);

	if (tool != NULL && OidIsValid(tool->commented))
	{
		/* so does a COMMENT */
		char	   *comment = GetComment(tool->commented, ProcedureRelationId, 0);

		if (!same_text(comment, tool->description))
		{
			MwTool	   *now = palloc(sizeof(MwTool));

			*now = *tool;
			now->description = comment;
			return now;
		}
	}
	return tool;
}

List *
mw_tool_names(const char *tenant)
{
	static MwStmt stmt = {
		"SELECT DISTINCT t.tool FROM mw.tool AS t"
		" WHERE t.tenant OPERATOR(pg_catalog.=) ANY (ARRAY[$1, '*']) ORDER BY 1",
		1, {TEXTOID}
	};
	MemoryContext cxt = CurrentMemoryContext;
	List	   *names = NIL;
	Datum		arg;
	uint64		n;

	SPI_connect();
	arg = CStringGetTextDatum(tenant);
	n = mw_spi_read(&stmt, MW_AS_CALLER, &arg, NULL, 0);
	for (uint64 i = 0; i < n; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);
		bool		isnull;

		names = lappend(names, TextDatumGetCString(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull)));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return names;
}

MwTool *
mw_tool_client(Jsonb *schema)
{
	Jsonb	   *function = mw_json_get_jsonb(schema, "function");
	MwTool	   *tool = palloc0(sizeof(MwTool));

	tool->name = mw_json_get_text(function, "name");
	tool->description = mw_json_get_text(function, "description");
	tool->parameters = mw_json_get_jsonb(function, "parameters");
	if (tool->parameters == NULL)
		tool->parameters = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{\"type\": \"object\", \"properties\": {}}")));
	tool->kind = MW_TOOL_CLIENT;
	return tool;
}

Jsonb *
mw_tools_schemas(List *tools)
{
	JsonbParseState *st = NULL;
	ListCell   *lc;

	if (tools == NIL)
		return NULL;
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, tools)
	{
		const MwTool *tool = lfirst(lc);

		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "type", "function");
		push_key(&st, "function");
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "name", tool->name);
		if (tool->description)
			push_member(&st, "description", tool->description);
		push_key(&st, "parameters");
		mw_push_jsonb(&st, WJB_VALUE, tool->parameters);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_ARRAY, NULL));
}
