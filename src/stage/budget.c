/*
 * budget.c - reserve an upper bound before the call, give back what was not used.
 *
 * Scopes are the tenant and, where there is one, the session; limits come from
 * the policy, in requests, tokens and cost, for ever and per minute, hour, day and
 * month.  All hold at once.  What is reserved is our own count of the prompt plus
 * max_tokens, and what that costs; where only a part fits, the answer's max_tokens
 * shrinks to the rest.  Settling is the gateway's, durably, with the provider's
 * usage; a hit costs nothing and is counted where somebody limits requests.
 *
 * Where nothing is left the call is MW301, or, where the tenant's settings say so
 * (on_budget), the run ends with a text of theirs.
 *
 * A call whose answer was recorded by an earlier run of its request_id was paid
 * for then: it needs no money now, so that look-up stands before the reserving.
 */
#include "mw.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/json.h"

#include "gateway/bill.h"
#include "gateway/counters.h"
#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "provider/provider.h"
#include "stage/stages.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/money.h"
#include "util/tokens.h"

#define LEAST_MAX_TOKENS		16	/* an answer of fewer tokens is not worth its prompt */

/*
 * What a chat template adds at most: around each message five tokens (ChatML, Llama 3: a mark, its role, a mark, a
 * break, a mark), and once the head of the answer and a mark that the text begins (Llama 3: five).
 */
#define MESSAGE_TOKENS			5
#define TEMPLATE_TOKENS			6

/* ---------- the request and its size ---------- */

void
mw_call_encode(MwCall *call)
{
	StringInfoData body;
	int64		tokens = TEMPLATE_TOKENS;

	initStringInfo(&body);
	call->provider->encode(&body, call->model_name, call->messages, call->nmessages,
						   call->tools, call->params, call->max_tokens,
						   call->server ? call->server->max_tokens_field : NULL);
	call->body = body.data;
	call->body_len = body.len;

	call->call_key = mw_call_key_of(call, body.data, body.len);

	for (int i = 0; i < call->nmessages; i++)
	{
		MwMessage  *m = &call->messages[i];

		if (m->text)
			tokens += MESSAGE_TOKENS + mw_tokens_of_text(m->text, m->len);
		else
		{
			char	   *json = mw_json_canonical(m->json);

			tokens += MESSAGE_TOKENS + mw_tokens_of_text(json, strlen(json));
		}
	}
	if (call->tools)
	{
		char	   *json = mw_json_canonical(call->tools);

		tokens += 16 + mw_tokens_of_text(json, strlen(json));
	}
	call->prompt_tokens = tokens;
}

/* ---------- limits ---------- */

static bool
limits_money(const MwCall *call)
{
	bool		money = call->run_cost >= 0;

	for (int i = 0; i < call->reserved.hold.n; i++)
		money |= call->reserved.scopes[i].limits->money;
	return money;
}

void
mw_budget_admitted(MwCall *call)
{
	if (call->reserved.when.admitted_at == 0)
		mw_policy_when(call->policy, mw_calendar_now(), &call->reserved.when);
}

static void
find_scopes(MwCall *call)
{
	MwReservation *r = &call->reserved;
	uint8		windows = 0;

	memset(r, 0, sizeof(*r));
	r->hold.n = call->session ? 2 : 1;
	r->hold.key[0] = call->policy->scope;
	r->scopes[0] = (MwScope) {NULL, "tenant", mw_policy_limits(call->policy, NULL)};
	if (call->session)
	{
		r->hold.key[1] = mw_session_key(&call->policy->scope, call->session);
		r->scopes[1] = (MwScope) {unconstify(char *, call->session), "session", mw_policy_limits(call->policy, call->session)};
	}
	for (int i = 0; i < r->hold.n; i++)
		windows |= r->scopes[i].limits->windows;

	for (int i = 0; i < r->hold.n; i++)
		if (r->scopes[i].limits->marks && r->channel == NULL)
			r->channel = mw_channel_of(call->tenant);

	/* else it is found out when something has to be booked: a hit has nothing to book */
	if ((windows & ~(1 << MW_FOREVER)) || limits_money(call) || call->transport == &mw_transport_fake)
		mw_budget_admitted(call);
	if (limits_money(call))
		r->price = mw_policy_price(call->model, r->when.admitted_at);
}

