/*
 * pii_view.c - the plain view of a text that hides a value.
 *
 * Full-width letters and digits, decimal digits of other scripts, mathematical
 * alphabets, invisible characters and letters that only look Latin are made
 * ASCII, one by one, so that a pattern sees the number that a reader sees.  So is
 * what a URL, HTML or a string of a programming language writes a character of
 * ASCII as: %40, &#64;, \u0040, and \n for the end of a line.  The view is only
 * made of texts that hold such a character in such a place: an ordinary Russian
 * or Chinese text is its own view.  What characters fold to is
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

/* n hexadecimal digits at s; -1 where there are fewer */
static int
hex_number(const char *s, int len, int n)
{
	int			v = 0;

	if (len < n)
		return -1;
	for (int i = 0; i < n; i++)
	{
		int			d = mw_hex_value(s[i]);

		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

/* What HTML calls the characters that stand in addresses and numbers */
static const struct
{
	char		name[8];
	char		c;
}			entities[] = {
	{"commat", '@'}, {"period", '.'}, {"plus", '+'}, {"hyphen", '-'}, {"dash", '-'}, {"colon", ':'}, {"lowbar", '_'},
	{"nbsp", ' '}, {"lpar", '('}, {"rpar", ')'}, {"equals", '='},
};

/* &#64; &#x40; &commat; at s; its length, 0 for none */
static int
read_entity(const char *s, int len, int *c)
{
	int			i = 2;
	int			v = 0;

	if (len < 5)
		return 0;
	if (s[1] == '#')
	{
		bool		hex = (s[i] | 0x20) == 'x';

		for (i += hex; i < len && i < 8; i++)
		{
			int			d = mw_hex_value(s[i]);

			if (d < 0 || (d > 9 && !hex))
				break;
			v = v * (hex ? 16 : 10) + d;
		}
		*c = v;
		return i < len && s[i] == ';' ? i + 1 : 0;
	}
	for (size_t k = 0; k < lengthof(entities); k++)
	{
		int			n = strlen(entities[k].name);

		if (len > n + 1 && s[n + 1] == ';' && memcmp(s + 1, entities[k].name, n) == 0)
		{
			*c = entities[k].c;
			return n + 2;
		}
	}
	return 0;
}

/* How many bytes at s write one character of ASCII, and which; 0: they are what they are */
static int
read_escape(const char *s, int len, int *c)
{
	int			n = 0;

	*c = -1;
	switch (s[0])
	{
		case '%':
			*c = hex_number(s + 1, len - 1, 2);
			n = 3;
			break;
		case '&':
			n = read_entity(s, len, c);
			break;
		case '\\':
			if (len < 2)
				return 0;
			n = 2;
			if (s[1] == 'n' || s[1] == 'r' || s[1] == 't')
				*c = ' ';
			else if (s[1] == 'u' && (*c = hex_number(s + 2, len - 2, 4)) >= 0)
				n = 6;
			else if (s[1] == 'x' && (*c = hex_number(s + 2, len - 2, 2)) >= 0)
				n = 4;
			break;
	}
	if (*c == '\n' || *c == '\r' || *c == '\t')
		*c = ' ';
	return *c >= ' ' && *c < 0x7f ? n : 0;
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
mw_plain_view(const char *s, int len, bool escapes, MwPlainView *view)
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

		if (*p < 0x80 && (!escapes || (size = read_escape(s + i, len - i, &to)) == 0))
		{
			/* on to the next character beyond ASCII, or that may begin an escape */
			MwBlock		blk;
			uint64		high;

			mw_block_load(&blk, s + i, len - i);
			high = mw_block_high(&blk);
			if (escapes)
				high |= (mw_block_either(&blk, '%', '&') | mw_block_range(&blk, '\\', '\\')) & ~UINT64CONST(1);
			i += high ? pg_rightmost_one_pos64(high) : Min(MW_BLOCK, len - i);
			before = (unsigned char) s[i - 1];
			continue;
		}
		if (*p >= 0x80)
		{
			size = pg_utf_mblen(p);
			if (i + size > len)
				break;
			to = plain(utf8_to_unicode(p), before, i + size < len ? p[size] : 0);
		}
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

	/* an escape ends where what follows it begins; invisible characters behind it are none of it */
	if (c != (unsigned char) view->s[byte - 1] && (c == '%' || c == '&' || c == '\\'))
	{
		int			to;

		return last + read_escape(view->original + last, view->original_len - last, &to);
	}
	return c >= 0xc0 ? last + pg_utf_mblen((const unsigned char *) view->original + last) : last + 1;
}
