/*
 * decide.c - whose decisions they may be, how they are kept, and mw_decide.
 *
 * What they may say is checked by decision.c.  An agent's own gate may be decided
 * by whoever may act for the tenant, as in LangChain, until reviewers are named
 * for the tenant or the tool; a gate in a tool's row only by named reviewers.  A
 * reviewer needs nothing but that grant.
 *
 * Edits, messages and comments are kept with the session's placeholders in place
 * of personal data, and the values come back where the tool runs.
 */
#include "mw.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "agent/approval.h"
#include "agent/pii.h"
#include "guc.h"
#include "policy/admin.h"
#include "policy/policy.h"
#include "policy/redaction.h"
#include "policy/reviewers.h"
#include "policy/session_lock.h"
#include "stage/redact.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/spi.h"

/* ---------- who ---------- */

/* tool: the one that the interrupt asks about, or the one that an edit puts in its place */
static void
require_right(const char *tenant, const MwGate *gate, const char *tool)
{
	MwReviewRight right = mw_review_right(tenant, tool);
	const char *role = GetUserNameFromId(GetUserId(), false);
	bool		anybodys = !right.named && gate->middleware != NULL;
	Oid			own = anybodys || right.own ? InvalidOid : mw_person_asked(tenant, gate);

	if (anybodys)
		mw_require_may_see(tenant, gate->session);
	else if (!right.may)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_YOUR_DECISION),
				 errmsg("role \"%s\" may not decide this interrupt", role),
				 errdetail("It asks about tool \"%s\" of tenant \"%s\".", tool, tenant),
				 errhint("SELECT mw_grant_reviewer(%s, %s);", quote_literal_cstr(tenant), quote_literal_cstr(quote_identifier(role)))));
	if (gate->claimed_until > GetCurrentTimestamp() && !has_privs_of_role(GetUserId(), gate->claimed_by) &&
		mw_could_decide(gate->claimed_by, tenant, gate->call.name, gate->middleware != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_YOUR_DECISION),
				 errmsg("another reviewer is at work on this interrupt"),
				 errdetail("Role \"%s\" has claimed it until %s.", GetUserNameFromId(gate->claimed_by, true), timestamptz_to_str(gate->claimed_until)),
				 errhint("Let that reviewer decide, or wait until then.")));
	if (OidIsValid(own))
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_YOUR_DECISION),
				 errmsg("role \"%s\" may not decide its own request", role),
				 errdetail("It was made by role \"%s\".", GetUserNameFromId(own, true)),
				 errhint("Let another reviewer decide, or: SELECT mw_grant_reviewer(%s, %s, may_decide_own => true);",
						 quote_literal_cstr(tenant), quote_literal_cstr(quote_identifier(role)))));
}

/* Another tool in its place, which has reviewers by its own name, is theirs to let through */
static void
require_right_of_edit(const char *tenant, const MwGate *gate, Jsonb *action)
{
	const char *tool = action != NULL ? mw_json_get_text(action, "name") : gate->call.name;

	if (strcmp(tool, gate->call.name) != 0 && mw_review_right(tenant, tool).named)
		require_right(tenant, gate, tool);
}

/* ---------- its texts ---------- */

/* Whoever is a reviewer and no more may name placeholders that the interrupt shows, and no others: it would learn what they stand for */
static void
check_names(const char *tenant, const MwGate *gate, const MwPiiMap *map, Jsonb *decision)
{
	char	   *s = mw_json_canonical(decision);
	char	   *shown;
	MwLoose		l;

	if (strchr(s, '<') == NULL || mw_may_act(tenant))
		return;
	shown = psprintf("%s\n%s", mw_json_canonical(gate->call.args), gate->description);
	mw_loose_start(&l, s, strlen(s));
	while (mw_loose_next(&l))
	{
		if (mw_pii_is_issued(map, l.strict + 1, l.type_len, l.number) && strstr(shown, l.strict) == NULL)
			mw_decision_does_not_fit("the decision for tool '%s' names %s, which is not in what was shown", gate->call.name, l.strict);
	}
}

