/*
 * ngrams.c - what train/learn.py counts: the n-grams of texts, by the code that
 * a backend runs.
 *
 * Reads texts from standard input, each behind its length (uint32), and writes of
 * each the number of its chunks, then of each chunk the number of its hashes and
 * they; all uint32 of this machine.  Texts are normalised as the guardrail does.
 */
#include "postgres.h"

#include <stdio.h>

#include "stage/ngrams.h"
#include "stage/normalise.h"

/* PostgreSQL's programs have all of palloc but this */
void *
repalloc_huge(void *p, Size size)
{
	return repalloc(p, size);
}

static uint32 *out;
static size_t nout,
			cap;

static void
put(uint32 v)
{
	if (nout == cap)
	{
		cap = Max(1024, cap * 2);
		out = out ? repalloc(out, cap * sizeof(uint32)) : palloc(cap * sizeof(uint32));
	}
	out[nout++] = v;
}

static void
put_chunk(void *arg, const uint32 *hashes, const int *last, int ntokens, const int *ends, int from, int to)
{
	int			n = last[ntokens - 1];
	int			i;

	++*(uint32 *) arg;
	put(n);
	for (i = 0; i < n; i++)
		put(hashes[i]);
}

int
main(void)
{
	uint32		len;

	while (fread(&len, sizeof(len), 1, stdin) == 1)
	{
		char	   *s = palloc(len + 1);
		MwView		v;
		uint32		chunks = 0;

		if (fread(s, 1, len, stdin) != len)
			return 1;
		s[len] = '\0';
		mw_normalise(s, len, &v);
		nout = 0;
		mw_ngrams(v.s, v.len, put_chunk, &chunks);
		if (fwrite(&chunks, sizeof(chunks), 1, stdout) != 1 || fwrite(out, sizeof(uint32), nout, stdout) != nout)
			return 1;
		if (v.map)
		{
			pfree(unconstify(char *, v.s));
			pfree(unconstify(int *, v.map));
		}
		pfree(s);
	}
	return 0;
}
