/*
 * recognizer_call.c - recognisers that are SQL functions: names, addresses, and
 * whatever else no pattern tells.
 *
 * f(text) returns jsonb: an array of {"start": n, "end": m}, in characters of the
 * text, half-open; NULL or an empty array for nothing.  It runs as the caller
 * (policy/userfunc.h).  What cannot be understood is an error: a recogniser that
 * fails lets nothing pass.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "policy/userfunc.h"
#include "stage/detect.h"
#include "util/json.h"

static void
bad_answer(const MwRecognizer *rec)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("the function of the recognizer for %s answered wrongly", rec->type),
			 errdetail("It must return a JSON array of objects with \"start\" and \"end\", characters of the text it was given, half-open."),
			 errhint("Such as [{\"start\": 0, \"end\": 5}].")));
}

static int64
number_of(Jsonb *jb, const char *key, const MwRecognizer *rec)
{
	JsonbValue *v = mw_json_get(jb, key);

	if (v == NULL || v->type != jbvNumeric)
		bad_answer(rec);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric)));
}

/* The byte at which a character begins, counting on from where the last count ended */
static int
byte_of(const char *s, int len, int64 want, int *chars, int *byte)
{
	if (want < *chars)
		*chars = *byte = 0;
	while (*chars < want && *byte < len)
	{
		*byte += pg_utf_mblen((const unsigned char *) s + *byte);
		(*chars)++;
	}
	return *chars == want ? *byte : -1;
}

static void
ask(MwSearch *q, const MwRecognizer *rec)
{
	Datum		arg = PointerGetDatum(cstring_to_text_with_len(q->s, q->len));
	Oid			type;
	bool		isnull;
	Datum		d = mw_userfunc_call(rec->function, psprintf("recognizer \"%s\"", rec->type), 1, &arg, &type, &isnull);
	Jsonb	   *answer;
	MwJsonEach	each;
	int			chars = 0,
				byte = 0;

	if (isnull)
		return;
	answer = DatumGetJsonbP(d);
	if (!mw_json_is_array(answer))
		bad_answer(rec);
	each = mw_json_each(&answer->root);
	while (mw_json_next(&each))
	{
		Jsonb	   *span;
		int			from,
					to;

		CHECK_FOR_INTERRUPTS();
		if (!mw_value_is_object(&each.value))
			bad_answer(rec);
		span = JsonbValueToJsonb(&each.value);
		from = byte_of(q->s, q->len, number_of(span, "start", rec), &chars, &byte);
		to = byte_of(q->s, q->len, number_of(span, "end", rec), &chars, &byte);
		if (from < 0 || to < 0 || from >= to)
			bad_answer(rec);
		mw_found_add(q->found, from, to, rec);
	}
}

/* Ask the functions of a policy, then the servers. */
static void
ask_all(MwSearch *q, const MwPolicy *policy)
{
	for (int i = 0; i < policy->nrecognizers; i++)
	{
		const MwRecognizer *rec = &policy->recognizers[i];

		if (rec->function != NULL && (!rec->on_demand || rec->demanded))
			ask(q, rec);
	}
	mw_analyses_find(q, policy);
}

/* mw_recognizers_init lets them be asked. */
void
mw_recognizers_init(void)
{
	mw_pii_functions = ask_all;
}
