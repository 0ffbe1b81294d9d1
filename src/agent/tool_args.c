/*
 * tool_args.c - arguments as a model gave them, into what a function takes.
 *
 * Conversion is PostgreSQL's own: one jsonb_populate_record into a record of the
 * function's arguments gives dates, numerics, arrays, composite types, enums and
 * domains what their input functions and checks say.  Before the check against
 * the schema little is forgiven, and only what has one meaning: a number or a
 * truth value in quotes or in place of the other, 5.0 for an integer, null for an
 * argument with a DEFAULT; as much as LangChain's Pydantic tools forgive.
 * What a schema of one's own does not know is passed on: only additionalProperties
 * forbids it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

#include "agent/tool.h"
#include "util/json.h"

Jsonb *
mw_tool_merge(Jsonb *args, Jsonb *fixed)
{
	return fixed == NULL ? args :
		DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(args), JsonbPGetDatum(fixed)));
}

/* What a value is wanted as, where that can be forgiven at all */
typedef enum Wanted
{
	ANYTHING, INTEGER, NUMBER, TRUTH
} Wanted;

static Wanted
wanted_by_type(Oid type)
{
	switch (getBaseType(type))
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return INTEGER;
		case NUMERICOID:
		case FLOAT4OID:
		case FLOAT8OID:
			return NUMBER;
		case BOOLOID:
			return TRUTH;
		default:
			return ANYTHING;
	}
}

static Wanted
wanted_by_schema(Jsonb *schema)
{
	char	   *type = mw_json_get_text(schema, "type");

	if (type == NULL)
		return ANYTHING;
	return strcmp(type, "integer") == 0 ? INTEGER : strcmp(type, "number") == 0 ? NUMBER : strcmp(type, "boolean") == 0 ? TRUTH : ANYTHING;
}

/* A text that is a number of JSON's, such as "5" or "-0.5e3" */
static bool
read_number(const JsonbValue *v, JsonbValue *number)
{
	char	   *s = mw_value_string(v);
	int			len = strlen(s);
	Jsonb	   *jb;

	while (*s == ' ')
		s++, len--;
	while (len > 0 && s[len - 1] == ' ')
		s[--len] = '\0';

	/* the parser takes white space and whole documents too */
	if (s[0] == '\0' || strspn(s, "0123456789.+-eE") != strlen(s))
		return false;
	jb = mw_json_parse(s, strlen(s), NULL);
	if (jb == NULL || !JB_ROOT_IS_SCALAR(jb))
		return false;
	*number = *getIthJsonbValueFromContainer(&jb->root, 0);
	return number->type == jbvNumeric;
}

/* A word, or the number 0 or 1, that stands for a truth value */
static void
read_truth(JsonbValue *v)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"0", "1"}, {"no", "yes"}, {"off", "on"}, {"f", "t"}, {"n", "y"},
	};
	char	   *s = v->type == jbvString ? mw_value_string(v) :
		numeric_normalize(v->val.numeric);

	for (int i = 0; i < lengthof(words); i++)
	{
		for (int truth = 0; truth < 2; truth++)
		{
			if (pg_strcasecmp(s, words[i][truth]) != 0)
				continue;
			v->type = jbvBool;
			v->val.boolean = truth == 1;
			return;
		}
	}
}

/* One value as it is wanted */
static void
forgive(JsonbValue *v, Wanted wanted)
{
	JsonbValue	number;

	if (v->type == jbvString && (wanted == INTEGER || wanted == NUMBER))
	{
		if (read_number(v, &number))
			*v = number;
	}
	else if ((v->type == jbvString || v->type == jbvNumeric) && wanted == TRUTH)
		read_truth(v);
	else if (v->type == jbvBool && (wanted == INTEGER || wanted == NUMBER))
	{
		v->type = jbvNumeric;
		v->val.numeric = int64_to_numeric(v->val.boolean ? 1 : 0);
	}
	if (v->type == jbvNumeric && wanted == INTEGER)
	{
		Datum		cut = DirectFunctionCall2(numeric_trunc, NumericGetDatum(v->val.numeric), Int32GetDatum(0));

		if (DatumGetBool(DirectFunctionCall2(numeric_eq, cut, NumericGetDatum(v->val.numeric))))
			v->val.numeric = DatumGetNumeric(cut);
	}
}

