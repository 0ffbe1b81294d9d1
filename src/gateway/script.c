/*
 * script.c - what a script may say, and the response that a step of it stands for.
 *
 * The vocabulary is that of the usual scripted upstreams: an object of models
 * with a list of steps each, or an array of rules.  A script is checked whole
 * when it is set, so that a misspelt word is an error there and not a
 * surprising answer later; what is allowed stands in the hint.
 *
 * Pure: no tables, no state of its own.  script_play.c turns a step into a
 * response, script_state.c remembers how far a script has been played.
 */
#include "mw.h"

#include <limits.h>
#include <math.h>

#include "utils/builtins.h"
#include "utils/memutils.h"

#include "gateway/script.h"
#include "util/json.h"

#define MAX_REPEAT		1000000

static const char *const step_keys[] = {
	"text", "tool_calls", "status", "retry_after", "retry_after_ms", "body", "headers",
	"disconnect", "raw", "content_type", "delay_ms", "repeat", "usage", "finish_reason", NULL
};
static const char *const rule_keys[] = {"match", "step", NULL};
static const char *const tool_call_keys[] = {"id", "name", "arguments", "arguments_raw", NULL};

#define HINT_FORM	"Write {\"MODEL\": [STEP, ...]} (\"*\" is any model) or [{\"match\": TEXT or OBJECT, \"step\": STEP}, ...]."
#define HINT_STEP	"A step is one of {\"text\": ...}, {\"tool_calls\": [...]}, {\"status\": ...}, {\"disconnect\": ...}, {\"raw\": ...}, with \"delay_ms\", \"repeat\", \"usage\", \"finish_reason\" as wanted."

/* ---------- small readers of jsonb ---------- */

/* what: a sentence, which may begin with the name of a place ("step 1 of ...") */
static void
bad_script(const char *what, const char *hint)
{
	char	   *sentence = pstrdup(what);

	sentence[0] = pg_toupper((unsigned char) sentence[0]);
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("bad script of a fake server"),
			 errdetail_internal("%s", sentence),
			 errhint("%s", hint)));
}

JsonbValue *
mw_script_get(Jsonb *object, const char *key)
{
	return getKeyJsonValueFromContainer(&object->root, key, strlen(key), NULL);
}

bool
mw_script_is_null(const JsonbValue *v)
{
	return v == NULL || v->type == jbvNull;
}

/* The container of a value that is an array (or an object); NULL for anything else */
JsonbContainer *
mw_script_array(const JsonbValue *v)
{
	if (mw_value_is_array(v))
		return v->val.binary.data;
	return NULL;
}

char *
mw_script_text(const JsonbValue *v)
{
	Jsonb	   *jb = JsonbValueToJsonb(unconstify(JsonbValue *, v));

	return JsonbToCString(NULL, &jb->root, VARSIZE(jb));
}

double
mw_script_number(const JsonbValue *v)
{
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
											  NumericGetDatum(v->val.numeric)));
}

/* A member that is a whole number from min to max; dflt where it is absent */
int
mw_script_int(Jsonb *step, const char *where, const char *key, int min, int max, int dflt)
{
	JsonbValue *v = mw_script_get(step, key);
	double		d;

	if (v == NULL)
		return dflt;
	if (v->type == jbvNumeric)
	{
		d = mw_script_number(v);
		if (d == floor(d) && d >= min && d <= max)
			return (int) d;
	}
	bad_script(psprintf("\"%s\" of %s is not a whole number from %d to %d.", key, where, min, max),
			   "Write, for example, {\"text\": \"hello\", \"delay_ms\": 20, \"repeat\": 2}.");
	return dflt;				/* not reached */
}

/* ---------- checking a script ---------- */

static void
want_string(Jsonb *step, const char *where, const char *key)
{
	JsonbValue *v = mw_script_get(step, key);

	if (v != NULL && v->type != jbvString)
		bad_script(psprintf("\"%s\" of %s is not a string.", key, where), HINT_STEP);
}

