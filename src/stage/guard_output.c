/*
 * guard_output.c - what a model said, judged on its way back.
 *
 * The answer is judged as it came, before the caller's values are put back in,
 * and each time it is handed out: a hit's like a new one, since rules may have
 * changed and the answer was stored by what held then.  Patterns, functions and
 * models are the rows whose sources name "output".  Beside them stand checks that
 * know the call: whether the system prompt is told, whether a value that redaction
 * took out is in it, where its images point, how long it is, and whether it is JSON of the
 * wanted schema.
 *
 * An answer that is refused was paid for and is on the ledger; its cache row, where
 * it has one, is judged again like this each time.
 */
#include "postgres.h"

#include <ctype.h>

#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "stage/guardrail.h"
#include "util/json.h"
#include "util/schema.h"

/* so many words in a row of the system prompt are no coincidence */
#define LEAK_WORDS		12
/* a value that is shorter says nothing */
#define LEAK_VALUE		6

typedef struct Output
{
	MwCall	   *call;
	const char *s;
	int			len;
} Output;

/* ---------- the system prompt ---------- */

static bool
is_word(char c)
{
	return isalnum((unsigned char) c) || (unsigned char) c >= 0x80;
}

/* The hash of the words that begin at s[i], without case and marks; false where there are fewer than LEAK_WORDS */
static bool
words_hash(const char *s, int len, int i, uint64 *hash, int *next, int *end)
{
	uint64		h = UINT64CONST(0xcbf29ce484222325);
	int			words = 0;

	*next = len;
	while (i < len && words < LEAK_WORDS)
	{
		while (i < len && !is_word(s[i]))
			i++;
		if (words == 1)
			*next = i;
		if (i == len)
			break;
		for (; i < len && is_word(s[i]); i++)
			h = (h ^ (unsigned char) tolower((unsigned char) s[i])) * UINT64CONST(0x100000001b3);
		h = (h ^ ' ') * UINT64CONST(0x100000001b3);
		words++;
	}
	*hash = h;
	*end = i;
	return words == LEAK_WORDS;
}

