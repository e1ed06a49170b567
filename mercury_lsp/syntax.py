"""What tree-sitter says about a text: its errors, the scope of a place, what a replacement would add.

All positions are code points. A text whose language has no row in GRAMMARS cannot be judged: the answer is
None, never a guess. Large documents are not parsed whole: `window` picks the lines around a place, cut at top
level as well as can be, and callers judge inside it. This module knows nothing about models or editors.
"""

import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from tree_sitter import Language, Node, Parser, Point, Tree

from mercury_lsp.languages import GRAMMARS, Grammar, grammar_of, language_of
from mercury_lsp.lexical import scan_before
from mercury_lsp.text import Document, Span, indent_of, utf8
from mercury_lsp.units import complete_unit, ends_docstring, opens_block, repeat_start

if TYPE_CHECKING:
    import numpy as np

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

__all__ = [
    "GRAMMARS",
    "Grammar",
    "Parsed",
    "Replacement",
    "SyntaxProblem",
    "anonymous_tokens",
    "complete_unit",
    "ends_docstring",
    "errors",
    "grammar_of",
    "language_of",
    "n_errors",
    "opens_block",
    "parse",
    "repeat_start",
    "scope_at",
    "tree_sitter_language",
    "warm",
    "window",
]

Scope = Literal["code", "comment", "string"]

WINDOW_LINES = 100
"""Lines looked at on each side of a place in a document of more than twice as many."""
_CUT_SEARCH = 60  # lines searched for a top-level line to cut at
_NEAR_END = 50  # lines: a cut so near the ends would rather fall into a header comment or docstring
_MAX_WINDOW = 20_000  # characters: what tree-sitter parses in a few milliseconds, broken code included


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """A place the parser could not make sense of, or where it missed a token (an empty span)."""

    span: Span
    kind: Literal["error", "missing"]


@dataclass(frozen=True)
class Parsed:
    """A text, its bytes and its tree. Nodes speak bytes: `offset` turns them into code points."""

    text: str
    data: bytes
    tree: Tree

    def offset(self, byte: int) -> int:
        """Code point offset of a byte offset of a node."""
        if len(self.data) == len(self.text):
            return byte
        return len(self.data[:byte].decode("utf-8", "ignore"))

    def byte(self, offset: int) -> int:
        """Byte offset of a code point offset."""
        if len(self.data) == len(self.text):
            return offset
        return len(utf8(self.text[:offset]))

    def span(self, node: Node) -> Span:
        """Where a node stands, in code points."""
        return Span(self.offset(node.start_byte), self.offset(node.end_byte))


@lru_cache
def tree_sitter_language(name: str) -> Language:
    """The parser's tables of a row of GRAMMARS."""
    grammar = GRAMMARS[name]
    return Language(cast("object", getattr(import_module(grammar.module), grammar.loader)()))


@lru_cache
def anonymous_tokens(name: str) -> tuple[str, ...]:
    """The keywords and punctuation of a grammar; none for an unknown name."""
    if name not in GRAMMARS:
        return ()
    language = tree_sitter_language(name)
    kinds = range(language.node_kind_count)
    visible = (k for k in kinds if language.node_kind_is_visible(k) and not language.node_kind_is_named(k))
    return tuple(sorted({language.node_kind_for_id(k) or "" for k in visible}))


def warm(document: Document) -> None:
    """Reads and imports now what the first key in a document would wait for; may run in any thread."""
    if document.n_lines and (name := language_of(document.language)):
        tree_sitter_language(name)


class _Parsers(threading.local):
    """Parsers are not to be shared between threads."""

    def __init__(self) -> None:
        self.of: dict[str, Parser] = {}
        self.last: dict[str, Parsed] = {}

    def get(self, name: str) -> Parser:
        if name not in self.of:
            self.of[name] = Parser(tree_sitter_language(name))
        return self.of[name]


_parsers = _Parsers()


def _data(text: str) -> bytes:
    """Bytes for tree-sitter, which knows `\\n` only: a lone `\\r` becomes one, lengths stay."""
    return utf8(re.sub(r"\r(?!\n)", "\n", text) if "\r" in text else text)


