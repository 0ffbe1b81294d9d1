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
	function text,					-- or who finds it: an SQL function ...
	analyzer jsonb,					-- ... or a server (src/policy/analyzer.c)
	validator text,
	context text,
	priority integer NOT NULL DEFAULT 0,
	strategy text NOT NULL DEFAULT 'placeholder' CHECK (strategy IN ('mask', 'placeholder', 'hash', 'redact', 'block')),
	prefilter text,					-- where matches begin (src/stage/pii_gate.h)
	on_demand boolean NOT NULL DEFAULT false,	-- only where the type is asked for by name or preset
	builtin boolean NOT NULL DEFAULT false,
	id integer NOT NULL DEFAULT 0,	-- several patterns of one type
	CHECK (num_nonnulls(pattern, function, analyzer) = 1),
	PRIMARY KEY (tenant, pii_type, builtin, id)	-- an administrator's rows stand beside the built-in ones: a dump must restore
);
COMMENT ON TABLE mw.recognizer IS 'what personal data looks like; a tenant''s rows of a type replace those of ''*'', an administrator''s the built-in ones, which are listed here and read from the library';
CREATE INDEX recognizer_own ON mw.recognizer (tenant) WHERE NOT builtin;	-- what a process reads
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
COMMENT ON TABLE mw.guard IS 'what an injection looks like, on the normalised text; a tenant''s row of a name wins, then an administrator''s, then the built-in one; those are listed here and read from the library';
CREATE INDEX guard_own ON mw.guard (tenant) WHERE NOT builtin;	-- what a process reads
SELECT pg_catalog.pg_extension_config_dump('mw.guard', 'WHERE NOT builtin');

CREATE TABLE mw.tool (
	tenant text COLLATE "C" NOT NULL DEFAULT '*',
	tool text COLLATE "C" NOT NULL CHECK (tool ~ '^[A-Za-z0-9_-]{1,64}$'),
	function text NOT NULL,			-- a signature: a regprocedure column makes pg_upgrade refuse
	description text,				-- NULL: the function's COMMENT
	parameters jsonb,				-- JSON schema; NULL: from the function's own arguments
	options jsonb NOT NULL DEFAULT '{}',
	PRIMARY KEY (tenant, tool)
);
COMMENT ON TABLE mw.tool IS 'tools: SQL functions that a model may ask for, run as the caller; a tenant''s own row of a name wins';
SELECT pg_catalog.pg_extension_config_dump('mw.tool', '');

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
CREATE INDEX result_age ON mw.result (tenant, created_at);	-- for the tenant's retention
SELECT pg_catalog.pg_extension_config_dump('mw.result', '');

-- What the placeholders of a session stand for.  A dump holds it sealed; the key file is not in it.
CREATE TABLE mw.pii (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL,
	pii_type text COLLATE "C" NOT NULL,
	number integer NOT NULL,		-- <EMAIL_0>
	key_version integer NOT NULL DEFAULT 0,	-- of mw.pii_key_file; 0: the database's own key, which seals nothing
	lookup bytea,					-- keyed hash of tenant and value; NULL: it stands for nothing (erased, or typed by somebody)
	sealed bytea,					-- nonce and ciphertext of the value; NULL: not kept
	issued_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, session, pii_type, number)
);
CREATE INDEX pii_lookup ON mw.pii (tenant, lookup);
COMMENT ON TABLE mw.pii IS 'placeholders that sessions have issued; the values are sealed, and nobody has a right on those columns';
SELECT pg_catalog.pg_extension_config_dump('mw.pii', '');

-- a name may have many versions: a paused run goes on with the one that it began with
CREATE TABLE mw.agent (
	tenant text COLLATE "C" NOT NULL DEFAULT '*',
	agent text COLLATE "C" NOT NULL CHECK (agent <> ''),
	version integer NOT NULL,
	config jsonb NOT NULL,			-- functions by their whole signatures
	current boolean NOT NULL DEFAULT true,	-- none is where the agent was dropped
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, agent, version)
);
COMMENT ON TABLE mw.agent IS 'agents, a row a version; a tenant''s agent of a name wins over everybody''s';
CREATE UNIQUE INDEX agent_current ON mw.agent (tenant, agent) WHERE current;
SELECT pg_catalog.pg_extension_config_dump('mw.agent', '');

