/*
 * agent.h - the words of the agent: a message, a tool, a middleware, a run.
 *
 * A run is LangChain's loop: model, tools, model again, until there are no tool
 * calls, with six hooks around it.  Everything that travels between its parts is
 * immutable: a message, a request or a response is never written to once it was
 * handed on; who wants another one makes a copy.  So what a hook catches, what a
 * middleware repeats and what a subtransaction takes back needs no undoing in
 * memory: only the loop itself (loop.c) applies results to the run, after the
 * step that brought them has succeeded.
 *
 * Who owns what: a run, and all that is made during it, lives in run->cxt, a
 * child of the context of whoever called, and dies with it on an ERROR too.  The
 * parsed definitions of agents and tools are kept beyond it, for the next run
 * (definitions.c), and nobody writes to them.  There is no other static but the
 * stack of running hooks (frame.c), which errors unwind.
 *
 * Directions: surface.c -> run.c -> loop.c -> (nodes: model_node.c, tool_node.c,
 * hook*.c) -> middleware (built-in ones, a file each) -> thread.c, state.c,
 * message.c.  Each model call is an MwCall of the six stages.
 */
#ifndef MW_AGENT_H
#define MW_AGENT_H

#include "mw.h"

#include "call/call.h"
#include "util/schema.h"

typedef struct MwRun MwRun;
typedef struct MwMiddleware MwMiddleware;
typedef struct MwTool MwTool;
typedef struct MwReveal MwReveal;

/* ---------- message.c ---------- */

/* A message of a thread.  Immutable but for the place that the thread gives it. */
typedef struct MwMsg
{
	const char *id;				/* unique in the thread */
	const char *role;			/* system, user, assistant, tool */
	Jsonb	   *json;			/* whole, as mw_messages() shows it: id, role, content, tool_calls, ..., placeholders inside */
	char	   *text;			/* its content as text, never NULL */
	MwToolCall *calls;			/* assistant: those with arguments */
	int			ncalls;
	MwToolCall *invalid;		/* ... and those whose arguments are no JSON object */
	int			ninvalid;
	const char *tool_call_id;	/* tool: what it answers */
	const char *name;			/* tool: whose result; else what the message says, or NULL */
	bool		failed;			/* tool: its status is error */
	bool		answered;		/* assistant: a model said it, in this leg or an earlier one (who replaces it says it anew) */

	/* thread.c: where its row stands; 0 while it has none */
	int64		seq;
	double		position;
	int			generation;		/* of the list that it was seen in last */
} MwMsg;

/* A message from JSON of either spelling (mw's, OpenAI's); makes an id where there is none.  MW001 with "what" and what is wrong. */
extern MwMsg *mw_msg_read(MwRun *run, Jsonb *json, const char *what);
/* From parts; content NULL is "".  The id is new. */
extern MwMsg *mw_msg_text(MwRun *run, const char *role, const char *content);
extern MwMsg *mw_msg_tool(MwRun *run, const MwToolCall *call, const char *content, bool failed);	/* a result */
extern MwMsg *mw_msg_tool_parts(MwRun *run, const MwToolCall *call, Jsonb *parts, bool failed);	/* ... that is a list of parts */
extern MwMsg *mw_msg_of_answer(MwRun *run, const MwAnswer *answer);
/* Copies with one thing changed; the id stays, so that in a patch it replaces the message */
extern MwMsg *mw_msg_with_content(MwRun *run, const MwMsg *msg, JsonbValue *content);
extern MwMsg *mw_msg_with_text(MwRun *run, const MwMsg *msg, const char *text);
extern MwMsg *mw_msg_with_calls(MwRun *run, const MwMsg *msg, const MwToolCall *calls, int ncalls);
extern MwMsg *mw_msg_with_metadata(MwRun *run, const MwMsg *msg, const char *key, Jsonb *value);
extern bool mw_msg_is(const MwMsg *msg, const char *role);
extern int	mw_msgs_last(List *msgs, const char *role); /* the place of the newest one; -1: none */
extern Jsonb *mw_msgs_json(List *msgs);	/* of MwMsg, as an array */

/* ---------- tools (tool*.c) ---------- */

typedef enum MwToolKind
{
	MW_TOOL_FUNCTION,			/* an SQL function */
	MW_TOOL_CLIENT,				/* the application executes it: the run ends with status tool_calls */
	MW_TOOL_BUILTIN				/* C: a middleware's or a ready-made one */
} MwToolKind;

