/*
 * placeholder.c - placeholders in a text, as mw writes them and as models do.
 *
 * A model may change the case of <EMAIL_0>, drop or escape its brackets, or put
 * a blank into them.  Such spellings are found here, one after another; whether
 * one stands for a value is the map's to say, which holds only what this call or
 * session issued.  What is typed in a prompt in any of these spellings is taken
 * out of use before the first value is replaced (mw_pii_reserve), so there is no
 * doubt whose a placeholder is.
 *
 * Without brackets only capital letters count: email_0 is a name in somebody's
 * program.
 */
#include "postgres.h"

#include "stage/redact.h"

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_upper(c) ((unsigned char) ((c) - 'A') < 26)
#define is_word(c) (is_digit(c) || is_upper(c) || (c) == '_')
#define is_any(c) (is_word(c) || (unsigned char) ((c) - 'a') < 26)

/*
 * mw_placeholder_read reads a placeholder at s[0] = '<' as mw writes it: its
 * length, or 0.  *type_len is the length of the type's name behind the '<',
 * *number its number.
 */
int
mw_placeholder_read(const char *s, int len, int *type_len, int *number)
{
	int			i = 1;
	int			digits = 0;
	int			v = 0;

	if (len < 5 || !is_upper(s[1]))
		return 0;
	while (i < len && i <= MW_TYPE_MAX + MW_NUMBER_DIGITS + 2 && is_word(s[i]))
		i++;
	if (i >= len || s[i] != '>')
		return 0;
	/* back over the number */
	while (is_digit(s[i - 1 - digits]))
		digits++;
	if (digits == 0 || digits > MW_NUMBER_DIGITS || s[i - 1 - digits] != '_' || i - 2 - digits < 1)
		return 0;
	*type_len = i - 2 - digits;
	if (s[i - digits] == '0' && digits > 1)
		return 0;				/* <EMAIL_00> is not how mw writes it */
	while (digits > 0)
		v = v * 10 + (s[i - digits--] - '0');
	*number = v;
	return i + 1;
}

/* mw_loose_start begins the search of a text. */
void
mw_loose_start(MwLoose *l, const char *s, int len)
{
	l->s = s;
	l->len = len;
	l->at = 0;
	l->bracket = l->under = 0;
}

static int
next_of(const char *s, int len, int from, char c)
{
	const char *p = from < len ? memchr(s + from, c, len - from) : NULL;

	return p ? (int) (p - s) : len;
}

/* < EMAIL_0 >, <email 0>: at a bracket that begins none of ours */
static bool
bracketed(MwLoose *l, int at)
{
	const char *s = l->s;
	int			i = at + 1;
	int			n = 1;
	bool		blank = false;

	while (i < l->len && s[i] == ' ' && i < at + 3)
		i++;
	for (; i < l->len && n < MW_TYPE_MAX + MW_NUMBER_DIGITS + 2; i++)
	{
		char		c = s[i];

		if (c == ' ' || c == '-')
		{
			blank = true;
			continue;
		}
		if (!is_any(c))
			break;
		/* a blank or hyphen stands for the underline, or beside it */
		if (blank && c != '_' && l->strict[n - 1] != '_')
			l->strict[n++] = '_';
		blank = false;
		l->strict[n++] = c >= 'a' && c <= 'z' ? c - 32 : c;
	}
	if (i >= l->len || s[i] != '>')
		return false;
	l->strict[0] = '<';
	l->strict[n++] = '>';
	l->strict[n] = '\0';
	if (mw_placeholder_read(l->strict, n, &l->type_len, &l->number) != n)
		return false;
	l->from = at;
	l->to = i + 1;
	l->is_strict = false;
	return true;
}

static bool
same(const char *s, const char *word)
{
	for (; *word; s++, word++)
		if ((*s | 0x20) != (*word | 0x20))
			return false;
	return true;
}

/* EMAIL_0, &lt;EMAIL_0&gt;, \u003cEMAIL_0\u003e, %3CEMAIL_0%3E: at an underline before a digit */
static bool
bare(MwLoose *l, int under)
{
	static const char *const open[] = {"&lt;", "\\u003c", "%3C", "&#60;", "\\x3c"};
	static const char *const close[] = {"&gt;", "\\u003e", "%3E", "&#62;", "\\x3e"};
	const char *s = l->s;
	int			b = under;
	int			e = under + 1;
	int			n;
	int			escape = -1;

	while (b > l->at && under - b < MW_TYPE_MAX && is_word(s[b - 1]))
		b--;
	while (e < l->len && is_digit(s[e]) && e - under <= MW_NUMBER_DIGITS + 1)
		e++;
	for (int i = 0; i < (int) lengthof(open); i++)
	{
		int			k = strlen(open[i]);

		/* the last characters of an escape may read like a type's first: %3CCC_0 */
		for (int shift = 0; shift <= 2; shift++)
			if (b + shift < under && b + shift - k >= l->at && same(s + b + shift - k, open[i]))
			{
				b += shift;
				escape = i;
				break;
			}
		if (escape >= 0)
			break;
	}
	n = e - b;
	if (b >= under || !is_upper(s[b]) || n + 2 >= (int) sizeof(l->strict))
		return false;
	if (escape < 0 && b > 0 && (is_any(s[b - 1]) || (unsigned char) s[b - 1] >= 0x80))
		return false;
	if (e < l->len && is_any(s[e]))
		return false;
	l->strict[0] = '<';
	memcpy(l->strict + 1, s + b, n);
	l->strict[n + 1] = '>';
	l->strict[n + 2] = '\0';
	if (mw_placeholder_read(l->strict, n + 2, &l->type_len, &l->number) != n + 2)
		return false;
	l->from = b;
	l->to = e;
	if (escape >= 0)
	{
		int			k = strlen(close[escape]);

		l->from = b - strlen(open[escape]);
		if (e + k <= l->len && same(s + e, close[escape]))
			l->to = e + k;
	}
	l->is_strict = false;
	return true;
}

/* mw_loose_next finds the next one. */
bool
mw_loose_next(MwLoose *l)
{
	for (;;)
	{
		int			at;

		if (l->bracket < l->at || l->bracket == 0)
			l->bracket = next_of(l->s, l->len, l->at, '<');
		if (l->under < l->at || l->under == 0)
			l->under = next_of(l->s, l->len, l->at, '_');
		at = Min(l->bracket, l->under);
		if (at >= l->len)
			return false;
		if (at == l->bracket)
		{
			int			n = mw_placeholder_read(l->s + at, l->len - at, &l->type_len, &l->number);

			if (n > 0)
			{
				memcpy(l->strict, l->s + at, n);
				l->strict[n] = '\0';
				l->from = at;
				l->to = l->at = at + n;
				l->is_strict = true;
				return true;
			}
			if (bracketed(l, at))
			{
				l->at = l->to;
				return true;
			}
			/* on behind the bracket, but what hangs on an underline may begin before it */
			l->bracket = next_of(l->s, l->len, at + 1, '<');
			continue;
		}
		if (at + 1 < l->len && is_digit(l->s[at + 1]) && bare(l, at))
		{
			l->at = l->to;
			return true;
		}
		l->under = next_of(l->s, l->len, at + 1, '_');
	}
}
