/*
 * model_fallback.c - asks other models, in order, where one has failed.
 *
 * After any error, as LangChain does; which errors are not worth it can be said
 * by HTTP status.  Each model is asked by a call of its own, with its own price
 * and cache key; its settings go over those of the request, and a null among
 * them takes one away.  This is the agent's list; the one that the stages know
 * (options.fallback) is tried inside each of its calls.
 */
#include "mw.h"

#include "fmgr.h"
#include "utils/fmgrprotos.h"

#include "agent/registry.h"

typedef struct Fallback
{
	List	   *models;			/* of MwNamedModel * */
	List	   *except;			/* of int: statuses after which no other model is asked */
} Fallback;

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	Fallback   *f = palloc0(sizeof(Fallback));

	m->conf = f;
	f->models = mw_opt_models(m, options, "models");
	if (f->models == NIL)
		mw_opt_wrong(m, "models", "a list of at least one model");
	f->except = mw_opt_statuses(m, options, "except_status");
}

static MwModelRequest *
request_for(const MwModelRequest *given, const MwNamedModel *model)
{
	MwModelRequest *req = mw_request_copy(given);

	req->model = model->model;
	if (model->settings != NULL)
		req->model_settings = given->model_settings == NULL ? model->settings :
			DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(given->model_settings),
											   JsonbPGetDatum(model->settings)));
	return req;
}

static MwModelResponse *
wrap_model(MwRun *run, MwMiddleware *m, const MwModelRequest *given, int level)
{
	const Fallback *f = m->conf;
	const MwModelRequest *req = given;
	ListCell   *next = list_head(f->models);

	for (;;)
	{
		MwError    *err;
		MwModelResponse *resp = mw_try_model(run, level, req, &err);

		if (err == NULL)
			return resp;
		if (next == NULL || list_member_int(f->except, err->http_status))
			mw_rethrow(run, err);
		req = request_for(given, lfirst(next));
		next = lnext(f->models, next);
	}
}

static const char *const options[] = {"except_status", "models", NULL};

const MwMiddlewareType mw_model_fallback = {
	.type = "model_fallback",
	.options = options,
	.read = read_options,
	.wrap_model = wrap_model,
};
