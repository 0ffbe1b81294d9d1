/*
 * dynamic_prompt.c - the middleware whose system prompt a function writes anew
 * for each model call.
 *
 * The function sees the request as a wrap_model_call hook does, and its text
 * takes the place of the system prompt there.
 */
#include "mw.h"

#include "agent/hooks.h"
#include "agent/registry.h"
#include "util/json.h"
#include "util/json_push.h"

static const char *const option_names[] = {"function", NULL};

/* "function": "schema.name", or as every other option that takes one */
static void
read_options(MwMiddleware *m, Jsonb *options)
{
	char	   *name = mw_json_get_text(options, "function");
	char	   *signature;

	if (name != NULL)
	{
		JsonbParseState *st = NULL;

		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_key(&st, "function");
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "function", name);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
		options = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	}
	signature = mw_opt_function(m, options, "function");
	if (signature == NULL)
		mw_opt_wrong(m, "function", "given: \"schema.name\", of a function (request jsonb, runtime jsonb) that returns the system prompt");
	m->conf = signature;
}

/* A text, or the message that holds it; NULL for neither */
static char *
prompt_of(Jsonb *answer)
{
	JsonbValue *v;

	if (mw_json_is_object(answer))
	{
		char	   *role = mw_json_get_text(answer, "role");

		v = mw_json_get(answer, "content");
		return role != NULL && strcmp(role, "system") == 0 && v != NULL ? mw_json_content_text(v) : NULL;
	}
	if (!JB_ROOT_IS_SCALAR(answer))
		return NULL;
	v = getIthJsonbValueFromContainer(&answer->root, 0);
	return v->type == jbvString ? mw_value_string(v) : NULL;
}

static MwModelResponse *
wrap_model(MwRun *run, MwMiddleware *m, const MwModelRequest *req, int level)
{
	Jsonb	   *answer = mw_option_call(run, m->conf, mw_hook_request_json(run, req), psprintf("middleware \"%s\"", m->name));
	MwModelRequest *prompted = mw_request_copy(req);

	/* NULL leaves the prompt as it is */
	if (answer == NULL)
		return mw_next_model(run, level, req);
	prompted->system_prompt = prompt_of(answer);
	if (prompted->system_prompt == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_HOOK_FAILED),
				 errmsg("the function of middleware \"%s\" returned no system prompt", m->name),
				 errdetail("It must return a text, a message of role system, or NULL to leave the prompt as it is.")));
	return mw_next_model(run, level, prompted);
}

const MwMiddlewareType mw_dynamic_prompt = {
	.type = "dynamic_prompt",
	.options = option_names,
	.read = read_options,
	.wrap_model = wrap_model,
};
