"""Everything that can be asked of a place in a document: one table of tasks.

A task says which region it would touch, without asking the model, and does its work as a generator (rewriting.py).
This module knows nothing about editors, threads or the wire.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from mercury_lsp.actions import faults
from mercury_lsp.actions.documenting import annotation_region, annotations, documentation, documentation_region
from mercury_lsp.actions.places import Function, Hole, end_of_body, function, hole, lines_over, statement
from mercury_lsp.actions.remedies import Blank, doubtful, narrowed, remedies
from mercury_lsp.actions.repair import Candidate, Work, choose, repair
from mercury_lsp.actions.rewriting import Wish, fill, rewrite, value
from mercury_lsp.diffs import Hunk
from mercury_lsp.text import Span

_SYNTAX = re.compile(r"[Ss]yntax ?[Ee]rror|[Pp]arsing error|[Uu]nexpected|^[Ee]xpected|unterminated|was never closed")
MAX_ROUNDS = 10  # faults mended by one repair of a whole document


@dataclass(frozen=True, slots=True)
class Task:
    """region: what the task would touch, None where it does not apply; cheap, never asks the model.
    work: what does it."""

    title: str
    region: Callable[[Wish], Span | None]
    work: Callable[[Wish], Work]


def mend(wish: Wish) -> Work:
    """A diagnostic's remedy: syntax first, then what its words say, then other tokens for the doubtful ones.

    Only if none of them is accepted is the model asked in words: it tends to write more than it should.
    """
    document, complaint = wish.document, wish.complaint
    if complaint is None:
        return None
    if faults.faults(document, complaint.span) or (_SYNTAX.search(complaint.message) and faults.faults(document)):
        hunk = yield from repair(document, complaint.span, wish.room)
        if hunk is not None:
            return hunk
    found = remedies(document, complaint)
    hunk = yield from choose(document, [r for r in found if isinstance(r, Candidate)], wish.room)
    if hunk is not None:
        return hunk
    for blank in (r for r in found if isinstance(r, Blank)):
        hunk = yield from value(document, blank, wish.room)
        if hunk is not None:
            return hunk
    span = statement(document, complaint.span)
    doubted = doubtful(document, complaint)
    wrong = doubted[0].of(document.text) if len(doubted) == 1 and doubted[0].of(document.text).isidentifier() else ""
    for spans in dict.fromkeys((tuple(n for d in doubted for n in narrowed(document, d)), doubted)):
        hunk = yield from rewrite(document, span, wish.room, doubted=spans, wrong=wrong)
        if hunk is not None:
            return hunk
    told = f"Fix: {complaint.message}" + (f" ({complaint.code})" if complaint.code else "")
    return (yield from rewrite(document, span, wish.room, instruction=told, doubted=doubted, wrong=wrong))


def _fault_region(wish: Wish) -> Span | None:
    found = faults.faults(wish.document, wish.span)
    return lines_over(wish.document, found[0]) if found else None


def _repair(wish: Wish) -> Work:
    return (yield from repair(wish.document, wish.span, wish.room))


def repair_all(wish: Wish) -> Work:
    """Every syntax error that can be mended, one after the other."""
    document = wish.document
    for _ in range(MAX_ROUNDS):
        hunk = yield from repair(document, None, wish.room)
        if hunk is None:
            break
        document = document.apply(hunk.span, hunk.new_text, document.version)
    if document is wish.document:
        return None
    return Hunk(Span(0, len(wish.document.text)), document.text)


def _any_fault(wish: Wish) -> Span | None:
    return Span(0, len(wish.document.text)) if faults.faults(wish.document) else None


def _hole_region(wish: Wish) -> Span | None:
    found = hole(wish.document, wish.span)
    return found.span if found is not None else None


def _fill(wish: Wish) -> Work:
    found = hole(wish.document, wish.span)
    if found is None:
        return None
    return (yield from fill(wish.document, found, wish.room))


def _completable(wish: Wish) -> tuple[Function, Hole] | None:
    found = function(wish.document, wish.span)
    end = end_of_body(wish.document, found) if found is not None else None
    return (found, end) if found is not None and end is not None else None


def _complete_region(wish: Wish) -> Span | None:
    found = _completable(wish)
    return found[0].span if found is not None else None


def _complete(wish: Wish) -> Work:
    marked = hole(wish.document, wish.span)
    found = _completable(wish)
    if found is None:
        return None
    return (yield from fill(wish.document, marked or found[1], wish.room))


def _selection(wish: Wish) -> Span | None:
    return lines_over(wish.document, wish.span) if wish.span.of(wish.document.text).strip() else None


def _rewrite(wish: Wish) -> Work:
    span = _selection(wish) or lines_over(wish.document, wish.span)
    shrink = bool(wish.instruction)
    return (yield from rewrite(wish.document, span, wish.room, instruction=wish.instruction, shrink=shrink))


def _simplify(wish: Wish) -> Work:
    span = _selection(wish)
    told = wish.instruction or "Simplify this code without changing what it does."
    return (yield from rewrite(wish.document, span, wish.room, instruction=told, shrink=True)) if span else None


TASKS: dict[str, Task] = {
    "mend": Task("Fix", lambda wish: statement(wish.document, wish.span), mend),
    "repair": Task("Fix this syntax error", _fault_region, _repair),
    "fill": Task("Fill this hole", _hole_region, _fill),
    "complete": Task("Complete this function", _complete_region, _complete),
    "rewrite": Task("Rewrite the selection", _selection, _rewrite),
    "docstring": Task("Add or repair the documentation", documentation_region, documentation),
    "annotate": Task("Add type annotations", annotation_region, annotations),
    "simplify": Task("Simplify the selection", _selection, _simplify),
    "repair_all": Task("Fix all syntax errors", _any_fault, repair_all),
}
"""Everything that can be asked of a place."""
