/*
 * redact_sql.c - redaction usable alone from SQL.
 *
 * No preloading, no network, no tenant needed.  Without a tenant "types" and
 * "preset" say what is looked for; with one its own rules hold, and options can
 * only add to them.  Offsets are characters of the input, as SQL's substr counts
 * them.  Nothing here writes anything, but for a session's placeholders where one
 * is named.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "policy/admin.h"
#include "policy/watch.h"
#include "stage/detect.h"
#include "stage/redact.h"
#include "util/clock.h"
#include "util/json.h"
#include "util/json_push.h"

PG_FUNCTION_INFO_V1(mw_redact);
PG_FUNCTION_INFO_V1(mw_restore);
PG_FUNCTION_INFO_V1(mw_restore_session);
PG_FUNCTION_INFO_V1(mw_test_recognizer);
PG_FUNCTION_INFO_V1(mw_bench_redact);
PG_FUNCTION_INFO_V1(mw_builtin_recognizer_rows);

/* ---------- mw_redact ---------- */

/* The policy with the options of one call */
static const MwPolicy *
redact_options(const MwPolicy *policy, Jsonb *options, bool of_tenant)
{
	MwRedaction r;
	MwPolicy   *own;
	MwRecognizer *recs;
	const char *unknown;

	mw_redaction_read(options, "mw_redact", mw_redact_keys, &r);
	if (!r.types_given && r.strategies == NIL)
		return policy;
	own = palloc(sizeof(MwPolicy));
	*own = *policy;
	own->cxt = CurrentMemoryContext;
	own->redact_plan = NULL;
	own->recognizers = recs = palloc(sizeof(MwRecognizer) * Max(1, policy->nrecognizers));
	memcpy(recs, policy->recognizers, sizeof(MwRecognizer) * policy->nrecognizers);
	unknown = mw_redaction_apply(&r, recs, own->nrecognizers, of_tenant);
	if (unknown)
		mw_redaction_unknown(policy, unknown);
	if (r.types_given && !of_tenant)
	{
		int			n = 0;

		for (int i = 0; i < own->nrecognizers; i++)
			if (mw_redaction_names(&r, recs[i].type))
				recs[n++] = recs[i];
		own->nrecognizers = n;
	}
	return own;
}

/* The map of a session's turn, whose tenant and name are given */
static void
load_session(FunctionCallInfo fcinfo, int tenant, int session, MwPiiMap *map, bool issues)
{
	char	   *name = PG_ARGISNULL(session) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(session));

	if (PG_ARGISNULL(tenant) || name == NULL || name[0] == '\0' || strlen(name) > MW_SESSION_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("a session has a tenant and a name"),
				 errdetail("Both are given, and the name has 1 to %d bytes.", MW_SESSION_MAX),
				 errhint("Without a session leave the argument out: mw_redact(input, tenant), mw_restore(input, map).")));
	mw_require_may_see(text_to_cstring(PG_GETARG_TEXT_PP(tenant)), name);
	mw_pii_session_load(map, text_to_cstring(PG_GETARG_TEXT_PP(tenant)), name, issues);
}

/* mw_redact(input, tenant, options), and with a session */
Datum
mw_redact(PG_FUNCTION_ARGS)
{
	const MwPolicy *policy;
	text	   *input;
	char	   *s;
	char	   *out;
	int			len,
				outlen;
	MwPiiMap	map;
	MwSpan	   *spans;
	int			nspans;
	CharCounter count;
	JsonbParseState *st = NULL;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	policy = mw_arg_policy(fcinfo, 1);
	if (!PG_ARGISNULL(2))
		policy = redact_options(policy, PG_GETARG_JSONB_P(2), !PG_ARGISNULL(1));
	input = PG_GETARG_TEXT_PP(0);
	s = VARDATA_ANY(input);
	len = VARSIZE_ANY_EXHDR(input);

	mw_pii_map_init(&map, CurrentMemoryContext);
	if (PG_NARGS() > 3)
	{
		load_session(fcinfo, 1, 3, &map, true);
		map.typed = true;
	}
	mw_pii_reserve(&map, s, len);
	out = mw_redact_text(policy, &map, s, len, NULL, &outlen, &spans, &nspans);
	mw_pii_session_save(&map, policy);

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "text");
	push_string(&st, WJB_VALUE, out, outlen);
	push_key(&st, "map");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < map.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!map.entries[i].used)
			continue;
		push_key(&st, map.entries[i].placeholder);
		push_string(&st, WJB_VALUE, map.entries[i].value, map.entries[i].value_len);
	}
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	push_key(&st, "spans");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	count.s = s;
	count.byte = count.chars = 0;
	for (int i = 0; i < nspans; i++)
	{
		CHECK_FOR_INTERRUPTS();
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_int(&st, "start", chars_at(&count, spans[i].from));
		push_int(&st, "end", chars_at(&count, spans[i].to));
		push_member(&st, "type", spans[i].rec->type);
		push_key(&st, "placeholder");
		push_string(&st, WJB_VALUE, spans[i].shown, spans[i].shown_len);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
}

