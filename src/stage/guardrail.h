/*
 * guardrail.h - guards, and judging and wrapping of one text.
 */
#ifndef MW_GUARDRAIL_H
#define MW_GUARDRAIL_H

#include "mw.h"
#include "policy/policy.h"
#include "policy/rules.h"

extern const MwGuard mw_builtin_guards[];
extern const int mw_nbuiltin_guards;

typedef struct MwGuardHit
{
	const MwGuard *guard;
	int			from,
				to;				/* bytes of the original text */
} MwGuardHit;

typedef struct MwVerdict
{
	MwGuardMode verdict;		/* OFF = pass, LOG, BLOCK */
	double		score;
	MwGuardHit *hits;
	int			nhits;
} MwVerdict;

extern void mw_guard_judge(const MwPolicy *policy, const char *s, int len, MwVerdict *out);
/* <user_input>\n…\n</user_input>, with every look-alike of the tag inside neutralised */
extern char *mw_guard_wrap(const char *s, int len, int *newlen);
extern void mw_guard_prewarm(void);

#endif
