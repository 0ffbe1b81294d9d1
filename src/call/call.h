/*
 * call.h - the life of a call: the ordered stage table, arguments, request ids, results.
 */
#ifndef MW_CALL_H
#define MW_CALL_H

#include "mw.h"

#include "fmgr.h"

#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"

/* pipeline.c */
extern const MwStage mw_stages[MW_NSTAGES];
extern void mw_pipeline_init(void); /* from _PG_init: the table against the rules */
extern void mw_pipeline_run(MwCall *call);	/* all six, timed */
extern void mw_pipeline_redact(MwCall *call);	/* redact alone: for the caller's map, to restore a stored result */
extern void mw_pipeline_judge(MwCall *call);	/* redact and guardrail: the messages as the cache stage sees them */

/* order.c: the rows of invariant 1 that an order of all six breaks, one a line; their number */
extern int	mw_order_violations(const MwStageId *order, StringInfo out);

/* request.c: the arguments of mw_invoke into an MwCall (shared by mw_invoke, mw_ask, mw_explain and mw_cache_key) */
typedef struct MwInvokeArgs
{
	const char *function;		/* as errors print it: mw_ask() */
	char	   *tenant;
	char	   *session;
	char	   *prompt;
	int			prompt_len;
	Jsonb	   *tools;
	char	   *agent;
	char	   *model;
	char	   *request_id;
	Jsonb	   *options;
	Jsonb	   *messages;
	Jsonb	   *decisions;		/* of mw_resume ... */
	Jsonb	   *begun;			/* ... the options that its run was begun with */
} MwInvokeArgs;

typedef enum MwCallUse
{
	MW_USE_RUN,					/* a real call */
	MW_USE_EXPLAIN,				/* says what it would do: may run in a read-only transaction */
	MW_USE_KEY,					/* only the key of it: no server, no session, no id */
	MW_USE_BASE,				/* what the calls of a run have in common: no model, tools or messages */
	MW_USE_EXPLAIN_BASE			/* the same, of a run that is only explained */
} MwCallUse;

extern void mw_invoke_args(FunctionCallInfo fcinfo, MwInvokeArgs *args);	/* checks sizes before it detoasts */
extern void mw_check_prompt_size(Size bytes);	/* 54000 */
extern MwCall *mw_call_make(const MwInvokeArgs *args, MwCallUse use);
extern void mw_call_free(MwCall *call);	/* with its memory; an error frees it with the caller's, in which it lies */

/* One model call of a run (src/agent), made from the run's base */
typedef struct MwCallStep
{
	const char *model;			/* server:model */
	Jsonb	   *settings;		/* of the model; NULL */
	const char *system_prompt;	/* NULL for none */
	Jsonb	  **messages;		/* mw's form; what belongs to a thread is left out, and they are paired */
	const bool *answered;		/* of each: a model said it in this thread */
	int			nmessages;
	int			quote_at;		/* the last message is the developer's but for so many of its bytes ... */
	int			quote_len;		/* ... from there on; 0: it is nobody's but the user's */
	Jsonb	   *tools;			/* as mw_tools_read makes them; NULL */
	Jsonb	   *options;		/* of the call: options.c */
	int			turn;
	int		   *last_no;		/* of a call of the run, which gets the next one */
	int			attempts_before;
	const char *purpose;
	bool		refresh;		/* does not read the cache */
	bool		once;			/* the retry stage sends once */
	MwCallUse	use;			/* run or explain */
} MwCallStep;

/* Which model: the one that is named, as text or {"model", "model_settings"}, else the tenant's, else the server's; NULL: none */
extern const char *mw_model_choose(const MwCall *call, const char *named, Jsonb **settings);
/* The server of the run's own model, before anything is claimed */
extern void mw_models_use(MwCall *call, const char *model, MwCallUse use);
extern MwCall *mw_call_step(const MwCall *base, const MwCallStep *step);

#define MW_RUN_ID_CHARS 36
extern char *mw_make_request_id(const struct MwPolicy *policy, const pg_uuid_t *id);	/* one that nobody else can name */
extern void mw_run_id_text(char *to, const pg_uuid_t *run_id);	/* so many characters, and a NUL */

/*
 * message_read.c: the tool calls of a message, in either spelling, mw's or OpenAI's.  Arguments that are no
 * JSON object leave args NULL and raw_args as they were.  What is wrong, a sentence; NULL: nothing
 */
extern const char *mw_tool_calls_read(Jsonb *message, MwToolCall **calls, int *n);

/*
 * claim.c: one run at a time for a request_id.  Waits for the transaction that
 * holds it, and says whether it did.
 */
extern bool mw_claim_request(MwCall *call);

/* result.c: the stored result of a committed run (placeholders inside), fingerprint check (MW501), and its making */
extern MwKey mw_request_fingerprint(const MwCall *call, const MwInvokeArgs *args);
extern Jsonb *mw_result_stored(MwCall *call, const MwKey *fingerprint);
extern void mw_result_store(MwCall *call, const MwKey *fingerprint, Jsonb *result);
extern Jsonb *mw_result_make(MwCall *call);	/* placeholders inside */
extern Jsonb *mw_result_restore(MwCall *call, Jsonb *result);	/* from the current caller's own map */

/* invoke.c: a call that is no run, from its arguments to mw_invoke's or mw_ask's value */
extern Datum mw_invoke_once(FunctionCallInfo fcinfo, MwInvokeArgs *args, bool as_text);

/* explain.c: the rows of a call that is no run, and those of the stages of any */
struct ReturnSetInfo;
extern void mw_explain_once(const MwInvokeArgs *args, struct ReturnSetInfo *set);
extern void mw_explain_stages(MwCall *call, struct ReturnSetInfo *set);

/* loghide.c: no prompt in the server's log */
extern void mw_loghide_init(void);	/* from _PG_init: the hook */
extern void mw_loghide_statement(void); /* the client's current message calls mw */

#endif
