/*
 * human_in_the_loop.c - LangChain's middleware that asks before a tool runs.
 *
 * batched: one interrupt for all gated calls of a message, raised after the
 * model; per_call: one for each, raised as the call starts, inside the hooks of
 * the middlewares before this one.  An edit leaves the model's own call in its
 * message and puts a notice in front of the result, so that the model does not
 * ask for the original again.
 *
 * "when" is evaluated once: a call that was found gated stays so until it is
 * decided.  Every gate that is passed tells approval.c what may run.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "agent/approval.h"
#include "agent/registry.h"
#include "agent/run.h"
#include "agent/texts.h"
#include "util/json.h"
#include "util/json_push.h"

static const char *const options_of[] = {
	"approvals", "description_prefix", "edit_notice", "expires_in", "interrupt_mode", "interrupt_on", "on_expiry", NULL
};
static const char *const config_keys[] = {
	"allowed_decisions", "approvals", "args_schema", "description", "expires_in", "on_expiry", "when", NULL
};
static const char *const decisions[] = {"approve", "edit", "reject", "respond", NULL};

/* What one tool needs */
typedef struct Rule
{
	const char *tool;
	List	   *allowed;		/* of char * */
	const char *description;	/* NULL: prefix, tool and arguments */
	char	   *describe;		/* function; NULL */
	Jsonb	   *when;			/* declarative: {"arg", "starts_with" ...}; NULL */
	char	   *when_function;
	int			approvals;
	int			expires_ms;
	const char *on_expiry;
} Rule;

typedef struct Hitl
{
	List	   *rules;			/* of Rule * */
	bool		per_call;
	const char *prefix;
	const char *notice;			/* NULL: none */
} Hitl;

/* ---------- options ---------- */

static List *
read_allowed(MwMiddleware *m, const char *tool, Jsonb *config)
{
	JsonbValue *v = mw_json_get(config, "allowed_decisions");
	const char *must = psprintf("a non-empty list of approve, edit, reject and respond for tool \"%s\"", tool);
	List	   *allowed = NIL;
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	item;

	if (v == NULL || v->type != jbvBinary || !JsonContainerIsArray(v->val.binary.data) || JsonContainerSize(v->val.binary.data) == 0)
		mw_opt_wrong(m, "allowed_decisions", must);
	it = JsonbIteratorInit(v->val.binary.data);
	while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		char	   *word;
		bool		known = false;
		ListCell   *lc;

		if (tok != WJB_ELEM)
			continue;
		if (item.type != jbvString)
			mw_opt_wrong(m, "allowed_decisions", must);
		word = pnstrdup(item.val.string.val, item.val.string.len);
		for (int i = 0; decisions[i]; i++)
			known |= strcmp(decisions[i], word) == 0;
		if (!known)
			mw_opt_wrong(m, "allowed_decisions", must);
		known = false;
		foreach(lc, allowed)
			known |= strcmp(lfirst(lc), word) == 0;
		if (!known)
			allowed = lappend(allowed, word);
	}
	return allowed;
}

/* what holds for all tools, and what one of them says instead */
static void
read_terms(MwMiddleware *m, Jsonb *json, Rule *rule)
{
	JsonbValue *v = mw_json_get(json, "expires_in");
	static const char *const ends[] = {"reject", "end", NULL};

	rule->approvals = (int) mw_opt_int(m, json, "approvals", rule->approvals, 1, 100);
	if (v != NULL)
		rule->expires_ms = mw_duration_of(v, "expires_in");
	rule->on_expiry = ends[mw_opt_choice(m, json, "on_expiry", strcmp(rule->on_expiry, "end") == 0 ? 1 : 0, ends)];
}

