-- Tables.  Each belongs to one writer: callers' transactions or the gateway, never both
-- (see ARCHITECTURE.md).  Every table with a tenant has it first in its primary key and
-- forces row-level security; the policies stand in 90_grants.sql.

-- ---------- written by callers ----------

CREATE TABLE mw.secret (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	key bytea NOT NULL CHECK (octet_length(key) = 32)
);
COMMENT ON TABLE mw.secret IS 'the key of this database (32 bytes): fingerprints of requests, names of channels; nobody has a right on it';
SELECT pg_catalog.pg_extension_config_dump('mw.secret', '');

CREATE TABLE mw.tenant (
	tenant text COLLATE "C" PRIMARY KEY CHECK (tenant <> '' AND tenant <> '*' AND octet_length(tenant) <= 255),
	settings jsonb NOT NULL DEFAULT '{}',
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE mw.tenant IS 'customers of the application';
SELECT pg_catalog.pg_extension_config_dump('mw.tenant', '');

-- no foreign key to mw.tenant: '*' grants all tenants
CREATE TABLE mw.tenant_grant (
	tenant text COLLATE "C" NOT NULL,
	grantee regrole NOT NULL,
	PRIMARY KEY (tenant, grantee)
);
COMMENT ON TABLE mw.tenant_grant IS 'which roles may act for a tenant; ''*'' is all of them';
SELECT pg_catalog.pg_extension_config_dump('mw.tenant_grant', 'WHERE grantee::oid IN (SELECT oid FROM pg_catalog.pg_roles)');

CREATE TABLE mw.budget (
	tenant text COLLATE "C" NOT NULL REFERENCES mw.tenant ON DELETE CASCADE,
	session text COLLATE "C",					-- NULL: the tenant as a whole, '*': each session
	unit text NOT NULL CHECK (unit IN ('requests', 'tokens', 'cost')),
	per text NOT NULL DEFAULT 'forever' CHECK (per IN ('forever', 'minute', 'hour', 'day', 'month')),
	amount numeric NOT NULL CHECK (amount >= 0),
	soft numeric CHECK (soft > 0 AND soft <= 1),	-- share of it at which to tell
	scope text GENERATED ALWAYS AS (CASE WHEN session IS NULL THEN 't' ELSE 's' || session END) STORED,
	PRIMARY KEY (tenant, scope, unit, per)
);
COMMENT ON TABLE mw.budget IS 'limits; what is used of them stands in mw.budget_status';
SELECT pg_catalog.pg_extension_config_dump('mw.budget', '');

CREATE TABLE mw.model (
	tenant text COLLATE "C" NOT NULL DEFAULT '*',
	model text NOT NULL CHECK (model <> ''),
	settings jsonb NOT NULL DEFAULT '{}',
	PRIMARY KEY (tenant, model)
);
COMMENT ON TABLE mw.model IS 'catalogue of models: context and answer sizes';
SELECT pg_catalog.pg_extension_config_dump('mw.model', '');

CREATE TABLE mw.price (
	tenant text COLLATE "C" NOT NULL DEFAULT '*',
	model text NOT NULL CHECK (model <> ''),
	valid_from timestamptz NOT NULL,
	input numeric NOT NULL CHECK (input >= 0),		-- per million tokens, six decimals at most
	output numeric NOT NULL CHECK (output >= 0),
	cached_input numeric CHECK (cached_input >= 0),	-- NULL: as input
	PRIMARY KEY (tenant, model, valid_from)
);
COMMENT ON TABLE mw.price IS 'what models cost per million tokens, from a moment on';
SELECT pg_catalog.pg_extension_config_dump('mw.price', '');

CREATE TABLE mw.recognizer (
	tenant text COLLATE "C" NOT NULL DEFAULT '*',
	pii_type text NOT NULL CHECK (pii_type ~ '^[A-Z][A-Z0-9_]{0,62}$'),
	pattern text,
	function text,					-- or who finds it: an SQL function, or server:NAME of an analyzer
	validator text,
	context text,
	priority integer NOT NULL DEFAULT 0,
	strategy text NOT NULL DEFAULT 'placeholder' CHECK (strategy IN ('mask', 'placeholder', 'hash', 'redact', 'block')),
	prefilter text,					-- where matches begin (src/stage/pii_gate.h)
	on_demand boolean NOT NULL DEFAULT false,	-- only where the type is asked for by name or preset
	builtin boolean NOT NULL DEFAULT false,
	id integer NOT NULL DEFAULT 0,	-- several patterns of one type
	CHECK (num_nonnulls(pattern, function) = 1),
	PRIMARY KEY (tenant, pii_type, builtin, id)	-- an administrator's rows stand beside the built-in ones: a dump must restore
);
COMMENT ON TABLE mw.recognizer IS 'what personal data looks like; a tenant''s rows of a type replace those of ''*'', an administrator''s the built-in ones, which are listed here and read from the library';
SELECT pg_catalog.pg_extension_config_dump('mw.recognizer', 'WHERE NOT builtin');

CREATE TABLE mw.guard (
	tenant text COLLATE "C" NOT NULL DEFAULT '*',
	guard text NOT NULL CHECK (guard <> ''),
	kind text NOT NULL DEFAULT 'pattern' CHECK (kind IN ('pattern', 'check', 'learned', 'function', 'model')),
	pattern text CHECK ((pattern IS NOT NULL) = (kind = 'pattern')),
	function text CHECK ((function IS NOT NULL) = (kind = 'function')),	-- a signature: a regprocedure column makes pg_upgrade refuse
	model text CHECK ((model IS NOT NULL) = (kind = 'model')),
	question text CHECK ((question IS NOT NULL) = (kind = 'model')),
	category text NOT NULL DEFAULT 'injection',
	weight double precision NOT NULL DEFAULT 1 CHECK (weight >= 0 AND weight < 'Infinity'),
	threshold double precision NOT NULL DEFAULT 0.5 CHECK (threshold > 0 AND threshold <= 1),
	sources text[] NOT NULL DEFAULT '{user,tool,document}' CHECK (sources <@ '{user,tool,document,output}'),
	mode text NOT NULL DEFAULT 'block' CHECK (mode IN ('off', 'log', 'block')),
	builtin boolean NOT NULL DEFAULT false,
	PRIMARY KEY (tenant, guard, builtin)
);
COMMENT ON TABLE mw.guard IS 'what an injection looks like, on the normalised text; a tenant''s row of a name wins, then an administrator''s, then the built-in one';
SELECT pg_catalog.pg_extension_config_dump('mw.guard', 'WHERE NOT builtin');

-- A purge is a fact that look-ups honour at once; the gateway deletes rows later.
CREATE TABLE mw.purge (
	tenant text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	purged_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant)
);
COMMENT ON TABLE mw.purge IS 'the newest purge of a tenant''s cache; rows of an older epoch are never answers';
SELECT pg_catalog.pg_extension_config_dump('mw.purge', '');

