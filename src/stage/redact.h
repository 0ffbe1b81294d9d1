/*
 * redact.h - recognisers, and redaction and restoring of one text.
 */
#ifndef MW_REDACT_H
#define MW_REDACT_H

#include "mw.h"
#include "policy/policy.h"
#include "util/regex.h"

/* validators: stage/validate.c; s is the match, text/from its place (for context) */
typedef bool (*MwValidator) (const char *s, int len);
extern MwValidator mw_validator_find(const char *name);	/* luhn, ssn, phone, ... ; NULL when unknown */
extern const char *mw_validator_names(void);	/* for hints */

typedef enum MwStrategy		/* in order of strictness (invariant 9) */
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
	const char *prefilter;		/* bytes one of which every match contains ("@", "0-9"), or NULL */
} MwRecognizer;

/* The rows that CREATE EXTENSION writes into mw.recognizer: one source for table and postmaster. */
extern const MwRecognizer mw_builtin_recognizers[];
extern const int mw_nbuiltin_recognizers;

typedef struct MwSpan
{
	int			from,
				to;				/* bytes of the input */
	const MwRecognizer *rec;
	int			entry;			/* in the map, -1 for none */
} MwSpan;

extern void mw_pii_map_init(MwPiiMap *map, MemoryContext cxt);
/* Placeholders literally in a text are never issued: call for every text of the call before redacting the first. */
extern void mw_pii_reserve(MwPiiMap *map, const char *s, int len);
/*
 * Redact one text (current context).  Returns s itself when nothing was found.
 * spans, nspans may be NULL.  Raises MW201 for strategy block.
 */
extern char *mw_redact_text(const MwPolicy *policy, MwPiiMap *map, char *s, int len, int *newlen,
							MwSpan **spans, int *nspans);
/* Replace the placeholders of this map; s itself when none is there.  *missing (may be NULL): something that looks like one of ours but is not in the map. */
extern char *mw_restore_text(const MwPiiMap *map, char *s, int len, int *newlen, bool *missing);

/* compile the built-in patterns in the postmaster */
extern void mw_redact_prewarm(void);

#endif
