"""Readers of the smaller sources: The Devil's Dictionary, the Jargon File, the elements, and the Bible in two translations."""

import re
import struct
import zlib
from pathlib import Path

STRAIGHT = str.maketrans("“”‘’", "\"\"''")  # quotation marks: the tokenizer knows ASCII's


def devil(path: Path) -> list:
    """(headword, definition) of Bierce's dictionary: the first sentences of each entry."""
    pairs = []
    for entry in re.split(r"\n\n(?=[A-Z][A-Z' -]+, )", path.read_text(errors="replace")):
        match = re.match(r"([A-Z][A-Z' -]+), (?:[a-z.]+ ?)+\s+([^\n]+(?:\n[^\n]+)*)", entry.strip())
        if match:
            pairs.append((match[1].lower(), _first_sentences(match[2])))
    return [(word, text) for word, text in pairs if text]


def jargon(path: Path) -> list:
    """(headword, definition) of the Jargon File: the first sentences of each entry."""
    pairs = []
    for entry in re.split(r"\n\n(?=\S)", path.read_text(errors="replace")):
        headword, _, body = entry.strip().partition("\n")
        body = re.sub(r"^\s*/[^\n]*/[^\n]*\n|^\s*(?:n|v|vt|vi|adj|adv)\.[^\n]*\n", "", body)
        body = re.sub(r"\[[^\]]*\]|^\s*1\.", "", body.strip()).strip()
        if re.fullmatch(r"[A-Za-z][A-Za-z' -]{2,30}", headword.strip()):
            text = _first_sentences(body.split("\n\n")[0])
            if text:
                pairs.append((headword.strip().lower(), text))
    return pairs


def elements(path: Path) -> list:
    """(name, description) of the chemical elements."""
    found = re.findall(r"\n\n(\w+)\nSymbol: [^\n]+\n(?:Atomic [^\n]+\n)+((?:[^\n]+\n)+)", path.read_text(errors="replace"))
    return [(name.lower(), text) for name, body in found if (text := _first_sentences(body))]


def _first_sentences(text: str, words: int = 45) -> str:
    """As many whole sentences as fit into so many words; "" if there are fewer than three words."""
    line = re.sub(r"\s+", " ", re.sub(r"[{}_]", "", text)).strip().translate(STRAIGHT)
    kept = ""
    for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", line):
        if len(f"{kept} {sentence}".split()) > words:
            break
        kept = f"{kept} {sentence}".strip()
    return kept.strip(" .") if len(kept.split()) > 2 else ""


def verses(kjv: Path, web: Path) -> list:
    """(modern, old) wording of each verse that both translations have; neighbours follow one another.

    The translations count verses alike almost everywhere. Where they do not, the wordings have few words in common and the pair is dropped.
    """
    pairs = []
    for part in ("ot", "nt"):
        for old, new in zip(_sword(kjv, part), _sword(web, part)):
            a, b = (set(re.findall(r"[a-z]{3,}", text.lower())) for text in (old, new))
            if old != new and 5 < len(new.split()) <= 45 and a and b and len(a & b) / len(a | b) > 0.2:
                pairs.append((new, old))
    return pairs


def _sword(folder: Path, part: str) -> list:
    """The verses of a module of The SWORD Project (zText): blocks of verses, compressed; texts in OSIS."""
    blocks = []
    packed = (folder / f"{part}.bzz").read_bytes()
    for offset, size, _ in struct.iter_unpack("<III", (folder / f"{part}.bzs").read_bytes()):
        blocks.append(zlib.decompress(packed[offset : offset + size]))
    texts = []
    for block, offset, size in struct.iter_unpack("<IIH", (folder / f"{part}.bzv").read_bytes()):
        texts.append(_plain(blocks[block][offset : offset + size].decode(errors="replace")) if size else "")
    return texts


def _plain(osis: str) -> str:
    osis = re.sub(r"<note.*?</note>|<title.*?</title>", " ", osis, flags=re.S)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", osis)).strip(" ¶")
    return re.sub(r" ([,.;:?!’”])", r"\1", text).translate(STRAIGHT)
