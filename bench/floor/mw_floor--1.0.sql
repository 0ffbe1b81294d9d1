\echo Use "CREATE EXTENSION mw_floor" to load this file. \quit

CREATE FUNCTION floor_noop(input text)
RETURNS integer
AS 'MODULE_PATHNAME', 'mw_floor_noop' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION floor_noop(text) IS 'does nothing: what calling a function costs';

CREATE FUNCTION floor_copy(input text)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_floor_copy' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION floor_copy(text) IS 'returns a copy of its argument';

CREATE FUNCTION floor_http(url text, body text, keep boolean)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_floor_http' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION floor_http(text, text, boolean) IS
'posts a body and returns the answer''s; keep: on the connection of the last call, else on a new one as pgsql-http does';

CREATE FUNCTION floor_search(input text, n integer)
RETURNS double precision
AS 'MODULE_PATHNAME', 'mw_floor_search' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION floor_search(text, integer) IS
'searches input n times for the reference design''s four injection patterns with PCRE2''s JIT code; microseconds of one time';

CREATE FUNCTION floor_find(input text, n integer)
RETURNS double precision
AS 'MODULE_PATHNAME', 'mw_floor_find' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION floor_find(text, integer) IS
'finds n times all matches of the reference design''s four redaction patterns with PCRE2''s JIT code; microseconds of one time';

CREATE FUNCTION floor_key(input text, n integer)
RETURNS double precision
AS 'MODULE_PATHNAME', 'mw_floor_key' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION floor_key(text, integer) IS
'hashes input n times with libsodium''s BLAKE2b to 16 bytes; microseconds of one time';
