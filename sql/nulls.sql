-- Risk: a NULL argument crashes the server, quietly does nothing, or ends in an internal error.
-- Every function of the extension is called with NULL for all its arguments, as a superuser
-- (so that no right stands before the code); the list is the catalogue's, so that a new one is
-- here on the day it is made.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;

CREATE FUNCTION nulls_answer(call text, OUT answer text) LANGUAGE plpgsql AS $$
DECLARE
	n bigint; v text;
BEGIN
	BEGIN
		EXECUTE 'SELECT count(*), left(min(x::text), 40) FROM ' || call || ' AS x' INTO n, v;
		answer := CASE WHEN n = 0 THEN 'no row' WHEN v IS NULL THEN 'null' WHEN n > 1 THEN 'rows' ELSE 'value' END;
		RAISE EXCEPTION USING ERRCODE = 'ZZ000';	-- undoes whatever it did
	EXCEPTION
		WHEN SQLSTATE 'ZZ000' THEN NULL;
		WHEN OTHERS THEN answer := SQLSTATE || ': ' || SQLERRM;
	END;
END
$$;

CREATE TEMP VIEW nulls_function AS
SELECT p.oid, n.nspname, p.proname, p.proisstrict, p.proargtypes::oid[] AS types, p.pronargs
FROM pg_proc AS p
JOIN pg_namespace AS n ON n.oid = p.pronamespace
JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'mw'
WHERE p.prorettype <> 'trigger'::regtype;

-- all of them NULL
SELECT f.proname || CASE WHEN f.proisstrict THEN ' (strict)' ELSE '' END AS function,
	nulls_answer(format('%I.%I(%s)', f.nspname, f.proname,
		(SELECT string_agg(format('NULL::%s', t::regtype), ', ' ORDER BY i) FROM unnest(f.types) WITH ORDINALITY AS u(t, i)))) AS answer
FROM nulls_function AS f
WHERE f.pronargs > 0
ORDER BY f.proname COLLATE "C", f.types;

-- one of them NULL, the others plausible: whatever is answered is a value, or an error with a code
-- that somebody chose.  What is listed here is neither.
SELECT mw_create_tenant('nulls-a');
CREATE FUNCTION nulls_plausible(type regtype, n bigint) RETURNS text LANGUAGE sql AS $$
	SELECT CASE
		WHEN type = 'text'::regtype AND n = 1 THEN $q$'nulls-a'$q$
		WHEN type = 'text'::regtype THEN $q$'x:y'$q$
		WHEN type = 'text[]'::regtype THEN $q$'{redact,guardrail}'$q$
		WHEN type = 'jsonb'::regtype THEN $q$'{}'$q$
		WHEN type = 'regrole'::regtype THEN $q$'pg_monitor'$q$
		WHEN type = 'interval'::regtype THEN $q$'1 s'$q$
		WHEN type = 'oid'::regtype THEN '0'
		ELSE '1' END || '::' || type::text
$$;
SELECT c.call, a.answer
FROM nulls_function AS f
CROSS JOIN LATERAL generate_series(1, f.pronargs) AS hole
CROSS JOIN LATERAL (
	SELECT format('%I.%I(%s)', f.nspname, f.proname,
		string_agg(CASE WHEN i = hole THEN 'NULL::' || t::regtype ELSE nulls_plausible(t::regtype, i) END, ', ' ORDER BY i)) AS call
	FROM unnest(f.types) WITH ORDINALITY AS u(t, i)) AS c
CROSS JOIN LATERAL nulls_answer(c.call) AS a
WHERE f.proname <> 'bench_record'	-- calls the gateway, which cannot see a tenant that is not committed
	AND a.answer ~ '^[0-9A-Z]{5}: '
	AND a.answer !~ '^(MW[0-9]{3}|22[0-9A-Z]{3}|42[0-9A-Z]{3}|25006|54000|0A000|55006): '
ORDER BY c.call COLLATE "C";

SELECT mw_drop_tenant('nulls-a');
DELETE FROM mw.purge WHERE tenant = 'nulls-a';
DROP FUNCTION nulls_answer(text);
DROP FUNCTION nulls_plausible(regtype, bigint);
RESET client_min_messages;
