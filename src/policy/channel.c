/*
 * channel.c - the name on which a tenant's notifications come.
 *
 * NOTIFY is readable by every role that guesses the channel, so the channel is
 * a hash under the key of the database, handed out to those who may act for the
 * tenant and to its reviewers.  It is the same for all of them and stays the same as long as the key.
 */
#include "mw.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "gateway/tell.h"
#include "policy/admin.h"
#include "policy/policy.h"
#include "policy/reviewers.h"
#include "util/hash.h"

char *
mw_channel_of(const char *tenant)
{
	MwHash		h;
	MwKey		key;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "channel");
	mw_hash_text(&h, tenant);
	key = mw_hash_end(&h);
	return psprintf(MW_CHANNEL_PREFIX "%s", mw_key_hex(&key));
}

void
mw_channel_init(void)
{
	mw_channel_name = mw_channel_of;
}

PG_FUNCTION_INFO_V1(mw_channel);
Datum
mw_channel(PG_FUNCTION_ARGS)
{
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");

	if (!mw_may_review(tenant, NULL))
		mw_require_may_act(tenant);
	PG_RETURN_TEXT_P(cstring_to_text(mw_channel_of(tenant)));
}
