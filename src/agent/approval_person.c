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

#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "agent/approval.h"
#include "policy/reviewers.h"
#include "util/json.h"
#include "util/json_push.h"

void
mw_person_push_login(JsonbParseState **st)
{
	Oid			login = GetSessionUserId();
	JsonbValue	rights = {.type = jbvBool};

	if (login == GetUserId() || superuser_arg(login))
		return;
	rights.val.boolean = has_privs_of_role(login, GetUserId()) || has_privs_of_role(login, GetOuterUserId());
	push_member(st, "login", GetUserNameFromId(login, false));
	push_int(st, "login_oid", login);
	push_key(st, "login_rights");
	pushJsonbValue(st, WJB_VALUE, &rights);
}

/*
 * A role is known by its oid, which a renaming keeps; where that is gone, or may
 * be another cluster's, by its name as well, which a dump keeps.  The second one
 * is InvalidOid where the first one is certain.
 */
static void
roles_of(Jsonb *entry, const char *name_key, const char *oid_key, bool here, Oid roles[2])
{
	char	   *name = mw_json_get_text(entry, name_key);
	JsonbValue *v = mw_json_get(entry, oid_key);

	roles[0] = v != NULL && v->type == jbvNumeric ?
		(Oid) DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric))) : InvalidOid;
	roles[1] = name == NULL || (here && SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(roles[0]))) ? InvalidOid : get_role_oid(name, true);
}

static bool
is_own_of(Jsonb *entry, const char *name_key, const char *oid_key, bool here)
{
	Oid			roles[2];

	roles_of(entry, name_key, oid_key, here, roles);
	return mw_is_own(roles[0]) || mw_is_own(roles[1]);
}

static bool
is_login(Oid role, bool had_rights)
{
	return OidIsValid(role) &&
		(role == GetUserId() || role == GetOuterUserId() ||
		 (role == GetSessionUserId() && !superuser_arg(role) && (had_rights || has_privs_of_role(role, GetUserId()))));
}

bool
mw_person_logged_in(Jsonb *entry, bool here)
{
	JsonbValue *rights = mw_json_get(entry, "login_rights");
	bool		had = rights != NULL && rights->type == jbvBool && rights->val.boolean;
	Oid			roles[2];

	roles_of(entry, "login", "login_oid", here, roles);
	return is_login(roles[0], had) || is_login(roles[1], had);
}

bool
mw_person_decided(Jsonb *entry, bool here)
{
	return is_own_of(entry, "by", "by_oid", here) || is_own_of(entry, "through", "through_oid", here) || mw_person_logged_in(entry, here);
}
