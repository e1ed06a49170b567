"""What was edited lately, in every document: small hunks, joined while they touch, each with its unified diff.

A hunk lives in the coordinates of the document as it is now and moves with later edits. Edits that undo each other
leave nothing. Ignored files never enter, and what became ignored since (a rename, a new rule) is not given out. This
module knows nothing about LSP, files on disk or what the hunks are wanted for.
"""

import difflib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from mercury_lsp.text import Document, Span, model_text

MAX_HUNKS = 32
"""Kept over all documents; the oldest leave first."""
MAX_CHARS = 4_000
"""Larger changes (a formatter's, a pasted file) say nothing about what the user is doing: they are not kept."""
CONTEXT_LINES = 3
"""Unchanged lines on each side of a diff."""
JOIN_LINES = 2
"""Edits with at most so many line ends between them are one hunk."""
_JOIN_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class RecentEdit:
    """One hunk, as whole lines.

    span: where `new` stands in the document as it is now (or was when it closed), in code points. old, new: text of
    the lines before and after. diff: a unified diff with CONTEXT_LINES around, without file names. first_line: 0-based,
    of `new`. at: when it was touched last, in the seconds of whoever recorded it.
    """

    uri: str
    span: Span
    old: str
    new: str
    diff: str
    first_line: int
    at: float


@dataclass(frozen=True, slots=True)
class _Hunk:
    start: int
    old: str
    new: str
    at: float

    @property
    def end(self) -> int:
        return self.start + len(self.new)


class EditRing:
    """The recent edits of all documents.

    ignored: whether a document's text must not be kept; asked when an edit is recorded and again when it is given out.
    """

    def __init__(self, ignored: Callable[[str], bool] = lambda _: False, *, max_hunks: int = MAX_HUNKS) -> None:
        self._ignored = ignored
        self._max_hunks = max_hunks
        self._hunks: dict[str, list[_Hunk]] = {}
        self._documents: dict[str, Document] = {}
        self._closed: dict[str, list[RecentEdit]] = {}
        self._lock = threading.RLock()  # the model's thread reads, the event loop writes

    def record(self, before: Document, span: Span, new_text: str, after: Document, now: float) -> None:
        """`span` of `before` became `new_text`, which gave `after`."""
        uri = before.uri
        if self._ignored(uri):
            self.forget(uri)
            return
        with self._lock:
            self._record(before, span, new_text, after, now)

    def _record(self, before: Document, span: Span, new_text: str, after: Document, now: float) -> None:
        uri = before.uri
        self._closed.pop(uri, None)
        self._documents[uri] = after
        text, lo, hi = before.text, span.start, span.end
        joined: list[_Hunk] = []
        kept = self._hunks.get(uri, [])
        while touching := [hunk for hunk in kept if _touches(text, hunk, lo, hi)]:
            joined += touching
            kept = [hunk for hunk in kept if hunk not in touching]
            lo, hi = min(lo, *(hunk.start for hunk in touching)), max(hi, *(hunk.end for hunk in touching))
        old, place = "", lo
        for hunk in sorted(joined, key=lambda hunk: hunk.start):
            old, place = old + text[place : hunk.start] + hunk.old, hunk.end
        old += text[place:hi]
        new = text[lo : span.start] + new_text + text[span.end : hi]
        delta = len(new_text) - len(span)
        kept = [replace(hunk, start=hunk.start + delta) if hunk.start >= span.end else hunk for hunk in kept]
        if old != new and max(len(old), len(new)) <= MAX_CHARS:
            kept.append(_Hunk(lo, old, new, now))
        self._hunks[uri] = kept
        self._trim()

    def replaced(self, before: Document, after: Document, now: float) -> None:
        """The whole text was sent: the part that differs is recorded."""
        start, end_before, end_after = _differing(before.text, after.text)
        if end_before > start or end_after > start:
            self.record(before, Span(start, end_before), after.text[start:end_after], after, now)

    def close(self, uri: str) -> None:
        """Keeps the hunks of a document whose text is given up."""
        with self._lock:
            edits = self._of(uri) or self._closed.get(uri, [])
            self.forget(uri)
            if edits and not self._ignored(uri):
                self._closed[uri] = edits

    def forget(self, uri: str) -> None:
        """Drops everything about a document."""
        with self._lock:
            self._hunks.pop(uri, None)
            self._documents.pop(uri, None)
            self._closed.pop(uri, None)

    def edits(self) -> tuple[RecentEdit, ...]:
        """All hunks, the newest first."""
        with self._lock:
            open_ones = [(self._documents[uri], tuple(hunks)) for uri, hunks in self._hunks.items()]
            found = [edit for edits in self._closed.values() for edit in edits if not self._ignored(edit.uri)]
        for document, hunks in open_ones:
            if not self._ignored(document.uri):
                found += [_recent(document, hunk) for hunk in hunks]
        return tuple(sorted(found, key=lambda edit: -edit.at))

    def _of(self, uri: str) -> list[RecentEdit]:
        document = self._documents.get(uri)
        return [] if document is None else [_recent(document, hunk) for hunk in self._hunks.get(uri, [])]

    def _trim(self) -> None:
        if sum(map(len, (*self._hunks.values(), *self._closed.values()))) <= self._max_hunks:
            return
        times = [(hunk.at, uri) for uri, hunks in self._hunks.items() for hunk in hunks]
        times += [(edit.at, uri) for uri, edits in self._closed.items() for edit in edits]
        for at, uri in sorted(times)[: max(0, len(times) - self._max_hunks)]:
            self._hunks[uri] = [hunk for hunk in self._hunks.get(uri, []) if hunk.at != at]
            self._closed[uri] = [edit for edit in self._closed.get(uri, []) if edit.at != at]
        for uri in [uri for uri, edits in self._closed.items() if not edits]:
            del self._closed[uri]
        for uri in [uri for uri, hunks in self._hunks.items() if not hunks]:
            del self._hunks[uri]
            self._documents.pop(uri, None)


