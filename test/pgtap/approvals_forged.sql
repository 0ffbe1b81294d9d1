-- Risk: what approvals_attack.sql holds back, by ways round it: a decision that counts twice or comes back after it was used, a run
-- that gets another one's approval, a person behind two roles, a reviewer who reads or lets through what is not its own.
BEGIN;
SELECT plan(46);

CREATE SERVER pgtap_forged FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE pgtap_asker;
CREATE ROLE pgtap_reviewer;
CREATE ROLE pgtap_second;
CREATE ROLE pgtap_narrow;
CREATE ROLE pgtap_seer;
GRANT USAGE ON FOREIGN SERVER pgtap_forged TO pgtap_asker;
SELECT mw_create_tenant('pgtap-forged', '{"cache": false, "retry": {"max_attempts": 1}, "guardrail": false}');
SELECT mw_grant_tenant('pgtap-forged', 'pgtap_asker');
SELECT mw_grant_reviewer('pgtap-forged', 'pgtap_reviewer', '{pay}');
SELECT mw_grant_reviewer('pgtap-forged', 'pgtap_second', '{pay}');
SELECT mw_grant_reviewer('pgtap-forged', 'pgtap_narrow', '{refund}');
SELECT mw_grant_reviewer('pgtap-forged', 'pgtap_seer', '{refund}', reveal => true);

CREATE SCHEMA forged;
GRANT USAGE ON SCHEMA forged TO PUBLIC;
CREATE TABLE forged.paid (amount numeric, payee text);
GRANT INSERT ON forged.paid TO pgtap_asker;
CREATE FUNCTION forged.pay(amount numeric, payee text) RETURNS text LANGUAGE sql AS $$ INSERT INTO forged.paid VALUES (amount, payee); SELECT 'paid' $$;
SELECT mw_create_tool(t, 'forged.pay(numeric, text)', 'Pay.', options => '{"writes": true}', tenant => 'pgtap-forged') FROM unnest('{pay,refund,wire,tip}'::text[]) AS t;
SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_forged:m', 'tools', '["pay", "refund", "wire", "tip"]'::jsonb, 'middleware', jsonb_build_array(
	'{"type": "human_in_the_loop", "interrupt_on": {"pay": true, "wire": true}}'::jsonb || more)), 'pgtap-forged')
FROM (VALUES ('a', '{}'::jsonb), ('each', '{"interrupt_mode": "per_call"}'), ('two', '{"approvals": 2}')) AS v(name, more);

