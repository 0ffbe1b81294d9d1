/*
 * message_read.c - one message of the caller's.
 *
 * Two spellings of a message are taken: mw's own, {"role", "content",
 * "tool_calls": [{"id", "name", "args"}], ...}, and OpenAI's wire form, whose
 * tool calls are {"id", "type": "function", "function": {"name", "arguments":
 * text}}.  What goes on is mw's.  The plain message, a role and a text, becomes
 * an MwMessage without jsonb; the rest is rebuilt canonically, so that the
 * cache key does not depend on the spelling.  A message's id, status and
 * metadata belong to a thread and not to what is asked; without memory there
 * is no thread and they are left out.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "call/message_read.h"
#include "util/json.h"
#include "util/json_push.h"

static const char *const message_keys[] = {
	"annotations", "audio", "content", "function_call", "id", "invalid_tool_calls", "metadata",
	"name", "refusal", "role", "status", "tool_call_id", "tool_calls", NULL
};

#define bad_message(n, ...) \
	ereport(ERROR, \
			(errcode(ERRCODE_MW_BAD_ARGUMENT), \
			 errmsg("message %d of the argument messages cannot be used", (n) + 1), \
			 errdetail(__VA_ARGS__), \
			 errhint("A message is {\"role\": \"system\", \"user\", \"assistant\" or \"tool\", \"content\": text or parts}, and a tool's also has the \"tool_call_id\" that it answers.")))

/* ---------- tool calls ---------- */

static const char *const call_lists[] = {"tool_calls", "invalid_tool_calls"};

/* A tool call of either spelling; what is wrong with it, NULL: nothing */
static const char *
read_tool_call(JsonbValue *item, MwToolCall *call)
{
	Jsonb	   *json;
	Jsonb	   *function;
	JsonbValue *args;

	memset(call, 0, sizeof(*call));
	if (!mw_value_is_object(item))
		return "One of its tool calls is not an object.";
	json = JsonbValueToJsonb(item);
	function = mw_json_get_jsonb(json, "function");
	call->id = mw_json_get_text(json, "id");
	call->name = mw_json_get_text(function != NULL ? function : json, "name");
	if (call->id == NULL || call->id[0] == '\0')
		return "One of its tool calls has no id.";
	if (call->name == NULL || call->name[0] == '\0')
		return "One of its tool calls has no name.";

	args = function != NULL ? mw_json_get(function, "arguments") : mw_json_get(json, "args");
	if (args == NULL || (args->type == jbvString && args->val.string.len == 0))
		call->args = mw_json_parse("{}", 2, NULL);
	else if (args->type == jbvString)
	{
		call->args = mw_json_parse(args->val.string.val, args->val.string.len, NULL);
		if (!mw_json_is_object(call->args))
		{
			call->args = NULL;
			call->raw_args = mw_value_string(args);
		}
	}
	else if (mw_value_is_object(args))
		call->args = JsonbValueToJsonb(args);
	else
		return "The arguments of one of its tool calls are not an object.";
	return NULL;
}

const char *
mw_tool_calls_read(Jsonb *message, MwToolCall **calls, int *n)
{
	int			total = 0;

	*n = 0;
	for (int l = 0; l < lengthof(call_lists); l++)
	{
		JsonbValue *list = mw_json_get(message, call_lists[l]);

		if (list == NULL)
			continue;
		if (!mw_value_is_array(list))
			return psprintf("Its %s are not an array.", call_lists[l]);
		total += JsonContainerSize(list->val.binary.data);
	}
	if (total == 0)
		return NULL;

	*calls = palloc(total * sizeof(MwToolCall));
	for (int l = 0; l < lengthof(call_lists); l++)
	{
		JsonbValue *list = mw_json_get(message, call_lists[l]);
		MwJsonEach	each;

		if (list == NULL)
			continue;
		each = mw_json_each(list->val.binary.data);
		while (mw_json_next(&each))
		{
			const char *why = read_tool_call(&each.value, &(*calls)[(*n)++]);

			if (why != NULL)
				return why;
		}
	}
	return NULL;
}

/* ---------- all of it ---------- */

static const char *
read_role(int n, Jsonb *json)
{
	static const char *const roles[] = {"system", "user", "assistant", "tool"};
	char	   *role = mw_json_get_text(json, "role");

	if (role == NULL)
		bad_message(n, "It has no role.");
	if (strcmp(role, "developer") == 0) /* OpenAI's newer word */
		return "system";
	for (int i = 0; i < lengthof(roles); i++)
	{
		if (strcmp(role, roles[i]) == 0)
			return roles[i];
	}
	bad_message(n, "Its role is none of system, user, assistant and tool.");
	return NULL;				/* not reached */
}

/* Parts are kept as they are, if they are parts at all. */
static void
check_parts(int n, JsonbValue *content)
{
	MwJsonEach	each = mw_json_each(content->val.binary.data);
	int			nparts = 0;

	while (mw_json_next(&each))
	{
		Jsonb	   *part;
		char	   *type;

		nparts++;
		if (!mw_value_is_object(&each.value))
			bad_message(n, "Part %d of its content is not an object.", nparts);
		part = JsonbValueToJsonb(&each.value);
		type = mw_json_get_text(part, "type");
		if (type == NULL)
			bad_message(n, "Part %d of its content has no type.", nparts);
		if (strcmp(type, "text") == 0 && mw_json_get_text(part, "text") == NULL)
			bad_message(n, "Part %d of its content has type text and no text.", nparts);
	}
	if (nparts == 0)
		bad_message(n, "Its content is an empty array.");
}

