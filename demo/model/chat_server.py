"""Serve a GGUF chat model with llama.cpp's own HTTP server, which the xllamacpp wheel carries.

Nothing of the protocol is ours: this file sets parameters and waits.
"""
import argparse
import os
import threading

import xllamacpp

ap = argparse.ArgumentParser()
ap.add_argument("model", help="GGUF file")
ap.add_argument("--port", type=int, required=True)
ap.add_argument("--chat-template", help="Jinja file used instead of the model's own")
ap.add_argument("--slots", type=int, default=4, help="requests served at once")
ap.add_argument("--slot-context", type=int, default=4096, help="tokens of context for each slot")
ap.add_argument("--threads", type=int, default=1, help="more is faster on an idle machine, far slower on a busy one")
args = ap.parse_args()

p = xllamacpp.CommonParams()
p.model.path = args.model
p.model_alias = {"smollm2-135m-instruct"}
p.port = args.port                      # listens on 127.0.0.1 only
p.n_parallel = args.slots
p.n_ctx = args.slots * args.slot_context
p.cpuparams.n_threads = args.threads
p.cpuparams_batch.n_threads = args.threads
p.n_predict = 512                       # when a request gives no max_tokens
p.cache_ram_mib = 64                    # the default lets the prompt cache grow to 8 GiB
p.sampling.temp = 0.2                   # when a request gives no temperature
p.sampling.seed = 42
p.ui = False
if args.chat_template:
    with open(args.chat_template, encoding="utf-8") as f:
        p.chat_template = f.read()
if os.environ.get("MODEL_API_KEY"):
    p.api_keys = [os.environ["MODEL_API_KEY"]]

server = xllamacpp.Server(p)
print(server.listening_address + "/v1", flush=True)
threading.Event().wait()
