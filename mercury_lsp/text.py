"""Documents and spans, in code points.

Lines end at `\\r\\n`, `\\n` and `\\r` only (`str.splitlines` would also cut at form feeds and U+2028 and move
every later position). Lone surrogates may stand anywhere. This module knows nothing about LSP positions,
encodings on the wire, files or syntax.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from mercury_lsp.languages import grammar_of, language_of

if TYPE_CHECKING:
    import numpy as np

    Starts = np.ndarray[Any, np.dtype[np.int64]]

__all__ = [
    "Document",
    "IndentStyle",
    "Span",
    "indent_of",
    "language_of",
    "model_text",
    "utf8",
]

_NEWLINE = re.compile(r"\r\n|\n|\r")
_INDENTED = re.compile(r"(?:\A|(?<=[\r\n]))([ \t]*)(?=[^\s])")
_SAMPLE = 50_000  # characters looked at to find out how a file is indented

Newline = Literal["\n", "\r\n", "\r"]


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of code point offsets."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def of(self, text: str) -> str:
        """The characters of `text` under this span."""
        return text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class IndentStyle:
    """How a file is indented. width: columns of one step, also of one tab."""

    tabs: bool
    width: int

    @property
    def unit(self) -> str:
        """One step of indentation."""
        return "\t" if self.tabs else " " * self.width


@dataclass(frozen=True)
class Document:
    """A frozen snapshot of a buffer. version is None where the client sent none."""

    uri: str
    version: int | None
    language: str
    text: str

    @cached_property
    def _starts(self) -> "Starts":
        return _line_starts(self.text)

    @cached_property
    def memo(self) -> dict[tuple[str, int], Any]:
        """What was worked out about this snapshot, under a name and a place; it goes when the snapshot goes."""
        return {}

    @property
    def n_lines(self) -> int:
        """Number of lines, at least 1: a text that ends with a newline has an empty last line."""
        return len(self._starts)

    def line_of(self, offset: int) -> int:
        """Index of the line that holds `offset`; offsets outside the text are clamped into it."""
        return max(0, int(self._starts.searchsorted(offset, side="right")) - 1)

    def line_span(self, line: int, keepend: bool = False) -> Span:
        """Where line `line` (0-based, clamped) stands, with its newline or without."""
        starts = self._starts
        last = len(starts) - 1
        line = max(line, 0)
        if line >= last:
            return Span(int(starts[last]), len(self.text))
        start, end = int(starts[line]), int(starts[line + 1])
        if not keepend:
            end -= 2 if end - start >= 2 and self.text.startswith("\r\n", end - 2) else 1
        return Span(start, end)

    def line_text(self, line: int) -> str:
        """Line `line` without its newline."""
        return self.line_span(line).of(self.text)

    def apply(self, span: Span, new_text: str, version: int | None) -> "Document":
        """The document with `span` replaced; only the lines around the edit are scanned for newlines again.

        A span outside the text is clamped into it.
        """
        import numpy as np  # see _line_starts

        start = min(max(span.start, 0), len(self.text))
        end = min(max(span.end, start), len(self.text))
        text = "".join((self.text[:start], new_text, self.text[end:]))
        edited = Document(self.uri, version, self.language, text)
        # A `\r` just before the edit may join a `\n` that begins it, hence the line of start - 1.
        first, last = self.line_of(max(start - 1, 0)), self.line_of(end)
        top = int(self._starts[first])
        bottom = int(self._starts[last + 1]) if last + 1 < self.n_lines else None
        delta = len(new_text) - (end - start)
        middle = _line_starts(text[top:] if bottom is None else text[top : bottom + delta]) + top
        if bottom is not None:
            middle = middle[:-1]  # its last start is the old line below, which `tail` brings
        tail = self._starts[last + 1 :] + delta
        edited.__dict__["_starts"] = np.concatenate((self._starts[:first], middle, tail))
        if "indent" in self.__dict__ and not _NEWLINE.search(new_text) and first == last:
            edited.__dict__["indent"] = self.indent  # typing within a line does not change a file's style
        return edited

    @cached_property
    def newline(self) -> Newline:
        """The newline most lines end with; `\\n` where there is none."""
        pairs = self.text.count("\r\n")
        counts: dict[Newline, int] = {
            "\n": self.text.count("\n") - pairs,
            "\r\n": pairs,
            "\r": self.text.count("\r") - pairs,
        }
        return max(counts, key=lambda newline: counts[newline])

    @cached_property
    def indent(self) -> IndentStyle:
        """How this document is indented; where it shows nothing, how its language usually is."""
        grammar = grammar_of(self.language)
        return _detect(self.text[:_SAMPLE]) or IndentStyle(grammar.tabs, grammar.width)


def indent_of(line: str, width: int = 4) -> int:
    """Columns of the white space that `line` begins with; a tab reaches to the next multiple of `width`."""
    columns = 0
    for char in line:
        if char == " ":
            columns += 1
        elif char == "\t":
            columns += width - columns % width
        else:
            break
    return columns


def model_text(text: str) -> str:
    """`text` as a model may see it: `\\n` line ends, lone surrogates as U+FFFD."""
    if "\r" in text:
        text = _NEWLINE.sub("\n", text)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def utf8(text: str) -> bytes:
    """UTF-8 with one `?` for each lone surrogate: as many characters as `text` has."""
    return text.encode("utf-8", "replace")


def _line_starts(text: str) -> "Starts":
    # not at the top: importing it takes a sixth of the time in which `initialize` is to be answered
    import numpy as np

    return np.array([0, *(m.end() for m in _NEWLINE.finditer(text))], dtype=np.int64)


def _detect(text: str) -> IndentStyle | None:
    """The style most lines show, or None. The width is the commonest step from a line to a deeper next one."""
    leads = [m.group(1) for m in _INDENTED.finditer(text)]
    tabs = sum(lead.startswith("\t") for lead in leads)
    spaces = sum(lead.startswith("  ") for lead in leads)
    if not tabs and not spaces:
        return None
    if tabs > spaces:
        return IndentStyle(True, 4)
    columns = [len(lead) for lead in leads if "\t" not in lead]
    steps = Counter(b - a for a, b in pairwise(columns) if b - a in (2, 3, 4, 8))
    return IndentStyle(False, steps.most_common(1)[0][0] if steps else 4)
