/*
 * options.c - the options of a call, each a row of one table.
 *
 * An option either steers mw (timeout, cache, ...) and ends in a field of the
 * call, or is a parameter of the model and travels as given in call->params,
 * where the adapter and the cache key read it.  What is not in the table is
 * refused with the table as its hint: an option that is ignored is a promise
 * broken in silence.
 *
 * A caller can tighten what the tenant's settings say and never loosen it
 * (invariant 9): "redact": false is refused where the tenant has redaction on,
 * rather than obeyed or ignored.
 */
#include "mw.h"

#include <limits.h>
#include <math.h>

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "call/request.h"
#include "guc.h"
#include "policy/fallback.h"
#include "policy/policy.h"
#include "policy/redaction.h"
#include "util/duration.h"
#include "util/json.h"
#include "util/money.h"

#define DEFAULT_MAX_TOKENS	4096

struct option;
typedef void (*option_reader) (MwCall *call, const struct option *opt, JsonbValue *v);

typedef struct option
{
	const char *name;
	bool		sent;			/* reaches the provider: part of params and of the fingerprint */
	option_reader read;
	double		min;			/* of numbers */
	double		max;
} option;

/* Numbers are shown, texts are not: they may be anybody's */
static char *
shown_number(JsonbValue *v)
{
	char	   *s = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric)));

	return strlen(s) <= 40 ? s : pstrdup("a number of many digits");
}

static _Noreturn void
wrong_value(const option *opt, const char *must, JsonbValue *v)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("option \"%s\" must be %s", opt->name, must),
			 errdetail("It is %s.",
					   v->type == jbvString ? "a string" :
					   v->type == jbvNumeric ? shown_number(v) :
					   v->type == jbvBool ? (v->val.boolean ? "true" : "false") :
					   v->type == jbvNull ? "null" :
					   mw_value_is_array(v) ? "an array" :
					   "an object")));
}

static double
number_of(JsonbValue *v)
{
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
											  NumericGetDatum(v->val.numeric)));
}

static bool
is_string(JsonbValue *v, const char *s)
{
	return v->type == jbvString &&
		v->val.string.len == strlen(s) &&
		memcmp(v->val.string.val, s, v->val.string.len) == 0;
}

/* ---------- readers: parameters of the model ---------- */

static void
read_number(MwCall *call, const option *opt, JsonbValue *v)
{
	double		d;

	if (v->type == jbvNumeric)
	{
		d = number_of(v);
		if (d >= opt->min && d <= opt->max)
			return;
	}
	wrong_value(opt, psprintf("a number from %g to %g", opt->min, opt->max), v);
}

static void
read_integer(MwCall *call, const option *opt, JsonbValue *v)
{
	double		d;

	if (v->type == jbvNumeric)
	{
		d = number_of(v);
		if (d >= opt->min && d <= opt->max && d == floor(d))
			return;
	}
	wrong_value(opt, psprintf("a whole number from %.0f to %.0f", opt->min, opt->max), v);
}

static void
read_max_tokens(MwCall *call, const option *opt, JsonbValue *v)
{
	read_integer(call, opt, v);
	call->max_tokens = (int64) number_of(v);
}

static void
read_boolean(MwCall *call, const option *opt, JsonbValue *v)
{
	if (v->type != jbvBool)
		wrong_value(opt, "true or false", v);
}

static void
read_stop(MwCall *call, const option *opt, JsonbValue *v)
{
	bool		ok = false;

	if (v->type == jbvString)
		ok = v->val.string.len > 0;
	else if (mw_value_is_array(v))
	{
		MwJsonEach	each = mw_json_each(v->val.binary.data);
		int			n = 0;

		ok = true;
		while (mw_json_next(&each))
		{
			n++;
			if (each.value.type != jbvString || each.value.val.string.len == 0)
				ok = false;
		}
		ok = ok && n > 0;
	}
	if (!ok)
		wrong_value(opt, "a text or an array of texts, none of them empty", v);
}

