#!/usr/bin/env python3
"""Trains heed's model on build/model/pairs.tsv (prepare.py writes it), on a CPU within a given time or number of steps.

Symmetric InfoNCE (van den Oord et al. 2018) with the batch's other texts as negatives, words that its definitions
use (a description is not to find its own words), and common words at random. Over the vector's first 256 and first 128
entries (Matryoshka, Kusupati et al. 2022). Two phases: embeddings alone, which learn in minutes, then the encoder. The
learning rate rises linearly and falls along a cosine over the budget.

Weights are kept in fp32 and computed with in bfloat16. The state goes to build/model/checkpoint.pt every few minutes;
the same command goes on from there after an interruption.
"""

import argparse
import hashlib
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from data import Pairs, sort
from model import Bert, Config

ROOT = Path(__file__).resolve().parents[2]
MATRYOSHKA = (256, 128)
TEMPERATURE = 0.05
ENCODER_BATCH = 0.5  # of data.MIXTURE: on a CPU twice the steps are worth more than twice the negatives


def embed(model: Bert, texts: list, first=None, layers=None) -> torch.Tensor:
    """Token ids of N texts -> their vectors [N,E], not normalized. `first` draws a text's first position by its length."""
    order, ids, groups = sort(texts)
    lengths = [length for n, length in groups for _ in range(n)]
    positions = np.concatenate([np.arange(length) + (first(length) if first else 0) for length in lengths])
    vectors = model(ids, torch.from_numpy(positions), groups, layers)
    return vectors[torch.from_numpy(np.argsort(order))]


def contrastive(a: torch.Tensor, b: torch.Tensor, same: torch.Tensor, others: torch.Tensor, same_others: torch.Tensor) -> torch.Tensor:
    """a, b [B,E]: row i of each belongs together; others [M,E] belong to none of a.

    `same` [B,B] and `same_others` [B,M] mark what must not repel a row of a all the same.
    """
    target = torch.arange(len(a))
    loss = 0.0
    for width in MATRYOSHKA:
        scores = F.normalize(a[:, :width]) @ F.normalize(b[:, :width]).T / TEMPERATURE
        scores = scores.masked_fill(same, float("-inf"))
        wrong = F.normalize(a[:, :width]) @ F.normalize(others[:, :width]).T / TEMPERATURE
        wrong = wrong.masked_fill(same_others, float("-inf"))
        loss = loss + (F.cross_entropy(torch.cat([scores, wrong], 1), target) + F.cross_entropy(scores.T, target)) / 2
    return loss / len(MATRYOSHKA)


def alike(*columns) -> torch.Tensor:
    """[B,B]: where two different rows agree in one of the columns."""
    same = sum((torch.from_numpy(c)[:, None] == torch.from_numpy(c)[None, :]).int() for c in columns) > 0
    return same.fill_diagonal_(False)