def _touches(text: str, hunk: _Hunk, lo: int, hi: int) -> bool:
    start, end = (hunk.end, lo) if hunk.end <= lo else (hi, hunk.start)
    if end - start > _JOIN_CHARS:  # counting line ends over a whole large buffer would cost at every key
        return False
    return start >= end or text.count("\n", start, end) + text.count("\r", start, end) <= JOIN_LINES


def _differing(one: str, other: str) -> tuple[int, int, int]:
    """(start, end in one, end in other) of the part that differs, found by halving: comparing slices is quick."""
    limit = min(len(one), len(other))
    start = _n_equal(limit, lambda low, high: one[low:high] == other[low:high])
    n_one, n_other = len(one), len(other)
    tail = _n_equal(
        limit - start,
        lambda low, high: one[n_one - high : n_one - low] == other[n_other - high : n_other - low],
    )
    return start, n_one - tail, n_other - tail


def _n_equal(limit: int, equal: Callable[[int, int], bool]) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if equal(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _recent(document: Document, hunk: _Hunk) -> RecentEdit:
    first, last = document.line_of(hunk.start), document.line_of(hunk.end)
    top, bottom = document.line_span(first).start, document.line_span(last).end
    text = document.text
    old = model_text(text[top : hunk.start] + hunk.old + text[hunk.end : bottom])
    new = model_text(text[top:bottom])
    above = [document.line_text(line) for line in range(max(0, first - CONTEXT_LINES), first)]
    below = [document.line_text(line) for line in range(last + 1, min(document.n_lines, last + 1 + CONTEXT_LINES))]
    old_lines, new_lines = [*above, *old.split("\n"), *below], [*above, *new.split("\n"), *below]
    lines = list(difflib.unified_diff(old_lines, new_lines, n=CONTEXT_LINES, lineterm=""))[2:]
    diff = model_text("\n".join(_moved(line, first - len(above)) for line in lines))
    return RecentEdit(document.uri, Span(top, bottom), old, new, diff, first, hunk.at)


def _moved(line: str, n_lines: int) -> str:
    """A hunk header with its line numbers moved down by `n_lines`; any other line as it is."""
    if not line.startswith("@@ "):
        return line
    parts = line.split(" ")
    for index in (1, 2):
        number, _, count = parts[index][1:].partition(",")
        parts[index] = f"{parts[index][0]}{int(number) + n_lines}" + (f",{count}" if count else "")
    return " ".join(parts)
