/*
 * words.c - one pass over a text for the words of many patterns.
 *
 * The finder takes of each word the four bytes that are rarest in prose, and
 * looks at each place of the text whether its next four bytes are any word's
 * (sift.c), without a chain from one place to the next, which is several times
 * faster than an automaton.  What passes is compared in full.  Letters are compared without regard to ASCII case (the bit
 * 0x20 is ignored in all bytes: more may pass, never less).
 *
 * A word tells where a match that holds it begins: so many bytes before it.
 * For each set of a pattern these places are bits, one for a cell of the text;
 * the pattern can match only from where its sets' bits coincide, so honest text
 * full of single words runs few patterns, each from a few places.  The bits are
 * kept for two segments of the text, as long each as any bounded pattern: when
 * a segment has been read the one before it is settled.  The work is linear,
 * whatever the text is.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "util/literals.h"
#include "util/sift.h"

/* Four bytes that half of all prose is made of, though their letters are not the commonest */
static bool
is_everyday(const char *s)
{
	static const char everyday[] =
		"what|that|this|with|have|from|they|your|you |will|ever|very|ther|here|tion|ment|ting|ould|ight|ough|name|able|the |and |ing |summ|cust|come";
	char		low[5];
	int			i;

	for (i = 0; i < 4; i++)
		low[i] = s[i] | ((s[i] >= 'A' && s[i] <= 'Z') ? 0x20 : 0);
	low[4] = '\0';
	return strlen(low) == 4 && strchr(low, '|') == NULL && strstr(everyday, low) != NULL;
}

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
	return is_everyday(s) ? score / 2 : score;
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

/* chains begin at so many places; the sift has kept nearly all else away */
#define MW_HEAD_BITS	13
/* a bit of a set stands for so many bytes, and its 64 bits for a segment */
#define MW_CELL			16
#define MW_SEGMENT		(64 * MW_CELL)

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
	uint16		id;
	uint16		set;			/* of a pattern; 0 for a single word */
	uint16		lo,
				hi;				/* how far behind the beginning of a match */
} Use;

/* Where matches may begin, by one set's words: in the segment before, and in this one */
typedef struct Starts
{
	uint64		before;
	uint64		now;
} Starts;

struct MwWords
{
	int			npatterns;
	int			nids;
	MwSift	   *sift;
	uint16		heads[1 << MW_HEAD_BITS];	/* by hash: 1 + the first entry of its chain, 0 for none */
	uint16	   *next;
	Entry	   *entries;
	char	   *text;
	Use		   *uses;
	uint8	   *nsets;			/* by pattern */
	int		   *longest;		/* by pattern; -1: no bound, or more than a segment */
	uint64	   *always;			/* patterns without sets */
	uint64	   *loose;			/* patterns with sets and without a bound: run where all were seen */
};

