/*
 * userfunc.h - functions of users: stored as text signatures, run as the caller.
 */
#ifndef MW_USERFUNC_H
#define MW_USERFUNC_H

#include "mw.h"

/*
 * Check a function's name, given as "schema.name" or with its argument types,
 * and return its whole signature.  It must be qualified, take these arguments
 * and return one of the results (InvalidOid ends them).  Raises MW001 with "what".
 */
extern char *mw_userfunc_signature(const char *given, const char *what, int nargs, const Oid *args, const Oid *results);

/*
 * The function that a name means, given with its argument types or, where there
 * is but one of that name, without; an unqualified name by the search_path of
 * whoever calls.  Raises MW001 with "what"; wanted: its hint, or NULL.
 */
extern Oid mw_userfunc_find(const char *given, const char *what, const char *wanted);

/*
 * At use: the function of a whole signature, which the current role may run.
 * Raises MW001 where it is gone, 42501 without EXECUTE, and for a superuser
 * where somebody owns it who is neither superuser nor the caller.
 */
extern Oid mw_userfunc_open(const char *signature, const char *what);

/*
 * What a function of a user runs in, and out of it again: a search_path that is
 * not the caller's, no change of the role, and no setting that outlives it.  An
 * ERROR unwinds it with the (sub)transaction.  What restricts its caller (a
 * guard, a recogniser) has pg_catalog alone as path; hooks and tools, which are
 * the application's, have the schema of fn and that of mw.
 */
typedef struct MwUserFrame
{
	Oid			userid;
	int			sec;
	int			level;			/* of settings */
} MwUserFrame;
extern char *mw_userfunc_path(Oid fn);	/* that path; InvalidOid: pg_catalog alone */
extern void mw_userfunc_enter(MwUserFrame *frame, const char *path);
extern void mw_userfunc_leave(const MwUserFrame *frame);

/*
 * userfunc_call.c: run it as the current role under pg_catalog alone as search_path, so that no
 * caller can put own functions under it.  EXECUTE is asked for; for a superuser a
 * function of somebody who is neither superuser nor the caller is refused.
 * "what" names who wants it, for errors.  *rettype: its result type.
 */
extern Datum mw_userfunc_call(const char *signature, const char *what, int nargs, Datum *args, Oid *rettype, bool *isnull);

/* The same for a hook or a function of an option: with its own schema and mw's as search_path */
extern Datum mw_userfunc_call_hook(const char *signature, const char *what, int nargs, Datum *args, Oid *rettype, bool *isnull);
/* The signature of such a function, f(jsonb, jsonb) returning jsonb or text; a name without a schema is found in the search_path of whoever says it.  MW001 */
extern char *mw_userfunc_hook(const char *given, const char *what);

#endif
