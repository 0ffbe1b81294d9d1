/*
 * settings.c - the settings of a tenant and of a model, read and checked.
 *
 * mw_create_tenant and mw_alter_tenant run this before they store anything, and
 * policy.c runs it again on what is stored, since an administrator may write
 * the tables by hand.  Unknown keys are refused, never ignored: a misspelt
 * "redact" must not leave a tenant thinking that something is on.
 */
#include "mw.h"

#include "catalog/pg_type.h"

#include "miscadmin.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "guc.h"
#include "policy/fallback.h"
#include "policy/redaction.h"
#include "policy/settings.h"
#include "policy/userfunc.h"
#include "util/duration.h"
#include "util/json.h"

#define DEFAULT_TTL_S		86400
#define MAX_TTL_S			(10 * 366 * 86400)
#define DEFAULT_ATTEMPTS	3
#define MAX_ATTEMPTS		20		/* more is a loop against a provider that is down */
#define DEFAULT_BASE_MS		500
#define DEFAULT_MAX_MS		30000
#define MIN_RETENTION_MS	86400000	/* what is deleted does not come back: a number that was meant in days must not be taken for seconds */
#define MAX_RETENTION_MS	(INT64CONST(1000) * 366 * 86400 * 1000)
#define MAX_DELAY_MS		3600000 /* longer than any call's deadline */

static const char *const tenant_keys[] = {"model", "redact", "guardrail", "cache", "retry", "fallback", "breaker", "timeout", "timezone", "on_budget", "on_guardrail", "retention", "session_policy", NULL};
static const char *const guardrail_keys[] = {"mode", "threshold", "hosts", "max_output", "schema", NULL};
static const char *const guard_modes[] = {"off", "log", "block", NULL};
static const char *const source_keys[] = {"user", "tool", "document", "output", NULL};	/* in the order of MwGuardSource */
static const char *const cache_keys[] = {"ttl", "version", NULL};
static const char *const retry_keys[] = {"max_attempts", "base", "max", NULL};
static const char *const timeout_keys[] = {"default", "max", NULL};
static const char *const model_keys[] = {"max_input_tokens", "max_output_tokens", "structured_output", NULL};

static void
wrong(const char *key, const char *must)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("setting \"%s\" must be %s", key, must));
}

char *
mw_settings_text(Jsonb *jb, const char *key)
{
	JsonbValue *v = mw_json_get(jb, key);

	if (v == NULL || v->type == jbvNull)
		return NULL;
	if (v->type != jbvString)
		wrong(key, "a string");
	return mw_value_string(v);
}

char *
mw_settings_word(Jsonb *jb, const char *key, const char *const *words, const char *absent)
{
	char	   *s = mw_settings_text(jb, key);
	StringInfoData list;

	if (s == NULL)
		return absent ? pstrdup(absent) : NULL;
	initStringInfo(&list);
	for (int i = 0; words[i]; i++)
	{
		if (strcmp(words[i], s) == 0)
			return s;
		appendStringInfo(&list, "%s%s", i > 0 ? ", " : "", words[i]);
	}
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("\"%s\" is no value of \"%s\"", s, key),
			errhint("Allowed are: %s.", list.data));
}

static int64
int_of(JsonbValue *v, const char *key, int64 min, int64 max)
{
	bool		whole;
	int64		n;

	if (v->type != jbvNumeric)
		wrong(key, "a number");

	/* compared as numeric first: int8's own conversion would round, or raise another error */
	whole = DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(v->val.numeric),
											 DirectFunctionCall2(numeric_trunc, NumericGetDatum(v->val.numeric), Int32GetDatum(0))));
	if (!whole ||
		DatumGetBool(DirectFunctionCall2(numeric_lt, NumericGetDatum(v->val.numeric), NumericGetDatum(int64_to_numeric(min)))) ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, NumericGetDatum(v->val.numeric), NumericGetDatum(int64_to_numeric(max)))))
		wrong(key, psprintf("a whole number from " INT64_FORMAT " to " INT64_FORMAT, min, max));
	n = DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric)));
	return n;
}

int64
mw_settings_int(Jsonb *jb, const char *key, int64 min, int64 max, int64 absent)
{
	JsonbValue *v = mw_json_get(jb, key);

	if (v == NULL || v->type == jbvNull)
		return absent;
	return int_of(v, key, min, max);
}

bool
mw_settings_bool(Jsonb *jb, const char *key, bool absent)
{
	JsonbValue *v = mw_json_get(jb, key);

	if (v == NULL || v->type == jbvNull)
		return absent;
	if (v->type != jbvBool)
		wrong(key, "true or false");
	return v->val.boolean;
}