/* Whether a member says anything: absent, null, [] and {} do not */
static bool
has_items(const JsonbValue *v)
{
	return v != NULL && !(v->type == jbvBinary && JsonContainerSize(v->val.binary.data) == 0);
}

/*
 * The tool calls of an assistant's message, into the object that is being built
 * and into *out for pairing.  Valid ones come first, then invalid ones.
 */
static void
read_tool_calls(int n, Jsonb *json, JsonbParseState **state, MwMessageRead *out)
{
	MwToolCall *calls;
	int			total;
	int			nraw = 0;
	const char *why = mw_tool_calls_read(json, &calls, &total);

	if (why != NULL)
		bad_message(n, "%s", why);
	if (total == 0)
		return;

	out->asked = palloc(total * sizeof(MwAsked));
	out->nasked = total;
	for (int i = 0; i < total; i++)
	{
		out->asked[i] = (MwAsked) {.id = calls[i].id, .name = calls[i].name, .answer = -1};
		nraw += calls[i].args == NULL;
	}

	for (int invalid = 0; invalid <= 1; invalid++)
	{
		if (invalid ? nraw == 0 : nraw == total)
			continue;
		push_key(state, call_lists[invalid]);
		pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
		for (int i = 0; i < total; i++)
		{
			if ((calls[i].args == NULL) != (invalid == 1))
				continue;
			pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
			push_member(state, "id", calls[i].id);
			push_member(state, "name", calls[i].name);
			if (invalid)
				push_member(state, "args", calls[i].raw_args);
			else
				push_json(state, "args", calls[i].args);
			pushJsonbValue(state, WJB_END_OBJECT, NULL);
		}
		pushJsonbValue(state, WJB_END_ARRAY, NULL);
	}
}

/* What OpenAI's own messages hold beside ours, empty in all that mw can send on */
static void
check_foreign(int n, Jsonb *json)
{
	static const char *const foreign[] = {"annotations", "audio", "function_call", "refusal"};

	for (int i = 0; i < lengthof(foreign); i++)
	{
		JsonbValue *v = mw_json_get(json, foreign[i]);

		if (has_items(v))
			bad_message(n, "mw cannot send its \"%s\" on.", foreign[i]);
	}
}

void
mw_message_read(int n, JsonbValue *item, MwMessageRead *out)
{
	Jsonb	   *json;
	JsonbValue *content;
	JsonbValue *name;
	JsonbParseState *state = NULL;
	bool		is_tool;
	bool		is_assistant;

	if (!mw_value_is_object(item))
		bad_message(n, "It is not an object.");
	json = JsonbValueToJsonb(item);
	mw_json_check_keys(json, "member", "a message", message_keys);
	check_foreign(n, json);

	out->msg.role = read_role(n, json);
	out->msg.from_caller = true;
	is_tool = strcmp(out->msg.role, "tool") == 0;
	is_assistant = strcmp(out->msg.role, "assistant") == 0;

	content = mw_json_get(json, "content");
	if (content != NULL && content->type != jbvString)
	{
		if (!mw_value_is_array(content))
			bad_message(n, "Its content is neither a text nor an array of parts.");
		check_parts(n, content);
	}
	name = mw_json_get(json, "name");
	if (name != NULL && name->type != jbvString)
		bad_message(n, "Its name is not a text.");

	if (is_tool)
	{
		out->answers = mw_json_get_text(json, "tool_call_id");
		if (out->answers == NULL || out->answers[0] == '\0')
			bad_message(n, "It is a tool's and has no tool_call_id.");
	}
	else if (mw_json_get(json, "tool_call_id") != NULL)
		bad_message(n, "It has a tool_call_id and is not a tool's.");

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_member(&state, "role", out->msg.role);
	if (is_assistant)
		read_tool_calls(n, json, &state, out);
	else if (has_items(mw_json_get(json, "tool_calls")) || has_items(mw_json_get(json, "invalid_tool_calls")))
		bad_message(n, "It has tool calls and is not an assistant's.");

	if (content == NULL && out->nasked == 0)
		bad_message(n, "It has no content.");

	/* the plain case needs no jsonb */
	if (!is_tool && out->nasked == 0 && name == NULL && content->type == jbvString)
	{
		out->msg.text = mw_copy_text(content->val.string.val, content->val.string.len);
		out->msg.len = content->val.string.len;
		return;
	}

	if (content == NULL)
		push_member(&state, "content", "");
	else
	{
		push_key(&state, "content");
		pushJsonbValue(&state, WJB_VALUE, content);
	}
	if (name != NULL)
	{
		push_key(&state, "name");
		pushJsonbValue(&state, WJB_VALUE, name);
	}
	if (is_tool)
		push_member(&state, "tool_call_id", out->answers);
	out->msg.json = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}
