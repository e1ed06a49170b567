"""What may change at the cursor, what kind of text belongs there, and what the model is shown around it.

Everything is decided by syntax and indentation, in code points. This module knows nothing about the model but
how to count tokens, and nothing about LSP.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

from mercury_lsp import syntax
from mercury_lsp.languages import grammar_of
from mercury_lsp.lexical import scan_before
from mercury_lsp.text import Document, IndentStyle, Span, model_text
from mercury_model.draft import Infiller, Request

Kind = Literal["line", "block", "rest"]
CountTokens = Callable[[str], int]

CLOSERS = re.compile(r"""\s*[)>}\]"'`]*\s*[:{;,]?\s*""")
"""What may stand right of the cursor for the rest of the line to count as closers, not as code."""

_PIECE = 1_000  # characters: a longer line is counted and cut in pieces of this size
_MAX_COUNTS = 50_000  # lines whose token counts are remembered


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the document the model is shown, in tokens on each side."""

    prefix: int
    suffix: int

    @staticmethod
    def of(infiller: Infiller, tokens: int | None = None, suffix_share: float = 0.25) -> "Budget":
        """`tokens`, or what the infiller's device reads in about a second, shared between both sides."""
        total = tokens or infiller.info.context_tokens
        suffix = int(total * suffix_share)
        return Budget(total - suffix, suffix)


@dataclass(frozen=True)
class EditRegion:
    """What may change, and its surroundings.

    span: the text to be replaced: empty, or the closers right of the cursor up to the end of the line.
    before, after: the windows shown to the model: [before.start, cursor) and [span.end, after.end), cut where
        lines begin. style: how new lines are to be indented, where the client or a file says so.
    """

    document: Document
    span: Span
    cursor: int
    kind: Kind
    before: Span
    after: Span
    style: IndentStyle | None = None

    @property
    def head(self) -> str:
        """The cursor's line up to the cursor."""
        line = self.document.line_of(self.cursor)
        return self.document.text[self.document.line_span(line).start : self.cursor]

    @property
    def replaced(self) -> str:
        """The closers under the span."""
        return self.span.of(self.document.text)

    @cached_property
    def around(self) -> tuple[str, str]:
        """What syntax is judged by: (text up to the cursor, text behind the span), line ends as `\\n`."""
        area = syntax.window(self.document, self.cursor)
        text = self.document.text
        return model_text(text[area.start : self.cursor]), model_text(text[self.span.end : area.end])


def completion_region(
    document: Document,
    cursor: int,
    budget: Budget,
    count_tokens: CountTokens,
    previous: EditRegion | None = None,
) -> EditRegion | None:
    """The region to complete at `cursor`, or None where nothing should be offered.

    | right of the cursor | left of it                                   | kind  |
    |---------------------|----------------------------------------------|-------|
    | inside a word       |                                              | None  |
    | other code          |                                              | rest  |
    | nothing or closers  | a line that has just opened a block          | block |
    |                     | a docstring that ends here                   | block |
    |                     | white space, inside `(`, `[`, data or string | line  |
    |                     | white space anywhere else                    | block |
    |                     | anything else                                | line  |

    previous: the last region of this document; its windows are kept while they fit, so that typing only
    appends to the prefix and leaves the suffix alone (what the model has read stays read).
    """
    text = document.text
    cursor = min(max(cursor, 0), len(text))
    line = document.line_span(document.line_of(cursor))
    cursor = min(cursor, line.end)  # between `\r` and `\n` counts as the end of the line
    head, rest = text[line.start : cursor], text[cursor : line.end]
    if CLOSERS.fullmatch(rest):
        span, kind = Span(cursor, line.end), _kind(document, cursor, head)
    elif _word(head[-1:]) and _word(rest[:1]):
        return None
    else:
        span, kind = Span(cursor, cursor), "rest"
    last = previous if previous is not None and previous.document.uri == document.uri else None
    return EditRegion(
        document,
        span,
        cursor,
        kind,
        Span(_before_start(document, cursor, budget.prefix, count_tokens, last), cursor),
        Span(span.end, _after_end(document, span.end, budget.suffix, count_tokens, last)),
    )


def cut_windows(document: Document, hole: Span, budget: Budget, count_tokens: CountTokens) -> tuple[Span, Span]:
    """The windows before and after a hole that fit the budget, cut where lines begin."""
    before = _before_start(document, hole.start, budget.prefix, count_tokens, None)
    after = _after_end(document, hole.end, budget.suffix, count_tokens, None)
    return Span(before, hole.start), Span(hole.end, after)


def request_for(region: EditRegion, **fields: Any) -> Request:
    """The Request for a region: prefix, suffix, the syntax rule that ends the middle, and the judge of its syntax.

    fields: any other field of Request; `prefix`, `suffix`, `document`, `end` and `judge` may be overridden too.
    """
    text = region.document.text
    before, after = region.around
    end = partial(_end, before, after, region.document.language, region.kind)
    given: dict[str, Any] = {
        "prefix": model_text(region.before.of(text)),
        "suffix": model_text(region.after.of(text)),
        "document": region.document.uri,
        "end": end,
        "judge": partial(_objections, before, model_text(region.replaced), after, region.document.language),
    }
    return Request(**(given | fields))


def _end(before: str, after: str, language: str, kind: Kind, text: str) -> int | None:
    return syntax.complete_unit(before, text, after, language, kind)


