-- Risk: administration takes what it does not understand, or does not say what to type instead.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS mw;
RESET client_min_messages;
CREATE ROLE admin_clerk;
CREATE ROLE admin_app;

CREATE FUNCTION admin_tell(sql text, OUT answer text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	code text; message text; detail text; hint text;
BEGIN
	EXECUTE sql;
	answer := 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	answer := code || ': ' || message
		|| CASE WHEN detail <> '' THEN E'\n  detail: ' || detail ELSE '' END
		|| CASE WHEN hint <> '' THEN E'\n  hint: ' || hint ELSE '' END;
END
$$;
\pset format unaligned
\pset tuples_only on

-- ---------- tenants ----------
SELECT admin_tell($$SELECT mw_create_tenant('ad-a')$$);
SELECT admin_tell($$SELECT mw_create_tenant('ad-a')$$);
SELECT admin_tell($$SELECT mw_create_tenant('ad-b', '{"model": "openai:gpt-4o", "cache": {"ttl": "5 minutes", "version": 2}, "retry": {"max_attempts": 5, "base": 0.25, "max": "1 min"}, "redact": true, "guardrail": false}')$$);
SELECT settings FROM mw.tenant WHERE tenant = 'ad-b';
SELECT admin_tell(format('SELECT mw_create_tenant(''ad-x'', %L)', s))
FROM unnest(ARRAY[
	'[]', '"x"', 'null',
	'{"timezone": "Mars/Olympus"}', '{"timezone": ""}', '{"timezone": 1}', '{"retention": 30}', '{"on_budget": {"end": 7}}', '{"on_budget": {"stop": "x"}}', '{"redakt": true}', '{"fallback": ["x"]}', '{"on_budget": "end"}',
	'{"redact": "yes"}', '{"guardrail": 1}', '{"model": "gpt-4o"}', '{"model": ":x"}', '{"model": "x:"}', '{"model": 7}',
	'{"cache": 1}', '{"cache": {"tll": 1}}', '{"cache": {"ttl": 0}}', '{"cache": {"ttl": -5}}', '{"cache": {"ttl": "soon"}}', '{"cache": {"ttl": true}}',
	'{"cache": {"version": -1}}', '{"cache": {"version": 1.5}}', '{"cache": {"version": 1e30}}',
	'{"retry": 0}', '{"retry": 21}', '{"retry": 1.5}', '{"retry": "3"}', '{"retry": {"tries": 3}}', '{"retry": {"base": -1}}', '{"retry": {"max": "2 days"}}'
]) AS s;
SELECT admin_tell(format('SELECT mw_create_tenant(%L)', t)) FROM unnest(ARRAY['', '*', repeat('z', 256), E'a\nb']) AS t;
-- the longest name is fine, in characters of more than one byte too
SELECT admin_tell(format('SELECT mw_create_tenant(%L)', repeat('é', 127)));
SELECT admin_tell(format('SELECT mw_drop_tenant(%L)', repeat('é', 127)));
-- alter merges, null removes
SELECT admin_tell($$SELECT mw_alter_tenant('ad-b', '{"cache": {"ttl": null}, "retry": null, "redact": null, "guardrail": true}')$$);
SELECT settings FROM mw.tenant WHERE tenant = 'ad-b';
SELECT admin_tell($$SELECT mw_alter_tenant('ad-b', '{"cache": false}')$$);
SELECT admin_tell($$SELECT mw_alter_tenant('ad-b', '{"cache": {"ttl": 60}}')$$);
SELECT settings FROM mw.tenant WHERE tenant = 'ad-b';
SELECT admin_tell($$SELECT mw_alter_tenant('ad-b', '{"colour": "blue"}')$$);
SELECT admin_tell($$SELECT mw_alter_tenant('ad-b', '{"cache": {"tll": 1}}')$$);
SELECT admin_tell($$SELECT mw_alter_tenant('ad-none', '{}')$$);
SELECT admin_tell($$SELECT mw_drop_tenant('ad-none')$$);
SELECT admin_tell($$SELECT mw_drop_tenant('*')$$);
-- what the gateway has not erased yet of an earlier tenant is not the next one's
INSERT INTO mw.spent (tenant) VALUES ('ad-ghost');
SELECT admin_tell($$SELECT mw_create_tenant('ad-ghost')$$);
DELETE FROM mw.spent WHERE tenant = 'ad-ghost';

-- ---------- grants ----------
SELECT admin_tell($$SELECT mw_grant_tenant('ad-a', 'admin_app')$$);
SELECT admin_tell($$SELECT mw_grant_tenant('ad-a', 'admin_app')$$);
SELECT admin_tell($$SELECT mw_grant_tenant('ad-none', 'admin_app')$$);
SELECT admin_tell($$SELECT mw_grant_tenant('ad-a', 'admin_nobody')$$);
SELECT admin_tell($$SELECT mw_grant_tenant('ad-a', 4294967290::oid::regrole)$$);
SELECT * FROM mw.tenant_grant WHERE tenant LIKE 'ad-%';
SELECT mw_revoke_tenant('ad-a', 'admin_app');
SELECT mw_revoke_tenant('ad-a', 'admin_app');

-- ---------- budgets ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_set_budget('ad-a', 'tokens', 1000)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 2000)$$,
	$$SELECT mw_set_budget('ad-a', 'requests', 0, session => '*')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 'Infinity', session => 's1')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 9007199254740992, session => 's2')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 9007199254740993)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 'NaN')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', '-Infinity')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', -1)$$,
	$$SELECT mw_set_budget('ad-a', 'requests', 1.5)$$,
	$$SELECT mw_set_budget('ad-a', 'cost', 5)$$,
	$$SELECT mw_set_budget('ad-a', 'cost', 0.000000000001, per => 'hour')$$,
	$$SELECT mw_set_budget('ad-a', 'cost', 0.0000000000001)$$,
	$$SELECT mw_set_budget('ad-a', 'cost', -0.01)$$,
	$$SELECT mw_set_budget('ad-a', 'cost', 'NaN')$$,
	$$SELECT mw_set_budget('ad-a', 'cost', 1e15)$$,
	$$SELECT mw_set_budget('ad-a', 'euros', 5)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 5, per => 'day')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 5, per => 'week')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 2000, soft => 0.8)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 5, soft => 0)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 5, soft => 1.01)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 5, soft => 'NaN')$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 'Infinity', soft => 0.5)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', NULL, soft => 0.5)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 5, session => '')$$,
	$$SELECT mw_set_budget('ad-none', 'tokens', 5)$$,
	$$SELECT mw_set_budget('*', 'tokens', 5)$$
]) AS c;
SELECT session, unit, per, amount, soft FROM mw.budget WHERE tenant = 'ad-a' ORDER BY scope, unit, per;
-- a session's may be larger than its tenant's, which is said
SELECT mw_set_budget('ad-a', 'tokens', 3000, session => 's3');
SELECT mw_set_budget('ad-a', 'tokens', NULL, session => 's3');
SELECT mw_set_budget('ad-a', 'tokens', NULL, per => 'day');
SELECT mw_set_budget('ad-a', 'cost', NULL, per => 'hour');
SELECT mw_set_budget('ad-a', 'tokens', NULL);
SELECT mw_set_budget('ad-a', 'tokens', NULL, 's1');
SELECT session, unit, per, amount FROM mw.budget WHERE tenant = 'ad-a' ORDER BY scope, unit;

