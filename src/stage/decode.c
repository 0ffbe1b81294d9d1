/*
 * decode.c - readings of a text with one hiding trick undone.
 *
 * Only a hint (hints.c) makes a view, and every view is linear in the text.  What
 * was encoded as a whole is pieces.c's.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "stage/normalise.h"

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)

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
	map[n] = mw_view_origin(v, v->len);
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
				map[n] = mw_view_origin(v, i);
				s[n++] = v->s[i++];
			}
			continue;
		}
		any = true;
		while (i < k)
		{
			if (is_letter(v->s[i]))
			{
				map[n] = mw_view_origin(v, i);
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
					map[n] = mw_view_origin(v, i);
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
			map[n] = mw_view_origin(v, i);
			s[n++] = ' ';
		}
		map[n] = mw_view_origin(v, i);
		s[n++] = v->s[i];
	}
	view_end(v, out, s, map, n);
	return true;
}

/* The letter that a digit or mark resembles, or the character itself */
static char
leet_letter(char c)
{
	switch (c)
	{
		case '0':
			return 'o';
		case '1':
		case '!':
			return 'i';
		case '|':
			return 'l';
		case '3':
			return 'e';
		case '4':
		case '@':
			return 'a';
		case '5':
		case '$':
			return 's';
		case '7':
		case '+':
			return 't';
		case '8':
			return 'b';
		case '9':
			return 'g';
		default:
			return c;
	}
}

/* Is the 1 at s[i] rather an l: all, rule, filter? */
static bool
is_ell(const MwView *v, int i)
{
	char		before = i > 0 ? v->s[i - 1] : ' ';

	return before == '1' || (i + 1 < v->len && v->s[i + 1] == '1') || strchr("aeiouAEIOU430@", before) != NULL;
}

/* mw_view_leet reads digits and marks as the letters they resemble, in words that have letters too. */
int
mw_view_leet(const MwView *v, bool ell, MwView *out)
{
	char	   *s;
	int		   *map;
	int			n = 0;
	int			i = 0;
	int			read = 0;

	view_alloc(v, &s, &map);
	while (i < v->len)
	{
		int			k = i;
		int			letters = 0;
		int			marks = 0;

		while (k < v->len)
		{
			if (is_letter(v->s[k]))
				letters++;
			else if (leet_letter(v->s[k]) != v->s[k] || is_digit(v->s[k]))
				marks++;
			else
				break;
			k++;
		}
		if (k == i)
		{
			map[n] = mw_view_origin(v, i);
			s[n++] = v->s[i++];
			continue;
		}
		while (i < k)
		{
			char		c = v->s[i];

			/* a word, or so few marks that they stand for one */
			if (marks > 0 && (letters > 0 || (marks <= 3 && c != '|' && c != '+')))
				c = ell && c == '1' && is_ell(v, i) ? 'l' : leet_letter(c);
			if (c != v->s[i])
				read++;
			map[n] = mw_view_origin(v, i++);
			s[n++] = c;
		}
	}
	view_end(v, out, s, map, n);
	return read;
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
			int			d = hex ? mw_hex_value(s[k]) : is_digit(s[k]) ? s[k] - '0' : -1;

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

/* The hexadecimal number of least..most digits at s; -1 where there is none, or no character has it */
static int
hex_number(const char *s, int len, int least, int most, int *digits)
{
	uint32		v = 0;

	for (*digits = 0; *digits < Min(len, most); (*digits)++)
	{
		int			d = mw_hex_value(s[*digits]);

		if (d < 0)
			break;
		v = v * 16 + d;
	}
	return *digits >= least && v <= 0x10ffff ? (int) v : -1;
}

/* \u0069, \u{69}, \U00000069, \x69: the character, or -1; a pair of surrogates is one */
static int
backslash(const char *s, int len, int *used)
{
	int			v = -1;
	int			low;
	int			n = 0;

	if (len < 4 || s[0] != '\\')
		return -1;
	if (s[1] == 'x' || s[1] == 'X')
		v = hex_number(s + 2, len - 2, 2, 2, &n);
	else if (s[1] == 'U' && (v = hex_number(s + 2, len - 2, 8, 8, &n)) >= 0)
		;
	else if ((s[1] == 'u' || s[1] == 'U') && s[2] == '{')
	{
		v = hex_number(s + 3, len - 3, 1, 6, &n);
		if (n + 3 >= len || s[n + 3] != '}')
			return -1;
		n += 2;
	}
	else if (s[1] == 'u' || s[1] == 'U')
		v = hex_number(s + 2, len - 2, 4, 4, &n);
	*used = n + 2;
	if (v >= 0xd800 && v < 0xdc00 && *used == 6 && len >= 12 && s[6] == '\\' && (s[7] | 0x20) == 'u' &&
		(low = hex_number(s + 8, len - 8, 4, 4, &n)) >= 0xdc00 && low < 0xe000)
	{
		v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
		*used = 12;
	}
	return (v >= 0x20 || v == '\n' || v == '\t') && v <= 0x10ffff && (v < 0xd800 || v >= 0xe000) ? v : -1;
}

/* mw_view_unescaped undoes percent encoding, entities and backslashes, twice encoded ones too. */
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
				int			hi = mw_hex_value(in.s[i + 1]);
				int			lo = mw_hex_value(in.s[i + 2]);

				/* only what is ASCII: the rest could break a character in two */
				if (hi >= 0 && lo >= 0 && hi < 8 && (hi > 0 || lo == 9 || lo == 10))
				{
					c = hi * 16 + lo;
					used = 3;
				}
			}
			else if (in.s[i] == '&')
				c = entity(in.s + i, in.len - i, &used);
			else if (in.s[i] == '\\')
				c = backslash(in.s + i, in.len - i, &used);
			if (c >= 0x80)
			{
				/* as the view would have it: folded, or nothing where it is not to be seen; never longer than what spelled it */
				uint32		folded = mw_fold_char(c);
				unsigned char utf8[4];
				int			k = 0;

				if (folded != 0)
				{
					unicode_to_utf8(folded, utf8);
					for (; k < pg_utf_mblen(utf8); k++)
					{
						map[n] = mw_view_origin(&in, i);
						s[n++] = (char) utf8[k];
					}
				}
				changed = true;
				i += used;
				continue;
			}
			map[n] = mw_view_origin(&in, i);
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
		map[i] = mw_view_origin(v, i);
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
			map[n++] = mw_view_origin(v, i);
	}
	view_end(v, out, s, map, n);
	return true;
}
