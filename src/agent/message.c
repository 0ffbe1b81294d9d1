/*
 * message.c - messages of a thread: read, made, copied with one thing changed.
 *
 * A message is jsonb in the one form that mw_messages() shows, and beside it what
 * the loop asks for again and again: role, text, tool calls, whose answer it is.
 * Both are made together in make() and never change after.  The spelling of
 * OpenAI's wire is read too, since histories come from there.
 *
 * What reaches a provider is the message without what belongs to a thread (id,
 * status, metadata); call/messages.c takes that off and pairs the transcript.
 */
#include "mw.h"

#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "agent/thread.h"
#include "util/json.h"
#include "util/json_push.h"

static const char *const keys[] = {
	"annotations", "audio", "content", "function_call", "id", "invalid_tool_calls", "metadata",
	"name", "refusal", "role", "status", "tool_call_id", "tool_calls", NULL
};

/* What a message is made of */
typedef struct Parts
{
	const char *id;
	const char *role;
	JsonbValue	content;
	MwToolCall *calls;
	int			ncalls;
	MwToolCall *invalid;
	int			ninvalid;
	const char *tool_call_id;
	const char *name;
	const char *status;			/* tool: success or error */
	Jsonb	   *metadata;
} Parts;

/*
 * An id that no other message has: it names and guards nothing.  Hooks see it, and
 * may tell a model of it, so a run that is made again gives the same ones.
 */
static char *
new_id(MwRun *run)
{
	uint64		n = run->nmsgs++;

	return psprintf("msg-%016llx", (unsigned long long) hash_bytes_extended((unsigned char *) &n, sizeof(n), run->id_seed));
}

static void
push_calls(JsonbParseState **st, const char *key, const MwToolCall *calls, int n)
{
	if (n == 0)
		return;
	push_key(st, key);
	pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < n; i++)
	{
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "id", calls[i].id);
		push_member(st, "name", calls[i].name);
		if (calls[i].args != NULL)
		{
			push_key(st, "args");
			mw_push_jsonb(st, WJB_VALUE, calls[i].args);
		}
		else
			push_member(st, "args", calls[i].raw_args != NULL ? calls[i].raw_args : "");
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(st, WJB_END_ARRAY, NULL);
}

static MwMsg *
make(MwRun *run, const Parts *p)
{
	MwMsg	   *msg = palloc0(sizeof(MwMsg));
	JsonbParseState *st = NULL;
	JsonbValue	content = p->content;

	msg->id = p->id != NULL ? p->id : new_id(run);
	msg->role = p->role;
	msg->calls = p->calls;
	msg->ncalls = p->ncalls;
	msg->invalid = p->invalid;
	msg->ninvalid = p->ninvalid;
	msg->tool_call_id = p->tool_call_id;
	msg->name = p->name;
	msg->failed = p->status != NULL && strcmp(p->status, "error") == 0;
	msg->text = mw_json_content_text(&content);
	if (msg->text == NULL)
		msg->text = "";

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "id", msg->id);
	push_member(&st, "role", msg->role);
	push_key(&st, "content");
	pushJsonbValue(&st, WJB_VALUE, &content);
	push_calls(&st, "tool_calls", p->calls, p->ncalls);
	push_calls(&st, "invalid_tool_calls", p->invalid, p->ninvalid);
	if (p->tool_call_id != NULL)
		push_member(&st, "tool_call_id", p->tool_call_id);
	if (p->name != NULL)
		push_member(&st, "name", p->name);
	if (p->status != NULL)
		push_member(&st, "status", p->status);
	if (p->metadata != NULL)
	{
		push_key(&st, "metadata");
		mw_push_jsonb(&st, WJB_VALUE, p->metadata);
	}
	msg->json = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	return msg;
}

/* The parts of a message that exists */
static Parts
parts_of(const MwMsg *msg)
{
	Parts		p = {
		.id = msg->id, .role = msg->role,
		.calls = msg->calls, .ncalls = msg->ncalls, .invalid = msg->invalid, .ninvalid = msg->ninvalid,
		.tool_call_id = msg->tool_call_id, .name = msg->name,
		.metadata = mw_json_get_jsonb(msg->json, "metadata"),
		.status = mw_json_get_text(msg->json, "status"),
	};

	p.content = *mw_json_get(msg->json, "content");
	return p;
}

/* ---------- reading ---------- */

#define bad_message(what, ...) \
	ereport(ERROR, \
			(errcode(ERRCODE_MW_BAD_ARGUMENT), \
			 errmsg("a message of %s cannot be used", what), \
			 errdetail(__VA_ARGS__), \
			 errhint("A message is {\"role\": \"system\", \"user\", \"assistant\" or \"tool\", \"content\": text or parts}, and a tool's also has the \"tool_call_id\" that it answers.")))