static void
check_tool_calls(JsonbValue *v, const char *where)
{
	JsonbContainer *calls = mw_script_array(v);
	int			n = calls ? JsonContainerSize(calls) : 0;

	if (n == 0)
		bad_script(psprintf("\"tool_calls\" of %s is not an array with a call in it.", where),
				   "Write {\"tool_calls\": [{\"name\": \"lookup\", \"arguments\": {\"id\": 1}}]}.");
	for (int i = 0; i < n; i++)
	{
		JsonbValue *c = getIthJsonbValueFromContainer(calls, i);
		char	   *which = psprintf("tool call %d of %s", i + 1, where);
		Jsonb	   *call;

		if (!mw_value_is_object(c))
			bad_script(psprintf("%s is not an object.", which),
					   "Write {\"name\": \"lookup\", \"arguments\": {\"id\": 1}}.");
		call = mw_json_value_jsonb(c);
		mw_json_check_keys(call, "member", which, tool_call_keys);
		if (mw_json_get_text(call, "name") == NULL)
			bad_script(psprintf("%s has no \"name\".", which),
					   "Write {\"name\": \"lookup\", \"arguments\": {\"id\": 1}}.");
		want_string(call, which, "id");
		want_string(call, which, "arguments_raw");
		if (mw_script_get(call, "arguments") && mw_script_get(call, "arguments_raw"))
			bad_script(psprintf("%s has both \"arguments\" and \"arguments_raw\".", which),
					   "\"arguments\" is any JSON value, \"arguments_raw\" the text to send byte for byte; give one.");
	}
}

/* A wish for a pause: a number, or the header's text as it would be sent */
static void
check_retry_after(Jsonb *step, const char *where, const char *key)
{
	JsonbValue *v = mw_script_get(step, key);

	if (v != NULL && v->type != jbvNumeric && v->type != jbvString)
		bad_script(psprintf("\"%s\" of %s is neither a number nor a string.", key, where),
				   "\"retry_after\" is in seconds or a date, \"retry_after_ms\" in milliseconds.");
}

static void
check_headers(Jsonb *step, const char *where)
{
	JsonbValue *v = mw_script_get(step, "headers");
	MwJsonEach	each;

	if (v == NULL)
		return;
	if (!mw_value_is_object(v))
		bad_script(psprintf("\"headers\" of %s is not an object.", where),
				   "Write {\"status\": 429, \"headers\": {\"x-should-retry\": \"false\"}}.");
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
		if (each.value.type != jbvString && each.value.type != jbvNumeric && each.value.type != jbvBool)
			bad_script(psprintf("A header of %s is neither a string nor a number.", where),
					   "Write {\"status\": 429, \"headers\": {\"x-should-retry\": \"false\"}}.");
}

