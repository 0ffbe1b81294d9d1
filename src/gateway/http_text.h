/*
 * http_text.h - the texts that http.c reads and writes: URLs, header fields,
 * error messages.  For http.c and its test, and for the double's headers.
 */
#ifndef MW_HTTP_TEXT_H
#define MW_HTTP_TEXT_H

#include "postgres.h"

/* NULL when the gateway may call it, else the reason; host with port for messages */
extern const char *mw_http_url_check(const char *url, char *host, size_t hostlen, bool *literal, bool *https);

/* Does this header line have this name?  Then its value, trimmed, cut to what fits. */
extern bool mw_http_field(const char *line, size_t n, const char *name, char *value, size_t valuelen);

/* "12" or "1.5" times scale, rounded up; -1 when it is no such number */
extern int64 mw_http_decimal(const char *s, int64 scale);

/* Make a message from the network printable, in place */
extern void mw_http_printable(char *s);

#endif
