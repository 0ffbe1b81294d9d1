/*
 * script_play.c - the response that a step of a script stands for.
 *
 * A step becomes the text of a real response in OpenAI's format, which then
 * goes through the same adapter as one from the network.  Nothing here is
 * random and nothing is measured: ids are counted, the time is fixed, and usage
 * that the step does not give is derived from the visible text alone, so that
 * equal conversations cost equal tokens in every test.
 */
#include "mw.h"

#include <time.h>

#include "mb/pg_wchar.h"

#include "gateway/http.h"
#include "gateway/http_text.h"
#include "gateway/script.h"
#include "util/json.h"

#define CREATED			1700000000	/* of every answer: a fixed moment */

static const struct
{
	int			status;
	const char *message;
	const char *type;
	const char *code;
}			default_errors[] = {
	{400, "Invalid request.", "invalid_request_error", "bad_request"},
	{401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"},
	{403, "Access denied.", "invalid_request_error", "access_denied"},
	{404, "The model does not exist.", "invalid_request_error", "model_not_found"},
	{408, "Request timeout.", "timeout_error", "timeout"},
	{409, "Conflict.", "invalid_request_error", "conflict"},
	{422, "Unprocessable request.", "invalid_request_error", "unprocessable"},
	{429, "Rate limit reached.", "rate_limit_error", "rate_limit_exceeded"},
	{500, "The server had an error.", "server_error", "server_error"},
	{502, "Bad gateway.", "server_error", "bad_gateway"},
	{503, "The engine is overloaded.", "server_error", "overloaded"},
};

static char *
error_body(const char *message, const char *type, const char *code)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "{\"error\": {\"message\": ");
	mw_json_string(&buf, message, strlen(message));
	appendStringInfo(&buf, ", \"type\": \"%s\", \"code\": \"%s\", \"param\": null}}", type, code);
	return buf.data;
}

static void
play_status(MwScripted *out, Jsonb *step, int status)
{
	JsonbValue *v;
	JsonbValue *headers = mw_script_get(step, "headers");
	char	   *after = NULL;
	char	   *after_ms = NULL;

	out->answered = psprintf("status %d", status);
	out->complete = true;
	out->status = status;

	/* the pause that the headers ask for, milliseconds before seconds, as the gateway reads them */
	if (headers != NULL)
	{
		MwJsonEach	each = mw_json_each(headers->val.binary.data);

		while (mw_json_next(&each))
		{
			char	   *name = mw_value_string(&each.key);
			char	   *value = each.value.type == jbvString ? mw_value_string(&each.value) : mw_script_text(&each.value);

			if (pg_strcasecmp(name, "retry-after") == 0)
				after = value;
			else if (pg_strcasecmp(name, "retry-after-ms") == 0)
				after_ms = value;
			else if (pg_strcasecmp(name, "x-should-retry") == 0)
				out->retry_forbidden = pg_strcasecmp(value, "false") == 0;
		}
	}
	if ((v = mw_script_get(step, "retry_after")) != NULL)
		after = v->type == jbvString ? mw_value_string(v) : mw_script_text(v);
	if ((v = mw_script_get(step, "retry_after_ms")) != NULL)
		after_ms = v->type == jbvString ? mw_value_string(v) : mw_script_text(v);
	if (after_ms != NULL)
		out->retry_after_ms = mw_http_decimal(after_ms, 1);
	if (out->retry_after_ms < 0 && after != NULL)
		out->retry_after_ms = mw_http_retry_after(after, (int64) time(NULL));

	v = mw_script_get(step, "body");
	if (v != NULL)
		out->body = v->type == jbvString ? mw_value_string(v) : mw_script_text(v);
	else
	{
		for (int i = 0; i < lengthof(default_errors) && out->body == NULL; i++)
		{
			if (default_errors[i].status == status)
				out->body = error_body(default_errors[i].message, default_errors[i].type, default_errors[i].code);
		}
		if (out->body == NULL)
			out->body = error_body("Error.", "error", psprintf("%d", status));
	}
}

