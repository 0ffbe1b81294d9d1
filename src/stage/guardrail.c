/*
 * guardrail.c - judging one text, and the stage around it.
 *
 * A text is judged on its normalised view and, where that hints at more, on
 * views with one hiding trick undone.  On each view one pass looks for the words
 * that the guards' patterns require (util/words.c), and a pattern is run only from
 * places that all of its words agree on; most honest prompts run none or a few.  What is made of a policy's
 * guards hangs on the policy (guard_plan); for the built-in rows it is made once
 * a process, in the postmaster where mw is preloaded, and shared by all policies.
 *
 * The verdict: the weights of the guards that matched, each once, are added up;
 * 1 and more of guards in mode block is a block.  A pattern that exhausts its
 * match limit counts as matched: only a text made for it does that.
 *
 * Judged is what the caller gave: user, assistant and tool messages.  System
 * text is the operator's and never judged.  User texts are wrapped as data.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "stage/guardrail.h"
#include "stage/normalise.h"
#include "stage/stages.h"
#include "util/faults.h"
#include "util/json.h"
#include "util/literals.h"
#include "util/regex.h"

/* how often a decoded piece is decoded again */
#define MW_DECODE_DEPTH		2
/* pieces looked at in one text */
#define MW_DECODE_PIECES	64
/* weights are decimals: 0.5 + 0.25 + 0.25 is 1 */
#define MW_BLOCK_AT			0.999999

/* beyond the guards there are words that only ask for another view */
enum
{
	WORD_ROT13, WORD_REVERSED, NEXTRA
};

static const struct
{
	const char *word;
	int			asks;
}			extra_words[] =
{
	{"rot13", WORD_ROT13}, {"rot-13", WORD_ROT13}, {"vtaber", WORD_ROT13}, {"cerivbhf", WORD_ROT13},
	{"vafgehpgvbaf", WORD_ROT13}, {"qvfertneq", WORD_ROT13},
	{"erongi", WORD_REVERSED}, {"snoitcurtsni", WORD_REVERSED}, {"dragersid", WORD_REVERSED},
	{"tpmorp metsys", WORD_REVERSED},
};

/* Some guards, ready to be looked for.  Ids of "words": guards, then what further views are asked for by. */
typedef struct GuardSet
{
	int			n;
	const MwGuard **guards;
	MwRegex   **re;				/* NULL: not compiled yet; most are never needed */
	MwWords    *words;
} GuardSet;

/*
 * A policy's guards: those of the built-in ones that it has unchanged, by the
 * process's one set, and a set of what else it has.
 */
typedef struct GuardPlan
{
	GuardSet   *sets[2];		/* built-in; the policy's own or NULL */
	int		   *guard[2];		/* by place in the set: which of the policy's guards, -1 for none */
} GuardPlan;

/* process-lifetime, inherited from the postmaster */
static GuardSet *builtin_set = NULL;

/* The compiled pattern of a guard in a set. */
static MwRegex *
get_regex(GuardSet *set, int i)
{
	if (set->re[i] == NULL)
	{
		char	   *why = NULL;

		set->re[i] = mw_regex_get(set->guards[i]->pattern, MW_REGEX_CASELESS | MW_REGEX_FROM, &why);
		if (set->re[i] == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("invalid pattern of the guard \"%s\"", set->guards[i]->guard),
					 errdetail("%s.", why),
					 errhint("SELECT mw_alter_guard(%s, '{\"pattern\": \"…\"}')",
							 quote_literal_cstr(set->guards[i]->guard))));
	}
	return set->re[i];
}

static GuardSet *
make_set(const MwGuard **guards, int n, MemoryContext cxt)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "mw guards", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	GuardSet   *set = palloc0(sizeof(GuardSet));
	List	  **words;
	int		   *longest;
	const char *extra[lengthof(extra_words)];
	int			extra_id[lengthof(extra_words)];
	int			i;

	set->n = n;
	set->guards = palloc(sizeof(MwGuard *) * Max(1, n));
	set->re = palloc0(sizeof(MwRegex *) * Max(1, n));

	MemoryContextSwitchTo(work);
	words = palloc0(sizeof(List *) * Max(1, n));
	longest = palloc0(sizeof(int) * Max(1, n));
	for (i = 0; i < n; i++)
	{
		set->guards[i] = guards[i];
		words[i] = mw_required_literals(guards[i]->pattern, &longest[i]);
	}
	for (i = 0; i < (int) lengthof(extra_words); i++)
	{
		extra[i] = extra_words[i].word;
		extra_id[i] = n + extra_words[i].asks;
	}
	MemoryContextSwitchTo(cxt);
	set->words = mw_words_make(words, longest, n, extra, extra_id, lengthof(extra_words), n + NEXTRA);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return set;
}

