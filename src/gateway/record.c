/*
 * record.c - the durable writes of the gateway: attempts, outcomes, sums,
 * recorded answers, cache rows.
 *
 * Everything here runs inside the one transaction of a round (worker.c), by
 * saved plans, as the bootstrap superuser with search_path = pg_catalog; only
 * the gateway writes these tables, so nothing here can wait for a caller.
 *
 * The sums of a round are added up in memory and written once a scope, so that
 * a hundred calls of one tenant that end together cost one update of its row.
 * Who commits says so (mw_record_committed).
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "commands/async.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/money.h"

#define SWEEP_ROWS "1000"

/* A saved plan, prepared at first use */
typedef struct Statement
{
	const char *sql;
	int			nargs;
	Oid			types[24];
	SPIPlanPtr	plan;
} Statement;

static uint64
run(Statement *st, Datum *values, const char *nulls)
{
	int			rc;

	if (st->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(st->sql, st->nargs, st->types);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare a statement of the gateway: %s", SPI_result_code_string(SPI_result));
		st->plan = plan;
	}
	rc = SPI_execute_plan(st->plan, values, nulls, false, 0);
	if (rc < 0)
		elog(ERROR, "a statement of the gateway failed: %s", SPI_result_code_string(rc));
	return SPI_processed;
}

static Datum
text_or_null(const char *s, char *nulls, int i)
{
	if (s == NULL)
	{
		nulls[i] = 'n';
		return (Datum) 0;
	}
	return CStringGetTextDatum(s);
}

/* Money that is not known has no figure */
static Datum
money_or_null(bool known, MwMoney money, char *nulls, int i)
{
	nulls[i] = known ? ' ' : 'n';
	return known ? NumericGetDatum(mw_money_numeric(money)) : (Datum) 0;
}

/* ---------- kept sums ---------- */

/*
 * Nobody else writes mw.spent, so the rows that were touched are remembered and
 * written whole: the windows' arithmetic is that of spent.c alone, and an update
 * need not look first.  What a transaction that fails has added is forgotten
 * with everything else; the next one reads again.
 */
#define MAX_REMEMBERED 8192

typedef struct Sum
{
	MwKey		key;			/* of tenant and session; must be first */
	MwSpent		spent;
	bool		stored;			/* has a row */
	bool		touched;		/* in this round */
	const char *tenant;			/* of this round's work, where touched */
	const char *session;		/* "": the tenant */
} Sum;

static HTAB *remembered;
static List *touched;			/* of Sum, in this round */

/* Soft limits that were crossed: in this round, and those that have committed and wait to be told */
typedef struct Crossing
{
	char	   *channel;
	char	   *payload;
} Crossing;

static List *crossed;
static List *to_tell;

static void
forget_sums(void)
{
	if (remembered != NULL)
		hash_destroy(remembered);
	remembered = NULL;
}

void
mw_record_reset(void)
{
	static Oid	remembered_of;

	/* what is still touched belongs to a transaction that did not commit */
	if (touched != NIL)
		forget_sums();
	/* and another table than the last to an extension that was dropped */
	if (IsTransactionState())
	{
		Oid			spent = get_relname_relid("spent", get_namespace_oid("mw", false));

		if (spent != remembered_of)
			forget_sums();
		remembered_of = spent;
	}
	touched = NIL;				/* lay in the last round's context */
	crossed = NIL;
}

static void
read_sum(Sum *sum, const char *tenant, const char *session)
{
	static Statement st = {
		"SELECT " MW_SPENT_COLUMNS " FROM mw.spent WHERE tenant = $1 AND session = $2",
		2, {TEXTOID, TEXTOID}
	};
	Datum		values[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(session)};

	mw_spent_init(&sum->spent);
	sum->stored = run(&st, values, NULL) > 0;
	if (sum->stored)
		mw_spent_from_row(&sum->spent, SPI_tuptable->vals[0], SPI_tuptable->tupdesc);
}

