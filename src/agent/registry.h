/*
 * registry.h - the types of built-in middlewares, one constant a file.
 */
#ifndef MW_REGISTRY_H
#define MW_REGISTRY_H

#include "agent/agent.h"

extern const MwMiddlewareType mw_context_editing;
extern const MwMiddlewareType mw_custom;
extern const MwMiddlewareType mw_dynamic_prompt;
extern const MwMiddlewareType mw_human_in_the_loop;
extern const MwMiddlewareType mw_llm_tool_emulator;
extern const MwMiddlewareType mw_llm_tool_selector;
extern const MwMiddlewareType mw_model_call_limit;
extern const MwMiddlewareType mw_model_fallback;
extern const MwMiddlewareType mw_model_retry;
extern const MwMiddlewareType mw_pii;
extern const MwMiddlewareType mw_progress_guard;
extern const MwMiddlewareType mw_summarization;
extern const MwMiddlewareType mw_todo_list;
extern const MwMiddlewareType mw_tool_call_limit;
extern const MwMiddlewareType mw_tool_error;
extern const MwMiddlewareType mw_tool_retry;

#endif
