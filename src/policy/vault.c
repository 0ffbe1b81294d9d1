/*
 * vault.c - the rows of mw.pii: what the placeholders of a session stand for.
 *
 * A value is sealed by XChaCha20-Poly1305 with a random nonce; tenant, session and
 * placeholder are authenticated with it, so that a row which was moved to another
 * session opens there no more than one that was changed.  Beside it stands a
 * keyed hash of tenant and value: by it all rows of a value are found when it is
 * to be erased, whatever their session.  Where there is no key file the hash is all
 * that is kept; it lets the same value have the same number again, and gives
 * nothing back.
 *
 * Whoever gives numbers in a session holds it until the end of its transaction
 * (session_lock.c), since a number that two transactions gave to two values would
 * have left in two prompts.
 */
#include "mw.h"

#include <sodium.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "policy/policy.h"
#include "policy/vault.h"
#include "util/hash.h"
#include "util/row.h"
#include "util/spi.h"

#define NONCE	crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG		crypto_aead_xchacha20poly1305_ietf_ABYTES

PG_FUNCTION_INFO_V1(mw_rotate_pii_key);

/* ---------- one value ---------- */

static MwKey
lookup_of(const MwPiiKey *key, const char *tenant, const char *value, int len)
{
	MwHash		h;

	mw_hash_start(&h, key->lookup);
	mw_hash_text(&h, tenant);
	mw_hash_part(&h, value, len);
	return mw_hash_end(&h);
}

bool
mw_vault_lookup(int key_version, const char *tenant, const char *value, int len, MwKey *lookup)
{
	const MwPiiKey *key = mw_pii_key(key_version);

	if (key != NULL)
		*lookup = lookup_of(key, tenant, value, len);
	return key != NULL;
}

/* What a sealed value belongs to; its hash, since the parts need bounds */
static MwKey
place_of(const char *tenant, const char *session, const char *type, int number)
{
	MwHash		h;

	mw_hash_start(&h, NULL);
	mw_hash_text(&h, "pii place");
	mw_hash_text(&h, tenant);
	mw_hash_text(&h, session);
	mw_hash_text(&h, type);
	mw_hash_part(&h, &number, sizeof(number));
	return mw_hash_end(&h);
}

static bytea *
seal(const MwPiiKey *key, const MwKey *place, const char *value, int len)
{
	bytea	   *sealed = palloc(VARHDRSZ + NONCE + len + TAG);
	uint8	   *nonce = (uint8 *) VARDATA(sealed);

	SET_VARSIZE(sealed, VARHDRSZ + NONCE + len + TAG);
	randombytes_buf(nonce, NONCE);
	crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + NONCE, NULL, (const uint8 *) value, len,
											   place->b, sizeof(place->b), NULL, nonce, key->seal);
	return sealed;
}

/* The value (current context), or an error: one that is not what was sealed must be nobody's */
static char *
unseal(const MwPiiKey *key, const MwKey *place, const bytea *sealed, int *len)
{
	const uint8 *nonce = (const uint8 *) VARDATA_ANY(sealed);
	int			n = VARSIZE_ANY_EXHDR(sealed);
	char	   *value;

	*len = n - NONCE - TAG;
	value = palloc(Max(*len, 0) + 1);
	if (*len < 0 ||
		crypto_aead_xchacha20poly1305_ietf_decrypt((uint8 *) value, NULL, NULL, nonce + NONCE, n - NONCE,
												   place->b, sizeof(place->b), nonce, key->seal) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a stored value of a session cannot be opened"),
				 errdetail("Key %d of the file is another one than it was sealed with, or its row in mw.pii was changed.", key->version),
				 errhint("Put the right key back. If it is lost: SELECT mw_erase(tenant, session); forgets the values of a session.")));
	value[*len] = '\0';
	return value;
}

/* ---------- a session ---------- */

/* columns of mw.pii */
enum
{
	PII_TYPE = 3,
	PII_NUMBER = 4,
	PII_KEY_VERSION = 5,
	PII_LOOKUP = 6,
	PII_SEALED = 7
};