CREATE FUNCTION pg_temp.says(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE statement;
	RESET ROLE;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE;
	RETURN s || ' ' || m;
END $$;
CREATE FUNCTION pg_temp.script(VARIADIC tools text[]) RETURNS void LANGUAGE sql AS $$
	SELECT mw_fake('pgtap_forged', jsonb_build_object('m', (SELECT jsonb_agg(CASE WHEN t = 'done' THEN '{"text": "done"}'::jsonb ELSE jsonb_build_object('tool_calls', jsonb_build_array(
		jsonb_build_object('id', 'c1', 'name', t, 'arguments', '{"amount": 10, "payee": "alice"}'::jsonb))) END ORDER BY n) FROM unnest(tools || 'done'::text) WITH ORDINALITY AS u(t, n)))) $$;
CREATE FUNCTION pg_temp.invoke(agent text, s text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.says('pgtap_asker', format('SELECT mw_invoke(''pgtap-forged'', %L, ''go'', agent => %L)', s, agent)) $$;
CREATE FUNCTION pg_temp.decide(role text, s text, decision jsonb DEFAULT '{"type": "approve"}') RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.says(role, format('SELECT mw_decide(''pgtap-forged'', %L, %L)', s, jsonb_build_object('decisions', jsonb_build_array(decision)))) $$;
CREATE FUNCTION pg_temp.resume(s text) RETURNS text LANGUAGE sql AS $$ SELECT pg_temp.says('pgtap_asker', format('SELECT mw_resume(''pgtap-forged'', %L)', s)) $$;
CREATE FUNCTION pg_temp.asked(agent text, s text) RETURNS void LANGUAGE sql AS $$ SELECT pg_temp.script('pay'); SELECT pg_temp.invoke(agent, s) $$;
CREATE FUNCTION pg_temp.paid() RETURNS int LANGUAGE sql AS $$ WITH gone AS (DELETE FROM forged.paid RETURNING 1) SELECT count(*)::int FROM gone $$;
-- by whoever may write everything: rows of one session's interrupts
CREATE FUNCTION pg_temp.put(s text, change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN EXECUTE format('UPDATE mw.interrupt SET %s WHERE tenant = ''pgtap-forged'' AND session = %L', change, s); END $$;
CREATE FUNCTION pg_temp.broken() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(DISTINCT session, ',' ORDER BY session), '') FROM mw_check() WHERE tenant = 'pgtap-forged' AND finding = 'the log of approvals was altered' $$;

-- ---------- a decision that counts twice, or comes back ----------

SELECT pg_temp.asked('two', 'd1');
SELECT is(pg_temp.decide('pgtap_reviewer', 'd1'), 'done', 'one of two has approved');
SELECT pg_temp.put('d1', 'status = ''decided'', decisions = decisions || decisions');
SELECT matches(pg_temp.resume('d1'), '^MW605', 'the same approval twice is not two');
SELECT pg_temp.asked('two', 'd2');
SELECT pg_temp.decide('pgtap_reviewer', 'd2');
SELECT pg_temp.decide('pgtap_second', 'd2', '{"type": "reject"}');
SELECT pg_temp.put('d2', 'status = ''open'', decisions = jsonb_build_array(decisions -> 0)');
SELECT matches(pg_temp.decide('pgtap_second', 'd2'), '^MW605', 'a rejection taken out again');
SELECT pg_temp.asked('a', 'd3');
SELECT pg_temp.decide('pgtap_reviewer', 'd3', '{"type": "reject"}');
SELECT pg_temp.put('d3', 'status = ''open'', decisions = ''[]''');
SELECT matches(pg_temp.decide('pgtap_second', 'd3'), '^MW605', 'a rejected call asked about anew');
SELECT matches(pg_temp.resume('d3'), '^MW605', 'which does not go on either');
SELECT pg_temp.script('pay', 'pay');
SELECT pg_temp.invoke('a', 'd4');
SELECT pg_temp.decide('pgtap_reviewer', 'd4');
SELECT is(pg_temp.resume('d4'), 'done', 'one call is approved and runs, the next one of its id and arguments waits');
SELECT is(pg_temp.paid(), 1, 'one has run');
SELECT pg_temp.put('d4', 'status = ''decided'', outcome = NULL') FROM mw.interrupt WHERE tenant = 'pgtap-forged' AND session = 'd4' AND status = 'done';
UPDATE mw.interrupt SET status = 'open' WHERE tenant = 'pgtap-forged' AND session = 'd4' AND decisions = '[]';
SELECT matches(pg_temp.resume('d4'), '^MW605', 'an approval that was used, put back to what it was');
SELECT pg_temp.asked('a', 'd5');
SELECT pg_temp.decide('pgtap_reviewer', 'd5');
SELECT pg_temp.script('pay');
SELECT pg_temp.invoke('a', 'd5');
SELECT pg_temp.put('d5', 'status = CASE WHEN decisions = ''[]'' THEN ''open'' ELSE ''decided'' END, run_id = (SELECT s.run_id FROM mw.session AS s WHERE s.tenant = ''pgtap-forged'' AND s.session = ''d5'')');
SELECT matches(pg_temp.resume('d5'), '^MW605', 'an approval of the run before, which was abandoned');
DELETE FROM mw.approval_log WHERE tenant = 'pgtap-forged' AND session = 'd5' AND event = 'abandoned';
SELECT matches(pg_temp.resume('d5'), '^MW605', 'also where the log was made to fit');
SELECT is(pg_temp.paid(), 0, 'nothing of that was paid');
SELECT is(pg_temp.broken(), 'd1,d2,d3,d4,d5', 'and the check finds each of them');

-- ---------- who asked ----------

SELECT pg_temp.asked('a', 'w1');
SELECT pg_temp.put('w1', 'requested_by = ''pgtap_second''');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'w1'), '^MW605', 'a request in another name');
SELECT pg_temp.asked('a', 'w2');
ALTER ROLE pgtap_asker RENAME TO pgtap_asked;
SELECT is(pg_temp.decide('pgtap_reviewer', 'w2'), 'done', 'a role that was renamed has still asked for the same');
ALTER ROLE pgtap_asked RENAME TO pgtap_asker;
-- the reviewer asks by a function of the application's
CREATE FUNCTION forged.ask(s text) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$ SELECT mw_invoke('pgtap-forged', s, 'go', agent => 'a') $$;
ALTER FUNCTION forged.ask(text) OWNER TO pgtap_asker;
SELECT pg_temp.script('pay');
SELECT is(pg_temp.says('pgtap_reviewer', $$SELECT forged.ask('w3')$$), 'done', 'a reviewer asks by a function of the application');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'w3'), '^MW604 .*own request', 'and does not decide it');
SELECT matches(pg_temp.says('pgtap_reviewer', (SELECT format('SELECT mw_claim_interrupt(''pgtap-forged'', %L)', interrupt_id) FROM mw.interrupt WHERE tenant = 'pgtap-forged' AND session = 'w3')), '^MW604', 'nor claims it');
SET ROLE pgtap_reviewer;
SELECT is((SELECT count(*)::int FROM mw.inbox WHERE session = 'w3'), 0, 'nor does it wait for it');
RESET ROLE;
SELECT pg_temp.put('w3', 'requested_through = NULL');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'w3'), '^MW605', 'also if its part in it is taken out');
-- one login with both roles
SELECT pg_temp.asked('a', 'w4');
CREATE ROLE pgtap_person LOGIN IN ROLE pgtap_asker, pgtap_reviewer;
CREATE ROLE pgtap_pool LOGIN NOINHERIT;
GRANT pgtap_asker, pgtap_reviewer TO pgtap_pool;
SET SESSION AUTHORIZATION pgtap_person;
SET ROLE pgtap_reviewer;
SELECT throws_ok($$SELECT mw_decide('pgtap-forged', 'w4', '{"decisions": [{"type": "approve"}]}')$$, 'MW604', 'role "pgtap_reviewer" may not decide its own request', 'a login that has the requester''s rights, as another role');
RESET ROLE;
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION pgtap_pool;
SET ROLE pgtap_reviewer;
SELECT lives_ok($$SELECT mw_decide('pgtap-forged', 'w4', '{"decisions": [{"type": "approve"}]}')$$, 'a pool''s login, which has rights of none of its roles, is as many persons as it has roles');
RESET ROLE;
RESET SESSION AUTHORIZATION;
DROP ROLE pgtap_person, pgtap_pool;

