/*
 * shm.h - the shared memory of mw: gates, call slots, payloads.
 *
 * One LWLock (MwShared.lock) guards gates and slots: who runs, who waits, which
 * state a slot is in.  It is held for a few dozen instructions and never across
 * a wait or an allocation.  Payloads (requests, replies) lie in a DSA that is
 * made in place at start and grows by segments; a payload belongs to whoever
 * the slot's state says: the caller until QUEUED, the gateway from TAKEN on,
 * the caller again at DONE; where the caller has left, the gateway frees it.
 * Budgets are in counters.c under locks of their own.
 */
#ifndef MW_SHM_H
#define MW_SHM_H

#include "mw.h"

#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/dsa.h"

#include "gateway/transport.h"

#define MW_MAX_GATES 64			/* databases with a gateway at one time */
#define MW_DSA_INITIAL (4 * 1024 * 1024)

typedef enum MwSlotState
{
	MW_SLOT_FREE,
	MW_SLOT_QUEUED,				/* the gateway has not looked at it */
	MW_SLOT_TAKEN,				/* the gateway owns it */
	MW_SLOT_DONE				/* the reply is there */
} MwSlotState;

/* What is asked of the gateway */
typedef enum MwWork
{
	MW_WORK_CALL,				/* an attempt */
	MW_WORK_LOAD,				/* bring the counters of these scopes into memory */
	MW_WORK_BOOK,				/* book hits against a limit on requests */
	MW_WORK_RECORD,				/* a bare durable record (bench and tests) */
	MW_WORK_ASK					/* a request to what is no model: leaves no record */
} MwWork;

/* A request as it lies in the DSA; strings follow, each NUL terminated */
typedef struct MwWire
{
	MwWork		work;
	pg_uuid_t	run_id;
	int			turn;
	int			call_no;
	int			attempt;
	bool		request_named;
	bool		resend_unknown;
	bool		cacheable;
	bool		share;
	bool		afresh;
	Oid			serverid;
	Oid			roleid;			/* whose user mapping */
	MwInstant	deadline;
	uint32		breaker;		/* see MwAttempt */
	int64		prompt_tokens;
	MwPrice		price;
	MwMoney		bound;			/* of its cost */
	MwHold		hold;
	MwWhen		when;
	uint8		counts_requests;	/* a bit a scope that limits them (a booking) */
	int64		block_limit;	/* hits may be booked in advance up to this; 0: they may not */
	MwKey		call_key;
	int			nth;
	MwKey		cache_key;
	int64		cache_epoch;
	int			cache_ttl;
	int			tenant,			/* offsets into data; -1: NULL */
				session,
				request_id,
				purpose,
				model,
				channel,
				soft,			/* of MwAmounts[MW_MAX_SCOPES][MW_NWINDOWS], where there is a channel */
				body;
	int			body_len;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} MwWire;

#define mw_wire_string(w, field)  ((w)->field < 0 ? NULL : (w)->data + (w)->field)
/* What its bill goes by: what is reserved, and the most that it can cost */
static inline MwAmounts
mw_wire_reserved(const MwWire *w)
{
	return (MwAmounts) {w->hold.amount.requests, w->hold.amount.tokens, w->bound};
}

#define mw_wire_given(w, field)  ((w)->data + (w)->field)	/* what a call always has: tenant, request_id */

#define MW_MAX_HINT	512			/* a sentence and a statement with two quoted names */

/* A reply as it lies in the DSA; its body follows */
typedef struct MwWireReply
{
	MwOutcomeKind kind;
	int			http_status;
	int64		retry_after_ms;
	bool		retry_forbidden;
	bool		timed_out;
	bool		connect_failed;
	bool		private_host;
	bool		shared;
	bool		recorded;
	bool		unknown_before;
	bool		look_again;
	bool		counted;
	bool		reservation_used;
	bool		refused;		/* the gateway did not carry it out: error says why, hint what to do, sqlstate which */
	int			sqlstate;
	MwUsage		usage;
	bool		priced;
	MwMoney		cost;
	char		error[256];
	char		hint[MW_MAX_HINT];	/* of a refusal; "" for none */
	int			body_len;		/* -1: none */
} MwWireReply;

#define mw_reply_body(r)	((char *) (r) + sizeof(MwWireReply))

typedef struct MwSlot
{
	MwSlotState state;
	bool		abandoned;		/* its caller has left: the gateway frees it */
	Oid			db;
	int			next;			/* in the free list or the gate's queue */
	Latch	   *owner;
	int			owner_pid;
	TimestampTz queued_at;
	dsa_pointer request;
	dsa_pointer reply;

	/* the reservation that the gateway settles, so that it can be charged even where the gateway dies */
	bool		owns;			/* ... which is this slot's to give back */
	MwHold		hold;
} MwSlot;

/* One database's gateway */
typedef struct MwGate
{
	Oid			db;				/* InvalidOid: free */
	int			pid;			/* 0: none runs */
	bool		starting;		/* somebody has asked the postmaster for one */
	MwInstant	starting_since;
	bool		leave;			/* asked to go */
	bool		sweep;			/* asked to delete what was purged */
	bool		look;			/* asked to look when the next interrupt expires */
	Latch	   *latch;
	int			head,
				tail;			/* queue of slots, -1: empty */
	uint64		rounds;			/* for mw.stats and tests: turns of the loop with work, commits, records */
	uint64		commits;
	uint64		records;
} MwGate;

#define MW_DECIDED	64			/* condition variables of waiting resumes, by a hash of their session */

typedef struct MwShared
{
	LWLock	   *lock;
	ConditionVariable changed;	/* a gateway has come or gone */
	ConditionVariable decided[MW_DECIDED];	/* a decision has committed */
	int			nslots;
	int			free;			/* head of the free list */
	MwGate		gates[MW_MAX_GATES];
	MwSlot		slots[FLEXIBLE_ARRAY_MEMBER];
} MwShared;

extern MwShared *mw_shared;		/* NULL where mw was not preloaded */

extern void mw_shm_init(void);	/* hooks; from _PG_init while preloading */
extern void mw_require_preload(const char *what);	/* MW003 */
extern dsa_area *mw_dsa(void);	/* attached at first use in a process */
extern uint32 mw_wait_event(void);	/* Extension: mw where the server has names for it */

#endif
