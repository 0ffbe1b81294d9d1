/*
 * rules.c - which recognizers and guards hold for a tenant.
 *
 * A tenant's rows of a type (or of a guard's name) replace those of '*', and rows
 * that an administrator wrote replace the built-in ones.  The built-in ones are the
 * library's: the tables list them, but only rows that an administrator wrote are
 * read, by an index of these alone.  Where there are none, and no settings change
 * anything, a policy points to the library's own list, which the postmaster has
 * made and nobody copies.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "policy/analyzer.h"
#include "policy/policy.h"
#include "policy/redaction.h"
#include "policy/rules.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/row.h"

/* What the library brings, recognizers by priority and guards by name */
static const MwRecognizer *builtin_recognizers;
static int	nbuiltin_recognizers;
static const MwGuard *builtin_guards;
static int	nbuiltin_guards;

void
mw_rules_builtin(const MwRecognizer *recognizers, int nrecognizers, const MwGuard *guards, int nguards)
{
	builtin_recognizers = recognizers;
	nbuiltin_recognizers = nrecognizers;
	builtin_guards = guards;
	nbuiltin_guards = nguards;
}

/* ---------- which row of several counts ---------- */

/* The least rank of a type or name: the tenant's own, then an administrator's of '*', then the built-in ones */
#define OWN		0
#define ALL		1
#define BUILTIN	2

typedef struct Rule
{
	const char *name;			/* type of a recognizer, name of a guard */
	int			rank;
	int			id;				/* several patterns of one type */
	int			priority;
	const void *row;			/* the MwRecognizer or MwGuard */
} Rule;

typedef struct Rules
{
	Rule	   *rules;
	int			n;
	int			cap;
} Rules;

static void
add(Rules *list, Rule rule)
{
	if (list->n == list->cap)
	{
		list->cap = Max(16, list->cap * 2);
		list->rules = list->rules ? repalloc(list->rules, sizeof(Rule) * list->cap) : palloc(sizeof(Rule) * list->cap);
	}
	list->rules[list->n++] = rule;
}

static int
by_name(const void *a, const void *b)
{
	const Rule *x = a;
	const Rule *y = b;
	int			c = strcmp(x->name, y->name);

	if (c == 0)
		c = x->rank - y->rank;
	return c != 0 ? c : x->id - y->id;
}

static int
by_priority(const void *a, const void *b)
{
	const Rule *x = a;
	const Rule *y = b;

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	return by_name(a, b);
}

/* Those that count, by name */
static void
choose(Rules *list)
{
	int			chosen = 0;

	qsort(list->rules, list->n, sizeof(Rule), by_name);
	for (int i = 0; i < list->n; i++)
	{
		const Rule *r = &list->rules[i];

		if (chosen > 0 && strcmp(r->name, list->rules[chosen - 1].name) == 0 && r->rank != list->rules[chosen - 1].rank)
			continue;
		list->rules[chosen++] = *r;
	}
	list->n = chosen;
}

/* ---------- an administrator's rows ---------- */

/* A text of a row, kept with the policy */
static char *
text_of(const MwPolicy *p, MwRow *row, const char *column)
{
	char	   *s = mw_row_text(row, column);

	return s ? MemoryContextStrdup(p->cxt, s) : NULL;
}

static MwStrategy
strategy_of(const char *s)
{
	MwStrategy	strategy = MW_STRATEGY_PLACEHOLDER;

	(void) mw_strategy_find(s, &strategy);
	return strategy;
}

static MwGuardKind
kind_of(const char *s)
{
	return strcmp(s, "pattern") == 0 ? MW_GUARD_PATTERN : strcmp(s, "check") == 0 ? MW_GUARD_CHECK :
		strcmp(s, "learned") == 0 ? MW_GUARD_LEARNED : strcmp(s, "function") == 0 ? MW_GUARD_FUNCTION : MW_GUARD_MODEL;
}

static int
sources_of(Datum array)
{
	static const char *const names[] = {"user", "tool", "document", "output"};	/* in the order of MwGuardSource */
	Datum	   *values;
	int			n;
	int			sources = 0;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, &n);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < lengthof(names); k++)
			if (strcmp(TextDatumGetCString(values[i]), names[k]) == 0)
				sources |= 1 << k;
	return sources;
}

