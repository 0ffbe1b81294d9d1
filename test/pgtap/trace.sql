-- mw.trace: why did it do that?  A run that cannot be explained afterwards is one that nobody trusts.
BEGIN;
SELECT plan(11);

CREATE SERVER traced FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('trace');
CREATE SCHEMA traced;
CREATE FUNCTION traced.audit(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT NULL::jsonb $$;
CREATE FUNCTION traced.around(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT mw_next(request) $$;
CREATE FUNCTION traced.lookup(email text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN IF email LIKE 'bad%' THEN RAISE 'no such person'; END IF; RETURN 'found ' || email; END $$;
SELECT mw_create_tool('traced_lookup', 'traced.lookup', tenant => 'trace');
SELECT mw_create_agent('traced', '{"model": "traced:m", "tools": ["traced_lookup"], "trace": "full", "middleware": [
	{"type": "custom", "name": "audit", "hooks": {"before_model": "traced.audit", "wrap_tool_call": "traced.around"}}]}', 'trace');
SELECT mw_fake('traced', '{"m": [{"tool_calls": [{"id": "c1", "name": "traced_lookup", "arguments": {"email": "<EMAIL_0>"}}]}, {"text": "done"}]}');

SELECT is(mw_ask('trace', 's1', 'find alice@example.com', agent => 'traced'), 'done', 'the run');
SELECT is((SELECT array_agg(depth || ' ' || kind || ' ' || name ORDER BY seq) FROM mw.trace WHERE tenant = 'trace' AND kind IN ('model', 'tool')),
	'{"0 model traced:m","0 tool traced_lookup","0 model traced:m"}', 'each model call and tool call is a row, at its depth');
SELECT is((SELECT string_agg(DISTINCT name, ', ') FROM mw.trace WHERE tenant = 'trace' AND name LIKE '% of audit'),
	'before_model of audit, wrap_tool_call of audit', 'a hook that there is not is no step');
SELECT ok(EXISTS (SELECT FROM mw.trace WHERE kind = 'hook' AND name = 'before_model of audit'), 'hooks are, too');
SELECT ok(EXISTS (SELECT FROM mw.trace WHERE kind = 'wrap' AND name = 'wrap_tool_call of audit' AND depth = 1), 'and what is wrapped around a tool, inside its step');
SELECT ok((SELECT bool_and(microseconds >= 0) FROM mw.trace WHERE tenant = 'trace'), 'each has ended');
SELECT is((SELECT input FROM mw.trace WHERE kind = 'tool'), '{"email": "<EMAIL_0>"}', 'what went in stands there with placeholders');
SELECT ok((SELECT bool_and(t::text !~ 'alice@') FROM mw.trace AS t WHERE tenant = 'trace'), 'no value does');
SELECT ok((SELECT count(*) FROM mw_trace('trace', 's1')) = (SELECT count(*) FROM mw.trace WHERE tenant = 'trace'), 'mw_trace draws a line a row');

SELECT mw_fake('traced', '{"m": [{"tool_calls": [{"id": "c1", "name": "traced_lookup", "arguments": {"email": "bad"}}]}]}');
SELECT is(mw_invoke('trace', 's2', 'find nobody', agent => 'traced', options => '{"on_error": "return"}') ->> 'status', 'error', 'a run that fails');
SELECT ok((SELECT bool_or(l LIKE '%tool traced_lookup, left by an error%') FROM mw_trace('trace', 's2') AS l), 'says where the error came from');
SELECT * FROM finish();
ROLLBACK;
