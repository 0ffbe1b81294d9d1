/*
 * guardrail.c - the stage: what of a call is judged, and what a verdict does.
 *
 * Judged is what the caller gave: user, assistant and tool messages.  System
 * text is the operator's and never judged, and what a model said in a thread is
 * judged once, when it says it: an answer that quotes an attack must not have
 * every later turn refused.  A document that mw_wrap_document
 * wrapped is judged by itself, against the threshold of documents, and what
 * stands around it as the user's.  First what the text alone decides (judge.c),
 * then functions and models (guard_ask.c), which are asked of nothing that is
 * refused already.  User texts are wrapped as data, in a helper's prompt that part
 * alone which quotes the conversation.  On the way back the answer loses
 * what it repeats of those tags, and is judged too (guard_output.c), a hit's
 * like a new one.
 *
 * An error names the guard, its category and where it matched, never the text.
 */
#include "postgres.h"

#include <math.h>

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "stage/guardrail.h"
#include "stage/stages.h"
#include "util/faults.h"
#include "util/json.h"

static const char *const source_names[] = {"user", "tool", "document", "output"};

/* ---------- messages ---------- */

/* The text of a message that is judged; NULL for none. */
static char *
judged_text(const MwMessage *m, int *len)
{
	char	   *s;

	if (m->json == NULL)
	{
		*len = m->len;
		return m->text;
	}
	s = mw_json_content_text(mw_json_get(m->json, "content"));
	*len = s ? strlen(s) : 0;
	return s;
}

static char *
wrap_leaf(char *s, int len, int *newlen, const MwJsonPlace *pl, void *arg)
{
	/* the content itself, or the "text" of its parts */
	if (!pl->is_key && pl->path[0] && strcmp(pl->path[0], "content") == 0 &&
		(pl->depth == 1 || (pl->depth == 2 && pl->path[1] == NULL) ||
		 (pl->depth == 3 && pl->path[1] == NULL && pl->path[2] && strcmp(pl->path[2], "text") == 0)))
		return mw_guard_wrap(s, len, newlen);
	*newlen = len;
	return s;
}

static void
wrap_message(MwMessage *m)
{
	if (m->json)
		m->json = mw_json_map(m->json, 0, wrap_leaf, NULL);
	else if (m->text)
		m->text = mw_guard_wrap(m->text, m->len, &m->len);
}

static bool
is_judged(const MwMessage *m)
{
	return m->from_caller && !m->developers && !m->answered && strcmp(m->role, "system") != 0 && strcmp(m->role, "developer") != 0;
}

/* ---------- judging a message ---------- */

/* The heaviest hit: what the error names */
static const MwGuardHit *
heaviest(const MwVerdict *v)
{
	const MwGuardHit *best = &v->hits[0];
	int			i;

	for (i = 1; i < v->nhits; i++)
		if (v->hits[i].guard->weight > best->guard->weight)
			best = &v->hits[i];
	return best;
}

/* What a text was found to be, worst part first seen; spans are of the whole text */
typedef struct Judged
{
	MwVerdict	v;
	MwGuardSource source;
	const char *s;				/* the whole text */
	const char *part;			/* what was judged of it */
	int			partlen;
	const char *role;
} Judged;

static void
judge_part(MwCall *call, MwGuardSource source, const char *s, int len, MwVerdict *v)
{
	mw_guard_judge(call->policy, source, s, len, v);
	mw_guard_ask(call, source, s, len, v);
	if (v->nhits > 0)
		mw_guard_count(call->policy, source, v);
}

static void
keep_worst(Judged *worst, const MwVerdict *v, MwGuardSource source, const char *s, const char *part, int partlen)
{
	if (v->verdict < worst->v.verdict || (v->verdict == worst->v.verdict && v->score <= worst->v.score))
		return;
	worst->v = *v;
	worst->source = source;
	worst->s = s;
	worst->part = part;
	worst->partlen = partlen;
}

/*
 * A user's text that holds documents: they by themselves, the rest as one text
 * in which each is a line break.
 */
