/*
 * money.h - money as SQL has it, numeric, and as C counts it, in 10^-12 of the
 * currency.
 */
#ifndef MW_MONEY_H
#define MW_MONEY_H

#include "mw.h"
#include "utils/numeric.h"

#define MW_MONEY_DECIMALS	12
#define MW_MONEY_MAX_DIGITS	18	/* before the point: more than any budget, and sums of it stay within 128 bit */

extern Numeric mw_money_numeric(MwMoney money);	/* without trailing zeros */
extern char *mw_money_text(MwMoney money);

/*
 * The other way, times 10^decimals (12 for an amount, 6 for a price per million
 * tokens).  False for what is no number, has more decimals or too many digits.
 */
extern bool mw_money_read(Numeric n, int decimals, MwMoney *money);

#endif
