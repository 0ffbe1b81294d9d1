/*
 * learned.c - the classifier: a linear function of the n-grams of a text.
 *
 * Weights are a byte each, by hash of an n-gram (ngrams.c), made by
 * train/learn.py and installed beside the extension's script; the postmaster
 * reads them once and its children inherit the pages.  A text is read in windows
 * of some chunks, one chunk further each time, and is as suspicious as the worst
 * of them: so an attack of two sentences in an honest letter is not outvoted by
 * the letter.  A window's sum is divided by the root of the number of its n-grams,
 * as it was in training.  A chunk that says a few words over and over counts each of
 * them once, and one that says what the chunk before said counts nothing: a word a
 * hundred times is no more suspicious than the word.
 *
 * Without the file nothing is scored; mw_doctor() says so.
 */
#include "postgres.h"

#include <math.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "stage/guardrail.h"
#include "stage/ngrams.h"

#define WEIGHTS_FILE	"mw_guard.weights"
#define NWEIGHTS		(1 << MW_NGRAM_BITS)
#define MAX_WINDOW		16		/* chunks */
/* a window counts as having so many at least, in training too: a word alone says nothing */
#define LEAST_NGRAMS	40

/* The file: this, then the weights.  All of it little-endian, which mw asks for. */
typedef struct Header
{
	char		magic[8];		/* MWGUARD1 */
	uint32		ngrams;			/* MW_NGRAM_VERSION */
	uint32		bits;			/* MW_NGRAM_BITS */
	uint32		window;			/* chunks */
	float		scale;			/* of a weight of 1 */
	float		bias;
	char		version[20];
} Header;

static Header header;
static int8 *weights = NULL;
static const char *trouble = "It was not looked for yet";
static bool looked = false;

static const char *
read_weights(void)
{
	char		share[MAXPGPATH];
	char		path[MAXPGPATH];
	FILE	   *f;
	Header		h;
	int8	   *w;
	bool		whole;

	get_share_path(my_exec_path, share);
	snprintf(path, sizeof(path), "%s/extension/%s", share, WEIGHTS_FILE);
	f = AllocateFile(path, PG_BINARY_R);
	if (f == NULL)
		return "The file " WEIGHTS_FILE " is not beside the extension's script";
	w = MemoryContextAlloc(TopMemoryContext, NWEIGHTS);
	whole = fread(&h, sizeof(h), 1, f) == 1 && fread(w, NWEIGHTS, 1, f) == 1 && fgetc(f) == EOF;
	FreeFile(f);
	if (!whole || memcmp(h.magic, "MWGUARD1", 8) != 0 || h.bits != MW_NGRAM_BITS || h.window < 1 || h.window > MAX_WINDOW ||
		!isfinite(h.scale) || !isfinite(h.bias))
	{
		pfree(w);
		return "The file " WEIGHTS_FILE " is damaged";
	}
	if (h.ngrams != MW_NGRAM_VERSION)
	{
		pfree(w);
		return "The file " WEIGHTS_FILE " is of another version of mw";
	}
	h.version[sizeof(h.version) - 1] = '\0';
	header = h;
	weights = w;
	return NULL;
}

/* mw_learned_load reads the weights, once a process. */
void
mw_learned_load(void)
{
	if (looked)
		return;
	looked = true;
	trouble = read_weights();
}

const char *
mw_learned_trouble(const char **version)
{
	mw_learned_load();
	*version = weights ? header.version : NULL;
	return trouble;
}

typedef struct Scoring
{
	int32		sum[MAX_WINDOW];	/* of the last chunks, a ring */
	int			n[MAX_WINDOW];
	int			from[MAX_WINDOW];
	int			chunks;
	int64		total;			/* of the window */
	int64		ngrams;
	float		best;
	int			best_from,
				best_to;
	int			end;			/* of the last chunk */
	uint64		words;			/* of the last chunk, where it repeats itself: a bit a word, by hash; 0: it does not */
} Scoring;

static void
score_window(Scoring *sc)
{
	int			oldest = sc->chunks > (int) header.window ? sc->chunks % header.window : 0;
	float		z = (float) sc->total / sqrtf((float) Max(sc->ngrams, LEAST_NGRAMS));

	if (z > sc->best)
	{
		sc->best = z;
		sc->best_from = sc->from[oldest];
		sc->best_to = sc->end;
	}
}

/* The words of a chunk, a bit each, where they are few and stand there again and again; 0 where not */
static uint64
repeated_words(const uint32 *hashes, const int *last, int ntokens)
{
	uint64		words = 0;

	for (int t = 0; t < ntokens; t++)
		words |= UINT64CONST(1) << (hashes[last[t] - 3] % 64);
	return pg_popcount64(words) * 3 <= ntokens ? words : 0;
}

/* Whether one of the first tokens of a chunk has a hash at the same place from its end */
static bool
stood_before(const uint32 *hashes, const int *last, int t, int place)
{
	for (int k = 0; k < t; k++)
		if (hashes[last[k] - place] == hashes[last[t] - place])
			return true;
	return false;
}

