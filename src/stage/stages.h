/*
 * stages.h - the six stages, and what of them can be used alone.
 */
#ifndef MW_STAGES_H
#define MW_STAGES_H

#include "mw.h"

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

/* our own upper-bound count of tokens (budget.c): never below what a byte-level tokenizer can need is not promised, see its header */
extern int64 mw_tokens_of_text(const char *s, int len);

/* the canonical key of a call (cache.c) */
extern MwKey mw_cache_key_of(const MwCall *call);

#endif
