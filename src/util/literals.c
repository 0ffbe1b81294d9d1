/*
 * literals.c - the words that every match of a pattern must contain.
 *
 * The reader of patterns knows just enough of PCRE2's syntax to be safe: what
 * it does not understand requires nothing, so such a pattern is always run.
 */
#include "postgres.h"

#include <ctype.h>
#include <limits.h>

#include "lib/stringinfo.h"

#include "util/literals.h"

/* the finder (words.c) looks at four bytes */
#define MW_MIN_LITERAL	4
/* matches longer than this count as unbounded */
#define MW_MAX_LONGEST	4096
/* sets with more words than this are not worth looking for */
#define MW_MAX_LITERALS 160

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

		worst = Min(worst, Min(len, 8) * 8 + mw_word_rarity(w + mw_word_best_four(w, len)));
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