typedef struct MwToolRequest
{
	MwToolCall *call;			/* id, name, args */
	const MwTool *tool;			/* NULL: the model made the name up */
} MwToolRequest;

typedef struct MwToolResponse
{
	MwMsg	   *msg;			/* role tool */
	Jsonb	   *update;			/* of the state; NULL for none */
} MwToolResponse;

struct MwTool
{
	const char *name;
	const char *description;	/* NULL for none */
	Jsonb	   *parameters;		/* JSON schema of the arguments; never NULL */
	MwToolKind	kind;
	bool		return_direct;

	/* functions (tool_run.c) */
	const char *signature;		/* schema.name(types) */
	Jsonb	   *fixed;			/* arguments that the model is not asked for: an object; NULL for none */
	Oid			commented;		/* ... whose COMMENT is the description; else InvalidOid */
	bool		typed;			/* arguments are passed one by one, not as one jsonb */
	bool		writes;
	int			timeout_ms;		/* 0: none of its own */
	int64		max_bytes;		/* of a result; 0: the default */
	int64		max_rows;
	MwReveal   *reveal;			/* gets values instead of placeholders; NULL: it does not (values.h) */
	Jsonb	   *approval;		/* the tool's own gate; NULL for none */

	/* built in */
	MwToolResponse *(*run) (MwRun *run, const MwTool *tool, MwToolCall *call);
	MwMiddleware *owner;		/* who brought it; NULL for the agent's own */
};

/* Of a list of MwTool * (run_tools.c) */
extern MwTool *mw_tools_find(List *tools, const char *name);	/* NULL */
extern char *mw_tools_list(List *tools);	/* their names, for an error */

/*
 * tool_catalog.c: the tool of that name as the current role may use it for this
 * tenant (a tenant's own row wins over '*'), or NULL.  It is kept (definitions.c)
 * and not to be written to.  MW001 where its function is gone or can no longer be
 * a tool.
 */
extern MwTool *mw_tool_find(const char *tenant, const char *name);
extern List *mw_tool_names(const char *tenant);	/* of char *: all that can be named, for hints */
/* A tool that an application executes, from its OpenAI-style schema (one element of mw_tools_read's result) */
extern MwTool *mw_tool_client(Jsonb *schema);
/* All of them as OpenAI-style schemas, for MwInvokeArgs.tools; NULL for none */
extern Jsonb *mw_tools_schemas(List *tools);

/*
 * tool_run.c: run a function inside a subtransaction of its own, as the caller,
 * within its limits.  Arguments hold placeholders; they are restored here, from
 * run->map, and then checked: what breaks the schema, or is no value of its type,
 * gives a failed message with LangChain's text and runs nothing.  An error of
 * the function leaves as it is (own SQLSTATE and message), after its effects were
 * undone; MW404 where it took longer than its timeout.
 */
extern MwToolResponse *mw_tool_run(MwRun *run, const MwTool *tool, MwToolCall *call);
/* A failed message where the arguments break the tool's schema, whatever its kind; NULL where they do not.  Runs nothing. */
extern MwToolResponse *mw_tool_misused(MwRun *run, const MwTool *tool, MwToolCall *call);
/*
 * What came from outside as a tool's result: redacted with the run's
 * placeholders and judged (MW202, MW201) as run->base says, in a message.
 */
extern MwToolResponse *mw_tool_result(MwRun *run, const MwToolCall *call, const char *content, bool failed);

/* ---------- patches (state.c, thread.c) ---------- */

typedef enum MwJump
{
	MW_JUMP_NONE, MW_JUMP_END, MW_JUMP_MODEL, MW_JUMP_TOOLS
} MwJump;

typedef enum MwMsgOpKind
{
	MW_MSG_PUT,					/* append; or replace the one with its id */
	MW_MSG_REMOVE,
	MW_MSG_REMOVE_ALL			/* everything before it goes; what follows is the thread */
} MwMsgOpKind;

typedef struct MwMsgOp
{
	MwMsgOpKind kind;
	MwMsg	   *msg;			/* put */
	const char *id;				/* remove; put: a new one comes before this message, NULL: at the end */
} MwMsgOp;

/* What a node hook wants changed */
typedef struct MwPatch
{
	List	   *msgs;			/* of MwMsgOp */
	Jsonb	   *fields;			/* an object: state fields by name; NULL for none */
	MwJump		jump;
} MwPatch;

