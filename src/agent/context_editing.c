/*
 * context_editing.c - the middleware that leaves old results of tools out of a
 * request once the context is large.
 *
 * Only the request is edited: the thread keeps what the tools returned, and the
 * edit is made anew for each request.  With "persist" it is made once, in the
 * thread (where the originals stay as rows), so that what is sent begins as it
 * did before and a provider's prompt cache holds until the next edit.  A cleared result stays a message with its id, name and status, so that every
 * call still has its answer; its content is a placeholder.
 */
#include "mw.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "agent/context.h"
#include "agent/registry.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/names.h"
#include "util/tokens.h"

#define TRIGGER_TOKENS	100000
#define KEEP_RESULTS	3

typedef struct ClearToolUses
{
	List	   *trigger;		/* of MwSize *, one is enough */
	int64		keep;			/* results that stay, the newest ... */
	MwSize	   *keep_size;		/* ... or those that fit into so many tokens; NULL: by number */
	int64		clear_at_least; /* tokens; 0: all that may be cleared */
	bool		clear_inputs;
	List	   *exclude;		/* of char *: tools */
	const char *placeholder;
} ClearToolUses;

typedef struct ContextEditing
{
	List	   *edits;			/* of ClearToolUses * */
	bool		by_model;		/* count system prompt and tools, too, and by the estimate that budgets use */
	const char *counter;
	bool		persist;		/* edit the thread */
} ContextEditing;

static const char *const option_names[] = {"edits", "persist", "token_count_method", "token_counter", NULL};

/* ---------- options ---------- */

/* An option of an edit, which errors name as it stands in the JSON */
#define EDIT(key)	"edits." key

/* A number n: over n tokens, as in Python; or sizes, which are reached */
static void
read_trigger(MwMiddleware *m, Jsonb *edit, ClearToolUses *e)
{
	JsonbValue *v = mw_json_get(edit, "trigger");
	ListCell   *lc;

	if (v == NULL || v->type == jbvNumeric)
	{
		MwSize	   *size = palloc0(sizeof(MwSize));

		size->tokens = mw_opt_int(m, edit, "trigger", TRIGGER_TOKENS, 0, PG_INT32_MAX - 1) + 1;
		e->trigger = list_make1(size);
	}
	else
		e->trigger = mw_sizes_read(m, EDIT("trigger"), v);
	foreach(lc, e->trigger)
		mw_size_check(m, EDIT("trigger"), lfirst(lc), m->model);
}

static ClearToolUses *
read_edit(MwMiddleware *m, Jsonb *edit)
{
	static const char *const keys[] = {
		"clear_at_least", "clear_tool_inputs", "exclude_tools", "keep", "placeholder", "trigger", "type", NULL
	};
	ClearToolUses *e = palloc0(sizeof(ClearToolUses));
	JsonbValue *keep = mw_json_get(edit, "keep");
	char	   *type = mw_json_get_text(edit, "type");

	if (type != NULL && strcmp(type, "clear_tool_uses") != 0 && strcmp(type, "clear_tool_uses_20250919") != 0)
		mw_opt_wrong(m, EDIT("type"), "\"clear_tool_uses\"");
	mw_json_check_keys(edit, "option", "an edit", keys);
	read_trigger(m, edit, e);
	if (keep == NULL || keep->type == jbvNumeric)
		e->keep = mw_opt_int(m, edit, "keep", KEEP_RESULTS, 0, PG_INT32_MAX);
	else
	{
		e->keep_size = mw_size_read(m, EDIT("keep"), keep, false);
		mw_size_check(m, EDIT("keep"), e->keep_size, m->model);
		if (e->keep_size->messages > 0)
			e->keep = e->keep_size->messages;
	}
	e->clear_at_least = mw_opt_int(m, edit, "clear_at_least", 0, 0, PG_INT32_MAX);
	e->clear_inputs = mw_opt_bool(m, edit, "clear_tool_inputs", false);
	e->exclude = mw_opt_tools(m, edit, "exclude_tools");
	e->placeholder = mw_opt_text(m, edit, "placeholder", "[cleared]");
	return e;
}

