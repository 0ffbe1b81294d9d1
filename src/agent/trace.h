/*
 * trace.h - what a run did, step by step.
 */
#ifndef MW_AGENT_TRACE_H
#define MW_AGENT_TRACE_H

#include "agent/agent.h"

/* A step begins; the handle is for its end.  A step that an error leaves has no end, and says so. */
extern int	mw_trace_begin(MwRun *run, const char *kind, const char *name);
/* input, output: redacted, NULL for none; kept where the agent says "trace": "full" */
extern void mw_trace_end(MwRun *run, int step, Jsonb *input, Jsonb *output);
extern void mw_trace_left(MwRun *run, int step);	/* by an error, after which the run goes on beside it */
/* The tokens and the cost of the model call that a step was */
extern void mw_trace_cost(MwRun *run, int step, const MwUsage *usage, MwMoney cost, bool priced);
extern void mw_trace_write(MwRun *run); /* at the end of a leg, into mw.trace */

#endif
