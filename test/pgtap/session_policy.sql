-- session_policy: two users of one tenant.  A session that one of them can read or go on with is not the other's secret any more.
BEGIN;
SELECT plan(12);

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

RESET ROLE;
SELECT throws_ok($$SELECT mw_alter_tenant('whose', '{"session_policy": "whose.none"}')$$, 'MW001', NULL, 'a function that is not there is refused');
SELECT lives_ok($$SELECT mw_alter_tenant('whose', '{"session_policy": null}')$$, 'it can be taken away');
SET ROLE whose_ben;
SELECT is((SELECT count(*)::int FROM mw.message), 2, 'then the tenant''s sessions are its roles''');
RESET ROLE;
SELECT * FROM finish();
ROLLBACK;
