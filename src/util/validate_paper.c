/*
 * validate_paper.c - what stands on papers and in files: dates, banks, papers,
 * vehicles, places, tokens and passwords.
 */
#include "util/validate_int.h"

#include <math.h>

/* ---------- banks ---------- */

static int
v_aba(const char *s, int len)
{
	int			p;

	DIGITS(9);
	p = mw_two(d);
	if (!(p <= 12 || (p >= 21 && p <= 32) || (p >= 61 && p <= 72) || p == 80) || mw_number(d, 9) == 0)
		return 0;
	return mw_weighted(d, "371371371") % 10 == 0 ? len : 0;
}

/* bic: a bank's four letters, a country that there is */
static int
v_bic(const char *s, int len)
{
	static const char countries[] =
		"ADAEAFAGAIALAMAOARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBWBYBZCACCCDCFCGCHCICKCLCMCNCOCRCUCVCWCXCYCZ"
		"DEDJDKDMDODZECEEEGERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGTGUGWGYHKHNHRHTHUIDIEILIMINIQIRISITJEJMJOJP"
		"KEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZNANCNENFNGNINLNONP"
		"NRNUNZOMPAPEPFPGPHPKPLPMPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISKSLSMSNSOSRSSSTSVSXSYSZTCTDTGTHTJTKTLTMTNTOTRTT"
		"TVTWTZUAUGUSUYUZVAVCVEVGVIVNVUWFWSXKYEYTZAZMZW";

	if (len != 8 && len != 11)
		return 0;
	for (const char *c = countries; *c; c += 2)
		if (c[0] == s[4] && c[1] == s[5])
			return len;
	return 0;
}

/* ---------- dates ---------- */

static int
month_of(const char *s, int len)
{
	/* three letters tell a month in most languages that write it in Latin letters */
	static const char *const months[] = {
		"jan", "ene", "gen", "feb", "fev", "fév", "mar", "mär", "mrz", "maa", "apr", "avr", "abr", "may", "mai", "maj", "mag",
		"mei", "jun", "jui", "giu", "jul", "lug", "aug", "aoû", "aou", "ago", "sep", "set", "oct", "okt", "ott", "out",
		"nov", "dec", "dez", "dic", "déc", "des", "янв", "фев", "мар", "апр", "мая", "май", "июн", "июл", "авг", "сен",
		"окт", "ноя", "дек", NULL
	};

	for (int i = 0; months[i]; i++)
	{
		int			n = strlen(months[i]);

		if (len >= n && pg_strncasecmp(s, months[i], n) == 0)
			return 1;
	}
	return 0;
}

/* date: one that can be, of somebody who can live or have lived. */
static int
v_date(const char *s, int len)
{
	int			group[3];
	int			size[3];
	int			n = 0;
	bool		word = false;

	for (int i = 0; i < len;)
	{
		if (is_digit(s[i]))
		{
			int			v = 0;
			int			from = i;

			while (i < len && is_digit(s[i]) && i - from < 8)
				v = v * 10 + (s[i++] - '0');
			if (n == 3)
				return 0;
			group[n] = v;
			size[n++] = i - from;
		}
		else if (is_letter(s[i]) || (unsigned char) s[i] >= 0x80)
		{
			int			from = i;

			while (i < len && (is_letter(s[i]) || (unsigned char) s[i] >= 0x80))
				i++;
			word |= month_of(s + from, i - from) != 0;
		}
		else
			i++;
	}
	if (n == 1 && size[0] == 8)
		return mw_is_date(group[0] / 10000, group[0] / 100 % 100, group[0] % 100) &&
			group[0] / 10000 >= 1850 && group[0] / 10000 <= 2100 ? len : 0;
	if (n == 2 && word)
	{
		int			year = size[1] == 4 ? group[1] : group[0];
		int			day = size[1] == 4 ? group[0] : group[1];

		return year >= 1850 && year <= 2100 && day >= 1 && day <= 31 ? len : 0;
	}
	if (n != 3)
		return 0;
	if (size[0] == 4)
		return group[0] >= 1850 && group[0] <= 2100 && mw_is_date(group[0], group[1], group[2]) ? len : 0;
	if (size[2] == 4 && (group[2] < 1850 || group[2] > 2100))
		return 0;
	/* the day first or the month first */
	return mw_is_date(size[2] == 4 ? group[2] : 0, group[1], group[0]) ||
		mw_is_date(size[2] == 4 ? group[2] : 0, group[0], group[1]) ? len : 0;
}

/* ---------- papers ---------- */

