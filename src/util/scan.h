/*
 * scan.h - sixty-four bytes at a time: which of them lie in a range.
 *
 * The text stages look at every byte of a prompt once and at few of them twice.
 * The first look is a bit mask a block: with SSE2 (every x86-64) four compares,
 * elsewhere (or with MW_NO_SIMD) a plain loop with the same
 * result.
 */
#ifndef MW_SCAN_H
#define MW_SCAN_H

#include "postgres.h"
#include "port/pg_bitutils.h"

#if defined(__SSE2__) && !defined(MW_NO_SIMD)
#define MW_SSE2
#include <emmintrin.h>
#endif

#define MW_BLOCK 64

typedef struct MwBlock
{
#ifdef MW_SSE2
	__m128i		v[4];
#else
	uint8		b[MW_BLOCK];
#endif
} MwBlock;

/* Load up to 64 bytes; what is beyond n reads as NUL. */
static inline void
mw_block_load(MwBlock *blk, const char *p, int n)
{
#ifdef MW_SSE2
	char		tail[MW_BLOCK];

	if (unlikely(n < MW_BLOCK))
	{
		memset(tail, 0, sizeof(tail));
		memcpy(tail, p, n);
		p = tail;
	}
	blk->v[0] = _mm_loadu_si128((const __m128i *) p);
	blk->v[1] = _mm_loadu_si128((const __m128i *) (p + 16));
	blk->v[2] = _mm_loadu_si128((const __m128i *) (p + 32));
	blk->v[3] = _mm_loadu_si128((const __m128i *) (p + 48));
#else
	if (n < MW_BLOCK)
		memset(blk->b, 0, MW_BLOCK);
	memcpy(blk->b, p, Min(n, MW_BLOCK));
#endif
}

#ifdef MW_SSE2
/* -O2 alone would leave these loops be, at twice the time */
#define MW_BLOCK_MASK(expr) \
	do { \
		uint64		m_ = 0; \
		_Pragma("GCC unroll 4") \
		for (int k_ = 0; k_ < 4; k_++) \
		{ \
			__m128i		x = blk->v[k_]; \
			m_ |= (uint64) (uint32) _mm_movemask_epi8(expr) << (16 * k_); \
		} \
		return m_; \
	} while (0)
#endif

/* Bit i is set where byte i lies in lo..hi. */
static inline uint64
mw_block_range(const MwBlock *blk, uint8 lo, uint8 hi)
{
#ifdef MW_SSE2
	__m128i		l = _mm_set1_epi8((char) lo);
	__m128i		w = _mm_set1_epi8((char) (hi - lo));

	MW_BLOCK_MASK(_mm_cmpeq_epi8(_mm_min_epu8(_mm_sub_epi8(x, l), w), _mm_sub_epi8(x, l)));
#else
	uint64		m = 0;
	int			i;

	for (i = 0; i < MW_BLOCK; i++)
		m |= (uint64) ((uint8) (blk->b[i] - lo) <= (uint8) (hi - lo)) << i;
	return m;
#endif
}

/* Bit i is set where byte i lies in lo..hi, or is a, b, c or d: for hardly more work than two ranges. */
static inline uint64
mw_block_range_or(const MwBlock *blk, uint8 lo, uint8 hi, char a, char b, char c, char d)
{
#ifdef MW_SSE2
	__m128i		l = _mm_set1_epi8((char) lo);
	__m128i		w = _mm_set1_epi8((char) (hi - lo));
	__m128i		va = _mm_set1_epi8(a);
	__m128i		vb = _mm_set1_epi8(b);
	__m128i		vc = _mm_set1_epi8(c);
	__m128i		vd = _mm_set1_epi8(d);

	MW_BLOCK_MASK(_mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(_mm_sub_epi8(x, l), w), _mm_sub_epi8(x, l)),
											_mm_or_si128(_mm_cmpeq_epi8(x, va), _mm_cmpeq_epi8(x, vb))),
							   _mm_or_si128(_mm_cmpeq_epi8(x, vc), _mm_cmpeq_epi8(x, vd))));
#else
	return mw_block_range(blk, lo, hi) | mw_block_range(blk, (uint8) a, (uint8) a) | mw_block_range(blk, (uint8) b, (uint8) b) |
		mw_block_range(blk, (uint8) c, (uint8) c) | mw_block_range(blk, (uint8) d, (uint8) d);
#endif
}

