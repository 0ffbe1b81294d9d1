/*
 * hints.c - what a text hints at having been hidden in it.
 *
 * A few instructions for 64 bytes; only a hint makes a further view (decode.c),
 * so that honest prose pays for none.  Of prose two or three of 64 bytes are
 * neither letter nor blank: those are looked at one by one, which costs less than
 * to compare all of them with everything that is asked for.
 */
#include "postgres.h"

#include "stage/normalise.h"
#include "util/scan.h"

#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)

/* What is asked for of bytes that are no letters: where in a block they stand */
typedef struct Marks
{
	uint64		digit;
	uint64		leet;			/* $ and @ */
	uint64		percent;
	uint64		entity;			/* & */
	uint64		backslash;
	uint64		solid;			/* + and / */
} Marks;

/* more than so many are found by comparing the block */
#define ONE_BY_ONE	8

static inline void
find_marks(const MwBlock *blk, const char *s, uint64 places, Marks *m)
{
	memset(m, 0, sizeof(*m));
	for (int i = 0; i < ONE_BY_ONE; i++)
	{
		uint64		place = places & -places;

		if (places == 0)
			return;
		switch (s[pg_rightmost_one_pos64(places)])
		{
			case '0':
			case '1':
			case '2':
			case '3':
			case '4':
			case '5':
			case '6':
			case '7':
			case '8':
			case '9':
				m->digit |= place;
				break;
			case '$':
			case '@':
				m->leet |= place;
				break;
			case '%':
				m->percent |= place;
				break;
			case '&':
				m->entity |= place;
				break;
			case '\\':
				m->backslash |= place;
				break;
			case '+':
			case '/':
				m->solid |= place;
				break;
			default:
				break;
		}
		places ^= place;
	}
	m->digit = mw_block_range(blk, '0', '9');
	m->leet = mw_block_either(blk, '$', '@');
	m->percent = mw_block_range(blk, '%', '%');
	m->entity = mw_block_range(blk, '&', '&');
	m->backslash = mw_block_range(blk, '\\', '\\');
	m->solid = mw_block_either(blk, '+', '/');
}

/* mw_view_hints looks for what may have been hidden. */
int
mw_view_hints(const MwView *v)
{
	int			hints = 0;
	int			lone = 0;		/* letters with no letter beside them, two bytes after another such */
	int			leet = 0;		/* digits and $ @ with a letter right behind */
	int			percent = 0;
	int			backslashes = 0;
	int			humps = 0;		/* capital letters right behind small ones */
	int			run = 0;		/* of letters and digits at the end of the last block */
	int			numbers = 0;
	uint64		letter_before = 0;
	int			at;

	for (at = 0; at < v->len; at += MW_BLOCK)
	{
		MwBlock		blk;
		Marks		m;
		uint64		letter,
					solid,
					high;
		uint64		next_letter,
					alone,
					capital,
					others,
					some;

		mw_block_load(&blk, v->s + at, v->len - at);
		letter = mw_block_letters(&blk);
		high = mw_block_high(&blk);
		next_letter = at + MW_BLOCK < v->len && is_letter(v->s[at + MW_BLOCK]) ? UINT64CONST(1) << 63 : 0;

		alone = letter & ~((letter << 1) | letter_before) & ~((letter >> 1) | next_letter) & ~(high << 1) & ~(high >> 1);
		some = alone & (alone << 2);
		if (some)
			lone += pg_popcount64(some);
		capital = letter & ~mw_block_small(&blk);
		some = capital & ((letter & ~capital) << 1);
		if (some)
			humps += pg_popcount64(some);
		letter_before = letter >> 63;
		solid = letter;
		others = ~(letter | high | mw_block_range(&blk, ' ', ' ')) & mw_block_valid(v->len - at);
		if (others)
		{
			find_marks(&blk, v->s + at, others, &m);
			solid |= m.digit | m.solid;
			if (m.digit)
				numbers += pg_popcount64(m.digit & ~(m.digit << 1));
			if (m.digit | m.leet)
				leet += pg_popcount64((m.digit | m.leet) & ((letter >> 1) | next_letter));
			if (m.percent)
				percent += pg_popcount64(m.percent);
			if (m.entity)
				hints |= MW_HINT_ENTITY;
			if (m.backslash)
				backslashes += pg_popcount64(m.backslash);
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
	if (leet >= 3)
		hints |= MW_HINT_LEET;
	if (percent >= 3)
		hints |= MW_HINT_PERCENT;
	if (backslashes >= 4)
		hints |= MW_HINT_BACKSLASH;
	if (numbers >= 12)
		hints |= MW_HINT_NUMBERS;
	return hints;
}
