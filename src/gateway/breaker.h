/*
 * breaker.h - the circuit breaker of a model server, and what its callers
 * together may spend on retries.
 */
#ifndef MW_BREAKER_H
#define MW_BREAKER_H

#include "mw.h"
#include "util/clock.h"

/* What a server's options say (policy/server.c) */
typedef struct MwBreakerRules
{
	bool		on;
	int			failures;		/* in a row, that open it */
	int64		cooldown_ms;	/* how long it stays open the first time ... */
	int64		max_cooldown_ms;	/* ... and at most, each failed probe doubling it */
	double		retry_share;	/* retries that each call adds for all */
	int			retry_reserve;	/* and those that a minute adds; so many are kept at most */
	uint32		version;		/* of the server's options: others begin afresh */
} MwBreakerRules;

typedef enum MwBreakerState
{
	MW_BREAKER_CLOSED,
	MW_BREAKER_OPEN,
	MW_BREAKER_HALF_OPEN		/* one attempt is a probe, all others are refused */
} MwBreakerState;

/* In shared memory for a real server, with the script for a fake one */
typedef struct MwBreaker
{
	uint32		generation;		/* counts changes of state: who was admitted in an earlier one tells nothing */
	MwBreakerState state;
	int			failures;		/* in a row */
	int64		cooldown_ms;	/* of the opening that lasts, or of the next one */
	TimestampTz opened_at;		/* 0: closed */
	MwInstant	retry_at;		/* open: when a probe may be sent; half-open: when the probe's time is over */
	double		retries;		/* left */
	MwInstant	refilled_at;
	MwBreakerRules rules;
} MwBreaker;

/* What an exchange tells of the server */
typedef enum MwHealth
{
	MW_HEALTH_NOTHING,			/* a caller's deadline, our own limits: it may be well or not */
	MW_HEALTH_ALIVE,			/* it answered, be it with a refusal */
	MW_HEALTH_FAILED			/* not reached, 5xx, stalled, broke off */
} MwHealth;

/* An attempt's way past the breaker; of one call, in its memory */
typedef struct MwPass
{
	uint32		generation;		/* under which it was admitted; 0: the breaker has no say */
	bool		probe;
	void	   *held;			/* a probe's: given back when its backend leaves in any way ... */
	void	   *what;			/* ... as this says */

	/* where it was refused */
	bool		probing;		/* somebody else's probe is under way */
	int			failures;
	TimestampTz opened_at;
	MwInstant	retry_at;
} MwPass;

/* Where a transport keeps breakers.  find locks and returns NULL (and has not locked) where there is none. */
typedef struct MwBreakerStore
{
	MwBreaker  *(*find) (Oid serverid);
	void		(*done) (void);
} MwBreakerStore;

extern const MwBreakerStore mw_breakers_shared; /* of this database's servers */
extern const MwBreakerStore mw_breakers_scripted;	/* script_state.c */

/* Before an attempt: false with the reason in *pass.  deadline bounds how long a probe may keep others waiting. */
extern bool mw_breaker_admit(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules,
							 MwInstant deadline, MwPass *pass);
/* After it, whatever became of it: a probe that told nothing is given back */
extern void mw_breaker_done(MwPass *pass);
/* Does a pass still hold?  Not where the state has changed since: its holder has to ask again. */
extern bool mw_breaker_holds(const MwBreakerStore *store, Oid serverid, uint32 generation);
/* What the exchange told; by whoever carried it out */
extern void mw_breaker_tell(const MwBreakerStore *store, Oid serverid, uint32 generation, MwHealth health);

/* A call begins: it adds its share of retries; and one retry of all: false where there is none left */
extern void mw_breaker_count_call(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules);
extern bool mw_breaker_take_retry(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules);

/* For views and errors: a copy as it stands now; false where nothing is known of the server */
extern bool mw_breaker_look(const MwBreakerStore *store, Oid serverid, const MwBreakerRules *rules, MwBreaker *copy);
extern const char *mw_breaker_state_name(const MwBreaker *b);
extern void mw_breaker_reset(const MwBreakerStore *store, Oid serverid);

extern void mw_breaker_shmem_request(void);
extern void mw_breaker_shmem_startup(void);

#endif