-- ---------- one person for two ----------

CREATE FUNCTION forged.approve(s text) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$ SELECT mw_decide('pgtap-forged', s, '{"decisions": [{"type": "approve"}]}') $$;
ALTER FUNCTION forged.approve(text) OWNER TO pgtap_second;
SELECT pg_temp.asked('two', 'p1');
SELECT is(pg_temp.says('pgtap_reviewer', $$SELECT forged.approve('p1')$$), 'done', 'a reviewer approves by another one''s function');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'p1'), '^MW602 .* has approved', 'and not a second time as itself');
SELECT matches(pg_temp.decide('pgtap_second', 'p1'), '^MW602 .* has approved', 'nor does the owner');
SELECT pg_temp.asked('two', 'p2');
SELECT pg_temp.decide('pgtap_reviewer', 'p2');
ALTER ROLE pgtap_reviewer RENAME TO pgtap_renamed;
SELECT matches(pg_temp.decide('pgtap_renamed', 'p2'), '^MW602 .* has approved', 'a role that was renamed is one of two');
ALTER ROLE pgtap_renamed RENAME TO pgtap_reviewer;
SELECT is(pg_temp.decide('pgtap_second', 'p2'), 'done', 'another is the second');
SELECT is(pg_temp.resume('p2'), 'done', 'and it runs');
SELECT is(pg_temp.paid(), 1, 'once');

-- ---------- more than a grant says ----------

SELECT pg_temp.asked('a', 'g1');
SELECT matches(pg_temp.decide('pgtap_narrow', 'g1'), '^MW604', 'a reviewer of another tool');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'g1', '{"type": "edit", "edited_action": {"name": "refund", "args": {"amount": 10000, "payee": "mallory"}}}'), '^MW604', 'an edit to a tool that others review');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'g1', '{"type": "edit", "edited_action": {"name": "wire", "args": {"amount": 10000, "payee": "mallory"}}}'), '^MW602 .*approval of its own', 'or that asks by itself');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'g1', '{"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 1}}, "editedAction": {"name": "pay", "args": {"amount": 10000}}}'),
	'^MW602 Invalid decision: it has both', 'two edits in one, of which the page could show the other');
SELECT is((SELECT status FROM mw.interrupt WHERE tenant = 'pgtap-forged' AND session = 'g1'), 'open', 'nothing of that is stored');
SET ROLE pgtap_reviewer;
CREATE TEMPORARY TABLE page AS SELECT mw_inbox_html('pgtap-forged', interrupt_id => (SELECT interrupt_id FROM mw.inbox WHERE session = 'g1'), form => '{"action": "/"}',
	decisions => '{"decisions": [{"type": "approve", "edited_action": {"name": "pay", "args": {"amount": 1, "payee": "alice"}}}]}') AS html;
SELECT ok(html LIKE '%About to be recorded: <strong>Approve</strong>%' AND html NOT LIKE '%As edited%', 'an approval with an edit beside it is shown as the approval that it is') FROM page;
RESET ROLE;
-- values of a session, by way of what is beneath the inbox
CREATE FUNCTION pg_temp.told(s text) RETURNS text LANGUAGE sql AS $$
	SELECT mw.inbox_args('pgtap-forged', s, 'refund', 'pgtap_asker'::regrole, i.interrupt_id, i.place, '{"x": "<EMAIL_0>"}') ->> 'x' FROM mw.interrupt AS i WHERE i.tenant = 'pgtap-forged' AND i.session = 'g1' $$;
