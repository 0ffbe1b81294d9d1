-- Risk: what is typed for a decision is taken for another one, stored in part, or breaks something; what a model wrote misleads
-- whoever looks at it, on the page or in psql.
BEGIN;
SELECT plan(86);

CREATE SERVER pgtap_input FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-input', '{"cache": false, "retry": {"max_attempts": 1}, "guardrail": false, "redact": false}');
SELECT mw_set_budget('pgtap-input', 'tokens', 'Infinity', session => '*');
CREATE SCHEMA input;
CREATE TABLE input.sent (what text);
CREATE FUNCTION input.send(what text, n numeric DEFAULT 0) RETURNS text LANGUAGE sql AS $$ INSERT INTO input.sent VALUES (what); SELECT 'sent ' || length(what) $$;
SELECT mw_create_tool('send', 'input.send(text, numeric)', options => '{"writes": true}', tenant => 'pgtap-input');
CREATE FUNCTION pg_temp.agent(name text, more jsonb) RETURNS void LANGUAGE sql AS $$
	SELECT mw_create_agent(name, jsonb_build_object('model', 'pgtap_input:m', 'tools', '["send"]'::jsonb,
		'middleware', jsonb_build_array('{"type": "human_in_the_loop", "interrupt_on": {"send": true}}'::jsonb || more)), 'pgtap-input') $$;
SELECT pg_temp.agent('batched', '{}');
SELECT pg_temp.agent('each', '{"interrupt_mode": "per_call"}');
CREATE FUNCTION pg_temp.pause(agent text, s text, VARIADIC texts text[]) RETURNS text LANGUAGE sql AS $$
	SELECT mw_fake('pgtap_input', jsonb_build_object('m', jsonb_build_array(
		jsonb_build_object('tool_calls', (SELECT jsonb_agg(jsonb_build_object('id', 'c' || n, 'name', 'send', 'arguments', jsonb_build_object('what', t)) ORDER BY n)
			FROM unnest(texts) WITH ORDINALITY AS u(t, n))), '{"text": "done"}'::jsonb)));
	SELECT mw_invoke('pgtap-input', s, 'go', agent => agent) ->> 'status' $$;
-- what these decisions are answered with: SQLSTATE and message, or the decisions that are stored
CREATE FUNCTION pg_temp.says(s text, decisions text, id text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(d.status || ' ' || (d.decisions -> -1 -> 'decision')::text, ', ' ORDER BY d.place)
		FROM mw_decide('pgtap-input', s, decisions::jsonb, interrupt_id => id) AS d);
EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION pg_temp.rows(s text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', tool_call_id, status, jsonb_array_length(decisions)), ', ' ORDER BY requested_at, tool_call_id) FROM mw.interrupt WHERE tenant = 'pgtap-input' AND session = s $$;

-- ---------- what is no answer ----------

SELECT is(pg_temp.pause('batched', 'b', 'one', 'two'), 'interrupted', 'a batch of two waits');
SELECT is(pg_temp.pause('each', 'e', 'one', 'two'), 'interrupted', 'two calls wait by themselves');
SELECT matches(pg_temp.says(s, d), answer, s || ': ' || coalesce(left(d, 60), 'NULL'))
FROM unnest(ARRAY['b', 'e']) AS s, (VALUES
	('approve', '^22P02'),
	('', '^22P02'),
	('{"decisions": [{"type": "approve"}', '^22P02'),
	(NULL, '^MW602'),
	('null', '^MW602'),
	('1', '^MW602'),
	('"approve"', '^MW602'),
	('[]', '^MW602'),
	('[{"type": "approve"}]', '^MW602'),
	('{}', '^MW602'),
	('{"decisions": null}', '^MW602'),
	('{"decisions": []}', '^MW602'),
	('{"decisions": {"type": "approve"}}', '^MW602'),
	('{"decisions": [{"type": "approve"}]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, null]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, "approve"]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, {}]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, {"type": 1}]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, {"type": "respond"}]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, {"type": "reject", "message": 7}]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, {"type": "edit"}]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, {"type": "edit", "edited_action": {"name": "send", "args": []}}]}', '^MW602'),
	('{"decisions": [{"type": "approve"}, {"type": "edit", "edited_action": {"name": 1, "args": {}}}]}', '^MW602')) AS v(d, answer);
SELECT is(pg_temp.rows('b') || '; ' || pg_temp.rows('e'), 'c1 open 0, c2 open 0; c1 open 0, c2 open 0', 'nothing of that is stored');
SELECT matches(pg_temp.says('e', (SELECT jsonb_object_agg(k, '{"type": "approve"}'::jsonb)::text FROM (SELECT 'c1' UNION ALL SELECT interrupt_id FROM mw.interrupt WHERE session = 'e' AND tool_call_id = 'c1') AS u(k))),
	'^MW602 there are two answers', 'one call by both of its names');
SELECT matches(pg_temp.says('b', (SELECT jsonb_build_object('decisions', jsonb_agg('{"type": "approve"}'::jsonb))::text FROM generate_series(1, 1000))), '^MW602 Number of human decisions \(1000\)', '1,000 for two calls');
SELECT matches(pg_temp.says('e', (SELECT jsonb_object_agg('c' || n, '{"type": "approve"}'::jsonb)::text FROM generate_series(1, 1000) AS n)), '^MW602 no interrupt and no call with the id', '1,000 for two calls by name');
SELECT is(pg_temp.rows('b') || '; ' || pg_temp.rows('e'), 'c1 open 0, c2 open 0; c1 open 0, c2 open 0', 'nothing of that is stored either');
SELECT is(pg_temp.says('e', '{"c1": {"type": "approve", "message": "why not", "extra": [1, 2], "edited_action": {"name": "send", "args": {"what": "other"}}}}'),
	'decided {"type": "approve", "message": "why not"}', 'what does not belong to a decision is not kept with it');
SELECT throws_ok($$SELECT mw_decide(NULL, 'e', '{"c2": {"type": "approve"}}')$$, 'MW001', NULL, 'no tenant');
SELECT matches(pg_temp.says('', '{"c2": {"type": "approve"}}'), '^MW603', 'no session of that name');
SELECT matches(pg_temp.says('e', '{"c2": {"type": "approve"}}', 'no such'), '^MW603', 'no interrupt of that name');
SELECT mw_resume('pgtap-input', 'e', '{"c2": {"type": "reject"}}') \g /dev/null
SELECT matches(pg_temp.says('e', '{"c2": {"type": "approve"}}'), '^MW603', 'a run that ended');
SELECT is((SELECT string_agg(what, ',') FROM input.sent), 'one', 'the call that was approved has run as it was');

-- ---------- large, and not what it seems ----------

SELECT is(pg_temp.pause('batched', 'large', repeat('<script>alert(1)</script>' || U&'\202E' || chr(27) || '[2J', 30000)), 'interrupted', 'arguments of 1 MB with markup, another direction and control characters');
SELECT is((SELECT count(*)::int FROM mw.inbox WHERE session = 'large' AND (mw.visible(args::text) || description) ~ U&'[\0001-\0008\000b-\001f\007f-\009f\200b-\200f\202a-\202e\2066-\2069]'), 0, 'the inbox shows nothing that is not seen or turns the direction');
SELECT is((SELECT count(*)::int FROM mw.interrupt WHERE tenant = 'pgtap-input' AND session = 'large' AND args ->> 'what' ~ U&'\202E'), 1, 'what will run is as it was asked for');
SELECT is((SELECT count(*)::int FROM regexp_matches(mw_inbox_html('pgtap-input'), U&'<script>alert|[\0001-\0008\000b-\001f\007f-\009f\202a-\202e]', 'g')), 0, 'nor does the page, and its markup is the page''s');
SELECT is(left(pg_temp.says('large', jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('type', 'edit', 'edited_action',
	jsonb_build_object('name', 'send', 'args', jsonb_build_object('what', repeat('x', 1000000))))))::text), 7), 'decided', 'an edit of 1 MB');
SELECT mw_resume('pgtap-input', 'large') \g /dev/null
SELECT is((SELECT max(length(what)) FROM input.sent), 1000000, 'is what runs');

-- ---------- notes and edits that are meant to break something ----------

SELECT pg_temp.pause('batched', 'note', 'x') \g /dev/null
SELECT lives_ok($$SELECT mw_decide('pgtap-input', 'note', '{"decisions": [{"type": "reject", "message": ""}]}', comment => repeat('<img src=x>' || U&'\202E\0007' || chr(27) || '[2J', 60000))$$, 'a note of 1 MB with markup, another direction and control characters');
SELECT is((SELECT length(detail ->> 'comment') FROM mw.approval_log WHERE tenant = 'pgtap-input' AND session = 'note' AND event = 'decided'), 60000 * 17, 'is in the log as it is');
SELECT ok(page !~ U&'<img|[\0001-\0008\000b-\001f\202a-\202e]', 'and harmless on the page')
FROM (SELECT mw_inbox_html('pgtap-input', interrupt_id => (SELECT interrupt_id FROM mw.interrupt WHERE tenant = 'pgtap-input' AND session = 'note')) AS page) AS p;
SELECT pg_temp.pause('batched', 'deep', 'x') \g /dev/null
SELECT matches(pg_temp.says('deep', format('{"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"what": %s}}}]}', repeat('[', 3000) || repeat(']', 3000))), '^decided', 'an edit of 3,000 arrays in each other');
SELECT is(mw_resume('pgtap-input', 'deep') ->> 'status', 'completed', 'is no text, as the model is told');
SELECT pg_temp.pause('batched', 'many', VARIADIC array_agg('m' || n)) FROM generate_series(1, 1000) AS n \g /dev/null
SELECT is(length(regexp_replace(pg_temp.says('many', (SELECT jsonb_build_object('decisions', jsonb_agg(CASE WHEN n % 2 = 0 THEN '{"type": "approve"}' ELSE '{"type": "reject"}' END::jsonb ORDER BY n))::text FROM generate_series(1, 1000) AS n)), '[^,]', '', 'g')), 999, '1,000 decisions for 1,000 calls');
SELECT is((SELECT count(*)::int FROM input.sent WHERE what ~ '^m'), 0, 'run nothing by themselves');
SELECT mw_resume('pgtap-input', 'many') \g /dev/null
SELECT is((SELECT string_agg(what, ',' ORDER BY length(what), what) FROM input.sent WHERE what ~ '^m'), (SELECT string_agg('m' || n, ',' ORDER BY length('m' || n), 'm' || n) FROM generate_series(2, 1000, 2) AS n), 'and let through those that they approve, once each');
-- ---------- LangGraph's map of answers by interrupt ----------