static Sum *
sum_of(const char *tenant, const char *session)
{
	MwHash		h;
	MwKey		key;
	Sum			read;
	Sum		   *sum;

	mw_hash_start(&h, NULL);
	mw_hash_text(&h, tenant);
	mw_hash_text(&h, session);
	key = mw_hash_end(&h);
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

static void
spend(const MwWire *w, const char *tenant, const char *session, const MwAmounts *used, const MwAmounts *excess,
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

void
mw_record_sums(void)
{
	static Statement update = {
		"UPDATE mw.spent SET (" MW_SPENT_COLUMNS ") = ROW(" MW_SPENT_PARAMETERS ") WHERE tenant = $1 AND session = $2",
		24, {TEXTOID, TEXTOID, MW_SPENT_TYPES}
	};
	static Statement insert = {
		"INSERT INTO mw.spent (tenant, session, " MW_SPENT_COLUMNS ") VALUES ($1, $2, " MW_SPENT_PARAMETERS ")",
		24, {TEXTOID, TEXTOID, MW_SPENT_TYPES}
	};
	ListCell   *lc;

	foreach(lc, touched)
	{
		Sum		   *sum = lfirst(lc);
		Datum		values[2 + MW_SPENT_NCOLUMNS];

		values[0] = CStringGetTextDatum(sum->tenant);
		values[1] = CStringGetTextDatum(sum->session);
		mw_spent_to_values(&sum->spent, values + 2);
		if (!sum->stored || run(&update, values, NULL) == 0)
			run(&insert, values, NULL);
	}
}

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
mw_record_committed(void)
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
		forget_sums();
	keep_crossings();
}

bool
mw_record_something_to_tell(void)
{
	return to_tell != NIL;
}

/*
 * NOTIFY takes a lock that all databases of the server share, and a notifier
 * that hangs at its commit holds it.  No record of money may wait for that, so
 * this is a transaction of its own; true, as what was told is forgotten.
 */
bool
mw_record_tell(void)
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
mw_record_told(void)
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

/* ---------- attempts ---------- */

/*
 * What an earlier run of this request_id left for these bytes.  Returns true
 * where nothing has to be sent.
 */
static bool
left_by_earlier_run(MwFlight *f)
{
	static Statement answers = {
		"SELECT usable, body FROM mw.answer WHERE tenant = $1 AND request_id = $2 AND call_key = $3 AND nth = $4",
		4, {TEXTOID, TEXTOID, BYTEAOID, INT4OID}
	};
	static Statement lost = {
		"SELECT count(*), count(*) FILTER (WHERE error = '" MW_LOST_IN_CRASH "') FROM mw.attempt "
		"WHERE tenant = $1 AND request_id = $2 AND call_key = $3 AND nth = $4 AND request_named AND outcome = 'unknown' "
		"AND run_id <> $5",		/* of this run the retry stage knows */
		5, {TEXTOID, TEXTOID, BYTEAOID, INT4OID, UUIDOID}
	};
	MwWire	   *w = f->w;
	Datum		values[5] = {
		CStringGetTextDatum(mw_wire_string(w, tenant)), CStringGetTextDatum(mw_wire_string(w, request_id)),
		PointerGetDatum(mw_key_bytea(&w->call_key)), Int32GetDatum(w->nth),
		UUIDPGetDatum(&w->run_id)
	};
	bool		null;
	HeapTuple	t;
	int64		unknown,
				crashes;

	if (run(&answers, values, NULL) > 0)
	{
		text	   *body;
		MemoryContext spi;

		t = SPI_tuptable->vals[0];
		f->bill.kind = DatumGetBool(SPI_getbinval(t, SPI_tuptable->tupdesc, 1, &null)) ? MW_OUTCOME_OK : MW_OUTCOME_FAILED;
		body = DatumGetTextPP(SPI_getbinval(t, SPI_tuptable->tupdesc, 2, &null));
		spi = MemoryContextSwitchTo(mw_round_context());
		f->body_len = VARSIZE_ANY_EXHDR(body);
		f->body = text_to_cstring(body);
		MemoryContextSwitchTo(spi);
		f->reply.recorded = true;
		f->reply.http_status = 200;
		return true;
	}
	run(&lost, values, NULL);
	t = SPI_tuptable->vals[0];
	unknown = DatumGetInt64(SPI_getbinval(t, SPI_tuptable->tupdesc, 1, &null));
	crashes = DatumGetInt64(SPI_getbinval(t, SPI_tuptable->tupdesc, 2, &null));
	if (unknown > 0 && (!w->resend_unknown || crashes >= 2))
	{
		f->bill.kind = MW_OUTCOME_NOT_SENT;
		f->reply.unknown_before = true;
		if (crashes >= 2)
			strlcpy(f->reply.error, "it was running in two crashes of the server and is not sent a third time", sizeof(f->reply.error));
		return true;
	}
	return false;
}

void
mw_record_attempt(MwFlight *f)
{
	static Statement st = {
		"INSERT INTO mw.attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, purpose, model, "
		"call_key, nth, started_at, outcome, reserved_tokens, reserved_requests, admitted_at, "
		"reserved_cost, input_price, output_price, cached_price) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'running', $14, $15, $16, $17, $18, $19, $20)",
		20, {TEXTOID, UUIDOID, INT4OID, INT4OID, TEXTOID, TEXTOID, BOOLOID, INT4OID, TEXTOID, TEXTOID,
		BYTEAOID, INT4OID, TIMESTAMPTZOID, INT8OID, INT8OID, TIMESTAMPTZOID, NUMERICOID, NUMERICOID, NUMERICOID, NUMERICOID}
	};
	MwWire	   *w = f->w;
	char		nulls[20];
	Datum		values[20];

	if (w->request_named && left_by_earlier_run(f))
	{
		f->resolved = true;
		return;
	}
	mw_fault("attempt");
	memset(nulls, ' ', sizeof(nulls));
	f->started_at = GetCurrentTimestamp();
	values[0] = CStringGetTextDatum(mw_wire_string(w, tenant));
	values[1] = UUIDPGetDatum(&w->run_id);
	values[2] = Int32GetDatum(w->call_no);
	values[3] = Int32GetDatum(w->attempt);
	values[4] = text_or_null(mw_wire_string(w, session), nulls, 4);
	values[5] = CStringGetTextDatum(mw_wire_string(w, request_id));
	values[6] = BoolGetDatum(w->request_named);
	values[7] = Int32GetDatum(w->turn);
	values[8] = CStringGetTextDatum(mw_wire_string(w, purpose));
	values[9] = CStringGetTextDatum(mw_wire_string(w, model));
	values[10] = PointerGetDatum(mw_key_bytea(&w->call_key));
	values[11] = Int32GetDatum(w->nth);
	values[12] = TimestampTzGetDatum(f->started_at);
	values[13] = Int64GetDatum(w->hold.amount.tokens);
	values[14] = Int64GetDatum(w->hold.amount.requests);
	values[15] = TimestampTzGetDatum(w->when.admitted_at);
	values[16] = money_or_null(w->price.known, w->bound, nulls, 16);
	values[17] = money_or_null(w->price.known, mw_price_per_million(w->price.input), nulls, 17);
	values[18] = money_or_null(w->price.known, mw_price_per_million(w->price.output), nulls, 18);
	values[19] = money_or_null(w->price.known, mw_price_per_million(w->price.cached), nulls, 19);
	run(&st, values, nulls);
	f->send = true;
}

/* ---------- outcomes ---------- */

void
mw_record_outcome(MwFlight *f)
{
	static Statement st = {
		"UPDATE mw.attempt SET finished_at = $5, outcome = $6, http_status = $7, input_tokens = $8, output_tokens = $9, "
		"cached_tokens = $10, reasoning_tokens = $11, billed_tokens = $12, billed_requests = $13, estimated = $14, error = $15, "
		"cost = $16, billed_cost = $17, audio_input_tokens = $18, audio_output_tokens = $19 "
		"WHERE tenant = $1 AND run_id = $2 AND call = $3 AND attempt = $4",
		19, {TEXTOID, UUIDOID, INT4OID, INT4OID, TIMESTAMPTZOID, TEXTOID, INT4OID, INT8OID, INT8OID,
		INT8OID, INT8OID, INT8OID, INT8OID, BOOLOID, TEXTOID, NUMERICOID, NUMERICOID, INT8OID, INT8OID}
	};
	static Statement record = {
		"INSERT INTO mw.answer (tenant, request_id, call_key, nth, usable, body, created_at) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, request_id, call_key, nth) DO NOTHING",
		7, {TEXTOID, TEXTOID, BYTEAOID, INT4OID, BOOLOID, TEXTOID, TIMESTAMPTZOID}
	};
	static Statement cache = {
		"INSERT INTO mw.cache AS c (tenant, key, model, epoch, created_at, expires_at, body) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, key) DO UPDATE SET model = excluded.model, epoch = excluded.epoch, "
		"created_at = excluded.created_at, expires_at = excluded.expires_at, body = excluded.body WHERE c.epoch <= excluded.epoch",
		7, {TEXTOID, BYTEAOID, TEXTOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID}
	};
	MwWire	   *w = f->w;
	TimestampTz now = GetCurrentTimestamp();
	const char *tenant = mw_wire_string(w, tenant);
	char		nulls[19];
	Datum		values[19];

	mw_fault("settle");
	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(tenant);
	values[1] = UUIDPGetDatum(&w->run_id);
	values[2] = Int32GetDatum(w->call_no);
	values[3] = Int32GetDatum(w->attempt);
	values[4] = TimestampTzGetDatum(now);
	values[5] = CStringGetTextDatum(mw_outcome_name(f->bill.kind));
	values[6] = Int32GetDatum(f->bill.http_status);
	nulls[6] = f->bill.http_status ? ' ' : 'n';
	values[7] = Int64GetDatum(f->bill.usage.input_tokens);
	values[8] = Int64GetDatum(f->bill.usage.output_tokens);
	values[9] = Int64GetDatum(f->bill.usage.cached_tokens);
	values[10] = Int64GetDatum(f->bill.usage.reasoning_tokens);
	values[17] = Int64GetDatum(f->bill.usage.audio_input_tokens);
	values[18] = Int64GetDatum(f->bill.usage.audio_output_tokens);
	if (!f->bill.has_usage)
		nulls[7] = nulls[8] = nulls[9] = nulls[10] = nulls[17] = nulls[18] = 'n';
	values[11] = Int64GetDatum(f->bill.billed.tokens);
	values[12] = Int64GetDatum(f->bill.billed.requests);
	values[13] = BoolGetDatum(f->bill.usage.estimated);
	values[14] = text_or_null(f->reply.error[0] ? f->reply.error : NULL, nulls, 14);
	values[15] = money_or_null(f->bill.priced, f->bill.cost, nulls, 15);
	values[16] = money_or_null(w->price.known, f->bill.billed.cost, nulls, 16);
	run(&st, values, nulls);

	spend(w, tenant, mw_wire_string(w, session), &f->bill.billed, &f->bill.excess, &w->when, f->settled_at);

	if (w->request_named && f->bill.keep)
	{
		values[1] = CStringGetTextDatum(mw_wire_string(w, request_id));
		values[2] = PointerGetDatum(mw_key_bytea(&w->call_key));
		values[3] = Int32GetDatum(w->nth);
		/* of one that cannot be used it is enough to know that it was paid for */
		values[4] = BoolGetDatum(f->bill.kind == MW_OUTCOME_OK);
		values[5] = PointerGetDatum(cstring_to_text_with_len(f->body ? f->body : "", f->body_len));
		values[6] = TimestampTzGetDatum(now);
		run(&record, values, NULL);
	}
	if (w->cacheable && f->bill.kind == MW_OUTCOME_OK && f->bill.outcome.cacheable)
	{
		mw_fault("cache_put");
		values[1] = PointerGetDatum(mw_key_bytea(&w->cache_key));
		values[2] = CStringGetTextDatum(mw_wire_string(w, model));
		values[3] = Int64GetDatum(w->cache_epoch);
		values[4] = TimestampTzGetDatum(now);
		values[5] = TimestampTzGetDatum(now + (int64) w->cache_ttl * USECS_PER_SEC);
		values[6] = PointerGetDatum(cstring_to_text_with_len(f->body, f->body_len));
		run(&cache, values, NULL);
	}
}

/* ---------- counters and bookings ---------- */

/* Sums for the counters.  Where the clock went back, theirs goes back with it, here first. */
void
mw_record_load(MwFlight *f)
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
				sum->spent.start[win] = w->when.start[win];
			}
		f->load[i] = sum->spent;
	}
}

