/*
 * table.h - rows of tables of mw's, written without a statement.
 */
#ifndef MW_TABLE_H
#define MW_TABLE_H

#include "mw.h"

#include "storage/itemptr.h"

#include "util/spi.h"

#define MW_TABLE_KEYS		4
#define MW_TABLE_COLUMNS	40

/* A table of schema mw: static storage, one for each.  Its key is its first columns. */
typedef struct MwTable
{
	const char *name;
	int			nkeys;
	RegProcedure equal[MW_TABLE_KEYS];	/* F_TEXTEQ, ... */
	int			ncolumns;
	const char *columns[MW_TABLE_COLUMNS];	/* all of them, in their order */
	uint64		stays;			/* columns that mw_table_put leaves as they were first written, 1 << place */

	/* table.c's */
	struct MwOpenTable *open;
	MwStmt		put;			/* of callers, where a statement is needed; sql NULL: not yet made */
} MwTable;

/* ---------- the gateway's ---------- */

/*
 * All inside a transaction with an active snapshot, connected to SPI, as a
 * superuser.  Values are in the order of the columns.  What is written is seen by
 * the next of these calls.  Raise what the server raises, and where the extension
 * is gone.
 */

/* InvalidOid: it is not there.  Another one than before belongs to another CREATE EXTENSION. */
extern Oid	mw_table_oid(const MwTable *table);

/*
 * The row with this key; false: there is none.  "at" says where it was last, as
 * far as that is known (NULL: it is not).  What values point to lives until the
 * next call for this table; NULL, with nulls, where nobody wants to read them.
 */
extern bool mw_table_find(MwTable *table, const Datum *key, ItemPointer at, Datum *values, bool *nulls);
/* Both return where the row lies now */
extern ItemPointerData mw_table_insert(MwTable *table, Datum *values, bool *nulls);
/* Writes the row anew that mw_table_find, the last call for this table, has found; the key stays */
extern ItemPointerData mw_table_update(MwTable *table, Datum *values, bool *nulls);

/* ---------- callers' ---------- */

/*
 * Inside a transaction with an active snapshot, by whoever may act for the tenant
 * (mw_require_may_act): written as the extension's owner.  No two transactions
 * write rows of one key at a time, which their callers see to.  A table belongs to
 * the gateway or to callers, whose rows are all added or all put.
 */

/* n new rows, one after another in values and nulls */
extern void mw_table_add(MwTable *table, int n, Datum *values, bool *nulls);
/* The row of this key anew, but for what stays; or a new one */
extern void mw_table_put(MwTable *table, Datum *values, bool *nulls);

#endif
