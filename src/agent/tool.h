/*
 * tool.h - what the files of tools share: a function as a tool sees it.
 */
#ifndef MW_TOOL_H
#define MW_TOOL_H

#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "tcop/dest.h"

#include "agent/agent.h"

typedef struct MwToolArg
{
	const char *name;			/* NULL: it has none */
	Oid			type;
	bool		optional;		/* has a DEFAULT, or is VARIADIC */
	bool		variadic;
	Node	   *otherwise;		/* its DEFAULT; NULL for none */
} MwToolArg;

/* The signature of a function: its input arguments in order, and what comes back */
typedef struct MwToolFunction
{
	Oid			fn;
	MwToolArg  *args;
	int			nargs;
	Oid			result;
	bool		returns_set;
	bool		variadic;
	const char *column;			/* the only column of RETURNS TABLE or OUT, by name; else NULL */

	/* tool_run.c: of one that is kept */
	MemoryContext cxt;			/* where it lives */
	char	   *path;			/* search_path that it runs with */
	List	   *plans;			/* of calls, by which arguments are given */
} MwToolFunction;

/* A row of mw.tool */
typedef struct MwToolRow
{
	char	   *tool;
	char	   *function;		/* signature */
	char	   *description;	/* NULL: the function's COMMENT */
	Jsonb	   *parameters;		/* NULL: from its signature */
	Jsonb	   *options;
} MwToolRow;

/* tool_catalog.c */
/* In the current context.  The row stays as it is, and must live as long.  MW001 for whatever is wrong with it.  *function may be NULL. */
extern MwTool *mw_tool_make(const MwToolRow *row, MwToolFunction **function);

#define mw_tool_bad_option(key, ...) \
	ereport(ERROR, \
			errcode(ERRCODE_MW_BAD_ARGUMENT), \
			errmsg("option \"%s\" of a tool cannot be used", key), \
			errdetail(__VA_ARGS__))

/* tool_schema.c */
extern MwToolFunction *mw_tool_function(Oid fn);
/* What keeps a function from being a tool, as a sentence; *hint: how to mend it.  NULL: nothing. */
extern char *mw_tool_function_fault(const MwToolFunction *f, bool typed, char **hint);
/* JSON schema of its arguments but for those that are fixed (an object, or NULL) */
extern Jsonb *mw_tool_schema(const MwToolFunction *f, Jsonb *fixed);
extern const MwToolArg *mw_tool_arg(const MwToolFunction *f, const char *name, int len);

/* tool_args.c: arguments as a model gave them, with the fixed ones, into values by place; absent[i]: its DEFAULT */
extern void mw_tool_values(const MwToolFunction *f, Jsonb *args, Datum *values, bool *nulls, bool *absent);
/* Arguments as they are checked: a number or truth value in quotes is one, null for what has a DEFAULT is absent */
extern Jsonb *mw_tool_lenient(const MwToolFunction *f, Jsonb *args);
/* ... by a schema of one's own */
extern Jsonb *mw_tool_forgiven(Jsonb *schema, Jsonb *args);
extern Jsonb *mw_tool_merge(Jsonb *args, Jsonb *fixed);	/* fixed wins; NULL: none */

/* tool_result.c: what a function returns, received as it comes */
typedef struct MwToolReturn
{
	DestReceiver pub;			/* must be first */
	const MwTool *tool;
	const MwToolFunction *f;
	MemoryContext cxt;			/* where text and update live */
	MemoryContext row_cxt;
	FmgrInfo	to_jsonb;
	StringInfoData text;
	bool		json;			/* text is JSON: redacted leaf by leaf */
	Jsonb	   *update;
	int64		rows;
	bool		more;			/* rows were left out */
} MwToolReturn;

extern MwToolReturn *mw_tool_return(const MwTool *tool, const MwToolFunction *f);
/* As a model may see it: within the tool's limits, redacted; parts: of a content, then what is returned is their text; else NULL */
extern char *mw_tool_shown(MwRun *run, MwToolReturn *r, Jsonb **parts);
/* With the run's placeholders, where it redacts at all; MW201 */
extern char *mw_tool_redact_text(MwRun *run, char *text, int len);
extern Jsonb *mw_tool_redact_json(MwRun *run, Jsonb *json);
extern void mw_tool_judge(MwRun *run, char *text);	/* MW202 */

/* tool_run.c: what came of a call */
typedef struct MwToolOutcome
{
	char	   *content;
	Jsonb	   *parts;			/* the content, where it is made of several: images beside texts; NULL */
	Jsonb	   *update;			/* of the state; NULL for none */
	bool		failed;			/* the arguments were wrong, and nothing was run */
} MwToolOutcome;

/* A plan, by the transaction's snapshot; count 0: all rows */
extern void mw_plan_run(PlannedStmt *plan, const char *text, ParamListInfo params, DestReceiver *dest, uint64 count);
extern MwToolOutcome *mw_tool_outcome(MwRun *run, const MwTool *tool, Jsonb *args);

/* tool_time.c: a limit of time, of this tool alone */
typedef struct MwToolTimer
{
	struct MwToolTimer *outer;
	TimestampTz end;			/* 0: none */
	int64		left;			/* microseconds, while it stands still */
	bool		rang;
} MwToolTimer;

/* Each start has its stop, also on an ERROR.  ms 0: no limit of its own */
extern void mw_tool_timer_start(MwToolTimer *timer, int ms);
/* It stands still, and goes on; NULL is none.  57014 where it has rung. */
extern void mw_tool_timer_pause(MwToolTimer *timer);
extern void mw_tool_timer_go_on(MwToolTimer *timer);
/* Whether an ERROR may come from a timer: it has the code and the text of a cancel */
extern bool mw_tool_timer_cut(const ErrorData *edata);
/* Whether its time had passed.  interrupted: such an ERROR has come out of what was timed */
extern bool mw_tool_timer_stop(MwToolTimer *timer, bool interrupted);

#endif
