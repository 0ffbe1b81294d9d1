/*
 * transport.h - the interface between the stages and whoever carries a call.
 *
 * There are two implementations: the gateway (client.c here, the background
 * worker behind it) for real servers, and its twin in the backend (fake.c) for
 * a server with api 'fake'.  Both count budgets, keep attempts, recorded
 * answers and cache rows, and answer an attempt.  The gateway's records are
 * durable from their own commit; the twin's are rows of the caller's
 * transaction, so that a test that rolls back leaves nothing.
 *
 * Direction: stages call the transport; the transport knows no policy, it
 * carries out the plan that an MwAttempt holds.
 */
#ifndef MW_TRANSPORT_H
#define MW_TRANSPORT_H

#include "mw.h"
#include "gateway/breaker.h"
#include "gateway/counters.h"
#include "provider/provider.h"

#define MW_LOST_IN_CRASH "lost in a crash"	/* mw.attempt.error of what a crash left running */

/* What became of an attempt (invariant 5) */
typedef enum MwOutcomeKind
{
	MW_OUTCOME_OK,				/* a complete 2xx that can be used */
	MW_OUTCOME_FAILED,			/* a complete response said so, or it cannot be used */
	MW_OUTCOME_NOT_SENT,		/* the request was not written in full, or a reused connection died unused */
	MW_OUTCOME_UNKNOWN			/* written in full, no complete response read */
} MwOutcomeKind;

/* Everything the carrier needs; built by the model stage */
typedef struct MwAttempt
{
	/* identity: names the ledger row */
	const char *tenant;
	const char *session;		/* NULL: none */
	const char *request_id;
	bool		request_named;
	pg_uuid_t	run_id;
	int			turn;
	int			call_no;
	int			attempt;
	const char *purpose;
	const char *model;			/* server:model */

	/* where */
	Oid			serverid;
	const MwProvider *provider;
	const char *body;
	int			body_len;
	MwInstant	deadline;
	bool		afresh;			/* on a connection of its own: a kept one had died */
	uint32		breaker;		/* generation under which it passed the server's breaker; 0: it tells that nothing */

	/* completion plan */
	MwReservation *reserved;	/* the call's: settle these scopes; hold.amount.requests is 1 where this attempt counts the call */
	MwKey		call_key;
	int			nth;
	bool		resend_unknown;
	MwKey		cache_key;
	bool		cacheable;		/* store under cache_key when the outcome says it may be */
	bool		share;			/* may join an equal miss in flight */
	int64		cache_epoch;
	int			cache_ttl;
} MwAttempt;

typedef struct MwReply
{
	MwOutcomeKind kind;
	int			http_status;	/* 0: none came */
	int64		retry_after_ms; /* the provider's wish, -1: none */
	bool		retry_forbidden;	/* x-should-retry: false, or an error that no waiting mends */
	bool		timed_out;		/* the deadline ended it */
	bool		connect_failed;	/* no connection could be made */
	bool		private_host;	/* ... since its name resolves to a private address */
	bool		shared;			/* an equal miss of the same tenant was joined: nothing billed */
	bool		recorded;		/* the recorded answer of an earlier run: nothing billed */
	bool		unknown_before;	/* an earlier run's attempt has an unknown outcome: not sent (MW502) */
	bool		look_again;		/* nothing was sent: an equal miss was stored a moment ago, or the breaker changed meanwhile; look into the cache, and ask anew */
	bool		counted;		/* the call has now been counted in the "requests" of its scopes */
	MwUsage		usage;
	bool		priced;			/* its cost is known ... */
	MwMoney		cost;
	char	   *error;			/* what went wrong, printable, without secrets; NULL for none */
	char	   *body;			/* the provider's answer, valid UTF-8; NULL for none */
	int			body_len;
} MwReply;

/* A recorded or cached answer */
typedef struct MwStored
{
	bool		found;
	bool		running;		/* recorded answers: an attempt of an earlier run is still in flight */
	bool		unknown;		/* recorded answers: its outcome is unknown */
	bool		unusable;		/* a complete 2xx that could not be used: MW405 again */
	bool		went_on;		/* recorded answers: it failed, and an earlier run had answers to other requests after that ... */
	int			http_status;	/* ... what it failed with; 0: nothing was sent ... */
	char	   *error;			/* ... and NULL, or what was said of it */
	char	   *body;
	int			body_len;
} MwStored;

typedef struct MwTransport
{
	const char *name;
	const MwBreakerStore *breakers;

	/*
	 * Admit what the reservation asks for (mw_reservation_ask) in all limits of
	 * all its scopes or in none; false with the limit that refused.
	 */
	bool		(*reserve) (MwCall *call, MwRefusal *why);
	/* Give back what is still reserved */
	void		(*release) (MwCall *call);
	/* What its i-th scope has used by now, in each window (asked for where it has soft limits) */
	void		(*used) (MwCall *call, int scope, MwAmounts *used);
	/* A hit: count it where a scope has a limit on requests; false when that is used up */
	bool		(*book_hit) (MwCall *call);

	/* Look up an answer; both as the calling role, with the latest snapshot */
	MwStored	(*recorded) (MwCall *call);
	MwStored	(*cached) (MwCall *call);

	/*
	 * One attempt, synchronous, interruptible.  Returns after its record is
	 * durable.  An answer and an unknown outcome use the reservation up
	 * (reserved->held false, its amount 0); counted attempts take requests to 0.
	 */
	MwReply    *(*exchange) (const MwAttempt *attempt);
} MwTransport;

/*
 * client.c: a request to a server that is no model, by the current role's mapping.
 * Nothing is reserved, booked or recorded; the body is in shared memory until it is answered.
 * Interruptible.  Raises MW003; MW404 where the gateway is stuck past the deadline.
 */
extern MwReply *mw_gateway_ask(Oid serverid, const char *body, int len, MwInstant deadline);

/* bill.c: a complete response that refuses for now (invariant 5) */
extern bool mw_status_retryable(int http_status);

/* An option of a server or a mapping, NULL where it is not given (route.c) */
extern const char *mw_server_option(List *options, const char *name);

/* Why the key in a file cannot be read, a lower-case clause; NULL where it can (route.c) */
extern char *mw_key_file_problem(const char *path);

extern const MwTransport mw_transport_gateway;
extern const MwTransport mw_transport_fake;

#endif
