"""How long the middle is, for bidirectional checkpoints that cannot say so themselves: a search before denoising.

The confidence of the first denoising pass over an all-masked canvas peaks near the right length (CAL, Liu et al. 2026,
arXiv 2602.00476, from which the idea comes; the ladder, the bracket and the calibration here are this library's own).
The score passed in is already freed from the checkpoint's general liking for some lengths. This module knows nothing
about tensors, tokens or text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mercury_model.policy import Proposals


def search_length(score: Callable[[int], float], start: int, most: int, probes: int) -> Iterator[int]:
    """The best length known after each probe; the last one is the answer. At most `probes` calls of score(n).

    First a ladder that doubles from 1 to `most`, `start` first; then the gaps on both sides of the best rung are
    halved. Where the score rises to one peak and falls, the answer is the peak, after about 2 log2(most) probes; where
    it does not, it is the best length seen. Of equal scores the shorter length wins.
    """
    found: dict[int, float] = {}

    def best() -> int:
        return min(found, key=lambda n: (-found[n], n))

    rungs = [start, *(1 << k for k in range(most.bit_length())), most]
    for n in dict.fromkeys(min(max(n, 1), most) for n in rungs):
        if len(found) >= probes:
            return
        found[n] = score(n)
        yield best()
    while len(found) < probes:
        middle = best()
        below = max((n for n in found if n < middle), default=0)
        above = min((n for n in found if n > middle), default=most + 1)
        if max(middle - below, above - middle) <= 1:
            return
        n = (below + middle) // 2 if middle - below >= above - middle else (middle + above) // 2
        found[n] = score(n)
        yield best()


def first_step_confidence(proposals: Proposals, is_special: Callable[[int], bool]) -> float:
    """Mean probability of the proposed tokens; a proposed end or padding token counts nothing, as it is no text."""
    sure: Sequence[float] = [
        0.0 if is_special(t) else c for t, c in zip(proposals.token, proposals.confidence, strict=True)
    ]
    return sum(sure) / len(sure) if sure else 0.0
