/*
 * inbox_html.c - the inbox for people: pages of what waits.
 *
 * They are read as the caller, from the views that SQL has, so a page shows
 * nobody more than psql would.  The list shortens long arguments and so has no
 * buttons; what is decided is decided where all of it stands, on the page of one
 * interrupt (interrupt_html.c).  Where the application says where links and forms
 * go (form), the pages have them; else the statement to type.
 *
 * Pages of the list are found by index from the last interrupt of the page
 * before, so their time does not grow with what waits.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "agent/approval.h"
#include "agent/inbox_html.h"
#include "policy/admin.h"
#include "util/json.h"
#include "util/spi.h"

#define LIST_ARGS		600		/* bytes of arguments that the list shows */

/* ---------- pieces ---------- */

/* The first so many bytes, whole characters, and a word about the rest */
char *
mw_page_shortened(char *s, int limit)
{
	int			len = strlen(s);

	if (len <= limit)
		return s;
	return psprintf("%s …\n(%d bytes in all)", pnstrdup(s, pg_mbcliplen(s, len, limit)), len);
}

void
mw_page_link(MwInboxPage *page, const char *query, const char *value, const char *text)
{
	if (page->action != NULL)
		mw_html(&page->out, "<a href=\"%s?%s=%s\">%s</a>", page->action, query, value, text);
	else
		mw_html(&page->out, "%s", text);
}

void
mw_page_begin(MwInboxPage *page, const char *title)
{
	mw_html_begin(&page->out, title);
	mw_html(&page->out, "<header><h1>%s</h1>\n<p class=\"soft\">Tenant <strong>%s</strong>, seen by <strong>%s</strong></p>\n", title, page->tenant,
			GetUserNameFromId(GetUserId(), false));
	if (page->notice != NULL)
		mw_html(&page->out, "<p class=\"alert\" role=\"alert\">%s</p>\n", page->notice);
	mw_html(&page->out, "</header>\n<main>\n");
}

void
mw_page_end(MwInboxPage *page)
{
	mw_html(&page->out, "</main>\n<footer><p class=\"note\">What looks like <code>&lt;EMAIL_0&gt;</code> stands for personal data. "
			"Characters that cannot be seen are shown as their number, <code>\\u202e</code>.</p></footer>\n");
	mw_html_end(&page->out);
}

/* Who asked for it, where and until when */
void
mw_page_facts(MwInboxPage *page, Row row)
{
	char	   *agent = text_at(row, "agent");
	char	   *expires = text_at(row, "expires");
	char	   *claimed = text_at(row, "claimed_by");
	int			approvals = int_at(row, "approvals");

	mw_html(&page->out, "<dl><dt>Conversation</dt><dd>%s</dd>", text_at(row, "session"));
	if (agent != NULL)
		mw_html(&page->out, "<dt>Agent</dt><dd>%s</dd>", agent);
	mw_html(&page->out, "<dt>Asked for by</dt><dd>%s, %s</dd>", text_at(row, "requested_by"), text_at(row, "requested"));
	if (expires != NULL)
		mw_html(&page->out, "<dt>Decide until</dt><dd>%s; after that %s</dd>", expires,
				strcmp(text_at(row, "on_expiry"), "end") == 0 ? "the run ends" : "it counts as rejected");
	if (approvals > 1)
		mw_html(&page->out, "<dt>Approvals</dt><dd>%d of %d</dd>", int_at(row, "approved"), approvals);
	if (claimed != NULL)
		mw_html(&page->out, "<dt>Being looked at by</dt><dd>%s, until %s</dd>", claimed, text_at(row, "claimed"));
	mw_html(&page->out, "</dl>\n");
}

/* ---------- the list ---------- */

