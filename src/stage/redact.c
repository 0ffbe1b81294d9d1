/*
 * redact.c - the redact stage: no value past this point, placeholders only.
 *
 * A call's texts are redacted in two passes.  The first takes every placeholder
 * that stands literally in any of them out of use; only then is the first value
 * replaced, so that <EMAIL_0> typed in the last message cannot be the name of a
 * value in the first one.  Values go into call->map, which dies with the call;
 * call/result.c restores from it, last of all.
 *
 * Where a server finds types (analyzer.c) the first pass collects the texts that the
 * second will search, so that it is asked once.
 *
 * Where the session keeps a thread the map begins with what its earlier turns
 * issued, and what is new is stored (pii_session.c).  What comes in after a
 * placeholder was issued may hold it literally: that is a value of its own
 * (redact_text.c), unless it stands in a thread, which was redacted when it came in.
 *
 * Of a message in JSON every string leaf is redacted, keys too, and numbers
 * that are somebody's number; what makes it a message (role, ids, names of
 * tools and parts) is left alone.  Tools and the model's parameters leave for
 * the provider too: the texts in them are redacted but for the names of tools.
 * A value in an enum gets the placeholder that it has in the prompt, and comes
 * back restored in the arguments of a call.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "stage/redact.h"
#include "stage/stages.h"
#include "util/faults.h"
#include "util/json.h"
#include "util/names.h"

/* ---------- one message ---------- */

typedef struct LeafArg
{
	const MwPolicy *policy;		/* NULL: the first pass */
	MwPiiMap   *map;
	struct MwAnalyses *ask;		/* first pass: whom to give the text to, NULL for nobody */
} LeafArg;

static void
reserve(LeafArg *la, char *s, int len)
{
	mw_pii_reserve(la->map, s, len);
	if (la->ask)
		mw_analyses_text(la->ask, pnstrdup(s, len), len);
}

/* Whether a leaf makes the message what it is and must reach the provider as it came. */
static bool
structural(const MwJsonPlace *pl)
{
	static const char *const of_message[] = {"role", "id", "type", "tool_call_id", "name", "status", NULL};
	static const char *const of_part[] = {"type", NULL};
	static const char *const part_keys[] = {"type", "text", "id", "name", "args", "image_url", "input_audio", "file", "tool_use_id", NULL};
	static const char *const of_call[] = {"type", "id", "name", NULL};
	const char *key = pl->depth > 0 ? pl->path[Min(pl->depth, MW_JSON_MAX_DEPTH) - 1] : NULL;
	const char *top = pl->depth > 0 ? pl->path[0] : NULL;

	/* the words of our own format are no data */
	if (pl->is_key && pl->depth == 1)
		return true;
	if (key == NULL)
		return false;
	if (pl->depth == 1)
		return mw_one_of(key, of_message);
	if (top == NULL)
		return false;
	/* content[i].type, tool_calls[i].name, and the known keys of these objects themselves */
	if (pl->depth == 3 && pl->path[1] == NULL)
	{
		if (pl->is_key)
			return mw_one_of(key, part_keys);
		if (strcmp(top, "content") == 0)
			return mw_one_of(key, of_part);
		if (strcmp(top, "tool_calls") == 0 || strcmp(top, "invalid_tool_calls") == 0)
			return mw_one_of(key, of_call);
	}
	return false;
}

/*
 * A file in the text, data:TYPE;base64,BYTES and nothing else: base64 is not
 * searched, and a hit in it would break the file.  A text that only begins like
 * one ("data: name, mail") is a text.
 */
static bool
is_file(const char *s, int len)
{
	const char *comma;

	if (len < 13 || memcmp(s, "data:", 5) != 0)
		return false;
	comma = memchr(s, ',', Min(len, 128));
	if (comma == NULL || comma - s < 12 || memcmp(comma - 7, ";base64", 7) != 0)
		return false;
	for (const char *p = s + 5; p < comma - 7; p++)
	{
		/* a media type and its parameters; anything else may be somebody's */
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
			  strchr("/+-.;=_", *p) != NULL))
			return false;
	}
	for (const char *p = comma + 1; p < s + len; p++)
	{
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
			  *p == '+' || *p == '/' || *p == '=' || *p == '-' || *p == '_' || *p == '\n' || *p == '\r'))
			return false;
	}
	return true;
}

/* The key that a leaf is the value of, also as an element of a list: {"phones": ["..."]} */
static const char *
label_of(const MwJsonPlace *pl)
{
	/* names of where a text is, not of what it is */
	static const char *const places[] = {"content", "text", "args", "input", "output", "value", "data", "result", NULL};

	for (int i = Min(pl->depth, MW_JSON_MAX_DEPTH) - 1; i >= 0; i--)
		if (pl->path[i] != NULL)
			return mw_one_of(pl->path[i], places) ? NULL : pl->path[i];
	return NULL;
}

/* One text of a call's, which may come again */
static char *
redact_text(const MwPolicy *policy, MwPiiMap *map, char *s, int len, const char *label, int *newlen)
{
	int			n;
	MwSpan	   *spans = mw_pii_recall(policy, map->analyses, s, len, label, &n);

	return mw_redact_found(policy, map, s, len, spans, n, newlen, NULL, NULL);
}

