/*
 * http_text.c - URLs, header fields and error messages of http.c.
 *
 * Pure: no state, nothing raises or palloc's, since libcurl's callbacks call it.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <strings.h>
#include <string.h>

#include "gateway/http.h"
#include "gateway/http_text.h"

/* A wish for longer than this is kept as this: the retry stage has its own, lower limit (68 years) */
#define MAX_WISH_MS		(PG_INT32_MAX * INT64CONST(1000))

/* The last second of the year 9999: HTTP writes years with four digits */
#define LAST_DATE		INT64CONST(253402300799)

/*
 * libcurl's own parser decides what the host is, so that we judge the string it
 * will connect to: it takes 0x7f000001 and 127.1 for addresses too.
 */
const char *
mw_http_url_check(const char *url, char *host, size_t hostlen, bool *literal, bool *https)
{
	CURLU	   *u = curl_url();
	char	   *scheme = NULL;
	char	   *name = NULL;
	char	   *port = NULL;
	char	   *user = NULL;
	char	   *password = NULL;
	const char *why = NULL;
	struct in_addr a4;

	if (u == NULL)
		return "out of memory";
	if (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_HOST, &name, 0) != CURLUE_OK)
		why = "the URL is malformed";
	else if (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0)
		why = "the URL is neither http nor https";
	else if (curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK ||
			 curl_url_get(u, CURLUPART_PASSWORD, &password, 0) == CURLUE_OK)
		why = "the URL holds a user name or password";
	else
	{
		*https = strcasecmp(scheme, "https") == 0;
		*literal = name[0] == '[' || inet_pton(AF_INET, name, &a4) == 1;
		if (curl_url_get(u, CURLUPART_PORT, &port, 0) == CURLUE_OK)
			snprintf(host, hostlen, "%s:%s", name, port);
		else
			strlcpy(host, name, hostlen);
		mw_http_printable(host);
	}
	curl_free(scheme);
	curl_free(name);
	curl_free(port);
	curl_free(user);
	curl_free(password);
	curl_url_cleanup(u);
	return why;
}

bool
mw_http_field(const char *line, size_t n, const char *name, char *value, size_t valuelen)
{
	size_t		namelen = strlen(name);
	const char *p = line + namelen + 1;
	const char *end = line + n;
	size_t		len;

	if (n <= namelen || line[namelen] != ':' || strncasecmp(line, name, namelen) != 0)
		return false;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r' || end[-1] == '\n'))
		end--;
	len = Min((size_t) (end - p), valuelen - 1);
	memcpy(value, p, len);
	value[len] = '\0';
	return true;
}

/* By hand, since strtod takes "nan", "1e308", hexadecimal and the locale's comma. */
int64
mw_http_decimal(const char *s, int64 scale)
{
	int64		whole = 0;
	int64		fraction = 0;
	int64		unit = scale;
	bool		digits = false;
	bool		rest = false;

	for (; *s >= '0' && *s <= '9'; s++)
	{
		digits = true;
		if (whole <= MAX_WISH_MS)
			whole = whole * 10 + (*s - '0');
	}
	if (digits && *s == '.')
		for (s++; *s >= '0' && *s <= '9'; s++)
		{
			if (unit >= 10)
			{
				unit /= 10;
				fraction += (*s - '0') * unit;
			}
			else if (*s != '0')
				rest = true;
		}
	if (!digits || *s != '\0')
		return -1;
	if (whole >= MAX_WISH_MS / scale)
		return MAX_WISH_MS;
	return whole * scale + fraction + (rest ? 1 : 0);	/* never shorter than asked */
}

/*
 * Retry-After: seconds, or a date as HTTP writes it.  curl_getdate() reads those
 * and much else ("12"), so only what holds a time of day is given to it.
 */
int64
mw_http_retry_after(const char *value, int64 now)
{
	int64		ms;
	time_t		at;

	while (*value == ' ' || *value == '\t')
		value++;
	ms = mw_http_decimal(value, 1000);
	if (ms >= 0)
		return ms;
	if (strchr(value, ':') == NULL)
		return -1;
	at = curl_getdate(value, NULL);
	if (at == (time_t) -1 || (int64) at > LAST_DATE)
		return -1;				/* it takes longer years, too */
	if ((int64) at <= now)
		return 0;
	return Min(((int64) at - now) * 1000, MAX_WISH_MS);
}

/* Control characters and what is not ASCII become blanks: the text goes into logs and error messages. */
void
mw_http_printable(char *s)
{
	for (; *s != '\0'; s++)
		if (*s < ' ' || *s > '~')
			*s = ' ';
}
