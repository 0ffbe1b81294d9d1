-- Risk: an option that is misspelt, of a wrong type or not allowed is ignored in
-- silence, loosens what an administrator set, or does not reach the provider.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;

CREATE SERVER opt FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('options', '{"model": "opt:m"}');

-- runs a statement; what it raised, with hint, or what it gave
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
		nullif(regexp_replace(detail, '\n?request_id: \S+$', ''), ''), nullif(hint, ''));
END
$$;
CREATE FUNCTION opt(options jsonb, tools jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT try(format('SELECT mw_ask(''options'', NULL, ''hello'', options => %L, tools => %L)', options, tools))
$$;
-- what a call sends
CREATE FUNCTION sent(options jsonb, tools jsonb DEFAULT NULL, model text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_fake('opt', '{"*": [{"text": "hi", "repeat": 1000}]}');
	PERFORM mw_ask('options', NULL, 'hello', options => options || '{"cache": "off"}', tools => tools, model => model);
	RETURN (SELECT body - '{model,messages,tools}'::text[] FROM mw_fake_requests('opt'));
END
$$;

SELECT mw_fake('opt', '{"*": [{"text": "hi", "repeat": 1000}]}');

-- unknown ones are refused with what is known
SELECT opt('{"temprature": 0}');
SELECT opt($${"fallback": ["nowhere:m"]}$$);
SELECT opt($${"fallback": "nowhere:m"}$$);
SELECT opt('{"": 1}');
SELECT opt('[]');
SELECT opt('"x"');
SELECT opt('[1]');
SELECT opt(NULL);

-- parameters of the model travel as they are given
SELECT sent('{}');
SELECT sent('{"temperature": 0.20, "top_p": 1, "stop": ["a", "b"], "seed": 7, "presence_penalty": -1, "frequency_penalty": 2,
	"response_format": {"type": "json_object"}, "max_tokens": 17}');
SELECT sent('{"temperature": null, "timeout": "5 s", "resend_unknown": false, "memory": false, "stop": "x"}');
SELECT sent('{"tool_choice": "required", "parallel_tool_calls": false}', '[{"name": "f"}]');
SELECT sent('{"tool_choice": {"type": "function", "function": {"name": "f"}}}', '[{"name": "f"}]');

-- settings of a model lose against options of the call
SELECT sent('{}', model => '{"model": "opt:m", "model_settings": {"temperature": 0.5, "seed": 1}}');
SELECT sent('{"seed": 2}', model => '{"model": "opt:m", "model_settings": {"temperature": 0.5, "seed": 1}}');
SELECT try($$SELECT mw_ask('options', NULL, 'x', model => '{"model": "opt:m", "model_settings": {"timeout": 1}}')$$);
SELECT try($$SELECT mw_ask('options', NULL, 'x', model => '{"model": "opt:m", "settings": {}}')$$);
SELECT try($$SELECT mw_ask('options', NULL, 'x', model => '{"model": "opt:m", "model_settings": []}')$$);
SELECT try($$SELECT mw_ask('options', NULL, 'x', model => '{"name": "opt:m"}')$$);
SELECT try($$SELECT mw_ask('options', NULL, 'x', model => '{')$$);

-- max_tokens: the call's, else the model's, else 4096
SELECT mw_set_model('opt:m', '{"max_output_tokens": 99}');
SELECT sent('{}');
SELECT sent('{"max_tokens": 1000}');
SELECT mw_drop_model('opt:m');

-- wrong values
SELECT o, opt(o::jsonb) FROM unnest(ARRAY[
	'{"temperature": "hot"}', '{"temperature": -1}', '{"temperature": 3}', '{"top_p": 1.5}', '{"top_p": true}',
	'{"max_tokens": 0}', '{"max_tokens": -1}', '{"max_tokens": 1.5}', '{"max_tokens": 1e30}', '{"max_tokens": "10"}',
	'{"stop": ""}', '{"stop": []}', '{"stop": ["a", 1]}', '{"stop": {}}',
	'{"seed": 1.5}', '{"seed": "x"}', '{"presence_penalty": 5}',
	'{"response_format": "json"}', '{"response_format": {}}',
	'{"parallel_tool_calls": 1}', '{"parallel_tool_calls": true}', '{"tool_choice": "auto"}', '{"tool_choice": "f"}', '{"tool_choice": {}}',
	'{"timeout": 0}', '{"timeout": -1}', '{"timeout": 1e300}', '{"timeout": "2 hours"}', '{"timeout": "soon"}', '{"timeout": []}',
	'{"cache": "maybe"}', '{"cache": true}', '{"redact": "yes"}', '{"guardrail": 1}', '{"memory": true}', '{"memory": 0}',
	'{"resend_unknown": "true"}', '{"limits": 5}', '{"limits": {"turns": 5}}', '{"limits": {"tokens": 0}}', '{"limits": {"tokens": "x"}}'
	]) AS o;
SELECT opt('{"tool_choice": {"type": "function", "function": {"name": "g"}}}', '[{"name": "f"}]');

-- a limit of the run
SELECT opt('{"limits": {"tokens": 5}}') ~ '^MW301';
SELECT opt('{"limits": {"tokens": 1000}}');
SELECT opt('{"limits": {}}');

-- callers tighten, never loosen
SELECT opt('{"redact": true, "guardrail": true, "cache": "on"}');
SELECT opt('{"redact": false}');
SELECT opt('{"guardrail": false}');
SELECT mw_alter_tenant('options', '{"redact": false, "guardrail": false, "cache": false}');
SELECT opt('{"redact": false, "guardrail": false, "cache": "off"}');
SELECT opt('{"redact": true, "guardrail": true}');
SELECT opt('{"cache": "on"}');
SELECT opt('{"cache": "refresh"}');
SELECT mw_fake('opt', '{"*": [{"text": "hi", "repeat": 1000}]}');
SELECT mw_ask('options', NULL, 'I am joe@example.com', options => '{"redact": true}');
SELECT body -> 'messages' @? '$[*] ? (@.content like_regex "joe")' AS raw_was_sent FROM mw_fake_requests('opt');
SELECT mw_alter_tenant('options', '{"redact": null, "guardrail": null, "cache": null}');

-- cache: off and refresh ask again
SELECT mw_fake('opt', '{"*": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}');
SELECT mw_ask('options', NULL, 'cached?');
SELECT mw_ask('options', NULL, 'cached?');
SELECT mw_ask('options', NULL, 'cached?', options => '{"cache": "off"}');
SELECT mw_ask('options', NULL, 'cached?', options => '{"cache": "refresh"}');
SELECT mw_invoke('options', NULL, 'cached?') ->> 'cache';

-- tools
SELECT t, opt('{}', t::jsonb) FROM unnest(ARRAY[
	'{}', '["lookup_invoice"]', '[1]', '[{}]', '[{"name": ""}]', '[{"name": "a b"}]', '[{"name": "f"}, {"name": "f"}]',
	'[{"name": "f", "description": 1}]', '[{"name": "f", "parameters": []}]', '[{"name": "f", "strict": "x"}]', '[{"name": "f", "x": 1}]',
	'[{"type": "web_search"}]', '[{"type": "function"}]', '[{"type": "x", "function": {"name": "f"}}]', '[{"type": "function", "function": "f"}]',
	'[{"type": "function", "function": {"name": "f"}, "name": "f"}]'
	]) AS t;
SELECT opt('{}', jsonb_build_array(jsonb_build_object('name', repeat('x', 65))));
SELECT opt('{}', (SELECT jsonb_agg(jsonb_build_object('name', 'f' || g)) FROM generate_series(1, 1025) g));
SELECT opt('{}', '[]');
SELECT mw_fake('opt', '{"*": [{"text": "hi", "repeat": 1000}]}');
SELECT mw_ask('options', NULL, 'both spellings',
	tools => '[{"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}, {"type": "function", "function": {"name": "g", "strict": true}}]');
SELECT body -> 'tools' FROM mw_fake_requests('opt');

DROP FUNCTION try, opt, sent;
DROP SERVER opt;
SELECT mw_drop_tenant('options');
