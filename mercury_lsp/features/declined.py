"""What was offered as a next edit, and what the user turned down: not offered again, and quiet for a while.

Values in, values out: no LSP types. A server that is started anew remembers nothing.
"""

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_OFFERS = 64
MAX_DECLINED = 200
COOLDOWN_SECONDS = 5.0
"""Quiet after a rejection; twice as long after each further one, up to MAX_COOLDOWN_SECONDS."""
MAX_COOLDOWN_SECONDS = 120.0
FORGIVEN_SECONDS = 300.0
"""After so long without a rejection the next one counts as the first."""


@dataclass(frozen=True, slots=True)
class Offer:
    """key: of the document. old, new: text before and after."""

    key: str
    old: str
    new: str


class Declined:
    """clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._offers: OrderedDict[str, Offer] = OrderedDict()
        self._declined: OrderedDict[Offer, None] = OrderedDict()
        self._numbers = itertools.count(1)
        self._streak: dict[str, tuple[int, float]] = {}

    def offer(self, offer: Offer) -> str:
        """Remembers what is being offered; the answer names it."""
        name = f"next-edit-{next(self._numbers)}"
        self._offers[name] = offer
        while len(self._offers) > MAX_OFFERS:
            self._offers.popitem(last=False)
        return name

    def decline(self, name: str) -> None:
        """The user turned an offer down; an unknown name is nothing to worry about."""
        offer = self._offers.pop(name, None)
        if offer is None:
            return
        self._declined[offer] = None
        while len(self._declined) > MAX_DECLINED:
            self._declined.popitem(last=False)
        count, last = self._streak.get(offer.key, (0, 0.0))
        now = self._clock()
        self._streak[offer.key] = (count + 1 if now - last < FORGIVEN_SECONDS else 1, now)

    def decline_last(self, key: str) -> None:
        """The same for what a document was offered last, where the client does not say which."""
        name = next((name for name, offer in reversed(self._offers.items()) if offer.key == key), None)
        if name is not None:
            self.decline(name)

    def of(self, key: str) -> frozenset[tuple[str, str]]:
        """What was turned down in a document, as (old, new)."""
        return frozenset((offer.old, offer.new) for offer in self._declined if offer.key == key)

    def is_quiet(self, key: str) -> bool:
        """Whether a rejection is so recent that nothing is offered of our own accord."""
        if key not in self._streak:
            return False
        count, last = self._streak[key]
        return self._clock() - last < min(MAX_COOLDOWN_SECONDS, COOLDOWN_SECONDS * 2 ** (count - 1))

    def forget(self, key: str) -> None:
        """A document was closed: what was declined in it stays declined, the quiet is over."""
        self._streak.pop(key, None)
        for name in [name for name, offer in self._offers.items() if offer.key == key]:
            del self._offers[name]
