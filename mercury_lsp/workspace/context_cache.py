"""When to look at other places again: rarely. What stands before the cursor's own text must not change while the user
types, or the model reads everything anew.

Looked at again when the cursor moved far, when another document was in use meanwhile, when something says that the old
answer is stale (a file was saved, the index is ready), or after a pause. It knows nothing about what is gathered.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from mercury_model.draft import Snippet

FAR_LINES = 40
"""The cursor is elsewhere when it is so many lines from where the context was made."""
MAX_DOCUMENTS = 64

Snippets = tuple[Snippet, ...]


@dataclass(slots=True)
class _Entry:
    snippets: Snippets
    line: int
    asked: float
    stale: bool


class ContextCache:
    """The context of each document as it was gathered last. May be used from two threads: entries are replaced."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._last = ""
        self._n_forgotten = 0

    def get(self, key: str, line: int, pause: float, gather: Callable[[Snippets], Snippets]) -> Snippets:
        """The context of document `key` for a cursor at `line`; `gather` makes it anew from what was shown before.

        pause: seconds without a question after which it is made anew.
        """
        now, entry = self._clock(), self._entries.get(key)
        current = (
            entry is not None
            and not entry.stale
            and self._last == key
            and abs(entry.line - line) <= FAR_LINES
            and now - entry.asked <= pause
        )
        self._last = key
        if entry is not None and current:
            entry.asked = now
            return entry.snippets
        n_forgotten = self._n_forgotten
        snippets = gather(entry.snippets if entry is not None else ())
        if n_forgotten != self._n_forgotten:  # meanwhile, by the other thread: what was gathered may be ignored by now
            return snippets
        if entry is not None and entry.snippets == snippets:
            snippets = entry.snippets
        self._entries.pop(key, None)
        self._entries[key] = _Entry(snippets, line, now, stale=False)
        while len(self._entries) > MAX_DOCUMENTS:
            self._entries.pop(next(iter(self._entries)))
        return snippets

    def touch(self) -> None:
        """Something changed outside the documents: every answer is made anew when it is asked for."""
        for entry in list(self._entries.values()):
            entry.stale = True

    def forget(self, key: str | None = None) -> None:
        """Drops the context of a document, or all (ignore rules changed: nothing may be shown once more)."""
        self._n_forgotten += 1
        if key is None:
            self._entries.clear()
        else:
            self._entries.pop(key, None)