/* A decision with the values that its placeholders stand for, as the tool would get them; NULL where it names none */
static Jsonb *
with_values(const char *tenant, const MwGate *gate, const MwDecisionTexts *texts, Jsonb *decision)
{
	if (texts->policy == NULL || texts->map->n == 0 || strchr(mw_json_canonical(decision), '<') == NULL)
		return NULL;
	check_names(tenant, gate, texts->map, decision);
	return mw_json_map_strings(decision, true, mw_restore_leaf, texts->map);
}

/* {"content": ...}: texts as messages are, numbers that are somebody's number too */
static Jsonb *
as_message(Jsonb *decision, const char *comment)
{
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "content");
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_key(&st, "decision");
	mw_push_jsonb(&st, WJB_VALUE, decision);
	if (comment != NULL)
		push_member(&st, "comment", comment);
	pushJsonbValue(&st, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

/*
 * What reviewers type is kept like all that is said in a session.  A placeholder
 * in it stands for the value that it stands for there.  Returns the comment.
 */
static const char *
redact_texts(const char *tenant, List *matches, const char *comment, const MwDecisionTexts *texts)
{
	int			n = list_length(matches);
	MwMessage  *messages = palloc0(sizeof(MwMessage) * n);
	MwRoleSave	save;
	ListCell   *lc;
	int			i = 0;

	if (texts->policy != NULL)
	{
		foreach(lc, matches)
		{
			MwMatch    *m = lfirst(lc);

			check_names(tenant, m->gate, texts->map, m->decision);
			messages[i++] = (MwMessage) {.role = "user", .json = as_message(m->decision, comment), .from_caller = true};
		}
		mw_become_role(texts->as, &save);
		mw_redact_messages(texts->policy, texts->map, messages, n, false, mw_after_ms(mw_guc_default_timeout_ms), texts->notices);
		mw_pii_session_save(texts->map, texts->policy);
		mw_become_caller(&save);
	}
	i = 0;
	foreach(lc, matches)
	{
		MwMatch    *m = lfirst(lc);
		Jsonb	   *kept = messages[i].json != NULL ? mw_json_get_jsonb(messages[i].json, "content") : NULL;
		Jsonb	   *action;

		i++;
		if (kept != NULL)
		{
			m->decision = mw_json_get_jsonb(kept, "decision");
			comment = mw_json_get_text(kept, "comment");
		}
		action = mw_json_get_jsonb(m->decision, "edited_action");
		if (action != NULL)
		{
			MwToolCall	call = m->gate->call;

			call.name = mw_json_get_text(action, "name");
			call.args = mw_json_get_jsonb(action, "args");
			if (texts->later)
				mw_approval_require_kept(texts->map, &call);
			m->gate->edited = mw_approval_hash(tenant, texts->map, call.name, call.args);
		}
	}
	return comment;
}

/* ---------- recording ---------- */

/* The log has the whole story: the note, too */
static Jsonb *
with_comment(Jsonb *decision, const char *comment)
{
	JsonbParseState *st = NULL;

	if (comment == NULL)
		return decision;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "comment", comment);
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(decision),
											  JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)))));
}

static void
record(const char *tenant, MwGate *gate, Jsonb *decision, const char *comment)
{
	char	   *type = mw_json_get_text(decision, "type");

	if (strcmp(type, "approve") != 0 || JB_ROOT_COUNT(gate->decisions) + 1 >= gate->approvals)
	{
		gate->status = MW_GATE_DECIDED;
		gate->decision = decision;
	}
	mw_gate_add_decision(gate, decision, comment);
	mw_gate_decided(tenant, gate);
	mw_approval_log(tenant, gate, "decided", with_comment(decision, comment));
}

void
mw_gates_expire(const char *tenant, List *gates)
{
	TimestampTz now = GetCurrentTimestamp();
	ListCell   *lc;

	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);
		JsonbParseState *st = NULL;

		if (gate->status != MW_GATE_OPEN || gate->expires_at > now)
			continue;
		pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
		push_member(&st, "type", "reject");
		push_member(&st, "message", "nobody decided in time");
		gate->decision = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
		gate->status = MW_GATE_EXPIRED;
		mw_gate_add_decision(gate, gate->decision, "expired");
		mw_gate_decided(tenant, gate);
		mw_approval_log(tenant, gate, "expired", NULL);
	}
}

