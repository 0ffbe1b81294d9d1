/*
 * judge.c - judging one text by itself: patterns, checks, the classifier.
 *
 * A text is judged on its normalised view and, where that hints at more, on
 * views with one hiding trick undone.  On each view one pass looks for the words
 * that the guards' patterns require (util/words.c), and a pattern is run only from
 * places that all of its words agree on; most honest prompts run none or a few.
 *
 * The verdict: the weights of the guards that matched, each once, are added up;
 * what reaches the threshold of the text's source with guards in mode block is a
 * block, with those in mode log a log.  A pattern that exhausts its match limit
 * counts as matched: only a text made for it does that.
 *
 * A verdict is a function of text, source and policy.  Texts that passed without
 * a hit are therefore remembered by a keyed hash of 128 bits of the three, so that
 * a prompt that comes again costs a hash.  The memory is the process's own; the
 * key of its hash is random, so nobody can make a text that meets another's; what
 * was refused or logged is judged anew each time, since it is counted and shown.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "stage/guardrail.h"
#include "stage/normalise.h"
#include "util/clock.h"
#include "util/hash.h"

/* how often a decoded piece is decoded again */
#define MW_DECODE_DEPTH		2
/* pieces looked at in one text */
#define MW_DECODE_PIECES	64
/* one letter in so many is written as a digit or a mark: that is a way to hide */
#define LEET_DENSE			20
/* texts that passed: four a place, the newest first, so that a thousand in turn hardly ever put each other out */
#define MW_PASSED			2048
#define MW_PASSED_ALIKE		4
/* shorter ones are judged faster than hashed */
#define MW_PASSED_MIN		64

typedef struct Judging
{
	const MwPolicy *policy;
	MwGuardPlan *plan;
	MwGuardSource source;
	const char *s;				/* the text as it was given */
	int			len;
	MwVerdict  *out;
	uint64	   *hit;			/* the policy's guards that matched already */
	int		   *ids;			/* of the hits, by place in their set */
	int			pieces;			/* decoded so far */
} Judging;

PG_FUNCTION_INFO_V1(mw_bench_guard);

static MwKey passed[MW_PASSED][MW_PASSED_ALIKE];	/* of the process's pages only those that hold something are ever touched */

static inline bool
was_hit(const Judging *j, int guard)
{
	return (j->hit[guard / 64] >> (guard % 64)) & 1;
}

/* Room for one more hit; guards each match once, so that there are never more than guards */
static MwGuardHit *
add_hit(Judging *j, int guard, int id, int nbefore)
{
	MwVerdict  *out = j->out;
	int			at;

	j->hit[guard / 64] |= UINT64CONST(1) << (guard % 64);
	if (out->hits == NULL)
		out->hits = palloc(sizeof(MwGuardHit) * j->policy->nguards);
	if (j->ids == NULL)
		j->ids = palloc(sizeof(int) * j->policy->nguards);
	/* of one view in the order of the rows, wherever they stand */
	for (at = out->nhits; at > nbefore && j->ids[at - 1] > id; at--)
	{
		out->hits[at] = out->hits[at - 1];
		j->ids[at] = j->ids[at - 1];
	}
	j->ids[at] = id;
	out->nhits++;
	out->hits[at].guard = &j->policy->guards[guard];
	out->hits[at].score = 1;
	return &out->hits[at];
}

/* What is looked for in one view with one set */
typedef struct Looking
{
	Judging    *j;
	const MwView *v;
	int			k;				/* which of the plan's sets */
	int			nbefore;		/* hits from elsewhere */
} Looking;

/* A pattern of the set may match from first..last on. */
static void
judge_guard(void *arg, int id, int first, int last, int end)
{
	Looking    *l = arg;
	Judging    *j = l->j;
	const MwView *v = l->v;
	int			guard = j->plan->guard[l->k][id];
	MwGuardHit *hit;
	int			from,
				to;
	int			rc;

	if (guard < 0 || was_hit(j, guard) || !(j->policy->guards[guard].sources & (1 << j->source)))
		return;
	/* between characters */
	while (first > 0 && ((unsigned char) v->s[first] & 0xc0) == 0x80)
		first--;
	while (end < v->len && ((unsigned char) v->s[end] & 0xc0) == 0x80)
		end++;
	rc = mw_regex_find_from(mw_guard_regex(j->plan->sets[l->k], id), v->s, end, first, last, &from, &to);
	if (rc == 0)
		return;
	if (rc < 0)
	{
		from = 0;
		to = v->len;
	}
	hit = add_hit(j, guard, id, l->nbefore);
	hit->from = mw_view_origin(v, from);
	hit->to = mw_view_origin(v, to);
}

