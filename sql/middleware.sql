-- Risk: a slip in a list of tools is not noticed, or is told at each run.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
\set VERBOSITY terse
BEGIN;
CREATE SERVER one FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('mid');
CREATE SCHEMA mid;
CREATE FUNCTION mid.search(q text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT q $$;
SELECT mw_create_tool('search', 'mid.search(text)', 'Search.', tenant => 'mid');
-- names of its own tools, of those that a middleware brings, and of none
SELECT mw_create_agent('a', '{"model": "one:m", "tools": ["search", {"type": "function", "function": {"name": "ask_user", "parameters": {"type": "object"}}}], "middleware": [
	{"type": "todo_list"},
	{"type": "tool_call_limit", "tool_name": "serach", "run_limit": 1},
	{"type": "tool_retry", "tools": ["search", "ask_user", "write_todos", "fetch"]},
	{"type": "tool_error", "on_error": {"message": "x"}, "tools": ["search"]}]}', 'mid');
SELECT mw_alter_agent('a', '{"system_prompt": "Be brief."}', 'mid');
SELECT mw_fake('one', '{"m": [{"text": "done"}]}');
SELECT mw_ask('mid', 's', 'go', agent => 'a');
-- a name in the agent's own list that nobody has: refused when it is written, not at the first run
SELECT mw_create_agent('everybodys', '{"model": "one:m", "tools": ["search"]}');
\set VERBOSITY default
SAVEPOINT a;
SELECT mw_create_agent('b', '{"model": "one:m", "tools": ["search", "serach"]}', 'mid');
ROLLBACK TO a;
SELECT mw_alter_agent('a', '{"tools": ["serach"]}', 'mid');
ROLLBACK TO a;
SELECT mw_create_tenant('mid2');
SELECT mw_create_agent('b', '{"model": "one:m", "tools": ["search"]}', 'mid2');
ROLLBACK;
