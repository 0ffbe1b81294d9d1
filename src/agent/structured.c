/*
 * structured.c - answers in a given form: response_format.
 *
 * Two ways lead there, as in LangChain.  Where the catalogue says that a model
 * keeps to a schema by itself (structured_output), the provider is asked for it;
 * else each schema becomes a tool that the model must call, and its arguments
 * are the answer.  What breaks the schema is told to the model in LangChain's
 * words, and the loop asks again; "handle_errors": false raises instead.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "agent/structured.h"
#include "agent/tool.h"
#include "util/json.h"
#include "util/json_push.h"

static const char *const wrapped_keys[] = {"handle_errors", "schema", "strategy", "strict", "tool_message_content", NULL};

static _Noreturn void
bad_format(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("response_format cannot be used"),
			 errdetail("%s", detail),
			 errhint("It is a JSON schema of an object, or {\"schema\": schema, \"strategy\": \"auto\", \"tool\" or \"provider\", \"handle_errors\": true, false or a text, \"tool_message_content\": text, \"strict\": true or false}.")));
}

/* A name as providers take it */
static char *
name_of(Jsonb *schema, int n)
{
	char	   *title = mw_json_get_text(schema, "title");
	char	   *name = pstrdup(title != NULL && title[0] != '\0' ? title : n == 0 ? "response_format" : psprintf("response_format_%d", n + 1));

	if (strlen(name) > 64)
		name[64] = '\0';
	for (char *p = name; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' || *p == '-'))
			*p = '_';
	return name;
}

static MwTool *
tool_of(Jsonb *schema, int n)
{
	MwTool	   *tool = palloc0(sizeof(MwTool));

	tool->kind = MW_TOOL_BUILTIN;
	tool->name = name_of(schema, n);
	tool->description = mw_json_get_text(schema, "description");
	/* name and description are the tool's, as LangChain sends them */
	tool->parameters = DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(schema), CStringGetTextDatum("title")));
	tool->parameters = DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(tool->parameters), CStringGetTextDatum("description")));
	return tool;
}

MwFormat *
mw_format_read(Jsonb *json, const char *model)
{
	MwFormat   *f;
	const MwModel *catalogue = model != NULL ? mw_policy_model(model) : NULL;
	JsonbValue *v;
	char	   *strategy = NULL;

	if (json == NULL)
		return NULL;
	if (!mw_json_is_object(json))
		bad_format("It is no object.");
	f = palloc0(sizeof(MwFormat));
	f->schema = json;
	f->handle_errors = true;
	v = mw_json_get(json, "schema");
	if (v != NULL)
	{
		mw_json_check_keys(json, "member", "a response_format", wrapped_keys);
		f->schema = mw_json_value_jsonb(v);
		if (!mw_json_is_object(f->schema))
			bad_format("Its schema is no object.");
		strategy = mw_json_get_text(json, "strategy");
		f->tool_message = mw_json_get_text(json, "tool_message_content");
		v = mw_json_get(json, "strict");
		f->strict = v != NULL && v->type == jbvBool && v->val.boolean;
		v = mw_json_get(json, "handle_errors");
		if (v != NULL && v->type == jbvBool)
			f->handle_errors = v->val.boolean;
		else if (v != NULL && v->type == jbvString)
			f->error_text = mw_value_string(v);
		else if (v != NULL)
			bad_format("handle_errors is neither true, false nor a text.");
	}
	f->name = name_of(f->schema, 0);
	if (strategy == NULL || strcmp(strategy, "auto") == 0)
		f->by_tool = catalogue == NULL || !catalogue->structured_output;
	else if (strcmp(strategy, "tool") == 0)
		f->by_tool = true;
	else if (strcmp(strategy, "provider") != 0)
		bad_format("Its strategy is none of auto, tool and provider.");

	v = mw_json_get(f->schema, "oneOf");
	if (f->by_tool && mw_value_is_array(v))
	{
		MwJsonEach	each = mw_json_each(v->val.binary.data);

		while (mw_json_next(&each))
		{
			if (!mw_value_is_object(&each.value))
				bad_format("A schema of its oneOf is no object.");
			f->tools = lappend(f->tools, tool_of(JsonbValueToJsonb(&each.value), list_length(f->tools)));
		}
	}
	else if (f->by_tool)
		f->tools = list_make1(tool_of(f->schema, 0));
	return f;
}

Jsonb *
mw_format_option(const MwFormat *f)
{
	JsonbParseState *st = NULL;
	JsonbValue	v;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "type", "json_schema");
	push_key(&st, "json_schema");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "name", f->name);
	push_key(&st, "schema");
	mw_push_jsonb(&st, WJB_VALUE, f->schema);
	if (f->strict)
	{
		v.type = jbvBool;
		v.val.boolean = true;
		push_key(&st, "strict");
		pushJsonbValue(&st, WJB_VALUE, &v);
	}
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

