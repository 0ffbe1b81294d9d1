/*
 * mw.h - the shared words: a call, what travels with it, and the stages.
 *
 * One value travels.  mw_invoke makes an MwCall in a memory context of its own
 * (a child of the caller's current context, so an ERROR frees it), the six
 * stages hand it down and the answer comes back up through the same functions
 * in reverse.  No stage reads another stage's statics; what a stage needs from
 * an earlier one is a field here, and the field's comment names its writer.
 */
#ifndef MW_H
#define MW_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"
#include "utils/uuid.h"

#include "compat.h"
#include "errors.h"
#include "util/clock.h"

struct MwPolicy;				/* policy/policy.h */
struct MwServer;				/* policy/server.h */
struct MwProvider;				/* provider/provider.h */
struct MwTransport;				/* gateway/transport.h */
struct MwReply;					/* gateway/transport.h */

/* BLAKE2b-16: cache keys, fingerprints, names of budget scopes */
typedef struct MwKey
{
	uint8		b[16];
} MwKey;

/*
 * A message as it travels.  The plain case, a role and a text, is kept apart
 * from jsonb because it is nearly every message of a one-shot call and costs
 * nothing to build; whatever has more than that (content parts, tool calls, a
 * tool's result) is whole in "json" and "text" is NULL.
 */
typedef struct MwMessage
{
	const char *role;			/* system, user, assistant, tool */
	char	   *text;			/* the content, not NUL terminated by contract but always one byte longer */
	int			len;			/* its bytes */
	Jsonb	   *json;			/* the whole message, when it is more than role and text */
	bool		from_caller;	/* given by this call's caller, not by mw: redact and guardrail judge it */
	bool		developers;		/* an instruction in a helper's prompt, with a role and a text: redacted, not judged */
	bool		answered;		/* what a model said in this thread, judged when it did: redacted, not judged */
	bool		joins;			/* a piece of the message before it, until the guardrail has judged the pieces */
} MwMessage;

/*
 * The reversible placeholders of one call: <EMAIL_0> stands for a value.  Lives
 * and dies with the call's memory context; nothing of it is static, so an
 * ERROR cannot leave one tenant's map to another.
 */
typedef struct MwPiiEntry
{
	const char *type;			/* EMAIL, PHONE, ... */
	char	   *placeholder;	/* <EMAIL_0> */
	char	   *value;			/* what it stands for */
	int			value_len;
	uint32		hash;			/* of type and value */
	bool		used;			/* stands in a text of this call, not only in an earlier turn's */
} MwPiiEntry;

struct MwPiiMap;

/* What earlier turns of a session issued, as a map asks for it (stage/pii_session.c) */
typedef struct MwPiiEarlier
{
	/* the number that a value had whose value was not kept, -1 for none */
	int			(*number_of) (const struct MwPiiMap *map, const char *type, const char *value, int len);
	/* whether a placeholder was issued, or typed by somebody, in an earlier turn */
	bool		(*issued) (const struct MwPiiMap *map, const char *type, int type_len, int number);
} MwPiiEarlier;

typedef struct MwPiiMap
{
	MemoryContext cxt;
	MwPiiEntry *entries;
	int			n;
	int			cap;
	struct MwPiiType *types;	/* numbers issued and reserved, by type (stage/pii_map.c) */
	int			ntypes;
	uint32	   *slots;			/* open-addressed index of entries; made when there are many */
	uint32		nslots;
	int			loose;			/* restored although a model had spelled them otherwise */
	MwPiiEarlier *earlier;		/* NULL: the map is this call's alone */
	bool		typed;			/* what reads like an issued placeholder in the text at hand was typed by somebody */
	struct MwAnalyses *analyses;	/* what servers found in the call's texts (stage/analyzer.c); NULL: not asked */
} MwPiiMap;

/* One tool call that a model asked for */
typedef struct MwToolCall
{
	char	   *id;
	char	   *name;
	Jsonb	   *args;			/* NULL where the arguments are not a JSON object ... */
	char	   *raw_args;		/* ... and then the text that was sent */
	bool		unnamed;		/* the model gave no id: it is ours, and of this answer alone */
} MwToolCall;

