/*
 * approval.h - pauses: what waits for a person, and what was decided.
 *
 * A gate is one tool call that needs a decision, a row of mw.interrupt.  Those
 * of one batch share an interrupt.
 */
#ifndef MW_APPROVAL_H
#define MW_APPROVAL_H

#include "agent/thread.h"

typedef enum MwGateStatus
{
	MW_GATE_OPEN, MW_GATE_DECIDED, MW_GATE_DONE, MW_GATE_EXPIRED, MW_GATE_ABANDONED
} MwGateStatus;

/* Who asked is known by its name, which a dump keeps, or by its oid in this cluster, which a renaming does: one is enough */
typedef struct MwShown
{
	MwKey		by_name;
	MwKey		by_oid;
} MwShown;

typedef struct MwGate
{
	const char *interrupt_id;
	int			place;			/* in its batch */
	const char *middleware;		/* who asks; NULL: the tool's own gate */
	bool		batched;
	MwToolCall	call;			/* placeholders */
	MwKey		hash;			/* of the tool and the restored arguments */
	MwShown		shown;			/* of all that whoever decides goes by */
	const char *description;
	List	   *allowed;		/* of char *, in the order of the configuration */
	Jsonb	   *response_schema;	/* per call: what an answer must be; NULL */
	int			approvals;		/* so many roles have to approve */
	int			expires_ms;		/* 0: never */
	const char *on_expiry;		/* reject or end */

	/* a row */
	bool		stored;
	MwGateStatus status;
	Jsonb	   *decision;		/* the verdict; NULL while open */
	MwKey		edited;			/* of an edit: the hash of the tool and the restored arguments in it */
	Jsonb	   *decisions;		/* all of them, as stored */
	TimestampTz expires_at;		/* DT_NOEND: never */
	bool		expiry_told;	/* whoever listens knows that it is past */
	pg_uuid_t	run_id;
	Oid			requested_by;
	Oid			requested_through;	/* who called a function of that role's; InvalidOid: nobody */
	Oid			claimed_by;
	TimestampTz claimed_until;	/* in the past: by nobody */
	const char *session;
	const char *outcome;		/* of this leg: ran, failed (a middleware may try again), not_run; NULL: it has not come to it */
	bool		over;			/* it can let nothing through any more */
} MwGate;

typedef struct MwInterrupt
{
	List	   *gates;			/* of MwGate * */
} MwInterrupt;

/* ---------- approval.c: in a run ---------- */

extern MwGate *mw_gate_new(MwRun *run, const char *middleware, bool batched, const MwToolCall *call);
/* The gate of this call by the same middleware that an earlier leg has asked for; NULL */
extern MwGate *mw_gate_find(MwRun *run, const char *middleware, const char *tool_call_id);
/* Whether anybody's gate has let this very call through in this run */
extern bool mw_gate_passed(MwRun *run, const char *tool_call_id);
/* Stop here: inside a wrap hook it raises what nobody catches, in a node hook the loop sees it */
extern void mw_pause(MwRun *run, List *gates, bool raise);
/* What was approved is what must run: compared at the tool itself (MW605) */
extern void mw_approval_expect(MwRun *run, MwGate *gate);
extern MwKey mw_approval_hash(const char *tenant, const MwPiiMap *map, const char *tool, Jsonb *args);	/* keyed, of restored arguments */
/* MW001 where a value in the arguments of this call would not be there in a later transaction */
extern void mw_approval_require_kept(const MwPiiMap *map, const MwToolCall *call);
/* The message in place of a result after reject or respond */
extern MwMsg *mw_approval_answer(MwRun *run, const MwToolCall *call, Jsonb *decision);

/* Inside all hooks, before a tool runs: its own gate (a result where the tool is not to run), and MW605 */
extern MwToolResponse *mw_approval_check(MwRun *run, const MwTool *tool, MwToolCall *call);
extern void mw_approval_ran(MwRun *run, const MwToolCall *call, bool failed);
/* What it did was rolled back, to be done again; NULL: all of this step, for good */
extern void mw_approval_undone(MwRun *run, const char *tool_call_id);
extern void mw_approval_failed(MwRun *run, bool all_undone);
/* The model has said something new: what was let through by then and has not run never will */
extern void mw_approval_turn(MwRun *run);

/* Once its tools are known: a run that can pause keeps its thread; MW001 where it has no session */
extern void mw_approval_keep(MwRun *run);

/* A pause that has unwound: remember it */
extern void mw_approval_note(MwRun *run);
extern void mw_approval_load(MwRun *run, List *gates);	/* those that an earlier leg asked for */
extern List *mw_approval_gates(MwRun *run);	/* all of this leg, asked and known */

/* approval_shown.c */
extern Jsonb *mw_response_schema(const List *allowed, const MwToolCall *call, const MwTool *tool);
extern Jsonb *mw_approval_interrupts(MwRun *run);	/* of a result: [{"id", "value", "response_schema"}] */

