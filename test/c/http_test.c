/*
 * http_test.c - the gateway's HTTP client against a server that misbehaves on
 * order.
 *
 * The risk it holds back: a request that is called "not sent" although a
 * provider may have worked on it is paid twice, and one called "unknown" although
 * nothing left the machine is a call lost.  So each way in which an exchange can
 * break has a path here, with the judgement that invariant 5 wants, and the
 * server counts what really came over the wire.
 *
 * The server is a forked process, a thread a connection; what it does is the
 * path of the request.  Counters are shared memory.  No PostgreSQL server is
 * needed.  "http_test bench [n]" measures a warm call instead.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/address.h"
#include "gateway/http.h"

typedef struct Shared
{
	int			requests;		/* read to the end of their header */
	int			connections;
	char		header[8192];	/* of the last request */
} Shared;

static Shared *shared;
static int	port;
static int	failures;
static int	checks;

/* ---------- the server ---------- */

static void
put(int fd, const char *s, size_t n)
{
	while (n > 0)
	{
		ssize_t		w = send(fd, s, n, MSG_NOSIGNAL);

		if (w <= 0)
			return;
		s += w;
		n -= w;
	}
}

static void
puts_to(int fd, const char *s)
{
	put(fd, s, strlen(s));
}

static void
reset_on_close(int fd)
{
	struct linger l = {1, 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"ok\":1}"

/* One request; false to close the connection */
static bool
serve(int fd, int nth)
{
	char		buf[8192];
	size_t		have = 0;
	char	   *end = NULL;
	char		path[64] = "";
	size_t		body = 0;
	char	   *cl;

	while (end == NULL)
	{
		ssize_t		n = have < sizeof(buf) - 1 ? recv(fd, buf + have, sizeof(buf) - 1 - have, 0) : -1;

		if (n <= 0)
			return false;
		have += n;
		buf[have] = '\0';
		end = strstr(buf, "\r\n\r\n");
	}
	__atomic_add_fetch(&shared->requests, 1, __ATOMIC_SEQ_CST);
	snprintf(shared->header, sizeof(shared->header), "%.*s", (int) (end - buf), buf);
	sscanf(buf, "POST %63s", path);

	if (strcmp(path, "/noread") == 0)
	{
		reset_on_close(fd);
		return false;
	}
	if (strcmp(path, "/never-read") == 0)
	{
		poll(NULL, 0, 5000);
		return false;
	}
	if (strcmp(path, "/early413") == 0)
	{
		puts_to(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
		shutdown(fd, SHUT_WR);
		usleep(300000);			/* or the reset would overtake the answer */
		return false;
	}

	cl = strcasestr(buf, "content-length:");
	body = cl != NULL ? strtoul(cl + 15, NULL, 10) : 0;
	have -= (end + 4 - buf);
	while (have < body)
	{
		char		sink[65536];
		ssize_t		n = recv(fd, sink, Min(sizeof(sink), body - have), 0);

		if (n <= 0)
			return false;
		have += n;
	}

	if (strcmp(path, "/ok") == 0)
		puts_to(fd, OK_ANSWER);
	else if (strcmp(path, "/slow") == 0)
	{
		usleep(200000);
		puts_to(fd, OK_ANSWER);
	}
	else if (strcmp(path, "/drip") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n");
		for (const char *s = "{\"ok\":1}"; *s; s++)
		{
			usleep(60000);
			put(fd, s, 1);
		}
	}
	else if (strcmp(path, "/thinks-on") == 0)
	{
		puts_to(fd, "HTTP/1.1 102 Processing\r\n\r\n");
		usleep(500000);
		puts_to(fd, OK_ANSWER);
	}
	else if (strcmp(path, "/endless-extension") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8;x=");
		for (int i = 0; i < 40; i++)
		{
			puts_to(fd, "yyyyyyyyyyyyyyyyyyyy");
			usleep(50000);
		}
		return false;
	}
	else if (strcmp(path, "/endless-size") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
		for (int i = 0; i < 100000; i++)
			puts_to(fd, "0000000000");
		return false;
	}
	else if (strcmp(path, "/flood-trailer") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
		for (int i = 0; i < 100000; i++)
			puts_to(fd, "X-Filler: 0123456789012345678901234567890123456789\r\n");
		return false;
	}
	else if (strcmp(path, "/two-lengths") == 0)
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"ok\":1}\r\n0\r\n\r\n");
	else if (strcmp(path, "/te-gzip") == 0)
	{
		/* a megabyte of nothing in a kilobyte, by the coding that CURLOPT_HTTP_CONTENT_DECODING does not turn off */
		puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n");
		puts_to(fd, "4\r\n\x1f\x8b\x08\x01\r\n0\r\n\r\n");
	}
	else if (strcmp(path, "/chunked") == 0)
	{
		const char *s = "{\"ok\":1}";

		puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Retry-After\r\n\r\n");
		for (; *s; s++)
		{
			char		chunk[32];

			snprintf(chunk, sizeof(chunk), "1;x=\"y\"\r\n%c\r\n", *s);
			puts_to(fd, chunk);
		}
		puts_to(fd, "0\r\nRetry-After: 9\r\n\r\n");
	}
	else if (strcmp(path, "/http10") == 0)
	{
		puts_to(fd, "HTTP/1.0 200 OK\r\n\r\n{\"ok\":1}");
		return false;
	}
	else if (strcmp(path, "/longer") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"ok\":1}HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad");
	}
	else if (strcmp(path, "/before") == 0)
		return false;
	else if (strcmp(path, "/before-reset") == 0)
	{
		reset_on_close(fd);
		return false;
	}
	else if (strcmp(path, "/in-status") == 0)
	{
		puts_to(fd, "HTTP/1.1 20");
		return false;
	}
	else if (strcmp(path, "/in-header") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Le");
		return false;
	}
	else if (strcmp(path, "/in-header-429") == 0)
	{
		puts_to(fd, "HTTP/1.1 429 No\r\nRetry-After: 7\r\nConte");
		return false;
	}
	else if (strcmp(path, "/in-body") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ok\":");
		return false;
	}
	else if (strcmp(path, "/in-chunk") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"ok\":1}\r\n");
		return false;
	}
	else if (strcmp(path, "/in-body-503") == 0)
	{
		puts_to(fd, "HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nbusy");
		return false;
	}
	else if (strcmp(path, "/interim-then-cut") == 0)
	{
		puts_to(fd, "HTTP/1.1 102 Processing\r\n\r\n");
		usleep(20000);
		return false;
	}
	else if (strcmp(path, "/interim") == 0)
		puts_to(fd, "HTTP/1.1 103 Hints\r\nRetry-After: 5\r\nContent-Encoding: gzip\r\n\r\n" OK_ANSWER);
	else if (strcmp(path, "/stall") == 0)
		poll(NULL, 0, 5000);
	else if (strcmp(path, "/stall-body") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{");
		poll(NULL, 0, 5000);
	}
	else if (strcmp(path, "/stall-body-500") == 0)
	{
		puts_to(fd, "HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\n{");
		poll(NULL, 0, 5000);
	}
	else if (strcmp(path, "/big") == 0 || strcmp(path, "/big-500") == 0 || strcmp(path, "/big-gzip") == 0)
	{
		char		block[65536];

		memset(block, 'x', sizeof(block));
		puts_to(fd, path[4] == '\0' ? "HTTP/1.1 200 OK\r\nContent-Length: 6553600\r\n\r\n"
				: path[5] == 'g' ? "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6553600\r\n\r\n"
				: "HTTP/1.1 500 No\r\nContent-Length: 6553600\r\n\r\n");
		for (int i = 0; i < 100; i++)
			put(fd, block, sizeof(block));
		return false;
	}
	else if (strcmp(path, "/gzip") == 0)
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x01");
	else if (strcmp(path, "/garbage") == 0)
	{
		puts_to(fd, "SSH-2.0-OpenSSH_9.2\r\n");
		return false;
	}
	else if (strcmp(path, "/flood-1xx") == 0)
		for (int i = 0; i < 100000; i++)
			puts_to(fd, "HTTP/1.1 100 Continue\r\n\r\n");
	else if (strcmp(path, "/flood-header") == 0)
	{
		puts_to(fd, "HTTP/1.1 200 OK\r\n");
		for (int i = 0; i < 100000; i++)
			puts_to(fd, "X-Filler: 0123456789012345678901234567890123456789\r\n");
	}
	else if (strcmp(path, "/redirect") == 0)
	{
		char		answer[256];

		snprintf(answer, sizeof(answer), "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:%d/ok\r\nContent-Length: 0\r\n\r\n", port);
		puts_to(fd, answer);
	}
	else if (strcmp(path, "/429") == 0)
		puts_to(fd, "HTTP/1.1 429 Slow Down\r\nRetry-After: 30\r\nretry-after-ms: 250\r\nX-Should-Retry: false\r\nContent-Length: 2\r\n\r\n{}");
	else if (strcmp(path, "/twice") == 0)
		puts_to(fd, "HTTP/1.1 503 No\r\nRetry-After: 3\r\nX-Should-Retry: false\r\nRetry-After: -9\r\nRetry-After: 5\r\n"
				"X-Should-Retry: true\r\nRetry-After: 4\r\nContent-Length: 2\r\n\r\n{}");
	else if (strcmp(path, "/401") == 0)
		puts_to(fd, "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\n{}");
	else if (strcmp(path, "/die-reused") == 0)
	{
		if (nth > 0)
			return false;
		puts_to(fd, OK_ANSWER);
	}
	else if (strcmp(path, "/die-reused-status") == 0)
	{
		if (nth > 0)
		{
			puts_to(fd, "HTTP/1.1 2");
			return false;
		}
		puts_to(fd, OK_ANSWER);
	}
	else if (strcmp(path, "/close-idle") == 0)
	{
		puts_to(fd, OK_ANSWER);
		return false;
	}
	else
		puts_to(fd, "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}");
	return true;
}

