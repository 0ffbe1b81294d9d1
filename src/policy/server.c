/*
 * server.c - from "server:model" to a foreign server that the caller may use.
 *
 * A server's options are kept per process and read again when the system cache
 * says that a server changed.  Who may use it is asked for on every call; that the
 * last one may is kept with it, until a server, a role or a membership changes.  What the
 * caller gets is a copy in its own memory, so that a change in the middle of a
 * call changes nothing in it.  Keys are not read here at all.
 *
 * The gateway looks the server and its mapping up in transactions of its own.
 * What this transaction made or changed and has not committed is invisible to
 * it, hence "committed": false makes a call to a real server MW001 rather than
 * a call that goes by the old options or none.
 */
#include "mw.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "guc.h"
#include "policy/server.h"
#include "policy/settings.h"
#include "policy/url.h"
#include "policy/watch.h"
#include "provider/provider.h"
#include "util/duration.h"

/*
 * Three round trips for TCP and TLS, to a provider in the same region.  A server
 * whose connect_timeout is shorter is nearer.
 */
#define CONNECT_MS	50

#define MAX_SERVERS 256			/* kept; forgotten all at once */

#define DEFAULT_FAILURES		5
#define DEFAULT_COOLDOWN_MS		30000
#define DEFAULT_MAX_COOLDOWN_MS 300000
#define DEFAULT_RETRY_SHARE		0.2
#define DEFAULT_RETRY_RESERVE	10

typedef struct ServerSlot
{
	char		name[NAMEDATALEN];
	MwServer	server;
	char	   *host;			/* NULL for fake */
	Oid			users[8];		/* who was last found to have USAGE, by the remainder of their OID ... */
	uint64		rights;			/* ... as of this mw_watch_rights() */
} ServerSlot;

static HTAB *servers;
static MemoryContext servers_cxt;	/* the table and what it points to */
static uint64 servers_generation;

static void
no_such_server(const char *name)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("model server \"%s\" does not exist", name),
			errhint("CREATE SERVER %s FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://api.openai.com/v1');",
					quote_identifier(name)));
}

static void
incomplete(const char *name, const char *what, const char *option)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("server \"%s\" has no usable option \"%s\"", name, what),
			errhint("ALTER SERVER %s OPTIONS (%s);", quote_identifier(name), option));
}

/* Read a server by name; raises for one that cannot be used */
static void
read_server(const char *name, ServerSlot *slot)
{
	Oid			oid = get_foreign_server_oid(name, true);
	ForeignServer *fs;
	ListCell   *lc;
	MwUrl		url;

	if (!OidIsValid(oid))
		no_such_server(name);
	fs = GetForeignServer(oid);
	if (fs->fdwid != get_foreign_data_wrapper_oid("mw", true))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("server \"%s\" is no model server", name),
				errdetail("Its foreign-data wrapper is not mw."),
				errhint("CREATE SERVER another_name FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://api.openai.com/v1');"));

	slot->server.oid = oid;
	slot->server.name = pstrdup(name);
	slot->server.connect_ms = CONNECT_MS;
	slot->server.breaker = (MwBreakerRules) {
		.on = true,
		.failures = DEFAULT_FAILURES,
		.cooldown_ms = DEFAULT_COOLDOWN_MS,
		.max_cooldown_ms = DEFAULT_MAX_COOLDOWN_MS,
		.retry_share = DEFAULT_RETRY_SHARE,
		.retry_reserve = DEFAULT_RETRY_RESERVE,
		.version = 1,
	};
	foreach(lc, fs->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		char	   *value = defGetString(def);
		MwBreakerRules *breaker = &slot->server.breaker;

		breaker->version = hash_combine(hash_combine(breaker->version, string_hash(def->defname, NAMEDATALEN)),
										hash_bytes((const unsigned char *) value, strlen(value)));
		if (strcmp(def->defname, "api") == 0)
			slot->server.api = pstrdup(value);
		else if (strcmp(def->defname, "base_url") == 0)
			slot->server.base_url = pstrdup(value);
		else if (strcmp(def->defname, "max_tokens_field") == 0)
			slot->server.max_tokens_field = pstrdup(value);
		else if (strcmp(def->defname, "retry_unknown") == 0)
			(void) parse_bool(value, &slot->server.retry_unknown);
		else if (strcmp(def->defname, "breaker") == 0)
			(void) parse_bool(value, &breaker->on);
		else if (strcmp(def->defname, "breaker_failures") == 0)
			breaker->failures = atoi(value);
		else if (strcmp(def->defname, "breaker_cooldown") == 0)
			breaker->cooldown_ms = mw_duration_ms(value, "option \"breaker_cooldown\"");
		else if (strcmp(def->defname, "breaker_max_cooldown") == 0)
			breaker->max_cooldown_ms = mw_duration_ms(value, "option \"breaker_max_cooldown\"");
		else if (strcmp(def->defname, "retry_share") == 0)
			breaker->retry_share = strtod(value, NULL);
		else if (strcmp(def->defname, "retry_reserve") == 0)
			breaker->retry_reserve = atoi(value);
		else if (strcmp(def->defname, "allow_private") == 0)
			slot->server.names_allow_private = true;
		else if (strcmp(def->defname, "connect_timeout") == 0)
			slot->server.connect_ms = (int) Min(mw_duration_ms(value, "option \"connect_timeout\""), CONNECT_MS);
	}

	/* the validator sees to both; a server made without it (an old dump, a catalogue edit) ends here */
	if (slot->server.api == NULL || mw_provider_find(slot->server.api) == NULL)
		incomplete(name, "api", "ADD api 'openai'");
	if (strcmp(slot->server.api, "fake") == 0)
		slot->server.connect_ms = 0;
	else
	{
		if (slot->server.base_url == NULL || mw_url_parse(slot->server.base_url, &url) != NULL)
			incomplete(name, "base_url", "ADD base_url 'https://...'");
		slot->host = url.host;
	}
}

