#!/usr/bin/env python3
"""Trains the vectors of the bundled dictionary, with the encoder as it is, and writes web/model/dictionary/index.safetensors.

A word starts from its own vector plus half the mean vector of its definitions, as `npx heed index --weight 0.5` makes it, and learns an offset: each
description in the training data is to find its word among all common words (InfoNCE), and next to it the words that occur in the company of
the same words (neighbours.py). The vector that a definition is to find leaves that definition out of the mean, or every word would be found already.
Held-out words are no negatives, and get the mean offset of all others.

  HEED_MODEL_DATA=folder python3 tools/model/dictionary.py [--model web/model] [--steps 300]
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import safetensors
import sources
from data import DEFINITIONS, DESCRIPTIONS, Pairs
from heldout import HeldOut, describe, embed_many
from model import Bert, read_folder
from neighbours import Neighbours

WIDTH = 128  # entries of a vector, the first of the model's
WEIGHT = 0.5  # of the mean of a word's definitions
QUERIES = 1024  # of a step
TEMPERATURE = 0.05
VARIANTS = 2  # texts that are embedded of each description


class Dictionary:
    """The words' vectors [C,W]: `start`, and a trained offset."""

    def __init__(self, model: Bert, pairs: Pairs, dev: HeldOut, rng: np.random.Generator):
        embedded = lambda texts: F.normalize(embed_many(model, texts)[:, :WIDTH])
        self.words = embedded([dev.encode(word) for word in dev.words])
        definitions = embedded([dev.encode(text) for _, text in dev.definitions])
        places = torch.tensor([place for place, _ in dev.definitions])
        self.sums = torch.zeros_like(self.words).index_add_(0, places, definitions)
        self.counts = torch.bincount(places, minlength=len(self.words)).float()
        self.own = {(place, text): row for row, (place, text) in enumerate(dev.definitions)}
        self.definitions = definitions
        self.offset = torch.zeros_like(self.words, requires_grad=True)
        self.queries, self.right, self.row, self.related = self._queries(embedded, pairs, dev, rng)
        self.trained = torch.zeros(len(self.words), dtype=torch.bool)
        self.trained[[dev.place[word] for word in pairs.names]] = True

    def start(self, places=slice(None), without=None) -> torch.Tensor:
        """The vectors of words before training. `without` [N]: rows of definitions to leave out of the mean, -1 for none."""
        sums, counts = self.sums[places], self.counts[places]
        if without is not None:
            there = (without >= 0).float()
            sums, counts = sums - self.definitions[without] * there[:, None], counts - there
        return F.normalize(self.words[places] + WEIGHT * sums / counts.clamp_min(1)[:, None])

    def vectors(self, places=slice(None), without=None) -> torch.Tensor:
        # Held-out words get the mean offset: trained words move away from what all queries have in common, and would rank behind them otherwise.
        offset = torch.where(self.trained[:, None], self.offset, self.offset[self.trained].mean(0))
        return F.normalize(self.start(places, without) + offset[places])

    def _queries(self, embedded, pairs: Pairs, dev: HeldOut, rng: np.random.Generator) -> tuple:
        """-> vectors of descriptions [N,W], the places of their words [N], rows of the definitions that they are, words that are as right."""
        texts = list(pairs.index)
        names = [dev.place[word] for word in pairs.names]
        chosen = []
        for kind in DESCRIPTIONS:
            for _, first, second in pairs.kinds[kind].tolist():
                if second in pairs.place:
                    chosen.append((first, second, kind in DEFINITIONS))
        varied = [pairs.variation.definition(pairs.texts[f], rng) if d else pairs.texts[f] for _ in range(VARIANTS) for f, _, d in chosen]
        right = torch.tensor([dev.place[texts[s]] for _, s, _ in chosen] * VARIANTS)
        row = torch.tensor([self.own.get((dev.place[texts[s]], texts[f]), -1) for f, s, _ in chosen] * VARIANTS)
        related = [[names[place] for place in pairs.related.get(s, ())] for _, s, _ in chosen]
        return embedded(varied), right, row, related

    def loss(self, rows: np.ndarray, neighbours: Neighbours, weight: float, rng: np.random.Generator) -> torch.Tensor:
        """Of the descriptions `rows`."""
        queries, right = self.queries[rows], self.right[rows]
        table = self.vectors()
        scores = (queries.bfloat16() @ table.bfloat16().T).float() / TEMPERATURE
        related = [self.related[row % len(self.related)] for row in rows]
        at = np.repeat(np.arange(len(rows)), [len(places) for places in related])
        out = (~self.trained)[None].repeat(len(rows), 1)
        out[at, np.concatenate(related).astype(np.int64)] = True
        scores = scores.masked_fill(out, float("-inf"))
        target = (queries * self.vectors(right, self.row[rows])).sum(1) / TEMPERATURE
        loss = (torch.logaddexp(scores.logsumexp(1), target) - target).mean()
        if weight:
            others = neighbours.draw(rng)
            loss = loss + weight * neighbours.targets(right, others).cross_entropy(scores[:, others])
        return loss


def evaluate(dev: HeldOut, model: Bert, dictionary: Dictionary) -> str:
    """Ranks of the development queries' words, before and after training."""
    result = {}
    with torch.no_grad():
        indexes = {"": dictionary.start(), ", trained": dictionary.vectors()}
    for kind, queries in dev.sets.items():
        texts = F.normalize(embed_many(model, [dev.encode(query["text"]) for query in queries])[:, :WIDTH])
        for name, index in indexes.items():
            result[kind + name] = dev.ranks(texts @ index.T, queries)
    return describe(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=sources.DATA)
    parser.add_argument("--model", type=Path, default=sources.ROOT / "web" / "model")
    parser.add_argument("--out", type=Path, help="the file to write, unless it is the model's own")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--neighbours", type=float, default=1.0, help="weight of the neighbours' cross entropy")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = read_folder(options.model)[0].to(torch.bfloat16).eval()
    pairs = Pairs(options.data, options.seed)
    dev = HeldOut(options.data, pairs.tokenizer, pairs.index)
    rng = np.random.default_rng(options.seed)
    dictionary = Dictionary(model, pairs, dev, rng)
    neighbours = Neighbours(sources.glove(options.data), dev.words) if options.neighbours else None
    optimizer = torch.optim.Adam([dictionary.offset], lr=options.lr)
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = options.lr * (1 - step / options.steps)
        loss = dictionary.loss(rng.integers(len(dictionary.queries), size=QUERIES), neighbours, options.neighbours, rng)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {loss.item():.3f}", flush=True)
    print(evaluate(dev, model, dictionary))
    with torch.no_grad():
        vectors = dictionary.vectors()
    scale = vectors.abs().amax(1, keepdim=True) / 127
    codes = (vectors / scale).round().to(torch.int8)
    out = options.out or options.model / "dictionary" / "index.safetensors"
    safetensors.write(out, {"vectors": codes, "vectors_scale": scale})
    print(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