-- ---------- prices ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_set_price('openai:gpt-4o-mini', 0.15, 0.60)$$,
	$$SELECT mw_set_price('openai:gpt-4o-mini', 0.15, 0.60, 0.075, '2026-01-01 00:00+00')$$,
	$$SELECT mw_set_price('openai:gpt-4o-mini', 0.10, 0.50, NULL, '2026-01-01 00:00+00')$$,
	$$SELECT mw_set_price('local:free', 0, 0, valid_from => '-infinity')$$,
	$$SELECT mw_set_price('gpt-4o-mini', 0.15, 0.60)$$,
	$$SELECT mw_set_price(NULL, 0.15, 0.60)$$,
	$$SELECT mw_set_price('openai:x', NULL, 0.60)$$,
	$$SELECT mw_set_price('openai:x', 1, NULL)$$,
	$$SELECT mw_set_price('openai:x', -1, 1)$$,
	$$SELECT mw_set_price('openai:x', 1, 'NaN')$$,
	$$SELECT mw_set_price('openai:x', 1, 'Infinity')$$,
	$$SELECT mw_set_price('openai:x', 0.0000001, 1)$$,
	$$SELECT mw_set_price('openai:x', 1000000001, 1)$$,
	$$SELECT mw_set_price('openai:x', 1, 1, -0.5)$$,
	$$SELECT mw_set_price('openai:x', 1, 1, valid_from => NULL)$$,
	$$SELECT mw_set_price('openai:x', 1, 1, valid_from => 'infinity')$$,
	$$SELECT mw_drop_price('openai:x')$$,
	$$SELECT mw_drop_price('openai:gpt-4o-mini', '2025-01-01')$$
]) AS c;
SELECT model, valid_from <= '2026-01-01 00:00+00' AS early, input, output, cached_input FROM mw.price WHERE model LIKE 'openai:%' ORDER BY valid_from;
SELECT mw_drop_price('openai:gpt-4o-mini', '2026-01-01 00:00+00');
SELECT count(*) FROM mw.price WHERE model = 'openai:gpt-4o-mini';
SELECT mw_drop_price('openai:gpt-4o-mini');
SELECT mw_drop_price('local:free');

