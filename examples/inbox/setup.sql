-- setup.sql: what the inbox needs to have something in it.  In a database of your own, as a superuser:
--
--   psql -Xd yourdb -f examples/inbox/setup.sql
--
-- A fake server plays the model, nobody is called.  app asks, rita decides: she has the reviewer's grant and nothing else.

\set ON_ERROR_STOP on
SET client_min_messages = warning;

CREATE EXTENSION IF NOT EXISTS mw;
CREATE SERVER shop_model FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE app LOGIN;
CREATE ROLE rita LOGIN PASSWORD 'rita';
GRANT USAGE ON FOREIGN SERVER shop_model TO app;
SELECT mw_create_tenant('acme');
SELECT mw_grant_tenant('acme', 'app');
SELECT mw_grant_reviewer('acme', 'rita');

-- ---------- a tool that moves money ----------

CREATE TABLE refund (invoice integer, amount numeric(10,2), reason text, made_at timestamptz DEFAULT now());
GRANT INSERT, SELECT ON refund TO app;
CREATE FUNCTION refund(invoice integer, amount numeric, reason text) RETURNS text LANGUAGE sql AS $$
	INSERT INTO refund VALUES (invoice, amount, reason) RETURNING format('%s refunded for invoice %s', amount, invoice)
$$;
COMMENT ON FUNCTION refund IS 'Pays an amount of an invoice back to its customer.';
SELECT mw_create_tool('refund', 'refund', options => '{"writes": true}', tenant => 'acme');
SELECT mw_create_agent('clerk', '{"model": "shop_model:m", "tools": ["refund"], "middleware": [
	{"type": "human_in_the_loop", "expires_in": 86400, "description_prefix": "Money leaves the company",
	 "interrupt_on": {"refund": true}}]}', 'acme');
