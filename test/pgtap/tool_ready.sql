-- Risk: SQL that a model wrote changes something, sees what its caller may not,
-- or another tenant's; a ready-made tool shows what is hidden.
BEGIN;
SELECT plan(54);

SELECT mw_create_tenant('pgtap-ready');
SELECT mw_create_tenant('pgtap-ready-other');
CREATE SCHEMA pgtap_ready;
CREATE ROLE pgtap_ready_user;
SELECT mw_grant_tenant('*', 'pgtap_ready_user');		-- an application's one role
GRANT USAGE ON SCHEMA pgtap_ready TO pgtap_ready_user;
CREATE TABLE pgtap_ready.customer (id integer PRIMARY KEY, tenant text, mail text, secret text);
COMMENT ON TABLE pgtap_ready.customer IS 'who buys';
COMMENT ON COLUMN pgtap_ready.customer.mail IS 'where to write';
CREATE TABLE pgtap_ready.invoice (id integer PRIMARY KEY, customer integer REFERENCES pgtap_ready.customer, amount numeric);
CREATE TABLE pgtap_ready.salary (id integer, amount numeric);
INSERT INTO pgtap_ready.customer SELECT g, CASE WHEN g < 4 THEN 'pgtap-ready' ELSE 'pgtap-ready-other' END, 'c' || g || '@example.com', 's' FROM generate_series(1, 6) AS g;
INSERT INTO pgtap_ready.invoice SELECT g, g, g * 10 FROM generate_series(1, 6) AS g;
ALTER TABLE pgtap_ready.customer ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON pgtap_ready.customer USING (mw.may_act(tenant));
GRANT SELECT (id, tenant, mail) ON pgtap_ready.customer TO pgtap_ready_user;
GRANT SELECT ON pgtap_ready.invoice TO pgtap_ready_user;
CREATE VIEW pgtap_ready.spent WITH (security_invoker = true) AS SELECT * FROM mw.ledger;
CREATE VIEW pgtap_ready.mine AS SELECT * FROM pgtap_ready.invoice WHERE current_setting('mw.tenant') = 'pgtap-ready';
GRANT SELECT ON pgtap_ready.spent, pgtap_ready.mine TO pgtap_ready_user;
CREATE FUNCTION pgtap_ready.peek() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM mw.tool); END$$;
CREATE FUNCTION pgtap_ready.writes() RETURNS void LANGUAGE sql AS 'INSERT INTO pgtap_ready.salary VALUES (1, 2)';
CREATE FUNCTION pgtap_ready.slow() RETURNS text LANGUAGE sql AS 'SELECT pg_sleep(600)::text';

SELECT mw_create_tool('execute_sql', 'mw.execute_sql', options => '{"timeout": "50 ms"}');
SELECT mw_create_tool('read_schema', 'mw.read_schema');

SELECT throws_ok($$SELECT mw_call_tool('pgtap-ready', 'execute_sql', '{"query": "SELECT 1"}')$$, '42501',
	'a superuser does not run the SQL of a model', 'nothing binds a superuser, so none runs it');
SET LOCAL SESSION AUTHORIZATION pgtap_ready_user;

-- ---------- execute_sql ----------

CREATE FUNCTION pg_temp.ask(query text, more jsonb = '{}') RETURNS jsonb LANGUAGE sql AS
	$$SELECT (mw_call_tool('pgtap-ready', 'execute_sql', jsonb_build_object('query', query) || more)->>'content')::jsonb$$;
