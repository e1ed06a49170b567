"""What the user turned down as ghost text, or took and undid: not offered again at the same spot of its own accord.

Values in, values out: no LSP types. What was taken and undone is seen by the buffer alone, as no client reports it.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from mercury_lsp.edit import Edit
from mercury_lsp.text import Document, model_text

WINDOW = 2048
"""Code points on each side of the cursor that make a spot the same."""
MAX_REMEMBERED = 200

Spot = tuple[str, bytes, str]


@dataclass(frozen=True, slots=True)
class _Offer:
    document: Document
    cursor: int
    edit: Edit


class TurnedDown:
    """Remembers the last `size` texts of all documents, as digests of their surroundings."""

    def __init__(self, size: int = MAX_REMEMBERED) -> None:
        self._size = size
        self._spots: OrderedDict[Spot, None] = OrderedDict()
        self._offered: dict[str, _Offer] = {}
        self._taken: dict[str, _Offer] = {}

    def offer(self, key: str, document: Document, cursor: int, edit: Edit) -> None:
        """`edit` is being shown at `cursor`; key: of the document."""
        self._offered[key] = _Offer(document, cursor, edit)

    def changed(self, key: str, document: Document) -> None:
        """The buffer is `document` now: what was offered may just have been taken, or taken back."""
        taken, offered = self._taken.get(key), self._offered.get(key)
        if taken is not None and taken.document.text == document.text:
            self._remember(key, taken)
            del self._taken[key]
        elif offered is not None and _is_taken(offered, document):
            self._taken[key] = offered

    def decline(self, key: str, document: Document, cursor: int) -> None:
        """The user turned down what is shown at `cursor`; if nothing is, there is nothing to remember."""
        offered = self._offered.get(key)
        if offered is not None and offered.cursor == cursor and offered.document.text == document.text:
            self._remember(key, offered)

    def has(self, key: str, document: Document, cursor: int, edit: Edit) -> bool:
        """Whether this text was turned down at this spot."""
        return _spot(key, document, cursor, edit) in self._spots

    def forget(self, key: str) -> None:
        """Drops everything about a document."""
        self._offered.pop(key, None)
        self._taken.pop(key, None)
        for spot in [spot for spot in self._spots if spot[0] == key]:
            del self._spots[spot]

    def _remember(self, key: str, offer: _Offer) -> None:
        self._spots[_spot(key, offer.document, offer.cursor, offer.edit)] = None
        while len(self._spots) > self._size:
            self._spots.popitem(last=False)


def _spot(key: str, document: Document, cursor: int, edit: Edit) -> Spot:
    text = document.text
    around = (text[max(0, cursor - WINDOW) : cursor], text[cursor : cursor + WINDOW])
    digest = hashlib.blake2b(digest_size=16)
    for part in around:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return key, digest.digest(), model_text(edit.new_text)


def _is_taken(offer: _Offer, document: Document) -> bool:
    """Whether `document` is the offer's document with its edit applied, in whatever line ends."""
    text, old, span = document.text, offer.document.text, offer.edit.span
    end = len(text) - (len(old) - span.end)
    if not 0 < end - span.start <= 2 * len(offer.edit.new_text):
        return False
    return (
        model_text(text[span.start : end]) == model_text(offer.edit.new_text)
        and text[: span.start] == old[: span.start]
        and text[end:] == old[span.end :]
    )
