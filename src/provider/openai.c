/*
 * openai.c - OpenAI's chat completions, which llama.cpp, vLLM, Ollama and most
 * others speak too: writing requests.  openai_answer.c reads the answers.
 *
 * The same call always gives the same bytes: members stand in a fixed order, and
 * what comes from jsonb in jsonb's own.  Recorded answers and the provider's own
 * prompt cache rest on that.
 *
 * No 400 of our making: OpenAI refuses members it does not know, an empty list
 * of tools or of tool calls, a tool_choice without tools, and a user's message
 * without content.  So only members that its schema has are written, what is
 * empty is left out, and what has no form at all is MW001 before anything is
 * sent.  Content parts of other vendors are the exception: they are sent as the
 * caller gave them, except those that OpenAI-compatible servers are known to
 * refuse (another model's thinking, tool use as parts).
 */
#include "mw.h"

#include <ctype.h>

#include "utils/builtins.h"

#include "provider/openai.h"
#include "util/json.h"

/* members of the body that are ours to write */
static const char *const own_members[] = {"messages", "model", "tools", "stream", "stream_options", "n", NULL};

static const char *const limit_members[] = {"max_tokens", "max_completion_tokens", NULL};

#define MAX_NAME 64

#define bad_message(...) \
	ereport(ERROR, \
			(errcode(ERRCODE_MW_BAD_ARGUMENT), \
			 errmsg("a message has no form in OpenAI's API"), \
			 errdetail(__VA_ARGS__), \
			 errhint("A message is {\"role\": \"system\", \"user\", \"assistant\" or \"tool\", \"content\": text or parts}; an assistant's may have \"tool_calls\", a tool's has the \"tool_call_id\" that it answers.")))

/* ---------- pieces ---------- */

static void
put_text(StringInfo buf, const JsonbValue *v)
{
	mw_json_string(buf, v->val.string.val, v->val.string.len);
}

/* Any value as JSON */
static void
put_value(StringInfo buf, const JsonbValue *v)
{
	switch (v->type)
	{
		case jbvString:
			put_text(buf, v);
			break;
		case jbvBinary:
			(void) JsonbToCString(buf, v->val.binary.data, v->val.binary.len);
			break;
		case jbvNull:
			appendStringInfoString(buf, "null");
			break;
		case jbvBool:
			appendStringInfoString(buf, v->val.boolean ? "true" : "false");
			break;
		default:
			{
				Jsonb	   *jb = JsonbValueToJsonb(unconstify(JsonbValue *, v));

				(void) JsonbToCString(buf, &jb->root, VARSIZE(jb));
			}
	}
}

/* Any value as the text of its JSON, in a JSON string */
static void
put_as_text(StringInfo buf, const JsonbValue *v)
{
	StringInfoData text;

	initStringInfo(&text);
	put_value(&text, v);
	mw_json_string(buf, text.data, text.len);
	pfree(text.data);
}

static bool
is_word(const char *s, int len, const char *word)
{
	return strlen(word) == len && memcmp(s, word, len) == 0;
}

static bool
is_text(const JsonbValue *v, const char *text)
{
	return v != NULL && v->type == jbvString && is_word(v->val.string.val, v->val.string.len, text);
}

/* A member of an object value; NULL where it is absent or null */
static JsonbValue *
member(const JsonbValue *object, const char *key)
{
	JsonbValue *v = getKeyJsonValueFromContainer(object->val.binary.data, key, strlen(key), NULL);

	return v != NULL && v->type != jbvNull ? v : NULL;
}

/* ---------- messages ---------- */

/* The parts that are sent; returns how many */
static int
put_parts(StringInfo buf, const JsonbValue *content)
{
	MwJsonEach	each = mw_json_each(content->val.binary.data);
	int			n = 0;

	appendStringInfoChar(buf, '[');
	while (mw_json_next(&each))
	{
		if (mw_value_is_object(&each.value))
		{
			JsonbValue *type = member(&each.value, "type");

			if (is_text(type, "thinking") || is_text(type, "redacted_thinking") || is_text(type, "reasoning") ||
				is_text(type, "reasoning_content") || is_text(type, "tool_use") || is_text(type, "tool_call"))
				continue;
		}
		if (n++ > 0)
			appendStringInfoChar(buf, ',');
		if (each.value.type == jbvString)
		{
			appendStringInfoString(buf, "{\"type\":\"text\",\"text\":");
			put_text(buf, &each.value);
			appendStringInfoChar(buf, '}');
		}
		else
			put_value(buf, &each.value);
	}
	appendStringInfoChar(buf, ']');
	return n;
}

/*
 * A message's content.  with_calls: it may be null.  Otherwise what is missing
 * is an empty text, for an assistant (an empty answer is a legal one) and a tool
 * (whose result was nothing); from others it would be refused.
 */
