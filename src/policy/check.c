/*
 * check.c - mw_check(): does what is kept about money and approvals agree with itself?
 *
 * A row a finding, none on a sound system.  Each statement of the table below
 * looks at one snapshot, and the gateway writes what belongs together in one
 * transaction, so these hold under load too.  What shared memory says follows
 * its commit by a moment: counters are compared with their rows only at rest,
 * that is where no call is in flight in this database, no other session of it
 * runs a statement and the gateway committed nothing meanwhile; else that part
 * is left out.  Attempts that a crash left running are the next gateway's to
 * judge, so one is started for them and waited for.
 *
 * It looks as the owner and shows names and figures, no text of a caller.
 */
#include "mw.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"

#include "gateway/counters.h"
#include "gateway/gateway.h"
#include "gateway/spent.h"
#include "policy/approval_chain.h"
#include "policy/policy.h"
#include "util/money.h"
#include "util/spi.h"

#define RECOVERY_WAIT_MS	5000	/* for a gateway to start and to judge what a crash left */

/* All attempts and all sums, the test double's too; what a drop has left to be erased is nobody's */
#define ATTEMPTS \
	"WITH a AS NOT MATERIALIZED (SELECT * FROM mw.attempt UNION ALL SELECT * FROM mw.fake_attempt) "
#define OF_A_TENANT "EXISTS (SELECT FROM mw.tenant AS t WHERE t.tenant = a.tenant)"

typedef struct Check
{
	const char *finding;
	MwStmt		stmt;			/* tenant, session, request_id, what was expected, what was found */
} Check;

/* What a column adds up to in the ledger and in what retention took out of it, in each scope, beside its kept sum */
#define LEDGER_AGAINST_SUMS(attempts, pruned, sums, billed, kept) {\
	"SELECT tenant, nullif(session, ''), NULL::text, coalesce(l.n, 0)::text, coalesce(s." kept ", 0)::text " \
	"FROM (SELECT u.tenant, u.session, sum(u.n) AS n FROM (" \
	"SELECT a.tenant, v.session, " billed " AS n FROM " attempts " AS a " \
	"CROSS JOIN LATERAL (SELECT '' AS session UNION ALL SELECT a.session WHERE a.session IS NOT NULL) AS v WHERE a.outcome <> 'running' " \
	"UNION ALL SELECT p.tenant, p.session, p." kept " FROM " pruned " AS p) AS u GROUP BY u.tenant, u.session) AS l " \
	"FULL JOIN " sums " AS s USING (tenant, session) " \
	"WHERE coalesce(l.n, 0) <> coalesce(s." kept ", 0) AND EXISTS (SELECT FROM mw.tenant AS t WHERE t.tenant = coalesce(l.tenant, s.tenant))", \
	0, {0}}
#define NOTHING_PRUNED "(SELECT * FROM mw.pruned WHERE false)"	/* retention leaves the test double's rows alone */

#define BILLED_COST "coalesce(a.billed_cost, 0)"
#define EXCESS_TOKENS "CASE WHEN a.outcome <> 'unknown' THEN greatest(a.billed_tokens - a.reserved_tokens, 0) ELSE 0 END"
#define EXCESS_COST "CASE WHEN a.outcome <> 'unknown' THEN greatest(a.billed_cost - a.reserved_cost, 0) ELSE 0 END"

/*
 * The same in the window that each kept sum is of: at least what was admitted in
 * it.  Not always just that: where the clock was set back a sum holds calls of
 * the window before, too (spent.c), so more is wrong only beyond those; and where it
 * was set back over a whole window, that one may come twice, and a sum is of the
 * second time alone.
 */
#define OF_WINDOW(w, length) \
	"('" w "', s." w "_start, interval '" length "', s." w "_requests, s." w "_tokens, s." w "_cost)"
#define SHOWN(requests, tokens, cost) \
	"concat(" requests ", ' requests, ', " tokens ", ' tokens, cost ', trim_scale(" cost "), ' a ', per)"
