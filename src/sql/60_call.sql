-- Calling a model.  The pipeline stands in src/call and src/stage.

CREATE FUNCTION @extschema@.mw_invoke(
	tenant text, session text, prompt text,
	tools jsonb DEFAULT NULL, agent text DEFAULT NULL, model text DEFAULT NULL,
	request_id text DEFAULT NULL, options jsonb DEFAULT '{}', messages jsonb DEFAULT NULL)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_invoke' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION @extschema@.mw_invoke(text, text, text, jsonb, text, text, text, jsonb, jsonb) IS
'asks a model for a tenant, through all six stages, and returns the whole result.
tenant: who it is for; session: NULL for a one-shot call; prompt: may be NULL where messages say everything;
tools: names of registered tools, which mw runs, or OpenAI-style schemas, which the application runs; agent: whose model, tools and middleware; model: server:model, else the tenant''s, else mw.default_model;
request_id: names the request, so that a repeat does not pay again; options: timeout (interval or seconds, 60), max_tokens, temperature,
top_p, stop, seed, presence_penalty, frequency_penalty, response_format, tool_choice, parallel_tool_calls, cache, redact, guardrail,
memory, session_busy (wait or error), state, context, interrupt_on, on_error (raise or return), resend_unknown, limits, fallback (models to ask when one fails); messages: history, before the prompt.
Result: status, output, messages, tool_calls, usage, cost, cache, request_id, run_id, model, notices, timings (microseconds a stage).
Raises MW001 (argument), MW003 (not preloaded), MW101 (tenant), MW201 (personal data), MW202 (guardrail), MW301 (budget),
MW401 to MW405 (provider), MW501 and MW502 (request_id), 54000 (over mw.max_prompt), 25006 (read-only transaction or standby).';

CREATE FUNCTION @extschema@.mw_ask(
	tenant text, session text, prompt text,
	tools jsonb DEFAULT NULL, agent text DEFAULT NULL, model text DEFAULT NULL,
	request_id text DEFAULT NULL, options jsonb DEFAULT '{}', messages jsonb DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_ask' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION @extschema@.mw_ask(text, text, text, jsonb, text, text, text, jsonb, jsonb) IS
'asks a model as mw_invoke does, with the same arguments and errors, and returns the output alone; for any status but completed NULL with a WARNING';

CREATE FUNCTION @extschema@.mw_explain(
	tenant text, session text, prompt text,
	tools jsonb DEFAULT NULL, agent text DEFAULT NULL, model text DEFAULT NULL,
	request_id text DEFAULT NULL, options jsonb DEFAULT '{}', messages jsonb DEFAULT NULL,
	OUT stage text, OUT verdict text, OUT detail jsonb, OUT next text, OUT microseconds bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_explain' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000 ROWS 6;
COMMENT ON FUNCTION @extschema@.mw_explain(text, text, text, jsonb, text, text, text, jsonb, jsonb) IS
'says, a row a stage, what mw_invoke with these arguments would do: verdict, detail, what the next stage would see, microseconds; ends where the call would.
For a run (an agent, registered tools, memory) a row a middleware comes first, in order, with its hooks, which are listed and not run; then the stages of its first model call.
Calls nobody and changes nothing, so it works in a read-only transaction.  Raises MW001 (argument), MW101 (tenant), 54000 (over mw.max_prompt)';

CREATE FUNCTION @extschema@.mw_cache_key(
	tenant text, messages jsonb, tools jsonb DEFAULT NULL, model text DEFAULT NULL, options jsonb DEFAULT '{}')
RETURNS text
AS 'MODULE_PATHNAME', 'mw_cache_key' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION @extschema@.mw_cache_key(text, jsonb, jsonb, text, jsonb) IS
'the key (32 hex digits) under which a call with these messages would be cached: of the messages as they come out of redact and guardrail, with the tenant''s rules.
tenant NULL: the rules of everybody.  Raises MW001 (argument), MW101 (tenant), MW201 (personal data), MW202 (guardrail), 54000 (over mw.max_prompt)';

CREATE FUNCTION @extschema@.mw_check_order(stages text[])
RETURNS void
AS 'MODULE_PATHNAME', 'mw_check_order' LANGUAGE C IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.mw_check_order(text[]) IS
'returns for the one order of the six stages that breaks no invariant.  Raises MW002 with each invariant that this order breaks in the detail, a line each, and MW001 for a missing, double, unknown or NULL stage';
