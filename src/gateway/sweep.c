/*
 * sweep.c - rows that are of no use to anybody any more.
 *
 * Between rounds, in transactions of their own, and a bounded number at a time,
 * so that no call waits long for it.
 *
 * Retention: rows of the ledger that ended longer ago than their tenant keeps
 * them go with the answers that they paid for; what they add up to moves to
 * mw.pruned in the same transaction, and mw.spent has it as ever.  Stored results
 * go by their own age.  Those are written by callers, so their rows are taken only
 * where nobody has a lock on them: the gateway waits for no caller.
 *
 * The primary key of the ledger finds the old rows: a run_id begins with the time
 * of its run (UUID version 7).  It says where to look, finished_at what is old.
 */
#include "mw.h"

#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "gateway/gateway.h"
#include "util/duration.h"
#include "util/faults.h"

#define SWEEP_ROWS "1000"

static bool swept_sums;

/*
 * Delete a bounded number of rows that are of no use to anybody: cache rows
 * that a purge or their time has ended, and all that a dropped tenant left.
 */
bool
mw_sweep(void)
{
	static MwStatement sweeps[] = {
		{"DELETE FROM mw.cache WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.cache c JOIN mw.purge p USING (tenant) "
			"WHERE c.epoch < p.epoch LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.cache WHERE ctid = ANY (ARRAY(SELECT ctid FROM mw.cache WHERE expires_at < pg_catalog.now() LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.cache WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.cache c JOIN mw.purge p USING (tenant) "
			"WHERE NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.answer WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.answer c JOIN mw.purge p USING (tenant) "
			"WHERE NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.attempt WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.attempt c JOIN mw.purge p USING (tenant) "
			"WHERE c.outcome <> 'running' AND NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.pruned WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.pruned c JOIN mw.purge p USING (tenant) "
			"WHERE NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
		{"DELETE FROM mw.spent WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM mw.spent c JOIN mw.purge p USING (tenant) "
			"WHERE NOT EXISTS (SELECT FROM mw.tenant t WHERE t.tenant = c.tenant) LIMIT " SWEEP_ROWS "))"},
	};
	bool		more = false;

	swept_sums = false;
	for (int i = 0; i < lengthof(sweeps); i++)
	{
		uint64		n = mw_statement_run(&sweeps[i], NULL, NULL);

		more |= n >= 1000;
		if (i == lengthof(sweeps) - 1)
			swept_sums = n > 0;
	}
	if (swept_sums)
		mw_sums_forget();
	return more;
}

/* The last sweep took sums away: what shared memory knows of them is void after its commit */
bool
mw_sweep_took_sums(void)
{
	return swept_sums;
}

/* ---------- retention ---------- */

#define PRUNE_ROWS		500
#define PRUNE_TENANTS	64

/* How far the pass over all tenants has come */
static struct
{
	char		tenant[MW_TENANT_MAX + 1];	/* "": it begins */
	bool		done;			/* with this one */
	pg_uuid_t	run;			/* of this one, up to here: rows before it are deleted, but their index entries may still be there */
}			at;

/* The least id that a run which began at that moment can have */
static pg_uuid_t
first_run_at(TimestampTz t)
{
	uint64		ms = (uint64) (t + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY) / 1000;
	pg_uuid_t	id = {{0}};

	for (int i = 0; i < 6; i++)
		id.data[i] = (ms >> (40 - 8 * i)) & 0xff;
	return id;
}

/* Delete as many at most of one tenant's rows; returns how many */
static int64
prune(const char *tenant, TimestampTz before, int64 most)
{
	static MwStatement ledger = {
		"WITH gone AS ("
		"DELETE FROM mw.attempt WHERE ctid = ANY (ARRAY(SELECT a.ctid FROM mw.attempt AS a "
		"WHERE a.tenant = $1 AND a.run_id >= $2 AND a.run_id < $3 AND a.finished_at < $4 ORDER BY a.run_id LIMIT $5)) RETURNING *"
		"), answers AS ("
		"DELETE FROM mw.answer AS r USING gone AS g WHERE g.request_named AND g.outcome <> 'unknown' AND g.http_status BETWEEN 200 AND 299 "
		"AND r.tenant = g.tenant AND r.request_id = g.request_id AND r.call_key = g.call_key AND r.nth = g.nth"
		"), sums AS ("
		"INSERT INTO mw.pruned AS p (tenant, session, attempts, requests, tokens, cost, excess_tokens, excess_cost, newest) "
		"SELECT g.tenant, s.session, pg_catalog.count(*), pg_catalog.sum(g.billed_requests), pg_catalog.sum(g.billed_tokens), "
		"coalesce(pg_catalog.sum(g.billed_cost), 0), "
		"pg_catalog.sum(CASE WHEN g.outcome <> 'unknown' THEN greatest(g.billed_tokens - g.reserved_tokens, 0) ELSE 0 END), "
		"coalesce(pg_catalog.sum(CASE WHEN g.outcome <> 'unknown' THEN greatest(g.billed_cost - g.reserved_cost, 0) END), 0), "
		"pg_catalog.max(g.admitted_at) FROM gone AS g "
		"CROSS JOIN LATERAL (SELECT '' AS session UNION ALL SELECT g.session WHERE g.session IS NOT NULL) AS s GROUP BY g.tenant, s.session "
		"ON CONFLICT (tenant, session) DO UPDATE SET attempts = p.attempts + excluded.attempts, requests = p.requests + excluded.requests, "
		"tokens = p.tokens + excluded.tokens, cost = p.cost + excluded.cost, excess_tokens = p.excess_tokens + excluded.excess_tokens, "
		"excess_cost = p.excess_cost + excluded.excess_cost, newest = greatest(p.newest, excluded.newest)"
		") SELECT pg_catalog.count(*), (SELECT g.run_id FROM gone AS g ORDER BY g.run_id DESC LIMIT 1) FROM gone",
		5, {TEXTOID, UUIDOID, UUIDOID, TIMESTAMPTZOID, INT8OID}
	};
	static MwStatement results = {
		"DELETE FROM mw.result WHERE ctid = ANY (ARRAY(SELECT r.ctid FROM mw.result AS r "
		"WHERE r.tenant = $1 AND r.created_at < $2 ORDER BY r.created_at LIMIT $3 FOR UPDATE SKIP LOCKED))",
		3, {TEXTOID, TIMESTAMPTZOID, INT8OID}
	};
	pg_uuid_t	first = first_run_at(before);
	Datum		values[5] = {
		CStringGetTextDatum(tenant), UUIDPGetDatum(&at.run), UUIDPGetDatum(&first), TimestampTzGetDatum(before), Int64GetDatum(most)
	};
	Datum		of_results[3] = {values[0], values[3], values[4]};
	HeapTuple	row;
	Datum		last;
	bool		null;
	int64		n;

	(void) mw_statement_run(&ledger, values, NULL);
	mw_fault("sweep");
	row = SPI_tuptable->vals[0];
	n = DatumGetInt64(SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &null));
	last = SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &null);
	if (!null)
		at.run = *DatumGetUUIDP(last);
	return n + (int64) mw_statement_run(&results, of_results, NULL);
}

