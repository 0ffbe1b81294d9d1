/*
 * sums.c - what each scope has used, as rows of mw.spent and as this process
 * remembers them.
 *
 * Nobody else writes that table, so the rows that were touched are remembered
 * and written whole: the windows' arithmetic is that of spent.c alone.  The sums
 * of a round are added up in memory and written once a scope, so that a hundred
 * calls of one tenant that end together cost one update of its row.  What a
 * transaction that fails has added is forgotten with everything else; the next
 * one reads again.  Who commits says so (mw_sums_committed).
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "commands/async.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "util/table.h"
#include "util/hash.h"

#define MAX_REMEMBERED 8192

typedef struct Sum
{
	MwKey		key;			/* of tenant and session; must be first */
	MwSpent		spent;
	bool		stored;			/* has a row ... */
	ItemPointerData at;			/* ... which was written here; invalid: elsewhere */
	bool		touched;		/* in this round */
	const char *tenant;			/* of this round's work, where touched */
	const char *session;		/* "": the tenant */
} Sum;

static MwTable rows = {
	.name = "spent",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ},
	.ncolumns = 2 + MW_SPENT_NCOLUMNS,.columns = {
		"tenant", "session", "requests", "tokens", "cost", "excess_tokens", "excess_cost", "first_used_at",
		"minute_start", "minute_requests", "minute_tokens", "minute_cost", "hour_start", "hour_requests", "hour_tokens", "hour_cost",
		"day_start", "day_requests", "day_tokens", "day_cost", "month_start", "month_requests", "month_tokens", "month_cost", "set_back_until"
	}
};

static HTAB *remembered;
static MwKey names_key;			/* of the hashes by which they are found: random, as callers choose the names */
static bool names_key_made;
static List *touched;			/* of Sum, in this round */

/* Soft limits that were crossed: in this round, and those that have committed and wait to be told */
typedef struct Crossing
{
	char	   *channel;
	char	   *payload;
} Crossing;

static List *crossed;
static List *to_tell;

void
mw_sums_forget(void)
{
	if (remembered != NULL)
		hash_destroy(remembered);
	remembered = NULL;
}

void
mw_sums_reset(void)
{
	static Oid	remembered_of;

	/* what is still touched belongs to a transaction that did not commit */
	if (touched != NIL)
		mw_sums_forget();
	/* and another table than the last to an extension that was dropped */
	if (IsTransactionState())
	{
		Oid			spent = mw_table_oid(&rows);

		if (spent != remembered_of)
			mw_sums_forget();
		remembered_of = spent;
	}
	touched = NIL;				/* lay in the last round's context */
	crossed = NIL;
}

static void
read_sum(Sum *sum, const char *tenant, const char *session)
{
	Datum		values[2 + MW_SPENT_NCOLUMNS];
	bool		nulls[2 + MW_SPENT_NCOLUMNS];

	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(session);
	mw_spent_init(&sum->spent);
	ItemPointerSetInvalid(&sum->at);
	sum->stored = mw_table_find(&rows, values, NULL, values, nulls);
	if (sum->stored)
		mw_spent_from_values(&sum->spent, values + 2);
}

