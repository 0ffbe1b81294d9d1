/*
 * http.c - libcurl: many transfers on one epoll descriptor.
 *
 * Owned by the gateway process, single-threaded, no locks.  libcurl keeps the
 * connections (one pool, in the multi handle); this file keeps the easy handles,
 * since making one costs more than a warm exchange, and sets only what differs
 * from the handle's last use.  All memory is malloc'd: nothing here raises,
 * palloc's or looks at PostgreSQL's state, so that no ERROR can jump through
 * libcurl's frames.
 *
 * Signals: libcurl resolves host names in threads that inherit our mask, and a
 * handler of PostgreSQL's must not run in one.  All are blocked around calls into
 * libcurl while a transfer to a host *name* is under way (a literal address needs
 * no thread).  CURLOPT_QUICK_EXIT keeps libcurl from joining a resolver thread
 * that hangs on a silent name server.
 *
 * Stalling: libcurl's own limit (LOW_SPEED) would count the time in which a model
 * thinks.  So the bytes of each transfer are watched here, while the request is
 * being written and from the first line of the answer on.
 */
#include "postgres.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "gateway/http_int.h"
#include "gateway/http_text.h"

/* Idle connections that are kept.  A server's own idle limit mostly ends them first. */
#define MAX_CONNECTIONS		256

/*
 * CURLMOPT_RESOLVE_THREADS_MAX and CURLMOPT_QUICK_EXIT, as later headers call them:
 * newer libcurl looks names up in 20 threads, so that 20 that hang would keep all
 * others waiting, and waits for them when it is cleaned up.  Before that the
 * options are unknown, and setting them does nothing.
 */
#define RESOLVE_THREADS_MAX	((CURLMoption) (CURLOPTTYPE_LONG + 20))
#define MULTI_QUICK_EXIT	((CURLMoption) (CURLOPTTYPE_LONG + 21))
#define PUSH_EVERY_MS		10

static CURLM *multi;
static bool broken;				/* it ran out of memory in its own loop: see act */
static int64 timer_at = -1;		/* ms of the monotonic clock; -1: none */
static MwHttpTransfer *running_list;
static int	nrunning;
static int	nnamed;				/* running transfers to a host name */
static int	nresolving;			/* ... that have no socket yet */
static int	max_sockets;
static int	max_resolving;
static int64 stall_check_at = -1;	/* ms of the monotonic clock; -1: nothing to check */
static int64 push_at = -1;		/* ms of the monotonic clock: see push_connecting */
static int	nstalled;			/* in the running list, to be picked up by mw_http_next */
static sigset_t all_signals;

static int64
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/*
 * The one way into libcurl's loop.  Out of memory there, libcurl 7.88 leaves a
 * socket with a table of no slots, and the next look at that socket divides by
 * their number (SIGFPE, which ended the gateway).  So nothing is asked of this
 * loop again: what is running ends, each as far as it had come, and the next
 * request finds a new one.  A transfer that lacks memory for itself alone ends
 * with CURLE_OUT_OF_MEMORY, and this one goes on.
 */
static void
act(curl_socket_t fd, int what)
{
	int			running;

	mw_http_cut_begin();
	if (!broken)
		broken = curl_multi_socket_action(multi, fd, what, &running) != CURLM_OK;
}

/* ---------- signals ---------- */

static bool
block_signals(sigset_t *saved)
{
	if (nnamed == 0)
		return false;
	sigprocmask(SIG_BLOCK, &all_signals, saved);
	return true;
}

static void
unblock_signals(bool blocked, const sigset_t *saved)
{
	if (blocked)
		sigprocmask(SIG_SETMASK, saved, NULL);
}

/* ---------- stalling ---------- */

static void
begin_window(MwHttpTransfer *t)
{
	t->stall_at = now_ms() + t->stall_ms;
	t->stall_from = t->header_bytes + t->body_bytes;
	if (stall_check_at < 0 || t->stall_at < stall_check_at)
		stall_check_at = t->stall_at;
}

/* The request begins, or bytes of the answer have come: with enough of them the time begins anew */
void
mw_http_moved(MwHttpTransfer *t)
{
	if (t->stall_ms > 0 &&
		(t->stall_at == 0 || t->header_bytes + t->body_bytes - t->stall_from >= t->stall_bytes))
		begin_window(t);
}

/* Marks what has stalled.  What was written of a request is only seen here. */
static void
look_for_stalls(void)
{
	int64		now = now_ms();

	if (stall_check_at < 0 || stall_check_at > now)
		return;
	stall_check_at = -1;
	for (MwHttpTransfer *t = running_list; t != NULL; t = t->next)
	{
		curl_off_t	sent = 0;

		if (t->stall_at == 0 || t->stalled)
			continue;
		if (t->stall_at > now)
		{
			if (stall_check_at < 0 || t->stall_at < stall_check_at)
				stall_check_at = t->stall_at;
			continue;
		}
		if (t->header_bytes == 0)
			curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
		if (sent >= (curl_off_t) t->body_len)
			t->stall_at = 0;	/* it thinks, until its answer begins */
		else if (sent > 0 && (uint64) sent - t->stall_sent >= t->stall_bytes)
		{
			t->stall_sent = sent;
			begin_window(t);
		}
		else
		{
			t->stalled = true;
			nstalled++;
		}
	}
}

