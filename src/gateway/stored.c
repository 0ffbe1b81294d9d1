/*
 * stored.c - a recorded or cached answer out of its table, for the gateway's
 * callers and for its twin.
 *
 * Both kinds of server keep their answers in tables of one shape, found by
 * primary key, read as the calling role with the latest snapshot (util/row.c).
 */
#include "mw.h"

#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#include "gateway/stored.h"
#include "util/hash.h"

/* columns of mw.answer and mw.fake_answer */
enum
{
	ANSWER_USABLE = 5,
	ANSWER_BODY = 6
};

/* columns of mw.cache and mw.fake_cache */
enum
{
	CACHE_EPOCH = 4,
	CACHE_EXPIRES_AT = 6,
	CACHE_BODY = 7
};

MwRowTable	mw_table_answer = {.name = "answer",.nkeys = 4,.equal = {F_TEXTEQ, F_TEXTEQ, F_BYTEAEQ, F_INT4EQ}};
MwRowTable	mw_table_fake_answer = {.name = "fake_answer",.nkeys = 4,.equal = {F_TEXTEQ, F_TEXTEQ, F_BYTEAEQ, F_INT4EQ}};
MwRowTable	mw_table_cache = {.name = "cache",.nkeys = 2,.equal = {F_TEXTEQ, F_BYTEAEQ},.by_hash = true};
MwRowTable	mw_table_fake_cache = {.name = "fake_cache",.nkeys = 2,.equal = {F_TEXTEQ, F_BYTEAEQ},.by_hash = true};

/* The body is copied out of the page, once */
static void
take_body(MwStored *stored, MwRow *row, AttrNumber column)
{
	bool		isnull;
	text	   *body = DatumGetTextPP(mw_row_get(row, column, &isnull));

	stored->found = true;
	stored->body_len = VARSIZE_ANY_EXHDR(body);
	stored->body = MemoryContextAllocHuge(CurrentMemoryContext, (Size) stored->body_len + 1);
	memcpy(stored->body, VARDATA_ANY(body), stored->body_len);
	stored->body[stored->body_len] = '\0';
}

MwStored
mw_stored_answer(MwRowTable *table, const char *tenant, const char *request_id, const MwKey *call_key, int nth)
{
	MwStored	stored = {0};
	MwRow		row;
	bool		isnull;
	Datum		key[4];

	key[0] = CStringGetTextDatum(tenant);
	key[1] = CStringGetTextDatum(request_id);
	key[2] = PointerGetDatum(mw_key_bytea(call_key));
	key[3] = Int32GetDatum(nth);
	if (mw_row_open(&row, table, key))
	{
		stored.unusable = !DatumGetBool(mw_row_get(&row, ANSWER_USABLE, &isnull));
		take_body(&stored, &row, ANSWER_BODY);
	}
	mw_row_close(&row);
	return stored;
}

MwStored
mw_stored_cached(MwRowTable *table, const MwCall *call)
{
	MwStored	stored = {0};
	MwRow		row;
	bool		isnull;
	Datum		key[2];

	key[0] = CStringGetTextDatum(call->tenant);
	key[1] = PointerGetDatum(mw_key_bytea(&call->cache_key));
	if (mw_row_open(&row, table, key) &&
		DatumGetInt64(mw_row_get(&row, CACHE_EPOCH, &isnull)) >= call->cache_epoch &&
		DatumGetTimestampTz(mw_row_get(&row, CACHE_EXPIRES_AT, &isnull)) > GetCurrentTimestamp())
		take_body(&stored, &row, CACHE_BODY);
	mw_row_close(&row);
	return stored;
}
