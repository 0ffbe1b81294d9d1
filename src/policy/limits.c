/*
 * limits.c - budgets: what an administrator limits, and what of it holds for a
 * scope.
 *
 * mw.budget has a row a (scope, unit, window).  A policy holds the tenant's own
 * limits and those of each session ready, as the counters want them; where single
 * sessions have limits of their own, which may be many, a session's are looked up
 * when it is first asked for.  A session's own limit wins over that of each
 * session, unit by unit and window by window.  A session without a limit on tokens
 * for ever has the default one (P10).
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "gateway/spent.h"
#include "policy/admin.h"
#include "policy/policy.h"
#include "util/money.h"
#include "util/row.h"
#include "util/spi.h"

#define MAX_SESSIONS	4096	/* kept a policy; more are looked up each time */

/* Counters are 64 bit: more is meant to be 'Infinity' */
#define MAX_AMOUNT	"9007199254740992"

typedef struct SessionLimits
{
	MwKey		key;			/* must be first */
	const MwLimits *limits;
} SessionLimits;

/* ---------- what holds ---------- */

static MwRowTable of_tenant = {.name = "budget",.nkeys = 1,.equal = {F_TEXTEQ},.as = MW_AS_OWNER};
static MwRowTable of_scope = {.name = "budget",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ},.as = MW_AS_OWNER};

static void
no_limits(MwLimits *l)
{
	memset(l, 0, sizeof(*l));
	for (int w = 0; w < MW_NWINDOWS; w++)
	{
		l->limit[w] = (MwAmounts) {MW_NO_LIMIT, MW_NO_LIMIT, MW_NO_MONEY_LIMIT};
		l->soft[w] = l->limit[w];
	}
}

