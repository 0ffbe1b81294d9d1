-- Risk: an odd answer that was paid for is lost, cached, taken for a good one, or
-- shows in an error what nobody may see.
BEGIN;
SELECT plan(66);

CREATE SERVER pgtap_answers FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-answers', '{"model": "pgtap_answers:m", "retry": 1}');
CREATE SEQUENCE pg_temp.n;

-- One call that is answered with this body; what became of it
CREATE FUNCTION pg_temp.answer(body text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	code text;
	detail text;
BEGIN
	PERFORM mw_fake('pgtap_answers', jsonb_build_object('*', jsonb_build_array(jsonb_build_object('raw', body))));
	RETURN mw_invoke('pgtap-answers', NULL, 'question ' || nextval('pg_temp.n')) - 'timings';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
	RETURN jsonb_build_object('code', code, 'detail', SQLERRM || ' ' || detail);
END $$;

CREATE FUNCTION pg_temp.completion(message text, finish text = 'stop', usage text = NULL) RETURNS text LANGUAGE sql AS $$
	SELECT format('{"choices": [{"index": 0, "message": %s, "finish_reason": "%s"}]%s}', message, finish, ', "usage": ' || usage)
$$;

CREATE FUNCTION pg_temp.cached() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mw.cache_entries WHERE tenant = 'pgtap-answers' $$;

-- ---------- what is no completion ----------

SELECT is(pg_temp.answer(body)->>'code', 'MW405', 'MW405: ' || left(body, 60))
	FROM unnest(ARRAY['', 'x', 'null', '[]', '"x"', '{}', '{"choices": null}', '{"choices": []}', '{"choices": {}}', '{"choices": [null]}',
		'{"choices": [{}]}', '{"choices": [{"message": null}]}', '{"choices": [{"message": {"content": {"a": 1}}}]}',
		'{"choices": [{"message": {"content": "x", "tool_calls": {}}}]}', '{"choices": [{"message": {"content": "x", "tool_calls": [1]}}]}',
		'{"choices": [{"message": {"tool_calls": [{"id": "a", "function": {}}]}}]}', '{"choices": [{"message": {"content": "cut o',
		repeat('[', 100000), repeat('{"a": ', 1000) || '1' || repeat('}', 1000)]) AS body;
SELECT is(pg_temp.cached(), 0::bigint, 'none of them is cached');
SELECT ok(a->>'detail' LIKE '%id, choices%' AND a->>'detail' NOT LIKE '%hush%', 'the keys are named, not what they hold: ' || (a->>'detail'))
	FROM pg_temp.answer('{"id": "hush", "choices": []}') AS a;
SELECT ok(a->>'detail' LIKE '%502 Bad Gateway%' AND a->>'detail' NOT LIKE '%<%' AND a->>'detail' NOT LIKE '%alert%', 'a page of HTML without its markup: ' || (a->>'detail'))
	FROM pg_temp.answer('<html><head><title>502 Bad Gateway</title><script>alert(1)</script></head><body><h1>nginx</h1></body></html>') AS a;
SELECT is(pg_temp.answer(pg_temp.completion(
		'{"content": null, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{\"path\": \"x\"}"}}]}', 'length'))->>'code',
	'MW405', 'a tool call that was cut off is not used, though what came of it is valid');

-- ---------- an error inside a 200 ----------

SELECT is(pg_temp.answer('{"choices": null, "error": {"message": "m", "code": ' || given || '}}')->>'code', wanted, 'an error of code ' || given || ' inside a 200')
	FROM (VALUES ('429', 'MW402'), ('"429"', 'MW402'), ('500', 'MW402'), ('"insufficient_quota"', 'MW402'), ('401', 'MW401'),
		('"invalid_api_key"', 'MW401'), ('"context_length_exceeded"', 'MW401'), ('"what"', 'MW405')) AS v (given, wanted);
SELECT ok(a->>'detail' NOT LIKE '%abcdefgh%' AND a->>'detail' LIKE '%wrong key%', 'its message, without the key: ' || (a->>'detail'))
	FROM pg_temp.answer('{"error": {"code": 401, "message": "wrong key sk-proj-abcdefgh1234567 Bearer abcdefgh"}}') AS a;

-- ---------- what is one ----------

SELECT is(pg_temp.answer(body)->>'output', wanted, 'text of ' || left(body, 90))
	FROM (VALUES (pg_temp.completion('{"content": "a"}'), 'a'),
		(pg_temp.completion('{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}'), 'ab'),
		(pg_temp.completion('{"content": ["a", {"type": "thinking", "text": "hm"}, {"text": "b"}]}'), 'ab'),
		('{"choices": [{"index": 1, "message": {"content": "one"}}, {"message": {"content": "zero"}, "index": 0}]}', 'zero'),
		('{"choices": [{"message": {"content": "first"}}], "choices": [{"message": {"content": "last"}}]}', 'last'),
		(pg_temp.completion('{"content": "\u0000\ud800 \ud83d\ude00"}'), U&'\FFFD\FFFD \+01F600')) AS v (body, wanted);
SELECT is(pg_temp.cached(), 4::bigint, 'those that ended with stop are cached');
SELECT is((SELECT count(*) FROM unnest(ARRAY['{"content": null}', '{"content": ""}', '{"content": []}', '{"content": null, "reasoning_content": "hm"}']) AS m
		WHERE pg_temp.answer(pg_temp.completion(m))->>'status' = 'completed'),
	4::bigint, 'an empty answer is an answer');
SELECT is(pg_temp.answer(pg_temp.completion('{"content": "cut"}', 'length'))->>'output', 'cut', 'a text that was cut off is one');
SELECT is(pg_temp.answer(pg_temp.completion('{"content": "no", "refusal": "no"}'))->>'output', 'no', 'so is a refusal');
SELECT is(pg_temp.cached(), 4::bigint, 'empty ones, cut ones and refusals are not cached');

-- ---------- usage ----------

SELECT is((SELECT count(*) FROM unnest(ARRAY['null', '[]', '5', '{}', '{"total_tokens": 0}', '{"prompt_tokens": -1, "completion_tokens": 3}',
			'{"prompt_tokens": "5", "completion_tokens": 3}', '{"prompt_tokens": 5.5, "completion_tokens": 3}', '{"prompt_tokens": 1e300, "completion_tokens": 3}',
			'{"prompt_tokens": 0, "completion_tokens": 0}', '{"prompt_tokens": 5, "completion_tokens": 0}']) AS u
		WHERE (pg_temp.answer(pg_temp.completion('{"content": "x"}', usage => u))->'usage'->>'output_tokens')::int > 3),
	11::bigint, 'usage that cannot be is counted anew');
SELECT is(a->'usage'->>'input_tokens' || ' ' || (a->'usage'->>'output_tokens'), '70 1000', 'usage that can be is taken')
	FROM pg_temp.answer(pg_temp.completion('{"content": "x"}', usage => '{"prompt_tokens": 70, "completion_tokens": 1000,
		"completion_tokens_details": {"reasoning_tokens": 950}}')) AS a;
SELECT is(a->'usage'->>'output_tokens', '60', 'reasoning that is counted beside the completion counts')
	FROM pg_temp.answer(pg_temp.completion('{"content": "x"}', usage => '{"prompt_tokens": 7, "completion_tokens": 10, "total_tokens": 67,
		"completion_tokens_details": {"reasoning_tokens": 50}}')) AS a;
CREATE FUNCTION pg_temp.cached_of(details text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE id text;
BEGIN
	id := pg_temp.answer(pg_temp.completion('{"content": "x"}', usage => '{"prompt_tokens": 7, "completion_tokens": 1, "prompt_tokens_details": ' || details || '}'))->>'request_id';
	RETURN (SELECT cached_tokens FROM mw.ledger WHERE tenant = 'pgtap-answers' AND request_id = id);
END $$;
SELECT is(pg_temp.cached_of(details), wanted, 'of a prompt no more was cached than it has, and no less than nothing: ' || details)
	FROM (VALUES ('{}', 0::bigint), ('{"cached_tokens": 4}', 4), ('{"cached_tokens": 400}', 7), ('{"cached_tokens": -4}', 0)) AS v (details, wanted);

-- what stands behind a translator of another vendor's figures: thoughts are in the total alone
SELECT is(a->'usage'->>'input_tokens' || ' ' || (a->'usage'->>'output_tokens'), wanted, 'a total counts what its halves leave out: ' || usage)
	FROM (VALUES ('{"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623}', '20 603'),
		('{"prompt_tokens": 21, "completion_tokens": 0, "total_tokens": 81, "completion_tokens_details": {"reasoning_tokens": 60}}', '21 60'),
		('{"prompt_tokens": 21, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 60}}', '21 69'),
		('{"prompt_tokens": 21, "completion_tokens": 9, "total_tokens": 30, "completion_tokens_details": {"reasoning_tokens": 60}}', '21 9'),
		('{"prompt_tokens": 21, "completion_tokens": 9, "total_tokens": 7}', '21 9')) AS v (usage, wanted),
		pg_temp.answer(pg_temp.completion('{"content": "x"}', usage => usage)) AS a;

-- ---------- arguments of tool calls ----------

CREATE FUNCTION pg_temp.arguments(given text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT pg_temp.answer(pg_temp.completion('{"content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f"' || given || '}}]}', 'tool_calls'))
$$;
SELECT is(a->'tool_calls'->0->'args', wanted, 'arguments' || given)
	FROM (VALUES ('', '{}'::jsonb), (', "arguments": ""', '{}'), (', "arguments": " "', '{}'), (', "arguments": null', '{}'),
		(', "arguments": "{\"a\": 1, \"a\": 2}"', '{"a": 2}'), (', "arguments": {"b": [1, "}"]}', '{"b": [1, "}"]}')) AS v (given, wanted),
		pg_temp.arguments(given) AS a;
-- what is no object is neither lost nor offered as a call: who asked sees what the model wrote
SELECT is(jsonb_build_object('calls', a->'tool_calls', 'args', a#>'{messages,-1,invalid_tool_calls,0,args}'), jsonb_build_object('calls', '[]'::jsonb, 'args', wanted), 'invalid arguments' || given)
	FROM (VALUES (', "arguments": "{\"a\": 1"', '{"a": 1'), (', "arguments": "[1]"', '[1]'), (', "arguments": "not json"', 'not json'),
		(', "arguments": "{\"a\": \"\n\"}"', E'{"a": "\n"}'), (', "arguments": 7', '7')) AS v (given, wanted),
		pg_temp.arguments(given) AS a;

SELECT * FROM finish();
ROLLBACK;