const MwModelRequest *
mw_structured_request(MwRun *run, const MwModelRequest *req)
{
	static JsonbValue any = {.type = jbvString, .val.string = {.val = "required", .len = 8}};
	MwModelRequest *copy;

	if (req->format == NULL || !req->format->by_tool)
		return req;
	copy = mw_request_copy(req);
	copy->tools = list_concat_copy(req->tools, req->format->tools);
	copy->tool_choice = &any;	/* whatever a hook has asked for, as in LangChain */
	return copy;
}

static MwTool *
find_tool(const MwFormat *format, const char *name)
{
	return format == NULL ? NULL : mw_tools_find(format->tools, name);
}

/* What is wrong goes to the model, or out */
static char *
error_message(const MwFormat *f, const char *error)
{
	if (!f->handle_errors)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ANSWER),
				 errmsg("the model did not answer in the form that was asked for"),
				 errdetail("%s", error)));
	return f->error_text != NULL ? pstrdup(f->error_text) : psprintf("Error: %s\n Please fix your mistakes.", error);
}

/* Its status is success, whatever it says: so it is in LangChain */
static void
add_result(MwRun *run, MwModelResponse *resp, const MwToolCall *call, const char *text)
{
	resp->messages = lappend(resp->messages, mw_msg_tool(run, call, text, false));
}

/* The arguments of a structured call, as its schema has them; NULL where *breach says what is wrong with them */
static Jsonb *
answer_in(const MwFormat *f, const MwToolCall *call, char **breach)
{
	MwTool	   *tool = find_tool(f, call->name);
	Jsonb	   *args = mw_tool_forgiven(tool->parameters, call->args);

	*breach = mw_schema_breach(tool->parameters, args);
	return *breach == NULL ? args : NULL;
}

static void
by_tool(MwRun *run, const MwFormat *f, MwModelResponse *resp, MwMsg *answer)
{
	StringInfoData names;
	MwToolCall *one = NULL;
	int			n = 0;
	Jsonb	   *args;
	char	   *breach;

	initStringInfo(&names);
	for (int i = 0; i < answer->ncalls; i++)
	{
		if (find_tool(f, answer->calls[i].name) == NULL)
			continue;
		appendStringInfo(&names, "%s%s", n > 0 ? ", " : "", answer->calls[i].name);
		one = &answer->calls[i];
		n++;
	}
	if (n == 0)
		return;
	if (n > 1)
	{
		char	   *text = error_message(f, psprintf("Model incorrectly returned multiple structured responses (%s) when only one is expected.", names.data));

		for (int i = 0; i < answer->ncalls; i++)
			if (find_tool(f, answer->calls[i].name) != NULL)
				add_result(run, resp, &answer->calls[i], text);
		return;
	}
	args = answer_in(f, one, &breach);
	if (breach != NULL)
	{
		add_result(run, resp, one, error_message(f, psprintf("Failed to parse structured output for tool '%s': %s.", one->name, breach)));
		return;
	}
	resp->structured = args;
	add_result(run, resp, one, f->tool_message != NULL ? f->tool_message :
			   psprintf("Returning structured response: %s", mw_json_canonical(args)));
}

static void
by_provider(MwRun *run, const MwFormat *f, MwModelResponse *resp, MwMsg *answer)
{
	char	   *why = NULL;
	Jsonb	   *json;
	char	   *breach;

	if (answer->ncalls > 0)
		return;
	json = mw_json_parse(answer->text, strlen(answer->text), &why);
	breach = json == NULL ? psprintf("it is no JSON: %s", why) : mw_schema_breach(f->schema, json);
	if (breach != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ANSWER),
				 errmsg("the model did not answer in the form that was asked for"),
				 errdetail("Failed to parse structured output for '%s': %s.", f->name, breach)));
	resp->structured = json;
}

MwModelResponse *
mw_structured_response(MwRun *run, const MwModelRequest *req, MwMsg *answer)
{
	MwModelResponse *resp = mw_response_of(answer);

	if (req->format == NULL)
		return resp;
	if (req->format->by_tool)
		by_tool(run, req->format, resp, answer);
	else
		by_provider(run, req->format, resp, answer);
	return resp;
}

bool
mw_structured_is(MwRun *run, const char *tool)
{
	return find_tool(run->format, tool) != NULL;
}

bool
mw_structured_done(MwRun *run, const MwMsg *answer, MwMsg **results)
{
	for (int i = 0; run->format != NULL && i < answer->ncalls; i++)
	{
		MwMsg	   *msg = results[i];

		if (msg != NULL && msg->name != NULL && !msg->failed && find_tool(run->format, msg->name) != NULL)
			return true;
	}
	return false;
}

bool
mw_structured_again(MwRun *run)
{
	return run->format != NULL && run->format->by_tool && run->structured == NULL && run->ended_by == NULL;
}

void
mw_structured_restore(MwRun *run)
{
	MwMsg	  **results;
	MwMsg	   *answer = mw_last_answer(run, &results);
	int			n = 0;

	for (int i = 0; answer != NULL && i < answer->ncalls; i++)
	{
		char	   *breach;

		if (find_tool(run->format, answer->calls[i].name) == NULL)
			continue;
		/* of several ones none counts */
		run->structured = n++ == 0 && results[i] != NULL ? answer_in(run->format, &answer->calls[i], &breach) : NULL;
	}
}