/* The set of the built-in rows, made once a process. */
static GuardSet *
get_builtin_set(void)
{
	if (builtin_set == NULL)
	{
		const MwGuard **all = palloc(sizeof(MwGuard *) * mw_nbuiltin_guards);
		int			i;

		for (i = 0; i < mw_nbuiltin_guards; i++)
			all[i] = &mw_builtin_guards[i];
		builtin_set = make_set(all, mw_nbuiltin_guards, TopMemoryContext);
		pfree(all);
	}
	return builtin_set;
}

/* mw_guard_prewarm compiles all of the built-in rows; in the postmaster, so that backends inherit them. */
void
mw_guard_prewarm(void)
{
	GuardSet   *set = get_builtin_set();
	int			i;

	for (i = 0; i < set->n; i++)
		(void) get_regex(set, i);
}

static GuardPlan *
make_plan(const MwPolicy *policy)
{
	MemoryContext old;
	GuardPlan  *plan;
	const MwGuard **own = palloc(sizeof(MwGuard *) * Max(1, policy->nguards));
	int			nown = 0;
	int			i,
				k;

	(void) get_builtin_set();
	old = MemoryContextSwitchTo(policy->cxt);
	plan = palloc0(sizeof(GuardPlan));
	plan->sets[0] = builtin_set;
	plan->guard[0] = palloc(sizeof(int) * mw_nbuiltin_guards);
	plan->guard[1] = palloc(sizeof(int) * Max(1, policy->nguards));
	MemoryContextSwitchTo(old);
	for (k = 0; k < mw_nbuiltin_guards; k++)
		plan->guard[0][k] = -1;
	for (i = 0; i < policy->nguards; i++)
	{
		const MwGuard *g = &policy->guards[i];

		if (g->mode == MW_GUARD_OFF)
			continue;
		for (k = 0; k < mw_nbuiltin_guards; k++)
			if (strcmp(mw_builtin_guards[k].guard, g->guard) == 0)
				break;
		if (k < mw_nbuiltin_guards && strcmp(mw_builtin_guards[k].pattern, g->pattern) == 0)
			plan->guard[0][k] = i;
		else
		{
			plan->guard[1][nown] = i;
			own[nown++] = g;
		}
	}
	if (nown > 0)
		plan->sets[1] = make_set(own, nown, policy->cxt);
	pfree(own);
	return plan;
}

static inline GuardPlan *
get_plan(const MwPolicy *policy)
{
	if (policy->guard_plan == NULL)
		((MwPolicy *) policy)->guard_plan = make_plan(policy);
	return policy->guard_plan;
}

/* ---------- judging ---------- */

typedef struct Judging
{
	const MwPolicy *policy;
	GuardPlan  *plan;
	MwVerdict  *out;
	uint64	   *hit;			/* the policy's guards that matched already */
	int		   *ids;			/* of the hits, by place in their set */
	int			pieces;			/* decoded so far */
} Judging;

static inline int
origin(const MwView *v, int i)
{
	return v->map ? v->map[i] : i;
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
	MwVerdict  *out = j->out;
	int			at;
	int			from,
				to;
	int			rc;

	if (guard < 0 || ((j->hit[guard / 64] >> (guard % 64)) & 1))
		return;
	/* between characters */
	while (first > 0 && ((unsigned char) v->s[first] & 0xc0) == 0x80)
		first--;
	while (end < v->len && ((unsigned char) v->s[end] & 0xc0) == 0x80)
		end++;
	rc = mw_regex_find_from(get_regex(j->plan->sets[l->k], id), v->s, end, first, last, &from, &to);
	if (rc == 0)
		return;
	if (rc < 0)
	{
		from = 0;
		to = v->len;
	}
	j->hit[guard / 64] |= UINT64CONST(1) << (guard % 64);
	if (out->hits == NULL)
	{
		out->hits = palloc(sizeof(MwGuardHit) * j->policy->nguards);
		j->ids = palloc(sizeof(int) * j->policy->nguards);
	}
	/* of one view in the order of the rows, wherever they stand */
	for (at = out->nhits; at > l->nbefore && j->ids[at - 1] > id; at--)
	{
		out->hits[at] = out->hits[at - 1];
		j->ids[at] = j->ids[at - 1];
	}
	out->hits[at].guard = &j->policy->guards[guard];
	out->hits[at].from = origin(v, from);
	out->hits[at].to = origin(v, to);
	j->ids[at] = id;
	out->nhits++;
}

