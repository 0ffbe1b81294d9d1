/*
 * validate.c - what a pattern cannot say: check digits, ranges, lengths.
 *
 * A validator is given what a pattern matched and answers how many of its bytes
 * are a value (0: none): an IBAN ends at its country's length and a card at its
 * last valid digit, whatever else the pattern swallowed.  Validators are pure,
 * linear and look at nothing outside the match.  Here are those that every
 * country has; the rest stands in families, validate_europe.c and so on.
 */
#include "mw.h"

#include <arpa/inet.h>

#include "util/validate_int.h"

/* luhn: the whole match has two digits or more and a right check digit. */
static int
v_luhn(const char *s, int len)
{
	int			d[64];
	int			n = mw_digits(s, len, d, lengthof(d));

	return n >= 2 && n <= (int) lengthof(d) && mw_luhn(d, n) ? len : 0;
}

#define FROM_TO(lo, hi) ((2u << (hi)) - (1u << (lo)))

/* The lengths of cards whose first four digits are these, a bit each; 0 where no issuer gives such out */
static uint32
card_lengths(int p4)
{
	int			p2 = p4 / 100;
	int			p3 = p4 / 10;

	if (p4 / 1000 == 4)			/* Visa */
		return 1u << 13 | 1u << 16 | 1u << 19;
	if ((p2 >= 51 && p2 <= 55) || (p4 >= 2221 && p4 <= 2720))	/* Mastercard */
		return 1u << 16;
	if (p2 == 34 || p2 == 37)	/* American Express */
		return 1u << 15;
	if ((p3 >= 300 && p3 <= 305) || p2 == 36 || p2 == 38 || p2 == 39)	/* Diners Club */
		return FROM_TO(14, 19);
	if (p4 == 6011 || (p3 >= 644 && p3 <= 649) || p2 == 65 ||	/* Discover */
		p2 == 35 ||				/* JCB */
		p2 == 62 ||				/* UnionPay */
		(p4 >= 2200 && p4 <= 2204)) /* Mir */
		return FROM_TO(16, 19);
	if (p4 == 2131 || p4 == 1800)	/* JCB of old */
		return 1u << 15;
	if (p2 == 50 || (p2 >= 56 && p2 <= 58) || p2 == 63 || p2 == 67)	/* Maestro */
		return FROM_TO(13, 19);
	return 0;
}

/*
 * cc: an issuer's range, a length it gives out, Luhn.  Of several lengths that
 * fit the longest one counts; a number never ends inside a run of digits.
 */
static int
v_cc(const char *s, int len)
{
	static const uint8 doubled[] = {0, 2, 4, 6, 8, 1, 3, 5, 7, 9};
	int			first = 0;		/* the first four digits */
	int			sums[2] = {0};	/* Luhn's, where the doubled digits are those at even places, and at odd ones */
	uint32		lengths = 0;
	int			n = 0;
	int			best = 0;

	for (int i = 0; i < len && n < 19; i++)
	{
		int			d = s[i] - '0';

		if (!is_digit(s[i]))
			continue;
		sums[n % 2] += doubled[d];
		sums[1 - n % 2] += d;
		n++;
		if (n <= 4)
			first = first * 10 + d;
		if (n == 4 && (lengths = card_lengths(first)) == 0)
			return 0;
		if (((lengths >> n) & 1) && sums[n % 2] % 10 == 0 && (i + 1 == len || !is_digit(s[i + 1])))
			best = i + 1;
	}
	return best;
}

/* cardword: a word says that it is a card's number, so that Luhn is enough; not one digit over and over */
static int
v_cardword(const char *s, int len)
{
	int			d[20];
	int			n = mw_digits(s, len, d, lengthof(d));

	return n >= 12 && n <= 19 && !mw_all_same(d, n) && mw_luhn(d, n) ? len : 0;
}

/* ssn: what the Social Security Administration has never given out is none. */
static int
v_ssn(const char *s, int len)
{
	int64		area;

	DIGITS(9);
	area = mw_number(d, 3);
	return area != 0 && area != 666 && area < 900 && mw_two(d + 3) != 0 && mw_number(d + 5, 4) != 0 ? len : 0;
}

/* phone: E.164's number of digits, and not one digit over and over. */
static int
v_phone(const char *s, int len)
{
	int			d[17];			/* 15, and 00 in front */
	int			n = mw_digits(s, len, d, lengthof(d));

	return n >= 7 && n <= (int) lengthof(d) && !mw_all_same(d, n) ? len : 0;
}