static void *
connection(void *arg)
{
	int			fd = (int) (intptr_t) arg;
	int			one = 1;
	int			nth = 0;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (serve(fd, nth))
		nth++;
	close(fd);
	return NULL;
}

static pid_t
start_server(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	socklen_t	len = sizeof(sa);
	int			fd = socket(AF_INET, SOCK_STREAM, 0);
	int			one = 1;
	pid_t		pid;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *) &sa, sizeof(sa)) < 0 || listen(fd, 512) < 0 ||
		getsockname(fd, (struct sockaddr *) &sa, &len) < 0)
	{
		perror("server");
		exit(2);
	}
	port = ntohs(sa.sin_port);
	pid = fork();
	if (pid == 0)
	{
		for (;;)
		{
			int			c = accept(fd, NULL, NULL);
			pthread_t	thread;

			if (c < 0)
				continue;
			__atomic_add_fetch(&shared->connections, 1, __ATOMIC_SEQ_CST);
			if (pthread_create(&thread, NULL, connection, (void *) (intptr_t) c) == 0)
				pthread_detach(thread);
			else
				close(c);
		}
	}
	close(fd);
	return pid;
}

/* ---------- the tests ---------- */

#define CHECK(cond, ...) \
	do { \
		checks++; \
		if (!(cond)) \
		{ \
			failures++; \
			printf("not ok: %s:%d: %s: ", __FILE__, __LINE__, #cond); \
			printf(__VA_ARGS__); \
			printf("\n"); \
		} \
	} while (0)

static const char *const kinds[] = {"complete", "not sent", "unknown"};

static void
wait_once(void)
{
	struct pollfd p = {mw_http_fd(), POLLIN, 0};
	long		ms = mw_http_timeout_ms();

	if (ms != 0)
		poll(&p, 1, ms < 0 ? 1000 : (int) Min(ms, 1000));
	mw_http_drive();
}

static MwHttpRequest
request(const char *path)
{
	static char urls[128][256];
	static int	n;
	char	   *url = urls[n++ % 128];
	MwHttpRequest r = {
		.auth_header = "Authorization: Bearer sk-test", .body = "{\"model\":\"m\"}", .body_len = 13,
		.timeout_ms = 2000, .connect_timeout_ms = 1000, .max_response = 1024 * 1024
	};

	if (path[0] == '/')
		snprintf(url, 256, "http://127.0.0.1:%d%s", port, path);
	else
		snprintf(url, 256, path, port);
	r.url = url;
	return r;
}

static MwHttpResult
call(const MwHttpRequest *req)
{
	MwHttpResult r = {.kind = -1};
	char		why[256] = "";

	if (mw_http_start(req, why, sizeof(why)) == NULL)
	{
		strlcpy(r.error, why, sizeof(r.error));
		return r;
	}
	while (!mw_http_next(&r))
		wait_once();
	return r;
}

static void
expect(const char *path, MwHttpKind kind, int status)
{
	MwHttpRequest req = request(path);
	MwHttpResult r = call(&req);

	CHECK(r.kind == kind && r.status == status, "%s gave %s %d (%s), wanted %s %d",
		  path, r.kind <= MW_HTTP_UNKNOWN ? kinds[r.kind] : "nothing", r.status, r.error, kinds[kind], status);
	CHECK(kind == MW_HTTP_COMPLETE || r.error[0] != '\0', "%s gave no reason", path);
	free(r.body);
}

/* What each way of breaking is called */
static void
test_judgement(void)
{
	static const struct
	{
		const char *path;
		MwHttpKind	kind;
		int			status;
	}			cases[] = {
		{"/ok", MW_HTTP_COMPLETE, 200},
		{"/chunked", MW_HTTP_COMPLETE, 200},
		{"/http10", MW_HTTP_COMPLETE, 200},
		{"/longer", MW_HTTP_COMPLETE, 200},
		{"/interim", MW_HTTP_COMPLETE, 200},
		{"/redirect", MW_HTTP_COMPLETE, 307},
		{"/401", MW_HTTP_COMPLETE, 401},
		{"/404", MW_HTTP_COMPLETE, 404},
		{"/in-status", MW_HTTP_UNKNOWN, 0},
		{"/in-header", MW_HTTP_UNKNOWN, 200},
		{"/in-header-429", MW_HTTP_COMPLETE, 429},
		{"/in-body", MW_HTTP_UNKNOWN, 200},
		{"/in-chunk", MW_HTTP_UNKNOWN, 200},
		{"/in-body-503", MW_HTTP_COMPLETE, 503},
		{"/interim-then-cut", MW_HTTP_UNKNOWN, 0},
		{"/garbage", MW_HTTP_UNKNOWN, 0},
		{"/flood-1xx", MW_HTTP_UNKNOWN, 0},
		{"/flood-header", MW_HTTP_UNKNOWN, 200},
		{"/flood-trailer", MW_HTTP_UNKNOWN, 200},
		{"/endless-size", MW_HTTP_UNKNOWN, 200},
		{"/two-lengths", MW_HTTP_COMPLETE, 200},
	};

	for (int i = 0; i < lengthof(cases); i++)
		expect(cases[i].path, cases[i].kind, cases[i].status);
}

/* A fresh connection that dies after the request is unknown; a reused one is not sent, and goes over the wire once */
static void
test_dead_connections(void)
{
	MwHttpRequest req;
	MwHttpResult r;
	int			before;

	mw_http_close();			/* no pooled connections */
	mw_http_init(NULL, 0);
	expect("/before", MW_HTTP_UNKNOWN, 0);
	expect("/before-reset", MW_HTTP_UNKNOWN, 0);

	expect("/die-reused", MW_HTTP_COMPLETE, 200);
	before = shared->requests;
	req = request("/die-reused");
	r = call(&req);
	CHECK(r.kind == MW_HTTP_NOT_SENT && !r.connect_failed, "%s (%s)", kinds[r.kind], r.error);
	usleep(50000);
	CHECK(shared->requests == before + 1, "%d requests on the wire", shared->requests - before);
	expect("/die-reused", MW_HTTP_COMPLETE, 200);

	/* one that was closed while idle is not even tried */
	expect("/close-idle", MW_HTTP_COMPLETE, 200);
	usleep(50000);
	expect("/ok", MW_HTTP_COMPLETE, 200);

	/* one that began to answer was at work */
	mw_http_close();
	mw_http_init(NULL, 0);
	expect("/die-reused-status", MW_HTTP_COMPLETE, 200);
	expect("/die-reused-status", MW_HTTP_UNKNOWN, 0);
}

static void
test_not_sent(void)
{
	size_t		len = 32 * 1024 * 1024;
	char	   *big = malloc(len);
	MwHttpRequest req = request("/noread");
	MwHttpResult r;

	memset(big, ' ', len);
	req.body = big;
	req.body_len = len;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_NOT_SENT && !r.connect_failed, "%s (%s)", kinds[r.kind], r.error);

	req = request("/early413");
	req.body = big;
	req.body_len = len;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_COMPLETE && r.status == 413, "%s %d (%s)", kinds[r.kind], r.status, r.error);
	free(r.body);

	req = request("/ok");
	req.body = big;
	req.body_len = len;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_COMPLETE && r.status == 200, "%s %d (%s)", kinds[r.kind], r.status, r.error);
	free(r.body);
	free(big);

	req = request("http://127.0.0.1:1/refused?key=secret");
	r = call(&req);
	CHECK(r.kind == MW_HTTP_NOT_SENT && r.connect_failed && !r.blocked, "%s (%s)", kinds[r.kind], r.error);
	CHECK(strstr(r.error, "secret") == NULL && strstr(r.error, "127.0.0.1:1") != NULL, "%s", r.error);

	req = request("http://no-such-host.invalid:%d/ok");
	r = call(&req);
	CHECK(r.kind == MW_HTTP_NOT_SENT && r.connect_failed, "%s (%s)", kinds[r.kind], r.error);
}

