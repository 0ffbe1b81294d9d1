-- Risk: a test double that answers something else than it was told, hides a
-- misspelt script, or leaves something behind when the test rolls back.
\set VERBOSITY sqlstate
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;

CREATE SERVER fake FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE SERVER fake_real FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://127.0.0.1:1/v1');
CREATE ROLE regress_mw_fake;
SELECT mw_create_tenant('fake-t', '{"retry": {"max_attempts": 3, "base": 0.001, "max": 0.002}}');

-- what an error says, on one line
CREATE FUNCTION fake_error(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	m text; d text; h text;
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	RETURN pg_catalog.concat_ws(' | ', SQLSTATE, m, nullif(d, ''), nullif(h, ''));
END
$$;
-- the code alone, for what the retry stage and the adapter word
CREATE FUNCTION fake_code(prompt text, model text = 'fake:m', options jsonb = '{"cache": "off"}') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN mw_ask('fake-t', NULL, prompt, model => fake_code.model, options => fake_code.options);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END
$$;

-- ---------- errors ----------

-- without a script there is no answer, and the error says what to type
SELECT fake_error($$SELECT mw_ask('fake-t', NULL, 'hello', model => 'fake:m', request_id => 'fake-1')$$) LIKE
	'MW001 | fake server "fake" has no script in this session | %SELECT mw_fake(''fake'', %' AS no_script;

SELECT fake_error($$SELECT mw_fake('nowhere', '{}')$$);
SELECT fake_error($$SELECT mw_fake('fake_real', '{}')$$);
SELECT fake_error($$SELECT mw_fake(NULL, '{}')$$);
SELECT fake_error($$SELECT mw_fake(NULL, NULL)$$);
SELECT fake_error($$SELECT mw_fake_requests(NULL)$$);
SELECT fake_error($$SELECT mw_fake_requests('nowhere')$$);
SELECT fake_error($$SELECT mw_fake_requests('fake_real')$$);
SELECT mw_fake('fake', NULL);

-- whoever has no USAGE
SET ROLE regress_mw_fake;
SELECT fake_error($$SELECT mw_fake('fake', '{}')$$);
SELECT fake_error($$SELECT mw_fake_requests('fake')$$);
RESET ROLE;

-- scripts that are none
SELECT s AS script, fake_error(format('SELECT mw_fake(%L, %L)', 'fake', s)) AS error
FROM unnest(ARRAY[
	'null', '1', '"text"',
	'{"m": 1}', '{"m": {"text": "x"}}', '{"m": ["x"]}', '{"m": [{}]}', '{"m": [{"txt": "x"}]}',
	'{"m": [{"text": 1}]}', '{"m": [{"text": "x", "status": 500}]}', '{"m": [{"text": "x", "disconnect": true}]}',
	'{"m": [{"text": "x", "repeat": 0}]}', '{"m": [{"text": "x", "repeat": 1.5}]}', '{"m": [{"text": "x", "delay_ms": -1}]}',
	'{"m": [{"text": "x", "usage": 1}]}', '{"m": [{"text": "x", "usage": true}]}', '{"m": [{"text": "x", "finish_reason": 1}]}',
	'{"m": [{"tool_calls": {}}]}', '{"m": [{"tool_calls": []}]}', '{"m": [{"tool_calls": [1]}]}', '{"m": [{"tool_calls": [{"id": "c"}]}]}',
	'{"m": [{"tool_calls": [{"name": "f", "args": {}}]}]}', '{"m": [{"tool_calls": [{"name": "f", "arguments": {}, "arguments_raw": "{"}]}]}',
	'{"m": [{"status": 99}]}', '{"m": [{"status": "500"}]}', '{"m": [{"status": 429, "retry_after": true}]}',
	'{"m": [{"status": 429, "headers": []}]}', '{"m": [{"status": 429, "headers": {"x": {}}}]}', '{"m": [{"text": "x", "retry_after": 1}]}',
	'{"m": [{"disconnect": false}]}', '{"m": [{"disconnect": "soon"}]}', '{"m": [{"raw": {}}]}',
	'[1]', '[{"match": "x"}]', '[{"match": 1, "step": {"text": "x"}}]', '[{"match": "", "step": {"text": "x"}}]',
	'[{"match": "x", "steps": []}]', '[{"match": "x", "step": [{"text": "x"}]}]'
]) AS s;

-- a script that was refused changes nothing
SELECT mw_fake('fake', '{"*": [{"text": "kept"}]}');
SELECT fake_error($$SELECT mw_fake('fake', '{"m": [{}]}')$$) LIKE 'MW001%' AS refused, fake_code('hello') AS answer;

-- ---------- steps ----------

SELECT mw_fake('fake', '{
	"m": [{"text": "one"}, {"text": "twice", "repeat": 2}, {"text": "ünï ☃ \" \\ \n end"}],
	"fake:full": [{"text": "by its full name"}],
	"*": [{"text": "any", "repeat": 2}]}');
SELECT fake_code('a') AS a, fake_code('b') AS b, fake_code('c') AS c, fake_code('d') AS d;
SELECT fake_code('e') AS exhausted, fake_code('f', 'fake:full') AS own, fake_code('g', 'fake:x') AS g, fake_code('h', 'fake:y') AS h,
	fake_code('i', 'fake:y') AS exhausted_too;

-- rules: the first that holds; texts in the last user message, objects in the request
SELECT mw_fake('fake', '[
	{"match": "invoice", "step": {"text": "about the invoice"}},
	{"match": {"model": "z"}, "step": {"text": "once for z", "repeat": 1}},
	{"match": {"temperature": 0}, "step": {"text": "cold"}},
	{"step": {"text": "else", "repeat": 2}}]');
SELECT fake_code('the invoice') AS a, fake_code('an invoice again') AS b, fake_code('x', 'fake:z') AS c, fake_code('x', 'fake:z') AS d,
	fake_code('x', options => '{"cache": "off", "temperature": 0}') AS e, fake_code('Invoice') AS f, fake_code('x') AS nothing_left;

-- what the provider says is what the retry stage goes by
SELECT mw_fake('fake', '{"m": [{"status": 429, "retry_after": 0}, {"status": 503, "retry_after_ms": 1}, {"text": "third time"}]}');
SELECT fake_code('hello');
SELECT n, model, answered, attempt FROM mw_fake_requests('fake');
SELECT mw_fake('fake', '{"m": [{"disconnect": "connect"}, {"text": "reached"}]}');
SELECT fake_code('hello');
SELECT mw_fake('fake', '{"m": [{"status": 503, "headers": {"X-Should-Retry": "false"}}, {"text": "never"}]}');
SELECT fake_code('hello') AS not_again;
SELECT s AS step, mw_fake('fake', format('{"m": [%s, {"text": "sent again"}]}', s)::jsonb), fake_code('hello', options => '{"cache": "off", "timeout": 0.05}')
FROM unnest(ARRAY[
	'{"status": 400}', '{"status": 401}', '{"status": 418, "body": "a teapot"}', '{"status": 429, "retry_after": 3600}',
	'{"disconnect": true}', '{"disconnect": "mid_stream"}', '{"raw": "no json"}', '{"raw": ""}', '{"raw": "{\"choices\": []}"}',
	'{"text": "too late", "delay_ms": 500}', '{"text": "in time", "delay_ms": 5}'
]) AS s;

-- what is said of them: sentences with one stop each, no hint about a key or an address that a fake does not have
\pset format unaligned
SELECT s AS step, mw_fake('fake', format('{"m": [%s]}', s)::jsonb),
	regexp_replace(fake_error(format($$SELECT mw_ask('fake-t', NULL, 'said', model => 'fake:m', options => '{"cache": "off", "timeout": %s}')$$,
		CASE WHEN s ~ 'delay' THEN '0.05' ELSE '20' END)), '\nrequest_id: \S+', '') AS error
FROM unnest(ARRAY[
	'{"status": 401, "body": {"error": {"message": "who are you?"}}}', '{"status": 404, "body": {"error": {"message": "no such model"}}}',
	'{"status": 429, "body": {"error": {"message": "slow down."}}, "repeat": 3}', '{"status": 503, "body": "busy", "repeat": 3}',
	'{"status": 429, "retry_after": 3600}', '{"disconnect": "connect", "repeat": 3}', '{"disconnect": true}',
	'{"text": "too late", "delay_ms": 500}', '{"raw": "the model said hush"}', '{"raw": "data: hush"}', '{"raw": "{\"choices\": []}"}'
]) AS s;
\pset format aligned
SELECT outcome, http_status, error FROM mw.ledger WHERE tenant = 'fake-t' AND error ~ 'hush';

-- tool calls, their ids counted; the run ends for the application to run them
SELECT mw_fake('fake', '{"m": [{"tool_calls": [{"name": "lookup", "arguments": {"id": 1}}, {"id": "mine", "name": "lookup", "arguments": {}}]}]}');
SELECT r->>'status' AS status, jsonb_path_query_array(r, '$.tool_calls[*].id') AS ids, jsonb_path_query_array(r, '$.tool_calls[*].name') AS names,
	r->'tool_calls'->0->'args' AS args
FROM mw_invoke('fake-t', NULL, 'look it up', tools => '[{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}]', model => 'fake:m') AS r;

-- ---------- usage: as said, derived, or counted by ourselves ----------

SELECT mw_fake('fake', '{"m": [
	{"text": "x", "usage": {"prompt_tokens": 100, "completion_tokens": 20}},
	{"text": "12345678"},
	{"text": "x", "usage": false}]}');
