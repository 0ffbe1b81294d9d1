/*
 * json.c - JSON in and out, on PostgreSQL's own parser.
 *
 * What strangers send (a provider's body, a model's tool arguments) must never
 * raise: it is first made fit for the server (mw_json_sanitize), measured for
 * depth before any recursive code sees it, and then parsed by PostgreSQL's
 * parser into jsonb by the actions below.  What could still raise inside is
 * refused before it is built: numbers that numeric cannot hold, and texts too
 * large for one jsonb.  No subtransaction is needed and none is made.
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "util/json.h"
#include "util/scan.h"

/* 256 MB is where jsonb itself raises; half of it leaves room for its own headers */
#define MW_JSON_MAX_BYTES	(128 * 1024 * 1024)
/* numeric ends at 131072 digits before the point and 16383 after it */
#define MW_JSON_MAX_DIGITS	1000
#define MW_JSON_MAX_EXPONENT 308

/* ---------- out ---------- */

/* mw_json_string appends a JSON string literal. */
void
mw_json_string(StringInfo buf, const char *s, int len)
{
	static const char hex[] = "0123456789abcdef";
	int			done = 0;
	int			at = 0;
	uint64		mask = 0;

	enlargeStringInfo(buf, len + 2);
	appendStringInfoCharMacro(buf, '"');
	for (;;)
	{
		unsigned char c;
		char		esc[7];
		int			i,
					n;

		/* on to the next block that has something to escape */
		while (mask == 0 && at < len)
		{
			MwBlock		blk;

			mw_block_load(&blk, s + at, len - at);
			if (mw_block_any_below(&blk, '"', '\\', 0x20))
				mask = (mw_block_range(&blk, 0, 0x1f) | mw_block_either(&blk, '"', '\\')) & mw_block_valid(len - at);
			at += MW_BLOCK;
		}
		if (mask == 0)
			break;
		i = at - MW_BLOCK + pg_rightmost_one_pos64(mask);
		mask &= mask - 1;
		c = (unsigned char) s[i];
		esc[0] = '\\';
		n = 2;
		switch (c)
		{
			case '"':
				esc[1] = '"';
				break;
			case '\\':
				esc[1] = '\\';
				break;
			case '\n':
				esc[1] = 'n';
				break;
			case '\r':
				esc[1] = 'r';
				break;
			case '\t':
				esc[1] = 't';
				break;
			case '\b':
				esc[1] = 'b';
				break;
			case '\f':
				esc[1] = 'f';
				break;
			default:
				memcpy(esc + 1, "u00", 3);
				esc[4] = hex[c >> 4];
				esc[5] = hex[c & 15];
				n = 6;
		}
		appendBinaryStringInfo(buf, s + done, i - done);
		appendBinaryStringInfo(buf, esc, n);
		done = i + 1;
	}
	appendBinaryStringInfo(buf, s + done, len - done);
	appendStringInfoCharMacro(buf, '"');
}

/* mw_json_canonical spells a jsonb: sorted keys, one spelling of each number. */
char *
mw_json_canonical(Jsonb *jb)
{
	return JsonbToCString(NULL, &jb->root, VARSIZE(jb));
}

/* ---------- in ---------- */

/* mw_json_too_deep counts brackets outside strings; it neither recurses nor judges. */
bool
mw_json_too_deep(const char *s, int len)
{
	const char *end = s + len;
	int			depth = 0;

	while (s < end)
	{
		char		c = *s++;

		if (c == '"')
		{
			const char *quote = s - 1;
			const char *back;

			/* to the quote that ends it, which no odd number of backslashes precedes */
			do
			{
				s = quote + 1;
				quote = memchr(s, '"', end - s);
				if (quote == NULL)
					return false;
				for (back = quote; back > s && back[-1] == '\\'; back--)
					;
			} while ((quote - back) % 2 != 0);
			s = quote + 1;
		}
		else if (c == '{' || c == '[')
		{
			if (++depth > MW_JSON_MAX_DEPTH)
				return true;
		}
		else if (c == '}' || c == ']')
			depth--;
	}
	return false;
}

typedef struct ParseState
{
	JsonbParseState *stack;
	JsonbValue *result;
	const char *why;			/* set when what follows must not be built any more */
} ParseState;

