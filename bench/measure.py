#!/usr/bin/env python3
"""Measures mw's targets side by side with their floors and prints one table (see bench/run).

A target says which scripts (bench/sql/*.sql, run by pgbench) or peers it compares, how many clients there
are, and how the processes are placed:

  same  client, server, gateway and upstream on CPU 0: what is measured is the work done
  free  wherever the kernel puts them: what a user sees, wake-ups between processors included

Targets of one placement and number of clients are measured together: in each round every script runs once, so
that a ratio is always of two neighbours in time.  The ratio of a target is the median of its rounds'; figures
are medians too.  The machine's speed drifts by tens of per cent within an hour, so nothing but a ratio means much.
"""
import collections
import datetime
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import agents

HERE = os.path.dirname(os.path.abspath(__file__))
QUICK = os.environ.get("BENCH_QUICK", "0") not in ("", "0")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3 if QUICK else 7))
SECONDS = int(os.environ.get("BENCH_SECONDS", 1 if QUICK else 2))
HIT_PROMPTS = 1000

# ---------- what is sent ----------


def prompt(kilobytes):
    """So many KB, each with an e-mail address, a card, an IP address, a URL, a telephone and a social security number."""
    text = ""
    for i in range(kilobytes):
        part = (f"Ticket of maria{i}@northwind.example, card 4111 1111 1111 1111, from 192.0.2.{44 + i}, see "
                f"https://northwind.example/tickets/81, phone +1 415 555 0{132 + i}, ssn 536-22-{8145 + i}. ")
        while len(part) < 1024:
            part += ("Please summarise what this customer still owes, name every reminder that went out, and say in one "
                     "sentence what we should do next. ")
        text += part[:1023] + " "
    return text


PROMPT_1K, PROMPT_10K = prompt(1), prompt(10)
VARIABLES = {
    "p": PROMPT_1K,
    "q": agents.QUESTION,
    "rows": os.environ.get("BENCH_ROWS", ""),
    "row": "x" * 500,
    "url": os.environ.get("BENCH_UPSTREAM", "") + "/chat/completions",
    "body": json.dumps({"model": "bench-model", "messages": [{"role": "user", "content": PROMPT_1K}]}),
}

# A name of a run: a script, and what differs from its defaults
VARIANTS = {
    "hit_10k": ("hit", {"p": PROMPT_10K}),
    "copy_10k": ("copy", {"p": PROMPT_10K}),
    "miss_nosync": ("miss", {}),
    "http_50": ("http_keep", {"url": os.environ.get("BENCH_FIFTY", "") + "/chat/completions"}),
    "miss_50": ("miss_50", {"t": "fifty"}),
    "miss_50_unlimited": ("miss_50", {"t": "unlimited"}),
    **agents.variants(),
}
SUPERUSER = {"record"}

# ---------- running things ----------


class Failed(Exception):
    pass


def psql(sql, user="postgres", database="bench"):
    done = subprocess.run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-U", user, "-d", database, "-c", sql], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr.strip().splitlines()[0] if done.stderr else "psql failed")
    return done.stdout.strip()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(p) for p in f.read().split()]


def cpus(placement):
    return {0} if placement == "same" else set(range(os.cpu_count()))


def place(placement):
    """Server, gateway and upstream; a client places itself.  Processes that the postmaster forks later inherit it."""
    postmaster = int(os.environ["BENCH_POSTMASTER"])
    for pid in [postmaster, *children(postmaster), int(os.environ["BENCH_UPSTREAM_PID"])]:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(task), cpus(placement))
        except (ProcessLookupError, FileNotFoundError):
            pass		# a backend that has ended meanwhile


def quantile(latencies, q):
    """Of a Counter of whole microseconds; within one of them the values are taken as evenly spread."""
    want = sum(latencies.values()) * q
    below = 0
    for us in sorted(latencies):
        if below + latencies[us] >= want:
            return us - 0.5 + (want - below) / latencies[us]
        below += latencies[us]
    return float("nan")


def pgbench(name, clients, placement, transactions=None):
    script, changed = VARIANTS.get(name, (name, {}))
    if name.endswith("_nosync"):
        synchronous_commit("off")
    work = tempfile.mkdtemp(prefix="mw-bench.")
    try:
        command = ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2)),
                   "-U", "postgres" if name in SUPERUSER else "bench_app", "-l", "--log-prefix=log",
                   "-f", f"{HERE}/sql/{script}.sql"]
        command += ["-t", str(transactions)] if transactions else ["-T", str(SECONDS)]
        with open(f"{HERE}/sql/{script}.sql") as f:
            used = set(re.findall(r"(?<!:):(\w+)", f.read()))
        for variable, value in {**VARIABLES, **changed}.items():
            if variable in used:
                command += ["-D", f"{variable}={value}"]
        # neither the gateway's commits nor the caller's own
        wait = {"PGOPTIONS": "-c synchronous_commit=off"} if name.endswith("_nosync") else {}
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, env={**os.environ, **wait},
                              preexec_fn=lambda: os.sched_setaffinity(0, cpus(placement)))
        tps = re.search(r"^tps = ([\d.]+)", done.stdout, re.M)
        if done.returncode != 0 or not tps:
            errors = [l for l in done.stderr.splitlines() if "error" in l.lower() or "FATAL" in l] or done.stderr.splitlines()
            raise Failed(f"{script}: {errors[0] if errors else 'pgbench failed'}")
        latencies = collections.Counter()
        for log in os.listdir(work):
            with open(os.path.join(work, log)) as f:
                for line in f:
                    latencies[int(line.split(" ", 3)[2])] += 1
        return {"p50": quantile(latencies, 0.5), "p99": quantile(latencies, 0.99), "tps": float(tps.group(1))}
    finally:
        shutil.rmtree(work)
        if name.endswith("_nosync"):
            synchronous_commit("local")


def synchronous_commit(value):
    psql(f"ALTER SYSTEM SET mw.synchronous_commit = {value}")
    psql("SELECT pg_reload_conf()")
    time.sleep(0.2)


