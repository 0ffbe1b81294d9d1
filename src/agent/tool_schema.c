/*
 * tool_schema.c - the JSON schema of a function's arguments, from its signature.
 *
 * What the catalogue knows of an argument, a model is told: name, type, DEFAULT,
 * labels of an enum, checks of a domain, attributes of a composite type, and
 * what COMMENT says of them.  It is kept no longer than all of that stays as it is
 * (tool_catalog.c), so that a schema is never older than its function.  Nothing of a user's is run for it: a DEFAULT
 * is shown where it is a constant, after built-in casts.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "agent/tool.h"
#include "util/json.h"
#include "util/json_push.h"

/* ---------- a signature ---------- */

MwToolFunction *
mw_tool_function(Oid fn)
{
	HeapTuple	proc = SearchSysCache1(PROCOID, ObjectIdGetDatum(fn));
	MwToolFunction *f = palloc0(sizeof(MwToolFunction));
	Form_pg_proc form;
	List	   *defaults = NIL;
	Datum		d;
	bool		isnull;
	Oid		   *types;
	char	  **names;
	char	   *modes;
	int			all;
	int			nout = 0;
	const char *column = NULL;

	if (!HeapTupleIsValid(proc))
		elog(ERROR, "cache lookup failed for function %u", fn);
	form = (Form_pg_proc) GETSTRUCT(proc);
	f->fn = fn;
	f->result = form->prorettype;
	f->returns_set = form->proretset;
	f->variadic = OidIsValid(form->provariadic);
	f->args = palloc0(sizeof(MwToolArg) * Max(1, form->pronargs));
	d = SysCacheGetAttr(PROCOID, proc, Anum_pg_proc_proargdefaults, &isnull);
	if (!isnull)
		defaults = castNode(List, stringToNode(TextDatumGetCString(d)));

	all = get_func_arg_info(proc, &types, &names, &modes);
	for (int i = 0; i < all; i++)
	{
		char		mode = modes ? modes[i] : PROARGMODE_IN;
		const char *name = names && names[i] && names[i][0] ? names[i] : NULL;
		MwToolArg  *arg;
		int			at;

		if (mode == PROARGMODE_OUT || mode == PROARGMODE_TABLE || mode == PROARGMODE_INOUT)
		{
			nout++;
			column = name;
		}
		if (mode == PROARGMODE_OUT || mode == PROARGMODE_TABLE)
			continue;
		arg = &f->args[f->nargs];
		arg->name = name;
		arg->type = types[i];
		arg->variadic = mode == PROARGMODE_VARIADIC;
		at = f->nargs - (form->pronargs - list_length(defaults));
		if (at >= 0)
			arg->otherwise = list_nth(defaults, at);
		arg->optional = arg->variadic || at >= 0;
		f->nargs++;
	}
	if (nout == 1)
		f->column = column;
	ReleaseSysCache(proc);
	return f;
}

const MwToolArg *
mw_tool_arg(const MwToolFunction *f, const char *name, int len)
{
	for (int i = 0; i < f->nargs; i++)
		if (f->args[i].name && strlen(f->args[i].name) == len && memcmp(f->args[i].name, name, len) == 0)
			return &f->args[i];
	return NULL;
}

char *
mw_tool_function_fault(const MwToolFunction *f, bool typed, char **hint)
{
	HeapTuple	proc;
	bool		record;

	*hint = NULL;
	if (get_func_prokind(f->fn) != PROKIND_FUNCTION)
	{
		*hint = pstrdup("A function can be a tool; write one that does what this one is wanted for.");
		return pstrdup("It is a procedure, an aggregate or a window function.");
	}
	if (!typed && (f->nargs > 1 || (f->nargs == 1 && f->args[0].type != JSONBOID)))
	{
		*hint = pstrdup("Leave \"parameters\" out, and the schema comes from the function's own arguments.");
		return pstrdup("With \"parameters\" a function takes all arguments as one jsonb, or none.");
	}
	for (int i = 0; i < f->nargs; i++)
	{
		const MwToolArg *arg = &f->args[i];

		if (get_typtype(arg->type) == TYPTYPE_PSEUDO)
			return psprintf("Its argument %d is of the type %s, which no value of JSON is.", i + 1, format_type_be(arg->type));
		if (typed && arg->name == NULL)
		{
			*hint = pstrdup("A model is told the names of arguments: give each one in CREATE FUNCTION, or say \"parameters\" and take one jsonb.");
			return psprintf("Its argument %d has no name.", i + 1);
		}
	}
	proc = SearchSysCache1(PROCOID, ObjectIdGetDatum(f->fn));
	record = HeapTupleIsValid(proc) && f->result == RECORDOID && build_function_result_tupdesc_t(proc) == NULL;
	if (HeapTupleIsValid(proc))
		ReleaseSysCache(proc);
	if (record)
	{
		*hint = pstrdup("Name its columns with RETURNS TABLE or OUT.");
		return pstrdup("It returns a record whose columns are not known.");
	}
	if (get_typtype(f->result) == TYPTYPE_PSEUDO && f->result != VOIDOID && f->result != RECORDOID)
		return psprintf("It returns %s.", format_type_be(f->result));
	return NULL;
}

