-- 06_stack.sql: the usual three: limits, a summary of long threads, and retries of tools.
--
--   psql -Xd yourdb -f examples/agents/06_stack.sql
--
-- Needs mw and, for the checks, pgtap.  A fake server answers, nobody is called, and all of it rolls back.

\set ON_ERROR_STOP on
\set QUIET on
BEGIN;
SELECT plan(8);

CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('acme');

-- ---------- two tools, one of which fails at first ----------

CREATE SEQUENCE fetched;
CREATE FUNCTION search(query text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'three pages about ' || query $$;
CREATE FUNCTION fetch_page(url text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF pg_catalog.nextval('public.fetched') = 1 THEN
		RAISE EXCEPTION 'the site does not answer';
	END IF;
	RETURN 'Tea is a drink.';
END
$$;
SELECT mw_create_tool('search', 'search(text)', 'Search the web.', tenant => 'acme');
SELECT mw_create_tool('fetch_page', 'fetch_page(text)', 'Fetch a page.', options => '{"writes": true}', tenant => 'acme');

-- ---------- the agent ----------

-- thread_limit counts over all runs of a session, run_limit within one; the options are LangChain Python's
SELECT mw_create_agent('reader', '{
	"model": "double:m",
	"tools": ["search", "fetch_page"],
	"middleware": [
		{"type": "model_call_limit", "thread_limit": 20, "run_limit": 4},
		{"type": "summarization", "model": "double:summary", "trigger": {"messages": 8}, "keep": {"messages": 2}},
		{"type": "tool_retry", "max_retries": 3, "initial_delay": 0.001, "jitter": false}]
}', 'acme');

-- ---------- what it does ----------

SELECT mw_fake('double', '{"m": [
	{"tool_calls": [{"id": "c1", "name": "search", "arguments": {"query": "tea"}}]},
	{"tool_calls": [{"id": "c2", "name": "fetch_page", "arguments": {"url": "tea.example"}}]},
	{"text": "Tea is a drink."}]}');
SELECT is(mw_ask('acme', 's1', 'What is tea?', agent => 'reader'), 'Tea is a drink.', 'two tools, one of them tried twice');
SELECT is((SELECT last_value FROM fetched), 2::bigint, 'the page was fetched again by mw, not by the model');
SELECT is((SELECT count(*) FROM mw_messages('acme', 's1')), 6::bigint, 'the thread has six messages');

-- a loop is stopped at the run's limit, and says so
SELECT mw_fake('double', '{"m": [{"tool_calls": [{"name": "search", "arguments": {"query": "tea"}}], "repeat": 9}]}');
CREATE TEMPORARY TABLE looped AS SELECT mw_invoke('acme', 's2', 'Search for ever.', agent => 'reader') AS r;
SELECT is(r->>'output', 'Model call limits exceeded: run limit (4/4)', 'an endless loop ends after four calls') FROM looped;
SELECT is((SELECT count(*) FROM mw_fake_requests('double')), 4::bigint, 'of which four were sent');

-- the ninth message lets a summary take the place of what is old
SELECT mw_fake('double', '{"summary": [{"text": "They spoke about tea."}], "m": [{"text": "A cup."}, {"text": "Green."}]}');
SELECT is(mw_ask('acme', 's1', 'How much of it?', agent => 'reader'), 'A cup.', 'seven messages are sent as they are');
SELECT is(mw_ask('acme', 's1', 'Which one?', agent => 'reader'), 'Green.', 'nine are not');
SELECT is(
	(SELECT count(*) FROM mw_fake_requests('double') WHERE body::text LIKE '%They spoke about tea.%'),
	1::bigint, 'the model was given the summary');

SELECT * FROM finish();
ROLLBACK;
