-- Risk: a long thread is cut where it must not be: a call loses its answer, a failed summary takes the history with it, a
-- summariser is shown less (or more) than its options say, an edit of a request reaches the thread.
BEGIN;
SELECT plan(60);

CREATE SERVER ctx FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-ctx', '{"model": "ctx:main", "retry": 1, "cache": false, "guardrail": false}');
SELECT mw_set_model('ctx:sum', '{"max_input_tokens": 600}');
SELECT mw_set_model('ctx:main', '{"max_input_tokens": 600}');
CREATE SCHEMA ctx;
CREATE FUNCTION ctx.search(q text) RETURNS text LANGUAGE sql AS $$ SELECT repeat('data ', 60) || q $$;
SELECT mw_create_tool('search', 'ctx.search(text)', 'Searches.', tenant => 'pgtap-ctx');
CREATE FUNCTION ctx.read_file(q text) RETURNS text LANGUAGE sql AS $$ SELECT repeat('file ', 60) || q $$;
SELECT mw_create_tool('read_file', 'ctx.read_file(text)', 'Reads a file.', tenant => 'pgtap-ctx');

-- an agent with this one middleware
CREATE FUNCTION ctx.agent(middleware jsonb, settings jsonb DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.mw_drop_agent('a', 'pgtap-ctx') FROM mw.agent WHERE agent = 'a' AND tenant = 'pgtap-ctx' AND current;
	PERFORM public.mw_create_agent('a', '{"model": "ctx:main", "tools": ["search", "read_file"]}' || settings || jsonb_build_object('middleware', jsonb_build_array(middleware)), 'pgtap-ctx');
END
$$;
-- one turn in a new session, after a history; returns the session's result
CREATE SEQUENCE ctx.n;
CREATE FUNCTION ctx.run(messages jsonb, prompt text DEFAULT NULL, options jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
	SELECT public.mw_invoke('pgtap-ctx', 's' || nextval('ctx.n'), prompt, agent => 'a', messages => messages, options => options)
$$;
CREATE FUNCTION ctx.sent(which text) RETURNS SETOF jsonb LANGUAGE sql AS $$
	SELECT body->'messages' FROM public.mw_fake_requests('ctx') WHERE model = 'ctx:' || which ORDER BY n
$$;
CREATE FUNCTION ctx.thread() RETURNS SETOF jsonb LANGUAGE sql AS $$
	SELECT to_jsonb(m) FROM mw.message AS m WHERE tenant = 'pgtap-ctx' AND session = 's' || currval('ctx.n') ORDER BY position
$$;
CREATE FUNCTION ctx.chat(turns int) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_agg(jsonb_build_object('role', r, 'content', initcap(CASE r WHEN 'user' THEN 'question ' ELSE 'answer ' END) || i) ORDER BY i, r DESC)
	FROM generate_series(1, turns) AS i, unnest('{user,assistant}'::text[]) AS r
$$;
CREATE FUNCTION ctx.work(calls int) RETURNS jsonb LANGUAGE sql AS $$
	SELECT '[{"role": "user", "content": "Start"}]'::jsonb || jsonb_agg(m ORDER BY i, k) FROM (
		SELECT i, 1, jsonb_build_object('role', 'assistant', 'content', '', 'tool_calls', jsonb_build_array(
			jsonb_build_object('id', 'h' || i, 'name', CASE WHEN i = 1 THEN 'read_file' ELSE 'search' END, 'args', jsonb_build_object('q', 'q' || i))))
		FROM generate_series(1, calls) AS i
		UNION ALL
		SELECT i, 2, jsonb_build_object('role', 'tool', 'tool_call_id', 'h' || i, 'content', i || ':' || repeat('data ', 60))
		FROM generate_series(1, calls) AS i) AS x(i, k, m)
$$;

-- ---------- summarization: when ----------

SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summary_prompt": "Sum up:\n{messages}", "trigger": {"messages": 5}, "keep": {"messages": 2}}');
SELECT mw_fake('ctx', '{"main": [{"text": "ok", "repeat": 9}], "sum": [{"text": " They asked. \n", "repeat": 9}]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(2)); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 0::bigint, 'below its trigger nothing is summarised');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(3), 'Question 4'); END $do$;
SELECT is((SELECT * FROM ctx.sent('sum')), jsonb_build_array(jsonb_build_object('role', 'user', 'content',
	E'Sum up:\n<message type="human">Question 1</message>\n<message type="ai">Answer 1</message>\n<message type="human">Question 2</message>\n'
	'<message type="ai">Answer 2</message>\n<message type="human">Question 3</message>')), 'the part before what is kept is shown as a transcript');
SELECT is((SELECT m->>0 FROM ctx.sent('main') WITH ORDINALITY AS x(m, i) ORDER BY i DESC LIMIT 1),
	'{"role": "user", "content": "Here is a summary of the conversation to date:\n\nThey asked."}', 'the model sees the summary in its place');
SELECT is((SELECT string_agg(t->>'content', '|') FROM ctx.thread() AS t), E'Here is a summary of the conversation to date:\n\nThey asked.|Answer 3|Question 4|ok',
	'and so does the thread');
SELECT is((SELECT count(*) FROM mw.usage WHERE tenant = 'pgtap-ctx' AND purpose = 'summary'), 1::bigint, 'its call is booked with its purpose');

SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 4, "tokens": 100000}, "keep": {"messages": 1}}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(3)); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 1::bigint, 'of an object''s parts all must be reached');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": [{"tokens": 100000}, ["messages", 4]], "keep": ["messages", 1]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(3)); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 2::bigint, 'of a list''s elements one is enough, and Python''s tuples are read');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"fraction": 0.5}, "keep": {"messages": 1}}');
DO $do$ BEGIN PERFORM ctx.run(jsonb_build_array(jsonb_build_object('role', 'user', 'content', repeat('word ', 300))), 'Now?'); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 3::bigint, 'a fraction is of what the model can read');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "keep": {"messages": 1}}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(30)); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 3::bigint, 'without a trigger never');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "max_tokens_before_summary": 200, "messages_to_keep": 1}');
DO $do$ BEGIN PERFORM ctx.run(jsonb_build_array(jsonb_build_object('role', 'user', 'content', repeat('word ', 300))), 'Now?'); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 4::bigint, 'the names of old versions are read');
SELECT ok((SELECT m->0->>'content' LIKE '%<message type="human">word word%</message>%' AND m->0->>'content' LIKE '%## NEXT STEPS%' FROM ctx.sent('sum') AS m LIMIT 1 OFFSET 3),
	'with the default prompt where none is given');

