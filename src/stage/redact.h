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
extern const MwRecognizer *mw_recognizers_sorted(void); /* all of them in the order of a policy: one without other rules points here */

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
/* The same; analyses: what servers said of this call's texts, or NULL */
extern MwSpan *mw_pii_find_with(const MwPolicy *policy, const struct MwAnalyses *analyses, const char *s, int len,
								const char *label, int *nspans);
/* pii_recall.c: the same, and remembered for the time that the text comes again */
extern MwSpan *mw_pii_recall(const MwPolicy *policy, const struct MwAnalyses *analyses, const char *s, int len,
							 const char *label, int *nspans);
extern bool mw_policy_detects(const MwPolicy *policy);	/* whether there is any recogniser at all */

/* pii_map.c: the entry of a value, made where it is new */
extern int	mw_pii_entry(MwPiiMap *map, const char *type, const char *value, int len);
/* and one whose placeholder is given (mw_restore); false where it is no placeholder */
extern bool mw_pii_add(MwPiiMap *map, const char *placeholder, int plen, const char *value, int len);

/* and one that an earlier turn issued; value NULL: it stands for nothing, but its number is used up */
extern bool mw_pii_is_issued(const MwPiiMap *map, const char *type, int type_len, int number);
extern bool mw_pii_has_value(const MwPiiMap *map, const char *type, int type_len, int number);
extern void mw_pii_issued(MwPiiMap *map, const char *type, int number, const char *value, int len);
/* The numbers of the map's i-th type that are out of use, at most MW_TYPED_MAX; returns how many */
#define MW_TYPED_MAX	65
extern int	mw_pii_typed(const MwPiiMap *map, int type, const char **name, int *numbers);

/*
 * pii_session.c: placeholders of a session.  Load before the first text of a turn is reserved, save before its request
 * leaves, and again when there is more.  issues: new placeholders are given, so the session is locked until the transaction ends.  Raise MW101, MW001 (a key file that cannot be used), 25006 (something new in a read-only transaction).
 */
extern void mw_pii_session_load(MwPiiMap *map, const char *tenant, const char *session, bool issues);
extern void mw_pii_session_save(MwPiiMap *map, const MwPolicy *policy);
/*
 * The first placeholder of a text that a later transaction cannot put a value to, palloc'd; NULL for none.
 * erased: also one whose value was erased, which looks like a number that somebody typed.
 */
extern char *mw_pii_session_lost(const MwPiiMap *map, const char *s, int len, bool erased);

/*
 * analyzer.c: what Presidio analyzers find.  The texts of a call are collected and asked
 * about in one request a server and language; a text that was not is asked about when it is searched.
 */
extern bool mw_policy_analyzes(const MwPolicy *policy); /* whether any recogniser asks a server */
extern struct MwAnalyses *mw_analyses_start(MemoryContext cxt);
extern void mw_analyses_text(struct MwAnalyses *analyses, const char *s, int len);	/* s must stay */
/*
 * Ask.  Raises MW402 where a server does not answer and a recogniser says "error"; else what was left out is
 * told in *notices (of char *).  Raises MW001 and 42501 for a server that cannot be used, MW003.
 */
extern void mw_analyses_ask(struct MwAnalyses *analyses, const MwPolicy *policy, MwInstant deadline, List **notices);

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
/* The same where its values are known: sp[n], as from mw_pii_find_with; they are written to */
extern char *mw_redact_found(const MwPolicy *policy, MwPiiMap *map, char *s, int len, MwSpan *sp, int n,
							 int *newlen, MwSpan **spans, int *nspans);
/* Replace the placeholders of this map, also where a model spelled them otherwise (counted in map->loose); s itself when none is there.  *missing (may be NULL): something that looks like one of ours but is not in the map. */
extern char *mw_restore_text(const MwPiiMap *map, char *s, int len, int *newlen, bool *missing);
/* The same for mw_json_map_strings; map: of MwPiiMap * */
extern char *mw_restore_leaf(char *s, int len, int *newlen, void *map);

/*
 * redact.c: messages of the caller's (from_caller), rewritten in place: a placeholder that stands literally in any of them is
 * never issued.  raw: nobody has seen a placeholder of this map yet who could name one.  What analyzers left out is told in *notices.
 */
extern void mw_redact_messages(const MwPolicy *policy, MwPiiMap *map, MwMessage *messages, int n, bool raw, MwInstant deadline, List **notices);

/* recognizer_call.c: let SQL functions and servers be asked; from _PG_init */
extern void mw_recognizers_init(void);
/* compile the built-in patterns in the postmaster */
extern void mw_redact_prewarm(void);

#endif
