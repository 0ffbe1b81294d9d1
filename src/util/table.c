/*
 * table.c - rows of tables of mw's, written without a statement.
 *
 * An outcome changes five rows, each of them by its primary key.  As statements
 * they were two fifths of the gateway's time, and nearly all of that was setting
 * up the executor for one row and taking it down again; what a run of an agent
 * leaves was a third of its time for the same reason.  So rows are found by
 * the index and written as a subscriber of logical replication writes them
 * (ExecSimpleRelationInsert, ExecSimpleRelationUpdate): with the indexes, the
 * constraints and the WAL of any other row.
 *
 * What is seen is whatever has committed and what this transaction has done: the
 * gateway alone writes its tables, one row after another, and rows of a session
 * are written under its lock (policy/session_lock.c), so there is nobody whose
 * changes a snapshot would have to keep apart.
 *
 * A table that is not as our install script made it is written by statements: one
 * with triggers or rules, with other columns, of another access method, or in a database with Citus, where
 * what this machine's heap holds is not what the table holds.
 *
 * The gateway opens a table at its first use in a transaction and closes it by the
 * commit; a caller, whose transaction may have subtransactions, each time.
 * What the executor has to know of it and of its indexes is kept until the table
 * changes, or a transaction is aborted, in the middle of whose work it may have been.
 */
#include "mw.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "util/spi.h"
#include "util/table.h"

#define MAX_TABLES 8

typedef struct MwOpenTable
{
	MemoryContext cxt;			/* this and all that it points to */
	Oid			relid;
	bool		stale;			/* the table has changed since */
	bool		by_statement;
	SPIPlanPtr	find;
	SPIPlanPtr	insert;
	SPIPlanPtr	update;

	/* in this transaction; NULL: not opened */
	Relation	rel;

	/* where no statement is needed */
	EState	   *estate;
	ResultRelInfo *info;		/* its relations are those of this transaction */
	Oid		   *indexes;
	int			key;			/* which of them is the primary key's */
	TupleTableSlot *found;
	TupleTableSlot *made;
} MwOpenTable;

static MwTable *tables[MAX_TABLES];
static int	ntables;

static MwTable *writing;		/* a caller's, while it is open; NULL ... */
static int	writing_level;		/* ... opened in this (sub)transaction */

/* ---------- what has changed ---------- */

static void
relation_changed(Datum arg, Oid relid)
{
	for (int i = 0; i < ntables; i++)
	{
		MwOpenTable *t = tables[i]->open;

		if (t != NULL && (relid == InvalidOid || relid == t->relid))
			t->stale = true;
	}
}

static void
forget(MwTable *table)
{
	MwOpenTable *t = table->open;

	table->open = NULL;
	if (t->find != NULL)
		SPI_freeplan(t->find);
	if (t->insert != NULL)
		SPI_freeplan(t->insert);
	if (t->update != NULL)
		SPI_freeplan(t->update);
	MemoryContextDelete(t->cxt);
}

static void
close_relations(MwOpenTable *t)
{
	if (!t->by_statement)
	{
		ExecClearTuple(t->found);
		for (int i = 0; i < t->info->ri_NumIndices; i++)
			index_close(t->info->ri_IndexRelationDescs[i], NoLock);
	}
	table_close(t->rel, NoLock);
	t->rel = NULL;
}

static void
transaction_ends(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_ABORT)
		return;
	writing = NULL;
	for (int i = 0; i < ntables; i++)
	{
		MwOpenTable *t = tables[i]->open;

		if (t == NULL || t->rel == NULL)
			continue;
		if (event == XACT_EVENT_PRE_COMMIT)
			close_relations(t);
		else
			forget(tables[i]);
	}
}

/* An ERROR left it open: its relations go with the subtransaction */
static void
subtransaction_ends(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && writing != NULL && GetCurrentTransactionNestLevel() <= writing_level)
	{
		forget(writing);
		writing = NULL;
	}
}

