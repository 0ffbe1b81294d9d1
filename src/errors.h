/*
 * errors.h - the SQLSTATEs of mw, grouped by the stage that raises them.
 *
 * Every code is part of the SQL surface: other people's scripts catch it.  A
 * code says what kind of thing went wrong, the message says which one, the
 * detail gives the figures and the hint gives the statement to type.
 */
#ifndef MW_ERRORS_H
#define MW_ERRORS_H

#include "utils/elog.h"

/* arguments, configuration, installation */
#define ERRCODE_MW_BAD_ARGUMENT		MAKE_SQLSTATE('M', 'W', '0', '0', '1')
#define ERRCODE_MW_BAD_ORDER		MAKE_SQLSTATE('M', 'W', '0', '0', '2')
#define ERRCODE_MW_NOT_AVAILABLE	MAKE_SQLSTATE('M', 'W', '0', '0', '3')

/* rights */
#define ERRCODE_MW_NOT_YOUR_TENANT	MAKE_SQLSTATE('M', 'W', '1', '0', '1')

/* redact and guardrail */
#define ERRCODE_MW_PII_REFUSED		MAKE_SQLSTATE('M', 'W', '2', '0', '1')
#define ERRCODE_MW_GUARD_REFUSED	MAKE_SQLSTATE('M', 'W', '2', '0', '2')
#define ERRCODE_MW_TOOL_REFUSED		MAKE_SQLSTATE('M', 'W', '2', '0', '3')

/* budget */
#define ERRCODE_MW_BUDGET_EXHAUSTED MAKE_SQLSTATE('M', 'W', '3', '0', '1')
#define ERRCODE_MW_NO_PRICE			MAKE_SQLSTATE('M', 'W', '3', '0', '2')

/* retry and model */
#define ERRCODE_MW_PROVIDER_REFUSED MAKE_SQLSTATE('M', 'W', '4', '0', '1')
#define ERRCODE_MW_PROVIDER_FAILED	MAKE_SQLSTATE('M', 'W', '4', '0', '2')
#define ERRCODE_MW_BREAKER_OPEN		MAKE_SQLSTATE('M', 'W', '4', '0', '3')
#define ERRCODE_MW_DEADLINE			MAKE_SQLSTATE('M', 'W', '4', '0', '4')
#define ERRCODE_MW_BAD_ANSWER		MAKE_SQLSTATE('M', 'W', '4', '0', '5')

/* request ids */
#define ERRCODE_MW_OTHER_REQUEST	MAKE_SQLSTATE('M', 'W', '5', '0', '1')
#define ERRCODE_MW_OUTCOME_UNKNOWN	MAKE_SQLSTATE('M', 'W', '5', '0', '2')

/* runs and approvals */
#define ERRCODE_MW_RUN_EXCEEDED		MAKE_SQLSTATE('M', 'W', '6', '0', '1')
#define ERRCODE_MW_BAD_DECISION		MAKE_SQLSTATE('M', 'W', '6', '0', '2')
#define ERRCODE_MW_NO_INTERRUPT		MAKE_SQLSTATE('M', 'W', '6', '0', '3')
#define ERRCODE_MW_NOT_YOUR_DECISION MAKE_SQLSTATE('M', 'W', '6', '0', '4')
#define ERRCODE_MW_NOT_APPROVED		MAKE_SQLSTATE('M', 'W', '6', '0', '5')
#define ERRCODE_MW_PAUSED			MAKE_SQLSTATE('M', 'W', '6', '9', '9')	/* never leaves a run */

/* tools and hooks */
#define ERRCODE_MW_TOOL_FAILED		MAKE_SQLSTATE('M', 'W', '7', '0', '1')
#define ERRCODE_MW_HOOK_FAILED		MAKE_SQLSTATE('M', 'W', '7', '0', '2')

/* MW001 to MW702: users may have codes of their own in class MW, such as MWT01 */
#define mw_errcode_is_ours(code) \
	(PGUNSIXBIT((code)) == 'M' && PGUNSIXBIT((code) >> 6) == 'W' && PGUNSIXBIT((code) >> 12) <= '7')

#endif							/* MW_ERRORS_H */