/* What a provider's usage says, or our own count of it */
typedef struct MwUsage
{
	int64		input_tokens;
	int64		output_tokens;
	int64		cached_tokens;	/* of the input */
	int64		reasoning_tokens;	/* of the output */
	int64		audio_input_tokens;
	int64		audio_output_tokens;
	bool		estimated;		/* usage was missing or absurd: counted by ourselves */
} MwUsage;

/* A decoded answer (written by the model or cache stage) */
typedef struct MwAnswer
{
	char	   *text;			/* NULL where the model sent none */
	int			len;
	MwToolCall *tool_calls;
	int			ntool_calls;
	const char *finish;			/* stop, length, tool_calls, content_filter, ... */
	MwUsage		usage;			/* what is billed for it now: nothing for one that had been recorded or cached (see mw_answer_used) */
	const char *body;			/* as its provider sent it; NULL: a text of our own */
	int			body_len;
} MwAnswer;

/*
 * A call that has no answer: the error that says so, not yet raised, since
 * another model may be asked first (written by stage/failure.c).
 */
typedef struct MwFailure
{
	const char *model;			/* whose call it was */
	int			sqlstate;
	char	   *message;
	char	   *detail;
	char	   *hint;			/* NULL for none */
	bool		elsewhere;		/* a fallback may be asked: nothing is unknown, and the fault is not the request's */
} MwFailure;

/* A model that this call may ask, with what depends on it (call/models.c); the first is the one that was named */
typedef struct MwChoice
{
	const char *model;
	const char *model_name;
	const struct MwServer *server;
	const struct MwProvider *provider;
	const struct MwTransport *transport;
	Jsonb	   *params;
	int64		max_tokens;
} MwChoice;

typedef enum MwCacheStatus
{
	MW_CACHE_OFF, MW_CACHE_MISS, MW_CACHE_HIT, MW_CACHE_SHARED
} MwCacheStatus;

/* ---------- stages ---------- */

/* The one order.  mw_stages[] in call/pipeline.c is indexed by this. */
typedef enum MwStageId
{
	MW_STAGE_REDACT,
	MW_STAGE_GUARDRAIL,
	MW_STAGE_BUDGET,
	MW_STAGE_CACHE,
	MW_STAGE_RETRY,
	MW_STAGE_MODEL,
	MW_NSTAGES
} MwStageId;

typedef struct MwCall MwCall;

/* What mw_explain shows of a stage */
typedef struct MwExplain
{
	const char *verdict;		/* pass, replace, block, hit, miss, ... */
	Jsonb	   *detail;
	char	   *next;			/* what the next stage would see */
	bool		stop;			/* the call would end here */
} MwExplain;

typedef struct MwStage
{
	const char *name;
	void		(*run) (MwCall *call);	/* does its part, calls mw_next(call) in the middle */
	void		(*explain) (MwCall *call, MwExplain *out);	/* says what run would do; calls nobody */
} MwStage;

/* The stages above the pipeline call this to run the next one in. */
#define mw_next(call)	((call)->next(call))

/* ---------- money (gateway/spent.h, gateway/counters.h) ---------- */

#ifndef HAVE_INT128
#error "mw counts money in 128 bit"
#endif

/* Money is exact: in 10^-12 of the currency, in which a price per million tokens with six decimals is a whole number */
typedef int128 MwMoney;

typedef enum MwUnit
{
	MW_REQUESTS, MW_TOKENS, MW_COST, MW_NUNITS
} MwUnit;

typedef enum MwPeriod
{
	MW_FOREVER, MW_MINUTE, MW_HOUR, MW_DAY, MW_MONTH, MW_NWINDOWS
} MwPeriod;

typedef struct MwAmounts
{
	int64		requests;
	int64		tokens;
	MwMoney		cost;
} MwAmounts;