/* ---------- mw_restore ---------- */

#define MAX_TYPES 1024

/* The map that mw_redact returned, as a map of placeholders. */
static void
read_map(Jsonb *jb, MwPiiMap *map)
{
	MwJsonEach	each;

	if (!mw_json_is_object(jb))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("map must be an object of placeholders and their values"),
				 errhint("Use the member \"map\" of what mw_redact returned.")));
	mw_pii_map_init(map, CurrentMemoryContext);
	each = mw_json_each(&jb->root);
	while (mw_json_next(&each))
	{
		CHECK_FOR_INTERRUPTS();
		if (each.value.type != jbvString ||
			!mw_pii_add(map, each.key.val.string.val, each.key.val.string.len, each.value.val.string.val, each.value.val.string.len))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("map has a member that is no placeholder with a text"),
					 errhint("Placeholders look like <EMAIL_0>; use the member \"map\" of what mw_redact returned.")));
		/* types are searched one after another; no redaction makes as many */
		if (map->ntypes > MAX_TYPES)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("map has placeholders of too many types"),
					 errdetail("At most %d are allowed.", MAX_TYPES),
					 errhint("Use the member \"map\" of what mw_redact returned.")));
	}
}

/* mw_restore(input, map) */
Datum
mw_restore(PG_FUNCTION_ARGS)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	MwPiiMap	map;
	int			outlen;
	char	   *out;

	read_map(PG_GETARG_JSONB_P(1), &map);
	out = mw_restore_text(&map, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input), &outlen, NULL);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out, outlen));
}

/* mw_restore(input, tenant, session) */
Datum
mw_restore_session(PG_FUNCTION_ARGS)
{
	text	   *input;
	MwPiiMap	map;
	int			outlen;
	char	   *out;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	input = PG_GETARG_TEXT_PP(0);
	mw_pii_map_init(&map, CurrentMemoryContext);
	load_session(fcinfo, 1, 2, &map, false);
	out = mw_restore_text(&map, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input), &outlen, NULL);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out, outlen));
}

/* ---------- mw_test_recognizer ---------- */

