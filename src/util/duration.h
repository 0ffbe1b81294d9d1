/*
 * duration.h - a duration is an interval or a number of seconds, everywhere.
 */
#ifndef MW_DURATION_H
#define MW_DURATION_H

#include "mw.h"

/*
 * Text such as '2.5' (seconds) or '3 minutes' into milliseconds.  Raises what
 * interval's input raises for nonsense, and MW001 for what is negative or more
 * than a thousand years; what names the value in that message.
 */
extern int64 mw_duration_ms(const char *text, const char *what);

/* Sleep; any interrupt ends it with its error */
extern void mw_wait_ms(int64 ms);

#endif