CREATE TABLE mw.result (
	tenant text COLLATE "C" NOT NULL,
	request_id text COLLATE "C" NOT NULL,
	fingerprint bytea NOT NULL,
	session text COLLATE "C",
	result jsonb NOT NULL,			-- placeholders for what its caller gave; restored from the current caller's own prompt
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, request_id)
);
COMMENT ON TABLE mw.result IS 'results of committed runs that had a request_id of their caller''s';
SELECT pg_catalog.pg_extension_config_dump('mw.result', '');

-- ---------- written by the gateway ----------

CREATE TABLE mw.attempt (
	tenant text COLLATE "C" NOT NULL,
	run_id uuid NOT NULL,
	call integer NOT NULL,
	attempt integer NOT NULL,
	session text COLLATE "C",
	request_id text COLLATE "C" NOT NULL,
	request_named boolean NOT NULL,
	turn integer NOT NULL,
	purpose text NOT NULL,
	model text NOT NULL,
	call_key bytea,
	nth integer,
	started_at timestamptz NOT NULL,
	finished_at timestamptz,
	outcome text NOT NULL,			-- running, ok, failed, unknown; no CHECK: it costs a twentieth of the gateway's time, which alone writes here
	http_status integer,
	input_tokens bigint,
	output_tokens bigint,
	cached_tokens bigint,
	reasoning_tokens bigint,
	reserved_tokens bigint NOT NULL,
	reserved_requests bigint NOT NULL,
	billed_tokens bigint NOT NULL DEFAULT 0,
	billed_requests bigint NOT NULL DEFAULT 0,
	estimated boolean NOT NULL DEFAULT false,
	error text,
	admitted_at timestamptz NOT NULL DEFAULT now(),	-- says in which minute, hour, day and month it counts
	audio_input_tokens bigint,
	audio_output_tokens bigint,
	input_price numeric,			-- per million tokens, as it was admitted at; NULL: its model had none
	output_price numeric,
	cached_price numeric,
	reserved_cost numeric,			-- the most that it could cost
	cost numeric,					-- what it used, priced
	billed_cost numeric,			-- what counts in budgets
	PRIMARY KEY (tenant, run_id, call, attempt)
) WITH (fillfactor = 70);
COMMENT ON TABLE mw.attempt IS 'every HTTP exchange with a provider, committed before its request leaves';
CREATE INDEX attempt_request ON mw.attempt (tenant, request_id, call_key, nth) WHERE request_named;
CREATE INDEX attempt_running ON mw.attempt (tenant, run_id) WHERE outcome = 'running';
SELECT pg_catalog.pg_extension_config_dump('mw.attempt', '');

