/*
 * spent.h - what a scope has used: for ever, and in its present minute, hour,
 * day and month.  One arithmetic of windows for the counters in shared memory,
 * for the gateway's kept sums and for the test double's.
 */
#ifndef MW_SPENT_H
#define MW_SPENT_H

#include "mw.h"

#include "access/tupdesc.h"
#include "access/htup.h"

extern const char *const mw_window_names[MW_NWINDOWS];	/* forever, minute, ... */
extern const char *const mw_unit_names[MW_NUNITS];	/* requests, tokens, cost */

/* Now, for budgets; a test build can set it (mw.fault_clock) */
extern TimestampTz mw_calendar_now(void);

/* When the windows of a time zone that hold this moment began */
extern void mw_windows_at(const char *zone, TimestampTz now, MwWhen *when);
/* When a window that began then ends; for ever: DT_NOEND */
extern TimestampTz mw_window_end(MwPeriod w, const char *zone, TimestampTz start);

/*
 * A sum of the window that began at "stored" meets a call that was admitted in
 * the one that began at "mine".  See the design note of spent.c.
 */
typedef enum MwMeeting
{
	MW_MEET_ADD,				/* one window: the sum takes it in and stays that of "stored" */
	MW_MEET_NEW,				/* a new window has begun: the sum begins at 0, with the start of "mine" */
	MW_MEET_BACK,				/* the clock went back: the sum takes it in, with the start of "mine" */
	MW_MEET_LATE				/* its window has ended: it counts for ever, and in no window any more */
} MwMeeting;
extern MwMeeting mw_window_meet(MwPeriod w, TimestampTz stored, TimestampTz mine,
								TimestampTz admitted_at, TimestampTz now);

static inline MwMoney
mw_amount(const MwAmounts *a, MwUnit unit)
{
	return unit == MW_REQUESTS ? a->requests : unit == MW_TOKENS ? a->tokens : a->cost;
}

static inline void
mw_amounts_add(MwAmounts *to, const MwAmounts *a)
{
	to->requests += a->requests;
	to->tokens += a->tokens;
	to->cost += a->cost;
}

static inline void
mw_amounts_subtract(MwAmounts *from, const MwAmounts *a)
{
	from->requests -= a->requests;
	from->tokens -= a->tokens;
	from->cost -= a->cost;
}

static inline bool
mw_amounts_zero(const MwAmounts *a)
{
	return a->requests == 0 && a->tokens == 0 && a->cost == 0;
}

static inline bool
mw_limited(const MwAmounts *limit, MwUnit unit)
{
	return unit == MW_COST ? limit->cost < MW_NO_MONEY_LIMIT : mw_amount(limit, unit) != MW_NO_LIMIT;
}

/* An upper bound of what a call costs: all of the prompt at the dearer price, and all of the answer */
extern MwMoney mw_price_bound(const MwPrice *price, int64 prompt_tokens, int64 answer_tokens);
/* As money, per million tokens: what the ledger keeps */
#define mw_price_per_million(each)	((MwMoney) (each) * 1000000)
/* What usage costs */
extern MwMoney mw_price_of(const MwPrice *price, const MwUsage *usage);

/* A row of mw.spent or mw.fake_spent */
typedef struct MwSpent
{
	TimestampTz first_used_at;	/* DT_NOEND: never */
	TimestampTz start[MW_NWINDOWS];	/* of the window that the sum is of; DT_NOBEGIN: none yet */
	MwAmounts	used[MW_NWINDOWS];
	MwAmounts	excess;			/* billed above what had been reserved (no requests) */
	TimestampTz set_back_until; /* the clock was set back from before then, over a whole window; DT_NOBEGIN: never */
} MwSpent;

extern void mw_spent_init(MwSpent *s);
extern void mw_spent_add(MwSpent *s, const MwAmounts *used, const MwAmounts *excess, const MwWhen *when, TimestampTz now);
/* MW_MEET_BACK: the sum of a window goes back with the clock */
extern void mw_spent_set_back(MwSpent *s, MwPeriod w, TimestampTz start);
/* What counts in the window that began at when->start[w] */
extern MwAmounts mw_spent_in(const MwSpent *s, MwPeriod w, const MwWhen *when);

/* Has what was added taken one of these sums over its soft limit?  Once a crossing: the next one finds it above. */
extern bool mw_spent_crosses(const MwSpent *before, const MwSpent *after, const MwAmounts *soft);
/* What a listener of the tenant's channel gets: a kind, and the run that crossed it */
extern char *mw_crossing_payload(const pg_uuid_t *run_id);

/* Its columns in their order, the parameters $3 and on for them in a statement, and both ways between row and struct */
#define MW_SPENT_COLUMNS \
	"requests, tokens, cost, excess_tokens, excess_cost, first_used_at, " \
	"minute_start, minute_requests, minute_tokens, minute_cost, hour_start, hour_requests, hour_tokens, hour_cost, " \
	"day_start, day_requests, day_tokens, day_cost, month_start, month_requests, month_tokens, month_cost, set_back_until"
#define MW_SPENT_NCOLUMNS 23
#define MW_SPENT_PARAMETERS \
	"$3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25"
#define MW_SPENT_TYPES \
	INT8OID, INT8OID, NUMERICOID, INT8OID, NUMERICOID, TIMESTAMPTZOID, \
	TIMESTAMPTZOID, INT8OID, INT8OID, NUMERICOID, TIMESTAMPTZOID, INT8OID, INT8OID, NUMERICOID, \
	TIMESTAMPTZOID, INT8OID, INT8OID, NUMERICOID, TIMESTAMPTZOID, INT8OID, INT8OID, NUMERICOID, TIMESTAMPTZOID
extern void mw_spent_from_row(MwSpent *s, HeapTuple row, TupleDesc desc);	/* of MW_SPENT_COLUMNS alone */
extern void mw_spent_from_values(MwSpent *s, const Datum *values);
extern void mw_spent_to_values(const MwSpent *s, Datum *values);	/* MW_SPENT_NCOLUMNS of them */

#endif