extern MwPatch *mw_patch_new(void);
extern void mw_patch_put(MwPatch *patch, MwMsg *msg);
extern void mw_patch_put_before(MwPatch *patch, MwMsg *msg, const char *before);	/* NULL: at the end */
extern void mw_patch_remove(MwPatch *patch, const char *id);
extern void mw_patch_remove_all(MwPatch *patch);
extern void mw_patch_field(MwPatch *patch, const char *name, JsonbValue *value);
extern void mw_patch_int(MwPatch *patch, const char *name, int64 value);

extern Jsonb *mw_state_json(MwRun *run); /* the whole state as hooks see it, messages included; not to be written to */
/* A field of the state as it is now; NULL where it is not set */
extern JsonbValue *mw_state_get(MwRun *run, const char *name);
extern int64 mw_state_int(MwRun *run, const char *name, int64 otherwise);
/* One number of an object field by key, such as counts by tool */
extern int64 mw_state_count(MwRun *run, const char *name, const char *key);

/* Declared fields of a state */
typedef struct MwField
{
	const char *name;
	JsonbValue *initial;		/* NULL: absent until set */
	bool		append;			/* reducer: values are appended to a list, else they replace */
	bool		private;		/* neither taken from options.state nor shown in a result */
	bool		no_input;		/* shown, and not taken from options.state */
	bool		untracked;		/* lives as long as the run, over its pauses, and is not part of the thread */
	const char *owner;			/* which middleware declares it, for errors */
} MwField;

extern List *mw_fields_count(const char *owner, const char *thread, const char *run);	/* state.c */

/* ---------- model calls (model_node.c) ---------- */

typedef struct MwFormat			/* response_format (structured.c) */
{
	const char *name;			/* of the schema at the provider */
	Jsonb	   *schema;
	bool		strict;			/* the provider is asked to keep to it */
	bool		by_tool;		/* asked for as a tool call, else by the provider's own response_format */
	List	   *tools;			/* of MwTool *: by_tool, one a schema of a oneOf */
	const char *tool_message;	/* tool_message_content; NULL: LangChain's */
	bool		handle_errors;	/* a breach is told to the model, else raised ... */
	const char *error_text;		/* ... with this text; NULL: LangChain's */
} MwFormat;

typedef struct MwModelRequest
{
	const char *model;			/* server:model */
	Jsonb	   *model_settings;	/* NULL for none */
	const char *system_prompt;	/* NULL for none */
	List	   *messages;		/* of MwMsg *, without the system prompt */
	List	   *tools;			/* of MwTool *, in order */
	JsonbValue *tool_choice;	/* NULL: not said */
	const MwFormat *format;		/* NULL for none */
	const char *purpose;		/* model, summary, tool_selection, tool_emulation, ...; the ledger's column */
	int			quote_at;		/* a helper's: its last message is the developer's but for so many of its bytes ... */
	int			quote_len;		/* ... from there on, which are of the conversation; 0: no helper's */
	bool		fresh;			/* a further try: does not read the cache */
	bool		once;			/* the retry stage sends once: who asks tries again itself */
} MwModelRequest;

typedef struct MwModelResponse
{
	List	   *messages;		/* of MwMsg *: the answer, and what structured output adds to it */
	Jsonb	   *structured;		/* NULL for none */
	List	   *updates;		/* of Jsonb *: state patches of wrap hooks, innermost first */
} MwModelResponse;

/* The next one in: another middleware's wrap_model_call, at last the six stages */
extern MwModelResponse *mw_next_model(MwRun *run, int level, const MwModelRequest *req);
extern MwToolResponse *mw_next_tool(MwRun *run, int level, const MwToolRequest *req);
/* A model call of a middleware's own: passes the six stages, counts as a call of the run, not as a turn; no hooks */
extern MwMsg *mw_model_ask(MwRun *run, const MwModelRequest *req);

extern MwModelRequest *mw_request_copy(const MwModelRequest *req);
extern MwMsg *mw_response_answer(const MwModelResponse *resp);	/* its assistant's message, NULL for none */
extern MwModelResponse *mw_response_of(MwMsg *msg);

/* ---------- errors inside a run (frame.c) ---------- */

typedef struct MwError
{
	ErrorData  *edata;			/* as it was raised, in run->cxt */
	const MwMiddleware *at;		/* whose it is (MwRun.at) */
	int			http_status;	/* of a model call that failed with a status; else 0 */
	int64		retry_after_ms; /* ... and what the provider asked to wait; -1 where it asked for nothing */
} MwError;

