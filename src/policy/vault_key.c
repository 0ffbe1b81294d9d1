/*
 * vault_key.c - the keys that seal what placeholders stand for.
 *
 * They stand in a file outside of the database, named by mw.pii_key_file, so that
 * neither a dump nor a stolen disk of tables gives a value away.  A line is a
 * version and 64 hexadecimal digits; the highest version seals, the others open
 * what they sealed.  From each, libsodium derives one key for sealing and one for
 * the hash by which a value is found.  Version 0 is derived from the database's
 * own key, which every dump of it holds: it makes hashes where there is no file,
 * and never seals.
 *
 * The file is read by the process that needs it and read again when it has
 * changed (inode, size or time).  Keys stay in this process's memory.
 */
#include "mw.h"

#include <sodium.h>
#include <sys/stat.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "guc.h"
#include "policy/policy.h"
#include "policy/vault.h"

#define MAX_FILE	65536
#define MAX_KEYS	256

static MwPiiKey keys[MAX_KEYS];
static int	nkeys;
static MwPiiKey own;			/* version 0 */

/* what they were read from; path "" for nothing */
static char read_path[MAXPGPATH];
static struct stat read_stat;

static void
derive(MwPiiKey *key, int version, const uint8 *master)
{
	StaticAssertStmt(crypto_kdf_KEYBYTES == 32, "a master key has 32 bytes");
	key->version = version;
	crypto_kdf_derive_from_key(key->seal, sizeof(key->seal), 1, "mw.pii.k", master);
	crypto_kdf_derive_from_key(key->lookup, sizeof(key->lookup), 2, "mw.pii.k", master);
}

/* One line of the file; false where it is none */
static bool
read_line(const char *line, MwPiiKey *key)
{
	uint8		master[32];
	char	   *end;
	long		version;
	size_t		n;
	const char *rest;

	errno = 0;
	version = strtol(line, &end, 10);
	if (errno != 0 || end == line || version < 1 || version > PG_INT32_MAX || (*end != ' ' && *end != '\t'))
		return false;
	end += strspn(end, " \t");
	if (sodium_hex2bin(master, sizeof(master), end, strlen(end), NULL, &n, &rest) != 0 || n != sizeof(master) ||
		rest[strspn(rest, " \t\r")] != '\0')
		return false;
	derive(key, (int) version, master);
	sodium_memzero(master, sizeof(master));
	return true;
}

static char *
parse(char *text, char **hint)
{
	int			n = 0;
	int			lineno = 0;

	for (char *line = text, *next; line != NULL; line = next)
	{
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		lineno++;
		line += strspn(line, " \t\r");
		if (*line == '\0' || *line == '#')
			continue;
		*hint = "A line is a version (1, 2, ...) and 64 hexadecimal digits: echo \"1 $(openssl rand -hex 32)\" > FILE";
		if (n == MAX_KEYS)
			return psprintf("it has more than %d keys", MAX_KEYS);
		if (!read_line(line, &keys[n]))
			return psprintf("line %d is no key", lineno);
		for (int i = 0; i < n; i++)
			if (keys[i].version == keys[n].version)
				return psprintf("version %d stands in it twice", keys[n].version);
		n++;
	}
	*hint = "Write one: echo \"1 $(openssl rand -hex 32)\" > FILE";
	if (n == 0)
		return pstrdup("it holds no key");
	nkeys = n;
	return NULL;
}

/* Read the file where it is another one than last time; NULL, or why it cannot be used */
static char *
refresh(char **hint)
{
	struct stat st;
	FILE	   *f;
	char	   *text;
	size_t		n;
	char	   *why;

	*hint = "It must be readable by the user that PostgreSQL runs as.";
	if (mw_guc_pii_key_file[0] == '\0')
	{
		sodium_memzero(keys, sizeof(keys));
		nkeys = 0;
		read_path[0] = '\0';
		return NULL;
	}
	if (stat(mw_guc_pii_key_file, &st) != 0)
		return psprintf("it cannot be opened: %s", strerror(errno));
	if (strcmp(read_path, mw_guc_pii_key_file) == 0 && st.st_ino == read_stat.st_ino && st.st_dev == read_stat.st_dev &&
		st.st_size == read_stat.st_size && st.st_mtim.tv_sec == read_stat.st_mtim.tv_sec &&
		st.st_mtim.tv_nsec == read_stat.st_mtim.tv_nsec)
		return NULL;

	read_path[0] = '\0';
	sodium_memzero(keys, sizeof(keys));
	nkeys = 0;
	if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE)
		return psprintf("it is no file of at most %d bytes", MAX_FILE);
	if (strlen(mw_guc_pii_key_file) >= sizeof(read_path))
		return pstrdup("its name is too long");
	f = AllocateFile(mw_guc_pii_key_file, "r");
	if (f == NULL)
		return psprintf("it cannot be opened: %s", strerror(errno));
	text = palloc(MAX_FILE + 1);
	n = fread(text, 1, MAX_FILE, f);
	text[n] = '\0';
	why = ferror(f) ? psprintf("it cannot be read: %s", strerror(errno)) :
		strlen(text) != n ? pstrdup("it holds a zero byte") : parse(text, hint);
	FreeFile(f);
	sodium_memzero(text, MAX_FILE + 1);
	pfree(text);
	if (why == NULL)
	{
		strlcpy(read_path, mw_guc_pii_key_file, sizeof(read_path));
		read_stat = st;
	}
	return why;
}

char *
mw_pii_key_problem(char **hint)
{
	return refresh(hint);
}

/* Keys come and go with the file: asked for anew whenever they are used */
static void
require_keys(void)
{
	char	   *hint;
	char	   *why = refresh(&hint);

	if (why)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("the file of mw.pii_key_file cannot be used"),
				 errdetail("%c%s.", pg_toupper((unsigned char) why[0]), why + 1),
				 errhint("%s", hint)));
}

const MwPiiKey *
mw_pii_key_newest(void)
{
	const MwPiiKey *newest = NULL;

	require_keys();
	for (int i = 0; i < nkeys; i++)
		if (newest == NULL || keys[i].version > newest->version)
			newest = &keys[i];
	return newest;
}

const MwPiiKey *
mw_pii_key(int version)
{
	if (version == 0)
	{
		derive(&own, 0, mw_database_key());
		return &own;
	}
	require_keys();
	for (int i = 0; i < nkeys; i++)
		if (keys[i].version == version)
			return &keys[i];
	return NULL;
}

bool
mw_pii_key_exposed(void)
{
	struct stat st;

	return mw_guc_pii_key_file[0] != '\0' && stat(mw_guc_pii_key_file, &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}