static void
read_response_format(MwCall *call, const option *opt, JsonbValue *v)
{
	if (mw_value_is_object(v))
	{
		JsonbValue	buf;
		JsonbValue *type = getKeyJsonValueFromContainer(v->val.binary.data, "type", 4, &buf);

		if (type != NULL && type->type == jbvString && type->val.string.len > 0)
			return;
	}
	wrong_value(opt, "an object with a \"type\", such as {\"type\": \"json_object\"}", v);
}

/* Its form alone; whether the tool exists is known when the tools are read */
static void
read_tool_choice(MwCall *call, const option *opt, JsonbValue *v)
{
	if (is_string(v, "none") || is_string(v, "auto") || is_string(v, "required"))
		return;
	if (mw_value_is_object(v))
	{
		JsonbValue	buf1;
		JsonbValue	buf2;
		JsonbValue *type = getKeyJsonValueFromContainer(v->val.binary.data, "type", 4, &buf1);
		JsonbValue *function = getKeyJsonValueFromContainer(v->val.binary.data, "function", 8, &buf2);

		if (type != NULL && is_string(type, "function") &&
			mw_value_is_object(function))
		{
			JsonbValue	buf3;
			JsonbValue *name = getKeyJsonValueFromContainer(function->val.binary.data, "name", 4, &buf3);

			if (name != NULL && name->type == jbvString)
				return;
		}
	}
	wrong_value(opt, "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}", v);
}

/* ---------- readers: what steers mw ---------- */

/* What no call of this tenant may exceed */
static int
longest_timeout(const MwCall *call)
{
	return Min(call->policy->max_timeout_ms, mw_guc_max_timeout_ms);
}

static void
read_timeout(MwCall *call, const option *opt, JsonbValue *v)
{
	double		ms;

	if (v->type == jbvNumeric)
		ms = number_of(v) * 1000.0;
	else if (v->type == jbvString)
		ms = mw_duration_ms(mw_value_string(v), "option \"timeout\"");
	else
		wrong_value(opt, "an interval or a number of seconds", v);

	if (!(ms >= 1 && ms <= MW_MAX_TIMEOUT_MS))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("option \"timeout\" must be from 1 millisecond to 1 hour"),
				 errhint("Give an interval ('30 s') or a number of seconds (30).")));
	if (ms > longest_timeout(call))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("option \"timeout\" is longer than this tenant's calls may take"),
				 errdetail("At most %g seconds are allowed, by %s.", longest_timeout(call) / 1000.0,
						   call->policy->max_timeout_ms < mw_guc_max_timeout_ms ? "the tenant's setting \"timeout\"" : "mw.max_timeout"),
				 errhint("Ask for less, or let an administrator raise it.")));
	call->timeout_ms = (int) ms;
}

static void
read_resend_unknown(MwCall *call, const option *opt, JsonbValue *v)
{
	read_boolean(call, opt, v);
	call->resend_unknown = v->val.boolean;
}

static _Noreturn void
would_loosen(const MwCall *call, const option *opt)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("option \"%s\" of a call cannot turn around what the tenant's settings say", opt->name),
			 errdetail("An option makes a policy stricter, never looser."),
			 errhint("An administrator can change it: SELECT mw_alter_tenant(%s, '{\"%s\": …}');",
					 call->tenant != NULL ? quote_literal_cstr(call->tenant) : "…", opt->name)));
}

static void
read_cache(MwCall *call, const option *opt, JsonbValue *v)
{
	if (is_string(v, "off"))
		call->cache_mode = "off";
	else if (is_string(v, "on") || is_string(v, "refresh"))
	{
		if (!call->policy->cache)
			would_loosen(call, opt);
		call->cache_mode = is_string(v, "on") ? "on" : "refresh";
	}
	else
		wrong_value(opt, "\"on\", \"off\" or \"refresh\"", v);
}

