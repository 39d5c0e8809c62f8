"""Variations of training texts, on token ids, and the words that look like those of a text."""

from collections import defaultdict

import numpy as np

from wordpiece import WordPiece

QUESTIONS = ("what do you call", "what is the word for", "the word for", "a word for", "what is", "name for", "something like")
SENTENCE_QUESTIONS = ("what about", "is it true that", "tell me about", "how is it that", "where does it say that", "when", "why", "who", "which")
SHORTEST_PART = 4  # letters that two words share to look alike


class Variation:
    """substitutes: token ids of a word, as bytes -> token ids of its synonyms; words: the common words, by place."""

    def __init__(self, tokenizer: WordPiece, substitutes: dict, words: list):
        ids, pieces = tokenizer.ids, list(tokenizer.ids)
        self.pieces, self.substitutes = pieces, substitutes
        self.semicolon, self.opening, self.closing, self.mark = (ids[c] for c in ";()?")
        self.full_stop = np.array([ids["."]], np.int64)
        self.inside = np.array([piece.startswith("##") for piece in pieces])
        self.short = np.array([len(piece) < 4 for piece in pieces])  # most function words
        self.questions, self.sentence_questions = (
            [np.array(tokenizer.encode(text), np.int64) for text in texts] for texts in (QUESTIONS, SENTENCE_QUESTIONS)
        )
        self.beginning, self.containing = _lookalikes(words)
        self.cache = {}

    def definition(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A definition as a reader might put it: without its domain, its first clause alone, some words missing, exchanged or moved."""
        if len(ids) > 3 and ids[0] == self.opening and rng.random() < 0.5 and self.closing in ids[:-3]:
            ids = ids[np.argmax(ids == self.closing) + 1 :]
        if self.semicolon in ids[3:] and rng.random() < 0.3:
            ids = ids[: 3 + np.argmax(ids[3:] == self.semicolon)]
        if rng.random() < 0.4:
            ids = self._exchanged(ids, rng)
        if len(ids) > 3 and rng.random() < 0.5:
            ids = self._thinned(ids, 0.2, rng)
        if len(ids) > 5 and rng.random() < 0.15:
            cut = rng.integers(1, len(ids))
            if not self.inside[ids[cut]]:
                ids = np.concatenate([ids[cut:], ids[:cut]])
        if rng.random() < 0.08:
            ids = np.concatenate([self.questions[rng.integers(len(self.questions))], ids])
        return ids

    def sentence(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A sentence with some words exchanged or missing."""
        if rng.random() < 0.3:
            ids = self._exchanged(ids, rng)
        return self._thinned(ids, 0.15, rng) if len(ids) > 4 and rng.random() < 0.4 else ids

    def excerpt(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """About half the words of a sentence, some exchanged."""
        return self._thinned(self._exchanged(ids, rng), 0.5, rng)

    def question(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Sometimes a question: a question word before and a question mark after."""
        if rng.random() < 0.5:
            return ids
        return np.concatenate([self.sentence_questions[rng.integers(len(self.sentence_questions))], ids, [self.mark]])

    def alike(self, ids: np.ndarray) -> np.ndarray:
        """Places of the common words that share a part with a longer word of the text."""
        found = [self._alike(ids[start:end]) for start, end in self._spans(ids) if not self.short[ids[start]]]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def _alike(self, span: np.ndarray) -> np.ndarray:
        key = span.tobytes()
        if key not in self.cache:
            word = "".join(self.pieces[i].removeprefix("##") for i in span)
            beginning = word[: max(SHORTEST_PART, len(word) - 2)]
            self.cache[key] = np.array(sorted({*self.beginning.get(beginning, ()), *self.containing.get(word, ())}), np.int64)
        return self.cache[key]

    def _spans(self, ids: np.ndarray) -> list:
        """(start, end) of each word."""
        starts = np.flatnonzero(~self.inside[ids])
        return list(zip(starts.tolist(), [*starts[1:].tolist(), len(ids)]))

    def _exchanged(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Some words replaced by a synonym, whether or not in the sense that is meant."""
        parts, changed = [], False
        for start, end in self._spans(ids):
            part = ids[start:end]
            if rng.random() < 0.15:
                synonyms = self.substitutes.get(part.tobytes())
                if synonyms:
                    part, changed = synonyms[rng.integers(len(synonyms))], True
            parts.append(part)
        return np.concatenate(parts) if changed else ids

    def _thinned(self, ids: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
        kept = ids[rng.random(len(ids)) >= share]
        return kept if len(kept) else ids


def _lookalikes(words: list) -> tuple:
    """-> the places of the words that begin with some letters, and of those that contain a common word."""
    beginning, containing = defaultdict(list), defaultdict(list)
    known = set(words)
    for place, word in enumerate(words):
        for end in range(SHORTEST_PART, len(word) + 1):
            beginning[word[:end]].append(place)
        parts = {word[i:j] for i in range(len(word)) for j in range(i + SHORTEST_PART, len(word) + 1)}
        for part in parts & known:
            containing[part].append(place)
    # A beginning that a hundred words share is none that a reader would confuse.
    return {part: places for part, places in beginning.items() if len(places) <= 60}, dict(containing)
