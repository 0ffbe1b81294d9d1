-- 04_model_by_length.sql: a hook around the model call that sends long conversations to another model.
--
--   psql -Xd yourdb -f examples/agents/04_model_by_length.sql
--
-- Needs mw and, for the checks, pgtap.  A fake server answers, nobody is called, and all of it rolls back.

\set ON_ERROR_STOP on
\set QUIET on
BEGIN;
SELECT plan(4);

CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('acme');

-- ---------- the hook ----------

-- mw_next calls what is further in: the next middleware, at last the model.  A changed request is jsonb's own ||, and
-- the request that came in stays what it was.
CREATE FUNCTION pick_model_by_length(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT public.mw_next(request || jsonb_build_object('model',
		CASE WHEN jsonb_array_length(request->'messages') > 4 THEN 'double:strong' ELSE 'double:cheap' END))
$$;

-- ---------- the agent ----------

SELECT mw_create_agent('assistant', '{
	"model": "double:cheap",
	"middleware": [{"type": "custom", "name": "pick_model", "hooks": {"wrap_model_call": "pick_model_by_length"}}]
}', 'acme');

-- ---------- what it does ----------

SELECT mw_fake('double', '{"cheap": [{"text": "cheap", "repeat": 9}], "strong": [{"text": "strong", "repeat": 9}]}');

SELECT is(mw_ask('acme', 's1', 'One?', agent => 'assistant'), 'cheap', 'one message goes to the cheap model');
SELECT is(mw_ask('acme', 's1', 'Two?', agent => 'assistant'), 'cheap', 'three do');
SELECT is(mw_ask('acme', 's1', 'Three?', agent => 'assistant'), 'strong', 'five go to the strong one');
-- each call is booked for the model that answered
SELECT results_eq(
	$$SELECT model, count(*) FROM mw.ledger WHERE tenant = 'acme' GROUP BY model ORDER BY model$$,
	$$VALUES ('double:cheap', 2::bigint), ('double:strong', 1)$$, 'and each is booked for its own');

SELECT * FROM finish();
ROLLBACK;