@lru_cache(maxsize=16)
def _parse(text: str, name: str) -> Parsed:
    data = _data(text)
    return Parsed(text, data, _parsers.get(name).parse(data))


def parse(text: str, language: str) -> Parsed | None:
    """The tree of `text`, remembered for the texts asked for last; None for an unknown language."""
    name = language_of(language)
    return _parse(text, name) if name else None


def _edited(old: Parsed, data: bytes, start: int, old_end: int, new_end: int) -> Tree:
    """A copy of `old`'s tree that knows that its bytes [start, old_end) are now data[start:new_end]."""
    tree = old.tree.copy()
    tree.edit(
        start_byte=start,
        old_end_byte=old_end,
        new_end_byte=new_end,
        start_point=_point(old.data, start),
        old_end_point=_point(old.data, old_end),
        new_end_point=_point(data, new_end),
    )
    return tree


def _parse_near(text: str, name: str) -> Parsed:
    """The tree of `text`, from the tree of the text this thread parsed last: typing costs what changed."""
    last = _parsers.last.get(name)
    if last is not None and last.text == text:
        return last
    data = _data(text)
    tree = None
    if last is not None:
        import numpy as np  # not at the top: see text.py

        size = min(len(data), len(last.data))
        one, other = np.frombuffer(data, np.uint8), np.frombuffer(last.data, np.uint8)
        start = _n_equal(one[:size], other[:size])
        tail = _n_equal(one[::-1][: size - start], other[::-1][: size - start])
        if start + tail > size // 2:
            tree = _edited(last, data, start, len(last.data) - tail, len(data) - tail)
    parser = _parsers.get(name)
    parsed = Parsed(text, data, parser.parse(data) if tree is None else parser.parse(data, tree))
    _parsers.last[name] = parsed
    return parsed


def _n_equal(one: "Bytes", other: "Bytes") -> int:
    """Number of leading elements that are equal in two arrays of one length."""
    differs = one != other
    return int(differs.argmax()) if differs.any() else len(one)


class Replacement:
    """Judges many replacements of one span of one text: each is parsed from the text's own tree.

    Only what the replacement touches is parsed again.
    """

    def __init__(self, text: str, span: Span, language: str) -> None:
        self.text, self.span, self.name = text, span, language_of(language)
        self.base = _parse_near(text, self.name) if self.name else None

    @property
    def n_errors(self) -> int | None:
        """Problems in the text as it stands; None for an unknown language."""
        return None if self.base is None else len(_problems(self.base))

    def n_errors_with(self, new_text: str) -> int | None:
        """Problems in the text with the span replaced; None for an unknown language."""
        if self.base is None or self.name is None:
            return None
        text = self.text[: self.span.start] + new_text + self.text[self.span.end :]
        data = _data(text)
        start = self.base.byte(self.span.start)
        old_end = self.base.byte(self.span.end)
        new_end = start + len(data) - len(self.base.data) + old_end - start
        tree = _edited(self.base, data, start, old_end, new_end)
        return len(_problems(Parsed(text, data, _parsers.get(self.name).parse(data, tree))))


def _point(data: bytes, byte: int) -> Point:
    return Point(data.count(b"\n", 0, byte), byte - data.rfind(b"\n", 0, byte) - 1)


def _problems(parsed: Parsed) -> list[Node]:
    found: list[Node] = []
    todo = [parsed.tree.root_node]
    while todo:
        node = todo.pop()
        if node.is_error or node.is_missing:
            found.append(node)
        if node.has_error:
            todo.extend(reversed(node.children))
    return found


def errors(text: str, language: str) -> tuple[SyntaxProblem, ...] | None:
    """The problems of `text` in order; None for a language that cannot be judged."""
    parsed = parse(text, language)
    if parsed is None:
        return None
    return tuple(
        SyntaxProblem(parsed.span(node), "missing" if node.is_missing else "error") for node in _problems(parsed)
    )


def n_errors(text: str, language: str) -> int | None:
    """Number of ERROR and MISSING nodes in `text`; None for a language that cannot be judged."""
    parsed = parse(text, language)
    return None if parsed is None else len(_problems(parsed))


