/*
 * rights.c - who may act for which tenant.
 *
 * mw.may_act(tenant) is the one policy of every table with a tenant, and the
 * check before every write that C makes as the owner.  A role may act for a
 * tenant that exists if it has the privileges (has_privs_of_role: inherited
 * membership counts, NOINHERIT does not) of a role that was granted the tenant
 * or '*'.  Two things narrow that: a running call holds it to the call's own
 * tenant, and the setting mw.tenant, which a role can change, to that one.
 *
 * Answers are kept per process, role and tenant.  They are dropped when
 * mw.tenant or mw.tenant_grant change (statement triggers send relation cache
 * invalidations, which reach every process at the writer's commit and this one
 * at once) and when roles or their memberships do.  The tables are read as the
 * owner, a superuser, whom row-level security does not filter; otherwise this
 * function would call itself.
 *
 * The stack of running calls is C, no setting: nothing that SQL can do inside a
 * call widens it.  Abort of the (sub)transaction that entered a call unwinds it.
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "gateway/script.h"
#include "guc.h"
#include "policy/policy.h"
#include "policy/watch.h"
#include "util/row.h"

/* Calls inside calls (a tool that asks a model): deeper is a loop */
#define MAX_CALL_DEPTH 32

/* Answers kept; a caller can invent names, so there is an end */
#define MAX_ANSWERS 4096

typedef struct RunningCall
{
	char		tenant[MW_TENANT_MAX + 1];
	int			nest_level;		/* of the (sub)transaction that entered it */
} RunningCall;

typedef struct AnswerKey
{
	Oid			role;
	char		tenant[MW_TENANT_MAX + 1];
} AnswerKey;

typedef struct Answer
{
	AnswerKey	key;
	bool		may;
} Answer;

static RunningCall calls[MAX_CALL_DEPTH];
static int	ncalls;

static HTAB *answers;
static uint64 answers_generation;	/* mw_watch_rights() that they hold for */
static Answer newest[8];		/* copies of each role's newest answer, by the remainder of its OID: a scan asks the same again for each row */

/* ---------- the stack of calls ---------- */

void
mw_call_enter(const char *tenant)
{
	if (ncalls == MAX_CALL_DEPTH)
		ereport(ERROR,
				errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				errmsg("model calls are nested too deeply"),
				errdetail("%d calls are running inside each other.", ncalls),
				errhint("Look for a function that a call runs and that makes a call itself, without an end."));
	Assert(strlen(tenant) <= MW_TENANT_MAX);
	strlcpy(calls[ncalls].tenant, tenant, sizeof(calls[ncalls].tenant));
	calls[ncalls].nest_level = GetCurrentTransactionNestLevel();
	ncalls++;
}

void
mw_call_leave(void)
{
	Assert(ncalls > 0);
	ncalls--;
}

int
mw_call_depth(void)
{
	return ncalls;
}

static void
transaction_ended(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			ncalls = 0;
			break;
		default:
			break;
	}
}

static void
subtransaction_ended(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (ncalls > 0 && calls[ncalls - 1].nest_level >= level)
			ncalls--;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = ncalls - 1; i >= 0 && calls[i].nest_level >= level; i--)
			calls[i].nest_level = level - 1;
	}
}

/* Whether a call goes on when the current subtransaction has ended, being of an outer one */
static bool
call_goes_on(void)
{
	return ncalls > 0 && calls[0].nest_level < GetCurrentTransactionNestLevel();
}

void
mw_rights_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
	mw_script_inside = call_goes_on;
}

/* ---------- may ---------- */

/* Whether a role has the privileges of one that was granted this tenant, or '*' */
static bool
is_granted(Oid role, const char *tenant)
{
	static MwRowTable table = {.name = "tenant_grant",.nkeys = 1,.equal = {F_TEXTEQ},.as = MW_AS_OWNER};
	Datum		key = CStringGetTextDatum(tenant);
	MwRow		row;
	bool		may = false;
	bool		isnull;

	for (bool more = mw_row_open(&row, &table, &key); more && !may; more = mw_row_next(&row))
		may = has_privs_of_role(role, DatumGetObjectId(mw_row_named(&row, "grantee", &isnull)));
	mw_row_close(&row);
	return may;
}

/* Ask the tables: does the tenant exist, and which roles hold it? */
static bool
read_may(Oid role, const char *tenant)
{
	Datum		key = CStringGetTextDatum(tenant);
	MwRow		row;
	bool		exists;

	exists = mw_row_open(&row, &mw_table_tenant, &key);
	mw_row_close(&row);
	return exists && (superuser_arg(role) || is_granted(role, tenant) || is_granted(role, "*"));
}

