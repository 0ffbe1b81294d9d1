/*
 * script.h - what a fake server answers, and what this backend has asked it.
 *
 * script.c reads a script and chooses a step, script_play.c turns that into a
 * response, script_state.c keeps, for each fake server, the script and how far
 * it has been played.
 */
#ifndef MW_SCRIPT_H
#define MW_SCRIPT_H

#include "mw.h"
#include "gateway/transport.h"

/* A step as it lies in the script, checked when the script was set */
typedef struct MwStep
{
	Jsonb	   *json;
	int			repeat;			/* times it answers; INT_MAX: always (a rule without "repeat") */
} MwStep;

/*
 * One list of steps: of a model (object form) or of a rule (array form, one
 * step).  Lists are tried in order; the first whose condition holds answers.
 */
typedef struct MwStepList
{
	char	   *model;			/* object form: the model, "*" for any */
	char	   *match_text;		/* rule: must occur in the last user message */
	Jsonb	   *match_json;		/* rule: must be contained in the request */
	int			nsteps;
	MwStep	   *steps;
} MwStepList;

/* Immutable once made but for the breaker: the versions of a transaction's levels share it */
typedef struct MwScript
{
	MemoryContext cxt;			/* everything of it, the log of requests too */
	int			refs;			/* versions that point here */
	bool		rules;			/* array form: a used-up list lets the next one try */
	int			nlists;
	MwStepList *lists;
	MwBreaker	breaker;		/* of the server while it plays this script: no rollback takes back what it was told */
} MwScript;

/* A response, as if it had come from the network */
typedef struct MwScripted
{
	const char *answered;		/* what mw_fake_requests shows: text, tool_calls, status 429, ... */
	int			delay_ms;		/* before anything comes back */
	bool		connect_failed; /* nothing was sent */
	bool		complete;		/* a whole response was read; else it is unknown */
	int			status;			/* of a status line that came, else 0 */
	int64		retry_after_ms; /* -1: none asked for */
	bool		retry_forbidden;
	bool		numbered;		/* an answer of a model: the next one's ids count on */
	char	   *body;			/* NULL for none */
	int			len;
} MwScripted;

#define MW_SCRIPT_MAX_DELAY_MS	600000

/* script.c */
extern MwScript *mw_script_make(Jsonb *json);	/* MW001 with what is allowed */
extern const MwStep *mw_script_choose(const MwScript *script, const int *used,
									  Jsonb *request, const char *model, int *list);

/* script.c, for script_play.c too: readers of what was checked */
extern JsonbValue *mw_script_get(Jsonb *object, const char *key);	/* null too, which mw_json_get takes for absent */
extern bool mw_script_is_null(const JsonbValue *v); /* absent or null */
extern JsonbContainer *mw_script_array(const JsonbValue *v);	/* NULL for anything else */
extern char *mw_script_text(const JsonbValue *v);	/* the JSON text of any value */
extern double mw_script_number(const JsonbValue *v);
extern int	mw_script_int(Jsonb *step, const char *where, const char *key, int min, int max, int dflt);

/* script_play.c */
extern MwScripted *mw_script_play(const MwStep *step, Jsonb *request, int n);

/*
 * script_state.c: whether a call goes on beyond the current subtransaction.  What its own subtransactions take
 * back (a try of a middleware, a hook's EXCEPTION block) has been sent and
 * answered all the same, as with a real server.  Set by policy/rights.c.
 */
extern bool (*mw_script_inside) (void);

/* script_state.c: take the next step and log the request; MW001 where no script was set */
extern MwScripted *mw_script_answer(const MwAttempt *attempt);

#endif
