/*
 * run.h - the parts of running: what the loop, its nodes and the surface share.
 */
#ifndef MW_RUN_H
#define MW_RUN_H

#include "agent/thread.h"

/* What a node wants done to the run; the loop does it once the node has succeeded */
typedef struct MwNodeResult
{
	MwPatch		patch;
	Jsonb	   *structured;
	List	   *updates;		/* of Jsonb *: patches of wrap hooks and tools, in order */
	bool		clients;		/* the application has tool calls to execute: the run ends here for now */
	bool		paused;			/* somebody has to approve: likewise */
	ErrorData  *failed;			/* one tool call has failed, and is returned; what its siblings did stays */
} MwNodeResult;

/* model_node.c, tool_node.c */
extern void mw_model_node(MwRun *run, MwNodeResult *result);
extern MwModelRequest *mw_first_request(MwRun *run, List *messages);	/* what a turn asks, before any hook */
extern MwCall *mw_request_call(MwRun *run, const MwModelRequest *req);	/* as one of the stages' calls */
extern void mw_tool_node(MwRun *run, MwNodeResult *result);

/* loop.c: from a place on until the run ends, pauses or raises; where it stopped is in run->place */
extern void mw_loop(MwRun *run);
/* The newest message of the assistant's, with the result of each of its calls (NULL: open), as routing sees them */
extern MwMsg *mw_last_answer(MwRun *run, MwMsg ***results);

/* run.c */
extern MwRun *mw_run_make(const MwInvokeArgs *args, MwCallUse use);	/* options; everything that can be wrong with them is said here */
extern _Noreturn void mw_run_option_wrong(const char *option, const char *must_be);
extern Jsonb *mw_run_option_object(Jsonb *options, const char *option);
extern void mw_run_use_agent(MwRun *run, const char *owner, const char *name, int version);	/* agent (owner NULL: the newest), model, tools, limits */
extern int *mw_run_times(MwRun *run, MwSeenList *list, const MwKey *request);	/* where its count is */
extern void mw_run_inside(MwRun *run);	/* may be repeated with the run that it is inside of */
extern Jsonb *mw_run_claim(MwRun *run); /* its request_id; the kept result, or NULL */
/* A text that a run ends with instead of this error, where its agent says so; NULL */
extern const char *mw_run_ending(MwRun *run, const ErrorData *edata, const char **ended_by);
extern MwMsg *mw_run_redacted(MwRun *run, MwMsg *msg);	/* one that a hook has made */
extern Jsonb *mw_run_redacted_json(MwRun *run, Jsonb *json);	/* fields of the state from a hook that was shown values; NULL: NULL */
extern void mw_run_failed(MwRun *run, ErrorData *edata, bool all_undone);
extern void mw_run_end_with(MwRun *run, const char *text, const char *ended_by);
extern void mw_run_require_session(const MwRun *run);	/* MW101 where the tenant's session_policy does not let the role see it */
extern MwSaved *mw_run_open(MwRun *run);	/* the session is claimed, its newest run and its thread are read; 55P03 where it is busy and the caller does not wait */
extern void mw_run_peek(MwRun *run);	/* thread, state and input as a run would begin with them; nothing is written */
extern bool mw_is_run(const MwInvokeArgs *args);	/* surface.c: more than one model call by itself */
extern void mw_run_begin(MwRun *run);	/* thread, state, input; the session is claimed */
extern void mw_run_go_on(MwRun *run, const MwSaved *saved);	/* ... of a run that was paused, whose thread is open */
extern bool mw_run_may_turn(MwRun *run);	/* false: the run ends here; MW601 */
/* run_limits.c, run_tools.c */
extern void mw_run_read_limits(MwRun *run);
extern void mw_run_find_tools(MwRun *run);
extern void mw_run_choose_model(MwRun *run);
extern MwTool *mw_run_tool(MwRun *run, const char *name);	/* NULL */
extern const char *mw_run_model(MwRun *run, const char *given);	/* as a request may name it */
extern bool mw_run_is_late(MwRun *run);	/* its time is up, and it ends; MW601 where that is an error */
extern void mw_run_may_call(MwRun *run);	/* MW601 where the run's limits are reached */
extern Jsonb *mw_run_result(MwRun *run, const char *status);	/* outcome.c; placeholders inside */
extern Jsonb *mw_run_restore(MwRun *run, Jsonb *result);
extern void mw_run_dress(MwRun *run, ErrorData *e);	/* says whose fault an error was, and which run it ended */
extern void mw_run_limit_call(MwRun *run, MwCall *call);	/* what is left of the run's tokens, money and time */

/* surface.c: a leg from its beginning, which returns a kept result or NULL, to its value; false for a NULL of mw_ask */
typedef Jsonb *(*MwLegBegin) (MwRun *run, void *arg);
extern bool mw_leg(const MwInvokeArgs *args, bool as_text, MwLegBegin begin, void *arg, Datum *value);

#endif
