-- 01_logging.sql: two hooks that write down what goes to the model and what comes back.
--
--   psql -Xd yourdb -f examples/agents/01_logging.sql
--
-- Needs mw and, for the checks, pgtap.  A fake server answers, nobody is called, and all of it rolls back.

\set ON_ERROR_STOP on
\set QUIET on
BEGIN;
SELECT plan(5);

CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('acme');

-- ---------- the hooks ----------

-- A hook is a function of the state and the runtime.  It returns what to change in the state; NULL: nothing.  It runs as
-- the caller and in the caller's transaction: what it writes is there if the run is.
CREATE TABLE agent_log (at timestamptz DEFAULT clock_timestamp(), session text, what text);

CREATE FUNCTION log_before_model(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.agent_log (session, what)
	VALUES (runtime->>'session', format('sending %s messages to the model', jsonb_array_length(state->'messages')));
	RETURN NULL;
END
$$;

CREATE FUNCTION log_response(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.agent_log (session, what)
	VALUES (runtime->>'session', 'the model answered: ' || public.mw_text(state->'messages'->-1));
	RETURN NULL;
END
$$;

-- ---------- the agent ----------

-- one entry of "middleware" may have several hooks, as a class has methods
SELECT mw_create_agent('assistant', '{
	"model": "double:m",
	"middleware": [{"type": "custom", "name": "logging",
		"hooks": {"before_model": "log_before_model", "after_model": "log_response"}}]
}', 'acme');

-- ---------- what it does ----------

SELECT mw_fake('double', '{"m": [{"text": "Hello, Ada."}, {"text": "You are Ada."}]}');

SELECT is(mw_ask('acme', 's1', 'Hello, I am Ada.', agent => 'assistant'), 'Hello, Ada.', 'the agent answers');
SELECT is(mw_ask('acme', 's1', 'Who am I?', agent => 'assistant'), 'You are Ada.', 'and remembers: an agent keeps its thread');
SELECT results_eq(
	$$SELECT what FROM agent_log WHERE session = 's1' ORDER BY at$$,
	$$VALUES ('sending 1 messages to the model'), ('the model answered: Hello, Ada.'),
		('sending 3 messages to the model'), ('the model answered: You are Ada.')$$,
	'both hooks ran, in each turn');

-- a run that is rolled back leaves no row in the log, though its answer was paid for and is in the ledger
SAVEPOINT before;
SELECT mw_fake('double', '{"m": [{"text": "Never mind."}]}');
SELECT mw_ask('acme', 's2', 'Forget it.', agent => 'assistant') \g /dev/null
SELECT is((SELECT count(*) FROM agent_log WHERE session = 's2'), 2::bigint, 'a third run is logged');
ROLLBACK TO before;
SELECT is((SELECT count(*) FROM agent_log WHERE session = 's2'), 0::bigint, 'and its log goes with it');

SELECT * FROM finish();
ROLLBACK;
