#!/usr/bin/env python3
"""A mock provider: OpenAI-compatible chat completions that play a script.

Python's standard library only.  It answers from a script, checks each request as
strictly as a provider could, remembers every byte that it got, and can fail in
every way that a provider or a network can.  Nothing in it is random: ids, times
and token usage are derived from the script and from the request.

    python3 upstream.py [--host 127.0.0.1] [--port 0] [--tls] [--echo] [--key K] [--script FILE]
                        [--cert FILE --certkey FILE] [--client-ca FILE] [--tls-max 1.1|1.2|1.3] [--h2] [--h2-too]

The first line of its output is  LISTENING http://127.0.0.1:PORT ; with --tls a
second one names the file of its self-signed certificate: CA /tmp/…/cert.pem.
With TLS a further line names a port where all is to be had without it:
CONTROL http://127.0.0.1:PORT, and with --h2-too another where HTTP/2 is offered: H2 https://…
--cert is a certificate instead of that one, --client-ca asks clients for one of that
CA, --tls-max is the highest version offered, --h2 offers HTTP/2 (h2.py).
It ends at SIGTERM, SIGINT or POST /_quit.

SESSIONS.  Every path exists below /s/NAME too (base_url .../s/NAME/v1): own script,
own journal.  Tests that run at the same time share one process that way.

CONTROL (all below /s/NAME too, JSON in and out)
  POST /_reset    {"script": S, "mode"?, "key"?, "strict"?, "on_head"?, "idle_ms"?, "keep_journal"?}
                  installs a script, empties the journal, unless keep_journal is true.  S is {MODEL: [STEP, ...]} ("*": any
                  other model) or a list of rules [{"match": M, "step": STEP, "times"?: n}]; the
                  first rule that matches and is not used up answers.  M is a text found in any
                  message, or an object of "model", "contains", "regex", "role" (only messages of
                  that role), "last" (only the last user message and what follows it), "nth" (of the
                  session's requests, from 1).  Without M: always.
                  mode   "script" (default) or "echo": where the script has no answer, the answer
                         is the text of the last user message, as the provider saw it
                  key    requests need exactly this bearer key; without it none is asked for
                  strict false: only JSON and "messages" are checked
                  on_head  "abort": reset the connection when a request's head has come, its body
                         unread; "stall": read no further (a long request is never written in full)
                  idle_ms  close a connection, unannounced, when it has been idle for so long
  POST /_rules    {"add": [RULE, ...]}   more rules in front, journal kept
  GET  /_journal  {"requests": [...], "remaining", "exhausted", "connections", "open", "in_flight"}
  GET  /_count    the figures alone: {"requests", "answered", "in_flight", "connections", "open",
                  "lag_ms": the longest that this process was kept from running since the reset}
  POST /_audit    {"nonce": REGEX, "forbidden": REGEX}   judges the journal here and empties it, for
                  campaigns of many requests: {"requests", "nonces": {the group of the last match: n},
                  "without": n (no nonce), "forbidden": n (head or body matches), "problems": [the first 20]}
  GET  /_wait?requests=N[&answered=N][&timeout=S]   the figures as soon as they are reached (408 if not)
  POST /_release  lets steps with "hold" go on
  POST /_down     {"ms": N}   refuses connections for that long (existing ones are cut)
  GET  /_health, POST /_quit
CONNECT makes a tunnel, as a proxy does; /_count says how many ("tunnels").

A journal entry: index, t_ms (since the reset), connection, nth_on_connection, method, path,
raw_head and raw_body (text; raw_base64 instead where a body is not UTF-8), headers (a list of
pairs), body (parsed), problems (why it was refused), answered (what was done), client_gone
(the client hung up before the answer was written), peer (the name in the client's certificate),
proxied (it came as to a proxy).

STEP: one of
  {"text": "..."}                    an answer; null sends "content": null
  {"echo": true}                     the last user message's text
  {"tool_calls": [{"id"?, "name", "arguments": {...} | "arguments_raw": "..."}], "text"?}
  {"status": 429, "body"?, "retry_after"?, "retry_after_ms"?, "should_retry"?}
                                     retry_after: seconds, any text, or {"in": seconds} for a date
  {"error_in_200": {...}}            a 200 whose body is {"error": ...}
  {"raw": "..."} {"raw_base64": ""}  this body, 200
  {"garbage": "..."} / "garbage_base64"   these bytes instead of HTTP, then close
  {"wire": ["...", ...]}             these pieces (latin-1) instead of an HTTP answer, "pause_ms" apart,
                                     "endless": true: the last one again and again; then "cut_end"
  {"h2": WHAT}                       what HTTP/2 can do besides: see h2.py
  {"disconnect": WHEN}               true: before any byte; "after_headers", "mid_body" (alias
                                     "mid_stream"); "reused": before any byte, if the connection
                                     was used before (else the step is not used up and the next answers)
  {"redirect": URL}                  302
and with any of them
  "delay_ms"        before the headers            "delay_body_ms"  between headers and body
  "drip_ms", "drip_bytes"   the body in pieces of so many bytes, so far apart
  "head_drip_ms"    the head byte by byte
  "hold": true      waits for POST /_release      "repeat": n      use the step n times
  "framing"         "length" (default), "chunked", "close" (the end of the connection ends the
                    body), "open" (no length, and the connection stays open: no end)
  "chunk_bytes"     size of a chunk (default all, 1 is nasty)
  "content_length": N   a length that is not true    "infinite": true   a body without an end
  "gzip": true      compressed, and says so       "content_type", "headers": {name: value}
  "header_bytes": N one header of so many bytes   "interim": N     N times 100 Continue first
  "close": true     Connection: close             "hangup": true   closes after it without a word
  "cut": N          only the first N bytes of the whole answer, head included (negative: all but
                    so many), then "cut_end": "fin" (default; over TLS without a goodbye), "reset",
                    "alert" (a fatal TLS alert), "stay" (nothing more comes)
  "spill": "..."    these bytes after the answer, "spill_ms" later (default: in the same write)
  "usage": {...} | null (left out) | any JSON     "finish_reason", "n_choices", "model"
  "extra": {...}    further members of the answer
  "fill": ["x", N] puts N times x for the first % in "raw"
"""
import argparse
import asyncio
import base64
import email.utils
import gzip
import json
import math
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from urllib.parse import parse_qs, unquote

