/*
 * pii_test.c - properties of redaction, on texts that nobody wrote.
 *
 * Risk: a value is lost or comes back changed; a text that was redacted once is
 * not settled; a span cuts a character; a value is found in one surrounding and
 * not in another; a text that comes in pieces is restored otherwise than whole;
 * the work is not linear (counted in patterns tried, never in time).
 *
 * Generated from a seed: values of all kinds among words, marks, invisible
 * characters, other scripts and pieces of placeholders; and plain noise, which
 * is what a fuzzer would start from.  Without a server (alone/).
 */
#include "alone/alone.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "policy/policy.h"
#include "stage/redact.h"

#define TEXTS	100000
#define NOISE	100000

static uint64 state = UINT64CONST(0x9e3779b97f4a7c15);
static int	checks = 0;
static int	failures = 0;

static uint32
rnd(uint32 n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32) ((state >> 11) % n);
}

static void
check(bool ok, const char *what, const char *text)
{
	checks++;
	if (!ok && failures++ < 20)
		printf("not ok: %s: %s\n", what, text);
}

static const char *const values[] = {
	"ana@example.com", "\"john smith\"@example.org", "info@xn--bcher-kva.example", "+44 20 7946 0958", "(415) 555-0132", "078-05-1120",
	"4111 1111 1111 1111", "378282246310005", "DE89 3704 0044 0532 0130 00", "203.0.113.7", "2001:db8::1", "00:1b:44:11:3a:b7", "AB123456C",
	"184127645108946", "85.07.30-033.28", "756.9217.0769.85", "12345678Z", "X1234567L", "RSSMRA85T10A562S", "811228-9874", "15108695088",
	"131052-308T", "710319/2745", "112-233-445 95", "BOXW310820HNERXN09", "390.533.447-05", "20-05536168-2", "11010519491231002X",
	"A123456(3)", "820701-2409184", "S1234567D", "1-2345-45678-78-1", "AFZPK7190K", "1EG4-TE5-MK73", "AKIAIOSFODNN7EXAMPLE",
	"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "password: hunter2!", "BSN 111222333",
	"born 1990-05-17", "passport no. C01X00T47", "postgres://app:s3cret@db.example.com/app",
};
/* found wherever they stand: the ones before the first that needs a word */
#define NALONE	37

static const char *const words[] = {
	"the", "please", "write to", "card", "phone", "and", ",", ".", ": ", "\n", "\t", "\"", "(", ")", "<", ">", "--", "=", "é", "für", "今日は",
	"привет", "😀", "e\xcc\x81", "\xe2\x80\x8b", "\xc2\xa0", "<EMAIL_0>", "<CC_1>", "EMAIL_2", "&lt;EMAIL_0&gt;", "<email_0>", "_0", "<PHONE_", "12", "2024-05-17", "0",
	"a@", "@b.example", "::", "1.", "-----BEGIN", "key=", "eyJ", "\\u003c", "SSN", "Tel",
};

static void
add(StringInfo s, const char *t)
{
	appendBinaryStringInfo(s, t, strlen(t));
}

static char *
generated(int *len)
{
	StringInfoData s;
	int			n = 1 + rnd(12);

	initStringInfo(&s);
	while (n-- > 0)
	{
		if (rnd(3) == 0)
			add(&s, values[rnd(lengthof(values))]);
		else
			add(&s, words[rnd(lengthof(words))]);
		if (rnd(4))
			add(&s, " ");
	}
	*len = s.len;
	return s.data;
}

/* Bytes of any kind that are UTF-8: what a fuzzer tries first */
static char *
noise(int *len)
{
	static const char some[] = "0123456789 .-:@_<>=/+()abcXYZ";
	StringInfoData s;
	int			n = 1 + rnd(160);

	initStringInfo(&s);
	while (n-- > 0)
	{
		if (rnd(12) == 0)
		{
			unsigned char u[8] = {0};
			uint32		c;

			do
				c = rnd(3) ? 0x80 + rnd(0xff00) : 0x10000 + rnd(0x20000);
			while (c >= 0xd800 && c < 0xe000);
			(void) unicode_to_utf8(c, u);
			appendBinaryStringInfo(&s, (char *) u, pg_utf_mblen(u));
		}
		else
			appendBinaryStringInfo(&s, &some[rnd(sizeof(some) - 1)], 1);
	}
	*len = s.len;
	return s.data;
}

