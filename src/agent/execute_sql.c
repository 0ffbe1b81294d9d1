/*
 * execute_sql.c - mw.execute_sql: one SELECT that a model wrote, as the caller.
 *
 * It sees what the caller may see, and less.  Of the statement as it is written
 * (views not yet taken apart, since what stands in a view is its owner's word):
 * one SELECT, no lock and no change; no system catalogue, whose statistics show
 * the statements of other tenants behind one application role; nothing of mw's;
 * of PostgreSQL's and of extensions' functions none that is volatile, speaks of
 * the server or runs a text as SQL.  An application's own functions and views run
 * as they are, but no table of mw's is opened beneath them (the executor asks).
 *
 * It runs read-only, as a restricted operation, without the caller's search_path
 * and settings, and not at all for a superuser, for whom nothing of this means
 * anything.
 *
 * What is wrong with the statement is an answer, not an error: the model wrote
 * it, and is told.  A cancel, lack of memory and faults of the server stay errors.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "agent/tool.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/names.h"
#include "util/spi.h"

PG_FUNCTION_INFO_V1(mw_execute_sql);

#define MAX_ROWS	10000
#define MAX_BYTES	(1024 * 1024)	/* of all rows; a tool shows far less */

#define refuse(...) \
	ereport(ERROR, \
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), \
			 errmsg(__VA_ARGS__)))

/* ---------- what may stand in the statement ---------- */

static bool
is_ours(Oid schema)
{
	return schema == get_namespace_oid("mw", true);
}

static void
check_relation(Oid relid)
{
	Oid			schema = get_rel_namespace(relid);
	char	   *name = get_namespace_name(schema);

	if (is_ours(schema) || IsCatalogNamespace(schema) || IsToastNamespace(schema) || (name && strcmp(name, "information_schema") == 0))
		refuse("the schema %s is not read", name ? name : "of this table");
}

/* A function that the statement names; called by check_functions_in_node */
static bool
check_function(Oid fn, void *context)
{
	static const char *const harmless[] = {		/* volatile, and yet no more than a number */
		"clock_timestamp", "gen_random_uuid", "random", "random_normal", "timeofday", "uuidv4", "uuidv7", NULL
	};
	static const char *const known_pg[] = {"pg_size_pretty", "pg_typeof", NULL};
	static const char *const refused[] = {		/* stable, and they speak of the server or read tables by name */
		"current_query", "current_setting", "cursor_to_xml", "cursor_to_xmlschema",
		"database_to_xml", "database_to_xml_and_xmlschema", "database_to_xmlschema",
		"query_to_xml", "query_to_xml_and_xmlschema", "query_to_xmlschema",
		"schema_to_xml", "schema_to_xml_and_xmlschema", "schema_to_xmlschema",
		"table_to_xml", "table_to_xml_and_xmlschema", "table_to_xmlschema", NULL
	};
	Oid			extension;
	char	   *name;
	bool		is_volatile;

	if (fn >= FirstNormalObjectId)
	{
		extension = getExtensionOfObject(ProcedureRelationId, fn);
		if (!OidIsValid(extension))
			return false;
		if (extension == get_extension_oid("mw", true))
			refuse("functions of mw are not called");
		if (func_volatile(fn) == PROVOLATILE_VOLATILE)
			refuse("the function %s is not called", get_func_name(fn));
		return false;
	}
	name = get_func_name(fn);
	is_volatile = func_volatile(fn) == PROVOLATILE_VOLATILE;
	if (name && ((is_volatile && !mw_one_of(name, harmless)) || mw_one_of(name, refused) ||
				 (strncmp(name, "pg_", 3) == 0 && !mw_one_of(name, known_pg))))
		refuse("the function %s is not called", name);
	return false;
}