-- ---------- purges ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_purge_cache('ad-a')$$,
	$$SELECT mw_purge_cache('ad-a')$$,
	$$SELECT mw_purge_cache('ad-none')$$,
	$$SELECT mw_purge_cache('ad-a', model => 'x:y')$$,
	$$SELECT mw_purge_cache('ad-a', age => '1 day')$$
]) AS c;
SELECT tenant, epoch > 0 FROM mw.purge WHERE tenant LIKE 'ad-%' ORDER BY tenant;

-- ---------- models ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_set_model('ad:m', '{"max_input_tokens": 8192, "max_output_tokens": 1024}')$$,
	$$SELECT mw_alter_model('ad:m', '{"max_input_tokens": null}')$$,
	$$SELECT mw_alter_model('ad:none', '{}')$$,
	$$SELECT mw_set_model('m', '{}')$$,
	$$SELECT mw_set_model('ad:m', '{"max_output_tokens": 0}')$$,
	$$SELECT mw_set_model('ad:m', '{"max_output_tokens": "many"}')$$,
	$$SELECT mw_set_model('ad:m', '{"price": 1}')$$,
	$$SELECT mw_set_model('ad:m', '[]')$$
]) AS c;
SELECT model, settings FROM mw.model WHERE model LIKE 'ad:%';
SELECT admin_tell($$SELECT mw_drop_model('ad:m')$$);
SELECT admin_tell($$SELECT mw_drop_model('ad:m')$$);

