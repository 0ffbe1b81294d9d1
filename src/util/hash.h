/*
 * hash.h - libsodium's BLAKE2b, over length-prefixed parts so that no two
 * lists of parts can be confused.
 */
#ifndef MW_HASH_H
#define MW_HASH_H

#include "mw.h"
#include <sodium.h>

typedef crypto_generichash_state MwHash;

extern void mw_hash_start(MwHash *h, const uint8 *key32);	/* key NULL: unkeyed; 16-byte result */
extern void mw_hash_part(MwHash *h, const void *p, size_t len); /* p NULL: an absent part, unlike an empty one */
extern void mw_hash_text(MwHash *h, const char *s);	/* NULL allowed */
extern MwKey mw_hash_end(MwHash *h);
/* Of bytes as they are, in one call; the salt counts like bytes before them and costs nothing */
extern MwKey mw_hash_salted(const MwKey *salt, const void *p, size_t len);
/* Of few bytes, keyed, at a tenth of the price: nobody can make it, or two that meet, without the key */
extern MwKey mw_hash_short(const MwKey *key, const void *p, size_t len);
/*
 * Of a text and the version of its rules (16 bytes), for what a process remembers for itself: keyed at random, at a
 * third of the price of BLAKE2b, and good only while nobody is shown one.
 */
typedef enum MwPrivateUse
{
	MW_PRIVATE_VERDICT,			/* and what is added: the source of the text */
	MW_PRIVATE_PLACES = 16
} MwPrivateUse;

extern MwKey mw_hash_private(const uint8 *version, int use, const void *p, size_t len);
extern uint32 mw_hash_private_slot(const MwKey *key, uint32 slots);
extern char *mw_key_hex(const MwKey *key);	/* 32 hex digits, palloc'd */
extern bytea *mw_key_bytea(const MwKey *key);

#endif
