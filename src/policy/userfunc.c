/*
 * userfunc.c - functions of users, looked up, and what they run in.
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
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "policy/userfunc.h"
#include "util/spi.h"

static _Noreturn void
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

/* All functions of a name, as a list for an error; *one: the only one, InvalidOid where there are none or several */
static char *
functions_of_name(const char *given, Oid *one)
{
	StringInfoData all;
	FuncCandidateList c;
	int			n = 0;

	initStringInfo(&all);
	*one = InvalidOid;
	for (c = FuncnameGetCandidates(textToQualifiedNameList(cstring_to_text(given)), -1, NIL, false, false, false, true); c; c = c->next)
	{
		appendStringInfo(&all, "%s%s", n > 0 ? ", " : "", format_procedure_qualified(c->oid));
		*one = n++ == 0 ? c->oid : InvalidOid;
	}
	return all.data;
}

Oid
mw_userfunc_find(const char *given, const char *what, const char *wanted)
{
	Oid			fn;

	if (strchr(given, '('))
	{
		fn = find_function(given);
		if (!OidIsValid(fn))
			no_function(what, given, "There is none.", wanted);
	}
	else
	{
		char	   *all = functions_of_name(given, &fn);

		if (!OidIsValid(fn) && all[0] == '\0')
			no_function(what, given, "There is none.", wanted);
		if (!OidIsValid(fn))
			no_function(what, given, psprintf("There are several: %s.", all), "Write one of these, with its types.");
	}
	return fn;
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

Oid
mw_userfunc_open(const char *signature, const char *what)
{
	Oid			fn = find_function(signature);
	Oid			userid = GetUserId();
	HeapTuple	proc;
	Oid			owner;

	proc = OidIsValid(fn) ? SearchSysCache1(PROCOID, ObjectIdGetDatum(fn)) : NULL;
	if (!HeapTupleIsValid(proc))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the function of %s does not exist", what),
				 errdetail("It was %s.", signature),
				 errhint("Create it again, or switch off what asks for it.")));
	owner = ((Form_pg_proc) GETSTRUCT(proc))->proowner;
	ReleaseSysCache(proc);

	if (mw_function_aclcheck(fn, userid, ACL_EXECUTE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, signature);
	if (superuser_arg(userid) && owner != userid && !superuser_arg(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("a superuser does not run the function of %s", what),
				 errdetail("%s belongs to a role that is no superuser and could change it.", signature),
				 errhint("Call mw as another role, or let a superuser own the function.")));
	return fn;
}

char *
mw_userfunc_path(Oid fn)
{
	if (!OidIsValid(fn))
		return pstrdup("pg_catalog, pg_temp");
	return psprintf("%s, %s, pg_temp", quote_identifier(get_namespace_name(get_func_namespace(fn))), mw_extension_schema());
}

void
mw_userfunc_enter(MwUserFrame *frame, const char *path)
{
	GetUserIdAndSecContext(&frame->userid, &frame->sec);
	SetUserIdAndSecContext(frame->userid, frame->sec | SECURITY_LOCAL_USERID_CHANGE);
	frame->level = NewGUCNestLevel();
	(void) set_config_option("search_path", path, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

void
mw_userfunc_leave(const MwUserFrame *frame)
{
	AtEOXact_GUC(false, frame->level);
	SetUserIdAndSecContext(frame->userid, frame->sec);
}

char *
mw_userfunc_hook(const char *given, const char *what)
{
	static const Oid args[] = {JSONBOID, JSONBOID};
	static const Oid results[] = {JSONBOID, TEXTOID, InvalidOid};

	if (strchr(given, '.') == NULL)
	{
		Oid			fn = find_function(strchr(given, '(') != NULL ? given :
									   psprintf("%s(pg_catalog.jsonb, pg_catalog.jsonb)", quote_identifier(given)));

		if (OidIsValid(fn))
			given = format_procedure_qualified(fn);
	}
	return mw_userfunc_signature(given, what, lengthof(args), args, results);
}
