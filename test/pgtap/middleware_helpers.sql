-- Risk: a helper model's answer is taken for more than it is: a tool that it made up, a tool that runs although it is
-- emulated, a list of tasks that two calls wrote at once; a prompt that a function writes does not hold.
BEGIN;
SELECT plan(42);

CREATE SERVER help FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-help', '{"model": "help:main", "retry": 1, "cache": false, "guardrail": false}');
CREATE SCHEMA help;
CREATE TABLE help.ran (tool text);
GRANT USAGE ON SCHEMA help TO PUBLIC;
CREATE FUNCTION help.search(q text) RETURNS text LANGUAGE sql AS $$ INSERT INTO help.ran VALUES ('search'); SELECT 'found ' || q $$;
CREATE FUNCTION help.weather(city text) RETURNS text LANGUAGE sql AS $$ INSERT INTO help.ran VALUES ('weather'); SELECT 'sun in ' || city $$;
CREATE FUNCTION help.add(a int, b int) RETURNS int LANGUAGE sql AS $$ SELECT a + b $$;
SELECT mw_create_tool('search', 'help.search(text)', 'Searches the catalogue.', options => '{"writes": true}', tenant => 'pgtap-help');
SELECT mw_create_tool('weather', 'help.weather(text)', 'Weather of a city.', options => '{"writes": true}', tenant => 'pgtap-help');
SELECT mw_create_tool('add', 'help.add(integer, integer)', NULL, tenant => 'pgtap-help');

CREATE FUNCTION help.agent(middleware jsonb, settings jsonb DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.mw_drop_agent('a', 'pgtap-help') FROM mw.agent WHERE agent = 'a' AND tenant = 'pgtap-help' AND current;
	PERFORM public.mw_create_agent('a', '{"model": "help:main", "tools": ["search", "weather", "add"]}' || settings || jsonb_build_object('middleware', jsonb_build_array(middleware)), 'pgtap-help');
END
$$;
CREATE SEQUENCE help.n;
CREATE FUNCTION help.run(prompt text, options jsonb DEFAULT '{}', messages jsonb DEFAULT NULL) RETURNS jsonb LANGUAGE sql AS $$
	SELECT public.mw_invoke('pgtap-help', 's' || nextval('help.n'), prompt, agent => 'a', options => options, messages => messages)
$$;
CREATE FUNCTION help.thread() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(content #>> '{}', '|' ORDER BY position) FROM mw.message WHERE tenant = 'pgtap-help' AND session = 's' || currval('help.n')
$$;
CREATE FUNCTION help.sent(which text) RETURNS SETOF jsonb LANGUAGE sql AS $$
	SELECT body FROM public.mw_fake_requests('help') WHERE model = 'help:' || which ORDER BY n
$$;
CREATE FUNCTION help.offered() RETURNS text LANGUAGE sql AS $$	-- in the last request to the agent's model
	SELECT jsonb_path_query_array(b, '$.tools[*].function.name')::text FROM help.sent('main') WITH ORDINALITY AS x(b, i) ORDER BY i DESC LIMIT 1
$$;

-- ---------- llm_tool_selector ----------

SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "system_prompt": "Choose."}');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "{\"tools\": [\"add\", \"search\", \"add\"]}", "repeat": 5}]}');
DO $do$ BEGIN PERFORM help.run('New request', messages => '[{"role": "user", "content": "Old"}, {"role": "assistant", "content": "ok"}]'); END $do$;
SELECT is(help.offered(), '["search", "add"]', 'the tools that a model chose are offered, in the agent''s order');
SELECT is((SELECT jsonb_path_query_array(b, '$.messages[*].content') FROM help.sent('sel') AS b), '["Choose.", "New request"]', 'it is shown the user''s last message');
SELECT is((SELECT jsonb_path_query_array(b, '$.response_format.json_schema.schema.properties.tools.items.anyOf[*].const') FROM help.sent('sel') AS b),
	'["search", "weather", "add"]', 'and may say their names alone');
