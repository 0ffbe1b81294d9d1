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
 * Rules: a tenant's rows of a type (or of a guard's name) replace those of '*',
 * and rows that an administrator wrote replace the built-in ones.
 *
 * All of it belongs to the process; no lock.
 */
#include "mw.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
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
#include "util/spi.h"

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

static char *
column_text(int row, int col)
{
	bool		isnull;
	Datum		d = SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, col, &isnull);

	return isnull ? NULL : TextDatumGetCString(d);
}

static Datum
column(int row, int col, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, col, isnull);
}

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

/* Results of SPI live until SPI_finish; what a policy keeps is copied into its context. */
static char *
keep(MwPolicy *p, char *s)
{
	return s ? MemoryContextStrdup(p->cxt, s) : NULL;
}

static void
read_settings(MwPolicy *p)
{
	static MwStmt stmt = {
		"SELECT t.settings,"
		" (SELECT g.epoch FROM mw.purge AS g WHERE g.tenant OPERATOR(pg_catalog.=) $1),"
		" t.xmin, t.created_at"
		" FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1",
		1, {TEXTOID}
	};
	Datum		arg = CStringGetTextDatum(p->tenant);
	MemoryContext old;
	ListCell   *lc;
	bool		isnull;
	Datum		d;

	if (mw_spi_read(&stmt, MW_AS_OWNER, &arg, NULL, 1) != 1)
		return;					/* dropped since may_act said that it is there: the defaults stand */
	mw_settings_tenant(DatumGetJsonbP(column(0, 1, &isnull)), p);
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
	d = column(0, 2, &isnull);
	p->cache_epoch = isnull ? 0 : DatumGetInt64(d);
	p->committed = was_there(DatumGetTransactionId(column(0, 3, &isnull)), DatumGetTimestampTz(column(0, 4, &isnull)));
}

static MwStrategy
strategy_of(const char *s)
{
	if (strcmp(s, "mask") == 0)
		return MW_STRATEGY_MASK;
	if (strcmp(s, "hash") == 0)
		return MW_STRATEGY_HASH;
	if (strcmp(s, "redact") == 0)
		return MW_STRATEGY_REDACT;
	if (strcmp(s, "block") == 0)
		return MW_STRATEGY_BLOCK;
	return MW_STRATEGY_PLACEHOLDER;
}

/*
 * Which row of several of a type or name counts: the tenant's own, then an
 * administrator's of '*', then the built-in ones.  This and the order of rules
 * are found here: in SQL a window and two sorts cost a fresh process a
 * millisecond.
 */
typedef struct RuleRow
{
	const char *name;			/* type of a recognizer, name of a guard */
	int			rank;			/* the least of a name counts */
	int			id;				/* several patterns of one type */
	int			row;			/* in SPI's result */
	int			priority;
} RuleRow;

static int
by_name(const void *a, const void *b)
{
	const RuleRow *x = a;
	const RuleRow *y = b;
	int			c = strcmp(x->name, y->name);

	if (c == 0)
		c = x->rank - y->rank;
	return c != 0 ? c : x->id - y->id;
}

static int
by_priority(const void *a, const void *b)
{
	const RuleRow *x = a;
	const RuleRow *y = b;

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	return by_name(a, b);
}

/* The rows that count, by name; columns: name, "not of '*'", builtin first.  Returns how many. */
static int
choose_rows(RuleRow *rows, int n)
{
	int			chosen = 0;

	for (int i = 0; i < n; i++)
	{
		bool		isnull;
		bool		own = DatumGetBool(column(i, 2, &isnull));
		bool		builtin = DatumGetBool(column(i, 3, &isnull));

		rows[i].name = column_text(i, 1);
		rows[i].rank = (own ? 0 : 2) + (builtin ? 1 : 0);
		rows[i].row = i;
	}
	qsort(rows, n, sizeof(RuleRow), by_name);
	for (int i = 0; i < n; i++)
	{
		if (chosen > 0 && strcmp(rows[i].name, rows[chosen - 1].name) == 0 && rows[i].rank != rows[chosen - 1].rank)
			continue;
		rows[chosen++] = rows[i];
	}
	return chosen;
}

