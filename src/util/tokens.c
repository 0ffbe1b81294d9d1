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

int64
mw_tokens_of_text(const char *s, int len)
{
	int64		letters = 0;
	int64		runs = 0;		/* of letters */
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
		blank = mw_block_range(&blk, ' ', ' ');
		letters += pg_popcount64(letter);
		runs += pg_popcount64(letter & ~((letter << 1) | letter_before));
		twice = blank & ((blank << 1) | blank_before);
		if (twice)
			blanks += pg_popcount64(twice);
		others += pg_popcount64(valid & ~(letter | high | blank));
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
	return (letters + runs + 1) / 2 + others + (blanks + 1) / 2 + wide;
}
