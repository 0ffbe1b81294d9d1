/*
 * analyzer.h - recognisers of type "presidio".
 */
#ifndef MW_ANALYZER_H
#define MW_ANALYZER_H

#include "mw.h"
#include "policy/rules.h"

/* Read what a row says (current context); type: the recogniser's.  Raises MW001. */
extern MwAnalyzer *mw_analyzer_read(Jsonb *options, const char *type);
/* The same for what is to be written: the server must be there, too.  Returns it. */
extern Jsonb *mw_analyzer_check(Jsonb *options, const char *type);
/* What of a recogniser's options is an analyzer's, NULL for nothing */
extern Jsonb *mw_analyzer_part(Jsonb *options);

#endif