static void
take_row(MwPiiRow *row, MwRow *kept, const char *tenant, const char *session)
{
	bool		isnull;
	Datum		d;

	memset(row, 0, sizeof(*row));
	row->type = TextDatumGetCString(mw_row_get(kept, PII_TYPE, &isnull));
	row->number = DatumGetInt32(mw_row_get(kept, PII_NUMBER, &isnull));
	row->key_version = DatumGetInt32(mw_row_get(kept, PII_KEY_VERSION, &isnull));
	d = mw_row_get(kept, PII_LOOKUP, &isnull);
	if (!isnull)
	{
		bytea	   *lookup = DatumGetByteaPP(d);

		row->has_lookup = VARSIZE_ANY_EXHDR(lookup) == sizeof(MwKey);
		if (row->has_lookup)
			memcpy(row->lookup.b, VARDATA_ANY(lookup), sizeof(MwKey));
	}
	d = mw_row_get(kept, PII_SEALED, &isnull);
	if (!isnull)
	{
		const MwPiiKey *key = mw_pii_key(row->key_version);
		MwKey		place = place_of(tenant, session, row->type, row->number);

		if (key != NULL)
			row->value = unseal(key, &place, DatumGetByteaPP(d), &row->len);
	}
}

int
mw_vault_read(const char *tenant, const char *session, MwPiiRow **rows)
{
	static MwRowTable table = {.name = "pii",.nkeys = 2,.equal = {F_TEXTEQ, F_TEXTEQ}};
	MwRoleSave	save;
	MwRow		row;
	Datum		key[2];
	int			room = 16;
	int			n = 0;

	mw_require_may_act(tenant);
	key[0] = CStringGetTextDatum(tenant);
	key[1] = CStringGetTextDatum(session);
	*rows = palloc(sizeof(MwPiiRow) * room);
	mw_become_owner(&save);
	for (bool more = mw_row_open(&row, &table, key); more; more = mw_row_next(&row))
	{
		if (n == room)
		{
			room *= 2;
			*rows = repalloc_huge(*rows, sizeof(MwPiiRow) * room);
		}
		take_row(&(*rows)[n++], &row, tenant, session);
	}
	mw_row_close(&row);
	mw_become_caller(&save);
	return n;
}

void
mw_vault_write(const char *tenant, const char *session, const MwPiiRow *rows, int n)
{
	/* locked, so that no row survives a drop or an erasure beside it */
	static MwStmt lock = {
		"SELECT FROM mw.tenant AS t WHERE t.tenant OPERATOR(pg_catalog.=) $1 FOR KEY SHARE OF t",
		1, {TEXTOID}
	};
	static MwStmt insert = {
		"INSERT INTO mw.pii AS p (tenant, session, pii_type, number, key_version, lookup, sealed) VALUES ($1, $2, $3, $4, $5, $6, $7)"
		/* what was only hashed is sealed now; what was erased meanwhile stays erased */
		" ON CONFLICT (tenant, session, pii_type, number) DO UPDATE"
		" SET key_version = excluded.key_version, lookup = excluded.lookup, sealed = excluded.sealed"
		" WHERE p.lookup IS NOT NULL AND excluded.sealed IS NOT NULL",
		7, {TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID, BYTEAOID, BYTEAOID}
	};
	const MwPiiKey *newest;
	MwPiiKey	key;			/* one for all, should the file change meanwhile */
	Datum		values[7];

	if (n == 0)
		return;
	PreventCommandIfReadOnly("a call of a session that remembers");
	mw_require_may_act(tenant);
	newest = mw_pii_key_newest();
	key = newest ? *newest : *mw_pii_key(0);
	SPI_connect();
	values[0] = CStringGetTextDatum(tenant);
	values[1] = CStringGetTextDatum(session);
	if (mw_spi_write(&lock, MW_AS_OWNER, values, NULL) > 0)	/* a tenant that was dropped meanwhile keeps nothing */
		for (int i = 0; i < n; i++)
		{
			const MwPiiRow *row = &rows[i];
			char		nulls[8] = "       ";
			MwKey		lookup;
			MwKey		place = place_of(tenant, session, row->type, row->number);

			CHECK_FOR_INTERRUPTS();
			values[2] = CStringGetTextDatum(row->type);
			values[3] = Int32GetDatum(row->number);
			values[4] = Int32GetDatum(row->value ? key.version : 0);
			nulls[5] = nulls[6] = 'n';
			if (row->value)
			{
				lookup = lookup_of(&key, tenant, row->value, row->len);
				values[5] = PointerGetDatum(mw_key_bytea(&lookup));
				nulls[5] = ' ';
			}
			if (row->value && key.version > 0)
			{
				values[6] = PointerGetDatum(seal(&key, &place, row->value, row->len));
				nulls[6] = ' ';
			}
			(void) mw_spi_write(&insert, MW_AS_OWNER, values, nulls);
		}
	SPI_finish();
}

