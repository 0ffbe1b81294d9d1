/*
 * http_exchange.c - what comes back from a server, and what became of the request.
 *
 * What became of a request (invariant 5).  The difference between "not sent" and
 * "unknown" is money, so it rests on facts and, where they leave a doubt, falls
 * to "unknown":
 *
 * - A body byte counts in CURLINFO_SIZE_UPLOAD_T only after send(), SSL_write()
 *	 or nghttp2 took it, and the body goes out after the header.  So a count
 *	 below body_len proves that the request was not written in full (over TLS the
 *	 last record, over HTTP/2 the last DATA frame, is missing).  The reverse does
 *	 not hold for HTTP/2, whose last frame may still lie in libcurl's buffer: that
 *	 errs towards unknown.  CURLINFO_REQUEST_SIZE counts headers only, and an
 *	 emptied read callback says nothing about the socket.  A body is never empty.
 * - libcurl silently sends a request again, up to five times, when a reused
 *	 connection died before a byte of the answer (Curl_retry_request; for HTTP/2
 *	 also a stream the server refused).  An attempt is one exchange and the ledger
 *	 has a row for each, so that must not happen behind its back: the prerequest
 *	 callback is called once before each exchange, and the socket callback before
 *	 each connection; either one, after an exchange has begun, is libcurl about to
 *	 repeat.  Both refuse, and the transfer ends as "not sent" - unless nothing at
 *	 all had been written (CURLINFO_REQUEST_SIZE, which counts what the socket took
 *	 of this transfer, repetitions included): then no exchange had begun.
 *	 "Not a byte" is libcurl's word, and it counts whole header lines; over plain
 *	 http the kernel's count of the socket's bytes (in which the closing itself is
 *	 one) tells an answer that broke off inside its first line.
 * - With TLS 1.3 a client has sent its request by the time it hears that its
 *	 certificate is missing or refused.  A server that says so never took the
 *	 handshake for complete, so that it cannot have read the request.
 * - A whole status line other than 2xx is an answer even where its body was cut
 *	 off or late; a 2xx is one only when libcurl says that its end was reached.
 *
 * libcurl's callbacks here record and return, nothing more; bodies and headers
 * are capped.
 */
#include "postgres.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "gateway/address.h"
#include "gateway/http_int.h"
#include "gateway/http_text.h"

/* The address rule (address.c), for this transfer; remembers why not */
bool
mw_http_may_call(MwHttpTransfer *t, int address_kind)
{
	if (address_kind == MW_ADDRESS_PUBLIC ||
		(address_kind == MW_ADDRESS_PRIVATE && t->private_ok))
		return true;
	t->refused = true;
	t->refused_private = address_kind == MW_ADDRESS_PRIVATE;
	return false;
}

/* The first exchange of this transfer, or is libcurl about to repeat one? */
bool
mw_http_may_begin(MwHttpTransfer *t)
{
	long		written = 0;

	if (t->exchanges == 0)
		return true;
	curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &written);
	if (written == 0)
	{
		t->exchanges = 0;
		return true;
	}
	t->died_unused = true;
	t->cut_bytes = mw_http_cut_bytes();
	return false;
}

/*
 * A connection is there and the request is about to be written.  A pooled
 * connection may have been opened for a server that allows private addresses:
 * the address is judged for this transfer too.
 */
int
mw_http_on_request(void *arg, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
	MwHttpTransfer *t = arg;

	mw_http_resolved(t);
	if (!mw_http_may_begin(t))
		return CURL_PREREQFUNC_ABORT;
	if (!mw_http_may_call(t, mw_address_kind_text(remote_ip)))
	{
		t->opened = false;
		return CURL_PREREQFUNC_ABORT;
	}
	t->exchanges++;
	mw_http_moved(t);
	return CURL_PREREQFUNC_OK;
}

