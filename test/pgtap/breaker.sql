-- Risk: a provider that is down is stormed, or one that is well is shut off: by another tenant's 401 or 429, by a caller's
-- short deadline, by a breaker that nobody closes.  On a fake server, as a suite of an application's own would show it.
BEGIN;
SELECT plan(53);

-- One server stays open for longer than this file takes, the other for an instant: so nothing here hangs on how quick it is.
CREATE SERVER pgtap_br FOREIGN DATA WRAPPER mw OPTIONS (api 'fake', breaker_failures '3', breaker_cooldown '600');
CREATE SERVER pgtap_quick FOREIGN DATA WRAPPER mw OPTIONS (api 'fake', breaker_failures '3', breaker_cooldown '0.05', breaker_max_cooldown '0.15');
CREATE SERVER pgtap_other FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-br', '{"model": "pgtap_br:m", "retry": {"max_attempts": 1}}');
SELECT mw_create_tenant('pgtap-br2', '{"model": "pgtap_br:m", "retry": {"max_attempts": 1}}');

CREATE FUNCTION pg_temp.say(prompt text, options jsonb DEFAULT '{"cache": "off"}', tenant text DEFAULT 'pgtap-br', model text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN mw_ask(tenant, NULL, prompt, options => options, model => model);
EXCEPTION WHEN OTHERS OR query_canceled THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION pg_temp.quick(prompt text, options jsonb DEFAULT '{"cache": "off"}') RETURNS text LANGUAGE sql AS $$ SELECT pg_temp.say(prompt, options, model => 'pgtap_quick:m') $$;
CREATE FUNCTION pg_temp.detail(prompt text, tenant text DEFAULT 'pgtap-br') RETURNS text LANGUAGE plpgsql AS $$
DECLARE d text; m text; h text;
BEGIN
	RETURN mw_ask(tenant, NULL, prompt, options => '{"cache": "off"}');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, m = MESSAGE_TEXT, h = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ' ' || m || ' | ' || d || ' | ' || h;
END $$;
CREATE FUNCTION pg_temp.state(named text DEFAULT 'pgtap_br') RETURNS text LANGUAGE sql AS $$ SELECT state || ' ' || failures FROM mw.breaker WHERE server = named $$;
-- until the cool-down is over
CREATE FUNCTION pg_temp.cool() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(greatest(extract(epoch FROM retry_at - clock_timestamp()) + 0.005, 0)) FROM mw.breaker WHERE server = 'pgtap_quick';
END $$;

-- ---------- it opens ----------

-- every call that fails takes its savepoint with it, and so the script: the one step answers all of them
SELECT mw_fake('pgtap_br', '[{"match": "down", "step": {"status": 503}}, {"match": "up", "step": {"text": "up"}}]');
SELECT is(pg_temp.state(), 'closed 0', 'a new script begins closed');
SELECT is(pg_temp.say('down'), 'MW402', 'a failure');
SELECT is(pg_temp.state(), 'closed 1', 'is counted, though its savepoint is gone');
SELECT is(pg_temp.say('up'), 'up', 'an answer');
SELECT is(pg_temp.state(), 'closed 0', 'ends the row');
SELECT is(pg_temp.say('down'), 'MW402', 'failure ' || i) FROM generate_series(1, 3) AS i;
SELECT is(pg_temp.state(), 'open 3', 'three in a row open it');
SELECT ok(retry_at - opened_at BETWEEN '599.9 s' AND '600.1 s', 'for the cool-down') FROM mw.breaker WHERE server = 'pgtap_br';
SELECT is(pg_temp.say('up'), 'MW403', 'and nobody is let through');
SELECT is(pg_temp.say('up', tenant => 'pgtap-br2'), 'MW403', 'no other tenant either');
SELECT matches(pg_temp.detail('up'), '^MW403 server "pgtap_br" is not called for now: its circuit breaker is open \| Nothing was sent\. It opened at \d{4}-.* after 3 failures in a row; the next attempt is let through at \d{4}-.* \| .*SELECT mw_reset_breaker\(''pgtap_br''\);',
	'the error says since when, until when, and how to close it');
SELECT is((SELECT verdict || ' ' || (detail->>'breaker') FROM mw_explain('pgtap-br', NULL, 'up') WHERE stage = 'retry'), 'refuse open', 'mw_explain says so');
SELECT is((SELECT count(*) FROM mw_explain('pgtap-br', NULL, 'up')), 5::bigint, 'and ends there');
SELECT mw_reset_breaker('pgtap_br');
SELECT is(pg_temp.state(), 'closed 0', 'an administrator can close it');
SELECT is(pg_temp.say('up'), 'up', 'and it lets through');

-- ---------- after the cool-down one tries ----------

SELECT mw_fake('pgtap_quick', '[{"match": "down", "step": {"disconnect": "connect"}}, {"match": "slow", "step": {"text": "slow", "delay_ms": 5000}},
	{"match": "up", "step": {"text": "up"}}]');
SELECT is(pg_temp.quick('down'), 'MW402', 'a connection that cannot be made ' || i) FROM generate_series(1, 3) AS i;
SELECT is(pg_temp.state('pgtap_quick'), 'open 3', 'opens it too');
SELECT pg_temp.cool();
SELECT is(pg_temp.quick('up'), 'up', 'after the cool-down one tries');
SELECT is(pg_temp.state('pgtap_quick'), 'closed 0', 'and closes it');

-- a probe that fails opens it for twice as long, up to the limit
SELECT count(pg_temp.quick('down')) > 0 FROM generate_series(1, 3);
SELECT pg_temp.cool();
SELECT set_config('pgtap.before', clock_timestamp()::text, true) IS NOT NULL;
SELECT is(pg_temp.quick('down'), 'MW402', 'a probe fails');
SELECT ok(state = 'open' AND retry_at BETWEEN current_setting('pgtap.before')::timestamptz + '0.099 s' AND clock_timestamp() + '0.101 s', 'and it is open for twice as long')
	FROM mw.breaker WHERE server = 'pgtap_quick';
SELECT pg_temp.cool();
SELECT set_config('pgtap.before', clock_timestamp()::text, true) IS NOT NULL;
SELECT is(pg_temp.quick('down'), 'MW402', 'another');
SELECT ok(retry_at BETWEEN current_setting('pgtap.before')::timestamptz + '0.149 s' AND clock_timestamp() + '0.151 s', 'no longer than breaker_max_cooldown')
	FROM mw.breaker WHERE server = 'pgtap_quick';

-- a probe that tells nothing is given back: the next one needs no cool-down
SELECT pg_temp.cool();
SELECT is(pg_temp.quick('slow', '{"cache": "off", "timeout": 0.02}'), 'MW404', 'a probe that its own deadline ends');
SELECT is(pg_temp.state('pgtap_quick'), 'open 5', 'tells nothing');
SELECT is(pg_temp.quick('up'), 'up', 'the next attempt is a probe at once');
SELECT count(pg_temp.quick('down')) > 0 FROM generate_series(1, 3);
SELECT pg_temp.cool();
SET LOCAL statement_timeout = '50ms';
SELECT is(pg_temp.quick('slow'), '57014', 'a probe that is cancelled');
SET LOCAL statement_timeout = 0;
SELECT is(pg_temp.quick('up'), 'up', 'is given back too');

-- ---------- what does not open it ----------

CREATE FUNCTION pg_temp.never(what text, step jsonb) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_fake('pgtap_br', jsonb_build_array(jsonb_build_object('step', step)));
	RETURN NEXT ok((SELECT bool_and(pg_temp.say('x', '{"cache": "off", "timeout": 0.03}') <> 'MW403') FROM generate_series(1, 5)), 'never opened by ' || what);
	RETURN NEXT is(pg_temp.state(), 'closed 0', what || ' does not count');
END $$;
SELECT pg_temp.never('a 401', '{"status": 401}');
SELECT pg_temp.never('a 403', '{"status": 403}');
SELECT pg_temp.never('a 429', '{"status": 429}');
SELECT pg_temp.never('a caller''s short deadline', '{"text": "late", "delay_ms": 300}');

-- ---------- off ----------

SELECT mw_alter_tenant('pgtap-br2', '{"breaker": false}');
SELECT mw_fake('pgtap_br', '[{"match": "down", "step": {"status": 500}}, {"match": "up", "step": {"text": "up"}}]');
SELECT ok((SELECT bool_and(pg_temp.say('down', tenant => 'pgtap-br2') = 'MW402') FROM generate_series(1, 5)), 'a tenant without it fails on');
SELECT is(pg_temp.state(), 'closed 0', 'and tells it nothing');
SELECT count(pg_temp.say('down')) > 0 FROM generate_series(1, 3);
SELECT is(pg_temp.say('up', tenant => 'pgtap-br2') || pg_temp.say('up'), 'upMW403', 'one is not stopped, the other is');
ALTER SERVER pgtap_br OPTIONS (ADD breaker 'off');
SELECT is(pg_temp.state(), 'off 0', 'a server that is altered begins afresh');
SELECT count(pg_temp.say('down')) > 0 FROM generate_series(1, 5);
SELECT is(pg_temp.say('up'), 'up', 'without a breaker');
ALTER SERVER pgtap_br OPTIONS (DROP breaker);

-- ---------- hits, and the next model ----------

SELECT mw_fake('pgtap_br', '[{"match": "down", "step": {"status": 500}}, {"match": "up", "step": {"text": "up"}}]');
SELECT mw_fake('pgtap_other', '{"b": [{"text": "from b", "repeat": 9}]}');
SELECT is(pg_temp.say('up', '{}'), 'up', 'an answer is cached');
SELECT count(pg_temp.say('down')) > 0 FROM generate_series(1, 3);
SELECT is(pg_temp.say('up', '{}'), 'up', 'and is given while the breaker is open');
SELECT is(pg_temp.say('up 2', '{"fallback": ["pgtap_other:b"]}'), 'from b', 'a fallback is asked at once');
SELECT is((SELECT verdict FROM mw_explain('pgtap-br', NULL, 'up 3', options => '{"fallback": ["pgtap_other:b"]}') WHERE stage = 'retry'), 'fall back', 'mw_explain knows');
SELECT is((SELECT status FROM mw_doctor() WHERE name = 'breakers'), 'warning', 'and mw_doctor warns');

-- ---------- retries of all callers together ----------

ALTER SERVER pgtap_other OPTIONS (ADD breaker 'off', ADD retry_share '0.5', ADD retry_reserve '0');
SELECT mw_alter_tenant('pgtap-br', '{"model": "pgtap_other:m", "retry": {"max_attempts": 4, "base": 0.001, "max": 0.001}}');
SELECT mw_fake('pgtap_other', '[{"step": {"status": 429}}]');
SELECT matches(pg_temp.detail('x'), '^MW402 .*attempts 1; .*Retries are used up for now: all callers of the server together have 50 % of its calls, and 0 a minute\.', 'no retry is left for the first call');
SELECT matches(pg_temp.detail('x'), '^MW402 .*attempts 2; .*Retries are used up', 'half a one each: one for the second');
SELECT mw_alter_tenant('pgtap-br', '{"retry": {"max_attempts": 2}}');
ALTER SERVER pgtap_other OPTIONS (SET retry_reserve '3');
SELECT matches((SELECT string_agg(substring(pg_temp.detail('x') FROM 'attempts (\d)'), '') FROM generate_series(1, 7)), '^2222212', 'a reserve of three, and half a one each');

SELECT * FROM finish();
ROLLBACK;
