-- Risk: personal data is missed, taken for something else, or cannot be put back; a text made
-- to confuse makes a placeholder resolve to somebody's value.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;

CREATE FUNCTION redacted(input text, options jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT mw_redact(input, NULL, options)->>'text'
$$;

-- ---------- the four kinds, and that none is taken for another ----------
SELECT redacted('Ticket from alice@acme.com, call +1 415-555-0132, SSN 123-45-6789, card 4242 4242 4242 4242.');
SELECT mw_redact('alice@acme.com') = '{"text": "<EMAIL_0>", "map": {"<EMAIL_0>": "alice@acme.com"},
	"spans": [{"start": 0, "end": 14, "type": "EMAIL", "placeholder": "<EMAIL_0>"}]}';
-- the seed's order called these PHONE
SELECT redacted('4242424242424242'), redacted('4000-0027-6000-3184'), redacted('123-45-6789'), redacted('tel 4242424242424242');
SELECT redacted('IBAN GB82 WEST 1234 5698 7654 32 from 192.0.2.1, 2001:db8::1 and 3C:22:FB:45:67:89');

-- ---------- placeholders ----------
-- R06: the same value has the same one, by first appearance
SELECT redacted('ana@example.com asks, bo@example.net answers, ana@example.com agrees');
-- numbers are counted per type
SELECT redacted('a@example.com 4242424242424242 b@example.com 4000000000000002');
-- what somebody typed is never issued, so it never becomes a value
SELECT redacted('<EMAIL_0> wrote to eve@example.com about <EMAIL_2> and bo@example.com');
SELECT r->>'text', mw_restore(r->>'text', r->'map') FROM mw_redact('<EMAIL_0> wrote to eve@example.com') AS r;
SELECT redacted('<EMAIL_00> <email_0> < EMAIL_0> <EMAIL_0 x@example.com');
-- more of them than a bitmap has room for
SELECT redacted(string_agg('<EMAIL_' || i || '>', ' ') || ' x@example.com') LIKE '%<EMAIL_100>' FROM generate_series(0, 99) AS i;
-- a value inside a value's brackets
SELECT redacted('<x@example.com>');

-- ---------- restoring ----------
SELECT mw_restore('to <EMAIL_0>, not <EMAIL_1>', '{"<EMAIL_0>": "a\"b@example.com"}');
-- what comes back is not searched again
SELECT mw_restore('<EMAIL_0>', '{"<EMAIL_0>": "<EMAIL_1>", "<EMAIL_1>": "x"}');
SELECT mw_restore('', '{}'), mw_restore('nothing', '{"<CC_0>": "x"}');
SELECT mw_restore('x', '["<CC_0>"]');
SELECT mw_restore('x', '{"CC_0": "x"}');
SELECT mw_restore('x', '{"<CC_0>": 5}');
-- 400 values and back
SELECT mw_restore(r->>'text', r->'map') = t, jsonb_array_length(r->'spans')
FROM (SELECT string_agg('u' || i % 200 || '@example.com, ', '') AS t FROM generate_series(1, 400) AS i) AS x, mw_redact(t) AS r;

-- ---------- cases from other systems ----------
-- R04: all lengths of cards, and none with a wrong check digit
SELECT redacted('4222222222222 30569309025904 378282246310005 6205500000000000004');
SELECT redacted('4222222222223 30569309025905 378282246310006 6205500000000000005');
-- R13: a time in milliseconds
SELECT redacted('1748503543012 and 1748503543004');
-- R16: numbers that were never given out
SELECT redacted('900-12-3456, 899-12-3456, 000-12-3456, 666-12-3456, 123-00-4567, 123-45-0000');
-- R18: invoice numbers and ZIP codes
SELECT redacted('Invoice 100234567 paid, build 202409158 green, ZIP 12345-6789, 123-456789, SSN 123456789, 123 45 6789.');
-- R19, R20: an IBAN ends where its country says, however it is spaced
SELECT redacted('DE89370400440532013000 FAILED'), redacted('IBAN: GB82 WEST 1234 5698 7654 32 NOT FOUND');
SELECT redacted('NL91ABNA0417164300, NL91 ABNA 0417 1643 00, NL91-ABNA-0417-1643-00, ' || U&'NL91\00A0ABNA\00A00417\00A01643\00A000');
-- R22: offsets count characters
SELECT mw_redact(U&'\+01F600\+01F600 write to ana@example.com \+01F469\200D\+01F4BB')->'spans';
SELECT mw_restore(r->>'text', r->'map') = t FROM (SELECT U&'\+01F600 e\0301 \0E15ana@example.com\0E15') AS x(t), mw_redact(t) AS r;
-- R23: no part of a card is left where kinds overlap
SELECT redacted('4151321762433448.com 4242424242424242@example.com');
-- R24: telephone numbers of any country
SELECT redacted('+351 910 123 456, +81 3-1234-5678, +7 912 345-67-89');