SELECT mw_ask('fake-t', 'fake-usage', 'q', model => 'fake:m', options => '{"cache": "off"}') FROM generate_series(1, 3);
SELECT output_tokens, billed_tokens = input_tokens + output_tokens AS billed, input_tokens > 4 AS with_prompt FROM mw.ledger
WHERE tenant = 'fake-t' AND session = 'fake-usage' AND NOT estimated ORDER BY started_at;
SELECT count(*) AS estimated, bool_and(billed_tokens > 0) AS not_free FROM mw.ledger
WHERE tenant = 'fake-t' AND session = 'fake-usage' AND estimated;
SELECT s.tokens = (SELECT sum(billed_tokens) FROM mw.ledger WHERE tenant = 'fake-t' AND session = 'fake-usage') AS adds_up
FROM mw.fake_spent AS s WHERE tenant = 'fake-t' AND session = 'fake-usage';

-- ---------- undone with its transaction, and with its savepoint ----------

CREATE VIEW fake_left AS
SELECT (SELECT count(*) FROM mw.fake_attempt) AS attempts, (SELECT count(*) FROM mw.fake_answer) AS answers,
	(SELECT count(*) FROM mw.fake_cache) AS cached, (SELECT COALESCE(sum(requests), 0) FROM mw.fake_spent) AS requests;
