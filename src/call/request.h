/*
 * request.h - the parts of making a call, between the files that make it.
 */
#ifndef MW_REQUEST_H
#define MW_REQUEST_H

#include "mw.h"

#include "call/call.h"

/* models.c: the model, its server and the options that depend on it; and those that the call may fall back to */
extern void mw_models_choose(MwCall *call, const MwInvokeArgs *args, MwCallUse use);

/* options.c: into the fields of the call; settings are a model's own (sent parameters only) and lose against options */
extern void mw_options_read(MwCall *call, Jsonb *options, Jsonb *settings);
extern Jsonb *mw_options_sent(Jsonb *options);	/* those that reach the provider; NULL for none */

/* messages.c: the caller's messages and the prompt, paired (invariant 11) */
extern void mw_messages_read(MwCall *call, Jsonb *messages, char *prompt, int prompt_len, bool has_prompt);

/* The same for messages that were read before, with a system prompt (NULL: none) in front */
extern void mw_messages_take(MwCall *call, const char *system_prompt, Jsonb **messages, const bool *answered, int n);
extern void mw_messages_quote(MwCall *call, int from, int len);	/* so many bytes of the last text are no developer's; the rest is */

/* tools.c: OpenAI-style schemas, canonical; NULL for none.  Checks tool_choice against them. */
extern Jsonb *mw_tools_read(Jsonb *tools);
extern void mw_tools_check_choice(Jsonb *tools, Jsonb *params);

#endif
