-- Risk: what a model, a tool or a hook gives that nobody expects breaks a run in a way that loses something, or leaves a
-- session that cannot be used any more.  Each part ends with a turn of the same session.
BEGIN;
SELECT plan(93);

CREATE SERVER bad FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-bad', '{"model": "bad:m", "cache": false, "guardrail": false, "retry": 1}');
SELECT mw_set_budget('pgtap-bad', 'tokens', 'Infinity', session => '*');
CREATE ROLE bad_app;
CREATE SCHEMA bad;
GRANT USAGE, CREATE ON SCHEMA bad TO bad_app;
GRANT USAGE ON FOREIGN SERVER bad TO bad_app;
SELECT mw_grant_tenant('pgtap-bad', 'bad_app');
CREATE TABLE bad.done (what text);
GRANT SELECT, INSERT ON bad.done TO bad_app;

CREATE FUNCTION bad.script(VARIADIC steps jsonb[]) RETURNS void LANGUAGE sql AS $$ SELECT public.mw_fake('bad', jsonb_build_object('m', to_jsonb(steps))) $$;
CREATE FUNCTION bad.calls(calls jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_build_object('tool_calls', calls) $$;
CREATE FUNCTION bad.call(tool text, args jsonb DEFAULT '{}', id text DEFAULT 'c1') RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('id', id, 'name', tool, 'arguments', args)
$$;
CREATE FUNCTION bad.run(session text, agent text DEFAULT 'a', options jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
	SELECT public.mw_invoke('pgtap-bad', session, 'Go', agent => agent, options => '{"on_error": "return", "limits": {"tokens": 100000000}}' || options)
$$;
CREATE FUNCTION bad.results(s text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(left(content #>> '{}', 200), ' | ' ORDER BY position) FROM mw.message WHERE tenant = 'pgtap-bad' AND session = s AND role = 'tool'
$$;
-- the session's next turn: its answer, and that every call in the request has exactly one result
CREATE FUNCTION bad.goes_on(session text, agent text DEFAULT 'a') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	wrong text;
BEGIN
	PERFORM bad.script('{"text": "fine"}');
	said := public.mw_ask('pgtap-bad', session, 'And now?', agent => agent, options => '{"limits": {"tokens": 100000000}}');
	SELECT string_agg(c.id, ', ') INTO wrong
	FROM public.mw_fake_requests('bad') AS r,
		LATERAL (SELECT k->>'id' AS id, count(*) AS n FROM jsonb_array_elements(r.body->'messages') AS m, jsonb_array_elements(coalesce(m->'tool_calls', '[]')) AS k GROUP BY 1) AS c
		LEFT JOIN LATERAL (SELECT m->>'tool_call_id' AS id, count(*) AS n FROM jsonb_array_elements(r.body->'messages') AS m WHERE m ? 'tool_call_id' GROUP BY 1) AS t ON t.id = c.id
	WHERE c.n IS DISTINCT FROM t.n;
	RETURN concat_ws(', unpaired: ', said, wrong);
END $$;

CREATE FUNCTION bad.echo(what text DEFAULT 'nothing') RETURNS text LANGUAGE sql AS $$ INSERT INTO bad.done VALUES (left(what, 20)); SELECT 'echo ' || what $$;
CREATE FUNCTION bad.raises(code text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO bad.done VALUES ('raised'); RAISE EXCEPTION 'raised %', code USING ERRCODE = code; END $$;
CREATE FUNCTION bad.null_result() RETURNS text LANGUAGE sql AS $$ SELECT NULL::text $$;
CREATE FUNCTION bad.nothing() RETURNS void LANGUAGE sql AS $$ SELECT $$;
CREATE FUNCTION bad.commits() RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO bad.done VALUES ('committed'); COMMIT; RETURN 'committed'; END $$;
CREATE FUNCTION bad.rolls_back() RETURNS text LANGUAGE plpgsql AS $$ BEGIN ROLLBACK; RETURN 'rolled back'; END $$;
CREATE FUNCTION bad.set_role() RETURNS text LANGUAGE plpgsql AS $$ BEGIN SET ROLE bad_app; RETURN current_user; END $$;
CREATE FUNCTION bad.set_config_role() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('role', 'bad_app', false); RETURN current_user; END $$;
CREATE FUNCTION bad.set_session() RETURNS text LANGUAGE plpgsql AS $$ BEGIN SET SESSION AUTHORIZATION bad_app; RETURN session_user; END $$;
CREATE FUNCTION bad.set_tenant() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('mw.tenant', 'other', false); RETURN public.mw_ask('other', NULL, 'x'); END $$;
CREATE FUNCTION bad.sleeps() RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO bad.done VALUES ('slept'); PERFORM pg_sleep(60); RETURN ''; END $$;
CREATE FUNCTION bad.loops() RETURNS text LANGUAGE plpgsql AS $$ BEGIN LOOP PERFORM 1; END LOOP; END $$;
CREATE FUNCTION bad.drops_itself() RETURNS text LANGUAGE plpgsql AS $$ BEGIN DROP FUNCTION bad.drops_itself(); RETURN 'gone'; END $$;
CREATE FUNCTION bad.alters() RETURNS text LANGUAGE sql AS $$ SELECT public.mw_alter_agent('changing', '{"system_prompt": "Second.", "tools": []}', 'pgtap-bad'); SELECT 'altered' $$;
CREATE FUNCTION bad.drops() RETURNS text LANGUAGE sql AS $$ SELECT public.mw_drop_agent('changing', 'pgtap-bad'); SELECT 'dropped' $$;
SELECT mw_create_tool(n, 'bad.' || n, n, options => '{"writes": true}' || CASE WHEN n IN ('sleeps', 'loops') THEN '{"timeout": 0.2}'::jsonb ELSE '{}' END, tenant => 'pgtap-bad')
FROM unnest('{echo,raises,null_result,nothing,commits,rolls_back,set_role,set_config_role,set_session,set_tenant,sleeps,loops,drops_itself,alters,drops}'::text[]) AS n;
SELECT mw_create_agent('a', jsonb_build_object('tools', (SELECT jsonb_agg(n) FROM
	unnest('{echo,raises,null_result,nothing,commits,rolls_back,set_role,set_config_role,set_session,set_tenant,sleeps,loops,drops_itself}'::text[]) AS n)), 'pgtap-bad');

-- ---------- what a model says ----------

SELECT bad.script(bad.calls('[{"id": "c1", "name": "echo", "arguments_raw": "{\"what\": "}, {"id": "c2", "name": "echo", "arguments_raw": "7"}, {"id": "c3", "name": "echo", "arguments": {"what": "x"}}]'), '{"text": "ok"}');
SELECT is(bad.run('m1')->>'output', 'ok', 'malformed arguments beside good ones');
SELECT is(bad.results('m1'), 'Tool call echo with id c1 could not be executed - arguments were malformed or truncated. | Tool call echo with id c2 could not be executed - arguments were malformed or truncated. | echo x',
	'are told to the model, and the good ones run');
SELECT is(bad.goes_on('m1'), 'fine', 'the session goes on');
SELECT bad.script(bad.calls('[{"id": "c1", "name": "echo", "arguments_raw": "{"}]'));
SELECT is(bad.run('m2')->>'status', 'completed', 'malformed arguments alone end the run');
SELECT is(bad.goes_on('m2'), 'fine', 'and are answered in the next one');
SELECT bad.script(bad.calls(jsonb_build_array(bad.call('no_such'), bad.call(repeat('x', 100000), '{}', 'c2'))), '{"text": "ok"}');
SELECT is(bad.run('m3')->>'output', 'ok', 'unknown and endless names of tools');
SELECT is((SELECT count(*) FROM mw.message WHERE tenant = 'pgtap-bad' AND session = 'm3' AND content #>> '{}' LIKE 'Error: % is not a valid tool%'), 2::bigint, 'are told to the model');
SELECT bad.script(bad.calls(jsonb_build_array(bad.call(''))), '{"text": "ok"}');
CREATE TEMPORARY TABLE m3 AS SELECT bad.run('m3') AS r;
SELECT is(r->'error'->>'sqlstate', 'MW405', 'a call that names none is an answer that cannot be used') FROM m3;
SELECT ok((SELECT bool_and(value::text::bigint >= 0) FROM m3, jsonb_each(r->'timings')), 'no stage of a run that failed took less than no time');
SELECT is(bad.goes_on('m3'), 'fine', 'the session goes on');
SELECT bad.script(bad.calls(jsonb_build_array(bad.call('echo', '{"what": "1"}'), bad.call('echo', '{"what": "2"}'))), '{"text": "ok"}');
SELECT is(bad.run('m4')->>'output', 'ok', 'two calls under one id');
SELECT is(bad.results('m4'), 'echo 1 | echo 2', 'both run, each with its result');
SELECT is(bad.goes_on('m4'), 'fine', 'the session goes on');
SELECT bad.script(bad.calls(jsonb_build_array(bad.call('echo', '{"what": "1"}', ''), bad.call('echo', '{"what": "2"}', ''))), '{"text": "ok"}');
SELECT is(bad.run('m5')->>'output', 'ok', 'calls with empty ids');
SELECT is(bad.results('m5'), 'echo 1 | echo 2', 'run too');
SELECT is(bad.goes_on('m5'), 'fine', 'the session goes on');
SELECT bad.script(bad.calls('[{"name": "echo", "arguments": {"what": "1"}}, {"name": "echo", "arguments": {"what": "2"}}]'), '{"text": "ok"}');
SELECT is(bad.run('m6')->>'output', 'ok', 'and calls without any');
SELECT is(bad.results('m6'), 'echo 1 | echo 2', 'as well');
SELECT is(bad.goes_on('m6'), 'fine', 'the session goes on');
SELECT bad.script(bad.calls(jsonb_build_array(bad.call('echo', jsonb_build_object('what', repeat('x', 10000000))))), '{"text": "ok"}');
SELECT is(bad.run('m7')->>'output', 'ok', 'arguments of 10 MB');
SELECT ok((SELECT length(content #>> '{}') < 70000 FROM mw.message WHERE tenant = 'pgtap-bad' AND session = 'm7' AND role = 'tool'), 'reach the tool, whose result is cut');
SELECT is(bad.goes_on('m7'), 'fine', 'the session goes on');
SELECT bad.script(bad.calls((SELECT jsonb_agg(bad.call('echo', '{"what": "many"}', 'c' || n)) FROM generate_series(1, 1500) AS n)), '{"text": "ok"}');
SELECT is(bad.run('m8')->>'output', 'ok', 'more calls in one message than anybody wants');
SELECT is((SELECT count(*) FROM bad.done WHERE what = 'many'), 1500::bigint, 'run');
SELECT is(bad.goes_on('m8'), 'fine', 'the session goes on');
SELECT mw_create_agent('few', '{"tools": ["echo"], "middleware": [{"type": "tool_call_limit", "run_limit": 3}]}', 'pgtap-bad');
SELECT bad.script(bad.calls((SELECT jsonb_agg(bad.call('echo', '{"what": "few"}', 'c' || n)) FROM generate_series(1, 1500) AS n)), '{"text": "ok"}');
SELECT is(bad.run('m9', 'few')->>'output', 'ok', 'a limit of calls');
SELECT is((SELECT count(*) FROM bad.done WHERE what = 'few'), 3::bigint, 'lets so many run');
SELECT is(bad.goes_on('m9', 'few'), 'fine', 'and answers the others');

-- time is asked for between the calls of one message too
CREATE FUNCTION bad.naps() RETURNS text LANGUAGE sql AS $$ INSERT INTO bad.done VALUES ('napped'); SELECT 'napped' FROM pg_sleep(0.7) $$;
SELECT mw_create_tool('naps', 'bad.naps()', 'Naps.', options => '{"writes": true}', tenant => 'pgtap-bad');
SELECT mw_create_agent('tired', '{"tools": ["naps"]}', 'pgtap-bad');
SELECT bad.script(bad.calls((SELECT jsonb_agg(bad.call('naps', '{}', 'c' || n)) FROM generate_series(1, 100) AS n)), '{"text": "ok"}');
SELECT is(bad.run('w1', 'tired', '{"limits": {"wall": 2}}')->'error'->>'sqlstate', 'MW601', 'a run whose time is up does not begin another tool');
SELECT is(bad.goes_on('w1', 'tired'), 'fine', 'the session goes on');
SELECT mw_alter_agent('tired', '{"limits": {"wall": 2, "exit_behavior": "end"}}', 'pgtap-bad');
SELECT bad.script(bad.calls((SELECT jsonb_agg(bad.call('naps', '{}', 'c' || n)) FROM generate_series(1, 100) AS n)), '{"text": "ok"}');
SELECT is(bad.run('w2', 'tired')->>'ended_by', 'wall', 'or ends');
SELECT ok(bad.results('w2') LIKE 'napped | %Tool call naps was not run: the time of the run is up.', 'with an answer to each call');
SELECT ok((SELECT count(*) < 10 FROM bad.done WHERE what = 'napped'), 'of which few have run');

-- ---------- what a tool does ----------

CREATE FUNCTION pg_temp.outcome(tool text, args jsonb DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE r jsonb;
BEGIN
	PERFORM bad.script(bad.calls(jsonb_build_array(bad.call(tool, args))), '{"text": "ok"}');
	r := bad.run('t-' || tool);
	RETURN CASE WHEN r ? 'error' THEN concat_ws(' ', r->'error'->>'sqlstate', substring(r->'error'->>'detail' FROM 'SQLSTATE ([0-9A-Z]{5})'))
		ELSE (r->>'output') || ': ' || bad.results('t-' || tool) END;
EXCEPTION WHEN query_canceled OR OTHERS THEN
	RETURN 'raised ' || SQLSTATE;
END $$;
SELECT is(pg_temp.outcome('null_result'), 'ok: ', 'a tool that returns NULL');
SELECT is(pg_temp.outcome('nothing'), 'ok: ', 'or nothing');
SELECT is(pg_temp.outcome('commits'), 'MW701 2D000', 'one that commits');
SELECT is((SELECT count(*) FROM bad.done WHERE what = 'committed'), 0::bigint, 'has committed nothing');
SELECT is(pg_temp.outcome('rolls_back'), 'MW701 2D000', 'one that rolls back');
SELECT is(pg_temp.outcome('set_role'), 'MW701 42501', 'one that sets the role');
SELECT is(pg_temp.outcome('set_config_role'), 'MW701 42501', 'by set_config');
SELECT is(pg_temp.outcome('set_session'), 'MW701 42501', 'or the session''s');
SELECT is(pg_temp.outcome('set_tenant'), 'raised MW101', 'one that makes itself another tenant''s');
SELECT is(current_setting('mw.tenant', true), '', 'which it is not afterwards');
SELECT is(pg_temp.outcome('sleeps'), 'MW701', 'one that sleeps');
SELECT is((SELECT count(*) FROM bad.done WHERE what = 'slept'), 0::bigint, 'what it had done is undone');
SELECT is(pg_temp.outcome('loops'), 'MW701', 'one that loops');
SELECT is(pg_temp.outcome('drops_itself'), 'ok: gone', 'one that drops itself');
SELECT is(bad.goes_on('t-' || n, CASE n WHEN 'drops_itself' THEN 'few' ELSE 'a' END), 'fine', 'the session goes on after ' || n)
FROM unnest('{drops_itself}'::text[]) AS n;
SELECT throws_ok($$SELECT bad.run('x')$$, 'MW001', NULL, 'an agent whose tool is gone says so');
SELECT mw_alter_agent('a', jsonb_build_object('tools', (SELECT jsonb_agg(n) FROM
	unnest('{echo,raises,null_result,nothing,commits,rolls_back,set_role,set_config_role,set_session,set_tenant,sleeps,loops}'::text[]) AS n)), 'pgtap-bad');
SELECT is(bad.goes_on('t-' || n), 'fine', 'the session goes on after ' || n)
FROM unnest('{null_result,nothing,commits,rolls_back,set_role,set_config_role,set_session,set_tenant,sleeps,loops}'::text[]) AS n;

-- every class of SQLSTATE: as MW701 with the tool's own code; what no run can go on after leaves it
SELECT is((SELECT string_agg(c || ' ' || o, ', ' ORDER BY c) FROM
		(SELECT c, pg_temp.outcome('raises', jsonb_build_object('code', c)) AS o FROM
			unnest('{01000,02000,03000,08006,09000,0A000,0B000,0F000,0L000,0P000,0Z000,20000,21000,22012,23505,24000,25006,26000,27000,28000,2B000,2D000,2F000,34000,38000,39000,3B001,3D000,3F000,40000,42883,44000,53000,53300,54001,55P03,58030,72000,F0000,HV000,P0001,XX000,XX001,ZZZZZ}'::text[]) AS c) AS x
		WHERE o <> 'MW701 ' || c), NULL, 'a tool''s own error of each class is MW701 with its code');
SELECT is((SELECT string_agg(c || ' ' || o, ', ' ORDER BY c) FROM
		(SELECT c, pg_temp.outcome('raises', jsonb_build_object('code', c)) AS o FROM unnest('{40001,40P01,53200,57014,57P01,57P02,57P03,57P04,MW101,MW501,MW502,MW605}'::text[]) AS c) AS x
		WHERE o <> 'raised ' || c), NULL, 'what must not be caught leaves the run as it is');
SELECT is((SELECT count(*) FROM bad.done WHERE what = 'raised'), 0::bigint, 'each with what it had done');
SELECT is(bad.goes_on('t-raises'), 'fine', 'and the session goes on');
SELECT ok(o ~ '^(MW|raised )', 'a tool that raises mw''s own code ' || c || ' ends the run with an error: ' || o)
FROM (SELECT c, pg_temp.outcome('raises', jsonb_build_object('code', c)) AS o FROM unnest('{MW001,MW201,MW202,MW301,MW401,MW402,MW404,MW601,MW603,MW699,MW701,MW702}'::text[]) AS c) AS x;
SELECT is(bad.goes_on('t-raises'), 'fine', 'and the session goes on');

-- ---------- what a hook does ----------

CREATE FUNCTION bad.hook(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT (runtime->'context'->>'returns')::jsonb $$;
SELECT mw_create_agent('h', '{"middleware": [{"type": "custom", "name": "h", "hooks": {"before_model": "bad.hook"}, "can_jump_to": ["end"], "state": {"n": {"default": 0}}}]}', 'pgtap-bad');
SELECT mw_create_agent('hw', '{"middleware": [{"type": "custom", "name": "h", "hooks": {"wrap_model_call": "bad.hook"}}]}', 'pgtap-bad');
SELECT mw_create_agent('ht', '{"tools": ["echo"], "middleware": [{"type": "custom", "name": "h", "hooks": {"wrap_tool_call": "bad.hook"}}]}', 'pgtap-bad');
CREATE FUNCTION pg_temp.hook(agent text, returns text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM bad.script(bad.calls(jsonb_build_array(bad.call('echo'))), '{"text": "ok"}');
	RETURN bad.run('h-' || agent, agent, jsonb_build_object('context', jsonb_build_object('returns', returns)))->'error'->>'sqlstate';
EXCEPTION WHEN OTHERS THEN
	RETURN 'raised ' || SQLSTATE;
END $$;
SELECT is((SELECT string_agg(v || ': ' || coalesce(o, 'nothing'), ', ') FROM (SELECT v, pg_temp.hook('h', v) AS o FROM unnest(ARRAY[
		'7', '"text"', 'true', '[]', '[{}]', '{"messages": 7}', '{"messages": "x"}', '{"messages": [7]}', '{"messages": [{}]}', '{"messages": [{"role": "king", "content": "x"}]}',
		'{"messages": [{"role": "user", "content": 7}]}', '{"messages": [{"role": "tool", "content": "x"}]}', '{"jump_to": "moon"}', '{"jump_to": 7}', '{"jump_to": "tools"}', '{"unknown": 1}', '{"todos": []}']) AS v) AS x
	WHERE o IS NULL OR o NOT IN ('MW702', 'MW001')), NULL, 'a node hook that returns nonsense is told so');
SELECT is((SELECT string_agg(v || ': ' || coalesce(o, 'nothing'), ', ') FROM (SELECT v, pg_temp.hook('hw', v) AS o FROM unnest(ARRAY[
		NULL, '7', '"text"', '[]', '{}', '{"result": 7}', '{"result": []}', '{"result": [{"role": "user", "content": "x"}]}', '{"result": [{"role": "assistant", "content": "x"}], "more": 1}']) AS v) AS x
	WHERE o IS NULL OR o NOT IN ('MW702', 'MW001')), NULL, 'so is one around a model call');
SELECT is((SELECT string_agg(v || ': ' || coalesce(o, 'nothing'), ', ') FROM (SELECT v, pg_temp.hook('ht', v) AS o FROM unnest(ARRAY[NULL, '7', '[]', '{"content": 7}']) AS v) AS x
	WHERE o IS NULL OR o NOT IN ('MW702', 'MW001')), NULL, 'and one around a tool call');
SELECT is((SELECT count(*) FROM mw.message WHERE tenant = 'pgtap-bad' AND session = 'h-h' AND role <> 'user'), 0::bigint, 'nothing of it is in the thread');
SELECT is(bad.goes_on('h-' || n), 'fine', 'the session goes on after a hook of ' || n) FROM unnest('{h,hw,ht}'::text[]) AS n;
CREATE FUNCTION bad.writes(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN EXECUTE runtime->'context'->>'sql'; RETURN NULL; END $$;
SELECT mw_create_agent('hs', '{"middleware": [{"type": "custom", "name": "h", "hooks": {"before_model": "bad.writes"}}]}', 'pgtap-bad');
SET LOCAL ROLE bad_app;
SELECT bad.script('{"text": "ok"}');
SELECT is((SELECT string_agg(s || ': ' || coalesce(o, 'nothing'), ', ') FROM (SELECT s, bad.run('h-w', 'hs', jsonb_build_object('context', jsonb_build_object('sql', s)))->'error'->>'detail' AS o FROM unnest(ARRAY[
		'DELETE FROM mw.thread', 'UPDATE mw.session SET state = ''{}''', 'INSERT INTO mw.run SELECT * FROM mw.run', 'UPDATE mw.tenant SET settings = ''{}''', 'DELETE FROM mw.attempt',
		'SELECT public.mw_drop_tenant(''pgtap-bad'')', 'SET ROLE postgres', 'SET SESSION AUTHORIZATION DEFAULT']) AS s) AS x
	WHERE o IS NULL OR o NOT LIKE '%42501%'), NULL, 'a hook may not write where its caller may not');
RESET ROLE;
SELECT is(bad.goes_on('h-w'), 'fine', 'the session goes on');

-- ---------- an agent that changes while it runs ----------

SELECT mw_create_agent('changing', '{"system_prompt": "First.", "tools": ["alters", "drops", {"type": "function", "function": {"name": "ask_user", "parameters": {"type": "object"}}}]}', 'pgtap-bad');
SELECT bad.script(bad.calls(jsonb_build_array(bad.call('alters'))), bad.calls(jsonb_build_array(bad.call('ask_user', '{}', 'c2'))), '{"text": "ok"}');
SELECT is(bad.run('c1', 'changing')->>'status', 'tool_calls', 'an agent that is altered by its own tool goes on');
SELECT is((SELECT body #>> '{messages,0,content}' FROM mw_fake_requests('bad') ORDER BY n DESC LIMIT 1), 'First.', 'as it was begun');
SELECT is(mw_ask('pgtap-bad', 'c1', NULL, agent => 'changing', messages => '[{"role": "tool", "tool_call_id": "c2", "content": "blue"}]'), 'ok', 'also behind a pause');
SELECT is((SELECT body #>> '{messages,0,content}' FROM mw_fake_requests('bad') ORDER BY n DESC LIMIT 1), 'First.', 'and the next run');
SELECT bad.script('{"text": "new"}');
DO $$ BEGIN PERFORM mw_ask('pgtap-bad', 'c1', 'Again.', agent => 'changing'); END $$;
SELECT is((SELECT body #>> '{messages,0,content}' FROM mw_fake_requests('bad') ORDER BY n DESC LIMIT 1), 'Second.', 'is the new one''s');
SELECT mw_alter_agent('changing', '{"tools": ["drops"]}', 'pgtap-bad');
SELECT bad.script(bad.calls(jsonb_build_array(bad.call('drops'))), '{"text": "last"}');
SELECT is(bad.run('c2', 'changing')->>'output', 'last', 'one that drops itself ends as it was');
SELECT throws_ok($$SELECT mw_ask('pgtap-bad', 'c2', 'Again.', agent => 'changing')$$, 'MW001', NULL, 'and is not there then');
SELECT is(bad.goes_on('c2', 'few'), 'fine', 'its session goes on with another');

SELECT * FROM finish();
ROLLBACK;
