"""HTTP/2 for upstream.py --h2: enough of RFC 9113 to answer one way or fail in its ways.

Request headers are not decoded (that takes HPACK with its Huffman code), so every
request is for chat completions, of the session without a name, and is checked by its
body alone.  A step plays as text, status or echo; and with "h2":

  "goaway"          GOAWAY that excludes this request, then the connection closes: not processed
  "goaway_lost"     GOAWAY that includes it, then the connection closes: nobody knows
  "goaway_answer"   GOAWAY that includes it, then its answer, then the connection closes
  "refused"         RST_STREAM REFUSED_STREAM: not processed
  "reset"           RST_STREAM INTERNAL_ERROR before the answer
  "reset_body"      ... in the middle of its body
  "close_body"      the connection closes in the middle of its body
  "no_end"          all of the body, but the stream does not end
"""
import asyncio
import json
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def head(status, kind):
    code, kind = str(status).encode(), kind.encode()
    return b"\x08" + bytes([len(code)]) + code + b"\x0f\x10" + bytes([len(kind)]) + kind


def connection(server, transport):
    c = Connection(server)
    c.connection_made(transport)
    return c


class Connection(asyncio.Protocol):
    number = 100000				# apart from those of HTTP/1

    def __init__(self, server):
        Connection.number += 1
        self.number = Connection.number
        self.server, self.sess = server, server.session("")
        self.buffer, self.greeted, self.closed = bytearray(), False, False
        self.bodies, self.served, self.tasks = {}, 0, set()

    def connection_made(self, transport):
        self.transport = transport
        self.sess.connections += 1
        self.sess.open += 1
        self.server.open.add(self)
        self.transport.write(frame(SETTINGS, 0, 0))

    def connection_lost(self, exc):
        self.closed = True
        self.sess.open -= 1
        self.server.open.discard(self)
        for t in self.tasks:
            t.cancel()
        self.sess.changed()

    def reset(self):
        self.transport.abort()

    def data_received(self, data):
        self.buffer += data
        if not self.greeted:
            if len(self.buffer) < len(PREFACE):
                return
            if not self.buffer.startswith(PREFACE):
                self.transport.abort()
                return
            del self.buffer[:len(PREFACE)]
            self.greeted = True
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                return
            kind, flags = self.buffer[3], self.buffer[4]
            stream = int.from_bytes(self.buffer[5:9], "big") & 0x7fffffff
            payload = bytes(self.buffer[9:9 + size])
            del self.buffer[:9 + size]
            self.take(kind, flags, stream, payload)

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            self.transport.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.transport.write(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            self.bodies[stream] = bytearray()
        elif kind == RST:
            self.bodies.pop(stream, None)
        elif kind == DATA and stream in self.bodies:
            self.bodies[stream] += payload
            if payload:
                self.transport.write(frame(WINDOW, 0, 0, struct.pack(">I", len(payload)))
                                     + frame(WINDOW, 0, stream, struct.pack(">I", len(payload))))
        if kind in (HEADERS, DATA) and flags & END_STREAM and stream in self.bodies:
            task = asyncio.ensure_future(self.answer(stream, bytes(self.bodies.pop(stream))))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def answer(self, stream, raw):
        sess = self.sess
        self.served += 1
        entry = {"index": len(sess.journal), "t_ms": int((time.monotonic() - sess.t0) * 1000), "connection": self.number,
                 "nth_on_connection": self.served, "method": "POST", "path": "/v1/chat/completions", "headers": [], "problems": [],
                 "answered": "h2", "client_gone": False, "peer": None, "_raw": b"", "_body": raw}
        sess.journal.append(entry)
        sess.in_flight += 1
        sess.changed()
        try:
            body = json.loads(raw)
            step = sess.next_step(body, self.served > 1) or {"status": 500}
            await self.play(stream, step, body)
        finally:
            sess.in_flight -= 1
            sess.done += 1
            sess.changed()

    async def play(self, stream, step, body):
        what = step.get("h2")
        w = self.transport.write
        if step.get("hold"):
            await self.sess.hold.wait()
        if step.get("delay_ms"):
            await asyncio.sleep(step["delay_ms"] / 1000)
        if what in ("goaway", "goaway_lost", "goaway_answer"):
            w(frame(GOAWAY, 0, 0, struct.pack(">II", stream - 2 if what == "goaway" and stream > 1 else 0 if what == "goaway" else stream, 0)))
            if what != "goaway_answer":
                await asyncio.sleep(0.5 if what == "goaway" else 0.02)
                return self.transport.close()
        if what in ("refused", "reset"):
            return w(frame(RST, 0, stream, struct.pack(">I", 7 if what == "refused" else 2)))
        status = int(step.get("status", 200))
        if status == 200:
            data = json.dumps(self.server.completion(self.sess, step, body)).encode()
        else:
            data = json.dumps(self.server.error_body(status)).encode()
        w(frame(HEADERS, END_HEADERS, stream, head(status, "application/json")))
        if what in ("reset_body", "close_body"):
            w(frame(DATA, 0, stream, data[:len(data) // 2]))
            await asyncio.sleep(0.02)
            return w(frame(RST, 0, stream, struct.pack(">I", 2))) if what == "reset_body" else self.transport.close()
        for i in range(0, len(data), 16384):
            last = i + 16384 >= len(data)
            w(frame(DATA, END_STREAM if last and what != "no_end" else 0, stream, data[i:i + 16384]))
        if what == "goaway_answer":
            await asyncio.sleep(0.02)
            self.transport.close()