/* The scope of a block of hits: the only one that limits requests */
const MwKey *
mw_booking_key(const MwWire *w)
{
	return &w->hold.key[w->counts_requests & 1 ? 0 : 1];
}

static void
insert_booking(MwFlight *f, const char *session)
{
	static Statement st = {
		"INSERT INTO mw.attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, purpose, model, "
		"started_at, finished_at, outcome, reserved_tokens, reserved_requests, billed_requests, admitted_at) "
		"VALUES ($1, $2, 0, $3, $4, $5, false, 0, $6, $7, $8, $8, 'ok', 0, 0, $9, $10)",
		10, {TEXTOID, UUIDOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID}
	};
	static int	booking;		/* tells bookings of one run apart */
	MwWire	   *w = f->w;
	char		nulls[10];
	Datum		values[10];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(mw_wire_string(w, tenant));
	values[1] = UUIDPGetDatum(&w->run_id);
	values[2] = Int32GetDatum(++booking);
	values[3] = text_or_null(session, nulls, 3);
	values[4] = CStringGetTextDatum(mw_wire_string(w, request_id));
	values[5] = CStringGetTextDatum(mw_wire_string(w, purpose));
	values[6] = CStringGetTextDatum(mw_wire_string(w, model));
	values[7] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[8] = Int64GetDatum(f->booked);
	values[9] = TimestampTzGetDatum(w->when.admitted_at);
	run(&st, values, nulls);
}