static void
test_deadlines(void)
{
	static const struct
	{
		const char *path;
		MwHttpKind	kind;
		bool		timed_out;
	}			cases[] = {
		{"/stall", MW_HTTP_UNKNOWN, true},
		{"/stall-body", MW_HTTP_UNKNOWN, true},
		{"/stall-body-500", MW_HTTP_COMPLETE, false},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		MwHttpRequest req = request(cases[i].path);
		MwHttpResult r;

		req.timeout_ms = 200;
		r = call(&req);
		CHECK(r.kind == cases[i].kind && r.timed_out == cases[i].timed_out, "%s: %s %d (%s)",
			  cases[i].path, kinds[r.kind], r.timed_out, r.error);
		free(r.body);
	}
}

/* A stall ends an exchange before its deadline; a model that thinks does not stall */
static void
test_stalls(void)
{
	static const struct
	{
		const char *path;
		int			stall_ms;
		size_t		stall_bytes;
		MwHttpKind	kind;
		bool		stalls;
	}			cases[] = {
		{"/slow", 100, 1, MW_HTTP_COMPLETE, false},
		{"/thinks-on", 200, 1, MW_HTTP_COMPLETE, false},
		{"/drip", 500, 1, MW_HTTP_COMPLETE, false},
		{"/drip", 150, 100, MW_HTTP_UNKNOWN, true},
		{"/stall-body", 200, 1, MW_HTTP_UNKNOWN, true},
		{"/stall-body-500", 200, 1, MW_HTTP_COMPLETE, false},
		{"/endless-extension", 300, 1, MW_HTTP_UNKNOWN, true},
	};
	size_t		len = 32 * 1024 * 1024;
	char	   *big;
	MwHttpRequest req;
	MwHttpResult r;

	for (int i = 0; i < lengthof(cases); i++)
	{
		req = request(cases[i].path);
		req.timeout_ms = 4000;
		req.stall_ms = cases[i].stall_ms;
		req.stall_bytes = cases[i].stall_bytes;
		r = call(&req);
		CHECK(r.kind == cases[i].kind && !r.timed_out && cases[i].stalls == (strstr(r.error, "stalled: fewer") != NULL), "%s: %s %d (%s)",
			  cases[i].path, kinds[r.kind], r.timed_out, r.error);
		free(r.body);
	}

	/* no limit but the deadline */
	req = request("/stall-body");
	req.timeout_ms = 400;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_UNKNOWN && r.timed_out, "%s (%s)", kinds[r.kind], r.error);

	big = malloc(len);
	memset(big, ' ', len);
	req = request("/never-read");
	req.timeout_ms = 4000;
	req.stall_ms = 200;
	req.stall_bytes = 1;
	req.body = big;
	req.body_len = len;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_NOT_SENT && !r.timed_out && !r.connect_failed && strstr(r.error, "stalled") != NULL, "%s (%s)", kinds[r.kind], r.error);
	free(big);
	CHECK(mw_http_running() == 0, "%d run", mw_http_running());
	expect("/ok", MW_HTTP_COMPLETE, 200);
}

