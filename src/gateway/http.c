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
 * Descriptors: libcurl tells us what to wait for on each socket.  A kept-alive
 * connection would cost two epoll_ctl() a request; instead its socket stays
 * registered for reading between requests, and leaves when it stirs meanwhile:
 * the server closed it, or said something that nobody asked for.  That libcurl
 * finds out before the next use cannot be relied on (8.20 looks once a second).
 * Staying registered is safe only for sockets whose closing we see, which is
 * what the open and close callbacks mark; others (the resolver's pipe) are
 * unregistered at once.  How many descriptors we may use is settled at the start:
 * the rest of the process's limit is PostgreSQL's, which has to open its WAL
 * whatever we do.
 *
 * Stalling: libcurl's own limit (LOW_SPEED) would count the time in which a model
 * thinks.  So the bytes of each transfer are watched here, while the request is
 * being written and from the first line of the answer on.
 */
#include "postgres.h"

#include <errno.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "gateway/address.h"
#include "gateway/http_int.h"
#include "gateway/http_text.h"

/* Idle connections that are kept.  A server's own idle limit mostly ends them first. */
#define MAX_CONNECTIONS		256

#define EVENTS_A_ROUND		64

/*
 * CURLMOPT_RESOLVE_THREADS_MAX and CURLMOPT_QUICK_EXIT, as later headers call them:
 * newer libcurl looks names up in 20 threads, so that 20 that hang would keep all
 * others waiting, and waits for them when it is cleaned up.  Before that the
 * options are unknown, and setting them does nothing.
 */
#define RESOLVE_THREADS_MAX	((CURLMoption) (CURLOPTTYPE_LONG + 20))
#define MULTI_QUICK_EXIT	((CURLMoption) (CURLOPTTYPE_LONG + 21))
#define PUSH_EVERY_MS		10

/*
 * Descriptors: this many are asked for, and of what the process gets the half,
 * but at most OTHERS_DESCRIPTORS (max_files_per_process is 1000 unless set),
 * stays with PostgreSQL.  The rest is for connections and for lookups of names,
 * half and half; a lookup is a thread with a pair of sockets and its own to the
 * name server.
 */
#define WANTED_DESCRIPTORS	16384
#define OTHERS_DESCRIPTORS	1280
#define LOOKUP_DESCRIPTORS	4

/* What epoll knows of a descriptor */
typedef struct Watched
{
	uint32		events;			/* registered; 0: not at all */
	bool		wanted;			/* libcurl waits for it now */
	bool		ours;			/* opened by mw_http_on_open, so mw_http_on_close will be seen */
	bool		alone;			/* carries one exchange at a time (HTTP/1): while idle nothing may come */
	bool		plain;			/* and for http without TLS or proxy: then also */
	MwHttpTransfer *last;		/* who waited for it last */
	uint64		received;		/* bytes, when its last answer was complete */
} Watched;

static CURLM *multi;
static bool broken;				/* it ran out of memory in its own loop: see act */
static int	epoll_fd = -1;
static int64 timer_at = -1;		/* ms of the monotonic clock; -1: none */
static Watched *watched;
static int	nwatched;
static MwHttpTransfer *running_list;
static int	nrunning;
static uint64 cut_bytes;		/* mw_http_cut_bytes() */
static int	nnamed;				/* running transfers to a host name */
static int	nresolving;			/* ... that have no socket yet */
static int	nsockets;			/* open, idle ones included */
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

	cut_bytes = 0;
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

/* ---------- descriptors and the timer ---------- */

static Watched *
watched_entry(int fd)
{
	if (fd < 0)
		return NULL;
	if (fd >= nwatched)
	{
		int			n = (fd | 63) + 1;
		Watched    *w = realloc(watched, n * sizeof(Watched));

		if (w == NULL)
			return NULL;
		memset(w + nwatched, 0, (n - nwatched) * sizeof(Watched));
		watched = w;
		nwatched = n;
	}
	return &watched[fd];
}

/* Register exactly these events; 0 unregisters */
static void
watch(int fd, Watched *w, uint32 events)
{
	struct epoll_event ev = {.events = events, .data.fd = fd};
	int			rc;

	if (w->events == events)
		return;
	if (events == 0)
	{
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		w->events = 0;
		return;
	}
	rc = epoll_ctl(epoll_fd, w->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev);
	if (rc < 0 && errno == ENOENT)
		rc = epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
	else if (rc < 0 && errno == EEXIST)
		rc = epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &ev);
	w->events = rc < 0 ? 0 : events;
}

