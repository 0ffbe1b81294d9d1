/*
 * approval_person.c - is who acts now the person that has acted before?
 *
 * A decision, and the log's row of who asked, keep the role that acted, the one
 * that called its function, and the login.  A login that has rights of the roles
 * it acts by is one person behind all of them, also when a membership that said
 * so is gone by the time somebody asks.  That of a pool has rights of none
 * (NOINHERIT): its roles are persons.  A superuser's login may be anybody and is
 * not kept.
 */
#include "mw.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "agent/approval.h"
#include "policy/policy.h"
#include "policy/reviewers.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/spi.h"

void
mw_person_push_login(JsonbParseState **st)
{
	Oid			login = GetSessionUserId();
	JsonbValue	rights = {.type = jbvBool};

	push_int(st, "cluster", (int64) GetSystemIdentifier());
	if (login == GetUserId() || superuser_arg(login))
		return;
	rights.val.boolean = has_privs_of_role(login, GetUserId()) || has_privs_of_role(login, GetOuterUserId());
	push_member(st, "login", GetUserNameFromId(login, false));
	push_int(st, "login_oid", login);
	push_key(st, "login_rights");
	pushJsonbValue(st, WJB_VALUE, &rights);
}

/* 0 where there is none */
static int64
int_of(Jsonb *entry, const char *key)
{
	JsonbValue *v = mw_json_get(entry, key);

	return v != NULL && v->type == jbvNumeric ? DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric))) : 0;
}

/*
 * A role is known by its oid, which a renaming keeps; where that is gone, or may
 * be another cluster's, by its name as well, which a dump keeps.  The second one
 * is InvalidOid where the first one is certain.
 */
static void
roles_of(Jsonb *entry, const char *name_key, const char *oid_key, Oid roles[2])
{
	char	   *name = mw_json_get_text(entry, name_key);
	int64		oid = int_of(entry, oid_key);
	bool		here = int_of(entry, "cluster") == (int64) GetSystemIdentifier();

	roles[0] = (Oid) oid;
	roles[1] = name == NULL || (here && SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(roles[0]))) ? InvalidOid : get_role_oid(name, true);
}

static bool
is_own_of(Jsonb *entry, const char *name_key, const char *oid_key)
{
	Oid			roles[2];

	roles_of(entry, name_key, oid_key, roles);
	return mw_is_own(roles[0]) || mw_is_own(roles[1]);
}

static bool
is_login(Oid role, bool had_rights)
{
	return OidIsValid(role) &&
		(role == GetUserId() || role == GetOuterUserId() ||
		 (role == GetSessionUserId() && !superuser_arg(role) && (had_rights || has_privs_of_role(role, GetUserId()))));
}

static bool
logged_in(Jsonb *entry)
{
	JsonbValue *rights = mw_json_get(entry, "login_rights");
	bool		had = rights != NULL && rights->type == jbvBool && rights->val.boolean;
	Oid			roles[2];

	roles_of(entry, "login", "login_oid", roles);
	return is_login(roles[0], had) || is_login(roles[1], had);
}

/* Roles of interrupts are columns, which a dump keeps by name: only where one is gone there may be another like it */
static bool
is_again(Oid role, const char *name)
{
	return name != NULL && OidIsValid(role) && !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)) && mw_is_own(get_role_oid(name, true));
}

Oid
mw_person_asked(const char *tenant, const MwGate *gate)
{
	static MwStmt stmt = {
		"SELECT l.role, l.detail FROM mw.approval_log AS l WHERE l.tenant OPERATOR(pg_catalog.=) $1 AND l.interrupt_id OPERATOR(pg_catalog.=) $2"
		" AND l.place OPERATOR(pg_catalog.=) $3 AND l.event OPERATOR(pg_catalog.=) 'asked'",
		3, {TEXTOID, TEXTOID, INT4OID}
	};
	Datum		values[3] = {CStringGetTextDatum(tenant), CStringGetTextDatum(gate->interrupt_id), Int32GetDatum(gate->place)};
	Oid			own = InvalidOid;

	if (mw_is_own(gate->requested_by))
		return gate->requested_by;
	if (mw_is_own(gate->requested_through))
		return gate->requested_through;
	SPI_connect();
	if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) > 0)
	{
		HeapTuple	row = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		Jsonb	   *detail = DatumGetJsonbP(SPI_getbinval(row, desc, 2, &isnull));

		if (is_again(gate->requested_by, SPI_getvalue(row, desc, 1)) || logged_in(detail))
			own = gate->requested_by;
		else if (is_again(gate->requested_through, mw_json_get_text(detail, "through")))
			own = gate->requested_through;
	}
	SPI_finish();
	return own;
}

const char *
mw_person_approved(Jsonb *decisions)
{
	JsonbIterator *it = JsonbIteratorInit(&decisions->root);
	JsonbIteratorToken tok;
	JsonbValue	item;

	while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		Jsonb	   *entry = tok == WJB_ELEM ? JsonbValueToJsonb(&item) : NULL;

		if (entry != NULL && (is_own_of(entry, "by", "by_oid") || is_own_of(entry, "through", "through_oid") || logged_in(entry)))
			return mw_json_get_text(entry, "by");
	}
	return NULL;
}

bool
mw_waits_for_me(const char *tenant, const MwGate *gate)
{
	MwReviewRight right = mw_review_right(tenant, gate->call.name);
	bool		anybodys = !right.named && gate->middleware != NULL;

	return (anybodys ? mw_may_act(tenant) : right.may) && mw_person_approved(gate->decisions) == NULL &&
		(anybodys || right.own || !OidIsValid(mw_person_asked(tenant, gate)));
}

/* (tenant, interrupt_id, place, tool, agents_own, requested_by, requested_through, decisions): the same for mw.inbox */
PG_FUNCTION_INFO_V1(mw_may_decide_sql);

Datum
mw_may_decide_sql(PG_FUNCTION_ARGS)
{
	MwGate		gate = {
		.interrupt_id = text_to_cstring(PG_GETARG_TEXT_PP(1)), .place = PG_GETARG_INT32(2),
		.middleware = PG_GETARG_BOOL(4) ? "" : NULL, .call.name = text_to_cstring(PG_GETARG_TEXT_PP(3)),
		.requested_by = PG_GETARG_OID(5), .requested_through = PG_GETARG_OID(6), .decisions = PG_GETARG_JSONB_P(7)
	};

	PG_RETURN_BOOL(mw_waits_for_me(text_to_cstring(PG_GETARG_TEXT_PP(0)), &gate));
}
