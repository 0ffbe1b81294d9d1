/*
 * structured.h - answers in a given form.
 */
#ifndef MW_STRUCTURED_H
#define MW_STRUCTURED_H

#include "agent/run.h"

extern MwFormat *mw_format_read(Jsonb *response_format, const char *model);	/* MW001; NULL for NULL */
extern Jsonb *mw_format_option(const MwFormat *format);	/* the provider's response_format */
extern const MwModelRequest *mw_structured_request(MwRun *run, const MwModelRequest *req);
extern MwModelResponse *mw_structured_response(MwRun *run, const MwModelRequest *req, MwMsg *answer);
extern bool mw_structured_is(MwRun *run, const char *tool);	/* one of its tools? */
extern bool mw_structured_done(MwRun *run, const MwMsg *answer, MwMsg **results);	/* one of them is of a structured call, be it an error's text: after tools have run, that is the run's end */
extern void mw_structured_restore(MwRun *run);	/* what had been answered when the run was paused */
extern bool mw_structured_again(MwRun *run);	/* no answer in its form yet, and nothing else to do */

#endif