/* paper: four digits and more, seven characters and more, no small word among them */
static int
v_paper(const char *s, int len)
{
	int			digits = 0;
	int			all = 0;
	int			end = 0;

	for (int i = 0; i < len; i++)
		if (is_alnum(s[i]))
		{
			all++;
			if (is_digit(s[i]))
			{
				digits++;
				end = i + 1;
			}
			else if (i + 1 == len || !is_alnum(s[i + 1]))
				/* letters at the end belong to the last group only where it has digits */
				for (int k = i; k >= 0 && is_alnum(s[k]); k--)
					if (is_digit(s[k]))
					{
						end = i + 1;
						break;
					}
		}
	if (digits < 4 || all < 6)
		return 0;
	return end;
}

/* 2019-2024 */
static bool
is_years(const char *s, int len)
{
	return len == 9 && !is_digit(s[4]) && (s[0] == '1' || s[0] == '2') && s[0] - s[5] >= -1 && s[0] <= s[5] && (s[1] == '9' || s[1] == '0') && (s[6] == '9' || s[6] == '0');
}

/* idnumber: what a word calls somebody's number: five digits and seven characters or more, no date and no years */
static int
v_idnumber(const char *s, int len)
{
	int			n = v_paper(s, len);
	int			digits = 0,
				all = 0;

	/* a letter or two behind a mark: 449210-B */
	if (n > 0 && n + 1 < len && len - n <= 3 && s[n] != ' ' && is_letter(s[n + 1]) && is_letter(s[len - 1]))
		n = len;
	for (int i = 0; i < n; i++)
	{
		digits += is_digit(s[i]);
		all += is_alnum(s[i]);
	}
	return digits >= 5 && all >= 7 && !(digits == 8 && all == 8 && (v_date(s, n) || is_years(s, n))) ? n : 0;
}

static int
v_plate(const char *s, int len)
{
	bool		digit = false,
				letter = false;

	for (int i = 0; i < len; i++)
	{
		digit |= is_digit(s[i]);
		letter |= is_letter(s[i]);
	}
	return digit && letter && len >= 4 ? len : 0;
}

static int
v_us_npi(const char *s, int len)
{
	int			d[15] = {8, 0, 8, 4, 0};

	return mw_digits(s, len, d + 5, 10) == 10 && mw_luhn(d, 15) ? len : 0;
}

static int
v_us_dea(const char *s, int len)
{
	int			d[8];
	int			n = mw_digits(s, len, d, 8);
	int		   *t = d + (n == 8 ? 1 : 0);	/* 9 stands for a letter */

	if (n != 7 && n != 8)
		return 0;
	return (t[0] + t[2] + t[4] + 2 * (t[1] + t[3] + t[5])) % 10 == t[6] ? len : 0;
}

static int
v_vin(const char *s, int len)
{
	static const char values[] = "0123456789.ABCDEFGH..JKLMN.P.R..STUVWXYZ";
	static const char weights[] = "8765432A098765432";
	int			sum = 0;
	int			digits = 0;

	ALNUMS(17);
	for (int i = 0; i < 17; i++)
	{
		int			w = weights[i] == 'A' ? 10 : weights[i] - '0';

		digits += is_digit(c[i]);
		sum += (int) (strchr(values, c[i]) - values) % 10 * w;
	}
	return digits > 2 && "0123456789X"[sum % 11] == c[8] ? len : 0;
}

/* ---------- places ---------- */

/* gps: latitude within 90, longitude within 180 */
static int
v_gps(const char *s, int len)
{
	double		v[2];
	int			n = 0;

	for (int i = 0; i < len && n < 2;)
	{
		if (is_digit(s[i]))
		{
			double		x = 0,
						unit = 1;

			while (i < len && is_digit(s[i]))
				x = x * 10 + (s[i++] - '0');
			if (i < len && s[i] == '.')
				for (i++; i < len && is_digit(s[i]); i++)
					x += (s[i] - '0') * (unit /= 10);
			v[n++] = x;
		}
		else
			i++;
	}
	return n == 2 && v[0] <= 90 && v[1] <= 180 && (v[0] != 0 || v[1] != 0) ? len : 0;
}

/* ---------- secrets ---------- */

/* Bits of a character, as its own letters say */
static double
entropy(const char *s, int len)
{
	int			count[256] = {0};
	double		bits = 0;

	for (int i = 0; i < len; i++)
		count[(unsigned char) s[i]]++;
	for (int i = 0; i < 256; i++)
		if (count[i])
			bits -= (double) count[i] / len * log2((double) count[i] / len);
	return bits;
}

static bool
has(const char *s, int len, const char *word)
{
	int			n = strlen(word);

	for (int i = 0; i + n <= len; i++)
		if (pg_strncasecmp(s + i, word, n) == 0)
			return true;
	return false;
}