/* ---------- opening ---------- */

/* Is it as our install script made it, or with more indexes of the same kind? */
static bool
is_ours(const MwTable *table, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ListCell   *lc;
	bool		ours;

	ours = rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_rel->relam == HEAP_TABLE_AM_OID && rel->trigdesc == NULL && rel->rd_rules == NULL &&
		desc->natts == table->ncolumns && (desc->constr == NULL || !desc->constr->has_generated_stored);
	for (int i = 0; ours && i < desc->natts; i++)
		ours = strcmp(NameStr(TupleDescAttr(desc, i)->attname), table->columns[i]) == 0;
	foreach(lc, ours ? RelationGetIndexList(rel) : NIL)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		ours &= index->rd_rel->relam == BTREE_AM_OID && RelationGetIndexExpressions(index) == NIL;
		index_close(index, NoLock);
	}
	return ours && OidIsValid(MW_PRIMARY_KEY_INDEX(rel)) && !mw_tables_spread();
}

/* What the executor has to know, but for the relations themselves */
static void
prepare(MwOpenTable *t)
{
	TupleDesc	desc = CreateTupleDescCopyConstr(RelationGetDescr(t->rel));
	List	   *indexes = RelationGetIndexList(t->rel);
	int			n = 0;
	ListCell   *lc;

	t->estate = CreateExecutorState();
	t->info = makeNode(ResultRelInfo);
	InitResultRelInfo(t->info, t->rel, 0, NULL, 0);
	t->info->ri_NumIndices = list_length(indexes);
	t->info->ri_IndexRelationDescs = palloc0(list_length(indexes) * sizeof(Relation));
	t->info->ri_IndexRelationInfo = palloc0(list_length(indexes) * sizeof(IndexInfo *));
	t->indexes = palloc(list_length(indexes) * sizeof(Oid));
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), RowExclusiveLock);

		t->info->ri_IndexRelationInfo[n] = BuildIndexInfo(index);
		t->indexes[n] = lfirst_oid(lc);
		if (lfirst_oid(lc) == MW_PRIMARY_KEY_INDEX(t->rel))
			t->key = n;
		index_close(index, NoLock);
		n++;
	}
	t->found = MakeSingleTupleTableSlot(desc, table_slot_callbacks(t->rel));
	t->made = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
}

/* In memory of its own; an error on the way leaves nothing behind */
static MwOpenTable *
make(const MwTable *table, Relation rel)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw table", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MwOpenTable *t = palloc0(sizeof(MwOpenTable));

	t->cxt = cxt;
	t->relid = RelationGetRelid(rel);
	t->rel = rel;
	t->by_statement = !is_ours(table, rel);
	if (!t->by_statement)
		prepare(t);
	t->rel = NULL;
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(cxt, TopMemoryContext);
	return t;
}

/* Once a table: from here on it hears of changes */
static void
enlist(MwTable *table)
{
	for (int i = 0; i < ntables; i++)
		if (tables[i] == table)
			return;
	if (ntables == 0)
	{
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
		RegisterXactCallback(transaction_ends, NULL);
		RegisterSubXactCallback(subtransaction_ends, NULL);
	}
	Assert(ntables < MAX_TABLES);
	tables[ntables++] = table;
}

Oid
mw_table_oid(const MwTable *table)
{
	if (table->open != NULL && !table->open->stale)
		return table->open->relid;
	return get_relname_relid(table->name, get_namespace_oid("mw", false));
}

