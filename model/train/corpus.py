"""Build the training corpus: packages of manifest.toml -> one tokenised, deduplicated shard set.

    python model/train/corpus.py --benchmark DIR [--tokenizer FILE] [--folder DIR]

Reads top to bottom: fetch, read, refuse, cap, drop what overlaps the benchmark, drop copies, tokenise, write.
Archives that are there are not fetched again and packages that were tokenised are not tokenised again, so a run
that was stopped goes on where it was. Fetching downloads only; nothing of a package is ever installed or run.
This script knows nothing about training examples (examples.py).
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shards import Row, write_shards
from sources import PERMISSIVE, Copies, File, Overlap, declared_licence, members, permissive, refusal, sources
from tokenizers import Tokenizer

from mercury_model import store

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".cache" / "corpus"

CAPS = {"python": 3_000_000, "css": 300_000, "html": 300_000, "json": 60_000}
CAP = 1_200_000
"""Characters of one language taken from one package, so that no package sets the tone."""

BATCH = 64
"""Files given to the tokenizer at once; more costs memory and gains nothing on one core."""


NOT_LIBRARY = ("site-packages/", "test/", "idlelib/", "lib2to3/tests/")
"""Folders beside the standard library that are not part of what is learned from."""


@dataclass(frozen=True, slots=True)
class Package:
    """One row of the manifest. registry: pypi, npm, debian or interpreter (the standard library in use).

    languages: only files of these are taken. heldout: every file goes to the held-out split.
    older: the release before, where edits are learned from the two (edits.py).
    """

    name: str
    version: str
    registry: str
    licence: str
    languages: tuple[str, ...]
    heldout: bool = False
    older: str = ""

    @property
    def key(self) -> str:
        return f"{self.registry}:{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is taken from one package."""

    package: Package
    files: tuple[File, ...]


def read_manifest(path: Path) -> list[Package]:
    """Held-out packages come first: where a file is in two packages, it is the training split that loses it.

    Raises ValueError for a row that is incomplete or not permissively licensed.
    """
    packages: list[Package] = []
    rows: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    for row in rows:
        try:
            fields: dict[str, Any] = {**row, "languages": tuple(row["languages"])}
            package = Package(**fields)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: the package {row.get('name', '?')} is incomplete ({error})") from error
        if not permissive(package.licence):
            allowed = ", ".join(sorted(PERMISSIVE))
            raise ValueError(f"{path}: {package.name} is under {package.licence!r}; allowed are {allowed}")
        packages.append(package)
    return sorted(packages, key=lambda package: not package.heldout)


def archive_pattern(package: Package) -> str:
    """The glob under which the registry's own client stores the package's archive."""
    if package.registry == "pypi":
        name = re.sub(r"[-_.]+", "[-_.]", package.name)
        return f"{name}-{package.version}-*.whl"
    if package.registry == "npm":
        return f"{package.name.removeprefix('@').replace('/', '-')}-{package.version}.tgz"
    return f"{package.name}_{package.version.replace(':', '%3a')}_*.deb"


FETCH = {
    "pypi": (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "{}=={}"),
    "npm": ("npm", "pack", "--silent", "--ignore-scripts", "{}@{}"),
    "debian": ("apt-get", "download", "-q", "{}={}"),
}
"""How each registry's own client downloads one archive into the working directory."""


def fetch(package: Package, folder: Path) -> Path | None:
    """The package's archive, downloaded if it is not there; None, with a line on stderr, if it cannot be had."""
    if package.registry == "interpreter":
        return Path(sysconfig.get_path("stdlib"))
    pattern = archive_pattern(package)
    found = sorted(folder.glob(pattern))
    if not found:
        *command, which = FETCH[package.registry]
        command.append(which.format(package.name, package.version))
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"skipped {package.key}: {error}", file=sys.stderr)
            return None
        found = sorted(folder.glob(pattern))
    return found[0] if found else None


def read_package(package: Package, archive: Path) -> list[File]:
    """The package's source files of its languages. Raises ValueError if its own licence is another one."""
    contents = list(members(archive, NOT_LIBRARY if package.registry == "interpreter" else ()))
    declared = declared_licence(contents)
    if declared and not permissive(declared):
        raise ValueError(f"{package.key} says it is under {declared!r}: take it out of the manifest")
    return [file for file in sources(contents) if file.language in package.languages]


def shuffled(files: Iterable[File]) -> list[File]:
    """Files in an order that depends on their paths alone: a cap then takes from all over the package."""
    return sorted(files, key=lambda file: blake2b(file.path.encode()).digest())


def benchmark_texts(folder: Path) -> list[str]:
    """Each task's whole program, put together from the *.jsonl.gz files of infilling tasks in `folder`."""
    texts: set[str] = set()
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                task = json.loads(line)
                texts.add(task["prompt"] + task["canonical_solution"] + task["suffix"])
    if not texts:
        raise ValueError(f"no *.jsonl.gz files in {folder}: give the benchmark's folder")
    return sorted(texts)