static void
put_content(StringInfo buf, const JsonbValue *content, bool with_calls, bool may_miss)
{
	int			start = buf->len;

	if (content != NULL && content->type == jbvString)
	{
		if (with_calls && content->val.string.len == 0)
			appendStringInfoString(buf, "null");
		else
			put_text(buf, content);
		return;
	}
	if (mw_value_is_array(content))
	{
		if (put_parts(buf, content) > 0)
			return;
		buf->len = start;		/* an empty list is refused */
		appendStringInfoString(buf, with_calls ? "null" : "\"\"");
		return;
	}
	if (content != NULL)
		put_as_text(buf, content);	/* a tool's result that is JSON */
	else if (with_calls)
		appendStringInfoString(buf, "null");
	else if (may_miss)
		appendStringInfoString(buf, "\"\"");
	else
		bad_message("It has no content.");
}

/* One tool call: mw's {"id", "name", "args"}, or OpenAI's own form */
static void
put_call(StringInfo buf, const JsonbValue *call)
{
	JsonbValue *function = member(call, "function");
	JsonbValue *id = member(call, "id");
	JsonbValue *name;
	JsonbValue *args;

	if (function != NULL && !mw_value_is_object(function))
		bad_message("The function of a tool call is no object.");
	name = function != NULL ? member(function, "name") : member(call, "name");
	args = function != NULL ? member(function, "arguments") : member(call, "args");
	if (id == NULL || id->type != jbvString || name == NULL || name->type != jbvString)
		bad_message("A tool call lacks its id or its name.");

	appendStringInfoString(buf, "{\"id\":");
	put_text(buf, id);
	appendStringInfoString(buf, ",\"type\":\"function\",\"function\":{\"name\":");
	put_text(buf, name);
	appendStringInfoString(buf, ",\"arguments\":");
	if (args == NULL)
		appendStringInfoString(buf, "\"{}\"");
	else if (args->type == jbvString)
		put_text(buf, args);	/* JSON text already, or what a model sent instead */
	else
		put_as_text(buf, args);
	appendStringInfoString(buf, "}}");
}

/* The calls of one list; returns how many stand in buf now */
static int
put_calls(StringInfo buf, const JsonbValue *list, int n)
{
	MwJsonEach	each;

	if (list == NULL)
		return n;
	if (!mw_value_is_array(list))
		bad_message("Its tool_calls are no array.");
	each = mw_json_each(list->val.binary.data);
	while (mw_json_next(&each))
	{
		if (!mw_value_is_object(&each.value))
			bad_message("A tool call is no object.");
		if (n++ == 0)
			appendStringInfoString(buf, ",\"tool_calls\":[");
		else
			appendStringInfoChar(buf, ',');
		put_call(buf, &each.value);
	}
	return n;
}

static bool
has_calls(const JsonbValue *list)
{
	return mw_value_is_array(list) && JsonContainerSize(list->val.binary.data) > 0;
}

/* OpenAI takes no other name of a participant; it is left out then */
static bool
good_name(const JsonbValue *name)
{
	if (name == NULL || name->type != jbvString || name->val.string.len < 1 || name->val.string.len > MAX_NAME)
		return false;
	for (int i = 0; i < name->val.string.len; i++)
	{
		char		c = name->val.string.val[i];

		if (!isalnum((unsigned char) c) && c != '_' && c != '-')
			return false;
	}
	return true;
}

static void
put_json_message(StringInfo buf, Jsonb *json)
{
	JsonbValue	m;
	JsonbValue *role;
	JsonbValue *content;
	JsonbValue *v;

	if (!mw_json_is_object(json))
		bad_message("It is no object.");
	m.type = jbvBinary;
	m.val.binary.data = &json->root;
	m.val.binary.len = VARSIZE(json) - VARHDRSZ;
	role = member(&m, "role");
	content = member(&m, "content");

	if (is_text(role, "assistant"))
	{
		JsonbValue *calls = member(&m, "tool_calls");
		JsonbValue *invalid = member(&m, "invalid_tool_calls");
		bool		with_calls = has_calls(calls) || has_calls(invalid);

		appendStringInfoString(buf, "{\"role\":\"assistant\",\"content\":");
		put_content(buf, content, with_calls, true);
		if ((v = member(&m, "refusal")) != NULL && v->type == jbvString)
		{
			appendStringInfoString(buf, ",\"refusal\":");
			put_text(buf, v);
		}
		if (good_name(v = member(&m, "name")))
		{
			appendStringInfoString(buf, ",\"name\":");
			put_text(buf, v);
		}
		if (put_calls(buf, invalid, put_calls(buf, calls, 0)) > 0)
			appendStringInfoChar(buf, ']');
	}
	else if (is_text(role, "tool"))
	{
		v = member(&m, "tool_call_id");
		if (v == NULL || v->type != jbvString)
			bad_message("A tool's message lacks its tool_call_id.");
		appendStringInfoString(buf, "{\"role\":\"tool\",\"content\":");
		put_content(buf, content, false, true);
		appendStringInfoString(buf, ",\"tool_call_id\":");
		put_text(buf, v);
	}
	else if (is_text(role, "system") || is_text(role, "user") || is_text(role, "developer"))
	{
		appendStringInfoString(buf, "{\"role\":");
		put_text(buf, role);
		appendStringInfoString(buf, ",\"content\":");
		put_content(buf, content, false, false);
		if (good_name(v = member(&m, "name")))
		{
			appendStringInfoString(buf, ",\"name\":");
			put_text(buf, v);
		}
	}
	else
		bad_message("Its role is none of system, user, assistant and tool.");
	appendStringInfoChar(buf, '}');
}

