/*
 * fallback.h - the list of models that a call falls back to: the tenant's
 * setting and the option of a call have one form.
 */
#ifndef MW_FALLBACK_H
#define MW_FALLBACK_H

#include "mw.h"

typedef struct MwFallback
{
	int			n;
	char	  **models;			/* server:model */
	Jsonb	  **settings;		/* model_settings; NULL for none */
	List	   *on;				/* of int: statuses after which another model is asked beyond the usual ones */
} MwFallback;

/* Raises MW001; "what" is "option" or "setting".  An empty list is no fallback at all. */
extern MwFallback *mw_fallback_read(Jsonb *spec, const char *what);

#endif
