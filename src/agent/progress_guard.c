/*
 * progress_guard.c - ends a run whose model does the same thing again and again.
 *
 * A step is an answer with tool calls and what they returned.  Before another
 * model call is paid for, the steps at the end of the thread are compared: same
 * tools, same arguments, same results, so many times in a row, and nothing is
 * to be expected of one more.  All of it is read out of the thread, so there is
 * nothing to keep; whatever a user says begins a new count.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "agent/context.h"
#include "agent/registry.h"
#include "agent/retry_policy.h"
#include "util/json.h"
#include "util/json_push.h"

typedef struct Guard
{
	int64		most;			/* identical steps in a row */
	bool		raise;			/* an error, not a last message */
	bool		failure_only;	/* only steps all of whose calls failed */
	bool		catch;			/* a tool's error becomes a result, and so a step */
	char	   *normalizer;		/* makes results comparable; NULL for none */
} Guard;

typedef struct Step
{
	MwMsg	   *answer;
	MwMsg	  **results;		/* one for each call */
} Step;

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	static const char *const exits[] = {"error", "end", NULL};
	Guard	   *g = palloc0(sizeof(Guard));

	m->conf = g;
	g->most = mw_opt_int(m, options, "max_consecutive_identical_steps", 3, 2, PG_INT32_MAX);
	g->raise = mw_opt_choice(m, options, "exit_behavior", 0, exits) == 0;
	g->failure_only = mw_opt_bool(m, options, "failure_only", true);
	g->catch = mw_opt_bool(m, options, "catch_tool_exceptions", false);
	g->normalizer = mw_opt_function(m, options, "output_normalizer");
	if (g->normalizer == NULL && mw_opt_given(options, "output_normalizer"))
		mw_opt_wrong(m, "output_normalizer", "{\"function\": \"schema.name\"}");
}

/* The step whose last result stands at *end, which is moved before it; NULL where there is none */
static Step *
step_before(MwRun *run, int *end)
{
	int			at = *end;
	Step	   *step;
	MwMsg	   *answer;

	while (at >= 0 && mw_msg_is(list_nth(run->msgs, at), "tool"))
		at--;
	if (at < 0 || at == *end)
		return NULL;
	answer = list_nth(run->msgs, at);
	if (!mw_msg_is(answer, "assistant") || answer->ncalls == 0)
		return NULL;

	step = palloc0(sizeof(Step));
	step->answer = answer;
	step->results = mw_results_of(run->msgs, at);
	for (int i = 0; i < answer->ncalls; i++)
	{
		if (step->results[i] == NULL)
			return NULL;		/* still open */
	}
	*end = at - 1;
	return step;
}

static bool
counts(const Guard *g, const Step *step)
{
	for (int i = 0; g->failure_only && i < step->answer->ncalls; i++)
	{
		if (!step->results[i]->failed)
			return false;
	}
	return true;
}

/* What is compared of a result */
static const char *
output_of(MwRun *run, MwMiddleware *m, const MwToolCall *call, const MwMsg *result)
{
	const Guard *g = m->conf;
	JsonbParseState *st = NULL;
	Jsonb	   *made;
	JsonbValue *v;

	if (g->normalizer == NULL)
		return result->text;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "tool", call->name);
	push_member(&st, "content", result->text);
	push_member(&st, "status", result->failed ? "error" : "success");
	made = mw_option_call(run, g->normalizer, JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)),
						  psprintf("option \"output_normalizer\" of middleware \"%s\"", m->name));
	if (made == NULL)
		return result->text;
	v = JB_ROOT_IS_SCALAR(made) ? getIthJsonbValueFromContainer(&made->root, 0) : NULL;
	return v != NULL && v->type == jbvString ? mw_value_string(v) : mw_json_canonical(made);
}

static bool
same_args(Jsonb *a, Jsonb *b)
{
	return VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0;
}

static bool
same(MwRun *run, MwMiddleware *m, const Step *a, const Step *b)
{
	if (a->answer->ncalls != b->answer->ncalls)
		return false;
	for (int i = 0; i < a->answer->ncalls; i++)
	{
		const MwToolCall *x = &a->answer->calls[i];
		const MwToolCall *y = &b->answer->calls[i];

		if (strcmp(x->name, y->name) != 0 || !same_args(x->args, y->args) ||
			a->results[i]->failed != b->results[i]->failed ||
			strcmp(output_of(run, m, x, a->results[i]), output_of(run, m, y, b->results[i])) != 0)
			return false;
	}
	return true;
}

static char *
story(const Guard *g, const Step *step)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "No progress: the same tool calls had the same result " INT64_FORMAT " times in a row (", g->most);
	for (int i = 0; i < step->answer->ncalls; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", step->answer->calls[i].name);
	appendStringInfoString(&buf, ").");
	return buf.data;
}

static MwPatch *
before_model(MwRun *run, MwMiddleware *m)
{
	const Guard *g = m->conf;
	int			end = list_length(run->msgs) - 1;
	Step	   *last = step_before(run, &end);
	MwPatch    *patch;

	if (last == NULL || !counts(g, last))
		return NULL;
	for (int64 n = 1; n < g->most; n++)
	{
		Step	   *step = step_before(run, &end);

		if (step == NULL || !same(run, m, last, step))
			return NULL;
	}
	if (g->raise)
		ereport(ERROR,
				(errcode(ERRCODE_MW_RUN_EXCEEDED),
				 errmsg("%s", story(g, last)),
				 errdetail("Middleware \"%s\" ends the run before another model call.", m->name),
				 errhint("With \"exit_behavior\": \"end\" a run ends with this as its last message.")));
	patch = mw_patch_new();
	mw_patch_put(patch, mw_msg_text(run, "assistant", story(g, last)));
	patch->jump = MW_JUMP_END;
	return patch;
}

static MwToolResponse *
wrap_tool(MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level)
{
	const Guard *g = m->conf;
	MwError    *err;
	MwToolResponse *resp;

	if (!g->catch)
		return mw_next_tool(run, level, req);
	resp = mw_try_tool(run, level, req, &err);
	if (err == NULL)
		return resp;
	return mw_tool_result(run, req->call, mw_error_fill("Error: {error}\n Please fix your mistakes.", err, req->call), true);
}

static const char *const options[] = {
	"catch_tool_exceptions", "exit_behavior", "failure_only", "max_consecutive_identical_steps", "output_normalizer", NULL
};

const MwMiddlewareType mw_progress_guard = {
	.type = "progress_guard",
	.options = options,
	.read = read_options,
	.before_model = before_model,
	.wrap_tool = wrap_tool,
};
