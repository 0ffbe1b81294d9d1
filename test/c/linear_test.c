/*
 * linear_test.c - twice the text, twice the work.
 *
 * The risk it holds back: a text made so that redaction, restoring or a view costs the square of its length.  Work is
 * counted, not timed, so that a busy machine changes nothing: this program's objects call a function at each branch
 * (-fsanitize-coverage=trace-pc), PCRE2 calls one at each step of a match, and what libc copies or compares counts by
 * its bytes.  The texts are those of test/corpora and baits, each repeated.
 */
#include "alone/alone.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "stage/normalise.h"
#include "stage/redact.h"

/* so many bytes, and twice as many; another number may be given as an argument */
static int	length = 20000;

/* the bar for time (bench, "linear"): what stands at the ends of a text and tables that grow are not in proportion to it */
#define FACTOR	2.3

static int	checks = 0;
static int	failures = 0;
static uint64 work;

/* ---------- counting ---------- */

#define NOT_COUNTED	__attribute__((no_sanitize_coverage))

extern void __sanitizer_cov_trace_pc(void);
extern pcre2_code *__real_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE len, uint32_t options, int *error, PCRE2_SIZE *at, pcre2_compile_context *cxt);
extern pcre2_code *__wrap_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE len, uint32_t options, int *error, PCRE2_SIZE *at, pcre2_compile_context *cxt);
extern pcre2_match_context *__real_pcre2_match_context_create_8(pcre2_general_context *cxt);
extern pcre2_match_context *__wrap_pcre2_match_context_create_8(pcre2_general_context *cxt);
extern void *__real_memcpy(void *to, const void *from, size_t n);
extern void *__wrap_memcpy(void *to, const void *from, size_t n);
extern void *__real_memmove(void *to, const void *from, size_t n);
extern void *__wrap_memmove(void *to, const void *from, size_t n);
extern int	__real_memcmp(const void *a, const void *b, size_t n);
extern int	__wrap_memcmp(const void *a, const void *b, size_t n);
extern void *__real_memset(void *to, int c, size_t n);
extern void *__wrap_memset(void *to, int c, size_t n);
extern size_t __real_strlen(const char *s);
extern size_t __wrap_strlen(const char *s);

NOT_COUNTED void
__sanitizer_cov_trace_pc(void)
{
	work++;
}

static int
step(pcre2_callout_block *block, void *arg)
{
	return 0;					/* entering here has been counted */
}

pcre2_code *
__wrap_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE len, uint32_t options, int *error, PCRE2_SIZE *at, pcre2_compile_context *cxt)
{
	return __real_pcre2_compile_8(pattern, len, options | PCRE2_AUTO_CALLOUT, error, at, cxt);
}

pcre2_match_context *
__wrap_pcre2_match_context_create_8(pcre2_general_context *cxt)
{
	pcre2_match_context *made = __real_pcre2_match_context_create_8(cxt);

	pcre2_set_callout(made, step, NULL);
	return made;
}

void *
__wrap_memcpy(void *to, const void *from, size_t n)
{
	work += n / 16;
	return __real_memcpy(to, from, n);
}

void *
__wrap_memmove(void *to, const void *from, size_t n)
{
	work += n / 16;
	return __real_memmove(to, from, n);
}

int
__wrap_memcmp(const void *a, const void *b, size_t n)
{
	work += n / 16;
	return __real_memcmp(a, b, n);
}

void *
__wrap_memset(void *to, int c, size_t n)
{
	work += n / 16;
	return __real_memset(to, c, n);
}

size_t
__wrap_strlen(const char *s)
{
	size_t		n = __real_strlen(s);

	work += n / 16;
	return n;
}

/* ---------- what is counted ---------- */

static MwPolicy *policy;

static void
redact(char *s, int len)
{
	MwPiiMap	map;
	int			outlen,
				newlen;
	char	   *out;

	mw_pii_map_init(&map, NULL);
	mw_pii_reserve(&map, s, len);
	out = mw_redact_text(policy, &map, s, len, NULL, &outlen, NULL, NULL);
	(void) mw_restore_text(&map, out, outlen, &newlen, NULL);
}