/*
 * Run the next one in inside a subtransaction: NULL, with *err set, after an
 * ERROR that may be caught, whose effects are undone.  A pause, a cancel, a
 * termination, MW605, and what means that the run must not go on (MW101, MW501,
 * MW502) are not caught.
 */
extern MwModelResponse *mw_try_model(MwRun *run, int level, const MwModelRequest *req, MwError **err);
extern MwToolResponse *mw_try_tool(MwRun *run, int level, const MwToolRequest *req, MwError **err);
extern MwMsg *mw_try_ask(MwRun *run, const MwModelRequest *req, MwError **err);
extern _Noreturn void mw_rethrow(MwRun *run, MwError *err);
/* Wait on the latch, interruptible */

/* ---------- middleware ---------- */

/* What a type of middleware is: a row of registry.c's table, a file each */
typedef struct MwMiddlewareType
{
	const char *type;			/* as in JSON */
	const char *const *options; /* allowed keys beside "type" and "name"; NULL-terminated */

	/*
	 * Read and check the options into m->conf; name m (m->name) where its
	 * default is not the type's.  MW001 with a hint for what is wrong.
	 */
	void		(*read) (MwMiddleware *m, Jsonb *options);
	/* What it brings: fields of the state, tools.  NULL-able.  Lists of MwField *, MwTool *. */
	List	   *(*fields) (MwMiddleware *m);
	List	   *(*tools) (MwMiddleware *m);

	/* Of char *: hooks that this one has, where that differs from its type's; NULL-able */
	List	   *(*hooks_of) (MwMiddleware *m);

	/* Node hooks: what to change, NULL for nothing */
	MwPatch    *(*before_agent) (MwRun *run, MwMiddleware *m);
	MwPatch    *(*before_model) (MwRun *run, MwMiddleware *m);
	MwPatch    *(*after_model) (MwRun *run, MwMiddleware *m);
	MwPatch    *(*after_agent) (MwRun *run, MwMiddleware *m);
	/* Wrap hooks: call the next one in none, once or several times */
	MwModelResponse *(*wrap_model) (MwRun *run, MwMiddleware *m, const MwModelRequest *req, int level);
	MwToolResponse *(*wrap_tool) (MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level);
} MwMiddlewareType;

struct MwMiddleware
{
	const MwMiddlewareType *kind;
	const char *name;			/* unique in the agent */
	int			index;			/* place in the list */
	void	   *conf;			/* of its type */
	const char *tenant;			/* for whom it is read: models and tools are looked up for it */
	const char *model;			/* of the agent, server:model; what an option "model" defaults to.  NULL where none is known yet */
	MwReveal   *reveal;			/* its hooks get values instead of placeholders, as the agent says; NULL: they do not */
	List	   *named_tools;	/* of MwNamedTool *: what its options name; whoever makes an agent is warned of unknown ones */
};

extern const MwMiddlewareType *mw_middleware_type(const char *type);	/* NULL */
extern char *mw_middleware_types(void); /* for hints */

typedef struct MwNamedTool
{
	const char *key;			/* the option */
	const char *tool;
} MwNamedTool;

typedef struct MwNamedModel
{
	const char *model;			/* server:model */
	Jsonb	   *settings;		/* NULL for none */
} MwNamedModel;

/* middleware_options.c: option readers; MW001 "option X of middleware Y ..." with what it must be.  All take NULL for absent. */
extern int64 mw_opt_int(MwMiddleware *m, Jsonb *options, const char *key, int64 otherwise, int64 least, int64 most);
extern double mw_opt_number(MwMiddleware *m, Jsonb *options, const char *key, double otherwise, double least, double most);
extern bool mw_opt_bool(MwMiddleware *m, Jsonb *options, const char *key, bool otherwise);
extern char *mw_opt_text(MwMiddleware *m, Jsonb *options, const char *key, const char *otherwise);
extern int	mw_opt_choice(MwMiddleware *m, Jsonb *options, const char *key, int otherwise, const char *const *words);	/* index into words */
extern List *mw_opt_texts(MwMiddleware *m, Jsonb *options, const char *key);	/* of char *; NIL where absent */
extern bool mw_opt_given(Jsonb *options, const char *key);	/* present and not null */
extern List *mw_opt_statuses(MwMiddleware *m, Jsonb *options, const char *key);	/* of int: HTTP statuses; NIL where absent */
extern List *mw_opt_tools(MwMiddleware *m, Jsonb *options, const char *key);	/* mw_opt_texts of names of tools, which are noted in m->named_tools */
extern void mw_opt_names_tool(MwMiddleware *m, const char *key, const char *tool);	/* notes one */
extern char *mw_opt_model(MwMiddleware *m, Jsonb *options, const char *key, Jsonb **settings); /* text or {"model","model_settings"}; NULL where absent */
extern List *mw_opt_models(MwMiddleware *m, Jsonb *options, const char *key);	/* of MwNamedModel *; NIL where absent */
extern char *mw_opt_function(MwMiddleware *m, Jsonb *options, const char *key); /* {"function": "schema.name"}: its signature f(jsonb, jsonb) returning jsonb or text; NULL where the option is something else */
extern _Noreturn void mw_opt_wrong(MwMiddleware *m, const char *key, const char *must_be);
/* Call such a function as the caller: (subject, runtime); NULL where it returns NULL, a text as jsonb.  "what" names it in errors. */
extern Jsonb *mw_option_call(MwRun *run, const char *signature, Jsonb *subject, const char *what);
extern Jsonb *mw_runtime_json(MwRun *run);

