/*
 * schema.c - what of a JSON value breaks a JSON schema.
 *
 * The part of JSON Schema that models and providers know: type, enum, const,
 * required, properties, additionalProperties, items, anyOf, oneOf, allOf, not,
 * $ref within the schema, pattern (PCRE2), multipleOf, and bounds of lengths,
 * numbers and counts.  Other words ask for nothing, as the standard says of
 * words that are not known; "format" is one of them.
 *
 * A schema can be a stranger's (a call's response_format), so neither a $ref to
 * itself nor alternatives of alternatives may run for ever: steps are counted.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "util/json.h"
#include "util/regex.h"
#include "util/schema.h"

#define MAX_STEPS	1000000		/* schemas against values; a real check takes some hundred */
#define MAX_REFS	64			/* $ref to $ref at one place */
#define MAX_REASONS	8			/* told at once */
#define MAX_LISTED	500			/* bytes of what is allowed, in a reason */

typedef struct Check
{
	JsonbValue	root;			/* the whole schema: what $ref is relative to */
	StringInfoData path;		/* where in the value */
	List	   *why;			/* of char *: reasons */
	int			quiet;			/* within alternatives, whose reasons nobody reads */
	int			refs;
	int			steps;
} Check;

static bool check(Check *c, JsonbValue *schema, JsonbValue *v);

/* ---------- jsonb ---------- */

static JsonbValue *
member_of_len(const JsonbValue *object, const char *key, int len)
{
	return getKeyJsonValueFromContainer(object->val.binary.data, key, len, NULL);
}

static JsonbValue *
member(const JsonbValue *object, const char *key)
{
	return member_of_len(object, key, strlen(key));
}

static void
whole(Jsonb *jb, JsonbValue *v)
{
	if (JB_ROOT_IS_SCALAR(jb))
		*v = *getIthJsonbValueFromContainer(&jb->root, 0);
	else
	{
		v->type = jbvBinary;
		v->val.binary.data = &jb->root;
		v->val.binary.len = VARSIZE(jb) - VARHDRSZ;
	}
}

static bool
same_value(JsonbValue *a, JsonbValue *b)
{
	return DatumGetBool(DirectFunctionCall2(jsonb_eq, JsonbPGetDatum(JsonbValueToJsonb(a)), JsonbPGetDatum(JsonbValueToJsonb(b))));
}

static bool
is_whole(const JsonbValue *v)
{
	return v->type == jbvNumeric &&
		DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(v->val.numeric),
										 DirectFunctionCall2(numeric_trunc, NumericGetDatum(v->val.numeric), Int32GetDatum(0))));
}

/* ---------- reasons ---------- */

static bool fail(Check *c, const char *fmt,...) pg_attribute_printf(2, 3);

/* Always false, so that a check ends with it */
static bool
fail(Check *c, const char *fmt,...)
{
	StringInfoData why;

	if (c->quiet > 0 || list_length(c->why) >= MAX_REASONS)
		return false;
	initStringInfo(&why);
	if (c->path.len > 0)
		appendStringInfo(&why, "\"%s\" ", c->path.data);
	else
		appendStringInfoString(&why, "the value ");
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, fmt);
		needed = appendStringInfoVA(&why, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&why, needed);
	}
	c->why = lappend(c->why, why.data);
	return false;
}

/* Go on after a reason: only where somebody reads the next one */
static bool
enough(const Check *c)
{
	return c->quiet > 0 || list_length(c->why) >= MAX_REASONS;
}

/* The elements of an array, or the keys of an object, for a reason; cut where they are many */
static char *
listed(JsonbValue *container)
{
	StringInfoData out;
	MwJsonEach	each = mw_json_each(container->val.binary.data);

	initStringInfo(&out);
	while (mw_json_next(&each))
	{
		Jsonb	   *one = JsonbValueToJsonb(mw_value_is_object(container) ? &each.key : &each.value);

		appendStringInfo(&out, "%s%s", out.len > 0 ? ", " : "", JsonbToCString(NULL, &one->root, VARSIZE(one)));
		if (out.len > MAX_LISTED)
		{
			out.len = pg_mbcliplen(out.data, out.len, MAX_LISTED);
			out.data[out.len] = '\0';
			appendStringInfoString(&out, " ...");
			break;
		}
	}
	return out.data;
}