/* A bound of a duration, as one says it */
static const char *
bound_text(int64 ms)
{
	int64		day = INT64CONST(1000) * 86400;

	if (ms < day || ms % day != 0)
		return ms == 1000 ? "a second" : psprintf("%g seconds", ms / 1000.0);
	return ms == day ? "a day" : psprintf(INT64_FORMAT " days", ms / day);
}

int64
mw_settings_duration(Jsonb *jb, const char *key, int64 min_ms, int64 max_ms, int64 absent)
{
	JsonbValue *v = mw_json_get(jb, key);
	int64		ms;

	if (v == NULL || v->type == jbvNull)
		return absent;
	if (v->type == jbvNumeric)
		ms = mw_duration_ms(DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric))), psprintf("setting \"%s\"", key));
	else if (v->type == jbvString)
		ms = mw_duration_ms(mw_value_string(v), psprintf("setting \"%s\"", key));
	else
		wrong(key, "an interval or a number of seconds");
	if (ms < min_ms || ms > max_ms)
		wrong(key, psprintf("from %s to %s", bound_text(min_ms), bound_text(max_ms)));
	return ms;
}

void
mw_check_model_name(const char *model, const char *what)
{
	const char *colon = strchr(model, ':');

	if (colon == NULL || colon == model || colon[1] == '\0')
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s must name a server and its model", what),
				errhint("Write server:model, for example 'openai:gpt-4o-mini', where openai is the name of a server: CREATE SERVER openai FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://api.openai.com/v1');"));
}

static void
check_object(Jsonb *jb, const char *what)
{
	if (!mw_json_is_object(jb))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("%s must be a JSON object", what),
				errhint("'{}' is no setting at all."));
}

/* A score from which a text is refused */
static double
threshold_of(JsonbValue *v)
{
	double		t;

	if (v->type != jbvNumeric)
		wrong("threshold", "a number, or an object of numbers by source");
	t = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));
	if (!(t > 0 && t <= 1000))
		wrong("threshold", "greater than 0 and at most 1000");
	return t;
}

/* "guardrail": true, false, or what is said about it */
static void
guardrail_of(Jsonb *settings, MwPolicy *policy)
{
	JsonbValue *v = mw_json_get(settings, "guardrail");
	Jsonb	   *object;
	char	   *mode;

	policy->guardrail = true;
	policy->guard_shadow = false;
	policy->guard_hosts = NIL;
	policy->guard_max_output = 0;
	policy->guard_schema = NULL;
	for (int i = 0; source_keys[i]; i++)
		policy->guard_threshold[i] = 1;
	if (v == NULL || v->type == jbvNull)
		return;
	if (v->type == jbvBool)
	{
		policy->guardrail = v->val.boolean;
		return;
	}
	if (!mw_value_is_object(v))
		wrong("guardrail", "true, false or an object");
	object = mw_json_value_jsonb(v);
	mw_json_check_keys(object, "setting", "\"guardrail\"", guardrail_keys);
	mode = mw_settings_word(object, "mode", guard_modes, "block");
	policy->guardrail = strcmp(mode, "off") != 0;
	policy->guard_shadow = strcmp(mode, "log") == 0;

	v = mw_json_get(object, "threshold");
	if (mw_value_is_object(v))
	{
		Jsonb	   *by_source = mw_json_value_jsonb(v);

		mw_json_check_keys(by_source, "source", "\"threshold\"", source_keys);
		for (int i = 0; source_keys[i]; i++)
			if ((v = mw_json_get(by_source, source_keys[i])) != NULL && v->type != jbvNull)
				policy->guard_threshold[i] = threshold_of(v);
	}
	else if (v && v->type != jbvNull)
		for (int i = 0; source_keys[i]; i++)
			policy->guard_threshold[i] = threshold_of(v);

	v = mw_json_get(object, "hosts");
	if (v && v->type != jbvNull)
	{
		MwJsonEach	each;

		if (!mw_value_is_array(v))
			wrong("hosts", "an array of names of hosts");
		each = mw_json_each(v->val.binary.data);
		while (mw_json_next(&each))
		{
			if (each.value.type != jbvString || each.value.val.string.len == 0)
				wrong("hosts", "an array of names of hosts");
			policy->guard_hosts = lappend(policy->guard_hosts, mw_value_string(&each.value));
		}
	}
	policy->guard_max_output = mw_settings_int(object, "max_output", 1, PG_INT32_MAX, 0);
	v = mw_json_get(object, "schema");
	if (v && v->type != jbvNull)
	{
		if (!mw_value_is_object(v))
			wrong("schema", "a JSON schema, which is an object");
		policy->guard_schema = JsonbToCString(NULL, &mw_json_value_jsonb(v)->root, 0);
	}
}

/*
 * A name that date_trunc takes, too.  pg_tzset does not say why it has none; what
 * it could not do for want of memory or descriptors is no fault of the name.
 */
