-- Hooks in each language: what one of them can do, all can; and none can swallow a pause.
BEGIN;
SELECT plan(15);

CREATE EXTENSION IF NOT EXISTS plpython3u;
CREATE EXTENSION IF NOT EXISTS plperl;
CREATE SERVER languages FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('languages');
CREATE SCHEMA languages;
CREATE FUNCTION languages.send(word text) RETURNS text LANGUAGE sql AS $$ SELECT 'sent ' || word $$;
SELECT mw_create_tool('languages_send', 'languages.send', tenant => 'languages');

-- node hooks that count, wrap hooks that change a request and a result
CREATE FUNCTION languages.count_sql(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_build_object('seen', coalesce((state ->> 'seen')::int, 0) + 1) $$;
CREATE FUNCTION languages.wrap_sql(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS
$$ SELECT mw_next(jsonb_set(request, '{tool_call,args,word}', '"sql"')) || '{"content": "by sql"}' $$;

CREATE FUNCTION languages.count_plpgsql(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS
$$ BEGIN RETURN jsonb_build_object('seen', coalesce((state ->> 'seen')::int, 0) + 1); END $$;
CREATE FUNCTION languages.wrap_plpgsql(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS
$$ BEGIN
	RETURN mw_next(jsonb_set(request, '{tool_call,args,word}', '"plpgsql"')) || '{"content": "by plpgsql"}';
EXCEPTION WHEN OTHERS THEN
	RETURN '{"content": "swallowed"}';
END $$;

CREATE FUNCTION languages.count_plpython3u(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpython3u AS
$$
import json
return json.dumps({"seen": (json.loads(state).get("seen") or 0) + 1})
$$;
CREATE FUNCTION languages.wrap_plpython3u(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpython3u AS
$$
import json
changed = json.loads(request)
changed["tool_call"]["args"]["word"] = "plpython3u"
try:
	result = json.loads(plpy.execute(plpy.prepare("SELECT mw_next($1) AS r", ["jsonb"]), [json.dumps(changed)])[0]["r"])
except Exception:
	return json.dumps({"content": "swallowed"})
result["content"] = "by plpython3u"
return json.dumps(result)
$$;

CREATE FUNCTION languages.count_plperl(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plperl AS
$$ my ($seen) = $_[0] =~ /"seen": (\d+)/; return '{"seen": ' . (($seen // 0) + 1) . '}' $$;
CREATE FUNCTION languages.wrap_plperl(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plperl AS
$$
	my $plan = spi_prepare(q(SELECT mw_next(jsonb_set($1, '{tool_call,args,word}', '"plperl"')) || '{"content": "by plperl"}' AS r), 'jsonb');
	my $row = eval { spi_exec_prepared($plan, $_[0])->{rows}[0] };
	return $row ? $row->{r} : '{"content": "swallowed"}';
$$;

CREATE FUNCTION pg_temp.agent(lang text, gated boolean) RETURNS void LANGUAGE sql AS
$$ SELECT mw_create_agent(lang || CASE WHEN gated THEN '_gated' ELSE '' END, format('{"model": "languages:m", "tools": ["languages_send"], "middleware": [
	{"type": "custom", "name": "hooks", "hooks": {"before_model": "languages.count_%1$s", "wrap_tool_call": "languages.wrap_%1$s"}, "state": {"seen": {}}}%2$s]}',
	lang, CASE WHEN gated THEN ', {"type": "human_in_the_loop", "interrupt_mode": "per_call", "interrupt_on": {"languages_send": true}}' ELSE '' END)::jsonb, 'languages') $$;
CREATE TEMP TABLE lang (name text);
INSERT INTO lang VALUES ('sql'), ('plpgsql'), ('plpython3u'), ('plperl');
SELECT pg_temp.agent(name, gated) FROM lang, (VALUES (false), (true)) AS g (gated);

CREATE FUNCTION pg_temp.script() RETURNS void LANGUAGE sql AS
$$ SELECT mw_fake('languages', '{"m": [{"tool_calls": [{"id": "c1", "name": "languages_send", "arguments": {"word": "x"}}]}, {"text": "done"}]}') $$;
CREATE FUNCTION pg_temp.run(agent text, session text) RETURNS jsonb LANGUAGE sql AS
$$ SELECT pg_temp.script(); SELECT mw_invoke('languages', session, 'Go for ' || session, agent => agent, options => '{"cache": "off"}') $$;

SELECT is(pg_temp.run(name, name) ->> 'output', 'done', name || ': a run with hooks') FROM lang;
SELECT is((SELECT content #>> '{}' FROM mw.message WHERE session = lang.name AND role = 'tool'), 'by ' || lang.name, lang.name || ': a wrap hook changes the result') FROM lang;
SELECT is((SELECT array_agg(s.state ->> 'seen' ORDER BY session) FROM mw.session AS s WHERE tenant = 'languages'), '{2,2,2,2}', 'node hooks count in the state, in all of them');

-- a pause inside mw_next: whatever the hook does with it, the run stops
SELECT is(pg_temp.run(name || '_gated', name || '_g') ->> 'status', 'interrupted', name || ': a pause cannot be caught') FROM lang;
SELECT pg_temp.script();
SELECT is((SELECT count(*)::int FROM mw.message WHERE tenant = 'languages' AND session LIKE '%\_g' AND role = 'tool'), 0, 'and leaves no result');
SELECT is((SELECT array_agg(DISTINCT status) FROM mw.interrupt WHERE tenant = 'languages'), '{open}', 'each waits for its decision');
SELECT * FROM finish();
ROLLBACK;
