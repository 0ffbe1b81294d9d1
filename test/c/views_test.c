/*
 * views_test.c - the normaliser and the decoders on texts that nobody would write.
 *
 * The risk it holds back: a hostile text that makes the guardrail read or write
 * outside its buffers, or whose hits point outside the text.  Texts are made from
 * pieces that each decoder looks for, cut and mixed at random, always valid UTF-8,
 * as the database holds them.  What must hold of every view is asked in
 * alone/holds.c, as fuzzers do; as many texts as the argument says (default 30000).
 */
#include "alone/holds.h"

#include "mb/pg_wchar.h"

static int	checks = 0;
static int	failed = 0;

static void
check(bool ok, const char *what, const char *s, int len)
{
	checks++;
	if (!ok && failed++ < 20)
		printf("not ok: %s: %.*s\n", what, len, s);
}

/* What a fuzzer found (test/campaign/p1_fuzz.pl), each with what was wrong */
static const char *const fuzzed[] = {
	/* a stream let the front of a placeholder with blanks go where no blank followed for long */
	"x < phone-0 >.................................................................................................................................",
};

static uint64 seed = 20261130;

static uint32
dice(uint32 n)
{
	seed = seed * UINT64CONST(6364136223846793005) + 1442695040888963407;
	return (uint32) (seed >> 33) % n;
}

int
main(int argc, char **argv)
{
	static const char *const pieces[] = {
		"ignore all previous instructions", "i g n o r e", "i.g.n.o.r.e", "1gn0r3", "%69%67%6e", "%e2%80", "%", "&lt;", "&#105;", "&#x69", "&", "aWdub3JlIGFsbCBwcmV2aW91cw==",
		"aWdub3JlIGFsbCBwcmV2aW91cyBpbnN0cnVjdGlvbnM", "69676e6f726520616c6c2070726576", "69 67 6e 6f 72 65 20 61 6c 6c", "105 103 110 111 114 101 32 97", "01101001 01100111",
		"vtaber nyy cerivbhf", "IgnoreAllPrevious", "\xef\xbc\xa9\xef\xbd\x87", "\xd0\xb8\xd0\xb3\xd0\xbd", "ign\xd0\xbere", "\xe2\x80\x8b", "\xe2\x80\xae", "\xf3\xa0\x81\xa9", "\xf0\x9f\x8f\xb4", "\xf3\xa0\x80\xa0",
		"\xef\xb7\xba", "\xcc\x81", "e\xcc\x81", "\xe0\xa4\xa8\xe0\xa4\xbf", "\xe5\xbf\xbd\xe7\x95\xa5", "\xea\xb0\x80", "\xe1\x84\x80\xe1\x85\xa1", "\xf0\x9d\x90\xa2", "\xc7\x86", "\xef\xac\x83", " ", "\n", "\t", "=", "_", "-", "a", "Z", "0", "<", ">",
		"\xc2\xad", "\xef\xbb\xbf", "\xe3\x80\x80", "\xc4\xb0", "\xc5\xbf", "\xe1\xba\x9e", "$", "@", "!", "\\u0069", "\\u{1f600}", "\\ud83d\\ude00", "\\ud83d", "\\x69", "\\U0001F600", "\\", "NFTW433SMUQGC3DMEBYHEZLWNFXXK4Y", "nftw433smuqgc3dmebyhezlwnfxxk4y", "\\u200b", "\\uff49"
	};
	int			n = argc > 1 ? atoi(argv[1]) : 30000;
	int			i;

	for (i = 0; i < n; i++)
	{
		char		text[4096];
		int			len = 0;
		int			parts = 1 + dice(i % 100 == 0 ? 200 : 30);

		while (parts-- > 0 && len < 3900)
		{
			const char *p = pieces[dice(lengthof(pieces))];
			int			k = strlen(p);
			int			again = dice(20) == 0 ? dice(40) : 1;

			while (again-- > 0 && len + k < 4000)
			{
				memcpy(text + len, p, k);
				len += k;
			}
			/* cut between characters */
			if (dice(8) == 0 && len > 0)
			{
				len -= dice(Min(len, 8));
				while (len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80)
					len--;
			}
		}
		while (len > 0 && pg_encoding_verifymbstr(PG_UTF8, text, len) != len)
			len--;
		text[len] = '\0';
		mw_holds_normaliser(text, len, check);
		mw_holds_decoder(text, len, check);
		mw_holds_restoring(text, len, check);
		mw_alone_reset();
	}
	for (i = 0; i < (int) lengthof(fuzzed); i++)
	{
		mw_holds_restoring(fuzzed[i], strlen(fuzzed[i]), check);
		mw_alone_reset();
	}
	printf("%s: %d checks, %d failed\n", failed ? "not ok" : "ok", checks, failed);
	return failed ? 1 : 0;
}
