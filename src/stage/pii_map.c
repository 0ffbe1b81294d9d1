/*
 * pii_map.c - the reversible placeholders of one call.
 *
 * Everything hangs on the map's memory context, which is the call's; there is
 * no static, so neither an ERROR nor the next call can see another's values.
 *
 * Numbers are issued per type from 0 by first appearance.  A number that stands
 * literally in any text of the call (<EMAIL_0> typed by somebody) is never
 * issued and so never resolves to a value.  Of the reserved numbers those below
 * 64 are kept one by one; if larger ones occur, issuing steps over all up to the
 * largest once it gets there, so that a text of a million forged placeholders
 * costs no more than reading it.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "stage/redact.h"

/* from so many entries on look-ups go through the index */
#define MW_INDEX_FROM	16

typedef struct MwPiiType
{
	char	   *name;
	int			len;
	int			next;			/* the next number to try */
	uint64		low;			/* reserved numbers below 64 */
	int			top;			/* the largest reserved number, -1 for none */
	int		   *numbers;		/* issued, ascending, with their entries */
	int		   *entries;
	int			n;
	int			cap;
} MwPiiType;

void
mw_pii_map_init(MwPiiMap *map, MemoryContext cxt)
{
	memset(map, 0, sizeof(*map));
	map->cxt = cxt;
}

static MwPiiType *
get_type(MwPiiMap *map, const char *name, int len, bool make)
{
	MwPiiType  *t;
	int			i;

	for (i = 0; i < map->ntypes; i++)
		if (map->types[i].len == len && memcmp(map->types[i].name, name, len) == 0)
			return &map->types[i];
	if (!make)
		return NULL;
	/* few types exist; forged names beyond this many are never issued anyway */
	if ((map->ntypes & (map->ntypes - 1)) == 0)
	{
		int			cap = Max(4, map->ntypes * 2);

		if (map->types == NULL)
			map->types = MemoryContextAlloc(map->cxt, sizeof(MwPiiType) * cap);
		else if (map->ntypes >= 4)
			map->types = repalloc(map->types, sizeof(MwPiiType) * cap);
	}
	t = &map->types[map->ntypes++];
	memset(t, 0, sizeof(*t));
	t->name = MemoryContextAlloc(map->cxt, len + 1);
	memcpy(t->name, name, len);
	t->name[len] = '\0';
	t->len = len;
	t->top = -1;
	return t;
}

/* Whether a literal placeholder makes a number unusable. */
static bool
is_reserved(const MwPiiType *t, int number)
{
	if (number < 64)
		return (t->low >> number) & 1;
	return number <= t->top;
}

/* Whether a number of a type is out of use from now on. */
static void
reserve(MwPiiMap *map, const char *type, int type_len, int number)
{
	/* a type nobody has a recogniser for is never issued: forgers cannot make the list long */
	MwPiiType  *t = get_type(map, type, type_len, map->ntypes < 256);

	if (t != NULL)
	{
		if (number < 64)
			t->low |= UINT64CONST(1) << number;
		t->top = Max(t->top, number);
	}
}

/* mw_pii_reserve takes the placeholders that stand in a text out of use, those that mw_restore_text would understand too. */
void
mw_pii_reserve(MwPiiMap *map, const char *s, int len)
{
	MwLoose		l;

	mw_loose_start(&l, s, len);
	while (mw_loose_next(&l))
		reserve(map, l.strict + 1, l.type_len, l.number);
}

static void
index_put(MwPiiMap *map, int entry)
{
	uint32		i = map->entries[entry].hash & (map->nslots - 1);

	while (map->slots[i] != 0)
		i = (i + 1) & (map->nslots - 1);
	map->slots[i] = entry + 1;
}

