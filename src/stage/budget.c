/*
 * budget.c - reserve an upper bound before the call, give back what was not used.
 *
 * Scopes are the tenant and, where there is one, the session; limits come from
 * the policy, a session without one of its own has 50,000 tokens (P10).  What is
 * reserved is our own count of the prompt plus max_tokens; where only a part
 * fits, the answer's max_tokens shrinks to the rest.  Settling is the
 * gateway's, durably, with the provider's usage; a hit costs no tokens and is
 * counted where somebody limits requests.
 *
 * A call whose answer was recorded by an earlier run of its request_id was paid
 * for then: it needs no money now, so that look-up stands before the reserving.
 */
#include "mw.h"

#include <math.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"

#include "gateway/counters.h"
#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "provider/provider.h"
#include "stage/stages.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/tokens.h"

#define DEFAULT_SESSION_TOKENS	50000	/* the seed's ceiling */
#define LEAST_MAX_TOKENS		16	/* an answer of fewer tokens is not worth its prompt */

/* ---------- the request and its size ---------- */

void
mw_call_encode(MwCall *call)
{
	StringInfoData body;
	MwHash		h;
	int64		tokens = 3;

	initStringInfo(&body);
	call->provider->encode(&body, call->model_name, call->messages, call->nmessages,
						   call->tools, call->params, call->max_tokens,
						   call->server ? call->server->max_tokens_field : NULL);
	call->body = body.data;
	call->body_len = body.len;

	mw_hash_start(&h, NULL);
	mw_hash_text(&h, call->tenant);
	mw_hash_text(&h, call->model);
	mw_hash_part(&h, body.data, body.len);
	call->call_key = mw_hash_end(&h);

	for (int i = 0; i < call->nmessages; i++)
	{
		MwMessage  *m = &call->messages[i];

		if (m->text)
			tokens += 4 + mw_tokens_of_text(m->text, m->len);
		else
		{
			char	   *json = mw_json_canonical(m->json);

			tokens += 4 + mw_tokens_of_text(json, strlen(json));
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

static double
limit_of(const MwPolicy *policy, const char *session, const char *unit, double otherwise)
{
	ListCell   *lc;
	double		each = otherwise;

	foreach(lc, policy->limits)
	{
		MwLimit    *l = lfirst(lc);

		if (strcmp(l->unit, unit) != 0)
			continue;
		if (session == NULL)
		{
			if (l->session == NULL)
				return l->amount;
		}
		else if (l->session != NULL && strcmp(l->session, session) == 0)
			return l->amount;	/* its own wins over that of each */
		else if (l->session != NULL && strcmp(l->session, "*") == 0)
			each = l->amount;
	}
	return each;
}

static void
add_scope(MwCall *call, const char *session, const char *who, double tokens)
{
	MwReservation *r = &call->reserved;
	MwScope    *s = &r->scopes[r->nscopes++];

	s->key = session ? mw_session_key(&call->policy->scope, session) : call->policy->scope;
	s->session = session ? unconstify(char *, session) : NULL;
	s->limit_requests = limit_of(call->policy, session, "requests", INFINITY);
	s->limit_tokens = limit_of(call->policy, session, "tokens", tokens);
	s->limited = !isinf(s->limit_requests) || !isinf(s->limit_tokens);
	s->who = who;
}

static void
find_scopes(MwCall *call)
{
	memset(&call->reserved, 0, sizeof(call->reserved));
	add_scope(call, NULL, "tenant", INFINITY);
	if (call->session)
		add_scope(call, call->session, "session", DEFAULT_SESSION_TOKENS);
}

/* ---------- refusing ---------- */

static void
refuse(MwCall *call, int scope, const char *unit, int64 settled, int64 reserved)
{
	MwScope    *s = &call->reserved.scopes[scope];
	double		limit = strcmp(unit, "tokens") == 0 ? s->limit_tokens : s->limit_requests;
	int64		least = 1;
	bool		soon;
	StringInfoData needs;

	initStringInfo(&needs);
	if (strcmp(unit, "tokens") == 0)
		appendStringInfo(&needs, " This call needs " INT64_FORMAT " for its prompt and at least %d for an answer.",
						 call->prompt_tokens, LEAST_MAX_TOKENS);

	/* what calls in flight do not use of their reservation comes back */
	if (strcmp(unit, "tokens") == 0)
		least = call->prompt_tokens + Min(LEAST_MAX_TOKENS, call->max_tokens);
	soon = reserved > 0 && settled + least <= limit;
	ereport(ERROR,
			(errcode(ERRCODE_MW_BUDGET_EXHAUSTED),
			 errmsg("the budget of %s \"%s\" is exhausted", s->who, s->session ? s->session : call->tenant),
			 errdetail("scope %s, unit %s, limit %.0f, settled " INT64_FORMAT ", reserved " INT64_FORMAT ", resets never.%s",
					   s->who, unit, limit, settled, reserved, needs.data),
			 errhint("An administrator can raise it: SELECT mw_set_budget(%s, '%s', <amount>%s%s);%s",
					 quote_literal_cstr(call->tenant), unit,
					 s->session ? ", session => " : "", s->session ? quote_literal_cstr(s->session) : "",
					 soon ? " or wait for the calls in flight." : "")));
}

/* A run's own ceiling, which no counter keeps */
static void
refuse_run(MwCall *call, int64 limit)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BUDGET_EXHAUSTED),
			 errmsg("the token limit of this run is too small for its prompt"),
			 errdetail("scope run, unit tokens, limit " INT64_FORMAT ", prompt " INT64_FORMAT ".", limit, call->prompt_tokens),
			 errhint("Raise options.limits.tokens (50,000 unless set).")));
}

