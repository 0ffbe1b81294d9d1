/*
 * retry.c - sends again what is safe to send again.
 *
 * Safe (invariant 5): what was not sent, and what a complete response refused
 * for now: 408, 409, 429, 5xx.  An unknown outcome is sent again only where the
 * server's owner says so (retry_unknown).  Between attempts it waits on the
 * latch, exponentially with full jitter, never less than the provider asked
 * for; all attempts share the call's one deadline.  What a reply means, and the
 * error for it, is failure.c's.
 */
#include "mw.h"

#include "common/pg_prng.h"
#include "miscadmin.h"

#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "stage/stages.h"
#include "util/duration.h"
#include "util/json.h"

#define BREAKER_OPENED		" The circuit breaker of the server has opened."
#define MAX_RETRY_AFTER_MS	120000	/* a longer wish ends the call at once: nobody keeps a connection that long */

static int64
backoff_ms(const MwCall *call, const MwReply *r)
{
	double		top = call->policy->retry_base_ms;

	for (int i = 1; i < call->attempt && top < call->policy->retry_max_ms; i++)
		top *= 2;
	top = Min(top, call->policy->retry_max_ms);
	return Max((int64) (pg_prng_double(&pg_global_prng_state) * top), r->retry_after_ms);
}

/* An unknown outcome has used the reservation up: another attempt is another bill */
static bool
reserve_again(MwCall *call)
{
	MwRefusal	why;

	call->transport->release(call);
	mw_reservation_ask(&call->reserved, call->prompt_tokens, call->send_max_tokens);
	return call->transport->reserve(call, &why);
}

/* Does the breaker let nobody through at that time? */
static bool
open_at(const MwCall *call, MwInstant then, MwBreaker *b)
{
	const MwServer *server = call->server;

	return call->policy->breaker && server->breaker.on &&
		mw_breaker_look(call->transport->breakers, server->oid, &server->breaker, b) &&
		b->state != MW_BREAKER_CLOSED && b->retry_at.us > then.us;
}

/* Why the same model is not asked again after this reply; NULL: it is, after *wait */
static const char *
not_again(MwCall *call, const MwReply *r, int64 *wait)
{
	const MwServer *server = call->server;
	MwInstant	then;
	MwBreaker	breaker;

	if (!mw_failure_again(call, r))
		return "";
	if (call->once || call->attempt >= call->policy->retry_max_attempts)
		return " Attempts are used up.";
	if (r->retry_after_ms > MAX_RETRY_AFTER_MS)
		return " That is too long to wait for.";
	*wait = backoff_ms(call, r);
	then = mw_after_ms(*wait);
	if (mw_ms_until(call->deadline) <= *wait + server->connect_ms)
		return " The deadline of the call comes before another attempt.";
	if (open_at(call, then, &breaker))
		return BREAKER_OPENED;	/* so nobody waits for it */

	/*
	 * A kept connection that had died says nothing of the server: its call has
	 * another attempt for nothing, on a connection of its own, since what ended
	 * one of them (a restart, a firewall) may have ended all.
	 */
	call->afresh = r->kind == MW_OUTCOME_NOT_SENT && !r->connect_failed && !call->afresh;
	if (call->afresh)
		return NULL;
	if (!mw_breaker_take_retry(call->transport->breakers, server->oid, &server->breaker))
		return psprintf(" Retries are used up for now: all callers of the server together have %g %% of its calls, and %d a minute.",
						server->breaker.retry_share * 100, server->breaker.retry_reserve);
	return NULL;
}

/* One attempt past the breaker; a probe that tells nothing, or ends in an error, is given back */
static bool
attempt(MwCall *call, MwPass *pass)
{
	const MwServer *server = call->server;

	call->breaker = 0;
	memset(pass, 0, sizeof(*pass));
	if (call->policy->breaker &&
		!mw_breaker_admit(call->transport->breakers, server->oid, &server->breaker, call->deadline, pass))
		return false;
	call->breaker = pass->generation;
	if (call->attempt++ == 0)
		mw_breaker_count_call(call->transport->breakers, server->oid, &server->breaker);
	mw_next(call);
	mw_breaker_done(pass);
	return true;
}

/*
 * Returns with an answer; with a failure, for the budget stage to ask another
 * model or raise it; or with neither, for the cache stage to look again: an
 * equal miss was stored between its look-up and our request.
 */
void
mw_retry_run(MwCall *call)
{
	MwPass		pass;

	if (!attempt(call, &pass))
	{
		call->failure = mw_failure_breaker(call, &pass);
		return;
	}
	for (;;)
	{
		const char *why;
		int64		wait;

		if (call->answer != NULL)
			return;
		if (call->reply->look_again)
		{
			call->attempt--;
			call->alone = true; /* should the cache not have it for us after all */
			return;
		}
		why = not_again(call, call->reply, &wait);
		if (why == NULL)
		{
			mw_wait_ms(wait);
			if (call->reply->kind == MW_OUTCOME_UNKNOWN && !reserve_again(call))
				why = " The budget has nothing left for another attempt.";
			else if (!attempt(call, &pass))
				why = BREAKER_OPENED;
		}
		if (why != NULL)
		{
			call->failure = mw_failure_of(call, call->reply, why);
			return;
		}
	}
}

void
mw_retry_explain(MwCall *call, MwExplain *out)
{
	const MwServer *server = call->server;
	MwBreaker	b = {0};
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfo(&json, "{\"max_attempts\": %d, \"base_ms\": %d, \"max_ms\": %d, \"fallback\": [",
					 call->policy->retry_max_attempts, call->policy->retry_base_ms, call->policy->retry_max_ms);
	for (int i = call->chosen + 1; i < call->nchoices; i++)
	{
		if (i > call->chosen + 1)
			appendStringInfoString(&json, ", ");
		mw_json_string(&json, call->choices[i].model, strlen(call->choices[i].model));
	}
	appendStringInfoString(&json, "], \"breaker\": ");
	if (!call->policy->breaker || !server->breaker.on)
		appendStringInfoString(&json, "\"off\"}");
	else
	{
		(void) mw_breaker_look(call->transport->breakers, server->oid, &server->breaker, &b);
		appendStringInfo(&json, "\"%s\"}", mw_breaker_state_name(&b));
	}
	out->verdict = "pass";
	if (open_at(call, mw_now(), &b))
	{
		out->verdict = call->chosen + 1 < call->nchoices ? "fall back" : "refuse";
		out->stop = true;
	}
	out->detail = mw_json_parse(json.data, json.len, NULL);
	out->next = pnstrdup(call->body, call->body_len);
}