static void
check_step(JsonbValue *v, const char *where)
{
	Jsonb	   *step;
	JsonbValue *m;
	bool		answer,
				status,
				disconnect,
				raw;

	if (!mw_value_is_object(v))
		bad_script(psprintf("%s is not an object.", where), HINT_STEP);
	step = mw_json_value_jsonb(v);
	mw_json_check_keys(step, "member", where, step_keys);

	answer = mw_script_get(step, "text") || mw_script_get(step, "tool_calls");
	status = mw_script_int(step, where, "status", 200, 599, 200) != 200;
	disconnect = mw_script_get(step, "disconnect") != NULL;
	raw = mw_script_get(step, "raw") != NULL;
	if (answer + status + disconnect + raw != 1)
		bad_script(psprintf(answer + status + disconnect + raw == 0
							? "%s says nothing to answer." : "%s says more than one thing to answer.", where),
				   HINT_STEP);

	m = mw_script_get(step, "text");
	if (!mw_script_is_null(m))
		want_string(step, where, "text");
	m = mw_script_get(step, "tool_calls");
	if (m != NULL)
		check_tool_calls(m, where);

	if (!status && (mw_script_get(step, "body") || mw_script_get(step, "headers") ||
					mw_script_get(step, "retry_after") || mw_script_get(step, "retry_after_ms")))
		bad_script(psprintf("%s has \"body\", \"headers\" or a \"retry_after\", but no \"status\" other than 200.", where),
				   "Write {\"status\": 429, \"retry_after\": 1}; a whole body with status 200 is {\"raw\": \"...\"}.");
	check_retry_after(step, where, "retry_after");
	check_retry_after(step, where, "retry_after_ms");
	check_headers(step, where);

	m = mw_script_get(step, "disconnect");
	if (m != NULL &&
		!(m->type == jbvBool && m->val.boolean) &&
		!(m->type == jbvString && (strcmp(mw_value_string(m), "mid_stream") == 0 ||
								   strcmp(mw_value_string(m), "connect") == 0)))
		bad_script(psprintf("\"disconnect\" of %s is not known.", where),
				   "Allowed are true (before a byte comes back), \"mid_stream\" (inside the answer) and \"connect\" (no connection can be made).");

	want_string(step, where, "raw");
	want_string(step, where, "content_type");
	want_string(step, where, "finish_reason");
	m = mw_script_get(step, "usage");
	if (m != NULL && !mw_value_is_object(m) && !(m->type == jbvBool && !m->val.boolean))
		bad_script(psprintf("\"usage\" of %s is neither an object nor false.", where),
				   "Write {\"usage\": {\"prompt_tokens\": 10, \"completion_tokens\": 5}}, or false to send none.");
	mw_script_int(step, where, "delay_ms", 0, MW_SCRIPT_MAX_DELAY_MS, 0);
	mw_script_int(step, where, "repeat", 1, MAX_REPEAT, 1);
}

/* Keep a step, which is checked; dflt is how often it answers when it does not say */
static void
keep_step(MwStep *into, JsonbValue *v, int dflt)
{
	into->json = mw_json_value_jsonb(v);
	into->repeat = mw_script_int(into->json, "the step", "repeat", 1, MAX_REPEAT, dflt);
}

static void
read_models(MwScript *s, Jsonb *json)
{
	MwJsonEach	each = mw_json_each(&json->root);

	s->lists = palloc0(sizeof(MwStepList) * Max(JB_ROOT_COUNT(json), 1));
	while (mw_json_next(&each))
	{
		MwStepList *list = &s->lists[s->nlists++];
		JsonbContainer *steps = mw_script_array(&each.value);

		list->model = mw_value_string(&each.key);
		if (steps == NULL)
			bad_script(psprintf("The steps of model \"%s\" are not an array.", list->model), HINT_FORM);
		list->nsteps = JsonContainerSize(steps);
		list->steps = palloc0(sizeof(MwStep) * Max(list->nsteps, 1));
		for (int i = 0; i < list->nsteps; i++)
		{
			JsonbValue *v = getIthJsonbValueFromContainer(steps, i);

			check_step(v, psprintf("step %d of model \"%s\"", i + 1, list->model));
			keep_step(&list->steps[i], v, 1);
		}
	}
}

static void
read_rules(MwScript *s, Jsonb *json)
{
	s->rules = true;
	s->nlists = JB_ROOT_COUNT(json);
	s->lists = palloc0(sizeof(MwStepList) * Max(s->nlists, 1));
	for (int i = 0; i < s->nlists; i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(&json->root, i);
		char	   *where = psprintf("rule %d", i + 1);
		Jsonb	   *rule;
		JsonbValue *match;
		JsonbValue *step;

		if (!mw_value_is_object(v))
			bad_script(psprintf("%s is not an object.", where), HINT_FORM);
		rule = mw_json_value_jsonb(v);
		mw_json_check_keys(rule, "member", where, rule_keys);

		match = mw_script_get(rule, "match");
		if (match != NULL && match->type == jbvString && match->val.string.len > 0)
			s->lists[i].match_text = mw_value_string(match);
		else if (mw_value_is_object(match))
			s->lists[i].match_json = mw_json_value_jsonb(match);
		else if (match != NULL)
			bad_script(psprintf("\"match\" of %s is neither a text nor an object.", where),
					   "A text must occur in the last user message; an object must be contained in the request, as with jsonb's @>; without \"match\" the rule always holds.");

		step = mw_script_get(rule, "step");
		if (step == NULL)
			bad_script(psprintf("%s has no \"step\".", where), HINT_FORM);
		check_step(step, psprintf("the step of %s", where));
		s->lists[i].nsteps = 1;
		s->lists[i].steps = palloc0(sizeof(MwStep));
		keep_step(&s->lists[i].steps[0], step, INT_MAX);
	}
}

