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

#include <curl/curl.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
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

/*
 * mw_floor_search(input, n): the reference design's four injection patterns, each searched for by PCRE2's JIT
 * code; microseconds that the four searches of one time take.
 */
PG_FUNCTION_INFO_V1(mw_floor_search);

Datum
mw_floor_search(PG_FUNCTION_ARGS)
{
	static const char *const patterns[] = {
		"ignore (all |the )?(previous|prior|above) (instructions|rules)",
		"system prompt (is|was|now)",
		"you are now (a |an )?",
		"</?(system|instruction|prompt)>"
	};
	static pcre2_code *code[lengthof(patterns)];
	static pcre2_match_data *match;
	text	   *in = PG_GETARG_TEXT_PP(0);
	int			n = PG_GETARG_INT32(1);
	int			found = 0;
	instr_time	start;
	instr_time	took;

	for (int i = 0; i < lengthof(patterns) && code[i] == NULL; i++)
	{
		int			error;
		PCRE2_SIZE	at;

		code[i] = pcre2_compile((PCRE2_SPTR) patterns[i], PCRE2_ZERO_TERMINATED, PCRE2_CASELESS, &error, &at, NULL);
		if (code[i] == NULL || pcre2_jit_compile(code[i], PCRE2_JIT_COMPLETE) != 0)
			elog(ERROR, "a pattern of the floor cannot be compiled");
		if (match == NULL)
			match = pcre2_match_data_create_from_pattern(code[i], NULL);
	}
	INSTR_TIME_SET_CURRENT(start);
	for (int k = 0; k < n; k++)
		for (int i = 0; i < lengthof(patterns); i++)
			found += pcre2_jit_match(code[i], (PCRE2_SPTR) VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in), 0, 0, match, NULL) > 0;
	INSTR_TIME_SET_CURRENT(took);
	INSTR_TIME_SUBTRACT(took, start);
	if (found > 0)
		elog(WARNING, "the text that is searched has an injection");
	PG_RETURN_FLOAT8(INSTR_TIME_GET_DOUBLE(took) * 1e6 / Max(1, n));
}
