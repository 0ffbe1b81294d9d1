"""What a scenario file becomes on mw: statements for an administrator, and names.

A scenario has a tenant and a server of its own, called as itself, and a schema for its functions.  Tools and hooks
are one-line functions that call actions.sql; middleware entries are mw's own JSON, in which only
this changes: names of models become server:model, classes of errors become SQLSTATEs, hooks become custom middlewares,
and a predicate of human_in_the_loop becomes a function.
"""
import json

STATES = {"Error": "P0001", "TimeoutError": "MWT01", "ValueError": "MWV01"}
DEFAULT_STEPS = 100					# steps of a run where a scenario says nothing; a turn is two of them


def literal(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "'" + text.replace("'", "''") + "'"


class Names:
    """What a scenario's things are called.  number tells scenarios of a database apart."""

    def __init__(self, scenario, number):
        self.tenant = scenario["name"]
        self.server = "s%d" % number
        self.schema = "c%d" % number
        self.agent = "agent"

    def model(self, plain):
        return "%s:%s" % (self.server, plain)

    def session(self, thread):
        return "%s:%s" % (self.tenant, thread)


def models(scenario):
    found = [scenario.get("model", "gpt-test"), *scenario.get("script", {}), *scenario.get("model_profiles", {})]
    for m in scenario.get("middleware", []):
        found += [m["model"]] if m.get("model") else []
        found += m.get("models") or []
        found += [m["action"]["model"]] if (m.get("action") or {}).get("model") else []
    return list(dict.fromkeys(m for m in found if m != "*"))


# ---------- functions ----------

def tool_sql(spec, i, names, writes=True):
    given = spec.get("behavior") or {}
    returns = "text" if isinstance(given.get("value", ""), str) else "jsonb"
    function = "%s.tool_%d" % (names.schema, i)
    options = {"writes": writes}
    if spec.get("return_direct"):
        options["return_direct"] = True
    return ["CREATE SEQUENCE %s_calls" % function,
            "GRANT USAGE ON SEQUENCE %s_calls TO PUBLIC" % function,
            "CREATE FUNCTION %s(args jsonb) RETURNS %s LANGUAGE sql AS %s" % (
                function, returns, literal("SELECT conformance.tool(%s, pg_catalog.nextval('%s_calls'), args)%s" % (
                    literal({"scenario": names.tenant, "name": spec["name"], "behavior": given or {"kind": "echo_args"},
                             "known": list((spec.get("parameters") or {}).get("properties") or {})}), function, " #>> '{}'" if returns == "text" else ""))),
            "SELECT public.mw_create_tool(%s, %s, %s, %s, %s, %s)" % (
                literal(spec["name"]), literal(function), literal(spec.get("description") or ""),
                literal(spec.get("parameters") or {"type": "object", "properties": {}}), literal(options), literal(names.tenant))]


def hook_sql(spec, i, names):
    function = "%s.hook_%d" % (names.schema, i)
    inner = {"wrap_model_call": "around_model", "wrap_tool_call": "around_tool"}.get(spec["hook"], "node")
    subject = "state" if inner == "node" else "request"
    action = dict(spec["action"])
    if action.get("model"):
        action["model"] = names.model(action["model"])
    return ["CREATE SEQUENCE %s_calls" % function,
            "GRANT USAGE ON SEQUENCE %s_calls TO PUBLIC" % function,
            "CREATE FUNCTION %s(%s jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS %s" % (
                function, subject, literal("BEGIN RETURN conformance.%s(%s, pg_catalog.nextval('%s_calls'), %s); END" % (
                    inner, literal({**spec, "action": action}), function, subject)))]


def predicate_sql(spec, i, names):
    return ["CREATE FUNCTION %s.when_%s(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS %s" % (
        names.schema, i, literal("SELECT pg_catalog.to_jsonb(conformance.matches(%s, request->'tool_call'))" % literal(spec)))]


# ---------- middleware ----------

def retry_on(value):
    return {**value, "names": [STATES.get(n, n) for n in value["names"]]} if isinstance(value, dict) and "names" in value else value


def middleware(spec, i, names, sql):
    """One entry of the agent's list; what it needs first goes into sql."""
    kind, out = spec["type"], dict(spec)
    if kind == "hook":
        sql += hook_sql(spec, i, names)
        action = spec["action"]
        keys = list(action["values"]) if action["kind"] == "set_state" else [action["key"]] if action["kind"] == "increment_state" else []
        out = {"type": "custom", "name": spec["name"], "hooks": {spec["hook"]: "%s.hook_%d" % (names.schema, i)}}
        if "can_jump_to" in spec:
            out["can_jump_to"] = spec["can_jump_to"]
        if keys:
            out["state"] = {k: {} for k in keys}
        return out
    if out.get("model"):
        out["model"] = names.model(out["model"])
    if "models" in out:
        out["models"] = [names.model(m) for m in out["models"]]
    if "retry_on" in out:
        out["retry_on"] = retry_on(out["retry_on"])
    if kind == "tool_error" and isinstance(out.get("on_error"), dict) and "by_name" in out["on_error"]:
        out["on_error"] = {**out["on_error"], "by_name": {STATES.get(k, k): v for k, v in out["on_error"]["by_name"].items()}}
    if kind == "human_in_the_loop" and isinstance(out.get("interrupt_on"), dict):
        gates = {}
        for n, (tool, gate) in enumerate(out["interrupt_on"].items()):
            if isinstance(gate, dict) and isinstance(gate.get("when"), dict) and "arg" in gate["when"]:
                function = "%d_%d" % (i, n)
                sql += predicate_sql(gate["when"], function, names)
                gate = {**gate, "when": {"function": "%s.when_%s" % (names.schema, function)}}
            gates[tool] = gate
        out["interrupt_on"] = gates
    return out


def agent_config(scenario, names, sql):
    steps = scenario.get("recursion_limit", DEFAULT_STEPS)
    out = {"model": names.model(scenario.get("model", "gpt-test")),
           "tools": [t["name"] for t in scenario.get("tools", [])],
           "middleware": [middleware(m, i, names, sql) for i, m in enumerate(scenario.get("middleware", []), 1)],
           "max_turns": max(1, steps // 2)}
    for key in ("system_prompt", "response_format"):
        if scenario.get(key) is not None:
            out[key] = scenario[key]
    return out


# ---------- a scenario ----------

PLAIN_SETTINGS = {"redact": False, "guardrail": False, "cache": False, "breaker": False, "retry": {"max_attempts": 1}}


def world(scenario, names, base_url, settings, role, unlimited=True):
    """Statements that make tenant, server and models: all that has to be committed before a call."""
    out = ["CREATE SCHEMA %s" % names.schema,
           "GRANT USAGE ON SCHEMA %s TO %s" % (names.schema, role),
           "CREATE SERVER %s FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url %s)" % (names.server, literal(base_url)),
           "CREATE USER MAPPING FOR PUBLIC SERVER %s OPTIONS (api_key 'sk-test')" % names.server,
           "GRANT USAGE ON FOREIGN SERVER %s TO %s" % (names.server, role),
           "SELECT public.mw_create_tenant(%s, %s)" % (literal(names.tenant), literal({**settings, "model": names.model(scenario.get("model", "gpt-test"))})),
           "SELECT public.mw_grant_tenant(%s, %s)" % (literal(names.tenant), literal(role))]
    if unlimited:
        out += ["SELECT public.mw_set_budget(%s, %s, 'Infinity', session => %s)" % (literal(names.tenant), literal(unit), session)
                for unit in ("requests", "tokens") for session in ("NULL", "'*'")]
    for model in models(scenario):
        profile = scenario.get("model_profiles", {}).get(model)
        if profile:
            out.append("SELECT public.mw_set_model(%s, %s)" % (literal(names.model(model)), literal(profile)))
    return out


def things(scenario, names):
    """Statements that make tools and hooks, and the agent's configuration."""
    sql = []
    for i, tool in enumerate(scenario.get("tools", []), 1):
        sql += tool_sql(tool, i, names)
    return sql, agent_config(scenario, names, sql)
