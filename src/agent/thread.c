/*
 * thread.c - the messages of a run, in memory and in mw.thread.
 *
 * A row is immutable but for removed_step.  Visible at step s are the rows with
 * added_step <= s and removed_step null or > s, ordered by position, a fraction:
 * a summary fits before older rows and a late answer beside its call.  What is
 * replaced or removed stays as a row, so fork and history need nothing else.
 *
 * In memory the thread is run->msgs, a list that mw_thread_apply replaces as a
 * whole.  mw_thread_flush compares it with the rows that it knows and writes
 * the difference.  A run that keeps no memory does
 * the same without the statements, so numbers and "what is new" work alike.
 *
 * A session belongs to one transaction at a time (call/claim.c): two runs of one
 * never interleave.  It is claimed before it is read, and read with the latest
 * snapshot; under a transaction's own snapshot (REPEATABLE READ) a session that
 * has changed since that snapshot is a serialization failure, as an UPDATE of it
 * would be.
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "agent/thread.h"
#include "util/json.h"
#include "util/row.h"
#include "util/table.h"

typedef struct MwThreadStore
{
	List	   *rows;			/* of MwMsg *: those that have a row now */
	int64		last_seq;
	int64		mark;			/* rows above it are of this leg */
	int			generation;
} MwThreadStore;

/* ---------- in memory ---------- */

typedef struct IdPlace
{
	const char *id;				/* hash key */
	uint32		hash;
	char		status;
	int			place;
} IdPlace;

#define SH_PREFIX idplaces
#define SH_ELEMENT_TYPE IdPlace
#define SH_KEY_TYPE const char *
#define SH_KEY id
#define SH_HASH_KEY(tb, key) hash_bytes((const unsigned char *) (key), strlen(key))
#define SH_EQUAL(tb, a, b) (strcmp(a, b) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Where the message of an id stands; the end where it does not */
static int
place_of(List *msgs, const char *id)
{
	for (int i = list_length(msgs) - 1; i >= 0; i--)
	{
		MwMsg	   *msg = list_nth(msgs, i);

		if (msg != NULL && strcmp(msg->id, id) == 0)
			return i;
	}
	return list_length(msgs);
}

/*
 * LangGraph's reducer: a known id replaces in its place, a removal takes out,
 * all else is appended; what stands before a removal of all is gone.
 */
void
mw_thread_apply(MwRun *run, List *ops)
{
	idplaces_hash *ids;
	List	   *merged = list_copy(run->msgs);
	List	   *kept = NIL;
	List	   *late = NIL;
	ListCell   *lc;
	int			n = 0;
	int			from = 0;
	bool		removed = false;

	foreach(lc, ops)
	{
		if (((MwMsgOp *) lfirst(lc))->kind == MW_MSG_REMOVE_ALL)
			from = foreach_current_index(lc) + 1;
	}
	if (from > 0)
	{
		merged = NIL;
		ops = list_copy_tail(ops, from);
	}

	ids = idplaces_create(CurrentMemoryContext, list_length(merged) + list_length(ops), NULL);
	foreach(lc, merged)
	{
		MwMsg	   *msg = lfirst(lc);
		bool		found;

		idplaces_insert(ids, msg->id, &found)->place = n++;
	}
	foreach(lc, ops)
	{
		MwMsgOp    *op = lfirst(lc);
		IdPlace    *at = idplaces_lookup(ids, op->kind == MW_MSG_PUT ? op->msg->id : op->id);

		if (op->kind == MW_MSG_REMOVE)
		{
			if (at == NULL)
				ereport(ERROR,
						(errcode(ERRCODE_MW_HOOK_FAILED),
						 errmsg("a message that is to be removed is not there"),
						 errdetail("Its id is \"%s\".", op->id)));
			list_nth_cell(merged, at->place)->ptr_value = NULL;
			removed = true;
		}
		else if (at != NULL)
			list_nth_cell(merged, at->place)->ptr_value = op->msg;
		else if (op->id != NULL)
			late = lappend(late, op);
		else
		{
			bool		found;

			merged = lappend(merged, op->msg);
			idplaces_insert(ids, op->msg->id, &found)->place = n++;
		}
	}
	idplaces_destroy(ids);
	foreach(lc, late)
		merged = list_insert_nth(merged, place_of(merged, ((MwMsgOp *) lfirst(lc))->id), ((MwMsgOp *) lfirst(lc))->msg);

	if (removed)
	{
		foreach(lc, merged)
		{
			if (lfirst(lc) != NULL)
				kept = lappend(kept, lfirst(lc));
		}
		merged = kept;
	}
	run->msgs = merged;
}

void
mw_thread_mark(MwRun *run)
{
	run->store->mark = run->store->last_seq;
}

