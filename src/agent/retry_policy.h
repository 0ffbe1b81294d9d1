/*
 * retry_policy.h - which errors are tried again, after how long, and what is
 * said when that did not help: what model_retry and tool_retry share.
 */
#ifndef MW_RETRY_POLICY_H
#define MW_RETRY_POLICY_H

#include "agent/agent.h"

typedef enum MwRetryOn
{
	MW_RETRY_DEFAULT,			/* what another try may mend */
	MW_RETRY_NEVER,
	MW_RETRY_ALWAYS,
	MW_RETRY_MATCH,				/* statuses, names, text */
	MW_RETRY_FUNCTION
} MwRetryOn;

typedef enum MwOnFailure
{
	MW_FAILURE_CONTINUE,		/* LangChain's text */
	MW_FAILURE_ERROR,			/* the error goes on */
	MW_FAILURE_MESSAGE,			/* a text of the user's, with {error} and {tool} */
	MW_FAILURE_FUNCTION			/* ... or of a function of the user's; NULL: the error goes on */
} MwOnFailure;

typedef struct MwRetryPolicy
{
	int64		max_retries;
	double		initial_delay;	/* seconds */
	double		max_delay;
	double		backoff_factor; /* 0: always initial_delay */
	bool		jitter;

	MwRetryOn	on;
	List	   *statuses;		/* of int */
	List	   *names;			/* of char *: SQLSTATEs and condition names */
	char	   *message_contains;
	char	   *on_function;

	MwOnFailure failure;
	char	   *failure_message;
	char	   *failure_function;
} MwRetryPolicy;

#define MW_RETRY_OPTIONS "backoff_factor", "initial_delay", "jitter", "max_delay", "max_retries", "on_failure", "retry_on"

extern MwRetryPolicy *mw_retry_read(MwMiddleware *m, Jsonb *options);

/* Whether the error is one that is tried again; call: the tool call, NULL for a model's */
extern bool mw_retry_applies(MwRun *run, MwMiddleware *m, const MwRetryPolicy *p, const MwError *err, const MwToolCall *call);

/* Wait before the n-th retry (from 0); false, at once, where that is longer than the run may last or anybody waits */
extern bool mw_retry_wait(MwRun *run, const MwRetryPolicy *p, int64 n, const MwError *err);

/* The text that stands for a result after so many attempts, "otherwise" where the policy has none of its own; NULL: the error goes on */
extern char *mw_retry_failure(MwRun *run, MwMiddleware *m, const MwRetryPolicy *p, const MwError *err, const MwToolCall *call,
							  const char *otherwise);

/* "3 attempts with unique_violation: duplicate key ...", for that text */
extern char *mw_retry_story(int64 attempts, const MwError *err);

/* What a function of an option is given: the error, and the tool call where it is one's */
extern Jsonb *mw_error_json(const MwError *err, const MwToolCall *call);
/* A text of the user's with {error} and {tool} filled in */
extern char *mw_error_fill(const char *template, const MwError *err, const MwToolCall *call);
/* A list of SQLSTATEs and condition names; MW001 for what is neither */
extern void mw_error_check_names(MwMiddleware *m, const char *key, List *names);

#endif
