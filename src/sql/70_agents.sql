-- Agents: as rows, and what their runs can be asked.

CREATE FUNCTION @extschema@.mw_create_agent(agent text, config jsonb, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_create_agent' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_create_agent(text, jsonb, text) IS
'Creates an agent of a tenant, or for ''*'' of all.  config: model, allow_model, system_prompt, tools (names, or schemas that the application executes), middleware (a list, in order), model_settings, response_format,
max_turns (25), limits, state (declared fields), context_schema, resume_as (owner or any), hook_timeout (of a hook, what its mw_next takes not counted, or of a function of an option), reveal (true or types of personal data: custom hooks are shown values; or an object of these by names of middlewares; each grant is told to the log), on_budget, on_guardrail, trace (steps, full or off).  Options are named as in LangChain''s Python; a callable is {"function": "schema.name"}.
Raises 42710 where it exists, MW001 for whatever in it cannot be used.';

CREATE FUNCTION @extschema@.mw_alter_agent(agent text, config jsonb, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_alter_agent' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_alter_agent(text, jsonb, text) IS
'Makes a new version of an agent: config is merged into it key by key, null removes a key.  A run that was paused goes on with the version that it began with.  Raises MW001.';

CREATE FUNCTION @extschema@.mw_drop_agent(agent text, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_drop_agent' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_drop_agent(text, text) IS
'Drops an agent; its versions stay for runs that are paused.  Raises MW001 where there is none.';

CREATE FUNCTION @extschema@.mw_next(request jsonb)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_next_sql' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION @extschema@.mw_next(jsonb) IS
'Inside a wrap hook: calls the next one in with this request and returns its response.  Raises MW702 elsewhere, and whatever the model call or the tool raises.';

CREATE FUNCTION @extschema@.mw_runtime()
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_runtime' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_runtime() IS
'Inside a hook or a tool: the run it is called in (tenant, session, agent, run, turn, call, request_id, context); NULL elsewhere.';

CREATE FUNCTION @extschema@.mw_state()
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_state' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_state() IS
'Inside a hook or a tool: the state of the run, messages included; NULL elsewhere.';

CREATE FUNCTION @extschema@.mw_messages(tenant text, session text, after text DEFAULT NULL)
RETURNS SETOF jsonb
AS 'MODULE_PATHNAME', 'mw_messages' LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED ROWS 20;
COMMENT ON FUNCTION @extschema@.mw_messages(text, text, text) IS
'The thread of a session as it is now, a message a row, in order, with the values that the session remembers in the place of their placeholders; after: only those behind the message with this id.
Raises MW101 where the role may not act for the tenant, MW001 (no tenant or session, no such message, a key file that cannot be used).';

CREATE FUNCTION mw.default_texts(OUT name text, OUT value text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_default_texts'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 7;
COMMENT ON FUNCTION mw.default_texts() IS
'the long texts that middlewares send to models unless an option gives others, a row a text: summary_prompt (with {messages}), selector_max_tools (with %d), emulator_prompt (with {tool}, {description} and {arguments}), and others whole. Raises nothing.';

CREATE FUNCTION @extschema@.mw_fork_session(tenant text, session text, new_session text, after text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'mw_fork_session' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_fork_session(text, text, text, text) IS
'Makes another session that begins as this one stands, or, with after (the id of a message), as it stood when that message had just been said, whatever a summary has put in its place since; returns how many messages it has.
The state is that of now; placeholders keep their values; a pause stays where it is.  Raises MW001 (no such session or message), 42710 (new_session exists), MW101.';

-- ---------- approvals ----------

CREATE FUNCTION @extschema@.mw_resume(tenant text, session text, decisions jsonb DEFAULT NULL, interrupt_id text DEFAULT NULL,
	request_id text DEFAULT NULL, options jsonb DEFAULT '{}', wait interval DEFAULT NULL)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_resume' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION @extschema@.mw_resume(text, text, jsonb, text, text, jsonb, interval) IS
'Continues the paused run of a session as the role whose run it is, and returns as mw_invoke does.  decisions, where given, are recorded first: {"decisions": [...]}, or {interrupt id or tool_call_id: decision};
interrupt_id: which interrupt they are for; options: added to those that the run began with; wait: how long to wait for reviewers, at most a day, holding nothing but the connection; undecided it returns status interrupted.
Raises MW602 (decisions that do not fit, nothing stored), MW603 (nothing waits), MW604 (another role''s run), MW605 (what is about to run is not what was approved), and what mw_invoke raises.';

CREATE FUNCTION @extschema@.mw_decide(tenant text, session text, decisions jsonb, interrupt_id text DEFAULT NULL, comment text DEFAULT NULL)
RETURNS SETOF mw.interrupt
AS 'MODULE_PATHNAME', 'mw_decide' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000 ROWS 1;
COMMENT ON FUNCTION @extschema@.mw_decide(text, text, jsonb, text, text) IS
'Records a reviewer''s verdict and runs nothing; returns the rows of mw.interrupt that it decided, as they now stand.  What is typed is kept with placeholders for personal data.  comment: a note for the record.
Raises MW602 (decisions that do not fit, nothing stored), MW603 (nothing waits), MW604 (not this role''s to decide; the hint is the grant to type), MW605 (the interrupt was changed by other means), MW201, MW001 (a value would be lost), MW101.';

CREATE FUNCTION @extschema@.mw_grant_reviewer(tenant text, grantee regrole, tools text[] DEFAULT NULL, may_decide_own boolean DEFAULT false, reveal boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_grant_reviewer' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_grant_reviewer(text, regrole, text[], boolean, boolean) IS
'Makes a role a reviewer of a tenant''s interrupts: of these tools, NULL for all; may_decide_own: of its own requests, too; reveal: it sees values instead of placeholders.  Once a tenant or tool has reviewers, nobody else decides.  Raises MW001.';

CREATE FUNCTION @extschema@.mw_revoke_reviewer(tenant text, grantee regrole)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_revoke_reviewer' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_revoke_reviewer(text, regrole) IS
'Takes that back.  Raises MW001 where the role is no reviewer.';

CREATE FUNCTION @extschema@.mw_claim_interrupt(tenant text, interrupt_id text, timeout interval DEFAULT '5 minutes')
RETURNS boolean
AS 'MODULE_PATHNAME', 'mw_claim_interrupt' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_claim_interrupt(text, text, interval) IS
'Takes an open interrupt for the current role, so that no other reviewer decides it until the timeout is over (NULL or 0: gives it back).  True where it is this role''s now, false where another reviewer has it.
Raises MW603 (it is not open), MW604 (not this role''s to decide), MW001.';

CREATE FUNCTION mw.may_decide(tenant text, interrupt_id text, place integer, tool text, agents_own boolean, requested_by oid, requested_through oid, decisions jsonb)
RETURNS boolean
AS 'MODULE_PATHNAME', 'mw_may_decide_sql' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10;
COMMENT ON FUNCTION mw.may_decide(text, text, integer, text, boolean, oid, oid, jsonb) IS
'Does an open row of mw.interrupt wait for the current role: of an agent''s own gate or of the tool''s row, asked for by that role (0: or nobody, called by that other one), approved by those so far?  Beneath mw.inbox.  Raises nothing.';

CREATE FUNCTION mw.may_review(tenant text, tool text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'mw_may_review_sql' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10;
COMMENT ON FUNCTION mw.may_review(text, text) IS
'May the current role decide interrupts of this tool as a reviewer of the tenant?  Raises nothing.';

CREATE FUNCTION mw.inbox_args(tenant text, session text, tool text, requested_by oid, interrupt_id text, place integer, args jsonb)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_inbox_args' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION mw.inbox_args(text, text, text, oid, text, integer, jsonb) IS
'Arguments of an interrupt as the current role may see them: with values where its grant says reveal, which is logged, else as they are.  Beneath mw.inbox.  Raises MW001 and XX001 where a stored value cannot be opened.';

CREATE FUNCTION mw.inbox_text(tenant text, session text, tool text, requested_by oid, interrupt_id text, place integer, description text)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_inbox_text' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION mw.inbox_text(text, text, text, oid, text, integer, text) IS
'The same of a text.  Beneath mw.inbox.  Raises MW001 and XX001 where a stored value cannot be opened.';

CREATE FUNCTION mw.visible(input text)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_visible_sql' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mw.visible(text) IS
'A text in which characters that are not seen, or that turn the direction of others, stand as JSON escapes them (\u202e); of a JSON text the meaning stays.  Raises nothing.';

CREATE FUNCTION @extschema@.mw_inbox_html(tenant text, page_size integer DEFAULT 50, before text DEFAULT NULL,
	interrupt_id text DEFAULT NULL, decisions jsonb DEFAULT NULL, form jsonb DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_inbox_html' LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION @extschema@.mw_inbox_html(text, integer, text, text, jsonb, jsonb) IS
'What waits for the current role in a tenant, as a page of HTML that needs nothing else, the newest first; everything in it is escaped.  page_size: interrupts on it, 1 to 500; before: the id of the last one of the page before.
interrupt_id: that interrupt instead, whole; decisions, as for mw_decide: what they would change is shown, and nothing recorded.  form: {"action": path of your page, to whose ?interrupt_id= and ?before= links go and where decisions are
posted, "fields": {hidden fields of forms, a token against forgery}, "notice": a text on top, "comment": the note that was typed so far}; without it the page says what to type.  Posted are interrupt_id, comment, and decisions (as JSON, to be recorded) or, for the n-th call from 0,
type_n with args_n (edit), reason_n (reject) or answer_n (respond).  Shows what the caller may see in mw.inbox, mw.interrupt and mw.message.  Raises MW001 (no tenant; form), and XX001 where a value that is to be revealed cannot be opened.';
