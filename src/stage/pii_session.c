/*
 * pii_session.c - placeholders that stay the same from turn to turn.
 *
 * Before the first text of a turn is redacted the map takes in what the session's
 * earlier turns issued (policy/vault.c keeps it): values that are to be had under
 * their old placeholders, all other numbers as used up.  So the same value has the
 * same placeholder in every turn, and none ever stands for two.  Where a value was
 * not kept, since there is no key, its hash still gives it its number when it comes
 * again; until then its placeholder stands for nothing and stays as it is.
 *
 * What somebody types that reads like a placeholder of an earlier turn can no longer
 * be kept from being issued.  It becomes a value itself, of type LITERAL: the
 * model sees <LITERAL_0>, the caller gets back what was typed, and it never stands
 * for what that placeholder stands for.
 *
 * What is new is stored before the request leaves, in the caller's transaction, as
 * the thread is that the placeholders stand in.  Whoever issues holds the
 * session's lock until that transaction ends.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "policy/policy.h"
#include "policy/session_lock.h"
#include "policy/vault.h"
#include "stage/redact.h"

/* a typed number from here on is not remembered: no session gets there */
#define MAX_TYPED	1000000

typedef struct Session
{
	MwPiiEarlier earlier;		/* must be first */
	const char *tenant;
	const char *name;
	MwPiiRow   *rows;			/* by type and number */
	int			nrows;
	int			hashed;			/* of them without a value but with its hash */
	int			loaded;			/* entries of the map that came from here */
	int			saved;			/* ... or are there since this run stored them */
	uint64		aborts;			/* as of then */
} Session;

/* Subtransactions that were rolled back; what was stored in one has to be stored again */
static uint64 aborts;
static bool listening;

static void
subtransaction_ended(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		aborts++;
}

static int
compare_row(const char *type, int type_len, int number, const MwPiiRow *row)
{
	int			n = strlen(row->type);
	int			c = memcmp(type, row->type, Min(type_len, n));

	if (c == 0)
		c = type_len - n;
	return c != 0 ? c : (number > row->number) - (number < row->number);
}

/* The row of a placeholder; columns of type C sort as bytes do */
static const MwPiiRow *
row_of(const Session *s, const char *type, int type_len, int number)
{
	int			lo = 0;
	int			hi = s->nrows;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;
		int			c = compare_row(type, type_len, number, &s->rows[mid]);

		if (c == 0)
			return &s->rows[mid];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static bool
issued(const MwPiiMap *map, const char *type, int type_len, int number)
{
	return row_of((const Session *) map->earlier, type, type_len, number) != NULL;
}

static int
number_of(const MwPiiMap *map, const char *type, const char *value, int len)
{
	const Session *s = (const Session *) map->earlier;
	MwKey		lookup;
	int			version = -1;
	bool		known = false;

	for (int i = 0; s->hashed > 0 && i < s->nrows; i++)
	{
		const MwPiiRow *row = &s->rows[i];

		if (row->value || !row->has_lookup || strcmp(row->type, type) != 0)
			continue;
		if (row->key_version != version)
			known = mw_vault_lookup(version = row->key_version, s->tenant, value, len, &lookup);
		if (known && memcmp(&row->lookup, &lookup, sizeof(MwKey)) == 0)
			return row->number;
	}
	return -1;
}

/* mw_pii_session_load takes in what earlier turns issued. */
void
mw_pii_session_load(MwPiiMap *map, const char *tenant, const char *session, bool issues)
{
	MemoryContext old;
	Session    *s;

	if (map->earlier)
		return;
	old = MemoryContextSwitchTo(map->cxt);
	s = palloc0(sizeof(Session));
	s->earlier = (MwPiiEarlier) {number_of, issued};
	s->tenant = pstrdup(tenant);
	s->name = pstrdup(session);
	if (issues)
	{
		mw_require_may_act(tenant);	/* a stranger makes nobody wait */
		mw_session_hold(tenant, session);
	}
	s->nrows = mw_vault_read(tenant, session, &s->rows);
	for (int i = 0; i < s->nrows; i++)
	{
		const MwPiiRow *row = &s->rows[i];

		mw_pii_issued(map, row->type, row->number, row->value, row->len);
		s->hashed += row->value == NULL && row->has_lookup;
	}
	s->loaded = s->saved = map->n;
	map->earlier = &s->earlier;
	if (!listening)
		RegisterSubXactCallback(subtransaction_ended, NULL);
	listening = true;
	MemoryContextSwitchTo(old);
}

static bool
can_be_issued(const MwPolicy *policy, const char *type)
{
	for (int i = 0; i < policy->nrecognizers; i++)
		if (strcmp(policy->recognizers[i].type, type) == 0)
			return true;
	return false;
}

/* mw_pii_session_save stores what this turn issued, and what was typed in it. */
void
mw_pii_session_save(MwPiiMap *map, const MwPolicy *policy)
{
	Session    *s = (Session *) map->earlier;
	MwPiiRow   *rows;
	int			cap;
	int			n = 0;

	if (s == NULL)
		return;
	if (s->aborts != aborts)
		s->saved = s->loaded;
	cap = map->n - s->saved + map->ntypes * MW_TYPED_MAX;
	rows = palloc_extended(sizeof(MwPiiRow) * Max(cap, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = s->saved; i < map->n; i++)
	{
		const MwPiiEntry *e = &map->entries[i];
		int			type_len;

		rows[n].type = e->type;
		(void) mw_placeholder_read(e->placeholder, strlen(e->placeholder), &type_len, &rows[n].number);
		rows[n].value = e->value;
		rows[n++].len = e->value_len;
	}
	for (int i = 0; i < map->ntypes; i++)
	{
		int			numbers[MW_TYPED_MAX];
		const char *type;
		int			k = mw_pii_typed(map, i, &type, numbers);

		if (k == 0 || !can_be_issued(policy, type))
			continue;
		while (k-- > 0)
			if (numbers[k] < MAX_TYPED && !mw_pii_is_issued(map, type, strlen(type), numbers[k]))
			{
				rows[n].type = type;
				rows[n++].number = numbers[k];
			}
	}
	mw_vault_write(s->tenant, s->name, rows, n);
	s->saved = map->n;
	s->aborts = aborts;
}

/* mw_pii_session_lost finds a placeholder that will stand for nothing. */
char *
mw_pii_session_lost(const MwPiiMap *map, const char *s, int len, bool erased)
{
	bool		kept = mw_pii_key_newest() != NULL;
	MwLoose		l;

	if (map->earlier == NULL)
		return NULL;
	mw_loose_start(&l, s, len);
	while (mw_loose_next(&l))
	{
		const char *type = l.strict + 1;
		const MwPiiRow *row = row_of((const Session *) map->earlier, type, l.type_len, l.number);

		if (mw_pii_has_value(map, type, l.type_len, l.number) ? !kept : row != NULL && (row->has_lookup || erased))
			return pstrdup(l.strict);
	}
	return NULL;
}
