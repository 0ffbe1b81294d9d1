-- Risk: a call that waits longer than anybody meant: defaults and limits of the server's settings and the tenant's, and what a
-- caller may ask for beyond them.
BEGIN;
SELECT plan(26);

CREATE SERVER pgtap_dl FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-dl', '{"model": "pgtap_dl:m", "retry": 1, "cache": false}');
-- an answer that comes after half a minute: whoever waited for it would be noticed
SELECT mw_fake('pgtap_dl', '[{"match": "slow", "step": {"text": "too late", "delay_ms": 30000}}, {"step": {"text": "quick"}}]');

CREATE FUNCTION pg_temp.say(prompt text, options jsonb DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE d text; m text; h text;
BEGIN
	RETURN mw_ask('pgtap-dl', NULL, prompt, options => options);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, m = MESSAGE_TEXT, h = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ' ' || m || ' | ' || regexp_replace(coalesce(d, ''), '\n?request_id: .*', '') || ' | ' || h;
END $$;
CREATE FUNCTION pg_temp.setting(v jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_alter_tenant('pgtap-dl', '{"timeout": null}');
	PERFORM mw_alter_tenant('pgtap-dl', jsonb_build_object('timeout', v));
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;

-- ---------- the server's settings ----------

SELECT is(current_setting('mw.default_timeout') || ' ' || current_setting('mw.max_timeout'), '1min 1h', 'a minute, and an hour at most, where nobody says anything');
SET LOCAL mw.default_timeout = '20ms';
SELECT matches(pg_temp.say('slow'), '^MW404 the deadline of the call has passed', 'mw.default_timeout holds where neither call nor tenant says');
SELECT is(pg_temp.say('x'), 'quick', 'for what is quicker it does not matter');
SELECT is(pg_temp.say('x', '{"timeout": 20}'), 'quick', 'a call may say');
RESET mw.default_timeout;
SET LOCAL mw.max_timeout = '20ms';
SELECT matches(pg_temp.say('slow'), '^MW404 ', 'mw.max_timeout holds for defaults');
SELECT is(pg_temp.say('x', '{"timeout": 1}'),
	'MW001 option "timeout" is longer than this tenant''s calls may take | At most 0.02 seconds are allowed, by mw.max_timeout. | Ask for less, or let an administrator raise it.', 'and no call exceeds it');
SELECT is(pg_temp.say('x', '{"timeout": 0.01}'), 'quick', 'less is allowed');
RESET mw.max_timeout;
CREATE ROLE pgtap_dl_role;
SET LOCAL ROLE pgtap_dl_role;
SELECT throws_ok('SET mw.max_timeout = ''30min''', '42501', NULL, 'it is for superusers');
SELECT lives_ok('SET LOCAL mw.default_timeout = ''30s''', 'the default is everybody''s');
RESET ROLE;
RESET mw.default_timeout;

-- ---------- the tenant's ----------

SELECT is(pg_temp.setting('0.02'), 'accepted', 'a number of seconds');
SELECT matches(pg_temp.say('slow'), '^MW404 ', 'is the default of its calls');
SET LOCAL mw.default_timeout = '1h';
SELECT matches(pg_temp.say('slow'), '^MW404 ', 'before the server''s');
SELECT is(pg_temp.setting('"20 ms"'), 'accepted', 'an interval');
SELECT matches(pg_temp.say('slow'), '^MW404 ', 'says the same');
SELECT is(pg_temp.setting('{"max": "20 ms"}'), 'accepted', 'a limit alone');
SELECT matches(pg_temp.say('slow'), '^MW404 ', 'holds for what the server''s setting says');
SELECT is(pg_temp.say('x', '{"timeout": "1 s"}'),
	'MW001 option "timeout" is longer than this tenant''s calls may take | At most 0.02 seconds are allowed, by the tenant''s setting "timeout". | Ask for less, or let an administrator raise it.', 'and for a call');
SELECT is(pg_temp.setting('{"default": 0.02, "max": 60}'), 'accepted', 'both');
SELECT matches(pg_temp.say('slow'), '^MW404 ', 'the default');
SELECT is(pg_temp.say('x', '{"timeout": 60}'), 'quick', 'and the limit');
SELECT matches(pg_temp.setting(v), '^(MW001|22007) ', 'refused: ' || v::text)
FROM (VALUES ('0'::jsonb), ('-1'), ('"soon"'), ('7200'), ('{"default": 60, "max": 30}'), ('{"least": 1}')) AS l (v);

SELECT * FROM finish();
ROLLBACK;
