/*
 * tool_time.c - a limit of time for one tool, beside the caller's own.
 *
 * A timer interrupts the tool as a cancel does (57014): that is the one way in
 * which PostgreSQL stops any function at its next check.  Which of the two it was
 * is told by the timer, so that tool_run.c makes an error of the tool's of it,
 * which a run can go on after, while a cancel of the caller's ends everything.
 * A cancel that came before the timer, and a statement_timeout, are told apart and
 * win.  A cancel in the moment between the timer and that check is not: the one
 * flag that PostgreSQL has for both is set already, and the tool's wins.
 *
 * Tools nest (one may call a model whose tools have limits): the timers of a
 * process are a list, innermost first, and the alarm stands for the earliest that
 * has not rung.  The list is changed only while the alarm is off, since the
 * handler walks it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "agent/tool.h"

static TimeoutId alarm_id = MAX_TIMEOUTS;
static MwToolTimer *innermost;

/* When the next one rings that has not; 0: none */
static TimestampTz
next_end(void)
{
	TimestampTz first = 0;

	for (MwToolTimer *t = innermost; t; t = t->outer)
		if (t->end != 0 && !t->rang && (first == 0 || t->end < first))
			first = t->end;
	return first;
}

/* In a signal handler.  Whom it rings for is known without the clock, which may have been set. */
static void
ring(void)
{
	TimestampTz end = next_end();
	bool		canceled = QueryCancelPending;

	for (MwToolTimer *t = innermost; t; t = t->outer)
	{
		if (t->end == 0 || t->end > end)
			continue;
		if (canceled)
			t->end = 0;			/* somebody else ends what it times */
		else
			t->rang = true;
	}
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
}

static void
set_alarm(void)
{
	TimestampTz end = next_end();

	if (end != 0)
		enable_timeout_at(alarm_id, end);
}

static void
alarm_off(void)
{
	if (alarm_id == MAX_TIMEOUTS)
		alarm_id = RegisterTimeout(USER_TIMEOUT, ring);
	disable_timeout(alarm_id, false);
}

void
mw_tool_timer_start(MwToolTimer *timer, int ms)
{
	timer->rang = false;
	timer->left = 0;
	timer->end = ms > 0 ? TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms) : 0;
	if (ms > 0 || innermost)
		alarm_off();
	timer->outer = innermost;
	innermost = timer;
	if (ms > 0 || timer->outer)
		set_alarm();
}

void
mw_tool_timer_pause(MwToolTimer *timer)
{
	if (timer == NULL || timer->end == 0)
		return;
	alarm_off();
	if (!timer->rang)
	{
		timer->left = Max(timer->end - GetCurrentTimestamp(), 1);
		timer->end = 0;
	}
	set_alarm();
	CHECK_FOR_INTERRUPTS();
}

void
mw_tool_timer_go_on(MwToolTimer *timer)
{
	if (timer == NULL || timer->left == 0)
		return;
	alarm_off();
	timer->end = GetCurrentTimestamp() + timer->left;
	timer->left = 0;
	set_alarm();
}

bool
mw_tool_timer_cut(const ErrorData *edata)
{
	/* that of a statement_timeout has another text */
	return edata->sqlerrcode == ERRCODE_QUERY_CANCELED && edata->message_id != NULL &&
		strcmp(edata->message_id, "canceling statement due to user request") == 0;
}

bool
mw_tool_timer_stop(MwToolTimer *timer, bool interrupted)
{
	if (timer->end != 0 || timer->outer)
		alarm_off();
	innermost = timer->outer;
	if (innermost)
		set_alarm();
	/* it rang, and nothing was interrupted any more: nobody else is to be */
	if (timer->rang && !interrupted)
		QueryCancelPending = false;
	return timer->rang;
}
