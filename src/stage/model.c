/*
 * model.c - one attempt: encode for the provider, hand over, decode.
 *
 * What has to happen when the answer comes, settling, recording, filling the
 * cache, travels with the request as a plan, since the answer may outlive us.
 * This stage judges nothing: what became of the attempt is in call->reply, for
 * the retry stage around it.
 */
#include "mw.h"

#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "provider/provider.h"
#include "stage/stages.h"
#include "util/faults.h"

/* The body as it is sent: with the max_tokens that the budget left */
static const char *
body_to_send(MwCall *call, int *len)
{
	StringInfoData body;

	if (call->send_max_tokens == call->max_tokens)
	{
		*len = call->body_len;
		return call->body;
	}
	initStringInfo(&body);
	call->provider->encode(&body, call->model_name, call->messages, call->nmessages,
						   call->tools, call->params, call->send_max_tokens, call->server->max_tokens_field);
	*len = body.len;
	return body.data;
}

void
mw_model_run(MwCall *call)
{
	MwReservation *r = &call->reserved;
	MwAttempt	a = {
		.tenant = call->tenant,
		.session = call->session,
		.request_id = call->request_id,
		.request_named = call->request_named,
		.run_id = call->run_id,
		.turn = call->turn,
		.call_no = call->call_no,
		.attempt = call->attempts_before + call->attempt,
		.purpose = call->purpose,
		.model = call->model,
		.serverid = call->server->oid,
		.provider = call->provider,
		.deadline = call->deadline,
		.breaker = call->breaker,
		.afresh = call->afresh,
		.reserved = &call->reserved,
		.call_key = call->call_key,
		.nth = call->nth,
		.resend_unknown = call->resend_unknown,
		.cache_key = call->cache_key,
		.cacheable = call->cacheable,
		.share = call->cacheable && !call->alone && strcmp(call->cache_mode, "on") == 0,
		.cache_epoch = call->cache_epoch,
		.cache_ttl = call->cache_ttl,
	};

	/* where nobody limits cost the price is looked up only here: a hit needs none */
	mw_budget_admitted(call);
	if (!r->price.known)
		r->price = mw_policy_price(call->model, r->when.admitted_at);
	r->bound = mw_price_bound(&r->price, r->prompt_tokens, r->answer_tokens);

	a.body = body_to_send(call, &a.body_len);
	call->reply = call->transport->exchange(&a);
	call->cost += call->reply->cost;
	call->unpriced |= !r->price.known && call->reply->counted;
	mw_fault("parse");
	if (call->reply->kind != MW_OUTCOME_OK)
		return;
	call->answer = call->provider->decode(call->reply->body, call->reply->body_len);
	call->answer->usage = call->reply->usage;
	if (call->reply->recorded)
	{
		call->replayed = true;
		memset(&call->answer->usage, 0, sizeof(MwUsage));
	}
}

void
mw_model_explain(MwCall *call, MwExplain *out)
{
	out->verdict = "send";
	out->next = pnstrdup(call->body, call->body_len);
}
