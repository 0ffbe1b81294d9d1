/*
 * pure.c - the stages' text functions, usable alone from SQL.
 *
 * They need no preloading, no network and no tenant; with a tenant its own
 * rules hold, and options can only make them stricter.  Offsets are characters
 * of the input, as SQL's substr counts them.  Nothing here writes anything.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "policy/settings.h"
#include "stage/guardrail.h"
#include "stage/redact.h"
#include "stage/stages.h"
#include "util/json.h"

PG_FUNCTION_INFO_V1(mw_redact);
PG_FUNCTION_INFO_V1(mw_restore);
PG_FUNCTION_INFO_V1(mw_guard);
PG_FUNCTION_INFO_V1(mw_wrap_document);
PG_FUNCTION_INFO_V1(mw_count_tokens);
PG_FUNCTION_INFO_V1(mw_text);
PG_FUNCTION_INFO_V1(mw_builtin_recognizer_rows);
PG_FUNCTION_INFO_V1(mw_builtin_guard_rows);

/* ---------- helpers ---------- */

static void
push_key(JsonbParseState **st, const char *key)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, key);
	v.val.string.len = strlen(key);
	pushJsonbValue(st, WJB_KEY, &v);
}

static void
push_string(JsonbParseState **st, JsonbIteratorToken as, const char *s, int len)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, s);
	v.val.string.len = len;
	pushJsonbValue(st, as, &v);
}

static void
push_member(JsonbParseState **st, const char *key, const char *s)
{
	push_key(st, key);
	push_string(st, WJB_VALUE, s, strlen(s));
}

static void
push_int(JsonbParseState **st, const char *key, int64 n)
{
	JsonbValue	v;

	push_key(st, key);
	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(n);
	pushJsonbValue(st, WJB_VALUE, &v);
}

/* Characters between two places of a text, counted on from where the last count ended. */
typedef struct CharCounter
{
	const char *s;
	int			byte;
	int			chars;
} CharCounter;

static int
chars_at(CharCounter *c, int byte)
{
	if (byte < c->byte)
	{
		c->byte = 0;
		c->chars = 0;
	}
	c->chars += pg_mbstrlen_with_len(c->s + c->byte, byte - c->byte);
	c->byte = byte;
	return c->chars;
}

static const MwPolicy *
policy_of(FunctionCallInfo fcinfo, int arg)
{
	if (PG_ARGISNULL(arg))
		return mw_policy_default();
	return mw_policy_get(text_to_cstring(PG_GETARG_TEXT_PP(arg)));
}

static char *
string_of(JsonbValue *v, const char *what)
{
	if (v->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("%s must be a string", what)));
	return pnstrdup(v->val.string.val, v->val.string.len);
}

/* A name for a message: a caller's text, so cut where it is long */
static char *
shown(const char *name)
{
	return pnstrdup(name, pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1));
}

/* ---------- mw_redact ---------- */

/*
 * The policy with the options of one call: only some types, other strategies.
 * Where a tenant's rules hold the stricter strategy of both does.
 */
static const MwPolicy *
redact_options(const MwPolicy *policy, Jsonb *options, bool of_tenant)
{
	static const char *const known[] = {"strategies", "types", NULL};
	JsonbValue *strategies;
	JsonbValue *types;
	MwPolicy   *own;
	bool	   *keep;
	char	   *type = NULL;
	int			i,
				n;

	mw_json_check_keys(options, "option", "mw_redact", known);
	strategies = mw_json_get(options, "strategies");
	types = mw_json_get(options, "types");
	if (strategies == NULL && types == NULL)
		return policy;

	own = palloc(sizeof(MwPolicy));
	*own = *policy;
	own->cxt = CurrentMemoryContext;
	own->redact_plan = NULL;
	own->recognizers = palloc(sizeof(MwRecognizer) * Max(1, policy->nrecognizers));
	memcpy(own->recognizers, policy->recognizers, sizeof(MwRecognizer) * policy->nrecognizers);
	keep = palloc(Max(1, policy->nrecognizers));
	memset(keep, types == NULL, Max(1, policy->nrecognizers));

	if (types != NULL)
	{
		Jsonb	   *list = mw_json_value_jsonb(types);
		JsonbIterator *it;
		JsonbIteratorToken tok;
		JsonbValue	v;

		if (!mw_json_is_array(list))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("\"types\" must be an array of names of types"),
					 errhint("Such as {\"types\": [\"EMAIL\", \"PHONE\"]}.")));
		it = JsonbIteratorInit(&list->root);
		while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
			if (tok == WJB_ELEM)
			{
				bool		any = false;

				type = mw_pii_type_name(string_of(&v, "a name of a type"));
				for (i = 0; i < own->nrecognizers; i++)
					if (strcmp(own->recognizers[i].type, type) == 0)
						keep[i] = any = true;
				if (!any)
					goto unknown_type;
			}
	}
	if (strategies != NULL)
	{
		Jsonb	   *object = mw_json_value_jsonb(strategies);
		JsonbIterator *it;
		JsonbIteratorToken tok;
		JsonbValue	v;

		if (!mw_json_is_object(object))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("\"strategies\" must be an object of types and their strategies"),
					 errhint("Such as {\"strategies\": {\"EMAIL\": \"mask\"}}.")));
		it = JsonbIteratorInit(&object->root);
		while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
		{
			MwStrategy	strategy;
			bool		any = false;

			if (tok == WJB_KEY)
				type = mw_pii_type_name(pnstrdup(v.val.string.val, v.val.string.len));
			if (tok != WJB_VALUE)
				continue;
			if (!mw_strategy_find(string_of(&v, "a strategy"), &strategy))
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("unknown strategy for type %s", shown(type)),
						 errhint("Known: mask, placeholder, hash, redact, block.")));
			for (i = 0; i < own->nrecognizers; i++)
				if (strcmp(own->recognizers[i].type, type) == 0)
				{
					any = true;
					own->recognizers[i].strategy = of_tenant
						? Max(strategy, own->recognizers[i].strategy) : strategy;
				}
			if (!any)
				goto unknown_type;
		}
	}

	for (i = n = 0; i < own->nrecognizers; i++)
		if (keep[i])
			own->recognizers[n++] = own->recognizers[i];
	own->nrecognizers = n;
	return own;

