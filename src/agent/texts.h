/*
 * texts.h - the long texts that middlewares send to models unless an option
 * gives others.
 */
#ifndef MW_TEXTS_H
#define MW_TEXTS_H

extern const char mw_text_todo_system_prompt[];
extern const char mw_text_todo_tool_description[];
extern const char mw_text_summary_prompt[];	/* with {messages} */
extern const char mw_text_selector_system_prompt[];
extern const char mw_text_selector_max_tools[]; /* with %d, on a line of its own behind that prompt */
extern const char mw_text_emulator_prompt[];	/* with {tool}, {description} and {arguments} */
extern const char mw_text_edit_notice[];

#endif
