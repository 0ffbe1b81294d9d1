/*
 * address.c - which addresses the gateway may call.
 *
 * A server's base_url comes from a superuser, but what a host name resolves to
 * comes from whoever runs its name server, at the moment of the connection and
 * anew at each one (DNS rebinding).  So the judgement is about the address that
 * a socket is about to be opened to, never about the name, and http.c asks at
 * that moment.  The kinds:
 *
 *	NEVER	link-local and the cloud providers' metadata addresses, which hand
 *			out credentials to whoever can reach them; the unspecified address
 *			(the kernel takes it for loopback), multicast, broadcast, reserved.
 *	PRIVATE	loopback, the private networks, carrier-grade NAT, benchmarks'
 *			network: reachable only from inside, so somebody's internal service.
 *			An administrator who writes such an address down means it; a name
 *			that resolves to one needs the server option allow_private.
 *
 * IPv6 can carry an IPv4 address inside (mapped, compatible, NAT64, 6to4); the
 * inner one is judged then, or each rule would have a second spelling.
 *
 * Pure: no state, no locks.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "gateway/address.h"

typedef struct Block4
{
	uint32		net;
	int			bits;
	MwAddressKind kind;
} Block4;

#define IP4(a, b, c, d)	(((uint32) (a) << 24) | ((b) << 16) | ((c) << 8) | (d))

/* The first match counts: single addresses stand before the networks around them. */
static const Block4 blocks4[] = {
	{IP4(100, 100, 100, 200), 32, MW_ADDRESS_NEVER},	/* metadata: Alibaba */
	{IP4(168, 63, 129, 16), 32, MW_ADDRESS_NEVER},	/* Azure's host agent */
	{IP4(192, 0, 0, 192), 32, MW_ADDRESS_NEVER},	/* metadata: Oracle */
	{IP4(169, 254, 0, 0), 16, MW_ADDRESS_NEVER},	/* link-local, metadata of most clouds */
	{IP4(0, 0, 0, 0), 8, MW_ADDRESS_NEVER}, /* "this host" */
	{IP4(224, 0, 0, 0), 3, MW_ADDRESS_NEVER},	/* multicast, reserved, broadcast */
	{IP4(127, 0, 0, 0), 8, MW_ADDRESS_PRIVATE},
	{IP4(10, 0, 0, 0), 8, MW_ADDRESS_PRIVATE},
	{IP4(172, 16, 0, 0), 12, MW_ADDRESS_PRIVATE},
	{IP4(192, 168, 0, 0), 16, MW_ADDRESS_PRIVATE},
	{IP4(100, 64, 0, 0), 10, MW_ADDRESS_PRIVATE},	/* carrier-grade NAT */
	{IP4(192, 0, 0, 0), 24, MW_ADDRESS_PRIVATE},	/* IETF protocol assignments */
	{IP4(198, 18, 0, 0), 15, MW_ADDRESS_PRIVATE},	/* benchmarks */
};

static const uint8 aws_metadata6[16] = {0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54};
static const uint8 gcp_metadata6[16] = {0xfd, 0x20, 0x00, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54};

static MwAddressKind
kind4(uint32 ip)
{
	for (size_t i = 0; i < sizeof(blocks4) / sizeof(blocks4[0]); i++)
	{
		uint32		mask = 0xffffffffU << (32 - blocks4[i].bits);

		if ((ip & mask) == blocks4[i].net)
			return blocks4[i].kind;
	}
	return MW_ADDRESS_PUBLIC;
}

static uint32
inner4(const uint8 *p)
{
	return IP4(p[0], p[1], p[2], p[3]);
}

static MwAddressKind
kind6(const uint8 *a)
{
	static const uint8 zero[16] = {0};
	static const uint8 nat64[12] = {0x00, 0x64, 0xff, 0x9b};

	if (memcmp(a, zero, 15) == 0)
		return a[15] == 1 ? MW_ADDRESS_PRIVATE : MW_ADDRESS_NEVER;	/* ::1, :: and ::2 to ::ff */
	if (memcmp(a, zero, 10) == 0 && a[10] == 0xff && a[11] == 0xff)
		return kind4(inner4(a + 12));	/* ::ffff:a.b.c.d */
	if (memcmp(a, zero, 12) == 0)
		return kind4(inner4(a + 12));	/* ::a.b.c.d */
	if (memcmp(a, nat64, 12) == 0)
		return kind4(inner4(a + 12));	/* 64:ff9b::a.b.c.d */
	if (a[0] == 0x20 && a[1] == 0x02)
		return kind4(inner4(a + 2));	/* 2002:aabb:ccdd:: */
	if (a[0] == 0x00 && a[1] == 0x64 && a[2] == 0xff && a[3] == 0x9b)
		return MW_ADDRESS_PRIVATE;	/* 64:ff9b:1::/48, a site's own NAT64 */
	if (a[0] == 0xff)
		return MW_ADDRESS_NEVER;	/* multicast */
	if (a[0] == 0xfe && (a[1] & 0xc0) == 0x80)
		return MW_ADDRESS_NEVER;	/* link-local */
	if (memcmp(a, aws_metadata6, 16) == 0 || memcmp(a, gcp_metadata6, 16) == 0)
		return MW_ADDRESS_NEVER;
	if (a[0] == 0xfe && (a[1] & 0xc0) == 0xc0)
		return MW_ADDRESS_PRIVATE;	/* site-local, deprecated */
	if ((a[0] & 0xfe) == 0xfc)
		return MW_ADDRESS_PRIVATE;	/* unique local */
	return MW_ADDRESS_PUBLIC;
}

MwAddressKind
mw_address_kind(const struct sockaddr *sa)
{
	/* copied, since libcurl's sockaddr has no alignment to rely on */
	if (sa->sa_family == AF_INET)
	{
		struct sockaddr_in in;

		memcpy(&in, sa, sizeof(in));
		return kind4(ntohl(in.sin_addr.s_addr));
	}
	if (sa->sa_family == AF_INET6)
	{
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof(in6));
		return kind6(in6.sin6_addr.s6_addr);
	}
	return MW_ADDRESS_NEVER;
}

MwAddressKind
mw_address_kind_text(const char *ip)
{
	struct in_addr a4;
	struct in6_addr a6;

	if (inet_pton(AF_INET, ip, &a4) == 1)
		return kind4(ntohl(a4.s_addr));
	if (inet_pton(AF_INET6, ip, &a6) == 1)
		return kind6(a6.s6_addr);
	return MW_ADDRESS_NEVER;
}
