/*
 * repeat.c - a value that a word gave away, wherever else it stands.
 *
 * "Account number 12345678 ... so why was 12345678 charged?": the second number
 * has no word beside it, and in clear it undoes what the placeholder did for the
 * first.  So what was found by its context is looked for in the whole text, as a
 * word of its own; values of short or plain words (a password that is "summer")
 * are not.
 *
 * One pass over the words of the text, and none where nothing was found by its
 * context.  Values are found by the hash of their first run of letters and
 * digits; of those that begin alike so many are compared, so that time is linear.
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "stage/detect.h"

/* bytes that a value must have to be nobody else's */
#define REPEAT_MIN	6
#define ALIKE_MAX	16

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_word(c) (is_digit(c) || (unsigned char) (((c) | 0x20) - 'a') < 26 || (unsigned char) (c) >= 0x80)

typedef struct Value
{
	uint32		hash;			/* of its first run */
	int			from;
	int			len;
	const MwRecognizer *rec;
	int			next;			/* with the same slot, -1: none */
} Value;

static int
run_of(const char *s, int len)
{
	int			n = 0;

	while (n < len && is_word(s[n]))
		n++;
	return n;
}

static bool
is_telling(const char *s, const MwSpan *sp)
{
	if (sp->rec->context == NULL || sp->to - sp->from < REPEAT_MIN || !is_word(s[sp->from]))
		return false;
	for (int i = sp->from; i < sp->to; i++)
		if (is_digit(s[i]))
			return true;
	return false;
}

/* mw_spans_repeat adds the other places of such values; f's spans are settled, and are so again where it returns true. */
bool
mw_spans_repeat(MwFound *f, const char *s, int len)
{
	Value	   *values = NULL;
	int		   *slots;
	int			nslots = 64;
	int			n = 0;
	int			before = f->n;

	for (int i = 0; i < f->n; i++)
		if (is_telling(s, &f->spans[i]))
		{
			if (values == NULL)
				values = palloc_extended(sizeof(Value) * (f->n - i), MCXT_ALLOC_HUGE);
			values[n].from = f->spans[i].from;
			values[n].len = f->spans[i].to - f->spans[i].from;
			values[n++].rec = f->spans[i].rec;
		}
	if (n == 0)
		return false;
	while (nslots < n * 2)
		nslots *= 2;
	slots = palloc_extended(sizeof(int) * nslots, MCXT_ALLOC_HUGE);
	memset(slots, 0xff, sizeof(int) * nslots);
	for (int i = 0; i < n; i++)
	{
		Value	   *v = &values[i];
		int		   *slot;

		v->hash = hash_bytes((const unsigned char *) s + v->from, run_of(s + v->from, v->len));
		slot = &slots[v->hash & (nslots - 1)];
		v->next = *slot;
		*slot = i;
	}

	/* the next settled span is k: what lies in it is taken out anyway */
	for (int at = 0, k = 0; at < len;)
	{
		int			run;
		int			stop;
		uint32		hash;
		int			tried = 0;

		while (k < before && f->spans[k].to <= at)
			k++;
		if (k < before && f->spans[k].from <= at)
		{
			at = f->spans[k].to;
			/* the rest of a word that a value ends in is no word */
			if (is_word(s[at - 1]))
				at += run_of(s + at, len - at);
			continue;
		}
		if (!is_word(s[at]))
		{
			at++;
			continue;
		}
		/* a word ends where a value begins, too: a placeholder will stand there */
		stop = k < before ? f->spans[k].from : len;
		run = run_of(s + at, stop - at);
		hash = hash_bytes((const unsigned char *) s + at, run);
		for (int i = slots[hash & (nslots - 1)]; i >= 0 && tried < ALIKE_MAX; i = values[i].next)
		{
			const Value *v = &values[i];

			if (v->hash != hash)
				continue;
			tried++;
			if (v->len <= len - at && memcmp(s + at, s + v->from, v->len) == 0 && (at + v->len == len || at + v->len == stop || !is_word(s[at + v->len])))
			{
				mw_found_add(f, at, at + v->len, v->rec);
				run = v->len;
				break;
			}
		}
		at += run;
	}
	pfree(slots);
	pfree(values);
	if (f->n == before)
		return false;
	f->n = mw_spans_settle(f->spans, f->n);
	return true;
}
