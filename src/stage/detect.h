/*
 * detect.h - inside of finding personal data: the plan of a policy's recognisers
 * (detect_plan.c), one of them tried at one place (detect.c), the scan of a text (scan.c), words around a match
 * (context.c), overlaps (overlap.c), and the readable view of a text that hides
 * something (pii_view.c).
 */
#ifndef MW_DETECT_H
#define MW_DETECT_H

#include "stage/pii_gate.h"
#include "stage/redact.h"

/* A set of recognisers, by their place in the plan; later ones are searched for in the whole text */
#define MW_SET_WORDS	5
#define MW_SET_MAX		(64 * MW_SET_WORDS)

typedef struct MwRecSet
{
	uint64		w[MW_SET_WORDS];
} MwRecSet;

/* how much of the text before a match its context is looked for in */
#define MW_CONTEXT_BYTES	64
#define MW_PII_GATE_STARTS		384

typedef struct MwPlanRec
{
	const MwRecognizer *rec;
	MwRegex    *re;				/* NULL: not compiled yet */
	MwRegex    *context_re;
	bool		needs_context;
	bool		context_words;	/* its context is a list of words (context.c) */
	MwValidator validate;
	int			stronger;		/* how many of the plan have a higher priority */
	MwPiiGate	gate;
} MwPlanRec;

struct MwContextWords;

typedef struct MwPlan
{
	MemoryContext cxt;
	int			nrecs;
	MwPlanRec  *recs;			/* by priority, the strongest first */

	/* gates turned round: at a stop, which recognisers are left */
	MwRecSet	of_kind[MW_PII_NGATES];
	MwRecSet	contextual;		/* those that need a context */
	MwRecSet	worded;			/* those whose context is a list of words */
	/* for a number's length and what follows it: the lengths of the next one that anybody waits for who needs no + before it; [1]: and no word */
	uint64		shape[2][MW_LEN_LONG + 1][6];
	MwRecSet	number_len[MW_LEN_LONG + 1];
	MwRecSet	number_sep[6];
	MwRecSet	number_first[10];
	MwRecSet	number_prev[8];
	MwRecSet	number_two[MW_LEN_LONG + 1];
	MwRecSet	lead;
	MwRecSet	needs_plus;
	MwRecSet	word_len[MW_LEN_LONG + 1];
	MwRecSet	word_first[2];	/* digit, letter */
	bool		caps;			/* any recogniser waits for capital letters */
	bool		gateless;		/* any that is searched for everywhere */
	bool		functions;		/* any that an SQL function or a server finds ... */
	bool		analyzers;		/* ... a server */

	struct
	{
		const char *s;
		int			len;
		int			rec;
		int			next;		/* of those with the same first byte, -1: none */
	}			starts[MW_PII_GATE_STARTS];
	int			nstarts;
	int16		start_of[256];

	struct MwContextWords *words;
} MwPlan;

/* The plan of a policy; made at first use, which does not change what the policy says (detect_plan.c) */
extern void mw_plan_make(MwPolicy *policy);
extern MwPlan *mw_plan_builtin(void);	/* of those that have the built-in recognizers and nothing else */

static inline MwPlan *
mw_plan_of(const MwPolicy *policy)
{
	if (policy->redact_plan == NULL)
		mw_plan_make((MwPolicy *) policy);
	return policy->redact_plan;
}

typedef struct MwFound
{
	MwSpan	   *spans;
	int			n;
	int			cap;
	int			covered;		/* up to here a validated span stands ... */
	int			nstronger;		/* ... which only so many recognisers beat, the first of the plan */
	MwRecSet	stronger;
	MwSpan		some[48];
} MwFound;

/* what a text is searched with */
typedef struct MwSearch
{
	MwPlan	   *plan;
	const char *s;
	int			len;
	const char *label;			/* the key of a JSON leaf: words of context before the text; NULL: none */
	MwFound	   *found;
	bool		escapes;		/* the scan saw what may be %40, &#64; or \u0040 */
	const struct MwAnalyses *analyses;	/* what servers have said; NULL: they are asked for this text alone */

	/* context words before a place, found once a place */
	int			words_at;
	MwRecSet	words;

	/* a chain of numbers, counted once (scan.c) */
	int			chain_at,
				chain_end,
				chain_left;
} MwSearch;

