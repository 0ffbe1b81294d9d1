/*
 * literals.h - which words must a match of a pattern contain, and where in a
 * text does any of many words stand.
 *
 * Together they are the prefilter for a long list of patterns: one pass over
 * the text finds the words, and only the patterns whose words occurred are run.
 */
#ifndef MW_LITERALS_H
#define MW_LITERALS_H

#include "postgres.h"
#include "nodes/pg_list.h"

/*
 * Words (char *, ASCII letters in lower case) of which every match of the
 * pattern contains at least one, whatever the case of its ASCII letters.  NIL
 * where the pattern does not say, or only words too short to select anything.
 */
extern List *mw_required_literals(const char *pattern);

typedef struct MwWords MwWords;

/* A machine that finds all words at once; word i is reported as bit ids[i]. */
extern MwWords *mw_words_make(char **words, const int *ids, int n, int nids);

/* Set in *found (a zeroed array of (nids + 63) / 64) the ids whose words stand in s; true when there is any. */
extern bool mw_words_find(const MwWords *w, const char *s, int len, uint64 *found);

#endif