/* ---------- an agent ---------- */

typedef enum MwTracing
{
	MW_TRACE_STEPS, MW_TRACE_FULL, MW_TRACE_OFF
} MwTracing;

typedef struct MwAgent
{
	const char *name;			/* NULL: an ad hoc one, of a call that only names tools */
	int			version;
	const char *owner;			/* whose row it is: the tenant, or '*'; NULL for an ad hoc one */
	const char *model;			/* as given, may be {"model", "model_settings"} text; NULL: the tenant's */
	List	   *allow_model;	/* of char *: what a call may name instead */
	const char *system_prompt;
	Jsonb	   *tools;			/* names, and schemas that the application executes; looked up when a run begins */
	MwMiddleware **middleware;
	int			nmiddleware;
	Jsonb	   *model_settings;
	Jsonb	   *response_format;
	int			max_turns;		/* default 25 */
	Jsonb	   *limits;			/* as options.limits; NULL */
	List	   *fields;			/* of MwField *: of the agent and of its middlewares */
	bool		resume_any;
	int			hook_timeout_ms;	/* 0: none */
	Jsonb	   *context_schema;	/* of options.context; NULL */
	char	   *on_budget_end;	/* text a run ends with; NULL: error */
	char	   *on_guardrail_end;
	bool		retries;		/* a middleware retries models: the retry stage sends once */
	MwTracing	trace;			/* what mw.trace keeps of its runs */
} MwAgent;

/* config.c: MW001 for whatever can be checked; looks tools, functions and models up for the tenant */
extern MwAgent *mw_agent_read(const char *tenant, const char *name, int version, Jsonb *config);
extern int	mw_duration_of(JsonbValue *v, const char *what);	/* an interval or seconds, in milliseconds */
extern void mw_agent_append(MwAgent *agent, const char *tenant, Jsonb *middleware);	/* one more, innermost, for this run */
extern MwAgent *mw_agent_ad_hoc(void);	/* of a call that names tools, or keeps memory, without an agent */
extern char *mw_agent_names(const char *tenant);	/* for hints */
/* agents.c: the agent of a name for a tenant, as it is kept (definitions.c): owner's at a version, or, with owner NULL, the newest of the one that wins; NULL */
extern const MwAgent *mw_agent_find(const char *tenant, const char *owner, const char *name, int version);
/* ... for a reviewer, who may not see the tenant's rows */
extern MwAgent *mw_agent_of_run(const char *tenant, const char *owner, const char *name, int version);

/* ---------- pauses (approval.c, human_in_the_loop.c) ---------- */

struct MwInterrupt;

/* ---------- a run ---------- */

typedef struct MwSeen			/* requests by their bytes: the n-th time counts (invariant 5) */
{
	MwKey		key;
	int			times;
} MwSeen;

typedef struct MwSeenList
{
	MwSeen	   *seen;
	int			n;
} MwSeenList;