/* Few descriptors: requests are refused that would take PostgreSQL's, none is lost, and it goes on */
static void
test_descriptors(void)
{
	struct rlimit old;
	struct rlimit few = {64, 64};
	MwHttpRequest req;
	MwHttpResult r;
	char		why[256];
	int			n[3] = {0};
	int			begun = 0;

	mw_http_close();
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	mw_http_init(why, sizeof(why));
	getrlimit(RLIMIT_NOFILE, &few);
	CHECK(few.rlim_cur > 64, "the limit was not raised");
	mw_http_close();

	few.rlim_cur = few.rlim_max = 64;
	setrlimit(RLIMIT_NOFILE, &few);
	mw_http_init(why, sizeof(why));
	for (int i = 0; i < 100; i++)
	{
		req = request(i % 10 == 9 ? "http://localhost:%d/slow" : "/slow");
		req.allow_private = true;
		if (mw_http_start(&req, why, sizeof(why)) != NULL)
			begun++;
		else
			CHECK(strstr(why, "looked up") != NULL, "%s", why);
	}
	while (mw_http_running() > 0)
	{
		wait_once();
		while (mw_http_next(&r))
		{
			n[r.kind]++;
			CHECK(r.kind == MW_HTTP_COMPLETE || (r.kind == MW_HTTP_NOT_SENT && r.connect_failed), "%s (%s)", kinds[r.kind], r.error);
			free(r.body);
		}
	}
	CHECK(n[MW_HTTP_COMPLETE] >= 10 && n[MW_HTTP_NOT_SENT] >= 20 && begun >= 90 && n[0] + n[1] + n[2] == begun, "%d complete, %d not sent, %d begun",
		  n[MW_HTTP_COMPLETE], n[MW_HTTP_NOT_SENT], begun);
	for (int i = 0; i < 20; i++)
		expect("/ok", MW_HTTP_COMPLETE, 200);
	mw_http_close();
	mw_http_init(why, sizeof(why));
}

