-- What applications read.  Each view runs with the rights of who asks (security_invoker), so
-- the row policies of the tables beneath decide, and unites what the gateway recorded with
-- what the test double left in this transaction.

CREATE VIEW mw.ledger WITH (security_invoker = true) AS
SELECT
	a.tenant, a.session, a.request_id, a.run_id, a.turn, a.call, a.attempt, a.purpose, a.model,
	a.started_at, a.finished_at, a.outcome, a.http_status, a.input_tokens, a.output_tokens,
	a.cost,
	a.billed_tokens,
	a.billed_cost,
	-- the attempt that finished last: its usage stands for the call
	a.finished_at IS NOT NULL
		AND pg_catalog.row_number() OVER (
			PARTITION BY a.tenant, a.request_id, a.call
			ORDER BY a.finished_at DESC NULLS LAST, a.attempt DESC) OPERATOR(pg_catalog.=) 1 AS final,
	a.estimated, a.error,
	a.cached_tokens, a.reasoning_tokens, a.audio_input_tokens, a.audio_output_tokens,
	a.admitted_at, a.input_price, a.output_price, a.cached_price
FROM (
	SELECT r.tenant, r.session, r.request_id, r.run_id, r.turn, r.call, r.attempt, r.purpose, r.model,
		r.started_at, r.finished_at, r.outcome, r.http_status, r.input_tokens, r.output_tokens,
		r.billed_tokens, r.estimated, r.error, r.cost, r.billed_cost,
		r.cached_tokens, r.reasoning_tokens, r.audio_input_tokens, r.audio_output_tokens,
		r.admitted_at, r.input_price, r.output_price, r.cached_price
	FROM mw.attempt AS r
	UNION ALL
	SELECT f.tenant, f.session, f.request_id, f.run_id, f.turn, f.call, f.attempt, f.purpose, f.model,
		f.started_at, f.finished_at, f.outcome, f.http_status, f.input_tokens, f.output_tokens,
		f.billed_tokens, f.estimated, f.error, f.cost, f.billed_cost,
		f.cached_tokens, f.reasoning_tokens, f.audio_input_tokens, f.audio_output_tokens,
		f.admitted_at, f.input_price, f.output_price, f.cached_price
	FROM mw.fake_attempt AS f
) AS a;
COMMENT ON VIEW mw.ledger IS 'every attempt of every call, and what it cost; ''final'' marks the one whose usage stands for its call';

CREATE VIEW mw.usage WITH (security_invoker = true) AS
SELECT l.tenant, l.session, l.request_id, l.turn, l.call, l.purpose, l.model, l.input_tokens, l.output_tokens, l.cost,
	l.cached_tokens, l.reasoning_tokens, l.audio_input_tokens, l.audio_output_tokens
FROM mw.ledger AS l
WHERE l.final;
COMMENT ON VIEW mw.usage IS 'a row a call, with the usage that replaces that of its earlier attempts';

CREATE VIEW mw.budget_status WITH (security_invoker = true) AS
WITH kept AS NOT MATERIALIZED (
	SELECT r.* FROM mw.spent AS r
	UNION ALL
	SELECT f.* FROM mw.fake_spent AS f
), open AS NOT MATERIALIZED (
	-- what calls in flight hold, in the scope of their session and in the tenant's ('')
	SELECT x.tenant, y.session, x.admitted_at, x.reserved_requests, x.reserved_tokens, x.reserved_cost
	FROM (
		SELECT r.tenant, r.session, r.admitted_at, r.reserved_requests, r.reserved_tokens, r.reserved_cost
		FROM mw.attempt AS r WHERE r.outcome OPERATOR(pg_catalog.=) 'running'
		UNION ALL
		SELECT f.tenant, f.session, f.admitted_at, f.reserved_requests, f.reserved_tokens, f.reserved_cost
		FROM mw.fake_attempt AS f WHERE f.outcome OPERATOR(pg_catalog.=) 'running'
	) AS x
	CROSS JOIN LATERAL (SELECT ''::text AS session UNION ALL SELECT x.session WHERE x.session IS NOT NULL) AS y
), sessions AS NOT MATERIALIZED (
	SELECT s.tenant, s.session FROM kept AS s WHERE s.session OPERATOR(pg_catalog.<>) ''
	UNION
	SELECT r.tenant, r.session FROM open AS r WHERE r.session OPERATOR(pg_catalog.<>) ''
), limits AS NOT MATERIALIZED (
	-- the tenant as a whole, and sessions with a limit of their own
	SELECT b.tenant, b.session, b.unit, b.per, b.amount, b.soft
	FROM mw.budget AS b
	WHERE b.session IS DISTINCT FROM '*'
	UNION ALL
	-- other sessions: what was set for each session, else 50000 tokens
	SELECT s.tenant, s.session, e.unit, e.per, e.amount, e.soft
	FROM sessions AS s
	CROSS JOIN LATERAL (
		SELECT b.unit, b.per, b.amount, b.soft FROM mw.budget AS b
		WHERE b.tenant OPERATOR(pg_catalog.=) s.tenant AND b.session OPERATOR(pg_catalog.=) '*'
		UNION ALL
		SELECT 'tokens', 'forever', 50000::numeric, NULL
		WHERE NOT EXISTS (
			SELECT FROM mw.budget AS b
			WHERE b.tenant OPERATOR(pg_catalog.=) s.tenant AND b.session OPERATOR(pg_catalog.=) '*'
				AND b.unit OPERATOR(pg_catalog.=) 'tokens' AND b.per OPERATOR(pg_catalog.=) 'forever')
	) AS e
	WHERE NOT EXISTS (
		SELECT FROM mw.budget AS b
		WHERE b.tenant OPERATOR(pg_catalog.=) s.tenant AND b.session OPERATOR(pg_catalog.=) s.session
			AND b.unit OPERATOR(pg_catalog.=) e.unit AND b.per OPERATOR(pg_catalog.=) e.per)
)
SELECT
	l.tenant, l.session, l.unit, l.per, l.amount,
	u.settled, o.reserved, u.excess,
	GREATEST(l.amount OPERATOR(pg_catalog.-) u.settled OPERATOR(pg_catalog.-) o.reserved, 0) AS remaining,
	w.ends AS resets_at,
	l.soft,
	CASE WHEN f.at OPERATOR(pg_catalog.<) COALESCE(w.ends, 'infinity') THEN f.at END AS forecast
