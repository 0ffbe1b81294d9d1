/*
 * stages.h - the six stages, and what of them can be used alone.
 */
#ifndef MW_STAGES_H
#define MW_STAGES_H

#include "mw.h"
#include "gateway/breaker.h"
#include "util/tokens.h"

extern void mw_redact_run(MwCall *call);
extern void mw_redact_explain(MwCall *call, MwExplain *out);
extern void mw_guardrail_run(MwCall *call);
extern void mw_guardrail_explain(MwCall *call, MwExplain *out);
extern void mw_budget_run(MwCall *call);
extern void mw_budget_explain(MwCall *call, MwExplain *out);
extern void mw_cache_run(MwCall *call);
extern void mw_cache_explain(MwCall *call, MwExplain *out);
extern void mw_retry_run(MwCall *call);
extern void mw_retry_explain(MwCall *call, MwExplain *out);
extern void mw_model_run(MwCall *call);
extern void mw_model_explain(MwCall *call, MwExplain *out);

/* budget.c: encode the request and name it; what mw_cache_key uses too */
extern void mw_call_encode(MwCall *call);
extern void mw_budget_admitted(MwCall *call);	/* its moment of admission and the windows of that, unless they are known */
extern void mw_budget_peek(const MwCall *call, int scope, MwAmounts *settled, MwAmounts *reserved);	/* budget_peek.c */
extern void mw_budget_refuse_miss(MwCall *call);	/* only hits are left: MW301, or the run ends */

/* fallback.c: where an earlier run of the request_id had got to; the next model after call->failure, or that error */
extern void mw_fallback_start(MwCall *call);
extern void mw_fallback_next(MwCall *call);
extern char *mw_fallback_story(const MwCall *call); /* the models that failed, for a detail; NULL for none */

/* model.c: what an answer used and cost when it was new, as its provider said, or (estimated) as we count */
extern MwUsage mw_answer_used(const MwCall *call, MwMoney *cost);

/* failure.c: what a reply that is no answer means */
extern bool mw_failure_again(const MwCall *call, const struct MwReply *r);	/* may the same model be asked again? */
extern MwFailure *mw_failure_of(const MwCall *call, const struct MwReply *r, const char *why);
extern MwFailure *mw_failure_breaker(const MwCall *call, const MwPass *pass);	/* MW403 */
extern _Noreturn void mw_failure_raise(const MwFailure *f);
/* failure.c: the run ends with a text of the tenant's in the place of an answer; what one was paid for stays with the call */
extern void mw_call_end(MwCall *call, const char *text, const char *ended_by);

/* cache.c: the key of call_key and the versions of the tenant's rules and cache; also left in call->cache_key */
extern MwKey mw_cache_key_of(MwCall *call);
/* and call_key itself, of the tenant, the model and a request's bytes */
extern MwKey mw_call_key_of(const MwCall *call, const char *body, int len);

#endif