#define WINDOWS_AGAINST_SUMS(attempts, pruned, sums) {\
	"SELECT tenant, nullif(session, ''), NULL::text, " SHOWN("least_requests", "least_tokens", "least_cost") ", " SHOWN("requests", "tokens", "cost") " FROM (" \
	"SELECT s.tenant, s.session, w.per, w.requests, w.tokens, w.cost, coalesce(p.newest >= w.start - 2 * w.length, false) AS pruned, " \
	"coalesce(sum(a.billed_requests) FILTER (WHERE f.inside), 0) AS least_requests, coalesce(sum(a.billed_requests) FILTER (WHERE f.near), 0) AS most_requests, " \
	"coalesce(sum(a.billed_tokens) FILTER (WHERE f.inside), 0) AS least_tokens, coalesce(sum(a.billed_tokens) FILTER (WHERE f.near), 0) AS most_tokens, " \
	"coalesce(sum(a.billed_cost) FILTER (WHERE f.inside), 0) AS least_cost, coalesce(sum(a.billed_cost) FILTER (WHERE f.near), 0) AS most_cost " \
	"FROM " attempts " AS a CROSS JOIN LATERAL (SELECT '' AS session UNION ALL SELECT a.session WHERE a.session IS NOT NULL) AS v " \
	"JOIN " sums " AS s ON s.tenant = a.tenant AND s.session = v.session " \
	"LEFT JOIN " pruned " AS p ON p.tenant = s.tenant AND p.session = s.session " \
	"CROSS JOIN LATERAL (VALUES " OF_WINDOW("minute", "60 s") ", " OF_WINDOW("hour", "3600 s") ", " OF_WINDOW("day", "22 h") ", " OF_WINDOW("month", "648 h") \
	") AS w(per, start, length, requests, tokens, cost) " \
	"CROSS JOIN LATERAL (SELECT a.admitted_at >= w.start AND a.admitted_at < w.start + w.length AND a.admitted_at >= s.set_back_until AS inside, a.admitted_at >= w.start - 2 * w.length AS near) AS f " \
	"WHERE a.outcome <> 'running' AND " OF_A_TENANT " GROUP BY s.tenant, s.session, w.per, w.start, w.length, w.requests, w.tokens, w.cost, p.newest) AS w " \
	"WHERE requests < least_requests OR tokens < least_tokens OR cost < least_cost " \
	"OR NOT pruned AND (requests > most_requests OR tokens > most_tokens OR cost > most_cost)", \
	0, {0}}