static bool
walk(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		ListCell   *lc;

		if (query->commandType != CMD_SELECT || query->hasModifyingCTE || query->rowMarks != NIL)
			refuse("only a SELECT that locks and changes nothing is run");
		foreach(lc, query->rtable)
		{
			RangeTblEntry *rte = lfirst(lc);

			if (rte->rtekind == RTE_RELATION)
				check_relation(rte->relid);
		}
		return query_tree_walker(query, walk, context, 0);
	}
	(void) check_functions_in_node(node, check_function, NULL);
	return expression_tree_walker(node, walk, context);
}

static Query *
analysed(const char *sql)
{
	List	   *statements = raw_parser(sql, RAW_PARSE_DEFAULT);
	Query	   *query;

	if (list_length(statements) != 1 || !IsA(linitial_node(RawStmt, statements)->stmt, SelectStmt))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("give one SELECT statement and nothing else")));
	query = parse_analyze_fixedparams(linitial_node(RawStmt, statements), sql, NULL, 0, NULL);
	(void) walk((Node *) query, NULL);
	return linitial_node(Query, pg_rewrite_query(query));
}

/* ---------- what may be opened beneath it ---------- */

static ExecutorCheckPerms_hook_type next_check_perms;
static bool hooked;				/* once a process, at first use */
static bool closed;				/* a model's statement runs */
static int	closed_depth;		/* statements of our own that ran when it began */

static bool
check_perms(MW_CHECK_PERMS_PARAMS)
{
	ListCell   *lc;

	/* our own statements (may_act in a policy asks for grants) are not the model's */
	if (closed && mw_spi_depth == closed_depth)
		foreach(lc, tables)
		{
			RangeTblEntry *rte = lfirst(lc);

			if (rte->rtekind == RTE_RELATION && is_ours(get_rel_namespace(rte->relid)))
				refuse("tables of mw are not read");
		}
	return next_check_perms ? next_check_perms(MW_CHECK_PERMS_PASS) : true;
}

/* ---------- rows ---------- */

typedef struct Rows
{
	DestReceiver pub;			/* must be first */
	JsonbParseState *st;
	MemoryContext cxt;
	MemoryContext row_cxt;
	FmgrInfo   *to_jsonb;		/* a column each */
	char	  **names;
	int64		n;
	int64		max;
	int64		bytes;
	bool		more;
} Rows;

static void
rows_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	Rows	   *r = (Rows *) self;
	MemoryContext old = MemoryContextSwitchTo(r->cxt);

	r->to_jsonb = palloc0(sizeof(FmgrInfo) * Max(1, desc->natts));
	r->names = palloc0(sizeof(char *) * Max(1, desc->natts));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		fmgr_info(F_TO_JSONB, &r->to_jsonb[i]);
		fmgr_info_set_expr((Node *) makeFuncExpr(F_TO_JSONB, JSONBOID, list_make1(makeNullConst(att->atttypid, -1, InvalidOid)),
												 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL), &r->to_jsonb[i]);
		r->names[i] = pstrdup(NameStr(att->attname));
		/* two columns of one name are two members */
		for (int j = 0; j < i; j++)
			if (strcmp(r->names[j], NameStr(att->attname)) == 0)
				r->names[i] = psprintf("%s_%d", NameStr(att->attname), i + 1);
	}
	MemoryContextSwitchTo(old);
}

static bool
rows_receive(TupleTableSlot *slot, DestReceiver *self)
{
	Rows	   *r = (Rows *) self;
	JsonbParseState *st = NULL;
	MemoryContext old;
	Jsonb	   *row;

	if (r->n >= r->max)
	{
		r->more = true;
		return false;
	}
	slot_getallattrs(slot);
	MemoryContextReset(r->row_cxt);
	old = MemoryContextSwitchTo(r->row_cxt);
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		push_key(&st, r->names[i]);
		if (slot->tts_isnull[i])
			pushJsonbValue(&st, WJB_VALUE, &(JsonbValue) {.type = jbvNull});
		else
			mw_push_jsonb(&st, WJB_VALUE, DatumGetJsonbP(FunctionCall1(&r->to_jsonb[i], slot->tts_values[i])));
	}
	row = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	r->bytes += VARSIZE(row);
	if (r->n > 0 && r->bytes > MAX_BYTES)
		r->more = true;
	else
	{
		MemoryContextSwitchTo(r->cxt);
		row = memcpy(palloc(VARSIZE(row)), row, VARSIZE(row));
		mw_push_jsonb(&r->st, WJB_ELEM, row);
		r->n++;
	}
	MemoryContextSwitchTo(old);
	return !r->more;
}

