-- Rules about the installed extension, as a view of what breaks them: no row is well.
-- Each rule says why.  Used by catalogue.sh and by test/pgtap/catalogue.sql.

CREATE TEMP VIEW mw_function AS
SELECT p.oid, p.oid::regprocedure::text AS name, p.proname, n.nspname, p.prolang, p.proconfig, p.proacl, p.proowner
FROM pg_proc AS p
JOIN pg_namespace AS n ON n.oid = p.pronamespace
JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'mw';

-- in schema mw rather than of the extension: a table that a test or a later version adds counts
CREATE TEMP VIEW mw_tenant_table AS
SELECT c.oid, c.oid::regclass::text AS name, c.relrowsecurity, c.relforcerowsecurity, a.attnum
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
WHERE c.relnamespace = 'mw'::regnamespace AND c.relkind IN ('r', 'p');

-- Who may be called by everybody: what users call, and what policies and views call for them.
CREATE TEMP VIEW mw_public_function AS
SELECT unnest(ARRAY[
	'mw_invoke', 'mw_ask', 'mw_explain', 'mw_channel', 'mw_next', 'mw_runtime', 'mw_state', 'mw_trace', 'mw_fork_session', 'mw_resume', 'mw_decide', 'mw_messages', 'mw_claim_interrupt', 'mw_inbox_html',
	'mw_redact', 'mw_restore', 'mw_guard', 'mw_wrap_document', 'mw_cache_key', 'mw_seed_cache_key', 'mw_count_tokens', 'mw_check_order', 'mw_text', 'default_texts',
	'mw_describe_tool', 'mw_call_tool', 'execute_sql', 'read_schema', 'search_documents',
	'mw_fake', 'mw_fake_requests',
	'may_act', 'may_see', 'may_review', 'may_decide', 'inbox_args', 'inbox_text', 'visible', 'queue_rows', 'breaker_rows', 'guard_stats_rows', 'window_start', 'window_end', 'budget_now']) AS proname;

CREATE TEMP VIEW mw_violation AS

-- One tenant must not see another's rows, and the owner is bound as well.
SELECT 'row-level security is not enabled and forced' AS rule, t.name AS object
FROM mw_tenant_table AS t WHERE NOT (t.relrowsecurity AND t.relforcerowsecurity)

UNION ALL
-- Reading (USING) and writing (WITH CHECK) by the one function that knows who may.
SELECT 'no policy with may_act in USING and WITH CHECK, for all commands and roles, or another one beside it', t.name
FROM mw_tenant_table AS t
WHERE (SELECT count(*) FROM pg_policy AS p WHERE p.polrelid = t.oid) <> 1
	OR NOT EXISTS (
		SELECT FROM pg_policy AS p
		WHERE p.polrelid = t.oid AND p.polcmd = '*' AND p.polpermissive AND p.polroles = '{0}'
			AND pg_get_expr(p.polqual, p.polrelid) IN ('mw.may_act(tenant)', '((tenant = ''*''::text) OR mw.may_act(tenant))',
				-- what belongs to a session: also whom the tenant's session_policy lets; a reviewer sees the interrupts of its tools
				CASE WHEN t.name IN ('mw.session', 'mw.thread', 'mw.run', 'mw.trace', 'mw.approval_log') THEN '(mw.may_act(tenant) AND mw.may_see(tenant, session))'
					WHEN t.name = 'mw.interrupt' THEN '((mw.may_act(tenant) AND mw.may_see(tenant, session)) OR mw.may_review(tenant, tool))' END)
			AND pg_get_expr(p.polwithcheck, p.polrelid) = 'mw.may_act(tenant)')

UNION ALL
-- Rows of a tenant lie together, can be spread by tenant, and no key tells of another's.
SELECT 'the primary key does not begin with the tenant', t.name
FROM mw_tenant_table AS t
WHERE NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = t.oid AND i.indisprimary AND i.indkey[0] = t.attnum)

UNION ALL
-- A unique constraint or a foreign key across tenants would say whether another has a row.
SELECT 'a unique index does not begin with the tenant', t.name || ' (' || i.indexrelid::regclass || ')'
FROM mw_tenant_table AS t JOIN pg_index AS i ON i.indrelid = t.oid AND i.indisunique AND i.indkey[0] <> t.attnum

UNION ALL
-- Callers' texts in pg_statistic would come out in EXPLAIN's estimates.
SELECT 'keeps statistics of a column that can hold a caller''s text', t.name || '.' || a.attname
FROM mw_tenant_table AS t JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE a.atttypid IN ('text'::regtype, 'jsonb'::regtype, 'bytea'::regtype, 'uuid'::regtype) AND a.attstattarget IS DISTINCT FROM 0
	-- words of ours
	AND (a.attrelid, a.attname) <> ('mw.interrupt'::regclass, 'status')