static ServerSlot *
find_server(const char *name)
{
	ServerSlot *slot;
	ServerSlot	fresh;
	MemoryContext old;
	uint64		generation;

	if (servers && servers_generation == mw_watch_servers())
	{
		slot = hash_search(servers, name, HASH_FIND, NULL);
		if (slot)
			return slot;
	}

	/* read first, in the caller's memory: it may raise, and it may make the table old */
	generation = mw_watch_servers();
	MemSet(&fresh, 0, sizeof(fresh));
	read_server(name, &fresh);

	if (servers == NULL || servers_generation != mw_watch_servers() || hash_get_num_entries(servers) >= MAX_SERVERS)
	{
		HASHCTL		ctl = {.keysize = NAMEDATALEN, .entrysize = sizeof(ServerSlot)};

		servers = NULL;
		if (servers_cxt)
			MemoryContextReset(servers_cxt);
		else
			servers_cxt = AllocSetContextCreate(CacheMemoryContext, "mw servers", ALLOCSET_SMALL_SIZES);
		ctl.hcxt = servers_cxt;
		servers = hash_create("mw servers", 16, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
		servers_generation = generation;
	}

	/* copied before it is entered: where memory runs out half-way there must be no entry */
	old = MemoryContextSwitchTo(servers_cxt);
	fresh.server.name = pstrdup(fresh.server.name);
	fresh.server.api = pstrdup(fresh.server.api);
	fresh.server.base_url = fresh.server.base_url ? pstrdup(fresh.server.base_url) : NULL;
	fresh.server.max_tokens_field = fresh.server.max_tokens_field ? pstrdup(fresh.server.max_tokens_field) : NULL;
	fresh.host = fresh.host ? pstrdup(fresh.host) : NULL;
	MemoryContextSwitchTo(old);
	slot = hash_search(servers, name, HASH_ENTER, NULL);
	slot->server = fresh.server;
	slot->host = fresh.host;
	memset(slot->users, 0, sizeof(slot->users));
	return slot;
}

const MwServer *
mw_server_find(const char *name)
{
	if (strlen(name) >= NAMEDATALEN)
		no_such_server(pnstrdup(name, pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1)));
	return &find_server(name)->server;
}

/* The mapping that a role's calls go by: its own, else PUBLIC's; the gateway looks it up the same way */
static HeapTuple
mapping_of(Oid serverid, Oid role)
{
	HeapTuple	tup = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(role), ObjectIdGetDatum(serverid));

	if (!HeapTupleIsValid(tup))
		tup = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(serverid));
	return tup;
}

static bool
of_this_transaction(HeapTuple tup)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tup->t_data));
}

/* Can another process see the server and the mapping that this role would use as they are now? */
static bool
is_committed(Oid serverid, Oid role)
{
	HeapTuple	tup;
	bool		mine = false;

	/* a transaction that has no id has written nothing */
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return true;

	tup = SearchSysCache1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	if (HeapTupleIsValid(tup))
	{
		mine = of_this_transaction(tup);
		ReleaseSysCache(tup);
	}
	if (mine)
		return false;

	tup = mapping_of(serverid, role);
	if (HeapTupleIsValid(tup))
	{
		mine = of_this_transaction(tup);
		ReleaseSysCache(tup);
	}
	return !mine;
}

