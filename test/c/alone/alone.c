/*
 * alone.c - what the text stages need of a server, without one.
 *
 * Fuzzers, property tests and the text bench link the objects of src/stage and
 * src/util with this and PostgreSQL's own libpgcommon and libpgport.  Memory is
 * a bag that mw_alone_reset empties; an ERROR jumps to mw_alone_error, or ends
 * the program where nothing waits for it.
 */
#include "postgres.h"

#include <setjmp.h>
#include <signal.h>

#include "alone.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "policy/policy.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

MemoryContext CurrentMemoryContext = NULL;
MemoryContext TopMemoryContext = NULL;
volatile sig_atomic_t InterruptPending = false;

jmp_buf    *mw_alone_error = NULL;

/* ---------- memory ---------- */

typedef struct Chunk
{
	struct Chunk *next,
			   *before;
	Size		size;
	Size		pad;
} Chunk;

static Chunk bag = {&bag, &bag, 0, 0};
static bool keeping = false;	/* what lives as long as the process is not in the bag */

static void *
take(Size size, bool zero)
{
	Chunk	   *c = malloc(sizeof(Chunk) + size);

	if (c == NULL)
		abort();
	c->size = size;
	if (keeping)
		c->next = c->before = c;
	else
	{
		c->next = bag.next;
		c->before = &bag;
		bag.next->before = c;
		bag.next = c;
	}
	if (zero)
		memset(c + 1, 0, size);
	return c + 1;
}

void
mw_alone_keep(bool keep)
{
	keeping = keep;
}

void
mw_alone_reset(void)
{
	while (bag.next != &bag)
	{
		Chunk	   *c = bag.next;

		bag.next = c->next;
		c->next->before = &bag;
		free(c);
	}
}

void *palloc(Size size) { return take(size, false); }
void *palloc0(Size size) { return take(size, true); }
void *palloc_extended(Size size, int flags) { return take(size, flags & MCXT_ALLOC_ZERO); }
void *MemoryContextAlloc(MemoryContext cxt, Size size) { return take(size, false); }
void *MemoryContextAllocZero(MemoryContext cxt, Size size) { return take(size, true); }
void *MemoryContextAllocExtended(MemoryContext cxt, Size size, int flags) { return take(size, flags & MCXT_ALLOC_ZERO); }

void
pfree(void *p)
{
	Chunk	   *c = (Chunk *) p - 1;

	c->before->next = c->next;
	c->next->before = c->before;
	free(c);
}

void *
repalloc(void *p, Size size)
{
	Chunk	   *c = (Chunk *) p - 1;
	void	   *q = take(size, false);

	memcpy(q, p, Min(size, c->size));
	pfree(p);
	return q;
}

void *repalloc_huge(void *p, Size size) { return repalloc(p, size); }

char *
pstrdup(const char *s)
{
	return strcpy(take(strlen(s) + 1, false), s);
}

char *pnstrdup(const char *s, Size n)
{
	char	   *p = take(n + 1, true);

	memcpy(p, s, strnlen(s, n));
	return p;
}

char *MemoryContextStrdup(MemoryContext cxt, const char *s)
{
	char	   *p;
	bool		before = keeping;

	keeping = true;				/* only the table of patterns asks for it */
	p = pstrdup(s);
	keeping = before;
	return p;
}

char *
psprintf(const char *fmt,...)
{
	va_list		args;
	char		buf[4096];

	va_start(args, fmt);
	vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	return pstrdup(buf);
}

/* libpgcommon's own is of malloc; linked with --wrap */
extern uint32 *__real_unicode_normalize(int form, const uint32 *in);
extern uint32 *__wrap_unicode_normalize(int form, const uint32 *in);

uint32 *
__wrap_unicode_normalize(int form, const uint32 *in)
{
	uint32	   *theirs = __real_unicode_normalize(form, in);
	uint32	   *ours;
	int			n = 0;

	while (theirs[n])
		n++;
	ours = palloc(sizeof(uint32) * (n + 1));
	memcpy(ours, theirs, sizeof(uint32) * (n + 1));
	free(theirs);
	return ours;
}

/* ---------- strings ---------- */

void
initStringInfo(StringInfo s)
{
	s->maxlen = 256;
	s->data = palloc(s->maxlen);
	s->data[0] = '\0';
	s->len = s->cursor = 0;
}

void
enlargeStringInfo(StringInfo s, int needed)
{
	int			want = s->len + needed + 1;

	if (want <= s->maxlen)
		return;
	s->maxlen = Max(want, s->maxlen * 2);
	s->data = repalloc(s->data, s->maxlen);
}

void
appendBinaryStringInfo(StringInfo s, const MW_ALONE_DATA *data, int len)
{
	enlargeStringInfo(s, len);
	memcpy(s->data + s->len, data, len);
	s->len += len;
	s->data[s->len] = '\0';
}

void
appendStringInfo(StringInfo s, const char *fmt,...)
{
	va_list		args;
	char		buf[4096];

	va_start(args, fmt);
	vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	appendBinaryStringInfo(s, buf, strlen(buf));
}

void appendStringInfoString(StringInfo s, const char *t) { appendBinaryStringInfo(s, t, strlen(t)); }

char *quote_literal_cstr(const char *s) { return psprintf("'%s'", s); }

int
pg_mbcliplen(const char *s, int len, int limit)
{
	int			at = 0;

	while (at < len)
	{
		int			n = pg_utf_mblen((const unsigned char *) s + at);

		if (at + n > limit)
			break;
		at += n;
	}
	return at;
}

/* ---------- the table of patterns: one, never emptied ---------- */

struct HTAB
{
	HASHCTL		ctl;
	int			n;
	void	   *entries[4096];
};

HTAB *
hash_create(const char *name, long n, const HASHCTL *ctl, int flags)
{
	HTAB	   *t = calloc(1, sizeof(HTAB));

	t->ctl = *ctl;
	return t;
}

void *
hash_search(HTAB *t, const void *key, HASHACTION action, bool *found)
{
	for (int i = 0; i < t->n; i++)
		if (t->ctl.hash(key, t->ctl.keysize) == t->ctl.hash(t->entries[i], t->ctl.keysize) &&
			t->ctl.match(t->entries[i], key, t->ctl.keysize) == 0)
			return t->entries[i];
	if (action != HASH_ENTER || t->n == lengthof(t->entries))
		return NULL;
	t->entries[t->n] = calloc(1, t->ctl.entrysize);
	memcpy(t->entries[t->n], key, t->ctl.keysize);
	return t->entries[t->n++];
}

/* ---------- errors, interrupts, keys ---------- */

void ProcessInterrupts(void) {}

bool errstart(int level, const char *domain) { return level >= ERROR; }
bool errstart_cold(int level, const char *domain) { return level >= ERROR; }
int errcode(int code) { return 0; }
int errmsg(const char *fmt,...) { return 0; }
int errdetail(const char *fmt,...) { return 0; }
int errhint(const char *fmt,...) { return 0; }

void
errfinish(const char *file, int line, const char *function)
{
	if (mw_alone_error)
		longjmp(*mw_alone_error, 1);
	fprintf(stderr, "ERROR raised in %s, %s:%d\n", function, file, line);
	abort();
}

const uint8 *
mw_database_key(void)
{
	static const uint8 key[32] = "a key for nothing but tests, 32b";

	return key;
}
