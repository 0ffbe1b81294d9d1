-- Risk: money that is rounded, priced at another day's price, counted in the wrong window, or spent past one of
-- several limits; a limit in a window that the others hide.
BEGIN;
SELECT plan(75);

CREATE SERVER pgtap_cost FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-cost', '{"model": "pgtap_cost:m", "cache": false, "retry": 1}');
SELECT mw_set_budget('pgtap-cost', 'tokens', 'Infinity', session => '*');

CREATE FUNCTION pg_temp.settled(unit text, per text = 'forever', session text = NULL) RETURNS numeric LANGUAGE sql AS $$
	SELECT settled FROM mw.budget_status AS b
	WHERE tenant = 'pgtap-cost' AND b.session IS NOT DISTINCT FROM $3 AND b.unit = $1 AND b.per = $2 $$;
CREATE FUNCTION pg_temp.sent() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw_fake_requests('pgtap_cost') $$;
-- what a statement that fails says
CREATE FUNCTION pg_temp.tells(sql text, OUT code text, OUT detail text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	code := 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END $$;

-- ---------- prices ----------

SELECT mw_fake('pgtap_cost', '{"*": [{"text": "x", "repeat": 500, "usage": {"prompt_tokens": 1000, "completion_tokens": 100,
	"prompt_tokens_details": {"cached_tokens": 400, "audio_tokens": 7}, "completion_tokens_details": {"reasoning_tokens": 60, "audio_tokens": 3}}}]}');
SELECT is(mw_invoke('pgtap-cost', NULL, 'no price')->'cost', 'null', 'without a price there is no cost');
SELECT is((SELECT (cost, billed_cost, input_price) IS NULL FROM mw.ledger WHERE tenant = 'pgtap-cost'), true, '... in the ledger neither');
SELECT mw_set_price('pgtap_cost:m', 0.15, 0.60, 0.075);
SELECT is(mw_invoke('pgtap-cost', NULL, 'priced')->'cost', '0.00018', 'cost of a result: 600 at 0.15, 400 cached at 0.075, 100 at 0.60 a million');
SELECT results_eq($$SELECT cost, billed_cost, input_price, output_price, cached_price, cached_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens
	FROM mw.ledger WHERE tenant = 'pgtap-cost' ORDER BY started_at DESC LIMIT 1$$,
	$$VALUES (0.00018, 0.00018, 0.15, 0.6, 0.075, 400::bigint, 60::bigint, 7::bigint, 3::bigint)$$, 'the ledger keeps the prices, and what kinds of tokens there were');
SELECT is((SELECT cost FROM mw.usage WHERE tenant = 'pgtap-cost' ORDER BY cost LIMIT 1), 0.00018, 'mw.usage has it');
SELECT mw_set_price('pgtap_cost:m', 0.30, 1.20);
SELECT is(mw_invoke('pgtap-cost', NULL, 'dearer')->'cost', '0.00042', 'the same moment again replaces a price; no cached_input: as input');
SELECT mw_set_price('pgtap_cost:m', 1000, 1000, valid_from => now() + interval '1 hour');
SELECT is(mw_invoke('pgtap-cost', NULL, 'not yet')->'cost', '0.00042', 'a price of later is not yet one');
SELECT mw_set_price('pgtap_cost:m', 0.000001, 0.000001, valid_from => '-infinity');
SELECT is(mw_invoke('pgtap-cost', NULL, 'older')->'cost', '0.00042', 'nor is an older one any more');
SELECT mw_drop_price('pgtap_cost:m', now());
SELECT is(mw_invoke('pgtap-cost', NULL, 'tiny')->'cost', '0.0000000011', '... until the newer is taken away; a millionth of a unit a million is exact');
SELECT is((SELECT cost FROM mw.fake_spent WHERE tenant = 'pgtap-cost' AND session = ''), 0.00018 + 3 * 0.00042 + 0.0000000011, 'sums are exact');
SELECT mw_drop_price('pgtap_cost:m');
SELECT is_empty($$SELECT * FROM mw_check() WHERE tenant = 'pgtap-cost'$$, 'and agree with the ledger');

