/*
 * detect.c - what of a text is personal: recognisers over windows, overlaps.
 *
 * What is compiled from a policy's recognisers hangs on the policy
 * (redact_plan) and dies with it; the patterns themselves are the process's
 * (util/regex.c).  Finding touches no table and no shared memory, and its time
 * is linear in the text: each pattern's work at one place is bounded, windows
 * of one recogniser are joined where they overlap, and a match that a validator refuses moves the
 * search on by one character only.
 *
 * Overlaps: validated before unvalidated, then priority, then length.  What the
 * loser covered beyond the winner is not left standing: the winner grows over
 * it, since half a number in clear is a number in clear.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/memutils.h"

#include "stage/prefilter.h"
#include "stage/redact.h"

/* how much of the text before a match its context is looked for in */
#define MW_CONTEXT_BYTES	64
/* beyond this many spans on one heap the strongest simply takes all */
#define MW_OVERLAP_MAX		64

typedef struct PlanRec
{
	const MwRecognizer *rec;
	MwRegex    *re;
	MwRegex    *context;
	MwValidator validate;
	int			set;			/* of the prefilter, -1: the whole text */
	int			least;
	bool		high;
} PlanRec;

typedef struct Plan
{
	MwPrefilter pf;
	int			nrecs;
	PlanRec		recs[FLEXIBLE_ARRAY_MEMBER];
} Plan;

typedef struct Found
{
	MwSpan	   *spans;
	int			n;
	int			cap;
	MwSpan		some[48];
} Found;

/* Compile a pattern that was checked when it was stored; a row written by hand may still be wrong. */
static MwRegex *
compile(const MwRecognizer *rec, const char *pattern, int flags)
{
	char	   *why = NULL;
	MwRegex    *re = mw_regex_get(pattern, flags, &why);

	if (re == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("invalid pattern of the recognizer for %s", rec->type),
				 errdetail("%s.", why),
				 errhint("SELECT mw_alter_recognizer(%s, '{\"pattern\": \"…\"}')",
						 quote_literal_cstr(rec->type))));
	return re;
}

static Plan *
make_plan(const MwPolicy *policy)
{
	MemoryContext old = MemoryContextSwitchTo(policy->cxt);
	Plan	   *plan = palloc0(offsetof(Plan, recs) + sizeof(PlanRec) * policy->nrecognizers);
	int			i;

	mw_prefilter_init(&plan->pf);
	for (i = 0; i < policy->nrecognizers; i++)
	{
		const MwRecognizer *rec = &policy->recognizers[i];
		PlanRec    *pr = &plan->recs[plan->nrecs++];

		pr->rec = rec;
		pr->re = compile(rec, rec->pattern, 0);
		if (rec->context)
			pr->context = compile(rec, rec->context, MW_REGEX_CASELESS);
		if (rec->validator)
		{
			pr->validate = mw_validator_find(rec->validator);
			if (pr->validate == NULL)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("unknown validator \"%s\" of the recognizer for %s", rec->validator, rec->type),
						 errhint("Known are %s.", mw_validator_names())));
		}
		pr->set = mw_prefilter_add(&plan->pf, rec->prefilter, &pr->least, &pr->high);
	}
	mw_prefilter_ready(&plan->pf);
	MemoryContextSwitchTo(old);
	return plan;
}

/* The plan of a policy; made at first use, which does not change what the policy says. */
static inline Plan *
get_plan(const MwPolicy *policy)
{
	if (policy->redact_plan == NULL)
		((MwPolicy *) policy)->redact_plan = make_plan(policy);
	return policy->redact_plan;
}

bool
mw_policy_detects(const MwPolicy *policy)
{
	return policy->nrecognizers > 0;
}

static void
add_span(Found *f, int from, int to, const MwRecognizer *rec)
{
	MwSpan	   *sp;

	if (f->n == f->cap)
	{
		f->cap *= 2;
		if (f->spans == f->some)
		{
			f->spans = palloc_extended(sizeof(MwSpan) * f->cap, MCXT_ALLOC_HUGE);
			memcpy(f->spans, f->some, sizeof(f->some));
		}
		else
			f->spans = repalloc_huge(f->spans, sizeof(MwSpan) * f->cap);
	}
	sp = &f->spans[f->n++];
	sp->from = from;
	sp->to = to;
	sp->rec = rec;
	sp->entry = -1;
	sp->shown = NULL;
	sp->shown_len = 0;
}

