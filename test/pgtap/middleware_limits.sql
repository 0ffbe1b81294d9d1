-- Risk: a limit counts something else than it says, lets a call through that is over it, leaves a call without an answer,
-- forgets its count over a pause or a rollback, or is made although it can never hold.
BEGIN;
SELECT plan(64);

CREATE SERVER pgtap_one FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-lim', '{"cache": false, "retry": {"max_attempts": 1}}');
CREATE SCHEMA lim;
CREATE FUNCTION lim.search(q text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'found ' || q $$;
CREATE FUNCTION lim.add(a integer, b integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT a + b $$;
SELECT mw_create_tool('search', 'lim.search(text)', 'Search.', tenant => 'pgtap-lim');
SELECT mw_create_tool('add', 'lim.add(integer, integer)', 'Add.', tenant => 'pgtap-lim');

-- an agent with these middlewares
CREATE FUNCTION pg_temp.agent(name text, middleware jsonb) RETURNS void LANGUAGE sql AS $$
	SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_one:m', 'tools', '["search", "add"]'::jsonb, 'middleware', middleware), 'pgtap-lim') $$;
-- what creating one says: state, message, hint
CREATE FUNCTION pg_temp.refused(middleware jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text; h text;
BEGIN
	PERFORM pg_temp.agent('refused', middleware);
	RETURN 'created';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE, h = PG_EXCEPTION_HINT;
	RETURN s || ' ' || m || ' | ' || h;
END $$;
CREATE FUNCTION pg_temp.run(agent text, session text, prompt text, options jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
	SELECT mw_invoke('pgtap-lim', session, prompt, agent => agent, options => options) $$;
-- what a failing run said
CREATE FUNCTION pg_temp.fails(agent text, session text, prompt text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text;
BEGIN
	PERFORM pg_temp.run(agent, session, prompt);
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE;
	RETURN s || ' ' || m;
END $$;
-- the thread, a line a message
CREATE FUNCTION pg_temp.thread(session text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', role, nullif(content #>> '{}', ''),
		(SELECT '[' || string_agg((c->>'id') || ' ' || (c->>'name'), ', ') || ']' FROM jsonb_array_elements(tool_calls) AS c), tool_call_id), E'\n' ORDER BY position)
	FROM mw.message AS t WHERE t.tenant = 'pgtap-lim' AND t.session = $1 $$;
CREATE FUNCTION pg_temp.state(s text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT state FROM mw.session WHERE tenant = 'pgtap-lim' AND session = s $$;
CREATE FUNCTION pg_temp.sent() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw_fake_requests('pgtap_one') $$;

-- ---------- what is refused when an agent is made ----------

SELECT is(pg_temp.refused('[{"type": "model_call_limit"}]'),
	'MW001 option "thread_limit" of middleware "model_call_limit" must be given, or run_limit | Options of model_call_limit: exit_behavior, run_limit, thread_limit.',
	'a limit without a limit');
SELECT is(pg_temp.refused('[{"type": "model_call_limit", "thread_limit": null, "run_limit": null}]') ~ '^MW001 ', true, 'null is none');
SELECT matches(pg_temp.refused('[{"type": "model_call_limit", "run_limit": -1}]'), '^MW001 option "run_limit" .* a whole number from 0 ', 'a negative one');
SELECT matches(pg_temp.refused('[{"type": "model_call_limit", "run_limit": 1.5}]'), '^MW001 option "run_limit" ', 'half a call');
SELECT matches(pg_temp.refused('[{"type": "model_call_limit", "run_limit": "2"}]'), '^MW001 option "run_limit" ', 'a text');
SELECT matches(pg_temp.refused('[{"type": "model_call_limit", "run_limit": 1, "exit_behavior": "continue"}]'),
	'^MW001 option "exit_behavior" .* must be one of: end, error ', 'an end that only tools have');
SELECT matches(pg_temp.refused('[{"type": "model_call_limit", "run_limit": 1, "max": 2}]'), '^MW001 .*"max".*exit_behavior, run_limit, thread_limit', 'an option that there is not');
SELECT matches(pg_temp.refused('[{"type": "model_call_limit", "run_limit": 1}, {"type": "model_call_limit", "thread_limit": 1}]'), '^MW001 ', 'two of one name');
SELECT matches(pg_temp.refused('[{"type": "tool_call_limit"}]'), '^MW001 option "thread_limit" ', 'a limit of tools without a limit');
SELECT matches(pg_temp.refused('[{"type": "tool_call_limit", "thread_limit": 1, "run_limit": 2}]'),
	'^MW001 option "run_limit" .* must be at most the thread_limit, 1 ', 'a run that may do more than its thread');
SELECT matches(pg_temp.refused('[{"type": "tool_call_limit", "run_limit": 1, "exit_behavior": "panic"}]'), 'must be one of: continue, error, end ', 'an unknown end');
SELECT matches(pg_temp.refused('[{"type": "tool_call_limit", "run_limit": 1, "tool_name": ""}]'), '^MW001 option "tool_name" ', 'a tool without a name');
SELECT matches(pg_temp.refused('[{"type": "tool_call_limit", "run_limit": 1, "tool_name": "search"}, {"type": "tool_call_limit", "run_limit": 2, "tool_name": "search"}]'),
	'^MW001 .*tool_call_limit\[search\]', 'two limits of one tool');
SELECT is(pg_temp.refused('[{"type": "tool_call_limit", "run_limit": 1, "tool_name": "search"}, {"type": "tool_call_limit", "run_limit": 2, "tool_name": "add"}, {"type": "tool_call_limit", "run_limit": 2}, {"type": "tool_call_limit", "name": "again", "run_limit": 2}]'),
	'created', 'but of different ones, or under another name');
SELECT mw_drop_agent('refused', 'pgtap-lim');

-- ---------- model_call_limit ----------

SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "tea"}}], "repeat": 99}]}');
SELECT pg_temp.agent('run-end', '[{"type": "model_call_limit", "run_limit": 2}]');
SELECT set_config('pgtap.r', pg_temp.run('run-end', 's1', 'loop')::text, true) IS NOT NULL;
SELECT is(current_setting('pgtap.r')::jsonb->>'output', 'Model call limits exceeded: run limit (2/2)', 'a run ends at its limit, with a message');
SELECT is(current_setting('pgtap.r')::jsonb->>'status', 'completed', 'as a completed run');
SELECT is(current_setting('pgtap.r')::jsonb->>'ended_by', 'model_call_limit', 'that says what ended it');
SELECT is(pg_temp.sent(), 2::bigint, 'no further call is made');
SELECT is(pg_temp.state('s1')->'thread_model_call_count', '2', 'the thread counts');
SELECT is(pg_temp.run('run-end', 's1', 'again')->>'output', 'Model call limits exceeded: run limit (2/2)', 'the next run counts anew');
SELECT is(pg_temp.state('s1')->'thread_model_call_count', '4', 'the thread goes on');
SELECT is(pg_temp.state('s1') ? 'run_model_call_count', false, 'the run''s count is not the thread''s');

