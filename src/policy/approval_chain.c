/*
 * approval_chain.c - the chain that holds a session's rows of mw.approval_log
 * together, and the search for where it is broken.
 *
 * Each row holds a keyed hash of itself and of the row before.  One that was
 * altered, added or taken out between others breaks it there.  Those taken off
 * the end are missed by mw.interrupt, which knows how many decisions it has; who
 * alters both needs the key of the database as well.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "policy/approval_chain.h"
#include "policy/policy.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/spi.h"

MwKey
mw_approval_chain(const MwKey *before, const MwApprovalEvent *e)
{
	MwHash		h;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "approval log 1");
	mw_hash_part(&h, before, sizeof(MwKey));
	mw_hash_text(&h, e->tenant);
	mw_hash_text(&h, e->session);
	mw_hash_part(&h, &e->seq, sizeof(e->seq));
	mw_hash_text(&h, e->interrupt_id);
	mw_hash_part(&h, &e->place, sizeof(e->place));
	mw_hash_text(&h, e->event);
	mw_hash_text(&h, mw_json_canonical(e->detail));
	mw_hash_text(&h, e->role);
	mw_hash_part(&h, &e->at, sizeof(e->at));
	return mw_hash_end(&h);
}

/* ---------- checking ---------- */

static MwApprovalEvent
event_of(HeapTuple row, TupleDesc desc)
{
	MwApprovalEvent e;
	bool		isnull;

	e.tenant = SPI_getvalue(row, desc, 1);
	e.session = SPI_getvalue(row, desc, 2);
	e.seq = DatumGetInt64(SPI_getbinval(row, desc, 3, &isnull));
	e.interrupt_id = SPI_getvalue(row, desc, 4);
	e.place = DatumGetInt32(SPI_getbinval(row, desc, 5, &isnull));
	e.event = SPI_getvalue(row, desc, 6);
	e.detail = DatumGetJsonbP(SPI_getbinval(row, desc, 7, &isnull));
	e.role = SPI_getvalue(row, desc, 8);
	e.at = DatumGetTimestampTz(SPI_getbinval(row, desc, 9, &isnull));
	return e;
}

/* The place of a chain at which the check stands */
typedef struct Chain
{
	char	   *tenant;
	char	   *session;
	MwKey		before;
	int64		seq;
	bool		broken;			/* after the first break there is nothing to hold on to */
} Chain;

static void
check_row(Chain *chain, HeapTuple row, TupleDesc desc, MwBrokenChain broken, void *arg)
{
	MwApprovalEvent e = event_of(row, desc);
	bool		isnull;
	bytea	   *kept = DatumGetByteaPP(SPI_getbinval(row, desc, 10, &isnull));
	MwKey		is;

	if (strcmp(chain->tenant, e.tenant) != 0 || strcmp(chain->session, e.session) != 0)
		*chain = (Chain) {.tenant = pstrdup(e.tenant), .session = pstrdup(e.session)};
	if (chain->broken)
		return;
	is = mw_approval_chain(&chain->before, &e);
	chain->broken = true;
	if (e.seq != ++chain->seq)
		broken(arg, e.tenant, e.session, psprintf("row " INT64_FORMAT, chain->seq), psprintf("row " INT64_FORMAT, e.seq));
	else if (VARSIZE_ANY_EXHDR(kept) != sizeof(MwKey) || memcmp(&is, VARDATA_ANY(kept), sizeof(MwKey)) != 0)
		broken(arg, e.tenant, e.session, psprintf("row " INT64_FORMAT " as it was written", chain->seq), "another");
	else
	{
		chain->before = is;
		chain->broken = false;
	}
}

/* So many rows at a time, along the primary key: the log may be longer than memory */
#define ROWS 1000

static void
check_chains(MwBrokenChain broken, void *arg)
{
	static MwStmt stmt = {
		"SELECT l.tenant, l.session, l.seq, l.interrupt_id, l.place, l.event, l.detail, l.role, l.at, l.chain"
		" FROM mw.approval_log AS l WHERE ROW(l.tenant, l.session, l.seq) OPERATOR(pg_catalog.>) ROW($1, $2, $3)"
		" ORDER BY l.tenant, l.session, l.seq LIMIT " CppAsString2(ROWS),
		3, {TEXTOID, TEXTOID, INT8OID}
	};
	Chain		chain = {.tenant = "", .session = ""};
	MemoryContext rows = AllocSetContextCreate(CurrentMemoryContext, "mw log of approvals", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	Datum		from[3] = {CStringGetTextDatum(""), CStringGetTextDatum(""), Int64GetDatum(0)};
	uint64		n;

	do
	{
		SPITupleTable *table;
		Chain		at = chain;
		bool		isnull;

		n = mw_spi_read(&stmt, MW_AS_OWNER, from, NULL, 0);
		table = SPI_tuptable;
		for (uint64 i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			MemoryContextSwitchTo(rows);
			check_row(&at, table->vals[i], table->tupdesc, broken, arg);
			MemoryContextSwitchTo(old);
		}
		/* what goes on is all that is kept of these */
		chain = at;
		chain.tenant = pstrdup(at.tenant);
		chain.session = pstrdup(at.session);
		if (n > 0)
		{
			from[0] = CStringGetTextDatum(at.tenant);
			from[1] = CStringGetTextDatum(at.session);
			from[2] = Int64GetDatum(DatumGetInt64(SPI_getbinval(table->vals[n - 1], table->tupdesc, 3, &isnull)));
		}
		SPI_freetuptable(table);
		MemoryContextReset(rows);
	} while (n == ROWS);
	MemoryContextDelete(rows);
}

/*
 * What each interrupt has been through, and what the log says of it.  Both are
 * read once, whatever is in them.
 */
static void
check_counts(MwBrokenChain broken, void *arg)
{
	static MwStmt stmt = {
		"SELECT i.tenant, i.session, x.expected || ' of interrupt ' || i.interrupt_id, coalesce(l.n, 0)::text FROM mw.interrupt AS i"
		" CROSS JOIN LATERAL (SELECT 1 + pg_catalog.jsonb_array_length(i.decisions) + (i.outcome IS NOT NULL)::integer + (i.status = 'abandoned')::integer AS expected) AS x"
		" LEFT JOIN (SELECT tenant, session, interrupt_id, place, pg_catalog.count(*) AS n FROM mw.approval_log WHERE event <> 'revealed' GROUP BY 1, 2, 3, 4) AS l"
		" USING (tenant, session, interrupt_id, place) WHERE coalesce(l.n, 0) <> x.expected",
		0, {0}
	};
	uint64		n = mw_spi_read(&stmt, MW_AS_OWNER, NULL, NULL, 0);

	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;

		broken(arg, SPI_getvalue(row, desc, 1), SPI_getvalue(row, desc, 2), SPI_getvalue(row, desc, 3), SPI_getvalue(row, desc, 4));
	}
}

/* Inside SPI, as the owner: each place where the log of a session is not as it was written */
void
mw_approval_chains_check(MwBrokenChain broken, void *arg)
{
	check_chains(broken, arg);
	check_counts(broken, arg);
}
