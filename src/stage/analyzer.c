/*
 * analyzer.c - recognisers that are a Presidio analyzer: names, addresses and
 * organisations, by a model of language that runs beside the database.
 *
 * Of a call all texts go in one request a server and language, whatever the number
 * of recognisers that ask it; what it found is kept with the call and looked up when a
 * text is searched.  A text that was not collected (an answer, mw_redact's input) is
 * asked about alone.  Only texts with a letter in them are sent.
 *
 * The request goes through the gateway, which is the only process with a network,
 * and is no model's: it reserves, costs and records nothing.  It holds what is
 * personal in clear; that is what the server is for, and why a superuser names its
 * address.  Places come back in characters.
 *
 * A server that does not answer in its time, or answers what cannot be understood,
 * is an error, as for every recogniser: what was not looked at does not pass.  Where
 * the recogniser says "skip", the call goes on and says so.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "gateway/transport.h"
#include "policy/server.h"
#include "provider/presidio.h"
#include "stage/detect.h"
#include "util/json.h"
#include "util/names.h"

#define ATTEMPTS	2			/* asking twice costs nothing, and a kept connection may have died */

typedef struct Place
{
	int			from,
				to;				/* bytes */
	const char *entity;
	double		score;
	const char *server;			/* which of the policy's */
	const char *language;
} Place;

typedef struct Analysed
{
	uint64		hash;			/* must be first */
	const char *s;
	int			len;
	Place	   *places;
	int			n;
	int			cap;
} Analysed;

typedef struct MwAnalyses
{
	MemoryContext cxt;
	HTAB	   *texts;			/* of Analysed */
	Analysed  **in_order;
	int			n;
	int			cap;
} MwAnalyses;

static bool
in_use(const MwRecognizer *rec)
{
	return rec->analyzer != NULL && (!rec->on_demand || rec->demanded);
}

MwAnalyses *
mw_analyses_start(MemoryContext cxt)
{
	MwAnalyses *a = MemoryContextAllocZero(cxt, sizeof(MwAnalyses));
	HASHCTL		ctl = {.keysize = sizeof(uint64), .entrysize = sizeof(Analysed), .hcxt = cxt};

	a->cxt = cxt;
	a->texts = hash_create("mw analyses", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return a;
}

static bool
has_letter(const char *s, int len)
{
	for (int i = 0; i < len; i++)
		if ((unsigned char) ((s[i] | 0x20) - 'a') < 26 || (unsigned char) s[i] >= 0x80)
			return true;
	return false;
}

/* What was said of a text; NULL where it was not asked about */
static Analysed *
look_up(const MwAnalyses *a, const char *s, int len)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) s, len, 0);
	Analysed   *t = hash_search(a->texts, &hash, HASH_FIND, NULL);

	return t && t->len == len && memcmp(t->s, s, len) == 0 ? t : NULL;
}

void
mw_analyses_text(MwAnalyses *a, const char *s, int len)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) s, len, 0);
	Analysed   *t;
	bool		found;

	if (!has_letter(s, len))
		return;
	t = hash_search(a->texts, &hash, HASH_ENTER, &found);
	if (found)
		return;					/* the same, or one of another text's hash, which is asked about alone */
	t->s = s;
	t->len = len;
	t->places = NULL;
	t->n = t->cap = 0;
	if (a->n == a->cap)
	{
		a->cap = Max(16, a->cap * 2);
		a->in_order = a->in_order ? repalloc_huge(a->in_order, sizeof(Analysed *) * a->cap) :
			MemoryContextAllocHuge(a->cxt, sizeof(Analysed *) * a->cap);
	}
	a->in_order[a->n++] = t;
}

/* ---------- answers ---------- */

static bool
get_number(Jsonb *jb, const char *key, double *number)
{
	JsonbValue *v = mw_json_get(jb, key);

	if (v == NULL || v->type != jbvNumeric)
		return false;
	*number = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));
	return true;
}

/* The byte at which a character begins, counting on from where the last count ended; -1 beyond the end */
static int
byte_of(const Analysed *t, double want, int *chars, int *byte)
{
	if (!(want >= 0 && want <= t->len) || want != floor(want))
		return -1;
	if (want < *chars)
		*chars = *byte = 0;
	while (*chars < want && *byte < t->len)
	{
		*byte += pg_utf_mblen((const unsigned char *) t->s + *byte);
		(*chars)++;
	}
	return *chars == want ? *byte : -1;
}

