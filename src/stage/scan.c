/*
 * scan.c - one pass over a text that leaves patterns little to do.
 *
 * Prose holds few digits and fewer : = @: a look at 64 bytes at a time finds
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

#include "stage/detect.h"
#include "util/scan.h"

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)
#define is_alnum(c) (is_digit(c) || is_letter(c))
#define is_high(c) ((unsigned char) (c) >= 0x80)

/* how far a mail address, a key or a name reaches back from where the scan stopped */
#define MAIL_BACK	90
#define MAIL_AHEAD	260
#define KEY_BACK	80
#define NAME_BACK	32
#define HEX_BACK	45
/* digits of a chain are counted up to here */
#define CHAIN_MAX	24

/* Places that were seen to, so that no stop repeats the work of another */
typedef struct Done
{
	int			run;			/* runs before here */
	int			mail;
	int			key;
	int			hex;
	int			dash;
	int			caps;
	int			pem;
} Done;

static inline MwRecSet
set_and(MwRecSet a, const MwRecSet *b)
{
	for (int i = 0; i < MW_SET_WORDS; i++)
		a.w[i] &= b->w[i];
	return a;
}

/* Try all recognisers of a set at one place. */
static void
try_set(MwSearch *q, const MwRecSet *set, int at)
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

/* What follows a number: its kind (a bit of MW_SEP_...), and its bytes */
static inline int
separator(const char *s, int len, int at, int *n)
{
	unsigned char c;

	*n = 1;
	if (at >= len)
		return MW_SEP_NONE;
	c = (unsigned char) s[at];
	switch (c)
	{
		case ' ':
			return MW_SEP_SPACE;
		case '-':
			return MW_SEP_DASH;
		case '.':
			return MW_SEP_DOT;
		case '/':
			return MW_SEP_SLASH;
		case '(':
		case ')':
			return MW_SEP_PAREN;
		case 0xc2:				/* no-break space */
			*n = 2;
			return at + 1 < len && (unsigned char) s[at + 1] == 0xa0 ? MW_SEP_SPACE : MW_SEP_NONE;
		case 0xe2:				/* hyphens and dashes, narrow no-break space */
			*n = 3;
			if (at + 2 < len && (unsigned char) s[at + 1] == 0x80)
			{
				if ((unsigned char) s[at + 2] >= 0x90 && (unsigned char) s[at + 2] <= 0x95)
					return MW_SEP_DASH;
				if ((unsigned char) s[at + 2] == 0xaf)
					return MW_SEP_SPACE;
			}
			return MW_SEP_NONE;
		default:
			return MW_SEP_NONE;
	}
}

static inline int
prev_class(const char *s, int at)
{
	if (at == 0)
		return 0;
	switch (s[at - 1])
	{
		case '.':
			return 1;
		case '-':
			return 2;
		case '/':
			return 3;
		case ':':
			return 4;
		case '+':
			return 5;
		case ',':
			return 6;
		case '_':
			return 7;
		default:
			return 0;
	}
}

/* Digits from here on, over single separators, as far as anybody asks */
static int
chain_digits(const char *s, int len, int at)
{
	int			n = 0;
	int			gap = 0;

	for (; at < len && n < CHAIN_MAX; at++)
	{
		if (is_digit(s[at]))
		{
			n++;
			gap = 0;
		}
		else if (is_letter(s[at]) || ++gap > 3)
			break;
	}
	return n;
}

/* Where the word before a number begins, -1 for none */
static int
word_before(const char *s, int b)
{
	int			at = b;
	int			end;

	while (at > 0 && b - at < 2 && (s[at - 1] == ' ' || s[at - 1] == '.' || s[at - 1] == '-'))
		at--;
	end = at;
	while (at > 0 && end - at < 12 && is_letter(s[at - 1]))
		at--;
	return at < end && end < b ? at : -1;
}

