/*
 * call.h - the life of a call: the ordered stage table, request ids, results.
 */
#ifndef MW_CALL_H
#define MW_CALL_H

#include "mw.h"
#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"

/* pipeline.c */
extern const MwStage mw_stages[MW_NSTAGES];
extern void mw_pipeline_run(MwCall *call);	/* all six, timed */

/* request.c: the arguments of mw_invoke into an MwCall (shared by mw_invoke, mw_ask and mw_explain) */
typedef struct MwInvokeArgs
{
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
extern MwCall *mw_call_make(const MwInvokeArgs *args, bool explain_only);

/*
 * claim.c: one run at a time for a request_id.  Waits for the transaction that
 * holds it.  Real servers: a shared-memory entry with the holder's virtual
 * transaction id; fake: a row of mw.fake_claim.
 */
extern void mw_claim_request(MwCall *call);

/* result.c: the stored result of a committed run (placeholders inside), fingerprint check (MW501), and its making */
extern MwKey mw_request_fingerprint(const MwCall *call, const MwInvokeArgs *args);
extern Jsonb *mw_result_stored(MwCall *call, const MwKey *fingerprint);
extern void mw_result_store(MwCall *call, const MwKey *fingerprint, Jsonb *result);
extern Jsonb *mw_result_make(MwCall *call);	/* placeholders inside */
extern Jsonb *mw_result_restore(MwCall *call, Jsonb *result);	/* from the current caller's own map */

#endif
