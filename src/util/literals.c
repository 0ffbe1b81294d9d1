/*
 * literals.c - required words of a pattern, and one pass for all of them.
 *
 * The reader of patterns knows just enough of PCRE2's syntax to be safe: what
 * it does not understand requires nothing, so such a pattern is always run.
 *
 * The finder takes of each word the four bytes that are rarest in prose, and
 * looks at each place of the text whether its next four bytes are any word's: a
 * multiplication and one bit of a small table, without a chain from one place
 * to the next, which is several times faster than an automaton.  What passes is
 * compared in full.  Letters are compared without regard to ASCII case (the bit
 * 0x20 is ignored in all bytes: more may pass, never less).  Searching neither
 * allocates nor calls anything.
 */
#include "postgres.h"

#include <ctype.h>
#include <limits.h>

#include "lib/stringinfo.h"
#include "port/pg_bitutils.h"

#include "util/literals.h"

/* the finder looks at four bytes */
#define MW_MIN_LITERAL	4
/* sets with more words than this are not worth looking for */
#define MW_MAX_LITERALS 160

/* ---------- reading a pattern ---------- */

/* One set; "score": how telling it is */
typedef struct Req
{
	List	   *words;
	int			score;
} Req;

/* All sets that hold for a piece of a pattern, best first */
typedef struct Reqs
{
	Req			set[MW_LITERAL_SETS];
	int			n;
} Reqs;

typedef struct Reader
{
	const char *p;
	bool		lost;			/* something was not understood */
	int			depth;
} Reader;

static Reqs read_alternation(Reader *r);

/*
 * How rare the four bytes are in prose, roughly: letters by frequency.  Only
 * the speed depends on it.
 */
static int
rarity(const char *s)
{
	static const char common[] = " etaoinshrdlu";
	int			score = 0;
	int			i;

	for (i = 0; i < 4; i++)
	{
		const char *c = strchr(common, s[i] | ((s[i] >= 'A' && s[i] <= 'Z') ? 0x20 : 0));

		score += c && *c ? (int) (c - common) : 16;
	}
	return score;
}

static int
best_four(const char *word, int len)
{
	int			best = 0;
	int			i;

	for (i = 1; i + 4 <= len; i++)
		if (rarity(word + i) > rarity(word + best))
			best = i;
	return best;
}

/* A set is as telling as its least telling word, and the less the more words it has. */
static int
set_score(List *words)
{
	int			worst = INT_MAX;
	ListCell   *lc;

	foreach(lc, words)
	{
		const char *w = lfirst(lc);
		int			len = strlen(w);

		worst = Min(worst, Min(len, 8) * 8 + rarity(w + best_four(w, len)));
	}
	return worst * 4 - list_length(words);
}

/* Add a set that holds as well. */
static void
add_set(Reqs *reqs, Req set)
{
	int			i;

	if (set.words == NIL)
		return;
	if (reqs->n == MW_LITERAL_SETS && reqs->set[reqs->n - 1].score >= set.score)
		return;
	i = Min(reqs->n, MW_LITERAL_SETS - 1);
	while (i > 0 && reqs->set[i - 1].score < set.score)
	{
		reqs->set[i] = reqs->set[i - 1];
		i--;
	}
	reqs->set[i] = set;
	reqs->n = Min(reqs->n + 1, MW_LITERAL_SETS);
}

/* The word read so far becomes a set of its own. */
static void
end_word(Reqs *reqs, StringInfo word)
{
	if (word->len >= MW_MIN_LITERAL)
	{
		Req			set;

		set.words = list_make1(pnstrdup(word->data, word->len));
		set.score = set_score(set.words);
		add_set(reqs, set);
	}
	resetStringInfo(word);
}

/* Skip a bracket expression; r->p stands behind its '['. */
static void
skip_class(Reader *r)
{
	if (*r->p == '^')
		r->p++;
	if (*r->p == ']')
		r->p++;
	while (*r->p && *r->p != ']')
	{
		if (*r->p == '\\' && r->p[1])
			r->p++;
		else if (*r->p == '[' && r->p[1] == ':')
		{
			const char *end = strstr(r->p, ":]");

			if (end)
				r->p = end + 1;
		}
		r->p++;
	}
	if (*r->p)
		r->p++;
	else
		r->lost = true;
}

