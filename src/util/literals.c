/*
 * literals.c - required words of a pattern, and one automaton for all of them.
 *
 * The reader of patterns knows just enough of PCRE2's syntax to be safe: what
 * it does not understand requires nothing, so the pattern is always run.  The
 * automaton is Aho and Corasick's, as a table over classes of bytes: bytes that
 * no word uses share class 0, so a few hundred states fit the first-level
 * cache, and a byte costs one look-up.  Both are made once a policy; searching
 * neither allocates nor calls anything.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"

#include "util/literals.h"

/* shorter words stand in every text and select nothing */
#define MW_MIN_LITERAL	3
/* more alternatives than this are not worth their states */
#define MW_MAX_LITERALS 96

/* ---------- reading a pattern ---------- */

/* A set of words, "any" being no requirement at all */
typedef struct Req
{
	List	   *words;			/* NIL: nothing is required */
	int			shortest;		/* of the words */
} Req;

typedef struct Reader
{
	const char *p;
	bool		lost;			/* something was not understood */
	int			depth;
} Reader;

static Req	read_alternation(Reader *r);

static Req
req_none(void)
{
	Req			none = {NIL, 0};

	return none;
}

/* Of two requirements that both hold, the one that selects more */
static Req
req_better(Req a, Req b)
{
	if (a.words == NIL)
		return b;
	if (b.words == NIL)
		return a;
	if (b.shortest != a.shortest)
		return b.shortest > a.shortest ? b : a;
	return list_length(b.words) < list_length(a.words) ? b : a;
}

/* The word read so far becomes a requirement. */
static Req
req_word(StringInfo word)
{
	Req			req = {NIL, 0};

	if (word->len >= MW_MIN_LITERAL)
	{
		req.words = list_make1(pnstrdup(word->data, word->len));
		req.shortest = word->len;
	}
	resetStringInfo(word);
	return req;
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

/* Read one sequence, up to '|', ')' or the end. */
static Req
read_sequence(Reader *r)
{
	Req			best = {NIL, 0};
	StringInfoData word;
	bool		quantified;

	initStringInfo(&word);
	while (*r->p && *r->p != '|' && *r->p != ')' && !r->lost)
	{
		if (*r->p == '(')
		{
			Req			inner;
			bool		ignore = false;

			r->p++;
			best = req_better(best, req_word(&word));
			if (*r->p == '*')
			{
				r->lost = true;	/* verbs */
				break;
			}
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
				{
					r->lost = true; /* names, conditions, options: not worth the code */
					break;
				}
			}
			if (++r->depth > 50)
			{
				r->lost = true;
				break;
			}
			inner = read_alternation(r);
			r->depth--;
			if (*r->p != ')')
			{
				r->lost = true;
				break;
			}
			r->p++;
			if (read_quantifier(r, &quantified) > 0 && !ignore)
				best = req_better(best, inner);
			continue;
		}
		if (*r->p == '[')
		{
			r->p++;
			best = req_better(best, req_word(&word));
			skip_class(r);
			(void) read_quantifier(r, &quantified);
			continue;
		}
		if (*r->p == '.' || *r->p == '^' || *r->p == '$')
		{
			r->p++;
			best = req_better(best, req_word(&word));
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
				if (strchr("bBAzZ", c) == NULL && strchr("dDsSwWnrtRhHvV", c) == NULL)
				{
					r->lost = true;
					break;
				}
				r->p += 2;
				best = req_better(best, req_word(&word));
				(void) read_quantifier(r, &quantified);
				continue;
			}
			r->p++;				/* an escaped punctuation mark: itself */
		}

		/* a character, of one byte or more */
		{
			const char *from = r->p;
			int			least;

			r->p++;
			while (((unsigned char) *r->p & 0xc0) == 0x80)
				r->p++;
			{
				const char *to = r->p;

				least = read_quantifier(r, &quantified);
				if (quantified && least == 0)
				{
					best = req_better(best, req_word(&word));
					continue;
				}
				while (from < to)
				{
					char		c = *from++;

					appendStringInfoChar(&word, c >= 'A' && c <= 'Z' ? c + 32 : c);
				}
				if (quantified)
				{
					/* repeated: what follows need not touch the first one */
					best = req_better(best, req_word(&word));
				}
			}
		}
	}
	return req_better(best, req_word(&word));
}

/* Read alternatives: a match contains what one of them requires. */
static Req
read_alternation(Reader *r)
{
	Req			all = read_sequence(r);
	bool		any = all.words == NIL;

	while (*r->p == '|' && !r->lost)
	{
		Req			one;

		r->p++;
		one = read_sequence(r);
		if (one.words == NIL)
			any = true;
		all.words = list_concat(list_copy(all.words), one.words);
		all.shortest = Min(all.shortest, one.shortest);
	}
	if (any || list_length(all.words) > MW_MAX_LITERALS)
		return req_none();
	return all;
}

