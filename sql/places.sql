-- Risk: a row is looked for where it was found before, and another stands there now: another prompt's answer, or
-- another tenant's; or nothing does, in a block that is no more.  Rows go by ROLLBACK: those VACUUM takes away
-- whatever snapshots others have, so that the next one stands where they did.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
CREATE SERVER places FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant(t, '{"model": "places:m"}') FROM unnest(ARRAY['places-p', 'places-q']) AS t \g /dev/null
SELECT mw_fake('places', '[{"match": "one", "step": {"text": "first"}}, {"match": "two", "step": {"text": "second"}}]') \g /dev/null
CREATE FUNCTION ask(tenant text, prompt text, OUT cache text, OUT output text) LANGUAGE sql AS
	$$SELECT r ->> 'cache', r ->> 'output' FROM mw_invoke(tenant, NULL, prompt, options => '{"cache": "on"}') AS r$$;

-- another prompt's row in its place
BEGIN;
SELECT * FROM ask('places-p', 'one');
SELECT * FROM ask('places-p', 'one');
ROLLBACK;
VACUUM mw.fake_cache;
SELECT * FROM ask('places-p', 'two');
SELECT * FROM ask('places-p', 'one');
SELECT * FROM ask('places-p', 'two');

-- another tenant's
BEGIN;
SELECT * FROM ask('places-p', 'one again');
SELECT * FROM ask('places-p', 'one again');
ROLLBACK;
VACUUM mw.fake_cache;
SELECT * FROM ask('places-q', 'one again');
SELECT * FROM ask('places-p', 'one again');
SELECT * FROM ask('places-q', 'one again');
SELECT * FROM ask('places-p', 'one again');

-- moved, by an update and by VACUUM FULL
UPDATE mw.fake_cache SET epoch = epoch;
SELECT * FROM ask('places-p', 'one');
VACUUM FULL mw.fake_cache;
SELECT * FROM ask('places-p', 'one');
SELECT * FROM ask('places-q', 'one again');

-- in a block that was cut off
BEGIN;
INSERT INTO mw.fake_cache SELECT 'z', decode(md5(n::text), 'hex'), 'm', 0, now(), now(), repeat('x', 1000) FROM generate_series(1, 100) AS n;
SELECT * FROM ask('places-p', 'two again');
SELECT * FROM ask('places-p', 'two again');
ROLLBACK;
VACUUM mw.fake_cache;
SELECT * FROM ask('places-p', 'two again');
SELECT * FROM ask('places-p', 'two again');

DROP FUNCTION ask(text, text);
SELECT mw_drop_tenant(t) FROM unnest(ARRAY['places-p', 'places-q']) AS t \g /dev/null
DROP SERVER places;
