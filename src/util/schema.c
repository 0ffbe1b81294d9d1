/*
 * schema.c - a JSON text against a schema.
 *
 * The part of JSON Schema that answers of models are asked to meet: type, enum,
 * const, required, properties, additionalProperties, items, anyOf, and bounds of
 * lengths, numbers and counts.  Other words ask for nothing, as the standard says
 * of words that are not known; "$ref" is one of them.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "util/json.h"
#include "util/schema.h"

static bool accepts(Jsonb *schema, JsonbValue *v);

static bool
is_container(const JsonbValue *v, bool array)
{
	return v->type == jbvBinary && (array ? JsonContainerIsArray(v->val.binary.data) && !JsonContainerIsScalar(v->val.binary.data)
									: JsonContainerIsObject(v->val.binary.data));
}

static bool
is_whole(const JsonbValue *v)
{
	return v->type == jbvNumeric &&
		DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(v->val.numeric),
										 DirectFunctionCall2(numeric_trunc, NumericGetDatum(v->val.numeric), Int32GetDatum(0))));
}

static bool
is_of_type(const JsonbValue *v, const JsonbValue *type)
{
	static const struct
	{
		const char *name;
		int			kind;
	}			names[] = {
		{"object", 0}, {"array", 1}, {"string", 2}, {"number", 3}, {"integer", 4}, {"boolean", 5}, {"null", 6}
	};

	for (int i = 0; i < lengthof(names); i++)
	{
		if (type->type != jbvString || type->val.string.len != strlen(names[i].name) ||
			memcmp(type->val.string.val, names[i].name, type->val.string.len) != 0)
			continue;
		switch (names[i].kind)
		{
			case 0:
				return is_container(v, false);
			case 1:
				return is_container(v, true);
			case 2:
				return v->type == jbvString;
			case 3:
				return v->type == jbvNumeric;
			case 4:
				return is_whole(v);
			case 5:
				return v->type == jbvBool;
			default:
				return v->type == jbvNull;
		}
	}
	return true;
}

static bool
same_value(JsonbValue *a, JsonbValue *b)
{
	return DatumGetBool(DirectFunctionCall2(jsonb_eq, JsonbPGetDatum(JsonbValueToJsonb(a)), JsonbPGetDatum(JsonbValueToJsonb(b))));
}

/* A member of a schema that is an array: does one of its elements pass? */
static bool
any_of(JsonbValue *list, JsonbValue *v, bool (*passes) (JsonbValue *element, JsonbValue *v))
{
	JsonbIterator *it = JsonbIteratorInit(list->val.binary.data);
	JsonbIteratorToken tok;
	JsonbValue	e;

	while ((tok = JsonbIteratorNext(&it, &e, true)) != WJB_DONE)
		if (tok == WJB_ELEM && passes(&e, v))
			return true;
	return false;
}

static bool
type_passes(JsonbValue *type, JsonbValue *v)
{
	return is_of_type(v, type);
}

static bool
schema_passes(JsonbValue *schema, JsonbValue *v)
{
	return !is_container(schema, false) || accepts(mw_json_value_jsonb(schema), v);
}

/* Is a bound of that name kept?  sign: 1 for a minimum, -1 for a maximum */
static bool
keeps(Jsonb *schema, const char *name, Numeric n, int sign, bool open)
{
	JsonbValue *bound = mw_json_get(schema, name);
	int			c;

	if (bound == NULL || bound->type != jbvNumeric)
		return true;
	c = DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(n), NumericGetDatum(bound->val.numeric))) * sign;
	return open ? c > 0 : c >= 0;
}

static bool
members_pass(Jsonb *schema, JsonbValue *v)
{
	JsonbValue *properties = mw_json_get(schema, "properties");
	JsonbValue *required = mw_json_get(schema, "required");
	JsonbValue *more = mw_json_get(schema, "additionalProperties");
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	key;
	JsonbValue	member;

	if (required && is_container(required, true))
	{
		it = JsonbIteratorInit(required->val.binary.data);
		while ((tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
			if (tok == WJB_ELEM && key.type == jbvString &&
				getKeyJsonValueFromContainer(v->val.binary.data, key.val.string.val, key.val.string.len, NULL) == NULL)
				return false;
	}
	it = JsonbIteratorInit(v->val.binary.data);
	(void) JsonbIteratorNext(&it, &key, true);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		JsonbValue *one = NULL;

		(void) JsonbIteratorNext(&it, &member, true);
		if (properties && is_container(properties, false))
			one = getKeyJsonValueFromContainer(properties->val.binary.data, key.val.string.val, key.val.string.len, NULL);
		if (one == NULL && more)
		{
			if (more->type == jbvBool && !more->val.boolean)
				return false;
			one = more;
		}
		if (one && !schema_passes(one, &member))
			return false;
	}
	return true;
}

static bool
accepts(Jsonb *schema, JsonbValue *v)
{
	JsonbValue *word;
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	e;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	word = mw_json_get(schema, "type");
	if (word && !(is_container(word, true) ? any_of(word, v, type_passes) : is_of_type(v, word)))
		return false;
	word = mw_json_get(schema, "enum");
	if (word && is_container(word, true) && !any_of(word, v, same_value))
		return false;
	word = mw_json_get(schema, "const");
	if (word && !same_value(word, v))
		return false;
	word = mw_json_get(schema, "anyOf");
	if (word && is_container(word, true) && !any_of(word, v, schema_passes))
		return false;

	if (v->type == jbvString)
	{
		Numeric		n = int64_to_numeric(pg_mbstrlen_with_len(v->val.string.val, v->val.string.len));

		return keeps(schema, "minLength", n, 1, false) && keeps(schema, "maxLength", n, -1, false);
	}
	if (v->type == jbvNumeric)
		return keeps(schema, "minimum", v->val.numeric, 1, false) && keeps(schema, "maximum", v->val.numeric, -1, false) &&
			keeps(schema, "exclusiveMinimum", v->val.numeric, 1, true) && keeps(schema, "exclusiveMaximum", v->val.numeric, -1, true);
	if (is_container(v, false))
		return members_pass(schema, v);
	if (is_container(v, true))
	{
		Numeric		n = int64_to_numeric(JsonContainerSize(v->val.binary.data));

		if (!keeps(schema, "minItems", n, 1, false) || !keeps(schema, "maxItems", n, -1, false))
			return false;
		word = mw_json_get(schema, "items");
		if (word == NULL)
			return true;
		it = JsonbIteratorInit(v->val.binary.data);
		while ((tok = JsonbIteratorNext(&it, &e, true)) != WJB_DONE)
			if (tok == WJB_ELEM && !schema_passes(word, &e))
				return false;
	}
	return true;
}

/* mw_schema_accepts parses both and compares. */
bool
mw_schema_accepts(const char *schema, const char *s, int len)
{
	Jsonb	   *wanted = mw_json_parse(schema, strlen(schema), NULL);
	Jsonb	   *given = mw_json_parse(s, len, NULL);
	JsonbValue	v;

	if (given == NULL)
		return false;
	if (wanted == NULL)
		return true;
	if (JB_ROOT_IS_SCALAR(given))
		v = *getIthJsonbValueFromContainer(&given->root, 0);
	else
	{
		v.type = jbvBinary;
		v.val.binary.data = &given->root;
		v.val.binary.len = VARSIZE(given) - VARHDRSZ;
	}
	return accepts(wanted, &v);
}
