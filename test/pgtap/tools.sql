-- Risk: a model is told something else of a function than the function takes, or
-- an administrator's mistake is found by a run and not by him.
BEGIN;
SELECT plan(45);

SELECT mw_create_tenant('pgtap-reg');
CREATE SCHEMA pgtap_reg;
CREATE ROLE pgtap_reg_user;
GRANT USAGE ON SCHEMA pgtap_reg TO pgtap_reg_user;

-- the schema that a model is shown, alone
CREATE FUNCTION pg_temp.params(tool text) RETURNS jsonb LANGUAGE sql AS
	$$SELECT mw_describe_tool('pgtap-reg', tool)->'function'->'parameters'$$;
CREATE FUNCTION pg_temp.prop(tool text, arg text) RETURNS jsonb LANGUAGE sql AS
	$$SELECT pg_temp.params(tool)->'properties'->arg$$;

-- ---------- the schema of a signature ----------

CREATE TYPE pgtap_reg.mood AS ENUM ('sad', 'happy');
CREATE TYPE pgtap_reg.address AS (street text, zip integer);
COMMENT ON COLUMN pgtap_reg.address.zip IS 'five digits';
CREATE DOMAIN pgtap_reg.email AS text CHECK (VALUE ~ '@');
COMMENT ON DOMAIN pgtap_reg.email IS 'an address';
CREATE FUNCTION pgtap_reg.all_types(
	i integer, f double precision, n numeric, b boolean, t text, u uuid, d date, ts timestamptz, tm time, iv interval,
	mood pgtap_reg.mood, email pgtap_reg.email, home pgtap_reg.address, tags text[], homes pgtap_reg.address[], j jsonb, r int4range,
	rate numeric DEFAULT 2.5, lang text DEFAULT 'en', big bigint DEFAULT 10, sure boolean DEFAULT true, later timestamptz DEFAULT now(),
	opts jsonb DEFAULT '{"a": 1}', nothing text DEFAULT NULL)
RETURNS text LANGUAGE sql AS 'SELECT 1::text';
COMMENT ON FUNCTION pgtap_reg.all_types IS 'takes all types';
SELECT lives_ok($$SELECT mw_create_tool('all_types', 'pgtap_reg.all_types')$$, 'a function by its name is a tool');
SELECT is(mw_describe_tool('pgtap-reg', 'all_types') #- '{function,parameters}',
	'{"type": "function", "function": {"name": "all_types", "description": "takes all types"}}', 'with its COMMENT as description');
SELECT is(pg_temp.prop('all_types', x.arg), x.schema, x.arg || ' has its type')
FROM (VALUES
	('i', '{"type": "integer"}'::jsonb), ('f', '{"type": "number"}'), ('n', '{"type": "number"}'), ('b', '{"type": "boolean"}'),
	('t', '{"type": "string"}'), ('u', '{"type": "string", "format": "uuid"}'), ('d', '{"type": "string", "format": "date"}'),
	('ts', '{"type": "string", "format": "date-time"}'), ('iv', '{"type": "string", "format": "duration"}'),
	('mood', '{"type": "string", "enum": ["sad", "happy"]}'),
	('email', '{"type": "string", "description": "an address CHECK ((VALUE ~ ''@''::text))"}'),
	('home', '{"type": "object", "additionalProperties": false, "properties": {"street": {"type": "string"}, "zip": {"type": "integer", "description": "five digits"}}}'),
	('tags', '{"type": "array", "items": {"type": "string"}}'), ('j', '{}'), ('r', '{"type": "string"}'),
	('rate', '{"type": "number", "default": 2.5}'), ('lang', '{"type": "string", "default": "en"}'), ('big', '{"type": "integer", "default": 10}'),
	('sure', '{"type": "boolean", "default": true}'), ('later', '{"type": "string", "format": "date-time"}'),
	('opts', '{"default": {"a": 1}}'), ('nothing', '{"type": "string"}')) AS x (arg, schema);
SELECT is(pg_temp.params('all_types')->'required',
	'["i", "f", "n", "b", "t", "u", "d", "ts", "tm", "iv", "mood", "email", "home", "tags", "homes", "j", "r"]', 'what has a DEFAULT is not required');
ALTER TYPE pgtap_reg.mood ADD VALUE 'calm' BEFORE 'happy';
SELECT is(pg_temp.prop('all_types', 'mood')->'enum', '["sad", "calm", "happy"]', 'a schema is as new as its function''s types');
CREATE FUNCTION pgtap_reg.nothing() RETURNS void LANGUAGE sql AS '';
SELECT mw_create_tool('nothing', 'pgtap_reg.nothing', 'does nothing');
SELECT is(mw_describe_tool('pgtap-reg', 'nothing')->'function',
	'{"name": "nothing", "description": "does nothing", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}',
	'a function without arguments has a schema too');

-- ---------- what is refused ----------

CREATE FUNCTION pgtap_reg.unnamed(integer) RETURNS text LANGUAGE sql AS 'SELECT 1::text';
CREATE FUNCTION pgtap_reg.twice(a integer) RETURNS text LANGUAGE sql AS 'SELECT 1::text';
CREATE FUNCTION pgtap_reg.twice(a text) RETURNS text LANGUAGE sql AS 'SELECT 1::text';
CREATE FUNCTION pgtap_reg.shapeless() RETURNS record LANGUAGE sql AS 'SELECT 1, 2';
CREATE FUNCTION pgtap_reg.poly(a anyelement) RETURNS text LANGUAGE sql AS 'SELECT 1::text';
CREATE PROCEDURE pgtap_reg.proc() LANGUAGE sql AS '';
CREATE FUNCTION pgtap_reg.takes_json(args jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT args';
SELECT throws_ok(x.call, 'MW001', NULL, x.why)
FROM (VALUES
	($$SELECT mw_create_tool('two words', 'pgtap_reg.nothing')$$, 'a name that providers refuse'),
	($$SELECT mw_create_tool('', 'pgtap_reg.nothing')$$, 'no name'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.nope')$$, 'a function that is not there'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.unnamed')$$, 'an argument without a name'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.twice')$$, 'one name for two functions'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.shapeless')$$, 'a record of unknown columns'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.poly')$$, 'an argument of any type'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.proc')$$, 'a procedure'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.nothing', tenant => 'pgtap-nobody')$$, 'an unknown tenant'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.all_types', parameters => '{"type": "object"}')$$, 'a schema for a function that does not take one jsonb'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.takes_json', parameters => '{"type": "objekt"}')$$, 'a schema that is none'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.takes_json', parameters => '{"type": "object", "properties": {"a": {"pattern": "("}}}')$$, 'a pattern that does not compile'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.takes_json', parameters => '{"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}')$$, 'a reference to nothing'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.nothing', options => '{"wirtes": true}')$$, 'an unknown option'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.nothing', options => '{"fixed": {"a": 1}}')$$, 'a fixed argument that the function has not'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.nothing', options => '{"reveal": ["NO_SUCH_TYPE"]}')$$, 'an unknown type of personal data'),
	($$SELECT mw_create_tool('t', 'pgtap_reg.nothing', options => '{"approval": {"allowed_decisions": ["maybe"]}}')$$, 'an unknown decision')
) AS x (call, why);
SELECT throws_ok($$SELECT mw_create_tool('nothing', 'pgtap_reg.nothing')$$, '42710', NULL, 'the same name twice');

SELECT * FROM finish();
ROLLBACK;
