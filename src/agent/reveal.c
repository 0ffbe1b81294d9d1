/*
 * reveal.c - what a reviewer whose grant says so sees in place of placeholders.
 *
 * mw.inbox passes what it shows through here.  The values are opened as the role
 * that asked, which may act for its tenant, and for this session alone: the
 * reviewer gets no right by it.
 *
 * Each reveal is a row of mw.approval_log and a line of the server's log; the
 * line is there, too, where the reviewer's transaction rolls back.  What cannot
 * be put down is not shown: in a read-only transaction, and while another
 * transaction is at work on the session, placeholders stand.  So looking waits
 * for nobody.
 */
#include "mw.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "agent/approval.h"
#include "policy/policy.h"
#include "policy/reviewers.h"
#include "policy/session_lock.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/spi.h"

/* What is looked at: a row that waits for the caller */
typedef struct Look
{
	char	   *tenant;
	char	   *session;
	Oid			requested_by;
	char	   *interrupt_id;
	int			place;
	Jsonb	   *args;
	char	   *description;
} Look;

/*
 * Of (tenant, session, tool, requested_by, interrupt_id, place, what), the
 * arguments of both functions, which anybody can call with anything.  So only
 * the row's key counts, what is revealed is what stands in the row, and the row
 * is one that the caller may decide.  False: there is nothing to reveal.
 */
static bool
look_at(FunctionCallInfo fcinfo, Look *l)
{
	static MwStmt stmt = {
		"SELECT i.session, i.tool, i.middleware, i.requested_by::pg_catalog.oid, i.requested_through::pg_catalog.oid, i.args, i.description, i.decisions"
		" FROM mw.interrupt AS i WHERE i.tenant OPERATOR(pg_catalog.=) $1 AND i.interrupt_id OPERATOR(pg_catalog.=) $2 AND i.place OPERATOR(pg_catalog.=) $3"
		" AND i.status OPERATOR(pg_catalog.=) 'open' AND (i.expires_at IS NULL OR i.expires_at OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp())",
		3, {TEXTOID, TEXTOID, INT4OID}
	};
	MemoryContext cxt = CurrentMemoryContext;
	Datum		values[3] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(4), PG_GETARG_DATUM(5)};
	bool		found = false;

	l->tenant = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (!mw_review_right(l->tenant, text_to_cstring(PG_GETARG_TEXT_PP(2))).reveal || XactReadOnly || RecoveryInProgress() || IsInParallelMode())
		return false;
	l->interrupt_id = text_to_cstring(PG_GETARG_TEXT_PP(4));
	l->place = PG_GETARG_INT32(5);
	SPI_connect();
	if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) > 0)
	{
		HeapTuple	row = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MemoryContext old = MemoryContextSwitchTo(cxt);
		MwGate		gate = {.interrupt_id = l->interrupt_id, .place = l->place};
		bool		isnull;
		Datum		d;

		l->session = SPI_getvalue(row, desc, 1);
		gate.call.name = SPI_getvalue(row, desc, 2);
		gate.middleware = SPI_getvalue(row, desc, 3);
		gate.requested_by = l->requested_by = DatumGetObjectId(SPI_getbinval(row, desc, 4, &isnull));
		d = SPI_getbinval(row, desc, 5, &isnull);
		gate.requested_through = isnull ? InvalidOid : DatumGetObjectId(d);
		gate.decisions = DatumGetJsonbPCopy(SPI_getbinval(row, desc, 8, &isnull));
		l->args = DatumGetJsonbPCopy(SPI_getbinval(row, desc, 6, &isnull));
		l->description = SPI_getvalue(row, desc, 7);
		found = mw_review_right(l->tenant, gate.call.name).reveal && mw_waits_for_me(l->tenant, &gate);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return found;
}

/* What the session's placeholders stand for; false where there is nothing */
static bool
open_values(const Look *l, MwPiiMap *map)
{
	MwRoleSave	save;

	mw_pii_map_init(map, CurrentMemoryContext);
	mw_become_role(l->requested_by, &save);
	if (mw_may_act(l->tenant))
		mw_pii_session_load(map, l->tenant, l->session, false);
	mw_become_caller(&save);
	return map->n > 0;
}

/* One row a look: arguments and description of a call are shown by one statement, one after the other */
static bool
logged(const Look *l)
{
	static char last_id[64];
	static int	last_place;
	static TimestampTz last_statement;
	static SubTransactionId last_subxact;
	MwGate		gate = {.interrupt_id = l->interrupt_id, .place = l->place, .session = l->session};

	if (last_statement == GetCurrentStatementStartTimestamp() && last_subxact == GetCurrentSubTransactionId() &&
		last_place == l->place && strcmp(last_id, l->interrupt_id) == 0)
		return true;
	if (!mw_session_look(l->tenant, l->session) || !mw_approval_log_at_once(l->tenant, &gate, "revealed", NULL))
		return false;
	ereport(LOG_SERVER_ONLY,
			(errmsg("role \"%s\" was shown the values of interrupt %s of tenant \"%s\"",
					GetUserNameFromId(GetUserId(), false), l->interrupt_id, l->tenant),
			 errhidestmt(true),
			 errhidecontext(true)));
	strlcpy(last_id, l->interrupt_id, sizeof(last_id));
	last_place = l->place;
	last_statement = GetCurrentStatementStartTimestamp();
	last_subxact = GetCurrentSubTransactionId();
	return true;
}

PG_FUNCTION_INFO_V1(mw_inbox_args);

Datum
mw_inbox_args(PG_FUNCTION_ARGS)
{
	Jsonb	   *args = PG_GETARG_JSONB_P(6);
	MwPiiMap	map;
	Look		l;
	Jsonb	   *shown;

	if (strchr(mw_json_canonical(args), '<') == NULL || !look_at(fcinfo, &l) || !open_values(&l, &map))
		PG_RETURN_JSONB_P(args);
	shown = mw_json_map_strings(l.args, true, mw_restore_leaf, &map);
	if (strcmp(mw_json_canonical(shown), mw_json_canonical(l.args)) == 0 || !logged(&l))
		PG_RETURN_JSONB_P(args);
	PG_RETURN_JSONB_P(shown);
}

PG_FUNCTION_INFO_V1(mw_inbox_text);

Datum
mw_inbox_text(PG_FUNCTION_ARGS)
{
	text	   *given = PG_GETARG_TEXT_PP(6);
	MwPiiMap	map;
	Look		l;
	char	   *shown;
	int			len;

	if (memchr(VARDATA_ANY(given), '<', VARSIZE_ANY_EXHDR(given)) == NULL || !look_at(fcinfo, &l) || !open_values(&l, &map))
		PG_RETURN_TEXT_P(given);
	shown = mw_restore_text(&map, l.description, strlen(l.description), &len, NULL);
	if (shown == l.description || !logged(&l))
		PG_RETURN_TEXT_P(given);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(shown, len));
}
