/*
 * reviewers.c - who decides interrupts of a tenant: mw.reviewer.
 *
 * A reviewer needs nothing but that grant, of a tenant or of some tools of it.
 * It is no right to act for the tenant: a reviewer sees the interrupts of these
 * tools and nothing else.  Rows are read as the owner, since they are asked for
 * by the row policy of mw.interrupt, and kept per process.  What narrows mw.may_act narrows this, too:
 * a running call to its own tenant, the setting mw.tenant to that one.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "policy/admin.h"
#include "policy/policy.h"
#include "policy/reviewers.h"
#include "policy/watch.h"
#include "util/spi.h"

/* Either of two roles has the other's membership: one person may stand behind both */
static bool
same_person(Oid role, Oid other)
{
	return role == other || is_member_of_role_nosuper(role, other) || is_member_of_role_nosuper(other, role);
}

/*
 * Who calls a function that another role owns (SECURITY DEFINER) is still who
 * calls, and who was logged in as a role that has the other's rights is still
 * that person after SET ROLE.  The login of a pool has rights of none of its
 * roles by itself (NOINHERIT), so each of them is a person of its own.
 */
static bool
stands_behind(Oid role)
{
	Oid			login = GetSessionUserId();

	return same_person(GetUserId(), role) || same_person(GetOuterUserId(), role) ||
		(!superuser_arg(login) && has_privs_of_role(login, role));
}

bool
mw_is_own(Oid role)
{
	/* an inbox asks for each of its rows, and mostly about the same role; to look through memberships costs more than all else of it */
	static struct
	{
		Oid			role,
					user,
					outer,
					login;
		uint64		generation;
		bool		own;
	}			last;

	if (!OidIsValid(role))
		return false;
	mw_watch_start();
	if (last.role != role || last.user != GetUserId() || last.outer != GetOuterUserId() || last.login != GetSessionUserId() ||
		last.generation != mw_watch_rights())
	{
		last.generation = mw_watch_rights();
		last.role = InvalidOid;
		last.own = stands_behind(role);
		last.user = GetUserId();
		last.outer = GetOuterUserId();
		last.login = GetSessionUserId();
		last.role = role;
	}
	return last.own;
}

Oid
mw_outer_role(void)
{
	return GetOuterUserId() != GetUserId() ? GetOuterUserId() : InvalidOid;
}

/* ---------- the rows of a tenant, kept ---------- */

/* Tenants whose rows are kept; a caller can invent names, so there is an end */
#define MAX_KEPT 1024

typedef struct Reviewer
{
	Oid			grantee;
	char	  **tools;			/* NULL: all */
	int			ntools;
	bool		own;
	bool		reveal;
} Reviewer;

typedef struct Kept
{
	char		tenant[MW_TENANT_MAX + 1];	/* the key */
	Reviewer   *rows;
	int			n;
} Kept;

static HTAB *kept;
static MemoryContext kept_cxt;
static uint64 kept_generation;	/* mw_watch_rights() that it holds for */

static bool
covers(const Reviewer *r, const char *tool)
{
	if (r->tools == NULL || tool == NULL)
		return true;
	for (int i = 0; i < r->ntools; i++)
		if (strcmp(r->tools[i], tool) == 0)
			return true;
	return false;
}

static void
read_tools(Reviewer *r, Datum array)
{
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls, &n);
	r->tools = palloc(sizeof(char *) * Max(n, 1));
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			r->tools[r->ntools++] = TextDatumGetCString(elems[i]);
}

/* From the table, in the current memory context */
static Kept
read_rows(const char *tenant)
{
	static MwStmt stmt = {
		"SELECT r.grantee::pg_catalog.oid, r.tools, r.may_decide_own, r.reveal FROM mw.reviewer AS r WHERE r.tenant OPERATOR(pg_catalog.=) $1",
		1, {TEXTOID}
	};
	MemoryContext cxt = CurrentMemoryContext;
	Datum		values[1] = {CStringGetTextDatum(tenant)};
	Kept		k = {{0}};

	strlcpy(k.tenant, tenant, sizeof(k.tenant));
	SPI_connect();
	k.n = (int) mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 0);
	k.rows = MemoryContextAllocZero(cxt, sizeof(Reviewer) * Max(k.n, 1));
	for (int i = 0; i < k.n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MemoryContext old = MemoryContextSwitchTo(cxt);
		bool		isnull;
		Datum		tools;

		k.rows[i].grantee = DatumGetObjectId(SPI_getbinval(row, desc, 1, &isnull));
		tools = SPI_getbinval(row, desc, 2, &isnull);
		if (!isnull)
			read_tools(&k.rows[i], tools);
		k.rows[i].own = DatumGetBool(SPI_getbinval(row, desc, 3, &isnull));
		k.rows[i].reveal = DatumGetBool(SPI_getbinval(row, desc, 4, &isnull));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return k;
}

/*
 * An inbox asks for each of its rows, so the grants are read once a process and
 * again when they changed.
 */
