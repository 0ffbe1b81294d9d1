/*
 * admin.h - what the administration functions share.
 *
 * They ask for EXECUTE alone, which makes an administrator, and read and write
 * as the owner.  Their arguments are checked here rather than by STRICT, so
 * that a NULL is an error and not a statement that quietly did nothing.
 */
#ifndef MW_ADMIN_H
#define MW_ADMIN_H

#include "mw.h"
#include "fmgr.h"
#include "policy/policy.h"
#include "util/spi.h"

/* Arguments; NULL is MW001 */
extern char *mw_arg_text(FunctionCallInfo fcinfo, int n, const char *name);
extern Jsonb *mw_arg_object(FunctionCallInfo fcinfo, int n, const char *name);

/* The policy of the tenant that an argument names, where NULL is nobody in particular: the rules of all */
extern const MwPolicy *mw_arg_policy(FunctionCallInfo fcinfo, int n);

/* Inside SPI: MW001 with the mw_create_tenant to type unless the tenant exists; '*' passes where all is true */
extern void mw_admin_tenant(const char *tenant, bool all);

/* A name of n bytes at most, not empty, without control characters; else MW001 */
extern void mw_admin_name(const char *name, const char *what, int max);

/* catalog.c: a PCRE2 pattern that compiles and does not match the empty text; else MW001 */
extern void mw_admin_pattern(const char *pattern, int flags, const char *what);
/* Errors about rows by name: MW001, 42710, MW001 */
extern void mw_admin_no_such(const char *kind, const char *name, const char *tenant, const char *hint);
extern void mw_admin_is_there(const char *kind, const char *name, const char *tenant, const char *alter);
extern bool mw_admin_has(Jsonb *options, const char *key);	/* null included */
extern void mw_admin_not_dropped(MwStmt *builtin, Datum *values, const char *kind, const char *name, const char *tenant, const char *off);

#endif