static void
test_sizes(void)
{
	MwHttpRequest req = request("/big");
	MwHttpResult r;

	r = call(&req);
	CHECK(r.kind == MW_HTTP_UNKNOWN && r.too_large && r.body == NULL, "%s (%s)", kinds[r.kind], r.error);
	req.max_response = 6553600;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_COMPLETE && r.len == 6553600 && r.body[r.len] == '\0', "%s (%s)", kinds[r.kind], r.error);
	free(r.body);
	req = request("/big-500");
	r = call(&req);
	CHECK(r.kind == MW_HTTP_COMPLETE && r.status == 500 && r.len <= req.max_response, "%s (%s)", kinds[r.kind], r.error);
	free(r.body);
	req = request("/ok");
	req.max_response = 8;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_COMPLETE && r.len == 8 && memcmp(r.body, "{\"ok\":1}", 9) == 0, "%s", r.error);
	free(r.body);
	req.max_response = 7;
	r = call(&req);
	CHECK(r.kind == MW_HTTP_UNKNOWN && r.too_large, "%s", r.error);
}

static void
test_headers(void)
{
	MwHttpRequest req = request("/429");
	MwHttpResult r = call(&req);

	CHECK(r.retry_after_ms == 250 && r.retry_forbidden, INT64_FORMAT, r.retry_after_ms);
	free(r.body);
	req = request("/twice");
	r = call(&req);
	CHECK(r.retry_after_ms == 5000 && r.retry_forbidden, "of several wishes the longest counts, not " INT64_FORMAT, r.retry_after_ms);
	free(r.body);
	req = request("/interim");
	r = call(&req);
	CHECK(r.retry_after_ms == -1 && r.body != NULL, "an interim answer's fields counted");
	free(r.body);
	req = request("/chunked");
	r = call(&req);
	CHECK(r.retry_after_ms == -1 && r.len == 8, "a trailer counted");
	free(r.body);
	req = request("/gzip");
	r = call(&req);
	CHECK(r.kind == MW_HTTP_COMPLETE && r.body == NULL && strstr(r.error, "compressed") != NULL, "%s", r.error);
	req = request("/te-gzip");
	r = call(&req);
	CHECK(r.body == NULL && r.error[0] != '\0', "%s (%s)", kinds[r.kind], r.error);
	free(r.body);
	req = request("/big-gzip");
	r = call(&req);
	CHECK(r.kind == MW_HTTP_UNKNOWN && r.too_large && r.body == NULL, "%s (%s)", kinds[r.kind], r.error);

	/* what we send */
	req = request("/ok");
	r = call(&req);
	free(r.body);
	CHECK(strstr(shared->header, "\r\nAuthorization: Bearer sk-test") != NULL, "%s", shared->header);
	CHECK(strstr(shared->header, "\r\nUser-Agent: mw/1.0") != NULL, "%s", shared->header);
	CHECK(strstr(shared->header, "\r\nContent-Type: application/json") != NULL, "%s", shared->header);
	CHECK(strcasestr(shared->header, "accept-encoding") == NULL, "%s", shared->header);
	CHECK(strcasestr(shared->header, "expect:") == NULL, "%s", shared->header);

	/* the next key on the same handle, then none */
	req.auth_header = "Authorization: Bearer other";
	r = call(&req);
	free(r.body);
	CHECK(strstr(shared->header, "Bearer other") != NULL, "%s", shared->header);
	req.auth_header = NULL;
	r = call(&req);
	free(r.body);
	CHECK(strcasestr(shared->header, "authorization") == NULL, "%s", shared->header);

	req.auth_header = "Authorization: Bearer x\r\nX-Evil: 1";
	r = call(&req);
	CHECK((int) r.kind == -1 && r.error[0] != '\0', "a key with a line break was sent");
}

