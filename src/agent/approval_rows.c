/*
 * approval_rows.c - gates as rows of mw.interrupt, and the log of what became of
 * them.
 *
 * All of it is written by callers' transactions: an interrupt is there for its
 * reviewers when the run that asked for it commits, and a run that rolls back
 * leaves none.  Decide and resume lock the rows that they judge.
 *
 * mw.approval_log is chained per session: each row holds a keyed hash of itself
 * and of the row before, so one that is altered or taken out is found
 * (mw_check).  The session's rows are written one transaction at a time, under
 * the lock of the newest one.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "commands/async.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "agent/approval.h"
#include "gateway/tell.h"
#include "policy/approval_chain.h"
#include "policy/policy.h"
#include "policy/reviewers.h"
#include "util/faults.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/json_push.h"
#include "util/spi.h"

static const char *const statuses[] = {
	[MW_GATE_OPEN] = "open", [MW_GATE_DECIDED] = "decided", [MW_GATE_DONE] = "done",
	[MW_GATE_EXPIRED] = "expired", [MW_GATE_ABANDONED] = "abandoned"
};

static MwGateStatus
status_of(const char *name)
{
	for (int i = 0; i < lengthof(statuses); i++)
		if (strcmp(statuses[i], name) == 0)
			return (MwGateStatus) i;
	elog(ERROR, "mw.interrupt has the unknown status \"%s\"", name);
}

/* ---------- decisions ---------- */

void
mw_gate_add_decision(MwGate *gate, Jsonb *decision, const char *comment)
{
	JsonbParseState *st = NULL;
	Jsonb	   *entry;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "by", GetUserNameFromId(GetUserId(), false));
	push_int(&st, "by_oid", GetUserId());
	if (OidIsValid(mw_outer_role()))
	{
		push_member(&st, "through", GetUserNameFromId(mw_outer_role(), false));
		push_int(&st, "through_oid", mw_outer_role());
	}
	mw_person_push_login(&st);
	push_member(&st, "at", timestamptz_to_str(GetCurrentTimestamp()));
	push_key(&st, "decision");
	mw_push_jsonb(&st, WJB_VALUE, decision);
	if (mw_json_get(decision, "edited_action") != NULL)
		push_member(&st, "hash", mw_key_hex(&gate->edited));
	if (comment != NULL)
		push_member(&st, "comment", comment);
	entry = JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));

	st = NULL;
	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "seal", mw_gate_seal(gate, JB_ROOT_COUNT(gate->decisions), entry));
	entry = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(entry),
											   JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)))));
	st = NULL;
	pushJsonbValue(&st, WJB_BEGIN_ARRAY, NULL);
	mw_push_jsonb(&st, WJB_ELEM, entry);
	gate->decisions = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(gate->decisions),
														 JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_ARRAY, NULL)))));
}

/* ---------- reading ---------- */

static Jsonb *
jsonb_at(HeapTuple row, TupleDesc desc, int n)
{
	bool		isnull;
	Datum		d = SPI_getbinval(row, desc, n, &isnull);

	return isnull ? NULL : DatumGetJsonbPCopy(d);
}

/* A stored hash; of another length it is nobody's */
static MwKey
key_of(const bytea *kept)
{
	MwKey		key = {{0}};

	if (VARSIZE_ANY_EXHDR(kept) == sizeof(MwKey))
		memcpy(key.b, VARDATA_ANY(kept), sizeof(MwKey));
	return key;
}

