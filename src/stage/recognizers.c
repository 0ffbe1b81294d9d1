/*
 * recognizers.c - the built-in rows: what personal data looks like.
 *
 * One source: CREATE EXTENSION copies these rows into mw.recognizer, and the
 * postmaster compiles the same patterns.  They stand in files by kind:
 * general (mail, telephone, cards, network), secret (keys, tokens, passwords),
 * person (dates of birth, passports, accounts, places), europe and world
 * (numbers that states give to people).  The rules behind them:
 *
 * - A match never begins or ends inside a longer run of ASCII letters or digits;
 *   letters of other scripts are no part of such a run (text in Chinese or Thai
 *   has no blanks).
 * - What has check digits is told by them; what has none, or one that every
 *   tenth number passes, only next to a word that names it.
 * - No pattern repeats without a bound, so the work at one place of a text is
 *   bounded and a text of any length costs its length.
 * - What is more often not personal (any URL, the number of a vehicle, any date)
 *   is on demand: found where its type is asked for by name or by a preset.
 *
 * Decided once, where the rules leave a choice: an address spelled out is one
 * where its "at" or a dot stands in brackets or both in capitals ("sam at example
 * dot com" may be a sentence); host names of scp (git@host:path/) and addresses
 * inside longer dotted numbers are no matches; full-width and other digits count
 * as digits; IBANs are also found in lower case, with hyphens, and of countries
 * outside SWIFT's registry; addresses of private networks count like any other;
 * numbers with blanks in the North American form are telephone numbers.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "stage/redact.h"

static const MwRecognizerList *const lists[] = {
	&mw_recognizers_general, &mw_recognizers_secret, &mw_recognizers_person,
	&mw_recognizers_europe, &mw_recognizers_world,
};

/* mw_builtin_recognizers counts them. */
int
mw_builtin_recognizers(void)
{
	int			n = 0;

	for (size_t i = 0; i < lengthof(lists); i++)
		n += lists[i]->n;
	return n;
}

/* mw_builtin_recognizer is one of them. */
const MwRecognizer *
mw_builtin_recognizer(int i)
{
	for (size_t k = 0; k < lengthof(lists); k++)
	{
		if (i < lists[k]->n)
			return &lists[k]->recs[i];
		i -= lists[k]->n;
	}
	return NULL;
}

static int
by_priority(const void *a, const void *b)
{
	const MwRecognizer *x = *(const MwRecognizer *const *) a;
	const MwRecognizer *y = *(const MwRecognizer *const *) b;
	int			c = y->priority - x->priority;

	if (c == 0)
		c = strcmp(x->type, y->type);
	/* patterns of a type stand in one list, in their order */
	return c != 0 ? c : x < y ? -1 : 1;
}

/* mw_recognizers_sorted is a list of them by priority, made once a process. */
const MwRecognizer *
mw_recognizers_sorted(void)
{
	static MwRecognizer *sorted = NULL;

	if (sorted == NULL)
	{
		int			n = mw_builtin_recognizers();
		const MwRecognizer **order = palloc(sizeof(MwRecognizer *) * n);
		MwRecognizer *list = MemoryContextAlloc(TopMemoryContext, sizeof(MwRecognizer) * n);

		for (int i = 0; i < n; i++)
			order[i] = mw_builtin_recognizer(i);
		qsort(order, n, sizeof(MwRecognizer *), by_priority);
		for (int i = 0; i < n; i++)
			list[i] = *order[i];
		pfree(order);
		sorted = list;
	}
	return sorted;
}
