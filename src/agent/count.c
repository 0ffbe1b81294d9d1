/*
 * count.c - how large is a context, and is that as large as an option says.
 *
 * The count is LangChain's approximation: a quarter of the characters and three
 * tokens for each message, rounded up message by message so that parts add up to
 * the whole.  mw counts bytes where LangChain counts characters: for texts in
 * ASCII that is the same, and for others, where a character is a token and more,
 * a quarter of the characters would be a third of the truth or less.
 */
#include "mw.h"

#include <math.h>

#include "utils/builtins.h"
#include "utils/numeric.h"

#include "agent/context.h"
#include "policy/policy.h"
#include "util/json.h"
#include "util/json_push.h"

#define TOKENS_A_MESSAGE	3
#define TOKENS_AN_IMAGE		85	/* as a provider counts a small one, whatever its bytes */
#define BYTES_A_TOKEN		4
/* what {'name': '', 'args': , 'id': '', 'type': 'tool_call'} and a comma are, around a call's name, arguments and id */
#define BYTES_A_CALL		55

/* ---------- counting ---------- */

/* Bytes of one part of a content; an image adds to *tokens instead */
static int64
part_bytes(JsonbValue *part, int64 *tokens)
{
	Jsonb	   *json;
	char	   *type;
	int64		bytes;

	if (part->type == jbvString)
		return part->val.string.len;
	json = JsonbValueToJsonb(part);
	type = mw_json_is_object(json) ? mw_json_get_text(json, "type") : NULL;
	if (type != NULL && (strcmp(type, "image") == 0 || strcmp(type, "image_url") == 0))
	{
		*tokens += TOKENS_AN_IMAGE;
		return 0;
	}
	if (type != NULL && strcmp(type, "text") == 0)
	{
		JsonbValue *text = mw_json_get(json, "text");

		return text != NULL && text->type == jbvString ? text->val.string.len : 0;
	}
	bytes = strlen(mw_json_canonical(json));
	pfree(json);
	return bytes;
}

int64
mw_count_msg(const MwMsg *msg)
{
	JsonbValue *content = mw_json_get(msg->json, "content");
	int64		tokens = TOKENS_A_MESSAGE;
	int64		bytes = strlen(msg->role);

	if (mw_value_is_array(content))
	{
		for (uint32 i = 0; i < JsonContainerSize(content->val.binary.data); i++)
			bytes += part_bytes(getIthJsonbValueFromContainer(content->val.binary.data, i), &tokens);
	}
	else
		bytes += strlen(msg->text);
	for (int i = 0; i < msg->ncalls; i++)
	{
		char	   *args = mw_json_canonical(msg->calls[i].args);

		bytes += BYTES_A_CALL + strlen(msg->calls[i].name) + strlen(msg->calls[i].id) + strlen(args);
		pfree(args);
	}
	if (msg->tool_call_id != NULL)
		bytes += strlen(msg->tool_call_id);
	if (msg->name != NULL)
		bytes += strlen(msg->name);
	return tokens + (bytes + BYTES_A_TOKEN - 1) / BYTES_A_TOKEN;
}

int64
mw_count_msgs(List *msgs)
{
	int64		tokens = 0;
	ListCell   *lc;

	foreach(lc, msgs)
		tokens += mw_count_msg(lfirst(lc));
	return tokens;
}

int64
mw_count_by(MwRun *run, const char *counter, List *msgs)
{
	Jsonb	   *answer;
	JsonbValue *v;
	double		n;

	if (counter == NULL)
		return mw_count_msgs(msgs);
	answer = mw_option_call(run, counter, mw_msgs_json(msgs), "option \"token_counter\"");
	v = answer != NULL && JB_ROOT_IS_SCALAR(answer) ? getIthJsonbValueFromContainer(&answer->root, 0) : NULL;
	n = v == NULL || v->type != jbvNumeric ? NAN :
		DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));
	if (!(n >= 0 && n <= (double) PG_INT32_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_MW_HOOK_FAILED),
				 errmsg("the function of option \"token_counter\" returned no count"),
				 errdetail("It must return the number of tokens of the messages that it is given."),
				 errhint("Such as CREATE FUNCTION app.count(messages jsonb, runtime jsonb) RETURNS jsonb ....")));
	return (int64) n;
}

int64
mw_reported_tokens(const MwMsg *msg)
{
	Jsonb	   *metadata = mw_json_get_jsonb(msg->json, "metadata");
	Jsonb	   *usage = mw_json_is_object(metadata) ? mw_json_get_jsonb(metadata, "usage") : NULL;
	static const char *const parts[] = {"input_tokens", "output_tokens"};
	int64		tokens = 0;

	if (!mw_json_is_object(usage))
		return 0;
	for (int i = 0; i < lengthof(parts); i++)
	{
		JsonbValue *v = mw_json_get(usage, parts[i]);
		double		n = v == NULL || v->type != jbvNumeric ? 0 :
			DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));

		if (n > 0 && n <= (double) PG_INT32_MAX)
			tokens += (int64) n;
	}
	return tokens;
}