static MwGate *
gate_of(HeapTuple row, TupleDesc desc)
{
	MwGate	   *gate = palloc0(sizeof(MwGate));
	bool		isnull;
	Datum		d;

	gate->stored = true;
	gate->interrupt_id = SPI_getvalue(row, desc, 1);
	gate->place = DatumGetInt32(SPI_getbinval(row, desc, 2, &isnull));
	gate->middleware = SPI_getvalue(row, desc, 3);
	gate->batched = strcmp(SPI_getvalue(row, desc, 4), "batched") == 0;
	gate->call.name = SPI_getvalue(row, desc, 5);
	gate->call.id = SPI_getvalue(row, desc, 6);
	gate->call.args = jsonb_at(row, desc, 7);
	d = SPI_getbinval(row, desc, 8, &isnull);
	gate->hash = key_of(DatumGetByteaPP(d));
	gate->description = SPI_getvalue(row, desc, 9);
	gate->allowed = mw_text_list(SPI_getbinval(row, desc, 10, &isnull));
	gate->response_schema = jsonb_at(row, desc, 11);
	gate->approvals = DatumGetInt32(SPI_getbinval(row, desc, 12, &isnull));
	gate->requested_by = DatumGetObjectId(SPI_getbinval(row, desc, 13, &isnull));
	d = SPI_getbinval(row, desc, 14, &isnull);
	gate->expires_at = isnull ? DT_NOEND : DatumGetTimestampTz(d);
	gate->on_expiry = SPI_getvalue(row, desc, 15);
	gate->status = status_of(SPI_getvalue(row, desc, 16));
	gate->decisions = jsonb_at(row, desc, 17);
	gate->session = SPI_getvalue(row, desc, 18);
	gate->claimed_by = DatumGetObjectId(SPI_getbinval(row, desc, 19, &isnull));
	d = SPI_getbinval(row, desc, 20, &isnull);
	gate->claimed_until = isnull ? DT_NOBEGIN : DatumGetTimestampTz(d);
	d = SPI_getbinval(row, desc, 21, &isnull);
	if (VARSIZE_ANY_EXHDR(DatumGetByteaPP(d)) == sizeof(MwShown))
		memcpy(&gate->shown, VARDATA_ANY(DatumGetByteaPP(d)), sizeof(MwShown));
	gate->expiry_told = DatumGetBool(SPI_getbinval(row, desc, 22, &isnull));
	d = SPI_getbinval(row, desc, 23, &isnull);
	gate->requested_through = isnull ? InvalidOid : DatumGetObjectId(d);
	gate->run_id = *DatumGetUUIDP(SPI_getbinval(row, desc, 24, &isnull));
	if (gate->status == MW_GATE_DECIDED || gate->status == MW_GATE_EXPIRED)
	{
		JsonbValue *last = JB_ROOT_COUNT(gate->decisions) > 0 ?
			getIthJsonbValueFromContainer(&gate->decisions->root, JB_ROOT_COUNT(gate->decisions) - 1) : NULL;
		Jsonb	   *entry = last != NULL ? JsonbValueToJsonb(last) : NULL;
		char	   *edited = mw_json_get_text(entry, "hash");

		gate->decision = mw_json_get_jsonb(entry, "decision");
		if (edited != NULL && strlen(edited) == 2 * sizeof(MwKey))
			(void) hex_decode(edited, strlen(edited), (char *) gate->edited.b);
	}
	return gate;
}