/* ---------- types ---------- */

static void push_type(JsonbParseState **st, Oid type, const char *description, const MwToolArg *arg);

static void
push_enum(JsonbParseState **st, Oid type)
{
	Relation	rel = table_open(EnumRelationId, AccessShareLock);
	Relation	index = index_open(EnumTypIdSortOrderIndexId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tup;

	push_member(st, "type", "string");
	push_key(st, "enum");
	pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(type));
	scan = systable_beginscan_ordered(rel, index, NULL, 1, &key);
	while ((tup = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		char	   *label = pstrdup(NameStr(((Form_pg_enum) GETSTRUCT(tup))->enumlabel));

		push_string(st, WJB_ELEM, label, strlen(label));
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	pushJsonbValue(st, WJB_END_ARRAY, NULL);
}

static void
push_composite(JsonbParseState **st, Oid type)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);

	push_member(st, "type", "object");
	push_key(st, "additionalProperties");
	pushJsonbValue(st, WJB_VALUE, &(JsonbValue) {.type = jbvBool, .val.boolean = false});
	push_key(st, "properties");
	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		push_key(st, pstrdup(NameStr(att->attname)));
		push_type(st, att->atttypid, GetComment(get_typ_typrelid(type), RelationRelationId, att->attnum), NULL);
	}
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
	ReleaseTupleDesc(desc);
}

/* What a domain asks of a value, as its owner wrote it, and what COMMENT says of it */
static char *
domain_description(Oid type, const char *description)
{
	Relation	rel = table_open(ConstraintRelationId, AccessShareLock);
	StringInfoData out;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tup;
	char	   *comment = GetComment(type, TypeRelationId, 0);
	int			level = NewGUCNestLevel();

	/* the same text whatever the caller's search_path is */
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	initStringInfo(&out);
	if (description)
		appendStringInfoString(&out, description);
	if (comment)
		appendStringInfo(&out, "%s%s", out.len > 0 ? " " : "", comment);
	ScanKeyInit(&key, Anum_pg_constraint_contypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(type));
	scan = systable_beginscan(rel, ConstraintTypidIndexId, true, NULL, 1, &key);
	while ((tup = systable_getnext(scan)) != NULL)
	{
		Form_pg_constraint con = (Form_pg_constraint) GETSTRUCT(tup);

		if (con->contype == CONSTRAINT_CHECK)
			appendStringInfo(&out, "%s%s", out.len > 0 ? " " : "",
							 TextDatumGetCString(DirectFunctionCall1(pg_get_constraintdef, ObjectIdGetDatum(con->oid))));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	AtEOXact_GUC(false, level);
	return out.len > 0 ? out.data : NULL;
}

/* A DEFAULT that is a constant; built-in casts of one count, as in DEFAULT 10 of a numeric */
static Const *
constant_of(Node *node)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *f = (FuncExpr *) node;

		if (f->funcid >= FirstNormalObjectId || f->funcretset || list_length(f->args) == 0 ||
			func_volatile(f->funcid) != PROVOLATILE_IMMUTABLE || !IsA(linitial(f->args), Const))
			return NULL;
		node = eval_const_expressions(NULL, node);
	}
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Const) && !((Const *) node)->constisnull ? (Const *) node : NULL;
}

