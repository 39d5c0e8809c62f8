"""Readers of WordNet, Moby, CLDR and SCOWL, as plain Python values. webster.py and glossaries.py read the other sources."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

SCOWL_SIZES = (10, 20, 35, 40, 50)  # SCOWL's most common words; its size 35 is "small", 50 "medium"
OFFENSIVE = re.compile(r"\b(offensive|obscene|slur|disparag\w+|vulgar|derogatory)\b")


@dataclass
class Synset:
    """One WordNet meaning: its words, its gloss, its examples and the synsets it points to."""

    id: str  # part of speech and offset, "n00050548"
    lemmas: list
    gloss: str
    examples: list
    hypernyms: list = field(default_factory=list)  # synset ids
    derived: list = field(default_factory=list)  # (own lemma, other synset's id, index of its lemma)
    antonyms: list = field(default_factory=list)  # likewise
    parts: list = field(default_factory=list)  # ids of the synsets that name its parts


def wordnet(folder: Path) -> list:
    """Every synset, in the order of WordNet's files, in which neighbours are close in meaning."""
    synsets = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / "dict" / f"data.{part}").read_text().splitlines():
            if not line.startswith("  "):
                synsets.append(_synset(line))
    return synsets


def _synset(line: str) -> Synset:
    data, text = line.split(" | ", 1)
    fields = data.split()
    part = "a" if fields[2] == "s" else fields[2]
    count = int(fields[3], 16)
    lemmas = [re.sub(r"\((a|p|ip)\)$", "", word).replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
    examples = [e for e in re.findall(r'"([^"]+)"', text) if len(e.split()) > 2]
    gloss = re.sub(r'\s*[;:,]?\s*"[^"]*"?', "", text).strip(" ;:,")
    synset = Synset(part + fields[0], lemmas, gloss, examples)
    pointers = fields[5 + 2 * count :]
    for i in range(int(fields[4 + 2 * count])):
        symbol, offset, other_part, ends = pointers[4 * i : 4 * i + 4]
        other = ("a" if other_part == "s" else other_part) + offset
        if symbol in ("@", "@i", "&"):
            synset.hypernyms.append(other)
        elif symbol in ("+", "!"):
            words = synset.derived if symbol == "+" else synset.antonyms
            words.append((lemmas[int(ends[:2], 16) - 1], other, int(ends[2:], 16) - 1))
        elif symbol == "%p":
            synset.parts.append(other)
    return synset


def tag_counts(folder: Path) -> dict:
    """How often each lemma occurs in WordNet's sense-tagged texts."""
    counts = {}
    for line in (folder / "dict" / "index.sense").read_text().splitlines():
        key, _, _, count = line.split()
        lemma = key.split("%")[0].replace("_", " ")
        counts[lemma] = counts.get(lemma, 0) + int(count)
    return counts


def moby(path: Path) -> list:
    """(root, its synonyms) for each line of the Moby thesaurus."""
    lines = path.read_text(errors="replace").splitlines()
    return [(root, words) for root, *words in (line.split(",") for line in lines if "," in line)]


def emoji(folder: Path) -> list:
    """(label, tags) of each emoji that is not a skin tone or a letter."""
    entries = json.loads((folder / "en" / "compact.json").read_text())
    return [(e["label"], e["tags"]) for e in entries if "group" in e and len(e.get("tags", [])) > 1]


def common_words(folder: Path, synsets: list, counts: dict, size: int) -> list:
    """The `size` most common English words that WordNet knows, commonest first.

    Insults are left out, and past the few thousand commonest so are forms of other words in -ly, -ing and -ed.
    """
    first_gloss = {}
    for synset in synsets:
        for lemma in synset.lemmas:
            first_gloss.setdefault(lemma, []).append(synset.gloss)
    words = []
    for scowl in SCOWL_SIZES:
        tier = set()
        for variety in ("english", "american"):
            tier |= set(json.loads((folder / f"{variety}-words-{scowl}.json").read_text()))
        tier = [w for w in tier - set(words) if w in first_gloss and re.fullmatch(r"[a-z]{2,}|a|i", w)]
        if scowl >= 35:
            tier = [w for w in tier if not any(base in first_gloss for base in _bases(w))]
        tier = [w for w in tier if not any(OFFENSIVE.search(g) for g in first_gloss[w][:2])]
        words += sorted(tier, key=lambda w: (-counts.get(w, 0), -len(first_gloss[w]), len(w), w))
    if len(words) < size:
        raise SystemExit(f"prepare: {size} common words wanted, the word lists give {len(words)}")
    return words[:size]


def _bases(word: str) -> list:
    """What a regular form may be formed from: "happily" from "happy", "running" from "run"."""
    endings = {"ly": ("", "le"), "ily": ("y",), "ing": ("", "e"), "ed": ("", "e"), "ied": ("y",)}
    stems = [word.removesuffix(end) + new for end, news in endings.items() if word.endswith(end) for new in news]
    doubled = [s[:-1] for s in stems if len(s) > 3 and s[-1] == s[-2]]
    return [s for s in stems + doubled if len(s) > 2]
