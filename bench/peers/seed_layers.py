#!/usr/bin/env python3
"""The five layers of the reference design in plain Python: what mw's layers are held against (B4).

A peer of bench/measure.py: reads lines "CASE N" on standard input, runs the case N
times, and answers each with one line of JSON, {"p50": microseconds, "p99": ...}.  Standard library only.
"""
import hashlib
import json
import os
import re
import sys
import threading
import time
import uuid

PII = (
    ("EMAIL", re.compile(r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}")),
    ("PHONE", re.compile(r"\+?\d[\d\s\-\(\)]{7,}\d")),
    ("SSN", re.compile(r"\b\d{3}-\d{2}-\d{4}\b")),
    ("CC", re.compile(r"\b(?:\d[ -]*?){13,16}\b")),
)
INJECTIONS = tuple(re.compile(p, re.I) for p in (
    r"ignore (all |the )?(previous|prior|above) (instructions|rules)",
    r"system prompt (is|was|now)",
    r"you are now (a |an )?",
    r"</?(system|instruction|prompt)>",
))


def redact(call):
    text, values = call["input"], {}
    for label, pattern in PII:
        for i, match in enumerate(pattern.findall(text)):
            placeholder = f"<{label}_{i}>"
            values[placeholder] = match
            text = text.replace(match, placeholder)
    return {**call, "input": text, "_pii_map": values}


def guardrail(call):
    for pattern in INJECTIONS:
        if pattern.search(call["input"]):
            raise ValueError("injection")
    return {**call, "input": f"<user_input>\n{call['input']}\n</user_input>"}


class Budget:
    def __init__(self):
        self.lock = threading.Lock()
        self.used = {}

    def __call__(self, call):
        with self.lock:
            used = self.used.get(call["session_id"], 0)
        if used >= 10**12:
            raise ValueError("budget")
        return call


class Cache:
    def __init__(self):
        self.answers = {}

    def __call__(self, call):
        h = hashlib.blake2b(digest_size=16)
        h.update(call["input"].encode("utf-8"))
        h.update(b"\x1f")
        if call.get("_bound_tools"):
            h.update(json.dumps(call["_bound_tools"], sort_keys=True).encode("utf-8"))
        h.update(b"\x1f")
        h.update(call["tenant_id"].encode("utf-8"))
        key = h.hexdigest()
        hit = self.answers.get(key)
        if hit is not None:
            return {**call, "_cache_hit": True, "output": hit}
        call["_cache_key"] = key
        return call


def retry(call):
    return {**call, "request_id": call.get("request_id") or str(uuid.uuid4())}


LAYERS = (redact, guardrail, Budget(), Cache(), retry)


def five(prompt):
    call = {"input": prompt, "session_id": "s1", "tenant_id": "bench"}
    for layer in LAYERS:
        call = layer(call)
    return call


def measure(case, n):
    prompt = os.environ["BENCH_PROMPT"]
    LAYERS[3].answers[five(prompt).get("_cache_key")] = "an answer"
    took = []
    for _ in range(n):
        start = time.perf_counter_ns()
        case(prompt)
        took.append(time.perf_counter_ns() - start)
    took.sort()
    return {"p50": took[n // 2] / 1000, "p99": took[n * 99 // 100] / 1000}


for line in sys.stdin:
    name, n = line.split()
    print(json.dumps(measure({"five": five}[name], int(n))), flush=True)