/* ---------- one word ---------- */

static const struct
{
	const char *name;
	const char *spoken;
}			types[] = {
	{"object", "an object"}, {"array", "an array"}, {"string", "a string"}, {"number", "a number"},
	{"integer", "an integer"}, {"boolean", "true or false"}, {"null", "null"}
};

static int
type_index(const JsonbValue *type)
{
	for (int i = 0; i < lengthof(types); i++)
		if (type->type == jbvString && type->val.string.len == strlen(types[i].name) &&
			memcmp(type->val.string.val, types[i].name, type->val.string.len) == 0)
			return i;
	return -1;
}

static bool
is_of_type(const JsonbValue *v, const JsonbValue *type)
{
	switch (type_index(type))
	{
		case 0:
			return mw_value_is_object(v);
		case 1:
			return mw_value_is_array(v);
		case 2:
			return v->type == jbvString;
		case 3:
			return v->type == jbvNumeric;
		case 4:
			return is_whole(v);
		case 5:
			return v->type == jbvBool;
		case 6:
			return v->type == jbvNull;
		default:
			return true;
	}
}

static bool
type_passes(Check *c, JsonbValue *type, JsonbValue *v)
{
	MwJsonEach	each;

	if (!mw_value_is_array(type))
	{
		if (is_of_type(v, type))
			return true;
		return fail(c, "must be %s", types[type_index(type)].spoken);
	}
	each = mw_json_each(type->val.binary.data);
	while (mw_json_next(&each))
		if (is_of_type(v, &each.value))
			return true;
	return fail(c, "must be of one of the types %s", listed(type));
}

static bool
enum_passes(Check *c, JsonbValue *list, JsonbValue *v)
{
	MwJsonEach	each = mw_json_each(list->val.binary.data);

	while (mw_json_next(&each))
		if (same_value(&each.value, v))
			return true;
	return fail(c, "must be one of %s", listed(list));
}

/* A bound; sign: 1 for a minimum, -1 for a maximum; "of" says of what */
static bool
keeps(Check *c, JsonbValue *schema, const char *name, Numeric n, int sign, bool open, const char *of)
{
	JsonbValue *bound = member(schema, name);
	int			order;

	if (bound == NULL || bound->type != jbvNumeric)
		return true;
	order = DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(n), NumericGetDatum(bound->val.numeric))) * sign;
	if (open ? order > 0 : order >= 0)
		return true;
	return fail(c, "must %s %s %s%s", of[0] ? "have" : "be",
				open ? (sign > 0 ? "more than" : "less than") : (sign > 0 ? "at least" : "at most"),
				DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(bound->val.numeric))), of);
}

static bool
is_multiple(Numeric n, Numeric of)
{
	Datum		zero = NumericGetDatum(int64_to_numeric(0));

	return DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(of), zero)) ||
		DatumGetBool(DirectFunctionCall2(numeric_eq, zero, DirectFunctionCall2(numeric_mod, NumericGetDatum(n), NumericGetDatum(of))));
}

static bool
pattern_passes(Check *c, JsonbValue *pattern, JsonbValue *v)
{
	char	   *text = mw_value_string(pattern);
	MwRegex    *re = mw_regex_get(text, 0, NULL);
	int			from,
				to;

	/* one that does not compile was refused where it was written, and asks for nothing where it is a stranger's */
	if (re == NULL || mw_regex_find(re, v->val.string.val, v->val.string.len, 0, &from, &to) == 1)
		return true;
	return fail(c, "must match the pattern %s", text);
}

/* ---------- alternatives ---------- */

