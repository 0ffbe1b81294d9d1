/*
 * messages_sql.c - a thread, as the caller may see it.
 *
 * Rows are read as the caller, so that row policies filter them, a tenant's
 * session_policy included.  Stored are placeholders; the values behind them
 * come from what the session remembers.  Names and ids stay what they are,
 * whatever they look like.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "policy/admin.h"
#include "policy/policy.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/spi.h"

/* What was said in a message, with its values */
static Jsonb *
restored(Jsonb *message, MwPiiMap *map)
{
	static const char *const said[] = {"content", "tool_calls", "invalid_tool_calls"};
	JsonbParseState *st = NULL;
	MwJsonEach	each = mw_json_each(&message->root);

	if (map->n == 0)
		return message;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	while (mw_json_next(&each))
	{
		bool		is_said = false;

		for (int i = 0; i < lengthof(said); i++)
			is_said |= each.key.val.string.len == strlen(said[i]) && memcmp(each.key.val.string.val, said[i], each.key.val.string.len) == 0;
		if (is_said && each.value.type == jbvString)
			each.value.val.string.val = mw_restore_leaf(each.value.val.string.val, each.value.val.string.len, &each.value.val.string.len, map);
		else if (is_said && each.value.type == jbvBinary)
		{
			Jsonb	   *jb = mw_json_map_strings(JsonbValueToJsonb(&each.value), true, mw_restore_leaf, map);

			each.value.val.binary.data = &jb->root;
			each.value.val.binary.len = VARSIZE(jb) - VARHDRSZ;
		}
		pushJsonbValue(&st, WJB_KEY, &each.key);
		pushJsonbValue(&st, WJB_VALUE, &each.value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* (tenant, session, after) */
PG_FUNCTION_INFO_V1(mw_messages);

Datum
mw_messages(PG_FUNCTION_ARGS)
{
	static MwStmt stmt = {
		"SELECT t.message FROM mw.thread AS t"
		" WHERE t.tenant OPERATOR(pg_catalog.=) $1 AND t.session OPERATOR(pg_catalog.=) $2 AND t.removed_step IS NULL"
		" ORDER BY t.position, t.seq",
		2, {TEXTOID, TEXTOID}
	};
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	char	   *session = mw_arg_text(fcinfo, 1, "session");
	char	   *after = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	Datum		values[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(session)};
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	MwPiiMap	map;
	bool		begun = after == NULL;
	uint64		n;

	mw_require_may_act(tenant);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	mw_pii_map_init(&map, CurrentMemoryContext);
	mw_pii_session_load(&map, tenant, session, false);

	SPI_connect();
	n = mw_spi_read(&stmt, MW_AS_CALLER, values, NULL, 0);
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		Jsonb	   *message = DatumGetJsonbP(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));

		CHECK_FOR_INTERRUPTS();
		if (begun)
		{
			Datum		value = JsonbPGetDatum(restored(message, &map));

			isnull = false;
			tuplestore_putvalues(set->setResult, set->setDesc, &value, &isnull);
		}
		else
		{
			char	   *id = mw_json_get_text(message, "id");

			begun = id != NULL && strcmp(id, after) == 0;
		}
	}
	SPI_finish();
	if (!begun)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the thread has no message with the id \"%s\"", after),
				 errhint("after is the \"id\" of a message of this session.")));
	return (Datum) 0;
}
