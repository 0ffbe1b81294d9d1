/*
 * ngrams.c - the hashed n-grams of a normalised text.
 *
 * One pass, no memory of its own, no branch that depends on weights: what the
 * learned guard (learned.c) adds up in a backend and what train/learn.py counts
 * (through train/ngrams) is this file, so that the two cannot drift apart.
 *
 * A token is a word (letters and digits; a digit counts as 0), one character of
 * a script without blanks, a line break, or a run of one mark.  Of each token
 * there are itself, the pair with the one before, the pair that leaves one out,
 * and its four-byte pieces with its borders.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "stage/ngrams.h"

/* longest token that is hashed as a whole; the rest of it is the next token */
#define MAX_TOKEN	40
/* so many hashes a token has at most */
#define PER_TOKEN	(3 + MAX_TOKEN)

/* What kinds of n-gram a hash is of: equal words of two kinds must not meet */
enum
{
	KIND_WORD = 0x51, KIND_PAIR = 0x9d, KIND_GAP = 0x2b, KIND_PIECE = 0xe7
};

static inline uint32
mixed(uint32 h)
{
	h ^= h >> 16;
	h *= 0x85ebca6b;
	h ^= h >> 13;
	h *= 0xc2b2ae35;
	return (h ^ (h >> 16)) & ((1 << MW_NGRAM_BITS) - 1);
}

#define is_word(c) ((unsigned char) (((c) | 0x20) - 'a') < 26 || (unsigned char) ((c) - '0') < 10)

/* Scripts whose words are not parted by blanks: each character is a token */
static inline bool
stands_alone(uint32 c)
{
	return (c >= 0x2e80 && c <= 0x9fff) || (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xe00 && c <= 0xeff) ||
		(c >= 0xf900 && c <= 0xfaff) || c >= 0x10000;
}

/* mw_ngrams cuts, hashes and hands out. */
void
mw_ngrams(const char *s, int len, MwNgramChunk fn, void *arg)
{
	uint32		hashes[MW_NGRAM_CHUNK * PER_TOKEN];
	int			last[MW_NGRAM_CHUNK];
	int			ends[MW_NGRAM_CHUNK];
	int			n = 0;
	int			ntokens = 0;
	int			begin = 0;		/* of the chunk */
	uint32		before = 1,		/* hash of the token before, and of the one before that */
				before2 = 2;
	int			i = 0;

	while (i < len)
	{
		unsigned char c = s[i];
		int			from = i;
		uint32		h = KIND_WORD;
		uint32		four = ' ';	/* the last four bytes, the border first */

		if (c == ' ' || c == '\t' || c == '\r')
		{
			i++;
			continue;
		}
		if (is_word(c) || c >= 0x80)
		{
			while (i < len && i - from < MAX_TOKEN)
			{
				c = s[i];
				if (c >= 0x80)
				{
					int			m = pg_utf_mblen((const unsigned char *) s + i);
					uint32		u;

					if (i + m > len)
						m = len - i;
					u = m > 1 ? utf8_to_unicode((const unsigned char *) s + i) : c;
					if (stands_alone(u))
					{
						if (i > from)
							break;
						h = (h ^ u) * 0x01000193;
						i += m;
						break;
					}
					h = (h ^ u) * 0x01000193;
					four = (four << 8) ^ (u & 0xffff);
					i += m;
				}
				else if (is_word(c))
				{
					c = c <= '9' ? '0' : c | 0x20;
					h = (h ^ c) * 0x01000193;
					four = (four << 8) | c;
					i++;
				}
				else
					break;
				if (i - from >= 3)
					hashes[n++] = mixed(four * 0x9e3779b1 + KIND_PIECE);
			}
			if (i - from >= 3)
				hashes[n++] = mixed(((four << 8) | ' ') * 0x9e3779b1 + KIND_PIECE);
		}
		else
		{
			while (i < len && s[i] == (char) c && i - from < MAX_TOKEN)
				i++;
			h = (h ^ c ^ (i - from > 2 ? 0x100 : 0)) * 0x01000193;
		}
		hashes[n++] = mixed(h);
		hashes[n++] = mixed((before * 31 ^ h) * 0x9e3779b1 + KIND_PAIR);
		hashes[n++] = mixed((before2 * 131 ^ h) * 0x9e3779b1 + KIND_GAP);
		before2 = before;
		before = h;
		last[ntokens] = n;
		ends[ntokens] = i;
		if (++ntokens == MW_NGRAM_CHUNK)
		{
			fn(arg, hashes, last, ntokens, ends, begin, i);
			n = ntokens = 0;
			begin = i;
		}
	}
	if (ntokens > 0)
		fn(arg, hashes, last, ntokens, ends, begin, len);
}