int64
mw_model_context(MwRun *run, const char *model)
{
	const MwModel *row;

	if (model == NULL && run != NULL)
		model = run->first_model;
	row = model == NULL ? NULL : mw_policy_model(model);
	return row == NULL ? 0 : row->max_input_tokens;
}

/* ---------- sizes ---------- */

#define A_SIZE	"{\"tokens\": n}, {\"messages\": n} or {\"fraction\": 0 to 1}"

static void
read_part(MwMiddleware *m, const char *key, const char *unit, JsonbValue *v, MwSize *size)
{
	double		n = v->type != jbvNumeric ? NAN :
		DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));

	if (strcmp(unit, "fraction") == 0)
	{
		if (!(n > 0 && n <= 1))
			mw_opt_wrong(m, key, "a fraction over 0 and up to 1");
		size->fraction = n;
		return;
	}
	if (strcmp(unit, "tokens") != 0 && strcmp(unit, "messages") != 0)
		mw_opt_wrong(m, key, A_SIZE);
	if (!(n >= 1 && n <= (double) PG_INT32_MAX) || n != floor(n))
		mw_opt_wrong(m, key, psprintf("a whole number of %s from 1", unit));
	if (unit[0] == 't')
		size->tokens = (int64) n;
	else
		size->messages = (int64) n;
}

/* ["tokens", 3000], as Python's tuples become JSON */
static bool
is_pair(JsonbValue *v)
{
	return mw_value_is_array(v) && JsonContainerSize(v->val.binary.data) == 2 &&
		getIthJsonbValueFromContainer(v->val.binary.data, 0)->type == jbvString;
}

MwSize *
mw_size_read(MwMiddleware *m, const char *key, JsonbValue *v, bool several)
{
	MwSize	   *size = palloc0(sizeof(MwSize));
	MwJsonEach	each;

	if (is_pair(v))
	{
		JsonbValue *unit = getIthJsonbValueFromContainer(v->val.binary.data, 0);

		read_part(m, key, mw_value_string(unit),
				  getIthJsonbValueFromContainer(v->val.binary.data, 1), size);
		return size;
	}
	if (!mw_value_is_object(v) || JsonContainerSize(v->val.binary.data) == 0)
		mw_opt_wrong(m, key, A_SIZE);
	if (!several && JsonContainerSize(v->val.binary.data) != 1)
		mw_opt_wrong(m, key, "one size: " A_SIZE);
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
		read_part(m, key, mw_value_string(&each.key), &each.value, size);
	return size;
}

List *
mw_sizes_read(MwMiddleware *m, const char *key, JsonbValue *v)
{
	List	   *sizes = NIL;

	if (v == NULL)
		return NIL;
	if (!mw_value_is_array(v) || is_pair(v))
		return list_make1(mw_size_read(m, key, v, true));
	for (uint32 i = 0; i < JsonContainerSize(v->val.binary.data); i++)
		sizes = lappend(sizes, mw_size_read(m, key, getIthJsonbValueFromContainer(v->val.binary.data, i), true));
	return sizes;
}

int64
mw_size_tokens(const MwSize *size, int64 context)
{
	if (size->tokens > 0)
		return size->tokens;
	if (size->fraction > 0 && context > 0)
		return Max(1, (int64) ((double) context * size->fraction));
	return 0;
}

static bool
reached(const MwSize *size, int64 tokens, int64 messages, int64 context)
{
	if (size->messages > 0 && messages < size->messages)
		return false;
	if (size->tokens > 0 && tokens < size->tokens)
		return false;
	if (size->fraction > 0)
	{
		MwSize		fraction = {.fraction = size->fraction};
		int64		threshold = mw_size_tokens(&fraction, context);

		if (threshold == 0 || tokens < threshold)
			return false;
	}
	return true;
}

bool
mw_sizes_reached(List *sizes, int64 tokens, int64 messages, int64 context)
{
	ListCell   *lc;

	foreach(lc, sizes)
		if (reached(lfirst(lc), tokens, messages, context))
			return true;
	return false;
}

void
mw_size_check(MwMiddleware *m, const char *key, const MwSize *size, const char *model)
{
	if (size->fraction == 0 || model == NULL || mw_model_context(NULL, model) > 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("option \"%s\" of middleware \"%s\" is a fraction of what model \"%s\" can read, which is not known", key, m->name, model),
			 errhint("Say how much that is: SELECT mw_set_model(%s, '{\"max_input_tokens\": ...}'); or give tokens instead.",
					 quote_literal_cstr(model))));
}

char *
mw_opt_counter(MwMiddleware *m, Jsonb *options)
{
	JsonbValue *v = mw_json_get(options, "token_counter");
	char	   *signature = mw_opt_function(m, options, "token_counter");

	if (v != NULL && signature == NULL &&
		!(v->type == jbvString && v->val.string.len == 11 && memcmp(v->val.string.val, "approximate", 11) == 0))
		mw_opt_wrong(m, "token_counter", "\"approximate\" or {\"function\": \"schema.name\"}");
	return signature;
}
