/*
 * pii.c - the middleware that takes one type of personal data out of messages,
 * as LangChain's does.
 *
 * Before a model call it looks at the user's newest message and at the results
 * of tools since the last answer, after one at the answer, each by option.  The
 * message is replaced by one with other text; its id, calls and status stay.
 *
 * Where the redact stage is on, which sees every text before it reaches the
 * thread, an agent's entries are the stage's strategies for their types
 * (mw_pii_tighten), and what is left for the hooks is what only LangChain's
 * detectors find.
 */
#include "mw.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include <math.h>

#include "agent/pii.h"
#include "agent/registry.h"
#include "policy/redaction.h"
#include "policy/rules.h"
#include "stage/redact.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/regex.h"

typedef enum Strategy
{
	REDACT, MASK, HASH, BLOCK
} Strategy;

static const char *const strategies[] = {"redact", "mask", "hash", "block", NULL};

typedef struct Pii
{
	const char *type;
	Strategy	strategy;
	MwDetector	detect;			/* one of these three */
	const char *pattern;
	const char *function;
	bool		input;
	bool		output;
	bool		results;
} Pii;

static const char *const option_names[] = {
	"apply_to_input", "apply_to_output", "apply_to_tool_results", "detector", "pii_type", "strategy", "stream_lookback", NULL
};

/* ---------- options ---------- */

static void
read_detector(MwMiddleware *m, Jsonb *options, Pii *c)
{
	JsonbValue *v = mw_json_get(options, "detector");
	char	   *why = NULL;

	c->function = mw_opt_function(m, options, "detector");
	if (c->function != NULL)
		return;
	if (v == NULL)
	{
		c->detect = mw_detector_find(c->type);
		if (c->detect == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("unknown pii_type \"%s\" of middleware \"pii\"", c->type),
					 errhint("Known: email, credit_card, ip, mac_address, url. A type of your own needs a \"detector\", a regular expression or {\"function\": \"schema.name\"}.")));
		return;
	}
	if (v->type != jbvString)
		mw_opt_wrong(m, "detector", "a regular expression or {\"function\": \"schema.name\"}");
	c->pattern = mw_value_string(v);
	if (mw_regex_get(c->pattern, 0, &why) == NULL)
		mw_opt_wrong(m, "detector", psprintf("a regular expression; this one is wrong: %s", why));
}

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	Pii		   *c = palloc0(sizeof(Pii));

	m->conf = c;
	c->type = mw_opt_text(m, options, "pii_type", NULL);
	if (c->type == NULL || c->type[0] == '\0')
		mw_opt_wrong(m, "pii_type", "given: email, credit_card, ip, mac_address, url, or a name for what \"detector\" finds");
	/* one entry a type, unless they have names */
	if (m->name == m->kind->type)
		m->name = psprintf("pii[%s]", c->type);
	c->strategy = (Strategy) mw_opt_choice(m, options, "strategy", REDACT, strategies);
	read_detector(m, options, c);
	c->input = mw_opt_bool(m, options, "apply_to_input", true);
	c->output = mw_opt_bool(m, options, "apply_to_output", false);
	c->results = mw_opt_bool(m, options, "apply_to_tool_results", false);
	/* how much of a stream LangChain holds back; mw hands out no text before the hooks have seen all of it */
	(void) mw_opt_int(m, options, "stream_lookback", 128, 0, PG_INT32_MAX);
}

/* ---------- finding ---------- */

#define bad_detector(c, why) \
	ereport(ERROR, \
			(errcode(ERRCODE_MW_HOOK_FAILED), \
			 errmsg("the detector of pii type \"%s\" returned what it may not", (c)->type), \
			 errdetail("%s It must return a JSON array of objects with \"start\" and \"end\", characters of the text it was given, half-open.", why), \
			 errhint("Such as [{\"start\": 0, \"end\": 5}].")))

/* The byte at which a character stands that a hit names, counting on from the last one */
static int
place_of(const Pii *c, Jsonb *hit, const char *key, const char *s, int len, int *chars, int *byte)
{
	JsonbValue *v = mw_json_get(hit, key);
	double		n = v == NULL || v->type != jbvNumeric ? NAN :
		DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));

	if (!(n >= 0 && n <= (double) len) || n != floor(n))
		bad_detector(c, "A start or end is no place in the text.");
	if (n < *chars)
		*chars = *byte = 0;
	while (*chars < (int) n && *byte < len)
	{
		*byte += pg_utf_mblen((const unsigned char *) s + *byte);
		(*chars)++;
	}
	if (*chars != (int) n)
		bad_detector(c, "A start or end is no place in the text.");
	return *byte;
}

