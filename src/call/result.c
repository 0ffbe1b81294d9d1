/*
 * result.c - what a run hands out, and the kept results of named requests.
 *
 * A result is made with placeholders inside.  That is the form which is kept
 * (mw.result, a row of the caller's transaction), and the very last step before
 * it leaves is to put the values back, from the map of the caller who asks now:
 * a replay restores nothing that its own prompt does not hold.
 *
 * A request_id belongs to one request.  Its fingerprint is keyed with the
 * database's secret, so that a row tells nobody what was asked, and covers who
 * asked (the role's name, which survives a dump), the arguments as they were
 * given, and the options that reach the provider; those that only steer mw may
 * differ between two tries.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "call/call.h"
#include "call/request.h"
#include "stage/redact.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/spi.h"

/* ---------- the fingerprint ---------- */

static void
hash_json(MwHash *h, Jsonb *json)
{
	/* as text: the same in every version and on every machine */
	mw_hash_text(h, json == NULL ? NULL : mw_json_canonical(json));
}

MwKey
mw_request_fingerprint(const MwCall *call, const MwInvokeArgs *args)
{
	MwHash		h;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "fingerprint 1");
	mw_hash_text(&h, GetUserNameFromId(GetUserId(), false));
	mw_hash_text(&h, args->session);
	mw_hash_part(&h, args->prompt, args->prompt_len);
	hash_json(&h, args->messages);
	hash_json(&h, args->tools);
	mw_hash_text(&h, args->agent);
	mw_hash_text(&h, args->model);
	hash_json(&h, mw_options_sent(args->options));
	return mw_hash_end(&h);
}

/* ---------- kept results ---------- */

Jsonb *
mw_result_stored(MwCall *call, const MwKey *fingerprint)
{
	static MwStmt stmt = {
		"SELECT r.fingerprint, r.result FROM mw.result AS r"
		" WHERE r.tenant OPERATOR(pg_catalog.=) $1 AND r.request_id OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	MemoryContext cxt = CurrentMemoryContext;
	Datum		values[2];
	Jsonb	   *result = NULL;

	values[0] = CStringGetTextDatum(call->tenant);
	values[1] = CStringGetTextDatum(call->request_id);

	SPI_connect();
	if (mw_spi_read(&stmt, MW_AS_CALLER, values, NULL, 1) > 0)
	{
		HeapTuple	row = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		bytea	   *kept = DatumGetByteaPP(SPI_getbinval(row, desc, 1, &isnull));
		MemoryContext old;

		if (VARSIZE_ANY_EXHDR(kept) != sizeof(MwKey) ||
			memcmp(VARDATA_ANY(kept), fingerprint->b, sizeof(MwKey)) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_MW_OTHER_REQUEST),
					 errmsg("this request_id was used with another request"),
					 errdetail("Its result is kept; role, session, prompt, messages, tools, agent, model or the options that reach the provider were others."),
					 errhint("Give each request an id of its own.")));

		old = MemoryContextSwitchTo(cxt);
		result = DatumGetJsonbPCopy(SPI_getbinval(row, desc, 2, &isnull));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return result;
}

void
mw_result_store(MwCall *call, const MwKey *fingerprint, Jsonb *result)
{
	static MwStmt stmt = {
		"INSERT INTO mw.result (tenant, request_id, fingerprint, session, result)"
		/* the tenant's row is locked, so that no result survives a drop beside it; a dropped one keeps none */
		" SELECT t.tenant, $2, $3, $4, $5 FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 FOR KEY SHARE OF t"
		" ON CONFLICT DO NOTHING",
		5, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, JSONBOID}
	};
	Datum		values[5];
	char		nulls[5] = {' ', ' ', ' ', ' ', ' '};

	mw_require_may_act(call->tenant);
	values[0] = CStringGetTextDatum(call->tenant);
	values[1] = CStringGetTextDatum(call->request_id);
	values[2] = PointerGetDatum(mw_key_bytea(fingerprint));
	if (call->session != NULL)
		values[3] = CStringGetTextDatum(call->session);
	else
		nulls[3] = 'n';
	values[4] = JsonbPGetDatum(result);

	SPI_connect();
	(void) mw_spi_write(&stmt, MW_AS_OWNER, values, nulls);
	SPI_finish();
}