static void
judge_parts(MwCall *call, const char *s, int len, Judged *worst)
{
	char	   *rest = palloc(len + 1);
	int		   *origin = palloc(sizeof(int) * (len + 1));
	int			n = 0;
	int			done = 0;
	int			at = 0;
	int			begin,
				from,
				to;
	MwVerdict	v;
	int			i;

	while (mw_document_next(s, len, &at, &begin, &from, &to))
	{
		judge_part(call, MW_FROM_DOCUMENT, s + from, to - from, &v);
		for (i = 0; i < v.nhits; i++)
		{
			v.hits[i].from += from;
			v.hits[i].to += from;
		}
		keep_worst(worst, &v, MW_FROM_DOCUMENT, s, s + from, to - from);
		for (; done < begin; done++)
		{
			origin[n] = done;
			rest[n++] = s[done];
		}
		origin[n] = begin;
		rest[n++] = '\n';
		done = at;
	}
	for (; done < len; done++)
	{
		origin[n] = done;
		rest[n++] = s[done];
	}
	rest[n] = '\0';
	origin[n] = len;
	judge_part(call, MW_FROM_USER, rest, n, &v);
	for (i = 0; i < v.nhits; i++)
	{
		v.hits[i].from = origin[v.hits[i].from];
		v.hits[i].to = origin[v.hits[i].to];
	}
	keep_worst(worst, &v, MW_FROM_USER, s, rest, n);
}

static void
judge_message(MwCall *call, const MwMessage *m, Judged *worst)
{
	bool		tool = strcmp(m->role, "tool") == 0;
	int			len;
	char	   *s = judged_text(m, &len);
	MwVerdict	v;
	int			at = 0;
	int			begin,
				from,
				to;

	memset(worst, 0, sizeof(*worst));
	worst->role = m->role;
	if (s == NULL || len == 0)
		return;
	if (!tool && mw_document_next(s, len, &at, &begin, &from, &to))
	{
		judge_parts(call, s, len, worst);
		return;
	}
	judge_part(call, tool ? MW_FROM_TOOL : MW_FROM_USER, s, len, &v);
	keep_worst(worst, &v, tool ? MW_FROM_TOOL : MW_FROM_USER, s, s, len);
}

static _Noreturn void
refuse(MwCall *call, const Judged *j)
{
	const MwGuardHit *h = heaviest(&j->v);
	const MwGuard *g = h->guard;
	int			from = pg_mbstrlen_with_len(j->s, h->from);
	int			to = from + pg_mbstrlen_with_len(j->s + h->from, h->to - h->from);

	ereport(ERROR,
			(errcode(ERRCODE_MW_GUARD_REFUSED),
			 errmsg("the guardrail refused the text"),
			 errdetail("Guard \"%s\" (category %s) matched in a %s message%s, characters %d to %d after redaction; score %.2f of %.2f, %d in all.",
					   g->guard, g->category, j->role, j->source == MW_FROM_DOCUMENT ? "'s document" : "",
					   from, to, j->v.score, call->policy->guard_threshold[j->source], j->v.nhits),
			 errhint("Rephrase the text. Whether this guard blocks or only logs is an administrator's decision: "
					 "SELECT mw_alter_guard(%s, '{\"mode\": \"log\"}'%s%s);",
					 quote_literal_cstr(g->guard),
					 g->own ? ", " : "", g->own ? quote_literal_cstr(call->tenant) : "")));
}

bool
mw_guard_ends(MwCall *call)
{
	if (call->policy->guardrail_end == NULL || call->run != NULL)
		return false;
	mw_call_end(call, call->policy->guardrail_end, "guardrail");
	return true;
}

/* Messages that came in pieces are whole again */
static void
join_pieces(MwCall *call)
{
	int			n = 0;

	for (int i = 0; i < call->nmessages; i++)
	{
		MwMessage  *m = &call->messages[i];
		MwMessage  *whole;
		char	   *text;

		if (!m->joins)
		{
			call->messages[n++] = *m;
			continue;
		}
		whole = &call->messages[n - 1];
		text = palloc(whole->len + m->len + 1);
		memcpy(text, whole->text, whole->len);
		memcpy(text + whole->len, m->text, m->len);
		text[whole->len + m->len] = '\0';
		whole->text = text;
		whole->len += m->len;
	}
	call->nmessages = n;
}

/*
 * Judge and wrap all messages; a block is an error, or the run's end, where it
 * is to be raised.  *worst receives the worst of them.
 */
static void
guard_all(MwCall *call, bool raise, Judged *worst)
{
	int			i;

	memset(worst, 0, sizeof(*worst));
	for (i = 0; i < call->nmessages; i++)
	{
		MwMessage  *m = &call->messages[i];
		Judged		j;

		if (!is_judged(m))
			continue;
		judge_message(call, m, &j);
		if (j.v.verdict > worst->v.verdict || (j.v.verdict == worst->v.verdict && j.v.score > worst->v.score))
			*worst = j;
		if (j.v.verdict == MW_GUARD_BLOCK && raise)
		{
			if (mw_guard_ends(call))
				return;
			refuse(call, &j);
		}
		if (j.v.verdict == MW_GUARD_LOG && !call->guard_logged)
		{
			const MwGuard *g = heaviest(&j.v)->guard;

			call->notices = lappend(call->notices,
									psprintf("guard \"%s\" (category %s) matched and is in mode log",
											 g->guard, g->category));
			call->guard_logged = true;
		}
		if (strcmp(m->role, "user") == 0)
			wrap_message(m);
	}
}

