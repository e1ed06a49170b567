"""Where a benchmark's middle ends: what a model goes on with, and where it is cut, character by character."""

from collections.abc import Callable

import pytest

from mercury_lsp.evaluation.middle_end import line_end, middle_end

LINES: list[tuple[str, str, str | None]] = [
    # the suffix, what is written, what is kept (None: it goes on)
    ("    return x\n", "    x = 1\n    return x\n", "    x = 1\n"),
    ("\n    return x\n", "    x = 1\n\n    return x\n", "    x = 1\n\n"),
    ("    return x\n", "    x = 1\n    return x", None),
    ("    return x\n", "    return xs\n", None),
    ("", "    return x\n\n\ndef other", "    return x\n\n\n"),
    ("    y = 2\n", "    x = 1\n```", "    x = 1\n"),
    ("    )\n", "    f(\n        1,\n    )\n", None),
]
SPANS: list[tuple[str, str, str | None]] = [
    (" for x in xs]\n    return ys\n", "[x for x in xs]\n", "[x"),
    (")\n    return x\n", "f(1)\n    return x\n", "f(1"),
    (")\n    return x\n", "f(1)\n", None),
    (")\n    return x\n", "f(1)\n    y = g(2)\n    return x\n", "f(1)\n    y = g(2"),
    ("\n    return x\n", "1\n    return x\n", "1"),
    ("]\n", "[x]\n\n\nprint", "[x"),
    ("]\n", "[x)\n\n\nprint", "[x)\n\n"),
]


@pytest.mark.parametrize(
    ("rule", "suffix", "written", "kept"),
    [(line_end, *row) for row in LINES] + [(middle_end, *row) for row in SPANS],
)
def test_a_middle_ends_where_the_suffix_is_written_again_or_the_function_is_left(
    rule: Callable[[str], Callable[[str], int | None]], suffix: str, written: str, kept: str | None
) -> None:
    end = rule(suffix)(written)
    assert (None if end is None else written[:end]) == kept