static int
by_value(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/* Does the answer repeat a dozen words of the operator's own messages? */
static bool
tells_prompt(const Output *o, int *from, int *to)
{
	uint64	   *hashes = NULL;
	int			n = 0;
	int			cap = 0;
	int			i,
				next,
				end;
	uint64		h;

	for (i = 0; i < o->call->nmessages; i++)
	{
		const MwMessage *m = &o->call->messages[i];
		char	   *s;
		int			len;
		int			at;

		if (strcmp(m->role, "system") != 0 && strcmp(m->role, "developer") != 0)
			continue;
		s = m->json ? mw_json_content_text(mw_json_get(m->json, "content")) : m->text;
		len = s == NULL ? 0 : m->json ? (int) strlen(s) : m->len;
		for (at = 0; at < len && words_hash(s, len, at, &h, &next, &end); at = next)
		{
			if (n == cap)
			{
				cap = Max(64, cap * 2);
				hashes = hashes ? repalloc(hashes, sizeof(uint64) * cap) : palloc(sizeof(uint64) * cap);
			}
			hashes[n++] = h;
		}
	}
	if (n == 0)
		return false;
	qsort(hashes, n, sizeof(uint64), by_value);
	for (i = 0; i < o->len && words_hash(o->s, o->len, i, &h, &next, &end); i = next)
		if (bsearch(&h, hashes, n, sizeof(uint64), by_value))
		{
			*from = i;
			*to = end;
			return true;
		}
	return false;
}

/* ---------- values, images, forms ---------- */

/* Is a value in it that redaction took out of this call? */
static bool
tells_value(const Output *o, int *from, int *to)
{
	const MwPiiMap *map = &o->call->map;
	int			i;

	for (i = 0; i < map->n; i++)
	{
		const MwPiiEntry *e = &map->entries[i];
		const char *p;

		if (e->value_len < LEAK_VALUE || (p = memmem(o->s, o->len, e->value, e->value_len)) == NULL)
			continue;
		*from = p - o->s;
		*to = *from + e->value_len;
		return true;
	}
	return false;
}

static bool
host_allowed(const Output *o, const char *host, int len)
{
	ListCell   *lc;

	foreach(lc, o->call->policy->guard_hosts)
	{
		const char *h = lfirst(lc);
		int			n = strlen(h);

		if (len >= n && pg_strncasecmp(host + len - n, h, n) == 0 && (len == n || host[len - n - 1] == '.'))
			return true;
	}
	return false;
}

/* Does it show an image of a host that is not the tenant's?  What it would load says to that host what the answer knows. */
static bool
foreign_image(const Output *o, int *from, int *to)
{
	const char *end = o->s + o->len;
	const char *p;

	for (p = o->s; p < end; p++)
	{
		const char *url;
		const char *host;
		const char *q;

		if (*p == '!' && end - p > 4 && p[1] == '[')
		{
			for (q = p + 2; q < end && q < p + 512 && *q != ']'; q++)
				;
			if (q + 1 >= end || *q != ']' || (q[1] != '(' && q[1] != '['))
				continue;
			for (url = q + 2; url < end && (*url == ' ' || *url == '<'); url++)
				;
		}
		else if (*p == '<' && end - p > 8 && pg_strncasecmp(p, "<img", 4) == 0)
		{
			for (q = p; q < end - 4 && q < p + 512 && *q != '>' && pg_strncasecmp(q, "src", 3) != 0; q++)
				;
			if (q >= end - 4 || pg_strncasecmp(q, "src", 3) != 0)
				continue;
			for (url = q + 3; url < end && (*url == ' ' || *url == '=' || *url == '"' || *url == '\''); url++)
				;
		}
		else
			continue;
		if (end - url > 8 && pg_strncasecmp(url, "https://", 8) == 0)
			host = url + 8;
		else if (end - url > 7 && pg_strncasecmp(url, "http://", 7) == 0)
			host = url + 7;
		else if (end - url > 2 && url[0] == '/' && url[1] == '/')
			host = url + 2;
		else
			continue;
		for (q = host; q < end && *q != '/' && *q != '?' && *q != '#' && *q != ')' && *q != '"' && *q != ' ' && *q != '>'; q++)
			;
		/* what stands before an @ is no host; a port is none either */
		for (url = q; url > host && url[-1] != '@'; url--)
			;
		host = url;
		for (url = host; url < q && *url != ':'; url++)
			;
		if (host_allowed(o, host, url - host))
			continue;
		*from = p - o->s;
		*to = q - o->s;
		return true;
	}
	return false;
}

static bool
too_long(const Output *o, int *from, int *to)
{
	int64		max = o->call->policy->guard_max_output;

	*from = 0;
	*to = o->len;
	return max > 0 && o->len > max && pg_mbstrlen_with_len(o->s, o->len) > max;
}

static bool
breaks_schema(const Output *o, int *from, int *to)
{
	const char *schema = o->call->policy->guard_schema;

	*from = 0;
	*to = o->len;
	return schema != NULL && !mw_schema_accepts(schema, o->s, o->len);
}

static const struct
{
	const char *name;
	bool		(*check) (const Output *o, int *from, int *to);
}			checks[] =
{
	{"output_system_prompt", tells_prompt},
	{"output_redacted_value", tells_value},
	{"output_foreign_image", foreign_image},
	{"output_length", too_long},
	{"output_schema", breaks_schema}
};

/* ---------- the whole ---------- */

static _Noreturn void
refuse(MwCall *call, const MwVerdict *v, const Output *o)
{
	const MwGuardHit *h = &v->hits[0];
	int			from;
	int			i;

	for (i = 1; i < v->nhits; i++)
		if (v->hits[i].guard->weight > h->guard->weight)
			h = &v->hits[i];
	from = pg_mbstrlen_with_len(o->s, h->from);
	ereport(ERROR,
			(errcode(ERRCODE_MW_GUARD_REFUSED),
			 errmsg("the guardrail refused the answer"),
			 errdetail("Guard \"%s\" (category %s) matched in the model's answer, characters %d to %d; score %.2f of %.2f, %d in all. The call was made and is on the ledger.",
					   h->guard->guard, h->guard->category, from, from + pg_mbstrlen_with_len(o->s + h->from, h->to - h->from),
					   v->score, call->policy->guard_threshold[MW_FROM_OUTPUT], v->nhits),
			 errhint("Whether this guard blocks or only logs is an administrator's decision: "
					 "SELECT mw_alter_guard(%s, '{\"mode\": \"log\"}'%s%s);",
					 quote_literal_cstr(h->guard->guard),
					 h->guard->own ? ", " : "", h->guard->own ? quote_literal_cstr(call->tenant) : "")));
}

/* mw_guard_output judges the answer of a call. */
void
mw_guard_output(MwCall *call)
{
	const MwPolicy *policy = call->policy;
	MwGuardPlan *plan;
	MwVerdict	v;
	Output		o = {call, NULL, 0};
	MemoryContext old;
	int			i;
	int			k;

	if (policy->nguards == 0 || call->answer == NULL || call->answer->text == NULL || call->answer->len == 0)
		return;
	plan = mw_guard_plan(policy);
	if (!plan->outputs)
		return;
	old = MemoryContextSwitchTo(call->cxt);
	o.s = call->answer->text;
	o.len = call->answer->len;
	memset(&v, 0, sizeof(v));
	if (plan->text_outputs)
		mw_guard_judge(policy, MW_FROM_OUTPUT, o.s, o.len, &v);
	for (i = 0; i < plan->nothers; i++)
	{
		const MwGuard *g = &policy->guards[plan->others[i]];
		int			from,
					to;

		if (g->kind != MW_GUARD_CHECK || !(g->sources & (1 << MW_FROM_OUTPUT)))
			continue;
		for (k = 0; k < (int) lengthof(checks); k++)
			if (strcmp(g->guard, checks[k].name) == 0 && checks[k].check(&o, &from, &to))
				mw_verdict_add(policy, MW_FROM_OUTPUT, &v, g, from, to, 1);
	}
	mw_guard_ask(call, MW_FROM_OUTPUT, o.s, o.len, &v);
	if (v.nhits > 0)
	{
		mw_guard_count(policy, MW_FROM_OUTPUT, &v);
		if (v.verdict == MW_GUARD_BLOCK && !mw_guard_ends(call))
			refuse(call, &v, &o);
		if (v.verdict == MW_GUARD_LOG && !call->guard_logged)
		{
			call->guard_logged = true;
			call->notices = lappend(call->notices,
									psprintf("guard \"%s\" (category %s) matched in the answer and is in mode log",
											 v.hits[0].guard->guard, v.hits[0].guard->category));
		}
	}
	MemoryContextSwitchTo(old);
}
