-- Risk: a placeholder of one turn stands for another value in a later one; something that
-- was typed stands for a value; a session without a key keeps a value; what was erased comes back.
-- (With a key: test/t/240_vault.pl.)
BEGIN;
SELECT plan(62);

SELECT mw_create_tenant('vault');
SELECT mw_create_tenant('vault-other');
CREATE FUNCTION pg_temp.turn(input text, session text DEFAULT 's', tenant text DEFAULT 'vault') RETURNS text LANGUAGE sql AS
$$SELECT mw_redact(input, tenant, '{}', session) ->> 'text'$$;

-- ---------- numbers ----------

SELECT is(pg_temp.turn('ana@example.com and bob@example.com'), '<EMAIL_0> and <EMAIL_1>', 'a first turn');
SELECT is(pg_temp.turn('eve@example.com, then ana@example.com'), '<EMAIL_2>, then <EMAIL_0>', 'a later one goes on, and knows who was there');
SELECT is(pg_temp.turn('bob@example.com bob@example.com 203.0.113.7'), '<EMAIL_1> <EMAIL_1> <IP_0>', '... each type by itself');
SELECT is(pg_temp.turn('eve@example.com', 'other'), '<EMAIL_0>', 'another session has its own numbers');
SELECT is(pg_temp.turn('eve@example.com', 's', 'vault-other'), '<EMAIL_0>', '... and so has another tenant');
SELECT is(mw_redact('eve@example.com', 'vault') ->> 'text', '<EMAIL_0>', '... and a text without a session');
SELECT is(mw_redact('zoe@example.com ana@example.com', 'vault', '{}', 's') -> 'map',
	'{"<EMAIL_3>": "zoe@example.com", "<EMAIL_0>": "ana@example.com"}', 'the map holds what stands in this text, and nothing of other turns');
SELECT is((SELECT count(*)::int FROM mw.pii WHERE tenant = 'vault' AND session = 's'), 5, 'one row a placeholder');

-- many of them
SELECT is((SELECT string_agg(pg_temp.turn('n' || n || '@example.com', 'many'), ' ' ORDER BY n) FROM generate_series(0, 79) AS n),
	(SELECT string_agg('<EMAIL_' || n || '>', ' ' ORDER BY n) FROM generate_series(0, 79) AS n), 'eighty turns, eighty numbers');
SELECT is((SELECT string_agg(pg_temp.turn('n' || n || '@example.com', 'many'), ' ' ORDER BY n) FROM generate_series(0, 79) AS n),
	(SELECT string_agg('<EMAIL_' || n || '>', ' ' ORDER BY n) FROM generate_series(0, 79) AS n), '... which they keep');
SELECT is(pg_temp.turn('new@example.com n70@example.com', 'many'), '<EMAIL_80> <EMAIL_70>', '... and no new value takes');

-- ---------- without a key nothing is kept that gives a value back ----------

SELECT is((SELECT count(*)::int FROM mw.pii WHERE sealed IS NOT NULL), 0, 'nothing is sealed without a key');
SELECT unalike((SELECT string_agg(p::text, '') FROM mw.pii AS p), '%example.com%', 'no value in clear');
SELECT unalike((SELECT string_agg(p::text, '') FROM mw.pii AS p), '%' || encode('ana@example.com', 'hex') || '%', '... nor in hexadecimal');
SELECT is((SELECT count(DISTINCT lookup)::int FROM mw.pii WHERE session IN ('s', 'other') AND pii_type = 'EMAIL'), 5, 'hashes of one value differ between tenants');
SELECT is(mw_restore('<EMAIL_0> <EMAIL_1>', 'vault', 's'), '<EMAIL_0> <EMAIL_1>', 'so nothing can be restored');
SELECT is(mw_restore('hello <EMAIL_9> <EMAIL_0', 'vault', 'nobody'), 'hello <EMAIL_9> <EMAIL_0', '... nor in a session that never was');

-- ---------- typed placeholders ----------

