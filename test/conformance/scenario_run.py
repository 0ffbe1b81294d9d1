"""One scenario on mw, with the kit's settings: what happened, in the form of a golden."""
import json
import time

import libpq
import normalise
import scenario_sql
import transcript
from services import ROLE

MARK = "mw-conformance "
INVOKE = "SELECT public.mw_invoke($1, $2, $3, agent => $4, messages => $5, options => $6, request_id => $7)"
RESUME = "SELECT public.mw_resume($1, $2, $3, options => $4, request_id => $5)"
RETURN = json.dumps({"on_error": "return"})


def notes(notices):
    return [json.loads(n[len(MARK):]) for n in notices if n.startswith(MARK)]


def decisions(resume, pending):
    """A turn's answer as mw takes it: per_call reviews are named by their ids, or by the call where none waits for it."""
    if not isinstance(resume, dict) or "by_tool_call" not in resume:
        return resume
    ids = {}
    for i in pending:
        ids.setdefault(i["value"].get("tool_call_id"), i["id"])
    return {ids.get(call, call): answer for call, answer in resume["by_tool_call"].items()}


def turn_statement(turn, names, pending, options, request_id=None):
    """The statement of a turn, with its parameters."""
    session = names.session(turn.get("thread", "main"))
    if "resume" in turn:
        return RESUME, [names.tenant, session, json.dumps(decisions(turn["resume"], pending)), options, request_id]
    messages = json.dumps(turn["messages"]) if "messages" in turn else None
    return INVOKE, [names.tenant, session, turn.get("input"), names.agent, messages, options, request_id]


def create(admin, scenario, names, base_url, settings, unlimited):
    """Makes everything; returns the error where the agent could not be made."""
    for sql in scenario_sql.world(scenario, names, base_url, settings, ROLE, unlimited):
        admin.query(sql)
    sql, config = scenario_sql.things(scenario, names)
    for statement in sql:
        admin.query(statement)
    try:
        admin.query("SELECT public.mw_create_agent($1, $2, $3)", [names.agent, json.dumps(config), names.tenant])
    except libpq.SqlError as e:
        return e.fields
    return None


def run(scenario, number, admin, app, upstream, defaults):
    names = scenario_sql.Names(scenario, number)
    server = upstream.session(scenario["name"])
    try:
        server.reset(scenario)
        return play(scenario, names, admin, app, server, defaults)
    finally:
        server.close()


def play(scenario, names, admin, app, server, defaults):
    out = {"model_requests": [], "final_messages": [], "interrupts": [], "error": [], "outcome": [], "message_counts": [],
           "state": {}, "hook_log": [], "tool_log": []}
    refused = create(admin, scenario, names, server.base_url, scenario_sql.PLAIN_SETTINGS, True)
    if refused:
        out.update(error=[transcript.error_form(refused, scenario, defaults, creating=True)], outcome=["create_failed"])
        return finish(out, server)

    seen, pending = 0, {}
    for number, turn in enumerate(scenario["turns"], 1):
        thread = turn.get("thread", "main")
        started = time.monotonic()
        error, result = None, {}
        try:
            rows, notices = app.query(*turn_statement(turn, names, pending.get(thread, []), RETURN))
            result = json.loads(rows[0][0])
            if result["status"] == "error":
                error = result["error"]
        except libpq.SqlError as e:
            error, notices = e.fields, e.notices
        if "min_elapsed_ms" in turn:
            out.setdefault("timing", []).append({"turn": number, "min_elapsed_ms": turn["min_elapsed_ms"],
                                                 "ok": (time.monotonic() - started) * 1000 >= turn["min_elapsed_ms"]})
        for entry in notes(notices):
            out[entry.pop("log") + "_log"].append({"turn": number, **entry})
        messages, _ = transcript.thread(app, names.tenant, names.session(thread))
        forms = [transcript.message_form(m, scenario, defaults) for m in messages]
        if error:
            pending.setdefault(thread, [])			# a pause that was answered wrongly goes on
        else:
            pending[thread] = result.get("interrupts") or []
        out["interrupts"].append([] if error else transcript.interrupts(pending[thread], forms))
        out["error"].append(transcript.error_form(error, scenario, defaults) if error else None)
        out["outcome"].append("error" if error else result["status"])
        out["message_counts"].append(len(messages))
        log = server.log()["requests"]
        out["model_requests"] += [normalise.wire_request(r["body"], number, scenario, defaults)
                                  for r in log[seen:] if r["path"] == "/v1/chat/completions"]
        seen = len(log)

    for thread in pending:
        messages, state = transcript.thread(app, names.tenant, names.session(thread))
        form = {"final_messages": [transcript.message_form(m, scenario, defaults) for m in messages], "state": state}
        if thread == "main":
            out.update(form)
        else:
            out.setdefault("other_threads", {})[thread] = form
    return finish(out, server)


def finish(out, server):
    log = server.log()
    out["unused_steps"] = {m: n for m, n in log["remaining"].items() if n > 0}
    if log["exhausted"]:
        out["script_exhausted"] = log["exhausted"]
    return out