Jsonb *
mw_tool_lenient(const MwToolFunction *f, Jsonb *args)
{
	JsonbParseState *st = NULL;
	MwJsonEach	each = mw_json_each(&args->root);

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	while (mw_json_next(&each))
	{
		const MwToolArg *arg = mw_tool_arg(f, each.key.val.string.val, each.key.val.string.len);

		if (arg && arg->optional && each.value.type == jbvNull)
			continue;
		if (arg)
			forgive(&each.value, wanted_by_type(arg->type));
		pushJsonbValue(&st, WJB_KEY, &each.key);
		pushJsonbValue(&st, WJB_VALUE, &each.value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

Jsonb *
mw_tool_forgiven(Jsonb *schema, Jsonb *args)
{
	Jsonb	   *properties = mw_json_get_jsonb(schema, "properties");
	JsonbParseState *st = NULL;
	MwJsonEach	each = mw_json_each(&args->root);

	if (!mw_json_is_object(properties))
		return args;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	while (mw_json_next(&each))
	{
		JsonbValue *property = getKeyJsonValueFromContainer(&properties->root, each.key.val.string.val, each.key.val.string.len, NULL);

		if (property != NULL && property->type == jbvBinary)
			forgive(&each.value, wanted_by_schema(JsonbValueToJsonb(property)));
		pushJsonbValue(&st, WJB_KEY, &each.key);
		pushJsonbValue(&st, WJB_VALUE, &each.value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* All arguments, as columns of one record */
static HeapTupleHeader
populate(const MwToolFunction *f, TupleDesc desc, Jsonb *args)
{
	bool	   *nulls = palloc(sizeof(bool) * f->nargs);
	Datum	   *values = palloc0(sizeof(Datum) * f->nargs);
	FmgrInfo	flinfo;
	LOCAL_FCINFO(fcinfo, 2);

	memset(nulls, true, sizeof(bool) * f->nargs);
	fmgr_info(F_JSONB_POPULATE_RECORD, &flinfo);
	/* it asks what its first argument is, and then that argument */
	fmgr_info_set_expr((Node *) makeFuncExpr(F_JSONB_POPULATE_RECORD, RECORDOID,
											 list_make2(makeNullConst(RECORDOID, -1, InvalidOid), makeNullConst(JSONBOID, -1, InvalidOid)),
											 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL), &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 2, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = JsonbPGetDatum(args);
	fcinfo->args[1].isnull = false;
	return DatumGetHeapTupleHeader(FunctionCallInvoke(fcinfo));
}

void
mw_tool_values(const MwToolFunction *f, Jsonb *args, Datum *values, bool *nulls, bool *absent)
{
	TupleDesc	desc;
	HeapTupleHeader record;
	HeapTupleData tup;

	if (f->nargs == 0)
		return;
	desc = CreateTemplateTupleDesc(f->nargs);
	for (int i = 0; i < f->nargs; i++)
		TupleDescInitEntry(desc, i + 1, f->args[i].name, f->args[i].type, -1, 0);
	desc = BlessTupleDesc(desc);
	record = populate(f, desc, args);
	tup.t_len = HeapTupleHeaderGetDatumLength(record);
	ItemPointerSetInvalid(&tup.t_self);
	tup.t_tableOid = InvalidOid;
	tup.t_data = record;
	heap_deform_tuple(&tup, desc, values, nulls);

	for (int i = 0; i < f->nargs; i++)
	{
		const MwToolArg *arg = &f->args[i];

		absent[i] = getKeyJsonValueFromContainer(&args->root, arg->name, strlen(arg->name), NULL) == NULL;
		if (absent[i] && arg->variadic && arg->otherwise == NULL)
		{
			values[i] = PointerGetDatum(construct_empty_array(get_element_type(arg->type)));
			nulls[i] = false;
			absent[i] = false;
		}
	}
}
