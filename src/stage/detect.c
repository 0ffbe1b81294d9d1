/*
 * detect.c - what of a text is personal: recognisers tried where they can begin.
 *
 * Patterns are the process's (util/regex.c), compiled when a text first gives a
 * reason to, or in the postmaster.  Finding touches no table and no shared memory.
 *
 * A match begins where the scan (scan.c) says one can, so that the pattern is
 * anchored there; what an administrator wrote has no gate and is searched for.
 * A text that hides something (full-width digits, invisible characters) is
 * searched twice, as it is and in its plain view (pii_view.c), and what either
 * finds counts; spans are always of the original.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "stage/detect.h"

/* ---------- trying ---------- */

static void
bad_pattern(const MwRecognizer *rec, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("invalid pattern of the recognizer for %s", rec->type),
			 errdetail("%s.", why),
			 errhint("SELECT mw_alter_recognizer(%s, '{\"pattern\": \"…\"}')",
					 quote_literal_cstr(rec->type))));
}

static bool
is_searched(const MwPiiGate *gate)
{
	return gate->kind == MW_PII_GATE_NONE || gate->kind == MW_PII_GATE_AT;
}

/* Compile a pattern that was checked when it was stored; a row written by hand may still be wrong. */
static MwRegex *
compile(const MwRecognizer *rec, const MwPiiGate *gate)
{
	char	   *why = NULL;
	MwRegex    *re = mw_regex_get(rec->pattern, is_searched(gate) ? MW_REGEX_FROM : MW_REGEX_ANCHORED, &why);

	if (re == NULL)
		bad_pattern(rec, why);
	return re;
}

static MwRegex *
compile_context(const MwRecognizer *rec)
{
	char	   *why = NULL;
	MwRegex    *re = mw_regex_get(rec->context, MW_REGEX_CASELESS, &why);

	if (re == NULL)
		bad_pattern(rec, why);
	return re;
}

bool
mw_policy_detects(const MwPolicy *policy)
{
	return policy->nrecognizers > 0;
}

bool
mw_policy_analyzes(const MwPolicy *policy)
{
	return mw_plan_of(policy)->analyzers;
}

void		(*mw_pii_functions) (MwSearch *q, const MwPolicy *policy) = NULL;


