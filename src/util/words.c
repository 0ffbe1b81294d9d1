/*
 * words.c - one pass over a text for the words of many patterns.
 *
 * The finder takes of each word the four bytes that are rarest in prose, and
 * looks at each place of the text whether its next four bytes are any word's: a
 * multiplication and one bit of a small table, without a chain from one place
 * to the next, which is several times faster than an automaton.  What passes is
 * compared in full.  A pattern is a candidate only where words of all its sets
 * stand so close together that one match could hold them, so that a long text
 * full of single words still runs few patterns, each on a small part.  Letters
 * are compared without regard to ASCII case (the bit 0x20 is ignored in all
 * bytes: more may pass, never less).
 */
#include "postgres.h"

#include <limits.h>

#include "port/pg_bitutils.h"

#include "util/literals.h"

/*
 * mw_word_rarity tells roughly how rare four bytes are in prose, by the
 * frequency of letters.  Only the speed depends on it.
 */
int
mw_word_rarity(const char *s)
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

/* mw_word_best_four finds the place of the four bytes of a word that are rarest. */
int
mw_word_best_four(const char *word, int len)
{
	int			best = 0;
	int			i;

	for (i = 1; i + 4 <= len; i++)
		if (mw_word_rarity(word + i) > mw_word_rarity(word + best))
			best = i;
	return best;
}

#define MW_TABLE_BITS	14

/* A word at the place of its four rarest bytes */
typedef struct Entry
{
	uint32		four;			/* folded */
	uint16		before;			/* bytes of the word before them */
	uint16		len;
	uint32		word;			/* where it begins in "text", folded */
	uint32		first;			/* of its uses in "uses" */
	uint32		nuses;
} Entry;

/* What a word is for */
typedef struct Use
{
	uint32		id;
	uint32		set;			/* of a pattern; 0 for a single word */
} Use;

struct MwWords
{
	int			npatterns;
	int			nids;
	uint64		table[(1 << MW_TABLE_BITS) / 64];
	uint16	   *heads;			/* by hash: 1 + the first entry of its chain, 0 for none */
	uint16	   *next;
	Entry	   *entries;
	char	   *text;
	Use		   *uses;
	uint8	   *nsets;			/* by pattern */
	int		   *longest;		/* by pattern; INT_MAX / 2 without a bound */
	uint64	   *always;			/* patterns without sets */
};

#define FOLD4			0x20202020u
#define HASH4(x)		(((x) * 2654435761u) >> (32 - MW_TABLE_BITS))
/* a place no word was seen at, further back than any bound */
#define NEVER			(-(INT_MAX / 2) - 1)

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
	Use			use;
} Word;

static int
by_word(const void *a, const void *b)
{
	return strcmp(((const Word *) a)->s, ((const Word *) b)->s);
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
mw_words_make(List **sets, const int *longest, int n,
			  const char *const *words, const int *word_ids, int nwords, int nids)
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
	w->nsets = palloc0(Max(1, n));
	w->longest = palloc(sizeof(int) * Max(1, n));
	w->always = palloc0(sizeof(uint64) * ((nids + 63) / 64));
	for (i = 0; i < n; i++)
	{
		ListCell   *lc;

		foreach(lc, sets[i])
			total += list_length(lfirst(lc));
	}
	all = palloc(sizeof(Word) * Max(1, total));
	total = 0;
	for (i = 0; i < n; i++)
	{
		w->nsets[i] = list_length(sets[i]);
		w->longest[i] = longest[i] < 0 ? INT_MAX / 2 : longest[i];
		if (sets[i] == NIL)
			w->always[i / 64] |= UINT64CONST(1) << (i % 64);
		for (k = 0; k < w->nsets[i]; k++)
		{
			ListCell   *lc;

			foreach(lc, (List *) list_nth(sets[i], k))
			{
				all[total].s = folded(lfirst(lc));
				all[total].use.id = i;
				all[total++].use.set = k;
			}
		}
	}
	for (i = 0; i < nwords; i++)
	{
		all[total].s = folded(words[i]);
		all[total].use.id = word_ids[i];
		all[total++].use.set = 0;
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
		memset(w->always, 0xff, sizeof(uint64) * ((nids + 63) / 64));
		nentries = total = 0;
	}

	w->heads = palloc0(sizeof(uint16) * (1 << MW_TABLE_BITS));
	w->next = palloc0(sizeof(uint16) * Max(1, nentries));
	w->entries = palloc0(sizeof(Entry) * Max(1, nentries));
	w->text = palloc(Max(1, textlen));
	w->uses = palloc(sizeof(Use) * Max(1, total));
	nentries = textlen = 0;
	for (i = 0; i < total; i = k)
	{
		Entry	   *e = &w->entries[nentries];
		uint32		h;

		e->len = strlen(all[i].s);
		e->before = mw_word_best_four(all[i].s, e->len);
		e->word = textlen;
		memcpy(w->text + textlen, all[i].s, e->len);
		e->four = load4(w->text + textlen + e->before);
		textlen += e->len;
		e->first = i;
		for (k = i; k < total && strcmp(all[k].s, all[i].s) == 0; k++)
			w->uses[k] = all[k].use;
		e->nuses = k - i;
		h = HASH4(e->four);
		w->table[h / 64] |= UINT64CONST(1) << (h % 64);
		w->next[nentries] = w->heads[h];
		w->heads[h] = ++nentries;
	}
	return w;
}

