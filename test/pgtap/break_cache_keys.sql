-- Risk: a text that keeps a process busy past every cancel while its key is made, two spellings
-- of one text that are paid for twice, a purge that forgets what was stored before it.
BEGIN;
SELECT plan(13);

CREATE SERVER break_key FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('break-key', '{"model": "break_key:m"}');
CREATE FUNCTION pg_temp.key(t text) RETURNS text LANGUAGE sql AS $$
	SELECT mw_cache_key('break-key', jsonb_build_array(jsonb_build_object('role', 'user', 'content', t)))
$$;

SELECT is(pg_temp.key(U&'caf\00e9'), pg_temp.key(U&'cafe\0301'), 'two spellings of a letter have one key');
SELECT isnt(pg_temp.key(U&'caf\00e9'), pg_temp.key(U&'caf\00e8'), 'two letters have two');
SELECT is(pg_temp.key(repeat('D''une façon très élégante, ', 1000)), pg_temp.key(normalize(repeat('D''une façon très élégante, ', 1000), NFD)), '... in a long text');
SELECT is(pg_temp.key(repeat('한국어 텍스트 ', 1000)), pg_temp.key(normalize(repeat('한국어 텍스트 ', 1000), NFD)), '... in Hangul');
SELECT is(pg_temp.key(U&'q\0323\0307'), pg_temp.key(U&'q\0307\0323'), 'marks in another order are the same');
SELECT is(pg_temp.key(U&'\212B'), pg_temp.key(U&'\00C5'), 'an Angstrom sign is its letter');
SELECT isnt(pg_temp.key(U&'\FB01'), pg_temp.key('fi'), 'a ligature is no two letters');
SELECT matches(pg_temp.key(repeat(U&'\+01D160\FB2C\0958', 3000) || U&'e\0301'), '^[0-9a-f]{32}$', 'what grows to three times its length');
SELECT isnt(pg_temp.key(repeat(U&'\0315\0301', 5000)), pg_temp.key(repeat(U&'\0315\0301', 5001)), 'marks alone');

-- time: 40,000 marks took 13 s, past every timeout
CREATE FUNCTION pg_temp.ms(statement text) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
	t timestamptz := clock_timestamp();
BEGIN
	EXECUTE statement;
	RETURN extract(epoch FROM clock_timestamp() - t) * 1000;
END
$$;
SELECT cmp_ok(pg_temp.ms($$SELECT pg_temp.key('a' || repeat(U&'\0315\0301', 20000))$$), '<', 3000::float8, '40,000 marks in the wrong order take no seconds');
SELECT mw_fake('break_key', '[{"step": {"text": "fine"}}]');
SELECT cmp_ok(pg_temp.ms($$SELECT mw_ask('break-key', NULL, 'a' || repeat(U&'\0315\0301', 20000))$$), '<', 3000::float8, '... in a call');
SELECT throws_ok($$SELECT mw_restore('x', (SELECT jsonb_object_agg('<T' || i || '_0>', 'v') FROM generate_series(1, 20000) AS i))$$, 'MW001', NULL,
	'a map of more types than there are is refused, not searched for minutes');
-- in one transaction, as a purge that was rolled back: its epoch is not given out again
SAVEPOINT before;
SELECT mw_purge_cache('break-key');
SELECT epoch AS was FROM mw.purge WHERE tenant = 'break-key' \gset
ROLLBACK TO before;
SELECT mw_purge_cache('break-key');
SELECT cmp_ok((SELECT epoch FROM mw.purge WHERE tenant = 'break-key'), '>', :was::bigint, 'a purge after one that was rolled back is a later one');

SELECT * FROM finish();
ROLLBACK;
