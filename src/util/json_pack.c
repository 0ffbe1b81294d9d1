/*
 * json_pack.c - a jsonb of values that are jsonb already, or stand in place.
 *
 * JsonbValueToJsonb takes each container that is put into another one apart and
 * builds it anew, leaf by leaf.  The bytes of a container are the same wherever
 * it stands, so here they are copied, and what stands in place is written behind
 * them in the same pass.  What comes out is equal to the byte to what PostgreSQL
 * would have made: its entries are convertJsonbArray's and convertJsonbObject's
 * (utils/adt/jsonb_util.c).
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "util/json.h"

/* A container that is being written */
typedef struct Writer
{
	StringInfo	buf;
	int			entries;		/* where they begin */
	int			n;				/* how many are written */
	Size		total;			/* bytes of all data until now */
} Writer;

static void put_container(StringInfo buf, const JsonbValue *v);

static inline void
append(StringInfo buf, const void *data, int len)
{
	if (len >= buf->maxlen - buf->len)
		enlargeStringInfo(buf, len);
	memcpy(buf->data + buf->len, data, len);
	buf->len += len;
}

static inline void
pad(StringInfo buf)
{
	append(buf, "\0\0\0", INTALIGN(buf->len) - buf->len);
}

static Jsonb *
end(StringInfo buf)
{
	SET_VARSIZE(buf->data, buf->len);
	return (Jsonb *) buf->data;
}

/* Of a jsonb where buf is empty, else of a container in one */
static void
begin(Writer *w, StringInfo buf, uint32 header, int nentries)
{
	pad(buf);
	append(buf, &header, sizeof(header));
	enlargeStringInfo(buf, nentries * sizeof(JEntry));
	w->buf = buf;
	w->entries = buf->len;
	buf->len += nentries * sizeof(JEntry);
	w->n = 0;
	w->total = 0;
}

static void
begin_jsonb(StringInfo buf)
{
	initStringInfo(buf);
	buf->len = VARHDRSZ;
}

static void
put(Writer *w, const JsonbValue *v)
{
	int			from = w->buf->len;
	JEntry		entry;

	switch (v->type)
	{
		case jbvNull:
			entry = JENTRY_ISNULL;
			break;
		case jbvBool:
			entry = v->val.boolean ? JENTRY_ISBOOL_TRUE : JENTRY_ISBOOL_FALSE;
			break;
		case jbvString:
			entry = JENTRY_ISSTRING;
			append(w->buf, v->val.string.val, v->val.string.len);
			break;
		case jbvNumeric:
			entry = JENTRY_ISNUMERIC;
			pad(w->buf);
			append(w->buf, v->val.numeric, VARSIZE_ANY(v->val.numeric));
			break;
		case jbvBinary:
			entry = JENTRY_ISCONTAINER;
			pad(w->buf);
			append(w->buf, v->val.binary.data, v->val.binary.len);
			break;
		case jbvArray:
		case jbvObject:
			entry = JENTRY_ISCONTAINER;
			put_container(w->buf, v);
			break;
		default:
			elog(ERROR, "mw: a value of the kind %d cannot be packed", (int) v->type);
	}
	w->total += w->buf->len - from;
	if (w->total > JENTRY_OFFLENMASK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a jsonb would be larger than %u bytes", JENTRY_OFFLENMASK)));
	entry |= w->n % JB_OFFSET_STRIDE == 0 ? JENTRY_HAS_OFF | w->total : w->buf->len - from;
	memcpy(w->buf->data + w->entries + w->n++ * sizeof(JEntry), &entry, sizeof(entry));
}

/* An array or object whose members stand in place */
static void
put_container(StringInfo buf, const JsonbValue *v)
{
	Writer		w;

	check_stack_depth();
	if (v->type == jbvArray)
	{
		Assert(!v->val.array.rawScalar);
		begin(&w, buf, v->val.array.nElems | JB_FARRAY, v->val.array.nElems);
		for (int i = 0; i < v->val.array.nElems; i++)
			put(&w, &v->val.array.elems[i]);
		return;
	}
	begin(&w, buf, v->val.object.nPairs | JB_FOBJECT, 2 * v->val.object.nPairs);
	for (int i = 0; i < v->val.object.nPairs; i++)
		put(&w, &v->val.object.pairs[i].key);
	for (int i = 0; i < v->val.object.nPairs; i++)
		put(&w, &v->val.object.pairs[i].value);
}

/* mw_json_pack is a tree of values that stand in place, the keys of its objects in jsonb's order. */
Jsonb *
mw_json_pack(const JsonbValue *tree)
{
	StringInfoData buf;

	Assert(tree->type == jbvArray || tree->type == jbvObject);
	begin_jsonb(&buf);
	put_container(&buf, tree);
	return end(&buf);
}

/* mw_json_value is a whole jsonb as a value inside another one. */
JsonbValue
mw_json_value(Jsonb *jb)
{
	JsonbValue	v;

	if (JB_ROOT_IS_SCALAR(jb))
		return *getIthJsonbValueFromContainer(&jb->root, 0);
	v.type = jbvBinary;
	v.val.binary.data = &jb->root;
	v.val.binary.len = VARSIZE(jb) - VARHDRSZ;
	return v;
}

/* mw_json_text is a text as a value. */
JsonbValue
mw_json_text(const char *s)
{
	return (JsonbValue) {.type = jbvString, .val.string = {.val = unconstify(char *, s), .len = strlen(s)}};
}

/* mw_json_pack_array puts values into an array. */
Jsonb *
mw_json_pack_array(const JsonbValue *values, int n)
{
	StringInfoData buf;
	Writer		w;

	begin_jsonb(&buf);
	begin(&w, &buf, n | JB_FARRAY, n);
	for (int i = 0; i < n; i++)
		put(&w, &values[i]);
	return end(&buf);
}

/* The order of keys in a jsonb */
static int
by_key(const void *a, const void *b)
{
	const MwJsonMember *x = a;
	const MwJsonMember *y = b;

	if (x->len != y->len)
		return x->len > y->len ? 1 : -1;
	return memcmp(x->key, y->key, x->len);
}

/* mw_json_pack_object puts members, whose keys differ, into an object; it sorts them. */
Jsonb *
mw_json_pack_object(MwJsonMember *members, int n)
{
	StringInfoData buf;
	Writer		w;

	qsort(members, n, sizeof(MwJsonMember), by_key);
	begin_jsonb(&buf);
	begin(&w, &buf, n | JB_FOBJECT, 2 * n);
	for (int i = 0; i < n; i++)
	{
		JsonbValue	key = {.type = jbvString, .val.string = {.val = unconstify(char *, members[i].key), .len = members[i].len}};

		put(&w, &key);
	}
	for (int i = 0; i < n; i++)
		put(&w, &members[i].value);
	return end(&buf);
}

/* mw_json_member is a member for it. */
MwJsonMember
mw_json_member(const char *key, JsonbValue value)
{
	return (MwJsonMember) {.key = key, .len = strlen(key), .value = value};
}
