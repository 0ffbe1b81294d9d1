/*
 * hooks.h - between a hook's jsonb and what the loop works with.
 */
#ifndef MW_HOOKS_H
#define MW_HOOKS_H

#include "agent/frame.h"

#define bad_hook(who, ...) \
	ereport(ERROR, (errcode(ERRCODE_MW_HOOK_FAILED), errmsg("%s returned what it may not", who), errdetail(__VA_ARGS__)))

/*
 * f(subject, runtime) as the caller, inside a frame that was pushed for it and
 * is popped here: NULL where it returns NULL or null.  Errors keep their code and
 * message, and are noted as the hook's unless they came from further in.
 */
extern Jsonb *mw_hook_call(MwRun *run, MwFrame *frame, const char *signature, const char *who, const char *where, Jsonb *subject);

/* A wrap hook around the next one in */
extern MwModelResponse *mw_hook_wrap_model(MwRun *run, MwMiddleware *m, const char *signature, const MwModelRequest *req, int level);
extern MwToolResponse *mw_hook_wrap_tool(MwRun *run, MwMiddleware *m, const char *signature, const MwToolRequest *req, int level);

/* mw_next of a wrap hook: its request into ours, the next one in, its response into jsonb */
extern Jsonb *mw_hook_next_model(MwFrame *frame, Jsonb *request);
extern Jsonb *mw_hook_next_tool(MwFrame *frame, Jsonb *request);

/* A model request as wrap_model_call sees it, and a tool as both kinds do */
extern Jsonb *mw_hook_tool_json(const MwTool *tool);
extern Jsonb *mw_hook_request_json(MwRun *run, const MwModelRequest *req);

/* A patch as a hook or a tool gives it; can_jump_to: of char *, NIL: none.  MW702 with "who" for what it may not hold. */
extern MwPatch *mw_patch_read(MwRun *run, Jsonb *json, const char *who, List *can_jump_to);

#endif