-- ---------- strategies ----------
SELECT redacted(v, jsonb_build_object('strategies', jsonb_build_object(t, 'mask')))
FROM (VALUES ('EMAIL', 'alice@acme.com'), ('CC', '4242-4242-4242-4242'), ('SSN', '123-45-6789'), ('IP', '192.0.2.117'), ('PHONE', '+1 415-555-0132')) AS x(t, v);
SELECT redacted('card 4242424242424242', '{"strategies": {"credit_card": "redact"}}');
SELECT redacted('a@x.org b@x.org a@x.org', '{"strategies": {"EMAIL": "hash"}}') ~ '^(<EMAIL:[0-9a-f]{16}>) (<EMAIL:[0-9a-f]{16}>) \1$';
SELECT r->'map' FROM mw_redact('a@x.org 4242424242424242', NULL, '{"strategies": {"EMAIL": "redact"}}') AS r;
SELECT mw_redact('ask alice@acme.com', NULL, '{"strategies": {"EMAIL": "block"}}');
SELECT redacted('a@x.org 4242424242424242', '{"types": ["cc"]}');

-- ---------- a tenant's own rules ----------
SELECT mw_create_tenant('redact-a'), mw_create_tenant('redact-b');
SELECT mw_create_recognizer('CASE_NO', 'CASE-[0-9]{4}', '{"strategy": "placeholder"}', 'redact-a');
SELECT mw_redact('CASE-1234 of a@x.org', 'redact-a')->>'text', mw_redact('CASE-1234 of a@x.org', 'redact-b')->>'text';
-- a digest of one tenant says nothing to another
SELECT mw_redact('a@x.org', 'redact-a', '{"strategies": {"EMAIL": "hash"}}')->>'text' <> mw_redact('a@x.org', 'redact-b', '{"strategies": {"EMAIL": "hash"}}')->>'text';
-- callers tighten, never loosen
SELECT mw_redact('a@x.org', 'redact-a', '{"strategies": {"EMAIL": "mask"}}')->>'text', mw_redact('a@x.org', 'redact-a', '{"strategies": {"EMAIL": "redact"}}')->>'text';
SELECT mw_redact('x', 'redact-nobody');

-- ---------- what a provider sees of a call's messages ----------
CREATE SERVER redact_fake FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_alter_tenant('redact-a', '{"model": "redact_fake:m"}');
SELECT mw_fake('redact_fake', '{"*": [{"text": "<EMAIL_1> and <EMAIL_0>"}]}');
-- R01, R06: parts, arguments, keys and numbers, one map for all; a placeholder that somebody typed in the last one is nobody's
SELECT mw_ask('redact-a', NULL, 'bo@example.net asks about <EMAIL_0>', messages => '[
	{"role": "user", "content": [{"type": "text", "text": "I am ana@example.com"}, {"type": "text", "text": "ana@example.com again"}]},
	{"role": "assistant", "content": "", "tool_calls": [{"id": "call_4155550132", "name": "send", "args": {"to": "ana@example.com", "bo@example.net": 1, "card": 4242424242424242, "name": "ana@example.com"}}]},
	{"role": "tool", "tool_call_id": "call_4155550132", "content": "sent to ana@example.com"}]');
SELECT m - 'tool_calls', m->'tool_calls'->0->'function' FROM mw_fake_requests('redact_fake') AS r, jsonb_array_elements(r.body->'messages') AS m;
-- what would be refused is shown nowhere
SELECT mw_alter_recognizer('CASE_NO', '{"strategy": "block"}', 'redact-a');
SELECT mw_ask('redact-a', NULL, 'about CASE-1234');
SELECT stage, verdict, detail, next FROM mw_explain('redact-a', NULL, 'about CASE-1234 and a@x.org') WHERE stage = 'redact';

-- ---------- bad input ----------
SELECT mw_redact(NULL), mw_redact(''), redacted('   ');
SELECT mw_redact('x', NULL, '{"strategy": "mask"}');
SELECT mw_redact('x', NULL, '{"types": ["FOO"]}');
SELECT mw_redact('x', NULL, '{"types": "EMAIL"}');
SELECT mw_redact('x', NULL, '{"strategies": {"EMAIL": "shred"}}');
SELECT mw_redact('x', NULL, '{"strategies": {"EMAIL": 5}}');
SELECT mw_redact('x', NULL, '{"strategies": ["EMAIL"]}');
SELECT mw_redact('x', NULL, '[]');

-- time is linear, whatever the text: a megabyte of bait each
SET statement_timeout = '10s';
SELECT b, length(redacted(repeat(b, 1000000 / length(b)))) > 0
FROM (VALUES ('a'), ('a.'), ('1 '), ('a@'), ('1:'), ('x@a.a.a.a.a.'), ('+1 '), ('1.1.'), ('<EMAIL_0>'), ('-')) AS x(b);
RESET statement_timeout;

SELECT mw_drop_tenant('redact-a'), mw_drop_tenant('redact-b');
DROP SERVER redact_fake;
DROP FUNCTION redacted;
