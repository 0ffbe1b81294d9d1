/*
 * row.c - rows by an index, read as the current role or as the owner.
 *
 * What a hit looks up is one row of a table of ours.  As a statement that costs
 * twice what the index does: a plan is checked, an executor set up and taken
 * down again.  So such rows are fetched as the server fetches them for its own
 * foreign keys: by the index, with the locks, the right to SELECT and the row
 * policies that the statement would have.
 *
 * Policies are PostgreSQL's own: which of them apply to a role is what
 * get_row_security_policies says, the expression is the table's, and a row
 * is there only where it is true.  It is kept ready for each table and role, as
 * plans are in spi.c, with the answer whether it may SELECT, and made again when
 * a table (its rights, its policies), a role, a membership or a function has
 * changed (all of them count up one generation).  What is stale may
 * be at work further up the stack (a policy may call anything), so it is not
 * freed but given to the transaction, with whose memory it goes.
 *
 * Where a row was found is remembered, and there it is looked for first: to
 * descend an index of a million rows costs more than all the rest.  Nothing is
 * believed of such a place but that it is worth a look.  What stands there has
 * to be visible to the snapshot and to have the whole key that is asked for, of
 * which a snapshot sees one row at most; what was updated, deleted or moved
 * since is found by the index.  The page has to be in the buffer where it was,
 * so that a block that VACUUM has cut off is never asked for.
 *
 * What an administrator set (tenants, rights, limits, rules) is read once a
 * process, as the owner, whom no policy filters.  As statements that was most of
 * what a fresh process paid for its first call, since each is parsed and planned
 * there for the first time, for a row or none.
 *
 * Where no row can be fetched, a statement asks for it as for any other: a policy
 * with a sub-select needs a planner, and where tables are spread over machines
 * (Citus) what this machine's heap holds is not what the table holds.
 *
 * The snapshot is the latest at every isolation level, for the reasons in spi.c.
 *
 * Under SERIALIZABLE what is read here takes no predicate locks, as PostgreSQL's own
 * reads of its catalogues take none.  Those of a B-tree are of whole pages: two
 * callers whose request_ids, or sessions, stood on one page would have read
 * what the other writes, and one of them would fail at COMMIT though their data
 * have nothing in common.  What must not interleave is kept apart by locks (of
 * request_ids and sessions), and a row of the latest snapshot is not what the
 * order of transactions is about.  So all versions of a row are fetched
 * (SnapshotAny takes no such locks), and of these the visible one is kept.
 *
 * All state here belongs to the process.
 */
#include "mw.h"

#include "access/relscan.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "rewrite/rowsecurity.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "util/row.h"
#include "util/spi.h"

/* Kept expressions, each some kB: a few tables for many roles */
#define MAX_VIEWS 512

/* Places kept: two a slot, the newer first; 16 bytes each */
#define PLACE_SLOTS 2048

/* What a role sees of a table */
typedef struct ViewKey
{
	MwRowTable *table;
	Oid			role;
} ViewKey;

typedef struct View
{
	ViewKey		key;
	uint64		generation;
	MemoryContext cxt;
	ExprState  *policies;		/* NULL: every row */
	bool		by_statement;	/* a planner has to be asked */
} View;

/* Where a row was found */
typedef struct Place
{
	uint32		name;			/* of its key, four bytes of the hash */
	Buffer		buffer;			/* InvalidBuffer: nobody's place */
	ItemPointerData tid;
} Place;

static HTAB *views;
static View *newest;			/* asked for last: nearly always the next one too */
static Place places[PLACE_SLOTS][2];	/* the process's, whoever asks: a place says nothing of what stands there; pages without one are never touched */
static MwRowTable *tables[16];
static int	ntables;
static uint64 generation = 1;

/* ---------- what has changed ---------- */

static void
relation_changed(Datum arg, Oid relid)
{
	for (int i = 0; i < ntables; i++)
	{
		if (relid == InvalidOid || relid == tables[i]->relid)
		{
			generation++;
			return;
		}
	}
}

static void
catalog_changed(Datum arg, int cacheid, uint32 hash)
{
	generation++;
}

