/*
 * reviewers.h - who decides interrupts.
 */
#ifndef MW_REVIEWERS_H
#define MW_REVIEWERS_H

#include "mw.h"

/* The current role's rights as a reviewer of one tool (NULL: of any) */
typedef struct MwReviewRight
{
	bool		may;
	bool		own;			/* its own requests, too */
	bool		reveal;			/* sees values instead of placeholders */
	bool		named;			/* there are reviewers for the tool at all */
} MwReviewRight;

extern MwReviewRight mw_review_right(const char *tenant, const char *tool);
extern bool mw_may_review(const char *tenant, const char *tool);
/* Whether a role could still decide such a gate: its claim of one counts no longer than that; agents_own: of an agent, not of the tool's row */
extern bool mw_could_decide(Oid role, const char *tenant, const char *tool, bool agents_own);
/* Whether the current role, or whoever stands behind it, is that one, by membership too; InvalidOid is nobody */
extern bool mw_is_own(Oid role);
/* Who calls a function that the current role owns (SECURITY DEFINER); InvalidOid where nobody else does */
extern Oid mw_outer_role(void);

#endif
