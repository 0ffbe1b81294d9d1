"""One scenario on mw with its defaults: all stages on, errors raised.  Only what must hold whatever the answers are counts.

Each turn is run twice and asked for a third time, under one request_id: in a transaction that is rolled back, then for
good, then again.  What must hold:

  rolled back   messages, state, open reviews and effects of tools are as before the turn, and only the ledger has grown
  paid once     each request that arrived is one attempt of the ledger, each answer one that is paid; a turn that went well
                before its rollback sends nothing when it is run again, and a third time gives the stored result
  not lost      the user's words are in the thread after a turn that was committed; a tool's effect is there as often as it ran
  paired        each tool call in a request is answered once, right behind its message, and each answer has its call
  private       no e-mail address, card number, address of a machine or what else mw_redact finds in what the user wrote or a
                tool returned stands in a request
  sound         mw_check() finds nothing

What a broken rule looks like is a line of text; a scenario passes where there is none.
"""
import json
import re

import libpq
import scenario_run
import scenario_sql
import transcript

ANSWERS = ("text", "tool_calls")
PATTERNS = (r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}", r"\b(?:\d{4}[ -]?){3}\d{4}\b",
            r"\b(?:\d{1,3}\.){3}\d{1,3}\b", r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b")


# ---------- what a request may not look like ----------

def unpaired(messages):
    """Why these messages would be refused by a provider, or None."""
    open_calls = []
    for m in messages:
        if m.get("role") == "tool":
            if m.get("tool_call_id") not in open_calls:
                return "a result of %r stands behind no message that calls it" % m.get("tool_call_id")
            open_calls.remove(m["tool_call_id"])
            continue
        if open_calls:
            return "%r has no result before the next message" % open_calls[0]
        open_calls = [c.get("id") for c in m.get("tool_calls") or []]
        if len(set(open_calls)) != len(open_calls):
            return "two calls of one message are %r" % open_calls
    return "%r has no result" % open_calls[0] if open_calls else None


def strings(value):
    if isinstance(value, str):
        yield value
    for v in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(v)


def luhn(digits):
    total = sum(sum(divmod(int(d) * (1 + i % 2), 10)) for i, d in enumerate(reversed(digits)))
    return total % 10 == 0


def personal(scenario, connection, tenant):
    """Values that may not leave: of what users write and tools return."""
    texts = [t for turn in scenario["turns"] for key in ("input", "messages") for t in strings(turn.get(key))]
    texts += [t for tool in scenario.get("tools", []) for t in strings((tool.get("behavior") or {}).get("value"))]
    found = set()
    for text in dict.fromkeys(texts):
        found.update(json.loads(connection.value("SELECT public.mw_redact($1, $2)", [text, tenant]))["map"].values())
        for pattern in PATTERNS[:1] + PATTERNS[3:]:
            found.update(re.findall(pattern, text))
        found.update(v for v in re.findall(PATTERNS[1], text) if luhn(re.sub(r"\D", "", v)))
        found.update(v for v in re.findall(PATTERNS[2], text) if all(int(p) < 256 and str(int(p)) == p for p in v.split(".")))
    return found


# ---------- a scenario ----------

def repeatable(scenario):
    """Does a second run of a turn do the same as the first?  Counters of calls and failures that pass do not roll back."""
    steps = [s for steps in scenario.get("script", {}).values() for s in steps]
    return (all(set(s) & {"text", "tool_calls"} for s in steps)
            and not any((t.get("behavior") or {}).get("kind") == "raise_times" for t in scenario.get("tools", []))
            and not any(set(m.get("when") or {}) & {"call", "calls_up_to"} for m in scenario.get("middleware", []) if m["type"] == "hook"))


def raises(scenario):
    return any(((t.get("behavior") or {}).get("kind") or "").startswith("raise") for t in scenario.get("tools", []))


def ending(result, ids=True):
    """What a turn came to; for one that is run again without ids, which are made anew, and without what it cost."""
    out = result and {k: result.get(k) for k in ("status", "output", "messages", "interrupts")}
    if out and not ids:
        for k in ("messages", "interrupts"):
            out[k] = [{n: v for n, v in item.items() if n not in ("id", "metadata")} for item in out[k] or []]
    return out


def is_stored(again, result):
    """Is this the stored result?  A value that its caller did not say, but a tool, may stand in it as its placeholder."""
    if not again:
        return False
    pattern = re.sub(r"<[A-Z][A-Z_]*_\\?\d+>", ".+?", re.escape(json.dumps(ending(again), ensure_ascii=False)))
    return re.fullmatch(pattern, json.dumps(ending(result), ensure_ascii=False)) is not None