/* ---------- rotating ---------- */

#define BATCH 1000

/* mw_rotate_pii_key(): what older keys sealed is sealed by the newest; how many rows that were */
Datum
mw_rotate_pii_key(PG_FUNCTION_ARGS)
{
	static MwStmt next = {
		"SELECT p.tenant, p.session, p.pii_type, p.number, p.key_version, p.sealed FROM mw.pii AS p"
		" WHERE ROW(p.tenant, p.session, p.pii_type, p.number) OPERATOR(pg_catalog.>) ROW($1, $2, $3, $4)"
		" AND p.sealed IS NOT NULL AND p.key_version OPERATOR(pg_catalog.<>) $5"
		" ORDER BY p.tenant, p.session, p.pii_type, p.number LIMIT $6 FOR NO KEY UPDATE",
		6, {TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID, INT8OID}
	};
	static MwStmt update = {
		"UPDATE mw.pii AS p SET key_version = $5, lookup = $6, sealed = $7"
		" WHERE p.tenant OPERATOR(pg_catalog.=) $1 AND p.session OPERATOR(pg_catalog.=) $2"
		" AND p.pii_type OPERATOR(pg_catalog.=) $3 AND p.number OPERATOR(pg_catalog.=) $4",
		7, {TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID, BYTEAOID, BYTEAOID}
	};
	const MwPiiKey *there = mw_pii_key_newest();
	MwPiiKey	newest;
	Datum		from[6];
	int64		done = 0;
	uint64		n;

	if (there == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("there is no key to seal with"),
				 errdetail("The setting mw.pii_key_file is empty."),
				 errhint("Write a file with a line \"1 KEY\", KEY being 64 hexadecimal digits, and name it: ALTER SYSTEM SET mw.pii_key_file = '/path'; SELECT pg_reload_conf();")));
	newest = *there;			/* one for all rows, should the file change meanwhile */
	SPI_connect();
	from[0] = from[1] = from[2] = CStringGetTextDatum("");
	from[3] = Int32GetDatum(-1);
	from[4] = Int32GetDatum(newest.version);
	from[5] = Int64GetDatum(BATCH);
	while ((n = mw_spi_write(&next, MW_AS_OWNER, from, NULL)) > 0)
	{
		SPITupleTable *table = SPI_tuptable;

		for (uint64 i = 0; i < n; i++)
		{
			Datum		values[7];
			char	   *s[3];
			bool		isnull;
			int			number;
			int			version;
			const MwPiiKey *key;
			MwKey		place;
			MwKey		lookup;
			char	   *value;
			int			len;

			CHECK_FOR_INTERRUPTS();
			for (int k = 0; k < 3; k++)
			{
				values[k] = SPI_getbinval(table->vals[i], table->tupdesc, k + 1, &isnull);
				s[k] = TextDatumGetCString(values[k]);
			}
			values[3] = SPI_getbinval(table->vals[i], table->tupdesc, 4, &isnull);
			number = DatumGetInt32(values[3]);
			version = DatumGetInt32(SPI_getbinval(table->vals[i], table->tupdesc, 5, &isnull));
			key = mw_pii_key(version);
			if (key == NULL)
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("key %d is not in the file of mw.pii_key_file", version),
						 errdetail("Values that it sealed cannot be opened, and nothing was changed."),
						 errhint("Put its line back until this function has run.")));
			place = place_of(s[0], s[1], s[2], number);
			value = unseal(key, &place, DatumGetByteaPP(SPI_getbinval(table->vals[i], table->tupdesc, 6, &isnull)), &len);
			lookup = lookup_of(&newest, s[0], value, len);
			values[4] = Int32GetDatum(newest.version);
			values[5] = PointerGetDatum(mw_key_bytea(&lookup));
			values[6] = PointerGetDatum(seal(&newest, &place, value, len));
			(void) mw_spi_write(&update, MW_AS_OWNER, values, NULL);
			if (i == n - 1)
				for (int k = 0; k < 4; k++)
					from[k] = k < 3 ? CStringGetTextDatum(s[k]) : values[3];
			explicit_bzero(value, len);
			pfree(value);
			done++;
		}
		SPI_freetuptable(table);
	}
	SPI_finish();
	PG_RETURN_INT64(done);
}
