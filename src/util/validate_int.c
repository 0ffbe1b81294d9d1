/*
 * validate_int.c - sums and dates that many validators need.
 */
#include "util/validate_int.h"

int
mw_digits(const char *s, int len, int *out, int max)
{
	int			n = 0;

	for (int i = 0; i < len; i++)
		if (is_digit(s[i]))
		{
			if (n < max)
				out[n] = s[i] - '0';
			n++;
		}
	return n;
}

int
mw_alnums(const char *s, int len, char *out, int max)
{
	int			n = 0;

	for (int i = 0; i < len; i++)
		if (is_alnum(s[i]))
		{
			if (n < max)
				out[n] = is_letter(s[i]) ? s[i] & ~0x20 : s[i];
			n++;
		}
	return n;
}

int
mw_weighted(const int *d, const char *weights)
{
	int			sum = 0;

	for (; *weights; weights++, d++)
		sum += *d * mw_value(*weights);
	return sum;
}

int64
mw_number(const int *d, int n)
{
	int64		v = 0;

	while (n-- > 0)
		v = v * 10 + *d++;
	return v;
}

bool
mw_luhn(const int *d, int n)
{
	int			sum = 0;

	for (int i = 0; i < n; i++)
	{
		int			v = d[n - 1 - i];

		if (i % 2 == 1)
		{
			v *= 2;
			if (v > 9)
				v -= 9;
		}
		sum += v;
	}
	return sum % 10 == 0;
}

bool
mw_mod11_10(const int *d, int n)
{
	int			p = 10;

	for (int i = 0; i < n - 1; i++)
	{
		p = (p + d[i]) % 10;
		if (p == 0)
			p = 10;
		p = p * 2 % 11;
	}
	return (11 - p) % 10 == d[n - 1];
}

bool
mw_all_same(const int *d, int n)
{
	for (int i = 1; i < n; i++)
		if (d[i] != d[0])
			return false;
	return true;
}

bool
mw_is_date(int year, int month, int day)
{
	static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (month < 1 || month > 12 || day < 1 || day > days[month - 1])
		return false;
	return !(month == 2 && day == 29 && year > 0 && (year % 4 != 0 || (year % 100 == 0 && year % 400 != 0)));
}