#define MW_NO_LIMIT			PG_INT64_MAX
#define MW_NO_MONEY_LIMIT	((MwMoney) 1 << 100)

/* Limits of one scope (policy.c makes them; a call's scopes point to them) */
typedef struct MwLimits
{
	uint8		windows;		/* a bit a window in which something is limited */
	uint8		requests;		/* ... in which requests are */
	bool		money;			/* cost is, in some window */
	bool		marks;			/* some limit has a soft one */
	MwAmounts	limit[MW_NWINDOWS];
	MwAmounts	soft[MW_NWINDOWS];	/* where a notice appears */
} MwLimits;

/* When a call was admitted, and since when each of its tenant's windows then ran ([MW_FOREVER]: 0) */
typedef struct MwWhen
{
	TimestampTz admitted_at;
	TimestampTz start[MW_NWINDOWS];
} MwWhen;

/* In 10^-12 of the currency a token */
typedef struct MwPrice
{
	bool		known;
	int64		input;
	int64		output;
	int64		cached;
} MwPrice;

#define MW_TENANT_MAX 255		/* bytes of a tenant's name; mw.tenant checks it too */
#define MW_MAX_SCOPES 2

/* What is reserved, and in which counters: all that is needed to give it back */
typedef struct MwHold
{
	int			n;				/* scopes: the tenant, and the session where there is one */
	MwKey		key[MW_MAX_SCOPES];
	uint8		windows[MW_MAX_SCOPES]; /* reserved in these */
	uint32		generation[MW_MAX_SCOPES][MW_NWINDOWS]; /* ... of the counter */
	MwAmounts	amount;			/* the same in each */
} MwHold;

typedef struct MwScope
{
	char	   *session;		/* NULL: the tenant as a whole */
	const char *who;			/* "session" or "tenant", for errors */
	const MwLimits *limits;
} MwScope;

typedef struct MwReservation
{
	MwScope		scopes[MW_MAX_SCOPES];
	MwHold		hold;			/* its n and keys are those of scopes */
	MwWhen		when;
	MwPrice		price;
	MwMoney		bound;			/* what its attempt costs at most (model stage; cost is reserved only where somebody limits it) */
	int64		prompt_tokens;	/* what is asked for ... */
	int64		answer_tokens;
	bool		held;			/* something is reserved now */
	bool		counted;		/* an attempt of this call was sent: it has cost its request */
	bool		hits_only;		/* requests are used up but for hits that were booked in advance */
	const char *channel;		/* where to tell that a soft limit is crossed; NULL: none has one */
	struct MwRefusal *short_of; /* where hits_only, or where a hit was refused: which limit */
	void	   *holder;			/* the transport's: who gives it back at an abort */
} MwReservation;

/* ---------- the call ---------- */

struct MwCall
{
	MemoryContext cxt;			/* everything here; deleted at the end */
	void		(*next) (MwCall *call); /* pipeline.c */
	void		(*use_model) (MwCall *call);	/* call/models.c: server, provider and transport of call->model, for a call that a stage makes */
	int			at;				/* next stage to run */
	int64		stage_us[MW_NSTAGES];	/* self time of each stage, microseconds */

	/* who and what (written by call/invoke.c) */
	const struct MwPolicy *policy;	/* the tenant's policy, one snapshot for all stages */
	const char *tenant;
	const char *session;		/* NULL: one-shot */
	const char *request_id;
	bool		request_named;	/* the caller named it: one transaction at a time, and its result is kept */
	bool		recorded;		/* answers are recorded by it: it was named, or made for a call inside of a run that records (agent/run.c) */
	pg_uuid_t	run_id;
	int			turn;
	int			call_no;		/* numbered in the run: mw_call_number() */
	int		   *last_no;		/* the highest number of the run so far */
	int			attempts_before;	/* highest attempt that an earlier try of this leg has left in the ledger */
	const char *purpose;		/* "model" for the caller's own */
	bool		resend_unknown;

