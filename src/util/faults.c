/*
 * faults.c - what a fault point does in a test build; see faults.h.
 */
#include "mw.h"

#include <signal.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "util/faults.h"

#ifdef MW_FAULT_POINTS

static char *fault_setting;
static int	passes;
static char *clock_setting;

void
mw_fault_init(void)
{
	DefineCustomStringVariable("mw.fault", "Fault point of a test build: point:action[:passes to skip].",
							   NULL, &fault_setting, "", PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("mw.fault_clock", "The moment that budgets of a test build take for now.",
							   NULL, &clock_setting, "", PGC_SUSET, 0, NULL, NULL, NULL);
}

TimestampTz
mw_fault_now(TimestampTz now)
{
	if (clock_setting == NULL || clock_setting[0] == '\0')
		return now;
	return DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in, CStringGetDatum(clock_setting),
												   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

void
mw_fault_hit(const char *point)
{
	size_t		len = strlen(point);
	const char *action;
	const char *skip;

	if (fault_setting == NULL || strncmp(fault_setting, point, len) != 0 || fault_setting[len] != ':')
		return;
	action = fault_setting + len + 1;
	skip = strchr(action, ':');
	if (skip != NULL && passes++ < atoi(skip + 1))
		return;
	passes = 0;
	if (strncmp(action, "crash", 5) == 0)
		kill(MyProcPid, SIGKILL);
	else if (strncmp(action, "oom", 3) == 0)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"), errdetail("Fault point \"%s\".", point)));
	else if (strncmp(action, "sleep", 5) == 0)
	{
		for (int i = 0; i < 600; i++)
		{
			WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 100, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	else
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("fault point \"%s\"", point)));
}

#endif
