-- Risk: a stored answer that is fetched without a statement is fetched past what a statement would
-- have been held to: the right to SELECT, the row policies of the calling role, a change of either.
BEGIN;
SELECT plan(30);

CREATE ROLE stored_a;
CREATE ROLE stored_b;
CREATE ROLE stored_staff;
CREATE SERVER stored FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
GRANT USAGE ON FOREIGN SERVER stored TO stored_a, stored_b;
SELECT mw_create_tenant('stored', '{"model": "stored:m"}');
SELECT mw_grant_tenant('stored', 'stored_a');
SELECT mw_grant_tenant('stored', 'stored_b');
SELECT mw_fake('stored', '[{"step": {"text": "fine"}}]');

CREATE FUNCTION pg_temp.cache(prompt text) RETURNS text LANGUAGE sql AS $$
	SELECT mw_invoke('stored', NULL, prompt, options => '{"cache": "on"}') ->> 'cache'
$$;
GRANT EXECUTE ON FUNCTION pg_temp.cache(text) TO PUBLIC;

SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'miss', 'the first call pays');
SELECT is(pg_temp.cache('one'), 'hit', 'the second does not');
SET LOCAL ROLE stored_b;
SELECT is(pg_temp.cache('one'), 'hit', 'nor does another role of the tenant');

-- policies that an administrator adds hold at once, for the roles that they are for
RESET ROLE;
CREATE POLICY narrow ON mw.fake_cache AS RESTRICTIVE TO stored_a USING (model <> 'stored:m');
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'miss', 'a policy hides the row from the role that it is for');
SET LOCAL ROLE stored_b;
SELECT is(pg_temp.cache('one'), 'hit', '... and from no other');
SET LOCAL row_security = off;
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'miss', 'a session that turns row security off sees no more');
SET LOCAL row_security = on;
RESET ROLE;
SELECT is(pg_temp.cache('one'), 'hit', 'no policy is for a superuser');

-- a policy for members of a role: membership counts when it is there
ALTER POLICY narrow ON mw.fake_cache TO stored_staff;
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'hit', 'a policy that no longer is for the role no longer hides');
RESET ROLE;
GRANT stored_staff TO stored_a;
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'miss', 'a new member is held to what is for the members');
RESET ROLE;
REVOKE stored_staff FROM stored_a;
DROP POLICY narrow ON mw.fake_cache;
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'hit', 'without the policy all is as it was');

-- a function in a policy is the function of now
RESET ROLE;
CREATE FUNCTION stored_may(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE POLICY narrow ON mw.fake_cache AS RESTRICTIVE USING (stored_may(model));
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'hit', 'a function of a policy says yes');
RESET ROLE;
CREATE OR REPLACE FUNCTION stored_may(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'miss', '... and, replaced, no');

-- what needs a planner gets one
RESET ROLE;
DROP POLICY narrow ON mw.fake_cache;
CREATE POLICY narrow ON mw.fake_cache AS RESTRICTIVE USING (model IN (SELECT m.model FROM mw.model AS m));
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'miss', 'a policy with a sub-select hides the row');
RESET ROLE;
ALTER POLICY narrow ON mw.fake_cache USING (tenant IN (SELECT t.tenant FROM mw.tenant AS t));
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'hit', '... or shows it');
RESET ROLE;
DROP POLICY narrow ON mw.fake_cache;

-- the right to SELECT is asked for in each call
REVOKE SELECT ON mw.fake_cache FROM PUBLIC;
SET LOCAL ROLE stored_a;
SELECT throws_ok($$SELECT pg_temp.cache('one')$$, '42501', 'permission denied for table fake_cache', 'without the right to SELECT nothing is read');
RESET ROLE;
GRANT SELECT ON mw.fake_cache TO PUBLIC;
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'hit', 'with it, it is');

-- where a row stood before is no answer: what it says now counts, and whether it is there
CREATE FUNCTION pg_temp.output(prompt text) RETURNS text LANGUAGE sql AS $$
	SELECT mw_invoke('stored', NULL, prompt, options => '{"cache": "on"}') ->> 'output'
