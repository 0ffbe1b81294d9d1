/*
 * slot.c - a backend's request on its way to the gateway and back: packed, queued,
 * waited for; and left behind.
 *
 * A slot is its caller's until the gateway takes it.  Who leaves before that
 * takes the request back; who leaves later marks the slot, and the gateway frees
 * it (shm.h says whose a payload is when).  Slots and queues are guarded by
 * mw_shared->lock, which nobody holds while waiting.
 */
#include "mw.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/held.h"
#include "gateway/shm.h"

#define LOOK_EVERY_MS	500
#define LATE_MS		1000		/* how long after a call's deadline its gateway may still answer */

/* ---------- leaving ---------- */

/*
 * Take a slot out of its gate's queue; the lock is held.
 */
static void
unqueue(MwGate *gate, int slot)
{
	int			prev = -1;

	for (int i = gate->head; i >= 0; prev = i, i = mw_shared->slots[i].next)
	{
		if (i != slot)
			continue;
		if (prev < 0)
			gate->head = mw_shared->slots[i].next;
		else
			mw_shared->slots[prev].next = mw_shared->slots[i].next;
		if (gate->tail == slot)
			gate->tail = prev;
		return;
	}
}

static void
free_slot(int i, dsa_pointer *request, dsa_pointer *reply)
{
	MwSlot	   *s = &mw_shared->slots[i];

	*request = s->request;
	*reply = s->reply;
	s->request = s->reply = InvalidDsaPointer;
	s->state = MW_SLOT_FREE;
	s->owner = NULL;
	s->next = mw_shared->free;
	mw_shared->free = i;
}

/*
 * The caller leaves (held.c calls this at abort).  What the gateway has not
 * looked at is withdrawn, what it owns goes on without us; only then does the
 * reservation belong to the gateway.
 */
static void
leave_slot(void *arg)
{
	int			i = (int) (intptr_t) arg;
	MwSlot	   *s = &mw_shared->slots[i];
	dsa_pointer request = InvalidDsaPointer;
	dsa_pointer reply = InvalidDsaPointer;
	bool		withdrawn = false;
	MwSlot		was;

	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	was = *s;
	if (s->state == MW_SLOT_TAKEN)
	{
		s->abandoned = true;
		s->owner = NULL;
	}
	else
	{
		if (s->state == MW_SLOT_QUEUED)
		{
			for (int g = 0; g < MW_MAX_GATES; g++)
				if (mw_shared->gates[g].db == s->db)
					unqueue(&mw_shared->gates[g], i);
		}
		withdrawn = s->owns;
		free_slot(i, &request, &reply);
	}
	LWLockRelease(mw_shared->lock);

	if (withdrawn)
		mw_counters_settle(&was.hold, &was.hold.amount, NULL, NULL, 0);
	if (DsaPointerIsValid(request))
		dsa_free(mw_dsa(), request);
	if (DsaPointerIsValid(reply))
		dsa_free(mw_dsa(), reply);
}

void *
mw_slot_hold(int slot)
{
	return mw_held_take(leave_slot, (void *) (intptr_t) slot);
}

/* ---------- handing over ---------- */

static int
put_string(MwWire *w, int *at, const char *s)
{
	int			offset = *at;
	size_t		len;

	if (s == NULL)
		return -1;
	len = strlen(s) + 1;
	memcpy(w->data + offset, s, len);
	*at += len;
	return offset;
}

#define string_size(s)	((s) ? strlen(s) + 1 : 0)

/* Lay a request out in the DSA.  "a" may be NULL for work that is no call, "r" where nobody is told of soft limits. */
static dsa_pointer
pack(const MwWire *head, const char *tenant, const char *session, const MwAttempt *a, const MwReservation *r)
{
	Size		size = offsetof(MwWire, data) + string_size(tenant) + string_size(session);
	dsa_pointer p;
	MwWire	   *w;
	int			at = 0;

	if (a)
		size += string_size(a->request_id) + string_size(a->purpose) + string_size(a->model) + a->body_len + 1;
	if (r != NULL && r->channel != NULL)
		size += string_size(r->channel) + sizeof(MwAmounts) * MW_MAX_SCOPES * MW_NWINDOWS;
	p = dsa_allocate_extended(mw_dsa(), size, DSA_ALLOC_NO_OOM | (size > 1024 * 1024 * 1024 ? DSA_ALLOC_HUGE : 0));
	if (!DsaPointerIsValid(p))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no shared memory is left for a request of %zu bytes", size),
				 errdetail("Nothing was sent."),
				 errhint("Try again when fewer calls are in flight, or send less.")));
	w = dsa_get_address(mw_dsa(), p);
	memcpy(w, head, offsetof(MwWire, data));
	w->tenant = put_string(w, &at, tenant);
	w->session = put_string(w, &at, session);
	w->request_id = put_string(w, &at, a ? a->request_id : NULL);
	w->purpose = put_string(w, &at, a ? a->purpose : NULL);
	w->model = put_string(w, &at, a ? a->model : NULL);
	w->channel = put_string(w, &at, r ? r->channel : NULL);
	w->soft = -1;
	if (w->channel >= 0)
	{
		w->soft = at;
		for (int i = 0; i < r->hold.n; i++, at += sizeof(r->scopes[i].limits->soft))
			memcpy(w->data + at, r->scopes[i].limits->soft, sizeof(r->scopes[i].limits->soft));
	}
	w->body = -1;
	w->body_len = 0;
	if (a)
	{
		w->body = at;
		w->body_len = a->body_len;
		memcpy(w->data + at, a->body, a->body_len);
		w->data[at + a->body_len] = '\0';
	}
	return p;
}