/* ---------- tools and parameters ---------- */

static bool
has_tools(Jsonb *tools)
{
	return tools != NULL && mw_json_is_array(tools) && JB_ROOT_COUNT(tools) > 0;
}

/*
 * The model's parameters as members of the body.  One that is null is one that
 * is not set.  How many tokens may come is ours to say, whatever stands here.
 */
static void
put_params(StringInfo buf, Jsonb *params, bool tools, const char *max_tokens_field)
{
	MwJsonEach	each = mw_json_each(&params->root);

	while (mw_json_next(&each))
	{
		const char *s = each.key.val.string.val;
		int			len = each.key.val.string.len;
		bool		ours = false;

		for (int i = 0; own_members[i] != NULL; i++)
		{
			if (is_word(s, len, own_members[i]))
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("\"%s\" is not a parameter of the model", own_members[i]),
						 errdetail("mw writes it itself.")));
		}
		for (int i = 0; limit_members[i] != NULL; i++)
			ours |= is_word(s, len, limit_members[i]);
		if (ours || is_word(s, len, max_tokens_field) || each.value.type == jbvNull)
			continue;
		if (!tools && is_word(s, len, "parallel_tool_calls"))
			continue;
		if (!tools && is_word(s, len, "tool_choice"))
		{
			if (!is_text(&each.value, "auto") && !is_text(&each.value, "none"))
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("tool_choice asks for a tool, but the call has none"),
						 errhint("Give the call tools, or leave tool_choice out.")));
			continue;
		}
		appendStringInfoChar(buf, ',');
		mw_json_string(buf, s, len);
		appendStringInfoChar(buf, ':');
		put_value(buf, &each.value);
	}
}

static void
openai_encode(StringInfo body, const char *model,
			  const MwMessage *messages, int nmessages,
			  Jsonb *tools, Jsonb *params,
			  int64 max_tokens, const char *max_tokens_field)
{
	if (max_tokens_field == NULL)
		max_tokens_field = "max_tokens";

	appendStringInfoString(body, "{\"model\":");
	mw_json_string(body, model, strlen(model));
	appendStringInfoString(body, ",\"messages\":[");
	for (int i = 0; i < nmessages; i++)
	{
		const MwMessage *m = &messages[i];

		if (i > 0)
			appendStringInfoChar(body, ',');
		if (m->json != NULL)
			put_json_message(body, m->json);
		else
		{
			appendStringInfoString(body, "{\"role\":");
			mw_json_string(body, m->role, strlen(m->role));
			appendStringInfoString(body, ",\"content\":");
			mw_json_string(body, m->text, m->len);
			appendStringInfoChar(body, '}');
		}
	}
	appendStringInfoChar(body, ']');
	if (has_tools(tools))
	{
		appendStringInfoString(body, ",\"tools\":");
		(void) JsonbToCString(body, &tools->root, VARSIZE(tools));
	}
	if (params != NULL)
		put_params(body, params, has_tools(tools), max_tokens_field);
	if (max_tokens > 0)
	{
		char		number[MAXINT8LEN + 1];

		pg_lltoa(max_tokens, number);
		appendStringInfoChar(body, ',');
		mw_json_string(body, max_tokens_field, strlen(max_tokens_field));
		appendStringInfoChar(body, ':');
		appendStringInfoString(body, number);
	}
	appendStringInfoChar(body, '}');
}

/* A key's file ends in a line break, as files do. */
char *
mw_openai_auth_header(const char *key)
{
	int			len = strlen(key);

	while (len > 0 && isspace((unsigned char) key[len - 1]))
		len--;
	while (len > 0 && isspace((unsigned char) *key))
	{
		key++;
		len--;
	}
	return psprintf("Authorization: Bearer %.*s", len, key);
}

const MwProvider mw_provider_openai = {
	.api = "openai",
	.path = "/chat/completions",
	.encode = openai_encode,
	.auth_header = mw_openai_auth_header,
	.outcome = mw_openai_outcome,
	.decode = mw_openai_decode
};

/* The test double answers in the same format. */
const MwProvider mw_provider_fake = {
	.api = "fake",
	.path = "/chat/completions",
	.encode = openai_encode,
	.auth_header = mw_openai_auth_header,
	.outcome = mw_openai_outcome,
	.decode = mw_openai_decode
};