static void
read_options(MwMiddleware *m, Jsonb *options)
{
	static const char *const methods[] = {"approximate", "model", NULL};
	ContextEditing *c = palloc0(sizeof(ContextEditing));
	JsonbValue *edits = mw_json_get(options, "edits");

	m->conf = c;
	if (edits != NULL)
	{
		if (!mw_value_is_array(edits))
			mw_opt_wrong(m, "edits", "a list of edits such as {\"type\": \"clear_tool_uses\"}");
		for (uint32 i = 0; i < JsonContainerSize(edits->val.binary.data); i++)
		{
			JsonbValue *edit = getIthJsonbValueFromContainer(edits->val.binary.data, i);

			if (!mw_value_is_object(edit))
				mw_opt_wrong(m, "edits", "a list of edits such as {\"type\": \"clear_tool_uses\"}");
			c->edits = lappend(c->edits, read_edit(m, JsonbValueToJsonb(edit)));
		}
	}
	if (c->edits == NIL)
		c->edits = list_make1(read_edit(m, DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")))));
	c->by_model = mw_opt_choice(m, options, "token_count_method", 0, methods) == 1;
	c->counter = mw_opt_counter(m, options);
	c->persist = mw_opt_bool(m, options, "persist", false);
}

/* ---------- counting ---------- */

static int64
count_one(const ContextEditing *c, const MwMsg *msg)
{
	char	   *text;
	int64		tokens;

	if (!c->by_model)
		return mw_count_msg(msg);
	text = mw_json_canonical(msg->json);
	tokens = mw_tokens_of_text(text, strlen(text));
	pfree(text);
	return tokens;
}

static int64
count_all(MwRun *run, const ContextEditing *c, const MwModelRequest *req, List *msgs)
{
	int64		tokens = 0;
	ListCell   *lc;

	if (c->counter != NULL)
		return mw_count_by(run, c->counter, msgs);
	foreach(lc, msgs)
		tokens += count_one(c, lfirst(lc));
	if (c->by_model)
	{
		Jsonb	   *tools = mw_tools_schemas(req->tools);
		char	   *text = tools == NULL ? "" : mw_json_canonical(tools);

		tokens += mw_tokens_of_text(text, strlen(text));
		if (req->system_prompt != NULL)
			tokens += mw_tokens_of_text(req->system_prompt, strlen(req->system_prompt));
	}
	return tokens;
}

/* ---------- the edit ---------- */

static Jsonb *
mark_of(const MwMsg *msg)
{
	Jsonb	   *metadata = mw_json_get_jsonb(msg->json, "metadata");

	return mw_json_is_object(metadata) ? mw_json_get_jsonb(metadata, "context_editing") : NULL;
}

static bool
is_cleared(const MwMsg *msg)
{
	Jsonb	   *mark = mark_of(msg);
	JsonbValue *cleared = mw_json_is_object(mark) ? mw_json_get(mark, "cleared") : NULL;

	return cleared != NULL && cleared->type == jbvBool && cleared->val.boolean;
}

static MwMsg *
cleared_result(MwRun *run, const MwMsg *msg, const char *placeholder)
{
	JsonbParseState *st = NULL;
	JsonbValue	yes = {.type = jbvBool, .val.boolean = true};

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "cleared");
	pushJsonbValue(&st, WJB_VALUE, &yes);
	push_member(&st, "strategy", "clear_tool_uses");
	return mw_msg_with_metadata(run, mw_msg_with_text(run, msg, placeholder), "context_editing",
								JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
}

static int
compare_ids(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* An assistant's message whose calls of these ids (of char *) have no arguments any more, and says so */
static MwMsg *
cleared_inputs(MwRun *run, const MwMsg *msg, List *more)
{
	MwToolCall *calls = palloc(sizeof(MwToolCall) * msg->ncalls);
	Jsonb	   *nothing = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	Jsonb	   *mark = mark_of(msg);
	Jsonb	   *before = mw_json_is_object(mark) ? mw_json_get_jsonb(mark, "cleared_tool_inputs") : NULL;
	int			nbefore = before != NULL && mw_json_is_array(before) ? JB_ROOT_COUNT(before) : 0;
	const char **ids = palloc(sizeof(char *) * (nbefore + list_length(more)));
	JsonbParseState *st = NULL;
	ListCell   *lc;
	int			n = 0;

	for (int i = 0; i < nbefore; i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(&before->root, i);

		if (v->type == jbvString)
			ids[n++] = mw_value_string(v);
	}
	foreach(lc, more)
		ids[n++] = lfirst(lc);
	qsort(ids, n, sizeof(char *), compare_ids);

	memcpy(calls, msg->calls, sizeof(MwToolCall) * msg->ncalls);
	for (int i = 0; i < msg->ncalls; i++)
		if (bsearch(&calls[i].id, ids, n, sizeof(char *), compare_ids) != NULL)
			calls[i].args = nothing;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "cleared_tool_inputs");
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < n; i++)
		if (i == 0 || strcmp(ids[i], ids[i - 1]) != 0)
			push_string(&st, WJB_ELEM, ids[i], strlen(ids[i]));
	pushJsonbValue(&st, WJB_END_ARRAY, NULL);
	return mw_msg_with_metadata(run, mw_msg_with_calls(run, msg, calls, msg->ncalls), "context_editing",
								JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)));
}

/* How many of the newest results stay: by number, or those that fit into a size of their own */
static int64
kept_results(MwRun *run, const ContextEditing *c, const ClearToolUses *e, List *results, int64 context)
{
	int64		target = e->keep_size == NULL ? 0 : mw_size_tokens(e->keep_size, context);
	int64		tokens = 0;
	int			kept = 0;

	if (e->keep_size == NULL || e->keep_size->messages > 0)
		return e->keep;
	if (target == 0)
		return KEEP_RESULTS;	/* a fraction of nobody knows what */
	for (int i = list_length(results) - 1; i >= 0; i--)
	{
		tokens += c->counter != NULL ? mw_count_by(run, c->counter, list_make1(list_nth(results, i))) : count_one(c, list_nth(results, i));
		if (tokens > target)
			break;
		kept++;
	}
	return kept;
}

