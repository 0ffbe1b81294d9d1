/*
 * openai_plain.c - the text of a usable answer, found without the parser.
 *
 * Nearly all answers, and all that the cache stores, are of one shape: a text, an
 * end with "stop", no tool calls.  The gateway read them with openai_read.c when
 * they came; a backend reads them again, for a miss and for each hit, where a parser
 * that turns every string into one of its own costs as much as the look-up.  So this
 * walks over a body from value to value, copies the one text, and knows nothing else.
 *
 * It answers only where openai_read.c would find the same.  Whatever has several
 * readings or is rare (a key twice or with an escape in it, several choices, a
 * content in parts, half of a surrogate pair, tool calls) is left to that reader.
 * That the bytes are JSON was seen when they came; if they were not, this
 * stays within them all the same, and passes each of them once.
 */
#include "mw.h"

#include "mb/pg_wchar.h"

#include "provider/openai.h"

typedef struct Cursor
{
	const char *p;
	const char *end;
} Cursor;

typedef struct Piece
{
	const char *p;				/* NULL: none yet */
	int			len;
} Piece;

static inline bool
is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Past white space, and past c where that comes next */
static inline bool
take(Cursor *c, char expected)
{
	while (c->p < c->end && is_space(*c->p))
		c->p++;
	if (c->p == c->end || *c->p != expected)
		return false;
	c->p++;
	return true;
}

/* The rest of a string whose first quote was taken, as it is written */
static inline bool
take_string(Cursor *c, Piece *s)
{
	const char *from = c->p;

	for (;;)
	{
		const char *quote = memchr(c->p, '"', c->end - c->p);
		const char *back = quote;

		if (quote == NULL)
			return false;
		while (back > c->p && back[-1] == '\\')
			back--;
		c->p = quote + 1;
		if ((quote - back) % 2 == 0)
		{
			s->p = from;
			s->len = quote - from;
			return true;
		}
	}
}

/* Past a value of any kind; what it is made of is not checked */
static bool
take_value(Cursor *c, Piece *v)
{
	int			depth = 0;
	Piece		ignored;

	while (c->p < c->end && is_space(*c->p))
		c->p++;
	v->p = c->p;
	while (c->p < c->end)
	{
		switch (*c->p)
		{
			case '"':
				c->p++;
				if (!take_string(c, &ignored))
					return false;
				break;
			case '{':
			case '[':
				depth++;
				c->p++;
				break;
			case '}':
			case ']':
				if (depth == 0)
					goto ended; /* of what the value is in */
				depth--;
				c->p++;
				break;
			case ',':
				if (depth == 0)
					goto ended;
				c->p++;
				continue;
			default:
				c->p++;
				continue;
		}
		if (depth == 0)
			break;
	}
ended:
	v->len = c->p - v->p;
	return depth == 0 && v->len > 0;
}

static inline bool
is(Piece s, const char *word)
{
	return s.len == strlen(word) && memcmp(s.p, word, s.len) == 0;
}

/* A key whose first quote was taken: a few letters, and none of them escaped */
static inline bool
take_name(Cursor *c, Piece *name)
{
	const char *p = c->p;

	while (p < c->end && *p != '"' && *p != '\\')
		p++;
	if (p == c->end || *p == '\\')
		return false;
	name->p = c->p;
	name->len = p - c->p;
	c->p = p + 1;
	return true;
}

/* The first, or after a comma the next, key of an object; key->p stays NULL at its end.  False where this is no such place. */
static bool
take_key(Cursor *c, bool first, Piece *key)
{
	key->p = NULL;
	if (take(c, '}'))
		return true;
	if (!first && !take(c, ','))
		return false;
	return take(c, '"') && take_name(c, key) && take(c, ':');
}

/* {"role": …, "content": "…"} */
static bool
read_message(Cursor *c, Piece *content)
{
	Piece		key;
	Piece		value;

	if (content->p != NULL || !take(c, '{'))
		return false;
	for (bool first = true;; first = false)
	{
		if (!take_key(c, first, &key))
			return false;
		if (key.p == NULL)
			return content->p != NULL;
		if (is(key, "content"))
		{
			if (content->p != NULL || !take(c, '"') || !take_string(c, content))
				return false;
		}
		else if (!take_value(c, &value))
			return false;
		else if (is(key, "tool_calls") && !is(value, "null") && !is(value, "[]"))
			return false;
	}
}

