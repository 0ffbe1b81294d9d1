// What an application would use instead of mw, in node: LangChain's two shapes (LCEL and createAgent), with
// their layers' state in the process or, for the same guarantees as mw's, in PostgreSQL under row-level security.
//
// A peer of bench/measure.py: reads lines "CASE N" on standard input, makes N calls one after the other, and
// answers each line with one of JSON, {"p50": microseconds, "p99": …, "tps": calls a second}.  A case NAME_8 has eight of
// them under way at a time.  Everything comes from the environment:
// BENCH_UPSTREAM, BENCH_PROMPT, and libpq's PGHOST and PGDATABASE.
import { createHash, randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { spawn } from "node:child_process";
import { performance } from "node:perf_hooks";
import { AIMessage } from "@langchain/core/messages";
import { RunnableLambda, RunnableSequence } from "@langchain/core/runnables";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, createMiddleware, modelCallLimitMiddleware, modelRetryMiddleware, piiMiddleware } from "langchain";
import OpenAI from "openai";
import pg from "pg";

const upstream = process.env.BENCH_UPSTREAM;
const prompt = process.env.BENCH_PROMPT;
const db = new pg.Pool({ host: process.env.PGHOST, database: process.env.PGDATABASE, user: "bench_app", max: 4 });

// letters only, as in bench/sql/miss.sql
const fresh = () => prompt + randomUUID().replace(/[0-9-]/g, (c) => "ghijklmnopq"["0123456789-".indexOf(c)]);

// ---------- the layers ----------

const pii = [
  ["EMAIL", /[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}/g],
  ["PHONE", /\+?\d[\d\s\-()]{7,}\d/g],
  ["SSN", /\b\d{3}-\d{2}-\d{4}\b/g],
  ["CC", /\b(?:\d[ -]*?){13,16}\b/g],
];
const injections = [
  /ignore (all |the )?(previous|prior|above) (instructions|rules)/i,
  /system prompt (is|was|now)/i,
  /you are now (a |an )?/i,
  /<\/?(system|instruction|prompt)>/i,
];

const redact = (call) => {
  let input = call.input;
  const values = {};
  for (const [label, pattern] of pii) {
    (input.match(pattern) ?? []).forEach((match, i) => {
      values[`<${label}_${i}>`] = match;
      input = input.replaceAll(match, `<${label}_${i}>`);
    });
  }
  return { ...call, input, values };
};
const refuse = (text) => {
  if (injections.some((p) => p.test(text))) throw new Error("injection");
};
const guardrail = (call) => {
  refuse(call.input);
  return { ...call, input: `<user_input>\n${call.input}\n</user_input>` };
};
const keyOf = (text) => {
  const h = createHash("blake2b512");
  h.update(text).update("\x1f\x1f").update("bench");
  return h.digest().subarray(0, 16);
};
const retry = (call) => ({ ...call, request_id: randomUUID() });

// where budget and cache live: in this process ...
const used = new Map();
const answers = new Map();
const inProcess = {
  budget: async (session) => (used.get(session) ?? 0) < 1e12,
  find: async (key) => answers.get(key.toString("hex")),
  settle: async (session, tokens, key, answer) => {
    used.set(session, (used.get(session) ?? 0) + tokens);
    answers.set(key.toString("hex"), answer);
  },
};
// ... or in PostgreSQL: two look-ups a call, one statement and one commit a miss
const statement = (name, text) => async (...values) => (await db.query({ name, text, values })).rows[0];
const withinBudget = statement("budget", "SELECT used < ceiling AS ok FROM bench.budget WHERE tenant = 'bench' AND session = $1");
const findAnswer = statement("find", "SELECT answer FROM bench.kv WHERE tenant = 'bench' AND key = $1");
const settle = statement("settle", `
  WITH spent AS (UPDATE bench.budget SET used = used + $2 WHERE tenant = 'bench' AND session = $1),
       booked AS (INSERT INTO bench.ledger (payload) VALUES ('usage ' || $2::text))
  INSERT INTO bench.kv (tenant, key, answer) VALUES ('bench', $3, $4) ON CONFLICT DO NOTHING`);
const inPostgres = {
  budget: async (session) => (await withinBudget(session))?.ok,
  find: async (key) => (await findAnswer(key))?.answer,
  settle: (session, tokens, key, answer) => settle(session, tokens, key, answer),
};

// ---------- the shapes ----------

const model = new ChatOpenAI({ model: "bench-model", apiKey: "none", maxRetries: 2, configuration: { baseURL: upstream } });
const sdk = new OpenAI({ apiKey: "none", baseURL: upstream });
const tokens = (message) => (message.usage_metadata?.input_tokens ?? 0) + (message.usage_metadata?.output_tokens ?? 0);

