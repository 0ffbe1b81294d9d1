/*
 * alone.h - text stages without a server (alone.c).
 */
#ifndef MW_ALONE_H
#define MW_ALONE_H

#include "postgres.h"

#include <setjmp.h>

/* appendBinaryStringInfo took a char pointer before PostgreSQL 16 */
#if PG_VERSION_NUM < 160000
#define MW_ALONE_DATA char
#else
#define MW_ALONE_DATA void
#endif

extern jmp_buf *mw_alone_error;
extern void mw_alone_keep(bool keep);	/* from here on memory lives as long as the process */
extern void mw_alone_reset(void);	/* free all that does not */

struct MwPolicy;
/* The built-in recognizers: those of seed types only (EMAIL, PHONE, SSN, CC), by default, or those on demand too */
typedef enum MwAloneSet
{
	MW_ALONE_FOUR, MW_ALONE_DEFAULT, MW_ALONE_ALL
} MwAloneSet;
extern struct MwPolicy *mw_alone_policy(MwAloneSet set);

#endif