static Check checks[] = {
	{"the ledger and the kept sum of tokens differ", LEDGER_AGAINST_SUMS("mw.attempt", "mw.pruned", "mw.spent", "a.billed_tokens", "tokens")},
	{"the ledger and the kept sum of requests differ", LEDGER_AGAINST_SUMS("mw.attempt", "mw.pruned", "mw.spent", "a.billed_requests", "requests")},
	{"the ledger and the kept excess of tokens differ", LEDGER_AGAINST_SUMS("mw.attempt", "mw.pruned", "mw.spent", EXCESS_TOKENS, "excess_tokens")},
	{"the ledger and the kept sum of cost differ", LEDGER_AGAINST_SUMS("mw.attempt", "mw.pruned", "mw.spent", BILLED_COST, "cost")},
	{"the ledger and the kept excess of cost differ", LEDGER_AGAINST_SUMS("mw.attempt", "mw.pruned", "mw.spent", EXCESS_COST, "excess_cost")},
	{"the ledger and the sums of a window differ", WINDOWS_AGAINST_SUMS("mw.attempt", "mw.pruned", "mw.spent")},
	{"the ledger and the kept sum of tokens differ (api fake)", LEDGER_AGAINST_SUMS("mw.fake_attempt", NOTHING_PRUNED, "mw.fake_spent", "a.billed_tokens", "tokens")},
	{"the ledger and the kept sum of requests differ (api fake)", LEDGER_AGAINST_SUMS("mw.fake_attempt", NOTHING_PRUNED, "mw.fake_spent", "a.billed_requests", "requests")},
	{"the ledger and the kept excess of tokens differ (api fake)", LEDGER_AGAINST_SUMS("mw.fake_attempt", NOTHING_PRUNED, "mw.fake_spent", EXCESS_TOKENS, "excess_tokens")},
	{"the ledger and the kept sum of cost differ (api fake)", LEDGER_AGAINST_SUMS("mw.fake_attempt", NOTHING_PRUNED, "mw.fake_spent", BILLED_COST, "cost")},
	{"the ledger and the kept excess of cost differ (api fake)", LEDGER_AGAINST_SUMS("mw.fake_attempt", NOTHING_PRUNED, "mw.fake_spent", EXCESS_COST, "excess_cost")},
	{"the ledger and the sums of a window differ (api fake)", WINDOWS_AGAINST_SUMS("mw.fake_attempt", NOTHING_PRUNED, "mw.fake_spent")},
	{"an attempt has no legal state", {
			ATTEMPTS "SELECT a.tenant, a.session, a.request_id, 'running, ok, failed or unknown, with a time of its end unless it runs', "
			"a.outcome || CASE WHEN a.finished_at IS NULL THEN ' without' ELSE ' with' END || ' an end' FROM a "
			"WHERE (a.outcome NOT IN ('running', 'ok', 'failed', 'unknown') OR (a.outcome = 'running') <> (a.finished_at IS NULL)) AND " OF_A_TENANT,
	0, {0}}},
	{"an attempt that is ok has no status of success", {
			ATTEMPTS "SELECT a.tenant, a.session, a.request_id, '200 to 299', coalesce(a.http_status::text, 'none') FROM a "
			"WHERE a.outcome = 'ok' AND a.purpose NOT IN ('hits', 'bench') AND a.http_status IS DISTINCT FROM least(greatest(a.http_status, 200), 299) AND " OF_A_TENANT,
	0, {0}}},
	{"an unknown outcome is not charged at its reservation", {
			ATTEMPTS "SELECT a.tenant, a.session, a.request_id, "
			"a.reserved_tokens || ' tokens, ' || a.reserved_requests || ' requests', a.billed_tokens || ' tokens, ' || a.billed_requests || ' requests' FROM a "
			"WHERE a.outcome = 'unknown' AND ((a.billed_tokens, a.billed_requests, " BILLED_COST ") <> (a.reserved_tokens, a.reserved_requests, coalesce(a.reserved_cost, 0)) OR NOT a.estimated) AND " OF_A_TENANT,
	0, {0}}},
	{"what was billed is not what was used", {
			ATTEMPTS "SELECT a.tenant, a.session, a.request_id, (coalesce(a.input_tokens, 0) + coalesce(a.output_tokens, 0))::text, a.billed_tokens::text FROM a "
			"WHERE a.outcome IN ('ok', 'failed') AND a.billed_tokens <> coalesce(a.input_tokens, 0) + coalesce(a.output_tokens, 0) AND " OF_A_TENANT,
	0, {0}}},
	{"a cost is not its usage at its prices", {
			ATTEMPTS "SELECT a.tenant, a.session, a.request_id, x.cost::text, coalesce(a.cost::text, 'none') FROM a "
			"CROSS JOIN LATERAL (SELECT trim_scale(((a.input_tokens - a.cached_tokens) * a.input_price + a.cached_tokens * a.cached_price "
			"+ a.output_tokens * a.output_price) / 1000000) AS cost) AS x "
			"WHERE a.outcome IN ('ok', 'failed') AND (a.cost IS DISTINCT FROM x.cost OR a.billed_cost <> coalesce(a.cost, 0)) AND " OF_A_TENANT,
	0, {0}}},
	{"a figure is negative", {
			ATTEMPTS "SELECT a.tenant, a.session, a.request_id, '0 or more', "
			"least(a.input_tokens, a.output_tokens, a.reserved_tokens, a.reserved_requests, a.billed_tokens, a.billed_requests)::text FROM a "
			"WHERE least(a.input_tokens, a.output_tokens, a.reserved_tokens, a.reserved_requests, a.billed_tokens, a.billed_requests) < 0 AND " OF_A_TENANT,
	0, {0}}},
	{"a hit cost tokens", {
			ATTEMPTS "SELECT a.tenant, a.session, a.request_id, '0', a.billed_tokens::text FROM a "
			"WHERE a.purpose IN ('hits', 'bench') AND a.billed_tokens <> 0 AND " OF_A_TENANT,
	0, {0}}},
	{"a call was answered twice", {
			ATTEMPTS "SELECT a.tenant, min(a.session), min(a.request_id), '1', pg_catalog.count(*)::text FROM a "
			"WHERE a.outcome = 'ok' AND a.purpose NOT IN ('hits', 'bench') AND " OF_A_TENANT " GROUP BY a.tenant, a.run_id, a.request_id, a.call HAVING pg_catalog.count(*) > 1",
	0, {0}}},
	{"the same bytes of a request_id were paid for twice", {
			ATTEMPTS "SELECT a.tenant, min(a.session), a.request_id, '1', pg_catalog.count(*)::text FROM a "
			"WHERE a.outcome = 'ok' AND a.request_named AND " OF_A_TENANT " GROUP BY a.tenant, a.request_id, a.call_key, a.nth HAVING pg_catalog.count(*) > 1",
	0, {0}}},
	{"an answer that was paid for is not recorded", {
			"SELECT a.tenant, a.session, a.request_id, 'a row in mw.answer', 'none' FROM mw.attempt AS a "
			"WHERE a.outcome = 'ok' AND a.request_named AND a.purpose NOT IN ('hits', 'bench') AND " OF_A_TENANT
			" AND NOT EXISTS (SELECT FROM mw.answer AS r WHERE (r.tenant, r.request_id, r.call_key, r.nth) = (a.tenant, a.request_id, a.call_key, a.nth))",
	0, {0}}},
	{"a call has not one final attempt", {
			"SELECT l.tenant, min(l.session), l.request_id, '1', pg_catalog.count(*) FILTER (WHERE l.final)::text FROM mw.ledger AS l "
			"WHERE EXISTS (SELECT FROM mw.tenant AS t WHERE t.tenant = l.tenant) "
			"GROUP BY l.tenant, l.request_id, l.call HAVING pg_catalog.count(*) FILTER (WHERE l.final) <> 1 AND pg_catalog.bool_and(l.finished_at IS NOT NULL)",
	0, {0}}}
};

