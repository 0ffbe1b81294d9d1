/*
 * erase.c - what is remembered of a tenant, of a session, of one value, and how
 * it is forgotten.
 *
 * remembered[] is the one list of rows that belong to sessions and that callers'
 * transactions write; mw_drop_tenant goes by it, too.  Ledger and log of approvals
 * are not in it: what was paid or approved was.  What the gateway writes holds placeholders only, and is
 * purged (mw_purge_cache) or goes with the tenant.
 *
 * A run writes its rows when it ends, so erasing waits for the runs of the session
 * first (session_lock.c), and then locks the tenant's row against the callers that
 * keep values (mw_vault_write): what they have not committed is waited for, what
 * comes later is new.  A value that is erased leaves the row of its placeholder behind, without
 * anything in it, so that the number never stands for another value.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "policy/admin.h"
#include "policy/session_lock.h"
#include "policy/vault.h"
#include "util/hash.h"
#include "util/spi.h"

PG_FUNCTION_INFO_V1(mw_erase);

/* $1 tenant, $2 session or NULL for all of them */
static MwStmt remembered[] = {
	{"DELETE FROM mw.thread AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1 AND ($2 IS NULL OR x.session OPERATOR(pg_catalog.=) $2)", 2, {TEXTOID, TEXTOID}},
	{"DELETE FROM mw.session AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1 AND ($2 IS NULL OR x.session OPERATOR(pg_catalog.=) $2)", 2, {TEXTOID, TEXTOID}},
	{"DELETE FROM mw.trace AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1 AND ($2 IS NULL OR x.session OPERATOR(pg_catalog.=) $2)", 2, {TEXTOID, TEXTOID}},
	{"DELETE FROM mw.run AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1 AND ($2 IS NULL OR x.session OPERATOR(pg_catalog.=) $2)", 2, {TEXTOID, TEXTOID}},
	{"DELETE FROM mw.interrupt AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1 AND ($2 IS NULL OR x.session OPERATOR(pg_catalog.=) $2)", 2, {TEXTOID, TEXTOID}},
	{"DELETE FROM mw.pii AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1 AND ($2 IS NULL OR x.session OPERATOR(pg_catalog.=) $2)", 2, {TEXTOID, TEXTOID}},
	{"DELETE FROM mw.result AS x WHERE x.tenant OPERATOR(pg_catalog.=) $1 AND ($2 IS NULL OR x.session OPERATOR(pg_catalog.=) $2)", 2, {TEXTOID, TEXTOID}}
};

static int64
erase_rows(const char *tenant, const char *session)
{
	Datum		values[2] = {CStringGetTextDatum(tenant), session ? CStringGetTextDatum(session) : (Datum) 0};
	int64		n = 0;

	for (int i = 0; i < lengthof(remembered); i++)
		n += mw_spi_write(&remembered[i], MW_AS_OWNER, values, session ? "  " : " n");
	return n;
}

void
mw_erase_tenant(const char *tenant)
{
	(void) erase_rows(tenant, NULL);
}

/* The rows of a value, whichever key its hash was made with */
static int64
erase_value(const char *tenant, const char *session, const text *value)
{
	static MwStmt versions = {
		"SELECT DISTINCT p.key_version FROM mw.pii AS p WHERE p.tenant OPERATOR(pg_catalog.=) $1"
		" AND ($2 IS NULL OR p.session OPERATOR(pg_catalog.=) $2) AND p.lookup IS NOT NULL",
		2, {TEXTOID, TEXTOID}
	};
	static MwStmt forget = {
		"UPDATE mw.pii AS p SET lookup = NULL, sealed = NULL WHERE p.tenant OPERATOR(pg_catalog.=) $1"
		" AND ($2 IS NULL OR p.session OPERATOR(pg_catalog.=) $2)"
		" AND p.lookup OPERATOR(pg_catalog.=) $3 AND p.key_version OPERATOR(pg_catalog.=) $4",
		4, {TEXTOID, TEXTOID, BYTEAOID, INT4OID}
	};
	Datum		values[4] = {CStringGetTextDatum(tenant), session ? CStringGetTextDatum(session) : (Datum) 0};
	const char *nulls = session ? "    " : " n  ";
	uint64		n = mw_spi_read(&versions, MW_AS_OWNER, values, nulls, 0);
	SPITupleTable *table = SPI_tuptable;
	int64		erased = 0;

	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		int			version = DatumGetInt32(SPI_getbinval(table->vals[i], table->tupdesc, 1, &isnull));
		MwKey		lookup;

		if (!mw_vault_lookup(version, tenant, VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), &lookup))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("key %d is not in the file of mw.pii_key_file", version),
					 errdetail("It cannot be told which of the rows that it sealed hold the value, and nothing was erased."),
					 errhint("Put its line back, or erase the session or the tenant whole: SELECT mw_erase(tenant, session);")));
		values[2] = PointerGetDatum(mw_key_bytea(&lookup));
		values[3] = Int32GetDatum(version);
		erased += mw_spi_write(&forget, MW_AS_OWNER, values, nulls);
	}
	return erased;
}

/* mw_erase(tenant, session, value): how many rows were erased */
Datum
mw_erase(PG_FUNCTION_ARGS)
{
	static MwStmt lock = {
		"SELECT FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 FOR UPDATE",
		1, {TEXTOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	char	   *session = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));
	Datum		arg = CStringGetTextDatum(tenant);
	int64		n;

	SPI_connect();
	mw_admin_tenant(tenant, false);
	if (PG_ARGISNULL(2))
		mw_session_stop(tenant, session);
	(void) mw_spi_write(&lock, MW_AS_OWNER, &arg, NULL);
	n = PG_ARGISNULL(2) ? erase_rows(tenant, session) : erase_value(tenant, session, PG_GETARG_TEXT_PP(2));
	SPI_finish();
	PG_RETURN_INT64(n);
}
