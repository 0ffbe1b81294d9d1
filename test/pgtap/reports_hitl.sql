-- Risk: faults of approvals that users of other systems have met (test/REPORTS.md): an edit that gets round another tool's gate, a call
-- without its answer, siblings that are lost, arguments that nobody approved, a history that does not tell of an edit.
BEGIN;
SELECT plan(26);

CREATE SERVER reports_hitl FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('reports-hitl', '{"model": "reports_hitl:m", "cache": false, "retry": {"max_attempts": 1}, "guardrail": false, "redact": false}');
CREATE SCHEMA reports;
CREATE TABLE reports.did (what text);
CREATE FUNCTION reports.act(what text) RETURNS text LANGUAGE sql AS $$ INSERT INTO reports.did VALUES (what); SELECT 'did ' || what $$;
CREATE FUNCTION reports.wipe() RETURNS text LANGUAGE sql AS $$ INSERT INTO reports.did VALUES ('all gone'); SELECT 'gone' $$;
SELECT mw_create_tool('act', 'reports.act(text)', options => '{"writes": true}', tenant => 'reports-hitl');
SELECT mw_create_tool('delete_all', 'reports.wipe()', options => '{"writes": true}', tenant => 'reports-hitl');
SELECT mw_create_agent('a', '{"tools": ["act", "delete_all"], "middleware": [{"type": "human_in_the_loop", "interrupt_on": {"act": true, "delete_all": true}}]}', 'reports-hitl');
SELECT mw_create_agent('each', '{"tools": ["act"], "middleware": [{"type": "human_in_the_loop", "interrupt_mode": "per_call", "interrupt_on": {"act": true}}]}', 'reports-hitl');

CREATE FUNCTION pg_temp.calls(VARIADIC texts text[]) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('tool_calls', jsonb_agg(jsonb_build_object('id', 'c' || n, 'name', 'act', 'arguments', jsonb_build_object('what', t)) ORDER BY n))
	FROM unnest(texts) WITH ORDINALITY AS u(t, n) $$;
CREATE FUNCTION pg_temp.pause(agent text, s text, VARIADIC steps jsonb[]) RETURNS text LANGUAGE sql AS $$
	SELECT mw_fake('reports_hitl', jsonb_build_object('m', to_jsonb(steps)));
	SELECT mw_invoke('reports-hitl', s, 'go', agent => agent) ->> 'status' $$;