static void
put_finding(ReturnSetInfo *set, const char *finding, char *const *texts)
{
	Datum		values[6];
	bool		nulls[6] = {false};

	for (int i = 0; i < 6; i++)
		values[i] = mw_out_text(i == 3 ? finding : texts[i < 3 ? i : i - 1], &nulls[i]);
	tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
}

static void
run_check(ReturnSetInfo *set, Check *check)
{
	uint64		n = mw_spi_read(&check->stmt, MW_AS_OWNER, NULL, NULL, 0);

	for (uint64 i = 0; i < n; i++)
	{
		char	   *texts[5];

		for (int c = 0; c < 5; c++)
			texts[c] = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, c + 1);
		put_finding(set, check->finding, texts);
	}
}

/* ---------- running attempts ---------- */

/* The runs that have a slot; NIL where mw is not preloaded */
static List *
runs_in_flight(void)
{
	List	   *runs = NIL;

	if (mw_shared == NULL)
		return NIL;
	(void) mw_dsa();
	LWLockAcquire(mw_shared->lock, LW_SHARED);
	for (int i = 0; i < mw_shared->nslots; i++)
	{
		MwSlot	   *s = &mw_shared->slots[i];

		if (s->state != MW_SLOT_FREE && s->db == MyDatabaseId && DsaPointerIsValid(s->request))
		{
			pg_uuid_t  *id = palloc(sizeof(pg_uuid_t));

			*id = ((MwWire *) dsa_get_address(mw_dsa(), s->request))->run_id;
			runs = lappend(runs, id);
		}
	}
	LWLockRelease(mw_shared->lock);
	return runs;
}

/*
 * Rows that run without a flight.  A row ends before its slot is free, so what
 * was running, then had no slot, and then still runs is lost.  Returns how many;
 * reports them where set is given.
 */
