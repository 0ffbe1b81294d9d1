/*
 * fuzz.c - libFuzzer's way into the text stages; MW_FUZZ says which.
 *
 * Bytes are made a text as the database holds one: UTF-8 without NUL, and no NUL
 * behind it, in memory of exactly its size, so that the address sanitizer sees
 * the first byte that is read too many.  What must hold is asked in
 * test/c/alone/holds.c; the first thing that does not ends the run, and its text is kept.
 */
#include "../c/alone/holds.h"

#include "mb/pg_wchar.h"

int			LLVMFuzzerTestOneInput(const uint8 *data, size_t size);
int			LLVMFuzzerInitialize(int *argc, char ***argv);

static const char *target = "";
static MwPolicy *by_default;
static MwPolicy *on_demand;

static void
must(bool ok, const char *what, const char *s, int len)
{
	if (ok)
		return;
	fprintf(stderr, "not so: %s\nof: %.*s\n", what, len, s);
	abort();
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	target = getenv("MW_FUZZ");
	if (target == NULL || strstr(" redactor normaliser decoder restorer ", target) == NULL)
	{
		fprintf(stderr, "MW_FUZZ is redactor, normaliser, decoder or restorer\n");
		exit(2);
	}
	by_default = mw_alone_policy(MW_ALONE_DEFAULT);
	on_demand = mw_alone_policy(MW_ALONE_ALL);
	return 0;
}

/* What is no UTF-8 becomes a mark, byte by byte */
static char *
text_of(const uint8 *data, int size)
{
	char	   *s = malloc(Max(size, 1));
	int			i = 0;

	while (i < size)
	{
		int			n = pg_utf_mblen(data + i);

		if (data[i] == 0 || i + n > size || pg_encoding_verifymbchar(PG_UTF8, (const char *) data + i, n) != n)
		{
			s[i++] = '.';
			continue;
		}
		memcpy(s + i, data + i, n);
		i += n;
	}
	return s;
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	char	   *s = text_of(data, (int) size);
	int			len = (int) size;

	switch (target[0])
	{
		case 'r':
			if (target[2] == 'd')
				mw_holds_redaction(len % 4 ? by_default : on_demand, s, len, must);
			else
				mw_holds_restoring(s, len, must);
			break;
		case 'n':
			mw_holds_normaliser(s, len, must);
			break;
		default:
			mw_holds_decoder(s, len, must);
	}
	mw_alone_reset();
	free(s);
	return 0;
}
