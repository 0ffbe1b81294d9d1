/*
 * context.c - words near a match that say what it is.
 *
 * A number without a check digit, or with one that any tenth number passes, is
 * somebody's only next to a word that names it.  The context of a recogniser is
 * a list of words, "=passport|passport no|reisepass", or a regular expression
 * that is matched against the text before the number.
 *
 * The lists of all recognisers are one hash table of phrases of up to three
 * words.  At a number the words before it are looked up once, whoever asks;
 * capitals do not matter, "passportNo" and "passport_no" are two words, and of
 * text without blanks (Chinese, Japanese, Thai) every piece is looked up.  The
 * key of a JSON member counts as words before its value.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "stage/detect.h"

#define is_digit(c) ((unsigned char) ((c) - '0') < 10)
#define is_letter(c) ((unsigned char) (((c) | 0x20) - 'a') < 26)
#define is_high(c) ((unsigned char) (c) >= 0x80)

/* how far behind a match in brackets its name may end: 123 (BSN) */
#define BEHIND_BYTES	28
/* bytes of a piece of text without blanks */
#define PIECE_BYTES		30

typedef struct Phrase
{
	uint64		hash;			/* 0: free */
	MwRecSet	recs;
} Phrase;

typedef struct MwContextWords
{
	Phrase	   *slots;
	uint32		nslots;
	uint8	   *some;			/* a bit by hash, eight a slot: nearly all words of a text are nobody's, and end here */
	uint64		first[64];		/* likewise for the first characters of phrases beyond ASCII */
} MwContextWords;

/* The byte of a word in small letters; 0 for what stands between words.  Made with the first plan. */
static uint8 in_word[256];

#define HASH_START	UINT64CONST(0xcbf29ce484222325)

static inline uint64
hash_byte(uint64 h, unsigned char c)
{
	return (h ^ c) * UINT64CONST(0x100000001b3);
}

static void
make_in_word(void)
{
	for (int c = 1; c < 256; c++)
		in_word[c] = c >= 'A' && c <= 'Z' ? c + 32 : is_letter(c) || is_digit(c) || is_high(c) ? c : 0;
}

/* the hash of two phrases in a row */
static inline uint64
join(uint64 a, uint64 b)
{
	return hash_byte(a, ' ') ^ (b * 31);
}

static inline uint32
bit_of(const MwContextWords *w, uint64 hash)
{
	return (uint32) (hash >> 24) & (w->nslots * 8 - 1);
}

/* Where the first character of a word, of at least two bytes, has its bit */
static inline uint32
first_bit(const char *s)
{
	return ((unsigned char) s[0] << 6 ^ (unsigned char) s[1] << 3 ^ (unsigned char) s[2]) & 4095;
}

static Phrase *
find(const MwContextWords *w, uint64 hash)
{
	uint32		i = (uint32) (hash ^ (hash >> 32)) & (w->nslots - 1);

	while (w->slots[i].hash != 0 && w->slots[i].hash != hash)
		i = (i + 1) & (w->nslots - 1);
	return &w->slots[i];
}

/* The next word of s[*at..len): its hash, or 0 at the end; *from is where it begins */
static uint64
next_word(const char *s, int len, int *at, int *from)
{
	int			i = *at;
	uint64		h = HASH_START;
	unsigned char all = 0;

	while (i < len && !in_word[(unsigned char) s[i]])
		i++;
	if (i >= len)
		return 0;
	*from = i;
	for (; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];
		unsigned char small = in_word[c];

		if (small == 0)
			break;
		/* passportNo: two words */
		if (small != c && i > *from && s[i - 1] >= 'a' && s[i - 1] <= 'z')
			break;
		h = hash_byte(h, small);
		all |= c;
	}
	*at = i;
	return is_high(all) ? h | 1 : h & ~UINT64CONST(1);
}

#define IS_HIGH_WORD(h) ((h) & 1)

