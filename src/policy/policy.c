/*
 * policy.c - the policies of tenants, as this process keeps them.
 *
 * A policy is read once, as the owner and with the latest snapshot, into a
 * memory context of its own.  It is kept with the generation (watch.h) that it
 * was read at and read again when that has moved on.  Callers hold plain
 * pointers: a policy that is outdated or crowded out is retired, not freed, and
 * what is retired is freed when the next one is asked for while no call runs.
 * So a call keeps one policy from beginning to end, and a call inside it may
 * already have the next.
 *
 * Its recognizers and guards are rules.c's.
 *
 * All of it belongs to the process; no lock.
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "policy/analyzer.h"
#include "policy/policy.h"
#include "policy/redaction.h"
#include "policy/rules.h"
#include "policy/settings.h"
#include "policy/watch.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/row.h"

/* Policies kept: some 8 kB each.  A process that serves more tenants in turn reads again, 0.2 ms each. */
#define MAX_POLICIES 1024
#define MAX_MODELS 1024

/* The policy of nobody has the empty name, which no tenant can have */
typedef struct PolicySlot
{
	char		tenant[MW_TENANT_MAX + 1];
	uint64		generation;
	MwPolicy   *policy;
} PolicySlot;

typedef struct ModelSlot
{
	char		model[MW_MODEL_MAX + 1];
	MwModel		row;
	bool		known;			/* the catalogue has it */
} ModelSlot;

static HTAB *policies;
static List *retired;			/* of MwPolicy */
static PolicySlot *newest;		/* asked for last: nearly always the next one too */

static HTAB *models;			/* answers are copied out of it: it goes whole when something changed */
static uint64 models_generation;

static uint8 database_key[32];
static uint64 key_generation;	/* 0: not read */

void
mw_policy_init(void)
{
	mw_watch_init();
	mw_rights_init();
	mw_channel_init();
}

/* ---------- reading rows ---------- */

MwRowTable	mw_table_tenant = {.name = "tenant",.nkeys = 1,.equal = {F_TEXTEQ},.as = MW_AS_OWNER};

/*
 * Was this row of mw.tenant there before this transaction?  One that it only
 * altered was; its time of creation tells.  Whoever commits or rolls back gets
 * the invalidation that the row's trigger sent, so that the answer is asked anew.
 */
static bool
was_there(TransactionId xmin, TimestampTz created_at)
{
	return !TransactionIdIsCurrentTransactionId(xmin) || created_at != GetCurrentTransactionStartTimestamp();
}

/* What settings say lies where they were read; what a policy keeps is copied into its context. */
static char *
keep(MwPolicy *p, char *s)
{
	return s ? MemoryContextStrdup(p->cxt, s) : NULL;
}

static int64
read_epoch(const char *tenant)
{
	static MwRowTable table = {.name = "purge",.nkeys = 1,.equal = {F_TEXTEQ},.as = MW_AS_OWNER};
	Datum		key = CStringGetTextDatum(tenant);
	MwRow		row;
	int64		epoch = 0;
	bool		isnull;

	if (mw_row_open(&row, &table, &key))
		epoch = DatumGetInt64(mw_row_named(&row, "epoch", &isnull));
	mw_row_close(&row);
	return epoch;
}

static void
read_settings(MwPolicy *p)
{
	Datum		key = CStringGetTextDatum(p->tenant);
	MemoryContext old;
	ListCell   *lc;
	MwRow		row;
	bool		isnull;

	if (!mw_row_open(&row, &mw_table_tenant, &key))
	{
		/* dropped since may_act said that it is there: the defaults stand */
		mw_row_close(&row);
		return;
	}
	p->committed = was_there(mw_row_xmin(&row), DatumGetTimestampTz(mw_row_named(&row, "created_at", &isnull)));
	mw_settings_tenant(DatumGetJsonbPCopy(mw_row_named(&row, "settings", &isnull)), p);
	mw_row_close(&row);

	p->model = keep(p, p->model);
	p->timezone = keep(p, p->timezone);
	p->session_policy = keep(p, p->session_policy);
	p->budget_end = keep(p, p->budget_end);
	p->guardrail_end = keep(p, p->guardrail_end);
	if (p->fallback)
	{
		Jsonb	   *kept = MemoryContextAlloc(p->cxt, VARSIZE(p->fallback));

		p->fallback = memcpy(kept, p->fallback, VARSIZE(p->fallback));
	}
	p->guard_schema = keep(p, p->guard_schema);
	old = MemoryContextSwitchTo(p->cxt);
	p->guard_hosts = list_copy(p->guard_hosts);
	MemoryContextSwitchTo(old);
	foreach(lc, p->guard_hosts)
		lfirst(lc) = keep(p, lfirst(lc));
	p->cache_epoch = read_epoch(p->tenant);
}

/* What is derived from the database's key once a policy, since each call needs it */
static MwKey
derived_key(const char *purpose, Oid db, const char *tenant)
{
	MwHash		h;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, purpose);
	mw_hash_part(&h, &db, sizeof(db));
	mw_hash_text(&h, tenant);
	return mw_hash_end(&h);
}

/* Counters of a database and of its copy stand side by side */
MwKey
mw_scope_key(const char *tenant)
{
	return derived_key("scope", MyDatabaseId, tenant);
}

/* A session's is of its tenant's, which is keyed: so nobody else can make it either */
MwKey
mw_session_key(const MwKey *scope, const char *session)
{
	return mw_hash_short(scope, session, strlen(session));
}