extern void mw_found_add(MwFound *f, int from, int to, const MwRecognizer *rec);
/* One pass over a text (scan.c); true where it has characters beyond ASCII, or escapes. */
extern bool mw_pii_scan(MwSearch *q);
/* The recognisers of named secrets, for the name that ends at a byte */
extern void mw_pii_scan_named(MwSearch *q, int at);
/* Try a recogniser at a place, or anywhere in start..end (detect.c); true where it matched */
extern bool mw_pii_try(MwSearch *q, int rec, int at);
extern void mw_pii_search(MwSearch *q, int rec, int start, int last, int end);	/* begins at start..last */

/*
 * What a recogniser's pattern matches in a text, whatever becomes of it
 * (mw_test_recognizer), and how long one pass takes.
 */
typedef struct MwPiiTrial
{
	int			from,
				to;
	bool		valid;
	bool		named;			/* its context is near */
} MwPiiTrial;

extern int	mw_pii_trial(const MwPolicy *policy, int rec, const char *s, int len, MwPiiTrial **trials, double *us);

/* recognizer_call.c: what SQL functions and servers find in a text, NULL where there is none (tests without a server) */
extern void mw_analyses_find(MwSearch *q, const MwPolicy *policy);	/* analyzer.c */
extern void (*mw_pii_functions) (MwSearch *q, const MwPolicy *policy);

/* context.c */
extern struct MwContextWords *mw_context_make(MwPlan *plan);
extern bool mw_context_near(MwSearch *q, const MwPlanRec *pr, int rec, int from, int to);
/* Take those out of a set whose words are not before a number or word, s[at..end) */
extern void mw_context_filter(MwSearch *q, MwRecSet *set, int at, int end);

/* Whether a number stands behind another one, so that no word can stand right before it */
static inline bool
mw_context_in_chain(const MwSearch *q, int at)
{
	const char *s = q->s;

	if (at == 0 || (at < MW_CONTEXT_BYTES && q->label))
		return false;
	return (unsigned char) (s[at - 1] - '0') < 10 ||
		(at > 1 && (unsigned char) (s[at - 2] - '0') < 10 && (unsigned char) ((s[at - 1] | 0x20) - 'a') >= 26);
}

/* overlap.c: spans in order and apart; returns how many are left */
extern int	mw_spans_settle(MwSpan *spans, int n);

/* repeat.c: what was found by its context, where it stands without; true where that added spans, settled again */
extern bool mw_spans_repeat(MwFound *f, const char *s, int len);

/*
 * pii_view.c: the text with full-width letters and digits, digits of other
 * scripts, invisible characters, look-alikes and (escapes) what URLs, HTML and
 * programs write for a character made plain.  False where there is nothing of the
 * kind.
 */
typedef struct MwPlainView
{
	char	   *s;
	int			len;
	const char *original;
	int		   *at;				/* edits: from this byte of the view on ... */
	int		   *was;			/* ... this byte of the original, and so on one by one */
	int			n;
	int			cap;
	int			original_len;
} MwPlainView;

extern bool mw_plain_view(const char *s, int len, bool escapes, MwPlainView *view);
extern int	mw_plain_from(const MwPlainView *view, int byte);	/* a span's first byte */
extern int	mw_plain_to(const MwPlainView *view, int byte);	/* and its end */

static inline bool
mw_set_has(const MwRecSet *set, int i)
{
	return (set->w[i / 64] >> (i % 64)) & 1;
}

static inline bool
mw_set_any_of(const MwRecSet *set)
{
	uint64		any = 0;

	for (int i = 0; i < MW_SET_WORDS; i++)
		any |= set->w[i];
	return any != 0;
}

static inline void
mw_set_put(MwRecSet *set, int i)
{
	set->w[i / 64] |= UINT64CONST(1) << (i % 64);
}

#endif
