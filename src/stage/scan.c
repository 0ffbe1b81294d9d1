/*
 * scan.c - one pass over a text that leaves patterns little to do.
 *
 * Prose holds few digits and fewer : = @ _: a look at 64 bytes at a time finds
 * those, and at each of them a few loads and ANDs of bit sets say which
 * recognisers can begin there (pii_gate.h), usually none.  Only these are run, at
 * that one place.  What is done at a stop is bounded, or reads bytes that no
 * other stop reads again, so the time is linear whatever the text is, and clean
 * text costs the same with ten recognisers as with two hundred.
 *
 * Offsets are bytes; a run is of ASCII letters and digits only, so it ends
 * between characters.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "stage/scan_int.h"
#include "util/scan.h"

/* how far a key reaches back from where the scan stopped */
#define KEY_BACK	80

/* mw_scan_try tries all recognisers of a set at one place. */
void
mw_scan_try(MwSearch *q, const MwRecSet *set, int at)
{
	for (int w = 0; w < MW_SET_WORDS; w++)
	{
		uint64		bits = set->w[w];

		while (bits)
		{
			int			rec = w * 64 + pg_rightmost_one_pos64(bits);

			bits &= bits - 1;
			(void) mw_pii_try(q, rec, at);
		}
	}
}

/* A key may be the run s[b..e) with what hangs on it by _ and - */
static void
at_key(MwSearch *q, MwScanDone *done, int b)
{
	const MwPlan *plan = q->plan;
	const char *s = q->s;
	int			stop = Max(done->key, b - KEY_BACK);

	while (b > stop && (is_key_char(s[b - 1]) || (s[b - 1] == '.' && b - 1 > stop && is_alnum(s[b - 2]))))
		b--;
	/* its beginning may stand behind any of them: env_AKIA... */
	for (;;)
	{
		for (int i = plan->start_of[(unsigned char) s[b]]; i >= 0; i = plan->starts[i].next)
			if (b + plan->starts[i].len < q->len && memcmp(s + b, plan->starts[i].s, plan->starts[i].len) == 0)
				(void) mw_pii_try(q, plan->starts[i].rec, b);
		while (b < q->len && is_alnum(s[b]))
			b++;
		while (b < q->len && (s[b] == '_' || s[b] == '-' || s[b] == '.'))
			b++;
		if (b >= q->len || !is_alnum(s[b]) || is_alnum(s[b - 1]))
			break;
	}
	done->key = b;
}

/* Whether a _ or - can stand in a key of a vendor, of which sixteen characters and more follow: few names are as long */
static inline bool
may_be_key(const char *s, int len, int i)
{
	return i + 16 < len && is_key_char(s[i + 16]) && is_key_char(s[i + 12]) && is_key_char(s[i + 9]) && is_key_char(s[i + 6]) && is_key_char(s[i + 3]);
}

/* Whether a bracket may open what at and dot are written as */
static inline bool
may_be_spelled(const char *s, int len, int i)
{
	char		c;

	if (i + 4 >= len)
		return false;
	c = s[i + 1] == ' ' ? s[i + 2] : s[i + 1];
	return c == '@' || c == '.' || c == '\xc3' || (c | 0x20) == 'a' || (c | 0x20) == 'd' || (c | 0x20) == 'p';
}

/* Whether a ; may end &nbsp; &colon; &commat; (what is written in digits is told by them) */
static inline bool
may_be_entity(const char *s, int i)
{
	uint32		v;

	if (i < 7)
		return false;
	memcpy(&v, s + i - 7, sizeof(v));
	v ^= 0x26262626;			/* an & becomes a NUL, which the next line finds */
	return ((v - 0x01010101) & ~v & 0x80808080) != 0;
}

/* The run of letters and digits around the digit at i; returns its end */
static int
at_digit(MwSearch *q, MwScanDone *done, int i)
{
	const char *s = q->s;
	int			b = i;
	int			e = i + 1;
	bool		letters;

	while (b > done->run && is_letter(s[b - 1]))
		b--;
	/* %40, \n1, \n+1, &#64; */
	if (b > 0 && (s[b - 1] == '%' || s[b - 1] == '\\' || (b > 2 && s[b - 3] == '\\') || (b > 1 && s[b - 1] == '#' && s[b - 2] == '&')))
		q->escapes = true;
	while (e < q->len && is_digit(s[e]))
		e++;
	letters = b < i || (e < q->len && is_letter(s[e]));
	while (e < q->len && is_alnum(s[e]))
		e++;
	done->run = e;

	if (letters)
		mw_scan_word(q, b, e);
	else
		mw_scan_number(q, b, e);
	if (b >= done->key && (e - b >= 10 || (b > 0 && (s[b - 1] == '_' || s[b - 1] == '-')) ||
						   (e < q->len && s[e] == '_')))
		at_key(q, done, b);
	return e;
}

/* A run of capital letters that ends at or behind i */
static void
at_caps(MwSearch *q, MwScanDone *done, int i)
{
	const char *s = q->s;
	int			b = i;

	if (i < done->caps)
		return;
	while (b > done->caps && is_alnum(s[b - 1]))
		b--;
	while (i < q->len && is_alnum(s[i]))
		i++;
	done->caps = i;
	/* runs with a digit are words, which the scan stops at anyway */
	if (i - b >= 8 && i - b <= 11)
		mw_scan_try(q, &q->plan->of_kind[MW_PII_GATE_CAPS], b);
}

