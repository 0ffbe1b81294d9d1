-- Risk: names, argument order, result keys or codes of the SQL surface change
-- under other people's scripts; bad input does something instead of raising.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;

SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
	p.provolatile AS vol, p.proparallel AS par, p.proisstrict AS strict
FROM pg_proc p
WHERE p.proname IN ('mw_invoke', 'mw_ask', 'mw_explain', 'mw_cache_key', 'mw_check_order')
ORDER BY p.proname::text COLLATE "C";

CREATE SERVER surf FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('surface');
SELECT mw_create_tenant('elsewhere');
CREATE ROLE surface_app;
SELECT mw_grant_tenant('surface', 'surface_app');
GRANT USAGE ON FOREIGN SERVER surf TO surface_app;

CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	given text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement INTO given;
	RETURN 'ok ' || coalesce(given, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ' ' || SQLERRM,
		nullif(regexp_replace(detail, 'request_id: mw-\S+$', 'request_id: made'), ''), nullif(hint, ''));
END
$$;
GRANT CREATE ON SCHEMA public TO surface_app;
SET SESSION AUTHORIZATION surface_app;

-- the result
SELECT mw_fake('surf', '{"m": [{"text": "It is <EMAIL_0>.", "usage": {"prompt_tokens": 11, "completion_tokens": 4}, "repeat": 100}]}');
CREATE TEMP TABLE given AS SELECT mw_invoke('surface', 's1', 'Whose is joe@example.com?', model => 'surf:m') AS r;
SELECT string_agg(k, ' ' ORDER BY k COLLATE "C") FROM given, jsonb_object_keys(r) k;
SELECT r - '{run_id,request_id,timings}'::text[] FROM given;
SELECT r ->> 'request_id' ~ '^mw-[0-9a-f-]{36}-[0-9a-f]{16}$' AS request_id,
	r ->> 'run_id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' AS run_id
FROM given;
SELECT k, v::bigint >= 0 FROM given, jsonb_each(r -> 'timings') AS t(k, v) ORDER BY k COLLATE "C";
SELECT mw_invoke('surface', 's1', 'Whose is joe@example.com?', model => 'surf:m') - '{run_id,request_id,timings}'::text[];
SELECT mw_ask('surface', 's1', 'Whose is joe@example.com?', model => 'surf:m');
-- the map is the caller's own: another value under the same placeholder
SELECT mw_ask('surface', 's1', 'Whose is ann@example.com?', model => 'surf:m');
SELECT mw_ask('surface', NULL, NULL, model => 'surf:m', messages => '[{"role": "user", "content": "Whose is joe@example.com?"}]');

-- which model: the call's, the tenant's, the setting's
SELECT try($$SELECT mw_ask('surface', NULL, 'x')$$);
SET mw.default_model = 'surf:m';
SELECT try($$SELECT mw_ask('surface', NULL, 'x')$$);
RESET mw.default_model;
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'm')$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'nowhere:m')$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => '')$$);