	/* model and server (call/invoke.c) */
	const char *model;			/* server:model, as named */
	const char *model_name;		/* the part after the colon */
	const struct MwServer *server;
	const struct MwProvider *provider;
	const struct MwTransport *transport;	/* the gateway, or its twin for api 'fake' */

	/* fallback (call/models.c fills, stage/fallback.c moves on) */
	Jsonb	   *fallback;		/* options.fallback, NULL where the call says nothing */
	MwChoice   *choices;		/* all models that may be asked, in order; NULL where there is but one */
	int			nchoices;
	int			chosen;			/* the one that model, server and so on are of */
	List	   *fallback_on;	/* of int: statuses after which another model is asked, too */
	List	   *left_out;		/* of char *: the tenant's fallbacks that this call cannot ask, and why */
	List	   *failures;		/* of MwFailure: the models asked before */
	MwUsage		failed_usage;	/* what their calls used */

	/* the request (invoke.c fills, redact and guardrail rewrite) */
	MwMessage  *messages;
	int			nmessages;
	Jsonb	   *tools;			/* OpenAI-style schemas, canonical; NULL for none */
	Jsonb	   *params;			/* temperature and the like, as given; NULL for none */
	int64		max_tokens;		/* asked for, or the default */
	int64		send_max_tokens;	/* what is sent: shrunk by the budget stage where only part fits */
	int64		run_tokens;		/* options.limits.tokens: caps this run; 0 where not given */
	MwMoney		run_cost;		/* options.limits.cost; -1 where not given */
	bool		redact;
	bool		guardrail;
	const char *cache_mode;		/* on, off, refresh */
	MwInstant	deadline;		/* one for the whole call */
	int			timeout_ms;

	/* redact */
	MwPiiMap	map;

	/* guardrail */
	bool		guard_logged;	/* a guard in mode log matched: a notice in the result */

	/* budget */
	int64		prompt_tokens;	/* our own upper-bound count of what is sent */
	MwReservation reserved;
	MwMoney		cost;			/* of all that this run sent (model stage) */
	bool		unpriced;		/* some of it had no price */
	const char *ended_by;		/* "budget", "guardrail": the run ended with a text of the tenant's; else NULL */
	char	   *body;			/* the request as asked for (budget stage): what "the same bytes" means */
	int			body_len;
	MwKey		call_key;		/* of body: names a recorded answer */
	int			nth;			/* the how manieth answer to these bytes this run asks for, from 0 */
	int			(*nth_of) (const MwCall *call); /* src/agent: how many answers to call_key the run has; NULL: this is its only call */
	void	   *run;			/* ... the run */

	/* cache */
	MwKey		cache_key;		/* of call_key and the versions of the rules */
	bool		cacheable;		/* the gateway may store the answer under cache_key */
	int64		cache_epoch;	/* read when the call starts: a purge in flight wins */
	int			cache_ttl;		/* seconds */
	MwCacheStatus cache;
	bool		alone;			/* joins no equal miss */

	/* retry and model */
	bool		once;			/* no retries: a middleware of its agent does that */
	int			attempt;		/* of this call, from 1 */
	bool		afresh;			/* it takes a connection of its own, since a kept one had died (retry stage) */
	uint32		breaker;		/* how this attempt passed the server's breaker (retry stage; see MwAttempt) */
	struct MwReply *reply;		/* what became of the last attempt (model stage; read by retry) */
	bool		retry_unknown;	/* the server's option: unknown outcomes are sent again */
	bool		replayed;		/* the answer had been recorded: nothing was paid */
	bool		had;			/* the nth request of these bytes was answered, or may have been: the next one is another */
	MwFailure  *failure;		/* set where a call of the retry stage comes back without an answer */
	MwAnswer   *answer;

	List	   *notices;		/* of char *, for the result */
};

/* No two calls of a run have the same number in the ledger */
static inline void
mw_call_number(MwCall *call, int no)
{
	call->call_no = no;
	*call->last_no = Max(*call->last_no, no);
}

#endif							/* MW_H */