SELECT is(mw_redact('is <EMAIL_0> ana@example.com?', 'vault', '{}', 's') - 'spans',
	'{"text": "is <LITERAL_0> <EMAIL_0>?", "map": {"<LITERAL_0>": "<EMAIL_0>", "<EMAIL_0>": "ana@example.com"}}',
	'one of an earlier turn is a text of its own, and stands for nobody');
SELECT is(mw_restore(r ->> 'text', r -> 'map'), 'is <EMAIL_0> ana@example.com?', '... and comes back as it was typed')
FROM mw_redact('is <EMAIL_0> ana@example.com?', 'vault', '{}', 's') AS r;
SELECT is(mw_redact(t, 'vault', '{}', 's') ->> 'text', e, 'typed as ' || t)
FROM (VALUES
	('<email_1>', '<LITERAL_1>'), ('< EMAIL_1 >', '<LITERAL_2>'), ('&lt;EMAIL_1&gt;', '<LITERAL_3>'), ('say EMAIL_1', 'say <LITERAL_4>'),
	('<EMAIL_1>', '<LITERAL_5>'), ('<LITERAL_5>', '<LITERAL_6>'), ('EMAIL_1@example.com', '<EMAIL_4>'), ('<EMAIL_77> UTF_8', '<EMAIL_77> UTF_8')
) AS v (t, e);
SELECT is(pg_temp.turn('<EMAIL_5>, ada@example.com', 's'), '<EMAIL_5>, <EMAIL_6>', 'one that nobody has yet is not given out');
SELECT is(pg_temp.turn('kim@example.com', 's'), '<EMAIL_7>', '... in no later turn either');
SELECT is(pg_temp.turn('<EMAIL_999999999> x@example.com', 'far'), '<EMAIL_999999999> <EMAIL_0>', 'a number that is far away');
SELECT is(pg_temp.turn('y@example.com', 'far'), '<EMAIL_1>', '... takes nothing from the session');
SELECT is((SELECT count(*)::int FROM mw.pii WHERE session = 'far' AND pii_type = 'WHATEVER'), 0, 'nothing is remembered of types that do not exist')
FROM pg_temp.turn('<WHATEVER_1>', 'far');

-- ---------- erasing ----------

SELECT is(mw_erase('vault', value => 'ana@example.com'), 1::bigint, 'a value is erased by its hash');
SELECT is(pg_temp.turn('ana@example.com'), '<EMAIL_8>', '... and is a new one afterwards');
SELECT is(pg_temp.turn('<EMAIL_0>'), '<LITERAL_0>', '... its old placeholder stands for nobody');
SELECT is(mw_erase('vault', 'other', 'bob@example.com'), 0::bigint, 'one that a session does not hold');
SELECT is(pg_temp.turn('bob@example.com'), '<EMAIL_1>', '... stays in the one that does');
SELECT cmp_ok(mw_erase('vault', 's'), '>', 10::bigint, 'a session is erased');
SELECT is((SELECT string_agg(DISTINCT session, ' ' ORDER BY session) FROM mw.pii WHERE tenant = 'vault'), 'far many other', '... and no other');
SELECT throws_ok($$SELECT mw_erase('nobody')$$, 'MW001', 'tenant "nobody" does not exist', 'an unknown tenant');
SELECT throws_ok($$SELECT mw_erase(NULL)$$, 'MW001', NULL, 'no tenant');
SELECT mw_drop_tenant('vault');
SELECT is((SELECT count(*)::int FROM mw.pii WHERE tenant = 'vault'), 0, 'a dropped tenant leaves nothing');
SELECT throws_ok($$SELECT mw_rotate_pii_key()$$, 'MW001', 'there is no key to seal with', 'rotating without a key');

-- ---------- sessions that keep a thread ----------