-- whose
SELECT try($$SELECT mw_ask('elsewhere', NULL, 'x', model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('nobody', NULL, 'x', model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('*', NULL, 'x', model => 'surf:m')$$) ~ '^MW';
SET mw.tenant = 'elsewhere';
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m')$$);
RESET mw.tenant;

-- NULL, empty, too long
SELECT try('SELECT mw_ask(NULL, NULL, NULL)');
SELECT try('SELECT mw_invoke(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)');
SELECT try('SELECT count(*) FROM mw_explain(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)');
SELECT try('SELECT mw_cache_key(NULL, NULL, NULL, NULL, NULL)');
SELECT try('SELECT mw_check_order(NULL)');
SELECT try($$SELECT mw_ask('', NULL, 'x', model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('surface', '', 'x', model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('surface', '*', 'x', model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('surface', repeat('s', 256), 'x', model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('surface', NULL, NULL, model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('surface', NULL, '', model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', options => NULL)$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', agent => 'a')$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', request_id => '')$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', request_id => E' \n')$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', request_id => repeat('r', 256))$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', request_id => repeat('r', 255))$$);

-- too large: refused before any work, and not printed
RESET SESSION AUTHORIZATION;
SET mw.max_prompt = '2kB';
SELECT try($$SELECT mw_ask('surface', NULL, repeat('x', 2049), model => 'surf:m')$$);
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', messages => jsonb_build_array(jsonb_build_object('role', 'user', 'content', repeat('x', 2100))))$$);
SELECT try($$SELECT mw_cache_key('surface', jsonb_build_array(jsonb_build_object('role', 'user', 'content', repeat('x', 2100))))$$);
CREATE TEMP TABLE big AS SELECT repeat('x', 1000000) AS prompt;
SELECT try($$SELECT mw_ask('nobody', NULL, prompt) FROM big$$);
RESET mw.max_prompt;
SET SESSION AUTHORIZATION surface_app;

-- read-only: refused before anything leaves; to explain changes nothing
SELECT mw_fake('surf', '{"m": [{"text": "hi", "repeat": 100}]}');
BEGIN READ ONLY;
SELECT mw_ask('surface', NULL, 'x', model => 'surf:m');
ROLLBACK;
BEGIN READ ONLY;
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m')$$);
SELECT try($$SELECT mw_invoke('surface', NULL, 'x', model => 'surf:m')$$);
ROLLBACK;
BEGIN READ ONLY;
SELECT stage FROM mw_explain('surface', NULL, 'x', model => 'surf:m');
ROLLBACK;
SELECT count(*) FROM mw_fake_requests('surf');

-- explain: what each stage would do and what the next would see
SELECT stage, verdict, next IS NOT NULL AS next, microseconds >= 0 AS timed,
	concat(detail, next) ~ 'joe@' AS raw
FROM mw_explain('surface', NULL, 'Write to joe@example.com', model => 'surf:m');
SELECT count(*) FROM mw_fake_requests('surf');

-- tools of the application end the run; its messages continue it
SELECT mw_fake('surf', '{"m": [{"tool_calls": [{"name": "mail", "id": "c1", "arguments": {"to": "<EMAIL_0>"}}]}, {"text": "Sent to <EMAIL_0>."}]}');
SELECT jsonb_pretty(r - '{run_id,request_id,timings,usage}'::text[])
FROM mw_invoke('surface', NULL, 'Mail joe@example.com', model => 'surf:m', tools => '[{"name": "mail"}]') r;
SELECT mw_ask('surface', NULL, NULL, model => 'surf:m', tools => '[{"name": "mail"}]', messages =>
	'[{"role": "user", "content": "Mail joe@example.com"},
	  {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "mail", "args": {"to": "joe@example.com"}}]},
	  {"role": "tool", "tool_call_id": "c1", "content": "done"}]');
SELECT jsonb_path_query_array(body, '$.messages[*].role'), body::text ~ 'joe@' AS raw FROM mw_fake_requests('surf') WHERE n = 2;
SELECT mw_fake('surf', '{"m": [{"tool_calls": [{"name": "mail", "id": "c1", "arguments": {}}]}]}');
SELECT mw_ask('surface', NULL, 'Mail', model => 'surf:m', request_id => 'warns', tools => '[{"name": "mail"}]');

-- a transcript is paired before it is sent (invariant 11)
CREATE FUNCTION sent(messages jsonb, prompt text DEFAULT NULL) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_fake('surf', '{"m": [{"text": "hi"}]}');
	PERFORM mw_ask('surface', NULL, prompt, model => 'surf:m', messages => messages, options => '{"cache": "off"}');
	RETURN QUERY SELECT jsonb_array_elements(body -> 'messages') FROM mw_fake_requests('surf');
END
$$;
SELECT m ->> 'role' AS role, jsonb_path_query_array(m, '$.tool_calls[*].id') AS calls, m ->> 'tool_call_id' AS answers, CASE m ->> 'role' WHEN 'tool' THEN m ->> 'content' END AS content
FROM sent('[{"role": "user", "content": "u"},
	{"role": "tool", "tool_call_id": "nobody", "content": "orphan"},
	{"role": "assistant", "tool_calls": [{"id": "a", "name": "f", "args": {"x": 1}}, {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
	{"role": "tool", "tool_call_id": "b", "content": "of b"},
	{"role": "tool", "tool_call_id": "b", "content": "of b again"}]', 'and now?') m;
SELECT m ->> 'role' AS role, m ->> 'tool_call_id' AS answers, CASE m ->> 'role' WHEN 'tool' THEN m ->> 'content' END AS content
FROM sent('[{"role": "user", "content": "u"},
	{"role": "assistant", "content": null, "refusal": null, "tool_calls": [{"id": "a", "name": "f", "args": {}}]},
	{"role": "user", "content": "meanwhile"},
	{"role": "tool", "tool_call_id": "a", "content": "late"},
	{"role": "assistant", "content": "again", "tool_calls": [{"id": "a", "name": "f", "args": {}}]},
	{"role": "tool", "tool_call_id": "a", "content": "of the second"}]') m;

-- messages that are none
SELECT m, try(format('SELECT mw_ask(''surface'', NULL, NULL, model => ''surf:m'', messages => %L)', m))
FROM unnest(ARRAY['[]', '{}', '"x"', '[1]', '[{}]', '[{"role": "robot", "content": "x"}]', '[{"role": "user"}]',
	'[{"role": "user", "content": 5}]', '[{"role": "user", "content": []}]', '[{"role": "user", "content": [{"type": "text"}]}]',
	'[{"role": "user", "content": "x", "contnet": "y"}]', '[{"role": "tool", "content": "x"}]',
	'[{"role": "user", "content": "x", "tool_call_id": "a"}]', '[{"role": "assistant", "tool_calls": [{"name": "f"}]}]',
	'[{"role": "assistant", "tool_calls": [{"id": "a", "name": "f", "args": 1}]}]', '[{"role": "tool", "tool_call_id": "a", "content": "x"}]']) AS m;

-- a request_id belongs to one request
SELECT mw_fake('surf', '{"m": [{"text": "first <EMAIL_0>"}, {"text": "second"}, {"text": "third"}]}');
SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => 'surf:m', request_id => 'r1', options => '{"cache": "off"}');
SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => 'surf:m', request_id => 'r1', options => '{"cache": "off"}');
SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => 'surf:m', request_id => 'r1', options => '{"timeout": 9}');
SELECT count(*) FROM mw_fake_requests('surf');
SELECT try($$SELECT mw_ask('surface', 's', 'Mail ann@example.com', model => 'surf:m', request_id => 'r1')$$);
SELECT try($$SELECT mw_ask('surface', 't', 'Mail joe@example.com', model => 'surf:m', request_id => 'r1')$$) ~ '^MW501';
SELECT try($$SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => 'surf:m', request_id => 'r1', tools => '[{"name": "f"}]')$$) ~ '^MW501';
SELECT try($$SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => '{"model": "surf:m"}', request_id => 'r1')$$) ~ '^MW501';
SELECT try($$SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => 'surf:m', request_id => 'r1', options => '{"seed": 1}')$$) ~ '^MW501';
SELECT try($$SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => 'surf:m', request_id => 'R1', options => '{"cache": "off"}')$$);
SELECT try($$SELECT mw_ask('surface', 's', 'Mail joe@example.com', model => 'surf:m', request_id => $$ || quote_literal(r ->> 'request_id') || ')') FROM given;
SELECT request_id, result::text ~ 'joe@' AS raw FROM mw.result WHERE request_id = 'r1';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT mw_ask('surface', 's', 'twice', model => 'surf:m', request_id => 'r2', options => '{"cache": "off"}');
SELECT mw_ask('surface', 's', 'twice', model => 'surf:m', request_id => 'r2', options => '{"cache": "off"}');
COMMIT;
SELECT count(*) FROM mw_fake_requests('surf');

-- an error of a run says which
SELECT mw_fake('surf', '{"m": [{"status": 400, "body": {"error": {"message": "no"}}}, {"status": 400, "body": {"error": {"message": "no"}}}]}');
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', request_id => 'named', options => '{"cache": "off"}')$$) ~ 'request_id: named$|request_id: named\n';
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf:m', options => '{"cache": "off"}')$$) ~ 'request_id: made';

-- the gateway sees what is committed: neither a server nor a tenant of this transaction, but one that it only altered
RESET SESSION AUTHORIZATION;
BEGIN;
CREATE SERVER surf_real FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'http://127.0.0.1:9/v1');
SELECT try($$SELECT mw_ask('surface', NULL, 'x', model => 'surf_real:m')$$);
SELECT stage FROM mw_explain('surface', NULL, 'x', model => 'surf_real:m');
COMMIT;
BEGIN;
SELECT mw_create_tenant('surface-new');
SELECT try($$SELECT mw_ask('surface-new', NULL, 'x', model => 'surf_real:m')$$);
SELECT mw_alter_tenant('surface-new', '{"retry": 1}');
SELECT try($$SELECT mw_ask('surface-new', NULL, 'x', model => 'surf_real:m')$$) ~ '^MW001.*must be committed';
SELECT stage FROM mw_explain('surface-new', NULL, 'x', model => 'surf_real:m');
SELECT mw_fake('surf', '{"*": [{"text": "of the same transaction"}]}');
SELECT mw_ask('surface-new', NULL, 'x', model => 'surf:m');
COMMIT;
-- committed: what stops it now is the network, or that mw is not preloaded
SELECT try($$SELECT mw_ask('surface-new', NULL, 'x', model => 'surf_real:m')$$) ~ '^MW(003|402)';
BEGIN;
SELECT mw_alter_tenant('surface-new', '{"retry": 2}');
SELECT try($$SELECT mw_ask('surface-new', NULL, 'x', model => 'surf_real:m')$$) ~ '^MW(003|402)';
SAVEPOINT s;
SELECT mw_drop_tenant('surface-new');
SELECT try($$SELECT mw_ask('surface-new', NULL, 'x', model => 'surf_real:m')$$) ~ '^MW101';
ROLLBACK TO s;
SELECT try($$SELECT mw_ask('surface-new', NULL, 'x', model => 'surf_real:m')$$) ~ '^MW(003|402)';
ROLLBACK;
-- a tenant that is dropped again before it is seen
BEGIN;
SELECT mw_create_tenant('surface-gone');
SELECT try($$SELECT mw_ask('surface-gone', NULL, 'x', model => 'surf_real:m')$$) ~ '^MW001.*must be committed';
ROLLBACK;
SELECT count(*) FROM mw.ledger WHERE tenant = 'surface-gone';
SELECT mw_drop_tenant('surface-new');
DELETE FROM mw.attempt WHERE tenant = 'surface-new';
DELETE FROM mw.purge WHERE tenant = 'surface-new';
DROP SERVER surf_real;
SET SESSION AUTHORIZATION surface_app;

