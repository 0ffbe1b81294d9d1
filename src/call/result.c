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
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "call/call.h"
#include "call/request.h"
#include "stage/redact.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/money.h"
#include "util/row.h"
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
	bool		tightened[2] = {call->redact && !call->policy->redact, call->guardrail && !call->policy->guardrail};

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "fingerprint 1");
	if (args->options != NULL && mw_json_get(args->options, "redact") != NULL)
		hash_json(&h, mw_json_get_jsonb(args->options, "redact"));
	mw_hash_part(&h, tightened, sizeof(tightened)); /* what this caller asked for beyond the tenant's rules is sent otherwise */
	mw_hash_text(&h, GetUserNameFromId(GetUserId(), false));
	mw_hash_text(&h, args->session);
	mw_hash_part(&h, args->prompt, args->prompt_len);
	hash_json(&h, args->messages);
	hash_json(&h, args->tools);
	hash_json(&h, args->decisions);
	mw_hash_text(&h, args->agent);
	mw_hash_text(&h, args->model);
	hash_json(&h, mw_options_sent(args->options));
	return mw_hash_end(&h);
}

/* ---------- kept results ---------- */

/* columns of mw.result */
enum
{
	RESULT_FINGERPRINT = 3,
	RESULT_RESULT = 5
};

Jsonb *
mw_result_stored(MwCall *call, const MwKey *fingerprint)
{
	static MwRowTable table = {.name = "result",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ}};
	Jsonb	   *result = NULL;
	MwRow		row;
	Datum		key[2];

	key[0] = CStringGetTextDatum(call->tenant);
	key[1] = CStringGetTextDatum(call->request_id);
	if (mw_row_open(&row, &table, key))
	{
		bool		isnull;
		bytea	   *kept = DatumGetByteaPP(mw_row_get(&row, RESULT_FINGERPRINT, &isnull));

		if (VARSIZE_ANY_EXHDR(kept) != sizeof(MwKey) ||
			memcmp(VARDATA_ANY(kept), fingerprint->b, sizeof(MwKey)) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_MW_OTHER_REQUEST),
					 errmsg("this request_id was used with another request"),
					 errdetail("Its result is kept; role, session, prompt, messages, tools, agent, model or the options that reach the provider were others."),
					 errhint("Give each request an id of its own.")));
		result = DatumGetJsonbPCopy(mw_row_get(&row, RESULT_RESULT, &isnull));
	}
	mw_row_close(&row);
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

/*
 * A result is put together as a tree of values in place and converted once.
 * Nothing sorts the members here, so they are put in jsonb's own order, shorter
 * keys first: to push them one by one took a fifth of a cache hit.
 */
static void
begin_object(JsonbValue *v, JsonbPair *room)
{
	v->type = jbvObject;
	v->val.object.nPairs = 0;
	v->val.object.pairs = room;
}

static void
begin_array(JsonbValue *v, JsonbValue *room)
{
	v->type = jbvArray;
	v->val.array.nElems = 0;
	v->val.array.elems = room;
	v->val.array.rawScalar = false;
}

static JsonbValue *
add(JsonbValue *array)
{
	return &array->val.array.elems[array->val.array.nElems++];
}

static void
set_text(JsonbValue *v, const char *s, int len)
{
	v->type = jbvString;
	v->val.string.val = unconstify(char *, s);
	v->val.string.len = len;
}

static void
set_string(JsonbValue *v, const char *s)
{
	set_text(v, s, strlen(s));
}

/* Counts of a hit are nothing or some microseconds: such numbers are made once a process */
static Numeric
number(int64 n)
{
	static Numeric small[64];

	if (n < 0 || n >= lengthof(small))
		return int64_to_numeric(n);
	if (small[n] == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		small[n] = int64_to_numeric(n);
		MemoryContextSwitchTo(old);
	}
	return small[n];
}

static void
set_int(JsonbValue *v, int64 n)
{
	v->type = jbvNumeric;
	v->val.numeric = number(n);
}

