/*
 * normalise.h - the text as a guard sees it, and the way back to the original.
 */
#ifndef MW_NORMALISE_H
#define MW_NORMALISE_H

#include "postgres.h"

/*
 * A reading of a text.  map[i] is where in the original byte i of the view comes
 * from, map[len] the original's length; NULL: the view is the original.
 */
typedef struct MwView
{
	const char *s;
	int			len;
	const int  *map;
} MwView;

/* Where byte i of a view comes from */
static inline int
mw_view_origin(const MwView *v, int i)
{
	return v->map ? v->map[i] : i;
}

/* A hexadecimal digit's value; -1: it is none */
static inline int
mw_hex_value(char c)
{
	if ((unsigned char) (c - '0') < 10)
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * NFKC, format characters stripped, accents off Latin letters, look-alikes in
 * tokens of mixed script folded, small letters (of what is not ASCII: PCRE2
 * folds that).  Text in ASCII is its own view and costs one look at its bytes.
 */
extern void mw_normalise(const char *s, int len, MwView *out);

/* What a view hints at having been hidden in it; the further views are made only where one does. */
#define MW_HINT_SPACED	0x01	/* s p a c e d  or s-p-a-c-e-d letters */
#define MW_HINT_LEET	0x02	/* digits and marks inside words */
#define MW_HINT_PERCENT	0x04
#define MW_HINT_ENTITY	0x08
#define MW_HINT_SOLID	0x10	/* a long run without a blank: base64, base32, hexadecimal */
#define MW_HINT_NUMBERS	0x20	/* character codes, decimal */
#define MW_HINT_CAMEL	0x40	/* WordsWithoutBlanks */
#define MW_HINT_BACKSLASH 0x80	/* \\u0069 */

/* an encoded piece shorter than this says nothing ("ignore rules" is 16 in base64) */
#define MW_PIECE_MIN	16

extern int	mw_view_hints(const MwView *v);

/* Views with one trick undone (the others as they are); false where nothing came of it. */
extern bool mw_view_joined(const MwView *v, MwView *out);
extern bool mw_view_parted(const MwView *v, MwView *out);
/* ell: a 1 beside another or behind a vowel is an l, else each is an i; how many characters are read as others */
extern int	mw_view_leet(const MwView *v, bool ell, MwView *out);
extern bool mw_view_unescaped(const MwView *v, MwView *out);	/* percent, entities, backslashes */
extern bool mw_view_rot13(const MwView *v, MwView *out);
extern bool mw_view_reversed(const MwView *v, MwView *out);
/* pieces.c: the next encoded piece at or after *at that decodes to text; the view's map points at the whole piece. */
extern bool mw_view_decoded(const MwView *v, int *at, MwView *out);

/* One character folded as the view folds it (for the wrapper): 0 where it is a format character. */
extern uint32 mw_fold_char(uint32 c);

#endif