SELECT pg_temp.agent('thread-end', '[{"type": "model_call_limit", "thread_limit": 3, "run_limit": 2}]');
SELECT is(pg_temp.run('thread-end', 's2', 'a')->>'output', 'Model call limits exceeded: run limit (2/2)', 'the run''s limit first');
SELECT is(pg_temp.run('thread-end', 's2', 'b')->>'output', 'Model call limits exceeded: thread limit (3/3)', 'then the thread''s');
SELECT is(pg_temp.run('thread-end', 's3', 'c')->>'output', 'Model call limits exceeded: run limit (2/2)', 'another session has its own');
SELECT pg_temp.agent('both', '[{"type": "model_call_limit", "thread_limit": 1, "run_limit": 1, "exit_behavior": "error"}]');
SELECT is(pg_temp.fails('both', 's4', 'a'), 'MW601 Model call limits exceeded: thread limit (1/1), run limit (1/1)', 'both are named, as an error');
SELECT is(pg_temp.state('s4'), NULL, 'which takes the run back');
SELECT pg_temp.agent('none', '[{"type": "model_call_limit", "run_limit": 0}]');
SELECT is(pg_temp.run('none', 's5', 'a')->>'output', 'Model call limits exceeded: run limit (0/0)', 'zero is a limit');

SELECT mw_fake('pgtap_one', '{"m": [{"status": 503}, {"text": "one"}, {"text": "two"}]}');
SELECT pg_temp.agent('retried', '[{"type": "model_call_limit", "thread_limit": 1}, {"type": "model_retry", "initial_delay": 0.001, "jitter": false}]');
SELECT is(pg_temp.run('retried', 's6', 'a')->>'output', 'one', 'a call that is tried twice');
SELECT is(pg_temp.state('s6')->'thread_model_call_count', '1', 'counts once');
SELECT is(pg_temp.run('retried', 's6', 'b')->>'output', 'Model call limits exceeded: thread limit (1/1)', 'and the limit holds');

