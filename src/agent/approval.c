/*
 * approval.c - what waits for a person, as a run sees it.
 *
 * A gate is raised by a human_in_the_loop middleware, or by a tool's own row.
 * The verdict of "when" is what was stored: on resume the stored gates are asked
 * for and nothing is evaluated again.  What a gate lets through is remembered as
 * a hash of the tool and its restored arguments, and compared at the tool itself,
 * inside all hooks: what runs is what was approved, or nothing (MW605).
 *
 * Nothing here writes; approval_rows.c does that at the end of the leg, in the
 * caller's transaction: "done" is true only where the tool's effects are.
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "agent/approval.h"
#include "agent/frame.h"
#include "agent/run.h"
#include "policy/policy.h"
#include "stage/redact.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/json_push.h"

typedef struct Expected
{
	const char *id;				/* of the tool call */
	MwKey		hash;
	MwGate	   *gate;
	bool		ran;			/* once, which is what was approved */
} Expected;

typedef struct MwApprovals
{
	List	   *gates;			/* of MwGate *: known from earlier legs, and asked for in this one */
	List	   *expected;		/* of Expected * */
} MwApprovals;

static MwApprovals *
approvals(MwRun *run)
{
	if (run->approvals == NULL)
		run->approvals = MemoryContextAllocZero(run->cxt, sizeof(MwApprovals));
	return run->approvals;
}

/* ---------- gates ---------- */

MwKey
mw_approval_hash(const char *tenant, const MwPiiMap *map, const char *tool, Jsonb *args)
{
	MwHash		h;
	Jsonb	   *restored = map->n > 0 ? mw_json_map_strings(args, true, mw_restore_leaf, unconstify(MwPiiMap *, map)) : args;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "approval 1");
	mw_hash_text(&h, tenant);
	mw_hash_text(&h, tool);
	mw_hash_text(&h, mw_json_canonical(restored));
	return mw_hash_end(&h);
}

/* What a later transaction could not put back must not wait for one */
void
mw_approval_require_kept(const MwPiiMap *map, const MwToolCall *call)
{
	char	   *args = mw_json_canonical(call->args);
	char	   *lost = mw_pii_session_lost(map, args, strlen(args), false);

	if (lost != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("a call of tool \"%s\" cannot wait: the value of %s in its arguments is not kept", call->name, lost),
				 errdetail("The setting mw.pii_key_file is empty or was, so that what placeholders of a session stand for ends with the transaction."),
				 errhint("Write a file with a line \"1 KEY\", KEY being 64 hexadecimal digits, and name it: ALTER SYSTEM SET mw.pii_key_file = '/path'; SELECT pg_reload_conf();")));
}

/* A decision is for one call: where an answer has two with the same id, nobody could tell for which */
static void
require_one_call(MwRun *run, const MwToolCall *call)
{
	MwMsg	  **results;
	MwMsg	   *answer = mw_last_answer(run, &results);
	int			n = 0;

	for (int i = 0; answer != NULL && i < answer->ncalls; i++)
		n += strcmp(answer->calls[i].id, call->id) == 0 ? 1 : 0;
	if (n > 1)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ANSWER),
				 errmsg("the model's answer has %d tool calls with the id \"%s\"", n, call->id),
				 errdetail("Tool \"%s\" needs an approval, and a decision could not say which of them it is for.", call->name)));
}

MwGate *
mw_gate_new(MwRun *run, const char *middleware, bool batched, const MwToolCall *call)
{
	MwGate	   *gate = MemoryContextAllocZero(run->cxt, sizeof(MwGate));
	uint8		random[16];

	require_one_call(run, call);
	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("no random number can be had")));
	gate->interrupt_id = MemoryContextAllocZero(run->cxt, 33);
	for (int i = 0; i < 16; i++)
		sprintf(unconstify(char *, gate->interrupt_id) + 2 * i, "%02x", random[i]);
	gate->middleware = middleware;
	gate->batched = batched;
	gate->call = *call;
	gate->hash = mw_approval_hash(run->tenant, &run->map, call->name, call->args);
	gate->approvals = 1;
	gate->on_expiry = "reject";
	gate->expires_at = DT_NOEND;
	gate->run_id = run->run_id;
	gate->requested_by = run->role;
	gate->requested_through = run->through;
	gate->session = run->session;
	return gate;
}

MwGate *
mw_gate_find(MwRun *run, const char *middleware, const char *tool_call_id)
{
	ListCell   *lc;

	foreach(lc, approvals(run)->gates)
	{
		MwGate	   *gate = lfirst(lc);
		bool		same = middleware == NULL ? gate->middleware == NULL :
			gate->middleware != NULL && strcmp(gate->middleware, middleware) == 0;

		if (same && !gate->over && (gate->outcome == NULL || strcmp(gate->outcome, "failed") == 0) && strcmp(gate->call.id, tool_call_id) == 0)
			return gate;
	}
	return NULL;
}