/* human_in_the_loop.c */
extern bool mw_hitl_gates(const MwAgent *agent, const char *tool, bool callers);
/* options.interrupt_on of a call: a middleware after all others, which asks as well and takes the place of none */
#define MW_CALLER_GATES	"options.interrupt_on"
extern void mw_hitl_add(MwAgent *agent, const char *tenant, Jsonb *options);
/* Those options, where a leg names more gates than the run has; never fewer */
extern Jsonb *mw_hitl_options(Jsonb *begun, Jsonb *now);

/* ---------- approval_person.c: the same person? ---------- */

/* Who is logged in, as members of a decision or of a row of the log */
extern void mw_person_push_login(JsonbParseState **st);
/* Which of the roles that asked the current one is, or stands behind; InvalidOid: none, it is somebody else */
extern Oid mw_person_asked(const char *tenant, const MwGate *gate);
/* Whose approval is among a gate's decisions, of whom the same can be said; NULL: nobody's */
extern const char *mw_person_approved(Jsonb *decisions);
/* Whether a gate waits for the current role: one of which the keys, what is asked and who asked are filled in */
extern bool mw_waits_for_me(const char *tenant, const MwGate *gate);

/* ---------- decision.c: what decisions may say ---------- */

#define mw_decision_does_not_fit(...) \
	ereport(ERROR, \
			(errcode(ERRCODE_MW_BAD_DECISION), \
			 errmsg(__VA_ARGS__), \
			 errdetail("Nothing was stored; the interrupt is still open."), \
			 errhint("Batched: {\"decisions\": [...]}, one for each call, in order. Per call: {interrupt id or tool_call_id: decision}. " \
					 "A decision is {\"type\": \"approve\"}, {\"type\": \"reject\", \"message\"?}, {\"type\": \"respond\", \"message\"} or " \
					 "{\"type\": \"edit\", \"edited_action\": {\"name\", \"args\"}}.")))

typedef struct MwMatch
{
	MwGate	   *gate;
	Jsonb	   *decision;		/* in snake_case */
} MwMatch;

/* Which of the gates each decision is for; of MwMatch *.  MW602; MW603 where nothing is open. */
extern List *mw_decision_match(const char *tenant, List *gates, Jsonb *decisions, const char *interrupt_id);
/* MW602; with_values: the same with what its placeholders stand for, NULL where there is nothing of that */
extern void mw_decision_check(const MwGate *gate, const MwAgent *agent, Jsonb *decision, Jsonb *with_values);
extern Jsonb *mw_decision_plain(Jsonb *decision);
extern _Noreturn void mw_nothing_open(const char *tenant, List *gates, const char *interrupt_id);	/* MW603; the detail says why */

/* ---------- decide.c ---------- */

/* How the texts of decisions are kept: personal data as the session's placeholders */
typedef struct MwDecisionTexts
{
	const struct MwPolicy *policy;	/* NULL: as they are */
	MwPiiMap   *map;
	Oid			as;				/* whose rights recognizers and stored values are used with */
	bool		later;			/* the call runs in another transaction than this one */
	List	  **notices;
} MwDecisionTexts;

/* A decision for each of these gates, or MW602, MW604 and nothing is changed; decided (NULL or of MwGate *): which they were */
extern void mw_gates_decide(const char *tenant, List *gates, const MwAgent *agent, Jsonb *decisions, const char *interrupt_id,
							const char *comment, const MwDecisionTexts *texts, List **decided);
/* What is past its time counts as decided */
extern void mw_gates_expire(const char *tenant, List *gates);

/* ---------- approval_seal.c ---------- */

extern MwShown mw_gate_shown(const char *tenant, const MwGate *gate);	/* keyed, of all that whoever decides goes by */
/* Keyed, of the n-th decision and of what it was about: none counts twice, or in another's place */
extern char *mw_gate_seal(const MwGate *gate, int n, Jsonb *decision);
/* MW605 where what was shown, or a decision, is not as it was written */
extern void mw_gates_genuine(const char *tenant, List *gates);

/* ---------- approval_rows.c ---------- */

extern List *mw_gates_read(const char *tenant, const char *session, const pg_uuid_t *run_id, bool lock);	/* open and decided ones */
/* A decision as it is stored, added to those of the gate */
extern void mw_gate_add_decision(MwGate *gate, Jsonb *decision, const char *comment);
extern void mw_gates_write(MwRun *run);	/* at the end of a leg: new ones, and what became of the others */
extern uint32 mw_session_hash(const char *tenant, const char *session);	/* names it in gateway/tell.h */
extern void mw_gate_decided(const char *tenant, MwGate *gate);	/* its decisions and status */
extern void mw_approval_abandon(MwRun *run, const MwSaved *saved);	/* a new prompt on a paused thread */
extern void mw_approval_log(const char *tenant, const MwGate *gate, const char *event, Jsonb *detail);
/* False, and nothing is written, where another transaction is at the session's log */
extern bool mw_approval_log_at_once(const char *tenant, const MwGate *gate, const char *event, Jsonb *detail);

#endif
