/*
 * literals.h - which words must a match of a pattern contain, and which
 * patterns have all of theirs in a text.
 *
 * The prefilter for a long list of patterns: one pass over the text looks for
 * the words, and only patterns that can match at all are run.
 */
#ifndef MW_LITERALS_H
#define MW_LITERALS_H

#include "postgres.h"
#include "nodes/pg_list.h"

/* so many sets of words a pattern has at most */
#define MW_LITERAL_SETS	4

/* A word, and how many bytes behind the beginning of a match it begins */
typedef struct MwLiteral
{
	const char *word;
	int			lo,
				hi;
} MwLiteral;

/*
 * Sets of words (a List of Lists of MwLiteral *, at most MW_LITERAL_SETS of them,
 * the most telling first): every match of the pattern contains a word of each
 * set at one of its places, whatever the case of its letters.  NIL where the
 * pattern does not say.  *longest: bytes that a match, with what it looks at on
 * its sides, can have at most; -1 where there is no bound worth anything.
 */
extern List *mw_required_literals(const char *pattern, int *longest);

/* words.c: how rare four bytes are in prose, and the place of the rarest four of a word */
extern int	mw_word_rarity(const char *s);
extern int	mw_word_best_four(const char *word, int len);

typedef struct MwWords MwWords;

/*
 * Make a finder for n patterns from their sets (NIL for none: always runs) and
 * bounds, and for further single words, numbered on from n up to nids.  Current
 * memory context.
 */
extern MwWords *mw_words_make(List **sets, const int *longest, int n,
							  const char *const *words, const int *word_ids, int nwords, int nids);

/*
 * What the finder calls for each place where a match of pattern "id" can begin:
 * at first to last; what it takes and looks at ends before "end".  Places of one
 * pattern come in order of the text, those of different ones in any.
 */
typedef void (*MwWordsFound) (void *arg, int id, int first, int last, int end);

/* Search a text; the single words that it holds are set in *held, by number from n on. */
extern void mw_words_find(const MwWords *w, const char *s, int len, uint64 *held, MwWordsFound fn, void *arg);

#endif
