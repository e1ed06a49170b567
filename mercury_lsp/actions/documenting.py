"""Documentation and type annotations of a function, written into holes where they are missing.

The documentation that is there already is taken out first and written anew. This module knows nothing about editors.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from mercury_lsp import filters, syntax
from mercury_lsp.actions.places import Function, Hole, function
from mercury_lsp.actions.remedies import Blank
from mercury_lsp.actions.repair import Room, Work
from mercury_lsp.actions.rewriting import Wish, no_worse, value
from mercury_lsp.diffs import Hunk
from mercury_lsp.region import cut_windows
from mercury_lsp.text import Document, Span, model_text
from mercury_model.draft import Infiller, Request


@dataclass(frozen=True, slots=True)
class _Doc:
    """How a language documents a function. inside: in the body; else above, each line after `line`."""

    opening: str
    closing: str
    inside: bool = False
    line: str = ""


_SLASH_STARS = _Doc("/**\n * ", "*/")
DOCS = {
    "python": _Doc('"""', '"""', inside=True),
    "rust": _Doc("/// ", "", line="///"),
    "go": _Doc("// {name} ", "", line="//"),
    **dict.fromkeys(("javascript", "typescript", "tsx", "java", "c", "cpp"), _SLASH_STARS),
}


def _documented(wish: Wish) -> tuple[Function, _Doc, Span] | None:
    """(the function, how it is documented, the documentation that is there: an empty span where it would go)."""
    document = wish.document
    row = DOCS.get(syntax.language_of(document.language) or "")
    found = function(document, wish.span) if row is not None else None
    if row is None or found is None or found.body is None:
        return None
    if row.inside:
        first = document.text[found.body.start : found.body.end].lstrip()
        quoted = re.match(r'[rRuU]?("""|\'\'\')[\s\S]*?\1', first)
        at = found.body.start
        return found, row, Span(at, at + len(quoted.group()) if quoted else at)
    top = found.line
    first = top
    while first > 0 and re.match(
        rf"\s*({re.escape(row.line)}|@|#\[)" if row.line else r"\s*\*", document.line_text(first - 1)
    ):
        first -= 1
    if not row.line and first < top:
        first -= 1  # the line of `/**`
    start = document.line_span(max(first, 0)).start
    if first == top:
        start = document.line_span(top).start
        return found, row, Span(start, start)
    return found, row, Span(start, document.line_span(top).start)


def documentation_region(wish: Wish) -> Span | None:
    found = _documented(wish)
    return found[0].span if found is not None else None


def documentation(wish: Wish) -> Work:
    found = _documented(wish)
    if found is None:
        return None
    target, row, old = found
    document = wish.document
    head = document.line_text(target.line)
    lead = head[: len(head) - len(head.lstrip())]
    opening = row.opening.replace("{name}", target.name).replace("\n", "\n" + lead)
    if row.inside:
        body = document.line_text(document.line_of(old.start))
        lead = body[: len(body) - len(body.lstrip())]
        if body[: old.start - document.line_span(document.line_of(old.start)).start].strip():
            return None  # a body on the line of its head
        # the closing quotes are the model's to write: their place says where it ended
        at = Hole(old, opening, "" if len(old) else "\n" + lead)
    else:
        at = Hole(old, lead + opening, "\n")
    variant, cursor = at.opened(document)
    newline = document.newline
    n_trail = len(at.trail.replace("\n", newline))
    draft = yield partial(_doc_request, variant, cursor, n_trail, row, lead, wish.room)
    text = _doc_text(row, lead, draft.text if draft is not None else "")
    if text is None:
        return None
    whole = variant.text[at.span.start : cursor] + (text + at.trail).replace("\n", newline)
    hunk = Hunk(at.span, whole)
    return hunk if whole != at.span.of(document.text) and no_worse(document, hunk) else None


def _doc_request(
    document: Document, cursor: int, n_trail: int, row: _Doc, lead: str, room: Room, infiller: Infiller
) -> Request:
    before, after = cut_windows(document, Span(cursor, cursor + n_trail), room(infiller), infiller.count_tokens)
    return Request(
        prefix=model_text(before.of(document.text)),
        suffix=model_text(document.text[cursor : after.end]),
        document=document.uri,
        max_tokens=96,
        end=partial(_doc_end, row, lead),
    )


