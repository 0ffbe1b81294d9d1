/*
 * llm_tool_selector.c - the middleware that lets a model choose which tools the
 * request offers.
 *
 * Before each model call a (smaller) model is shown the user's last message and
 * the names and descriptions of the tools, by way of the schema that its answer
 * must meet.  What it does not name is left out of this request; the run's own
 * list of tools is not touched, so a call of a tool that was not offered runs.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "agent/agent.h"
#include "agent/registry.h"
#include "agent/texts.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/names.h"

typedef enum OnFailure
{
	FAIL_ERROR, FAIL_NONE, FAIL_ALL, FAIL_LIST, FAIL_FUNCTION
} OnFailure;

typedef struct Selector
{
	const char *model;			/* NULL: that of the request */
	Jsonb	   *settings;
	const char *prompt;
	int64		max_tools;		/* -1: no limit */
	List	   *always;			/* of char * */
	int64		max_retries;
	OnFailure	on_failure;
	List	   *fallback;		/* of char *: FAIL_LIST */
	const char *function;		/* FAIL_FUNCTION */
} Selector;

static const char *const option_names[] = {
	"always_include", "max_retries", "max_tools", "model", "on_parsing_failure", "system_prompt", NULL
};

static void
read_on_failure(MwMiddleware *m, Jsonb *options, Selector *c)
{
	static const char *const words[] = {"error", "none", "all", NULL};
	JsonbValue *v = mw_json_get(options, "on_parsing_failure");

	c->function = mw_opt_function(m, options, "on_parsing_failure");
	if (c->function != NULL)
		c->on_failure = FAIL_FUNCTION;
	else if (mw_value_is_array(v))
	{
		c->on_failure = FAIL_LIST;
		c->fallback = mw_opt_tools(m, options, "on_parsing_failure");
	}
	else if (v != NULL && v->type == jbvBinary)
		mw_opt_wrong(m, "on_parsing_failure", "\"error\", \"none\", \"all\", a list of tools or {\"function\": \"schema.name\"}");
	else
		c->on_failure = (OnFailure) mw_opt_choice(m, options, "on_parsing_failure", FAIL_ERROR, words);
}

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	Selector   *c = palloc0(sizeof(Selector));

	m->conf = c;
	c->model = mw_opt_model(m, options, "model", &c->settings);
	c->prompt = mw_opt_text(m, options, "system_prompt", mw_text_selector_system_prompt);
	c->max_tools = mw_opt_int(m, options, "max_tools", -1, 0, PG_INT32_MAX);
	c->always = mw_opt_tools(m, options, "always_include");
	c->max_retries = mw_opt_int(m, options, "max_retries", 1, 0, 100);
	read_on_failure(m, options, c);
}

/* ---------- asking ---------- */

/* {"tools": [names]}, where each name that may be said has its description */
static Jsonb *
answer_schema(List *tools)
{
	JsonbParseState *st = NULL;
	JsonbValue	no = {.type = jbvBool};
	ListCell   *lc;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "type", "object");
	push_key(&st, "properties");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "tools");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "type", "array");
	push_member(&st, "description", "Tools to use. Place the most relevant tools first.");
	push_key(&st, "items");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "anyOf");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, tools)
	{
		MwTool	   *tool = lfirst(lc);

		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "type", "string");
		push_member(&st, "const", tool->name);
		if (tool->description != NULL)
			push_member(&st, "description", tool->description);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	push_key(&st, "required");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	push_string(&st, WJB_ELEM, "tools", strlen("tools"));
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	push_key(&st, "additionalProperties");
	pushJsonbValue(&st, WJB_VALUE, &no);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* The members of a JSON array; false where it is none.  What is no text is no tool's name either. */
static bool
read_names(Jsonb *array, List **names)
{
	*names = NIL;
	if (!mw_json_is_array(array))
		return false;
	for (uint32 i = 0; i < JB_ROOT_COUNT(array); i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(&array->root, i);

		*names = lappend(*names, v->type == jbvString ? mw_value_string(v) :
						 mw_json_canonical(mw_json_value_jsonb(v)));
	}
	return true;
}

/*
 * What an answer names; false for an answer that is no selection, and *readable
 * where it is JSON all the same.  A model without structured output puts its JSON
 * between fences.
 */
static bool
read_selection(const MwMsg *answer, List **names, bool *readable)
{
	const char *from = strchr(answer->text, '{');
	const char *to = strrchr(answer->text, '}');
	Jsonb	   *json = NULL;

	if (from != NULL && to > from)
		json = mw_json_parse(from, (int) (to - from) + 1, NULL);
	*readable = json != NULL || mw_json_parse(answer->text, strlen(answer->text), NULL) != NULL;
	return mw_json_is_object(json) && read_names(mw_json_get_jsonb(json, "tools"), names);
}

static MwMsg *
last_user_message(List *msgs)
{
	int			at = mw_msgs_last(msgs, "user");

	if (at < 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("no user message found in the request to select tools for")));
	return list_nth(msgs, at);
}

