/*
 * middleware_options.c - reads the options of built-in middlewares.
 *
 * One reader a kind of value, so that the same mistake has the same answer in
 * every middleware: MW001 that names option and middleware, says what the value
 * must be, and lists in its hint what the middleware takes.  A value is read
 * when an agent is created and again when it runs: what was accepted is what is
 * obeyed.  JSON null means "not given", as None does in Python.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include <math.h>

#include "agent/agent.h"
#include "policy/server.h"
#include "policy/userfunc.h"
#include "util/json.h"

static char *
list_of(const char *const *words)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; words[i] != NULL; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", words[i]);
	return buf.data;
}

void
mw_opt_wrong(MwMiddleware *m, const char *key, const char *must_be)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("option \"%s\" of middleware \"%s\" must be %s", key, m->name, must_be),
			 errhint("Options of %s: %s.", m->kind->type, list_of(m->kind->options))));
}

bool
mw_opt_given(Jsonb *options, const char *key)
{
	return mw_json_get(options, key) != NULL;
}

/* ---------- numbers, truth, words ---------- */

static char *
range(const char *what, double least, double most)
{
	return isinf(most) || most >= (double) PG_INT32_MAX ? psprintf("%s from %.15g", what, least) :
		psprintf("%s from %.15g to %.15g", what, least, most);
}

double
mw_opt_number(MwMiddleware *m, Jsonb *options, const char *key, double otherwise, double least, double most)
{
	JsonbValue *v = mw_json_get(options, key);
	double		n;

	if (v == NULL)
		return otherwise;
	n = v->type == jbvNumeric ?
		DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric))) : NAN;
	if (!(n >= least && n <= most))
		mw_opt_wrong(m, key, range("a number", least, most));
	return n;
}

int64
mw_opt_int(MwMiddleware *m, Jsonb *options, const char *key, int64 otherwise, int64 least, int64 most)
{
	JsonbValue *v = mw_json_get(options, key);
	double		n;

	if (v == NULL)
		return otherwise;
	n = v->type == jbvNumeric ?
		DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric))) : NAN;
	/* a double holds all whole numbers that anybody counts to */
	if (!(n >= (double) least && n <= (double) Min(most, INT64CONST(1) << 53)) || n != floor(n))
		mw_opt_wrong(m, key, range("a whole number", (double) least, (double) most));
	return (int64) n;
}

bool
mw_opt_bool(MwMiddleware *m, Jsonb *options, const char *key, bool otherwise)
{
	JsonbValue *v = mw_json_get(options, key);

	if (v == NULL)
		return otherwise;
	if (v->type != jbvBool)
		mw_opt_wrong(m, key, "true or false");
	return v->val.boolean;
}

char *
mw_opt_text(MwMiddleware *m, Jsonb *options, const char *key, const char *otherwise)
{
	JsonbValue *v = mw_json_get(options, key);

	if (v == NULL)
		return otherwise == NULL ? NULL : pstrdup(otherwise);
	if (v->type != jbvString)
		mw_opt_wrong(m, key, "a text");
	return mw_value_string(v);
}

int
mw_opt_choice(MwMiddleware *m, Jsonb *options, const char *key, int otherwise, const char *const *words)
{
	JsonbValue *v = mw_json_get(options, key);

	if (v == NULL)
		return otherwise;
	for (int i = 0; v->type == jbvString && words[i] != NULL; i++)
	{
		if (strlen(words[i]) == v->val.string.len && memcmp(words[i], v->val.string.val, v->val.string.len) == 0)
			return i;
	}
	mw_opt_wrong(m, key, psprintf("one of: %s", list_of(words)));
}

/* ---------- lists ---------- */

/* The elements of an array, NIL for none of it; "what" it must be a list of */
static List *
elements(MwMiddleware *m, Jsonb *options, const char *key, const char *what)
{
	JsonbValue *v = mw_json_get(options, key);
	List	   *list = NIL;

	if (v == NULL)
		return NIL;
	if (!mw_value_is_array(v))
		mw_opt_wrong(m, key, what);
	for (uint32 i = 0; i < JsonContainerSize(v->val.binary.data); i++)
		list = lappend(list, getIthJsonbValueFromContainer(v->val.binary.data, i));
	return list;
}