static Sum *
sum_of(const char *tenant, const char *session)
{
	MwKey		key;
	Sum			read;
	Sum		   *sum;

	if (!names_key_made && !pg_strong_random(names_key.b, sizeof(names_key.b)))
		elog(ERROR, "could not generate random values");
	names_key_made = true;
	key = mw_hash_short(&names_key, tenant, strlen(tenant));
	key = mw_hash_short(&key, session, strlen(session));
	sum = remembered ? hash_search(remembered, &key, HASH_FIND, NULL) : NULL;
	if (sum != NULL)
		return sum;

	/* read before it has a place: an error must not leave a half of it */
	read_sum(&read, tenant, session);
	if (remembered == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(MwKey), .entrysize = sizeof(Sum), .hcxt = TopMemoryContext};

		remembered = hash_create("mw sums", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	read.touched = false;
	read.key = key;
	sum = hash_search(remembered, &key, HASH_ENTER, NULL);
	*sum = read;
	return sum;
}

static void
touch(Sum *sum, const char *tenant, const char *session)
{
	MemoryContext old;

	if (sum->touched)
		return;
	old = MemoryContextSwitchTo(mw_round_context());
	touched = lappend(touched, sum);
	MemoryContextSwitchTo(old);
	sum->touched = true;
	sum->tenant = tenant;
	sum->session = session;
}

/* Told after the commit, once a call: in the round's context until then */
static void
note_crossing(const MwWire *w)
{
	MemoryContext old = MemoryContextSwitchTo(mw_round_context());
	Crossing   *c = palloc(sizeof(Crossing));

	c->channel = pstrdup(mw_wire_string(w, channel));
	c->payload = mw_crossing_payload(&w->run_id);
	crossed = lappend(crossed, c);
	MemoryContextSwitchTo(old);
}

void
mw_sums_spend(const MwWire *w, const char *tenant, const char *session, const MwAmounts *used, const MwAmounts *excess,
	  const MwWhen *when, TimestampTz now)
{
	if (mw_amounts_zero(used))
		return;
	for (int i = 0; i < (session != NULL ? 2 : 1); i++)
	{
		const char *scope = i == 0 ? "" : session;
		Sum		   *sum = sum_of(tenant, scope);
		MwSpent		before;
		MwAmounts	soft[MW_NWINDOWS];

		touch(sum, tenant, scope);
		before = sum->spent;
		mw_spent_add(&sum->spent, used, excess, when, now);
		if (w == NULL || w->soft < 0)
			continue;
		memcpy(soft, w->data + w->soft + i * sizeof(soft), sizeof(soft));
		if (mw_spent_crosses(&before, &sum->spent, soft))
			note_crossing(w);
	}
}

/*
 * A call that is about to leave may be the first one of a window.  Where the
 * window is limited its counter began it when the call was admitted; kept sums and
 * other counters (mw_counters_begin) do so here and not with the outcome, since the
 * clock may be set back until then and a sum of the window before cannot tell then
 * which of the two came first.  A scope without a row has nothing to be told apart
 * from.
 */
void
mw_sums_begin(const MwWire *w, TimestampTz now)
{
	const char *tenant = mw_wire_string(w, tenant);
	const char *session = mw_wire_string(w, session);

	for (int i = 0; i < (session != NULL ? 2 : 1); i++)
	{
		const char *scope = i == 0 ? "" : session;
		Sum		   *sum = sum_of(tenant, scope);

		if (!sum->stored)
			continue;
		for (int win = MW_MINUTE; win < MW_NWINDOWS; win++)
			if (mw_window_meet(win, sum->spent.start[win], w->when.start[win], w->when.admitted_at, now) == MW_MEET_NEW)
			{
				touch(sum, tenant, scope);
				sum->spent.start[win] = w->when.start[win];
				sum->spent.used[win] = (MwAmounts) {0};
			}
	}
}

void
mw_sums_write(void)
{
	ListCell   *lc;

	foreach(lc, touched)
	{
		Sum		   *sum = lfirst(lc);
		Datum		values[2 + MW_SPENT_NCOLUMNS];
		bool		nulls[2 + MW_SPENT_NCOLUMNS] = {0};

		values[0] = CStringGetTextDatum(sum->tenant);
		values[1] = CStringGetTextDatum(sum->session);
		mw_spent_to_values(&sum->spent, values + 2);
		if (sum->stored && mw_table_find(&rows, values, &sum->at, NULL, NULL))
			sum->at = mw_table_update(&rows, values, nulls);
		else
			sum->at = mw_table_insert(&rows, values, nulls);
	}
}

/* ---------- for the counters ---------- */

/* Sums for the counters.  Where the clock went back, theirs goes back with it, here first. */
void
mw_sums_load(MwFlight *f)
{
	MwWire	   *w = f->w;

	f->settled_at = mw_calendar_now();
	for (int i = 0; i < w->hold.n; i++)
	{
		const char *tenant = mw_wire_string(w, tenant);
		const char *session = i == 0 ? "" : mw_wire_string(w, session);
		Sum		   *sum;

		if (w->hold.windows[i] == 0)
			continue;
		sum = sum_of(tenant, session);
		for (int win = MW_MINUTE; win < MW_NWINDOWS; win++)
			if (w->hold.windows[i] & 1 << win && mw_window_meet(win, sum->spent.start[win], w->when.start[win], f->settled_at, f->settled_at) == MW_MEET_BACK)
			{
				touch(sum, tenant, session);
				mw_spent_set_back(&sum->spent, win, w->when.start[win]);
			}
		f->load[i] = sum->spent;
	}
}

/* ---------- soft limits ---------- */

/* Without memory for it a notification is lost, and nothing else: it tells of what mw.budget_status shows */
static void
keep_crossings(void)
{
	MemoryContext old = CurrentMemoryContext;

	if (crossed == NIL)
		return;
	PG_TRY();
	{
		ListCell   *lc;

		MemoryContextSwitchTo(TopMemoryContext);
		foreach(lc, crossed)
		{
			Crossing   *c = lfirst(lc);
			Crossing   *kept = palloc(sizeof(Crossing));

			kept->channel = pstrdup(c->channel);
			kept->payload = pstrdup(c->payload);
			to_tell = lappend(to_tell, kept);
		}
	}
	PG_CATCH();
	{
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	crossed = NIL;
}

/* The round has committed: what was added is what the rows say */
void
mw_sums_committed(void)
{
	ListCell   *lc;

	foreach(lc, touched)
	{
		Sum		   *sum = lfirst(lc);

		sum->touched = false;
		sum->stored = true;
	}
	touched = NIL;
	if (remembered != NULL && hash_get_num_entries(remembered) >= MAX_REMEMBERED)
		mw_sums_forget();
	keep_crossings();
}

bool
mw_sums_something_to_tell(void)
{
	return to_tell != NIL;
}

/*
 * NOTIFY takes a lock that all databases of the server share, and a notifier
 * that hangs at its commit holds it.  No record of money may wait for that, so
 * this is a transaction of its own; true, as what was told is forgotten.
 */
bool
mw_sums_tell(void)
{
	ListCell   *lc;

	foreach(lc, to_tell)
	{
		Crossing   *c = lfirst(lc);

		Async_Notify(c->channel, c->payload);
	}
	return true;
}

void
mw_sums_told(void)
{
	ListCell   *lc;

	foreach(lc, to_tell)
	{
		Crossing   *c = lfirst(lc);

		pfree(c->channel);
		pfree(c->payload);
		pfree(c);
	}
	list_free(to_tell);
	to_tell = NIL;
}