def _doc_end(row: _Doc, lead: str, text: str) -> int | None:
    """Where documentation ends: behind its closing mark, or before the first line that is no comment."""
    if row.closing:
        at = text.find(row.closing)
        return at + len(row.closing) if at >= 0 else None
    for m in re.finditer(r"\n", text):
        following = text[m.end() :].split("\n", 1)
        if len(following) == 2 and not following[0].strip().startswith(row.line):
            return m.start()
        if len(following[0].strip()) >= len(row.line) and not following[0].strip().startswith(row.line):
            return m.start()
    return None


def _doc_text(row: _Doc, lead: str, text: str) -> str | None:
    """The documentation of a draft, closed; None if there is nothing in it."""
    text = model_text(text)
    end = _doc_end(row, lead, text)
    text = text[:end].rstrip() if end is not None else text.rstrip()
    if row.line:
        first, *more = text.split("\n")
        text = "\n".join((first, *itertools.takewhile(lambda line: line.strip().startswith(row.line), more)))
    words = text.removesuffix(row.closing) if row.closing else text
    if len(re.findall(r"\w", words)) < 3 or "```" in text or filters.special(text):
        return None
    if row.closing and not text.endswith(row.closing):
        # ran out of tokens: what there is of whole lines or sentences
        cut = max(words.rfind("\n"), words.rfind(". ") + 1)
        words = words[:cut].rstrip() if cut > 0 else words.rstrip()
        text = words + (row.closing if row.inside else f"\n{lead} {row.closing}")
    return text


def _blanks(wish: Wish) -> Iterator[Blank]:
    """Where a function lacks type annotations, from the end so that earlier places stay where they are."""
    document = wish.document
    found = function(document, wish.span)
    if found is None or found.parameters is None:
        return
    language = syntax.language_of(document.language)
    here = found.here
    node = found.node
    if node.child_by_field_name("return_type") is None and found.name not in ("constructor",):
        at = found.parameters.end
        yield Blank(Hole(Span(at, at), " -> " if language == "python" else ": "))
    parameters = node.child_by_field_name("parameters")
    children = parameters.named_children if parameters is not None else []
    for index, child in reversed(list(enumerate(children))):
        span = here.span(child)
        name = span.of(document.text)
        if index == 0 and name in ("self", "cls", "this"):
            continue
        if child.type == "identifier":
            yield Blank(Hole(Span(span.end, span.end), ": "))
        elif child.type == "default_parameter":
            first = here.span(child.named_children[0])
            gap = re.match(r"\s*=\s*", document.text[first.end : span.end])
            if gap is not None:
                yield Blank(Hole(Span(first.end, first.end + len(gap.group())), ": ", " = "))
        elif child.type == "required_parameter" and child.child_by_field_name("type") is None:
            pattern = child.child_by_field_name("pattern")
            if pattern is not None and pattern.type == "identifier":
                end = here.span(pattern).end
                yield Blank(Hole(Span(end, end), ": "))


def annotation_region(wish: Wish) -> Span | None:
    if syntax.language_of(wish.document.language) not in ("python", "typescript", "tsx"):
        return None
    found = function(wish.document, wish.span)
    return found.span if found is not None and next(_blanks(wish), None) is not None else None


def annotations(wish: Wish) -> Work:
    region = annotation_region(wish)
    document = wish.document
    if region is None:
        return None
    done = document
    for blank in tuple(_blanks(wish)):
        hunk = yield from value(done, blank, wish.room)
        if hunk is not None and _is_type(hunk.new_text):
            done = done.apply(hunk.span, hunk.new_text, done.version)
    if done is document:
        return None
    end = region.end + len(done.text) - len(document.text)
    return Hunk(region, done.text[region.start : end])


def _is_type(text: str) -> bool:
    """Whether an annotation looks like a type, not like a value or prose."""
    return re.fullmatch(r"\s*(->|:)\s*[\w.\[\], |<>\"'{}?()=]+\s*=?\s*", text) is not None
