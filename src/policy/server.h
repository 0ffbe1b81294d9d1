/*
 * server.h - model servers: CREATE SERVER … FOREIGN DATA WRAPPER mw.
 *
 * The backend reads a server's public options; keys stay in user mappings and
 * are looked up by the gateway alone, by OID.
 */
#ifndef MW_SERVER_H
#define MW_SERVER_H

#include "mw.h"
#include "gateway/breaker.h"

typedef struct MwServer
{
	Oid			oid;
	char	   *name;
	char	   *api;			/* openai, presidio, fake */
	char	   *base_url;		/* NULL for fake */
	char	   *max_tokens_field;	/* NULL: the adapter's own */
	bool		retry_unknown;
	MwBreakerRules breaker;
	bool		names_allow_private;	/* the option is given, whatever it says: ALTER SERVER needs SET, not ADD */
	int			connect_ms;		/* what a new connection takes at least: a call with less time left is refused */
	bool		committed;		/* the server's row is visible to other processes: false makes a call MW001 */
} MwServer;

/*
 * Split "server:model", find the server, check USAGE for the current role.
 * Raises MW001 with the CREATE SERVER to type, or 42501 with the GRANT.
 */
extern const MwServer *mw_server_for_model(const char *model, const char **model_name);

/* Likewise one with api 'presidio', by its name; MW001 too where it is not committed */
extern const MwServer *mw_server_for_analyzer(const char *name);

/* By its name, whoever asks; MW001 where there is none that can be used.  Valid until something changes: for a look, not for a call. */
extern const MwServer *mw_server_find(const char *name);

/* Whether there is such a server and the current role may use it; raises nothing */
extern bool mw_server_usable(const char *model);

/* A hint for a key that the server does not take: the user mapping to make, or the one that the current role's calls go by */
extern char *mw_server_key_hint(const MwServer *server);

#endif