/* mw_context_make enters the words of all recognisers of a plan. */
struct MwContextWords *
mw_context_make(MwPlan *plan)
{
	MwContextWords *w = palloc0(sizeof(MwContextWords));
	int			n = 0;

	for (int i = 0; i < plan->nrecs; i++)
		if (plan->recs[i].context_words)
			for (const char *p = plan->recs[i].rec->context; *p; p++)
				n += *p == '|' || *p == '=';
	for (w->nslots = 64; w->nslots < (uint32) n * 2; w->nslots *= 2)
		;
	w->slots = palloc0(sizeof(Phrase) * w->nslots);
	w->some = palloc0(w->nslots);
	if (in_word['a'] == 0)
		make_in_word();

	for (int i = 0; i < plan->nrecs; i++)
	{
		const char *p;

		if (!plan->recs[i].context_words)
			continue;
		p = plan->recs[i].rec->context;
		while (*p)
		{
			int			len = strcspn(++p, "|");
			int			at = 0;
			int			from;
			uint64		phrase = 0;
			uint64		h;

			while ((h = next_word(p, len, &at, &from)) != 0)
				phrase = phrase ? join(phrase, h) : h;
			if (phrase)
			{
				Phrase	   *slot = find(w, phrase);

				if (is_high(*p))
					w->first[first_bit(p) / 64] |= UINT64CONST(1) << (first_bit(p) % 64);
				slot->hash = phrase;
				w->some[bit_of(w, phrase) / 8] |= 1 << (bit_of(w, phrase) % 8);
				mw_set_put(&slot->recs, i);
			}
			p += len;
		}
	}
	return w;
}

static inline void
look_up(const MwContextWords *w, uint64 hash, MwRecSet *out)
{
	const Phrase *p;

	if (!((w->some[bit_of(w, hash) / 8] >> (bit_of(w, hash) % 8)) & 1))
		return;
	p = find(w, hash);
	if (p->hash != 0)
		for (int i = 0; i < MW_SET_WORDS; i++)
			out->w[i] |= p->recs.w[i];
}

/* How long a placeholder at s[at..len) is, 0 for none: the name of its type names nothing behind it */
static inline int
placeholder_at(const char *s, int len, int at)
{
	int			type_len,
				number;

	return s[at] == '<' ? mw_placeholder_read(s + at, len - at, &type_len, &number) : 0;
}

/* All phrases in a piece of text, s[at..len) */
static void
words_in(const MwContextWords *w, const char *s, int at, int len, MwRecSet *out)
{
	uint64		one = 0,
				two = 0;		/* the word before, and the two before */
	uint64		h;
	int			from = at;

	while ((h = next_word(s, len, &at, &from)) != 0)
	{
		if (from > 0 && s[from - 1] == '<' && placeholder_at(s, len, from - 1) > 0)
		{
			at = from - 1 + placeholder_at(s, len, from - 1);
			one = two = 0;
			continue;
		}
		look_up(w, h, out);
		if (one)
			look_up(w, join(one, h), out);
		if (two)
			look_up(w, join(two, h), out);
		two = one ? join(one, h) : 0;
		one = h;
		if (IS_HIGH_WORD(h))
			for (int b = from; b < at; b += pg_utf_mblen((const unsigned char *) s + b))
			{
				uint64		piece = HASH_START;

				if (b + 2 >= len || !((w->first[first_bit(s + b) / 64] >> (first_bit(s + b) % 64)) & 1))
					continue;
				for (int e = b; e < at && e < b + PIECE_BYTES;)
				{
					int			n = pg_utf_mblen((const unsigned char *) s + e);

					while (n-- > 0 && e < at)
						piece = hash_byte(piece, in_word[(unsigned char) s[e++]]);
					look_up(w, piece | 1, out);
				}
			}
	}
}

/* Whether letters stand near before a place, as they do where any word does */
static bool
letters_before(const MwSearch *q, int at)
{
	int			stop = Max(0, at - MW_CONTEXT_BYTES);

	for (int i = at - 1; i >= stop; i--)
		if (is_letter(q->s[i]) || is_high(q->s[i]))
			return true;
	return at < MW_CONTEXT_BYTES && q->label;
}

/* Whether a bracket is opened near behind a place */
static bool
bracket_behind(const MwSearch *q, int end)
{
	for (int i = end; i < q->len && i < end + 20 && q->s[i] != '\n'; i++)
		if (q->s[i] == '(')
			return true;
	return false;
}