/* A quarter of the characters, rounded up */
static int64
quarter(const char *s, int len)
{
	return (pg_mbstrlen_with_len(s, len) + 3) / 4;
}

/* What the visible text of the request is worth: the same numbers for every client that sends it */
static int64
derived_prompt_tokens(Jsonb *request)
{
	JsonbContainer *messages = mw_script_array(mw_script_get(request, "messages"));
	int			n = messages ? JsonContainerSize(messages) : 0;
	int64		tokens = 0;

	for (int i = 0; i < n; i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(messages, i);
		JsonbValue *content;
		JsonbContainer *calls;
		Jsonb	   *message;
		char	   *text;

		if (!mw_value_is_object(v))
			continue;
		message = mw_json_value_jsonb(v);
		content = mw_script_get(message, "content");
		text = mw_script_is_null(content) ? NULL : mw_json_content_text(content);
		tokens += 4 + (text ? quarter(text, strlen(text)) : 0);
		calls = mw_script_array(mw_script_get(message, "tool_calls"));
		for (int k = 0; calls != NULL && k < (int) JsonContainerSize(calls); k++)
		{
			JsonbValue *c = getIthJsonbValueFromContainer(calls, k);
			JsonbValue *function = mw_value_is_object(c) ? mw_script_get(mw_json_value_jsonb(c), "function") : NULL;
			char	   *name = mw_value_is_object(function) ? mw_json_get_text(mw_json_value_jsonb(function), "name") : NULL;

			tokens += 4 + (name ? quarter(name, strlen(name)) : 0);
		}
	}
	return tokens;
}

static void
append_usage(StringInfo buf, Jsonb *step, Jsonb *request, int64 completion)
{
	JsonbValue *v = mw_script_get(step, "usage");
	JsonbValue *in;
	JsonbValue *out;
	Jsonb	   *usage;
	int64		prompt;

	if (v == NULL)
	{
		prompt = derived_prompt_tokens(request);
		completion = Max(completion, 1);
		appendStringInfo(buf, ", \"usage\": {\"prompt_tokens\": " INT64_FORMAT ", \"completion_tokens\": " INT64_FORMAT
						 ", \"total_tokens\": " INT64_FORMAT "}", prompt, completion, prompt + completion);
		return;
	}
	if (v->type == jbvBool)
		return;					/* false: none is sent */

	appendStringInfoString(buf, ", \"usage\": ");
	appendStringInfoString(buf, mw_script_text(v));
	usage = mw_json_value_jsonb(v);
	in = mw_script_get(usage, "prompt_tokens");
	out = mw_script_get(usage, "completion_tokens");
	if (mw_script_get(usage, "total_tokens") == NULL &&
		in != NULL && in->type == jbvNumeric && out != NULL && out->type == jbvNumeric)
	{
		buf->data[--buf->len] = '\0';	/* the closing brace */
		appendStringInfo(buf, ", \"total_tokens\": %.0f}", mw_script_number(in) + mw_script_number(out));
	}
}

