-- The pure pieces: text in, text out, no gateway.  And the built-in rows, which come from the
-- library so that table and postmaster have one source.

CREATE FUNCTION @extschema@.mw_redact(input text, tenant text DEFAULT NULL, options jsonb DEFAULT '{}')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_redact'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.mw_redact(text, text, jsonb) IS
'input with personal data replaced: {"text", "map": {placeholder: value}, "spans": [{"start", "end", "type", "placeholder"}]}, offsets in characters of input. '
'tenant: whose rules (NULL: the common ones). options: "types" and "preset" (hipaa, pci or gdpr; without a tenant only these types, with one these too), "strategies" {type: mask, placeholder, hash, redact or block} (with a tenant the stricter one holds). '
'Raises MW001 (unknown option, type or strategy), MW101 (not your tenant), MW201 (a type whose strategy is block). NULL for NULL input.';

CREATE FUNCTION @extschema@.mw_redact(input text, tenant text, options jsonb, session text)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_redact'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_redact(text, text, jsonb, text) IS
'the same within a session of the tenant: a value has the placeholder that it had in the session before, and new ones are remembered, sealed by the key of mw.pii_key_file (without one the numbers are remembered and the values are not). A placeholder of the session that stands in input is a text of its own, of type LITERAL. '
'Two transactions that issue placeholders in one session wait for each other. Raises also 25006 (something new in a read-only transaction) and MW001 (no tenant or session).';

CREATE FUNCTION @extschema@.mw_restore(input text, map jsonb)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_restore'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.mw_restore(text, jsonb) IS
'input with the placeholders of map (as mw_redact returned it) replaced by their values; other placeholders stay. Raises MW001 where map is no such object.';

CREATE FUNCTION @extschema@.mw_restore(input text, tenant text, session text)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_restore_session'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.mw_restore(text, text, text) IS
'input with the placeholders that the session issued replaced by their values; those whose values were not kept, or were erased, stay. NULL for NULL input. Raises MW101 where the role may not act for the tenant, MW001 (no tenant or session, a key file that cannot be used), XX001 (a row that was changed).';

CREATE FUNCTION @extschema@.mw_guard(input text, tenant text DEFAULT NULL, options jsonb DEFAULT '{}')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_guard'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.mw_guard(text, text, jsonb) IS
'judges input as the guardrail would: {"verdict": pass, log or block, "score", "hits": [{"guard", "category", "start", "end"}], "wrapped": the text as data for a prompt}, offsets in characters of input; a hit of the classifier has "score" and "why", the words that weighed most. '
'tenant: whose guards (NULL: the common ones). options: "source" (user, tool, document or output: whose threshold holds). Guards that ask a model are left out. Never raises for what the text says; MW001 (unknown option), MW101 (not your tenant). NULL for NULL input.';

CREATE FUNCTION @extschema@.mw_wrap_document(input text, source text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_wrap_document'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.mw_wrap_document(text, text) IS
'input, a retrieved text, as data for a prompt: between tags whose name has a nonce, a keyed hash of source and input, so that nothing in the text can close or forge them and equal documents make equal prompts. source: where it is from (its first 200 bytes), shown to the model; may be NULL. '
'A prompt''s documents are judged by themselves, against the threshold "document" of the tenant. NULL for NULL input. Raises 54000 where it would be too large.';

CREATE FUNCTION @extschema@.mw_count_tokens(input text, model text DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME', 'mw_count_tokens'
LANGUAGE C IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.mw_count_tokens(text, text) IS
'an upper-bound estimate of the tokens of input, the same for every model so far; what the budget stage reserves by. NULL for NULL input.';

CREATE FUNCTION @extschema@.mw_text(message jsonb)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_text'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.mw_text(jsonb) IS
'the text of a message, of a content or of a list of parts; text parts are joined by line breaks. NULL where there is no text.';

CREATE FUNCTION @extschema@.mw_seed_cache_key(prompt text, tools jsonb, tenant text)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_seed_cache_key'
LANGUAGE C IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.mw_seed_cache_key(text, jsonb, text) IS
'BLAKE2b-16 over prompt, 0x1f, tools as Python''s json.dumps(..., sort_keys=True) writes them (nothing for NULL or an empty list), 0x1f, tenant: 32 hex digits. NULL where prompt or tenant is NULL.';

CREATE FUNCTION mw.bench_guard(input text, tenant text, n integer)
RETURNS double precision
AS 'MODULE_PATHNAME', 'mw_bench_guard'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mw.bench_guard(text, text, integer) IS
'for bench: judges input n times by the guards of the tenant and returns the microseconds of one time. Raises MW101 (not your tenant).';

CREATE FUNCTION mw.bench_redact(input text, tenant text, n integer)
RETURNS double precision
AS 'MODULE_PATHNAME', 'mw_bench_redact'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mw.bench_redact(text, text, integer) IS
'for bench: redacts input n times by the rules of the tenant and returns the microseconds of one time. Raises MW101 (not your tenant), MW201 (a type that is refused).';

CREATE FUNCTION mw.bench_key(input text, n integer)
RETURNS double precision
AS 'MODULE_PATHNAME', 'mw_bench_key'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mw.bench_key(text, integer) IS
'for bench: names n times a request whose body is the input, as the cache does, and returns the microseconds of one time.';

CREATE FUNCTION @extschema@.mw_test_recognizer(pii_type text, sample text, tenant text DEFAULT NULL,
	OUT pattern integer, OUT "start" integer, OUT "end" integer, OUT hit text, OUT valid boolean, OUT named boolean,
	OUT found boolean, OUT on_demand boolean, OUT microseconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_test_recognizer'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION @extschema@.mw_test_recognizer(text, text, text) IS
'What each pattern of a type of personal data matches in a sample: start and end in characters, the hit, whether its validator accepts it, whether its context is near (NULL: it asks for none), whether mw_redact would find it, and the microseconds of one pass of the pattern over all of the sample. A pattern without a match has one row. NULL for no rows.
Raises MW001 for an unknown type, MW101 where the role may not act for the tenant.';

CREATE FUNCTION mw.builtin_recognizers(OUT pii_type text, OUT id integer, OUT pattern text, OUT validator text,
	OUT context text, OUT priority integer, OUT strategy text, OUT prefilter text, OUT on_demand boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_builtin_recognizer_rows'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mw.builtin_recognizers() IS 'the recognizers that come with the library';

CREATE FUNCTION mw.builtin_guards(OUT guard text, OUT kind text, OUT pattern text, OUT category text, OUT weight double precision,
	OUT threshold double precision, OUT sources text[], OUT mode text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_builtin_guard_rows'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mw.builtin_guards() IS 'the guards that come with the library';

INSERT INTO mw.recognizer (tenant, pii_type, id, pattern, validator, context, priority, strategy, prefilter, on_demand, builtin)
SELECT '*', r.pii_type, r.id, r.pattern, r.validator, r.context, r.priority, r.strategy, r.prefilter, r.on_demand, true
FROM mw.builtin_recognizers() AS r;

INSERT INTO mw.guard (tenant, guard, kind, pattern, category, weight, threshold, sources, mode, builtin)
SELECT '*', g.guard, g.kind, g.pattern, g.category, g.weight, g.threshold, g.sources, g.mode, true
FROM mw.builtin_guards() AS g;