/*
 * Lengths by country: the SWIFT registry, then countries that use the form
 * without being in it (twice where old and new differ).
 */
static const struct
{
	char		country[3];
	uint8		length;
}			iban_lengths[] =
{
	{"AD", 24}, {"AE", 23}, {"AL", 28}, {"AT", 20}, {"AZ", 28}, {"BA", 20}, {"BE", 16}, {"BG", 22},
	{"BH", 22}, {"BI", 27}, {"BL", 27}, {"BR", 29}, {"BY", 28}, {"CH", 21}, {"CR", 22}, {"CY", 28},
	{"CZ", 24}, {"DE", 22}, {"DJ", 27}, {"DK", 18}, {"DO", 28}, {"EE", 20}, {"EG", 29}, {"ES", 24},
	{"FI", 18}, {"FK", 18}, {"FO", 18}, {"FR", 27}, {"GB", 22}, {"GE", 22}, {"GF", 27}, {"GI", 23},
	{"GL", 18}, {"GP", 27}, {"GR", 27}, {"GT", 28}, {"HN", 28}, {"HR", 21}, {"HU", 28}, {"IE", 22},
	{"IL", 23}, {"IQ", 23}, {"IS", 26}, {"IT", 27}, {"JO", 30}, {"KW", 30}, {"KZ", 20}, {"LB", 28},
	{"LC", 32}, {"LI", 21}, {"LT", 20}, {"LU", 20}, {"LV", 21}, {"LY", 25}, {"MC", 27}, {"MD", 24},
	{"ME", 22}, {"MF", 27}, {"MK", 19}, {"MN", 20}, {"MQ", 27}, {"MR", 27}, {"MT", 31}, {"MU", 30},
	{"NC", 27}, {"NI", 28}, {"NL", 18}, {"NO", 15}, {"OM", 23}, {"PF", 27}, {"PK", 24}, {"PL", 28},
	{"PM", 27}, {"PS", 29}, {"PT", 25}, {"QA", 29}, {"RE", 27}, {"RO", 24}, {"RS", 22}, {"RU", 33},
	{"SA", 24}, {"SC", 31}, {"SD", 18}, {"SE", 24}, {"SI", 19}, {"SK", 24}, {"SM", 27}, {"SO", 23},
	{"ST", 25}, {"SV", 28}, {"TF", 27}, {"TL", 23}, {"TN", 24}, {"TR", 26}, {"UA", 29}, {"VA", 22},
	{"VG", 24}, {"WF", 27}, {"XK", 20}, {"YE", 30}, {"YT", 27},
	/* not in the registry */
	{"AA", 16}, {"AO", 25}, {"BF", 28}, {"BF", 27}, {"BI", 16}, {"BJ", 28}, {"CF", 27}, {"CG", 27}, {"CI", 28},
	{"CM", 27}, {"CV", 25}, {"DZ", 26}, {"DZ", 24}, {"GA", 27}, {"GQ", 27}, {"GW", 25}, {"IR", 26},
	{"KM", 27}, {"MA", 28}, {"MG", 27}, {"ML", 28}, {"MZ", 25}, {"NE", 28}, {"NI", 32}, {"SN", 28},
	{"TD", 27}, {"TG", 28},
};

/* iban: the country's length, ISO 7064 mod 97-10, one kind of separator at most. */
static int
v_iban(const char *s, int len)
{
	char		c[40];
	int			end[40];		/* bytes of the match up to and with character i */
	int			n = 0;
	bool		upper = false;
	bool		lower = false;
	int			i;
	size_t		k;

	for (i = 0; i < len && n < 34; i++)
	{
		if (!is_alnum(s[i]))
			continue;
		if (is_letter(s[i]))
		{
			if (s[i] & 0x20)
				lower = true;
			else
				upper = true;
		}
		c[n] = is_letter(s[i]) ? s[i] & ~0x20 : s[i];
		end[n++] = i + 1;
	}
	if (n < 15)
		return 0;
	for (k = 0; k < lengthof(iban_lengths); k++)
	{
		int			want = iban_lengths[k].length;
		int			rest = 0;
		int			stop;

		if (iban_lengths[k].country[0] != c[0] || iban_lengths[k].country[1] != c[1] || n < want)
			continue;
		stop = end[want - 1];
		/* not inside a longer run */
		if (stop < len && is_alnum(s[stop]))
			continue;
		/* the check digits and the country go last */
		for (i = 0; i < want; i++)
		{
			char		ch = c[(i + 4) % want];

			if (is_digit(ch))
				rest = (rest * 10 + (ch - '0')) % 97;
			else
				rest = (rest * 100 + (ch - 'A' + 10)) % 97;
		}
		if (rest != 1)
			continue;
		/* a mix of cases is a name or a hash, unless what is small stands behind */
		if (upper && lower)
		{
			bool		u = false,
						l = false;

			for (i = 0; i < stop; i++)
				if (is_letter(s[i]))
				{
					if (s[i] & 0x20)
						l = true;
					else
						u = true;
				}
			if (u && l)
				continue;
		}
		return stop;
	}
	return 0;
}

