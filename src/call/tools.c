/*
 * tools.c - the tools of a call: schemas that the application executes itself.
 *
 * Two spellings are taken, OpenAI's {"type": "function", "function": {…}} and
 * the bare {"name": …} inside it, and one is handed on, so that adapters and
 * the cache key see one form.  A name that the providers would refuse is
 * refused here, where the hint can say why.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "call/request.h"
#include "util/json.h"
#include "util/json_push.h"

#define MAX_TOOLS	1024		/* no provider takes as many; bounds the search for duplicates */
#define MAX_NAME	64

static const char *const typed_keys[] = {"function", "type", NULL};
static const char *const function_keys[] = {"description", "name", "parameters", "strict", NULL};

#define bad_tool(n, ...) \
	ereport(ERROR, \
			(errcode(ERRCODE_MW_BAD_ARGUMENT), \
			 errmsg("tool %d of the argument tools cannot be used", (n) + 1), \
			 errdetail(__VA_ARGS__), \
			 errhint("A tool is {\"type\": \"function\", \"function\": {\"name\": …, \"description\": …, \"parameters\": {…}}}.")))

static bool
name_is_good(const char *s, int len)
{
	if (len < 1 || len > MAX_NAME)
		return false;
	for (int i = 0; i < len; i++)
	{
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
			  (s[i] >= '0' && s[i] <= '9') || s[i] == '_' || s[i] == '-'))
			return false;
	}
	return true;
}

static void
push_value(JsonbParseState **state, const char *name, JsonbValue *v)
{
	push_key(state, name);
	pushJsonbValue(state, WJB_VALUE, v);
}

/* Append one tool in the typed form; *name gets its name */
static void
push_tool(JsonbParseState **state, int n, JsonbValue *item, JsonbValue *name)
{
	Jsonb	   *tool = JsonbValueToJsonb(item);
	JsonbValue *v;

	v = mw_json_get(tool, "function");
	if (v != NULL)
	{
		char	   *type = mw_json_get_text(tool, "type");

		mw_json_check_keys(tool, "member", "a tool", typed_keys);
		if (type == NULL || strcmp(type, "function") != 0)
			bad_tool(n, "Its type must be \"function\".");
		if (!mw_value_is_object(v))
			bad_tool(n, "Its function must be an object.");
		tool = JsonbValueToJsonb(v);
	}
	else if (mw_json_get(tool, "type") != NULL)
		bad_tool(n, "It has no member \"function\".");
	mw_json_check_keys(tool, "member", "a tool's function", function_keys);

	v = mw_json_get(tool, "name");
	if (v == NULL || v->type != jbvString || !name_is_good(v->val.string.val, v->val.string.len))
		bad_tool(n, "Its name must be 1 to %d letters, digits, \"_\" or \"-\".", MAX_NAME);
	*name = *v;

	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	push_key(state, "function");
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	push_value(state, "name", v);

	v = mw_json_get(tool, "description");
	if (v != NULL)
	{
		if (v->type != jbvString)
			bad_tool(n, "Its description must be a text.");
		push_value(state, "description", v);
	}
	v = mw_json_get(tool, "parameters");
	if (v != NULL)
	{
		if (!mw_value_is_object(v))
			bad_tool(n, "Its parameters must be a JSON schema, which is an object.");
		push_value(state, "parameters", v);
	}
	v = mw_json_get(tool, "strict");
	if (v != NULL)
	{
		if (v->type != jbvBool)
			bad_tool(n, "Its \"strict\" must be true or false.");
		push_value(state, "strict", v);
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);

	push_member(state, "type", "function");
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

Jsonb *
mw_tools_read(Jsonb *tools)
{
	JsonbParseState *state = NULL;
	MwJsonEach	each;
	JsonbValue *names;
	int			n = 0;

	if (tools == NULL)
		return NULL;
	if (!mw_json_is_array(tools))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("tools must be a JSON array"),
				 errhint("Such as '[{\"type\": \"function\", \"function\": {\"name\": \"lookup\", \"parameters\": {…}}}]'.")));
	if (JB_ROOT_COUNT(tools) == 0)
		return NULL;
	if (JB_ROOT_COUNT(tools) > MAX_TOOLS)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("too many tools"),
				 errdetail("There are %d, and at most %d can be given.",
						   (int) JB_ROOT_COUNT(tools), MAX_TOOLS),
				 errhint("Give those that this call may need.")));

	names = palloc(JB_ROOT_COUNT(tools) * sizeof(JsonbValue));
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	each = mw_json_each(&tools->root);
	while (mw_json_next(&each))
	{
		if (each.value.type == jbvString)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("tool %d of the argument tools is a name, where its schema is needed", n + 1),
					 errhint("SELECT mw_describe_tool(tenant, tool) gives the schema of a registered tool.")));
		if (!mw_value_is_object(&each.value))
			bad_tool(n, "It is not an object.");

		push_tool(&state, n, &each.value, &names[n]);
		for (int i = 0; i < n; i++)
		{
			if (names[i].val.string.len == names[n].val.string.len &&
				memcmp(names[i].val.string.val, names[n].val.string.val, names[n].val.string.len) == 0)
				bad_tool(n, "Tool %d has the same name.", i + 1);
		}
		n++;
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL));
}

static bool
has_tool(Jsonb *tools, const char *name)
{
	MwJsonEach	each = mw_json_each(&tools->root);

	while (mw_json_next(&each))
	{
		char	   *its = mw_json_get_text(mw_json_get_jsonb(JsonbValueToJsonb(&each.value), "function"), "name");

		if (its != NULL && strcmp(its, name) == 0)
			return true;
	}
	return false;
}

/* Parameters that speak of tools need some: a provider refuses them alone. */
void
mw_tools_check_choice(Jsonb *tools, Jsonb *params)
{
	JsonbValue *choice;

	if (params == NULL)
		return;
	choice = mw_json_get(params, "tool_choice");
	if (tools == NULL && (choice != NULL || mw_json_get(params, "parallel_tool_calls") != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("option \"%s\" needs tools",
						choice != NULL ? "tool_choice" : "parallel_tool_calls"),
				 errhint("Give them in the argument tools, or leave the option out.")));

	if (choice != NULL && choice->type == jbvBinary)
	{
		char	   *name = mw_json_get_text(mw_json_get_jsonb(JsonbValueToJsonb(choice), "function"), "name");

		if (name == NULL || !has_tool(tools, name))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("option \"tool_choice\" names a tool that is not in tools"),
					 errhint("Name one of the argument tools, or say \"auto\", \"required\" or \"none\".")));
	}
}
