#!/usr/bin/env python3
"""Stands between mw and the model, passes every byte on, and writes down what was asked.

    wiretap.py TARGET_PORT FILE       prints LISTENING http://127.0.0.1:PORT

FILE gets one line a request: the body, as it came over the wire.  It knows no more of HTTP than
where a body ends.  Python's standard library only.
"""
import asyncio
import signal
import sys


async def pump(reader, writer, seen=None):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
            if seen:
                seen(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


class Requests:
    """Bodies out of a stream of requests that say their length."""

    def __init__(self, file):
        self.file, self.buffer = file, b""

    def __call__(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            length = 0
            for line in self.buffer[:end].split(b"\r\n"):
                name, _, value = line.partition(b":")
                if name.strip().lower() == b"content-length":
                    length = int(value)
            if len(self.buffer) < end + 4 + length:
                return
            if length:
                self.file.write(self.buffer[end + 4:end + 4 + length].replace(b"\n", b" ") + b"\n")
                self.file.flush()
            self.buffer = self.buffer[end + 4 + length:]


async def main(port, path):
    stop = asyncio.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(s, stop.set)

    async def relay(reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            writer.close()
            return
        await asyncio.gather(pump(reader, to_writer, Requests(file)), pump(to_reader, writer))

    with open(path, "ab") as file:
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        print(f"LISTENING http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await stop.wait()


asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