static const char *
read_role(Jsonb *json, const char *what)
{
	/* of our own first, then what LangChain's and OpenAI's messages call them */
	static const char *const words[][2] = {
		{"system", "system"}, {"user", "user"}, {"assistant", "assistant"}, {"tool", "tool"},
		{"developer", "system"}, {"human", "user"}, {"ai", "assistant"},
	};
	char	   *role = mw_json_get_text(json, "role");

	if (role == NULL)
		bad_message(what, "It has no role.");
	for (int i = 0; i < lengthof(words); i++)
		if (strcmp(role, words[i][0]) == 0)
			return words[i][1];
	bad_message(what, "Its role is none of system, user, assistant and tool.");
	return NULL;				/* not reached */
}

static void
check_content(JsonbValue *content, const char *what)
{
	MwJsonEach	each;

	if (content->type == jbvString)
		return;
	if (!mw_value_is_array(content))
		bad_message(what, "Its content is neither a text nor an array of parts.");
	each = mw_json_each(content->val.binary.data);
	while (mw_json_next(&each))
		if (!mw_value_is_object(&each.value) || mw_json_get_text(JsonbValueToJsonb(&each.value), "type") == NULL)
			bad_message(what, "A part of its content is no object with a type.");
}

/* The calls of both lists, sorted into those with arguments and the others */
static void
read_calls(Jsonb *json, Parts *p, const char *what)
{
	MwToolCall *calls;
	int			n;
	const char *why = mw_tool_calls_read(json, &calls, &n);

	if (why != NULL)
		bad_message(what, "%s", why);
	if (n == 0)
		return;
	if (strcmp(p->role, "assistant") != 0)
		bad_message(what, "It has tool calls and is not an assistant's.");

	p->calls = palloc0(sizeof(MwToolCall) * n);
	p->invalid = palloc0(sizeof(MwToolCall) * n);
	for (int i = 0; i < n; i++)
	{
		if (calls[i].args != NULL)
			p->calls[p->ncalls++] = calls[i];
		else
			p->invalid[p->ninvalid++] = calls[i];
	}
}

MwMsg *
mw_msg_read(MwRun *run, Jsonb *json, const char *what)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);
	Parts		p = {0};
	JsonbValue *content;
	MwMsg	   *msg;

	if (!mw_json_is_object(json))
		bad_message(what, "It is not an object.");
	mw_json_check_keys(json, "member", "a message", keys);
	p.role = read_role(json, what);
	p.id = mw_json_get_text(json, "id");
	if (p.id != NULL && p.id[0] == '\0')
		p.id = NULL;
	p.name = mw_json_get_text(json, "name");
	p.metadata = mw_json_get_jsonb(json, "metadata");
	read_calls(json, &p, what);

	content = mw_json_get(json, "content");
	if (content != NULL)
		check_content(content, what);
	else if (p.ncalls + p.ninvalid == 0 && strcmp(p.role, "assistant") != 0)
		bad_message(what, "It has no content.");
	if (content != NULL)
		p.content = *content;
	else
		p.content = (JsonbValue) {.type = jbvString, .val.string = {.val = "", .len = 0}};

	if (strcmp(p.role, "tool") == 0)
	{
		p.tool_call_id = mw_json_get_text(json, "tool_call_id");
		if (p.tool_call_id == NULL || p.tool_call_id[0] == '\0')
			bad_message(what, "It is a tool's and has no tool_call_id.");
		p.status = mw_json_get_text(json, "status");
		if (p.status == NULL)
			p.status = "success";
		if (strcmp(p.status, "success") != 0 && strcmp(p.status, "error") != 0)
			bad_message(what, "Its status is neither success nor error.");
	}
	else if (mw_json_get(json, "tool_call_id") != NULL)
		bad_message(what, "It has a tool_call_id and is not a tool's.");

	msg = make(run, &p);
	MemoryContextSwitchTo(old);
	return msg;
}

/* A thread holds only what make() has made */
MwMsg *
mw_msg_kept(Jsonb *json)
{
	MwMsg	   *msg = palloc0(sizeof(MwMsg));
	Parts		p = {0};
	char	   *status = mw_json_get_text(json, "status");

	p.role = mw_json_get_text(json, "role");
	if (p.role == NULL)
		elog(ERROR, "a kept message of mw has no role");
	read_calls(json, &p, "a thread");
	msg->json = json;
	msg->id = mw_json_get_text(json, "id");
	msg->role = p.role;
	msg->calls = p.calls;
	msg->ncalls = p.ncalls;
	msg->invalid = p.invalid;
	msg->ninvalid = p.ninvalid;
	msg->tool_call_id = mw_json_get_text(json, "tool_call_id");
	msg->name = mw_json_get_text(json, "name");
	msg->failed = status != NULL && strcmp(status, "error") == 0;
	msg->text = mw_json_content_text(mw_json_get(json, "content"));
	if (msg->text == NULL)
		msg->text = "";
	return msg;
}

