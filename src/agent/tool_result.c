/*
 * tool_result.c - what a tool returns, until a model may see it.
 *
 * A value becomes a text as it arrives: a text itself, JSON, the text of a number
 * or a date, JSON of a row or an array, and of a set an array of rows.  It is
 * cut to the tool's limits, with a word about it, rather than refused: a model
 * can ask for less, and most often the first rows are enough.  Then personal data
 * is replaced by placeholders of the run, in JSON leaf by leaf, and what is left
 * is judged as a tool's text.
 *
 * JSON that is a list of content parts (texts, images) is that for the model too,
 * as it is in LangChain and in MCP, from where such tools come.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "agent/tool.h"
#include "guc.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/json_push.h"

/* What is read of a text beyond what is shown of it, so that no value is cut in two before it is redacted */
#define MARGIN	4096

/* ---------- a result, as it arrives ---------- */


/* A value as to_jsonb() spells it, but for one named column, which keeps its name */
static Jsonb *
value_jsonb(MwToolReturn *r, Datum value, bool isnull)
{
	Jsonb	   *jb = NULL;
	JsonbValue	null = {.type = jbvNull};
	JsonbParseState *st = NULL;

	if (!isnull)
		jb = DatumGetJsonbP(FunctionCall1Coll(&r->to_jsonb, InvalidOid, value));
	if (r->f->column == NULL)
		return jb ? jb : JsonbValueToJsonb(&null);
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, r->f->column);
	if (jb)
		mw_push_jsonb(&st, WJB_VALUE, jb);
	else
		pushJsonbValue(&st, WJB_VALUE, &null);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* {"content": …, "update": {…}} and nothing else: a result, and a change of the state */
static bool
take_update(MwToolReturn *r, Jsonb *jb)
{
	JsonbValue *content;
	JsonbValue *update;
	MemoryContext old;

	if (!mw_json_is_object(jb))
		return false;
	content = mw_json_get(jb, "content");
	update = mw_json_get(jb, "update");
	if (!mw_value_is_object(update) ||
		JB_ROOT_COUNT(jb) != (content ? 2 : 1))
		return false;
	old = MemoryContextSwitchTo(r->cxt);
	r->update = mw_json_value_jsonb(update);
	r->json = content && content->type != jbvString && content->type != jbvNull;
	if (r->json)
		appendStringInfoString(&r->text, mw_json_canonical(mw_json_value_jsonb(content)));
	else if (content && content->type == jbvString)
		appendBinaryStringInfo(&r->text, content->val.string.val, content->val.string.len);
	MemoryContextSwitchTo(old);
	return true;
}

/* What is not a set: text as it is, JSON as JSON, numbers and dates as their text, rows and arrays as JSON */
static void
take_one(MwToolReturn *r, Datum value)
{
	Oid			type = getBaseType(r->f->result);
	Oid			out;
	bool		varlena;
	char	   *s;

	getTypeOutputInfo(type, &out, &varlena);
	if (type == JSONBOID || type == JSONOID)
	{
		Jsonb	   *jb;

		s = OidOutputFunctionCall(out, value);
		jb = type == JSONBOID ? DatumGetJsonbP(value) : mw_json_parse(s, strlen(s), NULL);
		if (jb && take_update(r, jb))
			return;
		r->json = jb != NULL;
	}
	else if (get_typtype(type) == TYPTYPE_COMPOSITE || type == RECORDOID || OidIsValid(get_element_type(type)))
	{
		s = mw_json_canonical(value_jsonb(r, value, false));
		r->json = true;
	}
	else
		s = OidOutputFunctionCall(out, value);
	appendStringInfoString(&r->text, s);
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	MwToolReturn *r = (MwToolReturn *) self;
	MemoryContext old;
	bool		isnull;
	Datum		value = slot_getattr(slot, 1, &isnull);
	char	   *s;

	if (r->f->returns_set && r->rows >= r->tool->max_rows)
	{
		r->more = true;
		return false;
	}
	MemoryContextReset(r->row_cxt);
	old = MemoryContextSwitchTo(r->row_cxt);
	if (!r->f->returns_set)
	{
		if (!isnull && r->f->result != VOIDOID)
			take_one(r, value);
	}
	else
	{
		s = mw_json_canonical(value_jsonb(r, value, isnull));
		/* whole rows, but for the first one, which is cut like a text */
		if (r->rows > 0 && r->text.len + (int64) strlen(s) + 3 > r->tool->max_bytes)
			r->more = true;
		else
			appendStringInfo(&r->text, "%s%s", r->rows++ > 0 ? ", " : "", s);
	}
	MemoryContextSwitchTo(old);
	return !r->more;
}