static MwOpenTable *
open_table(MwTable *table)
{
	MwOpenTable *t = table->open;
	Relation	rel;
	Oid			relid;

	if (t != NULL && t->rel != NULL)
		return t;
	enlist(table);

	/* changes are heard of when a transaction begins and when a lock is taken; none that matters comes under it */
	relid = mw_table_oid(table);
	if (!OidIsValid(relid))
		elog(ERROR, "extension mw is not there any more");
	rel = table_open(relid, RowExclusiveLock);
	t = table->open;
	if (t != NULL && (t->stale || t->relid != relid))
	{
		forget(table);
		t = NULL;
	}
	if (t == NULL)
		t = table->open = make(table, rel);

	if (!t->by_statement)
	{
		t->info->ri_RelationDesc = rel;
		for (int i = 0; i < t->info->ri_NumIndices; i++)
			t->info->ri_IndexRelationDescs[i] = index_open(t->indexes[i], RowExclusiveLock);
	}
	t->rel = rel;
	return t;
}

/* ---------- by a statement ---------- */

static char *
names(const MwTable *table)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < table->ncolumns; i++)
		appendStringInfo(&s, "%s%s", i ? ", " : "", quote_identifier(table->columns[i]));
	return s.data;
}

static char *
parameters(const MwTable *table)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < table->ncolumns; i++)
		appendStringInfo(&s, "%s$%d", i ? ", " : "", i + 1);
	return s.data;
}

static char *
condition(const MwTable *table)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < table->nkeys; i++)
		appendStringInfo(&s, "%s%s = $%d", i ? " AND " : " WHERE ", quote_identifier(table->columns[i]), i + 1);
	return s.data;
}

static uint64
run(const MwTable *table, SPIPlanPtr *plan, const char *sql, int nargs, Datum *values, const bool *nulls)
{
	char		null[MW_TABLE_COLUMNS];
	int			rc;

	if (*plan == NULL)
	{
		TupleDesc	desc = RelationGetDescr(table->open->rel);
		Oid			types[MW_TABLE_COLUMNS];
		SPIPlanPtr	made;

		for (int i = 0; i < nargs; i++)
		{
			int			column = SPI_fnumber(desc, table->columns[i]);

			if (column <= 0)
				elog(ERROR, "table mw.%s has no column \"%s\"", table->name, table->columns[i]);
			types[i] = SPI_gettypeid(desc, column);
		}
		made = SPI_prepare(sql, nargs, types);
		if (made == NULL || SPI_keepplan(made) != 0)
			elog(ERROR, "could not prepare a statement of the gateway: %s", SPI_result_code_string(SPI_result));
		*plan = made;
	}
	for (int i = 0; i < nargs; i++)
		null[i] = nulls != NULL && nulls[i] ? 'n' : ' ';
	rc = SPI_execute_plan(*plan, values, null, false, 0);
	if (rc < 0)
		elog(ERROR, "a statement of the gateway failed: %s", SPI_result_code_string(rc));
	return SPI_processed;
}

/* ---------- rows ---------- */

/* Is the row in t->found the one with this key? */
static bool
has_key(const MwTable *table, MwOpenTable *t, const Datum *key)
{
	const IndexInfo *index = t->info->ri_IndexRelationInfo[t->key];

	slot_getsomeattrs(t->found, table->nkeys);
	for (int i = 0; i < table->nkeys; i++)
	{
		Form_pg_attribute a = TupleDescAttr(t->found->tts_tupleDescriptor, index->ii_IndexAttrNumbers[i] - 1);

		if (!datum_image_eq(t->found->tts_values[i], key[i], a->attbyval, a->attlen))
			return false;
	}
	return true;
}

/*
 * What its updates left behind on the page goes first, as it does wherever the server comes by an index: a row that every
 * call changes (mw.spent) would else fill page after page, until VACUUM comes.
 */
static bool
find_at(const MwTable *table, MwOpenTable *t, const Datum *key, ItemPointer at)
{
	Buffer		page;
	bool		found;

	if (at == NULL || !ItemPointerIsValid(at) ||
		ItemPointerGetBlockNumberNoCheck(at) >= RelationGetNumberOfBlocks(t->rel))
		return false;
	page = ReadBuffer(t->rel, ItemPointerGetBlockNumberNoCheck(at));
	heap_page_prune_opt(t->rel, page);
	found = table_tuple_fetch_row_version(t->rel, at, SnapshotSelf, t->found) && has_key(table, t, key);
	ReleaseBuffer(page);
	return found;
}

