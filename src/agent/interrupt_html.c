/*
 * interrupt_html.c - one interrupt for people, and what they can decide of it.
 *
 * Decisions that are given are shown beside what was asked for before they are
 * recorded: what an edit changes is seen, not guessed.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "agent/approval.h"
#include "agent/inbox_html.h"
#include "util/json.h"
#include "util/spi.h"

#define SAID			1500	/* bytes of a message that are shown */
#define SAID_MESSAGES	6

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

/* ---------- its calls ---------- */

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
other_tool(MwInboxPage *page, const char *tool, Jsonb *decision)
{
	Jsonb	   *action = edited_action(decision);
	char	   *name = action != NULL && mw_json_is_object(action) ? mw_json_get_text(action, "name") : NULL;

	if (name != NULL && strcmp(name, tool) != 0)
		mw_html(&page->out, "<p class=\"alert\">Another tool runs in its place: <strong>%s</strong></p>\n", name);
}

static void
arg_row(MwInboxPage *page, const char *name, JsonbValue *asked, bool edits, JsonbValue *edited)
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
args_table(MwInboxPage *page, Jsonb *args, Jsonb *edited)
{
	MwJsonEach	each;

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
	each = mw_json_each(&args->root);
	while (mw_json_next(&each))
	{
		char	   *name = mw_value_string(&each.key);

		arg_row(page, name, &each.value, edited != NULL, edited != NULL ? mw_json_get(edited, name) : NULL);
	}
	if (edited != NULL)
		each = mw_json_each(&edited->root);
	while (edited != NULL && mw_json_next(&each))
	{
		char	   *name = mw_value_string(&each.key);

		if (mw_json_get(args, name) == NULL)
			arg_row(page, name, NULL, true, &each.value);
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
verdict(MwInboxPage *page, Jsonb *decision, const char *by, const char *at, const char *comment)
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
verdicts(MwInboxPage *page, Jsonb *decisions)
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

/* ---------- deciding ---------- */

static void
choice(MwInboxPage *page, int n, bool alone, const char *type, Jsonb *args)
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
begin_form(MwInboxPage *page, const char *interrupt_id)
{
	MwJsonEach	each;

	mw_html(&page->out, "<form method=\"post\" action=\"%s\" autocomplete=\"off\">\n<input type=\"hidden\" name=\"interrupt_id\" value=\"%s\">", page->action, interrupt_id);
	if (page->fields == NULL)
		return;
	each = mw_json_each(&page->fields->root);
	while (mw_json_next(&each))
		if (each.value.type == jbvString)
			mw_html(&page->out, "<input type=\"hidden\" name=\"%s\" value=\"%s\">", mw_value_string(&each.key), mw_value_string(&each.value));
}

static void
note(MwInboxPage *page)
{
	mw_html(&page->out, "<label for=\"comment\">Note for the record (may be empty; the model does not read it)</label>"
			"<textarea id=\"comment\" name=\"comment\" rows=\"2\">%s</textarea>\n", page->comment != NULL ? page->comment : "");
}

/* The decisions that were looked at, to be recorded as they are */
static void
confirm(MwInboxPage *page, const char *interrupt_id, Jsonb *decisions)
{
	mw_html(&page->out, "<section class=\"card\"><h2>Your decision</h2>\n");
	begin_form(page, interrupt_id);
	mw_html(&page->out, "<input type=\"hidden\" name=\"decisions\" value=\"%s\">\n", mw_json_canonical(decisions));
	note(page);
	mw_html(&page->out, "<button class=\"main\">Record this decision</button> ");
	mw_page_link(page, "interrupt_id", interrupt_id, "Back");
	mw_html(&page->out, "\n</form></section>\n");
}

/* waiting: of the n calls, those that are still open */
static void
decide(MwInboxPage *page, const char *interrupt_id, uint64 n, int waiting)
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
decide_in_sql(MwInboxPage *page, const char *session, const char *interrupt_id, int n)
{
	StringInfoData list_of;

	initStringInfo(&list_of);
	for (int i = 0; i < n; i++)
		appendStringInfo(&list_of, "%s{\"type\": \"approve\"}", i > 0 ? ", " : "");
	mw_html(&page->out, "<section class=\"card\"><h2>To decide</h2>\n<pre>SELECT * FROM mw_decide(%s, %s, &#39;{\"decisions\": [%s]}&#39;, interrupt_id =&gt; &#39;%s&#39;);</pre>\n"
			"<p class=\"note\">approve, reject, respond and edit, as far as they are allowed: <code>\\df+ mw_decide</code></p></section>\n",
			quote_literal_cstr(page->tenant), quote_literal_cstr(session), list_of.data, interrupt_id);
}

/* ---------- all of it ---------- */

/* The end of its conversation, where the caller may read it */
static void
conversation(MwInboxPage *page, const char *session)
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
		v = mw_json_value(content);
		text = mw_json_content_text(&v);
		if (text == NULL || text[0] == '\0')
			continue;
		any = true;
		mw_html(&page->out, "<h3>%s</h3><pre class=\"say scroll\">%s</pre>\n", text_at(row_at(i), "role"), mw_page_shortened(text, SAID));
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

void
mw_page_interrupt(MwInboxPage *page, const char *interrupt_id, Jsonb *decisions)
{
	static MwStmt stmt = {
		"SELECT" MW_PAGE_FACTS " i.allowed_decisions, i.decisions, i.outcome, jsonb_array_length(i.decisions) AS approved,"
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

	mw_page_begin(page, n == 1 ? psprintf("May %s run?", text_at(row_at(0), "tool")) : n > 1 ? psprintf("May these %d calls run?", (int) n) : "No such interrupt");
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
		if (mw_value_is_array(preview))
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
			mw_page_facts(page, row);
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
	mw_page_end(page);
}