static bool
begins_character(const char *s, int len, int at)
{
	return at == len || ((unsigned char) s[at] & 0xc0) != 0x80;
}

/* One text: all properties that need no other */
static void
properties(MwPolicy *policy, char *s, int len)
{
	MwPiiMap	map;
	MwSpan	   *spans;
	int			n;
	int			outlen;
	char	   *out;
	char	   *back;
	int			backlen;
	int			last = 0;
	bool		valid = true;

	mw_pii_map_init(&map, NULL);
	mw_pii_reserve(&map, s, len);
	out = mw_redact_text(policy, &map, s, len, NULL, &outlen, &spans, &n);
	for (int i = 0; i < n; i++)
	{
		valid &= spans[i].from >= last && spans[i].to > spans[i].from && spans[i].to <= len &&
			begins_character(s, len, spans[i].from) && begins_character(s, len, spans[i].to);
		last = spans[i].to;
	}
	check(valid, "spans are in order, apart and of whole characters", s);

	back = mw_restore_text(&map, out, outlen, &backlen, NULL);
	check(backlen == len && memcmp(back, s, len) == 0, "what was redacted is restored", s);
	for (int i = 0; i < map.n; i++)
		valid &= map.entries[i].value_len <= len;
	check(valid, "values are parts of the text", s);

	/* in pieces */
	{
		MwRestorer	r;
		StringInfoData all;

		mw_restorer_start(&r, &map);
		initStringInfo(&all);
		for (int at = 0; at < outlen;)
		{
			int			some = 1 + rnd(9);
			int			piece = Min(outlen - at, some);

			while (at + piece < outlen && ((unsigned char) out[at + piece] & 0xc0) == 0x80)
				piece++;
			mw_restorer_feed(&r, out + at, piece, &all);
			at += piece;
		}
		mw_restorer_end(&r, &all);
		check(all.len == len && memcmp(all.data, s, len) == 0, "pieces are restored as the whole", s);
	}
}

/* A value alone is found as a whole; and so it is among other words */
static void
embedded(MwPolicy *policy, const char *value)
{
	static const char *const before[] = {"", " ", "the ", "это ", "それは", "(", "\"", "\n", "x, ", "😀 ", "value "};
	static const char *const behind[] = {"", " ", ".", ", and", ")", "\"", "\n", " это", "です", " 😀", ";"};

	for (size_t b = 0; b < lengthof(before); b++)
		for (size_t e = 0; e < lengthof(behind); e++)
		{
			StringInfoData s;
			MwSpan	   *spans;
			int			n;
			bool		found = false;
			int			from = strlen(before[b]);

			initStringInfo(&s);
			add(&s, before[b]);
			add(&s, value);
			add(&s, behind[e]);
			spans = mw_pii_find(policy, s.data, s.len, NULL, &n);
			for (int i = 0; i < n; i++)
				found |= spans[i].from <= from && spans[i].to >= from + (int) strlen(value);
			check(found, "a value is found wherever it stands", s.data);
			mw_alone_reset();
		}
}

int
main(void)
{
	MwPolicy   *policies[] = {mw_alone_policy(MW_ALONE_DEFAULT), mw_alone_policy(MW_ALONE_ALL)};
	int			len;

	for (int i = 0; i < TEXTS; i++)
	{
		char	   *s = generated(&len);

		properties(policies[i % 2], s, len);
		mw_alone_reset();
	}
	for (int i = 0; i < NOISE; i++)
	{
		char	   *s = noise(&len);

		properties(policies[i % 2], s, len);
		mw_alone_reset();
	}
	for (int i = 0; i < NALONE; i++)
		embedded(policies[0], values[i]);

	printf("%sok: %d checks, %d failed\n", failures ? "not " : "", checks, failures);
	return failures != 0;
}
