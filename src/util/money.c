/*
 * money.c - money as SQL has it and as C counts it; exact both ways.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "util/money.h"

char *
mw_money_text(MwMoney money)
{
	char		buf[64];
	char	   *at = buf + sizeof(buf);
	bool		minus = money < 0;
	bool		shown = false;

	if (minus)
		money = -money;
	*--at = '\0';
	for (int digit = 0; money > 0 || digit <= MW_MONEY_DECIMALS; digit++)
	{
		int			d = (int) (money % 10);

		money /= 10;
		if (digit == MW_MONEY_DECIMALS && shown)
			*--at = '.';
		if (digit >= MW_MONEY_DECIMALS || shown || d != 0)
		{
			*--at = '0' + d;
			shown = true;
		}
	}
	if (minus)
		*--at = '-';
	return pstrdup(at);
}

Numeric
mw_money_numeric(MwMoney money)
{
	if (money == 0)
		return int64_to_numeric(0);
	return DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(mw_money_text(money)),
											   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

bool
mw_money_read(Numeric n, int decimals, MwMoney *money)
{
	char	   *s;
	bool		minus;
	int			before = 0;
	int			after = -1;		/* decimals seen; -1: the point has not come */

	if (numeric_is_nan(n) || numeric_is_inf(n))
		return false;
	s = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(n)));
	minus = *s == '-';
	*money = 0;
	for (s += minus; *s; s++)
	{
		if (*s == '.')
		{
			after = 0;
			continue;
		}
		if (after >= decimals)
		{
			if (*s != '0')
				return false;
			continue;
		}
		if (after >= 0)
			after++;
		else if (++before > MW_MONEY_MAX_DIGITS)
			return false;
		*money = *money * 10 + (*s - '0');
	}
	for (after = Max(after, 0); after < decimals; after++)
		*money *= 10;
	if (minus)
		*money = -*money;
	return true;
}
