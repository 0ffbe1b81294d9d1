/*
 * strategy.c - what stands in a value's place.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "stage/redact.h"
#include "util/hash.h"

static inline bool
is_plain(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/*
 * mw_pii_masked hides a value but for what people tell it by: of numbers the
 * last four characters (fewer of short ones), of a mail address the last label,
 * of a network address the last part.  Marks between them stay, so the reader
 * sees what kind of thing it was.
 */
char *
mw_pii_masked(const char *type, const char *value, int len, int *newlen)
{
	char	   *out = palloc(len + 1);
	int			plain = 0;
	int			keep_from = len;	/* bytes from here on stay */
	int			keep;
	int			n = 0;
	int			i;

	for (i = 0; i < len; i++)
		plain += is_plain(value[i]);
	if (strcmp(type, "EMAIL") == 0 || strcmp(type, "IP") == 0)
	{
		while (keep_from > 0 && value[keep_from - 1] != '.' && value[keep_from - 1] != ':')
			keep_from--;
	}
	else
	{
		keep = plain >= 8 ? 4 : plain / 3;
		while (keep > 0 && keep_from > 0)
			keep -= is_plain(value[--keep_from]);
	}
	for (i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) value[i];

		if (i >= keep_from || (c < 0x80 && !is_plain(value[i])))
			out[n++] = value[i];
		else if ((c & 0xc0) != 0x80)
			out[n++] = '*';		/* one for a character, whatever its bytes */
	}
	out[n] = '\0';
	*newlen = n;
	return out;
}

/* mw_pii_hashed names a value so that equal ones can be told within a tenant, and nothing else. */
char *
mw_pii_hashed(const char *tenant, const char *type, const char *value, int len)
{
	MwHash		h;
	MwKey		key;
	char	   *hex;

	mw_hash_start(&h, mw_database_key());
	mw_hash_text(&h, "pii");
	mw_hash_text(&h, tenant);
	mw_hash_text(&h, type);
	mw_hash_part(&h, value, len);
	key = mw_hash_end(&h);
	hex = mw_key_hex(&key);
	hex[16] = '\0';
	return psprintf("<%s:%s>", type, hex);
}