/* Of a mapping's options only the names are looked at. */
char *
mw_server_key_hint(const MwServer *server)
{
	HeapTuple	tup = mapping_of(server->oid, GetUserId());
	Oid			role;
	const char *change = "ADD api_key_file '/path/to/key'";
	Datum		stored;
	bool		isnull;
	ListCell   *lc;

	if (!HeapTupleIsValid(tup))
		return psprintf("Give it a key: CREATE USER MAPPING FOR PUBLIC SERVER %s OPTIONS (api_key_file '/path/to/key');",
						quote_identifier(server->name));

	role = ((Form_pg_user_mapping) GETSTRUCT(tup))->umuser;
	stored = SysCacheGetAttr(USERMAPPINGUSERSERVER, tup, Anum_pg_user_mapping_umoptions, &isnull);
	if (!isnull)
	{
		foreach(lc, untransformRelOptions(stored))
		{
			DefElem    *def = lfirst_node(DefElem, lc);

			if (strcmp(def->defname, "api_key") == 0)
				change = "SET api_key '...'";
			else if (strcmp(def->defname, "api_key_file") == 0)
				change = "SET api_key_file '/path/to/key'";
		}
	}
	ReleaseSysCache(tup);
	return psprintf("Check the key: ALTER USER MAPPING FOR %s SERVER %s OPTIONS (%s);",
					OidIsValid(role) ? quote_identifier(GetUserNameFromId(role, false)) : "PUBLIC",
					quote_identifier(server->name), change);
}

bool
mw_server_usable(const char *model)
{
	const char *colon = strchr(model, ':');
	Oid			oid = InvalidOid;

	if (colon != NULL && colon - model < NAMEDATALEN)
		oid = get_foreign_server_oid(pnstrdup(model, colon - model), true);
	return OidIsValid(oid) &&
		GetForeignServer(oid)->fdwid == get_foreign_data_wrapper_oid("mw", true) &&
		mw_server_aclcheck(oid, GetUserId(), ACL_USAGE) == ACLCHECK_OK;
}

/* A change of the server's own rights has made a new slot of it */
static bool
may_use(ServerSlot *slot)
{
	uint64		rights = mw_watch_rights();
	Oid			user = GetUserId();
	Oid		   *last = &slot->users[user % lengthof(slot->users)];

	if (slot->rights == rights && *last == user)
		return true;
	if (mw_server_aclcheck(slot->server.oid, user, ACL_USAGE) != ACLCHECK_OK)
		return false;
	if (slot->rights != rights)
		memset(slot->users, 0, sizeof(slot->users));
	*last = user;
	slot->rights = rights;
	return true;
}

/* A copy of a server that the current role may use; analyzer: what is no model */
static const MwServer *
use_server(const char *name, bool analyzer)
{
	ServerSlot *slot = find_server(name);
	MwServer   *server;

	if ((mw_provider_find(slot->server.api)->encode == NULL) != analyzer)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				analyzer ? errmsg("server \"%s\" is no analyzer of personal data", name) :
				errmsg("server \"%s\" has no models", name),
				errdetail("Its api is \"%s\".", slot->server.api),
				analyzer ? errhint("CREATE SERVER another_name FOREIGN DATA WRAPPER mw OPTIONS (api 'presidio', base_url 'http://127.0.0.1:3000');") :
				errhint("CREATE SERVER another_name FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://api.openai.com/v1');"));

	if (!may_use(slot))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied for model server \"%s\"", name),
				errhint("GRANT USAGE ON FOREIGN SERVER %s TO %s;", quote_identifier(name),
						quote_identifier(GetUserNameFromId(GetUserId(), false))));

	if (slot->host && !mw_url_host_allowed(slot->host, mw_guc_allowed_hosts))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("the host of model server \"%s\" is not allowed", name),
				errdetail("The setting mw.allowed_hosts does not list \"%s\".", slot->host),
				errhint("A superuser types: ALTER SYSTEM SET mw.allowed_hosts = '...'; SELECT pg_reload_conf();"));

	server = palloc(sizeof(MwServer));
	*server = slot->server;
	server->name = pstrdup(slot->server.name);
	server->api = pstrdup(slot->server.api);
	if (server->base_url)
		server->base_url = pstrdup(slot->server.base_url);
	if (server->max_tokens_field)
		server->max_tokens_field = pstrdup(slot->server.max_tokens_field);
	server->committed = is_committed(server->oid, GetUserId());
	return server;
}

const MwServer *
mw_server_for_model(const char *model, const char **model_name)
{
	const char *colon;
	char		name[NAMEDATALEN];

	mw_check_model_name(model, "a model");
	colon = strchr(model, ':');
	if (colon - model >= NAMEDATALEN)
		no_such_server(pnstrdup(model, pg_mbcliplen(model, colon - model, NAMEDATALEN - 1)));
	memcpy(name, model, colon - model);
	name[colon - model] = '\0';
	*model_name = pstrdup(colon + 1);
	return use_server(name, false);
}

const MwServer *
mw_server_for_analyzer(const char *name)
{
	const MwServer *server;

	if (strlen(name) >= NAMEDATALEN)
		no_such_server(pnstrdup(name, pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1)));
	server = use_server(name, true);
	if (!server->committed)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("server \"%s\" must be committed before it is called", name),
				errdetail("The gateway looks it up in a transaction of its own."),
				errhint("COMMIT what made or changed it, and call then."));
	return server;
}
