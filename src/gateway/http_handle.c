/*
 * http_handle.c - libcurl's easy handles: made once, kept, set anew only where
 * the next request differs.
 *
 * A warm exchange costs about as much as setting up a handle, so handles are
 * pooled with what they are set to, and one that last spoke to the same server
 * with the same key is taken where there is one.  A handle therefore keeps a key
 * in this process's memory; it is wiped when it is replaced.
 */
#include "postgres.h"

#include <string.h>

#include "gateway/http_int.h"
#include "gateway/http_text.h"

/* Load balancers forget an idle connection after 60 s, some without a word: do not reuse an older one. */
#define MAX_IDLE_SECONDS	50L

/* Easy handles kept for reuse (about 20 KB each) and how many are looked at for one that fits */
#define MAX_IDLE_HANDLES	64
#define LOOK_AT_HANDLES		8

static MwHttpTransfer *free_list;
static int	nfree;

/* Free a string that may hold a key */
static void
wipe(char *s)
{
	if (s != NULL)
	{
		explicit_bzero(s, strlen(s));
		free(s);
	}
}

static void
free_headers(MwHttpTransfer *t)
{
	for (struct curl_slist *h = t->headers; h != NULL; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(t->headers);
	t->headers = NULL;
}

void
mw_http_free_handle(MwHttpTransfer *t)
{
	if (t->easy != NULL)
		curl_easy_cleanup(t->easy);
	free_headers(t);
	wipe(t->auth);
	free(t->url);
	free(t->ca_file);
	free(t->client_cert);
	free(t->client_key);
	free(t->proxy);
	free(t->body);
	free(t);
}

static MwHttpTransfer *
make_handle(void)
{
	MwHttpTransfer *t = calloc(1, sizeof(MwHttpTransfer));
	CURL	   *e = t != NULL ? curl_easy_init() : NULL;

	if (e == NULL)
	{
		free(t);
		return NULL;
	}
	t->easy = e;
	curl_easy_setopt(e, CURLOPT_PRIVATE, t);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->errbuf);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(e, CURLOPT_POST, 1L);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "mw/1.0");

	/* nothing but http, nowhere but there, and nothing from the environment */
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOPROXY, "");
	curl_easy_setopt(e, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(e, CURLOPT_HTTP_CONTENT_DECODING, 0L);

	curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 30L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 15L);
	curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, MAX_IDLE_SECONDS);

	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, mw_http_on_open);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
	curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, mw_http_on_close);
	curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, mw_http_on_request);
	curl_easy_setopt(e, CURLOPT_PREREQDATA, t);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, mw_http_on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, mw_http_on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	return t;
}

static bool
same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* A pooled handle, one that is already set to this server and key where there is one */
MwHttpTransfer *
mw_http_take_handle(const MwHttpRequest *req)
{
	MwHttpTransfer **at = &free_list;
	int			looked = 0;

	for (MwHttpTransfer **p = &free_list; *p != NULL && looked < LOOK_AT_HANDLES; p = &(*p)->next, looked++)
		if (same((*p)->url, req->url) && same((*p)->auth, req->auth_header))
		{
			at = p;
			break;
		}
	if (*at != NULL)
	{
		MwHttpTransfer *t = *at;

		*at = t->next;
		nfree--;
		return t;
	}
	return make_handle();
}

void
mw_http_put_handle(MwHttpTransfer *t)
{
	if (nfree >= MAX_IDLE_HANDLES)
	{
		mw_http_free_handle(t);
		return;
	}
	t->next = free_list;
	free_list = t;
	nfree++;
}

static bool
set_string(MwHttpTransfer *t, CURLoption option, char **kept, const char *value, const char *absent)
{
	char	   *copy;

	if (same(*kept, value))
		return true;
	copy = value != NULL ? strdup(value) : NULL;
	if ((value != NULL && copy == NULL) ||
		curl_easy_setopt(t->easy, option, value != NULL ? value : absent) != CURLE_OK)
	{
		free(copy);
		return false;
	}
	free(*kept);
	*kept = copy;
	return true;
}