FROM limits AS l
CROSS JOIN LATERAL (
	SELECT mw.budget_now() AS now,
		COALESCE((SELECT t.settings OPERATOR(pg_catalog.->>) 'timezone' FROM mw.tenant AS t
			WHERE t.tenant OPERATOR(pg_catalog.=) l.tenant), 'UTC') AS zone
) AS z
CROSS JOIN LATERAL (SELECT mw.window_start(l.per, z.zone, z.now) AS began) AS b
CROSS JOIN LATERAL (SELECT b.began, mw.window_end(l.per, z.zone, b.began) AS ends) AS w
CROSS JOIN LATERAL (
	-- a sum whose window has ended is 0; one that began less than a window before is of a zone that was changed
	SELECT
		COALESCE(pg_catalog.sum(v.used) FILTER (WHERE v.since OPERATOR(pg_catalog.>) (w.began OPERATOR(pg_catalog.-)
			CASE l.per WHEN 'minute' THEN interval '60 s' WHEN 'hour' THEN interval '3600 s' WHEN 'day' THEN interval '22 h'
				ELSE interval '648 h' END)), 0) AS settled,
		COALESCE(pg_catalog.sum(CASE WHEN l.per OPERATOR(pg_catalog.=) 'forever' THEN v.excess END), 0) AS excess,
		pg_catalog.min(CASE l.per WHEN 'forever' THEN NULLIF(s.first_used_at, 'infinity') ELSE w.began END) AS since
	FROM kept AS s
	CROSS JOIN LATERAL (
		SELECT
			CASE l.per WHEN 'minute' THEN s.minute_start WHEN 'hour' THEN s.hour_start WHEN 'day' THEN s.day_start
				WHEN 'month' THEN s.month_start ELSE 'infinity' END AS since,
			CASE l.unit
				WHEN 'requests' THEN CASE l.per WHEN 'minute' THEN s.minute_requests WHEN 'hour' THEN s.hour_requests
					WHEN 'day' THEN s.day_requests WHEN 'month' THEN s.month_requests ELSE s.requests END
				WHEN 'tokens' THEN CASE l.per WHEN 'minute' THEN s.minute_tokens WHEN 'hour' THEN s.hour_tokens
					WHEN 'day' THEN s.day_tokens WHEN 'month' THEN s.month_tokens ELSE s.tokens END
				ELSE CASE l.per WHEN 'minute' THEN s.minute_cost WHEN 'hour' THEN s.hour_cost
					WHEN 'day' THEN s.day_cost WHEN 'month' THEN s.month_cost ELSE s.cost END
			END AS used,
			CASE l.unit WHEN 'tokens' THEN s.excess_tokens WHEN 'cost' THEN s.excess_cost ELSE 0 END AS excess
	) AS v
	WHERE s.tenant OPERATOR(pg_catalog.=) l.tenant AND s.session OPERATOR(pg_catalog.=) COALESCE(l.session, '')
) AS u
CROSS JOIN LATERAL (
	SELECT COALESCE(pg_catalog.sum(CASE l.unit WHEN 'requests' THEN r.reserved_requests WHEN 'tokens' THEN r.reserved_tokens
		ELSE r.reserved_cost END), 0) AS reserved
	FROM open AS r
	WHERE r.tenant OPERATOR(pg_catalog.=) l.tenant AND r.session OPERATOR(pg_catalog.=) COALESCE(l.session, '')
		AND r.admitted_at OPERATOR(pg_catalog.>=) w.began
) AS o
CROSS JOIN LATERAL (
	-- at the rate so far: when what is left will be used up
	SELECT CASE
		WHEN l.amount OPERATOR(pg_catalog.=) 'Infinity' OR u.settled OPERATOR(pg_catalog.=) 0 THEN NULL
		WHEN u.settled OPERATOR(pg_catalog.>=) l.amount THEN z.now
		ELSE z.now OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => LEAST(
			((l.amount OPERATOR(pg_catalog.-) u.settled) OPERATOR(pg_catalog./) u.settled
			OPERATOR(pg_catalog.*) GREATEST(EXTRACT(epoch FROM (z.now OPERATOR(pg_catalog.-) u.since)), 1))::double precision, 1e10))
	END AS at
) AS f;
COMMENT ON VIEW mw.budget_status IS 'limits in force and what is used of them; session NULL is the tenant as a whole; forecast: when it is used up at the rate so far, NULL where that is not before resets_at';

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

