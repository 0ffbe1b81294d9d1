-- session_policy: two users of one tenant.  A session that one of them can read or go on with is not the other's secret any more.
BEGIN;
SELECT plan(23);

CREATE SERVER whose FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE whose_ann;
CREATE ROLE whose_ben;
CREATE SCHEMA whose;
GRANT USAGE ON SCHEMA whose TO PUBLIC;
CREATE FUNCTION whose.own(tenant text, session text) RETURNS boolean LANGUAGE sql STABLE AS
$$ SELECT session LIKE replace(current_user, 'whose_', '') || ':%' $$;
SELECT mw_create_tenant('whose', '{"model": "whose:m", "cache": false, "session_policy": "whose.own"}');
SELECT mw_grant_tenant('whose', 'whose_ann'), mw_grant_tenant('whose', 'whose_ben');
GRANT USAGE ON FOREIGN SERVER whose TO whose_ann, whose_ben;
SELECT mw_create_agent('whose', '{}', 'whose');
SELECT mw_fake('whose', '{"m": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}');

SET ROLE whose_ann;
SELECT is(mw_ask('whose', 'ann:1', 'a secret', agent => 'whose'), 'one', 'a session of one''s own');
SELECT throws_ok($$SELECT mw_ask('whose', 'ben:1', 'hello', agent => 'whose')$$, 'MW101', NULL, 'not one of another user''s');
SELECT throws_ok($$SELECT mw_ask('whose', 'ben:1', 'hello', options => '{"memory": true}')$$, 'MW101', NULL, 'not without an agent either');
SELECT is((SELECT count(*)::int FROM mw.message), 2, 'its thread is seen');
SELECT is(mw_ask('whose', 'any', 'no memory'), 'two', 'a call that keeps nothing has no session to hide');

SET ROLE whose_ben;
SELECT is_empty('SELECT 1 FROM mw.message UNION ALL SELECT 1 FROM mw.session UNION ALL SELECT 1 FROM mw.run UNION ALL SELECT 1 FROM mw.trace UNION ALL SELECT 1 FROM mw.thread',
	'another user of the tenant sees none of it');
SELECT is_empty($$SELECT * FROM mw_messages('whose', 'ann:1')$$, 'through no function');
SELECT throws_ok($$SELECT mw_fork_session('whose', 'ann:1', 'ben:2')$$, 'MW001', NULL, 'and cannot branch it');
SELECT throws_ok($$SELECT mw_resume('whose', 'ann:1')$$, 'MW101', NULL, 'or resume it');
SELECT throws_ok($$SELECT mw_fork_session('whose', 'ben:1', 'ann:2')$$, 'MW101', NULL, 'or make one that the other has not begun');
SELECT throws_ok($$SELECT * FROM mw_explain('whose', 'ann:1', 'hello', agent => 'whose')$$, 'MW101', NULL, 'or have it explained');

-- what waits in it, and what its placeholders stand for
RESET ROLE;
CREATE FUNCTION whose.send(what text) RETURNS text LANGUAGE sql AS $$ SELECT 'sent' $$;
SELECT mw_create_tool('send', 'whose.send(text)', tenant => 'whose');
SELECT mw_create_agent('asks', '{"tools": ["send"], "middleware": [{"type": "human_in_the_loop", "interrupt_on": {"send": true}}]}', 'whose');
SELECT mw_fake('whose', '{"m": [{"tool_calls": [{"id": "c1", "name": "send", "arguments": {"what": "x"}}]}, {"text": "sent"}]}');
SET ROLE whose_ann;
SELECT is(mw_invoke('whose', 'ann:3', 'of ana@example.com', agent => 'asks') ->> 'status', 'interrupted', 'a call waits');
CREATE TEMPORARY TABLE waits AS SELECT interrupt_id FROM mw.inbox WHERE session = 'ann:3';
GRANT SELECT ON waits TO whose_ben;
SET ROLE whose_ben;
SELECT throws_ok($$SELECT mw_restore('<EMAIL_0>', 'whose', 'ann:3')$$, 'MW101', NULL, 'whose values the other user cannot have');
SELECT throws_ok($$SELECT mw_redact('ana@example.com', 'whose', '{}', 'ann:3')$$, 'MW101', NULL, 'nor find out whether it has one');
SELECT throws_ok($$SELECT mw_claim_interrupt('whose', interrupt_id) FROM waits$$, 'MW101', NULL, 'which it does not claim');
SELECT throws_ok($$SELECT mw_decide('whose', 'ann:3', '{"decisions": [{"type": "approve"}]}')$$, 'MW101', NULL, 'and does not decide');
RESET ROLE;
SELECT mw_grant_reviewer('whose', 'whose_ben', '{other}');
SET ROLE whose_ben;
SELECT throws_ok($$SELECT mw_decide('whose', 'ann:3', '{"decisions": [{"type": "approve"}]}')$$, 'MW101', NULL, 'not as a reviewer of another tool either');
SELECT throws_ok($$SELECT mw_claim_interrupt('whose', interrupt_id) FROM waits$$, 'MW101', NULL, 'in no way');
RESET ROLE;
SELECT mw_grant_reviewer('whose', 'whose_ben', '{send}');
SET ROLE whose_ben;
SELECT is((SELECT status FROM mw_decide('whose', 'ann:3', '{"decisions": [{"type": "reject", "message": "ask bob@example.com"}]}')), 'decided', 'a reviewer of the tool does, whosever session it is');
SELECT is((SELECT count(*)::int FROM mw.message WHERE session = 'ann:3'), 0, 'and sees nothing of it');

RESET ROLE;
SELECT throws_ok($$SELECT mw_alter_tenant('whose', '{"session_policy": "whose.none"}')$$, 'MW001', NULL, 'a function that is not there is refused');
SELECT lives_ok($$SELECT mw_alter_tenant('whose', '{"session_policy": null}')$$, 'it can be taken away');
SET ROLE whose_ben;
SELECT is((SELECT count(*)::int FROM mw.message WHERE session = 'ann:1'), 2, 'then the tenant''s sessions are its roles''');
RESET ROLE;
SELECT * FROM finish();
ROLLBACK;
