/*
 * fake.c - the gateway's twin for servers with api 'fake': the second
 * implementation of MwTransport.
 *
 * It answers in the backend, from the script that mw_fake set, and needs
 * neither a worker nor preloading.  Everything it keeps (attempts, sums,
 * recorded answers, cache rows) are rows of the caller's transaction in the
 * mw.fake_* tables, written as the owner, so that a test that rolls back leaves
 * nothing.  What a response means, what it costs and what may be stored follows
 * the same rules as in the gateway: an attempt is not sent, failed, ok or
 * unknown (DESIGN, invariant 5), and billed by usage, by our own count, or at
 * its reservation.
 *
 * Budgets.  Nothing is reserved: within a transaction no other call of the
 * tenant runs between admission and settlement.  Against other backends an
 * advisory lock of the tenant, taken at the first look at its sums and held to
 * the end of the transaction, makes admission as exact as the gateway's: fake
 * calls of one tenant run one transaction after another, which their rows in
 * mw.fake_spent would force upon them anyway.  It is the only lock here, so
 * callers of one tenant cannot deadlock over it.  Its tag is of a class of its
 * own and never equal to one that pg_advisory_lock makes.
 */
#include "mw.h"

#include <math.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "gateway/bill.h"
#include "gateway/script.h"
#include "gateway/shm.h"
#include "gateway/stored.h"
#include "gateway/transport.h"
#include "util/hash.h"
#include "util/spi.h"

/* SQL's functions use 1 and 2 in this place of an advisory lock's tag, claims of request_ids 0x6d77 */
#define LOCK_CLASS		0x6d78

/* ---------- sums ---------- */

/* The tenant's scope names it: keyed, since pg_locks shows the tag to every role and names can be guessed */
static void
lock_tenant(const MwReservation *r)
{
	LOCKTAG		tag;
	uint32		half[2];

	memcpy(half, r->scopes[0].key.b, sizeof(half));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, half[0], half[1], LOCK_CLASS);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* What a scope has used; inside SPI */
static void
read_spent(const char *tenant, const char *session, int64 *requests, int64 *tokens)
{
	static MwStmt stmt = {
		"SELECT requests, tokens FROM mw.fake_spent WHERE tenant = $1 AND session = $2",
		2, {TEXTOID, TEXTOID}
	};
	Datum		args[2];
	bool		isnull;

	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(session ? session : "");
	*requests = *tokens = 0;
	if (mw_spi_read(&stmt, MW_AS_CALLER, args, NULL, 1) > 0)
	{
		*requests = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
		*tokens = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull));
	}
}

static void
add_spent(const char *tenant, const char *session, int64 requests, int64 tokens, int64 excess)
{
	static MwStmt stmt = {
		"INSERT INTO mw.fake_spent AS s (tenant, session, requests, tokens, excess_tokens) "
		"VALUES ($1, $2, $3, $4, $5) "
		"ON CONFLICT (tenant, session) DO UPDATE SET requests = s.requests + excluded.requests, "
		"tokens = s.tokens + excluded.tokens, excess_tokens = s.excess_tokens + excluded.excess_tokens",
		5, {TEXTOID, TEXTOID, INT8OID, INT8OID, INT8OID}
	};
	Datum		args[5];

	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(session ? session : "");
	args[2] = Int64GetDatum(requests);
	args[3] = Int64GetDatum(tokens);
	args[4] = Int64GetDatum(excess);
	(void) mw_spi_write(&stmt, MW_AS_OWNER, args, NULL);
}

static int
fake_reserve(MwCall *call, const char **unit, int64 *settled, int64 *reserved, int64 *tokens_left)
{
	MwReservation *r = &call->reserved;
	bool		limited = false;
	int			refused = -1;

	for (int i = 0; i < r->nscopes; i++)
		limited |= r->scopes[i].limited;
	r->requests = r->counted ? 0 : 1;
	if (!limited)
		return -1;

	lock_tenant(&call->reserved);
	SPI_connect();
	for (int i = 0; i < r->nscopes; i++)
	{
		MwScope    *s = &r->scopes[i];
		int64		requests;
		int64		tokens;
		double		left;

		if (!s->limited)
			continue;
		read_spent(call->tenant, s->session, &requests, &tokens);
		if ((double) requests + (double) r->requests > s->limit_requests)
		{
			refused = i;
			*unit = "requests";
			*settled = requests;
			*tokens_left = -1;
			break;
		}
		if ((double) tokens + (double) r->tokens > s->limit_tokens)
		{
			/* of several that are short of tokens the shortest, so that a shrunk call fits in all */
			left = Max(s->limit_tokens - (double) tokens, 0);
			if (refused >= 0 && *tokens_left <= (int64) left)
				continue;
			refused = i;
			*unit = "tokens";
			*settled = tokens;
			*tokens_left = (int64) left;
		}
	}
	SPI_finish();
	if (refused < 0)
		r->held = true;
	else
		*reserved = 0;
	return refused;
}