/* Make or enlarge the index so that it is at most half full. */
static void
index_grow(MwPiiMap *map)
{
	int			i;

	if (map->slots)
		pfree(map->slots);
	map->nslots = Max(64, map->nslots * 2);
	map->slots = MemoryContextAllocExtended(map->cxt, sizeof(uint32) * map->nslots,
											MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (i = 0; i < map->n; i++)
		index_put(map, i);
}

/* Enter a value under a placeholder of a type's. */
static int
add_entry(MwPiiMap *map, MwPiiType *t, int number, const char *value, int len, uint32 hash)
{
	MwPiiEntry *e;
	int			i;

	if (map->n == map->cap)
	{
		map->cap = Max(8, map->cap * 2);
		if (map->entries == NULL)
			map->entries = MemoryContextAlloc(map->cxt, sizeof(MwPiiEntry) * map->cap);
		else
			map->entries = repalloc_huge(map->entries, sizeof(MwPiiEntry) * map->cap);
	}
	if (t->n == t->cap)
	{
		t->cap = Max(8, t->cap * 2);
		if (t->numbers == NULL)
		{
			t->numbers = MemoryContextAlloc(map->cxt, sizeof(int) * t->cap);
			t->entries = MemoryContextAlloc(map->cxt, sizeof(int) * t->cap);
		}
		else
		{
			t->numbers = repalloc_huge(t->numbers, sizeof(int) * t->cap);
			t->entries = repalloc_huge(t->entries, sizeof(int) * t->cap);
		}
	}

	e = &map->entries[map->n];
	e->type = t->name;
	/* value and placeholder in one piece: '<', type, '_', ten digits, '>', NUL */
	e->value = MemoryContextAlloc(map->cxt, len + 1 + t->len + 16);
	memcpy(e->value, value, len);
	e->value[len] = '\0';
	e->value_len = len;
	e->placeholder = e->value + len + 1;
	{
		char	   *p = e->placeholder;
		char		digits[12];
		int			nd = 0;
		int			v = number;

		*p++ = '<';
		memcpy(p, t->name, t->len);
		p += t->len;
		*p++ = '_';
		do
			digits[nd++] = '0' + v % 10;
		while ((v /= 10) > 0);
		while (nd > 0)
			*p++ = digits[--nd];
		*p++ = '>';
		*p = '\0';
	}
	e->hash = hash;
	e->used = false;
	/* in order of their numbers, which nearly always come so */
	for (i = t->n++; i > 0 && t->numbers[i - 1] > number; i--)
	{
		t->numbers[i] = t->numbers[i - 1];
		t->entries[i] = t->entries[i - 1];
	}
	t->numbers[i] = number;
	t->entries[i] = map->n;
	map->n++;

	if (map->n >= MW_INDEX_FROM)
	{
		if ((uint32) map->n * 2 > map->nslots)
			index_grow(map);
		else
			index_put(map, map->n - 1);
	}
	return map->n - 1;
}

static int
find_entry(const MwPiiMap *map, const MwPiiType *t, const char *value, int len, uint32 hash)
{
	int			i;

#define SAME(e) ((e)->hash == hash && (e)->value_len == len && (e)->type == t->name && \
				 memcmp((e)->value, value, len) == 0)
	if (map->nslots > 0)
	{
		uint32		slot = hash & (map->nslots - 1);

		for (; map->slots[slot] != 0; slot = (slot + 1) & (map->nslots - 1))
		{
			i = (int) map->slots[slot] - 1;
			if (SAME(&map->entries[i]))
				return i;
		}
		return -1;
	}
	for (i = 0; i < map->n; i++)
		if (SAME(&map->entries[i]))
			return i;
#undef SAME
	return -1;
}

static uint32
hash_of(const MwPiiType *t, const char *value, int len)
{
	return hash_bytes((const unsigned char *) value, len) ^ (uint32) t->len * 0x9e3779b9u ^ (unsigned char) t->name[0];
}

/* mw_pii_entry finds the entry of a value or makes it, under the number of an earlier turn or the next free one. */
int
mw_pii_entry(MwPiiMap *map, const char *type, const char *value, int len)
{
	MwPiiType  *t = get_type(map, type, strlen(type), true);
	uint32		hash = hash_of(t, value, len);
	int			entry = find_entry(map, t, value, len, hash);

	if (entry < 0)
	{
		int			number = map->earlier ? map->earlier->number_of(map, type, value, len) : -1;

		if (number < 0)
		{
			while (is_reserved(t, t->next))
				t->next = t->next < 64 ? t->next + 1 : t->top + 1;
			number = t->next++;
		}
		entry = add_entry(map, t, number, value, len, hash);
	}
	map->entries[entry].used = true;
	return entry;
}

/* mw_pii_issued enters what an earlier turn issued; without its value the number is only used up. */
void
mw_pii_issued(MwPiiMap *map, const char *type, int number, const char *value, int len)
{
	MwPiiType  *t = get_type(map, type, strlen(type), true);

	reserve(map, type, t->len, number);
	if (value)
		(void) add_entry(map, t, number, value, len, hash_of(t, value, len));
}

/* mw_pii_typed lists the numbers that are out of use and were issued to nobody, per type: those below 64, and the largest. */
int
mw_pii_typed(const MwPiiMap *map, int type, const char **name, int *numbers)
{
	const MwPiiType *t = &map->types[type];
	int			n = 0;

	*name = t->name;
	for (int i = 0; i < 64; i++)
		if ((t->low >> i) & 1)
			numbers[n++] = i;
	if (t->top >= 64)
		numbers[n++] = t->top;
	return n;
}

/* mw_pii_add enters a value under a placeholder that is given. */
bool
mw_pii_add(MwPiiMap *map, const char *placeholder, int plen, const char *value, int len)
{
	int			type_len,
				number;
	MwPiiType  *t;

	if (plen < 1 || placeholder[0] != '<' ||
		mw_placeholder_read(placeholder, plen, &type_len, &number) != plen)
		return false;
	t = get_type(map, placeholder + 1, type_len, true);
	(void) add_entry(map, t, number, value, len, 0);
	return true;
}