/* ---------- making ---------- */

static JsonbValue
text_value(const char *s)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = pstrdup(s != NULL ? s : "");
	v.val.string.len = strlen(v.val.string.val);
	return v;
}

static MwMsg *
make_in(MwRun *run, const Parts *p)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);
	MwMsg	   *msg = make(run, p);

	MemoryContextSwitchTo(old);
	return msg;
}

MwMsg *
mw_msg_text(MwRun *run, const char *role, const char *content)
{
	Parts		p = {.role = role, .content = text_value(content)};

	return make_in(run, &p);
}

MwMsg *
mw_msg_tool(MwRun *run, const MwToolCall *call, const char *content, bool failed)
{
	Parts		p = {
		.role = "tool", .content = text_value(content), .tool_call_id = call->id, .name = call->name,
		.status = failed ? "error" : "success",
	};

	return make_in(run, &p);
}

MwMsg *
mw_msg_tool_parts(MwRun *run, const MwToolCall *call, Jsonb *parts, bool failed)
{
	Parts		p = {
		.role = "tool", .content = mw_json_value(parts), .tool_call_id = call->id, .name = call->name,
		.status = failed ? "error" : "success",
	};

	return make_in(run, &p);
}

MwMsg *
mw_msg_of_answer(MwRun *run, const MwAnswer *answer)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);
	Parts		p = {.role = "assistant"};
	MwMsg	   *msg;

	p.content = text_value(answer->text != NULL ? pnstrdup(answer->text, answer->len) : NULL);
	if (answer->ntool_calls > 0)
	{
		p.calls = palloc0(sizeof(MwToolCall) * answer->ntool_calls);
		p.invalid = palloc0(sizeof(MwToolCall) * answer->ntool_calls);
	}
	for (int i = 0; i < answer->ntool_calls; i++)
	{
		MwToolCall	call = answer->tool_calls[i];

		if (call.unnamed)
			call.id = psprintf("call_%s", new_id(run) + strlen("msg-"));
		call.unnamed = false;
		if (call.name == NULL)
			call.name = "";
		if (call.args != NULL)
			p.calls[p.ncalls++] = call;
		else
			p.invalid[p.ninvalid++] = call;
	}
	msg = make(run, &p);
	MemoryContextSwitchTo(old);
	return msg;
}

/* ---------- copies ---------- */

MwMsg *
mw_msg_with_content(MwRun *run, const MwMsg *msg, JsonbValue *content)
{
	Parts		p = parts_of(msg);

	p.content = *content;
	return make_in(run, &p);
}

MwMsg *
mw_msg_with_text(MwRun *run, const MwMsg *msg, const char *text)
{
	Parts		p = parts_of(msg);

	p.content = text_value(text);
	return make_in(run, &p);
}

MwMsg *
mw_msg_with_calls(MwRun *run, const MwMsg *msg, const MwToolCall *calls, int ncalls)
{
	Parts		p = parts_of(msg);

	p.calls = unconstify(MwToolCall *, calls);
	p.ncalls = ncalls;
	return make_in(run, &p);
}

MwMsg *
mw_msg_with_metadata(MwRun *run, const MwMsg *msg, const char *key, Jsonb *value)
{
	Parts		p = parts_of(msg);
	JsonbValue	v = mw_json_value(value);

	p.metadata = mw_json_with(p.metadata, key, &v);
	return make_in(run, &p);
}

/* ---------- asking ---------- */

bool
mw_msg_is(const MwMsg *msg, const char *role)
{
	return strcmp(msg->role, role) == 0;
}

int
mw_msgs_last(List *msgs, const char *role)
{
	int			i = list_length(msgs) - 1;

	while (i >= 0 && !mw_msg_is(list_nth(msgs, i), role))
		i--;
	return i;
}

Jsonb *
mw_msgs_json(List *msgs)
{
	int			n = list_length(msgs);
	JsonbValue *values = palloc(sizeof(JsonbValue) * Max(n, 1));
	Jsonb	   *json;
	ListCell   *lc;

	n = 0;
	foreach(lc, msgs)
		values[n++] = mw_json_value(((MwMsg *) lfirst(lc))->json);
	json = mw_json_pack_array(values, n);
	pfree(values);
	return json;
}
