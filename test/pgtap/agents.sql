-- agents.sql: the loop of an agent, what a caller is told of it, and what is left of it.
--
-- One part a risk: a run that goes on where it should have ended, a jump past hooks, state that leaks, a repeat that
-- pays again, an error that takes more with it than its step.
\set ON_ERROR_STOP on
\set QUIET on
BEGIN;
SELECT plan(53);

CREATE SERVER agents FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('agents', '{"model": "agents:m", "cache": false}');
SELECT mw_set_budget('agents', 'tokens', 'Infinity', session => '*');

CREATE TABLE agents_done (what text);
CREATE FUNCTION agents_note(what text) RETURNS text LANGUAGE sql AS $$ INSERT INTO public.agents_done VALUES (what) RETURNING 'noted ' || what $$;
CREATE FUNCTION agents_fail(what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.agents_done VALUES ('undone');
	RAISE EXCEPTION 'cannot %', what USING ERRCODE = '22012';
END
$$;
SELECT mw_create_tool('note', 'agents_note(text)', 'Notes.', options => '{"writes": true}', tenant => 'agents');
SELECT mw_create_tool('fail', 'agents_fail(text)', 'Fails.', options => '{"writes": true}', tenant => 'agents');
SELECT mw_create_agent('plain', '{"tools": ["note", "fail"], "max_turns": 3}', 'agents');

CREATE FUNCTION pg_temp.note(id text, what text, tool text DEFAULT 'note') RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('tool_calls', jsonb_build_array(jsonb_build_object('id', id, 'name', tool, 'arguments', jsonb_build_object('what', what))))
$$;
CREATE FUNCTION pg_temp.script(VARIADIC steps jsonb[]) RETURNS void LANGUAGE sql AS $$
	SELECT mw_fake('agents', jsonb_build_object('m', to_jsonb(steps)))
$$;
CREATE FUNCTION pg_temp.sent() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw_fake_requests('agents') $$;
CREATE FUNCTION pg_temp.thread(s text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(role || ':' || coalesce(content #>> '{}', ''), ' | ' ORDER BY position) FROM mw.message WHERE tenant = 'agents' AND session = s
$$;

-- ---------- the loop ----------

SELECT pg_temp.script(pg_temp.note('c1', 'a'), pg_temp.note('c2', 'b'), '{"text": "both"}');
SELECT is(mw_ask('agents', 's1', 'Note a and b.', agent => 'plain'), 'both', 'model, tools, model, until there are no calls');
SELECT is(pg_temp.thread('s1'), 'user:Note a and b. | assistant: | tool:noted a | assistant: | tool:noted b | assistant:both', 'and the thread has all of it');
SELECT results_eq($$SELECT what FROM agents_done ORDER BY 1$$, $$VALUES ('a'), ('b')$$, 'each tool ran once');
SELECT is((SELECT count(*) FROM mw.ledger WHERE tenant = 'agents'), 3::bigint, 'each call is in the ledger');

SELECT pg_temp.script('{"text": "again"}');
SELECT is(mw_ask('agents', 's1', 'More?', agent => 'plain'), 'again', 'the next run goes on from there');
SELECT is((SELECT jsonb_array_length(body->'messages') FROM mw_fake_requests('agents')), 7, 'with the whole thread before it');
SELECT is(pg_temp.thread('s2'), NULL, 'another session has none of it');

SELECT pg_temp.script(pg_temp.note('c1', 'x', 'nothing_of_the_kind'), '{"text": "sorry"}');
SELECT is(mw_ask('agents', 's3', 'Use a tool that is none.', agent => 'plain'), 'sorry', 'an unknown tool does not end the run');
SELECT ok(pg_temp.thread('s3') LIKE '%Error: nothing_of_the_kind is not a valid tool, try one of [note, fail].%', 'and the model is told which there are');
SELECT pg_temp.script('{"tool_calls": [{"id": "c1", "name": "note", "arguments": {"what": 7}}]}', '{"text": "oh"}');
SELECT is(mw_ask('agents', 's4', 'Note seven.', agent => 'plain'), 'oh', 'an argument of the wrong type is told to the model');
SELECT is((SELECT count(*) FROM agents_done WHERE what = '7'), 0::bigint, 'and does not reach the tool');

-- ---------- the thread, read ----------

SELECT is((SELECT string_agg(m->>'role', ' ') FROM mw_messages('agents', 's1') AS m), 'user assistant tool assistant tool assistant user assistant',
	'mw_messages gives the thread in order');
SELECT is((SELECT count(*) FROM mw_messages('agents', 's1', (SELECT id FROM mw.message WHERE session = 's1' ORDER BY position OFFSET 5 LIMIT 1))), 2::bigint,
	'or what stands behind a message of it');
SELECT throws_ok($$SELECT mw_messages('agents', 's1', 'no such id')$$, 'MW001', NULL, 'which it must have');
SELECT is((SELECT count(*) FROM mw_messages('agents', 'nowhere')), 0::bigint, 'a session that is none has no messages');
CREATE ROLE agents_stranger;
CREATE FUNCTION pg_temp.as_stranger() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('role', 'agents_stranger', true);
	PERFORM public.mw_messages('agents', 's1');
END
$$;
SELECT throws_ok('SELECT pg_temp.as_stranger()', 'MW101', NULL, 'and nobody else may read it');

-- ---------- where it ends ----------

SELECT pg_temp.script(pg_temp.note('c1', 'l'), pg_temp.note('c2', 'l'), pg_temp.note('c3', 'l'), pg_temp.note('c4', 'l'));
SELECT throws_ok($$SELECT mw_ask('agents', 'l1', 'For ever.', agent => 'plain')$$, 'MW601', NULL, 'a fourth turn is refused where three are allowed');
SELECT is(pg_temp.thread('l1'), NULL, 'and the run is undone, its notes too');
SELECT is((SELECT count(*) FROM agents_done WHERE what = 'l'), 0::bigint, 'with what its tools wrote');
SELECT pg_temp.script(pg_temp.note('c1', 'l'), '{"text": "never"}');
SELECT throws_ok($$SELECT mw_ask('agents', 'l2', 'Once.', agent => 'plain', options => '{"limits": {"calls": 1}}')$$, 'MW601', NULL,
	'a caller''s own limit holds');

-- ---------- errors ----------

SELECT pg_temp.script(pg_temp.note('c1', 'divide', 'fail'));
SELECT throws_ok($$SELECT mw_ask('agents', 'e1', 'Fail.', agent => 'plain')$$, 'MW701', 'cannot divide', 'a tool''s own error leaves the run');
SELECT pg_temp.script(pg_temp.note('c1', 'kept'), pg_temp.note('c2', 'divide', 'fail'));
CREATE TEMPORARY TABLE failed AS SELECT mw_invoke('agents', 'e2', 'Fail.', agent => 'plain', options => '{"on_error": "return"}') AS r;
SELECT is(r->>'status', 'error', 'or is handed out') FROM failed;
SELECT is(r->'error'->>'sqlstate', 'MW701', 'as the same error') FROM failed;
SELECT ok(r->'error'->>'detail' LIKE '%22012%request_id: %', 'with the tool''s SQLSTATE and the request_id') FROM failed;
SELECT is((SELECT string_agg(what, ' ') FROM agents_done WHERE what IN ('kept', 'undone')), 'kept', 'finished steps stay, the failed one left nothing');
SELECT is(pg_temp.thread('e2'), 'user:Fail. | assistant: | tool:noted kept | assistant:', 'up to the call that failed');
SELECT pg_temp.script('{"text": "going on"}');
SELECT is(mw_ask('agents', 'e2', 'And now?', agent => 'plain'), 'going on', 'the session is usable afterwards');
SELECT ok((SELECT body::text LIKE '%Tool call fail with id c2 was not completed.%' FROM mw_fake_requests('agents')), 'its open call is answered in the request');

-- ---------- hooks, jumps, state ----------

CREATE FUNCTION agents_count(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('n', (state->>'n')::int + 1, 'seen', jsonb_build_array(runtime->>'session'), 'hidden', 'x')
$$;
CREATE FUNCTION agents_stop(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT '{"jump_to": "end", "messages": [{"role": "assistant", "content": "Stopped."}]}'::jsonb WHERE (state->>'n')::int > 1
$$;
CREATE FUNCTION agents_last(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"closed": true}'::jsonb $$;
SELECT mw_create_agent('stateful', '{"state": {"closed": {"default": false}}, "middleware": [
	{"type": "custom", "name": "count", "hooks": {"before_model": "agents_count"},
	 "state": {"n": {"default": 0}, "seen": {"reducer": "append"}, "hidden": {"private": true}}},
	{"type": "custom", "name": "stop", "hooks": {"before_model": "agents_stop", "after_agent": "agents_last"}, "can_jump_to": ["end"]}]}', 'agents');
SELECT pg_temp.script('{"text": "one"}', '{"text": "never"}');
CREATE TEMPORARY TABLE first AS SELECT mw_invoke('agents', 'h1', 'Hello.', agent => 'stateful') AS r;
SELECT is(r->>'output', 'one', 'the first run passes') FROM first;
SELECT is(r->'state', '{"n": 1, "seen": ["h1"], "closed": true}', 'the result shows the state, without what is private') FROM first;
CREATE TEMPORARY TABLE second AS SELECT mw_invoke('agents', 'h1', 'Hello again.', agent => 'stateful') AS r;
SELECT is(r->>'output', 'Stopped.', 'the second is ended by a jump') FROM second;
SELECT is(r->>'ended_by', 'stop', 'and says by whom') FROM second;
SELECT is(pg_temp.sent(), 1::bigint, 'without a call');
SELECT is(r->'state'->'seen', '["h1", "h1"]', 'a field with the reducer append was appended to') FROM second;
SELECT is((SELECT state->'closed' FROM mw.session WHERE tenant = 'agents' AND session = 'h1'), 'true', 'after_agent runs behind a jump to the end');

-- ---------- a repeat ----------

SELECT pg_temp.script(pg_temp.note('c1', 'once'), '{"text": "noted"}', '{"text": "paid twice"}');
SELECT is(mw_ask('agents', 'r1', 'Note it.', agent => 'plain', request_id => 'agents-1'), 'noted', 'a named run');
SELECT is(mw_ask('agents', 'r1', 'Note it.', agent => 'plain', request_id => 'agents-1'), 'noted', 'asked for again gives its stored result');
SELECT is((SELECT count(*) FROM agents_done WHERE what = 'once'), 1::bigint, 'no tool runs');
SELECT is(pg_temp.sent(), 2::bigint, 'nothing is sent');
SELECT throws_ok($$SELECT mw_ask('agents', 'r1', 'Note something else.', agent => 'plain', request_id => 'agents-1')$$, 'MW501', NULL,
	'another request under that id is refused');

-- ---------- structured output, and tools of the application's ----------

SELECT mw_create_agent('structured', '{"response_format": {"type": "object", "title": "Due", "properties": {"day": {"type": "string"}}, "required": ["day"]}}', 'agents');
SELECT pg_temp.script('{"tool_calls": [{"id": "c1", "name": "Due", "arguments": {"day": 1}}]}', '{"tool_calls": [{"id": "c2", "name": "Due", "arguments": {"day": "Monday"}}]}');
SELECT is(mw_invoke('agents', 'o1', 'When?', agent => 'structured')->'structured_response', '{"day": "Monday"}',
	'an answer that breaks the schema is mended, and handed out as JSON');
SELECT is(pg_temp.sent(), 2::bigint, 'in two calls');

SELECT mw_create_agent('client', '{"tools": ["note", {"type": "function", "function": {"name": "ask_user", "parameters": {"type": "object"}}}]}', 'agents');
SELECT pg_temp.script('{"tool_calls": [{"id": "c1", "name": "ask_user", "arguments": {}}]}', '{"text": "blue, then"}');
SELECT is(mw_invoke('agents', 'c1', 'Paint it.', agent => 'client')->>'status', 'tool_calls', 'a tool of the application''s stops the run');
SELECT is(mw_ask('agents', 'c1', NULL, agent => 'client', messages => '[{"role": "tool", "tool_call_id": "c1", "content": "blue"}]'), 'blue, then',
	'and its result lets it go on');

-- something new is said instead of the results: the calls are answered for good, as those of a pause are
SELECT pg_temp.script('{"tool_calls": [{"id": "c1", "name": "ask_user", "arguments": {}}, {"id": "c2", "name": "ask_user", "arguments": {}}]}', '{"text": "as you like"}', '{"text": "too late"}');
SELECT is(mw_invoke('agents', 'c2', 'Paint it.', agent => 'client')->>'status', 'tool_calls', 'two calls of the application''s wait');
SELECT is(mw_ask('agents', 'c2', 'Never mind.', agent => 'client', messages => '[{"role": "tool", "tool_call_id": "c2", "content": "blue"}]'), 'as you like',
	'and something new is said, with the result of one');
SELECT is(pg_temp.thread('c2'), 'user:Paint it. | assistant: | tool:Tool call ask_user with id c1 was not completed: a new message came first. | tool:blue | user:Never mind. | assistant:as you like',
	'the thread has an answer to each');
SELECT is(mw_ask('agents', 'c2', 'Ah.', agent => 'client', messages => '[{"role": "tool", "tool_call_id": "c1", "content": "green"}]'), 'too late', 'a result that comes after that');
SELECT is((SELECT string_agg(concat_ws(' ', m->>'role', m->>'tool_call_id'), ', ' ORDER BY n)
	FROM (SELECT body FROM mw_fake_requests('agents') ORDER BY n DESC LIMIT 1) AS r, jsonb_array_elements(body->'messages') WITH ORDINALITY AS e(m, n)),
	'user, assistant, tool c1, tool c2, user, assistant, user', 'is sent to nobody: each call has its one answer');

-- ---------- whose agent ----------

-- everybody's agent and a tenant's own may have the same name and the same number
SELECT mw_create_agent('twin', '{"system_prompt": "Everybody''s.", "tools": [{"type": "function", "function": {"name": "ask_user", "parameters": {"type": "object"}}}]}');
SELECT pg_temp.script('{"tool_calls": [{"id": "c1", "name": "ask_user", "arguments": {}}]}', '{"text": "so be it"}', '{"text": "mine"}');
SELECT is(mw_invoke('agents', 't1', 'Paint it.', agent => 'twin')->>'status', 'tool_calls', 'a run of everybody''s agent waits');
SELECT mw_create_agent('twin', '{"system_prompt": "My own.", "middleware": [{"type": "todo_list"}]}', 'agents');
SELECT is(mw_ask('agents', 't1', NULL, agent => 'twin', messages => '[{"role": "tool", "tool_call_id": "c1", "content": "blue"}]'), 'so be it', 'and goes on');
SELECT is((SELECT body->'messages'->0->>'content' FROM mw_fake_requests('agents') ORDER BY n DESC LIMIT 1), 'Everybody''s.',
	'with the agent that it was begun with, though its tenant has one of its own of that name and number now');
DO $$ BEGIN PERFORM mw_ask('agents', 't2', 'And this?', agent => 'twin'); END $$;
SELECT ok((SELECT body->'messages'->0->>'content' LIKE 'My own.%' FROM mw_fake_requests('agents') ORDER BY n DESC LIMIT 1), 'a new run begins with the tenant''s own');

SELECT * FROM finish();
ROLLBACK;
