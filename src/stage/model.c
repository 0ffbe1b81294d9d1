/*
 * model.c - one attempt: encode for the provider, hand over, decode.
 *
 * What has to happen when the answer comes, settling, recording, filling the
 * cache, travels with the request as a plan, since the answer may outlive us.
 * This stage judges nothing: what became of the attempt is in call->reply, for
 * the retry stage around it.
 */
#include "mw.h"

#include "gateway/bill.h"
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
		.request_named = call->recorded,
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
	call->had = call->reply->kind == MW_OUTCOME_OK || call->reply->kind == MW_OUTCOME_UNKNOWN || call->reply->unknown_before ||
		(call->reply->kind == MW_OUTCOME_FAILED && call->reply->http_status >= 200 && call->reply->http_status < 300);
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

/*
 * A replayed run has to go the way it went, so whoever looks at an answer's usage
 * gets this: it is the same whether the answer is new, recorded or cached.
 */
MwUsage
mw_answer_used(const MwCall *call, MwMoney *cost)
{
	const MwAnswer *answer = call->answer;
	MwBill		bill = {.usage.estimated = true};

	if (answer->usage.input_tokens + answer->usage.output_tokens > 0)
	{
		*cost = call->reply->cost;	/* a new one, read by who carried it */
		return answer->usage;
	}
	if (answer->body != NULL)
		mw_bill_make(&bill, MW_HTTP_COMPLETE, 200, answer->body, answer->body_len, "", call->provider,
					 call->prompt_tokens, &call->reserved.price, (MwAmounts) {0});
	*cost = bill.cost;
	return bill.usage;
}

void
mw_model_explain(MwCall *call, MwExplain *out)
{
	out->verdict = "send";
	out->next = pnstrdup(call->body, call->body_len);
}
