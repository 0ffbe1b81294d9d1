-- Risk: a role that may read (or write) every table of the database, or look at every lock,
-- learns or changes what belongs to a tenant or to the database alone.
BEGIN;
SELECT plan(17);

CREATE SERVER break_ten FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE break_reader;
CREATE ROLE break_writer;
CREATE ROLE break_b;
GRANT pg_read_all_data TO break_reader;
GRANT pg_read_all_data, pg_write_all_data TO break_writer;
GRANT USAGE ON FOREIGN SERVER break_ten TO PUBLIC;
SELECT mw_create_tenant('break-a', '{"model": "break_ten:m"}');
SELECT mw_create_tenant('break-b', '{"model": "break_ten:m"}');
SELECT mw_grant_tenant('break-b', 'break_b');
SELECT mw_fake('break_ten', '[{"step": {"text": "fine"}}]');
SELECT mw_ask('break-a', 'session', 'prompt', request_id => 'invoice-17');

-- ---------- pg_read_all_data, pg_write_all_data ----------

SET ROLE break_reader;
SELECT is((SELECT count(*) FROM mw.secret), 0::bigint, 'who may read all tables does not read the key of the database');
SELECT is((SELECT count(*) FROM mw.tenant), 0::bigint, '... nor a tenant');
SELECT is((SELECT count(*) FROM mw.ledger), 0::bigint, '... nor its ledger');
SELECT is((SELECT count(*) FROM mw.result), 0::bigint, '... nor its results');
RESET ROLE;
SET ROLE break_writer;
SELECT lives_ok('DELETE FROM mw.secret', 'who may write all tables finds no key to delete');
SELECT throws_ok($$INSERT INTO mw.secret (key) VALUES (decode(repeat('00', 32), 'hex'))$$, '42501', NULL, '... and brings none of its own');
SELECT throws_ok($$INSERT INTO mw.tenant_grant VALUES ('break-a', 'break_writer')$$, '42501', NULL, '... grants itself no tenant');
SELECT throws_ok($$INSERT INTO mw.tenant_grant VALUES ('*', 'break_writer')$$, '42501', NULL, '... nor all');
SELECT lives_ok($$UPDATE mw.tenant SET settings = '{"redact": false}'$$, '... and reaches no row');
RESET ROLE;
SELECT is((SELECT count(*) FROM mw.tenant WHERE settings ? 'redact'), 0::bigint, 'nothing was changed');
SELECT is((SELECT count(*) FROM mw.secret), 1::bigint, 'the key is there');

-- ---------- pg_locks, which everybody can read ----------

SELECT cmp_ok((SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid IN (28023, 28024) AND pid = pg_backend_pid()), '=', 2::bigint, 'a call of the test double holds two locks of mw''s own');
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND ((classid::bigint << 32) | objid::bigint) = hashtextextended('break-a', 0)), 0::bigint,
	'a tenant''s lock cannot be made out by its name');
-- BLAKE2b-16 of the two names, each behind its length: what a claim would be called without the database's key
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 28023 AND (classid, objid) = (1587391418::oid, 769555887::oid)), 0::bigint,
	'nor a claim by its request_id');

-- ---------- scripts and logs of a session that two tenants share ----------

SET ROLE break_b;
SELECT is((SELECT count(*) FROM mw_fake_requests('break_ten')), 0::bigint, 'what was sent for another tenant in this session is not shown');
SELECT is(mw_ask('break-b', NULL, 'prompt', request_id => 'invoice-17'), 'fine', 'its request_id is another one''s too');
SELECT is((SELECT string_agg(DISTINCT tenant, ' ') FROM mw_fake_requests('break_ten')), 'break-b', 'what was sent for its own is');
RESET ROLE;

SELECT * FROM finish();
ROLLBACK;