static void
read_when(MwMiddleware *m, Jsonb *config, Rule *rule)
{
	static const char *const tests[] = {"contains", "equals", "gt", "starts_with", NULL};
	JsonbValue *v = mw_json_get(config, "when");
	Jsonb	   *when;
	int			n = 0;

	if (v == NULL)
		return;
	when = mw_json_value_jsonb(v);
	if (!mw_json_is_object(when))
		mw_opt_wrong(m, "when", "{\"function\": \"schema.name\"}, or {\"arg\": name, \"starts_with\", \"contains\", \"equals\" or \"gt\": value}");
	if (mw_json_get(when, "function") != NULL)
	{
		rule->when_function = mw_opt_function(m, config, "when");
		return;
	}
	for (int i = 0; tests[i]; i++)
		n += mw_json_get(when, tests[i]) != NULL ? 1 : 0;
	if (mw_json_get_text(when, "arg") == NULL || n != 1)
		mw_opt_wrong(m, "when", "{\"function\": \"schema.name\"}, or {\"arg\": name, \"starts_with\", \"contains\", \"equals\" or \"gt\": value}");
	rule->when = when;
}

static void
hitl_read(MwMiddleware *m, Jsonb *options)
{
	static const char *const modes[] = {"batched", "per_call", NULL};
	Hitl	   *h = palloc0(sizeof(Hitl));
	Jsonb	   *on = mw_json_get_jsonb(options, "interrupt_on");
	JsonbValue *notice = JB_ROOT_IS_OBJECT(options) ? getKeyJsonValueFromContainer(&options->root, "edit_notice", 11, NULL) : NULL;
	Rule		terms = {.approvals = 1, .on_expiry = "reject"};
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	key;
	JsonbValue	value;

	m->conf = h;
	h->per_call = mw_opt_choice(m, options, "interrupt_mode", 0, modes) == 1;
	h->prefix = mw_opt_text(m, options, "description_prefix", "Tool execution requires approval");
	h->notice = mw_text_edit_notice;
	if (notice != NULL && notice->type == jbvNull)
		h->notice = NULL;		/* here null says "none", as in Python */
	else if (notice != NULL)
		h->notice = mw_opt_text(m, options, "edit_notice", NULL);
	read_terms(m, options, &terms);

	if (on == NULL || !mw_json_is_object(on))
		mw_opt_wrong(m, "interrupt_on", "an object: {tool: true, false or {\"allowed_decisions\": [...]}}");
	it = JsonbIteratorInit(&on->root);
	while ((tok = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		Rule	   *rule;
		Jsonb	   *config;
		JsonbValue *v;

		if (tok != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &value, true);
		if (value.type == jbvBool && !value.val.boolean)
			continue;
		rule = palloc(sizeof(Rule));
		*rule = terms;
		rule->tool = pnstrdup(key.val.string.val, key.val.string.len);
		h->rules = lappend(h->rules, rule);
		if (value.type == jbvBool)
		{
			for (int i = 0; decisions[i]; i++)
				rule->allowed = lappend(rule->allowed, unconstify(char *, decisions[i]));
			continue;
		}
		config = value.type == jbvBinary ? JsonbValueToJsonb(&value) : NULL;
		if (!mw_json_is_object(config))
			mw_opt_wrong(m, "interrupt_on", "an object: {tool: true, false or {\"allowed_decisions\": [...]}}");
		mw_json_check_keys(config, "setting", "a tool in interrupt_on", config_keys);
		rule->allowed = read_allowed(m, rule->tool, config);
		read_terms(m, config, rule);
		v = mw_json_get(config, "description");
		if (v != NULL && v->type == jbvString)
			rule->description = pnstrdup(v->val.string.val, v->val.string.len);
		else if (v != NULL)
			rule->describe = mw_opt_function(m, config, "description");
		read_when(m, config, rule);
	}
}

/* ---------- gates ---------- */

static Rule *
rule_for(Hitl *h, const char *tool)
{
	ListCell   *lc;

	foreach(lc, h->rules)
	{
		Rule	   *rule = lfirst(lc);

		if (strcmp(rule->tool, tool) == 0)
			return rule;
	}
	return NULL;
}

/* {"tool_call", "state"}: what functions get */
static Jsonb *
subject_of(MwRun *run, const MwToolCall *call)
{
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "tool_call");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "id", call->id);
	push_member(&st, "name", call->name);
	push_key(&st, "args");
	mw_push_jsonb(&st, WJB_VALUE, call->args);
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	push_key(&st, "state");
	mw_push_jsonb(&st, WJB_VALUE, mw_state_json(run));
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

