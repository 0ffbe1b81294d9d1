-- What is measured: a tenant with a model, a role without BYPASSRLS, and a floor of the
-- same shape (a million cached answers under forced row-level security) beside it.
-- Run once by bench/run, on an empty database, with -v url, slow_url, fifty_url.
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION mw;
CREATE EXTENSION mw_floor;
CREATE EXTENSION pg_prewarm;

CREATE ROLE bench_a LOGIN;
CREATE ROLE bench_b LOGIN;
CREATE ROLE bench_app LOGIN;
GRANT bench_a, bench_b TO bench_app;
ALTER ROLE bench_app SET bench.tenant = 'bench';

-- ---------- mw ----------

CREATE SERVER bench FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url :'url');
CREATE SERVER slow FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url :'slow_url');
CREATE SERVER fifty FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url :'fifty_url');
GRANT USAGE ON FOREIGN SERVER bench, slow, fifty TO bench_app, bench_a, bench_b;

SELECT mw_create_tenant(t, '{"model": "bench:bench-model"}')
FROM (SELECT 'bench' UNION ALL SELECT 'requests' UNION ALL SELECT 'other' || i FROM generate_series(1, 99) AS i) AS x(t) \g /dev/null
SELECT mw_create_tenant(t, '{"model": "fifty:bench-model"}') FROM unnest(ARRAY['fifty', 'unlimited']) AS t \g /dev/null
SELECT mw_grant_tenant(t, r::regrole)
FROM unnest(ARRAY['bench', 'requests', 'fifty', 'unlimited']) AS t, unnest(ARRAY['bench_app', 'bench_a', 'bench_b']) AS r \g /dev/null

-- Limits that are never reached: an infinite one would leave the budget stage without work
SELECT mw_set_budget(t, 'tokens', 1000000000000, session => '*') FROM unnest(ARRAY['bench', 'fifty']) AS t \g /dev/null
SELECT mw_set_budget('requests', 'requests', 1000000000000, session => '*') \g /dev/null
SELECT mw_set_budget(t, 'tokens', 'Infinity', session => '*') FROM unnest(ARRAY['requests', 'unlimited']) AS t \g /dev/null

-- Redacted by the reference design's four types alone
SELECT mw_create_tenant('seed') \g /dev/null
SELECT mw_create_recognizer(pii_type, '(?!)', '{"on_demand": true}', 'seed')
FROM (SELECT DISTINCT pii_type FROM mw.recognizer WHERE pii_type NOT IN ('EMAIL', 'PHONE', 'SSN', 'CC')) AS x \g /dev/null

-- Judged by the reference design's four injection patterns alone
SELECT mw_create_tenant('four') \g /dev/null
SELECT mw_alter_guard(guard, '{"mode": "off"}', 'four') FROM mw.guard WHERE builtin \g /dev/null
SELECT mw_create_guard('four' || n, p, '{}', 'four') FROM unnest(ARRAY['ignore (all |the )?(previous|prior|above) (instructions|rules)',
	'system prompt (is|was|now)', 'you are now (a |an )?', '</?(system|instruction|prompt)>']) WITH ORDINALITY AS x(p, n) \g /dev/null

-- and by all but the classifier
SELECT mw_create_tenant('scan') \g /dev/null
SELECT mw_alter_guard(guard, '{"mode": "off"}', 'scan') FROM mw.guard WHERE builtin AND kind = 'learned' \g /dev/null

-- A hit shall find its row among a million, as the floor does
INSERT INTO mw.cache (tenant, key, model, epoch, created_at, expires_at, body)
SELECT CASE WHEN i % 100 = 0 THEN 'bench' ELSE 'other' || i % 100 END, decode(md5(i::text), 'hex'), 'bench:bench-model', 0,
	now(), now() + interval '1 year',
	'{"id":"chatcmpl-' || i || '","choices":[{"message":{"role":"assistant","content":"' || repeat('One invoice of this account is overdue. ', 8) || '"}}],"usage":{"prompt_tokens":260,"completion_tokens":40}}'
FROM generate_series(1, :rows) AS i;

-- ---------- the floor ----------

CREATE SCHEMA bench;
GRANT USAGE ON SCHEMA bench TO PUBLIC;

