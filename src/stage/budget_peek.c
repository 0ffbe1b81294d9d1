/*
 * budget_peek.c - what a scope of a call has used, for who only looks.
 *
 * A call that reserves asks the counters, which are loaded for it where they are
 * not in memory.  mw_explain may load nothing and lock nothing, also on a standby:
 * it reads what mw.budget_status shows its caller.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "gateway/spent.h"
#include "stage/stages.h"
#include "util/money.h"
#include "util/spi.h"

#define SHOWN "SELECT s.unit, s.per, s.settled, s.reserved FROM mw.budget_status AS s WHERE s.tenant OPERATOR(pg_catalog.=) $1 AND s.session "

static void
set_amount(MwAmounts *a, MwUnit unit, Datum shown)
{
	MwMoney		cost;

	if (unit != MW_COST)
	{
		int64		n = DatumGetInt64(DirectFunctionCall1(numeric_int8, shown));

		if (unit == MW_REQUESTS)
			a->requests = n;
		else
			a->tokens = n;
	}
	else if (mw_money_read(DatumGetNumeric(shown), MW_MONEY_DECIMALS, &cost))
		a->cost = cost;
}

static int
place_of(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

/* settled and reserved: of each window, zero where nothing is limited */
void
mw_budget_peek(const MwCall *call, int scope, MwAmounts *settled, MwAmounts *reserved)
{
	static MwStmt tenants = {SHOWN "IS NULL", 1, {TEXTOID}};
	static MwStmt sessions = {SHOWN "OPERATOR(pg_catalog.=) $2", 2, {TEXTOID, TEXTOID}};
	const char *session = call->reserved.scopes[scope].session;
	Datum		values[2] = {CStringGetTextDatum(call->tenant), session != NULL ? CStringGetTextDatum(session) : 0};
	uint64		n;

	memset(settled, 0, sizeof(MwAmounts) * MW_NWINDOWS);
	memset(reserved, 0, sizeof(MwAmounts) * MW_NWINDOWS);
	SPI_connect();
	n = mw_spi_read(session != NULL ? &sessions : &tenants, MW_AS_CALLER, values, NULL, 0);
	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		int			unit = place_of(mw_unit_names, MW_NUNITS, SPI_getvalue(row, desc, 1));
		int			w = place_of(mw_window_names, MW_NWINDOWS, SPI_getvalue(row, desc, 2));
		bool		null;

		if (unit < 0 || w < 0)
			continue;
		set_amount(&settled[w], unit, SPI_getbinval(row, desc, 3, &null));
		set_amount(&reserved[w], unit, SPI_getbinval(row, desc, 4, &null));
	}
	SPI_finish();
}
