/*
 * duration.c - a duration is an interval or a number of seconds, everywhere; and
 * how a backend waits for one.
 */
#include "mw.h"

#include <math.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "util/clock.h"
#include "util/duration.h"

/* Longer is a mistake, and would overflow what is computed with it */
#define MAX_MS (INT64CONST(1000) * 366 * 86400 * 1000)

/* What interval_in refuses keeps its code and words; which duration it was, and what one is, it cannot know */
static void
say_which(void *what)
{
	errhint("%s is an interval such as '5 minutes', or a number of seconds.", (const char *) what);
}

int64
mw_duration_ms(const char *text, const char *what)
{
	char	   *end;
	double		ms = strtod(text, &end) * 1000;

	/* strtod knows hexadecimal, "inf" and "nan" as well: digits and a point alone are seconds */
	if (end == text || *end != '\0' || strspn(text, "0123456789.-+") != strlen(text))
	{
		ErrorContextCallback which = {error_context_stack, say_which, NULL};
		char	   *name = pstrdup(what);
		Interval   *span;

		name[0] = pg_toupper((unsigned char) name[0]);
		which.arg = name;
		error_context_stack = &which;
		span = DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(text),
													 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
		error_context_stack = which.previous;

		ms = (span->month * (double) DAYS_PER_MONTH + span->day) * SECS_PER_DAY * 1000.0 + span->time / 1000.0;
	}

	if (!(ms >= 0 && ms <= MAX_MS))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s is out of range", what),
				errhint("A duration is an interval such as '5 minutes', or a number of seconds, and not negative."));
	return (int64) rint(ms);
}

void
mw_wait_ms(int64 ms)
{
	MwInstant	until = mw_after_ms(ms);

	for (;;)
	{
		long		left = mw_ms_until(until);

		if (left <= 0)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
