/*
 * guc.h - all settings of mw.  Each has a row in the README.
 */
#ifndef MW_GUC_H
#define MW_GUC_H

#include "postgres.h"

#define MW_MAX_TIMEOUT_MS	3600000 /* of a call; longer is a job, not a statement that holds a snapshot */

extern char *mw_guc_tenant;
extern char *mw_guc_default_model;
extern int	mw_guc_default_timeout_ms;
extern int	mw_guc_max_timeout_ms;
extern int	mw_guc_max_prompt_kb;
extern char *mw_guc_allowed_hosts;
extern int	mw_guc_synchronous_commit;
extern int	mw_guc_gateway_idle_s;
extern int	mw_guc_max_calls;
extern int	mw_guc_max_counters;
extern char *mw_guc_pii_key_file;

extern void mw_guc_init(void);

#endif