/* Run the guards on one view; asks receives which further views its words ask for. */
static void
judge_view(Judging *j, const MwView *v, int *asks)
{
	int			k;

	for (k = 0; k < 2 && j->plan->sets[k] != NULL; k++)
	{
		GuardSet   *set = j->plan->sets[k];
		int			nwords = (set->n + NEXTRA + 63) / 64;
		uint64		some[8];
		uint64	   *held = nwords <= (int) lengthof(some) ? some : palloc(sizeof(uint64) * nwords);
		Looking		l = {j, v, k, j->out->nhits};
		int			i;

		mw_words_find(set->words, v->s, v->len, held, judge_guard, &l);
		for (i = 0; asks && i < NEXTRA; i++)
			if ((held[(set->n + i) / 64] >> ((set->n + i) % 64)) & 1)
				*asks |= 1 << i;
		if (held != some)
			pfree(held);
	}
}

static void
judge_all(Judging *j, const MwView *v, int depth)
{
	MwView		other;
	int			asks = 0;
	int			hints;

	CHECK_FOR_INTERRUPTS();
	judge_view(j, v, &asks);
	hints = mw_view_hints(v);
	if (likely(hints == 0 && asks == 0))
		return;
	if ((hints & (MW_HINT_PERCENT | MW_HINT_ENTITY)) && mw_view_unescaped(v, &other))
		judge_view(j, &other, NULL);
	if ((hints & MW_HINT_SPACED) && mw_view_joined(v, &other))
		judge_view(j, &other, NULL);
	if ((hints & MW_HINT_CAMEL) && mw_view_parted(v, &other))
		judge_view(j, &other, NULL);
	if ((hints & MW_HINT_LEET) && mw_view_leet(v, &other))
		judge_view(j, &other, NULL);
	if (asks & (1 << WORD_ROT13) && mw_view_rot13(v, &other))
		judge_view(j, &other, NULL);
	if (asks & (1 << WORD_REVERSED) && mw_view_reversed(v, &other))
		judge_view(j, &other, NULL);
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

/* mw_guard_judge judges one text. */
void
mw_guard_judge(const MwPolicy *policy, const char *s, int len, MwVerdict *out)
{
	Judging		j = {policy, NULL, out, NULL, NULL, 0};
	uint64		small[8] = {0};
	MwView		v;
	double		blocking = 0;
	bool		logging = false;
	int			i;

	out->verdict = MW_GUARD_OFF;
	out->score = 0;
	out->hits = NULL;
	out->nhits = 0;
	if (policy->nguards == 0 || len == 0)
		return;

	j.plan = get_plan(policy);
	j.hit = policy->nguards <= (int) lengthof(small) * 64 ? small
		: palloc0(sizeof(uint64) * ((policy->nguards + 63) / 64));
	mw_normalise(s, len, &v);
	judge_all(&j, &v, 0);

	for (i = 0; i < out->nhits; i++)
	{
		const MwGuard *g = out->hits[i].guard;

		out->score += g->weight;
		if (g->mode == MW_GUARD_BLOCK)
			blocking += g->weight;
		else
			logging = true;
	}
	if (blocking >= MW_BLOCK_AT)
		out->verdict = MW_GUARD_BLOCK;
	else if (logging && out->score >= MW_BLOCK_AT)
		out->verdict = MW_GUARD_LOG;
}

/* ---------- the stage ---------- */

/* The text of a message that is judged; NULL for none. */
static char *
judged_text(const MwMessage *m, int *len)
{
	char	   *s;

	if (m->json == NULL)
	{
		*len = m->len;
		return m->text;
	}
	s = mw_json_content_text(mw_json_get(m->json, "content"));
	*len = s ? strlen(s) : 0;
	return s;
}

static char *
wrap_leaf(char *s, int len, int *newlen, const MwJsonPlace *pl, void *arg)
{
	/* the content itself, or the "text" of its parts */
	if (!pl->is_key && pl->path[0] && strcmp(pl->path[0], "content") == 0 &&
		(pl->depth == 1 || (pl->depth == 2 && pl->path[1] == NULL) ||
		 (pl->depth == 3 && pl->path[1] == NULL && pl->path[2] && strcmp(pl->path[2], "text") == 0)))
		return mw_guard_wrap(s, len, newlen);
	*newlen = len;
	return s;
}

static void
wrap_message(MwMessage *m)
{
	if (m->json)
		m->json = mw_json_map(m->json, 0, wrap_leaf, NULL);
	else if (m->text)
		m->text = mw_guard_wrap(m->text, m->len, &m->len);
}

static bool
is_judged(const MwMessage *m)
{
	return m->from_caller && strcmp(m->role, "system") != 0 && strcmp(m->role, "developer") != 0;
}

/* The heaviest hit: what the error names */
static const MwGuard *
heaviest(const MwVerdict *v)
{
	const MwGuard *best = v->hits[0].guard;
	int			i;

	for (i = 1; i < v->nhits; i++)
		if (v->hits[i].guard->weight > best->weight)
			best = v->hits[i].guard;
	return best;
}

/*
 * Judge and wrap all messages.  Returns the worst verdict, its message's role
 * and the judgement behind it; with "raise" a block is an error instead.
 */
static MwGuardMode
guard_all(MwCall *call, bool raise, MwVerdict *worst)
{
	int			i;

	memset(worst, 0, sizeof(*worst));
	for (i = 0; i < call->nmessages; i++)
	{
		MwMessage  *m = &call->messages[i];
		MwVerdict	v;
		char	   *s;
		int			len;

		if (!is_judged(m))
			continue;
		s = judged_text(m, &len);
		if (s != NULL && len > 0)
		{
			mw_guard_judge(call->policy, s, len, &v);
			if (v.verdict > worst->verdict || (v.verdict == worst->verdict && v.score > worst->score))
				*worst = v;
			if (v.verdict == MW_GUARD_BLOCK && raise)
			{
				const MwGuard *g = heaviest(&v);

				ereport(ERROR,
						(errcode(ERRCODE_MW_GUARD_REFUSED),
						 errmsg("the guardrail refused the text"),
						 errdetail("Guard \"%s\" (category %s) matched in a %s message; score %.2f, %d in all.",
								   g->guard, g->category, m->role, v.score, v.nhits),
						 errhint("Rephrase the text. Whether this guard blocks or only logs is an administrator's decision: "
								 "SELECT mw_alter_guard(%s, '{\"mode\": \"log\"}'%s%s);",
								 quote_literal_cstr(g->guard),
								 g->own ? ", " : "", g->own ? quote_literal_cstr(call->tenant) : "")));
			}
			if (v.verdict == MW_GUARD_LOG)
			{
				const MwGuard *g = heaviest(&v);

				if (!call->guard_logged)
					call->notices = lappend(call->notices,
											psprintf("guard \"%s\" (category %s) matched and is in mode log",
													 g->guard, g->category));
				call->guard_logged = true;
			}
		}
		if (strcmp(m->role, "user") == 0)
			wrap_message(m);
	}
	return worst->verdict;
}

/* mw_guardrail_run refuses or wraps, and goes on. */
void
mw_guardrail_run(MwCall *call)
{
	if (call->guardrail)
	{
		MemoryContext old = MemoryContextSwitchTo(call->cxt);
		MwVerdict	worst;

		(void) guard_all(call, true, &worst);
		MemoryContextSwitchTo(old);
	}
	mw_fault("guard");
	mw_next(call);
}

/* mw_guardrail_explain shows what run would do. */
void
mw_guardrail_explain(MwCall *call, MwExplain *out)
{
	static const char *const verdicts[] = {"pass", "log", "block"};
	MemoryContext old = MemoryContextSwitchTo(call->cxt);
	MwVerdict	worst;
	JsonbParseState *st = NULL;
	JsonbValue	v;
	int			i;

	out->verdict = "off";
	memset(&worst, 0, sizeof(worst));
	if (call->guardrail)
	{
		out->verdict = verdicts[guard_all(call, false, &worst)];
		out->stop = worst.verdict == MW_GUARD_BLOCK;
	}

#define PUSH_TEXT(as, t) \
	do { \
		v.type = jbvString; \
		v.val.string.val = (char *) (t); \
		v.val.string.len = strlen(t); \
		pushJsonbValue(&st, as, &v); \
	} while (0)
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	PUSH_TEXT(WJB_KEY, "score");
	v.type = jbvNumeric;
	v.val.numeric = DatumGetNumeric(DirectFunctionCall1(float8_numeric, Float8GetDatum(worst.score)));
	pushJsonbValue(&st, WJB_VALUE, &v);
	PUSH_TEXT(WJB_KEY, "hits");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	for (i = 0; i < worst.nhits; i++)
	{
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		PUSH_TEXT(WJB_KEY, "guard");
		PUSH_TEXT(WJB_VALUE, worst.hits[i].guard->guard);
		PUSH_TEXT(WJB_KEY, "category");
		PUSH_TEXT(WJB_VALUE, worst.hits[i].guard->category);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	out->detail = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
#undef PUSH_TEXT
	if (call->nmessages > 0)
	{
		int			len;
		char	   *s = judged_text(&call->messages[call->nmessages - 1], &len);

		out->next = s ? pnstrdup(s, len) : NULL;
	}
	MemoryContextSwitchTo(old);
}
