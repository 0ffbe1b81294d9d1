/*
 * prefilter.h - where in a text can any match of a recogniser be at all.
 *
 * A recogniser's prefilter is "BYTES{N,GAP}&high": every match has at least N
 * bytes of the set, each at most GAP bytes behind the one before, and (with
 * &high) a character that is not ASCII in its neighbourhood.  BYTES are listed
 * ("@") or a range ("0-9"); without {N,GAP} one byte is enough.
 */
#ifndef MW_PREFILTER_H
#define MW_PREFILTER_H

#include "postgres.h"

#include "util/scan.h"

#define MW_PREFILTER_SETS	32
#define MW_PREFILTER_GAP	16

typedef struct MwPrefilter
{
	uint32		sets_of[256];	/* bit k: the byte belongs to set k */
	uint8		set_bytes[MW_PREFILTER_SETS][32];	/* each set as a bit map, to find equal ones */
	int			gap[MW_PREFILTER_SETS];
	int			least[MW_PREFILTER_SETS];	/* the smallest N of its recognisers */
	int			nsets;
	MwByteRange ranges[6];		/* the union of all sets, coarsened to this many ranges */
	int			nranges;
} MwPrefilter;

/* A neighbourhood with bytes of a set: matches lie inside from..to; it may touch the next one of its set */
typedef struct MwWindow
{
	int			set;
	int			first,
				last;			/* where the bytes are */
	int			count;
	int			from,
				to;				/* with the margins, between characters */
} MwWindow;

typedef struct MwWindows
{
	MwWindow   *w;
	int			n;
	int			cap;
	MwWindow	some[32];		/* enough for nearly every text */
} MwWindows;

extern void mw_prefilter_init(MwPrefilter *pf);
/* Add a recogniser's; returns its set or -1 (scan everything), with N and "high". */
extern int	mw_prefilter_add(MwPrefilter *pf, const char *spec, int *least, bool *high);
extern void mw_prefilter_ready(MwPrefilter *pf);
/* All windows of a text, those of one set in order. */
extern void mw_prefilter_scan(const MwPrefilter *pf, const char *s, int len, MwWindows *out);

#endif