/* One header line, with its line end, not NUL terminated */
size_t
mw_http_on_header(char *line, size_t size, size_t n, void *arg)
{
	MwHttpTransfer *t = arg;
	char		value[128];

	/* the first line ends the time in which the model thinks, which no limit is for */
	if (t->header_bytes == 0)
		t->stall_at = 0;
	t->header_bytes += n;
	mw_http_moved(t);
	if (t->header_bytes > MW_HTTP_MAX_HEADER)
	{
		t->header_flood = true;
		return 0;
	}
	if (t->header_ended)
		return n;
	switch (line[0])
	{
		case '\r':
		case '\n':
			t->header_ended = t->status >= 200;
			if (!t->header_ended)
				t->stall_at = 0;	/* an interim answer: it thinks on */
			break;
		case 'H':
			if (n > 5 && memcmp(line, "HTTP/", 5) == 0)
			{
				const char *p = memchr(line, ' ', n);

				/* an interim answer's header fields do not count */
				t->status = 0;
				t->retry_after = t->retry_after_ms = -1;
				t->retry_forbidden = t->encoded = false;
				for (int i = 1; p != NULL && i <= 3 && p + i < line + n && p[i] >= '0' && p[i] <= '9'; i++)
					t->status = t->status * 10 + (p[i] - '0');
			}
			break;
		case 'r':
		case 'R':
			if (mw_http_field(line, n, "retry-after", value, sizeof(value)))
				t->retry_after = Max(t->retry_after, mw_http_retry_after(value, (int64) time(NULL)));
			else if (mw_http_field(line, n, "retry-after-ms", value, sizeof(value)))
				t->retry_after_ms = Max(t->retry_after_ms, mw_http_decimal(value, 1));	/* of two wishes the longer */
			break;
		case 't':
		case 'T':
			/* libcurl undoes a compression here whatever it is told */
			if (mw_http_field(line, n, "transfer-encoding", value, sizeof(value)) &&
				strcasecmp(value, "chunked") != 0 && strcasecmp(value, "identity") != 0)
				t->encoded = true;
			break;
		case 'x':
		case 'X':
			if (mw_http_field(line, n, "x-should-retry", value, sizeof(value)))
				t->retry_forbidden |= strcasecmp(value, "false") == 0;
			break;
		case 'c':
		case 'C':
			if (mw_http_field(line, n, "content-encoding", value, sizeof(value)) &&
				value[0] != '\0' && strcasecmp(value, "identity") != 0)
				t->encoded = true;
			break;
	}
	return n;
}

size_t
mw_http_on_body(char *data, size_t size, size_t n, void *arg)
{
	MwHttpTransfer *t = arg;

	t->body_bytes += n;
	mw_http_moved(t);
	if (t->encoded && t->body_bytes <= t->max_response)
		return n;				/* it is refused: read to its end, so that the exchange is known to be complete */
	if (t->encoded || n > t->max_response - t->len)
	{
		t->too_large = true;
		return 0;
	}
	if (t->len + n + 1 > t->cap)
	{
		size_t		cap = t->cap ? t->cap : 4096;
		char	   *p;

		while (cap < t->len + n + 1)
			cap *= 2;
		if (cap > t->max_response + 1)
			cap = t->max_response + 1;
		p = realloc(t->body, cap);
		if (p == NULL)
		{
			t->no_memory = true;
			return 0;
		}
		t->body = p;
		t->cap = cap;
	}
	memcpy(t->body + t->len, data, n);
	t->len += n;
	t->body[t->len] = '\0';
	return n;
}

/* Did a transport failure end it, rather than something that was read? */
static bool
is_transport_failure(CURLcode rc)
{
	return rc == CURLE_SEND_ERROR || rc == CURLE_RECV_ERROR || rc == CURLE_GOT_NOTHING;
}

/* A TLS alert about our own certificate (OpenSSL's words for it) */
static bool
is_certificate_refused(const MwHttpTransfer *t, CURLcode rc)
{
	return t->https && t->exchanges == 1 && t->header_bytes == 0 && is_transport_failure(rc) &&
		strstr(t->errbuf, " alert ") != NULL &&
		(strstr(t->errbuf, "certificate") != NULL || strstr(t->errbuf, "unknown ca") != NULL ||
		 strstr(t->errbuf, "access denied") != NULL);
}

