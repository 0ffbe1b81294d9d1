-- Ready-made tools: functions that mw_create_tool can register.  None is registered by itself: what a model may
-- ask for is an administrator's to say.  All run as the caller and see what the caller may see.

CREATE FUNCTION mw.execute_sql(query text, max_rows integer DEFAULT 100)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'mw_execute_sql'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION mw.execute_sql(text, integer) IS
'Runs one read-only SQL SELECT statement of PostgreSQL and returns {"rows": [object, ...]}, with "more": true where there are more than max_rows (at most 10000), or {"error", "hint", "sqlstate"} where the statement is wrong. Qualify the names of tables with their schema. System catalogues cannot be read.';

CREATE FUNCTION mw.read_schema(name text DEFAULT NULL)
RETURNS TABLE ("table" text, kind text, description text, columns jsonb, primary_key jsonb, foreign_keys jsonb)
LANGUAGE sql STABLE CALLED ON NULL INPUT PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $$
	WITH readable AS (
		SELECT c.oid, n.nspname, c.relname, c.relkind
		FROM pg_class AS c
		JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
			AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'mw') AND n.nspname NOT LIKE 'pg\_%'
			AND has_schema_privilege(n.oid, 'USAGE')
			AND (has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'))
	)
	SELECT format('%I.%I', r.nspname, r.relname),
		CASE r.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' ELSE 'table' END,
		obj_description(r.oid, 'pg_class'),
		-- of a schema with very many tables the names come first
		CASE WHEN count(*) OVER () <= 50 THEN (
			SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
				'not_null', CASE WHEN a.attnotnull THEN true END, 'description', col_description(r.oid, a.attnum))) ORDER BY a.attnum)
			FROM pg_attribute AS a
			WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(r.oid, a.attnum, 'SELECT')) END,
		(SELECT jsonb_agg(a.attname ORDER BY k.n)
			FROM pg_constraint AS p, unnest(p.conkey) WITH ORDINALITY AS k (attnum, n), pg_attribute AS a
			WHERE p.conrelid = r.oid AND p.contype = 'p' AND a.attrelid = r.oid AND a.attnum = k.attnum
				AND has_column_privilege(r.oid, a.attnum, 'SELECT')),
		(SELECT jsonb_agg(pg_get_constraintdef(f.oid) ORDER BY f.conname)
			FROM pg_constraint AS f
			WHERE f.conrelid = r.oid AND f.contype = 'f' AND f.conparentid = 0 AND f.confrelid IN (SELECT o.oid FROM readable AS o))
	FROM readable AS r
	WHERE read_schema.name IS NULL
		OR strpos(lower(r.nspname || '.' || r.relname), lower(replace(read_schema.name, '"', ''))) > 0
	ORDER BY 1
$$;
COMMENT ON FUNCTION mw.read_schema(text) IS
'Lists the tables and views that can be read, with their columns, keys and descriptions. name: part of a table''s name, to see only those; where there are more than 50 tables, columns are shown once a name is given.';

CREATE FUNCTION mw.search_documents(
	query text, "table" text, text_column text, title_column text DEFAULT NULL, max_results integer DEFAULT 5)
RETURNS TABLE (title text, text text)
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rel regclass := to_regclass("table");
	body text := quote_ident(text_column);
	caption text := coalesce(quote_ident(title_column), 'NULL');
	vector text;		-- the table's tsvector: a column, or what an index is made of
	config text;		-- in whose language; of a column nothing says it
	trigrams text;		-- the schema of pg_trgm, where an index of the column uses it
	words text[];
	q tsquery;
BEGIN
	IF "table" IS NULL OR text_column IS NULL OR rel IS NULL THEN
		RAISE EXCEPTION 'search_documents has no table to search, or no column of it'
			USING ERRCODE = 'MW001', DETAIL = format('The table is %s, its column %s.', coalesce("table", 'NULL'), coalesce(text_column, 'NULL')), HINT = 'Write schema.table in the tool''s option: {"fixed": {"table": "kb.article", "text_column": "body"}}.';
	END IF;

	SELECT quote_ident(a.attname) INTO vector
	FROM pg_attribute AS a
	WHERE a.attrelid = rel AND a.atttypid = 'tsvector'::regtype AND a.attnum > 0 AND NOT a.attisdropped
	ORDER BY a.attnum LIMIT 1;
	IF vector IS NULL THEN
		SELECT d, substring(d FROM 'to_tsvector\(''([^'']+)''::') INTO vector, config
		FROM pg_index AS i, generate_series(1, i.indnatts) AS k, pg_get_indexdef(i.indexrelid, k, false) AS d
		WHERE i.indrelid = rel AND d LIKE 'to_tsvector(''%' AND strpos(d, body) > 0
		LIMIT 1;
	END IF;
	SELECT quote_ident(n.nspname) INTO trigrams
	FROM pg_index AS i
	JOIN pg_opclass AS o ON o.oid = ANY (i.indclass) AND o.opcname IN ('gin_trgm_ops', 'gist_trgm_ops')
	JOIN pg_namespace AS n ON n.oid = o.opcnamespace
	JOIN pg_attribute AS a ON a.attrelid = rel AND a.attname = text_column AND a.attnum = ANY (i.indkey)
	WHERE i.indrelid = rel
	LIMIT 1;

	IF vector IS NOT NULL THEN
		q := websearch_to_tsquery(coalesce(config::regconfig, get_current_ts_config()), query);
		RETURN QUERY EXECUTE format(
			'SELECT %1$s::text, %2$s::text FROM %3$s WHERE %4$s @@ $1 ORDER BY ts_rank(%4$s, $1) DESC LIMIT $2',
			caption, body, rel, vector) USING q, max_results;
	ELSIF trigrams IS NOT NULL THEN
		RETURN QUERY EXECUTE format(
			'SELECT %1$s::text, %2$s::text FROM %3$s WHERE $1 OPERATOR(%4$s.<%%) %2$s ORDER BY %4$s.word_similarity($1, %2$s) DESC LIMIT $2',
			caption, body, rel, trigrams) USING query, max_results;
	ELSE
		SELECT array_agg('%' || regexp_replace(w, '([\\%_])', '\\\1', 'g') || '%') INTO words
		FROM regexp_split_to_table(query, '\s+') AS w WHERE w <> '';
		RETURN QUERY EXECUTE format(
			'SELECT %1$s::text, %2$s::text FROM %3$s WHERE %2$s ILIKE ANY ($1)'
			' ORDER BY (SELECT count(*) FROM unnest($1) AS w WHERE %2$s ILIKE w) DESC LIMIT $2',
			caption, body, rel) USING words, max_results;
	END IF;
END
$$;
COMMENT ON FUNCTION mw.search_documents(text, text, text, text, integer) IS
'Finds the documents that fit the query best. query: words to look for; with full-text search also "a phrase", or, and -word.';
