/*
 * address.h - which addresses the gateway may call.
 */
#ifndef MW_ADDRESS_H
#define MW_ADDRESS_H

#include <sys/socket.h>

typedef enum MwAddressKind
{
	MW_ADDRESS_PUBLIC,
	MW_ADDRESS_PRIVATE,			/* loopback and private networks: by a literal address, or with allow_private */
	MW_ADDRESS_NEVER			/* cloud metadata, link-local, unspecified, multicast, reserved */
} MwAddressKind;

extern MwAddressKind mw_address_kind(const struct sockaddr *sa);
extern MwAddressKind mw_address_kind_text(const char *ip);	/* a numeric address; what is none is NEVER */

#endif