static void
rows_nothing(DestReceiver *self)
{
}

/* ---------- running it ---------- */

static void
run_closed(const char *sql, Rows *rows)
{
	Oid			userid;
	int			sec;
	int			level;

	GetUserIdAndSecContext(&userid, &sec);
	SetUserIdAndSecContext(userid, sec | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) mw_row_security_on(level);
	/* its end is the subtransaction's */
	XactReadOnly = true;
	PushActiveSnapshot(GetTransactionSnapshot());
	mw_plan_run(pg_plan_query(analysed(sql), sql, 0, NULL), sql, NULL, &rows->pub, 0);
	PopActiveSnapshot();
	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(userid, sec);
}

/* What the model is told instead of rows; false: not its fault */
static bool
is_its_fault(const ErrorData *edata)
{
	switch (ERRCODE_TO_CATEGORY(edata->sqlerrcode))
	{
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INTERNAL_ERROR:
		case ERRCODE_TRANSACTION_ROLLBACK:
			return false;
		default:
			return edata->elevel == ERROR;
	}
}

static Jsonb *
told(const ErrorData *edata)
{
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "error", edata->message);
	if (edata->hint)
		push_member(&st, "hint", edata->hint);
	push_member(&st, "sqlstate", unpack_sql_state(edata->sqlerrcode));
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

static Jsonb *
answer(Rows *rows)
{
	JsonbParseState *st = NULL;
	Jsonb	   *list = JsonbValueToJsonb(pushJsonbValue(&rows->st, WJB_END_ARRAY, NULL));

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "rows");
	mw_push_jsonb(&st, WJB_VALUE, list);
	if (rows->more)
	{
		push_key(&st, "more");
		pushJsonbValue(&st, WJB_VALUE, &(JsonbValue) {.type = jbvBool, .val.boolean = true});
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* Rows, or what was wrong, undone */
static Jsonb *
execute(const char *sql, Rows *rows)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	Jsonb	   *volatile error = NULL;
	bool		was_closed = closed;
	int			was_depth = closed_depth;

	if (!hooked)
	{
		hooked = true;
		next_check_perms = ExecutorCheckPerms_hook;
		ExecutorCheckPerms_hook = check_perms;
	}
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		closed = true;
		closed_depth = mw_spi_depth;
		run_closed(sql, rows);
		closed = was_closed;
		closed_depth = was_depth;
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		closed = was_closed;
		closed_depth = was_depth;
		MemoryContextSwitchTo(cxt);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		if (!is_its_fault(edata))
			ReThrowError(edata);
		error = told(edata);
	}
	PG_END_TRY();
	return error ? error : answer(rows);
}

Datum
mw_execute_sql(PG_FUNCTION_ARGS)
{
	Rows		rows = {
		.pub = {.receiveSlot = rows_receive, .rStartup = rows_startup, .rShutdown = rows_nothing, .rDestroy = rows_nothing, .mydest = DestNone},
		.cxt = CurrentMemoryContext
	};
	char	   *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("a superuser does not run the SQL of a model"),
				 errdetail("Row policies and rights do not bind it, so nothing that a model writes would be bound."),
				 errhint("Call mw as another role: SET ROLE ...;")));
	rows.max = Min(Max(PG_GETARG_INT32(1), 1), MAX_ROWS);
	rows.row_cxt = AllocSetContextCreate(CurrentMemoryContext, "mw sql row", ALLOCSET_DEFAULT_SIZES);
	pushJsonbValue(&rows.st, WJB_BEGIN_ARRAY, NULL);
	PG_RETURN_JSONB_P(execute(sql, &rows));
}
