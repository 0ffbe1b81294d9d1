-- Risk: a check that finds nothing because it looks at nothing.  Each kind of damage is done by hand, seen, and
-- undone; a sound system has no row.
BEGIN;
SELECT plan(13);

CREATE SERVER pgtap_check FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-check', '{"model": "pgtap_check:m", "retry": {"max_attempts": 2, "base": 0}}');
SELECT mw_fake('pgtap_check', '{"*": [{"text": "a"}, {"status": 500}, {"text": "b"}, {"text": "c", "repeat": 9}]}');
SELECT mw_set_budget('pgtap-check', 'requests', 100);
SELECT is(mw_ask('pgtap-check', 's', 'one') || mw_ask('pgtap-check', 's', 'one') || mw_ask('pgtap-check', 's', 'two') ||
	mw_ask('pgtap-check', NULL, 'three', request_id => 'named'), 'aabc', 'a miss, a hit, a retried one and a named one');

CREATE FUNCTION pg_temp.found() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT concat_ws(' | ', session, request_id, finding, expected, found) FROM mw_check() WHERE tenant = 'pgtap-check' ORDER BY 1 $$;
-- what one statement does to a sound system
CREATE FUNCTION pg_temp.damaged(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
	EXECUTE sql;
	r := (SELECT string_agg(f, E'\n') FROM pg_temp.found() AS f);
	RAISE EXCEPTION SQLSTATE 'MWXXX' USING MESSAGE = coalesce(r, 'nothing');
EXCEPTION WHEN SQLSTATE 'MWXXX' THEN
	RETURN SQLERRM;
END $$;

SELECT is_empty('SELECT pg_temp.found()', 'a sound system has no row');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_spent SET tokens = tokens + 1 WHERE tenant = 'pgtap-check' AND session = 's'$$),
	's | the ledger and the kept sum of tokens differ%', 'a sum of tokens');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_spent SET requests = requests - 1 WHERE tenant = 'pgtap-check' AND session = ''$$),
	'the ledger and the kept sum of requests differ (api fake) | 4 | 3', 'a sum of requests, of the tenant');
SELECT alike(pg_temp.damaged($$DELETE FROM mw.fake_spent WHERE tenant = 'pgtap-check' AND session = 's'$$),
	'%s | the ledger and the kept sum of requests differ (api fake) | 2 | 0%', 'a sum that is not there');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_spent SET excess_tokens = 7 WHERE tenant = 'pgtap-check' AND session = ''$$),
	'the ledger and the kept excess%', 'an excess that nobody billed');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_attempt SET finished_at = NULL WHERE tenant = 'pgtap-check' AND request_id = 'named'$$),
	'%named | an attempt has no legal state%ok without an end', 'ok without an end');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_attempt SET http_status = NULL WHERE tenant = 'pgtap-check' AND request_id = 'named'$$),
	'named | an attempt that is ok has no status%', 'ok without a status');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_attempt SET outcome = 'unknown' WHERE tenant = 'pgtap-check' AND request_id = 'named'$$),
	'%named | an unknown outcome is not charged at its reservation%', 'an unknown one that is not charged');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_attempt SET input_tokens = input_tokens + 1 WHERE tenant = 'pgtap-check' AND request_id = 'named'$$),
	'%named | what was billed is not what was used%', 'a bill that is not the usage');
SELECT alike(pg_temp.damaged($$UPDATE mw.fake_attempt SET outcome = 'ok', http_status = 200 WHERE tenant = 'pgtap-check' AND outcome = 'failed'$$),
	'%a call was answered twice%', 'two attempts of a call that are ok');
SELECT alike(pg_temp.damaged($$INSERT INTO mw.fake_attempt SELECT n.* FROM mw.fake_attempt AS a, jsonb_populate_record(NULL::mw.fake_attempt,
	to_jsonb(a) || jsonb_build_object('run_id', gen_random_uuid())) AS n WHERE a.tenant = 'pgtap-check' AND a.request_id = 'named'$$),
	'%named | the same bytes of a request_id were paid for twice | 1 | 2%', 'paid for twice');
SELECT alike(pg_temp.damaged($$INSERT INTO mw.attempt SELECT * FROM mw.fake_attempt WHERE tenant = 'pgtap-check' AND request_id = 'named'$$),
	'%named | an answer that was paid for is not recorded%', 'an answer that is not recorded');

SELECT * FROM finish();
ROLLBACK;
