/*
 * values.h - values in the place of placeholders, for functions that may see
 * them, and placeholders in theirs again.
 */
#ifndef MW_VALUES_H
#define MW_VALUES_H

#include "agent/agent.h"

struct MwReveal					/* whose option says so is shown values ... */
{
	List	   *types;			/* ... of these types of personal data alone, of char *; NIL: all */
};

/* true, false or an array of types; NULL: nothing is shown.  Returns false where it is none of them. */
extern bool mw_reveal_read(JsonbValue *v, MwReveal **reveal);
/* MW001 where a type is nobody's; inside SPI, as the owner.  what: "a tool", "an agent" */
extern void mw_reveal_check(const MwReveal *reveal, const char *what);

/* With the values that it may see; json itself where there are none, or reveal is NULL */
extern Jsonb *mw_reveal_show(MwRun *run, const MwReveal *reveal, Jsonb *json);
/* What a hook that was shown them gives back: each of them is its placeholder again, wherever it stands as a word of its own */
extern Jsonb *mw_reveal_hide(MwRun *run, const MwReveal *reveal, Jsonb *json);

/* What a trace says behind the name of a middleware that is shown values */
#define mw_reveal_word(m) ((m)->reveal != NULL ? ", shown values" : "")

#endif
