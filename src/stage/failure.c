/*
 * failure.c - what it means that an attempt brought no answer: whether the same
 * model may be asked again, whether another one may, and the error that says
 * what happened.
 *
 * One place says all three, since they are one judgement (invariant 5).  An
 * error is built here and raised later: between the two a fallback may answer,
 * and then it is a notice.  Nothing here waits, sends or books.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "gateway/transport.h"
#include "policy/server.h"
#include "provider/provider.h"
#include "stage/stages.h"

bool
mw_failure_again(const MwCall *call, const MwReply *r)
{
	if (r->unknown_before)
		return false;
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
 * The error for a reply that is no answer.  The provider's message becomes part
 * of the detail: outcome() made it printable and took secrets out, and of an
 * answer that cannot be used it says what is wrong, not what stands there.
 * "why" says why it was not tried again: a sentence after a blank, or "".
 */
MwFailure *
mw_failure_of(const MwCall *call, const MwReply *r, const char *why)
{
	MwFailure  *f = palloc0(sizeof(MwFailure));
	const char *said = stopped(r->error ? r->error : "no reason was given");
	const char *server = call->server->name;

	f->model = call->model;
	if (r->unknown_before)
	{
		f->sqlstate = ERRCODE_MW_OUTCOME_UNKNOWN;
		f->message = "an earlier attempt of this request_id has an unknown outcome";
		f->detail = psprintf("The provider may have answered and billed it; it was charged at its reservation and is not sent again.%s%s",
							 r->error ? " " : "", r->error ? said : "");
		f->hint = "Say options => '{\"resend_unknown\": true}' to send it again, and perhaps pay twice.";
	}
	else if (r->kind == MW_OUTCOME_UNKNOWN)
	{
		f->sqlstate = r->timed_out ? ERRCODE_MW_DEADLINE : ERRCODE_MW_PROVIDER_FAILED;
		f->message = r->timed_out ? "the deadline of the call has passed" :
			psprintf("no complete answer came from server \"%s\"", server);
		f->detail = psprintf("outcome unknown: the request was written in full, and charged at its reservation. attempts %d; %s%s",
							 call->attempt, said, why);
		f->hint = psprintf("%s%s", r->timed_out ? "Raise options.timeout. " : "",
						   call->recorded ?
						   "A repeat may pay twice: this request_id is sent again only with options => '{\"resend_unknown\": true}'." :
						   "A repeat may pay twice; name a request_id to be asked first.");
	}
	else if (r->timed_out)
	{
		f->sqlstate = ERRCODE_MW_DEADLINE;
		f->message = "the deadline of the call has passed";
		f->detail = psprintf("Nothing was sent in the last attempt. attempts %d; %s", call->attempt, said);
		f->hint = "Raise options.timeout.";
	}
	else if (r->kind == MW_OUTCOME_FAILED && r->http_status >= 200 && r->http_status < 300)
	{
		f->sqlstate = ERRCODE_MW_BAD_ANSWER;
		f->message = psprintf("the answer of server \"%s\" cannot be used", server);
		f->detail = psprintf("It was complete, so it is paid for and not sent again; %s", said);
		f->hint = call->recorded ? "Another request_id asks again, and pays again." : "A repeat asks and pays again.";
	}
	else if (r->kind == MW_OUTCOME_FAILED && r->http_status < 500 && r->http_status != 429 && !mw_failure_again(call, r))
	{
		f->sqlstate = ERRCODE_MW_PROVIDER_REFUSED;
		f->message = psprintf("server \"%s\" refused the request with status %d", server, r->http_status);
		f->detail = pstrdup(said);
		f->hint = refusal_hint(call, r);
		f->elsewhere = mw_status_retryable(r->http_status) || list_member_int(call->fallback_on, r->http_status);
	}
	else if (r->kind == MW_OUTCOME_NOT_SENT)
	{
		f->sqlstate = ERRCODE_MW_PROVIDER_FAILED;
		f->message = psprintf("server \"%s\" could not be reached", server);
		f->detail = psprintf("Nothing was sent. attempts %d; %s%s", call->attempt, said, why);
		f->hint = address_hint(call, r);
		f->elsewhere = true;
	}
	else
	{
		f->sqlstate = ERRCODE_MW_PROVIDER_FAILED;
		f->message = psprintf("server \"%s\" failed with status %d", server, r->http_status);
		f->detail = psprintf("attempts %d; %s%s%s", call->attempt, said,
							 r->retry_after_ms >= 0 ? psprintf(" The provider asks to wait %.3f s.", r->retry_after_ms / 1000.0) : "",
							 why);
		f->hint = strcmp(call->server->api, "fake") != 0 ? "Try again later." :
			psprintf("Its script says so, or has run out: SELECT * FROM mw_fake_requests(%s); shows what was sent, mw_fake sets what is answered.",
					 quote_literal_cstr(server));
		f->elsewhere = true;
	}
	return f;
}

/* The breaker of the server is open, and nothing was sent */
MwFailure *
mw_failure_breaker(const MwCall *call, const MwPass *pass)
{
	MwFailure  *f = palloc0(sizeof(MwFailure));

	f->model = call->model;
	f->sqlstate = ERRCODE_MW_BREAKER_OPEN;
	f->elsewhere = true;
	f->message = psprintf("server \"%s\" is not called for now: its circuit breaker is %s",
						  call->server->name, pass->probing ? "half-open" : "open");
	f->detail = psprintf("Nothing was sent. It opened at %s after %d failures in a row; %s %s.",
						 pstrdup(timestamptz_to_str(pass->opened_at)), pass->failures,
						 pass->probing ? "one call is trying it, at the longest until" : "the next attempt is let through at",
						 pstrdup(timestamptz_to_str(mw_wall_clock(pass->retry_at))));
	f->hint = psprintf("Try again then. An administrator can close it at once: SELECT mw_reset_breaker(%s);",
					   quote_literal_cstr(call->server->name));
	return f;
}

void
mw_failure_raise(const MwFailure *f)
{
	ereport(ERROR,
			(errcode(f->sqlstate),
			 errmsg_internal("%s", f->message),
			 errdetail_internal("%s", f->detail),
			 f->hint ? errhint("%s", f->hint) : 0));
	pg_unreachable();
}

/* mw_call_end lets a run end with a text of the tenant's. */
void
mw_call_end(MwCall *call, const char *text, const char *ended_by)
{
	MwAnswer   *end = MemoryContextAllocZero(call->cxt, sizeof(MwAnswer));

	if (call->answer == NULL)
		call->cache = MW_CACHE_OFF;
	else
	{
		end->usage = call->answer->usage;
		end->body = call->answer->body;
		end->body_len = call->answer->body_len;
	}
	end->text = MemoryContextStrdup(call->cxt, text);
	end->len = strlen(text);
	end->finish = "stop";
	call->answer = end;
	call->ended_by = ended_by;
}
