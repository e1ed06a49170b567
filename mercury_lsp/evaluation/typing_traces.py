"""Somebody types a piece of a real file: when each key comes, what goes wrong, and what is taken of what is shown.

Plain arithmetic over a seed: the same seed and the same suggestions give the same keys. It knows nothing about
processes, clocks or models.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mercury_lsp.errors import UsageError
from mercury_lsp.text import language_of

INTERVAL_SECONDS = 0.16
"""Median between keys of a fluent typist; in code the spread is wide."""
SPREAD = 0.5
PAUSES = 0.04
"""Share of keys before which the typist thinks; before a new line it is PAUSES_AT_LINES."""
PAUSES_AT_LINES = 0.5
ERRORS = 0.03
TAKES = 0.7
"""Of suggestions that are what the typist is about to write, the share that is taken."""
LINES = 4
MAX_CHARS = 240


@dataclass(frozen=True, slots=True)
class Trace:
    """`target` is typed between `before` and `after`."""

    name: str
    language: str
    before: str
    target: str
    after: str
    seed: int


@dataclass(frozen=True, slots=True)
class Action:
    """text: what is written; for "delete" how it is taken back (as many characters)."""

    kind: Literal["type", "delete", "take"]
    text: str


class Typist:
    """Writes the target of a trace: ask for `wait`, then, with what is shown by then, for `act`."""

    def __init__(self, trace: Trace) -> None:
        self._rest = trace.target
        self._random = random.Random(trace.seed)
        self._wrong = self._new_line = False

    def wait(self) -> float:
        """Seconds until the next key."""
        seconds = self._random.lognormvariate(math.log(INTERVAL_SECONDS), SPREAD)
        if self._random.random() < (PAUSES_AT_LINES if self._new_line else PAUSES):
            seconds += self._random.uniform(0.8, 2.5)
        return max(0.04, seconds)

    def act(self, shown: str) -> Action | None:
        """The next key; None when everything is written. shown: the suggestion at the cursor, if there is one."""
        if self._wrong:
            self._wrong = False
            return Action("delete", "?")
        if not self._rest:
            return None
        if shown and self._rest.startswith(shown) and self._random.random() < TAKES:
            return self._written("take", shown)
        if self._rest[0].isalpha() and self._random.random() < ERRORS:
            self._wrong = True
            return Action("type", self._random.choice("asdfjkl"))
        return self._written("type", self._rest[0])

    def _written(self, kind: Literal["type", "take"], text: str) -> Action:
        self._rest = self._rest[len(text) :]
        self._new_line = text.endswith("\n")
        return Action(kind, text)


def traces(files: Sequence[Path], n_keys: int, seed: int) -> Iterator[Trace]:
    """Traces of about `n_keys` characters together, from randomly chosen lines of the files in turn.

    Raises UsageError for files that are no code.
    """
    chooser = random.Random(seed)
    texts = [(path, _read(path)) for path in files]
    left = n_keys
    while left > 0:
        path, text = chooser.choice(texts)
        lines = text.splitlines(keepends=True)
        code = [n for n, line in enumerate(lines) if line.strip()]
        first = chooser.choice(code)
        target = "".join(lines[first : first + LINES])[: min(MAX_CHARS, left)].rstrip("\n")
        before, after = "".join(lines[:first]), "".join(lines[first + LINES :])
        yield Trace(path.name, language_of(path.name) or "", before, target, "\n" + after, chooser.randrange(2**32))
        left -= len(target)


def padded(trace: Trace, size: int) -> Trace:
    """The trace in the middle of a file of `size` characters: its own text again and again."""
    whole = trace.before + trace.target + trace.after + "\n"
    missing = max(0, size - len(whole)) // 2
    filler = (whole * (1 + missing // len(whole)))[: missing + 1]
    filler = filler[: filler.rfind("\n") + 1]
    return Trace(trace.name, trace.language, filler + trace.before, trace.target, trace.after + filler, trace.seed)


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({type(error).__name__}); name source files in UTF-8") from None
    if not text.strip():
        raise UsageError(f"{path} is empty; name source files that have some code")
    return text
