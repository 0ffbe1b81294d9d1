/*
 * schema.h - does a JSON text meet a schema?
 */
#ifndef MW_SCHEMA_H
#define MW_SCHEMA_H

#include "postgres.h"

/* schema: a JSON schema as text.  False where s is no JSON or breaks it.  What mw does not know of JSON Schema asks for nothing. */
extern bool mw_schema_accepts(const char *schema, const char *s, int len);

#endif
