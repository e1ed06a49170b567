"""Definitions in a text: names other files may use, with their signatures, found with tree-sitter.

Which nodes define something is a table in languages.py. A broken text gives what can be recognised; a language without
a row, or a data language, gives nothing. This module knows nothing about files, indexes or what the names are for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node, Parser

from mercury_lsp import syntax
from mercury_lsp.languages import Grammar, grammar_of, language_of
from mercury_lsp.text import utf8

MAX_SYMBOLS = 2_000
"""Of one text: more come from generated files only."""
SIGNATURE_CHARS = 200
_MAX_DEPTH = 12
_LEAF = frozenset({"identifier", "type_identifier", "field_identifier", "property_identifier", "constant", "word"})
_CSS_NAMES = ("class_name", "id_name", "keyframes_name")
_HOLDERS = frozenset({"class", "type"})
_ANNOTATIONS = re.compile(rb"^(?:@[\w.]+(?:\([^()]*\))?\s+|#\[[^\]]*\]\s*)+")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition. container: the class or type it is a member of. line, last_line: 0-based. signature: one line."""

    name: str
    kind: str
    container: str
    line: int
    last_line: int
    signature: str


def definitions(text: str, language: str) -> tuple[Symbol, ...]:
    """The definitions of a text, in its order; at most MAX_SYMBOLS. Nothing inside of functions."""
    name, grammar = language_of(language), grammar_of(language)
    if name is None or not grammar.definitions:
        return ()
    data = utf8(re.sub(r"\r\n?", "\n", text) if "\r" in text else text)
    found: list[Symbol] = []
    for symbol in _walk(_parser(name).parse(data).root_node, grammar, data):
        found.append(symbol)
        if len(found) == MAX_SYMBOLS:
            break
    return tuple(sorted(found, key=lambda symbol: symbol.line))


@lru_cache
def _parser(name: str) -> Parser:
    return Parser(syntax.tree_sitter_language(name))


def _walk(root: Node, grammar: Grammar, data: bytes) -> Iterator[Symbol]:
    todo: list[tuple[Node, str, int]] = [(root, "", 0)]
    while todo:
        node, container, depth = todo.pop()
        children = node.named_children
        inside: list[tuple[Node, str, int]] = []
        for child in children:
            kind = grammar.definitions.get(child.type)
            if kind is None:
                if (child.type in grammar.scopes or child.is_error) and depth < _MAX_DEPTH:
                    inside.append((child, _impl_type(child) or container, depth + 1))
                continue
            names = _names(child)
            if child.type.endswith("_specifier") and _body(child, grammar) is None:
                continue  # a mere mention of a type
            for name, is_function in names:
                what = "function" if is_function and kind == "constant" else kind
                yield Symbol(
                    name,
                    "method" if container and what == "function" else what,
                    container or _receiver(child),
                    child.start_point[0],
                    child.end_point[0],
                    _signature(child, grammar, data, what),
                )
            if kind in _HOLDERS and names and depth < _MAX_DEPTH:
                body = child.child_by_field_name("body")
                if body is not None:
                    inside.append((body, names[0][0], depth + 1))
        todo.extend(reversed(inside))


def _names(node: Node) -> list[tuple[str, bool]]:
    """The names a node defines, and whether each is declared as a function (C)."""
    named = node.children_by_field_name("name")
    if named:
        return [(_text(child), False) for child in named if child.type != ","][:8]
    declarators = node.children_by_field_name("declarator")
    if declarators:
        return [found for child in declarators[:8] if (found := _declared(child)) is not None]
    left = node.child_by_field_name("left") or node.child_by_field_name("property")
    if left is not None:
        if left.type == "member_expression":  # exports.name = ...
            owner, member = left.child_by_field_name("object"), left.child_by_field_name("property")
            exported = owner is not None and _text(owner) in ("exports", "module.exports")
            return [(_text(member), False)] if exported and member is not None else []
        leaf = left.named_children[0] if left.type == "type" and left.named_child_count == 1 else left
        return [(_text(leaf), False)] if leaf.type in _LEAF else []
    leaves = [child for child in _descendants(node, 6) if child.type in _CSS_NAMES]
    return [(_text(leaf), False) for leaf in leaves[:8]]


def _declared(node: Node) -> tuple[str, bool] | None:
    """The name inside a C declarator, or of Java's variable_declarator."""
    function = False
    while node.type not in _LEAF:
        function = function or node.type == "function_declarator"
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if inner is None:
            inner = next((child for child in node.named_children if "declarator" in child.type), None)
        if inner is None:
            return (_text(node), function) if node.type in ("destructor_name", "operator_name") else None
        node = inner
    return _text(node), function


def _descendants(node: Node, depth: int) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == "block":
            return
        yield child
        if depth:
            yield from _descendants(child, depth - 1)


def _impl_type(node: Node) -> str:
    """The type an `impl` is for: its functions are members of it."""
    kind = node.child_by_field_name("type") if node.type == "impl_item" else None
    return re.split(r"[<\s]", _text(kind), maxsplit=1)[0] if kind is not None else ""


def _receiver(node: Node) -> str:
    """The type of a Go method's receiver."""
    receiver = node.child_by_field_name("receiver")
    found = re.search(r"(\w+)(?:\[[^\]]*\])?\s*\)$", _text(receiver)) if receiver is not None else None
    return found[1] if found else ""


def _body(node: Node, grammar: Grammar) -> Node | None:
    body = node.child_by_field_name("body")
    if body is None:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        body = value.child_by_field_name("body") if value is not None else None
    if body is None:
        body = next((child for child in node.named_children if child.type in grammar.block_nodes), None)
    return body


def _signature(node: Node, grammar: Grammar, data: bytes, kind: str) -> str:
    """One line: up to the body, a type or enum with it (its fields are what one needs to know)."""
    start, end = node.start_byte, node.end_byte
    body = _body(node, grammar)
    if body is not None and kind != "type":
        end = body.start_byte
    lead = b""
    parent = node.parent
    if parent is not None and parent.type == "template_declaration":
        start = parent.start_byte
    elif parent is not None and parent.children and parent.children[0] != node:
        first = parent.children[0]
        if not first.is_named and (first.text or b"").isalpha():
            lead = (first.text or b"") + b" "  # const, type, export ...
    text = lead + _ANNOTATIONS.sub(b"", data[start : min(end, start + 4 * SIGNATURE_CHARS)])
    line = " ".join(text.decode("utf-8", "replace").split())
    line = line if kind == "type" else line.rstrip("{ ")
    return line if len(line) <= SIGNATURE_CHARS else line[: SIGNATURE_CHARS - 1] + "…"


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