/* A number, s[b..e) */
static void
at_number(MwSearch *q, int b, int e)
{
	const MwPlan *plan = q->plan;
	const char *s = q->s;
	MwRecSet	set;
	int			sep;
	int			sepn;
	int			two = 0;
	int			digits = -1;
	int			start = b;
	int			plus = -1;		/* where a + stands before it */

	sep = separator(s, q->len, e, &sepn);
	set = plan->number_len[Min(e - b, MW_LEN_LONG)];
	set = set_and(set, &plan->number_sep[pg_rightmost_one_pos32(sep)]);
	set = set_and(set, &plan->number_first[s[b] - '0']);
	set = set_and(set, &plan->number_prev[prev_class(s, b)]);
	if (sep != MW_SEP_NONE)
		while (e + sepn + two < q->len && two < MW_LEN_LONG && is_digit(s[e + sepn + two]))
			two++;
	set = set_and(set, &plan->number_two[two]);
	if (!mw_set_any_of(&set))
		return;

	/* +1, (+1), +(1 and (415 */
	if (start > 0 && s[start - 1] == '+')
		plus = --start;
	if (start > 0 && s[start - 1] == '(')
		start--;
	if (plus < 0 && start > 0 && s[start - 1] == '+')
		plus = --start;
	if (plus < 0)
		for (int i = 0; i < MW_SET_WORDS; i++)
			set.w[i] &= ~plan->needs_plus.w[i];
	mw_context_filter(q, &set, start, e);

	for (int w = 0; w < MW_SET_WORDS; w++)
	{
		uint64		bits = set.w[w];

		while (bits)
		{
			int			rec = w * 64 + pg_rightmost_one_pos64(bits);
			const MwPiiGate *g = &plan->recs[rec].gate;

			bits &= bits - 1;
			if (b < q->found->covered && plan->recs[rec].rec->priority <= q->found->covered_by)
				continue;		/* inside of what is known for something stronger */
			if (g->high && (e >= q->len || !is_high(s[e])))
				continue;
			if (g->min > 0)
			{
				if (digits < 0)
					digits = chain_digits(s, q->len, b);
				if (digits < g->min)
					continue;
			}
			if (g->before)
			{
				int			at = word_before(s, b);

				if (at >= 0)
					(void) mw_pii_try(q, rec, at);
			}
			else if (g->lead && start < b && mw_pii_try(q, rec, start))
				continue;
			else if (g->lead && plus > start && mw_pii_try(q, rec, plus))
				continue;
			else if (!g->plus)
				(void) mw_pii_try(q, rec, b);
		}
	}
}

/* Letters and digits, s[b..e) */
static void
at_word(MwSearch *q, int b, int e)
{
	const MwPlan *plan = q->plan;
	MwRecSet	set = plan->word_len[Min(e - b, MW_LEN_LONG)];
	int			sepn;

	set = set_and(set, &plan->word_first[is_letter(q->s[b]) ? 1 : 0]);
	set = set_and(set, &plan->number_prev[prev_class(q->s, b)]);
	set = set_and(set, &plan->number_sep[pg_rightmost_one_pos32(separator(q->s, q->len, e, &sepn))]);
	if (!mw_set_any_of(&set))
		return;
	mw_context_filter(q, &set, b, e);
	for (int w = 0; w < MW_SET_WORDS; w++)
	{
		uint64		bits = set.w[w];

		while (bits)
		{
			int			rec = w * 64 + pg_rightmost_one_pos64(bits);
			const MwPiiGate *g = &plan->recs[rec].gate;

			bits &= bits - 1;
			if (is_digit(q->s[b]) && !((g->digits >> (q->s[b] - '0')) & 1))
				continue;
			(void) mw_pii_try(q, rec, b);
		}
	}
}

static inline bool
is_key_char(char c)
{
	return is_alnum(c) || c == '_' || c == '-';
}

/* A key may be the run s[b..e) with what hangs on it by _ and - */
static void
at_key(MwSearch *q, Done *done, int b)
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

/* The run of letters and digits around the digit at i; returns its end */
static int
at_digit(MwSearch *q, Done *done, int i)
{
	const char *s = q->s;
	int			b = i;
	int			e = i + 1;
	bool		letters;

	while (b > done->run && is_letter(s[b - 1]))
		b--;
	while (e < q->len && is_digit(s[e]))
		e++;
	letters = b < i || (e < q->len && is_letter(s[e]));
	while (e < q->len && is_alnum(s[e]))
		e++;
	done->run = e;

	if (letters)
		at_word(q, b, e);
	else
		at_number(q, b, e);
	if (b >= done->key && (e - b >= 10 || (b > 0 && (s[b - 1] == '_' || s[b - 1] == '-')) ||
						   (e < q->len && s[e] == '_')))
		at_key(q, done, b);
	return e;
}