static Kept
rows_of(const char *tenant)
{
	uint64		generation = mw_watch_rights();
	Kept	   *k;
	Kept		fresh;
	MemoryContext old;

	if (kept != NULL && (kept_generation != generation || hash_get_num_entries(kept) >= MAX_KEPT))
	{
		kept = NULL;
		MemoryContextReset(kept_cxt);
	}
	k = kept != NULL ? hash_search(kept, tenant, HASH_FIND, NULL) : NULL;
	if (k != NULL)
		return *k;

	mw_watch_start();
	fresh = read_rows(tenant);
	/* what was read may be old already: keep it only if nothing changed while reading */
	if (mw_watch_rights() != generation)
		return fresh;
	if (kept_cxt == NULL)
		kept_cxt = AllocSetContextCreate(TopMemoryContext, "mw reviewers", ALLOCSET_DEFAULT_SIZES);
	if (kept == NULL)
	{
		HASHCTL		ctl = {.keysize = MW_TENANT_MAX + 1, .entrysize = sizeof(Kept), .hcxt = kept_cxt};

		kept = hash_create("mw reviewers", 16, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
		kept_generation = generation;
	}
	old = MemoryContextSwitchTo(kept_cxt);
	fresh.rows = memcpy(palloc(sizeof(Reviewer) * Max(fresh.n, 1)), fresh.rows, sizeof(Reviewer) * fresh.n);
	for (int i = 0; i < fresh.n; i++)
	{
		Reviewer   *r = &fresh.rows[i];
		char	  **tools = r->tools;

		if (tools == NULL)
			continue;
		r->tools = palloc(sizeof(char *) * Max(r->ntools, 1));
		for (int t = 0; t < r->ntools; t++)
			r->tools[t] = pstrdup(tools[t]);
	}
	MemoryContextSwitchTo(old);
	k = hash_search(kept, tenant, HASH_ENTER, NULL);
	k->rows = fresh.rows;
	k->n = fresh.n;
	return *k;
}

/* ---------- may ---------- */

MwReviewRight
mw_review_right(const char *tenant, const char *tool)
{
	MwReviewRight right = {0};
	Kept		k;

	if (strlen(tenant) > MW_TENANT_MAX || !mw_not_narrowed(tenant))
		return right;
	k = rows_of(tenant);
	for (int i = 0; i < k.n; i++)
	{
		if (!covers(&k.rows[i], tool))
			continue;
		right.named = true;
		if (!has_privs_of_role(GetUserId(), k.rows[i].grantee))
			continue;
		right.may = true;
		right.own |= k.rows[i].own;
		right.reveal |= k.rows[i].reveal;
	}
	return right;
}

bool
mw_may_review(const char *tenant, const char *tool)
{
	return mw_review_right(tenant, tool).may;
}

bool
mw_could_decide(Oid role, const char *tenant, const char *tool, bool agents_own)
{
	MwRoleSave	save;
	MwReviewRight right;
	bool		could;

	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		return false;
	mw_become_role(role, &save);
	right = mw_review_right(tenant, tool);
	could = right.may || (!right.named && agents_own && mw_may_act(tenant));
	mw_become_caller(&save);
	return could;
}

/* ---------- SQL ---------- */

/* (tenant, tool): may the current role decide interrupts of this tool?  For the row policy. */
PG_FUNCTION_INFO_V1(mw_may_review_sql);

Datum
mw_may_review_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(mw_may_review(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1))));
}

/* (tenant, grantee, tools, may_decide_own, reveal) */
PG_FUNCTION_INFO_V1(mw_grant_reviewer);

Datum
mw_grant_reviewer(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"INSERT INTO mw.reviewer (tenant, grantee, tools, may_decide_own, reveal) VALUES ($1, $2, $3, $4, $5)"
		" ON CONFLICT (tenant, grantee) DO UPDATE SET tools = excluded.tools, may_decide_own = excluded.may_decide_own, reveal = excluded.reveal",
		5, {TEXTOID, REGROLEOID, TEXTARRAYOID, BOOLOID, BOOLOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Datum		values[5];
	char		nulls[5] = {' ', ' ', ' ', ' ', ' '};

	if (PG_ARGISNULL(1) || PG_ARGISNULL(3) || PG_ARGISNULL(4))
		ereport(ERROR, (errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("only the argument \"tools\" may be null")));
	values[0] = CStringGetTextDatum(tenant);
	values[1] = PG_GETARG_DATUM(1);
	if (PG_ARGISNULL(2))
		nulls[2] = 'n';
	else
		values[2] = PG_GETARG_DATUM(2);
	values[3] = PG_GETARG_DATUM(3);
	values[4] = PG_GETARG_DATUM(4);
	SPI_connect();
	mw_admin_tenant(tenant, false);
	(void) mw_spi_write(&stmt, MW_AS_OWNER, values, nulls);
	SPI_finish();
	PG_RETURN_VOID();
}

/* (tenant, grantee) */
PG_FUNCTION_INFO_V1(mw_revoke_reviewer);

Datum
mw_revoke_reviewer(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"DELETE FROM mw.reviewer AS r WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.grantee OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, REGROLEOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	Datum		values[2] = {CStringGetTextDatum(tenant)};

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("argument \"grantee\" must not be null")));
	values[1] = PG_GETARG_DATUM(1);
	SPI_connect();
	if (mw_spi_write(&stmt, MW_AS_OWNER, values, NULL) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the role is no reviewer of tenant \"%s\"", tenant),
				 errhint("SELECT * FROM mw.reviewer;")));
	SPI_finish();
	PG_RETURN_VOID();
}
