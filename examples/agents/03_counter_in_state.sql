-- 03_counter_in_state.sql: a counter in the agent's state, which two hooks share and which outlives the run.
--
--   psql -Xd yourdb -f examples/agents/03_counter_in_state.sql
--
-- Needs mw and, for the checks, pgtap.  A fake server answers, nobody is called, and all of it rolls back.

\set ON_ERROR_STOP on
\set QUIET on
BEGIN;
SELECT plan(6);

CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('acme');

-- ---------- the hooks ----------

CREATE FUNCTION check_call_limit(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT '{"jump_to": "end"}'::jsonb WHERE (state->>'model_call_count')::integer >= 3
$$;

CREATE FUNCTION increment_counter(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('model_call_count', (state->>'model_call_count')::integer + 1)
$$;

-- ---------- the agent ----------

-- "state" declares the field.  With a default it is there from the first call on; the reducer replace is the default
SELECT mw_create_agent('assistant', '{
	"model": "double:m",
	"middleware": [{"type": "custom", "name": "three_calls",
		"hooks": {"before_model": "check_call_limit", "after_model": "increment_counter"},
		"can_jump_to": ["end"],
		"state": {"model_call_count": {"default": 0}}}]
}', 'acme');

-- ---------- what it does ----------

SELECT mw_fake('double', '{"m": [{"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "never"}]}');

SELECT is(mw_ask('acme', 's1', 'Count.', agent => 'assistant'), 'one', 'the first call');
SELECT is(mw_ask('acme', 's1', 'Count.', agent => 'assistant'), 'two', 'the second');
SELECT is(mw_ask('acme', 's1', 'Count.', agent => 'assistant'), 'three', 'the third');
SELECT is(
	(SELECT state->>'model_call_count' FROM mw.session WHERE tenant = 'acme' AND session = 's1'),
	'3', 'the counter is a field of the session''s state');
SELECT mw_invoke('acme', 's1', 'Count.', agent => 'assistant') \g /dev/null
SELECT is((SELECT count(*) FROM mw_fake_requests('double')), 3::bigint, 'the fourth is not sent');
-- another session has a counter of its own
SELECT mw_fake('double', '{"m": [{"text": "one again"}]}');
SELECT is(mw_ask('acme', 's2', 'Count, please.', agent => 'assistant'), 'one again', 'another session counts for itself');

SELECT * FROM finish();
ROLLBACK;
