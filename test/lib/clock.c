/*
 * clock.c - a wall clock that a test sets, for tests: preloaded into a server,
 * it answers whoever asks for the time of day.  The monotonic clock stays what
 * it is.
 *
 * libfaketime is not enough: PostgreSQL 15's postmaster starts a background
 * worker from a signal handler, which interrupts libfaketime inside a call of its
 * own, and the gateway would live on with the true time.  Nothing here has a state:
 * a file, mapped by each process, holds two numbers of microseconds: where the
 * clock stands still (0: it goes), else what is added to the true one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *page;

__attribute__((constructor)) static void
map(void)
{
	const char *file = getenv("MW_CLOCK");
	int			fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	void	   *p = fd >= 0 ? mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (fd >= 0)
		close(fd);
	if (p != MAP_FAILED)
		page = p;
}

static int64_t
now_us(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
	if (page && page[0] != 0)
		return page[0];
	return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000 + (page ? page[1] : 0);
}

int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	int64_t		us = now_us();

	(void) tz;
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	int64_t		us;

	if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
		return syscall(SYS_clock_gettime, clock, t);
	us = now_us();
	t->tv_sec = us / 1000000;
	t->tv_nsec = us % 1000000 * 1000;
	return 0;
}

time_t
time(time_t *t)
{
	time_t		s = now_us() / 1000000;

	if (t)
		*t = s;
	return s;
}
