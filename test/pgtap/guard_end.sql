-- Risk: a run that shall end with a text still raises, sends, costs, or keeps what was refused; or an answer that was
-- refused is handed out.
BEGIN;
SELECT plan(12);

CREATE SERVER pgtap_end FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-end', '{"model": "pgtap_end:m", "retry": 1, "on_guardrail": {"end": "Let us talk about something else."}}');
SELECT mw_create_guard('pgtap_word', 'tulip', '{}', 'pgtap-end');
SELECT mw_fake('pgtap_end', '{"*": [{"text": "x", "repeat": 50}]}');
CREATE FUNCTION pg_temp.sent() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw_fake_requests('pgtap_end') $$;

SELECT results_eq($$SELECT r->>'status', r->>'ended_by', r->>'output', r->>'cache' FROM mw_invoke('pgtap-end', 's', 'of a tulip') AS r$$,
	$$VALUES ('completed', 'guardrail', 'Let us talk about something else.', 'off')$$, 'on_guardrail: a run ends with the tenant''s text');
SELECT is(pg_temp.sent(), 0::bigint, '... and nothing was sent');
SELECT is((SELECT count(*) FROM mw.ledger WHERE tenant = 'pgtap-end'), 0::bigint, '... nor booked');
SELECT is(mw_ask('pgtap-end', 's', 'of a tulip', request_id => 'ended'), 'Let us talk about something else.', '... under a request_id, too');
SELECT mw_alter_guard('pgtap_word', '{"mode": "off"}', 'pgtap-end');
SELECT is(mw_ask('pgtap-end', 's', 'of a tulip', request_id => 'ended'), 'x', '... which is asked when the rules allow it');
SELECT is(mw_invoke('pgtap-end', 's', 'of a rose')->>'ended_by', NULL, 'other runs end as ever');

-- what a model said was paid for
SELECT mw_alter_guard('pgtap_word', '{"mode": "block", "sources": ["output"]}', 'pgtap-end');
SELECT mw_fake('pgtap_end', '{"*": [{"text": "a tulip", "repeat": 50, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}]}');
SELECT results_eq($$SELECT r->>'ended_by', r->>'output', r->>'cache', r->'usage'->>'output_tokens' FROM mw_invoke('pgtap-end', 's', 'which flower') AS r$$,
	$$VALUES ('guardrail', 'Let us talk about something else.', 'miss', '3')$$, 'an answer that is refused gives way to the text; its usage stays');
SELECT is((SELECT count(*) FROM mw.ledger WHERE tenant = 'pgtap-end' AND outcome = 'ok' AND output_tokens = 3), 1::bigint, '... and is on the ledger');
SELECT results_eq($$SELECT r->>'output', r->>'cache' FROM mw_invoke('pgtap-end', 's', 'which flower') AS r$$,
	$$VALUES ('Let us talk about something else.', 'hit')$$, '... and is judged again when it comes from the cache');

SELECT mw_alter_tenant('pgtap-end', '{"on_guardrail": "error"}');
SELECT throws_ok($$SELECT mw_ask('pgtap-end', 's', 'which flower')$$, 'MW202', NULL, '"error" raises again');
SELECT throws_ok($$SELECT mw_alter_tenant('pgtap-end', '{"on_guardrail": {"end": 7}}')$$, 'MW001', NULL, 'a text is asked for');
SELECT throws_ok($$SELECT mw_alter_tenant('pgtap-end', '{"on_guardrail": "end"}')$$, 'MW001', 'setting "on_guardrail" must be "error", or {"end": the text that the run ends with}', 'and a word is none');

SELECT * FROM finish();
ROLLBACK;