/* URL, and what depends on it: protocol version, host, whether that is a literal address */
static const char *
set_url(MwHttpTransfer *t, const char *url)
{
	const char *why;

	if (same(t->url, url))
		return NULL;
	free(t->url);
	t->url = NULL;
	why = mw_http_url_check(url, t->host, sizeof(t->host), &t->literal, &t->https);
	if (why != NULL)
		return why;
	if (!set_string(t, CURLOPT_URL, &t->url, url, NULL))
		return "out of memory";

	/*
	 * HTTP/2 where TLS can agree on it, and then many requests wait for the
	 * one connection instead of opening one each.  Over plain http there is
	 * nothing to wait for.
	 */
	curl_easy_setopt(t->easy, CURLOPT_HTTP_VERSION,
					 (long) (t->https ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
	curl_easy_setopt(t->easy, CURLOPT_PIPEWAIT, t->https ? 1L : 0L);
	return NULL;
}

static const char *
set_headers(MwHttpTransfer *t, const char *auth)
{
	static const char *const fixed[] = {
		"Content-Type: application/json", "Accept: application/json",
		"Expect:"				/* libcurl's own "100-continue" for large bodies costs a round trip, or a second */
	};
	struct curl_slist *list = NULL;

	if (t->headers != NULL && same(t->auth, auth))
		return NULL;

	/* libcurl sends header lines as they are: a line break would be another header */
	for (const char *p = auth; p != NULL && *p != '\0'; p++)
		if ((unsigned char) *p < ' ' || *p == 0x7f)
			return "the key holds a control character or a line break";
	for (int i = 0; i < lengthof(fixed) + (auth != NULL ? 1 : 0); i++)
	{
		struct curl_slist *longer = curl_slist_append(list, i < lengthof(fixed) ? fixed[i] : auth);

		if (longer == NULL)
		{
			curl_slist_free_all(list);
			return "out of memory";
		}
		list = longer;
	}
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, list);
	free_headers(t);
	t->headers = list;
	wipe(t->auth);
	t->auth = auth != NULL ? strdup(auth) : NULL;
	return auth != NULL && t->auth == NULL ? "out of memory" : NULL;
}

static void
set_long(MwHttpTransfer *t, CURLoption option, long *kept, long value)
{
	if (*kept != value)
	{
		curl_easy_setopt(t->easy, option, value);
		*kept = value;
	}
}

const char *
mw_http_set_handle(MwHttpTransfer *t, const MwHttpRequest *req)
{
	const char *wrong = set_url(t, req->url);

	if (wrong == NULL)
		wrong = set_headers(t, req->auth_header);
	/* what stands for none is asked of libcurl only where it has to be: that takes as long as all the rest here */
	if (wrong == NULL && !same(t->ca_file, req->ca_file) &&
		!set_string(t, CURLOPT_CAINFO, &t->ca_file, req->ca_file, curl_version_info(CURLVERSION_NOW)->cainfo))
		wrong = "the CA file cannot be used";
	if (wrong == NULL && !set_string(t, CURLOPT_SSLCERT, &t->client_cert, req->client_cert, NULL))
		wrong = "the client certificate cannot be used";
	if (wrong == NULL && !set_string(t, CURLOPT_SSLKEY, &t->client_key, req->client_key, NULL))
		wrong = "the key of the client certificate cannot be used";
	if (wrong == NULL && !set_string(t, CURLOPT_PROXY, &t->proxy, req->proxy, ""))
		wrong = "the proxy cannot be used";

	set_long(t, CURLOPT_SSLVERSION, &t->tls_version,
			 (long) (req->tls13 ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2));

	curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, req->afresh ? 1L : 0L);

	/* 0 would be "for ever" */
	set_long(t, CURLOPT_TIMEOUT_MS, &t->timeout_ms, Max(req->timeout_ms, 1));
	set_long(t, CURLOPT_CONNECTTIMEOUT_MS, &t->connect_timeout_ms, Max(req->connect_timeout_ms, 1));
	curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, req->body);	/* not copied */
	curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) req->body_len);
	return wrong;
}

void
mw_http_free_handles(void)
{
	while (free_list != NULL)
	{
		MwHttpTransfer *t = free_list;

		free_list = t->next;
		mw_http_free_handle(t);
	}
	nfree = 0;
}
