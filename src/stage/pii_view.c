/*
 * pii_view.c - the plain view of a text that hides a value.
 *
 * Full-width letters and digits, decimal digits of other scripts, mathematical
 * alphabets, invisible characters and letters that only look Latin are made
 * ASCII, one by one, so that a pattern sees the number that a reader sees.  The
 * view is only made of texts that hold such a character in such a place: an
 * ordinary Russian or Chinese text is its own view.  What characters fold to is
 * the guards' (normalise.c); here nothing is taken apart or lower-cased but what
 * must be, since a view in which more had changed could hide a value too.
 *
 * The way back is a list of edits: between two of them bytes of the view and of
 * the original go side by side.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "stage/detect.h"
#include "stage/normalise.h"
#include "util/scan.h"

#define is_alnum(c) ((unsigned char) ((c) - '0') < 10 || (unsigned char) (((c) | 0x20) - 'a') < 26)

/* what plain() answers beside a character */
#define GONE	0
#define SAME	(-1)

static const uint32 zeros[] = {
	0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66,
	0x0e50, 0x0ed0, 0x0f20, 0x1040, 0x17e0, 0x1810, 0xa9d0, 0xff10,
};

/* What a character becomes between two neighbours; before and behind are bytes, 0 at the ends. */
static int
plain(uint32 c, unsigned char before, unsigned char behind)
{
	if (c >= 0xff01 && c <= 0xff5e)
		return c - 0xfee0;
	for (size_t i = 0; i < lengthof(zeros); i++)
		if (c - zeros[i] < 10)
			return '0' + (c - zeros[i]);
	if (c >= 0x1d7ce && c <= 0x1d7ff)
		return '0' + (c - 0x1d7ce) % 10;
	if (c >= 0x1d400 && c <= 0x1d6a3)
		return (c - 0x1d400) % 52 < 26 ? 'A' + (c - 0x1d400) % 52 : 'a' + (c - 0x1d400) % 52 - 26;
	if (c == 0xfe6b)
		return '@';
	if (c == 0x3000)
		return ' ';
	/* hyphens and blanks inside a number; elsewhere they are typography */
	if (c == 0xa0 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f || c == 0x205f)
		return is_alnum(before) && is_alnum(behind) ? ' ' : SAME;
	if ((c >= 0x2010 && c <= 0x2015) || c == 0x2212 || c == 0xfe58 || c == 0xfe63)
		return is_alnum(before) && is_alnum(behind) ? '-' : SAME;
	/* letters that look Latin, beside Latin letters or digits */
	if ((c >= 0x370 && c < 0x530) || c == 0x261 || c == 0x131)
	{
		uint32		l;

		if (!is_alnum(before) && !is_alnum(behind) && behind != '@' && before != '@')
			return SAME;
		l = mw_fold_char(c);
		return l > 0 && l < 0x80 ? (int) l : SAME;
	}
	/* settled scripts need no look at the tables */
	if (c >= 0x3041 && c < 0xfe00)
		return SAME;
	return mw_fold_char(c) == 0 ? GONE : SAME;
}

static void
edit(MwPlainView *v, int at, int was)
{
	if (v->n == v->cap)
	{
		v->cap = Max(32, v->cap * 2);
		if (v->at == NULL)
		{
			v->at = palloc_extended(sizeof(int) * v->cap, MCXT_ALLOC_HUGE);
			v->was = palloc_extended(sizeof(int) * v->cap, MCXT_ALLOC_HUGE);
		}
		else
		{
			v->at = repalloc_huge(v->at, sizeof(int) * v->cap);
			v->was = repalloc_huge(v->was, sizeof(int) * v->cap);
		}
	}
	v->at[v->n] = at;
	v->was[v->n++] = was;
}

/* mw_plain_view makes the view. */
bool
mw_plain_view(const char *s, int len, MwPlainView *view)
{
	int			i = 0;
	int			done = 0;		/* bytes of the original that stand in the view */
	int			n = 0;
	unsigned char before = 0;

	memset(view, 0, sizeof(*view));
	view->original = s;
	view->original_len = len;
	while (i < len)
	{
		const unsigned char *p = (const unsigned char *) s + i;
		int			size;
		int			to;

		if (*p < 0x80)
		{
			/* on to the next character beyond ASCII */
			MwBlock		blk;
			uint64		high;

			mw_block_load(&blk, s + i, len - i);
			high = mw_block_high(&blk);
			i += high ? pg_rightmost_one_pos64(high) : Min(MW_BLOCK, len - i);
			before = (unsigned char) s[i - 1];
			continue;
		}
		size = pg_utf_mblen(p);
		if (i + size > len)
			break;
		to = plain(utf8_to_unicode(p), before, i + size < len ? p[size] : 0);
		if (to == SAME)
		{
			before = *p;
			i += size;
			continue;
		}
		if (view->s == NULL)
			view->s = palloc_extended((Size) len + 1, MCXT_ALLOC_HUGE);
		memcpy(view->s + n, s + done, i - done);
		n += i - done;
		if (to != GONE)
		{
			edit(view, n, i);
			view->s[n++] = (char) to;
			before = (unsigned char) to;
		}
		i += size;
		done = i;
		edit(view, n, i);
	}
	if (view->s == NULL)
		return false;
	memcpy(view->s + n, s + done, len - done);
	n += len - done;
	view->s[n] = '\0';
	view->len = n;
	return true;
}

/* mw_plain_from finds where a byte of the view comes from. */
int
mw_plain_from(const MwPlainView *view, int byte)
{
	int			lo = 0;
	int			hi = view->n;

	/* the last edit at or before it */
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (view->at[mid] <= byte)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo == 0 ? byte : view->was[lo - 1] + (byte - view->at[lo - 1]);
}

/* mw_plain_to finds where what ends before a byte of the view ends. */
int
mw_plain_to(const MwPlainView *view, int byte)
{
	int			last = mw_plain_from(view, byte - 1);
	unsigned char c = (unsigned char) view->original[last];

	return c >= 0xc0 ? last + pg_utf_mblen((const unsigned char *) view->original + last) : last + 1;
}
