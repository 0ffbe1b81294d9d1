/*
 * validate_coin.c - addresses of crypto currencies, by their own checksums:
 * base58check (two rounds of SHA-256), bech32 and bech32m, EIP-55 and Monero's
 * (Keccak-256).
 */
#include "util/validate_int.h"

#include <sodium.h>

#include "util/keccak.h"

static const char bitcoin_alphabet[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
static const char ripple_alphabet[] = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz";

/* Decode base58 into bytes, the first byte first; how many, -1 where it is none or more than max. */
static int
base58(const char *s, int len, const char *alphabet, uint8 *out, int max)
{
	int			n = 0;			/* bytes in use, at the end of out */
	int			zeros = 0;

	memset(out, 0, max);
	while (zeros < len && s[zeros] == alphabet[0])
		zeros++;
	for (int i = 0; i < len; i++)
	{
		const char *p = memchr(alphabet, s[i], 58);
		int			carry;
		int			k = 0;

		if (p == NULL)
			return -1;
		carry = (int) (p - alphabet);
		for (; k < n || carry; k++)
		{
			if (k == max)
				return -1;
			carry += 58 * out[max - 1 - k];
			out[max - 1 - k] = (uint8) carry;
			carry >>= 8;
		}
		n = k;
	}
	if (zeros + n > max)
		return -1;
	memmove(out + zeros, out + max - n, n);
	memset(out, 0, zeros);
	return zeros + n;
}

static int
base58check(const char *s, int len, const char *alphabet, int shortest, int longest, int version)
{
	uint8		b[48];
	uint8		hash[crypto_hash_sha256_BYTES];
	int			n = base58(s, len, alphabet, b, sizeof(b));

	if (n < shortest || n > longest || (version >= 0 && b[0] != version))
		return 0;
	crypto_hash_sha256(hash, b, n - 4);
	crypto_hash_sha256(hash, hash, sizeof(hash));
	return memcmp(hash, b + n - 4, 4) == 0 ? len : 0;
}

static int
v_base58check(const char *s, int len)
{
	/* version of one byte or two, 20 bytes, checksum */
	return base58check(s, len, bitcoin_alphabet, 25, 26, -1);
}

static int
v_base58ripple(const char *s, int len)
{
	return base58check(s, len, ripple_alphabet, 25, 26, -1);
}

/* wif: a key of Bitcoin's, 32 bytes, and a mark where its public one is compressed */
static int
v_wif(const char *s, int len)
{
	return base58check(s, len, bitcoin_alphabet, 37, 38, 0x80);
}

/* bech32: and bech32m, which differs in one constant. */
static int
v_bech32(const char *s, int len)
{
	static const char alphabet[] = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
	static const uint32 generator[] = {0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3};
	uint32		sum = 1;
	int			one = -1;
	bool		upper = false,
				lower = false;

	if (len < 14 || len > 120)
		return 0;
	for (int i = 0; i < len; i++)
	{
		upper |= s[i] >= 'A' && s[i] <= 'Z';
		lower |= s[i] >= 'a' && s[i] <= 'z';
		if (s[i] == '1')
			one = i;
	}
	if ((upper && lower) || one < 1 || len - one < 8)
		return 0;
#define STEP(v) \
	do { \
		uint32		top_ = sum >> 25; \
		sum = (sum & 0x1ffffff) << 5 ^ (v); \
		for (int g_ = 0; g_ < 5; g_++) \
			if ((top_ >> g_) & 1) \
				sum ^= generator[g_]; \
	} while (0)
#define SMALL(c) ((c) >= 'A' && (c) <= 'Z' ? (c) + 32 : (c))
	for (int i = 0; i < one; i++)
		STEP((uint32) SMALL(s[i]) >> 5);
	STEP(0);
	for (int i = 0; i < one; i++)
		STEP((uint32) SMALL(s[i]) & 31);
	for (int i = one + 1; i < len; i++)
	{
		const char *p = memchr(alphabet, SMALL(s[i]), 32);

		if (p == NULL)
			return 0;
		STEP((uint32) (p - alphabet));
	}
#undef STEP
#undef SMALL
	return sum == 1 || sum == 0x2bc830a3 ? len : 0;
}

/* ethereum: mixed case must be EIP-55's; one case has no checksum. */
static int
v_ethereum(const char *s, int len)
{
	uint8		low[40];
	uint8		hash[32];
	bool		upper = false,
				lower = false;
	bool		other = false;

	if (len != 42)
		return 0;
	for (int i = 0; i < 40; i++)
	{
		char		c = s[i + 2];

		upper |= c >= 'A' && c <= 'F';
		lower |= c >= 'a' && c <= 'f';
		low[i] = (uint8) (c >= 'A' && c <= 'F' ? c + 32 : c);
		other |= low[i] != low[0];
	}
	if (!other)
		return 0;				/* nobody's: all zeros */
	if (!(upper && lower))
		return len;
	mw_keccak256(low, 40, hash);
	for (int i = 0; i < 40; i++)
	{
		int			nibble = i % 2 ? hash[i / 2] & 15 : hash[i / 2] >> 4;

		if (low[i] >= 'a' && (nibble >= 8) != (s[i + 2] < 'a'))
			return 0;
	}
	return len;
}

/* monero: eleven characters of base58 make eight bytes, the last seven make five. */
static int
v_monero(const char *s, int len)
{
	uint8		out[69];
	uint8		hash[32];

	if (len != 95)
		return 0;
	for (int block = 0; block < 9; block++)
	{
		int			chars = block < 8 ? 11 : 7;
		int			bytes = block < 8 ? 8 : 5;
		unsigned __int128 v = 0;

		for (int i = 0; i < chars; i++)
		{
			const char *p = memchr(bitcoin_alphabet, s[block * 11 + i], 58);

			if (p == NULL)
				return 0;
			v = v * 58 + (unsigned) (p - bitcoin_alphabet);
		}
		if (v >> (8 * bytes))
			return 0;
		for (int i = 0; i < bytes; i++)
			out[block * 8 + i] = (uint8) (v >> (8 * (bytes - 1 - i)));
	}
	mw_keccak256(out, 65, hash);
	return memcmp(hash, out + 65, 4) == 0 ? len : 0;
}

const MwValidatorEntry mw_validators_coin[] = {
	{"base58check", v_base58check}, {"base58ripple", v_base58ripple}, {"bech32", v_bech32},
	{"ethereum", v_ethereum}, {"monero", v_monero}, {"wif", v_wif}, {NULL, NULL},
};