static void
require_price(const MwCall *call)
{
	if (!limits_money(call) || call->reserved.price.known)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_NO_PRICE),
			 errmsg("model \"%s\" has no price", call->model),
			 errdetail("Cost is limited, so what a call can cost must be known before it is made."),
			 errhint("An administrator types, with its prices per million tokens: SELECT mw_set_price(%s, <input>, <output>);",
					 quote_literal_cstr(call->model))));
}

/* An answer of fewer tokens is not worth its prompt */
static int64
least_answer(const MwCall *call)
{
	return Min(LEAST_MAX_TOKENS, call->max_tokens);
}

/* ---------- refusing ---------- */

static char *
amount_text(MwUnit unit, MwMoney n)
{
	return unit == MW_COST ? mw_money_text(n) : psprintf(INT64_FORMAT, (int64) n);
}

/* The run ends with the tenant's text for it; false where it has none, and an error is meant */
static bool
end_run(MwCall *call)
{
	if (call->policy->budget_end == NULL)
		return false;
	mw_call_end(call, call->policy->budget_end, "budget");
	return true;
}

/* What the shortest answer would take of the unit that refused */
static MwMoney
least_of(const MwCall *call, const MwRefusal *why)
{
	return why->unit == MW_REQUESTS ? 1 : why->unit == MW_TOKENS ? call->prompt_tokens + least_answer(call) :
		mw_price_bound(&call->reserved.price, call->prompt_tokens, least_answer(call));
}

static char *
refusal_detail(const MwCall *call, const MwRefusal *why)
{
	const MwReservation *r = &call->reserved;
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfo(&detail, "scope %s, unit %s", r->scopes[why->scope].who, mw_unit_names[why->unit]);
	if (why->window != MW_FOREVER)
		appendStringInfo(&detail, ", per %s", mw_window_names[why->window]);
	appendStringInfo(&detail, ", limit %s, settled %s, reserved %s, ", amount_text(why->unit, why->limit),
					 amount_text(why->unit, why->settled), amount_text(why->unit, why->reserved));
	if (why->window == MW_FOREVER)
		appendStringInfoString(&detail, "resets never.");
	else
		appendStringInfo(&detail, "resets at %s.",
						 timestamptz_to_str(mw_window_end(why->window, call->policy->timezone, r->when.start[why->window])));
	if (why->unit == MW_TOKENS)
		appendStringInfo(&detail, " This call needs " INT64_FORMAT " for its prompt and at least %d for an answer.",
						 call->prompt_tokens, LEAST_MAX_TOKENS);
	else if (why->unit == MW_COST)
		appendStringInfo(&detail, " This call can cost %s with the shortest answer.", mw_money_text(least_of(call, why)));
	return detail.data;
}

static void
refuse(MwCall *call, const MwRefusal *why)
{
	MwScope    *s = &call->reserved.scopes[why->scope];
	StringInfoData hint;

	if (end_run(call))
		return;
	initStringInfo(&hint);
	appendStringInfo(&hint, "An administrator can raise it: SELECT mw_set_budget(%s, '%s', <amount>",
					 quote_literal_cstr(call->tenant), mw_unit_names[why->unit]);
	if (s->session)
		appendStringInfo(&hint, ", session => %s", quote_literal_cstr(s->session));
	if (why->window != MW_FOREVER)
		appendStringInfo(&hint, ", per => '%s'", mw_window_names[why->window]);
	appendStringInfoString(&hint, ");");

	/* what calls in flight do not use of their reservation comes back */
	if (why->reserved > 0 && why->settled + least_of(call, why) <= why->limit)
		appendStringInfoString(&hint, " or wait for the calls in flight.");
	ereport(ERROR,
			(errcode(ERRCODE_MW_BUDGET_EXHAUSTED),
			 errmsg("the budget of %s \"%s\" is exhausted", s->who, s->session ? s->session : call->tenant),
			 errdetail_internal("%s", refusal_detail(call, why)),
			 errhint("%s", hint.data)));
}

void
mw_budget_refuse_miss(MwCall *call)
{
	Assert(call->reserved.short_of != NULL);
	refuse(call, call->reserved.short_of);
}