void
mw_budget_refuse_miss(MwCall *call)
{
	for (int i = 0; i < call->reserved.nscopes; i++)
		if (!isinf(call->reserved.scopes[i].limit_requests))
			refuse(call, i, "requests", (int64) call->reserved.scopes[i].limit_requests, 0);
}

/* ---------- recorded answers ---------- */

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

		if (stored.found)
		{
			if (stored.unusable)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ANSWER),
						 errmsg("the recorded answer of this request_id cannot be used"),
						 errdetail("An earlier run got and paid for an answer that is malformed; it is not sent again."),
						 errhint("Use another request_id.")));
			call->answer = call->provider->decode(stored.body, stored.body_len);
			memset(&call->answer->usage, 0, sizeof(MwUsage));
			call->replayed = true;
			return true;
		}
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
	return call->session ? 0 : DEFAULT_SESSION_TOKENS;
}

/* A call that cannot even connect any more would reserve money, and an attempt, for nothing. */
static void
require_time(const MwCall *call)
{
	long		left = mw_ms_until(call->deadline);

	if (call->transport == &mw_transport_fake || left >= call->server->connect_ms)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_DEADLINE),
			 errmsg("the deadline of the call has passed, or leaves no time to connect"),
			 errdetail("Nothing was sent or reserved: %ld ms are left, and a connection to server \"%s\" takes %d.",
					   left, call->server->name, call->server->connect_ms),
			 errhint("Raise options.timeout.")));
}

static void
reserve(MwCall *call)
{
	MwReservation *r = &call->reserved;
	int64		limit = run_limit(call);
	int64		wanted = call->max_tokens;

	if (limit > 0)
	{
		wanted = Min(wanted, limit - call->prompt_tokens);
		if (wanted < Min(LEAST_MAX_TOKENS, call->max_tokens))
			refuse_run(call, limit);
	}
	for (;;)
	{
		const char *unit = NULL;
		int64		settled = 0;
		int64		reserved = 0;
		int64		left = 0;
		int			scope;

		r->tokens = call->prompt_tokens + wanted;
		scope = call->transport->reserve(call, &unit, &settled, &reserved, &left);
		if (scope < 0)
			break;

		/* where only a part fits, a shorter answer; another caller may be quicker, then again */
		left -= call->prompt_tokens;
		if (strcmp(unit, "tokens") != 0 || left < Min(LEAST_MAX_TOKENS, call->max_tokens) || left >= wanted)
			refuse(call, scope, unit, settled, reserved);
		wanted = left;
	}
	call->send_max_tokens = wanted;
}

/* The call of one model, which may come back with a failure instead of an answer */
static void
run_once(MwCall *call)
{
	mw_call_encode(call);
	find_scopes(call);
	if (call->request_named && use_recorded(call))
		return;

	mw_fault("reserve");
	require_time(call);
	reserve(call);
	mw_next(call);
	if ((call->cache == MW_CACHE_HIT || call->cache == MW_CACHE_SHARED) && !call->transport->book_hit(call))
		mw_budget_refuse_miss(call);
	call->transport->release(call);
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

void
mw_budget_explain(MwCall *call, MwExplain *out)
{
	StringInfoData json;
	int64		limit = run_limit(call);

	mw_call_encode(call);
	find_scopes(call);
	call->send_max_tokens = limit > 0 ? Min(call->max_tokens, limit - call->prompt_tokens) : call->max_tokens;
	out->verdict = "reserve";
	if (limit > 0 && call->send_max_tokens < Min(LEAST_MAX_TOKENS, call->max_tokens))
	{
		out->verdict = "refuse";
		out->stop = true;
	}

	initStringInfo(&json);
	appendStringInfo(&json, "{\"prompt_tokens\": " INT64_FORMAT ", \"max_tokens\": " INT64_FORMAT ", \"scopes\": [",
					 call->prompt_tokens, Max(call->send_max_tokens, 0));
	for (int i = 0; i < call->reserved.nscopes; i++)
	{
		MwScope    *s = &call->reserved.scopes[i];

		appendStringInfo(&json, "%s{\"scope\": \"%s\", \"limit_tokens\": ", i ? ", " : "", s->who);
		if (isinf(s->limit_tokens))
			appendStringInfoString(&json, "null");
		else
			appendStringInfo(&json, "%.0f", s->limit_tokens);
		appendStringInfoString(&json, ", \"limit_requests\": ");
		if (isinf(s->limit_requests))
			appendStringInfoString(&json, "null");
		else
			appendStringInfo(&json, "%.0f", s->limit_requests);
		appendStringInfoChar(&json, '}');
	}
	appendStringInfoString(&json, "]}");
	out->detail = mw_json_parse(json.data, json.len, NULL);
	out->next = pnstrdup(call->body, call->body_len);
}