static void
list_item(MwInboxPage *page, Row row, int calls)
{
	char	   *id = text_at(row, "interrupt_id");
	Jsonb	   *args = jsonb_at(row, "args");

	mw_html(&page->out, "<li class=\"card\" id=\"%s\"><h2>", id);
	mw_page_link(page, "interrupt_id", id, text_at(row, "tool"));
	if (calls > 1)
		mw_html(&page->out, " <span class=\"tag\">and %d more in one decision</span>", calls - 1);
	mw_html(&page->out, "</h2>\n<pre>%s</pre>\n", mw_page_shortened(mw_json_canonical(args), LIST_ARGS));
	mw_page_facts(page, row);
	if (page->action != NULL)
		mw_html(&page->out, "<p><a class=\"button\" href=\"%s?interrupt_id=%s\">Look at it and decide</a></p>", page->action, id);
	else
		mw_html(&page->out, "<p class=\"note\">Interrupt <code>%s</code></p>", id);
	mw_html(&page->out, "</li>\n");
}

/* Where the page before ended: (requested_at, interrupt_id); beyond all where there is none */
static bool
find_before(const char *tenant, const char *before, Datum *values)
{
	static MwStmt stmt = {
		"SELECT i.requested_at FROM mw.interrupt AS i WHERE i.tenant OPERATOR(pg_catalog.=) $1 AND i.interrupt_id OPERATOR(pg_catalog.=) $2 LIMIT 1",
		2, {TEXTOID, TEXTOID}
	};
	bool		isnull;

	values[1] = TimestampTzGetDatum(DT_NOEND);
	values[2] = CStringGetTextDatum(before != NULL ? before : "");
	if (before == NULL)
		return true;
	if (mw_spi_read(&stmt, MW_AS_CALLER, (Datum[]) {values[0], values[2]}, NULL, 1) == 0)
		return false;
	values[1] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	return true;
}

/* A stretch of what waits, a row a call: those of an interrupt, all of which were asked for at one moment, follow each other */
static uint64
read_calls(Datum *values, int interrupts, int rows)
{
	/*
	 * One walk along the index of the inbox.  Nothing is looked up by row, which would go down the whole index each
	 * time.  Arguments are read of what is shown alone: to read them may be a look that is put down.
	 */
	static MwStmt stmt = {
		"SELECT" MW_PAGE_FACTS " i.claimed_by::text AS claimed_by, i.approved, i.requested_at, lag(i.interrupt_id) OVER calls IS DISTINCT FROM i.interrupt_id AS first,"
		" CASE WHEN lag(i.interrupt_id) OVER calls IS DISTINCT FROM i.interrupt_id AND dense_rank() OVER interrupts <= $4 THEN i.args END AS args"
		" FROM mw.inbox AS i WHERE i.tenant = $1 AND (i.requested_at, i.interrupt_id) < ($2, $3)"
		" WINDOW calls AS (ORDER BY i.requested_at DESC, i.interrupt_id DESC, i.place), interrupts AS (ORDER BY i.requested_at DESC, i.interrupt_id DESC)"
		" ORDER BY i.requested_at DESC, i.interrupt_id DESC, i.place",
		4, {TEXTOID, TIMESTAMPTZOID, TEXTOID, INT4OID}
	};

	values[3] = Int32GetDatum(interrupts);
	return mw_spi_read(&stmt, MW_AS_CALLER, values, NULL, rows);
}

