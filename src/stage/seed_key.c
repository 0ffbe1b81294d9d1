/*
 * seed_key.c - the cache key of the seed's Python function, byte for byte.
 *
 *	 h = hashlib.blake2b(digest_size=16)
 *	 h.update(prompt.encode()); h.update(b"\x1f")
 *	 if bound_tools: h.update(json.dumps(bound_tools, sort_keys=True).encode())
 *	 h.update(b"\x1f"); h.update(tenant_id.encode())
 *
 * json.dumps writes ", " and ": ", escapes what is not ASCII, and sorts keys by
 * code point, which is the order of UTF-8 bytes but not jsonb's own.  Texts,
 * integers and plain decimals come out as Python writes them; a number that was
 * written with an exponent does not, since jsonb no longer knows it.
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "util/hash.h"
#include "util/json.h"

PG_FUNCTION_INFO_V1(mw_seed_cache_key);

static void dump_container(StringInfo buf, JsonbContainer *c);

/* A string as ensure_ascii writes it */
static void
dump_string(StringInfo buf, const char *s, int len)
{
	const unsigned char *p = (const unsigned char *) s;
	const unsigned char *end = p + len;

	appendStringInfoChar(buf, '"');
	while (p < end)
	{
		pg_wchar	c;

		if (*p < 0x80)
		{
			c = *p++;
			switch (c)
			{
				case '"':
					appendStringInfoString(buf, "\\\"");
					continue;
				case '\\':
					appendStringInfoString(buf, "\\\\");
					continue;
				case '\n':
					appendStringInfoString(buf, "\\n");
					continue;
				case '\r':
					appendStringInfoString(buf, "\\r");
					continue;
				case '\t':
					appendStringInfoString(buf, "\\t");
					continue;
				case '\f':
					appendStringInfoString(buf, "\\f");
					continue;
				case '\b':
					appendStringInfoString(buf, "\\b");
					continue;
			}
			if (c >= ' ' && c <= '~')
			{
				appendStringInfoChar(buf, (char) c);
				continue;
			}
		}
		else
		{
			c = utf8_to_unicode(p);
			p += pg_utf_mblen(p);
		}
		if (c > 0xffff)
		{
			c -= 0x10000;
			appendStringInfo(buf, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
		}
		else
			appendStringInfo(buf, "\\u%04x", c);
	}
	appendStringInfoChar(buf, '"');
}

/* A number: Python's float drops zeros at the end but keeps one digit behind the point */
static void
dump_number(StringInfo buf, Numeric n)
{
	char	   *s = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(n)));
	char	   *dot = strchr(s, '.');

	if (dot != NULL)
	{
		char	   *end = s + strlen(s);

		while (end > dot + 2 && end[-1] == '0')
			*--end = '\0';
	}
	appendStringInfoString(buf, s);
}

static void
dump_value(StringInfo buf, JsonbValue *v)
{
	switch (v->type)
	{
		case jbvNull:
			appendStringInfoString(buf, "null");
			break;
		case jbvBool:
			appendStringInfoString(buf, v->val.boolean ? "true" : "false");
			break;
		case jbvNumeric:
			dump_number(buf, v->val.numeric);
			break;
		case jbvString:
			dump_string(buf, v->val.string.val, v->val.string.len);
			break;
		case jbvBinary:
			dump_container(buf, v->val.binary.data);
			break;
		default:
			elog(ERROR, "unexpected jsonb value %d", (int) v->type);
	}
}

typedef struct Member
{
	JsonbValue	key;
	JsonbValue	value;
} Member;

static int
by_key(const void *pa, const void *pb)
{
	const JsonbValue *a = &((const Member *) pa)->key;
	const JsonbValue *b = &((const Member *) pb)->key;
	int			c = memcmp(a->val.string.val, b->val.string.val,
						   Min(a->val.string.len, b->val.string.len));

	return c ? c : a->val.string.len - b->val.string.len;
}

static void
dump_container(StringInfo buf, JsonbContainer *c)
{
	int			n = JsonContainerSize(c);
	int			i;

	check_stack_depth();
	if (JsonContainerIsScalar(c))
	{
		dump_value(buf, getIthJsonbValueFromContainer(c, 0));
		return;
	}
	if (JsonContainerIsArray(c))
	{
		appendStringInfoChar(buf, '[');
		for (i = 0; i < n; i++)
		{
			if (i > 0)
				appendStringInfoString(buf, ", ");
			dump_value(buf, getIthJsonbValueFromContainer(c, i));
		}
		appendStringInfoChar(buf, ']');
	}
	else
	{
		Member	   *m = palloc(sizeof(Member) * Max(1, n));
		MwJsonEach	each = mw_json_each(c);

		for (i = 0; mw_json_next(&each); i++)
			m[i] = (Member) {each.key, each.value};
		qsort(m, n, sizeof(Member), by_key);
		appendStringInfoChar(buf, '{');
		for (i = 0; i < n; i++)
		{
			if (i > 0)
				appendStringInfoString(buf, ", ");
			dump_string(buf, m[i].key.val.string.val, m[i].key.val.string.len);
			appendStringInfoString(buf, ": ");
			dump_value(buf, &m[i].value);
		}
		appendStringInfoChar(buf, '}');
	}
}

/* What Python takes for false: null, false, 0, "", [], {} */
static bool
falsy(Jsonb *jb)
{
	if (JB_ROOT_IS_SCALAR(jb))
	{
		JsonbValue *v = getIthJsonbValueFromContainer(&jb->root, 0);

		switch (v->type)
		{
			case jbvNull:
				return true;
			case jbvBool:
				return !v->val.boolean;
			case jbvString:
				return v->val.string.len == 0;
			case jbvNumeric:
				return strspn(DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric))),
							  "-0.") == strlen(DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric))));
			default:
				return false;
		}
	}
	return JB_ROOT_COUNT(jb) == 0;
}

/* mw_seed_cache_key(prompt, tools, tenant) */
Datum
mw_seed_cache_key(PG_FUNCTION_ARGS)
{
	crypto_generichash_state h;
	MwKey		key;
	text	   *prompt;
	text	   *tenant;
	static const unsigned char us = 0x1f;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	prompt = PG_GETARG_TEXT_PP(0);
	tenant = PG_GETARG_TEXT_PP(2);
	if (sodium_init() < 0)
		elog(ERROR, "could not initialize libsodium");
	crypto_generichash_init(&h, NULL, 0, sizeof(key.b));
	crypto_generichash_update(&h, (const unsigned char *) VARDATA_ANY(prompt), VARSIZE_ANY_EXHDR(prompt));
	crypto_generichash_update(&h, &us, 1);
	if (!PG_ARGISNULL(1))
	{
		Jsonb	   *tools = PG_GETARG_JSONB_P(1);

		if (!falsy(tools))
		{
			StringInfoData buf;

			initStringInfo(&buf);
			dump_container(&buf, &tools->root);
			crypto_generichash_update(&h, (const unsigned char *) buf.data, buf.len);
		}
	}
	crypto_generichash_update(&h, &us, 1);
	crypto_generichash_update(&h, (const unsigned char *) VARDATA_ANY(tenant), VARSIZE_ANY_EXHDR(tenant));
	crypto_generichash_final(&h, key.b, sizeof(key.b));
	PG_RETURN_TEXT_P(cstring_to_text(mw_key_hex(&key)));
}
