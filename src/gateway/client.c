/*
 * client.c - the backend's side of the gateway: the implementation of
 * MwTransport for real servers.
 *
 * A backend never touches the network and holds no lock while it waits: it
 * fills a slot, wakes the gateway and sleeps on its own latch (slot.c).  What it
 * holds in shared memory meanwhile, the slot and the reservation, is registered
 * with held.c and given back when the transaction aborts.
 */
#include "mw.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/held.h"
#include "gateway/shm.h"
#include "gateway/stored.h"
#include "guc.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/spi.h"

static void
describe_scopes(MwWire *w, const MwReservation *r)
{
	w->hold = r->hold;
	w->when = r->when;
	w->price = r->price;
	w->bound = r->bound;
	w->prompt_tokens = r->prompt_tokens;
}

/* ---------- budget ---------- */

/*
 * What is reserved, outside the call's memory: an abort must still find it.
 * While a slot owns the reservation "handle" is NULL and this is only kept.
 */
typedef struct Holder
{
	MwHold		hold;
	void	   *handle;
} Holder;

static void
give_back(void *what)
{
	Holder	   *h = what;

	mw_counters_settle(&h->hold, &h->hold.amount, NULL, NULL, 0);
	pfree(h);
}

/* The reservation is this backend's again, with what the call says is left of it */
static void
hold(MwReservation *r)
{
	Holder	   *h = r->holder;

	h->hold = r->hold;
	h->handle = mw_held_take(give_back, h);
}

static bool
gateway_reserve(MwCall *call, MwRefusal *why)
{
	MwReservation *r = &call->reserved;
	bool		any = false;

	for (int i = 0; i < r->hold.n; i++)
		any |= r->scopes[i].limits->windows != 0;
	if (!any)
		return true;

	for (int attempt = 0; attempt < 5; attempt++)
	{
		MwWire		w = {.work = MW_WORK_LOAD};
		Holder	   *h = MemoryContextAllocZero(TopMemoryContext, sizeof(Holder));	/* before, so that nothing can fail once it is reserved */

		switch (mw_counters_reserve(r, why))
		{
			case MW_HITS_ONLY:
			case MW_ADMITTED:
				r->holder = h;
				hold(r);
				if (r->hits_only)
				{
					r->short_of = palloc(sizeof(MwRefusal));
					*r->short_of = *why;
				}
				return true;
			case MW_REFUSED:
				pfree(h);
				return false;
			case MW_NOT_LOADED:
				pfree(h);
				describe_scopes(&w, r);
				for (int i = 0; i < r->hold.n; i++)
					w.hold.windows[i] = r->scopes[i].limits->windows;
				mw_slot_ask(&w, call->tenant, call->session, NULL, call->deadline);
				break;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("no room is left for the budget of this call"),
			 errdetail("All %d counters have something reserved; nothing was sent.", mw_guc_max_counters),
			 errhint("Raise mw.max_counters and restart the server, or try again.")));
	return false;
}

static void
gateway_release(MwCall *call)
{
	MwReservation *r = &call->reserved;
	Holder	   *h = r->holder;

	r->held = false;
	r->holder = NULL;
	if (h == NULL)
		return;
	if (h->handle)
		mw_held_drop(h->handle);
	give_back(h);
}

static void
gateway_used(MwCall *call, int scope, MwAmounts *used)
{
	mw_counters_used(&call->reserved.hold.key[scope], &call->reserved.when, used);
}

static bool
gateway_book_hit(MwCall *call)
{
	MwReservation *r = &call->reserved;
	Holder	   *h = r->holder;
	MwKey		keys[MW_MAX_SCOPES];
	int			n = 0;
	MwWire		w = {.work = MW_WORK_BOOK};
	MwWireReply *reply;
	bool		in_advance = true;

	for (int i = 0; i < r->hold.n; i++)
	{
		const MwLimits *limits = r->scopes[i].limits;

		if (limits->requests == 0)
			continue;
		keys[n++] = r->hold.key[i];
		w.counts_requests |= 1 << i;
		w.block_limit = limits->limit[MW_FOREVER].requests;
		in_advance &= limits->requests == 1 << MW_FOREVER;
	}
	if (n == 0)
		return true;			/* a hit costs no tokens, and nobody counts requests */
	if (in_advance && mw_counters_take_hit(keys, n))
		return true;
	if (r->hits_only)
		return false;			/* there were some left in advance; another caller had them */
	if (n > 1 || !in_advance)
		w.block_limit = 0;

	/*
	 * Our own reserved request becomes a booked one.  The slot owns it from
	 * here on, so that a cancel gives it back exactly once.
	 */
	describe_scopes(&w, r);
	w.hold.amount = (MwAmounts) {.requests = r->hold.amount.requests};
	w.run_id = call->run_id;
	{
		MwAttempt	a = {
			.request_id = call->request_id,
			.purpose = "hits",
			.model = call->model,
			.body = "",
		};
		int			i = mw_slot_queue(mw_gateway_ensure(), &w, call->tenant, call->session, &a, r, true);

		r->hold.amount.requests = 0;
		if (h)
			h->hold.amount.requests = 0;
		reply = mw_slot_wait(i, mw_slot_hold(i), call->deadline);
	}
	return reply->kind == MW_OUTCOME_OK;
}