CREATE TABLE bench.kv (
	tenant text NOT NULL,
	key bytea NOT NULL,
	answer text NOT NULL,
	PRIMARY KEY (tenant, key)
);
INSERT INTO bench.kv
SELECT tenant, key, body FROM mw.cache;
ALTER TABLE bench.kv ENABLE ROW LEVEL SECURITY;
ALTER TABLE bench.kv FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON bench.kv USING (tenant = current_setting('bench.tenant', true));

CREATE TABLE bench.ledger (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), payload text NOT NULL);
CREATE TABLE bench.budget (tenant text, session text, used bigint NOT NULL, ceiling bigint NOT NULL, PRIMARY KEY (tenant, session)) WITH (fillfactor = 50);
INSERT INTO bench.budget VALUES ('bench', 's1', 0, 1000000000000);
GRANT SELECT, INSERT, UPDATE ON bench.kv, bench.ledger, bench.budget TO bench_app, bench_a, bench_b;

-- ---------- agents ----------

CREATE ROLE bench_peer LOGIN;	-- of createAgent's checkpointers, which make their own tables
GRANT CREATE ON SCHEMA public TO bench_peer;
SELECT format('GRANT CREATE ON DATABASE %I TO bench_peer', current_database()) \gexec

CREATE FUNCTION bench.due_date(number integer) RETURNS date LANGUAGE sql STABLE RETURN date '2027-01-04';
COMMENT ON FUNCTION bench.due_date IS 'When an invoice is due, by its number.';
SELECT mw_create_tool('due_date', 'bench.due_date(integer)', tenant => 'bench') \g /dev/null
CREATE FUNCTION bench.before_sql(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT NULL::jsonb $$;
CREATE FUNCTION bench.before_plpgsql(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE FUNCTION bench.wrap_sql(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT mw_next(request) $$;
CREATE FUNCTION bench.wrap_plpgsql(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RETURN mw_next(request); END $$;

SELECT mw_create_agent('bench_plain', '{"tools": []}', 'bench') \g /dev/null
SELECT mw_create_agent('bench_tools_plain', '{"tools": ["due_date"]}', 'bench') \g /dev/null
SELECT mw_create_agent(a, jsonb_build_object('tools', t, 'middleware', jsonb '[
	{"type": "pii", "pii_type": "email"}, {"type": "pii", "pii_type": "credit_card"}, {"type": "model_call_limit", "run_limit": 25},
	{"type": "tool_call_limit", "run_limit": 25}, {"type": "model_retry", "max_retries": 2}, {"type": "tool_retry", "max_retries": 2}]'), 'bench')
FROM (VALUES ('bench_six', jsonb '[]'), ('bench_tools_six', '["due_date"]')) AS x(a, t) \g /dev/null
SELECT mw_create_agent('bench_' || f, jsonb_build_object('middleware', (SELECT jsonb_agg(jsonb_build_object('type', 'custom', 'name', 'h' || i,
	'hooks', jsonb_build_object(CASE WHEN f LIKE 'wrap%' THEN 'wrap_model_call' ELSE 'before_model' END, 'bench.' || f))) FROM generate_series(1, 10) AS i)), 'bench')
FROM unnest(ARRAY['before_sql', 'before_plpgsql', 'wrap_sql', 'wrap_plpgsql']) AS f \g /dev/null

-- threads of so many messages, as rows and as an argument
CREATE TABLE bench.thread (n integer PRIMARY KEY, messages jsonb NOT NULL);
INSERT INTO bench.thread
SELECT n, (SELECT jsonb_agg(jsonb_build_object('role', CASE WHEN i % 2 = 1 THEN 'user' ELSE 'assistant' END,
	'content', 'What about the other invoice, the one of last spring? ' || translate(i::text, '0123456789', 'abcdefghij')) ORDER BY i) FROM generate_series(1, n) AS i)
FROM unnest(ARRAY[10, 1000, 10000]) AS n;
GRANT SELECT ON bench.thread TO bench_app;
SELECT mw_invoke('bench', 'thread' || n, NULL, agent => 'bench_plain', messages => messages - -1) FROM bench.thread \g /dev/null
VACUUM (ANALYZE) mw.thread;
VACUUM (ANALYZE) mw.cache;
VACUUM (ANALYZE) bench.kv;
SELECT pg_prewarm(r::regclass) FROM unnest(ARRAY['mw.cache', 'mw.cache_pkey', 'bench.kv', 'bench.kv_pkey']) AS r \g /dev/null
CHECKPOINT;