-- what the provider reported counts too: our own count is far below
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"tokens": 5000}, "keep": {"messages": 1}}');
SELECT mw_fake('ctx', '{"main": [{"text": "one", "usage": {"prompt_tokens": 4990, "completion_tokens": 10}}, {"text": "two"}], "sum": [{"text": "S"}]}');
DO $do$ BEGIN PERFORM ctx.run('[]', 'Hello'); END $do$;
DO $do$ BEGIN PERFORM mw_invoke('pgtap-ctx', 's' || currval('ctx.n'), 'And now?', agent => 'a'); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 1::bigint, 'tokens that the provider reported meet a trigger');

-- ---------- summarization: where ----------

SELECT mw_fake('ctx', '{"main": [{"text": "ok", "repeat": 9}], "sum": [{"text": "S", "repeat": 9}]}');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 3}, "keep": {"messages": 1}}');
DO $do$ BEGIN PERFORM ctx.run(ctx.work(2)); END $do$;
SELECT is((SELECT string_agg(t->>'role', ',') FROM ctx.thread() AS t), 'user,assistant,tool,assistant', 'a cut before an answer moves back to its call');
DO $do$ BEGIN PERFORM ctx.run('[{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "name": "search", "args": {"q": "1"}}]},
	{"role": "assistant", "content": "", "tool_calls": [{"id": "y", "name": "search", "args": {"q": "2"}}]},
	{"role": "tool", "tool_call_id": "x", "content": "1"}, {"role": "tool", "tool_call_id": "y", "content": "2"}]'); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('sum')), 2::bigint, 'answers of two messages stay with both of them');