/* Whether a word of the recogniser's context stands before the match, or behind it in brackets. */
static bool
in_context(const PlanRec *pr, const char *s, int len, int from, int to)
{
	int			start = Max(0, from - MW_CONTEXT_BYTES);
	int			a,
				b;

	while (start > 0 && ((unsigned char) s[start] & 0xc0) == 0x80)
		start--;
	/* the subject ends at the match, so that $ in a context means "right before it" */
	if (mw_regex_find(pr->context, s, from, start, &a, &b) == 1)
		return true;
	if (to < len && s[to] == ' ')
		to++;
	if (to < len && s[to] == '(')
	{
		int			end = to;

		while (end < len && end < to + 24 && s[end] != ')')
			end++;
		while (end < len && ((unsigned char) s[end] & 0xc0) == 0x80)
			end++;
		return mw_regex_find(pr->context, s, end, to, &a, &b) == 1;
	}
	return false;
}

/*
 * Whether a stronger recogniser has this place already.  Recognisers run in
 * order of priority, so this saves the look for a context where it would change
 * nothing; with many spans it is not worth the search.
 */
static bool
covered(const PlanRec *pr, int from, int to, const Found *f)
{
	int			i;

	if (f->n > MW_OVERLAP_MAX)
		return false;
	for (i = 0; i < f->n; i++)
		if (f->spans[i].from <= from && f->spans[i].to >= to &&
			f->spans[i].rec->priority > pr->rec->priority &&
			(f->spans[i].rec->validator != NULL || pr->validate == NULL))
			return true;
	return false;
}

/*
 * Search s[start..end) with one recogniser; "last" is where the last byte is
 * that a match can hold as one of those its prefilter asks for.
 */
static void
search(const PlanRec *pr, const char *s, int len, int start, int end, int last, Found *f)
{
	int			at = start;
	int			from,
				to;

	while (at + pr->least <= last + 1 && mw_regex_find(pr->re, s, end, at, &from, &to) == 1)
	{
		if (to == from)
		{
			at = to + 1;		/* an empty match is none */
			while (at < end && ((unsigned char) s[at] & 0xc0) == 0x80)
				at++;
			continue;
		}
		if (pr->validate)
		{
			int			n = pr->validate(s + from, to - from);

			if (n <= 0)
			{
				at = from + 1;
				while (at < end && ((unsigned char) s[at] & 0xc0) == 0x80)
					at++;
				continue;
			}
			to = from + n;
		}
		if (pr->context == NULL ||
			(!covered(pr, from, to, f) && in_context(pr, s, len, from, to)))
			add_span(f, from, to, pr->rec);
		at = to;
	}
}

static bool
has_high(const char *s, int len)
{
	int			i;

	for (i = 0; i < len; i++)
		if ((unsigned char) s[i] & 0x80)
			return true;
	return false;
}

/* Which of two spans on one place wins; > 0: a */
static int
stronger(const MwSpan *a, const MwSpan *b)
{
	int			va = a->rec->validator != NULL;
	int			vb = b->rec->validator != NULL;

	if (va != vb)
		return va - vb;
	if (a->rec->priority != b->rec->priority)
		return a->rec->priority > b->rec->priority ? 1 : -1;
	if (a->to - a->from != b->to - b->from)
		return (a->to - a->from) > (b->to - b->from) ? 1 : -1;
	return 0;
}

static inline int
by_place(const MwSpan *a, const MwSpan *b)
{
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to > b->to ? -1 : (a->to < b->to);
}

#define ST_SORT			sort_by_place
#define ST_ELEMENT_TYPE MwSpan
#define ST_COMPARE(a, b) by_place(a, b)
#define ST_SCOPE		static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Settle one heap of spans, each of which overlaps another of them.  Returns
 * how many are left, in order, at the front of the heap.
 */
