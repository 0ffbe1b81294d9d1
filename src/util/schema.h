/*
 * schema.h - what of a JSON value breaks a JSON schema, and what is wrong with a schema.
 */
#ifndef MW_SCHEMA_H
#define MW_SCHEMA_H

#include "postgres.h"

#include "utils/jsonb.h"

/*
 * What of a value breaks the schema, as sentences from which a model can mend
 * it ('"b" is missing; "a" must be a number'); NULL: nothing.  What mw does not
 * know of JSON Schema asks for nothing.
 */
extern char *mw_schema_breach(Jsonb *schema, Jsonb *value);
/* The same of texts, yes or no.  False where s is no JSON or breaks it. */
extern bool mw_schema_accepts(const char *schema, const char *s, int len);
/* What a $ref of a schema points to, within it; NULL for nothing, or for another document */
extern JsonbValue *mw_schema_ref(JsonbValue *root, const JsonbValue *ref);
/* schema_fault.c: what of a schema is wrong, as a sentence for whoever wrote it, with the place; NULL: nothing */
extern char *mw_schema_fault(Jsonb *schema);

#endif
