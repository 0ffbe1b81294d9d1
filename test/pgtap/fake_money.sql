-- Risk: a budget that can be walked around (hits, failures, unknown outcomes,
-- missing usage), or one that takes what was not used.
BEGIN;
SELECT plan(39);

CREATE SERVER pgtap_money FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-money', '{"model": "pgtap_money:m", "retry": {"max_attempts": 3, "base": 0.001, "max": 0.002}}');

CREATE FUNCTION pg_temp.sent() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw_fake_requests('pgtap_money') $$;
CREATE FUNCTION pg_temp.settled(session text, unit text) RETURNS numeric LANGUAGE sql AS $$
	SELECT settled FROM mw.budget_status AS b WHERE tenant = 'pgtap-money' AND b.session IS NOT DISTINCT FROM $1 AND b.unit = $2
$$;

-- ---------- requests ----------

SELECT mw_set_budget('pgtap-money', 'requests', 3, session => 'r');
SELECT mw_fake('pgtap_money', '{"*": [{"text": "x", "repeat": 50}]}');
SELECT is(mw_ask('pgtap-money', 'r', 'one'), 'x', 'a first request');
SELECT is(mw_invoke('pgtap-money', 'r', 'one')->>'cache', 'hit', 'a hit');
SELECT is(pg_temp.settled('r', 'requests'), 2::numeric, 'P10: a hit counts');
SELECT is(mw_ask('pgtap-money', 'r', 'two'), 'x', 'a third');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 'r', 'one')$$, 'MW301', NULL, 'a hit over the limit is refused');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 'r', 'three')$$, 'MW301', NULL, 'and a miss');
SELECT is(pg_temp.settled('r', 'requests'), 3::numeric, 'never over the limit');
SELECT is(pg_temp.sent(), 2::bigint, 'two were sent');
SELECT is(mw_ask('pgtap-money', 'another', 'three'), 'x', 'another session has its own limit');
SELECT is((SELECT sum(billed_requests) FROM mw.fake_attempt WHERE tenant = 'pgtap-money' AND session = 'r'), 3::numeric,
	'the ledger adds up to the sum');
SELECT is((SELECT count(*) FROM mw.ledger WHERE tenant = 'pgtap-money' AND purpose = 'hits'), 1::bigint, 'hits have their row');
SELECT mw_set_budget('pgtap-money', 'requests', 5, session => 'r');
SELECT is(mw_ask('pgtap-money', 'r', 'three'), 'x', 'a raised limit holds at once');

-- ---------- tokens ----------

SELECT mw_set_budget('pgtap-money', 'tokens', 1000, session => 't');
SELECT mw_fake('pgtap_money', '{"*": [
	{"text": "a", "usage": {"prompt_tokens": 100, "completion_tokens": 50}},
	{"text": "b", "usage": {"prompt_tokens": 400, "completion_tokens": 600}},
	{"text": "never"}]}');
SELECT is(mw_ask('pgtap-money', 't', 'alpha', options => '{"cache": "off", "max_tokens": 500}'), 'a', 'what fits is sent');
SELECT is(pg_temp.settled('t', 'tokens'), 150::numeric, 'and settled by its usage, not by what was reserved');
SELECT is(mw_ask('pgtap-money', 't', 'beta', options => '{"cache": "off", "max_tokens": 4096}'), 'b', 'where a part fits');
SELECT ok((SELECT (body->>'max_tokens')::int BETWEEN 16 AND 850 FROM mw_fake_requests('pgtap_money') WHERE n = 2), 'max_tokens shrinks to the rest');
SELECT is(pg_temp.settled('t', 'tokens'), 1150::numeric, 'who bills more than was reserved is booked as billed');
SELECT ok((SELECT excess > 0 FROM mw.budget_status WHERE tenant = 'pgtap-money' AND session = 't' AND unit = 'tokens'), 'the excess is marked');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 't', 'gamma', options => '{"cache": "off"}')$$, 'MW301', NULL, 'and blocks what follows');

-- ---------- what is failed, unknown or says nothing ----------

-- A run that fails takes its rows with it (here as everywhere with a fake server), so failures are looked at
-- through a run that succeeds in the end.
SELECT mw_set_budget('pgtap-money', 'tokens', 100000, session => 'f');
SELECT mw_fake('pgtap_money', '{"*": [{"status": 500}, {"disconnect": "connect"}, {"text": "ok", "usage": {"prompt_tokens": 10, "completion_tokens": 2}}]}');
SELECT is(mw_ask('pgtap-money', 'f', 'q', options => '{"cache": "off"}'), 'ok', 'a 500 and a dead server are tried again');
SELECT results_eq(
	$$SELECT attempt, outcome, http_status, billed_tokens, final FROM mw.ledger WHERE tenant = 'pgtap-money' AND session = 'f' ORDER BY attempt$$,
	$$VALUES (1, 'failed', 500, 0::bigint, false), (2, 'failed', NULL, 0::bigint, false), (3, 'ok', 200, 12::bigint, true)$$,
	'the ledger shows every attempt, usage stands for the last');
