/*
 * config.c - an agent's definition: from jsonb into what a run works with.
 *
 * The same reading serves mw_create_agent, which thereby refuses whatever can be
 * checked, and every run.  Options are named as in LangChain's Python, so that a
 * configuration pastes in as it is; a callable is {"function": "schema.name"}.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "agent/values.h"
#include "agent/structured.h"
#include "agent/thread.h"
#include "util/duration.h"
#include "util/json.h"

#define DEFAULT_MAX_TURNS	25

static const char *const agent_keys[] = {
	"allow_model", "context_schema", "description", "hook_timeout", "limits", "max_turns", "middleware", "model", "model_settings",
	"on_budget", "on_guardrail", "response_format", "resume_as", "reveal", "state", "system_message", "system_prompt", "tools", "trace", NULL
};
static const char *const limit_keys[] = {"calls", "cost", "exit_behavior", "tokens", "turns", "wall", NULL};

static _Noreturn void
wrong(const char *name, const char *key, const char *must_be)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("\"%s\" of agent \"%s\" must be %s", key, name, must_be)));
}

static char *
text_of(const char *name, Jsonb *config, const char *key)
{
	JsonbValue *v = mw_json_get(config, key);

	if (v == NULL)
		return NULL;
	if (v->type != jbvString)
		wrong(name, key, "a text");
	return mw_value_string(v);
}

static Jsonb *
object_of(const char *name, Jsonb *config, const char *key)
{
	JsonbValue *v = mw_json_get(config, key);
	Jsonb	   *json = mw_json_value_jsonb(v);

	if (v != NULL && !mw_json_is_object(json))
		wrong(name, key, "an object");
	return json;
}

static List *
texts_of(const char *name, Jsonb *config, const char *key)
{
	JsonbValue *v = mw_json_get(config, key);
	List	   *texts = NIL;
	MwJsonEach	each;

	if (v == NULL)
		return NIL;
	if (v->type == jbvBool)
		return v->val.boolean ? list_make1("*") : NIL;
	if (!mw_value_is_array(v))
		wrong(name, key, "a list of texts");
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
	{
		if (each.value.type != jbvString)
			wrong(name, key, "a list of texts");
		texts = lappend(texts, mw_value_string(&each.value));
	}
	return texts;
}

/* "error", or {"end": text} */
static char *
ending(const char *name, Jsonb *config, const char *key)
{
	JsonbValue *v = mw_json_get(config, key);
	char	   *text;

	if (v == NULL)
		return NULL;
	if (v->type == jbvString)
	{
		if (v->val.string.len != 5 || memcmp(v->val.string.val, "error", 5) != 0)
			wrong(name, key, "\"error\" or {\"end\": text}");
		return NULL;
	}
	text = v->type == jbvBinary ? mw_json_get_text(mw_json_value_jsonb(v), "end") : NULL;
	if (text == NULL)
		wrong(name, key, "\"error\" or {\"end\": text}");
	return text;
}

/* A model as text: the name, or the JSON of {"model", "model_settings"} */
static char *
model_of(const char *name, Jsonb *config)
{
	JsonbValue *v = mw_json_get(config, "model");

	if (v == NULL)
		return NULL;
	if (v->type == jbvString)
		return mw_value_string(v);
	if (!mw_value_is_object(v))
		wrong(name, "model", "a name, server:model, or {\"model\": name, \"model_settings\": {...}}");
	return mw_json_canonical(JsonbValueToJsonb(v));
}

int
mw_duration_of(JsonbValue *v, const char *what)
{
	int64		ms;

	if (v->type == jbvString)
		ms = mw_duration_ms(mw_value_string(v), what);
	else if (v->type == jbvNumeric)
		ms = mw_duration_ms(DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric))), what);
	else
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("%s must be an interval or a number of seconds", what)));
	return (int) Min(ms, PG_INT32_MAX);
}

/* ---------- middlewares ---------- */

static void
check_options(const MwMiddlewareType *kind, const char *name, Jsonb *options)
{
	int			n = 0;
	const char **allowed;

	while (kind->options[n] != NULL)
		n++;
	allowed = palloc(sizeof(char *) * (n + 3));
	memcpy(allowed, kind->options, sizeof(char *) * n);
	allowed[n++] = "name";
	allowed[n++] = "type";
	allowed[n] = NULL;
	mw_json_check_keys(options, "option", psprintf("middleware \"%s\"", name), allowed);
}

