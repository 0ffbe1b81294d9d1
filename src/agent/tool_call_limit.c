/*
 * tool_call_limit.c - how often a thread, or a run, may call a tool, or all tools.
 *
 * It looks at the calls of the newest answer before any of them runs, in their
 * order: a call that would go over a limit is answered here and never runs.
 * What a thread counts are calls that were let through; what a run counts are
 * those that were asked for, so that a model that insists is not let through
 * later.  Counts are kept by tool; those of all tools under "__all__".
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/numeric.h"

#include "agent/context.h"
#include "agent/registry.h"
#include "util/json.h"
#include "util/json_push.h"

#define THREAD_COUNT	"thread_tool_call_count"
#define RUN_COUNT		"run_tool_call_count"
#define ALL_TOOLS		"__all__"

#define STOPPED "Execution stopped before this tool call could run because another tool call in the same batch exceeded the limit."

typedef enum Exit
{
	EXIT_CONTINUE, EXIT_ERROR, EXIT_END
} Exit;

typedef struct Limits
{
	char	   *tool;			/* NULL: all */
	int64		thread;			/* -1: none */
	int64		run;
	Exit		exit;
} Limits;

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	static const char *const exits[] = {"continue", "error", "end", NULL};
	Limits	   *l = palloc0(sizeof(Limits));

	m->conf = l;
	l->tool = mw_opt_text(m, options, "tool_name", NULL);
	l->thread = mw_opt_int(m, options, "thread_limit", -1, 0, PG_INT64_MAX);
	l->run = mw_opt_int(m, options, "run_limit", -1, 0, PG_INT64_MAX);
	l->exit = mw_opt_choice(m, options, "exit_behavior", EXIT_CONTINUE, exits);
	if (l->tool != NULL && l->tool[0] == '\0')
		mw_opt_wrong(m, "tool_name", "the name of a tool, or left out for all tools");
	if (l->thread < 0 && l->run < 0)
		mw_opt_wrong(m, "thread_limit", "given, or run_limit");
	if (l->thread >= 0 && l->run > l->thread)
		mw_opt_wrong(m, "run_limit", psprintf("at most the thread_limit, " INT64_FORMAT, l->thread));
	if (l->tool == NULL)
		return;
	mw_opt_names_tool(m, "tool_name", l->tool);
	if (m->name == m->kind->type)
		m->name = psprintf("%s[%s]", m->kind->type, l->tool);
}

static List *
fields(MwMiddleware *m)
{
	return mw_fields_count(m->name, THREAD_COUNT, RUN_COUNT);
}

/* The counts of all tools, with one of them changed */
static void
set_count(MwRun *run, MwPatch *patch, const char *field, const char *key, int64 n)
{
	JsonbValue *old = mw_state_get(run, field);
	JsonbParseState *st = NULL;
	JsonbValue *whole;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	if (mw_value_is_object(old))
	{
		MwJsonEach	each = mw_json_each(old->val.binary.data);

		while (mw_json_next(&each))
		{
			pushJsonbValue(&st, WJB_KEY, &each.key);
			pushJsonbValue(&st, WJB_VALUE, &each.value);
		}
	}
	push_int(&st, key, n);		/* a later key wins */
	whole = pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	mw_patch_field(patch, field, whole);
}

/* LangChain's words for whoever reads the end of the run */
static char *
reached(const Limits *l, int64 thread, int64 run)
{
	StringInfoData buf;
	bool		both = l->thread >= 0 && thread > l->thread;

	initStringInfo(&buf);
	if (l->tool != NULL)
		appendStringInfo(&buf, "'%s' tool call limit reached: ", l->tool);
	else
		appendStringInfoString(&buf, "Tool call limit reached: ");
	if (both)
		appendStringInfo(&buf, "thread limit exceeded (" INT64_FORMAT "/" INT64_FORMAT " calls)", thread, l->thread);
	if (l->run >= 0 && run > l->run)
		appendStringInfo(&buf, "%srun limit exceeded (" INT64_FORMAT "/" INT64_FORMAT " calls)", both ? " and " : "", run, l->run);
	appendStringInfoChar(&buf, '.');
	return buf.data;
}

static MwPatch *
after_model(MwRun *run, MwMiddleware *m)
{
	const Limits *l = m->conf;
	const char *key = l->tool != NULL ? l->tool : ALL_TOOLS;
	int			at = mw_msgs_last(run->msgs, "assistant");
	MwMsg	   *msg = at < 0 ? NULL : list_nth(run->msgs, at);
	MwPatch    *patch;
	const char *text;
	bool	   *blocked;
	int64		before;
	int64		of_thread;
	int64		of_run;
	int			nallowed = 0;
	int			nblocked = 0;

	if (msg == NULL || msg->ncalls == 0)
		return NULL;
	blocked = palloc0(sizeof(bool) * msg->ncalls);
	before = of_thread = mw_state_count(run, THREAD_COUNT, key);
	of_run = mw_state_count(run, RUN_COUNT, key);
	for (int i = 0; i < msg->ncalls; i++)
	{
		if (l->tool != NULL && strcmp(msg->calls[i].name, l->tool) != 0)
			continue;
		if ((l->thread >= 0 && of_thread + nallowed >= l->thread) || (l->run >= 0 && of_run + nallowed >= l->run))
		{
			blocked[i] = true;
			nblocked++;
		}
		else
			nallowed++;
	}
	if (nallowed + nblocked == 0)
		return NULL;
	of_thread += nallowed;
	of_run += nallowed + nblocked;

	if (nblocked > 0 && l->exit == EXIT_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_MW_RUN_EXCEEDED),
				 errmsg("%s", reached(l, of_thread + nblocked, of_run)),
				 errdetail("Middleware \"%s\" lets none of the calls of this message run.", m->name),
				 errhint("With \"exit_behavior\": \"continue\" the model is told, with \"end\" the run ends with this as its last message.")));

	/* also what a middleware further in has answered, as in LangChain; a provider is sent the first answer */
	text = l->tool != NULL ? psprintf("Tool call limit exceeded. Do not call '%s' again.", l->tool) :
		"Tool call limit exceeded. Do not make additional tool calls.";
	patch = mw_patch_new();
	for (int i = 0; i < msg->ncalls; i++)
	{
		if (blocked[i])
			mw_patch_put(patch, mw_msg_tool(run, &msg->calls[i], text, true));
	}
	if (nblocked > 0 && l->exit == EXIT_END)
	{
		/* no call of this message runs: those that could have are answered, and none is counted for the thread */
		for (int i = 0; i < msg->ncalls; i++)
		{
			if (!blocked[i])
				mw_patch_put(patch, mw_msg_tool(run, &msg->calls[i], STOPPED, true));
		}
		mw_patch_put(patch, mw_msg_text(run, "assistant", reached(l, of_thread + nblocked, of_run)));
		patch->jump = MW_JUMP_END;
		of_thread = before;
	}
	set_count(run, patch, THREAD_COUNT, key, of_thread);
	set_count(run, patch, RUN_COUNT, key, of_run);
	return patch;
}

static const char *const options[] = {"exit_behavior", "run_limit", "thread_limit", "tool_name", NULL};

const MwMiddlewareType mw_tool_call_limit = {
	.type = "tool_call_limit",
	.options = options,
	.read = read_options,
	.fields = fields,
	.after_model = after_model,
};
