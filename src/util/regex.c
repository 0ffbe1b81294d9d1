/*
 * regex.c - PCRE2 with JIT, compiled once a process and pattern.
 *
 * The table of compiled patterns lives in TopMemoryContext (the patterns
 * themselves in malloc'd memory of PCRE2) and only ever grows: a pattern is a
 * row of an administrator's, so there are few, and what was compiled in the
 * postmaster is inherited by every backend through fork, JIT code included.
 * One match context, one block of match data and one JIT stack serve the whole
 * process; nothing here is re-entrant, and nothing here calls back.
 *
 * All matching is on valid UTF-8 (the database is UTF8), so PCRE2's own check
 * is skipped; whoever hands in a part of a text cuts it between characters.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "util/regex.h"

/*
 * How much work one search may be.  Built-in patterns need a few thousand steps
 * at worst; a pattern of an administrator's that backtracks without end on a
 * hostile text stops here, after some tens of milliseconds.
 */
#define MW_MATCH_LIMIT		2000000
#define MW_DEPTH_LIMIT		10000
#define MW_HEAP_LIMIT_KB	16384
#define MW_JIT_STACK_MIN	(32 * 1024)
#define MW_JIT_STACK_MAX	(1024 * 1024)

struct MwRegex
{
	pcre2_code *code;
	bool		jit;
};

typedef struct RegexKey
{
	uint32		hash;
	uint32		flags;
	const char *pattern;
} RegexKey;

typedef struct RegexEntry
{
	RegexKey	key;
	MwRegex		re;
} RegexEntry;

static HTAB *regex_table = NULL;
static pcre2_match_context *match_context = NULL;
static pcre2_match_data *match_data = NULL;

static uint32
regex_key_hash(const void *key, Size keysize)
{
	return ((const RegexKey *) key)->hash;
}

static int
regex_key_compare(const void *a, const void *b, Size keysize)
{
	const RegexKey *ka = a;
	const RegexKey *kb = b;

	if (ka->flags != kb->flags)
		return 1;
	return strcmp(ka->pattern, kb->pattern);
}

/* regex_init makes what all matches of this process share. */
static void
regex_init(void)
{
	if (match_context == NULL)
	{
		pcre2_jit_stack *stack;

		match_context = pcre2_match_context_create(NULL);
		if (match_context == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory")));
		pcre2_set_match_limit(match_context, MW_MATCH_LIMIT);
		pcre2_set_depth_limit(match_context, MW_DEPTH_LIMIT);
		pcre2_set_heap_limit(match_context, MW_HEAP_LIMIT_KB);
		/* without a stack of our own JIT code has 32 kB of the machine's: enough for all but odd patterns */
		stack = pcre2_jit_stack_create(MW_JIT_STACK_MIN, MW_JIT_STACK_MAX, NULL);
		if (stack != NULL)
			pcre2_jit_stack_assign(match_context, NULL, stack);
	}
	if (match_data == NULL)
	{
		/* only the span of the whole match is ever asked for */
		match_data = pcre2_match_data_create(1, NULL);
		if (match_data == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory")));
	}
	if (regex_table == NULL)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(RegexKey);
		ctl.entrysize = sizeof(RegexEntry);
		ctl.hash = regex_key_hash;
		ctl.match = regex_key_compare;
		ctl.hcxt = TopMemoryContext;
		regex_table = hash_create("mw compiled patterns", 512, &ctl,
								  HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	}
}

/* mw_regex_get compiles a pattern, or finds it compiled. */
MwRegex *
mw_regex_get(const char *pattern, int flags, char **why)
{
	RegexKey	key;
	RegexEntry *entry;
	char	   *copy;
	pcre2_code *code;
	uint32		options = PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
	int			err;
	PCRE2_SIZE	where;

	regex_init();
	key.pattern = pattern;
	key.flags = flags;
	key.hash = hash_bytes((const unsigned char *) pattern, strlen(pattern)) ^ (uint32) flags;
	entry = hash_search(regex_table, &key, HASH_FIND, NULL);
	if (entry != NULL)
		return &entry->re;

	if (flags & MW_REGEX_CASELESS)
		options |= PCRE2_CASELESS;
	/* without looking for a character that a match must hold: it may be far off, at every try again */
	if (flags & MW_REGEX_ANCHORED)
		options |= PCRE2_ANCHORED | PCRE2_NO_START_OPTIMIZE;
	if (flags & MW_REGEX_FROM)
		options |= PCRE2_USE_OFFSET_LIMIT;
	code = pcre2_compile((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED, options,
						 &err, &where, NULL);
	if (code == NULL)
	{
		if (why != NULL)
		{
			char		message[160];

			pcre2_get_error_message(err, (PCRE2_UCHAR *) message, sizeof(message));
			*why = psprintf("%s (at byte %d of the pattern)", message, (int) where + 1);
		}
		return NULL;
	}

	/* an ERROR (out of memory) from here on would leak the code, once */
	copy = MemoryContextStrdup(TopMemoryContext, pattern);
	key.pattern = copy;
	entry = hash_search(regex_table, &key, HASH_ENTER, NULL);
	entry->re.code = code;
	/* no JIT (a hardened kernel, an odd CPU): the interpreter does the same, ten times slower */
#ifdef USE_VALGRIND
	entry->re.jit = false;		/* it reads whole vectors, over the ends of texts too, and memcheck cannot know which bytes count */
#else
	entry->re.jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
#endif
	return &entry->re;
}

/* mw_regex_find finds the next match at or after start. */
int
mw_regex_find(MwRegex *re, const char *s, int len, int start, int *from, int *to)
{
	int			rc;
	PCRE2_SIZE *span;

	if (start > len)
		return 0;
	if (re->jit)
		rc = pcre2_jit_match(re->code, (PCRE2_SPTR) s, len, start, 0,
							 match_data, match_context);
	else
		rc = pcre2_match(re->code, (PCRE2_SPTR) s, len, start, PCRE2_NO_UTF_CHECK,
						 match_data, match_context);
	if (rc < 0)
		return rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
	span = pcre2_get_ovector_pointer(match_data);
	/* \K in a lookaround can turn a span round; such a match is none */
	if (span[1] < span[0])
		return 0;
	*from = (int) span[0];
	*to = (int) span[1];
	return 1;
}

/* mw_regex_find_from finds the next match that begins at start..last. */
int
mw_regex_find_from(MwRegex *re, const char *s, int len, int start, int last, int *from, int *to)
{
	int			rc;

	pcre2_set_offset_limit(match_context, last);
	rc = mw_regex_find(re, s, len, start, from, to);
	pcre2_set_offset_limit(match_context, PCRE2_UNSET);
	return rc;
}
