-- What is measured: a tenant with a model, a role without BYPASSRLS, and a floor of the
-- same shape (a million cached answers under forced row-level security) beside it.
-- Run once by bench/run, on an empty database, with -v url, slow_url.
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
GRANT USAGE ON FOREIGN SERVER bench, slow TO bench_app, bench_a, bench_b;

SELECT mw_create_tenant(t, '{"model": "bench:bench-model"}')
FROM (SELECT 'bench' UNION ALL SELECT 'requests' UNION ALL SELECT 'other' || i FROM generate_series(1, 99) AS i) AS x(t) \g /dev/null
SELECT mw_grant_tenant(t, r::regrole)
FROM unnest(ARRAY['bench', 'requests']) AS t, unnest(ARRAY['bench_app', 'bench_a', 'bench_b']) AS r \g /dev/null

-- Limits that are never reached: an infinite one would leave the budget stage without work
SELECT mw_set_budget('bench', 'tokens', 1000000000000, session => '*') \g /dev/null
SELECT mw_set_budget('requests', 'requests', 1000000000000, session => '*') \g /dev/null
SELECT mw_set_budget('requests', 'tokens', 'Infinity', session => '*') \g /dev/null

-- Judged by the reference design's four injection patterns alone
SELECT mw_create_tenant('four') \g /dev/null
SELECT mw_alter_guard(guard, '{"mode": "off"}', 'four') FROM mw.guard WHERE builtin \g /dev/null
SELECT mw_create_guard('four' || n, p, '{}', 'four') FROM unnest(ARRAY['ignore (all |the )?(previous|prior|above) (instructions|rules)',
	'system prompt (is|was|now)', 'you are now (a |an )?', '</?(system|instruction|prompt)>']) WITH ORDINALITY AS x(p, n) \g /dev/null

-- and by all but the classifier
SELECT mw_create_tenant('scan') \g /dev/null
SELECT mw_alter_guard('learned', '{"mode": "off"}', 'scan') \g /dev/null

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

VACUUM (ANALYZE) mw.cache;
VACUUM (ANALYZE) bench.kv;
SELECT pg_prewarm(r::regclass) FROM unnest(ARRAY['mw.cache', 'mw.cache_pkey', 'bench.kv', 'bench.kv_pkey']) AS r \g /dev/null
CHECKPOINT;
