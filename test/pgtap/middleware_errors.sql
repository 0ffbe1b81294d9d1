-- Risk: an error that nobody wanted shown reaches the model, one that was to be told ends the run, a fallback asks models that it must not
-- or in another order, a guard stops what makes progress or lets go on what does not.
BEGIN;
SELECT plan(47);

CREATE SERVER pgtap_one FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE SERVER pgtap_two FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-er', '{"cache": false, "retry": {"max_attempts": 1}, "breaker": false}');
CREATE SCHEMA er;
CREATE FUNCTION er.lookup(id text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF id = 'ok' THEN
		RETURN 'found';
	END IF;
	RAISE EXCEPTION USING ERRCODE = id, MESSAGE = 'db down at ' || pg_catalog.clock_timestamp();
END $$;
CREATE FUNCTION er.other(id text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'mail of alice@acme.com'; END $$;
SELECT mw_create_tool('lookup', 'er.lookup(text)', 'Look up.', tenant => 'pgtap-er');
SELECT mw_create_tool('other', 'er.other(text)', 'Another.', tenant => 'pgtap-er');

CREATE FUNCTION pg_temp.agent(name text, middleware jsonb) RETURNS void LANGUAGE sql AS $$
	SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_one:m', 'tools', '["lookup", "other"]'::jsonb, 'middleware', middleware), 'pgtap-er') $$;
CREATE FUNCTION pg_temp.refused(middleware jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text; h text;
BEGIN
	PERFORM pg_temp.agent('refused', middleware);
	RETURN 'created';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE, h = PG_EXCEPTION_HINT;
	RETURN s || ' ' || m || ' | ' || h;
END $$;
-- one run with these middlewares: results of tools and the output, or what it failed with
CREATE FUNCTION pg_temp.run(middleware jsonb, script jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE its text := 'a' || pg_catalog.md5(middleware::text || script::text); r jsonb;
BEGIN
	PERFORM mw_fake('pgtap_one', script);
	PERFORM pg_temp.agent(its, middleware);
	r := mw_invoke('pgtap-er', its, 'go', agent => its, options => '{"on_error": "return"}');
	IF r ? 'error' THEN
		RETURN (r->'error'->>'sqlstate') || ' ' || (r->'error'->>'message');
	END IF;
	RETURN coalesce((SELECT string_agg(mw_text(m) || ' (' || (m->>'status') || ')', ', ' ORDER BY n) || ', '
		FROM jsonb_array_elements(r->'messages') WITH ORDINALITY AS t(m, n) WHERE m->>'role' = 'tool'), '') || (r->>'output');
END $$;
CREATE FUNCTION pg_temp.calls(VARIADIC ids text[]) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('m', jsonb_agg(jsonb_build_object('tool_calls', jsonb_build_array(jsonb_build_object('id', 'c' || n, 'name', 'lookup', 'arguments', jsonb_build_object('id', id)))) ORDER BY n)
		|| '[{"text": "done"}]')
	FROM unnest(ids) WITH ORDINALITY AS t(id, n) $$;

-- ---------- tool_error ----------

SELECT matches(pg_temp.refused('[{"type": "tool_error"}]'), '^MW001 option "on_error" .*message.*by_name.*function.*Options of tool_error: aon_error, on_error, tools', 'a handler is needed');
SELECT matches(pg_temp.refused('[{"type": "tool_error", "on_error": "continue"}]'), '^MW001 option "on_error" ', 'which is no word');
SELECT matches(pg_temp.refused('[{"type": "tool_error", "on_error": {"message": "x", "by_name": {"P0001": "y"}}}]'), '^MW001 option "on_error" ', 'nor two at once');
SELECT matches(pg_temp.refused('[{"type": "tool_error", "on_error": {"by_name": {"ValueError": "y"}}}]'), '^MW001 option "on_error" .*"ValueError" is neither', 'nor for a class of Python''s');
SELECT matches(pg_temp.refused('[{"type": "tool_error", "on_error": {"by_name": {}}}]'), '^MW001 option "on_error" ', 'nor for nothing');
SELECT matches(pg_temp.refused('[{"type": "tool_error", "on_error": {"message": "x"}, "retries": 2}]'), '^MW001 .*"retries"', 'it does not retry');

SELECT matches(pg_temp.run('[{"type": "tool_error", "on_error": {"message": "{tool} failed: {error}"}}]', pg_temp.calls('P0001', 'ok')),
	'^lookup failed: db down at .* \(error\), found \(success\), done$', 'an error is told, and the run goes on');
SELECT is(pg_temp.run('[{"type": "tool_error", "on_error": {"message": "Unavailable."}}]', pg_temp.calls('P0001')), 'Unavailable. (error), done', 'or only that there was one');
SELECT is(pg_temp.run('[{"type": "tool_error", "on_error": {"by_name": {"data_exception": "Wrong.", "division_by_zero": "By zero.", "23505": "Twice."}}}]', pg_temp.calls('22012', '22001', '23505')),
	'By zero. (error), Wrong. (error), Twice. (error), done', 'the code itself wins over its class');
SELECT matches(pg_temp.run('[{"type": "tool_error", "on_error": {"by_name": {"23505": "Twice."}}}]', pg_temp.calls('22012')), '^MW701 ', 'an error without words leaves the run');
SELECT matches(pg_temp.run('[{"type": "tool_error", "on_error": {"message": "Unavailable."}, "tools": ["other"]}]', pg_temp.calls('P0001')), '^MW701 ', 'one of another tool, too');
SELECT is(pg_temp.run('[{"type": "tool_error", "aon_error": {"message": "Unavailable."}}]', pg_temp.calls('P0001')), 'Unavailable. (error), done', 'aon_error stands in');
SELECT is(pg_temp.run('[{"type": "tool_error", "on_error": {"message": "On {error}"}}]', '{"m": [{"tool_calls": [{"id": "c1", "name": "teleport", "arguments": {}}]}, {"text": "no"}]}'),
	'Error: teleport is not a valid tool, try one of [lookup, other]. (error), no', 'a name that no tool has never gets here');
SELECT is(pg_temp.run('[{"type": "tool_error", "on_error": {"message": "Said: {error}"}}, {"type": "tool_retry", "max_retries": 1, "initial_delay": 0, "on_failure": "error"}]', pg_temp.calls('P0001')) ~ '^Said: db down', true,
	'around a retry it gets the last error');
SELECT is(pg_temp.run('[{"type": "tool_error", "on_error": {"message": "Said: {error}"}}]', '{"m": [{"tool_calls": [{"id": "c1", "name": "other", "arguments": {"id": "x"}}]}, {"text": "no"}]}'),
	'Said: mail of alice@acme.com (error), no', 'its caller reads it');
SELECT is((SELECT string_agg(m->>'content', '') FROM mw_fake_requests('pgtap_one'), jsonb_array_elements(body->'messages') AS m WHERE m->>'role' = 'tool'),
	'Said: mail of <EMAIL_0>', 'but no personal data of an error leaves');
SELECT is((SELECT count(*) FROM mw.message WHERE tenant = 'pgtap-er' AND content::text LIKE '%alice@%'), 0::bigint, 'nor is it kept');

CREATE FUNCTION er.words(error jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE error->>'condition'
		WHEN 'unique_violation' THEN pg_catalog.to_jsonb((error->'tool_call'->>'name') || ' ' || (error->'tool_call'->'args'->>'id') || ' ' || (runtime->>'tenant'))
		WHEN 'division_by_zero' THEN '[{"type": "text", "text": "in"}, {"type": "text", "text": "parts"}]'
		WHEN 'raise_exception' THEN pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('type', 'text', 'text', error->>'message'))
		WHEN 'invalid_text_representation' THEN '{"a": 1}' END $$;
SELECT is(pg_temp.run('[{"type": "tool_error", "on_error": {"function": "er.words"}}]', pg_temp.calls('23505')), 'lookup 23505 pgtap-er (error), done', 'a function has the words');
SELECT matches(pg_temp.run('[{"type": "tool_error", "on_error": {"function": "er.words"}}]', pg_temp.calls('22012')), 'in.*parts.* \(error\), done$', 'or content parts');
SELECT is(pg_temp.run('[{"type": "tool_error", "on_error": {"function": "er.words"}}]', '{"m": [{"tool_calls": [{"id": "c1", "name": "other", "arguments": {"id": "x"}}]}, {"text": "no"}]}'),
	'mail of alice@acme.com (error), no', 'which its caller reads');
SELECT is((SELECT count(*) FROM mw.message WHERE tenant = 'pgtap-er' AND content::text LIKE '%alice@%'), 0::bigint, 'without personal data in the thread');
SELECT matches(pg_temp.run('[{"type": "tool_error", "on_error": {"function": "er.words"}}]', pg_temp.calls('22001')), '^MW701 ', 'NULL lets the error go on');
SELECT matches(pg_temp.run('[{"type": "tool_error", "on_error": {"function": "er.words"}}]', pg_temp.calls('22P02')), '^MW702 ', 'something else is the function''s fault');

-- ---------- model_fallback ----------

SELECT matches(pg_temp.refused('[{"type": "model_fallback"}]'), '^MW001 option "models" .* at least one model .*Options of model_fallback: except_status, models', 'somebody to ask is needed');
SELECT matches(pg_temp.refused('[{"type": "model_fallback", "models": ["gpt"]}]'), '^MW001 option "models" .*server:model', 'with its server');
SELECT matches(pg_temp.refused('[{"type": "model_fallback", "models": ["pgtap_none:m"]}]'), '^MW001 .*pgtap_none', 'which exists');
SELECT matches(pg_temp.refused('[{"type": "model_fallback", "models": [{"model": "pgtap_two:b", "settings": {}}]}]'), '^MW001 .*"settings"', 'an unknown member');
SELECT matches(pg_temp.refused('[{"type": "model_fallback", "models": ["pgtap_two:b"], "except_status": [40]}]'), '^MW001 option "except_status" ', 'no status');

SELECT mw_fake('pgtap_two', '{"b": [{"text": "from b", "repeat": 99}], "c": [{"status": 503, "repeat": 99}]}');
SELECT is(pg_temp.run('[{"type": "model_fallback", "models": ["pgtap_two:c", "pgtap_two:b"]}]', '{"m": [{"status": 500}, {"text": "m again"}]}'), 'from b', 'the models are asked in order');
SELECT is((SELECT string_agg(model || ' ' || call || '.' || attempt, ', ' ORDER BY n) FROM mw_fake_requests('pgtap_two')), 'pgtap_two:c 2.1, pgtap_two:b 3.1', 'each once');
SELECT is(pg_temp.run(format('[{"type": "model_fallback", "models": ["pgtap_two:b"], "name": "after %s"}]', s)::jsonb, format('{"m": [{"status": %s}]}', s)::jsonb), 'from b', 'after ' || s || ', as LangChain does')
	FROM unnest(ARRAY[400, 401, 403, 429]) AS s;
SELECT matches(pg_temp.run('[{"type": "model_fallback", "models": ["pgtap_two:b"], "except_status": [400, 401, 403]}]', '{"m": [{"status": 401}]}'), '^MW401 ', 'but not where that is said');
SELECT is(pg_temp.run('[{"type": "model_fallback", "models": ["pgtap_two:b"]}]', '{"m": [{"disconnect": true}]}'), 'from b', 'after a broken connection');
SELECT is(pg_temp.run('[{"type": "model_fallback", "models": ["pgtap_two:b"]}]', '{"m": [{"raw": "x"}]}'), 'from b', 'after an answer that cannot be used');
SELECT is(pg_temp.run('[{"type": "model_fallback", "models": ["pgtap_two:c"]}]', '{"m": [{"status": 500}]}'), 'MW402 server "pgtap_two" failed with status 503', 'when all fail, the last error is raised');
SELECT matches(pg_temp.run('[{"type": "model_fallback", "models": ["pgtap_two:b"]}, {"type": "model_retry", "max_retries": 1, "initial_delay": 0}]', '{"m": [{"status": 500, "repeat": 9}]}'),
	'^Model call failed after 2 attempts', 'a retry inside that makes up an answer leaves nothing to fall back from');
SELECT mw_fake('pgtap_two', '{"b": [{"text": "from b", "repeat": 99}]}');
SELECT is(pg_temp.run('[{"type": "model_fallback", "models": [{"model": "pgtap_two:b", "model_settings": {"temperature": 0, "max_tokens": 77}}]}]', '{"m": [{"status": 500}]}'), 'from b', 'with settings of its own');
SELECT is((SELECT body->'temperature' || (body->'max_tokens') FROM mw_fake_requests('pgtap_two')), '[0, 77]', 'which are sent');

-- ---------- progress_guard ----------

SELECT matches(pg_temp.refused('[{"type": "progress_guard", "max_consecutive_identical_steps": 1}]'), '^MW001 option "max_consecutive_identical_steps" .* from 2 ', 'once is no loop');
SELECT matches(pg_temp.refused('[{"type": "progress_guard", "output_normalizer": "trim"}]'), '^MW001 option "output_normalizer" ', 'a normalizer is a function');
CREATE FUNCTION er.no_times(result jsonb, runtime jsonb) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(result->>'content', ' at .*', '') $$;
SELECT is(pg_temp.run('[{"type": "progress_guard", "max_consecutive_identical_steps": 2, "catch_tool_exceptions": true, "output_normalizer": {"function": "er.no_times"}}]', pg_temp.calls('P0001', 'P0001', 'P0001')),
	'MW601 No progress: the same tool calls had the same result 2 times in a row (lookup).', 'the same failure twice ends the run');
SELECT matches(pg_temp.run('[{"type": "progress_guard", "catch_tool_exceptions": true}]', pg_temp.calls('P0001', 'P0001', 'P0001')), ', done$', 'one that differs does not');
SELECT is(pg_temp.run('[{"type": "progress_guard", "exit_behavior": "end"}]', pg_temp.calls('ok', 'ok', 'ok', 'ok')), 'found (success), found (success), found (success), found (success), done', 'nor does success');
SELECT is(pg_temp.run('[{"type": "progress_guard", "exit_behavior": "end", "failure_only": false}]', pg_temp.calls('ok', 'ok', 'ok', 'ok')),
	'found (success), found (success), found (success), No progress: the same tool calls had the same result 3 times in a row (lookup).', 'unless that counts, too');

SELECT * FROM finish();
ROLLBACK;
