-- Risk: one person is two of those who have to approve, or approves what it asked for itself: by another role of the same login after its
-- membership was taken away, by a role that was made again.  And the other way round: two persons are taken for one.
BEGIN;
SELECT plan(29);

CREATE SERVER pgtap_person FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE pgtap_asker;
CREATE ROLE pgtap_one;
CREATE ROLE pgtap_two;
CREATE ROLE pgtap_login;
CREATE ROLE pgtap_pool NOINHERIT;
GRANT pgtap_asker, pgtap_one, pgtap_two TO pgtap_pool;
GRANT pgtap_one, pgtap_two TO pgtap_login;
GRANT USAGE ON FOREIGN SERVER pgtap_person TO pgtap_asker;
SELECT mw_create_tenant('pgtap-person', '{"cache": false, "retry": {"max_attempts": 1}, "guardrail": false}');
SELECT mw_grant_tenant('pgtap-person', 'pgtap_asker');
SELECT mw_grant_reviewer('pgtap-person', name::regrole) FROM unnest('{pgtap_one,pgtap_two}'::text[]) AS name;
CREATE SCHEMA person;
GRANT USAGE ON SCHEMA person TO PUBLIC;
CREATE FUNCTION person.pay(amount numeric) RETURNS text LANGUAGE sql AS $$ SELECT 'paid' $$;
SELECT mw_create_tool('pay', 'person.pay(numeric)', 'Pay.', tenant => 'pgtap-person');
SELECT mw_create_agent('a' || n, jsonb_build_object('model', 'pgtap_person:m', 'tools', '["pay"]'::jsonb, 'middleware', jsonb_build_array(
	jsonb_build_object('type', 'human_in_the_loop', 'approvals', n, 'interrupt_on', '{"pay": true}'::jsonb))), 'pgtap-person')
FROM generate_series(1, 2) AS n;

