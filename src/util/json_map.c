/*
 * json_map.c - members of a jsonb, leaves passed through a function, messages.
 *
 * Reading and rebuilding through PostgreSQL's own iterator; nothing here
 * recurses, so the depth of a value is of no account.
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "util/json.h"
#include "util/json_push.h"

/* ---------- members ---------- */

bool
mw_json_is_object(Jsonb *jb)
{
	return jb != NULL && JB_ROOT_IS_OBJECT(jb);
}

bool
mw_json_is_array(Jsonb *jb)
{
	return jb != NULL && JB_ROOT_IS_ARRAY(jb) && !JB_ROOT_IS_SCALAR(jb);
}

/* mw_json_get finds a member of an object; NULL when there is none or it is null. */
JsonbValue *
mw_json_get(Jsonb *jb, const char *key)
{
	JsonbValue *v;

	if (!mw_json_is_object(jb))
		return NULL;
	v = getKeyJsonValueFromContainer(&jb->root, key, strlen(key), NULL);
	if (v != NULL && v->type == jbvNull)
		return NULL;
	return v;
}

/* mw_json_get_text finds a string member. */
char *
mw_json_get_text(Jsonb *jb, const char *key)
{
	JsonbValue *v = mw_json_get(jb, key);

	if (v == NULL || v->type != jbvString)
		return NULL;
	return mw_value_string(v);
}

char *
mw_value_string(const JsonbValue *v)
{
	return pnstrdup(v->val.string.val, v->val.string.len);
}

MwJsonEach
mw_json_each(JsonbContainer *container)
{
	return (MwJsonEach) {.it = JsonbIteratorInit(container)};
}

bool
mw_json_next(MwJsonEach *each)
{
	JsonbIteratorToken tok;

	while ((tok = JsonbIteratorNext(&each->it, &each->value, true)) != WJB_DONE)
	{
		if (tok == WJB_VALUE || tok == WJB_ELEM)
			return true;
		if (tok == WJB_KEY)
			each->key = each->value;
	}
	return false;
}

/* mw_json_with sets a member. */
Jsonb *
mw_json_with(Jsonb *object, const char *key, JsonbValue *value)
{
	JsonbParseState *st = NULL;
	Jsonb	   *one;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, key);
	pushJsonbValue(&st, WJB_VALUE, value);
	one = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	if (object == NULL)
		return one;
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(object), JsonbPGetDatum(one)));
}

/* mw_json_value_jsonb makes a value that stands alone. */
Jsonb *
mw_json_value_jsonb(JsonbValue *v)
{
	return v == NULL ? NULL : JsonbValueToJsonb(v);
}

/* mw_json_get_jsonb finds a member of any type. */
Jsonb *
mw_json_get_jsonb(Jsonb *jb, const char *key)
{
	return mw_json_value_jsonb(mw_json_get(jb, key));
}

/* ---------- rebuilding ---------- */

/* One token more of the value that is being built */
static JsonbValue *
push_token(JsonbParseState **stack, JsonbIteratorToken tok, JsonbValue *v)
{
	bool		has_value = tok == WJB_KEY || tok == WJB_VALUE || tok == WJB_ELEM;

	/* a raw scalar's array must be passed on as it came */
	return pushJsonbValue(stack, tok, has_value || (tok == WJB_BEGIN_ARRAY && v->val.array.rawScalar) ? v : NULL);
}

/* The first n tokens of a value, as they are */
static JsonbParseState *
push_first(Jsonb *jb, int n)
{
	JsonbIterator *it = JsonbIteratorInit(&jb->root);
	JsonbParseState *stack = NULL;
	JsonbValue	v;

	while (n-- > 0)
	{
		JsonbIteratorToken tok = JsonbIteratorNext(&it, &v, false);

		(void) push_token(&stack, tok, &v);
	}
	return stack;
}

/*
 * mw_json_map passes each leaf of a value through fn; the value itself comes back
 * where none has changed, as in nearly all messages, and another is built from
 * the first that has.  The place
 * tells fn where it is: path[0..depth-1] are the keys on the way (NULL for an
 * element of an array).  Jsonb is never deeper than its own parser's stack
 * allowed, but this does not recurse, so that is of no account; beyond
 * MW_JSON_MAX_DEPTH keys are not told any more.
 */