-- ---------- a limit on cost ----------

SELECT mw_set_budget('pgtap-cost', 'cost', 5, session => 'c');
SELECT results_eq($$SELECT code, hint FROM pg_temp.tells($q$SELECT mw_ask('pgtap-cost', 'c', 'free?')$q$)$$,
	$$VALUES ('MW302', 'An administrator types, with its prices per million tokens: SELECT mw_set_price(''pgtap_cost:m'', <input>, <output>);')$$,
	'a model without a price under a limit on cost');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', NULL, 'x', options => '{"limits": {"cost": 1}}')$$)).code, 'MW302', '... of a run, too');
SELECT is(mw_ask('pgtap-cost', 'd', 'free?'), 'x', 'where nobody limits cost it is called');

-- 0.10 a call: one token of an answer costs 0.00625, 16 of them 0.10
SELECT mw_set_price('pgtap_cost:m', 0, 6250);
SELECT mw_fake('pgtap_cost', '{"*": [{"text": "x", "repeat": 500, "usage": {"prompt_tokens": 3, "completion_tokens": 16}}]}');
CREATE FUNCTION pg_temp.calls(session text, n int, OUT passed bigint, OUT refused bigint) LANGUAGE plpgsql AS $$
DECLARE code text;
BEGIN
	passed := 0; refused := 0;
	FOR i IN 1 .. n LOOP
		code := (pg_temp.tells(format('SELECT mw_ask(''pgtap-cost'', %L, ''call %s'', options => ''{"max_tokens": 16}'')', session, i))).code;
		IF code = 'ok' THEN passed := passed + 1; ELSIF code = 'MW301' THEN refused := refused + 1; ELSE RAISE '%', code; END IF;
	END LOOP;
END $$;
SELECT results_eq($$SELECT * FROM pg_temp.calls('c', 60)$$, $$VALUES (50::bigint, 10::bigint)$$, '60 calls of 0.10 against 5.00: exactly 50');
SELECT is(pg_temp.settled('cost', session => 'c'), 5.00, 'all of it is used');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', 'c', 'more', options => '{"max_tokens": 16}')$$)).detail ~
	'^scope session, unit cost, limit 5, settled 5, reserved 0, resets never\. This call can cost 0\.1 with the shortest answer\.', true, 'the error has the figures');
SELECT mw_set_budget('pgtap-cost', 'cost', 5.15, session => 'c');
SELECT is(mw_ask('pgtap-cost', 'c', 'shorter', options => '{"max_tokens": 1000}'), 'x', 'where a part fits');
SELECT is((SELECT (body->>'max_tokens')::int FROM mw_fake_requests('pgtap_cost') ORDER BY n DESC LIMIT 1), 24, 'the answer is cut to what 0.15 buys');
SELECT mw_set_budget('pgtap-cost', 'cost', 1, session => 'c');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', 'c', 'lowered')$$)).detail ~ 'limit 1, settled 5\.1, reserved 0', true, 'a limit below what is used is allowed, and refuses what follows');
SELECT mw_set_budget('pgtap-cost', 'cost', 0.2, session => 'e');
SELECT mw_fake('pgtap_cost', '{"*": [{"text": "dear", "usage": {"prompt_tokens": 3, "completion_tokens": 100}}, {"text": "never"}]}');
SELECT is(mw_ask('pgtap-cost', 'e', 'excess', options => '{"max_tokens": 16}'), 'dear', 'a bill above the reservation');
SELECT results_eq($$SELECT settled, excess, remaining FROM mw.budget_status WHERE tenant = 'pgtap-cost' AND session = 'e' AND unit = 'cost'$$,
	$$VALUES (0.625, 0.525, 0::numeric)$$, 'is booked as billed, and its excess marked');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', 'e', 'after')$$)).code, 'MW301', '... and blocks what follows');