SELECT mw_fake('fake', '{"*": [{"text": "1"}, {"text": "2"}, {"text": "3"}, {"text": "4"}]}');
CREATE TEMP TABLE fake_before AS TABLE fake_left;
BEGIN;
SELECT mw_ask('fake-t', 'fake-s', 'a', model => 'fake:m', request_id => 'fake-2');
SAVEPOINT one;
SELECT mw_ask('fake-t', 'fake-s', 'b', model => 'fake:m');
SAVEPOINT two;
SELECT mw_ask('fake-t', 'fake-s', 'c', model => 'fake:m');
RELEASE two;
SELECT count(*) FROM mw_fake_requests('fake');
ROLLBACK TO one;
SELECT count(*) FROM mw_fake_requests('fake');
SELECT mw_ask('fake-t', 'fake-s', 'd', model => 'fake:m') AS second_again;
SAVEPOINT three;
SELECT mw_fake('fake', '{"*": [{"text": "another script"}]}');
SELECT mw_ask('fake-t', 'fake-s', 'e', model => 'fake:m');
SELECT n, answered FROM mw_fake_requests('fake');
ROLLBACK TO three;
SELECT mw_ask('fake-t', 'fake-s', 'f', model => 'fake:m') AS third;
SELECT count(*) FROM mw_fake_requests('fake');
ROLLBACK;
SELECT count(*) FROM mw_fake_requests('fake');
SELECT count(*) = 1 AS nothing_left FROM (TABLE fake_left INTERSECT TABLE fake_before) AS same;
SELECT mw_ask('fake-t', 'fake-s', 'a', model => 'fake:m') AS first_again;
BEGIN;
SELECT mw_fake('fake', NULL);
ROLLBACK;
SELECT mw_ask('fake-t', 'fake-s', 'g', model => 'fake:m') AS still_there;

-- ---------- whose requests are shown ----------

SELECT mw_create_tenant('fake-u');
SELECT mw_grant_tenant('fake-u', 'regress_mw_fake');
GRANT USAGE ON FOREIGN SERVER fake TO regress_mw_fake;
SELECT mw_fake('fake', '{"*": [{"text": "for t"}, {"text": "for u"}]}');
SELECT mw_ask('fake-t', NULL, 'mine', model => 'fake:m');
SET ROLE regress_mw_fake;
SELECT mw_ask('fake-u', NULL, 'yours', model => 'fake:m');
SELECT n, tenant, answered FROM mw_fake_requests('fake');
RESET ROLE;
SELECT n, tenant, session, answered, call, attempt, body->'messages'->-1->>'role' AS role FROM mw_fake_requests('fake');

-- a delay is interruptible, and what was cancelled left nothing
SELECT mw_fake('fake', '{"*": [{"text": "slow", "delay_ms": 60000}]}');
SET statement_timeout = '100ms';
SELECT fake_error($$SELECT mw_ask('fake-t', NULL, 'slow', model => 'fake:m')$$);
RESET statement_timeout;
SELECT count(*) FROM mw_fake_requests('fake');

SELECT mw_drop_tenant('fake-t');
SELECT mw_drop_tenant('fake-u');
DROP VIEW fake_left;
DROP FUNCTION fake_error(text), fake_code(text, text, jsonb);
DROP SERVER fake;
DROP SERVER fake_real;
DROP ROLE regress_mw_fake;
