/*
 * json.h - JSON in and out, on PostgreSQL's own parser.
 */
#ifndef MW_JSON_H
#define MW_JSON_H

#include "mw.h"

#define MW_JSON_MAX_DEPTH 256	/* deeper is hostile; PostgreSQL's stack would bear some thousands */

/* Append a JSON string literal of len bytes (escape_json for what is no C string). */
extern void mw_json_string(StringInfo buf, const char *s, int len);

/* jsonb text of a value: canonical, since jsonb has sorted keys and no white space of its own */
extern char *mw_json_canonical(Jsonb *jb);

/*
 * Parse text as jsonb.  Returns NULL with *why (which may be NULL) set, a palloc'd sentence,
 * instead of raising, for what strangers sent; too deep is such a reason.
 */
extern Jsonb *mw_json_parse(const char *s, int len, char **why);

/*
 * Make bytes from the network fit for PostgreSQL: invalid UTF-8, \u0000 and
 * lone surrogates become U+FFFD, a byte order mark goes.  Returns s itself when
 * there was nothing to do; never raises but for memory.
 */
extern char *mw_json_sanitize(char *s, int *len);
extern bool mw_json_too_deep(const char *s, int len);

/* What a value is; NULL is neither */
static inline bool
mw_value_is_object(const JsonbValue *v)
{
	return v != NULL && v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data);
}

static inline bool
mw_value_is_array(const JsonbValue *v)
{
	return v != NULL && v->type == jbvBinary && JsonContainerIsArray(v->val.binary.data) && !JsonContainerIsScalar(v->val.binary.data);
}

extern char *mw_value_string(const JsonbValue *v);	/* the characters of a string, palloc'd */

/*
 * The members of an object, or the elements of an array, one after another:
 *
 *	MwJsonEach	each = mw_json_each(&jb->root);
 *
 *	while (mw_json_next(&each))
 *		... each.key (a string; of a member), each.value ...
 */
typedef struct MwJsonEach
{
	JsonbIterator *it;
	JsonbValue	key;
	JsonbValue	value;
} MwJsonEach;

extern MwJsonEach mw_json_each(JsonbContainer *container);
extern bool mw_json_next(MwJsonEach *each);

/* Members of an object; NULL when absent or of another type */
extern JsonbValue *mw_json_get(Jsonb *jb, const char *key);
extern char *mw_json_get_text(Jsonb *jb, const char *key);
extern Jsonb *mw_json_get_jsonb(Jsonb *jb, const char *key);
extern Jsonb *mw_json_value_jsonb(JsonbValue *v);	/* NULL for NULL */
extern Jsonb *mw_json_with(Jsonb *object, const char *key, JsonbValue *value);	/* with a member more, or another value of it; NULL is {} */
extern bool mw_json_is_object(Jsonb *jb);
extern bool mw_json_is_array(Jsonb *jb);

/*
 * A jsonb with each string leaf (and, where keys is true, each key) passed
 * through fn, which returns its argument to keep it; itself where all are kept.
 */
typedef char *(*MwJsonLeaf) (char *s, int len, int *newlen, void *arg);
extern Jsonb *mw_json_map_strings(Jsonb *jb, bool keys, MwJsonLeaf fn, void *arg);

/*
 * The same for functions that must know where they are, and for numbers: where
 * fn returns another text for a number, a string takes its place.
 */
#define MW_JSON_KEYS	0x1
#define MW_JSON_NUMBERS	0x2

typedef struct MwJsonPlace
{
	int			depth;			/* containers around the leaf */
	char	   *path[MW_JSON_MAX_DEPTH + 1];	/* keys from the outermost on; NULL: an element of an array */
	bool		is_key;
	bool		is_number;
} MwJsonPlace;

typedef char *(*MwJsonLeafAt) (char *s, int len, int *newlen, const MwJsonPlace *place, void *arg);
extern Jsonb *mw_json_map(Jsonb *jb, int what, MwJsonLeafAt fn, void *arg);

/*
 * json_pack.c: a jsonb of values that are jsonb already, whose bytes are copied.
 * Equal to the byte to what JsonbValueToJsonb makes; 54000 where it is too large.
 */
typedef struct MwJsonMember
{
	const char *key;
	int			len;
	JsonbValue	value;
} MwJsonMember;

extern Jsonb *mw_json_pack(const JsonbValue *tree);	/* an array or object whose members stand in place, keys in jsonb's order, none twice */
extern JsonbValue mw_json_value(Jsonb *jb); /* of a whole one, what it holds where it is a bare scalar */
extern JsonbValue mw_json_text(const char *s);
extern MwJsonMember mw_json_member(const char *key, JsonbValue value);
extern Jsonb *mw_json_pack_array(const JsonbValue *values, int n);
extern Jsonb *mw_json_pack_object(MwJsonMember *members, int n);	/* sorts them; no key stands twice */

/* The text of a message's content: a string, or the text parts of an array joined */
extern char *mw_json_content_text(JsonbValue *content);

/*
 * Refuse keys of an object that are not in the NULL-terminated list: MW001
 * 'unknown NOUN "key" of OWNER', as in 'unknown setting "modle" of a tenant';
 * the hint lists what is allowed.  Where the noun is "member" the object is the
 * owner itself (a message), else a list of such (the settings of a tenant).
 */
extern void mw_json_check_keys(Jsonb *jb, const char *noun, const char *owner, const char *const *allowed);

#endif
