"""Where a benchmark's middle ends, for models that do not say so themselves: at the suffix, or with the function.

A base model that was never taught to stop goes on with the suffix, and behind it with the next function, prose, a code
fence. The rule cuts there, for every contestant alike and token by token, as the first line break does for the tasks
of a single line. It knows the benchmark's shape (the body of one Python function, its end at the left margin) and
nothing about the middle itself.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

UNMISTAKABLE = 8
"""A rest of the suffix's line of so many characters is the suffix without a look at the line below it."""


def middle_end(suffix: str) -> Callable[[str], int | None]:
    """The rule for a suffix: text so far -> how many of its characters are the middle, None while it may go on.

    A suffix that begins at a line's start (the middle ends with its line) is seen when its first line of code is
    written again, whole. One that begins inside a line is seen when the rest of that line is written up to its break,
    and below it the line that follows, unless that rest is unmistakable by itself.
    """
    head, _, below = suffix.partition("\n")
    return partial(_end, head.rstrip(), _first_code(below.split("\n")))


def line_end(suffix: str) -> Callable[[str], int | None]:
    """As middle_end, for a middle of whole lines."""
    return partial(_end, None, _first_code(suffix.split("\n")))


def _first_code(lines: Sequence[str]) -> str:
    """The first line that is not blank; empty if there is none."""
    return next((line.rstrip() for line in lines if line.strip()), "")


def _end(rest: str | None, following: str, text: str) -> int | None:
    """rest: what the suffix's first line has left of the middle's last line; None for a middle of whole lines."""
    start = 0
    lines = text.split("\n")
    for index, line in enumerate(lines):
        here, whole = line.rstrip(), index + 1 < len(lines)  # the last line may go on
        if index and here and not here[0].isspace():
            return start if rest is None else _before_margin(text[:start], rest, following)
        if rest is None:
            if whole and here == following and re.search(r"\w", here):
                return start
        elif whole and here.endswith(rest):
            below = _first_code(lines[index + 1 : -1])
            if len(rest.strip()) >= UNMISTAKABLE or (below and below == following):
                return start + len(here) - len(rest)
        start += len(line) + 1
    return None


def _before_margin(text: str, rest: str, following: str) -> int:
    """The function is over: if the rest of the line is the whole suffix and the text ends with it, it ends before."""
    kept = text.rstrip()
    return len(kept) - len(rest) if not following and rest and kept.endswith(rest) else len(text) - 1
