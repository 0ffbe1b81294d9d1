/*
 * tool_error.c - makes errors of tools messages that the model reads, where its
 * owner has words for them; every other error leaves the run.
 */
#include "mw.h"

#include "agent/registry.h"
#include "agent/retry_policy.h"
#include "agent/tool.h"
#include "util/json.h"
#include "util/names.h"
#include "util/sqlstate.h"

typedef struct ByName
{
	char	   *name;
	char	   *message;
} ByName;

typedef struct ToolError
{
	const char *key;			/* the option that says what to do */
	char	   *message;		/* for all errors, or */
	List	   *by_name;		/* of ByName *: for some, or */
	char	   *function;		/* what it returns; NULL lets the error go on */
	bool		some;			/* not all tools ... */
	List	   *tools;			/* ... but these */
} ToolError;

#define ON_ERROR "{\"message\": \"...\"}, {\"by_name\": {\"unique_violation\": \"...\"}} or {\"function\": \"schema.name\"}"

static void
read_by_name(MwMiddleware *m, ToolError *e, Jsonb *json)
{
	MwJsonEach	each;
	List	   *names = NIL;

	if (!mw_json_is_object(json))
		mw_opt_wrong(m, e->key, ON_ERROR);
	each = mw_json_each(&json->root);
	while (mw_json_next(&each))
	{
		ByName	   *one;

		if (each.value.type != jbvString)
			mw_opt_wrong(m, e->key, ON_ERROR);
		one = palloc0(sizeof(ByName));
		one->name = mw_value_string(&each.key);
		one->message = mw_value_string(&each.value);
		e->by_name = lappend(e->by_name, one);
		names = lappend(names, one->name);
	}
	if (names == NIL)
		mw_opt_wrong(m, e->key, ON_ERROR);
	mw_error_check_names(m, e->key, names);
}

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	static const char *const keys[] = {"by_name", "message", NULL};
	ToolError  *e = palloc0(sizeof(ToolError));
	JsonbValue *v;

	/* LangChain's aon_error is on_error for callers that do not block; here it stands in for it */
	m->conf = e;
	e->key = mw_opt_given(options, "on_error") || !mw_opt_given(options, "aon_error") ? "on_error" : "aon_error";
	v = mw_json_get(options, e->key);
	if (!mw_value_is_object(v))
		mw_opt_wrong(m, e->key, ON_ERROR);
	e->function = mw_opt_function(m, options, e->key);
	if (e->function == NULL)
	{
		Jsonb	   *json = JsonbValueToJsonb(v);

		mw_json_check_keys(json, "member", psprintf("option \"%s\" of middleware \"%s\"", e->key, m->name), keys);
		e->message = mw_json_get_text(json, "message");
		if (mw_opt_given(json, "by_name"))
			read_by_name(m, e, mw_json_get_jsonb(json, "by_name"));
		if ((e->message == NULL) == (e->by_name == NIL))
			mw_opt_wrong(m, e->key, ON_ERROR);
	}
	e->some = mw_opt_given(options, "tools");
	e->tools = mw_opt_tools(m, options, "tools");
}

/* The nearest name: the code itself before its class */
static const char *
message_for(const ToolError *e, const MwError *err)
{
	const char *message = e->message;
	int			best = 0;
	ListCell   *lc;

	foreach(lc, e->by_name)
	{
		const ByName *one = lfirst(lc);
		int			match = mw_condition_match(one->name, err->edata->sqlerrcode);

		if (match > best)
		{
			best = match;
			message = one->message;
		}
	}
	return message;
}

/* The result that stands for the error, NULL where it goes on */
static MwToolResponse *
result_for(MwRun *run, MwMiddleware *m, const MwError *err, const MwToolCall *call)
{
	const ToolError *e = m->conf;
	const char *message;
	Jsonb	   *content;
	JsonbValue *v;
	char	   *what;

	if (e->function == NULL)
	{
		message = message_for(e, err);
		return message == NULL ? NULL : mw_tool_result(run, call, mw_error_fill(message, err, call), true);
	}
	what = psprintf("option \"%s\" of middleware \"%s\"", e->key, m->name);
	content = mw_option_call(run, e->function, mw_error_json(err, call), what);
	if (content == NULL)
		return NULL;
	if (JB_ROOT_IS_SCALAR(content))
	{
		v = getIthJsonbValueFromContainer(&content->root, 0);
		if (v->type == jbvString)
			return mw_tool_result(run, call, mw_value_string(v), true);
	}
	else if (mw_json_is_array(content))
	{
		MwToolResponse *resp = palloc0(sizeof(MwToolResponse));

		resp->msg = mw_msg_tool_parts(run, call, mw_tool_redact_json(run, content), true);
		return resp;
	}
	ereport(ERROR,
			(errcode(ERRCODE_MW_HOOK_FAILED),
			 errmsg("the function of %s returned neither a text nor a list of content parts", what),
			 errdetail("It is %s.", e->function),
			 errhint("NULL lets the error go on.")));
}

static MwToolResponse *
wrap_tool(MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level)
{
	const ToolError *e = m->conf;
	MwError    *err;
	MwToolResponse *resp;

	if (e->some && !mw_lists(e->tools, req->call->name))
		return mw_next_tool(run, level, req);
	resp = mw_try_tool(run, level, req, &err);
	if (err == NULL)
		return resp;
	resp = result_for(run, m, err, req->call);
	if (resp == NULL)
		mw_rethrow(run, err);
	return resp;
}

static const char *const options[] = {"aon_error", "on_error", "tools", NULL};

const MwMiddlewareType mw_tool_error = {
	.type = "tool_error",
	.options = options,
	.read = read_options,
	.wrap_tool = wrap_tool,
};