unknown_type:
	{
		StringInfoData list;
		const char **names = palloc(sizeof(char *) * Max(1, policy->nrecognizers));

		for (i = 0; i < policy->nrecognizers; i++)
			names[i] = policy->recognizers[i].type;
		qsort(names, policy->nrecognizers, sizeof(char *), pg_qsort_strcmp);
		/* a type may have several patterns */
		initStringInfo(&list);
		for (i = 0; i < policy->nrecognizers; i++)
			if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
				appendStringInfo(&list, "%s%s", list.len ? ", " : "", names[i]);
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("unknown type of personal data \"%s\"", shown(type)),
				 errhint("Known: %s.", list.data)));
	}
	return NULL;				/* keep the compiler quiet */
}

/* mw_redact(input, tenant, options) */
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
	int			i;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	policy = policy_of(fcinfo, 1);
	if (!PG_ARGISNULL(2))
		policy = redact_options(policy, PG_GETARG_JSONB_P(2), !PG_ARGISNULL(1));
	input = PG_GETARG_TEXT_PP(0);
	s = VARDATA_ANY(input);
	len = VARSIZE_ANY_EXHDR(input);

	mw_pii_map_init(&map, CurrentMemoryContext);
	mw_pii_reserve(&map, s, len);
	out = mw_redact_text(policy, &map, s, len, NULL, &outlen, &spans, &nspans);

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "text");
	push_string(&st, WJB_VALUE, out, outlen);
	push_key(&st, "map");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	for (i = 0; i < map.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		push_key(&st, map.entries[i].placeholder);
		push_string(&st, WJB_VALUE, map.entries[i].value, map.entries[i].value_len);
	}
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	push_key(&st, "spans");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	count.s = s;
	count.byte = count.chars = 0;
	for (i = 0; i < nspans; i++)
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

/* mw_restore(input, map) */
Datum
mw_restore(PG_FUNCTION_ARGS)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	Jsonb	   *jb = PG_GETARG_JSONB_P(1);
	MwPiiMap	map;
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	v;
	char	   *key = NULL;
	int			keylen = 0;
	int			outlen;
	char	   *out;

	if (!mw_json_is_object(jb))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("map must be an object of placeholders and their values"),
				 errhint("Use the member \"map\" of what mw_redact returned.")));
	mw_pii_map_init(&map, CurrentMemoryContext);
	it = JsonbIteratorInit(&jb->root);
	while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (tok == WJB_KEY)
		{
			key = v.val.string.val;
			keylen = v.val.string.len;
		}
		if (tok != WJB_VALUE)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (v.type != jbvString ||
			!mw_pii_add(&map, key, keylen, v.val.string.val, v.val.string.len))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("map has a member that is no placeholder with a text"),
					 errhint("Placeholders look like <EMAIL_0>; use the member \"map\" of what mw_redact returned.")));
		/* types are searched one after another; no redaction makes as many */
		if (map.ntypes > MAX_TYPES)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("map has placeholders of too many types"),
					 errdetail("At most %d are allowed.", MAX_TYPES),
					 errhint("Use the member \"map\" of what mw_redact returned.")));
	}
	out = mw_restore_text(&map, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input), &outlen, NULL);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out, outlen));
}

/* ---------- mw_guard ---------- */

