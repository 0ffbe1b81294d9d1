-- Rights, policies, servers and their administration.

-- ---------- rights ----------

CREATE FUNCTION mw.may_act(tenant text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'mw_may_act_sql'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 1;
COMMENT ON FUNCTION mw.may_act(text) IS
'May the current role act for this tenant?  True when the tenant exists and was granted (mw_grant_tenant) to a role whose privileges the current one has, or ''*'' was.
While a call of mw runs it holds for the call''s tenant alone; the setting mw.tenant, where set, narrows it to that one.  NULL for NULL.  Raises nothing.';

CREATE FUNCTION mw.may_see(tenant text, session text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'mw_may_see_sql'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 10;
COMMENT ON FUNCTION mw.may_see(text, text) IS
'May the current role see this session of a tenant?  May_act, and what the tenant''s session_policy says.  NULL for NULL.  Raises MW001 where that function is gone, and what it raises.';

CREATE FUNCTION mw.invalidate()
RETURNS trigger
AS 'MODULE_PATHNAME', 'mw_invalidate'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION mw.invalidate() IS
'Statement trigger: tells every process, at commit, that its copies of this table are old.  Raises 39P01 when called otherwise.';

-- ALWAYS: a change that replication or a restore applies is a change
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.secret FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.tenant FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.tenant_grant FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.budget FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.reviewer FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.model FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.recognizer FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.guard FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.purge FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.price FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.agent FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mw.tool FOR EACH STATEMENT EXECUTE FUNCTION mw.invalidate();
ALTER TABLE mw.secret ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.tenant ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.tenant_grant ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.budget ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.reviewer ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.model ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.price ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.recognizer ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.guard ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.purge ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.agent ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE mw.tool ENABLE ALWAYS TRIGGER invalidate;

-- ---------- servers ----------

CREATE FUNCTION mw.fdw_validator(options text[], catalog oid)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_fdw_validator'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL SAFE;
COMMENT ON FUNCTION mw.fdw_validator(text[], oid) IS
'Checks the options of CREATE SERVER and CREATE USER MAPPING for mw.  Raises MW001 for an unknown or wrong one (the hint lists the known ones) and 42501 for those that are for superusers.';

CREATE FOREIGN DATA WRAPPER mw VALIDATOR mw.fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER mw IS 'model servers: CREATE SERVER ... FOREIGN DATA WRAPPER mw OPTIONS (api ..., base_url ...)';

-- ---------- tenants and grants ----------

CREATE FUNCTION @extschema@.mw_create_tenant(tenant text, settings jsonb DEFAULT '{}')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_create_tenant'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_create_tenant(text, jsonb) IS
'Creates a tenant.  settings: model (server:model), redact (boolean, or {"types", "preset", "strategies", "output", "files"}), guardrail (boolean, or {"mode": off, log or block, "threshold": number or {"user", "tool", "document", "output"}, "hosts": where an answer''s images may come from, "max_output": characters, "schema": of the answer}), cache (boolean, or {"ttl": interval or seconds, "version": n}), retry (attempts, or {"max_attempts", "base", "max"}),
timezone (of its minutes, hours, days and months; UTC), on_budget ("error", or {"end": text} with which a run ends where a budget is exhausted), on_guardrail (likewise, where the guardrail refuses),
session_policy (function(tenant, session) returning boolean: which sessions a role may see), fallback (list of models, or {"models": list, "on": statuses}; a model is server:model or {"model", "model_settings"}), breaker (boolean),
timeout (interval or seconds, or {"default", "max"}),
retention (interval or seconds, a day at least: older rows of the ledger, recorded answers and stored results are deleted; their sums stay).
Raises 42710 where it exists, MW001 for a name or setting that is not allowed.';

CREATE FUNCTION @extschema@.mw_alter_tenant(tenant text, settings jsonb)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_alter_tenant'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_alter_tenant(text, jsonb) IS
'Merges settings into those of a tenant; null removes a key, objects merge key by key.  Raises MW001 for an unknown tenant or a setting that is not allowed.';

CREATE FUNCTION @extschema@.mw_drop_tenant(tenant text)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_drop_tenant'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_drop_tenant(text) IS
'Erases every row of a tenant.  Its cached answers are dead at once; the rows that the gateway writes go soon after the commit.  Raises MW001 for an unknown tenant.';

CREATE FUNCTION @extschema@.mw_grant_tenant(tenant text, grantee regrole)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_grant_tenant'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_grant_tenant(text, regrole) IS
'Lets a role, and the roles that inherit from it, act for a tenant; ''*'' is every tenant.  Raises MW001 for an unknown tenant, 42704 for an unknown role.';

CREATE FUNCTION @extschema@.mw_revoke_tenant(tenant text, grantee regrole)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_revoke_tenant'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_revoke_tenant(text, regrole) IS
'Takes a grant back; warns (01006) where there was none.  Raises MW001 for NULL.';

-- ---------- budgets and purges ----------

CREATE FUNCTION @extschema@.mw_set_budget(
	tenant text, unit text, amount numeric,
	session text DEFAULT NULL, per text DEFAULT 'forever', soft numeric DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_set_budget'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_set_budget(text, text, numeric, text, text, numeric) IS
'Limits a tenant (session NULL), each session of it (''*'') or one session.  unit: requests, tokens or cost; per: forever, minute, hour, day or month (of the calendar, in the tenant''s time zone);
amount: 0 or more, ''Infinity'' for no limit, NULL to go back to the default (50000 tokens a session for ever); soft: share of it, up to 1, at which a notice appears and the tenant''s channel is notified.
Setting it again replaces it; an amount below what is used refuses what follows.  Raises MW001 for an unknown tenant or anything else.';

CREATE FUNCTION @extschema@.mw_set_price(
	model text, input numeric, output numeric, cached_input numeric DEFAULT NULL, valid_from timestamptz DEFAULT now())
RETURNS void
AS 'MODULE_PATHNAME', 'mw_set_price'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_set_price(text, numeric, numeric, numeric, timestamptz) IS
'What a model (server:model) costs per million tokens, from a moment on; cached_input NULL: as input.  0 is a price.  The same moment again replaces it; calls keep the price they were admitted at.
Raises MW001 for a name, a price or a moment that is none.';

CREATE FUNCTION @extschema@.mw_drop_price(model text, valid_from timestamptz DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_drop_price'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_drop_price(text, timestamptz) IS
'Takes the price of a model that is valid from that moment away, with NULL all of them.  Raises MW001 where there is none.';

CREATE FUNCTION mw.window_start(per text, zone text, at timestamptz)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'mw_window_start_sql'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mw.window_start(text, text, timestamptz) IS
'When the minute, hour, day or month that holds a moment began in a time zone, as budgets count it.  -infinity for forever.  Raises MW001 for another period, 22023 for an unknown time zone.';

CREATE FUNCTION mw.window_end(per text, zone text, start timestamptz)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'mw_window_end_sql'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION mw.window_end(text, text, timestamptz) IS
'When the minute, hour, day or month ends that began then; NULL for forever.  Raises MW001 for another period, 22023 for an unknown time zone.';

CREATE FUNCTION mw.budget_now()
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'mw_budget_now'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION mw.budget_now() IS 'Now, as budgets see it.  Beneath mw.budget_status.  Raises nothing.';

CREATE FUNCTION @extschema@.mw_purge_cache(
	tenant text, model text DEFAULT NULL, agent text DEFAULT NULL, age interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_purge_cache'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_purge_cache(text, text, text, interval) IS
'No cached answer of the tenant (''*'': of any) is given again, those that calls in flight would still store included.  model, agent and age are refused so far.  Raises MW001.';

-- ---------- models, recognisers, guards ----------

CREATE FUNCTION @extschema@.mw_set_model(model text, settings jsonb)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_set_model'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_set_model(text, jsonb) IS
'Enters a model (server:model) in the catalogue, or replaces its settings: max_input_tokens, max_output_tokens, structured_output.  Raises MW001.';

CREATE FUNCTION @extschema@.mw_alter_model(model text, settings jsonb)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_alter_model'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_alter_model(text, jsonb) IS
'Merges settings into those of a model; null removes a key.  Raises MW001, also for an unknown model.';

CREATE FUNCTION @extschema@.mw_drop_model(model text)
RETURNS void
AS 'MODULE_PATHNAME', 'mw_drop_model'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_drop_model(text) IS
'Takes a model out of the catalogue.  Raises MW001 for an unknown one.';

CREATE FUNCTION @extschema@.mw_create_recognizer(pii_type text, pattern text, options jsonb DEFAULT '{}', tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_create_recognizer'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_create_recognizer(text, text, jsonb, text) IS
'Adds a type of personal data (in capitals) that a PCRE2 pattern finds.  options: strategy (mask, placeholder, hash, redact, block), validator, context (a pattern or a list of words), priority, on_demand (only looked for where a call or tenant names the type), function (pattern is NULL then: f(text) returns a JSON array of {"start", "end"} in characters, and runs as the caller); or type ''presidio'' with server (one with api ''presidio''; pattern is NULL), entities (of Presidio''s, that of the type unless given), language (en), score_threshold (0.5), timeout (5 s), on_error (''error'' lets nothing pass where it does not answer, ''skip'' goes on and says so).  A tenant''s own replaces that of ''*''.
Raises 42710 where it exists, MW001 otherwise.';

CREATE FUNCTION @extschema@.mw_alter_recognizer(pii_type text, options jsonb, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_alter_recognizer'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_alter_recognizer(text, jsonb, text) IS
'Merges options (also pattern) into those of a recognizer; null goes back to the default.  What is built in stays beside it and is back when the changed one is dropped.  Raises MW001.';

CREATE FUNCTION @extschema@.mw_drop_recognizer(pii_type text, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_drop_recognizer'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_drop_recognizer(text, text) IS
'Drops a recognizer, or the changes of a built-in one.  Raises MW001 for an unknown or a built-in one.';

CREATE FUNCTION @extschema@.mw_create_guard(guard text, pattern text, options jsonb DEFAULT '{}', tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_create_guard'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_create_guard(text, text, jsonb, text) IS
'Adds a guard: a PCRE2 pattern on the normalised text; or, with NULL for the pattern, the options function (a signature schema.name(text) that returns boolean or double precision, run as the caller) or model (server:model) with question (to be answered by yes or no, in a call of its own under the tenant''s budget). options: category, weight (a text is refused at the tenant''s threshold, 1), threshold (from which on a function''s number matches, 0.5), sources (user, tool, document, output: all but the last), mode (off, log, block). A tenant''s own of a name wins.
Raises 42710 where it exists, MW001 otherwise.';

CREATE FUNCTION @extschema@.mw_alter_guard(guard text, options jsonb, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_alter_guard'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_alter_guard(text, jsonb, text) IS
'Merges options (also pattern, function, model, question) into those of a guard; null goes back to the default.  A tenant that has none of the name gets its own, changed copy of that of ''*''.  Raises MW001.';

CREATE FUNCTION @extschema@.mw_drop_guard(guard text, tenant text DEFAULT '*')
RETURNS void
AS 'MODULE_PATHNAME', 'mw_drop_guard'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_drop_guard(text, text) IS
'Drops a guard, or the changes of a built-in one.  Raises MW001 for an unknown or a built-in one.';

-- ---------- what is remembered of sessions ----------

CREATE FUNCTION @extschema@.mw_rotate_pii_key()
RETURNS bigint
AS 'MODULE_PATHNAME', 'mw_rotate_pii_key'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_rotate_pii_key() IS
'Seals what older keys of mw.pii_key_file sealed with the newest one, the highest version in the file, and returns how many values that were; after it the older lines can go. Rows stay locked until the transaction ends.
Raises MW001 where the file is not set, cannot be used or lacks a version that sealed something, XX001 for a row that was changed; then nothing is.';

CREATE FUNCTION @extschema@.mw_erase(tenant text, session text DEFAULT NULL, value text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'mw_erase'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_erase(text, text, text) IS
'Forgets what is remembered of a session (NULL: of all of the tenant''s): its messages, state, runs, placeholders and the kept results of its request_ids. With a value only that value, as it was written: its placeholders, in that session or in all of them, stand for nothing from then on, and are never issued again. Returns how many rows were erased. Without a value it waits for the run of the session (for all of the tenant''s), and runs that begin meanwhile wait for it.
Waits for calls of the tenant that have stored something and are not committed. The ledger stays; cached answers, which hold placeholders only, go with mw_purge_cache. Raises MW001 for an unknown tenant, or where the key of a hash that had to be compared is missing.';

-- ---------- the rest ----------

CREATE FUNCTION @extschema@.mw_channel(tenant text)
RETURNS text
AS 'MODULE_PATHNAME', 'mw_channel'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.mw_channel(text) IS
'The channel to LISTEN on for a tenant: a keyed hash that nobody guesses.  Raises MW101 where the role may not act for the tenant, MW001 for NULL.';

CREATE FUNCTION @extschema@.mw_doctor(OUT name text, OUT status text, OUT detail text, OUT hint text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_doctor'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 20;
COMMENT ON FUNCTION @extschema@.mw_doctor() IS
'What is wrong with this installation and how to mend it: a row a check, status ok, warning or error.  For administrators: it looks at servers, roles and settings as the owner, but shows no key and no prompt.';

CREATE FUNCTION @extschema@.mw_check(
	OUT tenant text, OUT session text, OUT request_id text, OUT finding text, OUT expected text, OUT found text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mw_check'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION @extschema@.mw_check() IS
'Does what is kept about money agree with itself?  Compares ledger, usage, recorded answers, kept sums and the counters in shared memory; a row a finding, none on a sound system.
Can be called under load: counters in memory are compared with their sums only where no other session of this database runs a statement and no call is in flight (with track_activities off never).
Where attempts were left running by a crash it starts the gateway, which judges them.  Reads the whole ledger.  For administrators.  Raises nothing of its own.';

-- The key of this database is made with the extension; the one that a dump brings takes its place.
CREATE FUNCTION mw.replace_secret()
RETURNS trigger
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM mw.secret;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION mw.replace_secret() IS
'Row trigger of mw.secret: a restored key replaces the one that CREATE EXTENSION has just made.  Raises 39P01 when called otherwise.';
CREATE TRIGGER replace_secret BEFORE INSERT ON mw.secret FOR EACH ROW EXECUTE FUNCTION mw.replace_secret();
ALTER TABLE mw.secret ENABLE ALWAYS TRIGGER replace_secret;