/* Read a quantifier if there is one: the least number of times, 1 without one. */
static int
read_quantifier(Reader *r, bool *present)
{
	int			least = 1;

	*present = true;
	switch (*r->p)
	{
		case '?':
		case '*':
			least = 0;
			r->p++;
			break;
		case '+':
			r->p++;
			break;
		case '{':
			/* {,n} is a quantifier for newer libraries and text for older ones */
			if (r->p[1] == ',')
			{
				r->lost = true;
				return 0;
			}
			if (r->p[1] < '0' || r->p[1] > '9')
			{
				*present = false;
				return 1;		/* a literal brace */
			}
			least = atoi(r->p + 1);
			while (*r->p && *r->p != '}')
				r->p++;
			if (*r->p)
				r->p++;
			break;
		default:
			*present = false;
			return 1;
	}
	if (*r->p == '?' || *r->p == '+')
		r->p++;
	return least;
}

/* Read a group; r->p stands behind its '('.  False where it was lost. */
static bool
read_group(Reader *r, Reqs *outer)
{
	Reqs		inner;
	bool		ignore = false;
	bool		quantified;
	int			i;

	if (*r->p == '*')
		return false;			/* verbs */
	if (*r->p == '?')
	{
		r->p++;
		if (*r->p == ':' || *r->p == '>' || *r->p == '|')
			r->p++;
		else if (*r->p == '=' || *r->p == '!')
		{
			ignore = true;
			r->p++;
		}
		else if (*r->p == '<' && (r->p[1] == '=' || r->p[1] == '!'))
		{
			ignore = true;
			r->p += 2;
		}
		else
			return false;		/* names, conditions, options: not worth the code */
	}
	if (++r->depth > 50)
		return false;
	inner = read_alternation(r);
	r->depth--;
	if (*r->p != ')' || r->lost)
		return false;
	r->p++;
	if (read_quantifier(r, &quantified) > 0 && !ignore)
		for (i = 0; i < inner.n; i++)
			add_set(outer, inner.set[i]);
	return true;
}

/* Read one sequence, up to '|', ')' or the end. */
static Reqs
read_sequence(Reader *r)
{
	Reqs		reqs = {0};
	StringInfoData word;
	bool		quantified;

	initStringInfo(&word);
	while (*r->p && *r->p != '|' && *r->p != ')' && !r->lost)
	{
		const char *from;
		const char *to;

		if (*r->p == '(')
		{
			r->p++;
			end_word(&reqs, &word);
			if (!read_group(r, &reqs))
				r->lost = true;
			continue;
		}
		if (*r->p == '[')
		{
			r->p++;
			end_word(&reqs, &word);
			skip_class(r);
			(void) read_quantifier(r, &quantified);
			continue;
		}
		if (*r->p == '.' || *r->p == '^' || *r->p == '$')
		{
			r->p++;
			end_word(&reqs, &word);
			(void) read_quantifier(r, &quantified);
			continue;
		}
		if (*r->p == '\\')
		{
			char		c = r->p[1];

			if (c == '\0')
			{
				r->lost = true;
				break;
			}
			if (isalnum((unsigned char) c))
			{
				/* an assertion or a class ends the word; anything with operands is left alone */
				if (strchr("bBAzZdDsSwWnrtRhHvV", c) == NULL)
				{
					r->lost = true;
					break;
				}
				r->p += 2;
				end_word(&reqs, &word);
				(void) read_quantifier(r, &quantified);
				continue;
			}
			r->p++;				/* an escaped punctuation mark: itself */
		}

		/* a character, of one byte or more */
		from = r->p++;
		while (((unsigned char) *r->p & 0xc0) == 0x80)
			r->p++;
		to = r->p;
		if (read_quantifier(r, &quantified) == 0)
		{
			end_word(&reqs, &word);
			continue;
		}
		appendBinaryStringInfo(&word, from, to - from);
		if (quantified)
			end_word(&reqs, &word); /* repeated: what follows need not touch the first one */
	}
	end_word(&reqs, &word);
	return reqs;
}

/*
 * Read alternatives.  A match is one of them and holds all sets of that one, so
 * the unions of their best sets, of their second ones and so on hold for all;
 * one that has fewer sets lends its last one again.
 */