/* What to take where no answer was a selection: names, which max_tools does not cut */
static List *
fallback_names(MwRun *run, const Selector *c, const MwMsg *answer, int asked, List *choice)
{
	List	   *names = NIL;
	ListCell   *lc;

	switch (c->on_failure)
	{
		case FAIL_ERROR:
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ANSWER),
					 errmsg("the model that selects tools answered wrongly"),
					 errdetail_plural("It was asked %d time for {\"tools\": [names]}.", "It was asked %d times for {\"tools\": [names]}.", asked, asked),
					 errhint("Name a model that knows structured output in option \"model\" of llm_tool_selector, or say what is to hold then in \"on_parsing_failure\".")));
			break;
		case FAIL_NONE:
			break;
		case FAIL_ALL:
			foreach(lc, choice)
				names = lappend(names, unconstify(char *, ((MwTool *) lfirst(lc))->name));
			break;
		case FAIL_LIST:
			names = c->fallback;
			break;
		case FAIL_FUNCTION:
			if (!read_names(mw_option_call(run, c->function, answer->json, "option \"on_parsing_failure\""), &names))
				ereport(ERROR,
						(errcode(ERRCODE_MW_HOOK_FAILED),
						 errmsg("the function of option \"on_parsing_failure\" returned no list of tools")));
			break;
	}
	return names;
}

/* The names that a model chose among these tools; *limited: max_tools holds for them */
static List *
ask(MwRun *run, const Selector *c, const MwModelRequest *req, List *choice, bool *limited)
{
	MwFormat	format = {.name = "tool_selection", .schema = answer_schema(choice)};
	MwModelRequest selection = {
		.model = c->model != NULL ? c->model : req->model,
		.model_settings = c->model != NULL ? c->settings : req->model_settings,
		.system_prompt = c->max_tools < 0 ? c->prompt :
			psprintf("%s\n%s", c->prompt, psprintf(mw_text_selector_max_tools, (int) c->max_tools)),
		.messages = list_make1(last_user_message(req->messages)),
		.format = &format,
		.purpose = "tool_selection",
		.fresh = req->fresh,
	};
	MwMsg	   *answer;
	List	   *names;
	bool		readable;
	int			asked = 0;

	do
	{
		answer = mw_model_ask(run, &selection);
		asked++;
		if (read_selection(answer, &names, &readable))
		{
			*limited = true;
			return names;
		}
		selection.fresh = true;
		/* as in LangChain, a text that is no JSON is not asked for again, unless something else can be done about it */
	} while (asked <= c->max_retries && (readable || c->on_failure != FAIL_ERROR));
	*limited = false;
	return fallback_names(run, c, answer, asked, choice);
}

/* ---------- choosing ---------- */

static void
check_always(const Selector *c, List *tools)
{
	StringInfoData missing;
	ListCell   *lc;

	initStringInfo(&missing);
	foreach(lc, c->always)
		if (mw_tools_find(tools, lfirst(lc)) == NULL)
			appendStringInfo(&missing, "%s%s", missing.len > 0 ? ", " : "", (char *) lfirst(lc));
	if (missing.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("tools in always_include not found in request: %s", missing.data),
				 errhint("Available tools: %s.", mw_tools_list(tools))));
}

static MwModelResponse *
wrap_model(MwRun *run, MwMiddleware *m, const MwModelRequest *req, int level)
{
	const Selector *c = m->conf;
	MwModelRequest *selected;
	List	   *choice = NIL;	/* tools that may be left out */
	List	   *taken = NIL;	/* of char * */
	StringInfoData unknown;
	List	   *names;
	bool		limited;
	ListCell   *lc;

	if (req->tools == NIL)
		return mw_next_model(run, level, req);
	check_always(c, req->tools);
	foreach(lc, req->tools)
		if (!mw_lists(c->always, ((MwTool *) lfirst(lc))->name))
			choice = lappend(choice, lfirst(lc));
	if (choice == NIL)
		return mw_next_model(run, level, req);

	names = ask(run, c, req, choice, &limited);
	initStringInfo(&unknown);
	foreach(lc, names)
	{
		char	   *name = lfirst(lc);

		if (mw_tools_find(choice, name) == NULL)
			appendStringInfo(&unknown, "%s%s", unknown.len > 0 ? ", " : "", name);
		else if (!mw_lists(taken, name) && (!limited || c->max_tools < 0 || list_length(taken) < c->max_tools))
			taken = lappend(taken, name);
	}
	if (unknown.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ANSWER),
				 errmsg("the model selected invalid tools: %s", unknown.data),
				 errdetail("It could choose from: %s.", mw_tools_list(choice))));

	/* in the order of the request, not of the answer; those that are always there come last */
	selected = mw_request_copy(req);
	selected->tools = NIL;
	foreach(lc, choice)
		if (mw_lists(taken, ((MwTool *) lfirst(lc))->name))
			selected->tools = lappend(selected->tools, lfirst(lc));
	foreach(lc, req->tools)
		if (mw_lists(c->always, ((MwTool *) lfirst(lc))->name))
			selected->tools = lappend(selected->tools, lfirst(lc));
	return mw_next_model(run, level, selected);
}

const MwMiddlewareType mw_llm_tool_selector = {
	.type = "llm_tool_selector",
	.options = option_names,
	.read = read_options,
	.wrap_model = wrap_model,
};