static int
settle_heap(MwSpan *h, int n)
{
	bool		taken[MW_OVERLAP_MAX] = {0};
	MwSpan		won[MW_OVERLAP_MAX];
	int			nwon = 0;
	int			i,
				k;

	if (n > MW_OVERLAP_MAX)
	{
		MwSpan		best = h[0];
		int			to = h[0].to;

		for (i = 1; i < n; i++)
		{
			to = Max(to, h[i].to);
			if (stronger(&h[i], &best) > 0)
				best = h[i];
		}
		best.from = h[0].from;
		best.to = to;
		h[0] = best;
		return 1;
	}

	for (;;)
	{
		int			best = -1;

		for (i = 0; i < n; i++)
			if (!taken[i] && (best < 0 || stronger(&h[i], &h[best]) > 0))
				best = i;
		if (best < 0)
			break;
		taken[best] = true;
		for (k = 0; k < nwon; k++)
			if (h[best].from < won[k].to && won[k].from < h[best].to)
				break;
		if (k == nwon)
			won[nwon++] = h[best];
		else
		{
			/* a loser: the one that beat it covers what it covered, up to the next winner */
			int			from = h[best].from;
			int			to = h[best].to;
			int			j;

			for (j = 0; j < nwon; j++)
			{
				if (j == k)
					continue;
				if (won[j].to <= won[k].from)
					from = Max(from, won[j].to);
				if (won[j].from >= won[k].to)
					to = Min(to, won[j].from);
			}
			won[k].from = Min(won[k].from, from);
			won[k].to = Max(won[k].to, to);
		}
	}
	memcpy(h, won, sizeof(MwSpan) * nwon);
	if (nwon > 1)
		sort_by_place(h, nwon);
	return nwon;
}

/* mw_pii_find finds what is personal in one text. */
MwSpan *
mw_pii_find(const MwPolicy *policy, const char *s, int len, int *nspans)
{
	Plan	   *plan = get_plan(policy);
	MwWindows	win;
	Found		f;
	MwSpan	   *result;
	int			i,
				k;
	int			kept;

	*nspans = 0;
	if (plan->nrecs == 0 || len == 0)
		return NULL;
	f.spans = f.some;
	f.n = 0;
	f.cap = lengthof(f.some);

	mw_prefilter_scan(&plan->pf, s, len, &win);
	for (i = 0; i < plan->nrecs; i++)
	{
		const PlanRec *pr = &plan->recs[i];

		if (pr->set < 0)
		{
			search(pr, s, len, 0, len, len - 1, &f);
			continue;
		}
		for (k = 0; k < win.n; k++)
		{
			const MwWindow *w = &win.w[k];

			int			to = w->to;
			int			last = w->last;

			if (w->set != pr->set || w->count < pr->least)
				continue;
			/* windows that touch are one; those without enough bytes are none */
			while (++k < win.n && (win.w[k].set != pr->set || win.w[k].count < pr->least || win.w[k].from <= to))
				if (win.w[k].set == pr->set && win.w[k].count >= pr->least)
				{
					to = Max(to, win.w[k].to);
					last = win.w[k].last;
				}
			k--;
			if (!pr->high || has_high(s + w->from, to - w->from))
				search(pr, s, len, w->from, to, last, &f);
		}
	}
	if (f.n == 0)
		return NULL;

	if (f.n > 1)
		sort_by_place(f.spans, f.n);
	kept = 0;
	for (i = 0; i < f.n; i = k)
	{
		int			to = f.spans[i].to;
		int			n;

		for (k = i + 1; k < f.n && f.spans[k].from < to; k++)
			to = Max(to, f.spans[k].to);
		n = k - i == 1 ? 1 : settle_heap(&f.spans[i], k - i);
		if (kept != i)
			memmove(&f.spans[kept], &f.spans[i], sizeof(MwSpan) * n);
		kept += n;
	}
	if (f.spans == f.some)
	{
		result = palloc(sizeof(MwSpan) * kept);
		memcpy(result, f.spans, sizeof(MwSpan) * kept);
	}
	else
		result = f.spans;
	*nspans = kept;
	return result;
}

/* mw_redact_prewarm compiles the built-in patterns; in the postmaster, so that backends inherit them. */
void
mw_redact_prewarm(void)
{
	int			i;

	for (i = 0; i < mw_nbuiltin_recognizers; i++)
	{
		const MwRecognizer *rec = &mw_builtin_recognizers[i];

		(void) mw_regex_get(rec->pattern, 0, NULL);
		if (rec->context)
			(void) mw_regex_get(rec->context, MW_REGEX_CASELESS, NULL);
	}
}