static const MwRecognizer *
recognizer_of(const MwPolicy *p, MwRow *row, Rule *rule)
{
	MwRecognizer *r = MemoryContextAllocZero(p->cxt, sizeof(MwRecognizer));
	bool		isnull;
	Datum		analyzer = mw_row_named(row, "analyzer", &isnull);

	if (!isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(p->cxt);

		r->analyzer = mw_analyzer_read(DatumGetJsonbPCopy(analyzer), mw_row_text(row, "pii_type"));
		MemoryContextSwitchTo(old);
	}
	r->type = text_of(p, row, "pii_type");
	r->own = rule->rank == OWN;
	r->priority = DatumGetInt32(mw_row_named(row, "priority", &isnull));
	r->pattern = text_of(p, row, "pattern");
	r->validator = text_of(p, row, "validator");
	r->context = text_of(p, row, "context");
	r->strategy = strategy_of(mw_row_text(row, "strategy"));
	r->prefilter = text_of(p, row, "prefilter");
	r->on_demand = DatumGetBool(mw_row_named(row, "on_demand", &isnull));
	r->function = text_of(p, row, "function");
	rule->name = r->type;
	rule->id = DatumGetInt32(mw_row_named(row, "id", &isnull));
	rule->priority = r->priority;
	return r;
}

static const MwGuard *
guard_of(const MwPolicy *p, MwRow *row, Rule *rule)
{
	MwGuard    *g = MemoryContextAllocZero(p->cxt, sizeof(MwGuard));
	char	   *mode = mw_row_text(row, "mode");
	bool		isnull;

	g->guard = text_of(p, row, "guard");
	g->own = rule->rank == OWN;
	g->category = text_of(p, row, "category");
	g->pattern = text_of(p, row, "pattern");
	g->weight = DatumGetFloat8(mw_row_named(row, "weight", &isnull));
	g->mode = strcmp(mode, "off") == 0 ? MW_GUARD_OFF : strcmp(mode, "log") == 0 ? MW_GUARD_LOG : MW_GUARD_BLOCK;
	g->kind = kind_of(mw_row_text(row, "kind"));
	g->threshold = DatumGetFloat8(mw_row_named(row, "threshold", &isnull));
	g->function = text_of(p, row, "function");
	g->model = text_of(p, row, "model");
	g->question = text_of(p, row, "question");
	g->sources = sources_of(mw_row_named(row, "sources", &isnull));
	rule->name = g->guard;
	return g;
}

/* What an administrator wrote for '*' and for the tenant */
static Rules
read_rows(const MwPolicy *p, MwRowTable *table, bool guards)
{
	const char *const whose[] = {"*", p->tenant};
	Rules		list = {0};

	for (int i = 0; i < (p->tenant[0] != '\0' ? 2 : 1); i++)
	{
		Datum		key = CStringGetTextDatum(whose[i]);
		MwRow		row;

		for (bool more = mw_row_open(&row, table, &key); more; more = mw_row_next(&row))
		{
			Rule		rule = {.rank = i == 0 ? ALL : OWN};

			if (guards)
				rule.row = guard_of(p, &row, &rule);
			else
				rule.row = recognizer_of(p, &row, &rule);
			add(&list, rule);
		}
		mw_row_close(&row);
	}
	return list;
}

/* ---------- the rules of a policy ---------- */

static void
hash_recognizer(MwHash *version, const MwRecognizer *r)
{
	const MwAnalyzer *a = r->analyzer;

	mw_hash_text(version, r->type);
	mw_hash_text(version, r->pattern);
	mw_hash_text(version, r->validator);
	mw_hash_text(version, r->context);
	mw_hash_text(version, r->function);
	mw_hash_text(version, r->prefilter);
	mw_hash_part(version, &r->priority, sizeof(r->priority));
	mw_hash_part(version, &r->strategy, sizeof(r->strategy));
	mw_hash_part(version, &r->on_demand, sizeof(r->on_demand));
	if (a != NULL)
	{
		ListCell   *lc;

		mw_hash_text(version, a->server);
		mw_hash_text(version, a->language);
		foreach(lc, a->entities)
			mw_hash_text(version, lfirst(lc));
		mw_hash_part(version, &a->score_threshold, sizeof(a->score_threshold));
		mw_hash_part(version, &a->timeout_ms, sizeof(a->timeout_ms));
		mw_hash_part(version, &a->skip, sizeof(a->skip));
	}
}

