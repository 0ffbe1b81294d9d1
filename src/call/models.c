/*
 * models.c - which models a call may ask: the one that is named, and those that
 * it falls back to.
 *
 * All of them are looked up before the first stage, with their servers, rights
 * and parameters, so that a wrong name is an error before anything is sent and
 * the stages only move on in a list.  A fallback that the call names must be
 * usable by its caller, as the first model must.  One that the tenant's settings
 * name is left out for callers who cannot use it: an administrator's list serves
 * many roles, and it must not stop those who need it least.
 *
 * A list does not mix real servers and the test double: what a test calls costs
 * nothing, and what costs is recorded durably.
 */
#include "mw.h"

#include "foreign/foreign.h"
#include "utils/builtins.h"

#include "call/call.h"
#include "call/request.h"
#include "gateway/shm.h"
#include "guc.h"
#include "policy/fallback.h"
#include "provider/provider.h"
#include "util/json.h"

/*
 * Which model: the argument, else the tenant's, else the server's setting.
 * Where a model is named, {"model": …, "model_settings": {…}} may stand.
 */
const char *
mw_model_choose(const MwCall *call, const char *named, Jsonb **settings)
{
	static const char *const keys[] = {"model", "model_settings", NULL};
	const char *model = named;

	*settings = NULL;
	if (model == NULL)
		model = call->policy->model;
	if (model == NULL && mw_guc_default_model != NULL && mw_guc_default_model[0] != '\0')
		model = mw_guc_default_model;
	if (model == NULL)
		return NULL;

	if (model[0] == '{')
	{
		char	   *why;
		Jsonb	   *json = mw_json_parse(model, strlen(model), &why);
		JsonbValue *v;

		if (!mw_json_is_object(json) || mw_json_get_text(json, "model") == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("the model is neither a name nor an object with one"),
					 errhint("A model is 'server:model', or '{\"model\": \"server:model\", \"model_settings\": {\"temperature\": 0}}'.")));
		mw_json_check_keys(json, "member", "a model", keys);
		v = mw_json_get(json, "model_settings");
		if (v != NULL)
		{
			*settings = JsonbValueToJsonb(v);
			if (!mw_json_is_object(*settings))
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("model_settings must be a JSON object"),
						 errhint("Such as '{\"model\": \"server:model\", \"model_settings\": {\"temperature\": 0}}'.")));
		}
		model = mw_json_get_text(json, "model");
	}
	return model;
}

static void
find_server(MwCall *call)
{
	if (call->model == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("no model is named"),
				 errdetail("Neither the call nor the tenant's settings nor mw.default_model names one."),
				 errhint("Name it in the call, model => 'server:model', or for the tenant: SELECT mw_alter_tenant(%s, '{\"model\": \"server:model\"}').",
						 quote_literal_cstr(call->tenant))));

	call->server = mw_server_for_model(call->model, &call->model_name);
	call->provider = mw_provider_find(call->server->api);
	if (call->provider == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("server \"%s\" has an api that mw does not speak", call->server->name),
				 errdetail("Its api is \"%s\".", call->server->api),
				 errhint("ALTER SERVER %s OPTIONS (SET api 'openai')", quote_identifier(call->server->name))));
	call->retry_unknown = call->server->retry_unknown;

	call->transport = strcmp(call->server->api, "fake") == 0 ? &mw_transport_fake : &mw_transport_gateway;
}

/* What the gateway has to look up must be there for other processes */
static void
check_committed(const MwCall *call)
{
	if (call->transport == &mw_transport_fake)
		return;
	if (!call->server->committed)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("server \"%s\" must be committed before it is called", call->server->name),
				 errdetail("Its calls are made by the gateway, another process, which does not see what this transaction has changed."),
				 errhint("COMMIT first. A server with api 'fake' can be created and called in one transaction.")));
	if (!call->policy->committed)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("tenant \"%s\" must be committed before a real server is called for it", call->tenant),
				 errdetail("What a call costs is recorded by the gateway at once, and would stay where this transaction rolls its tenant back."),
				 errhint("COMMIT first. A server with api 'fake' can be called for a tenant of the same transaction.")));
}

/* For a call that a stage makes by itself */
static void
use_model(MwCall *call)
{
	find_server(call);
	check_committed(call);
}

