\echo Use "CREATE EXTENSION mw" to load this file. \quit

-- Nothing below may be captured by what stands in the installer's search_path.
SET LOCAL search_path TO pg_catalog, pg_temp;

-- Refuses a database that is not UTF8: offsets, placeholders and providers all speak it.
DO $$
BEGIN
	IF pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.<>) 'UTF8' THEN
		RAISE EXCEPTION 'mw needs a database with encoding UTF8'
			USING ERRCODE = 'MW001',
				  DETAIL = pg_catalog.format('The encoding of this database is %s.', pg_catalog.getdatabaseencoding()),
				  HINT = 'CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0';
	END IF;
END
$$;

-- A plain CREATE: a schema that somebody planted before makes the installation fail.
CREATE SCHEMA mw;
COMMENT ON SCHEMA mw IS 'tables, views and internals of the extension mw';
