/*
 * thread.h - what the loop does to a thread and its state, and what of it is kept.
 */
#ifndef MW_THREAD_H
#define MW_THREAD_H

#include "agent/agent.h"

/* state.c */
typedef enum MwStatePart
{
	MW_STATE_THREAD,			/* tracked fields */
	MW_STATE_RUN,				/* untracked ones */
	MW_STATE_SHOWN				/* what a result and options.state may hold */
} MwStatePart;

extern List *mw_fields_read(Jsonb *json, const char *owner);	/* declarations; MW001 */
extern List *mw_fields_join(List *all, List *more);	/* MW001 where two reducers meet */
extern MwField *mw_field_find(List *fields, const char *name);
extern void mw_state_begin(MwRun *run, Jsonb *thread, Jsonb *scratch);
extern void mw_state_apply(MwRun *run, Jsonb *fields);
extern Jsonb *mw_state_part(MwRun *run, MwStatePart part);

/* thread.c */
extern MwMsg *mw_msg_kept(Jsonb *json); /* message.c: one that a thread holds, taken as it is */
extern void mw_thread_apply(MwRun *run, List *ops);	/* of MwMsgOp, in memory */
extern void mw_thread_flush(MwRun *run);	/* rows for what has changed since; one step of the thread */
extern void mw_thread_mark(MwRun *run);	/* what comes from now on is this leg's */
extern List *mw_thread_new(MwRun *run); /* of MwMsg *: what came since the mark and is still there */

/* What a run leaves in mw.run and mw.session, and what the next leg of it begins with */
typedef enum MwNode
{
	MW_NODE_BEFORE_AGENT, MW_NODE_BEFORE_MODEL, MW_NODE_MODEL, MW_NODE_AFTER_MODEL, MW_NODE_TOOLS, MW_NODE_AFTER_TOOLS, MW_NODE_AFTER_AGENT, MW_NODE_END
} MwNode;

typedef struct MwPlace
{
	MwNode		node;
	int			i;				/* which middleware, where it is a hook's */
} MwPlace;

/* rows.c */
/* Columns of mw.session, mw.run and mw.thread, which are read by row.c */
enum
{
	SESSION_TENANT = 1, SESSION_SESSION, SESSION_AGENT, SESSION_RUN_ID, SESSION_STATUS, SESSION_STATE, SESSION_STEP, SESSION_CREATED_AT,
	SESSION_UPDATED_AT, SESSION_COLUMNS = SESSION_UPDATED_AT
};
enum
{
	RUN_TENANT = 1, RUN_ID, RUN_SESSION, RUN_AGENT, RUN_AGENT_TENANT, RUN_VERSION, RUN_REQUEST_ID, RUN_ROLE, RUN_STATUS, RUN_NODE, RUN_NODE_INDEX,
	RUN_TURN, RUN_CALLS, RUN_LAST_NO, RUN_SCRATCH, RUN_BATCH, RUN_OPTIONS, RUN_STARTED_AT, RUN_UPDATED_AT, RUN_COLUMNS = RUN_UPDATED_AT
};
enum
{
	THREAD_TENANT = 1, THREAD_SESSION, THREAD_SEQ, THREAD_POSITION, THREAD_MESSAGE, THREAD_ANSWERED, THREAD_RUN_ID, THREAD_ADDED_STEP,
	THREAD_REMOVED_STEP, THREAD_CREATED_AT, THREAD_COLUMNS = THREAD_CREATED_AT
};

typedef struct MwSaved			/* the newest run of a session */
{
	bool		found;			/* the session has a row */
	const char *agent;			/* of its last run; NULL: ad hoc */
	int			version;
	const char *owner;			/* of the agent: the tenant, or '*' */
	pg_uuid_t	run_id;
	const char *status;			/* completed, interrupted, tool_calls, error */
	MwPlace		place;			/* where it goes on */
	int			turn;
	int			calls;
	int			last_no;
	int			step;
	int64		last_seq;		/* of the thread's rows, those that are removed included; 0: it has none */
	Oid			role;			/* who runs it; InvalidOid where that role is gone */
	const char *role_name;
	const char *request_id;
	Jsonb	   *state;			/* of the thread */
	Jsonb	   *scratch;		/* of the run: untracked fields */
	List	   *batch;			/* of the run */
	Jsonb	   *options;		/* that the run was begun with */
} MwSaved;

extern void mw_thread_open(MwRun *run, const MwSaved *saved);	/* thread.c: loads the thread of a session whose row was read */
extern List *mw_text_list(Datum array);	/* of char * */
extern Datum mw_text_array(List *texts);
extern MwSaved *mw_saved_read(MwRun *run);
extern int	mw_attempts_before(MwRun *run);	/* highest attempt in the ledger of calls that the run does not know of; 0: none */
extern void mw_saved_write(MwRun *run, const char *status, MwPlace place);

#endif
