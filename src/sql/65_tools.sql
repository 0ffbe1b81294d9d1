-- Tools: SQL functions that a model may ask for.  The catalogue; how they run stands in src/agent.

CREATE FUNCTION @extschema@.mw_create_tool(
	tool text, function text, description text DEFAULT NULL, parameters jsonb DEFAULT NULL,
	options jsonb DEFAULT '{}', tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_create_tool'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_create_tool(text, text, text, jsonb, jsonb, text) IS
'Registers a function as a tool that agents and calls can name.  tool: 1 to 64 letters, digits, _ and -; function: schema.name, with its argument types where several functions have that name;
description: what a model is told (NULL: the function''s COMMENT); parameters: JSON schema of the arguments, which the function then takes as one jsonb (NULL: the schema comes from its own arguments, which are passed typed).
options: writes (false: its transaction is read-only), timeout (interval or seconds; none), max_bytes and max_rows of a result (65536, 1000), return_direct, reveal (false, or types of personal data: which placeholders it gets the values of; all),
fixed (arguments that a model is not asked for, and their values), approval (true, or {"allowed_decisions", "approvals", "expires_in"}).  It runs as its caller.
Raises 42710 where it exists, MW001 for anything that cannot work.';

CREATE FUNCTION @extschema@.mw_alter_tool(tool text, options jsonb, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_alter_tool'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_alter_tool(text, jsonb, text) IS
'Merges options (also function, description, parameters) into those of a tool; null goes back to the default.  A tenant that has none of the name gets its own, changed copy of that of ''*''.  Raises MW001.';

CREATE FUNCTION @extschema@.mw_drop_tool(tool text, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_drop_tool'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_drop_tool(text, text) IS
'Drops a tool; its function stays.  Raises MW001 for an unknown one.';

CREATE FUNCTION @extschema@.mw_describe_tool(tenant text, tool text)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_describe_tool'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_describe_tool(text, text) IS
'What a model is told of a tool, before redaction: {"type": "function", "function": {"name", "description", "parameters"}}.
Raises MW101 (tenant), MW001 for an unknown tool or one whose function is gone.';

CREATE FUNCTION @extschema@.mw_call_tool(tenant text, tool text, args jsonb DEFAULT '{}')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_call_tool'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION @extschema@.mw_call_tool(text, text, jsonb) IS
'Runs a tool as a run of an agent would: arguments checked, as the caller, within its limits, the result redacted and judged. Nobody is asked to approve it: that is for what a model wants.
Returns {"content": what a model would see, "status": success, or error for arguments that it would be told to mend, "update": change of the state}.
Raises MW101 (tenant), MW001 for an unknown tool, MW202 (guardrail), MW701 (timeout), and whatever the function raises.';
