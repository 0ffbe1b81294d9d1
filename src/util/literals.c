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
 * compared in full.  A pattern is a candidate only where words of all its sets
 * stand so close together that one match could hold them, so that a long text
 * full of single words still runs few patterns, each on a small part.  Letters are compared without regard to ASCII case (the bit
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
/* matches longer than this count as unbounded */
#define MW_MAX_LONGEST	4096
/* sets with more words than this are not worth looking for */
#define MW_MAX_LITERALS 160

/* ---------- reading a pattern ---------- */

/* One set; "score": how telling it is */
typedef struct Req
{
	List	   *words;
	int			score;
} Req;

/* All sets that hold for a piece of a pattern, best first, and how long the piece can be */
typedef struct Reqs
{
	Req			set[MW_LITERAL_SETS];
	int			n;
	int64		longest;
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

/* Skip a bracket expression; r->p stands behind its '['.  Returns the bytes of what it matches at most. */
static int
skip_class(Reader *r)
{
	int			bytes = 1;

	if (*r->p == '^')
	{
		bytes = 4;
		r->p++;
	}
	if (*r->p == ']')
		r->p++;
	while (*r->p && *r->p != ']')
	{
		if ((unsigned char) *r->p >= 0x80)
			bytes = 4;
		if (*r->p == '\\' && r->p[1])
		{
			/* small letters name ASCII sets without PCRE2_UCP; x, p and what is negated do not */
			if (isalpha((unsigned char) r->p[1]) && strchr("sdwnrt", r->p[1]) == NULL)
				bytes = 4;
			r->p++;
		}
		else if (*r->p == '[' && r->p[1] == ':')
		{
			const char *end = strstr(r->p, ":]");

			bytes = 4;
			if (end)
				r->p = end + 1;
		}
		r->p++;
	}
	if (*r->p)
		r->p++;
	else
		r->lost = true;
	return bytes;
}

/* Read a quantifier if there is one: the least number of times, and the most. */
static int
read_quantifier(Reader *r, bool *present, int64 *most)
{
	int			least = 1;

	*present = true;
	*most = 1;
	switch (*r->p)
	{
		case '?':
			least = 0;
			r->p++;
			break;
		case '*':
			least = 0;
			*most = MW_MAX_LONGEST + 1;
			r->p++;
			break;
		case '+':
			*most = MW_MAX_LONGEST + 1;
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
			*most = least;
			while (*r->p && *r->p != '}')
				if (*r->p++ == ',')
					*most = *r->p == '}' ? MW_MAX_LONGEST + 1 : atoi(r->p);
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

/* A piece of so many bytes, so many times */
static int64
times(int64 bytes, int64 most)
{
	return bytes > MW_MAX_LONGEST || most > MW_MAX_LONGEST ? MW_MAX_LONGEST + 1
		: Min(bytes * most, MW_MAX_LONGEST + 1);
}

/* Read a group; r->p stands behind its '('.  False where it was lost. */
static bool
read_group(Reader *r, Reqs *outer)
{
	Reqs		inner;
	bool		ignore = false;
	bool		quantified;
	int64		most;
	int			least;
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
	least = read_quantifier(r, &quantified, &most);
	/* what is only looked at counts too: it must be there to be looked at */
	outer->longest += times(inner.longest, most);
	if (least > 0 && !ignore)
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
	int64		most;
	int			bytes;

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
			bytes = skip_class(r);
			(void) read_quantifier(r, &quantified, &most);
			reqs.longest += times(bytes, most);
			continue;
		}
		if (*r->p == '.' || *r->p == '^' || *r->p == '$')
		{
			bytes = *r->p == '.' ? 4 : 1;
			r->p++;
			end_word(&reqs, &word);
			(void) read_quantifier(r, &quantified, &most);
			reqs.longest += times(bytes, most);
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
				(void) read_quantifier(r, &quantified, &most);
				/* \X may be any number of characters; it is not in the list above */
				reqs.longest += times(4, most);
				continue;
			}
			r->p++;				/* an escaped punctuation mark: itself */
		}

		/* a character, of one byte or more */
		from = r->p++;
		while (((unsigned char) *r->p & 0xc0) == 0x80)
			r->p++;
		to = r->p;
		bytes = to - from;
		if (read_quantifier(r, &quantified, &most) == 0)
		{
			end_word(&reqs, &word);
			reqs.longest += times(bytes, most);
			continue;
		}
		reqs.longest += times(bytes, most);
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
		both.longest = Max(all.longest, one.longest);
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
mw_required_literals(const char *pattern, int *longest)
{
	Reader		r = {pattern, false, 0};
	Reqs		reqs = read_alternation(&r);
	List	   *result = NIL;
	int			i;

	*longest = -1;
	if (r.lost || *r.p != '\0')
		return NIL;
	if (reqs.longest <= MW_MAX_LONGEST)
		*longest = (int) reqs.longest + 8;
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
		e->before = best_four(all[i].s, e->len);
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
