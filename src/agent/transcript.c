/*
 * transcript.c - a thread as a summariser reads it.
 *
 * The form is LangChain's: one <message type="..."> element for each message,
 * with the calls of an assistant's as <tool_call> elements in it.  What would
 * close or open an element is escaped, so that no text can pass for a message.
 * Of parts that are no text what can be said in few words stays; bytes of files
 * are left out.
 */
#include "mw.h"

#include "mb/pg_wchar.h"

#include "agent/context.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/json_push.h"

#define DOCUMENT_CHARS	500		/* of a document in a message */
#define ID_CHARS		64		/* of a call's id */

/* ---------- the last that fit ---------- */

/* The message with as many of its last lines as fit into so many tokens; NULL where not even one does */
static MwMsg *
last_lines(MwRun *run, const MwMsg *msg, int64 tokens, const char *counter)
{
	int			len = strlen(msg->text);
	int		   *starts = palloc(sizeof(int) * (len + 1));
	int			nstarts = 0;
	int			low = 0;
	int			high;
	MwMsg	   *best = NULL;

	for (int i = 0; i < len; i++)
		if (i == 0 || msg->text[i - 1] == '\n')
			starts[nstarts++] = i;
	high = nstarts;
	while (low < high)
	{
		int			mid = (low + high) / 2;
		MwMsg	   *some = mw_msg_with_text(run, msg, msg->text + starts[mid]);

		if (mw_count_by(run, counter, list_make1(some)) <= tokens)
		{
			best = some;
			high = mid;
		}
		else
			low = mid + 1;
	}
	pfree(starts);
	return best;
}

List *
mw_trim_to_last(MwRun *run, List *msgs, int64 tokens, const char *counter)
{
	MwMsg	   *system = NULL;
	MwMsg	   *part = NULL;
	int			first = 0;
	int			from = list_length(msgs);
	List	   *kept = NIL;

	if (msgs != NIL && mw_msg_is(linitial(msgs), "system"))
	{
		system = linitial(msgs);
		tokens = Max(0, tokens - mw_count_by(run, counter, list_make1(system)));
		first = 1;
	}
	while (from > first)
	{
		MwMsg	   *msg = list_nth(msgs, from - 1);
		int64		count = mw_count_by(run, counter, list_make1(msg));

		if (count > tokens)
		{
			part = last_lines(run, msg, tokens, counter);
			break;
		}
		tokens -= count;
		from--;
	}

	if (part != NULL)
		kept = lappend(kept, part);
	for (int i = from; i < list_length(msgs); i++)
		kept = lappend(kept, list_nth(msgs, i));
	/* an answer or a result whose question is cut off says little, and its call may be gone */
	from = 0;
	while (from < list_length(kept) && !mw_msg_is(list_nth(kept, from), "user"))
		from++;
	kept = list_copy_tail(kept, from);
	return system != NULL ? lcons(system, kept) : kept;
}

/* ---------- elements ---------- */

/*
 * Text of an element, or in quotes that of an attribute.  A placeholder stays as
 * it is: it closes nothing, and has to be the same in the summary.
 */
static void
escaped(StringInfo buf, const char *s, int len, bool quotes)
{
	for (int i = 0; i < len; i++)
	{
		int			type_len;
		int			number;
		int			placeholder = s[i] == '<' ? mw_placeholder_read(s + i, len - i, &type_len, &number) : 0;

		if (placeholder > 0)
		{
			appendBinaryStringInfo(buf, s + i, placeholder);
			i += placeholder - 1;
			continue;
		}
		switch (s[i])
		{
			case '&':
				appendStringInfoString(buf, "&amp;");
				break;
			case '<':
				appendStringInfoString(buf, "&lt;");
				break;
			case '>':
				appendStringInfoString(buf, "&gt;");
				break;
			case '"':
				appendStringInfoString(buf, quotes ? "&quot;" : "\"");
				break;
			case '\n':
			case '\r':
			case '\t':
				if (quotes)
					appendStringInfo(buf, "&#%d;", s[i]);
				else
					appendStringInfoChar(buf, s[i]);
				break;
			default:
				appendStringInfoChar(buf, s[i]);
		}
	}
}

static void
attribute(StringInfo buf, const char *name, const char *value)
{
	appendStringInfo(buf, " %s=\"", name);
	escaped(buf, value, strlen(value), true);
	appendStringInfoChar(buf, '"');
}

