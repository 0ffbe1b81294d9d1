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

/* 17 made the lexer's memory the caller's choice; NULL lets it allocate as before */
#if PG_VERSION_NUM < 170000
#define mw_json_lexer(s, len, encoding, escapes) makeJsonLexContextCstringLen(s, len, encoding, escapes)
#else
#define mw_json_lexer(s, len, encoding, escapes) makeJsonLexContextCstringLen(NULL, s, len, encoding, escapes)
#endif

/* 16 took VARDATA and its kin out of postgres.h */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 made one function of the pg_*_aclcheck family */
#if PG_VERSION_NUM < 160000
#define mw_server_aclcheck(serverid, roleid, mode) pg_foreign_server_aclcheck(serverid, roleid, mode)
#define mw_function_aclcheck(fn, roleid, mode) pg_proc_aclcheck(fn, roleid, mode)
#else
#define mw_server_aclcheck(serverid, roleid, mode) object_aclcheck(ForeignServerRelationId, serverid, roleid, mode)
#define mw_function_aclcheck(fn, roleid, mode) object_aclcheck(ProcedureRelationId, fn, roleid, mode)
#endif

/* 16 moved the rights that a query needs of a table out of its range table entry */
#if PG_VERSION_NUM < 160000
#define MW_RTE_NEEDS(query, rte, rights)	((rte)->requiredPerms = (rights))
#else
#define MW_RTE_NEEDS(query, rte, rights) \
	(addRTEPermissionInfo(&(query)->rteperminfos, (rte))->requiredPerms = (rights))
#endif

/* 16 calls the files of a relation by another name */
#if PG_VERSION_NUM < 160000
#define MW_READ_RECENT_BUFFER(rel, block, buffer)	ReadRecentBuffer((rel)->rd_node, MAIN_FORKNUM, block, buffer)
#else
#define MW_READ_RECENT_BUFFER(rel, block, buffer)	ReadRecentBuffer((rel)->rd_locator, MAIN_FORKNUM, block, buffer)
#endif

/* 18 asks whether a deferrable key will do, and counts what an index scan does for EXPLAIN */
#if PG_VERSION_NUM < 180000
#define MW_PRIMARY_KEY_INDEX(rel)	RelationGetPrimaryKeyIndex(rel)
#define MW_INDEX_BEGINSCAN(rel, index, snapshot, nkeys)	index_beginscan(rel, index, snapshot, nkeys, 0)
#else
#define MW_PRIMARY_KEY_INDEX(rel)	RelationGetPrimaryKeyIndex(rel, false)
#define MW_INDEX_BEGINSCAN(rel, index, snapshot, nkeys)	index_beginscan(rel, index, snapshot, NULL, nkeys, 0)
#endif

/* 18 runs a plan once in any case */
#if PG_VERSION_NUM < 180000
#define MW_EXECUTOR_RUN(desc, count)	ExecutorRun(desc, ForwardScanDirection, count, true)
#else
#define MW_EXECUTOR_RUN(desc, count)	ExecutorRun(desc, ForwardScanDirection, count)
#endif

/* 16 moved the rights that a query needs of its tables: what ExecutorCheckPerms_hook is called with */
#if PG_VERSION_NUM < 160000
#define MW_CHECK_PERMS_PARAMS	List *tables, bool report
#define MW_CHECK_PERMS_PASS		tables, report
#else
#define MW_CHECK_PERMS_PARAMS	List *tables, List *rights, bool report
#define MW_CHECK_PERMS_PASS		tables, rights, report
#endif

/*
 * A search_path for our own statements (util/spi.c).  Before 17 an override
 * costs next to nothing while setting the variable costs 2 us and another for
 * each change of role; 17 took the override away and made setting cheap.
 */
#if PG_VERSION_NUM < 170000
#define MW_SEARCH_PATH_OVERRIDE 1
#endif

/* 17 lets an extension name its wait events */
#if PG_VERSION_NUM < 170000
#define MW_WAIT_EVENT_NEW(name)	PG_WAIT_EXTENSION
#else
#define MW_WAIT_EVENT_NEW(name)	WaitEventExtensionNew(name)
#endif

/* 17 ties a wait event set to a resource owner; ours lives as long as its process */
#if PG_VERSION_NUM < 170000
#define MW_CREATE_WAIT_SET(n)	CreateWaitEventSet(TopMemoryContext, (n))
#else
#define MW_CREATE_WAIT_SET(n)	CreateWaitEventSet(NULL, (n))
#endif

#endif							/* MW_COMPAT_H */