static bool
find_by_index(const MwTable *table, MwOpenTable *t, const Datum *key)
{
	Relation	index = t->info->ri_IndexRelationDescs[t->key];
	ScanKeyData keys[MW_TABLE_KEYS];
	IndexScanDesc scan;
	bool		found;

	for (int i = 0; i < table->nkeys; i++)
		ScanKeyEntryInitialize(&keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
							   index->rd_indcollation[i], table->equal[i], key[i]);
	scan = MW_INDEX_BEGINSCAN(t->rel, index, SnapshotSelf, table->nkeys);
	index_rescan(scan, keys, table->nkeys, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, t->found);
	index_endscan(scan);		/* the slot has a pin of its own */
	return found;
}

bool
mw_table_find(MwTable *table, const Datum *key, ItemPointer at, Datum *values, bool *nulls)
{
	MwOpenTable *t = open_table(table);

	if (t->by_statement)
	{
		if (run(table, &t->find, psprintf("SELECT %s FROM mw.%s%s", names(table), table->name, condition(table)),
				table->nkeys, unconstify(Datum *, key), NULL) == 0)
			return false;
		if (values != NULL)
			heap_deform_tuple(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, values, nulls);
		return true;
	}
	if (!find_at(table, t, key, at) && !find_by_index(table, t, key))
		return false;
	if (values == NULL)
		return true;
	slot_getallattrs(t->found);
	memcpy(values, t->found->tts_values, table->ncolumns * sizeof(Datum));
	memcpy(nulls, t->found->tts_isnull, table->ncolumns * sizeof(bool));
	return true;
}

/* What is to be written, as a row of the table */
static void
make_row(const MwTable *table, MwOpenTable *t, const Datum *values, const bool *nulls)
{
	ExecClearTuple(t->made);
	memcpy(t->made->tts_values, values, table->ncolumns * sizeof(Datum));
	memcpy(t->made->tts_isnull, nulls, table->ncolumns * sizeof(bool));
	ExecStoreVirtualTuple(t->made);
	t->estate->es_snapshot = GetActiveSnapshot();
}

/* The next one sees it */
static ItemPointerData
written(MwOpenTable *t)
{
	ItemPointerData at = t->made->tts_tid;

	ExecClearTuple(t->made);
	ExecClearTuple(t->found);
	ResetPerTupleExprContext(t->estate);
	CommandCounterIncrement();
	return at;
}

ItemPointerData
mw_table_insert(MwTable *table, Datum *values, bool *nulls)
{
	static const ItemPointerData nowhere;
	MwOpenTable *t = open_table(table);

	if (t->by_statement)
	{
		run(table, &t->insert, psprintf("INSERT INTO mw.%s (%s) VALUES (%s)", table->name, names(table), parameters(table)),
			table->ncolumns, values, nulls);
		return nowhere;
	}
	make_row(table, t, values, nulls);
	ExecSimpleRelationInsert(t->info, t->estate, t->made);
	return written(t);
}

ItemPointerData
mw_table_update(MwTable *table, Datum *values, bool *nulls)
{
	static const ItemPointerData nowhere;
	MwOpenTable *t = open_table(table);

	if (t->by_statement)
	{
		run(table, &t->update, psprintf("UPDATE mw.%s SET (%s) = ROW(%s)%s", table->name, names(table), parameters(table), condition(table)),
			table->ncolumns, values, nulls);
		return nowhere;
	}
	Assert(!TTS_EMPTY(t->found));
	make_row(table, t, values, nulls);
	ExecSimpleRelationUpdate(t->info, t->estate, NULL, t->found, t->made);
	return written(t);
}

