/*
 * scan_int.h - inside of the scan: the pass (scan.c), what is done at numbers
 * and words (scan_number.c) and what at marks (scan_mark.c).
 */
#ifndef MW_SCAN_INT_H
#define MW_SCAN_INT_H

#include "port/pg_bitutils.h"
#include "stage/detect.h"

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)
#define is_alnum(c) (is_digit(c) || is_letter(c))
#define is_high(c) ((unsigned char) (c) >= 0x80)

/* Places that were seen to, so that no stop repeats the work of another */
typedef struct MwScanDone
{
	int			run;			/* runs before here */
	int			mail;
	int			spelled;
	int			key;
	int			hex;
	int			dash;
	int			caps;
	int			pem;
} MwScanDone;

static inline bool
is_hex(char c)
{
	return is_digit(c) || (unsigned char) ((c | 0x20) - 'a') < 6;
}

/* letters, digits and what keys hang together by */
static inline bool
is_key_char(char c)
{
	return is_alnum(c) || c == '_' || c == '-';
}

/* scan_number.c: a number and a word, s[b..e) */
extern void mw_scan_number(MwSearch *q, int b, int e);
extern void mw_scan_word(MwSearch *q, int b, int e);

/* scan_mark.c: an @, a colon among hexadecimal digits, a hyphen, = or : behind a name, :// */
extern void mw_scan_mail(MwSearch *q, MwScanDone *done, int i);
extern void mw_scan_colon(MwSearch *q, MwScanDone *done, int i);
extern void mw_scan_hyphen(MwSearch *q, MwScanDone *done, int i);
extern void mw_scan_named(MwSearch *q, int i);
extern void mw_scan_scheme(MwSearch *q, int i);
/* a bracket or an A that may begin (at), [dot] or AT; the ss of password */
extern void mw_scan_spelled(MwSearch *q, MwScanDone *done, int i);
extern void mw_scan_said(MwSearch *q, int i);
/* Try all recognisers of a set at one place */
extern void mw_scan_try(MwSearch *q, const MwRecSet *set, int at);

#endif
