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

/*
 * All sets that hold for a piece of a pattern, best first, and the bytes that the
 * piece takes; "looks": those that it may look at beyond what it takes.
 */
typedef struct Reqs
{
	Req			set[MW_LITERAL_SETS];
	int			n;
	int64		shortest;
	int64		longest;
	int64		looks;
} Reqs;

/* A word being read, and where in its piece it begins */
typedef struct Run
{
	StringInfoData s;
	int64		lo,
				hi;
} Run;

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
		const char *w = ((MwLiteral *) lfirst(lc))->word;
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
end_word(Reqs *reqs, Run *word)
{
	if (word->s.len >= MW_MIN_LITERAL)
	{
		MwLiteral  *lit = palloc(sizeof(MwLiteral));
		Req			set;

		lit->word = pnstrdup(word->s.data, word->s.len);
		lit->lo = (int) Min(word->lo, MW_MAX_LONGEST);
		lit->hi = (int) Min(word->hi, MW_MAX_LONGEST + 1);
		set.words = list_make1(lit);
		set.score = set_score(set.words);
		add_set(reqs, set);
	}
	resetStringInfo(&word->s);
}

/* The words of an inner piece, seen from where the outer one begins */
static List *
shifted(List *words, int64 lo, int64 hi)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, words)
	{
		const MwLiteral *in = lfirst(lc);
		MwLiteral  *lit = palloc(sizeof(MwLiteral));

		lit->word = in->word;
		lit->lo = (int) Min(in->lo + lo, MW_MAX_LONGEST);
		lit->hi = (int) Min(in->hi + hi, MW_MAX_LONGEST + 1);
		result = lappend(result, lit);
	}
	return result;
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
	outer->looks += inner.looks;
	if (ignore)
	{
		outer->looks += inner.longest;
		return true;
	}
	/* of a repeated group the words of its first time */
	if (least > 0)
		for (i = 0; i < inner.n; i++)
		{
			inner.set[i].words = shifted(inner.set[i].words, outer->shortest, outer->longest);
			add_set(outer, inner.set[i]);
		}
	outer->shortest += times(inner.shortest, least);
	outer->longest += times(inner.longest, most);
	return true;
}

/* Read one sequence, up to '|', ')' or the end. */
static Reqs
read_sequence(Reader *r)
{
	Reqs		reqs = {0};
	Run			word;
	bool		quantified;
	int64		most;
	int			least;
	int			bytes;

	initStringInfo(&word.s);
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
			least = read_quantifier(r, &quantified, &most);
			reqs.shortest += times(1, least);
			reqs.longest += times(bytes, most);
			continue;
		}
		if (*r->p == '.' || *r->p == '^' || *r->p == '$')
		{
			bytes = *r->p == '.' ? 4 : 0;
			r->p++;
			end_word(&reqs, &word);
			least = read_quantifier(r, &quantified, &most);
			reqs.shortest += times(Min(bytes, 1), least);
			reqs.longest += times(bytes, most);
			/* ^ and $ look at what is beside them */
			reqs.looks++;
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
				least = read_quantifier(r, &quantified, &most);
				/* \X may be any number of characters; it is not in the list above */
				if (strchr("bBAzZ", c) == NULL)
				{
					reqs.shortest += times(1, least);
					reqs.longest += times(4, most);
				}
				else
					reqs.looks += 4;
				continue;
			}
			r->p++;				/* an escaped punctuation mark: itself */
		}

		/* a character, of one byte or more */
		from = r->p++;
		while (((unsigned char) *r->p & 0xc0) == 0x80)
			r->p++;
		to = r->p;
		/* the other case of a letter can be longer or shorter: the Kelvin sign is a k, the long s an s */
		bytes = to - from > 1 ? 4 : (*from | 0x20) == 'k' ? 3 : (*from | 0x20) == 's' ? 2 : 1;
		least = read_quantifier(r, &quantified, &most);
		if (least == 0)
			end_word(&reqs, &word);
		else
		{
			if (word.s.len == 0)
			{
				word.lo = reqs.shortest;
				word.hi = reqs.longest;
			}
			appendBinaryStringInfo(&word.s, from, to - from);
		}
		reqs.shortest += times(1, least);
		reqs.longest += times(bytes, most);
		if (least == 0)
			continue;
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
		both.shortest = Min(all.shortest, one.shortest);
		both.longest = Max(all.longest, one.longest);
		both.looks = all.looks + one.looks;
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
	if (reqs.longest + reqs.looks <= MW_MAX_LONGEST)
		*longest = (int) (reqs.longest + reqs.looks) + 8;
	for (i = 0; i < reqs.n; i++)
		result = lappend(result, reqs.set[i].words);
	return result;
}