static char *
leaf(char *s, int len, int *newlen, const MwJsonPlace *place, void *arg)
{
	LeafArg    *la = arg;
	const char *label = place->is_key ? NULL : label_of(place);

	*newlen = len;
	if (structural(place))
		return s;
	if (!place->is_key && is_file(s, len))
		return s;
	if (la->policy == NULL)
	{
		reserve(la, s, len);
		return s;
	}
	if (place->is_number)
	{
		MwSpan	   *sp;
		int			n;

		/* a number is replaced as a whole or not at all: 4242424242424242, never the 4242 of 4242.5 */
		sp = mw_pii_find_with(la->policy, la->map->analyses, s, len, label, &n);
		if (n != 1 || sp[0].from != 0 || sp[0].to != len)
			return s;
	}
	return redact_text(la->policy, la->map, s, len, label, newlen);
}

/* The texts of a tool's schema or of a parameter; NULL: reserve only, as in leaf() */
static char *
schema_leaf(char *s, int len, int *newlen, const MwJsonPlace *pl, void *arg)
{
	LeafArg    *la = arg;
	const char *key = pl->depth > 0 ? pl->path[Min(pl->depth, MW_JSON_MAX_DEPTH) - 1] : NULL;

	*newlen = len;
	/* our own words: [i].type, [i].function.name, tool_choice.function.name, and the keys down to there */
	if (pl->depth <= 3 && (pl->is_key || (key != NULL && (strcmp(key, "name") == 0 || strcmp(key, "type") == 0))))
		return s;
	if (la->policy == NULL)
	{
		reserve(la, s, len);
		return s;
	}
	return redact_text(la->policy, la->map, s, len, NULL, newlen);
}

/* One pass over tools or parameters */
static Jsonb *
redact_schema(const MwPolicy *policy, MwPiiMap *map, struct MwAnalyses *ask, Jsonb *json)
{
	LeafArg		la = {policy, map, ask};

	return json == NULL ? NULL : mw_json_map(json, MW_JSON_KEYS, schema_leaf, &la);
}

/* The first pass over a message */
static void
reserve_message(MwPiiMap *map, struct MwAnalyses *ask, MwMessage *msg)
{
	LeafArg		la = {NULL, map, ask};

	if (msg->json)
		(void) mw_json_map(msg->json, MW_JSON_KEYS, leaf, &la);
	else if (msg->text)
		reserve(&la, msg->text, msg->len);
}

/* And the second */
static void
redact_message(const MwPolicy *policy, MwPiiMap *map, MwMessage *msg)
{
	LeafArg		la = {policy, map, NULL};

	if (msg->json)
		msg->json = mw_json_map(msg->json, MW_JSON_KEYS | MW_JSON_NUMBERS, leaf, &la);
	else if (msg->text)
		msg->text = redact_text(policy, map, msg->text, msg->len, NULL, &msg->len);
}

/* ---------- files ---------- */

/* Images, sounds and files are not looked into: where the policy says so they do not pass. */
static void
refuse_files(const MwMessage *msg)
{
	static const char *const texts[] = {
		"text", "thinking", "redacted_thinking", "reasoning", "refusal", "tool_use", "tool_result", "input_text", "output_text", NULL
	};
	JsonbValue *content = msg->json ? mw_json_get(msg->json, "content") : NULL;
	MwJsonEach	each;

	if (!mw_value_is_array(content))
		return;
	each = mw_json_each(content->val.binary.data);
	while (mw_json_next(&each))
	{
		char	   *type;

		if (!mw_value_is_object(&each.value))
			continue;
		type = mw_json_get_text(JsonbValueToJsonb(&each.value), "type");
		if (type != NULL && !mw_one_of(type, texts))
			ereport(ERROR,
					(errcode(ERRCODE_MW_PII_REFUSED),
					 errmsg("images and files are refused"),
					 errdetail("A message has a part that is no text, and what is in it cannot be redacted."),
					 errhint("An administrator lets them pass as they are: SELECT mw_alter_tenant(..., '{\"redact\": {\"files\": \"pass\"}}');")));
	}
}

/* ---------- the stage ---------- */

/* Both passes over messages, and over tools and parameters where there are any */
static void
redact_texts(const MwPolicy *policy, MwPiiMap *map, MwMessage *messages, int n, Jsonb **tools, Jsonb **params,
			 bool raw, MwInstant deadline, List **notices)
{
	struct MwAnalyses *ask = mw_policy_analyzes(policy) ? mw_analyses_start(CurrentMemoryContext) : NULL;
	int			i;

	/* messages that mw made itself may hold placeholders too, and none may be issued twice */
	for (i = 0; i < n; i++)
		reserve_message(map, messages[i].from_caller ? ask : NULL, &messages[i]);
	if (tools)
		(void) redact_schema(NULL, map, ask, *tools);
	if (params)
		(void) redact_schema(NULL, map, ask, *params);
	if (policy->refuse_files)
		for (i = 0; i < n; i++)
			refuse_files(&messages[i]);
	if (ask)
		mw_analyses_ask(ask, policy, deadline, notices);
	map->analyses = ask;
	map->typed = raw && (map->n > 0 || map->earlier);
	for (i = 0; i < n; i++)
		if (messages[i].from_caller)
			redact_message(policy, map, &messages[i]);
	if (tools)
		*tools = redact_schema(policy, map, NULL, *tools);
	if (params)
		*params = redact_schema(policy, map, NULL, *params);
	map->analyses = NULL;		/* a map may outlive it */
	map->typed = false;
}

