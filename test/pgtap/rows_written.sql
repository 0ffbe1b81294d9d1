-- What a run leaves is written without statements.  What somebody has added to its tables must still be obeyed, and an
-- error in the middle of it must leave nothing that the next run stumbles over.
BEGIN;
SELECT plan(15);
CREATE SERVER rows FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('rows', '{"model": "rows:m", "redact": false, "guardrail": false, "cache": false}');
SELECT mw_create_agent('writer', '{}', 'rows');
CREATE FUNCTION said(session text, what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_fake('rows', '{"m": [{"text": "Yes."}]}');
	RETURN mw_ask('rows', session, what, agent => 'writer');
END $$;
CREATE TEMP TABLE seen (what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO pg_temp.seen VALUES (TG_OP || ' ' || TG_TABLE_NAME || ' ' || current_user); RETURN NEW; END $$;

SELECT is(said('s1', 'one'), 'Yes.', 'tables as they were installed');
UPDATE mw.session SET created_at = '2020-01-01' WHERE tenant = 'rows';
SELECT is(said('s1', 'two'), 'Yes.', 'the session again');
SELECT is((SELECT array_agg(message ->> 'content' ORDER BY position) FROM mw.thread WHERE tenant = 'rows'), '{one,Yes.,two,Yes.}', 'its thread');
SELECT is((SELECT created_at FROM mw.session WHERE tenant = 'rows'), '2020-01-01', 'a session is as old as it was');
SELECT is((SELECT count(*) FROM mw.run WHERE tenant = 'rows'), 2::bigint, 'each run has its row');
SELECT is((SELECT run_id FROM mw.session WHERE tenant = 'rows'), (SELECT run_id FROM mw.thread WHERE tenant = 'rows' ORDER BY seq DESC LIMIT 1), 'the newest is the session''s');

CREATE TRIGGER note BEFORE INSERT OR UPDATE ON mw.thread FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note BEFORE INSERT OR UPDATE ON mw.session FOR EACH ROW EXECUTE FUNCTION note();
SELECT is(said('s1', 'three'), 'Yes.', 'with triggers');
SELECT is((SELECT array_agg(what) FROM seen WHERE what LIKE '% thread %'),
	(SELECT array_fill('INSERT thread ' || tableowner, ARRAY[2]) FROM pg_tables WHERE schemaname = 'mw' AND tablename = 'thread'), 'they run, as the owner');
SELECT ok(EXISTS (SELECT FROM seen WHERE what LIKE 'UPDATE session %'), 'also where a row is written anew');
DROP TRIGGER note ON mw.thread;
DROP TRIGGER note ON mw.session;

ALTER TABLE mw.thread ADD CONSTRAINT polite CHECK (message ->> 'content' <> 'rude') NOT VALID;
SELECT throws_ok($$ SELECT said('s1', 'rude') $$, '23514', NULL, 'with a constraint');
SELECT is(said('s1', 'four'), 'Yes.', 'what it lets pass');
ALTER TABLE mw.thread DROP CONSTRAINT polite;

DELETE FROM mw.trace WHERE tenant = 'rows';
CREATE UNIQUE INDEX once ON mw.trace (tenant, session, kind);
SELECT is(said('s2', 'a session of its own'), 'Yes.', 'with another index');
SELECT throws_ok($$ SELECT said('s2', 'five') $$, '23505', NULL, 'an error while rows are written');
DROP INDEX mw.once;
SELECT is(said('s2', 'six'), 'Yes.', 'leaves nothing behind');
SELECT is((SELECT array_agg(message ->> 'content' ORDER BY position) FROM mw.thread WHERE tenant = 'rows' AND session = 's2'),
	'{"a session of its own",Yes.,six,Yes.}', 'in the thread either');
SELECT * FROM finish();
ROLLBACK;