SET ROLE pgtap_seer;
SELECT is(mw.inbox_args('pgtap-forged', 'g1', 'refund', 'pgtap_asker'::regrole, 'made up', 0, '{"x": "<EMAIL_0>"}') ->> 'x', '<EMAIL_0>', 'an interrupt that was made up opens nothing');
SELECT is(mw.inbox_text('pgtap-forged', 'g1', 'refund', 'pgtap_asker'::regrole, 'made up', 0, 'to <EMAIL_0>'), 'to <EMAIL_0>', 'nor does its text');
RESET ROLE;
SELECT is((SELECT count(*)::int FROM mw.approval_log WHERE tenant = 'pgtap-forged' AND event = 'revealed'), 0, 'and leaves no row in the log');

-- ---------- claims, before reviewers are named ----------

SELECT mw_create_tenant('pgtap-forged-2', '{"cache": false, "guardrail": false}');
SELECT mw_grant_tenant('pgtap-forged-2', r) FROM unnest('{pgtap_asker,pgtap_second}'::regrole[]) AS r;
SELECT mw_create_tool('pay', 'forged.pay(numeric, text)', 'Pay.', options => '{"writes": true}', tenant => 'pgtap-forged-2');
SELECT mw_create_agent('a', '{"model": "pgtap_forged:m", "tools": ["pay"], "middleware": [{"type": "human_in_the_loop", "interrupt_on": {"pay": true}}]}', 'pgtap-forged-2');
SELECT pg_temp.script('pay');
SELECT pg_temp.says('pgtap_asker', $$SELECT mw_invoke('pgtap-forged-2', 'c', 'go', agent => 'a')$$);
SET ROLE pgtap_asker;
SELECT ok(mw_claim_interrupt('pgtap-forged-2', (SELECT interrupt_id FROM mw.inbox WHERE session = 'c')), 'a colleague takes it');
RESET ROLE;
SELECT matches(pg_temp.says('pgtap_second', $$SELECT mw_decide('pgtap-forged-2', 'c', '{"decisions": [{"type": "reject"}]}')$$), '^MW604 another reviewer is at work', 'and no other decides it meanwhile');
SELECT is(pg_temp.says('pgtap_asker', $$SELECT mw_decide('pgtap-forged-2', 'c', '{"decisions": [{"type": "reject"}]}', comment => 'not now')$$), 'done', 'until that is done');

-- ---------- the note is part of the story ----------

SELECT is((SELECT detail ->> 'comment' FROM mw.approval_log WHERE tenant = 'pgtap-forged-2' AND event = 'decided'), 'not now', 'a reviewer''s note is in the log');
UPDATE mw.approval_log SET detail = detail || '{"comment": "as you like"}' WHERE tenant = 'pgtap-forged-2' AND event = 'decided';
SELECT is((SELECT string_agg(session, ',') FROM mw_check() WHERE tenant = 'pgtap-forged-2' AND finding = 'the log of approvals was altered'), 'c', 'and found where it was altered');

-- ---------- what a model and a requester put into names ----------

SELECT mw_fake('pgtap_forged', jsonb_build_object('m', jsonb_build_array(jsonb_build_object('tool_calls', jsonb_build_array(
	jsonb_build_object('id', U&'c\202E' || chr(27) || '[2J<b>', 'name', 'pay', 'arguments', '{"amount": 1, "payee": "x"}'::jsonb))), '{"text": "done"}'::jsonb)));
SELECT is(pg_temp.says('pgtap_asker', format($$SELECT mw_invoke('pgtap-forged', %L, 'go', agent => 'a')$$, U&'n\202E<script>''; DROP TABLE x; --')), 'done', 'a session and a call with names that are not what they seem');
SET ROLE pgtap_reviewer;
SELECT is((SELECT count(*)::int FROM mw.inbox AS i WHERE i.tool_call_id ~ U&'[\0001-\001f\202a-\202e]'), 0, 'the inbox shows the call''s harmlessly');
SELECT ok(mw_inbox_html('pgtap-forged') !~ U&'[\0001-\0008\202a-\202e]|<script' AND mw_inbox_html('pgtap-forged', interrupt_id => (SELECT max(interrupt_id) FROM mw.inbox WHERE session ~ '^n')) !~ U&'[\0001-\0008\202a-\202e]|<script', 'and so does the page');
SELECT is(pg_temp.says('pgtap_reviewer', (SELECT format('SELECT mw_decide(tenant, session, ''{"decisions": [{"type": "reject"}]}'') FROM mw.interrupt WHERE interrupt_id = %L', max(interrupt_id)) FROM mw.inbox WHERE session ~ '^n')), 'done', 'and it is decided by what it is');
RESET ROLE;
SELECT * FROM finish();
ROLLBACK;
