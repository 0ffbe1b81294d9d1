/*
 * mw.c - loading: settings, hooks, shared memory.  A table of contents.
 *
 * Everything that needs shared memory is set up only while preloading; without
 * it the pure pieces, administration and servers with api 'fake' work, and a
 * call to a real server says what to set.
 */
#include "mw.h"

#include <sodium.h>

#include "fmgr.h"
#include "miscadmin.h"

#include "call/call.h"
#include "gateway/gateway.h"
#include "gateway/held.h"
#include "gateway/shm.h"
#include "gateway/tell.h"
#include "guc.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "stage/guardrail.h"
#include "stage/redact.h"
#include "util/faults.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	if (sodium_init() < 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_AVAILABLE),
				 errmsg("mw cannot use libsodium on this machine")));

	mw_fault_init();			/* before the prefix is closed */
	mw_guc_init();
	mw_held_init();
	mw_policy_init();
	mw_rules_builtin(mw_recognizers_sorted(), mw_builtin_recognizers(), mw_guards_sorted(), mw_nbuiltin_guards);
	mw_recognizers_init();
	mw_pipeline_init();
	mw_loghide_init();

	if (process_shared_preload_libraries_in_progress && !IsBinaryUpgrade)
	{
		mw_shm_init();
		mw_launch_init();
		mw_tell_init();
		mw_redact_prewarm();	/* children inherit the compiled patterns */
		mw_guard_prewarm();
		mw_guard_stats_init();
	}
}
