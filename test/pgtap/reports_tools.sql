-- Risk: what users of other systems reported of tools: placeholders that reach a
-- function, values that break its JSON, results that no JSON can hold, SET ROLE.
BEGIN;
SELECT plan(21);

CREATE SERVER pgtap_rt FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-rt', '{"model": "pgtap_rt:m", "retry": 1}');
CREATE SCHEMA pgtap_rt;
CREATE TABLE pgtap_rt.seen (args jsonb);
CREATE FUNCTION pgtap_rt.note(args jsonb) RETURNS text LANGUAGE sql AS 'INSERT INTO pgtap_rt.seen VALUES (args) RETURNING ''noted ''::text || (args->>''mail'')';
SELECT mw_create_tool('note', 'pgtap_rt.note', parameters => '{"type": "object", "properties": {"mail": {"type": "string"}}}', options => '{"writes": true}');

-- a model that calls the tool once, with these arguments
CREATE FUNCTION pg_temp.ask(prompt text, args text, tool text = 'note') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM pgtap_rt.seen;
	PERFORM mw_fake('pgtap_rt', jsonb_build_object('m', jsonb_build_array(
		jsonb_build_object('tool_calls', jsonb_build_array(jsonb_build_object('id', 'c1', 'name', tool, 'arguments', args::jsonb))), '{"text": "done"}'::jsonb)));
	RETURN mw_ask('pgtap-rt', NULL, prompt, tools => '["note"]', options => '{"cache": "off"}');
END $$;
CREATE FUNCTION pg_temp.told() RETURNS text LANGUAGE sql AS $$
	SELECT m->>'content' FROM (SELECT body->'messages'->-1 AS m FROM mw_fake_requests('pgtap_rt') ORDER BY n DESC) AS r WHERE m->>'role' = 'tool' LIMIT 1 $$;

-- ---------- R08: values in arguments ----------

SELECT is(pg_temp.ask('Write to ann@example.com.', '{"mail": "<EMAIL_0>", "text": ["to <EMAIL_0>", {"<EMAIL_0>": 1}]}'), 'done', 'R08: a run with a tool ends');
SELECT is(args, '{"mail": "ann@example.com", "text": ["to ann@example.com", {"ann@example.com": 1}]}', 'R08: the tool gets values, wherever they stand') FROM pgtap_rt.seen;
SELECT is(pg_temp.told(), 'noted <EMAIL_0>', 'R08: and the model placeholders');
SELECT mw_create_recognizer('NICKNAME', '~[^~]+~', '{}', 'pgtap-rt');
SELECT is(pg_temp.ask('I am ~a "q" \ {"x": 1}~.', '{"mail": "<NICKNAME_0>"}'), 'done', 'R08: a value with quotes and a backslash');
SELECT is(args, jsonb_build_object('mail', '~a "q" \ {"x": 1}~'), 'R08: stays one string') FROM pgtap_rt.seen;

-- ---------- reveal ----------

SELECT mw_alter_tool('note', '{"reveal": false}');
SELECT pg_temp.ask('I am ann@example.com, 4111 1111 1111 1111.', '{"mail": "<EMAIL_0> <CC_0>"}');
SELECT is(args->>'mail', '<EMAIL_0> <CC_0>', 'reveal false: placeholders stay') FROM pgtap_rt.seen;
SELECT mw_alter_tool('note', '{"reveal": ["credit_card"]}');
SELECT pg_temp.ask('I am ann@example.com, 4111 1111 1111 1111.', '{"mail": "<EMAIL_0> <CC_0>"}');
SELECT is(args->>'mail', '<EMAIL_0> 4111 1111 1111 1111', 'reveal of types: only they are values') FROM pgtap_rt.seen;
SELECT mw_alter_tool('note', '{"reveal": null}');

-- ---------- A07: a tool that nobody has ----------

CREATE FUNCTION pgtap_rt.drop_all() RETURNS text LANGUAGE sql AS $$INSERT INTO pgtap_rt.seen VALUES ('{"dropped": true}') RETURNING 'x'$$;
SELECT is(pg_temp.ask('Go.', '{}', 'pgtap_rt.drop_all'), 'done', 'A07: a made-up name ends no run');
SELECT ok(pg_temp.told() LIKE 'Error: pgtap_rt.drop_all is not a valid tool, try one of [note].%' AND NOT EXISTS (SELECT FROM pgtap_rt.seen),
	'A07: the model is told, and nothing of that name is run');
SELECT mw_create_tool('drop_all', 'pgtap_rt.drop_all', options => '{"writes": true}');
SELECT pg_temp.ask('Go.', '{}', 'drop_all');
SELECT ok(NOT EXISTS (SELECT FROM pgtap_rt.seen), 'A07: a registered one that the run does not have neither');

-- ---------- X20: results that no JSON can hold ----------