CREATE SERVER vault_fake FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('vault-run', '{"model": "vault_fake:m", "cache": false}');
CREATE FUNCTION pg_temp.say(prompt text, says text, keep boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_fake('vault_fake', jsonb_build_array(jsonb_build_object('step', jsonb_build_object('text', says))));
	RETURN mw_ask('vault-run', 's', prompt, options => jsonb_build_object('memory', keep));
END
$$;
CREATE FUNCTION pg_temp.sent() RETURNS text LANGUAGE sql AS
$$SELECT (array_agg(r.body::text))[count(*)] FROM mw_fake_requests('vault_fake') AS r$$;
SELECT is(pg_temp.say('I am ana@example.com', 'Hello <EMAIL_0>'), 'Hello ana@example.com', 'a first turn');
SELECT is(pg_temp.say('write to bob@example.com', 'From <EMAIL_0> to <EMAIL_1>'), 'From <EMAIL_0> to bob@example.com', 'without a key the value of an earlier turn is not to be had, and is nobody else''s');
SELECT is(pg_temp.say('once more, ana@example.com', '<EMAIL_0> <EMAIL_1>'), 'ana@example.com <EMAIL_1>', '... until it comes again');
SELECT alike(pg_temp.sent(), '%once more, <EMAIL_0>%', '... under its own number');
SELECT is(pg_temp.say('what is <EMAIL_0>, bob@example.com?', '<EMAIL_0> <EMAIL_1> <LITERAL_0>'), '<EMAIL_0> bob@example.com <EMAIL_0>', 'a typed placeholder is nobody''s in a thread');
SELECT alike(pg_temp.sent(), '%what is <LITERAL_0>, <EMAIL_1>?%', '... and the model sees that it is another');
SELECT is(pg_temp.say('thanks', 'Bye <LITERAL_0>'), 'Bye <LITERAL_0>', '... whose text is not kept either');
SELECT alike(pg_temp.sent(), '%I am <EMAIL_0>%write to <EMAIL_1>%once more, <EMAIL_0>%what is <LITERAL_0>, <EMAIL_1>?%thanks%', 'the thread keeps its placeholders');
SELECT unalike((SELECT string_agg(t::text, '') FROM mw.thread AS t WHERE tenant = 'vault-run'), '%example.com%', '... and no value');
SELECT is(pg_temp.say('zoe@example.com', '<EMAIL_0>', false), 'zoe@example.com', 'a call that keeps no memory has placeholders of its own');
SELECT is((SELECT count(*)::int FROM mw.pii WHERE tenant = 'vault-run' AND pii_type = 'EMAIL'), 2, '... and leaves none');
SELECT cmp_ok(mw_erase('vault-run', 's'), '>', 5::bigint, 'the session is erased');
SELECT is((SELECT count(*)::int FROM mw.thread WHERE tenant = 'vault-run') + (SELECT count(*)::int FROM mw.session WHERE tenant = 'vault-run'), 0, '... with its thread');
SELECT is(pg_temp.say('carl@example.com', '<EMAIL_0>'), 'carl@example.com', '... and begins anew');

-- a subtransaction that stored a placeholder and was rolled back
DO $$
BEGIN
	PERFORM mw_redact('first@example.com', 'vault-run', '{}', 'sub');
	BEGIN
		PERFORM mw_redact('second@example.com', 'vault-run', '{}', 'sub');
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
END
$$;
SELECT is(pg_temp.turn('third@example.com first@example.com', 'sub', 'vault-run'), '<EMAIL_1> <EMAIL_0>', 'what was rolled back was never issued');

-- ---------- rights ----------

SELECT throws_ok($$SELECT mw_redact('x', NULL, '{}', 's')$$, 'MW001', 'a session has a tenant and a name', 'a session of nobody');
SELECT is((SELECT status FROM mw_doctor() WHERE name = 'pii key'), 'warning', 'the doctor says that sessions forget');
SELECT ok(NOT has_column_privilege('public', 'mw.pii', c, 'SELECT'), 'nobody has a right on ' || c) FROM (VALUES ('sealed'), ('lookup')) AS v (c);

SELECT * FROM finish();
ROLLBACK;