/* A word stands at "at": for each pattern it serves, are words of all its sets near? */
static void
note_word(const MwWords *w, const Entry *e, int at, int len, int *last, uint64 *found, MwReach *reach)
{
	const Use  *u = &w->uses[e->first];
	const Use  *end = u + e->nuses;

	for (; u < end; u++)
	{
		uint32		id = u->id;
		int		   *l;
		int			bound;
		int			oldest;
		int			k;

		if (id >= (uint32) w->npatterns)
		{
			found[id / 64] |= UINT64CONST(1) << (id % 64);
			continue;
		}
		l = &last[id * MW_LITERAL_SETS];
		l[u->set] = at;
		bound = w->longest[id];
		oldest = at;
		for (k = 0; k < w->nsets[id]; k++)
			oldest = Min(oldest, l[k]);
		if (oldest == NEVER || at - oldest > bound)
			continue;
		if (!((found[id / 64] >> (id % 64)) & 1))
		{
			found[id / 64] |= UINT64CONST(1) << (id % 64);
			reach[id].from = Max(0, at - bound);
		}
		reach[id].to = at < len - bound ? at + bound : len;
	}
}

/* Compare the words whose four bytes may stand at s[i]. */
static pg_noinline void
check_place(const MwWords *w, const char *s, int len, int i, uint32 x,
			int *last, uint64 *found, MwReach *reach)
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
		if (j == e->len)
			note_word(w, e, i - e->before, len, last, found, reach);
	}
}

/* mw_words_find makes the pass. */
void
mw_words_find(const MwWords *w, const char *s, int len, uint64 *found, MwReach *reach)
{
	int			nlast = w->npatterns * MW_LITERAL_SETS;
	int			some[1024];
	int		   *last = nlast <= (int) lengthof(some) ? some : palloc(sizeof(int) * nlast);
	int			i;

	memcpy(found, w->always, sizeof(uint64) * ((w->nids + 63) / 64));
	for (i = 0; i < (w->nids + 63) / 64; i++)
	{
		uint64		b = found[i];

		while (b)
		{
			int			id = i * 64 + pg_rightmost_one_pos64(b);

			b &= b - 1;
			if (id >= w->nids)
				break;
			reach[id].from = 0;
			reach[id].to = len;
		}
	}
	for (i = 0; i < nlast; i++)
		last[i] = NEVER;
	for (i = 0; i + 4 <= len; i++)
	{
		uint32		x = load4(s + i);
		uint32		h = HASH4(x);

		if (unlikely((w->table[h / 64] >> (h % 64)) & 1))
			check_place(w, s, len, i, x, last, found, reach);
	}
	if (last != some)
		pfree(last);
}
