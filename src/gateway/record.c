/*
 * record.c - the durable writes of the gateway: attempts, outcomes, recorded
 * answers, cache rows.
 *
 * Everything here runs inside the one transaction of a round (worker.c), row by
 * row (table.c), as the bootstrap superuser with search_path = pg_catalog; only
 * the gateway writes these tables, so nothing here can wait for a caller.
 *
 * The sums of a round are added up in memory and written once a scope, so that
 * a hundred calls of one tenant that end together cost one update of its row.
 * Who commits says so (mw_sums_committed).
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "commands/async.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "util/table.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/money.h"

uint64
mw_statement_run(MwStatement *st, Datum *values, const char *nulls)
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

/* ---------- rows ---------- */

/* Columns of mw.attempt: the same names, the same order */
enum
{
	TENANT, RUN_ID, CALL, ATTEMPT, SESSION, REQUEST_ID, REQUEST_NAMED, TURN, PURPOSE, MODEL, CALL_KEY, NTH,
	STARTED_AT, FINISHED_AT, OUTCOME, HTTP_STATUS, INPUT_TOKENS, OUTPUT_TOKENS, CACHED_TOKENS, REASONING_TOKENS,
	RESERVED_TOKENS, RESERVED_REQUESTS, BILLED_TOKENS, BILLED_REQUESTS, ESTIMATED, ERROR_TEXT, ADMITTED_AT,
	AUDIO_INPUT_TOKENS, AUDIO_OUTPUT_TOKENS, INPUT_PRICE, OUTPUT_PRICE, CACHED_PRICE, RESERVED_COST, COST, BILLED_COST,
	ATTEMPT_COLUMNS
};

static MwTable attempts = {
	.name = "attempt",.nkeys = 4,.equal = {F_TEXTEQ, F_UUID_EQ, F_INT4EQ, F_INT4EQ},
	.ncolumns = ATTEMPT_COLUMNS,.columns = {
		"tenant", "run_id", "call", "attempt", "session", "request_id", "request_named", "turn", "purpose", "model", "call_key", "nth",
		"started_at", "finished_at", "outcome", "http_status", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens",
		"reserved_tokens", "reserved_requests", "billed_tokens", "billed_requests", "estimated", "error", "admitted_at",
		"audio_input_tokens", "audio_output_tokens", "input_price", "output_price", "cached_price", "reserved_cost", "cost", "billed_cost"
	}
};

enum
{
	ANSWER_TENANT, ANSWER_REQUEST_ID, ANSWER_CALL_KEY, ANSWER_NTH, ANSWER_USABLE, ANSWER_BODY, ANSWER_CREATED_AT, ANSWER_COLUMNS
};

static MwTable answers = {
	.name = "answer",.nkeys = 4,.equal = {F_TEXTEQ, F_TEXTEQ, F_BYTEAEQ, F_INT4EQ},
	.ncolumns = ANSWER_COLUMNS,.columns = {"tenant", "request_id", "call_key", "nth", "usable", "body", "created_at"}
};

enum
{
	CACHE_TENANT, CACHE_KEY, CACHE_MODEL, CACHE_EPOCH, CACHE_CREATED_AT, CACHE_EXPIRES_AT, CACHE_BODY, CACHE_COLUMNS
};

static MwTable cached = {
	.name = "cache",.nkeys = 2,.equal = {F_TEXTEQ, F_BYTEAEQ},
	.ncolumns = CACHE_COLUMNS,.columns = {"tenant", "key", "model", "epoch", "created_at", "expires_at", "body"}
};

/* A row in the making: what is not set is null */
typedef struct Row
{
	Datum		values[MW_TABLE_COLUMNS];
	bool		nulls[MW_TABLE_COLUMNS];
} Row;

static void
row_init(Row *row)
{
	memset(row->nulls, true, sizeof(row->nulls));
}