static MwMiddleware *
read_middleware(MwAgent *agent, const char *tenant, const char *model, JsonbValue *item, int index)
{
	MwMiddleware *m = palloc0(sizeof(MwMiddleware));
	Jsonb	   *options;
	char	   *type;

	if (!mw_value_is_object(item))
		wrong(agent->name, "middleware", "a list of objects with a \"type\"");
	options = JsonbValueToJsonb(item);
	type = mw_json_get_text(options, "type");
	if (type == NULL)
		wrong(agent->name, "middleware", psprintf("a list of objects with a \"type\"; known types are %s", mw_middleware_types()));
	m->kind = mw_middleware_type(type);
	if (m->kind == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is no middleware of type \"%s\"", type),
				 errhint("Types: %s.", mw_middleware_types())));
	m->name = mw_json_get_text(options, "name");
	if (m->name == NULL)
		m->name = m->kind->type;
	m->index = index;
	m->tenant = tenant;
	m->model = model;
	check_options(m->kind, m->name, options);
	m->kind->read(m, options);
	return m;
}

static void
read_middlewares(MwAgent *agent, const char *tenant, const char *model, Jsonb *config)
{
	JsonbValue *v = mw_json_get(config, "middleware");
	MwJsonEach	each;

	if (v == NULL)
		return;
	if (!mw_value_is_array(v))
		wrong(agent->name, "middleware", "a list of objects with a \"type\"");
	agent->middleware = palloc0(sizeof(MwMiddleware *) * Max(1, JsonContainerSize(v->val.binary.data)));
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
	{
		MwMiddleware *m = read_middleware(agent, tenant, model, &each.value, agent->nmiddleware);

		for (int i = 0; i < agent->nmiddleware; i++)
		{
			if (strcmp(agent->middleware[i]->name, m->name) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("agent \"%s\" has two middlewares with the name \"%s\"", agent->name, m->name),
						 errdetail("Please remove duplicate middleware instances."),
						 errhint("Or give one of them a \"name\" of its own.")));
		}
		agent->middleware[agent->nmiddleware++] = m;
		agent->retries |= strcmp(m->kind->type, "model_retry") == 0;
		if (m->kind->fields != NULL)
			agent->fields = mw_fields_join(agent->fields, m->kind->fields(m));
	}
}

/* Which hooks are shown values: true or types, for all of them; or by the name of their middleware */
static void
read_reveal(MwAgent *agent, Jsonb *config)
{
	static const char must_be[] = "true, false, an array of types of personal data, or an object with these by the names of custom middlewares";
	JsonbValue *v = mw_json_get(config, "reveal");
	MwJsonEach	each;
	MwReveal   *reveal;

	if (v == NULL)
		return;
	if (!mw_value_is_object(v))
	{
		if (!mw_reveal_read(v, &reveal))
			wrong(agent->name, "reveal", must_be);
		for (int i = 0; i < agent->nmiddleware; i++)
			if (strcmp(agent->middleware[i]->kind->type, "custom") == 0)
				agent->middleware[i]->reveal = reveal;
		return;
	}
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
	{
		char	   *name = mw_value_string(&each.key);
		bool		found = false;

		if (!mw_reveal_read(&each.value, &reveal))
			wrong(agent->name, "reveal", must_be);
		for (int i = 0; i < agent->nmiddleware; i++)
		{
			if (strcmp(agent->middleware[i]->name, name) != 0 || strcmp(agent->middleware[i]->kind->type, "custom") != 0)
				continue;
			agent->middleware[i]->reveal = reveal;
			found = true;
		}
		if (!found)
			wrong(agent->name, "reveal", psprintf("by the names of its custom middlewares, and \"%s\" is none", name));
	}
}

