/*
 * approval_shown.c - what a result shows of calls that wait: LangChain's values
 * of interrupts, and the JSON schema of an answer to one.
 */
#include "mw.h"

#include "agent/approval.h"
#include "agent/run.h"
#include "util/json.h"
#include "util/json_push.h"

/* ---------- what an answer must be ---------- */

static void
push_const(JsonbParseState **st, const char *type)
{
	push_key(st, "type");
	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	push_member(st, "const", type);
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
}

static void
push_text_type(JsonbParseState **st, const char *key)
{
	push_key(st, key);
	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	push_member(st, "type", "string");
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
}

static void
push_required(JsonbParseState **st, const char *const *names)
{
	push_key(st, "required");
	pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
	for (; *names; names++)
		push_string(st, WJB_ELEM, *names, strlen(*names));
	pushJsonbValue(st, WJB_END_ARRAY, NULL);
}

/* One decision as a JSON schema, put as a member's value or an element */
static void
push_decision(JsonbParseState **st, const char *type, const MwToolCall *call, const MwTool *tool)
{
	static const char *const alone[] = {"type", NULL};
	static const char *const with_message[] = {"type", "message", NULL};
	static const char *const with_action[] = {"type", "edited_action", NULL};
	static const char *const of_action[] = {"name", "args", NULL};

	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	push_member(st, "type", "object");
	push_key(st, "properties");
	pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
	push_const(st, type);
	if (strcmp(type, "reject") == 0 || strcmp(type, "respond") == 0)
		push_text_type(st, "message");
	if (strcmp(type, "edit") == 0)
	{
		push_key(st, "edited_action");
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "type", "object");
		push_key(st, "properties");
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_key(st, "name");
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "const", call->name);
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
		push_key(st, "args");
		if (tool != NULL)
			mw_push_jsonb(st, WJB_VALUE, tool->parameters);
		else
		{
			pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
			push_member(st, "type", "object");
			pushJsonbValue(st, WJB_END_OBJECT, NULL);
		}
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
		push_required(st, of_action);
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
	push_required(st, strcmp(type, "respond") == 0 ? with_message : strcmp(type, "edit") == 0 ? with_action : alone);
	pushJsonbValue(st, WJB_END_OBJECT, NULL);
}

Jsonb *
mw_response_schema(const List *allowed, const MwToolCall *call, const MwTool *tool)
{
	JsonbParseState *st = NULL;
	ListCell   *lc;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "oneOf");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, allowed)
		push_decision(&st, lfirst(lc), call, tool);
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* ---------- what a result shows ---------- */

static void
push_action(JsonbParseState **st, const MwGate *gate)
{
	push_member(st, "name", gate->call.name);
	push_key(st, "args");
	mw_push_jsonb(st, WJB_VALUE, gate->call.args);
	push_member(st, "description", gate->description);
}

/* All open gates of one batch, in the order of its calls */
static void
push_batch(JsonbParseState **st, List *gates, const char *interrupt_id)
{
	ListCell   *lc;

	push_key(st, "action_requests");
	pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);

		if (strcmp(gate->interrupt_id, interrupt_id) != 0)
			continue;
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_action(st, gate);
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(st, WJB_END_ARRAY, NULL);
	push_key(st, "review_configs");
	pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);
		ListCell   *a;

		if (strcmp(gate->interrupt_id, interrupt_id) != 0)
			continue;
		pushJsonbValue(st, WJB_BEGIN_OBJECT, NULL);
		push_member(st, "action_name", gate->call.name);
		push_key(st, "allowed_decisions");
		pushJsonbValue(st, WJB_BEGIN_ARRAY, NULL);
		foreach(a, gate->allowed)
			push_string(st, WJB_ELEM, lfirst(a), strlen(lfirst(a)));
		pushJsonbValue(st, WJB_END_ARRAY, NULL);
		pushJsonbValue(st, WJB_END_OBJECT, NULL);
	}
	pushJsonbValue(st, WJB_END_ARRAY, NULL);
}

Jsonb *
mw_approval_interrupts(MwRun *run)
{
	List	   *gates = mw_approval_gates(run);
	List	   *shown = NIL;	/* of char *: interrupts that are there already */
	JsonbParseState *st = NULL;
	ListCell   *lc;

	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);
		ListCell   *s;
		bool		seen = false;

		if (gate->status != MW_GATE_OPEN)
			continue;
		foreach(s, shown)
			seen |= strcmp(lfirst(s), gate->interrupt_id) == 0;
		if (seen)
			continue;
		shown = lappend(shown, unconstify(char *, gate->interrupt_id));
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "id", gate->interrupt_id);
		push_key(&st, "value");
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		if (gate->batched)
			push_batch(&st, gates, gate->interrupt_id);
		else
		{
			push_member(&st, "type", "tool_approval");
			push_member(&st, "tool_call_id", gate->call.id);
			push_action(&st, gate);
		}
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
		if (gate->response_schema != NULL)
		{
			push_key(&st, "response_schema");
			mw_push_jsonb(&st, WJB_VALUE, gate->response_schema);
		}
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_ARRAY, NULL));
}
