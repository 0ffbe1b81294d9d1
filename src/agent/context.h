/*
 * context.h - what middlewares share that shape what a model sees: sizes of a
 * context, which message answers which, and a transcript for a summariser.
 */
#ifndef MW_CONTEXT_H
#define MW_CONTEXT_H

#include "mw.h"

#include "agent/agent.h"

/* count.c: a size of a context; what is 0 was not asked for */
typedef struct MwSize
{
	int64		tokens;
	int64		messages;
	double		fraction;		/* of what the model's catalogue row calls max_input_tokens */
} MwSize;

/*
 * Read a size as LangChain spells it, {"tokens": n} or ["tokens", n].  several:
 * an object may hold several parts, which all count.  MW001 with the key.
 */
extern MwSize *mw_size_read(MwMiddleware *m, const char *key, JsonbValue *v, bool several);
/* Likewise a size or a list of them (of MwSize *), of which one is enough; NIL where the option is absent */
extern List *mw_sizes_read(MwMiddleware *m, const char *key, JsonbValue *v);
/* Its tokens in a context of so many (0: not known): 0 where it asks for none or they cannot be told, else at least 1 */
extern int64 mw_size_tokens(const MwSize *size, int64 context);
/* Whether a context of these is at least as large, in all that is asked for; unknown context: a fraction is not reached */
extern bool mw_sizes_reached(List *sizes, int64 tokens, int64 messages, int64 context);
/* Refuse a fraction where the model's context is not known: MW001 with the statement to type.  model NULL: cannot be told yet. */
extern void mw_size_check(MwMiddleware *m, const char *key, const MwSize *size, const char *model);

/* Option token_counter: the signature of a function, NULL for "approximate" */
extern char *mw_opt_counter(MwMiddleware *m, Jsonb *options);
/* Tokens as that function counts them, or approximately where it is NULL; MW702 for what is no number */
extern int64 mw_count_by(MwRun *run, const char *counter, List *msgs);
/* What the provider said that the exchange of this answer took, input and output; 0 where it said nothing */
extern int64 mw_reported_tokens(const MwMsg *msg);

/* pairs.c: for each message the place in the list of the assistant's message whose call it answers, the nearest before it; -1: none.  palloc'd */
extern int *mw_pairs(List *msgs);
/* For each call of the assistant's message at that place the result after it, before the next answer; NULL: open.  palloc'd */
extern MwMsg **mw_results_of(List *msgs, int at);
/* A run is given up: calls of its last answer that nothing answers, nor what is about to be said, are answered by what became of them.  In memory. */
extern void mw_pairs_close(MwRun *run, List *said, const char *what);

/* transcript.c: the last of the messages that fit, from a user's one on; the oldest of them may be cut.  counter as for mw_count_by. */
extern List *mw_trim_to_last(MwRun *run, List *msgs, int64 tokens, const char *counter);
/* Messages as elements of XML, for a model to read; palloc'd */
extern char *mw_transcript(List *msgs);

#endif
