/*
 * userfunc_call.c - functions of users, run.
 *
 * To look a function up, to ask for its rights and to plan its body costs more
 * than most bodies do; one in LANGUAGE sql would be parsed and planned at every
 * call.  So the call of it is kept, as an expression that the planner has seen:
 * a body that is one expression stands in it directly.  It is kept for each role,
 * with the generation (watch.h) at which it was made.
 *
 * An expression is no place for two calls at once.  Where a function is reached
 * again while it runs (a tool that asks the same agent), the inner call makes one
 * of its own.  After an ERROR it may be half way through, and is not used again.
 * Whatever runs it still lives no longer than the transaction: there it goes.
 *
 * All of it belongs to the process; no lock.
 */
#include "mw.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/params.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "policy/userfunc.h"
#include "policy/watch.h"

#define MAX_KEPT	512			/* of some kB each */
#define MAX_NAME	400			/* bytes of a signature; longer ones are made each time */

typedef struct Key
{
	Oid			role;
	bool		own_path;
	char		signature[MAX_NAME];
} Key;

typedef struct Prepared
{
	Key			key;
	uint64		generation;
	MemoryContext cxt;
	char	   *path;
	ExprState  *state;
	ExprContext *econtext;
	ParamListInfo params;
	Oid			type;			/* of the result */
	int16		len;
	bool		byval;
	bool		busy;
} Prepared;

static HTAB *kept;

/* The call of a function that this role may run, in the current memory context */
static void
prepare(Prepared *p, const char *signature, const char *what, int nargs, bool own_path)
{
	Oid			fn = mw_userfunc_open(signature, what);
	Oid		   *types;
	int			n;
	List	   *args = NIL;
	MwUserFrame frame;
	Expr	   *call;

	p->cxt = CurrentMemoryContext;
	p->busy = false;
	p->type = get_func_signature(fn, &types, &n);
	if (n != nargs)
		elog(ERROR, "mw: %s has %d arguments, not %d", signature, n, nargs);
	get_typlenbyval(p->type, &p->len, &p->byval);
	p->path = mw_userfunc_path(own_path ? fn : InvalidOid);
	p->params = makeParamList(nargs);
	for (int i = 0; i < nargs; i++)
	{
		Param	   *param = makeNode(Param);

		param->paramkind = PARAM_EXTERN;
		param->paramid = i + 1;
		param->paramtype = types[i];
		param->paramtypmod = -1;
		param->location = -1;
		args = lappend(args, param);
		p->params->params[i] = (ParamExternData) {.pflags = PARAM_FLAG_CONST, .ptype = types[i]};
	}
	call = (Expr *) makeFuncExpr(fn, p->type, args, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);

	/* names in a body that is inlined are looked up here */
	mw_userfunc_enter(&frame, p->path);
	p->state = ExecInitExpr(expression_planner(call), NULL);
	mw_userfunc_leave(&frame);
	p->econtext = CreateStandaloneExprContext();
	p->econtext->ecxt_param_list_info = p->params;
}

/* It is not used again, and goes with the transaction */
static void
forget(Prepared *p)
{
	MemoryContextSetParent(p->cxt, TopTransactionContext);
	(void) hash_search(kept, &p->key, HASH_REMOVE, NULL);
}

static void
make_room(void)
{
	HASH_SEQ_STATUS seq;
	Prepared   *p;

	hash_seq_init(&seq, kept);
	while ((p = hash_seq_search(&seq)) != NULL)
		if (!p->busy)
			forget(p);
}

static Prepared *
find(const char *signature, const char *what, int nargs, bool own_path)
{
	Key			key;
	Prepared   *p = NULL;
	Prepared	made;
	MemoryContext old;
	uint64		generation;
	bool		keep = strlen(signature) < MAX_NAME;

	if (kept == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(Key), .entrysize = sizeof(Prepared)};

		kept = hash_create("mw functions", 32, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	if (keep)
	{
		MemSet(&key, 0, sizeof(key));
		key.role = GetUserId();
		key.own_path = own_path;
		strlcpy(key.signature, signature, MAX_NAME);
		p = hash_search(kept, &key, HASH_FIND, NULL);
	}
	if (p != NULL && p->generation == mw_watch_definitions() && !p->busy)
		return p;
	keep = keep && (p == NULL || !p->busy);

	generation = mw_watch_definitions();
	old = MemoryContextSwitchTo(AllocSetContextCreate(CurrentMemoryContext, "mw function", ALLOCSET_SMALL_SIZES));
	prepare(&made, signature, what, nargs, own_path);
	MemoryContextSwitchTo(old);
	if (!keep)
	{
		p = palloc(sizeof(Prepared));
		*p = made;
		p->key.signature[0] = '\0';	/* of this call alone */
		return p;
	}
	if (hash_get_num_entries(kept) >= MAX_KEPT)
		make_room();
	p = hash_search(kept, &key, HASH_FIND, NULL);
	if (p != NULL)
		forget(p);
	p = hash_search(kept, &key, HASH_ENTER, NULL);
	made.key = key;
	made.generation = generation;
	*p = made;
	MemoryContextSetParent(p->cxt, CacheMemoryContext);
	return p;
}

static Datum
call(const char *signature, const char *what, int nargs, Datum *args, bool own_path, Oid *rettype, bool *isnull)
{
	Prepared   *p = find(signature, what, nargs, own_path);
	MwUserFrame frame;
	volatile Datum result = (Datum) 0;

	*rettype = p->type;
	for (int i = 0; i < nargs; i++)
		p->params->params[i].value = args[i];
	mw_userfunc_enter(&frame, p->path);
	p->busy = true;
	PG_TRY();
	{
		result = ExecEvalExprSwitchContext(p->state, p->econtext, isnull);
	}
	PG_CATCH();
	{
		if (p->key.signature[0] != '\0')
			forget(p);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!*isnull)
		result = datumCopy(result, p->byval, p->len);
	ResetExprContext(p->econtext);
	p->busy = false;
	mw_userfunc_leave(&frame);
	return result;
}

Datum
mw_userfunc_call(const char *signature, const char *what, int nargs, Datum *args, Oid *rettype, bool *isnull)
{
	return call(signature, what, nargs, args, false, rettype, isnull);
}

Datum
mw_userfunc_call_hook(const char *signature, const char *what, int nargs, Datum *args, Oid *rettype, bool *isnull)
{
	return call(signature, what, nargs, args, true, rettype, isnull);
}