/* Nothing is kept anywhere but in the call */
static void
fake_release(MwCall *call)
{
	call->reserved.held = false;
}

/* ---------- rows ---------- */

/* A ledger row, written when all is known: nobody else could see it running */
static void
write_attempt(const MwAttempt *a, TimestampTz started_at, const MwReply *reply, const MwBill *bill)
{
	static MwStmt stmt = {
		"INSERT INTO mw.fake_attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, "
		"purpose, model, call_key, nth, started_at, finished_at, outcome, http_status, "
		"input_tokens, output_tokens, cached_tokens, reasoning_tokens, reserved_tokens, reserved_requests, "
		"billed_tokens, billed_requests, estimated, error) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, pg_catalog.clock_timestamp(), $14, $15, "
		"$16[1], $16[2], $16[3], $16[4], $17, $18, $19, $20, $21, $22)",
		22, {TEXTOID, UUIDOID, INT4OID, INT4OID, TEXTOID, TEXTOID, BOOLOID, INT4OID, TEXTOID, TEXTOID, BYTEAOID,
		INT4OID, TIMESTAMPTZOID, TEXTOID, INT4OID, INT8ARRAYOID, INT8OID, INT8OID, INT8OID, INT8OID, BOOLOID, TEXTOID}
	};
	Datum		args[22];
	char		nulls[23] = "                      ";
	Datum		usage[4];

	args[0] = CStringGetTextDatum(a->tenant);
	args[1] = UUIDPGetDatum(&a->run_id);
	args[2] = Int32GetDatum(a->call_no);
	args[3] = Int32GetDatum(a->attempt);
	if (a->session != NULL)
		args[4] = CStringGetTextDatum(a->session);
	else
		nulls[4] = 'n';
	args[5] = CStringGetTextDatum(a->request_id);
	args[6] = BoolGetDatum(a->request_named);
	args[7] = Int32GetDatum(a->turn);
	args[8] = CStringGetTextDatum(a->purpose);
	args[9] = CStringGetTextDatum(a->model);
	args[10] = PointerGetDatum(mw_key_bytea(&a->call_key));
	args[11] = Int32GetDatum(a->nth);
	args[12] = TimestampTzGetDatum(started_at);
	args[13] = CStringGetTextDatum(mw_outcome_name(bill->kind));
	if (reply->http_status != 0)
		args[14] = Int32GetDatum(reply->http_status);
	else
		nulls[14] = 'n';
	if (bill->has_usage)
	{
		usage[0] = Int64GetDatum(reply->usage.input_tokens);
		usage[1] = Int64GetDatum(reply->usage.output_tokens);
		usage[2] = Int64GetDatum(reply->usage.cached_tokens);
		usage[3] = Int64GetDatum(reply->usage.reasoning_tokens);
		args[15] = PointerGetDatum(construct_array(usage, 4, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	}
	else
		nulls[15] = 'n';
	args[16] = Int64GetDatum(a->reserved->tokens);
	args[17] = Int64GetDatum(a->reserved->requests);
	args[18] = Int64GetDatum(bill->tokens);
	args[19] = Int64GetDatum(bill->requests);
	args[20] = BoolGetDatum(reply->usage.estimated);
	if (reply->error != NULL)
		args[21] = CStringGetTextDatum(reply->error);
	else
		nulls[21] = 'n';
	(void) mw_spi_write(&stmt, MW_AS_OWNER, args, nulls);
}

static void
write_answer(const MwAttempt *a, const MwReply *reply, bool usable)
{
	static MwStmt stmt = {
		"INSERT INTO mw.fake_answer (tenant, request_id, call_key, nth, usable, body, created_at) "
		"VALUES ($1, $2, $3, $4, $5, $6, pg_catalog.clock_timestamp()) ON CONFLICT DO NOTHING",
		6, {TEXTOID, TEXTOID, BYTEAOID, INT4OID, BOOLOID, TEXTOID}
	};
	Datum		args[6];

	args[0] = CStringGetTextDatum(a->tenant);
	args[1] = CStringGetTextDatum(a->request_id);
	args[2] = PointerGetDatum(mw_key_bytea(&a->call_key));
	args[3] = Int32GetDatum(a->nth);
	args[4] = BoolGetDatum(usable);
	args[5] = PointerGetDatum(cstring_to_text_with_len(reply->body, reply->body_len));
	(void) mw_spi_write(&stmt, MW_AS_OWNER, args, NULL);
}

/* A row of a newer epoch stays: a purge wins over a call that began before it */
static void
write_cache(const MwAttempt *a, const MwReply *reply)
{
	static MwStmt stmt = {
		"INSERT INTO mw.fake_cache AS c (tenant, key, model, epoch, created_at, expires_at, body) "
		"SELECT $1, $2, $3, $4, t, t + pg_catalog.make_interval(secs => $5), $6 "
		"FROM pg_catalog.clock_timestamp() AS t "
		"ON CONFLICT (tenant, key) DO UPDATE SET model = excluded.model, epoch = excluded.epoch, "
		"created_at = excluded.created_at, expires_at = excluded.expires_at, body = excluded.body "
		"WHERE c.epoch <= excluded.epoch",
		6, {TEXTOID, BYTEAOID, TEXTOID, INT8OID, FLOAT8OID, TEXTOID}
	};
	Datum		args[6];

	args[0] = CStringGetTextDatum(a->tenant);
	args[1] = PointerGetDatum(mw_key_bytea(&a->cache_key));
	args[2] = CStringGetTextDatum(a->model);
	args[3] = Int64GetDatum(a->cache_epoch);
	args[4] = Float8GetDatum((double) a->cache_ttl);
	args[5] = PointerGetDatum(cstring_to_text_with_len(reply->body, reply->body_len));
	(void) mw_spi_write(&stmt, MW_AS_OWNER, args, NULL);
}

static bool
fake_book_hit(MwCall *call)
{
	MwReservation *r = &call->reserved;
	bool		counts = false;
	bool		room = true;

	for (int i = 0; i < r->nscopes; i++)
		counts |= !isinf(r->scopes[i].limit_requests);
	if (!counts)
		return true;			/* a hit costs no tokens, and nobody counts requests */

	lock_tenant(&call->reserved);
	SPI_connect();
	for (int i = 0; i < r->nscopes && room; i++)
	{
		int64		requests;
		int64		tokens;

		if (isinf(r->scopes[i].limit_requests))
			continue;
		read_spent(call->tenant, r->scopes[i].session, &requests, &tokens);
		room = (double) requests + 1 <= r->scopes[i].limit_requests;
	}
	if (room)
	{
		MwReservation none = {0};
		MwReply		reply = {0};
		MwBill		bill = {.kind = MW_OUTCOME_OK,.requests = 1};
		MwAttempt	a = {
			.tenant = call->tenant,
			.session = call->session,
			.request_id = call->request_id,
			.run_id = call->run_id,
			.turn = call->turn,
			.call_no = call->call_no,
			.purpose = "hits",
			.model = call->model,
			.reserved = &none,
			.call_key = call->call_key,
			.nth = call->nth,
		};

		/* what only the tenant counts belongs to no session, as in the gateway */
		if (isinf(r->scopes[r->nscopes - 1].limit_requests))
			a.session = NULL;
		add_spent(call->tenant, NULL, 1, 0, 0);
		if (a.session != NULL)
			add_spent(call->tenant, a.session, 1, 0, 0);
		write_attempt(&a, GetCurrentTimestamp(), &reply, &bill);
		r->requests = 0;
	}
	SPI_finish();
	return room;
}

/* ---------- recorded and cached answers ---------- */

/*
 * What an earlier run of a request_id got for these bytes.  An attempt of this
 * very run is no earlier one: where the server's retry_unknown has it sent
 * again, its unknown outcome is what the retry is for.
 */
static MwStored
look_up_answer(const char *tenant, const char *request_id, const MwKey *key, int nth, const pg_uuid_t *run_id)
{
	static MwStmt unknown = {
		"SELECT 1 FROM mw.fake_attempt "
		"WHERE tenant = $1 AND request_id = $2 AND call_key = $3 AND nth = $4 AND request_named "
		"AND outcome = 'unknown' AND run_id <> $5",
		5, {TEXTOID, TEXTOID, BYTEAOID, INT4OID, UUIDOID}
	};
	MwStored	stored = mw_stored_answer(&mw_table_fake_answer, tenant, request_id, key, nth);
	Datum		args[5];

	if (stored.found)
		return stored;

	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(request_id);
	args[2] = PointerGetDatum(mw_key_bytea(key));
	args[3] = Int32GetDatum(nth);
	args[4] = UUIDPGetDatum(run_id);
	SPI_connect();
	stored.unknown = mw_spi_read(&unknown, MW_AS_CALLER, args, NULL, 1) > 0;
	SPI_finish();
	return stored;
}

static MwStored
fake_recorded(MwCall *call)
{
	return look_up_answer(call->tenant, call->request_id, &call->call_key, call->nth, &call->run_id);
}

static MwStored
fake_cached(MwCall *call)
{
	return mw_stored_cached(&mw_table_fake_cache, call);
}

/* ---------- one attempt ---------- */

/* Until then; a cancel, a timeout or the postmaster's end is seen at once */
static void
sleep_until(MwInstant until)
{
	for (;;)
	{
		long		ms = mw_ms_until(until);

		CHECK_FOR_INTERRUPTS();
		if (ms <= 0)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, mw_wait_event());
		ResetLatch(MyLatch);
	}
}

/* What the script answered, as a carrier would have read it */
static void
judge(const MwAttempt *a, const MwScripted *r, bool timed_out, MwReply *reply, MwBill *bill)
{
	MwHttpKind	how = r->connect_failed ? MW_HTTP_NOT_SENT : timed_out || !r->complete ? MW_HTTP_UNKNOWN : MW_HTTP_COMPLETE;
	bool		complete = how == MW_HTTP_COMPLETE;

	mw_bill_make(bill, how, timed_out ? 0 : r->status, complete ? r->body : NULL, complete ? r->len : 0,
				 r->connect_failed ? "no connection could be made" :
				 timed_out ? "no complete answer came before the deadline" :
				 !r->complete ? "the connection was closed before a complete answer" : "",
				 a->provider, a->prompt_tokens, a->reserved->tokens, a->reserved->requests);
	reply->kind = bill->kind;
	reply->http_status = bill->http_status;
	reply->retry_after_ms = r->retry_after_ms;
	reply->retry_forbidden = r->retry_forbidden || bill->outcome.hopeless;
	reply->timed_out = timed_out;
	reply->connect_failed = r->connect_failed;
	reply->usage = bill->usage;
	reply->error = bill->error[0] ? pstrdup(bill->error) : NULL;
	if (complete)
	{
		reply->body = r->body;
		reply->body_len = r->len;
	}
}

/* Book it in the sums of the tenant and of its session, limited or not: a limit may come later */
static void
settle(const MwAttempt *a, const MwBill *bill)
{
	if (bill->tokens == 0 && bill->requests == 0)
		return;
	add_spent(a->tenant, NULL, bill->requests, bill->tokens, bill->excess);
	if (a->session != NULL)
		add_spent(a->tenant, a->session, bill->requests, bill->tokens, bill->excess);
}

static MwReply *
fake_exchange(const MwAttempt *a)
{
	MwReply    *reply = palloc0(sizeof(MwReply));
	MwBill		bill;
	MwScripted *response;
	TimestampTz started_at = GetCurrentTimestamp();
	MwInstant	arrives;
	bool		timed_out;

	reply->retry_after_ms = -1;
	if (a->request_named)
	{
		MwStored	before = look_up_answer(a->tenant, a->request_id, &a->call_key, a->nth, &a->run_id);

		if (before.found)
		{
			reply->kind = before.unusable ? MW_OUTCOME_FAILED : MW_OUTCOME_OK;
			reply->http_status = 200;
			reply->recorded = true;
			reply->body = before.body;
			reply->body_len = before.body_len;
			return reply;
		}
		if (before.unknown && !a->resend_unknown)
		{
			reply->kind = MW_OUTCOME_NOT_SENT;
			reply->unknown_before = true;
			return reply;
		}
	}

	/* the tenant's turn comes before the script moves on: waiting for it may be cancelled */
	lock_tenant(a->reserved);
	response = mw_script_answer(a);
	arrives = mw_after_ms(response->delay_ms);
	timed_out = response->delay_ms > 0 && arrives.us > a->deadline.us;
	if (response->delay_ms > 0)
		sleep_until(mw_earlier(arrives, a->deadline));

	judge(a, response, timed_out, reply, &bill);
	mw_breaker_tell(&mw_breakers_scripted, a->serverid, a->breaker,
					timed_out ? MW_HEALTH_NOTHING :
					response->complete && bill.http_status < 500 ? MW_HEALTH_ALIVE : MW_HEALTH_FAILED);
	SPI_connect();
	write_attempt(a, started_at, reply, &bill);
	settle(a, &bill);
	if (bill.keep && a->request_named)
		write_answer(a, reply, bill.kind == MW_OUTCOME_OK);
	if (bill.kind == MW_OUTCOME_OK && bill.outcome.cacheable && a->cacheable)
		write_cache(a, reply);
	SPI_finish();

	/* an answer and an unknown outcome use the reservation up; a failed attempt leaves it to the next */
	reply->counted = bill.requests > 0;
	if (reply->counted)
	{
		a->reserved->counted = true;
		a->reserved->requests = 0;
	}
	if (reply->kind == MW_OUTCOME_OK || reply->kind == MW_OUTCOME_UNKNOWN)
	{
		a->reserved->held = false;
		a->reserved->tokens = 0;
	}
	return reply;
}

const MwTransport mw_transport_fake = {
	.name = "fake",
	.breakers = &mw_breakers_scripted,
	.reserve = fake_reserve,
	.release = fake_release,
	.book_hit = fake_book_hit,
	.recorded = fake_recorded,
	.cached = fake_cached,
	.exchange = fake_exchange,
};
