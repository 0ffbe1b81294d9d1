/*
 * gateway.h - the parts of the gateway, for each other.
 *
 *   client.c  the backend's side: reserve, ask, settle
 *   slot.c    ... and how a request of it gets across
 *   launch.c  starting and stopping the worker of a database
 *   worker.c  the worker's process: comes, loops, goes
 *   flight.c  one exchange, from the queue to the reply
 *   share.c   one exchange for equal calls
 *   round.c   one turn's work: record, then carry out
 *   record.c  what a round writes, in one transaction
 *   sums.c    what each scope has used: rows, and the memory of them
 *   table.c   how those rows are found and written
 *   sweep.c   rows that are of no use any more
 *   tell.c    who is told of decisions and expiries
 *   route.c   where a request goes: server options and keys, by OID
 */
#ifndef MW_GATEWAY_H
#define MW_GATEWAY_H

#include "mw.h"

#include "executor/spi.h"
#include "lib/ilist.h"
#include "gateway/bill.h"
#include "gateway/spent.h"
#include "gateway/http.h"
#include "gateway/shm.h"

/* client.c */
extern void mw_gateway_record(const char *tenant, const pg_uuid_t *run_id);

/* slot.c */
/* Pack a request, put it into a slot of its database's queue and wake the gateway; "a" may be NULL for work that is no call, "r" where nobody is told of soft limits */
extern int	mw_slot_queue(MwGate *gate, const MwWire *head, const char *tenant, const char *session,
						  const MwAttempt *a, const MwReservation *r, bool owns_reservation);
extern void *mw_slot_hold(int slot);	/* held.c leaves it when the transaction aborts */
extern MwWireReply *mw_slot_wait(int slot, void *held, MwInstant deadline); /* until it is answered */
extern MwWireReply *mw_slot_ask(const MwWire *head, const char *tenant, const char *session, const MwAttempt *a,
								MwInstant deadline);	/* all of it */

/* launch.c */
extern void mw_launch_init(void);	/* utility hook; from _PG_init while preloading */
/* Find (or make) this database's gate and see to it that a worker runs or starts.  Raises MW003. */
extern MwGate *mw_gateway_ensure(void);
extern void mw_gateway_wish(void);	/* the same where it is not worth an error; raises nothing */
extern void mw_gateway_look(Oid db);	/* have it look when the next interrupt expires; raises nothing */
extern void mw_gateway_sweep_at_commit(void);	/* have purged rows deleted once this transaction has committed */

/* route.c: in a transaction */
typedef struct MwRoute
{
	Oid			serverid;
	Oid			roleid;
	Oid			mapping;		/* InvalidOid: none */
	const MwProvider *provider;
	char	   *url;
	char	   *auth_header;
	bool		allow_private;
	char	   *ca_file;
	char	   *client_cert;
	char	   *client_key;
	bool		tls13;
	char	   *proxy;
	long		connect_timeout_ms;
	long		stall_ms;
	size_t		stall_bytes;
	size_t		max_response;
	char	   *error;			/* why nothing can be sent there ... */
	char	   *hint;			/* ... and what to do; both or none */
} MwRoute;
extern void mw_route_init(void);
extern void mw_route_round(void);	/* before each round */
extern const MwRoute *mw_route_find(Oid serverid, Oid roleid);
extern void mw_route_forget(void);	/* after a 401: the key file may have changed */

/* One exchange, from queue to reply; lives in the worker's memory */
typedef struct MwFlight
{
	dlist_node	node;			/* in mw_flights() */
	int			slot;
	MwWire	   *w;				/* in the DSA; ours while the slot is TAKEN */
	const MwRoute *route;		/* valid in the round that records the attempt */
	const MwProvider *provider;
	MwHttpTransfer *transfer;
	TimestampTz started_at;
	ItemPointerData row;		/* where its attempt's row was written */
	TimestampTz settled_at;		/* budgets' now of its attempt, then of its outcome: its row and its counters meet it at one moment */
	struct MwFlight *leader;	/* joined this one */
	List	   *followers;		/* of MwFlight */
	MwInstant	parked_until;	/* waits for the next attempt of one that failed; .us 0: does not */
	bool		same_call;		/* follower of the very call of an earlier run of its request_id, not of an equal one */

	/* what this round does with it */
	bool		ended;			/* its outcome is to be written */
	bool		send;			/* the attempt row is written: it leaves after the commit */
	bool		resolved;		/* nothing has to be sent: reply says why */
	bool		in_flight;		/* it has left */
	bool		recorded;		/* what this round does is committed, and shared memory says the same */

	/* after it */
	MwBill		bill;			/* kind, too, for what never left */

	/* LOAD and BOOK */
	MwSpent		load[MW_MAX_SCOPES];
	int64		booked;
	int64		extra;			/* of them held in advance, until the commit */

	/* the reply, but for its body */
	MwWireReply reply;
	char	   *body;			/* palloc'd in the round's context */
	int			body_len;
} MwFlight;

