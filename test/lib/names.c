/*
 * names.c - a name server that misbehaves on order, for tests: preloaded, it
 * answers getaddrinfo() for names that end in ".mwtest" and passes on the rest.
 *
 *	nothere		no such name
 *	servfail	the name server has failed
 *	silent		it does not answer, for longer than any resolver waits
 *	slow		it answers after a third of a second
 *	refusing	29 addresses that refuse connections, then a good one
 *	dropping	29 addresses (127.0.2.1 and on) that the test makes swallow them, then a good one
 *	metadata	the address at which clouds hand out credentials
 *	mixed		that one first, then a good one
 *
 * libcurl calls it in a thread of its own: nothing here is shared.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int (*GetAddrInfo) (const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* Put the addresses of a numeric host behind what is there */
static int
add(GetAddrInfo real, const char *ip, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	struct addrinfo numeric = *hints;
	struct addrinfo **at = list;
	int			rc;

	numeric.ai_flags |= AI_NUMERICHOST;
	numeric.ai_family = AF_INET;
	while (*at != NULL)
		at = &(*at)->ai_next;
	rc = real(ip, service, &numeric, at);
	if (rc != 0)
		*at = NULL;
	return rc;
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	GetAddrInfo real = (GetAddrInfo) dlsym(RTLD_NEXT, "getaddrinfo");
	struct addrinfo none = {0};
	const char *end = node ? strstr(node, ".mwtest") : NULL;
	size_t		len;
	char		ip[32];

	if (end == NULL)
		return real(node, service, hints, res);
	if (hints == NULL)
		hints = &none;
	len = end - node;
	*res = NULL;
#define IS(name) (len == strlen(name) && strncmp(node, name, len) == 0)
	if (IS("servfail"))
		return EAI_AGAIN;
	if (IS("silent"))
	{
		sleep(20);
		return EAI_AGAIN;
	}
	if (IS("slow"))
	{
		usleep(333000);
		return add(real, "127.0.0.1", service, hints, res);
	}
	if (IS("refusing") || IS("dropping"))
	{
		for (int i = 1; i < 30; i++)
		{
			snprintf(ip, sizeof(ip), "127.0.%d.%d", IS("refusing") ? 1 : 2, i);
			add(real, ip, service, hints, res);
		}
		return add(real, "127.0.0.1", service, hints, res);
	}
	if (IS("metadata"))
		return add(real, "169.254.169.254", service, hints, res);
	if (IS("mixed"))
	{
		add(real, "169.254.169.254", service, hints, res);
		return add(real, "127.0.0.1", service, hints, res);
	}
	return EAI_NONAME;
}
