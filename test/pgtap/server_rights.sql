-- Risk: that a role may use a server, or act for a tenant, is remembered from call to call and outlives a change.
BEGIN;
SELECT plan(13);

CREATE ROLE sr_a;
CREATE ROLE sr_b;
CREATE ROLE sr_staff;
CREATE SERVER sr FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_tenant('sr', '{"model": "sr:m"}');
SELECT mw_grant_tenant('sr', 'sr_a');
SELECT mw_grant_tenant('sr', 'sr_b');
SELECT mw_fake('sr', '[{"step": {"text": "fine"}}]');

CREATE FUNCTION pg_temp.says(role name) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	BEGIN
		said := mw_ask('sr', NULL, 'hello');
	EXCEPTION WHEN OTHERS THEN
		said := SQLSTATE;
	END;
	RESET ROLE;
	RETURN said;
END
$$;
CREATE FUNCTION pg_temp.own(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), role);
END
$$;

SELECT is(pg_temp.says('sr_a'), '42501', 'without USAGE nothing is asked');
GRANT USAGE ON FOREIGN SERVER sr TO sr_a;
SELECT is(pg_temp.says('sr_a'), 'fine', 'with it, it is');
SELECT is(pg_temp.says('sr_b'), '42501', '... by that role alone');
SELECT is(pg_temp.says('sr_a'), 'fine', '... and by it again');
REVOKE USAGE ON FOREIGN SERVER sr FROM sr_a;
SELECT is(pg_temp.says('sr_a'), '42501', 'a right that was taken away is gone at once');

GRANT USAGE ON FOREIGN SERVER sr TO sr_staff;
GRANT sr_staff TO sr_a;
SELECT is(pg_temp.says('sr_a'), 'fine', 'a member has what its group has');
REVOKE sr_staff FROM sr_a;
SELECT is(pg_temp.says('sr_a'), '42501', '... as long as it is one');
ALTER ROLE sr_a SUPERUSER;
SELECT is(pg_temp.says('sr_a'), 'fine', 'a superuser has it');
ALTER ROLE sr_a NOSUPERUSER;
SELECT is(pg_temp.says('sr_a'), '42501', '... as long as it is one');

-- who owns the database is a member of pg_database_owner without a row that says so
GRANT USAGE ON FOREIGN SERVER sr TO pg_database_owner;
SELECT mw_revoke_tenant('sr', 'sr_b');
SELECT mw_grant_tenant('sr', 'pg_database_owner');
SELECT is(pg_temp.says('sr_b'), 'MW101', 'a tenant of the database''s owner is nobody else''s');
SELECT pg_temp.own('sr_b');
SELECT is(pg_temp.says('sr_b'), 'fine', 'the owner has tenant and server');
SELECT pg_temp.own('sr_a');
SELECT is(pg_temp.says('sr_b'), 'MW101', '... until another is');
SELECT is(pg_temp.says('sr_a'), 'fine', '... who has them then');

SELECT * FROM finish();
ROLLBACK;
