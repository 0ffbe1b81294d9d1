/*
 * bill.h - what an exchange means and what it costs: invariant 5, once, for the
 * gateway and for its twin.
 */
#ifndef MW_BILL_H
#define MW_BILL_H

#include "gateway/http.h"
#include "gateway/transport.h"

typedef struct MwBill
{
	MwOutcomeKind kind;
	int			http_status;	/* the inner one of a 200 that carries an error */
	MwOutcome	outcome;
	MwUsage		usage;			/* the provider's, or our own count */
	bool		has_usage;		/* usage says something */
	bool		keep;			/* a complete 2xx: recorded for a request_id, since it was paid for */
	bool		priced;			/* its cost is known */
	MwMoney		cost;			/* of its usage, whether that is billed or not */
	MwAmounts	billed;			/* requests: 1 where this attempt counts its call */
	MwAmounts	excess;			/* billed above what was reserved */
	char		error[256];		/* printable, without secrets; "" for none */
} MwBill;

/*
 * how: what was read; status, body: of a complete response (body may be NULL,
 * is valid UTF-8); error: the carrier's words for what went wrong, or "".
 */
extern void mw_bill_make(MwBill *bill, MwHttpKind how, int status, const char *body, int len,
						 const char *error, const MwProvider *provider,
						 int64 prompt_tokens, const MwPrice *price, MwAmounts reserved);
/* What is in flight and will not be heard of: charged at its reservation */
extern void mw_bill_unknown(MwBill *bill, int64 prompt_tokens, const MwPrice *price, MwAmounts reserved);
/* ok, failed, unknown: what the ledger says; what was not sent has failed */
extern const char *mw_outcome_name(MwOutcomeKind kind);

#endif
