/*
 * counters.h - settled and reserved, in shared memory: budgets exact under any
 * concurrency without a row lock.
 */
#ifndef MW_COUNTERS_H
#define MW_COUNTERS_H

#include "mw.h"

/* Hits booked at once, while plenty is left: one durable write instead of many */
#define MW_HIT_BLOCK 16

typedef enum MwAdmission
{
	MW_ADMITTED,
	MW_HITS_ONLY,				/* requests are used up but for hits that were booked in advance */
	MW_REFUSED,
	MW_NOT_LOADED				/* ask the gateway to load, then again */
} MwAdmission;

typedef struct MwFigures		/* of the scope that refused */
{
	int			scope;
	const char *unit;
	int64		settled;
	int64		reserved;
	int64		tokens_left;
} MwFigures;

extern void mw_counters_shmem_request(void);
extern void mw_counters_shmem_startup(void);

/* Admit in all scopes or in none */
extern MwAdmission mw_counters_reserve(MwReservation *r, MwFigures *why);
/* Figures without reserving, for mw_explain: false when not loaded */
extern bool mw_counters_peek(const MwKey *key, int64 *settled_tokens, int64 *reserved_tokens,
							 int64 *settled_requests, int64 *reserved_requests);
/* Move amounts: what is no longer reserved in the limited scopes, and what was spent, in all */
extern void mw_counters_settle(const MwKey *keys, const bool *limited, int n,
							   int64 unreserve_tokens, int64 unreserve_requests,
							   int64 spent_tokens, int64 spent_requests);
/* One hit out of those booked in advance in every scope; false when one has none */
extern bool mw_counters_take_hit(const MwKey *keys, int n);
/*
 * Booking hits ahead: hold reserves what a block takes beyond the caller's own
 * request and says how many that makes, 0 more where little is left; booked
 * makes all of them settled, after their commit, and leaves the extra ones to be
 * taken; unhold gives them back where there was none.
 */
extern int64 mw_counters_hold_block(const MwKey *keys, const double *limits, int n);
extern void mw_counters_unhold_block(const MwKey *keys, int n, int64 extra);
extern void mw_counters_booked(const MwKey *keys, int n, int64 extra);

/* The gateway puts a scope in with its kept sums (no change where it is in); false when there is no room */
extern bool mw_counters_load(const MwKey *key, Oid db, int64 tokens, int64 requests);
extern bool mw_counters_loaded(const MwKey *key);
/* Forget a database's scopes in which nothing is reserved (it was dropped, or its tenant was) */
extern void mw_counters_forget(Oid db);

/* All of a database's counters, for mw_check (in the current memory context) */
typedef struct MwCounterRow
{
	MwKey		key;			/* must be first */
	int64		settled_tokens;
	int64		reserved_tokens;
	int64		settled_requests;
	int64		reserved_requests;
	bool		named;			/* for the reader's use */
} MwCounterRow;
extern MwCounterRow *mw_counters_dump(Oid db, int *n);

#endif