$$;
GRANT EXECUTE ON FUNCTION pg_temp.output(text) TO PUBLIC;
SELECT is(pg_temp.output('one'), 'fine', 'a row is found where it was');
RESET ROLE;
UPDATE mw.fake_cache SET body = replace(body, 'fine', 'better') WHERE tenant = 'stored';
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.output('one'), 'better', 'one that was changed says what it says now');
SAVEPOINT s;
RESET ROLE;
DELETE FROM mw.fake_cache WHERE tenant = 'stored';
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.output('one'), 'fine', 'one that is gone is no answer, and the model is asked');
ROLLBACK TO s;
SELECT is(pg_temp.output('one'), 'better', '... and is one again where that was rolled back');
SAVEPOINT s;
RESET ROLE;
TRUNCATE mw.fake_cache;
SET LOCAL ROLE stored_a;
SELECT is(pg_temp.cache('one'), 'miss', 'nor is one of a table that was emptied');
ROLLBACK TO s;
SELECT is(pg_temp.output('one'), 'better', '... until that was rolled back');

-- recorded answers are read in the same way
SELECT is(mw_ask('stored', NULL, 'two', request_id => 'r', options => '{"cache": "off"}'), 'fine', 'an answer is recorded');
RESET ROLE;
DELETE FROM mw.result WHERE tenant = 'stored';
UPDATE mw.fake_answer SET body = replace(body, 'fine', 'kept') WHERE tenant = 'stored';
SET LOCAL ROLE stored_a;
SELECT is(mw_ask('stored', NULL, 'two', request_id => 'r', options => '{"cache": "off"}'), 'kept', '... and found where the run itself left nothing');
RESET ROLE;
CREATE POLICY planned ON mw.fake_answer AS RESTRICTIVE USING (tenant IN (SELECT t.tenant FROM mw.tenant AS t));
DELETE FROM mw.result WHERE tenant = 'stored';
SET LOCAL ROLE stored_a;
SELECT is(mw_ask('stored', NULL, 'two', request_id => 'r', options => '{"cache": "off"}'), 'kept', '... by a statement, too');
RESET ROLE;
CREATE POLICY narrow ON mw.fake_answer AS RESTRICTIVE TO stored_a USING (false);
DELETE FROM mw.result WHERE tenant = 'stored';
SET LOCAL ROLE stored_a;
SELECT is(mw_ask('stored', NULL, 'two', request_id => 'r', options => '{"cache": "off"}'), 'fine', '... by a role that may see it');

-- results, sessions, runs and threads are fetched so, too; where a policy needs a planner, a statement gives the same rows
RESET ROLE;
CREATE FUNCTION pg_temp.sent() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(regexp_replace(m ->> 'content', '</?user_input>|\n', '', 'g'), ', ' ORDER BY i)
	FROM (SELECT body FROM mw_fake_requests('stored') ORDER BY n DESC LIMIT 1) AS r, jsonb_array_elements(r.body -> 'messages') WITH ORDINALITY AS e (m, i)
$$;
GRANT EXECUTE ON FUNCTION pg_temp.sent() TO PUBLIC;
SELECT mw_create_agent('stored_agent', '{"model": "stored:m"}', 'stored');
SELECT mw_fake('stored', '[{"step": {"text": "an answer", "repeat": 99}}]');
SET LOCAL ROLE stored_a;
SELECT mw_ask('stored', 's', 'a', agent => 'stored_agent', request_id => 'run a');
SELECT mw_ask('stored', 's', 'b', agent => 'stored_agent');
SELECT is(pg_temp.sent(), 'a, an answer, b', 'a thread is read in its order');
RESET ROLE;
CREATE POLICY planned ON mw.thread AS RESTRICTIVE USING (tenant IN (SELECT t.tenant FROM mw.tenant AS t));
CREATE POLICY planned ON mw.session AS RESTRICTIVE USING (tenant IN (SELECT t.tenant FROM mw.tenant AS t));
CREATE POLICY planned ON mw.run AS RESTRICTIVE USING (tenant IN (SELECT t.tenant FROM mw.tenant AS t));
CREATE POLICY planned ON mw.result AS RESTRICTIVE USING (tenant IN (SELECT t.tenant FROM mw.tenant AS t));
SET LOCAL ROLE stored_a;
SELECT mw_ask('stored', 's', 'c', agent => 'stored_agent');
SELECT is(pg_temp.sent(), 'a, an answer, b, an answer, c', '... by a statement, too');
SELECT is((SELECT count(*) FROM mw.thread WHERE session = 's'), 6::bigint, '... which goes on counting where it was');
SELECT mw_ask('stored', 's', 'a', agent => 'stored_agent', request_id => 'run a');
SELECT is((SELECT count(*) FROM mw.thread WHERE session = 's'), 6::bigint, 'a stored result is found by a statement');
RESET ROLE;
SELECT * FROM finish();
ROLLBACK;