/* ---------- rows of callers ---------- */

/* An INSERT; anew: that writes a row of the same key anew, but for what stays */
static void
make_statement(MwTable *table, Relation rel, bool anew)
{
	TupleDesc	desc = RelationGetDescr(rel);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "INSERT INTO mw.%s (%s) VALUES (%s)", table->name, names(table), parameters(table));
	for (int i = 0; anew && i < table->nkeys; i++)
		appendStringInfo(&sql, "%s%s", i ? ", " : " ON CONFLICT (", quote_identifier(table->columns[i]));
	for (int i = table->nkeys, n = 0; anew && i < table->ncolumns; i++)
		if (!(table->stays & UINT64CONST(1) << i))
			appendStringInfo(&sql, "%s%s = excluded.%s", n++ ? ", " : ") DO UPDATE SET ", quote_identifier(table->columns[i]), quote_identifier(table->columns[i]));
	for (int i = 0; i < table->ncolumns; i++)
	{
		int			column = SPI_fnumber(desc, table->columns[i]);

		if (column <= 0)
			elog(ERROR, "table mw.%s has no column \"%s\"", table->name, table->columns[i]);
		table->put.types[i] = SPI_gettypeid(desc, column);
	}
	table->put.nargs = table->ncolumns;
	table->put.sql = MemoryContextStrdup(TopMemoryContext, sql.data);
}

/* For one batch; NULL where a statement is needed, which may run anything and so finds the table closed */
static MwOpenTable *
open_by_caller(MwTable *table, bool anew)
{
	MwOpenTable *t = open_table(table);
	const TupleConstr *constr = RelationGetDescr(t->rel)->constr;

	if (!t->by_statement && (constr == NULL || constr->num_check == 0))
	{
		writing = table;
		writing_level = GetCurrentTransactionNestLevel();
		return t;
	}
	if (table->put.sql == NULL)
		make_statement(table, t->rel, anew);
	close_relations(t);
	return NULL;
}

static void
close_by_caller(MwOpenTable *t)
{
	close_relations(t);
	writing = NULL;
}

static void
put_by_statement(MwTable *table, Datum *values, const bool *nulls)
{
	char		null[MW_TABLE_COLUMNS];

	for (int i = 0; i < table->ncolumns; i++)
		null[i] = nulls[i] ? 'n' : ' ';
	SPI_connect();
	(void) mw_spi_write(&table->put, MW_AS_OWNER, values, null);
	SPI_finish();
}

void
mw_table_add(MwTable *table, int n, Datum *values, bool *nulls)
{
	MwOpenTable *t = open_by_caller(table, false);

	for (int i = 0; i < n; i++, values += table->ncolumns, nulls += table->ncolumns)
	{
		if (t == NULL)
		{
			put_by_statement(table, values, nulls);
			continue;
		}
		make_row(table, t, values, nulls);
		ExecSimpleRelationInsert(t->info, t->estate, t->made);
		(void) written(t);
	}
	if (t != NULL)
		close_by_caller(t);
}

void
mw_table_put(MwTable *table, Datum *values, bool *nulls)
{
	MwOpenTable *t = open_by_caller(table, true);

	if (t == NULL)
	{
		put_by_statement(table, values, nulls);
		return;
	}
	if (find_by_index(table, t, values))
	{
		slot_getallattrs(t->found);
		for (int i = table->nkeys; i < table->ncolumns; i++)
			if (table->stays & UINT64CONST(1) << i)
			{
				values[i] = t->found->tts_values[i];
				nulls[i] = t->found->tts_isnull[i];
			}
		make_row(table, t, values, nulls);
		ExecSimpleRelationUpdate(t->info, t->estate, NULL, t->found, t->made);
	}
	else
	{
		make_row(table, t, values, nulls);
		ExecSimpleRelationInsert(t->info, t->estate, t->made);
	}
	(void) written(t);
	close_by_caller(t);
}
