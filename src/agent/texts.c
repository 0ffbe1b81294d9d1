/*
 * texts.c - the long texts that middlewares send to models unless an option
 * gives others, and mw.default_texts(), which shows them.
 *
 * They say what LangChain's say, in words of our own.  Whoever wants to change
 * one begins with what the function returns, and gives the result as an option.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "agent/texts.h"

const char mw_text_todo_system_prompt[] =
"## `write_todos`\n"
"\n"
"The tool `write_todos` keeps a list of what has to be done, so that you can plan a larger task and show where you stand.\n"
"Use it when a task has several steps, and break the large ones down. It costs time and tokens: a request that takes few steps is better done directly, without it.\n"
"Mark a step as completed as soon as it is done, one by one, not several at the end.\n"
"\n"
"Rules for the list:\n"
"\n"
"- At most one `write_todos` in one turn; each one replaces the whole list.\n"
"- Change the list as you learn more: add what turned out to be needed, take out what is not needed any more.\n"
"\n"
"When everything is done, give your final answer in a message after your last call of `write_todos`, not beside that call. Begin it with what was asked for: the data, the calculation, the summary. The user wants the result, not the news that the work is finished.";

const char mw_text_todo_tool_description[] =
"Writes the list of tasks for the work at hand, and replaces the one before. It helps you to plan, and shows the user how far you are.\n"
"\n"
"When to use it:\n"
"- the work has three or more steps, or needs planning\n"
"- the user asks for a list, or asks for several things at once\n"
"- the plan may have to change with what the first steps show\n"
"\n"
"When not to use it:\n"
"- there is one simple task, or fewer than three trivial steps: do them directly\n"
"- the user only wants to talk, or to know something\n"
"\n"
"How to use it:\n"
"- Write all tasks that are still of interest with each call; leave out those that have become irrelevant. Do not change tasks that are completed.\n"
"- Each task is concrete, has a clear name, and has one of these states: pending (not begun), in_progress (being worked on), completed (done).\n"
"- Mark the first task, or those that can go on side by side, as in_progress when you write the list, and each further one before you begin it. As long as anything is left to do, something is in_progress.\n"
"- Mark a task as completed right after it is done, not several at once; one call may complete a task and begin the next.\n"
"- Completed means done in full. Where something failed, is missing, is only done in part or does not meet the standard, the task stays in_progress; add a task that says what has to be resolved.\n"
"- Add tasks that you discover on the way.\n"
"\n"
"The list is no answer. Whatever the user asked for has to stand as text in a message after your last call of this tool.";

const char mw_text_summary_prompt[] =
"<role>\n"
"You extract context from conversations.\n"
"</role>\n"
"\n"
"<task>\n"
"The conversation below is about to exceed what the model can read. Take out of it what matters most for going on; what you write will stand in its place, and everything else will be gone for the model.\n"
"Write what is needed to reach the goal without repeating anything that has been done already.\n"
"</task>\n"
"\n"
"<structure>\n"
"Use these four sections. Write \"None\" where there is nothing to say.\n"
"\n"
"## SESSION INTENT\n"
"What the user wants in the end, and what is being done for it: short, but complete enough to understand the whole session.\n"
"\n"
"## SUMMARY\n"
"The important facts, choices and conclusions, the reasons for decisions, and what was considered and rejected, with why.\n"
"\n"
"## ARTIFACTS\n"
"Files, records and other resources that were made, changed or read. Name each one exactly, and say what changed in it.\n"
"\n"
"## NEXT STEPS\n"
"What is left to do, and what comes next.\n"
"</structure>\n"
"\n"
"Read all of the conversation carefully before you write. Answer with the extracted context alone, and nothing before or after it.\n"
"\n"
"<messages>\n"
"The conversation:\n"
"{messages}\n"
"</messages>";

const char mw_text_selector_system_prompt[] =
"Choose the tools that are of most use for answering the user's request.";

const char mw_text_selector_max_tools[] =
"IMPORTANT: Name the tools in the order of their use for the request, the most useful one first. If you name more than allowed, only the first %d will be taken.";

const char mw_text_emulator_prompt[] =
"This is a test: you stand in for a tool that is not really called.\n"
"\n"
"Tool: {tool}\n"
"Description: {description}\n"
"Arguments: {arguments}\n"
"\n"
"Write what this tool might realistically return for these arguments. Vary your answers from one time to the next.\n"
"Return the tool's output alone, without any explanation or introduction.";

const char mw_text_edit_notice[] =
"Note: a person who reviewed this tool call put another one in its place before it ran. Your message still shows the call that you made, which is not the one that was run. That was intended and permitted. Do not make your original call again.";

PG_FUNCTION_INFO_V1(mw_default_texts);

/* mw.default_texts() shows them: name, value */
Datum
mw_default_texts(PG_FUNCTION_ARGS)
{
	static const struct
	{
		const char *name;
		const char *value;
	}			texts[] = {
		{"todo_system_prompt", mw_text_todo_system_prompt},
		{"todo_tool_description", mw_text_todo_tool_description},
		{"summary_prompt", mw_text_summary_prompt},
		{"selector_system_prompt", mw_text_selector_system_prompt},
		{"selector_max_tools", mw_text_selector_max_tools},
		{"emulator_prompt", mw_text_emulator_prompt},
		{"edit_notice", mw_text_edit_notice},
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (size_t i = 0; i < lengthof(texts); i++)
	{
		Datum		values[2] = {CStringGetTextDatum(texts[i].name), CStringGetTextDatum(texts[i].value)};
		bool		nulls[2] = {false, false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