/* mw_test_recognizer(pii_type, sample, tenant): a row a match of each of its patterns, and what became of it */
Datum
mw_test_recognizer(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsi = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *type;
	const MwPolicy *policy;
	text	   *sample;
	char	   *s;
	int			len;
	bool		any = false;
	MwSpan	   *spans;
	int			nspans;
	MwPolicy	own;
	MwRecognizer *recs;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		return (Datum) 0;
	type = mw_pii_type_name(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	policy = mw_arg_policy(fcinfo, 2);
	sample = PG_GETARG_TEXT_PP(1);
	s = VARDATA_ANY(sample);
	len = VARSIZE_ANY_EXHDR(sample);

	/* what the type finds, with its patterns on demand */
	own = *policy;
	own.cxt = CurrentMemoryContext;
	own.redact_plan = NULL;
	own.recognizers = recs = palloc(sizeof(MwRecognizer) * Max(1, policy->nrecognizers));
	own.nrecognizers = 0;
	for (int i = 0; i < policy->nrecognizers; i++)
		if (strcmp(policy->recognizers[i].type, type) == 0)
		{
			recs[own.nrecognizers] = policy->recognizers[i];
			recs[own.nrecognizers++].demanded = true;
			any = true;
		}
	if (!any)
		mw_redaction_unknown(policy, type);
	spans = mw_pii_find(&own, s, len, NULL, &nspans);

	for (int i = 0; i < own.nrecognizers; i++)
	{
		const MwRecognizer *rec = &own.recognizers[i];
		MwPiiTrial *trials;
		int			n;
		double		us;

		n = mw_pii_trial(&own, i, s, len, &trials, &us);
		for (int k = 0; k < Max(n, 1); k++)
		{
			Datum		values[9];
			bool		nulls[9] = {0};
			CharCounter count = {s, 0, 0};

			CHECK_FOR_INTERRUPTS();
			values[0] = Int32GetDatum(i);
			nulls[1] = nulls[2] = nulls[3] = nulls[4] = nulls[5] = nulls[6] = true;
			if (k < n)
			{
				const MwPiiTrial *t = &trials[k];
				bool		found = false;

				values[1] = Int32GetDatum(chars_at(&count, t->from));
				values[2] = Int32GetDatum(chars_at(&count, t->to));
				values[3] = PointerGetDatum(cstring_to_text_with_len(s + t->from, t->to - t->from));
				values[4] = BoolGetDatum(t->valid);
				values[5] = BoolGetDatum(t->named);
				for (int j = 0; j < nspans; j++)
					found |= spans[j].from <= t->from && spans[j].to > t->from && t->valid && t->named;
				values[6] = BoolGetDatum(found);
				nulls[1] = nulls[2] = nulls[3] = nulls[6] = false;
				nulls[4] = rec->validator == NULL;
				nulls[5] = rec->context == NULL;
			}
			values[7] = BoolGetDatum(rec->on_demand);
			values[8] = Float8GetDatum(us);
			tuplestore_putvalues(rsi->setResult, rsi->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}

/* mw.bench_redact(input, tenant, n): microseconds that one redaction of a text takes, its map and the new text included */
Datum
mw_bench_redact(PG_FUNCTION_ARGS)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	const MwPolicy *policy = mw_policy_get(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	int			n = PG_GETARG_INT32(2);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw bench", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int64		start = mw_computed_ns();

	for (int i = 0; i < n; i++)
	{
		MwPiiMap	map;
		int			len;

		mw_pii_map_init(&map, cxt);
		mw_pii_reserve(&map, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input));
		(void) mw_redact_text(policy, &map, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input), NULL, &len, NULL, NULL);
		MemoryContextReset(cxt);
	}
	start = mw_computed_ns() - start;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	PG_RETURN_FLOAT8(start / 1e3 / Max(1, n));
}

/* ---------- the built-in rows, for the install script ---------- */

/* mw.builtin_recognizers(): pii_type, id, pattern, validator, context, priority, strategy, prefilter, on_demand */
Datum
mw_builtin_recognizer_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsi = (ReturnSetInfo *) fcinfo->resultinfo;
	int			id = 0;
	int			i;

	InitMaterializedSRF(fcinfo, 0);
	for (i = 0; i < mw_builtin_recognizers(); i++)
	{
		const MwRecognizer *rec = mw_builtin_recognizer(i);
		Datum		values[9];
		bool		nulls[9] = {0};

		id = i > 0 && strcmp(rec->type, mw_builtin_recognizer(i - 1)->type) == 0 ? id + 1 : 0;
		values[0] = mw_out_text(rec->type, &nulls[0]);
		values[1] = Int32GetDatum(id);
		values[2] = mw_out_text(rec->pattern, &nulls[2]);
		values[3] = mw_out_text(rec->validator, &nulls[3]);
		values[4] = mw_out_text(rec->context, &nulls[4]);
		values[5] = Int32GetDatum(rec->priority);
		values[6] = mw_out_text(mw_strategy_name(rec->strategy), &nulls[6]);
		values[7] = mw_out_text(rec->prefilter, &nulls[7]);
		values[8] = BoolGetDatum(rec->on_demand);
		tuplestore_putvalues(rsi->setResult, rsi->setDesc, values, nulls);
	}
	return (Datum) 0;
}
