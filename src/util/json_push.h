/*
 * json_push.h - building jsonb piece by piece, and counting characters, as the
 * functions that show spans of a text do.
 */
#ifndef MW_JSON_PUSH_H
#define MW_JSON_PUSH_H

#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

static inline void
push_key(JsonbParseState **st, const char *key)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, key);
	v.val.string.len = strlen(key);
	pushJsonbValue(st, WJB_KEY, &v);
}

static inline void
push_string(JsonbParseState **st, JsonbIteratorToken as, const char *s, int len)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, s);
	v.val.string.len = len;
	pushJsonbValue(st, as, &v);
}

static inline void
push_member(JsonbParseState **st, const char *key, const char *s)
{
	push_key(st, key);
	push_string(st, WJB_VALUE, s, strlen(s));
}

static inline void
push_int(JsonbParseState **st, const char *key, int64 n)
{
	JsonbValue	v;

	push_key(st, key);
	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(n);
	pushJsonbValue(st, WJB_VALUE, &v);
}

/* A jsonb as a value of another one, what it holds where it is a bare scalar */
static inline void
mw_push_jsonb(JsonbParseState **st, JsonbIteratorToken as, Jsonb *jb)
{
	JsonbValue	v;

	if (JB_ROOT_IS_SCALAR(jb))
		v = *getIthJsonbValueFromContainer(&jb->root, 0);
	else
	{
		v.type = jbvBinary;
		v.val.binary.data = &jb->root;
		v.val.binary.len = VARSIZE(jb) - VARHDRSZ;
	}
	pushJsonbValue(st, as, &v);
}

/* ... as a member */
static inline void
push_json(JsonbParseState **st, const char *key, Jsonb *jb)
{
	push_key(st, key);
	mw_push_jsonb(st, WJB_VALUE, jb);
}

/* Characters between two places of a text, counted on from where the last count ended. */
typedef struct CharCounter
{
	const char *s;
	int			byte;
	int			chars;
} CharCounter;

static inline int
chars_at(CharCounter *c, int byte)
{
	if (byte < c->byte)
	{
		c->byte = 0;
		c->chars = 0;
	}
	c->chars += pg_mbstrlen_with_len(c->s + c->byte, byte - c->byte);
	c->byte = byte;
	return c->chars;
}

#endif
