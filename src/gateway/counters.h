/*
 * counters.h - settled and reserved, in shared memory: budgets exact under any
 * concurrency without a row lock.
 */
#ifndef MW_COUNTERS_H
#define MW_COUNTERS_H

#include "mw.h"
#include "gateway/spent.h"

/* Hits booked at once, while plenty is left: one durable write instead of many */
#define MW_HIT_BLOCK 16

typedef enum MwAdmission
{
	MW_ADMITTED,
	MW_HITS_ONLY,				/* requests are used up but for hits that were booked in advance */
	MW_REFUSED,
	MW_NOT_LOADED				/* ask the gateway to load, then again */
} MwAdmission;

/* The limit that refused */
typedef struct MwRefusal
{
	int			scope;
	MwPeriod	window;
	MwUnit		unit;
	MwMoney		limit;
	MwMoney		settled;
	MwMoney		reserved;
	int64		answer_left;	/* tokens of an answer that would fit in all limits; -1: none would help */
} MwRefusal;

extern void mw_counters_shmem_request(void);
extern void mw_counters_shmem_startup(void);

/*
 * Does "wanted" fit under what stands in a limit?  False fills why; of several
 * that are short the one that leaves the least (the first call clears why with
 * mw_refusal_none).  For the counters and for the test double.
 */
extern void mw_refusal_none(MwRefusal *why);
extern void mw_refusal_check(MwRefusal *why, const MwReservation *r, int scope, MwPeriod w,
							 const MwAmounts *settled, const MwAmounts *reserved);
#define mw_refused(why)	((why)->scope >= 0)

/* What a reservation of so many tokens asks for, in each unit */
extern void mw_reservation_ask(MwReservation *r, int64 prompt_tokens, int64 answer_tokens);

/* Admit in all limits of all scopes or in none */
extern MwAdmission mw_counters_reserve(MwReservation *r, MwRefusal *why);
/* A call of these windows is about to leave: those that are new begin, limited or not */
extern void mw_counters_begin(const MwHold *hold, const MwWhen *when, TimestampTz now);

/*
 * Move amounts: "unreserve" is no longer reserved where hold reserved it,
 * "spent" was spent in the windows of "when", limited or not.  NULL: nothing.
 */
extern void mw_counters_settle(const MwHold *hold, const MwAmounts *unreserve,
							   const MwAmounts *spent, const MwWhen *when, TimestampTz now);
/* What is settled of a scope in the windows of "when"; zero where it is not in memory */
extern void mw_counters_used(const MwKey *key, const MwWhen *when, MwAmounts *used);
/* One hit out of those booked in advance in every scope; false when one has none */
extern bool mw_counters_take_hit(const MwKey *keys, int n);
/*
 * Booking hits ahead: hold reserves what a block takes beyond the caller's own
 * request and says how many that makes, 0 more where little is left; booked
 * leaves the extra ones, which are settled by now, to be taken; unhold gives
 * them back where there was none.
 */
extern int64 mw_counters_hold_block(const MwKey *key, int64 limit);
extern void mw_counters_unhold_block(const MwKey *key, int64 extra);
extern void mw_counters_booked(const MwKey *key, int64 extra);

/*
 * The gateway puts a scope in with its kept sums; false when there is no room.
 * Where it is in, only those of the windows that are asked for change whose sums go back with the clock.
 */
extern bool mw_counters_load(const MwKey *key, Oid db, const MwSpent *spent,
							 uint8 windows, const MwWhen *when, TimestampTz now);
/* Forget a database's scopes in which nothing is reserved (it was dropped, or its tenant was) */
extern void mw_counters_forget(Oid db);

/* All of a database's counters, for mw_check (in the current memory context) */
typedef struct MwCounterRow
{
	MwKey		key;			/* must be first */
	TimestampTz start[MW_NWINDOWS];
	MwAmounts	settled[MW_NWINDOWS];
	MwAmounts	reserved[MW_NWINDOWS];
	bool		named;			/* for the reader's use */
} MwCounterRow;
extern MwCounterRow *mw_counters_dump(Oid db, int *n);

#endif
