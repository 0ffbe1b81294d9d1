-- The test double: what a server with api 'fake' answers, and what it was asked.

CREATE FUNCTION @extschema@.mw_fake(server text, script jsonb)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_fake'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.mw_fake(text, jsonb) IS
'Sets what a fake server (CREATE SERVER ... OPTIONS (api ''fake'')) answers in this session, for whoever has USAGE on it.
Starts the log of mw_fake_requests anew. All of it is undone when the transaction or savepoint that did it rolls back.
script: {MODEL: [STEP, ...]}, played in order (MODEL as in server:MODEL; "*" is any model without steps of its own),
or rules [{"match": TEXT or OBJECT, "step": STEP}, ...]: the first that holds answers, always or "repeat" times; a text must
occur in the last user message, an object be contained in the request as by jsonb''s @>, no match always holds.
What has run out answers HTTP 500 with code script_exhausted. NULL takes the script away.
STEP is one of
{"text": TEXT}, null sends no content;
{"tool_calls": [{"name", "id", "arguments": JSON or "arguments_raw": TEXT}, ...]}, "text" beside it if wanted;
{"status": 400 to 599, "retry_after": seconds or a date, "retry_after_ms": milliseconds, "body": JSON or TEXT, "headers": {}};
{"disconnect": true} before a byte comes back, "mid_stream" inside the answer, "connect" where no connection can be made;
{"raw": TEXT} as the body of a 200.
Each may have "delay_ms", "repeat" (times it answers), "usage" ({"prompt_tokens", "completion_tokens"}; false sends none;
where it is missing it is derived from the text), "finish_reason".
Errors: MW001 for an unknown server, one that is not fake, or a script that is not as above; 42501 without USAGE.';

CREATE FUNCTION @extschema@.mw_fake_requests(
	server text,
	OUT n integer,
	OUT model text,
	OUT body jsonb,
	OUT answered text,
	OUT tenant text,
	OUT session text,
	OUT request_id text,
	OUT call integer,
	OUT attempt integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_fake_requests'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 10;

COMMENT ON FUNCTION @extschema@.mw_fake_requests(text) IS
'What was sent to a fake server in this session since mw_fake set its script, in order, one row an attempt: n (from 1), model
(server:model), body (the request as it would go over the wire), answered (text, tool_calls, status CODE, disconnect, raw or
exhausted), and whose it was. Shows the tenants alone for which the calling role may act. What a transaction or savepoint
that was rolled back had sent is not there, but for those of a call''s own (a try of a middleware, an EXCEPTION block of a hook).
Errors: MW001 for an unknown server or one that is not fake; 42501 without USAGE.';
