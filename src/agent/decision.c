/*
 * decision.c - decisions: what they may say, and which call each is for.
 *
 * Everything is checked before anything is stored: that the decisions fit the
 * calls that wait, that each is allowed for its tool and well formed.  Of several
 * answers of which one is wrong, none is taken.  What is kept of one is its type
 * and what belongs to that; whatever else stood beside it is not.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "agent/approval.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/spi.h"

#define does_not_fit mw_decision_does_not_fit

/* ---------- spelling ---------- */

/* camelCase of the JavaScript types is accepted */
static Jsonb *
snake_case(Jsonb *decision)
{
	JsonbParseState *st = NULL;
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	v;

	if (!mw_json_is_object(decision) || mw_json_get(decision, "editedAction") == NULL)
		return decision;
	/* which of them was meant nobody can tell, nor which of them was looked at */
	if (mw_json_get(decision, "edited_action") != NULL)
		does_not_fit("Invalid decision: it has both edited_action and editedAction");
	it = JsonbIteratorInit(&decision->root);
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (tok == WJB_KEY && v.val.string.len == 12 && memcmp(v.val.string.val, "editedAction", 12) == 0)
			push_key(&st, "edited_action");
		else if (tok == WJB_KEY || tok == WJB_VALUE)
			pushJsonbValue(&st, tok, &v);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* ---------- what ---------- */

static char *
list_text(List *texts, const char *quote)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, texts)
		appendStringInfo(&buf, "%s%s%s%s", buf.len > 0 ? (quote[0] ? "," : ", ") : "", quote, (char *) lfirst(lc), quote);
	return buf.data;
}

/* Names of the tools that an agent has, as its row says */
static List *
tool_names(const MwAgent *agent)
{
	List	   *names = NIL;

	if (agent->tools != NULL)
	{
		JsonbIterator *it = JsonbIteratorInit(&agent->tools->root);
		JsonbIteratorToken tok;
		JsonbValue	item;

		while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
			if (tok == WJB_ELEM && item.type == jbvString)
				names = lappend(names, pnstrdup(item.val.string.val, item.val.string.len));
	}
	for (int i = 0; i < agent->nmiddleware; i++)
	{
		MwMiddleware *m = agent->middleware[i];
		ListCell   *lc;

		if (m->kind->tools == NULL)
			continue;
		foreach(lc, m->kind->tools(m))
			names = lappend(names, unconstify(char *, ((MwTool *) lfirst(lc))->name));
	}
	return names;
}

