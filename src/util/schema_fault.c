/*
 * schema_fault.c - what is wrong with a JSON schema that somebody wrote.
 *
 * schema.c lets words that make no sense ask for nothing, since a schema may be
 * a stranger's.  One that an administrator stores is looked at once, word by
 * word, so that a mistyped "type" is an error there and not a check that is
 * never made.  Words that are not known stay allowed: providers have their own.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "util/json.h"
#include "util/regex.h"
#include "util/schema.h"

typedef enum Wanted
{
	A_SCHEMA, SCHEMAS, SCHEMAS_BY_NAME, A_LIST, NAMES, A_NUMBER, A_COUNT, A_PATTERN, TYPES, A_REF, A_TEXT
} Wanted;

static const struct
{
	const char *word;
	Wanted		wanted;
	const char *spoken;
}			words[] = {
	{"$defs", SCHEMAS_BY_NAME, "an object of schemas"},
	{"$ref", A_REF, "a reference within the schema, such as \"#/$defs/address\""},
	{"additionalProperties", A_SCHEMA, "true, false or a schema"},
	{"allOf", SCHEMAS, "an array of schemas"},
	{"anyOf", SCHEMAS, "an array of schemas"},
	{"definitions", SCHEMAS_BY_NAME, "an object of schemas"},
	{"description", A_TEXT, "a text"},
	{"enum", A_LIST, "an array with something in it"},
	{"exclusiveMaximum", A_NUMBER, "a number"},
	{"exclusiveMinimum", A_NUMBER, "a number"},
	{"items", A_SCHEMA, "a schema"},
	{"maximum", A_NUMBER, "a number"},
	{"maxItems", A_COUNT, "a number that is not negative"},
	{"maxLength", A_COUNT, "a number that is not negative"},
	{"maxProperties", A_COUNT, "a number that is not negative"},
	{"minimum", A_NUMBER, "a number"},
	{"minItems", A_COUNT, "a number that is not negative"},
	{"minLength", A_COUNT, "a number that is not negative"},
	{"minProperties", A_COUNT, "a number that is not negative"},
	{"multipleOf", A_NUMBER, "a number"},
	{"not", A_SCHEMA, "a schema"},
	{"oneOf", SCHEMAS, "an array of schemas"},
	{"pattern", A_PATTERN, "a regular expression (PCRE2)"},
	{"properties", SCHEMAS_BY_NAME, "an object of schemas"},
	{"required", NAMES, "an array of names"},
	{"type", TYPES, "object, array, string, number, integer, boolean or null, or an array of these"}
};

static char *fault(JsonbValue *root, JsonbValue *schema, const char *path);

static bool
is_type(const JsonbValue *v)
{
	static const char *const names[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

	for (int i = 0; i < lengthof(names); i++)
		if (v->type == jbvString && v->val.string.len == strlen(names[i]) && memcmp(v->val.string.val, names[i], v->val.string.len) == 0)
			return true;
	return false;
}

static bool
is_string(const JsonbValue *v)
{
	return v->type == jbvString;
}

/* An array with something in it, all of which passes */
static bool
all_are(JsonbValue *list, bool (*passes) (const JsonbValue *e), bool may_be_empty)
{
	MwJsonEach	each;

	if (!mw_value_is_array(list) || (!may_be_empty && JsonContainerSize(list->val.binary.data) == 0))
		return false;
	each = mw_json_each(list->val.binary.data);
	while (mw_json_next(&each))
		if (passes && !passes(&each.value))
			return false;
	return true;
}

/* The first fault of schemas in an array or object; path names the container */
static char *
fault_within(JsonbValue *root, JsonbValue *container, const char *path)
{
	MwJsonEach	each = mw_json_each(container->val.binary.data);
	int			i = 0;

	while (mw_json_next(&each))
	{
		char	   *at = mw_value_is_object(container) ?
			psprintf("%s.%s", path, mw_value_string(&each.key)) : psprintf("%s[%d]", path, i++);
		char	   *why = fault(root, &each.value, at);

		if (why)
			return why;
	}
	return NULL;
}

static char *
fault(JsonbValue *root, JsonbValue *schema, const char *path)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (schema->type == jbvBool)
		return NULL;
	if (!mw_value_is_object(schema))
		return psprintf("%s must be a schema, which is an object.", path);
	for (int i = 0; i < lengthof(words); i++)
	{
		JsonbValue *v = getKeyJsonValueFromContainer(schema->val.binary.data, words[i].word, strlen(words[i].word), NULL);
		char	   *at;
		char	   *why = NULL;
		bool		good = false;

		if (v == NULL)
			continue;
		at = psprintf("%s.%s", path, words[i].word);
		switch (words[i].wanted)
		{
			case A_SCHEMA:
				good = v->type == jbvBool || mw_value_is_object(v);
				why = good ? fault(root, v, at) : NULL;
				break;
			case SCHEMAS:
				good = all_are(v, NULL, false);
				why = good ? fault_within(root, v, at) : NULL;
				break;
			case SCHEMAS_BY_NAME:
				good = mw_value_is_object(v);
				why = good ? fault_within(root, v, at) : NULL;
				break;
			case A_LIST:
				good = all_are(v, NULL, false);
				break;
			case NAMES:
				good = all_are(v, is_string, true);
				break;
			case A_NUMBER:
				good = v->type == jbvNumeric;
				break;
			case A_COUNT:
				good = v->type == jbvNumeric &&
					DatumGetBool(DirectFunctionCall2(numeric_ge, NumericGetDatum(v->val.numeric), NumericGetDatum(int64_to_numeric(0))));
				break;
			case A_PATTERN:
				if (v->type == jbvString)
				{
					char	   *reason = NULL;

					good = mw_regex_get(mw_value_string(v), 0, &reason) != NULL;
					if (!good)
						return psprintf("%s must be %s: %s.", at, words[i].spoken, reason);
				}
				break;
			case TYPES:
				good = is_type(v) || all_are(v, is_type, false);
				break;
			case A_REF:
				good = v->type == jbvString && mw_schema_ref(root, v) != NULL;
				break;
			case A_TEXT:
				good = v->type == jbvString;
				break;
		}
		if (!good)
			return psprintf("%s must be %s.", at, words[i].spoken);
		if (why)
			return why;
	}
	return NULL;
}

char *
mw_schema_fault(Jsonb *schema)
{
	JsonbValue	root;

	if (!mw_json_is_object(schema))
		return pstrdup("It must be an object.");
	root.type = jbvBinary;
	root.val.binary.data = &schema->root;
	root.val.binary.len = VARSIZE(schema) - VARHDRSZ;
	return fault(&root, &root, "$");
}
