-- hook_timeout: a hook that never returns keeps a connection, a transaction and a session.
BEGIN;
SELECT plan(9);

CREATE SERVER slow FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('hook_timeout', '{"model": "slow:m", "cache": false}');
CREATE SCHEMA slow;
CREATE FUNCTION slow.forever(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN LOOP PERFORM 1; END LOOP; END $$;
CREATE FUNCTION slow.swallow(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$;
CREATE FUNCTION slow.quick(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT NULL::jsonb $$;
SELECT mw_create_agent(n, format('{"hook_timeout": 0.2, "middleware": [{"type": "custom", "name": "h", "hooks": {"before_model": "slow.%s"}}]}', n)::jsonb, 'hook_timeout')
FROM unnest('{forever,swallow,quick}'::text[]) AS n;
SELECT mw_fake('slow', '{"m": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}');

SELECT throws_ok($$SELECT mw_ask('hook_timeout', 'a', 'x', agent => 'forever')$$, 'MW702', NULL, 'a hook that loops is ended');
SELECT throws_ok($$SELECT mw_ask('hook_timeout', 'b', 'x', agent => 'swallow')$$, 'MW702', NULL, 'one that sleeps and catches, too');
SELECT is(mw_ask('hook_timeout', 'a', 'x', agent => 'quick'), 'one', 'the session can be used afterwards');
SELECT is(mw_invoke('hook_timeout', 'c', 'x', agent => 'forever', options => '{"on_error": "return"}') #>> '{error,sqlstate}', 'MW702', 'as a returned error it is the same');
-- ---------- wrap hooks: their own time, not that of what they call ----------

CREATE FUNCTION slow.wrap_forever(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN LOOP PERFORM 1; END LOOP; END $$;
CREATE FUNCTION slow.wrap_after(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN PERFORM mw_next(request); LOOP PERFORM 1; END LOOP; END $$;
CREATE FUNCTION slow.wrap_caught(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		RETURN mw_next(request);
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	LOOP PERFORM 1; END LOOP;
END $$;
CREATE FUNCTION slow.wrap_on(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RETURN mw_next(request); END $$;
SELECT mw_create_agent(n, format('{"hook_timeout": 0.2, "middleware": [{"type": "custom", "name": "h", "hooks": {"wrap_model_call": "slow.%s"}}]}', n)::jsonb, 'hook_timeout')
FROM unnest('{wrap_forever,wrap_after,wrap_caught}'::text[]) AS n;
SELECT mw_create_agent('wrap_on', '{"hook_timeout": 2, "middleware": [{"type": "custom", "name": "h", "hooks": {"wrap_model_call": "slow.wrap_on"}}]}', 'hook_timeout');
SELECT mw_alter_tenant('hook_timeout', '{"retry": 1}');
SELECT mw_fake('slow', '{"m": [{"text": "four"}]}');
SELECT throws_ok($$SELECT mw_ask('hook_timeout', 'd', 'x', agent => 'wrap_forever')$$, 'MW702', 'wrap_model_call of middleware "h" did not end within hook_timeout', 'a wrap hook that loops is ended');
SELECT throws_ok($$SELECT mw_ask('hook_timeout', 'd', 'x', agent => 'wrap_after')$$, 'MW702', 'wrap_model_call of middleware "h" did not end within hook_timeout', 'also behind mw_next');
SELECT mw_fake('slow', '{"m": [{"status": 500}]}');
SELECT throws_ok($$SELECT mw_ask('hook_timeout', 'd', 'x', agent => 'wrap_caught')$$, 'MW702', 'wrap_model_call of middleware "h" did not end within hook_timeout', 'and behind an error of it');
SELECT mw_fake('slow', '{"m": [{"text": "five", "delay_ms": 2500}, {"text": "six"}]}');
SELECT is(mw_ask('hook_timeout', 'd', 'x', agent => 'wrap_on'), 'five', 'what it calls may take longer');
SELECT is(mw_ask('hook_timeout', 'd', 'x', agent => 'wrap_on'), 'six', 'and the session goes on');
SELECT * FROM finish();
ROLLBACK;