Jsonb *
mw_json_map(Jsonb *jb, int what, MwJsonLeafAt fn, void *arg)
{
	JsonbIterator *it;
	JsonbParseState *stack = NULL;
	JsonbValue	v;
	JsonbValue *result = NULL;
	JsonbIteratorToken tok;
	MwJsonPlace place = {0};
	bool		raw_scalar = false;
	bool		changed = false;

	it = JsonbIteratorInit(&jb->root);
	for (int n = 0; (tok = JsonbIteratorNext(&it, &v, false)) != WJB_DONE; n++)
	{
		int			level = Min(place.depth, MW_JSON_MAX_DEPTH);
		char	   *s = NULL;
		char	   *t = NULL;
		int			len;

		switch (tok)
		{
			case WJB_BEGIN_ARRAY:
			case WJB_BEGIN_OBJECT:
				if (tok == WJB_BEGIN_ARRAY && v.val.array.rawScalar)
					raw_scalar = true;
				if (!raw_scalar)
				{
					place.depth++;
					level = Min(place.depth, MW_JSON_MAX_DEPTH);
					place.path[level - 1] = NULL;	/* until a key names it */
				}
				break;
			case WJB_END_ARRAY:
			case WJB_END_OBJECT:
				if (!raw_scalar)
					place.depth--;
				break;
			case WJB_KEY:
				place.path[level - 1] = mw_value_string(&v);
				if (what & MW_JSON_KEYS)
				{
					s = place.path[level - 1];
					place.is_key = true;
					t = fn(s, v.val.string.len, &len, &place, arg);
					place.is_key = false;
				}
				break;
			case WJB_VALUE:
			case WJB_ELEM:
				if (v.type == jbvString)
				{
					s = mw_value_string(&v);
					t = fn(s, v.val.string.len, &len, &place, arg);
				}
				else if (v.type == jbvNumeric && (what & MW_JSON_NUMBERS))
				{
					s = DatumGetCString(DirectFunctionCall1(numeric_out,
															NumericGetDatum(v.val.numeric)));
					place.is_number = true;
					t = fn(s, strlen(s), &len, &place, arg);
					place.is_number = false;
				}
				break;
			default:
				elog(ERROR, "unexpected jsonb token %d", (int) tok);
		}
		if (t != s)
		{
			if (!changed)
				stack = push_first(jb, n);
			changed = true;
			v.type = jbvString;
			v.val.string.val = t;
			v.val.string.len = len;
		}
		if (changed)
			result = push_token(&stack, tok, &v);
	}
	return changed ? JsonbValueToJsonb(result) : jb;
}

typedef struct PlainLeaf
{
	MwJsonLeaf	fn;
	void	   *arg;
} PlainLeaf;

static char *
plain_leaf(char *s, int len, int *newlen, const MwJsonPlace *place, void *arg)
{
	PlainLeaf  *p = arg;

	return p->fn(s, len, newlen, p->arg);
}

/* mw_json_map_strings is mw_json_map for functions that need no place. */
Jsonb *
mw_json_map_strings(Jsonb *jb, bool keys, MwJsonLeaf fn, void *arg)
{
	PlainLeaf	p = {fn, arg};

	return mw_json_map(jb, keys ? MW_JSON_KEYS : 0, plain_leaf, &p);
}

/* ---------- messages ---------- */

/* Append the text of one part: a bare string, or an object with a string "text". */
static void
part_text(StringInfo buf, JsonbValue *part)
{
	JsonbValue *text = NULL;

	if (part->type == jbvString)
		text = part;
	else if (mw_value_is_object(part))
		text = getKeyJsonValueFromContainer(part->val.binary.data, "text", 4, NULL);
	if (text == NULL || text->type != jbvString)
		return;
	if (buf->len > 0)
		appendStringInfoChar(buf, '\n');
	appendBinaryStringInfo(buf, text->val.string.val, text->val.string.len);
}

/* mw_json_content_text joins what of a content is text; NULL when nothing is. */
char *
mw_json_content_text(JsonbValue *content)
{
	StringInfoData buf;

	if (content == NULL)
		return NULL;
	if (content->type == jbvString)
		return mw_value_string(content);
	if (content->type != jbvBinary)
		return NULL;
	initStringInfo(&buf);
	if (JsonContainerIsArray(content->val.binary.data))
	{
		uint32		n = JsonContainerSize(content->val.binary.data);
		uint32		i;

		for (i = 0; i < n; i++)
		{
			JsonbValue *part = getIthJsonbValueFromContainer(content->val.binary.data, i);

			if (part != NULL)
				part_text(&buf, part);
		}
	}
	else
		part_text(&buf, content);
	return buf.data;
}

static void
list_names(StringInfo buf, const char *const *names)
{
	for (; *names != NULL; names++)
		appendStringInfo(buf, "%s%s", buf->len > 0 ? ", " : "", *names);
}

/* mw_json_check_keys refuses members that nobody knows. */
void
mw_json_check_keys(Jsonb *jb, const char *noun, const char *owner, const char *const *allowed)
{
	MwJsonEach	each;
	StringInfoData list;

	if (jb == NULL)
		return;
	initStringInfo(&list);
	if (!mw_json_is_object(jb))
	{
		list_names(&list, allowed);
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 strcmp(noun, "member") == 0 ?
				 errmsg("%s must be a JSON object", owner) :
				 errmsg("%ss of %s must be a JSON object", noun, owner),
				 list.len > 0 ? errhint("Its members are: %s.", list.data) : errhint("'{}' is an empty one.")));
	}
	each = mw_json_each(&jb->root);
	while (mw_json_next(&each))
	{
		const char *const *a;

		for (a = allowed; *a != NULL; a++)
			if (strlen(*a) == (size_t) each.key.val.string.len &&
				memcmp(*a, each.key.val.string.val, each.key.val.string.len) == 0)
				break;
		if (*a != NULL)
			continue;
		list_names(&list, allowed);
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("unknown %s \"%s\" of %s", noun,
						pnstrdup(each.key.val.string.val, pg_mbcliplen(each.key.val.string.val, each.key.val.string.len, NAMEDATALEN)),
						owner),
				 list.len > 0 ? errhint("Known: %s.", list.data) : errhint("It has no %ss yet.", noun)));
	}
}
