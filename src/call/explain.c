/*
 * explain.c - what a call would do, and the cache key of one.
 *
 * Each stage says what its run would do and rewrites the call as its run would,
 * so that the next one judges what it would see.  Nobody is called, nothing is
 * reserved or written, and it works in a read-only transaction and on a
 * standby.  The stages that would not be reached are not shown.
 *
 * mw_cache_key runs the first two stages for real, since the key is that of the
 * messages as they come out of them, and then asks the stages' own
 * functions.
 */
#include "mw.h"

#include "access/detoast.h"
#include "fmgr.h"
#include "funcapi.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "call/call.h"
#include "stage/stages.h"
#include "util/hash.h"

void
mw_explain_stages(MwCall *call, ReturnSetInfo *set)
{
	for (int i = 0; i < MW_NSTAGES; i++)
	{
		MwExplain	said = {0};
		Datum		values[5];
		bool		nulls[5] = {false};
		instr_time	start;
		instr_time	took;

		call->at = i + 1;
		INSTR_TIME_SET_CURRENT(start);
		mw_stages[i].explain(call, &said);
		INSTR_TIME_SET_CURRENT(took);
		INSTR_TIME_SUBTRACT(took, start);

		values[0] = CStringGetTextDatum(mw_stages[i].name);
		if (said.verdict != NULL)
			values[1] = CStringGetTextDatum(said.verdict);
		else
			nulls[1] = true;
		if (said.detail != NULL)
			values[2] = JsonbPGetDatum(said.detail);
		else
			nulls[2] = true;
		if (said.next != NULL)
			values[3] = CStringGetTextDatum(said.next);
		else
			nulls[3] = true;
		values[4] = Int64GetDatum((int64) INSTR_TIME_GET_MICROSEC(took));
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);

		if (said.stop)
			break;
	}
}

void
mw_explain_once(const MwInvokeArgs *args, ReturnSetInfo *set)
{
	MwCall	   *call = mw_call_make(args, MW_USE_EXPLAIN);
	MemoryContext old;

	mw_call_enter(call->tenant);
	old = MemoryContextSwitchTo(call->cxt);
	mw_explain_stages(call, set);
	MemoryContextSwitchTo(old);
	mw_call_leave();
	mw_call_free(call);
}

/* ---------- SQL ---------- */

/* (tenant, messages, tools, model, options) */
PG_FUNCTION_INFO_V1(mw_cache_key);

Datum
mw_cache_key(PG_FUNCTION_ARGS)
{
	static const int large[] = {1, 2, 4};
	MwInvokeArgs args = {0};
	MwCall	   *call;
	MemoryContext old;
	MwKey		key;
	Size		bytes = 0;

	mw_loghide_statement();
	for (int i = 0; i < lengthof(large); i++)
	{
		if (!PG_ARGISNULL(large[i]))
			bytes += toast_raw_datum_size(PG_GETARG_DATUM(large[i])) - VARHDRSZ;
	}
	mw_check_prompt_size(bytes);

	args.tenant = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	args.messages = PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1);
	args.tools = PG_ARGISNULL(2) ? NULL : PG_GETARG_JSONB_P(2);
	args.model = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	args.options = PG_ARGISNULL(4) ? NULL : PG_GETARG_JSONB_P(4);

	call = mw_call_make(&args, MW_USE_KEY);
	old = MemoryContextSwitchTo(call->cxt);
	mw_pipeline_judge(call);
	mw_call_encode(call);
	key = mw_cache_key_of(call);
	MemoryContextSwitchTo(old);
	mw_call_free(call);

	PG_RETURN_TEXT_P(cstring_to_text(mw_key_hex(&key)));
}