List *
mw_gates_read(const char *tenant, const char *session, const pg_uuid_t *run_id, bool lock)
{
#define GATES \
		"SELECT i.interrupt_id, i.place, i.middleware, i.mode, i.tool, i.tool_call_id, i.args, i.args_hash, i.description," \
		" i.allowed_decisions, i.response_schema, i.approvals, i.requested_by::pg_catalog.oid, i.expires_at, i.on_expiry, i.status, i.decisions, i.session," \
		" i.claimed_by::pg_catalog.oid, i.claimed_until, i.shown_hash, i.expiry_told, i.requested_through::pg_catalog.oid, i.run_id" \
		" FROM mw.interrupt AS i WHERE i.tenant OPERATOR(pg_catalog.=) $1 AND i.session OPERATOR(pg_catalog.=) $2" \
		" AND i.run_id OPERATOR(pg_catalog.=) $3 AND i.status OPERATOR(pg_catalog.=) ANY (ARRAY['open', 'decided', 'expired'])" \
		" AND i.outcome IS NULL" \
		" ORDER BY i.requested_at, i.interrupt_id, i.place"
	/* before the rows, as mw_erase does it: who erases and who goes on wait for each other, and not in a circle */
	static MwStmt tenants = {
		"SELECT FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 FOR KEY SHARE OF t",
		1, {TEXTOID}
	};
	static MwStmt look = {GATES, 3, {TEXTOID, TEXTOID, UUIDOID}};
	static MwStmt locked = {GATES " FOR UPDATE OF i", 3, {TEXTOID, TEXTOID, UUIDOID}};
	MemoryContext cxt = CurrentMemoryContext;
	Datum		values[3] = {CStringGetTextDatum(tenant), CStringGetTextDatum(session), UUIDPGetDatum(run_id)};
	List	   *gates = NIL;
	uint64		n;

	SPI_connect();
	if (lock)
		(void) mw_spi_write(&tenants, MW_AS_OWNER, values, NULL);
	n = lock ? mw_spi_write(&locked, MW_AS_OWNER, values, NULL) : mw_spi_read(&look, MW_AS_OWNER, values, NULL, 0);
	for (uint64 i = 0; i < n; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		gates = lappend(gates, gate_of(SPI_tuptable->vals[i], SPI_tuptable->tupdesc));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return gates;
}

/* ---------- the log ---------- */

/*
 * The session's newest row, locked, which nobody adds to before this transaction
 * ends.  A row that was locked until a moment ago has a newer one by now, so it
 * is looked for until the one that is locked is the newest.  False where another
 * transaction has it and nobody is to be waited for.
 */
static bool
lock_newest(const char *tenant, const char *session, bool wait, int64 *seq, MwKey *chain)
{
#define NEWEST \
		"SELECT l.seq, l.chain FROM mw.approval_log AS l" \
		" WHERE l.tenant OPERATOR(pg_catalog.=) $1 AND l.session OPERATOR(pg_catalog.=) $2 ORDER BY l.seq DESC LIMIT 1"
	static MwStmt look = {NEWEST, 2, {TEXTOID, TEXTOID}};
	static MwStmt lock = {NEWEST " FOR UPDATE", 2, {TEXTOID, TEXTOID}};
	static MwStmt lock_free = {NEWEST " FOR UPDATE SKIP LOCKED", 2, {TEXTOID, TEXTOID}};
	Datum		values[2] = {CStringGetTextDatum(tenant), CStringGetTextDatum(session)};
	bool		isnull;

	for (;;)
	{
		uint64		n = mw_spi_write(wait ? &lock : &lock_free, MW_AS_OWNER, values, NULL);

		*seq = 0;
		memset(chain, 0, sizeof(MwKey));
		if (n > 0)
		{
			*seq = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
			*chain = key_of(DatumGetByteaPP(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull)));
		}
		if (mw_spi_read(&look, MW_AS_OWNER, values, NULL, 1) == 0 ||
			DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull)) == *seq)
			return true;
		if (!wait)
			return false;
	}
}

/* Who called a function that the role owns, and who was logged in, is part of the story */
static Jsonb *
with_who(Jsonb *detail)
{
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	if (OidIsValid(mw_outer_role()))
		push_member(&st, "through", GetUserNameFromId(mw_outer_role(), false));
	mw_person_push_login(&st);
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(detail != NULL ? detail : mw_json_parse("{}", 2, NULL)),
											  JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL)))));
}

static bool
add_to_log(const char *tenant, const MwGate *gate, const char *event, Jsonb *detail, bool wait)
{
	static MwStmt add = {
		"INSERT INTO mw.approval_log (tenant, session, seq, interrupt_id, place, event, detail, role, at, chain)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		10, {TEXTOID, TEXTOID, INT8OID, TEXTOID, INT4OID, TEXTOID, JSONBOID, TEXTOID, TIMESTAMPTZOID, BYTEAOID}
	};
	Datum		values[10];
	MwApprovalEvent e = {.tenant = tenant, .session = gate->session, .interrupt_id = gate->interrupt_id, .place = gate->place, .event = event};
	MwKey		before;
	MwKey		chain;

	mw_fault("approval_write");	/* its row is written, the log is not */
	e.detail = with_who(detail);
	e.role = GetUserNameFromId(GetUserId(), false);
	e.at = GetCurrentTimestamp();
	SPI_connect();
	if (!lock_newest(tenant, gate->session, wait, &e.seq, &before))
	{
		SPI_finish();
		return false;
	}
	e.seq++;
	chain = mw_approval_chain(&before, &e);

	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(gate->session);
	values[2] = Int64GetDatum(e.seq);
	values[3] = CStringGetTextDatum(gate->interrupt_id);
	values[4] = Int32GetDatum(gate->place);
	values[5] = CStringGetTextDatum(event);
	values[6] = JsonbPGetDatum(e.detail);
	values[7] = CStringGetTextDatum(e.role);
	values[8] = TimestampTzGetDatum(e.at);
	values[9] = PointerGetDatum(mw_key_bytea(&chain));
	(void) mw_spi_write(&add, MW_AS_OWNER, values, NULL);
	SPI_finish();
	return true;
}

