/*
 * model_call_limit.c - how often a thread, or a run, may ask its model.
 *
 * Counted are turns that reached the model's node, whatever became of them: an
 * answer that a retry made up counts, what middlewares ask for themselves does
 * not.  The thread's count is a field of its state and the run's is untracked,
 * which lives as long as the run: over its pauses, and not a moment longer.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "agent/registry.h"

#define THREAD_COUNT	"thread_model_call_count"
#define RUN_COUNT		"run_model_call_count"

typedef struct Limits
{
	int64		thread;			/* -1: none */
	int64		run;
	bool		raise;			/* an error, not a last message */
} Limits;

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	static const char *const exits[] = {"end", "error", NULL};
	Limits	   *l = palloc0(sizeof(Limits));

	m->conf = l;
	l->thread = mw_opt_int(m, options, "thread_limit", -1, 0, PG_INT64_MAX);
	l->run = mw_opt_int(m, options, "run_limit", -1, 0, PG_INT64_MAX);
	l->raise = mw_opt_choice(m, options, "exit_behavior", 0, exits) == 1;
	if (l->thread < 0 && l->run < 0)
		mw_opt_wrong(m, "thread_limit", "given, or run_limit");
}

static List *
fields(MwMiddleware *m)
{
	return mw_fields_count(m->name, THREAD_COUNT, RUN_COUNT);
}

/* LangChain's words: those limits that are reached */
static char *
exceeded(const Limits *l, int64 thread, int64 run)
{
	StringInfoData buf;
	bool		both;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "Model call limits exceeded: ");
	both = l->thread >= 0 && thread >= l->thread;
	if (both)
		appendStringInfo(&buf, "thread limit (" INT64_FORMAT "/" INT64_FORMAT ")", thread, l->thread);
	if (l->run >= 0 && run >= l->run)
		appendStringInfo(&buf, "%srun limit (" INT64_FORMAT "/" INT64_FORMAT ")", both ? ", " : "", run, l->run);
	return buf.data;
}

static MwPatch *
before_model(MwRun *run, MwMiddleware *m)
{
	const Limits *l = m->conf;
	int64		of_thread = mw_state_int(run, THREAD_COUNT, 0);
	int64		of_run = mw_state_int(run, RUN_COUNT, 0);
	MwPatch    *patch;
	char	   *text;

	if ((l->thread < 0 || of_thread < l->thread) && (l->run < 0 || of_run < l->run))
		return NULL;
	text = exceeded(l, of_thread, of_run);
	if (l->raise)
		ereport(ERROR,
				(errcode(ERRCODE_MW_RUN_EXCEEDED),
				 errmsg("%s", text),
				 errdetail("Middleware \"%s\" ends the run before another model call.", m->name),
				 errhint("With \"exit_behavior\": \"end\" a run ends with this as its last message.")));
	patch = mw_patch_new();
	mw_patch_put(patch, mw_msg_text(run, "assistant", text));
	patch->jump = MW_JUMP_END;
	return patch;
}

static MwPatch *
after_model(MwRun *run, MwMiddleware *m)
{
	MwPatch    *patch = mw_patch_new();

	mw_patch_int(patch, THREAD_COUNT, mw_state_int(run, THREAD_COUNT, 0) + 1);
	mw_patch_int(patch, RUN_COUNT, mw_state_int(run, RUN_COUNT, 0) + 1);
	return patch;
}

static const char *const options[] = {"exit_behavior", "run_limit", "thread_limit", NULL};

const MwMiddlewareType mw_model_call_limit = {
	.type = "model_call_limit",
	.options = options,
	.read = read_options,
	.fields = fields,
	.before_model = before_model,
	.after_model = after_model,
};
