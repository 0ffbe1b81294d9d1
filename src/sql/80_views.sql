-- What applications read.  Each view runs with the rights of who asks (security_invoker), so
-- the row policies of the tables beneath decide, and unites what the gateway recorded with
-- what the test double left in this transaction.

CREATE VIEW mw.ledger WITH (security_invoker = true) AS
SELECT
	a.tenant, a.session, a.request_id, a.run_id, a.turn, a.call, a.attempt, a.purpose, a.model,
	a.started_at, a.finished_at, a.outcome, a.http_status, a.input_tokens, a.output_tokens,
	NULL::numeric AS cost,
	a.billed_tokens,
	NULL::numeric AS billed_cost,
	-- the attempt that finished last: its usage stands for the call
	a.finished_at IS NOT NULL
		AND pg_catalog.row_number() OVER (
			PARTITION BY a.tenant, a.request_id, a.call
			ORDER BY a.finished_at DESC NULLS LAST, a.attempt DESC) OPERATOR(pg_catalog.=) 1 AS final,
	a.estimated, a.error
FROM (
	SELECT r.tenant, r.session, r.request_id, r.run_id, r.turn, r.call, r.attempt, r.purpose, r.model,
		r.started_at, r.finished_at, r.outcome, r.http_status, r.input_tokens, r.output_tokens,
		r.billed_tokens, r.estimated, r.error
	FROM mw.attempt AS r
	UNION ALL
	SELECT f.tenant, f.session, f.request_id, f.run_id, f.turn, f.call, f.attempt, f.purpose, f.model,
		f.started_at, f.finished_at, f.outcome, f.http_status, f.input_tokens, f.output_tokens,
		f.billed_tokens, f.estimated, f.error
	FROM mw.fake_attempt AS f
) AS a;
COMMENT ON VIEW mw.ledger IS 'every attempt of every call, and what it cost; ''final'' marks the one whose usage stands for its call';

CREATE VIEW mw.usage WITH (security_invoker = true) AS
SELECT l.tenant, l.session, l.request_id, l.turn, l.call, l.purpose, l.model, l.input_tokens, l.output_tokens, l.cost
FROM mw.ledger AS l
WHERE l.final;
COMMENT ON VIEW mw.usage IS 'a row a call, with the usage that replaces that of its earlier attempts';

CREATE VIEW mw.budget_status WITH (security_invoker = true) AS
WITH spent AS NOT MATERIALIZED (
	-- what each scope has used; '' is the tenant as a whole
	SELECT s.tenant, s.session,
		pg_catalog.sum(s.requests) AS requests, pg_catalog.sum(s.tokens) AS tokens, pg_catalog.sum(s.excess) AS excess
	FROM (
		SELECT r.tenant, r.session, r.requests, r.tokens, r.excess_tokens AS excess FROM mw.spent AS r
		UNION ALL
		SELECT f.tenant, f.session, f.requests, f.tokens, f.excess_tokens FROM mw.fake_spent AS f
	) AS s
	GROUP BY s.tenant, s.session
), running AS NOT MATERIALIZED (
	-- what calls in flight hold, in the scope of their session and in the tenant's
	SELECT x.tenant, y.session,
		pg_catalog.sum(x.reserved_requests) AS requests, pg_catalog.sum(x.reserved_tokens) AS tokens
	FROM (
		SELECT r.tenant, r.session, r.reserved_requests, r.reserved_tokens FROM mw.attempt AS r WHERE r.outcome OPERATOR(pg_catalog.=) 'running'
		UNION ALL
		SELECT f.tenant, f.session, f.reserved_requests, f.reserved_tokens FROM mw.fake_attempt AS f WHERE f.outcome OPERATOR(pg_catalog.=) 'running'
	) AS x
	CROSS JOIN LATERAL (SELECT ''::text AS session UNION ALL SELECT x.session WHERE x.session IS NOT NULL) AS y
	GROUP BY x.tenant, y.session
), sessions AS NOT MATERIALIZED (
	SELECT s.tenant, s.session FROM spent AS s WHERE s.session OPERATOR(pg_catalog.<>) ''
	UNION
	SELECT r.tenant, r.session FROM running AS r WHERE r.session OPERATOR(pg_catalog.<>) ''
), limits AS NOT MATERIALIZED (
	-- the tenant as a whole, and sessions with a limit of their own
	SELECT b.tenant, b.session, b.unit, b.per, b.amount
	FROM mw.budget AS b
	WHERE b.session IS DISTINCT FROM '*'
	UNION ALL
	-- other sessions: what was set for each session, else 50000 tokens
	SELECT s.tenant, s.session, e.unit, e.per, e.amount
	FROM sessions AS s
	CROSS JOIN LATERAL (
		SELECT b.unit, b.per, b.amount FROM mw.budget AS b
		WHERE b.tenant OPERATOR(pg_catalog.=) s.tenant AND b.session OPERATOR(pg_catalog.=) '*'
		UNION ALL
		SELECT 'tokens', 'forever', 50000::numeric
		WHERE NOT EXISTS (
			SELECT FROM mw.budget AS b
			WHERE b.tenant OPERATOR(pg_catalog.=) s.tenant AND b.session OPERATOR(pg_catalog.=) '*'
				AND b.unit OPERATOR(pg_catalog.=) 'tokens')
	) AS e
	WHERE NOT EXISTS (
		SELECT FROM mw.budget AS b
		WHERE b.tenant OPERATOR(pg_catalog.=) s.tenant AND b.session OPERATOR(pg_catalog.=) s.session
			AND b.unit OPERATOR(pg_catalog.=) e.unit AND b.per OPERATOR(pg_catalog.=) e.per)
)
SELECT
	l.tenant, l.session, l.unit, l.per, l.amount,
	f.settled, f.reserved, f.excess,
	GREATEST(l.amount OPERATOR(pg_catalog.-) f.settled OPERATOR(pg_catalog.-) f.reserved, 0) AS remaining,
	NULL::timestamptz AS resets_at