SELECT mw_set_price('pgtap_cost:zero', 0, 0);
SELECT mw_set_budget('pgtap-cost', 'cost', 0, session => 'z');
SELECT mw_fake('pgtap_cost', '{"*": [{"text": "x", "repeat": 500, "usage": {"prompt_tokens": 3, "completion_tokens": 16}}]}');
SELECT is(mw_invoke('pgtap-cost', 'z', 'nothing', model => 'pgtap_cost:zero')->'cost', '0', 'a price of zero is a price, and fits under a budget of zero');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', 'z', 'something')$$)).code, 'MW301', 'which lets nothing else pass');
SELECT is(mw_ask('pgtap-cost', NULL, 'run', options => '{"limits": {"cost": 0.2}, "max_tokens": 500}'), 'x', 'options.limits.cost');
SELECT is((SELECT (body->>'max_tokens')::int FROM mw_fake_requests('pgtap_cost') ORDER BY n DESC LIMIT 1), 32, '... shortens the answer');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', NULL, 'run', options => '{"limits": {"cost": 0.05}}')$$)).detail ~ '^scope run, unit cost, limit 0\.05, prompt 0\.', true, '... and refuses');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', NULL, 'run', options => '{"limits": {"cost": -1}}')$$)).code, 'MW001', '... but not below nothing');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', NULL, 'run', options => '{"limits": {"cost": "1"}}')$$)).code, 'MW001', '... and only a number');

-- ---------- windows ----------

SELECT is(mw.window_start('day', z, t::timestamptz), s::timestamptz, format('a day of %s: %s', z, t))
FROM (VALUES
	('UTC', '2026-03-29 12:00+00', '2026-03-29 00:00+00'),
	('Europe/Berlin', '2026-03-29 21:59:59.9+00', '2026-03-28 23:00+00'),
	('Europe/Berlin', '2026-03-29 22:00+00', '2026-03-29 22:00+00'),
	('Europe/Berlin', '2026-10-25 22:59:59+00', '2026-10-24 22:00+00'),
	('America/New_York', '2026-03-08 12:00+00', '2026-03-08 05:00+00'),
	('America/New_York', '2026-11-02 04:59+00', '2026-11-01 04:00+00')
) AS v(z, t, s);
SELECT is(mw.window_end('day', 'Europe/Berlin', '2026-03-28 23:00+00') - '2026-03-28 23:00+00', interval '23 hours', 'a day of 23 hours');
SELECT is(mw.window_end('day', 'Europe/Berlin', '2026-10-24 22:00+00') - '2026-10-24 22:00+00', interval '25 hours', 'a day of 25 hours');
SELECT is(mw.window_end('day', 'America/New_York', '2026-11-01 04:00+00') - '2026-11-01 04:00+00', interval '25 hours', 'in New York, too');
-- midnights that are repeated, left out, or a day away; in the past, where a country decides anew now and then
SELECT is(ARRAY[mw.window_start(per, z, t::timestamptz), mw.window_end(per, z, mw.window_start(per, z, t::timestamptz))],
	ARRAY[s, e]::timestamptz[], format('a %s of %s: %s', per, z, t))
