/*
 * llm_tool_emulator.c - the middleware that lets a model make up what tools
 * return, for trying an agent out before its tools exist or while they must not
 * run.
 *
 * The tool itself is not called.  Each emulation is a new call, since answers
 * are meant to vary; the message that stands for the result says in its metadata
 * that it was made up.
 */
#include "mw.h"

#include "utils/builtins.h"

#include "agent/agent.h"
#include "agent/registry.h"
#include "agent/texts.h"
#include "util/json.h"
#include "util/names.h"

typedef struct Emulator
{
	bool		all;			/* every tool ... */
	List	   *tools;			/* ... or these, of char * */
	const char *model;			/* NULL: the run's */
	Jsonb	   *settings;
} Emulator;

static const char *const option_names[] = {"model", "tools", NULL};

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	Emulator   *c = palloc0(sizeof(Emulator));

	m->conf = c;
	c->all = !mw_opt_given(options, "tools");
	c->tools = mw_opt_tools(m, options, "tools");
	c->model = mw_opt_model(m, options, "model", &c->settings);
	if (c->settings == NULL)
		c->settings = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{\"temperature\": 1}")));
}

/*
 * The prompt with what stands in braces put in.  The model that called has
 * written the arguments, and the name of a tool that nobody has: they are quoted.
 */
static void
fill_prompt(MwRun *run, MwModelRequest *question, const MwToolRequest *req)
{
	const char *const values[][2] = {
		{"{tool}", req->call->name},
		{"{description}", req->tool != NULL && req->tool->description != NULL ? req->tool->description : "No description available"},
		{"{arguments}", mw_json_canonical(req->call->args)}
	};
	StringInfoData buf;
	const char *p = mw_text_emulator_prompt;

	question->quote_at = -1;
	initStringInfo(&buf);
	while (*p != '\0')
	{
		int			i = 0;

		while (i < lengthof(values) && strncmp(p, values[i][0], strlen(values[i][0])) != 0)
			i++;
		if (i < lengthof(values))
		{
			if (question->quote_at < 0 && (req->tool == NULL || i == lengthof(values) - 1))
				question->quote_at = buf.len;
			appendStringInfoString(&buf, values[i][1]);
			question->quote_len = buf.len - question->quote_at;
			p += strlen(values[i][0]);
		}
		else
			appendStringInfoChar(&buf, *p++);
	}
	question->messages = list_make1(mw_msg_text(run, "user", buf.data));
}

static MwToolResponse *
wrap_tool(MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level)
{
	const Emulator *c = m->conf;
	const MwToolCall *call = req->call;
	MwModelRequest question = {.purpose = "tool_emulation", .fresh = true};
	MwToolResponse *resp;
	JsonbValue	yes = {.type = jbvBool, .val.boolean = true};

	if (!c->all && !mw_lists(c->tools, call->name))
		return mw_next_tool(run, level, req);

	question.model = c->model != NULL ? c->model : run->first_model;
	question.model_settings = c->settings;
	fill_prompt(run, &question, req);
	resp = palloc0(sizeof(MwToolResponse));
	resp->msg = mw_msg_tool(run, call, mw_model_ask(run, &question)->text, false);
	resp->msg = mw_msg_with_metadata(run, resp->msg, "emulated", JsonbValueToJsonb(&yes));
	return resp;
}

const MwMiddlewareType mw_llm_tool_emulator = {
	.type = "llm_tool_emulator",
	.options = option_names,
	.read = read_options,
	.wrap_tool = wrap_tool,
};