CREATE FUNCTION pg_temp.resume(s text, decisions jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS $$ SELECT mw_resume('reports-hitl', s, decisions) ->> 'status' $$;
CREATE FUNCTION pg_temp.did() RETURNS text LANGUAGE sql AS $$
	WITH gone AS (DELETE FROM reports.did RETURNING what) SELECT coalesce(string_agg(what, ',' ORDER BY what COLLATE "C"), '') FROM gone $$;
CREATE FUNCTION pg_temp.requests() RETURNS int LANGUAGE sql AS $$ SELECT count(*)::int FROM mw_fake_requests('reports_hitl') $$;
-- the messages of the newest request, as role and what they answer or ask for
CREATE FUNCTION pg_temp.newest() RETURNS jsonb LANGUAGE sql AS $$
	SELECT body -> 'messages' FROM (SELECT body, row_number() OVER () AS n FROM mw_fake_requests('reports_hitl')) AS r ORDER BY n DESC LIMIT 1 $$;
CREATE FUNCTION pg_temp.shape() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(m ->> 'role' || coalesce(' ' || (m ->> 'tool_call_id'), '') || coalesce(' ' || (SELECT string_agg(c ->> 'id', '+' ORDER BY o) FROM jsonb_array_elements(m -> 'tool_calls') WITH ORDINALITY AS t(c, o)), ''), ', ' ORDER BY n)
	FROM jsonb_array_elements(pg_temp.newest()) WITH ORDINALITY AS x(m, n) WHERE m ->> 'role' <> 'system' $$;
CREATE FUNCTION pg_temp.fails(s text, decisions jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM mw_decide('reports-hitl', s, decisions); RETURN 'done';
EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM; END $$;

-- H01: an edit that names another tool, whose own gate nobody asked
SELECT pg_temp.pause('a', 'h01', pg_temp.calls('x'), '{"text": "done"}');
SELECT matches(pg_temp.fails('h01', '{"decisions": [{"type": "edit", "edited_action": {"name": "delete_all", "args": {}}}]}'), '^MW602 .*needs an approval of its own', 'H01: is refused');
SELECT is((SELECT status FROM mw.interrupt WHERE tenant = 'reports-hitl' AND session = 'h01'), 'open', '... and the call still waits');
SELECT is(pg_temp.did(), '', '... nothing has run');
SELECT is(pg_temp.requests(), 1, '... and nothing was sent');

-- H03: a rejected call without an answer
SELECT pg_temp.pause('a', 'h03', pg_temp.calls('x'), '{"text": "done"}');
SELECT is(pg_temp.resume('h03', '{"decisions": [{"type": "reject", "message": "no"}]}'), 'completed', 'H03: after a rejection the run goes on');
SELECT is(pg_temp.shape(), 'user, assistant c1, tool c1', '... the call stands in the next request with one answer');
SELECT matches(pg_temp.newest()::text, 'User rejected the tool call for `act` with reason: no', '... that says so');
SELECT is(pg_temp.did(), '', '... and it has not run');

-- H04: one rejection that loses its siblings
SELECT pg_temp.pause('a', 'h04', pg_temp.calls('a', 'b', 'c'), '{"text": "done"}', '{"text": "and on"}');
SELECT is(pg_temp.resume('h04', '{"decisions": [{"type": "approve"}, {"type": "reject"}, {"type": "edit", "edited_action": {"name": "act", "args": {"what": "C"}}}]}'), 'completed', 'H04: one of three is rejected');
SELECT is(pg_temp.did(), 'C,a', '... the others run once');
SELECT is((SELECT count(*)::int FROM regexp_matches(pg_temp.shape(), 'tool c[123]', 'g')), 3, '... each has its answer');
SELECT is(mw_ask('reports-hitl', 'h04', 'more', agent => 'a'), 'and on', '... and the session goes on');

-- H06: arguments that nobody approved, from a model that is asked again
SELECT pg_temp.pause('a', 'h06', pg_temp.calls('reviewed'), pg_temp.calls('changed'), '{"text": "done"}');
SELECT is(pg_temp.requests(), 1, 'H06: the model was asked once');
SELECT is(pg_temp.resume('h06', '{"decisions": [{"type": "approve"}]}'), 'interrupted', '... what it says after the approved call is asked about anew');
SELECT is(pg_temp.did(), 'reviewed', '... what was approved has run');
SELECT is(pg_temp.requests(), 2, '... and the first call was not made again');

-- H08: one decision that restarts what still waits
SELECT pg_temp.pause('each', 'h08', pg_temp.calls('a', 'b'), '{"text": "done"}');
SELECT pg_temp.resume('h08', '{"c1": {"type": "approve"}}');
SELECT is(pg_temp.did() || ' ' || pg_temp.requests(), 'a 1', 'H08: one of two has run, and nothing was sent');
SELECT is(pg_temp.resume('h08'), 'interrupted', '... the other waits');
SELECT is(pg_temp.did(), '', '... and nothing runs again');
SELECT pg_temp.resume('h08', '{"c2": {"type": "approve"}}');
SELECT is(pg_temp.did() || ' ' || pg_temp.requests(), 'b 2', '... until it is decided');

-- I06: another verdict under the request_id of one that was obeyed
SELECT pg_temp.pause('a', 'i06', pg_temp.calls('once'), '{"text": "done"}');
SELECT is(mw_resume('reports-hitl', 'i06', '{"decisions": [{"type": "approve"}]}', request_id => 'i06.2') ->> 'output', 'done', 'I06: a resume with a request_id');
SELECT is(mw_resume('reports-hitl', 'i06', '{"decisions": [{"type": "approve"}]}', request_id => 'i06.2') ->> 'output', 'done', '... has its result again');
SELECT throws_ok($$SELECT mw_resume('reports-hitl', 'i06', '{"decisions": [{"type": "reject"}]}', request_id => 'i06.2')$$, 'MW501', NULL, '... and another verdict is another request');
SELECT pg_temp.did();

-- H09: an edit that the history does not tell of
SELECT pg_temp.pause('a', 'h09', pg_temp.calls('New York'), '{"text": "done"}');
SELECT pg_temp.resume('h09', '{"decisions": [{"type": "edit", "edited_action": {"name": "act", "args": {"what": "London"}}}]}');
SELECT matches(pg_temp.newest()::text, 'a person who reviewed this tool call put another one in its place before it ran.*Executed instead: act with arguments .*London', 'H09: the answer says what ran, and that a person chose it');
SELECT is(pg_temp.did(), 'London', '... which ran once');
SELECT is(pg_temp.requests(), 2, '... and the model does not ask again');

SELECT * FROM finish();
ROLLBACK;