FROM (VALUES
	('day', 'America/Havana', '2020-11-01 03:59:59+00', '2020-10-31 04:00+00', '2020-11-01 04:00+00'),
	('day', 'America/Havana', '2020-11-01 04:30+00', '2020-11-01 04:00+00', '2020-11-02 05:00+00'),
	('day', 'America/Havana', '2020-11-01 05:30+00', '2020-11-01 04:00+00', '2020-11-02 05:00+00'),
	('month', 'America/Havana', '2020-11-01 04:30+00', '2020-11-01 04:00+00', '2020-12-01 05:00+00'),
	('month', 'America/Havana', '2020-10-31 12:00+00', '2020-10-01 04:00+00', '2020-11-01 04:00+00'),
	('day', 'Atlantic/Azores', '2026-10-25 00:30+00', '2026-10-25 00:00+00', '2026-10-26 01:00+00'),
	('day', 'Africa/Cairo', '2026-04-24 05:00+00', '2026-04-23 22:00+00', '2026-04-24 21:00+00'),
	('day', 'Africa/Cairo', '2026-10-29 21:30+00', '2026-10-28 21:00+00', '2026-10-29 22:00+00'),
	('day', 'America/Santiago', '2026-09-06 12:00+00', '2026-09-06 04:00+00', '2026-09-07 03:00+00'),
	('day', 'Australia/Lord_Howe', '2026-04-05 00:00+00', '2026-04-04 13:00+00', '2026-04-05 13:30+00'),
	('hour', 'Asia/Kathmandu', '2026-01-01 00:20+00', '2026-01-01 00:15+00', '2026-01-01 01:15+00'),
	('day', 'Pacific/Apia', '2011-12-30 09:59+00', '2011-12-29 10:00+00', '2011-12-30 10:00+00'),
	('day', 'Pacific/Apia', '2011-12-30 10:00+00', '2011-12-30 10:00+00', '2011-12-31 10:00+00')
) AS v(per, z, t, s, e);
SELECT is(mw.window_end('month', 'Europe/Berlin', '2026-03-01 00:00+01'), '2026-04-01 00:00+02'::timestamptz, 'a month over the change');
SELECT isnt(mw.window_start('hour', 'Europe/Berlin', '2026-10-25 00:30+00'), mw.window_start('hour', 'Europe/Berlin', '2026-10-25 01:30+00'),
	'the hour that is repeated is two windows');
SELECT is(mw.window_start('day', 'Mars/Phobos', '2026-03-29 12:00+00'), '2026-03-29 00:00+00'::timestamptz, 'a zone that the server has lost is UTC, and no view of all tenants fails by it');
SELECT is(mw.window_start('minute', 'Asia/Kathmandu', '2026-01-01 00:00:59.999+00'), '2026-01-01 00:00+00'::timestamptz, 'a minute');

SELECT mw_set_budget('pgtap-cost', 'requests', 2, session => 'w', per => 'day');
SELECT mw_set_budget('pgtap-cost', 'requests', 5, session => 'w', per => 'month');
SELECT mw_set_budget('pgtap-cost', 'tokens', 1000, session => 'w', per => 'month');
SELECT mw_alter_tenant('pgtap-cost', '{"timezone": "America/New_York"}');
SELECT is(mw_ask('pgtap-cost', 'w', 'one'), 'x', 'a first of two a day');
SELECT is(mw_ask('pgtap-cost', 'w', 'two'), 'x', 'a second');
SELECT alike((pg_temp.tells($$SELECT mw_ask('pgtap-cost', 'w', 'three')$$)).detail,
	'scope session, unit requests, per day, limit 2, settled 2, reserved 0, resets at ' ||
	mw.window_end('day', 'America/New_York', mw.window_start('day', 'America/New_York', now())) || '.%',
	'the third is refused, by the day''s limit, which resets at midnight in New York');
SELECT is(pg_temp.settled('requests', 'month', 'w'), 2::numeric, 'a refused call counts in no other window');
SELECT is(pg_temp.settled('tokens', 'month', 'w'), 38::numeric, '... and no other unit');
SELECT mw_set_budget('pgtap-cost', 'requests', NULL, session => 'w', per => 'day');
SELECT mw_set_budget('pgtap-cost', 'tokens', 38, session => 'w', per => 'month');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', 'w', 'four')$$)).detail ~ 'unit tokens, per month, limit 38, settled 38', true, 'another window''s limit holds by itself');
SELECT mw_set_budget('pgtap-cost', 'tokens', 1000, session => 'w', per => 'month');
SELECT mw_set_budget('pgtap-cost', 'requests', 3, per => 'month');
SELECT is((SELECT settled > 3 FROM mw.budget_status WHERE tenant = 'pgtap-cost' AND session IS NULL AND per = 'month'), true, 'a limit that is set within its window counts what was used before');
SELECT is((pg_temp.tells($$SELECT mw_ask('pgtap-cost', 'another', 'x')$$)).detail ~ '^scope tenant, unit requests, per month, limit 3', true, '... for the tenant as a whole');
SELECT mw_set_budget('pgtap-cost', 'requests', NULL, per => 'month');

