-- Risk: a conversation with application-side tools loses its thread: an unpaired
-- tool call, personal data on its way through arguments and results, an answer
-- of a tool that nobody asked for.
BEGIN;
SELECT plan(14);

CREATE SERVER pgtap_tools FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-tools', '{"model": "pgtap_tools:m", "retry": 1}');
CREATE TEMP TABLE tool (schema jsonb);
INSERT INTO tool VALUES ('[{"type": "function", "function": {"name": "lookup_invoice", "description": "finds an invoice",
	"parameters": {"type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"]}}}]');

-- ---------- the model asks for a tool ----------

SELECT mw_fake('pgtap_tools', '[
	{"match": {"messages": [{"role": "tool"}]}, "step": {"text": "The invoice of <EMAIL_0> is paid."}},
	{"match": "invoice", "step": {"tool_calls": [{"id": "call_1", "name": "lookup_invoice", "arguments": {"email": "<EMAIL_0>"}}]}}]');
CREATE TEMP TABLE asked AS
SELECT mw_invoke('pgtap-tools', NULL, 'Is the invoice of alice@acme.com paid?', tools => (SELECT schema FROM tool)) AS r;
SELECT is(r->>'status', 'tool_calls', 'the run ends for the application to run the tool') FROM asked;
SELECT is(r->'tool_calls'->0->>'name', 'lookup_invoice', 'which it names') FROM asked;
SELECT is(r->'tool_calls'->0->'args'->>'email', 'alice@acme.com', 'with the caller''s own values') FROM asked;
SELECT ok((SELECT body::text NOT LIKE '%alice%' FROM mw_fake_requests('pgtap_tools')), 'which the model never saw');
SELECT ok((SELECT body->'tools' @> '[{"type": "function", "function": {"name": "lookup_invoice"}}]' FROM mw_fake_requests('pgtap_tools')),
	'it saw the tool');
SELECT is((SELECT count(*) FROM mw.cache_entries WHERE tenant = 'pgtap-tools'), 0::bigint, 'an answer that calls tools is not cached');
SET LOCAL client_min_messages = error;		-- it warns
SELECT is(mw_ask('pgtap-tools', NULL, 'Is the invoice of bob@acme.com paid?', tools => (SELECT schema FROM tool)), NULL,
	'mw_ask has no text to return');
RESET client_min_messages;

-- ---------- and goes on with its result ----------

CREATE TEMP TABLE answered AS
SELECT mw_invoke('pgtap-tools', NULL, NULL, tools => (SELECT schema FROM tool), messages => jsonb_build_array(
	'{"role": "user", "content": "Is the invoice of alice@acme.com paid?"}'::jsonb,
	jsonb_build_object('role', 'assistant', 'content', NULL, 'tool_calls', r->'tool_calls'),
	jsonb_build_object('role', 'tool', 'tool_call_id', r->'tool_calls'->0->>'id', 'content', 'alice@acme.com: paid on Monday'))) AS r
FROM asked;
SELECT is(r->>'status', 'completed', 'the run goes on with the result of the tool') FROM answered;
SELECT is(r->>'output', 'The invoice of alice@acme.com is paid.', 'to its answer') FROM answered;
CREATE TEMP TABLE wire AS SELECT body->'messages' AS m FROM mw_fake_requests('pgtap_tools') WHERE answered = 'text';
SELECT ok(m::text NOT LIKE '%alice%', 'history, arguments and the result of the tool are redacted') FROM wire;
SELECT is(
	(SELECT array_agg(x->>'role' ORDER BY n) FROM wire, jsonb_array_elements(m) WITH ORDINALITY AS e (x, n) WHERE x->>'role' <> 'system'),
	'{user,assistant,tool}'::text[], 'the transcript has its order');
SELECT is(
	(SELECT count(*) FROM wire, jsonb_array_elements(m) AS t, jsonb_array_elements(m) AS a, jsonb_array_elements(a->'tool_calls') AS c
		WHERE t->>'role' = 'tool' AND a->>'role' = 'assistant' AND c->>'id' = t->>'tool_call_id'),
	1::bigint, 'and each call its answer');

-- ---------- what does not fit ----------

SELECT throws_ok($$SELECT mw_ask('pgtap-tools', NULL, 'q', tools => '["lookup_invoice"]')$$, 'MW001', NULL,
	'a name alone is no tool that an application runs');
SELECT mw_fake('pgtap_tools', '{"*": [{"tool_calls": [{"name": "lookup_invoice", "arguments_raw": "{\"email\": "}], "finish_reason": "length"}]}');
SELECT throws_ok($$SELECT mw_invoke('pgtap-tools', NULL, 'the invoice', tools => (SELECT schema FROM tool))$$, 'MW405', NULL,
	'a tool call that was cut off is no answer');

SELECT * FROM finish();
ROLLBACK;
