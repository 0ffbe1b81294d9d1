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
#include "utils/memutils.h"

#include "gateway/transport.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "provider/provider.h"
#include "stage/redact.h"
#include "stage/stages.h"
#include "util/clock.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/scan.h"

#define SCHEMA_VERSION 3		/* of what is hashed below; raise it when that changes */

static bool
is_ascii_text(const char *s, int len)
{
	for (int i = 0; i < len; i += MW_BLOCK)
	{
		MwBlock		blk;

		mw_block_load(&blk, s + i, Min(len - i, MW_BLOCK));
		if (mw_block_any_high(&blk))
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

/*
 * What names a request beside its body is the same from call to call, so its digest is remembered: a hit then costs one
 * BLAKE2b over its body.  One of each kind a process, by what was digested and not by whose it was.
 */
typedef struct Digest
{
	int			len;
	uint8		of[384];
	MwKey		key;
} Digest;

typedef struct Part
{
	const void *p;				/* NULL: absent, unlike an empty one */
	size_t		len;
} Part;

#define TEXT_PART(s) {(s), (s) ? strlen(s) : 0}

static MwKey
digest(Digest *last, const Part *parts, int n)
{
	uint8		of[sizeof(last->of)];
	size_t		len = 0;
	MwHash		h;

	for (int i = 0; i < n && len < sizeof(of); i++)
	{
		int64		part_len = parts[i].p ? (int64) parts[i].len : -1;

		if (parts[i].len > sizeof(of) - sizeof(part_len) || len > sizeof(of) - sizeof(part_len) - parts[i].len)
			len = sizeof(of);	/* too long to be remembered */
		else
		{
			memcpy(of + len, &part_len, sizeof(part_len));
			if (parts[i].p)
				memcpy(of + len + sizeof(part_len), parts[i].p, parts[i].len);
			len += sizeof(part_len) + parts[i].len;
		}
	}
	if (len < sizeof(of) && (int) len == last->len && memcmp(of, last->of, len) == 0)
		return last->key;

	mw_hash_start(&h, NULL);
	for (int i = 0; i < n; i++)
		mw_hash_part(&h, parts[i].p, parts[i].len);
	last->len = 0;
	last->key = mw_hash_end(&h);
	if (len < sizeof(of))
	{
		memcpy(last->of, of, len);
		last->len = (int) len;
	}
	return last->key;
}

/* mw_call_key_of names the bytes of a request. */
MwKey
mw_call_key_of(const MwCall *call, const char *body, int len)
{
	static Digest last;
	const Part	names[] = {TEXT_PART(call->tenant), TEXT_PART(call->model)};
	MwKey		salt = digest(&last, names, lengthof(names));

	return mw_hash_salted(&salt, body, len);
}

static void
name_call(MwCall *call)
{
	static Digest last;
	int			len;
	char	   *body = nfc(call->body, call->body_len, &len);
	int64		versions[2] = {SCHEMA_VERSION, call->policy->cache_version};
	/* a server that was pointed elsewhere is another provider under an old name */
	const char *url = call->server ? call->server->base_url : NULL;
	const Part	parts[] = {{versions, sizeof(versions)}, {call->policy->version, sizeof(call->policy->version)}, TEXT_PART(url)};
	MwKey		rules = digest(&last, parts, lengthof(parts));
	/* what call_key would be, had the text been written in form C */
	MwKey		key = body == call->body ? call->call_key : mw_call_key_of(call, body, len);

	/* the key of this hash is itself a hash, and nobody chooses what goes in: two meet no sooner than two of BLAKE2b would */
	call->cache_key = mw_hash_short(&key, &rules, sizeof(rules));
}

MwKey
mw_cache_key_of(MwCall *call)
{
	if (call->body == NULL)
		mw_call_encode(call);
	name_call(call);
	return call->cache_key;
}

/* mw.bench_key(input, n): microseconds that naming one request takes, whose body is the input */
PG_FUNCTION_INFO_V1(mw_bench_key);

Datum
mw_bench_key(PG_FUNCTION_ARGS)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	int			n = PG_GETARG_INT32(1);
	MwCall		call = {.tenant = "bench", .model = "bench:bench", .policy = mw_policy_default(),
	.body = VARDATA_ANY(input), .body_len = VARSIZE_ANY_EXHDR(input)};
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mw bench", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int64		start = mw_computed_ns();

	for (int i = 0; i < n; i++)
	{
		call.call_key = mw_call_key_of(&call, call.body, call.body_len);
		name_call(&call);
		MemoryContextReset(cxt);
	}
	start = mw_computed_ns() - start;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	PG_RETURN_FLOAT8(start / 1e3 / Max(1, n));
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
	answer = call->provider->decode(stored.body, stored.body_len);
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