-- the key of a call
SELECT mw_cache_key('surface', '[{"role": "user", "content": "I am joe@example.com"}]') ~ '^[0-9a-f]{32}$';
SELECT mw_cache_key('surface', '[{"role": "user", "content": "I am joe@example.com"}]', model => 'surf:m')
	= (SELECT detail ->> 'key' FROM mw_explain('surface', NULL, 'I am ann@example.com', model => 'surf:m') WHERE stage = 'cache');
SELECT mw_cache_key('surface', '[{"role": "user", "content": "a"}]') <> mw_cache_key('surface', '[{"role": "user", "content": "b"}]');
SELECT mw_cache_key(NULL, '[{"role": "user", "content": "a"}]') <> mw_cache_key('surface', '[{"role": "user", "content": "a"}]');
SELECT try($$SELECT mw_cache_key('elsewhere', '[{"role": "user", "content": "a"}]')$$) ~ '^MW101';
SELECT try($$SELECT mw_cache_key('surface', NULL)$$);
SELECT try($$SELECT mw_cache_key('surface', '[]')$$);

RESET SESSION AUTHORIZATION;
DROP FUNCTION try, sent;
REVOKE CREATE ON SCHEMA public FROM surface_app;
SELECT mw_drop_tenant('surface');
SELECT mw_drop_tenant('elsewhere');
DROP SERVER surf;
DROP OWNED BY surface_app;
DROP ROLE surface_app;