/* Once a process */
static void
init(void)
{
	HASHCTL		ctl = {.keysize = sizeof(ViewKey), .entrysize = sizeof(View)};

	views = hash_create("mw row policies", 32, &ctl, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(DATABASEOID, catalog_changed, (Datum) 0);	/* its owner is a member of pg_database_owner */
	CacheRegisterSyscacheCallback(PROCOID, catalog_changed, (Datum) 0);
}

/* The table's OID; what changes while it is looked up makes it look up again next time */
static Oid
find_table(MwRowTable *table)
{
	uint64		now = generation;
	Oid			schema;

	if (table->as == MW_AS_OWNER)
		table->generation = now;	/* read once a process: nothing is kept, and nothing has to tell of changes */
	else if (table->generation == generation)
		return table->relid;
	else if (table->generation == 0)
	{
		Assert(ntables < lengthof(tables));
		tables[ntables++] = table;
	}
	schema = get_namespace_oid("mw", true);
	table->relid = OidIsValid(schema) ? get_relname_relid(table->name, schema) : InvalidOid;
	table->generation = now;
	table->column[0] = InvalidAttrNumber;
	if (!OidIsValid(table->relid))
		(void) mw_extension_owner();	/* says what is not installed */
	return table->relid;
}

/* ---------- what a role sees ---------- */

/* The policies of an open table for the current role, as one condition of its rows; NIL for none */
static List *
read_policies(Relation rel, bool *subselects)
{
	Query	   *query = makeNode(Query);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	List	   *conditions;
	List	   *checks;
	bool		any;
	int			level;

	query->commandType = CMD_SELECT;
	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(rel);
	rte->relkind = rel->rd_rel->relkind;
	rte->rellockmode = AccessShareLock;
	rte->inh = true;
	MW_RTE_NEEDS(query, rte, ACL_SELECT);

	level = mw_row_security_on(0);
	get_row_security_policies(query, rte, 1, &conditions, &checks, &any, subselects);
	if (level != 0)
		AtEOXact_GUC(true, level);
	return conditions;
}

/* Whatever runs it still lives no longer than the transaction */
static void
retire(View *view)
{
	if (view->cxt)
		MemoryContextSetParent(view->cxt, TopTransactionContext);
	view->cxt = NULL;
	view->policies = NULL;
	view->generation = 0;
}

static View *
find_view(MwRowTable *table, Relation rel)
{
	ViewKey		key;
	View	   *view = newest;
	MemoryContext cxt;
	MemoryContext old;
	ExprState  *policies = NULL;
	List	   *conditions;
	AclResult	right;
	uint64		now;
	bool		by_statement;
	bool		found;

	if (view && view->generation == generation && view->key.table == table && view->key.role == GetUserId())
		return view;

	MemSet(&key, 0, sizeof(key));
	key.table = table;
	key.role = GetUserId();
	view = hash_search(views, &key, HASH_FIND, NULL);
	if (view && view->generation == generation)
		return newest = view;

	/* making it reads catalogues, and so may take in changes: it holds for what was known before */
	now = generation;
	right = pg_class_aclcheck(RelationGetRelid(rel), key.role, ACL_SELECT);
	if (right != ACLCHECK_OK)
		aclcheck_error(right, OBJECT_TABLE, table->name);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mw row policies", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(cxt);
	conditions = read_policies(rel, &by_statement);
	by_statement |= mw_tables_spread();
	if (conditions != NIL && !by_statement)
		policies = ExecInitQual((List *) expression_planner((Expr *) conditions), NULL);
	MemoryContextSwitchTo(old);

	newest = NULL;
	if (hash_get_num_entries(views) >= MAX_VIEWS)
	{
		HASH_SEQ_STATUS seq;

		hash_seq_init(&seq, views);
		while ((view = hash_seq_search(&seq)) != NULL)
		{
			retire(view);
			hash_search(views, &view->key, HASH_REMOVE, NULL);
		}
	}
	view = hash_search(views, &key, HASH_ENTER, &found);
	if (found)
		retire(view);
	MemoryContextSetParent(cxt, CacheMemoryContext);
	view->cxt = cxt;
	view->policies = policies;
	view->by_statement = by_statement;
	view->generation = now;
	return newest = view;
}

/* ---------- by a statement ---------- */

/* The index that the rows are found by */
static Relation
open_index(const MwRowTable *table, Relation rel)
{
	Oid			index = table->index == NULL ? MW_PRIMARY_KEY_INDEX(rel) :
		get_relname_relid(table->index, RelationGetNamespace(rel));

	if (!OidIsValid(index))
		elog(ERROR, "the index of mw.%s is not there", table->name);
	return index_open(index, AccessShareLock);
}

/* The table's columns by their numbers, xmin, its key, and the order of its index */
static void
make_statement(MwRowTable *table, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Relation	index = open_index(table, rel);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	for (int i = 0; i < desc->natts; i++)
		appendStringInfo(&sql, "%s, ",
						 TupleDescAttr(desc, i)->attisdropped ? "NULL" : quote_identifier(NameStr(TupleDescAttr(desc, i)->attname)));
	appendStringInfo(&sql, "xmin FROM mw.%s", table->name);
	for (int i = 0; i < table->nkeys; i++)
	{
		Form_pg_attribute a = TupleDescAttr(desc, index->rd_index->indkey.values[i] - 1);

		appendStringInfo(&sql, "%s%s OPERATOR(pg_catalog.=) $%d", i ? " AND " : " WHERE ", quote_identifier(NameStr(a->attname)), i + 1);
		table->stmt.types[i] = a->atttypid;
	}
	if (table->where)
		appendStringInfo(&sql, "%s%s", table->nkeys > 0 ? " AND " : " WHERE ", table->where);
	for (int i = table->nkeys; i < index->rd_index->indnkeyatts; i++)
		appendStringInfo(&sql, "%s%s%s", i == table->nkeys ? " ORDER BY " : ", ",
						 quote_identifier(NameStr(TupleDescAttr(desc, index->rd_index->indkey.values[i] - 1)->attname)),
						 table->backwards ? " DESC" : "");
	index_close(index, AccessShareLock);
	table->stmt.nargs = table->nkeys;
	table->stmt.sql = MemoryContextStrdup(TopMemoryContext, sql.data);
}

static bool
ask(MwRow *row, MwRowTable *table, const Datum *key)
{
	MemoryContext mine = CurrentMemoryContext;
	bool		found;

	if (table->stmt.sql == NULL)
		make_statement(table, row->rel);
	SPI_connect();
	found = mw_spi_read(&table->stmt, table->as, unconstify(Datum *, key), NULL, 0) > 0;
	row->answer = SPI_tuptable;
	row->at = 0;
	MemoryContextSwitchTo(mine);	/* what is made of the row is its reader's */
	return found;
}

/* ---------- where it stood ---------- */

/* The two places of a key; NULL for a table whose keys are not spread */
static Place *
places_of(const MwRowTable *table, const Datum *key, uint32 *name)
{
	const char *hash;
	uint32		slot;

	if (!table->by_hash)
		return NULL;
	hash = VARDATA_ANY(DatumGetPointer(key[table->nkeys - 1]));
	memcpy(name, hash, sizeof(*name));
	memcpy(&slot, hash + sizeof(*name), sizeof(slot));
	return places[slot % PLACE_SLOTS];
}

static void
remember(Place *place, uint32 name, const TupleTableSlot *slot)
{
	Buffer		buffer;

	if (!TTS_IS_BUFFERTUPLE(slot))
		return;
	buffer = ((const BufferHeapTupleTableSlot *) slot)->buffer;
	if (place[0].name != name)
		place[1] = place[0];
	place[0] = (Place) {name, buffer, slot->tts_tid};
}

static bool
has_key(const MwRow *row, const MwRowTable *table, const Datum *key)
{
	for (int i = 0; i < table->nkeys; i++)
	{
		Form_pg_attribute a = TupleDescAttr(RelationGetDescr(row->rel), table->column[i] - 1);
		bool		isnull;
		Datum		value = slot_getattr(row->slot, table->column[i], &isnull);

		if (isnull || !datum_image_eq(value, key[i], a->attbyval, a->attlen))
			return false;
	}
	return true;
}

/* Whether the row is where it was; it is in the row's slot then */
static bool
find_again(MwRow *row, const MwRowTable *table, const Place *place, uint32 name, const Datum *key)
{
	if (!AttributeNumberIsValid(table->column[0]))
		return false;
	for (int i = 0; i < 2; i++)
	{
		ItemPointerData tid = place[i].tid;
		bool		visible;

		if (place[i].name != name || !BufferIsValid(place[i].buffer) ||
			!MW_READ_RECENT_BUFFER(row->rel, ItemPointerGetBlockNumber(&tid), place[i].buffer))
			continue;
		visible = table_tuple_fetch_row_version(row->rel, &tid, GetActiveSnapshot(), row->slot);
		ReleaseBuffer(place[i].buffer);
		if (visible && has_key(row, table, key))
			return true;
		ExecClearTuple(row->slot);
	}
	return false;
}

/* ---------- the rows ---------- */

static void
find_by_index(MwRow *row, MwRowTable *table, const Datum *key)
{
	ScanKeyData keys[MW_ROW_KEYS];

	row->index = open_index(table, row->rel);
	for (int i = 0; i < table->nkeys; i++)
	{
		table->column[i] = row->index->rd_index->indkey.values[i];
		ScanKeyEntryInitialize(&keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
							   row->index->rd_indcollation[i], table->equal[i], key[i]);
	}
	row->direction = table->backwards ? BackwardScanDirection : ForwardScanDirection;
	row->all_versions = IsolationIsSerializable();
	row->scan = MW_INDEX_BEGINSCAN(row->rel, row->index, row->all_versions ? SnapshotAny : GetActiveSnapshot(), table->nkeys);
	index_rescan(row->scan, keys, table->nkeys, NULL, 0);
}

/* May the role see the row in the slot? */
static bool
passes(const MwRow *row)
{
	ExprContext *econtext;
	bool		passed;

	if (row->policies == NULL)
		return true;
	econtext = CreateStandaloneExprContext();
	econtext->ecxt_scantuple = row->slot;
	passed = ExecQual(row->policies, econtext);
	FreeExprContext(econtext, true);
	return passed;
}

bool
mw_row_next(MwRow *row)
{
	if (row->answer)
		return ++row->at < row->answer->numvals;
	while (row->scan != NULL && index_getnext_slot(row->scan, row->direction, row->slot))
	{
		CHECK_FOR_INTERRUPTS();
		if ((!row->all_versions || table_tuple_satisfies_snapshot(row->rel, row->slot, GetActiveSnapshot())) && passes(row))
			return true;
	}
	return false;
}

bool
mw_row_open(MwRow *row, MwRowTable *table, const Datum *key)
{
	bool		by_statement;
	Place	   *place;
	uint32		name;
	bool		found;

	memset(row, 0, sizeof(*row));
	if (table->as == MW_AS_OWNER)
	{
		row->rel = table_open(find_table(table), AccessShareLock);
		by_statement = mw_tables_spread();
	}
	else
	{
		const View *view;

		if (views == NULL)
			init();
		row->rel = table_open(find_table(table), AccessShareLock);
		view = find_view(table, row->rel);
		row->policies = view->policies;
		by_statement = view->by_statement;
	}
	if (by_statement)
		return ask(row, table, key);

	/* the one of a parallel query, in which no new one may be taken; policies see what the row is seen with */
	PushActiveSnapshot(IsInParallelMode() ? GetActiveSnapshot() : GetLatestSnapshot());
	/* what that sees stood in a page when it was taken: without one no index has to be opened */
	if (table->as == MW_AS_OWNER && RelationGetNumberOfBlocks(row->rel) == 0)
		return false;
	row->slot = table_slot_create(row->rel, NULL);
	place = IsolationIsSerializable() ? NULL : places_of(table, key, &name);
	if (place != NULL && find_again(row, table, place, name, key))
		return passes(row);
	find_by_index(row, table, key);
	found = mw_row_next(row);
	if (found && place != NULL)
		remember(place, name, row->slot);
	return found;
}

Datum
mw_row_get(MwRow *row, AttrNumber column, bool *isnull)
{
	if (row->answer)
		return SPI_getbinval(row->answer->vals[row->at], row->answer->tupdesc, column, isnull);
	return slot_getattr(row->slot, column, isnull);
}

ItemPointer
mw_row_place(MwRow *row)
{
	return row->answer ? NULL : &row->slot->tts_tid;
}

Datum
mw_row_named(MwRow *row, const char *column, bool *isnull)
{
	int			n = SPI_fnumber(RelationGetDescr(row->rel), column);

	if (n <= 0)
		elog(ERROR, "column %s of mw.%s is not there", column, RelationGetRelationName(row->rel));
	return mw_row_get(row, n, isnull);
}

char *
mw_row_text(MwRow *row, const char *column)
{
	bool		isnull;
	Datum		d = mw_row_named(row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(d);
}

TransactionId
mw_row_xmin(MwRow *row)
{
	bool		isnull;

	return DatumGetTransactionId(row->answer ? mw_row_get(row, RelationGetDescr(row->rel)->natts + 1, &isnull) :
								 slot_getsysattr(row->slot, MinTransactionIdAttributeNumber, &isnull));
}

void
mw_row_close(MwRow *row)
{
	/* the locks stay to the end of the transaction, as a statement's do */
	if (row->answer)
		SPI_finish();
	else
	{
		if (row->slot)
			ExecDropSingleTupleTableSlot(row->slot);
		if (row->index)
		{
			index_endscan(row->scan);
			index_close(row->index, NoLock);
		}
		PopActiveSnapshot();
	}
	table_close(row->rel, NoLock);
}