static const MwRecognizer *(*builtin_recognizer) (int i) = NULL;

/* mw_policy_builtin says where the built-in recognizers are. */
void
mw_policy_builtin(const MwRecognizer *(*get) (int i))
{
	builtin_recognizer = get;
}

/* The rows of the table stand for what an administrator changed; the built-in ones are the library's. */
static void
read_recognizers(MwPolicy *p, MwHash *version)
{
	static MwStmt stmt = {
		"SELECT r.pii_type, r.tenant OPERATOR(pg_catalog.<>) '*', r.id, r.priority,"
		" r.pattern, r.validator, r.context, r.strategy, r.prefilter, r.on_demand, r.function, r.analyzer FROM mw.recognizer AS r"
		" WHERE NOT r.builtin AND (r.tenant OPERATOR(pg_catalog.=) '*' OR r.tenant OPERATOR(pg_catalog.=) $1)",
		1, {TEXTOID}
	};
	Datum		arg = CStringGetTextDatum(p->tenant);
	int			nrows = mw_spi_read(&stmt, MW_AS_OWNER, &arg, NULL, 0);
	int			nbuiltin = 0;
	int			n = 0;
	int			chosen = 0;
	RuleRow    *rows;
	bool		isnull;

	while (builtin_recognizer(nbuiltin) != NULL)
		nbuiltin++;
	rows = palloc0(sizeof(RuleRow) * (nrows + nbuiltin + 1));
	for (int i = 0; i < nrows; i++, n++)
	{
		rows[n].name = column_text(i, 1);
		rows[n].rank = DatumGetBool(column(i, 2, &isnull)) ? 0 : 2;
		rows[n].id = DatumGetInt32(column(i, 3, &isnull));
		rows[n].priority = DatumGetInt32(column(i, 4, &isnull));
		rows[n].row = i;
	}
	for (int i = 0; i < nbuiltin; i++, n++)
	{
		const MwRecognizer *r = builtin_recognizer(i);

		rows[n].name = r->type;
		rows[n].rank = 3;
		rows[n].id = i;
		rows[n].priority = r->priority;
		rows[n].row = -1 - i;
	}
	/* whose rows of a type count */
	if (nrows > 0)
	{
		qsort(rows, n, sizeof(RuleRow), by_name);
		for (int i = 0; i < n; i++)
		{
			if (chosen > 0 && rows[i].rank != rows[chosen - 1].rank && strcmp(rows[i].name, rows[chosen - 1].name) == 0)
				continue;
			rows[chosen++] = rows[i];
		}
	}
	else
		chosen = n;
	qsort(rows, chosen, sizeof(RuleRow), by_priority);

	p->recognizers = MemoryContextAllocZero(p->cxt, sizeof(MwRecognizer) * (chosen + 1));
	p->nrecognizers = chosen;
	for (int i = 0; i < chosen; i++)
	{
		MwRecognizer *r = &p->recognizers[i];
		int			row = rows[i].row;
		Datum		analyzer;

		if (row < 0)
		{
			*r = *builtin_recognizer(-1 - row);
			continue;
		}
		r->type = MemoryContextStrdup(p->cxt, rows[i].name);
		r->own = rows[i].rank == 0;
		r->priority = rows[i].priority;
		r->pattern = keep(p, column_text(row, 5));
		r->validator = keep(p, column_text(row, 6));
		r->context = keep(p, column_text(row, 7));
		r->strategy = strategy_of(column_text(row, 8));
		r->prefilter = keep(p, column_text(row, 9));
		r->on_demand = DatumGetBool(column(row, 10, &isnull));
		r->function = keep(p, column_text(row, 11));
		analyzer = column(row, 12, &isnull);
		if (!isnull)
		{
			MemoryContext old = MemoryContextSwitchTo(p->cxt);

			r->analyzer = mw_analyzer_read(DatumGetJsonbP(analyzer), r->type);
			mw_hash_text(version, mw_json_canonical(DatumGetJsonbP(analyzer)));
			MemoryContextSwitchTo(old);
		}

		mw_hash_text(version, r->type);
		mw_hash_text(version, r->pattern);
		mw_hash_text(version, r->validator);
		mw_hash_text(version, r->context);
		mw_hash_text(version, r->function);
		mw_hash_part(version, &r->priority, sizeof(r->priority));
		mw_hash_part(version, &r->strategy, sizeof(r->strategy));
		mw_hash_part(version, &r->on_demand, sizeof(r->on_demand));
	}
	if (p->redaction)
	{
		const MwRedaction *r = p->redaction;
		ListCell   *lc;

		/* a type whose recognizer was dropped meanwhile is nobody's */
		(void) mw_redaction_apply(r, p->recognizers, chosen, false);
		foreach(lc, r->types)
			mw_hash_text(version, lfirst(lc));
		foreach(lc, r->strategy_types)
			mw_hash_text(version, lfirst(lc));
		foreach(lc, r->strategies)
			mw_hash_part(version, &lfirst_int(lc), sizeof(int));
		mw_hash_part(version, &r->everything, sizeof(r->everything));
		p->redaction = NULL;	/* its lists go with this reading */
	}
	/* what the library finds changes with the library */
	mw_hash_text(version, MW_VERSION);
	mw_hash_part(version, &nbuiltin, sizeof(nbuiltin));
}