static bool
alternatives_pass(Check *c, JsonbValue *schema, JsonbValue *v)
{
	static const char *const words[] = {"allOf", "anyOf", "oneOf"};
	bool		passes = true;
	JsonbValue *word;

	for (int i = 0; i < lengthof(words); i++)
	{
		MwJsonEach	each;
		int			n = 0;
		bool		all = i == 0;

		word = member(schema, words[i]);
		if (!mw_value_is_array(word))
			continue;
		each = mw_json_each(word->val.binary.data);
		c->quiet += all ? 0 : 1;
		while (mw_json_next(&each))
		{
			if (check(c, &each.value, v))
				n++;
			else if (all)
				passes = false;
		}
		c->quiet -= all ? 0 : 1;
		if (!all && n == 0)
			passes = fail(c, "fits none of what it may be: %s", listed(word));
		else if (i == 2 && n > 1)
			passes = fail(c, "fits more than one of what it may be: %s", listed(word));
	}
	word = member(schema, "not");
	if (word)
	{
		bool		fits;

		c->quiet++;
		fits = check(c, word, v);
		c->quiet--;
		if (fits)
			passes = fail(c, "must not be what it is");
	}
	return passes;
}

/* ---------- $ref ---------- */

JsonbValue *
mw_schema_ref(JsonbValue *root, const JsonbValue *ref)
{
	JsonbValue *at = root;
	const char *s = ref->val.string.val;
	const char *end = s + ref->val.string.len;

	if (ref->type != jbvString || s == end || *s++ != '#')
		return NULL;
	while (s < end)
	{
		char	   *key = palloc(end - s + 1);
		int			len = 0;

		if (*s++ != '/' || !mw_value_is_object(at))
			return NULL;
		for (; s < end && *s != '/'; s++)
		{
			key[len] = *s;
			if (*s == '~' && s + 1 < end && (s[1] == '0' || s[1] == '1'))
				key[len] = *++s == '0' ? '~' : '/';
			len++;
		}
		at = member_of_len(at, key, len);
	}
	return at;
}

static bool
ref_passes(Check *c, JsonbValue *ref, JsonbValue *v)
{
	JsonbValue *schema = mw_schema_ref(&c->root, ref);
	bool		passes;

	if (schema == NULL || c->refs >= MAX_REFS)
		return true;
	c->refs++;
	passes = check(c, schema, v);
	c->refs--;
	return passes;
}

/* ---------- containers ---------- */

/* A part of the value, under its name in reasons; refs count from 0 there */
static bool
part_passes(Check *c, JsonbValue *schema, JsonbValue *v, const char *name, int len, int index)
{
	int			was = c->path.len;
	int			refs = c->refs;
	bool		passes;

	if (name)
	{
		if (was > 0)
			appendStringInfoChar(&c->path, '.');
		appendBinaryStringInfo(&c->path, name, len);
	}
	else
		appendStringInfo(&c->path, "[%d]", index);
	c->refs = 0;
	passes = v ? check(c, schema, v) : fail(c, "is missing");
	c->refs = refs;
	c->path.len = was;
	c->path.data[was] = '\0';
	return passes;
}

static bool
members_pass(Check *c, JsonbValue *schema, JsonbValue *v)
{
	JsonbValue *properties = member(schema, "properties");
	JsonbValue *required = member(schema, "required");
	JsonbValue *more = member(schema, "additionalProperties");
	Numeric		n = int64_to_numeric(JsonContainerSize(v->val.binary.data));
	bool		passes;
	MwJsonEach	each;

	passes = keeps(c, schema, "minProperties", n, 1, false, " members") && keeps(c, schema, "maxProperties", n, -1, false, " members");
	if (mw_value_is_array(required))
	{
		each = mw_json_each(required->val.binary.data);
		while (mw_json_next(&each))
		{
			JsonbValue *name = &each.value;

			if (name->type == jbvString && member_of_len(v, name->val.string.val, name->val.string.len) == NULL)
			{
				passes = part_passes(c, NULL, NULL, name->val.string.val, name->val.string.len, 0);
				if (enough(c))
					return false;
			}
		}
	}
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
	{
		JsonbValue *name = &each.key;
		JsonbValue *one = NULL;

		if (mw_value_is_object(properties))
			one = member_of_len(properties, name->val.string.val, name->val.string.len);
		if (one == NULL && more && more->type == jbvBool && !more->val.boolean)
			passes = fail(c, "must not have the member \"%.*s\"; it may have %s",
						  pg_mbcliplen(name->val.string.val, name->val.string.len, 64), name->val.string.val,
						  mw_value_is_object(properties) && JsonContainerSize(properties->val.binary.data) > 0 ? listed(properties) : "none");
		else if ((one || more) && !part_passes(c, one ? one : more, &each.value, name->val.string.val, name->val.string.len, 0))
			passes = false;
		if (!passes && enough(c))
			return false;
	}
	return passes;
}