static void
startup(DestReceiver *self, int operation, TupleDesc desc)
{
}

static void
nothing(DestReceiver *self)
{
}

MwToolReturn *
mw_tool_return(const MwTool *tool, const MwToolFunction *f)
{
	MwToolReturn *r = palloc0(sizeof(MwToolReturn));

	r->pub.receiveSlot = receive;
	r->pub.rStartup = startup;
	r->pub.rShutdown = nothing;
	r->pub.rDestroy = nothing;
	r->pub.mydest = DestNone;
	r->tool = tool;
	r->f = f;
	r->cxt = CurrentMemoryContext;
	r->row_cxt = AllocSetContextCreate(CurrentMemoryContext, "mw tool row", ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&r->text);
	fmgr_info(F_TO_JSONB, &r->to_jsonb);
	fmgr_info_set_expr((Node *) makeFuncExpr(F_TO_JSONB, JSONBOID, list_make1(makeNullConst(f->result, -1, InvalidOid)),
											 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL), &r->to_jsonb);
	return r;
}

/* ---------- what comes back ---------- */

static bool
redacts(const MwRun *run)
{
	return run->base->redact && mw_policy_detects(run->base->policy);
}

static void
redact(MwRun *run, MwMessage *m)
{
	/* an analyzer has a time of its own, which is shorter */
	mw_redact_messages(run->base->policy, &run->map, m, 1, true, mw_after_ms(MW_MAX_TIMEOUT_MS), &run->notices);
}

/* A value of JSON, leaf by leaf */
Jsonb *
mw_tool_redact_json(MwRun *run, Jsonb *json)
{
	MwMessage	m = {.role = "tool", .from_caller = true};
	JsonbParseState *st = NULL;

	if (!redacts(run))
		return json;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "content");
	mw_push_jsonb(&st, WJB_VALUE, json);
	m.json = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	redact(run, &m);
	return mw_json_value_jsonb(mw_json_get(m.json, "content"));
}

char *
mw_tool_redact_text(MwRun *run, char *text, int len)
{
	MwMessage	m = {.role = "tool", .text = text, .len = len, .from_caller = true};

	if (!redacts(run))
		return text;
	redact(run, &m);
	return pnstrdup(m.text, m.len);
}

/* The guardrail's stage on this one message.  Guards that are models are asked with the next call of the run, which has it too. */
void
mw_tool_judge(MwRun *run, char *text)
{
	MwMessage	m = {.role = "tool", .text = text, .len = strlen(text), .from_caller = true};
	MwCall		call = *run->base;

	if (!call.guardrail || m.len == 0)
		return;
	call.cxt = CurrentMemoryContext;
	call.messages = &m;
	call.nmessages = 1;
	call.tools = call.params = NULL;
	call.redact = false;
	call.use_model = NULL;
	call.answer = NULL;
	call.notices = NIL;
	call.guard_logged = false;
	mw_pipeline_judge(&call);
	if (call.notices != NIL)
	{
		MemoryContext old = MemoryContextSwitchTo(run->cxt);
		ListCell   *lc;

		foreach(lc, call.notices)
			run->notices = lappend(run->notices, pstrdup(lfirst(lc)));
		MemoryContextSwitchTo(old);
	}
}

/* ---------- content parts ---------- */

