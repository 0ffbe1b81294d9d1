/*
 * hints.c - what a text hints at having been hidden in it.
 *
 * A few instructions for 64 bytes; only a hint makes a further view (decode.c),
 * so that honest prose pays for none.
 */
#include "postgres.h"

#include "stage/normalise.h"
#include "util/scan.h"

#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)

/* mw_view_hints looks for what may have been hidden. */
int
mw_view_hints(const MwView *v)
{
	int			hints = 0;
	int			lone = 0;		/* letters with no letter beside them, two bytes after another such */
	int			leet = 0;		/* digits and $ @ with a letter right behind */
	int			percent = 0;
	int			humps = 0;		/* capital letters right behind small ones */
	int			run = 0;		/* of letters and digits at the end of the last block */
	int			numbers = 0;
	uint64		letter_before = 0;
	int			at;

	for (at = 0; at < v->len; at += MW_BLOCK)
	{
		MwBlock		blk;
		uint64		letter,
					digit,
					mark,
					solid,
					high;
		uint64		next_letter,
					alone,
					capital,
					some;

		mw_block_load(&blk, v->s + at, v->len - at);
		letter = mw_block_letters(&blk);
		high = mw_block_high(&blk);
		next_letter = at + MW_BLOCK < v->len && is_letter(v->s[at + MW_BLOCK]) ? UINT64CONST(1) << 63 : 0;

		alone = letter & ~((letter << 1) | letter_before) & ~((letter >> 1) | next_letter) & ~(high << 1) & ~(high >> 1);
		some = alone & (alone << 2);
		if (some)
			lone += pg_popcount64(some);
		capital = mw_block_range(&blk, 'A', 'Z');
		some = capital & ((letter & ~capital) << 1);
		if (some)
			humps += pg_popcount64(some);
		letter_before = letter >> 63;
		solid = letter;
		/* $ to + and / to @: digits, and all the marks that are asked for; most blocks of prose have none */
		if (mw_block_range(&blk, '$', '+') | mw_block_range(&blk, '/', '@'))
		{
			uint64		pc = mw_block_range(&blk, '%', '&');

			digit = mw_block_range(&blk, '0', '9');
			mark = mw_block_either(&blk, '$', '@') | digit;
			leet += pg_popcount64(mark & ((letter >> 1) | next_letter));
			numbers += pg_popcount64(digit & ~(digit << 1));
			if (pc)
			{
				uint64		both = pc;

				pc = mw_block_range(&blk, '%', '%');
				percent += pg_popcount64(pc);
				if (pc != both)
					hints |= MW_HINT_ENTITY;
			}
			solid |= digit | mw_block_either(&blk, '+', '/');
		}
		/* a run of MW_PIECE_MIN and more without a blank: at least sixteen ones in a row, or across the border */
		if (!(hints & MW_HINT_SOLID))
		{
			uint64		x = solid;
			int			head = solid == ~UINT64CONST(0) ? 64 : pg_rightmost_one_pos64(~solid);

			if (run + head >= MW_PIECE_MIN)
				hints |= MW_HINT_SOLID;
			x &= x >> 1;
			x &= x >> 2;
			x &= x >> 4;
			x &= x >> 8;
			if (x)
				hints |= MW_HINT_SOLID;
			run = solid == ~UINT64CONST(0) ? run + 64 : 63 - pg_leftmost_one_pos64(~solid);
		}
	}
	if (humps >= 4)
		hints |= MW_HINT_CAMEL;
	if (lone >= 4)
		hints |= MW_HINT_SPACED;
	if (leet >= 4)
		hints |= MW_HINT_LEET;
	if (percent >= 3)
		hints |= MW_HINT_PERCENT;
	if (numbers >= 12)
		hints |= MW_HINT_NUMBERS;
	return hints;
}
