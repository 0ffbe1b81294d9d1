-- Risk: roles, grants and clients that change while a call waits: a claim that holds others off for nobody, a requester who comes back under its
-- name and decides, a look or a decision through another one's function of which the log says nothing, a page that a client cannot read.
BEGIN;
SELECT plan(23);

CREATE SERVER pgtap_roles FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE pgtap_reviewer;
CREATE ROLE pgtap_second;
CREATE ROLE pgtap_other;
SELECT mw_create_tenant('pgtap-roles', '{"cache": false, "retry": {"max_attempts": 1}, "guardrail": false}');
SELECT mw_grant_tenant('pgtap-roles', 'pgtap_other');
GRANT USAGE ON FOREIGN SERVER pgtap_roles TO pgtap_other;
SELECT mw_grant_reviewer('pgtap-roles', 'pgtap_second');
CREATE SCHEMA roles;
GRANT USAGE ON SCHEMA roles TO PUBLIC;
CREATE FUNCTION roles.pay(amount numeric, payee text) RETURNS text LANGUAGE sql AS $$ SELECT 'paid' $$;
SELECT mw_create_tool('pay', 'roles.pay(numeric, text)', 'Pay.', tenant => 'pgtap-roles');
SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_roles:m', 'tools', '["pay"]'::jsonb, 'middleware', jsonb_build_array(
	'{"type": "human_in_the_loop", "interrupt_on": {"pay": true}}'::jsonb)) || more, 'pgtap-roles')
FROM (VALUES ('a', '{}'::jsonb), ('any', '{"resume_as": "any"}')) AS v(name, more);

