"""Documents and spans, in code points.

This module knows nothing about LSP positions, encodings on the wire, files or syntax.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of code point offsets."""

    start: int
    end: int


@dataclass(frozen=True)
class Document:
    """A frozen snapshot of a buffer. version is None where the client sent none."""

    uri: str
    version: int | None
    language: str
    text: str
