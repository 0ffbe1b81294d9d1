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
