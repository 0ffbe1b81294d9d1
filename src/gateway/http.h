/*
 * http.h - libcurl, and nothing else: many transfers on one epoll descriptor.
 *
 * Only the gateway process calls this (but for the pure mw_http_retry_after).  Nothing here raises, palloc's or
 * touches PostgreSQL's state inside a libcurl callback; bodies are malloc'd and
 * capped.  Redirects are never followed, environment variables (proxies, .netrc,
 * SSLKEYLOGFILE) never read, only http and https spoken, compressed bodies never
 * asked for.
 */
#ifndef MW_HTTP_H
#define MW_HTTP_H

#include "postgres.h"

typedef struct MwHttpRequest
{
	const char *url;			/* base_url and the adapter's path */
	const char *auth_header;	/* "Authorization: Bearer …" or NULL */
	const char *body;			/* must stay valid until the transfer ends */
	size_t		body_len;
	long		timeout_ms;		/* for the whole exchange */
	long		connect_timeout_ms;
	long		stall_ms;		/* fewer than stall_bytes in so long, while something is on its way: it has stalled; 0: never */
	size_t		stall_bytes;
	size_t		max_response;	/* bytes */
	bool		allow_private;	/* a host NAME may resolve to a loopback or private address */
	const char *ca_file;		/* NULL: the system's */
	const char *client_cert;	/* PEM files, for servers that ask who calls; NULL: none */
	const char *client_key;		/* NULL: it stands in client_cert */
	bool		tls13;			/* TLS 1.3 at least; else 1.2 */
	const char *proxy;			/* NULL: none, whatever the environment says */
	bool		afresh;			/* no kept connection: one of them had died, and the others may be as old */
	void	   *owner;			/* handed back with the result */
} MwHttpRequest;

typedef enum MwHttpKind
{
	MW_HTTP_COMPLETE,			/* a whole response was read: look at status */
	MW_HTTP_NOT_SENT,			/* the request was not written in full, or a reused connection died before a byte came back */
	MW_HTTP_UNKNOWN				/* written in full, no complete response */
} MwHttpKind;

typedef struct MwHttpResult
{
	void	   *owner;
	MwHttpKind	kind;
	bool		timed_out;
	bool		connect_failed;	/* NOT_SENT since no connection could be made (refused, no such host, TLS) */
	bool		blocked;		/* NOT_SENT since the address is not allowed (link-local, private behind a name) */
	bool		private_host;	/* ... the latter: allow_private would allow it */
	bool		server_fault;	/* no answer, and neither a deadline nor a limit of ours was the reason: it is down, stalls or breaks off */
	bool		too_large;		/* UNKNOWN since the body was over max_response */
	int			status;			/* of a status line that came, else 0 */
	int64		retry_after_ms; /* retry-after-ms, Retry-After in seconds or as a date; -1: none or nonsense */
	bool		retry_forbidden;	/* x-should-retry: false */
	char	   *body;			/* malloc'd, not NUL terminated by contract but always one byte longer; may be NULL */
	size_t		len;
	char		error[256];		/* libcurl's words and ours, printable, without secrets and without the query of a URL */
} MwHttpResult;

typedef struct MwHttpTransfer MwHttpTransfer;

extern bool mw_http_init(char *why, size_t whylen); /* once, in the gateway; false with the reason */
extern int	mw_http_fd(void);	/* readable when mw_http_drive has something to do */
extern long mw_http_timeout_ms(void);	/* until mw_http_drive must be called anyway; -1: never */
extern MwHttpTransfer *mw_http_start(const MwHttpRequest *req, char *why, size_t whylen);	/* NULL: could not even begin */
extern void mw_http_drive(void);	/* never blocks */
extern bool mw_http_next(MwHttpResult *result);	/* a finished transfer, which is freed; body is the caller's to free() */
extern void mw_http_abort(MwHttpTransfer *transfer);	/* drop one; no result comes */
extern int	mw_http_running(void);
extern void mw_http_close(void);

/* Pure, for tests too: the delay that headers ask for in ms, -1 for none or nonsense; now as time_t */
extern int64 mw_http_retry_after(const char *value, int64 now);

#endif
