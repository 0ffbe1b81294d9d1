-- Risk: a prompt that is counted below what the provider's chat template makes of it, so that its bill is above its
-- reservation.  Judged without the guardrail's wrapper, which hides it, and on texts of one token in each vocabulary.
BEGIN;
SELECT plan(24);

CREATE SERVER pgtap_count FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('pgtap-count', '{"model": "pgtap_count:m", "guardrail": false, "redact": false}');

-- tokens of the templates' own, counted by hand: around each message, and once (the head of the answer, a mark of the beginning)
CREATE TEMPORARY TABLE templates (name text, each integer, once integer);
INSERT INTO templates VALUES
	('ChatML (Qwen, SmolLM2)', 5, 3),	-- <|im_start|> role \n … <|im_end|> \n; <|im_start|> assistant \n
	('Llama 3', 5, 5),					-- <|start_header_id|> role <|end_header_id|> \n\n … <|eot_id|>; the same but for the last, <|begin_of_text|>
	('Gemma', 5, 4),					-- <start_of_turn> role \n … <end_of_turn> \n; <start_of_turn> model \n, <bos>
	('OpenAI', 4, 3),					-- as its cookbook counts them
	('Phi 3', 4, 3),					-- <|user|> \n … <|end|> \n; <|assistant|> \n, <s>
	('Mistral', 2, 1);					-- [INST] … [/INST]; <s>

CREATE FUNCTION pg_temp.counted(n integer, word text) RETURNS integer LANGUAGE sql AS $$
	SELECT (detail->>'prompt_tokens')::integer FROM mw_explain('pgtap-count', NULL, word,
		messages => (SELECT jsonb_agg(jsonb_build_object('role', CASE i % 2 WHEN 1 THEN 'user' ELSE 'assistant' END, 'content', word)) FROM generate_series(1, n - 1) AS i))
	WHERE stage = 'budget'
$$;
SELECT cmp_ok(pg_temp.counted(n, word), '>=', t.once + n * (t.each + 1), format('%s: %s message(s) of one token, "%s"', t.name, n, word))
FROM templates AS t CROSS JOIN (VALUES (1, 'I'), (1, 'hi'), (3, 'a'), (21, 'no')) AS x(n, word);

SELECT * FROM finish();
ROLLBACK;
