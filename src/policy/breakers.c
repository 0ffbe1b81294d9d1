/*
 * breakers.c - circuit breakers for those who look at them: the rows of
 * mw.breaker, and mw_reset_breaker.
 *
 * A breaker is its server's and holds nothing of tenants, so whoever may use the
 * server may see it.  That of a fake server is this session's alone.
 */
#include "mw.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "gateway/breaker.h"
#include "policy/server.h"

static const MwBreakerStore *
store_of(const MwServer *server)
{
	return strcmp(server->api, "fake") == 0 ? &mw_breakers_scripted : &mw_breakers_shared;
}

/* The servers of mw that this role may use; their names sorted */
static List *
usable_servers(void)
{
	Relation	rel = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	Oid			fdw = get_foreign_data_wrapper_oid("mw", true);
	HeapTuple	tup;
	List	   *names = NIL;

	while (HeapTupleIsValid(tup = systable_getnext(scan)))
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tup);

		if (form->srvfdw == fdw && mw_server_aclcheck(form->oid, GetUserId(), ACL_USAGE) == ACLCHECK_OK)
			names = lappend(names, pstrdup(NameStr(form->srvname)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return names;
}

/* mw.breaker_rows() -> server, state, failures, opened_at, retry_at, retries: see its COMMENT */
PG_FUNCTION_INFO_V1(mw_breaker_rows);
Datum
mw_breaker_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, usable_servers())
	{
		const MwServer *server = mw_server_find(lfirst(lc));
		MwBreaker	b = {.retries = server->breaker.retry_reserve};
		Datum		values[6];
		bool		nulls[6] = {false};

		(void) mw_breaker_look(store_of(server), server->oid, &server->breaker, &b);
		values[0] = CStringGetTextDatum(server->name);
		values[1] = CStringGetTextDatum(server->breaker.on ? mw_breaker_state_name(&b) : "off");
		values[2] = Int32GetDatum(b.failures);
		values[3] = TimestampTzGetDatum(b.opened_at);
		nulls[3] = b.opened_at == 0;
		values[4] = TimestampTzGetDatum(mw_wall_clock(b.retry_at));
		nulls[4] = b.opened_at == 0;
		values[5] = Int32GetDatum((int32) b.retries);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* mw_reset_breaker(server): see its COMMENT */
PG_FUNCTION_INFO_V1(mw_reset_breaker);
Datum
mw_reset_breaker(PG_FUNCTION_ARGS)
{
	const MwServer *server;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("argument \"server\" must not be null"),
				errhint("SELECT mw_reset_breaker('openai'); the names stand in mw.breaker."));
	server = mw_server_find(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	mw_breaker_reset(store_of(server), server->oid);
	PG_RETURN_VOID();
}
