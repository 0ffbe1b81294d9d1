/*
 * html.c - pages of HTML, in which no text of anybody's is markup.
 *
 * A page is written with one function, whose format is ours and whose arguments
 * are strangers': a model's arguments, a user's session, what a reviewer typed.
 * The format is copied, each argument is escaped, and there is no third way.
 * That alone would do; the page forbids itself scripts, images and other
 * addresses besides, so that a mistake here would still run nothing.
 *
 * What is shown is what there is: a character that cannot be seen, or that turns
 * the direction of its neighbours, would let arguments read otherwise than they
 * run.  It stands as its number.
 */
#include "mw.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "agent/html.h"

static const char page_style[] =
"*{box-sizing:border-box}"
":root{color-scheme:light dark;--bg:#f5f6f8;--card:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--code:#f2f4f6;--accent:#0b5cad;--on:#fff;"
"--ok:#1a6b34;--bad:#b3261e;--mark:#fff3c4}"
"@media(prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1d2127;--ink:#e6e9ed;--soft:#9ba5b0;--line:#3a424c;--code:#15181d;--accent:#6cb2ff;"
"--on:#10151b;--ok:#6fd08c;--bad:#ff8a80;--mark:#4a3d10}}"
"body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif}"
"body>*{max-width:54rem;margin:0 auto;padding:0 1.25rem}"
"header{padding-top:1.75rem}h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:0 0 .25rem;overflow-wrap:anywhere}"
"h3{font-size:1rem;margin:1.25rem 0 .4rem}p{margin:.4rem 0}a{color:var(--accent)}"
".soft,dt,.note{color:var(--soft)}.note{font-size:.9rem}"
"main{padding-top:.75rem}footer{padding-top:1rem;padding-bottom:2.5rem}"
"ol{list-style:none;margin:0;padding:0}"
".card{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1rem 1.25rem 1.1rem;margin:0 0 1rem}"
"pre,code,textarea{font:.875rem/1.45 ui-monospace,'DejaVu Sans Mono',monospace}"
"pre{background:var(--code);border-radius:.35rem;padding:.5rem .7rem;margin:.4rem 0;white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext}"
".scroll{max-height:20rem;overflow:auto}.say{border-left:3px solid var(--line);border-radius:0}"
"dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.5rem 0}dd{margin:0;overflow-wrap:anywhere}"
"table{border-collapse:collapse;width:100%;table-layout:fixed}caption{text-align:left;font-weight:600;padding:.5rem 0 .3rem}"
"th,td{text-align:left;vertical-align:top;border-top:1px solid var(--line);padding:.35rem .6rem .35rem 0;overflow-wrap:anywhere;font-weight:normal}"
"thead th{color:var(--soft);border:0}th:first-child{width:26%}td pre{margin:0}tbody th{padding-top:.8rem}"
".changed pre{background:var(--mark)}.changed th b{display:block;font-size:.8rem;color:var(--bad)}"
".tag{display:inline-block;border:1px solid currentColor;border-radius:1rem;padding:0 .6rem;font-size:.85rem;vertical-align:middle}"
".alert{border:1px solid var(--line);border-left:4px solid var(--accent);background:var(--card);border-radius:.4rem;padding:.7rem 1rem;white-space:pre-line}"
".choices{display:grid;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr));gap:.9rem;margin:.6rem 0;align-items:start}"
".of-approve,.of-edit{grid-column:1/-1}"
"fieldset{border:1px solid var(--line);border-radius:.5rem;padding:.6rem .9rem .9rem;margin:0;min-width:0}legend{font-weight:600;padding:0 .35rem}"
"label{display:block;margin:.4rem 0 .2rem}textarea{display:block;width:100%;padding:.45rem .6rem;border:1px solid var(--soft);border-radius:.35rem;background:var(--card);"
"color:inherit;resize:vertical}"
"button,.button{font:inherit;font-weight:600;cursor:pointer;border:1px solid var(--accent);border-radius:.4rem;padding:.45rem 1rem;background:var(--card);color:var(--accent);margin-top:.6rem}.button{display:inline-block;text-decoration:none;margin-top:.2rem}"
"button.approve,button.main{background:var(--accent);color:var(--on)}button.reject{border-color:var(--bad);color:var(--bad)}"
":focus-visible{outline:3px solid var(--accent);outline-offset:2px}nav{margin:1rem 0}";