static void
push_default(JsonbParseState **st, Node *node)
{
	Const	   *c = constant_of(node);
	JsonbValue	v;
	Oid			out;
	bool		varlena;

	if (c == NULL)
		return;
	getTypeOutputInfo(c->consttype, &out, &varlena);
	if (out >= FirstNormalObjectId)
		return;
	switch (c->consttype)
	{
		case BOOLOID:
			v.type = jbvBool;
			v.val.boolean = DatumGetBool(c->constvalue);
			break;
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			{
				char	   *s = OidOutputFunctionCall(out, c->constvalue);

				/* NaN and the infinities are no numbers of JSON's */
				if (strspn(s, "0123456789.+-eE") != strlen(s))
					return;
				v.type = jbvNumeric;
				v.val.numeric = DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(s),
																	ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
				break;
			}
		case JSONBOID:
			{
				Jsonb	   *jb = DatumGetJsonbP(c->constvalue);

				if (JB_ROOT_IS_SCALAR(jb))
					return;
				v.type = jbvBinary;
				v.val.binary.data = &jb->root;
				v.val.binary.len = VARSIZE(jb) - VARHDRSZ;
				break;
			}
		default:
			if (type_is_array(c->consttype))
				return;
			push_member(st, "default", OidOutputFunctionCall(out, c->constvalue));
			return;
	}
	push_key(st, "default");
	pushJsonbValue(st, WJB_VALUE, &v);
}

/* What JSON calls a scalar type, and its format */
static void
push_scalar(JsonbParseState **st, Oid type)
{
	static const struct
	{
		Oid			type;
		const char *json;		/* NULL: any value */
		const char *format;
	}			scalars[] = {
		{BOOLOID, "boolean", NULL}, {INT2OID, "integer", NULL}, {INT4OID, "integer", NULL}, {INT8OID, "integer", NULL},
		{FLOAT4OID, "number", NULL}, {FLOAT8OID, "number", NULL}, {NUMERICOID, "number", NULL},
		{UUIDOID, "string", "uuid"}, {DATEOID, "string", "date"},
		{TIMESTAMPOID, "string", "date-time"}, {TIMESTAMPTZOID, "string", "date-time"},
		{TIMEOID, "string", "time"}, {TIMETZOID, "string", "time"}, {INTERVALOID, "string", "duration"},
		{JSONOID, NULL, NULL}, {JSONBOID, NULL, NULL}
	};

	for (int i = 0; i < lengthof(scalars); i++)
	{
		if (scalars[i].type != type)
			continue;
		if (scalars[i].json)
			push_member(st, "type", scalars[i].json);
		if (scalars[i].format)
			push_member(st, "format", scalars[i].format);
		return;
	}
	/* whatever it is, it has a text */
	push_member(st, "type", "string");
}

static void
push_type(JsonbParseState **st, Oid type, const char *description, const MwToolArg *arg)
{
	Oid			element;

	check_stack_depth();
	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	while (get_typtype(type) == TYPTYPE_DOMAIN)
	{
		HeapTuple	tup = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));

		if (!HeapTupleIsValid(tup))
			elog(ERROR, "cache lookup failed for type %u", type);
		description = domain_description(type, description);
		type = ((Form_pg_type) GETSTRUCT(tup))->typbasetype;
		ReleaseSysCache(tup);
	}
	element = get_element_type(type);
	if (OidIsValid(element))
	{
		push_member(st, "type", "array");
		push_key(st, "items");
		push_type(st, element, NULL, NULL);
	}
	else if (get_typtype(type) == TYPTYPE_ENUM)
		push_enum(st, type);
	else if (get_typtype(type) == TYPTYPE_COMPOSITE)
		push_composite(st, type);
	else
		push_scalar(st, type);
	if (description)
		push_member(st, "description", description);
	if (arg)
		push_default(st, arg->otherwise);
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
}

/* ---------- the schema ---------- */

Jsonb *
mw_tool_schema(const MwToolFunction *f, Jsonb *fixed)
{
	JsonbParseState *st = NULL;
	bool	   *left_out = palloc0(sizeof(bool) * Max(1, f->nargs));
	bool		required = false;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "type", "object");
	push_key(&st, "additionalProperties");
	pushJsonbValue(&st, WJB_VALUE, &(JsonbValue) {.type = jbvBool, .val.boolean = false});
	push_key(&st, "properties");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < f->nargs; i++)
	{
		const MwToolArg *arg = &f->args[i];

		left_out[i] = fixed && getKeyJsonValueFromContainer(&fixed->root, arg->name, strlen(arg->name), NULL) != NULL;
		if (left_out[i])
			continue;
		push_key(&st, arg->name);
		push_type(&st, arg->type, NULL, arg);
		required |= !arg->optional;
	}
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	if (required)
	{
		push_key(&st, "required");
		pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
		for (int i = 0; i < f->nargs; i++)
			if (!left_out[i] && !f->args[i].optional)
				push_string(&st, WJB_ELEM, f->args[i].name, strlen(f->args[i].name));
		pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}