/* What stands for a secret and is none: a variable, an example, a mask */
static bool
stands_for(const char *s, int len)
{
	static const char *const words[] = {
		"null", "none", "nil", "true", "false", "undefined", "string", "required", "optional", "redacted", "hidden", "masked",
		"placeholder", "password", "passwd", "secret", "token", "varchar", "text", "char", "input", "str", "bool", "boolean", "int",
		"integer", "number", "object", "empty", "unset", "unknown", "invalid", "incorrect", "wrong", "expired", "reset", "changed", "forgotten",
		"public", "private", "protected", "the", "your", "must", "should", "not", "is", "a", "an", "and", "for", "with", "too", "at", "in", "to", "of", "if", "ok", "yes", "no", "see",
		"same", "here", "this", "above", "below", NULL
	};
	bool		same = true;

	for (int i = 1; i < len; i++)
		same &= s[i] == s[0];
	if (same)
		return true;
	for (int i = 0; words[i]; i++)
		if ((int) strlen(words[i]) == len && pg_strncasecmp(s, words[i], len) == 0)
			return true;
	if (s[0] == '$' && len > 1 && (s[1] == '{' || s[1] == '(' || is_letter(s[1])))
		return true;
	if (s[0] == '<' || s[0] == '*' || (s[0] == '{' && len > 1 && (s[1] == '{' || s[len - 1] == '}')) || (s[0] == '%' && (s[len - 1] == '%' || len == 2)))
		return true;
	/* self.password, new_pwd: a name for one */
	if (has(s, len, "passw") || has(s, len, "pwd"))
	{
		bool		name = true;

		for (int i = 0; i < len; i++)
			name &= is_letter(s[i]) || strchr("_. ", s[i]) != NULL;
		if (name)
			return true;
	}
	return has(s, len, " {{") || has(s, len, "process.env") || has(s, len, "os.environ") || has(s, len, "getenv") || has(s, len, "xxxx") ||
		has(s, len, "example") || has(s, len, "****") || has(s, len, "your_") || has(s, len, "your-") ||
		has(s, len, "введите") || has(s, len, "请输入") || has(s, len, "入力") || has(s, len, "secrets.") || has(s, len, "config.") || has(s, len, "vault:");
}

/* Runs of small letters, of capitals, of digits: where nobody speaks, they are short */
static int
runs(const char *s, int len)
{
	int			n = 0;
	int			before = 0;

	for (int i = 0; i < len; i++)
	{
		int			is = is_digit(s[i]) ? 1 : s[i] >= 'a' && s[i] <= 'z' ? 2 : s[i] >= 'A' && s[i] <= 'Z' ? 3 : 4;

		n += is != before;
		before = is;
	}
	return n;
}

/* Ed25519.sign_length, server_2048.pem: what stands behind the last point is a word, as in code and names of files */
static bool
is_code(const char *s, int len)
{
	int			i = len;

	while (i > 0 && (is_letter(s[i - 1]) || s[i - 1] == '_'))
		i--;
	return len - i >= 2 && i > 0 && s[i - 1] == '.' && runs(s + i, len - i) * 5 < (len - i) * 2;
}

/* token: letters and digits that nobody would say aloud */
static int
v_token(const char *s, int len)
{
	int			digits = 0,
				upper = 0,
				lower = 0;
	double		bits;

	for (int i = 0; i < len; i++)
	{
		digits += is_digit(s[i]);
		upper += s[i] >= 'A' && s[i] <= 'Z';
		lower += s[i] >= 'a' && s[i] <= 'z';
	}
	if (len < 16 || digits < 1 || upper + lower < 2 || stands_for(s, len) || is_code(s, len) || has(s, len, "://"))
		return 0;
	/* words with hyphens or points, and names of things, have few digits and one case */
	bits = entropy(s, len);
	if (digits * 12 < len && !(upper >= 4 && lower >= 4 && len >= 24 && bits >= 3.8) &&
		!(upper >= 2 && lower >= 2 && runs(s, len) * 5 >= len * 2))
		return 0;
	return bits >= 3.0 ? len : 0;
}

/* A path in small letters: pwd is also where one is */
static bool
is_path(const char *s, int len)
{
	int			slashes = 0;

	if (s[0] != '/' && !(len > 1 && s[0] == '~' && s[1] == '/'))
		return false;
	for (int i = 0; i < len; i++)
	{
		slashes += s[i] == '/';
		if (!(s[i] >= 'a' && s[i] <= 'z') && !is_digit(s[i]) && strchr("/._-~", s[i]) == NULL)
			return false;
	}
	return slashes >= 2;
}