static int
lost_attempts(ReturnSetInfo *set)
{
	static MwStmt running = {
		"SELECT a.tenant, a.session, a.request_id, a.run_id, a.call, a.attempt FROM mw.attempt AS a WHERE a.outcome = 'running'",
		0, {0}
	};
	static MwStmt still = {
		"SELECT FROM mw.attempt AS a WHERE (a.tenant, a.run_id, a.call, a.attempt) = ($1, $2, $3, $4) AND a.outcome = 'running'",
		4, {TEXTOID, UUIDOID, INT4OID, INT4OID}
	};
	uint64		n = mw_spi_read(&running, MW_AS_OWNER, NULL, NULL, 0);
	SPITupleTable *rows = SPI_tuptable;
	List	   *flights = n > 0 ? runs_in_flight() : NIL;
	int			lost = 0;

	for (uint64 i = 0; i < n; i++)
	{
		Datum		values[4];
		bool		isnull;
		bool		flies = false;
		ListCell   *lc;
		char	   *texts[5] = {NULL, NULL, NULL, "a call in flight", "none"};

		for (int c = 0; c < 3; c++)
		{
			texts[c] = SPI_getvalue(rows->vals[i], rows->tupdesc, c + 1);
			values[c + 1] = SPI_getbinval(rows->vals[i], rows->tupdesc, c + 4, &isnull);
		}
		values[0] = SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull);
		foreach(lc, flights)
			flies |= memcmp(lfirst(lc), DatumGetUUIDP(values[1]), sizeof(pg_uuid_t)) == 0;
		if (flies || mw_spi_read(&still, MW_AS_OWNER, values, NULL, 1) == 0)
			continue;
		lost++;
		if (set)
			put_finding(set, "an attempt is running that nobody carries", texts);
	}
	return lost;
}

static void
check_running(ReturnSetInfo *set)
{
	if (lost_attempts(NULL) > 0 && mw_shared != NULL && !RecoveryInProgress())
	{
		(void) mw_gateway_ensure();
		for (int ms = 0; ms < RECOVERY_WAIT_MS && lost_attempts(NULL) > 0; ms += 50)
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 50, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	(void) lost_attempts(set);
}

/* ---------- shared memory ---------- */

/* Nothing moves: no call in flight here, and no other session that could be about to make one */
static bool
at_rest(uint64 *commits)
{
	static MwStmt busy = {
		"SELECT FROM pg_catalog.pg_stat_activity AS s WHERE s.datid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())"
		" AND s.pid <> pg_catalog.pg_backend_pid() AND s.backend_type = 'client backend' AND s.state NOT IN ('idle', 'idle in transaction', 'idle in transaction (aborted)')",
		0, {0}
	};
	bool		free = true;

	*commits = 0;
	LWLockAcquire(mw_shared->lock, LW_SHARED);
	for (int i = 0; i < mw_shared->nslots; i++)
		free &= mw_shared->slots[i].state == MW_SLOT_FREE || mw_shared->slots[i].db != MyDatabaseId;
	for (int i = 0; i < MW_MAX_GATES; i++)
		if (mw_shared->gates[i].db == MyDatabaseId)
			*commits = mw_shared->gates[i].commits;
	LWLockRelease(mw_shared->lock);
	return free && mw_spi_read(&busy, MW_AS_OWNER, NULL, NULL, 1) == 0;
}

static int
by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(MwKey));
}

static char *
shown(MwPeriod w, const MwAmounts *a)
{
	return psprintf(INT64_FORMAT " requests, " INT64_FORMAT " tokens, cost %s (%s)",
					a->requests, a->tokens, mw_money_text(a->cost), mw_window_names[w]);
}

static bool
same(const MwAmounts *a, const MwAmounts *b)
{
	return a->requests == b->requests && a->tokens == b->tokens && a->cost == b->cost;
}

/* tenant, session, finding, expected, found */
static List *
add_finding(List *findings, const char *tenant, const char *session, const char *finding, const char *expected, const char *found)
{
	const char **f = palloc(sizeof(char *) * 5);

	f[0] = tenant;
	f[1] = session;
	f[2] = finding;
	f[3] = expected;
	f[4] = found;
	return lappend(findings, f);
}