static void
list(MwInboxPage *page, int size, const char *before)
{
	Datum		values[4] = {CStringGetTextDatum(page->tenant)};
	bool		more = find_before(page->tenant, before, values);
	bool		older = false;
	int			shown = 0;
	int			rows = size + 1;
	char	   *last = NULL;
	bool		isnull;

	mw_page_begin(page, "Waiting for approval");
	while (more && !older)
	{
		uint64		n = read_calls(values, size - shown, rows);
		int			before_these = shown;
		Row			first = {0};
		int			calls = 0;

		more = n == rows;
		/* an interrupt is whole where another follows, or nothing */
		for (uint64 i = 0; i < n + (more ? 0 : 1) && !older; i++)
		{
			if (i < n && !true_at(row_at(i), "first"))
			{
				calls++;
				continue;
			}
			if (calls > 0)
			{
				if (shown++ == 0)
					mw_html(&page->out, "<ol>\n");
				list_item(page, first, calls);
				last = text_at(first, "interrupt_id");
				values[1] = datum_at(first, "requested_at", &isnull);
				values[2] = CStringGetTextDatum(last);
			}
			older = shown == size && i < n;
			if (i < n)
				first = row_at(i);
			calls = 1;
		}
		if (shown == before_these)
			rows *= 2;			/* an interrupt of more calls than that */
	}
	if (shown == 0)
		mw_html(&page->out, "<p class=\"card\">%s</p>\n", before == NULL ? "Nothing waits for you." : "Nothing older waits for you.");
	else
		mw_html(&page->out, "</ol>\n");
	mw_html(&page->out, "<nav aria-label=\"Pages\">");
	if (before != NULL && page->action != NULL)
		mw_html(&page->out, "<a href=\"%s\">Newest</a> ", page->action);
	if (older && page->action != NULL)
		mw_page_link(page, "before", last, "Older");
	else if (older)
		mw_html(&page->out, "<p class=\"note\">There are older ones: <code>before =&gt; &#39;%s&#39;</code></p>", last);
	mw_html(&page->out, "</nav>\n");
	mw_page_end(page);
}

/* ---------- the function ---------- */

static void
read_form(MwInboxPage *page, Jsonb *form)
{
	static const char *const keys[] = {"action", "comment", "fields", "notice", NULL};
	JsonbValue *action;

	if (form == NULL)
		return;
	if (!mw_json_is_object(form))
		ereport(ERROR, (errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("argument \"form\" must be an object"),
						errhint("{\"action\": where links and forms go, \"fields\": {hidden fields of forms}, \"notice\": a text on top, \"comment\": the note so far}")));
	mw_json_check_keys(form, "key", "argument \"form\"", keys);
	action = mw_json_get(form, "action");
	page->action = mw_json_get_text(form, "action");
	if (action == NULL || page->action == NULL || page->action[0] == '\0')
		ereport(ERROR, (errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("\"action\" of argument \"form\" must be a text"),
						errhint("The path of your page, such as \"/inbox\": ?interrupt_id= and ?before= are appended, and decisions posted there.")));
	page->notice = mw_json_get_text(form, "notice");
	page->comment = mw_json_get_text(form, "comment");
	page->fields = mw_json_get_jsonb(form, "fields");
	if (page->fields != NULL && !mw_json_is_object(page->fields))
		ereport(ERROR, (errcode(ERRCODE_MW_BAD_ARGUMENT), errmsg("\"fields\" of argument \"form\" must be an object of texts")));
}

/* (tenant, page_size, before, interrupt_id, decisions, form) */
PG_FUNCTION_INFO_V1(mw_inbox_html);

Datum
mw_inbox_html(PG_FUNCTION_ARGS)
{
	int			size = PG_ARGISNULL(1) ? 50 : Min(Max(PG_GETARG_INT32(1), 1), 500);
	char	   *before = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	char	   *interrupt_id = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	Jsonb	   *decisions = PG_ARGISNULL(4) ? NULL : PG_GETARG_JSONB_P(4);
	MwInboxPage page = {.tenant = mw_arg_text(fcinfo, 0, "tenant")};

	read_form(&page, PG_ARGISNULL(5) ? NULL : PG_GETARG_JSONB_P(5));
	if (decisions != NULL && !mw_json_is_object(decisions))
		decisions = NULL;
	initStringInfo(&page.out);
	SPI_connect();
	if (interrupt_id != NULL)
		mw_page_interrupt(&page, interrupt_id, decisions);
	else
		list(&page, size, before);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(page.out.data, page.out.len));
}
