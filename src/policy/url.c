/*
 * url.c - the base_url of a server: what it may look like, and its host.
 *
 * Stricter than what libcurl takes, so that both read the same host: no user
 * information, query or fragment, nothing outside printable ASCII, and a host
 * whose last label is a number must be an address in four plain decimals (the
 * forms 0xA9FEA9FE and 2852039166 are other spellings of an address that the
 * gateway never calls).  Which address a name resolves to is the gateway's to
 * check, when it connects.
 */
#include "mw.h"

#include <arpa/inet.h>
#include <ctype.h>

#include "gateway/address.h"
#include "policy/url.h"

static bool
is_port(const char *s, int len)
{
	return len >= 1 && len <= 5 && strspn(s, "0123456789") >= len && atoi(s) >= 1 && atoi(s) <= 65535;
}

const char *
mw_url_parse(const char *url, MwUrl *out)
{
	const char *p;
	const char *end;
	const char *host_end;
	const char *label;
	unsigned char address[sizeof(struct in6_addr)];

	for (p = url; *p; p++)
	{
		if ((unsigned char) *p <= 0x20 || (unsigned char) *p >= 0x7f || strchr("\\\"<>^`{|}", *p))
			return "It contains white space or a character that a URL has to escape.";
		if (*p == '?' || *p == '#')
			return "It must not have a query or a fragment.";
	}

	if (pg_strncasecmp(url, "https://", 8) == 0)
	{
		out->https = true;
		p = url + 8;
	}
	else if (pg_strncasecmp(url, "http://", 7) == 0)
	{
		out->https = false;
		p = url + 7;
	}
	else
		return "It must begin with https:// or http://.";

	end = p + strcspn(p, "/");
	if (memchr(p, '@', end - p))
		return "It must not hold a user name or password; the key belongs into a user mapping.";

	if (*p == '[')
	{
		host_end = memchr(p, ']', end - p);
		if (host_end == NULL)
			return "Its IPv6 address has no closing bracket.";
		out->host = pnstrdup(p + 1, host_end - p - 1);
		out->literal = true;
		if (inet_pton(AF_INET6, out->host, address) != 1)
			return "What stands in brackets is no IPv6 address.";
		host_end++;
	}
	else
	{
		host_end = memchr(p, ':', end - p);
		if (host_end == NULL)
			host_end = end;
		out->host = pnstrdup(p, host_end - p);
		for (char *c = out->host; *c; c++)
		{
			if (!isalnum((unsigned char) *c) && !strchr("-._", *c))
				return "Its host has a character that no host name has.";
			*c = pg_tolower((unsigned char) *c);
		}
		if (out->host[0] == '\0' || out->host[0] == '.')
			return "It names no host.";

		/* as the last label goes, so does the whole: a name or an address */
		label = strrchr(out->host, '.');
		if (label && label[1] == '\0')
			return "Its host must not end with a point.";
		label = label ? label + 1 : out->host;
		out->literal = strspn(label, "0123456789") == strlen(label) || strncmp(label, "0x", 2) == 0;
		if (out->literal && inet_pton(AF_INET, out->host, address) != 1)
			return "Its host looks like an address and is none in four decimals.";
	}

	if (host_end < end && (*host_end != ':' || !is_port(host_end + 1, end - host_end - 1)))
		return "Its port is no number from 1 to 65535.";

	if (out->literal && mw_address_kind_text(out->host) == MW_ADDRESS_NEVER)
		return "Link-local, unspecified, multicast and reserved addresses are never called.";
	return NULL;
}

bool
mw_url_host_allowed(const char *host, const char *list)
{
	const char *p = list;
	bool		any = true;
	size_t		hostlen = strlen(host);

	while (p && *p)
	{
		const char *start;
		size_t		len;

		p += strspn(p, ", \t\n");
		start = p;
		len = strcspn(p, ", \t\n");
		p += len;
		if (len == 0)
			break;
		any = false;
		if (len == hostlen && pg_strncasecmp(start, host, len) == 0)
			return true;
		if (start[0] == '.' && len < hostlen && pg_strncasecmp(start, host + hostlen - len, len) == 0)
			return true;
	}
	return any;
}