/* A run's own ceilings, which no counter keeps */
static void
refuse_run(MwCall *call, MwUnit unit, MwMoney limit, MwMoney prompt)
{
	if (end_run(call))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_BUDGET_EXHAUSTED),
			 errmsg("the %s limit of this run is too small for its prompt", unit == MW_COST ? "cost" : "token"),
			 errdetail("scope run, unit %s, limit %s, prompt %s.", mw_unit_names[unit],
					   amount_text(unit, limit), amount_text(unit, prompt)),
			 errhint("Raise options.limits.%s%s.", mw_unit_names[unit], unit == MW_COST ? "" : " (50,000 unless set)")));
}

/* ---------- recorded answers ---------- */

/* An answer that could not be used is that again, in the words that its first run had for it */
static void
replay_unusable(MwCall *call, const MwStored *stored)
{
	MwReply    *reply = palloc0(sizeof(MwReply));
	MwBill		bill;

	mw_bill_make(&bill, MW_HTTP_COMPLETE, 200, stored->body, stored->body_len, "", call->provider,
				 call->prompt_tokens, &call->reserved.price, (MwAmounts) {0});
	reply->kind = MW_OUTCOME_FAILED;
	reply->http_status = 200;
	reply->retry_after_ms = -1;
	reply->recorded = true;
	reply->error = pstrdup(bill.error);
	call->reply = reply;
	call->failure = mw_failure_of(call, reply, "");
}

/*
 * A failure that an earlier run went on after: a fallback's answer, or a hook's, was
 * paid for then.  Were this model asked again it might answer, and all that came
 * after would be another conversation.
 */
static void
replay_failure(MwCall *call, const MwStored *stored)
{
	MwReply    *reply = palloc0(sizeof(MwReply));

	reply->kind = stored->http_status != 0 ? MW_OUTCOME_FAILED : MW_OUTCOME_NOT_SENT;
	reply->http_status = stored->http_status;
	reply->retry_after_ms = -1;
	reply->recorded = true;
	reply->error = stored->error;
	call->attempt = 1;
	call->reply = reply;
	call->failure = mw_failure_of(call, reply, "");
}

/* Where the earlier run sent the same bytes again after an unknown outcome, what came of that is its answer */
static void
pass_unknown(MwCall *call, MwStored *stored)
{
	MwStored	next = *stored;
	int			nth = call->nth;

	while (next.unknown && !next.found)
	{
		call->nth++;
		next = call->transport->recorded(call);
	}
	if (next.found)
		*stored = next;
	else
		call->nth = nth;
}

/*
 * The answer that an earlier run of this request_id got for these bytes.
 * Where that run's call is still in flight (it outlives its caller) we wait for
 * its end, for as long as this call may take.
 */
static bool
use_recorded(MwCall *call)
{
	long		nap = 5;

	for (;;)
	{
		MwStored	stored = call->transport->recorded(call);

		if (stored.unknown && !call->resend_unknown)
			pass_unknown(call, &stored);
		if (stored.found)
		{
			call->had = true;
			if (stored.unusable)
				replay_unusable(call, &stored);
			else
			{
				call->answer = call->provider->decode(stored.body, stored.body_len);
				memset(&call->answer->usage, 0, sizeof(MwUsage));
				call->replayed = true;
			}
			return true;
		}
		if (stored.went_on)
		{
			replay_failure(call, &stored);
			return true;
		}
		call->had = stored.unknown;
		if (stored.unknown && !call->resend_unknown)
			ereport(ERROR,
					(errcode(ERRCODE_MW_OUTCOME_UNKNOWN),
					 errmsg("an earlier attempt of this request_id has an unknown outcome"),
					 errdetail("The provider may have answered and billed it; it was charged at its reservation and is not sent again."),
					 errhint("Say options => '{\"resend_unknown\": true}' to send it again, and perhaps pay twice.")));
		if (!stored.running)
			return false;
		if (mw_passed(call->deadline))
			ereport(ERROR,
					(errcode(ERRCODE_MW_DEADLINE),
					 errmsg("the deadline of the call has passed"),
					 errdetail("An attempt of an earlier run of this request_id is still in flight; nothing was sent."),
					 errhint("Repeat the request_id later: the answer is handed out when it has come.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, nap, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		nap = Min(nap * 2, 100);
	}
}

/* ---------- the stage ---------- */

/* The ceiling of this run: its own limit, and for one without a session the seed's */
static int64
run_limit(const MwCall *call)
{
	if (call->run_tokens > 0)
		return call->run_tokens;
	return call->session ? 0 : MW_DEFAULT_SESSION_TOKENS;
}

/* A call that cannot even connect any more would reserve money, and an attempt, for nothing. */
static void
require_time(const MwCall *call)
{
	long		left = mw_ms_until(call->deadline);

	if (left >= call->server->connect_ms)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_DEADLINE),
			 errmsg("the deadline of the call has passed, or leaves no time to connect"),
			 errdetail("Nothing was sent or reserved: %ld ms are left, and a connection to server \"%s\" takes %d.",
					   left, call->server->name, call->server->connect_ms),
			 errhint("Raise options.timeout.")));
}

