/*
 * sqlstate.c - SQLSTATEs by the names that PL/pgSQL has for them.
 *
 * The table is made from the server's own errcodes.txt when mw is built (see
 * the Makefile), as PL/pgSQL's is, so that each version of PostgreSQL brings
 * its own.
 */
#include "postgres.h"

#include "util/sqlstate.h"

typedef struct Condition
{
	const char *code;
	const char *name;
} Condition;

static const Condition conditions[] = {
#include "util/conditions.inc"
};

const char *
mw_condition_name(int sqlerrcode)
{
	const char *code = unpack_sql_state(sqlerrcode);

	for (int i = 0; i < lengthof(conditions); i++)
	{
		if (strcmp(conditions[i].code, code) == 0)
			return conditions[i].name;
	}
	return pstrdup(code);
}

static bool
is_code(const char *name)
{
	return strlen(name) == 5 && strspn(name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5;
}

bool
mw_condition_known(const char *name)
{
	if (is_code(name))
		return true;
	for (int i = 0; i < lengthof(conditions); i++)
	{
		if (strcmp(conditions[i].name, name) == 0)
			return true;
	}
	return false;
}

static int
match_code(const char *wanted, const char *code)
{
	if (strcmp(wanted, code) == 0)
		return 2;
	return strcmp(wanted + 2, "000") == 0 && strncmp(wanted, code, 2) == 0 ? 1 : 0;
}

int
mw_condition_match(const char *name, int sqlerrcode)
{
	const char *code = unpack_sql_state(sqlerrcode);
	int			best = is_code(name) ? match_code(name, code) : 0;

	/* two codes may share a name, as string_data_right_truncation does */
	for (int i = 0; i < lengthof(conditions); i++)
	{
		if (strcmp(conditions[i].name, name) == 0)
			best = Max(best, match_code(conditions[i].code, code));
	}
	return best;
}