-- ---------- recognizers ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_create_recognizer('BADGE', 'B-\d{4}', '{"strategy": "mask", "context": ["badge", "no."], "priority": 7, "validator": "luhn"}')$$,
	$$SELECT mw_create_recognizer('BADGE', 'B-\d{4}')$$,
	$$SELECT mw_create_recognizer('BADGE', 'X-\d{4}', tenant => 'ad-a')$$,
	$$SELECT mw_create_recognizer('BADGE', 'X-\d{4}', tenant => 'ad-none')$$,
	$$SELECT mw_create_recognizer('badge', 'x')$$,
	$$SELECT mw_create_recognizer('', 'x')$$,
	$$SELECT mw_create_recognizer('BAD', 'x*')$$,
	$$SELECT mw_create_recognizer('BAD', '')$$,
	$$SELECT mw_create_recognizer('BAD', 'x', '{"strategy": "hide"}')$$,
	$$SELECT mw_create_recognizer('BAD', 'x', '{"priority": 1.5}')$$,
	$$SELECT mw_create_recognizer('BAD', 'x', '{"weight": 1}')$$,
	$$SELECT mw_create_recognizer('email', 'x@y')$$,
	$$SELECT mw_alter_recognizer('EMAIL', '{"strategy": "redact"}')$$,
	$$SELECT mw_alter_recognizer('BADGE', '{"strategy": null, "context": null, "pattern": "C-\\d{4}"}')$$,
	$$SELECT mw_alter_recognizer('BADGE', '{"strategy": "block"}', 'ad-a')$$,
	$$SELECT mw_alter_recognizer('NOSUCH', '{}')$$
]) AS c;
SELECT tenant, pii_type, strategy, validator, context, priority, builtin
FROM mw.recognizer WHERE pii_type IN ('BADGE', 'EMAIL') ORDER BY tenant, pii_type, builtin, priority DESC;
-- what PCRE2 says of a wrong pattern differs between its versions
SELECT split_part(admin_tell(c), E'\n', 1) FROM unnest(ARRAY[
	$$SELECT mw_create_recognizer('BAD', 'x(')$$,
	$$SELECT mw_create_recognizer('BAD', 'x', '{"context": "("}')$$,
	$$SELECT mw_create_guard('bad', '[')$$
]) AS c;
-- dropping the changes of a built-in one brings it back; it does not go itself
SELECT admin_tell($$SELECT mw_drop_recognizer('EMAIL')$$);
SELECT admin_tell($$SELECT mw_drop_recognizer('EMAIL')$$);
SELECT pii_type, builtin FROM mw.recognizer WHERE pii_type = 'EMAIL';
SELECT admin_tell($$SELECT mw_drop_recognizer('BADGE')$$);
SELECT admin_tell($$SELECT mw_drop_recognizer('BADGE')$$);
SELECT admin_tell($$SELECT mw_create_recognizer('BAD', 'x', '{"validator": "nosuch"}')$$) LIKE 'MW001: validator "nosuch" does not exist%hint: Allowed are: %luhn%';

-- ---------- guards ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_create_guard('sesame', 'open sesame', '{"category": "magic", "weight": 0.5, "mode": "log"}')$$,
	$$SELECT mw_create_guard('sesame', 'open sesame')$$,
	$$SELECT mw_create_guard('sesame', 'sesame', tenant => 'ad-a')$$,
	$$SELECT mw_create_guard('', 'x')$$,
	$$SELECT mw_create_guard('bad', 'x', '{"weight": -1}')$$,
	$$SELECT mw_create_guard('bad', 'x', '{"weight": 1e400}')$$,
	$$SELECT mw_create_guard('bad', 'x', '{"mode": "maybe"}')$$,
	$$SELECT mw_create_guard('bad', 'x', '{"threshold": 2}')$$,
	$$SELECT mw_alter_guard('sesame', '{"weight": null, "mode": "block"}')$$,
	$$SELECT mw_alter_guard('nosuch', '{}')$$
]) AS c;
SELECT tenant, guard, category, weight, mode, builtin FROM mw.guard WHERE NOT builtin ORDER BY tenant, guard;
SELECT admin_tell($$SELECT mw_drop_guard('sesame')$$);
SELECT admin_tell($$SELECT mw_drop_guard('sesame')$$);
-- switched off, and back: by the name of one that is built in
SELECT guard AS builtin_guard FROM mw.guard WHERE builtin ORDER BY guard LIMIT 1 \gset
SELECT mw_alter_guard(:'builtin_guard', '{"mode": "off"}');
SELECT builtin, mode FROM mw.guard WHERE guard = :'builtin_guard' ORDER BY builtin;
SELECT mw_drop_guard(:'builtin_guard');
SELECT count(*) FROM mw.guard WHERE guard = :'builtin_guard';
SELECT split_part(admin_tell(format('SELECT mw_drop_guard(%L)', :'builtin_guard')), ':', 1);

