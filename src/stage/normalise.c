/*
 * normalise.c - the normalised view of a text that is not all ASCII.
 *
 * Characters are folded one by one through PostgreSQL's own Unicode tables
 * (NFKC, and NFKD where that only takes accents off Latin letters), which is
 * what normalising the whole would give but for rare sequences, keeps the way
 * back to the original exact, and lets a small cache answer for the few
 * different characters that a text is made of.  Scripts whose letters carry
 * meaning in their marks (kana, Hangul, Cyrillic, Arabic) are not taken apart.
 *
 * Folding by look-alikes is only done inside tokens that mix Latin letters with
 * Cyrillic or Greek ones: nobody writes such a word but to hide it, and ordinary
 * Russian and Greek stays what it is.
 */
#include "postgres.h"

#include "common/unicode_norm.h"
#include "mb/pg_wchar.h"

#include "stage/normalise.h"
#include "util/scan.h"

/* most that one character becomes; longer ones (ligatures of phrases) are left as they are */
#define MW_FOLD_MAX 4

typedef struct Folded
{
	uint32		c;				/* the character + 1, 0: slot is free */
	uint8		n;
	uint32		to[MW_FOLD_MAX];
} Folded;

/* per process, direct-mapped; holds nothing of a text but which characters occurred */
#define MW_FOLD_SLOTS 512
static Folded fold_cache[MW_FOLD_SLOTS];

/* Letters of Cyrillic and Greek that look like Latin ones, in small letters. */
static const struct
{
	uint16		c;
	char		to;
}			lookalikes[] =
{
	{0x03b1, 'a'}, {0x03b2, 'b'}, {0x03b3, 'y'}, {0x03b4, 'd'}, {0x03b5, 'e'}, {0x03b7, 'n'}, {0x03b9, 'i'},
	{0x03ba, 'k'}, {0x03bc, 'u'}, {0x03bd, 'v'}, {0x03bf, 'o'}, {0x03c1, 'p'}, {0x03c2, 's'}, {0x03c3, 'o'},
	{0x03c4, 't'}, {0x03c5, 'u'}, {0x03c7, 'x'}, {0x03c9, 'w'},
	{0x0430, 'a'}, {0x0432, 'b'}, {0x0433, 'r'}, {0x0435, 'e'}, {0x043a, 'k'}, {0x043c, 'm'}, {0x043d, 'h'},
	{0x043e, 'o'}, {0x043f, 'n'}, {0x0440, 'p'}, {0x0441, 'c'}, {0x0442, 't'}, {0x0443, 'y'}, {0x0445, 'x'},
	{0x0455, 's'}, {0x0456, 'i'}, {0x0457, 'i'}, {0x0458, 'j'}, {0x04bb, 'h'}, {0x0501, 'd'}, {0x051b, 'q'},
	{0x051d, 'w'}, {0x0475, 'v'}, {0x0261, 'g'}, {0x0131, 'i'}, {0x0251, 'a'}, {0x03f2, 'c'}, {0x04cf, 'l'},
};

static char
lookalike(uint32 c)
{
	size_t		i;

	for (i = 0; i < lengthof(lookalikes); i++)
		if (lookalikes[i].c == c)
			return lookalikes[i].to;
	return 0;
}

