"""From a model's text to an Edit that may be shown: the filters in order, then the parser's word.

Pure: a region and a text in, an Edit or None out, whatever the text. An Edit never deletes anything but the
closers right of the cursor, and it brings those back. This module knows nothing about LSP or models.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mercury_lsp import syntax
from mercury_lsp.filters import FILTERS, missing_closers
from mercury_lsp.region import EditRegion
from mercury_lsp.text import Document, IndentStyle, Span

__all__ = ["FILTERS", "Edit", "completion_edit", "filtered"]

_MAX_TRIES = 24  # parses spent on cutting a text back
_DANGLING = re.compile(r"\s*(?:(?:[-+*/%=<>&|^!~.,\\]|\b(?:and|or|not|in|is|if|else|as))\s*)+$")
"""What waits for an operand at the end of a text that was cut off; left out if that mends the line."""
_MAX_TEXT = 20_000  # characters: no suggestion is that long


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of one span, current for one version of one document.

    new_text: `\\n` line ends; whoever writes it into the buffer uses the buffer's own (see `apply`).
    confidence: 0 to 1, the model's. valid: whether the buffer parses no worse with it; None where its language
    cannot be judged.
    """

    uri: str
    version: int | None
    span: Span
    new_text: str
    confidence: float = 1.0
    valid: bool | None = None

    def apply(self, document: Document) -> str:
        """The whole text after the edit, line ends as the document has them."""
        new_text = self.new_text.replace("\n", document.newline)
        return document.text[: self.span.start] + new_text + document.text[self.span.end :]


def filtered(region: EditRegion, text: str) -> str | None:
    """`text` after all FILTERS, or None if one of them drops it."""
    for _, step in FILTERS:
        kept = step(region, text)
        if not kept:
            return None
        text = kept
    return text


def completion_edit(
    region: EditRegion, text: str, *, confidence: float = 1.0, style: IndentStyle | None = None
) -> Edit | None:
    """The edit that puts `text` into `region`, or None if nothing of it is worth offering.

    style: how the client (or a settings file) wants new lines indented; without it, as the document is.
    A text that would add syntax errors is cut back to its longest prefix, of whole lines and then of tokens,
    that adds none. Errors the buffer has already, such as the unfinished line itself, are not held against it.
    """
    if style is not None:
        region = replace(region, style=style)
    ready = filtered(region, text[:_MAX_TEXT])
    if ready is None:
        return None
    ready, valid = _no_worse(region, ready)
    if ready is None or not _changes(region, ready):
        return None
    document = region.document
    return Edit(document.uri, document.version, region.span, ready, confidence, valid)


def _changes(region: EditRegion, text: str) -> bool:
    return bool(text.strip()) and text.rstrip() != region.replaced.rstrip()


def _no_worse(region: EditRegion, text: str) -> tuple[str | None, bool | None]:
    """(the longest part of `text` that adds no syntax error, whether the parser said so)."""
    document = region.document
    area = syntax.window(document, region.cursor)
    span = Span(region.span.start - area.start, region.span.end - area.start)
    judge = syntax.Replacement(area.of(document.text), span, document.language)
    allowed = judge.n_errors
    if allowed is None:
        return text, None
    for part in _parts(region, text):
        found = judge.n_errors_with(part)
        if found is not None and found <= allowed:
            for mended in _mended(region, part) if found else ():
                if (judge.n_errors_with(mended) or 0) < found:
                    return mended, True
            return part, True
    return None, False


def _mended(region: EditRegion, text: str) -> Iterator[str]:
    """What may parse better than `text`: without an operator at its end, or without a closer that stood right
    of the cursor and closes nothing."""
    whole = _DANGLING.sub("", text)
    if whole.strip() and whole != text:
        yield whole + missing_closers(region, whole)
    closers = region.replaced.strip()
    for size in range(1, len(closers) + 1):
        if text.endswith(closers[-size:]) and closers[-size] not in ":;," and text[:-size].strip():
            yield text[:-size]


def _parts(region: EditRegion, text: str) -> Iterator[str]:
    """`text`, then shorter and shorter prefixes of it, each with the closers that must not be lost."""
    yield text
    tries, seen = 0, {text}
    for part in _prefixes(text):
        part = part.rstrip()
        if not part.strip():
            return
        part += missing_closers(region, part)
        if part in seen:
            continue
        seen.add(part)
        yield part
        tries += 1
        if tries == _MAX_TRIES:
            return


def _prefixes(text: str) -> Iterator[str]:
    lines = text.split("\n")
    whole = range(len(lines) - 1, 0, -1)
    for count in list(whole)[: _MAX_TRIES // 2]:
        yield "\n".join(lines[:count])
    tokens = list(re.finditer(r"\w+|[^\w\s]", lines[0]))
    for token in reversed(tokens[:-1]):
        yield lines[0][: token.end()]