/*
 * Book hits: the caller's own, and more in advance where plenty is left.  What
 * is booked against the tenant alone belongs to no session.
 */
void
mw_record_booking(MwFlight *f)
{
	static const MwAmounts none;
	MwWire	   *w = f->w;
	const char *session = w->counts_requests & 1 << 1 ? mw_wire_string(w, session) : NULL;
	MwAmounts	booked = {0};

	/* the caller's own request is reserved already, so that one is always to be had */
	f->settled_at = mw_calendar_now();
	f->extra = w->block_limit > 0 ? mw_counters_hold_block(mw_booking_key(w), w->block_limit) : 0;
	f->booked = booked.requests = 1 + f->extra;
	insert_booking(f, session);
	spend(w, mw_wire_string(w, tenant), session, &booked, &none, &w->when, f->settled_at);
}

/* One ledger row that counts nothing: what an autonomous durable write costs */
void
mw_record_bare(MwFlight *f)
{
	f->booked = 0;
	insert_booking(f, NULL);
}

/* ---------- after a crash ---------- */

/*
 * What was in flight when the last gateway ended without a record is unknown:
 * charged at its reservation, in the windows of its admission.  In one
 * transaction, so that it happens once.
 */
void
mw_record_recover(void)
{
	static const MwAmounts none;
	static Statement st = {
		"UPDATE mw.attempt AS a SET outcome = 'unknown', finished_at = pg_catalog.now(), estimated = true, "
		"billed_tokens = reserved_tokens, billed_requests = reserved_requests, cost = reserved_cost, billed_cost = reserved_cost, "
		"error = '" MW_LOST_IN_CRASH "' WHERE outcome = 'running' "
		"RETURNING tenant, session, billed_tokens, billed_requests, coalesce(billed_cost, 0), admitted_at, "
		"coalesce((SELECT t.settings->>'timezone' FROM mw.tenant AS t WHERE t.tenant = a.tenant), 'UTC')",
		0
	};
	uint64		n;
	SPITupleTable *rows;
	TimestampTz now = mw_calendar_now();

	mw_record_reset();
	n = run(&st, NULL, NULL);
	rows = SPI_tuptable;
	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	t = rows->vals[i];
		bool		null;
		MwAmounts	billed;
		MwWhen		when;

		billed.tokens = DatumGetInt64(SPI_getbinval(t, rows->tupdesc, 3, &null));
		billed.requests = DatumGetInt64(SPI_getbinval(t, rows->tupdesc, 4, &null));
		if (!mw_money_read(DatumGetNumeric(SPI_getbinval(t, rows->tupdesc, 5, &null)), MW_MONEY_DECIMALS, &billed.cost))
			elog(ERROR, "a reservation of mw is no amount of money");
		mw_windows_at(SPI_getvalue(t, rows->tupdesc, 7),
					  DatumGetTimestampTz(SPI_getbinval(t, rows->tupdesc, 6, &null)), &when);
		spend(NULL, SPI_getvalue(t, rows->tupdesc, 1), SPI_getvalue(t, rows->tupdesc, 2), &billed, &none, &when, now);
	}
	mw_record_sums();
}

