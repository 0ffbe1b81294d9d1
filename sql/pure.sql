-- Risk: a text function whose answer differs from what it promises: the seed's cache key by a
-- byte, a count below what a provider bills, the text of a message in another shape.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;

-- ---------- the seed's key: the values are Python's, by hashlib.blake2b and json.dumps ----------
SELECT mw_seed_cache_key('notes', NULL, 'T1') = 'bd7976a44afc3ac5156679769b524651' AS none,
	mw_seed_cache_key('notes', '[]', 'T1') = 'bd7976a44afc3ac5156679769b524651' AS empty,
	mw_seed_cache_key('notes', NULL, 'T2') <> mw_seed_cache_key('notes', NULL, 'T1') AS "P24",
	mw_seed_cache_key('p', '[{"name": "search"}]', 'T') <> mw_seed_cache_key('p', '[{"name": "code_exec"}]', 'T') AS "P61";
SELECT i, mw_seed_cache_key(prompt, tools::jsonb, tenant) = key FROM (VALUES
	(0, 'p', '[{"name": "search"}]', 'T', 'bf31a892c28a1ee1fc5105cefbb0e446'),
	(1, 'Ticket from <EMAIL_0>', '[{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {"b": {"type": "string"}, "aa": {"type": "integer"}}, "required": ["b"]}}}]', 'acme', 'a2a01b7735f28894d178ef54c5e02ec9'),
	(2, 'ünï 😀 x', '[{"é": "ü", "z": "😀", "ß": 1, "a": "\u007f\u0001\"\\/\n\t\b\f\r"}]', 'tenänt', '25d8c270ecc97140cedc7e2d8f2e738c'),
	(3, '', '[1, 1.5, 1.50, -0.25, 0.0, 1.0, 100, 12345678901234567890, true, false, null, [], {}, ""]', 'T', '90c5d260969c2fb5fe6877648291515d'),
	(4, 'p', '{"a": {"bb": 1, "b": 2, "B": 3, "\uff5e": 4, "\ud83d\ude00": 5}}', 'T', 'bcbda93b486749fa8a207002c519ea7e'),
	(5, 'p', '"x"', 'T', 'c1ed63fdc831042aaa6c5db574bc49dd'),
	(6, 'p', '0', 'T', '282b324f619a52cfdc0cb8dc0f72caaf'),
	(7, 'p', 'false', 'T', '282b324f619a52cfdc0cb8dc0f72caaf'),
	(8, 'p', '{}', 'T', '282b324f619a52cfdc0cb8dc0f72caaf'),
	(9, 'p', '0.00', 'T', '282b324f619a52cfdc0cb8dc0f72caaf')) AS x(i, prompt, tools, tenant, key);
SELECT mw_seed_cache_key(NULL, NULL, 'T'), mw_seed_cache_key('p', NULL, NULL);

-- ---------- the text of a message ----------
SELECT mw_text(m::jsonb) FROM (VALUES
	('{"role": "user", "content": "plain"}'),
	('{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "two"}]}'),
	('{"role": "assistant", "content": null, "tool_calls": []}'),
	('"content alone"'), ('[{"text": "parts alone"}]'), ('{"text": "a part"}'), ('["strings"]'), ('5'), ('null')) AS x(m);

-- ---------- tokens: never less than common tokenizers need ----------
-- what o200k and cl100k make of them at most
SELECT t, mw_count_tokens(t), mw_count_tokens(t) >= least_n FROM (VALUES
	('', 0), ('Hello, world!', 4), ('The quick brown fox jumps over the lazy dog.', 10), ('antidisestablishmentarianism', 6),
	('1234567890', 4), ('   ', 1), ('中文测试', 6), ('Привет, мир', 6), ('{"a":[1,2,{"b":null}]}', 14), (U&'\+01F600', 3)) AS x(t, least_n);
SELECT mw_count_tokens(repeat('x ', 500000)) BETWEEN 500000 AND 1500000, mw_count_tokens('a', 'any:model'), mw_count_tokens(NULL);


-- ---------- texts of middlewares: what is put into them has its place, once, and nothing else looks like one ----------
SELECT name, length(value) > 50 AS a_text, value = btrim(value, E' \n\t') AS no_space_around, regexp_matches(value, '\{[^}]*\}|%\w', 'g') AS place
FROM mw.default_texts() ORDER BY name, place;
SELECT name FROM mw.default_texts() ORDER BY name;
-- and the guardrail finds nothing in any of them
SELECT name, mw_guard(value)->'score' FROM mw.default_texts() WHERE (mw_guard(value)->>'score')::float8 > 0;
