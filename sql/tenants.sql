-- Risk: a tenant sees another one's rows: through a table, a view, a write or what EXPLAIN estimates.
-- Rows of two tenants are put into every table that has a tenant; each role asks for all of them.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;
CREATE ROLE tenants_app_a;
CREATE ROLE tenants_app_b;
CREATE ROLE tenants_nobody;

SELECT mw_create_tenant('tn-a');
SELECT mw_create_tenant('tn-b');
SELECT mw_grant_tenant('tn-a', 'tenants_app_a');
SELECT mw_grant_tenant('tn-b', 'tenants_app_b');

-- a row a tenant in every table
DO $$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY '{tn-a,tn-b}'::text[] LOOP
		PERFORM mw_set_budget(t, 'tokens', 700);
		PERFORM mw_set_budget(t, 'requests', 9, '*');
		PERFORM mw_create_recognizer('BADGE', 'B-\d{4}', '{}', t);
		PERFORM mw_create_guard('own', 'open sesame', '{}', t);
		INSERT INTO mw.purge VALUES (t, 1);	-- by hand: a running gateway would touch the rows below
		INSERT INTO mw.model (tenant, model) VALUES (t, 'x:' || t);
		INSERT INTO mw.result (tenant, request_id, fingerprint, session, result) VALUES (t, 'r1', '\x00', 's-' || t, '{}');
		INSERT INTO mw.answer VALUES (t, 'r1', '\x01', 1, true, 'body of ' || t, now());
		INSERT INTO mw.cache VALUES (t, '\x02', 'x:m', 1, now(), now() + interval '1 day', 'body of ' || t);
		INSERT INTO mw.spent (tenant, session, requests, tokens, excess_tokens) VALUES (t, '', 3, 120, 20), (t, 's-' || t, 3, 120, 20);
		INSERT INTO mw.pruned VALUES (t, '', 0, 0, 0, 0, 0, 0, now()), (t, 's-' || t, 0, 0, 0, 0, 0, 0, now());
		-- a call that failed, then succeeded; and one in flight
		INSERT INTO mw.attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, purpose, model,
			started_at, finished_at, outcome, http_status, input_tokens, output_tokens, reserved_tokens, reserved_requests, billed_tokens, billed_requests)
		VALUES
			(t, '00000000-0000-0000-0000-000000000001', 1, 1, 's-' || t, 'r1', true, 1, 'model', 'x:m', now() - interval '3 s', now() - interval '2 s', 'failed', 429, NULL, NULL, 100, 1, 0, 1),
			(t, '00000000-0000-0000-0000-000000000001', 1, 2, 's-' || t, 'r1', true, 1, 'model', 'x:m', now() - interval '2 s', now() - interval '1 s', 'ok', 200, 100, 20, 100, 0, 120, 0),
			(t, '00000000-0000-0000-0000-000000000002', 1, 1, 's2-' || t, 'r2', true, 1, 'model', 'x:m', now(), NULL, 'running', NULL, NULL, NULL, 50, 1, 0, 0);
		INSERT INTO mw.fake_attempt SELECT * FROM mw.attempt AS a WHERE a.tenant = t AND a.request_id = 'r2';
		UPDATE mw.fake_attempt SET run_id = '00000000-0000-0000-0000-000000000003', request_id = 'r3', outcome = 'ok', finished_at = now() WHERE tenant = t;
		INSERT INTO mw.fake_spent (tenant, session, requests, tokens) VALUES (t, '', 1, 10);
		INSERT INTO mw.fake_answer SELECT * FROM mw.answer AS a WHERE a.tenant = t;
		INSERT INTO mw.fake_cache VALUES (t, '\x03', 'x:m', 1, now(), now() + interval '1 day', 'body of ' || t);
	END LOOP;
END
$$;