CREATE TABLE mw.session (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL,
	agent text COLLATE "C",
	run_id uuid NOT NULL,			-- its newest run
	status text NOT NULL,			-- of that: completed, interrupted, tool_calls, error
	state jsonb NOT NULL DEFAULT '{}',	-- declared fields of agent and middlewares
	step integer NOT NULL DEFAULT 0,
	created_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, session)
);
COMMENT ON TABLE mw.session IS 'conversations that are kept: their state, and their newest run';
SELECT pg_catalog.pg_extension_config_dump('mw.session', '');

-- Immutable but for removed_step.  Visible at step s: added_step <= s and not removed by then, in the order of position.
CREATE TABLE mw.thread (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL,
	seq bigint NOT NULL,
	position double precision NOT NULL,	-- a fraction: a summary fits before older rows
	message jsonb NOT NULL,			-- placeholders inside
	answered boolean NOT NULL,		-- a model said it, and it was judged then
	run_id uuid NOT NULL,			-- which run added it
	added_step integer NOT NULL,
	removed_step integer,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, session, seq)
);
COMMENT ON TABLE mw.thread IS 'messages of sessions; mw.message shows those that are there now';
CREATE INDEX thread_now ON mw.thread (tenant, session, position) WHERE removed_step IS NULL;
SELECT pg_catalog.pg_extension_config_dump('mw.thread', '');

CREATE TABLE mw.run (
	tenant text COLLATE "C" NOT NULL,
	run_id uuid NOT NULL,
	session text COLLATE "C" NOT NULL,
	agent text COLLATE "C",			-- NULL: a call that named tools and no agent
	agent_tenant text COLLATE "C",	-- whose agent: the tenant's, or '*'
	version integer NOT NULL,
	request_id text COLLATE "C" NOT NULL,	-- of its newest leg
	role regrole NOT NULL,			-- who runs it
	status text NOT NULL,			-- completed, interrupted, tool_calls, error
	node text NOT NULL,				-- where it goes on
	node_index integer NOT NULL,
	turn integer NOT NULL,
	calls integer NOT NULL,
	last_no integer NOT NULL,		-- highest number of a call in the ledger
	scratch jsonb NOT NULL DEFAULT '{}',	-- untracked fields of the state
	batch text[] NOT NULL DEFAULT '{}',	-- tool calls that have run while a sibling of theirs waits
	options jsonb,					-- as the run was begun with
	started_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, run_id)
);
COMMENT ON TABLE mw.run IS 'runs of sessions that are kept, over their pauses';
CREATE INDEX run_session ON mw.run (tenant, session, started_at);
SELECT pg_catalog.pg_extension_config_dump('mw.run', '');

CREATE TABLE mw.trace (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL,
	run_id uuid NOT NULL,
	seq integer NOT NULL,			-- in the order in which they began
	depth integer NOT NULL,			-- inside how many others
	turn integer NOT NULL,
	kind text NOT NULL,				-- hook, wrap, model, tool
	name text NOT NULL,
	started_at timestamptz NOT NULL,
	microseconds bigint,			-- NULL: an error left it
	input_tokens bigint,
	output_tokens bigint,
	cost numeric,
	input jsonb,					-- with "trace": "full"; placeholders inside
	output jsonb,
	PRIMARY KEY (tenant, run_id, seq)
);
COMMENT ON TABLE mw.trace IS 'what runs did, a row a hook, model call or tool call; mw_trace draws one';
SELECT pg_catalog.pg_extension_config_dump('mw.trace', '');

