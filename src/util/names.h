/*
 * names.h - is a name one of those?
 */
#ifndef MW_NAMES_H
#define MW_NAMES_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* Of a List of char * */
static inline bool
mw_lists(const List *names, const char *name)
{
	ListCell   *lc;

	foreach(lc, names)
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	return false;
}

/* Of an array that ends with NULL */
static inline bool
mw_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

#endif
