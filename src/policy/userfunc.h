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
 * Run it as the current role under pg_catalog alone as search_path, so that no
 * caller can put own functions under it.  EXECUTE is asked for; for a superuser a
 * function of somebody who is neither superuser nor the caller is refused.
 * "what" names who wants it, for errors.  *rettype: its result type.
 */
extern Datum mw_userfunc_call(const char *signature, const char *what, int nargs, Datum *args, Oid *rettype, bool *isnull);

#endif