List *
mw_opt_texts(MwMiddleware *m, Jsonb *options, const char *key)
{
	List	   *texts = NIL;
	ListCell   *lc;

	foreach(lc, elements(m, options, key, "a list of texts"))
	{
		JsonbValue *v = lfirst(lc);

		if (v->type != jbvString || v->val.string.len == 0)
			mw_opt_wrong(m, key, "a list of texts, none of them empty");
		texts = lappend(texts, mw_value_string(v));
	}
	return texts;
}

List *
mw_opt_statuses(MwMiddleware *m, Jsonb *options, const char *key)
{
	List	   *statuses = NIL;
	ListCell   *lc;

	foreach(lc, elements(m, options, key, "a list of HTTP statuses"))
	{
		JsonbValue *v = lfirst(lc);
		double		status = v->type == jbvNumeric ?
			DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric))) : 0;

		if (!(status >= 100 && status <= 599) || status != floor(status))
			mw_opt_wrong(m, key, "a list of HTTP statuses, from 100 to 599");
		statuses = lappend_int(statuses, (int) status);
	}
	return statuses;
}

void
mw_opt_names_tool(MwMiddleware *m, const char *key, const char *tool)
{
	MwNamedTool *named = palloc(sizeof(MwNamedTool));

	named->key = key;
	named->tool = tool;
	m->named_tools = lappend(m->named_tools, named);
}

List *
mw_opt_tools(MwMiddleware *m, Jsonb *options, const char *key)
{
	List	   *tools = mw_opt_texts(m, options, key);
	ListCell   *lc;

	foreach(lc, tools)
		mw_opt_names_tool(m, key, lfirst(lc));
	return tools;
}

/* ---------- models ---------- */

#define A_MODEL "a model, \"server:model\" or {\"model\": \"server:model\", \"model_settings\": {…}}"

/* Whether there is such a server; whether its caller may use it is asked when it is called */
static MwNamedModel *
read_model(MwMiddleware *m, const char *key, JsonbValue *v)
{
	static const char *const keys[] = {"model", "model_settings", NULL};
	MwNamedModel *model = palloc0(sizeof(MwNamedModel));
	const char *colon;

	if (v->type == jbvString)
		model->model = mw_value_string(v);
	else if (mw_value_is_object(v))
	{
		Jsonb	   *json = JsonbValueToJsonb(v);

		mw_json_check_keys(json, "member", psprintf("option \"%s\" of middleware \"%s\"", key, m->name), keys);
		model->model = mw_json_get_text(json, "model");
		model->settings = mw_json_get_jsonb(json, "model_settings");
	}
	colon = model->model == NULL ? NULL : strchr(model->model, ':');
	if (colon == NULL || colon == model->model || colon[1] == '\0' ||
		(model->settings != NULL && !mw_json_is_object(model->settings)))
		mw_opt_wrong(m, key, A_MODEL);
	(void) mw_server_find(pnstrdup(model->model, colon - model->model));
	return model;
}

char *
mw_opt_model(MwMiddleware *m, Jsonb *options, const char *key, Jsonb **settings)
{
	JsonbValue *v = mw_json_get(options, key);
	MwNamedModel *model;

	*settings = NULL;
	if (v == NULL)
		return NULL;
	model = read_model(m, key, v);
	*settings = model->settings;
	return unconstify(char *, model->model);
}

List *
mw_opt_models(MwMiddleware *m, Jsonb *options, const char *key)
{
	List	   *models = NIL;
	ListCell   *lc;

	foreach(lc, elements(m, options, key, "a list of models"))
		models = lappend(models, read_model(m, key, lfirst(lc)));
	return models;
}

/* ---------- functions ---------- */

char *
mw_opt_function(MwMiddleware *m, Jsonb *options, const char *key)
{
	static const char *const keys[] = {"function", NULL};
	static const Oid args[] = {JSONBOID, JSONBOID};
	static const Oid results[] = {JSONBOID, TEXTOID, InvalidOid};
	JsonbValue *v = mw_json_get(options, key);
	char	   *what = psprintf("option \"%s\" of middleware \"%s\"", key, m->name);
	Jsonb	   *json;
	char	   *name;

	if (!mw_value_is_object(v))
		return NULL;
	json = JsonbValueToJsonb(v);
	if (!mw_opt_given(json, "function"))
		return NULL;
	mw_json_check_keys(json, "member", what, keys);
	name = mw_json_get_text(json, "function");
	if (name == NULL)
		mw_opt_wrong(m, key, "{\"function\": \"schema.name\"}");
	return mw_userfunc_signature(name, what, lengthof(args), args, results);
}