void
mw_gates_decide(const char *tenant, List *gates, const MwAgent *agent, Jsonb *decisions, const char *interrupt_id, const char *comment,
				const MwDecisionTexts *texts, List **decided)
{
	List	   *matches = mw_decision_match(tenant, gates, decisions, interrupt_id);
	ListCell   *lc;

	foreach(lc, matches)
	{
		MwMatch    *m = lfirst(lc);

		require_right(tenant, m->gate, m->gate->call.name);
		mw_decision_check(m->gate, agent, m->decision, with_values(tenant, m->gate, texts, m->decision));
		m->decision = mw_decision_plain(m->decision);
		require_right_of_edit(tenant, m->gate, mw_json_get_jsonb(m->decision, "edited_action"));
	}
	comment = redact_texts(tenant, matches, comment, texts);
	foreach(lc, matches)
	{
		MwMatch    *m = lfirst(lc);

		record(tenant, m->gate, m->decision, comment);
		if (decided != NULL)
			*decided = lappend(*decided, m->gate);
	}
}

/* ---------- SQL ---------- */

static char *
text_or_null(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* The newest run of a session, as it was begun */
typedef struct Newest
{
	pg_uuid_t	run_id;
	char	   *agent;			/* NULL: none */
	char	   *owner;			/* the tenant whose agent it is */
	int			version;
	char	   *status;
	Jsonb	   *options;		/* NULL: none */
	Oid			role;
} Newest;

static bool
newest_run(const char *tenant, const char *session, Newest *run)
{
	static MwStmt stmt = {
		"SELECT r.run_id, r.agent, r.version, r.status, r.options, r.role::pg_catalog.oid, r.agent_tenant FROM mw.session AS s"
		" JOIN mw.run AS r ON r.tenant OPERATOR(pg_catalog.=) s.tenant AND r.run_id OPERATOR(pg_catalog.=) s.run_id"
		" WHERE s.tenant OPERATOR(pg_catalog.=) $1 AND s.session OPERATOR(pg_catalog.=) $2",
		2, {TEXTOID, TEXTOID}
	};
	MemoryContext cxt = CurrentMemoryContext;
	Datum		values[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(session)};
	bool		found = false;

	SPI_connect();
	if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) > 0)
	{
		HeapTuple	row = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MemoryContext old = MemoryContextSwitchTo(cxt);
		bool		isnull;
		Datum		options;

		found = true;
		run->run_id = *DatumGetUUIDP(SPI_getbinval(row, desc, 1, &isnull));
		run->agent = SPI_getvalue(row, desc, 2);
		run->version = DatumGetInt32(SPI_getbinval(row, desc, 3, &isnull));
		run->status = SPI_getvalue(row, desc, 4);
		options = SPI_getbinval(row, desc, 5, &isnull);
		run->options = isnull ? NULL : DatumGetJsonbPCopy(options);
		run->role = DatumGetObjectId(SPI_getbinval(row, desc, 6, &isnull));
		run->owner = SPI_getvalue(row, desc, 7);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return found;
}