/* The call that a result answers; NULL where it had no arguments that could be read */
static const MwToolCall *
call_of(const MwMsg *result, const MwMsg *caller)
{
	for (int i = 0; i < caller->ncalls; i++)
		if (strcmp(caller->calls[i].id, result->tool_call_id) == 0)
			return &caller->calls[i];
	return NULL;
}

/* What it brings to clear the arguments of a call */
static int64
input_tokens(const ContextEditing *c, const MwToolCall *call)
{
	char	   *args = mw_json_canonical(call->args);
	int			len = strlen(args);

	return c->by_model ? mw_tokens_of_text(args, len) - 1 : (len - 2) / 4;
}

/*
 * msgs is this request's own list, whose cells are replaced.  An assistant's
 * message is made anew once, however many of its calls are cleared.
 */
static void
apply(MwRun *run, const ContextEditing *c, const ClearToolUses *e, const MwModelRequest *req, List *msgs)
{
	int64		context = mw_model_context(run, req->model);
	int64		tokens = count_all(run, c, req, msgs);
	int64		reclaimed = 0;
	List	   *results = NIL;
	List	  **inputs = palloc0(sizeof(List *) * Max(1, list_length(msgs)));	/* by caller: ids of calls to clear */
	ListCell   *lc;
	int		   *pairs;
	int64		left;

	if (!mw_sizes_reached(e->trigger, tokens, list_length(msgs), context))
		return;
	foreach(lc, msgs)
		if (mw_msg_is(lfirst(lc), "tool"))
			results = lappend(results, lfirst(lc));
	left = list_length(results) - kept_results(run, c, e, results, context);
	pairs = mw_pairs(msgs);

	for (int i = 0; i < list_length(msgs) && left > 0; i++)
	{
		MwMsg	   *msg = list_nth(msgs, i);
		const MwToolCall *call;
		MwMsg	   *edited;

		if (!mw_msg_is(msg, "tool"))
			continue;
		left--;
		if (pairs[i] < 0 || is_cleared(msg))
			continue;
		call = call_of(msg, list_nth(msgs, pairs[i]));
		if (call == NULL || mw_lists(e->exclude, msg->name != NULL ? msg->name : call->name))
			continue;
		CHECK_FOR_INTERRUPTS();

		edited = cleared_result(run, msg, e->placeholder);
		lfirst(list_nth_cell(msgs, i)) = edited;
		if (e->clear_inputs)
			inputs[pairs[i]] = lappend(inputs[pairs[i]], unconstify(char *, msg->tool_call_id));
		if (e->clear_at_least > 0)
		{
			reclaimed = c->counter != NULL ? tokens - mw_count_by(run, c->counter, msgs) :
				reclaimed + count_one(c, msg) - count_one(c, edited) + (e->clear_inputs ? input_tokens(c, call) : 0);
			if (reclaimed >= e->clear_at_least)
				break;
		}
	}
	for (int i = 0; i < list_length(msgs); i++)
		if (inputs[i] != NIL)
			lfirst(list_nth_cell(msgs, i)) = cleared_inputs(run, list_nth(msgs, i), inputs[i]);
	pfree(pairs);
}

static MwModelResponse *
wrap_model(MwRun *run, MwMiddleware *m, const MwModelRequest *req, int level)
{
	const ContextEditing *c = m->conf;
	MwModelRequest *edited;
	ListCell   *lc;

	if (req->messages == NIL || c->persist)
		return mw_next_model(run, level, req);
	edited = mw_request_copy(req);
	edited->messages = list_copy(req->messages);
	foreach(lc, c->edits)
		apply(run, c, lfirst(lc), req, edited->messages);
	return mw_next_model(run, level, edited);
}

static MwPatch *
before_model(MwRun *run, MwMiddleware *m)
{
	const ContextEditing *c = m->conf;
	MwModelRequest req = {.model = run->first_model, .system_prompt = run->agent->system_prompt, .tools = run->offered};
	List	   *msgs;
	MwPatch    *patch = NULL;
	ListCell   *lc;

	if (!c->persist)
		return NULL;
	msgs = list_copy(run->msgs);
	foreach(lc, c->edits)
		apply(run, c, lfirst(lc), &req, msgs);
	for (int i = 0; i < list_length(msgs); i++)
	{
		if (list_nth(msgs, i) == list_nth(run->msgs, i))
			continue;
		if (patch == NULL)
			patch = mw_patch_new();
		mw_patch_put(patch, list_nth(msgs, i));
	}
	return patch;
}

const MwMiddlewareType mw_context_editing = {
	.type = "context_editing",
	.options = option_names,
	.read = read_options,
	.before_model = before_model,
	.wrap_model = wrap_model,
};
