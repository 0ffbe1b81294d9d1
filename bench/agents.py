"""The targets of agents (see measure.py): turns and runs beside createAgent, hooks, threads, memory."""
import statistics

QUESTION = "When is invoice 17 due, and is there anything else that this customer still owes?"
HOOKS = 10			# of one agent, beside another without: what one of them costs
THREADS = (10, 1_000, 10_000)
# model calls of a run, and those of mw's that no cache answers: an answer that asks for tools is not kept
MODEL_CALLS = {"turn": 1, "tools": 4}
SENT = {("turn", "hit"): 0, ("turn", "miss"): 1, ("tools", "hit"): 3, ("tools", "miss"): 4}


def variants():
    found = {}
    for what in MODEL_CALLS:
        for stack in ("plain", "six"):
            agent = {"turn": f"bench_{stack}", "tools": f"bench_tools_{stack}"}[what]
            for wait in ("", "_nosync"):
                found[f"{what}_{stack}_hit{wait}"] = ("agent_hit", {"a": agent})
                found[f"{what}_{stack}_miss{wait}"] = ("agent_miss", {"a": agent})
    for hook in ("before_sql", "before_plpgsql", "wrap_sql", "wrap_plpgsql"):
        found[f"hooks_{hook}"] = ("agent_hit", {"a": f"bench_{hook}"})
    for n in THREADS:
        found[f"thread_{n}"] = ("thread", {"n": n})
        found[f"context_{n}"] = ("context", {"n": n})
    return found


def add(m):
    """To the targets of m, the module measure"""
    peers = ("agentpy", "agentjs")

    def peer_time(r, case, calls):
        """The faster peer's, less as many direct calls of its own language as it makes"""
        there = [p for p in peers if f"{p}:{case}" in r]
        return min(r[f"{p}:{case}"]["p50"] - calls * r[f"{p}:sdk"]["p50"] for p in there)

    def names_of(what):
        runs = [f"{what}_{stack}_{cache}" for stack in ("plain", "six") for cache in ("hit", "miss")]
        return ["http_keep"] + [run + wait for run in runs for wait in ("", "_nosync")] + [f"{p}:{c}" for p in peers for c in ["sdk"] + runs + [f"{r}_pg" for r in runs]]

    def rows(id, what, s):
        words = {"turn": "an agent's turn without tools", "tools": "a run with three turns of tools"}[what]
        for stack in ("plain", "six"):
            for cache in ("hit", "miss"):
                run = f"{what}_{stack}_{cache}"
                calls = MODEL_CALLS[what] if cache == "miss" else 0
                sent = SENT[what, cache]
                label = f"{words}, {cache}{'es' if calls > 1 else ''}, {'six middlewares' if stack == 'six' else 'no middleware'}"
                for kept in ("_pg", ""):
                    there = [p for p in peers if not isinstance(s[f"{p}:{run}{kept}"], m.Failed) and not isinstance(s[f"{p}:sdk"], m.Failed)]
                    if not there:
                        yield m.Row(id, label, "createAgent", "", str(s[f"{peers[0]}:{run}{kept}"]), "", "", "–")
                        continue
                    best = min(there, key=lambda p: statistics.median(x["p50"] for x in s[f"{p}:{run}{kept}"]))
                    row = m.ratio_row(
                        id, label, s, lambda r: peer_time(r, run + kept, calls), lambda r: r[run]["p50"] - sent * r["http_keep"]["p50"], 1 / 30, 1 / 100,
                        floor_name=f"createAgent ({'Python' if best == 'agentpy' else 'node'}), {'thread in PostgreSQL' if kept else 'nothing kept'}:",
                        of=[run, "http_keep"])
                    # what keeps nothing is no peer of what a commit keeps
                    yield row if kept else row._replace(target=f"{id} bare", bar="", ambition="", met="–")
                # what is left is work: the difference is the disk's
                yield m.ratio_row(
                    f"{id} nosync", f"{label}, nothing waits for the disk", s,
                    *(lambda r, wait=wait: r[run + wait]["p50"] - sent * r["http_keep"]["p50"] for wait in ("", "_nosync")), 1, 1,
                    floor_name="the same, durable:", of=[run, f"{run}_nosync", "http_keep"])._replace(bar="", ambition="", met="–")

    @m.target("B27", "an agent's turn without tools against createAgent", "same", 1, names_of("turn"))
    def turn(s):
        yield from rows("B27", "turn", s)

    @m.target("B28", "a run with three turns of tools against createAgent", "same", 1, names_of("tools"))
    def tools(s):
        yield from rows("B28", "tools", s)

    hooks = [f"hooks_{h}" for h in ("before_sql", "before_plpgsql", "wrap_sql", "wrap_plpgsql")]

    @m.target("B29", "one more hook", "same", 1, ["turn_plain_hit"] + hooks)
    def hook(s):
        for name in hooks:
            if any(isinstance(s[n], m.Failed) for n in ("turn_plain_hit", name)):
                yield m.Row("B29", name, "", "", str(s[name]), "", "", "–")
                continue
            each = sorted((h["p50"] - t["p50"]) / HOOKS for h, t in zip(s[name], s["turn_plain_hit"]))
            _, kind, language = name.split("_")
            us = statistics.median(each)
            yield m.Row("B29", f"one more hook a turn: {'before_model' if kind == 'before' else 'wrap_model_call'}, LANGUAGE {language}",
                        f"a turn without: {m.figure(statistics.median(t['p50'] for t in s['turn_plain_hit']), 'us')}", m.figure(us, "us"),
                        f"[{each[0]:.3g}–{each[-1]:.3g} us]", "≤ 100 us", "≤ 30 us", m.judged(us, 100, 30, False))

    @m.target("B30", "threads", "same", 1, [f"{w}_{n}" for n in THREADS for w in ("context", "thread")])
    def threads(s):
        for n in THREADS:
            yield m.ratio_row("B30", f"a turn of a thread of {n:,} messages, hit", s, (f"context_{n}", "p50"), (f"thread_{n}", "p50"), 1.5, 1.2,
                              floor_name="a call that is given them all, hit:")

    @m.target("B31", "memory of a backend over 10,000 turns")
    def memory(_):
        m.place("free")
        s = m.Psql()
        pid = int(s.ask("SELECT pg_backend_pid();"))
        turns = 1_000 if m.QUICK else 10_000
        ask = ("SELECT count(mw_ask('bench', 'memory' || (i / 20), {} || translate(i::text, '0123456789', 'abcdefghij'), agent => 'bench_tools_six')) "
               "FROM generate_series({}, {}) AS i;")
        step = turns // 10
        sizes = []
        for i in range(10):
            for j in range(0, step, 100):
                s.ask(ask.format(m.quoted(QUESTION), i * step + j, i * step + j + 99))
            sizes.append(m.private_kb(pid)[0] / 1024)
        s.end()
        grown = (sizes[-1] - sizes[0]) * 1024 / (turns - step)
        yield m.Row("B31", f"private memory of a backend over {turns:,} runs with tools and six middlewares", f"after the first {step:,}: {sizes[0]:.1f} MB",
                    f"{sizes[-1]:.1f} MB", f"{grown * 1024:.0f} bytes a run (by tenths {' '.join(f'{x:.1f}' for x in sizes)})", "flat", "flat",
                    "ambition" if grown * 1024 < 50 else "**no**")