/* The URL of a part, wherever its spelling keeps it; NULL for none, or where the bytes themselves stand in it */
static const char *
url_of(Jsonb *part, const char *type)
{
	char	   *url = mw_json_get_text(part, "url");

	if (url == NULL)
	{
		JsonbValue *v = mw_json_get(part, type);

		if (mw_value_is_object(v))
			url = mw_json_get_text(JsonbValueToJsonb(v), "url");
	}
	return url == NULL || url[0] == '\0' || strncmp(url, "data:", 5) == 0 ? NULL : url;
}

/* One part of a content, after a blank where something stands before it */
static void
part_element(StringInfo buf, JsonbValue *v, bool *any)
{
	static const char *const files[][2] = {
		{"image", "image"}, {"image_url", "image"}, {"audio", "audio"}, {"video", "video"},
	};
	const char *blank = *any ? " " : "";
	Jsonb	   *part;
	char	   *type;
	char	   *text;

	if (!mw_value_is_object(v))
		return;
	part = JsonbValueToJsonb(v);
	type = mw_json_get_text(part, "type");
	if (type == NULL)
		return;
	for (int i = 0; i < lengthof(files); i++)
	{
		const char *url;
		const char *id;

		if (strcmp(type, files[i][0]) != 0)
			continue;
		url = url_of(part, type);
		id = mw_json_get_text(part, "file_id");
		if (url == NULL && id == NULL)
			return;
		appendStringInfo(buf, "%s<%s", blank, files[i][1]);
		attribute(buf, url != NULL ? "url" : "file_id", url != NULL ? url : id);
		appendStringInfoString(buf, " />");
		*any = true;
		return;
	}
	text = mw_json_get_text(part, strcmp(type, "reasoning") == 0 ? "reasoning" : "text");
	if (text == NULL || text[0] == '\0')
		return;
	if (strcmp(type, "text") == 0)
	{
		appendStringInfoString(buf, blank);
		escaped(buf, text, strlen(text), false);
	}
	else if (strcmp(type, "reasoning") == 0)
	{
		appendStringInfo(buf, "%s<reasoning>", blank);
		escaped(buf, text, strlen(text), false);
		appendStringInfoString(buf, "</reasoning>");
	}
	else if (strcmp(type, "text-plain") == 0)
	{
		int			len = pg_mbcharcliplen(text, strlen(text), DOCUMENT_CHARS);

		appendStringInfoString(buf, blank);
		escaped(buf, text, len, false);
		if (text[len] != '\0')
			appendStringInfoString(buf, "...");
	}
	else
		return;
	*any = true;
}

static void
content_of(StringInfo buf, const MwMsg *msg)
{
	JsonbValue *content = mw_json_get(msg->json, "content");
	bool		any = false;

	if (mw_value_is_array(content))
	{
		for (uint32 i = 0; i < JsonContainerSize(content->val.binary.data); i++)
			part_element(buf, getIthJsonbValueFromContainer(content->val.binary.data, i), &any);
	}
	else
		escaped(buf, msg->text, strlen(msg->text), false);
}

static void
call_element(StringInfo buf, const MwToolCall *call)
{
	int			len = pg_mbcharcliplen(call->id, strlen(call->id), ID_CHARS);
	char	   *args = mw_json_canonical(call->args);

	appendStringInfoString(buf, "  <tool_call");
	attribute(buf, "id", call->id[len] == '\0' ? call->id : psprintf("%.*s...", len, call->id));
	attribute(buf, "name", call->name);
	appendStringInfoChar(buf, '>');
	escaped(buf, args, strlen(args), false);
	appendStringInfoString(buf, "</tool_call>\n");
	pfree(args);
}

char *
mw_transcript(List *msgs)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, msgs)
	{
		const MwMsg *msg = lfirst(lc);
		const char *type = mw_msg_is(msg, "user") ? "human" : mw_msg_is(msg, "assistant") ? "ai" : msg->role;

		if (foreach_current_index(lc) > 0)
			appendStringInfoChar(&buf, '\n');
		appendStringInfo(&buf, "<message type=\"%s\">", type);
		if (msg->ncalls == 0)
			content_of(&buf, msg);
		else
		{
			int			before;

			appendStringInfoString(&buf, "\n  <content>");
			before = buf.len;
			content_of(&buf, msg);
			if (buf.len > before)
				appendStringInfoString(&buf, "</content>\n");
			else
				buf.data[buf.len -= strlen("  <content>")] = '\0';
			for (int i = 0; i < msg->ncalls; i++)
				call_element(&buf, &msg->calls[i]);
		}
		appendStringInfoString(&buf, "</message>");
	}
	return buf.data;
}
