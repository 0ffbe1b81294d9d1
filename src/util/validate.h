/*
 * validate.h - is what a pattern found really one?  Luhn, mod 97, ranges.
 */
#ifndef MW_VALIDATE_H
#define MW_VALIDATE_H

/* s is the match; returns how many of its bytes are a value, 0 for none */
typedef int (*MwValidator) (const char *s, int len);

extern MwValidator mw_validator_find(const char *name);	/* luhn, ssn, phone, ... ; NULL when unknown */
extern char *mw_validator_names(void);	/* for hints; palloc'd */

#endif