/* What was found in one text; false where it cannot be understood */
static bool
read_places(MwAnalyses *a, Analysed *t, Jsonb *list, const MwAnalyzer *who)
{
	MwJsonEach	each;
	int			chars = 0,
				byte = 0;

	if (list == NULL || !mw_json_is_array(list))
		return false;
	each = mw_json_each(&list->root);
	while (mw_json_next(&each))
	{
		Jsonb	   *found;
		Place		p;
		double		start,
					end;

		CHECK_FOR_INTERRUPTS();
		if (!mw_value_is_object(&each.value))
			return false;
		found = JsonbValueToJsonb(&each.value);
		p.entity = mw_json_get_text(found, "entity_type");
		if (p.entity == NULL || !get_number(found, "start", &start) || !get_number(found, "end", &end) ||
			!get_number(found, "score", &p.score))
			return false;
		p.from = byte_of(t, start, &chars, &byte);
		p.to = byte_of(t, end, &chars, &byte);
		if (p.from < 0 || p.to <= p.from)
			return false;
		p.server = who->server;
		p.language = who->language;
		if (t->n == t->cap)
		{
			t->cap = Max(4, t->cap * 2);
			t->places = t->places ? repalloc(t->places, sizeof(Place) * t->cap) : MemoryContextAlloc(a->cxt, sizeof(Place) * t->cap);
		}
		t->places[t->n++] = p;
	}
	return true;
}

/* A list a text, in their order */
static bool
read_answer(MwAnalyses *a, const char *body, int len, const MwAnalyzer *who)
{
	Jsonb	   *answer = mw_json_parse(body, len, NULL);
	MwJsonEach	each;
	int			i = 0;

	if (a->n == 1)
		return read_places(a, a->in_order[0], answer, who);
	if (answer == NULL || !mw_json_is_array(answer))
		return false;
	each = mw_json_each(&answer->root);
	while (mw_json_next(&each))
	{
		if (i == a->n || each.value.type != jbvBinary || !read_places(a, a->in_order[i], JsonbValueToJsonb(&each.value), who))
			return false;
		i++;
	}
	return i == a->n;
}

/* ---------- asking ---------- */

/* Recognisers that one request serves */
static bool
same_request(const MwAnalyzer *a, const MwAnalyzer *b)
{
	return strcmp(a->server, b->server) == 0 && strcmp(a->language, b->language) == 0;
}

/* Those of a policy that the one at "first" asks for, too; NULL where an earlier one has asked */
typedef struct Group
{
	List	   *entities;		/* of char * */
	List	   *types;			/* of char *, for messages */
	double		least_score;
	int			timeout_ms;
	bool		skip;			/* all of them do */
} Group;

static bool
make_group(const MwPolicy *policy, int first, Group *g)
{
	const MwAnalyzer *who = policy->recognizers[first].analyzer;

	memset(g, 0, sizeof(*g));
	g->least_score = 1;
	g->skip = true;
	for (int i = 0; i < policy->nrecognizers; i++)
	{
		const MwRecognizer *rec = &policy->recognizers[i];
		ListCell   *lc;

		if (!in_use(rec) || !same_request(rec->analyzer, who))
			continue;
		if (i < first)
			return false;
		foreach(lc, rec->analyzer->entities)
		{
			ListCell   *known;
			bool		there = false;

			foreach(known, g->entities)
				there |= strcmp(lfirst(known), lfirst(lc)) == 0;
			if (!there)
				g->entities = lappend(g->entities, lfirst(lc));
		}
		g->types = lappend(g->types, unconstify(char *, rec->type));
		g->least_score = Min(g->least_score, rec->analyzer->score_threshold);
		g->timeout_ms = Max(g->timeout_ms, rec->analyzer->timeout_ms);
		g->skip &= rec->analyzer->skip;
	}
	return true;
}

static char *
listed(const List *names)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, names)
		appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "", (char *) lfirst(lc));
	return buf.data;
}