static MwPolicy *
read_policy(const char *tenant)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "mw policy's rows", ALLOCSET_DEFAULT_SIZES);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw policy", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	MwPolicy   *p = MemoryContextAllocZero(cxt, sizeof(MwPolicy));

	p->cxt = cxt;
	p->tenant = MemoryContextStrdup(cxt, tenant);
	mw_settings_tenant(DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"))), p);

	if (tenant[0] != '\0')
	{
		p->scope = mw_scope_key(tenant);
		/* ids go with a dump */
		p->tag_key = derived_key("request_id", InvalidOid, tenant);
		read_settings(p);
		mw_limits_read(p);
	}
	mw_rules_read(p);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);

	/* complete: an error before would have freed it with the caller's memory */
	MemoryContextSetParent(cxt, CacheMemoryContext);
	return p;
}

/* ---------- keeping ---------- */

static void
retire(PolicySlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(CacheMemoryContext);

	retired = lappend(retired, slot->policy);
	MemoryContextSwitchTo(old);
	slot->policy = NULL;
}

static void
free_retired(void)
{
	ListCell   *lc;

	foreach(lc, retired)
		MemoryContextDelete(((MwPolicy *) lfirst(lc))->cxt);
	list_free(retired);
	retired = NIL;
}

static const MwPolicy *
find(const char *tenant)
{
	PolicySlot *slot;
	MwPolicy   *policy;
	uint64		generation;
	bool		found;

	if (newest && newest->policy && newest->generation == mw_watch_policy() && strcmp(newest->tenant, tenant) == 0)
		return newest->policy;

	if (retired != NIL && mw_call_depth() == 0)
		free_retired();

	if (policies == NULL)
	{
		HASHCTL		ctl = {.keysize = MW_TENANT_MAX + 1, .entrysize = sizeof(PolicySlot)};

		policies = hash_create("mw policies", 64, &ctl, HASH_ELEM | HASH_STRINGS);
	}

	slot = hash_search(policies, tenant, HASH_FIND, NULL);
	if (slot && slot->policy && slot->generation == mw_watch_policy())
	{
		newest = slot;
		return slot->policy;
	}

	mw_watch_start();
	generation = mw_watch_policy();
	policy = read_policy(tenant);

	if (hash_get_num_entries(policies) >= MAX_POLICIES)
	{
		HASH_SEQ_STATUS seq;

		newest = NULL;
		hash_seq_init(&seq, policies);
		while ((slot = hash_seq_search(&seq)) != NULL)
		{
			if (slot->policy)
				retire(slot);
			hash_search(policies, slot->tenant, HASH_REMOVE, NULL);
		}
	}

	slot = hash_search(policies, tenant, HASH_ENTER, &found);
	if (found && slot->policy)
		retire(slot);
	slot->policy = policy;
	slot->generation = generation;
	newest = slot;
	return policy;
}

const MwPolicy *
mw_policy_get(const char *tenant)
{
	mw_require_may_act(tenant); /* takes in what others have committed, too */
	return find(tenant);
}

const MwPolicy *
mw_policy_default(void)
{
	AcceptInvalidationMessages();
	return find("");
}

/* ---------- the catalogue of models ---------- */

static const MwModel *
copy_of(const ModelSlot *slot)
{
	MwModel    *copy;

	if (!slot->known)
		return NULL;
	copy = palloc(sizeof(MwModel));
	*copy = slot->row;
	copy->model = pstrdup(slot->model);
	return copy;
}

/* In the current memory context */
const MwModel *
mw_policy_model(const char *model)
{
	static MwRowTable table = {.name = "model",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ},.as = MW_AS_OWNER};
	char		key[sizeof(((ModelSlot *) NULL)->model)];
	ModelSlot  *slot;
	MwModel		settings = {0};
	bool		known;
	bool		isnull;
	MwRow		row;
	uint64		generation;

	if (strlen(model) >= sizeof(key))
		return NULL;			/* mw_set_model refuses such a name */
	strlcpy(key, model, sizeof(key));

	if (models && (models_generation != mw_watch_policy() || hash_get_num_entries(models) >= MAX_MODELS))
	{
		hash_destroy(models);
		models = NULL;
	}
	slot = models ? hash_search(models, key, HASH_FIND, NULL) : NULL;
	if (slot)
		return copy_of(slot);

	mw_watch_start();
	generation = mw_watch_policy();
	known = mw_row_open(&row, &table, (Datum[]) {CStringGetTextDatum("*"), CStringGetTextDatum(model)});
	if (known)
		mw_settings_model(DatumGetJsonbP(mw_row_named(&row, "settings", &isnull)), &settings);
	mw_row_close(&row);

	if (models == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(key), .entrysize = sizeof(ModelSlot)};

		models = hash_create("mw models", 32, &ctl, HASH_ELEM | HASH_STRINGS);
		models_generation = generation;
	}
	slot = hash_search(models, key, HASH_ENTER, NULL);
	slot->row = settings;
	slot->known = known;
	return copy_of(slot);
}

/* ---------- the key of the database ---------- */

const uint8 *
mw_database_key(void)
{
	static MwRowTable table = {.name = "secret",.as = MW_AS_OWNER};
	uint64		generation;
	MwRow		row;
	bytea	   *key;
	bool		isnull;

	if (key_generation == mw_watch_policy())
		return database_key;

	mw_watch_start();
	generation = mw_watch_policy();
	if (!mw_row_open(&row, &table, NULL))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the key of this database is missing"),
				errdetail("mw.secret has no row."),
				errhint("Restore it from a dump; without it stored results cannot be matched to their requests."));
	key = DatumGetByteaPP(mw_row_named(&row, "key", &isnull));
	if (VARSIZE_ANY_EXHDR(key) != sizeof(database_key))
		elog(ERROR, "mw: the key of this database has a wrong length");
	memcpy(database_key, VARDATA_ANY(key), sizeof(database_key));
	mw_row_close(&row);
	key_generation = generation;
	return database_key;
}
