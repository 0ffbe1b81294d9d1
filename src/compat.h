/*
 * compat.h - every test of PostgreSQL's and libcurl's version.
 *
 * One source serves PostgreSQL 15, 17 and 18.  What changed between them is
 * named here once, after the newest spelling, so that the code reads as if
 * there were one version.
 */
#ifndef MW_COMPAT_H
#define MW_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "mw needs PostgreSQL 15 or later"
#endif

/* 16 renamed the macro families; both spellings work from 16 on */
#if PG_VERSION_NUM < 160000
#include "common/jsonapi.h"
#define MW_JSON_ACTION			void
#define MW_JSON_OK				return
#else
#include "common/jsonapi.h"
#define MW_JSON_ACTION			JsonParseErrorType
#define MW_JSON_OK				return JSON_SUCCESS
#endif

#endif							/* MW_COMPAT_H */
