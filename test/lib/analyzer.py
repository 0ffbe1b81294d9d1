#!/usr/bin/env python3
"""A Presidio analyzer for tests, on a port of its own.

  analyzer.py              a stand-in: two capitalised words are a PERSON, a capitalised word
                           behind "in" a LOCATION, whatever the language
  analyzer.py --presidio MODEL
                           the real analyzer engine with a spaCy model, behind the same few lines
                           of HTTP (its own server is not part of its package)

Prints "LISTENING http://127.0.0.1:PORT".  POST /analyze is Presidio's; POST /be {"mode": ...} says how
the stand-in misbehaves, GET /seen is what it was asked, and forgets it.
"""
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mode = {"mode": "ok"}
seen = []
lock = threading.Lock()
let_go = threading.Event()


def stand_in(texts, language, entities, threshold):
    found = []
    for text in texts:
        places = [("PERSON", m.span(), 0.85) for m in re.finditer(r"\b[A-ZÄÖÜ]\w+ [A-ZÄÖÜ]\w+", text)]
        places += [("LOCATION", m.span(1), 0.6) for m in re.finditer(r"\bin ([A-ZÄÖÜ]\w+)", text)]
        found.append([{"entity_type": e, "start": s[0], "end": s[1], "score": p} for e, s, p in places
                      if e in entities and p >= threshold])
    return found


def presidio():
    from presidio_analyzer import AnalyzerEngine, BatchAnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    engine = AnalyzerEngine(nlp_engine=NlpEngineProvider(nlp_configuration={
        "nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": sys.argv[2]}]}).create_engine())
    batch = BatchAnalyzerEngine(engine)

    def analyze(texts, language, entities, threshold):
        results = batch.analyze_iterator(texts=texts, language=language, entities=entities, score_threshold=threshold)
        return [[{"entity_type": r.entity_type, "start": r.start, "end": r.end, "score": r.score, "analysis_explanation": None}
                 for r in one] for one in results]
    return analyze


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        with lock:
            told = list(seen)
            seen.clear()
        self.answer(200, told)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/be":
            let_go.set()
            mode.update(request)
            self.answer(200, mode)
            return
        with lock:
            seen.append({"request": request, "authorization": self.headers.get("Authorization")})
            now = mode["mode"]
            if now.endswith(" once"):
                mode["mode"] = "ok"
        now = now.replace(" once", "")
        texts = request["text"] if isinstance(request["text"], list) else [request["text"]]
        if now == "hang":
            let_go.clear()
            let_go.wait(60)
            self.close_connection = True
        elif now == "drop":
            self.close_connection = True
        elif now.isdigit():
            self.answer(int(now), {"error": "about " + texts[0]})
        elif now == "object":
            self.answer(200, {"text": texts[0]})
        elif now == "garbage":
            self.answer(200, b"[[{]")
        else:
            try:
                found = analyze(texts, request["language"], request["entities"], request["score_threshold"])
            except Exception as e:
                self.answer(500, {"error": str(e)})
                return
            if now == "outside":
                found[0] = [{"entity_type": "PERSON", "start": 0, "end": len(texts[0]) + 1, "score": 1}]
            elif now == "backwards":
                found[0] = [{"entity_type": "PERSON", "start": 2, "end": 1, "score": 1}]
            elif now == "words":
                found[0] = [{"entity_type": "PERSON", "start": "0", "end": "1", "score": 1}]
            elif now == "few":
                found = found[:-1]
            self.answer(200, found if isinstance(request["text"], list) else found[0] if found else [])


analyze = presidio() if "--presidio" in sys.argv else stand_in
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print("LISTENING http://127.0.0.1:%d" % server.server_address[1], flush=True)
server.serve_forever()
