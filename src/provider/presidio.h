/*
 * presidio.h - requests to a Presidio analyzer.
 */
#ifndef MW_PRESIDIO_H
#define MW_PRESIDIO_H

#include "mw.h"

typedef struct MwPresidioText
{
	const char *s;
	int			len;
} MwPresidioText;

/* entities: of char *, in Presidio's words */
extern void mw_presidio_encode(StringInfo body, const MwPresidioText *texts, int ntexts, const char *language,
							   const List *entities, double least_score);

#endif
