/*
 * row.h - rows by an index, read as the current role or as the owner.
 */
#ifndef MW_ROW_H
#define MW_ROW_H

#include "mw.h"

#include "access/genam.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "util/spi.h"

#define MW_ROW_KEYS 4

/* A way to read a table of schema mw: static storage, one for each */
typedef struct MwRowTable
{
	const char *name;
	const char *index;			/* that finds them; NULL: the primary key's */
	int			nkeys;			/* its first columns, of which values are given */
	RegProcedure equal[MW_ROW_KEYS];	/* of these columns: F_TEXTEQ, ... */
	MwAs		as;				/* the owner sees all rows */
	const char *where;			/* of a partial index: its condition */
	bool		backwards;		/* in the reverse order of the index */
	bool		by_hash;		/* the last of them is a hash, 8 bytes of bytea or more: rows are looked for where they were */

	/* row.c's */
	Oid			relid;
	uint64		generation;		/* that relid was found in */
	AttrNumber	column[MW_ROW_KEYS];	/* of the key; [0] invalid: not yet known */
	MwStmt		stmt;			/* asks for the row where it cannot be fetched; sql NULL: not yet made */
} MwRowTable;

/* A row that is being looked at */
typedef struct MwRow
{
	Relation	rel;
	Relation	index;			/* NULL where the row was found without it ... */
	IndexScanDesc scan;			/* ... and no scan then */
	TupleTableSlot *slot;
	ExprState  *policies;		/* NULL: every row */
	ScanDirection direction;
	bool		all_versions;	/* are fetched, of which the visible one counts */
	SPITupleTable *answer;		/* where a statement asked for it: no index, scan and slot then ... */
	uint64		at;				/* ... but this row of it */
} MwRow;

/*
 * The first row that the current role may see (or the owner), or false.  What mw_row_get gives
 * lives until the next row, or mw_row_close, which comes in either case; an error
 * in between cleans up as for any query.
 */
extern bool mw_row_open(MwRow *row, MwRowTable *table, const Datum *key);
/* The next one, where the key is not a whole one, or not of one row */
extern bool mw_row_next(MwRow *row);
extern Datum mw_row_get(MwRow *row, AttrNumber column, bool *isnull);
/* Where it lies, for as long as nobody else writes it; NULL where a statement asked for it */
extern ItemPointer mw_row_place(MwRow *row);
/* The same by the column's name, which costs a look over the names; a text is palloc'd, NULL for NULL */
extern Datum mw_row_named(MwRow *row, const char *column, bool *isnull);
extern char *mw_row_text(MwRow *row, const char *column);
extern TransactionId mw_row_xmin(MwRow *row);
extern void mw_row_close(MwRow *row);

#endif