bool
mw_gate_passed(MwRun *run, const char *tool_call_id)
{
	ListCell   *lc;

	foreach(lc, approvals(run)->expected)
	{
		Expected   *e = lfirst(lc);

		/* a caller's own gate takes the place of no other, and one whose call has run lets no second one pass */
		if (strcmp(e->id, tool_call_id) == 0 && !e->ran && (e->gate->middleware == NULL || strcmp(e->gate->middleware, MW_CALLER_GATES) != 0))
			return true;
	}
	return false;
}

void
mw_approval_turn(MwRun *run)
{
	MwApprovals *a = approvals(run);
	ListCell   *lc;

	a->expected = NIL;
	foreach(lc, a->gates)
	{
		MwGate	   *gate = lfirst(lc);

		if (gate->decision == NULL)
			continue;
		gate->over = true;
		if (gate->outcome == NULL)
			gate->outcome = "not_run";
	}
}

void
mw_approval_undone(MwRun *run, const char *tool_call_id)
{
	ListCell   *lc;

	foreach(lc, approvals(run)->expected)
	{
		Expected   *e = lfirst(lc);

		if (strcmp(e->id, tool_call_id) != 0)
			continue;
		e->ran = false;
		e->gate->outcome = NULL;
	}
	/* an answer in the tool's place too: the hooks that had it are run again, and are to find it again */
	foreach(lc, approvals(run)->gates)
	{
		MwGate	   *gate = lfirst(lc);

		if (!gate->over && gate->outcome != NULL && strcmp(gate->outcome, "not_run") == 0 && strcmp(gate->call.id, tool_call_id) == 0)
			gate->outcome = NULL;
	}
}

void
mw_approval_failed(MwRun *run, bool all_undone)
{
	ListCell   *lc;

	foreach(lc, approvals(run)->expected)
	{
		Expected   *e = lfirst(lc);

		if (e->ran && !all_undone)
			continue;
		e->ran = false;
		e->gate->outcome = "failed";
	}
}

void
mw_pause(MwRun *run, List *gates, bool raise)
{
	run->paused = MemoryContextAllocZero(run->cxt, sizeof(MwInterrupt));
	run->paused->gates = gates;
	if (raise)
		ereport(ERROR,
				(errcode(ERRCODE_MW_PAUSED),
				 errmsg("the run waits for an approval"),
				 errdetail("No hook can catch this: the run stops here once they have unwound.")));
}

void
mw_approval_note(MwRun *run)
{
	MwApprovals *a = approvals(run);
	ListCell   *lc;

	foreach(lc, run->paused->gates)
	{
		if (list_member_ptr(a->gates, lfirst(lc)))
			continue;
		mw_approval_require_kept(&run->map, &((MwGate *) lfirst(lc))->call);
		a->gates = lappend(a->gates, lfirst(lc));
	}
	run->paused = NULL;
}

void
mw_approval_expect(MwRun *run, MwGate *gate)
{
	MwApprovals *a = approvals(run);
	Expected   *e = NULL;
	ListCell   *lc;

	foreach(lc, a->expected)
	{
		if (((Expected *) lfirst(lc))->gate == gate)
			e = lfirst(lc);
	}
	if (e == NULL)
	{
		e = MemoryContextAllocZero(run->cxt, sizeof(Expected));
		e->id = gate->call.id;
		/* as it was when it was asked for or edited, whatever rows and placeholders say by now */
		e->hash = strcmp(mw_json_get_text(gate->decision, "type"), "edit") == 0 ? gate->edited : gate->hash;
		e->gate = gate;
	}
	e->ran = false;				/* a hook outside of the gate does it again */
	a->expected = lcons(e, list_delete_ptr(a->expected, e));
}

/* ---------- answers ---------- */

MwMsg *
mw_approval_answer(MwRun *run, const MwToolCall *call, Jsonb *decision)
{
	char	   *type = mw_json_get_text(decision, "type");
	char	   *message = mw_json_get_text(decision, "message");

	if (strcmp(type, "respond") == 0)
		return mw_msg_tool(run, call, message, false);
	if (message != NULL && message[0] != '\0')
		return mw_msg_tool(run, call, psprintf("User rejected the tool call for `%s` with reason: %s", call->name, message), true);
	return mw_msg_tool(run, call,
					   psprintf("User rejected the tool call for `%s` with id %s. The tool was not executed."
								" Do not retry this tool call unless the user explicitly requests it.", call->name, call->id), true);
}

/* ---------- at the tool itself ---------- */

static const char *const all_decisions[] = {"approve", "edit", "reject", "respond"};

static _Noreturn void
has_run(const MwToolCall *call)
{
	ereport(ERROR,
			(errcode(ERRCODE_MW_NOT_APPROVED),
			 errmsg("the call was approved once, and has run"),
			 errdetail("Tool \"%s\", call \"%s\".", call->name, call->id),
			 errhint("A hook that calls mw_next() several times has to stand outside of the approval: before it in the list.")));
}

