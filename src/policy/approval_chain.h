/*
 * approval_chain.h - rows of mw.approval_log, chained.
 */
#ifndef MW_APPROVAL_CHAIN_H
#define MW_APPROVAL_CHAIN_H

#include "mw.h"

#include "utils/jsonb.h"
#include "utils/timestamp.h"

typedef struct MwApprovalEvent
{
	const char *tenant;
	const char *session;
	int64		seq;			/* in the session, from 1 */
	const char *interrupt_id;
	int32		place;
	const char *event;
	Jsonb	   *detail;
	const char *role;			/* its name: the log outlives it */
	TimestampTz at;
} MwApprovalEvent;

/* The hash of a row; before: of the one before it, zeros for the first */
extern MwKey mw_approval_chain(const MwKey *before, const MwApprovalEvent *e);

typedef void (*MwBrokenChain) (void *arg, const char *tenant, const char *session, const char *expected, const char *found);
extern void mw_approval_chains_check(MwBrokenChain broken, void *arg);

#endif
