// createAgent of LangChain's JS, as an application would use it instead of an agent of mw's: the cases of agents.py, which
// says what their names mean, asked and answered in the same way.
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { performance } from "node:perf_hooks";
import { tool } from "@langchain/core/tools";
import { InMemoryCache } from "@langchain/core/caches";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, modelCallLimitMiddleware, modelRetryMiddleware, piiMiddleware, toolCallLimitMiddleware, toolRetryMiddleware } from "langchain";
import OpenAI from "openai";
import pg from "pg";
import { z } from "zod";

const upstream = process.env.BENCH_UPSTREAM;
const QUESTION = "When is invoice 17 due, and is there anything else that this customer still owes?";
const fresh = () => QUESTION + " " + randomUUID().replace(/[0-9-]/g, (c) => "ghijklmnopq"["0123456789-".indexOf(c)]);
const sdk = new OpenAI({ apiKey: "none", baseURL: upstream, maxRetries: 0 });

const dueDate = tool(() => "2027-01-04", {
  name: "due_date",
  description: "When an invoice is due, by its number.",
  schema: z.object({ number: z.number().int() }),
});
const six = () => [
  piiMiddleware("email", { strategy: "redact", applyToInput: true }),
  piiMiddleware("credit_card", { strategy: "redact", applyToInput: true }),
  modelCallLimitMiddleware({ runLimit: 25 }),
  toolCallLimitMiddleware({ runLimit: 25 }),
  modelRetryMiddleware({ maxRetries: 2, initialDelayMs: 1 }),
  toolRetryMiddleware({ maxRetries: 2, initialDelayMs: 1 }),
];

let saver; // one connection, as one backend of mw's has
const keeper = async () => {
  if (!saver) {
    saver = new PostgresSaver(new pg.Pool({ host: process.env.PGHOST, database: process.env.PGDATABASE, user: "bench_peer", max: 1 }), undefined, { schema: "peer_js" });
    await saver.setup();
  }
  return saver;
};

const make = async (name) => {
  if (name === "sdk") return () => sdk.chat.completions.create({ model: "bench-model", messages: [{ role: "user", content: fresh() }] });
  const [what, stack, cache, kept] = name.split("_");
  const model = new ChatOpenAI({ model: "bench-model", apiKey: "none", maxRetries: 0, configuration: { baseURL: upstream }, cache: cache === "hit" ? new InMemoryCache() : undefined });
  const agent = createAgent({
    model,
    tools: what === "tools" ? [dueDate] : [],
    middleware: stack === "six" ? six() : [],
    checkpointer: kept ? await keeper() : undefined,
  });
  return async () => {
    const { messages } = await agent.invoke(
      { messages: [{ role: "user", content: cache === "hit" ? QUESTION : fresh() }] },
      { recursionLimit: 100, ...(kept && { configurable: { thread_id: randomUUID() } }) },
    );
    if (messages.length !== (what === "tools" ? 8 : 2)) throw new Error(`${name}: a run of ${messages.length} messages`);
  };
};

const cases = {};
for await (const line of createInterface({ input: process.stdin })) {
  const [name, n] = line.split(" ");
  const run = (cases[name] ??= await make(name));
  const took = [];
  const begin = performance.now();
  for (let i = 0; i < Number(n); i++) {
    const start = performance.now();
    await run();
    took.push((performance.now() - start) * 1000);
  }
  const seconds = (performance.now() - begin) / 1000;
  took.sort((a, b) => a - b);
  console.log(JSON.stringify({ p50: took[took.length >> 1], p99: took[Math.floor(took.length * 0.99)], tps: Number(n) / seconds }));
}
process.exit(0);
