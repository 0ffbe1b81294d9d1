/*
 * sqlstate.h - SQLSTATEs by the names that PL/pgSQL has for them.
 */
#ifndef MW_SQLSTATE_H
#define MW_SQLSTATE_H

#include "postgres.h"

/* The condition name of an error code, as in EXCEPTION WHEN; the five characters where it has none (mw's own) */
extern const char *mw_condition_name(int sqlerrcode);

/* Whether a text is a condition name, or five characters that can be an SQLSTATE */
extern bool mw_condition_known(const char *name);

/*
 * How well such a text names an error code: 0 not at all, 1 as its class
 * (data_exception, 22000: all of class 22), 2 exactly.
 */
extern int	mw_condition_match(const char *name, int sqlerrcode);

#endif