/* Whether a decision holds anything that somebody typed */
static bool
has_texts(Jsonb *decisions, const char *comment)
{
	static const char *const of_texts[] = {"message", "edited_action", "editedAction"};
	JsonbIterator *it = JsonbIteratorInit(&decisions->root);
	JsonbIteratorToken tok;
	JsonbValue	v;

	while ((tok = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		for (int i = 0; tok == WJB_KEY && i < lengthof(of_texts); i++)
			if (v.val.string.len == strlen(of_texts[i]) && memcmp(v.val.string.val, of_texts[i], v.val.string.len) == 0)
				return true;
	}
	return comment != NULL;
}

/*
 * The rules and the placeholders of the run, by the rights of its role: whoever
 * decides has none of its own.
 */
static void
open_texts(const char *tenant, const char *session, const Newest *run, const MwAgent *agent, MwPiiMap *map, MwDecisionTexts *texts)
{
	MwRoleSave	save;
	JsonbValue *asked = mw_json_get(run->options, "redact");
	const MwPolicy *policy;

	mw_become_role(run->role, &save);
	if (!mw_may_act(tenant))
		ereport(ERROR,
				(errcode(ERRCODE_MW_NOT_YOUR_DECISION),
				 errmsg("the role of the run may not act for tenant \"%s\" any more", tenant),
				 errdetail("Its session's values cannot be opened, and it cannot resume the run."),
				 errhint("An administrator types: SELECT mw_grant_tenant(%s, %s);", quote_literal_cstr(tenant),
						 quote_literal_cstr(GetUserNameFromId(run->role, true) != NULL ? quote_identifier(GetUserNameFromId(run->role, true)) : "role"))));
	policy = mw_policy_get(tenant);
	if (policy->redact || asked != NULL)
	{
		if (asked != NULL && asked->type == jbvBinary)
			policy = mw_redaction_tighten(policy, mw_json_value_jsonb(asked));
		if (agent != NULL)
			policy = mw_pii_tighten(policy, agent);
		mw_pii_session_load(map, tenant, session, true);
		texts->policy = mw_policy_detects(policy) ? policy : NULL;
	}
	mw_become_caller(&save);
}

/* Rows of mw.interrupt as they now stand, for what was decided */
static void
hand_out(ReturnSetInfo *set, const char *tenant, List *gates)
{
	static MwStmt stmt = {
		"SELECT i.* FROM mw.interrupt AS i WHERE i.tenant OPERATOR(pg_catalog.=) $1"
		" AND i.interrupt_id OPERATOR(pg_catalog.=) $2 AND i.place OPERATOR(pg_catalog.=) $3",
		3, {TEXTOID, TEXTOID, INT4OID}
	};
	ListCell   *lc;

	SPI_connect();
	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);
		Datum		values[3] = {CStringGetTextDatum(tenant), CStringGetTextDatum(gate->interrupt_id), Int32GetDatum(gate->place)};

		if (mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 1) > 0)
			tuplestore_puttuple(set->setResult, SPI_tuptable->vals[0]);
	}
	SPI_finish();
}

/* (tenant, session, decisions, interrupt_id, comment) */
PG_FUNCTION_INFO_V1(mw_decide);

Datum
mw_decide(PG_FUNCTION_ARGS)
{
	char	   *tenant = mw_arg_text(fcinfo, 0, "tenant");
	char	   *session = mw_arg_text(fcinfo, 1, "session");
	char	   *interrupt_id = text_or_null(fcinfo, 3);
	char	   *comment = text_or_null(fcinfo, 4);
	Newest		run;
	MwPiiMap	map;
	MwDecisionTexts texts = {.map = &map, .later = true};
	List	   *notices = NIL;
	List	   *gates;
	List	   *decided = NIL;
	MwAgent    *definition = NULL;

	mw_loghide_statement();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (PG_ARGISNULL(2))
		mw_decision_does_not_fit("decisions must not be null");

	/* whoever is neither of the tenant nor one of its reviewers learns nothing of its sessions */
	if (!mw_may_review(tenant, NULL))
		mw_require_may_see(tenant, session);
	mw_session_hold(tenant, session);
	if (!newest_run(tenant, session, &run))
		mw_nothing_open(tenant, NIL, interrupt_id);
	if (strcmp(run.status, "interrupted") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_MW_NO_INTERRUPT),
				 errmsg("no interrupt is waiting for a decision"),
				 errdetail("done: the session's newest run has status %s.", run.status),
				 errhint("SELECT * FROM mw.inbox; shows what waits.")));
	if (run.agent != NULL)
	{
		MwRoleSave	save;

		/* it is only read: a reviewer need not have any right on its functions */
		mw_become_owner(&save);
		definition = mw_agent_of_run(tenant, run.owner, run.agent, run.version);
		if (definition != NULL)
			mw_hitl_add(definition, tenant, run.options);
		mw_become_caller(&save);
	}
	mw_pii_map_init(&map, CurrentMemoryContext);
	texts.as = run.role;
	texts.notices = &notices;
	if (has_texts(PG_GETARG_JSONB_P(2), comment))
		open_texts(tenant, session, &run, definition, &map, &texts);
	gates = mw_gates_read(tenant, session, &run.run_id, true);
	mw_gates_genuine(tenant, gates);
	mw_gates_expire(tenant, gates);
	mw_gates_decide(tenant, gates, definition, PG_GETARG_JSONB_P(2), interrupt_id, comment, &texts, &decided);
	hand_out((ReturnSetInfo *) fcinfo->resultinfo, tenant, decided);
	return (Datum) 0;
}