-- what a caller is told of a rule: whose decision it is, and the tenant where the rule is its own
CREATE SERVER ad_rules FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
SELECT mw_create_guard('sesame', 'open sesame', tenant => 'ad-b');
SELECT mw_create_guard('tapioca', 'open tapioca');
SELECT mw_create_recognizer('BADGE', 'B-\d{4}', '{"strategy": "block"}', 'ad-b');
SELECT mw_alter_recognizer('SSN', '{"strategy": "block"}');
SELECT regexp_replace(admin_tell(format('SELECT mw_ask(''ad-b'', NULL, %L, model => ''ad_rules:m'')', p)), '\nrequest_id: \S+', '')
FROM unnest(ARRAY['open sesame', 'open tapioca', 'my badge is B-1234', 'my number is 536-22-1234']) AS p;
SELECT mw_drop_recognizer('SSN');
SELECT mw_drop_recognizer('BADGE', 'ad-b');
SELECT mw_drop_guard('tapioca');
SELECT mw_drop_guard('sesame', 'ad-b');
DROP SERVER ad_rules;

-- ---------- NULL, and what else is no argument ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_create_tenant(NULL)$$,
	$$SELECT mw_create_tenant('ad-x', NULL)$$,
	$$SELECT mw_create_tenant('ad-x', '[]')$$,
	$$SELECT mw_grant_tenant('ad-a', NULL)$$,
	$$SELECT mw_set_budget('ad-a', NULL, 5)$$,
	$$SELECT mw_set_budget('ad-a', 'tokens', 5, per => NULL)$$,
	$$SELECT mw_set_model(NULL, '{}')$$,
	$$SELECT mw_create_recognizer(NULL, 'x')$$,
	$$SELECT mw_create_recognizer('BAD', NULL)$$,
	$$SELECT mw_create_recognizer('BAD', 'x', NULL)$$,
	$$SELECT mw_create_recognizer('BAD', 'x', '{"context": [1]}')$$,
	$$SELECT mw_drop_guard(NULL)$$,
	$$SELECT mw_redact('x', NULL, '{"types": ["EMIAL"]}')$$,
	$$SELECT mw_redact('x', NULL, '{"strategies": {"email": "hide"}}')$$,
	$$SELECT mw_redact('x', NULL, '{"type": "EMAIL"}')$$,
	$$SELECT mw_redact('x', NULL, '[]')$$,
	$$SELECT mw_guard('x', NULL, '{"mode": "log"}')$$
]) AS c;

