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
 */
#include "mw.h"

#include <math.h>

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "util/faults.h"
#include "util/hash.h"

#define SWEEP_ROWS "1000"

/* A saved plan, prepared at first use */
typedef struct Statement
{
	const char *sql;
	int			nargs;
	Oid			types[16];
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

/* ---------- sums of a round ---------- */

typedef struct Sum
{
	const char *tenant;
	const char *session;		/* "": the tenant */
	int64		requests;
	int64		tokens;
	int64		excess;
} Sum;

static Sum *sums;
static int	nsums,
			sums_size;

void
mw_record_reset(void)
{
	nsums = 0;
	sums_size = 0;
	sums = NULL;				/* lay in the last round's context */
}

static void
add_to(const char *tenant, const char *session, int64 requests, int64 tokens, int64 excess)
{
	Sum		   *s = NULL;

	for (int i = nsums - 1; i >= 0 && s == NULL; i--)
		if (strcmp(sums[i].tenant, tenant) == 0 && strcmp(sums[i].session, session) == 0)
			s = &sums[i];
	if (s == NULL)
	{
		if (nsums == sums_size)
		{
			sums_size = sums_size ? sums_size * 2 : 16;
			sums = sums ? repalloc(sums, sums_size * sizeof(Sum)) : palloc(sums_size * sizeof(Sum));
		}
		s = &sums[nsums++];
		*s = (Sum) {tenant, session};
	}
	s->requests += requests;
	s->tokens += tokens;
	s->excess += excess;
}

static void
spend(const char *tenant, const char *session, int64 requests, int64 tokens, int64 excess)
{
	if (requests == 0 && tokens == 0 && excess == 0)
		return;
	add_to(tenant, "", requests, tokens, excess);
	if (session != NULL)
		add_to(tenant, session, requests, tokens, excess);
}

void
mw_record_sums(void)
{
	/* nobody else writes here, so that an INSERT after an UPDATE of nothing cannot collide; ON CONFLICT looks twice */
	static Statement add = {
		"UPDATE mw.spent SET requests = requests + $3, tokens = tokens + $4, excess_tokens = excess_tokens + $5 "
		"WHERE tenant = $1 AND session = $2",
		5, {TEXTOID, TEXTOID, INT8OID, INT8OID, INT8OID}
	};
	static Statement first = {
		"INSERT INTO mw.spent (tenant, session, requests, tokens, excess_tokens) VALUES ($1, $2, $3, $4, $5)",
		5, {TEXTOID, TEXTOID, INT8OID, INT8OID, INT8OID}
	};

	for (int i = 0; i < nsums; i++)
	{
		Datum		values[5] = {
			CStringGetTextDatum(sums[i].tenant), CStringGetTextDatum(sums[i].session),
			Int64GetDatum(sums[i].requests), Int64GetDatum(sums[i].tokens), Int64GetDatum(sums[i].excess)
		};

		if (run(&add, values, NULL) == 0)
			run(&first, values, NULL);
	}
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
		"call_key, nth, started_at, outcome, reserved_tokens, reserved_requests) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'running', $14, $15)",
		15, {TEXTOID, UUIDOID, INT4OID, INT4OID, TEXTOID, TEXTOID, BOOLOID, INT4OID, TEXTOID, TEXTOID,
		BYTEAOID, INT4OID, TIMESTAMPTZOID, INT8OID, INT8OID}
	};
	MwWire	   *w = f->w;
	char		nulls[15];
	Datum		values[15];

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
	values[13] = Int64GetDatum(w->reserved_tokens);
	values[14] = Int64GetDatum(w->reserved_requests);
	run(&st, values, nulls);
	f->send = true;
}

/* ---------- outcomes ---------- */