/* Run the patterns on one view; asks receives which further views its words ask for. */
static void
judge_view(Judging *j, const MwView *v, int *asks)
{
	int			k;

	for (k = 0; k < 2; k++)
	{
		MwGuardSet *set = j->plan->sets[k];
		int			nwords = set ? (set->n + MW_NEXTRA + 63) / 64 : 0;
		uint64		some[8];
		uint64	   *held = nwords <= (int) lengthof(some) ? some : palloc(sizeof(uint64) * nwords);
		Looking		l = {j, v, k, j->out->nhits};
		int			i;

		if (set == NULL)
			continue;

		mw_words_find(set->words, v->s, v->len, held, judge_guard, &l);
		for (i = 0; asks && i < MW_NEXTRA; i++)
			if ((held[(set->n + i) / 64] >> ((set->n + i) % 64)) & 1)
				*asks |= 1 << i;
		if (held != some)
			pfree(held);
	}
}

/* What is no pattern: on the first view, and the classifier on what was decoded too */
static void
judge_others(Judging *j, const MwView *v, bool whole)
{
	double		score = -1;
	int			at = 0,
				end = 0;
	int			i;

	for (i = 0; i < j->plan->nothers; i++)
	{
		int			guard = j->plan->others[i];
		const MwGuard *g = &j->policy->guards[guard];
		MwGuardHit *hit;
		int			from,
					to;

		if (was_hit(j, guard) || !(g->sources & (1 << j->source)))
			continue;
		if (g->kind == MW_GUARD_CHECK)
		{
			if (!whole || !mw_check_text(g->guard, j->policy, j->s, j->len, v, &from, &to))
				continue;
			hit = add_hit(j, guard, guard, j->out->nhits);
			hit->from = from;
			hit->to = to;
			continue;
		}
		if (score < 0)
			score = mw_learned_score(v, &at, &end);
		if (score < g->threshold)
			continue;
		hit = add_hit(j, guard, guard, j->out->nhits);
		hit->from = mw_view_origin(v, at);
		hit->to = mw_view_origin(v, end);
		hit->score = score;
	}
}

/* A view with one trick undone; learned: and so much of it that the classifier reads another text */
static void
judge_undone(Judging *j, const MwView *v, bool learned)
{
	judge_view(j, v, NULL);
	if (learned && j->plan->nothers > 0)
		judge_others(j, v, false);
}

static void
judge_all(Judging *j, const MwView *v, int depth)
{
	MwView		other;
	int			asks = 0;
	int			hints;

	CHECK_FOR_INTERRUPTS();
	judge_view(j, v, &asks);
	if (j->plan->nothers > 0)
		judge_others(j, v, depth == 0);
	hints = mw_view_hints(v);
	if (likely(hints == 0 && asks == 0))
		return;
	if ((hints & (MW_HINT_PERCENT | MW_HINT_ENTITY | MW_HINT_BACKSLASH)) && mw_view_unescaped(v, &other))
		judge_view(j, &other, NULL);
	if ((hints & MW_HINT_SPACED) && mw_view_joined(v, &other))
		judge_undone(j, &other, true);
	if ((hints & MW_HINT_CAMEL) && mw_view_parted(v, &other))
		judge_view(j, &other, NULL);
	if (hints & MW_HINT_LEET)
	{
		int			read = mw_view_leet(v, false, &other);

		/* of ordinary text with numbers hardly a letter changes, and the classifier has seen it */
		if (read > 0)
			judge_undone(j, &other, read >= v->len / LEET_DENSE);
		if (read >= v->len / LEET_DENSE && mw_view_leet(v, true, &other) > 0)
			judge_undone(j, &other, true);
	}
	if (asks & (1 << MW_WORD_ROT13) && mw_view_rot13(v, &other))
		judge_undone(j, &other, true);
	if (asks & (1 << MW_WORD_REVERSED) && mw_view_reversed(v, &other))
		judge_undone(j, &other, true);
	if ((hints & (MW_HINT_SOLID | MW_HINT_NUMBERS)) && depth < MW_DECODE_DEPTH)
	{
		int			at = 0;

		while (j->pieces < MW_DECODE_PIECES && mw_view_decoded(v, &at, &other))
		{
			j->pieces++;
			judge_all(j, &other, depth + 1);
		}
	}
}