UNION ALL
-- pg_upgrade refuses a cluster with columns whose OIDs change; roles keep theirs.
SELECT 'has a reg* column other than regrole', a.attrelid::regclass || '.' || a.attname
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
WHERE c.relnamespace = 'mw'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
	AND a.atttypid IN (
		'regproc'::regtype, 'regprocedure'::regtype, 'regoper'::regtype, 'regoperator'::regtype, 'regclass'::regtype,
		'regtype'::regtype, 'regnamespace'::regtype, 'regcollation'::regtype, 'regconfig'::regtype, 'regdictionary'::regtype)

UNION ALL
-- A sequence is shared by tenants, and counts for one what another does.
SELECT 'is a sequence', c.oid::regclass::text
FROM pg_class AS c WHERE c.relnamespace = 'mw'::regnamespace AND c.relkind = 'S'

UNION ALL
-- A view with its owner's rights sees past the policies.
SELECT 'is a view without security_invoker', c.oid::regclass::text
FROM pg_class AS c
WHERE c.relnamespace = 'mw'::regnamespace AND (c.relkind = 'm'
	OR c.relkind = 'v' AND NOT COALESCE(c.reloptions && ARRAY['security_invoker=true', 'security_invoker=on', 'security_invoker=1'], false))

UNION ALL
-- Everybody reads through policies; nobody but mw writes, and the key is nobody's.
SELECT 'PUBLIC has a right other than SELECT: ' || x.privilege_type, c.oid::regclass::text
FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS x
WHERE c.relnamespace = 'mw'::regnamespace AND c.relkind <> 'i' AND x.grantee = 0
	AND (x.privilege_type <> 'SELECT' OR c.relname = 'secret')

UNION ALL
SELECT 'PUBLIC may create in the schema', n.nspname::text
FROM pg_namespace AS n CROSS JOIN LATERAL aclexplode(n.nspacl) AS x
WHERE n.nspname = 'mw' AND x.grantee = 0 AND x.privilege_type <> 'USAGE'

UNION ALL
-- A new function is everybody's unless somebody thought of it.  (No ACL at all is PostgreSQL's default: PUBLIC.)
SELECT 'PUBLIC can execute a function that is not on the list', f.name
FROM mw_function AS f
WHERE (f.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(f.proacl) AS x WHERE x.grantee = 0))
	AND f.proname NOT IN (SELECT l.proname FROM mw_public_function AS l)

UNION ALL
SELECT 'PUBLIC cannot execute a function that is on the list', l.proname
FROM mw_public_function AS l
WHERE NOT EXISTS (
	SELECT FROM mw_function AS f
	WHERE f.proname = l.proname AND EXISTS (SELECT FROM aclexplode(f.proacl) AS x WHERE x.grantee = 0))

UNION ALL
-- \df+ is the manual that people read.
SELECT 'a function has no COMMENT', f.name FROM mw_function AS f WHERE obj_description(f.oid, 'pg_proc') IS NULL
UNION ALL
SELECT 'a table or view has no COMMENT', c.oid::regclass::text
FROM pg_class AS c WHERE c.relnamespace = 'mw'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND obj_description(c.oid, 'pg_class') IS NULL

UNION ALL
-- What stands in the caller's search_path must not be called with the caller's rights, or the owner's.
SELECT 'a function in SQL or PL/pgSQL does not pin its search_path', f.name
FROM mw_function AS f JOIN pg_language AS l ON l.oid = f.prolang
WHERE l.lanname NOT IN ('c', 'internal') AND NOT COALESCE(f.proconfig && ARRAY['search_path=pg_catalog, pg_temp'], false)

UNION ALL
-- What users call is mw_verb in the chosen schema; internals are in schema mw.
SELECT 'a function is not named for its schema', f.name
FROM mw_function AS f
WHERE (f.nspname = 'mw') = (f.proname LIKE 'mw\_%')

UNION ALL
-- A worker does not know the call that runs.
SELECT 'may_act is not STABLE, PARALLEL RESTRICTED and STRICT', f.name
FROM mw_function AS f JOIN pg_proc AS p ON p.oid = f.oid
WHERE f.proname = 'may_act' AND NOT (p.provolatile = 's' AND p.proparallel = 'r' AND p.proisstrict)

UNION ALL
-- Copies in processes that nobody tells of a change are rights that outlive the right.
SELECT 'a table that processes keep copies of lacks its ALWAYS trigger', 'mw.' || t.name
FROM unnest(ARRAY['secret', 'tenant', 'tenant_grant', 'budget', 'model', 'recognizer', 'guard', 'purge']) AS t(name)
WHERE NOT EXISTS (
	SELECT FROM pg_trigger AS g
	WHERE g.tgrelid = to_regclass('mw.' || t.name) AND g.tgname = 'invalidate' AND g.tgenabled = 'A'
		AND g.tgfoid = 'mw.invalidate'::regproc AND g.tgtype = 60);
