/*
 * mw_floor.c - the least that a call from SQL can cost, to hold mw against.
 *
 * floor_http is a plain HTTP client in a backend, of the shape that pgsql-http
 * has by default: one easy handle a backend, reset before each call, a new
 * connection each time, the progress callback looking for interrupts.  With
 * "keep" the connection stays, which no SQL client of that kind can beat.
 *
 * The answer is collected in malloc'ed memory, since the callback runs inside
 * libcurl, where an ERROR of palloc must not pass.
 */
#include "postgres.h"

#include <time.h>

#include <curl/curl.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sodium.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

typedef struct Body
{
	char	   *data;
	size_t		len;
} Body;

static CURL *handle;
static struct curl_slist *headers;

static size_t
collect(char *data, size_t size, size_t n, void *arg)
{
	Body	   *body = arg;
	char	   *bigger = realloc(body->data, body->len + n);

	if (bigger == NULL)
		return 0;
	body->data = bigger;
	memcpy(body->data + body->len, data, n);
	body->len += n;
	return n;
}

static int
interrupted(void *arg, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal, curl_off_t ulnow)
{
	return InterruptPending && (QueryCancelPending || ProcDiePending);
}

PG_FUNCTION_INFO_V1(mw_floor_noop);

Datum
mw_floor_noop(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(1);
}

PG_FUNCTION_INFO_V1(mw_floor_copy);

Datum
mw_floor_copy(PG_FUNCTION_ARGS)
{
	text	   *in = PG_GETARG_TEXT_PP(0);

	PG_RETURN_TEXT_P(cstring_to_text_with_len(VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in)));
}

PG_FUNCTION_INFO_V1(mw_floor_http);

Datum
mw_floor_http(PG_FUNCTION_ARGS)
{
	char	   *url = text_to_cstring(PG_GETARG_TEXT_PP(0));
	text	   *sent = PG_GETARG_TEXT_PP(1);
	bool		keep = PG_GETARG_BOOL(2);
	Body		body = {NULL, 0};
	CURLcode	rc;
	long		status = 0;
	text	   *result;

	if (handle == NULL)
	{
		curl_global_init(CURL_GLOBAL_DEFAULT);
		handle = curl_easy_init();
		headers = curl_slist_append(NULL, "Content-Type: application/json");
	}
	if (handle == NULL || headers == NULL)
		ereport(ERROR, errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"));

	curl_easy_reset(handle);
	curl_easy_setopt(handle, CURLOPT_URL, url);
	curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(handle, CURLOPT_PROXY, "");
	curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, (long) VARSIZE_ANY_EXHDR(sent));
	curl_easy_setopt(handle, CURLOPT_POSTFIELDS, VARDATA_ANY(sent));
	curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, collect);
	curl_easy_setopt(handle, CURLOPT_WRITEDATA, &body);
	curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, interrupted);
	if (!keep)
	{
		curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(handle, CURLOPT_FORBID_REUSE, 1L);
	}

	rc = curl_easy_perform(handle);
	curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
	if (rc != CURLE_OK || status != 200)
	{
		free(body.data);
		CHECK_FOR_INTERRUPTS();
		ereport(ERROR,
				errcode(ERRCODE_CONNECTION_FAILURE),
				errmsg("could not call the upstream: %s, status %ld", curl_easy_strerror(rc), status));
	}
	result = cstring_to_text_with_len(body.data, body.len);
	free(body.data);
	PG_RETURN_TEXT_P(result);
}

/* Patterns of the reference design, each compiled at its first use by PCRE2's JIT compiler */
typedef struct Pattern
{
	const char *text;
	uint32		flags;
	pcre2_code *code;
} Pattern;

static pcre2_match_data *match;

