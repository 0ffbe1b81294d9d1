/*
 * guc.h - all settings of mw.  Each has a row in the README.
 */
#ifndef MW_GUC_H
#define MW_GUC_H

#include "postgres.h"

extern char *mw_guc_tenant;
extern char *mw_guc_default_model;
extern int	mw_guc_max_prompt_kb;
extern char *mw_guc_allowed_hosts;
extern int	mw_guc_synchronous_commit;
extern int	mw_guc_gateway_idle_s;
extern int	mw_guc_max_calls;
extern int	mw_guc_max_counters;

extern void mw_guc_init(void);

#endif