/* password: what stands behind the word is one, unless it stands for one */
static int
v_password(const char *s, int len)
{
	while (len > 0 && (s[len - 1] == '.' || s[len - 1] == ':' || s[len - 1] == '!' || s[len - 1] == '?') &&
		   len > 1 && is_alnum(s[len - 2]) && len < 6)
		len--;
	if (len < 3 || stands_for(s, len) || is_path(s, len))
		return 0;
	return len;
}

/* secretword: in a sentence only what is no word */
static int
v_secretword(const char *s, int len)
{
	int			digits = 0,
				others = 0;

	while (len > 0 && strchr(".,:;!?", s[len - 1]) != NULL)
		len--;
	for (int i = 0; i < len; i++)
	{
		digits += is_digit(s[i]);
		others += !is_digit(s[i]);
	}
	return len >= 4 && digits > 0 && (others > 0 || digits >= 6) && !stands_for(s, len) ? len : 0;
}

/* saidword: what somebody says of a password is none: wrong, expired, saved */
static int
v_saidword(const char *s, int len)
{
	static const char *const words[] = {
		"correct", "right", "same", "gone", "lost", "weak", "strong", "long", "short", "secure", "insecure", "safe", "valid", "blank", "there", "that", "these",
		"what", "which", "where", "yours", "mine", "private", "public", "complex", "simple", "easy", "hard", "good", "fine", "okay", "unique", "different", "ready",
		"temporary", "random", "obvious", "over", "down", "only", "just", "also", "still", "never", "always", "already", "case-sensitive", "case sensitive", "something",
		"nothing", "anything", "everything", "none", "sent", "kept", "known", "old", "new", "longer", "shorter", "stronger", "weaker", "fixed", "default", "complicated",
		"falsch", "richtig", "abgelaufen", "weg", "geheim", "leer", "sicher", "unsicher", "schwach", "stark", "lang", "kurz", "neu", "alt", "nicht", "immer", "noch",
		"gültig", "ungültig", "gleich", "kaputt", "faux", "bon", "correcte", "perdu", "invalide", "valide", "faible", "fort", "feil", "galt", "riktig", NULL
	};
	static const char *const ends[] = {"ed", "en", "ing", "able", "ible", "ful", "less", "ly", "é", "ée", "ert", "ant", NULL};

	if (len < 4 || stands_for(s, len))
		return 0;
	for (int i = 0; words[i]; i++)
		if ((int) strlen(words[i]) == len && pg_strncasecmp(s, words[i], len) == 0)
			return 0;
	for (int i = 0; ends[i]; i++)
		if (len > (int) strlen(ends[i]) && memcmp(s + len - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
			return 0;
	return len;
}

/* urlpassword: user:password, the password no variable */
static int
v_urlpassword(const char *s, int len)
{
	const char *colon = memchr(s, ':', len);
	int			n = colon ? (int) (s + len - colon - 1) : 0;

	return n > 0 && !(colon[1] == '$' || colon[1] == '<' || colon[1] == '{' || colon[1] == '*') ? len : 0;
}

/* jwt: the head is JSON that names an algorithm or a type */
static int
v_jwt(const char *s, int len)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const char *dot = memchr(s, '.', len);
	char		head[512];
	int			n = 0;
	uint32		bits = 0;
	int			have = 0;

	if (dot == NULL)
		return 0;
	for (const char *p = s; p < dot && n < (int) sizeof(head); p++)
	{
		const char *at = memchr(alphabet, *p, 64);

		if (at == NULL)
			return 0;
		bits = bits << 6 | (uint32) (at - alphabet);
		have += 6;
		if (have >= 8)
		{
			have -= 8;
			head[n++] = (char) (bits >> have);
		}
	}
	if (n < 8 || head[0] != '{' || !(has(head, n, "\"alg\"") || has(head, n, "\"typ\"") || has(head, n, "\"kid\"")))
		return 0;
	/* a point at the end of a sentence is none of it */
	while (len > 0 && s[len - 1] == '.' && memchr(dot + 1, '.', s + len - 1 - (dot + 1)) != NULL)
		len--;
	return len;
}

const MwValidatorEntry mw_validators_paper[] = {
	{"aba", v_aba}, {"bic", v_bic}, {"date", v_date}, {"gps", v_gps}, {"idnumber", v_idnumber}, {"jwt", v_jwt}, {"paper", v_paper},
	{"password", v_password}, {"plate", v_plate}, {"saidword", v_saidword}, {"secretword", v_secretword}, {"token", v_token},
	{"urlpassword", v_urlpassword}, {"us_dea", v_us_dea}, {"us_npi", v_us_npi}, {"vin", v_vin}, {NULL, NULL},
};