static int
by_place(const ListCell *a, const ListCell *b)
{
	return ((MwPiiHit *) lfirst(a))->from - ((MwPiiHit *) lfirst(b))->from;
}

static List *
ask_function(MwRun *run, const Pii *c, const char *s, int len)
{
	JsonbValue	text = {.type = jbvString, .val.string = {.val = unconstify(char *, s), .len = len}};
	Jsonb	   *answer = mw_option_call(run, c->function, JsonbValueToJsonb(&text), "option \"detector\"");
	List	   *hits = NIL;
	int			chars = 0;
	int			byte = 0;

	if (answer == NULL)
		return NIL;
	if (!mw_json_is_array(answer))
		bad_detector(c, "It is no array.");
	for (uint32 i = 0; i < JB_ROOT_COUNT(answer); i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(&answer->root, i);
		MwPiiHit   *hit = palloc0(sizeof(MwPiiHit));
		Jsonb	   *json;

		if (!mw_value_is_object(v))
			bad_detector(c, "An element is no object.");
		json = JsonbValueToJsonb(v);
		hit->type = mw_json_get_text(json, "type");
		if (hit->type == NULL)
			hit->type = c->type;
		hit->from = place_of(c, json, "start", s, len, &chars, &byte);
		hit->to = place_of(c, json, "end", s, len, &chars, &byte);
		if (hit->from > hit->to)
			bad_detector(c, "A hit ends before it starts.");
		hits = lappend(hits, hit);
	}
	list_sort(hits, by_place);
	return hits;
}

/* ---------- replacing ---------- */

/* What LangChain leaves of a value, by its type */
static void
masked(StringInfo buf, const char *type, const char *value, int len)
{
	if (strcmp(type, "email") == 0)
	{
		const char *at = memchr(value, '@', len);
		int			dot = len;

		while (dot > 0 && value[dot - 1] != '.')
			dot--;
		if (at == NULL || memchr(at + 1, '@', len - (at + 1 - value)) != NULL)
			appendStringInfoString(buf, "****");
		else if (value + dot > at)
			appendStringInfo(buf, "%.*s@****.%.*s", (int) (at - value), value, len - dot, value + dot);
		else
			appendStringInfo(buf, "%.*s@****", (int) (at - value), value);
	}
	else if (strcmp(type, "credit_card") == 0)
	{
		const char *between = memchr(value, '-', len) != NULL ? "-" : memchr(value, ' ', len) != NULL ? " " : "";
		char		last[5] = {0};
		int			n = 4;

		for (int i = len; i > 0 && n > 0; i--)
			if (value[i - 1] >= '0' && value[i - 1] <= '9')
				last[--n] = value[i - 1];
		appendStringInfo(buf, "****%s****%s****%s%s", between, between, between, last + n);
	}
	else if (strcmp(type, "ip") == 0)
	{
		int			dots = 0;
		int			last = 0;

		for (int i = 0; i < len; i++)
			if (value[i] == '.')
			{
				dots++;
				last = i + 1;
			}
		if (dots == 3)
			appendStringInfo(buf, "*.*.*.%.*s", len - last, value + last);
		else
			appendStringInfoString(buf, "****");
	}
	else if (strcmp(type, "mac_address") == 0)
	{
		char		between = memchr(value, ':', len) != NULL ? ':' : '-';

		for (int i = 0; i < 5; i++)
			appendStringInfo(buf, "**%c", between);
		appendStringInfo(buf, "%.*s", Min(len, 2), value + len - Min(len, 2));
	}
	else if (strcmp(type, "url") == 0)
		appendStringInfoString(buf, "[MASKED_URL]");
	else
	{
		int			chars = pg_mbstrlen_with_len(value, len);

		appendStringInfoString(buf, "****");
		if (chars > 4)
		{
			int			skipped = pg_mbcharcliplen(value, len, chars - 4);

			appendBinaryStringInfo(buf, value + skipped, len - skipped);
		}
	}
}