/* The sums of the hits, and what follows from them */
static void
conclude(const MwPolicy *policy, MwGuardSource source, MwVerdict *v)
{
	double		blocking = 0;
	bool		logging = policy->guard_shadow;
	double		limit = policy->guard_threshold[source] - MW_SCORE_EPSILON;
	int			i;

	v->score = 0;
	for (i = 0; i < v->nhits; i++)
	{
		const MwGuard *g = v->hits[i].guard;

		v->score += g->weight;
		if (g->mode == MW_GUARD_BLOCK)
			blocking += g->weight;
		else
			logging = true;
	}
	if (blocking >= limit && !policy->guard_shadow)
		v->verdict = MW_GUARD_BLOCK;
	else if (logging && v->score >= limit)
		v->verdict = MW_GUARD_LOG;
	else
		v->verdict = MW_GUARD_OFF;
}

/* mw_verdict_add adds what a function or a model said. */
void
mw_verdict_add(const MwPolicy *policy, MwGuardSource source, MwVerdict *v, const MwGuard *guard, int from, int to, double score)
{
	if (v->hits == NULL)
		v->hits = palloc(sizeof(MwGuardHit) * policy->nguards);
	v->hits[v->nhits].guard = guard;
	v->hits[v->nhits].from = from;
	v->hits[v->nhits].to = to;
	v->hits[v->nhits].score = score;
	v->nhits++;
	conclude(policy, source, v);
}

static void
judge_text(const MwPolicy *policy, MwGuardSource source, const char *s, int len, MwVerdict *out)
{
	Judging		j = {policy, mw_guard_plan(policy), source, s, len, out, NULL, NULL, 0};
	uint64		small[8] = {0};
	MwView		v;

	out->verdict = MW_GUARD_OFF;
	out->score = 0;
	out->hits = NULL;
	out->nhits = 0;
	if (policy->nguards == 0 || len == 0)
		return;
	j.hit = policy->nguards <= (int) lengthof(small) * 64 ? small
		: palloc0(sizeof(uint64) * ((policy->nguards + 63) / 64));
	mw_normalise(s, len, &v);
	judge_all(&j, &v, 0);
	conclude(policy, source, out);
}

/* mw_guard_judge judges one text, or remembers that it passed. */
void
mw_guard_judge(const MwPolicy *policy, MwGuardSource source, const char *s, int len, MwVerdict *out)
{
	MwKey	   *slot = NULL;
	MwKey		key;

	if (len >= MW_PASSED_MIN)
	{
		key = mw_hash_private(policy->version, MW_PRIVATE_VERDICT + source, s, len);
		slot = passed[mw_hash_private_slot(&key, MW_PASSED)];
		for (int i = 0; i < MW_PASSED_ALIKE; i++)
			if (memcmp(&slot[i], &key, sizeof(key)) == 0)
			{
				memset(out, 0, sizeof(*out));
				return;
			}
	}
	judge_text(policy, source, s, len, out);
	if (slot && out->nhits == 0)
	{
		memmove(&slot[1], &slot[0], sizeof(MwKey) * (MW_PASSED_ALIKE - 1));
		slot[0] = key;
	}
}

/* mw.bench_guard(input, tenant, n): microseconds that judging a user's text takes, nothing remembered */
Datum
mw_bench_guard(PG_FUNCTION_ARGS)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	const MwPolicy *policy = mw_policy_get(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	int			n = PG_GETARG_INT32(2);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw bench", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int64		start = mw_computed_ns();

	for (int i = 0; i < n; i++)
	{
		MwVerdict	v;

		judge_text(policy, MW_FROM_USER, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input), &v);
		MemoryContextReset(cxt);
	}
	start = mw_computed_ns() - start;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	PG_RETURN_FLOAT8(start / 1e3 / Max(1, n));
}