/* mw_pii_scan_named looks at one name. */
void
mw_pii_scan_named(MwSearch *q, int at)
{
	q->words_at = -1;
	mw_scan_named(q, at);
}

/* mw_pii_scan finds everything that has a gate. */
bool
mw_pii_scan(MwSearch *q)
{
	const char *s = q->s;
	int			len = q->len;
	MwScanDone	done = {0};
	uint64		caps_before = 0;
	uint64		s_before = 0;
	uint64		high = 0;
	int			at;

	for (at = 0; at < len; at += MW_BLOCK)
	{
		MwBlock		blk;
		uint64		mask;
		uint64		small_s;

		if ((at & 0xffff) == 0)
			CHECK_FOR_INTERRUPTS();
		mw_block_load(&blk, s + at, len - at);
		mask = mw_block_range_or(&blk, '0', '@', '-', '_', '(', '[');
		/* tables of single digits, 1 0 0 1: whole blocks of what scan_number.c would pass over one by one */
		if ((mask & mask >> 2 & mask >> 4) && !(q->plan->shape[1][1][1] & 2) && (at >= MW_CONTEXT_BYTES || q->label == NULL))
		{
			uint64		digit = mw_block_range(&blk, '0', '9');
			uint64		blank = mw_block_range(&blk, ' ', ' ');

			mask &= ~(digit & blank >> 1 & digit >> 2 & blank << 1 & digit << 2);
		}
		/* the second s of password */
		small_s = mw_block_range(&blk, 's', 's');
		mask |= small_s & (small_s << 1 | s_before);
		s_before = small_s >> (MW_BLOCK - 1);
		if (done.run > at)
			mask = done.run >= at + MW_BLOCK ? 0 : mask & ~UINT64CONST(0) << (done.run - at);
		high |= mw_block_high(&blk);
		if (q->plan->caps)
		{
			uint64		caps = mw_block_range(&blk, 'A', 'Z');

			/* any run of eight, across the border too */
			if (caps & 0x0101010101010101)
			{
				unsigned __int128 v = ((unsigned __int128) caps << 7) | (caps_before >> 57);

				v &= v >> 1;
				v &= v >> 2;
				v &= v >> 4;
				while (v)
				{
					int			k = (uint64) v ? pg_rightmost_one_pos64((uint64) v) : 64 + pg_rightmost_one_pos64((uint64) (v >> 64));

					at_caps(q, &done, at + k);
					v &= v - 1;
				}
			}
			caps_before = caps;
			/* words of two capitals, as AT is one */
			mask |= caps & (caps >> 1 | UINT64CONST(1) << (MW_BLOCK - 1)) & ~(caps << 1) & ~(caps >> 2);
		}
		while (mask)
		{
			int			i = at + pg_rightmost_one_pos64(mask);
			int			e = i;

			switch (s[i])
			{
				case '@':
					mw_scan_mail(q, &done, i);
					break;
				case '-':
					mw_scan_hyphen(q, &done, i);
					if (i >= done.key && i > 0 && is_alnum(s[i - 1]) && may_be_key(s, len, i))
						at_key(q, &done, i);
					break;
				case ':':
					if (i + 2 < len && s[i + 1] == '/' && s[i + 2] == '/')
						mw_scan_scheme(q, i);
					else if ((i > 0 && is_hex(s[i - 1])) || (i + 1 < len && s[i + 1] == ':'))
						mw_scan_colon(q, &done, i);
					mw_scan_named(q, i);
					break;
				case '=':
					mw_scan_named(q, i);
					break;
				case '_':
					/* a key of a vendor may have no digit: glsa_, hf_ */
					if (i >= done.key && i > 0 && is_alnum(s[i - 1]) && may_be_key(s, len, i))
						at_key(q, &done, i);
					break;
				case '>':
					/* <password>hunter2</password> */
					if (i > 0 && is_alnum(s[i - 1]))
						mw_scan_named(q, i);
					break;
				case '<':
					{
						int			type_len,
									number;

						/* a placeholder is nobody's */
						e = i + mw_placeholder_read(s + i, len - i, &type_len, &number);
						done.run = Max(done.run, e);
						break;
					}
				case ';':
					q->escapes |= may_be_entity(s, i);
					break;
				case '(':
				case '[':
					if (may_be_spelled(s, len, i))
						mw_scan_spelled(q, &done, i);
					break;
				case 'A':
					if (i > 1 && i + 4 < len && s[i + 1] == 'T' && s[i + 2] == ' ' && s[i - 1] == ' ' && is_alnum(s[i - 2]) && is_alnum(s[i + 3]))
						mw_scan_spelled(q, &done, i);
					break;
				case 's':
					mw_scan_said(q, i - 1);
					break;
				case '?':
					break;
				default:
					if (!is_digit(s[i]))
						break;
					e = i < done.run ? done.run : at_digit(q, &done, i);
			}
			/* on behind the stop, or behind the run that it is a part of */
			if (e <= i)
				mask &= mask - 1;
			else
				mask = e >= at + MW_BLOCK ? 0 : mask & ~UINT64CONST(0) << (e - at);
		}
	}
	return high != 0 || q->escapes;
}
