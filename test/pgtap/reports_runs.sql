-- Risk: what users of other systems reported of money and attempts, in the calls that a run makes by itself: a path around
-- the budget, attempts of two layers that multiply, a call that has no row.
BEGIN;
SELECT plan(23);

CREATE SERVER pgtap_rr FOREIGN DATA WRAPPER mw OPTIONS (api 'fake', breaker 'off', retry_reserve '1000');
SELECT mw_create_tenant('pgtap-rr', '{"cache": false, "retry": {"max_attempts": 3, "base": 0.001, "max": 0.001}}');
CREATE SCHEMA rr;
CREATE FUNCTION rr.look(what text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'saw ' || what $$;
SELECT mw_create_tool('look', 'rr.look(text)', 'Look.', tenant => 'pgtap-rr');
CREATE FUNCTION pg_temp.agent(name text, middleware jsonb) RETURNS void LANGUAGE sql AS $$
	SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_rr:m', 'tools', '["look"]'::jsonb, 'middleware', middleware), 'pgtap-rr') $$;
CREATE FUNCTION pg_temp.says(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text; m text;
BEGIN
	EXECUTE statement INTO r;
	RETURN r;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT;
	RETURN SQLSTATE || ' ' || m;
END $$;
-- the same where what was sent is looked at afterwards: an error takes that back
CREATE FUNCTION pg_temp.kept(session text, agent text) RETURNS text LANGUAGE sql AS $$
	SELECT r -> 'error' ->> 'sqlstate' FROM mw_invoke('pgtap-rr', session, 'hi', agent => agent, options => '{"on_error": "return"}') AS r $$;
CREATE FUNCTION pg_temp.sent(name text DEFAULT NULL) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM mw_fake_requests('pgtap_rr') WHERE name IS NULL OR model = 'pgtap_rr:' || name $$;
CREATE FUNCTION pg_temp.room(n numeric) RETURNS void LANGUAGE sql AS $$
	SELECT mw_set_budget('pgtap-rr', 'requests', n + (SELECT coalesce(sum(billed_requests), 0) FROM mw.fake_attempt WHERE tenant = 'pgtap-rr')) $$;
\set ask '{"tool_calls": [{"id": "c1", "name": "look", "arguments": {"what": "x"}}]}'

-- ---------- B08: every path to a model passes the budget ----------

SELECT pg_temp.agent('plain', '[]');
SELECT pg_temp.agent('sums', '[{"type": "summarization", "model": "pgtap_rr:side", "trigger": {"messages": 3}, "keep": {"messages": 1}}]');
SELECT pg_temp.agent('picks', '[{"type": "llm_tool_selector", "model": "pgtap_rr:side"}]');
SELECT pg_temp.agent('plays', '[{"type": "llm_tool_emulator", "model": "pgtap_rr:side"}]');
SELECT pg_temp.agent('falls', '[{"type": "model_fallback", "models": ["pgtap_rr:side"]}]');
SELECT pg_temp.agent('asks', '[{"type": "human_in_the_loop", "interrupt_on": {"look": true}}]');

SELECT pg_temp.room(0);
SELECT mw_fake('pgtap_rr', '{"*": [{"text": "never", "repeat": 99}]}');
SELECT matches(pg_temp.says(format('SELECT mw_ask(''pgtap-rr'', ''b'', ''hi'', agent => %L)', agent)), '^MW301 ', 'B08: no room: agent ' || agent)
FROM unnest('{plain,sums,picks,falls,asks}'::text[]) AS agent;
SELECT matches(pg_temp.says($$SELECT mw_ask('pgtap-rr', 'b', 'hi', model => 'pgtap_rr:m', options => '{"fallback": ["pgtap_rr:side"]}')$$), '^MW301 ', 'B08: no room: a call with a fallback');
SELECT is(pg_temp.sent(), 0::bigint, 'B08: and nothing was sent');

SELECT pg_temp.room(1);
SELECT mw_fake('pgtap_rr', format('{"m": [%s, {"text": "never"}]}', :'ask')::jsonb);
SELECT is(pg_temp.kept('b1', 'plain'), 'MW301', 'B08: room for one: the second turn is refused');
SELECT is(pg_temp.sent(), 1::bigint, 'B08: before it is sent');

SELECT pg_temp.room(1);
SELECT mw_fake('pgtap_rr', format('{"m": [%s, {"text": "never"}]}', :'ask')::jsonb);
SELECT is(pg_temp.says($$SELECT mw_invoke('pgtap-rr', 'b2', 'hi', agent => 'asks') ->> 'status'$$), 'interrupted', 'B08: room for one: a pause');
SELECT matches(pg_temp.says($$SELECT mw_resume('pgtap-rr', 'b2', '{"decisions": [{"type": "approve"}]}')$$), '^MW301 ', 'B08: and no room to go on');
SELECT is((SELECT string_agg(status, ' ') FROM mw.interrupt WHERE tenant = 'pgtap-rr'), 'open', 'B08: the pause stays as it was');
SELECT pg_temp.room(1);
SELECT is(pg_temp.says($$SELECT mw_resume('pgtap-rr', 'b2', '{"decisions": [{"type": "approve"}]}') ->> 'output'$$), 'never', 'B08: with room it goes on');

SELECT pg_temp.room(1);
SELECT mw_fake('pgtap_rr', format('{"m": [%s], "side": [{"text": "never"}]}', :'ask')::jsonb);
SELECT is(pg_temp.kept('b3', 'plays'), 'MW301', 'B08: a model that plays a tool');
SELECT is(pg_temp.sent('side'), 0::bigint, 'B08: is not asked');
SELECT mw_create_guard('rr_asks', NULL, '{"model": "pgtap_rr:judge", "question": "Is it?"}', 'pgtap-rr');
SELECT pg_temp.room(0);
SELECT mw_fake('pgtap_rr', '{"*": [{"text": "no", "repeat": 99}]}');
SELECT matches(pg_temp.says($$SELECT mw_ask('pgtap-rr', 'b4', 'hi there', model => 'pgtap_rr:m')$$), '^MW301 ', 'B08: a guard that asks a model');
SELECT is(pg_temp.sent(), 0::bigint, 'B08: asks nobody');

-- ---------- T04: attempts, over three turns ----------

SELECT mw_drop_guard('rr_asks', 'pgtap-rr');
SELECT mw_set_budget('pgtap-rr', 'requests', NULL);
SELECT mw_fake('pgtap_rr', format('{"m": [{"status": 500}, {"status": 500}, %s, {"status": 500}, %s, {"status": 500}, {"status": 500}, {"text": "done"}]}', :'ask', replace(:'ask', 'c1', 'c2'))::jsonb);
SELECT is(pg_temp.says($$SELECT mw_ask('pgtap-rr', 't1', 'hi', agent => 'plain')$$), 'done', 'T04: three turns, each with failures');
SELECT is((SELECT string_agg(call || '.' || attempt, ' ' ORDER BY call, attempt) FROM mw.ledger WHERE tenant = 'pgtap-rr' AND session = 't1'), '1.1 1.2 1.3 2.1 2.2 3.1 3.2 3.3', 'T04: each turn has attempts of its own, three at most');
SELECT pg_temp.agent('tries', '[{"type": "model_retry", "max_retries": 2, "initial_delay": 0.001, "jitter": false, "on_failure": "error"}]');
SELECT mw_fake('pgtap_rr', '{"m": [{"status": 500, "repeat": 99}]}');
SELECT is(pg_temp.kept('t2', 'tries'), 'MW402', 'T04: a middleware that tries again, beside retries of the tenant');
SELECT is(pg_temp.sent(), 3::bigint, 'T04: is three requests, not nine');
SELECT mw_fake('pgtap_rr', '{"*": [{"status": 500, "repeat": 99}]}');
SELECT is(pg_temp.kept('t3', 'falls'), 'MW402', 'T04: a middleware that asks another model');
SELECT is(pg_temp.sent('m') || ' ' || pg_temp.sent('side'), '3 3', 'T04: is three requests of each');

SELECT * FROM finish();
ROLLBACK;
