/*
 * pii.h - personal data as LangChain's PII middleware finds it.
 */
#ifndef MW_AGENT_PII_H
#define MW_AGENT_PII_H

#include "agent/agent.h"

typedef struct MwPiiHit
{
	int			from,
				to;				/* bytes of the text */
	const char *type;			/* as the option or the detector spells it */
} MwPiiHit;

/* pii_detect.c: what a built-in detector finds in a text, in order and apart; of MwPiiHit * */
typedef List *(*MwDetector) (const char *s, int len);

extern MwDetector mw_detector_find(const char *pii_type);	/* email, credit_card, ip, mac_address, url; NULL for others */
/* The same for a pattern of an option's; MW001 where it takes too long on this text */
extern List *mw_detect_pattern(const char *pattern, const char *type, const char *s, int len);

/*
 * pii.c: the policy of a run with redaction on whose agent has pii middlewares:
 * the stage finds their types too, and the strictest strategy holds.  The policy
 * itself where there is nothing to add.
 */
extern const struct MwPolicy *mw_pii_tighten(const struct MwPolicy *policy, const MwAgent *agent);

#endif
