/*
 * provider.h - what an adapter for one vendor's wire format is.
 *
 * Adapters are pure: from mw's messages to the vendor's JSON and back.  They
 * touch neither SPI, nor shared memory, nor the network, so that the backend
 * (which encodes and decodes) and the gateway (which reads only the outcome)
 * can both use them.
 */
#ifndef MW_PROVIDER_H
#define MW_PROVIDER_H

#include "mw.h"

/* What the gateway has to know of an answer to book it */
typedef struct MwOutcome
{
	bool		usable;			/* JSON of the expected shape */
	bool		has_usage;		/* usage present and sane (not negative, not absurd, not text) */
	MwUsage		usage;
	bool		cacheable;		/* ended with "stop", has text, no tool calls, no refusal */
	int			inner_status;	/* a 200 that carries {"error":{"code":429}}: that code; else 0 */
	bool		hopeless;		/* an error that no waiting mends, whatever its status says: the account has no credit */
	char		error[256];		/* the provider's message or what is wrong, printable, short; "" for none */
} MwOutcome;

typedef struct MwProvider
{
	const char *api;			/* the server option's value: openai, ... */
	const char *path;			/* appended to base_url: /chat/completions */

	/*
	 * NULL, with decode, for what is no model (presidio.c).
	 * Append the request body.  max_tokens_field is the server's option or
	 * NULL.  Raises MW001 for a message that the vendor has no form for.
	 */
	void		(*encode) (StringInfo body, const char *model,
						   const MwMessage *messages, int nmessages,
						   Jsonb *tools, Jsonb *params,
						   int64 max_tokens, const char *max_tokens_field);

	/* The header that carries the key ("Authorization: Bearer %s"), palloc'd */
	char	   *(*auth_header) (const char *key);

	/*
	 * Read usage, finish reason and error out of a body.  Bounded (depth,
	 * time linear in len) and never raises: the gateway calls it for bytes
	 * that a stranger sent.  body is valid UTF-8 (mw_json_sanitize'd).
	 */
	void		(*outcome) (const char *body, int len, int http_status, MwOutcome *out);

	/* Decode a body whose outcome was usable, but for its usage, in the current context; raises MW405. */
	MwAnswer   *(*decode) (const char *body, int len);
} MwProvider;

extern const MwProvider mw_provider_openai;
extern const MwProvider mw_provider_presidio;	/* an analyzer of personal data */
extern const MwProvider mw_provider_fake;	/* OpenAI's format: the double answers with it */

/* NULL when no adapter has that name */
extern const MwProvider *mw_provider_find(const char *api);

#endif