SELECT is((SELECT string_agg(t->>'role', ',') FROM ctx.thread() AS t), 'user,assistant,assistant,tool,tool,assistant', 'so only what stands before is summarised');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 3}, "keep": {"tokens": 20}}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(4)); END $do$;
SELECT is((SELECT string_agg(t->>'content', '|') FROM ctx.thread() AS t), E'Here is a summary of the conversation to date:\n\nS|Question 4|Answer 4|ok', 'keep by tokens');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 3}, "keep": {"fraction": 0.034}}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(4)); END $do$;
SELECT is((SELECT string_agg(t->>'content', '|') FROM ctx.thread() AS t), E'Here is a summary of the conversation to date:\n\nS|Question 4|Answer 4|ok', 'keep by a fraction');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 1}, "keep": {"tokens": 1}}');
DO $do$ BEGIN PERFORM ctx.run('[]', 'Only one'); END $do$;
SELECT is((SELECT count(*) FROM ctx.thread()), 2::bigint, 'a single message is never summarised');

-- A01: whatever is cut where, each result has its call before it and each call its result after it
CREATE FUNCTION ctx.unpaired(m jsonb) RETURNS bigint LANGUAGE sql AS $$
	WITH x AS (SELECT e, i FROM jsonb_array_elements(m) WITH ORDINALITY AS y(e, i)),
		calls AS (SELECT c->>'id' AS id, i FROM x, jsonb_array_elements(e->'tool_calls') AS c),
		results AS (SELECT e->>'tool_call_id' AS id, i FROM x WHERE e->>'role' = 'tool')
	SELECT (SELECT count(*) FROM results AS r WHERE NOT EXISTS (SELECT FROM calls AS c WHERE c.id = r.id AND c.i < r.i))
		+ (SELECT count(*) FROM calls AS c WHERE NOT EXISTS (SELECT FROM results AS r WHERE r.id = c.id AND r.i > c.i))
		+ (SELECT count(*) FROM (SELECT FROM results GROUP BY id HAVING count(*) > 1) AS twice)
$$;
CREATE FUNCTION ctx.random_history() RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	h jsonb := '[{"role": "user", "content": "q"}]';
	open text[] := '{}';
	id text;
	n int := 0;
BEGIN
	FOR i IN 1 .. 5 + floor(random() * 10) LOOP
		IF random() < 0.4 THEN		-- sometimes two messages with calls before the results of either
			open := open || ARRAY(SELECT 'c' || n + k FROM generate_series(1, 1 + floor(random() * 3)::int) AS k);
			h := h || jsonb_build_object('role', 'assistant', 'content', '', 'tool_calls',
				(SELECT jsonb_agg(jsonb_build_object('id', o, 'name', 'search', 'args', '{"q": "x"}'::jsonb)) FROM unnest(open) AS o WHERE substr(o, 2)::int > n));
			n := (SELECT max(substr(o, 2)::int) FROM unnest(open) AS o);
		ELSIF open <> '{}' AND random() < 0.8 THEN
			FOR id IN SELECT o FROM unnest(open) AS o ORDER BY random() LOOP
				h := h || jsonb_build_object('role', 'tool', 'tool_call_id', id, 'content', 'r');
			END LOOP;
			open := '{}';
		ELSE
			h := h || jsonb_build_object('role', CASE WHEN random() < 0.5 THEN 'user' ELSE 'assistant' END, 'content', 't');
		END IF;
	END LOOP;
	RETURN h;
