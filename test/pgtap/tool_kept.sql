-- The function of a tool and the plan of its call are kept.  They must never be older than the function, nor another role's.
BEGIN;
SELECT plan(13);
CREATE SERVER kepttool FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('kepttool', '{"model": "kepttool:m", "redact": false, "guardrail": false, "cache": false}');
CREATE SCHEMA kepttool;
CREATE FUNCTION kepttool.due(number integer, day text DEFAULT 'fourth', month text DEFAULT 'May') RETURNS text LANGUAGE sql
	AS $$ SELECT number || ' on the ' || day || ' of ' || month $$;
CREATE FUNCTION kepttool.mend(much text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE OR REPLACE FUNCTION kepttool.due(number integer, day text DEFAULT ''fourth'', month text DEFAULT ''May'') RETURNS text LANGUAGE sql AS %L',
		format('SELECT %L', much));
	RETURN 'mended';
END $$;
SELECT mw_create_tool('due', 'kepttool.due', tenant => 'kepttool');
SELECT mw_create_tool('mend', 'kepttool.mend', options => '{"writes": true}', tenant => 'kepttool');
SELECT mw_create_agent('clerk', '{"tools": ["due", "mend"]}', 'kepttool');

SELECT is(mw_call_tool('kepttool', 'due', '{"number": 1}') ->> 'content', '1 on the fourth of May', 'one argument');
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 2, "month": "June"}') ->> 'content', '2 on the fourth of June', 'two of three');
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 3, "day": "fifth"}') ->> 'content', '3 on the fifth of May', 'two others');
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 4, "month": "July", "day": "sixth"}') ->> 'content', '4 on the sixth of July', 'all');
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 5, "month": "June"}') ->> 'content', '5 on the fourth of June', 'two of three again, with other values');

SAVEPOINT one;
CREATE OR REPLACE FUNCTION kepttool.due(number integer, day text DEFAULT 'fifth', month text DEFAULT 'May') RETURNS text LANGUAGE sql
	AS $$ SELECT 'on the ' || day $$;
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 1}') ->> 'content', 'on the fifth', 'a function that was replaced');
ROLLBACK TO one;
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 1}') ->> 'content', '1 on the fourth of May', 'and was not after all');

-- in one run, by an earlier call of it
SELECT mw_fake('kepttool', '{"m": [{"tool_calls": [{"id": "c1", "name": "due", "arguments": {"number": 1}}]},
	{"tool_calls": [{"id": "c2", "name": "mend", "arguments": {"much": "at once"}}]},
	{"tool_calls": [{"id": "c3", "name": "due", "arguments": {"number": 1}}]}, {"text": "done"}]}');
SELECT is(mw_ask('kepttool', 's1', 'When?', agent => 'clerk'), 'done', 'a run whose tool replaces another');
SELECT is((SELECT array_agg(message ->> 'content' ORDER BY position) FROM mw.thread WHERE tenant = 'kepttool' AND message ->> 'role' = 'tool'),
	ARRAY['1 on the fourth of May', 'mended', 'at once'], 'sees the new one');

-- by another role
CREATE ROLE kepttool_clerk;
SELECT mw_grant_tenant('kepttool', 'kepttool_clerk');
GRANT USAGE ON SCHEMA kepttool TO kepttool_clerk;
GRANT USAGE ON FOREIGN SERVER kepttool TO kepttool_clerk;
ALTER SCHEMA kepttool OWNER TO kepttool_clerk;
SET ROLE kepttool_clerk;
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 1}') ->> 'content', 'at once', 'a role that may run it');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION kepttool.due FROM PUBLIC;
SET ROLE kepttool_clerk;
SELECT throws_ok($$ SELECT mw_call_tool('kepttool', 'due', '{"number": 1}') $$, '42501', NULL, 'and may not any more');
RESET ROLE;
SELECT is(mw_call_tool('kepttool', 'due', '{"number": 1}') ->> 'content', 'at once', 'whoever owns it still may');
DROP FUNCTION kepttool.due;
SELECT throws_ok($$ SELECT mw_call_tool('kepttool', 'due', '{"number": 1}') $$, 'MW001', NULL, 'nobody, when it is gone');
SELECT * FROM finish();
ROLLBACK;
