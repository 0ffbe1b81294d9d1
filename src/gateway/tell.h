/*
 * tell.h - who is told of decisions and expiries.
 */
#ifndef MW_TELL_H
#define MW_TELL_H

#include "mw.h"

extern void mw_tell_init(void);	/* from _PG_init while preloading */

/* At commit of this transaction: wake whoever waits for decisions of a session (a hash of it) ... */
extern void mw_tell_decided(uint32 session);
/* ... and see to it that a gateway tells of an expiry */
extern void mw_tell_expiry(void);

/* Sleep at most so long, or until a decision of such a session commits; between begin and end no decision is missed.  False without shared memory. */
extern void mw_tell_wait_begin(uint32 session);
extern bool mw_tell_wait(uint32 session, int64 ms);
extern void mw_tell_wait_end(void);

#define MW_CHANNEL_PREFIX "mw_"	/* before the hexadecimal digits of a MwKey */

/* What is sent on a tenant's channel: kind interrupt, decision or expiry */
extern char *mw_interrupt_payload(const char *kind, const char *interrupt_id);
/* The name of that channel (policy/channel.c sets it) */
extern char *(*mw_channel_name) (const char *tenant);

/* ---------- in the gateway ---------- */

extern bool mw_expiry_pending(void);	/* it stays for that */
extern long mw_expiry_ms(void);	/* until the next one is to be told, -1: there is none */
extern void mw_expiry_begin(void);	/* a gateway has come, perhaps for somebody whose LISTEN is about to commit */
extern void mw_expiry_look(void);	/* look again now */
extern bool mw_expiry_tell(void);	/* in a transaction of its own */
extern void mw_expiry_failed(void);

#endif
