"""Where one contestant is behind, ahead of or level with another, in words made from the figures.

A difference counts only if chance hardly explains it: where 95% intervals overlap (of rates), or where the 95% interval
of the median ratio holds 1 (of times and counts), it is called a tie. Knows nothing about how anything was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mercury_lsp.evaluation.aggregate import median_interval, rate, spread, wilson

Side = Literal["behind", "tie", "ahead", "open"]
"""open: too little was measured to say."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """text: one line with the figures and by how much."""

    side: Side
    text: str


def percent(n_true: int, n: int) -> str:
    """A rate with its 95% interval."""
    low, high = wilson(n_true, n)
    return f"{100 * n_true / max(n, 1):.0f}% ({100 * low:.0f}–{100 * high:.0f})"


def of_rates(what: str, ours: Sequence[bool], other: Sequence[bool]) -> Verdict:
    """More is better."""
    low, high = wilson(sum(ours), len(ours))
    other_low, other_high = wilson(sum(other), len(other))
    text = f"{what}: {percent(sum(ours), len(ours))} against {percent(sum(other), len(other))}"
    points = abs(100 * (rate(ours) - rate(other)))
    if low > other_high or high < other_low:
        return Verdict("ahead" if low > other_high else "behind", f"{text}, {points:.0f} points")
    return Verdict("tie", f"{text}; the intervals overlap")


def of_ratios(what: str, ratios: Sequence[float]) -> Verdict:
    """ratios: ours to the other's, question by question; less is better."""
    low, high = median_interval(ratios)
    middle = spread(ratios).median
    if low == float("-inf"):
        return Verdict("open", f"{what}: pairs: {len(ratios)}")
    text = f"{what}: {middle:.2f} times the other's ({low:.2f}–{high:.2f}, {len(ratios)} pairs)"
    if low <= 1 <= high:
        return Verdict("tie", f"{text}; the interval holds 1")
    return Verdict("ahead" if high < 1 else "behind", f"{text}, {abs(100 * (middle - 1)):.0f}% {_more(middle)}")


def of_ranges(what: str, unit: str, ours: Sequence[float], other: Sequence[float]) -> Verdict:
    """Few values each, all of them shown as a range; less is better."""
    mine, theirs = spread(ours).median, spread(other).median
    text = f"{what}: {mine:.0f} {unit} ({min(ours):.0f}–{max(ours):.0f}) against {theirs:.0f} {unit}"
    text += f" ({min(other):.0f}–{max(other):.0f})"
    if min(ours) <= max(other) and min(other) <= max(ours):
        return Verdict("tie", f"{text}; the ranges overlap")
    by = f"{abs(mine - theirs):.0f} {unit} {_more(mine / theirs)}"
    return Verdict("ahead" if mine < theirs else "behind", f"{text}, {by}")


def _more(ratio: float) -> str:
    return "more" if ratio > 1 else "less"
