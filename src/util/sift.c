/*
 * sift.c - the first look at a text for the words of patterns (words.c).
 *
 * Of many words the four bytes are looked up in a table by their hash: a
 * multiplication and a load for each place, without branches, since which places
 * pass is nothing that a processor could learn.
 *
 * A few words, the guards of one tenant such as, are told by the halves of their
 * bytes: they are dealt out to eight buckets, and a shuffle says for 32 places at
 * a time in which buckets a byte's half occurs at all.  What is left after four
 * bytes are looked at is rare.  It takes AVX2, which is asked of the processor
 * when a finder is made; without it few words are treated as many.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "util/scan.h"
#include "util/sift.h"

#if defined(MW_SSE2) && defined(__x86_64__)
#define MW_AVX2
#include <immintrin.h>
#endif

#define TABLE_BITS		16
/* beyond this the buckets hold too much of prose */
#define FEW				32
#define BUCKETS			8

struct MwSift
{
	bool		few;
	/* few words: by place and half of the byte, the buckets that it occurs in */
	uint8		low[4][16];
	uint8		high[4][16];
	/* many: by hash, 1 where it is a word's; the memory ends before it where they are few */
	uint8		table[FLEXIBLE_ARRAY_MEMBER];
};

/*
 * Both halves times a number, added: what pmaddwd does to four at once.  The
 * middle of the sum is the hash; the top hardly differs between letters.
 */
#define HASH_LOW		27459
#define HASH_HIGH		23117

static inline uint32
hash4(uint32 x)
{
	int32		sum = (int32) (int16) (uint16) x * HASH_LOW + (int32) (int16) (uint16) (x >> 16) * HASH_HIGH;

	return ((uint32) sum >> 8) & ((1 << TABLE_BITS) - 1);
}

static int
by_number(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

static bool
has_avx2(void)
{
#ifdef MW_AVX2
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

/* mw_sift_make enters the words. */
MwSift *
mw_sift_make(const uint32 *fours, int n)
{
	bool		few = n <= FEW && has_avx2();
	MwSift	   *sift = palloc0(offsetof(MwSift, table) + (few ? 0 : 1 << TABLE_BITS));

	sift->few = few;
	if (few)
	{
		uint32		sorted[FEW];

		/* neighbours in order share bytes, and so a bucket of them holds fewer */
		memcpy(sorted, fours, sizeof(uint32) * n);
		qsort(sorted, n, sizeof(uint32), by_number);
		for (int i = 0; i < n; i++)
			for (int k = 0; k < 4; k++)
			{
				uint8		c = (uint8) (sorted[i] >> (8 * k));
				uint8		bucket = 1 << (i * BUCKETS / n);

				sift->low[k][c & 15] |= bucket;
				sift->high[k][c >> 4] |= bucket;
			}
	}
	else
		for (int i = 0; i < n; i++)
			sift->table[hash4(fours[i])] = 1;
	return sift;
}

#ifdef MW_AVX2
/* At least 32 places */
__attribute__((target("avx2")))
static int
sift_few(const MwSift *sift, const char *s, int at, int stop, uint16 *maybe)
{
	const __m256i fold = _mm256_set1_epi8(0x20);
	const __m256i half = _mm256_set1_epi8(0x0f);
	const int	from = at;
	__m256i		low[4];
	__m256i		high[4];
	int			n = 0;

	for (int k = 0; k < 4; k++)
	{
		low[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) sift->low[k]));
		high[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) sift->high[k]));
	}
	for (; at < stop; at += 32)
	{
		__m256i		in = _mm256_set1_epi8(-1);
		uint32		none;
		uint32		left;
		int			before = 0;

		/* the last places, some of them for the second time */
		if (at > stop - 32)
		{
			before = at - (stop - 32);
			at = stop - 32;
		}
		for (int k = 0; k < 4; k++)
		{
			__m256i		v = _mm256_or_si256(_mm256_loadu_si256((const __m256i *) (s + at + k)), fold);
			__m256i		l = _mm256_shuffle_epi8(low[k], _mm256_and_si256(v, half));
			__m256i		h = _mm256_shuffle_epi8(high[k], _mm256_and_si256(_mm256_srli_epi16(v, 4), half));

			in = _mm256_and_si256(in, _mm256_and_si256(l, h));
		}
		none = (uint32) _mm256_movemask_epi8(_mm256_cmpeq_epi8(in, _mm256_setzero_si256()));
		left = ~none & (~(uint32) 0 << before);
		while (left)
		{
			maybe[n++] = (uint16) (at - from + pg_rightmost_one_pos32(left));
			left &= left - 1;
		}
	}
	return n;
}
#endif

/* mw_sift looks. */
int
mw_sift(const MwSift *sift, const char *s, int at, int stop, uint16 *maybe)
{
	const int	from = at;
	int			n = 0;

	if (sift->few)
	{
#ifdef MW_AVX2
		if (stop - at >= 32)
			return sift_few(sift, s, at, stop, maybe);
#endif
		for (; at < stop; at++)
		{
			uint8		in = 0xff;

			for (int k = 0; k < 4; k++)
			{
				uint8		c = (uint8) s[at + k] | 0x20;

				in &= sift->low[k][c & 15] & sift->high[k][c >> 4];
			}
			if (in)
				maybe[n++] = (uint16) (at - from);
		}
		return n;
	}

#ifdef MW_SSE2
	{
		const __m128i fold = _mm_set1_epi8(0x20);
		const __m128i mask = _mm_set1_epi32((1 << TABLE_BITS) - 1);
		const __m128i mul = _mm_set1_epi32(HASH_HIGH << 16 | HASH_LOW);

#define SIFT(v, k, lane) \
	do { \
		uint32		h_ = (uint32) _mm_extract_epi16(v, 2 * (lane)); \
		maybe[n] = (uint16) (at - from + 4 * (lane) + (k)); \
		n += sift->table[h_]; \
	} while (0)

		for (; at + 16 <= stop; at += 16)
			for (int k = 0; k < 4; k++)
			{
				__m128i		v = _mm_or_si128(_mm_loadu_si128((const __m128i *) (s + at + k)), fold);

				v = _mm_and_si128(_mm_srli_epi32(_mm_madd_epi16(v, mul), 8), mask);
				SIFT(v, k, 0);
				SIFT(v, k, 1);
				SIFT(v, k, 2);
				SIFT(v, k, 3);
			}
#undef SIFT
	}
#endif
	for (; at < stop; at++)
	{
		maybe[n] = (uint16) (at - from);
		n += sift->table[hash4(mw_sift_load(s + at))];
	}
	return n;
}