void
mw_record_outcome(MwFlight *f)
{
	static Statement st = {
		"UPDATE mw.attempt SET finished_at = $5, outcome = $6, http_status = $7, input_tokens = $8, output_tokens = $9, "
		"cached_tokens = $10, reasoning_tokens = $11, billed_tokens = $12, billed_requests = $13, estimated = $14, error = $15 "
		"WHERE tenant = $1 AND run_id = $2 AND call = $3 AND attempt = $4",
		15, {TEXTOID, UUIDOID, INT4OID, INT4OID, TIMESTAMPTZOID, TEXTOID, INT4OID, INT8OID, INT8OID,
		INT8OID, INT8OID, INT8OID, INT8OID, BOOLOID, TEXTOID}
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
	char		nulls[15];
	Datum		values[15];

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
	if (!f->bill.has_usage)
		nulls[7] = nulls[8] = nulls[9] = nulls[10] = 'n';
	values[11] = Int64GetDatum(f->bill.tokens);
	values[12] = Int64GetDatum(f->bill.requests);
	values[13] = BoolGetDatum(f->bill.usage.estimated);
	values[14] = text_or_null(f->reply.error[0] ? f->reply.error : NULL, nulls, 14);
	run(&st, values, nulls);

	spend(tenant, mw_wire_string(w, session), f->bill.requests, f->bill.tokens, f->bill.excess);

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

void
mw_record_load(MwFlight *f)
{
	static Statement st = {
		"SELECT tokens, requests FROM mw.spent WHERE tenant = $1 AND session = $2",
		2, {TEXTOID, TEXTOID}
	};
	MwWire	   *w = f->w;

	for (int i = 0; i < w->nscopes; i++)
	{
		Datum		values[2] = {
			CStringGetTextDatum(mw_wire_string(w, tenant)),
			CStringGetTextDatum(i == 0 ? "" : mw_wire_string(w, session))
		};
		bool		null;

		f->load_tokens[i] = f->load_requests[i] = 0;
		if (w->limited[i] && run(&st, values, NULL) > 0)
		{
			f->load_tokens[i] = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
			f->load_requests[i] = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &null));
		}
	}
}

/* The scopes of a booking: those with a limit on requests */
int
mw_booking_scopes(const MwWire *w, MwKey *keys, double *limits)
{
	int			n = 0;

	for (int i = 0; i < w->nscopes; i++)
		if (!isinf(w->limit_requests[i]))
		{
			keys[n] = w->scope[i];
			limits[n++] = w->limit_requests[i];
		}
	return n;
}

static void
insert_booking(MwFlight *f, const char *session)
{
	static Statement st = {
		"INSERT INTO mw.attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, purpose, model, "
		"started_at, finished_at, outcome, reserved_tokens, reserved_requests, billed_requests) "
		"VALUES ($1, $2, 0, $3, $4, $5, false, 0, $6, $7, $8, $8, 'ok', 0, 0, $9)",
		9, {TEXTOID, UUIDOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, INT8OID}
	};
	static int	booking;		/* tells bookings of one run apart */
	MwWire	   *w = f->w;
	char		nulls[9];
	Datum		values[9];

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
	run(&st, values, nulls);
}

/*
 * Book hits: the caller's own, and more in advance where plenty is left.  What
 * is booked against the tenant alone belongs to no session.
 */
void
mw_record_booking(MwFlight *f)
{
	MwWire	   *w = f->w;
	MwKey		keys[MW_MAX_SCOPES];
	double		limits[MW_MAX_SCOPES];
	int			n = mw_booking_scopes(w, keys, limits);
	const char *session = isinf(w->limit_requests[w->nscopes - 1]) ? NULL : mw_wire_string(w, session);

	/* the caller's own request is reserved already, so that one is always to be had */
	f->extra = mw_counters_hold_block(keys, limits, n);
	f->booked = 1 + f->extra;
	insert_booking(f, session);
	spend(mw_wire_string(w, tenant), session, f->booked, 0, 0);
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
 * charged at its reservation.  In one statement, so that it happens once.
 */
void
mw_record_recover(void)
{
	static Statement st = {
		"WITH lost AS (UPDATE mw.attempt SET outcome = 'unknown', finished_at = pg_catalog.now(), estimated = true, "
		"billed_tokens = reserved_tokens, billed_requests = reserved_requests, error = '" MW_LOST_IN_CRASH "' "
		"WHERE outcome = 'running' RETURNING tenant, session, billed_tokens, billed_requests), "
		"scopes AS (SELECT tenant, '' AS session, billed_tokens, billed_requests FROM lost "
		"UNION ALL SELECT tenant, session, billed_tokens, billed_requests FROM lost WHERE session IS NOT NULL) "
		"INSERT INTO mw.spent AS s (tenant, session, requests, tokens) "
		"SELECT tenant, session, sum(billed_requests), sum(billed_tokens) FROM scopes GROUP BY tenant, session "
		"ON CONFLICT (tenant, session) DO UPDATE SET requests = s.requests + excluded.requests, tokens = s.tokens + excluded.tokens",
		0
	};

	run(&st, NULL, NULL);
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
	return more;
}

/* The last sweep took sums away: what shared memory knows of them is void after its commit */
bool
mw_record_swept_sums(void)
{
	return swept_sums;
}

/* ---------- locks ---------- */

/*
 * While calls are in flight DROP EXTENSION has to wait for them: their outcome
 * has to be written.  Session-level locks, since no transaction is open then.
 */
void
mw_record_lock_tables(bool lock)
{
	static const char *const tables[] = {"attempt", "spent", "answer", "cache"};
	static LockRelId held[lengthof(tables)];
	static bool locked;

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
