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
} MwInvokeArgs;

typedef enum MwCallUse
{
	MW_USE_RUN,					/* a real call */
	MW_USE_EXPLAIN,				/* says what it would do: may run in a read-only transaction */
	MW_USE_KEY					/* only the key of it: no server, no session, no id */
} MwCallUse;

extern void mw_invoke_args(FunctionCallInfo fcinfo, MwInvokeArgs *args);	/* checks sizes before it detoasts */
extern void mw_check_prompt_size(Size bytes);	/* 54000 */
extern MwCall *mw_call_make(const MwInvokeArgs *args, MwCallUse use);
#define MW_RUN_ID_CHARS 36
extern void mw_run_id_text(char *to, const pg_uuid_t *run_id);	/* so many characters, and a NUL */

/*
 * claim.c: one run at a time for a request_id.  Waits for the transaction that
 * holds it.
 */
extern void mw_claim_request(MwCall *call);

/* result.c: the stored result of a committed run (placeholders inside), fingerprint check (MW501), and its making */
extern MwKey mw_request_fingerprint(const MwCall *call, const MwInvokeArgs *args);
extern Jsonb *mw_result_stored(MwCall *call, const MwKey *fingerprint);
extern void mw_result_store(MwCall *call, const MwKey *fingerprint, Jsonb *result);
extern Jsonb *mw_result_make(MwCall *call);	/* placeholders inside */
extern Jsonb *mw_result_restore(MwCall *call, Jsonb *result);	/* from the current caller's own map */

/* loghide.c: no prompt in the server's log */
extern void mw_loghide_init(void);	/* from _PG_init: the hook */
extern void mw_loghide_statement(void); /* the client's current message calls mw */

#endif
