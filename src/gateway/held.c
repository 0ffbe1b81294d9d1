/*
 * held.c - what a backend holds for a running call, given back when the
 * (sub)transaction that took it ends in any way but the ordinary one.
 *
 * A reservation, a slot of the queue, a place in a single flight: memory
 * contexts do not know them and an ERROR, a cancel or a terminate jumps over
 * the code that would have given them back.  Each is entered here in the
 * statement that takes it and dropped in the statement that gives it back;
 * what is still here when its subtransaction aborts is released then, newest
 * first.  A subtransaction that commits hands what it holds to its parent.
 * Nothing survives the end of the transaction, whichever end it is: PREPARE
 * counts, since the one who prepared may never come back for it.
 *
 * The list belongs to this process and needs no lock.  Release functions run
 * while a transaction aborts: they must not raise, allocate or touch tables.  A
 * handle is dead after its release has run; who catches an error with PG_TRY
 * without a subtransaction still owns its handles.
 */
#include "mw.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "gateway/held.h"

typedef struct MwHeld
{
	dlist_node	node;
	SubTransactionId subid;		/* who loses it by aborting */
	MwHeldRelease release;
	void	   *what;
} MwHeld;

static dlist_head held = DLIST_STATIC_INIT(held);	/* newest first */

/* Out of the list first: a release that comes back here must not find itself */
static void
let_go(MwHeld *h)
{
	MwHeldRelease release = h->release;
	void	   *what = h->what;

	dlist_delete(&h->node);
	pfree(h);
	release(what);
}

static void
held_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			while (!dlist_is_empty(&held))
				let_go(dlist_head_element(MwHeld, node, &held));
			break;
		default:
			break;
	}
}

static void
held_subxact_callback(SubXactEvent event, SubTransactionId subid,
					  SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		/*
		 * From the head again after each release, so that one which drops
		 * another handle cannot leave us on a freed node.  What is newer than
		 * ours cannot be here: its subtransaction has ended before.
		 */
		while (!dlist_is_empty(&held))
		{
			MwHeld	   *h = dlist_head_element(MwHeld, node, &held);

			if (h->subid != subid)
				break;
			let_go(h);
		}
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		dlist_foreach_modify(iter, &held)
		{
			MwHeld	   *h = dlist_container(MwHeld, node, iter.cur);

			if (h->subid != subid)
				break;
			h->subid = parent;
		}
	}
}

void
mw_held_init(void)
{
	RegisterXactCallback(held_xact_callback, NULL);
	RegisterSubXactCallback(held_subxact_callback, NULL);
}

/*
 * From here on "what" is given back by release(what) unless mw_held_drop comes
 * first.  Where there is no memory to remember it, it is given back at once.
 */
void *
mw_held_take(MwHeldRelease release, void *what)
{
	MwHeld	   *h;

	h = MemoryContextAllocExtended(TopMemoryContext, sizeof(MwHeld), MCXT_ALLOC_NO_OOM);
	if (h == NULL)
	{
		release(what);
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	}
	h->subid = GetCurrentSubTransactionId();
	h->release = release;
	h->what = what;
	dlist_push_head(&held, &h->node);
	return h;
}

void
mw_held_drop(void *handle)
{
	MwHeld	   *h = handle;

	dlist_delete(&h->node);
	pfree(h);
}