static void
read_timezone(Jsonb *settings, MwPolicy *policy)
{
	pg_tz	   *tz = NULL;
	int			why;

	policy->timezone = mw_settings_text(settings, "timezone");
	if (policy->timezone == NULL)
		policy->timezone = "UTC";
	errno = 0;
	if (policy->timezone[0] != '\0' && strlen(policy->timezone) <= TZ_STRLEN_MAX)
		tz = pg_tzset(policy->timezone);
	why = errno;
	if (tz == NULL && (why == ENOMEM || why == EMFILE || why == ENFILE))
		ereport(ERROR,
				errcode(why == ENOMEM ? ERRCODE_OUT_OF_MEMORY : ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("could not load time zone \"%s\": %m", policy->timezone));
	if (tz == NULL || !pg_tz_acceptable(tz))
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("setting \"timezone\" must be the name of a time zone"),
				errhint("Such as 'Europe/Berlin'; SELECT name FROM pg_timezone_names; lists them."));
}

/* "error", or {"end": text}: what a run ends with; NULL for an error */
static char *
read_ending(Jsonb *settings, const char *name)
{
	static const char *const keys[] = {"end", NULL};
	JsonbValue *v = mw_json_get(settings, name);
	Jsonb	   *ending;
	char	   *text;

	if (v == NULL || v->type == jbvNull ||
		(v->type == jbvString && v->val.string.len == 5 && memcmp(v->val.string.val, "error", 5) == 0))
		return NULL;
	ending = mw_json_value_jsonb(v);
	if (!mw_json_is_object(ending))
		wrong(name, "\"error\", or {\"end\": the text that the run ends with}");
	mw_json_check_keys(ending, "setting", psprintf("\"%s\"", name), keys);
	text = mw_settings_text(ending, "end");
	if (text == NULL)
		wrong(name, "\"error\", or {\"end\": the text that the run ends with}");
	return text;
}

void
mw_settings_tenant(Jsonb *settings, MwPolicy *policy)
{
	static const Oid session_args[] = {TEXTOID, TEXTOID};
	static const Oid session_results[] = {BOOLOID, InvalidOid};
	JsonbValue *v;

	check_object(settings, "settings of a tenant");
	mw_json_check_keys(settings, "setting", "a tenant", tenant_keys);

	policy->model = mw_settings_text(settings, "model");
	if (policy->model)
		mw_check_model_name(policy->model, "setting \"model\"");
	read_timezone(settings, policy);
	policy->session_policy = mw_settings_text(settings, "session_policy");
	if (policy->session_policy)
		policy->session_policy = mw_userfunc_signature(policy->session_policy, "setting \"session_policy\"",
													   lengthof(session_args), session_args, session_results);
	policy->budget_end = read_ending(settings, "on_budget");
	policy->guardrail_end = read_ending(settings, "on_guardrail");
	v = mw_json_get(settings, "redact");
	policy->redact = true;
	policy->redaction = NULL;
	policy->redact_output = policy->refuse_files = false;
	if (v && v->type == jbvBool)
		policy->redact = v->val.boolean;
	else if (v && v->type != jbvNull)
	{
		Jsonb	   *redact = mw_json_value_jsonb(v);

		if (!mw_json_is_object(redact))
			wrong("redact", "true, false or an object");
		policy->redaction = palloc(sizeof(MwRedaction));
		mw_redaction_read(redact, "the setting \"redact\"", mw_redaction_keys, policy->redaction);
		policy->redact_output = policy->redaction->output;
		policy->refuse_files = policy->redaction->refuse_files;
	}
	(void) mw_settings_duration(settings, "retention", MIN_RETENTION_MS, MAX_RETENTION_MS, 0);	/* the gateway's: sweep.c */
	guardrail_of(settings, policy);
	policy->breaker = mw_settings_bool(settings, "breaker", true);

	policy->cache = true;
	policy->cache_ttl = DEFAULT_TTL_S;
	policy->cache_version = 0;
	v = mw_json_get(settings, "cache");
	if (v && v->type == jbvBool)
		policy->cache = v->val.boolean;
	else if (v && v->type != jbvNull)
	{
		Jsonb	   *cache = mw_json_value_jsonb(v);

		if (!mw_json_is_object(cache))
			wrong("cache", "true, false or an object");
		mw_json_check_keys(cache, "setting", "\"cache\"", cache_keys);
		policy->cache_ttl = mw_settings_duration(cache, "ttl", 1000, INT64CONST(1000) * MAX_TTL_S, DEFAULT_TTL_S * 1000) / 1000;
		policy->cache_version = mw_settings_int(cache, "version", 0, PG_INT32_MAX, 0);
	}

	policy->timeout_ms = 0;
	policy->max_timeout_ms = MW_MAX_TIMEOUT_MS;
	v = mw_json_get(settings, "timeout");
	if (v && v->type == jbvBinary)
	{
		Jsonb	   *timeout = mw_json_value_jsonb(v);

		if (!mw_json_is_object(timeout))
			wrong("timeout", "an interval, a number of seconds or an object");
		mw_json_check_keys(timeout, "setting", "\"timeout\"", timeout_keys);
		policy->timeout_ms = mw_settings_duration(timeout, "default", 1, MW_MAX_TIMEOUT_MS, 0);
		policy->max_timeout_ms = mw_settings_duration(timeout, "max", 1, MW_MAX_TIMEOUT_MS, MW_MAX_TIMEOUT_MS);
		if (policy->timeout_ms > policy->max_timeout_ms)
			wrong("default", "at most \"max\"");
	}
	else
		policy->timeout_ms = mw_settings_duration(settings, "timeout", 1, MW_MAX_TIMEOUT_MS, 0);

	policy->retry_max_attempts = DEFAULT_ATTEMPTS;
	policy->retry_base_ms = DEFAULT_BASE_MS;
	policy->retry_max_ms = DEFAULT_MAX_MS;
	v = mw_json_get(settings, "retry");
	if (v && v->type == jbvNumeric)
		policy->retry_max_attempts = int_of(v, "retry", 1, MAX_ATTEMPTS);
	else if (v && v->type != jbvNull)
	{
		Jsonb	   *retry = mw_json_value_jsonb(v);

		if (!mw_json_is_object(retry))
			wrong("retry", "a number of attempts or an object");
		mw_json_check_keys(retry, "setting", "\"retry\"", retry_keys);
		policy->retry_max_attempts = mw_settings_int(retry, "max_attempts", 1, MAX_ATTEMPTS, DEFAULT_ATTEMPTS);
		policy->retry_base_ms = mw_settings_duration(retry, "base", 0, MAX_DELAY_MS, DEFAULT_BASE_MS);
		policy->retry_max_ms = mw_settings_duration(retry, "max", 0, MAX_DELAY_MS, Max(DEFAULT_MAX_MS, policy->retry_base_ms));
		if (policy->retry_base_ms > policy->retry_max_ms)
			wrong("base", "at most \"max\"");
	}

	policy->fallback = NULL;
	v = mw_json_get(settings, "fallback");
	if (v && v->type != jbvNull)
	{
		Jsonb	   *fallback = mw_json_value_jsonb(v);

		if (mw_fallback_read(fallback, "setting")->n > 0)
			policy->fallback = fallback;
	}
}