static void
read_redact(MwCall *call, const option *opt, JsonbValue *v)
{
	/* an object: further types, stricter strategies, the answer, files */
	if (mw_value_is_object(v))
	{
		call->redact = true;
		call->policy = mw_redaction_tighten(call->policy, mw_json_value_jsonb(v));
		return;
	}
	if (v->type != jbvBool)
		wrong_value(opt, "true, false or an object", v);
	if (call->policy->redact && !v->val.boolean)
		would_loosen(call, opt);
	call->redact = v->val.boolean;
}

static void
read_guardrail(MwCall *call, const option *opt, JsonbValue *v)
{
	read_boolean(call, opt, v);
	if (call->policy->guardrail && !v->val.boolean)
		would_loosen(call, opt);
	call->guardrail = v->val.boolean;
}

/* Its form here; the models are looked up once the call's own is known */
static void
read_fallback(MwCall *call, const option *opt, JsonbValue *v)
{
	call->fallback = JsonbValueToJsonb(v);
	(void) mw_fallback_read(call->fallback, "option");
}

/* Options of a run with a thread, an agent or tools of its own; what is in them is read there (src/agent) */
static void
read_of_run(MwCall *call, const option *opt, JsonbValue *v)
{
}

static void
read_limits(MwCall *call, const option *opt, JsonbValue *v)
{
	static const char *const allowed[] = {"calls", "cost", "tokens", "turns", "wall", NULL};	/* those of a run: src/agent */
	static const option cost = {"limits.cost", false};
	static const option tokens = {"limits.tokens", false, read_integer, 1, 9007199254740991.0};
	Jsonb	   *limits;
	JsonbValue *n;

	if (!mw_value_is_object(v))
		wrong_value(opt, "an object, such as {\"tokens\": 50000}", v);
	limits = JsonbValueToJsonb(v);
	mw_json_check_keys(limits, "limit", "a call", allowed);
	n = mw_json_get(limits, "tokens");
	if (n != NULL && n->type != jbvNull)
	{
		read_integer(call, &tokens, n);
		call->run_tokens = (int64) number_of(n);
	}
	n = mw_json_get(limits, "cost");
	if (n != NULL && n->type != jbvNull)
	{
		if (n->type != jbvNumeric || !mw_money_read(n->val.numeric, MW_MONEY_DECIMALS, &call->run_cost) || call->run_cost < 0)
			wrong_value(&cost, "an amount of money from 0, with 12 decimals at most", n);
	}
}

/* alphabetical, as the hint lists them */
static const option known[] = {
	{"cache", false, read_cache},
	{"context", false, read_of_run},
	{"fallback", false, read_fallback},
	{"frequency_penalty", true, read_number, -2, 2},
	{"guardrail", false, read_guardrail},
	{"interrupt_on", false, read_of_run},
	{"limits", false, read_limits},
	{"max_tokens", true, read_max_tokens, 1, INT_MAX},
	{"memory", false, read_boolean},
	{"on_error", false, read_of_run},
	{"parallel_tool_calls", true, read_boolean},
	{"presence_penalty", true, read_number, -2, 2},
	{"redact", false, read_redact},
	{"resend_unknown", false, read_resend_unknown},
	{"response_format", true, read_response_format},
	{"seed", true, read_integer, -9007199254740991.0, 9007199254740991.0},
	{"session_busy", false, read_of_run},
	{"state", false, read_of_run},
	{"stop", true, read_stop},
	{"temperature", true, read_number, 0, 2},
	{"timeout", false, read_timeout},
	{"tool_choice", true, read_tool_choice},
	{"top_p", true, read_number, 0, 1}
};

static const option *
find_option(const char *name, int len)
{
	for (int i = 0; i < lengthof(known); i++)
	{
		if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
			return &known[i];
	}
	return NULL;
}

