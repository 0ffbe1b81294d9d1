-- Risk: a hook that is shown values gives them to a model, the thread, the state or a trace; one that was not granted
-- them sees them; what it hands on unchanged is taken for something new.
BEGIN;
SELECT plan(29);

CREATE SERVER rev FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-rev', '{"model": "rev:m", "cache": false, "guardrail": false}');
SELECT mw_create_recognizer('BADGE', 'B-[0-9]{4}(?= badge)', '{}', 'pgtap-rev');	-- found by the word behind it alone
CREATE SCHEMA rev;
CREATE TABLE rev.saw (hook text, what jsonb);
CREATE FUNCTION rev.note(hook text, what jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO rev.saw VALUES (hook, what) $$;
CREATE FUNCTION rev.look(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN PERFORM rev.note('look', state->'messages'->-1->'content'); RETURN NULL; END $$;
CREATE FUNCTION rev.say(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE said text := state->'messages'->-1->>'content';
BEGIN
	PERFORM rev.note('say', to_jsonb(said));
	RETURN jsonb_build_object('messages', jsonb_build_array(jsonb_build_object('role', 'user', 'content', 'You said: ' || replace(said, ' badge', '') || ', new@example.net')),
		'heard', jsonb_build_object('text', said, 'name', substring(said FROM 'B-[0-9]+'), substring(said FROM 'B-[0-9]+'), 1, 'more', 'new@example.net'));
END $$;
CREATE FUNCTION rev.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE answer jsonb;
BEGIN
	PERFORM rev.note('request', request->'messages'->0->'content');
	PERFORM rev.note('state', request->'state'->'messages'->0->'content');
	PERFORM rev.note('mw_state', mw_state()->'messages'->0->'content');
	answer := mw_next(request || jsonb_build_object('system_prompt', 'Speak to ' || (request->'messages'->0->>'content')));
	PERFORM rev.note('answer', answer->'result'->0->'content');
	RETURN answer;
END $$;
CREATE FUNCTION rev.around_tool(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE answer jsonb;
BEGIN
	PERFORM rev.note('args', request->'tool_call'->'args');
	answer := mw_next(request);
	PERFORM rev.note('result', answer->'content');
	RETURN to_jsonb('told ' || (answer->>'content'));
END $$;
CREATE FUNCTION rev.mail(to_whom text) RETURNS text LANGUAGE sql AS $$ SELECT 'mailed to ' || to_whom $$;
CREATE FUNCTION rev.post(to_whom text) RETURNS text LANGUAGE sql AS $$ SELECT rev.note('post', to_jsonb(to_whom)); SELECT 'posted' $$;
SELECT mw_create_tool('mail', 'rev.mail(text)', 'Sends.', tenant => 'pgtap-rev');
SELECT mw_create_tool('post', 'rev.post(text)', 'Posts.', options => '{"reveal": false, "writes": true}', tenant => 'pgtap-rev');

CREATE FUNCTION pg_temp.agent(name text, middleware jsonb, settings jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
	SELECT mw_create_agent(name, settings || jsonb_build_object('middleware', middleware, 'tools', '["mail", "post"]'::jsonb), 'pgtap-rev')
$$;
CREATE FUNCTION pg_temp.sent(path text) RETURNS text LANGUAGE sql AS $$ SELECT body #>> path::text[] FROM mw_fake_requests('rev') ORDER BY n DESC LIMIT 1 $$;
CREATE FUNCTION pg_temp.saw(which text) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(what #>> '{}', ' | ') FROM rev.saw WHERE hook = which $$;

-- ---------- who is shown ----------

SELECT mw_fake('rev', '{"m": [{"text": "ok", "repeat": 100}]}');
SELECT pg_temp.agent('no', '[{"type": "custom", "name": "a", "hooks": {"before_model": "rev.look"}}]');
DO $$ BEGIN PERFORM mw_ask('pgtap-rev', 's0', 'I am ann@example.com.', agent => 'no'); END $$;
SELECT is(pg_temp.saw('look'), 'I am <EMAIL_0>.', 'a hook sees placeholders');
SELECT pg_temp.agent('all', '[{"type": "custom", "name": "a", "hooks": {"before_model": "rev.look"}}]', '{"reveal": true}');
DO $$ BEGIN DELETE FROM rev.saw; PERFORM mw_ask('pgtap-rev', 's1', 'I am ann@example.com.', agent => 'all'); END $$;
SELECT is(pg_temp.saw('look'), 'I am ann@example.com.', 'unless the agent says otherwise');
SELECT is(pg_temp.sent('{messages,-1,content}'), 'I am <EMAIL_0>.', 'the model still does not');
SELECT pg_temp.agent('types', '[{"type": "custom", "name": "a", "hooks": {"before_model": "rev.look"}}]', '{"reveal": ["badge"]}');
DO $$ BEGIN DELETE FROM rev.saw; PERFORM mw_ask('pgtap-rev', 's2', 'I am ann@example.com, B-1234 badge', agent => 'types'); END $$;
SELECT is(pg_temp.saw('look'), 'I am <EMAIL_0>, B-1234 badge', 'for these types alone');
SELECT pg_temp.agent('named', '[{"type": "custom", "name": "a", "hooks": {"before_model": "rev.look"}}, {"type": "custom", "name": "b", "hooks": {"before_model": "rev.look"}}]', '{"reveal": {"b": true}}');
DO $$ BEGIN DELETE FROM rev.saw; PERFORM mw_ask('pgtap-rev', 's3', 'I am ann@example.com.', agent => 'named'); END $$;
SELECT is(pg_temp.saw('look'), 'I am <EMAIL_0>. | I am ann@example.com.', 'or for these middlewares alone');
SELECT ok(EXISTS (SELECT FROM mw.trace WHERE tenant = 'pgtap-rev' AND session = 's3' AND name = 'before_model of b, shown values'), 'the trace says who was');
SELECT ok(EXISTS (SELECT FROM mw.trace WHERE tenant = 'pgtap-rev' AND session = 's3' AND name = 'before_model of a'), 'and who was not');
SELECT throws_ok($$SELECT pg_temp.agent('bad', '[]', '{"reveal": "email"}')$$, 'MW001', NULL, 'another value is refused');
SELECT throws_ok($$SELECT pg_temp.agent('bad', '[{"type": "custom", "name": "a", "hooks": {"before_model": "rev.look"}}]', '{"reveal": ["NO_SUCH"]}')$$, 'MW001',
	'unknown type "NO_SUCH" in option "reveal" of an agent', 'and a type that nobody finds');
SELECT throws_ok($$SELECT pg_temp.agent('bad', '[{"type": "todo_list"}]', '{"reveal": {"todo_list": true}}')$$, 'MW001', NULL, 'and a middleware that has no hooks of yours');
CREATE ROLE rev_app;
SELECT mw_grant_tenant('pgtap-rev', 'rev_app');
SET LOCAL ROLE rev_app;
SELECT throws_ok($$SELECT mw_alter_agent('no', '{"reveal": true}', 'pgtap-rev')$$, '42501', NULL, 'a role that may use an agent cannot grant it');
RESET ROLE;

-- ---------- what comes back ----------

SELECT pg_temp.agent('say', '[{"type": "custom", "name": "a", "hooks": {"before_model": "rev.say"}, "state": {"heard": {}}}]', '{"reveal": true, "trace": "full"}');
CREATE TEMPORARY TABLE r AS SELECT mw_invoke('pgtap-rev', 's4', 'I am ann@example.com, B-1234 badge', agent => 'say') AS r;
SELECT is(pg_temp.saw('say'), 'I am ann@example.com, B-1234 badge', 'a hook that is shown values');
SELECT is(pg_temp.sent('{messages,-1,content}'), 'You said: I am <EMAIL_0>, <BADGE_0>, <EMAIL_1>', 'gives a model none of them, nor new ones, found by a recognizer or not');
SELECT is((SELECT string_agg(content #>> '{}', ' | ' ORDER BY position) FROM mw.message WHERE tenant = 'pgtap-rev' AND session = 's4'),
	'I am <EMAIL_0>, <BADGE_0> badge | You said: I am <EMAIL_0>, <BADGE_0>, <EMAIL_1> | ok', 'nor the thread');
SELECT ok((SELECT state::text !~ 'ann@example|B-1234|new@example' FROM mw.session WHERE tenant = 'pgtap-rev' AND session = 's4'), 'nor the state, keys included');
SELECT is((SELECT state #>> '{heard,text}' FROM mw.session WHERE tenant = 'pgtap-rev' AND session = 's4'), 'I am <EMAIL_0>, <BADGE_0> badge', 'which has placeholders');
SELECT ok((SELECT bool_and(coalesce(t.input::text, '') || coalesce(t.output::text, '') !~ 'ann@example|B-1234|new@example') FROM mw.trace AS t WHERE tenant = 'pgtap-rev' AND session = 's4'), 'nor the trace');
SELECT ok(r::text LIKE '%"I am ann@example.com, B-1234 badge"%', 'the caller has his values') FROM r;

-- ---------- wrap hooks ----------

DO $$ BEGIN DELETE FROM rev.saw; PERFORM mw_fake('rev', '{"m": [{"tool_calls": [{"id": "c1", "name": "mail", "arguments": {"to_whom": "<EMAIL_0>"}}, {"id": "c2", "name": "post", "arguments": {"to_whom": "<EMAIL_0>"}}]}, {"text": "Sent to <EMAIL_0>."}]}'); END $$;
SELECT pg_temp.agent('wrap', '[{"type": "custom", "name": "a", "hooks": {"wrap_model_call": "rev.around", "wrap_tool_call": "rev.around_tool"}}]', '{"reveal": true, "system_prompt": "Be kind."}');
SELECT is(mw_ask('pgtap-rev', 's5', 'Mail ann@example.com.', agent => 'wrap'), 'Sent to ann@example.com.', 'a run with wrap hooks that are shown values');
SELECT is(pg_temp.saw('request'), 'Mail ann@example.com. | Mail ann@example.com.', 'they see them in the request');
SELECT is(pg_temp.saw('state') || pg_temp.saw('mw_state'), repeat('Mail ann@example.com. | Mail ann@example.com.', 2), 'and in the state');
SELECT is(pg_temp.saw('answer'), ' | Sent to ann@example.com.', 'in what mw_next returns');
SELECT is(pg_temp.saw('args'), '{"to_whom": "ann@example.com"} | {"to_whom": "ann@example.com"}', 'and in arguments');
SELECT is(pg_temp.saw('post'), '<EMAIL_0>', 'a tool that is not to see them does not, though the hook around it has handed them on');
SELECT is(pg_temp.saw('result'), 'mailed to ann@example.com | posted', 'results are shown with values again');
SELECT is(pg_temp.sent('{messages,0,content}'), 'Speak to Mail <EMAIL_0>.', 'a system prompt that a hook writes has placeholders');
SELECT is((SELECT string_agg(content #>> '{}', ' | ' ORDER BY position) FROM mw.message WHERE tenant = 'pgtap-rev' AND session = 's5'),
	'Mail <EMAIL_0>. |  | told mailed to <EMAIL_0> | told posted | Sent to <EMAIL_0>.', 'and so has the thread');
SELECT is((SELECT string_agg(body #>> '{messages,-1,content}', ' | ' ORDER BY n) FROM mw_fake_requests('rev')), 'Mail <EMAIL_0>. | told posted', 'and every request');
SELECT is((SELECT count(DISTINCT id) FROM mw.message WHERE tenant = 'pgtap-rev' AND session = 's5'), 5::bigint, 'and no message is taken for a new one');

SELECT * FROM finish();
ROLLBACK;