void
mw_found_add(MwFound *f, int from, int to, const MwRecognizer *rec)
{
	MwSpan	   *sp;

	if (f->n == f->cap)
	{
		CHECK_FOR_INTERRUPTS();
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

/* A span that is known for what it is: nobody weaker need look inside of it */
static void
cover(MwFound *f, int to, const MwPlanRec *pr)
{
	if (to <= f->covered && pr->stronger >= f->nstronger)
		return;
	f->covered = to;
	f->nstronger = pr->stronger;
	/* the first so many of the plan */
	for (int i = 0; i < MW_SET_WORDS; i++)
		f->stronger.w[i] = pr->stronger >= 64 * (i + 1) ? ~UINT64CONST(0) :
			pr->stronger > 64 * i ? (UINT64CONST(1) << (pr->stronger - 64 * i)) - 1 : 0;
}

/* What a pattern matched at from..to, judged; the end of the value, 0 for none */
static int
judge(MwSearch *q, const MwPlanRec *pr, int rec, int from, int to)
{
	if (to == from)
		return 0;				/* an empty match is none */
	if (pr->validate)
	{
		int			n = pr->validate(q->s + from, to - from);

		if (n <= 0)
			return 0;
		to = from + n;
	}
	if (pr->needs_context && !mw_context_near(q, pr, rec, from, to))
		return 0;
	return to;
}

/* mw_pii_try matches one recogniser at one place. */
bool
mw_pii_try(MwSearch *q, int rec, int at)
{
	MwPlanRec  *pr = &q->plan->recs[rec];
	int			from,
				to;

	if (pr->re == NULL)
		pr->re = compile(pr->rec, &pr->gate);
	if (mw_regex_find(pr->re, q->s, q->len, at, &from, &to) != 1)
		return false;
	to = judge(q, pr, rec, from, to);
	if (to == 0)
		return false;
	mw_found_add(q->found, from, to, pr->rec);
	if (pr->validate)
		cover(q->found, to, pr);
	return true;
}

/* mw_pii_search looks for one recogniser's matches in s[..end) that begin at start..last. */
void
mw_pii_search(MwSearch *q, int rec, int start, int last, int end)
{
	MwPlanRec  *pr = &q->plan->recs[rec];
	int			at = start;
	int			from,
				to;

	if (pr->re == NULL)
		pr->re = compile(pr->rec, &pr->gate);
	while (at <= last)
	{
		int			rc = mw_regex_find_from(pr->re, q->s, end, at, last, &from, &to);

		int			stop;

		if (rc < 0 && pr->gate.kind == MW_PII_GATE_NONE)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("the pattern of the recognizer for %s takes too long on this text", pr->rec->type),
					 errdetail("It goes back and forth over the text beyond its limit, so that nobody knows what it would find."),
					 errhint("Let every repetition in it have a bound, and none stand inside another: SELECT mw_test_recognizer(%s, ...); shows how long it takes.",
							 quote_literal_cstr(pr->rec->type))));
		if (rc != 1)
			break;
		stop = judge(q, pr, rec, from, to);
		if (stop > 0)
		{
			mw_found_add(q->found, from, stop, pr->rec);
			if (pr->validate)
				cover(q->found, stop, pr);
			at = stop;
			continue;
		}
		at = Max(from, at) + 1;
		while (at < end && ((unsigned char) q->s[at] & 0xc0) == 0x80)
			at++;
		CHECK_FOR_INTERRUPTS();
	}
}

/* One reading of a text: its gates, then what has none */
static bool
find_in(MwSearch *q, const char *s, int len)
{
	bool		high;

	q->s = s;
	q->len = len;
	q->words_at = -1;
	q->chain_at = q->chain_end = 0;
	q->found->covered = 0;
	q->escapes = false;
	high = mw_pii_scan(q);
	if (q->plan->gateless)
		for (int i = 0; i < q->plan->nrecs; i++)
			if (q->plan->recs[i].gate.kind == MW_PII_GATE_NONE)
				mw_pii_search(q, i, 0, len, len);
	return high;
}

/* A text that is the value of a name for a secret: {"password": "..."} */
static void
find_named(MwSearch *q, const char *s, int len)
{
	int			n = strlen(q->label);
	char	   *both;
	int			first = q->found->n;
	int			k = 0;

	if (len > 512 || n > 64 || !mw_set_any_of(&q->plan->of_kind[MW_PII_GATE_NAMED]))
		return;
	both = palloc(n + len + 4);
	memcpy(both, q->label, n);
	memcpy(both + n, "=\"", 2);
	memcpy(both + n + 2, s, len);
	both[n + 2 + len] = '"';
	both[n + 3 + len] = '\0';
	q->s = both;
	q->len = n + 3 + len;
	q->found->covered = 0;
	mw_pii_scan_named(q, n);
	for (int i = first; i < q->found->n; i++)
	{
		MwSpan		sp = q->found->spans[i];

		if (sp.from < n + 2)
			continue;
		sp.from -= n + 2;
		sp.to = Min(sp.to - (n + 2), len);
		q->found->spans[first + k++] = sp;
	}
	q->found->n = first + k;
	pfree(both);
}

/* Each look takes a layer of values off a text; this many are enough for all but what was made for it */
#define MW_LOOKS_AGAIN	8

