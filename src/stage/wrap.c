/*
 * wrap.c - the user's text as data between tags that it cannot close.
 *
 * Whatever reads like <user_input> or </user_input> inside (other case, blanks,
 * invisible characters, full-width or look-alike letters, entities) loses its
 * bracket: '<' becomes &lt; and the & of an entity &amp;.  All else stays as it
 * was given.
 */
#include "postgres.h"

#include <ctype.h>

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "stage/guardrail.h"
#include "stage/normalise.h"
#include "util/scan.h"

#define OPEN_TAG	"<user_input>\n"
#define CLOSE_TAG	"\n</user_input>"

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
 * Whether user_input, however written, follows at s[i].  What may stand between
 * its letters is skipped without a limit, and is never a bracket: so however
 * many brackets a text has, each of its bytes is looked at a few times at most.
 */
static bool
names_tag(const char *s, int len, int i)
{
	static const char name[] = "userinput";
	int			k = 0;

	while (i < len && name[k])
	{
		uint32		c = mw_fold_char(next_char(s, len, &i));

		if (c == (uint32) name[k])
			k++;
		else if (c <= ' ' || c == 0x7f || c == '_' || c == '-' || c == '/' || c == '\\' ||
				 c == 0x2215 || c == 0x2044 || c == 0x29f8)
			continue;			/* nothing, or what may stand between */
		else
			return false;
	}
	return name[k] == '\0';
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

/* mw_guard_wrap wraps a text. */
char *
mw_guard_wrap(const char *s, int len, int *newlen)
{
	StringInfoData buf;
	int			done = 0;
	int			at;

	/* exactly what is needed where nothing inside has to change */
	buf.maxlen = len + sizeof(OPEN_TAG) + sizeof(CLOSE_TAG);
	if (!AllocSizeIsValid(buf.maxlen))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("text is too large")));
	buf.data = palloc(buf.maxlen);
	buf.len = 0;
	buf.cursor = 0;
	appendBinaryStringInfo(&buf, OPEN_TAG, sizeof(OPEN_TAG) - 1);
	for (at = 0; at < len; at += MW_BLOCK)
	{
		MwBlock		blk;
		uint64		mask;

		/* bytes that a bracket of any kind can begin with */
		mw_block_load(&blk, s + at, len - at);
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
			if (n == 0 || !names_tag(s, len, i + n))
				continue;
			appendBinaryStringInfo(&buf, s + done, i - done);
			if (s[i] == '&')
			{
				appendStringInfoString(&buf, "&amp;");
				done = i + 1;
			}
			else
			{
				appendStringInfoString(&buf, "&lt;");
				done = i + n;
			}
		}
	}
	appendBinaryStringInfo(&buf, s + done, len - done);
	appendBinaryStringInfo(&buf, CLOSE_TAG, sizeof(CLOSE_TAG) - 1);
	*newlen = buf.len;
	return buf.data;
}