#define BIT(set, i)		(((set)[(i) / 64] >> ((i) % 64)) & 1)
#define SET_BIT(set, i)	((set)[(i) / 64] |= UINT64CONST(1) << ((i) % 64))
#define HEAD4(x)		((x) * 0x9e3779b1u >> (32 - MW_HEAD_BITS))

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
	uint32	   *fours;
	Word	   *all;
	int			i,
				k;

	w->npatterns = n;
	w->nids = nids;
	w->nsets = palloc0(Max(1, n));
	w->longest = palloc(sizeof(int) * Max(1, n));
	w->always = palloc0(sizeof(uint64) * ((nids + 63) / 64));
	w->loose = palloc0(sizeof(uint64) * ((nids + 63) / 64));
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
		w->longest[i] = longest[i] <= MW_SEGMENT ? longest[i] : -1;
		if (sets[i] == NIL)
			SET_BIT(w->always, i);
		else if (w->longest[i] < 0)
			SET_BIT(w->loose, i);
		for (k = 0; k < w->nsets[i]; k++)
		{
			ListCell   *lc;

			foreach(lc, (List *) list_nth(sets[i], k))
			{
				const MwLiteral *lit = lfirst(lc);

				all[total].s = folded(lit->word);
				all[total].use.id = i;
				all[total].use.lo = lit->lo;
				all[total].use.hi = lit->hi;
				all[total++].use.set = k;
			}
		}
	}
	for (i = 0; i < nwords; i++)
	{
		all[total].s = folded(words[i]);
		all[total].use.id = word_ids[i];
		all[total].use.lo = all[total].use.hi = 0;
		all[total++].use.set = 0;
	}
	qsort(all, total, sizeof(Word), by_word);
	for (i = 0; i < total; i++)
		if (i == 0 || strcmp(all[i].s, all[i - 1].s) != 0)
		{
			nentries++;
			textlen += strlen(all[i].s);
		}
	if (nentries >= PG_UINT16_MAX || nids >= PG_UINT16_MAX)
	{
		/* tens of thousands of words or patterns: no filter, run everything */
		memset(w->always, 0xff, sizeof(uint64) * ((nids + 63) / 64));
		nentries = total = 0;
	}

	w->next = palloc0(sizeof(uint16) * Max(1, nentries));
	w->entries = palloc0(sizeof(Entry) * Max(1, nentries));
	w->text = palloc(Max(1, textlen));
	w->uses = palloc(sizeof(Use) * Max(1, total));
	fours = palloc(sizeof(uint32) * Max(1, nentries));
	nentries = textlen = 0;
	for (i = 0; i < total; i = k)
	{
		Entry	   *e = &w->entries[nentries];
		uint32		h;

		e->len = strlen(all[i].s);
		e->before = mw_word_best_four(all[i].s, e->len);
		e->word = textlen;
		memcpy(w->text + textlen, all[i].s, e->len);
		e->four = mw_sift_load(w->text + textlen + e->before);
		textlen += e->len;
		e->first = i;
		for (k = i; k < total && strcmp(all[k].s, all[i].s) == 0; k++)
			w->uses[k] = all[k].use;
		e->nuses = k - i;
		fours[nentries] = e->four;
		h = HEAD4(e->four);
		w->next[nentries] = w->heads[h];
		w->heads[h] = ++nentries;
	}
	w->sift = mw_sift_make(fours, nentries);
	pfree(fours);
	return w;
}

/* One pass */
typedef struct Pass
{
	const MwWords *w;
	const char *s;
	int			len;
	int			segment;		/* where the one that is read begins */
	uint64	   *held;			/* single words */
	uint64	   *live;			/* patterns with bits in "starts" */
	Starts	   *starts;			/* by pattern and set */
	MwWordsFound fn;
	void	   *arg;
} Pass;

/* The bits of a segment's cells from "lo" to "hi", both counted in bytes from its beginning and clipped to it */
static inline uint64
cells(int lo, int hi)
{
	uint64		b;

	if (hi < 0 || lo >= MW_SEGMENT)
		return 0;
	b = ~UINT64CONST(0);
	if (lo > 0)
		b &= ~UINT64CONST(0) << (lo / MW_CELL);
	if (hi < MW_SEGMENT - MW_CELL)
		b &= (UINT64CONST(1) << (hi / MW_CELL + 1)) - 1;
	return b;
}

/* A word stands at "at": where do the patterns it serves begin? */
static void
note_word(Pass *p, const Entry *e, int at)
{
	const MwWords *w = p->w;
	const Use  *u = &w->uses[e->first];
	const Use  *end = u + e->nuses;

	at -= p->segment;
	for (; u < end; u++)
	{
		uint32		id = u->id;
		Starts	   *st;

		if (id >= (uint32) w->npatterns)
		{
			SET_BIT(p->held, id);
			continue;
		}
		st = &p->starts[id * MW_LITERAL_SETS];
		if (!BIT(p->live, id))
		{
			SET_BIT(p->live, id);
			memset(st, 0, sizeof(Starts) * MW_LITERAL_SETS);
		}
		if (w->longest[id] < 0)
		{
			st[u->set].now = 1;
			continue;
		}
		st[u->set].now |= cells(at - u->hi, at - u->lo);
		if (at - u->hi < 0 && p->segment > 0)
			st[u->set].before |= cells(at - u->hi + MW_SEGMENT, at - u->lo + MW_SEGMENT);
	}
}