/* A gate of the tool's own row; nothing stands outside of that */
static MwGate *
own_gate(MwRun *run, const MwTool *tool, const MwToolCall *call)
{
	MwGate	   *gate = mw_gate_find(run, NULL, call->id);
	JsonbValue *v;
	ListCell   *lc;

	if (gate != NULL)
		return gate;
	foreach(lc, approvals(run)->expected)
	{
		Expected   *e = lfirst(lc);

		if (e->ran && e->gate->middleware == NULL && strcmp(e->id, call->id) == 0)
			has_run(call);
	}
	gate = mw_gate_new(run, NULL, false, call);
	v = mw_json_get(tool->approval, "allowed_decisions");
	if (v != NULL && v->type == jbvBinary)
	{
		JsonbIterator *it = JsonbIteratorInit(v->val.binary.data);
		JsonbIteratorToken tok;
		JsonbValue	item;

		while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
			if (tok == WJB_ELEM && item.type == jbvString)
				gate->allowed = lappend(gate->allowed, pnstrdup(item.val.string.val, item.val.string.len));
	}
	else
	{
		for (int i = 0; i < lengthof(all_decisions); i++)
			gate->allowed = lappend(gate->allowed, unconstify(char *, all_decisions[i]));
	}
	v = mw_json_get(tool->approval, "approvals");
	if (v != NULL && v->type == jbvNumeric)
		gate->approvals = DatumGetInt32(DirectFunctionCall1(numeric_int4, NumericGetDatum(v->val.numeric)));
	v = mw_json_get(tool->approval, "expires_in");
	if (v != NULL)
		gate->expires_ms = mw_duration_of(v, "expires_in");
	gate->description = psprintf("Tool execution requires approval\n\nTool: %s\nArgs: %s", call->name, mw_json_canonical(call->args));
	gate->response_schema = mw_response_schema(gate->allowed, call, tool);
	return gate;
}

static _Noreturn void
not_approved(MwRun *run, const MwToolCall *call)
{
	char	   *args = mw_json_canonical(call->args);
	char	   *lost = mw_pii_session_lost(&run->map, args, strlen(args), true);

	if (lost != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_APPROVED),
				 errmsg("what is about to run is not what was approved"),
				 errdetail("Tool \"%s\", call \"%s\": the value of %s was erased, or its key is not in the file of mw.pii_key_file.", call->name, call->id, lost),
				 errhint("Put the key's line back, or abandon the call by a new prompt.")));
	ereport(ERROR,
			(errcode(ERRCODE_MW_NOT_APPROVED),
			 errmsg("what is about to run is not what was approved"),
			 errdetail("Tool \"%s\", call \"%s\": its name or arguments were changed after the decision.", call->name, call->id),
			 errhint("A middleware that changes arguments has to stand outside of the approval: before it in the list.")));
}

MwToolResponse *
mw_approval_check(MwRun *run, const MwTool *tool, MwToolCall *call)
{
	MwGate	   *gate;
	ListCell   *lc;

	/* what was asked for is heeded though the tool's row asks no more: what was rejected does not run for that */
	gate = tool->approval != NULL ? own_gate(run, tool, call) : mw_gate_find(run, NULL, call->id);
	if (gate != NULL)
	{
		char	   *type;

		if (gate->decision == NULL)
			mw_pause(run, list_make1(gate), true);
		type = mw_json_get_text(gate->decision, "type");
		if (strcmp(type, "reject") == 0 || strcmp(type, "respond") == 0)
		{
			MwToolResponse *resp = palloc0(sizeof(MwToolResponse));

			gate->outcome = "not_run";
			resp->msg = mw_approval_answer(run, call, gate->decision);
			return resp;
		}
		if (strcmp(type, "edit") == 0)
			call->args = mw_json_get_jsonb(mw_json_get_jsonb(gate->decision, "edited_action"), "args");
		mw_approval_expect(run, gate);
	}
	foreach(lc, approvals(run)->expected)
	{
		Expected   *e = lfirst(lc);
		MwKey		now;

		if (strcmp(e->id, call->id) != 0)
			continue;
		if (e->ran)
			has_run(call);
		now = mw_approval_hash(run->tenant, &run->map, call->name, call->args);
		if (memcmp(&now, &e->hash, sizeof(MwKey)) != 0)
			not_approved(run, call);
		break;
	}
	return NULL;
}

void
mw_approval_ran(MwRun *run, const MwToolCall *call, bool failed)
{
	ListCell   *lc;

	foreach(lc, approvals(run)->expected)
	{
		Expected   *e = lfirst(lc);

		if (strcmp(e->id, call->id) != 0)
			continue;
		e->gate->outcome = failed ? "failed" : "ran";
		e->ran = !failed;
	}
}

/* A run that can pause keeps its thread: it has to go on with it */
void
mw_approval_keep(MwRun *run)
{
	ListCell   *lc;
	bool		asks = mw_json_get(run->options, "interrupt_on") != NULL;

	foreach(lc, run->tools)
		asks |= ((MwTool *) lfirst(lc))->approval != NULL;
	if (asks && run->session == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("a call with a tool that needs an approval needs a session"),
				 errdetail("The run pauses until somebody has decided, and is resumed by the session's name."),
				 errhint("Name the conversation in the argument session.")));
	run->memory |= asks;
}

/* ---------- all of them ---------- */

void
mw_approval_load(MwRun *run, List *gates)
{
	approvals(run)->gates = gates;
}

List *
mw_approval_gates(MwRun *run)
{
	return approvals(run)->gates;
}
