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
 * unknown (invariant 5), and billed by usage, by our own count, or at
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

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "gateway/bill.h"
#include "gateway/script.h"
#include "gateway/shm.h"
#include "gateway/stored.h"
#include "gateway/transport.h"
#include "util/hash.h"
#include "util/money.h"
#include "util/row.h"
#include "util/spi.h"

/* SQL's functions use 1 and 2 in this place of an advisory lock's tag, claims of request_ids 0x6d77 */
#define LOCK_CLASS		0x6d78

/* columns of mw.fake_spent and mw.fake_attempt */
enum
{
	SPENT_FIRST = 3,			/* from there on those of MW_SPENT_COLUMNS */
	ATTEMPT_RUN_ID = 2,
	ATTEMPT_OUTCOME = 15
};

/* ---------- sums ---------- */

/* The tenant's scope names it: keyed, since pg_locks shows the tag to every role and names can be guessed */
static void
lock_tenant(const MwReservation *r)
{
	LOCKTAG		tag;
	uint32		half[2];

	memcpy(half, r->hold.key[0].b, sizeof(half));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, half[0], half[1], LOCK_CLASS);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* What a scope has used */
static void
read_spent(const char *tenant, const char *session, MwSpent *spent)
{
	static MwRowTable table = {.name = "fake_spent",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ}};
	MwRow		row;
	Datum		key[2];

	key[0] = CStringGetTextDatum(tenant);
	key[1] = CStringGetTextDatum(session ? session : "");
	mw_spent_init(spent);
	if (mw_row_open(&row, &table, key))
	{
		Datum		values[MW_SPENT_NCOLUMNS];
		bool		isnull;

		for (int i = 0; i < MW_SPENT_NCOLUMNS; i++)
			values[i] = mw_row_get(&row, SPENT_FIRST + i, &isnull);
		mw_spent_from_values(spent, values);
	}
	mw_row_close(&row);
}

static void
write_spent(const char *tenant, const char *session, const MwSpent *spent)
{
	static MwStmt stmt = {
		"INSERT INTO mw.fake_spent (tenant, session, " MW_SPENT_COLUMNS ") VALUES ($1, $2, " MW_SPENT_PARAMETERS ") "
		"ON CONFLICT (tenant, session) DO UPDATE SET (" MW_SPENT_COLUMNS ") = ROW(" MW_SPENT_PARAMETERS ")",
		25, {TEXTOID, TEXTOID, MW_SPENT_TYPES}
	};
	Datum		args[2 + MW_SPENT_NCOLUMNS];

	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(session ? session : "");
	mw_spent_to_values(spent, args + 2);
	(void) mw_spi_write(&stmt, MW_AS_OWNER, args, NULL);
}

/* Book it in the sums of the tenant and of its session, limited or not: a limit may come later.  The tenant is locked. */
static void
spend(const char *tenant, const char *session, const pg_uuid_t *run_id,
	  const MwReservation *r, const MwAmounts *used, const MwAmounts *excess)
{
	for (int i = 0; i < (session != NULL ? 2 : 1); i++)
	{
		MwSpent		spent;
		MwSpent		before;

		read_spent(tenant, i == 0 ? NULL : session, &spent);
		before = spent;
		mw_spent_add(&spent, used, excess, &r->when, mw_calendar_now());
		write_spent(tenant, i == 0 ? NULL : session, &spent);
		if (r->channel != NULL && mw_spent_crosses(&before, &spent, r->scopes[i].limits->soft))
			Async_Notify(r->channel, mw_crossing_payload(run_id));
	}
}

static void
fake_used(MwCall *call, int scope, MwAmounts *used)
{
	MwSpent		spent;

	read_spent(call->tenant, call->reserved.scopes[scope].session, &spent);
	for (int w = 0; w < MW_NWINDOWS; w++)
		used[w] = mw_spent_in(&spent, w, &call->reserved.when);
}

/* Where the clock went back a sum goes with it, or its budget would be stuck until then */
static void
follow_clock(const char *tenant, const char *session, MwSpent *spent, const MwWhen *when)
{
	bool		moved = false;

	for (int w = MW_MINUTE; w < MW_NWINDOWS; w++)
	{
		if (mw_window_meet(w, spent->start[w], when->start[w], when->admitted_at, when->admitted_at) != MW_MEET_BACK)
			continue;
		spent->start[w] = when->start[w];
		moved = true;
	}
	if (moved)
		write_spent(tenant, session, spent);
}