/* Characters that are there to be invisible */
static bool
is_format(uint32 c)
{
	return c == 0xad || c == 0x34f || c == 0x61c || c == 0x115f || c == 0x1160 || c == 0x17b4 || c == 0x17b5 ||
		(c >= 0x180b && c <= 0x180f) || (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
		(c >= 0x2060 && c <= 0x206f) || c == 0x3164 || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || c == 0xffa0 ||
		(c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

/* Small letter of a capital one beyond ASCII; enough for the scripts that guards are written in. */
static uint32
small_letter(uint32 c)
{
	if (c >= 'A' && c <= 'Z')
		return c + 32;
	if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) || (c >= 0x410 && c <= 0x42f))
		return c + 32;
	if (c >= 0x400 && c <= 0x40f)
		return c + 80;
	if (((c >= 0x100 && c <= 0x17f) || (c >= 0x460 && c <= 0x52f)) && (c & 1) == 0)
		return c + 1;
	return c;
}

/* Small capitals, in the order of the alphabet; 0: there is none */
static const uint16 small_capitals[26] = {
	0x1d00, 0x299, 0x1d04, 0x1d05, 0x1d07, 0xa730, 0x262, 0x29c, 0x26a, 0x1d0a, 0x1d0b, 0x29f, 0x1d0d,
	0x274, 0x1d0f, 0x1d18, 0xa7af, 0x280, 0xa731, 0x1d1b, 0x1d1c, 0x1d20, 0x1d21, 0, 0x28f, 0x1d22
};

/* Latin letters that have no decomposition, and quotation marks that ASCII has too */
static uint32
plain_letter(uint32 c)
{
	/* white letters in black circles and squares, and those that flags are made of */
	if (c >= 0x1f150 && c <= 0x1f169)
		return 'a' + (c - 0x1f150);
	if (c >= 0x1f170 && c <= 0x1f189)
		return 'a' + (c - 0x1f170);
	if (c >= 0x1f1e6 && c <= 0x1f1ff)
		return 'a' + (c - 0x1f1e6);
	if ((c >= 0x262 && c <= 0x29f) || (c >= 0x1d00 && c <= 0x1d22) || (c >= 0xa730 && c <= 0xa7af))
		for (int i = 0; i < 26; i++)
			if (small_capitals[i] == c)
				return 'a' + i;
	switch (c)
	{
		case 0xf8:
		case 0x275:
			return 'o';
		case 0x142:
			return 'l';
		case 0x111:
		case 0xf0:
			return 'd';
		case 0x127:
			return 'h';
		case 0x167:
			return 't';
		case 0x18e:
		case 0x1dd:
		case 0x259:
			return 'e';
		case 0x2018:
		case 0x2019:
		case 0x201b:
		case 0x2032:
			return '\'';
		case 0x201c:
		case 0x201d:
		case 0x201e:
		case 0xab:
		case 0xbb:
			return '"';
		case 0x2010:
		case 0x2011:
		case 0x2012:
		case 0x2013:
		case 0x2014:
		case 0x2212:
			return '-';
		case 0x2028:
		case 0x2029:
		case 0x85:
			return '\n';
		default:
			return c;
	}
}

/* Scripts that are their own normal form nearly everywhere, and must not be taken apart */
static inline bool
is_settled(uint32 c)
{
	return (c >= 0x430 && c <= 0x45f) || (c >= 0x3041 && c <= 0x30fa) || (c >= 0x4e00 && c <= 0x9fff) ||
		(c >= 0xac00 && c <= 0xd7a3) || (c >= 0x0621 && c <= 0x064a) || (c >= 0x0900 && c <= 0x0dff) ||
		(c >= 0x3001 && c <= 0x3011);
}

static void
fold_slow(uint32 c, Folded *f)
{
	pg_wchar	in[2] = {c, 0};
	pg_wchar   *norm;
	int			n;
	int			i;

	f->c = c + 1;
	f->n = 0;
	if (is_format(c))
		return;

	norm = unicode_normalize(UNICODE_NFKC, in);
	for (n = 0; norm[n]; n++)
		;
	if (n > MW_FOLD_MAX)
	{
		f->to[f->n++] = c;
		return;
	}
	for (i = 0; i < n; i++)
	{
		uint32		x = small_letter(norm[i]);

		/* é is e, but й is й */
		if ((x >= 0xc0 && x < 0x250) || (x >= 0x1e00 && x < 0x2000) || (x >= 0x370 && x < 0x400))
		{
			pg_wchar	one[2] = {x, 0};
			pg_wchar   *parts = unicode_normalize(UNICODE_NFKD, one);

			x = small_letter(parts[0]);
			pfree(parts);
		}
		x = plain_letter(x);
		/* marks that stand by themselves: the letter before them is enough */
		if ((x >= 0x300 && x <= 0x36f) || (x >= 0x20d0 && x <= 0x20ff) || is_format(x))
			continue;
		f->to[f->n++] = x;
	}
	pfree(norm);
}

/* What one character becomes */
static const Folded *
fold(uint32 c)
{
	Folded	   *f = &fold_cache[(c ^ (c >> 9)) % MW_FOLD_SLOTS];

	if (f->c != c + 1)
		fold_slow(c, f);
	return f;
}

uint32
mw_fold_char(uint32 c)
{
	const Folded *f;
	char		l;

	if (c < 0x80)
		return small_letter(c);
	f = fold(c);
	if (f->n == 0)
		return 0;
	l = lookalike(f->to[0]);
	return l ? (uint32) l : f->to[0];
}

/* ---------- the view ---------- */

typedef struct Builder
{
	char	   *s;
	int		   *map;
	int			n;
	int			cap;
} Builder;

static inline void
put_char(Builder *b, uint32 c, int from)
{
	int			k;
	int			n;

	if (b->n + 4 >= b->cap)
	{
		b->cap = b->cap * 2;
		b->s = repalloc_huge(b->s, b->cap);
		b->map = repalloc_huge(b->map, sizeof(int) * (Size) b->cap);
	}
	if (c < 0x80)
	{
		b->s[b->n] = (char) c;
		b->map[b->n++] = from;
		return;
	}
	(void) unicode_to_utf8(c, (unsigned char *) b->s + b->n);
	n = pg_utf_mblen((unsigned char *) b->s + b->n);
	for (k = 0; k < n; k++)
		b->map[b->n + k] = from;
	b->n += n;
}

/* 1 Latin, 2 Cyrillic or Greek, 0 no letter of a token */
static inline int
script_of(uint32 c)
{
	if (c < 0x80)
		return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ? 1 : 0;
	if ((c >= 0x370 && c < 0x530) || c == 0x1d79)
		return 2;
	if (c == 0x251 || c == 0x261 || c == 0x131)
		return 2;
	return 0;
}

/* Between letters it may stand for one: the token goes on, in whatever way the digit was written */
static inline bool
is_digit(uint32 c)
{
	return c >= '0' && c <= '9';
}

/* Fold the look-alikes of a token s[from..n) that mixes scripts; in place, letters only get shorter. */
static void
fold_token(Builder *b, int from)
{
	int			r = from;
	int			w = from;

	while (r < b->n)
	{
		int			n = pg_utf_mblen((unsigned char *) b->s + r);
		char		l = n > 1 ? lookalike(utf8_to_unicode((unsigned char *) b->s + r)) : 0;

		if (l)
		{
			b->s[w] = l;
			b->map[w++] = b->map[r];
		}
		else
		{
			memmove(b->s + w, b->s + r, n);
			memmove(b->map + w, b->map + r, sizeof(int) * n);
			w += n;
		}
		r += n;
	}
	b->n = w;
}

static bool
all_ascii(const char *s, int len)
{
	int			at;

	for (at = 0; at < len; at += MW_BLOCK)
	{
		MwBlock		blk;

		mw_block_load(&blk, s + at, len - at);
		if (mw_block_any_high(&blk))
			return false;
	}
	return true;
}

/* mw_normalise makes the view. */
void
mw_normalise(const char *s, int len, MwView *out)
{
	Builder		b;
	int			i = 0;
	int			token = 0;		/* where the token began */
	int			scripts = 0;	/* of its letters so far */
	bool		flag = false;	/* inside an emoji flag, whose tag characters are no text */

	out->s = s;
	out->len = len;
	out->map = NULL;
	if (all_ascii(s, len))
		return;

	b.cap = len + len / 4 + 64;
	b.n = 0;
	b.s = palloc_extended(b.cap, MCXT_ALLOC_HUGE);
	b.map = palloc_extended(sizeof(int) * (Size) b.cap, MCXT_ALLOC_HUGE);

	while (i < len)
	{
		const unsigned char *p = (const unsigned char *) s + i;
		uint32		c = *p;
		int			n = 1;
		int			before = b.n;
		int			script;
		int			k;

		if (c < 0x80)
		{
			put_char(&b, c, i);
			flag = false;
			script = is_digit(c) ? -1 : script_of(c);
		}
		else
		{
			n = pg_utf_mblen(p);
			if (i + n > len)
				break;
			c = utf8_to_unicode(p);
			if (c == 0x1f3f4)
				flag = true;
			else if (c < 0xe0000)
				flag = false;
			script = 0;
			if (c == 0x20ac)
			{
				/* the euro sign is an e to whoever hides words, whatever stands beside it: what that folds to is not known yet */
				put_char(&b, 'e', i);
				script = 1;
			}
			else if (is_settled(c))
			{
				put_char(&b, c, i);
				script = script_of(c);
			}
			else if (c >= 0xe0020 && c <= 0xe007e)
			{
				/* tag characters: invisible ASCII, unless they spell a flag */
				if (!flag)
				{
					put_char(&b, c - 0xe0000, i);
					script = is_digit(c - 0xe0000) ? -1 : script_of(c - 0xe0000);
				}
				else
					script = -1;
			}
			else
			{
				const Folded *f = fold(c);
				bool		goes_on = true;

				for (k = 0; k < f->n; k++)
				{
					put_char(&b, f->to[k], i);
					script |= script_of(f->to[k]);
					goes_on &= is_digit(f->to[k]);
				}
				if (goes_on)
					script = -1;	/* nothing, or digits */
			}
		}
		i += n;
		if (script < 0)
			continue;
		if (script == 0)
		{
			if (scripts == 3)
			{
				/* the token ended before this character: fold it, then put the character again */
				int			tail = b.n - before;
				char		keep[4 * MW_FOLD_MAX + 4];
				int			keepmap[4 * MW_FOLD_MAX + 4];

				memcpy(keep, b.s + before, tail);
				memcpy(keepmap, b.map + before, sizeof(int) * tail);
				b.n = before;
				fold_token(&b, token);
				memcpy(b.s + b.n, keep, tail);
				memcpy(b.map + b.n, keepmap, sizeof(int) * tail);
				b.n += tail;
			}
			token = b.n;
			scripts = 0;
		}
		else
			scripts |= script;
	}
	if (scripts == 3)
		fold_token(&b, token);
	b.s[b.n] = '\0';
	b.map[b.n] = len;
	out->s = b.s;
	out->len = b.n;
	out->map = b.map;
}