static void
test_urls(void)
{
	static const char *const bad[] = {
		"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:%d/", "127.0.0.1:%d/ok", "",
		"http://user:pass@127.0.0.1:%d/ok", "http://user@127.0.0.1:%d/ok", "http://127.0.0.1:%d/a\r\nb"
	};
	static const struct
	{
		const char *url;
		bool		allow_private;
		bool		goes;
	}			cases[] = {
		{"http://127.0.0.1:%d/ok", false, true},
		{"http://0x7f000001:%d/ok", false, true},
		{"http://localhost:%d/ok", false, false},
		{"http://localhost:%d/ok", true, true},
		{"http://localhost:%d/ok", false, false},	/* though a connection is pooled now */
		{"http://169.254.169.254:%d/ok", true, false},
		{"http://[::ffff:169.254.169.254]:%d/ok", true, false},
		{"http://[fe80::1]:%d/ok", true, false},
		{"http://0.0.0.0:%d/ok", true, false},
		{"http://[::]:%d/ok", true, false},
		{"http://224.0.0.1:%d/ok", true, false},
		{"http://100.100.100.200:%d/ok", true, false},
	};

	for (int i = 0; i < lengthof(bad); i++)
	{
		MwHttpRequest req = request(bad[i][0] ? bad[i] : "%.0d");
		MwHttpResult r = call(&req);

		CHECK((int) r.kind == -1 && r.error[0] != '\0' && strstr(r.error, ":pass") == NULL, "%s was started", bad[i]);
	}
	for (int i = 0; i < lengthof(cases); i++)
	{
		MwHttpRequest req = request(cases[i].url);
		MwHttpResult r;

		req.allow_private = cases[i].allow_private;
		r = call(&req);
		if (cases[i].goes)
			CHECK(r.kind == MW_HTTP_COMPLETE && r.status == 200, "%s: %s (%s)", cases[i].url, kinds[r.kind], r.error);
		else
			CHECK(r.kind == MW_HTTP_NOT_SENT && r.blocked && r.connect_failed, "%s: %s (%s)", cases[i].url, kinds[r.kind], r.error);
		free(r.body);
	}
}

