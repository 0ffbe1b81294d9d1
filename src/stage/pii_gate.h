/*
 * pii_gate.h - where in a text can a match of a recogniser begin at all.
 *
 * The scan (scan.c) stops at few bytes of a text: digits and : = @ - _ > ( [, runs
 * of capital letters, and ss.  A gate says at which of these stops a recogniser is worth
 * a look, and what must hold there before its pattern is run.  It is written as
 * a kind and conditions, such as
 *
 *	number len=3 sep=- two=2 first=0-8 prev!=.-
 *
 *	number	a run of digits that is no part of a longer run of letters and digits
 *	word	a run of letters and digits that holds both
 *	run		either
 *			len=3,5-9	lengths of the run		sep=-./)~_	what follows it (~: a blank, _: none of these)
 *			two=2		length of the next run of digits	min=9	digits from here on, at least
 *			first=2-6	its first character		prev!=.-/	what must not stand before
 *			lead		the match may begin at a + or ( before it; plus: there must be a +
 *			before		the match begins at the word before it: May 17, AB 12
 *			high		a character beyond ASCII follows it
 *	key		letters, digits, _ and - with one of them or a digit inside; start=AKIA,ghp_ its beginnings
 *	at		around an @ (high: only beside characters beyond ASCII)
 *	spelled	the words before (at), [.] and AT
 *	said	a word with pass in front
 *	colon	hexadecimal digits with two colons and more
 *	dash	pairs of hexadecimal digits with hyphens
 *	named	a word for a secret before : = or >
 *	scheme	before ://
 *	pem		five hyphens
 *	caps	eight capital letters and more
 *
 * Without a gate a pattern is searched for in the whole text.
 */
#ifndef MW_PII_GATE_H
#define MW_PII_GATE_H

#include "postgres.h"

typedef enum MwPiiGateKind
{
	MW_PII_GATE_NONE, MW_PII_GATE_NUMBER, MW_PII_GATE_WORD, MW_PII_GATE_RUN, MW_PII_GATE_KEY, MW_PII_GATE_AT, MW_PII_GATE_COLON,
	MW_PII_GATE_DASH, MW_PII_GATE_NAMED, MW_PII_GATE_SCHEME, MW_PII_GATE_PEM, MW_PII_GATE_CAPS, MW_PII_GATE_SPELLED, MW_PII_GATE_SAID,
	MW_PII_NGATES
} MwPiiGateKind;

/* a bit for each of these */
#define MW_PREV_OTHER	0x01
#define MW_PREV_DOT		0x02
#define MW_PREV_DASH	0x04
#define MW_PREV_SLASH	0x08
#define MW_PREV_COLON	0x10
#define MW_PREV_PLUS	0x20
#define MW_PREV_COMMA	0x40
#define MW_PREV_UNDER	0x80

#define MW_SEP_NONE		0x01
#define MW_SEP_SPACE	0x02
#define MW_SEP_DASH		0x04
#define MW_SEP_DOT		0x08
#define MW_SEP_SLASH	0x10
#define MW_SEP_PAREN	0x20

#define MW_LEN_LONG		63		/* and longer */

typedef struct MwPiiGate
{
	MwPiiGateKind	kind;
	uint64		len;			/* bit n: the first run may have n characters */
	uint64		two;			/* likewise the next run of digits */
	int			min;
	uint16		digits;			/* bit n: may begin with this digit */
	bool		letters;		/* may begin with a letter */
	uint8		sep;
	uint8		prev;
	bool		lead;
	bool		plus;
	bool		high;
	bool		before;
	const char *start;			/* of a key: its beginnings, in the text of the gate */
} MwPiiGate;

/* Read a gate; false where it is none. */
extern bool mw_pii_gate_read(const char *spec, MwPiiGate *gate);

#endif
