/*
 * hook_call.c - a user's function inside a run: how it is called, and what it
 * may change.
 *
 * Hooks and options that name a function are f(jsonb, jsonb), in any language,
 * run as the caller.  What one wants changed is checked here, and from then on
 * it is a patch like one of a middleware in C.  Tools change the state by the
 * same patches.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "agent/hooks.h"
#include "agent/values.h"
#include "agent/run.h"
#include "agent/tool.h"
#include "policy/userfunc.h"
#include "util/json.h"
#include "util/json_push.h"

Jsonb *
mw_runtime_json(MwRun *run)
{
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "tenant", run->tenant);
	if (run->session != NULL)
		push_member(&st, "session", run->session);
	if (run->agent->name != NULL)
		push_member(&st, "agent", run->agent->name);
	push_member(&st, "run", run->run_id_text);
	push_int(&st, "turn", run->turn);
	push_int(&st, "call", run->calls);
	push_member(&st, "request_id", run->base->request_id);
	if (run->context != NULL)
		push_json(&st, "context", run->context);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/* ---------- calling ---------- */

/* f(subject, runtime) as the caller; errors keep their code and message, and are noted as the hook's unless they came from further in */
Jsonb *
mw_hook_call(MwRun *run, MwFrame *frame, const char *signature, const char *who, const char *where, Jsonb *subject)
{
	Datum		args[2] = {JsonbPGetDatum(mw_reveal_show(run, frame->reveal, subject)), JsonbPGetDatum(mw_runtime_json(run))};
	MemoryContext cxt = CurrentMemoryContext;
	Oid			type;
	bool		isnull = true;
	bool		canceled;
	Datum		result = (Datum) 0;
	Jsonb	   *jb = NULL;
	MwToolTimer timer;

	mw_frame_check(run);
	mw_tool_timer_start(&timer, run->agent->hook_timeout_ms);
	frame->timer = &timer;
	PG_TRY();
	{
		result = mw_userfunc_call_hook(signature, who, 2, args, &type, &isnull);
	}
	PG_CATCH();
	{
		MwFaultKind kind;
		const char *a;
		const char *b;
		ErrorData  *edata;

		mw_frame_pop(frame);
		MemoryContextSwitchTo(run->cxt);
		edata = CopyErrorData();
		canceled = mw_tool_timer_cut(edata);
		if (mw_tool_timer_stop(&timer, canceled) && canceled)
		{
			FlushErrorState();
			ereport(ERROR,
					(errcode(ERRCODE_MW_HOOK_FAILED),
					 errmsg("%s of middleware \"%s\" did not end within hook_timeout", where, who),
					 errdetail("It had %d ms.", run->agent->hook_timeout_ms)));
		}
		mw_frame_note(run);
		if (run->sticky == NULL && !mw_fault_of(run, edata, &kind, &a, &b) && !mw_errcode_is_ours(edata->sqlerrcode))
			mw_fault_from(run, MW_FAULT_HOOK, who, where, edata);
		PG_RE_THROW();
	}
	PG_END_TRY();
	(void) mw_tool_timer_stop(&timer, false);
	mw_frame_pop(frame);
	mw_frame_check(run);
	MemoryContextSwitchTo(cxt);
	if (!isnull)
	{
		if (type == TEXTOID)
		{
			JsonbValue	v;

			v.type = jbvString;
			v.val.string.val = TextDatumGetCString(result);
			v.val.string.len = strlen(v.val.string.val);
			jb = JsonbValueToJsonb(&v);
		}
		else
			jb = DatumGetJsonbPCopy(result);
		if (JB_ROOT_IS_SCALAR(jb) && JB_ROOT_COUNT(jb) == 1)
		{
			JsonbValue *only = getIthJsonbValueFromContainer(&jb->root, 0);

			if (only->type == jbvNull)
				jb = NULL;
		}
	}
	return mw_reveal_hide(run, frame->reveal, jb);
}

Jsonb *
mw_option_call(MwRun *run, const char *signature, Jsonb *subject, const char *what)
{
	MwFrame		frame;

	mw_frame_push(&frame, run, MW_FRAME_PLAIN);
	return mw_hook_call(run, &frame, signature, what, NULL, subject);
}

/* ---------- patches ---------- */

static MwJump
read_jump(const char *word, const char *who, List *can_jump_to)
{
	static const char *const words[] = {"end", "model", "tools"};
	ListCell   *lc;

	for (int i = 0; i < lengthof(words); i++)
	{
		if (strcmp(word, words[i]) != 0)
			continue;
		foreach(lc, can_jump_to)
		{
			if (strcmp(lfirst(lc), word) == 0)
				return (MwJump) (MW_JUMP_END + i);
		}
		ereport(ERROR,
				(errcode(ERRCODE_MW_HOOK_FAILED),
				 errmsg("%s jumped to \"%s\", which it does not declare", who, word),
				 errhint("Declare it: {\"type\": \"custom\", \"can_jump_to\": [\"%s\"], ...}.", word)));
	}
	bad_hook(who, "jump_to is none of end, model and tools.");
	return MW_JUMP_NONE;		/* not reached */
}

static void
read_message_op(MwRun *run, MwPatch *patch, JsonbValue *item, const char *who)
{
	Jsonb	   *json;
	char	   *remove;

	if (!mw_value_is_object(item))
		bad_hook(who, "An element of messages is no object.");
	json = JsonbValueToJsonb(item);
	remove = mw_json_get_text(json, "remove");
	if (remove == NULL)
		mw_patch_put(patch, mw_run_redacted(run, mw_msg_read(run, json, who)));
	else if (strcmp(remove, "__remove_all__") == 0)
		mw_patch_remove_all(patch);
	else
		mw_patch_remove(patch, remove);
}

static bool
is_declared(MwRun *run, const char *name)
{
	ListCell   *lc;

	foreach(lc, run->agent->fields)
	{
		if (strcmp(((MwField *) lfirst(lc))->name, name) == 0)
			return true;
	}
	return false;
}

MwPatch *
mw_patch_read(MwRun *run, Jsonb *json, const char *who, List *can_jump_to)
{
	MwPatch    *patch;
	MwJsonEach	each;

	if (json == NULL)
		return NULL;
	if (!mw_json_is_object(json))
		bad_hook(who, "It is neither an object nor NULL.");
	patch = mw_patch_new();
	each = mw_json_each(&json->root);
	while (mw_json_next(&each))
	{
		char	   *name = mw_value_string(&each.key);

		if (strcmp(name, "messages") == 0)
		{
			if (each.value.type == jbvNull)
				continue;
			if (mw_value_is_array(&each.value))
			{
				MwJsonEach	item = mw_json_each(each.value.val.binary.data);

				while (mw_json_next(&item))
					read_message_op(run, patch, &item.value, who);
			}
			else
				read_message_op(run, patch, &each.value, who);
		}
		else if (strcmp(name, "jump_to") == 0)
		{
			if (each.value.type == jbvString)
				patch->jump = read_jump(mw_value_string(&each.value), who, can_jump_to);
			else if (each.value.type != jbvNull)
				bad_hook(who, "jump_to is no text.");
		}
		else if (strcmp(name, "structured_response") == 0 || is_declared(run, name))
			mw_patch_field(patch, name, &each.value);
		else
			ereport(ERROR,
					(errcode(ERRCODE_MW_HOOK_FAILED),
					 errmsg("%s changed the state field \"%s\", which nobody declares", who, name),
					 errhint("Declare it: {\"type\": \"custom\", \"state\": {\"%s\": {\"default\": null}}, ...}.", name)));
	}
	return patch;
}
