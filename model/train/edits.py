"""Edit examples from two consecutive releases of the same package.

    python model/train/edits.py [--folder DIR] [--manifest FILE] [--seed N]

The differences of a file are real edits. They are replayed from the top down: what was applied so far is the
recent history, the next one is the answer, and a window that no later edit touches teaches silence. Packages
whose manifest row names an `older` release take part, in the split of the package; the result is edits.jsonl
beside the shards. This script knows nothing about the prompt in which an edit is shown to the model.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from corpus import FOLDER, HERE, Package, fetch, read_manifest, read_package, shuffled
from sources import File, refusal

MAX_LINES = 12
"""A longer hunk, on either side, is new code or a rewrite: no next edit that anybody could guess."""

MAX_HUNKS = 12
"""A file with more was reworked; its edits say little about each other."""

HISTORY = 3
"""Edits shown as recent."""

RADIUS = 8
"""Lines above and below an edit that its window may have."""

SILENT_SHARE = 0.25
"""Silent examples for each file's edits: somebody who edits is asked far more often than helped."""


PER_PACKAGE = 300
"""Examples of one package: a sweeping change (a renamed option, a new type comment) should not set the tone."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines `old` from line `start` (0-based, in the text it applies to) become `new`. One of them may be empty."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EditExample:
    """What somebody sees in the middle of an edit, and what comes next.

    text: the file as it stands now. history: the latest edits, oldest first, at the lines where they stand in
    `text`. first, last: the window, lines [first, last) of `text`. answer: those lines after the next edit, the
    same lines where there is none.
    """

    path: str
    language: str
    text: str
    history: tuple[Hunk, ...]
    first: int
    last: int
    answer: str

    @property
    def window(self) -> str:
        return "".join(_lines(self.text)[self.first : self.last])

    @property
    def silent(self) -> bool:
        return self.answer == self.window


def hunks(old: str, new: str) -> list[Hunk]:
    """The differences of two texts, top down, at their lines in `old`; neighbours one line apart are one."""
    a, b = _lines(old), _lines(new)
    found: list[tuple[int, int, int, int]] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if found and i1 - found[-1][1] <= 1:
            i1, j1 = found[-1][0], found[-1][2]
            found.pop()
        found.append((i1, i2, j1, j2))
    return [Hunk(i1, tuple(a[i1:i2]), tuple(b[j1:j2])) for i1, i2, j1, j2 in found]


def _lines(text: str) -> list[str]:
    """Lines with their line feeds; nothing else ends a line."""
    pieces = text.split("\n")
    return [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def edit_examples(old: File, new: File, rng: random.Random) -> Iterator[EditExample]:
    """One example for each edit but the first, and silent ones; none where the file was reworked or hardly touched."""
    edits = hunks(old.text, new.text)
    if not 2 <= len(edits) <= MAX_HUNKS or any(max(len(e.old), len(e.new)) > MAX_LINES for e in edits):
        return
    lines = _lines(old.text)
    shift = 0
    done: list[Hunk] = []
    for n, edit in enumerate(edits):
        here = replace(edit, start=edit.start + shift)
        end = here.start + len(here.old)
        if done:
            yield _example(old, lines, done, here, rng)
        lines[here.start : end] = here.new
        shift += len(here.new) - len(here.old)
        done.append(here)
        following = edits[n + 1].start + shift if n + 1 < len(edits) else len(lines)
        if rng.random() < SILENT_SHARE and (window := _quiet(here, following, rng)):
            yield _cut(old, lines, done, window, "".join(lines[slice(*window)]))


def _example(file: File, lines: list[str], done: list[Hunk], edit: Hunk, rng: random.Random) -> EditExample:
    first = max(0, edit.start - rng.randint(1, RADIUS))
    last = min(len(lines), edit.start + len(edit.old) + rng.randint(1, RADIUS))
    after = [*lines[first : edit.start], *edit.new, *lines[edit.start + len(edit.old) : last]]
    return _cut(file, lines, done, (first, last), "".join(after))


def _quiet(edit: Hunk, following: int, rng: random.Random) -> tuple[int, int] | None:
    """A window around the edit just made that ends before the next one, if there is room for it."""
    last = edit.start + len(edit.new) + rng.randint(1, RADIUS)
    return (max(0, edit.start - rng.randint(1, RADIUS)), last) if last < following else None


def _cut(file: File, lines: list[str], done: list[Hunk], window: tuple[int, int], answer: str) -> EditExample:
    return EditExample(file.path, file.language, "".join(lines), tuple(done[-HISTORY:]), *window, answer)


def pairs(older: list[File], newer: list[File]) -> Iterator[tuple[File, File]]:
    """Files that are in both releases under the same path, that differ, and that may be learned from."""
    before = {file.path: file for file in older}
    for file in newer:
        old = before.get(file.path)
        if old is not None and old.text != file.text and not refusal(file) and not refusal(old):
            yield old, file


def package_examples(package: Package, archives: Path, seed: int) -> Iterator[EditExample]:
    """The edits between the package's two releases; nothing, with a line on stderr, if one cannot be had."""
    releases = [fetch(each, archives) for each in (replace(package, version=package.older), package)]
    if None in releases:
        return
    older, newer = (read_package(package, archive) for archive in releases if archive is not None)
    found = [
        example
        for old, new in pairs(older, shuffled(newer))
        for example in edit_examples(old, new, random.Random(f"{seed} {package.key} {new.path}"))
    ]
    yield from found[:PER_PACKAGE]


def main() -> int:
    parser = argparse.ArgumentParser(description="Edit examples from consecutive releases.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where archives and shards lie")
    parser.add_argument("--manifest", type=Path, default=HERE / "manifest.toml")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    archives, target = options.folder / "archives", options.folder / "edits.jsonl"
    counts = Counter[str]()
    try:
        archives.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name("edits.jsonl.tmp")
        with temporary.open("w", encoding="utf-8") as out:
            for package in read_manifest(options.manifest):
                if not package.older:
                    continue
                split = "heldout" if package.heldout else "train"
                for example in package_examples(package, archives, options.seed):
                    out.write(json.dumps({"package": package.name, "split": split, **asdict(example)}) + "\n")
                    counts[f"{split}, {'silent' if example.silent else 'edit'}"] += 1
        temporary.replace(target)
    except (ValueError, OSError) as error:
        print(f"edits.py: {error}", file=sys.stderr)
        return 1
    print(f"{target}: " + "; ".join(f"{kind}: {n:,}" for kind, n in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
