"""Prompts and held-out texts for the tests with the real model, made from source files by a seed.

The files of tests/data/heldout were written for this purpose and are published nowhere else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mercury_lsp.region import Budget, completion_region, request_for
from mercury_lsp.text import Document, language_of
from mercury_model.draft import Request
from mercury_model.local import LocalInfiller

DATA = Path(__file__).parents[1] / "data"
SOURCES = (
    "heldout/ledger.py",
    "heldout/scheduler.js",
    "heldout/inventory.rs",
    "python/class_method.py",
    "javascript/function_body.js",
    "rust/method.rs",
    "python/demo.py",
    "javascript/class_method.js",
    "rust/function_body.rs",
)
"""Python, JavaScript and Rust in turn."""
BUDGET = Budget(prefix=120, suffix=40)
MAX_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Hole:
    """A document of which something was cut out at `cursor`. name: where it was, for messages."""

    name: str
    document: Document
    cursor: int
    cut: str


def holes(n: int, seed: int = 7) -> Iterator[Hole]:
    """The rest of a line from a word boundary on, and blocks of one to four whole lines, in turn."""
    rng = random.Random(seed)
    for index in range(n):
        path = DATA / SOURCES[index % len(SOURCES)]
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        number = rng.choice([i for i, line in enumerate(lines[2:], 2) if len(line.strip()) >= 12])
        line, start = lines[number], sum(map(len, lines[:number]))
        indent = len(line) - len(line.lstrip())
        if index % 2:
            begin = start + indent
            end = start + len("".join(lines[number : number + rng.randint(1, 4)]).rstrip("\n"))
        else:
            begin = start + rng.choice(
                [m.start() for m in re.finditer(r"\b|(?<=\s)", line) if m.start() >= indent][:-1]
            )
            end = start + len(line.rstrip("\n"))
        document = Document(path.as_uri(), None, language_of(str(path)) or "", text[:begin] + text[end:])
        yield Hole(f"{path.name}:{number + 1} at {begin - start}", document, begin, text[begin:end])


def request_at(hole: Hole, model: LocalInfiller, policy: str) -> Request:
    """What the server would ask for the hole. Each hole is a document of its own, whose prompt is read once."""
    region = completion_region(hole.document, hole.cursor, BUDGET, model.count_tokens)
    assert region is not None, hole.name
    return request_for(region, policy=policy, max_tokens=MAX_TOKENS, document=hole.name)


def requests(n: int, model: LocalInfiller, policy: str) -> list[tuple[str, Request]]:
    """The first n different holes where something is offered (a cursor inside a word gets nothing)."""
    found: dict[str, Request] = {}
    for hole in holes(2 * n):
        if completion_region(hole.document, hole.cursor, BUDGET, model.count_tokens) is not None:
            found[hole.name] = request_at(hole, model, policy)
        if len(found) == n:
            return list(found.items())
    raise AssertionError(f"only {len(found)} of {n} prompts")
