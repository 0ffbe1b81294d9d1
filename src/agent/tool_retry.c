/*
 * tool_retry.c - runs a tool again that failed.
 *
 * Each try is a subtransaction, so that the next one finds nothing of it.  Only
 * a tool's own error gets here: what is wrong with arguments, or a name that no
 * tool has, is a message for the model already.
 */
#include "mw.h"

#include "agent/registry.h"
#include "agent/retry_policy.h"
#include "util/names.h"

typedef struct ToolRetry
{
	MwRetryPolicy *policy;
	bool		some;			/* not all tools ... */
	List	   *tools;			/* ... but these */
} ToolRetry;

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	ToolRetry  *r = palloc0(sizeof(ToolRetry));

	m->conf = r;
	r->policy = mw_retry_read(m, options);
	r->some = mw_opt_given(options, "tools");
	r->tools = mw_opt_tools(m, options, "tools");
}

static MwToolResponse *
wrap_tool(MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level)
{
	const ToolRetry *r = m->conf;
	const MwRetryPolicy *p = r->policy;

	if (r->some && !mw_lists(r->tools, req->call->name))
		return mw_next_tool(run, level, req);
	for (int64 n = 0;; n++)
	{
		MwError    *err;
		MwToolResponse *resp = mw_try_tool(run, level, req, &err);
		char	   *text;

		if (err == NULL)
			return resp;
		if (!mw_retry_applies(run, m, p, err, req->call))
			mw_rethrow(run, err);
		if (n < p->max_retries && mw_retry_wait(run, p, n, err))
			continue;
		text = mw_retry_failure(run, m, p, err, req->call,
								psprintf("Tool '%s' failed after %s. Please try again.", req->call->name, mw_retry_story(n + 1, err)));
		if (text == NULL)
			mw_rethrow(run, err);
		return mw_tool_result(run, req->call, text, true);
	}
}

static const char *const options[] = {MW_RETRY_OPTIONS, "tools", NULL};

const MwMiddlewareType mw_tool_retry = {
	.type = "tool_retry",
	.options = options,
	.read = read_options,
	.wrap_tool = wrap_tool,
};
