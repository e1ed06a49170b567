"""Finds a place again after the document changed: by its lines, or not at all.

A place is remembered by digests of its lines, never by their text, so that it can travel through an editor. Values in,
values out; no LSP types.
"""

import hashlib
from dataclasses import dataclass

from mercury_lsp.text import Document, Span

_AROUND = 1  # lines above and below that must be the same too


@dataclass(frozen=True, slots=True)
class Anchor:
    """Lines [line, line + n_lines) of a document, their digest, and that of the first of them."""

    line: int
    n_lines: int
    digest: str
    first: str


def anchor(document: Document, span: Span) -> Anchor:
    """The lines of a span and one more on each side."""
    line = max(0, document.line_of(span.start) - _AROUND)
    last = min(document.n_lines - 1, document.line_of(span.end) + _AROUND)
    return Anchor(line, last - line + 1, _digest(document, line, last - line + 1), _digest(document, line, 1))


def locate(document: Document, place: Anchor) -> int | None:
    """The line where the anchor's lines stand now: where they were, or else the only place where they are."""
    if _is_at(document, place, place.line):
        return place.line
    found = [line for line in range(document.n_lines - place.n_lines + 1) if _is_at(document, place, line)]
    return found[0] if len(found) == 1 else None


def moved(old: Document, new: Document, span: Span) -> Span | None:
    """Where the text of a span of `old` stands in `new`; None if it or the lines around it changed."""
    if old.text == new.text:
        return span
    place = anchor(old, span)
    line = locate(new, place)
    if line is None:
        return None
    shift = new.line_span(line).start - old.line_span(place.line).start
    return Span(span.start + shift, span.end + shift)


def _is_at(document: Document, place: Anchor, line: int) -> bool:
    if line + place.n_lines > document.n_lines or _digest(document, line, 1) != place.first:
        return False
    return _digest(document, line, place.n_lines) == place.digest


def _digest(document: Document, line: int, n_lines: int) -> str:
    text = document.text[document.line_span(line).start : document.line_span(line + n_lines - 1, keepend=True).end]
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
