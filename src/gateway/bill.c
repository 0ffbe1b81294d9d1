/*
 * bill.c - judges an exchange (invariant 5).
 *
 * Not sent: costs nothing.  Unknown (written in full, no complete response):
 * costs what was reserved, since the provider may have answered.  A complete 2xx
 * is paid for, usable or not: by its usage, or by our own count of the prompt and
 * of the answer's bytes where it says nothing sane.  Any other complete response
 * costs what its usage says, mostly nothing.  Whatever was sent counts as a
 * request, once a call.
 */
#include "mw.h"

#include "gateway/bill.h"
#include "gateway/spent.h"

void
mw_bill_unknown(MwBill *bill, int64 prompt_tokens, const MwPrice *price, MwAmounts reserved)
{
	bill->kind = MW_OUTCOME_UNKNOWN;
	bill->has_usage = true;
	memset(&bill->usage, 0, sizeof(bill->usage));
	bill->usage.input_tokens = Min(prompt_tokens, reserved.tokens);
	bill->usage.output_tokens = Max(reserved.tokens - prompt_tokens, 0);
	bill->usage.estimated = true;
	bill->priced = price->known;
	bill->cost = reserved.cost;
	bill->billed = reserved;
	bill->excess = (MwAmounts) {0};
}

void
mw_bill_make(MwBill *bill, MwHttpKind how, int status, const char *body, int len,
			 const char *error, const MwProvider *provider,
			 int64 prompt_tokens, const MwPrice *price, MwAmounts reserved)
{
	bool		success;

	memset(bill, 0, sizeof(*bill));
	strlcpy(bill->error, error, sizeof(bill->error));
	bill->http_status = status;

	if (how == MW_HTTP_NOT_SENT)
	{
		bill->kind = MW_OUTCOME_NOT_SENT;
		return;
	}
	if (how == MW_HTTP_UNKNOWN)
	{
		mw_bill_unknown(bill, prompt_tokens, price, reserved);
		return;
	}

	if (body != NULL)
		provider->outcome(body, len, status, &bill->outcome);
	if (bill->outcome.inner_status != 0)
		bill->http_status = bill->outcome.inner_status;
	success = bill->http_status >= 200 && bill->http_status < 300;
	bill->kind = success && bill->outcome.usable ? MW_OUTCOME_OK : MW_OUTCOME_FAILED;
	bill->keep = success && body != NULL;
	if (bill->outcome.error[0] != '\0')
		strlcpy(bill->error, bill->outcome.error, sizeof(bill->error));
	else if (!success && bill->error[0] == '\0')
		snprintf(bill->error, sizeof(bill->error), "HTTP status %d", bill->http_status);
	else if (body == NULL && bill->error[0] == '\0')
		strlcpy(bill->error, "the answer is empty", sizeof(bill->error));

	bill->has_usage = bill->outcome.has_usage || success;
	if (bill->outcome.has_usage)
		bill->usage = bill->outcome.usage;
	else if (success)
	{
		bill->usage.input_tokens = prompt_tokens;
		bill->usage.output_tokens = 1 + len / 4;
		bill->usage.estimated = true;
	}
	bill->priced = price->known && bill->has_usage;
	bill->cost = bill->priced ? mw_price_of(price, &bill->usage) : 0;
	bill->billed.requests = reserved.requests;
	bill->billed.tokens = bill->usage.input_tokens + bill->usage.output_tokens;
	bill->billed.cost = bill->cost;
	bill->excess.tokens = Max(bill->billed.tokens - reserved.tokens, 0);
	bill->excess.cost = Max(bill->billed.cost - reserved.cost, 0);
}

const char *
mw_outcome_name(MwOutcomeKind kind)
{
	switch (kind)
	{
		case MW_OUTCOME_OK:
			return "ok";
		case MW_OUTCOME_UNKNOWN:
			return "unknown";
		case MW_OUTCOME_FAILED:
		case MW_OUTCOME_NOT_SENT:
			break;
	}
	return "failed";
}

bool
mw_status_retryable(int http_status)
{
	return http_status == 408 || http_status == 409 || http_status == 429 || http_status >= 500;
}