static void
look(char *s, int len)
{
	MwView		v,
				other;
	int			at = 0;

	mw_normalise(s, len, &v);
	(void) mw_view_hints(&v);
	(void) mw_view_joined(&v, &other);
	(void) mw_view_parted(&v, &other);
	(void) mw_view_leet(&v, false, &other);
	(void) mw_view_leet(&v, true, &other);
	(void) mw_view_unescaped(&v, &other);
	(void) mw_view_rot13(&v, &other);
	(void) mw_view_reversed(&v, &other);
	while (mw_view_decoded(&v, &at, &other))
		;
}

static uint64
cost(void (*does) (char *s, int len), const char *unit, int n, int times)
{
	char	   *s = palloc(n * times + 1);
	uint64		before;

	for (int i = 0; i < times; i++)
		memcpy(s + i * n, unit, n);
	s[n * times] = '\0';
	before = work;
	does(s, n * times);
	before = work - before;
	mw_alone_reset();
	return before;
}

static void
try(const char *unit, int n)
{
	static const struct
	{
		const char *what;
		void		(*does) (char *s, int len);
	}			of[] = {{"redaction", redact}, {"the views of the guardrail", look}};

	for (size_t i = 0; i < lengthof(of); i++)
	{
		int			times = (length / n / 16 + 1) * 16; /* in some texts every other value is found at a second look */
		uint64		once,
					twice;

		(void) cost(of[i].does, unit, n, 1);	/* patterns are compiled, and characters folded, when they are first met */
		once = cost(of[i].does, unit, n, times);
		twice = cost(of[i].does, unit, n, 2 * times);
		checks++;
		if ((double) twice > FACTOR * (double) once && failures++ < 20)
			printf("not ok: %s of twice the text costs %.2f times as much: %.*s\n", of[i].what, (double) twice / once, n, unit);
	}
}

/* A row's text, without the escapes of test/corpora/README.md */
static int
unescaped(char *s)
{
	int			n = 0;

	for (char *p = s; *p && *p != '\t' && *p != '\n'; p++)
	{
		if (*p == '\\' && p[1] != '\0' && strchr("ntr\\", p[1]) != NULL)
		{
			p++;
			s[n++] = *p == 'n' ? '\n' : *p == 't' ? '\t' : *p == 'r' ? '\r' : '\\';
		}
		else
			s[n++] = *p;
	}
	return n;
}

int
main(int argc, char **argv)
{
	static const char *const files[] = {"pii-positive-open", "pii-negative-open", "injection-open", "injection-held-out"};
	static const char *const baits[] = {
		"a", "1", "1 ", "4111 ", "a.", "a-", "a@", "@", "a.b-c_d@e-f.", "1-", "1:", "ab:cd:", "+1 ", "(1) ", "DE89 ", "key=", "://", "eyJ", "AB1 ",
		"-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "1.2.", "<EMAIL_0>", "<EMAIL_", "e\xcc\x81", "\xef\xbc\x91", "\xe2\x80\x8b" "1", "\"", "\"@", "<", "&lt;", "_0", "password: ",
		"SSN ", "A", "=", "%41", "\\u0041", "\xd0\xb0" "a", "account number 12345678 ", "a@b.cc+", "0x", "::", "born 1.", "\n", " ", "A1", "{", "[", "QUJD", "1 . ", "tel ",
	};

	if (argc > 1)
		length = atoi(argv[1]);
	policy = mw_alone_policy(MW_ALONE_ALL);
	for (size_t i = 0; i < lengthof(baits); i++)
		try(baits[i], strlen(baits[i]));
	for (size_t i = 0; i < lengthof(files); i++)
	{
		char		path[256];
		char	   *line = NULL;
		size_t		size = 0;
		FILE	   *f;
		int			rows = 0;

		snprintf(path, sizeof(path), "test/corpora/%s.tsv", files[i]);
		f = fopen(path, "r");
		if (f == NULL)
		{
			printf("not ok: %s cannot be read\n", path);
			return 1;
		}
		while (getline(&line, &size, f) > 0)
		{
			int			n = rows++ == 0 ? 0 : unescaped(line);

			if (n > 0)
			{
				/* parted, so that its end and its beginning do not touch */
				line[n++] = ' ';
				try(line, n);
			}
		}
		fclose(f);
		free(line);
		checks++;
		if (rows < 50 && failures++ < 20)
			printf("not ok: %s has %d rows\n", path, rows);
	}
	printf("%sok: %d checks, %d failed\n", failures ? "not " : "", checks, failures);
	return failures != 0;
}
