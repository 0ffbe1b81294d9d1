/*
 * scan_number.c - what can begin at a number, and at a word with a digit in it.
 *
 * Length, what follows and what stands before choose the recognisers that are
 * worth a look, as bit sets; those that need a word beside them come last.
 */
#include "postgres.h"

#include "stage/scan_int.h"

/* Take out what is no stronger than the value that place lies in */
static inline void
drop_covered(const MwSearch *q, MwRecSet *set, int at)
{
	if (at < q->found->covered)
		for (int i = 0; i < MW_SET_WORDS; i++)
			set->w[i] &= q->found->stronger.w[i];
}

static inline MwRecSet
set_and(MwRecSet a, const MwRecSet *b)
{
	for (int i = 0; i < MW_SET_WORDS; i++)
		a.w[i] &= b->w[i];
	return a;
}

/* What follows a number: its kind (a bit of MW_SEP_...), and its bytes */
static inline int
separator(const char *s, int len, int at, int *n)
{
	unsigned char c;

	*n = 1;
	if (at >= len)
		return MW_SEP_NONE;
	c = (unsigned char) s[at];
	switch (c)
	{
		case ' ':
			return MW_SEP_SPACE;
		case '-':
			return MW_SEP_DASH;
		case '.':
			return MW_SEP_DOT;
		case '/':
			return MW_SEP_SLASH;
		case '(':
		case ')':
			return MW_SEP_PAREN;
		case 0xc2:				/* no-break space */
			*n = 2;
			return at + 1 < len && (unsigned char) s[at + 1] == 0xa0 ? MW_SEP_SPACE : MW_SEP_NONE;
		case 0xe2:				/* hyphens and dashes, narrow no-break space */
			*n = 3;
			if (at + 2 < len && (unsigned char) s[at + 1] == 0x80)
			{
				if ((unsigned char) s[at + 2] >= 0x90 && (unsigned char) s[at + 2] <= 0x95)
					return MW_SEP_DASH;
				if ((unsigned char) s[at + 2] == 0xaf)
					return MW_SEP_SPACE;
			}
			return MW_SEP_NONE;
		default:
			return MW_SEP_NONE;
	}
}

static inline int
prev_class(const char *s, int at)
{
	if (at == 0)
		return 0;
	switch (s[at - 1])
	{
		case '.':
			return 1;
		case '-':
			return 2;
		case '/':
			return 3;
		case ':':
			return 4;
		case '+':
			return 5;
		case ',':
			return 6;
		case '_':
			return 7;
		default:
			return 0;
	}
}

/*
 * Digits from here on, over short separators.  A chain of numbers is counted once, at the first of them that somebody
 * asks for; what its later numbers have is what is left.
 */
static int
chain_digits(MwSearch *q, int at)
{
	const char *s = q->s;

	if (at < q->chain_at || at >= q->chain_end)
	{
		int			gap = 0;
		int			i;

		q->chain_at = at;
		q->chain_left = 0;
		for (i = at; i < q->len; i++)
		{
			if (is_digit(s[i]))
			{
				q->chain_left++;
				gap = 0;
			}
			else if (is_letter(s[i]) || ++gap > 3)
				break;
		}
		q->chain_end = i;
	}
	for (; q->chain_at < at; q->chain_at++)
		q->chain_left -= is_digit(s[q->chain_at]);
	return q->chain_left;
}

/* Where the word before a number begins, -1 for none */
static int
word_before(const char *s, int b)
{
	int			at = b;
	int			end;

	while (at > 0 && b - at < 2 && (s[at - 1] == ' ' || s[at - 1] == '.' || s[at - 1] == '-'))
		at--;
	end = at;
	while (at > 0 && end - at < 12 && is_letter(s[at - 1]))
		at--;
	return at < end && end < b ? at : -1;
}

/* Where a number may begin: at its digits, and with what stands before them */
typedef struct Number
{
	int			b,
				e;
	int			start;			/* with + and ( */
	int			plus;			/* where a + stands before it, -1 for none */
} Number;

static void
try_number(MwSearch *q, const MwRecSet *set, const Number *n)
{
	const char *s = q->s;
	int			digits = -1;

	for (int w = 0; w < MW_SET_WORDS; w++)
	{
		uint64		bits = set->w[w];

		while (bits)
		{
			int			rec = w * 64 + pg_rightmost_one_pos64(bits);
			const MwPiiGate *g = &q->plan->recs[rec].gate;

			bits &= bits - 1;
			if (n->b < q->found->covered && !mw_set_has(&q->found->stronger, rec))
				continue;		/* found just now */
			if (g->high && (n->e >= q->len || !is_high(s[n->e])))
				continue;
			if (g->min > 0)
			{
				if (digits < 0)
					digits = chain_digits(q, n->b);
				if (digits < g->min)
					continue;
			}
			if (g->before)
			{
				int			at = word_before(s, n->b);

				if (at >= 0)
					(void) mw_pii_try(q, rec, at);
			}
			else if (g->lead && n->start < n->b && mw_pii_try(q, rec, n->start))
				continue;
			else if (g->lead && n->plus > n->start && mw_pii_try(q, rec, n->plus))
				continue;
			else if (!g->plus)
				(void) mw_pii_try(q, rec, n->b);
		}
	}
}