-- a row a tool call that waits for a person; those of one batch share an interrupt_id
CREATE TABLE mw.interrupt (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL,
	interrupt_id text COLLATE "C" NOT NULL,
	place integer NOT NULL,			-- of the call in its batch
	run_id uuid NOT NULL,
	agent text COLLATE "C",
	middleware text,				-- who asks; NULL: the tool's own gate
	mode text NOT NULL,				-- batched or per_call
	tool text NOT NULL,
	tool_call_id text NOT NULL,
	args jsonb NOT NULL,			-- as shown: placeholders
	args_hash bytea NOT NULL,		-- keyed, of the tool and its restored arguments: what was approved
	shown_hash bytea NOT NULL,		-- keyed, of what whoever decides goes by: the row was not changed
	description text NOT NULL,
	allowed_decisions text[] NOT NULL,
	response_schema jsonb,
	approvals integer NOT NULL DEFAULT 1,	-- so many roles have to approve
	requested_by regrole NOT NULL,
	requested_through regrole,		-- who called a function of that role's (SECURITY DEFINER)
	requested_at timestamptz NOT NULL DEFAULT now(),
	expires_at timestamptz,
	on_expiry text NOT NULL DEFAULT 'reject',	-- or end
	expiry_told boolean NOT NULL DEFAULT false,	-- whoever listens has been told of it
	status text NOT NULL DEFAULT 'open',	-- open, decided, done, expired, abandoned
	decisions jsonb NOT NULL DEFAULT '[]',	-- who decided what, when, each with a keyed hash; the last one is the verdict
	outcome text,					-- of a done or expired one: ran, failed, not_run
	claimed_by regrole,				-- which reviewer is at work on it
	claimed_until timestamptz,
	PRIMARY KEY (tenant, interrupt_id, place)
);
COMMENT ON TABLE mw.interrupt IS 'tool calls that wait, or waited, for a decision';
CREATE INDEX interrupt_run ON mw.interrupt (tenant, session, run_id) WHERE outcome IS NULL;
CREATE INDEX interrupt_open ON mw.interrupt (tenant, requested_at, interrupt_id, place DESC) WHERE status = 'open';	-- pages of the inbox, read backwards
CREATE INDEX interrupt_newest ON mw.interrupt (requested_at) WHERE status = 'open';	-- the newest ones of all tenants that a reviewer has, by hand
CREATE INDEX interrupt_due ON mw.interrupt (expires_at) WHERE status = 'open' AND NOT expiry_told AND expires_at IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('mw.interrupt', '');

CREATE TABLE mw.reviewer (
	tenant text COLLATE "C" NOT NULL,
	grantee regrole NOT NULL,
	tools text[],					-- NULL: all
	may_decide_own boolean NOT NULL DEFAULT false,
	reveal boolean NOT NULL DEFAULT false,
	PRIMARY KEY (tenant, grantee)
);
COMMENT ON TABLE mw.reviewer IS 'who decides interrupts of a tenant';
SELECT pg_catalog.pg_extension_config_dump('mw.reviewer', 'WHERE grantee::oid IN (SELECT oid FROM pg_catalog.pg_roles)');

-- the whole story of every decision, chained per session: a row that is altered or taken out breaks the chain
CREATE TABLE mw.approval_log (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL,
	seq bigint NOT NULL,
	interrupt_id text COLLATE "C" NOT NULL,
	place integer NOT NULL,
	event text NOT NULL,			-- asked, decided, expired, abandoned, done, revealed
	detail jsonb NOT NULL DEFAULT '{}',	-- placeholders inside
	role text COLLATE "C" NOT NULL,	-- its name: the log outlives it
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	chain bytea NOT NULL,			-- keyed hash of this row and the chain of the one before it
	PRIMARY KEY (tenant, session, seq)
);
CREATE INDEX approval_log_interrupt ON mw.approval_log (tenant, interrupt_id, place);	-- whether it and the interrupt say the same
COMMENT ON TABLE mw.approval_log IS 'who was asked, who decided what, and what came of it';
SELECT pg_catalog.pg_extension_config_dump('mw.approval_log', '');

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
	set_back_until timestamptz NOT NULL DEFAULT '-infinity',	-- the clock was set back from before then, so that windows until then may come again
	PRIMARY KEY (tenant, session)
) WITH (fillfactor = 50);
COMMENT ON TABLE mw.spent IS 'what each tenant and session has used, kept with every outcome';
SELECT pg_catalog.pg_extension_config_dump('mw.spent', '');

-- What a tenant's retention took out of the ledger, so that ledger and sums can still be compared
CREATE TABLE mw.pruned (
	tenant text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL,			-- '': the tenant as a whole
	attempts bigint NOT NULL,
	requests bigint NOT NULL,
	tokens bigint NOT NULL,
	cost numeric NOT NULL,
	excess_tokens bigint NOT NULL,
	excess_cost numeric NOT NULL,
	newest timestamptz NOT NULL,				-- the last admission among them
	PRIMARY KEY (tenant, session)
);
COMMENT ON TABLE mw.pruned IS 'what the rows add up to that a tenant''s retention has deleted from the ledger; they stay in mw.spent';
SELECT pg_catalog.pg_extension_config_dump('mw.pruned', '');

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
