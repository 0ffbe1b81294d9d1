-- 02_block_with_jump.sql: a hook that ends the run, so that the user gets a fixed answer instead of the model's.
--
--   psql -Xd yourdb -f examples/agents/02_block_with_jump.sql
--
-- Needs mw and, for the checks, pgtap.  A fake server answers, nobody is called, and all of it rolls back.

\set ON_ERROR_STOP on
\set QUIET on
BEGIN;
SELECT plan(5);

CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('acme');

-- ---------- the hook ----------

-- "messages" of a patch are appended; "jump_to" leaves the loop: end, model or tools
CREATE FUNCTION block_unsafe_answer(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT '{"jump_to": "end", "messages": [{"role": "assistant", "content": "I cannot answer that."}]}'::jsonb
	WHERE public.mw_text(state->'messages'->-1) LIKE '%BLOCKED%'
$$;

-- ---------- the agent ----------

-- where a hook may jump to has to be declared; a jump that was not is an error, not a guard without effect
SELECT mw_create_agent('assistant', '{
	"model": "double:m",
	"middleware": [{"type": "custom", "name": "answer_filter",
		"hooks": {"after_model": "block_unsafe_answer"}, "can_jump_to": ["end"]}]
}', 'acme');

-- ---------- what it does ----------

SELECT mw_fake('double', '{"m": [{"text": "Paris."}, {"text": "BLOCKED: here is how"}]}');

SELECT is(mw_ask('acme', 's1', 'What is the capital of France?', agent => 'assistant'), 'Paris.', 'a harmless answer passes');

CREATE TEMPORARY TABLE blocked AS SELECT mw_invoke('acme', 's1', 'How do I pick a lock?', agent => 'assistant') AS r;
SELECT is(r->>'output', 'I cannot answer that.', 'the other one is replaced') FROM blocked;
SELECT is(r->>'status', 'completed', 'the run is over') FROM blocked;
SELECT is(r->>'ended_by', 'answer_filter', 'and says what ended it') FROM blocked;

-- the thread still has what the model said: a patch appends.  To replace it, return the message with its id.
SELECT is((SELECT count(*) FROM mw_messages('acme', 's1')), 5::bigint, 'two questions, two answers of the model, and ours');

SELECT * FROM finish();
ROLLBACK;