-- a rollback takes the count with it
SELECT mw_fake('pgtap_one', '{"m": [{"text": "kept"}, {"text": "lost"}]}');
SELECT pg_temp.agent('rolled', '[{"type": "model_call_limit", "thread_limit": 9}]');
SELECT is(pg_temp.run('rolled', 's7', 'a')->>'output', 'kept', 'a run');
SAVEPOINT before;
SELECT is(pg_temp.run('rolled', 's7', 'b')->>'output', 'lost', 'another');
ROLLBACK TO before;
SELECT is(pg_temp.state('s7')->'thread_model_call_count', '1', 'a run that is rolled back is not counted');

-- a pause is no new run: its counts go on
SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}]}, {"tool_calls": [{"id": "c2", "name": "search", "arguments": {"q": "b"}}]}, {"text": "not to be asked"}]}');
SELECT pg_temp.agent('paused', '[{"type": "model_call_limit", "run_limit": 2}, {"type": "tool_call_limit", "run_limit": 1, "exit_behavior": "error", "tool_name": "add"}, {"type": "human_in_the_loop", "interrupt_on": {"search": true}}]');
SELECT is(pg_temp.run('paused', 'p1', 'go')->>'status', 'interrupted', 'a run that waits for a person');
SELECT is(mw_resume('pgtap-lim', 'p1', '{"decisions": [{"type": "approve"}]}')->>'status', 'interrupted', 'and again');
SELECT is(mw_resume('pgtap-lim', 'p1', '{"decisions": [{"type": "approve"}]}')->>'output', 'Model call limits exceeded: run limit (2/2)', 'has made its calls before and after');
SELECT is(pg_temp.sent(), 2::bigint, 'no third one is sent');
SELECT is(pg_temp.run('paused', 'p1', 'next')->>'status', 'completed', 'the next run counts anew');

-- ---------- tool_call_limit ----------

SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [
	{"id": "c1", "name": "search", "arguments": {"q": "a"}}, {"id": "c2", "name": "search", "arguments": {"q": "b"}}, {"id": "c3", "name": "add", "arguments": {"a": 1, "b": 2}}]}, {"text": "done"}]}');
SELECT pg_temp.agent('continue', '[{"type": "tool_call_limit", "tool_name": "search", "run_limit": 1}]');
SELECT is(pg_temp.run('continue', 't1', 'go')->>'output', 'done', 'the run goes on');
SELECT is(pg_temp.thread('t1'), E'user go\nassistant [c1 search, c2 search, c3 add]\ntool Tool call limit exceeded. Do not call ''search'' again. c2\ntool found a c1\ntool 3 c3\nassistant done',
	'exactly the allowed calls run, in order, and each has one answer');
SELECT is(pg_temp.state('t1')->'thread_tool_call_count', '{"search": 1}', 'the thread counts what ran');

SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}]}, {"tool_calls": [{"id": "c2", "name": "add", "arguments": {"a": 1, "b": 2}}]}, {"text": "done"}]}');
SELECT pg_temp.agent('all', '[{"type": "tool_call_limit", "run_limit": 1}]');
SELECT is(pg_temp.run('all', 't2', 'go')->>'output', 'done', 'where all calls were over, the model is called again');
SELECT is(pg_temp.thread('t2'), E'user go\nassistant [c1 search]\ntool found a c1\nassistant [c2 add]\ntool Tool call limit exceeded. Do not make additional tool calls. c2\nassistant done', 'and reads why');
SELECT is(pg_temp.state('t2')->'thread_tool_call_count', '{"__all__": 1}', 'calls of all tools stand under __all__');

-- a run counts what was asked for: a model that insists is not let through later
SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}, {"id": "c2", "name": "search", "arguments": {"q": "b"}}]}, {"tool_calls": [{"id": "c3", "name": "search", "arguments": {"q": "c"}}]}, {"text": "done"}]}');
SELECT is(pg_temp.run('continue', 't3', 'go')->>'output', 'done', 'insisting');
SELECT is(regexp_count(pg_temp.thread('t3'), 'Do not call'), 2, 'does not help');

-- end: nothing of the message runs, everything is answered, the thread's count stays
SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}]},
	{"tool_calls": [{"id": "c2", "name": "search", "arguments": {"q": "b"}}, {"id": "c3", "name": "add", "arguments": {"a": 1, "b": 2}}]}, {"text": "next"}]}');