void
mw_http_judge(MwHttpTransfer *t, CURLcode rc, MwHttpResult *r)
{
	const char *words;
	curl_off_t	sent = 0;
	curl_off_t	total_us = 0;
	long		connects = 1;
	bool		whole;

	r->status = t->status >= 200 ? t->status : 0;

	/* libcurl 7.88 calls an answer complete that ended inside its header */
	if (rc == CURLE_OK && !t->header_ended)
		rc = CURLE_PARTIAL_FILE;
	if (rc == CURLE_OK)
	{
		r->kind = MW_HTTP_COMPLETE;
		if (t->encoded)
			snprintf(r->error, sizeof(r->error), "the answer of %s is compressed, which was not asked for", t->host);
		return;
	}

	words = t->stalled ? "it stalled" : t->errbuf[0] != '\0' ? t->errbuf : curl_easy_strerror(rc);
	curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
	curl_easy_getinfo(t->easy, CURLINFO_TOTAL_TIME_T, &total_us);
	curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &connects);
	/* about to repeat, libcurl has set its count back */
	whole = t->exchanges > 0 && (t->died_unused || sent >= (curl_off_t) t->body_len);

	/* a connect timeout shorter than the deadline is a failed connection */
	r->timed_out = rc == CURLE_OPERATION_TIMEDOUT && !t->stalled && total_us / 1000 + 1 >= t->timeout_ms;
	r->too_large = t->too_large;

	if (t->cut_bytes <= 1 &&
		(t->died_unused ||
		 (connects == 0 && t->exchanges > 0 && t->header_bytes == 0 && is_transport_failure(rc))))
	{
		r->kind = MW_HTTP_NOT_SENT;
		snprintf(r->error, sizeof(r->error), "%s dropped the request on a kept-alive connection before it answered", t->host);
	}
	else if (r->status >= 300)
	{
		/* the status line says it all; the body is there as far as it came */
		r->kind = MW_HTTP_COMPLETE;
		r->timed_out = r->too_large = false;
		snprintf(r->error, sizeof(r->error), "the answer of %s broke off after its status: %s", t->host, words);
	}
	else if (t->exchanges == 0 || (connects > 0 && is_certificate_refused(t, rc)))
	{
		r->kind = MW_HTTP_NOT_SENT;
		r->connect_failed = true;
		r->blocked = t->refused && !t->opened;
		r->server_fault = !r->timed_out && !r->blocked && t->socket_errno == 0 && rc != CURLE_OUT_OF_MEMORY;
		r->private_host = r->blocked && t->refused_private;
		if (r->private_host)
			snprintf(r->error, sizeof(r->error), "%s resolves to a loopback or private address, which needs the server option allow_private", t->host);
		else if (r->blocked)
			snprintf(r->error, sizeof(r->error), "%s is a link-local, metadata or reserved address, which is never called", t->host);
		else if (t->socket_errno != 0 && !t->opened)
			snprintf(r->error, sizeof(r->error), "could not open a socket to %s: %s", t->host, strerror(t->socket_errno));
		else
			snprintf(r->error, sizeof(r->error), "could not connect to %s: %s", t->host, words);
	}
	else if (!whole && r->status == 0)
	{
		r->kind = MW_HTTP_NOT_SENT;
		snprintf(r->error, sizeof(r->error), "could not send the request to %s (%lld of %lld bytes): %s", t->host,
				 (long long) sent, (long long) t->body_len, words);
	}
	else
	{
		r->kind = MW_HTTP_UNKNOWN;
		r->server_fault = !r->timed_out && !t->too_large && !t->no_memory && rc != CURLE_OUT_OF_MEMORY;
		if (t->too_large)
			snprintf(r->error, sizeof(r->error), "the answer of %s is over %zu bytes", t->host, t->max_response);
		else if (t->header_flood)
			snprintf(r->error, sizeof(r->error), "the header of the answer of %s is over %d bytes", t->host, MW_HTTP_MAX_HEADER);
		else if (t->no_memory)
			snprintf(r->error, sizeof(r->error), "out of memory for the answer of %s", t->host);
		else if (t->stalled)
			snprintf(r->error, sizeof(r->error), "the answer of %s stalled: fewer than %zu bytes in %.3f s", t->host,
					 t->stall_bytes, t->stall_ms / 1000.0);
		else if (t->died_unused)
			snprintf(r->error, sizeof(r->error), "the answer of %s broke off inside its first line", t->host);
		else if (r->timed_out)
			snprintf(r->error, sizeof(r->error), "no complete answer from %s within %ld ms", t->host, t->timeout_ms);
		else
			snprintf(r->error, sizeof(r->error), "could not read the answer of %s: %s", t->host, words);
	}
}
