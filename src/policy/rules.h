/*
 * rules.h - what an administrator writes about personal data and injections:
 * the rows that policy.c reads and the stages obey.
 */
#ifndef MW_RULES_H
#define MW_RULES_H

#include "mw.h"

typedef enum MwStrategy			/* in order of strictness (invariant 9) */
{
	MW_STRATEGY_MASK, MW_STRATEGY_PLACEHOLDER, MW_STRATEGY_HASH, MW_STRATEGY_REDACT, MW_STRATEGY_BLOCK
} MwStrategy;

/* A row of mw.recognizer */
typedef struct MwRecognizer
{
	const char *type;			/* EMAIL */
	const char *pattern;
	const char *validator;		/* NULL: none */
	const char *context;		/* regular expression of words that must stand near, or NULL */
	int			priority;		/* higher wins an overlap of equal validation */
	MwStrategy	strategy;
	const char *prefilter;		/* what every match contains, or NULL; see stage/prefilter.h */
	bool		own;			/* the tenant's, not that of '*': which argument changes it */
} MwRecognizer;

typedef enum MwGuardMode
{
	MW_GUARD_OFF, MW_GUARD_LOG, MW_GUARD_BLOCK
} MwGuardMode;

/* A row of mw.guard */
typedef struct MwGuard
{
	const char *guard;			/* its name */
	const char *category;
	const char *pattern;		/* matched on the normalised view, caseless */
	double		weight;			/* a text's score is the sum of its guards' weights; block at >= 1 */
	MwGuardMode mode;
	bool		own;			/* the tenant's, not that of '*' */
} MwGuard;

#endif
