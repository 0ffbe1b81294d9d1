"""What mw says, in the form that goldens have: results, errors, threads.

Everything that knows the shape of mw's answers stands here and in thread().  Texts are mw's own, verbatim; the tokens for
default texts come from mw.default_texts().
"""
import json
import re

import normalise

# SQLSTATE -> kind
KINDS = {
    "MW201": "pii_detected",
    "MW401": "upstream_http", "MW402": "upstream_http", "MW404": "upstream_connection", "MW405": "upstream_malformed",
    "MW601": "recursion_limit", "MW602": "hitl_invalid_response", "MW603": "no_interrupt",
    "MW701": "tool_error", "MW702": "hook_error",
}
# (SQLSTATE, type of the middleware that raised it) -> kind
OF_MIDDLEWARE = {
    ("MW601", "model_call_limit"): "model_call_limit", ("MW601", "tool_call_limit"): "tool_call_limit",
    ("MW001", "llm_tool_selector"): "tool_selector", ("MW405", "llm_tool_selector"): "tool_selector",
}
# what MW602 says is wrong -> kind
DECISIONS = (
    ("Number of human decisions", "hitl_decision_count"), ("Unexpected human decision", "hitl_decision_not_allowed"),
    ("Invalid answer for tool", "hitl_invalid_answer"), ("which is not an available tool", "hitl_invalid_edit"),
    ("name must be a string", "hitl_invalid_edit"), ("must be a string, got", "hitl_invalid_message"),
)


def default_texts(connection):
    """DEFAULTS of normalise.py from mw's own texts."""
    if not connection.value("SELECT to_regprocedure('mw.default_texts()')"):
        return {}
    texts = dict(connection.query("SELECT name, value FROM mw.default_texts()")[0])
    if "selector_max_tools" in texts:
        texts["selector_max_tools"] = re.escape(texts["selector_max_tools"]).replace("%d", r"\d+")
    if "emulator_prompt" in texts:
        pattern = re.escape(texts["emulator_prompt"])
        for group, letters in (("tool", r"[^\n]*"), ("description", ".*?"), ("arguments", r"[^\n]*")):
            pattern = re.sub(r"\\\{%s\\\}|%%\(%s\)s" % (group, group), lambda m: "(?P<%s>%s)" % (group, letters), pattern, count=1)
        if "(?P<arguments>" in pattern:
            texts["emulator_prompt"] = "(?s)" + pattern
        else:
            del texts["emulator_prompt"]			# normalise.py knows the usual shape
    return texts


def error_form(error, scenario, defaults, creating=False):
    """{"sqlstate", "message", "detail", "hint", "kind"?} as a golden has it."""
    state, said = error.get("sqlstate") or "", " ".join(str(error.get(k) or "") for k in ("message", "detail"))
    status = error.get("status") or error.get("http_status")
    if not status and state in ("MW401", "MW402"):
        found = re.search(r"(?i)\b(?:http|status)(?: status| code)? (\d{3})\b", said)
        status = int(found[1]) if found else None
    if status and int(status) < 400:
        status = None			# an answer that broke off had begun well
    by = re.match(r"\w+", error.get("middleware") or "")		# its name begins with its type
    kind = "config" if creating else error.get("kind") or OF_MIDDLEWARE.get((state, by and by[0])) or KINDS.get(state, "other")
    if state == "MW702" and " jumped to " in said:
        kind = "invalid_jump"
    if state == "MW602":
        kind = next((k for text, k in DECISIONS if text in said), kind)
    if kind == "upstream_http" and not status:
        kind = "upstream_connection"
    out = {"class": state, "kind": kind, "message": normalise.scrub(error.get("message") or "", scenario, defaults)}
    if status and kind == "upstream_http":
        out["status"] = int(status)
    return out


def decision_types(schema):
    """The types of decision that a response schema allows, in its order."""
    def branch(b):
        b = schema["$defs"][b["$ref"].rsplit("/", 1)[-1]] if "$ref" in b else b
        kind = b["properties"]["type"]
        return kind["enum"] if "enum" in kind else [kind["const"]]
    return [t for b in schema.get("oneOf") or schema.get("anyOf") or [schema] for t in branch(b)]


def interrupts(pending, messages):
    """The reviews of a result, as goldens have them."""
    out = []
    for i in pending or []:
        form = {"value": i["value"]}
        if i.get("response_schema"):
            form["response_decisions"] = decision_types(i["response_schema"])
        out.append(form)
    return normalise.interrupts(out, messages)


def message_form(message, scenario, defaults):
    return normalise.state_message({k: message.get(k) for k in (
        "role", "content", "tool_calls", "invalid_tool_calls", "tool_call_id", "name", "status")}, scenario, defaults)


def thread(connection, tenant, session):
    """(messages, state) of a thread as mw has it now."""
    rows, _ = connection.query("SELECT public.mw_messages($1, $2)", [tenant, session])
    state = connection.value("SELECT state FROM mw.session WHERE tenant = $1 AND session = $2", [tenant, session])
    return [json.loads(r[0]) for r in rows], json.loads(state) if state else {}