void
mw_agent_append(MwAgent *agent, const char *tenant, Jsonb *middleware)
{
	MwMiddleware **all = palloc(sizeof(MwMiddleware *) * (agent->nmiddleware + 1));
	JsonbValue	v;

	for (int i = 0; i < agent->nmiddleware; i++)
		all[i] = agent->middleware[i];
	v.type = jbvBinary;
	v.val.binary.data = &middleware->root;
	v.val.binary.len = VARSIZE(middleware) - VARHDRSZ;
	all[agent->nmiddleware] = read_middleware(agent, tenant, agent->model, &v, agent->nmiddleware);
	agent->middleware = all;
	agent->nmiddleware++;
}

/* ---------- the whole ---------- */

MwAgent *
mw_agent_ad_hoc(void)
{
	MwAgent    *agent = palloc0(sizeof(MwAgent));

	agent->max_turns = DEFAULT_MAX_TURNS;
	return agent;
}

MwAgent *
mw_agent_read(const char *tenant, const char *name, int version, Jsonb *config)
{
	MwAgent    *agent = mw_agent_ad_hoc();
	JsonbValue *v;
	char	   *resume;
	char	   *trace;
	const char *model;

	if (!mw_json_is_object(config))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the configuration of an agent must be an object"),
				 errhint("Such as '{\"model\": \"server:model\", \"tools\": [\"lookup_invoice\"]}'.")));
	mw_json_check_keys(config, "setting", "an agent", agent_keys);
	agent->name = name;
	agent->version = version;
	agent->model = model_of(name, config);
	model = agent->model;
	if (model != NULL && model[0] == '{')
		model = mw_json_get_text(mw_json_parse(model, strlen(model), NULL), "model");
	agent->allow_model = texts_of(name, config, "allow_model");
	agent->system_prompt = text_of(name, config, "system_prompt");
	if (agent->system_prompt == NULL)
		agent->system_prompt = text_of(name, config, "system_message");
	else if (mw_json_get(config, "system_message") != NULL)
		wrong(name, "system_message", "left out where system_prompt is given: it is the same");
	agent->model_settings = object_of(name, config, "model_settings");
	agent->context_schema = object_of(name, config, "context_schema");
	agent->response_format = object_of(name, config, "response_format");
	(void) mw_format_read(agent->response_format, model);
	agent->limits = object_of(name, config, "limits");
	if (agent->limits != NULL)
		mw_json_check_keys(agent->limits, "limit", "an agent", limit_keys);
	agent->on_budget_end = ending(name, config, "on_budget");
	agent->on_guardrail_end = ending(name, config, "on_guardrail");
	v = mw_json_get(config, "max_turns");
	if (v != NULL)
	{
		int64		n = v->type == jbvNumeric ? DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric))) : 0;

		if (n < 1 || n > PG_INT32_MAX)
			wrong(name, "max_turns", "a whole number from 1");
		agent->max_turns = (int) n;
	}
	v = mw_json_get(config, "hook_timeout");
	if (v != NULL)
		agent->hook_timeout_ms = mw_duration_of(v, "hook_timeout");
	resume = text_of(name, config, "resume_as");
	if (resume != NULL && strcmp(resume, "any") != 0 && strcmp(resume, "owner") != 0)
		wrong(name, "resume_as", "\"owner\" (the role whose run it is) or \"any\"");
	agent->resume_any = resume != NULL && strcmp(resume, "any") == 0;

	trace = text_of(name, config, "trace");
	if (trace != NULL && strcmp(trace, "steps") != 0 && strcmp(trace, "full") != 0 && strcmp(trace, "off") != 0)
		wrong(name, "trace", "\"steps\", \"full\" (with what went in and came out) or \"off\"");
	if (trace != NULL)
		agent->trace = strcmp(trace, "full") == 0 ? MW_TRACE_FULL : strcmp(trace, "off") == 0 ? MW_TRACE_OFF : MW_TRACE_STEPS;

	v = mw_json_get(config, "tools");
	if (v != NULL)
	{
		agent->tools = mw_json_value_jsonb(v);
		if (!mw_json_is_array(agent->tools))
			wrong(name, "tools", "a list of names of tools, or of schemas that the application executes");
	}
	agent->fields = mw_fields_read(object_of(name, config, "state"), psprintf("agent \"%s\"", name));
	read_middlewares(agent, tenant, model, config);
	read_reveal(agent, config);
	return agent;
}