-- ---------- servers ----------
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$CREATE SERVER ad_real FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://api.example.com/v1')$$,
	$$CREATE SERVER ad_bad FOREIGN DATA WRAPPER mw$$,
	$$CREATE SERVER ad_bad FOREIGN DATA WRAPPER mw OPTIONS (api 'openai')$$,
	$$CREATE SERVER ad_bad FOREIGN DATA WRAPPER mw OPTIONS (api 'nosuch', base_url 'https://api.example.com/v1')$$,
	$$CREATE SERVER ad_bad FOREIGN DATA WRAPPER mw OPTIONS (api 'fake', url 'https://api.example.com/v1')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD connect_timeout '2 hours')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD max_response '12')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD retry_unknown 'perhaps')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD ca_file 'relative.pem')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD proxy 'proxy')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD max_tokens_field 'a b')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD min_tls '1.1')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD stall_timeout '0')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD stall_bytes '0')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD client_key '/k.pem')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD proxy 'http://user:secret@proxy.example:3128')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD min_tls '1.3', ADD stall_timeout '30', ADD stall_bytes '100', ADD client_cert '/c.pem', ADD client_key '/k.pem')$$,
	$$ALTER SERVER ad_real OPTIONS (DROP min_tls, DROP client_cert, DROP client_key)$$,
	$$ALTER SERVER ad_real OPTIONS (DROP api)$$,
	$$ALTER SERVER ad_real OPTIONS (ADD connect_timeout '5 s', ADD max_response '1048576', ADD retry_unknown 'true', ADD max_tokens_field 'max_completion_tokens')$$,
	$$CREATE USER MAPPING FOR PUBLIC SERVER ad_real OPTIONS (key 'k')$$,
	$$CREATE USER MAPPING FOR PUBLIC SERVER ad_real OPTIONS (api_key 'k', api_key_file '/k')$$,
	$$CREATE USER MAPPING FOR PUBLIC SERVER ad_real OPTIONS (api_key E'k\nX-Other: 1')$$,
	$$CREATE USER MAPPING FOR PUBLIC SERVER ad_real OPTIONS (api_key_file 'k')$$,
	$$CREATE USER MAPPING FOR PUBLIC SERVER ad_real OPTIONS (api_key_file '/k')$$,
	$$ALTER SERVER ad_real OPTIONS (SET connect_timeout 'soon')$$,
	$$CREATE FOREIGN TABLE ad_table (x int) SERVER ad_real OPTIONS (a 'b')$$
]) AS c;
-- where a server may be: one spelling of a host, and never a link-local address
SELECT u, admin_tell(format('ALTER SERVER ad_real OPTIONS (SET base_url %L)', u))
FROM unnest(ARRAY[
	'https://api.example.com', 'http://127.0.0.1:8080/v1', 'http://[::1]:8080/v1', 'http://ollama_1:11434/v1',
	'ftp://x.example', 'x.example/v1', 'https://', 'https:///v1', 'https://user:secret@x.example/v1', 'https://x.example/v1?key=1', 'https://x.example/v1#a',
	'https://x.example/a b', E'https://x.example/\nv1', 'https://x.example\@y.example/', 'https://ex ample', 'https://bücher.example/v1',
	'https://x.example:0/v1', 'https://x.example:65536/v1', 'https://x.example:8o/v1', 'https://x.example./v1', 'https://.example/v1',
	'http://169.254.169.254/latest', 'http://2852039166/latest', 'http://0xA9FEA9FE/latest', 'http://169.254.43518/latest', 'http://[::ffff:169.254.169.254]/', 'http://[fe80::1]/', 'http://0.0.0.0/'
]) AS u;

-- what the log would print: CREATE TABLE … AS SELECT mw_ask(…) is ddl, INSERT … SELECT mw_ask(…) is mod
SET log_statement = 'ddl';
SELECT status, detail ~ 'log_statement = ddl' FROM mw_doctor() WHERE name = 'log';
SET log_statement = 'mod';
SELECT status, detail ~ 'log_statement = mod' FROM mw_doctor() WHERE name = 'log';
SET log_statement = 'none';
SELECT detail ~ 'log_statement' FROM mw_doctor() WHERE name = 'log';
RESET log_statement;

-- DROP ROLE leaves grants behind, which the statements of the hint take away
SELECT mw_create_tenant('ad-left');
CREATE ROLE ad_left;
SELECT mw_grant_tenant('ad-left', 'ad_left'), mw_grant_reviewer('ad-left', 'ad_left');
DROP ROLE ad_left;
SELECT status, detail, hint FROM mw_doctor() WHERE name = 'dropped roles';
SELECT mw_revoke_tenant(tenant, grantee) FROM mw.tenant_grant WHERE grantee::oid NOT IN (SELECT oid FROM pg_roles);
SELECT mw_revoke_reviewer(tenant, grantee) FROM mw.reviewer WHERE grantee::oid NOT IN (SELECT oid FROM pg_roles);
SELECT status, detail FROM mw_doctor() WHERE name = 'dropped roles';
SELECT mw_drop_tenant('ad-left');