/* The value of a new member */
static JsonbValue *
put(JsonbValue *object, const char *name)
{
	JsonbPair  *pair = &object->val.object.pairs[object->val.object.nPairs++];

	set_string(&pair->key, name);
	Assert(object->val.object.nPairs == 1 ||
		   pair[-1].key.val.string.len < pair->key.val.string.len ||
		   (pair[-1].key.val.string.len == pair->key.val.string.len &&
			memcmp(pair[-1].key.val.string.val, name, pair->key.val.string.len) < 0));
	return &pair->value;
}

/* The calls whose arguments are an object (invalid: those whose are not) */
static void
set_tool_calls(JsonbValue *v, const MwAnswer *answer, bool invalid)
{
	begin_array(v, palloc(sizeof(JsonbValue) * answer->ntool_calls));
	for (int i = 0; i < answer->ntool_calls; i++)
	{
		MwToolCall *tool = &answer->tool_calls[i];
		JsonbValue *one;

		if ((tool->args == NULL) != invalid)
			continue;
		one = add(v);
		begin_object(one, palloc(sizeof(JsonbPair) * 3));
		set_string(put(one, "id"), tool->id != NULL ? tool->id : "");
		if (invalid)
			set_string(put(one, "args"), tool->raw_args != NULL ? tool->raw_args : "");
		else
			*put(one, "args") = mw_json_value(tool->args);
		set_string(put(one, "name"), tool->name != NULL ? tool->name : "");
	}
}

static char *
loose_notice(int n)
{
	return psprintf("%d placeholder%s the model had spelled otherwise %s restored", n, n == 1 ? " that" : "s that", n == 1 ? "was" : "were");
}

