/*
 * upstream.c - a provider that is never the bottleneck.
 *
 *   upstream [LATENCY_MS]
 *
 * Answers every POST with one fixed chat completion (0.5 KB, with usage) after
 * LATENCY_MS, and GET /stats with what it has served.  A request that offers
 * tools is answered with a call of due_date until it holds three results.  It is
 * for measuring alone: nothing else in a request is judged but where it ends (the
 * tests have an upstream that is strict).
 *
 * One thread, one epoll descriptor.  The latency is the same for every request,
 * so those that wait are a queue in order of arrival and the head of it is the
 * next timeout.  An answer that waits refers to its connection by number and
 * generation, since the connection may be gone, and its number taken, by then.
 *
 * Listens on a free port of 127.0.0.1, prints that port as its first line, and
 * dies with the process that started it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_FDS		4096
#define MAX_REQUEST (64 * 1024 * 1024)	/* more is a mistake of whoever measures */

typedef struct Conn
{
	char	   *buf;			/* NULL: no connection has this number */
	size_t		len;
	size_t		cap;
	unsigned	generation;		/* counts the connections that had this number */
} Conn;

typedef struct Waiting
{
	int			fd;
	int			which;			/* answer */
	unsigned	generation;
	int64_t		due;			/* nanoseconds */
} Waiting;

static const char answer_body[] =
	"{\"id\":\"chatcmpl-0\",\"object\":\"chat.completion\",\"created\":1767225600,\"model\":\"bench-model\","
	"\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
	"\"One invoice of this account is overdue. It was issued in spring and two reminders went out since; everything "
	"else was paid in time. I suggest to call the customer and to offer three instalments.\",\"refusal\":null},"
	"\"logprobs\":null,\"finish_reason\":\"stop\"}],"
	"\"usage\":{\"prompt_tokens\":260,\"completion_tokens\":40,\"total_tokens\":300}}";

#define TOOL_TURNS 3

/* %1$d: which one */
static const char call_body[] =
	"{\"id\":\"chatcmpl-%1$d\",\"object\":\"chat.completion\",\"created\":1767225600,\"model\":\"bench-model\","
	"\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_%1$d\",\"type\":\"function\","
	"\"function\":{\"name\":\"due_date\",\"arguments\":\"{\\\"number\\\": 17}\"}}],\"refusal\":null},"
	"\"logprobs\":null,\"finish_reason\":\"tool_calls\"}],"
	"\"usage\":{\"prompt_tokens\":260,\"completion_tokens\":40,\"total_tokens\":300}}";

static Conn conns[MAX_FDS];
static Waiting *queue;			/* a ring */
static size_t queue_cap;
static size_t queue_head;
static size_t queue_len;
static int64_t latency_ns;
static char answers[TOOL_TURNS + 1][2048];	/* the calls in turn, at last the text */
static size_t answer_len[TOOL_TURNS + 1];
static unsigned long n_posts;
static unsigned long n_conns;
static int	epoll_fd;

