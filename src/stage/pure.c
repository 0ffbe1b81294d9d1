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

#include "policy/admin.h"
#include "policy/settings.h"
#include "stage/guardrail.h"
#include "stage/redact.h"
#include "stage/stages.h"
#include "util/json.h"
#include "util/json_push.h"

PG_FUNCTION_INFO_V1(mw_guard);
PG_FUNCTION_INFO_V1(mw_wrap_document);
PG_FUNCTION_INFO_V1(mw_count_tokens);
PG_FUNCTION_INFO_V1(mw_text);
PG_FUNCTION_INFO_V1(mw_builtin_guard_rows);

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
	policy = mw_arg_policy(fcinfo, 1);
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

		values[0] = mw_out_text(g->guard, &nulls[0]);
		values[1] = mw_out_text(kinds[g->kind], &nulls[1]);
		values[2] = mw_out_text(g->pattern, &nulls[2]);
		values[3] = mw_out_text(g->category, &nulls[3]);
		values[4] = Float8GetDatum(g->weight);
		values[5] = Float8GetDatum(g->threshold > 0 ? g->threshold : MW_GUARD_THRESHOLD);
		for (k = 0; k < MW_NSOURCES; k++)
			if ((g->sources ? g->sources : MW_FROM_INPUT) & (1 << k))
				from[n++] = CStringGetTextDatum(sources[k]);
		values[6] = PointerGetDatum(construct_array(from, n, TEXTOID, -1, false, TYPALIGN_INT));
		values[7] = mw_out_text(modes[g->mode], &nulls[7]);
		tuplestore_putvalues(rsi->setResult, rsi->setDesc, values, nulls);
	}
	return (Datum) 0;
}
