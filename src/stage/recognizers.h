/*
 * recognizers.h - how the built-in rows are written (recognizers_*.c).
 */
#ifndef MW_RECOGNIZERS_H
#define MW_RECOGNIZERS_H

#include "postgres.h"

#include "stage/redact.h"

/* type, gate, pattern, validator, context, priority */
#define REC(t, g, p, v, c, n) \
	{.type = (t), .prefilter = (g), .pattern = (p), .validator = (v), .context = (c), .priority = (n), \
	 .strategy = MW_STRATEGY_PLACEHOLDER}
#define REC_ON_DEMAND(t, g, p, v, c, n) \
	{.type = (t), .prefilter = (g), .pattern = (p), .validator = (v), .context = (c), .priority = (n), \
	 .strategy = MW_STRATEGY_PLACEHOLDER, .on_demand = true}

/* the sides of a match: no letter or digit goes on there */
#define L	"(?<![A-Za-z0-9])"
#define R	"(?![A-Za-z0-9])"
/* nor a number, over a point or a hyphen */
#define LN	L "(?<![0-9][.,/-])"
#define RN	R "(?![.,/-][0-9])"
/* what stands between groups of digits */
#define S	"[ .-]?"

#endif
