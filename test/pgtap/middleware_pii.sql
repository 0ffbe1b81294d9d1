-- Risk: an agent's pii middleware lets a value through that LangChain's would have taken out, or changes a text that it would
-- not; with the redact stage on, the milder of two strategies holds, or a raw value reaches the thread.
BEGIN;
SELECT plan(43);

CREATE SERVER pm FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-pm', '{"model": "pm:m", "retry": 1, "cache": false, "redact": false, "guardrail": false}');
CREATE SCHEMA pm;
CREATE FUNCTION pm.lookup(id text) RETURNS text LANGUAGE sql AS $$ SELECT 'Row: write to ada@example.com' $$;
SELECT mw_create_tool('lookup', 'pm.lookup(text)', 'Looks up.', tenant => 'pgtap-pm');

CREATE FUNCTION pm.agent(VARIADIC middlewares jsonb[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.mw_drop_agent('a', 'pgtap-pm') FROM mw.agent WHERE agent = 'a' AND tenant = 'pgtap-pm' AND current;
	PERFORM public.mw_create_agent('a', jsonb_build_object('model', 'pm:m', 'tools', '["lookup"]'::jsonb, 'middleware', to_jsonb(middlewares)), 'pgtap-pm');
END
$$;
CREATE SEQUENCE pm.n;
CREATE FUNCTION pm.run(prompt text, messages jsonb DEFAULT NULL) RETURNS jsonb LANGUAGE sql AS $$
	SELECT public.mw_invoke('pgtap-pm', 's' || nextval('pm.n'), prompt, agent => 'a', messages => messages)
$$;
-- what the model is sent of a text
CREATE FUNCTION pm.seen(prompt text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.mw_fake('pm', '{"*": [{"text": "ok", "repeat": 9}]}');
	PERFORM pm.run(prompt);
	RETURN (SELECT public.mw_text(body->'messages'->-1) FROM public.mw_fake_requests('pm') ORDER BY n DESC LIMIT 1);
END
$$;
CREATE FUNCTION pm.seen_by(type text, strategy text, prompt text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pm.agent(jsonb_build_object('type', 'pii', 'pii_type', type, 'strategy', strategy));
	RETURN pm.seen(prompt);
END
$$;
CREATE FUNCTION pm.thread() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(content #>> '{}', '|' ORDER BY position) FROM mw.message WHERE tenant = 'pgtap-pm' AND session = 's' || currval('pm.n')
$$;

-- ---------- what is found, as LangChain finds it ----------

SELECT is(pm.seen_by('email', 'redact', 'Mail a.b+c@mail.example.co.uk.'), 'Mail [REDACTED_EMAIL].', 'an address ends before the full stop');
SELECT is(pm.seen_by('email', 'redact', '联系a@x.org吧'), '联系[REDACTED_EMAIL]吧', 'an address is found among other scripts');
SELECT is(pm.seen_by('email', 'redact', '..a@x.org, b@y.org2 c@z'), '..[REDACTED_EMAIL], b@y.org2 c@z', 'marks before it are not part of it; what ends in a digit or has no domain is none');
SELECT is(pm.seen_by('credit_card', 'redact', '4111 1111 1111 1111, 4111111111111112, 378282246310005'), '[REDACTED_CREDIT_CARD], 4111111111111112, 378282246310005', 'a card has four groups and a right check digit');
SELECT is(pm.seen_by('ip', 'redact', '192.168.10.42 300.1.1.1 010.1.1.1 0.0.0.0 1.2.3.4.5'), '[REDACTED_IP] 300.1.1.1 010.1.1.1 [REDACTED_IP] [REDACTED_IP].5', 'an address has four numbers up to 255 without leading zeros');
SELECT is(pm.seen_by('mac_address', 'redact', '00:1B:44:11:3A:B7 00-1b-44-11-3a-b7 00:1B:44:11:3A'), '[REDACTED_MAC_ADDRESS] [REDACTED_MAC_ADDRESS] 00:1B:44:11:3A', 'a MAC address has six pairs');
SELECT is(pm.seen_by('url', 'redact', 'http://a.b/c?d=e, example.com example.com/x www.example.org HTTPS://EXAMPLE.ORG/A http://'),
	'[REDACTED_URL] example.com [REDACTED_URL] [REDACTED_URL] HTTPS://[REDACTED_URL] http://', 'a URL has a scheme in small letters, a path, or www.');

-- ---------- what stands in its place ----------

SELECT is(pm.seen_by('email', 'mask', 'ada.lovelace@example.com'), 'ada.lovelace@****.com');
SELECT is(pm.seen_by('credit_card', 'mask', '5500-0000-0000-0004 5500000000000004 4111 1111 1111 1111'), '****-****-****-0004 ************0004 **** **** **** 1111');
SELECT is(pm.seen_by('ip', 'mask', '192.168.10.42'), '*.*.*.42');
SELECT is(pm.seen_by('mac_address', 'mask', '00:1B:44:11:3A:B7 00-1b-44-11-3a-b7'), '**:**:**:**:**:B7 **-**-**-**-**-b7');
SELECT is(pm.seen_by('url', 'mask', 'https://example.com/a'), '[MASKED_URL]');
SELECT matches(pm.seen_by('email', 'hash', 'a@x.org b@x.org a@x.org'), '^(<email_hash:[0-9a-f]{8}>) <email_hash:[0-9a-f]{8}> \1$', 'equal values have equal digits');
SELECT isnt(split_part(pm.seen('a@x.org b@x.org'), ' ', 1), split_part(pm.seen('a@x.org b@x.org'), ' ', 2), 'others have others');
SELECT unalike(pm.seen('a@x.org'), '%' || left(encode(sha256('a@x.org'), 'hex'), 8) || '%', 'which nobody can find by trying values');
SELECT throws_ok($$SELECT pm.seen_by('email', 'block', 'a@x.org and b@x.org')$$, 'MW201', 'Detected 2 instance(s) of email in text content', 'block refuses');
SELECT is(pm.seen_by('email', 'block', 'nothing to see'), 'nothing to see', 'and lets pass what has none');

-- ---------- detectors of one's own ----------

SELECT pm.agent('{"type": "pii", "pii_type": "api_key", "detector": "sk-[A-Za-z0-9]{4,}", "strategy": "mask"}', '{"type": "pii", "pii_type": "badge", "detector": "#\\d{2}", "strategy": "mask"}');
SELECT is(pm.seen('sk-abcdEFGH1234 #12'), '****1234 ****', 'a pattern; a mask shows the last four characters of more than four');
SELECT pm.agent('{"type": "pii", "pii_type": "name", "detector": "Zoë|n*"}');
SELECT is(pm.seen('é Zoë nn é'), 'é [REDACTED_NAME] [REDACTED_NAME] é', 'empty matches are nobody''s data');
CREATE FUNCTION pm.names(subject jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_agg(jsonb_build_object('start', p - 1, 'end', p + 2, 'text', 'x')) || '[{"start": 0, "end": 2, "type": "begin"}, {"start": 1, "end": 3}]'
	FROM (SELECT nullif(strpos(subject #>> '{}', 'Zoë'), 0)) AS f(p) WHERE p IS NOT NULL
$$;
SELECT pm.agent('{"type": "pii", "pii_type": "name", "detector": {"function": "pm.names"}}');
SELECT is(pm.seen('éé, now: Zoë!'), '[REDACTED_BEGIN][REDACTED_NAME] now: [REDACTED_NAME]!', 'a function, by characters; hits that overlap leave nothing of either');
SELECT is(pm.seen('nobody'), 'nobody', 'a function that finds nothing');
CREATE FUNCTION pm.wrong(subject jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '[{"start": 0, "end": 99}]'::jsonb $$;
SELECT pm.agent('{"type": "pii", "pii_type": "name", "detector": {"function": "pm.wrong"}}');
SELECT throws_ok($$SELECT pm.seen('short')$$, 'MW702', 'the detector of pii type "name" returned what it may not', 'a hit outside the text lets nothing pass');
SELECT pm.agent('{"type": "pii", "pii_type": "x", "detector": "(a+)+$"}');
SELECT throws_ok($$SELECT pm.seen(repeat('a', 50) || 'b')$$, 'MW001', 'the detector of pii type "x" takes too long on this text', 'a pattern that goes on for ever lets nothing pass');

-- ---------- where it looks ----------

SELECT pm.agent('{"type": "pii", "pii_type": "email"}');
SELECT mw_fake('pm', '{"*": [{"text": "call c@z.org", "repeat": 9}]}');
DO $do$ BEGIN PERFORM pm.run('new b@y.org', '[{"role": "user", "content": "old a@x.org"}, {"role": "assistant", "content": "ok"}]'); END $do$;
SELECT is(pm.thread(), 'old a@x.org|ok|new [REDACTED_EMAIL]|call c@z.org', 'the newest message of the user, by default no answer');
SELECT pm.agent('{"type": "pii", "pii_type": "email", "apply_to_input": false, "apply_to_output": true}');
DO $do$ BEGIN PERFORM pm.run('new b@y.org'); END $do$;
SELECT is(pm.thread(), 'new b@y.org|call [REDACTED_EMAIL]', 'the answer, and not the input');
SELECT mw_fake('pm', '{"*": [{"text": "asking a@x.org", "tool_calls": [{"id": "c1", "name": "lookup", "arguments": {"id": "a@x.org"}}]}, {"text": "ok"}]}');
DO $do$ BEGIN PERFORM pm.run('go'); END $do$;
SELECT is(pm.thread(), 'go|asking [REDACTED_EMAIL]|Row: write to ada@example.com|ok', 'its text, not its calls, nor results of tools');
SELECT is((SELECT body->'messages'->1->'tool_calls'->0->'function'->>'arguments' FROM mw_fake_requests('pm') OFFSET 1), '{"id": "a@x.org"}', 'the call is as it was');
SELECT pm.agent('{"type": "pii", "pii_type": "email", "apply_to_input": false, "apply_to_tool_results": true}');
SELECT mw_fake('pm', '{"*": [{"tool_calls": [{"id": "c1", "name": "lookup", "arguments": {"id": "1"}}, {"id": "c2", "name": "lookup", "arguments": {"id": "2"}}]}, {"text": "ok"}]}');
DO $do$ BEGIN PERFORM pm.run('go b@y.org'); END $do$;
SELECT is(pm.thread(), 'go b@y.org||Row: write to [REDACTED_EMAIL]|Row: write to [REDACTED_EMAIL]|ok', 'results of tools, all of the last batch');
SELECT pm.agent('{"type": "pii", "pii_type": "email"}');
SELECT mw_fake('pm', '{"*": [{"text": "ok", "repeat": 9}]}');
DO $do$ BEGIN PERFORM pm.run(NULL, '[{"role": "user", "content": [{"type": "text", "text": "write to a@x.org"}, {"type": "image_url", "image_url": {"url": "https://x.example/a@x.org.png"}}]}]'); END $do$;
SELECT is((SELECT content FROM mw.message WHERE tenant = 'pgtap-pm' AND session = 's' || currval('pm.n') ORDER BY position LIMIT 1),
	'[{"type": "text", "text": "write to [REDACTED_EMAIL]"}, {"type": "image_url", "image_url": {"url": "https://x.example/a@x.org.png"}}]', 'the texts of a content of parts, which stays one');

-- ---------- options that cannot be ----------

SELECT throws_ok($$SELECT pm.agent('{"type": "pii", "pii_type": "passport"}')$$, 'MW001', 'unknown pii_type "passport" of middleware "pii"', 'a type that nobody detects');
SELECT throws_ok($$SELECT pm.agent('{"type": "pii"}')$$, 'MW001', NULL, 'no type');
SELECT throws_ok($$SELECT pm.agent('{"type": "pii", "pii_type": "email", "strategy": "drop"}')$$, 'MW001', 'option "strategy" of middleware "pii[email]" must be one of: redact, mask, hash, block', 'a strategy that is none');
SELECT throws_like($$SELECT pm.agent('{"type": "pii", "pii_type": "x", "detector": "("}')$$, 'option "detector" of middleware "pii[x]" must be a regular expression; this one is wrong: %', 'a pattern that is none');
SELECT throws_ok($$SELECT pm.agent('{"type": "pii", "pii_type": "x", "detector": 5}')$$, 'MW001', NULL, 'a detector that is none');
SELECT throws_ok($$SELECT pm.agent('{"type": "pii", "pii_type": "email"}', '{"type": "pii", "pii_type": "email", "strategy": "mask"}')$$, 'MW001', NULL, 'one type twice');
SELECT lives_ok($$SELECT pm.agent('{"type": "pii", "pii_type": "email"}', '{"type": "pii", "pii_type": "email", "strategy": "mask", "name": "second"}')$$, 'unless they have names');

-- ---------- beside the redact stage ----------

SELECT mw_alter_tenant('pgtap-pm', '{"redact": true}');
SELECT is(pm.seen_by('email', 'mask', 'to a@x.org'), 'to <EMAIL_0>', 'a placeholder is stricter than a mask');
SELECT is(pm.seen_by('email', 'redact', 'to a@x.org'), 'to [REDACTED_EMAIL]', 'redact is stricter than a placeholder');
SELECT matches(pm.seen_by('email', 'hash', 'to a@x.org'), '^to <EMAIL:[0-9a-f]{16}>$', 'and so is a hash');
SELECT throws_ok($$SELECT pm.seen_by('email', 'block', 'to a@x.org')$$, 'MW201', NULL, 'block refuses before anything is kept');
SELECT pm.agent('{"type": "pii", "pii_type": "api_key", "detector": "sk-[A-Za-z0-9]{4,}"}');
SELECT is(pm.seen('key sk-abcdEFGH1234'), 'key [REDACTED_API_KEY]', 'a pattern of the agent''s is one of the stage''s');
SELECT is((SELECT count(*) FROM mw.thread WHERE tenant = 'pgtap-pm' AND session = 's' || currval('pm.n') AND message::text LIKE '%sk-abcd%'), 0::bigint, 'so its values never reach a row');
SELECT pm.agent('{"type": "pii", "pii_type": "email", "strategy": "block", "apply_to_input": false, "apply_to_output": true}');
SELECT is(pm.seen('to a@x.org'), 'to <EMAIL_0>', 'what is asked of answers alone is not asked of what a user says');

SELECT * FROM finish();
ROLLBACK;