/* How many of n places, in order, are at or before one */
static int
first_behind(const int *places, int n, int place)
{
	int			lo = 0;

	while (lo < n)
	{
		int			mid = (lo + n) / 2;

		if (places[mid] <= place)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

/* Patterns over one text, and over its plain view where that differs; spans are added */
static void
find_patterns(MwSearch *q, const char *s, int len)
{
	MwFound    *f = q->found;

	if (find_in(q, s, len))
	{
		MwPlainView view;

		if (mw_plain_view(s, len, q->escapes, &view))
		{
			int			first = f->n;

			(void) find_in(q, view.s, view.len);
			for (int i = first; i < f->n; i++)
			{
				f->spans[i].from = mw_plain_from(&view, f->spans[i].from);
				f->spans[i].to = mw_plain_to(&view, f->spans[i].to);
			}
		}
	}
	if (q->label != NULL)
		find_named(q, s, len);
}

/*
 * Look again at the text as it will leave, with a placeholder for each value:
 * what touched a value (a+b@example.com+c@example.com) or was too far from its
 * word may show only now.  Without it a text that is redacted a second time, as
 * history is, would change.  True where that added a span.
 */
static bool
find_beneath(MwSearch *q, const char *s, int len)
{
	MwFound    *f = q->found;
	int			n = f->n;
	Size		size = len;
	int		   *at = palloc(sizeof(int) * 2 * n);	/* where the placeholders begin in the view ... */
	int		   *end = at + n;	/* ... and end */
	char	   *view;
	char	   *p;
	int			done = 0;
	int			k = 0;

	for (int i = 0; i < n; i++)
	{
		end[i] = strlen(f->spans[i].rec->type) + 4;
		size += end[i];
	}
	if (size >= MaxAllocSize)
		return false;			/* mw_redact_text says so */
	view = p = palloc(size + 1);
	for (int i = 0; i < n; i++)
	{
		int			type_len = end[i] - 4;

		memcpy(p, s + done, f->spans[i].from - done);
		p += f->spans[i].from - done;
		at[i] = (int) (p - view);
		*p++ = '<';
		memcpy(p, f->spans[i].rec->type, type_len);
		p += type_len;
		memcpy(p, "_0>", 3);
		p += 3;
		end[i] = (int) (p - view);
		done = f->spans[i].to;
	}
	memcpy(p, s + done, len - done);
	p += len - done;
	*p = '\0';

	find_patterns(q, view, (int) (p - view));
	for (int i = n; i < f->n; i++)
	{
		MwSpan		sp = f->spans[i];

		/* the last placeholders that begin at or before its ends */
		int			b = first_behind(at, n, sp.from) - 1;
		int			e = first_behind(at, n, sp.to - 1) - 1;

		if (b >= 0 && b == e && sp.to <= end[b])
			continue;			/* a placeholder's own letters */
		if (b >= 0)
			sp.from = sp.from < end[b] ? f->spans[b].from : sp.from + f->spans[b].to - end[b];
		if (e >= 0)
			sp.to = sp.to <= end[e] ? f->spans[e].to : sp.to + f->spans[e].to - end[e];
		f->spans[n + k++] = sp;
	}
	f->n = n + k;
	pfree(at);
	pfree(view);
	if (k > 0)
		f->n = mw_spans_settle(f->spans, f->n);
	return k > 0;
}

/* mw_pii_find finds what is personal in one text. */
MwSpan *
mw_pii_find(const MwPolicy *policy, const char *s, int len, const char *label, int *nspans)
{
	return mw_pii_find_with(policy, NULL, s, len, label, nspans);
}

/* mw_pii_find_with does, and knows what a server said of texts before. */
MwSpan *
mw_pii_find_with(const MwPolicy *policy, const struct MwAnalyses *analyses, const char *s, int len, const char *label, int *nspans)
{
	MwPlan	   *plan = mw_plan_of(policy);
	MwSearch	q;
	MwFound		f;
	MwSpan	   *result;

	*nspans = 0;
	if ((plan->nrecs == 0 && !plan->functions) || len == 0)
		return NULL;
	f.spans = f.some;
	f.n = 0;
	f.cap = lengthof(f.some);
	f.nstronger = 0;
	q.plan = plan;
	q.label = label;
	q.found = &f;

	find_patterns(&q, s, len);
	if (plan->functions && mw_pii_functions)
	{
		q.s = s;
		q.len = len;
		q.analyses = analyses;
		mw_pii_functions(&q, policy);
	}
	if (f.n == 0)
		return NULL;

	f.n = mw_spans_settle(f.spans, f.n);
	(void) mw_spans_repeat(&f, s, len);
	for (int i = 0; i < MW_LOOKS_AGAIN && find_beneath(&q, s, len); i++)
		(void) mw_spans_repeat(&f, s, len);
	*nspans = f.n;
	if (f.spans != f.some)
		return f.spans;
	result = palloc(sizeof(MwSpan) * f.n);
	memcpy(result, f.spans, sizeof(MwSpan) * f.n);
	return result;
}

/* mw_pii_trial tries a pattern everywhere; rec is its place among the policy's recognizers, all of which must be in use. */
int
mw_pii_trial(const MwPolicy *policy, int rec, const char *s, int len, MwPiiTrial **trials, double *us)
{
	MwPlan	   *plan = mw_plan_of(policy);
	const MwRecognizer *r = &policy->recognizers[rec];
	MwFound		f;
	MwSearch	q = {.plan = plan, .s = s, .len = len, .found = &f, .words_at = -1};
	MwPlanRec  *pr = NULL;
	MwRegex    *re;
	char	   *why = NULL;
	int			n = 0;
	int			cap = 16;
	int			at = 0;
	int			from,
				to;
	instr_time	start,
				end;

	*us = 0;
	*trials = palloc(sizeof(MwPiiTrial) * cap);
	for (int i = 0; i < plan->nrecs; i++)
		if (plan->recs[i].rec == r)
			pr = &plan->recs[i];
	if (pr == NULL || r->pattern == NULL)
		return 0;
	re = mw_regex_get(r->pattern, MW_REGEX_FROM, &why);
	if (re == NULL)
		bad_pattern(r, why);
	INSTR_TIME_SET_CURRENT(start);
	while (at <= len && mw_regex_find(re, s, len, at, &from, &to) == 1)
	{
		MwPiiTrial *t;
		int			valid;

		CHECK_FOR_INTERRUPTS();
		if (n == cap)
			*trials = repalloc(*trials, sizeof(MwPiiTrial) * (cap *= 2));
		t = &(*trials)[n];
		valid = pr->validate && to > from ? pr->validate(s + from, to - from) : to - from;
		t->from = from;
		t->to = valid > 0 ? from + valid : to;
		t->valid = valid > 0;
		t->named = !pr->needs_context || mw_context_near(&q, pr, (int) (pr - plan->recs), from, t->to);
		if (to > from)
			n++;
		at = Max(t->to, at + 1);
		while (at < len && ((unsigned char) s[at] & 0xc0) == 0x80)
			at++;
	}
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	*us = INSTR_TIME_GET_DOUBLE(end) * 1e6;
	return n;
}

/* mw_redact_prewarm compiles the built-in patterns and makes their plan; in the postmaster, so that backends inherit them. */
void
mw_redact_prewarm(void)
{
	MwPlan	   *plan = mw_plan_builtin();

	for (int i = 0; i < plan->nrecs; i++)
		plan->recs[i].re = compile(plan->recs[i].rec, &plan->recs[i].gate);
	for (int i = 0; i < mw_builtin_recognizers(); i++)
	{
		const MwRecognizer *rec = mw_builtin_recognizer(i);
		MwPiiGate		gate;

		if (!mw_pii_gate_read(rec->prefilter, &gate))
			memset(&gate, 0, sizeof(gate));
		(void) compile(rec, &gate);
		if (rec->context && rec->context[0] != '=')
			(void) compile_context(rec);
	}
}