/* ---------- sweeping ---------- */

static bool swept_sums;

/*
 * Delete a bounded number of rows that are of no use to anybody: cache rows
 * that a purge or their time has ended, and all that a dropped tenant left.
 */
bool
mw_record_sweep(void)
{
	static Statement sweeps[] = {
		{"DELETE FROM mw.cache WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.cache c JOIN mw.purge p USING (tenant) "
			"WHERE c.epoch < p.epoch LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.cache WHERE ctid = ANY (ARRAY(SELECT ctid FROM mw.cache WHERE expires_at < pg_catalog.now() LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.cache WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.cache c JOIN mw.purge p USING (tenant) "
			"WHERE NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.answer WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.answer c JOIN mw.purge p USING (tenant) "
			"WHERE NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.attempt WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.attempt c JOIN mw.purge p USING (tenant) "
			"WHERE c.outcome <> 'running' AND NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.spent WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.spent c JOIN mw.purge p USING (tenant) "
			"WHERE NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
	};
	bool		more = false;

	swept_sums = false;
	for (int i = 0; i < lengthof(sweeps); i++)
	{
		uint64		n = run(&sweeps[i], NULL, NULL);

		more |= n >= 1000;
		if (i == lengthof(sweeps) - 1)
			swept_sums = n > 0;
	}
	if (swept_sums)
		forget_sums();
	return more;
}

/* The last sweep took sums away: what shared memory knows of them is void after its commit */
bool
mw_record_swept_sums(void)
{
	return swept_sums;
}

/* ---------- locks ---------- */

static bool locked;

/*
 * While calls are in flight DROP EXTENSION has to wait for them: their outcome
 * has to be written.  Session-level locks, since no transaction is open then.
 */
void
mw_record_lock_tables(bool lock)
{
	static const char *const tables[] = {"attempt", "spent", "answer", "cache"};
	static LockRelId held[lengthof(tables)];

	if (lock == locked)
		return;
	if (lock)
	{
		Oid			nsp = get_namespace_oid("mw", false);

		/* the transaction's own locks first: what can fail must not leave session locks behind */
		for (int i = 0; i < lengthof(tables); i++)
		{
			held[i].relId = get_relname_relid(tables[i], nsp);
			held[i].dbId = MyDatabaseId;
			if (!OidIsValid(held[i].relId))
				elog(ERROR, "extension mw is not there any more");
			LockRelationOid(held[i].relId, RowExclusiveLock);
		}
		for (int i = 0; i < lengthof(tables); i++)
			LockRelationIdForSession(&held[i], RowExclusiveLock);
	}
	else
	{
		for (int i = 0; i < lengthof(tables); i++)
			UnlockRelationIdForSession(&held[i], RowExclusiveLock);
	}
	locked = lock;
}

/* A transaction was aborted: the end of one takes the locks of its session too */
void
mw_record_locks_lost(void)
{
	locked = false;
}