static MwGuardKind
kind_of(const char *s)
{
	return strcmp(s, "pattern") == 0 ? MW_GUARD_PATTERN : strcmp(s, "check") == 0 ? MW_GUARD_CHECK :
		strcmp(s, "learned") == 0 ? MW_GUARD_LEARNED : strcmp(s, "function") == 0 ? MW_GUARD_FUNCTION : MW_GUARD_MODEL;
}

static void
read_guards(MwPolicy *p, MwHash *version)
{
	static MwStmt stmt = {
		"SELECT g.guard, g.tenant OPERATOR(pg_catalog.<>) '*', g.builtin,"
		" g.category, g.pattern, g.weight, g.mode, g.kind, g.threshold, g.function, g.model, g.question,"
		" (CASE WHEN 'user' OPERATOR(pg_catalog.=) ANY (g.sources) THEN 1 ELSE 0 END)"
		"  OPERATOR(pg_catalog.+) (CASE WHEN 'tool' OPERATOR(pg_catalog.=) ANY (g.sources) THEN 2 ELSE 0 END)"
		"  OPERATOR(pg_catalog.+) (CASE WHEN 'document' OPERATOR(pg_catalog.=) ANY (g.sources) THEN 4 ELSE 0 END)"
		"  OPERATOR(pg_catalog.+) (CASE WHEN 'output' OPERATOR(pg_catalog.=) ANY (g.sources) THEN 8 ELSE 0 END)"
		" FROM mw.guard AS g"
		" WHERE g.tenant OPERATOR(pg_catalog.=) '*' OR g.tenant OPERATOR(pg_catalog.=) $1",
		1, {TEXTOID}
	};
	Datum		arg = CStringGetTextDatum(p->tenant);
	int			n = mw_spi_read(&stmt, MW_AS_OWNER, &arg, NULL, 0);
	RuleRow    *rows = palloc0(sizeof(RuleRow) * (n + 1));

	n = choose_rows(rows, n);
	p->guards = MemoryContextAllocZero(p->cxt, sizeof(MwGuard) * (n + 1));
	p->nguards = n;
	for (int i = 0; i < n; i++)
	{
		MwGuard    *g = &p->guards[i];
		int			row = rows[i].row;
		char	   *mode = column_text(row, 7);
		bool		isnull;

		g->guard = MemoryContextStrdup(p->cxt, rows[i].name);
		g->own = rows[i].rank < 2;
		g->category = keep(p, column_text(row, 4));
		g->pattern = keep(p, column_text(row, 5));
		g->weight = DatumGetFloat8(column(row, 6, &isnull));
		g->mode = strcmp(mode, "off") == 0 ? MW_GUARD_OFF : strcmp(mode, "log") == 0 ? MW_GUARD_LOG : MW_GUARD_BLOCK;
		g->kind = kind_of(column_text(row, 8));
		g->threshold = DatumGetFloat8(column(row, 9, &isnull));
		g->function = keep(p, column_text(row, 10));
		g->model = keep(p, column_text(row, 11));
		g->question = keep(p, column_text(row, 12));
		g->sources = DatumGetInt32(column(row, 13, &isnull));

		mw_hash_text(version, g->guard);
		mw_hash_text(version, g->category);
		mw_hash_text(version, g->pattern);
		mw_hash_text(version, g->function);
		mw_hash_text(version, g->model);
		mw_hash_text(version, g->question);
		mw_hash_part(version, &g->weight, sizeof(g->weight));
		mw_hash_part(version, &g->mode, sizeof(g->mode));
		mw_hash_part(version, &g->kind, sizeof(g->kind));
		mw_hash_part(version, &g->threshold, sizeof(g->threshold));
		mw_hash_part(version, &g->sources, sizeof(g->sources));
	}
	/* what a score means is part of the rules too */
	mw_hash_part(version, &p->guard_shadow, sizeof(p->guard_shadow));
	mw_hash_part(version, p->guard_threshold, sizeof(p->guard_threshold));
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
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw policy", ALLOCSET_SMALL_SIZES);
	MwPolicy   *p = MemoryContextAllocZero(cxt, sizeof(MwPolicy));
	MwHash		version;
	MwKey		hash;

	p->cxt = cxt;
	p->tenant = MemoryContextStrdup(cxt, tenant);
	mw_settings_tenant(DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"))), p);

	if (tenant[0] != '\0')
	{
		p->scope = mw_scope_key(tenant);
		/* ids go with a dump */
		p->tag_key = derived_key("request_id", InvalidOid, tenant);
	}
	SPI_connect();
	mw_hash_start(&version, NULL);
	if (tenant[0] != '\0')
	{
		read_settings(p);
		mw_limits_read(p);
	}
	read_recognizers(p, &version);
	read_guards(p, &version);
	hash = mw_hash_end(&version);
	memcpy(p->version, hash.b, sizeof(p->version));
	SPI_finish();

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
	static MwStmt stmt = {
		"SELECT m.settings FROM mw.model AS m"
		" WHERE m.tenant OPERATOR(pg_catalog.=) '*' AND m.model OPERATOR(pg_catalog.=) $1",
		1, {TEXTOID}
	};
	char		key[sizeof(((ModelSlot *) NULL)->model)];
	ModelSlot  *slot;
	MwModel		row = {0};
	bool		known;
	bool		isnull;
	Datum		arg;
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
	SPI_connect();
	arg = CStringGetTextDatum(model);
	known = mw_spi_read(&stmt, MW_AS_OWNER, &arg, NULL, 1) == 1;
	if (known)
		mw_settings_model(DatumGetJsonbP(column(0, 1, &isnull)), &row);
	SPI_finish();

	if (models == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(key), .entrysize = sizeof(ModelSlot)};

		models = hash_create("mw models", 32, &ctl, HASH_ELEM | HASH_STRINGS);
		models_generation = generation;
	}
	slot = hash_search(models, key, HASH_ENTER, NULL);
	slot->row = row;
	slot->known = known;
	return copy_of(slot);
}

/* ---------- the key of the database ---------- */

const uint8 *
mw_database_key(void)
{
	static MwStmt stmt = {"SELECT s.key FROM mw.secret AS s", 0, {0}};
	uint64		generation;
	bytea	   *key;
	bool		isnull;

	if (key_generation == mw_watch_policy())
		return database_key;

	mw_watch_start();
	generation = mw_watch_policy();
	SPI_connect();
	if (mw_spi_read(&stmt, MW_AS_OWNER, NULL, NULL, 1) != 1)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the key of this database is missing"),
				errdetail("mw.secret has no row."),
				errhint("Restore it from a dump; without it stored results cannot be matched to their requests."));
	key = DatumGetByteaPP(column(0, 1, &isnull));
	if (VARSIZE_ANY_EXHDR(key) != sizeof(database_key))
		elog(ERROR, "mw: the key of this database has a wrong length");
	memcpy(database_key, VARDATA_ANY(key), sizeof(database_key));
	explicit_bzero(VARDATA_ANY(key), sizeof(database_key));
	SPI_finish();
	key_generation = generation;
	return database_key;
}