/* The grants alone, without what narrows them */
static bool
role_may(Oid role, const char *tenant)
{
	uint64		generation = mw_watch_rights();
	Answer	   *last = &newest[role % lengthof(newest)];
	AnswerKey	key;
	Answer	   *a;
	bool		may;

	if (answers_generation == generation && last->key.role == role && strcmp(last->key.tenant, tenant) == 0)
		return last->may;

	if (answers && (answers_generation != generation || hash_get_num_entries(answers) >= MAX_ANSWERS))
	{
		hash_destroy(answers);
		answers = NULL;
		memset(newest, 0, sizeof(newest));	/* no role has the OID 0 */
	}
	if (answers == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(AnswerKey), .entrysize = sizeof(Answer)};

		answers = hash_create("mw rights", 64, &ctl, HASH_ELEM | HASH_BLOBS);
		answers_generation = generation;
	}

	MemSet(&key, 0, sizeof(key));
	key.role = role;
	strlcpy(key.tenant, tenant, sizeof(key.tenant));
	a = hash_search(answers, &key, HASH_FIND, NULL);
	if (a)
	{
		*last = *a;
		return a->may;
	}

	mw_watch_start();
	may = read_may(role, tenant);

	/* what was read may be old already: keep it only if nothing changed while reading */
	if (answers && answers_generation == generation && mw_watch_rights() == generation)
	{
		a = hash_search(answers, &key, HASH_ENTER, NULL);
		a->may = may;
		*last = *a;
	}
	return may;
}

bool
mw_not_narrowed(const char *tenant)
{
	if (ncalls > 0 && strcmp(calls[ncalls - 1].tenant, tenant) != 0)
		return false;
	return mw_guc_tenant == NULL || mw_guc_tenant[0] == '\0' || strcmp(mw_guc_tenant, tenant) == 0;
}

bool
mw_may_act(const char *tenant)
{
	size_t		len = strlen(tenant);

	if (len == 0 || len > MW_TENANT_MAX || strcmp(tenant, "*") == 0)
		return false;
	return mw_not_narrowed(tenant) && role_may(GetUserId(), tenant);
}

/* A name for a message: a caller's text, so cut where it is long */
static char *
shown(const char *name)
{
	int			len = strlen(name);

	if (len <= 64)
		return pstrdup(name);
	return psprintf("%.*s...", pg_mbcliplen(name, len, 61), name);
}

/*
 * One message and one hint for a tenant that does not exist and for one that is
 * somebody else's: nobody learns which customers there are.
 */
void
mw_require_may_act(const char *tenant)
{
	AcceptInvalidationMessages();

	if (mw_may_act(tenant))
		return;

	if (mw_guc_tenant && mw_guc_tenant[0] != '\0' && strcmp(mw_guc_tenant, tenant) != 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_NOT_YOUR_TENANT),
				errmsg("mw.tenant narrows this session to another tenant than \"%s\"", shown(tenant)),
				errdetail("The setting mw.tenant is \"%s\".", shown(mw_guc_tenant)),
				errhint("RESET mw.tenant; or set it to the tenant of the call."));

	if (ncalls > 0 && strcmp(calls[ncalls - 1].tenant, tenant) != 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_NOT_YOUR_TENANT),
				errmsg("a running call may not act for another tenant than its own"),
				errhint("Call for tenant \"%s\" outside of it.", shown(tenant)));

	ereport(ERROR,
			errcode(ERRCODE_MW_NOT_YOUR_TENANT),
			errmsg("role \"%s\" may not act for tenant \"%s\"", GetUserNameFromId(GetUserId(), false), shown(tenant)),
			errdetail("The tenant does not exist, or it was not granted to a role whose privileges this one has."),
			errhint("An administrator types: SELECT mw_create_tenant(%s); SELECT mw_grant_tenant(%s, %s);",
					quote_literal_cstr(shown(tenant)), quote_literal_cstr(shown(tenant)),
					quote_literal_cstr(quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

/* ---------- SQL ---------- */

PG_FUNCTION_INFO_V1(mw_may_act_sql);
Datum
mw_may_act_sql(PG_FUNCTION_ARGS)
{
	text	   *tenant = PG_GETARG_TEXT_PP(0);
	int			len = VARSIZE_ANY_EXHDR(tenant);
	char		name[MW_TENANT_MAX + 1];

	if (len > MW_TENANT_MAX)
		PG_RETURN_BOOL(false);
	memcpy(name, VARDATA_ANY(tenant), len);
	name[len] = '\0';
	PG_RETURN_BOOL(mw_may_act(name));
}

/*
 * Statement trigger on every table that processes keep copies of.  The message
 * travels with the writer's commit, PREPARE TRANSACTION included, and is dropped
 * with its rollback; changes by hand send it too.
 */
PG_FUNCTION_INFO_V1(mw_invalidate);
Datum
mw_invalidate(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("mw.invalidate can only be called as a trigger"));
	CacheInvalidateRelcacheByRelid(RelationGetRelid(data->tg_relation));
	return PointerGetDatum(NULL);
}
