/*
 * url.h - the base_url of a server: what it may look like, and its host.
 */
#ifndef MW_URL_H
#define MW_URL_H

#include "mw.h"

typedef struct MwUrl
{
	bool		https;
	char	   *host;			/* in lower case; an IPv6 address without its brackets */
	bool		literal;		/* the host is an address */
} MwUrl;

/* NULL, or a sentence that says what is wrong (palloc'd or constant) */
extern const char *mw_url_parse(const char *url, MwUrl *out);

/* Is the host on a list as mw.allowed_hosts has it?  An empty list allows any. */
extern bool mw_url_host_allowed(const char *host, const char *list);

#endif
