"""Training pairs as token ids, and the batches drawn from them. A batch is a function of seed and step alone."""

from pathlib import Path

import numpy as np
import torch

from wordpiece import CLS, SEP, WordPiece

# Pairs of each kind in a batch of 1024. Definitions and words make the reverse dictionary, those of common words (of
# either dictionary) most of all; examples, paraphrases and synonyms make vectors of sentences; the looser relations are
# few, for they pull towards the general.
MIXTURE = {
    "common": 336,
    "definition": 200,
    "webster": 104,
    "moby": 112,
    "synonym": 80,
    "example": 80,
    "hypernym": 24,
    "derived": 24,
    "paraphrase": 40,
    "emoji": 24,
}
DEFINITIONS = ("common", "definition", "webster")
WORDS = 768  # common words beside a batch of 1024, right for none of it: among such words a definition's is sought
RUN = 4  # neighbours of one batch in WordNet's order: each other's hard negatives
LONGEST = 46  # tokens of a text in training, without [CLS] and [SEP]


class Pairs:
    """pairs.tsv in memory: `texts` of token ids, and for each kind the [pairs, 3] columns group, first, second."""

    def __init__(self, folder: Path, seed: int):
        if not (folder / "pairs.tsv").exists():
            raise SystemExit(f"train: {folder / 'pairs.tsv'} is missing: run tools/model/prepare.py first")
        self.seed = seed
        self.tokenizer = WordPiece((folder / "vocabulary.txt").read_text().splitlines())
        self.semicolon, self.opening, self.closing = (self.tokenizer.ids[c] for c in ";()")
        self.index, groups, kinds = {}, {}, {kind: [] for kind in MIXTURE}
        common = (folder / "dictionary.txt").read_text().splitlines()
        known = set(common)
        for line in (folder / "pairs.tsv").read_text().splitlines():
            kind, group, first, second = line.split("\t")
            if kind in DEFINITIONS and second in known:
                kind = "common"
            row = [groups.setdefault(group, len(groups))] + [self.index.setdefault(t, len(self.index)) for t in (first, second)]
            kinds[kind].append(row)
        self.texts = [np.array(self.tokenizer.encode(t)[:LONGEST], np.int64) for t in self.index]
        self.common = np.array([self.index[word] for word in common if word in self.index])  # held-out words are in no pair
        self.orders = {}
        self.places = {text.tobytes(): place for place, text in enumerate(self.texts)}
        self.inside = np.array([piece.startswith("##") for piece in self.tokenizer.ids])
        self.short = np.array([len(piece) < 4 for piece in self.tokenizer.ids])  # most function words
        self.kinds = {kind: np.array(rows) for kind, rows in kinds.items()}

    def batch(self, step: int, scale: float):
        """The pairs of a step, `scale` of the mixture; words that its definitions use, and other common words.

        -> groups [B], first and second text ids [B], both sides' token ids; those words' text ids and token ids.
        """
        rng = np.random.default_rng((self.seed, step))
        rows, sides, echoes = [], [], []
        for number, (kind, share) in enumerate(MIXTURE.items()):
            chosen = self._draw(number, self.kinds[kind], step, int(share * scale) // RUN * RUN)
            rows.append(chosen)
            loose = kind in DEFINITIONS
            sides += [(self._vary(self.texts[a], rng) if loose else self.texts[a], self.texts[b]) for _, a, b in chosen]
            if loose:
                echoes += [self._echo(ids, rng) for ids, _ in sides[-len(chosen) :]]
        rows = np.concatenate(rows)
        firsts, seconds = [a for a, _ in sides], [b for _, b in sides]
        drawn = rng.choice(self.common, int(WORDS * scale), replace=False)
        words = np.concatenate([np.array([e for e in echoes if e is not None], np.int64), drawn])
        return rows[:, 0], rows[:, 1], rows[:, 2], firsts, seconds, words, [self.texts[w] for w in words]

    def _draw(self, number: int, pairs: np.ndarray, step: int, share: int) -> np.ndarray:
        """`share` pairs, from shuffled passes through the kind; in each, runs of neighbours stay together."""
        runs = len(pairs) // RUN
        at = np.arange(step * share, (step + 1) * share, RUN) // RUN
        chosen = np.concatenate([self._order(number, e, runs)[at[at // runs == e] % runs] for e in np.unique(at // runs)])
        return pairs[(chosen[:, None] * RUN + np.arange(RUN)).ravel()]

    def _order(self, number: int, epoch: int, runs: int) -> np.ndarray:
        key = (number, epoch)
        if key not in self.orders:
            self.orders = {k: v for k, v in self.orders.items() if k[0] != number}
            self.orders[key] = np.random.default_rng((self.seed, number, int(epoch))).permutation(runs)
        return self.orders[key]

    def _echo(self, ids: np.ndarray, rng: np.random.Generator):
        """The text id of some word that a definition uses, or None: what it must not be taken for."""
        starts = np.flatnonzero(~self.inside[ids] & ~self.short[ids])
        if len(starts) == 0:
            return None
        start = end = rng.choice(starts)
        end += 1
        while end < len(ids) and self.inside[ids[end]]:
            end += 1
        return self.places.get(ids[start:end].tobytes())

    def _vary(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A definition as a reader might put it: without its domain, its first clause alone, some words missing."""
        if len(ids) > 3 and ids[0] == self.opening and rng.random() < 0.5 and self.closing in ids[:-3]:
            ids = ids[np.argmax(ids == self.closing) + 1 :]
        if self.semicolon in ids[3:] and rng.random() < 0.3:
            ids = ids[: 3 + np.argmax(ids[3:] == self.semicolon)]
        if len(ids) > 3 and rng.random() < 0.5:
            kept = ids[rng.random(len(ids)) >= 0.2]
            ids = kept if len(kept) else ids
        return ids


def sort(texts: list):
    """Token ids of N texts -> their places by length, ids [T] with [CLS] and [SEP], and (n, L) of each length."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    ids = torch.from_numpy(np.concatenate([piece for i in order for piece in ((CLS,), texts[i], (SEP,))]).astype(np.int64))
    lengths, counts = np.unique([len(texts[i]) + 2 for i in order], return_counts=True)
    return order, ids, list(zip(counts.tolist(), lengths.tolist()))