def window(document: Document, offset: int) -> Span:
    """The lines to judge a place by: all of a small document, else WINDOW_LINES on each side of its line.

    The cuts move to a line that begins at column 0 and begins something (within _CUT_SEARCH lines), so that
    the window parses like a file; in a class longer than that they stand at its least indented line. Around a
    very long line (minified code) only the neighbourhood of `offset` counts. Errors that the cuts cause are the
    same before and after an edit inside, so comparing them stays fair.
    """
    top, bottom = _window_lines(document, document.line_of(offset))
    start, end = document.line_span(top).start, document.line_span(bottom, keepend=True).end
    if end - start <= _MAX_WINDOW:
        return Span(start, end)
    near = _MAX_WINDOW // 4
    start = max(start, (offset - near) // near * near)
    end = min(end, (offset + 2 * near) // near * near)
    return Span(_line_if_near(document, start, near), end)


def _window_lines(document: Document, line: int) -> tuple[int, int]:
    """The first and the last line of a window; one key asks for the same window several times."""
    known = document.memo.get(("window", line))
    if known is not None:
        return known
    top, bottom = 0, document.n_lines - 1
    if document.n_lines > 2 * WINDOW_LINES:
        if line - WINDOW_LINES > _NEAR_END:
            top = _cut(document, line - WINDOW_LINES)
        if line + WINDOW_LINES < bottom - _NEAR_END:
            bottom = max(line + 1, _cut(document, line + WINDOW_LINES) - 1)
    document.memo["window", line] = top, bottom
    return top, bottom


def _line_if_near(document: Document, start: int, near: int) -> int:
    """The beginning of the line at `start`, unless that is far away."""
    begin = document.line_span(document.line_of(start)).start
    return begin if start - begin < near else start


def _cut(document: Document, line: int) -> int:
    """The line nearest to `line` (at or above it first) that begins something at the least indentation."""
    best, least = line, 1_000
    for candidate in range(line, max(-1, line - _CUT_SEARCH), -1):
        text = document.line_text(candidate)
        if not text or not (text[0].isalnum() or text[0] in "_@#$<. \t"):
            continue  # blank lines and closers begin nothing
        indent = indent_of(text)
        if not text.strip() or re.match(r"(else|elif|except|finally|case|default|catch)\b", text.strip()):
            continue
        if indent < least:
            best, least = candidate, indent
        if indent == 0:
            break
    return best


def scope_at(document: Document, offset: int) -> Scope:
    """Whether `offset` stands in code, in a comment or in a string.

    The end of a line comment belongs to it; just behind a string's closing quote is code again. Where the
    parser failed, or does not know the language, the lexical scan of the window decides.
    """
    grammar = grammar_of(document.language)
    area = window(document, offset)
    text, place = area.of(document.text), offset - area.start
    name = language_of(document.language)
    if name is not None:
        parsed = _parse_near(text, name)
        byte = parsed.byte(place)
        node = parsed.tree.root_node.descendant_for_byte_range(max(byte - 1, 0), max(byte, 0))
        broken = False
        while node is not None:
            if node.type in grammar.code_nodes:
                return "code"
            if node.type in grammar.comment_nodes:
                line_comment = (
                    bool(grammar.line_comment)
                    and utf8(grammar.line_comment)
                    == parsed.data[node.start_byte : node.start_byte + len(grammar.line_comment)]
                )
                inside = node.start_byte < byte and (byte < node.end_byte or line_comment)
                return "comment" if inside and "\n" not in text[parsed.offset(node.end_byte) : place] else "code"
            if node.type in grammar.string_nodes and not node.has_error:
                return "string" if node.start_byte < byte < node.end_byte else "code"
            broken = broken or node.is_error
            node = node.parent
        if not broken and not parsed.tree.root_node.has_error:
            return "code"
    return _scope(scan_before(text[:place], document.language).string, grammar)


def _scope(string: str, grammar: Grammar) -> Scope:
    if not string:
        return "code"
    comments = {"\n", *(end for _, end, _ in grammar.block_comments)}
    return "comment" if string in comments else "string"


def scan_string(text: str, language: str) -> bool:
    """Whether `text` stops inside a string."""
    return _scope(scan_before(text, language).string, grammar_of(language)) == "string"
