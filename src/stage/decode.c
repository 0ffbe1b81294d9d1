/*
 * decode.c - readings of a text with one hiding trick undone.
 *
 * Only a hint (hints.c) makes a view, and every view is linear in the text.  Encoded
 * pieces (base64, hexadecimal, character codes) are views of their own that
 * point back to the piece as a whole.  What is decoded is judged like any other
 * text, to a depth the judge limits.
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

static inline int
origin(const MwView *v, int i)
{
	return v->map ? v->map[i] : i;
}

static int
hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void
view_alloc(const MwView *v, char **s, int **map)
{
	*s = palloc_extended(v->len + 1, MCXT_ALLOC_HUGE);
	*map = palloc_extended(sizeof(int) * ((Size) v->len + 1), MCXT_ALLOC_HUGE);
}

static void
view_end(const MwView *v, MwView *out, char *s, int *map, int n)
{
	s[n] = '\0';
	map[n] = origin(v, v->len);
	out->s = s;
	out->len = n;
	out->map = map;
}

/*
 * mw_view_joined takes the blanks, dots, dashes and underscores out of runs of
 * five single letters and more; a wider gap inside such a run stays one blank.
 */
bool
mw_view_joined(const MwView *v, MwView *out)
{
	char	   *s;
	int		   *map;
	int			n = 0;
	int			i = 0;
	bool		any = false;

	view_alloc(v, &s, &map);
	while (i < v->len)
	{
		int			k = i;
		int			letters = 0;

		/* how far do single letters go from here */
		if (is_letter(v->s[i]) && (i == 0 || !is_letter(v->s[i - 1])))
		{
			int			j = i;

			while (j < v->len && is_letter(v->s[j]) && (j + 1 >= v->len || !is_letter(v->s[j + 1])))
			{
				int			gap = j + 1;

				letters++;
				k = j + 1;
				while (gap < v->len && gap <= j + 6 &&
					   (v->s[gap] == ' ' || v->s[gap] == '.' || v->s[gap] == '-' || v->s[gap] == '_' ||
						v->s[gap] == '*' || v->s[gap] == '|' || v->s[gap] == '/' || v->s[gap] == ',' || v->s[gap] == '\n'))
					gap++;
				if (gap == j + 1)
					break;
				j = gap;
			}
		}
		if (letters < 5)
		{
			k = Max(k, i + 1);
			while (i < k)
			{
				map[n] = origin(v, i);
				s[n++] = v->s[i++];
			}
			continue;
		}
		any = true;
		while (i < k)
		{
			if (is_letter(v->s[i]))
			{
				map[n] = origin(v, i);
				s[n++] = v->s[i++];
			}
			else
			{
				int			gap = i;

				while (gap < k && !is_letter(v->s[gap]))
					gap++;
				/* one separator joins; more, or an underscore among dashes, parts words */
				if (gap - i > 1)
				{
					map[n] = origin(v, i);
					s[n++] = ' ';
				}
				i = gap;
			}
		}
	}
	view_end(v, out, s, map, n);
	return any;
}

/* mw_view_parted puts a blank before each capital letter behind a small one. */
bool
mw_view_parted(const MwView *v, MwView *out)
{
	Size		room = (Size) v->len * 3 / 2 + 2;	/* a hump takes two letters */
	char	   *s = palloc_extended(room, MCXT_ALLOC_HUGE);
	int		   *map = palloc_extended(sizeof(int) * room, MCXT_ALLOC_HUGE);
	int			n = 0;
	int			i;

	for (i = 0; i < v->len; i++)
	{
		if (i > 0 && v->s[i] >= 'A' && v->s[i] <= 'Z' && v->s[i - 1] >= 'a' && v->s[i - 1] <= 'z')
		{
			map[n] = origin(v, i);
			s[n++] = ' ';
		}
		map[n] = origin(v, i);
		s[n++] = v->s[i];
	}
	view_end(v, out, s, map, n);
	return true;
}

/* mw_view_leet reads digits and marks as the letters they resemble, in words that have letters too. */
bool
mw_view_leet(const MwView *v, MwView *out)
{
	char	   *s;
	int		   *map;
	int			i = 0;
	bool		any = false;

	view_alloc(v, &s, &map);
	while (i < v->len)
	{
		int			k = i;
		int			letters = 0;
		int			marks = 0;

		while (k < v->len && (is_letter(v->s[k]) || is_digit(v->s[k]) || v->s[k] == '$' || v->s[k] == '@' || v->s[k] == '!'))
		{
			if (is_letter(v->s[k]))
				letters++;
			else
				marks++;
			k++;
		}
		if (k == i)
		{
			map[i] = origin(v, i);
			s[i] = v->s[i];
			i++;
			continue;
		}
		for (; i < k; i++)
		{
			char		c = v->s[i];

			if (marks > 0 && (letters > 0 || marks <= 3))
				switch (c)
				{
					case '0':
						c = 'o';
						break;
					case '1':
					case '!':
						c = 'i';
						break;
					case '3':
						c = 'e';
						break;
					case '4':
					case '@':
						c = 'a';
						break;
					case '5':
					case '$':
						c = 's';
						break;
					case '7':
						c = 't';
						break;
				}
			if (c != v->s[i])
				any = true;
			s[i] = c;
			map[i] = origin(v, i);
		}
	}
	view_end(v, out, s, map, v->len);
	return any;
}