/* A saved plan, prepared at first use: for what is more than a row by its key */
typedef struct MwStatement
{
	const char *sql;
	int			nargs;
	Oid			types[5];
	SPIPlanPtr	plan;
} MwStatement;

/* record.c: all inside one transaction that worker.c opens */
extern uint64 mw_statement_run(MwStatement *st, Datum *values, const char *nulls);	/* rows that it gave or changed */
extern void mw_record_attempt(MwFlight *f); /* looks for a recorded answer first, where the id was named */
extern void mw_record_outcome(MwFlight *f);
extern void mw_record_booking(MwFlight *f);
extern const MwKey *mw_booking_key(const MwWire *w);	/* the scope of a block of hits */
extern void mw_record_bare(MwFlight *f);
extern void mw_record_recover(void);	/* attempts that a crash left running become unknown */
extern void mw_record_locks_lost(void);
extern void mw_record_lock_tables(bool lock);	/* session-level, while calls are in flight */

/* sums.c */
extern void mw_sums_reset(void);	/* before each round */
extern void mw_sums_load(MwFlight *f);
extern void mw_sums_begin(const MwWire *w, TimestampTz now);	/* the windows of a call that is about to leave */
/* What was used, in the windows of when; w, where given, says whom a soft limit is told to */
extern void mw_sums_spend(const MwWire *w, const char *tenant, const char *session, const MwAmounts *used,
						  const MwAmounts *excess, const MwWhen *when, TimestampTz now);
extern void mw_sums_write(void);	/* at the end of the round: what was spent in it */
extern void mw_sums_committed(void);	/* after its commit */
extern void mw_sums_forget(void);	/* rows were changed by other means */
extern bool mw_sums_something_to_tell(void);	/* soft limits were crossed */
extern bool mw_sums_tell(void); /* NOTIFY, in a transaction of its own ... */
extern void mw_sums_told(void); /* ... and after its commit */

/* sweep.c */
extern bool mw_sweep(void);		/* delete some of what was purged, expired or dropped; true: there may be more */
extern bool mw_sweep_took_sums(void);
extern bool mw_sweep_ledger(void);	/* the same for what is older than its tenant's retention */

/* flight.c */
extern dlist_head *mw_flights(void);
extern List *mw_flights_queued(MwGate *gate);	/* takes the queue; returns those that have joined no other */
extern List *mw_flights_ended(void);	/* whose transfers have ended, judged */
extern void mw_flight_judge(MwFlight *f, MwHttpResult *h);
extern void mw_flight_settle(MwFlight *f);	/* after the commit of its outcome */
extern void mw_flight_reply(MwFlight *f);	/* and forgets it */
extern void mw_flight_refuse(MwFlight *f, int sqlstate, const char *why, const char *hint);	/* hint "" for none */
extern void mw_flights_lost(void);
extern void mw_flight_unhold(MwFlight *f);	/* hits in advance that were not booked */
extern MemoryContext mw_flight_context(void);	/* outlasts rounds */

/* share.c */
extern bool mw_share_join(MwFlight *f);
extern List *mw_share_end(MwFlight *f, bool settled);
extern List *mw_share_due(long *next);

/* round.c: record and carry out; returns what has to be done next because of it */
extern List *mw_round_do(MwGate *gate, List *work);
extern bool mw_round_unrecorded(void);
extern void mw_round_recovered(void);

/* worker.c */
extern MemoryContext mw_round_context(void);

#endif