/* An @ */
static void
at_mail(MwSearch *q, Done *done, int i)
{
	const char *s = q->s;
	int			from = i;
	int			to = i + 1;
	int			stop;
	bool		dot = false;
	bool		high = false;

	/* cheap reasons why it is none: nothing before it, no domain behind it */
	if (i == 0 || i + 3 >= q->len || (unsigned char) s[i - 1] <= ' ' || s[i - 1] == '@')
		return;
	if (!is_alnum(s[i + 1]) && !is_high(s[i + 1]) && s[i + 1] != '[')
		return;
	stop = Min(q->len, i + MAIL_AHEAD);
	while (to < stop && (is_alnum(s[to]) || s[to] == '-' || s[to] == '.' || s[to] == '[' || s[to] == ']' || s[to] == ':' ||
						 is_high(s[to])))
	{
		dot |= s[to] == '.';
		high |= is_high(s[to]);
		to++;
	}
	if (!dot && !high && s[i + 1] != '[')
		return;
	stop = Max(done->mail, i - MAIL_BACK);
	if (s[i - 1] == '"')
	{
		from = i - 1;
		/* to the quote that opens it: one behind a backslash is part of the name */
		while (from > stop && s[from - 1] != '\n' && (s[from - 1] != '"' || (from - 1 > stop && s[from - 2] == '\\')))
			from--;
		from = Max(stop, from - 1);
	}
	else
		while (from > stop && (unsigned char) s[from - 1] > ' ')
			high |= is_high(s[--from]);
	while (from < i && (s[from] & 0xc0) == 0x80)
		from++;
	/* what the pattern looks at behind the address */
	to = Min(q->len, to + 70);
	while (to < q->len && (s[to] & 0xc0) == 0x80)
		to++;

	for (int w = 0; w < MW_SET_WORDS; w++)
	{
		uint64		bits = q->plan->of_kind[MW_PII_GATE_AT].w[w];

		while (bits)
		{
			int			rec = w * 64 + pg_rightmost_one_pos64(bits);

			bits &= bits - 1;
			if (!q->plan->recs[rec].gate.high || high)
			{
				int			before = q->found->n;

				mw_pii_search(q, rec, from, i - 1, to);
				if (q->found->n > before)
					done->mail = Max(done->mail, q->found->spans[q->found->n - 1].to);
			}
		}
	}
	done->mail = Max(done->mail, i + 1);
}

static inline bool
is_hex(char c)
{
	return is_digit(c) || (unsigned char) ((c | 0x20) - 'a') < 6;
}

/* A colon between hexadecimal digits, or two of them */
static void
at_colon(MwSearch *q, Done *done, int i)
{
	const char *s = q->s;
	int			b = i;
	int			e = i;
	int			colons = 0;
	int			stop = Max(done->hex, i - HEX_BACK);

	if (i < done->hex)
		return;
	while (b > stop && (is_hex(s[b - 1]) || s[b - 1] == ':'))
		b--;
	/* a label stands before it: ip:2001:db8::1 */
	if (b > 0 && is_letter(s[b - 1]) && !is_hex(s[b - 1]))
		while (b < i && s[b] != ':')
			b++;
	while (e < q->len && (is_hex(s[e]) || s[e] == ':'))
		colons += s[e++] == ':';
	done->hex = e;
	for (int k = b; k < i; k++)
		colons += s[k] == ':';
	if (s[b] == ':' && b + 1 < e && s[b + 1] != ':')
	{
		b++;
		colons--;
	}
	if (colons >= 2 && e - b >= 3)
		try_set(q, &q->plan->of_kind[MW_PII_GATE_COLON], b);
}

/* A hyphen: pairs of hexadecimal digits, or the head of a key block */
static void
at_hyphen(MwSearch *q, Done *done, int i)
{
	const char *s = q->s;

	if (i + 4 < q->len && s[i + 1] == '-')
	{
		if (i >= done->pem && s[i + 2] == '-' && s[i + 3] == '-' && s[i + 4] == '-')
		{
			int			before = q->found->n;

			try_set(q, &q->plan->of_kind[MW_PII_GATE_PEM], i);
			done->pem = q->found->n > before ? q->found->spans[q->found->n - 1].to : i + 5;
		}
		return;
	}
	if (i >= 2 && i + 15 <= q->len && s[i + 3] == '-' && s[i + 6] == '-' && s[i + 9] == '-' && s[i + 12] == '-' &&
		i >= done->dash)
	{
		done->dash = i + 15;
		try_set(q, &q->plan->of_kind[MW_PII_GATE_DASH], i - 2);
	}
}

static bool
begins(const char *s, int len, const char *word)
{
	int			n = strlen(word);

	if (len < n)
		return false;
	while (n-- > 0)
		if ((s[n] | 0x20) != word[n])
			return false;
	return true;
}

/* Whether a name, s[0..len), is one for a secret */
static bool
names_secret(const char *s, int len)
{
	for (; len >= 3; s++, len--)
		switch (*s | 0x20)
		{
			case 'p':
				if (begins(s, len, "pass") || begins(s, len, "pwd") || begins(s, len, "pin") || begins(s, len, "private"))
					return true;
				break;
			case 's':
				if (begins(s, len, "secret") || begins(s, len, "senha"))
					return true;
				break;
			case 't':
				if (begins(s, len, "token"))
					return true;
				break;
			case 'k':
				if (begins(s, len, "key") || begins(s, len, "kennwort"))
					return true;
				break;
			case 'c':
				if (begins(s, len, "cred") || begins(s, len, "contrase") || begins(s, len, "clave"))
					return true;
				break;
			case 'a':
				if (begins(s, len, "auth"))
					return true;
				break;
			case 'm':
				if (begins(s, len, "mot de passe"))
					return true;
				break;
			default:
				break;
		}
	return false;
}

