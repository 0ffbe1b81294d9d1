/*
 * validate_int.h - what the families of validators share.
 */
#ifndef MW_VALIDATE_INT_H
#define MW_VALIDATE_INT_H

#include "mw.h"

#include "util/validate.h"

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)
#define is_alnum(c) (is_digit(c) || is_letter(c))

typedef struct MwValidatorEntry
{
	const char *name;
	MwValidator fn;
} MwValidatorEntry;

/* families; each list ends with a NULL name */
extern const MwValidatorEntry mw_validators_europe[];
extern const MwValidatorEntry mw_validators_world[];
extern const MwValidatorEntry mw_validators_coin[];
extern const MwValidatorEntry mw_validators_paper[];

/* The digits of a match as numbers; how many there are in all, at most max are stored */
extern int	mw_digits(const char *s, int len, int *out, int max);
/* Its letters (as capitals) and digits; likewise */
extern int	mw_alnums(const char *s, int len, char *out, int max);
/* The head of a validator: d are the match's n digits, c its n letters and digits, or the match is none */
#define DIGITS(n) \
	int			d[n]; \
	if (mw_digits(s, len, d, n) != (n)) \
		return 0

#define ALNUMS(n) \
	char		c[n]; \
	if (mw_alnums(s, len, c, n) != (n)) \
		return 0

/* What a digit or a capital letter counts: 0-9, then A is 10 */
static inline int
mw_value(char c)
{
	return is_digit(c) ? c - '0' : c - 'A' + 10;
}

/* The number that two digits make */
static inline int
mw_two(const int *d)
{
	return d[0] * 10 + d[1];
}

/* d[0]*w[0] + d[1]*w[1] ..., as many as w has characters: 0-9, then A is 10 */
extern int	mw_weighted(const int *d, const char *weights);
/* The number that n digits make */
extern int64 mw_number(const int *d, int n);
/* Luhn's check over n digits, the last one the check digit; letters count as mw_value has them */
extern bool mw_luhn(const int *d, int n);
/* ISO 7064 mod 11,10 over n digits, the last one the check digit */
extern bool mw_mod11_10(const int *d, int n);
extern bool mw_all_same(const int *d, int n);
/* A day that can be; year 0: any */
extern bool mw_is_date(int year, int month, int day);

#endif
