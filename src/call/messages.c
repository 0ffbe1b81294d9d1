/*
 * messages.c - what the caller said, as messages that a provider accepts.
 *
 * Two spellings of a message are taken: mw's own, {"role", "content",
 * "tool_calls": [{"id", "name", "args"}], ...}, and OpenAI's wire form, whose
 * tool calls are {"id", "type": "function", "function": {"name", "arguments":
 * text}}.  What goes on is mw's.  The plain message, a role and a text, becomes
 * an MwMessage without jsonb; the rest is rebuilt canonically, so that the
 * cache key does not depend on the spelling.  A message's id, status and
 * metadata belong to a thread and not to what is asked; without memory there
 * is no thread and they are left out.
 *
 * Then the transcript is paired (invariant 11): the tool calls of a message are
 * followed by exactly one answer each, in the order in which they came.  A late
 * answer moves up to its message, an open call is answered for, an answer that
 * nobody asked for is left out.  No provider gets a request of ours that it must refuse.
 */
#include "mw.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "call/request.h"
#include "util/json.h"
#include "util/json_push.h"

#define MAX_MESSAGES 65536		/* more than any model's context holds; bounds what is allocated */

/* A tool call of an assistant's message, while pairing */
typedef struct Asked
{
	const char *id;
	const char *name;
	int			answer;			/* the message that answers it; -1: none */
	struct Asked *same;			/* next one of the same message with the same id */
} Asked;

/* A message with what pairing has to know of it */
typedef struct Read
{
	MwMessage	msg;
	const char *answers;		/* role tool: the id that it answers */
	Asked	   *asked;
	int			nasked;
} Read;

/* id of a call -> the newest call that has it and waits for an answer */
typedef struct OpenCall
{
	const char *id;				/* hash key */
	uint32		hash;
	char		status;
	int			owner;			/* message that asks */
	Asked	   *first;
	Asked	   *last;
} OpenCall;

#define SH_PREFIX opencalls
#define SH_ELEMENT_TYPE OpenCall
#define SH_KEY_TYPE const char *
#define SH_KEY id
#define SH_HASH_KEY(tb, key) hash_bytes((const unsigned char *) (key), strlen(key))
#define SH_EQUAL(tb, a, b) (strcmp(a, b) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

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

/* ---------- building jsonb ---------- */