SELECT pg_temp.agent('end', '[{"type": "tool_call_limit", "tool_name": "search", "thread_limit": 1, "run_limit": 1, "exit_behavior": "end"}]');
SELECT set_config('pgtap.r', pg_temp.run('end', 't4', 'go')::text, true) IS NOT NULL;
SELECT is(current_setting('pgtap.r')::jsonb->>'output', '''search'' tool call limit reached: thread limit exceeded (2/1 calls) and run limit exceeded (2/1 calls).', 'the run ends with both');
SELECT is(current_setting('pgtap.r')::jsonb->>'ended_by', 'tool_call_limit[search]', 'by that limit');
SELECT is(pg_temp.thread('t4'), E'user go\nassistant [c1 search]\ntool found a c1\nassistant [c2 search, c3 add]\ntool Tool call limit exceeded. Do not call ''search'' again. c2'
	|| E'\ntool Execution stopped before this tool call could run because another tool call in the same batch exceeded the limit. c3\nassistant ''search'' tool call limit reached: thread limit exceeded (2/1 calls) and run limit exceeded (2/1 calls).',
	'with an answer for every call');
SELECT is(pg_temp.state('t4')->'thread_tool_call_count', '{"search": 1}', 'that message is not counted');
SELECT is(pg_temp.run('end', 't4', 'and?')->>'output', 'next', 'and the thread can be used again');

-- error
SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}, {"id": "c2", "name": "add", "arguments": {"a": 1, "b": 2}}]}]}');
SELECT pg_temp.agent('error', '[{"type": "tool_call_limit", "thread_limit": 1, "exit_behavior": "error"}]');
SELECT is(pg_temp.fails('error', 't5', 'go'), 'MW601 Tool call limit reached: thread limit exceeded (2/1 calls).', 'an error with the count that it would have been');
SELECT is(pg_temp.state('t5'), NULL, 'which takes the run back');

-- zero, in the middle of the thread limit, two limits of one call
SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}]}]}');
SELECT pg_temp.agent('zero', '[{"type": "tool_call_limit", "run_limit": 0, "exit_behavior": "end"}]');
SELECT is(pg_temp.run('zero', 't6', 'go')->>'output', 'Tool call limit reached: run limit exceeded (1/0 calls).', 'zero is a limit of tools, too');

SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}]}, {"text": "one"}, {"tool_calls": [{"id": "c2", "name": "search", "arguments": {"q": "b"}}]}, {"text": "two"}]}');
SELECT pg_temp.agent('thread', '[{"type": "tool_call_limit", "thread_limit": 1}]');
SELECT is(pg_temp.run('thread', 't7', 'a')->>'output', 'one', 'one call in the first run');
SELECT is(pg_temp.run('thread', 't7', 'b')->>'output', 'two', 'none in the second');
SELECT matches(pg_temp.thread('t7'), 'tool Tool call limit exceeded. Do not make additional tool calls. c2', 'since the thread had its one');

SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"q": "a"}}]}, {"text": "done"}]}');
SELECT pg_temp.agent('two', '[{"type": "tool_call_limit", "run_limit": 0}, {"type": "tool_call_limit", "tool_name": "search", "run_limit": 0}]');
SELECT is(pg_temp.run('two', 't8', 'go')->>'output', 'done', 'two limits that are over for one call');
SELECT is(pg_temp.thread('t8'), E'user go\nassistant [c1 search]\ntool Tool call limit exceeded. Do not call ''search'' again. c1\ntool Tool call limit exceeded. Do not make additional tool calls. c1\nassistant done', 'answer it both, as LangChain''s do');
SELECT is((SELECT count(*) FROM jsonb_array_elements((SELECT body->'messages' FROM mw_fake_requests('pgtap_one') ORDER BY n DESC LIMIT 1)) AS m WHERE m->>'role' = 'tool'), 1::bigint, 'of which the model is sent one');

-- a call with malformed arguments is none, an unknown tool is one
SELECT mw_fake('pgtap_one', '{"m": [{"tool_calls": [{"id": "c1", "name": "teleport", "arguments": {}}]}, {"text": "done"}]}');
SELECT is(pg_temp.run('all', 't9', 'go')->>'output', 'done', 'a tool that the model made up');
SELECT is(pg_temp.state('t9')->'thread_tool_call_count', '{"__all__": 1}', 'counts');

-- counts of a caller's own do not get in
SELECT throws_like($$ SELECT pg_temp.run('all', 't10', 'go', '{"state": {"thread_tool_call_count": {"__all__": -9}}}') $$, '%thread_tool_call_count%', 'a caller cannot set a count');

SELECT * FROM finish();
ROLLBACK;
