/*
 * pieces.c - pieces of a text that were encoded as a whole.
 *
 * Base64, base32, hexadecimal and character codes become views of their own, which
 * point back to the piece as a whole.  A piece is decoded once, by the first reading
 * that makes a text of it; what comes out is judged like any other text, to a
 * depth and a number of pieces that the judge limits.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "stage/normalise.h"
#include "util/scan.h"

/* of what is decoded in one piece; the rest of a file in base64 is no sentence */
#define MW_PIECE_MAX	65536

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)
#define is_b64(c) (is_digit(c) || is_letter(c) || (c) == '+' || (c) == '/' || (c) == '-' || (c) == '_')

/* Whether decoded bytes are something that could be read */
static bool
is_text(const char *s, int n)
{
	int			letters = 0;
	int			blanks = 0;
	int			i;

	if (n < 8 || pg_encoding_verifymbstr(PG_UTF8, s, n) != n)
		return false;
	for (i = 0; i < n; i++)
	{
		if ((unsigned char) s[i] < 0x20 && s[i] != '\n' && s[i] != '\r' && s[i] != '\t')
			return false;
		if (is_letter(s[i]) || (unsigned char) s[i] >= 0x80)
			letters++;
		else if (s[i] == ' ' || s[i] == '_' || s[i] == '\n')
			blanks++;
	}
	/* prose has blanks; a piece that is encoded once more has none but is long */
	return letters * 2 > n && (blanks > 0 || n >= MW_PIECE_MIN);
}

static bool
piece(const MwView *v, int from, int to, char *buf, int n, MwView *out)
{
	int		   *map;
	int			i;

	if (!is_text(buf, n))
		return false;
	map = palloc(sizeof(int) * (n + 1));
	for (i = 0; i < n; i++)
		map[i] = mw_view_origin(v, from);
	map[n] = mw_view_origin(v, to);
	buf[n] = '\0';
	out->s = buf;
	out->len = n;
	out->map = map;
	return true;
}

static int
b64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (is_digit(c))
		return c - '0' + 52;
	return c == '+' || c == '-' ? 62 : 63;
}

/* The bytes of base32 (A to Z or a to z, 2 to 7); their number, 0 where it is none */
static int
from_base32(const char *s, int n, char *buf)
{
	uint32		bits = 0;
	int			have = 0;
	int			m = 0;
	char		small = 0;
	char		capital = 0;

	for (int i = 0; i < n; i++)
	{
		char		c = s[i];
		int			v;

		if (is_letter(c))
		{
			small |= c & 0x20;
			capital |= ~c & 0x20;
			v = (c | 0x20) - 'a';
		}
		else if (c >= '2' && c <= '7')
			v = c - '2' + 26;
		else
			return 0;
		if (small && capital)
			return 0;
		bits = (bits << 5) | v;
		have += 5;
		if (have >= 8)
		{
			have -= 8;
			buf[m++] = (char) (bits >> have);
		}
	}
	return m;
}

/* Numbers of one to three digits parted by blanks or commas, as character codes */
static bool
codes(const MwView *v, int *at, int end_of_run, MwView *out)
{
	int			i = *at;
	char	   *buf = NULL;
	int			n = 0;
	int			last = i;

	while (i < v->len && is_digit(v->s[i]))
	{
		int			value = 0;
		int			digits = 0;

		while (i < v->len && is_digit(v->s[i]) && digits < 4)
		{
			value = value * 10 + (v->s[i++] - '0');
			digits++;
		}
		if (value < 32 || value > 126 || digits > 3)
			break;
		if (buf == NULL)
			buf = palloc(MW_PIECE_MAX + 1);
		if (n == MW_PIECE_MAX)
			break;
		buf[n++] = (char) value;
		last = i;
		while (i < v->len && i < last + 3 && (v->s[i] == ' ' || v->s[i] == ',' || v->s[i] == ';'))
			i++;
		if (i == last)
			break;
	}
	if (n >= 8)
	{
		int			from = *at;

		*at = last;
		if (piece(v, from, last, buf, n, out))
			return true;
	}
	if (buf)
		pfree(buf);
	return false;
}

/*
 * The next run of characters of base64 from s[i] on that could be worth a look:
 * sixteen and more, up to three that begin with a digit, or two of hexadecimal.
 * The rest is nearly all of an honest text.
 */
