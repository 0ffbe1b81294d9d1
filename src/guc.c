/*
 * guc.c - all settings of mw, alphabetical.
 *
 * None of them gives a right: what a role may do comes from grants alone, so a
 * setting that a role can change can only narrow (mw.tenant) or choose
 * (mw.default_model).  What sizes shared memory exists only while preloading,
 * since later it could not take effect.
 */
#include "mw.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "guc.h"

char	   *mw_guc_allowed_hosts;
char	   *mw_guc_default_model;
int			mw_guc_default_timeout_ms = 60000;
int			mw_guc_gateway_idle_s = 60;
int			mw_guc_max_calls = 1024;
int			mw_guc_max_counters = 32768;
int			mw_guc_max_prompt_kb = 16384;
int			mw_guc_max_timeout_ms = 3600000;
char	   *mw_guc_pii_key_file;
int			mw_guc_synchronous_commit = SYNCHRONOUS_COMMIT_LOCAL_FLUSH;
char	   *mw_guc_tenant;

/* The two values that make sense for a process that answers only after its commit */
static const struct config_enum_entry synchronous_commit_values[] = {
	{"local", SYNCHRONOUS_COMMIT_LOCAL_FLUSH, false},
	{"on", SYNCHRONOUS_COMMIT_REMOTE_FLUSH, false},
	{"off", SYNCHRONOUS_COMMIT_OFF, false},
	{NULL, 0, false}
};

void
mw_guc_init(void)
{
	DefineCustomStringVariable("mw.allowed_hosts",
							   "Hosts that model servers may name, separated by commas; empty allows any.",
							   "A host begins with a dot to allow its subdomains.",
							   &mw_guc_allowed_hosts, "",
							   PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomStringVariable("mw.default_model",
							   "Model (server:model) of calls that name none and whose tenant has none.",
							   NULL,
							   &mw_guc_default_model, "",
							   PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("mw.default_timeout",
							"Time that a model call may take where neither it nor its tenant's settings say.",
							"mw.max_timeout and the tenant's own limit hold for it.",
							&mw_guc_default_timeout_ms, 60000, 1, MW_MAX_TIMEOUT_MS,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("mw.gateway_idle",
							"Time after which a gateway without work leaves.",
							"The next call starts it again, which takes some milliseconds.",
							&mw_guc_gateway_idle_s, 60, 1, 86400,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

	if (process_shared_preload_libraries_in_progress)
	{
		DefineCustomIntVariable("mw.max_calls",
								"Model calls that can be in flight in the whole server.",
								"Each costs about 200 bytes of shared memory; calls that outlive their caller count.",
								&mw_guc_max_calls, 1024, 16, 65536,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

		DefineCustomIntVariable("mw.max_counters",
								"Budgets (tenants and sessions) that shared memory keeps ready.",
								"Each costs about 450 bytes; those with nothing reserved make room for others.",
								&mw_guc_max_counters, 32768, 256, 4194304,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
	}

	DefineCustomIntVariable("mw.max_prompt",
							"Largest prompt (with its messages) that a call accepts.",
							"A larger one is refused before any work.",
							&mw_guc_max_prompt_kb, 16384, 1, 262144,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);

	DefineCustomIntVariable("mw.max_timeout",
							"Longest time that a model call may ask for.",
							NULL,
							&mw_guc_max_timeout_ms, MW_MAX_TIMEOUT_MS, 1, MW_MAX_TIMEOUT_MS,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomStringVariable("mw.pii_key_file",
							   "File with the keys that seal what a session's placeholders stand for; empty: values are not kept.",
							   "A line is a version and 64 hexadecimal digits; the highest version seals.",
							   &mw_guc_pii_key_file, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);

	DefineCustomEnumVariable("mw.synchronous_commit",
							 "When the gateway's records of money count as durable.",
							 "\"local\" waits for this server's disk, \"on\" for synchronous standbys too (one that hangs stops all calls), "
							 "\"off\" for neither: a crash of the machine can then lose records of calls that were paid.",
							 &mw_guc_synchronous_commit, SYNCHRONOUS_COMMIT_LOCAL_FLUSH,
							 synchronous_commit_values,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomStringVariable("mw.tenant",
							   "Narrows this session to one tenant.",
							   "It gives no right: a role acts for the tenants that were granted to it.",
							   &mw_guc_tenant, "",
							   PGC_USERSET, 0, NULL, NULL, NULL);

	MarkGUCPrefixReserved("mw");
}