/* ---------- recorded and cached answers ---------- */

/*
 * The last failure of an earlier try of the request, and whether that try went on:
 * of this one too the attempts are in the ledger, under another run, or behind
 * those that a leg found there.
 */
static void
look_for_failure(MwCall *call, MwStored *stored)
{
	static MwStmt failed = {
		.sql = "SELECT f.http_status, f.error FROM mw.attempt AS f "
		"WHERE f.tenant OPERATOR(pg_catalog.=) $1 AND f.request_id OPERATOR(pg_catalog.=) $2 "
		"AND f.call_key OPERATOR(pg_catalog.=) $3 AND f.nth OPERATOR(pg_catalog.=) $4 AND f.request_named "
		"AND f.outcome OPERATOR(pg_catalog.=) 'failed' AND (f.run_id OPERATOR(pg_catalog.<>) $5 OR f.attempt OPERATOR(pg_catalog.<=) $6) "
		"AND EXISTS (SELECT FROM mw.attempt AS a WHERE a.tenant OPERATOR(pg_catalog.=) $1 "
		"AND a.request_id OPERATOR(pg_catalog.=) $2 AND a.request_named AND a.outcome OPERATOR(pg_catalog.=) 'ok' "
		"AND a.run_id OPERATOR(pg_catalog.=) f.run_id AND a.call OPERATOR(pg_catalog.>) f.call "
		"AND (a.run_id OPERATOR(pg_catalog.<>) $5 OR a.attempt OPERATOR(pg_catalog.<=) $6)) "
		"ORDER BY f.started_at DESC LIMIT 1",
		.nargs = 6, .types = {TEXTOID, TEXTOID, BYTEAOID, INT4OID, UUIDOID, INT4OID}
	};
	Datum		values[6];

	values[0] = CStringGetTextDatum(call->tenant);
	values[1] = CStringGetTextDatum(call->request_id);
	values[2] = PointerGetDatum(mw_key_bytea(&call->call_key));
	values[3] = Int32GetDatum(call->nth);
	values[4] = UUIDPGetDatum(&call->run_id);
	values[5] = Int32GetDatum(call->attempts_before);
	SPI_connect();
	if (mw_spi_read(&failed, MW_AS_CALLER, values, NULL, 1) > 0)
	{
		bool		isnull;
		Datum		status = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
		char	   *error = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);

		stored->went_on = true;
		stored->http_status = isnull ? 0 : DatumGetInt32(status);
		stored->error = error != NULL ? MemoryContextStrdup(call->cxt, error) : NULL;
	}
	SPI_finish();
}

static MwStored
gateway_recorded(MwCall *call)
{
	static MwStmt attempts = {
		.sql = "SELECT outcome FROM mw.attempt "
		"WHERE tenant OPERATOR(pg_catalog.=) $1 AND request_id OPERATOR(pg_catalog.=) $2 "
		"AND call_key OPERATOR(pg_catalog.=) $3 AND nth OPERATOR(pg_catalog.=) $4 AND request_named "
		"AND outcome IN ('running', 'unknown', 'failed')",
		.nargs = 4, .types = {TEXTOID, TEXTOID, BYTEAOID, INT4OID}
	};
	bool		failed = false;
	MwStored	stored = mw_stored_answer(&mw_table_answer, call->tenant, call->request_id, &call->call_key, call->nth);
	Datum		values[4];
	uint64		n;

	if (stored.found)
		return stored;

	values[0] = CStringGetTextDatum(call->tenant);
	values[1] = CStringGetTextDatum(call->request_id);
	values[2] = PointerGetDatum(mw_key_bytea(&call->call_key));
	values[3] = Int32GetDatum(call->nth);

	SPI_connect();
	n = mw_spi_read(&attempts, MW_AS_CALLER, values, NULL, 0);
	for (uint64 i = 0; i < n; i++)
	{
		char	   *outcome = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);

		if (strcmp(outcome, "running") == 0)
			stored.running = true;
		else if (strcmp(outcome, "failed") == 0)
			failed = true;
		else
			stored.unknown = true;
	}
	SPI_finish();
	if (failed && !stored.running && !stored.unknown)
		look_for_failure(call, &stored);
	if (stored.running)
		(void) mw_gateway_ensure();	/* after a crash it is the next gateway that says what became of it */
	return stored;
}

