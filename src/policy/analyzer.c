/*
 * analyzer.c - what a recogniser of type "presidio" says: which server, which of its
 * entities, from which score on, how long it may take, and what if it does not answer.
 *
 * Kept as one object in the recogniser's row; read by the same code when it is
 * written and when a policy is made.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "policy/analyzer.h"
#include "policy/server.h"
#include "policy/settings.h"
#include "util/json.h"
#include "util/json_push.h"

#define DEFAULT_SCORE		0.5
#define DEFAULT_TIMEOUT_MS	5000
#define MAX_ENTITIES		64

static const char *const option_keys[] = {"type", "server", "entities", "language", "score_threshold", "timeout", "on_error", NULL};

/* What Presidio calls a type of mw's; a name that it does not know may be one of the server's own */
static char *
entity_of(const char *type)
{
	static const char *const names[][2] = {
		{"ADDRESS", "LOCATION"}, {"CC", "CREDIT_CARD"}, {"MAC", "MAC_ADDRESS"}, {"IP", "IP_ADDRESS"}, {"EMAIL", "EMAIL_ADDRESS"},
		{"PHONE", "PHONE_NUMBER"}, {"SSN", "US_SSN"}, {"IBAN", "IBAN_CODE"}, {"BANK_ACCOUNT", "US_BANK_NUMBER"}, {"DATE", "DATE_TIME"},
		{"PASSPORT", "US_PASSPORT"}, {"DRIVER_LICENSE", "US_DRIVER_LICENSE"}
	};

	for (size_t i = 0; i < lengthof(names); i++)
		if (strcmp(names[i][0], type) == 0)
			return pstrdup(names[i][1]);
	return pstrdup(type);
}

static _Noreturn void
wrong(const char *what, const char *must, const char *such)
{
	ereport(ERROR,
			errcode(ERRCODE_MW_BAD_ARGUMENT),
			errmsg("setting \"%s\" of a recognizer must be %s", what, must),
			errhint("Such as {\"type\": \"presidio\", \"server\": \"presidio\", %s}.", such));
}

static List *
entities_of(Jsonb *options, const char *type)
{
	JsonbValue *v = mw_json_get(options, "entities");
	Jsonb	   *list;
	MwJsonEach	each;
	List	   *entities = NIL;

	if (v == NULL)
		return list_make1(entity_of(type));
	list = mw_json_value_jsonb(v);
	if (!mw_json_is_array(list))
		wrong("entities", "a list of Presidio's entities", "\"entities\": [\"PERSON\"]");
	each = mw_json_each(&list->root);
	while (mw_json_next(&each))
	{
		if (each.value.type != jbvString || each.value.val.string.len < 1 || each.value.val.string.len > 63)
			wrong("entities", "a list of Presidio's entities", "\"entities\": [\"PERSON\"]");
		entities = lappend(entities, mw_value_string(&each.value));
	}
	if (list_length(entities) < 1 || list_length(entities) > MAX_ENTITIES)
		wrong("entities", "a list of Presidio's entities", "\"entities\": [\"PERSON\"]");
	return entities;
}

MwAnalyzer *
mw_analyzer_read(Jsonb *options, const char *type)
{
	static const char *const types[] = {"presidio", NULL};
	static const char *const choices[] = {"error", "skip", NULL};
	MwAnalyzer *a = palloc0(sizeof(MwAnalyzer));
	JsonbValue *v;

	mw_json_check_keys(options, "option", "a recognizer of type \"presidio\"", option_keys);
	if (mw_settings_word(options, "type", types, NULL) == NULL)
		wrong("type", "\"presidio\", where a server finds it", "\"entities\": [\"PERSON\"]");
	a->server = mw_settings_text(options, "server");
	if (a->server == NULL)
		wrong("server", "the name of a server with api 'presidio'", "\"entities\": [\"PERSON\"]");
	a->language = mw_settings_text(options, "language");
	if (a->language == NULL)
		a->language = pstrdup("en");
	a->entities = entities_of(options, type);
	a->score_threshold = DEFAULT_SCORE;
	v = mw_json_get(options, "score_threshold");
	if (v != NULL)
	{
		if (v->type == jbvNumeric)
			a->score_threshold = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(v->val.numeric)));
		if (v->type != jbvNumeric || !(a->score_threshold >= 0 && a->score_threshold <= 1))
			wrong("score_threshold", "a number from 0 to 1", "\"score_threshold\": 0.5");
	}
	a->timeout_ms = (int) mw_settings_duration(options, "timeout", 1, MW_ANALYZER_MAX_MS, DEFAULT_TIMEOUT_MS);
	a->skip = strcmp(mw_settings_word(options, "on_error", choices, "error"), "skip") == 0;
	return a;
}

Jsonb *
mw_analyzer_check(Jsonb *options, const char *type)
{
	MwAnalyzer *a = mw_analyzer_read(options, type);
	const MwServer *server = mw_server_find(a->server);

	if (strcmp(server->api, "presidio") != 0)
		ereport(ERROR,
				errcode(ERRCODE_MW_BAD_ARGUMENT),
				errmsg("server \"%s\" is no analyzer of personal data", a->server),
				errdetail("Its api is \"%s\".", server->api),
				errhint("CREATE SERVER another_name FOREIGN DATA WRAPPER mw OPTIONS (api 'presidio', base_url 'http://127.0.0.1:3000');"));
	return options;
}

Jsonb *
mw_analyzer_part(Jsonb *options)
{
	JsonbParseState *st = NULL;
	bool		any = false;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; option_keys[i] != NULL; i++)
	{
		/* a null removes (mw_settings_merge) */
		JsonbValue *v = getKeyJsonValueFromContainer(&options->root, option_keys[i], strlen(option_keys[i]), NULL);

		if (v == NULL)
			continue;
		any = true;
		push_key(&st, option_keys[i]);
		pushJsonbValue(&st, WJB_VALUE, v);
	}
	return any ? JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)) : NULL;
}