/* One request; NULL, or why nothing came of it */
static char *
ask_server(MwAnalyses *a, const MwServer *server, const MwAnalyzer *who, const Group *g, MwInstant deadline)
{
	MwPresidioText *texts = palloc_extended(sizeof(MwPresidioText) * a->n, MCXT_ALLOC_HUGE);
	StringInfoData body;
	char	   *why = NULL;

	for (int i = 0; i < a->n; i++)
		texts[i] = (MwPresidioText) {a->in_order[i]->s, a->in_order[i]->len};
	initStringInfo(&body);
	mw_presidio_encode(&body, texts, a->n, who->language, g->entities, g->least_score);
	for (int attempt = 1; attempt <= ATTEMPTS && !mw_passed(deadline); attempt++)
	{
		MwReply    *reply = mw_gateway_ask(server->oid, body.data, body.len, deadline);

		if (reply->kind == MW_OUTCOME_OK)
			return read_answer(a, reply->body, reply->body_len, who) ? NULL : pstrdup("its answer cannot be understood");
		why = reply->timed_out ? pstrdup("it did not answer in time") :
			reply->error ? reply->error : pstrdup("no answer came");
		if (reply->timed_out || (reply->http_status >= 400 && !mw_status_retryable(reply->http_status)))
			break;
	}
	return why ? why : pstrdup("no time was left");
}

void
mw_analyses_ask(MwAnalyses *a, const MwPolicy *policy, MwInstant deadline, List **notices)
{
	MemoryContext old = MemoryContextSwitchTo(a->cxt);

	for (int i = 0; i < policy->nrecognizers && a->n > 0; i++)
	{
		const MwRecognizer *rec = &policy->recognizers[i];
		const MwServer *server;
		MwInstant	until;
		Group		g;
		char	   *why;

		if (!in_use(rec) || !make_group(policy, i, &g))
			continue;
		server = mw_server_for_analyzer(rec->analyzer->server);
		until = mw_after_ms(g.timeout_ms);
		if (mw_ms_until(deadline) < mw_ms_until(until))
			until = deadline;
		why = ask_server(a, server, rec->analyzer, &g, until);
		if (why == NULL)
			continue;
		if (!g.skip)
			ereport(ERROR,
					(errcode(ERRCODE_MW_PROVIDER_FAILED),
					 errmsg("analyzer \"%s\" has not answered what is personal", server->name),
					 errdetail("%c%s. Types that it finds: %s. Nothing was sent to a model.", pg_toupper((unsigned char) why[0]), why + 1, listed(g.types)),
					 errhint("Its own log says more. To go on without it: SELECT mw_alter_recognizer(%s, '{\"on_error\": \"skip\"}', tenant); for each type.",
							 quote_literal_cstr(rec->type))));
		*notices = lappend(*notices, psprintf("analyzer \"%s\" has not answered (%s): %s %s not looked for", server->name, why, listed(g.types),
											  list_length(g.types) == 1 ? "was" : "were"));
	}
	MemoryContextSwitchTo(old);
}

/* ---------- finding ---------- */

static bool
finds(const MwRecognizer *rec, const Place *p)
{
	return p->score >= rec->analyzer->score_threshold && strcmp(p->server, rec->analyzer->server) == 0 &&
		strcmp(p->language, rec->analyzer->language) == 0 && mw_lists(rec->analyzer->entities, p->entity);
}

/* mw_analyses_find adds what servers found in the text that is searched. */
void
mw_analyses_find(MwSearch *q, const MwPolicy *policy)
{
	const Analysed *t;

	if (!mw_policy_analyzes(policy) || !has_letter(q->s, q->len))
		return;
	t = q->analyses ? look_up(q->analyses, q->s, q->len) : NULL;
	if (t == NULL)
	{
		MwAnalyses *a = mw_analyses_start(CurrentMemoryContext);
		List	   *notices = NIL;
		ListCell   *lc;

		mw_analyses_text(a, q->s, q->len);
		mw_analyses_ask(a, policy, mw_after_ms(MW_ANALYZER_MAX_MS), &notices);
		foreach(lc, notices)
			ereport(WARNING, (errmsg("%s", (char *) lfirst(lc)), errhidestmt(true), errhidecontext(true)));
		t = a->in_order[0];
	}
	for (int i = 0; i < policy->nrecognizers; i++)
		for (int k = 0; in_use(&policy->recognizers[i]) && k < t->n; k++)
			if (finds(&policy->recognizers[i], &t->places[k]))
				mw_found_add(q->found, t->places[k].from, t->places[k].to, &policy->recognizers[i]);
}
