-- A process keeps the calls of users' functions ready.  One that was replaced, whose rights were taken, or that is reached
-- again while it runs, must not be answered by what was kept; nor may an error leave it half way through.
BEGIN;
SELECT plan(13);
CREATE SERVER ready FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('ready', '{"model": "ready:m", "redact": false, "guardrail": false, "cache": false}');
CREATE SCHEMA app;
CREATE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT mw_next(request || '{"system_prompt": "first"}') $$;
SELECT mw_create_agent('a', '{"middleware": [{"type": "custom", "name": "h", "hooks": {"wrap_model_call": "app.around"}}]}', 'ready');

CREATE FUNCTION asked(session text DEFAULT gen_random_uuid()::text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_fake('ready', '{"m": [{"text": "Yes.", "repeat": 9}]}');
	PERFORM mw_invoke('ready', session, 'When?', agent => 'a');
	RETURN (SELECT string_agg(body #>> '{messages,0,content}', ' ' ORDER BY n) FROM mw_fake_requests('ready'));
END $$;

SELECT is(asked(), 'first', 'a body that is one expression');
CREATE OR REPLACE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT mw_next(request || '{"system_prompt": "second"}') $$;
SELECT is(asked(), 'second', 'is replaced');
SAVEPOINT s;
CREATE OR REPLACE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
	BEGIN RETURN mw_next(request || '{"system_prompt": "third"}'); END $$;
SELECT is(asked(), 'third', 'is written in another language');
ROLLBACK TO s;
SELECT is(asked(), 'second', 'and is the old one after a rollback');

-- names are looked up in the function's own schema, whatever the caller's path is
CREATE FUNCTION app.word() RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"system_prompt": "app"}'::jsonb $$;
CREATE FUNCTION public.word() RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"system_prompt": "public"}'::jsonb $$;
CREATE OR REPLACE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT mw_next(request || word()) $$;
SELECT is(asked(), 'app', 'a name in its own schema');
DROP FUNCTION app.word();
SELECT is(asked(), 'public', 'that is gone from there');

-- reached again while it runs
CREATE FUNCTION app.deeper(runtime jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF runtime ->> 'session' = 'deep' THEN
		PERFORM mw_invoke('ready', 'deeper', 'And then?', agent => 'a');
		RETURN 'outer';
	END IF;
	RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT mw_next(request || jsonb_build_object('system_prompt', coalesce(app.deeper(runtime), 'inner'))) $$;
SELECT is(asked('deep'), 'inner outer', 'a hook whose own run it asks inside another');
SELECT is(asked(), 'inner', 'works afterwards');

-- an error in the middle, in a body of several statements
CREATE OR REPLACE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT 1;
	SELECT mw_next(request || jsonb_build_object('system_prompt', (10 / length(runtime ->> 'session'))::text)) $$;
SELECT is(asked('12345'), '2', 'a body of statements');
SELECT throws_ok($$ SELECT mw_invoke('ready', NULL, 'When?', agent => 'a') $$, 'MW001');
CREATE OR REPLACE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT 1;
	SELECT mw_next(request || jsonb_build_object('system_prompt', (10 / (length(runtime ->> 'session') - 3))::text)) $$;
SELECT is((mw_invoke('ready', 'abc', 'When?', agent => 'a', options => '{"on_error": "return"}') #>> '{error,sqlstate}'), 'MW702', 'that fails');
SELECT is(asked('abcde'), '5', 'and works the next time');

REVOKE EXECUTE ON FUNCTION app.around(jsonb, jsonb) FROM PUBLIC;
CREATE ROLE ready_app;
SELECT mw_grant_tenant('ready', 'ready_app');
GRANT USAGE ON FOREIGN SERVER ready TO ready_app;
GRANT USAGE ON SCHEMA app TO ready_app;
SET LOCAL ROLE ready_app;
SELECT throws_ok($$ SELECT mw_invoke('ready', 'denied', 'When?', agent => 'a') $$, 'MW702', 'permission denied for function app.around(pg_catalog.jsonb,pg_catalog.jsonb)', 'another role needs a right of its own');
RESET ROLE;
SELECT * FROM finish();
ROLLBACK;
