/*
 * wrap.c - the user's text as data between tags that it cannot close.
 *
 * Whatever reads like <user_input> or </user_input> inside (other case, blanks,
 * invisible characters, full-width or look-alike letters, entities) loses its
 * bracket: '<' becomes &lt; and the & of an entity &amp;.  All else stays as it
 * was given.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "stage/guardrail.h"
#include "stage/normalise.h"
#include "util/scan.h"

#define OPEN_TAG	"<user_input>\n"
#define CLOSE_TAG	"\n</user_input>"
/* how far behind a bracket its name is looked for */
#define MW_TAG_REACH 256

/* The character at s[*i], decoded from an entity where it is one; moves on. */
static uint32
next_char(const char *s, int len, int *i)
{
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
	return n == 1 ? *p : utf8_to_unicode(p);
}

/* Whether user_input, however written, follows at s[i]. */
static bool
names_tag(const char *s, int len, int i)
{
	static const char name[] = "userinput";
	int			stop = Min(len, i + MW_TAG_REACH);
	int			k = 0;

	while (i < stop && name[k])
	{
		uint32		c = mw_fold_char(next_char(s, len, &i));

		if (c == (uint32) name[k])
			k++;
		else if (c == 0 || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '_' || c == '-' ||
				 c == '/' || c == '\\' || c == 0x2215 || c == 0x2044)
			continue;			/* nothing, or what may stand between */
		else
			return false;
	}
	return name[k] == '\0';
}

/* Whether an opening bracket stands at s[i], and how long it is. */
static int
bracket(const char *s, int len, int i)
{
	if (s[i] == '<')
		return 1;
	if (s[i] == '&')
	{
		static const char *const forms[] = {"&lt;", "&#60;", "&#x3c;", "&#060;", "&#x03c;", "&#60", "&#x3c", "&lt", NULL};
		int			k;

		for (k = 0; forms[k]; k++)
		{
			int			n = strlen(forms[k]);

			if (i + n <= len && pg_strncasecmp(s + i, forms[k], n) == 0)
				return n;
		}
		return 0;
	}
	if (i + 3 <= len)
	{
		/* full-width, small, and angle quotation marks */
		if (memcmp(s + i, "\xef\xbc\x9c", 3) == 0 || memcmp(s + i, "\xef\xb9\xa4", 3) == 0 ||
			memcmp(s + i, "\xe2\x80\xb9", 3) == 0 || memcmp(s + i, "\xe3\x80\x88", 3) == 0 ||
			memcmp(s + i, "\xe2\x9f\xa8", 3) == 0)
			return 3;
	}
	return 0;
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
			mask |= mw_block_range(&blk, 0xe2, 0xe3) | mw_block_range(&blk, 0xef, 0xef);
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