-- what an administrator gets wrong about keys: a server without one, and a file that is not there, or no file
CREATE SERVER ad_outside FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://llm.example/v1');
CREATE SERVER ad_fake FOREIGN DATA WRAPPER mw OPTIONS (api 'fake', base_url 'https://llm.example/v1');
SELECT status, detail, hint FROM mw_doctor() WHERE name = 'user mappings';
CREATE USER MAPPING FOR PUBLIC SERVER ad_outside OPTIONS (api_key_file '/nowhere/key');
SELECT status, detail, hint FROM mw_doctor() WHERE name IN ('user mappings', 'key files') ORDER BY name;
ALTER USER MAPPING FOR PUBLIC SERVER ad_outside OPTIONS (SET api_key_file '/dev/zero');
SELECT status, detail FROM mw_doctor() WHERE name = 'key files';
DROP SERVER ad_outside, ad_fake CASCADE;
SELECT status, detail FROM mw_doctor() WHERE name = 'key files';

-- ---------- who may: EXECUTE makes an administrator, nothing else does ----------
SET ROLE admin_clerk;
SELECT admin_tell($$SELECT mw_create_tenant('ad-c')$$);
SELECT admin_tell($$SELECT * FROM mw_doctor()$$);
RESET ROLE;
GRANT EXECUTE ON FUNCTION mw_create_tenant, mw_drop_tenant, mw_grant_tenant, mw_set_budget, mw_doctor TO admin_clerk;
SET ROLE admin_clerk;
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$SELECT mw_create_tenant('ad-c')$$, $$SELECT mw_grant_tenant('ad-c', 'admin_app')$$, $$SELECT mw_set_budget('ad-c', 'tokens', 5)$$,
	$$INSERT INTO mw.tenant VALUES ('ad-d')$$, $$SELECT mw_alter_tenant('ad-c', '{}')$$
]) AS c;
SELECT count(*) > 10 FROM mw_doctor() WHERE status IN ('ok', 'warning', 'error') AND detail <> '' AND (status = 'ok' OR hint <> '');
-- but an administrator does not act for a tenant by being one
SELECT mw.may_act('ad-c');
SELECT admin_tell($$SELECT mw_drop_tenant('ad-c')$$);
RESET ROLE;

-- options that say where keys and prompts go are for superusers, in ALTER as well
GRANT USAGE ON FOREIGN DATA WRAPPER mw TO admin_clerk;
ALTER SERVER ad_real OWNER TO admin_clerk;
SET ROLE admin_clerk;
SELECT admin_tell(c) FROM unnest(ARRAY[
	$$ALTER SERVER ad_real OPTIONS (SET connect_timeout '7')$$,
	$$ALTER SERVER ad_real OPTIONS (SET base_url 'https://elsewhere.example')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD allow_private 'true')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD proxy 'http://elsewhere.example:1')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD client_cert '/etc/passwd')$$,
	$$ALTER SERVER ad_real OPTIONS (ADD min_tls '1.2')$$,
	$$CREATE SERVER ad_mine FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'https://elsewhere.example')$$,
	$$CREATE USER MAPPING FOR admin_clerk SERVER ad_real OPTIONS (api_key_file '/etc/passwd')$$,
	$$CREATE USER MAPPING FOR admin_clerk SERVER ad_real OPTIONS (api_key 'mine')$$,
	$$CREATE SERVER ad_fake FOREIGN DATA WRAPPER mw OPTIONS (api 'fake')$$
]) AS c;
RESET ROLE;

-- ---------- a read-only transaction stays one ----------
BEGIN READ ONLY;
SELECT admin_tell($$SELECT mw_create_tenant('ad-e')$$);
ROLLBACK;

\pset tuples_only off
\pset format aligned
DROP SERVER ad_real CASCADE;
DROP SERVER ad_fake CASCADE;
SELECT mw_drop_tenant('ad-a');
SELECT mw_drop_tenant('ad-b');
DELETE FROM mw.purge WHERE tenant LIKE 'ad-%' OR tenant LIKE 'é%';
DROP FUNCTION admin_tell(text);
REVOKE ALL ON FUNCTION mw_create_tenant, mw_drop_tenant, mw_grant_tenant, mw_set_budget, mw_doctor FROM admin_clerk;
REVOKE ALL ON FOREIGN DATA WRAPPER mw FROM admin_clerk;
DROP ROLE admin_clerk, admin_app;
