/*
 * stages.h - the six stages, and what of them can be used alone.
 */
#ifndef MW_STAGES_H
#define MW_STAGES_H

#include "mw.h"
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
extern void mw_budget_refuse_miss(MwCall *call);	/* only hits are left: MW301 */

/* cache.c: the key of call_key and the versions of the tenant's rules and cache; also left in call->cache_key */
extern MwKey mw_cache_key_of(MwCall *call);

#endif