static int
index_of(const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

static void
set_amount(MwAmounts *a, MwUnit unit, Datum d, bool isnull)
{
	MwMoney		n;
	bool		is = !isnull && mw_money_read(DatumGetNumeric(d), unit == MW_COST ? MW_MONEY_DECIMALS : 0, &n);

	if (unit == MW_COST)
		a->cost = is ? n : MW_NO_MONEY_LIMIT;
	else if (unit == MW_TOKENS)
		a->tokens = is ? (int64) n : MW_NO_LIMIT;
	else
		a->requests = is ? (int64) n : MW_NO_LIMIT;
}

/* How much of an amount is used up when it is told: its share, rounded up to a whole number, or of money down to the twelfth decimal */
static Datum
soft_amount(Datum amount, Datum share, MwUnit unit)
{
	Datum		soft = DirectFunctionCall2(numeric_mul, amount, share);

	return unit == MW_COST ? DirectFunctionCall2(numeric_trunc, soft, Int32GetDatum(MW_MONEY_DECIMALS)) :
		DirectFunctionCall1(numeric_ceil, soft);
}

/* Take a row in */
static void
take_row(MwLimits *l, MwRow *row)
{
	MwUnit		unit = index_of(mw_row_text(row, "unit"), mw_unit_names, MW_NUNITS);
	MwPeriod	w = index_of(mw_row_text(row, "per"), mw_window_names, MW_NWINDOWS);
	bool		isnull;
	Datum		amount = mw_row_named(row, "amount", &isnull);
	bool		unshared;
	Datum		share = mw_row_named(row, "soft", &unshared);

	set_amount(&l->limit[w], unit, amount, isnull);
	set_amount(&l->soft[w], unit, isnull || unshared ? (Datum) 0 : soft_amount(amount, share, unit), isnull || unshared);
}

/* Take the rows of a scope in: how many there were */
static int
take_scope(MwLimits *l, const char *tenant, const char *scope)
{
	Datum		key[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(scope)};
	MwRow		row;
	int			n = 0;

	for (bool more = mw_row_open(&row, &of_scope, key); more; more = mw_row_next(&row), n++)
		take_row(l, &row);
	mw_row_close(&row);
	return n;
}

/* Whether any session has limits of its own */
static bool
has_own(const char *tenant)
{
	Datum		key = CStringGetTextDatum(tenant);
	MwRow		row;
	bool		own = false;

	for (bool more = mw_row_open(&row, &of_tenant, &key); more && !own; more = mw_row_next(&row))
	{
		char	   *session = mw_row_text(&row, "session");

		own = session != NULL && strcmp(session, "*") != 0;
	}
	mw_row_close(&row);
	return own;
}

/* What callers look at first */
static void
finish(MwLimits *l)
{
	l->windows = l->requests = 0;
	l->money = l->marks = false;
	for (int w = 0; w < MW_NWINDOWS; w++)
		for (MwUnit unit = 0; unit < MW_NUNITS; unit++)
		{
			if (mw_limited(&l->limit[w], unit))
			{
				l->windows |= 1 << w;
				l->money |= unit == MW_COST;
				if (unit == MW_REQUESTS)
					l->requests |= 1 << w;
			}
			l->marks |= mw_limited(&l->soft[w], unit);
		}
}

void
mw_limits_read(MwPolicy *policy)
{
	no_limits(&policy->limits);
	no_limits(&policy->session_limits);
	policy->session_limits.limit[MW_FOREVER].tokens = MW_DEFAULT_SESSION_TOKENS;
	(void) take_scope(&policy->limits, policy->tenant, "t");
	(void) take_scope(&policy->session_limits, policy->tenant, "s*");
	finish(&policy->limits);
	finish(&policy->session_limits);
	policy->own_limits = has_own(policy->tenant);
}

/* Those of a session; false where it has none of its own */
static bool
own_limits(const MwPolicy *policy, const char *session, MwLimits *own)
{
	*own = policy->session_limits;
	if (take_scope(own, policy->tenant, psprintf("s%s", session)) == 0)
		return false;
	finish(own);
	return true;
}

static MwLimits *
copy_of(const MwLimits *limits, MemoryContext cxt)
{
	MwLimits   *copy = MemoryContextAlloc(cxt, sizeof(MwLimits));

	*copy = *limits;
	return copy;
}

const MwLimits *
mw_policy_limits(const MwPolicy *policy, const char *session)
{
	MwPolicy   *p = unconstify(MwPolicy *, policy);
	SessionLimits *slot;
	MwLimits	own;
	const MwLimits *limits;
	MwKey		key;
	bool		full;

	if (session == NULL)
		return &policy->limits;
	if (!policy->own_limits)
		return &policy->session_limits;

	key = mw_session_key(&policy->scope, session);
	slot = p->sessions ? hash_search(p->sessions, &key, HASH_FIND, NULL) : NULL;
	if (slot)
		return slot->limits;
	if (p->sessions == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(MwKey), .entrysize = sizeof(SessionLimits), .hcxt = p->cxt};

		p->sessions = hash_create("mw session limits", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	full = hash_get_num_entries(p->sessions) >= MAX_SESSIONS;
	limits = own_limits(policy, session, &own) ? copy_of(&own, full ? CurrentMemoryContext : p->cxt) : &policy->session_limits;
	if (!full)
	{
		slot = hash_search(p->sessions, &key, HASH_ENTER, NULL);
		slot->limits = limits;
	}
	return limits;
}

void
mw_policy_when(const MwPolicy *policy, TimestampTz now, MwWhen *when)
{
	MwWhen	   *kept = &unconstify(MwPolicy *, policy)->when;

	if (now < kept->start[MW_MINUTE] || now >= kept->start[MW_MINUTE] + USECS_PER_MINUTE)
		mw_windows_at(policy->timezone, now, kept);
	*when = *kept;
	when->admitted_at = now;
}

/* ---------- setting them ---------- */

static char *
one_of(const char *const *names, int n)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < n; i++)
		appendStringInfo(&s, "%s%s", i > 0 ? ", " : "", names[i]);
	return s.data;
}