-- an end of a window, by hand: what the row says of another day is nothing now
UPDATE mw.fake_spent SET day_start = day_start - interval '1 day', hour_start = hour_start - interval '3 days', month_start = month_start - interval '2 months'
WHERE tenant = 'pgtap-cost' AND session = 'w';
SELECT mw_set_budget('pgtap-cost', 'requests', 1, session => 'w', per => 'day');
SELECT is(pg_temp.settled('requests', 'day', 'w'), 0::numeric, 'a sum of yesterday is none today');
SELECT is(mw_ask('pgtap-cost', 'w', 'five', options => '{"max_tokens": 16}'), 'x', 'a new day has a new budget');
SELECT is((SELECT (day_requests, month_requests, hour_tokens, requests) FROM mw.fake_spent WHERE tenant = 'pgtap-cost' AND session = 'w'),
	ROW(1::bigint, 1::bigint, 19::bigint, 3::bigint), 'all its windows begin anew; for ever goes on');

-- ---------- an end instead of an error ----------

SELECT mw_alter_tenant('pgtap-cost', '{"on_budget": {"end": "Come back tomorrow."}}');
SELECT results_eq($$SELECT r->>'status', r->>'ended_by', r->>'output', r->>'cache', r->'cost' FROM mw_invoke('pgtap-cost', 'w', 'six') AS r$$,
	$$VALUES ('completed', 'budget', 'Come back tomorrow.', 'off', '0'::jsonb)$$, 'on_budget: a run ends with the tenant''s text');
SELECT is(mw_ask('pgtap-cost', 'w', 'seven', request_id => 'ended'), 'Come back tomorrow.', '... under a request_id, too');
SELECT mw_set_budget('pgtap-cost', 'requests', NULL, session => 'w', per => 'day');
SELECT is(mw_ask('pgtap-cost', 'w', 'seven', request_id => 'ended'), 'x', '... which finds money later');
SELECT mw_alter_tenant('pgtap-cost', '{"on_budget": "error"}');

-- ---------- forecast ----------

SELECT mw_set_budget('pgtap-cost', 'requests', 1000000000, per => 'month');
SELECT mw_set_budget('pgtap-cost', 'requests', 20000, per => 'forever');
SELECT ok((SELECT forecast IS NULL AND resets_at IS NOT NULL FROM mw.budget_status WHERE tenant = 'pgtap-cost' AND session IS NULL AND per = 'month'), 'what will not be used up before it resets has no forecast');
SELECT ok((SELECT forecast > now() AND resets_at IS NULL FROM mw.budget_status WHERE tenant = 'pgtap-cost' AND session IS NULL AND unit = 'requests' AND per = 'forever'), 'at the rate so far');

SELECT ok(NOT has_function_privilege('pg_monitor', 'mw_check()', 'EXECUTE'), 'mw_check is for administrators');
SELECT is_empty($$SELECT finding FROM mw_check() WHERE tenant = 'pgtap-cost' AND finding NOT LIKE '%window%'$$, 'ledger, sums and costs agree in the end');
UPDATE mw.fake_attempt SET cost = cost * 2 WHERE tenant = 'pgtap-cost' AND cost > 0;
SELECT ok(EXISTS (SELECT FROM mw_check() WHERE tenant = 'pgtap-cost' AND finding = 'a cost is not its usage at its prices'), 'a cost that is not that of its usage is found');

SELECT * FROM finish();
ROLLBACK;