/* ipv4: four octets. */
static int
v_ipv4(const char *s, int len)
{
	int			octets = 0;
	int			i = 0;

	while (i < len)
	{
		int			v = 0;
		int			n = 0;

		while (i < len && is_digit(s[i]) && n < 4)
		{
			v = v * 10 + (s[i++] - '0');
			n++;
		}
		if (n < 1 || n > 3 || v > 255)
			return 0;
		octets++;
		if (i == len)
			break;
		if (s[i++] != '.' || octets == 4)
			return 0;
	}
	return octets == 4 ? len : 0;
}

/* ipv6: as the C library reads it, and not a lone "::" nor a name of a scope in code. */
static int
v_ipv6(const char *s, int len)
{
	char		buf[INET6_ADDRSTRLEN + 1];
	struct in6_addr addr;
	bool		digit = false;
	int			i;

	if (len > INET6_ADDRSTRLEN)
		return 0;
	for (i = 0; i < len; i++)
		if (is_digit(s[i]))
			digit = true;
	if (!digit)
		return 0;
	memcpy(buf, s, len);
	buf[len] = '\0';
	return inet_pton(AF_INET6, buf, &addr) == 1 ? len : 0;
}

/* ip: either. */
static int
v_ip(const char *s, int len)
{
	int			n = v_ipv4(s, len);

	return n ? n : v_ipv6(s, len);
}

/* mac: twelve hexadecimal digits (sixteen in EUI-64), not all the same one. */
static int
v_mac(const char *s, int len)
{
	int			n = 0;
	char		first = 0;
	bool		differ = false;
	int			i;

	for (i = 0; i < len; i++)
	{
		char		c = s[i] | 0x20;

		if (!is_alnum(s[i]))
			continue;
		if (!is_digit(s[i]) && (c < 'a' || c > 'f'))
			return 0;
		if (n++ == 0)
			first = c;
		else if (c != first)
			differ = true;
	}
	return (n == 12 || n == 16) && differ ? len : 0;
}

/* email: the lengths of RFC 5321. */
static int
v_email(const char *s, int len)
{
	const char *at = NULL;
	int			i;

	for (i = 0; i < len; i++)
		if (s[i] == '@')
			at = s + i;
	if (at == NULL)				/* spelled or full-width: the pattern is all there is */
		return len;
	if (len > 320 || at == s || at - s > 128)
		return 0;
	return len;
}

static const MwValidatorEntry validators[] = {
	{"cardword", v_cardword}, {"cc", v_cc}, {"email", v_email}, {"iban", v_iban}, {"ip", v_ip}, {"ipv4", v_ipv4}, {"ipv6", v_ipv6},
	{"luhn", v_luhn}, {"mac", v_mac}, {"phone", v_phone}, {"ssn", v_ssn}, {NULL, NULL},
};

static const MwValidatorEntry *const families[] = {
	validators, mw_validators_paper, mw_validators_coin, mw_validators_europe, mw_validators_world,
};

/* mw_validator_find finds a validator by its name. */
MwValidator
mw_validator_find(const char *name)
{
	for (size_t f = 0; f < lengthof(families); f++)
		for (const MwValidatorEntry *v = families[f]; v->name; v++)
			if (strcmp(v->name, name) == 0)
				return v->fn;
	return NULL;
}

/* mw_validator_names lists them for a hint. */
char *
mw_validator_names(void)
{
	StringInfoData list;

	initStringInfo(&list);
	for (size_t f = 0; f < lengthof(families); f++)
		for (const MwValidatorEntry *v = families[f]; v->name; v++)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", v->name);
	return list.data;
}