static MwStored
gateway_cached(MwCall *call)
{
	return mw_stored_cached(&mw_table_cache, call);
}

/* ---------- one attempt ---------- */

static MwReply *
reply_of(MwWireReply *wire)
{
	MwReply    *reply = palloc0(sizeof(MwReply));

	reply->kind = wire->kind;
	reply->http_status = wire->http_status;
	reply->retry_after_ms = wire->retry_after_ms;
	reply->retry_forbidden = wire->retry_forbidden;
	reply->timed_out = wire->timed_out;
	reply->connect_failed = wire->connect_failed;
	reply->private_host = wire->private_host;
	reply->shared = wire->shared;
	reply->recorded = wire->recorded;
	reply->unknown_before = wire->unknown_before;
	reply->look_again = wire->look_again;
	reply->counted = wire->counted;
	reply->usage = wire->usage;
	reply->priced = wire->priced;
	reply->cost = wire->cost;
	reply->error = wire->error[0] ? pstrdup(wire->error) : NULL;
	reply->body = wire->body_len >= 0 ? mw_reply_body(wire) : NULL;
	reply->body_len = Max(wire->body_len, 0);
	return reply;
}

static MwReply *
gateway_exchange(const MwAttempt *a)
{
	MwWire		w = {
		.work = MW_WORK_CALL,
		.run_id = a->run_id,
		.turn = a->turn,
		.call_no = a->call_no,
		.attempt = a->attempt,
		.request_named = a->request_named,
		.resend_unknown = a->resend_unknown,
		.cacheable = a->cacheable,
		.share = a->share,
		.serverid = a->serverid,
		.roleid = GetUserId(),
		.deadline = a->deadline,
		.breaker = a->breaker,
		.afresh = a->afresh,
		.call_key = a->call_key,
		.nth = a->nth,
		.cache_key = a->cache_key,
		.cache_epoch = a->cache_epoch,
		.cache_ttl = a->cache_ttl,
	};
	MwReservation *r = a->reserved;
	Holder	   *h = r->holder;
	MwWireReply *wire;
	void	   *slot_handle;
	int			i;

	describe_scopes(&w, r);
	mw_fault("http_send");
	i = mw_slot_queue(mw_gateway_ensure(), &w, a->tenant, a->session, a, r, true);

	/* the slot owns the reservation now; nothing can come between these lines */
	if (h)
	{
		mw_held_drop(h->handle);
		h->handle = NULL;
	}
	slot_handle = mw_slot_hold(i);

	mw_fault("http_wait");
	wire = mw_slot_wait(i, slot_handle, a->deadline);

	/* what the gateway did not use up is ours again */
	if (wire->counted)
	{
		r->counted = true;
		r->hold.amount.requests = 0;
	}
	if (wire->reservation_used)
	{
		r->hold.amount = (MwAmounts) {0};
		r->held = false;
	}
	if (h)
		hold(r);
	mw_fault("http_body");
	return reply_of(wire);
}

/* ---------- what is no model ---------- */

MwReply *
mw_gateway_ask(Oid serverid, const char *body, int len, MwInstant deadline)
{
	MwWire		w = {.work = MW_WORK_ASK, .serverid = serverid, .roleid = GetUserId(), .deadline = deadline};
	MwAttempt	a = {.request_id = "", .purpose = "", .model = "", .body = body, .body_len = len};

	return reply_of(mw_slot_ask(&w, "", NULL, &a, deadline));
}

/* ---------- a bare record ---------- */

/* One row in the ledger, durable when this returns; no call, no budget */
void
mw_gateway_record(const char *tenant, const pg_uuid_t *run_id)
{
	MwWire		w = {.work = MW_WORK_RECORD, .run_id = *run_id};
	MwAttempt	a = {.request_id = "bench", .purpose = "bench", .model = "bench", .body = ""};

	w.when.admitted_at = mw_calendar_now();
	(void) mw_slot_ask(&w, tenant, NULL, &a, mw_after_ms(60000));
}

const MwTransport mw_transport_gateway = {
	.name = "gateway",
	.breakers = &mw_breakers_shared,
	.reserve = gateway_reserve,
	.release = gateway_release,
	.used = gateway_used,
	.book_hit = gateway_book_hit,
	.recorded = gateway_recorded,
	.cached = gateway_cached,
	.exchange = gateway_exchange,
};
