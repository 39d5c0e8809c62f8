"""Builds the pairs of texts that training sees from the sources, without anything that is held out."""

import random
import re
from collections import Counter, defaultdict
from pathlib import Path

import corpus
import glossaries
import webster
from facts import everyday_facts

MOBY_PAIRS_PER_ROOT = 8  # beside those between two words of the dictionary
QUOTATIONS_PER_SENSE = 2
FACTS = 60_000
# What people call a thing when they describe it: a definition's "zoologist" becomes "person", its "edifice" "building".
GENERIC = """person animal plant place building room structure tool device machine instrument vehicle boat container garment clothing food dish drink
illness disease bird fish insect tree flower fruit vegetable color feeling sound shape metal weapon furniture cloth medicine science game sport dance song
book document period group part fluid liquid chemical substance language country city money writing picture woman man child worker leader soldier activity
event action quality idea""".split()
# A content word has four letters or more and is none of these.
COMMON = set("that which with from used such other into when this have been more than some being something someone usually especially made having".split())


class Guard:
    """Refuses texts that are held out, that contain a held-out word, or (`near`) that say almost the same as a held-out gloss."""

    def __init__(self, held: dict):
        self.synsets = {i for kind in held.values() for part in kind.values() for i in part["synsets"]}
        self.words = {w for part in held["words"].values() for w in part["words"]}
        self.texts = {q["text"] for kind in held.values() for part in kind.values() for q in part["queries"]}
        self.contents = [content(text) for text in sorted(self.texts)]
        self.places = defaultdict(list)
        for i, words in enumerate(self.contents):
            for word in words:
                self.places[word].append(i)

    def allows(self, text: str) -> bool:
        return text not in self.texts and self.words.isdisjoint(re.findall(r"[a-z]+", text.lower()))

    def near(self, text: str) -> bool:
        """Whether at least half of the content words of the text and of some held-out gloss are shared."""
        words = content(text)
        shared = Counter(i for word in words for i in self.places.get(word, ()))
        return any(n >= 2 and n / len(words | self.contents[i]) >= 0.5 for i, n in shared.items())


def content(text: str) -> set:
    return {w for w in re.findall(r"[a-z]{4,}", text.lower()) if w not in COMMON}


class Builder:
    """Collects (kind, group, text, text); texts of one group never repel each other."""

    def __init__(self, folder: Path, dictionary: list, guard: Guard, rng: random.Random):
        self.folder, self.dictionary, self.guard, self.rng = folder, set(dictionary), guard, rng
        self.pairs = []

    def add(self, kind: str, group: str, first: str, second: str) -> None:
        if first != second and self.guard.allows(first) and self.guard.allows(second):
            self.pairs.append((kind, group, first, second))

    def wordnet(self, synsets: list) -> None:
        """Definitions, examples and relations, in WordNet's order, in which neighbours are close in meaning."""
        by_id = {s.id: s for s in synsets}
        hidden = self.guard.synsets
        for synset in synsets:
            if synset.id in hidden:
                continue
            for lemma in synset.lemmas:
                self.add("definition", synset.id, synset.gloss, lemma)
            for variant, lemma in zip(generic_definitions(synset, by_id, self.rng), synset.lemmas):
                self.add("genus", synset.id, variant, lemma)
            for example in synset.examples:
                self.add("example", synset.id, synset.gloss, example)
            for lemma in synset.lemmas[1:]:
                self.add("synonym", synset.id, self.rng.choice(synset.lemmas), lemma)
            for own, other, index in synset.derived:
                if other > synset.id and other not in hidden:
                    self.add("derived", synset.id, own, by_id[other].lemmas[index])
            for own, other, index in synset.antonyms:
                if other not in hidden:
                    opposite = by_id[other].lemmas[index]
                    self.add("opposite", synset.id, f"the opposite of {opposite}", own)
                    if synset.id[0] == "a":
                        self.add("opposite", synset.id, f"not {opposite}", own)
            for other in synset.parts:
                if other not in hidden and synset.lemmas[0].islower():
                    self.add("part", other, f"a part of a {synset.lemmas[0]}", by_id[other].lemmas[0])
            for other in synset.hypernyms[:1]:
                if other not in hidden:
                    self.add("hypernym", synset.id, synset.lemmas[0], by_id[other].lemmas[0])

    def webster(self, synsets: list) -> None:
        """Definitions of 1913 and sentences that show them; where both dictionaries know one sense, the two definitions."""
        definitions = defaultdict(list)
        for sense in webster.senses(self.folder / "gcide.txt"):
            self.add("webster", sense.headword, sense.definition, sense.headword)
            definitions[sense.headword].append(sense.definition)
            everyday = everyday_opening(sense.definition)
            if everyday:
                self.add("genus", sense.headword, everyday, sense.headword)
            for usage in sense.usages:
                self.add("usage", sense.headword, sense.definition, usage)
            for quotation in sense.quotations[:QUOTATIONS_PER_SENSE]:
                self.add("quotation", sense.headword, sense.definition, quotation)
        for phrase, definition in webster.phrases(self.folder / "gcide.txt"):
            if not self.guard.near(definition):
                self.add("phrase", phrase, definition, phrase)
        senses = Counter(lemma for s in synsets for lemma in s.lemmas)
        for synset in synsets:
            for lemma in synset.lemmas:
                if senses[lemma] == 1 and len(definitions.get(lemma, [])) == 1 and synset.id not in self.guard.synsets:
                    self.add("paraphrase", synset.id, synset.gloss, definitions[lemma][0])

    def moby(self) -> None:
        for root, words in corpus.moby(self.folder / "moby" / "words.txt"):
            common = [w for w in words if w in self.dictionary] if root in self.dictionary else []
            rare = sorted(set(words) - set(common))
            for word in common + self.rng.sample(rare, min(len(rare), MOBY_PAIRS_PER_ROOT)):
                self.add("moby", root, root, word)

    def others(self) -> None:
        for label, tags in corpus.emoji(self.folder / "emojibase-data"):
            self.add("emoji", label, " ".join(t for t in tags if t != label), label)
            for tag in tags:
                self.add("emoji", label, label, tag)
        for name in ("devil", "jargon", "elements"):
            for word, definition in getattr(glossaries, name)(self.folder / f"{name}.txt"):
                if not self.guard.near(definition):
                    self.add("glossary", f"{name} {word}", definition, word)
        for i, (modern, old) in enumerate(glossaries.verses(self.folder / "kjv", self.folder / "web")):
            self.add("verse", f"verse {i}", modern, old)