static void
hash_guard(MwHash *version, const MwGuard *g)
{
	mw_hash_text(version, g->guard);
	mw_hash_text(version, g->category);
	mw_hash_text(version, g->pattern);
	mw_hash_text(version, g->function);
	mw_hash_text(version, g->model);
	mw_hash_text(version, g->question);
	mw_hash_part(version, &g->weight, sizeof(g->weight));
	mw_hash_part(version, &g->mode, sizeof(g->mode));
	mw_hash_part(version, &g->kind, sizeof(g->kind));
	mw_hash_part(version, &g->threshold, sizeof(g->threshold));
	mw_hash_part(version, &g->sources, sizeof(g->sources));
}

/* Types and strategies of the settings; a type whose recognizer was dropped meanwhile is nobody's */
static void
apply_settings(MwPolicy *p, MwRecognizer *recs, MwHash *version)
{
	const MwRedaction *r = p->redaction;
	ListCell   *lc;

	(void) mw_redaction_apply(r, recs, p->nrecognizers, false);
	foreach(lc, r->types)
		mw_hash_text(version, lfirst(lc));
	foreach(lc, r->strategy_types)
		mw_hash_text(version, lfirst(lc));
	foreach(lc, r->strategies)
		mw_hash_part(version, &lfirst_int(lc), sizeof(int));
	mw_hash_part(version, &r->everything, sizeof(r->everything));
	p->redaction = NULL;		/* its lists go with this reading */
}

static void
read_recognizers(MwPolicy *p, MwHash *version)
{
	static MwRowTable table = {
		.name = "recognizer",.index = "recognizer_own",.nkeys = 1,.equal = {F_TEXTEQ},.as = MW_AS_OWNER,.where = "NOT builtin"
	};
	Rules		list = read_rows(p, &table, false);
	MwRecognizer *recs;

	p->recognizers = builtin_recognizers;
	p->nrecognizers = nbuiltin_recognizers;
	if (list.n == 0 && p->redaction == NULL)
		return;

	for (int i = 0; i < nbuiltin_recognizers; i++)
	{
		const MwRecognizer *r = &builtin_recognizers[i];

		add(&list, (Rule) {.name = r->type, .rank = BUILTIN, .id = i, .priority = r->priority, .row = r});
	}
	choose(&list);
	qsort(list.rules, list.n, sizeof(Rule), by_priority);
	recs = MemoryContextAlloc(p->cxt, sizeof(MwRecognizer) * (list.n + 1));
	for (int i = 0; i < list.n; i++)
	{
		recs[i] = *(const MwRecognizer *) list.rules[i].row;
		if (list.rules[i].rank != BUILTIN)
			hash_recognizer(version, &recs[i]);
	}
	p->recognizers = recs;
	p->nrecognizers = list.n;
	if (p->redaction)
		apply_settings(p, recs, version);
}

static void
read_guards(MwPolicy *p, MwHash *version)
{
	static MwRowTable table = {
		.name = "guard",.index = "guard_own",.nkeys = 1,.equal = {F_TEXTEQ},.as = MW_AS_OWNER,.where = "NOT builtin"
	};
	Rules		list = read_rows(p, &table, true);
	MwGuard    *guards;

	p->guards = builtin_guards;
	p->nguards = nbuiltin_guards;
	if (list.n == 0)
		return;

	for (int i = 0; i < nbuiltin_guards; i++)
		add(&list, (Rule) {.name = builtin_guards[i].guard, .rank = BUILTIN, .row = &builtin_guards[i]});
	choose(&list);
	guards = MemoryContextAlloc(p->cxt, sizeof(MwGuard) * (list.n + 1));
	for (int i = 0; i < list.n; i++)
	{
		guards[i] = *(const MwGuard *) list.rules[i].row;
		if (list.rules[i].rank != BUILTIN)
			hash_guard(version, &guards[i]);
	}
	p->guards = guards;
	p->nguards = list.n;
}

void
mw_rules_read(MwPolicy *p)
{
	MwHash		version;
	MwKey		hash;

	mw_hash_start(&version, NULL);
	read_recognizers(p, &version);
	read_guards(p, &version);
	/* what a score means is part of the rules too, and what the library finds changes with the library */
	mw_hash_part(&version, &p->guard_shadow, sizeof(p->guard_shadow));
	mw_hash_part(&version, p->guard_threshold, sizeof(p->guard_threshold));
	mw_hash_text(&version, MW_VERSION);
	mw_hash_part(&version, &nbuiltin_recognizers, sizeof(nbuiltin_recognizers));
	mw_hash_part(&version, &nbuiltin_guards, sizeof(nbuiltin_guards));
	hash = mw_hash_end(&version);
	memcpy(p->version, hash.b, sizeof(p->version));
}
