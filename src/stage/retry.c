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
#include "pgstat.h"
#include "storage/latch.h"

#include "gateway/transport.h"
#include "policy/policy.h"
#include "stage/stages.h"
#include "util/json.h"

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

static void
wait_ms(int64 ms)
{
	MwInstant	until = mw_after_ms(ms);

	for (;;)
	{
		long		left = mw_ms_until(until);

		if (left <= 0)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* An unknown outcome has used the reservation up: another attempt is another bill */
static bool
reserve_again(MwCall *call)
{
	const char *unit = NULL;
	int64		settled,
				reserved,
				left;

	call->transport->release(call);
	call->reserved.tokens = call->prompt_tokens + call->send_max_tokens;
	return call->transport->reserve(call, &unit, &settled, &reserved, &left) < 0;
}

/* Why the same model is not asked again after this reply, where it could be; NULL: it is, after *wait */
static const char *
not_again(MwCall *call, const MwReply *r, int64 *wait)
{
	if (!mw_failure_again(call, r))
		return "";
	if (call->attempt >= call->policy->retry_max_attempts)
		return " Attempts are used up.";
	if (r->retry_after_ms > MAX_RETRY_AFTER_MS)
		return " That is too long to wait for.";
	*wait = backoff_ms(call, r);
	if (mw_ms_until(call->deadline) <= *wait)
		return " The deadline of the call comes before another attempt.";
	return NULL;
}

/*
 * Returns with an answer; with a failure, for the budget stage to ask another
 * model or raise it; or with neither, for the cache stage to look again: an
 * equal miss was stored between its look-up and our request.
 */
void
mw_retry_run(MwCall *call)
{
	for (;;)
	{
		const char *why;
		int64		wait;

		call->attempt++;
		mw_next(call);
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
			wait_ms(wait);
			if (call->reply->kind == MW_OUTCOME_UNKNOWN && !reserve_again(call))
				why = " The budget has nothing left for another attempt.";
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
	appendStringInfoString(&json, "]}");
	out->verdict = "pass";
	out->detail = mw_json_parse(json.data, json.len, NULL);
	out->next = pnstrdup(call->body, call->body_len);
}