static int
by_name(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

static void
check_edit(const MwGate *gate, const MwAgent *agent, Jsonb *decision)
{
	Jsonb	   *action = mw_json_get_jsonb(decision, "edited_action");
	JsonbValue *name;
	JsonbValue *args;
	char	   *to;

	if (!mw_json_is_object(action))
		does_not_fit("Invalid edited action for tool '%s': it must be an object with name and args", gate->call.name);
	name = mw_json_get(action, "name");
	args = mw_json_get(action, "args");
	if (args == NULL || args->type != jbvBinary || !JsonContainerIsObject(args->val.binary.data))
		does_not_fit("Invalid edited action for tool '%s': args must be an object", gate->call.name);
	if (name == NULL || name->type != jbvString)
		does_not_fit("Invalid edited action for tool \"%s\": name must be a string", gate->call.name);
	to = pnstrdup(name->val.string.val, name->val.string.len);
	if (strcmp(to, gate->call.name) == 0)
		return;
	if (gate->batched && agent != NULL)
	{
		List	   *names = tool_names(agent);
		ListCell   *lc;
		bool		found = false;

		foreach(lc, names)
			found |= strcmp(lfirst(lc), to) == 0;
		list_sort(names, by_name);
		if (!found)
			does_not_fit("Reviewer edited tool call '%s' to '%s', which is not an available tool. Available tools: %s.",
						 gate->call.id, to, list_text(names, ""));
		if (!mw_hitl_gates(agent, to, true))
			return;
		does_not_fit("Reviewer edited tool call '%s' to '%s', which needs an approval of its own.", gate->call.id, to);
	}
	does_not_fit("Invalid edited action for tool '%s': the name of the tool cannot be changed", gate->call.name);
}

static const char *
kind_of(JsonbValue *v)
{
	switch (v->type)
	{
		case jbvNumeric:
			return "number";
		case jbvBool:
			return "boolean";
		default:
			return v->type == jbvBinary && JsonContainerIsArray(v->val.binary.data) ? "array" : "object";
	}
}

/* So many roles have to approve: one person is one of them, behind whichever role it stands */
static void
check_not_again(const MwGate *gate)
{
	const char *by = mw_person_approved(gate->decisions);

	if (by != NULL)
		does_not_fit("role \"%s\" has approved call \"%s\" already, and it needs %d roles", by, gate->call.id, gate->approvals);
}

void
mw_decision_check(const MwGate *gate, const MwAgent *agent, Jsonb *decision, Jsonb *with_values)
{
	char	   *type;
	JsonbValue *message;
	ListCell   *lc;
	bool		allowed = false;

	if (!mw_json_is_object(decision))
		does_not_fit("Invalid decision for tool '%s': it must be an object with a type", gate->call.name);
	type = mw_json_get_text(decision, "type");
	foreach(lc, gate->allowed)
		allowed |= type != NULL && strcmp(lfirst(lc), type) == 0;
	if (!allowed && !gate->batched)
		does_not_fit("Invalid answer for tool '%s': its type must be one of [%s]", gate->call.name, list_text(gate->allowed, "\""));
	if (!allowed)
		does_not_fit("Unexpected human decision: %s. Decision type '%s' is not allowed for tool '%s'. Expected one of [%s] based on the tool's configuration.",
					 mw_json_canonical(decision), type != NULL ? type : "", gate->call.name, list_text(gate->allowed, "\""));
	if (gate->response_schema != NULL)
	{
		char	   *breach = mw_schema_breach(gate->response_schema, decision);

		/* a pattern or a format is one of the value; the breach that is told of shows placeholders */
		if (breach != NULL && (with_values == NULL || mw_schema_breach(gate->response_schema, with_values) != NULL))
			does_not_fit("Invalid answer for tool '%s': %s", gate->call.name, breach);
	}
	if (strcmp(type, "edit") == 0)
	{
		if (gate->approvals > 1)
			does_not_fit("tool '%s' needs %d approvals, and an edit is one person's", gate->call.name, gate->approvals);
		check_edit(gate, agent, decision);
	}
	if (strcmp(type, "approve") == 0)
		check_not_again(gate);
	message = mw_json_get(decision, "message");
	if (message != NULL && message->type != jbvString)
		does_not_fit("Tool call response for \"%s\" must be a string, got %s", gate->call.name, kind_of(message));
	if (message == NULL && strcmp(type, "respond") == 0)
		does_not_fit("Invalid decision for tool '%s': respond needs a message", gate->call.name);
}

/* What is kept of a decision that was found right */
Jsonb *
mw_decision_plain(Jsonb *decision)
{
	JsonbParseState *st = NULL;
	char	   *type = mw_json_get_text(decision, "type");
	char	   *message = mw_json_get_text(decision, "message");

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "type", type);
	if (strcmp(type, "edit") == 0)
	{
		Jsonb	   *action = mw_json_get_jsonb(decision, "edited_action");

		push_key(&st, "edited_action");
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "name", mw_json_get_text(action, "name"));
		push_key(&st, "args");
		mw_push_jsonb(&st, WJB_VALUE, mw_json_get_jsonb(action, "args"));
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	}
	else if (message != NULL)
		push_member(&st, "message", message);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* ---------- matching ---------- */

static List *
add_match(List *matches, MwGate *gate, Jsonb *decision)
{
	MwMatch    *m = palloc(sizeof(MwMatch));

	m->gate = gate;
	m->decision = snake_case(decision);
	return lappend(matches, m);
}

/* {"decisions": [...]}: one for each of these gates, in order */
static List *
match_list(List *gates, JsonbValue *list)
{
	List	   *matches = NIL;
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	item;
	int			n = 0;

	if (list->type != jbvBinary || !JsonContainerIsArray(list->val.binary.data))
		does_not_fit("Invalid HITLResponse: decisions must be a non-empty array");
	n = JsonContainerSize(list->val.binary.data);
	if (n != list_length(gates))
		does_not_fit("Number of human decisions (%d) does not match number of hanging tool calls (%d).", n, list_length(gates));
	it = JsonbIteratorInit(list->val.binary.data);
	n = 0;
	while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
		if (tok == WJB_ELEM)
			matches = add_match(matches, list_nth(gates, n++), JsonbValueToJsonb(&item));
	return matches;
}

static List *
open_gates(List *gates, const char *interrupt_id)
{
	List	   *open = NIL;
	ListCell   *lc;

	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);

		if (gate->status == MW_GATE_OPEN && (interrupt_id == NULL || strcmp(gate->interrupt_id, interrupt_id) == 0))
			open = lappend(open, gate);
	}
	return open;
}

