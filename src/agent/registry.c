/*
 * registry.c - the types of built-in middlewares.
 *
 * A type is one constant in a file of its own; this table is all that knows
 * them by name.
 */
#include "mw.h"

#include "agent/registry.h"

/* alphabetical, as hints list them */
static const MwMiddlewareType *const types[] = {
	&mw_context_editing,
	&mw_custom,
	&mw_dynamic_prompt,
	&mw_human_in_the_loop,
	&mw_llm_tool_emulator,
	&mw_llm_tool_selector,
	&mw_model_call_limit,
	&mw_model_fallback,
	&mw_model_retry,
	&mw_pii,
	&mw_progress_guard,
	&mw_summarization,
	&mw_todo_list,
	&mw_tool_call_limit,
	&mw_tool_error,
	&mw_tool_retry,
	NULL
};

/* mw_middleware_type finds a type by its name in JSON; NULL where there is none. */
const MwMiddlewareType *
mw_middleware_type(const char *type)
{
	for (int i = 0; types[i] != NULL; i++)
	{
		if (strcmp(types[i]->type, type) == 0)
			return types[i];
	}
	return NULL;
}

/* mw_middleware_types lists their names, for hints. */
char *
mw_middleware_types(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; types[i] != NULL; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", types[i]->type);
	return buf.data;
}