static bool
elements_pass(Check *c, JsonbValue *schema, JsonbValue *v)
{
	JsonbValue *items = member(schema, "items");
	Numeric		n = int64_to_numeric(JsonContainerSize(v->val.binary.data));
	bool		passes;
	MwJsonEach	each;
	int			i = 0;

	passes = keeps(c, schema, "minItems", n, 1, false, " elements") && keeps(c, schema, "maxItems", n, -1, false, " elements");
	if (items == NULL)
		return passes;
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
	{
		if (!part_passes(c, items, &each.value, NULL, 0, i++))
			passes = false;
		if (!passes && enough(c))
			return false;
	}
	return passes;
}

/* ---------- all of it ---------- */

static bool
check(Check *c, JsonbValue *schema, JsonbValue *v)
{
	JsonbValue *word;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (c->steps >= MAX_STEPS)
		return false;
	c->steps++;
	if (schema->type == jbvBool)
		return schema->val.boolean || fail(c, "must not be there");
	if (!mw_value_is_object(schema))
		return true;

	word = member(schema, "$ref");
	if (word && !ref_passes(c, word, v))
		return false;
	word = member(schema, "type");
	if (word && !type_passes(c, word, v))
		return false;
	word = member(schema, "enum");
	if (mw_value_is_array(word) && !enum_passes(c, word, v))
		return false;
	word = member(schema, "const");
	if (word && !same_value(word, v))
		return fail(c, "must be %s", mw_json_canonical(JsonbValueToJsonb(word)));
	if (!alternatives_pass(c, schema, v))
		return false;

	if (v->type == jbvString)
	{
		Numeric		n = int64_to_numeric(pg_mbstrlen_with_len(v->val.string.val, v->val.string.len));

		word = member(schema, "pattern");
		return keeps(c, schema, "minLength", n, 1, false, " characters") && keeps(c, schema, "maxLength", n, -1, false, " characters") &&
			(word == NULL || word->type != jbvString || pattern_passes(c, word, v));
	}
	if (v->type == jbvNumeric)
	{
		Numeric		n = v->val.numeric;

		word = member(schema, "multipleOf");
		if (word && word->type == jbvNumeric && !is_multiple(n, word->val.numeric))
			return fail(c, "must be a multiple of %s",
						DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(word->val.numeric))));
		return keeps(c, schema, "minimum", n, 1, false, "") && keeps(c, schema, "maximum", n, -1, false, "") &&
			keeps(c, schema, "exclusiveMinimum", n, 1, true, "") && keeps(c, schema, "exclusiveMaximum", n, -1, true, "");
	}
	if (mw_value_is_object(v))
		return members_pass(c, schema, v);
	if (mw_value_is_array(v))
		return elements_pass(c, schema, v);
	return true;
}

char *
mw_schema_breach(Jsonb *schema, Jsonb *value)
{
	Check		c = {0};
	JsonbValue	v;
	StringInfoData all;
	ListCell   *lc;

	whole(schema, &c.root);
	whole(value, &v);
	initStringInfo(&c.path);
	if (check(&c, &c.root, &v) && c.steps < MAX_STEPS)
		return NULL;
	if (c.steps >= MAX_STEPS)
		return pstrdup("the value takes too long to be checked");
	initStringInfo(&all);
	foreach(lc, c.why)
		appendStringInfo(&all, "%s%s", all.len > 0 ? "; " : "", (char *) lfirst(lc));
	return all.data;
}

bool
mw_schema_accepts(const char *schema, const char *s, int len)
{
	Jsonb	   *wanted = mw_json_parse(schema, strlen(schema), NULL);
	Jsonb	   *given = mw_json_parse(s, len, NULL);

	if (given == NULL)
		return false;
	return wanted == NULL || mw_schema_breach(wanted, given) == NULL;
}