static List *
compare_counters(MwCounterRow *counters, int n)
{
	static MwStmt names = {"SELECT s.tenant, s.session FROM mw.spent AS s ORDER BY s.tenant, s.session", 0, {0}};
	static MwStmt sums = {"SELECT " MW_SPENT_COLUMNS " FROM mw.spent AS s ORDER BY s.tenant, s.session", 0, {0}};
	static const MwAmounts zero;
	uint64		rows;
	SPITupleTable *named;
	const char *tenant = "";
	MwKey		scope = {{0}};
	List	   *findings = NIL;

	rows = mw_spi_read(&names, MW_AS_OWNER, NULL, NULL, 0);
	named = SPI_tuptable;
	if (mw_spi_read(&sums, MW_AS_OWNER, NULL, NULL, 0) != rows)
		return NIL;				/* the gateway was here: not at rest */
	for (uint64 i = 0; i < rows; i++)
	{
		char	   *its = SPI_getvalue(named->vals[i], named->tupdesc, 1);
		char	   *session = SPI_getvalue(named->vals[i], named->tupdesc, 2);
		MwCounterRow *c;
		MwSpent		kept;
		MwKey		key;

		if (strcmp(tenant, its) != 0)
		{
			tenant = its;
			scope = mw_scope_key(tenant);
		}
		key = session[0] ? mw_session_key(&scope, session) : scope;
		c = bsearch(&key, counters, n, sizeof(MwCounterRow), by_key);
		if (c == NULL)
			continue;
		c->named = true;
		mw_spent_from_row(&kept, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
		for (int w = 0; w < MW_NWINDOWS; w++)
			if (c->start[w] == kept.start[w] && !same(&c->settled[w], &kept.used[w]))
				findings = add_finding(findings, tenant, session[0] ? session : NULL, "a counter in memory and its kept sum differ",
									   shown(w, &kept.used[w]), shown(w, &c->settled[w]));
	}
	for (int i = 0; i < n; i++)
		for (int w = 0; w < MW_NWINDOWS; w++)
		{
			MwCounterRow *c = &counters[i];

			if (!same(&c->reserved[w], &zero))
				findings = add_finding(findings, NULL, NULL, "something is reserved though no call runs", "0", shown(w, &c->reserved[w]));
			if (!c->named && !same(&c->settled[w], &zero))
				findings = add_finding(findings, NULL, NULL, "a counter in memory has no kept sum", "0", shown(w, &c->settled[w]));
		}
	return findings;
}

static void
check_counters(ReturnSetInfo *set)
{
	uint64		before;
	uint64		after;
	int			n;
	MwCounterRow *counters;
	List	   *findings;
	ListCell   *lc;

	if (mw_shared == NULL || !at_rest(&before))
		return;
	counters = mw_counters_dump(MyDatabaseId, &n);
	if (n == 0)
		return;
	qsort(counters, n, sizeof(MwCounterRow), by_key);
	findings = compare_counters(counters, n);

	/* somebody came in between: what was seen may be a half of something */
	if (!at_rest(&after) || before != after)
		return;
	foreach(lc, findings)
	{
		char	  **f = lfirst(lc);
		char	   *texts[5] = {f[0], f[1], NULL, f[3], f[4]};

		put_finding(set, f[2], texts);
	}
}

/* ---------- approvals ---------- */

static void
put_broken(void *arg, const char *tenant, const char *session, const char *expected, const char *found)
{
	char	   *texts[5] = {unconstify(char *, tenant), unconstify(char *, session), NULL, unconstify(char *, expected), unconstify(char *, found)};

	put_finding(arg, "the log of approvals was altered", texts);
}

PG_FUNCTION_INFO_V1(mw_check);

Datum
mw_check(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	check_running(set);
	for (int i = 0; i < lengthof(checks); i++)
		run_check(set, &checks[i]);
	check_counters(set);
	mw_approval_chains_check(put_broken, set);
	SPI_finish();
	return (Datum) 0;
}