CREATE FUNCTION pg_temp.says(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text; d text; h text; r text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE statement INTO r;
	RESET ROLE;
	RETURN r;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', s, m, d, h);
END $$;
-- a role that asks; the next one of its name is another
CREATE FUNCTION pg_temp.hire(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE ROLE %I', name);
	EXECUTE format('GRANT USAGE ON FOREIGN SERVER pgtap_roles TO %I', name);
	PERFORM mw_grant_tenant('pgtap-roles', name::regrole);
END $$;
CREATE FUNCTION pg_temp.dismiss(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP OWNED BY %I', name);
	EXECUTE format('DROP ROLE %I', name);
END $$;
CREATE FUNCTION pg_temp.asked(role text, s text, agent text DEFAULT 'a', payee text DEFAULT 'alice') RETURNS text LANGUAGE sql AS $$
	SELECT mw_fake('pgtap_roles', jsonb_build_object('m', jsonb_build_array(jsonb_build_object('tool_calls', jsonb_build_array(jsonb_build_object('id', 'c1', 'name', 'pay',
		'arguments', jsonb_build_object('amount', 10, 'payee', payee)))), '{"text": "done"}'::jsonb)));
	SELECT pg_temp.says(role, format('SELECT mw_invoke(''pgtap-roles'', %L, ''go'', agent => %L) ->> ''status''', s, agent)) $$;
CREATE FUNCTION pg_temp.decide(role text, s text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.says(role, format('SELECT status FROM mw_decide(''pgtap-roles'', %L, ''{"decisions": [{"type": "approve"}]}'')', s)) $$;
CREATE FUNCTION pg_temp.id(s text) RETURNS text LANGUAGE sql AS $$ SELECT interrupt_id FROM mw.interrupt WHERE tenant = 'pgtap-roles' AND session = s $$;
CREATE FUNCTION pg_temp.claim(role text, s text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.says(role, format('SELECT mw_claim_interrupt(''pgtap-roles'', %L, ''1 day'')', pg_temp.id(s))) $$;

-- ---------- a claim of somebody who decides nothing any more ----------

SELECT pg_temp.hire('pgtap_asker');
SELECT pg_temp.asked('pgtap_asker', s) FROM unnest('{c1,c2,c3}'::text[]) AS s;
SELECT mw_grant_reviewer('pgtap-roles', 'pgtap_reviewer');
SELECT is(pg_temp.claim('pgtap_reviewer', s), 'true', 'a reviewer claims ' || s) FROM unnest('{c1,c2,c3}'::text[]) AS s;
SELECT is(pg_temp.claim('pgtap_second', 'c1'), 'false', 'which holds another one off');
SELECT matches(pg_temp.decide('pgtap_second', 'c1'), '^MW604 \| another reviewer', 'who does not decide it');
SELECT mw_revoke_reviewer('pgtap-roles', 'pgtap_reviewer');
SELECT is(pg_temp.claim('pgtap_second', 'c1'), 'true', 'without its grant it holds nobody off');
SELECT is(pg_temp.decide('pgtap_second', 'c2'), 'decided', 'from a decision neither');
SELECT matches(pg_temp.decide('pgtap_reviewer', 'c3'), '^MW101', 'nor does it decide what it claimed');
DROP ROLE pgtap_reviewer;
SELECT is(pg_temp.decide('pgtap_second', 'c3'), 'decided', 'nor does it when the role is gone');
CREATE ROLE pgtap_reviewer;

-- ---------- a requester who comes back ----------

SELECT is(pg_temp.asked('pgtap_asker', 'r1', 'any'), 'interrupted', 'a run that others may resume waits');
SELECT is(pg_temp.asked('pgtap_asker', 'r2'), 'interrupted', 'and one of its role alone');
SELECT pg_temp.dismiss('pgtap_asker');
SELECT pg_temp.hire('pgtap_asker');
SELECT mw_grant_reviewer('pgtap-roles', 'pgtap_asker');
SELECT matches(pg_temp.decide('pgtap_asker', 'r1'), '^MW604 \| role "pgtap_asker" may not decide its own request', 'a role that was made again does not decide what it asked for before');
SELECT is(pg_temp.decide('pgtap_second', s), 'decided', 'another does: ' || s) FROM unnest('{r1,r2}'::text[]) AS s;
SELECT is(pg_temp.says('pgtap_asker', $$SELECT mw_resume('pgtap-roles', 'r1') ->> 'status'$$), 'completed', 'the one goes on');
SELECT matches(pg_temp.says('pgtap_asker', $$SELECT mw_resume('pgtap-roles', 'r2')$$), 'MW604 .*That role is gone\. A new prompt abandons what waits', 'the other has nobody who may, and says what is left');
SELECT is(pg_temp.asked('pgtap_asker', 'r3'), 'interrupted', 'a third waits');
SELECT matches(pg_temp.says('pgtap_other', $$SELECT mw_resume('pgtap-roles', 'r3')$$), 'MW604 .*let role pgtap_asker resume', 'where the role is there it is named');
SELECT mw_revoke_reviewer('pgtap-roles', 'pgtap_asker');

-- ---------- by another one's function ----------

CREATE FUNCTION roles.decide(s text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT status FROM mw_decide('pgtap-roles', s, '{"decisions": [{"type": "approve"}]}') $$;
ALTER FUNCTION roles.decide(text) OWNER TO pgtap_second;
SELECT is(pg_temp.says('pgtap_other', $$SELECT roles.decide('r3')$$), 'decided', 'a decision by a reviewer''s function');
SELECT is((SELECT role || ' ' || (detail ->> 'through') FROM mw.approval_log WHERE tenant = 'pgtap-roles' AND session = 'r3' AND event = 'decided'), 'pgtap_second pgtap_other', 'has both in the log');
SELECT is((SELECT count(*)::int FROM mw_check() WHERE tenant = 'pgtap-roles'), 0, 'which holds together');

-- ---------- a client of another encoding ----------

SELECT pg_temp.asked('pgtap_asker', 'e1', payee => U&'\+01F600 \20AC caf\00E9 \+01BCA0');
SET LOCAL client_encoding = 'LATIN1';
SELECT is((SELECT string_agg(DISTINCT m[1], ' ') FROM regexp_matches(pg_temp.says('pgtap_second', $$SELECT mw_inbox_html('pgtap-roles')$$), '[^\x01-\x7f]', 'g') AS m), NULL,
	'a page has nothing that its client''s encoding may not have');
SELECT ok(pg_temp.says('pgtap_second', $$SELECT mw_inbox_html('pgtap-roles')$$) LIKE '%&#128512; &#8364; caf&#233; \\ud82f\\udca0%', 'and shows it, and what cannot be seen as its number');
SET LOCAL client_encoding = 'UTF8';

SELECT * FROM finish();
ROLLBACK;