/* = or : behind a name */
static void
at_named(MwSearch *q, int i)
{
	const char *s = q->s;
	int			e = i;
	int			b;
	int			longest = 0;
	int			stop = Max(0, i - NAME_BACK - 4);

	/* "name" : and name) = */
	while (e > stop && e > i - 4 && !is_alnum(s[e - 1]))
		e--;
	b = e;
	while (b > stop && (is_alnum(s[b - 1]) || s[b - 1] == '_' || s[b - 1] == '-' || s[b - 1] == '.' || is_high(s[b - 1])))
		b--;
	while (b < e && (s[b] & 0xc0) == 0x80)
		b++;
	if (e - b < 3 || !names_secret(s + b, e - b))
		return;

	/* the longest run of what keys are made of, behind it */
	for (int k = i + 1, n = 0; k < q->len && k < i + 40 && longest < 32; k++)
	{
		n = is_key_char(s[k]) || s[k] == '+' || s[k] == '/' || s[k] == '.' || s[k] == '~' ? n + 1 : 0;
		longest = Max(longest, n);
	}
	for (int w = 0; w < MW_SET_WORDS; w++)
	{
		uint64		bits = q->plan->of_kind[MW_PII_GATE_NAMED].w[w];

		while (bits)
		{
			int			rec = w * 64 + pg_rightmost_one_pos64(bits);
			const MwPiiGate *g = &q->plan->recs[rec].gate;

			bits &= bits - 1;
			if (g->min > longest || (g->start && strncmp(s + b, g->start, Min(strlen(g->start), (size_t) (e - b))) != 0))
				continue;
			(void) mw_pii_try(q, rec, b);
		}
	}
}

static void
at_scheme(MwSearch *q, int i)
{
	int			b = i;
	int			stop = Max(0, i - 20);

	while (b > stop && (is_alnum(q->s[b - 1]) || q->s[b - 1] == '+' || q->s[b - 1] == '.' || q->s[b - 1] == '-'))
		b--;
	while (b < i && !is_letter(q->s[b]))
		b++;
	if (i - b >= 2)
		try_set(q, &q->plan->of_kind[MW_PII_GATE_SCHEME], b);
}

/* A run of capital letters that ends at or behind i */
static void
at_caps(MwSearch *q, Done *done, int i)
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
		try_set(q, &q->plan->of_kind[MW_PII_GATE_CAPS], b);
}

/* mw_pii_scan_named looks at one name. */
void
mw_pii_scan_named(MwSearch *q, int at)
{
	q->words_at = -1;
	at_named(q, at);
}

/* mw_pii_scan finds everything that has a gate. */
bool
mw_pii_scan(MwSearch *q)
{
	static const MwByteRange stops[] = {{'0', '@'}, {'-', '-'}};
	const char *s = q->s;
	int			len = q->len;
	Done		done = {0};
	uint64		caps_before = 0;
	uint64		high = 0;
	int			at;

	for (at = 0; at < len; at += MW_BLOCK)
	{
		MwBlock		blk;
		uint64		mask;

		if ((at & 0xffff) == 0)
			CHECK_FOR_INTERRUPTS();
		mw_block_load(&blk, s + at, len - at);
		mask = mw_block_ranges(&blk, stops, lengthof(stops));
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
		}
		while (mask)
		{
			int			i = at + pg_rightmost_one_pos64(mask);

			switch (s[i])
			{
				case '@':
					at_mail(q, &done, i);
					break;
				case '-':
					at_hyphen(q, &done, i);
					break;
				case ':':
					if (i + 2 < len && s[i + 1] == '/' && s[i + 2] == '/')
						at_scheme(q, i);
					else if ((i > 0 && is_hex(s[i - 1])) || (i + 1 < len && s[i + 1] == ':'))
						at_colon(q, &done, i);
					at_named(q, i);
					break;
				case '=':
					at_named(q, i);
					break;
				case ';':
				case '<':
				case '>':
				case '?':
					break;
				default:
					{
						int			e = i < done.run ? done.run : at_digit(q, &done, i);

						/* on behind the run */
						if (e >= at + MW_BLOCK)
							mask = 0;
						else
							mask &= ~UINT64CONST(0) << (e - at);
						continue;
					}
			}
			mask &= mask - 1;
		}
	}
	return high != 0;
}
