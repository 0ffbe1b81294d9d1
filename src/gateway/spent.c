/*
 * spent.c - windows, prices and sums: the arithmetic of budgets.
 *
 * Windows are calendar windows in the tenant's time zone, as date_trunc cuts
 * them: a day has 23 or 25 hours where the clocks change, and the hour that is
 * repeated is two windows.  Where midnight is repeated (Havana, the Azores) a day
 * begins with the first of both, and where it is left out (Cairo, Santiago) with
 * what comes instead.  A call counts in the windows in which it was admitted,
 * whenever it ends.
 *
 * A sum knows the start of its window.  What meets it may be of the same one, of
 * a newer one (the sum begins at 0) or of one that has ended (a late end of a
 * call: the sum stays as it is).  Three things make two starts differ that are
 * one window all the same: a caller that computed its start just before the
 * boundary and was admitted after it; a tenant whose time zone was changed; and
 * a clock that was set back.  In all three the sum is kept, so that nothing is
 * spent twice:
 *
 *   stored before mine by less than a window's least length: the zone changed
 *   mine in the future: the call was admitted before the clock went back
 *   stored before the call's admission, mine before stored: straggler, or zone
 *   stored in the future by a window at most: the clock went back a little; the
 *      sum waits until time has come there again
 *   stored in the future by more: the sum goes back with the clock, or a budget
 *      would be stuck until then
 */
#include "mw.h"

#include "access/htup_details.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "gateway/spent.h"
#include "util/faults.h"
#include "util/money.h"

const char *const mw_window_names[MW_NWINDOWS] = {"forever", "minute", "hour", "day", "month"};
const char *const mw_unit_names[MW_NUNITS] = {"requests", "tokens", "cost"};

/* Of each window, in any time zone: a day may lose an hour or two, and a month such a day (mw.budget_status has the same) */
static const int64 shortest[MW_NWINDOWS] = {0, 60, 3600, 22 * 3600, 27 * 86400};
static const int64 longest[MW_NWINDOWS] = {0, 60, 2 * 3600, 26 * 3600, 32 * 86400};

TimestampTz
mw_calendar_now(void)
{
	return mw_fault_now(GetCurrentTimestamp());
}

/*
 * A zone was known when a tenant was given it; another release of the zones may
 * have no more of it than its name.  Its calls are refused then (MW001), and its
 * sums, which views and a recovery read with those of all others, go by UTC.
 */
static Datum
known_zone(const char *zone)
{
	return CStringGetTextDatum(pg_tzset(zone) != NULL ? zone : "UTC");
}

/* Local time less UTC, in microseconds */
static int64
offset_at(Datum zone, TimestampTz at)
{
	return DatumGetTimestamp(DirectFunctionCall2(timestamptz_zone, zone, TimestampTzGetDatum(at))) - at;
}

/* Of a midnight that comes twice PostgreSQL takes the second, which would let a day begin after its first hour */
static TimestampTz
first_midnight(Datum zone, TimestampTz midnight)
{
	int64		offset = offset_at(zone, midnight);
	int64		back = offset_at(zone, midnight - USECS_PER_DAY) - offset;

	return back > 0 && offset_at(zone, midnight - back) == offset + back ? midnight - back : midnight;
}

void
mw_windows_at(const char *zone, TimestampTz now, MwWhen *when)
{
	Datum		tz = known_zone(zone);

	when->admitted_at = now;
	when->start[MW_FOREVER] = 0;
	for (int w = MW_MINUTE; w < MW_NWINDOWS; w++)
	{
		when->start[w] = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_trunc_zone, CStringGetTextDatum(mw_window_names[w]),
																 TimestampTzGetDatum(now), tz));
		if (w == MW_DAY || w == MW_MONTH)
			when->start[w] = first_midnight(tz, when->start[w]);
	}
}

TimestampTz
mw_window_end(MwPeriod w, const char *zone, TimestampTz start)
{
	Interval	step = {0};
	Datum		tz = known_zone(zone);
	Datum		local;

	switch (w)
	{
		case MW_FOREVER:
			return DT_NOEND;
		case MW_MINUTE:
		case MW_HOUR:
			return start + shortest[w] * USECS_PER_SEC;
		default:
			step.day = w == MW_DAY ? 1 : 0;
			step.month = w == MW_MONTH ? 1 : 0;
			local = DirectFunctionCall2(timestamptz_zone, tz, TimestampTzGetDatum(start));
			local = DirectFunctionCall2(timestamp_pl_interval, local, IntervalPGetDatum(&step));
			/* it may have begun at one o'clock */
			local = DirectFunctionCall2(timestamp_trunc, CStringGetTextDatum(mw_window_names[w]), local);
			return first_midnight(tz, DatumGetTimestampTz(DirectFunctionCall2(timestamp_zone, tz, local)));
	}
}

MwMeeting
mw_window_meet(MwPeriod w, TimestampTz stored, TimestampTz mine, TimestampTz admitted_at, TimestampTz now)
{
	if (w == MW_FOREVER || mine == stored)
		return MW_MEET_ADD;
	if (stored < mine)
		return TIMESTAMP_IS_NOBEGIN(stored) || (mine <= now && mine - stored >= shortest[w] * USECS_PER_SEC) ?
			MW_MEET_NEW : MW_MEET_ADD;
	if (stored > now)
		return stored - mine <= longest[w] * USECS_PER_SEC ? MW_MEET_ADD : MW_MEET_BACK;
	return admitted_at >= stored ? MW_MEET_ADD : MW_MEET_LATE;
}

/* ---------- prices ---------- */