/* Those of a set that need a word beside what they find, taken out of it */
static inline MwRecSet
take_contextual(const MwSearch *q, MwRecSet *set)
{
	MwRecSet	named = *set;

	for (int i = 0; i < MW_SET_WORDS; i++)
	{
		named.w[i] &= q->plan->contextual.w[i];
		set->w[i] &= ~q->plan->contextual.w[i];
	}
	return named;
}

/* mw_scan_number looks at a number, s[b..e). */
void
mw_scan_number(MwSearch *q, int b, int e)
{
	const MwPlan *plan = q->plan;
	const char *s = q->s;
	Number		n = {b, e, b, -1};
	MwRecSet	set;
	MwRecSet	named;
	int			sep;
	int			sepn;
	int			two = 0;

	sep = pg_rightmost_one_pos32(separator(s, q->len, e, &sepn));
	if (sep != 0)
		while (e + sepn + two < q->len && two < MW_LEN_LONG && is_digit(s[e + sepn + two]))
			two++;
	/* most numbers have a shape that nobody waits for, and inside a chain of them no word can stand before one */
	if (!((plan->shape[mw_context_in_chain(q, b)][Min(e - b, MW_LEN_LONG)][sep] >> two) & 1) &&
		!(b > 0 && (s[b - 1] == '+' || s[b - 1] == '(')))
		return;
	set = plan->number_len[Min(e - b, MW_LEN_LONG)];
	set = set_and(set, &plan->number_sep[sep]);
	set = set_and(set, &plan->number_first[s[b] - '0']);
	set = set_and(set, &plan->number_prev[prev_class(s, b)]);
	set = set_and(set, &plan->number_two[two]);
	drop_covered(q, &set, b);
	if (!mw_set_any_of(&set))
		return;

	/* +1, (+1), +(1 and (415 */
	if (n.start > 0 && s[n.start - 1] == '+')
		n.plus = --n.start;
	if (n.start > 0 && s[n.start - 1] == '(')
		n.start--;
	if (n.plus < 0 && n.start > 0 && s[n.start - 1] == '+')
		n.plus = --n.start;
	if (n.plus < 0)
		for (int i = 0; i < MW_SET_WORDS; i++)
			set.w[i] &= ~plan->needs_plus.w[i];

	/* those that need no word first: the words before what one of them found are often nobody's business */
	named = take_contextual(q, &set);
	try_number(q, &set, &n);
	drop_covered(q, &named, b);
	if (mw_set_any_of(&named) && !(n.plus >= 0 && b < q->found->covered))
	{
		mw_context_filter(q, &named, n.start, e);
		try_number(q, &named, &n);
	}
}

static void
try_word(MwSearch *q, const MwRecSet *set, int b)
{
	for (int w = 0; w < MW_SET_WORDS; w++)
	{
		uint64		bits = set->w[w];

		while (bits)
		{
			int			rec = w * 64 + pg_rightmost_one_pos64(bits);

			bits &= bits - 1;
			if (is_digit(q->s[b]) && !((q->plan->recs[rec].gate.digits >> (q->s[b] - '0')) & 1))
				continue;
			(void) mw_pii_try(q, rec, b);
		}
	}
}

/* mw_scan_word looks at letters and digits, s[b..e). */
void
mw_scan_word(MwSearch *q, int b, int e)
{
	const MwPlan *plan = q->plan;
	MwRecSet	set = plan->word_len[Min(e - b, MW_LEN_LONG)];
	MwRecSet	named;
	int			sepn;

	set = set_and(set, &plan->word_first[is_letter(q->s[b]) ? 1 : 0]);
	set = set_and(set, &plan->number_prev[prev_class(q->s, b)]);
	set = set_and(set, &plan->number_sep[pg_rightmost_one_pos32(separator(q->s, q->len, e, &sepn))]);
	if (!mw_set_any_of(&set))
		return;
	named = take_contextual(q, &set);
	try_word(q, &set, b);
	drop_covered(q, &named, b);
	/* what stands before an @ is an address */
	if (mw_set_any_of(&named) && !(e + 1 < q->len && q->s[e] == '@' && is_alnum(q->s[e + 1])))
	{
		mw_context_filter(q, &named, b, e);
		try_word(q, &named, b);
	}
}