/* Bit i is set where byte i is a or b. */
static inline uint64
mw_block_either(const MwBlock *blk, char a, char b)
{
#ifdef MW_SSE2
	__m128i		va = _mm_set1_epi8(a);
	__m128i		vb = _mm_set1_epi8(b);

	MW_BLOCK_MASK(_mm_or_si128(_mm_cmpeq_epi8(x, va), _mm_cmpeq_epi8(x, vb)));
#else
	return mw_block_range(blk, (uint8) a, (uint8) a) | mw_block_range(blk, (uint8) b, (uint8) b);
#endif
}

#ifdef MW_SSE2
#define MW_BLOCK_ANY(expr) \
	do { \
		__m128i		any_ = _mm_setzero_si128(); \
		_Pragma("GCC unroll 4") \
		for (int k_ = 0; k_ < 4; k_++) \
		{ \
			__m128i		x = blk->v[k_]; \
			any_ = _mm_or_si128(any_, expr); \
		} \
		return _mm_movemask_epi8(any_) != 0; \
	} while (0)
#endif

/* Whether any byte is a, b or below a third, which is not 0: a look that is cheaper than a mask, before one is made. */
static inline bool
mw_block_any_below(const MwBlock *blk, char a, char b, uint8 below)
{
#ifdef MW_SSE2
	__m128i		va = _mm_set1_epi8(a);
	__m128i		vb = _mm_set1_epi8(b);
	__m128i		top = _mm_set1_epi8((char) (below - 1));

	MW_BLOCK_ANY(_mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, va), _mm_cmpeq_epi8(x, vb)),
							  _mm_cmpeq_epi8(_mm_min_epu8(x, top), x)));
#else
	return (mw_block_either(blk, a, b) | mw_block_range(blk, 0, below - 1)) != 0;
#endif
}

/* Whether any byte is a, b or of a character that is not ASCII. */
static inline bool
mw_block_any_high_or(const MwBlock *blk, char a, char b)
{
#ifdef MW_SSE2
	__m128i		va = _mm_set1_epi8(a);
	__m128i		vb = _mm_set1_epi8(b);

	MW_BLOCK_ANY(_mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, va), _mm_cmpeq_epi8(x, vb)), x));
#else
	return (mw_block_either(blk, a, b) | mw_block_range(blk, 0x80, 0xff)) != 0;
#endif
}

/* Bit i is set where byte i is an ASCII letter. */
static inline uint64
mw_block_letters(const MwBlock *blk)
{
#ifdef MW_SSE2
	__m128i		bit = _mm_set1_epi8(0x20);
	__m128i		l = _mm_set1_epi8('a');
	__m128i		w = _mm_set1_epi8('z' - 'a');

	MW_BLOCK_MASK(_mm_cmpeq_epi8(_mm_min_epu8(_mm_sub_epi8(_mm_or_si128(x, bit), l), w),
								 _mm_sub_epi8(_mm_or_si128(x, bit), l)));
#else
	uint64		m = 0;
	int			i;

	for (i = 0; i < MW_BLOCK; i++)
		m |= (uint64) ((uint8) ((blk->b[i] | 0x20) - 'a') <= 'z' - 'a') << i;
	return m;
#endif
}

/* Bit i is set where byte i has the bit 0x20, which tells small letters from capital ones. */
static inline uint64
mw_block_small(const MwBlock *blk)
{
#ifdef MW_SSE2
	MW_BLOCK_MASK(_mm_slli_epi16(x, 2));
#else
	uint64		m = 0;

	for (int i = 0; i < MW_BLOCK; i++)
		m |= (uint64) ((blk->b[i] >> 5) & 1) << i;
	return m;
#endif
}

/* Whether any byte belongs to a character that is not ASCII */
static inline bool
mw_block_any_high(const MwBlock *blk)
{
#ifdef MW_SSE2
	return _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(blk->v[0], blk->v[1]), _mm_or_si128(blk->v[2], blk->v[3]))) != 0;
#else
	return mw_block_range(blk, 0x80, 0xff) != 0;
#endif
}

/* Bit i is set where byte i belongs to a character that is not ASCII. */
static inline uint64
mw_block_high(const MwBlock *blk)
{
#ifdef MW_SSE2
	MW_BLOCK_MASK(x);
#else
	return mw_block_range(blk, 0x80, 0xff);
#endif
}

/* The bits of a block that n bytes fill. */
static inline uint64
mw_block_valid(int n)
{
	return n >= MW_BLOCK ? ~UINT64CONST(0) : (UINT64CONST(1) << n) - 1;
}

#endif							/* MW_SCAN_H */