MwMoney
mw_price_bound(const MwPrice *price, int64 prompt_tokens, int64 answer_tokens)
{
	if (!price->known)
		return 0;
	return (MwMoney) prompt_tokens * Max(price->input, price->cached) + (MwMoney) answer_tokens * price->output;
}

MwMoney
mw_price_of(const MwPrice *price, const MwUsage *usage)
{
	if (!price->known)
		return 0;
	return (MwMoney) (usage->input_tokens - usage->cached_tokens) * price->input +
		(MwMoney) usage->cached_tokens * price->cached + (MwMoney) usage->output_tokens * price->output;
}

/* ---------- sums ---------- */

void
mw_spent_init(MwSpent *s)
{
	memset(s, 0, sizeof(*s));
	s->first_used_at = DT_NOEND;
	s->set_back_until = DT_NOBEGIN;
	for (int w = MW_MINUTE; w < MW_NWINDOWS; w++)
		s->start[w] = DT_NOBEGIN;
}

void
mw_spent_set_back(MwSpent *s, MwPeriod w, TimestampTz start)
{
	s->set_back_until = Max(s->set_back_until, s->start[w] + longest[w] * USECS_PER_SEC);
	s->start[w] = start;
}

void
mw_spent_add(MwSpent *s, const MwAmounts *used, const MwAmounts *excess, const MwWhen *when, TimestampTz now)
{
	s->first_used_at = Min(s->first_used_at, when->admitted_at);
	mw_amounts_add(&s->excess, excess);
	for (int w = 0; w < MW_NWINDOWS; w++)
	{
		switch (mw_window_meet(w, s->start[w], when->start[w], when->admitted_at, now))
		{
			case MW_MEET_LATE:
				continue;
			case MW_MEET_NEW:
				s->used[w] = (MwAmounts) {0};
				s->start[w] = when->start[w];
				break;
			case MW_MEET_BACK:
				mw_spent_set_back(s, w, when->start[w]);
				break;
			case MW_MEET_ADD:
				break;
		}
		mw_amounts_add(&s->used[w], used);
	}
}

MwAmounts
mw_spent_in(const MwSpent *s, MwPeriod w, const MwWhen *when)
{
	if (mw_window_meet(w, s->start[w], when->start[w], when->admitted_at, when->admitted_at) == MW_MEET_NEW)
		return (MwAmounts) {0};
	return s->used[w];
}

bool
mw_spent_crosses(const MwSpent *before, const MwSpent *after, const MwAmounts *soft)
{
	static const MwAmounts nothing;

	for (int w = 0; w < MW_NWINDOWS; w++)
	{
		const MwAmounts *was = before->start[w] == after->start[w] ? &before->used[w] : &nothing;

		for (MwUnit unit = 0; unit < MW_NUNITS; unit++)
			if (mw_limited(&soft[w], unit) && mw_amount(was, unit) < mw_amount(&soft[w], unit) &&
				mw_amount(&after->used[w], unit) >= mw_amount(&soft[w], unit))
				return true;
	}
	return false;
}

char *
mw_crossing_payload(const pg_uuid_t *run_id)
{
	return psprintf("{\"kind\": \"budget\", \"id\": \"%s\"}",
					DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(run_id))));
}

static MwMoney
money_of(Datum d)
{
	MwMoney		money;

	if (!mw_money_read(DatumGetNumeric(d), MW_MONEY_DECIMALS, &money))
		elog(ERROR, "a kept sum of mw is no amount of money");
	return money;
}

void
mw_spent_from_row(MwSpent *s, HeapTuple row, TupleDesc desc)
{
	Datum		v[MW_SPENT_NCOLUMNS];
	bool		null[MW_SPENT_NCOLUMNS];

	Assert(desc->natts == MW_SPENT_NCOLUMNS);
	heap_deform_tuple(row, desc, v, null);
	mw_spent_from_values(s, v);
}

void
mw_spent_from_values(MwSpent *s, const Datum *values)
{
	int			c = 0;

	s->start[MW_FOREVER] = 0;
	for (int w = 0; w < MW_NWINDOWS; w++)
	{
		if (w != MW_FOREVER)
			s->start[w] = DatumGetTimestampTz(values[c++]);
		s->used[w].requests = DatumGetInt64(values[c++]);
		s->used[w].tokens = DatumGetInt64(values[c++]);
		s->used[w].cost = money_of(values[c++]);
		if (w == MW_FOREVER)
		{
			s->excess.requests = 0;
			s->excess.tokens = DatumGetInt64(values[c++]);
			s->excess.cost = money_of(values[c++]);
			s->first_used_at = DatumGetTimestampTz(values[c++]);
		}
	}
	s->set_back_until = DatumGetTimestampTz(values[c++]);
	Assert(c == MW_SPENT_NCOLUMNS);
}

void
mw_spent_to_values(const MwSpent *s, Datum *values)
{
	int			c = 0;

	for (int w = 0; w < MW_NWINDOWS; w++)
	{
		if (w != MW_FOREVER)
			values[c++] = TimestampTzGetDatum(s->start[w]);
		values[c++] = Int64GetDatum(s->used[w].requests);
		values[c++] = Int64GetDatum(s->used[w].tokens);
		values[c++] = NumericGetDatum(mw_money_numeric(s->used[w].cost));
		if (w == MW_FOREVER)
		{
			values[c++] = Int64GetDatum(s->excess.tokens);
			values[c++] = NumericGetDatum(mw_money_numeric(s->excess.cost));
			values[c++] = TimestampTzGetDatum(s->first_used_at);
		}
	}
	values[c++] = TimestampTzGetDatum(s->set_back_until);
	Assert(c == MW_SPENT_NCOLUMNS);
}