CREATED = 1700000000
ERRORS = {
    400: ("Invalid request.", "invalid_request_error", "bad_request"),
    401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    403: ("Access denied.", "invalid_request_error", "access_denied"),
    404: ("The model does not exist.", "invalid_request_error", "model_not_found"),
    408: ("Request timeout.", "timeout_error", "timeout"),
    409: ("Conflict.", "invalid_request_error", "conflict"),
    413: ("Request too large.", "invalid_request_error", "too_large"),
    422: ("Unprocessable request.", "invalid_request_error", "unprocessable"),
    429: ("Rate limit reached.", "rate_limit_error", "rate_limit_exceeded"),
    500: ("The server had an error.", "server_error", "server_error"),
    502: ("Bad gateway.", "server_error", "bad_gateway"),
    503: ("The engine is overloaded.", "server_error", "overloaded"),
    504: ("Gateway timeout.", "server_error", "gateway_timeout"),
}
REASONS = {100: "Continue", 200: "OK", 302: "Found", 307: "Temporary Redirect", 308: "Permanent Redirect",
           400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
           408: "Request Timeout", 409: "Conflict", 413: "Payload Too Large", 422: "Unprocessable Entity",
           429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
           503: "Service Unavailable", 504: "Gateway Timeout", 529: "Overloaded"}
PARAMETERS = {
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens",
    "temperature", "top_p", "n", "stop", "seed", "stream", "stream_options", "response_format", "user",
    "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "metadata", "store",
    "service_tier", "reasoning_effort", "modalities", "prediction", "audio", "safety_identifier",
    "prompt_cache_key", "verbosity", "web_search_options"}
ROLES = {"system", "developer", "user", "assistant", "tool"}
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
MAX_HEAD = 1 << 20


# ---------- what a provider checks ----------

class Refused(Exception):
    def __init__(self, message, status=400, code="bad_request"):
        super().__init__(message)
        self.status, self.code = status, code


def no_constant(name):
    raise Refused(f"{name} is not JSON")


def no_double(pairs):
    d = dict(pairs)
    if len(d) != len(pairs):
        raise Refused("an object has the same key twice")
    return d


