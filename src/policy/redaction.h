/*
 * redaction.h - what a tenant's settings or a call's options say about
 * redaction: types beyond the default ones, strategies, the answer, files.
 */
#ifndef MW_REDACTION_H
#define MW_REDACTION_H

#include "mw.h"
#include "policy/policy.h"
#include "policy/rules.h"

typedef struct MwRedaction
{
	List	   *types;			/* of char *: found beside the default ones, or alone */
	bool		types_given;
	bool		everything;		/* all types but EXCEPT of redaction.c (preset gdpr) */
	List	   *strategy_types; /* of char *, and beside it ... */
	List	   *strategies;		/* ... its strategy, as int */
	bool		output;			/* what the model says beyond placeholders is redacted too */
	bool		refuse_files;	/* images and files, which are not looked into, do not pass */
} MwRedaction;

/* Read and check an object; "what" names it in errors.  Raises MW001. */
extern void mw_redaction_read(Jsonb *jb, const char *what, const char *const *known, MwRedaction *out);
extern const char *const mw_redaction_keys[];	/* of settings and of a call's option */
extern const char *const mw_redact_keys[];	/* of mw_redact's options */

/* Give them to recognizers.  stricter: a strategy only replaces a milder one.  The first type that none has, or NULL. */
extern const char *mw_redaction_apply(const MwRedaction *r, MwRecognizer *recs, int n, bool stricter);
/* Whether a type is among those that are asked for */
extern bool mw_redaction_names(const MwRedaction *r, const char *type);
/* A copy of a policy (current context) with a call's options, which can only make it stricter.  Raises MW001 for an unknown type. */
extern const MwPolicy *mw_redaction_tighten(const MwPolicy *policy, Jsonb *options);
/* Inside SPI: MW001 for a type that settings name anew and neither '*' nor the tenant has a recognizer for; either may be NULL */
extern void mw_redaction_check(const char *tenant, const MwRedaction *now, const MwRedaction *before);
/*
 * For whoever makes a policy stricter: the variant of this version that was kept
 * before, or NULL; a copy (current context) with recognizers of its own to be
 * changed, and room for so many more; and that copy, kept as long as the policy, which is then
 * what to use.
 */
extern const MwPolicy *mw_policy_variant(const MwPolicy *policy, const MwKey *version);
extern MwPolicy *mw_policy_copy(const MwPolicy *policy, const MwKey *version, int more, MwRecognizer **recognizers);
extern const MwPolicy *mw_policy_keep(const MwPolicy *policy, const MwPolicy *own);
extern _Noreturn void mw_redaction_unknown(const MwPolicy *policy, const char *type);

/* names */
extern const char *mw_strategy_name(MwStrategy strategy);
extern bool mw_strategy_find(const char *name, MwStrategy *strategy);
/* a type's name as mw writes it: LangChain's and Presidio's names and small letters are accepted */
extern char *mw_pii_type_name(const char *name);

#endif
