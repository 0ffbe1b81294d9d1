/*
 * ngrams.h - a text as the learned guard counts it: hashed word and character
 * n-grams, in chunks of a few tokens.
 */
#ifndef MW_NGRAMS_H
#define MW_NGRAMS_H

#include "postgres.h"

/* Changing anything here or in ngrams.c makes weights of before worthless: count up. */
#define MW_NGRAM_VERSION	1
#define MW_NGRAM_BITS		18	/* of a hash: so many weights there are, 2 to the power of it */
#define MW_NGRAM_CHUNK		16	/* tokens of a chunk */


/*
 * Called for each chunk of MW_NGRAM_CHUNK tokens (the last may have fewer): the hashes
 * of all n-grams that end in it; by token how many hashes there are up to its end (the
 * last three are the token itself, the pair and the pair that leaves one out), and
 * where in the text that is; and where the chunk stands.
 */
typedef void (*MwNgramChunk) (void *arg, const uint32 *hashes, const int *last, int ntokens, const int *ends, int from, int to);

/* The n-grams of a normalised text */
extern void mw_ngrams(const char *s, int len, MwNgramChunk fn, void *arg);

#endif