struct MwRun
{
	MwRun	   *outer;			/* whose tool or hook has called this one; NULL */
	MemoryContext cxt;
	const MwInvokeArgs *args;
	MwCall	   *base;			/* who, which policy, ids, deadline, options: model calls are made from it */
	const char *tenant;
	const char *session;		/* NULL: no thread is kept */
	bool		memory;			/* the session keeps the thread */
	uint64		id_seed;		/* of the ids of its messages ... */
	uint64		nmsgs;			/* ... and how many it has given */
	pg_uuid_t	run_id;
	char		run_id_text[MW_RUN_ID_CHARS + 1];
	const MwAgent *agent;
	List	   *tools;			/* of MwTool *: what may run, those of middlewares first */
	List	   *offered;		/* ... what a model is offered by default ... */
	Jsonb	   *offered_json;	/* ... as its calls take it; NULL: not made yet */
	Jsonb	   *options;		/* as the caller gave them; NULL */
	Oid			role;			/* whose run it is */
	Oid			through;		/* mw_outer_role() */
	Jsonb	   *context;		/* options.context; NULL */
	MwCallUse	use;			/* run, or explain */
	bool		return_errors;	/* options.on_error = return */
	bool		busy_fails;		/* options.session_busy = error */

	/* the thread and the state, as they are after the last step */
	List	   *msgs;			/* of MwMsg *, in order */
	Jsonb	   *state;			/* an object: fields but messages */
	struct
	{
		Jsonb	   *json;		/* as hooks see them; NULL: not asked for ... */
		List	   *msgs;		/* ... made of these */
		Jsonb	   *state;
		Jsonb	   *structured;
	}			seen_state;
	int			step;			/* of the thread */
	bool		goes_on;		/* earlier legs of the run have left rows */
	int			turn;			/* of this run */
	int			calls;			/* model calls so far */
	int			last_no;		/* in the ledger: those of guards and fallbacks have numbers too */
	int			attempts_before;	/* highest attempt that an earlier try of this leg has left there */
	int			max_turns;
	int64		max_calls;		/* 0: no limit ... */
	int64		max_tokens;
	MwMoney		max_cost;		/* -1: no limit */
	int			wall_ms;		/* of this leg; 0: no limit */
	MwInstant	wall;
	bool		limit_ends;		/* turns, calls and time end the run, else MW601 */
	MwSeenList	seen;			/* answers to its own requests */
	MwSeenList	inside;			/* calls of its tools and hooks that name no request */

	/* placeholders of this run and its session */
	MwPiiMap	map;

	/* of this leg, for its result */
	List	   *input;			/* of MwMsg *: what its caller said */
	MwUsage		usage;
	MwMoney		cost;
	int64		replayed_tokens;	/* of answers out of the record: they count in its limits, not in its result */
	MwMoney		replayed_cost;
	int64		inner_tokens;	/* of runs that its tools and hooks have called: they count in its limits, not in its result */
	MwMoney		inner_cost;
	int			inner_calls;
	bool		unpriced;
	MwCacheStatus cache;		/* of the last model call that was the run's own */
	List	   *notices;
	int64		stage_us[MW_NSTAGES];
	const char *ended_by;
	Jsonb	   *structured;
	const char *model;			/* of the last model call */
	int			http_status;	/* of the last model call that failed; 0 */
	int64		retry_after_ms; /* ... what its provider asked to wait; -1 */

	/* what must not be caught, and who raised the last error first (frame.c) */
	ErrorData  *sticky;
	struct MwFault
	{
		int			kind;		/* MwFaultKind */
		const char *who;		/* the tool, or the middleware ... */
		const char *where;		/* ... and its hook; NULL: "who" is an option that is a function */
		int			sqlstate;
		const char *message;
	}			fault;
	ErrorData  *error;			/* what ended the run, where errors are returned */
	const MwMiddleware *at;		/* whose hook runs, the innermost one's; after an error whose it was.  NULL: the model, a tool, the loop */
	struct MwInterrupt *paused;	/* set with it by a pause, until the loop has noted it */
	struct MwApprovals *approvals;	/* what was asked for, and what was decided (approval.c) */
	struct MwThreadStore *store;	/* thread.c */
	struct MwTrace *trace;		/* trace.c */

	/* the loop */
	struct MwPlace *place;		/* where it stands (thread.h) */
	const char *first_model;	/* what a turn asks unless a middleware changes it ... */
	Jsonb	   *first_settings;
	const MwFormat *format;		/* NULL for none */
	bool		waits_for_client;	/* it stopped for tools that the application executes */
	bool		interrupted;	/* ... for an approval */
	List	   *batch;			/* of char *: calls that have run while a sibling of theirs waits */
	MwKey		fingerprint;	/* of its request, where that is named */
};

/* count.c: LangChain's approximate count, for triggers and for keeping: characters / 4 and 3 a message, each rounded up */
extern int64 mw_count_msg(const MwMsg *msg);
extern int64 mw_count_msgs(List *msgs);
/* The model catalogue's context size; 0: not known */
extern int64 mw_model_context(MwRun *run, const char *model);

#endif