/* Microseconds of the processor, as mw's own bench functions count them */
static double
computed_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static pcre2_code *
compiled(Pattern *p)
{
	int			error;
	PCRE2_SIZE	at;

	if (p->code == NULL)
	{
		p->code = pcre2_compile((PCRE2_SPTR) p->text, PCRE2_ZERO_TERMINATED, p->flags, &error, &at, NULL);
		if (p->code == NULL || pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) != 0)
			elog(ERROR, "a pattern of the floor cannot be compiled");
	}
	if (match == NULL)
		match = pcre2_match_data_create(8, NULL);
	return p->code;
}

/*
 * mw_floor_search(input, n): the four injection patterns, each searched for; microseconds that the four searches of
 * one time take.
 */
PG_FUNCTION_INFO_V1(mw_floor_search);

Datum
mw_floor_search(PG_FUNCTION_ARGS)
{
	static Pattern patterns[] = {
		{"ignore (all |the )?(previous|prior|above) (instructions|rules)", PCRE2_CASELESS},
		{"system prompt (is|was|now)", PCRE2_CASELESS},
		{"you are now (a |an )?", PCRE2_CASELESS},
		{"</?(system|instruction|prompt)>", PCRE2_CASELESS}
	};
	text	   *in = PG_GETARG_TEXT_PP(0);
	int			n = PG_GETARG_INT32(1);
	int			found = 0;
	double		start;

	for (int i = 0; i < lengthof(patterns); i++)
		(void) compiled(&patterns[i]);
	start = computed_us();
	for (int k = 0; k < n; k++)
		for (int i = 0; i < lengthof(patterns); i++)
			found += pcre2_jit_match(patterns[i].code, (PCRE2_SPTR) VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in), 0, 0, match, NULL) > 0;
	start = computed_us() - start;
	if (found > 0)
		elog(WARNING, "the text that is searched has an injection");
	PG_RETURN_FLOAT8(start / Max(1, n));
}

/*
 * mw_floor_find(input, n): all matches of the four redaction patterns, one pattern after the other, nothing rewritten;
 * microseconds that the four passes of one time take.
 */
PG_FUNCTION_INFO_V1(mw_floor_find);

Datum
mw_floor_find(PG_FUNCTION_ARGS)
{
	static Pattern patterns[] = {
		{"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}"},
		{"\\+?\\d[\\d\\s\\-\\(\\)]{7,}\\d"},
		{"\\b\\d{3}-\\d{2}-\\d{4}\\b"},
		{"\\b(?:\\d[ -]*?){13,16}\\b"}
	};
	text	   *in = PG_GETARG_TEXT_PP(0);
	PCRE2_SIZE	len = VARSIZE_ANY_EXHDR(in);
	int			n = PG_GETARG_INT32(1);
	double		start;

	for (int i = 0; i < lengthof(patterns); i++)
		(void) compiled(&patterns[i]);
	start = computed_us();
	for (int k = 0; k < n; k++)
		for (int i = 0; i < lengthof(patterns); i++)
		{
			PCRE2_SIZE	at = 0;

			while (at <= len && pcre2_jit_match(patterns[i].code, (PCRE2_SPTR) VARDATA_ANY(in), len, at, 0, match, NULL) > 0)
			{
				PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);

				at = Max(span[1], span[0] + 1);
			}
		}
	start = computed_us() - start;
	PG_RETURN_FLOAT8(start / Max(1, n));
}

/* mw_floor_key(input, n): BLAKE2b of 16 bytes by libsodium; microseconds of one time */
PG_FUNCTION_INFO_V1(mw_floor_key);

Datum
mw_floor_key(PG_FUNCTION_ARGS)
{
	text	   *in = PG_GETARG_TEXT_PP(0);
	int			n = PG_GETARG_INT32(1);
	unsigned char key[16];
	double		start;

	start = computed_us();
	for (int k = 0; k < n; k++)
		crypto_generichash(key, sizeof(key), (unsigned char *) VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in), NULL, 0);
	start = computed_us() - start;
	PG_RETURN_FLOAT8(start / Max(1, n));
}
