/*
 * guardrail.h - guards, and judging and wrapping of one text.
 */
#ifndef MW_GUARDRAIL_H
#define MW_GUARDRAIL_H

#include "mw.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "stage/normalise.h"
#include "util/literals.h"
#include "util/regex.h"

extern const MwGuard mw_builtin_guards[];
extern const int mw_nbuiltin_guards;
extern const MwGuard *mw_guards_sorted(void);	/* guard_plan.c: as many, in the order of a policy: one without other guards points here */

#define MW_GUARD_THRESHOLD	0.5 /* where a guard says none */

/* weights are decimals: 0.5 + 0.25 + 0.25 is 1 */
#define MW_SCORE_EPSILON	0.000001

typedef struct MwGuardHit
{
	const MwGuard *guard;
	int			from,
				to;				/* bytes of the original text */
	double		score;			/* of what gives a number; else 1 */
} MwGuardHit;

typedef struct MwVerdict
{
	MwGuardMode verdict;		/* OFF = pass, LOG, BLOCK */
	double		score;
	MwGuardHit *hits;
	int			nhits;
} MwVerdict;

/* ---------- judge.c: what is decided by the text alone ---------- */

/*
 * Judge one text that comes from "source": patterns, checks and the classifier.
 * The same text under the same policy has the same verdict.
 */
extern void mw_guard_judge(const MwPolicy *policy, MwGuardSource source, const char *s, int len, MwVerdict *out);
/* Add a hit of a guard that was asked elsewhere, and conclude again */
extern void mw_verdict_add(const MwPolicy *policy, MwGuardSource source, MwVerdict *v, const MwGuard *guard,
						   int from, int to, double score);

/* guardrail.c: "score" and "hits" as members of an open object; s: what the spans are of; part: what was judged */
extern void mw_verdict_push(JsonbParseState **st, const MwVerdict *v, const char *s, const char *part, int partlen);

/* ---------- guard_plan.c: a policy's guards, ready to be looked for ---------- */

/* beyond the guards there are words that only ask for another view */
enum
{
	MW_WORD_ROT13, MW_WORD_REVERSED, MW_NEXTRA
};

/* Some patterns.  Ids of "words": they, then what further views are asked for by. */
typedef struct MwGuardSet
{
	int			n;
	const MwGuard **guards;
	MwRegex   **re;				/* NULL: not compiled yet; most are never needed */
	MwWords    *words;
} MwGuardSet;

/*
 * A policy's guards: those of the built-in patterns that it has unchanged, by
 * the process's one set, a set of what other patterns it has, and the rest.
 */
typedef struct MwGuardPlan
{
	MwGuardSet *sets[2];		/* built-in, and the policy's own; NULL: none of it is used */
	int		   *guard[2];		/* by place in the set: which of the policy's guards, -1 for none */
	int		   *others;			/* checks and learned ones */
	int			nothers;
	bool		asks;			/* there are functions or models */
	bool		outputs;		/* some look at answers */
	bool		text_outputs;	/* patterns or the classifier do */
} MwGuardPlan;

extern MwGuardPlan *mw_guard_plan(const MwPolicy *policy);
extern MwRegex *mw_guard_regex(MwGuardSet *set, int i);
extern void mw_guard_prewarm(void);

/* ---------- learned.c: the classifier ---------- */

/* From 0 to 1, and where the text is most like an attack.  0 where the weights are not there. */
extern double mw_learned_score(const MwView *v, int *from, int *to);
/* The same place's words that weigh most, for whoever may see the text: a comma-separated list */
extern char *mw_learned_why(const MwView *v);
extern void mw_learned_load(void);
/* What is wrong with the weights, NULL for nothing; *version is theirs */
extern const char *mw_learned_trouble(const char **version);

/* ---------- checks.c: what no pattern can say ---------- */

/* Does the check of that name match this text?  v: its view; s: as it was given. */
extern bool mw_check_text(const char *name, const MwPolicy *policy, const char *s, int len, const MwView *v, int *from, int *to);

/* ---------- guard_ask.c: functions and models ---------- */

/* Ask those of the policy's guards that are not decided by the text alone, unless it is refused already. */
extern void mw_guard_ask(MwCall *call, MwGuardSource source, const char *s, int len, MwVerdict *v);

/* ---------- guard_stats.c: what would have been refused ---------- */

extern void mw_guard_stats_init(void);	/* while preloading */
extern void mw_guard_count(const MwPolicy *policy, MwGuardSource source, const MwVerdict *v);

/* guardrail.c: where the tenant's on_guardrail says so, the run ends with its text, and nothing is raised.  An agent's run ends by itself (src/agent/run.c). */
extern bool mw_guard_ends(MwCall *call);

/* ---------- guard_output.c: what a model said ---------- */

extern void mw_guard_output(MwCall *call);

/* ---------- wrap.c ---------- */

/* <user_input>\n…\n</user_input>, with every look-alike of the tag inside neutralised */
extern char *mw_guard_wrap(const char *s, int len, int *newlen);

/* An answer without the tags of mw_guard_wrap that the model has repeated */
extern char *mw_guard_unwrap(char *s, int len, int *newlen);
/* <document_NONCE source="…">\n…\n</document_NONCE>: the nonce is a keyed hash, so equal texts stay equal */
extern char *mw_document_wrap(const char *s, int len, const char *source, int *newlen);
/* The next document that mw wrapped at or after *at: its text's bounds; *at moves behind it */
extern bool mw_document_next(const char *s, int len, int *at, int *begin, int *from, int *to);

#endif
