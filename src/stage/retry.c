/*
 * retry.c - sends again what is safe to send again, and says what was not.
 *
 * Safe (invariant 5): what was not sent, and what a complete response refused
 * for now: 408, 409, 429, 5xx.  An unknown outcome is sent again only where the
 * server's owner says so (retry_unknown).  Between attempts it waits on the
 * latch, exponentially with full jitter, never less than the provider asked
 * for; all attempts share the call's one deadline.
 */
#include "mw.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "provider/provider.h"
#include "stage/stages.h"
#include "util/json.h"

#define MAX_RETRY_AFTER_MS	120000	/* a longer wish ends the call at once: nobody keeps a connection that long */

static bool
worth_retrying(const MwCall *call, const MwReply *r)
{
	switch (r->kind)
	{
		case MW_OUTCOME_NOT_SENT:
			return !r->timed_out;
		case MW_OUTCOME_UNKNOWN:
			return call->retry_unknown && !r->timed_out;
		case MW_OUTCOME_FAILED:
			return !r->retry_forbidden && mw_status_retryable(r->http_status);
		default:
			return false;
	}
}

/* A sentence ends with one full stop, whoever wrote it */
static const char *
stopped(const char *s)
{
	size_t		len = strlen(s);

	return len > 0 && strchr(".!?", s[len - 1]) != NULL ? s : psprintf("%s.", s);
}

/*
 * Why a server could not be reached is mostly its address.  A fake has none: its
 * script said so.
 */
static char *
address_hint(const MwCall *call, const MwReply *r)
{
	const char *name = quote_identifier(call->server->name);

	if (strcmp(call->server->api, "fake") == 0)
		return NULL;
	if (r->private_host)
		return psprintf("Where that is meant, a superuser types: ALTER SERVER %s OPTIONS (%s allow_private 'true');",
						name, call->server->names_allow_private ? "SET" : "ADD");
	return psprintf("Check its address; a superuser types: ALTER SERVER %s OPTIONS (SET base_url '...');", name);
}

/* A 4xx that is the request's or the configuration's fault */
static char *
refusal_hint(const MwCall *call, const MwReply *r)
{
	if (strcmp(call->server->api, "fake") == 0)
		return NULL;
	switch (r->http_status)
	{
		case 401:
			return mw_server_key_hint(call->server);
		case 404:
			return psprintf("Check the name of the model, and the server's base_url, to which mw appends %s.", call->provider->path);
		default:
			return NULL;
	}
}

/*
 * The provider's message as a detail: outcome() made it printable and took
 * secrets out, and of an answer that cannot be used it says what is wrong, not
 * what stands there.
 */
