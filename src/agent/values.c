/*
 * values.c - values in the place of placeholders, and back.
 *
 * Tools get values unless their option says otherwise, hooks placeholders unless
 * their agent's does.  What a tool returns is raw and is redacted like any text
 * from outside.  What a hook returns is not: most of it is what it was given,
 * with placeholders that are ours.  So each value that it was shown is looked
 * for and becomes the placeholder that it was, whether a recognizer would find it
 * in its new place or not; recognizers then look for what is left.
 *
 * Names of roles, ids and models are left alone: a value that happens to be part
 * of an id would make another message of it.
 */
#include "mw.h"

#include <ctype.h>

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "agent/values.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/names.h"
#include "util/spi.h"

/* ---------- the option ---------- */

bool
mw_reveal_read(JsonbValue *v, MwReveal **reveal)
{
	MwJsonEach	each;

	*reveal = NULL;
	if (v->type == jbvBool)
	{
		if (v->val.boolean)
			*reveal = palloc0(sizeof(MwReveal));
		return true;
	}
	if (!mw_value_is_array(v) || JsonContainerSize(v->val.binary.data) == 0)
		return false;
	*reveal = palloc0(sizeof(MwReveal));
	each = mw_json_each(v->val.binary.data);
	while (mw_json_next(&each))
	{
		if (each.value.type != jbvString)
			return false;
		(*reveal)->types = lappend((*reveal)->types, mw_pii_type_name(mw_value_string(&each.value)));
	}
	return true;
}

void
mw_reveal_check(const MwReveal *reveal, const char *what)
{
	static MwStmt stmt = {
		"SELECT FROM mw.recognizer AS r WHERE r.pii_type OPERATOR(pg_catalog.=) $1",
		1, {TEXTOID}
	};
	ListCell   *lc;

	if (reveal == NULL)
		return;
	foreach(lc, reveal->types)
	{
		Datum		arg = CStringGetTextDatum(lfirst(lc));

		if (mw_spi_read(&stmt, MW_AS_OWNER, &arg, NULL, 1) == 0)
			ereport(ERROR,
					errcode(ERRCODE_MW_BAD_ARGUMENT),
					errmsg("unknown type \"%s\" in option \"reveal\" of %s", (char *) lfirst(lc), what),
					errhint("SELECT DISTINCT pii_type FROM mw.recognizer; lists the types."));
	}
}

/* ---------- values ---------- */

static bool
shows(const MwReveal *reveal, const char *type)
{
	return reveal->types == NIL || mw_lists(reveal->types, type);
}

static char *
restore_leaf(char *s, int len, int *newlen, void *map)
{
	return mw_restore_text(map, s, len, newlen, NULL);
}

Jsonb *
mw_reveal_show(MwRun *run, const MwReveal *reveal, Jsonb *json)
{
	MwPiiMap	some;

	if (reveal == NULL || json == NULL || run->map.n == 0)
		return json;
	if (reveal->types == NIL)
		return mw_json_map_strings(json, true, restore_leaf, &run->map);
	mw_pii_map_init(&some, CurrentMemoryContext);
	for (int i = 0; i < run->map.n; i++)
	{
		const MwPiiEntry *e = &run->map.entries[i];

		if (shows(reveal, e->type))
			(void) mw_pii_add(&some, e->placeholder, strlen(e->placeholder), e->value, e->value_len);
	}
	return mw_json_map_strings(json, true, restore_leaf, &some);
}

/* ---------- placeholders again ---------- */

typedef struct Values
{
	const MwPiiEntry **entries; /* the longest value first: one may hold another */
	int			n;
	bool		first[256];		/* bytes that one begins with */
} Values;

static int
by_length(const void *a, const void *b)
{
	return (*(const MwPiiEntry *const *) b)->value_len - (*(const MwPiiEntry *const *) a)->value_len;
}

static bool
is_word(unsigned char c)
{
	return isalnum(c) && c < 0x80;
}

static const MwPiiEntry *
value_at(const Values *values, const char *s, int len, int at)
{
	if (!values->first[(unsigned char) s[at]])
		return NULL;
	for (int i = 0; i < values->n; i++)
	{
		const MwPiiEntry *e = values->entries[i];
		int			end = at + e->value_len;

		if (end > len || memcmp(s + at, e->value, e->value_len) != 0 ||
			(at > 0 && is_word(s[at - 1]) && is_word(s[at])) || (end < len && is_word(s[end]) && is_word(s[end - 1])))
			continue;
		return e;
	}
	return NULL;
}

/* What says which message, tool or model it is */
static bool
is_structure(const MwJsonPlace *place)
{
	static const char *const words[] = {"jump_to", "model", "role", "id", "name", "remove", "status", "tool_call_id", "type"};
	const char *last = place->depth > 0 ? place->path[place->depth - 1] : NULL;

	if (place->is_key || last == NULL)
		return place->is_key && place->depth <= 1;
	if (place->depth == 1)		/* others may be fields of the state */
		return strcmp(last, words[0]) == 0 || strcmp(last, words[1]) == 0 || strcmp(last, words[2]) == 0;
	for (int i = 0; i < place->depth - 1; i++)
		if (place->path[i] != NULL && (strcmp(place->path[i], "args") == 0 || strcmp(place->path[i], "content") == 0))
			return false;
	if (place->path[0] != NULL && strcmp(place->path[0], "messages") != 0 && strcmp(place->path[0], "result") != 0 && strcmp(place->path[0], "tool_call") != 0)
		return false;
	for (int i = 0; i < lengthof(words); i++)
		if (strcmp(last, words[i]) == 0)
			return true;
	return false;
}

static char *
hide_leaf(char *s, int len, int *newlen, const MwJsonPlace *place, void *arg)
{
	const Values *values = arg;
	StringInfoData buf;
	int			done = 0;

	*newlen = len;
	if (is_structure(place))
		return s;
	buf.data = NULL;
	for (int at = 0; at < len;)
	{
		const MwPiiEntry *e = value_at(values, s, len, at);

		if (e == NULL)
		{
			at++;
			continue;
		}
		if (buf.data == NULL)
			initStringInfo(&buf);
		appendBinaryStringInfo(&buf, s + done, at - done);
		appendStringInfoString(&buf, e->placeholder);
		done = at += e->value_len;
	}
	if (buf.data == NULL)
		return s;
	appendBinaryStringInfo(&buf, s + done, len - done);
	*newlen = buf.len;
	return buf.data;
}

Jsonb *
mw_reveal_hide(MwRun *run, const MwReveal *reveal, Jsonb *json)
{
	Values		values = {0};

	if (reveal == NULL || json == NULL || run->map.n == 0)
		return json;
	values.entries = palloc(sizeof(MwPiiEntry *) * run->map.n);
	for (int i = 0; i < run->map.n; i++)
	{
		const MwPiiEntry *e = &run->map.entries[i];

		if (e->value == NULL || e->value_len == 0 || !shows(reveal, e->type))
			continue;
		values.entries[values.n++] = e;
		values.first[(unsigned char) e->value[0]] = true;
	}
	if (values.n == 0)
		return json;
	qsort(values.entries, values.n, sizeof(MwPiiEntry *), by_length);
	return mw_json_map(json, MW_JSON_KEYS | MW_JSON_NUMBERS, hide_leaf, &values);
}
