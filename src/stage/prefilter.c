/*
 * prefilter.c - one vector pass over a text that leaves patterns little to do.
 *
 * Prose holds few digits and fewer @: a pass over blocks of 64 bytes finds the
 * bytes that any recogniser needs, a few instructions each put them into
 * clusters, and clusters with enough bytes become windows.  The work is linear
 * whatever the text is; on a text that is all digits the windows touch and the
 * patterns see the text as if there were no prefilter.
 */
#include "postgres.h"

#include "stage/prefilter.h"
#include "util/scan.h"

/* on each side of a window; then on to the next blank, but no further than this */
#define MW_WINDOW_MARGIN	24
#define MW_WINDOW_REACH		320

void
mw_prefilter_init(MwPrefilter *pf)
{
	memset(pf, 0, sizeof(*pf));
}

/* mw_prefilter_add reads a specification. */
int
mw_prefilter_add(MwPrefilter *pf, const char *spec, int *least, bool *high)
{
	uint8		bytes[32] = {0};
	const unsigned char *p = (const unsigned char *) spec;
	int			gap = MW_PREFILTER_GAP;
	int			set;
	int			b;

	*least = 1;
	*high = false;
	if (spec == NULL || *spec == '\0')
		return -1;
	for (; *p && *p != '{' && *p != '&'; p++)
	{
		int			hi = p[0];

		if (p[1] == '-' && p[2] > p[0] && p[2] != '{' && p[2] != '&')
			hi = p[2];
		for (b = p[0]; b <= hi; b++)
			bytes[b / 8] |= 1 << (b % 8);
		if (hi != p[0])
			p += 2;
	}
	if (*p == '{')
	{
		*least = Max(1, atoi((const char *) p + 1));
		while (*p && *p != '}')
			if (*p++ == ',')
				gap = Max(1, atoi((const char *) p));
		if (*p)
			p++;
	}
	if (strcmp((const char *) p, "&high") == 0)
		*high = true;
	else if (*p)
		return -1;				/* not ours to read: scan everything */

	for (set = 0; set < pf->nsets; set++)
		if (pf->gap[set] == gap && memcmp(pf->set_bytes[set], bytes, sizeof(bytes)) == 0)
			break;
	if (set == MW_PREFILTER_SETS)
		return -1;
	if (set == pf->nsets)
	{
		memcpy(pf->set_bytes[set], bytes, sizeof(bytes));
		pf->least[set] = *least;
		pf->gap[set] = gap;
		pf->nsets++;
		for (b = 0; b < 256; b++)
			if (bytes[b / 8] & (1 << (b % 8)))
				pf->sets_of[b] |= (uint32) 1 << set;
	}
	else
		pf->least[set] = Min(pf->least[set], *least);
	return set;
}

/* mw_prefilter_ready makes the ranges of the vector pass. */
void
mw_prefilter_ready(MwPrefilter *pf)
{
	struct
	{
		int			lo,
					hi;
	}			r[128];
	int			n = 0;
	int			b;

	for (b = 0; b < 256; b++)
	{
		if (pf->sets_of[b] == 0)
			continue;
		if (n > 0 && r[n - 1].hi == b - 1)
			r[n - 1].hi = b;
		else
			r[n].lo = r[n].hi = b, n++;
	}
	/* close the smallest gaps until they fit; bytes in between cost a look each, no more */
	while (n > (int) lengthof(pf->ranges))
	{
		int			best = 0;
		int			i;

		for (i = 1; i + 1 < n; i++)
			if (r[i + 1].lo - r[i].hi < r[best + 1].lo - r[best].hi)
				best = i;
		r[best].hi = r[best + 1].hi;
		for (i = best + 1; i + 1 < n; i++)
			r[i] = r[i + 1];
		n--;
	}
	for (b = 0; b < n; b++)
	{
		pf->ranges[b].lo = (uint8) r[b].lo;
		pf->ranges[b].hi = (uint8) r[b].hi;
	}
	pf->nranges = n;
}

static inline bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Close a cluster: widen it to a window. */
static void
close_cluster(const char *s, int len, MwWindows *out, const MwWindow *cl)
{
	int			from = Max(0, cl->first - MW_WINDOW_MARGIN);
	int			to = Min(len, cl->last + 1 + MW_WINDOW_MARGIN);
	int			stop;

	stop = Max(0, from - MW_WINDOW_REACH);
	while (from > stop && !is_blank(s[from - 1]))
		from--;
	while (from > 0 && ((unsigned char) s[from] & 0xc0) == 0x80)
		from--;
	stop = Min(len, to + MW_WINDOW_REACH);
	while (to < stop && !is_blank(s[to]))
		to++;
	while (to < len && ((unsigned char) s[to] & 0xc0) == 0x80)
		to++;

	if (out->n == out->cap)
	{
		out->cap *= 2;
		if (out->w == out->some)
		{
			out->w = palloc_extended(sizeof(MwWindow) * out->cap, MCXT_ALLOC_HUGE);
			memcpy(out->w, out->some, sizeof(out->some));
		}
		else
			out->w = repalloc_huge(out->w, sizeof(MwWindow) * out->cap);
	}
	out->w[out->n] = *cl;
	out->w[out->n].from = from;
	out->w[out->n].to = to;
	out->n++;
}

/* mw_prefilter_scan finds all windows. */
void
mw_prefilter_scan(const MwPrefilter *pf, const char *s, int len, MwWindows *out)
{
	MwWindow	cl[MW_PREFILTER_SETS];
	int			nranges = pf->nranges;
	int			at;
	int			k;

	out->w = out->some;
	out->n = 0;
	out->cap = lengthof(out->some);
	for (k = 0; k < pf->nsets; k++)
	{
		cl[k].set = k;
		cl[k].count = 0;
		cl[k].first = 0;
		cl[k].last = -1000;
	}

	for (at = 0; at < len; at += MW_BLOCK)
	{
		MwBlock		blk;
		uint64		mask;

		mw_block_load(&blk, s + at, len - at);
		mask = mw_block_ranges(&blk, pf->ranges, nranges);
		if (len - at < MW_BLOCK)
			mask &= mw_block_valid(len - at);

		while (mask)
		{
			int			i = at + pg_rightmost_one_pos64(mask);
			uint32		sets = pf->sets_of[(unsigned char) s[i]];
			int			n = 1;

			/* bytes of the same sets side by side at once: numbers */
			mask &= mask - 1;
			while (mask & (UINT64CONST(1) << ((i - at + n) & 63)) && pf->sets_of[(unsigned char) s[i + n]] == sets)
			{
				mask &= mask - 1;
				n++;
			}
			while (sets)
			{
				MwWindow   *c;

				k = pg_rightmost_one_pos32(sets);
				sets &= sets - 1;
				c = &cl[k];
				if (i - c->last > pf->gap[k])
				{
					if (c->count >= pf->least[k])
						close_cluster(s, len, out, c);
					c->first = i;
					c->count = 0;
				}
				c->last = i + n - 1;
				c->count += n;
			}
		}
	}
	for (k = 0; k < pf->nsets; k++)
		if (cl[k].count >= pf->least[k] && cl[k].count > 0)
			close_cluster(s, len, out, &cl[k]);
}