/*
 * What the kernel received on a connection.  libcurl knows only of whole header
 * lines, so that an answer which broke off inside its status line looks to it
 * like none (http_exchange.c says what hangs on that).  So for plain http the
 * count is taken when an answer is complete, and again when the connection is
 * closed: more than that, the closing itself counts as one, was the beginning of
 * an answer.  Over TLS there would be alerts and tickets in it, over HTTP/2
 * other streams.
 */
static uint64
tcp_received(int fd)
{
	struct tcp_info info;
	socklen_t	len = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return 0;
	return info.tcpi_bytes_received;
}

static void
answer_complete(MwHttpTransfer *t)
{
	curl_socket_t fd = t->fd;
	Watched    *w;
	long		version = 0;

	/* on the shortest path libcurl never had to wait, and told us no socket */
	if (fd < 0 && curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK)
		return;
	w = watched_entry(fd);
	if (w == NULL || !w->ours)
		return;
	curl_easy_getinfo(t->easy, CURLINFO_HTTP_VERSION, &version);
	w->alone = version == CURL_HTTP_VERSION_1_0 || version == CURL_HTTP_VERSION_1_1;
	if (w->plain && (t->fd < 0 || w->last == t))
	{
		w->received = tcp_received(fd);
		if (w->events == 0)
			watch(fd, w, EPOLLIN | EPOLLRDHUP);
	}
}

/* Bytes of unfinished answers on connections closed during this call into libcurl */
uint64
mw_http_cut_bytes(void)
{
	return cut_bytes;
}

static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socketp)
{
	Watched    *w = watched_entry(fd);
	uint32		events = 0;

	/*
	 * Never -1, which ends every transfer of the multi handle for good.  What
	 * cannot be watched, for lack of memory, ends at its own deadline.
	 */
	if (w == NULL)
		return 0;
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		events |= EPOLLIN | EPOLLRDHUP;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		events |= EPOLLOUT;
	w->wanted = events != 0;
	if (events == 0 && w->ours)
		events = EPOLLIN | EPOLLRDHUP;	/* idle: stays, for reading only */
	else if (w->plain && what == CURL_POLL_IN)
	{
		curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **) &w->last);
		if (w->last != NULL)
			w->last->fd = fd;
	}
	watch(fd, w, events);
	return 0;
}

static int
on_timer(CURLM *m, long ms, void *arg)
{
	timer_at = ms < 0 ? -1 : ms == 0 ? 0 : now_ms() + ms;
	return 0;
}

curl_socket_t
mw_http_on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	MwHttpTransfer *t = arg;
	Watched    *w;
	int			fd;

	mw_http_resolved(t);
	if (!mw_http_may_begin(t) || !mw_http_may_call(t, mw_address_kind(&addr->addr)))
		return CURL_SOCKET_BAD;
	if (nsockets >= max_sockets)
	{
		t->socket_errno = EMFILE;
		return CURL_SOCKET_BAD;
	}
	fd = socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
	w = watched_entry(fd);
	if (w == NULL)
	{
		t->socket_errno = fd < 0 ? errno : ENOMEM;
		if (fd >= 0)
			close(fd);
		return CURL_SOCKET_BAD;
	}
	nsockets++;
	t->opened = true;
	if (push_at < 0 && !t->literal)
		push_at = now_ms() + PUSH_EVERY_MS;
	memset(w, 0, sizeof(*w));
	w->ours = true;
	w->plain = !t->https && t->proxy == NULL;
	return fd;
}

