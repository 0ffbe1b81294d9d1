/*
 * http_sockets.c - the sockets of libcurl's connections: how many there may be,
 * what epoll watches of them, and what comes on one that is idle.
 *
 * libcurl tells us what to wait for on each socket.  A kept-alive connection would
 * cost two epoll_ctl() a request; instead its socket stays registered for reading
 * between requests, and leaves when it stirs meanwhile: the server closed it, or
 * said something that nobody asked for.  That libcurl finds out before the next
 * use cannot be relied on (8.20 looks once a second). Staying registered is safe
 * only for sockets whose closing we see, which is what the open and close
 * callbacks mark; others (the resolver's pipe) are unregistered at once.
 *
 * How many descriptors we may use is settled at the start: the rest of the
 * process's limit is PostgreSQL's, which has to open its WAL whatever we do.
 */
#include "postgres.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gateway/address.h"
#include "gateway/http_int.h"

#define EVENTS_A_ROUND		64

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

static int	epoll_fd = -1;
static Watched *watched;
static int	nwatched;
static int	nsockets;			/* open, idle ones included */
static int	max_sockets;
static uint64 cut_bytes;

/* ---------- what is watched ---------- */

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

int
mw_http_on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socketp)
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

/* ---------- what was received ---------- */

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

void
mw_http_answer_complete(MwHttpTransfer *t)
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

/* Bytes of unfinished answers on connections closed since */
void
mw_http_cut_begin(void)
{
	cut_bytes = 0;
}

uint64
mw_http_cut_bytes(void)
{
	return cut_bytes;
}

/* ---------- opening and closing ---------- */

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
	mw_http_opened(t);
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

/* ---------- events ---------- */

/*
 * Something came on an idle connection: see above.  Where it cannot be
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

/* Tell act, which runs libcurl, of each socket that it waits for and that has something */
void
mw_http_sockets_drive(void (*act) (curl_socket_t fd, int what))
{
	struct epoll_event events[EVENTS_A_ROUND];
	int			n = epoll_wait(epoll_fd, events, EVENTS_A_ROUND, 0);

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
}

/* ---------- all of them ---------- */

/* What of the process's descriptors is ours: see WANTED_DESCRIPTORS */
static void
share_descriptors(int *max_resolving)
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
	*max_resolving = ours / 2 / LOOKUP_DESCRIPTORS;
}

/* The epoll descriptor, -1 where there is none to be had; and how many sockets and lookups of names there may be */
int
mw_http_sockets_open(int *sockets, int *resolving)
{
	share_descriptors(resolving);
	*sockets = max_sockets;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd;
}

int
mw_http_fd(void)
{
	return epoll_fd;
}

void
mw_http_sockets_close(void)
{
	if (epoll_fd >= 0)
		close(epoll_fd);
	epoll_fd = -1;
	free(watched);
	watched = NULL;
	nwatched = nsockets = 0;
}
