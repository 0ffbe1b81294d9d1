/*
 * keccak.c - Keccak-256 as Ethereum uses it, with the padding of before SHA-3.
 *
 * libsodium has no Keccak, and an address's checksum is all that needs it here;
 * inputs are shorter than one block of 136 bytes, so there is one permutation.
 */
#include "util/keccak.h"

#define ROUNDS	24
#define RATE	136

static inline uint64
rotl(uint64 x, int n)
{
	return n == 0 ? x : (x << n) | (x >> (64 - n));
}

static void
permute(uint64 *a)
{
	uint8		lfsr = 1;

	for (int round = 0; round < ROUNDS; round++)
	{
		uint64		c[5];
		uint64		b[25];
		int			x = 1,
					y = 0;

		/* theta */
		for (int i = 0; i < 5; i++)
			c[i] = a[i] ^ a[i + 5] ^ a[i + 10] ^ a[i + 15] ^ a[i + 20];
		for (int i = 0; i < 5; i++)
		{
			uint64		d = c[(i + 4) % 5] ^ rotl(c[(i + 1) % 5], 1);

			for (int k = 0; k < 25; k += 5)
				a[k + i] ^= d;
		}
		/* rho and pi */
		b[0] = a[0];
		for (int t = 0; t < 24; t++)
		{
			int			nx = y;
			int			ny = (2 * x + 3 * y) % 5;

			b[nx + 5 * ny] = rotl(a[x + 5 * y], (t + 1) * (t + 2) / 2 % 64);
			x = nx;
			y = ny;
		}
		/* chi */
		for (int k = 0; k < 25; k += 5)
			for (int i = 0; i < 5; i++)
				a[k + i] = b[k + i] ^ (~b[k + (i + 1) % 5] & b[k + (i + 2) % 5]);
		/* iota: the constants are bits of a shift register */
		for (int i = 0; i < 7; i++)
		{
			if (lfsr & 1)
				a[0] ^= UINT64CONST(1) << ((1 << i) - 1);
			lfsr = (uint8) ((lfsr << 1) ^ (lfsr & 0x80 ? 0x71 : 0));
		}
	}
}

/* mw_keccak256 hashes up to 135 bytes. */
void
mw_keccak256(const uint8 *in, int len, uint8 *out)
{
	uint64		a[25] = {0};
	uint8		block[RATE] = {0};

	Assert(len < RATE);
	memcpy(block, in, len);
	block[len] = 0x01;
	block[RATE - 1] |= 0x80;
	for (int i = 0; i < RATE; i++)
		a[i / 8] ^= (uint64) block[i] << (8 * (i % 8));
	permute(a);
	for (int i = 0; i < 32; i++)
		out[i] = (uint8) (a[i / 8] >> (8 * (i % 8)));
}