List *
mw_thread_new(MwRun *run)
{
	List	   *new = NIL;
	ListCell   *lc;

	foreach(lc, run->msgs)
	{
		MwMsg	   *msg = lfirst(lc);

		if (msg->seq > run->store->mark)
			new = lappend(new, msg);
	}
	return new;
}

/* ---------- rows ---------- */

/* The index has them by position; where two have the same one, by their number */
static int
by_place(const ListCell *a, const ListCell *b)
{
	const MwMsg *x = lfirst(a);
	const MwMsg *y = lfirst(b);

	if (x->position != y->position)
		return x->position < y->position ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

void
mw_thread_open(MwRun *run, const MwSaved *saved)
{
	static MwRowTable table = {.name = "thread",.index = "thread_now",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ}};
	MemoryContext old;
	MwRow		row;
	Datum		key[2];
	bool		isnull;

	run->store = MemoryContextAllocZero(run->cxt, sizeof(MwThreadStore));
	run->msgs = NIL;
	if (saved->last_seq == 0)
		return;

	run->store->last_seq = saved->last_seq;
	old = MemoryContextSwitchTo(run->cxt);
	key[0] = CStringGetTextDatum(run->tenant);
	key[1] = CStringGetTextDatum(run->session);
	for (bool more = mw_row_open(&row, &table, key); more; more = mw_row_next(&row))
	{
		MwMsg	   *msg;

		(void) mw_row_get(&row, THREAD_REMOVED_STEP, &isnull);
		if (!isnull)
			continue;			/* a statement does not know the condition of the index */
		msg = mw_msg_kept(DatumGetJsonbPCopy(mw_row_get(&row, THREAD_MESSAGE, &isnull)));
		msg->answered = DatumGetBool(mw_row_get(&row, THREAD_ANSWERED, &isnull));
		msg->seq = DatumGetInt64(mw_row_get(&row, THREAD_SEQ, &isnull));
		msg->position = DatumGetFloat8(mw_row_get(&row, THREAD_POSITION, &isnull));
		run->msgs = lappend(run->msgs, msg);
	}
	mw_row_close(&row);
	list_sort(run->msgs, by_place);
	run->store->rows = list_copy(run->msgs);
	MemoryContextSwitchTo(old);
	run->store->mark = run->store->last_seq;
}

/*
 * Give every message of the list a place after the one before it.  Those that
 * have a row keep it as long as their order is that of the list; the others,
 * returned, need one.
 */
static List *
place_all(MwRun *run)
{
	List	   *new = NIL;
	double		before = 0;		/* the position of the one before it, where there is one */
	int			n = list_length(run->msgs);

	for (int i = 0; i < n; i++)
	{
		MwMsg	   *msg = list_nth(run->msgs, i);
		int			k = 0;
		double		after = 0;
		bool		bounded = false;

		if (msg->seq > 0 && (i == 0 || msg->position > before))
		{
			before = msg->position;
			continue;
		}

		/* a stretch without rows, up to the next one that can keep its own */
		while (i + k < n)
		{
			MwMsg	   *next = list_nth(run->msgs, i + k);

			if (next->seq > 0 && (i == 0 || next->position > before))
			{
				after = next->position;
				bounded = true;
				break;
			}
			k++;
		}
		if (i == 0 && bounded)
			before = after - (k + 1);
		/* no room between two: what follows gets new rows, too */
		if (bounded && before + (after - before) / (k + 1) / 2 <= before)
		{
			k = n - i;
			bounded = false;
		}
		for (int j = 0; j < k; j++)
		{
			MwMsg	   *one = list_nth(run->msgs, i + j);

			if (one->seq > 0)
			{
				/* its old row goes, and it comes again */
				MwMsg	   *copy = palloc(sizeof(MwMsg));

				*copy = *one;
				copy->seq = 0;
				list_nth_cell(run->msgs, i + j)->ptr_value = copy;
				one = copy;
			}
			one->position = bounded ? before + (after - before) * (j + 1) / (k + 1) : before + j + 1;
			new = lappend(new, one);
		}
		before = ((MwMsg *) list_nth(run->msgs, i + k - 1))->position;
		i += k - 1;
	}
	return new;
}

