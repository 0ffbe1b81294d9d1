-- Risk: an order of the stages that breaks an invariant is taken for a good one.
-- All 720 orders are judged here by SQL that shares nothing with the C code but
-- the text of the rules, and each verdict of mw_check_order is compared.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;

CREATE FUNCTION order_verdict(stages text[], OUT code text, OUT broken text)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mw_check_order(stages);
	code := '00000';
	broken := '';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS broken = PG_EXCEPTION_DETAIL;
	code := SQLSTATE;
END
$$;

CREATE TEMP TABLE rule (n int, before text, after text, directly boolean, why text);
INSERT INTO rule VALUES
	(1, 'redact', 'guardrail', false, 'raw text is judged'),
	(2, 'redact', 'cache', false, 'P24: personal data becomes a cache key'),
	(3, 'guardrail', 'budget', false, 'refused text reserves money'),
	(4, 'guardrail', 'cache', false, 'P34: an injection becomes a cache entry'),
	(5, 'budget', 'cache', false, 'P10: a loop of hits is free'),
	(6, 'cache', 'retry', false, 'a hit is retried'),
	(7, 'retry', 'model', true, 'P25: something other than the model is retried');

CREATE TEMP TABLE permutation AS
WITH RECURSIVE p(stages) AS (
	SELECT '{}'::text[]
	UNION ALL
	SELECT p.stages || s.name
	FROM p, unnest('{redact,guardrail,budget,cache,retry,model}'::text[]) AS s(name)
	WHERE s.name <> ALL (p.stages)
)
SELECT stages FROM p WHERE cardinality(stages) = 6;

CREATE TEMP TABLE judged AS
SELECT p.stages, v.code, v.broken,
	(SELECT coalesce(string_agg(
			r.before || CASE WHEN r.directly THEN ' directly before ' ELSE ' before ' END || r.after || ': ' || r.why,
			E'\n' ORDER BY r.n), '')
	 FROM rule r
	 WHERE NOT CASE WHEN r.directly
		THEN array_position(p.stages, r.before) + 1 = array_position(p.stages, r.after)
		ELSE array_position(p.stages, r.before) < array_position(p.stages, r.after) END) AS expected
FROM permutation p, order_verdict(p.stages) v;

SELECT count(*) AS orders,
	count(*) FILTER (WHERE code = '00000') AS accepted,
	count(*) FILTER (WHERE code = 'MW002') AS refused,
	count(*) FILTER (WHERE broken IS DISTINCT FROM expected) AS judged_otherwise
FROM judged;
SELECT stages FROM judged WHERE code = '00000';

-- each rule alone can be the one that is broken, or is never broken alone
SELECT code, broken FROM order_verdict('{guardrail,redact,budget,cache,retry,model}');
SELECT code, broken FROM order_verdict('{redact,budget,guardrail,cache,retry,model}');
SELECT code, broken FROM order_verdict('{redact,guardrail,cache,budget,retry,model}');
SELECT code, broken FROM order_verdict('{redact,guardrail,budget,retry,cache,model}');
SELECT code, broken FROM order_verdict('{model,retry,cache,budget,guardrail,redact}');

-- what is no order of the six stages
SELECT code, broken FROM order_verdict(NULL);
SELECT code, broken FROM order_verdict('{}');
SELECT code, broken FROM order_verdict('{redact,guardrail,budget,cache,retry}');
SELECT code, broken FROM order_verdict('{redact,guardrail,budget,cache,retry,model,model}');
SELECT code, broken FROM order_verdict('{redact,guardrail,budget,cache,retry,Model}');
SELECT code, broken FROM order_verdict('{redact,guardrail,budget,cache,retry,NULL}');
SELECT code, broken FROM order_verdict('{redact,guardrail,budget,cache,retry,""}');
SELECT code, broken FROM order_verdict(ARRAY[ARRAY['redact','guardrail','budget'],ARRAY['cache','retry','model']]);
SELECT code, broken FROM order_verdict(ARRAY['redact', repeat('ü', 100)]);

\set VERBOSITY default
SELECT mw_check_order('{redact,guardrail,cache,budget,retry,model}');
SELECT mw_check_order('{redact,guardrail,budget,cache,retry,model}');
SELECT mw_check_order('{redact,spellcheck}');

DROP FUNCTION order_verdict;
