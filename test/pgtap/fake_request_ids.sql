-- Risk: a repeat of a request_id pays twice, or answers another request.  With a
-- fake server, as a suite of an application's own would check it.
BEGIN;
SELECT plan(26);

CREATE SERVER pgtap_ids FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-ids', '{"model": "pgtap_ids:m", "retry": {"max_attempts": 2, "base": 0.001, "max": 0.002}}');

CREATE FUNCTION pg_temp.sent() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw_fake_requests('pgtap_ids') $$;

-- ---------- a result is kept, and handed out again ----------

SELECT mw_fake('pgtap_ids', '{"*": [{"text": "first"}, {"text": "second"}]}');
SELECT is(mw_ask('pgtap-ids', 's', 'q', request_id => 'r1', options => '{"cache": "off"}'), 'first', 'the first run is answered');
SELECT is(mw_ask('pgtap-ids', 's', 'q', request_id => 'r1', options => '{"cache": "off"}'), 'first', 'a repeat in the same transaction gets the same');
SELECT is(pg_temp.sent(), 1::bigint, 'and was not sent');
SELECT is((SELECT count(*) FROM mw.ledger WHERE tenant = 'pgtap-ids'), 1::bigint, 'nor billed');
SELECT is(
	mw_invoke('pgtap-ids', 's', 'q', request_id => 'r1', options => '{"cache": "off"}')->>'run_id',
	(SELECT run_id::text FROM mw.ledger WHERE tenant = 'pgtap-ids'), 'it is the result of that run');
SELECT throws_ok($$SELECT mw_ask('pgtap-ids', 's', 'another q', request_id => 'r1', options => '{"cache": "off"}')$$, 'MW501', NULL,
	'another prompt under its id is refused');
SELECT throws_ok($$SELECT mw_ask('pgtap-ids', 'another s', 'q', request_id => 'r1', options => '{"cache": "off"}')$$, 'MW501', NULL,
	'and another session');
SELECT throws_ok($$SELECT mw_ask('pgtap-ids', 's', 'q', request_id => 'r1', options => '{"cache": "off", "temperature": 1}')$$, 'MW501', NULL,
	'and another parameter');
SELECT is(mw_ask('pgtap-ids', 's', 'q', request_id => 'r2', options => '{"cache": "off"}'), 'second', 'another id is another run');

-- ---------- a rollback undoes all of it: a test leaves nothing ----------

SELECT mw_fake('pgtap_ids', '{"*": [{"text": "one"}, {"text": "two"}]}');
SAVEPOINT before;
SELECT is(mw_ask('pgtap-ids', 't', 'w', request_id => 'r4', options => '{"cache": "off"}'), 'one', 'a run');
ROLLBACK TO before;
SELECT is((SELECT count(*) FROM mw.ledger WHERE request_id = 'r4'), 0::bigint, 'rolled back, it has no ledger row');
SELECT is((SELECT count(*) FROM mw.result WHERE request_id = 'r4'), 0::bigint, 'no result');
SELECT is(pg_temp.sent(), 0::bigint, 'and was not sent');
SELECT is(mw_ask('pgtap-ids', 't', 'w', request_id => 'r4', options => '{"cache": "off"}'), 'one', 'so the script answers it as before');

-- ---------- an id that nobody named names ledger rows alone ----------

SELECT mw_fake('pgtap_ids', '{"*": [{"text": "x", "repeat": 9}]}');
SELECT set_config('pgtap.made', mw_invoke('pgtap-ids', NULL, 'v', options => '{"cache": "off"}')->>'request_id', true) IS NOT NULL;
SELECT is((SELECT count(*) FROM mw.ledger WHERE request_id = current_setting('pgtap.made')), 1::bigint, 'mw makes an id where none is given');
SELECT throws_ok($$SELECT mw_ask('pgtap-ids', NULL, 'v', request_id => current_setting('pgtap.made'), options => '{"cache": "off"}')$$, 'MW501', NULL,
	'who passes it as his own is refused');

-- ---------- what is unknown is not sent again ----------

-- An error would undo the attempt with its subtransaction; a run that catches it inside keeps nothing either.  So the
-- unknown attempt of an earlier run is put there, as a run that went wrong outside of this test would have left it.
SELECT mw_fake('pgtap_ids', '{"*": [{"text": "late answer", "repeat": 9}]}');
SELECT is(mw_ask('pgtap-ids', 'u', 'z', request_id => 'r5', options => '{"cache": "off"}'), 'late answer', 'a run to copy');
UPDATE mw.fake_attempt SET outcome = 'unknown', run_id = gen_random_uuid() WHERE request_id = 'r5';
DELETE FROM mw.fake_answer WHERE request_id = 'r5';
DELETE FROM mw.result WHERE request_id = 'r5';
SELECT throws_ok($$SELECT mw_ask('pgtap-ids', 'u', 'z', request_id => 'r5', options => '{"cache": "off"}')$$, 'MW502', NULL,
	'an unknown outcome is not sent again');
SELECT is(pg_temp.sent(), 1::bigint, 'nothing was');
SELECT is(mw_ask('pgtap-ids', 'u', 'z', request_id => 'r5', options => '{"cache": "off", "resend_unknown": true}'), 'late answer',
	'unless the caller says so');
SELECT is(pg_temp.sent(), 2::bigint, 'then it is sent');

-- ---------- what was recorded is not sent again ----------

DELETE FROM mw.result WHERE request_id = 'r5';
UPDATE mw.fake_attempt SET run_id = gen_random_uuid() WHERE request_id = 'r5';
SELECT is(mw_ask('pgtap-ids', 'u', 'z', request_id => 'r5', options => '{"cache": "off"}'), 'late answer',
	'a run without a result gets the recorded answer');
SELECT is(pg_temp.sent(), 2::bigint, 'without a request');
UPDATE mw.fake_answer SET usable = false WHERE request_id = 'r5';
DELETE FROM mw.result WHERE request_id = 'r5';
SELECT throws_ok($$SELECT mw_ask('pgtap-ids', 'u', 'z', request_id => 'r5', options => '{"cache": "off"}')$$, 'MW405', NULL,
	'an answer that could not be used is an error again, not a request');
SELECT is(pg_temp.sent(), 2::bigint, 'still nothing was sent');

SELECT is((SELECT count(*) FROM mw.attempt WHERE tenant = 'pgtap-ids'), 0::bigint, 'the gateway''s own ledger is untouched');

SELECT * FROM finish();
ROLLBACK;