/* The entry of a placeholder, NULL where the map has none */
static const MwPiiEntry *
entry_of(const MwPiiMap *map, const char *type, int type_len, int number, const MwPiiType **t)
{
	int			lo = 0;
	int			hi;

	*t = get_type((MwPiiMap *) map, type, type_len, false);
	hi = *t ? (*t)->n : 0;
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if ((*t)->numbers[mid] < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	return *t && lo < (*t)->n && (*t)->numbers[lo] == number ? &map->entries[(*t)->entries[lo]] : NULL;
}

/* mw_pii_is_issued says whether a placeholder was issued, by this call or before it. */
bool
mw_pii_is_issued(const MwPiiMap *map, const char *type, int type_len, int number)
{
	const MwPiiType *t;

	return entry_of(map, type, type_len, number, &t) != NULL ||
		(map->earlier && map->earlier->issued(map, type, type_len, number));
}

/* mw_pii_has_value says whether there is something to put back for a placeholder. */
bool
mw_pii_has_value(const MwPiiMap *map, const char *type, int type_len, int number)
{
	const MwPiiType *t;

	return entry_of(map, type, type_len, number, &t) != NULL;
}

/* mw_restore_text puts the values back. */
char *
mw_restore_text(const MwPiiMap *map, char *s, int len, int *newlen, bool *missing)
{
	MwLoose		l;
	int			done = 0;
	StringInfoData buf;
	bool		any = false;

	if (missing)
		*missing = false;
	*newlen = len;
	mw_loose_start(&l, s, len);
	while (mw_loose_next(&l))
	{
		const MwPiiType *t;
		const MwPiiEntry *e = entry_of(map, l.strict + 1, l.type_len, l.number, &t);

		if (e)
		{
			if (!any)
			{
				initStringInfo(&buf);
				enlargeStringInfo(&buf, len);
				any = true;
			}
			appendBinaryStringInfo(&buf, s + done, l.from - done);
			appendBinaryStringInfo(&buf, e->value, e->value_len);
			done = l.to;
			if (!l.is_strict)
				((MwPiiMap *) map)->loose++;
		}
		else if (missing && l.is_strict && !(t && is_reserved(t, l.number)))
			*missing = true;	/* neither ours nor somebody's own words */
	}
	if (!any)
		return s;
	appendBinaryStringInfo(&buf, s + done, len - done);
	*newlen = buf.len;
	return buf.data;
}

/* ---------- in pieces ---------- */

/* a placeholder with all that may stand around it is shorter */
#define HOLD_BYTES	128
/* a text without a blank is held back no longer than this */
#define HOLD_MAX	4096

/* mw_restore_leaf does that for strings in JSON. */
char *
mw_restore_leaf(char *s, int len, int *newlen, void *map)
{
	return mw_restore_text(map, s, len, newlen, NULL);
}

/* mw_restorer_start begins a text that comes in pieces. */
void
mw_restorer_start(MwRestorer *r, const MwPiiMap *map)
{
	r->map = map;
	initStringInfo(&r->held);
}

/* How much of a text can be restored now: what may be the beginning of a placeholder waits */
static int
safe_end(const char *s, int len)
{
	int			at = len;

	/* in the last bytes, behind the last blank ... */
	while (at > 0 && len - at < HOLD_MAX && s[at - 1] != ' ' && s[at - 1] != '\n' && s[at - 1] != '\t')
		at--;
	if (len - at >= HOLD_MAX)
	{
		at = len - HOLD_BYTES;
		while (at > 0 && ((unsigned char) s[at] & 0xc0) == 0x80)
			at--;
		return at;
	}
	/* ... and not inside of brackets */
	for (int i = at - 1; i >= Max(0, at - HOLD_BYTES); i--)
	{
		if (s[i] == '>')
			break;
		if (s[i] == '<')
			return i;
	}
	return at;
}

/* mw_restorer_feed takes a piece and appends what can be handed out to "out". */
void
mw_restorer_feed(MwRestorer *r, const char *piece, int len, StringInfo out)
{
	int			ready;
	int			n;
	char	   *restored;

	appendBinaryStringInfo(&r->held, piece, len);
	ready = safe_end(r->held.data, r->held.len);
	if (ready == 0)
		return;
	restored = mw_restore_text(r->map, r->held.data, ready, &n, NULL);
	appendBinaryStringInfo(out, restored, n);
	if (restored != r->held.data)
		pfree(restored);
	memmove(r->held.data, r->held.data + ready, r->held.len - ready + 1);
	r->held.len -= ready;
}

/* mw_restorer_end appends the rest. */
void
mw_restorer_end(MwRestorer *r, StringInfo out)
{
	int			n;
	char	   *restored = mw_restore_text(r->map, r->held.data, r->held.len, &n, NULL);

	appendBinaryStringInfo(out, restored, n);
	if (restored != r->held.data)
		pfree(restored);
	r->held.len = 0;
}