static int
next_run(const MwView *v, int i)
{
	int			at;

	/* runs that begin in the first 48 of 64 bytes show enough of themselves */
	for (at = i; at < v->len; at += MW_BLOCK - MW_PIECE_MIN)
	{
		MwBlock		blk;
		uint64		letter,
					digit,
					hex,
					run,
					begins,
					x;

		mw_block_load(&blk, v->s + at, v->len - at);
		letter = mw_block_letters(&blk);
		digit = mw_block_range(&blk, '0', '9');
		run = letter | digit | mw_block_either(&blk, '+', '/') | mw_block_either(&blk, '-', '_');
		begins = run & ~(run << 1);
		if (at > i && is_b64(v->s[at - 1]))
			begins &= ~UINT64CONST(1);
		begins &= mw_block_valid(MW_BLOCK - MW_PIECE_MIN);
		x = run;
		x &= x >> 1;
		x &= x >> 2;
		x &= x >> 4;
		x &= x >> 8;
		x |= digit & ~((run >> 1) & (run >> 2) & (run >> 3));
		if (begins & (run >> 1) & ~(run >> 2))
		{
			hex = digit | mw_block_range(&blk, 'A', 'F') | mw_block_range(&blk, 'a', 'f');
			x |= hex & (hex >> 1) & ~(run >> 2);
		}
		x &= begins;
		if (x)
			return at + pg_rightmost_one_pos64(x);
	}
	return v->len;
}

/* mw_view_decoded finds the next piece that decodes to text. */
bool
mw_view_decoded(const MwView *v, int *at, MwView *out)
{
	int			i = *at;

	while (i < v->len)
	{
		int			from;
		int			n;
		bool		hex;
		int			pairs = 0;

		from = i = next_run(v, i);
		hex = true;
		while (i < v->len && is_b64(v->s[i]))
		{
			if (hex && mw_hex_value(v->s[i]) < 0)
				hex = false;
			i++;
		}
		n = i - from;
		if (n == 0)
			break;

		/* decimal codes, and hexadecimal ones parted by blanks */
		if (n <= 3 && is_digit(v->s[from]))
		{
			int			k = from;

			if (codes(v, &k, i, out))
			{
				*at = k;
				return true;
			}
			if (k > i)
				i = k;
		}
		if (n == 2 && hex)
		{
			int			k = from;

			while (k + 1 < v->len && mw_hex_value(v->s[k]) >= 0 && mw_hex_value(v->s[k + 1]) >= 0 &&
				   pairs < MW_PIECE_MAX)
			{
				pairs++;
				k += 2;
				if (k < v->len && (v->s[k] == ' ' || v->s[k] == ':'))
					k++;
				else
					break;
			}
			if (pairs >= 8)
			{
				char	   *buf = palloc(pairs + 1);
				int			m = 0;
				int			j = from;

				while (m < pairs)
				{
					buf[m++] = (char) (mw_hex_value(v->s[j]) * 16 + mw_hex_value(v->s[j + 1]));
					j += 3;
				}
				i = k;
				if (piece(v, from, k, buf, pairs, out))
				{
					*at = i;
					return true;
				}
				pfree(buf);
			}
		}
		if (n < MW_PIECE_MIN)
			continue;
		n = Min(n, MW_PIECE_MAX);
		if (hex && n % 2 == 0)
		{
			char	   *buf = palloc(n / 2 + 1);
			int			m;

			for (m = 0; m < n / 2; m++)
				buf[m] = (char) (mw_hex_value(v->s[from + 2 * m]) * 16 + mw_hex_value(v->s[from + 2 * m + 1]));
			if (piece(v, from, i, buf, n / 2, out))
			{
				*at = i;
				return true;
			}
			pfree(buf);
		}
		{
			char	   *buf = palloc(n + 4);
			uint32		bits = 0;
			int			have = 0;
			int			m = from_base32(v->s + from, n, buf);
			int			k;

			if (m > 0 && piece(v, from, i, buf, m, out))
			{
				*at = i;
				return true;
			}
			m = 0;
			for (k = 0; k < n; k++)
			{
				bits = (bits << 6) | b64_value(v->s[from + k]);
				have += 6;
				if (have >= 8)
				{
					have -= 8;
					buf[m++] = (char) (bits >> have);
				}
			}
			if (piece(v, from, i, buf, m, out))
			{
				*at = i;
				return true;
			}
			pfree(buf);
		}
	}
	*at = v->len;
	return false;
}
