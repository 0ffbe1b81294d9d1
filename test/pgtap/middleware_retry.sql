-- Risk: something is tried again that must not be, or not as often as was said; a further try is answered from the cache, finds what
-- the last one wrote, or is multiplied by the stage's own; a failure becomes an answer although its owner wanted the error.
BEGIN;
SELECT plan(79);

CREATE SERVER pgtap_one FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-re', '{"cache": false, "retry": {"max_attempts": 3, "base": 0.001, "max": 0.002}, "breaker": false}');
CREATE SCHEMA re;
CREATE SEQUENCE re.calls;
CREATE TABLE re.wrote (what text PRIMARY KEY);

-- fails in its first n calls, with that SQLSTATE
CREATE FUNCTION re.flaky(n integer, code text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO re.wrote VALUES ('flaky');
	IF pg_catalog.nextval('re.calls') <= n THEN
		RAISE EXCEPTION USING ERRCODE = code, MESSAGE = 'try later', DETAIL = 'a disk is full';
	END IF;
	RETURN 'at last';
END $$;
SELECT mw_create_tool('flaky', 're.flaky(integer, text)', 'Fails.', options => '{"writes": true}', tenant => 'pgtap-re');

CREATE FUNCTION pg_temp.agent(name text, middleware jsonb) RETURNS void LANGUAGE sql AS $$
	SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_one:m', 'tools', '["flaky"]'::jsonb, 'middleware', middleware), 'pgtap-re') $$;
CREATE FUNCTION pg_temp.refused(middleware jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text; h text;
BEGIN
	PERFORM pg_temp.agent('refused', middleware);
	RETURN 'created';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE, h = PG_EXCEPTION_HINT;
	RETURN s || ' ' || m || ' | ' || h;
END $$;
-- one run of an agent made of one middleware: its output, or what it failed with
CREATE FUNCTION pg_temp.outcome(result jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce((result->'error'->>'sqlstate') || ' ' || (result->'error'->>'message'), result->>'output') $$;
CREATE FUNCTION pg_temp.model(conf jsonb, script jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE its text := 'a' || pg_catalog.md5(conf::text || script::text);
BEGIN
	PERFORM mw_fake('pgtap_one', jsonb_build_object('m', script));
	PERFORM pg_temp.agent(its, jsonb_build_array('{"type": "model_retry", "initial_delay": 0.001, "jitter": false}'::jsonb || conf));
	RETURN pg_temp.outcome(mw_invoke('pgtap-re', its, 'go', agent => its, options => '{"on_error": "return"}'));
END $$;
-- the same of a tool that fails so many times; the tool's result where there is one
CREATE FUNCTION pg_temp.tool(conf jsonb, fails integer, code text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE its text := 't' || pg_catalog.md5(conf::text || fails::text || code); said text;
BEGIN
	PERFORM setval('re.calls', 1, false);
	DELETE FROM re.wrote;
	PERFORM mw_fake('pgtap_one', jsonb_build_object('m', jsonb_build_array(
		jsonb_build_object('tool_calls', jsonb_build_array(jsonb_build_object('id', 'c1', 'name', 'flaky', 'arguments', jsonb_build_object('n', fails, 'code', code)))),
		'{"text": "done"}'::jsonb)));
	PERFORM pg_temp.agent(its, jsonb_build_array('{"type": "tool_retry", "initial_delay": 0.001, "jitter": false}'::jsonb || conf));
	said := pg_temp.outcome(mw_invoke('pgtap-re', its, 'go', agent => its, options => '{"on_error": "return"}'));
	RETURN coalesce((SELECT content #>> '{}' FROM mw.message WHERE tenant = 'pgtap-re' AND session = its AND tool_call_id = 'c1'), said);
EXCEPTION WHEN OTHERS THEN
	RETURN 'not returned: ' || SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION pg_temp.tries() RETURNS bigint LANGUAGE sql AS $$ SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM re.calls $$;
CREATE FUNCTION pg_temp.sent() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw_fake_requests('pgtap_one') $$;
CREATE FUNCTION pg_temp.times(step jsonb, n integer) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_build_array(step || jsonb_build_object('repeat', n), '{"text": "ok"}'::jsonb) $$;

-- ---------- what is refused ----------

SELECT matches(pg_temp.refused('[{"type": "model_retry", "max_retries": -1}]'), '^MW001 option "max_retries" .* a whole number from 0 .*Options of model_retry: backoff_factor, initial_delay', 'fewer than none');
SELECT matches(pg_temp.refused('[{"type": "tool_retry", "initial_delay": -0.5}]'), '^MW001 option "initial_delay" .* a number from 0 ', 'a wait before now');
SELECT matches(pg_temp.refused('[{"type": "tool_retry", "max_delay": "60"}]'), '^MW001 option "max_delay" ', 'a text');
SELECT matches(pg_temp.refused('[{"type": "model_retry", "backoff_factor": -1}]'), '^MW001 option "backoff_factor" ', 'a negative factor');
SELECT matches(pg_temp.refused('[{"type": "model_retry", "jitter": 1}]'), '^MW001 option "jitter" .* true or false ', 'a number for a truth');
SELECT matches(pg_temp.refused('[{"type": "model_retry", "on_failure": "raise it"}]'), '^MW001 option "on_failure" .* continue, error', 'an unknown end');
SELECT matches(pg_temp.refused('[{"type": "model_retry", "on_failure": {"text": "x"}}]'), '^MW001 .*"text".*message', 'a message by another name');
SELECT matches(pg_temp.refused('[{"type": "model_retry", "retry_on": "sometimes"}]'), '^MW001 option "retry_on" .* never, always', 'an unknown word');
SELECT matches(pg_temp.refused('[{"type": "model_retry", "retry_on": {"status": [99]}}]'), '^MW001 option "status" .* from 100 to 599', 'no status');
SELECT matches(pg_temp.refused('[{"type": "tool_retry", "retry_on": {"names": ["TimeoutError"]}}]'), '^MW001 option "retry_on" .* condition names.*"TimeoutError" is neither', 'a class of Python''s');
SELECT matches(pg_temp.refused('[{"type": "tool_retry", "retry_on": {}}]'), '^MW001 option "retry_on" ', 'nothing to match');
SELECT matches(pg_temp.refused('[{"type": "tool_retry", "retry_on": {"codes": ["57014"]}}]'), '^MW001 .*"codes".*message_contains, names, status', 'an unknown member');
SELECT matches(pg_temp.refused('[{"type": "tool_retry", "retry_on": {"function": "re.none"}}]'), '^MW001 .*function.*schema.name\(jsonb, jsonb\)', 'a function that there is not');
SELECT matches(pg_temp.refused('[{"type": "model_retry", "tools": ["flaky"]}]'), '^MW001 .*"tools"', 'tools of a model');

-- ---------- model_retry ----------

SELECT is(pg_temp.model('{}', pg_temp.times('{"status": 429}', 2)), 'ok', 'two failures are survived');
SELECT is(pg_temp.sent(), 3::bigint, 'with one request a try: the stage''s own retries do not multiply it');
SELECT is((SELECT string_agg(call || '.' || attempt, ' ' ORDER BY n) FROM mw_fake_requests('pgtap_one')), '1.1 2.1 3.1', 'each a call of its own');
SELECT is(pg_temp.model('{}', pg_temp.times('{"status": 503}', 9)), 'Model call failed after 3 attempts with MW402: server "pgtap_one" failed with status 503', 'three are not');
SELECT is(pg_temp.sent(), 3::bigint, 'no more than max_retries further ones');
SELECT is(pg_temp.model('{"max_retries": 0}', pg_temp.times('{"status": 503}', 9)), 'Model call failed after 1 attempt with MW402: server "pgtap_one" failed with status 503', 'none at all');
SELECT is(pg_temp.model('{"on_failure": "error"}', pg_temp.times('{"status": 503}', 9)), 'MW402 server "pgtap_one" failed with status 503', 'the error, if that is wanted');
SELECT is(pg_temp.model('{"on_failure": {"message": "Out of order ({error}), {tool}"}}', pg_temp.times('{"status": 503}', 9)),
	'Out of order (server "pgtap_one" failed with status 503), {tool}', 'a text of one''s own, in which a model has no tool');

SELECT is(pg_temp.model('{}', pg_temp.times(jsonb_build_object('status', s), 1)), 'ok', s || ' is tried again')
	FROM unnest(ARRAY[408, 409, 413, 422, 429, 500, 529]) AS s;
SELECT matches(pg_temp.model('{}', pg_temp.times(jsonb_build_object('status', s), 1)), '^MW401 .* ' || s, s || ' leaves at once, as an error')
	FROM unnest(ARRAY[400, 401, 403, 404]) AS s;
SELECT is(pg_temp.sent(), 1::bigint, 'after one request');
SELECT is(pg_temp.model('{}', pg_temp.times('{"disconnect": true}', 1)), 'ok', 'a connection that broke is tried again, as LangChain does');
SELECT is(pg_temp.model('{}', pg_temp.times('{"disconnect": "connect"}', 1)), 'ok', 'one that was never made, too');
SELECT is(pg_temp.model('{}', pg_temp.times('{"raw": "no json"}', 1)), 'ok', 'and an answer that cannot be used');

SELECT is(pg_temp.model('{"retry_on": {"status": [503]}}', '[{"status": 503}, {"status": 500}, {"text": "ok"}]'), 'MW402 server "pgtap_one" failed with status 500', 'a status that is not listed leaves at once');
SELECT is(pg_temp.model('{"retry_on": {"status": [400]}}', pg_temp.times('{"status": 400}', 1)), 'ok', 'one that is, is tried again');
SELECT is(pg_temp.model('{"retry_on": {"status": [429], "names": ["MW401"]}}', pg_temp.times('{"status": 404}', 1)), 'ok', 'one member is enough');
SELECT is(pg_temp.model('{"retry_on": ["MW401"]}', pg_temp.times('{"status": 404}', 1)), 'ok', 'a list is one of names');
SELECT is(pg_temp.model('{"retry_on": {"message_contains": "overloaded"}}', pg_temp.times('{"status": 400, "body": {"error": {"message": "The engine is overloaded."}}}', 1)), 'ok', 'the provider''s words are looked into');
SELECT matches(pg_temp.model('{"retry_on": "never"}', pg_temp.times('{"status": 503}', 1)), '^MW402 ', 'never');
SELECT is(pg_temp.model('{"retry_on": "always"}', pg_temp.times('{"status": 400}', 2)), 'ok', 'always');

-- what mw refuses itself is no better the next time
SELECT mw_set_budget('pgtap-re', 'requests', 0, session => '*');
SELECT matches(pg_temp.model('{}', '[{"text": "not sent"}]'), '^MW301 ', 'a budget is not tried again');
SELECT mw_set_budget('pgtap-re', 'requests', 'Infinity', session => '*');

-- functions
CREATE FUNCTION re.only_503(error jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT pg_catalog.to_jsonb((error->>'status')::integer = 503) $$;
CREATE FUNCTION re.says(error jsonb, runtime jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT pg_catalog.format('%s %s %s', error->>'sqlstate', error->>'status', coalesce(error->'tool_call'->>'name', runtime->>'tenant')) WHERE error->>'status' IS DISTINCT FROM '529' $$;
CREATE FUNCTION re.breaks(error jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"a": 1}'::jsonb $$;
SELECT is(pg_temp.model('{"retry_on": {"function": "re.only_503"}}', '[{"status": 503}, {"text": "ok"}]'), 'ok', 'a function says yes');
SELECT is(pg_temp.model('{"retry_on": {"function": "re.only_503"}}', '[{"status": 500}, {"text": "ok"}]'), 'MW402 server "pgtap_one" failed with status 500', 'and no');
SELECT is(pg_temp.model('{"on_failure": {"function": "re.says"}}', pg_temp.times('{"status": 503}', 9)), 'MW402 503 pgtap-re', 'a function has the words');
SELECT matches(pg_temp.model('{"on_failure": {"function": "re.says"}}', pg_temp.times('{"status": 529}', 9)), '^MW402 .* 529$', 'NULL lets the error go on');
SELECT matches(pg_temp.model('{"on_failure": {"function": "re.breaks"}}', pg_temp.times('{"status": 503}', 9)), '^MW702 ', 'something else than a text is the function''s fault');

-- a provider that asks to wait longer than anybody does is not waited for
SELECT matches(pg_temp.model('{}', pg_temp.times('{"status": 429, "retry_after": 3600}', 9)), '^Model call failed after 1 attempt with MW402', 'an hour is too long to wait for');
SELECT is(pg_temp.model('{}', pg_temp.times('{"status": 429, "retry_after_ms": 20}', 1)), 'ok', 'a moment is not');

-- nor is a run kept beyond its time
SELECT mw_fake('pgtap_one', '{"m": [{"status": 503, "repeat": 9}]}');
SELECT pg_temp.agent('no-time', '[{"type": "model_retry", "initial_delay": 600, "max_delay": 600}]');
SELECT matches(mw_ask('pgtap-re', 'w', 'go', agent => 'no-time', options => '{"limits": {"wall": 60}}'), '^Model call failed after 1 attempt with', 'a wait that the run has no time for is not begun');
SELECT is(pg_temp.sent(), 1::bigint, 'and nothing sent after it');

-- the thread goes on after an answer that was made up; a further try does not read the cache
SELECT mw_fake('pgtap_one', '{"m": [{"status": 503, "repeat": 3}, {"text": "back"}]}');
SELECT pg_temp.agent('goes-on', '[{"type": "model_retry", "initial_delay": 0.001}]');
SELECT matches(mw_ask('pgtap-re', 'g', 'a', agent => 'goes-on'), '^Model call failed after 3 attempts', 'with jitter');
SELECT is(mw_ask('pgtap-re', 'g', 'b', agent => 'goes-on'), 'back', 'the next turn has that in its thread');

-- ---------- tool_retry ----------

SELECT is(pg_temp.tool('{}', 2, '57P05'), 'at last', 'two failures of a tool are survived');
SELECT is((SELECT count(*) FROM re.wrote), 1::bigint, 'what failed tries wrote is undone: the last one finds nothing of it');
SELECT is(pg_temp.tries(), 3::bigint, 'in three tries');
SELECT is(pg_temp.tool('{}', 9, '23505'), 'Tool ''flaky'' failed after 3 attempts with unique_violation: try later. Please try again.', 'three are not, and the model reads why');
SELECT is(pg_temp.tool('{}', 9, 'QQ001'), 'Tool ''flaky'' failed after 3 attempts with QQ001: try later. Please try again.', 'an error without a name has its code');
SELECT is(pg_temp.tool('{"max_retries": 0}', 9, 'P0001'), 'Tool ''flaky'' failed after 1 attempt with raise_exception: try later. Please try again.', 'none at all');
SELECT matches(pg_temp.tool('{"on_failure": "error"}', 9, 'P0001'), '^MW701 ', 'an error of the tool''s leaves the run as one');
SELECT matches(pg_temp.tool('{"on_failure": "raise"}', 9, 'P0001'), '^MW701 ', 'also by the older word');
SELECT matches(pg_temp.tool('{"on_failure": "return_message"}', 9, 'P0001'), '^Tool ''flaky'' failed', 'and the other one');
SELECT is(pg_temp.tool('{"on_failure": {"message": "{tool}: {error}"}}', 9, 'P0001'), 'flaky: try later', 'a text of one''s own');
SELECT is(pg_temp.tool('{"on_failure": {"function": "re.says"}}', 9, 'P0001'), 'P0001  flaky', 'a function that is told of which tool');
SELECT is(pg_temp.tool('{"retry_on": ["connection_exception"]}', 1, '08006'), 'at last', 'a class covers its codes');
SELECT is(pg_temp.tool('{"retry_on": ["08006"]}', 1, '08006'), 'at last', 'a code is a name');
SELECT matches(pg_temp.tool('{"retry_on": ["08006"]}', 1, '08003'), '^MW701 ', 'and no other one''s');
SELECT is(pg_temp.tries(), 1::bigint, 'which is not tried again');
SELECT is(pg_temp.tool('{"retry_on": {"names": ["string_data_right_truncation"]}}', 1, '22001'), 'at last', 'a name that two codes share');
SELECT is(pg_temp.tool('{"retry_on": {"message_contains": "disk"}}', 1, 'P0001'), 'at last', 'by a word of the detail');
SELECT matches(pg_temp.tool('{"tools": []}', 1, 'P0001'), '^MW701 ', 'a list without tools is for none');
SELECT is(pg_temp.tool('{"tools": ["flaky"]}', 1, 'P0001'), 'at last', 'one with it is for it');
SELECT is(pg_temp.tool('{}', 1, '40001'), 'not returned: 40001 try later', 'what only another transaction can mend is not tried again');
SELECT is(pg_temp.tries(), 1::bigint, 'not once');

-- a cancel inside a tool is no error of the tool's
CREATE FUNCTION re.cancelled() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_catalog.nextval('re.calls');
	PERFORM pg_catalog.pg_cancel_backend(pg_catalog.pg_backend_pid());
	PERFORM pg_catalog.pg_sleep(5);
	RETURN 'slept';
END $$;
SELECT mw_create_tool('cancelled', 're.cancelled()', 'Is cancelled.', options => '{"writes": true}', tenant => 'pgtap-re');
SELECT mw_create_agent('cancelled', '{"model": "pgtap_one:m", "tools": ["cancelled"], "middleware": [
	{"type": "tool_error", "on_error": {"message": "{error}"}}, {"type": "tool_retry", "retry_on": "always", "initial_delay": 0, "on_failure": "continue"}]}', 'pgtap-re');
SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "cancelled", "arguments": {}}]}, {"text": "went on"}]}');
SELECT setval('re.calls', 1, false);
CREATE FUNCTION pg_temp.cancelled() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN mw_ask('pgtap-re', 'c', 'go', agent => 'cancelled', options => '{"on_error": "return"}');
EXCEPTION WHEN query_canceled THEN
	RETURN 'cancelled';
END $$;
SELECT is(pg_temp.cancelled(), 'cancelled', 'a cancel ends the run as one, whatever stands around the tool');
SELECT is(pg_temp.tries(), 1::bigint, 'at the first try');

SELECT * FROM finish();
ROLLBACK;
