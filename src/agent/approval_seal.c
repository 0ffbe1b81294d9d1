/*
 * approval_seal.c - is an interrupt as it was written?
 *
 * What whoever decides goes by, and each decision, stands in mw.interrupt beside
 * a hash under the key of the database.  So what was altered by other means than
 * mw's is found before anything is decided or runs by it (MW605).  A row that was
 * put back to an earlier state is whole in itself; what it has been through since
 * is asked of mw.approval_log, whose rows are chained.
 */
#include "mw.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "agent/approval.h"
#include "policy/policy.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/spi.h"

MwShown
mw_gate_shown(const char *tenant, const MwGate *gate)
{
	MwShown		shown;
	MwKey		rest;
	MwHash		h;
	ListCell   *lc;
	uint64		cluster = GetSystemIdentifier();

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "interrupt 2");
	mw_hash_text(&h, tenant);
	mw_hash_text(&h, gate->session);
	mw_hash_part(&h, &gate->run_id, sizeof(gate->run_id));
	mw_hash_text(&h, gate->interrupt_id);
	mw_hash_part(&h, &gate->place, sizeof(gate->place));
	mw_hash_text(&h, gate->middleware);
	mw_hash_part(&h, &gate->batched, sizeof(gate->batched));
	mw_hash_text(&h, gate->call.name);
	mw_hash_text(&h, gate->call.id);
	mw_hash_text(&h, mw_json_canonical(gate->call.args));
	mw_hash_part(&h, &gate->hash, sizeof(MwKey));
	mw_hash_text(&h, gate->description);
	foreach(lc, gate->allowed)
		mw_hash_text(&h, lfirst(lc));
	mw_hash_text(&h, gate->response_schema != NULL ? mw_json_canonical(gate->response_schema) : NULL);
	mw_hash_part(&h, &gate->approvals, sizeof(gate->approvals));
	mw_hash_part(&h, &gate->expires_at, sizeof(gate->expires_at));
	mw_hash_text(&h, gate->on_expiry);
	rest = mw_hash_end(&h);

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "interrupt by name");
	mw_hash_part(&h, &rest, sizeof(rest));
	mw_hash_text(&h, GetUserNameFromId(gate->requested_by, true));
	mw_hash_text(&h, OidIsValid(gate->requested_through) ? GetUserNameFromId(gate->requested_through, true) : NULL);
	shown.by_name = mw_hash_end(&h);

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "interrupt by oid");
	mw_hash_part(&h, &rest, sizeof(rest));
	mw_hash_part(&h, &cluster, sizeof(cluster));
	mw_hash_part(&h, &gate->requested_by, sizeof(Oid));
	mw_hash_part(&h, &gate->requested_through, sizeof(Oid));
	shown.by_oid = mw_hash_end(&h);
	return shown;
}

static bool
is_shown(const char *tenant, const MwGate *gate)
{
	MwShown		is = mw_gate_shown(tenant, gate);

	return memcmp(&is.by_name, &gate->shown.by_name, sizeof(MwKey)) == 0 ||
		memcmp(&is.by_oid, &gate->shown.by_oid, sizeof(MwKey)) == 0;
}

char *
mw_gate_seal(const MwGate *gate, int n, Jsonb *decision)
{
	MwHash		h;
	MwKey		key;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "decision 2");
	mw_hash_part(&h, &gate->shown, sizeof(MwShown));
	mw_hash_part(&h, &n, sizeof(n));
	mw_hash_text(&h, mw_json_canonical(decision));
	key = mw_hash_end(&h);
	return mw_key_hex(&key);
}

static bool
is_sealed(const MwGate *gate, int n, Jsonb *entry)
{
	char	   *seal = mw_json_get_text(entry, "seal");
	Jsonb	   *rest = DatumGetJsonbP(DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(entry), CStringGetTextDatum("seal")));

	return seal != NULL && strcmp(seal, mw_gate_seal(gate, n, rest)) == 0;
}

/* What the log has of a gate that can still let something through */
typedef struct Told
{
	int			decided;
	int			ended;
} Told;

/* A Told for each gate, in order */
static Told *
told_of(const char *tenant, List *gates)
{
	static MwStmt stmt = {
		"SELECT l.interrupt_id, l.place, l.event FROM mw.approval_log AS l"
		" WHERE l.tenant OPERATOR(pg_catalog.=) $1 AND l.interrupt_id OPERATOR(pg_catalog.=) ANY ($2)"
		" AND l.event OPERATOR(pg_catalog.=) ANY (ARRAY['decided', 'expired', 'done', 'abandoned'])",
		2, {TEXTOID, TEXTARRAYOID}
	};
	Told	   *told = palloc0(sizeof(Told) * list_length(gates));
	List	   *ids = NIL;
	Datum		values[2];
	uint64		n;
	ListCell   *lc;

	/* gates are in the order of their interrupts */
	foreach(lc, gates)
		if (ids == NIL || strcmp(llast(ids), ((MwGate *) lfirst(lc))->interrupt_id) != 0)
			ids = lappend(ids, unconstify(char *, ((MwGate *) lfirst(lc))->interrupt_id));
	values[0] = CStringGetTextDatum(tenant);
	values[1] = mw_text_array(ids);
	SPI_connect();
	n = mw_spi_read(&stmt, MW_AS_OWNER, values, NULL, 0);
	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		char	   *id = SPI_getvalue(row, desc, 1);
		char	   *event = SPI_getvalue(row, desc, 3);
		bool		isnull;
		int			place = DatumGetInt32(SPI_getbinval(row, desc, 2, &isnull));

		foreach(lc, gates)
		{
			const MwGate *gate = lfirst(lc);
			Told	   *t = &told[foreach_current_index(lc)];

			if (gate->place != place || strcmp(gate->interrupt_id, id) != 0)
				continue;
			if (strcmp(event, "decided") == 0 || strcmp(event, "expired") == 0)
				t->decided++;
			else
				t->ended++;
			break;
		}
	}
	SPI_finish();
	return told;
}

void
mw_gates_genuine(const char *tenant, List *gates)
{
	Told	   *told = gates != NIL ? told_of(tenant, gates) : NULL;
	ListCell   *lc;

	foreach(lc, gates)
	{
		MwGate	   *gate = lfirst(lc);
		Told	   *t = &told[foreach_current_index(lc)];
		bool		genuine = is_shown(tenant, gate);
		JsonbIterator *it = JsonbIteratorInit(&gate->decisions->root);
		JsonbIteratorToken tok;
		JsonbValue	item;
		int			n = 0;

		while ((tok = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
			if (tok == WJB_ELEM)
				genuine = genuine && item.type == jbvBinary && is_sealed(gate, n++, JsonbValueToJsonb(&item));
		/* one that was put back to what it was before a decision, or before it ran, is whole in itself */
		genuine = genuine && t->decided == n && t->ended == 0;
		if (genuine && gate->status == MW_GATE_DECIDED)
			genuine = gate->decision != NULL &&
				(strcmp(mw_json_get_text(gate->decision, "type"), "approve") != 0 || n >= gate->approvals);
		if (!genuine)
			ereport(ERROR,
					(errcode(ERRCODE_MW_NOT_APPROVED),
					 errmsg("an interrupt is not as it was written"),
					 errdetail("What was shown of call \"%s\", or a decision about it, was changed in mw.interrupt or mw.approval_log by other means than mw's.", gate->call.id),
					 errhint("A new prompt abandons what waits.")));
	}
}