CREATE FUNCTION pg_temp.says(login text, role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text; r text;
BEGIN
	EXECUTE format('SET LOCAL SESSION AUTHORIZATION %I', login);
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE statement INTO r;
	RESET SESSION AUTHORIZATION;
	RETURN r;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE;
	RETURN s || ' ' || m;
END $$;
CREATE FUNCTION pg_temp.asked(login text, s text, n int) RETURNS text LANGUAGE sql AS $$
	SELECT mw_fake('pgtap_person', '{"m": [{"tool_calls": [{"id": "c1", "name": "pay", "arguments": {"amount": 10}}]}, {"text": "done"}]}');
	SELECT pg_temp.says(login, 'pgtap_asker', format('SELECT mw_invoke(''pgtap-person'', %L, ''go'', agent => %L) ->> ''status''', s, 'a' || n)) $$;
CREATE FUNCTION pg_temp.approve(login text, role text, s text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.says(login, role, format('SELECT status FROM mw_decide(''pgtap-person'', %L, ''{"decisions": [{"type": "approve"}]}'')', s)) $$;

-- ---------- two of n ----------

SELECT pg_temp.asked('pgtap_asker', s, 2) FROM unnest('{n1,n2,n3,n4,n5}'::text[]) AS s;
SELECT is(pg_temp.approve('pgtap_login', 'pgtap_one', s), 'open', 'a login approves by one role: ' || s) FROM unnest('{n1,n2}'::text[]) AS s;
REVOKE pgtap_one FROM pgtap_login;
SELECT matches(pg_temp.approve('pgtap_login', 'pgtap_two', 'n1'), '^MW602 .*has approved call "c1" already', 'and not by another when it has left the first');
SELECT is(pg_temp.approve('pgtap_two', 'pgtap_two', 'n1'), 'decided', 'a person of that role does');
GRANT pgtap_one TO pgtap_login;
ALTER ROLE pgtap_login NOINHERIT;
SELECT matches(pg_temp.approve('pgtap_login', 'pgtap_two', 'n2'), '^MW602 .*has approved call "c1" already', 'nor when it inherits nothing any more');
SELECT is(pg_temp.approve('pgtap_login', 'pgtap_one', 'n3'), 'open', 'a login that inherits nothing approves');
ALTER ROLE pgtap_login INHERIT;
REVOKE pgtap_one FROM pgtap_login;
SELECT matches(pg_temp.approve('pgtap_login', 'pgtap_two', 'n3'), '^MW602 .*has approved call "c1" already', 'and not again when it inherits what it approves by then');
GRANT pgtap_one TO pgtap_login;
SELECT is(pg_temp.approve('pgtap_pool', 'pgtap_one', 'n4'), 'open', 'the login of a pool is nobody');
SELECT is(pg_temp.approve('pgtap_pool', 'pgtap_two', 'n4'), 'decided', 'and its roles are persons');

-- ---------- four eyes ----------

GRANT pgtap_asker TO pgtap_login;
SELECT is(pg_temp.asked('pgtap_login', 'f1', 1), 'interrupted', 'a login asks by a role');
SELECT is(pg_temp.asked('pgtap_pool', 'f2', 1), 'interrupted', 'and a pool');
REVOKE pgtap_asker FROM pgtap_login;
SELECT matches(pg_temp.approve('pgtap_login', 'pgtap_two', 'f1'), '^MW604 .*may not decide its own request', 'who has left the role that it asked by still has asked');
SELECT is(pg_temp.approve('pgtap_pool', 'pgtap_two', 'f2'), 'decided', 'a pool has not');

-- ---------- roles that have a name after another ----------

SELECT is(pg_temp.approve('pgtap_one', 'pgtap_one', s), 'open', 'a role approves: ' || s) FROM unnest('{n5}'::text[]) AS s;
ALTER ROLE pgtap_one RENAME TO pgtap_one_then;
CREATE ROLE pgtap_one;
SELECT mw_grant_reviewer('pgtap-person', 'pgtap_one');
SELECT matches(pg_temp.approve('pgtap_one_then', 'pgtap_one_then', 'n5'), '^MW602 .*already', 'by its new name it has approved');
SELECT is(pg_temp.approve('pgtap_one', 'pgtap_one', 'n5'), 'decided', 'another that has its old name has not');

-- ---------- what a role is shown is what it may decide ----------

-- what waits for a role, whether it may claim it, and whether a decision would be its own: one answer
CREATE FUNCTION pg_temp.three(login text, role text, s text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', pg_temp.says(login, role, format('SELECT count(*) FROM mw.inbox WHERE session = %L', s)),
		substring(pg_temp.says(login, role, format('SELECT mw_claim_interrupt(''pgtap-person'', %L, NULL)', (SELECT interrupt_id FROM mw.interrupt WHERE tenant = 'pgtap-person' AND session = s))) FOR 5),
		(SELECT count(*) FROM mw.approval_log WHERE tenant = 'pgtap-person' AND session = s AND event = 'revealed'),
		substring(pg_temp.approve(login, role, s) FOR 5)) $$;
CREATE FUNCTION person.ask(s text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT mw_invoke('pgtap-person', s, 'go', agent => 'a1') ->> 'status' $$;
ALTER FUNCTION person.ask(text) OWNER TO pgtap_asker;
CREATE ROLE pgtap_back;
SELECT mw_fake('pgtap_person', '{"m": [{"tool_calls": [{"id": "c1", "name": "pay", "arguments": {"amount": 10}}]}]}');
SELECT is(pg_temp.says('pgtap_back', 'pgtap_back', $$SELECT person.ask('t1')$$), 'interrupted', 'a role asks by another one''s function');
GRANT pgtap_asker TO pgtap_login;
SELECT is(pg_temp.asked('pgtap_login', 't2', 1), 'interrupted', 'a login by a role that it leaves');
REVOKE pgtap_asker FROM pgtap_login;
GRANT pgtap_one TO pgtap_login;
SELECT pg_temp.asked('pgtap_asker', 't3', 2);
SELECT is(pg_temp.approve('pgtap_login', 'pgtap_one', 't3'), 'open', 'one of two approves');
SELECT is(pg_temp.asked('pgtap_asker', 't4', 1), 'interrupted', 'and a role asks that is no more');
DROP ROLE pgtap_back;
CREATE ROLE pgtap_back;
SELECT mw_grant_reviewer('pgtap-person', 'pgtap_back', reveal => true);
SELECT is(pg_temp.three('pgtap_back', 'pgtap_back', 't1'), '0 MW604 0 MW604', 'who called that function has no part in it when it is made again');
SELECT is(pg_temp.three('pgtap_login', 'pgtap_two', 't2'), '0 MW604 0 MW604', 'nor that login by any other role');
SELECT is(pg_temp.three('pgtap_login', 'pgtap_two', 't3'), '0 MW604 0 MW602', 'nor in what it has approved');
SELECT is(pg_temp.three('pgtap_two', 'pgtap_two', 't3'), '1 true 0 decid', 'which waits for another');
DROP OWNED BY pgtap_asker;
DROP ROLE pgtap_asker;
CREATE ROLE pgtap_asker;
SELECT mw_grant_reviewer('pgtap-person', 'pgtap_asker', reveal => true);
SELECT is(pg_temp.three('pgtap_asker', 'pgtap_asker', 't4'), '0 MW604 0 MW604', 'nor has who asked, when made again');
SELECT is(pg_temp.three('pgtap_two', 'pgtap_two', s), '1 true 0 decid', 'another has: ' || s) FROM unnest('{t1,t2,t4}'::text[]) AS s;

SELECT is((SELECT count(*)::int FROM mw_check() WHERE tenant = 'pgtap-person'), 0, 'the log holds together');
SELECT * FROM finish();
ROLLBACK;