static void
give_up(const MwCall *call, const MwReply *r, const char *why)
{
	const char *said = stopped(r->error ? r->error : "no reason was given");
	char	   *retry_after = r->retry_after_ms >= 0 ? psprintf(" The provider asks to wait %.3f s.", r->retry_after_ms / 1000.0) : "";
	char	   *hint;

	if (r->unknown_before)
		ereport(ERROR,
				(errcode(ERRCODE_MW_OUTCOME_UNKNOWN),
				 errmsg("an earlier attempt of this request_id has an unknown outcome"),
				 errdetail("The provider may have answered and billed it; it was charged at its reservation and is not sent again.%s%s",
						   r->error ? " " : "", r->error ? said : ""),
				 errhint("Say options => '{\"resend_unknown\": true}' to send it again, and perhaps pay twice.")));
	if (r->kind == MW_OUTCOME_UNKNOWN)
		ereport(ERROR,
				(errcode(r->timed_out ? ERRCODE_MW_DEADLINE : ERRCODE_MW_PROVIDER_FAILED),
				 errmsg(r->timed_out ? "the deadline of the call has passed" : "no complete answer came from server \"%s\"", call->server->name),
				 errdetail("outcome unknown: the request was written in full, and charged at its reservation. attempts %d; %s",
						   call->attempt, said),
				 errhint("%s%s", r->timed_out ? "Raise options.timeout. " : "",
						 call->request_named ?
						 "A repeat may pay twice: this request_id is sent again only with options => '{\"resend_unknown\": true}'." :
						 "A repeat may pay twice; name a request_id to be asked first.")));
	if (r->timed_out)
		ereport(ERROR,
				(errcode(ERRCODE_MW_DEADLINE),
				 errmsg("the deadline of the call has passed"),
				 errdetail("Nothing was sent in the last attempt. attempts %d; %s", call->attempt, said),
				 errhint("Raise options.timeout.")));
	if (r->kind == MW_OUTCOME_FAILED && r->http_status >= 200 && r->http_status < 300)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ANSWER),
				 errmsg("the answer of server \"%s\" cannot be used", call->server->name),
				 errdetail("It was complete, so it is paid for and not sent again; %s", said),
				 call->request_named ? errhint("Another request_id asks again, and pays again.") :
				 errhint("A repeat asks and pays again.")));
	if (r->kind == MW_OUTCOME_FAILED && r->http_status < 500 && !worth_retrying(call, r) && r->http_status != 429)
	{
		hint = refusal_hint(call, r);
		ereport(ERROR,
				(errcode(ERRCODE_MW_PROVIDER_REFUSED),
				 errmsg("server \"%s\" refused the request with status %d", call->server->name, r->http_status),
				 errdetail("%s", said),
				 hint ? errhint("%s", hint) : 0));
	}
	if (r->kind == MW_OUTCOME_NOT_SENT)
	{
		hint = address_hint(call, r);
		ereport(ERROR,
				(errcode(ERRCODE_MW_PROVIDER_FAILED),
				 errmsg("server \"%s\" could not be reached", call->server->name),
				 errdetail("Nothing was sent. attempts %d; %s%s", call->attempt, said, why),
				 hint ? errhint("%s", hint) : 0));
	}
	ereport(ERROR,
			(errcode(ERRCODE_MW_PROVIDER_FAILED),
			 errmsg("server \"%s\" failed with status %d", call->server->name, r->http_status),
			 errdetail("attempts %d; %s%s%s", call->attempt, said, retry_after, why),
			 errhint("Try again later.")));
}

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
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);

	for (;;)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		if (left <= 0)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* An unknown outcome has used the reservation up: another attempt is another bill */
static void
reserve_again(MwCall *call)
{
	const char *unit = NULL;
	int64		settled,
				reserved,
				left;

	call->transport->release(call);
	call->reserved.tokens = call->prompt_tokens + call->send_max_tokens;
	if (call->transport->reserve(call, &unit, &settled, &reserved, &left) >= 0)
		give_up(call, call->reply, " The budget has nothing left for another attempt.");
}

/*
 * Returns with an answer; or without one, for the cache stage to look again:
 * an equal miss was stored between its look-up and our request.
 */
void
mw_retry_run(MwCall *call)
{
	for (;;)
	{
		MwReply    *r;
		int64		wait;

		call->attempt++;
		mw_next(call);
		if (call->answer != NULL)
			return;

		r = call->reply;
		if (r->look_again)
		{
			call->attempt--;
			call->alone = true; /* should the cache not have it for us after all */
			return;
		}
		if (!worth_retrying(call, r) || r->unknown_before)
			give_up(call, r, "");
		if (call->attempt >= call->policy->retry_max_attempts)
			give_up(call, r, " Attempts are used up.");
		wait = backoff_ms(call, r);
		if (r->retry_after_ms > MAX_RETRY_AFTER_MS)
			give_up(call, r, " That is too long to wait for.");
		if (TimestampTzPlusMilliseconds(GetCurrentTimestamp(), wait) >= call->deadline)
			give_up(call, r, " The deadline of the call comes before another attempt.");
		wait_ms(wait);
		if (r->kind == MW_OUTCOME_UNKNOWN)
			reserve_again(call);
	}
}

void
mw_retry_explain(MwCall *call, MwExplain *out)
{
	char	   *json = psprintf("{\"max_attempts\": %d, \"base_ms\": %d, \"max_ms\": %d}",
								call->policy->retry_max_attempts, call->policy->retry_base_ms, call->policy->retry_max_ms);

	out->verdict = "pass";
	out->detail = mw_json_parse(json, strlen(json), NULL);
	out->next = pnstrdup(call->body, call->body_len);
}
