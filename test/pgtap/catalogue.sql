-- Risk: a table without policy, a function that everybody can call, a view that sees past the policies.
-- The rules stand in test/checks/catalogue.sql; here they find nothing in mw as it is, and each
-- finds the fault that is planted for it.
BEGIN;
SET client_min_messages = warning;
\ir ../checks/catalogue.sql
SELECT plan(23);

SELECT is_empty('SELECT object, rule FROM mw_violation', 'mw breaks no rule');

-- plant, look, undo: the number of violations whose rule is like that
CREATE FUNCTION pg_temp.finds(plant text, rule text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	BEGIN
		EXECUTE plant;
		EXECUTE format('SELECT count(*) FROM mw_violation AS v WHERE v.rule LIKE %L', rule) INTO n;
		RAISE EXCEPTION USING ERRCODE = 'ZZ000';	-- undoes what was planted
	EXCEPTION WHEN SQLSTATE 'ZZ000' THEN
		NULL;
	END;
	RETURN ok(n > 0, 'found: ' || plant);
END
$$;

SELECT pg_temp.finds('ALTER TABLE mw.budget NO FORCE ROW LEVEL SECURITY', 'row-level security is not%');
SELECT pg_temp.finds('CREATE TABLE mw.planted (tenant text PRIMARY KEY)', 'row-level security is not%');
SELECT pg_temp.finds('CREATE TABLE mw.planted (tenant text PRIMARY KEY)', 'no policy%');
SELECT pg_temp.finds('DROP POLICY may_act ON mw.result; CREATE POLICY may_act ON mw.result USING (mw.may_act(tenant)) WITH CHECK (true)', 'no policy%');
SELECT pg_temp.finds('DROP POLICY may_act ON mw.result; CREATE POLICY may_act ON mw.result USING (true) WITH CHECK (mw.may_act(tenant))', 'no policy%');
SELECT pg_temp.finds('CREATE POLICY another ON mw.result USING (true)', 'no policy%');
SELECT pg_temp.finds('ALTER TABLE mw.result DROP CONSTRAINT result_pkey, ADD PRIMARY KEY (request_id, tenant)', 'the primary key does not%');
SELECT pg_temp.finds('CREATE UNIQUE INDEX ON mw.result (request_id)', 'a unique index does not%');
SELECT pg_temp.finds('ALTER TABLE mw.result ALTER COLUMN session SET STATISTICS 100', 'keeps statistics%');
SELECT pg_temp.finds('CREATE TABLE mw.planted (f regprocedure)', 'has a reg*%');
SELECT pg_temp.finds('CREATE SEQUENCE mw.planted', 'is a sequence');
SELECT pg_temp.finds('CREATE VIEW mw.planted AS SELECT 1 AS x', 'is a view without%');
SELECT pg_temp.finds('GRANT UPDATE ON mw.spent TO PUBLIC', 'PUBLIC has a right%');
SELECT pg_temp.finds('GRANT SELECT ON mw.secret TO PUBLIC', 'PUBLIC has a right%');
SELECT pg_temp.finds('GRANT CREATE ON SCHEMA mw TO PUBLIC', 'PUBLIC may create%');
SELECT pg_temp.finds('CREATE FUNCTION mw.planted() RETURNS int LANGUAGE sql AS ''SELECT 1''; ALTER EXTENSION mw ADD FUNCTION mw.planted()', 'PUBLIC can execute%');
SELECT pg_temp.finds('REVOKE EXECUTE ON FUNCTION mw.may_act(text) FROM PUBLIC', 'PUBLIC cannot execute%');
SELECT pg_temp.finds('COMMENT ON FUNCTION mw.may_act(text) IS NULL', 'a function has no COMMENT');
SELECT pg_temp.finds('CREATE FUNCTION mw.planted() RETURNS int LANGUAGE sql AS ''SELECT 1''; ALTER EXTENSION mw ADD FUNCTION mw.planted()', 'a function in SQL or PL/pgSQL%');
SELECT pg_temp.finds('CREATE FUNCTION mw.mw_planted() RETURNS int LANGUAGE sql AS ''SELECT 1''; ALTER EXTENSION mw ADD FUNCTION mw.mw_planted()', 'a function is not named%');
SELECT pg_temp.finds('ALTER FUNCTION mw.may_act(text) PARALLEL SAFE', 'may_act is not%');
SELECT pg_temp.finds('ALTER TABLE mw.tenant_grant ENABLE TRIGGER invalidate', 'a table that processes keep%');

SELECT * FROM finish();
ROLLBACK;