class Play:
    def __init__(self, scenario, number, admin, app, upstream):
        self.scenario, self.admin, self.app = scenario, admin, app
        self.names = scenario_sql.Names(scenario, number)
        self.server = upstream.session(scenario["name"])
        self.wrong = []
        self.sent = 0

    def check(self, holds, rule, what):
        if not holds:
            self.wrong.append("%s: %s" % (rule, what))

    def has(self, *kinds):
        return any(m["type"] in kinds for m in self.scenario.get("middleware", []))

    def kept(self, session):
        """What a turn may leave behind besides its cost."""
        messages, state = transcript.thread(self.app, self.names.tenant, session)
        reviews, _ = self.app.query("SELECT to_jsonb(i) FROM mw.interrupt AS i WHERE tenant = $1 ORDER BY 1", [self.names.tenant]) \
            if self.app.value("SELECT to_regclass('mw.interrupt')") else ([], None)
        effects = self.app.value("SELECT count(*) FROM conformance.effect WHERE scenario = $1", [self.names.tenant])
        return {"messages": messages, "state": state, "reviews": reviews, "effects": int(effects)}

    def new_requests(self):
        log = [r for r in self.server.log()["requests"] if r["path"] == "/v1/chat/completions"]
        new, self.sent = log[self.sent:], len(log)
        return new

    def attempt(self, sql, params):
        """(result, error, runs of tools) of one statement."""
        try:
            rows, notices = self.app.query(sql, params)
            return json.loads(rows[0][0]), None, [n for n in scenario_run.notes(notices) if n["log"] == "tool"]
        except libpq.SqlError as e:
            return None, e.fields, []

    def turn(self, number, turn, pending):
        where = "turn %d" % number
        session = self.names.session(turn.get("thread", "main"))
        statement = scenario_run.turn_statement(turn, self.names, pending, "{}", "%s:%d" % (self.names.tenant, number))
        before = self.kept(session)

        self.app.query("BEGIN")
        first, error, _ = self.attempt(*statement)
        self.app.query("ROLLBACK")
        sent = self.new_requests()
        self.check(self.kept(session) == before, "rolled back", where + " left something behind")

        result, error, ran = self.attempt(*statement)
        again = self.new_requests()
        after = self.kept(session)
        if error:
            self.check(after == before, "rolled back", "%s failed (%s) and left something behind" % (where, error["sqlstate"]))
        if first and repeatable(self.scenario):
            self.check(not again, "paid once", "%s sent %d requests again after its rollback" % (where, len(again)))
            self.check(ending(result, False) == ending(first, False), "paid once",
                       "%s ended otherwise after its rollback: %s, before it %s" % (where, error or ending(result, False), ending(first, False)))
        if result and not self.has("human_in_the_loop") and not raises(self.scenario):
            self.check(after["effects"] - before["effects"] == len(ran), "not lost", "%s: %d effects of %d runs of tools" % (
                where, after["effects"] - before["effects"], len(ran)))
        if result and "input" in turn and not self.has("pii", "summarization"):
            self.check(any(m["role"] == "user" and m["content"] == turn["input"] for m in after["messages"]), "not lost",
                       where + ": the user's words are not in the thread")

        if result:
            third, error, _ = self.attempt(*statement)
            self.check(is_stored(third, result), "paid once", "%s asked for again is not what was stored: %s" % (where, error or ending(third)))
            self.check(not self.new_requests() and self.kept(session) == after, "paid once", where + " asked for again did something")
        for r in sent + again:
            why = unpaired(r["body"].get("messages") or [])
            self.check(not why, "paired", "%s: %s" % (where, why))
            for value in self.secrets:
                self.check(not any(value in t for t in strings(r["body"])), "private", "%s: %s was sent" % (where, value))
        return pending if result is None else result.get("interrupts") or []

    def money(self):
        log = [r for r in self.server.log()["requests"] if r["path"] == "/v1/chat/completions"]
        rows, _ = self.admin.query("SELECT outcome, count(*) FROM mw.ledger WHERE tenant = $1 GROUP BY 1", [self.names.tenant])
        booked = {outcome: int(n) for outcome, n in rows}
        answered = sum(r["answered"] in ANSWERS for r in log)
        self.check(sum(booked.values()) == len(log), "paid once", "%d requests arrived, the ledger has %s" % (len(log), booked))
        self.check(booked.get("ok", 0) == answered, "paid once", "%d answers were given, the ledger has %s" % (answered, booked))

    def run(self):
        try:
            self.server.reset(self.scenario)
            refused = scenario_run.create(self.admin, self.scenario, self.names, self.server.base_url, {}, False)
            if refused:
                self.check(refused["sqlstate"] == "MW001", "refused", "the agent is refused with %(sqlstate)s: %(message)s" % refused)
                wanted = self.scenario.get(self.scenario.get("norm", "expect")) or {}
                self.check(wanted.get("outcome", ["create_failed"]) == ["create_failed"], "refused",
                           "the agent is refused, though its configuration is right: %(message)s" % refused)
                self.check(not self.new_requests(), "refused", "a request was sent for an agent that is none")
                return self.wrong
            self.secrets = personal(self.scenario, self.admin, self.names.tenant)
            pending = {}
            for number, turn in enumerate(self.scenario["turns"], 1):
                thread = turn.get("thread", "main")
                pending[thread] = self.turn(number, turn, pending.get(thread, []))
            self.money()
            return list(dict.fromkeys(self.wrong))
        finally:
            self.server.close()


def sound(admin):
    """What mw_check() finds, by tenant."""
    out = {}
    for tenant, *finding in admin.query("SELECT tenant, session, request_id, finding, expected, found FROM public.mw_check()")[0]:
        out.setdefault(tenant, []).append("sound: " + " ".join(str(f) for f in finding))
    return out