/* Does what the reservation asks for fit, in all limits? */
static bool
admit(MwCall *call, MwRefusal *why)
{
	MwReservation *r = &call->reserved;

	mw_refusal_none(why);
	lock_tenant(r);
	SPI_connect();
	for (int i = 0; i < r->hold.n; i++)
	{
		MwSpent		spent;

		if (r->scopes[i].limits->windows == 0)
			continue;
		read_spent(call->tenant, r->scopes[i].session, &spent);
		follow_clock(call->tenant, r->scopes[i].session, &spent, &r->when);
		for (int w = 0; w < MW_NWINDOWS; w++)
		{
			static const MwAmounts nothing;
			MwAmounts	used = mw_spent_in(&spent, w, &r->when);

			if (r->scopes[i].limits->windows & 1 << w)
				mw_refusal_check(why, r, i, w, &used, &nothing);
		}
	}
	SPI_finish();
	return !mw_refused(why);
}

static bool
fake_reserve(MwCall *call, MwRefusal *why)
{
	MwReservation *r = &call->reserved;
	bool		limited = false;

	for (int i = 0; i < r->hold.n; i++)
		limited |= r->scopes[i].limits->windows != 0;
	if (!limited)
		return true;
	r->held = admit(call, why);
	return r->held;
}

/* Nothing is kept anywhere but in the call */
static void
fake_release(MwCall *call)
{
	call->reserved.held = false;
}

/* ---------- rows ---------- */

/* reserved_cost, cost, billed_cost and the three prices, NULL where there is no price */
static Datum
money_figures(const MwReservation *r, const MwBill *bill)
{
	const MwMoney money[6] = {
		r->bound, bill->cost, bill->billed.cost, mw_price_per_million(r->price.input),
		mw_price_per_million(r->price.output), mw_price_per_million(r->price.cached)
	};
	Datum		values[6];
	bool		nulls[6];
	int			dims[1] = {6};
	int			lower[1] = {1};

	for (int i = 0; i < 6; i++)
	{
		nulls[i] = !r->price.known || (i == 1 && !bill->priced);
		values[i] = NumericGetDatum(mw_money_numeric(money[i]));
	}
	return PointerGetDatum(construct_md_array(values, nulls, 1, dims, lower, NUMERICOID, -1, false, TYPALIGN_INT));
}