static char *
plain_text(JsonbValue *v)
{
	if (v->type == jbvString)
		return pnstrdup(v->val.string.val, v->val.string.len);
	return mw_json_canonical(JsonbValueToJsonb(v));
}

static bool
test_holds(Jsonb *when, JsonbValue *arg)
{
	JsonbValue *v;

	if ((v = mw_json_get(when, "starts_with")) != NULL)
	{
		char	   *s = plain_text(arg);
		char	   *start = plain_text(v);

		return strncmp(s, start, strlen(start)) == 0;
	}
	if ((v = mw_json_get(when, "contains")) != NULL)
		return strstr(plain_text(arg), plain_text(v)) != NULL;
	if ((v = mw_json_get(when, "equals")) != NULL)
		return strcmp(plain_text(arg), plain_text(v)) == 0;
	v = mw_json_get(when, "gt");
	return v->type == jbvNumeric && arg->type == jbvNumeric &&
		DatumGetBool(DirectFunctionCall2(numeric_gt, NumericGetDatum(arg->val.numeric), NumericGetDatum(v->val.numeric)));
}

static bool
is_callers(MwMiddleware *m)
{
	return strcmp(m->name, MW_CALLER_GATES) == 0;
}

/* What somebody else has to approve, too, is not changed behind their back */
static List *
without_edit(List *allowed)
{
	List	   *rest = NIL;
	ListCell   *lc;

	foreach(lc, allowed)
	{
		if (strcmp(lfirst(lc), "edit") != 0)
			rest = lappend(rest, lfirst(lc));
	}
	return rest != NIL ? rest : list_make2("approve", "reject");
}

/* Whether the agent asks about this tool, whatever its arguments are */
static bool
agent_asks(const MwAgent *agent, const char *tool)
{
	for (int i = 0; i < agent->nmiddleware; i++)
	{
		MwMiddleware *m = agent->middleware[i];
		Rule	   *rule = m->kind == &mw_human_in_the_loop && !is_callers(m) ? rule_for(m->conf, tool) : NULL;

		if (rule != NULL && rule->when == NULL && rule->when_function == NULL)
			return true;
	}
	return false;
}

static bool
is_gated(MwRun *run, MwMiddleware *m, Rule *rule, const MwToolCall *call)
{
	if (is_callers(m) && agent_asks(run->agent, call->name))
		return false;
	if (rule->when_function != NULL)
	{
		Jsonb	   *said = mw_option_call(run, rule->when_function, subject_of(run, call), m->name);
		JsonbValue *v = said != NULL && JB_ROOT_IS_SCALAR(said) ? getIthJsonbValueFromContainer(&said->root, 0) : NULL;

		return v != NULL && v->type == jbvBool && v->val.boolean;
	}
	if (rule->when != NULL)
	{
		JsonbValue *arg = mw_json_get(call->args, mw_json_get_text(rule->when, "arg"));

		return arg != NULL && test_holds(rule->when, arg);
	}
	return true;
}

static MwGate *
make_gate(MwRun *run, MwMiddleware *m, Rule *rule, const MwToolCall *call)
{
	Hitl	   *h = m->conf;
	MwGate	   *gate = mw_gate_new(run, m->name, !h->per_call, call);

	gate->allowed = rule->allowed;
	if (is_callers(m) && mw_hitl_gates(run->agent, call->name, false))
		gate->allowed = without_edit(rule->allowed);
	gate->approvals = rule->approvals;
	gate->expires_ms = rule->expires_ms;
	gate->on_expiry = rule->on_expiry;
	if (rule->describe != NULL)
	{
		Jsonb	   *said = mw_option_call(run, rule->describe, subject_of(run, call), m->name);
		JsonbValue *v = said != NULL && JB_ROOT_IS_SCALAR(said) ? getIthJsonbValueFromContainer(&said->root, 0) : NULL;

		gate->description = v != NULL && v->type == jbvString ? pnstrdup(v->val.string.val, v->val.string.len) : "";
	}
	else if (rule->description != NULL)
		gate->description = rule->description;
	else
		gate->description = psprintf("%s\n\nTool: %s\nArgs: %s", h->prefix, call->name, mw_json_canonical(call->args));
	if (h->per_call)
		gate->response_schema = mw_response_schema(gate->allowed, call, mw_run_tool(run, call->name));
	return gate;
}