/* mw_redact_messages redacts what a caller says, for whoever keeps it before it is sent. */
void
mw_redact_messages(const MwPolicy *policy, MwPiiMap *map, MwMessage *messages, int n, bool raw, MwInstant deadline, List **notices)
{
	redact_texts(policy, map, messages, n, NULL, NULL, raw, deadline, notices);
}

static void
redact_all(MwCall *call)
{
	if (call->map.cxt == NULL)
		mw_pii_map_init(&call->map, call->cxt);
	/* in a run the thread has been redacted when it came in, and the placeholders in it are ours */
	redact_texts(call->policy, &call->map, call->messages, call->nmessages, &call->tools, &call->params,
				 call->run == NULL, call->deadline, &call->notices);
}

/* mw_redact_run redacts what the caller gave and goes on. */
void
mw_redact_run(MwCall *call)
{
	if (call->redact && mw_policy_detects(call->policy))
	{
		MemoryContext old = MemoryContextSwitchTo(call->cxt);

		redact_all(call);
		mw_pii_session_save(&call->map, call->policy);
		MemoryContextSwitchTo(old);
	}
	mw_fault("redact");
	mw_next(call);

	/* on every reading, from the cache too; what a tool is called with it needs as it is */
	if (call->redact && call->policy->redact_output && call->answer && call->answer->text)
	{
		MemoryContext old = MemoryContextSwitchTo(call->cxt);

		call->answer->text = mw_redact_answer(call->policy, call->answer->text, call->answer->len, &call->answer->len);
		MemoryContextSwitchTo(old);
	}
}

/* The policy with every "block" made a placeholder, and the types that had it. */
static MwPolicy *
without_block(const MwPolicy *policy, bool *any)
{
	MwPolicy   *copy = palloc(sizeof(MwPolicy));
	MwRecognizer *recs;
	int			i;

	*copy = *policy;
	copy->cxt = CurrentMemoryContext;
	copy->redact_plan = NULL;
	copy->recognizers = recs = palloc(sizeof(MwRecognizer) * Max(1, policy->nrecognizers));
	*any = false;
	for (i = 0; i < policy->nrecognizers; i++)
	{
		recs[i] = policy->recognizers[i];
		if (recs[i].strategy == MW_STRATEGY_BLOCK)
		{
			recs[i].strategy = MW_STRATEGY_PLACEHOLDER;
			*any = true;
		}
	}
	return copy;
}

static bool
type_blocks(const MwPolicy *policy, const char *type)
{
	int			i;

	for (i = 0; i < policy->nrecognizers; i++)
		if (policy->recognizers[i].strategy == MW_STRATEGY_BLOCK &&
			strcmp(policy->recognizers[i].type, type) == 0)
			return true;
	return false;
}

/* mw_redact_explain shows what run would do; the call's messages are what the next stage would see. */
void
mw_redact_explain(MwCall *call, MwExplain *out)
{
	MemoryContext old = MemoryContextSwitchTo(call->cxt);
	const MwPolicy *policy = call->policy;
	JsonbParseState *st = NULL;
	JsonbValue	v;
	JsonbValue *result;
	bool		blocks;
	int			i;

	out->verdict = "pass";
	if (!call->redact)
		out->verdict = "off";
	else
	{
		/* what would be refused must not be shown by the stages behind either */
		call->policy = without_block(policy, &blocks);
		redact_all(call);
		call->policy = policy;
	}

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	for (i = 0; i < call->map.n; i++)
	{
		const MwPiiEntry *e = &call->map.entries[i];

		if (!e->used)
			continue;
		if (!out->stop)
			out->verdict = "replace";
		v.type = jbvString;
		v.val.string.val = e->placeholder;
		v.val.string.len = strlen(e->placeholder);
		pushJsonbValue(&st, WJB_KEY, &v);
		v.val.string.val = unconstify(char *, e->type);
		v.val.string.len = strlen(e->type);
		pushJsonbValue(&st, WJB_VALUE, &v);
		if (call->redact && type_blocks(policy, e->type))
		{
			out->verdict = "block";
			out->stop = true;
		}
	}
	result = pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	out->detail = JsonbValueToJsonb(result);
	if (call->nmessages > 0)
	{
		const MwMessage *last = &call->messages[call->nmessages - 1];

		out->next = last->json ? mw_json_content_text(mw_json_get(last->json, "content"))
			: last->text ? pnstrdup(last->text, last->len) : NULL;
	}
	MemoryContextSwitchTo(old);
}
