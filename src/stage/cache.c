/*
 * cache.c - answers that were paid for once, a tenant's own.
 *
 * The key is of the request as it would be sent (redacted, wrapped, with the
 * parameters asked for, before the budget shrinks them), of the tenant, of where
 * the server stands, and of the versions of the tenant's rules and cache; so a
 * changed tool, model, provider, parameter or rule is another key (P61), and
 * personal data is in none (P24).
 * Rows are read as the calling role, under row-level security, with the latest
 * snapshot; the gateway writes them, in the commit of the answer.
 *
 * A purge is an epoch: the call reads it when it starts, its answer is stored
 * under it, and a row of an older one is no answer; so a purge in flight wins
 * over a call in flight.
 */
#include "mw.h"

#include "common/unicode_norm.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "provider/provider.h"
#include "stage/redact.h"
#include "stage/stages.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/scan.h"

#define SCHEMA_VERSION 2		/* of what is hashed below; raise it when that changes */

static bool
is_ascii_text(const char *s, int len)
{
	for (int i = 0; i < len; i += MW_BLOCK)
	{
		MwBlock		blk;

		mw_block_load(&blk, s + i, Min(len - i, MW_BLOCK));
		if (mw_block_high(&blk) != 0)
			return false;
	}
	return true;
}

/*
 * Characters that are normalised in one piece.  PostgreSQL's own function sorts
 * marks by insertion: the square of their number, and not interruptible.  A
 * piece ends before an ASCII character, which never joins what stands before
 * it; where none comes in time it is cut anyway, and two spellings of such a
 * text may have two keys.
 */
#define NFC_PIECE		64
#define NFC_PIECE_MAX	256

/* The text in Unicode's form C, since two spellings of one letter are one prompt */
static char *
nfc(char *s, int len, int *newlen)
{
	pg_wchar   *wide;
	pg_wchar   *normal;
	int			n;
	unsigned char *out;
	int			at = 0;

	*newlen = len;
	if (is_ascii_text(s, len))
		return s;
	wide = palloc_extended(((Size) len + 1) * sizeof(pg_wchar), MCXT_ALLOC_HUGE);
	n = pg_mb2wchar_with_len(s, wide, len);
	wide[n] = 0;
	if (unicode_is_normalized_quickcheck(UNICODE_NFC, wide) == UNICODE_NORM_QC_YES)
		return s;
	/* a character becomes three times as long at most */
	out = palloc_extended((Size) len * 3 + 1, MCXT_ALLOC_HUGE);
	for (int from = 0; from < n;)
	{
		int			to = from + 1;
		pg_wchar	next;

		while (to < n && to - from < NFC_PIECE_MAX && (to - from < NFC_PIECE || wide[to] >= 0x80))
			to++;
		next = wide[to];
		wide[to] = 0;
		normal = unicode_normalize(UNICODE_NFC, wide + from);
		wide[to] = next;
		for (int i = 0; normal[i]; i++)
		{
			unicode_to_utf8(normal[i], out + at);
			at += pg_utf_mblen(out + at);
		}
		pfree(normal);
		from = to;
		CHECK_FOR_INTERRUPTS();
	}
	*newlen = at;
	return (char *) out;
}

static void
name_call(MwCall *call)
{
	MwHash		h;
	int			len;
	char	   *body = nfc(call->body, call->body_len, &len);
	int64		versions[2] = {SCHEMA_VERSION, call->policy->cache_version};

	mw_hash_start(&h, NULL);
	mw_hash_part(&h, versions, sizeof(versions));
	mw_hash_part(&h, call->policy->version, sizeof(call->policy->version));
	/* a server that was pointed elsewhere is another provider under an old name */
	if (call->server != NULL && call->server->base_url != NULL)
		mw_hash_text(&h, call->server->base_url);
	if (body == call->body)
		mw_hash_part(&h, &call->call_key, sizeof(MwKey));
	else
	{
		/* what call_key would be, had the text been written in form C */
		MwHash		normal;
		MwKey		key;

		mw_hash_start(&normal, NULL);
		mw_hash_text(&normal, call->tenant);
		mw_hash_text(&normal, call->model);
		mw_hash_part(&normal, body, len);
		key = mw_hash_end(&normal);
		mw_hash_part(&h, &key, sizeof(MwKey));
	}
	call->cache_key = mw_hash_end(&h);
}

MwKey
mw_cache_key_of(MwCall *call)
{
	if (call->body == NULL)
		mw_call_encode(call);
	name_call(call);
	return call->cache_key;
}

/*
 * A stored answer fits this call when every placeholder in it is one that this
 * call issued: another call with the same redacted text has the same ones, but a
 * model may have made one up.
 */
static bool
fits(MwCall *call, MwAnswer *answer)
{
	bool		missing = false;
	int			len;

	if (answer->text)
		(void) mw_restore_text(&call->map, answer->text, answer->len, &len, &missing);
	return !missing;
}

static bool
look_up(MwCall *call)
{
	MwStored	stored;
	MwAnswer   *answer;

	mw_fault("cache_get");
	stored = call->transport->cached(call);
	if (!stored.found)
		return false;
	answer = call->provider->decode_stored(stored.body, stored.body_len);
	if (!fits(call, answer))
		return false;
	memset(&answer->usage, 0, sizeof(answer->usage));
	call->answer = answer;
	call->cache = MW_CACHE_HIT;
	return true;
}

static bool
enabled(const MwCall *call)
{
	return call->policy->cache && strcmp(call->cache_mode, "off") != 0;
}

void
mw_cache_run(MwCall *call)
{
	bool		reads = enabled(call) && strcmp(call->cache_mode, "refresh") != 0;

	call->cache = MW_CACHE_OFF;
	call->cacheable = enabled(call);
	call->cache_epoch = call->policy->cache_epoch;
	call->cache_ttl = call->policy->cache_ttl;
	if (enabled(call))
	{
		(void) mw_cache_key_of(call);
		call->cache = MW_CACHE_MISS;
	}
	if (reads && look_up(call))
		return;
	if (call->reserved.hits_only)
	{
		mw_budget_refuse_miss(call);
		return;
	}

	for (;;)
	{
		mw_next(call);
		if (call->failure != NULL)
			return;
		if (call->answer != NULL)
			break;

		/*
		 * Nothing was sent: an equal miss was stored after our look-up.  Where
		 * it still does not serve us, the next request is for us alone.
		 */
		if (reads && look_up(call))
			break;
	}
	if (call->reply && call->reply->shared)
		call->cache = MW_CACHE_SHARED;
}

void
mw_cache_explain(MwCall *call, MwExplain *out)
{
	StringInfoData json;

	call->cache_epoch = call->policy->cache_epoch;
	out->verdict = "off";
	initStringInfo(&json);
	if (enabled(call))
	{
		(void) mw_cache_key_of(call);
		out->verdict = strcmp(call->cache_mode, "refresh") != 0 && look_up(call) ? "hit" : "miss";
		out->stop = call->cache == MW_CACHE_HIT;
		appendStringInfo(&json, "{\"key\": \"%s\", \"ttl\": %d, \"epoch\": " INT64_FORMAT "}",
						 mw_key_hex(&call->cache_key), call->policy->cache_ttl, call->cache_epoch);
		out->detail = mw_json_parse(json.data, json.len, NULL);
	}
	if (out->stop)
		out->next = call->answer->text ? pnstrdup(call->answer->text, call->answer->len) : NULL;
	else
		out->next = pnstrdup(call->body, call->body_len);
}