/* ---------- batched ---------- */

static MwPatch *
hitl_after_model(MwRun *run, MwMiddleware *m)
{
	Hitl	   *h = m->conf;
	MwMsg	  **results;
	MwMsg	   *answer = mw_last_answer(run, &results);
	List	   *gates = NIL;
	MwPatch    *patch;
	ListCell   *lc;
	bool		open = false;
	bool		known = false;

	if (h->per_call || answer == NULL || answer->ncalls == 0)
		return NULL;

	/* what was asked for is what is asked for, whatever "when" would say now */
	for (int i = 0; i < answer->ncalls; i++)
		known |= mw_gate_find(run, m->name, answer->calls[i].id) != NULL;
	for (int i = 0; i < answer->ncalls; i++)
	{
		MwToolCall *call = &answer->calls[i];
		Rule	   *rule = rule_for(h, call->name);
		MwGate	   *gate = mw_gate_find(run, m->name, call->id);

		if (gate == NULL && !known && rule != NULL && !mw_gate_passed(run, call->id) && is_gated(run, m, rule, call))
			gate = make_gate(run, m, rule, call);
		if (gate == NULL)
			continue;
		if (gates != NIL && !gate->stored)
			gate->interrupt_id = ((MwGate *) linitial(gates))->interrupt_id;
		gate->place = gate->stored ? gate->place : list_length(gates);
		open |= gate->decision == NULL;
		gates = lappend(gates, gate);
	}
	if (gates == NIL)
		return NULL;
	if (open)
	{
		mw_pause(run, gates, false);
		return NULL;
	}

	patch = mw_patch_new();
	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);
		char	   *type = mw_json_get_text(gate->decision, "type");

		if (strcmp(type, "approve") == 0)
			mw_approval_expect(run, gate);
		else if (strcmp(type, "edit") != 0)	/* an edit waits for its tool */
		{
			gate->outcome = "not_run";
			mw_patch_put(patch, mw_approval_answer(run, &gate->call, gate->decision));
		}
	}
	return patch;
}

/* ---------- running what was decided ---------- */

static char *
notice_of(Hitl *h, const MwToolCall *ran, bool has_content)
{
	return psprintf("%s Executed instead: %s with arguments %s.%s", h->notice, ran->name, mw_json_canonical(ran->args),
					has_content ? "\n\nTool response:" : "");
}

static MwToolResponse *
with_notice(MwRun *run, Hitl *h, MwToolResponse *resp, const MwToolCall *ran)
{
	MwToolResponse *copy;
	JsonbValue *content = mw_json_get(resp->msg->json, "content");
	char	   *notice;

	if (h->notice == NULL || h->notice[0] == '\0')
		return resp;
	notice = notice_of(h, ran, resp->msg->text[0] != '\0');
	if (strstr(resp->msg->text, notice) != NULL)
		return resp;
	copy = palloc(sizeof(MwToolResponse));
	*copy = *resp;
	if (content->type == jbvString)
		copy->msg = mw_msg_with_text(run, resp->msg, resp->msg->text[0] != '\0' ? psprintf("%s\n%s", notice, resp->msg->text) : notice);
	else
	{
		JsonbParseState *st = NULL;
		JsonbIterator *it = JsonbIteratorInit(content->val.binary.data);
		JsonbIteratorToken tok;
		JsonbValue	item;

		pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "type", "text");
		push_member(&st, "text", notice);
		pushJsonbValue(&st, WJB_END_OBJECT, NULL);
		while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
			if (tok == WJB_ELEM)
				pushJsonbValue(&st, WJB_ELEM, &item);
		copy->msg = mw_msg_with_content(run, resp->msg, pushJsonbValue(&st, WJB_END_ARRAY, NULL));
	}
	return copy;
}

