/*
 * holds.c - what must hold of every text, whoever wrote it.
 */
#include "holds.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "stage/ngrams.h"
#include "stage/redact.h"

/* ---------- redaction ---------- */

static bool
begins_character(const char *s, int len, int at)
{
	return at == len || ((unsigned char) s[at] & 0xc0) != 0x80;
}

/* Numbers that hang on the text alone: where it is cut, and what is read next */
static uint32
dice(uint32 *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static bool
same(const char *a, int alen, const char *b, int blen)
{
	return alen == blen && memcmp(a, b, alen) == 0;
}

/* As a client of a stream would: whole characters, a few at a time */
static bool
restored_in_pieces(const MwPiiMap *map, const char *s, int len, const char *want, int wantlen)
{
	MwRestorer	r;
	StringInfoData all;
	uint32		state = (uint32) len;

	mw_restorer_start(&r, map);
	initStringInfo(&all);
	for (int at = 0; at < len;)
	{
		int			some = 1 + (int) (dice(&state) % 9);
		int			piece = Min(len - at, some);

		while (at + piece < len && ((unsigned char) s[at + piece] & 0xc0) == 0x80)
			piece++;
		mw_restorer_feed(&r, s + at, piece, &all);
		at += piece;
	}
	mw_restorer_end(&r, &all);
	return same(all.data, all.len, want, wantlen);
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_alnum(char c)
{
	return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (unsigned char) c >= 0x80;
}

/* Found by a word beside it, and itself no plain word, which may well stand elsewhere as itself (stage/repeat.c) */
static bool
is_telling(const char *s, const MwSpan *sp)
{
	if (sp->rec->context == NULL || sp->to - sp->from < 6 || !is_alnum(s[sp->from]))
		return false;
	for (int i = sp->from; i < sp->to; i++)
		if (is_digit(s[i]))
			return true;
	return false;
}

/* Whether a value stands in a text, not as a part of a longer word */
static bool
stands_in(const char *s, int len, const char *value, int n)
{
	for (int i = 0; i + n <= len; i++)
		if (memcmp(s + i, value, n) == 0 && (i == 0 || !is_alnum(s[i - 1])) && (i + n == len || !is_alnum(s[i + n])))
			return true;
	return false;
}

/* Other text before and behind changes nothing in between */
static void
embedded(const MwPolicy *policy, const char *s, int len, const MwSpan *spans, int n, MwMust must)
{
	static const char before[] = "Dear reader,\n\n";
	static const char behind[] = "\n\n-- \nSincerely";
	const int	shift = sizeof(before) - 1;
	StringInfoData all;
	MwSpan	   *others;
	int			m;
	bool		equal;

	initStringInfo(&all);
	appendBinaryStringInfo(&all, before, shift);
	appendBinaryStringInfo(&all, s, len);
	appendBinaryStringInfo(&all, behind, sizeof(behind) - 1);
	others = mw_pii_find(policy, all.data, all.len, NULL, &m);
	equal = n == m;
	/* but that what had no end, a key block such as, goes on */
	for (int i = 0; i < n && equal; i++)
		equal = others[i].from == spans[i].from + shift && others[i].rec == spans[i].rec &&
			(others[i].to == spans[i].to + shift || (spans[i].to == len && others[i].to > len + shift));
	must(equal, "nothing changes in other surroundings", s, len);
}

void
mw_holds_redaction(const MwPolicy *policy, const char *s, int len, MwMust must)
{
	MwPiiMap	map;
	MwPiiMap	second;
	MwSpan	   *spans;
	int			n;
	int			outlen;
	int			newlen;
	char	   *out;
	char	   *back;
	int			last = 0;
	bool		valid = true;

	mw_pii_map_init(&map, NULL);
	mw_pii_reserve(&map, s, len);
	out = mw_redact_text(policy, &map, (char *) s, len, NULL, &outlen, &spans, &n);
	for (int i = 0; i < n; i++)
	{
		valid &= spans[i].from >= last && spans[i].to > spans[i].from && spans[i].to <= len &&
			begins_character(s, len, spans[i].from) && begins_character(s, len, spans[i].to);
		last = spans[i].to;
	}
	must(valid, "spans are in order, apart and of whole characters", s, len);

	back = mw_restore_text(&map, out, outlen, &newlen, NULL);
	must(same(back, newlen, s, len), "what was redacted is restored", s, len);
	must(restored_in_pieces(&map, out, outlen, s, len), "pieces are restored as the whole", s, len);

	valid = true;
	for (int i = 0; i < n; i++)
		valid &= !is_telling(s, &spans[i]) || !stands_in(out, outlen, s + spans[i].from, spans[i].to - spans[i].from);
	must(valid, "no value that was taken out stands elsewhere", s, len);
	embedded(policy, s, len, spans, n, must);

	mw_pii_map_init(&second, NULL);
	mw_pii_reserve(&second, out, outlen);
	(void) mw_redact_text(policy, &second, out, outlen, NULL, &newlen, &spans, &n);
	must(n == 0, "what was redacted once is settled", s, len);
}

void
mw_holds_restoring(const char *s, int len, MwMust must)
{
	static const char *const types[] = {"EMAIL", "CC", "PHONE", "US_SSN"};
	MwPiiMap	map;
	int			newlen;
	char	   *out;

	mw_pii_map_init(&map, NULL);
	for (int i = 0; i < 12; i++)
		(void) mw_pii_entry(&map, types[i % 4], (char[]) {'v', 'a', 'l', 'u', 'e', 'a' + i}, 6);
	out = mw_restore_text(&map, (char *) s, len, &newlen, NULL);
	must(pg_encoding_verifymbstr(PG_UTF8, out, newlen) == newlen, "a restored text is text", s, len);
	must(restored_in_pieces(&map, s, len, out, newlen), "pieces are restored as the whole", s, len);

	/* what a text holds in any spelling is never given out, so that it comes back as it was */
	mw_pii_map_init(&map, NULL);
	mw_pii_reserve(&map, s, len);
	for (int i = 0; i < 12; i++)
		(void) mw_pii_entry(&map, types[i % 4], (char[]) {'v', 'a', 'l', 'u', 'e', 'a' + i}, 6);
	out = mw_restore_text(&map, (char *) s, len, &newlen, NULL);
	must(same(out, newlen, s, len), "somebody's own words are not restored", s, len);
}

/* ---------- views ---------- */

/* "whole": each byte of the view comes from where it stands, in order */
static bool
leads_back(const MwView *v, int original, bool whole)
{
	int			before = 0;

	if (pg_encoding_verifymbstr(PG_UTF8, v->s, v->len) != v->len)
		return false;
	if (v->map == NULL)
		return true;
	for (int i = 0; i <= v->len; i++)
	{
		if (v->map[i] < 0 || v->map[i] > original || (whole && v->map[i] < before))
			return false;
		before = v->map[i];
	}
	return true;
}

typedef struct Counted
{
	int			end;
	bool		good;
} Counted;

static void
count_chunk(void *arg, const uint32 *hashes, const int *last, int ntokens, const int *ends, int from, int to)
{
	Counted    *c = arg;

	c->good = c->good && ntokens > 0 && ntokens <= MW_NGRAM_CHUNK && from >= c->end && to >= from;
	for (int i = 0; i < last[ntokens - 1]; i++)
		c->good = c->good && hashes[i] < (1 << MW_NGRAM_BITS);
	for (int i = 1; i < ntokens; i++)
		c->good = c->good && last[i] > last[i - 1] && ends[i] > ends[i - 1];
	c->end = to;
}

void
mw_holds_normaliser(const char *s, int len, MwMust must)
{
	MwView		v;
	MwView		again;
	Counted		c = {0, true};

	mw_normalise(s, len, &v);
	must(leads_back(&v, len, true), "the normalised view leads back to its text", s, len);
	(void) mw_view_hints(&v);
	mw_ngrams(v.s, v.len, count_chunk, &c);
	must(c.good && c.end <= v.len, "n-grams are of the view", s, len);
	mw_normalise(v.s, v.len, &again);
	must(same(again.s, again.len, v.s, v.len), "a normalised view is its own view", s, len);
}

static bool
leet(const MwView *v, MwView *out)
{
	return mw_view_leet(v, true, out) > 0;
}

static void
decoder(const MwView *v, int original, int depth, MwMust must)
{
	static const struct
	{
		bool		(*make) (const MwView *v, MwView *out);
		bool		whole;
		const char *what;
	}			views[] = {
		{mw_view_joined, true, "joined letters lead back"}, {mw_view_parted, true, "parted humps lead back"},
		{leet, true, "leetspeak leads back"}, {mw_view_unescaped, true, "percent, entities and backslashes lead back"},
		{mw_view_rot13, true, "rot13 leads back"}, {mw_view_reversed, false, "the reversed view leads back"}
	};
	MwView		other;
	int			at = 0;

	(void) mw_view_hints(v);
	for (int i = 0; i < (int) lengthof(views); i++)
		if (views[i].make(v, &other))
			must(leads_back(&other, original, views[i].whole), views[i].what, v->s, v->len);
	for (int pieces = 0; pieces < 64; pieces++)
	{
		int			was = at;

		if (!mw_view_decoded(v, &at, &other))
			break;
		must(at > was && at <= v->len, "a decoded piece moves on", v->s, v->len);
		must(leads_back(&other, original, false), "a decoded piece leads back", v->s, v->len);
		if (depth < 2)
			decoder(&other, original, depth + 1, must);
	}
}

void
mw_holds_decoder(const char *s, int len, MwMust must)
{
	MwView		plain = {s, len, NULL};
	MwView		v;

	decoder(&plain, len, 1, must);
	mw_normalise(s, len, &v);
	if (v.s != s)
		decoder(&v, len, 0, must);
}
