"""Syntax errors: how many a text has, and which of its lines to look at to mend them.

tree-sitter says most; it forgives wrong indentation in Python, so for Python the interpreter's own parser has a word
too. Positions are code points. This module knows nothing about models or about how a fault is mended.
"""

import ast
import re
import warnings
from dataclasses import dataclass

from mercury_lsp import syntax
from mercury_lsp.languages import grammar_of
from mercury_lsp.lexical import scan
from mercury_lsp.text import Document, Span, indent_of, model_text

MAX_LINES = 40
"""Lines of one error that are looked at: a parser that lost its way may call a whole file one error."""


@dataclass(frozen=True, slots=True, order=True)
class Count:
    """tree: ERROR and MISSING nodes. refused: 1 if Python's own parser refuses the text, else 0."""

    total: int
    tree: int
    refused: int


def count(text: str, language: str) -> Count | None:
    """The syntax errors of `text`; None for a language that cannot be judged."""
    tree = syntax.n_errors(text, language)
    if tree is None:
        return None
    refused = int(syntax.language_of(language) == "python" and refusal(text) is not None)
    return Count(tree + refused, tree, refused)


def refusal(text: str) -> int | None:
    """The line (0-based) where Python's parser refuses `text`, None where it does not.

    A text that begins indented, such as a part of a class, is taken for the body of a block.
    """
    inner = re.match(r"(?:[ \t]*(?:#.*)?\r?\n)*[ \t]+\S", text) is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is a matter of taste here
            ast.parse(("if 1:\n" if inner else "") + model_text(text))
    except SyntaxError as error:
        return max(0, (error.lineno or 1) - 1 - inner)
    except (ValueError, RecursionError, MemoryError):
        return 0
    return None


def faults(document: Document, span: Span | None = None) -> tuple[Span, ...]:
    """Where the syntax errors are, smallest first, that touch the lines of `span` (the whole document without one).

    With a span only the window around it is parsed; without one the whole document, however long that takes.
    """
    area = syntax.window(document, span.start) if span is not None else Span(0, len(document.text))
    text = area.of(document.text)
    found = [
        Span(p.span.start + area.start, p.span.end + area.start) for p in syntax.errors(text, document.language) or ()
    ]
    # a window that was cut in the middle of a class is refused for its indentation only
    if syntax.language_of(document.language) == "python" and (area.start == 0 or found):
        line = refusal(text)
        if line is not None:
            found.append(document.line_span(line + document.line_of(area.start)))
    if span is not None:
        lines = document.line_of(span.start), document.line_of(span.end)
        found = [f for f in found if document.line_of(f.start) <= lines[1] and document.line_of(f.end) >= lines[0]]
    return tuple(sorted(set(found), key=len))


def pieces(document: Document, area: Span) -> tuple[Span, ...]:
    """The top-level pieces of an area: each from a line that begins something at column 0 to the next such line."""
    first, last = document.line_of(area.start), document.line_of(area.end)
    starts = [first]
    joined = True  # what stands above the first beginning, and decorators, belong to what follows
    for line in range(first, last + 1):
        text = document.line_text(line)
        if not _BEGINS.match(text):
            continue
        if not joined and line > starts[-1]:
            starts.append(line)
        joined = text.startswith(("@", "#["))
    ends = [*starts[1:], last + 1]
    spans = [
        Span(document.line_span(a).start, document.line_span(b - 1, keepend=True).end)
        for a, b in zip(starts, ends, strict=True)
    ]
    return tuple(Span(max(s.start, area.start), min(s.end, area.end)) for s in spans)


def faulty_pieces(document: Document, area: Span, place: Span) -> tuple[Span, ...]:
    """The pieces of an area that have errors on their own, those at `place` first.

    The parser blames the code behind an unclosed bracket; read on its own, only the piece with the bracket is wrong.
    """
    parts = pieces(document, area)
    if len(parts) < 2:
        return ()
    found: list[Span] = []
    for part in parts:
        counted = count(part.of(document.text), document.language)
        if counted is not None and counted.total:
            found.append(part)
    return tuple(sorted(found, key=lambda part: not part.start <= place.start <= part.end))


_BEGINS = re.compile(r"(?!(?:elif|else|except|finally|case|default|catch)\b)[\w@#$\"'<(\[]")


def suspects(document: Document, area: Span, near: Span | None = None) -> tuple[int, ...]:
    """The lines of `area` (numbers in the document) that a fault may be on, the likeliest first.

    near: where the user, or a diagnostic, says that it is.
    """
    text = area.of(document.text)
    first = document.line_of(area.start)
    last = document.line_of(area.end)
    lines: list[int] = []

    def add(line: int, *, before: bool = False) -> None:
        if first <= line <= last and line not in lines:
            lines.append(line)
        if before:
            above = line - 1
            while above > first and not document.line_text(above).strip():
                above -= 1
            if first <= above and above not in lines:
                lines.append(above)

    if syntax.language_of(document.language) == "python" and (refused := refusal(text)) is not None:
        add(first + refused, before=True)
    if near is not None:
        add(document.line_of(near.start), before=True)
    errors = sorted(syntax.errors(text, document.language) or (), key=lambda p: len(p.span))
    for problem in errors:
        add(document.line_of(area.start + problem.span.start), before=True)
        add(document.line_of(area.start + problem.span.end))
    wide: list[int] = []
    for problem in errors:
        top = document.line_of(area.start + problem.span.start)
        wide += range(top, min(document.line_of(area.start + problem.span.end), top + MAX_LINES) + 1)
    for line in [n for n in wide if _unbalanced(document.line_text(n), document.language)]:
        add(line)
    if errors and "}" in grammar_of(document.language).brackets.values():
        for line in range(first, last + 1):
            if ends_unclosed(document, line):
                add(line)
    for line in wide:
        add(line)
    return tuple(lines)


def ends_unclosed(document: Document, line: int) -> bool:
    """Whether a block ends below `line` by its indentation, but no closer stands there."""
    text = document.line_text(line)
    if grammar_of(document.language).colon or not text.strip():
        return False
    below = next((n for n in range(line + 1, min(line + 20, document.n_lines)) if document.line_text(n).strip()), None)
    after = document.line_text(below) if below is not None else ""
    goes_on = re.match(r"\s*([)\]}]|case\b|default\b|#|\w+:$)", after)
    return indent_of(text) > indent_of(after) and not goes_on and not re.match(r"\s*[.)\]]", text)


def _unbalanced(line: str, language: str) -> bool:
    found = scan(line, language)
    opened = found.open[:-1] if re.search(r"[{(\[]\s*$", line) else found.open
    return bool(opened or found.string not in ("", "\n"))
