/*
 * inbox_html.c - the inbox for people: a page of what waits, and one of a single
 * interrupt.
 *
 * Both are read as the caller, from the views that SQL has, so a page shows
 * nobody more than psql would.  The list shortens long arguments and so has no
 * buttons; what is decided is decided where all of it stands.  Where the
 * application says where links and forms go (form), the page has them; else the
 * statement to type.  Decisions that are given are shown beside what was asked
 * for before they are recorded: what an edit changes is seen, not guessed.
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
#include "agent/html.h"
#include "agent/thread.h"
#include "policy/admin.h"
#include "util/json.h"
#include "util/spi.h"

#define LIST_ARGS		600		/* bytes of arguments that the list shows */
#define SAID			1500	/* ... and of a message that an interrupt's page does */
#define SAID_MESSAGES	6

typedef struct InboxPage
{
	StringInfoData out;
	const char *tenant;
	const char *action;			/* where links and forms go; NULL: nowhere */
	Jsonb	   *fields;			/* hidden ones of each form; NULL */
	const char *notice;			/* NULL: none */
	const char *comment;		/* what was typed as a note so far; NULL: nothing */
} InboxPage;

/* A row of a result */
typedef struct Row
{
	HeapTuple	tuple;
	TupleDesc	desc;
} Row;

static Row
row_at(uint64 n)
{
	return (Row) {SPI_tuptable->vals[n], SPI_tuptable->tupdesc};
}

/* NULL for NULL */
static char *
text_at(Row row, const char *column)
{
	return SPI_getvalue(row.tuple, row.desc, SPI_fnumber(row.desc, column));
}

static Datum
datum_at(Row row, const char *column, bool *isnull)
{
	return SPI_getbinval(row.tuple, row.desc, SPI_fnumber(row.desc, column), isnull);
}

static Jsonb *
jsonb_at(Row row, const char *column)
{
	bool		isnull;
	Datum		d = datum_at(row, column, &isnull);

	return isnull ? NULL : DatumGetJsonbP(d);
}

static bool
true_at(Row row, const char *column)
{
	bool		isnull;

	return DatumGetBool(datum_at(row, column, &isnull)) && !isnull;
}

static int
int_at(Row row, const char *column)
{
	bool		isnull;

	return DatumGetInt32(datum_at(row, column, &isnull));
}

/* ---------- pieces ---------- */

/* The first so many bytes, whole characters, and a word about the rest */
static char *
shortened(char *s, int limit)
{
	int			len = strlen(s);

	if (len <= limit)
		return s;
	return psprintf("%s …\n(%d bytes in all)", pnstrdup(s, pg_mbcliplen(s, len, limit)), len);
}

/* Readable JSON of a value */
static char *
pretty(JsonbValue *v)
{
	Jsonb	   *jb;

	if (v == NULL)
		return pstrdup("");
	jb = JsonbValueToJsonb(v);
	return JsonbToCStringIndent(NULL, &jb->root, VARSIZE(jb));
}

static void
link_to(InboxPage *page, const char *query, const char *value, const char *text)
{
	if (page->action != NULL)
		mw_html(&page->out, "<a href=\"%s?%s=%s\">%s</a>", page->action, query, value, text);
	else
		mw_html(&page->out, "%s", text);
}

static void
begin_page(InboxPage *page, const char *title)
{
	mw_html_begin(&page->out, title);
	mw_html(&page->out, "<header><h1>%s</h1>\n<p class=\"soft\">Tenant <strong>%s</strong>, seen by <strong>%s</strong></p>\n", title, page->tenant,
			GetUserNameFromId(GetUserId(), false));
	if (page->notice != NULL)
		mw_html(&page->out, "<p class=\"alert\" role=\"alert\">%s</p>\n", page->notice);
	mw_html(&page->out, "</header>\n<main>\n");
}

static void
end_page(InboxPage *page)
{
	mw_html(&page->out, "</main>\n<footer><p class=\"note\">What looks like <code>&lt;EMAIL_0&gt;</code> stands for personal data. "
			"Characters that cannot be seen are shown as their number, <code>\\u202e</code>.</p></footer>\n");
	mw_html_end(&page->out);
}

/* Who asked for it, where and until when */
static void
facts(InboxPage *page, Row row)
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

