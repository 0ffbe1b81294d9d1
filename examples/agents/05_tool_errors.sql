-- 05_tool_errors.sql: a hook around the tool call that turns an error into a message which the model can mend.
--
--   psql -Xd yourdb -f examples/agents/05_tool_errors.sql
--
-- Needs mw and, for the checks, pgtap.  A fake server answers, nobody is called, and all of it rolls back.

\set ON_ERROR_STOP on
\set QUIET on
BEGIN;
SELECT plan(6);

CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('acme');

-- ---------- a tool ----------

-- The JSON schema that a model sees is made of the signature and the comment; arguments are passed typed.
CREATE TABLE invoice (number integer PRIMARY KEY, amount numeric);
INSERT INTO invoice VALUES (17, 99.50);

CREATE FUNCTION lookup_invoice(number integer) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
	amount	numeric;
BEGIN
	SELECT i.amount INTO amount FROM public.invoice AS i WHERE i.number = lookup_invoice.number;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no invoice %', number;
	END IF;
	RETURN format('invoice %s is over %s', number, amount);
END
$$;
COMMENT ON FUNCTION lookup_invoice(integer) IS 'The amount of an invoice, by its number.';
SELECT mw_create_tool('lookup_invoice', 'lookup_invoice(integer)', tenant => 'acme');

-- ---------- the hook ----------

-- A tool runs in a subtransaction of its own, so that what it wrote is undone when it fails.  What a hook may not swallow
-- (a pause for approval, a cancel) WHEN OTHERS does not catch for good: the run stops all the same.
CREATE FUNCTION handle_tool_errors(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	RETURN public.mw_next(request);
EXCEPTION WHEN OTHERS THEN
	RETURN jsonb_build_object(
		'role', 'tool', 'tool_call_id', request->'tool_call'->'id', 'status', 'error',
		'content', format('The tool failed; check its arguments and try again. (%s)', SQLERRM));
END
$$;

-- ---------- the agents: one with the hook, one without ----------

SELECT mw_create_agent('careful', '{
	"model": "double:m", "tools": ["lookup_invoice"],
	"middleware": [{"type": "custom", "name": "tool_errors", "hooks": {"wrap_tool_call": "handle_tool_errors"}}]
}', 'acme');
SELECT mw_create_agent('plain', '{"model": "double:m", "tools": ["lookup_invoice"]}', 'acme');

-- ---------- what they do ----------

\set script '{"m": [{"tool_calls": [{"id": "c1", "name": "lookup_invoice", "arguments": {"number": 71}}]}, {"tool_calls": [{"id": "c2", "name": "lookup_invoice", "arguments": {"number": 17}}]}, {"text": "It is over 99.50."}]}'

SELECT mw_fake('double', :'script');
SELECT is(mw_ask('acme', 's1', 'What is invoice 17 over?', agent => 'careful'), 'It is over 99.50.', 'the model corrects itself');
SELECT results_eq(
	$$SELECT content::text FROM mw.message WHERE tenant = 'acme' AND session = 's1' AND role = 'tool' ORDER BY position$$,
	$$VALUES ('"The tool failed; check its arguments and try again. (there is no invoice 71)"'), ('"invoice 17 is over 99.50"')$$,
	'it was told what was wrong, and then the amount');
SELECT is((SELECT count(*) FROM mw_fake_requests('double')), 3::bigint, 'in three calls');

SELECT mw_fake('double', :'script');
SELECT throws_ok($$SELECT mw_ask('acme', 's2', 'What is invoice 17 over?', agent => 'plain')$$, 'MW701', NULL,
	'without the hook the error leaves the run');
SELECT is((SELECT count(*) FROM mw.message WHERE tenant = 'acme' AND session = 's2'), 0::bigint, 'and the run is undone');

-- there is a ready-made one
SELECT mw_create_agent('ready_made', '{
	"model": "double:m", "tools": ["lookup_invoice"],
	"middleware": [{"type": "tool_error", "on_error": {"message": "{tool} failed: {error}"}}]
}', 'acme');
SELECT mw_fake('double', :'script');
SELECT is(mw_ask('acme', 's3', 'What is invoice 17 over?', agent => 'ready_made'), 'It is over 99.50.', 'tool_error does the same');

SELECT * FROM finish();
ROLLBACK;
