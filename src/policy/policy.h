/*
 * policy.h - what an administrator set for a tenant, as stages read it.
 *
 * Policies are read from the tables once, as the owner, with the latest
 * snapshot, and kept per process until the relation cache says that one of the
 * tables changed (statement triggers on them send that message, so it works for
 * two-phase commit and for changes by hand too).  A call holds one policy from
 * beginning to end; a flush happens only while no call is running.
 */
#ifndef MW_POLICY_H
#define MW_POLICY_H

#include "mw.h"

#define MW_DEFAULT_SESSION_TOKENS 50000	/* the seed's ceiling (P10), of a session and of a run without one */

struct MwRecognizer;			/* policy/rules.h */
struct MwGuard;

/* A row of mw.model */
typedef struct MwModel
{
	char	   *model;			/* server:model */
	int64		max_input_tokens;	/* 0: not said */
	int64		max_output_tokens;	/* 0: not said */
	bool		structured_output;	/* it keeps to a JSON schema by itself */
} MwModel;

typedef struct MwPolicy
{
	MemoryContext cxt;
	char	   *tenant;
	bool		committed;		/* the tenant's row is visible to other processes: false makes a call to a real server MW001 */
	char	   *model;			/* the tenant's default, or NULL */
	bool		redact;
	bool		redact_output;	/* answers too, beyond what is restored */
	bool		refuse_files;	/* images and files do not pass */
	struct MwRedaction *redaction;	/* types and strategies of the settings (policy/redaction.h); NULL for none */
	bool		guardrail;		/* its mode is not off */
	bool		guard_shadow;	/* its mode is log: nothing is refused, all is counted */
	double		guard_threshold[4]; /* by MwGuardSource: a text whose score reaches it is refused */
	List	   *guard_hosts;	/* of char *: images of an answer may come from there */
	int64		guard_max_output;	/* characters of an answer; 0: no limit */
	char	   *guard_schema;	/* JSON schema that an answer must meet, as text; NULL: none */
	bool		cache;
	int			cache_ttl;		/* seconds; default 86400 */
	int64		cache_version;
	int64		cache_epoch;	/* of the last purge that committed (0: none) */
	int			timeout_ms;		/* of a call that says nothing; 0: the server's setting */
	int			max_timeout_ms;
	int			retry_max_attempts; /* default 3 */
	int			retry_base_ms;	/* default 500 */
	int			retry_max_ms;	/* default 30000 */
	bool		breaker;		/* false: breakers neither stop its calls nor hear of them */
	Jsonb	   *fallback;		/* as policy/fallback.h reads it; NULL for none */
	char	   *timezone;		/* of its windows; default UTC */
	char	   *session_policy; /* setting: a function(tenant, session) that says which sessions a role may see; NULL: all */
	char	   *budget_end;		/* setting on_budget: what a run ends with; NULL: MW301 */
	char	   *guardrail_end;	/* setting on_guardrail; NULL: MW202 */
	MwLimits	limits;			/* of the tenant as a whole */
	MwLimits	session_limits;	/* of each session that has none of its own */
	bool		own_limits;		/* some session has */
	struct HTAB *sessions;		/* those that were asked for (mw_policy_limits) */
	MwWhen		when;			/* the windows of the minute asked for last (mw_policy_when) */
	MwKey		scope;			/* names the tenant in shared memory and in locks; keyed, so that nobody else can */
	MwKey		tag_key;		/* of the request_ids that mw makes for it */
	uint8		version[16];	/* of the rules that redact and guard: part of the cache key */

	/* rules that hold for this tenant: '*' rows and its own (which win), in order of priority */
	const struct MwRecognizer *recognizers;
	int			nrecognizers;
	const struct MwGuard *guards;	/* by name */
	int			nguards;
	struct MwPolicy *variants;	/* with the redaction of a call or an agent, kept as long as this one (redaction.c) ... */
	struct MwPolicy *next;		/* ... and the next of these */
	void	   *redact_plan;	/* what stage/detect_plan.c makes of the recognizers, lazily, in cxt */
	void	   *guard_plan;		/* likewise guardrail.c */
} MwPolicy;

extern void mw_policy_init(void);	/* callbacks; from _PG_init */

/*
 * The policy of a tenant for the current role.  Raises MW101 when the role may
 * not act for it, when it does not exist, or when mw.tenant names another.
 */
extern const MwPolicy *mw_policy_get(const char *tenant);
extern struct MwRowTable mw_table_tenant;	/* mw.tenant, by name (util/row.h) */
/* The policy of nobody: the '*' rules alone (pure pieces without a tenant).  Without the extension's tables, the built-in rules. */
extern const MwPolicy *mw_policy_default(void);
extern const MwModel *mw_policy_model(const char *model);	/* the catalogue's row or NULL */

/* limits.c: what limits a session, or with NULL the tenant as a whole; lives as long as the policy */
extern const MwLimits *mw_policy_limits(const MwPolicy *policy, const char *session);
extern void mw_limits_read(MwPolicy *policy);	/* as the policy is made */
extern void mw_policy_when(const MwPolicy *policy, TimestampTz now, MwWhen *when);	/* the windows that hold now */

/* price.c: the price of a model at this moment, not known where it has none */
extern MwPrice mw_policy_price(const char *model, TimestampTz at);

extern char *mw_channel_of(const char *tenant);	/* channel.c: the name that mw_channel gives */
extern void mw_channel_init(void);	/* tells it to the gateway */

/* What names a tenant's counters in shared memory, and those of a session of it */
extern MwKey mw_scope_key(const char *tenant);
extern MwKey mw_session_key(const MwKey *scope, const char *session);

/* rights.c */
extern bool mw_may_act(const char *tenant);
extern void mw_require_may_act(const char *tenant);	/* MW101 */
extern bool mw_not_narrowed(const char *tenant);	/* neither a running call nor mw.tenant names another one */

/* session_policy.c: may_act, and what the tenant's session_policy says of this session */
extern bool mw_may_see(const char *tenant, const char *session);
extern void mw_require_may_see(const char *tenant, const char *session);	/* MW101, also where the role may not act for the tenant */

/*
 * While a call runs, may_act holds for its tenant alone, in nested calls too.
 * Kept on a stack in C that transaction and subtransaction abort unwind.
 */
extern void mw_call_enter(const char *tenant);
extern void mw_call_leave(void);
extern int	mw_call_depth(void);

/* The key of the database (32 bytes, made by CREATE EXTENSION, no right for anyone): fingerprints, channels, hashes. */
extern const uint8 *mw_database_key(void);

#endif