static void
test_addresses(void)
{
	static const struct
	{
		const char *ip;
		MwAddressKind kind;
	}			cases[] = {
		{"8.8.8.8", MW_ADDRESS_PUBLIC}, {"172.32.0.1", MW_ADDRESS_PUBLIC}, {"2606:4700::1111", MW_ADDRESS_PUBLIC},
		{"127.9.9.9", MW_ADDRESS_PRIVATE}, {"10.0.0.1", MW_ADDRESS_PRIVATE}, {"172.31.255.255", MW_ADDRESS_PRIVATE},
		{"192.168.1.1", MW_ADDRESS_PRIVATE}, {"100.64.0.1", MW_ADDRESS_PRIVATE}, {"::1", MW_ADDRESS_PRIVATE},
		{"fd12::1", MW_ADDRESS_PRIVATE}, {"::ffff:10.0.0.1", MW_ADDRESS_PRIVATE}, {"64:ff9b::10.0.0.1", MW_ADDRESS_PRIVATE},
		{"2002:0a00:0001::", MW_ADDRESS_PRIVATE}, {"::127.0.0.1", MW_ADDRESS_PRIVATE},
		{"169.254.169.254", MW_ADDRESS_NEVER}, {"0.0.0.0", MW_ADDRESS_NEVER}, {"255.255.255.255", MW_ADDRESS_NEVER},
		{"240.0.0.1", MW_ADDRESS_NEVER}, {"::", MW_ADDRESS_NEVER}, {"fe80::1", MW_ADDRESS_NEVER}, {"ff02::1", MW_ADDRESS_NEVER},
		{"fd00:ec2::254", MW_ADDRESS_NEVER}, {"64:ff9b::a9fe:a9fe", MW_ADDRESS_NEVER}, {"2002:a9fe:a9fe::", MW_ADDRESS_NEVER},
		{"localhost", MW_ADDRESS_NEVER}, {"", MW_ADDRESS_NEVER},
	};

	for (int i = 0; i < lengthof(cases); i++)
		CHECK(mw_address_kind_text(cases[i].ip) == cases[i].kind, "%s is %d", cases[i].ip, mw_address_kind_text(cases[i].ip));
}

static void
test_retry_after(void)
{
	static const struct
	{
		const char *value;
		int64		ms;
	}			cases[] = {
		{"0", 0}, {"1", 1000}, {"119", 119000}, {"1.5", 1500}, {"0.0001", 1}, {" 2", 2000}, {"3600", 3600000},
		{"-1", -1}, {"NaN", -1}, {"nan", -1}, {"1e308", -1}, {"abc", -1}, {"", -1}, {"1,5", -1}, {"0x10", -1}, {"inf", -1},
		{"10 s", -1}, {"12abc", -1}, {".", -1}, {".5", -1},
		{"99999999999999999999999999999999999999", PG_INT32_MAX * INT64CONST(1000)},
		{"Sun, 06 Nov 1994 08:49:39 GMT", 2000}, {"Sunday, 06-Nov-94 08:49:39 GMT", 2000}, {"Sun Nov  6 08:49:39 1994", 2000},
		{"Sun, 06 Nov 1994 08:49:30 GMT", 0}, {"Sun, 06 Nov 99999 08:49:37 GMT", -1}, {"x:y", -1},
		/* a provider that means never says so by the last date there is; it is no leave to ask at once */
		{"Fri, 31 Dec 9999 23:59:59 GMT", PG_INT32_MAX * INT64CONST(1000)}, {"Thu, 01 Jan 2099 00:00:00 GMT", PG_INT32_MAX * INT64CONST(1000)},
	};

	for (int i = 0; i < lengthof(cases); i++)
		CHECK(mw_http_retry_after(cases[i].value, 784111777) == cases[i].ms, "\"%s\" is " INT64_FORMAT,
			  cases[i].value, mw_http_retry_after(cases[i].value, 784111777));
}

