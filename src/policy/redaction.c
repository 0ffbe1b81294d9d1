/*
 * redaction.c - what a tenant's settings or a call's options say about
 * redaction, and how types and strategies are called.
 *
 * The default types are found without being named.  Types named in "types", or
 * by a preset, are found as well; with a type's name its patterns on demand are
 * on, which ask for no word beside a number.  A strategy of the tenant's stands
 * for that of the recognizer's row; one of a call's only where it is stricter.
 */
#include "mw.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "policy/redaction.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/names.h"
#include "util/spi.h"

const char *const mw_redaction_keys[] = {"files", "output", "preset", "strategies", "types", NULL};
const char *const mw_redact_keys[] = {"preset", "strategies", "types", NULL};

static const char *const strategy_names[] = {"mask", "placeholder", "hash", "redact", "block"};

/* What a law or a standard asks for, as far as patterns find it; README says what they do not */
static const struct
{
	const char *name;
	const char *types[28];
}			presets[] = {
	{"pci", {"CC", "CVV", "CARD_EXPIRY", "IBAN", "BANK_ACCOUNT", "US_ROUTING", "BIC", NULL}},
	{"hipaa", {"EMAIL", "PHONE", "SSN", "CC", "URL", "IP", "MAC", "DOB", "DATE", "MRN", "HEALTH_INSURANCE", "US_MBI", "US_NPI",
			   "US_DEA", "US_ITIN", "PASSPORT", "DRIVER_LICENSE", "BANK_ACCOUNT", "IBAN", "VIN", "LICENSE_PLATE", "IMEI", "GPS", NULL}},
	{"gdpr", {NULL}},			/* everything */
};

/* gdpr: what is no person's */
static const char *const except[] = {"URL", "DATE", "CVV", "CARD_EXPIRY"};

const char *
mw_strategy_name(MwStrategy strategy)
{
	return strategy_names[strategy];
}

bool
mw_strategy_find(const char *name, MwStrategy *strategy)
{
	for (int i = 0; i < (int) lengthof(strategy_names); i++)
		if (strcmp(strategy_names[i], name) == 0)
		{
			*strategy = (MwStrategy) i;
			return true;
		}
	return false;
}

/* mw_pii_type_name spells a type as mw does; other people's names for the same are accepted. */
char *
mw_pii_type_name(const char *name)
{
	static const char *const aliases[][2] = {
		{"CREDIT_CARD", "CC"}, {"MAC_ADDRESS", "MAC"}, {"IP_ADDRESS", "IP"}, {"EMAIL_ADDRESS", "EMAIL"},
		{"PHONE_NUMBER", "PHONE"}, {"US_SSN", "SSN"}, {"IBAN_CODE", "IBAN"}, {"US_BANK_NUMBER", "BANK_ACCOUNT"},
		{"US_PASSPORT", "PASSPORT"}, {"US_DRIVER_LICENSE", "DRIVER_LICENSE"}, {"ES_NIE", "ES_NIF"},
		{"FI_PERSONAL_IDENTITY_CODE", "FI_HETU"}, {"MEDICAL_LICENSE", "US_DEA"}, {"IN_PASSPORT", "PASSPORT"},
		{"IT_PASSPORT", "PASSPORT"}, {"IT_DRIVER_LICENSE", "DRIVER_LICENSE"}, {"IT_IDENTITY_CARD", "IT_ID_CARD"},
		{"SWIFT", "BIC"}, {"DATE_OF_BIRTH", "DOB"}, {"DATE_TIME", "DATE"}, {"ABA_ROUTING_NUMBER", "US_ROUTING"},
	};
	char	   *upper = pstrdup(name);

	for (char *p = upper; *p; p++)
		if (*p >= 'a' && *p <= 'z')
			*p -= 32;
	for (size_t i = 0; i < lengthof(aliases); i++)
		if (strcmp(upper, aliases[i][0]) == 0)
			return pstrdup(aliases[i][1]);
	return upper;
}

/* A name for a message: a caller's text, so cut where it is long */
static char *
shown(const char *name)
{
	return pnstrdup(name, pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1));
}

static char *
string_of(JsonbValue *v, const char *what)
{
	if (v->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_MW_BAD_ARGUMENT),
				 errmsg("%s must be a string", what)));
	return mw_value_string(v);
}

static void
read_preset(const char *name, MwRedaction *out)
{
	for (size_t i = 0; i < lengthof(presets); i++)
		if (strcmp(presets[i].name, name) == 0)
		{
			if (presets[i].types[0] == NULL)
				out->everything = true;
			for (int k = 0; presets[i].types[k]; k++)
				out->types = lappend(out->types, unconstify(char *, presets[i].types[k]));
			return;
		}
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("unknown preset \"%s\"", shown(name)),
			 errhint("Known: gdpr, hipaa, pci.")));
}