void
mw_settings_model(Jsonb *settings, MwModel *model)
{
	check_object(settings, "settings of a model");
	mw_json_check_keys(settings, "setting", "a model", model_keys);
	model->max_input_tokens = mw_settings_int(settings, "max_input_tokens", 1, PG_INT32_MAX, 0);
	model->max_output_tokens = mw_settings_int(settings, "max_output_tokens", 1, PG_INT32_MAX, 0);
	model->structured_output = mw_settings_bool(settings, "structured_output", false);
}

/* ---------- merging ---------- */

/* Pushes one object; an inner one is merged the same way, so that {"cache": {"ttl": 60}} leaves cache.version alone */
static JsonbValue *
merge(JsonbParseState **state, Jsonb *old, Jsonb *patch)
{
	MwJsonEach	each;

	check_stack_depth();
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);

	/* what the patch does not name stays */
	if (old)
	{
		each = mw_json_each(&old->root);
		while (mw_json_next(&each))
		{
			if (getKeyJsonValueFromContainer(&patch->root, each.key.val.string.val, each.key.val.string.len, NULL))
				continue;
			pushJsonbValue(state, WJB_KEY, &each.key);
			pushJsonbValue(state, WJB_VALUE, &each.value);
		}
	}

	each = mw_json_each(&patch->root);
	while (mw_json_next(&each))
	{
		if (each.value.type == jbvNull)
			continue;
		pushJsonbValue(state, WJB_KEY, &each.key);
		if (mw_value_is_object(&each.value))
		{
			JsonbValue *before = old ? getKeyJsonValueFromContainer(&old->root, each.key.val.string.val,
																	each.key.val.string.len, NULL) : NULL;
			bool		both = mw_value_is_object(before);

			(void) merge(state, both ? JsonbValueToJsonb(before) : NULL, JsonbValueToJsonb(&each.value));
		}
		else
			pushJsonbValue(state, WJB_VALUE, &each.value);
	}
	return pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

Jsonb *
mw_settings_merge(Jsonb *old, Jsonb *patch)
{
	JsonbParseState *state = NULL;

	check_object(patch, "settings");
	return JsonbValueToJsonb(merge(&state, old && mw_json_is_object(old) ? old : NULL, patch));
}
