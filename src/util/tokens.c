/*
 * tokens.c - an upper-bound count of tokens, without any model's vocabulary.
 *
 * What a reservation needs is a number that the bill does not exceed, cheaply.
 * Byte-pair encoders (cl100k, o200k, Llama 3, Qwen) make of ordinary text one
 * token of about four letters; of the worst of it (random letters, base64) one
 * of about two; of digits one of up to three, older ones one each; of a mark one
 * each; a single blank joins the word behind it.  So counted are
 *
 *	 half of each run of letters, rounded up, each digit, each mark,
 *	 each line break, each blank that follows a blank, by two halves;
 *	 of other scripts one for a character of two bytes, two of three
 *	 (Chinese takes up to two, Thai and Hindi about one), four of four;
 *
 * about twice the truth for English, and more than it for nearly every text.
 * "Nearly": a vocabulary of single bytes (one token a byte of Amharic, say) can
 * need more; the provider's usage then settles the difference as excess.
 */
#include "mw.h"

#include "util/tokens.h"
#include "util/scan.h"

/* Bits of two words together, the second with no two beside each other: so that their pairs can be added */
static inline int
popcount_both(uint64 x, uint64 y)
{
	const uint64 pairs = UINT64CONST(0x5555555555555555);
	const uint64 fours = UINT64CONST(0x3333333333333333);
	uint64		n = x - ((x >> 1) & pairs) + ((y | (y >> 1)) & pairs);

	n = (n & fours) + ((n >> 2) & fours);
	n = (n + (n >> 4)) & UINT64CONST(0x0f0f0f0f0f0f0f0f);
	return (int) ((n * UINT64CONST(0x0101010101010101)) >> 56);
}

int64
mw_tokens_of_text(const char *s, int len)
{
	int64		halves = 0;		/* letters, and runs of them */
	int64		others = 0;		/* digits, marks, breaks: one each */
	int64		blanks = 0;		/* that follow a blank */
	int64		wide = 0;
	uint64		letter_before = 0;
	uint64		blank_before = 0;
	int			at;

	for (at = 0; at < len; at += MW_BLOCK)
	{
		MwBlock		blk;
		uint64		valid = mw_block_valid(len - at);
		uint64		letter,
					high,
					blank,
					twice;

		mw_block_load(&blk, s + at, len - at);
		letter = mw_block_letters(&blk);
		high = mw_block_high(&blk);
		blank = mw_block_either(&blk, ' ', ' ');
		halves += popcount_both(letter, letter & ~((letter << 1) | letter_before));
		twice = blank & ((blank << 1) | blank_before);
		if (twice)
			blanks += pg_popcount64(twice);
		others += popcount_both(valid & ~(letter | high | blank), 0);
		letter_before = letter >> 63;
		blank_before = blank >> 63;
		if (high)
		{
			/* lead bytes by length: 110xxxxx one, 1110xxxx two, 11110xxx four */
			wide += pg_popcount64(mw_block_range(&blk, 0xc0, 0xdf));
			wide += 2 * pg_popcount64(mw_block_range(&blk, 0xe0, 0xef));
			wide += 4 * pg_popcount64(mw_block_range(&blk, 0xf0, 0xf7));
		}
	}
	return (halves + 1) / 2 + others + (blanks + 1) / 2 + wide;
}