static void
check_amount(Datum amount, MwUnit unit)
{
	Numeric		n = DatumGetNumeric(amount);
	const char *hint = unit == MW_COST ?
		"An amount from 0 with 12 decimals at most, 'Infinity' for no limit, or NULL for the default." :
		"A whole number from 0, 'Infinity' for no limit, or NULL for the default.";
	MwMoney		money;

	if (numeric_is_nan(n))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the amount of a budget must be a number"),
				errhint("%s", hint));
	if (DatumGetBool(DirectFunctionCall2(numeric_lt, amount, NumericGetDatum(int64_to_numeric(0)))))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the amount of a budget must not be negative"),
				errhint("%s", hint));
	if (numeric_is_inf(n))
		return;
	if (DatumGetBool(DirectFunctionCall2(numeric_gt, amount,
										 DirectFunctionCall3(numeric_in, CStringGetDatum(unit == MW_COST ? "999999999999999" : MAX_AMOUNT),
															 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)))))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the amount of a budget is too large"),
				errdetail("At most %s can be counted exactly.", unit == MW_COST ? "999999999999999" : MAX_AMOUNT),
				errhint("'Infinity' means no limit."));
	if (!mw_money_read(n, unit == MW_COST ? MW_MONEY_DECIMALS : 0, &money))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				unit == MW_COST ? errmsg("a budget of cost has too many decimals") :
				errmsg("a budget of %s must be a whole number", mw_unit_names[unit]),
				errhint("%s", hint));
}

static void
check_soft(Datum soft, FunctionCallInfo fcinfo)
{
	if (numeric_is_nan(DatumGetNumeric(soft)) ||
		!DatumGetBool(DirectFunctionCall2(numeric_gt, soft, NumericGetDatum(int64_to_numeric(0)))) ||
		!DatumGetBool(DirectFunctionCall2(numeric_le, soft, NumericGetDatum(int64_to_numeric(1)))))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("a soft limit must be a share above 0, up to 1"),
				errhint("soft => 0.8 tells at 80 per cent of the amount."));
	if (PG_ARGISNULL(2) || numeric_is_inf(PG_GETARG_NUMERIC(2)))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("a soft limit is a share of an amount, and there is none"),
				errhint("Give an amount, or leave out \"soft\"."));
}

/* What a session may use and its tenant may not is never reached: allowed, since either may change, but said */
static void
tell_larger(const char *tenant, MwUnit unit, const char *per, Datum amount)
{
	static MwStmt stmt = {
		"SELECT b.amount::text FROM mw.budget AS b WHERE b.tenant OPERATOR(pg_catalog.=) $1 AND b.session IS NULL"
		" AND b.unit OPERATOR(pg_catalog.=) $2 AND b.per OPERATOR(pg_catalog.=) $3 AND b.amount OPERATOR(pg_catalog.<) $4",
		4, {TEXTOID, TEXTOID, TEXTOID, NUMERICOID}
	};
	Datum		values[4] = {CStringGetTextDatum(tenant), CStringGetTextDatum(mw_unit_names[unit]), CStringGetTextDatum(per), amount};

	if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) > 0)
		ereport(NOTICE,
				errmsg("the budget of the session is larger than that of its tenant"),
				errdetail("Both hold: the tenant's sessions together end at %s.",
						  SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1)));
}

PG_FUNCTION_INFO_V1(mw_set_budget);