/* mw_redaction_read reads an object of settings or options. */
void
mw_redaction_read(Jsonb *jb, const char *what, const char *const *known, MwRedaction *out)
{
	JsonbValue *v;
	MwJsonEach	each;

	memset(out, 0, sizeof(*out));
	mw_json_check_keys(jb, "option", what, known);

	if ((v = mw_json_get(jb, "preset")) != NULL && v->type != jbvNull)
	{
		out->types_given = true;
		if (mw_value_is_array(v))
		{
			each = mw_json_each(v->val.binary.data);
			while (mw_json_next(&each))
				read_preset(string_of(&each.value, "a preset"), out);
		}
		else
			read_preset(string_of(v, "\"preset\""), out);
	}
	if ((v = mw_json_get(jb, "types")) != NULL && v->type != jbvNull)
	{
		Jsonb	   *list = mw_json_value_jsonb(v);

		out->types_given = true;
		if (!mw_json_is_array(list))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("\"types\" must be an array of names of types"),
					 errhint("Such as {\"types\": [\"EMAIL\", \"PHONE\"]}.")));
		each = mw_json_each(&list->root);
		while (mw_json_next(&each))
			out->types = lappend(out->types, mw_pii_type_name(string_of(&each.value, "a name of a type")));
	}
	if ((v = mw_json_get(jb, "strategies")) != NULL && v->type != jbvNull)
	{
		Jsonb	   *object = mw_json_value_jsonb(v);

		if (!mw_json_is_object(object))
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("\"strategies\" must be an object of types and their strategies"),
					 errhint("Such as {\"strategies\": {\"EMAIL\": \"mask\"}}.")));
		each = mw_json_each(&object->root);
		while (mw_json_next(&each))
		{
			char	   *type = mw_pii_type_name(mw_value_string(&each.key));
			MwStrategy	strategy;

			if (!mw_strategy_find(string_of(&each.value, "a strategy"), &strategy))
				ereport(ERROR,
						(errcode(ERRCODE_MW_BAD_ARGUMENT),
						 errmsg("unknown strategy for type %s", shown(type)),
						 errhint("Known: mask, placeholder, hash, redact, block.")));
			out->strategy_types = lappend(out->strategy_types, type);
			out->strategies = lappend_int(out->strategies, strategy);
		}
	}
	if ((v = mw_json_get(jb, "output")) != NULL && v->type != jbvNull)
	{
		if (v->type != jbvBool)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("\"output\" must be true or false"),
					 errhint("With true, personal data that a model invents is redacted in its answer.")));
		out->output = v->val.boolean;
	}
	if ((v = mw_json_get(jb, "files")) != NULL && v->type != jbvNull)
	{
		char	   *files = string_of(v, "\"files\"");

		if (strcmp(files, "refuse") != 0 && strcmp(files, "pass") != 0)
			ereport(ERROR,
					(errcode(ERRCODE_MW_BAD_ARGUMENT),
					 errmsg("\"files\" must be \"pass\" or \"refuse\""),
					 errhint("Images and files are not looked into: they pass as they are, or are refused with MW201.")));
		out->refuse_files = files[0] == 'r';
	}
}

/* mw_redaction_names says whether a type is asked for. */
bool
mw_redaction_names(const MwRedaction *r, const char *type)
{
	if (mw_lists(r->types, type))
		return true;
	if (!r->everything)
		return false;
	for (size_t i = 0; i < lengthof(except); i++)
		if (strcmp(except[i], type) == 0)
			return false;
	return true;
}

static bool
has_type(const MwRecognizer *recs, int n, const char *type)
{
	for (int i = 0; i < n; i++)
		if (strcmp(recs[i].type, type) == 0)
			return true;
	return false;
}

/* mw_redaction_apply gives types and strategies to recognizers. */
const char *
mw_redaction_apply(const MwRedaction *r, MwRecognizer *recs, int n, bool stricter)
{
	ListCell   *lc,
			   *ls;

	if (r->types_given)
		for (int i = 0; i < n; i++)
			if (mw_redaction_names(r, recs[i].type))
				recs[i].demanded = true;
	forboth(lc, r->strategy_types, ls, r->strategies)
	{
		MwStrategy	strategy = (MwStrategy) lfirst_int(ls);

		for (int i = 0; i < n; i++)
			if (strcmp(recs[i].type, lfirst(lc)) == 0 && (!stricter || strategy > recs[i].strategy))
				recs[i].strategy = strategy;
	}
	foreach(lc, r->types)
		if (!has_type(recs, n, lfirst(lc)))
			return lfirst(lc);
	foreach(lc, r->strategy_types)
		if (!has_type(recs, n, lfirst(lc)))
			return lfirst(lc);
	return NULL;
}

static _Noreturn void
unknown_type(const char *type, const char **known, int n)
{
	StringInfoData list;

	qsort(known, n, sizeof(char *), pg_qsort_strcmp);
	/* a type may have several patterns */
	initStringInfo(&list);
	for (int i = 0; i < n; i++)
		if (i == 0 || strcmp(known[i], known[i - 1]) != 0)
			appendStringInfo(&list, "%s%s", list.len ? ", " : "", known[i]);
	ereport(ERROR,
			(errcode(ERRCODE_MW_BAD_ARGUMENT),
			 errmsg("unknown type of personal data \"%s\"", shown(type)),
			 errhint("Known: %s.", list.data)));
}

