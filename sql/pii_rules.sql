-- Risk: a type that was asked for is not looked for; a caller turns off what an administrator set; a
-- value comes back to somebody else, or does not come back because a model spelled it otherwise.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;
CREATE FUNCTION redacted(input text, options jsonb DEFAULT '{}', tenant text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT mw_redact(input, tenant, options)->>'text'
$$;

-- ---------- on demand: by name, by preset ----------
SELECT redacted('VIN 1HGCM82633A004352, https://example.com/a, 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa');
SELECT redacted('VIN 1HGCM82633A004352, https://example.com/a, 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa', '{"types": ["VIN", "URL", "crypto"]}');
-- without a tenant they are all that is looked for
SELECT redacted('a@example.com, VIN 1HGCM82633A004352', '{"types": ["VIN"]}');
SELECT redacted('card 4111 1111 1111 1111 exp 12/27 cvv 123 of a@example.com', '{"preset": "pci"}');
SELECT redacted('seen on 05/17/2024 at https://example.com/a from 192.0.2.1', '{"preset": "hipaa"}');
SELECT redacted('VIN 1HGCM82633A004352 of a@example.com', '{"preset": "gdpr"}');
SELECT redacted('x', '{"preset": "sox"}');
-- other people's names
SELECT redacted('a@example.com', '{"types": ["EMAIL_ADDRESS"], "strategies": {"email": "redact"}}');

-- ---------- a tenant's choice ----------
SELECT mw_create_tenant('pii-a', '{"redact": {"types": ["VIN"], "strategies": {"EMAIL": "hash", "PHONE": "mask"}}}'), mw_create_tenant('pii-b');
SELECT redacted('a@example.com +1 415 555 0132 1HGCM82633A004352', '{}', 'pii-a') ~ '^<EMAIL:[0-9a-f]{16}> [+]\* \*{3} \*{3} 0132 <VIN_0>$';
-- callers add and tighten, never loosen
SELECT redacted('a@example.com 1HGCM82633A004352', '{"types": ["CC"], "strategies": {"EMAIL": "mask", "VIN": "redact"}}', 'pii-a') ~ '^<EMAIL:[0-9a-f]{16}> \[REDACTED_VIN\]$';
SELECT mw_alter_tenant('pii-a', '{"redact": {"types": ["VIN"], "colour": "red"}}');
SELECT mw_alter_tenant('pii-a', '{"redact": {"files": "burn"}}');
SELECT mw_alter_tenant('pii-a', '{"redact": "no"}');
-- a misspelt type would leave the tenant thinking that something is on; its own types count
SELECT mw_alter_tenant('pii-a', '{"redact": {"types": ["EMIAL"]}}');
SELECT mw_alter_tenant('pii-a', '{"redact": {"strategies": {"emial_adress": "block"}}}');
SELECT mw_create_tenant('pii-c', '{"redact": {"types": ["EMIAL"]}}');
DO $$ DECLARE h text; BEGIN PERFORM mw_alter_tenant('pii-a', '{"redact": {"types": ["EMIAL"]}}');
EXCEPTION WHEN SQLSTATE 'MW001' THEN GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT; RAISE NOTICE '%', h ~ '^Known: .*, EMAIL, .*[.]$'; END $$;
SELECT mw_create_recognizer('BADGE', 'B-[0-9]+', tenant => 'pii-a'), mw_alter_tenant('pii-a', '{"redact": {"types": ["VIN", "BADGE"]}}');
SELECT mw_alter_tenant('pii-b', '{"redact": {"types": ["BADGE"]}}');
-- one that was dropped since stops no change of something else
SELECT mw_drop_recognizer('BADGE', 'pii-a'), mw_alter_tenant('pii-a', '{"cache": true}'), mw_alter_tenant('pii-a', '{"redact": {"types": ["VIN"]}, "cache": null}');

-- ---------- a call's options, the answer, files ----------
CREATE SERVER pii_fake FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_alter_tenant('pii-b', '{"model": "pii_fake:m"}');
SELECT mw_fake('pii_fake', '{"*": [{"text": "Write to carol@example.org, <EMAIL_0>."}, {"text": "Write to carol@example.org, <EMAIL_0>."}, {"text": "ok"}]}');
SELECT mw_ask('pii-b', NULL, 'I am ana@example.com');
-- what a model invents is redacted where that is asked for; the caller's own value comes back
SELECT mw_ask('pii-b', NULL, 'I am ana@example.com', options => '{"redact": {"output": true, "strategies": {"EMAIL": "placeholder"}}}');
SELECT mw_ask('pii-b', NULL, 'chassis 1HGCM82633A004352', options => '{"redact": {"types": ["VIN"]}}');
SELECT body->'messages'->-1->>'content' FROM mw_fake_requests('pii_fake') OFFSET 2;
SELECT mw_ask('pii-b', NULL, 'x', options => '{"redact": {"types": ["NOBODY"]}}');
SELECT mw_ask('pii-b', NULL, 'x', options => '{"redact": {"output": true, "loosen": 1}}');
SELECT mw_ask('pii-b', NULL, NULL, messages => '[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]', options => '{"redact": {"files": "refuse"}}');
SELECT mw_fake('pii_fake', '{"*": [{"text": "from carol@example.org"}]}');
SELECT mw_ask('pii-b', NULL, 'x', options => '{"redact": {"output": true, "strategies": {"EMAIL": "block"}}, "cache": "off"}');
-- a member's key says what its value is
SELECT mw_fake('pii_fake', '{"*": [{"text": "ok"}]}');
SELECT mw_ask('pii-b', NULL, NULL, messages => '[{"role": "user", "content": "look up"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "f", "args": {"ssn": "536228145", "password": "tiger", "phone": "5035550121", "count": "536228145"}}]}, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]');
SELECT body->'messages'->1->'tool_calls'->0->'function'->>'arguments' FROM mw_fake_requests('pii_fake');

-- ---------- a placeholder that a model spells otherwise ----------
SELECT mw_restore(t, '{"<EMAIL_0>": "a@example.com", "<UK_NHS_1>": "943 476 5919"}') FROM unnest(ARRAY[
	'<email_0>', '< EMAIL_0 >', '<EMAIL 0>', 'EMAIL_0', '&lt;EMAIL_0&gt;', E'\\u003cEMAIL_0\\u003e', '%3CEMAIL_0%3E', '[EMAIL_0]', '**EMAIL_0**', 'uk_nhs_1 <uk-nhs-1>',
	'email_0', 'MY_EMAIL_0', 'EMAIL_01', 'EMAIL_0_X', '<EMAIL_1>', '<EMAIL_0', 'EMAIL_ 0']) AS t;
SELECT mw_fake('pii_fake', '{"*": [{"text": "mail EMAIL_0 and <email_0>"}]}');
SELECT r->>'output', r->'notices' FROM mw_invoke('pii-b', NULL, 'I am ana@example.com', options => '{"cache": "off"}') AS r;
-- what somebody typed in any spelling is nobody's value
SELECT redacted('EMAIL_0 and &lt;EMAIL_1&gt; and <email_2>: a@example.com');

-- ---------- recognizers of one's own ----------
CREATE FUNCTION public.pii_names(t text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_agg(jsonb_build_object('start', pg_catalog.strpos(t, n) - 1, 'end', pg_catalog.strpos(t, n) - 1 + pg_catalog.length(n)))
	FROM pg_catalog.unnest(ARRAY['Zoë Quill']) AS n WHERE pg_catalog.strpos(t, n) > 0
$$;
SELECT mw_create_recognizer('PERSON', NULL, '{"function": "public.pii_names"}', 'pii-b');
SELECT redacted('émile and Zoë Quill, a@example.com', '{}', 'pii-b'), redacted('Zoë Quill');
SELECT mw_create_recognizer('PERSON2', 'x', '{"function": "public.pii_names"}', 'pii-b');
SELECT mw_create_recognizer('PERSON2', NULL, '{"function": "public.nothing_here"}', 'pii-b');
CREATE OR REPLACE FUNCTION public.pii_names(t text) RETURNS jsonb LANGUAGE sql AS $$ SELECT '[{"start": 2, "end": 99}]'::jsonb $$;
SELECT redacted('émile', '{}', 'pii-b');
SELECT mw_drop_recognizer('PERSON', 'pii-b');
SELECT mw_create_recognizer('BADGE', '\mB[0-9]{5}', '{}', 'pii-b');
SELECT mw_create_recognizer('BADGE', '\bB[0-9]{5}\b', '{"context": ["badge", "employee number"], "on_demand": true}', 'pii-b');
SELECT redacted('badge B12345', '{}', 'pii-b'), redacted('badge B12345, B12346', '{"types": ["BADGE"]}', 'pii-b');
SELECT pattern, "start", "end", hit, valid, named, found, on_demand, microseconds >= 0 FROM mw_test_recognizer('BADGE', 'badge B12345, then a lot of other words that say nothing whatever about it: B12346', 'pii-b');
SELECT hit, valid, found FROM mw_test_recognizer('CC', '4111111111111111 4111111111111112') ORDER BY 1;
SELECT * FROM mw_test_recognizer('NOBODY', 'x');
-- one that explodes is refused, or stops
SELECT mw_create_recognizer('BAD', '(a+)+$', '{}', 'pii-b');
SELECT mw_create_recognizer('BAD', '(?:[a-z]+\.?)+@', '{}', 'pii-b');

SELECT mw_drop_tenant('pii-a'), mw_drop_tenant('pii-b');
DROP SERVER pii_fake;
DROP FUNCTION redacted, public.pii_names;