static int
start_before(const MwSearch *q, int at)
{
	int			start = Max(0, at - MW_CONTEXT_BYTES);

	while (start > 0 && ((unsigned char) q->s[start] & 0xc0) == 0x80)
		start--;
	/* not in the middle of a placeholder, nor of a word */
	for (int i = start; i > 0 && i > start - MW_TYPE_MAX - MW_NUMBER_DIGITS; i--)
	{
		char		c = q->s[i - 1];

		if (c == '<')
		{
			int			n = placeholder_at(q->s, at, i - 1);

			if (i - 1 + n > start)
				start = i - 1 + n;
		}
		if (!(c >= 'A' && c <= 'Z') && !is_digit(c) && c != '_')
			break;
	}
	while (start > 0 && start < at && is_letter(q->s[start - 1]) && is_letter(q->s[start]))
		start++;
	return start;
}

static bool
regex_near(MwRegex *re, const char *s, int start, int end)
{
	int			a,
				b;

	/* the subject ends at the match, so that $ in a context means "right before it" */
	return mw_regex_find(re, s, end, start, &a, &b) == 1;
}

/* What stands behind a match in brackets, or "is my ..." */
static bool
behind(const MwSearch *q, int to, int *from, int *end)
{
	int			i = to;

	if (i < q->len && q->s[i] == ' ')
		i++;
	if (i >= q->len || q->s[i] != '(')
		return false;
	*from = i;
	while (i < q->len && i < to + BEHIND_BYTES && q->s[i] != ')' && q->s[i] != '\n')
		i++;
	while (i < q->len && ((unsigned char) q->s[i] & 0xc0) == 0x80)
		i++;
	*end = i;
	return true;
}

/* The words before a place, found once */
static const MwRecSet *
words_before(MwSearch *q, int at)
{
	if (q->words_at != at)
	{
		int			start = start_before(q, at);

		q->words_at = at;
		memset(&q->words, 0, sizeof(q->words));
		words_in(q->plan->words, q->s, start, at, &q->words);
		if (q->label && start == 0)
			words_in(q->plan->words, q->label, 0, strlen(q->label), &q->words);
	}
	return &q->words;
}

/* mw_context_filter leaves what can have its context. */
void
mw_context_filter(MwSearch *q, MwRecSet *set, int at, int end)
{
	const MwPlan *plan = q->plan;
	const MwRecSet *words;
	uint64		worded = 0;
	bool		bracket;

	/* its name may stand behind it, in brackets */
	bracket = bracket_behind(q, end);
	if (mw_context_in_chain(q, at) || (!bracket && !letters_before(q, at)))
	{
		for (int i = 0; i < MW_SET_WORDS; i++)
			set->w[i] &= ~plan->contextual.w[i];
		return;
	}
	for (int i = 0; i < MW_SET_WORDS; i++)
		worded |= set->w[i] & plan->worded.w[i];
	if (worded == 0 || bracket)
		return;
	words = words_before(q, at);
	for (int i = 0; i < MW_SET_WORDS; i++)
		set->w[i] &= ~plan->worded.w[i] | words->w[i];
}

/* mw_context_near says whether a match is named. */
bool
mw_context_near(MwSearch *q, const MwPlanRec *pr, int rec, int from, int to)
{
	int			start = start_before(q, from);
	int			b,
				e;

	if (pr->context_words)
	{
		if (mw_set_has(words_before(q, from), rec))
			return true;
		if (behind(q, to, &b, &e))
		{
			MwRecSet	words = {{0}};

			words_in(q->plan->words, q->s, b, e, &words);
			return mw_set_has(&words, rec);
		}
		return false;
	}

	{
		char	   *why = NULL;
		MwRegex    *re = pr->context_re ? pr->context_re : mw_regex_get(pr->rec->context, MW_REGEX_CASELESS, &why);

		((MwPlanRec *) pr)->context_re = re;
		if (re == NULL)
			return false;		/* checked when it was stored */
		if (regex_near(re, q->s, start, from) || (behind(q, to, &b, &e) && regex_near(re, q->s, b, e)))
			return true;
		if (q->label && start == 0)
		{
			char		both[MW_CONTEXT_BYTES * 2 + 8];
			int			n = Min(strlen(q->label), MW_CONTEXT_BYTES);

			n = pg_mbcliplen(q->label, strlen(q->label), n);
			memcpy(both, q->label, n);
			memcpy(both + n, ": ", 2);
			memcpy(both + n + 2, q->s, from);
			for (int i = 0; i < n; i++)
				if (both[i] == '_' || both[i] == '-')
					both[i] = ' ';
			return regex_near(re, both, 0, n + 2 + from);
		}
		return false;
	}
}
