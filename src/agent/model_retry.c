/*
 * model_retry.c - asks a model again that failed.
 *
 * Its tries are what an agent's owner asked for, so each is a call of its own
 * that may pay again, also after an unknown outcome; the retry stage of an agent
 * that has this middleware sends once.  The first try may be answered by the
 * cache, a further one not.
 */
#include "mw.h"

#include "agent/registry.h"
#include "agent/retry_policy.h"

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	m->conf = mw_retry_read(m, options);
}

static MwModelResponse *
wrap_model(MwRun *run, MwMiddleware *m, const MwModelRequest *req, int level)
{
	const MwRetryPolicy *p = m->conf;

	for (int64 n = 0;; n++)
	{
		MwError    *err;
		MwModelResponse *resp = mw_try_model(run, level, req, &err);
		char	   *text;

		if (err == NULL)
			return resp;
		if (!mw_retry_applies(run, m, p, err, NULL))
			mw_rethrow(run, err);
		if (n < p->max_retries && mw_retry_wait(run, p, n, err))
		{
			MwModelRequest *again = mw_request_copy(req);

			again->fresh = true;
			req = again;
			continue;
		}
		text = mw_retry_failure(run, m, p, err, NULL, psprintf("Model call failed after %s", mw_retry_story(n + 1, err)));
		if (text == NULL)
			mw_rethrow(run, err);
		return mw_response_of(mw_msg_text(run, "assistant", text));
	}
}

static const char *const options[] = {MW_RETRY_OPTIONS, NULL};

const MwMiddlewareType mw_model_retry = {
	.type = "model_retry",
	.options = options,
	.read = read_options,
	.wrap_model = wrap_model,
};