static Reqs
read_alternation(Reader *r)
{
	Reqs		all = read_sequence(r);

	while (*r->p == '|' && !r->lost)
	{
		Reqs		one;
		Reqs		both = {0};
		int			i;

		r->p++;
		one = read_sequence(r);
		for (i = 0; i < Max(all.n, one.n) && all.n > 0 && one.n > 0; i++)
		{
			Req			u;

			u.words = list_concat(list_copy(all.set[Min(i, all.n - 1)].words),
								  one.set[Min(i, one.n - 1)].words);
			if (list_length(u.words) > MW_MAX_LITERALS)
				continue;
			u.score = set_score(u.words);
			add_set(&both, u);
		}
		all = both;
	}
	return all;
}

/* mw_required_literals reads a whole pattern. */
List *
mw_required_literals(const char *pattern)
{
	Reader		r = {pattern, false, 0};
	Reqs		reqs = read_alternation(&r);
	List	   *result = NIL;
	int			i;

	if (r.lost || *r.p != '\0')
		return NIL;
	for (i = 0; i < reqs.n; i++)
		result = lappend(result, reqs.set[i].words);
	return result;
}

/* ---------- the finder ---------- */

#define MW_TABLE_BITS	14

/* A word at the place of its four rarest bytes */
typedef struct Entry
{
	uint32		four;			/* folded */
	uint16		before;			/* bytes of the word before them */
	uint16		len;
	uint32		word;			/* where it begins in "text", folded */
	uint32		first;			/* of its ids in "ids" */
	uint32		nids;
} Entry;

struct MwWords
{
	int			npatterns;
	int			nids;
	int			nbits;			/* of a result of the pass: sets of patterns, then single words */
	uint64		table[(1 << MW_TABLE_BITS) / 64];
	uint16	   *heads;			/* by hash: 1 + the first entry of its chain, 0 for none */
	uint16	   *next;
	Entry	   *entries;
	char	   *text;
	uint32	   *ids;
	uint64	   *preset;			/* bits of sets that do not exist */
};

#define FOLD4			0x20202020u
#define HASH4(x)		(((x) * 2654435761u) >> (32 - MW_TABLE_BITS))

static inline uint32
load4(const char *p)
{
	uint32		x;

	memcpy(&x, p, 4);
	return x | FOLD4;
}

typedef struct Word
{
	char	   *s;				/* folded */
	int			id;
} Word;

static int
by_word(const void *a, const void *b)
{
	int			c = strcmp(((const Word *) a)->s, ((const Word *) b)->s);

	return c ? c : ((const Word *) a)->id - ((const Word *) b)->id;
}

static char *
folded(const char *s)
{
	char	   *f = pstrdup(s);
	char	   *p;

	for (p = f; *p; p++)
		*p |= 0x20;
	return f;
}

