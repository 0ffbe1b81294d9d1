-- Risk: a call runs that nobody approved, or not as it was approved; a wrong decision is stored; somebody decides who may not;
-- a decision, an expiry or a pause gets lost.
BEGIN;
SELECT plan(106);

CREATE SERVER pgtap_hitl FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE pgtap_asker;
CREATE ROLE pgtap_other;
CREATE ROLE pgtap_reviewer;
CREATE ROLE pgtap_second;
CREATE ROLE pgtap_team;
GRANT USAGE ON FOREIGN SERVER pgtap_hitl TO pgtap_asker, pgtap_other;
SELECT mw_create_tenant('pgtap-hitl', '{"cache": false, "retry": {"max_attempts": 1}, "guardrail": false}');
SELECT mw_grant_tenant('pgtap-hitl', 'pgtap_asker');
SELECT mw_grant_tenant('pgtap-hitl', 'pgtap_other');

CREATE SCHEMA hitl;
GRANT USAGE ON SCHEMA hitl TO pgtap_asker, pgtap_other;
CREATE TABLE hitl.sent (who text DEFAULT current_user, what text);
GRANT SELECT, INSERT ON hitl.sent TO pgtap_asker, pgtap_other;
CREATE FUNCTION hitl.send(what text) RETURNS text LANGUAGE sql AS $$ INSERT INTO hitl.sent (what) VALUES (what); SELECT 'sent ' || what $$;
CREATE FUNCTION hitl.look(what text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'saw ' || what $$;
CREATE FUNCTION hitl.is_big(subject jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
	SELECT to_jsonb(length(subject #>> '{tool_call,args,what}') > 3) $$;
SELECT mw_create_tool('send', 'hitl.send(text)', 'Send.', options => '{"writes": true}', tenant => 'pgtap-hitl');
SELECT mw_create_tool('look', 'hitl.look(text)', 'Look.', tenant => 'pgtap-hitl');
SELECT mw_create_tool('strict', 'hitl.send(text)', 'Send.', options => '{"writes": true, "approval": true}', tenant => 'pgtap-hitl');

CREATE FUNCTION pg_temp.agent(name text, middleware jsonb, more jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
	SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_hitl:m', 'tools', '["send", "look"]'::jsonb,
		'middleware', jsonb_build_array('{"type": "human_in_the_loop"}'::jsonb || middleware)) || more, 'pgtap-hitl') $$;
SELECT pg_temp.agent('batched', '{"interrupt_on": {"send": true}}');
SELECT pg_temp.agent('each', '{"interrupt_mode": "per_call", "interrupt_on": {"send": true}}');
SELECT pg_temp.agent('big', '{"interrupt_on": {"send": {"allowed_decisions": ["approve", "edit", "reject"], "when": {"function": "hitl.is_big"}}}}');
SELECT pg_temp.agent('two', '{"interrupt_mode": "per_call", "approvals": 2, "interrupt_on": {"send": true}}');
SELECT pg_temp.agent('late', '{"interrupt_mode": "per_call", "expires_in": 0.001, "interrupt_on": {"send": true}}');
SELECT pg_temp.agent('late_batch', '{"expires_in": 0.001, "interrupt_on": {"send": true}}');
SELECT pg_temp.agent('late_end', '{"expires_in": 0.001, "on_expiry": "end", "interrupt_on": {"send": true}}');
SELECT pg_temp.agent('anyone', '{"interrupt_on": {"send": true}}', '{"resume_as": "any"}');
SELECT mw_create_agent('plain', '{"model": "pgtap_hitl:m", "tools": ["send", "look"]}', 'pgtap-hitl');

-- the model asks for these calls of send and says "done" afterwards
CREATE FUNCTION pg_temp.script(VARIADIC texts text[]) RETURNS void LANGUAGE sql AS $$
	SELECT mw_fake('pgtap_hitl', jsonb_build_object('m', jsonb_build_array(
		jsonb_build_object('tool_calls', (SELECT jsonb_agg(jsonb_build_object('id', 'c' || n, 'name', split_part(t, ':', 1),
			'arguments', jsonb_build_object('what', split_part(t, ':', 2))) ORDER BY n) FROM unnest(texts) WITH ORDINALITY AS u(t, n))),
		'{"text": "done"}'::jsonb))) $$;
CREATE FUNCTION pg_temp.run(agent text, session text, options jsonb DEFAULT '{}', request_id text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT mw_invoke('pgtap-hitl', session, 'go', agent => agent, options => options, request_id => request_id) ->> 'status' $$;
CREATE FUNCTION pg_temp.resume(session text, decisions jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT r ->> 'status' || ' ' || coalesce(r ->> 'output', '') FROM mw_resume('pgtap-hitl', session, decisions) AS r $$;
-- what deciding or resuming as this role says
CREATE FUNCTION pg_temp.says(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text; d text; h text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE statement;
	RESET ROLE;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', s || ' ' || m, split_part(d, E'\n', 1), h);
END $$;
CREATE FUNCTION pg_temp.decide(role text, session text, decisions text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.says(role, format('SELECT mw_decide(''pgtap-hitl'', %L, %L)', session, decisions)) $$;
CREATE FUNCTION pg_temp.sent() RETURNS text LANGUAGE sql AS $$
	WITH gone AS (DELETE FROM hitl.sent RETURNING who, what) SELECT coalesce(string_agg(what, ',' ORDER BY what COLLATE "C"), '') FROM gone $$;
CREATE FUNCTION pg_temp.rows(s text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', tool_call_id, status, outcome, jsonb_array_length(decisions)), ', ' ORDER BY requested_at, interrupt_id, place)
	FROM mw.interrupt WHERE tenant = 'pgtap-hitl' AND session = s $$;
CREATE FUNCTION pg_temp.story(s text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(event, ' ' ORDER BY seq) FROM mw.approval_log WHERE tenant = 'pgtap-hitl' AND session = s $$;
CREATE FUNCTION pg_temp.answers(s text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(content #>> '{}', ' / ' ORDER BY position) FROM mw.message WHERE tenant = 'pgtap-hitl' AND session = s AND role = 'tool' $$;

-- ---------- batched: four decisions of one batch ----------

SET ROLE pgtap_asker;
SELECT pg_temp.script('send:a', 'send:b', 'look:x', 'send:c', 'send:d');
SELECT is(pg_temp.run('batched', 'b1'), 'interrupted', 'a batch pauses');
RESET ROLE;
SELECT is(pg_temp.sent(), '', 'and nothing has run');
SELECT is(pg_temp.rows('b1'), 'c1 open 0, c2 open 0, c4 open 0, c5 open 0', 'each gated call is a row');
SELECT matches(pg_temp.decide('pgtap_other', 'b1', '{"decisions": [{"type": "approve"}]}'), '^MW602 Number of human decisions \(1\) does not match number of hanging tool calls \(4\)', 'too few');
SELECT matches(pg_temp.decide('pgtap_other', 'b1', '{"decisions": [{"type": "approve"}, {"type": "approve"}, {"type": "approve"}, {"type": "maybe"}]}'), '^MW602 Unexpected human decision', 'one of four is wrong');
SELECT matches(pg_temp.decide('pgtap_other', 'b1', '{"decisions": [{"type": "edit", "edited_action": {"name": "nope", "args": {}}}, {"type": "approve"}, {"type": "approve"}, {"type": "approve"}]}'), '^MW602 Reviewer edited tool call', 'a tool that there is not');
SELECT matches(pg_temp.decide('pgtap_other', 'b1', '[]'), '^MW602 ', 'an array');
SELECT matches(pg_temp.decide('pgtap_other', 'b1', '{}'), '^MW602 ', 'nothing');
SELECT matches(pg_temp.says('pgtap_other', $$SELECT mw_decide('pgtap-hitl', 'b1', NULL)$$), '^MW602 ', 'NULL');
SELECT is(pg_temp.rows('b1'), 'c1 open 0, c2 open 0, c4 open 0, c5 open 0', 'and none of that is stored');
SELECT is(pg_temp.decide('pgtap_other', 'b1', '{"decisions": [{"type": "approve"}, {"type": "edit", "edited_action": {"name": "send", "args": {"what": "B"}}}, {"type": "reject", "message": "no"}, {"type": "respond", "message": "said"}]}'),
	'done', 'who may act for the tenant decides an agent''s gate');
SELECT is(pg_temp.rows('b1'), 'c1 decided 1, c2 decided 1, c4 decided 1, c5 decided 1', 'each has its decision');
SELECT matches(pg_temp.decide('pgtap_other', 'b1', '{"decisions": [{"type": "reject"}]}'), '^MW603 .* \| decided\.', 'decided is decided');
SELECT matches(pg_temp.says('pgtap_other', $$SELECT mw_resume('pgtap-hitl', 'b1')$$), '^MW604 .*resume.*"pgtap_asker"', 'another role does not resume it');
SET ROLE pgtap_asker;
SELECT is(pg_temp.resume('b1'), 'completed done', 'its own does');
RESET ROLE;
SELECT is((SELECT string_agg(who || ' ' || what, ',' ORDER BY what COLLATE "C") FROM hitl.sent), 'pgtap_asker B,pgtap_asker a', 'what was approved and edited has run, as its role');
SELECT is(pg_temp.sent(), 'B,a', 'once each');
SELECT is(pg_temp.rows('b1'), 'c1 done ran 1, c2 done ran 1, c4 done not_run 1, c5 done not_run 1', 'and the rows say so');
SELECT matches(pg_temp.answers('b1'), '^User rejected the tool call for `send` with reason: no / said / sent a / .*sent B / saw x$', 'the thread has an answer for each call');
SELECT is(pg_temp.story('b1'), 'asked asked asked asked decided decided decided decided done done done done', 'the log tells it');
SELECT matches(pg_temp.says('pgtap_asker', $$SELECT mw_resume('pgtap-hitl', 'b1')$$), '^MW603 no interrupt is waiting \| done', 'resume twice');
SELECT matches(pg_temp.decide('pgtap_other', 'b1', '{"decisions": [{"type": "reject"}]}'), '^MW603 .* \| done', 'decide afterwards');
SELECT matches(pg_temp.decide('pgtap_other', 'no such', '{"decisions": [{"type": "reject"}]}'), '^MW603 .* \| none', 'no such session');

-- ---------- per call: any subset, by tool_call_id or interrupt ----------

SET ROLE pgtap_asker;
SELECT pg_temp.script('send:a', 'send:b');
SELECT is(pg_temp.run('each', 'p1'), 'interrupted', 'each call pauses on its own');
SELECT is(pg_temp.resume('p1', '{"c2": {"type": "approve"}}'), 'interrupted ', 'one of two');
RESET ROLE;
SELECT is(pg_temp.sent(), 'b', 'runs that one');
SELECT matches(pg_temp.decide('pgtap_other', 'p1', '{"c2": {"type": "approve"}}'), '^MW602 no interrupt and no call with the id "c2"', 'a call that was decided');
SELECT is(pg_temp.decide('pgtap_other', 'p1', (SELECT json_build_object(interrupt_id, '{"type": "edit", "editedAction": {"name": "send", "args": {"what": "A"}}}'::json)::text
	FROM mw.interrupt WHERE tenant = 'pgtap-hitl' AND session = 'p1' AND status = 'open')), 'done', 'by interrupt, in camelCase');
SET ROLE pgtap_asker;
SELECT is(pg_temp.resume('p1'), 'completed done', 'the rest');
RESET ROLE;
SELECT is(pg_temp.sent(), 'A', 'as edited, and the first one not again');

-- ---------- reviewers: nothing but the grant ----------

SET ROLE pgtap_asker;
SELECT pg_temp.script('send:long text');
SELECT pg_temp.run('big', 'r1');
RESET ROLE;
SELECT mw_grant_reviewer('pgtap-hitl', 'pgtap_reviewer', '{send,strict}');
SELECT matches(pg_temp.decide('pgtap_other', 'r1', '{"decisions": [{"type": "approve"}]}'), '^MW604 role "pgtap_other" may not decide.*mw_grant_reviewer\(''pgtap-hitl'', ''pgtap_other''\)', 'reviewers are named: nobody else decides, and the hint is the grant');
SELECT matches(pg_temp.decide('pgtap_second', 'r1', '{"decisions": [{"type": "approve"}]}'), '^MW101 ', 'a stranger learns nothing');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'r1', '{"decisions": [{"type": "edit", "edited_action": {"name": "nope", "args": {}}}]}'), '^MW602 .*Available tools: look, send', 'a reviewer without the tenant is told what an edit may name');
SELECT is(pg_temp.decide('pgtap_reviewer', 'r1', '{"decisions": [{"type": "edit", "edited_action": {"name": "look", "args": {"what": "y"}}}]}'), 'done', 'and decides');
SET ROLE pgtap_asker;
SELECT is(pg_temp.resume('r1'), 'completed done', 'the run goes on');
RESET ROLE;
SELECT is(pg_temp.sent(), '', 'with the other tool');
SELECT is((SELECT count(*)::int FROM mw.approval_log WHERE tenant = 'pgtap-hitl' AND session = 'r1' AND event = 'decided' AND role = 'pgtap_reviewer'), 1, 'the log says by whom');

-- one's own request
GRANT pgtap_team TO pgtap_asker;
SELECT mw_grant_reviewer('pgtap-hitl', 'pgtap_team');
SET ROLE pgtap_asker;
SELECT pg_temp.script('send:mine');
SELECT pg_temp.run('batched', 'r2');
RESET ROLE;
SELECT matches(pg_temp.decide('pgtap_asker', 'r2', '{"decisions": [{"type": "approve"}]}'), '^MW604 .*may not decide its own request.*may_decide_own => true', 'a requester who is a reviewer by membership');
SELECT matches(pg_temp.decide('pgtap_team', 'r2', '{"decisions": [{"type": "approve"}]}'), '^MW604 .*may not decide its own request', 'SET ROLE to the team changes nothing');
SELECT mw_grant_reviewer('pgtap-hitl', 'pgtap_team', may_decide_own => true);
SELECT is(pg_temp.decide('pgtap_asker', 'r2', '{"decisions": [{"type": "approve"}]}'), 'done', 'unless the grant says so');
SELECT mw_revoke_reviewer('pgtap-hitl', 'pgtap_team');

-- ---------- the inbox ----------

CREATE FUNCTION pg_temp.inbox(role text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	SELECT coalesce(string_agg(session || ' ' || tool_call_id, ', ' ORDER BY session, place), '') INTO r FROM mw.inbox;
	RESET ROLE;
	RETURN r;
END $$;
CREATE FUNCTION pg_temp.claim(role text, s text, timeout text DEFAULT '1 minute') RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.says(role, format('DO $d$ BEGIN IF NOT mw_claim_interrupt(''pgtap-hitl'', %L, %L) THEN RAISE ''taken''; END IF; END $d$',
		(SELECT interrupt_id FROM mw.interrupt WHERE tenant = 'pgtap-hitl' AND session = s LIMIT 1), timeout)) $$;
SET ROLE pgtap_asker;
SELECT pg_temp.script('send:one', 'send:two');
SELECT pg_temp.run('batched', 'i1');
SELECT pg_temp.script('send:late');
SELECT pg_temp.run('late', 'i2');
RESET ROLE;
SELECT pg_sleep(0.01);
SELECT is(pg_temp.inbox('pgtap_reviewer'), 'i1 c1, i1 c2', 'a reviewer sees what waits for it');
SELECT is(pg_temp.inbox('pgtap_other'), '', 'nobody else does');
SELECT is((SELECT count(*)::int FROM regexp_matches(mw_inbox_html('pgtap-hitl'), '<li class="card"', 'g')), 1, 'a page shows the inbox');
SELECT is(mw.visible(U&'<b>\202Ea\0007b\200Bc'), '<b>\u202ea\u0007b\u200bc', 'what is not seen is shown as its number');
SELECT is(pg_temp.inbox('pgtap_asker'), '', 'nor who asked');
SELECT is(pg_temp.inbox('pgtap_second'), '', 'nor a stranger');
SELECT mw_grant_reviewer('pgtap-hitl', 'pgtap_second', '{look}');
SELECT is(pg_temp.inbox('pgtap_second'), '', 'nor a reviewer of other tools');
SET ROLE pgtap_reviewer;
SELECT is((SELECT count(*)::int FROM mw.thread) + (SELECT count(*)::int FROM mw.session) + (SELECT count(*)::int FROM mw.run)
	+ (SELECT count(*)::int FROM mw.approval_log) + (SELECT count(*)::int FROM mw.pii) + (SELECT count(*)::int FROM mw.tenant) + (SELECT count(*)::int FROM mw.reviewer),
	0, 'a reviewer sees nothing else of the tenant');
SELECT is((SELECT count(*)::int FROM mw.interrupt WHERE tool NOT IN ('send', 'strict')), 0, 'and no interrupt of another tool');
RESET ROLE;
SELECT mw_grant_reviewer('pgtap-hitl', 'pgtap_second');
SELECT is(pg_temp.claim('pgtap_reviewer', 'i1'), 'done', 'a reviewer takes one');
SELECT matches(pg_temp.claim('pgtap_second', 'i1'), '^P0001 taken', 'nobody else gets it');
SELECT matches(pg_temp.decide('pgtap_second', 'i1', '{"decisions": [{"type": "approve"}, {"type": "approve"}]}'), '^MW604 another reviewer is at work', 'nor decides it');
SELECT is(pg_temp.claim('pgtap_reviewer', 'i1', '0'), 'done', 'it is given back');
SELECT is(pg_temp.claim('pgtap_second', 'i1', '1 millisecond'), 'done', 'and taken by another');
SELECT pg_sleep(0.01);
SELECT is(pg_temp.claim('pgtap_reviewer', 'i1'), 'done', 'a claim ends by itself');
SELECT matches(pg_temp.claim('pgtap_other', 'i1'), '^MW604 ', 'it takes a reviewer');
SELECT matches(pg_temp.claim('pgtap_reviewer', 'i2'), '^MW603 ', 'and what is too late cannot be taken');
SELECT is(pg_temp.decide('pgtap_reviewer', 'i1', '{"decisions": [{"type": "reject"}, {"type": "reject"}]}'), 'done', 'who has it decides');
SELECT mw_revoke_reviewer('pgtap-hitl', 'pgtap_second');

-- ---------- n of m ----------

SELECT mw_grant_reviewer('pgtap-hitl', 'pgtap_second');
SET ROLE pgtap_asker;
SELECT pg_temp.script('send:twice');
SELECT pg_temp.run('two', 'n1');
RESET ROLE;
SELECT pg_temp.decide('pgtap_reviewer', 'n1', '{"c1": {"type": "approve"}}');
SELECT is(pg_temp.rows('n1'), 'c1 open 1', 'one approval of two');
SELECT ok(pg_temp.inbox('pgtap_reviewer') !~ 'n1 c1', 'who has given it has nothing more to do');
SELECT ok(pg_temp.inbox('pgtap_second') ~ 'n1 c1', 'another one has');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'n1', '{"c1": {"type": "approve"}}'), '^MW602 role "pgtap_reviewer" has approved', 'the same role does not count twice');
SELECT matches(pg_temp.decide('pgtap_second', 'n1', '{"c1": {"type": "edit", "edited_action": {"name": "send", "args": {"what": "x"}}}}'), '^MW602 .*needs 2 approvals', 'an edit would be one person''s');
SET ROLE pgtap_asker;
SELECT is(pg_temp.resume('n1'), 'interrupted ', 'not yet');
RESET ROLE;
SELECT is(pg_temp.decide('pgtap_second', 'n1', '{"c1": {"type": "approve"}}'), 'done', 'the second');
SET ROLE pgtap_asker;
SELECT is(pg_temp.resume('n1'), 'completed done', 'and it runs');
RESET ROLE;
SELECT is(pg_temp.sent(), 'twice', 'once');

-- ---------- expiry ----------

SET ROLE pgtap_asker;
SELECT pg_temp.script('send:late');
SELECT pg_temp.run('late', 'e1');
RESET ROLE;
SELECT pg_sleep(0.01);
SELECT matches(pg_temp.decide('pgtap_reviewer', 'e1', '{"c1": {"type": "approve"}}'), '^MW603 .* \| expired', 'too late to approve');
SET ROLE pgtap_asker;
SELECT is(pg_temp.resume('e1'), 'completed done', 'it counts as rejected');
SELECT pg_temp.script('send:late', 'send:later');
SELECT pg_temp.run('late_batch', 'e2');
SELECT pg_sleep(0.01);
SELECT is(pg_temp.resume('e2'), 'completed done', 'a batch likewise');
SELECT pg_temp.script('send:late');
SELECT pg_temp.run('late_end', 'e3');
SELECT pg_sleep(0.01);
SELECT is((SELECT r ->> 'ended_by' FROM mw_resume('pgtap-hitl', 'e3') AS r), 'expiry', 'or the run ends');
RESET ROLE;
SELECT is(pg_temp.rows('e1') || '; ' || pg_temp.rows('e2') || '; ' || pg_temp.rows('e3'),
	'c1 expired not_run 1; c1 expired not_run 1, c2 expired not_run 1; c1 expired not_run 1', 'the rows say so');
SELECT is(pg_temp.sent(), '', 'and nothing has run');

-- ---------- a tool's own gate, and gates that a call adds ----------

SET ROLE pgtap_asker;
SELECT pg_temp.script('strict:own');
SELECT is(mw_invoke('pgtap-hitl', 't1', 'go', model => 'pgtap_hitl:m', tools => '["strict"]') ->> 'status', 'interrupted', 'without an agent, too');
SELECT throws_ok($$SELECT mw_invoke('pgtap-hitl', NULL, 'go', model => 'pgtap_hitl:m', tools => '["strict"]')$$, 'MW001', 'a call with a tool that needs an approval needs a session', 'a pause needs a session');
RESET ROLE;
SELECT matches(pg_temp.decide('pgtap_other', 't1', '{"c1": {"type": "approve"}}'), '^MW604 ', 'named reviewers alone decide it');
SELECT is(pg_temp.decide('pgtap_reviewer', 't1', '{"c1": {"type": "approve"}}'), 'done', 'such as this one');
SET ROLE pgtap_asker;
SELECT is(pg_temp.resume('t1'), 'completed done', 'it runs');
SELECT pg_temp.script('send:added');
SELECT is(pg_temp.run('plain', 'o1', '{"interrupt_on": {"send": true}}'), 'interrupted', 'a call adds a gate');
SELECT is((SELECT r ->> 'status' FROM mw_resume('pgtap-hitl', 'o1', options => '{"interrupt_on": {"send": false}}') AS r), 'interrupted', 'and no later leg takes it away');
SELECT pg_temp.script('send:long text');
SELECT is(pg_temp.run('batched', 'o2', '{"interrupt_on": {"send": false}}'), 'interrupted', 'nor that of the agent');
RESET ROLE;
SELECT pg_temp.decide('pgtap_reviewer', 'o1', '{"decisions": [{"type": "approve"}]}');
SET ROLE pgtap_asker;
SELECT pg_temp.resume('o1');
RESET ROLE;
SELECT is(pg_temp.sent(), 'added,own', 'each ran once it was approved');

-- ---------- others ----------

SELECT mw_revoke_reviewer('pgtap-hitl', 'pgtap_second');
SELECT mw_revoke_reviewer('pgtap-hitl', 'pgtap_reviewer');
SET ROLE pgtap_asker;
SELECT pg_temp.script('send:any');
SELECT pg_temp.run('anyone', 'a1');
RESET ROLE;
SET ROLE pgtap_other;
SELECT is(pg_temp.resume('a1', '{"decisions": [{"type": "approve"}]}'), 'completed done', 'resume_as any');
RESET ROLE;
SELECT is((SELECT who FROM hitl.sent), 'pgtap_other', 'whose rights the tools then have');
SELECT pg_temp.sent();

SET ROLE pgtap_asker;
SELECT pg_temp.script('send:again');
SELECT pg_temp.run('batched', 'q1', request_id => 'pgtap-hitl-1');
SELECT is(pg_temp.run('batched', 'q1', request_id => 'pgtap-hitl-1'), 'interrupted', 'the same request_id again says the same');
SELECT pg_temp.resume('q1', '{"decisions": [{"type": "approve"}]}');
SELECT is(pg_temp.run('batched', 'q1', request_id => 'pgtap-hitl-1'), 'interrupted', 'also afterwards');
RESET ROLE;
SELECT is(pg_temp.sent(), 'again', 'what it asked for has run once');
SET ROLE pgtap_asker;
SELECT pg_temp.script('send:kept');
SELECT pg_temp.run('batched', 'k1', '{"temperature": 0.25, "max_tokens": 77, "context": {"who": "me"}}');
SELECT is(pg_temp.resume('k1', '{"decisions": [{"type": "approve"}]}'), 'completed done', 'a run that was begun with options of its own');
SELECT is((SELECT string_agg(concat_ws(' ', body ->> 'temperature', body ->> 'max_tokens'), ', ') FROM (SELECT body, row_number() OVER () AS n, count(*) OVER () AS all_of_them FROM mw_fake_requests('pgtap_hitl')) AS r WHERE n > all_of_them - 2),
	'0.25 77, 0.25 77', 'has them in each leg');
RESET ROLE;
SELECT pg_temp.sent();
SET ROLE pgtap_asker;
SELECT pg_temp.script('send:never');
SELECT pg_temp.run('batched', 'q2');
SELECT is((SELECT sum(reserved)::int FROM mw.budget_status WHERE tenant = 'pgtap-hitl'), 0, 'nothing is reserved while a run is paused');
SELECT mw_fake('pgtap_hitl', '{"m": [{"text": "else"}]}');
SELECT is(mw_invoke('pgtap-hitl', 'q2', 'something else', agent => 'batched') ->> 'output', 'else', 'a new prompt on a paused thread');
RESET ROLE;
SELECT is(pg_temp.sent() || '; ' || pg_temp.rows('q2'),
	'; c1 abandoned 0', 'abandons it');
CREATE FUNCTION pg_temp.thread(s text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', m ->> 'role', m ->> 'tool_call_id', m ->> 'status', m ->> 'content'), '; ') FROM mw_messages('pgtap-hitl', s) AS m $$;
SELECT is(pg_temp.thread('q2'), 'user go; assistant ; tool c1 error Tool call send with id c1 was not run: a new message came first.; user something else; assistant else',
	'and answers its call, in the thread as before the model');
SELECT is((SELECT string_agg(m ->> 'content', '; ') FROM (SELECT body -> 'messages' AS all_of_them FROM mw_fake_requests('pgtap_hitl') WITH ORDINALITY AS r ORDER BY ordinality DESC LIMIT 1) AS r, jsonb_array_elements(all_of_them) AS m),
	'go; Tool call send with id c1 was not run: a new message came first.; something else', 'which reads the same');
SET ROLE pgtap_asker;
SELECT pg_temp.script('send:first', 'look:at', 'send:second');
SELECT pg_temp.run('each', 'q3');
SELECT mw_decide('pgtap-hitl', 'q3', '{"c3": {"type": "approve"}}');
SELECT mw_fake('pgtap_hitl', '{"m": [{"text": "else"}]}');
SELECT isnt((SELECT string_agg(detail::text, ' ') FROM mw_explain('pgtap-hitl', 'q3', 'what now', agent => 'each')), NULL, 'it can be explained');
SELECT is(mw_invoke('pgtap-hitl', 'q3', 'what now', agent => 'each') #>> '{messages,0,content}', 'else', 'a new prompt while one call waits, one has run, and one is approved');
SELECT is(pg_temp.thread('q3'), 'user go; assistant ; tool c1 error Tool call send with id c1 was not run: a new message came first.; tool c2 success saw at; '
	'tool c3 error Tool call send with id c3 was not run: a new message came first.; user what now; assistant else', 'answers those that have not run, each in its place');
SELECT pg_temp.script('send:mine');
SELECT pg_temp.run('batched', 'q4');
SELECT mw_fake('pgtap_hitl', '{"m": [{"text": "else"}]}');
SELECT mw_invoke('pgtap-hitl', 'q4', NULL, messages => '[{"role": "tool", "tool_call_id": "c1", "content": "done by hand"}, {"role": "user", "content": "go on"}]', agent => 'batched') \g /dev/null
SELECT is(pg_temp.thread('q4'), 'user go; assistant ; tool c1 success done by hand; user go on; assistant else', 'but none that what is said answers');
SELECT pg_temp.script('send:late');
SELECT pg_temp.run('late_end', 'q5');
SELECT pg_sleep(0.01);
SELECT is(pg_temp.resume('q5'), 'completed The run has ended: nobody decided in time.', 'a run that ends by expiry');
SELECT is(pg_temp.thread('q5'), 'user go; assistant ; tool c1 error Tool call send with id c1 was not run: nobody decided in time.; assistant The run has ended: nobody decided in time.', 'leaves no call open either');
RESET ROLE;
SELECT is(pg_temp.sent(), '', 'nothing of that has run');

-- ---------- the log holds together ----------

CREATE FUNCTION pg_temp.broken() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(session || ' ' || expected || ' ' || found, ', ' ORDER BY session COLLATE "C", expected COLLATE "C"), '') FROM mw_check()
	WHERE tenant = 'pgtap-hitl' AND finding = 'the log of approvals was altered' $$;
SELECT is(pg_temp.broken(), '', 'as it was written it is whole');
-- what is found after that was done to it, which is then undone
CREATE FUNCTION pg_temp.after(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	EXECUTE statement || ' AND tenant = ''pgtap-hitl''';
	found := pg_temp.broken();
	RAISE SQLSTATE 'P0099';
EXCEPTION WHEN SQLSTATE 'P0099' THEN
	RETURN found;
END $$;
SELECT is(pg_temp.after($$UPDATE mw.approval_log SET role = 'pgtap_second' WHERE session = 'r1' AND event = 'decided'$$),
	'r1 row 2 as it was written another', 'another name');
SELECT matches(pg_temp.after($$DELETE FROM mw.approval_log WHERE session = 'b1' AND seq = 2$$), 'b1 row 2 row 3', 'a row taken out');
SELECT matches(pg_temp.after($$DELETE FROM mw.approval_log WHERE session = 'r1' AND seq >= 2$$), '^r1 3 of interrupt [0-9a-f]{32} 1$', 'the end taken off');
SELECT matches(pg_temp.after($$DELETE FROM mw.approval_log WHERE session = 'q2' AND event = 'abandoned'$$), '^q2 2 of interrupt [0-9a-f]{32} 1$', 'that it was abandoned taken off');

SELECT * FROM finish();
ROLLBACK;