/* ---------- making ---------- */

static void
push_key(JsonbParseState **state, const char *name)
{
	JsonbValue	key;

	key.type = jbvString;
	key.val.string.val = unconstify(char *, name);
	key.val.string.len = strlen(name);
	pushJsonbValue(state, WJB_KEY, &key);
}

static void
push_text(JsonbParseState **state, const char *name, const char *s, int len)
{
	JsonbValue	v;

	push_key(state, name);
	v.type = jbvString;
	v.val.string.val = unconstify(char *, s);
	v.val.string.len = len;
	pushJsonbValue(state, WJB_VALUE, &v);
}

static void
push_string(JsonbParseState **state, const char *name, const char *s)
{
	push_text(state, name, s, strlen(s));
}

static void
push_int(JsonbParseState **state, const char *name, int64 n)
{
	JsonbValue	v;

	push_key(state, name);
	v.type = jbvNumeric;
	v.val.numeric = DatumGetNumeric(DirectFunctionCall1(int8_numeric, Int64GetDatum(n)));
	pushJsonbValue(state, WJB_VALUE, &v);
}

static void
push_null(JsonbParseState **state, const char *name)
{
	JsonbValue	v;

	push_key(state, name);
	v.type = jbvNull;
	pushJsonbValue(state, WJB_VALUE, &v);
}