/* Compare the words whose four bytes may stand at s[i]. */
static inline void
check_place(Pass *p, int i, uint32 x)
{
	const MwWords *w = p->w;
	int			k;

	for (k = w->heads[HEAD4(x)]; k != 0; k = w->next[k - 1])
	{
		const Entry *e = &w->entries[k - 1];
		const char *word = w->text + e->word;
		const char *t = p->s + i - e->before;
		int			j;

		if (e->four != x || i < e->before || i - e->before + e->len > p->len)
			continue;
		/* four bytes at a time, the last four once more where the length is odd */
		for (j = 0; j + 4 < e->len; j += 4)
			if (mw_sift_load(t + j) != mw_sift_load(word + j))
				break;
		if (j + 4 >= e->len && mw_sift_load(t + e->len - 4) == mw_sift_load(word + e->len - 4))
			note_word(p, e, i - e->before);
	}
}

/* Nothing more can be said about where patterns begin in the segment before: report, and go on. */
static void
settle(Pass *p)
{
	const MwWords *w = p->w;
	int			i;

	for (i = 0; i < (w->nids + 63) / 64; i++)
	{
		uint64		ids = p->live[i] & ~w->loose[i];

		while (ids)
		{
			int			id = i * 64 + pg_rightmost_one_pos64(ids);
			Starts	   *st = &p->starts[id * MW_LITERAL_SETS];
			uint64		both = ~UINT64CONST(0);
			uint64		any = 0;
			int			k;

			ids &= ids - 1;
			for (k = 0; k < w->nsets[id]; k++)
			{
				both &= st[k].before;
				st[k].before = st[k].now;
				st[k].now = 0;
				any |= st[k].before;
			}
			if (any == 0)
				p->live[i] &= ~(UINT64CONST(1) << (id % 64));
			while (both)
			{
				int			c = pg_rightmost_one_pos64(both);
				uint64		rest = ~(both >> c);
				int			n = rest ? pg_rightmost_one_pos64(rest) : 64;
				int			first = p->segment - MW_SEGMENT + c * MW_CELL;
				int			last = Min(first + n * MW_CELL, p->len) - 1;

				/* n runs to c + n; what is left of a word that was shifted in is zero */
				both = c + n >= 64 ? 0 : both & (~UINT64CONST(0) << (c + n));
				p->fn(p->arg, id, first, last, Min(last + w->longest[id], p->len));
			}
		}
	}
	p->segment += MW_SEGMENT;
}

/* mw_words_find makes the pass. */
void
mw_words_find(const MwWords *w, const char *s, int len, uint64 *held, MwWordsFound fn, void *arg)
{
	int			nwords = (w->nids + 63) / 64;
	int			nstarts = w->npatterns * MW_LITERAL_SETS;
	Starts		some[512];
	uint64		some_live[lengthof(some) / 64 + 1] = {0};
	bool		few = nstarts <= (int) lengthof(some) && nwords <= (int) lengthof(some_live);
	Pass		p = {w, s, len, 0, held, NULL, NULL, fn, arg};
	int			i;

	p.starts = few ? some : palloc(sizeof(Starts) * nstarts);
	p.live = few ? some_live : palloc0(sizeof(uint64) * nwords);
	memset(held, 0, sizeof(uint64) * nwords);

	for (;;)
	{
		int			stop = Min(p.segment + MW_SEGMENT, len - 3);
		uint16		maybe[MW_SEGMENT + 1];
		int			n = mw_sift(w->sift, s, p.segment, stop, maybe);

		for (i = 0; i < n; i++)
			check_place(&p, p.segment + maybe[i], mw_sift_load(s + p.segment + maybe[i]));
		settle(&p);
		if (stop >= len - 3)
			break;
	}
	settle(&p);

	for (i = 0; i < nwords; i++)
	{
		uint64		ids = w->always[i];
		uint64		loose = p.live[i] & w->loose[i];

		while (loose)
		{
			int			id = i * 64 + pg_rightmost_one_pos64(loose);
			int			k = 0;

			loose &= loose - 1;
			while (k < w->nsets[id] && p.starts[id * MW_LITERAL_SETS + k].now)
				k++;
			if (k == w->nsets[id])
				ids |= UINT64CONST(1) << (id % 64);
		}
		while (ids)
		{
			int			id = i * 64 + pg_rightmost_one_pos64(ids);

			ids &= ids - 1;
			if (id < w->npatterns)
				fn(arg, id, 0, len, len);
		}
	}
	if (!few)
	{
		pfree(p.starts);
		pfree(p.live);
	}
}
