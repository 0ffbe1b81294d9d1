CREATE FUNCTION mw.queue_rows(
	OUT tenant text, OUT session text, OUT request_id text, OUT run_id uuid, OUT model text,
	OUT state text, OUT queued_at timestamptz, OUT deadline timestamptz, OUT pid integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_queue_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mw.queue_rows() IS
'model calls in the gateway''s hands, of the tenants that the caller may act for; pid is NULL where the caller of the call has left. Beneath the view mw.queue. Raises nothing.';

CREATE FUNCTION mw.bench_record(tenant text, n integer)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_bench_record'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION mw.bench_record(text, integer) IS
'has the gateway record an outcome n times, each durable before the next: what an autonomous write costs (make bench). For administrators. Raises MW003 where mw is not preloaded, MW101 for an unknown tenant.';

CREATE FUNCTION mw.breaker_rows(
	OUT server text, OUT state text, OUT failures integer, OUT opened_at timestamptz, OUT retry_at timestamptz, OUT retries integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_breaker_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mw.breaker_rows() IS
'the circuit breakers of the model servers that the caller has USAGE on: state (closed, open, half-open, off), failures in a row, since when it is open,
until when it lets nobody through (half-open: nobody but the one that tries), and how many retries all callers together have left. That of a fake server is
this session''s. Beneath the view mw.breaker. Raises MW001 for a server whose options cannot be used.';

CREATE FUNCTION @extschema@.mw_reset_breaker(server text)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_reset_breaker'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_reset_breaker(text) IS
'closes the circuit breaker of a model server and refills its retries, at once and for all sessions (of a fake server: for this one); a rollback does not undo it.
For administrators. Raises MW001 where there is no such server.';
