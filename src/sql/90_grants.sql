-- Who can do what.  Nothing is granted anywhere else in this script.

-- ---------- rows: every table with a tenant shows those that may_act allows, to everybody ----------

-- what belongs to one tenant
DO $$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY ARRAY[
		'tenant', 'tenant_grant', 'budget', 'purge', 'result', 'pii', 'session', 'thread', 'run', 'trace', 'interrupt', 'reviewer', 'approval_log',
		'attempt', 'spent', 'pruned', 'answer', 'cache',
		'fake_attempt', 'fake_spent', 'fake_answer', 'fake_cache']
	LOOP
		EXECUTE pg_catalog.format('ALTER TABLE mw.%I ENABLE ROW LEVEL SECURITY', t);
		EXECUTE pg_catalog.format('ALTER TABLE mw.%I FORCE ROW LEVEL SECURITY', t);
		-- a reviewer sees the interrupts of its tools, and nothing else of the tenant
		EXECUTE pg_catalog.format('CREATE POLICY may_act ON mw.%I USING (mw.may_act(tenant)%s%s) WITH CHECK (mw.may_act(tenant))', t,
			-- what belongs to a session is seen by whom the tenant's session_policy lets
			CASE WHEN t IN ('session', 'thread', 'run', 'trace', 'interrupt', 'approval_log') THEN ' AND mw.may_see(tenant, session)' ELSE '' END,
			CASE t WHEN 'interrupt' THEN ' OR mw.may_review(tenant, tool)' ELSE '' END);
	END LOOP;
END
$$;

-- catalogues, where '*' is everybody's to read
DO $$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['model', 'price', 'recognizer', 'guard', 'tool', 'agent']
	LOOP
		EXECUTE pg_catalog.format('ALTER TABLE mw.%I ENABLE ROW LEVEL SECURITY', t);
		EXECUTE pg_catalog.format('ALTER TABLE mw.%I FORCE ROW LEVEL SECURITY', t);
		EXECUTE pg_catalog.format('CREATE POLICY may_act ON mw.%I USING (tenant OPERATOR(pg_catalog.=) ''*'' OR mw.may_act(tenant)) WITH CHECK (mw.may_act(tenant))', t);
	END LOOP;
END
$$;

-- ---------- statistics: EXPLAIN must not tell another tenant's names or texts ----------

DO $$
DECLARE
	c record;
BEGIN
	-- all columns of these tables but numbers, booleans and times: a caller's text may be in any of them but those that hold words of ours
	FOR c IN
		SELECT a.attrelid::regclass AS rel, a.attname
		FROM pg_catalog.pg_attribute AS a
		JOIN pg_catalog.pg_class AS r ON r.oid = a.attrelid
		WHERE r.relnamespace = 'mw'::regnamespace AND r.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
			AND a.atttypid IN ('text'::regtype, 'jsonb'::regtype, 'bytea'::regtype, 'uuid'::regtype)
			AND (a.attrelid, a.attname) <> ('mw.interrupt'::regclass, 'status')
	LOOP
		EXECUTE pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', c.rel, c.attname);
	END LOOP;
END
$$;

-- ---------- tables and views: read only, and only through the policies above ----------

GRANT USAGE ON SCHEMA mw TO PUBLIC;

-- mw.secret is not here: nobody has a right on it; and no policy shows its row to those that
-- may read or write everything (pg_read_all_data, pg_write_all_data)
ALTER TABLE mw.secret ENABLE ROW LEVEL SECURITY;
ALTER TABLE mw.secret FORCE ROW LEVEL SECURITY;

GRANT SELECT ON
	mw.tenant, mw.tenant_grant, mw.budget, mw.model, mw.price, mw.recognizer, mw.guard, mw.tool, mw.purge, mw.result,
	mw.agent, mw.session, mw.thread, mw.run, mw.trace, mw.message, mw.interrupt, mw.inbox, mw.reviewer, mw.approval_log,
	mw.attempt, mw.spent, mw.pruned, mw.answer, mw.cache,
	mw.fake_attempt, mw.fake_spent, mw.fake_answer, mw.fake_cache,
	mw.ledger, mw.usage, mw.budget_status, mw.queue, mw.cache_entries, mw.breaker, mw.guard_stats
TO PUBLIC;

-- which placeholders there are; what they stand for is read by mw alone, after may_act
GRANT SELECT (tenant, session, pii_type, number, key_version, issued_at) ON mw.pii TO PUBLIC;

-- ---------- functions: none but those listed ----------

DO $$
DECLARE
	f regprocedure;
BEGIN
	-- PostgreSQL grants every new function to PUBLIC; take that back from all that this script made
	FOR f IN
		SELECT d.objid::regprocedure
		FROM pg_catalog.pg_depend AS d
		JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
		WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.refclassid = 'pg_catalog.pg_extension'::regclass
			AND d.deptype = 'e' AND e.extname = 'mw'
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
	END LOOP;
END
$$;

-- callers: what a role can do with them depends on the tenants that it was granted
GRANT EXECUTE ON FUNCTION
	@extschema@.mw_invoke,
	@extschema@.mw_ask,
	@extschema@.mw_messages,
	@extschema@.mw_resume,
	@extschema@.mw_decide,
	@extschema@.mw_claim_interrupt,
	@extschema@.mw_inbox_html,
	@extschema@.mw_explain,
	@extschema@.mw_channel,
	@extschema@.mw_next,
	@extschema@.mw_runtime,
	@extschema@.mw_state,
	@extschema@.mw_fork_session,
	@extschema@.mw_trace
TO PUBLIC;

-- pure pieces: nothing but their arguments, or a tenant that they check
GRANT EXECUTE ON FUNCTION
	@extschema@.mw_redact(text, text, jsonb),
	@extschema@.mw_redact(text, text, jsonb, text),
	@extschema@.mw_restore(text, jsonb),
	@extschema@.mw_restore(text, text, text),
	@extschema@.mw_guard,
	@extschema@.mw_wrap_document,
	@extschema@.mw_cache_key,
	@extschema@.mw_seed_cache_key,
	@extschema@.mw_count_tokens,
	@extschema@.mw_check_order,
	@extschema@.mw_text,
	mw.default_texts
TO PUBLIC;

-- tools by hand: they run as the caller, for a tenant that is checked
GRANT EXECUTE ON FUNCTION
	@extschema@.mw_describe_tool,
	@extschema@.mw_call_tool,
	mw.execute_sql,
	mw.read_schema,
	mw.search_documents
TO PUBLIC;

-- the test double: for whoever has USAGE on a fake server
GRANT EXECUTE ON FUNCTION
	@extschema@.mw_fake,
	@extschema@.mw_fake_requests
TO PUBLIC;

-- what policies and views call on behalf of whoever reads
GRANT EXECUTE ON FUNCTION
	mw.may_act,
	mw.may_see,
	mw.may_review,
	mw.inbox_args,
	mw.inbox_text,
	mw.may_decide,
	mw.visible,
	mw.queue_rows,
	mw.breaker_rows,
	mw.guard_stats_rows,
	mw.window_start,
	mw.window_end,
	mw.budget_now
TO PUBLIC;

-- Everything else is administration: GRANT EXECUTE on a function makes an administrator.