SELECT is((SELECT sum(input_tokens + output_tokens) FROM mw.usage WHERE tenant = 'pgtap-money' AND session = 'f'), 12::numeric,
	'P25: usage replaces, never adds');
SELECT is((SELECT requests FROM mw.fake_spent WHERE tenant = 'pgtap-money' AND session = 'f'), 1::bigint, 'a call is one request, whatever its attempts');
SELECT mw_set_budget('pgtap-money', 'tokens', 100000, session => 'b');
SELECT mw_fake('pgtap_money', '{"*": [{"status": 500, "body": {"error": {"message": "half done"}, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}},
	{"text": "ok", "usage": {"prompt_tokens": 10, "completion_tokens": 2}}]}');
SELECT is(mw_ask('pgtap-money', 'b', 'q', options => '{"cache": "off"}'), 'ok', 'a 500 that has a bill');
SELECT results_eq(
	$$SELECT attempt, outcome, billed_tokens, final FROM mw.ledger WHERE tenant = 'pgtap-money' AND session = 'b' ORDER BY attempt$$,
	$$VALUES (1, 'failed', 10::bigint, false), (2, 'ok', 12::bigint, true)$$, 'an attempt that failed with a usage is billed, and the ledger shows each');
SELECT mw_fake('pgtap_money', '{"*": [{"text": "no bill", "usage": false}]}');
SELECT is(mw_ask('pgtap-money', 'g', 'q', options => '{"cache": "off"}'), 'no bill', 'an answer without usage');
SELECT ok((SELECT estimated AND billed_tokens > 0 FROM mw.ledger WHERE tenant = 'pgtap-money' AND session = 'g'), 'is not free, and marked');
SELECT is(
	(SELECT sum(tokens) FROM mw.fake_spent WHERE tenant = 'pgtap-money' AND session <> ''),
	(SELECT sum(billed_tokens)::numeric FROM mw.ledger WHERE tenant = 'pgtap-money'), 'sums of sessions are the ledger');
SELECT is(
	(SELECT tokens FROM mw.fake_spent WHERE tenant = 'pgtap-money' AND session = ''),
	(SELECT sum(billed_tokens)::bigint FROM mw.ledger WHERE tenant = 'pgtap-money'), 'and the tenant''s sum is too');

-- ---------- the answers to each way of failing ----------

SELECT mw_fake('pgtap_money', '{"*": [{"disconnect": true}, {"text": "never"}]}');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 'e', 'q', options => '{"cache": "off"}')$$, 'MW402', NULL, 'an unknown outcome is not sent again');
SELECT mw_fake('pgtap_money', '{"*": [{"text": "late", "delay_ms": 1000}, {"text": "never"}]}');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 'e', 'q', options => '{"cache": "off", "timeout": 0.05}')$$, 'MW404', NULL, 'a deadline ends a call');
SELECT mw_fake('pgtap_money', '{"*": [{"status": 401}, {"text": "never"}]}');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 'e', 'q', options => '{"cache": "off"}')$$, 'MW401', NULL, 'a 401 is refused and not tried again');
SELECT mw_fake('pgtap_money', '{"*": [{"raw": "<html>"}, {"text": "never"}]}');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 'e', 'q', options => '{"cache": "off"}')$$, 'MW405', NULL, 'an answer that is none is not tried again');

-- ---------- mw_explain says what a call would meet ----------

SELECT mw_set_budget('pgtap-money', 'requests', 1, session => 'x', per => 'day');
SELECT mw_set_budget('pgtap-money', 'tokens', 200, session => 'x');
SELECT mw_fake('pgtap_money', '{"*": [{"text": "x", "repeat": 50}]}');
SELECT is((SELECT string_agg(stage || ' ' || verdict, ', ') FROM mw_explain('pgtap-money', 'x', 'q1')),
	'redact pass, guardrail pass, budget reserve, cache miss, retry pass, model send', 'before anything is used a call would be made');
CREATE TEMP TABLE plan AS SELECT detail FROM mw_explain('pgtap-money', 'x', 'q1') WHERE stage = 'budget';
SELECT is(mw_ask('pgtap-money', 'x', 'q1'), 'x', 'and is');
SELECT is((SELECT body->>'max_tokens' FROM mw_fake_requests('pgtap_money') ORDER BY n DESC LIMIT 1), (SELECT detail->>'max_tokens' FROM plan),
	'with the answer that was foretold, which is what fits');
SELECT is((SELECT string_agg(stage || ' ' || verdict, ', ') FROM mw_explain('pgtap-money', 'x', 'q2')),
	'redact pass, guardrail pass, budget refuse', 'where the budget is used up it would end there');
SELECT is((SELECT l->>'used' FROM mw_explain('pgtap-money', 'x', 'q2') AS e, jsonb_path_query(e.detail, '$.scopes[*].limits[*] ? (@.per == "day")') AS l WHERE e.stage = 'budget'),
	'1', 'and what is used stands beside the limit');
SELECT throws_ok($$SELECT mw_ask('pgtap-money', 'x', 'q2')$$, 'MW301', NULL, 'as it does');

SELECT * FROM finish();
ROLLBACK;