/* The calls whose arguments are an object (invalid: those whose are not), as an array under a key */
static void
push_tool_calls(JsonbParseState **state, const char *name, const MwAnswer *answer, bool invalid)
{
	push_key(state, name);
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < answer->ntool_calls; i++)
	{
		MwToolCall *tool = &answer->tool_calls[i];

		if ((tool->args == NULL) != invalid)
			continue;
		pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
		push_string(state, "id", tool->id != NULL ? tool->id : "");
		if (invalid)
			push_string(state, "args", tool->raw_args != NULL ? tool->raw_args : "");
		else
		{
			JsonbValue	args;

			args.type = jbvBinary;
			args.val.binary.data = &tool->args->root;
			args.val.binary.len = VARSIZE(tool->args) - VARHDRSZ;
			push_key(state, "args");
			pushJsonbValue(state, WJB_VALUE, &args);
		}
		push_string(state, "name", tool->name != NULL ? tool->name : "");
		pushJsonbValue(state, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

static void
push_notices(JsonbParseState **state, const MwCall *call)
{
	ListCell   *lc;
	JsonbValue	v;

	push_key(state, "notices");
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	v.type = jbvString;
	foreach(lc, call->notices)
	{
		v.val.string.val = lfirst(lc);
		v.val.string.len = strlen(v.val.string.val);
		pushJsonbValue(state, WJB_ELEM, &v);
	}
	if (call->guard_logged)
	{
		v.val.string.val = "a guard in mode log matched";
		v.val.string.len = strlen(v.val.string.val);
		pushJsonbValue(state, WJB_ELEM, &v);
	}
	if (call->answer->finish != NULL && strcmp(call->answer->finish, "length") == 0)
	{
		v.val.string.val = psprintf("the answer was cut off at max_tokens (" INT64_FORMAT ")",
									call->send_max_tokens);
		v.val.string.len = strlen(v.val.string.val);
		pushJsonbValue(state, WJB_ELEM, &v);
	}
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

static const char *
cache_word(MwCacheStatus cache)
{
	switch (cache)
	{
		case MW_CACHE_HIT:
			return "hit";
		case MW_CACHE_MISS:
			return "miss";
		case MW_CACHE_SHARED:
			return "shared";
		case MW_CACHE_OFF:
			break;
	}
	return "off";
}

/*
 * Keys are pushed in jsonb's own order, shorter ones first: sorting them was a
 * third of the time of a cache hit.
 */
Jsonb *
mw_result_make(MwCall *call)
{
	static const MwStageId timed[] = {
		MW_STAGE_CACHE, MW_STAGE_MODEL, MW_STAGE_RETRY, MW_STAGE_BUDGET, MW_STAGE_REDACT, MW_STAGE_GUARDRAIL
	};
	const MwAnswer *answer = call->answer;
	JsonbParseState *state = NULL;
	const char *text = answer->text != NULL ? answer->text : "";
	int			len = answer->text != NULL ? answer->len : 0;
	bool		paid = call->cache != MW_CACHE_HIT && call->cache != MW_CACHE_SHARED;
	int			ninvalid = 0;

	for (int i = 0; i < answer->ntool_calls; i++)
	{
		if (answer->tool_calls[i].args == NULL)
			ninvalid++;
	}

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_null(&state, "cost");
	push_string(&state, "cache", cache_word(call->cache));
	push_string(&state, "model", call->model);

	/* of this run: an answer out of the cache cost no tokens */
	push_key(&state, "usage");
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_int(&state, "input_tokens", paid ? answer->usage.input_tokens : 0);
	push_int(&state, "total_tokens", paid ? answer->usage.input_tokens + answer->usage.output_tokens : 0);
	push_int(&state, "output_tokens", paid ? answer->usage.output_tokens : 0);
	pushJsonbValue(&state, WJB_END_OBJECT, NULL);

	push_text(&state, "output", text, len);
	push_string(&state, "run_id",
				DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&call->run_id))));
	push_string(&state, "status", answer->ntool_calls > 0 ? "tool_calls" : "completed");
	push_notices(&state, call);

	push_key(&state, "timings");
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	StaticAssertStmt(lengthof(timed) == MW_NSTAGES, "every stage is timed");
	for (int i = 0; i < lengthof(timed); i++)
		push_int(&state, mw_stages[timed[i]].name, call->stage_us[timed[i]]);
	pushJsonbValue(&state, WJB_END_OBJECT, NULL);

	push_key(&state, "messages");
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_string(&state, "role", "assistant");
	push_text(&state, "content", text, len);
	if (answer->ntool_calls > ninvalid)
		push_tool_calls(&state, "tool_calls", answer, false);
	if (ninvalid > 0)
		push_tool_calls(&state, "invalid_tool_calls", answer, true);
	pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	pushJsonbValue(&state, WJB_END_ARRAY, NULL);

	push_string(&state, "request_id", call->request_id);
	if (answer->ntool_calls > 0)
		push_tool_calls(&state, "tool_calls", answer, false);

	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* ---------- restoring ---------- */

static char *
restore_leaf(char *s, int len, int *newlen, void *arg)
{
	return mw_restore_text(arg, s, len, newlen, NULL);
}

/* Only what the model said: ids and names stay what they are, whatever they look like. */
static bool
is_said(const JsonbValue *key)
{
	static const char *const said[] = {"output", "messages", "tool_calls"};

	for (int i = 0; i < lengthof(said); i++)
	{
		if (key->val.string.len == strlen(said[i]) &&
			memcmp(key->val.string.val, said[i], key->val.string.len) == 0)
			return true;
	}
	return false;
}

Jsonb *
mw_result_restore(MwCall *call, Jsonb *result)
{
	JsonbParseState *state = NULL;
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	key;
	JsonbValue	value;

	if (call->map.n == 0)
		return result;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	it = JsonbIteratorInit(&result->root);
	while ((tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		if (tok != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &value, true);
		pushJsonbValue(&state, WJB_KEY, &key);
		if (is_said(&key) && value.type == jbvString)
			value.val.string.val = restore_leaf(value.val.string.val, value.val.string.len,
												&value.val.string.len, &call->map);
		else if (is_said(&key) && value.type == jbvBinary)
		{
			Jsonb	   *restored = mw_json_map_strings(JsonbValueToJsonb(&value), true,
													   restore_leaf, &call->map);

			value.val.binary.data = &restored->root;
			value.val.binary.len = VARSIZE(restored) - VARHDRSZ;
		}
		pushJsonbValue(&state, WJB_VALUE, &value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}
