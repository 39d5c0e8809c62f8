"""Training pairs as token ids, and the batches drawn from them. A batch is a function of seed and step alone."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vary import Variation
from wordpiece import CLS, SEP, WordPiece

# Pairs of each kind in a batch of 1024. Definitions and words make the reverse dictionary, those of common words (of
# either dictionary) most of all; examples, quotations, paraphrases and passages make vectors of sentences; the looser relations are
# few, because they pull towards the general.
MIXTURE = {
    "common": 292,
    "definition": 108,
    "webster": 48,
    "genus": 96,
    "phrase": 24,
    "glossary": 8,
    "opposite": 16,
    "part": 8,
    "moby": 88,
    "synonym": 64,
    "hypernym": 16,
    "derived": 16,
    "emoji": 16,
    "paraphrase": 24,
    "example": 56,
    "usage": 24,
    "quotation": 20,
    "verse": 20,
    "fact": 24,
    "passage": 56,
}
DEFINITIONS = ("common", "definition", "webster", "genus", "phrase", "glossary")
DESCRIPTIONS = (*DEFINITIONS, "opposite", "part")  # their second text is a word that is sought among all common words
SENTENCES = ("example", "usage", "quotation", "verse", "fact")  # passages are made of these
RELATED = ("synonym", "moby", "derived")  # a word related in this way to the right one is not a negative
WORDS = 768  # common words at random beside a batch of 1024
ALIKE = 1  # words per description that share a part of a word with it
RUN = 4  # neighbours of one batch in WordNet's order: each other's hard negatives
LONGEST = 46  # tokens of a text in training, without [CLS] and [SEP]
LONGEST_PASSAGE = 96


@dataclass
class Batch:
    groups: np.ndarray  # [B] pairs of one group do not repel each other
    first: np.ndarray  # [B] ids of the first texts
    second: np.ndarray  # [B] ids of the second texts
    a: list  # [B] token ids of the first texts, varied
    b: list  # [B] token ids of the second texts
    words: np.ndarray  # [M] ids of further common words
    c: list  # [M] their token ids
    described: np.ndarray  # [D] rows that are descriptions of a word
    right: list  # [D] for each of them the places, among all common words, that it must not be repelled from


class Pairs:
    """pairs.tsv in memory: `texts` of token ids, and for each kind the [pairs, 3] columns group, first, second."""

    def __init__(self, folder: Path, seed: int):
        if not (folder / "pairs.tsv").exists():
            raise SystemExit(f"train: {folder / 'pairs.tsv'} is missing: run tools/model/prepare.py first")
        self.seed = seed
        self.tokenizer = WordPiece((folder / "vocabulary.txt").read_text().splitlines())
        self.index, groups = {}, {}
        rows = {kind: [] for kind in MIXTURE if kind != "passage"}
        common = (folder / "dictionary.txt").read_text().splitlines()
        known = set(common)
        with (folder / "pairs.tsv").open() as lines:
            for line in lines:
                kind, group, first, second = line.rstrip("\n").split("\t")
                if kind in ("definition", "webster") and second in known:
                    kind = "common"
                row = [groups.setdefault(group, len(groups))] + [self.index.setdefault(t, len(self.index)) for t in (first, second)]
                rows[kind].append(row)
        self.texts = [np.array(self.tokenizer.encode(t)[:LONGEST], np.int64) for t in self.index]
        self.kinds = {kind: np.array(r, np.int64).reshape(-1, 3) for kind, r in rows.items()}
        self.names = [word for word in common if word in self.index]  # held-out words are in no pair
        self.common = np.array([self.index[word] for word in self.names])
        self.place = {text: place for place, text in enumerate(self.common.tolist())}
        self.related = self._related()
        self.variation = Variation(self.tokenizer, self._substitutes(), self.names)
        self.orders = {}

    def batch(self, step: int, scale: float) -> Batch:
        """The pairs of a step, `scale` of the mixture; words that look like its descriptions, and other common words."""
        rng = np.random.default_rng((self.seed, step))
        rows, a, b, described, right, alike = [], [], [], [], [], []
        for number, (kind, share) in enumerate(MIXTURE.items()):
            count = int(share * scale) // RUN * RUN
            if kind == "passage":
                chosen, firsts, seconds = self._passages(step, count, rng)
            else:
                chosen = self._draw(number, self.kinds[kind], step, count)
                firsts, seconds = ([self.texts[t] for t in column] for column in (chosen[:, 1], chosen[:, 2]))
            if kind in DESCRIPTIONS:
                described.append(np.arange(len(a), len(a) + len(firsts)))
                for ids, (_, _, word) in zip(firsts, chosen.tolist()):
                    right.append(self.related.get(word, np.empty(0, np.int64)))
                    alike += self._alike(ids, word, right[-1], rng)
            if kind in DEFINITIONS:
                firsts = [self.variation.definition(ids, rng) for ids in firsts]
            elif kind in SENTENCES:
                firsts = [self.variation.sentence(ids, rng) for ids in firsts]
            rows.append(chosen)
            a += firsts
            b += seconds
        rows = np.concatenate(rows)
        drawn = rng.choice(self.common, int(WORDS * scale), replace=False)
        words = np.unique(np.concatenate([np.array(alike, np.int64), drawn]))
        return Batch(*rows.T, a, b, words, [self.texts[w] for w in words], np.concatenate(described), right)

    def _draw(self, number: int, pairs: np.ndarray, step: int, share: int) -> np.ndarray:
        """`share` pairs, from shuffled passes through the kind; in each, runs of neighbours stay together."""
        runs = len(pairs) // RUN
        at = np.arange(step * share, (step + 1) * share, RUN) // RUN
        if len(at) == 0:
            return pairs[:0]
        chosen = np.concatenate([self._order(number, e, runs)[at[at // runs == e] % runs] for e in np.unique(at // runs)])
        return pairs[(chosen[:, None] * RUN + np.arange(RUN)).ravel()]

    def _order(self, number: int, epoch: int, runs: int) -> np.ndarray:
        key = (number, epoch)
        if key not in self.orders:
            self.orders = {k: v for k, v in self.orders.items() if k[0] != number}
            self.orders[key] = np.random.default_rng((self.seed, number, int(epoch))).permutation(runs)
        return self.orders[key]

    def _passages(self, step: int, count: int, rng: np.random.Generator) -> tuple:
        """Passages of two to four sentences, and what somebody might ask to find one of the sentences.

        -> rows [count, 3] (each passage a text of its own), token ids of the queries, token ids of the passages.
        """
        rows, queries, passages = [], [], []
        for i in range(count):
            group, first, second = self._sentence(rng)
            sentences = [self._sentence(rng)[2] for _ in range(rng.integers(1, 4))]
            sentences.insert(rng.integers(len(sentences) + 1), second)
            # Either its paraphrase or some of its own words.
            query = self.texts[first] if rng.random() < 0.6 else self.variation.excerpt(self.texts[second], rng)
            passage = [piece for sentence in sentences for piece in (self.texts[sentence], self.variation.full_stop)]
            rows.append((group, first, -1 - step * 1024 - i))
            queries.append(self.variation.question(query, rng))
            passages.append(np.concatenate(passage)[:LONGEST_PASSAGE])
        return np.array(rows, np.int64).reshape(-1, 3), queries, passages

    def _sentence(self, rng: np.random.Generator) -> list:
        pairs = self.kinds[SENTENCES[rng.integers(len(SENTENCES))]]
        return pairs[rng.integers(len(pairs))].tolist()

    def _alike(self, ids: np.ndarray, word: int, right: np.ndarray, rng: np.random.Generator) -> list:
        """Text ids of common words that share a part with some word of a description: what it must not be taken for."""
        places = self.variation.alike(ids)
        places = places[~np.isin(places, right)]
        chosen = rng.choice(places, min(ALIKE, len(places)), replace=False) if len(places) else places
        return [text for text in self.common[chosen].tolist() if text != word]

    def _related(self) -> dict:
        """For each text that is a word, the places of the common words that mean about the same, itself among them."""
        related, members = defaultdict(set), defaultdict(set)
        for kind in RELATED:
            for _, first, second in self.kinds[kind].tolist():
                for one, other in ((first, second), (second, first)):
                    if other in self.place:
                        related[one].add(self.place[other])
        for kind in DESCRIPTIONS:
            for group, _, second in self.kinds[kind].tolist():
                members[group].add(second)
        for group in members.values():
            places = {self.place[text] for text in group if text in self.place}
            for text in group:
                related[text] |= places
        return {text: np.array(sorted(places), np.int64) for text, places in related.items() if places}

    def _substitutes(self) -> dict:
        """Token ids of a common word, as bytes -> token ids of words that may stand for it."""
        table = defaultdict(list)
        for _, first, second in self.kinds["synonym"].tolist():
            if first in self.place and second in self.place:
                for one, other in ((first, second), (second, first)):
                    table[self.texts[one].tobytes()].append(self.texts[other])
        return table


def sort(texts: list):
    """Token ids of N texts -> their places by length, ids [T] with [CLS] and [SEP], and (n, L) of each length."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    ids = torch.from_numpy(np.concatenate([piece for i in order for piece in ((CLS,), texts[i], (SEP,))]).astype(np.int64))
    lengths, counts = np.unique([len(texts[i]) + 2 for i in order], return_counts=True)
    return order, ids, list(zip(counts.tolist(), lengths.tolist()))
