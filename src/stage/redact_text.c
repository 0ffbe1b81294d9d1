/*
 * redact_text.c - one text with its values taken out.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "stage/detect.h"
#include "stage/redact.h"

static void
refuse(const MwPolicy *policy, const MwRecognizer *rec)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_PII_REFUSED),
			 errmsg("personal data is refused"),
			 errdetail("The text holds a value of type %s, whose strategy is \"block\".", rec->type),
			 errhint("Take it out of the text. Which strategy a type has is an administrator's decision: "
					 "SELECT mw_alter_recognizer(%s, '{\"strategy\": \"placeholder\"}'%s%s);",
					 quote_literal_cstr(rec->type),
					 rec->own ? ", " : "", rec->own ? quote_literal_cstr(policy->tenant) : "")));
}

/* What reads like a placeholder that was issued before, and was typed; weaker than anything that is personal */
static const MwRecognizer typed = {.type = "LITERAL", .priority = PG_INT32_MIN, .strategy = MW_STRATEGY_PLACEHOLDER};

static MwSpan *
find_typed(const MwPiiMap *map, const char *s, int len, MwSpan *spans, int *n)
{
	MwLoose		l;
	MwFound		f = {.spans = spans, .n = *n, .cap = *n};

	mw_loose_start(&l, s, len);
	while (mw_loose_next(&l))
	{
		if (!mw_pii_is_issued(map, l.strict + 1, l.type_len, l.number))
			continue;
		if (f.cap == 0)
			f.spans = palloc(sizeof(MwSpan) * (f.cap = 8));
		mw_found_add(&f, l.from, l.to, &typed);
	}
	*n = f.n == *n ? f.n : mw_spans_settle(f.spans, f.n);
	return f.spans;
}

/* mw_redact_text replaces what is personal in one text. */
char *
mw_redact_text(const MwPolicy *policy, MwPiiMap *map, char *s, int len, const char *label,
			   int *newlen, MwSpan **spans, int *nspans)
{
	int			n;
	MwSpan	   *sp = mw_pii_find_with(policy, map->analyses, s, len, label, &n);

	return mw_redact_found(policy, map, s, len, sp, n, newlen, spans, nspans);
}

/* mw_redact_found does where they stand. */
char *
mw_redact_found(const MwPolicy *policy, MwPiiMap *map, char *s, int len, MwSpan *sp, int n,
				int *newlen, MwSpan **spans, int *nspans)
{
	Size		total = len;
	char	   *out;
	char	   *p;
	int			at = 0;
	int			i;

	if (map->typed)
		sp = find_typed(map, s, len, sp, &n);
	if (spans)
		*spans = sp;
	if (nspans)
		*nspans = n;
	*newlen = len;
	if (n == 0)
		return s;

	for (i = 0; i < n; i++)
	{
		const char *value = s + sp[i].from;
		int			vlen = sp[i].to - sp[i].from;
		const char *type = sp[i].rec->type;

		CHECK_FOR_INTERRUPTS();
		switch (sp[i].rec->strategy)
		{
			case MW_STRATEGY_PLACEHOLDER:
				sp[i].entry = mw_pii_entry(map, type, value, vlen);
				sp[i].shown = map->entries[sp[i].entry].placeholder;
				sp[i].shown_len = strlen(sp[i].shown);
				break;
			case MW_STRATEGY_MASK:
				sp[i].shown = mw_pii_masked(type, value, vlen, &sp[i].shown_len);
				break;
			case MW_STRATEGY_HASH:
				sp[i].shown = mw_pii_hashed(policy->tenant ? policy->tenant : "*", type, value, vlen);
				sp[i].shown_len = strlen(sp[i].shown);
				break;
			case MW_STRATEGY_REDACT:
				sp[i].shown = psprintf("[REDACTED_%s]", type);
				sp[i].shown_len = strlen(sp[i].shown);
				break;
			case MW_STRATEGY_BLOCK:
				refuse(policy, sp[i].rec);
				break;
		}
		total += sp[i].shown_len - vlen;
	}
	if (total >= MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("text is too large after redaction"),
				 errhint("Send less at a time.")));

	p = out = palloc(total + 1);
	for (i = 0; i < n; i++)
	{
		memcpy(p, s + at, sp[i].from - at);
		p += sp[i].from - at;
		memcpy(p, sp[i].shown, sp[i].shown_len);
		p += sp[i].shown_len;
		at = sp[i].to;
	}
	memcpy(p, s + at, len - at);
	p += len - at;
	*p = '\0';
	*newlen = p - out;
	return out;
}

/* mw_redact_answer takes personal data out of what a model said; nothing of it is ever put back. */
char *
mw_redact_answer(const MwPolicy *policy, char *s, int len, int *newlen)
{
	int			n;
	MwSpan	   *sp = mw_pii_find(policy, s, len, NULL, &n);
	StringInfoData buf;
	int			at = 0;

	*newlen = len;
	if (n == 0)
		return s;
	initStringInfo(&buf);
	for (int i = 0; i < n; i++)
	{
		const char *value = s + sp[i].from;
		int			vlen = sp[i].to - sp[i].from;
		const char *type = sp[i].rec->type;

		CHECK_FOR_INTERRUPTS();
		appendBinaryStringInfo(&buf, s + at, sp[i].from - at);
		at = sp[i].to;
		switch (sp[i].rec->strategy)
		{
			case MW_STRATEGY_MASK:
				{
					int			masked_len;
					char	   *masked = mw_pii_masked(type, value, vlen, &masked_len);

					appendBinaryStringInfo(&buf, masked, masked_len);
					break;
				}
			case MW_STRATEGY_HASH:
				appendStringInfoString(&buf, mw_pii_hashed(policy->tenant ? policy->tenant : "*", type, value, vlen));
				break;
			case MW_STRATEGY_BLOCK:
				ereport(ERROR,
						(errcode(ERRCODE_MW_PII_REFUSED),
						 errmsg("the answer holds personal data"),
						 errdetail("The model's answer holds a value of type %s, whose strategy is \"block\". It is paid for and recorded.", type),
						 errhint("Ask otherwise, or let an administrator choose another strategy for %s.", type)));
				break;
			case MW_STRATEGY_PLACEHOLDER:
			case MW_STRATEGY_REDACT:
				appendStringInfo(&buf, "[REDACTED_%s]", type);
				break;
		}
	}
	appendBinaryStringInfo(&buf, s + at, len - at);
	*newlen = buf.len;
	return buf.data;
}
