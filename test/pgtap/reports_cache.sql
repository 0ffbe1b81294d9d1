-- Risk: what others have met with caches and request ids (test/REPORTS.md, C and I): an answer
-- of another provider, of a near miss, of a model that was cut off or refused; a key that two
-- requests share.
BEGIN;
SELECT plan(58);

CREATE SERVER pgtap_rc FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE SERVER pgtap_rc2 FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE SERVER pgtap_rc3 FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://one.example/v1');
SELECT mw_create_tenant('pgtap-rc', '{"model": "pgtap_rc:m", "retry": {"max_attempts": 2, "base": 0.001, "max": 0.002}}');
SELECT mw_create_tenant('pgtap-rc-b', '{"model": "pgtap_rc:m"}');

CREATE FUNCTION pg_temp.cache(prompt text, options jsonb DEFAULT '{}', tools jsonb DEFAULT NULL, model text DEFAULT NULL, system text DEFAULT NULL)
RETURNS text LANGUAGE sql AS $$
	SELECT mw_invoke('pgtap-rc', 's', prompt, tools => tools, model => model, options => options,
		messages => CASE WHEN system IS NOT NULL THEN jsonb_build_array(jsonb_build_object('role', 'system', 'content', system)) END)->>'cache'
$$;
CREATE FUNCTION pg_temp.tool(name text, description text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('type', 'function', 'function', jsonb_build_object('name', name, 'description', description, 'parameters', '{"type": "object"}'::jsonb))
$$;
SELECT mw_fake('pgtap_rc', '{"*": [{"text": "an answer", "repeat": 99}]}');
SELECT mw_fake('pgtap_rc2', '{"*": [{"text": "another model''s", "repeat": 99}]}');

-- ---------- C03: what names an answer ----------

SELECT is(pg_temp.cache('q'), 'miss', 'C03: a first request');
SELECT is(pg_temp.cache('q'), 'hit', 'C03: the same');
SELECT is(pg_temp.cache('q', model => 'pgtap_rc2:m'), 'miss', 'C03: another server');
SELECT is(pg_temp.cache('q', model => 'pgtap_rc:other'), 'miss', 'C03: another model');
SELECT is(pg_temp.cache('q', '{"temperature": 0.1}'), 'miss', 'C03: another temperature');
SELECT is(pg_temp.cache('q', '{"max_tokens": 17}'), 'miss', 'C03: another max_tokens');
SELECT is(pg_temp.cache('q', '{"response_format": {"type": "json_object"}}'), 'miss', 'C03: another response_format');
SELECT is(pg_temp.cache('q', system => 'Be brief.'), 'miss', 'C03: a system prompt');
SELECT is(pg_temp.cache('q', system => 'Be long.'), 'miss', 'C03: another one');
SELECT is(pg_temp.cache('q', tools => jsonb_build_array(pg_temp.tool('f', 'one'))), 'miss', 'C03: a tool');
SELECT is(pg_temp.cache('q', tools => jsonb_build_array(pg_temp.tool('f', 'two'))), 'miss', 'C03: the text of its schema');
SELECT is(pg_temp.cache('q', '{"top_p": 0.5, "seed": 1}'), 'miss', 'C03: two settings');
SELECT is(pg_temp.cache('q', '{ "seed" : 1,   "top_p" : 0.5 }'), 'hit', 'C03: in another order and spelling they are the same');
SELECT mw_create_recognizer('PGTAP_RC', 'zzz[0-9]{4}');
SELECT is(pg_temp.cache('q'), 'miss', 'C03: a rule that redacts is another version');
SELECT is(pg_temp.cache('q'), 'hit', 'C03: which has an answer of its own');
SELECT mw_create_guard('pgtap_rc', 'open sesame');
SELECT is(pg_temp.cache('q'), 'miss', 'C03: and so has a guard');

CREATE FUNCTION pg_temp.key() RETURNS text LANGUAGE sql AS $$
	SELECT mw_cache_key('pgtap-rc', '[{"role": "user", "content": "q"}]', model => 'pgtap_rc3:m')
$$;
SELECT set_config('pgtap.key', pg_temp.key(), true) IS NOT NULL;
SELECT is(pg_temp.key(), current_setting('pgtap.key'), 'C03: the key of a request');
ALTER SERVER pgtap_rc3 OPTIONS (SET base_url 'https://two.example/v1');
SELECT isnt(pg_temp.key(), current_setting('pgtap.key'), 'C03: is another where the server stands elsewhere');
ALTER SERVER pgtap_rc3 OPTIONS (SET base_url 'https://one.example/v1');
SELECT is(pg_temp.key(), current_setting('pgtap.key'), 'C03: and the old one when it is back');

-- ---------- C05: near is not the same ----------

SELECT is(pg_temp.cache(a), 'miss', 'C05: ' || a) FROM unnest(ARRAY[
	'How do I enable two-factor login?', 'How do I disable two-factor login?', 'How do I not enable two-factor login?',
	'Fly me from Oslo to Rome', 'Fly me from Rome to Oslo', 'What is 17 times 3?', 'What is 17 times 4?',
	'fly me from Oslo to Rome', 'Fly me from Oslo to Rome.']) AS a;

-- ---------- C07, C08, C11: what is no answer to keep ----------

CREATE FUNCTION pg_temp.twice(step jsonb, out first text, out second text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_fake('pgtap_rc', jsonb_build_object('*', jsonb_build_array(step, '{"text": "whole", "repeat": 9}'::jsonb)));
	BEGIN
		first := mw_invoke('pgtap-rc', 's', 'twice ' || step::text)->>'cache';
	EXCEPTION WHEN OTHERS THEN
		first := SQLSTATE;
	END;
	second := mw_invoke('pgtap-rc', 's', 'twice ' || step::text)->>'cache';
END
$$;
SELECT is(pg_temp.twice(step::jsonb)::text, expected, 'C07, C08: ' || step) FROM (VALUES
	('{"text": "half an ans", "finish_reason": "length"}', '(miss,miss)'),
	('{"text": "I cannot", "finish_reason": "content_filter"}', '(miss,miss)'),
	('{"text": null}', '(miss,miss)'),
	('{"text": ""}', '(miss,miss)'),
	('{"tool_calls": [{"name": "f", "arguments": {}}]}', '(miss,miss)'),
	('{"text": "I look it up", "tool_calls": [{"name": "f", "arguments": {}}], "finish_reason": "stop"}', '(miss,miss)'),
	('{"raw": "{\"choices\": [{\"finish_reason\": \"stop\", \"message\": {\"content\": \"No.\", \"refusal\": \"I cannot\"}}]}"}', '(miss,miss)'),
	('{"raw": "{\"choices\": [{\"finish_reason\": \"stop\", \"message\": {\"content\": \"Yes.\", \"refusal\": null}}]}"}', '(miss,hit)')) AS x(step, expected);

-- ---------- C10: no name that a caller gives travels to a cache that tenants share ----------

SELECT throws_ok(format('SELECT mw_ask(''pgtap-rc'', NULL, ''q'', options => %L)', o), 'MW001', NULL, 'C10: ' || o)
FROM unnest(ARRAY['{"user": "x"}', '{"prompt_cache_key": "x"}', '{"metadata": {"user_id": "x"}}']) AS o;

-- ---------- C12: an answer depends on what the model saw, and on nothing else ----------

SELECT mw_fake('pgtap_rc', '{"*": [{"text": "<EMAIL_0> and <EMAIL_7>"}, {"text": "for <EMAIL_0>"}, {"text": "never"}]}');
SELECT is(pg_temp.cache('summarise ana@example.com'), 'miss', 'C12: an answer with a placeholder that nobody issued');
SELECT is(pg_temp.cache('summarise bo@example.net'), 'miss', 'C12: fits nobody else');
SELECT is(mw_ask('pgtap-rc', 's', 'summarise bo@example.net'), 'for bo@example.net', 'C12: one that fits is restored from the caller''s own prompt');

-- ---------- I06, I08: what a request_id is ----------

SELECT mw_fake('pgtap_rc', '{"*": [{"text": "i", "repeat": 99}]}');
SELECT is(mw_ask('pgtap-rc', NULL, 'i06', request_id => 'i06'), 'i', 'I06: a run');
SELECT throws_ok($$SELECT mw_ask('pgtap-rc', NULL, 'i06', request_id => 'i06', model => 'pgtap_rc2:m')$$, 'MW501', NULL, 'I06: another model under its id');
SELECT throws_ok($$SELECT mw_ask('pgtap-rc', NULL, 'i06', tools => '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]', request_id => 'i06')$$,
	'MW501', NULL, 'I06: other tools');
SELECT throws_ok($$SELECT mw_ask('pgtap-rc', NULL, 'i06', request_id => 'i06', messages => '[{"role": "user", "content": "before"}, {"role": "assistant", "content": "a"}]')$$,
	'MW501', NULL, 'I06: another history');
SELECT throws_ok($$SELECT mw_ask('pgtap-rc', NULL, 'i06', request_id => 'i06', options => '{"redact": {"types": ["VIN"]}}')$$, 'MW501', NULL, 'I06: other personal data to find');
SELECT mw_create_agent('rc', '{}', 'pgtap-rc');
SELECT is(mw_ask('pgtap-rc', 's', 'i06', request_id => 'i06-s'), 'i', 'I06: a run of a session');
SELECT throws_ok($$SELECT mw_ask('pgtap-rc', 's', 'i06', request_id => 'i06-s', agent => 'rc')$$, 'MW501', NULL, 'I06: and one by an agent');
CREATE ROLE pgtap_rc_other;
SELECT mw_grant_tenant('pgtap-rc', 'pgtap_rc_other');
GRANT USAGE ON FOREIGN SERVER pgtap_rc TO pgtap_rc_other;
SELECT throws_ok($$SET LOCAL ROLE pgtap_rc_other; SELECT mw_ask('pgtap-rc', NULL, 'i06', request_id => 'i06')$$, 'MW501', NULL, 'I06: another role');
SELECT is(current_user, session_user, 'which is over');
SELECT mw_create_tenant('pgtap-rc-open', '{"model": "pgtap_rc:m", "redact": false, "guardrail": false}');
SELECT is(mw_ask('pgtap-rc-open', NULL, 'i06', request_id => 'i06'), 'i', 'I06: a run without rules');
SELECT throws_ok($$SELECT mw_ask('pgtap-rc-open', NULL, 'i06', request_id => 'i06', options => '{"redact": true}')$$, 'MW501', NULL, 'I06: and one with stricter ones');
SELECT throws_ok($$SELECT mw_ask('pgtap-rc-open', NULL, 'i06', request_id => 'i06', options => '{"guardrail": true}')$$, 'MW501', NULL, 'I06: or judged');
SELECT is(mw_ask('pgtap-rc-b', NULL, 'of another tenant', request_id => 'i06'), 'i', 'I06: another tenant has ids of its own');

-- what cost nothing is not kept
SELECT throws_ok($$SELECT mw_ask('pgtap-rc', NULL, 'open sesame', request_id => 'i06-guard')$$, 'MW202', NULL, 'I06: a text that a guard refused');
SELECT is(mw_ask('pgtap-rc', NULL, 'a harmless text', request_id => 'i06-guard'), 'i', 'I06: leaves its id to use');

SELECT is((SELECT count(DISTINCT r.result->>'run_id') FROM unnest(ARRAY['k', 'K', U&'caf\00e9', U&'cafe\0301', 'k ', E'k\n']) AS id,
	LATERAL (SELECT mw_invoke('pgtap-rc', NULL, 'i08', request_id => id) AS result) AS r), 6::bigint, 'I08: ids are compared by their bytes');

SELECT * FROM finish();
ROLLBACK;