/* mw_guardrail_run refuses or wraps, goes on, and judges what comes back. */
void
mw_guardrail_run(MwCall *call)
{
	MemoryContext old = MemoryContextSwitchTo(call->cxt);
	Judged		worst;

	if (call->guardrail)
		guard_all(call, true, &worst);
	join_pieces(call);
	MemoryContextSwitchTo(old);
	if (call->ended_by != NULL)
		return;
	mw_fault("guard");
	mw_next(call);
	if (!call->guardrail)
		return;
	MemoryContextSwitchTo(call->cxt);
	if (call->answer != NULL && call->answer->text != NULL)
		call->answer->text = mw_guard_unwrap(call->answer->text, call->answer->len, &call->answer->len);
	MemoryContextSwitchTo(old);
	mw_guard_output(call);
}

/* ---------- explaining ---------- */

static void
push_text(JsonbParseState **st, JsonbIteratorToken as, const char *t, int len)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, t);
	v.val.string.len = len;
	pushJsonbValue(st, as, &v);
}

static void
push_member(JsonbParseState **st, const char *key, const char *t)
{
	push_text(st, WJB_KEY, key, strlen(key));
	push_text(st, WJB_VALUE, t, strlen(t));
}

static void
push_number(JsonbParseState **st, const char *key, double d)
{
	JsonbValue	v;

	push_text(st, WJB_KEY, key, strlen(key));
	v.type = jbvNumeric;
	v.val.numeric = DatumGetNumeric(DirectFunctionCall1(float8_numeric, Float8GetDatum(d)));
	pushJsonbValue(st, WJB_VALUE, &v);
}

/* mw_verdict_push writes score and hits as members of an object; part: what was judged, for the classifier's reasons. */
void
mw_verdict_push(JsonbParseState **st, const MwVerdict *v, const char *s, const char *part, int partlen)
{
	int			byte = 0;
	int			chars = 0;
	int			i;

	push_number(st, "score", v->score);
	push_text(st, WJB_KEY, "hits", 4);
	pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
	for (i = 0; i < v->nhits; i++)
	{
		const MwGuardHit *h = &v->hits[i];

		if (h->from < byte)
			byte = chars = 0;
		chars += pg_mbstrlen_with_len(s + byte, h->from - byte);
		byte = h->from;
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "guard", h->guard->guard);
		push_member(st, "category", h->guard->category);
		push_number(st, "start", chars);
		push_number(st, "end", chars + pg_mbstrlen_with_len(s + h->from, h->to - h->from));
		if (h->guard->kind == MW_GUARD_LEARNED)
		{
			MwView		view;

			push_number(st, "score", floor(h->score * 1000 + 0.5) / 1000);
			mw_normalise(part, partlen, &view);
			push_member(st, "why", mw_learned_why(&view));
		}
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(st, WJB_END_ARRAY, NULL);
}

/* mw_guardrail_explain shows what run would do. */
void
mw_guardrail_explain(MwCall *call, MwExplain *out)
{
	static const char *const verdicts[] = {"pass", "log", "block"};
	MemoryContext old = MemoryContextSwitchTo(call->cxt);
	JsonbParseState *st = NULL;
	Judged		worst;

	out->verdict = "off";
	memset(&worst, 0, sizeof(worst));
	if (call->guardrail)
	{
		guard_all(call, false, &worst);
		out->verdict = verdicts[worst.v.verdict];
		out->stop = worst.v.verdict == MW_GUARD_BLOCK;
	}
	join_pieces(call);

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	mw_verdict_push(&st, &worst.v, worst.s, worst.part, worst.partlen);
	if (worst.v.nhits > 0)
	{
		MwView		view;

		/* what the patterns saw, to whoever gave the text */
		mw_normalise(worst.part, worst.partlen, &view);
		push_member(&st, "source", source_names[worst.source]);
		push_number(&st, "threshold", call->policy->guard_threshold[worst.source]);
		push_text(&st, WJB_KEY, "normalised", 10);
		push_text(&st, WJB_VALUE, view.s, view.len);
	}
	out->detail = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	if (call->nmessages > 0)
	{
		int			len;
		char	   *s = judged_text(&call->messages[call->nmessages - 1], &len);

		out->next = s ? pnstrdup(s, len) : NULL;
	}
	MemoryContextSwitchTo(old);
}
