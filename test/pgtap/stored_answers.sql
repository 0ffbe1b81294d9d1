-- Risk: a hit is read by a shorter way than a miss; it hands out another text.
BEGIN;
SELECT plan(3);

CREATE SERVER pgtap_stored FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-stored', '{"model": "pgtap_stored:m", "retry": 1}');
CREATE SEQUENCE pg_temp.n;

-- The answer when it comes, and when it comes again
CREATE FUNCTION pg_temp.twice(body text, OUT first jsonb, OUT again jsonb) LANGUAGE plpgsql AS $$
DECLARE
	question text := 'question ' || nextval('pg_temp.n');
BEGIN
	PERFORM mw_fake('pgtap_stored', jsonb_build_object('*', jsonb_build_array(jsonb_build_object('raw', body))));
	first := mw_invoke('pgtap-stored', NULL, question);
	PERFORM mw_fake('pgtap_stored', '{"*": [{"text": "never"}]}');
	again := mw_invoke('pgtap-stored', NULL, question);
END $$;

CREATE TEMP TABLE body (body text);
-- texts
INSERT INTO body SELECT format('{"choices": [{"index": 0, "message": {"role": "assistant", "content": "%s"}, "finish_reason": "stop"}]}', t)
	FROM unnest(ARRAY['a', '\"', '\\', '\\\"', 'a\\', '\/\b\f\n\r\t', '\u0041', '\u00e9\u20ac', '\u00E9', '\ud83d\ude00', 'x\ud83dx', '\u0000', 'é€😀',
		'a\u0041\n\"\\u0041', '} ] , : {', ' a ', repeat('\\', 999), repeat('\"', 999), repeat('a\n', 9999)]) AS t
	UNION ALL VALUES ('{"choices": [{"message": {"content": "\",\"content\":\"b"}, "finish_reason": "stop"}]}');
-- shapes
INSERT INTO body VALUES
	('{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}'),
	(E' \n{ "choices" \t: [ { "finish_reason" : "stop" , "message" : { "content" : "a" , "role" : "assistant" } } ] , "x" : 1 } \r\n'),
	('{"id": "x", "a": {"choices": [{"message": {"content": "no"}}]}, "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}'),
	('{"choices": [{"message": {"content": "no"}, "finish_reason": "stop"}], "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": "no"}, "message": {"content": "yes"}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": "no", "content": "yes"}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": "no", "\u0063ontent": "yes"}, "finish_reason": "stop"}]}'),
	('{"choices": [{"index": 1, "message": {"content": "no"}, "finish_reason": "stop"}, {"index": 0, "message": {"content": "yes"}, "finish_reason": "stop"}]}'),
	('{"choices": [{"index": 7, "message": {"content": "yes"}, "finish_reason": "stop"}]}'),
	('{"choices": [{"finish_reason": "length", "message": {"content": "yes"}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": [{"type": "text", "text": "ye"}, {"text": "s"}]}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": "yes", "tool_calls": null, "refusal": null, "annotations": []}, "logprobs": null, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": "yes", "tool_calls": []}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": "yes", "tool_calls": [ ]}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"content": "yes", "reasoning": {"content": "no", "a": [1, {"b": "]}"}, -1e5, true]}}, "finish_reason": "stop"}]}'),
	('{"choices": [{"message": {"": "", "content": "yes"}, "": {}, "finish_reason": "stop"}], "": []}');

CREATE TEMP TABLE got AS SELECT b.body, t.* FROM body AS b, pg_temp.twice(b.body) AS t;
SELECT is((SELECT count(*) FROM got WHERE first->>'cache' = 'miss' AND again->>'cache' = 'hit'), (SELECT count(*) FROM body), 'each is a miss and then a hit');
SELECT is_empty('SELECT body, first->>''output'', again->>''output'' FROM got
	WHERE first->''output'' IS DISTINCT FROM again->''output'' OR first->''messages'' IS DISTINCT FROM again->''messages''', 'both say the same');
SELECT is_empty('SELECT body, again->>''output'' FROM got WHERE body LIKE ''%no"%'' AND again->>''output'' <> ''yes''', 'and that is what the last of equal keys says');

SELECT * FROM finish();
ROLLBACK;
