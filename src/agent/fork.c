/*
 * fork.c - mw_fork_session: another session that begins as this one stands, or
 * as it stood when one of its messages had just been said.
 *
 * Rows of a thread are kept when they are replaced or removed, so any point of it
 * can be seen again: what was there at the step that added the message, up to
 * its place.  The fork gets rows, state and placeholders of its own; the values
 * behind those are sealed anew for it.  Pauses stay with the session that has
 * them.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "agent/agent.h"
#include "policy/admin.h"
#include "policy/policy.h"
#include "policy/session_lock.h"
#include "policy/vault.h"
#include "util/spi.h"

#define MAX_NAME	255

/* Numbers and hashes are the tenant's and can be copied; what is sealed is sealed for its session */
static void
copy_placeholders(const char *tenant, const char *from, const char *to)
{
	static MwStmt stmt = {
		"INSERT INTO mw.pii (tenant, session, pii_type, number, key_version, lookup)"
		" SELECT p.tenant, $3, p.pii_type, p.number, p.key_version, p.lookup FROM mw.pii AS p"
		" WHERE p.tenant OPERATOR(pg_catalog.=) $1 AND p.session OPERATOR(pg_catalog.=) $2",
		3, {TEXTOID, TEXTOID, TEXTOID}
	};
	Datum		values[3] = {CStringGetTextDatum(tenant), CStringGetTextDatum(from), CStringGetTextDatum(to)};
	MwPiiRow   *rows;
	int			n;
	int			known = 0;

	SPI_connect();
	(void) mw_spi_write(&stmt, MW_AS_OWNER, values, NULL);
	SPI_finish();
	n = mw_vault_read(tenant, from, &rows);
	for (int i = 0; i < n; i++)
		if (rows[i].value != NULL)
			rows[known++] = rows[i];
	if (known > 0)
		mw_vault_write(tenant, to, rows, known);
}

/* (tenant, session, new_session, after): the number of messages */
PG_FUNCTION_INFO_V1(mw_fork_session);

Datum
mw_fork_session(PG_FUNCTION_ARGS)
{
	static MwStmt known = {
		"SELECT FROM mw.session AS s WHERE s.tenant OPERATOR(pg_catalog.=) $1 AND s.session OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt point = {
		"SELECT t.added_step, t.position FROM mw.thread AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.session OPERATOR(pg_catalog.=) $2"
		" AND t.message OPERATOR(pg_catalog.->>) 'id' OPERATOR(pg_catalog.=) $3 ORDER BY t.seq DESC LIMIT 1",
		3, {TEXTOID, TEXTOID, TEXTOID}
	};
	static MwStmt messages = {
		"INSERT INTO mw.thread (tenant, session, seq, position, message, answered, run_id, added_step, created_at)"
		" SELECT t.tenant, $3, pg_catalog.row_number() OVER (ORDER BY t.position, t.seq), t.position, t.message, t.answered, t.run_id, 1, t.created_at"
		" FROM mw.thread AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.session OPERATOR(pg_catalog.=) $2"
		" AND CASE WHEN $4 IS NULL THEN t.removed_step IS NULL"
		" ELSE t.added_step OPERATOR(pg_catalog.<=) $4 AND (t.removed_step IS NULL OR t.removed_step OPERATOR(pg_catalog.>) $4)"
		" AND t.position OPERATOR(pg_catalog.<=) $5 END",
		5, {TEXTOID, TEXTOID, TEXTOID, INT4OID, FLOAT8OID}
	};
	static MwStmt session = {
		"INSERT INTO mw.session (tenant, session, agent, run_id, status, state, step)"
		" SELECT s.tenant, $3, s.agent, pg_catalog.gen_random_uuid(), 'completed', s.state, 1 FROM mw.session AS s"
		" WHERE s.tenant OPERATOR(pg_catalog.=) $1 AND s.session OPERATOR(pg_catalog.=) $2",
		3, {TEXTOID, TEXTOID, TEXTOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	char	   *from = mw_arg_text(fcinfo, 1, "session");
	char	   *to = mw_arg_text(fcinfo, 2, "new_session");
	Datum		values[5] = {CStringGetTextDatum(tenant), CStringGetTextDatum(from), CStringGetTextDatum(to)};
	Datum		other[2] = {values[0], values[2]};
	char		nulls[5] = {' ', ' ', ' ', 'n', 'n'};
	int64		n;

	mw_require_may_see(tenant, to);
	mw_admin_name(to, "the new session's name", MAX_NAME);
	(void) mw_session_claim(tenant, to, true);	/* a run may be making it */
	SPI_connect();
	if (mw_spi_read(&known, MW_AS_CALLER, values, NULL, 1) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is no session \"%s\" that is kept", from),
				 errhint("SELECT session FROM mw.session;")));
	if (mw_spi_read(&known, MW_AS_OWNER, other, NULL, 1) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("session \"%s\" already exists", to),
				 errhint("Choose another name, or: SELECT mw_erase(%s, %s);", quote_literal_cstr(tenant), quote_literal_cstr(to))));
	if (!PG_ARGISNULL(3))
	{
		Datum		at[3] = {values[0], values[1], PG_GETARG_DATUM(3)};
		bool		isnull;

		if (mw_spi_read(&point, MW_AS_CALLER, at, NULL, 1) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("session \"%s\" has no message \"%s\"", from, text_to_cstring(PG_GETARG_TEXT_PP(3))),
					 errhint("SELECT id, role, content FROM mw.message WHERE session = %s ORDER BY position;", quote_literal_cstr(from))));
		values[3] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
		values[4] = Float8GetDatum(DatumGetFloat8(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull)));
		nulls[3] = nulls[4] = ' ';
	}
	(void) mw_spi_write(&session, MW_AS_OWNER, values, nulls);
	n = mw_spi_write(&messages, MW_AS_OWNER, values, nulls);
	SPI_finish();
	copy_placeholders(tenant, from, to);
	PG_RETURN_INT64(n);
}
