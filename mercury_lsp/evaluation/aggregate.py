"""Many values in one figure: percentiles and rates. Values in, values out."""

import math
from collections.abc import Sequence


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