static void
set(Row *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

static void
set_text(Row *row, int column, const char *s)
{
	if (s != NULL)
		set(row, column, CStringGetTextDatum(s));
}

/* Money that is not known has no figure */
static void
set_money(Row *row, int column, bool known, MwMoney money)
{
	if (known)
		set(row, column, NumericGetDatum(mw_money_numeric(money)));
}

static void
attempt_key(Row *row, const MwWire *w)
{
	set_text(row, TENANT, mw_wire_string(w, tenant));
	set(row, RUN_ID, UUIDPGetDatum(&w->run_id));
	set(row, CALL, Int32GetDatum(w->call_no));
	set(row, ATTEMPT, Int32GetDatum(w->attempt));
}

static void
answer_key(Row *row, const MwWire *w)
{
	set_text(row, ANSWER_TENANT, mw_wire_string(w, tenant));
	set_text(row, ANSWER_REQUEST_ID, mw_wire_string(w, request_id));
	set(row, ANSWER_CALL_KEY, PointerGetDatum(mw_key_bytea(&w->call_key)));
	set(row, ANSWER_NTH, Int32GetDatum(w->nth));
}

/* ---------- attempts ---------- */

/*
 * What an earlier run of this request_id left for these bytes.  Returns true
 * where nothing has to be sent.
 */
static bool
left_by_earlier_run(MwFlight *f)
{
	static MwStatement lost = {
		"SELECT count(*), count(*) FILTER (WHERE error = '" MW_LOST_IN_CRASH "') FROM mw.attempt "
		"WHERE tenant = $1 AND request_id = $2 AND call_key = $3 AND nth = $4 AND request_named AND outcome = 'unknown' "
		"AND run_id <> $5",		/* of this run the retry stage knows */
		5, {TEXTOID, TEXTOID, BYTEAOID, INT4OID, UUIDOID}
	};
	MwWire	   *w = f->w;
	Row			row;
	Datum		values[5];
	bool		null;
	HeapTuple	t;
	int64		unknown,
				crashes;

	answer_key(&row, w);
	if (mw_table_find(&answers, row.values, NULL, row.values, row.nulls))
	{
		text	   *body = DatumGetTextPP(row.values[ANSWER_BODY]);
		MemoryContext spi = MemoryContextSwitchTo(mw_round_context());

		f->bill.kind = DatumGetBool(row.values[ANSWER_USABLE]) ? MW_OUTCOME_OK : MW_OUTCOME_FAILED;
		f->body_len = VARSIZE_ANY_EXHDR(body);
		f->body = text_to_cstring(body);
		MemoryContextSwitchTo(spi);
		f->reply.recorded = true;
		f->reply.http_status = 200;
		return true;
	}
	memcpy(values, row.values, 4 * sizeof(Datum));
	values[4] = UUIDPGetDatum(&w->run_id);
	mw_statement_run(&lost, values, NULL);
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
	MwWire	   *w = f->w;
	bool		priced = w->price.known;
	Row			row;

	if (w->request_named && left_by_earlier_run(f))
	{
		f->resolved = true;
		return;
	}
	mw_fault("attempt");
	f->started_at = GetCurrentTimestamp();
	row_init(&row);
	attempt_key(&row, w);
	set_text(&row, SESSION, mw_wire_string(w, session));
	set_text(&row, REQUEST_ID, mw_wire_string(w, request_id));
	set(&row, REQUEST_NAMED, BoolGetDatum(w->request_named));
	set(&row, TURN, Int32GetDatum(w->turn));
	set_text(&row, PURPOSE, mw_wire_string(w, purpose));
	set_text(&row, MODEL, mw_wire_string(w, model));
	set(&row, CALL_KEY, PointerGetDatum(mw_key_bytea(&w->call_key)));
	set(&row, NTH, Int32GetDatum(w->nth));
	set(&row, STARTED_AT, TimestampTzGetDatum(f->started_at));
	set_text(&row, OUTCOME, "running");
	set(&row, RESERVED_TOKENS, Int64GetDatum(w->hold.amount.tokens));
	set(&row, RESERVED_REQUESTS, Int64GetDatum(w->hold.amount.requests));
	set(&row, BILLED_TOKENS, Int64GetDatum(0));
	set(&row, BILLED_REQUESTS, Int64GetDatum(0));
	set(&row, ESTIMATED, BoolGetDatum(false));
	set(&row, ADMITTED_AT, TimestampTzGetDatum(w->when.admitted_at));
	set_money(&row, RESERVED_COST, priced, w->bound);
	set_money(&row, INPUT_PRICE, priced, mw_price_per_million(w->price.input));
	set_money(&row, OUTPUT_PRICE, priced, mw_price_per_million(w->price.output));
	set_money(&row, CACHED_PRICE, priced, mw_price_per_million(w->price.cached));
	f->row = mw_table_insert(&attempts, row.values, row.nulls);
	f->settled_at = mw_calendar_now();
	mw_sums_begin(w, f->settled_at);
	f->send = true;
}

/* ---------- outcomes ---------- */

/* The attempt's row, which is there unless somebody has deleted it */
static void
end_attempt(MwFlight *f, TimestampTz now)
{
	MwWire	   *w = f->w;
	const MwUsage *u = &f->bill.usage;
	Row			row;

	attempt_key(&row, w);
	if (!mw_table_find(&attempts, row.values, &f->row, row.values, row.nulls))
		return;
	set(&row, FINISHED_AT, TimestampTzGetDatum(now));
	set_text(&row, OUTCOME, mw_outcome_name(f->bill.kind));
	if (f->bill.http_status != 0)
		set(&row, HTTP_STATUS, Int32GetDatum(f->bill.http_status));
	if (f->bill.has_usage)
	{
		set(&row, INPUT_TOKENS, Int64GetDatum(u->input_tokens));
		set(&row, OUTPUT_TOKENS, Int64GetDatum(u->output_tokens));
		set(&row, CACHED_TOKENS, Int64GetDatum(u->cached_tokens));
		set(&row, REASONING_TOKENS, Int64GetDatum(u->reasoning_tokens));
		set(&row, AUDIO_INPUT_TOKENS, Int64GetDatum(u->audio_input_tokens));
		set(&row, AUDIO_OUTPUT_TOKENS, Int64GetDatum(u->audio_output_tokens));
	}
	set(&row, BILLED_TOKENS, Int64GetDatum(f->bill.billed.tokens));
	set(&row, BILLED_REQUESTS, Int64GetDatum(f->bill.billed.requests));
	set(&row, ESTIMATED, BoolGetDatum(u->estimated));
	set_text(&row, ERROR_TEXT, f->reply.error[0] ? f->reply.error : NULL);
	set_money(&row, COST, f->bill.priced, f->bill.cost);
	set_money(&row, BILLED_COST, w->price.known, f->bill.billed.cost);
	mw_table_update(&attempts, row.values, row.nulls);
}

/* What was paid for once: a row that is there already is as good */
static void
record_answer(MwFlight *f, TimestampTz now)
{
	Row			row;

	row_init(&row);
	answer_key(&row, f->w);
	if (mw_table_find(&answers, row.values, NULL, NULL, NULL))
		return;
	/* of one that cannot be used it is enough to know that it was paid for */
	set(&row, ANSWER_USABLE, BoolGetDatum(f->bill.kind == MW_OUTCOME_OK));
	set(&row, ANSWER_BODY, PointerGetDatum(cstring_to_text_with_len(f->body ? f->body : "", f->body_len)));
	set(&row, ANSWER_CREATED_AT, TimestampTzGetDatum(now));
	mw_table_insert(&answers, row.values, row.nulls);
}

/* An answer of before a purge does not take the place of one of after it */
static void
store_in_cache(MwFlight *f, TimestampTz now)
{
	MwWire	   *w = f->w;
	Row			found;
	Row			row;
	bool		there;

	row_init(&row);
	set_text(&row, CACHE_TENANT, mw_wire_string(w, tenant));
	set(&row, CACHE_KEY, PointerGetDatum(mw_key_bytea(&w->cache_key)));
	there = mw_table_find(&cached, row.values, NULL, found.values, found.nulls);
	if (there && DatumGetInt64(found.values[CACHE_EPOCH]) > w->cache_epoch)
		return;
	set_text(&row, CACHE_MODEL, mw_wire_string(w, model));
	set(&row, CACHE_EPOCH, Int64GetDatum(w->cache_epoch));
	set(&row, CACHE_CREATED_AT, TimestampTzGetDatum(now));
	set(&row, CACHE_EXPIRES_AT, TimestampTzGetDatum(now + (int64) w->cache_ttl * USECS_PER_SEC));
	set(&row, CACHE_BODY, PointerGetDatum(cstring_to_text_with_len(f->body, f->body_len)));
	if (there)
		mw_table_update(&cached, row.values, row.nulls);
	else
		mw_table_insert(&cached, row.values, row.nulls);
}

void
mw_record_outcome(MwFlight *f)
{
	MwWire	   *w = f->w;
	TimestampTz now = GetCurrentTimestamp();

	mw_fault("settle");
	end_attempt(f, now);
	mw_sums_spend(w, mw_wire_string(w, tenant), mw_wire_string(w, session), &f->bill.billed, &f->bill.excess, &w->when, f->settled_at);
	if (w->request_named && f->bill.keep)
		record_answer(f, now);
	if (w->cacheable && f->bill.kind == MW_OUTCOME_OK && f->bill.outcome.cacheable)
	{
		mw_fault("cache_put");
		store_in_cache(f, now);
	}
}

/* ---------- bookings ---------- */

/* The scope of a block of hits: the only one that limits requests */
const MwKey *
mw_booking_key(const MwWire *w)
{
	return &w->hold.key[w->counts_requests & 1 ? 0 : 1];
}

static void
insert_booking(MwFlight *f, const char *session)
{
	static uint32 booking;		/* tells bookings of one run apart, those of an earlier gateway too */
	MwWire	   *w = f->w;
	TimestampTz now = GetCurrentTimestamp();
	Row			row;

	if (booking == 0)
		booking = pg_prng_uint32(&pg_global_prng_state);
	row_init(&row);
	set_text(&row, TENANT, mw_wire_string(w, tenant));
	set(&row, RUN_ID, UUIDPGetDatum(&w->run_id));
	set(&row, CALL, Int32GetDatum(0));
	set(&row, ATTEMPT, Int32GetDatum(++booking & PG_INT32_MAX));
	set_text(&row, SESSION, session);
	set_text(&row, REQUEST_ID, mw_wire_string(w, request_id));
	set(&row, REQUEST_NAMED, BoolGetDatum(false));
	set(&row, TURN, Int32GetDatum(0));
	set_text(&row, PURPOSE, mw_wire_string(w, purpose));
	set_text(&row, MODEL, mw_wire_string(w, model));
	set(&row, STARTED_AT, TimestampTzGetDatum(now));
	set(&row, FINISHED_AT, TimestampTzGetDatum(now));
	set_text(&row, OUTCOME, "ok");
	set(&row, RESERVED_TOKENS, Int64GetDatum(0));
	set(&row, RESERVED_REQUESTS, Int64GetDatum(0));
	set(&row, BILLED_TOKENS, Int64GetDatum(0));
	set(&row, BILLED_REQUESTS, Int64GetDatum(f->booked));
	set(&row, ESTIMATED, BoolGetDatum(false));
	set(&row, ADMITTED_AT, TimestampTzGetDatum(w->when.admitted_at));
	mw_table_insert(&attempts, row.values, row.nulls);
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
	mw_sums_spend(w, mw_wire_string(w, tenant), session, &booked, &none, &w->when, f->settled_at);
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
	static MwStatement st = {
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

	mw_sums_reset();
	n = mw_statement_run(&st, NULL, NULL);
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
		mw_sums_spend(NULL, SPI_getvalue(t, rows->tupdesc, 1), SPI_getvalue(t, rows->tupdesc, 2), &billed, &none, &when, now);
	}
	mw_sums_write();
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
