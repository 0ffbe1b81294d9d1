/*
 * state.c - the state of a run beside its messages: declared fields, patches.
 *
 * A field is declared by the agent or by one of its middlewares, with a reducer
 * that says what a new value does to the old one.  The fields that are tracked
 * belong to the thread and outlive the run; those that are not belong to the
 * run, over its pauses.  In memory both lie in one object, run->state; save()
 * tells them apart (run.c).
 *
 * Only the loop calls mw_state_apply.  Everybody else makes patches.
 */
#include "mw.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "agent/thread.h"
#include "util/json.h"
#include "util/json_push.h"

/* ---------- patches ---------- */

MwPatch *
mw_patch_new(void)
{
	return palloc0(sizeof(MwPatch));
}

static void
add_op(MwPatch *patch, MwMsgOpKind kind, MwMsg *msg, const char *id)
{
	MwMsgOp    *op = palloc0(sizeof(MwMsgOp));

	op->kind = kind;
	op->msg = msg;
	op->id = id;
	patch->msgs = lappend(patch->msgs, op);
}

void
mw_patch_put(MwPatch *patch, MwMsg *msg)
{
	add_op(patch, MW_MSG_PUT, msg, NULL);
}

void
mw_patch_put_before(MwPatch *patch, MwMsg *msg, const char *before)
{
	add_op(patch, MW_MSG_PUT, msg, before);
}

void
mw_patch_remove(MwPatch *patch, const char *id)
{
	add_op(patch, MW_MSG_REMOVE, NULL, id);
}

void
mw_patch_remove_all(MwPatch *patch)
{
	add_op(patch, MW_MSG_REMOVE_ALL, NULL, NULL);
}

void
mw_patch_field(MwPatch *patch, const char *name, JsonbValue *value)
{
	patch->fields = mw_json_with(patch->fields, name, value);
}

void
mw_patch_int(MwPatch *patch, const char *name, int64 value)
{
	JsonbValue	v;

	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(value);
	mw_patch_field(patch, name, &v);
}

/* ---------- reading the state ---------- */

JsonbValue *
mw_state_get(MwRun *run, const char *name)
{
	return mw_json_get(run->state, name);
}

static int64
integer_of(JsonbValue *v, int64 otherwise)
{
	if (v == NULL || v->type != jbvNumeric)
		return otherwise;
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric)));
}

int64
mw_state_int(MwRun *run, const char *name, int64 otherwise)
{
	return integer_of(mw_state_get(run, name), otherwise);
}

int64
mw_state_count(MwRun *run, const char *name, const char *key)
{
	JsonbValue *v = mw_state_get(run, name);

	if (!mw_value_is_object(v))
		return 0;
	return integer_of(getKeyJsonValueFromContainer(v->val.binary.data, key, strlen(key), NULL), 0);
}

/* With what was made before, where that is still true: each hook of a step sees the same state */
Jsonb *
mw_state_json(MwRun *run)
{
	MwJsonEach	each;
	MwJsonMember *members;
	MemoryContext old;
	int			n = 0;

	if (run->seen_state.json != NULL && run->seen_state.msgs == run->msgs && run->seen_state.state == run->state &&
		run->seen_state.structured == run->structured)
		return run->seen_state.json;

	old = MemoryContextSwitchTo(run->cxt);
	members = palloc(sizeof(MwJsonMember) * (JB_ROOT_COUNT(run->state) + 2));
	each = mw_json_each(&run->state->root);
	while (mw_json_next(&each))
		members[n++] = (MwJsonMember) {each.key.val.string.val, each.key.val.string.len, each.value};
	if (run->structured != NULL)
		members[n++] = mw_json_member("structured_response", mw_json_value(run->structured));
	members[n++] = mw_json_member("messages", mw_json_value(mw_msgs_json(run->msgs)));
	run->seen_state.json = mw_json_pack_object(members, n);
	run->seen_state.msgs = run->msgs;
	run->seen_state.state = run->state;
	run->seen_state.structured = run->structured;
	MemoryContextSwitchTo(old);
	return run->seen_state.json;
}

/* ---------- fields ---------- */

static const char *const field_keys[] = {"default", "private", "reducer", "untracked", NULL};

static bool
flag(Jsonb *spec, const char *key, const char *field, const char *owner)
{
	JsonbValue *v = mw_json_get(spec, key);

	if (v == NULL)
		return false;
	if (v->type != jbvBool)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("\"%s\" of the state field \"%s\" of %s must be true or false", key, field, owner)));
	return v->val.boolean;
}

