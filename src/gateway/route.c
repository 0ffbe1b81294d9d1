/*
 * route.c - where a request goes and with which key: a foreign server's options
 * and the user mapping of the calling role, looked up by the gateway, by OID.
 *
 * Keys live in this process's memory only; they never enter shared memory, a
 * log or an error text.  Routes are kept and dropped when the catalogues say
 * that a server or mapping changed, or when a provider answers 401 (the key
 * file may have been replaced).  A mapping's own role is found as PostgreSQL
 * finds it: the role's own, else PUBLIC's.
 */
#include "mw.h"

#include <sys/stat.h>

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "gateway/gateway.h"
#include "gateway/transport.h"
#include "util/duration.h"

#define DEFAULT_CONNECT_TIMEOUT_MS	10000
#define DEFAULT_STALL_MS			60000
#define DEFAULT_STALL_BYTES			1
#define DEFAULT_MAX_RESPONSE		(16 * 1024 * 1024)
#define MAX_KEY_BYTES				8192

typedef struct RouteKey
{
	Oid			serverid;
	Oid			roleid;
} RouteKey;

typedef struct RouteEntry
{
	RouteKey	key;			/* must be first */
	MwRoute		route;
} RouteEntry;

static MemoryContext route_cxt;
static HTAB *routes;
static bool stale;

static void
catalog_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	stale = true;
}

void
mw_route_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGUSERSERVER, catalog_changed, (Datum) 0);
	stale = true;
}

void
mw_route_forget(void)
{
	stale = true;
}

/* Routes stay where they are during a round: its transfers start after its commit. */
void
mw_route_round(void)
{
	HASHCTL		ctl = {0};

	if (!stale)
		return;
	if (route_cxt == NULL)
		route_cxt = AllocSetContextCreate(TopMemoryContext, "mw routes", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(route_cxt);
	ctl.keysize = sizeof(RouteKey);
	ctl.entrysize = sizeof(RouteEntry);
	ctl.hcxt = route_cxt;
	routes = hash_create("mw routes", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	stale = false;
}

const char *
mw_server_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return NULL;
}

/* The mapping of a role, else of PUBLIC, without GetUserMapping's error; *whose: InvalidOid for PUBLIC's */
static Oid
mapping_of(Oid roleid, Oid serverid, Oid *whose, List **options)
{
	HeapTuple	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(roleid), ObjectIdGetDatum(serverid));
	Oid			found;
	Datum		datum;
	bool		null;

	*options = NIL;
	*whose = InvalidOid;
	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	found = ((Form_pg_user_mapping) GETSTRUCT(tuple))->oid;
	*whose = ((Form_pg_user_mapping) GETSTRUCT(tuple))->umuser;
	datum = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple, Anum_pg_user_mapping_umoptions, &null);
	if (!null)
		*options = untransformRelOptions(datum);
	ReleaseSysCache(tuple);
	return found;
}

/*
 * The key in a file: one line, white space around it ignored.  Sets *why when it cannot be read.
 * Only of a plain file: a pipe would hold the gateway until somebody writes.
 */
static char *
key_from_file(const char *path, char **why)
{
	struct stat st;
	FILE	   *f;
	char		buf[MAX_KEY_BYTES];
	size_t		n;
	char	   *start = buf;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
	{
		*why = pstrdup("the key file of the user mapping is no plain file");
		return NULL;
	}
	f = AllocateFile(path, "r");
	if (f == NULL)
	{
		*why = psprintf("the key file of the user mapping cannot be opened: %s", strerror(errno));
		return NULL;
	}
	n = fread(buf, 1, sizeof(buf) - 1, f);
	if (ferror(f))
	{
		*why = psprintf("the key file of the user mapping cannot be read: %s", strerror(errno));
		FreeFile(f);
		return NULL;
	}
	FreeFile(f);
	buf[n] = '\0';
	while (*start && isspace((unsigned char) *start))
		start++;
	n = strcspn(start, " \t\r\n");
	start[n] = '\0';
	if (n == 0)
	{
		*why = pstrdup("the key file of the user mapping is empty");
		return NULL;
	}
	start = pstrdup(start);
	explicit_bzero(buf, sizeof(buf));
	return start;
}

char *
mw_key_file_problem(const char *path)
{
	char	   *why = NULL;
	char	   *key = key_from_file(path, &why);

	if (key != NULL)
	{
		explicit_bzero(key, strlen(key));
		pfree(key);
	}
	return why;
}