SELECT is(pg_temp.ask(x.query), x.said, x.why)
FROM (VALUES
	('SELECT id, mail FROM pgtap_ready.customer ORDER BY id', '{"rows": [{"id": 1, "mail": "<EMAIL_0>"}, {"id": 2, "mail": "<EMAIL_1>"}, {"id": 3, "mail": "<EMAIL_2>"}]}'::jsonb,
		'rows are those of the run''s tenant, redacted'),
	('SELECT amount AS a, id AS a FROM pgtap_ready.invoice WHERE id = 2', '{"rows": [{"a": 20, "a_2": 2}]}', 'columns of one name are two'),
	('SELECT NULL AS n, ARRAY[1, 2] AS l, ''NaN''::numeric AS x', '{"rows": [{"n": null, "l": [1, 2], "x": "NaN"}]}', 'values are those of JSON'),
	('WITH t AS (SELECT count(*) AS n FROM pgtap_ready.invoice) SELECT n, random() < 2 AS r, now() > ''2020-01-01'' AS l FROM t;', '{"rows": [{"n": 6, "r": true, "l": true}]}', 'a common query runs'),
	('VALUES (1), (2)', '{"rows": [{"column1": 1}, {"column1": 2}]}', 'VALUES is one too'),
	('SELECT count(*) FROM pgtap_ready.mine', '{"rows": [{"count": 6}]}', 'a view of the application''s may use what a model may not'),
	('SELECT 1 WHERE false', '{"rows": []}', 'no row is an answer')
) AS x (query, said, why);
SELECT is(pg_temp.ask('SELECT id FROM pgtap_ready.invoice', '{"max_rows": 1}'), '{"rows": [{"id": 1}], "more": true}', 'rows are limited, and it is said that there are more');
SELECT is(pg_temp.ask(x.query)->>'sqlstate', x.state, x.why)
FROM (VALUES
	('SELEC 1', '42601', 'what is no SQL is told'),
	('SELECT 1/0', '22012', 'and what fails'),
	('SELECT * FROM pgtap_ready.nope', '42P01', 'and what is not there'),
	('SELECT * FROM customer', '42P01', 'and what is not qualified'),
	('', '42601', 'nothing is no statement'),
	('SELECT 1; SELECT 2', '42601', 'two are one too many'),
	('SELECT 1; COMMIT', '42601', 'whatever the second is'),
	('COMMIT', '42601', 'no COMMIT'),
	('SET ROLE postgres', '42601', 'no SET'),
	('EXPLAIN SELECT 1', '42601', 'no EXPLAIN'),
	('COPY pgtap_ready.invoice TO PROGRAM ''true''', '42601', 'no COPY'),
	('DELETE FROM pgtap_ready.invoice', '42601', 'no DELETE'),
	('WITH d AS (DELETE FROM pgtap_ready.invoice RETURNING *) SELECT * FROM d', '42501', 'also not inside a WITH'),
	('SELECT * FROM pgtap_ready.invoice FOR UPDATE', '42501', 'no lock'),
	('SELECT 1 AS x INTO pgtap_ready.x', '42501', 'no new table'),
	('SELECT pgtap_ready.writes()', '25006', 'no function that writes'),
	('SELECT secret FROM pgtap_ready.customer', '42501', 'no column without a right'),
	('SELECT * FROM pgtap_ready.salary', '42501', 'no table without a right'),
	('SELECT * FROM mw.message', '42501', 'no table of mw''s'),
	('SELECT (SELECT count(*) FROM mw.ledger)', '42501', 'wherever it stands'),
	('SELECT * FROM pgtap_ready.spent', '42501', 'also not beneath a view'),
	('SELECT pgtap_ready.peek()', '42501', 'or inside a function'),
	('SELECT public.mw_channel(''pgtap-ready'')', '42501', 'no function of mw''s'),
	('SELECT query FROM pg_catalog.pg_stat_activity', '42501', 'nobody''s statements'),
	('SELECT pg_catalog.pg_stat_get_activity(NULL)', '42501', 'also not by function'),
	('SELECT current_query()', '42501', 'nor one''s own, which holds the prompt'),
	('SELECT * FROM information_schema.tables', '42501', 'no catalogue'),
	('SELECT set_config(''mw.tenant'', ''pgtap-ready-other'', false)', '42501', 'no setting is changed'),
	('SELECT current_setting(''mw.tenant'')', '42501', 'or shown'),
	('SELECT query_to_xml(''SELECT * FROM mw.tool'', true, true, '''')', '42501', 'no text is run as SQL'),
	('SELECT table_to_xml(''mw.tool'', true, true, '''')', '42501', 'no table read by name'),
	('SELECT pg_sleep(600)', '42501', 'nothing sleeps'),
	('SELECT pg_terminate_backend(1)', '42501', 'nobody is ended'),
	('SELECT pg_advisory_lock(1)', '42501', 'nothing is locked')
) AS x (query, state, why);
CREATE FUNCTION pg_temp.state(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN pg_temp.ask(query);
EXCEPTION WHEN OTHERS OR query_canceled THEN
	RETURN sqlstate;
END $$;
SELECT is(pg_temp.state('SELECT count(*) FROM generate_series(1, 1000000000)'), 'MW701', 'a statement that takes too long is stopped as the tool is');
SELECT ok(current_user = 'pgtap_ready_user' AND current_setting('transaction_read_only') = 'off', 'and nothing of it is left');

-- ---------- read_schema ----------

SELECT is((mw_call_tool('pgtap-ready', 'read_schema', '{"name": "pgtap_ready.cust"}')->>'content')::jsonb,
	'[{"kind": "table", "table": "pgtap_ready.customer", "description": "who buys", "primary_key": ["id"], "foreign_keys": null,
		"columns": [{"name": "id", "type": "integer", "not_null": true}, {"name": "tenant", "type": "text"}, {"name": "mail", "type": "text", "description": "where to write"}]}]',
	'a table is shown with what of it can be read');
