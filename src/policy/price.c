/*
 * price.c - what models cost, per million tokens, from a moment on.
 *
 * A price has six decimals at most, so that a token's is a whole number of
 * 10^-12 of the currency, in which all money is counted.  A call takes the price
 * that holds when it is admitted and carries it with it; the ledger keeps it
 * beside what it came to.  The catalogue is kept a process until its table
 * changes, as models are.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "policy/admin.h"
#include "policy/policy.h"
#include "policy/settings.h"
#include "policy/watch.h"
#include "util/money.h"
#include "util/spi.h"

#define MAX_MODELS	1024
#define PRICE_DECIMALS	6
#define MAX_PRICE	"1000000000"

typedef struct DatedPrice
{
	TimestampTz valid_from;
	MwPrice		price;
} DatedPrice;

typedef struct PriceSlot
{
	char		model[MW_MODEL_MAX + 1];
	int			n;
	DatedPrice *prices;			/* newest first */
} PriceSlot;

static HTAB *slots;
static MemoryContext cxt;
static uint64 read_at;			/* generation of slots */

/* ---------- looking up ---------- */

static int64
per_token(int row, int col)
{
	bool		isnull;
	MwMoney		money;

	if (!mw_money_read(DatumGetNumeric(SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, col, &isnull)),
					   PRICE_DECIMALS, &money))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("a price in mw.price is no price"),
				 errhint("Set it with mw_set_price.")));
	return (int64) money;
}

static PriceSlot *
read_prices(const char *model)
{
	static MwStmt stmt = {
		"SELECT p.valid_from, p.input, p.output, coalesce(p.cached_input, p.input) FROM mw.price AS p"
		" WHERE p.tenant OPERATOR(pg_catalog.=) '*' AND p.model OPERATOR(pg_catalog.=) $1 ORDER BY p.valid_from DESC",
		1, {TEXTOID}
	};
	Datum		arg = CStringGetTextDatum(model);
	uint64		generation;
	DatedPrice *prices;
	PriceSlot  *slot;
	int			n;

	mw_watch_start();
	generation = mw_watch_policy();
	SPI_connect();
	n = mw_spi_read(&stmt, MW_AS_OWNER, &arg, NULL, 0);
	if (slots == NULL)
	{
		HASHCTL		ctl = {.keysize = MW_MODEL_MAX + 1, .entrysize = sizeof(PriceSlot)};

		cxt = AllocSetContextCreate(CacheMemoryContext, "mw prices", ALLOCSET_SMALL_SIZES);
		ctl.hcxt = cxt;
		slots = hash_create("mw prices", 32, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
		read_at = generation;
	}
	prices = MemoryContextAllocZero(cxt, sizeof(DatedPrice) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		bool		isnull;

		prices[i].valid_from = DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));
		prices[i].price = (MwPrice) {true, per_token(i, 2), per_token(i, 3), per_token(i, 4)};
	}
	SPI_finish();
	slot = hash_search(slots, model, HASH_ENTER, NULL);
	slot->n = n;
	slot->prices = prices;
	return slot;
}

MwPrice
mw_policy_price(const char *model, TimestampTz at)
{
	static const MwPrice none;
	PriceSlot  *slot;

	if (strlen(model) > MW_MODEL_MAX)
		return none;			/* mw_set_price refuses such a name */
	if (slots && (read_at != mw_watch_policy() || hash_get_num_entries(slots) >= MAX_MODELS))
	{
		MemoryContextDelete(cxt);
		slots = NULL;
	}
	slot = slots ? hash_search(slots, model, HASH_FIND, NULL) : NULL;
	if (slot == NULL)
		slot = read_prices(model);
	for (int i = 0; i < slot->n; i++)
		if (slot->prices[i].valid_from <= at)
			return slot->prices[i].price;
	return none;
}

/* ---------- setting ---------- */

static Datum
price_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	Datum		d = PG_GETARG_DATUM(n);
	MwMoney		money;

	if (!mw_money_read(DatumGetNumeric(d), PRICE_DECIMALS, &money) || money < 0 ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, d, DirectFunctionCall3(numeric_in, CStringGetDatum(MAX_PRICE),
																			ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)))))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("price \"%s\" must be from 0 to " MAX_PRICE " and have %d decimals at most", name, PRICE_DECIMALS),
				 errhint("Prices are per million tokens: SELECT mw_set_price('openai:gpt-4o-mini', 0.15, 0.60, 0.075);")));
	return d;
}

static char *
model_arg(FunctionCallInfo fcinfo)
{
	char	   *model = mw_arg_text(fcinfo, 0, "model");

	mw_admin_name(model, "the name of a model", MW_MODEL_MAX);
	mw_check_model_name(model, "argument \"model\"");
	return model;
}

PG_FUNCTION_INFO_V1(mw_set_price);

/* (model, input, output, cached_input, valid_from) */
Datum
mw_set_price(PG_FUNCTION_ARGS)
{
	static MwStmt put = {
		"INSERT INTO mw.price (model, valid_from, input, output, cached_input) VALUES ($1, $2, $3, $4, $5)"
		" ON CONFLICT (tenant, model, valid_from) DO UPDATE SET input = excluded.input, output = excluded.output,"
		" cached_input = excluded.cached_input",
		5, {TEXTOID, TIMESTAMPTZOID, NUMERICOID, NUMERICOID, NUMERICOID}
	};
	char	   *model = model_arg(fcinfo);
	Datum		values[5];
	char		nulls[6] = "     ";

	for (int i = 1; i <= 2; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("argument \"%s\" must not be null", i == 1 ? "input" : "output"),
					 errhint("A model that costs nothing has the price 0; mw_drop_price takes a price away.")));
	if (PG_ARGISNULL(4) || TIMESTAMP_IS_NOEND(PG_GETARG_TIMESTAMPTZ(4)))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("\"valid_from\" must be a moment"),
				 errhint("'-infinity' is always.")));
	values[0] = CStringGetTextDatum(model);
	values[1] = PG_GETARG_DATUM(4);
	values[2] = price_arg(fcinfo, 1, "input");
	values[3] = price_arg(fcinfo, 2, "output");
	nulls[4] = PG_ARGISNULL(3) ? 'n' : ' ';
	values[4] = PG_ARGISNULL(3) ? (Datum) 0 : price_arg(fcinfo, 3, "cached_input");
	SPI_connect();
	mw_spi_write(&put, MW_AS_OWNER, values, nulls);
	SPI_finish();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(mw_drop_price);

/* (model, valid_from) */
Datum
mw_drop_price(PG_FUNCTION_ARGS)
{
	static MwStmt take = {
		"DELETE FROM mw.price AS p WHERE p.tenant OPERATOR(pg_catalog.=) '*' AND p.model OPERATOR(pg_catalog.=) $1"
		" AND ($2 IS NULL OR p.valid_from OPERATOR(pg_catalog.=) $2)",
		2, {TEXTOID, TIMESTAMPTZOID}
	};
	char	   *model = model_arg(fcinfo);
	Datum		values[2] = {CStringGetTextDatum(model), PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1)};

	SPI_connect();
	if (mw_spi_write(&take, MW_AS_OWNER, values, PG_ARGISNULL(1) ? " n" : NULL) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("model \"%s\" has no such price", model),
				 errhint("SELECT model, valid_from FROM mw.price; lists them.")));
	SPI_finish();
	PG_RETURN_VOID();
}