class Training:
    """The state of a run: fp32 weights, their bfloat16 copy that computes, the optimizer, the time spent."""

    def __init__(self, options, config: Config):
        torch.manual_seed(options.seed)
        self.options, self.step, self.seconds, self.layers = options, 0, 0.0, 0
        self.master = Bert(config)
        self.compute = Bert(config).to(torch.bfloat16)
        decayed = [p for p in self.master.parameters() if p.dim() == 2]
        others = [p for p in self.master.parameters() if p.dim() != 2]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-6)
        self.publish()

    def publish(self) -> None:
        with torch.no_grad():
            for mine, copy in zip(self.master.parameters(), self.compute.parameters()):
                copy.copy_(mine)

    def progress(self) -> float:
        o = self.options
        return self.step / o.steps if o.steps else self.seconds / (60 * o.minutes)

    def rate(self) -> float:
        """The learning rate: each phase has its own ascent and its own cosine down."""
        warm = self.options.embedding_share
        at, peak = self.progress(), self.options.lr
        if at < warm:
            at, peak, floor = at / warm, 2 * peak, 0.3
        else:
            at, floor = (at - warm) / (1 - warm), 0.01
        cosine = floor + (1 - floor) * (1 + math.cos(math.pi * min(at, 1))) / 2
        return peak * min(at / 0.04 + 0.01, 1) * cosine

    def update(self, pairs: Pairs) -> float:
        """One step; returns its loss."""
        started = time.monotonic()
        alone = self.progress() < self.options.embedding_share
        groups, first, second, a, b, words, c = pairs.batch(self.step, 1.0 if alone else ENCODER_BATCH)
        rng = np.random.default_rng((self.options.seed, self.step, 1))
        positions = self.master.config.max_position_embeddings
        # A quarter of the texts starts late, so that positions past the longest training text are trained too.
        first_position = lambda length: int(rng.integers(positions - length)) if rng.random() < 0.25 else 0
        self.compute.train()
        vectors = embed(self.compute, a + b + c, first_position, 0 if alone else None)
        a, b, c = vectors.split([len(a), len(b), len(c)])
        loss = contrastive(a, b, alike(groups, first, second), c, torch.from_numpy(second[:, None] == words))
        loss.backward()
        for mine, copy in zip(self.master.parameters(), self.compute.parameters()):
            mine.grad = None if copy.grad is None else copy.grad.float()
            copy.grad = None
        torch.nn.utils.clip_grad_norm_(self.master.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()
        self.publish()
        self.step += 1
        self.seconds += time.monotonic() - started
        return loss.item()

    def save(self, path: Path, data: str) -> None:
        state = {
            "config": self.master.config.__dict__,
            "model": self.master.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "rng": torch.get_rng_state(),
            "data": data,
        }
        torch.save(state, path.with_suffix(".partial"))
        path.with_suffix(".partial").replace(path)

    def resume(self, path: Path, data: str) -> None:
        state = torch.load(path)
        if state["data"] != data:
            raise SystemExit(f"train: {path} was trained on other pairs than those in pairs.tsv; remove it to start anew")
        if state["config"] != self.master.config.__dict__:
            raise SystemExit(f"train: {path} has another architecture: {state['config']}; remove it to start anew")
        self.master.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        torch.set_rng_state(state["rng"])
        self.publish()


class HeldOut:
    """The queries of heldout.json against the dictionary; refuses queries that training has seen."""

    def __init__(self, folder: Path, pairs: Pairs, part: str):
        self.words = (folder / "dictionary.txt").read_text().splitlines()
        self.encode = pairs.tokenizer.encode
        self.place = {w: i for i, w in enumerate(self.words)}
        self.sets = {kind: parts[part] for kind, parts in json.loads((folder / "heldout.json").read_text()).items()}
        for kind, held in self.sets.items():
            texts = [q["text"] for q in held["queries"]] + held.get("words", [])
            seen = [t for t in texts if t in pairs.index]
            if seen:
                raise SystemExit(f"train: refusing to evaluate: training has seen {len(seen)} of the held-out texts of '{kind}', e.g. '{seen[0]}'")

    @torch.no_grad()
    def evaluate(self, vectors) -> dict:
        """`vectors`: token ids of texts -> [N,E]. For each set hit@1, hit@10 and the median rank."""
        words = F.normalize(vectors([self.encode(w) for w in self.words]).float())
        result = {}
        for kind, held in self.sets.items():
            queries = held["queries"]
            scores = F.normalize(vectors([self.encode(q["text"])[:126] for q in queries]).float()) @ words.T
            ranks = []
            for row, query in zip(scores, queries):
                row[[self.place[w] for w in query["ignore"]]] = -2
                best = row[[self.place[w] for w in query["words"]]].max()
                ranks.append(int((row > best).sum()) + 1)
            ranks = np.array(ranks)
            result[kind] = {"hit@1": (ranks <= 1).mean(), "hit@10": (ranks <= 10).mean(), "median": float(np.median(ranks))}
        return result


def describe(result: dict) -> str:
    return "; ".join(f"{kind} hit@1 {r['hit@1']:.3f} hit@10 {r['hit@10']:.3f} median {r['median']:.0f}" for kind, r in result.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "model")
    parser.add_argument("--minutes", type=float, default=75, help="time to train for; the schedule follows the clock")
    parser.add_argument("--steps", type=int, help="steps to train for instead: the schedule then is reproducible")
    parser.add_argument("--embedding-share", type=float, default=0.07, help="share of the budget that trains embeddings alone")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--layers", type=int, default=Config.num_hidden_layers)
    parser.add_argument("--save-minutes", type=float, default=4)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    pairs = Pairs(options.data, options.seed)
    dev = HeldOut(options.data, pairs, "dev")
    data = hashlib.sha256((options.data / "pairs.tsv").read_bytes()).hexdigest()
    run = Training(options, Config(vocab_size=len(pairs.tokenizer.ids), num_hidden_layers=options.layers))
    path = options.data / options.checkpoint
    if path.exists():
        run.resume(path, data)
        print(f"resuming at step {run.step}, {run.seconds / 60:.1f} min trained")
    count = sum(p.numel() for p in run.master.parameters())
    print(f"{count} parameters, {sum(len(k) for k in pairs.kinds.values())} pairs, {options.threads} threads, seed {options.seed}", flush=True)

    def evaluate() -> None:
        # Embeddings alone are what the first phase trains, and later the baseline of mean word vectors.
        table = run.master.embeddings.word_embeddings.weight
        means = lambda texts: torch.stack([table[t or [1]].mean(0) for t in map(list, texts)])
        run.compute.eval()
        layers = 0 if run.progress() < options.embedding_share else None
        print(f"  dev, model:      {describe(dev.evaluate(lambda t: embed(run.compute, t, layers=layers)))}")
        print(f"  dev, mean words: {describe(dev.evaluate(means))}", flush=True)

    saved = evaluated = run.seconds
    losses = []
    while run.progress() < 1:
        losses.append(run.update(pairs))
        if run.step % 50 == 0:
            rate, mean = run.rate(), sum(losses) / len(losses)
            print(f"step {run.step} {run.seconds / 60:.1f} min loss {mean:.4f} lr {rate:.2e}", flush=True)
            losses = []
        if run.seconds - saved > 60 * options.save_minutes:
            run.save(path, data)
            saved = run.seconds
        if run.seconds - evaluated > 120 * options.save_minutes:
            evaluate()
            evaluated = run.seconds
    run.save(path, data)
    print(f"done: {run.step} steps in {run.seconds / 60:.1f} min")
    evaluate()


if __name__ == "__main__":
    main()