SELECT is((SELECT array_agg(r->>'table' ORDER BY r->>'table') FROM jsonb_array_elements((mw_call_tool('pgtap-ready', 'read_schema')->>'content')::jsonb) AS r
		WHERE r->>'table' NOT LIKE 'pgtap\_ready.%' AND r->>'table' LIKE 'mw.%' OR r->>'table' LIKE 'pg_catalog.%' OR r->>'table' = 'pgtap_ready.salary'), NULL,
	'tables without a right, of mw and of the system are not');
SELECT is((SELECT r->'foreign_keys' FROM jsonb_array_elements((mw_call_tool('pgtap-ready', 'read_schema', '{"name": "invoice"}')->>'content')::jsonb) AS r),
	'["FOREIGN KEY (customer) REFERENCES pgtap_ready.customer(id)"]', 'what refers to what');

-- ---------- search_documents ----------

RESET SESSION AUTHORIZATION;
CREATE TABLE pgtap_ready.article (tenant text, headline text, body text);
INSERT INTO pgtap_ready.article VALUES
	('pgtap-ready', 'a', 'The quick brown fox'), ('pgtap-ready', 'b', 'A lazy dog sleeps 100%'), ('pgtap-ready', 'c', 'quick dogs'),
	('pgtap-ready-other', 'd', 'a quick dog of others');
ALTER TABLE pgtap_ready.article ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON pgtap_ready.article USING (mw.may_act(tenant));
GRANT SELECT ON pgtap_ready.article TO pgtap_ready_user;
SELECT mw_create_tool('articles', 'mw.search_documents', options => '{"fixed": {"table": "pgtap_ready.article", "text_column": "body", "title_column": "headline"}}');
SELECT mw_create_tool('nowhere', 'mw.search_documents', options => '{"fixed": {"table": "pgtap_ready.nope", "text_column": "body"}}');
CREATE FUNCTION pg_temp.titles(query text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(r->>'title', '' ORDER BY n)
	FROM jsonb_array_elements((mw_call_tool('pgtap-ready', 'articles', jsonb_build_object('query', query))->>'content')::jsonb) WITH ORDINALITY AS e (r, n) $$;
SELECT is((SELECT array_agg(k ORDER BY k) FROM jsonb_object_keys(mw_describe_tool('pgtap-ready', 'articles')->'function'->'parameters'->'properties') AS k),
	'{max_results,query}', 'a model is not asked where to search');
SELECT throws_ok($$SELECT mw_call_tool('pgtap-ready', 'nowhere', '{"query": "x"}')$$, 'MW001', NULL, 'a table that is not there is the administrator''s mistake');
SET LOCAL SESSION AUTHORIZATION pgtap_ready_user;
SELECT is(pg_temp.titles('QUICK dog'), 'cab', 'without an index words are counted, for the tenant alone');
SELECT is(pg_temp.titles('100%'), 'b', 'and stand for themselves');
RESET SESSION AUTHORIZATION;
CREATE INDEX ON pgtap_ready.article USING gin (to_tsvector('english', coalesce(headline, '') || ' ' || body));
SET LOCAL SESSION AUTHORIZATION pgtap_ready_user;
SELECT is(pg_temp.titles('sleeping dogs'), 'b', 'with an index of words it knows the language');
RESET SESSION AUTHORIZATION;
ALTER TABLE pgtap_ready.article ADD words tsvector GENERATED ALWAYS AS (to_tsvector('simple', body)) STORED;
SET LOCAL SESSION AUTHORIZATION pgtap_ready_user;
SELECT is(pg_temp.titles('quick -fox'), 'c', 'a column of words wins');

SELECT * FROM finish();
ROLLBACK;
