/*
 * spi.h - mw's own SQL: saved plans, whose role, which snapshot.
 *
 * Reading as the caller, writing as the owner.  A plan is kept per statement
 * and role (a role flip would replan it).  All of mw's own statements run under
 * a pinned search_path and row_security = on, whatever the caller set.
 */
#ifndef MW_SPI_H
#define MW_SPI_H

#include "mw.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/snapshot.h"

typedef enum MwAs
{
	MW_AS_CALLER,				/* row-level security of the current role */
	MW_AS_OWNER					/* the extension's owner, restricted operation */
} MwAs;

/* A statement of ours: static storage, one per call site.  types: InvalidOid-free array of nargs. */
typedef struct MwStmt
{
	const char *sql;
	int			nargs;
	Oid			types[25];
	bool		by_index;		/* never by reading the whole table, however small, whoever asks */
} MwStmt;

/*
 * Run inside SPI_connect/SPI_finish made by this function's caller.
 * read: uses the latest snapshot whatever the isolation level (a row that
 * committed during this statement is seen).  write: not read-only, as owner
 * mostly; advances the command counter.  Both return SPI's processed count,
 * rows in SPI_tuptable, and raise on error.
 */
extern uint64 mw_spi_read(MwStmt *stmt, MwAs as, Datum *values, const char *nulls, long limit);
extern uint64 mw_spi_write(MwStmt *stmt, MwAs as, Datum *values, const char *nulls);

/* A parameter that is NULL where there is nothing: its value, and its mark in nulls */
static inline Datum
mw_spi_text(const char *s, char *null)
{
	*null = s ? ' ' : 'n';
	return s ? CStringGetTextDatum(s) : (Datum) 0;
}

static inline Datum
mw_spi_jsonb(Jsonb *jb, char *null)
{
	*null = jb ? ' ' : 'n';
	return jb ? JsonbPGetDatum(jb) : (Datum) 0;
}

/* The same for a column of a row that is handed out */
static inline Datum
mw_out_text(const char *s, bool *null)
{
	*null = s == NULL;
	return s ? CStringGetTextDatum(s) : (Datum) 0;
}

/*
 * Statements of ours that run now, one inside another; an ERROR leaves the
 * number too high until the transaction ends, so compare with what it was.
 */
extern int	mw_spi_depth;

/*
 * Row policies filter, whatever the caller set, until the level that is returned
 * (the given one, or if that is 0 a new one) is ended by AtEOXact_GUC; 0: nothing to end
 */
extern int	mw_row_security_on(int level);

/* Owner of the extension; its schema ("public"), quoted; raises MW001 where it is not installed */
extern Oid	mw_extension_owner(void);
extern const char *mw_extension_schema(void);

/* Until the transaction ends: calls hold the extension together, whoever drops it alone */
extern void mw_extension_hold(void);
extern void mw_extension_claim(void);

/* Whether tables may be spread over machines (Citus): then this one's heap does not hold what they hold */
extern bool mw_tables_spread(void);

/* Switch to the owner, or to another role, (restricted) and back; an ERROR unwinds it with the (sub)transaction. */
typedef struct MwRoleSave
{
	Oid			userid;
	int			sec;
	int			guc_level;
} MwRoleSave;
extern void mw_become_owner(MwRoleSave *save);
extern void mw_become_role(Oid role, MwRoleSave *save);
extern void mw_become_caller(const MwRoleSave *save);

#endif