static void
write_new(MwRun *run, List *new)
{
	static MwTable table = {
		.name = "thread",.nkeys = 3,.equal = {F_TEXTEQ, F_TEXTEQ, F_INT8EQ},
		.ncolumns = THREAD_COLUMNS,.columns = {
			"tenant", "session", "seq", "position", "message", "answered", "run_id", "added_step", "removed_step", "created_at"
		}
	};
	int			n = list_length(new);
	Datum	   *values = palloc(sizeof(Datum) * n * THREAD_COLUMNS);
	bool	   *nulls = palloc0(sizeof(bool) * n * THREAD_COLUMNS);
	Datum		tenant = CStringGetTextDatum(run->tenant);
	Datum		session = CStringGetTextDatum(run->session);
	ListCell   *lc;

	foreach(lc, new)
	{
		MwMsg	   *msg = lfirst(lc);
		int			row = foreach_current_index(lc) * THREAD_COLUMNS;

		values[row + THREAD_TENANT - 1] = tenant;
		values[row + THREAD_SESSION - 1] = session;
		values[row + THREAD_SEQ - 1] = Int64GetDatum(msg->seq);
		values[row + THREAD_POSITION - 1] = Float8GetDatum(msg->position);
		values[row + THREAD_MESSAGE - 1] = JsonbPGetDatum(msg->json);
		values[row + THREAD_ANSWERED - 1] = BoolGetDatum(msg->answered);
		values[row + THREAD_RUN_ID - 1] = UUIDPGetDatum(&run->run_id);
		values[row + THREAD_ADDED_STEP - 1] = Int32GetDatum(run->step);
		nulls[row + THREAD_REMOVED_STEP - 1] = true;
		values[row + THREAD_CREATED_AT - 1] = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	}
	mw_table_add(&table, n, values, nulls);
	pfree(values);
	pfree(nulls);
}

/* Where a row of the session lies; false where only a statement finds it */
static bool
lies_at(MwRun *run, int64 seq, ItemPointer at)
{
	static MwRowTable table = {.name = "thread",.nkeys = 3,.equal = {F_TEXTEQ, F_TEXTEQ, F_INT8EQ}};
	Datum		key[3] = {CStringGetTextDatum(run->tenant), CStringGetTextDatum(run->session), Int64GetDatum(seq)};
	ItemPointer found = NULL;
	MwRoleSave	save;
	MwRow		row;

	mw_become_owner(&save);
	if (mw_row_open(&row, &table, key))
		found = mw_row_place(&row);
	if (found != NULL)
		*at = *found;
	mw_row_close(&row);
	mw_become_caller(&save);
	return found != NULL;
}

/*
 * By their places, where they have them: to find them by the index would be to
 * have read, under SERIALIZABLE, what stands beside them there, which is other
 * sessions'.  The session is ours, so that nobody moves them.
 */
static void
write_removed(MwRun *run, List *gone)
{
	static MwStmt at_places = {
		"UPDATE mw.thread SET removed_step = $2 WHERE ctid OPERATOR(pg_catalog.=) ANY ($1)",
		2, {TIDARRAYOID, INT4OID}, true
	};
	static MwStmt by_key = {
		"UPDATE mw.thread SET removed_step = $2"
		" WHERE tenant OPERATOR(pg_catalog.=) $3 AND session OPERATOR(pg_catalog.=) $4 AND seq OPERATOR(pg_catalog.=) ANY ($1)",
		4, {INT8ARRAYOID, INT4OID, TEXTOID, TEXTOID}
	};
	int			n = list_length(gone);
	Datum	   *seqs = palloc(sizeof(Datum) * n);
	Datum	   *tids = palloc(sizeof(Datum) * n);
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * n);
	Datum		values[4];
	bool		placed = true;

	for (int i = 0; i < n; i++)
	{
		int64		seq = ((MwMsg *) list_nth(gone, i))->seq;

		seqs[i] = Int64GetDatum(seq);
		tids[i] = PointerGetDatum(&places[i]);
		placed = placed && lies_at(run, seq, &places[i]);
	}
	values[0] = PointerGetDatum(placed ?
								construct_array(tids, n, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT) :
								construct_array(seqs, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[1] = Int32GetDatum(run->step);
	values[2] = CStringGetTextDatum(run->tenant);
	values[3] = CStringGetTextDatum(run->session);
	SPI_connect();
	(void) mw_spi_write(placed ? &at_places : &by_key, MW_AS_OWNER, values, NULL);
	SPI_finish();
}

void
mw_thread_flush(MwRun *run)
{
	MwThreadStore *store = run->store;
	List	   *new = place_all(run);
	List	   *gone = NIL;
	ListCell   *lc;

	store->generation++;
	foreach(lc, run->msgs)
		((MwMsg *) lfirst(lc))->generation = store->generation;
	foreach(lc, store->rows)
	{
		if (((MwMsg *) lfirst(lc))->generation != store->generation)
			gone = lappend(gone, lfirst(lc));
	}
	if (new == NIL && gone == NIL)
		return;

	run->step++;
	foreach(lc, new)
		((MwMsg *) lfirst(lc))->seq = ++store->last_seq;
	if (run->memory)
	{
		mw_require_may_act(run->tenant);
		if (gone != NIL)
			write_removed(run, gone);
		if (new != NIL)
			write_new(run, new);
	}
	store->rows = list_copy(run->msgs);
}