/* mw_required_literals reads a whole pattern. */
List *
mw_required_literals(const char *pattern)
{
	Reader		r = {pattern, false, 0};
	Req			req;

	/* a leading (?i) and the like changes what its letters mean; (?x) even what blanks mean */
	req = read_alternation(&r);
	if (r.lost || *r.p != '\0')
		return NIL;
	return req.words;
}

/* ---------- the automaton ---------- */

struct MwWords
{
	uint8		class_of[256];
	int			nclasses;
	int			nids;
	uint16	   *next;			/* state * nclasses + class */
	uint16	   *hits;			/* per state: 0, or where its list of ids begins in "lists" */
	uint16	   *lists;			/* ids, each list ended by MW_NO_ID */
};

#define MW_NO_ID PG_UINT16_MAX

/* mw_words_make builds the machine in the current memory context; NULL when there are too many words. */
MwWords *
mw_words_make(char **words, const int *ids, int n, int nids)
{
	MwWords    *w = palloc0(sizeof(MwWords));
	int			nstates = 1;
	int			maxstates = 1;
	int		   *child;			/* the trie: state * nclasses + class, -1 for none */
	int		   *fail;
	int		   *queue;
	List	  **out;
	int			head = 0,
				tail = 0;
	int			nlist = 1;
	int			i,
				c;

	w->nclasses = 1;
	w->nids = nids;
	for (i = 0; i < n; i++)
	{
		const unsigned char *p;

		maxstates += strlen(words[i]);
		for (p = (const unsigned char *) words[i]; *p; p++)
			if (w->class_of[*p] == 0)
				w->class_of[*p] = w->nclasses++;
	}
	if (maxstates >= PG_UINT16_MAX / 2)
		return NULL;
	/* capital ASCII letters are their small ones */
	for (c = 'A'; c <= 'Z'; c++)
		w->class_of[c] = w->class_of[c + 32];

	child = palloc(sizeof(int) * maxstates * w->nclasses);
	memset(child, 0xff, sizeof(int) * maxstates * w->nclasses);
	fail = palloc0(sizeof(int) * maxstates);
	queue = palloc(sizeof(int) * maxstates);
	out = palloc0(sizeof(List *) * maxstates);

	for (i = 0; i < n; i++)
	{
		const unsigned char *p;
		int			s = 0;

		for (p = (const unsigned char *) words[i]; *p; p++)
		{
			int		   *to = &child[s * w->nclasses + w->class_of[*p]];

			if (*to < 0)
				*to = nstates++;
			s = *to;
		}
		out[s] = list_append_unique_int(out[s], ids[i]);
	}

	/* breadth first: a state's failure is known before its children's */
	for (c = 0; c < w->nclasses; c++)
	{
		if (child[c] < 0)
			child[c] = 0;
		else
			queue[tail++] = child[c];
	}
	while (head < tail)
	{
		int			s = queue[head++];

		out[s] = list_concat_unique_int(out[s], out[fail[s]]);
		for (c = 0; c < w->nclasses; c++)
		{
			int		   *to = &child[s * w->nclasses + c];
			int			via = child[fail[s] * w->nclasses + c];

			if (*to < 0)
				*to = via;
			else
			{
				fail[*to] = via;
				queue[tail++] = *to;
			}
		}
	}

	for (i = 0; i < nstates; i++)
		if (out[i] != NIL)
			nlist += list_length(out[i]) + 1;
	w->next = palloc(sizeof(uint16) * nstates * w->nclasses);
	w->hits = palloc0(sizeof(uint16) * nstates);
	w->lists = palloc(sizeof(uint16) * nlist);
	nlist = 1;
	for (i = 0; i < nstates; i++)
	{
		ListCell   *lc;

		for (c = 0; c < w->nclasses; c++)
			w->next[i * w->nclasses + c] = (uint16) child[i * w->nclasses + c];
		if (out[i] == NIL)
			continue;
		w->hits[i] = (uint16) nlist;
		foreach(lc, out[i])
			w->lists[nlist++] = (uint16) lfirst_int(lc);
		w->lists[nlist++] = MW_NO_ID;
	}
	pfree(child);
	pfree(fail);
	pfree(queue);
	pfree(out);
	return w;
}

/* mw_words_find runs the machine over a text. */
bool
mw_words_find(const MwWords *w, const char *s, int len, uint64 *found)
{
	const unsigned char *p = (const unsigned char *) s;
	const unsigned char *end = p + len;
	const uint16 *next = w->next;
	const uint16 *hits = w->hits;
	uint32		n = (uint32) w->nclasses;
	uint32		state = 0;
	bool		any = false;

	for (; p < end; p++)
	{
		state = next[state * n + w->class_of[*p]];
		if (unlikely(hits[state] != 0))
		{
			const uint16 *id = &w->lists[hits[state]];

			any = true;
			for (; *id != MW_NO_ID; id++)
				found[*id / 64] |= UINT64CONST(1) << (*id % 64);
		}
	}
	return any;
}
