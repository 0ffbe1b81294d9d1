/*
 * wrap.c - texts as data between tags that they cannot close.
 *
 * Whatever reads like a tag of mw's inside (other case, blanks, invisible
 * characters, full-width or look-alike letters, entities) loses its bracket: '<'
 * becomes &lt; and the & of an entity &amp;.  All else stays as it was given.
 *
 * A user's text stands in <user_input>; a retrieved one in <document_NONCE>.  The
 * nonce is 8 bytes of a keyed hash of source and text, and 8 of a keyed hash of
 * those: so equal documents make equal prompts, which the cache finds; a text
 * cannot name its own nonce, which would be a fixed point of a hash whose key it
 * does not know; and a tag proves that mw made it, after redaction has changed
 * the text inside as well.  What can be done with a tag that somebody saw is to
 * have a text of one's own judged as a document.
 */
#include "postgres.h"

#include <ctype.h>

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "stage/guardrail.h"
#include "stage/normalise.h"
#include "util/hash.h"
#include "util/scan.h"

#define OPEN_TAG	"<user_input>\n"
#define CLOSE_TAG	"\n</user_input>"
#define DOCUMENT	"document_"
#define NONCE_HALF	8			/* bytes */
#define NONCE_HEX	(NONCE_HALF * 4)
/* of a source's name; the rest is cut off */
#define MAX_SOURCE	200

/* The character at s[*i], decoded from an entity where it is one; moves on. */
static uint32
next_char(const char *s, int len, int *i)
{
	/* names of entities that can stand in a tag */
	static const struct
	{
		const char *name;
		uint32		c;
	}			named[] = {
		{"&lt;", '<'}, {"&lt", '<'}, {"&sol;", '/'}, {"&bsol;", '\\'}, {"&lowbar;", '_'}, {"&UnderBar;", '_'}, {"&nbsp;", ' '},
		{"&Tab;", '\t'}, {"&NewLine;", '\n'}, {"&shy;", 0xad}, {"&zwj;", 0x200d}, {"&zwnj;", 0x200c}, {"&hyphen;", '-'}, {"&dash;", '-'},
		{"&lang;", 0x27e8}, {"&langle;", 0x27e8}, {"&lsaquo;", 0x2039}, {"&laquo;", 0xab}
	};
	const unsigned char *p = (const unsigned char *) s + *i;
	int			n = pg_utf_mblen(p);

	if (*i + n > len)
	{
		*i = len;
		return 0;
	}
	*i += n;
	if (*p == '&' && *i < len && s[*i] == '#')
	{
		int			k = *i + 1;
		bool		hex = k < len && (s[k] | 0x20) == 'x';
		int			digits = 0;
		uint32		v = 0;

		if (hex)
			k++;
		/* leading zeros are no digits, however many */
		while (k + 1 < len && s[k] == '0' && (s[k + 1] == '0' || (hex ? isxdigit((unsigned char) s[k + 1]) : isdigit((unsigned char) s[k + 1]))))
			k++;
		for (; k < len && digits < 7; k++, digits++)
		{
			char		c = s[k] | 0x20;

			if (s[k] >= '0' && s[k] <= '9')
				v = v * (hex ? 16 : 10) + (s[k] - '0');
			else if (hex && c >= 'a' && c <= 'f')
				v = v * 16 + (c - 'a' + 10);
			else
				break;
		}
		if (digits > 0)
		{
			*i = k < len && s[k] == ';' ? k + 1 : k;
			return v;
		}
	}
	if (*p == '&')
		for (size_t k = 0; k < lengthof(named); k++)
		{
			int			m = strlen(named[k].name);

			if (*i - 1 + m <= len && pg_strncasecmp((const char *) p, named[k].name, m) == 0)
			{
				*i += m - 1;
				return named[k].c;
			}
		}
	return n == 1 ? *p : utf8_to_unicode(p);
}

/*
 * Whether the name of one of mw's tags, however written, follows at s[i]:
 * user_input, or document with a nonce.  What may stand between its letters is
 * skipped without a limit, and is never a bracket: so however many brackets a
 * text has, each of its bytes is looked at a few times at most.
 */
