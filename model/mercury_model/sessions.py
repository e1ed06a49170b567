"""Which documents' keys and values are kept, and giving memory back that nothing needs any more.

This module knows nothing about what a session does.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from mercury_model.transformer import KVCache


class Holds(Protocol):
    cache: KVCache


S = TypeVar("S", bound=Holds)


class Sessions(Generic[S]):
    """Sessions by document, the least recently used ones dropped while all of them take more than `cache_bytes`."""

    def __init__(self, new: Callable[[], S]) -> None:
        self._new = new
        self._of: OrderedDict[str, S] = OrderedDict()
        self.cache_bytes = 256 << 20

    def of(self, document: str) -> S:
        """The document's session; a nameless one is new each time."""
        if not document:
            return self._new()
        session = self._of.pop(document, None)
        begins = session is None
        session = session or self._new()
        self._of[document] = session
        while len(self._of) > 1 and self.held_bytes > self.cache_bytes:
            self._of.popitem(last=False)
        if begins:
            give_back()
        return session

    @property
    def held_bytes(self) -> int:
        return sum(session.cache.n_bytes for session in self._of.values())


def give_back() -> None:
    """Return what was freed to the system, in some milliseconds: glibc keeps what lies between caches that live on,
    350 MB of it after forty documents. Other systems do so themselves."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
