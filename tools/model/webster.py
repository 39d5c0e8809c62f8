"""Reader of Webster's Revised Unabridged Dictionary (1913): the paragraphs marked so, and only those.

GCIDE, which carries the text, marks each paragraph with its origin; what it added itself is left out.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

MARK = "[1913 Webster]"


@dataclass
class Sense:
    """A definition of a headword, with sentences that show the word in use."""

    headword: str
    definition: str
    usages: list = field(default_factory=list)  # "an abandoned villain", after the definition's "as,"
    quotations: list = field(default_factory=list)  # from literature


def senses(path: Path) -> list:
    """Every sense of every headword."""
    found = []
    for headword, paragraphs in _entries(path):
        sense = None
        for paragraph in paragraphs:
            if not paragraph.rstrip().endswith(MARK):
                continue
            indented = len(paragraph) - len(paragraph.lstrip())
            if indented >= 8:  # a quotation; definitions are indented by 3 characters
                quotation = _quotation(paragraph)
                if sense and quotation:
                    sense.quotations.append(quotation)
                continue
            definition = _definition(paragraph)
            uses_the_word = re.search(rf"\b{headword.rstrip('ey')}\w{{0,3}}\b", definition.lower())
            sense = Sense(headword, definition) if definition and not uses_the_word else None
            if sense:
                sense.usages = _usages(paragraph)
                found.append(sense)
    return found


def phrases(path: Path) -> list:
    """(phrase, definition) of the entries inside entries: "{Bat bolt} (Machinery), a bolt barbed ..."."""
    found = []
    for _, paragraphs in _entries(path):
        unmarked = []  # paragraphs without a mark have the origin of the next one that has a mark
        for paragraph in paragraphs:
            unmarked.append(paragraph)
            mark = re.search(rf"{re.escape(MARK)}|\[(PJC|WordNet [\d.]+|[^\]]*Suppl\.)\]$", paragraph.rstrip())
            if mark:
                found += [phrase for text in unmarked if mark[0] == MARK and (phrase := _phrase(text))]
                unmarked = []
    return found


def _phrase(paragraph: str):
    match = re.match(r"\{([A-Z][a-z]+(?: [a-z]+){1,3})\}\s*(?:\([^)]*\)\s*)*,\s*(.+)", _line(paragraph))
    definition = _trimmed(match[2]) if match else ""
    return (match[1].lower(), definition) if definition and match[1].lower() not in definition.lower() else None


def _entries(path: Path):
    """(headword, paragraphs). The first paragraph opens with what is left of the line of pronunciation and etymology."""
    text = path.read_text(errors="replace")
    text = text[text.index("\nA \\A") :]
    for entry in re.split(r"\n(?=[A-Z][\w'*-]*(?: [\w'-]+)? \\)", text):
        headword = entry.lstrip().split(" \\", 1)[0].strip().lower()
        if re.fullmatch(r"[a-z][a-z' -]+", headword) and MARK in entry:
            body = entry.split("\n   ", 1)[1] if "\n   " in entry else ""
            yield headword, re.split(r"\n\s*\n", body)


def _line(paragraph: str) -> str:
    return " ".join(paragraph.split()).removesuffix(MARK).strip()


def _definition(paragraph: str) -> str:
    line = _line(paragraph)
    if re.match(r"(Syn|Note|Usage|\{)", line):
        return ""
    line = re.sub(r"--\s?[A-Z].*$", "", line)  # the author of a quotation, and the quotation's rest
    line = re.sub(r"^.*?\]\.?\s+(?=[A-Z0-9(])", "", line, count=1) if re.match(r"^[^.]*\][. ]", line) else line
    line = re.sub(r"^\s*(\d+\.|\([a-z]\))\s*", "", line)
    line = re.sub(r"\[[^\]]*\]", "", line)
    line = re.sub(r"^(\([A-Z][^)]*\.\)\s*)+", "", line.strip())
    line = _trimmed(line)
    return line if line[:1].isupper() and not line.startswith("Same as") else ""


def _trimmed(line: str) -> str:
    """A definition's own words, without examples, labels and references; "" if it is too short or too long."""
    line = re.sub(r"\[[^\]]*\]|--\s?[A-Z].*$|[{}]", "", line)
    line = re.split(r"; as,|; -- |; opposed to|\bSee\b", line)[0]
    line = re.sub(r"\s+", " ", line).strip(" .;:,")
    return line if 2 < len(line.split()) <= 60 else ""


def _usages(paragraph: str) -> list:
    line = re.sub(r"\[[^\]]*\]|--\s?[A-Z].*$|[{}]", "", _line(paragraph))
    parts = line.split("; as, ", 1)
    if len(parts) < 2:
        return []
    examples = [re.sub(r"\s+", " ", part).strip(" .;:,") for part in parts[1].split(";")]
    return [e for e in examples if 2 < len(e.split()) <= 30]


def _quotation(paragraph: str) -> str:
    line = re.sub(r"\s*--\s?[A-Z].*$|\[[^\]]*\]|[{}]", "", _line(paragraph))
    line = re.sub(r"\s+", " ", line.replace(" . . .", "")).strip()
    return line if 4 < len(line.split()) <= 40 else ""