/* Not seen, or of no width, or turning what stands around it; emoji's selectors (FE0E, FE0F) do no harm */
static bool
is_hidden(pg_wchar c)
{
	if (c < 0x7f)
		return c < 0x20 && c != '\n' && c != '\t';
	return c <= 0x9f || c == 0xad || c == 0x34f || c == 0x61c || c == 0x115f || c == 0x1160 || c == 0x17b4 || c == 0x17b5 ||
		(c >= 0x180b && c <= 0x180f) || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
		(c >= 0x2060 && c <= 0x206f) || c == 0x3164 || (c >= 0xfe00 && c <= 0xfe0d) || c == 0xfeff || c == 0xffa0 ||
		(c >= 0xfff0 && c <= 0xfffb) || (c >= 0x1bca0 && c <= 0x1bca3) || (c >= 0x1d173 && c <= 0x1d17a) || (c >= 0xe0000 && c <= 0xe0fff);
}

static void
append_number(StringInfo out, pg_wchar c)
{
	if (c < 0x10000)
		appendStringInfo(out, "\\u%04x", c);
	else
		appendStringInfo(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
}

static const char *
entity_of(char c)
{
	switch (c)
	{
		case '&':
			return "&amp;";
		case '<':
			return "&lt;";
		case '>':
			return "&gt;";
		case '"':
			return "&quot;";
		case '\'':
			return "&#39;";
		default:
			return NULL;
	}
}

/*
 * What the client's encoding may not have stands as a reference: else one
 * character in somebody's arguments would keep the whole page from being sent.
 */
static bool
client_has_all(void)
{
	int			encoding = pg_get_client_encoding();

	return encoding == PG_UTF8 || encoding == PG_SQL_ASCII;	/* the latter is sent as it is */
}

static void
append_text(StringInfo out, const char *s, int len, bool escape)
{
	int			done = 0;		/* bytes that are in out */
	bool		refer = escape && !client_has_all();

	for (int i = 0; i < len;)
	{
		int			n = IS_HIGHBIT_SET(s[i]) ? Min(pg_utf_mblen((const unsigned char *) s + i), len - i) : 1;
		pg_wchar	c = n == 1 ? (unsigned char) s[i] : utf8_to_unicode((const unsigned char *) s + i);
		const char *entity = escape && n == 1 ? entity_of(s[i]) : NULL;

		if (entity != NULL || is_hidden(c) || (refer && n > 1))
		{
			appendBinaryStringInfo(out, s + done, i - done);
			if (entity != NULL)
				appendStringInfoString(out, entity);
			else if (is_hidden(c))
				append_number(out, c);
			else
				appendStringInfo(out, "&#%u;", c);
			done = i + n;
		}
		i += n;
	}
	appendBinaryStringInfo(out, s + done, len - done);
}

void
mw_html(StringInfo page, const char *format, ...)
{
	va_list		args;

	va_start(args, format);
	while (*format != '\0')
	{
		size_t		plain = strcspn(format, "%");

		appendBinaryStringInfo(page, format, plain);
		format += plain;
		if (*format == '\0')
			break;
		if (format[1] == 's')
		{
			const char *s = va_arg(args, const char *);

			append_text(page, s, strlen(s), true);
		}
		else if (format[1] == 'd')
			appendStringInfo(page, "%d", va_arg(args, int));
		else
			elog(ERROR, "mw_html() knows no %%%c", format[1]);
		format += 2;
	}
	va_end(args);
}

void
mw_html_begin(StringInfo page, const char *title)
{
	mw_html(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
			"<meta name=\"referrer\" content=\"no-referrer\">\n"
			"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'\">\n"
			"<title>%s</title>\n<style>", title);
	appendStringInfoString(page, page_style);	/* has a % of its own */
	mw_html(page, "</style>\n</head>\n<body>\n");
}

void
mw_html_end(StringInfo page)
{
	mw_html(page, "</body>\n</html>\n");
}

/* (input) */
PG_FUNCTION_INFO_V1(mw_visible_sql);

Datum
mw_visible_sql(PG_FUNCTION_ARGS)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	StringInfoData out;

	initStringInfo(&out);
	append_text(&out, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input), false);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
