-- Risk: a tool or a hook that asks a model itself gets round its run: its limits of calls, tokens, money or time, the
-- budget of its tenant, its tenant; or it calls itself without an end.
BEGIN;
SELECT plan(24);

CREATE SERVER nested FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-nested', '{"model": "nested:m", "cache": false, "guardrail": false, "retry": 1}');
SELECT mw_create_tenant('pgtap-other', '{"model": "nested:m"}');
SELECT mw_set_price('nested:m', 1000000, 1000000);
CREATE SCHEMA nested;
GRANT USAGE ON SCHEMA nested TO PUBLIC;
CREATE FUNCTION nested.ask(q text, session text DEFAULT NULL, tenant text DEFAULT 'pgtap-nested') RETURNS text LANGUAGE sql AS $$
	SELECT public.mw_ask(tenant, session, q)
$$;
CREATE FUNCTION nested.ask_thrice(q text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(public.mw_ask('pgtap-nested', NULL, q || n), ' ') FROM generate_series(1, 3) AS n
$$;
CREATE FUNCTION nested.again(q text) RETURNS text LANGUAGE sql AS $$ SELECT public.mw_ask('pgtap-nested', NULL, q, tools => '["again"]') $$;
CREATE FUNCTION nested.same(q text) RETURNS text LANGUAGE sql AS $$ SELECT public.mw_ask('pgtap-nested', public.mw_runtime()->>'session', q, agent => 'asker') $$;
CREATE FUNCTION nested.hook(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('messages', jsonb_build_array(jsonb_build_object('role', 'user', 'content', public.mw_ask('pgtap-nested', NULL, 'Anything to add?'))))
$$;
SELECT mw_create_tool(n, format('nested.%s', n), n, options => '{"writes": true}', tenant => 'pgtap-nested') FROM unnest('{ask,ask_thrice,again,same}'::text[]) AS n;
SELECT mw_create_agent('asker', '{"tools": ["ask", "ask_thrice", "again", "same"]}', 'pgtap-nested');
CREATE FUNCTION pg_temp.call(name text, args jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('tool_calls', jsonb_build_array(jsonb_build_object('id', 'c1', 'name', name, 'arguments', args)), 'usage', '{"prompt_tokens": 595, "completion_tokens": 5}'::jsonb)
$$;
CREATE FUNCTION pg_temp.text(t text) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_build_object('text', t, 'usage', '{"prompt_tokens": 595, "completion_tokens": 5}'::jsonb) $$;
CREATE FUNCTION pg_temp.script(VARIADIC steps jsonb[]) RETURNS void LANGUAGE sql AS $$ SELECT mw_fake('nested', jsonb_build_object('m', to_jsonb(steps))) $$;
CREATE FUNCTION pg_temp.sent() RETURNS int LANGUAGE sql AS $$ SELECT count(*)::int FROM mw_fake_requests('nested') $$;
CREATE FUNCTION pg_temp.run(options jsonb DEFAULT '{}', agent text DEFAULT 'asker') RETURNS jsonb LANGUAGE sql AS $$
	SELECT mw_invoke('pgtap-nested', 's' || pg_temp.sent() || clock_timestamp(), 'Go', agent => agent, options => '{"on_error": "return", "max_tokens": 5}' || options)
$$;

-- ---------- it works ----------

SELECT pg_temp.script(pg_temp.call('ask', '{"q": "inner"}'), pg_temp.text('from inside'), pg_temp.text('done'));
CREATE TEMPORARY TABLE r AS SELECT pg_temp.run() AS r;
SELECT is(r->>'output', 'done', 'a tool asks a model') FROM r;
SELECT is(r #>> '{messages,-2,content}', 'from inside', 'and its answer is the tool''s result') FROM r;
SELECT is((SELECT string_agg(body #>> '{messages,-1,content}', '|' ORDER BY n) FROM mw_fake_requests('nested')), 'Go|inner|from inside', 'in three calls');
SELECT is((SELECT count(DISTINCT run_id) FROM mw.ledger WHERE tenant = 'pgtap-nested'), 2::bigint, 'the inner one is a run of its own in the ledger');
SELECT is(r #>> '{usage,input_tokens}', '1190', 'the result shows what the run itself used') FROM r;

-- ---------- limits of the run ----------

SELECT pg_temp.script(pg_temp.call('ask_thrice', '{"q": "inner"}'), pg_temp.text('1'), pg_temp.text('2'), pg_temp.text('3'), pg_temp.text('done'));
SELECT is(pg_temp.run('{"limits": {"calls": 5}}')->>'output', 'done', 'calls of tools count as calls of the run: five are enough');
SELECT pg_temp.script(pg_temp.call('ask_thrice', '{"q": "inner"}'), pg_temp.text('1'), pg_temp.text('2'), pg_temp.text('3'), pg_temp.text('done'));
CREATE TEMPORARY TABLE e AS SELECT pg_temp.run('{"limits": {"calls": 3}}')->'error' AS e;
SELECT ok(e::text LIKE '%limit of calls%' AND e::text LIKE '%3 model calls with those of its tools and hooks%', 'a call too much is refused inside') FROM e;
SELECT is(pg_temp.sent(), 3, 'and was not sent');
SELECT pg_temp.script(pg_temp.call('ask_thrice', '{"q": "inner"}'), pg_temp.text('1'), pg_temp.text('2'), pg_temp.text('3'), pg_temp.text('done'));
SELECT ok(pg_temp.run('{"limits": {"calls": 4}}')->'error'->>'sqlstate' = 'MW601', 'as it is outside, after the tool has used them up');
SELECT is(pg_temp.sent(), 4, 'with what was sent before');
SELECT pg_temp.script(pg_temp.call('ask_thrice', '{"q": "inner"}'), pg_temp.text('1'), pg_temp.text('2'), pg_temp.text('3'), pg_temp.text('done'));
SELECT ok((pg_temp.run('{"limits": {"cost": 1812}}')->'error')::text ~ 'MW301|MW601', 'its money is that of the run');
SELECT is(pg_temp.sent(), 3, 'which does not last for the third call of the tool''s');
SELECT pg_temp.script(pg_temp.call('ask_thrice', '{"q": "inner"}'), pg_temp.text('1'), pg_temp.text('2'), pg_temp.text('3'), pg_temp.text('done'));
SELECT ok((pg_temp.run('{"limits": {"tokens": 1812}}')->'error')::text ~ 'MW301|MW601', 'and so are its tokens');
SELECT is(pg_temp.sent(), 3, 'likewise');

-- a hook, too
SELECT mw_create_agent('hooked', '{"middleware": [{"type": "custom", "name": "more", "hooks": {"before_model": "nested.hook"}}]}', 'pgtap-nested');
SELECT pg_temp.script(pg_temp.text('add this'), pg_temp.text('done'));
SELECT is(pg_temp.run('{"limits": {"calls": 2}}', 'hooked')->>'output', 'done', 'a hook asks a model');
SELECT pg_temp.script(pg_temp.text('add this'), pg_temp.text('done'));
SELECT is(pg_temp.run('{"limits": {"calls": 1}}', 'hooked')->'error'->>'sqlstate', 'MW601', 'within the run''s limits');

-- ---------- one budget ----------

SELECT mw_set_budget('pgtap-nested', 'requests', (SELECT settled + 2 FROM mw.budget_status WHERE tenant = 'pgtap-nested' AND session IS NULL AND unit = 'requests'
	UNION ALL SELECT count(*) + 2 FROM mw.ledger WHERE tenant = 'pgtap-nested' LIMIT 1));
SELECT pg_temp.script(pg_temp.call('ask_thrice', '{"q": "inner"}'), pg_temp.text('1'), pg_temp.text('2'), pg_temp.text('3'), pg_temp.text('done'));
SELECT ok((pg_temp.run()->'error')::text LIKE '%MW301%', 'the tenant''s budget is one for both');
SELECT is(pg_temp.sent(), 2, 'what it has left is sent');
SELECT mw_set_budget('pgtap-nested', 'requests', 'Infinity');
SELECT is_empty($$SELECT * FROM mw_check() WHERE tenant = 'pgtap-nested'$$, 'ledger and sums agree');

-- ---------- the same tenant, another session, an end ----------

SELECT pg_temp.script(pg_temp.call('ask', '{"q": "inner", "tenant": "pgtap-other"}'), pg_temp.text('never'));
SELECT throws_ok('SELECT pg_temp.run()', 'MW101', NULL, 'another tenant is out of reach, also for a role that may act for both');
SELECT pg_temp.script(pg_temp.call('same', '{"q": "inner"}'), pg_temp.text('never'));
SELECT ok((pg_temp.run()->'error')::text LIKE '%55P03%', 'and so is the session of the run itself');
SELECT pg_temp.script(pg_temp.call('again', '{"q": "deeper"}') || '{"repeat": 100}');
SELECT ok((pg_temp.run()->'error')::text LIKE '%54001%', 'a tool that calls itself through its model is ended');
SELECT ok(pg_temp.sent() < 40, 'after a few dozen calls');
SELECT pg_temp.script(pg_temp.text('fine'));
SELECT is(pg_temp.run()->>'output', 'fine', 'and the next run is none the worse');

SELECT * FROM finish();
ROLLBACK;
