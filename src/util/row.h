/*
 * row.h - one row by its primary key, read as the calling role.
 */
#ifndef MW_ROW_H
#define MW_ROW_H

#include "mw.h"

#include "access/genam.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "util/spi.h"

#define MW_ROW_KEYS 4

/* A table of schema mw: static storage, one for each that is read this way */
typedef struct MwRowTable
{
	const char *name;
	int			nkeys;
	RegProcedure equal[MW_ROW_KEYS];	/* of the primary key's columns: F_TEXTEQ, ... */
	bool		by_hash;		/* the last of them is a hash, 8 bytes of bytea or more: rows are looked for where they were */

	/* row.c's */
	Oid			relid;
	uint64		generation;		/* that relid was found in */
	AttrNumber	column[MW_ROW_KEYS];	/* of the primary key; [0] invalid: not yet known */
	MwStmt		stmt;			/* asks for the row where it cannot be fetched; sql NULL: not yet made */
} MwRowTable;

/* A row that is being looked at */
typedef struct MwRow
{
	Relation	rel;
	Relation	index;			/* NULL where the row was found without it ... */
	IndexScanDesc scan;			/* ... and no scan then */
	TupleTableSlot *slot;
	SPITupleTable *answer;		/* where a statement asked for it: no index, scan and slot then */
} MwRow;

/*
 * The row that the calling role may see, or false.  What mw_row_get gives lives
 * until mw_row_close, which comes in either case; an error in between cleans up
 * as for any query.
 */
extern bool mw_row_open(MwRow *row, MwRowTable *table, const Datum *key);
extern Datum mw_row_get(MwRow *row, AttrNumber column, bool *isnull);
extern void mw_row_close(MwRow *row);

#endif