static bool
names_tag(const char *s, int len, int i)
{
	static const char *const names[] = {"userinput", "document"};
	const char *name = NULL;
	int			k = 0;
	int			hex = 0;

	while (i < len)
	{
		uint32		c = mw_fold_char(next_char(s, len, &i));

		if (name == NULL && (c == 'u' || c == 'd'))
		{
			name = names[c == 'd'];
			k = 1;
		}
		else if (name && name[k] && c == (uint32) name[k])
			k++;
		else if (name == names[1] && !name[k] && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
		{
			if (++hex >= NONCE_HALF)
				return true;
		}
		else if (c <= ' ' || c == 0x7f || c == '_' || c == '-' || c == '/' || c == '\\' ||
				 c == 0x2215 || c == 0x2044 || c == 0x29f8)
			continue;			/* nothing, or what may stand between */
		else
			return false;
		if (name == names[0] && !name[k])
			return true;
	}
	return false;
}

/* ---------- documents ---------- */

static void
put_hex(char *to, const uint8 *b)
{
	static const char digits[] = "0123456789abcdef";
	int			i;

	for (i = 0; i < NONCE_HALF; i++)
	{
		to[2 * i] = digits[b[i] >> 4];
		to[2 * i + 1] = digits[b[i] & 15];
	}
}

/* The half of a nonce that proves the other */
static void
prove(const char *half, char *proof)
{
	MwHash		h;
	MwKey		key;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "document tag");
	mw_hash_part(&h, half, NONCE_HALF * 2);
	key = mw_hash_end(&h);
	put_hex(proof, key.b);
}

static bool
is_nonce(const char *s)
{
	char		proof[NONCE_HALF * 2];
	int			i;

	for (i = 0; i < NONCE_HEX; i++)
		if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	prove(s, proof);
	return memcmp(s + NONCE_HALF * 2, proof, sizeof(proof)) == 0;
}

/* Whether a tag of a document that mw made stands at s[i], opening or closing */
static bool
own_tag(const char *s, int len, int i)
{
	if (s[i++] != '<')
		return false;
	if (i < len && s[i] == '/')
		i++;
	return i + (int) strlen(DOCUMENT) + NONCE_HEX < len && memcmp(s + i, DOCUMENT, strlen(DOCUMENT)) == 0 &&
		is_nonce(s + i + strlen(DOCUMENT));
}

/* mw_document_next finds the next document: where its tag begins, and its text. */
bool
mw_document_next(const char *s, int len, int *at, int *begin, int *from, int *to)
{
	const char *open = "<" DOCUMENT;
	const char *p = s + *at;

	while (s + len - p >= (int) strlen(open) + NONCE_HEX && (p = memchr(p, '<', s + len - p)) != NULL)
	{
		const char *name;
		const char *end;
		char		close[64];

		if (s + len - p < (int) strlen(open) + NONCE_HEX || memcmp(p, open, strlen(open)) != 0 || !own_tag(s, len, p - s))
		{
			p++;
			continue;
		}
		name = p + 1;
		end = memchr(name, '\n', s + len - name);
		snprintf(close, sizeof(close), "\n</%.*s>", (int) strlen(DOCUMENT) + NONCE_HEX, name);
		if (end == NULL)
			return false;
		*begin = p - s;
		*from = end + 1 - s;
		/* an empty text's closing tag shares the line break of the opening one */
		p = memmem(end, s + len - end, close, strlen(close));
		if (p == NULL)
			return false;
		*to = Max(*from, (int) (p - s));
		*at = p + strlen(close) - s;
		return true;
	}
	return false;
}

/* Less-than signs, and what looks like one */
static bool
is_bracket(uint32 c)
{
	switch (c)
	{
		case '<':
		case 0x00ab:			/* quotation marks */
		case 0x2039:
		case 0x276e:
		case 0x02c2:			/* letters that are drawn like it */
		case 0x1438:
		case 0x16b2:
		case 0x226a:			/* much less */
		case 0x2a9d:
		case 0x2329:			/* angle brackets */
		case 0x276c:
		case 0x2770:
		case 0x27e8:
		case 0x27ea:
		case 0x29fc:
		case 0x3008:
		case 0x300a:
		case 0xfe3d:
		case 0xfe3f:
		case 0xfe64:
		case 0xff1c:
			return true;
	}
	return false;
}

/* Whether an opening bracket stands at s[i], and how long it is. */
static int
bracket(const char *s, int len, int i)
{
	int			end = i;

	if (s[i] == '<')
		return 1;
	return is_bracket(next_char(s, len, &end)) ? end - i : 0;
}

/* Append a text with its look-alikes of tags neutralised; "documents": those that mw made are left. */
static void
append_data(StringInfo buf, const char *s, int len, bool documents)
{
	int			done = 0;
	int			at;

	for (at = 0; at < len; at += MW_BLOCK)
	{
		MwBlock		blk;
		uint64		mask;

		/* bytes that a bracket of any kind can begin with */
		mw_block_load(&blk, s + at, len - at);
		if (!mw_block_any_high_or(&blk, '<', '&'))
			continue;
		mask = mw_block_either(&blk, '<', '&');
		if (mw_block_high(&blk))
			mask |= mw_block_range(&blk, 0xc2, 0xc2) | mw_block_range(&blk, 0xcb, 0xcb) |
				mw_block_range(&blk, 0xe1, 0xe3) | mw_block_range(&blk, 0xef, 0xef);
		while (mask)
		{
			int			i = at + pg_rightmost_one_pos64(mask);
			int			n;

			mask &= mask - 1;
			n = i < done ? 0 : bracket(s, len, i);
			if (n == 0 || !names_tag(s, len, i + n) || (documents && own_tag(s, len, i)))
				continue;
			appendBinaryStringInfo(buf, s + done, i - done);
			if (s[i] == '&')
			{
				appendStringInfoString(buf, "&amp;");
				done = i + 1;
			}
			else
			{
				appendStringInfoString(buf, "&lt;");
				done = i + n;
			}
		}
	}
	appendBinaryStringInfo(buf, s + done, len - done);
}