/* The request with the reviewer's call in it */
static MwToolRequest *
edited_request(MwRun *run, const MwToolRequest *req, Jsonb *action)
{
	MwToolRequest *edited = palloc0(sizeof(MwToolRequest));

	edited->call = palloc0(sizeof(MwToolCall));
	edited->call->id = req->call->id;
	edited->call->name = mw_json_get_text(action, "name");
	edited->call->args = mw_json_get_jsonb(action, "args");
	edited->tool = mw_run_tool(run, edited->call->name);
	return edited;
}

static MwToolResponse *
run_edited(MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level, MwGate *gate, Jsonb *action)
{
	MwToolRequest *edited = edited_request(run, req, action);

	mw_approval_expect(run, gate);
	return with_notice(run, m->conf, mw_next_tool(run, level, edited), edited->call);
}

static MwToolResponse *
hitl_wrap_tool(MwRun *run, MwMiddleware *m, const MwToolRequest *req, int level)
{
	Hitl	   *h = m->conf;
	MwGate	   *gate = mw_gate_find(run, m->name, req->call->id);
	Rule	   *rule = rule_for(h, req->call->name);
	MwToolResponse *resp;
	char	   *type;

	if (gate == NULL)
	{
		if (!h->per_call || rule == NULL || mw_gate_passed(run, req->call->id) || !is_gated(run, m, rule, req->call))
			return mw_next_tool(run, level, req);
		gate = make_gate(run, m, rule, req->call);
	}
	if (gate->decision == NULL)
		mw_pause(run, list_make1(gate), true);
	type = mw_json_get_text(gate->decision, "type");
	if (strcmp(type, "approve") == 0)
	{
		mw_approval_expect(run, gate);
		return mw_next_tool(run, level, req);
	}
	if (strcmp(type, "edit") == 0)
		return run_edited(run, m, req, level, gate, mw_json_get_jsonb(gate->decision, "edited_action"));
	gate->outcome = "not_run";
	resp = palloc0(sizeof(MwToolResponse));
	resp->msg = mw_approval_answer(run, req->call, gate->decision);
	return resp;
}

const MwMiddlewareType mw_human_in_the_loop = {
	.type = "human_in_the_loop", .options = options_of,
	.read = hitl_read,
	.after_model = hitl_after_model, .wrap_tool = hitl_wrap_tool,
};

/* Whether the middlewares of an agent ask before this tool runs, those that a call added among them or not */
bool
mw_hitl_gates(const MwAgent *agent, const char *tool, bool callers)
{
	for (int i = 0; i < agent->nmiddleware; i++)
	{
		MwMiddleware *m = agent->middleware[i];

		if (m->kind == &mw_human_in_the_loop && (callers || !is_callers(m)) && rule_for(m->conf, tool) != NULL)
			return true;
	}
	return false;
}

/* ---------- gates that a call adds ---------- */

void
mw_hitl_add(MwAgent *agent, const char *tenant, Jsonb *options)
{
	Jsonb	   *on = mw_json_get_jsonb(options, "interrupt_on");
	JsonbParseState *st = NULL;

	if (on == NULL)
		return;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "type", "human_in_the_loop");
	push_member(&st, "name", MW_CALLER_GATES);
	push_key(&st, "interrupt_on");
	mw_push_jsonb(&st, WJB_VALUE, on);
	mw_agent_append(agent, tenant, JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
}

Jsonb *
mw_hitl_options(Jsonb *begun, Jsonb *now)
{
	Jsonb	   *was = mw_json_get_jsonb(begun, "interrupt_on");
	Jsonb	   *more = mw_json_get_jsonb(now, "interrupt_on");
	JsonbParseState *st = NULL;

	if (was == NULL || (more != NULL && !mw_json_is_object(more)))
		return now;
	if (more != NULL)
		was = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(more), JsonbPGetDatum(was)));
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "interrupt_on");
	mw_push_jsonb(&st, WJB_VALUE, was);
	was = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
	return now == NULL ? was : DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(now), JsonbPGetDatum(was)));
}