def parse_json(raw):
    """Strict: UTF-8, no NaN, no key twice, no lone surrogate."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Refused(f"the body is not UTF-8: {e}", code="bad_json")
    try:
        body = json.loads(text, parse_constant=no_constant, object_pairs_hook=no_double)
    except ValueError as e:
        raise Refused(f"the body is not JSON: {e}", code="bad_json")
    if "\\ud" in text or "\\uD" in text:
        try:
            dumps_strict(body)
        except UnicodeEncodeError:
            raise Refused("a string holds half a surrogate pair", code="bad_json")
    return body


def want(ok, message):
    if not ok:
        raise Refused(message)


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def check_content(content, where, roles_null=False):
    if content is None:
        want(roles_null, f"{where}.content is null")
        return
    if isinstance(content, str):
        want(content != "", f"{where}.content is empty")
        return
    want(isinstance(content, list) and content, f"{where}.content is neither a text nor a non-empty array")
    for j, part in enumerate(content):
        at = f"{where}.content[{j}]"
        want(isinstance(part, dict) and isinstance(part.get("type"), str), f"{at} has no type")
        kind = part["type"]
        if kind == "text":
            want(isinstance(part.get("text"), str) and part["text"] != "", f"{at}.text is empty or no text")
        elif kind == "refusal":
            want(isinstance(part.get("refusal"), str), f"{at}.refusal is no text")
        elif kind in ("image_url", "input_audio", "file"):
            want(isinstance(part.get(kind), dict), f"{at}.{kind} is no object")
        else:
            raise Refused(f"{at} has the unknown type {kind!r}")


def check_messages(messages):
    want(isinstance(messages, list) and messages, "messages is not a non-empty array")
    open_calls, seen_calls = {}, set()
    for i, m in enumerate(messages):
        at = f"messages[{i}]"
        want(isinstance(m, dict), f"{at} is no object")
        role = m.get("role")
        want(role in ROLES, f"{at}.role is {role!r}")
        if role == "tool":
            call = m.get("tool_call_id")
            want(isinstance(call, str) and call, f"{at} has no tool_call_id")
            want(call in open_calls, f"{at} answers {call!r}, which no preceding assistant message asks for")
            del open_calls[call]
        else:
            want(not open_calls, f"an assistant message with tool_calls must be followed by tool messages for each "
                                 f"tool_call_id; {at} comes before the answers to {sorted(open_calls)}")
            want("tool_call_id" not in m, f"{at} has a tool_call_id but role {role}")
        calls = m.get("tool_calls")
        if calls is not None:
            want(role == "assistant", f"{at} has tool_calls but role {role}")
            want(isinstance(calls, list) and calls, f"{at}.tool_calls is empty")
            for j, c in enumerate(calls):
                cat = f"{at}.tool_calls[{j}]"
                want(isinstance(c, dict) and c.get("type") == "function", f"{cat}.type is not function")
                want(isinstance(c.get("id"), str) and c["id"], f"{cat} has no id")
                want(c["id"] not in seen_calls, f"{cat}.id {c['id']!r} is used twice")
                f = c.get("function")
                want(isinstance(f, dict) and isinstance(f.get("name"), str) and NAME.match(f["name"]), f"{cat}.function.name is wrong")
                want(isinstance(f.get("arguments"), str), f"{cat}.function.arguments is no text")
                seen_calls.add(c["id"])
                open_calls[c["id"]] = True
        want("content" in m or calls, f"{at} has no content")
        check_content(m.get("content"), at, roles_null=role == "assistant" and bool(calls or m.get("refusal")))
        if "name" in m:
            want(isinstance(m["name"], str) and m["name"], f"{at}.name is wrong")
        unknown = set(m) - {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"}
        want(not unknown, f"{at} has the unknown members {sorted(unknown)}")
    want(not open_calls, f"tool calls without an answer: {sorted(open_calls)}")


def check_request(body):
    want(isinstance(body, dict), "the body is no object")
    unknown = set(body) - PARAMETERS
    want(not unknown, f"unrecognized request arguments: {sorted(unknown)}")
    want(isinstance(body.get("model"), str) and body["model"], "model is missing")
    check_messages(body.get("messages"))
    want(not ("max_tokens" in body and "max_completion_tokens" in body), "max_tokens and max_completion_tokens together")
    for k in ("max_tokens", "max_completion_tokens", "n"):
        want(k not in body or is_int(body[k]) and body[k] > 0, f"{k} is not a positive integer")
    for k, low, high in (("temperature", 0, 2), ("top_p", 0, 1), ("presence_penalty", -2, 2), ("frequency_penalty", -2, 2)):
        want(k not in body or is_number(body[k]) and low <= body[k] <= high, f"{k} is not a number from {low} to {high}")
    for k in ("stream", "store", "logprobs", "parallel_tool_calls"):
        want(k not in body or isinstance(body[k], bool), f"{k} is not a boolean")
    want("seed" not in body or is_int(body["seed"]), "seed is no integer")
    want("stream_options" not in body or body.get("stream") is True, "stream_options without stream")
    stop = body.get("stop")
    want(stop is None or isinstance(stop, str) or isinstance(stop, list) and 0 < len(stop) <= 4
         and all(isinstance(s, str) for s in stop), "stop is neither a text nor up to four of them")
    if "tools" in body:
        want(isinstance(body["tools"], list) and body["tools"], "tools is empty")
        names = set()
        for i, t in enumerate(body["tools"]):
            want(isinstance(t, dict) and t.get("type") == "function" and isinstance(t.get("function"), dict), f"tools[{i}] is no function")
            f = t["function"]
            want(isinstance(f.get("name"), str) and NAME.match(f["name"]), f"tools[{i}].function.name is wrong")
            want(f["name"] not in names, f"two tools are named {f['name']!r}")
            names.add(f["name"])
            want("description" not in f or isinstance(f["description"], str), f"tools[{i}].function.description is no text")
            want("parameters" not in f or isinstance(f["parameters"], dict), f"tools[{i}].function.parameters is no schema")
    for k in ("tool_choice", "parallel_tool_calls"):
        want(k not in body or "tools" in body, f"{k} without tools")
    choice = body.get("tool_choice")
    want(choice is None or choice in ("none", "auto", "required") or isinstance(choice, dict)
         and (choice.get("function") or {}).get("name") in names, "tool_choice names no tool")
    form = body.get("response_format")
    want(form is None or isinstance(form, dict) and form.get("type") in ("text", "json_object", "json_schema"),
         "response_format is wrong")


def check_head(req, key):
    headers = req["headers"]
    for name in ("host", "content-type", "content-length"):
        n = sum(k == name for k, _ in headers)
        want(n == 1 or name == "content-length" and req["chunked"] and n == 0, f"there are {n} headers {name}")
    kind = req["get"]("content-type").split(";")[0].strip().lower()
    want(kind == "application/json", f"content-type is {kind!r}")
    auth = [v for k, v in headers if k == "authorization"]
    if key is None:
        want(len(auth) <= 1, f"there are {len(auth)} authorization headers")
    elif len(auth) != 1 or auth[0] != "Bearer " + key:
        raise Refused(f"Incorrect API key provided ({len(auth)} authorization headers).", 401, "invalid_api_key")


# ---------- what it says ----------

def text_of(content):
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(p.get("text", "") if isinstance(p, dict) else str(p) for p in content)
    return ""


def derived_usage(messages, text, calls):
    """A function of the visible text alone, the same for whoever sends the same conversation."""
    prompt = 0
    for m in messages if isinstance(messages, list) else []:
        if isinstance(m, dict):
            prompt += 4 + math.ceil(len(text_of(m.get("content"))) / 4)
            for c in m.get("tool_calls") or []:
                prompt += 4 + math.ceil(len((c.get("function") or {}).get("name", "")) / 4)
    completion = math.ceil(len(text or "") / 4) + sum(4 + math.ceil(len(c["function"]["name"]) / 4) for c in calls)
    return {"prompt_tokens": prompt, "completion_tokens": max(1, completion)}


def last_user_text(body):
    for m in reversed(body.get("messages") or []):
        if isinstance(m, dict) and m.get("role") == "user":
            return text_of(m.get("content"))
    return ""


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def dumps_strict(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")


class Session:
    def __init__(self, name, defaults):
        self.name, self.defaults = name, defaults
        self.hold = asyncio.Event()
        self.waiters = []
        self.in_flight = 0
        self.connections = self.open = 0
        self.reset({})

    def reset(self, conf):
        d = self.defaults
        script = conf.get("script", d.get("script", {}))
        self.rules = []
        self.script, self.pos = {}, {}
        if isinstance(script, list):
            self.add_rules(script)
        else:
            for model, steps in (script or {}).items():
                self.script[model] = [s for s in steps for _ in range(int(s.get("repeat", 1)))]
                self.pos[model] = 0
        self.mode = conf.get("mode", d.get("mode", "script"))
        self.key = conf.get("key", d.get("key"))
        self.strict = conf.get("strict", d.get("strict", True))
        self.on_head = conf.get("on_head")
        self.idle_ms = conf.get("idle_ms")
        if not conf.get("keep_journal"):
            self.journal = []
        self.exhausted = self.answered = self.done = 0
        self.t0 = time.monotonic()
        self.lag = 0.0
        self.hold.set()
        self.hold = asyncio.Event()

    def add_rules(self, rules):
        self.rules = [{"match": r.get("match"), "step": r["step"],
                       "left": int(r.get("times", r["step"].get("repeat", 0)) or -1)} for r in rules] + self.rules

    def counts(self):
        return {"requests": len(self.journal), "answered": self.done, "in_flight": self.in_flight,
                "connections": self.connections, "open": self.open, "lag_ms": int(self.lag * 1000)}

    def audit(self, conf):
        nonce = re.compile(conf["nonce"].encode())
        forbidden = re.compile(conf["forbidden"].encode())
        out = {"requests": len(self.journal), "nonces": {}, "without": 0, "forbidden": 0, "problems": []}
        for e in self.journal:
            # of a conversation the newest one: what it is asked for now
            found = nonce.findall(e["_body"])
            if found:
                name = found[-1].decode()
                out["nonces"][name] = out["nonces"].get(name, 0) + 1
            else:
                out["without"] += 1
            out["forbidden"] += bool(forbidden.search(e["_raw"]))
            out["problems"] += e["problems"]
        out["problems"] = out["problems"][:20]
        self.journal = []
        return out

    def changed(self):
        for w in self.waiters[:]:
            if not w["future"].done() and w["test"]():
                w["future"].set_result(True)

    def matches(self, m, body):
        if m is None or m == {}:
            return True
        if isinstance(m, str):
            m = {"contains": m}
        if "model" in m and m["model"] != body.get("model"):
            return False
        if "nth" in m and m["nth"] != len(self.journal):
            return False
        messages = [x for x in body.get("messages") or [] if isinstance(x, dict)]
        if m.get("last"):
            asked = max((i for i, x in enumerate(messages) if x.get("role") == "user"), default=0)
            messages = messages[asked:]
        texts = [text_of(x.get("content")) for x in messages if m.get("role") in (None, x.get("role"))]
        if "contains" in m and not any(m["contains"] in t for t in texts):
            return False
        return "regex" not in m or any(re.search(m["regex"], t) for t in texts)

    def next_step(self, body, reused):
        for rule in self.rules:
            if rule["left"] != 0 and self.matches(rule["match"], body):
                if rule["step"].get("disconnect") == "reused" and not reused:
                    continue
                rule["left"] -= 1
                return rule["step"]
        model = body.get("model")
        key = model if model in self.script else "*"
        steps, at = self.script.get(key, []), self.pos.get(key, 0)
        if at < len(steps):
            step = steps[at]
            if step.get("disconnect") == "reused" and not reused:
                # it waits for a connection that was used before
                if at + 1 < len(steps):
                    return self.script[key].pop(at + 1)
            else:
                self.pos[key] = at + 1
                return step
        if self.mode == "echo":
            return {"echo": True}
        self.exhausted += 1
        return None

    def report(self):
        out = []
        for e in self.journal:
            e = dict(e)
            raw = e.pop("_raw")
            e["raw_head"] = raw.partition(b"\r\n\r\n")[0].decode("latin-1")
            body = e.pop("_body")
            try:
                e["raw_body"] = body.decode("utf-8")
            except UnicodeDecodeError:
                e["raw_base64"] = base64.b64encode(body).decode()
            try:
                e["body"] = json.loads(body)
                dumps_strict(e["body"])
            except ValueError:				# half a surrogate pair cannot be shown: see raw_body
                e["body"] = None
            e["headers"] = [list(h) for h in e["headers"]]
            out.append(e)
        return {**self.counts(), "session": self.name, "requests": out, "exhausted": self.exhausted,
                "remaining": {m: len(s) - self.pos[m] for m, s in self.script.items()}}


class Gone(Exception):
    """The client hung up."""


class Connection(asyncio.Protocol):
    number = 0

    def __init__(self, server):
        self.server = server
        self.buffer = bytearray()
        self.sessions = set()
        self.task = None
        self.closed = False
        self.request_no = 0
        self.stalled = False
        self.can_write = asyncio.Event()
        self.can_write.set()
        self.idle = None
        self.last_session = None
        self.tunnelled = None
        self.ending = False			# what comes now is not read any more: nobody would answer it

    # the transport's side

    def connection_made(self, transport):
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            import h2
            transport.set_protocol(h2.connection(self.server, transport))
            return
        Connection.number += 1
        self.number = Connection.number
        self.transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.open.add(self)

    def connection_lost(self, exc):
        self.closed = True
        self.server.open.discard(self)
        self.can_write.set()
        if self.idle:
            self.idle.cancel()
        for s in self.sessions:
            s.open -= 1
            s.changed()
        if self.task is not None:
            self.task.cancel()

    def peer(self):
        cert = self.transport.get_extra_info("peercert") or {}
        return next((v for rdn in cert.get("subject", ()) for k, v in rdn if k == "commonName"), None)

    def pause_writing(self):
        self.can_write.clear()

    def resume_writing(self):
        self.can_write.set()

    def eof_received(self):
        return False

    def data_received(self, data):
        if self.tunnelled is not None:
            self.tunnelled.write(data)
            return
        self.buffer += data
        if self.task is None and not self.stalled:
            self.take()

    # requests

    def take(self):
        """Start on the next request, if it is there in full.  Requests without a delay are answered here."""
        while self.task is None and self.buffer and not self.closed and not self.ending:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self.buffer) > MAX_HEAD:
                    self.transport.abort()
                return
            req = getattr(self, "pending", None)
            if req is None or req["end"] != end:
                req = self.parse_head(bytes(self.buffer[:end]), end)
                if req is None:
                    self.transport.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    self.transport.close()
                    return
                self.pending = req
                if self.idle:
                    self.idle.cancel()
                    self.idle = None
                if not req["path"].startswith("/_"):
                    sess = req["session"]
                    if sess not in self.sessions:
                        self.sessions.add(sess)
                        sess.connections += 1
                        sess.open += 1
                    if sess.on_head == "abort":
                        self.reset()
                        return
                    if sess.on_head == "stall":
                        self.stalled = True
                        # else a kernel that may keep 32 MB takes a long request whole, unread
                        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                        self.transport.pause_reading()
                        return
                if req["get"]("expect", "").lower() == "100-continue":
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            got = self.parse_body(req)
            if got is None:
                return
            body, total = got
            req["body"], req["raw"] = body, bytes(self.buffer[:total])
            del self.buffer[:total]
            self.pending = None
            coroutine = self.server.route(self, req)
            if coroutine is not None:
                self.task = asyncio.ensure_future(self.finish(coroutine))

    async def finish(self, coroutine):
        try:
            await coroutine
        except (Gone, asyncio.CancelledError):
            pass
        finally:
            self.task = None
        if not self.closed:
            self.take()

    def parse_head(self, head, end):
        lines = head.decode("latin-1").split("\r\n")
        first = lines[0].split(" ")
        if len(first) != 3 or not first[2].startswith("HTTP/1."):
            return None
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                return None
            headers.append((name.strip().lower(), value.strip()))
        lookup = dict(headers)
        target, _, query = first[1].partition("?")
        proxied = re.match(r"^http://[^/]*", target)
        target = target[proxied.end():] if proxied else target
        name, path = "", target
        if target.startswith("/s/"):
            rest = target[3:]
            name, slash, tail = rest.partition("/")
            name, path = unquote(name), "/" + tail
        return {"method": first[0], "path": path, "proxied": bool(proxied), "query": query, "headers": headers, "end": end,
                "get": lambda k, d="": lookup.get(k, d), "session": self.server.session(name),
                "chunked": "chunked" in lookup.get("transfer-encoding", "").lower(), "close": lookup.get("connection", "").lower() == "close"}

    def parse_body(self, req):
        start = req["end"] + 4
        if not req["chunked"]:
            try:
                length = int(req["get"]("content-length", "0"))
            except ValueError:
                length = 0
            if len(self.buffer) < start + length:
                return None
            return bytes(self.buffer[start:start + length]), start + length
        body, at = b"", start
        while True:
            eol = self.buffer.find(b"\r\n", at)
            if eol < 0:
                return None
            size = int(bytes(self.buffer[at:eol]).split(b";")[0] or b"0", 16)
            if len(self.buffer) < eol + 2 + size + 2:
                return None
            if size == 0:
                return body, eol + 4
            body += bytes(self.buffer[eol + 2:eol + 2 + size])
            at = eol + 2 + size + 2

    # answers

    def reset(self):
        """A TCP reset, so that the client cannot take it for an orderly end."""
        sock = self.transport.get_extra_info("socket")
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.transport.abort()

    async def end(self, how):
        """After what was written: as "cut_end" says."""
        if how == "stay":
            await asyncio.Event().wait()
        await asyncio.sleep(0.02)               # a reset may overtake what was written
        if how == "reset":
            return self.reset()
        fd = self.transport.get_extra_info("socket").fileno()
        if how == "alert":
            os.write(fd, b"\x15\x03\x03\x00\x02\x02\x50")
        with socket.socket(fileno=os.dup(fd)) as s:
            s.shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.05)
        self.transport.abort()

    async def send(self, data):
        if self.closed:
            raise Gone
        self.transport.write(data)
        await self.can_write.wait()
        if self.closed:
            raise Gone

    def simple(self, req, status, payload, extra=()):
        body = dumps(payload)
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        for k, v in extra:
            head += f"{k}: {v}\r\n"
        self.transport.write(head.encode("latin-1") + (b"connection: close\r\n\r\n" if req["close"] else b"\r\n") + body)
        if req["close"]:
            self.transport.close()

    def went_idle(self, sess):
        if sess.idle_ms is not None:
            self.idle = asyncio.get_running_loop().call_later(sess.idle_ms / 1000, self.transport.close)


class Server:
    def __init__(self, defaults, stop):
        self.defaults, self.stop = defaults, stop
        self.sessions = {}
        self.open = set()
        self.tunnels = 0
        self.listener = None

    def session(self, name):
        s = self.sessions.get(name)
        if s is None:
            s = self.sessions[name] = Session(name, self.defaults)
        return s

    # ---------- routes: None when answered at once, else a coroutine that answers ----------

    def route(self, conn, req):
        path, sess = req["path"], req["session"]
        if req["method"] == "CONNECT":
            return self.tunnel(conn, path)
        if path == "/v1/chat/completions":
            if req["method"] != "POST":
                return conn.simple(req, 405, self.error_body(405, "only POST"))
            return self.chat(conn, req, sess)
        if path == "/v1/models" and req["method"] == "GET":
            return conn.simple(req, 200, {"object": "list", "data": [
                {"id": k, "object": "model", "created": CREATED, "owned_by": "script"} for k in sess.script]})
        if path.startswith("/_"):
            return self.control(conn, req, sess)
        return conn.simple(req, 404, self.error_body(404, f"no route {req['method']} {path}"))

    async def tunnel(self, conn, target):
        """As an http proxy: bytes in both directions, whatever they are."""
        host, _, port = target.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        self.tunnels += 1
        conn.tunnelled = writer
        conn.transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            while data := await reader.read(65536):
                await conn.send(data)
        finally:
            writer.close()
            conn.transport.close()

    @staticmethod
    def error_body(status, message=None, code=None):
        m, kind, c = ERRORS.get(status, ("Error.", "error", str(status)))
        return {"error": {"message": message or m, "type": kind, "param": None, "code": code or c}}

    def control(self, conn, req, sess):
        path = req["path"]
        try:
            body = json.loads(req["body"]) if req["body"] else {}
            if req["method"] == "GET":
                if path == "/_journal":
                    return conn.simple(req, 200, sess.report())
                if path == "/_count":
                    return conn.simple(req, 200, {**sess.counts(), "tunnels": self.tunnels})
                if path == "/_health":
                    return conn.simple(req, 200, {"ok": True})
                if path == "/_wait":
                    return self.wait(conn, req, sess)
            elif req["method"] == "POST":
                if path == "/_reset":
                    want(isinstance(body, dict), "an object is needed")
                    unknown = set(body) - {"script", "mode", "key", "strict", "on_head", "idle_ms", "keep_journal"}
                    want(not unknown, f"unknown: {sorted(unknown)}")
                    sess.reset(body)
                    return conn.simple(req, 200, {"ok": True})
                if path == "/_audit":
                    return conn.simple(req, 200, sess.audit(body))
                if path == "/_rules":
                    sess.add_rules(body["add"])
                    return conn.simple(req, 200, {"ok": True})
                if path == "/_release":
                    sess.hold.set()
                    sess.hold = asyncio.Event()
                    return conn.simple(req, 200, {"ok": True})
                if path == "/_down":
                    self.listener.close()
                    conn.simple(req, 200, {"ok": True})
                    # not the connection's own task, which ends when its client goes
                    self.coming_back = asyncio.ensure_future(self.down(conn, body.get("ms", 1000)))
                    return None
                if path == "/_quit":
                    conn.simple(req, 200, {"ok": True})
                    self.stop.set()
                    return None
        except (Refused, ValueError, KeyError, TypeError, AttributeError) as e:
            return conn.simple(req, 400, self.error_body(400, f"{path}: {e!r}"))
        return conn.simple(req, 404, self.error_body(404, f"no route {req['method']} {path}"))

    async def wait(self, conn, req, sess):
        q = {k: v[0] for k, v in parse_qs(req["query"]).items()}
        timeout = float(q.pop("timeout", 30))
        goal = {k: int(v) for k, v in q.items()}

        def reached():
            now = sess.counts()
            return all(now[k] <= v if k in ("open", "in_flight") else now[k] >= v for k, v in goal.items())

        ok = reached()
        if not ok:
            w = {"future": asyncio.get_running_loop().create_future(), "test": reached}
            sess.waiters.append(w)
            try:
                ok = await asyncio.wait_for(w["future"], timeout)
            except asyncio.TimeoutError:
                ok = False
            finally:
                sess.waiters.remove(w)
        conn.simple(req, 200 if ok else 408, sess.counts())

    async def down(self, conn, ms):
        for c in list(self.open):
            if c is not conn:
                c.reset()
        await asyncio.sleep(ms / 1000)
        await self.listen()

    async def listen(self):
        self.listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), self.host, self.port, ssl=self.tls, backlog=1024, reuse_address=True)
        self.port = self.listener.sockets[0].getsockname()[1]

    # ---------- a completion ----------

    def chat(self, conn, req, sess):
        conn.request_no += 1
        conn.last_session = sess
        entry = {"index": len(sess.journal), "t_ms": int((time.monotonic() - sess.t0) * 1000), "connection": conn.number,
                 "nth_on_connection": conn.request_no, "method": req["method"], "path": req["path"],
                 "headers": req["headers"], "problems": [], "answered": None, "client_gone": False,
                 "peer": conn.peer(), "proxied": req["proxied"], "_raw": req["raw"], "_body": req["body"]}
        sess.journal.append(entry)
        try:
            if sess.strict:
                check_head(req, sess.key)
            body = parse_json(req["body"])
            if sess.strict:
                check_request(body)
            want(isinstance(body, dict) and isinstance(body.get("messages"), list), "messages is missing")
        except Refused as e:
            entry["problems"].append(str(e))
            entry["answered"] = f"refused {e.status}"
            conn.simple(req, e.status, self.error_body(e.status, str(e), e.code))
            sess.done += 1
            conn.went_idle(sess)
            sess.changed()
            return None
        step = sess.next_step(body, conn.request_no > 1)
        if step is None:
            entry["answered"] = "exhausted"
            conn.simple(req, 500, self.error_body(500, f"script exhausted for model {body.get('model')}", "script_exhausted"))
            sess.done += 1
            sess.changed()
            return None
        if step.keys() <= {"text", "echo", "repeat", "usage"} and not body.get("stream"):
            # the plain case, without a task of its own
            entry["answered"] = "text"
            conn.simple(req, 200, self.completion(sess, step, body))
            sess.done += 1
            if sess.idle_ms is not None:
                conn.went_idle(sess)
            if sess.waiters:
                sess.changed()
            return None
        sess.in_flight += 1
        sess.changed()
        # the gate that stands now: what a reset lets go on is all that took its step before
        return self.play(conn, req, sess, entry, step, body, sess.hold)

    def completion(self, sess, step, body):
        sess.answered += 1
        n = sess.answered
        calls = []
        for i, c in enumerate(step.get("tool_calls") or []):
            raw = c["arguments_raw"] if "arguments_raw" in c else json.dumps(c.get("arguments", {}), ensure_ascii=False, separators=(",", ":"))
            calls.append({"id": c.get("id") or f"call_{n}_{i}", "type": "function", "function": {"name": c["name"], "arguments": raw}})
        if step.get("echo"):
            text = last_user_text(body)
        else:
            text = step["text"] if "text" in step else None if calls else ""
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        finish = step.get("finish_reason", "tool_calls" if calls else "stop")
        answer = {"id": f"chatcmpl-{n}", "object": "chat.completion", "created": CREATED,
                  "model": step.get("model", body.get("model")), "system_fingerprint": "fp_script",
                  "choices": [{"index": i, "message": message, "logprobs": None, "finish_reason": finish}
                              for i in range(step.get("n_choices", 1))]}
        if "usage" not in step:
            u = derived_usage(body.get("messages"), text, calls)
            answer["usage"] = {**u, "total_tokens": u["prompt_tokens"] + u["completion_tokens"]}
        elif step["usage"] is not None:
            u = step["usage"]
            if isinstance(u, dict) and is_int(u.get("prompt_tokens")) and is_int(u.get("completion_tokens")):
                u = {"total_tokens": u["prompt_tokens"] + u["completion_tokens"], **u}
            answer["usage"] = u
        answer.update(step.get("extra") or {})
        return answer

    async def play(self, conn, req, sess, entry, step, body, hold):
        finished = False
        try:
            await self.act(conn, req, sess, entry, step, body, hold)
            finished = True
        finally:
            entry["client_gone"] = not finished and not entry.get("we_cut", False)
            entry.pop("we_cut", None)
            sess.in_flight -= 1
            sess.done += 1
            if finished and not conn.closed:
                conn.went_idle(sess)
            sess.changed()

    async def act(self, conn, req, sess, entry, step, body, hold):
        def cut():
            entry["we_cut"] = True
            conn.reset()

        if step.get("hold"):
            entry["answered"] = "held"
            await hold.wait()
        if step.get("delay_ms"):
            entry["answered"] = "delayed"
            await asyncio.sleep(step["delay_ms"] / 1000)
        cut_at = step.get("disconnect")
        if cut_at in (True, "reused"):
            entry["answered"] = "disconnect before any byte"
            return cut()
        if "wire" in step:
            entry["answered"] = "wire"
            entry["we_cut"] = conn.ending = True
            pieces = [p.encode("latin-1") for p in step["wire"]]
            for p in pieces:
                await conn.send(p)
                await asyncio.sleep(step.get("pause_ms", 0) / 1000)
            while step.get("endless"):
                await conn.send(pieces[-1])
                await asyncio.sleep(step.get("pause_ms", 0) / 1000)
            return await conn.end(step.get("cut_end", "fin"))
        if "garbage" in step or "garbage_base64" in step:
            entry["answered"] = "garbage"
            data = base64.b64decode(step["garbage_base64"]) if "garbage_base64" in step else step["garbage"].encode()
            await conn.send(data)
            conn.transport.close()
            return None
        status, kind, head = 200, step.get("content_type", "application/json"), []
        if "redirect" in step:
            status, data = int(step.get("status", 302)), b""
            head.append(("location", step["redirect"]))
            entry["answered"] = "redirect"
        elif "status" in step and step["status"] != 200:
            status = int(step["status"])
            payload = step.get("body", self.error_body(status))
            data = payload.encode() if isinstance(payload, str) else dumps(payload)
            entry["answered"] = f"status {status}"
        elif "raw_base64" in step:
            data = base64.b64decode(step["raw_base64"])
            entry["answered"] = "raw"
        elif "raw" in step:
            data = step["raw"].encode("utf-8", "surrogatepass")
            if "fill" in step:
                data = data.replace(b"%", step["fill"][0].encode() * step["fill"][1], 1)
            entry["answered"] = "raw"
        elif "error_in_200" in step:
            data = dumps({"error": step["error_in_200"]})
            entry["answered"] = "error in a 200"
        elif body.get("stream"):
            return await self.stream(conn, req, sess, entry, step, body)
        else:
            data = dumps(self.completion(sess, step, body))
            entry["answered"] = "tool_calls" if step.get("tool_calls") else "text"
        after = step.get("retry_after")
        if after is not None:
            head.append(("retry-after", email.utils.formatdate(time.time() + after["in"], usegmt=True) if isinstance(after, dict) else after))
        if "retry_after_ms" in step:
            head.append(("retry-after-ms", step["retry_after_ms"]))
        if "should_retry" in step:
            head.append(("x-should-retry", str(step["should_retry"]).lower()))
        if step.get("gzip"):
            data = gzip.compress(data, mtime=0)
            head.append(("content-encoding", "gzip"))
        if step.get("header_bytes"):
            head.append(("x-long", "x" * int(step["header_bytes"])))
        head += [(str(k), str(v)) for k, v in (step.get("headers") or {}).items()]
        framing = step.get("framing", "chunked" if step.get("infinite") or "chunk_bytes" in step else "length")
        if framing == "length":
            head.append(("content-length", step.get("content_length", len(data))))
        elif framing == "chunked":
            head.append(("transfer-encoding", "chunked"))
        closing = step.get("close") or req["close"] or framing == "close"
        if closing:
            head.append(("connection", "close"))
        for _ in range(int(step.get("interim", 0))):
            await conn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        block = (f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\ncontent-type: {kind}\r\n"
                 + "".join(f"{k}: {v}\r\n" for k, v in head) + "\r\n").encode("latin-1", "replace")
        if step.get("head_drip_ms"):
            for i in range(len(block)):
                await conn.send(block[i:i + 1])
                await asyncio.sleep(step["head_drip_ms"] / 1000)
            block = b""
        slow = step.get("delay_body_ms") or step.get("drip_ms") or step.get("infinite") or cut_at
        if slow and block:
            await conn.send(block)
            block = b""
        if cut_at == "after_headers":
            entry["answered"] = "disconnect after the headers"
            await asyncio.sleep(0.02)				# a reset may overtake what was written
            return cut()
        if step.get("delay_body_ms"):
            await asyncio.sleep(step["delay_body_ms"] / 1000)
        if step.get("infinite"):
            entry["answered"] = "infinite"
            piece = b"x" * 65536
            piece = b"10000\r\n" + piece + b"\r\n" if framing == "chunked" else piece
            while True:
                await conn.send(piece)
                await asyncio.sleep(step.get("drip_ms", 0) / 1000)
        if cut_at in ("mid_body", "mid_stream"):
            data = data[:max(1, len(data) // 2)]
        pieces = [data]
        if step.get("drip_ms") or step.get("drip_bytes"):
            size = int(step.get("drip_bytes", 1))
            pieces = [data[i:i + size] for i in range(0, len(data), size)]
        for i, piece in enumerate(pieces):
            if framing == "chunked":
                size = int(step.get("chunk_bytes") or len(piece) or 1)
                piece = b"".join(b"%x\r\n%s\r\n" % (len(piece[j:j + size]), piece[j:j + size]) for j in range(0, len(piece), size))
            block += piece
            if step.get("drip_ms"):
                await conn.send(block)
                block = b""
                await asyncio.sleep(step["drip_ms"] / 1000)
        if cut_at in ("mid_body", "mid_stream"):
            await conn.send(block)
            entry["answered"] = "disconnect in the body"
            await asyncio.sleep(0.02)
            return cut()
        if framing == "chunked":
            block += b"0\r\n\r\n"
        # what is whole, and stays, is an answer like others; unless only the connection's end would end its body
        if "cut" in step and (framing == "close" or step["cut"] < len(block) or step.get("cut_end") != "stay"):
            entry["answered"] = "cut"
            entry["we_cut"] = conn.ending = True
            await conn.send(block[:step["cut"]])
            return await conn.end(step.get("cut_end", "fin"))
        if "spill" in step and not step.get("spill_ms"):
            block += step["spill"].encode("latin-1")
        await conn.send(block)
        if step.get("spill_ms"):
            await asyncio.sleep(step["spill_ms"] / 1000)
            await conn.send(step["spill"].encode("latin-1"))
        if closing or step.get("hangup"):
            conn.transport.close()
        elif framing == "open":
            entry["answered"] = "without an end"
            await asyncio.Event().wait()

    async def stream(self, conn, req, sess, entry, step, body):
        """Server-sent events, as far as a client can tell them from a provider's."""
        entry["answered"] = "stream"
        whole = self.completion(sess, step, body)
        message, finish = whole["choices"][0]["message"], whole["choices"][0]["finish_reason"]
        await conn.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n")
        base = {k: whole[k] for k in ("id", "created", "model", "system_fingerprint")}

        async def event(payload):
            data = b"data: " + (payload if isinstance(payload, bytes) else dumps(payload)) + b"\n\n"
            await conn.send(b"%x\r\n%s\r\n" % (len(data), data))
            if step.get("drip_ms"):
                await asyncio.sleep(step["drip_ms"] / 1000)

        async def delta(d, fin=None):
            await event({**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "logprobs": None, "finish_reason": fin}]})

        text = message["content"]
        await delta({"role": "assistant", "content": "" if text is not None else None})
        for i in range(0, len(text or ""), 7):
            await delta({"content": text[i:i + 7]})
        for i, c in enumerate(message.get("tool_calls") or []):
            await delta({"tool_calls": [{"index": i, "id": c["id"], "type": "function", "function": {"name": c["function"]["name"], "arguments": ""}}]})
            for j in range(0, len(c["function"]["arguments"]), 9):
                await delta({"tool_calls": [{"index": i, "function": {"arguments": c["function"]["arguments"][j:j + 9]}}]})
        await delta({}, finish)
        if (body.get("stream_options") or {}).get("include_usage") and "usage" in whole:
            await event({**base, "object": "chat.completion.chunk", "choices": [], "usage": whole["usage"]})
        await event(b"[DONE]")
        await conn.send(b"0\r\n\r\n")