/* ---------- libcurl's loop ---------- */

static int
on_timer(CURLM *m, long ms, void *arg)
{
	timer_at = ms < 0 ? -1 : ms == 0 ? 0 : now_ms() + ms;
	return 0;
}

/* An address is tried */
void
mw_http_opened(MwHttpTransfer *t)
{
	t->opened = true;
	if (push_at < 0 && !t->literal)
		push_at = now_ms() + PUSH_EVERY_MS;
}

/* Its name is resolved, or nobody waits for that any more */
void
mw_http_resolved(MwHttpTransfer *t)
{
	nresolving -= t->resolving;
	t->resolving = false;
}

static bool
make_multi(void)
{
	multi = curl_multi_init();
	if (multi == NULL)
		return false;
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, mw_http_on_socket);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long) Min(MAX_CONNECTIONS, max_sockets / 2));
	(void) curl_multi_setopt(multi, RESOLVE_THREADS_MAX, (long) max_resolving);
	(void) curl_multi_setopt(multi, MULTI_QUICK_EXIT, 1L);
	curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long) CURLPIPE_MULTIPLEX);
	broken = false;
	return true;
}

static bool
renew_multi(void)
{
	mw_http_free_handles();
	curl_multi_cleanup(multi);
	timer_at = push_at = -1;
	return make_multi();
}

/* ---------- transfers ---------- */

MwHttpTransfer *
mw_http_start(const MwHttpRequest *req, char *why, size_t whylen)
{
	const char *wrong = NULL;
	MwHttpTransfer *t;

	if (req->body == NULL || req->body_len == 0)
	{
		strlcpy(why, "a request without a body is not sent", whylen);	/* http_exchange.c counts its bytes */
		return NULL;
	}
	t = mw_http_take_handle(req);
	if (t == NULL)
	{
		strlcpy(why, "out of memory", whylen);
		return NULL;
	}

	wrong = mw_http_set_handle(t, req);
	t->owner = req->owner;
	t->body_len = req->body_len;
	t->max_response = req->max_response;
	/* with a proxy the address is the proxy's, which the administrator named */
	t->private_ok = req->allow_private || t->literal || t->proxy != NULL;
	t->errbuf[0] = '\0';
	t->exchanges = 0;
	t->died_unused = t->opened = t->refused = t->refused_private = false;
	t->too_large = t->header_flood = t->encoded = t->no_memory = t->header_ended = t->stalled = false;
	t->socket_errno = t->status = 0;
	t->header_bytes = t->body_bytes = 0;
	t->stall_ms = req->stall_ms;
	t->stall_bytes = req->stall_bytes;
	t->stall_at = 0;
	t->stall_from = t->stall_sent = 0;
	t->cut_bytes = 0;
	t->fd = -1;
	t->retry_after = t->retry_after_ms = -1;
	t->retry_forbidden = false;
	t->body = NULL;
	t->len = t->cap = 0;

	if (wrong == NULL && nresolving >= max_resolving && (!t->literal || t->proxy != NULL))
		wrong = "too many names of hosts are being looked up";
	if (wrong == NULL && broken && (nrunning > 0 || !renew_multi()))
		wrong = curl_multi_strerror(CURLM_OUT_OF_MEMORY);
	if (wrong == NULL)
	{
		CURLMcode	rc = curl_multi_add_handle(multi, t->easy);

		if (rc != CURLM_OK)
			wrong = curl_multi_strerror(rc);
	}
	if (wrong != NULL)
	{
		strlcpy(why, wrong, whylen);
		mw_http_free_handle(t);
		return NULL;
	}
	t->prev = NULL;
	t->next = running_list;
	if (running_list != NULL)
		running_list->prev = t;
	running_list = t;
	nrunning++;
	t->resolving = !t->literal || t->proxy != NULL;
	nnamed += t->resolving;
	nresolving += t->resolving;
	return t;
}

/* Out of libcurl and out of the running list */
static void
detach(MwHttpTransfer *t)
{
	sigset_t	saved;
	bool		blocked = block_signals(&saved);

	curl_multi_remove_handle(multi, t->easy);
	unblock_signals(blocked, &saved);
	if (t->prev != NULL)
		t->prev->next = t->next;
	else
		running_list = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	nrunning--;
	nstalled -= t->stalled;
	if (!t->literal || t->proxy != NULL)
		nnamed--;
	mw_http_resolved(t);
}

void
mw_http_abort(MwHttpTransfer *t)
{
	detach(t);
	free(t->body);
	t->body = NULL;
	mw_http_put_handle(t);
}

static void
finish(MwHttpTransfer *t, CURLcode rc, MwHttpResult *r)
{
	memset(r, 0, sizeof(*r));
	r->owner = t->owner;
	mw_http_judge(t, rc, r);
	mw_http_printable(r->error);
	r->retry_after_ms = t->retry_after_ms >= 0 ? t->retry_after_ms : t->retry_after;
	r->retry_forbidden = t->retry_forbidden;
	detach(t);
	if (r->kind == MW_HTTP_COMPLETE && !t->encoded)
	{
		r->body = t->body;
		r->len = t->len;
	}
	else
		free(t->body);
	t->body = NULL;
	mw_http_put_handle(t);
}