bool
mw_sweep_ledger(void)
{
	static MwStatement tenants = {
		"SELECT t.tenant, t.settings->>'retention' FROM mw.tenant AS t "
		"WHERE (t.tenant > $1 OR t.tenant = $1 AND NOT $2) AND t.settings->>'retention' IS NOT NULL "
		"ORDER BY t.tenant LIMIT " CppAsString2(PRUNE_TENANTS),
		2, {TEXTOID, BOOLOID}
	};
	Datum		values[2] = {CStringGetTextDatum(at.tenant), BoolGetDatum(at.done)};
	uint64		n = mw_statement_run(&tenants, values, NULL);
	SPITupleTable *rows = SPI_tuptable;
	int64		room = PRUNE_ROWS;

	for (uint64 i = 0; i < n; i++)
	{
		char	   *tenant = SPI_getvalue(rows->vals[i], rows->tupdesc, 1);
		int64		ms;

		if (strcmp(tenant, at.tenant) != 0)
			memset(&at.run, 0, sizeof(at.run));
		strlcpy(at.tenant, tenant, sizeof(at.tenant));
		/* should something fail, the next sweep goes on behind it */
		at.done = true;
		ms = mw_duration_ms(SPI_getvalue(rows->vals[i], rows->tupdesc, 2), "the setting \"retention\" of a tenant");
		room -= prune(tenant, GetCurrentTimestamp() - ms * 1000, room);
		if (room <= 0)
		{
			at.done = false;
			return true;
		}
	}
	if (n == PRUNE_TENANTS)
		return true;
	at.tenant[0] = '\0';
	at.done = false;
	return false;
}