CREATE FUNCTION pg_temp.by_interrupt(s text, answer jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT jsonb_object_agg(interrupt_id, answer)::text FROM (SELECT DISTINCT interrupt_id FROM mw.interrupt WHERE tenant = 'pgtap-input' AND session = s AND status = 'open') AS i $$;
SELECT pg_temp.pause('batched', 'm1', 'one');
SELECT matches(pg_temp.says('m1', pg_temp.by_interrupt('m1', '{"decisions": [{"type": "approve"}, {"type": "approve"}]}')), '^MW602 Number of human decisions', 'by interrupt: two for one call');
SELECT matches(pg_temp.says('m1', pg_temp.by_interrupt('m1', '{"decisions": []}')), '^MW602 Number of human decisions', 'by interrupt: none for one call');
SELECT matches(pg_temp.says('m1', '{"c1": {"decisions": [{"type": "approve"}]}}'), '^MW602', 'a list is an interrupt''s answer, no call''s');
SELECT is(pg_temp.says('m1', pg_temp.by_interrupt('m1', '{"decisions": [{"type": "approve"}]}')), 'decided {"type": "approve"}', 'by interrupt: a batch of one');
SELECT pg_temp.pause('batched', 'm2', 'one', 'two');
SELECT matches(pg_temp.says('m2', (pg_temp.by_interrupt('m2', '{"decisions": [{"type": "approve"}, {"type": "reject"}]}')::jsonb || '{"c1": {"type": "reject"}}')::text),
	'^MW602 there are two answers', 'a batch by its interrupt, and one of its calls');
SELECT matches(pg_temp.says('m2', (pg_temp.by_interrupt('m2', '{"decisions": [{"type": "approve"}, {"type": "reject"}]}')::jsonb || ('{"' || repeat('c', 60) || '": {"type": "reject"}}')::jsonb)::text),
	'^MW602 no interrupt and no call', '... and one that there is not');
SELECT is(pg_temp.rows('m2'), 'c1 open 0, c2 open 0', 'nothing of that is stored');
SELECT is(pg_temp.says('m2', pg_temp.by_interrupt('m2', '{"decisions": [{"type": "approve"}, {"type": "reject"}]}')), 'decided {"type": "approve"}, decided {"type": "reject"}', 'by interrupt: a batch of two');
SELECT pg_temp.pause('each', 'm3', 'one', 'two');
SELECT is(pg_temp.says('m3', pg_temp.by_interrupt('m3', '{"decisions": [{"type": "approve"}]}')), 'decided {"type": "approve"}, decided {"type": "approve"}', 'by interrupt: calls that wait by themselves');

-- ---------- an edit onto a tool that the call gates ----------

CREATE FUNCTION input.wipe(what text) RETURNS text LANGUAGE sql AS $$ INSERT INTO input.sent VALUES ('wiped ' || what); SELECT 'wiped' $$;
SELECT mw_create_tool('wipe', 'input.wipe(text)', options => '{"writes": true}', tenant => 'pgtap-input');
SELECT mw_alter_agent('batched', '{"tools": ["send", "wipe"]}', 'pgtap-input');
SELECT mw_fake('pgtap_input', '{"m": [{"tool_calls": [{"id": "c1", "name": "send", "arguments": {"what": "one"}}]}, {"text": "done"}]}');
SELECT is(mw_invoke('pgtap-input', 'g1', 'go', agent => 'batched', options => '{"interrupt_on": {"wipe": true}}') ->> 'status', 'interrupted', 'a call that gates one more tool');
SELECT matches(pg_temp.says('g1', '{"decisions": [{"type": "edit", "edited_action": {"name": "wipe", "args": {"what": "all"}}}]}'), '^MW602 .*needs an approval of its own', 'an edit does not get round a gate of the call''s');
SELECT throws_ok($$SELECT mw_resume('pgtap-input', 'g1', '{"decisions": [{"type": "edit", "edited_action": {"name": "wipe", "args": {"what": "all"}}}]}')$$, 'MW602', NULL, '... nor with the resume');
SELECT is(pg_temp.rows('g1'), 'c1 open 0', '... and it waits as before');

SELECT * FROM finish();
ROLLBACK;
