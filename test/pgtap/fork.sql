-- mw_fork_session: a branch that is not the thread it came from, or that reaches into it, is worse than none.
BEGIN;
SELECT plan(14);

CREATE SERVER forked FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('fork', '{"model": "forked:m", "cache": false}');
SELECT mw_create_tenant('fork_other');
CREATE ROLE fork_app;
CREATE ROLE fork_else;
SELECT mw_grant_tenant('fork', 'fork_app'), mw_grant_tenant('fork_other', 'fork_else');
GRANT USAGE ON FOREIGN SERVER forked TO fork_app;
SELECT mw_create_agent('forker', '{"middleware": [{"type": "custom", "name": "count", "hooks": {}, "state": {"n": {"default": 7}}}]}', 'fork');
SELECT mw_fake('forked', '{"m": [{"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "branch"}, {"text": "on"}]}');

SET ROLE fork_app;
SELECT mw_ask('fork', 's', 'first, of ann@example.com', agent => 'forker'), mw_ask('fork', 's', 'second', agent => 'forker');
SELECT is(mw_fork_session('fork', 's', 'whole'), 4::bigint, 'a fork has the messages');
SELECT is((SELECT array_agg(content ORDER BY position) FROM mw.message WHERE session = 'whole'),
	(SELECT array_agg(content ORDER BY position) FROM mw.message WHERE session = 's'), 'the same ones');
SELECT is((SELECT state FROM mw.session WHERE session = 'whole'), (SELECT state FROM mw.session WHERE session = 's'), 'and the state');
SELECT is(mw_fork_session('fork', 's', 'early', (SELECT id FROM mw.message WHERE session = 's' ORDER BY position OFFSET 1 LIMIT 1)), 2::bigint,
	'after a message it has what had been said by then');
SELECT is(mw_ask('fork', 'early', 'another second, of ann@example.com', agent => 'forker'), 'three', 'it goes on from there');
SELECT is((SELECT content FROM mw.message WHERE session = 'early' ORDER BY position OFFSET 2 LIMIT 1), '"another second, of <EMAIL_0>"',
	'and the same value has the same placeholder');
SELECT is((SELECT count(*)::int FROM mw.message WHERE session = 's'), 4, 'the session that it came from is as it was');

-- a message that a summary has taken away
RESET ROLE;
UPDATE mw.thread SET removed_step = 99 WHERE tenant = 'fork' AND session = 's' AND message ->> 'content' = 'one';
SET ROLE fork_app;
SELECT is(mw_fork_session('fork', 's', 'past', (SELECT message ->> 'id' FROM mw.thread WHERE session = 's' AND message ->> 'content' = 'one')), 2::bigint,
	'also after one that is no longer in the thread');
SELECT is(mw_fork_session('fork', 's', 'now'), 3::bigint, 'while the thread of now has it no more');

SELECT throws_ok($$SELECT mw_fork_session('fork', 's', 'whole')$$, '42710', NULL, 'not onto a session that is there');
SELECT throws_ok($$SELECT mw_fork_session('fork', 'none', 'x')$$, 'MW001', NULL, 'not from one that is not');
SELECT throws_ok($$SELECT mw_fork_session('fork', 's', 'x', 'none')$$, 'MW001', NULL, 'not after a message that is not');
SELECT throws_ok($$SELECT mw_fork_session('fork', 's', '')$$, 'MW001', NULL, 'not without a name');
SET ROLE fork_else;
SELECT throws_ok($$SELECT mw_fork_session('fork', 's', 'stolen')$$, 'MW101', NULL, 'not by another tenant''s role');
RESET ROLE;
SELECT * FROM finish();
ROLLBACK;