-- kept sums, so that the first call after a restart need not add up the ledger
CREATE TABLE mw.spent (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL DEFAULT '',	-- '': the tenant as a whole (a session's name is never empty)
	requests bigint NOT NULL DEFAULT 0,
	tokens bigint NOT NULL DEFAULT 0,
	cost numeric NOT NULL DEFAULT 0,
	excess_tokens bigint NOT NULL DEFAULT 0,	-- billed above what had been reserved
	excess_cost numeric NOT NULL DEFAULT 0,
	first_used_at timestamptz NOT NULL DEFAULT 'infinity',
	minute_start timestamptz NOT NULL DEFAULT '-infinity',	-- of the minute that the sums are of
	minute_requests bigint NOT NULL DEFAULT 0,
	minute_tokens bigint NOT NULL DEFAULT 0,
	minute_cost numeric NOT NULL DEFAULT 0,
	hour_start timestamptz NOT NULL DEFAULT '-infinity',	-- of the hour that the sums are of
	hour_requests bigint NOT NULL DEFAULT 0,
	hour_tokens bigint NOT NULL DEFAULT 0,
	hour_cost numeric NOT NULL DEFAULT 0,
	day_start timestamptz NOT NULL DEFAULT '-infinity',	-- of the day that the sums are of
	day_requests bigint NOT NULL DEFAULT 0,
	day_tokens bigint NOT NULL DEFAULT 0,
	day_cost numeric NOT NULL DEFAULT 0,
	month_start timestamptz NOT NULL DEFAULT '-infinity',	-- of the month that the sums are of
	month_requests bigint NOT NULL DEFAULT 0,
	month_tokens bigint NOT NULL DEFAULT 0,
	month_cost numeric NOT NULL DEFAULT 0,
	PRIMARY KEY (tenant, session)
) WITH (fillfactor = 50);
COMMENT ON TABLE mw.spent IS 'what each tenant and session has used, kept with every outcome';
SELECT pg_catalog.pg_extension_config_dump('mw.spent', '');

CREATE TABLE mw.answer (
	tenant text COLLATE "C" NOT NULL,
	request_id text COLLATE "C" NOT NULL,
	call_key bytea NOT NULL,
	nth integer NOT NULL,
	usable boolean NOT NULL,
	body text NOT NULL,
	created_at timestamptz NOT NULL,
	PRIMARY KEY (tenant, request_id, call_key, nth)
);
COMMENT ON TABLE mw.answer IS 'recorded answers of calls with a request_id: what was paid for once is not paid for again';
SELECT pg_catalog.pg_extension_config_dump('mw.answer', '');

CREATE TABLE mw.cache (
	tenant text COLLATE "C" NOT NULL,
	key bytea NOT NULL,
	model text NOT NULL,
	epoch bigint NOT NULL,
	created_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	body text NOT NULL,
	PRIMARY KEY (tenant, key)
) WITH (fillfactor = 90);
COMMENT ON TABLE mw.cache IS 'cached answers, as the provider sent them: placeholders only';

-- ---------- of the test double: rows of the caller's own transaction ----------

CREATE TABLE mw.fake_attempt (LIKE mw.attempt INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
	PRIMARY KEY (tenant, run_id, call, attempt));
CREATE INDEX fake_attempt_request ON mw.fake_attempt (tenant, request_id, call_key, nth) WHERE request_named;
CREATE TABLE mw.fake_spent (LIKE mw.spent INCLUDING DEFAULTS, PRIMARY KEY (tenant, session));
CREATE TABLE mw.fake_answer (LIKE mw.answer, PRIMARY KEY (tenant, request_id, call_key, nth));
CREATE TABLE mw.fake_cache (LIKE mw.cache, PRIMARY KEY (tenant, key));
COMMENT ON TABLE mw.fake_attempt IS 'mw.attempt of servers with api ''fake''; rolls back with the caller';
COMMENT ON TABLE mw.fake_spent IS 'mw.spent of servers with api ''fake''; rolls back with the caller';
COMMENT ON TABLE mw.fake_answer IS 'mw.answer of servers with api ''fake''; rolls back with the caller';
COMMENT ON TABLE mw.fake_cache IS 'mw.cache of servers with api ''fake''; rolls back with the caller';

INSERT INTO mw.secret (key)
SELECT pg_catalog.decode(pg_catalog.replace(pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text, '-', ''), 'hex');