/* (tenant, unit, amount, session, per, soft) */
Datum
mw_set_budget(PG_FUNCTION_ARGS)
{
	static MwStmt put = {
		"INSERT INTO mw.budget (tenant, session, unit, per, amount, soft) VALUES ($1, $2, $3, $4, $5, $6)"
		" ON CONFLICT (tenant, scope, unit, per) DO UPDATE SET amount = excluded.amount, soft = excluded.soft",
		6, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, NUMERICOID, NUMERICOID}
	};
	static MwStmt take = {
		"DELETE FROM mw.budget AS b WHERE b.tenant OPERATOR(pg_catalog.=) $1"
		" AND b.session IS NOT DISTINCT FROM $2"
		" AND b.unit OPERATOR(pg_catalog.=) $3 AND b.per OPERATOR(pg_catalog.=) $4",
		4, {TEXTOID, TEXTOID, TEXTOID, TEXTOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	char	   *unit_name = mw_arg_text(fcinfo, 1, "unit");
	char	   *per = mw_arg_text(fcinfo, 4, "per");
	char	   *session = PG_ARGISNULL(3) ? NULL : mw_arg_text(fcinfo, 3, "session");
	int			unit = index_of(unit_name, mw_unit_names, MW_NUNITS);
	Datum		values[6];
	char		nulls[7] = "      ";

	if (unit < 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("unit \"%s\" of a budget does not exist", unit_name),
				errhint("Allowed are: %s.", one_of(mw_unit_names, MW_NUNITS)));
	if (index_of(per, mw_window_names, MW_NWINDOWS) < 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("period \"%s\" of a budget does not exist", per),
				errhint("Allowed are: %s.", one_of(mw_window_names, MW_NWINDOWS)));
	if (session && session[0] == '\0')
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the name of a session must not be empty"),
				errhint("NULL is the tenant as a whole, '*' each session of it."));
	if (!PG_ARGISNULL(2))
		check_amount(PG_GETARG_DATUM(2), unit);
	if (!PG_ARGISNULL(5))
		check_soft(PG_GETARG_DATUM(5), fcinfo);

	SPI_connect();
	mw_admin_tenant(tenant, false);
	values[0] = CStringGetTextDatum(tenant);
	values[1] = session ? CStringGetTextDatum(session) : (Datum) 0;
	nulls[1] = session ? ' ' : 'n';
	values[2] = CStringGetTextDatum(unit_name);
	values[3] = CStringGetTextDatum(per);
	if (PG_ARGISNULL(2))
		mw_spi_write(&take, MW_AS_OWNER, values, nulls);
	else
	{
		values[4] = PG_GETARG_DATUM(2);
		values[5] = PG_ARGISNULL(5) ? (Datum) 0 : PG_GETARG_DATUM(5);
		nulls[5] = PG_ARGISNULL(5) ? 'n' : ' ';
		mw_spi_write(&put, MW_AS_OWNER, values, nulls);
		if (session && !numeric_is_inf(PG_GETARG_NUMERIC(2)))
			tell_larger(tenant, unit, per, values[4]);
	}
	SPI_finish();
	PG_RETURN_VOID();
}

/* ---------- windows, for views ---------- */

static MwPeriod
window_arg(FunctionCallInfo fcinfo)
{
	char	   *per = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int			w = index_of(per, mw_window_names, MW_NWINDOWS);

	if (w < 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("period \"%s\" of a budget does not exist", per),
				errhint("Allowed are: %s.", one_of(mw_window_names, MW_NWINDOWS)));
	return w;
}

PG_FUNCTION_INFO_V1(mw_window_start_sql);
Datum
mw_window_start_sql(PG_FUNCTION_ARGS)
{
	MwPeriod	w = window_arg(fcinfo);
	MwWhen		when;

	if (w == MW_FOREVER)
		PG_RETURN_TIMESTAMPTZ(DT_NOBEGIN);
	mw_windows_at(text_to_cstring(PG_GETARG_TEXT_PP(1)), PG_GETARG_TIMESTAMPTZ(2), &when);
	PG_RETURN_TIMESTAMPTZ(when.start[w]);
}

PG_FUNCTION_INFO_V1(mw_window_end_sql);
Datum
mw_window_end_sql(PG_FUNCTION_ARGS)
{
	MwPeriod	w = window_arg(fcinfo);

	if (w == MW_FOREVER)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(mw_window_end(w, text_to_cstring(PG_GETARG_TEXT_PP(1)), PG_GETARG_TIMESTAMPTZ(2)));
}

PG_FUNCTION_INFO_V1(mw_budget_now);
Datum
mw_budget_now(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(mw_calendar_now());
}
