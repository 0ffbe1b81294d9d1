/*
 * pii_recall.c - where the values of a text stand, remembered.
 *
 * What is personal in a text is a function of text and rules, unless functions or
 * servers are asked, and the same texts come again: a prompt whose answer is in
 * the cache, an instruction that every call begins with, the earlier messages of a
 * thread that an application keeps itself.  So a process remembers places, never
 * values: from where, how far, and by which of the rules.
 *
 * A text is known by a keyed hash of 128 bits (util/hash.c) of it and of the version
 * of its rules; nobody outside of the process can make one that meets another's.
 * The memory is bounded, at 2 MB where every text is full of values, and mostly far
 * smaller; a new text takes the place of the oldest of four.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "stage/detect.h"
#include "util/hash.h"

/* texts remembered, four a place, the newest first */
#define RECALLED		512
#define RECALLED_ALIKE	4
/* shorter ones are searched about as fast as they are hashed; those of more values are searched again */
#define RECALLED_MIN	256
#define RECALLED_VALUES	128

typedef struct Place
{
	int			from;
	uint16		len;
	uint16		rec;			/* among the policy's recognizers */
} Place;

typedef struct Recalled
{
	MwKey		key;
	int			n;
	Place	   *places;			/* NULL for none */
} Recalled;

/* of the process's pages only those that hold something are ever touched */
static Recalled recalled[RECALLED][RECALLED_ALIKE];

static MemoryContext
places_cxt(void)
{
	static MemoryContext cxt = NULL;

	if (cxt == NULL)
		cxt = AllocSetContextCreate(TopMemoryContext, "mw recalled places", ALLOCSET_SMALL_SIZES);
	return cxt;
}

static void
remember(Recalled *alike, const MwKey *key, const MwPolicy *policy, const MwSpan *spans, int n)
{
	Recalled	text = {*key, n, NULL};

	if (n > RECALLED_VALUES || policy->nrecognizers > PG_UINT16_MAX)
		return;
	for (int i = 0; i < n; i++)
		if (spans[i].to - spans[i].from > PG_UINT16_MAX)
			return;
	if (n > 0)
		text.places = MemoryContextAlloc(places_cxt(), sizeof(Place) * n);
	for (int i = 0; i < n; i++)
	{
		text.places[i].from = spans[i].from;
		text.places[i].len = spans[i].to - spans[i].from;
		text.places[i].rec = spans[i].rec - policy->recognizers;
	}
	if (alike[RECALLED_ALIKE - 1].places)
		pfree(alike[RECALLED_ALIKE - 1].places);
	memmove(&alike[1], &alike[0], sizeof(Recalled) * (RECALLED_ALIKE - 1));
	alike[0] = text;
}

static MwSpan *
recall(const Recalled *text, const MwPolicy *policy)
{
	MwSpan	   *spans;

	if (text->n == 0)
		return NULL;
	spans = palloc0(sizeof(MwSpan) * text->n);
	for (int i = 0; i < text->n; i++)
	{
		spans[i].from = text->places[i].from;
		spans[i].to = text->places[i].from + text->places[i].len;
		spans[i].rec = &policy->recognizers[text->places[i].rec];
		spans[i].entry = -1;
	}
	return spans;
}

/* mw_pii_recall is mw_pii_find_with for texts that may come again. */
MwSpan *
mw_pii_recall(const MwPolicy *policy, const struct MwAnalyses *analyses, const char *s, int len, const char *label, int *nspans)
{
	Recalled   *alike;
	MwKey		key;
	MwSpan	   *spans;

	if (len < RECALLED_MIN || label != NULL || mw_plan_of(policy)->functions)
		return mw_pii_find_with(policy, analyses, s, len, label, nspans);
	key = mw_hash_private(policy->version, MW_PRIVATE_PLACES, s, len);
	alike = recalled[mw_hash_private_slot(&key, RECALLED)];
	for (int i = 0; i < RECALLED_ALIKE; i++)
		if (memcmp(&alike[i].key, &key, sizeof(key)) == 0)
		{
			*nspans = alike[i].n;
			return recall(&alike[i], policy);
		}
	spans = mw_pii_find_with(policy, analyses, s, len, label, nspans);
	remember(alike, &key, policy, spans, *nspans);
	return spans;
}