/* The longest answer that the ceilings of this run leave; -1: too short a one, and the run has ended */
static int64
answer_in_run(MwCall *call)
{
	const MwPrice *price = &call->reserved.price;
	int64		limit = run_limit(call);
	int64		answer = call->max_tokens;

	if (limit > 0)
	{
		answer = Min(answer, limit - call->prompt_tokens);
		if (answer < least_answer(call))
		{
			refuse_run(call, MW_TOKENS, limit, call->prompt_tokens);
			return -1;
		}
	}
	if (call->run_cost >= 0)
	{
		MwMoney		prompt = mw_price_bound(price, call->prompt_tokens, 0);
		MwMoney		left = call->run_cost - call->cost - prompt;

		if (left >= 0 && price->output > 0)
			answer = (int64) Min(answer, left / price->output);
		if (left < 0 || answer < least_answer(call))
		{
			refuse_run(call, MW_COST, call->run_cost, call->cost + prompt);
			return -1;
		}
	}
	return answer;
}

/* False where the run ended instead */
static bool
reserve(MwCall *call)
{
	int64		answer = answer_in_run(call);

	if (answer < 0)
		return false;
	for (;;)
	{
		MwRefusal	why;

		mw_reservation_ask(&call->reserved, call->prompt_tokens, answer);
		if (call->transport->reserve(call, &why))
			break;

		/* where only a part fits, a shorter answer; another caller may be quicker, then again */
		if (why.answer_left < least_answer(call) || why.answer_left >= answer)
		{
			refuse(call, &why);
			return false;
		}
		answer = why.answer_left;
	}
	call->send_max_tokens = answer;
	return true;
}

static void
count_hit(MwCall *call)
{
	MwReservation *r = &call->reserved;

	if (r->scopes[0].limits->requests == 0 && (r->hold.n == 1 || r->scopes[1].limits->requests == 0))
		return;					/* it costs nothing, and nobody counts requests */
	mw_budget_admitted(call);
	if (!call->transport->book_hit(call))
		mw_budget_refuse_miss(call);
}

/* A notice for each soft limit that has been reached */
static void
tell_soft_limits(MwCall *call)
{
	MwReservation *r = &call->reserved;

	mw_budget_admitted(call);
	for (int i = 0; i < r->hold.n; i++)
	{
		const MwLimits *limits = r->scopes[i].limits;
		MwAmounts	used[MW_NWINDOWS];

		if (!limits->marks)
			continue;
		call->transport->used(call, i, used);
		for (int w = 0; w < MW_NWINDOWS; w++)
			for (MwUnit unit = 0; unit < MW_NUNITS; unit++)
			{
				if (!mw_limited(&limits->soft[w], unit) || mw_amount(&used[w], unit) < mw_amount(&limits->soft[w], unit))
					continue;
				call->notices = lappend(call->notices,
										psprintf("the %s has used %s of its %s %s%s%s", r->scopes[i].who,
												 amount_text(unit, mw_amount(&used[w], unit)),
												 unit == MW_COST ? "budget of" : "limit of",
												 amount_text(unit, mw_amount(&limits->limit[w], unit)),
												 unit == MW_COST ? "" : psprintf(" %s", mw_unit_names[unit]),
												 w == MW_FOREVER ? "" : psprintf(" a %s", mw_window_names[w])));
			}
	}
}

/* The call of one model, which may come back with a failure instead of an answer */
static void
run_once(MwCall *call)
{
	mw_call_encode(call);
	if (call->nth_of != NULL)
		call->nth = call->nth_of(call);
	find_scopes(call);
	if (call->recorded && use_recorded(call))
		return;

	require_price(call);
	mw_fault("reserve");
	require_time(call);
	if (!reserve(call))
		return;
	mw_next(call);
	if (call->cache == MW_CACHE_HIT || call->cache == MW_CACHE_SHARED)
		count_hit(call);
	call->transport->release(call);
	if (call->reserved.channel != NULL && call->answer != NULL)
		tell_soft_limits(call);
}