CREATE TYPE pgtap_rt.mood AS ENUM ('sad');
CREATE TYPE pgtap_rt.pair AS (a integer, b text);
CREATE FUNCTION pgtap_rt.all_of(OUT at timestamptz, OUT span interval, OUT raw bytea, OUT n numeric, OUT f float8, OUT ip inet, OUT r int4range,
	OUT m pgtap_rt.mood, OUT list integer[], OUT pair pgtap_rt.pair, OUT doc json, OUT bits bit varying) LANGUAGE sql AS $$
	SELECT '-infinity'::timestamptz, '1 day 02:00'::interval, '\x00ff'::bytea, 'NaN'::numeric, 'Infinity'::float8, '10.0.0.1/8'::inet, '[1,2)'::int4range,
		'sad'::pgtap_rt.mood, '{1,NULL}'::integer[], ROW(1, NULL)::pgtap_rt.pair, '{"a": "\u0000"}'::json, B'101' $$;
SELECT mw_create_tool('all_of', 'pgtap_rt.all_of');
CREATE FUNCTION pgtap_rt.plain(OUT at timestamptz, OUT span interval, OUT raw bytea, OUT n numeric, OUT f float8, OUT ip inet, OUT r int4range,
	OUT m pgtap_rt.mood, OUT list integer[], OUT pair pgtap_rt.pair, OUT bits bit varying) LANGUAGE sql AS
	'SELECT at, span, raw, n, f, ip, r, m, list, pair, bits FROM pgtap_rt.all_of()';
SELECT mw_create_tool('plain', 'pgtap_rt.plain');
SELECT is(((mw_call_tool('pgtap-rt', 'plain')->>'content')::jsonb) - 'ip',
	'{"at": "-infinity", "span": "1 day 02:00:00", "raw": "\\x00ff", "n": "NaN", "f": "Infinity", "r": "[1,2)", "m": "sad", "list": [1, null], "pair": {"a": 1, "b": null}, "bits": "101"}',
	'X20: what JSON has no word for is a text');
SELECT throws_ok($$SELECT mw_call_tool('pgtap-rt', 'all_of')$$, '22P05', NULL, 'X20: what no jsonb can hold is an error of the tool''s');
CREATE FUNCTION pgtap_rt.doc() RETURNS json LANGUAGE sql AS $$SELECT '{"a": "\u0000"}'::json$$;
SELECT mw_create_tool('doc', 'pgtap_rt.doc');
SELECT is(mw_call_tool('pgtap-rt', 'doc')->>'content', '{"a": "\u0000"}', 'X20: json is passed on as it is written');
CREATE FUNCTION pgtap_rt.large() RETURNS text LANGUAGE sql AS $$SELECT repeat('x', 100000000)$$;
SELECT mw_create_tool('large', 'pgtap_rt.large', options => '{"max_bytes": 100}');
SELECT is(mw_call_tool('pgtap-rt', 'large')->>'content', repeat('x', 100) || E'\n[Only a part is shown: 100 of 100000000 bytes.]', 'X20: 100 MB are cut');

-- ---------- L08: SET ROLE taken for a prison ----------

CREATE ROLE pgtap_rt_user;
CREATE ROLE pgtap_rt_admin;
GRANT pgtap_rt_admin TO pgtap_rt_user;
SELECT mw_grant_tenant('pgtap-rt', 'pgtap_rt_user');
GRANT USAGE ON SCHEMA pgtap_rt TO pgtap_rt_user;
CREATE FUNCTION pgtap_rt.does(what text) RETURNS text LANGUAGE plpgsql AS $$BEGIN EXECUTE what; RETURN current_user; END$$;
SELECT mw_create_tool('does', 'pgtap_rt.does', options => '{"writes": true}');
CREATE FUNCTION pg_temp.state(what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN mw_call_tool('pgtap-rt', 'does', jsonb_build_object('what', what))->>'content';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate;
END $$;
SET ROLE pgtap_rt_user;
SELECT is(pg_temp.state(x.what), x.said, 'L08: ' || x.why)
FROM (VALUES
	('RESET ROLE', '42501', 'RESET ROLE in a tool'),
	('SET ROLE pgtap_rt_admin', '42501', 'SET ROLE'),
	('SET SESSION AUTHORIZATION DEFAULT', '42501', 'SET SESSION AUTHORIZATION'),
	('DO $x$BEGIN SET ROLE pgtap_rt_admin; END$x$', '42501', 'a DO block'),
	('COPY pgtap_rt.seen TO PROGRAM ''true''', '42501', 'COPY PROGRAM'),
	('SET mw.tenant = ''another''', 'pgtap_rt_user', 'SET mw.tenant changes nothing that counts')
) AS x (what, said, why);
SELECT throws_ok($$SELECT mw_ask('another', NULL, 'x')$$, 'MW101', NULL, 'L08: and does not outlive the tool');
RESET ROLE;

SELECT * FROM finish();
ROLLBACK;
