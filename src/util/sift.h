/*
 * sift.h - at which places of a text may any of many words stand.
 */
#ifndef MW_SIFT_H
#define MW_SIFT_H

#include "postgres.h"

/* Four bytes of each word, the bit 0x20 set in all bytes: letters without regard to ASCII case. */
#define MW_SIFT_FOLD	0x20202020u

typedef struct MwSift MwSift;

/* Made in the current memory context */
extern MwSift *mw_sift_make(const uint32 *fours, int n);

/*
 * Write down the places of s[at..stop), counted from "at", whose next four bytes may be one of the fours; more may be
 * told, never fewer.  s goes on for three bytes behind "stop"; "maybe" has room for one place more than there are.
 * Returns how many.
 */
extern int	mw_sift(const MwSift *sift, const char *s, int at, int stop, uint16 *maybe);

static inline uint32
mw_sift_load(const char *p)
{
	uint32		x;

	memcpy(&x, p, 4);
	return x | MW_SIFT_FOLD;
}

#endif
