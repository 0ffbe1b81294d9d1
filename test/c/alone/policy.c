/*
 * policy.c - a policy of built-in recognizers, for what has no server (alone.c).
 */
#include "alone.h"

#include "policy/policy.h"
#include "stage/redact.h"

struct MwPolicy *
mw_alone_policy(MwAloneSet set)
{
	MwPolicy   *p;
	int			n = mw_builtin_recognizers();
	MwRecognizer *recs;

	mw_alone_keep(true);
	p = palloc0(sizeof(MwPolicy));
	recs = palloc0(sizeof(MwRecognizer) * n);
	p->tenant = pstrdup("alone");
	p->recognizers = recs;
	for (int i = 0; i < n; i++)
	{
		MwRecognizer r = *mw_builtin_recognizer(i);
		int			at;

		if (set == MW_ALONE_FOUR && strcmp(r.type, "EMAIL") != 0 && strcmp(r.type, "PHONE") != 0 &&
			strcmp(r.type, "SSN") != 0 && strcmp(r.type, "CC") != 0)
			continue;
		r.demanded = set == MW_ALONE_ALL;
		/* by priority, as policy.c orders them */
		for (at = p->nrecognizers++; at > 0 && recs[at - 1].priority < r.priority; at--)
			recs[at] = recs[at - 1];
		recs[at] = r;
	}
	/* the plan is made now, so that it is kept */
	{
		int			nspans;

		(void) mw_pii_find(p, "a", 1, NULL, &nspans);
	}
	mw_alone_keep(false);
	return p;
}