SELECT ok((SELECT b::text LIKE '%Weather of a city.%' FROM help.sent('sel') AS b), 'with what they do');
SELECT is((SELECT count(*) FROM mw.usage WHERE tenant = 'pgtap-help' AND purpose = 'tool_selection'), 1::bigint, 'the call is booked with its purpose');
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "max_tools": 1, "always_include": ["search"]}');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "Here:\n```json\n{\"tools\": [\"add\", \"weather\"]}\n```"}]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["add", "search"]', 'max_tools cuts; what is always included comes last and does not count; an answer between fences is read');
SELECT ok((SELECT b->'messages'->0->>'content' LIKE E'%\n%first 1 will be taken.' FROM help.sent('sel') AS b), 'it is told how many');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "{\"tools\": [\"teleport\"]}"}]}');
SELECT throws_ok($$SELECT help.run('Go')$$, 'MW405', 'the model selected invalid tools: teleport', 'a tool that it made up');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "{\"none\": true}"}, {"text": "{\"tools\": [\"add\"]}"}]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["add", "search"]', 'an answer that is no selection is asked for again');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "none of them", "repeat": 20}]}');
SELECT throws_ok($$SELECT help.run('Go')$$, 'MW405', 'the model that selects tools answered wrongly', 'and one that is no JSON is an error');
-- A04: answers that lack what they should have
SELECT mw_fake('help', jsonb_build_object('main', '[{"text": "ok", "repeat": 20}]'::jsonb, 'sel', (SELECT jsonb_agg(jsonb_build_object('text', t)) FROM unnest(ARRAY['{}', '{"tools": null}', '{"tools": "add"}', '["add"]', '{"tools": ["add", "add"]}']) AS t)));
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "max_retries": 9}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is((SELECT count(*) FROM help.sent('sel')), 5::bigint, 'no tools, none in a list, no list, no object: each is asked for again');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "{\"tools\": [1]}"}, {"text": "{\"tools\": [\"add\", \"add\"]}"}]}');
SELECT throws_ok($$SELECT help.run('Go')$$, 'MW405', 'the model selected invalid tools: 1', 'what is no name is no tool');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "{\"tools\": [\"add\", \"add\"]}"}]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["add"]', 'a name that comes twice is one');
SELECT mw_fake('help', '{"main": [{"text": "ok", "repeat": 20}], "sel": [{"text": "none of them", "repeat": 20}]}');
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "on_parsing_failure": "all", "max_tools": 1, "max_retries": 0}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["search", "weather", "add"]', 'or all tools, which max_tools does not cut');
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "on_parsing_failure": "none", "always_include": ["add"], "max_retries": 0}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["add"]', 'or none');
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "on_parsing_failure": ["weather"], "max_retries": 0}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["weather"]', 'or a list');
CREATE FUNCTION help.choose(answer jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT CASE WHEN answer->>'content' = 'none of them' THEN '["add"]'::jsonb END $$;
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "on_parsing_failure": {"function": "help.choose"}, "max_retries": 0}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["add"]', 'or what a function says');
SET LOCAL client_min_messages = error;		-- it warns, as LangChain does
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel", "always_include": ["nope"]}');
RESET client_min_messages;
SELECT throws_ok($$SELECT help.run('Go')$$, 'MW001', 'tools in always_include not found in request: nope', 'a name in always_include that is no tool');
SELECT help.agent('{"type": "llm_tool_selector", "always_include": ["search", "weather", "add"]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.offered(), '["search", "weather", "add"]', 'where nothing is left to choose nobody is asked');
SELECT help.agent('{"type": "llm_tool_selector", "model": "help:sel"}');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}]}, {"text": "ok"}], "sel": [{"text": "{\"tools\": [\"add\"]}", "repeat": 2}]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.thread(), 'Go||sun in Oslo|ok', 'a tool that was not offered still runs');
SELECT throws_ok($$SELECT help.agent('{"type": "llm_tool_selector", "on_parsing_failure": "some"}')$$, 'MW001', 'option "on_parsing_failure" of middleware "llm_tool_selector" must be one of: error, none, all');
SELECT throws_ok($$SELECT help.agent('{"type": "llm_tool_selector", "max_retries": -1}')$$, 'MW001', NULL, 'a number that cannot be');

-- ---------- llm_tool_emulator ----------

TRUNCATE help.ran;
SELECT help.agent('{"type": "llm_tool_emulator", "model": "help:emu", "tools": ["weather"]}');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}, {"id": "c2", "name": "search", "arguments": {"q": "x"}}]}, {"text": "ok"}], "emu": [{"text": "Rain"}]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.thread(), 'Go||Rain|found x|ok', 'a tool that is named is emulated, others run');
SELECT is((SELECT string_agg(tool, ',') FROM help.ran), 'search', 'what is emulated does not run');
SELECT is((SELECT metadata->'emulated' FROM mw.message WHERE tenant = 'pgtap-help' AND session = 's' || currval('help.n') ORDER BY position OFFSET 2 LIMIT 1), 'true', 'its result says that it was made up');
SELECT ok((SELECT b->'messages'->0->>'content' LIKE E'%\nTool: weather\nDescription: Weather of a city.\nArguments: {"city": "Oslo"}\n%' FROM help.sent('emu') AS b), 'the model is told what was called');
SELECT is((SELECT b->'temperature' FROM help.sent('emu') AS b), '1', 'at a temperature of 1');
SELECT help.agent('{"type": "llm_tool_emulator"}');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "teleport", "arguments": {"to": "mars"}}]}, {"text": "arrived"}, {"text": "ok"}]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.thread(), 'Go||arrived|ok', 'by default all are, also those that do not exist, by the agent''s own model');
SELECT help.agent('{"type": "llm_tool_emulator", "tools": []}');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "x"}}]}, {"text": "ok"}]}');
DO $do$ BEGIN PERFORM help.run('Go'); END $do$;
SELECT is(help.thread(), 'Go||found x|ok', 'an empty list emulates none');

