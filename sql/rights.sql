-- Risk: a role acts for a tenant that was not granted to it, or a copy of a right outlives the right.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;
CREATE ROLE rights_app;
CREATE ROLE rights_inherits IN ROLE rights_app;
CREATE ROLE rights_noinherit NOINHERIT IN ROLE rights_app;
CREATE ROLE rights_all;
CREATE ROLE rights_bystander;
CREATE ROLE rights_bypass BYPASSRLS;
SELECT mw_create_tenant('rt-a');
SELECT mw_create_tenant('rt-b');
SELECT mw_grant_tenant('rt-a', 'rights_app');
SELECT mw_grant_tenant('*', 'rights_all');

CREATE FUNCTION rights_may(OUT "rt-a" boolean, OUT "rt-b" boolean, OUT "none" boolean, OUT "star" boolean)
LANGUAGE sql AS $$ SELECT mw.may_act('rt-a'), mw.may_act('rt-b'), mw.may_act('rt-none'), mw.may_act('*') $$;
CREATE FUNCTION rights_tell(sql text, OUT code text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	code := '00000';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END
$$;

-- who may: the granted role and those who have its privileges, and superusers; '*' is all tenants that exist
SELECT * FROM rights_may();
SET ROLE rights_app;
SELECT * FROM rights_may();
SET ROLE rights_inherits;
SELECT * FROM rights_may();
SET ROLE rights_noinherit;
SELECT * FROM rights_may();
SET ROLE rights_all;
SELECT * FROM rights_may();
SET ROLE rights_bystander;
SELECT * FROM rights_may();
-- seeing past row-level security is no right to act
SET ROLE rights_bypass;
SELECT * FROM rights_may();
RESET ROLE;
SELECT mw.may_act(NULL), mw.may_act(''), mw.may_act(repeat('x', 300));

-- one message and one hint for "not yours" and "not there"
SET ROLE rights_bystander;
\x on
SELECT * FROM rights_tell($$SELECT mw_channel('rt-a')$$);
SELECT * FROM rights_tell($$SELECT mw_channel('rt-none')$$);
SELECT * FROM rights_tell($$SELECT mw_channel(repeat('y', 1000))$$);
-- what the hint says is what to type
RESET ROLE;
CREATE ROLE "Rights ""odd""";
SET ROLE "Rights ""odd""";
SELECT hint FROM rights_tell($$SELECT mw_channel('o''brien')$$);
\x off
RESET ROLE;
SELECT mw_create_tenant('o''brien'); SELECT mw_grant_tenant('o''brien', '"Rights ""odd"""');
SET ROLE "Rights ""odd""";
SELECT mw_channel('o''brien') IS NOT NULL AS may;
RESET ROLE;
SELECT mw_drop_tenant('o''brien');
DROP ROLE "Rights ""odd""";

-- mw.tenant narrows and never widens
SET ROLE rights_all;
SET mw.tenant = 'rt-b';
SELECT * FROM rights_may();
SELECT tenant FROM mw.tenant WHERE tenant LIKE 'rt-%';
\x on
SELECT * FROM rights_tell($$SELECT mw_channel('rt-a')$$);
\x off
SET ROLE rights_app;
SELECT * FROM rights_may();
RESET mw.tenant;
SELECT * FROM rights_may();
RESET ROLE;

-- what changes is seen at once, in the same session and transaction, and not after a rollback
PREPARE rights_seen AS SELECT tenant FROM mw.tenant WHERE tenant LIKE 'rt-%' ORDER BY 1;
SET ROLE rights_app;
EXECUTE rights_seen;
RESET ROLE;
BEGIN;
SELECT mw_grant_tenant('rt-b', 'rights_app');
SET LOCAL ROLE rights_app;
EXECUTE rights_seen;
ROLLBACK;
SET ROLE rights_app;
EXECUTE rights_seen;
RESET ROLE;
SELECT mw_revoke_tenant('rt-a', 'rights_app');
SET ROLE rights_app;
EXECUTE rights_seen;
RESET ROLE;
-- by hand
INSERT INTO mw.tenant_grant VALUES ('rt-a', 'rights_app');
SET ROLE rights_app;
EXECUTE rights_seen;
-- membership
SET ROLE rights_bystander;
EXECUTE rights_seen;
RESET ROLE;
GRANT rights_app TO rights_bystander;
SET ROLE rights_bystander;
EXECUTE rights_seen;
RESET ROLE;
REVOKE rights_app FROM rights_bystander;
SET ROLE rights_bystander;
EXECUTE rights_seen;
RESET ROLE;
-- inside REPEATABLE READ: rights are always today's
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1 AS snapshot_taken;
SELECT mw_grant_tenant('rt-b', 'rights_app');
SET LOCAL ROLE rights_app;
SELECT mw.may_act('rt-b');
ROLLBACK;
-- a savepoint rolled back takes the grant with it
BEGIN;
SAVEPOINT s;
SELECT mw_grant_tenant('rt-b', 'rights_app');
SET LOCAL ROLE rights_app;
SELECT mw.may_act('rt-b');
ROLLBACK TO s;
SET LOCAL ROLE rights_app;
SELECT mw.may_act('rt-b');
ROLLBACK;
-- a role without BYPASSRLS sees no more what it saw with it, through a plan that is kept
ALTER ROLE rights_bypass NOBYPASSRLS;
SET ROLE rights_bypass;
SELECT count(*) FROM mw.tenant;
RESET ROLE;

-- nothing that a caller sets captures mw's own statements
CREATE SCHEMA rights_trap;
GRANT USAGE ON SCHEMA rights_trap TO PUBLIC;
CREATE FUNCTION rights_trap.equal(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'captured'; END $$;
CREATE OPERATOR rights_trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = rights_trap.equal);
SET search_path = rights_trap, pg_catalog, public;
SET row_security = off;
SET ROLE rights_app;
SELECT public.mw_channel('rt-a') IS NOT NULL AS not_captured;
RESET ROLE;
SELECT public.mw_alter_tenant('rt-a', '{"retry": 2}');
RESET row_security;
RESET search_path;
DROP SCHEMA rights_trap CASCADE;

-- may_act cannot be had by a parallel worker, which knows no call
SELECT provolatile, proparallel, proisstrict FROM pg_proc WHERE oid = 'mw.may_act'::regproc;

DEALLOCATE rights_seen;
SELECT mw_revoke_tenant('*', 'rights_all');
SELECT mw_drop_tenant('rt-a');
SELECT mw_drop_tenant('rt-b');
DELETE FROM mw.purge WHERE tenant LIKE 'rt-%' OR tenant LIKE 'o%';
DROP FUNCTION rights_may(), rights_tell(text);
DROP ROLE rights_inherits, rights_noinherit, rights_app, rights_all, rights_bystander, rights_bypass;