void
mw_budget_run(MwCall *call)
{
	mw_fallback_start(call);
	for (;;)
	{
		run_once(call);
		if (call->failure == NULL)
			return;
		mw_fallback_next(call); /* a new call, with a reservation of its own; raises where no model is left */
	}
}

/*
 * Would it be refused by what others have used so far?  Sets the answer that would be asked for.
 * (Hits that were booked in advance would pass all the same: they are in memory alone.)
 */
static bool
would_refuse(MwCall *call, MwAmounts (*settled)[MW_NWINDOWS], MwAmounts (*reserved)[MW_NWINDOWS], MwRefusal *why)
{
	MwReservation *r = &call->reserved;

	for (;;)
	{
		mw_refusal_none(why);
		mw_reservation_ask(r, call->prompt_tokens, call->send_max_tokens);
		for (int i = 0; i < r->hold.n; i++)
			for (int w = 0; w < MW_NWINDOWS; w++)
				if (r->scopes[i].limits->windows & 1 << w)
					mw_refusal_check(why, r, i, w, &settled[i][w], &reserved[i][w]);
		if (!mw_refused(why))
			return false;
		if (why->answer_left < least_answer(call) || why->answer_left >= call->send_max_tokens)
			return true;
		call->send_max_tokens = why->answer_left;
	}
}

void
mw_budget_explain(MwCall *call, MwExplain *out)
{
	MwAmounts	settled[MW_MAX_SCOPES][MW_NWINDOWS];
	MwAmounts	reserved[MW_MAX_SCOPES][MW_NWINDOWS];
	StringInfoData json;
	int64		limit = run_limit(call);
	MwRefusal	refusal;
	char	   *why = NULL;

	mw_call_encode(call);
	find_scopes(call);
	for (int i = 0; i < call->reserved.hold.n; i++)
		mw_budget_peek(call, i, settled[i], reserved[i]);
	call->send_max_tokens = limit > 0 ? Min(call->max_tokens, limit - call->prompt_tokens) : call->max_tokens;
	if (limit > 0 && call->send_max_tokens < least_answer(call))
		why = psprintf("The limit of this run, " INT64_FORMAT " tokens, is too small for its prompt.", limit);
	else if (limits_money(call) && !call->reserved.price.known)
		why = psprintf("Cost is limited, and model \"%s\" has no price.", call->model);
	else if (would_refuse(call, settled, reserved, &refusal))
		why = refusal_detail(call, &refusal);
	out->verdict = why != NULL ? "refuse" : "reserve";
	out->stop = why != NULL;

	initStringInfo(&json);
	appendStringInfo(&json, "{\"prompt_tokens\": " INT64_FORMAT ", \"max_tokens\": " INT64_FORMAT ", \"scopes\": [",
					 call->prompt_tokens, Max(call->send_max_tokens, 0));
	for (int i = 0; i < call->reserved.hold.n; i++)
	{
		MwScope    *s = &call->reserved.scopes[i];
		int			n = 0;

		appendStringInfo(&json, "%s{\"scope\": \"%s\", \"limits\": [", i ? ", " : "", s->who);
		for (int w = 0; w < MW_NWINDOWS; w++)
			for (MwUnit unit = 0; unit < MW_NUNITS; unit++)
				if (mw_limited(&s->limits->limit[w], unit))
					appendStringInfo(&json, "%s{\"unit\": \"%s\", \"per\": \"%s\", \"amount\": %s, \"used\": %s}", n++ ? ", " : "",
									 mw_unit_names[unit], mw_window_names[w],
									 amount_text(unit, mw_amount(&s->limits->limit[w], unit)),
									 amount_text(unit, mw_amount(&settled[i][w], unit) + mw_amount(&reserved[i][w], unit)));
		appendStringInfoString(&json, "]}");
	}
	appendStringInfoChar(&json, ']');
	if (why != NULL)
	{
		appendStringInfoString(&json, ", \"why\": ");
		escape_json(&json, why);
	}
	appendStringInfoChar(&json, '}');
	out->detail = mw_json_parse(json.data, json.len, NULL);
	out->next = pnstrdup(call->body, call->body_len);
}