/* A ledger row, written when all is known: nobody else could see it running */
static void
write_attempt(const MwAttempt *a, TimestampTz started_at, const MwReply *reply, const MwBill *bill)
{
	static MwStmt stmt = {
		"INSERT INTO mw.fake_attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, "
		"purpose, model, call_key, nth, started_at, finished_at, outcome, http_status, "
		"input_tokens, output_tokens, cached_tokens, reasoning_tokens, reserved_tokens, reserved_requests, "
		"billed_tokens, billed_requests, estimated, error, audio_input_tokens, audio_output_tokens, admitted_at, "
		"reserved_cost, cost, billed_cost, input_price, output_price, cached_price) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, pg_catalog.clock_timestamp(), $14, $15, "
		"$16[1], $16[2], $16[3], $16[4], $17, $18, $19, $20, $21, $22, $16[5], $16[6], $23, "
		"$24[1], $24[2], $24[3], $24[4], $24[5], $24[6])",
		24, {TEXTOID, UUIDOID, INT4OID, INT4OID, TEXTOID, TEXTOID, BOOLOID, INT4OID, TEXTOID, TEXTOID, BYTEAOID,
		INT4OID, TIMESTAMPTZOID, TEXTOID, INT4OID, INT8ARRAYOID, INT8OID, INT8OID, INT8OID, INT8OID, BOOLOID, TEXTOID,
		TIMESTAMPTZOID, NUMERICARRAYOID}
	};
	Datum		args[24];
	char		nulls[25] = "                        ";
	Datum		usage[6];
	const MwReservation *r = a->reserved;

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
		usage[4] = Int64GetDatum(reply->usage.audio_input_tokens);
		usage[5] = Int64GetDatum(reply->usage.audio_output_tokens);
		args[15] = PointerGetDatum(construct_array(usage, 6, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	}
	else
		nulls[15] = 'n';
	args[16] = Int64GetDatum(r->hold.amount.tokens);
	args[17] = Int64GetDatum(r->hold.amount.requests);
	args[18] = Int64GetDatum(bill->billed.tokens);
	args[19] = Int64GetDatum(bill->billed.requests);
	args[20] = BoolGetDatum(reply->usage.estimated);
	if (reply->error != NULL)
		args[21] = CStringGetTextDatum(reply->error);
	else
		nulls[21] = 'n';
	args[22] = TimestampTzGetDatum(r->when.admitted_at);
	args[23] = money_figures(r, bill);
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
	MwRefusal	why;
	bool		counts = false;
	bool		room;

	for (int i = 0; i < r->hold.n; i++)
		counts |= r->scopes[i].limits->requests != 0;
	if (!counts)
		return true;			/* a hit costs no tokens, and nobody counts requests */

	r->hold.amount = (MwAmounts) {.requests = 1};
	room = admit(call, &why);
	if (!room)
	{
		r->short_of = palloc(sizeof(MwRefusal));
		*r->short_of = why;
	}
	SPI_connect();
	if (room)
	{
		static const MwAmounts no_excess;
		MwReservation none = {.when = r->when};
		MwReply		reply = {0};
		MwBill		bill = {.kind = MW_OUTCOME_OK,.billed = {.requests = 1}};
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
		if (r->scopes[r->hold.n - 1].limits->requests == 0)
			a.session = NULL;
		spend(call->tenant, a.session, &call->run_id, r, &bill.billed, &no_excess);
		write_attempt(&a, GetCurrentTimestamp(), &reply, &bill);
		r->hold.amount.requests = 0;
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
	static MwRowTable attempts = {
		.name = "fake_attempt",.index = "fake_attempt_request",.nkeys = 4,.equal = {F_TEXTEQ, F_TEXTEQ, F_BYTEAEQ, F_INT4EQ}
	};
	MwStored	stored = mw_stored_answer(&mw_table_fake_answer, tenant, request_id, key, nth);
	Datum		named[4];
	MwRow		row;

	if (stored.found)
		return stored;

	named[0] = CStringGetTextDatum(tenant);
	named[1] = CStringGetTextDatum(request_id);
	named[2] = PointerGetDatum(mw_key_bytea(key));
	named[3] = Int32GetDatum(nth);
	for (bool more = mw_row_open(&row, &attempts, named); more && !stored.unknown; more = mw_row_next(&row))
	{
		bool		isnull;
		char	   *outcome = TextDatumGetCString(mw_row_get(&row, ATTEMPT_OUTCOME, &isnull));
		pg_uuid_t  *run = DatumGetUUIDP(mw_row_get(&row, ATTEMPT_RUN_ID, &isnull));

		stored.unknown = strcmp(outcome, "unknown") == 0 && memcmp(run, run_id, sizeof(*run)) != 0;
	}
	mw_row_close(&row);
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
				 a->provider, a->reserved->prompt_tokens, &a->reserved->price,
				 (MwAmounts) {a->reserved->hold.amount.requests, a->reserved->hold.amount.tokens, a->reserved->bound});
	reply->kind = bill->kind;
	reply->http_status = bill->http_status;
	reply->retry_after_ms = r->retry_after_ms;
	reply->retry_forbidden = r->retry_forbidden || bill->outcome.hopeless;
	reply->timed_out = timed_out;
	reply->connect_failed = r->connect_failed;
	reply->usage = bill->usage;
	reply->priced = bill->priced;
	reply->cost = bill->cost;
	reply->error = bill->error[0] ? pstrdup(bill->error) : NULL;
	if (complete)
	{
		reply->body = r->body;
		reply->body_len = r->len;
	}
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
	if (!mw_amounts_zero(&bill.billed))
		spend(a->tenant, a->session, &a->run_id, a->reserved, &bill.billed, &bill.excess);
	if (bill.keep && a->request_named)
		write_answer(a, reply, bill.kind == MW_OUTCOME_OK);
	if (bill.kind == MW_OUTCOME_OK && bill.outcome.cacheable && a->cacheable)
		write_cache(a, reply);
	SPI_finish();

	/* an answer and an unknown outcome use the reservation up; a failed attempt leaves it to the next */
	reply->counted = bill.billed.requests > 0;
	if (reply->counted)
	{
		a->reserved->counted = true;
		a->reserved->hold.amount.requests = 0;
	}
	if (reply->kind == MW_OUTCOME_OK || reply->kind == MW_OUTCOME_UNKNOWN)
	{
		a->reserved->held = false;
		a->reserved->hold.amount = (MwAmounts) {0};
	}
	return reply;
}

const MwTransport mw_transport_fake = {
	.name = "fake",
	.breakers = &mw_breakers_scripted,
	.reserve = fake_reserve,
	.release = fake_release,
	.used = fake_used,
	.book_hit = fake_book_hit,
	.recorded = fake_recorded,
	.cached = fake_cached,
	.exchange = fake_exchange,
};