static _Noreturn void
unknown_option(JsonbValue *key, bool settings)
{
	StringInfoData names;
	char	   *name = pnstrdup(key->val.string.val,
								pg_mbcliplen(key->val.string.val, key->val.string.len, NAMEDATALEN));

	initStringInfo(&names);
	for (int i = 0; i < lengthof(known); i++)
	{
		if (settings && !known[i].sent)
			continue;
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", known[i].name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 settings ?
			 errmsg("unknown model setting \"%s\"", name) :
			 errmsg("unknown option \"%s\"", name),
			 errhint("Known here: %s.", names.data)));
}

/*
 * Read one object of options.  sent counts those for params, other those that
 * are not; null means "not given" and is neither.
 */
static void
read_object(MwCall *call, Jsonb *options, bool settings, int *sent, int *other)
{
	MwJsonEach	each = mw_json_each(&options->root);

	while (mw_json_next(&each))
	{
		const option *opt = find_option(each.key.val.string.val, each.key.val.string.len);

		if (opt == NULL || (settings && !opt->sent))
			unknown_option(&each.key, settings);
		if (each.value.type == jbvNull)
		{
			(*other)++;
			continue;
		}
		opt->read(call, opt, &each.value);
		if (opt->sent && opt->read != read_max_tokens)
			(*sent)++;
		else
			(*other)++;
	}
}

/* Those of an object that reach the provider; with_max also max_tokens, which travels in a field of its own */
static Jsonb *
pick_sent(Jsonb *options, bool with_max)
{
	JsonbParseState *state = NULL;
	MwJsonEach	each = mw_json_each(&options->root);
	int			n = 0;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	while (mw_json_next(&each))
	{
		const option *opt = find_option(each.key.val.string.val, each.key.val.string.len);

		if (opt == NULL || !opt->sent || each.value.type == jbvNull ||
			(opt->read == read_max_tokens && !with_max))
			continue;
		pushJsonbValue(&state, WJB_KEY, &each.key);
		pushJsonbValue(&state, WJB_VALUE, &each.value);
		n++;
	}
	if (n == 0)
		return NULL;
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

void
mw_options_read(MwCall *call, Jsonb *options, Jsonb *settings)
{
	int			sent = 0;
	int			other = 0;

	call->timeout_ms = call->policy->timeout_ms > 0 ? call->policy->timeout_ms : mw_guc_default_timeout_ms;
	call->timeout_ms = Min(call->timeout_ms, longest_timeout(call));
	call->run_cost = -1;
	call->redact = call->policy->redact;
	call->guardrail = call->policy->guardrail;
	call->cache_mode = call->policy->cache ? "on" : "off";

	if (options != NULL && !JB_ROOT_IS_OBJECT(options))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("options must be a JSON object"),
				 errhint("Such as '{\"timeout\": \"30 s\", \"temperature\": 0}'.")));
	if (options != NULL && JB_ROOT_COUNT(options) == 0)
		options = NULL;			/* nearly always */

	if (settings != NULL)
		read_object(call, settings, true, &sent, &other);
	if (options != NULL)
		read_object(call, options, false, &sent, &other);
	if (settings != NULL && options != NULL)
		options = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat,
													 JsonbPGetDatum(settings),
													 JsonbPGetDatum(options)));
	else if (settings != NULL)
		options = settings;

	if (sent > 0)
		call->params = other == 0 ? options : pick_sent(options, false);

	if (call->max_tokens == 0)
	{
		const MwModel *model = call->model != NULL ? mw_policy_model(call->model) : NULL;

		call->max_tokens = model != NULL && model->max_output_tokens > 0 ?
			model->max_output_tokens : DEFAULT_MAX_TOKENS;
	}
	call->send_max_tokens = call->max_tokens;
}

Jsonb *
mw_options_sent(Jsonb *options)
{
	if (options == NULL || !JB_ROOT_IS_OBJECT(options) || JB_ROOT_COUNT(options) == 0)
		return NULL;
	return pick_sent(options, true);
}