class Peer:
    """A program that measures itself: a line "CASE N" in, a line of JSON out."""

    def __init__(self, command, cwd, calls):
        self.calls = calls
        self.process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, "BENCH_PROMPT": PROMPT_1K, "NODE_ENV": "production",
                                                        "LANGSMITH_TRACING": "false"})

    def ask(self, case, placement=None, calls=None):
        if placement:
            for task in os.listdir(f"/proc/{self.process.pid}/task"):
                os.sched_setaffinity(int(task), cpus(placement))
        self.process.stdin.write(f"{case} {calls or self.calls}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise Failed(f"{case}: " + (self.process.stderr.read().strip().splitlines() or ["the peer ended"])[0])
        return json.loads(answer)

    def end(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()


PEERS = {}


def peer_of(name):
    """python:…, node:…, agentpy:… and agentjs:… ; None where it is not here"""
    kind = name.split(":")[0]
    if kind not in PEERS:
        node, lc = os.environ.get("BENCH_NODE"), os.environ.get("BENCH_PYTHON")
        calls = 50 if QUICK else 200
        if kind == "python":
            PEERS[kind] = Peer([sys.executable, f"{HERE}/peers/seed_layers.py"], HERE, 1000 if QUICK else 4000)
        elif kind == "agentpy":
            PEERS[kind] = Peer([lc, f"{HERE}/peers/agents.py"], HERE, calls // 5) if lc else None	# tens of milliseconds each
        elif kind == "agentjs":
            PEERS[kind] = Peer(["node", "agents.mjs"], node, calls // 5) if node else None
        else:
            PEERS[kind] = Peer(["node", "peers.mjs"], node, calls) if node else None
    return PEERS[kind]


def run_one(name, clients, placement, warm=False):
    if ":" not in name:
        return pgbench(name, clients, placement, transactions=100 if warm else None)
    peer = peer_of(name)
    if peer is None:
        raise Failed("peer not here")
    return peer.ask(name.split(":")[1], placement, calls=min(30, peer.calls) if warm else None)


def measure(names, clients, placement):
    """{name: a sample a round}, or {name: Failed}"""
    samples = {n: [] for n in names}
    print(f"\n{placement}, {clients} client{'s' if clients > 1 else ''}, {ROUNDS} rounds of {', '.join(names)}", flush=True)
    for round in range(-1, ROUNDS):		# the first is to warm up
        line = []
        place(placement)
        for n in names:
            if isinstance(samples[n], Failed):
                continue
            try:
                sample = run_one(n, clients, placement, warm=round < 0)
                if round >= 0:
                    samples[n].append(sample)
                line.append(f"{n} {sample['p50']:.1f}" if clients == 1 else f"{n} {sample['tps']:.0f}")
            except Failed as e:
                samples[n] = e
                print(f"  {n} failed: {e}", flush=True)
        if round >= 0:
            print(f"  {round + 1}: {'  '.join(line)}", flush=True)
    return samples


# ---------- targets ----------

Row = collections.namedtuple("Row", "target what floor mw ratio bar ambition met")
TARGETS = {}	# id: (what, placement, clients, names, function)


def target(id, what, placement=None, clients=0, names=()):
    def add(f):
        TARGETS[id] = (what, placement, clients, names, f)
        return f
    return add


def figure(x, unit):
    return (f"{x:,.0f}" if x >= 1000 else f"{x:.0f}" if x >= 100 else f"{x:.1f}") + (f" {unit}" if unit else "")


def judged(value, bar, ambition, more):
    ok = (lambda limit: value >= limit) if more else (lambda limit: value <= limit)
    return "ambition" if ok(ambition) else "bar" if ok(bar) else "**no**"


def share(limit):
    """1/12 for a limit that is one, 1.5x else"""
    return f"1/{round(1 / limit)}" if limit < 0.34 and abs(1 / limit - round(1 / limit)) < 0.01 else f"{limit:g}x"


def ratio_row(id, what, samples, floor, mw, bar, ambition, unit="us", more=False, floor_name=None, of=None):
    """floor and mw: (name, field), or functions of a round's {name: sample}"""
    def values(f):
        if callable(f):
            return [f({n: samples[n][i] for n in samples if not isinstance(samples[n], Failed)}) for i in range(ROUNDS)]
        return [s[f[1]] for s in samples[f[0]]]

    for n in of or [f[0] for f in (floor, mw) if not callable(f)]:
        if isinstance(samples[n], Failed):
            return Row(id, what, floor_name or "", "", str(samples[n]), "", "", "–")
    floors, mws = values(floor), values(mw)
    ratios = sorted(m / f for f, m in zip(floors, mws))
    r = statistics.median(ratios)

    def spelt(x):
        return f"{x:.2f}x" if x >= 0.1 else f"{x:.3f}x (1/{1 / x:.0f})"
    sign = "≥" if more else "≤"
    name = floor_name or floor[0]
    return Row(id, what, f"{name} {figure(statistics.median(floors), unit)}", figure(statistics.median(mws), unit),
               f"{spelt(r)} [{ratios[0]:.2g}–{ratios[-1]:.2g}]", f"{sign} {share(bar)}", f"{sign} {share(ambition)}",
               judged(r, bar, ambition, more))


@target("B1", "cache hit through all six stages", "same", 1, ["lookup", "hit", "ask", "roles", "hit_roles"])
def b1(s):
    lookup = f"look-up by primary key under RLS, {int(VARIABLES['rows'])//1000}k rows"
    yield ratio_row("B1", "hit, mw_invoke, p50", s, ("lookup", "p50"), ("hit", "p50"), 1.5, 1.2, floor_name=lookup + ":")
    yield ratio_row("B1 p99", "the same, p99", s, ("lookup", "p99"), ("hit", "p99"), 2, 2, floor_name=lookup + ":")
    yield ratio_row("B1 ask", "hit, mw_ask", s, ("lookup", "p50"), ("ask", "p50"), 1.5, 1.2, floor_name=lookup + ":")
    yield ratio_row("B1 roles", "hit, mw_invoke, another role each call (SET ROLE taken off)", s, ("lookup", "p50"),
                    lambda r: (r["hit_roles"]["p50"] - r["roles"]["p50"]) / 2, 1.5, 1.2, floor_name=lookup + ", one role:",
                    of=["lookup", "roles", "hit_roles"])


@target("B2", "hits, 8 clients", "free", 8, ["lookup", "hit"])
def b2(s):
    yield ratio_row("B2", "hits of 8 clients, free", s, ("lookup", "tps"), ("hit", "tps"), 0.75, 1.0, "/s", more=True,
                    floor_name="the same look-up, 8 clients:")


@target("B3", "hit, 10 KB prompt", "same", 1, ["copy_10k", "hit_10k"])
def b3(s):
    yield ratio_row("B3", "hit, 10 KB prompt", s, ("copy_10k", "p50"), ("hit_10k", "p50"), 2.5, 1.5,
                    floor_name="C function that copies the prompt:")


@target("B4", "all layers over a no-op", "same", 1, ["noop", "hit", "python:five"])
def b4(s):
    yield ratio_row("B4", "all layers of a hit, a C no-op taken off", s, ("python:five", "p50"),
                    lambda r: r["hit"]["p50"] - r["noop"]["p50"], 0.2, 0.1,
                    floor_name="reference design's five Python layers, no framework:", of=["noop", "hit", "python:five"])


@target("B5", "hit against LangChain with the same guarantees", "same", 1, ["hit", "node:lcel_pg_hit", "node:agent_pg_hit"])
def b5(s):
    yield ratio_row("B5 LCEL", "hit", s, ("node:lcel_pg_hit", "p50"), ("hit", "p50"), 1 / 12, 1 / 20, floor_name="LCEL + PostgreSQL (node):")
    yield ratio_row("B5 agent", "hit", s, ("node:agent_pg_hit", "p50"), ("hit", "p50"), 1 / 150, 1 / 300,
                    floor_name="createAgent + PostgreSQL (node):")


@target("B5f", "the same, free", "free", 1, ["hit", "node:lcel_pg_hit", "node:agent_pg_hit"])
def b5f(s):
    yield ratio_row("B5f LCEL", "hit, free", s, ("node:lcel_pg_hit", "p50"), ("hit", "p50"), 1 / 4, 1 / 7,
                    floor_name="LCEL + PostgreSQL (node):")
    yield ratio_row("B5f agent", "hit, free", s, ("node:agent_pg_hit", "p50"), ("hit", "p50"), 1 / 50, 1 / 80,
                    floor_name="createAgent + PostgreSQL (node):")


@target("B6", "hit against an in-process Map", "free", 1, ["hit", "node:lcel_hit", "node:mw_hit"])
def b6(s):
    lcel = "LCEL, cache in the process (node):"
    yield ratio_row("B6", "hit, free", s, ("node:lcel_hit", "p50"), ("hit", "p50"), 0.6, 0.4, floor_name=lcel)
    yield ratio_row("B6n", "hit called from node, free", s, ("node:lcel_hit", "p50"), ("node:mw_hit", "p50"), 1.0, 0.8, floor_name=lcel)


@target("B7", "what a miss adds, against LangChain", "same", 1, ["http_keep", "miss", "node:sdk", "node:lcel_pg_miss", "node:agent_pg_miss"])
def b7(s):
    for id, case, name, bar, ambition in (("B7 agent", "node:agent_pg_miss", "createAgent + PostgreSQL", 0.06, 0.035),
                                          ("B7 LCEL", "node:lcel_pg_miss", "LCEL + PostgreSQL", 0.35, 0.2)):
        yield ratio_row(id, "miss less a direct call", s, lambda r: r[case]["p50"] - r["node:sdk"]["p50"],
                        lambda r: r["miss"]["p50"] - r["http_keep"]["p50"], bar, ambition, floor_name=f"{name} (node) less the SDK:",
                        of=["http_keep", "miss", "node:sdk", case])


@target("B8", "miss, two durable writes", "same", 1, ["insert", "miss", "miss_nosync"])
def b8(s):
    yield ratio_row("B8", "miss: two durable writes, 0 ms model, cache filled", s, ("insert", "p50"), ("miss", "p50"), 3.2, 2.5,
                    floor_name="one INSERT + commit:")
    yield ratio_row("B8 nosync", "the same, mw.synchronous_commit = off", s, ("insert", "p50"), ("miss_nosync", "p50"), 3.2, 2.5,
                    floor_name="one INSERT + commit (durable):")


@target("B9", "miss of a model of 50 ms", "free", 1, ["http_50", "miss_50"])
def b9(s):
    yield ratio_row("B9", "miss of a model of 50 ms, free", s, ("http_50", "p50"), ("miss_50", "p50"), 1.03, 1.015,
                    floor_name="direct call from a backend, connection kept:")


@target("B15", "autonomous write", "same", 1, ["insert", "record"])
def b15(s):
    yield ratio_row("B15", "outcome recorded by the gateway", s, ("insert", "p50"), ("record", "p50"), 1.3, 1.15, floor_name="one INSERT + commit:")


@target("B16", "autonomous writes, 8 clients", "free", 8, ["insert", "record"])
def b16(s):
    yield ratio_row("B16", "outcomes recorded, 8 clients, free", s, ("insert", "tps"), ("record", "tps"), 0.85, 1.0, "/s", more=True,
                    floor_name="INSERT + commit, 8 clients:")


@target("B16x32", "autonomous writes, 32 clients", "free", 32, ["insert", "record"])
def b16x32(s):
    yield ratio_row("B16 x32", "the same, 32 clients", s, ("insert", "tps"), ("record", "tps"), 1.0, 1.5, "/s", more=True,
                    floor_name="INSERT + commit, 32 clients:")


@target("B17", "8 clients on one session's budget", "free", 8, ["miss_own", "miss", "count_own", "count_one"])
def b17(s):
    yield ratio_row("B17", "misses of 8 clients on one session's tokens, free", s, ("miss_own", "tps"), ("miss", "tps"), 0.9, 1.0, "/s",
                    more=True, floor_name="on 8 sessions' tokens:")
    yield ratio_row("B17 hits", "hits of 8 clients on one session's requests, free", s, ("count_own", "tps"), ("count_one", "tps"), 0.9, 1.0,
                    "/s", more=True, floor_name="on 8 sessions' requests:")


@target("B18", "8 clients on one budget, model of 50 ms", "free", 8, ["miss_50_unlimited", "miss_50"])
def b18(s):
    yield ratio_row("B18", "misses of 8 clients on one session's tokens, model of 50 ms, free", s, ("miss_50_unlimited", "tps"), ("miss_50", "tps"),
                    0.95, 0.99, "/s", more=True, floor_name="the same without a budget:")


@target("B21", "one model call in SQL", "same", 1, ["http_fresh", "http_keep", "miss", "miss_nosync"])
def b21(s):
    fresh = "HTTP client in a backend, new connection (as pgsql-http):"
    yield ratio_row("B21", "model call in SQL, all stages and two durable writes", s, ("http_fresh", "p50"), ("miss", "p50"), 1 / 3, 1 / 5, floor_name=fresh)
    yield ratio_row("B21 nosync", "the same, mw.synchronous_commit = off", s, ("http_fresh", "p50"), ("miss_nosync", "p50"), 1 / 3, 1 / 5,
                    floor_name=fresh)
    yield ratio_row("B21 kept", "the same, mw.synchronous_commit = off", s, ("http_keep", "p50"), ("miss_nosync", "p50"), 1, 1,
                    floor_name="the same client, connection kept (no bar):")._replace(bar="", ambition="", met="–")


PORTKEY = "Portkey's gateway, which keeps nothing (node)"


@target("B23", "what a miss adds, against a gateway that keeps nothing", "free", 1, ["http_keep", "miss", "miss_nosync", "node:direct", "node:portkey"])
def b23(s):
    for id, mw, bar, ambition in (("B23 nosync", "miss_nosync", 1 / 4, 1 / 7), ("B23", "miss", 1 / 2, 1 / 3)):
        yield ratio_row(id, "added latency of a miss" + (", mw.synchronous_commit = off" if "nosync" in mw else ", two durable writes") + ", free", s,
                        lambda r: r["node:portkey"]["p50"] - r["node:direct"]["p50"], lambda r: r[mw]["p50"] - r["http_keep"]["p50"], bar, ambition,
                        floor_name=f"{PORTKEY} less a direct call:", of=["http_keep", mw, "node:direct", "node:portkey"])


@target("B24", "misses of 8 clients, against a gateway that keeps nothing", "free", 8, ["miss", "node:portkey_8"])
def b24(s):
    yield ratio_row("B24", "misses of 8 clients, two durable writes, free", s, ("node:portkey_8", "tps"), ("miss", "tps"), 4, 8, "/s", more=True,
                    floor_name=f"{PORTKEY}, 8 at once:")


# ---------- those that pgbench cannot ask ----------


class Psql:
    """One session whose statements are sent as they come"""

    def __init__(self, user="bench_app", database="bench"):
        self.process = subprocess.Popen(["psql", "-qAtX", "-U", user, "-d", database, "-v", "VERBOSITY=terse"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, sql):
        self.send(sql)
        return self.line()

    def until(self, said):
        while self.line() != said:
            pass

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


SLOW_CALLS = {
    "mw": f"SELECT mw_invoke('bench', 's1', {quoted(PROMPT_1K)}, model => 'slow:bench-model', options => '{{\"cache\": \"off\"}}')",
    "floor": f"SELECT floor_http('{os.environ.get('BENCH_SLOW', '')}/chat/completions', '{{}}', false)",
}


def cancelled(call, way):
    """Milliseconds from the cancel to the statement's end, by the server's clock"""
    clock = "extract(epoch FROM clock_timestamp()) * 1000"
    s = Psql()
    pid = s.ask("SELECT pg_backend_pid();")
    if way == "timeout":
        s.ask("SET statement_timeout = 500; SELECT 1;")
    s.send(f"SELECT {clock} AS t0 \\gset")
    s.send(f"{SLOW_CALLS[call]};\nSELECT {clock}, :t0;")
    if way == "cancel":
        time.sleep(0.5)
        begin = float(psql(f"SELECT {clock}, pg_cancel_backend({pid})").split("|")[0])
    said = s.line()
    end, t0 = (float(x) for x in s.line().split("|"))
    s.end()
    if "cancel" not in said:
        raise Failed(f"{call}: {said}")
    return end - (begin if way == "cancel" else t0 + 500)


CLEAN = ("The committee met on Tuesday and talked about the new bridge, which had been closed since the flood in spring. Most of its members "
         "wanted to repair it before winter; two asked for another estimate, because the first was a year old and prices had gone up. ")


# Texts that somebody would send to make a pattern slow, each repeated to a length: those that the reference design is
# held against (an address that never comes, digits alone), and others
BAITS_OF_OLD = ["a", "1", "1 "]
BAITS = BAITS_OF_OLD + ["4111 ", "a.", "a-", "a@", "@", "a.b-c_d@e-f.", "1-", "1:", "ab:cd:", "+1 ", "(1) ", "DE89 ", "key=", "://", "eyJ", "AB1 ",
         "-----BEGIN ", "1.2.", "<EMAIL_0>", "e\u0301", "\uff11", "\u200b1"]


def timed(asked, rounds):
    """Microseconds by name; {name: SQL that returns some}, in turn in one session"""
    took = {c: [] for c in asked}
    s = Psql("postgres")
    for c in asked:
        s.ask(f"SELECT {asked[c]};")
    for _ in range(rounds):
        for c in asked:
            took[c].append(float(s.ask(f"SELECT {asked[c]};")))
    s.end()
    return took


def speed_row(id, what, size, floors, mws, bar, ambition):
    """How many times as fast as the floor, of neighbours in time"""
    ratios = sorted(f / m for f, m in zip(floors, mws))
    r = statistics.median(ratios)
    return Row(id, what, f"{size / statistics.median(floors):,.0f} MB/s", f"{size / statistics.median(mws):,.0f} MB/s",
               f"{r:.2f}x as fast [{ratios[0]:.2g}–{ratios[-1]:.2g}]", f"≥ {bar:g}x", f"≥ {ambition:g}x", judged(r, bar, ambition, True))


SETS = (("seed", "the reference design's four types"), ("bench", "all default types"))


@target("B10", "redaction of dense and of clean text")
def b10(_):
    place("same")
    texts = {"1 KB": (PROMPT_1K, (CLEAN * 5)[:1024]), "100 KB": (prompt(100), (CLEAN * 350)[:102400])}
    asked = {}
    for size, (dense, clean) in texts.items():
        n = 2000 if size == "1 KB" else 20
        for kind, text in (("dense", dense), ("clean", clean)):
            asked[size, kind, "floor"] = f"floor_find({quoted(text)}, {n})"
            for tenant, _ in SETS:
                asked[size, kind, tenant] = f"mw.bench_redact({quoted(text)}, '{tenant}', {n})"
    t = timed(asked, 3 * ROUNDS)
    for id, kind, bar, ambition in (("B10", "dense", 0.8, 2.5), ("B11", "clean", 5, 40)):
        for size, (dense, clean) in texts.items():
            for tenant, what in SETS:
                yield speed_row(id, f"redaction with rewriting, {kind} text of {size}, {what}", len(dense if kind == "dense" else clean),
                                t[size, kind, "floor"], t[size, kind, tenant], bar, ambition)


@target("B12", "redaction of the worst texts")
def b12(_):
    place("same")
    slowest = {}
    for bait in BAITS:
        for size, unit in ((10_000, "10 KB"), (1_000_000, "1 MB")):
            text = f"left(repeat({quoted(bait)}, {size}), {size})"
            length = len((bait * size)[:size].encode())
            n = max(1, 200_000 // size)
            t = timed({"floor": f"floor_find({text}, {n})", **{s: f"mw.bench_redact({text}, '{s}', {n})" for s, _ in SETS}}, ROUNDS)
            for tenant, what in SETS:
                row = speed_row("B12", f"redaction of {unit} of `{bait}`, {what}", length, t["floor"], t[tenant], 0.6, 1)
                if bait in BAITS_OF_OLD:
                    yield row
                speed = length / statistics.median(t[tenant])
                if (unit, tenant) not in slowest or speed < slowest[unit, tenant][0]:
                    slowest[unit, tenant] = (speed, row)
                print(f"  {unit} of {bait!r}, {tenant}: {row.floor} {row.mw} {row.ratio}", flush=True)
    for speed, row in slowest.values():
        yield row._replace(target="B12 slowest", what=f"the slowest of {len(BAITS)} baits: {row.what}", bar="", ambition="", met="–")


def rows_of_corpora():
    for name in ("pii-positive-open", "pii-negative-open"):
        with open(f"{HERE}/../test/corpora/{name}.tsv", encoding="utf-8") as f:
            next(f)
            for line in f:
                yield line.split("\t")[0]


@target("linear", "twice the text, twice the time")
def linear(_):
    place("same")
    for what, texts in ((f"{len(BAITS)} baits", BAITS), ("each text of the corpora of personal data", list(rows_of_corpora()))):
        factors = {}
        s = Psql("postgres")
        for text in texts:
            half = max(1, 500_000 // len(text.encode()))
            took = {half: float("inf"), 2 * half: float("inf")}
            # the least time is the text's own, all above it is the machine's: who looks slow is asked more often
            for tries in range(30):
                if tries >= 3 and took[2 * half] <= 2.3 * took[half]:
                    break
                for n in took:
                    took[n] = min(took[n], float(s.ask(f"SELECT mw.bench_redact(repeat({quoted(text + ' ')}, {n}), 'bench', 1);")))
            factors[text] = took[2 * half] / took[half]
        s.end()
        worst = max(factors, key=factors.get)
        f = factors[worst]
        shown = worst[:40].replace("|", "\\|")
        yield Row("linear", f"redaction of 1 MB beside 0.5 MB, {what} repeated; the worst: `{shown}`", "", f"{f:.2f}x the time",
                  f"median {statistics.median(factors.values()):.2f}x", "≤ 2.3x", "≤ 2.3x", judged(f, 2.3, 2.3, False))


@target("B14", "cache key")
def b14(_):
    place("same")
    for size, n in (("1 KB", 5000), ("100 KB", 50)):
        text = (CLEAN * 350)[:1024 if size == "1 KB" else 102400]
        t = timed({"floor": f"floor_key({quoted(text)}, {n})", "mw": f"mw.bench_key({quoted(text)}, {n})"}, 3 * ROUNDS)
        yield speed_row("B14", f"cache key of a request of {size}, BLAKE2b of 16 bytes by libsodium beside it", len(text), t["floor"], t["mw"], 0.9, 1.5)


@target("B13", "guardrail scan")
def b13(_):
    place("same")
    text = (CLEAN * 5)[:1024]
    long = CLEAN * 400
    asked = {"floor": f"floor_search({quoted(text)}, 2000)", "four": f"mw.bench_guard({quoted(text)}, 'four', 2000)",
             "full": f"mw.bench_guard({quoted(text)}, 'scan', 2000)", "long": f"mw.bench_guard({quoted(long)}, 'scan', 20)",
             "learned": f"mw.bench_guard({quoted(text)}, 'bench', 2000)"}
    took = {c: [] for c in asked}
    s = Psql("postgres")
    s.ask("SELECT pg_backend_pid();")
    for c in asked:
        s.ask(f"SELECT {asked[c]};")
    for _ in range(3 * ROUNDS):
        for c in asked:
            took[c].append(float(s.ask(f"SELECT {asked[c]};")))
    s.end()
    t = {c: statistics.median(v) for c, v in took.items()}

    def row(id, what, floor, mw, value, bar, ambition, floor_text, mw_text):
        return Row(id, what, floor_text, mw_text, value, bar[0], ambition[0], judged(mw, bar[1], ambition[1], True))
    r = sorted(f / m for f, m in zip(took["floor"], took["four"]))
    ratio = statistics.median(r)
    yield row("B13", "guardrail: the reference design's four patterns, 1 KB of clean English", None, ratio, f"{ratio:.2f}x as fast [{r[0]:.2g}–{r[-1]:.2g}]",
              ("≥ 0.9x", 0.9), ("≥ 2x", 2), f"four searches by PCRE2's JIT code: {len(text) / t['floor']:.0f} MB/s", f"{len(text) / t['four']:.0f} MB/s")
    for id, case, size, what in (("B13 full", "full", len(text), "all patterns and checks, 1 KB of clean English"), ("B13 long", "long", len(long), f"the same, {len(long) // 1000} KB")):
        speed = size / t[case]
        yield row(id, what, None, speed, "", ("≥ 200 MB/s", 200), ("≥ 200 MB/s", 200), f"four searches: {len(text) / t['floor']:.0f} MB/s", f"{speed:.0f} MB/s")
    learned = (t["learned"] - t["full"]) / len(text) * 1000
    yield Row("B13 learned", "what the classifier adds to a text that was not seen before", "", f"{learned:.1f} us a KB", "", "≤ 20 us", "", judged(learned, 20, 20, False))


@target("B22", "cancel and statement_timeout during a call to an 8 s upstream")
def b22(_):
    place("free")
    for way, what in (("cancel", "pg_cancel_backend"), ("timeout", "statement_timeout")):
        took = {c: [cancelled(c, way) for _ in range(ROUNDS)] for c in ("floor", "mw")}
        mw = statistics.median(took["mw"])
        yield Row(f"B22 {way}", f"{what} during a call to an 8 s model: to the statement's end",
                  f"HTTP client in a backend {statistics.median(took['floor']):.1f} ms", f"{mw:.1f} ms",
                  f"[{min(took['mw']):.1f}–{max(took['mw']):.1f} ms]", "≤ 20 ms", "≤ 5 ms", judged(mw, 20, 5, False))


def private_kb(pid):
    """Pages that this process alone has; without those of shared memory, which are the server's"""
    total = shared = 0
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            fields = line.split()
            if re.match(r"[0-9a-f]+-[0-9a-f]+$", fields[0]):
                mapping_shared = fields[1][3] == "s"
            elif fields[0] in ("Private_Clean:", "Private_Dirty:"):
                total += int(fields[1])
                shared += int(fields[1]) if mapping_shared else 0
    return total - shared, total


@target("B25", "private memory of a backend")
def b25(_):
    place("free")
    s = Psql()
    pid = int(s.ask("SELECT pg_backend_pid();"))
    fresh = private_kb(pid)
    invoke = "SELECT length(mw_invoke('bench', 's1', {})::text);"
    for i in range(20):
        s.ask(invoke.format(quoted(PROMPT_1K + "b")))
    hit = private_kb(pid)
    for i in range(20):
        word = "".join(chr(103 + int(c)) for c in f"{time.time_ns()}")
        s.ask(invoke.format(quoted(PROMPT_1K + word)))
    miss = private_kb(pid)
    s.end()
    node = "node createAgent worker: peer not here"
    mb, ratio = miss[0] / 1024, ""
    peer = peer_of("node:rss")
    if peer:
        peer.ask("agent_pg_miss", calls=200 if QUICK else 2000)
        rss = peer.ask("rss")["mb"]
        node, ratio = f"node createAgent worker {rss:.0f} MB", f"{mb / rss * 100:.1f} % of it; "
    yield Row("B25", "private memory of a backend after hits and misses", node, f"{mb:.1f} MB",
              f"{ratio}fresh {fresh[0] / 1024:.1f}, after hits {hit[0] / 1024:.1f} MB; with pages of shared memory that no other process "
              f"has touched {miss[1] / 1024:.1f}", "≤ 10 MB", "≤ 5 MB", judged(mb, 10, 5, False))


@target("B26", "first calls in a fresh backend")
def b26(_):
    place("same")
    text = quoted(PROMPT_1K + "b")
    calls = {"hit": f"SELECT mw_invoke('bench', 's1', {text})",
             "lookup": "SELECT answer FROM bench.kv WHERE tenant = 'bench' AND key = decode(md5('100'), 'hex')",
             "one": "SELECT used FROM bench.budget WHERE tenant = 'bench' AND session = 's1'",
             "mw_redact": f"SELECT mw_redact({text})",
             "mw_guard": f"SELECT mw_guard({text})"}
    first, warm = {c: [] for c in calls}, {c: [] for c in calls}
    for _ in range(3 * ROUNDS):
        for c, sql in calls.items():
            script = "\\timing on\n" + f"{sql} \\g /dev/null\n" * 11
            done = subprocess.run(["psql", "-AtX", "-U", "bench_app"], input=script, capture_output=True, text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, {0}))
            took = [float(t) for t in re.findall(r"^Time: ([\d.]+) ms", done.stdout, re.M)]
            if len(took) != 11:
                raise Failed(f"{c}: {done.stderr.strip().splitlines()[0] if done.stderr else 'no time'}")
            first[c].append(took[0])
            warm[c].append(statistics.median(took[1:]))
    f, w = {c: statistics.median(first[c]) for c in calls}, {c: statistics.median(warm[c]) for c in calls}
    more = {c: f[c] - w[c] for c in calls}
    yield Row("B26", "first invoke (a hit) in a fresh backend, preloaded", f"warm invoke {w['hit']:.2f} ms", f"{f['hit']:.2f} ms",
              f"+{more['hit']:.2f} ms (a first look-up: +{more['lookup']:.2f} ms)", "≤ +5 ms", "≤ +1 ms", judged(more["hit"], 5, 1, False))
    for c in "mw_redact", "mw_guard":
        own = more[c] - more["one"]
        yield Row("B26", f"first {c} in a fresh backend, preloaded", f"first statement that reads one table: +{more['one']:.2f} ms over a warm one",
                  f"+{more[c]:.2f} ms over a warm one", f"+{own:.2f} ms", "≤ +1 ms", "≤ +0.5 ms", judged(own, 1, 0.5, False))


agents.add(sys.modules[__name__])


# ---------- growth: these leave rows behind, so they come last ----------

# A million of each in the end, in three steps; rows of a tenant that nobody else measures
GROWTH = {
    "tenants": "INSERT INTO mw.tenant (tenant) SELECT 'grown' || i FROM generate_series({0} + 1, {1}) AS i",
    "sessions": "INSERT INTO mw.spent (tenant, session, tokens) SELECT 'bench', 'grown' || i, 100 FROM generate_series({0} + 1, {1}) AS i",
    "ledger": "INSERT INTO mw.attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, purpose, model, started_at, finished_at, outcome, "
              "http_status, input_tokens, output_tokens, reserved_tokens, reserved_requests, billed_tokens, billed_requests) "
              "SELECT 'bench', gen_random_uuid(), 1, 1, 'grown' || i, 'r' || i, false, 1, 'model', 'bench:bench-model', now(), now(), 'ok', 200, 80, 20, 200, 1, 100, 1 "
              "FROM generate_series({0} + 1, {1}) AS i",
}
SIZES = (100, 10_000, 100_000 if QUICK else 1_000_000)


@target("growth", "hit, miss and budget check beside a million tenants, sessions, ledger rows")
def growth(_):
    names = ["lookup", "hit", "count_one", "insert", "miss"]
    had, ratios = 0, {}
    for size in SIZES:
        for sql in GROWTH.values():
            psql(sql.format(had, size))
        psql("VACUUM (ANALYZE) mw.tenant, mw.spent, mw.attempt")
        psql("CHECKPOINT")
        had = size
        s = measure(names, 1, "same")
        for n, floor in (("hit", "lookup"), ("count_one", "lookup"), ("miss", "insert")):
            for r in (s[n], s[floor]):
                if isinstance(r, Failed):
                    raise r
            ratios.setdefault(n, []).append(statistics.median(m["p50"] / f["p50"] for m, f in zip(s[n], s[floor])))
    for n, what in (("hit", "hit"), ("count_one", "hit with its budget check (requests)"), ("miss", "miss")):
        r = ratios[n][-1] / ratios[n][0]
        yield Row(f"growth {n}", f"{what} beside {SIZES[-1]:,} tenants, sessions and ledger rows", f"beside {SIZES[0]}: {ratios[n][0]:.2f} of its floor",
                  f"{ratios[n][-1]:.2f} of it (beside {SIZES[1]:,}: {ratios[n][1]:.2f})", f"{r:.2f}x", "≤ 1.3x", "≤ 1.1x", judged(r, 1.3, 1.1, False))


@target("names", "a caller beside another that invents names of sessions")
def names(_):
    n = 20_000 if QUICK else 200_000
    place("same")
    before = pgbench("hit", 1, "same")["p50"]
    begin = time.time()
    psql(f"SELECT count(mw_invoke('bench', 'invented' || i, {quoted(PROMPT_1K + 'b')})) FROM generate_series(1, {n}) AS i", "bench_app")
    each = (time.time() - begin) / n * 1e6
    after = pgbench("hit", 1, "same")["p50"]
    room = psql("SHOW mw.max_counters")
    yield Row("names", f"hit after {n:,} invented sessions, room for {int(room):,} counters", f"before {before:.1f} us", f"{after:.1f} us",
              f"{after / before:.2f}x; an invented one {each:.0f} us", "≤ 1.3x", "≤ 1.1x", judged(after / before, 1.3, 1.1, False))


@target("rebuild", "first call after a crash: a million ledger rows, 10,000 tenants")
def rebuild(_):
    place("free")
    have = int(psql("SELECT count(*) FROM mw.attempt"))
    want = 100_000 if QUICK else 1_000_000
    if have < want:
        psql(GROWTH["ledger"].format(5_000_000, 5_000_000 + want - have))
    if int(psql("SELECT count(*) FROM mw.tenant")) < 10_000:
        psql("INSERT INTO mw.tenant (tenant) SELECT 'rebuilt' || i FROM generate_series(1, 10000) AS i")
    psql("INSERT INTO mw.spent (tenant, tokens) SELECT tenant, 100 FROM mw.tenant LIMIT 10000 ON CONFLICT DO NOTHING")
    psql("CHECKPOINT")
    took = []
    for i in range(3):
        s = Psql("postgres")
        os.kill(int(s.ask("SELECT pg_backend_pid();")), signal.SIGKILL)
        s.process.terminate()
        s.process.wait()
        time.sleep(0.2)		# until the postmaster has seen it
        while True:
            try:
                psql("SELECT 1")
                break
            except Failed:
                time.sleep(0.02)
        word = "".join(chr(103 + int(c)) for c in f"{time.time_ns()}")
        begin = time.time()
        was = psql(f"SELECT mw_invoke('bench', 's1', {quoted(PROMPT_1K + word)})->>'cache'", "bench_app")
        took.append(time.time() - begin)
        if was != "miss":
            raise Failed(f"the first call is a {was}")
    t = statistics.median(took)
    yield Row("rebuild", f"first call (a miss, with psql's start) after a crash, {want:,} ledger rows, 10,000 tenants", "", f"{t * 1000:.0f} ms",
              f"[{min(took) * 1000:.0f}–{max(took) * 1000:.0f} ms]", "≤ 1 s", "≤ 0.2 s", judged(t, 1, 0.2, False))


# ---------- approvals ----------

APPROVALS = """
CREATE SERVER IF NOT EXISTS asked FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
GRANT USAGE ON FOREIGN SERVER asked TO bench_a;
SELECT mw_create_tenant('asked', '{"model": "asked:m", "cache": false, "redact": false, "guardrail": false}');
SELECT mw_grant_tenant('asked', 'bench_a'), mw_grant_reviewer('asked', 'bench_b');
CREATE TABLE bench.ran (at timestamptz);
GRANT INSERT, SELECT, DELETE ON bench.ran TO bench_a;
GRANT USAGE ON SCHEMA bench TO bench_a;
CREATE FUNCTION bench.run_it(what text) RETURNS text LANGUAGE sql AS $$ INSERT INTO bench.ran VALUES (clock_timestamp()); SELECT 'done' $$;
SELECT mw_create_tool('run_it', 'bench.run_it(text)', options => '{"writes": true}', tenant => 'asked');
SELECT mw_create_agent('asker', '{"tools": ["run_it"], "middleware": [{"type": "human_in_the_loop", "interrupt_on": {"run_it": true}}]}', 'asked');
"""


def paused(session):
    """A session of the application's whose run waits for an approval"""
    step = json.dumps({"m": [{"tool_calls": [{"id": "c1", "name": "run_it", "arguments": {"what": "refund order 4711"}}]}]})
    return (f"SELECT mw_fake('asked', {quoted(step)}); SELECT mw_invoke('asked', '{session}', 'go', agent => 'asker') ->> 'status';")


def grow_inbox(database, want):
    """Rows as a run leaves them that waits; only what is in time order is made to differ"""
    columns = {t: psql(f"SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '{t}'::regclass AND attnum > 0 AND NOT attisdropped",
                       database=database) for t in ("mw.run", "mw.session", "mw.interrupt", "mw.approval_log")}
    new = {"run_id": "md5('run' || i)::uuid", "session": "'copy' || i", "interrupt_id": "md5('interrupt' || i)", "requested_at": "t.requested_at - i * interval '1 second'"}
    for table, names in columns.items():
        values = ", ".join(new.get(c, f"t.{c}") for c in names.split(", "))
        psql(f"INSERT INTO {table} ({names}) SELECT {values} FROM generate_series(2, {want}) AS i, (SELECT * FROM {table} WHERE tenant = 'asked' AND session = 'first') AS t",
             database=database)


def buffers(sql, reviewer):
    """What a statement reads that was made before in its session; on a quiet server always the same"""
    reviewer.send(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql};\n\\echo end")
    read = 0
    while (line := reviewer.line()) != "end":
        read = max(read, sum(int(n) for n in re.findall(r"(?:hit|read)=(\d+)", line)))
    return read


def on_processor(pid):
    """Nanoseconds that a process has had a processor"""
    with open(f"/proc/{pid}/schedstat") as f:
        return int(f.read().split()[0])


@target("approvals", "inbox and decisions beside 100 and 100,000 interrupts that wait; a resume that waits")
def approvals(_):
    place("free")
    n = 40 if QUICK else 200
    few, many = "bench_few", "bench_many"
    sizes = {few: 100, many: 10_000 if QUICK else 100_000}
    approve = "'{\"decisions\": [{\"type\": \"approve\"}]}'"
    asker, reviewer, deep = {}, {}, {}
    for database in sizes:
        psql(f"CREATE DATABASE {database}")
        psql("CREATE EXTENSION mw; CREATE SCHEMA bench; " + APPROVALS, database=database)
        asker[database], reviewer[database] = Psql("bench_a", database), Psql("bench_b", database)

    # from before the COMMIT of the decision to the tool that it lets through
    woken = []
    for i in range(n):
        asker[few].send(paused(f"wait{i}"))
        asker[few].until("interrupted")
        done = json.dumps({"m": [{"text": "done"}]})
        asker[few].send(f"SELECT mw_fake('asked', {quoted(done)}); SELECT mw_resume('asked', 'wait{i}', wait => '1 minute') ->> 'status';")
        while psql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'bench_a' AND wait_event_type = 'Extension'") != "1":
            time.sleep(0.002)
        reviewer[few].send("BEGIN;")
        reviewer[few].ask(f"SELECT status FROM mw_decide('asked', 'wait{i}', {approve});")
        before = reviewer[few].ask("SELECT clock_timestamp();")
        reviewer[few].send("COMMIT;")
        asker[few].until("completed")
        woken.append(float(psql(f"SELECT extract(epoch FROM max(at) - '{before}') * 1000 FROM bench.ran", database=few)))
    w = statistics.median(woken)
    yield Row("approvals wake", "from the COMMIT of mw_decide to the tool running in a mw_resume that waits", "", f"{w:.2f} ms",
              f"[{min(woken):.2f}–{max(woken):.2f} ms]", "≤ 10 ms", "≤ 3 ms", judged(w, 10, 3, False))

    for database, size in sizes.items():
        asker[database].send(paused("first"))
        asker[database].until("interrupted")
        grow_inbox(database, size)
        for i in range(n):
            asker[database].send(paused(f"decide{i}"))
            asker[database].until("interrupted")
        psql("VACUUM (ANALYZE)", database=database)
        deep[database] = psql("SELECT interrupt_id FROM mw.interrupt WHERE tenant = 'asked' AND session LIKE 'copy%' ORDER BY requested_at LIMIT 1 OFFSET 60", database=database)
    psql("CHECKPOINT")
    kinds = {
        "page": ("first page of mw_inbox_html (50)", 5 * n, lambda database, i: "SELECT length(mw_inbox_html('asked'))"),
        "deep": ("the last page of it", 5 * n, lambda database, i: f"SELECT length(mw_inbox_html('asked', before => '{deep[database]}'))"),
        "decide": ("mw_decide with its commit", n, lambda database, i: f"SELECT status FROM mw_decide('asked', 'decide{i}', {approve})"),
    }
    pids = {d: reviewer[d].ask("SELECT pg_backend_pid();") for d in sizes}
    for kind, (what, rounds, statement) in kinds.items():
        # a page waits for nothing, so what other processes do to it is left out
        clock = time.perf_counter_ns if kind == "decide" else None
        took = {database: [] for database in sizes}
        for i in range(rounds):
            # by turns, so that what else the machine does is in both
            for database in (few, many) if i % 2 == 0 else (many, few):
                begin = clock() if clock else on_processor(pids[database])
                reviewer[database].ask(statement(database, i) + ";")
                took[database].append(((clock() if clock else on_processor(pids[database])) - begin) / 1e6)
        ratio = statistics.median(m / f for f, m in zip(took[few], took[many]))
        read = {d: f", {buffers(statement(d, 0), reviewer[d])} buffers" if kind != "decide" else "" for d in sizes}
        yield Row(f"approvals {kind}", f"{what}, {sizes[many]:,} waiting", f"{sizes[few]} waiting: {statistics.median(took[few]):.2f} ms{read[few]}",
                  f"{statistics.median(took[many]):.2f} ms{read[many]}", f"{ratio:.2f}x", "≤ 1.3x", "≤ 1.1x", judged(ratio, 1.3, 1.1, False))
    for session in (*asker.values(), *reviewer.values()):
        session.end()


# ---------- all of it ----------


LONG = ("growth", "names", "rebuild")	# minutes, and they leave rows behind: only where they are asked for


def chosen(arguments):
    for a in arguments:
        if a not in TARGETS:
            sys.exit(f"measure: no target {a}; there are {', '.join(TARGETS)}")
    return arguments or [t for t in TARGETS if t not in LONG]


def sanity():
    """What is called a hit is one, and every layer is on"""
    found = json.loads(psql(f"SELECT mw_redact({quoted(PROMPT_1K)}, 'bench')->'map'", "bench_app"))
    missing = {"EMAIL", "PHONE", "SSN", "CC"} - {re.match(r"<([A-Z]+)_", k).group(1) for k in found}
    if missing:
        raise Failed(f"the prompt's {', '.join(sorted(missing))} is not found by mw_redact")
    for size, text in (("1 KB", PROMPT_1K), ("10 KB", PROMPT_10K)):
        for tenant in ("bench", "requests"):
            fill = (f"SELECT count(mw_invoke('{tenant}', 's1', {quoted(text)} || translate(k::text, '0123456789', 'abcdefghij'))) "
                    f"FROM generate_series(0, {HIT_PROMPTS - 1}) AS k")
            psql(fill, "bench_app")
            was = psql(f"SELECT mw_invoke('{tenant}', 's1', {quoted(text + 'b')})->>'cache'", "bench_app")
            if was != "hit":
                raise Failed(f"a call that should be a hit ({size}) is: {was}")
            if tenant == "bench" and size == "10 KB":
                break
    was = psql(f"SELECT mw_invoke('bench', 's1', {quoted(PROMPT_1K)} || translate(random()::text, '0123456789.', 'ghijklmnopq'))->>'cache'", "bench_app")
    if was != "miss":
        raise Failed(f"a call that should be a miss is: {was}")


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) / 1048576
    return f"{os.cpu_count()} × {model}, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}"


def versions():
    v = ["PostgreSQL " + psql("SHOW server_version").split()[0], "mw " + psql("SELECT extversion FROM pg_extension WHERE extname = 'mw'"),
         "Python " + platform.python_version()]
    if os.environ.get("BENCH_NODE"):
        v.append("node " + subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip().lstrip("v"))
        with open(f"{HERE}/peers/package.json") as f:
            v += [f"{n} {x}" for n, x in json.load(f)["dependencies"].items() if "langchain" in n or n in ("openai", "pg")]
    return ", ".join(v)


def table(rows):
    head = Row("target", "what", "floor", "mw", "ratio [lowest–highest round]", "bar", "ambition", "met")
    lines = ["| " + " | ".join(r) + " |" for r in [head, *rows]]
    lines.insert(1, "| " + " | ".join("---" for _ in head) + " |")
    return "\n".join(lines)


def history(rows, run):
    """What each target's first row came to, a column a run: those of the last seven whole runs and this one"""
    runs, kept = [], {}
    with open(f"{HERE}/RESULTS.md") as f:
        old = [[c.strip() for c in line.strip().strip("|").split("|")] for line in f.read().partition("## History")[2].partition("\n## ")[0].splitlines() if line.startswith("|")]
    if old:
        runs = old[0][1:]
        kept = {line[0]: dict(zip(runs, line[1:])) for line in old[2:]}
    for r in rows:
        if run not in kept.setdefault(r.target, {}):
            kept[r.target][run] = re.split(r" ?\[|; | \(a ", r.ratio)[0] or r.mw
    runs = [r for r in runs if r != run][-7:] + [run]
    lines = [["target", *runs], ["---"] * (len(runs) + 1), *([id, *(of.get(r, "") for r in runs)] for id, of in kept.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--list"]:
        for id, (what, *_) in TARGETS.items():
            print(f"{id:8} {what}")
        return
    if arguments[:1] == ["--check"]:
        chosen(arguments[1:])
        return
    ids = chosen(arguments)

    load = os.getloadavg()[0]
    place("free")
    sanity()
    groups = {}
    for id in ids:
        _, placement, clients, names, _ = TARGETS[id]
        group = groups.setdefault((placement or "", clients), [])
        group += [n for n in names if n not in group]
    samples = {g: measure(names, g[1], g[0]) if names else {} for g, names in sorted(groups.items(), key=lambda g: g[0][1])}

    rows = []
    for id in ids:
        what, placement, clients, _, f = TARGETS[id]
        try:
            rows += list(f(samples[placement or "", clients]))
        except (Failed, ValueError, OSError) as e:
            rows.append(Row(id, what, "", "", f"failed: {e}", "", "", "–"))
    for p in PEERS.values():
        if p:
            p.end()

    out = f"""{table(rows)}

- {datetime.date.today().isoformat()}; {machine()}; {versions()}.
- {ROUNDS} rounds of {SECONDS} s, interleaved: in each round every script runs once, and a ratio is of two runs of the same round. Ratio: the median of the
  rounds' ratios; figures: medians of p50 (of transactions per second where /s). Load of the machine before: {load:.1f} on {os.cpu_count()} processors.
- One client, client, server, gateway and upstream on one processor, where a row does not say "free". 1 KB prompt with an e-mail address, card, IP address, URL,
  telephone and social security number; a role without BYPASSRLS; pgbench -M prepared over a socket; fsync and synchronous_commit on; upstream of 0 ms.
- Only ratios mean anything: the same row moves by tens of per cent within an hour."""
    print("\n" + out)
    if not arguments and not QUICK:
        commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        before = history(rows, f"{datetime.date.today().isoformat()} {commit}".strip())
        with open(f"{HERE}/RESULTS.md", "w") as f:
            f.write(f"# Speed: the targets beside their floors\n\nWritten by `make bench`; what the rows mean, and how they are measured: `bench/README.md`.\n\n{out}\n\n"
                    f"## History\n\nThe ratio of each target's first row, a column a whole run.\n\n{before}\n")
        print(f"\nwritten to {os.path.relpath(f'{HERE}/RESULTS.md')}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except Failed as e:
        sys.exit(f"bench: {e}")
