/*
 * order.c - what an order of the stages must keep, and what it breaks.
 *
 * The rules are invariant 1 of ARCHITECTURE.md, one row each, with what would go
 * wrong otherwise.  The same rows are asserted against MwStageId while
 * compiling (so nobody can reorder the pipeline and build it), against the
 * linked table at load, and against any order that a user asks about.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "call/call.h"

/*
 * RULE(before, after, directly, text).  "directly" asks for more: nothing may
 * stand between the two.
 */
#define ORDER_RULES(RULE) \
	RULE(REDACT, GUARDRAIL, 0, "redact before guardrail: raw text is judged") \
	RULE(REDACT, CACHE, 0, "redact before cache: P24: personal data becomes a cache key") \
	RULE(GUARDRAIL, BUDGET, 0, "guardrail before budget: refused text reserves money") \
	RULE(GUARDRAIL, CACHE, 0, "guardrail before cache: P34: an injection becomes a cache entry") \
	RULE(BUDGET, CACHE, 0, "budget before cache: P10: a loop of hits is free") \
	RULE(CACHE, RETRY, 0, "cache before retry: a hit is retried") \
	RULE(RETRY, MODEL, 1, "retry directly before model: P25: something other than the model is retried")

#define KEEPS(before, after, directly) \
	((directly) ? (before) + 1 == (after) : (before) < (after))

#define ASSERT_RULE(a, b, directly, text) \
	StaticAssertDecl(KEEPS((int) MW_STAGE_##a, (int) MW_STAGE_##b, directly), text);
ORDER_RULES(ASSERT_RULE)

static const struct
{
	MwStageId	before;
	MwStageId	after;
	bool		directly;
	const char *text;
}			rules[] = {
#define RULE_ROW(a, b, directly, text) {MW_STAGE_##a, MW_STAGE_##b, directly, text},
	ORDER_RULES(RULE_ROW)
};

/* order holds each stage once */
int
mw_order_violations(const MwStageId *order, StringInfo out)
{
	int			place[MW_NSTAGES];
	int			n = 0;

	for (int i = 0; i < MW_NSTAGES; i++)
		place[order[i]] = i;

	for (int i = 0; i < lengthof(rules); i++)
	{
		if (KEEPS(place[rules[i].before], place[rules[i].after], rules[i].directly))
			continue;
		if (n++ > 0)
			appendStringInfoChar(out, '\n');
		appendStringInfoString(out, rules[i].text);
	}
	return n;
}

static _Noreturn void
not_the_stages(const char *detail)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < MW_NSTAGES; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", mw_stages[i].name);

	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("an order names each of the six stages once"),
			 errdetail_internal("%s", detail),
			 errhint("The stages are: %s.", names.data)));
}

/* ---------- SQL ---------- */

PG_FUNCTION_INFO_V1(mw_check_order);

Datum
mw_check_order(PG_FUNCTION_ARGS)
{
	ArrayType  *array;
	Datum	   *names;
	bool	   *nulls;
	int			n;
	MwStageId	order[MW_NSTAGES];
	bool		seen[MW_NSTAGES] = {false};
	StringInfoData broken;

	if (PG_ARGISNULL(0))
		not_the_stages("The order is NULL.");
	array = PG_GETARG_ARRAYTYPE_P(0);
	if (ARR_NDIM(array) > 1)
		not_the_stages("The order is not a list but an array of several dimensions.");
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, &nulls, &n);

	for (int i = 0; i < n; i++)
	{
		char	   *name;
		int			id;

		if (nulls[i])
			not_the_stages("A stage is NULL.");
		name = TextDatumGetCString(names[i]);
		for (id = 0; id < MW_NSTAGES; id++)
		{
			if (strcmp(name, mw_stages[id].name) == 0)
				break;
		}
		if (id == MW_NSTAGES)
		{
			name[pg_mbcliplen(name, strlen(name), 64)] = '\0';
			not_the_stages(psprintf("There is no stage \"%s\".", name));
		}
		if (seen[id])
			not_the_stages(psprintf("Stage \"%s\" is named twice.", name));
		seen[id] = true;
		order[i] = (MwStageId) id;	/* within bounds: no name comes twice */
	}
	for (int id = 0; id < MW_NSTAGES; id++)
	{
		if (!seen[id])
			not_the_stages(psprintf("Stage \"%s\" is missing.", mw_stages[id].name));
	}

	initStringInfo(&broken);
	if (mw_order_violations(order, &broken) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ORDER),
				 errmsg("this order of stages breaks an invariant"),
				 errdetail_internal("%s", broken.data),
				 errhint("The order is redact, guardrail, budget, cache, retry, model.")));
	PG_RETURN_VOID();
}