/* A text of its own, one byte longer than it is */
static char *
copy_text(const char *s, int len)
{
	char	   *copy = palloc(len + 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

/* ---------- reading one message ---------- */

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

/*
 * The tool calls of an assistant's message, into the object that is being built
 * and into *out for pairing.  Valid ones come first, then invalid ones.
 */
static void
read_tool_calls(int n, Jsonb *json, JsonbParseState **state, Read *out)
{
	MwToolCall *calls;
	int			total;
	int			nraw = 0;
	const char *why = mw_tool_calls_read(json, &calls, &total);

	if (why != NULL)
		bad_message(n, "%s", why);
	if (total == 0)
		return;

	out->asked = palloc(total * sizeof(Asked));
	out->nasked = total;
	for (int i = 0; i < total; i++)
	{
		out->asked[i] = (Asked) {.id = calls[i].id, .name = calls[i].name, .answer = -1};
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

static void
read_message(int n, JsonbValue *item, Read *out)
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
		out->msg.text = copy_text(content->val.string.val, content->val.string.len);
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

/* ---------- pairing ---------- */

/* The answer to a call that has none */
static MwMessage
not_completed(const Asked *asked)
{
	MwMessage	msg = {.role = "tool"};
	JsonbParseState *state = NULL;
	char	   *text = psprintf("Tool call %s with id %s was not completed.", asked->name, asked->id);

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_member(&state, "role", "tool");
	push_member(&state, "content", text);
	push_member(&state, "tool_call_id", asked->id);
	msg.json = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
	msg.from_caller = true;		/* name and id are the caller's words */
	return msg;
}

/* Find for each call its answer: the first one after it, before another message asks under that id. */
static void
find_answers(Read *reads, int n)
{
	opencalls_hash *open = opencalls_create(CurrentMemoryContext, 64, NULL);

	for (int m = 0; m < n; m++)
	{
		OpenCall   *entry;

		if (reads[m].answers != NULL)
		{
			entry = opencalls_lookup(open, reads[m].answers);
			if (entry == NULL || entry->first == NULL)
				continue;
			entry->first->answer = m;
			entry->first = entry->first->same;
		}
		for (int i = 0; i < reads[m].nasked; i++)
		{
			Asked	   *asked = &reads[m].asked[i];
			bool		found;

			entry = opencalls_insert(open, asked->id, &found);
			if (found && entry->owner == m && entry->first != NULL)
				entry->last->same = asked;
			else
				entry->first = asked;
			entry->owner = m;
			entry->last = asked;
		}
	}
	opencalls_destroy(open);
}

static int
by_number(const void *a, const void *b)
{
	int			x = *(const int *) a;
	int			y = *(const int *) b;

	return x < y ? -1 : x > y;
}

/* The messages in an order that every provider takes; returns their number */
static int
pair(Read *reads, int n, MwMessage *out)
{
	int		   *came = palloc(sizeof(int) * n);	/* the answers to one message's calls */
	int			k = 0;

	find_answers(reads, n);
	for (int m = 0; m < n; m++)
	{
		int			ncame = 0;

		if (reads[m].answers != NULL)
			continue;			/* stands beside its call, or is left out */
		out[k++] = reads[m].msg;
		for (int i = 0; i < reads[m].nasked; i++)
			if (reads[m].asked[i].answer >= 0)
				came[ncame++] = reads[m].asked[i].answer;
		qsort(came, ncame, sizeof(int), by_number);
		ncame = 0;
		for (int i = 0; i < reads[m].nasked; i++)
		{
			Asked	   *asked = &reads[m].asked[i];

			out[k++] = asked->answer >= 0 ? reads[came[ncame++]].msg : not_completed(asked);
		}
	}
	return k;
}

/* ---------- all of them ---------- */

static void
take(MwCall *call, Read *reads, int n, int nasked, bool paired)
{
	call->messages = palloc((n + nasked) * sizeof(MwMessage));
	if (paired)
	{
		for (int i = 0; i < n; i++)
			call->messages[i] = reads[i].msg;
		call->nmessages = n;
	}
	else
		call->nmessages = pair(reads, n, call->messages);
}

void
mw_messages_take(MwCall *call, const char *system_prompt, Jsonb **messages, const bool *answered, int n)
{
	Read	   *reads = palloc0((n + 1) * sizeof(Read));
	int			first = 0;
	int			nasked = 0;
	bool		paired = true;

	if (system_prompt != NULL)
	{
		reads[0].msg.role = "system";
		reads[0].msg.text = pstrdup(system_prompt);
		reads[0].msg.len = strlen(system_prompt);
		reads[0].msg.from_caller = true;
		first = 1;
	}
	for (int i = 0; i < n; i++)
	{
		Read	   *read = &reads[first + i];
		JsonbValue	item;

		CHECK_FOR_INTERRUPTS();
		item.type = jbvBinary;
		item.val.binary.data = &messages[i]->root;
		item.val.binary.len = VARSIZE(messages[i]) - VARHDRSZ;
		read_message(i, &item, read);
		read->msg.answered = answered[i];
		nasked += read->nasked;
		if (read->nasked > 0 || read->answers != NULL)
			paired = false;
	}
	take(call, reads, first + n, nasked, paired);
}

/* The last message in pieces: what a developer wrote, the quote, and what a developer wrote behind it */
void
mw_messages_quote(MwCall *call, int from, int len)
{
	MwMessage	whole = call->messages[call->nmessages - 1];
	int			ends[] = {from, from + len, whole.len};
	int			at = 0;
	bool		first = true;

	call->messages = repalloc(call->messages, (call->nmessages + 2) * sizeof(MwMessage));
	call->nmessages--;
	for (int i = 0; i < lengthof(ends); i++)
	{
		MwMessage  *piece;

		if (ends[i] == at)
			continue;
		piece = &call->messages[call->nmessages++];
		*piece = whole;
		piece->text = copy_text(whole.text + at, ends[i] - at);
		piece->len = ends[i] - at;
		piece->developers = i != 1;
		piece->joins = !first;
		first = false;
		at = ends[i];
	}
}

void
mw_messages_read(MwCall *call, Jsonb *messages, char *prompt, int prompt_len, bool has_prompt)
{
	Read	   *reads;
	int			given = 0;
	int			n = 0;
	int			nasked = 0;
	bool		paired = true;

	if (messages != NULL)
	{
		if (!mw_json_is_array(messages))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("messages must be a JSON array"),
					 errhint("Such as '[{\"role\": \"user\", \"content\": \"…\"}]'.")));
		given = JB_ROOT_COUNT(messages);
		if (given > MAX_MESSAGES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("too many messages"),
					 errdetail("There are %d, and at most %d can be given.", given, MAX_MESSAGES),
					 errhint("Leave older ones out, or give a summary of them.")));
	}
	if (!has_prompt && given == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there are no messages"),
				 errdetail("The argument messages is NULL or empty."),
				 errhint("Such as '[{\"role\": \"user\", \"content\": \"…\"}]'.")));
	if (prompt == NULL && given == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is nothing to ask"),
				 errdetail("The prompt is NULL and messages is NULL or empty."),
				 errhint("Give a prompt, or messages, or both.")));
	if (prompt != NULL && prompt_len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the prompt is empty"),
				 errhint("Where messages say everything, the prompt is NULL.")));

	if (given == 0)
	{
		call->messages = palloc0(sizeof(MwMessage));
		call->nmessages = 1;
		call->messages[0].role = "user";
		call->messages[0].text = prompt;
		call->messages[0].len = prompt_len;
		call->messages[0].from_caller = true;
		return;
	}

	reads = palloc0((given + 1) * sizeof(Read));
	{
		MwJsonEach	each = mw_json_each(&messages->root);

		while (mw_json_next(&each))
		{
			CHECK_FOR_INTERRUPTS();
			read_message(n, &each.value, &reads[n]);
			nasked += reads[n].nasked;
			if (reads[n].nasked > 0 || reads[n].answers != NULL)
				paired = false;
			n++;
		}
	}
	if (prompt != NULL)
	{
		reads[n].msg.role = "user";
		reads[n].msg.text = prompt;
		reads[n].msg.len = prompt_len;
		reads[n].msg.from_caller = true;
		n++;
	}

	take(call, reads, n, nasked, paired);
	if (call->nmessages == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is nothing to ask"),
				 errdetail("The messages are results of tool calls that none of them asks for."),
				 errhint("Send the whole history: the message with the tool calls stands before their results.")));
}