def build(folder: Path, synsets: list, dictionary: list, held: dict, rng: random.Random) -> list:
    """(kind, group, text, text) of everything that is not held out."""
    builder = Builder(folder, dictionary, Guard(held), rng)
    builder.wordnet(synsets)
    builder.webster(synsets)
    builder.moby()
    builder.others()
    for i, (question, statement) in enumerate(everyday_facts(synsets, dictionary, FACTS, rng)):
        builder.add("fact", f"fact {i}", question, statement)
    return builder.pairs


def generic_definitions(synset, by_id: dict, rng: random.Random) -> list:
    """The gloss in the words of someone who does not know the term: its genus replaced by more general ones; one for each lemma at most."""
    if synset.id[0] != "n":
        return []
    ancestors, at = [], synset
    while at.hypernyms and len(ancestors) < 12:
        at = by_id[at.hypernyms[0]]
        ancestors.append(at.lemmas)
    for level, lemmas in enumerate(ancestors[:4]):
        for lemma in lemmas:
            match = re.search(rf"\b(an? )?{re.escape(lemma)}\b", synset.gloss)
            if match:
                higher = {name for names in ancestors[level + 1 :] for name in names[:2]}
                wider = [name for name in GENERIC if name in higher]
                wider += [names[0] for names in ancestors[level + 1 : level + 2] if names[0].islower() and names[0] != "physical entity"]
                variants = [_replaced(synset.gloss, match, name, rng) for name in dict.fromkeys(wider)]
                rng.shuffle(variants)
                return variants
    return []


def _replaced(gloss: str, match, genus: str, rng: random.Random) -> str:
    after = gloss[match.end() :]
    if genus == "person" and match[1] and after.startswith(" who "):
        return gloss[: match.start()] + rng.choice(("someone", "one", "a person")) + after
    article = "" if not match[1] else "an " if genus[0] in "aeiou" else "a "
    return gloss[: match.start()] + article + genus + after


OPENINGS = (
    (r"One (who|whose|that)\b", r"someone \1"),
    (r"That which\b", "something that"),
    (r"The act of\b", ""),
    (r"The (?:quality or state|state or quality|quality|state) of being\b", "being"),
    (r"(?:Of or pertaining to|Pertaining to|Relating to)\b", "about"),
)


def everyday_opening(definition: str) -> str:
    """Webster's openings in today's words: "One who" becomes "someone who"; "" if the definition has none of them."""
    for pattern, opening in OPENINGS:
        if re.match(pattern, definition):
            return re.sub(rf"^{pattern}", opening, definition).strip()
    return ""
