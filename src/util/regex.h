/*
 * regex.h - PCRE2 with JIT: compiled once a process and pattern (in the
 * postmaster for the built-in ones, where mw is preloaded), UTF mode, match
 * limits so that no pattern and no text can run away.
 */
#ifndef MW_REGEX_H
#define MW_REGEX_H

#include "mw.h"

typedef struct MwRegex MwRegex;

#define MW_REGEX_CASELESS	0x1
#define MW_REGEX_ANCHORED	0x4	/* matches where the search starts or not at all */
#define MW_REGEX_FROM		0x2	/* for mw_regex_find_from */

/* Compile, or find compiled.  NULL with *why (palloc'd) set where the pattern is wrong.  Lives as long as the process. */
extern MwRegex *mw_regex_get(const char *pattern, int flags, char **why);

/*
 * Find the next match in s[0..len) at or after start.  s is valid UTF-8.
 * Returns 1 with the byte span, 0 for none, -1 when the match limit was hit.
 */
extern int	mw_regex_find(MwRegex *re, const char *s, int len, int start, int *from, int *to);
/* The same for a match that begins at start..last; for patterns compiled with MW_REGEX_FROM. */
extern int	mw_regex_find_from(MwRegex *re, const char *s, int len, int start, int last, int *from, int *to);

#endif
