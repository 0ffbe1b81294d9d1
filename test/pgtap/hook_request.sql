-- What hooks are given is put together from bytes that are jsonb already.  Each function of PostgreSQL's must find in it what
-- it would find in the same value made by PostgreSQL: members of all kinds, many of them, nested, of odd lengths.
BEGIN;
SELECT plan(8);
CREATE SERVER seen FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('seen', '{"model": "seen:m", "redact": false, "guardrail": false, "cache": false}');
CREATE SCHEMA app;
CREATE TABLE app.given (hook text, what jsonb, size integer);
CREATE FUNCTION app.note(which text, what jsonb) RETURNS void LANGUAGE sql AS $$
	INSERT INTO app.given VALUES (which, what, pg_column_size(what)) $$;
CREATE FUNCTION app.before(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN PERFORM app.note('before_model', state); RETURN NULL; END $$;
CREATE FUNCTION app.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE response jsonb;
BEGIN PERFORM app.note('wrap_model_call', request); response := mw_next(request); PERFORM app.note('response', response); RETURN response; END $$;
CREATE FUNCTION app.around_tool(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN PERFORM app.note('wrap_tool_call', request); RETURN mw_next(request); END $$;
CREATE FUNCTION app.look(a integer, b text) RETURNS text LANGUAGE sql AS $$ SELECT 'found' $$;
SELECT mw_create_tool('look', 'app.look', 'Ein Werkzeug mit Umlauten: äöü', tenant => 'seen');
SELECT mw_create_agent('a', '{"tools": ["look"], "system_prompt": "Odd.", "model_settings": {"temperature": 0.25},
	"state": {"n": {"default": 12345678901234567890.5}, "t": {"default": true}, "f": {"default": false}, "null_one": {"default": {"x": null}},
		"words": {"default": ["a", "bb", "ccc", {"deep": [[], {}, [1.5]]}]}, "empty": {"default": ""}, "k": {"default": {}}},
	"middleware": [{"type": "custom", "name": "h", "hooks": {"before_model": "app.before", "wrap_model_call": "app.around", "wrap_tool_call": "app.around_tool"}}]}', 'seen');
SELECT mw_fake('seen', '{"m": [{"tool_calls": [{"id": "c1", "name": "look", "arguments": {"a": 1, "b": "x"}}]}, {"text": "Yes."}]}');
SELECT is(mw_invoke('seen', 's', NULL, agent => 'a', messages =>
	(SELECT jsonb_agg(jsonb_build_object('role', CASE WHEN i % 2 = 0 THEN 'assistant' ELSE 'user' END, 'content', repeat('ü', i % 7) || i)) FROM generate_series(1, 101) AS i))
	->> 'status', 'completed', 'a run of a hundred messages');

SELECT is((SELECT array_agg(DISTINCT hook ORDER BY hook) FROM app.given), '{before_model,response,wrap_model_call,wrap_tool_call}', 'all of them were given something');
SELECT ok((SELECT bool_and(what::text::jsonb = what) FROM app.given), 'it is what it reads like');
SELECT ok((SELECT bool_and(pg_column_size(what::text::jsonb) = size) FROM app.given), 'in as many bytes');
SELECT ok((SELECT bool_and((what::text::jsonb - k) = (what - k)) FROM app.given, jsonb_object_keys(what) AS k), 'each member can be found and taken out');
SELECT is((SELECT array_agg((what -> 'messages' -> i ->> 'content') = repeat('ü', (i + 1) % 7) || (i + 1)) FROM app.given, generate_series(0, 100) AS i WHERE hook = 'before_model'
	AND jsonb_array_length(what -> 'messages') = 101), (SELECT array_agg(true) FROM generate_series(0, 100)), 'each message by its number');
SELECT is((SELECT what - 'messages' FROM app.given WHERE hook = 'before_model' LIMIT 1),
	'{"n": 12345678901234567890.5, "t": true, "f": false, "null_one": {"x": null}, "words": ["a", "bb", "ccc", {"deep": [[], {}, [1.5]]}], "empty": "", "k": {}}', 'the state''s fields');
SELECT ok((SELECT bool_and(what -> 'state' -> 'messages' = what -> 'messages') FROM app.given WHERE hook = 'wrap_model_call'), 'a request holds the thread twice, equally');
SELECT * FROM finish();
ROLLBACK;
