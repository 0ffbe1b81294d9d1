-- Risk: where values stand in a text is remembered by the process, past a change of the rules, for another tenant,
-- or for a text that only looks like it.
BEGIN;
SELECT plan(17);

CREATE SERVER recalled FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('recalled-a', '{"model": "recalled:m"}'), mw_create_tenant('recalled-b', '{"model": "recalled:m"}');

-- what the stages behind redaction see
CREATE FUNCTION pg_temp.seen(t text, tenant text DEFAULT 'recalled-a', options jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT next FROM mw_explain(tenant, NULL, t, options => options) WHERE stage = 'redact'
$$;
\set filler '''Please write a friendly answer to the customer and keep it short. '''
\set long repeat(:filler, 8)
SELECT :long || 'Mail alice@example.com about order KX-2041-77.' AS letter \gset

SELECT is(pg_temp.seen(:'letter'), :long || 'Mail <EMAIL_0> about order KX-2041-77.', 'a text');
SELECT is(pg_temp.seen(:'letter'), :long || 'Mail <EMAIL_0> about order KX-2041-77.', '... that comes again');
SELECT is(pg_temp.seen(replace(:'letter', 'alice@', 'clara@')), :long || 'Mail <EMAIL_0> about order KX-2041-77.', 'a letter changed within the value');
SELECT is(pg_temp.seen(replace(:'letter', 'alice@', 'alice ')), :long || 'Mail alice example.com about order KX-2041-77.', '... so that it is none');
SELECT is(pg_temp.seen(:'letter' || ' And bob@example.com.'), :long || 'Mail <EMAIL_0> about order KX-2041-77. And <EMAIL_1>.', 'a text that goes on');

-- the rules change
SELECT mw_create_recognizer('ORDER_NUMBER', 'KX-\d{4}-\d\d', tenant => 'recalled-a');
SELECT is(pg_temp.seen(:'letter'), :long || 'Mail <EMAIL_0> about order <ORDER_NUMBER_0>.', 'a new recognizer of the tenant''s');
SELECT is(pg_temp.seen(:'letter', 'recalled-b'), :long || 'Mail <EMAIL_0> about order KX-2041-77.', '... is nobody else''s');
SELECT is(pg_temp.seen(:'letter'), :long || 'Mail <EMAIL_0> about order <ORDER_NUMBER_0>.', '... and still the tenant''s');
SELECT mw_alter_recognizer('ORDER_NUMBER', '{"pattern": "KX-\\d{4}"}', 'recalled-a');
SELECT is(pg_temp.seen(:'letter'), :long || 'Mail <EMAIL_0> about order <ORDER_NUMBER_0>-77.', 'a pattern is altered');
SELECT is(pg_temp.seen(:'letter', options => '{"redact": {"strategies": {"EMAIL": "redact"}}}'),
	:long || 'Mail [REDACTED_EMAIL] about order <ORDER_NUMBER_0>-77.', 'a call''s own strategy');
SELECT is(pg_temp.seen(:'letter'), :long || 'Mail <EMAIL_0> about order <ORDER_NUMBER_0>-77.', '... and the next call has its own');
SELECT mw_drop_recognizer('ORDER_NUMBER', 'recalled-a');
SELECT is(pg_temp.seen(:'letter'), :long || 'Mail <EMAIL_0> about order KX-2041-77.', 'a recognizer is dropped');

-- a rule that refuses
SELECT mw_fake('recalled', '[{"step": {"text": "fine"}}]');
SELECT is(mw_ask('recalled-b', NULL, :'letter'), 'fine', 'a type that passes');
SELECT mw_alter_tenant('recalled-b', '{"redact": {"strategies": {"EMAIL": "block"}}}');
SELECT throws_ok(format('SELECT mw_ask(''recalled-b'', NULL, %L)', :'letter'), 'MW201', NULL, 'a text that was seen to pass is refused where its type is');

-- more values than are remembered, and more texts
SELECT string_agg('user' || i || '@example.com', ' ') AS many, string_agg('<EMAIL_' || i || '>', ' ') AS held FROM generate_series(0, 299) AS i \gset
SELECT is(pg_temp.seen(:'many'), :'held', 'a text of 300 values');
SELECT is(pg_temp.seen(:'many'), :'held', '... again');
SELECT is((SELECT count(*) FROM generate_series(1, 2) AS round, generate_series(1, 3000) AS i,
		LATERAL (SELECT pg_temp.seen(:long || 'mail ' || 'u' || i || '@example.com or ring') AS seen) AS s
	WHERE seen <> :long || 'mail <EMAIL_0> or ring'), 0::bigint, '3,000 texts, twice each');

SELECT * FROM finish();
ROLLBACK;