static void
fill(MwRoute *r)
{
	ForeignServer *server = GetForeignServerExtended(r->serverid, FSV_MISSING_OK);
	List	   *mapping_options;
	const char *api;
	const char *base;
	const char *value;
	const char *key;
	Oid			whose;

	r->connect_timeout_ms = DEFAULT_CONNECT_TIMEOUT_MS;
	r->max_response = DEFAULT_MAX_RESPONSE;
	r->stall_ms = DEFAULT_STALL_MS;
	r->stall_bytes = DEFAULT_STALL_BYTES;
	if (server == NULL)
	{
		r->error = pstrdup("the server of this model does not exist any more, or was not committed");
		r->hint = pstrdup("COMMIT what made it, or name a model of another server.");
		return;
	}
	api = mw_server_option(server->options, "api");
	r->provider = mw_provider_find(api ? api : "openai");
	base = mw_server_option(server->options, "base_url");
	if (r->provider == NULL || base == NULL)
	{
		r->error = psprintf("server \"%s\" has no usable api and base_url", server->servername);
		r->hint = psprintf("ALTER SERVER %s OPTIONS (SET api 'openai', SET base_url 'https://...');", quote_identifier(server->servername));
		return;
	}
	r->url = psprintf("%.*s%s", (int) (strlen(base) - (base[strlen(base) - 1] == '/')), base, r->provider->path);
	if ((value = mw_server_option(server->options, "allow_private")) != NULL)
		(void) parse_bool(value, &r->allow_private);
	if ((value = mw_server_option(server->options, "ca_file")) != NULL)
		r->ca_file = pstrdup(value);
	if ((value = mw_server_option(server->options, "client_cert")) != NULL)
		r->client_cert = pstrdup(value);
	if ((value = mw_server_option(server->options, "client_key")) != NULL)
		r->client_key = pstrdup(value);
	if ((value = mw_server_option(server->options, "min_tls")) != NULL)
		r->tls13 = strcmp(value, "1.3") == 0;
	if ((value = mw_server_option(server->options, "proxy")) != NULL)
		r->proxy = pstrdup(value);
	if ((value = mw_server_option(server->options, "connect_timeout")) != NULL)
		r->connect_timeout_ms = (long) mw_duration_ms(value, "option \"connect_timeout\"");
	if ((value = mw_server_option(server->options, "max_response")) != NULL)
		r->max_response = strtoul(value, NULL, 10);
	if ((value = mw_server_option(server->options, "stall_timeout")) != NULL)
		r->stall_ms = (long) mw_duration_ms(value, "option \"stall_timeout\"");
	if ((value = mw_server_option(server->options, "stall_bytes")) != NULL)
		r->stall_bytes = strtoul(value, NULL, 10);

	r->mapping = mapping_of(r->roleid, r->serverid, &whose, &mapping_options);
	key = mw_server_option(mapping_options, "api_key");
	if (key == NULL && (value = mw_server_option(mapping_options, "api_key_file")) != NULL)
	{
		key = key_from_file(value, &r->error);
		if (key == NULL)
		{
			const char *role = OidIsValid(whose) ? GetUserNameFromId(whose, true) : NULL;

			r->hint = psprintf("The file must be readable by the user that PostgreSQL runs as, and hold the key. "
							   "A superuser types: ALTER USER MAPPING FOR %s SERVER %s OPTIONS (SET api_key_file '/path/to/key');",
							   role ? quote_identifier(role) : "PUBLIC", quote_identifier(server->servername));
		}
	}
	if (key != NULL)
		r->auth_header = r->provider->auth_header(key);
}

const MwRoute *
mw_route_find(Oid serverid, Oid roleid)
{
	RouteKey	key = {serverid, roleid};
	RouteEntry *e;
	bool		found;

	e = hash_search(routes, &key, HASH_ENTER, &found);
	if (!found)
	{
		MemoryContext old = MemoryContextSwitchTo(route_cxt);
		bool		was_stale = stale;

		memset(&e->route, 0, sizeof(e->route));
		e->route.serverid = serverid;
		e->route.roleid = roleid;
		stale = true;			/* so that what raises below, or cannot be used, is read anew next round */
		fill(&e->route);
		stale = was_stale || e->route.error != NULL;
		MemoryContextSwitchTo(old);
	}
	return &e->route;
}