void
mw_approval_log(const char *tenant, const MwGate *gate, const char *event, Jsonb *detail)
{
	(void) add_to_log(tenant, gate, event, detail, true);
}

bool
mw_approval_log_at_once(const char *tenant, const MwGate *gate, const char *event, Jsonb *detail)
{
	return add_to_log(tenant, gate, event, detail, false);
}

/* ---------- writing ---------- */

static void
insert_gate(MwRun *run, MwGate *gate)
{
	static MwStmt stmt = {
		"INSERT INTO mw.interrupt (tenant, session, interrupt_id, place, run_id, agent, middleware, mode, tool, tool_call_id, args, args_hash,"
		" description, allowed_decisions, response_schema, approvals, requested_by, expires_at, on_expiry, shown_hash, requested_through)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)",
		21, {TEXTOID, TEXTOID, TEXTOID, INT4OID, UUIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, BYTEAOID,
			TEXTOID, TEXTARRAYOID, JSONBOID, INT4OID, REGROLEOID, TIMESTAMPTZOID, TEXTOID, BYTEAOID, REGROLEOID}
	};
	Datum		values[21];
	char		nulls[21];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(run->tenant);
	values[1] = CStringGetTextDatum(run->session);
	values[2] = CStringGetTextDatum(gate->interrupt_id);
	values[3] = Int32GetDatum(gate->place);
	values[4] = UUIDPGetDatum(&run->run_id);
	if (run->agent->name != NULL)
		values[5] = CStringGetTextDatum(run->agent->name);
	else
		nulls[5] = 'n';
	if (gate->middleware != NULL)
		values[6] = CStringGetTextDatum(gate->middleware);
	else
		nulls[6] = 'n';
	values[7] = CStringGetTextDatum(gate->batched ? "batched" : "per_call");
	values[8] = CStringGetTextDatum(gate->call.name);
	values[9] = CStringGetTextDatum(gate->call.id);
	values[10] = JsonbPGetDatum(gate->call.args);
	values[11] = PointerGetDatum(mw_key_bytea(&gate->hash));
	values[12] = CStringGetTextDatum(gate->description);
	values[13] = mw_text_array(gate->allowed);
	if (gate->response_schema != NULL)
		values[14] = JsonbPGetDatum(gate->response_schema);
	else
		nulls[14] = 'n';
	values[15] = Int32GetDatum(gate->approvals);
	values[16] = ObjectIdGetDatum(run->role);
	if (gate->expires_ms > 0)
		values[17] = TimestampTzGetDatum(gate->expires_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), gate->expires_ms));
	else
		nulls[17] = 'n';
	values[18] = CStringGetTextDatum(gate->on_expiry);
	gate->shown = mw_gate_shown(run->tenant, gate);
	values[19] = PointerGetDatum(cstring_to_text_with_len((char *) &gate->shown, sizeof(MwShown)));
	if (OidIsValid(gate->requested_through))
		values[20] = ObjectIdGetDatum(gate->requested_through);
	else
		nulls[20] = 'n';
	SPI_connect();
	(void) mw_spi_write(&stmt, MW_AS_OWNER, values, nulls);
	SPI_finish();
}

