/*
 * scan_mark.c - what can stand around a mark: a mail address around an @, an
 * address of a network around colons, a secret behind its name.
 *
 * How far a look goes from a mark is bounded, or ends where another began.
 */
#include "postgres.h"

#include "stage/scan_int.h"

/* how far a mail address, a name or an address reaches back from where the scan stopped */
#define MAIL_BACK	90
#define MAIL_AHEAD	260
#define NAME_BACK	32
#define HEX_BACK	45

/* mw_scan_mail looks at an @. */
void
mw_scan_mail(MwSearch *q, MwScanDone *done, int i)
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

/* How many words, joined by blanks and brackets, a name may have that is spelled out: joan (dot) smith (at) */
#define SPELLED_WORDS	6

/* Whether a bracket has what at and dot are written as and nothing else in it */
static bool
spells(const char *s, int len, int i)
{
	int			k = i + 1;
	int			n = 0;

	if (k < len && s[k] == ' ')
		k++;
	if (k < len && (s[k] == '@' || s[k] == '.'))
		k++;
	else
		while (k < len && n < 8 && (is_letter(s[k]) || is_high(s[k])))
		{
			n++;
			k++;
		}
	if (k < len && s[k] == ' ')
		k++;
	return k < len && s[k] == (s[i] == '(' ? ')' : ']') && n != 1 && k + 1 < len;
}

/* mw_scan_spelled looks at what may be the at or a dot of an address that is spelled out: its name is some words before. */
void
mw_scan_spelled(MwSearch *q, MwScanDone *done, int i)
{
	const char *s = q->s;
	int			begins[SPELLED_WORDS];
	int			n = 0;
	int			stop = Max(done->spelled, i - MAIL_BACK);
	int			b = i;

	if (s[i] != 'A' && !spells(s, q->len, i))
		return;
	while (n < SPELLED_WORDS)
	{
		int			e;

		while (b > stop && (s[b - 1] == ' ' || s[b - 1] == '(' || s[b - 1] == ')' || s[b - 1] == '[' || s[b - 1] == ']'))
			b--;
		e = b;
		while (b > stop && (is_key_char(s[b - 1]) || memchr(".+%@", s[b - 1], 4)))
			b--;
		if (b == e)
			break;
		begins[n++] = b;
	}
	while (n-- > 0)
	{
		int			before = q->found->n;

		mw_scan_try(q, &q->plan->of_kind[MW_PII_GATE_SPELLED], begins[n]);
		if (q->found->n > before)
		{
			done->spelled = Max(done->spelled, q->found->spans[q->found->n - 1].to);
			break;
		}
	}
}

/* mw_scan_said looks at an ss: pass... begins a word there, or it is nobody's. */
void
mw_scan_said(MwSearch *q, int i)
{
	const char *s = q->s;

	if (i >= 2 && s[i - 1] == 'a' && (s[i - 2] | 0x20) == 'p' && (i == 2 || !is_alnum(s[i - 3])) && i + 8 < q->len)
		mw_scan_try(q, &q->plan->of_kind[MW_PII_GATE_SAID], i - 2);
}

/* mw_scan_colon looks at a colon between hexadecimal digits, or two of them. */
void
mw_scan_colon(MwSearch *q, MwScanDone *done, int i)
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
		mw_scan_try(q, &q->plan->of_kind[MW_PII_GATE_COLON], b);
}