/* In a context of its own, which an error frees and the keeper moves to where it keeps it */
MwScript *
mw_script_make(Jsonb *json)
{
	MemoryContext cxt;
	MemoryContext old;
	MwScript   *s;

	cxt = AllocSetContextCreate(CurrentMemoryContext, "mw script of a fake server", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(cxt);
	s = palloc0(sizeof(MwScript));
	s->cxt = cxt;
	if (mw_json_is_object(json))
		read_models(s, json);
	else if (mw_json_is_array(json))
		read_rules(s, json);
	else
		bad_script("The script is neither an object nor an array.", HINT_FORM);
	MemoryContextSwitchTo(old);
	return s;
}

/* ---------- choosing a step ---------- */

static const char *
last_user_text(Jsonb *request)
{
	JsonbContainer *messages = mw_script_array(mw_script_get(request, "messages"));

	for (int i = messages ? (int) JsonContainerSize(messages) - 1 : -1; i >= 0; i--)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(messages, i);
		Jsonb	   *message;
		const char *role;
		JsonbValue *content;

		if (!mw_value_is_object(v))
			continue;
		message = mw_json_value_jsonb(v);
		role = mw_json_get_text(message, "role");
		if (role == NULL || strcmp(role, "user") != 0)
			continue;
		content = mw_script_get(message, "content");
		return mw_script_is_null(content) ? "" : mw_json_content_text(content);
	}
	return "";
}

/* The step of a list that answers for the used-th time; NULL when it has run out */
static const MwStep *
step_after(const MwStepList *list, int used)
{
	for (int i = 0; i < list->nsteps; i++)
	{
		if (used < list->steps[i].repeat)
			return &list->steps[i];
		used -= list->steps[i].repeat;
	}
	return NULL;
}

static bool
rule_holds(const MwStepList *rule, Jsonb *request)
{
	const char *text;

	if (rule->match_text != NULL)
	{
		text = last_user_text(request);
		return text != NULL && strstr(text, rule->match_text) != NULL;
	}
	if (rule->match_json != NULL)
		return DatumGetBool(DirectFunctionCall2(jsonb_contains, JsonbPGetDatum(request),
												JsonbPGetDatum(rule->match_json)));
	return true;
}

/*
 * Which step answers this request: of the model's own list, else of "*"; or of
 * the first rule that holds and has not run out.  model is the full name, under
 * which a list may stand too.  NULL when the script has no answer (left).
 */
const MwStep *
mw_script_choose(const MwScript *script, const int *used, Jsonb *request, const char *model, int *list)
{
	const char *name = mw_json_get_text(request, "model");
	int			any = -1;
	int			own = -1;

	*list = -1;
	for (int i = 0; i < script->nlists; i++)
	{
		const MwStepList *l = &script->lists[i];

		if (script->rules)
		{
			const MwStep *step = rule_holds(l, request) ? step_after(l, used[i]) : NULL;

			if (step != NULL)
			{
				*list = i;
				return step;
			}
		}
		else if (strcmp(l->model, "*") == 0)
			any = i;
		else if ((name != NULL && strcmp(l->model, name) == 0) || strcmp(l->model, model) == 0)
			own = i;
	}
	if (own < 0)
		own = any;
	if (own < 0)
		return NULL;
	*list = own;
	return step_after(&script->lists[own], used[own]);
}
