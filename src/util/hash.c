/*
 * hash.c - libsodium's BLAKE2b-16 over length-prefixed parts.
 *
 * Every part is written as its length (8 bytes, little endian) and its bytes,
 * an absent one as a length that no text can have, so that ("ab", "c") and
 * ("a", "bc") and (NULL, "") never meet.  No state outlives a call; libsodium
 * itself is made ready when mw is loaded.
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "util/hash.h"

#define MW_ABSENT_PART	PG_UINT64_MAX

/* mw_hash_start begins a hash; with a key of 32 bytes nobody without it can make one. */
void
mw_hash_start(MwHash *h, const uint8 *key32)
{
	crypto_generichash_init(h, key32, key32 ? 32 : 0, sizeof(MwKey));
}

/* mw_hash_part adds one part; NULL is a part of its own kind. */
void
mw_hash_part(MwHash *h, const void *p, size_t len)
{
	uint8		part[8 + 120];		/* a short part goes in with its length, at the price of one */
	uint64		n = p ? (uint64) len : MW_ABSENT_PART;
	size_t		with = p && len <= sizeof(part) - 8 ? len : 0;

	for (int i = 0; i < 8; i++)
		part[i] = (uint8) (n >> (8 * i));
	if (with > 0)
		memcpy(part + 8, p, with);
	crypto_generichash_update(h, part, 8 + with);
	if (p && len > with)
		crypto_generichash_update(h, (const uint8 *) p + with, len - with);
}

/* mw_hash_text adds a C string or, for NULL, an absent part. */
void
mw_hash_text(MwHash *h, const char *s)
{
	mw_hash_part(h, s, s ? strlen(s) : 0);
}

/* mw_hash_end returns the 16 bytes. */
MwKey
mw_hash_end(MwHash *h)
{
	MwKey		key;

	crypto_generichash_final(h, key.b, sizeof(key.b));
	return key;
}

/* mw_hash_salted is one BLAKE2b-16 over the bytes, with the salt in its parameters. */
MwKey
mw_hash_salted(const MwKey *salt, const void *p, size_t len)
{
	MwKey		hash;

	StaticAssertStmt(sizeof(MwKey) == crypto_generichash_blake2b_SALTBYTES, "a key is a salt");
	crypto_generichash_blake2b_salt_personal(hash.b, sizeof(hash.b), p, len, NULL, 0, salt->b, NULL);
	return hash;
}

/* mw_hash_short is SipHash of 128 bits. */
MwKey
mw_hash_short(const MwKey *key, const void *p, size_t len)
{
	MwKey		hash;

	StaticAssertStmt(sizeof(MwKey) == crypto_shorthash_siphashx24_KEYBYTES &&
					 sizeof(MwKey) == crypto_shorthash_siphashx24_BYTES, "SipHash fits");
	crypto_shorthash_siphashx24(hash.b, p, len, key->b);
	return hash;
}

/* mw_hash_private is Poly1305: universal hashing will do where no hash is ever shown. */
MwKey
mw_hash_private(const uint8 *version, int use, const void *p, size_t len)
{
	static uint8 secret[crypto_onetimeauth_KEYBYTES];
	static bool made = false;
	crypto_onetimeauth_state h;
	MwKey		hash;

	StaticAssertStmt(sizeof(MwKey) == crypto_onetimeauth_BYTES, "Poly1305 fits");
	if (!made)
		randombytes_buf(secret, sizeof(secret));
	made = true;
	crypto_onetimeauth_init(&h, secret);
	crypto_onetimeauth_update(&h, version, 16);
	crypto_onetimeauth_update(&h, (const unsigned char *) &use, sizeof(use));
	crypto_onetimeauth_update(&h, p, len);
	crypto_onetimeauth_final(&h, hash.b);
	return hash;
}

/* mw_hash_private_slot: texts that differ in a letter differ in few bits of such a hash, and would put each other out. */
uint32
mw_hash_private_slot(const MwKey *key, uint32 slots)
{
	return hash_bytes(key->b, sizeof(key->b)) % slots;
}

/* mw_key_hex spells a key as 32 hex digits. */
char *
mw_key_hex(const MwKey *key)
{
	static const char digits[] = "0123456789abcdef";
	char	   *hex = palloc(2 * sizeof(key->b) + 1);
	int			i;

	for (i = 0; i < (int) sizeof(key->b); i++)
	{
		hex[2 * i] = digits[key->b[i] >> 4];
		hex[2 * i + 1] = digits[key->b[i] & 15];
	}
	hex[2 * sizeof(key->b)] = '\0';
	return hex;
}

/* mw_key_bytea makes the value that tables store. */
bytea *
mw_key_bytea(const MwKey *key)
{
	bytea	   *b = palloc(VARHDRSZ + sizeof(key->b));

	SET_VARSIZE(b, VARHDRSZ + sizeof(key->b));
	memcpy(VARDATA(b), key->b, sizeof(key->b));
	return b;
}
