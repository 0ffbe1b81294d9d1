-- A process keeps agents and tools as it has read them.  What it keeps must never be older than what they are made of.
BEGIN;
SELECT plan(14);
CREATE SERVER kept FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('kept', '{"model": "kept:m", "redact": false, "guardrail": false, "cache": false}');
CREATE SCHEMA app;
CREATE DOMAIN app.amount AS integer CHECK (VALUE > 0);
CREATE FUNCTION app.due(number integer) RETURNS text LANGUAGE sql AS $$ SELECT 'on the fourth' $$;
CREATE FUNCTION app.pay(much app.amount) RETURNS text LANGUAGE sql AS $$ SELECT 'paid' $$;
SELECT mw_create_tool('due', 'app.due', tenant => 'kept');
SELECT mw_create_tool('pay', 'app.pay', tenant => 'kept');
SELECT mw_create_agent('clerk', '{"tools": ["due", "pay"], "system_prompt": "One."}', 'kept');

-- What a model is asked: the system prompt, or something of the first or second tool
CREATE FUNCTION asked(VARIADIC path text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	sent jsonb;
BEGIN
	PERFORM mw_fake('kept', '{"m": [{"text": "Yes."}]}');
	PERFORM mw_invoke('kept', 's' || gen_random_uuid(), 'When?', agent => 'clerk');
	SELECT body::jsonb INTO sent FROM mw_fake_requests('kept');
	RETURN sent #>> path;
END $$;

SELECT is(asked('messages', '0', 'content'), 'One.', 'the agent is read');
SAVEPOINT one;
SELECT mw_alter_agent('clerk', '{"system_prompt": "Two."}', 'kept');
SELECT is(asked('messages', '0', 'content'), 'Two.', 'a new version of it counts at once');
ROLLBACK TO one;
SELECT is(asked('messages', '0', 'content'), 'One.', 'one that was rolled back does not');
UPDATE mw.agent SET config = config || '{"system_prompt": "By hand."}' WHERE agent = 'clerk';
SELECT is(asked('messages', '0', 'content'), 'By hand.', 'a change by hand does');

SELECT is(asked('tools', '0', 'function', 'description'), NULL, 'the tool has no description');
COMMENT ON FUNCTION app.due IS 'When it is due.';
SELECT is(asked('tools', '0', 'function', 'description'), 'When it is due.', 'a COMMENT is one');
COMMENT ON FUNCTION app.due IS NULL;
SELECT is(asked('tools', '0', 'function', 'description'), NULL, 'and is none any more');
SELECT mw_alter_tool('due', '{"description": "Ours."}', 'kept');
SELECT is(asked('tools', '0', 'function', 'description'), 'Ours.', 'the tool''s row has one');
CREATE OR REPLACE FUNCTION app.due(number integer DEFAULT 17) RETURNS text LANGUAGE sql AS $$ SELECT 'on the fifth' $$;
SELECT is(asked('tools', '0', 'function', 'parameters', 'properties', 'number', 'default'), '17', 'a function that was replaced');
SELECT is(asked('tools', '1', 'function', 'parameters', 'properties', 'much', 'description'), 'CHECK ((VALUE > 0))', 'a type of the user''s');
ALTER DOMAIN app.amount DROP CONSTRAINT amount_check;
SELECT is(asked('tools', '1', 'function', 'parameters', 'properties', 'much', 'description'), NULL, 'that was changed');

ALTER SCHEMA app RENAME TO application;
SELECT throws_ok($$ SELECT asked('messages') $$, 'MW001', 'the function of tool "due" does not exist', 'a function that is not where it was');
ALTER SCHEMA application RENAME TO app;
SELECT lives_ok($$ SELECT asked('messages') $$, 'and is there again');
SELECT mw_drop_agent('clerk', 'kept');
SELECT throws_ok($$ SELECT asked('messages') $$, 'MW001', 'there is no agent "clerk"', 'an agent that was dropped');
SELECT * FROM finish();
ROLLBACK;
