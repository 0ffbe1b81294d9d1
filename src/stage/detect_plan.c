/*
 * detect_plan.c - which recognisers of a policy can begin where, as sets of bits.
 *
 * The plan hangs on the policy (redact_plan) and dies with it.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "stage/detect.h"

/* Enter a recogniser where the scan looks for it. */
static void
enter(MwPlan *plan, int i)
{
	MwPlanRec  *pr = &plan->recs[i];
	const MwPiiGate *g = &pr->gate;
	int			k;

	mw_set_put(&plan->of_kind[g->kind], i);
	if (pr->needs_context)
		mw_set_put(&plan->contextual, i);
	if (pr->context_words)
		mw_set_put(&plan->worded, i);
	if (g->plus)
		mw_set_put(&plan->needs_plus, i);
	plan->caps |= g->kind == MW_PII_GATE_CAPS || g->kind == MW_PII_GATE_SPELLED;

	if (g->kind == MW_PII_GATE_NUMBER || g->kind == MW_PII_GATE_RUN)
	{
		for (k = 0; k <= MW_LEN_LONG; k++)
			if ((g->len >> k) & 1)
				mw_set_put(&plan->number_len[k], i);
		for (k = 0; k <= MW_LEN_LONG; k++)
			if ((g->two >> k) & 1)
				mw_set_put(&plan->number_two[k], i);
		for (k = 0; k < 10; k++)
			if ((g->digits >> k) & 1)
				mw_set_put(&plan->number_first[k], i);
		for (k = 0; k < (MW_LEN_LONG + 1) * 6; k++)
			if (!g->plus && ((g->len >> (k / 6)) & 1) && ((g->sep >> (k % 6)) & 1))
			{
				plan->shape[0][k / 6][k % 6] |= g->two;
				if (!pr->needs_context)
					plan->shape[1][k / 6][k % 6] |= g->two;
			}
	}
	if (g->kind == MW_PII_GATE_WORD || g->kind == MW_PII_GATE_RUN)
	{
		for (k = 0; k <= MW_LEN_LONG; k++)
			if ((g->len >> k) & 1)
				mw_set_put(&plan->word_len[k], i);
		if (g->digits)
			mw_set_put(&plan->word_first[0], i);
		if (g->letters)
			mw_set_put(&plan->word_first[1], i);
	}
	for (k = 0; k < 6; k++)
		if ((g->sep >> k) & 1)
			mw_set_put(&plan->number_sep[k], i);
	for (k = 0; k < 8; k++)
		if ((g->prev >> k) & 1)
			mw_set_put(&plan->number_prev[k], i);

	if (g->kind == MW_PII_GATE_KEY)
	{
		const char *p = g->start ? g->start : "";

		while (*p && plan->nstarts < MW_PII_GATE_STARTS)
		{
			int			n = strcspn(p, ", ");
			int			at = plan->nstarts++;

			plan->starts[at].s = p;
			plan->starts[at].len = n;
			plan->starts[at].rec = i;
			plan->starts[at].next = plan->start_of[(unsigned char) *p];
			plan->start_of[(unsigned char) *p] = at;
			p += n;
			if (*p == ',')
				p++;
			else
				break;
		}
	}
}

static MwPlan *
make_plan(const MwPolicy *policy)
{
	MemoryContext old = MemoryContextSwitchTo(policy->cxt);
	MwPlan	   *plan = palloc0(sizeof(MwPlan));
	bool		words = false;
	int			i;

	plan->cxt = policy->cxt;
	plan->recs = palloc0(sizeof(MwPlanRec) * Max(1, policy->nrecognizers));
	memset(plan->start_of, 0xff, sizeof(plan->start_of));
	for (i = 0; i < policy->nrecognizers; i++)
	{
		const MwRecognizer *rec = &policy->recognizers[i];
		MwPlanRec  *pr = &plan->recs[plan->nrecs];

		if (rec->on_demand && !rec->demanded)
			continue;
		if (rec->function != NULL || rec->analyzer != NULL)
		{
			plan->functions = true;
			plan->analyzers |= rec->analyzer != NULL;
			continue;
		}
		pr->rec = rec;
		if (plan->nrecs >= MW_SET_MAX || !mw_pii_gate_read(rec->prefilter, &pr->gate))
		{
			memset(&pr->gate, 0, sizeof(MwPiiGate));
			plan->gateless = true;
		}
		if (rec->context)
		{
			pr->needs_context = true;
			pr->context_words = rec->context[0] == '=' && plan->nrecs < MW_SET_MAX;
			words |= pr->context_words;
		}
		if (rec->validator)
		{
			pr->validate = mw_validator_find(rec->validator);
			if (pr->validate == NULL)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("unknown validator \"%s\" of the recognizer for %s", rec->validator, rec->type),
						 errhint("Known are %s.", mw_validator_names())));
		}
		pr->stronger = plan->nrecs > 0 && rec->priority == pr[-1].rec->priority ? pr[-1].stronger : plan->nrecs;
		if (plan->nrecs < MW_SET_MAX)
			enter(plan, plan->nrecs);
		plan->nrecs++;
	}
	if (words)
		plan->words = mw_context_make(plan);
	MemoryContextSwitchTo(old);
	return plan;
}

/* Of policies that have the built-in recognizers and nothing else: one a process, inherited from the postmaster */
MwPlan *
mw_plan_builtin(void)
{
	static MwPlan *plan = NULL;

	if (plan == NULL)
	{
		MwPolicy	all = {.cxt = TopMemoryContext, .recognizers = mw_recognizers_sorted(), .nrecognizers = mw_builtin_recognizers()};

		plan = make_plan(&all);
	}
	return plan;
}

void
mw_plan_make(MwPolicy *policy)
{
	policy->redact_plan = policy->recognizers == mw_recognizers_sorted() ? mw_plan_builtin() : make_plan(policy);
}