-- which tenants does a role see in each table and view?  (The list is the catalogue's, so that a new one is not forgotten.)
CREATE FUNCTION tenants_seen(OUT relation text, OUT tenants text) RETURNS SETOF record
LANGUAGE plpgsql AS $$
BEGIN
	FOR relation IN
		SELECT c.relname FROM pg_class AS c
		WHERE c.relnamespace = 'mw'::regnamespace AND c.relkind IN ('r', 'v')
			AND EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant')
		ORDER BY 1
	LOOP
		EXECUTE format('SELECT string_agg(DISTINCT x.tenant, '' '' ORDER BY x.tenant) FROM mw.%I AS x', relation) INTO tenants;
		RETURN NEXT;
	END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION tenants_seen() TO PUBLIC;

SET ROLE tenants_app_a;
SELECT * FROM tenants_seen();
SET ROLE tenants_app_b;
SELECT * FROM tenants_seen() WHERE tenants LIKE '%tn-a%';
SET ROLE tenants_nobody;
SELECT * FROM tenants_seen() WHERE tenants IS DISTINCT FROM '*';

-- what the views say
SET ROLE tenants_app_a;
SELECT tenant, session, request_id, call, attempt, outcome, http_status, input_tokens, output_tokens, cost, billed_tokens, final
FROM mw.ledger ORDER BY request_id, call, attempt;
SELECT tenant, session, request_id, turn, call, purpose, model, input_tokens, output_tokens, cost FROM mw.usage ORDER BY request_id;
SELECT tenant, session, unit, per, amount, settled, reserved, excess, remaining, resets_at, soft, forecast IS NOT NULL AS forecast
FROM mw.budget_status ORDER BY session NULLS FIRST, unit;
SELECT tenant, key, model, bytes FROM mw.cache_entries ORDER BY key;
SELECT count(*) FROM mw.queue;
RESET ROLE;

-- a limit for each session replaces the default, and a session's own that
SELECT mw_set_budget('tn-a', 'tokens', 300, '*');
SELECT mw_set_budget('tn-a', 'tokens', 'Infinity', 's-tn-a');
SELECT session, unit, amount, settled, reserved, remaining FROM mw.budget_status WHERE tenant = 'tn-a' ORDER BY session NULLS FIRST, unit;

-- nobody writes but mw itself
SET ROLE tenants_app_a;
INSERT INTO mw.tenant VALUES ('tn-c');
UPDATE mw.spent SET tokens = 0;
DELETE FROM mw.budget;
INSERT INTO mw.tenant_grant VALUES ('tn-b', 'tenants_app_a');
TRUNCATE mw.attempt;
SELECT * FROM mw.secret;
SELECT mw_drop_tenant('tn-b');
RESET ROLE;

-- even for a role that may write, the policy checks what it writes
CREATE ROLE tenants_writer;
GRANT INSERT, SELECT, UPDATE, DELETE ON mw.result, mw.recognizer TO tenants_writer;
SELECT mw_grant_tenant('tn-a', 'tenants_writer');
SET ROLE tenants_writer;
INSERT INTO mw.result (tenant, request_id, fingerprint, result) VALUES ('tn-b', 'r9', '\x00', '{}');
UPDATE mw.result SET tenant = 'tn-b';
DELETE FROM mw.result WHERE tenant = 'tn-b';
DELETE FROM mw.result RETURNING tenant;
INSERT INTO mw.recognizer (tenant, pii_type, pattern) VALUES ('*', 'EVERYBODY', 'x');
RESET ROLE;

-- no statistics on what callers wrote, after ANALYZE as well: EXPLAIN would tell from them
ANALYZE;
SELECT s.tablename, s.attname, a.atttypid::regtype AS type
FROM pg_stats AS s
JOIN pg_attribute AS a ON a.attrelid = format('mw.%I', s.tablename)::regclass AND a.attname = s.attname
WHERE s.schemaname = 'mw' AND a.atttypid IN ('text'::regtype, 'jsonb'::regtype, 'bytea'::regtype, 'uuid'::regtype)
ORDER BY 1, 2;

-- a function that an attacker marks cheap runs after the policy, not before
CREATE FUNCTION tenants_peek(text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'peeked: %', $1; RETURN true; END $$;
GRANT EXECUTE ON FUNCTION tenants_peek TO PUBLIC;
SET ROLE tenants_app_b;
SELECT count(*) FROM mw.ledger WHERE tenants_peek(session);
SELECT count(*) FROM mw.result WHERE tenants_peek(session);
RESET ROLE;

-- names: one channel each, handed out only to those who may act
SELECT mw_channel('tn-a') = mw_channel('tn-a') AS same, mw_channel('tn-a') <> mw_channel('tn-b') AS apart, length(mw_channel('tn-a')) <= 63 AS fits;
SET ROLE tenants_app_b;
SELECT mw_channel('tn-a');
SELECT mw_channel('tn-none');
RESET ROLE;

-- a drop erases what callers' transactions wrote and leaves a purge behind for what the gateway did
SELECT epoch > 0 AS purged FROM mw.purge WHERE tenant = 'tn-a';
SELECT mw_drop_tenant('tn-a');
SELECT relation FROM tenants_seen() WHERE tenants LIKE '%tn-a%'
	AND relation NOT IN ('attempt', 'spent', 'pruned', 'answer', 'cache', 'ledger', 'usage', 'budget_status', 'cache_entries');
SELECT epoch > 0 AS purged FROM mw.purge WHERE tenant = 'tn-a';
-- and at once nobody sees anything of it but superusers
SET ROLE tenants_app_a;
SELECT * FROM tenants_seen() WHERE tenants IS DISTINCT FROM '*' AND tenants <> '';
RESET ROLE;

SELECT mw_drop_tenant('tn-b');
DELETE FROM mw.attempt WHERE tenant LIKE 'tn-%';
DELETE FROM mw.spent WHERE tenant LIKE 'tn-%';
DELETE FROM mw.pruned WHERE tenant LIKE 'tn-%';
DELETE FROM mw.answer WHERE tenant LIKE 'tn-%';
DELETE FROM mw.cache WHERE tenant LIKE 'tn-%';
DELETE FROM mw.purge WHERE tenant LIKE 'tn-%';
DROP FUNCTION tenants_seen();
DROP FUNCTION tenants_peek(text);
REVOKE ALL ON mw.result, mw.recognizer FROM tenants_writer;
DROP ROLE tenants_app_a, tenants_app_b, tenants_nobody, tenants_writer;