/*
 * The adapter for a key alone.  A server that exists says how it wants its
 * requests, which is part of what is hashed; without one the format that nearly
 * all speak stands in.
 */
static void
find_adapter(MwCall *call)
{
	const char *colon = call->model != NULL ? strchr(call->model, ':') : NULL;

	if (colon != NULL &&
		OidIsValid(get_foreign_server_oid(pnstrdup(call->model, colon - call->model), true)))
	{
		call->server = mw_server_for_model(call->model, &call->model_name);
		call->provider = mw_provider_find(call->server->api);
	}
	else if (colon != NULL)
		call->model_name = colon + 1;
	else
		call->model_name = call->model != NULL ? call->model : "";

	if (call->provider == NULL)
		call->provider = mw_provider_find("openai");
}

void
mw_models_use(MwCall *call, const char *model, MwCallUse use)
{
	call->model = model;
	find_server(call);
	if (use == MW_USE_EXPLAIN)
		return;
	check_committed(call);
	if (call->transport == &mw_transport_gateway)
		mw_require_preload("a call to a real model server");
}

/* ---------- fallbacks ---------- */

static MwChoice
choice_of(const MwCall *call)
{
	MwChoice	c = {
		.model = call->model,
		.model_name = call->model_name,
		.server = call->server,
		.provider = call->provider,
		.transport = call->transport,
		.params = call->params,
		.max_tokens = call->max_tokens,
	};

	return c;
}

static void
leave_out(MwCall *call, const char *model, const char *why)
{
	call->left_out = lappend(call->left_out, psprintf("%s was left out: %s", model, why));
}

/* The same call, of another model */
static void
add_fallback(MwCall *call, const MwInvokeArgs *args, MwCallUse use, const char *model, Jsonb *settings)
{
	MwCall		other = *call;

	other.model = model;
	other.params = NULL;
	other.max_tokens = 0;
	if (call->fallback == NULL && !mw_server_usable(model))
	{
		leave_out(call, model, "the role has no such server to use");
		return;
	}
	find_server(&other);
	if (other.transport != call->transport)
	{
		if (call->fallback != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("a real server and a fake one cannot stand in for each other"),
					 errdetail("The call is for \"%s\", and one of its fallbacks is \"%s\".", call->model, model),
					 errhint("Name models of real servers alone, or of fake ones alone.")));
		leave_out(call, model, "a real server and a fake one do not stand in for each other");
		return;
	}
	if (use == MW_USE_RUN)
		check_committed(&other);
	mw_options_read(&other, args->options, settings);
	mw_tools_check_choice(call->tools, other.params);
	call->choices[call->nchoices++] = choice_of(&other);
}

static void
find_fallbacks(MwCall *call, const MwInvokeArgs *args, MwCallUse use)
{
	Jsonb	   *spec = call->fallback != NULL ? call->fallback : call->policy->fallback;
	MwFallback *list;

	if (spec == NULL)
		return;
	list = mw_fallback_read(spec, call->fallback != NULL ? "option" : "setting");
	call->fallback_on = list->on;
	call->choices = palloc(sizeof(MwChoice) * (list->n + 1));
	call->choices[call->nchoices++] = choice_of(call);
	for (int i = 0; i < list->n; i++)
	{
		/* a tenant's list may name the very model that this call begins with */
		if (strcmp(list->models[i], call->model) != 0)
			add_fallback(call, args, use, list->models[i], list->settings[i]);
	}
}

void
mw_models_choose(MwCall *call, const MwInvokeArgs *args, MwCallUse use)
{
	Jsonb	   *settings;

	call->model = mw_model_choose(call, args->model, &settings);
	if (use == MW_USE_KEY)
		find_adapter(call);
	else
	{
		find_server(call);
		if (use == MW_USE_RUN)
		{
			check_committed(call);
			call->use_model = use_model;
		}
	}
	/* before any stage: counters, claims and the queue all lie in shared memory */
	if (use == MW_USE_RUN && call->transport == &mw_transport_gateway)
		mw_require_preload("a call to a real model server");
	mw_options_read(call, args->options, settings);
	mw_tools_check_choice(call->tools, call->params);
	if (use != MW_USE_KEY)
		find_fallbacks(call, args, use);
}
