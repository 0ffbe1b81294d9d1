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

#define MW_ANALYZER_MAX_MS 60000	/* the longest time that one may be given */

/* What finds a type at a Presidio analyzer (policy/analyzer.c) */
typedef struct MwAnalyzer
{
	char	   *server;
	char	   *language;
	List	   *entities;		/* of char *, in Presidio's words */
	double		score_threshold;
	int			timeout_ms;
	bool		skip;			/* a server that does not answer: go on without it */
} MwAnalyzer;

/* A row of mw.recognizer */
typedef struct MwRecognizer
{
	const char *type;			/* EMAIL */
	const char *pattern;
	const char *validator;		/* NULL: none */
	const char *context;		/* what must stand near: =word|word, or a regular expression; or NULL */
	int			priority;		/* higher wins an overlap of equal validation */
	MwStrategy	strategy;
	const char *prefilter;		/* where matches begin, or NULL; see stage/pii_gate.h */
	const char *function;		/* an SQL function that finds it instead of a pattern, or NULL */
	const MwAnalyzer *analyzer; /* or who finds it */
	bool		on_demand;		/* only where its type is asked for by name or preset ... */
	bool		demanded;		/* ... as it is here */
	bool		own;			/* the tenant's, not that of '*': which argument changes it */
} MwRecognizer;

typedef enum MwGuardMode
{
	MW_GUARD_OFF, MW_GUARD_LOG, MW_GUARD_BLOCK
} MwGuardMode;

/* What decides whether a guard matches, in order of what it costs */
typedef enum MwGuardKind
{
	MW_GUARD_PATTERN,			/* a regular expression on the normalised view */
	MW_GUARD_CHECK,				/* a piece of this library, by the guard's name (stage/checks.c) */
	MW_GUARD_LEARNED,			/* the classifier (stage/learned.c) */
	MW_GUARD_FUNCTION,			/* a function of an administrator's, run as the caller */
	MW_GUARD_MODEL				/* a question to a model */
} MwGuardKind;

/* Where a text comes from: each has its threshold, a guard may leave some out */
typedef enum MwGuardSource
{
	MW_FROM_USER, MW_FROM_TOOL, MW_FROM_DOCUMENT, MW_FROM_OUTPUT, MW_NSOURCES
} MwGuardSource;

#define MW_FROM_INPUT ((1 << MW_FROM_USER) | (1 << MW_FROM_TOOL) | (1 << MW_FROM_DOCUMENT))

/* A row of mw.guard */
typedef struct MwGuard
{
	const char *guard;			/* its name */
	const char *category;
	const char *pattern;		/* of a pattern: matched on the normalised view, caseless */
	double		weight;			/* a text's score is the sum of its guards' weights; block at the source's threshold */
	MwGuardMode mode;
	MwGuardKind kind;
	int			sources;		/* bits: 1 << MwGuardSource */
	double		threshold;		/* of what gives a number from 0 to 1: matches from here on */
	const char *function;		/* signature, "schema.name(text)" */
	const char *model;			/* server:model */
	const char *question;		/* to be answered by yes (it matches) or no */
	bool		own;			/* the tenant's, not that of '*' */
} MwGuard;

/*
 * The library's rules, recognizers by priority and guards by name; they stay as
 * long as the process.  From _PG_init.
 */
extern void mw_rules_builtin(const MwRecognizer *recognizers, int nrecognizers, const MwGuard *guards, int nguards);
/* Fill recognizers, guards and version of a policy whose settings have been read */
extern void mw_rules_read(struct MwPolicy *p);

#endif