/* arg is that of the transfer which opened the connection, and may be gone: not used */
int
mw_http_on_close(void *arg, curl_socket_t fd)
{
	Watched    *w = watched_entry(fd);

	if (w != NULL)
	{
		if (w->plain)
			cut_bytes = Max(cut_bytes, tcp_received(fd) - w->received);
		watch(fd, w, 0);
		memset(w, 0, sizeof(*w));
	}
	nsockets--;
	return close(fd);
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
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
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
			answer_complete(t);
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

/* ---------- the loop ---------- */

/* What of the process's descriptors is ours: see WANTED_DESCRIPTORS */
static void
share_descriptors(void)
{
	struct rlimit r = {WANTED_DESCRIPTORS, WANTED_DESCRIPTORS};
	int			ours;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < WANTED_DESCRIPTORS && r.rlim_cur < r.rlim_max)
	{
		r.rlim_cur = Min(WANTED_DESCRIPTORS, r.rlim_max);
		if (setrlimit(RLIMIT_NOFILE, &r) != 0)
			(void) getrlimit(RLIMIT_NOFILE, &r);
	}
	if (r.rlim_cur > WANTED_DESCRIPTORS)	/* infinity, too */
		r.rlim_cur = WANTED_DESCRIPTORS;
	ours = (int) (r.rlim_cur - Min(r.rlim_cur / 2, OTHERS_DESCRIPTORS));
	max_sockets = ours / 2;
	max_resolving = ours / 2 / LOOKUP_DESCRIPTORS;
}

bool
mw_http_init(char *why, size_t whylen)
{
	curl_version_info_data *v;

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

	share_descriptors();
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

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || !make_multi())
	{
		snprintf(why, whylen, "could not make the event loop: %s",
				 epoll_fd < 0 ? strerror(errno) : "out of memory");
		mw_http_close();
		return false;
	}
	return true;
}

int
mw_http_fd(void)
{
	return epoll_fd;
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

/*
 * Something came on an idle connection: see "Descriptors".  Where it cannot be
 * used again its sending side is closed too, so that a request on it fails
 * before anything is written and goes to another one.
 */
static void
idle_stirs(int fd, Watched *w, uint32 events)
{
	char		c;
	ssize_t		n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);

	/* of this round, and read already: libcurl runs what is due whenever it is called */
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	/* over TLS it may be a ping of HTTP/2; a ticket for the session costs a connection at most */
	if (n <= 0 || w->plain || w->alone || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		shutdown(fd, SHUT_RDWR);
	watch(fd, w, 0);
}

void
mw_http_drive(void)
{
	struct epoll_event events[EVENTS_A_ROUND];
	sigset_t	saved;
	bool		blocked = block_signals(&saved);
	int			n;

	n = epoll_wait(epoll_fd, events, EVENTS_A_ROUND, 0);
	for (int i = 0; i < n; i++)
	{
		int			fd = events[i].data.fd;
		Watched    *w = watched_entry(fd);
		int			what = 0;

		if (w == NULL || w->events == 0)
			continue;			/* closed by what an earlier event of this round did */
		if (!w->wanted)
		{
			idle_stirs(fd, w, events[i].events);
			continue;
		}

		/*
		 * An error is for libcurl to find by reading or writing: told so, it
		 * would give up without looking at what came before.
		 */
		if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			what |= CURL_CSELECT_IN;
		if ((events[i].events & EPOLLOUT) ||
			((events[i].events & (EPOLLHUP | EPOLLERR)) && (w->events & EPOLLOUT)))
			what |= CURL_CSELECT_OUT;
		act(fd, what);
	}

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
	if (epoll_fd >= 0)
		close(epoll_fd);
	epoll_fd = -1;
	free(watched);
	watched = NULL;
	nwatched = 0;
	timer_at = stall_check_at = push_at = -1;
	nsockets = nresolving = nstalled = 0;
	curl_global_cleanup();
}