const lcel = (state) => RunnableSequence.from([
  redact,
  guardrail,
  async (call) => {
    if (!(await state.budget(call.session))) throw new Error("budget");
    return call;
  },
  async (call) => {
    const key = keyOf(call.input);
    return { ...call, key, output: await state.find(key) };
  },
  retry,
  async (call) => {
    if (call.output !== undefined) return call.output;
    const message = await model.invoke(call.input);
    await state.settle(call.session, tokens(message), call.key, String(message.content));
    return message.content;
  },
].map((f) => RunnableLambda.from(f)));

const agent = (state) => createAgent({
  model,
  tools: [],
  middleware: [
    ...["email", "credit_card", "ip", "url"].map((type) => piiMiddleware(type, { strategy: "redact", applyToInput: true })),
    createMiddleware({ name: "Guardrail", beforeModel: (s) => refuse(String(s.messages.at(-1).content)) }),
    modelCallLimitMiddleware({ runLimit: 25 }),
    createMiddleware({
      name: "Budget",
      beforeModel: async () => {
        if (!(await state.budget("s1"))) throw new Error("budget");
      },
    }),
    createMiddleware({
      name: "Cache",
      wrapModelCall: async (request, handler) => {
        const key = keyOf(String(request.messages.at(-1).content));
        const hit = await state.find(key);
        if (hit !== undefined) return new AIMessage(hit);
        const message = await handler(request);
        await state.settle("s1", tokens(message), key, String(message.content));
        return message;
      },
    }),
    modelRetryMiddleware({ maxRetries: 2, initialDelayMs: 1, onFailure: "error" }),
  ],
});

const viaLcel = (chain, text) => () => chain.invoke({ input: text(), session: "s1" });
const viaAgent = (a, text) => () => a.invoke({ messages: [{ role: "user", content: text() }] });
const same = (suffix) => () => prompt + suffix;
const lcelHere = lcel(inProcess);
const lcelPg = lcel(inPostgres);
const agentPg = agent(inPostgres);

// ---------- a gateway beside the application ----------

const body = () => JSON.stringify({ model: "bench-model", messages: [{ role: "user", content: fresh() }] });
const post = async (url, headers) => {
  const r = await fetch(url, { method: "POST", headers: { "content-type": "application/json", authorization: "Bearer none", ...headers }, body: body() });
  if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
  await r.json();
};
let portkey; // its port, once it listens
const startPortkey = async () => {
  portkey = 20000 + (process.pid % 20000);
  const child = spawn(process.execPath, ["node_modules/@portkey-ai/gateway/build/start-server.js", `--port=${portkey}`, "--headless"], { stdio: "ignore" });
  process.on("exit", () => child.kill());
  for (let i = 0; i < 100; i++) {
    if (await fetch(`http://127.0.0.1:${portkey}/`).then(() => true, () => false)) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error("Portkey's gateway does not listen");
};
const viaPortkey = async () => {
  if (!portkey) await startPortkey();
  await post(`http://127.0.0.1:${portkey}/v1/chat/completions`, { "x-portkey-provider": "openai", "x-portkey-custom-host": upstream });
};

const cases = {
  direct: () => post(`${upstream}/chat/completions`, {}),
  portkey: viaPortkey,
  sdk: () => sdk.chat.completions.create({ model: "bench-model", messages: [{ role: "user", content: fresh() }] }),
  lcel_hit: viaLcel(lcelHere, same(" here")),
  lcel_pg_hit: viaLcel(lcelPg, same(" lcel")),
  lcel_pg_miss: viaLcel(lcelPg, fresh),
  agent_pg_hit: viaAgent(agentPg, same(" agent")),
  agent_pg_miss: viaAgent(agentPg, fresh),
  mw_hit: () => db.query({ name: "mw", text: "SELECT mw_invoke('bench', 's1', $1)", values: [prompt + "b"] }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, n] = line.split(" ");
  if (name === "rss") {
    console.log(JSON.stringify({ mb: process.memoryUsage().rss / 1048576 }));
    continue;
  }
  const [, which, atOnce] = name.match(/^(.*?)(?:_(\d+))?$/);
  const took = [];
  let left = Number(n);
  const one = async () => {
    while (left-- > 0) {
      const start = performance.now();
      await cases[which]();
      took.push((performance.now() - start) * 1000);
    }
  };
  const begin = performance.now();
  await Promise.all(Array.from({ length: Number(atOnce ?? 1) }, one));
  const seconds = (performance.now() - begin) / 1000;
  took.sort((a, b) => a - b);
  console.log(JSON.stringify({ p50: took[took.length >> 1], p99: took[Math.floor(took.length * 0.99)], tps: Number(n) / seconds }));
}
process.exit(0);
