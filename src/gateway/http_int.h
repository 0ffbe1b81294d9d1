/*
 * http_int.h - between the files of the HTTP client: http.c (transfers and the
 * loop), http_sockets.c (what is watched), http_handle.c (easy handles and their
 * options), http_exchange.c (what comes back, and the judgement).  For them alone.
 */
#ifndef MW_HTTP_INT_H
#define MW_HTTP_INT_H

#include "postgres.h"

#include <curl/curl.h>

#include "gateway/http.h"

/*
 * All header lines of one exchange, interim (1xx) answers and trailers included.
 * Providers send 1 to 3 KB.
 */
#define MW_HTTP_MAX_HEADER	(64 * 1024)

struct MwHttpTransfer
{
	/* of the handle: what it is set to now */
	CURL	   *easy;
	struct curl_slist *headers;
	char	   *url;
	char	   *auth;
	char	   *ca_file;
	char	   *client_cert;
	char	   *client_key;
	char	   *proxy;
	long		tls_version;
	long		timeout_ms;
	long		connect_timeout_ms;
	char		host[128];		/* with the port, for error texts */
	bool		literal;		/* the URL's host is a numeric address */
	bool		https;
	char		errbuf[CURL_ERROR_SIZE];

	/* of the exchange */
	void	   *owner;
	size_t		body_len;
	size_t		max_response;
	bool		private_ok;
	bool		resolving;		/* a name, and no socket yet: libcurl may have a thread at it */
	int			exchanges;		/* requests that libcurl began: at most one */
	bool		died_unused;	/* libcurl was about to send it again */
	bool		opened;			/* an allowed address was tried */
	bool		refused;		/* an address was not allowed ... */
	bool		refused_private;	/* ... but would be with allow_private */
	int			socket_errno;	/* socket() failed */
	bool		too_large;
	bool		header_flood;
	bool		stalled;
	bool		encoded;
	bool		no_memory;
	bool		header_ended;	/* that of the final answer: what follows are trailers */
	int			status;
	size_t		header_bytes;
	size_t		body_bytes;		/* kept or not */
	uint64		cut_bytes;		/* of an answer, when libcurl was about to send again; plain http only */
	int			fd;				/* of its connection, where libcurl said; -1: not known */
	int64		stall_ms;		/* 0: no limit */
	size_t		stall_bytes;
	int64		stall_at;		/* ms of the monotonic clock: it has stalled unless ...; 0: no time runs */
	uint64		stall_from;		/* ... stall_bytes more than so many of the answer */
	uint64		stall_sent;		/* ... or, before it began, than so many of the request have moved */
	int64		retry_after;
	int64		retry_after_ms;
	bool		retry_forbidden;
	char	   *body;
	size_t		len;
	size_t		cap;

	/* lists: "next" in the free one; both in the running one */
	MwHttpTransfer *next;
	MwHttpTransfer *prev;
};

/* http_handle.c */
extern MwHttpTransfer *mw_http_take_handle(const MwHttpRequest *req);
extern void mw_http_put_handle(MwHttpTransfer *t);
extern void mw_http_free_handle(MwHttpTransfer *t);
extern void mw_http_free_handles(void);
extern const char *mw_http_set_handle(MwHttpTransfer *t, const MwHttpRequest *req); /* NULL, or what is wrong */

/* http.c: what happens to a transfer is noted there */
extern void mw_http_moved(MwHttpTransfer *t);
extern void mw_http_resolved(MwHttpTransfer *t);
extern void mw_http_opened(MwHttpTransfer *t);

/* http_sockets.c: libcurl's callbacks, and what was received */
extern int	mw_http_on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socketp);
extern curl_socket_t mw_http_on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *addr);
extern int	mw_http_on_close(void *arg, curl_socket_t fd);
extern void mw_http_answer_complete(MwHttpTransfer *t);
extern void mw_http_cut_begin(void);
extern uint64 mw_http_cut_bytes(void);	/* of unfinished answers on connections closed since it began */
extern int	mw_http_sockets_open(int *sockets, int *resolving);
extern void mw_http_sockets_drive(void (*act) (curl_socket_t fd, int what));
extern void mw_http_sockets_close(void);

/* http_exchange.c */
extern bool mw_http_may_begin(MwHttpTransfer *t);
extern bool mw_http_may_call(MwHttpTransfer *t, int address_kind);
extern int	mw_http_on_request(void *arg, char *remote_ip, char *local_ip, int remote_port, int local_port);
extern size_t mw_http_on_header(char *line, size_t size, size_t n, void *arg);
extern size_t mw_http_on_body(char *data, size_t size, size_t n, void *arg);
extern void mw_http_judge(MwHttpTransfer *t, CURLcode rc, MwHttpResult *r);

#endif