static void
die(const char *what)
{
	fprintf(stderr, "upstream: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
drop(int fd)
{
	close(fd);					/* leaves the epoll set with it */
	free(conns[fd].buf);
	conns[fd].buf = NULL;
	conns[fd].generation++;
}

/* Answers are far smaller than a socket's buffer: one that does not fit is for a client that has stopped reading. */
static bool
put(int fd, const char *p, size_t n)
{
	if (send(fd, p, n, MSG_NOSIGNAL) == (ssize_t) n)
		return true;
	drop(fd);
	return false;
}

static void
put_later(int fd, int which)
{
	Waiting    *w;

	if (queue_len == queue_cap)
	{
		size_t		cap = queue_cap ? queue_cap * 2 : 1024;
		Waiting    *bigger = malloc(cap * sizeof(Waiting));

		if (bigger == NULL)
			die("malloc");
		for (size_t i = 0; i < queue_len; i++)
			bigger[i] = queue[(queue_head + i) % queue_cap];
		free(queue);
		queue = bigger;
		queue_cap = cap;
		queue_head = 0;
	}
	w = &queue[(queue_head + queue_len++) % queue_cap];
	w->fd = fd;
	w->which = which;
	w->generation = conns[fd].generation;
	w->due = now_ns() + latency_ns;
}

static void
put_due(void)
{
	int64_t		now = queue_len > 0 ? now_ns() : 0;

	while (queue_len > 0 && queue[queue_head].due <= now)
	{
		Waiting    *w = &queue[queue_head];

		queue_head = (queue_head + 1) % queue_cap;
		queue_len--;
		if (conns[w->fd].buf != NULL && conns[w->fd].generation == w->generation)
			put(w->fd, answers[w->which], answer_len[w->which]);
	}
}

/* The value of a header among the first n bytes, or NULL; name with its colon */
static const char *
header(const char *head, size_t n, const char *name)
{
	size_t		len = strlen(name);

	for (const char *p = head; (p = memchr(p, '\n', head + n - p)) != NULL;)
	{
		p++;
		if ((size_t) (head + n - p) > len && strncasecmp(p, name, len) == 0)
		{
			p += len;
			while (*p == ' ')
				p++;
			return p;
		}
	}
	return NULL;
}

/* The bytes of the first request in the buffer; 0 while it is not whole */
static size_t
request_size(Conn *c, int fd)
{
	char	   *end = memmem(c->buf, c->len, "\r\n\r\n", 4);
	const char *v;
	size_t		head;

	if (end == NULL)
		return 0;
	head = end - c->buf + 4;
	if ((v = header(c->buf, head, "content-length:")) != NULL)
	{
		size_t		size = head + strtoul(v, NULL, 10);

		if (c->len >= size)
			return size;
		if (c->len == head && header(c->buf, head, "expect:") != NULL)
			put(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
		return 0;
	}
	if (header(c->buf, head, "transfer-encoding:") != NULL)
	{
		/* nobody who is measured sends trailers, so this is where chunks end */
		end = memmem(c->buf + head - 2, c->len - head + 2, "\r\n0\r\n\r\n", 7);
		return end ? (size_t) (end - c->buf) + 7 : 0;
	}
	return head;
}

/* Which answer this request gets: tools that it offers, less results that it holds */
static int
which_answer(const char *request, size_t size)
{
	const char *end = request + size;
	int			results = 0;

	if (memmem(request, size, "\"tools\"", 7) == NULL)
		return TOOL_TURNS;
	for (const char *p = request; results < TOOL_TURNS && (p = memmem(p, end - p, "\"tool_call_id\"", 14)) != NULL; p += 14)
		results++;
	return results;
}

static void
serve(int fd)
{
	Conn	   *c = &conns[fd];
	size_t		size;
	ssize_t		r;

	if (c->cap - c->len < 4096)
	{
		c->cap *= 2;
		if (c->cap > MAX_REQUEST || (c->buf = realloc(c->buf, c->cap)) == NULL)
			die("a request is too large");
	}
	r = recv(fd, c->buf + c->len, c->cap - c->len, 0);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r <= 0)
	{
		drop(fd);
		return;
	}
	c->len += r;

	while (c->buf != NULL && c->len > 0 && (size = request_size(c, fd)) > 0)
	{
		bool		post = memcmp(c->buf, "POST ", 5) == 0;
		int			which = post ? which_answer(c->buf, size) : 0;

		memmove(c->buf, c->buf + size, c->len - size);
		c->len -= size;
		if (post)
		{
			n_posts++;
			if (latency_ns > 0)
				put_later(fd, which);
			else
				put(fd, answers[which], answer_len[which]);
		}
		else
		{
			char		body[96];
			char		out[256];
			int			n = snprintf(body, sizeof(body), "{\"posts\":%lu,\"connections\":%lu}\n", n_posts, n_conns);

			n = snprintf(out, sizeof(out),
						 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n, body);
			put(fd, out, n);
		}
	}
}

static void
accept_all(int listener)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int			one = 1;
	int			fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
	{
		if (fd >= MAX_FDS)
		{
			close(fd);
			continue;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		conns[fd].cap = 16384;
		conns[fd].len = 0;
		if ((conns[fd].buf = malloc(conns[fd].cap)) == NULL)
			die("malloc");
		ev.data.fd = fd;
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
			die("epoll_ctl");
		n_conns++;
	}
}

static int
listen_somewhere(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,.sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t	len = sizeof(at);
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *) &at, sizeof(at)) != 0 || listen(fd, 512) != 0 ||
		getsockname(fd, (struct sockaddr *) &at, &len) != 0)
		die("listen");
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	return fd;
}

int
main(int argc, char **argv)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int			listener;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	latency_ns = argc > 1 ? (int64_t) (atof(argv[1]) * 1e6) : 0;
	for (int i = 0; i <= TOOL_TURNS; i++)
	{
		char		body[1024];
		int			len = i < TOOL_TURNS ? snprintf(body, sizeof(body), call_body, i + 1) : snprintf(body, sizeof(body), "%s", answer_body);

		answer_len[i] = snprintf(answers[i], sizeof(answers[i]),
								 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len, body);
	}

	listener = listen_somewhere();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ev.data.fd = listener;
	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &ev) != 0)
		die("epoll");

	for (;;)
	{
		struct epoll_event events[256];
		struct timespec wait;
		struct timespec *timeout = NULL;
		int			n;

		if (queue_len > 0)
		{
			int64_t		ns = queue[queue_head].due - now_ns();

			if (ns < 0)
				ns = 0;
			wait.tv_sec = ns / 1000000000;
			wait.tv_nsec = ns % 1000000000;
			timeout = &wait;
		}
		n = epoll_pwait2(epoll_fd, events, 256, timeout, NULL);
		if (n < 0 && errno != EINTR)
			die("epoll_pwait2");
		for (int i = 0; i < n; i++)
		{
			if (events[i].data.fd == listener)
				accept_all(listener);
			else if (conns[events[i].data.fd].buf != NULL)
				serve(events[i].data.fd);
		}
		put_due();
	}
}
