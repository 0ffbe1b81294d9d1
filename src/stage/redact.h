/*
 * redact.h - recognisers, and redaction and restoring of one text.
 */
#ifndef MW_REDACT_H
#define MW_REDACT_H

#include "mw.h"
#include "policy/policy.h"
#include "policy/redaction.h"
#include "policy/rules.h"
#include "util/regex.h"
#include "util/validate.h"

/* The rows that CREATE EXTENSION writes into mw.recognizer: one source for table and postmaster. */
extern int	mw_builtin_recognizers(void);	/* how many */
extern const MwRecognizer *mw_builtin_recognizer(int i);	/* those of a type side by side */

/* a part of them (recognizers_*.c) */
typedef struct MwRecognizerList
{
	const MwRecognizer *recs;
	int			n;
} MwRecognizerList;

extern const MwRecognizerList mw_recognizers_general;
extern const MwRecognizerList mw_recognizers_secret;
extern const MwRecognizerList mw_recognizers_person;
extern const MwRecognizerList mw_recognizers_europe;
extern const MwRecognizerList mw_recognizers_world;

typedef struct MwSpan
{
	int			from,
				to;				/* bytes of the input */
	const MwRecognizer *rec;
	int			entry;			/* in the map, -1 for none */
	const char *shown;			/* what stands in its place (mw_redact_text) */
	int			shown_len;
} MwSpan;

/*
 * detect.c: what is personal in a text, in order and apart; palloc'd, NULL for
 * none.  label: the key of the JSON member that it is the value of, or NULL.
 */
extern MwSpan *mw_pii_find(const MwPolicy *policy, const char *s, int len, const char *label, int *nspans);
extern bool mw_policy_detects(const MwPolicy *policy);	/* whether there is any recogniser at all */

/* pii_map.c: the entry of a value, made where it is new */
extern int	mw_pii_entry(MwPiiMap *map, const char *type, const char *value, int len);
/* and one whose placeholder is given (mw_restore); false where it is no placeholder */
extern bool mw_pii_add(MwPiiMap *map, const char *placeholder, int plen, const char *value, int len);

/* what a strategy puts in a value's place */
extern char *mw_pii_masked(const char *type, const char *value, int len, int *newlen);
extern char *mw_pii_hashed(const char *tenant, const char *type, const char *value, int len);

/* placeholder.c: how placeholders are spelled */
#define MW_TYPE_MAX		63
/* more digits than a number that is ever issued */
#define MW_NUMBER_DIGITS 9

typedef struct MwLoose
{
	const char *s;
	int			len;
	int			at;				/* what was found ends before here */
	int			bracket,
				under;			/* the next < and _ */
	int			from,
				to;				/* the one found */
	char		strict[MW_TYPE_MAX + MW_NUMBER_DIGITS + 8];	/* as mw would write it */
	int			type_len;
	int			number;
	bool		is_strict;		/* and that is how it is written */
} MwLoose;

extern int	mw_placeholder_read(const char *s, int len, int *type_len, int *number);
extern void mw_loose_start(MwLoose *l, const char *s, int len);
extern bool mw_loose_next(MwLoose *l);

/* pii_map.c: restoring a text that comes in pieces; one cut in two is restored */
typedef struct MwRestorer
{
	const MwPiiMap *map;
	StringInfoData held;
} MwRestorer;

extern void mw_restorer_start(MwRestorer *r, const MwPiiMap *map);
extern void mw_restorer_feed(MwRestorer *r, const char *piece, int len, StringInfo out);
extern void mw_restorer_end(MwRestorer *r, StringInfo out);

/* An answer's text: what a model says beyond placeholders.  Raises MW201 for strategy block. */
extern char *mw_redact_answer(const MwPolicy *policy, char *s, int len, int *newlen);

extern void mw_pii_map_init(MwPiiMap *map, MemoryContext cxt);
/* Placeholders literally in a text are never issued: call for every text of the call before redacting the first. */
extern void mw_pii_reserve(MwPiiMap *map, const char *s, int len);
/*
 * Redact one text (current context).  Returns s itself when nothing was found.
 * spans, nspans may be NULL.  Raises MW201 for strategy block.
 */
extern char *mw_redact_text(const MwPolicy *policy, MwPiiMap *map, char *s, int len, const char *label,
							int *newlen, MwSpan **spans, int *nspans);
/* Replace the placeholders of this map, also where a model spelled them otherwise (counted in map->loose); s itself when none is there.  *missing (may be NULL): something that looks like one of ours but is not in the map. */
extern char *mw_restore_text(const MwPiiMap *map, char *s, int len, int *newlen, bool *missing);

/* one message, rewritten in place; the spans found, by type, are added to *counts (may be NULL) */
extern void mw_redact_message(const MwPolicy *policy, MwPiiMap *map, MwMessage *msg);
extern void mw_pii_reserve_message(MwPiiMap *map, MwMessage *msg);

/* recognizer_call.c: let SQL functions be asked; from _PG_init */
extern void mw_recognizers_init(void);
/* compile the built-in patterns in the postmaster */
extern void mw_redact_prewarm(void);

#endif
