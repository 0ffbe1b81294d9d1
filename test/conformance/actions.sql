-- actions.sql: what tools and hooks of a scenario do, as PL/pgSQL.
--
-- A scenario's tool or hook is a one-line function that hands its entry of the scenario file (spec), the number of
-- this call (a sequence's, since what an error rolls back it does not) and what it was called with to one of the functions
-- here.  What the runner has to know goes out as a NOTICE with a marker, for the same reason.  Everything is named with its
-- schema: hooks run without their caller's search_path.

CREATE SCHEMA conformance;
GRANT USAGE ON SCHEMA conformance TO PUBLIC;

CREATE FUNCTION conformance.note(entry jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE USING MESSAGE = 'mw-conformance ' || entry::text;
END
$$;

-- JSON text with sorted keys and without white space; strings stand in it as JSON strings
CREATE FUNCTION conformance.compact(value jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN CASE jsonb_typeof(value)
		WHEN 'object' THEN (
			SELECT '{' || coalesce(string_agg(to_jsonb(key)::text || ':' || conformance.compact(e.value), ',' ORDER BY key COLLATE "C"), '') || '}'
			FROM jsonb_each(value) AS e)
		WHEN 'array' THEN (
			SELECT '[' || coalesce(string_agg(conformance.compact(e.value), ',' ORDER BY ordinality), '') || ']'
			FROM jsonb_array_elements(value) WITH ORDINALITY AS e)
		ELSE value::text
	END;
END
$$;

CREATE FUNCTION conformance.fail(message text, class text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION USING MESSAGE = message, ERRCODE = CASE class WHEN 'TimeoutError' THEN 'MWT01' WHEN 'ValueError' THEN 'MWV01' ELSE 'P0001' END;
END
$$;

-- ---------- tools ----------

-- What tools did to the database: a row each run that did not fail
CREATE TABLE conformance.effect (scenario text NOT NULL, tool text NOT NULL, args jsonb);
GRANT SELECT, INSERT ON conformance.effect TO PUBLIC;

-- Text, or JSON where the scenario has a value that is none: the functions made of it declare which
CREATE FUNCTION conformance.tool(spec jsonb, nth bigint, args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	behavior	jsonb := coalesce(spec->'behavior', '{"kind": "echo_args"}');
	kind		text := behavior->>'kind';
BEGIN
	-- a Pydantic tool, which every tool was where it was measured, does not see what it does not know
	args := (SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(args) AS e WHERE spec->'known' ? e.key);
	PERFORM conformance.note(jsonb_build_object('log', 'tool', 'name', spec->'name', 'args', args));
	PERFORM pg_sleep((behavior->>'delay_ms')::float8 / 1000) WHERE behavior ? 'delay_ms';
	IF kind = 'raise' OR kind = 'raise_times' AND nth <= (behavior->>'times')::bigint
		OR kind = 'raise_if' AND args->(behavior->>'arg') = behavior->'equals' THEN
		PERFORM conformance.fail(behavior->>'message', behavior->>'error_class');
	END IF;
	INSERT INTO conformance.effect VALUES (spec->>'scenario', spec->>'name', args);
	IF kind = 'echo_args' THEN
		RETURN to_jsonb((spec->>'name') || '(' || coalesce((
			SELECT string_agg(e.key || '=' || CASE jsonb_typeof(e.value) WHEN 'string' THEN e.value #>> '{}' ELSE conformance.compact(e.value) END,
				', ' ORDER BY e.key COLLATE "C")
			FROM jsonb_each(args) AS e), '') || ')');
	END IF;
	RETURN coalesce(behavior->'value', '"ok"');
END
$$;

-- ---------- what all hooks do first ----------

-- Writes this call to the log, and says whether the action fires
CREATE FUNCTION conformance.entered(spec jsonb, nth bigint, thread jsonb, entry jsonb, tool text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	cond	jsonb := coalesce(spec->'when', '{}');
	n		integer := coalesce(jsonb_array_length(thread), 0);
BEGIN
	PERFORM conformance.log(spec, entry);
	RETURN coalesce((cond->>'call')::bigint = nth, true)
		AND coalesce((cond->>'calls_up_to')::bigint >= nth, true)
		AND coalesce((cond->>'min_messages')::integer <= n, true)
		AND coalesce((cond->>'max_messages')::integer >= n, true)
		AND (NOT cond ? 'last_contains' OR strpos(coalesce(public.mw_text(thread->-1), ''), cond->>'last_contains') > 0)
		AND coalesce(cond->>'tool' = tool, true);
END
$$;

CREATE FUNCTION conformance.log(spec jsonb, entry jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF spec->'action'->>'kind' = 'log' OR (spec->>'log')::boolean THEN
		PERFORM conformance.note(jsonb_build_object('log', 'hook', 'name', spec->'name', 'hook', spec->'hook') || entry);
	END IF;
END
$$;

-- Calls the next one in, and logs how that ended.  A pause for approval (MW699) unwinds like an error and is none.
CREATE FUNCTION conformance.next(spec jsonb, request jsonb, entry jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	answer	jsonb;
BEGIN
	IF NOT (spec->'action'->>'kind' = 'log' OR coalesce((spec->>'log')::boolean, false)) THEN
		RETURN public.mw_next(request);			-- nothing to log: no subtransaction either
	END IF;
	BEGIN
		answer := public.mw_next(request);
	EXCEPTION WHEN OTHERS THEN
		IF SQLSTATE <> 'MW699' THEN
			PERFORM conformance.log(spec, entry || '{"phase": "error"}');
		END IF;
		RAISE;
	END;
	PERFORM conformance.log(spec, entry || '{"phase": "exit"}');
	RETURN answer;
END
$$;

-- The same, up to "times" further times after an error, or "times" times in any case
CREATE FUNCTION conformance.again(spec jsonb, request jsonb, entry jsonb, OUT answer jsonb) LANGUAGE plpgsql AS $$
DECLARE
	times	integer := (spec->'action'->>'times')::integer;
BEGIN
	IF spec->'action'->>'kind' LIKE 'repeat%' THEN
		FOR i IN 1 .. times LOOP
			answer := conformance.next(spec, request, entry);
		END LOOP;
		RETURN;
	END IF;
	FOR i IN 0 .. times LOOP
		BEGIN
			answer := conformance.next(spec, request, entry);
			RETURN;
		EXCEPTION WHEN OTHERS THEN
			IF i = times THEN
				RAISE;
			END IF;
		END;
	END LOOP;
END
$$;

-- ---------- before_agent, before_model, after_model, after_agent ----------

CREATE FUNCTION conformance.node(spec jsonb, nth bigint, state jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	thread	jsonb := coalesce(state->'messages', '[]');
	action	jsonb := spec->'action';
	kind	text := action->>'kind';
	last	jsonb;
BEGIN
	IF NOT conformance.entered(spec, nth, thread, jsonb_build_object('messages', jsonb_array_length(thread))) OR kind = 'log' THEN
		RETURN NULL;
	END IF;
	CASE kind
		WHEN 'jump_to' THEN
			RETURN jsonb_build_object('jump_to', action->'to')
				|| CASE WHEN action ? 'messages' THEN jsonb_build_object('messages', action->'messages') ELSE '{}' END;
		WHEN 'set_state' THEN
			RETURN action->'values';
		WHEN 'increment_state' THEN
			RETURN jsonb_build_object(action->>'key', coalesce((state->>(action->>'key'))::numeric, 0) + coalesce((action->>'by')::numeric, 1));
		WHEN 'append_message' THEN
			RETURN jsonb_build_object('messages', jsonb_build_array(action->'message'));
		WHEN 'rewrite_last_ai' THEN
			SELECT m INTO last FROM jsonb_array_elements(thread) WITH ORDINALITY AS e (m, i) WHERE m->>'role' = 'assistant' ORDER BY i DESC LIMIT 1;
			RETURN jsonb_build_object('messages', jsonb_build_array(jsonb_build_object('id', last->'id', 'role', 'assistant',
				'content', action->'content',
				'tool_calls', CASE WHEN (action->>'drop_tool_calls')::boolean THEN '[]' ELSE coalesce(last->'tool_calls', '[]') END)));
		WHEN 'raise' THEN
			PERFORM conformance.fail(action->>'message');
	END CASE;
END
$$;

-- ---------- wrap_model_call ----------

CREATE FUNCTION conformance.around_model(spec jsonb, nth bigint, request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	action	jsonb := spec->'action';
	kind	text := action->>'kind';
	thread	jsonb := coalesce(request->'messages', '[]');
	entry	jsonb := jsonb_build_object('messages', jsonb_array_length(thread));
	answer	jsonb;
BEGIN
	IF NOT conformance.entered(spec, nth, thread, entry || '{"phase": "enter"}') OR kind = 'log' THEN
		RETURN conformance.next(spec, request, entry);
	END IF;
	CASE kind
		WHEN 'override_model' THEN
			request := request || jsonb_build_object('model', action->'model');
		WHEN 'override_system_prompt' THEN
			request := request || jsonb_build_object('system_prompt',
				CASE WHEN action->>'mode' = 'append' THEN coalesce(request->>'system_prompt', '') ELSE '' END || (action->>'text'));
		WHEN 'override_tools' THEN
			request := request || jsonb_build_object('tools', (
				SELECT coalesce(jsonb_agg(t ORDER BY i), '[]') FROM jsonb_array_elements(request->'tools') WITH ORDINALITY AS e (t, i)
				WHERE action->'names' ? coalesce(t->>'name', t->'function'->>'name', t #>> '{}')));
		WHEN 'override_messages' THEN
			request := request || jsonb_build_object('messages', (
				SELECT coalesce(jsonb_agg(m ORDER BY i), '[]') FROM jsonb_array_elements(thread) WITH ORDINALITY AS e (m, i)
				WHERE i > jsonb_array_length(thread) - (action->>'keep_last')::integer));
		WHEN 'override_tool_choice' THEN
			request := request || jsonb_build_object('tool_choice', action->'tool_choice');
		WHEN 'retry_model', 'repeat_model' THEN
			RETURN conformance.again(spec, request, entry);
		WHEN 'short_circuit_model' THEN
			RETURN jsonb_build_object('role', 'assistant', 'content', action->'content');
		WHEN 'edit_response' THEN
			answer := conformance.next(spec, request, entry)->'result'->-1;
			RETURN jsonb_build_object('id', answer->'id', 'role', 'assistant', 'tool_calls', coalesce(answer->'tool_calls', '[]'),
				'content', coalesce(action->>'prefix', '') || coalesce(public.mw_text(answer), '') || coalesce(action->>'suffix', ''));
		WHEN 'catch_model_error' THEN
			BEGIN
				RETURN conformance.next(spec, request, entry);
			EXCEPTION WHEN OTHERS THEN
				RETURN jsonb_build_object('role', 'assistant', 'content', action->'content');
			END;
		WHEN 'raise' THEN
			PERFORM conformance.fail(action->>'message');
	END CASE;
	RETURN conformance.next(spec, request, entry);
END
$$;

-- ---------- wrap_tool_call ----------

CREATE FUNCTION conformance.result(call jsonb, content text, status text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object('role', 'tool', 'tool_call_id', call->'id', 'name', call->'name', 'content', content, 'status', status))
$$;

CREATE FUNCTION conformance.around_tool(spec jsonb, nth bigint, request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	action	jsonb := spec->'action';
	kind	text := action->>'kind';
	call	jsonb := request->'tool_call';
	entry	jsonb := jsonb_build_object('tool_call_id', call->'id');
	answer	jsonb;
BEGIN
	IF NOT conformance.entered(spec, nth, request->'state'->'messages', entry || '{"phase": "enter"}', call->>'name') OR kind = 'log' THEN
		RETURN conformance.next(spec, request, entry);
	END IF;
	CASE kind
		WHEN 'short_circuit_tool' THEN
			RETURN conformance.result(call, action->>'content', action->>'status');
		WHEN 'edit_tool_args' THEN
			RETURN conformance.next(spec, jsonb_set(request, '{tool_call,args}', coalesce(call->'args', '{}') || (action->'set')), entry);
		WHEN 'retry_tool', 'repeat_tool' THEN
			RETURN conformance.again(spec, request, entry);
		WHEN 'catch_tool_error' THEN
			BEGIN
				RETURN conformance.next(spec, request, entry);
			EXCEPTION WHEN OTHERS THEN
				RETURN conformance.result(call, coalesce(action->>'prefix', '') || SQLERRM, 'error');
			END;
		WHEN 'edit_tool_result' THEN
			answer := conformance.next(spec, request, entry);
			RETURN conformance.result(call, coalesce(action->>'prefix', '') || coalesce(public.mw_text(answer), '') || coalesce(action->>'suffix', ''),
				answer->>'status');
		WHEN 'raise' THEN
			PERFORM conformance.fail(action->>'message');
	END CASE;
END
$$;

-- ---------- predicates of human_in_the_loop ----------

-- "when": {"arg": A} with one of starts_with, contains, equals, gt, asked of a tool call; a missing argument does not match
CREATE FUNCTION conformance.matches(spec jsonb, call jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
	SELECT coalesce(CASE
		WHEN spec ? 'starts_with' THEN jsonb_typeof(v) = 'string' AND starts_with(v #>> '{}', spec->>'starts_with')
		WHEN spec ? 'contains' THEN jsonb_typeof(v) = 'string' AND strpos(v #>> '{}', spec->>'contains') > 0
		WHEN spec ? 'equals' THEN v = spec->'equals'
		ELSE jsonb_typeof(v) = 'number' AND v > spec->'gt'
	END, false)
	FROM (SELECT call->'args'->(spec->>'arg')) AS a (v)
$$;