END
$$;
SELECT setseed(0.17);
SELECT mw_set_budget('pgtap-ctx', 'tokens', 'Infinity', session => '*');
SELECT mw_fake('ctx', '{"main": [{"text": "ok", "repeat": 1000}], "sum": [{"text": "S", "repeat": 1000}]}');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 4}, "keep": {"messages": 3}}');
DO $do$ BEGIN FOR i IN 1..250 LOOP PERFORM ctx.run(ctx.random_history(), 'Q'); END LOOP; END $do$;
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 4}, "keep": {"tokens": 40}}');
DO $do$ BEGIN FOR i IN 1..250 LOOP PERFORM ctx.run(ctx.random_history(), 'Q'); END LOOP; END $do$;
SELECT is((SELECT sum(ctx.unpaired(m)) FROM ctx.sent('main') AS m), 0::numeric, '500 histories at random are paired after a summary');
SELECT cmp_ok((SELECT count(*) FROM ctx.sent('sum')), '>', 300::bigint, 'of which most had one');
-- not only because a request is mended before it is sent
SELECT is((SELECT count(*) FROM mw.message AS kept JOIN mw.thread AS gone USING (tenant, session)
	WHERE tenant = 'pgtap-ctx' AND gone.removed_step IS NOT NULL
		AND (gone.message->'tool_calls' @> jsonb_build_array(jsonb_build_object('id', kept.tool_call_id))
			OR kept.tool_calls @> jsonb_build_array(jsonb_build_object('id', gone.message->>'tool_call_id')))),
	0::bigint, 'no cut stands between a call and its result');

-- ---------- summarization: what ----------

SELECT mw_fake('ctx', '{"main": [{"text": "ok", "repeat": 9}], "sum": [{"text": "S", "repeat": 20}]}');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summary_prompt": "{messages}", "trigger": {"messages": 3}, "keep": {"messages": 1}, "trim_tokens_to_summarize": 20}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(4), 'Q'); END $do$;
SELECT is((SELECT m->0->>'content' FROM ctx.sent('sum') AS m), E'<message type="human">Question 4</message>\n<message type="ai">Answer 4</message>',
	'the summariser is shown the last tokens, from a question on');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summary_prompt": "{messages}", "trigger": {"messages": 3}, "keep": {"messages": 1}, "trim_tokens_to_summarize": null}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(400), 'Q'); END $do$;
SELECT is((SELECT regexp_count(m->0->>'content', '<message') FROM ctx.sent('sum') AS m LIMIT 1 OFFSET 1), 800, 'null shows it all');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summary_prompt": "{messages}", "trigger": {"messages": 3}, "keep": {"messages": 1}, "trim_tokens_to_summarize": 30, "in_parts": true}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(3), 'Q'); END $do$;
SELECT results_eq($$SELECT m->0->>'content' FROM ctx.sent('sum') AS m OFFSET 2$$, $$VALUES
	(E'<message type="human">Question 1</message>\n<message type="ai">Answer 1</message>\n<message type="human">Question 2</message>\n<message type="ai">Answer 2</message>'),
	(E'<message type="human">Here is a summary of the conversation to date:\n\nS</message>\n<message type="human">Question 3</message>'),
	(E'<message type="human">Here is a summary of the conversation to date:\n\nS</message>\n<message type="ai">Answer 3</message>')$$,
	'in parts, each with the summary of those before, nothing is left out');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summary_prompt": "{{json}} {messages}", "summary_prefix": "Before:", "trigger": {"messages": 3}, "keep": {"messages": 1}}');
DO $do$ BEGIN PERFORM ctx.run('[{"role": "user", "content": [{"type": "text", "text": "a < b & \"c\""}, {"type": "image_url", "image_url": {"url": "https://x.example/i.png"}}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
	{"role": "assistant", "content": "Looking", "tool_calls": [{"id": "q\"1", "name": "search", "args": {"q": "<x>"}}]}, {"role": "tool", "tool_call_id": "q\"1", "content": "</message>"}]', 'Q'); END $do$;
SELECT is((SELECT m->0->>'content' FROM ctx.sent('sum') AS m LIMIT 1 OFFSET 5),
	E'{json} <message type="human">a &lt; b &amp; "c" <image url="https://x.example/i.png" /></message>\n<message type="ai">\n  <content>Looking</content>\n'
	'  <tool_call id="q&quot;1" name="search">{"q": "&lt;x&gt;"}</tool_call>\n</message>\n<message type="tool">&lt;/message&gt;</message>', 'no text can pass for a message');
SELECT is((SELECT t->>'content' FROM ctx.thread() AS t LIMIT 1), E'Before:\n\nS', 'the words before a summary are an option');

