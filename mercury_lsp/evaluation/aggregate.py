"""Many values in one figure: percentiles, rates, and how sure they are. Values in, values out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959964
"""Standard deviations of a normal distribution within which 95% of it lie."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value with at least `share` (0 to 1) of the values at or below it; 0 for no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def seconds(values: Sequence[float]) -> dict[str, float]:
    return {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95)}


def rate(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Many values in three: the median and the quartiles around it. n: how many there were."""

    median: float
    low: float
    high: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    return Spread(percentile(values, 0.5), percentile(values, 0.25), percentile(values, 0.75), len(values))


def wilson(n_true: int, n: int) -> tuple[float, float]:
    """95% interval of a rate of which n_true out of n were seen (Wilson 1927); (0, 1) for none."""
    if n == 0:
        return 0.0, 1.0
    share, square = n_true / n, Z_95**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = Z_95 * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """At least 95% interval of the median, from the order of the values alone; endless for fewer than six.

    With k values left out at each end, the median lies outside with twice the probability of at most k heads.
    """
    ordered, n = sorted(values), len(values)
    tail, k = 0.0, -1
    while k + 1 < n / 2 and (tail := tail + math.comb(n, k + 1) / 2**n) <= 0.025:
        k += 1
    return (ordered[k], ordered[n - 1 - k]) if k >= 0 else (-math.inf, math.inf)