List *
mw_fields_read(Jsonb *json, const char *owner)
{
	List	   *fields = NIL;
	MwJsonEach	each;

	if (json == NULL)
		return NIL;
	if (!mw_json_is_object(json))
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the state of %s must be an object", owner),
				 errhint("Such as {\"seen\": {\"default\": 0}, \"log\": {\"reducer\": \"append\"}}.")));
	each = mw_json_each(&json->root);
	while (mw_json_next(&each))
	{
		MwField    *field = palloc0(sizeof(MwField));
		Jsonb	   *spec;
		char	   *reducer;

		field->name = mw_value_string(&each.key);
		field->owner = owner;
		if (strcmp(field->name, "messages") == 0 || strcmp(field->name, "jump_to") == 0 || strcmp(field->name, "structured_response") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("%s declares the state field \"%s\", which is mw's own", owner, field->name)));
		spec = each.value.type == jbvNull ? NULL : JsonbValueToJsonb(&each.value);
		if (spec != NULL && !mw_json_is_object(spec))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("the state field \"%s\" of %s must be an object", field->name, owner),
					 errhint("Such as {\"default\": 0}; known are default, private, reducer and untracked.")));
		if (spec != NULL)
		{
			mw_json_check_keys(spec, "setting", "a state field", field_keys);
			field->initial = mw_json_get(spec, "default");
			field->private = flag(spec, "private", field->name, owner);
			field->untracked = flag(spec, "untracked", field->name, owner);
			reducer = mw_json_get_text(spec, "reducer");
			if (reducer != NULL && strcmp(reducer, "append") != 0 && strcmp(reducer, "replace") != 0)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("the reducer of the state field \"%s\" of %s is neither append nor replace", field->name, owner)));
			field->append = reducer != NULL && strcmp(reducer, "append") == 0;
		}
		fields = lappend(fields, field);
	}
	return fields;
}

List *
mw_fields_join(List *all, List *more)
{
	ListCell   *lc;

	foreach(lc, more)
	{
		MwField    *field = lfirst(lc);
		MwField    *other = mw_field_find(all, field->name);

		if (other == NULL)
			all = lappend(all, field);
		else if (other->append != field->append)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("the state field \"%s\" has two reducers", field->name),
					 errdetail("%s and %s declare it, one with append and one with replace.", other->owner, field->owner),
					 errhint("Give one of them another name.")));
	}
	return all;
}

MwField *
mw_field_find(List *fields, const char *name)
{
	ListCell   *lc;

	foreach(lc, fields)
	{
		MwField    *field = lfirst(lc);

		if (strcmp(field->name, name) == 0)
			return field;
	}
	return NULL;
}

/* Counts of a middleware's own: a thread's, and a run's, which lives as long as the run */
List *
mw_fields_count(const char *owner, const char *thread, const char *run)
{
	MwField    *of_thread = palloc0(sizeof(MwField));
	MwField    *of_run = palloc0(sizeof(MwField));

	of_thread->name = thread;
	of_run->name = run;
	of_thread->owner = of_run->owner = owner;
	of_thread->private = of_run->private = true;
	of_run->untracked = true;
	return list_make2(of_thread, of_run);
}

/* ---------- applying ---------- */

/* Old value and new one under a reducer that appends */
static JsonbValue *
appended(JsonbValue *old, JsonbValue *value)
{
	JsonbParseState *st = NULL;
	JsonbValue *both[2] = {old, value};

	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < 2; i++)
	{
		JsonbValue *v = both[i];

		if (v == NULL || v->type == jbvNull)
			continue;
		if (mw_value_is_array(v))
		{
			MwJsonEach	each = mw_json_each(v->val.binary.data);

			while (mw_json_next(&each))
				pushJsonbValue(&st, WJB_ELEM, &each.value);
		}
		else
			pushJsonbValue(&st, WJB_ELEM, v);
	}
	return pushJsonbValue(&st, WJB_END_ARRAY, NULL);
}

void
mw_state_apply(MwRun *run, Jsonb *fields)
{
	MwJsonEach	each = mw_json_each(&fields->root);

	while (mw_json_next(&each))
	{
		char	   *name = mw_value_string(&each.key);
		MwField    *field;

		if (strcmp(name, "structured_response") == 0)
		{
			run->structured = each.value.type == jbvNull ? NULL : JsonbValueToJsonb(&each.value);
			continue;
		}
		field = mw_field_find(run->agent->fields, name);
		run->state = mw_json_with(run->state, name,
								 field != NULL && field->append ? appended(mw_state_get(run, name), &each.value) : &each.value);
	}
}

/* The fields of one kind: those of the thread, of the run alone, or those that a result may show */
Jsonb *
mw_state_part(MwRun *run, MwStatePart part)
{
	JsonbParseState *st = NULL;
	MwJsonEach	each = mw_json_each(&run->state->root);

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	while (mw_json_next(&each))
	{
		MwField    *field = mw_field_find(run->agent->fields, mw_value_string(&each.key));
		bool		untracked = field != NULL && field->untracked;

		if (part == MW_STATE_THREAD ? untracked : part == MW_STATE_RUN ? !untracked : untracked || (field != NULL && field->private))
			continue;
		pushJsonbValue(&st, WJB_KEY, &each.key);
		pushJsonbValue(&st, WJB_VALUE, &each.value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

void
mw_state_begin(MwRun *run, Jsonb *thread, Jsonb *scratch)
{
	ListCell   *lc;

	run->state = mw_json_parse("{}", 2, NULL);
	foreach(lc, run->agent->fields)
	{
		MwField    *field = lfirst(lc);

		if (field->initial != NULL)
			run->state = mw_json_with(run->state, field->name, field->initial);
	}
	if (thread != NULL)
		run->state = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(run->state), JsonbPGetDatum(thread)));
	if (scratch != NULL)
		run->state = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(run->state), JsonbPGetDatum(scratch)));
}