def _objections(before: str, replaced: str, after: str, language: str, text: str) -> list[tuple[int, int]]:
    """Spans of `text` under syntax errors, if there are more of them with `text` in place of `replaced` than before.

    Errors elsewhere that the text causes are laid at its nearest end.
    """
    problems = syntax.errors(before + text + after, language)
    if not problems or len(problems) <= (syntax.n_errors(before + replaced + after, language) or 0):
        return []
    n, start = len(text), len(before)
    spans = [(p.span.start - start, p.span.end - start) for p in problems]
    return sorted((min(max(a, 0), n), min(max(b, 0), n)) for a, b in spans)


def _word(char: str) -> bool:
    return bool(char) and (char.isalnum() or char == "_")


def _after_docstring(document: Document, cursor: int, head: str) -> bool:
    """Whether a docstring ends at the cursor: a string that is a statement of its own."""
    if not syntax.ends_docstring(head, document.language):
        return False
    end = cursor - len(head) + len(head.rstrip()) - 3
    start = document.text.rfind(document.text[end : end + 3], 0, end)
    line = document.line_span(document.line_of(max(start, 0)))
    return start >= 0 and document.text[line.start : start].strip() in ("", "r", "R")


def _kind(document: Document, cursor: int, head: str) -> Kind:
    language = document.language
    if head.strip():
        opens = syntax.opens_block(head, language) or _after_docstring(document, cursor, head)
        return "block" if opens and syntax.scope_at(document, cursor) == "code" else "line"
    start = syntax.window(document, cursor).start
    outer = scan_before(model_text(document.text[start:cursor]), language)
    data = (")", "]") if "{" in grammar_of(language).openers else (")", "]", "}")
    return "line" if outer.string or (outer.open and outer.open[-1] in data) else "block"


_counts: "WeakKeyDictionary[Any, dict[str, int]]" = WeakKeyDictionary()


def _tokens(document: Document, span: Span, count_tokens: CountTokens) -> int:
    """Tokens of a line, remembered per tokenizer (weakly: a model that is unloaded must go)."""
    counts = _counts.setdefault(getattr(count_tokens, "__self__", count_tokens), {})
    line = span.of(document.text)
    if line not in counts:
        if len(counts) >= _MAX_COUNTS:
            counts.clear()
        counts[line] = count_tokens(model_text(line))
    return counts[line]


def _pieces_up(document: Document, cursor: int, end: int = 0) -> Iterator[Span]:
    """Spans from `cursor` upwards, a line each (long lines in pieces), down to offset `end`."""
    line = document.line_of(cursor)
    stop = cursor
    while line >= 0 and stop > end:
        start = document.line_span(line).start
        while stop > start:
            piece = start + (stop - 1 - start) // _PIECE * _PIECE
            yield Span(piece, stop)
            stop = piece
        line -= 1


def _pieces_down(document: Document, offset: int) -> Iterator[Span]:
    """Spans from `offset` downwards, a line with its newline each (long lines in pieces)."""
    line, start = document.line_of(offset), offset
    while line < document.n_lines:
        end = document.line_span(line, keepend=True).end
        while start < end:
            piece = min(end, start + _PIECE)
            yield Span(start, piece)
            start = piece
        line += 1


def _before_start(
    document: Document, cursor: int, budget: int, count_tokens: CountTokens, last: EditRegion | None
) -> int:
    """Where the prefix window begins. A window that does not fit any more gives up a quarter at once."""
    kept = None if last is None else _same_start(document, last)
    if kept is not None and kept <= cursor:
        used = 0
        for piece in _pieces_up(document, cursor, kept):
            used += _tokens(document, Span(max(piece.start, kept), piece.end), count_tokens)
            if used > budget:
                return _fill_up(document, cursor, budget - budget // 4, count_tokens)
        if kept == 0 or used > budget // 2:
            return kept
    return _fill_up(document, cursor, budget, count_tokens)


def _fill_up(document: Document, cursor: int, budget: int, count_tokens: CountTokens) -> int:
    start, used = cursor, 0
    for piece in _pieces_up(document, cursor):
        used += _tokens(document, piece, count_tokens)
        if used > budget:
            break
        start = piece.start
    return start


def _same_start(document: Document, last: EditRegion) -> int | None:
    """The offset in `document` where the last prefix window began, if the text there is still the same."""
    old, new = last.document.text, document.text
    probe = old[last.before.start : min(last.before.end, last.before.start + 200)].split("\n", 1)[0]
    for start in (last.before.start, last.before.start + len(new) - len(old)):
        if 0 <= start <= len(new) and new.startswith(probe, start):
            line = document.line_span(document.line_of(start)).start
            if (start - line) % _PIECE == 0:
                return start
    return None


def _after_end(document: Document, start: int, budget: int, count_tokens: CountTokens, last: EditRegion | None) -> int:
    """Where the suffix window ends: kept at its distance from the end of the text while it fits."""
    total = len(document.text)
    if last is not None:
        old = last.document.text
        kept = total - (len(old) - last.after.end)
        size = min(50, kept - start, last.after.end - last.after.start)
        same = size > 0 and document.text[kept - size : kept] == old[last.after.end - size : last.after.end]
        if same or (kept == start == total):
            used = 0
            for piece in _pieces_down(document, start):
                if piece.start >= kept:
                    break
                used += _tokens(document, Span(piece.start, min(piece.end, kept)), count_tokens)
                if used > budget:
                    return _fill_down(document, start, budget - budget // 4, count_tokens)
            if kept == total or used > budget // 2:
                return kept
    return _fill_down(document, start, budget, count_tokens)


def _fill_down(document: Document, start: int, budget: int, count_tokens: CountTokens) -> int:
    end, used = start, 0
    for piece in _pieces_down(document, start):
        used += _tokens(document, piece, count_tokens)
        if used > budget:
            break
        end = piece.end
    return end