def self_signed(folder):
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.chmod(folder, 0o755)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


async def watch_lag(server):
    """How late this process is: what a test may forgive the machine."""
    while True:
        t = time.monotonic()
        await asyncio.sleep(0.02)
        late = time.monotonic() - t - 0.02
        for s in server.sessions.values():
            s.lag = max(s.lag, late)


async def main():
    ap = argparse.ArgumentParser(description="a mock provider that plays scripts")
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=0)
    ap.add_argument("--tls", action="store_true", help="https with a self-signed certificate")
    ap.add_argument("--cert", help="https with this certificate")
    ap.add_argument("--certkey", help="its key")
    ap.add_argument("--client-ca", help="clients must have a certificate of this CA")
    ap.add_argument("--tls-max", help="the highest version of TLS: 1.1, 1.2 or 1.3")
    ap.add_argument("--h2", action="store_true", help="offer HTTP/2")
    ap.add_argument("--h2-too", action="store_true", help="offer it on a port of its own")
    ap.add_argument("--echo", action="store_true", help="echo where no script has an answer")
    ap.add_argument("--key", help="the bearer key that requests must carry")
    ap.add_argument("--script", help="a file that holds what POST /_reset takes; the default of every session")
    a = ap.parse_args()
    defaults = {}
    if a.script:
        with open(a.script, encoding="utf-8") as f:
            defaults = json.load(f)
    if a.echo:
        defaults["mode"] = "echo"
    if a.key:
        defaults["key"] = a.key
    stop = asyncio.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(s, stop.set)
    server = Server(defaults, stop)
    server.host, server.port, server.tls, cert = a.host, a.port, None, None
    folder = tempfile.mkdtemp(prefix="mw-upstream.") if a.tls else None
    try:
        if folder:
            server.tls, cert = self_signed(folder)
        if a.cert:
            server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.tls.load_cert_chain(a.cert, a.certkey)
        if a.client_ca:
            server.tls.verify_mode = ssl.CERT_REQUIRED
            server.tls.load_verify_locations(a.client_ca)
        if a.tls_max:
            server.tls.set_ciphers("DEFAULT:@SECLEVEL=0")
            server.tls.minimum_version = ssl.TLSVersion.TLSv1
            server.tls.maximum_version = getattr(ssl.TLSVersion, "TLSv" + a.tls_max.replace(".", "_"))
        if a.h2:
            server.tls.set_alpn_protocols(["h2", "http/1.1"])
        await server.listen()
        lag = asyncio.ensure_future(watch_lag(server))
        print(f"LISTENING {'https' if server.tls else 'http'}://{a.host}:{server.port}", flush=True)
        if cert:
            print(f"CA {cert}", flush=True)
        if server.tls:
            control = await asyncio.get_running_loop().create_server(lambda: Connection(server), a.host, 0)
            print(f"CONTROL http://{a.host}:{control.sockets[0].getsockname()[1]}", flush=True)
        if a.h2_too:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(a.cert, a.certkey)
            context.set_alpn_protocols(["h2"])
            h2 = await asyncio.get_running_loop().create_server(lambda: Connection(server), a.host, 0, ssl=context)
            print(f"H2 https://{a.host}:{h2.sockets[0].getsockname()[1]}", flush=True)
        await stop.wait()
        lag.cancel()
        server.listener.close()
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
