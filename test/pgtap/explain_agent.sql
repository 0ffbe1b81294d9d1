-- mw_explain of an agent: what its first model call would be, without calling, writing or running anything.
BEGIN;
SELECT plan(9);

CREATE SERVER explained FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('explain_agent');
CREATE SCHEMA explain_agent;
CREATE TABLE explain_agent.ran (hook text);
CREATE FUNCTION explain_agent.audit(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS
$$ INSERT INTO explain_agent.ran VALUES ('audit'); SELECT NULL::jsonb $$;
CREATE FUNCTION explain_agent.lookup(email text) RETURNS text LANGUAGE sql AS $$ SELECT 'found ' || email $$;
SELECT mw_create_tool('explained_lookup', 'explain_agent.lookup');
SELECT mw_create_agent('explained', '{"model": "explained:m", "system_prompt": "Be brief.", "tools": ["explained_lookup"], "middleware": [
	{"type": "model_call_limit", "run_limit": 3},
	{"type": "custom", "name": "audit", "hooks": {"before_model": "explain_agent.audit"}}]}', 'explain_agent');
SELECT mw_fake('explained', '{"m": [{"text": "first"}, {"text": "second"}]}');

CREATE TEMP TABLE shown AS
SELECT row_number() OVER () AS n, * FROM mw_explain('explain_agent', 's1', 'mail alice@example.com', agent => 'explained');

SELECT is((SELECT array_agg(stage ORDER BY n) FROM shown),
	'{model_call_limit,audit,redact,guardrail,budget,cache,retry,model}', 'the stack in order, then the stages');
SELECT is((SELECT detail -> 'hooks' FROM shown WHERE stage = 'audit'),
	'["before_model: explain_agent.audit(pg_catalog.jsonb,pg_catalog.jsonb)"]', 'a hook is listed with its function');
SELECT is((SELECT detail -> 'type' FROM shown WHERE stage = 'model_call_limit'), '"model_call_limit"', 'a built-in one with its type');
SELECT is_empty('SELECT * FROM explain_agent.ran', 'no hook was run');
SELECT is((SELECT next::jsonb -> 'messages' -> 0 ->> 'content' FROM shown WHERE stage = 'model'), 'Be brief.', 'the request has the agent''s system prompt');
SELECT is((SELECT next::jsonb -> 'tools' -> 0 -> 'function' ->> 'name' FROM shown WHERE stage = 'model'), 'explained_lookup', 'and its tools');
SELECT ok((SELECT next FROM shown WHERE stage = 'model') !~ 'alice@example.com', 'and no value');
SELECT is_empty('SELECT * FROM mw.thread WHERE tenant = ''explain_agent'' UNION ALL SELECT NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, NULL FROM mw_fake_requests(''explained'')',
	'nothing was written, nobody was called');
SELECT is(mw_ask('explain_agent', 's1', 'now', agent => 'explained'), 'first', 'the run itself begins anew');
SELECT * FROM finish();
ROLLBACK;