/* Where an image is, or the bytes themselves, in LangChain's words or MCP's; NULL: neither */
static char *
image_url(Jsonb *part)
{
	char	   *url = mw_json_get_text(part, "url");
	char	   *bytes = mw_json_get_text(part, "base64");
	char	   *type = mw_json_get_text(part, "mime_type");

	if (bytes == NULL)
		bytes = mw_json_get_text(part, "data");
	if (type == NULL)
		type = mw_json_get_text(part, "mimeType");
	return url != NULL ? url : bytes != NULL && type != NULL ? psprintf("data:%s;base64,%s", type, bytes) : NULL;
}

/* An element as a part of a message's content; false where it is none */
static bool
push_part(JsonbParseState **st, JsonbValue *element)
{
	Jsonb	   *part;
	JsonbValue *said;
	char	   *type;
	char	   *url;

	if (!mw_value_is_object(element))
		return false;
	part = JsonbValueToJsonb(element);
	type = mw_json_get_text(part, "type");
	if (type == NULL)
		return false;
	if (strcmp(type, "image") == 0)
	{
		if ((url = image_url(part)) == NULL)
			return false;
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "type", "image_url");
		push_key(st, "image_url");
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "url", url);
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
		return true;
	}
	said = mw_json_get(part, type);
	if (strcmp(type, "text") == 0 ? said == NULL || said->type != jbvString || said->val.string.len == 0 :
		!mw_value_is_object(said) || (strcmp(type, "image_url") != 0 && strcmp(type, "input_audio") != 0 && strcmp(type, "file") != 0))
		return false;
	mw_push_jsonb(st, WJB_ELEM, part);
	return true;
}

/* A list of nothing but parts, as a provider takes them; NULL: it is JSON like any other */
static Jsonb *
content_parts(Jsonb *json)
{
	JsonbParseState *st = NULL;
	MwJsonEach	each;

	if (json == NULL || !mw_json_is_array(json) || JB_ROOT_COUNT(json) == 0)
		return NULL;
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	each = mw_json_each(&json->root);
	while (mw_json_next(&each))
		if (!push_part(&st, &each.value))
			return NULL;
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_ARRAY, NULL));
}

/* Redacted, and cut to what the tool may say: a value is never cut in two before it is recognised */
char *
mw_tool_shown(MwRun *run, MwToolReturn *r, Jsonb **parts)
{
	char	   *text = r->text.data;
	int64		len = r->text.len;
	int64		all = len;
	int64		room = r->tool->max_bytes;
	Jsonb	   *jb = NULL;

	/* half of an image is none, so parts are all shown, or are JSON that is cut */
	*parts = NULL;
	if (r->json && !r->f->returns_set && len <= room && strstr(text, "\"type\"") != NULL &&
		(jb = content_parts(mw_json_parse(text, len, NULL))) != NULL)
	{
		JsonbValue	content;

		*parts = mw_tool_redact_json(run, jb);
		content = mw_json_value(*parts);
		return mw_json_content_text(&content);
	}
	if (r->f->returns_set)
	{
		text = psprintf("[%s]", text);
		all = len = len + 2;
		r->json = true;
	}
	if (!r->json && len > room + MARGIN)
		len = pg_mbcliplen(text, len, room + MARGIN);
	if (redacts(run))
	{
		if (r->json)
			jb = mw_json_parse(text, len, NULL);
		text = jb ? mw_json_canonical(mw_tool_redact_json(run, jb)) : mw_tool_redact_text(run, text, len);
		if (len < all)
			room = Min(room, Max(0, (int64) strlen(text) - MARGIN));
		len = strlen(text);
	}
	if (len > room)
		text = psprintf("%.*s\n[Only a part is shown: " INT64_FORMAT " of " INT64_FORMAT " bytes.]",
						pg_mbcliplen(text, len, room), text, room, Max(all, len));
	if (r->more)
		text = psprintf("%s\n[Only the first " INT64_FORMAT " rows are shown; there are more.]", text, r->rows);
	return text;
}