/* Entities that can spell a tag or a word */
static int
entity(const char *s, int len, int *used)
{
	static const struct
	{
		const char *name;
		char		c;
	}			named[] = {
		{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", ' '},
		{"&sol;", '/'}, {"&lowbar;", '_'}, {"&colon;", ':'}
	};
	size_t		i;

	for (i = 0; i < lengthof(named); i++)
	{
		int			n = strlen(named[i].name);

		if (len >= n && pg_strncasecmp(s, named[i].name, n) == 0)
		{
			*used = n;
			return named[i].c;
		}
	}
	if (len > 3 && s[1] == '#')
	{
		bool		hex = (s[2] | 0x20) == 'x';
		int			k = hex ? 3 : 2;
		int			v = 0;
		int			digits = 0;

		while (k < len && digits < 7)
		{
			int			d = hex ? hex_value(s[k]) : is_digit(s[k]) ? s[k] - '0' : -1;

			if (d < 0)
				break;
			v = v * (hex ? 16 : 10) + d;
			digits++;
			k++;
		}
		if (digits > 0 && k < len && s[k] == ';' && v >= 0x20 && v < 0x7f)
		{
			*used = k + 1;
			return v;
		}
	}
	return -1;
}

/* mw_view_unescaped undoes percent encoding and entities, twice encoded ones too. */
bool
mw_view_unescaped(const MwView *v, MwView *out)
{
	MwView		in = *v;
	bool		any = false;
	int			round;

	for (round = 0; round < 2; round++)
	{
		char	   *s;
		int		   *map;
		int			n = 0;
		int			i = 0;
		bool		changed = false;

		view_alloc(&in, &s, &map);
		while (i < in.len)
		{
			int			c = -1;
			int			used = 1;

			if (in.s[i] == '%' && i + 2 < in.len)
			{
				int			hi = hex_value(in.s[i + 1]);
				int			lo = hex_value(in.s[i + 2]);

				/* only what is ASCII: the rest could break a character in two */
				if (hi >= 0 && lo >= 0 && hi < 8 && (hi > 0 || lo == 9 || lo == 10))
				{
					c = hi * 16 + lo;
					used = 3;
				}
			}
			else if (in.s[i] == '&')
				c = entity(in.s + i, in.len - i, &used);
			map[n] = origin(&in, i);
			if (c >= 0)
				changed = true;
			s[n++] = c >= 0 ? (char) c : in.s[i];
			i += c >= 0 ? used : 1;
		}
		if (!changed)
			break;
		view_end(&in, out, s, map, n);
		in = *out;
		any = true;
	}
	return any;
}

/* mw_view_rot13 turns ASCII letters by thirteen. */
bool
mw_view_rot13(const MwView *v, MwView *out)
{
	char	   *s;
	int		   *map;
	int			i;

	view_alloc(v, &s, &map);
	for (i = 0; i < v->len; i++)
	{
		char		c = v->s[i];

		if (is_letter(c))
			c = (c & 0x20) | ('A' + ((c & ~0x20) - 'A' + 13) % 26);
		s[i] = c;
		map[i] = origin(v, i);
	}
	view_end(v, out, s, map, v->len);
	return true;
}

/* mw_view_reversed reads from the end, character by character. */
bool
mw_view_reversed(const MwView *v, MwView *out)
{
	char	   *s;
	int		   *map;
	int			i = v->len;
	int			n = 0;

	view_alloc(v, &s, &map);
	while (i > 0)
	{
		int			to = i--;

		while (i > 0 && ((unsigned char) v->s[i] & 0xc0) == 0x80)
			i--;
		memcpy(s + n, v->s + i, to - i);
		while (to-- > i)
			map[n++] = origin(v, i);
	}
	view_end(v, out, s, map, n);
	return true;
}

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
		map[i] = origin(v, from);
	map[n] = origin(v, to);
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
			if (hex && hex_value(v->s[i]) < 0)
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

			while (k + 1 < v->len && hex_value(v->s[k]) >= 0 && hex_value(v->s[k + 1]) >= 0 &&
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
					buf[m++] = (char) (hex_value(v->s[j]) * 16 + hex_value(v->s[j + 1]));
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
				buf[m] = (char) (hex_value(v->s[from + 2 * m]) * 16 + hex_value(v->s[from + 2 * m + 1]));
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
			int			m = 0;
			int			k;

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