/* Warm connections; many at once; ending some in mid-air */
static void
test_many(void)
{
	MwHttpRequest req;
	MwHttpTransfer *t[100];
	MwHttpResult r;
	char		why[256];
	int			connections;
	int			ok = 0;

	mw_http_close();
	mw_http_init(why, sizeof(why));
	connections = shared->connections;
	for (int i = 0; i < 50; i++)
		expect("/ok", MW_HTTP_COMPLETE, 200);
	CHECK(shared->connections == connections + 1, "%d connections for 50 requests", shared->connections - connections);

	connections = shared->connections;
	for (int round = 0; round < 2; round++)
	{
		ok = 0;
		for (int i = 0; i < 100; i++)
		{
			req = request("/slow");
			req.timeout_ms = 60000;
			req.owner = &t[i];
			t[i] = mw_http_start(&req, why, sizeof(why));
		}
		CHECK(mw_http_running() == 100, "%d run", mw_http_running());
		while (mw_http_running() > 0)
		{
			wait_once();
			while (mw_http_next(&r))
			{
				ok += r.kind == MW_HTTP_COMPLETE && r.status == 200 && r.owner != NULL;
				free(r.body);
			}
		}
		CHECK(ok == 100, "%d of 100", ok);
	}
	CHECK(shared->connections - connections <= 99, "%d new connections for 200 requests, 100 at a time", shared->connections - connections);

	for (int i = 0; i < 100; i++)
	{
		req = request("/slow");
		req.timeout_ms = 60000;
		t[i] = mw_http_start(&req, why, sizeof(why));
	}
	for (int i = 0; i < 5; i++)
		wait_once();
	for (int i = 0; i < 100; i += 2)
		mw_http_abort(t[i]);
	ok = 0;
	while (mw_http_running() > 0)
	{
		wait_once();
		while (mw_http_next(&r))
		{
			ok += r.kind == MW_HTTP_COMPLETE && r.status == 200;
			free(r.body);
		}
	}
	CHECK(ok == 50, "%d of 50", ok);
	expect("/ok", MW_HTTP_COMPLETE, 200);
}

/* Descriptors that other code closed and opened under the same numbers must not confuse the loop */
static void
test_idle_costs_nothing(void)
{
	struct pollfd p = {mw_http_fd(), POLLIN, 0};

	expect("/close-idle", MW_HTTP_COMPLETE, 200);
	usleep(50000);
	mw_http_drive();			/* sees the closing and lets go of the socket */
	CHECK(poll(&p, 1, 100) == 0, "the loop spins on an idle connection");
	CHECK(mw_http_running() == 0, "%d run", mw_http_running());
}

/* ---------- bench ---------- */

static double
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static size_t
drop(char *data, size_t size, size_t n, void *arg)
{
	return n;
}

static void
bench(int n)
{
	for (int round = 0; round < 3; round++)
	{
		MwHttpRequest req = request("/ok");
		CURL	   *e = curl_easy_init();
		double		from;

		for (int i = 0; i < n / 10; i++)
			free(call(&req).body);
		from = now_us();
		for (int i = 0; i < n; i++)
			free(call(&req).body);
		printf("mw_http     %.1f us a call\n", (now_us() - from) / n);

		curl_easy_setopt(e, CURLOPT_URL, req.url);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, req.body);
		curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, drop);
		curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
		curl_easy_perform(e);
		from = now_us();
		for (int i = 0; i < n; i++)
			curl_easy_perform(e);
		printf("curl_easy   %.1f us a call\n", (now_us() - from) / n);
		curl_easy_cleanup(e);
	}
}

int
main(int argc, char **argv)
{
	char		why[256];
	pid_t		server;

	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);

	/* none of these may steer us */
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	setenv("NO_PROXY", ",,*[", 1);
	setenv("SSLKEYLOGFILE", "/nowhere/keys", 1);

	shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	server = start_server();
	if (!mw_http_init(why, sizeof(why)))
	{
		printf("not ok: %s\n", why);
		kill(server, SIGKILL);
		return 1;
	}
	if (argc > 1 && strcmp(argv[1], "bench") == 0)
		bench(argc > 2 ? atoi(argv[2]) : 20000);
	else
	{
		test_addresses();
		test_retry_after();
		test_judgement();
		test_dead_connections();
		test_not_sent();
		test_deadlines();
		test_stalls();
		test_sizes();
		test_headers();
		test_urls();
		test_many();
		test_idle_costs_nothing();
		test_descriptors();	/* the last: a limit that was lowered stays */
		printf("%s: %d checks, %d failed\n", failures ? "not ok" : "ok", checks, failures);
	}
	mw_http_close();
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return failures ? 1 : 0;
}