/* mw_scan_hyphen looks for pairs of hexadecimal digits, or the head of a key block. */
void
mw_scan_hyphen(MwSearch *q, MwScanDone *done, int i)
{
	const char *s = q->s;

	if (i + 4 < q->len && s[i + 1] == '-')
	{
		if (i >= done->pem && s[i + 2] == '-' && s[i + 3] == '-' && s[i + 4] == '-')
		{
			int			before = q->found->n;

			mw_scan_try(q, &q->plan->of_kind[MW_PII_GATE_PEM], i);
			done->pem = q->found->n > before ? q->found->spans[q->found->n - 1].to : i + 5;
		}
		return;
	}
	if (i >= 2 && i + 15 <= q->len && s[i + 3] == '-' && s[i + 6] == '-' && s[i + 9] == '-' && s[i + 12] == '-' &&
		i >= done->dash)
	{
		done->dash = i + 15;
		mw_scan_try(q, &q->plan->of_kind[MW_PII_GATE_DASH], i - 2);
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

/* Words for it that are not ASCII, without a first letter that may be a capital one */
static bool
names_secret_high(const char *s, int len)
{
	static const char *const words[] = {
		"ароль", "АРОЛЬ", "арола", "озинка", "密码", "密碼", "口令", "パスワード",
		"비밀번호", "암호", "المرور", "السر", "पासवर्ड", "รหัสผ่าน", "סיסמה", "סיסמת",
		"ρόσβασης", "hasło", "Hasło", "lösenord", "Lösenord", "ifre", "parolă", "Parolă", "jelszó", "Jelszó", "khẩu"
	};

	for (size_t i = 0; i < lengthof(words); i++)
	{
		int			n = strlen(words[i]);

		for (int k = 0; k + n <= len; k++)
			if (s[k] == words[i][0] && memcmp(s + k, words[i], n) == 0)
				return true;
	}
	return false;
}

/* Whether a name, s[0..len), is one for a secret */
static bool
names_secret(const char *s, int len)
{
	for (; len >= 2; s++, len--)
		switch (*s | 0x20)
		{
			case 'p':
				if (begins(s, len, "pass") || begins(s, len, "pw") || begins(s, len, "pin") || begins(s, len, "private"))
					return true;
				break;
			case 's':
				if (begins(s, len, "secret") || begins(s, len, "senha") || begins(s, len, "sifre") || begins(s, len, "salasana"))
					return true;
				break;
			case 't':
				if (begins(s, len, "token"))
					return true;
				break;
			case 'k':
				if (begins(s, len, "key") || begins(s, len, "kennwort") || begins(s, len, "kodeord"))
					return true;
				break;
			case 'c':
				if (begins(s, len, "cred") || begins(s, len, "contrase") || begins(s, len, "clave"))
					return true;
				break;
			case 'a':
				if (begins(s, len, "auth") || begins(s, len, "adgangskode"))
					return true;
				break;
			case 'w':
				if (begins(s, len, "wachtwoord"))
					return true;
				break;
			case 'h':
				if (begins(s, len, "haslo") || begins(s, len, "heslo"))
					return true;
				break;
			case 'l':
				if (begins(s, len, "losenord") || begins(s, len, "lozinka"))
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

/* Whether what begins at "at" is what somebody logs in with: curl -u name:password */
static bool
behind_user(const char *s, int at)
{
	if (at > 0 && (s[at - 1] == '"' || s[at - 1] == '\''))
		at--;
	if (at > 0 && (s[at - 1] == ' ' || s[at - 1] == '='))
		at--;
	return (at >= 2 && s[at - 1] == 'u' && s[at - 2] == '-') || (at >= 6 && memcmp(s + at - 6, "--user", 6) == 0);
}

/* Where the name s[..e) begins: letters, digits and what names are joined by */
static int
name_before(const char *s, int e, int stop, bool *high)
{
	int			b = e;
	unsigned char all = 0;

	while (b > stop && (is_alnum(s[b - 1]) || s[b - 1] == '_' || s[b - 1] == '-' || s[b - 1] == '.' || is_high(s[b - 1])))
		all |= (unsigned char) s[--b];
	*high = is_high(all);
	while (b < e && (s[b] & 0xc0) == 0x80)
		b++;
	return b;
}

/* mw_scan_named looks at = : or > behind a name. */
void
mw_scan_named(MwSearch *q, int i)
{
	const char *s = q->s;
	int			e = i;
	int			b;
	int			longest = 0;
	bool		high;
	int			stop = Max(0, i - NAME_BACK - 4);

	/* "name" : and name) = */
	while (e > stop && e > i - 4 && !is_alnum(s[e - 1]) && !is_high(s[e - 1]))
		e--;
	b = name_before(s, e, stop, &high);
	/* its type may stand between: var token string = */
	if (e - b == 6 && b > stop && s[b - 1] == ' ' && memcmp(s + b, "string", 6) == 0)
	{
		e = b - 1;
		b = name_before(s, e, stop, &high);
	}
	if ((e - b < 3 || !(names_secret(s + b, e - b) || (high && names_secret_high(s + b, e - b)))) &&
		!(s[i] == ':' && behind_user(s, b)))
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

/* mw_scan_scheme looks at ://. */
void
mw_scan_scheme(MwSearch *q, int i)
{
	int			b = i;
	int			stop = Max(0, i - 20);

	while (b > stop && (is_alnum(q->s[b - 1]) || q->s[b - 1] == '+' || q->s[b - 1] == '.' || q->s[b - 1] == '-'))
		b--;
	while (b < i && !is_letter(q->s[b]))
		b++;
	if (i - b >= 2)
		mw_scan_try(q, &q->plan->of_kind[MW_PII_GATE_SCHEME], b);
}