static void
update_gate(const char *tenant, const MwGate *gate)
{
	static MwStmt stmt = {
		"UPDATE mw.interrupt SET status = $4, decisions = $5, outcome = $6, claimed_by = NULL, claimed_until = NULL,"
		" expiry_told = expiry_told OR $4 OPERATOR(pg_catalog.=) 'expired'"
		" WHERE tenant OPERATOR(pg_catalog.=) $1 AND interrupt_id OPERATOR(pg_catalog.=) $2 AND place OPERATOR(pg_catalog.=) $3",
		6, {TEXTOID, TEXTOID, INT4OID, TEXTOID, JSONBOID, TEXTOID}
	};
	Datum		values[6];
	char		nulls[6];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(gate->interrupt_id);
	values[2] = Int32GetDatum(gate->place);
	values[3] = CStringGetTextDatum(statuses[gate->status]);
	values[4] = JsonbPGetDatum(gate->decisions);
	if (gate->outcome != NULL)
		values[5] = CStringGetTextDatum(gate->outcome);
	else
		nulls[5] = 'n';
	SPI_connect();
	(void) mw_spi_write(&stmt, MW_AS_OWNER, values, nulls);
	SPI_finish();
}

static void
notify(const char *tenant, const char *kind, const char *interrupt_id)
{
	Async_Notify(mw_channel_of(tenant), mw_interrupt_payload(kind, interrupt_id));
}

/* What a resume that waits for decisions of this session sleeps on */
uint32
mw_session_hash(const char *tenant, const char *session)
{
	return hash_bytes((const unsigned char *) tenant, strlen(tenant)) ^
		hash_bytes((const unsigned char *) session, strlen(session)) ^ MyDatabaseId;
}

void
mw_gate_decided(const char *tenant, MwGate *gate)
{
	update_gate(tenant, gate);
	mw_tell_decided(mw_session_hash(tenant, gate->session));
	if (gate->status != MW_GATE_EXPIRED)
		notify(tenant, "decision", gate->interrupt_id);
	else if (!gate->expiry_told)
		notify(tenant, "expiry", gate->interrupt_id);
}

static Jsonb *
outcome_detail(const char *outcome)
{
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "outcome", outcome);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

static Jsonb *
asked_detail(const MwGate *gate)
{
	JsonbParseState *st = NULL;

	pushJsonbValue(&st, WJB_BEGIN_OBJECT, NULL);
	push_member(&st, "tool", gate->call.name);
	push_member(&st, "tool_call_id", gate->call.id);
	push_key(&st, "args");
	mw_push_jsonb(&st, WJB_VALUE, gate->call.args);
	return JsonbValueToJsonb(pushJsonbValue(&st, WJB_END_OBJECT, NULL));
}

void
mw_gates_write(MwRun *run)
{
	ListCell   *lc;

	if (!run->interrupted && !run->waits_for_client)
		mw_approval_turn(run);
	foreach(lc, mw_approval_gates(run))
	{
		MwGate	   *gate = lfirst(lc);

		if (!gate->stored)
		{
			insert_gate(run, gate);
			gate->stored = true;
			mw_approval_log(run->tenant, gate, "asked", asked_detail(gate));
			notify(run->tenant, "interrupt", gate->interrupt_id);
			if (gate->expires_ms > 0)
				mw_tell_expiry();
		}
		else if (gate->outcome != NULL && gate->status != MW_GATE_DONE)
		{
			if (gate->status == MW_GATE_DECIDED)
				gate->status = MW_GATE_DONE;
			update_gate(run->tenant, gate);
			mw_approval_log(run->tenant, gate, "done", outcome_detail(gate->outcome));
		}
	}
}

void
mw_approval_abandon(MwRun *run, const MwSaved *saved)
{
	ListCell   *lc;

	mw_require_may_act(run->tenant);
	foreach(lc, mw_gates_read(run->tenant, run->session, &saved->run_id, true))
	{
		MwGate	   *gate = lfirst(lc);

		gate->status = MW_GATE_ABANDONED;
		update_gate(run->tenant, gate);
		mw_approval_log(run->tenant, gate, "abandoned", NULL);
	}
}
