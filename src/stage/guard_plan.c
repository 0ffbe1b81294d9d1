/*
 * guard_plan.c - a policy's guards, ready to be looked for.
 *
 * What is made of a policy's guards hangs on the policy; for the built-in
 * patterns it is made once a process, in the postmaster where mw is preloaded,
 * and shared by all policies.  Patterns are compiled when they are first needed,
 * the built-in ones before that.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/memutils.h"

#include "stage/guardrail.h"

static const struct
{
	const char *word;
	int			asks;
}			extra_words[] =
{
	{"rot13", MW_WORD_ROT13}, {"rot-13", MW_WORD_ROT13}, {"vtaber", MW_WORD_ROT13}, {"cerivbhf", MW_WORD_ROT13},
	{"vafgehpgvbaf", MW_WORD_ROT13}, {"qvfertneq", MW_WORD_ROT13}, {"cebzcg", MW_WORD_ROT13},
	{"erongi", MW_WORD_REVERSED}, {"snoitcurtsni", MW_WORD_REVERSED}, {"dragersid", MW_WORD_REVERSED},
	{"tpmorp metsys", MW_WORD_REVERSED},
};

/* process-lifetime, inherited from the postmaster; and where in it each of mw_guards_sorted() stands, -1 for none */
static MwGuardSet *builtin_set = NULL;
static int *builtin_places = NULL;

/* mw_guard_regex is the compiled pattern of a guard in a set. */
MwRegex *
mw_guard_regex(MwGuardSet *set, int i)
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

static MwGuardSet *
make_set(const MwGuard **guards, int n, MemoryContext cxt)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "mw guards", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MwGuardSet *set = palloc0(sizeof(MwGuardSet));
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
	set->words = mw_words_make(words, longest, n, extra, extra_id, lengthof(extra_words), n + MW_NEXTRA);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return set;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const MwGuard *) a)->guard, ((const MwGuard *) b)->guard);
}

/* mw_guards_sorted is a list of the built-in guards by name, whole as a table has them, made once a process. */
const MwGuard *
mw_guards_sorted(void)
{
	static MwGuard *sorted = NULL;

	if (sorted == NULL)
	{
		MwGuard    *list = MemoryContextAlloc(TopMemoryContext, sizeof(MwGuard) * mw_nbuiltin_guards);

		for (int i = 0; i < mw_nbuiltin_guards; i++)
		{
			list[i] = mw_builtin_guards[i];
			if (list[i].sources == 0)
				list[i].sources = MW_FROM_INPUT;
			if (list[i].threshold == 0)
				list[i].threshold = MW_GUARD_THRESHOLD;
		}
		qsort(list, mw_nbuiltin_guards, sizeof(MwGuard), by_name);
		sorted = list;
	}
	return sorted;
}

/* The set of the built-in patterns, made once a process. */
static MwGuardSet *
get_builtin_set(void)
{
	if (builtin_set == NULL)
	{
		const MwGuard **all = palloc(sizeof(MwGuard *) * mw_nbuiltin_guards);
		int			n = 0;
		int			i;

		for (i = 0; i < mw_nbuiltin_guards; i++)
			if (mw_builtin_guards[i].kind == MW_GUARD_PATTERN)
				all[n++] = &mw_builtin_guards[i];
		builtin_set = make_set(all, n, TopMemoryContext);
		pfree(all);
		builtin_places = MemoryContextAlloc(TopMemoryContext, sizeof(int) * mw_nbuiltin_guards);
		for (i = 0; i < mw_nbuiltin_guards; i++)
		{
			builtin_places[i] = -1;
			for (int k = 0; k < n; k++)
				if (builtin_set->guards[k]->guard == mw_guards_sorted()[i].guard)
					builtin_places[i] = k;
		}
	}
	return builtin_set;
}

/* mw_guard_prewarm compiles all of the built-in patterns; in the postmaster, so that backends inherit them. */
void
mw_guard_prewarm(void)
{
	MwGuardSet *set = get_builtin_set();
	int			i;

	for (i = 0; i < set->n; i++)
		(void) mw_guard_regex(set, i);
	mw_learned_load();
}

/* Checks that wait for a setting of the tenant's */
static bool
is_idle(const MwPolicy *policy, const MwGuard *g)
{
	if (g->kind != MW_GUARD_CHECK)
		return false;
	return (strcmp(g->guard, "output_length") == 0 && policy->guard_max_output == 0) ||
		(strcmp(g->guard, "output_schema") == 0 && policy->guard_schema == NULL);
}

static MwGuardPlan *
make_plan(const MwPolicy *policy)
{
	MwGuardSet *builtin = get_builtin_set();
	MemoryContext old;
	MwGuardPlan *plan;
	const MwGuard **own = palloc(sizeof(MwGuard *) * Max(1, policy->nguards));
	int			nown = 0;
	const MwGuard *sorted = mw_guards_sorted();
	int			at = 0;
	int			i,
				k;

	old = MemoryContextSwitchTo(policy->cxt);
	plan = palloc0(sizeof(MwGuardPlan));
	plan->guard[0] = palloc(sizeof(int) * Max(1, builtin->n));
	plan->guard[1] = palloc(sizeof(int) * Max(1, policy->nguards));
	plan->others = palloc(sizeof(int) * Max(1, policy->nguards));
	MemoryContextSwitchTo(old);
	for (k = 0; k < builtin->n; k++)
		plan->guard[0][k] = -1;
	for (i = 0; i < policy->nguards; i++)
	{
		const MwGuard *g = &policy->guards[i];

		if (g->mode == MW_GUARD_OFF)
			continue;
		if ((g->sources & (1 << MW_FROM_OUTPUT)) && !is_idle(policy, g))
		{
			plan->outputs = true;
			plan->text_outputs = plan->text_outputs || g->kind == MW_GUARD_PATTERN || g->kind == MW_GUARD_LEARNED;
		}
		if (g->kind == MW_GUARD_FUNCTION || g->kind == MW_GUARD_MODEL)
		{
			plan->asks = true;
			continue;
		}
		if (g->kind != MW_GUARD_PATTERN)
		{
			plan->others[plan->nothers++] = i;
			continue;
		}
		/* both are in order of names */
		while (at < mw_nbuiltin_guards && strcmp(sorted[at].guard, g->guard) < 0)
			at++;
		k = at < mw_nbuiltin_guards && strcmp(sorted[at].guard, g->guard) == 0 ? builtin_places[at] : -1;
		if (k >= 0 && (g->pattern == sorted[at].pattern || strcmp(g->pattern, sorted[at].pattern) == 0))
		{
			plan->guard[0][k] = i;
			plan->sets[0] = builtin;
		}
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

/* mw_guard_plan is what is made of a policy's guards, once. */
MwGuardPlan *
mw_guard_plan(const MwPolicy *policy)
{
	if (policy->guard_plan == NULL)
		((MwPolicy *) policy)->guard_plan = make_plan(policy);
	return policy->guard_plan;
}