static void
play_answer(MwScripted *out, Jsonb *step, Jsonb *request, int n)
{
	JsonbValue *text = mw_script_get(step, "text");
	JsonbContainer *calls = mw_script_array(mw_script_get(step, "tool_calls"));
	const char *model = mw_json_get_text(request, "model");
	const char *finish = mw_json_get_text(step, "finish_reason");
	int64		completion = 0;
	StringInfoData buf;

	out->answered = calls ? "tool_calls" : "text";
	out->numbered = true;
	out->complete = true;
	out->status = 200;
	if (finish == NULL)
		finish = calls ? "tool_calls" : "stop";
	if (model == NULL)
		model = "";

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"id\": \"chatcmpl-%d\", \"object\": \"chat.completion\", \"created\": %d, \"model\": ", n, CREATED);
	mw_json_string(&buf, model, strlen(model));
	appendStringInfoString(&buf, ", \"system_fingerprint\": \"fp_script\", \"choices\": [{\"index\": 0, "
						   "\"message\": {\"role\": \"assistant\", \"content\": ");
	if (mw_script_is_null(text))
		appendStringInfoString(&buf, "null");
	else
	{
		mw_json_string(&buf, text->val.string.val, text->val.string.len);
		completion = quarter(text->val.string.val, text->val.string.len);
	}
	if (calls != NULL)
	{
		appendStringInfoString(&buf, ", \"tool_calls\": [");
		for (int i = 0; i < (int) JsonContainerSize(calls); i++)
		{
			Jsonb	   *call = mw_json_value_jsonb(getIthJsonbValueFromContainer(calls, i));
			char	   *name = mw_json_get_text(call, "name");
			char	   *id = mw_json_get_text(call, "id");
			char	   *args = mw_json_get_text(call, "arguments_raw");
			JsonbValue *v = mw_script_get(call, "arguments");

			if (id == NULL || *id == '\0')
				id = psprintf("call_%d_%d", n, i);
			if (args == NULL)
				args = v ? mw_script_text(v) : "{}";
			appendStringInfoString(&buf, i ? ", {\"id\": " : "{\"id\": ");
			mw_json_string(&buf, id, strlen(id));
			appendStringInfoString(&buf, ", \"type\": \"function\", \"function\": {\"name\": ");
			mw_json_string(&buf, name, strlen(name));
			appendStringInfoString(&buf, ", \"arguments\": ");
			mw_json_string(&buf, args, strlen(args));
			appendStringInfoString(&buf, "}}");
			completion += 4 + quarter(name, strlen(name));
		}
		appendStringInfoChar(&buf, ']');
	}
	appendStringInfoString(&buf, "}, \"logprobs\": null, \"finish_reason\": ");
	mw_json_string(&buf, finish, strlen(finish));
	appendStringInfoString(&buf, "}]");
	append_usage(&buf, step, request, completion);
	appendStringInfoChar(&buf, '}');
	out->body = buf.data;
}

/*
 * The response of a step, in the current context.  step NULL: the script has
 * run out.  n numbers the answers, for ids.
 */
MwScripted *
mw_script_play(const MwStep *step, Jsonb *request, int n)
{
	MwScripted *out = palloc0(sizeof(MwScripted));
	JsonbValue *v;
	int			status;

	out->retry_after_ms = -1;
	if (step == NULL)
	{
		char	   *model = mw_json_get_text(request, "model");

		out->answered = "exhausted";
		out->complete = true;
		out->status = 500;
		out->body = error_body(psprintf("script exhausted for model %s", model ? model : ""),
							   "server_error", "script_exhausted");
	}
	else if ((status = mw_script_int(step->json, "the step", "status", 200, 599, 200)) != 200)
		play_status(out, step->json, status);
	else if ((v = mw_script_get(step->json, "disconnect")) != NULL)
	{
		out->answered = "disconnect";
		if (v->type == jbvString)
		{
			if (strcmp(mw_value_string(v), "connect") == 0)
				out->connect_failed = true;
			else
				out->status = 200;	/* the status line came, the body did not */
		}
	}
	else if ((v = mw_script_get(step->json, "raw")) != NULL)
	{
		out->answered = "raw";
		out->complete = true;
		out->status = 200;
		out->body = mw_value_string(v);
	}
	else
		play_answer(out, step->json, request, n);

	if (step != NULL)
		out->delay_ms = mw_script_int(step->json, "the step", "delay_ms", 0, MW_SCRIPT_MAX_DELAY_MS, 0);
	if (out->body != NULL)
	{
		out->len = strlen(out->body);
		out->body = mw_json_sanitize(out->body, &out->len);
	}
	return out;
}