/* mw_guard(input, tenant, options) */
Datum
mw_guard(PG_FUNCTION_ARGS)
{
	static const char *const known[] = {"source", NULL};
	static const char *const verdicts[] = {"pass", "log", "block"};
	static const char *const sources[] = {"user", "tool", "document", "output", NULL};
	MwGuardSource source = MW_FROM_USER;
	const MwPolicy *policy;
	text	   *input;
	char	   *s;
	char	   *wrapped;
	int			len,
				wraplen;
	MwVerdict	verdict;
	MwCall		nobody = {0};
	JsonbParseState *st = NULL;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	policy = policy_of(fcinfo, 1);
	if (!PG_ARGISNULL(2))
	{
		char	   *named;

		mw_json_check_keys(PG_GETARG_JSONB_P(2), "option", "mw_guard", known);
		named = mw_settings_word(PG_GETARG_JSONB_P(2), "source", sources, "user");
		while (strcmp(sources[source], named) != 0)
			source++;
	}
	input = PG_GETARG_TEXT_PP(0);
	s = VARDATA_ANY(input);
	len = VARSIZE_ANY_EXHDR(input);

	mw_guard_judge(policy, source, s, len, &verdict);
	/* functions are asked, models not: they would have to be paid */
	nobody.policy = policy;
	mw_guard_ask(&nobody, source, s, len, &verdict);
	wrapped = mw_guard_wrap(s, len, &wraplen);

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "verdict", verdicts[verdict.verdict]);
	mw_verdict_push(&st, &verdict, s, s, len);
	push_key(&st, "wrapped");
	push_string(&st, WJB_VALUE, wrapped, wraplen);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
}

/* mw_wrap_document(input, source) */
Datum
mw_wrap_document(PG_FUNCTION_ARGS)
{
	text	   *input;
	char	   *wrapped;
	int			len;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	input = PG_GETARG_TEXT_PP(0);
	wrapped = mw_document_wrap(VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input),
							   PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1)), &len);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(wrapped, len));
}

/* ---------- small ones ---------- */

/* mw_count_tokens(input, model): the model makes no difference to the bound yet named for the day it does */
Datum
mw_count_tokens(PG_FUNCTION_ARGS)
{
	text	   *input;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	input = PG_GETARG_TEXT_PP(0);
	PG_RETURN_INT32((int32) mw_tokens_of_text(VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input)));
}

/* mw_text(message): a message, its content, or a list of parts */
Datum
mw_text(PG_FUNCTION_ARGS)
{
	Jsonb	   *jb = PG_GETARG_JSONB_P(0);
	JsonbValue	v;
	JsonbValue *content;
	char	   *s;

	if (JB_ROOT_IS_SCALAR(jb))
		content = getIthJsonbValueFromContainer(&jb->root, 0);
	else if (mw_json_is_object(jb) &&
			 getKeyJsonValueFromContainer(&jb->root, "content", 7, NULL) != NULL)
		content = mw_json_get(jb, "content");
	else
	{
		v.type = jbvBinary;
		v.val.binary.data = &jb->root;
		v.val.binary.len = VARSIZE(jb) - VARHDRSZ;
		content = &v;
	}
	s = mw_json_content_text(content);
	if (s == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(s));
}

/* ---------- the built-in rows, for the install script ---------- */

#define PUT_TEXT(i, s) \
	do { \
		const char *s_ = (s); \
		nulls[i] = s_ == NULL; \
		values[i] = s_ ? CStringGetTextDatum(s_) : (Datum) 0; \
	} while (0)

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
		PUT_TEXT(0, rec->type);
		values[1] = Int32GetDatum(id);
		PUT_TEXT(2, rec->pattern);
		PUT_TEXT(3, rec->validator);
		PUT_TEXT(4, rec->context);
		values[5] = Int32GetDatum(rec->priority);
		PUT_TEXT(6, mw_strategy_name(rec->strategy));
		PUT_TEXT(7, rec->prefilter);
		values[8] = BoolGetDatum(rec->on_demand);
		tuplestore_putvalues(rsi->setResult, rsi->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* mw.builtin_guards(): guard, kind, pattern, category, weight, threshold, sources, mode */
Datum
mw_builtin_guard_rows(PG_FUNCTION_ARGS)
{
	static const char *const modes[] = {"off", "log", "block"};
	static const char *const kinds[] = {"pattern", "check", "learned", "function", "model"};
	static const char *const sources[] = {"user", "tool", "document", "output"};
	ReturnSetInfo *rsi = (ReturnSetInfo *) fcinfo->resultinfo;
	int			i;

	InitMaterializedSRF(fcinfo, 0);
	for (i = 0; i < mw_nbuiltin_guards; i++)
	{
		const MwGuard *g = &mw_builtin_guards[i];
		Datum		values[8];
		bool		nulls[8] = {0};
		Datum		from[MW_NSOURCES];
		int			n = 0;
		int			k;

		PUT_TEXT(0, g->guard);
		PUT_TEXT(1, kinds[g->kind]);
		PUT_TEXT(2, g->pattern);
		PUT_TEXT(3, g->category);
		values[4] = Float8GetDatum(g->weight);
		values[5] = Float8GetDatum(g->threshold > 0 ? g->threshold : 0.5);
		for (k = 0; k < MW_NSOURCES; k++)
			if ((g->sources ? g->sources : MW_FROM_INPUT) & (1 << k))
				from[n++] = CStringGetTextDatum(sources[k]);
		values[6] = PointerGetDatum(construct_array(from, n, TEXTOID, -1, false, TYPALIGN_INT));
		PUT_TEXT(7, modes[g->mode]);
		tuplestore_putvalues(rsi->setResult, rsi->setDesc, values, nulls);
	}
	return (Datum) 0;
}