/* Equal values of a tenant have equal digits, and nobody can find a value by trying, which LangChain's plain SHA-256 allows */
static char *
digits_of(MwRun *run, const char *type, const char *value, int len)
{
	MwHash		h;
	MwKey		key;
	char	   *hex;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "pii middleware");
	mw_hash_text(&h, run->tenant);
	mw_hash_text(&h, type);
	mw_hash_part(&h, value, len);
	key = mw_hash_end(&h);
	hex = mw_key_hex(&key);
	hex[8] = '\0';
	return hex;
}

static char *
upper_case(const char *s)
{
	char	   *out = pstrdup(s);

	for (char *p = out; *p; p++)
		if (*p >= 'a' && *p <= 'z')
			*p -= 'a' - 'A';
	return out;
}

/* The text without what was found; NULL where nothing was.  MW201 for strategy block. */
static char *
cleaned(MwRun *run, const Pii *c, const char *s, int len)
{
	List	   *hits = c->detect != NULL ? c->detect(s, len) :
		c->pattern != NULL ? mw_detect_pattern(c->pattern, c->type, s, len) : ask_function(run, c, s, len);
	StringInfoData buf;
	int			at = 0;
	ListCell   *lc;

	if (hits == NIL)
		return NULL;
	if (c->strategy == BLOCK)
		ereport(ERROR,
				(errcode(ERRCODE_MW_PII_REFUSED),
				 errmsg("Detected %d instance(s) of %s in text content", list_length(hits), ((MwPiiHit *) linitial(hits))->type),
				 errhint("The agent's middleware \"pii[%s]\" refuses it: take it out of the text.", c->type)));
	initStringInfo(&buf);
	foreach(lc, hits)
	{
		MwPiiHit   *hit = lfirst(lc);
		int			from = Max(hit->from, at);	/* hits of a function may overlap: what is left of this one */

		if (hit->to <= from && hit->to > hit->from)
			continue;
		appendBinaryStringInfo(&buf, s + at, from - at);
		if (c->strategy == REDACT)
			appendStringInfo(&buf, "[REDACTED_%s]", upper_case(hit->type));
		else if (c->strategy == MASK)
			masked(&buf, hit->type, s + from, hit->to - from);
		else
			appendStringInfo(&buf, "<%s_hash:%s>", hit->type, digits_of(run, hit->type, s + from, hit->to - from));
		at = hit->to;
	}
	appendBinaryStringInfo(&buf, s + at, len - at);
	return buf.data;
}

/* A content of parts whose texts are clean; NULL where they were */
static Jsonb *
cleaned_parts(MwRun *run, const Pii *c, JsonbContainer *parts)
{
	JsonbParseState *st = NULL;
	bool		changed = false;

	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	for (uint32 i = 0; i < JsonContainerSize(parts); i++)
	{
		JsonbValue *part = getIthJsonbValueFromContainer(parts, i);
		Jsonb	   *json = JsonbValueToJsonb(part);
		JsonbValue *text = mw_json_get(json, "text");
		char	   *clean = text != NULL && text->type == jbvString ?
			cleaned(run, c, mw_value_string(text), text->val.string.len) : NULL;
		JsonbValue	v = {.type = jbvBinary};

		if (clean != NULL)
		{
			JsonbParseState *one = NULL;

			pushJsonbValue(&one, WJB_BEGIN_OBJECT, NULL);
			push_member(&one, "text", clean);
			json = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(json),
													  JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&one, WJB_END_OBJECT, NULL)))));
			changed = true;
		}
		v.val.binary.data = &json->root;
		v.val.binary.len = VARSIZE(json) - VARHDRSZ;
		pushJsonbValue(&st, WJB_ELEM, &v);
	}
	return changed ? JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_ARRAY, NULL)) : NULL;
}

/* Put a clean copy of a message into the patch, which is made where it is the first */
static void
clean(MwRun *run, const Pii *c, const MwMsg *msg, MwPatch **patch)
{
	JsonbValue *content = mw_json_get(msg->json, "content");
	MwMsg	   *copy = NULL;

	if (mw_value_is_array(content))
	{
		Jsonb	   *parts = cleaned_parts(run, c, content->val.binary.data);
		JsonbValue	v = {.type = jbvBinary};

		if (parts == NULL)
			return;
		v.val.binary.data = &parts->root;
		v.val.binary.len = VARSIZE(parts) - VARHDRSZ;
		copy = mw_msg_with_content(run, msg, &v);
	}
	else
	{
		char	   *text = cleaned(run, c, msg->text, strlen(msg->text));

		if (text == NULL)
			return;
		copy = mw_msg_with_text(run, msg, text);
	}
	if (*patch == NULL)
		*patch = mw_patch_new();
	mw_patch_put(*patch, copy);
}

