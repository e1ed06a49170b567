"""Where things are in a document: the statement, function, call or hole around a place.

Found with tree-sitter in the window around the place; where the language is unknown or the text broken, by lines.
Everything in code points of the document. This module knows nothing about models or edits.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from mercury_lsp import syntax
from mercury_lsp.languages import grammar_of
from mercury_lsp.text import Document, Span, indent_of

MAX_STATEMENT = 12
"""Lines: a longer statement is not rewritten for the sake of one place in it; the lines of the place are."""

_CALLS = frozenset(("call", "call_expression", "new_expression", "macro_invocation", "method_invocation"))
_ARGUMENTS = ("argument_list", "arguments")
_MARKERS = re.compile(
    r"""(?ix)
    (?P<whole> ^[ \t]*(?: pass | \.\.\. ) [ \t]* (?=$|\#|;) )
    | (?P<call> \b(?: raise[ ]NotImplementedError(?:\([^()\n]*\))?
        | (?:todo|unimplemented)!\((?:[^()\n]*)\)
        | panic\(\s*"[^"\n]*(?:not[ ]implemented|unimplemented|todo)[^"\n]*"\s*\)
        | throw[ ]new[ ]Error\(\s*["'`][^"'`\n]*(?:not[ ](?:yet[ ])?implemented|unimplemented|todo)[^"'`\n]*["'`]\s*\)
        | throw[ ]new[ ](?:UnsupportedOperation|NotImplemented)Exception\([^()\n]*\) ) ;? )
    """
)


@dataclass(frozen=True, slots=True)
class Hole:
    """A place for code to come: `span` is taken out, and the code stands between `lead` and `trail`."""

    span: Span
    lead: str = ""
    trail: str = ""

    def opened(self, document: Document) -> tuple[Document, int]:
        """(the document with the hole opened, where the code goes)."""
        newline = document.newline
        lead, trail = self.lead.replace("\n", newline), self.trail.replace("\n", newline)
        return document.apply(self.span, lead + trail, document.version), self.span.start + len(lead)


@dataclass(frozen=True, slots=True)
class Function:
    """A function: all of it, its parameter list with the brackets, its body, and the line it begins on."""

    span: Span
    name: str
    parameters: Span | None
    body: Span | None
    line: int
    node: Node
    here: "Here"


class Here:
    """The parsed window around an offset; None of it leaves this module but nodes and spans."""

    def __init__(self, document: Document, offset: int) -> None:
        self.document = document
        self.area = syntax.window(document, offset)
        self.parsed = syntax.parse(self.area.of(document.text), document.language)

    def span(self, node: Node) -> Span:
        """Where a node stands in the document."""
        assert self.parsed is not None
        inner = self.parsed.span(node)
        return Span(inner.start + self.area.start, inner.end + self.area.start)

    def node(self, span: Span) -> Node | None:
        """The smallest node over a span of the document."""
        if self.parsed is None:
            return None
        start = self.parsed.byte(max(span.start - self.area.start, 0))
        end = self.parsed.byte(max(span.end - self.area.start, 0))
        return self.parsed.tree.root_node.descendant_for_byte_range(start, end)

    def outwards(self, span: Span) -> Iterator[Node]:
        """The nodes over a span, from the smallest to the root."""
        node = self.node(span)
        while node is not None:
            yield node
            node = node.parent

    def first(self, span: Span, wanted: Callable[[Node], bool]) -> Node | None:
        return next((node for node in self.outwards(span) if wanted(node)), None)


def lines_over(document: Document, span: Span) -> Span:
    """The whole lines of a span, without the white space before the first line's text and the last newline.

    A span that ends where a line begins does not touch that line.
    """
    first, last = document.line_of(span.start), document.line_of(span.end)
    if last > first and span.end == document.line_span(last).start:
        last -= 1
    top = document.line_span(first)
    text = top.of(document.text)
    return Span(top.start + len(text) - len(text.lstrip()), max(document.line_span(last).end, top.start))


def statement(document: Document, span: Span) -> Span:
    """The statement around a span; of one with a block of its own that the span is not in, only the head."""
    here = Here(document, span.start)
    blocks = grammar_of(document.language).block_nodes
    found = here.first(
        span, lambda node: node.parent is not None and (node.parent.type in blocks or node.parent.parent is None)
    )
    if found is None or found.is_error:
        return lines_over(document, span)
    whole = here.span(found)
    block = next((b for b in _descendants(found, blocks) if here.span(b).start >= span.end), None)
    if block is not None:
        head = document.text[whole.start : here.span(block).start].rstrip()
        whole = Span(whole.start, document.line_span(document.line_of(whole.start + len(head))).end)
    result = lines_over(document, Span(min(whole.start, span.start), max(whole.end, span.end)))
    if document.line_of(result.end) - document.line_of(result.start) >= MAX_STATEMENT:
        return lines_over(document, span)
    return result


def _descendants(node: Node, kinds: frozenset[str]) -> Iterator[Node]:
    """The outermost descendants of these kinds."""
    for child in node.children:
        if child.type in kinds:
            yield child
        else:
            yield from _descendants(child, kinds)


def function(document: Document, span: Span) -> Function | None:
    """The innermost named function around a span."""
    kinds = grammar_of(document.language).function_nodes
    here = Here(document, span.start)
    node = here.first(span, lambda node: node.type in kinds and node.child_by_field_name("name") is not None)
    if node is None:
        return None
    name, parameters = node.child_by_field_name("name"), node.child_by_field_name("parameters")
    body = node.child_by_field_name("body")
    return Function(
        here.span(node),
        here.span(name).of(document.text) if name is not None else "",
        here.span(parameters) if parameters is not None else None,
        here.span(body) if body is not None else None,
        document.line_of(here.span(node).start),
        node,
        here,
    )


def arguments(document: Document, span: Span) -> tuple[Span, tuple[Span, ...]] | None:
    """(the argument list with its brackets, its arguments) of the call at a span, None where none is.

    A diagnostic may stand on the whole call, on its name, or on its arguments.
    """
    here = Here(document, span.start)
    call = here.first(span, lambda node: node.type in _CALLS or node.type in _ARGUMENTS)
    inner = call if call is not None and call.type in _ARGUMENTS else None
    if inner is None and call is not None:
        inner = next((child for child in call.children if child.type in _ARGUMENTS), None)
    if inner is None:
        return None
    return here.span(inner), tuple(here.span(child) for child in inner.named_children if "comment" not in child.type)


def hole(document: Document, span: Span) -> Hole | None:
    """The hole on the lines of a span: `pass`, `todo!()`, a comment that promises code, an empty body."""
    first, last = document.line_of(span.start), document.line_of(span.end)
    for line in range(first, min(last, first + 40) + 1):
        found = _marked(document, line)
        if found is not None:
            return found
    return _empty_body(document, span) or _promised(document, first)


def _marked(document: Document, line: int) -> Hole | None:
    where = document.line_span(line)
    text = where.of(document.text)
    found = _MARKERS.search(text)
    if found is None or syntax.scope_at(document, where.start + found.end()) == "string":
        return None
    if found.lastgroup == "whole" and not grammar_of(document.language).colon:
        return None  # in other languages `...` and `pass` mean something else
    start = found.start() + len(found.group()) - len(found.group().lstrip())
    return Hole(Span(where.start + start, where.start + found.start() + len(found.group().rstrip())))


def _promised(document: Document, line: int) -> Hole | None:
    """Below a comment `TODO`."""
    where = document.line_span(line)
    text = where.of(document.text)
    comment = grammar_of(document.language).line_comment
    if not comment or not re.match(rf"\s*{re.escape(comment)}.*\b(TODO|FIXME)\b", text):
        return None
    lead = text[: len(text) - len(text.lstrip())]
    return Hole(Span(where.end, where.end), "\n" + lead)


def _empty_body(document: Document, span: Span) -> Hole | None:
    found = function(document, span)
    unit = document.indent.unit
    if found is not None and found.body is not None:
        body = found.body.of(document.text)
        if body.startswith("{") and body.endswith("}") and not body[1:-1].strip():
            line = document.line_text(document.line_of(found.span.start))
            lead = line[: len(line) - len(line.lstrip())]
            inside = Span(found.body.start + 1, found.body.end - 1)
            return Hole(inside, "\n" + lead + unit, "\n" + lead)
    line = document.line_of(span.start)
    text = document.line_text(line)
    if not grammar_of(document.language).colon or not syntax.opens_block(text, document.language):
        return None
    below = next((n for n in range(line + 1, document.n_lines) if document.line_text(n).strip()), None)
    if below is not None and indent_of(document.line_text(below)) > indent_of(text):
        return None
    end = document.line_span(line).end
    return Hole(Span(end, end), "\n" + text[: len(text) - len(text.lstrip())] + unit)


def end_of_body(document: Document, found: Function) -> Hole | None:
    """Behind the last statement of a function's body."""
    if found.body is None:
        return None
    body = found.body.of(document.text)
    end = found.body.end
    if body.endswith("}"):
        inner = body[:-1].rstrip()
        end = found.body.start + len(inner)
        if len(inner) <= 1:
            return _empty_body(document, found.span)
    else:
        end = found.body.start + len(body.rstrip())
    last = document.line_text(document.line_of(max(end - 1, 0)))
    head = document.line_text(found.line)
    lead = head[: len(head) - len(head.lstrip())] + document.indent.unit
    own = last[: len(last) - len(last.lstrip())]
    if not body.startswith("{"):
        first = document.line_text(document.line_of(found.body.start))
        lead = first[: len(first) - len(first.lstrip())]
    elif indent_of(own) == indent_of(lead):
        lead = own
    return Hole(Span(end, end), "\n" + lead)
