/*
 * keccak.h - Keccak-256 of what is shorter than a block.
 */
#ifndef MW_KECCAK_H
#define MW_KECCAK_H

#include "postgres.h"

extern void mw_keccak256(const uint8 *in, int len, uint8 *out);	/* len <= 135, out: 32 bytes */

#endif
