/*
 * vault.h - what a session's placeholders stand for, kept from turn to turn.
 *
 *   vault_key.c  the keys: a file that only the server reads
 *   vault.c      the rows of mw.pii: sealed, found by a keyed hash, rotated
 *   erase.c      mw_erase: what is of a tenant, a session, a value
 */
#ifndef MW_VAULT_H
#define MW_VAULT_H

#include "mw.h"

/* One version of the key file, as the keys that are derived from it */
typedef struct MwPiiKey
{
	int			version;		/* from 1; 0 is the database's own key, which hashes and seals nothing */
	uint8		seal[32];
	uint8		lookup[32];
} MwPiiKey;

/* The key that seals; NULL where mw.pii_key_file is empty.  MW001 for a file that cannot be used. */
extern const MwPiiKey *mw_pii_key_newest(void);
/* A version of it, 0 included; NULL where it is not in the file */
extern const MwPiiKey *mw_pii_key(int version);
/* What is wrong with the file, NULL for nothing; *hint says what to do.  Raises nothing. */
extern char *mw_pii_key_problem(char **hint);
extern bool mw_pii_key_exposed(void);	/* others than its owner can read or write it */

/* A placeholder of a session: <TYPE_NUMBER> */
typedef struct MwPiiRow
{
	const char *type;
	int			number;
	char	   *value;			/* NULL: not to be had (erased, sealed by a key that is gone, never sealed, typed by somebody) */
	int			len;
	int			key_version;	/* of the key that "lookup" was made with */
	bool		has_lookup;		/* else nobody's: erased, or typed */
	MwKey		lookup;			/* keyed hash of tenant and value */
} MwPiiRow;

/* All rows of a session, by type and number, in the current context; as the owner, after may_act(tenant) */
extern int	mw_vault_read(const char *tenant, const char *session, MwPiiRow **rows);
/* Add rows (type, number, value), or seal what was only hashed; those without a value use a number up.  Raises 25006 in a read-only transaction. */
extern void mw_vault_write(const char *tenant, const char *session, const MwPiiRow *rows, int n);
/* The hash by which a value is found; false where that version of the key is not there */
extern bool mw_vault_lookup(int key_version, const char *tenant, const char *value, int len, MwKey *lookup);

/* erase.c: inside SPI, as the owner; a tenant's rows that callers write, all of them */
extern void mw_erase_tenant(const char *tenant);

#endif
