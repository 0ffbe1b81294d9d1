/*
 * overlap.c - spans in order and apart.
 *
 * Validated before unvalidated, then priority, then length.  What the loser
 * covered beyond the winner is not left standing: the winner grows over it,
 * since half a number in clear is a number in clear.
 */
#include "postgres.h"

#include "stage/detect.h"

/* beyond this many spans on one heap the strongest simply takes all */
#define MW_OVERLAP_MAX		64

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
	bool		lost;
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
		lost = false;
		for (k = 0; k < nwon; k++)
		{
			/* a loser: those that beat it cover what it covered, each up to the next winner */
			int			from = h[best].from;
			int			to = h[best].to;

			if (from >= won[k].to || to <= won[k].from)
				continue;
			lost = true;
			for (int j = 0; j < nwon; j++)
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
		if (!lost)
			won[nwon++] = h[best];
	}
	memcpy(h, won, sizeof(MwSpan) * nwon);
	if (nwon > 1)
		sort_by_place(h, nwon);
	return nwon;
}

/* mw_spans_settle settles all heaps of a text. */
int
mw_spans_settle(MwSpan *spans, int n)
{
	int			kept = 0;
	int			i,
				k;

	if (n > 1)
		sort_by_place(spans, n);
	for (i = 0; i < n; i = k)
	{
		int			to = spans[i].to;
		int			left;

		for (k = i + 1; k < n && spans[k].from < to; k++)
			to = Max(to, spans[k].to);
		left = k - i == 1 ? 1 : settle_heap(&spans[i], k - i);
		if (kept != i)
			memmove(&spans[kept], &spans[i], sizeof(MwSpan) * left);
		kept += left;
	}
	return kept;
}