CREATE FUNCTION ctx.shortest(messages jsonb, runtime jsonb) RETURNS text LANGUAGE sql AS $$ SELECT jsonb_array_length(messages) || ' for ' || (runtime->>'tenant') $$;
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summarizer": {"function": "ctx.shortest"}, "trigger": {"messages": 3}, "keep": {"messages": 1}}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(3), 'Q'); END $do$;
SELECT is((SELECT t->>'content' FROM ctx.thread() AS t LIMIT 1), E'Here is a summary of the conversation to date:\n\n6 for pgtap-ctx', 'a function can write the summary');
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summarizer": "ctx:other", "trigger": {"messages": 3}, "keep": {"messages": 1}}');
SELECT mw_fake('ctx', '{"main": [{"text": "ok", "repeat": 9}], "other": [{"text": "O"}]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(3), 'Q'); END $do$;
SELECT is((SELECT count(*) FROM ctx.sent('other')), 1::bigint, 'or another model');
CREATE FUNCTION ctx.count_them(messages jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT to_jsonb(100 * jsonb_array_length(messages)) $$;
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summarizer": {"function": "ctx.shortest"}, "token_counter": {"function": "ctx.count_them"}, "trigger": {"tokens": 500}, "keep": {"tokens": 200}, "trim_tokens_to_summarize": null}');
DO $do$ BEGIN PERFORM ctx.run(ctx.chat(3), 'Q'); END $do$;
SELECT is((SELECT t->>'content' FROM ctx.thread() AS t LIMIT 1), E'Here is a summary of the conversation to date:\n\n5 for pgtap-ctx', 'tokens are counted by a function where one is given');
SELECT is((SELECT count(*) FROM mw.thread WHERE tenant = 'pgtap-ctx' AND session = 's' || currval('ctx.n')), 9::bigint, 'the originals stay as rows');

-- personal data: the thread, the summariser and the summary hold placeholders, and the caller gets values
SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "summary_prompt": "{messages}", "trigger": {"messages": 3}, "keep": {"messages": 1}}');
SELECT mw_fake('ctx', '{"main": [{"text": "Writing to <EMAIL_0>."}], "sum": [{"text": "Write to <EMAIL_0>."}]}');
SELECT is(ctx.run('[{"role": "user", "content": "Remember ana@example.com"}, {"role": "assistant", "content": "ok"}]', 'Now write')->>'output', 'Writing to ana@example.com.', 'a value outlives its summary');
SELECT is((SELECT m->0->>'content' FROM ctx.sent('sum') AS m), E'<message type="human">Remember <EMAIL_0></message>\n<message type="ai">ok</message>', 'the summariser sees a placeholder, as it is');

-- ---------- summarization: failures ----------

SELECT ctx.agent('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 3}, "keep": {"messages": 1}}');
SELECT mw_fake('ctx', '{"main": [{"text": "ok"}], "sum": [{"status": 500}, {"status": 503}, {"text": "S"}]}');
SELECT is(ctx.run(ctx.chat(3), 'Q')->>'output', 'ok', 'a summariser that fails is asked three times');
SELECT mw_fake('ctx', '{"main": [{"text": "ok"}], "sum": [{"status": 500, "repeat": 3}, {"text": "S"}]}');
SELECT is(ctx.run(ctx.chat(3), 'Q', '{"on_error": "return"}')->'error'->>'sqlstate', 'MW402', 'then its error leaves the run');
SELECT is((SELECT count(*) FROM ctx.thread()), 7::bigint, 'and the history stays');
SELECT mw_fake('ctx', '{"main": [{"text": "ok"}], "sum": [{"status": 401}, {"text": "S"}]}');
SELECT is(ctx.run(ctx.chat(3), 'Q', '{"on_error": "return"}')->'error'->>'sqlstate', 'MW401', 'what no repeat mends is not repeated');
SELECT mw_fake('ctx', '{"main": [{"text": "ok"}], "sum": [{"status": 400, "body": {"error": {"message": "This model''s maximum context length is 100 tokens.", "code": "context_length_exceeded"}}}, {"text": "S"}]}');
SELECT is(ctx.run(ctx.chat(50), 'Q')->>'output', 'ok', 'where the prompt is too long for the summariser');
SELECT ok((SELECT m->0->>'content' LIKE '%[... middle of conversation omitted ...]%' FROM ctx.sent('sum') AS m OFFSET 1), 'its middle is left out');

-- ---------- summarization: options that cannot be ----------

CREATE FUNCTION ctx.refused(middleware jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	h text;
BEGIN
	PERFORM ctx.agent(middleware);
	RETURN 'accepted';
EXCEPTION WHEN SQLSTATE 'MW001' THEN
	GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT;
	RETURN CASE WHEN h = '' THEN 'without a hint: ' || SQLERRM ELSE SQLERRM END;
END
$$;
SELECT is(ctx.refused('{"type": "summarization", "model": "ctx:sum", "trigger": {"messages": 0}}'), 'option "trigger" of middleware "summarization" must be a whole number of messages from 1');
SELECT is(ctx.refused('{"type": "summarization", "model": "ctx:sum", "trigger": {"words": 5}}'), 'option "trigger" of middleware "summarization" must be {"tokens": n}, {"messages": n} or {"fraction": 0 to 1}');
SELECT is(ctx.refused('{"type": "summarization", "model": "ctx:sum", "keep": {"messages": 5, "tokens": 5}}'), 'option "keep" of middleware "summarization" must be one size: {"tokens": n}, {"messages": n} or {"fraction": 0 to 1}');
SELECT is(ctx.refused('{"type": "summarization", "model": "ctx:unknown", "trigger": {"fraction": 0.5}}'),
	'option "trigger" of middleware "summarization" is a fraction of what model "ctx:unknown" can read, which is not known');
SELECT is(ctx.refused('{"type": "summarization", "model": "ctx:sum", "summary_prompt": "Sum up."}'), 'option "summary_prompt" of middleware "summarization" must be a text with {messages} where the conversation is to stand');
SELECT is(ctx.refused('{"type": "summarization", "model": "ctx:sum", "keep_messages": 5}'), 'unknown option "keep_messages" of middleware "summarization"');

-- ---------- context_editing ----------

SELECT mw_fake('ctx', '{"main": [{"text": "ok", "repeat": 20}]}');
CREATE FUNCTION ctx.results() RETURNS text LANGUAGE sql AS $$	-- of the last request: what the tools' results begin with, and the arguments of calls
	SELECT string_agg(coalesce(left(m->>'content', 9), ''), ',') FROM (
		SELECT jsonb_array_elements(body->'messages') AS m FROM (SELECT body FROM public.mw_fake_requests('ctx') ORDER BY n DESC LIMIT 1) AS r) AS x WHERE m->>'role' = 'tool'
$$;
SELECT ctx.agent('{"type": "context_editing"}');
DO $do$ BEGIN PERFORM ctx.run(ctx.work(4), 'Now?'); END $do$;
SELECT is(ctx.results(), '1:data da,2:data da,3:data da,4:data da', 'by default nothing is cleared below 100,000 tokens');
SELECT ctx.agent('{"type": "context_editing", "edits": [{"type": "clear_tool_uses", "trigger": 100, "keep": 1}]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.work(4), 'Now?'); END $do$;
SELECT is(ctx.results(), '[cleared],[cleared],[cleared],4:data da', 'old results are cleared, the newest stays');
SELECT is((SELECT count(*) FROM ctx.thread() AS t WHERE t->>'content' LIKE '%data data%'), 4::bigint, 'in the request alone, not in the thread');
SELECT ctx.agent('{"type": "context_editing", "edits": [{"type": "clear_tool_uses", "trigger": 100, "keep": 0, "exclude_tools": ["read_file"], "placeholder": "(gone)"}]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.work(3), 'Now?'); END $do$;
SELECT is(ctx.results(), '1:data da,(gone),(gone)', 'but for results of excluded tools; keep 0 keeps none; the placeholder is an option');
SELECT ctx.agent('{"type": "context_editing", "edits": [{"type": "clear_tool_uses", "trigger": 100, "keep": 0, "clear_at_least": 100, "clear_tool_inputs": true}]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.work(4), 'Now?'); END $do$;
SELECT is(ctx.results(), '[cleared],[cleared],3:data da,4:data da', 'clearing stops once enough is reclaimed');
SELECT is((SELECT jsonb_path_query_array(body, '$.messages[*].tool_calls[*].function.arguments') FROM mw_fake_requests('ctx') ORDER BY n DESC LIMIT 1),
	'["{}", "{}", "{\"q\": \"q3\"}", "{\"q\": \"q4\"}"]', 'the arguments of cleared calls go too');
SELECT ctx.agent('{"type": "context_editing", "edits": [{"type": "clear_tool_uses", "trigger": 100, "keep": 3}, {"trigger": {"messages": 5, "fraction": 0.1}, "keep": {"tokens": 200}, "placeholder": "(late)"}]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.work(4), 'Now?'); END $do$;
SELECT is(ctx.results(), '[cleared],(late),3:data da,4:data da', 'several edits in order, a trigger of sizes, results kept by tokens');
SELECT ctx.agent('{"type": "context_editing", "edits": [{"trigger": 100, "keep": 0}], "token_counter": {"function": "ctx.count_them"}}');
DO $do$ BEGIN PERFORM ctx.run('[{"role": "user", "content": "Start"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "h1", "name": "search", "args": {"q": "q1"}}]}, {"role": "tool", "tool_call_id": "h1", "status": "error", "content": "short"}]', 'Now?'); END $do$;
SELECT is(ctx.results(), '[cleared]', 'tokens by a function');
SELECT is((SELECT t->>'status' FROM ctx.thread() AS t WHERE t->>'role' = 'tool'), 'error', 'and the status stays');
SELECT ctx.agent('{"type": "context_editing", "edits": [{"trigger": 500, "keep": 0}], "token_count_method": "model"}', jsonb_build_object('system_prompt', repeat('long ', 2000)));
DO $do$ BEGIN PERFORM ctx.run(ctx.work(1), 'Now?'); END $do$;
SELECT is(ctx.results(), '[cleared]', 'by the model''s count the system prompt counts too');
-- A03: an edit that is kept is made once, and again only after the trigger was crossed again
SELECT ctx.agent('{"type": "context_editing", "persist": true, "edits": [{"trigger": 300, "keep": 1}]}');
SELECT mw_fake('ctx', '{"main": [{"text": "ok", "repeat": 20}]}');
DO $do$ BEGIN PERFORM ctx.run(ctx.work(4), 'Now?'); END $do$;
SELECT is(ctx.results(), '[cleared],[cleared],[cleared],4:data da', 'an edit that is kept is in the request');
SELECT is((SELECT string_agg(left(t->>'content', 9), ',') FROM ctx.thread() AS t WHERE t->>'role' = 'tool'), '[cleared],[cleared],[cleared],4:data da', 'and in the thread');
DO $do$ BEGIN FOR i IN 1..5 LOOP PERFORM mw_invoke('pgtap-ctx', 's' || currval('ctx.n'), 'And?', agent => 'a'); END LOOP; END $do$;
SELECT is((SELECT count(*) FROM mw.thread WHERE tenant = 'pgtap-ctx' AND session = 's' || currval('ctx.n') AND removed_step IS NOT NULL), 3::bigint, 'in the turns that follow it is not made again');
SELECT is((SELECT count(*) FROM (SELECT body->'messages' AS m, lag(body->'messages') OVER (ORDER BY n) AS before FROM mw_fake_requests('ctx')) AS r
	WHERE before IS NOT NULL AND (SELECT jsonb_agg(x ORDER BY i) FROM jsonb_array_elements(m) WITH ORDINALITY AS e(x, i) WHERE i <= jsonb_array_length(before)) = before),
	5::bigint, 'each request begins as the one before');
SELECT is(ctx.refused('{"type": "context_editing", "edits": [{"type": "compact"}]}'), 'option "edits.type" of middleware "context_editing" must be "clear_tool_uses"');
SELECT is(ctx.refused('{"type": "context_editing", "edits": [{"keep": -1}]}'), 'option "keep" of middleware "context_editing" must be a whole number from 0');

SELECT * FROM finish();
ROLLBACK;
