"""Seeds: text that already stands somewhere is the cheapest draft.

Code repeats itself. When the last few tokens written stand elsewhere (in the prompt, or in the code that is being
rewritten), what followed there is a good guess of what follows here; a wrong guess costs nothing but its check. This
is prompt lookup decoding (Saxena 2023) and, for rewriting, speculative editing. This module knows nothing about
models.
"""

from collections.abc import Sequence

N_GRAM = 4
"""Tokens that must agree before what followed them is copied. Shorter runs agree by accident."""


class Seeds:
    """Token sequences to copy from; what is written may be appended to the last one."""

    def __init__(self, sources: Sequence[Sequence[int]], n_gram: int = N_GRAM) -> None:
        self._n = n_gram
        self._sources = [list(source) for source in sources]
        self._after: dict[tuple[int, ...], tuple[int, int]] = {}
        for which, source in enumerate(self._sources):
            for at in range(n_gram, len(source)):
                self._after[tuple(source[at - n_gram : at])] = (which, at)

    def guess(self, written: Sequence[int], most: int) -> list[int]:
        """Up to `most` tokens that followed the last tokens of `written` elsewhere; the latest place counts."""
        found = self._after.get(tuple(written[-self._n :]))
        if found is None:
            return []
        which, at = found
        return self._sources[which][at : at + most]