/* "gate" runs, or starts: nobody would free the request if it could not be started now */
int
mw_slot_queue(MwGate *gate, const MwWire *head, const char *tenant, const char *session,
			  const MwAttempt *a, const MwReservation *r, bool owns_reservation)
{
	dsa_pointer request = pack(head, tenant, session, a, r);
	int			i;
	MwSlot	   *s;
	Latch	   *latch;

	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	i = mw_shared->free;
	if (i < 0)
	{
		LWLockRelease(mw_shared->lock);
		dsa_free(mw_dsa(), request);
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("too many model calls are in flight"),
				 errdetail("All %d places are taken; nothing was sent.", mw_shared->nslots),
				 errhint("Raise mw.max_calls and restart the server, or try again.")));
	}
	s = &mw_shared->slots[i];
	mw_shared->free = s->next;
	s->state = MW_SLOT_QUEUED;
	s->abandoned = false;
	s->db = MyDatabaseId;
	s->next = -1;
	s->owner = MyLatch;
	s->owner_pid = MyProcPid;
	s->queued_at = GetCurrentTimestamp();
	s->request = request;
	s->reply = InvalidDsaPointer;
	s->owns = owns_reservation;
	s->hold = head->hold;
	if (gate->tail >= 0)
		mw_shared->slots[gate->tail].next = i;
	else
		gate->head = i;
	gate->tail = i;
	latch = gate->latch;
	LWLockRelease(mw_shared->lock);
	if (latch)
		SetLatch(latch);		/* not under the lock, which it would wait for at once; one that went meanwhile minds no more */
	return i;
}

/* ---------- waiting ---------- */

/*
 * The gateway answers every call by its deadline.  One that does not is
 * stopped, or stuck in the kernel; nobody has to wait for it.
 */
static void
give_up(MwSlotState state)
{
	bool		seen = state != MW_SLOT_QUEUED;

	ereport(ERROR,
			(errcode(ERRCODE_MW_DEADLINE),
			 errmsg("the deadline of the call has passed"),
			 seen ? errdetail("outcome unknown: the gateway took the request and did not answer.") :
			 errdetail("Nothing was sent: the gateway does not run."),
			 errhint("Look for the process \"mw gateway\" in pg_stat_activity: it may be stopped. SELECT pg_terminate_backend(pid) has the next call start another.")));
}

/*
 * Wait until the gateway has answered.  Interruptible at any moment: an ERROR
 * leaves through held.c.  A gateway that went away before it looked at us is
 * started again; its end while it owned our request is told by the reply.
 */
MwWireReply *
mw_slot_wait(int i, void *held, MwInstant deadline)
{
	MwSlot	   *s = &mw_shared->slots[i];
	MwSlotState state;
	dsa_pointer request;
	dsa_pointer reply;
	MwWireReply *wire;
	MwWireReply *copy;
	MwInstant	look = mw_after_ms(LOOK_EVERY_MS);	/* whether a gateway runs, and whether it is too late */
	Size		size;

	for (;;)
	{
		LWLockAcquire(mw_shared->lock, LW_SHARED);
		state = s->state;
		LWLockRelease(mw_shared->lock);
		if (state == MW_SLOT_DONE)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, mw_ms_until(look), mw_wait_event());
		/* by the clock: who sets our latch more often (client_connection_check_interval) lets no wait time out */
		if (mw_passed(look))
		{
			if (state == MW_SLOT_QUEUED)
				mw_gateway_ensure();
			if (mw_ms_since(deadline) > LATE_MS)
				give_up(state);
			look = mw_after_ms(LOOK_EVERY_MS);
		}
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}

	/*
	 * Until the last line that can fail, the slot is held.c's: it gives back what
	 * is still reserved there, as it does for a call that was not carried out.
	 */
	if (!DsaPointerIsValid(s->reply))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no shared memory is left for the answer of the gateway"),
				 errhint("Where the call named a request_id, its answer is recorded: repeat it.")));
	wire = dsa_get_address(mw_dsa(), s->reply);
	if (wire->refused)
		ereport(ERROR,
				(errcode(wire->sqlstate),
				 errmsg("the gateway did not carry out the call"),
				 errdetail("%c%s%s", pg_toupper((unsigned char) wire->error[0]), wire->error + 1,
						   wire->error[0] != '\0' && wire->error[strlen(wire->error) - 1] == '.' ? "" : "."),
				 wire->hint[0] != '\0' ? errhint("%s", wire->hint) : 0));
	size = sizeof(MwWireReply) + Max(wire->body_len, 0) + 1;
	copy = MemoryContextAllocExtended(CurrentMemoryContext, size, MCXT_ALLOC_HUGE);
	memcpy(copy, wire, size);

	mw_held_drop(held);
	LWLockAcquire(mw_shared->lock, LW_EXCLUSIVE);
	free_slot(i, &request, &reply);
	LWLockRelease(mw_shared->lock);
	dsa_free(mw_dsa(), request);
	dsa_free(mw_dsa(), reply);

	return copy;
}

MwWireReply *
mw_slot_ask(const MwWire *head, const char *tenant, const char *session, const MwAttempt *a, MwInstant deadline)
{
	int			i = mw_slot_queue(mw_gateway_ensure(), head, tenant, session, a, NULL, false);

	return mw_slot_wait(i, mw_slot_hold(i), deadline);
}