/* Put a scalar where the parser stands: alone, in an array, or as a member's value. */
static void
put_scalar(ParseState *st, JsonbValue *v)
{
	if (st->stack == NULL)
	{
		JsonbValue	array = {0};

		array.type = jbvArray;
		array.val.array.rawScalar = true;
		array.val.array.nElems = 1;
		st->result = pushJsonbValue(&st->stack, WJB_BEGIN_ARRAY, &array);
		st->result = pushJsonbValue(&st->stack, WJB_ELEM, v);
		st->result = pushJsonbValue(&st->stack, WJB_END_ARRAY, NULL);
	}
	else if (st->stack->contVal.type == jbvArray)
		st->result = pushJsonbValue(&st->stack, WJB_ELEM, v);
	else
		st->result = pushJsonbValue(&st->stack, WJB_VALUE, v);
}

static MW_JSON_ACTION
on_object_start(void *state)
{
	ParseState *st = state;

	st->result = pushJsonbValue(&st->stack, WJB_BEGIN_OBJECT, NULL);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_object_end(void *state)
{
	ParseState *st = state;

	st->result = pushJsonbValue(&st->stack, WJB_END_OBJECT, NULL);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_array_start(void *state)
{
	ParseState *st = state;

	st->result = pushJsonbValue(&st->stack, WJB_BEGIN_ARRAY, NULL);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_array_end(void *state)
{
	ParseState *st = state;

	st->result = pushJsonbValue(&st->stack, WJB_END_ARRAY, NULL);
	MW_JSON_OK;
}

static MW_JSON_ACTION
on_field(void *state, char *name, bool isnull)
{
	ParseState *st = state;
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = name;
	v.val.string.len = strlen(name);
	st->result = pushJsonbValue(&st->stack, WJB_KEY, &v);
	MW_JSON_OK;
}

/* number_fits tells whether numeric takes it without raising. */
static bool
number_fits(const char *s)
{
	const char *e = strpbrk(s, "eE");
	size_t		digits = e ? (size_t) (e - s) : strlen(s);

	if (digits > MW_JSON_MAX_DIGITS)
		return false;
	if (e)
	{
		e++;
		if (*e == '+' || *e == '-')
			e++;
		while (*e == '0')
			e++;
		if (strlen(e) > 4 || atoi(e) > MW_JSON_MAX_EXPONENT)
			return false;
	}
	return true;
}

static MW_JSON_ACTION
on_scalar(void *state, char *token, JsonTokenType type)
{
	ParseState *st = state;
	JsonbValue	v;

	switch (type)
	{
		case JSON_TOKEN_STRING:
			v.type = jbvString;
			v.val.string.val = token;
			v.val.string.len = strlen(token);
			break;
		case JSON_TOKEN_NUMBER:
			if (!number_fits(token))
			{
				st->why = "a number in it is out of range";
				v.type = jbvNull;
				break;
			}
			v.type = jbvNumeric;
			v.val.numeric = DatumGetNumeric(DirectFunctionCall3(numeric_in,
																CStringGetDatum(token),
																ObjectIdGetDatum(InvalidOid),
																Int32GetDatum(-1)));
			break;
		case JSON_TOKEN_TRUE:
		case JSON_TOKEN_FALSE:
			v.type = jbvBool;
			v.val.boolean = type == JSON_TOKEN_TRUE;
			break;
		default:
			v.type = jbvNull;
			break;
	}
	put_scalar(st, &v);
	MW_JSON_OK;
}

/* mw_json_parse makes jsonb of text, or says why not. */
Jsonb *
mw_json_parse(const char *s, int len, char **why)
{
	ParseState	st = {0};
	JsonSemAction sem = {0};
	JsonLexContext *lex;
	char	   *copy;
	char	   *unused;

	if (why == NULL)
		why = &unused;
	*why = NULL;
	if (len > MW_JSON_MAX_BYTES)
	{
		*why = pstrdup("it is too large");
		return NULL;
	}
	if (mw_json_too_deep(s, len))
	{
		*why = psprintf("it is nested deeper than %d levels", MW_JSON_MAX_DEPTH);
		return NULL;
	}

	/* the lexer is promised no terminator from 17 on, but older ones look one byte ahead */
	copy = palloc(len + 1);
	memcpy(copy, s, len);
	copy[len] = '\0';
	lex = mw_json_lexer(copy, len, PG_UTF8, true);

	sem.semstate = &st;
	sem.object_start = on_object_start;
	sem.object_end = on_object_end;
	sem.array_start = on_array_start;
	sem.array_end = on_array_end;
	sem.object_field_start = on_field;
	sem.scalar = on_scalar;

	if (pg_parse_json(lex, &sem) != JSON_SUCCESS)
	{
		/* where, never what: the text may hold anything */
		*why = psprintf("it is not valid JSON (near byte %d)",
						(int) Max(lex->token_start ? lex->token_start - lex->input : 0, 0) + 1);
		return NULL;
	}
	if (st.why)
	{
		*why = pstrdup(st.why);
		return NULL;
	}
	return JsonbValueToJsonb(st.result);
}

/* Four hex digits, or -1 */
static int
hex4(const char *p, int left)
{
	int			v = 0;
	int			i;

	if (left < 4)
		return -1;
	for (i = 0; i < 4; i++)
	{
		char		c = p[i];

		if (c >= '0' && c <= '9')
			v = v * 16 + (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v * 16 + ((c | 0x20) - 'a' + 10);
		else
			return -1;
	}
	return v;
}

/* Overwrite \u0000 and half pairs by \ufffd, in place: the length stays. */
static void
mend_escapes(char *s, int len)
{
	int			i = 0;

	while (i < len)
	{
		char	   *bs = memchr(s + i, '\\', len - i);
		int			cu;

		if (bs == NULL || bs + 1 >= s + len)
			return;
		i = bs - s;
		if (bs[1] != 'u' || (cu = hex4(bs + 2, len - i - 2)) < 0)
		{
			i += 2;
			continue;
		}
		if (cu >= 0xd800 && cu <= 0xdbff)
		{
			int			low = i + 12 <= len && bs[6] == '\\' && bs[7] == 'u' ? hex4(bs + 8, len - i - 8) : -1;

			if (low >= 0xdc00 && low <= 0xdfff)
			{
				i += 12;
				continue;
			}
			memcpy(bs + 2, "fffd", 4);
		}
		else if (cu == 0 || (cu >= 0xdc00 && cu <= 0xdfff))
			memcpy(bs + 2, "fffd", 4);
		i += 6;
	}
}

/*
 * Bytes that are no UTF-8 become U+FFFD, one for a bad lead byte and the
 * continuation bytes behind it.  PostgreSQL's check reads all that it is given
 * before it says where the first bad byte stands, so it is given little where
 * there are many: it would take minutes for a megabyte of them.  What is mostly
 * no text is none: one mark stands for it.
 */
static char *
mark_bad_bytes(const char *s, int n, int *len)
{
	StringInfoData buf;
	int			window = 64;
	int			bad_left = n / 4 + 16;

	initStringInfo(&buf);
	while (n > 0)
	{
		int			part = Min(n, window);
		int			good = pg_encoding_verifymbstr(PG_UTF8, s, part);

		appendBinaryStringInfo(&buf, s, good);
		s += good;
		n -= good;
		if (good == part)
		{
			window = Min(window * 2, 1024 * 1024);
			continue;
		}
		window = 64;
		/* a character may just stand across the end of the part */
		if (good > 0 && part - good < 4 && n > part - good)
			continue;
		appendBinaryStringInfo(&buf, "\xef\xbf\xbd", 3);
		do
		{
			s++;
			n--;
			bad_left--;
		} while (n > 0 && ((unsigned char) *s & 0xc0) == 0x80);
		if (bad_left < 0)
		{
			resetStringInfo(&buf);
			appendBinaryStringInfo(&buf, "\xef\xbf\xbd", 3);
			break;
		}
	}
	*len = buf.len;
	return buf.data;
}

/* mw_json_sanitize makes bytes fit for PostgreSQL. */
char *
mw_json_sanitize(char *s, int *len)
{
	int			n = *len;

	if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
	{
		s += 3;
		n -= 3;
	}
	if (pg_encoding_verifymbstr(PG_UTF8, s, n) != n)
		s = mark_bad_bytes(s, n, &n);
	mend_escapes(s, n);
	*len = n;
	return s;
}