def choose(packages: Sequence[tuple[Package, Path]], overlap: Overlap, refused: Counter[str]) -> Iterator[Kept]:
    """What is learned from, package by package. refused: counts the files left out, by reason."""
    copies = Copies()
    for package, archive in packages:
        kept: list[File] = []
        taken = Counter[str]()
        for file in shuffled(read_package(package, archive)):
            if reason := refusal(file):
                refused[reason] += 1
            elif taken[file.language] + len(file.text) > CAPS.get(file.language, CAP):
                refused["over the cap"] += 1
            elif overlap.matches(file.text):
                refused["overlaps the benchmark"] += 1
            elif copies.is_copy(file.text):
                refused["copy"] += 1
            else:
                taken[file.language] += len(file.text)
                kept.append(file)
        yield Kept(package, tuple(kept))


def tokenise(kept: Kept, tokenizer: Tokenizer, tokenizer_hash: str, folder: Path) -> list[NDArray[np.uint32]]:
    """Token ids of each file. Stored in `folder` under a name that changes with the texts and the tokenizer."""
    state = blake2b(tokenizer_hash.encode(), digest_size=12)
    for file in kept.files:
        state.update(f"{file.path}\0{file.text}\0".encode())
    stored = folder / f"{re.sub(r'[^A-Za-z0-9.]+', '-', kept.package.key)}-{state.hexdigest()}.npz"
    if not stored.exists():
        ids: list[NDArray[np.uint32]] = []
        for at in range(0, len(kept.files), BATCH):
            texts = [file.text for file in kept.files[at : at + BATCH]]
            encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            ids += [np.array(one.ids, np.uint32) for one in encoded]
        temporary = folder / f"{stored.name}.tmp"
        with temporary.open("wb") as out:
            np.savez(out, ids=np.concatenate([*ids, np.empty(0, np.uint32)]), n=np.array([*map(len, ids)], int))
        temporary.replace(stored)
    with np.load(stored) as arrays:
        return np.split(arrays["ids"], np.cumsum(arrays["n"])[:-1]) if len(kept.files) else []


def summary(rows: Iterable[Row]) -> str:
    """A table: tokens of each language in each split, the largest language first."""
    counts, files = Counter[tuple[str, str]](), Counter[str]()
    for row in rows:
        counts[row.language, row.split] += row.n
        files[row.language] += 1
    totals = Counter[str]()
    for (language, _), n in counts.items():
        totals[language] += n
    everything = max(1, totals.total())
    lines = [f"{'language':12}{'files':>8}{'train':>13}{'heldout':>11}{'share':>8}"]
    for language, n in totals.most_common():
        train, heldout = counts[language, "train"], counts[language, "heldout"]
        lines.append(f"{language:12}{files[language]:8,}{train:13,}{heldout:11,}{n / everything:8.1%}")
    heldout = sum(n for (_, split), n in counts.items() if split == "heldout")
    lines.append(
        f"{'all':12}{files.total():8,}{everything - heldout:13,}{heldout:11,}{heldout / everything:8.1%} held out"
    )
    return "\n".join(lines)


def build(manifest: Path, folder: Path, tokenizer_file: Path, benchmark: Path) -> Iterator[str]:
    """The whole of it; yields lines that say how far it is."""
    packages = read_manifest(manifest)
    overlap = Overlap(benchmark_texts(benchmark))
    tokenizer_hash = sha256(tokenizer_file.read_bytes()).hexdigest()
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.encode_special_tokens = True
    archives, cache = folder / "archives", folder / "tokens"
    archives.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)

    found: list[tuple[Package, Path]] = []
    for package in packages:
        archive = fetch(package, archives)
        if archive is not None:
            found.append((package, archive))
    yield f"{len(found)} of {len(packages)} packages are here"

    refused = Counter[str]()
    parts: list[tuple[Row, NDArray[np.uint32]]] = []
    for n, kept in enumerate(choose(found, overlap, refused), 1):
        split = "heldout" if kept.package.heldout else "train"
        tokens = tokenise(kept, tokenizer, tokenizer_hash, cache)
        for file, ids in zip(kept.files, tokens, strict=True):
            parts.append((Row(0, len(ids), file.language, kept.package.name, split, file.path), ids))
        yield f"[{n}/{len(found)}] {kept.package.key}: {len(kept.files)} files, {sum(map(len, tokens)):,} tokens"

    notes: dict[str, object] = {
        "packages": {p.name: {"version": p.version, "registry": p.registry, "licence": p.licence} for p, _ in found},
        "missing": [p.key for p in packages if p not in {q for q, _ in found}],
        "refused": dict(refused.most_common()),
    }
    shards = write_shards(folder, parts, tokenizer_hash, notes)
    yield "left out: " + ", ".join(f"{reason} {n:,}" for reason, n in refused.most_common())
    yield summary(shards.rows)


def embedded_tokenizer() -> Path:
    """The embedded model's tokenizer.json. Raises ValueError if the model was not fetched yet."""
    path = store.folder(store.DEFAULT) / store.TOKENIZER
    if not path.exists():
        raise ValueError("the model's tokenizer is not here: run `mercury-lsp model pull`, or give --tokenizer FILE")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the training corpus.")
    parser.add_argument("--benchmark", type=Path, required=True, help="folder of the infilling tasks' *.jsonl.gz")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json (default: the embedded model's)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where archives and shards lie")
    parser.add_argument("--manifest", type=Path, default=HERE / "manifest.toml")
    options = parser.parse_args()
    # one core: the corpus is built while something more important runs
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        tokenizer = options.tokenizer or embedded_tokenizer()
        for line in build(options.manifest, options.folder, tokenizer, options.benchmark):
            print(line, flush=True)
    except (ValueError, OSError) as error:
        print(f"corpus.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
