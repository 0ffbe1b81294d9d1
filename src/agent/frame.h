/*
 * frame.h - which hook of which run is on the stack now.
 *
 * A frame is pushed around whatever of a user's runs inside a run: a hook, whose
 * mw_next calls the next one in, and a tool, inside which there is no next one.
 */
#ifndef MW_FRAME_H
#define MW_FRAME_H

#include "agent/agent.h"

typedef enum MwFrameKind
{
	MW_FRAME_PLAIN,				/* a node hook, a tool, a function of an option: no mw_next */
	MW_FRAME_MODEL,				/* wrap_model_call */
	MW_FRAME_TOOL				/* wrap_tool_call */
} MwFrameKind;

typedef struct MwFrame
{
	struct MwFrame *outer;
	MwRun	   *run;
	MwFrameKind kind;
	int			level;			/* the next one in */
	const MwModelRequest *model_request;	/* what the hook was given */
	const MwToolRequest *tool_request;
	List	   *updates;		/* of the state, which the last mw_next brought (model) ... */
	Jsonb	   *update;			/* ... (tool) */
	const MwReveal *reveal;		/* what it is shown of personal data; NULL: placeholders */
	struct MwToolTimer *timer;	/* a hook's own time, which stands still inside mw_next; NULL: not a hook's */
} MwFrame;

extern MwFrame *mw_frame;		/* the innermost; NULL outside of runs */

/*
 * Around a call of a user's function: push, PG_TRY, call, PG_FINALLY pop.  A
 * sticky error that the function has swallowed is raised again by the caller
 * with mw_frame_check.
 */
extern void mw_frame_push(MwFrame *frame, MwRun *run, MwFrameKind kind);
extern void mw_frame_pop(const MwFrame *frame);
extern void mw_frame_check(MwRun *run);

extern bool mw_frame_must_pass(const ErrorData *edata);	/* a pause, a cancel, and what else nobody may catch */

/* Note an error that must not be swallowed, in the CATCH of what hooks can catch */
extern void mw_frame_note(MwRun *run);

/* frame.c: who an error comes from, for MW701 and MW702 at the end of the run */
typedef enum MwFaultKind { MW_FAULT_NONE, MW_FAULT_TOOL, MW_FAULT_HOOK } MwFaultKind;
extern void mw_fault_from(MwRun *run, MwFaultKind kind, const char *who, const char *where, const ErrorData *edata);
extern bool mw_fault_of(MwRun *run, const ErrorData *edata, MwFaultKind *kind, const char **who, const char **where);

#endif