/* mw_words_make builds the finder. */
MwWords *
mw_words_make(List **sets, int n, const char *const *words, const int *word_ids, int nwords, int nids)
{
	MwWords    *w = palloc0(sizeof(MwWords));
	int			total = nwords;
	int			nentries = 0;
	int			textlen = 0;
	Word	   *all;
	int			i,
				k;

	w->npatterns = n;
	w->nids = nids;
	w->nbits = n * MW_LITERAL_SETS + (nids - n);
	w->preset = palloc0(sizeof(uint64) * ((w->nbits + 63) / 64));
	for (i = 0; i < n; i++)
	{
		ListCell   *lc;

		foreach(lc, sets[i])
			total += list_length(lfirst(lc));
	}
	all = palloc(sizeof(Word) * Max(1, total));
	total = 0;
	for (i = 0; i < n; i++)
		for (k = 0; k < MW_LITERAL_SETS; k++)
		{
			int			bit = i * MW_LITERAL_SETS + k;
			ListCell   *lc;

			if (k >= list_length(sets[i]))
			{
				w->preset[bit / 64] |= UINT64CONST(1) << (bit % 64);
				continue;
			}
			foreach(lc, (List *) list_nth(sets[i], k))
			{
				all[total].s = folded(lfirst(lc));
				all[total++].id = bit;
			}
		}
	for (i = 0; i < nwords; i++)
	{
		all[total].s = folded(words[i]);
		all[total++].id = n * MW_LITERAL_SETS + (word_ids[i] - n);
	}
	qsort(all, total, sizeof(Word), by_word);
	for (i = 0; i < total; i++)
		if (i == 0 || strcmp(all[i].s, all[i - 1].s) != 0)
		{
			nentries++;
			textlen += strlen(all[i].s);
		}
	if (nentries >= PG_UINT16_MAX)
	{
		/* tens of thousands of words: no filter, run everything */
		memset(w->preset, 0xff, sizeof(uint64) * ((w->nbits + 63) / 64));
		nentries = total = 0;
	}

	w->heads = palloc0(sizeof(uint16) * (1 << MW_TABLE_BITS));
	w->next = palloc0(sizeof(uint16) * Max(1, nentries));
	w->entries = palloc0(sizeof(Entry) * Max(1, nentries));
	w->text = palloc(Max(1, textlen));
	w->ids = palloc(sizeof(uint32) * Max(1, total));
	nentries = textlen = 0;
	for (i = 0; i < total; i = k)
	{
		Entry	   *e = &w->entries[nentries];
		uint32		h;

		e->len = strlen(all[i].s);
		e->before = best_four(all[i].s, e->len);
		e->word = textlen;
		memcpy(w->text + textlen, all[i].s, e->len);
		e->four = load4(w->text + textlen + e->before);
		textlen += e->len;
		e->first = i;
		for (k = i; k < total && strcmp(all[k].s, all[i].s) == 0; k++)
			w->ids[k] = all[k].id;
		e->nids = k - i;
		h = HASH4(e->four);
		w->table[h / 64] |= UINT64CONST(1) << (h % 64);
		w->next[nentries] = w->heads[h];
		w->heads[h] = ++nentries;
	}
	return w;
}

/* Compare the words whose four bytes may stand at s[i]. */
static pg_noinline void
check_place(const MwWords *w, const char *s, int len, int i, uint32 x, uint64 *bits)
{
	int			k;

	for (k = w->heads[HASH4(x)]; k != 0; k = w->next[k - 1])
	{
		const Entry *e = &w->entries[k - 1];
		const char *word = w->text + e->word;
		const char *t = s + i - e->before;
		int			j;

		if (e->four != x || i < e->before || i - e->before + e->len > len)
			continue;
		for (j = 0; j < e->len; j++)
			if ((char) (t[j] | 0x20) != word[j])
				break;
		if (j < e->len)
			continue;
		for (j = 0; j < (int) e->nids; j++)
		{
			uint32		id = w->ids[e->first + j];

			bits[id / 64] |= UINT64CONST(1) << (id % 64);
		}
	}
}

/* mw_words_find makes the pass. */
void
mw_words_find(const MwWords *w, const char *s, int len, uint64 *found)
{
	int			nwords = (w->nbits + 63) / 64;
	uint64		small[32];
	uint64	   *bits = nwords <= (int) lengthof(small) ? small : palloc(sizeof(uint64) * nwords);
	int			i;

	memcpy(bits, w->preset, sizeof(uint64) * nwords);
	for (i = 0; i + 4 <= len; i++)
	{
		uint32		x = load4(s + i);
		uint32		h = HASH4(x);

		if (unlikely((w->table[h / 64] >> (h % 64)) & 1))
			check_place(w, s, len, i, x, bits);
	}

	memset(found, 0, sizeof(uint64) * ((w->nids + 63) / 64));
	for (i = 0; i < nwords; i++)
	{
		uint64		b = bits[i];

		/* sixteen patterns a word: all four bits of one must be set */
		b &= b >> 1;
		b &= b >> 2;
		b &= UINT64CONST(0x1111111111111111);
		while (b)
		{
			int			id = i * 16 + pg_rightmost_one_pos64(b) / MW_LITERAL_SETS;

			b &= b - 1;
			if (id < w->npatterns)
				found[id / 64] |= UINT64CONST(1) << (id % 64);
		}
	}
	for (i = w->npatterns; i < w->nids; i++)
	{
		int			bit = w->npatterns * MW_LITERAL_SETS + (i - w->npatterns);

		if ((bits[bit / 64] >> (bit % 64)) & 1)
			found[i / 64] |= UINT64CONST(1) << (i % 64);
	}
	if (bits != small)
		pfree(bits);
}
