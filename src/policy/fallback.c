/*
 * fallback.c - reads a list of fallback models.
 *
 *   ["s:a", {"model": "s:b", "model_settings": {"temperature": 0}}]
 *   {"models": [...], "on": [404]}
 *   false, or [], for none
 *
 * mw_create_tenant checks a list by reading it; a call reads it again, so that
 * what was accepted is what is obeyed.  Whether the servers exist and may be
 * used is asked at the call: they come and go, and so do rights.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "policy/fallback.h"
#include "policy/settings.h"
#include "util/json.h"

#define MAX_FALLBACKS	8		/* more is a tour of the market while a caller waits */

#define HINT_FORM "A list of models, [\"server:model\", {\"model\": \"server:other\", \"model_settings\": {\"temperature\": 0}}], or an object with it, {\"models\": [...], \"on\": [404]}; false is none."

static _Noreturn void
wrong(const char *what, const char *must)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("%s \"fallback\" %s", what, must),
			 errhint(HINT_FORM)));
}

static void
read_model(MwFallback *f, JsonbValue *v, const char *what)
{
	static const char *const keys[] = {"model", "model_settings", NULL};
	char	   *model = NULL;
	Jsonb	   *settings = NULL;

	if (v->type == jbvString)
		model = mw_value_string(v);
	else if (mw_value_is_object(v))
	{
		Jsonb	   *json = JsonbValueToJsonb(v);
		JsonbValue *inner = mw_json_get(json, "model_settings");

		mw_json_check_keys(json, "member", "a model", keys);
		model = mw_json_get_text(json, "model");
		if (inner != NULL && inner->type != jbvNull)
		{
			settings = mw_json_value_jsonb(inner);
			if (!mw_json_is_object(settings))
				wrong(what, "has model_settings that are no object");
		}
	}
	if (model == NULL)
		wrong(what, "has a member that names no model");
	mw_check_model_name(model, psprintf("a model of %s \"fallback\"", what));
	for (int i = 0; i < f->n; i++)
	{
		if (strcmp(f->models[i], model) == 0)
			wrong(what, psprintf("names the model \"%s\" twice", model));
	}
	if (f->n >= MAX_FALLBACKS)
		wrong(what, psprintf("must have at most %d models", MAX_FALLBACKS));
	f->models[f->n] = model;
	f->settings[f->n++] = settings;
}

static void
read_models(MwFallback *f, JsonbContainer *array, const char *what)
{
	for (uint32 i = 0; i < JsonContainerSize(array); i++)
		read_model(f, getIthJsonbValueFromContainer(array, i), what);
}

static void
read_on(MwFallback *f, JsonbValue *v, const char *what)
{
	JsonbContainer *array;

	if (!mw_value_is_array(v))
		wrong(what, "has an \"on\" that is no list of HTTP statuses");
	array = v->val.binary.data;
	for (uint32 i = 0; i < JsonContainerSize(array); i++)
	{
		JsonbValue *one = getIthJsonbValueFromContainer(array, i);
		double		status = one->type == jbvNumeric ?
			DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(one->val.numeric))) : 0;

		if (!(status >= 300 && status <= 499) || status != (int) status)
			wrong(what, "has an \"on\" with something other than a status from 300 to 499");
		f->on = list_append_unique_int(f->on, (int) status);
	}
}

MwFallback *
mw_fallback_read(Jsonb *spec, const char *what)
{
	static const char *const keys[] = {"models", "on", NULL};
	MwFallback *f = palloc0(sizeof(MwFallback));
	JsonbValue *v;

	f->models = palloc(sizeof(char *) * MAX_FALLBACKS);
	f->settings = palloc(sizeof(Jsonb *) * MAX_FALLBACKS);
	if (JB_ROOT_IS_SCALAR(spec))
	{
		v = getIthJsonbValueFromContainer(&spec->root, 0);
		if (v->type != jbvBool || v->val.boolean)
			wrong(what, "must be a list of models, an object or false");
	}
	else if (JB_ROOT_IS_ARRAY(spec))
		read_models(f, &spec->root, what);
	else
	{
		mw_json_check_keys(spec, "member", "\"fallback\"", keys);
		v = mw_json_get(spec, "models");
		if (!mw_value_is_array(v))
			wrong(what, "has no list \"models\"");
		read_models(f, v->val.binary.data, what);
		v = mw_json_get(spec, "on");
		if (v != NULL && v->type != jbvNull)
			read_on(f, v, what);
	}
	return f;
}
