/*
 * userfunc.c - functions of users, looked up and run.
 *
 * A signature is kept as text, since a regprocedure column would make pg_upgrade
 * refuse the cluster, and is resolved at every use: it is qualified, so nobody's
 * search_path plays a part, and a function that was dropped or replaced by
 * another is noticed.
 *
 * It runs as the role that calls mw, under a local user change to that same
 * role, so that SET ROLE and SET SESSION AUTHORIZATION fail inside.  What a
 * function restricts its caller by must not be the caller's to change: hence
 * the pinned search_path.  An ERROR unwinds both with the (sub)transaction.
 */
#include "mw.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "policy/userfunc.h"

static void
no_function(const char *what, const char *given, const char *detail, const char *wanted)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("%s names no function that can be used", what),
			 errdetail("\"%s\": %s", given, detail),
			 wanted ? errhint("%s", wanted) : 0));
}

static Oid
find_function(const char *signature)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		fn;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = CStringGetTextDatum(signature);
	fcinfo->args[0].isnull = false;
	fn = to_regprocedure(fcinfo);
	return fcinfo->isnull ? InvalidOid : DatumGetObjectId(fn);
}

char *
mw_userfunc_signature(const char *given, const char *what, int nargs, const Oid *args, const Oid *results)
{
	StringInfoData wanted;
	StringInfoData whole;
	const char *paren = strchr(given, '(');
	const char *dot = strchr(given, '.');
	Oid		   *argtypes;
	Oid			fn;
	Oid			result;
	int			n;

	initStringInfo(&wanted);
	appendStringInfoString(&wanted, "It has to be schema.name(");
	for (int i = 0; i < nargs; i++)
		appendStringInfo(&wanted, "%s%s", i ? ", " : "", format_type_be(args[i]));
	appendStringInfoString(&wanted, ") and return ");
	for (int i = 0; results[i] != InvalidOid; i++)
		appendStringInfo(&wanted, "%s%s", i ? " or " : "", format_type_be(results[i]));
	appendStringInfoChar(&wanted, '.');

	if (dot == NULL || (paren && dot > paren))
		no_function(what, given, "It has no schema.", wanted.data);
	initStringInfo(&whole);
	appendStringInfoString(&whole, given);
	if (paren == NULL)
	{
		appendStringInfoChar(&whole, '(');
		for (int i = 0; i < nargs; i++)
			appendStringInfo(&whole, "%s%s", i ? ", " : "", format_type_be_qualified(args[i]));
		appendStringInfoChar(&whole, ')');
	}
	fn = find_function(whole.data);
	if (!OidIsValid(fn))
		no_function(what, given, "There is none.", wanted.data);
	result = get_func_signature(fn, &argtypes, &n);
	if (n != nargs)
		no_function(what, given, "It has other arguments.", wanted.data);
	for (int i = 0; i < nargs; i++)
		if (argtypes[i] != args[i])
			no_function(what, given, "It has other arguments.", wanted.data);
	for (int i = 0; results[i] != result; i++)
		if (results[i] == InvalidOid)
			no_function(what, given, "It returns something else.", wanted.data);
	if (get_func_retset(fn) || get_func_prokind(fn) != PROKIND_FUNCTION)
		no_function(what, given, "It is no plain function.", wanted.data);
	return format_procedure_qualified(fn);
}

Datum
mw_userfunc_call(const char *signature, const char *what, int nargs, Datum *args, Oid *rettype, bool *isnull)
{
	Oid			fn = find_function(signature);
	FmgrInfo	flinfo;
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
	HeapTuple	proc;
	Form_pg_proc form;
	Oid			owner;
	Oid			userid;
	int			sec;
	int			level;
	Datum		result;

	proc = OidIsValid(fn) ? SearchSysCache1(PROCOID, ObjectIdGetDatum(fn)) : NULL;
	if (!HeapTupleIsValid(proc))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the function of %s does not exist", what),
				 errdetail("It was %s.", signature),
				 errhint("Create it again, or switch off what asks for it.")));
	form = (Form_pg_proc) GETSTRUCT(proc);
	owner = form->proowner;
	*rettype = form->prorettype;
	ReleaseSysCache(proc);

	GetUserIdAndSecContext(&userid, &sec);
	if (mw_function_aclcheck(fn, userid, ACL_EXECUTE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, signature);
	if (superuser_arg(userid) && owner != userid && !superuser_arg(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("a superuser does not run the function of %s", what),
				 errdetail("%s belongs to a role that is no superuser and could change it.", signature),
				 errhint("Call mw as another role, or let a superuser own the function.")));

	SetUserIdAndSecContext(userid, sec | SECURITY_LOCAL_USERID_CHANGE);
	level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	fmgr_info(fn, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, nargs, InvalidOid, NULL, NULL);
	for (int i = 0; i < nargs; i++)
	{
		fcinfo->args[i].value = args[i];
		fcinfo->args[i].isnull = false;
	}
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(userid, sec);
	return result;
}