/* mw_redaction_unknown refuses a type that nobody has. */
void
mw_redaction_unknown(const MwPolicy *policy, const char *type)
{
	const char **names = palloc(sizeof(char *) * Max(1, policy->nrecognizers));

	for (int i = 0; i < policy->nrecognizers; i++)
		names[i] = policy->recognizers[i].type;
	unknown_type(type, names, policy->nrecognizers);
}

/*
 * mw_redaction_check refuses settings that name a type nobody has.  Names that the
 * settings had before pass: their recognizer may have been dropped since, and
 * that must not stop a change of something else.
 */
void
mw_redaction_check(const char *tenant, const MwRedaction *now, const MwRedaction *before)
{
	static MwStmt stmt = {
		"SELECT DISTINCT r.pii_type FROM mw.recognizer AS r"
		" WHERE r.tenant OPERATOR(pg_catalog.=) '*' OR r.tenant OPERATOR(pg_catalog.=) $1",
		1, {TEXTOID}
	};
	Datum		arg = CStringGetTextDatum(tenant);
	const char **known;
	int			n;
	ListCell   *lc;

	if (now == NULL || (now->types == NIL && now->strategy_types == NIL))
		return;
	n = (int) mw_spi_read(&stmt, MW_AS_OWNER, &arg, NULL, 0);
	known = palloc(sizeof(char *) * Max(1, n));
	for (int i = 0; i < n; i++)
		known[i] = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
	foreach(lc, list_concat_copy(now->types, now->strategy_types))
	{
		const char *type = lfirst(lc);
		bool		there = before && (mw_lists(before->types, type) || mw_lists(before->strategy_types, type));

		for (int i = 0; i < n && !there; i++)
			there = strcmp(known[i], type) == 0;
		if (!there)
			unknown_type(type, known, n);
	}
}

/* ---------- policies with more ---------- */

/*
 * What is redacted otherwise is cached otherwise, so a variant has a version of
 * its own, by which it is found again: its plan is made once and not for every
 * call.  Callers choose their options freely, so only so many are kept.
 */
#define MAX_VARIANTS	32

const MwPolicy *
mw_policy_variant(const MwPolicy *policy, const MwKey *version)
{
	for (const MwPolicy *v = policy->variants; v != NULL; v = v->next)
		if (memcmp(v->version, version->b, sizeof(v->version)) == 0)
			return v;
	return NULL;
}

MwPolicy *
mw_policy_copy(const MwPolicy *policy, const MwKey *version, int more, MwRecognizer **recognizers)
{
	MwPolicy   *own = palloc(sizeof(MwPolicy));

	*own = *policy;
	own->cxt = CurrentMemoryContext;
	own->redact_plan = NULL;
	own->variants = own->next = NULL;
	memcpy(own->version, version->b, sizeof(own->version));
	*recognizers = palloc(sizeof(MwRecognizer) * Max(1, policy->nrecognizers + more));
	memcpy(*recognizers, policy->recognizers, sizeof(MwRecognizer) * policy->nrecognizers);
	own->recognizers = *recognizers;
	return own;
}

const MwPolicy *
mw_policy_keep(const MwPolicy *policy, const MwPolicy *own)
{
	MwPolicy   *base = unconstify(MwPolicy *, policy);
	MemoryContext old;
	MwPolicy   *kept;
	MwRecognizer *recs;
	MwKey		version;
	int			n = 0;

	for (const MwPolicy *v = policy->variants; v != NULL; v = v->next)
		n++;
	if (n >= MAX_VARIANTS)
		return own;
	memcpy(version.b, own->version, sizeof(version.b));
	old = MemoryContextSwitchTo(policy->cxt);
	kept = mw_policy_copy(own, &version, 0, &recs);
	for (int i = policy->nrecognizers; i < kept->nrecognizers; i++)
	{
		MwRecognizer *rec = &recs[i];

		rec->type = pstrdup(rec->type);
		rec->pattern = pstrdup(rec->pattern);
	}
	kept->next = base->variants;
	base->variants = kept;
	MemoryContextSwitchTo(old);
	return kept;
}

/* mw_redaction_tighten makes a call's policy. */
const MwPolicy *
mw_redaction_tighten(const MwPolicy *policy, Jsonb *options)
{
	const MwPolicy *kept;
	MwPolicy   *own;
	MwRecognizer *recs;
	MwRedaction r;
	const char *unknown;
	MwHash		h;
	MwKey		version;

	mw_hash_start(&h, NULL);
	mw_hash_part(&h, policy->version, sizeof(policy->version));
	mw_hash_text(&h, mw_json_canonical(options));
	version = mw_hash_end(&h);
	if ((kept = mw_policy_variant(policy, &version)) != NULL)
		return kept;

	mw_redaction_read(options, "\"redact\"", mw_redaction_keys, &r);
	own = mw_policy_copy(policy, &version, 0, &recs);
	own->redact_output |= r.output;
	own->refuse_files |= r.refuse_files;
	unknown = mw_redaction_apply(&r, recs, own->nrecognizers, true);
	if (unknown)
		mw_redaction_unknown(policy, unknown);
	return mw_policy_keep(policy, own);
}