FROM limits AS l
LEFT JOIN spent AS s
	ON s.tenant OPERATOR(pg_catalog.=) l.tenant AND s.session OPERATOR(pg_catalog.=) COALESCE(l.session, '')
LEFT JOIN running AS r
	ON r.tenant OPERATOR(pg_catalog.=) l.tenant AND r.session OPERATOR(pg_catalog.=) COALESCE(l.session, '')
CROSS JOIN LATERAL (
	SELECT
		COALESCE(CASE l.unit WHEN 'requests' THEN s.requests ELSE s.tokens END, 0) AS settled,
		COALESCE(CASE l.unit WHEN 'requests' THEN r.requests ELSE r.tokens END, 0) AS reserved,
		COALESCE(CASE l.unit WHEN 'requests' THEN 0 ELSE s.excess END, 0) AS excess
) AS f;
COMMENT ON VIEW mw.budget_status IS 'limits in force and what is used of them; session NULL is the tenant as a whole';

CREATE VIEW mw.queue WITH (security_invoker = true) AS
SELECT q.tenant, q.session, q.request_id, q.run_id, q.model, q.state, q.queued_at, q.deadline, q.pid
FROM mw.queue_rows() AS q;
COMMENT ON VIEW mw.queue IS 'calls in flight, of the tenants that this role may act for';

CREATE VIEW mw.cache_entries WITH (security_invoker = true) AS
SELECT c.tenant, pg_catalog.encode(c.key, 'hex') AS key, c.model, c.created_at, c.expires_at,
	pg_catalog.octet_length(c.body) AS bytes
FROM (
	SELECT r.tenant, r.key, r.model, r.epoch, r.created_at, r.expires_at, r.body FROM mw.cache AS r
	UNION ALL
	SELECT f.tenant, f.key, f.model, f.epoch, f.created_at, f.expires_at, f.body FROM mw.fake_cache AS f
) AS c
WHERE c.expires_at OPERATOR(pg_catalog.>) pg_catalog.now()
	-- what was purged is no answer any more, though its row may still be there
	AND c.epoch OPERATOR(pg_catalog.>=) COALESCE(
		(SELECT p.epoch FROM mw.purge AS p WHERE p.tenant OPERATOR(pg_catalog.=) c.tenant), 0);
COMMENT ON VIEW mw.cache_entries IS 'cached answers that can still be given';

CREATE VIEW mw.breaker WITH (security_invoker = true) AS
SELECT b.server, b.state, b.failures, b.opened_at, b.retry_at, b.retries
FROM mw.breaker_rows() AS b;
COMMENT ON VIEW mw.breaker IS 'circuit breakers of the model servers that this role may use; the same for all sessions, but for fake servers';

CREATE FUNCTION mw.guard_stats_rows(
	OUT tenant text, OUT guard text, OUT source text, OUT matched bigint, OUT refused bigint, OUT would_refuse bigint,
	OUT last_matched_at timestamptz, OUT since timestamptz, OUT not_counted bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_guard_stats_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 50;
COMMENT ON FUNCTION mw.guard_stats_rows() IS
'The rows of mw.guard_stats for the tenants that the current role may act for.  Raises nothing.';

CREATE VIEW mw.guard_stats WITH (security_invoker = true) AS
SELECT s.tenant, s.guard, s.source, s.matched, s.refused, s.would_refuse, s.last_matched_at, s.since, s.not_counted
FROM mw.guard_stats_rows() AS s;
COMMENT ON VIEW mw.guard_stats IS 'a row a guard that matched in a text of a tenant: in how many, how many of these were refused, and how many would have been but for mode log; since the server''s start (of this session where mw is not preloaded), and counted whether or not the caller commits';
