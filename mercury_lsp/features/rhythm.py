"""How fast the user types, and how long to wait for the next key before the model is asked.

Plain arithmetic over times that it is given; it knows nothing about clocks, clients or models.
"""

from dataclasses import dataclass

PAUSE = 1.0
"""Seconds: longer intervals are pauses, not typing."""


@dataclass(slots=True)
class _Rhythm:
    last: float
    interval: float


class TypingRhythm:
    """Per document, the time of the last key and the mean interval between keys (seconds)."""

    def __init__(self, *, first: float = 0.1, shortest: float = 0.075, longest: float = 0.3) -> None:
        self._first, self._shortest, self._longest = first, shortest, longest
        self._rhythms: dict[str, _Rhythm] = {}

    def key(self, uri: str, now: float) -> None:
        """A change of the document arrived."""
        rhythm = self._rhythms.get(uri)
        if rhythm is None:
            self._rhythms[uri] = _Rhythm(now, self._first)
            return
        interval = now - rhythm.last
        if interval < PAUSE:
            rhythm.interval += 0.25 * (interval - rhythm.interval)
        rhythm.last = now

    def wait(self, uri: str, now: float, fixed: float | None = None) -> float:
        """Seconds until the user may be said to have paused: one and a half intervals after the last key.

        Counted from the key, not from now: a client that waited by itself is not made to wait twice.
        """
        rhythm = self._rhythms.get(uri)
        if rhythm is None:
            return 0.0
        quiet = min(self._longest, max(self._shortest, 1.5 * rhythm.interval)) if fixed is None else fixed
        return max(0.0, rhythm.last + quiet - now)

    def forget(self, uri: str) -> None:
        self._rhythms.pop(uri, None)