/* The sum of such a chunk, each word with its pieces and each pair once */
static int32
sum_once(const uint32 *hashes, const int *last, int ntokens, int *n)
{
	int32		sum = 0;

	for (int t = 0; t < ntokens; t++)
	{
		if (!stood_before(hashes, last, t, 3))
			for (int i = t > 0 ? last[t - 1] : 0; i < last[t] - 2; i++)
				if (i == 0 || hashes[i] != hashes[i - 1])
				{
					sum += weights[hashes[i]];
					++*n;
				}
		for (int place = 2; place > 0; place--)
			if (!stood_before(hashes, last, t, place))
			{
				sum += weights[hashes[last[t] - place]];
				++*n;
			}
	}
	return sum;
}

static void
score_chunk(void *arg, const uint32 *hashes, const int *last, int ntokens, const int *ends, int from, int to)
{
	Scoring    *sc = arg;
	int			slot = sc->chunks % header.window;
	int			n = 0;
	int32		sum = 0;
	uint64		words = repeated_words(hashes, last, ntokens);

	/* the same again says nothing new: a number of many digits is one piece over and over */
	if (words == 0)
	{
		for (int i = 0; i < last[ntokens - 1]; i++)
			if (i == 0 || hashes[i] != hashes[i - 1])
			{
				sum += weights[hashes[i]];
				n++;
			}
	}
	else if ((words & ~sc->words) != 0)
		sum = sum_once(hashes, last, ntokens, &n);
	sc->words = words;
	if (sc->chunks >= (int) header.window)
	{
		sc->total -= sc->sum[slot];
		sc->ngrams -= sc->n[slot];
	}
	sc->sum[slot] = sum;
	sc->n[slot] = n;
	sc->from[slot] = from;
	sc->total += sum;
	sc->ngrams += n;
	sc->end = to;
	sc->chunks++;
	if (sc->chunks >= (int) header.window)
		score_window(sc);
}

static void
score_text(const MwView *v, Scoring *sc)
{
	memset(sc, 0, sizeof(*sc));
	sc->best = -1e30f;
	mw_ngrams(v->s, v->len, score_chunk, sc);
	/* a text that is shorter than a window is one */
	if (sc->chunks > 0 && sc->chunks < (int) header.window)
		score_window(sc);
}

/* mw_learned_score tells how like an attack the worst window of a text is. */
double
mw_learned_score(const MwView *v, int *from, int *to)
{
	Scoring		sc;

	mw_learned_load();
	*from = 0;
	*to = v->len;
	if (weights == NULL)
		return 0;
	score_text(v, &sc);
	if (sc.chunks == 0)
		return 0;
	*from = sc.best_from;
	*to = sc.best_to;
	return 1 / (1 + exp(-(sc.best * header.scale + header.bias)));
}

/* ---------- why ---------- */

#define WHY_MAX 6

typedef struct Reason
{
	int			from,
				to;
	int32		weight;
} Reason;

typedef struct Reasons
{
	const char *s;
	int			begin,
				end;			/* of the window */
	int			before;			/* where the token before the current one begins */
	Reason		best[WHY_MAX];
	int			n;
} Reasons;

static void
find_reasons(void *arg, const uint32 *hashes, const int *last, int ntokens, const int *ends, int from, int to)
{
	Reasons    *r = arg;
	int			begin = from;
	int			i = 0;
	int			t;

	for (t = 0; t < ntokens; t++)
	{
		Reason		mine = {r->before, ends[t], 0};
		int			at;

		for (; i < last[t]; i++)
			mine.weight += weights[hashes[i]];
		r->before = begin;
		begin = ends[t];
		if (mine.from < r->begin || mine.to > r->end || mine.weight <= 0)
			continue;
		for (at = r->n; at > 0 && r->best[at - 1].weight < mine.weight; at--)
			if (at < WHY_MAX)
				r->best[at] = r->best[at - 1];
		if (at < WHY_MAX)
		{
			r->best[at] = mine;
			r->n = Min(r->n + 1, WHY_MAX);
		}
	}
}

/* mw_learned_why names the pairs of words that weigh most in the worst window. */
char *
mw_learned_why(const MwView *v)
{
	StringInfoData buf;
	Scoring		sc;
	Reasons		r = {v->s};
	int			i;

	initStringInfo(&buf);
	mw_learned_load();
	if (weights == NULL)
		return buf.data;
	score_text(v, &sc);
	r.begin = sc.best_from;
	r.end = sc.best_to;
	mw_ngrams(v->s, v->len, find_reasons, &r);
	for (i = 0; i < r.n; i++)
	{
		int			from = r.best[i].from;
		int			to = r.best[i].to;

		while (from < to && (v->s[from] == ' ' || v->s[from] == '\n'))
			from++;
		appendStringInfo(&buf, "%s\"%.*s\"", i ? ", " : "", to - from, v->s + from);
	}
	return buf.data;
}