/* ---------- hooks ---------- */

static MwPatch *
before_model(MwRun *run, MwMiddleware *m)
{
	const Pii  *c = m->conf;
	MwPatch    *patch = NULL;
	int			at;

	if (c->input && (at = mw_msgs_last(run->msgs, "user")) >= 0)
		clean(run, c, list_nth(run->msgs, at), &patch);
	if (c->results && (at = mw_msgs_last(run->msgs, "assistant")) >= 0)
	{
		while (++at < list_length(run->msgs))
			if (mw_msg_is(list_nth(run->msgs, at), "tool"))
				clean(run, c, list_nth(run->msgs, at), &patch);
	}
	return patch;
}

static MwPatch *
after_model(MwRun *run, MwMiddleware *m)
{
	const Pii  *c = m->conf;
	MwPatch    *patch = NULL;
	int			at;

	if (c->output && (at = mw_msgs_last(run->msgs, "assistant")) >= 0)
		clean(run, c, list_nth(run->msgs, at), &patch);
	return patch;
}

const MwMiddlewareType mw_pii = {
	.type = "pii",
	.options = option_names,
	.read = read_options,
	.before_model = before_model,
	.after_model = after_model,
};

/* ---------- the redact stage ---------- */

static MwStrategy
stage_strategy(Strategy strategy)
{
	static const MwStrategy of[] = {
		[REDACT] = MW_STRATEGY_REDACT, [MASK] = MW_STRATEGY_MASK, [HASH] = MW_STRATEGY_HASH, [BLOCK] = MW_STRATEGY_BLOCK
	};

	return of[strategy];
}

/* Whether a recogniser of the stage can bear this type's name */
static bool
is_stage_type(const char *type)
{
	return strlen(type) <= MW_TYPE_MAX && type[0] >= 'A' && type[0] <= 'Z' &&
		strspn(type, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(type);
}

/* Whether an entry is the stage's too: what is asked of answers alone is not asked of what a user says */
static const Pii *
of_stage(const MwMiddleware *m)
{
	const Pii  *c = m->conf;

	return m->kind == &mw_pii && (c->input || c->results) ? c : NULL;
}

const MwPolicy *
mw_pii_tighten(const MwPolicy *policy, const MwAgent *agent)
{
	const MwPolicy *kept;
	MwPolicy   *own;
	MwRecognizer *recs;
	MwHash		h;
	MwKey		version;
	bool		any = false;

	mw_hash_start(&h, NULL);
	mw_hash_part(&h, policy->version, sizeof(policy->version));
	for (int i = 0; i < agent->nmiddleware; i++)
	{
		const Pii  *c = of_stage(agent->middleware[i]);

		if (c == NULL)
			continue;
		any = true;
		mw_hash_text(&h, c->type);
		mw_hash_text(&h, c->pattern);
		mw_hash_text(&h, strategies[c->strategy]);
	}
	if (!any)
		return policy;
	version = mw_hash_end(&h);
	if ((kept = mw_policy_variant(policy, &version)) != NULL)
		return kept;

	own = mw_policy_copy(policy, &version, agent->nmiddleware, &recs);
	for (int i = 0; i < agent->nmiddleware; i++)
	{
		const Pii  *c = of_stage(agent->middleware[i]);
		MwStrategy	strategy;
		char	   *type;

		if (c == NULL)
			continue;
		type = mw_pii_type_name(c->type);
		strategy = stage_strategy(c->strategy);
		for (int r = 0; r < own->nrecognizers; r++)
		{
			MwRecognizer *rec = &recs[r];

			if (strcmp(rec->type, type) != 0)
				continue;
			rec->demanded = true;
			rec->strategy = Max(rec->strategy, strategy);
			strategy = rec->strategy;
		}
		if (c->pattern != NULL && is_stage_type(type))
			recs[own->nrecognizers++] = (MwRecognizer) {
				.type = type, .pattern = c->pattern, .strategy = strategy, .own = true
			};
	}
	return mw_policy_keep(policy, own);
}
