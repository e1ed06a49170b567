"""The line at the cursor by itself: whether its end is missing, or a keyword in it has stray letters.

Pure. What belongs there is the model's affair. This module knows nothing about models or editors.
"""

import re
from dataclasses import dataclass

from mercury_lsp import syntax
from mercury_lsp.actions.repair import Judge
from mercury_lsp.diffs import Hunk
from mercury_lsp.languages import grammar_of
from mercury_lsp.next_edits.changes import View
from mercury_lsp.region import CLOSERS
from mercury_lsp.text import Document, Span

_COMPLETE = ";:,{})"
"""What a line ends with that is whole, as far as can be seen."""


def slip_at(view: View) -> Hunk | None:
    """A keyword with stray letters before or behind it, on the line of the newest edit, which does not parse."""
    document = view.document
    text = document.line_text(view.line)
    if not view.changes or not any(text in change.new.split("\n") for change in view.changes[-1:]):
        return None
    start = document.line_span(view.line).start
    found: list[Hunk] = []
    for word in re.finditer(r"[^\W\d]\w*", text):
        if word.group() in view.words_of or len(re.findall(rf"\b{word.group()}\b", view.text)) > 1:
            continue
        for known in view.words_of:
            stray = len(word.group()) - len(known)
            if len(known) >= 2 and 0 < stray <= 3 and (word.group().endswith(known) or word.group().startswith(known)):
                found.append(Hunk(Span(start + word.start(), start + word.end()), known))
    if not found:
        return None
    judge = Judge.of(document, found[0])
    if judge.base is None or judge.base.total == 0:
        return None
    return next((h for h in found if judge.after(h) == 0), None)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """variant, cursor: the document as the rest of the line is to be asked for. start: where the variant differs.

    certain: the line cannot stay as it is; else the model must find it much less probable than the finished one.
    """

    variant: Document
    cursor: int
    lead: str = ""
    certain: bool = True


def unfinished(document: Document, cursor: int, *, fresh: bool = False) -> Unfinished | None:
    """The line at the cursor if its end is missing: a comment or decorator just begun, an error at its end, a bare
    name; or, where the user has just written the line (fresh), whatever may follow.

    The cursor stands at the line's end or before nothing but closers; block cursors stand on the character before.
    """
    span = document.line_span(document.line_of(cursor))
    text = span.of(document.text)
    end = span.start + len(text.rstrip())
    word = text.strip()
    if not word or span.end - end > 1:
        return None
    at = end if cursor >= end - 1 else cursor
    comment = grammar_of(document.language).line_comment
    if at == end and comment and comment.startswith(word):
        lead = comment[len(word) :] + " "
        return Unfinished(document.apply(Span(end, span.end), lead, document.version), end + len(lead), lead)
    if at < end and document.text[at] in '([{"' and CLOSERS.fullmatch(document.text[at + 1 : end]):
        at += 1
    if at < end and not (CLOSERS.fullmatch(document.text[at:end]) and document.text[at - 1] in "([{\"'`.,"):
        return None
    if _fails(document, Span(at - 1, at)):
        return Unfinished(document, at)
    bare = re.fullmatch(r"[A-Za-z_][\w.]*", word) is not None and at == end
    growing = fresh and document.text[at - 1] not in _COMPLETE
    if (bare or growing) and syntax.scope_at(document, at) != "comment":
        return Unfinished(document, at, certain=False)
    return None


def _fails(document: Document, end: Span) -> bool:
    """Whether the parser stumbles at the end of a line, or over what follows it."""
    area = syntax.window(document, end.start)
    found = syntax.errors(area.of(document.text), document.language) or ()
    first = end.start - area.start
    below = document.line_span(document.line_of(end.end) + 1).end - area.start
    return any(p.span.start <= below and p.span.end >= first for p in found)


def unfinished_at(view: View) -> Unfinished | None:
    """The unfinished line at the cursor, or a line beside it that cannot stay as it is."""
    document, line = view.document, view.line
    newest = view.changes[-1].new.split("\n") if view.changes else []
    here = unfinished(document, view.cursor, fresh=view.is_fresh(view.cursor) and document.line_text(line) in newest)
    if here is not None:
        return here
    for other in (line - 1, line + 1):
        if 0 <= other < document.n_lines:
            found = unfinished(document, document.line_span(other).end)
            if found is not None and found.certain:
                return found
    return None