-- what changes within a statement is not in it: the view stays one with the query around it, so that a page follows the index
CREATE VIEW mw.inbox WITH (security_invoker = true) AS
SELECT i.tenant, i.session, i.interrupt_id, i.place, i.run_id, i.agent, i.tool, mw.visible(i.tool_call_id) AS tool_call_id,
	mw.inbox_args(i.tenant, i.session, i.tool, i.requested_by::pg_catalog.oid, i.interrupt_id, i.place, i.args) AS args,
	mw.visible(mw.inbox_text(i.tenant, i.session, i.tool, i.requested_by::pg_catalog.oid, i.interrupt_id, i.place, i.description)) AS description,
	i.allowed_decisions, i.response_schema, i.approvals, pg_catalog.jsonb_array_length(i.decisions) AS approved,
	i.requested_by, i.requested_at, i.expires_at, i.on_expiry,
	CASE WHEN i.claimed_until OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp() THEN i.claimed_by END AS claimed_by,
	CASE WHEN i.claimed_until OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp() THEN i.claimed_until END AS claimed_until
FROM mw.interrupt AS i
WHERE i.status OPERATOR(pg_catalog.=) 'open'
	AND (i.expires_at IS NULL OR i.expires_at OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp())
	AND mw.may_decide(i.tenant, i.interrupt_id, i.place, i.tool, i.middleware IS NOT NULL, i.requested_by::pg_catalog.oid,
		coalesce(i.requested_through::pg_catalog.oid, 0), i.decisions);
COMMENT ON VIEW mw.inbox IS 'tool calls that wait for the current role''s decision; placeholders stand for personal data unless the grant says reveal, and what was revealed is logged; approved: how many of the approvals that are needed are there';

CREATE VIEW mw.message WITH (security_invoker) AS
SELECT t.tenant, t.session, t.position,
	t.message ->> 'id' AS id,
	t.message ->> 'role' AS role,
	t.message -> 'content' AS content,
	t.message -> 'tool_calls' AS tool_calls,
	t.message -> 'invalid_tool_calls' AS invalid_tool_calls,
	t.message ->> 'tool_call_id' AS tool_call_id,
	t.message ->> 'name' AS name,
	t.message ->> 'status' AS status,
	t.message -> 'metadata' AS metadata,
	t.run_id, t.added_step, t.created_at
FROM mw.thread AS t
WHERE t.removed_step IS NULL;
COMMENT ON VIEW mw.message IS 'the messages of sessions as they are now, in the order of position; placeholders stand for personal data (mw_messages restores them for its caller)';

CREATE FUNCTION @extschema@.mw_trace(tenant text, session text, run_id uuid DEFAULT NULL)
RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT pg_catalog.repeat('  ', t.depth) OPERATOR(pg_catalog.||) t.kind OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) t.name
		OPERATOR(pg_catalog.||) CASE WHEN t.microseconds IS NULL THEN ', left by an error'
			ELSE pg_catalog.format(', %s ms', pg_catalog.round(t.microseconds / 1000.0, 3)) END
		OPERATOR(pg_catalog.||) CASE WHEN t.kind = 'model' THEN pg_catalog.format(', %s + %s tokens', t.input_tokens, t.output_tokens) ELSE '' END
		OPERATOR(pg_catalog.||) CASE WHEN t.cost IS NULL THEN '' ELSE pg_catalog.format(', cost %s', t.cost) END
		OPERATOR(pg_catalog.||) CASE WHEN t.output IS NULL THEN '' ELSE pg_catalog.format(' -> %s', pg_catalog.left(t.output::text, 200)) END
	FROM mw.trace AS t
	WHERE t.tenant = mw_trace.tenant AND t.session = mw_trace.session
		AND t.run_id = coalesce(mw_trace.run_id, (SELECT s.run_id FROM mw.session AS s WHERE s.tenant = mw_trace.tenant AND s.session = mw_trace.session))
	ORDER BY t.seq;
END;
COMMENT ON FUNCTION @extschema@.mw_trace(text, text, uuid) IS
'a run as an indented tree, a line a hook, model call or tool call: what it was, how long it took, tokens and cost; run_id NULL: the newest run of the session.  Shows what the caller may see; raises nothing.';
