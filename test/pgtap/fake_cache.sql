-- Risk: an answer out of the cache that belongs to another request, another
-- tenant or another time; an answer in it that should not be.
BEGIN;
SELECT plan(21);

CREATE SERVER pgtap_cache FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-cache', '{"model": "pgtap_cache:m", "cache": {"ttl": 3600}}');
SELECT mw_create_tenant('pgtap-cache-2', '{"model": "pgtap_cache:m"}');

-- each answer tells which request it belongs to
SELECT mw_fake('pgtap_cache', (
	SELECT jsonb_build_object('*', jsonb_agg(jsonb_build_object('text', 'answer ' || i) ORDER BY i)) FROM generate_series(1, 40) AS i));
CREATE FUNCTION pg_temp.got(prompt text, options jsonb DEFAULT '{}', tools jsonb DEFAULT NULL, session text DEFAULT 's', tenant text DEFAULT 'pgtap-cache')
RETURNS text LANGUAGE sql AS $$
	SELECT (r->>'cache') || ': ' || (r->>'output') FROM mw_invoke(tenant, session, prompt, tools => tools, options => options) AS r
$$;

SELECT is(pg_temp.got('q'), 'miss: answer 1', 'a first request is a miss');
SELECT is(pg_temp.got('q'), 'hit: answer 1', 'the same again a hit');
SELECT is(pg_temp.got('q', session => 'another'), 'hit: answer 1', 'in another session of the tenant too');
SELECT is(pg_temp.got('q', tenant => 'pgtap-cache-2'), 'miss: answer 2', 'P24: but not for another tenant');
SELECT is(pg_temp.got('q', '{"temperature": 0.5}'), 'miss: answer 3', 'another parameter is another request');
SELECT is(pg_temp.got('q', '{"max_tokens": 99}'), 'miss: answer 4', 'and another max_tokens');
SELECT is(pg_temp.got('q', tools => '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]'), 'miss: answer 5',
	'P61: and other tools');
SELECT is(pg_temp.got('q', tools => '[{"function": {"parameters": {"type": "object"}, "name": "f"}, "type": "function"}]'), 'hit: answer 5',
	'the same tools in another spelling are the same');
SELECT is(pg_temp.got('q', '{"cache": "off"}'), 'off: answer 6', 'off neither reads');
SELECT is(pg_temp.got('q'), 'hit: answer 1', 'nor writes');
SELECT is(pg_temp.got('q', '{"cache": "refresh"}'), 'miss: answer 7', 'refresh does not read');
SELECT is(pg_temp.got('q'), 'hit: answer 7', 'but writes');

-- what was redacted is the same request, and each caller gets its own values
SELECT mw_fake('pgtap_cache', '{"*": [{"text": "written to <EMAIL_0>"}, {"text": "never"}]}');
SELECT is(pg_temp.got('mail alice@acme.com'), 'miss: written to alice@acme.com', 'a miss with personal data');
SELECT is(pg_temp.got('mail bob@acme.com'), 'hit: written to bob@acme.com', 'is a hit for other values of the same kind, restored from its own prompt');
SELECT is((SELECT count(*) FROM mw.fake_cache WHERE body LIKE '%alice%' OR body LIKE '%bob%'), 0::bigint, 'since only the placeholder is stored');

-- purge and time
SELECT mw_purge_cache('pgtap-cache');
SELECT mw_fake('pgtap_cache', '{"*": [{"text": "after the purge"}, {"text": "after its time"}]}');
SELECT is(pg_temp.got('q'), 'miss: after the purge', 'what was purged is no answer');
SELECT is(pg_temp.got('q'), 'hit: after the purge', 'what came after is');
UPDATE mw.fake_cache SET expires_at = clock_timestamp() - interval '1 second' WHERE tenant = 'pgtap-cache';
SELECT is(pg_temp.got('q'), 'miss: after its time', 'what has expired is no answer');

-- what is not stored
SELECT mw_fake('pgtap_cache', '{"*": [{"text": "cut", "finish_reason": "length"}, {"text": "whole"}, {"text": null}, {"text": "something"}]}');
SELECT is(pg_temp.got('long'), 'miss: cut', 'an answer that was cut off');
SELECT is(pg_temp.got('long'), 'miss: whole', 'is not stored');

SELECT is((SELECT count(*) FROM mw.cache WHERE tenant LIKE 'pgtap-cache%'), 0::bigint, 'the gateway''s own cache is untouched');

SELECT * FROM finish();
ROLLBACK;