bool
mw_http_next(MwHttpResult *r)
{
	CURLMsg    *msg;
	int			left;

	while ((msg = curl_multi_info_read(multi, &left)) != NULL)
	{
		CURLcode	rc = msg->data.result;
		MwHttpTransfer *t;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **) &t);
		if (rc == CURLE_OK && t->proxy == NULL)
			mw_http_answer_complete(t);
		finish(t, rc, r);
		return true;
	}
	for (MwHttpTransfer *t = nstalled > 0 || broken ? running_list : NULL; t != NULL; t = t->next)
	{
		if (t->stalled || broken)
		{
			finish(t, t->stalled ? CURLE_OPERATION_TIMEDOUT : CURLE_OUT_OF_MEMORY, r);
			return true;
		}
	}
	return false;
}

int
mw_http_running(void)
{
	return nrunning;
}

/* ---------- ours ---------- */

bool
mw_http_init(char *why, size_t whylen)
{
	curl_version_info_data *v;
	int			fd;

	if (multi != NULL)
		return true;
	unsetenv("SSLKEYLOGFILE");	/* libcurl would write the secrets of every TLS session into it */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
	{
		strlcpy(why, "libcurl could not be initialised", whylen);
		return false;
	}

	/* quick exit came with 7.87; without threads or c-ares a name lookup blocks every call */
	v = curl_version_info(CURLVERSION_NOW);
	if (v->version_num < 0x075700 || !(v->features & CURL_VERSION_ASYNCHDNS) || !(v->features & CURL_VERSION_SSL))
	{
		snprintf(why, whylen, "libcurl %s cannot be used: mw needs 7.87 or later with TLS and an asynchronous resolver",
				 v->version);
		curl_global_cleanup();
		return false;
	}

#ifdef M_MMAP_THRESHOLD
	/* glibc raises it with each large block that is freed, and the bodies of answers then lie on the heap in each other's way */
	(void) mallopt(M_MMAP_THRESHOLD, 128 * 1024);
#endif

	/* all but those that say that this thread itself has gone wrong */
	sigfillset(&all_signals);
	sigdelset(&all_signals, SIGSEGV);
	sigdelset(&all_signals, SIGBUS);
	sigdelset(&all_signals, SIGFPE);
	sigdelset(&all_signals, SIGILL);
	sigdelset(&all_signals, SIGABRT);
	sigdelset(&all_signals, SIGTRAP);

	fd = mw_http_sockets_open(&max_sockets, &max_resolving);
	if (fd < 0 || !make_multi())
	{
		snprintf(why, whylen, "could not make the event loop: %s", fd < 0 ? strerror(errno) : "out of memory");
		mw_http_close();
		return false;
	}
	return true;
}

long
mw_http_timeout_ms(void)
{
	int64		at = timer_at;
	int64		ms;

	if (nstalled > 0 || (broken && nrunning > 0))
		return 0;
	if (stall_check_at >= 0 && (at < 0 || stall_check_at < at))
		at = stall_check_at;
	if (push_at >= 0 && (at < 0 || push_at < at))
		at = push_at;
	if (at <= 0)
		return at;
	ms = at - now_ms();
	return ms < 0 ? 0 : (long) Min(ms, PG_INT32_MAX);
}

/*
 * A host with many addresses, of which one has refused: libcurl 7.88 goes on to
 * the next when it is run again, and asks nobody to run it.
 */
static void
push_connecting(void)
{
	int64		now;

	if (broken || push_at < 0 || push_at > (now = now_ms()))
		return;
	push_at = -1;
	for (MwHttpTransfer *t = running_list; t != NULL; t = t->next)
	{
		if (t->opened && t->exchanges == 0 && !t->literal)
		{
			/* what was paused and goes on is run at once */
			curl_easy_pause(t->easy, CURLPAUSE_RECV);
			curl_easy_pause(t->easy, CURLPAUSE_CONT);
			push_at = now + PUSH_EVERY_MS;
		}
	}
}

void
mw_http_drive(void)
{
	sigset_t	saved;
	bool		blocked = block_signals(&saved);

	mw_http_sockets_drive(act);

	/* after the sockets: what is to be sent now must not go out on a connection just seen to be dead */
	if (timer_at >= 0 && (timer_at == 0 || timer_at <= now_ms()))
	{
		timer_at = -1;
		act(CURL_SOCKET_TIMEOUT, 0);
	}
	push_connecting();
	unblock_signals(blocked, &saved);
	look_for_stalls();
}

void
mw_http_close(void)
{
	while (running_list != NULL)
		mw_http_abort(running_list);
	mw_http_free_handles();
	if (multi != NULL)
		curl_multi_cleanup(multi);
	multi = NULL;
	mw_http_sockets_close();
	timer_at = stall_check_at = push_at = -1;
	nresolving = nstalled = 0;
	curl_global_cleanup();
}