#define FACTS \
	" i.interrupt_id, i.session, i.agent, i.tool, i.requested_by::text AS requested_by, i.approvals, i.on_expiry," \
	" to_char(i.requested_at, 'YYYY-MM-DD HH24:MI TZ') AS requested, to_char(i.expires_at, 'YYYY-MM-DD HH24:MI TZ') AS expires," \
	" to_char(i.claimed_until, 'HH24:MI TZ') AS claimed,"

/* ---------- the list ---------- */

static void
list_item(InboxPage *page, Row row, int calls)
{
	char	   *id = text_at(row, "interrupt_id");
	Jsonb	   *args = jsonb_at(row, "args");

	mw_html(&page->out, "<li class=\"card\" id=\"%s\"><h2>", id);
	link_to(page, "interrupt_id", id, text_at(row, "tool"));
	if (calls > 1)
		mw_html(&page->out, " <span class=\"tag\">and %d more in one decision</span>", calls - 1);
	mw_html(&page->out, "</h2>\n<pre>%s</pre>\n", shortened(mw_json_canonical(args), LIST_ARGS));
	facts(page, row);
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
		"SELECT" FACTS " i.claimed_by::text AS claimed_by, i.approved, i.requested_at, lag(i.interrupt_id) OVER calls IS DISTINCT FROM i.interrupt_id AS first,"
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
list(InboxPage *page, int size, const char *before)
{
	Datum		values[4] = {CStringGetTextDatum(page->tenant)};
	bool		more = find_before(page->tenant, before, values);
	bool		older = false;
	int			shown = 0;
	int			rows = size + 1;
	char	   *last = NULL;
	bool		isnull;

	begin_page(page, "Waiting for approval");
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
		link_to(page, "before", last, "Older");
	else if (older)
		mw_html(&page->out, "<p class=\"note\">There are older ones: <code>before =&gt; &#39;%s&#39;</code></p>", last);
	mw_html(&page->out, "</nav>\n");
	end_page(page);
}

/* ---------- one interrupt: its calls ---------- */

/* What beside another type is called so changes nothing, and so is not shown as if it did */
static Jsonb *
edited_action(Jsonb *decision)
{
	char	   *type = decision != NULL && mw_json_is_object(decision) ? mw_json_get_text(decision, "type") : NULL;

	return type != NULL && strcmp(type, "edit") == 0 ?
		mw_json_get_jsonb(decision, mw_json_get(decision, "editedAction") != NULL ? "editedAction" : "edited_action") : NULL;
}

/* What a decision puts in the place of the arguments; NULL: nothing */
static Jsonb *
edited_args(Jsonb *decision)
{
	Jsonb	   *action = edited_action(decision);

	return action != NULL && mw_json_is_object(action) ? mw_json_get_jsonb(action, "args") : NULL;
}

/* An edit of a batch may name another tool */
static void
other_tool(InboxPage *page, const char *tool, Jsonb *decision)
{
	Jsonb	   *action = edited_action(decision);
	char	   *name = action != NULL && mw_json_is_object(action) ? mw_json_get_text(action, "name") : NULL;

	if (name != NULL && strcmp(name, tool) != 0)
		mw_html(&page->out, "<p class=\"alert\">Another tool runs in its place: <strong>%s</strong></p>\n", name);
}

static void
arg_row(InboxPage *page, const char *name, JsonbValue *asked, bool edits, JsonbValue *edited)
{
	char	   *was = pretty(asked);
	char	   *becomes = pretty(edited);
	const char *change = asked == NULL ? "added" : edited == NULL ? "left out" : strcmp(was, becomes) != 0 ? "changed" : NULL;

	if (!edits)
	{
		mw_html(&page->out, "<tr><th scope=\"row\">%s</th><td><pre>%s</pre></td></tr>\n", name, was);
		return;
	}
	mw_html(&page->out, change != NULL ? "<tr class=\"changed\"><th scope=\"row\">%s <b>%s</b></th>" : "<tr><th scope=\"row\">%s%s</th>", name, change != NULL ? change : "");
	mw_html(&page->out, asked != NULL ? "<td><pre>%s</pre></td>" : "<td>%s</td>", was);
	mw_html(&page->out, edited != NULL ? "<td><pre>%s</pre></td></tr>\n" : "<td>%s</td></tr>\n", becomes);
}

static void
args_table(InboxPage *page, Jsonb *args, Jsonb *edited)
{
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	key;
	JsonbValue	value;

	if (!mw_json_is_object(args) || (edited != NULL && !mw_json_is_object(edited)))
	{
		mw_html(&page->out, "<pre>%s</pre>\n", mw_json_canonical(edited != NULL ? edited : args));
		return;
	}
	if (JB_ROOT_COUNT(args) == 0 && edited == NULL)
	{
		mw_html(&page->out, "<p>It takes no arguments here.</p>\n");
		return;
	}
	mw_html(&page->out, "<table><caption>Arguments</caption><thead><tr><th scope=\"col\">Argument</th><th scope=\"col\">As asked for</th>");
	if (edited != NULL)
		mw_html(&page->out, "<th scope=\"col\">As edited</th>");
	mw_html(&page->out, "</tr></thead><tbody>\n");
	it = JsonbIteratorInit(&args->root);
	while ((tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		char	   *name;

		if (tok != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &value, true);
		name = pnstrdup(key.val.string.val, key.val.string.len);
		arg_row(page, name, &value, edited != NULL, edited != NULL ? mw_json_get(edited, name) : NULL);
	}
	it = edited != NULL ? JsonbIteratorInit(&edited->root) : NULL;
	while (it != NULL && (tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		char	   *name;

		if (tok != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &value, true);
		name = pnstrdup(key.val.string.val, key.val.string.len);
		if (mw_json_get(args, name) == NULL)
			arg_row(page, name, NULL, true, &value);
	}
	mw_html(&page->out, "</tbody></table>\n");
}

/* The description, without what the page says itself */
static char *
said_besides(Row row)
{
	char	   *description = text_at(row, "description");
	char	   *tail = psprintf("\n\nTool: %s\nArgs: %s", text_at(row, "tool"), mw_json_canonical(jsonb_at(row, "args")));
	int			len = strlen(description) - strlen(tail);

	if (len >= 0 && strcmp(description + len, tail) == 0)
		description[len] = '\0';
	return description;
}

static const struct
{
	const char *type;
	const char *title;
	const char *past;
	const char *means;
	const char *asks;			/* label of its text; NULL: none */
	const char *field;
}			kinds[] = {
	{"approve", "Approve", "Approved", "It runs once, with the arguments above.", NULL, NULL},
	{"edit", "Edit", "Edited", "It runs once, with these arguments in the place of those above. The tool stays what it is, and the conversation keeps the call that the model made. "
	"What changes is shown before it is recorded.", "Arguments, as JSON", "args"},
	{"reject", "Reject", "Rejected", "It does not run. The model reads the reason.", "Reason (may be empty)", "reason"},
	{"respond", "Answer instead", "Answered", "It does not run. The model reads this as its result.", "Answer", "answer"},
};

/* by NULL: one that is about to be recorded */
static void
verdict(InboxPage *page, Jsonb *decision, const char *by, const char *at, const char *comment)
{
	char	   *type = mw_json_get_text(decision, "type");
	char	   *message = mw_json_get_text(decision, "message");
	const char *title = type != NULL ? type : "nothing";

	for (int i = 0; i < lengthof(kinds); i++)
		if (strcmp(kinds[i].type, title) == 0)
			title = by != NULL ? kinds[i].past : kinds[i].title;
	if (by != NULL)
		mw_html(&page->out, "<p><strong>%s</strong> by %s, %s</p>\n", title, by, at);
	else
		mw_html(&page->out, "<p>About to be recorded: <strong>%s</strong></p>\n", title);
	if (message != NULL)
		mw_html(&page->out, "<pre class=\"scroll\">%s</pre>\n", message);
	if (comment != NULL)
		mw_html(&page->out, "<p>Note: %s</p>\n", comment);
}

/* Those who have decided, and what; returns the last decision, NULL where there is none */
static Jsonb *
verdicts(InboxPage *page, Jsonb *decisions)
{
	Jsonb	   *last = NULL;

	for (int i = 0; i < JB_ROOT_COUNT(decisions); i++)
	{
		Jsonb	   *one = JsonbValueToJsonb(getIthJsonbValueFromContainer(&decisions->root, i));
		char	   *at = mw_json_get_text(one, "at");

		last = mw_json_get_jsonb(one, "decision");
		if (last != NULL)
			verdict(page, last, mw_json_get_text(one, "by"), at != NULL ? at : "", mw_json_get_text(one, "comment"));
	}
	return last;
}

/* ---------- one interrupt: deciding ---------- */

static void
choice(InboxPage *page, int n, bool alone, const char *type, Jsonb *args)
{
	JsonbValue	all = {.type = jbvBinary, .val.binary = {.len = VARSIZE(args) - VARHDRSZ, .data = &args->root}};
	const char *text = strcmp(type, "edit") == 0 ? pretty(&all) : "";
	int			lines = 1 + (text[0] == '\0');	/* of the text, or two to write in */

	for (const char *p = text; (p = strchr(p, '\n')) != NULL && lines < 24; p++)
		lines++;
	for (int i = 0; i < lengthof(kinds); i++)
	{
		if (strcmp(kinds[i].type, type) != 0)
			continue;
		mw_html(&page->out, "<fieldset class=\"of-%s\"><legend>%s</legend><p class=\"note\">%s</p>", type, kinds[i].title, kinds[i].means);
		if (!alone)
			mw_html(&page->out, "<label><input type=\"radio\" name=\"type_%d\" value=\"%s\" required> %s</label>", n, type, kinds[i].title);
		if (kinds[i].asks != NULL)
		{
			mw_html(&page->out, "<label for=\"%s_%d\">%s</label>", kinds[i].field, n, kinds[i].asks);
			mw_html(&page->out, "<textarea id=\"%s_%d\" name=\"%s_%d\" rows=\"%d\" spellcheck=\"false\">%s</textarea>", kinds[i].field, n, kinds[i].field, n, lines, text);
		}
		if (alone)
			mw_html(&page->out, "<button class=\"%s\" name=\"type_%d\" value=\"%s\">%s</button>", type, n, type,
					strcmp(type, "edit") == 0 ? "See what changes" : kinds[i].title);
		mw_html(&page->out, "</fieldset>\n");
	}
}

static bool
is_open(Row row)
{
	return strcmp(text_at(row, "status"), "open") == 0;
}

static void
begin_form(InboxPage *page, const char *interrupt_id)
{
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	key;
	JsonbValue	value;

	mw_html(&page->out, "<form method=\"post\" action=\"%s\" autocomplete=\"off\">\n<input type=\"hidden\" name=\"interrupt_id\" value=\"%s\">", page->action, interrupt_id);
	if (page->fields == NULL)
		return;
	it = JsonbIteratorInit(&page->fields->root);
	while ((tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		if (tok != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &value, true);
		if (value.type == jbvString)
			mw_html(&page->out, "<input type=\"hidden\" name=\"%s\" value=\"%s\">", pnstrdup(key.val.string.val, key.val.string.len),
					pnstrdup(value.val.string.val, value.val.string.len));
	}
}

static void
note(InboxPage *page)
{
	mw_html(&page->out, "<label for=\"comment\">Note for the record (may be empty; the model does not read it)</label>"
			"<textarea id=\"comment\" name=\"comment\" rows=\"2\">%s</textarea>\n", page->comment != NULL ? page->comment : "");
}

/* The decisions that were looked at, to be recorded as they are */
static void
confirm(InboxPage *page, const char *interrupt_id, Jsonb *decisions)
{
	mw_html(&page->out, "<section class=\"card\"><h2>Your decision</h2>\n");
	begin_form(page, interrupt_id);
	mw_html(&page->out, "<input type=\"hidden\" name=\"decisions\" value=\"%s\">\n", mw_json_canonical(decisions));
	note(page);
	mw_html(&page->out, "<button class=\"main\">Record this decision</button> ");
	link_to(page, "interrupt_id", interrupt_id, "Back");
	mw_html(&page->out, "\n</form></section>\n");
}

/* waiting: of the n calls, those that are still open */
static void
decide(InboxPage *page, const char *interrupt_id, uint64 n, int waiting)
{
	bool		alone = waiting == 1;
	int			place = 0;		/* among those */

	mw_html(&page->out, "<section class=\"card\"><h2>Your decision</h2>\n");
	begin_form(page, interrupt_id);
	for (uint64 i = 0; i < n; i++)
	{
		Row			row = row_at(i);
		bool		isnull;
		List	   *allowed = mw_text_list(datum_at(row, "allowed_decisions", &isnull));
		ListCell   *lc;

		if (!is_open(row))
			continue;
		if (n > 1)
			mw_html(&page->out, "<h3>%d of %d: %s</h3>", (int) i + 1, (int) n, text_at(row, "tool"));
		mw_html(&page->out, "<div class=\"choices\">\n");
		foreach(lc, allowed)
			choice(page, place, alone, lfirst(lc), jsonb_at(row, "args"));
		place++;
		mw_html(&page->out, "</div>\n");
	}
	note(page);
	if (!alone)
		mw_html(&page->out, "<button class=\"main\">Decide</button>\n");
	mw_html(&page->out, "</form></section>\n");
}

/* Without a form: what to type */
static void
decide_in_sql(InboxPage *page, const char *session, const char *interrupt_id, int n)
{
	StringInfoData list_of;

	initStringInfo(&list_of);
	for (int i = 0; i < n; i++)
		appendStringInfo(&list_of, "%s{\"type\": \"approve\"}", i > 0 ? ", " : "");
	mw_html(&page->out, "<section class=\"card\"><h2>To decide</h2>\n<pre>SELECT * FROM mw_decide(%s, %s, &#39;{\"decisions\": [%s]}&#39;, interrupt_id =&gt; &#39;%s&#39;);</pre>\n"
			"<p class=\"note\">approve, reject, respond and edit, as far as they are allowed: <code>\\df+ mw_decide</code></p></section>\n",
			quote_literal_cstr(page->tenant), quote_literal_cstr(session), list_of.data, interrupt_id);
}

/* ---------- one interrupt ---------- */

/* The end of its conversation, where the caller may read it */
static void
conversation(InboxPage *page, const char *session)
{
	static MwStmt stmt = {
		"SELECT m.role, m.content FROM mw.message AS m WHERE m.tenant = $1 AND m.session = $2 AND m.role <> 'system' ORDER BY m.position DESC",
		2, {TEXTOID, TEXTOID}
	};
	Datum		values[2] = {CStringGetTextDatum(page->tenant), CStringGetTextDatum(session)};
	uint64		n = mw_spi_read(&stmt, MW_AS_CALLER, values, NULL, SAID_MESSAGES);
	bool		any = false;

	mw_html(&page->out, "<section class=\"card\"><h2>Conversation %s</h2>\n", session);
	for (uint64 i = n; i-- > 0;)
	{
		Jsonb	   *content = jsonb_at(row_at(i), "content");
		JsonbValue	v;
		char	   *text;

		if (content == NULL)
			continue;
		if (JB_ROOT_IS_SCALAR(content))
			v = *getIthJsonbValueFromContainer(&content->root, 0);
		else
		{
			v.type = jbvBinary;
			v.val.binary.data = &content->root;
			v.val.binary.len = VARSIZE(content) - VARHDRSZ;
		}
		text = mw_json_content_text(&v);
		if (text == NULL || text[0] == '\0')
			continue;
		any = true;
		mw_html(&page->out, "<h3>%s</h3><pre class=\"say scroll\">%s</pre>\n", text_at(row_at(i), "role"), shortened(text, SAID));
	}
	mw_html(&page->out, "%s</section>\n", any ? "" : "What was said in it is shown to roles that may act for the tenant.");
}

static const char *
state_of(Row row)
{
	char	   *status = text_at(row, "status");
	char	   *outcome = text_at(row, "outcome");

	if (outcome != NULL)
		return strcmp(outcome, "ran") == 0 ? "decided, and it has run" : strcmp(outcome, "failed") == 0 ? "decided; it ran and failed" : psprintf("%s; it has not run", status);
	return strcmp(status, "decided") == 0 ? "decided; its run has not come back yet" : status;
}

static void
one(InboxPage *page, const char *interrupt_id, Jsonb *decisions)
{
	static MwStmt stmt = {
		"SELECT" FACTS " i.allowed_decisions, i.decisions, i.outcome, jsonb_array_length(i.decisions) AS approved,"
		" CASE WHEN i.claimed_until > clock_timestamp() THEN i.claimed_by::text END AS claimed_by,"
		" CASE WHEN i.status = 'open' AND i.expires_at <= clock_timestamp() THEN 'expired' ELSE i.status END AS status,"
		/* what waits for the caller is as the inbox shows it to this role */
		" coalesce(w.args, i.args) AS args, coalesce(w.description, i.description) AS description, w.tenant IS NOT NULL AS mine"
		" FROM mw.interrupt AS i LEFT JOIN mw.inbox AS w ON w.tenant = i.tenant AND w.interrupt_id = i.interrupt_id AND w.place = i.place"
		" WHERE i.tenant = $1 AND i.interrupt_id = $2 ORDER BY i.place",
		2, {TEXTOID, TEXTOID}
	};
	Datum		values[2] = {CStringGetTextDatum(page->tenant), CStringGetTextDatum(interrupt_id)};
	uint64		n = mw_spi_read(&stmt, MW_AS_CALLER, values, NULL, 0);
	SPITupleTable *calls = SPI_tuptable;
	JsonbValue *preview = decisions != NULL ? mw_json_get(decisions, "decisions") : NULL;
	int			waiting = 0;	/* of them, and which of those the next is */
	int			place = 0;
	bool		mine = true;	/* they can be decided all at once, or not at all */

	begin_page(page, n == 1 ? psprintf("May %s run?", text_at(row_at(0), "tool")) : n > 1 ? psprintf("May these %d calls run?", (int) n) : "No such interrupt");
	if (n == 0)
		mw_html(&page->out, "<p class=\"card\">There is none of that id that you may see.</p>\n");
	for (uint64 i = 0; i < n; i++)
	{
		Row			row = row_at(i);
		Jsonb	   *decision = NULL;
		char	   *besides = said_besides(row);

		if (is_open(row))
		{
			waiting++;
			mine &= true_at(row, "mine");
		}
		mw_html(&page->out, "<section class=\"card\"><h2>");
		if (n > 1)
			mw_html(&page->out, "%d of %d: ", (int) i + 1, (int) n);
		mw_html(&page->out, "%s <span class=\"tag\">%s</span></h2>\n", text_at(row, "tool"), state_of(row));
		if (besides[0] != '\0')
			mw_html(&page->out, "<pre class=\"say scroll\">%s</pre>\n", besides);
		if (preview != NULL && preview->type == jbvBinary && JsonContainerIsArray(preview->val.binary.data))
		{
			JsonbValue *v = is_open(row) ? getIthJsonbValueFromContainer(preview->val.binary.data, place++) : NULL;

			decision = v != NULL && v->type == jbvBinary ? JsonbValueToJsonb(v) : NULL;
		}
		else
			decision = verdicts(page, jsonb_at(row, "decisions"));
		other_tool(page, text_at(row, "tool"), decision);
		args_table(page, jsonb_at(row, "args"), edited_args(decision));
		if (preview != NULL && decision != NULL && mw_json_is_object(decision))
			verdict(page, decision, NULL, NULL, NULL);
		if (i == 0)
			facts(page, row);
		mw_html(&page->out, "</section>\n");
	}
	if (waiting > 0 && !mine)
		mw_html(&page->out, "<p class=\"card\">It waits for somebody else&#39;s decision.</p>\n");
	else if (waiting > 0 && preview != NULL && page->action != NULL)
		confirm(page, interrupt_id, decisions);
	else if (waiting > 0 && page->action != NULL)
		decide(page, interrupt_id, n, waiting);
	else if (waiting > 0)
		decide_in_sql(page, text_at(row_at(0), "session"), interrupt_id, waiting);
	if (n > 0)
		conversation(page, text_at((Row) {calls->vals[0], calls->tupdesc}, "session"));
	if (page->action != NULL)
		mw_html(&page->out, "<nav aria-label=\"Pages\"><a href=\"%s\">All that waits</a></nav>\n", page->action);
	end_page(page);
}

/* ---------- the function ---------- */

static void
read_form(InboxPage *page, Jsonb *form)
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
	InboxPage		page = {.tenant = mw_arg_text(fcinfo, 0, "tenant")};

	read_form(&page, PG_ARGISNULL(5) ? NULL : PG_GETARG_JSONB_P(5));
	if (decisions != NULL && !mw_json_is_object(decisions))
		decisions = NULL;
	initStringInfo(&page.out);
	SPI_connect();
	if (interrupt_id != NULL)
		one(&page, interrupt_id, decisions);
	else
		list(&page, size, before);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(page.out.data, page.out.len));
}
