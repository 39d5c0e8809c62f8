#!/usr/bin/env python3
"""TF-IDF with logistic regression, for classification.mjs: reads [{"train": [{text, label}], "test": [...]}, ...] from standard input, prints accuracies.

scikit-learn's TfidfVectorizer and LogisticRegression with their defaults, by their formulas: words of two or more letters in lower case,
idf = ln((1 + n) / (1 + df)) + 1, rows of length 1; C = 1, the bias unpenalized, L-BFGS.
"""

import json
import math
import re
import sys
from collections import Counter

import torch

torch.set_num_threads(1)


def words(text):
    return re.findall(r"\b\w\w+\b", text.lower())


def rows(texts, index, idf):
    x = torch.zeros(len(texts), len(index), dtype=torch.float64)
    for n, text in enumerate(texts):
        for word, count in Counter(words(text)).items():
            if word in index:
                x[n, index[word]] = count * idf[word]
    return torch.nn.functional.normalize(x, dim=1)


def accuracy(train, test):
    texts, labels = [e["text"] for e in train], sorted({e["label"] for e in train})
    df = Counter(word for text in texts for word in set(words(text)))
    idf = {word: math.log((1 + len(texts)) / (1 + n)) + 1 for word, n in df.items()}
    index = {word: i for i, word in enumerate(sorted(df))}
    x, y = rows(texts, index, idf), torch.tensor([labels.index(e["label"]) for e in train])
    weight = torch.zeros(len(labels), len(index), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(len(labels), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=200, tolerance_grad=1e-6, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(x @ weight.T + bias, y, reduction="sum") + 0.5 * (weight**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    predicted = (rows([e["text"] for e in test], index, idf) @ weight.T + bias).argmax(1)
    return sum(labels[i] == e["label"] for i, e in zip(predicted.tolist(), test)) / len(test)


if __name__ == "__main__":
    print(json.dumps([accuracy(**split) for split in json.load(sys.stdin)]))