/* The one open call of that id */
static MwGate *
open_call(List *open, const char *id)
{
	MwGate	   *gate = NULL;
	ListCell   *lc;
	int			n = 0;

	foreach(lc, open)
	{
		if (strcmp(((MwGate *) lfirst(lc))->call.id, id) == 0)
		{
			gate = lfirst(lc);
			n++;
		}
	}
	if (n > 1)
		does_not_fit("%d calls with the id \"%s\" wait; name the interrupt", n, id);
	if (gate == NULL)
		does_not_fit("no interrupt and no call with the id \"%s\" waits for a decision", id);
	return gate;
}

/* A key of an answer: an interrupt, whose calls may be answered by a list as LangGraph does it, or a call */
static List *
match_key(List *open, const char *key, JsonbValue *value)
{
	List	   *of_interrupt = open_gates(open, key);
	Jsonb	   *answer = JsonbValueToJsonb(value);
	JsonbValue *list = mw_json_is_object(answer) ? mw_json_get(answer, "decisions") : NULL;

	if (of_interrupt == NIL)
		return add_match(NIL, open_call(open, key), answer);
	if (list != NULL)
		return match_list(of_interrupt, list);
	if (list_length(of_interrupt) > 1)
		does_not_fit("interrupt \"%s\" asks about %d calls, and its answer is no {\"decisions\": [...]}", key, list_length(of_interrupt));
	return add_match(NIL, linitial(of_interrupt), answer);
}

/* A call has two names, its own and its interrupt's */
static void
check_once(List *matches, List *more)
{
	ListCell   *a;
	ListCell   *b;

	foreach(a, more)
	{
		MwGate	   *gate = ((MwMatch *) lfirst(a))->gate;

		foreach(b, matches)
		{
			if (((MwMatch *) lfirst(b))->gate == gate)
				does_not_fit("there are two answers for the call \"%s\"", gate->call.id);
		}
	}
}

/* Why there is nothing to decide */
_Noreturn void
mw_nothing_open(const char *tenant, List *gates, const char *interrupt_id)
{
	static MwStmt stmt = {
		"SELECT i.status FROM mw.interrupt AS i WHERE i.tenant OPERATOR(pg_catalog.=) $1 AND i.interrupt_id OPERATOR(pg_catalog.=) $2 LIMIT 1",
		2, {TEXTOID, TEXTOID}
	};
	const char *why = gates == NIL ? "none" : "decided";
	ListCell   *lc;

	foreach(lc, gates)
	{
		if (interrupt_id == NULL && ((MwGate *) lfirst(lc))->status == MW_GATE_EXPIRED)
			why = "expired";
	}
	if (interrupt_id != NULL)
	{
		Datum		values[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(interrupt_id)};
		MemoryContext cxt = CurrentMemoryContext;

		why = "none";
		SPI_connect();
		if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) > 0)
			why = MemoryContextStrdup(cxt, SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1));
		SPI_finish();
	}
	ereport(ERROR,
			(errcode(ERRCODE_MW_NO_INTERRUPT),
			 errmsg("no interrupt is waiting for a decision"),
			 errdetail("%s.", why),
			 errhint("SELECT * FROM mw.inbox; shows what waits.")));
}

List *
mw_decision_match(const char *tenant, List *gates, Jsonb *decisions, const char *interrupt_id)
{
	List	   *open = open_gates(gates, interrupt_id);
	List	   *matches = NIL;
	List	   *more;
	JsonbValue *list = mw_json_get(decisions, "decisions");
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	key;
	JsonbValue	value;

	if (open == NIL)
		mw_nothing_open(tenant, gates, interrupt_id);
	if (!mw_json_is_object(decisions))
		does_not_fit("Invalid HITLResponse: decisions must be a non-empty array");
	if (list != NULL)
		return match_list(open, list);
	if (interrupt_id != NULL && mw_json_get(decisions, "type") != NULL && list_length(open) == 1)
		return add_match(NIL, linitial(open), decisions);
	if (JB_ROOT_COUNT(decisions) == 0 || (((MwGate *) linitial(open))->batched && list_length(open) == list_length(open_gates(open, ((MwGate *) linitial(open))->interrupt_id)) &&
		!mw_json_get(decisions, ((MwGate *) linitial(open))->interrupt_id) && !mw_json_get(decisions, ((MwGate *) linitial(open))->call.id)))
		does_not_fit("Invalid HITLResponse: decisions must be a non-empty array");
	it = JsonbIteratorInit(&decisions->root);
	while ((tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		if (tok != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &value, true);
		more = match_key(open, pnstrdup(key.val.string.val, key.val.string.len), &value);
		check_once(matches, more);
		matches = list_concat(matches, more);
	}
	return matches;
}