-- ---------- todo_list ----------

SELECT help.agent('{"type": "todo_list", "system_prompt": "Keep a list.", "tool_description": "Replaces the list."}', '{"system_prompt": "Be brief."}');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "write_todos", "arguments": {"todos": [{"content": "a", "status": "in_progress"}]}}]}, {"text": "ok"}]}');
DO $do$ BEGIN PERFORM help.run('Plan'); END $do$;
SELECT is(help.thread(), 'Plan||Updated todo list to [{"status": "in_progress", "content": "a"}]|ok', 'the model writes its list');
SELECT is((SELECT state->'todos' FROM mw.session WHERE tenant = 'pgtap-help' AND session = 's' || currval('help.n')), '[{"content": "a", "status": "in_progress"}]', 'which is a field of the state');
SELECT is((SELECT b->'messages'->0->>'content' FROM help.sent('main') AS b LIMIT 1), E'Be brief.\n\nKeep a list.', 'the prompt gets a section');
SELECT is(help.offered(), '["write_todos", "search", "weather", "add"]', 'the tool comes before the agent''s own');
SELECT is((SELECT b->'tools'->0->'function'->>'description' FROM help.sent('main') AS b LIMIT 1), 'Replaces the list.', 'with its description');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "write_todos", "arguments": {"todos": []}}, {"id": "c2", "name": "search", "arguments": {"q": "x"}}, {"id": "c3", "name": "write_todos", "arguments": {"todos": []}}]}, {"text": "once"}]}');
DO $do$ BEGIN PERFORM help.run('Plan'); END $do$;
SELECT is(help.thread(), 'Plan||Error: The `write_todos` tool should never be called multiple times in parallel. Please call it only once per model invocation to update the todo list.|'
	'Error: The `write_todos` tool should never be called multiple times in parallel. Please call it only once per model invocation to update the todo list.|found x|once', 'two lists in one message are none');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "write_todos", "arguments": {"todos": [{"content": "a", "status": "late"}]}}]}, {"text": "ok"}]}');
DO $do$ BEGIN PERFORM help.run('Plan'); END $do$;
SELECT ok(help.thread() LIKE 'Plan||Error invoking tool ''write_todos''%', 'a state that is none is said so');
SELECT throws_ok($$SELECT help.run('Plan', '{"state": {"todos": []}}')$$, 'MW001', NULL, 'a caller cannot write the list');
SELECT help.agent('{"type": "todo_list"}');
SELECT mw_fake('help', '{"main": [{"text": "ok"}]}');
DO $do$ BEGIN PERFORM help.run('Hi'); END $do$;
SELECT is((SELECT b->'messages'->0->>'content' FROM help.sent('main') AS b), (SELECT value FROM mw.default_texts() WHERE name = 'todo_system_prompt'), 'with default texts where none are given');

-- ---------- dynamic_prompt ----------

CREATE FUNCTION help.prompt(request jsonb, runtime jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN jsonb_array_length(request->'messages') = 1 THEN 'Speak ' || (runtime->'context'->>'language') || ' as said: ' || (request->>'system_prompt') END
$$;
SELECT help.agent('{"type": "dynamic_prompt", "function": "help.prompt"}', '{"system_prompt": "Be brief."}');
SELECT mw_fake('help', '{"main": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "x"}}]}, {"text": "ok"}]}');
DO $do$ BEGIN PERFORM help.run('Hi', '{"context": {"language": "Dutch"}}'); END $do$;
SELECT results_eq($$SELECT b->'messages'->0->>'content' FROM help.sent('main') AS b$$, $$VALUES ('Speak Dutch as said: Be brief.'), ('Be brief.')$$,
	'a function writes the prompt of each call, from the request and the context; NULL leaves it as it is');
CREATE FUNCTION help.prompt_message(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"role": "system", "content": "From a message."}'::jsonb $$;
SELECT help.agent('{"type": "dynamic_prompt", "function": {"function": "help.prompt_message"}}');
SELECT mw_fake('help', '{"main": [{"text": "ok"}]}');
DO $do$ BEGIN PERFORM help.run('Hi'); END $do$;
SELECT is((SELECT b->'messages'->0->>'content' FROM help.sent('main') AS b), 'From a message.', 'a message of role system will do');
CREATE FUNCTION help.prompt_number(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '5'::jsonb $$;
SELECT help.agent('{"type": "dynamic_prompt", "function": "help.prompt_number"}');
SELECT throws_ok($$SELECT help.run('Hi')$$, 'MW702', 'the function of middleware "dynamic_prompt" returned no system prompt', 'anything else will not');
SELECT throws_ok($$SELECT help.agent('{"type": "dynamic_prompt"}')$$, 'MW001', NULL, 'no function');

SELECT * FROM finish();
ROLLBACK;