static void
set_notices(JsonbValue *v, const MwCall *call)
{
	ListCell   *lc;

	begin_array(v, palloc(sizeof(JsonbValue) * (list_length(call->notices) + 3)));
	foreach(lc, call->notices)
		set_string(add(v), lfirst(lc));
	if (call->map.loose > 0)
		set_string(add(v), loose_notice(call->map.loose));
	if (call->answer->finish != NULL && strcmp(call->answer->finish, "length") == 0)
		set_string(add(v), psprintf("the answer was cut off at max_tokens (" INT64_FORMAT ")",
									call->send_max_tokens));
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

/* What this run was billed; null where some of it has no price */
static void
put_cost(JsonbValue *result, const MwCall *call)
{
	JsonbValue *v = put(result, "cost");

	v->type = jbvNull;
	if (call->unpriced)
		return;
	v->type = jbvNumeric;
	v->val.numeric = mw_money_numeric(call->cost);
}

Jsonb *
mw_result_make(MwCall *call)
{
	static const MwStageId timed[] = {
		MW_STAGE_CACHE, MW_STAGE_MODEL, MW_STAGE_RETRY, MW_STAGE_BUDGET, MW_STAGE_REDACT, MW_STAGE_GUARDRAIL
	};
	const MwAnswer *answer = call->answer;
	const char *text = answer->text != NULL ? answer->text : "";
	int			len = answer->text != NULL ? answer->len : 0;
	bool		paid = call->cache != MW_CACHE_HIT && call->cache != MW_CACHE_SHARED;
	int64		in = call->failed_usage.input_tokens + (paid ? answer->usage.input_tokens : 0);
	int64		out = call->failed_usage.output_tokens + (paid ? answer->usage.output_tokens : 0);
	int			ninvalid = 0;
	JsonbValue	result;
	JsonbPair	result_room[13];
	JsonbValue *usage;
	JsonbPair	usage_room[3];
	JsonbValue *timings;
	JsonbPair	timings_room[MW_NSTAGES];
	JsonbValue *messages;
	JsonbValue	message;
	JsonbPair	message_room[4];
	char		run_id[MW_RUN_ID_CHARS + 1];

	for (int i = 0; i < answer->ntool_calls; i++)
	{
		if (answer->tool_calls[i].args == NULL)
			ninvalid++;
	}

	begin_object(&result, result_room);
	put_cost(&result, call);
	set_string(put(&result, "cache"), cache_word(call->cache));
	set_string(put(&result, "model"), call->model);

	/* of this run, with what models that failed had used; an answer out of the cache cost no tokens */
	usage = put(&result, "usage");
	begin_object(usage, usage_room);
	set_int(put(usage, "input_tokens"), in);
	set_int(put(usage, "total_tokens"), in + out);
	set_int(put(usage, "output_tokens"), out);

	set_text(put(&result, "output"), text, len);
	mw_run_id_text(run_id, &call->run_id);
	set_text(put(&result, "run_id"), run_id, MW_RUN_ID_CHARS);
	set_string(put(&result, "status"), answer->ntool_calls > 0 ? "tool_calls" : "completed");
	set_notices(put(&result, "notices"), call);

	timings = put(&result, "timings");
	begin_object(timings, timings_room);
	StaticAssertStmt(lengthof(timed) == MW_NSTAGES, "every stage is timed");
	for (int i = 0; i < lengthof(timed); i++)
		set_int(put(timings, mw_stages[timed[i]].name), call->stage_us[timed[i]]);

	if (call->ended_by != NULL)
		set_string(put(&result, "ended_by"), call->ended_by);

	messages = put(&result, "messages");
	begin_array(messages, &message);
	begin_object(add(messages), message_room);
	set_string(put(&message, "role"), "assistant");
	set_text(put(&message, "content"), text, len);
	if (answer->ntool_calls > ninvalid)
		set_tool_calls(put(&message, "tool_calls"), answer, false);
	if (ninvalid > 0)
		set_tool_calls(put(&message, "invalid_tool_calls"), answer, true);

	set_string(put(&result, "request_id"), call->request_id);
	if (answer->ntool_calls > 0)
		set_tool_calls(put(&result, "tool_calls"), answer, false);

	return mw_json_pack(&result);
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
	static const char *const said[] = {"output", "messages", "tool_calls", "structured_response", "state"};

	for (int i = 0; i < lengthof(said); i++)
	{
		if (key->val.string.len == strlen(said[i]) &&
			memcmp(key->val.string.val, said[i], key->val.string.len) == 0)
			return true;
	}
	return false;
}

/* The notices, and one more */
static void
push_notices(JsonbParseState **state, JsonbValue *notices, int loose)
{
	MwJsonEach	each = mw_json_each(notices->val.binary.data);
	JsonbValue	v;

	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	while (mw_json_next(&each))
		pushJsonbValue(state, WJB_ELEM, &each.value);
	set_string(&v, loose_notice(loose));
	pushJsonbValue(state, WJB_ELEM, &v);
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

Jsonb *
mw_result_restore(MwCall *call, Jsonb *result)
{
	JsonbParseState *state = NULL;
	MwJsonEach	each;

	if (call->map.n == 0)
		return result;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	each = mw_json_each(&result->root);
	while (mw_json_next(&each))
	{
		pushJsonbValue(&state, WJB_KEY, &each.key);
		if (is_said(&each.key) && each.value.type == jbvString)
			each.value.val.string.val = restore_leaf(each.value.val.string.val, each.value.val.string.len,
												&each.value.val.string.len, &call->map);
		else if (is_said(&each.key) && each.value.type == jbvBinary)
		{
			Jsonb	   *restored = mw_json_map_strings(JsonbValueToJsonb(&each.value), true,
													   restore_leaf, &call->map);

			each.value.val.binary.data = &restored->root;
			each.value.val.binary.len = VARSIZE(restored) - VARHDRSZ;
		}
		/* "output" comes before it */
		if (call->map.loose > 0 && each.key.val.string.len == 7 && memcmp(each.key.val.string.val, "notices", 7) == 0 &&
			each.value.type == jbvBinary)
			push_notices(&state, &each.value, call->map.loose);
		else
			pushJsonbValue(&state, WJB_VALUE, &each.value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}
