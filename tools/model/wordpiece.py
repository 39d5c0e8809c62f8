"""WordPiece: the vocabulary's training, the encoding, and Hugging Face's tokenizer.json for both.

Normalization and pre-tokenization are BERT's uncased ones (Devlin et al. 2018): lower case, accents stripped, split at
white space and at every punctuation mark. The vocabulary grows by merging the most frequent neighbours (Sennrich et
al. 2016), as Hugging Face's WordPieceTrainer does; a piece inside a word starts with "##".
"""

import json
import unicodedata
from collections import Counter, defaultdict
from heapq import heapify, heappop, heappush

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))
LONGEST_WORD = 100  # letters; a longer word is [UNK], as in BERT


def split_words(text: str) -> list:
    """The words and punctuation marks of a text, normalized."""
    words, word = [], []
    for char in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(char)
        if category == "Mn" or char == "\ufffd" or (category.startswith("C") and char not in "\t\n\r"):
            continue
        if char.isspace() or _stands_alone(char, category):
            if word:
                words.append("".join(word))
                word = []
            if not char.isspace():
                words.append(char)
        else:
            word.append(char)
    return words + ["".join(word)] if word else words


def _stands_alone(char: str, category: str) -> bool:
    """Punctuation, ASCII's symbols, and ideographs are words of their own."""
    if any(first <= ord(char) <= last for first, last in IDEOGRAPHS):
        return True
    return category.startswith("P") or (ord(char) < 128 and not char.isalnum() and char.isprintable() and char != " ")


def train(counts: Counter, size: int) -> list:
    """A vocabulary of `size` pieces from the counts of words: the special ones, ASCII's characters, then merges."""
    alphabet = [c for c in map(chr, range(33, 127)) if c == c.lower()]
    vocabulary = SPECIAL + alphabet + ["##" + c for c in alphabet if c.isalnum()]
    known = set(vocabulary)
    words, weights = [], []
    for word, count in sorted(counts.items()):
        if word.isascii() and word.isalnum():
            words.append([word[0]] + ["##" + c for c in word[1:]])
            weights.append(count)
    pairs, places = Counter(), defaultdict(set)
    for i, pieces in enumerate(words):
        for pair in zip(pieces, pieces[1:]):
            pairs[pair] += weights[i]
            places[pair].add(i)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapify(heap)
    while len(vocabulary) < size and heap:
        count, pair = heappop(heap)
        if -count != pairs[pair]:  # stale: counts have changed since
            continue
        merged = pair[0] + pair[1][2:]
        if merged not in known:
            vocabulary.append(merged)
            known.add(merged)
        changed = set()
        for i in places.pop(pair):
            pieces = words[i]
            for old in zip(pieces, pieces[1:]):
                pairs[old] -= weights[i]
                changed.add(old)
            words[i] = pieces = _merge(pieces, pair, merged)
            for new in zip(pieces, pieces[1:]):
                pairs[new] += weights[i]
                places[new].add(i)
                changed.add(new)
        for other in sorted(changed):
            if pairs[other] > 0:
                heappush(heap, (-pairs[other], other))
    return vocabulary


def _merge(pieces: list, pair: tuple, merged: str) -> list:
    result, i = [], 0
    while i < len(pieces):
        if i + 1 < len(pieces) and (pieces[i], pieces[i + 1]) == pair:
            result.append(merged)
            i += 2
        else:
            result.append(pieces[i])
            i += 1
    return result


class WordPiece:
    """Encodes texts into ids: greedy, the longest piece first."""

    def __init__(self, vocabulary: list):
        self.ids = {piece: i for i, piece in enumerate(vocabulary)}
        self.cache = {}

    def encode(self, text: str) -> list:
        """The ids of a text, without [CLS] and [SEP]."""
        return [i for word in split_words(text) for i in self._word(word)]

    def _word(self, word: str) -> list:
        if word not in self.cache:
            self.cache[word] = self.pieces(word)
        return self.cache[word]

    def pieces(self, word: str, inside: bool = False) -> list:
        """The ids of a word, or with `inside` of the rest of a word."""
        ids, start = [], 0
        while start < len(word) <= LONGEST_WORD:
            for end in range(len(word), start, -1):
                piece = ("##" if start or inside else "") + word[start:end]
                if piece in self.ids:
                    ids.append(self.ids[piece])
                    start = end
                    break
            else:
                return [UNK]
        return ids or [UNK]


def tokenizer_json(vocabulary: list) -> str:
    """The same tokenizer in the format of Hugging Face's tokenizers."""
    special = [
        {"id": i, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, piece in enumerate(SPECIAL)
    ]
    cls, sep = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
    first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": special,
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [cls, first, sep],
                "pair": [cls, first, sep, second, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                "special_tokens": {t: {"id": t, "ids": [SPECIAL.index(t)], "tokens": [t]} for t in ("[CLS]", "[SEP]")},
            },
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": LONGEST_WORD,
                "vocab": {piece: i for i, piece in enumerate(vocabulary)},
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