/* Exactly what is needed where nothing inside has to change */
static void
begin_wrapped(StringInfo buf, Size room)
{
	buf->maxlen = room;
	if (!AllocSizeIsValid(room))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("text is too large")));
	buf->data = palloc(room);
	buf->data[0] = '\0';
	buf->len = 0;
	buf->cursor = 0;
}

/* mw_guard_wrap wraps a user's text. */
char *
mw_guard_wrap(const char *s, int len, int *newlen)
{
	StringInfoData buf;

	begin_wrapped(&buf, (Size) len + sizeof(OPEN_TAG) + sizeof(CLOSE_TAG));
	appendBinaryStringInfo(&buf, OPEN_TAG, sizeof(OPEN_TAG) - 1);
	append_data(&buf, s, len, true);
	appendBinaryStringInfo(&buf, CLOSE_TAG, sizeof(CLOSE_TAG) - 1);
	*newlen = buf.len;
	return buf.data;
}

/*
 * mw_guard_unwrap leaves out what a model has repeated of the tags that
 * mw_guard_wrap writes, with the line breaks that belong to them; s itself
 * where there are none.  Any other spelling is the model's own text.
 */
char *
mw_guard_unwrap(char *s, int len, int *newlen)
{
	static const struct
	{
		const char *tag;
		int			len;
	}			tags[] = {
		{OPEN_TAG, sizeof(OPEN_TAG) - 1}, {OPEN_TAG, sizeof(OPEN_TAG) - 2},
		{CLOSE_TAG, sizeof(CLOSE_TAG) - 1}, {CLOSE_TAG + 1, sizeof(CLOSE_TAG) - 2}
	};
	char	   *out = NULL;
	int			n = 0;
	int			i = 0;

	while (i < len)
	{
		int			tag = 0;

		if (s[i] == '<' || s[i] == '\n')
			for (size_t k = 0; k < lengthof(tags) && tag == 0; k++)
				if (len - i >= tags[k].len && memcmp(s + i, tags[k].tag, tags[k].len) == 0)
					tag = tags[k].len;
		if (tag > 0 && out == NULL)
		{
			out = MemoryContextAllocHuge(CurrentMemoryContext, (Size) len + 1);
			memcpy(out, s, i);
			n = i;
		}
		if (tag > 0)
			i += tag;
		else if (out != NULL)
			out[n++] = s[i++];
		else
			i++;
	}
	if (out == NULL)
	{
		*newlen = len;
		return s;
	}
	out[n] = '\0';
	*newlen = n;
	return out;
}

/* mw_document_wrap wraps a retrieved text. */
char *
mw_document_wrap(const char *s, int len, const char *source, int *newlen)
{
	StringInfoData buf;
	MwHash		h;
	MwKey		key;
	char		nonce[NONCE_HEX + 1];
	const char *p;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "document");
	mw_hash_text(&h, source);
	mw_hash_part(&h, s, len);
	key = mw_hash_end(&h);
	put_hex(nonce, key.b);
	prove(nonce, nonce + NONCE_HALF * 2);
	nonce[NONCE_HEX] = '\0';

	begin_wrapped(&buf, (Size) len + 2 * (sizeof(DOCUMENT) + NONCE_HEX) + MAX_SOURCE + 64);
	appendStringInfo(&buf, "<" DOCUMENT "%s", nonce);
	if (source && source[0])
	{
		int			n = pg_mbcliplen(source, strlen(source), MAX_SOURCE);

		appendStringInfoString(&buf, " source=\"");
		for (p = source; p < source + n; p++)
			if (*p == '"' || *p == '<' || *p == '>' || *p == '&')
				appendStringInfo(&buf, "&#%d;", *p);
			else
				appendStringInfoChar(&buf, (unsigned char) *p < 0x20 || *p == 0x7f ? ' ' : *p);
		appendStringInfoChar(&buf, '"');
	}
	appendStringInfoString(&buf, ">\n");
	append_data(&buf, s, len, false);
	appendStringInfo(&buf, "\n</" DOCUMENT "%s>", nonce);
	*newlen = buf.len;
	return buf.data;
}