/* {"index": 0, "message": {…}, "finish_reason": "stop"} */
static bool
read_choice(Cursor *c, Piece *content)
{
	Piece		key;
	Piece		value;
	bool		stopped = false;

	if (!take(c, '{'))
		return false;
	for (bool first = true;; first = false)
	{
		if (!take_key(c, first, &key))
			return false;
		if (key.p == NULL)
			return stopped && content->p != NULL;
		if (is(key, "message"))
		{
			if (!read_message(c, content))
				return false;
		}
		else if (!take_value(c, &value))
			return false;
		else if (is(key, "finish_reason"))
		{
			if (stopped || !is(value, "\"stop\""))
				return false;
			stopped = true;
		}
	}
}

/* {"choices": [the only one], …} */
static bool
read_body(Cursor *c, Piece *content)
{
	Piece		key;
	Piece		value;

	if (!take(c, '{'))
		return false;
	for (bool first = true;; first = false)
	{
		if (!take_key(c, first, &key))
			return false;
		if (key.p == NULL)
			break;
		if (is(key, "choices"))
		{
			if (content->p != NULL || !take(c, '[') || !read_choice(c, content) || !take(c, ']'))
				return false;
		}
		else if (!take_value(c, &value))
			return false;
	}
	while (c->p < c->end && is_space(*c->p))
		c->p++;
	return c->p == c->end && content->p != NULL;
}

/* The character that the digits behind \u name; 0 for what is left to the parser */
static pg_wchar
named_character(const char *p, const char *end)
{
	pg_wchar	c = 0;

	if (end - p < 4 || GetDatabaseEncoding() != PG_UTF8)
		return 0;
	for (int i = 0; i < 4; i++)
	{
		int			digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' :
			p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10 :
			p[i] >= 'A' && p[i] <= 'F' ? p[i] - 'A' + 10 : -1;

		if (digit < 0)
			return 0;
		c = c * 16 + digit;
	}
	return is_utf16_surrogate_first(c) || is_utf16_surrogate_second(c) ? 0 : c;
}

/* A string as it is written into what it says; NULL for what is left to the parser */
static char *
unescape(Piece s, int *len)
{
	static const char escapes[] = "\"\\/bfnrt";
	static const char meant[] = "\"\\/\b\f\n\r\t";
	const char *end = s.p + s.len;
	char	   *text = palloc(s.len + 1);
	char	   *to = text;

	while (s.p < end)
	{
		const char *back = memchr(s.p, '\\', end - s.p);
		int			plain = (back != NULL ? back : end) - s.p;
		const char *which;

		memcpy(to, s.p, plain);
		to += plain;
		if (back == NULL)
			break;

		/* take_string saw to it that a character follows */
		if (back[1] == 'u')
		{
			pg_wchar	named = named_character(back + 2, end);

			if (named == 0)
				return NULL;
			unicode_to_utf8(named, (unsigned char *) to);
			to += pg_utf_mblen((unsigned char *) to);
			s.p = back + 6;
			continue;
		}
		which = back[1] != '\0' ? strchr(escapes, back[1]) : NULL;
		if (which == NULL)
			return NULL;
		*to++ = meant[which - escapes];
		s.p = back + 2;
	}
	*to = '\0';
	*len = to - text;
	return text;
}

MwAnswer *
mw_openai_decode(const char *body, int len)
{
	Cursor		c = {body, body + len};
	Piece		content = {NULL, 0};
	MwAnswer   *answer;
	char	   *text;
	int			text_len;

	if (!read_body(&c, &content) || (text = unescape(content, &text_len)) == NULL)
		return mw_openai_decode_parsed(body, len);

	answer = palloc0(sizeof(MwAnswer));
	answer->body = body;
	answer->body_len = len;
	answer->text = text;
	answer->len = text_len;
	answer->finish = "stop";
	answer->usage.estimated = true;
	return answer;
}
