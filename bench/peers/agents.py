"""createAgent of LangChain's Python, as an application would use it instead of an agent of mw's.

A peer of bench/measure.py, like peers.mjs: reads lines "CASE N" on standard input, makes N runs one after the other and
answers each line with one of JSON, {"p50": microseconds, "p99": ..., "tps": runs a second}.  BENCH_UPSTREAM, PGHOST and
PGDATABASE come from the environment.  A case is sdk (a direct call), or WHAT_STACK_CACHE with

  what    turn (a model call without tools), tools (three turns of tools and the answer)
  stack   plain, six (middlewares)
  cache   hit, miss
  and _pg where the thread is kept in PostgreSQL, as mw keeps it; without it, it is kept nowhere.
"""
import json
import os
import sys
import time
import uuid

os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")

from langchain.agents import create_agent
from langchain.agents.middleware import (ModelCallLimitMiddleware, ModelRetryMiddleware, PIIMiddleware, ToolCallLimitMiddleware,
                                         ToolRetryMiddleware)
from langchain_core.caches import InMemoryCache
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import OpenAI

UPSTREAM = os.environ["BENCH_UPSTREAM"]
QUESTION = "When is invoice 17 due, and is there anything else that this customer still owes?"
sdk = OpenAI(api_key="none", base_url=UPSTREAM, max_retries=0)


def fresh():
    return QUESTION + " " + uuid.uuid4().hex.translate(str.maketrans("0123456789", "ghijklmnop"))


@tool
def due_date(number: int) -> str:
    """When an invoice is due, by its number."""
    return "2027-01-04"


def six():
    return [PIIMiddleware("email", strategy="redact", apply_to_input=True), PIIMiddleware("credit_card", strategy="redact", apply_to_input=True),
            ModelCallLimitMiddleware(run_limit=25), ToolCallLimitMiddleware(run_limit=25),
            ModelRetryMiddleware(max_retries=2, initial_delay=0.001), ToolRetryMiddleware(max_retries=2, initial_delay=0.001)]


def saver():
    """One connection, as one backend of mw's has"""
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection
    from psycopg.rows import dict_row
    connection = Connection.connect(host=os.environ["PGHOST"], dbname=os.environ["PGDATABASE"], user="bench_peer", autocommit=True, prepare_threshold=0,
                                    row_factory=dict_row)
    kept = PostgresSaver(connection)
    kept.setup()
    return kept


savers = {}


def case(name):
    if name == "sdk":
        return lambda: sdk.chat.completions.create(model="bench-model", messages=[{"role": "user", "content": fresh()}])
    what, stack, cache, *kept = name.split("_")
    model = ChatOpenAI(model="bench-model", api_key="none", base_url=UPSTREAM, max_retries=0, cache=InMemoryCache() if cache == "hit" else False)
    if kept and "pg" not in savers:
        savers["pg"] = saver()
    agent = create_agent(model=model, tools=[due_date] if what == "tools" else [], middleware=six() if stack == "six" else [],
                         checkpointer=savers["pg"] if kept else None)
    question = (lambda: QUESTION) if cache == "hit" else fresh

    def run():
        config = {"configurable": {"thread_id": str(uuid.uuid4())}} if kept else None
        messages = agent.invoke({"messages": [{"role": "user", "content": question()}]}, config)["messages"]
        if len(messages) != (8 if what == "tools" else 2):
            sys.exit(f"{name}: a run of {len(messages)} messages")
    return run


def main():
    cases = {}
    for line in sys.stdin:
        name, n = line.split()
        if name not in cases:
            cases[name] = case(name)
        took = []
        begin = time.perf_counter()
        for _ in range(int(n)):
            start = time.perf_counter()
            cases[name]()
            took.append((time.perf_counter() - start) * 1e6)
        seconds = time.perf_counter() - begin
        took.sort()
        print(json.dumps({"p50": took[len(took) // 2], "p99": took[int(len(took) * 0.99)], "tps": int(n) / seconds}), flush=True)


main()
