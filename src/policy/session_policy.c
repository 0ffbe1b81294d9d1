/*
 * session_policy.c - which sessions of a tenant a role may see.
 *
 * Many applications have users who share a tenant and not their conversations.
 * A tenant's setting session_policy names a function(tenant, session) of the
 * application's that says whose a session is; it is part of the row policies of
 * all that belongs to sessions, and is asked by whatever a caller names a session
 * to: a run, a decision that is not a reviewer's, values behind placeholders.  It runs as
 * the role that asks, with pg_catalog alone as search_path; where it is gone
 * nothing is seen.
 */
#include "mw.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "policy/policy.h"
#include "policy/userfunc.h"

bool
mw_may_see(const char *tenant, const char *session)
{
	const MwPolicy *policy;
	Datum		args[2];
	Oid			type;
	bool		isnull;
	Datum		said;

	if (!mw_may_act(tenant))
		return false;
	policy = mw_policy_get(tenant);
	if (policy->session_policy == NULL)
		return true;
	args[0] = CStringGetTextDatum(tenant);
	args[1] = CStringGetTextDatum(session);
	said = mw_userfunc_call(policy->session_policy, "setting \"session_policy\"", 2, args, &type, &isnull);
	return !isnull && DatumGetBool(said);
}

void
mw_require_may_see(const char *tenant, const char *session)
{
	mw_require_may_act(tenant);
	if (!mw_may_see(tenant, session))
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_YOUR_TENANT),
				 errmsg("the role may not act for this session"),
				 errdetail("The tenant's session_policy does not let it."),
				 errhint("Name a session of your own.")));
}

PG_FUNCTION_INFO_V1(mw_may_see_sql);

/* (tenant, session) */
Datum
mw_may_see_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(mw_may_see(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1))));
}
