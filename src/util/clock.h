/*
 * clock.h - the clock that waits and deadlines go by.
 *
 * The wall clock is set: by NTP, by an administrator, by a machine that wakes up.
 * A deadline kept in it comes early or never.  So whatever says "in so many
 * milliseconds" is an MwInstant, and GetCurrentTimestamp() is left for what a
 * calendar is about: rows of the ledger, lifetimes of cached answers, the windows
 * of budgets.  An instant means the same in every process of this machine until
 * it is booted, which is longer than shared memory lives; it is never stored.
 */
#ifndef MW_CLOCK_H
#define MW_CLOCK_H

#include "postgres.h"

#include <time.h>

#include "utils/timestamp.h"

/* Microseconds; zero is before every instant.  A struct, so that no timestamp can stand for it. */
typedef struct MwInstant
{
	int64		us;
} MwInstant;

static inline MwInstant
mw_after_ms(int64 ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (MwInstant) {(int64) ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + ms * 1000};
}

static inline MwInstant
mw_now(void)
{
	return mw_after_ms(0);
}

static inline MwInstant
mw_earlier(MwInstant a, MwInstant b)
{
	return a.us < b.us ? a : b;
}

static inline bool
mw_passed(MwInstant when)
{
	return mw_now().us >= when.us;
}

static inline int64
mw_ms_since(MwInstant when)
{
	return (mw_now().us - when.us) / 1000;
}

/* Milliseconds until then, rounded up so that who has waited them is not early; 0 where it is past */
static inline long
mw_ms_until(MwInstant when)
{
	int64		us = when.us - mw_now().us;

	return us <= 0 ? 0 : (long) Min((us + 999) / 1000, PG_INT32_MAX);
}

/* Nanoseconds that this process's one thread has computed: what a bench of code goes by, whatever else the machine does */
static inline int64
mw_computed_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* What the wall clock would show then, were it not set until then: for people to read */
static inline TimestampTz
mw_wall_clock(MwInstant when)
{
	return GetCurrentTimestamp() + (when.us - mw_now().us);
}

#endif
